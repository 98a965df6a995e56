use super::{Fenwick, Lottery};
use crate::proportional::{Discipline, quantum};
use schedlab_stdx::Random;
use schedlab_units::TaskId;

/// Draws follow the shares: chi-square over 60,000 quanta, 4 degrees of freedom; 18.5 is exceeded once in 1,000 seeds.
#[test]
fn shares_hold_on_average() {
    let shares = [10, 7, 5, 2, 1];
    let mut had = [0u64; 5];
    let quanta = 60_000;
    quantum::serve(&mut Lottery::new(1, 42), &shares, quanta, |client, _, length| {
        had[client.index()] += length
    });
    let total: u64 = shares.iter().sum();
    let chi: f64 = shares
        .iter()
        .zip(had)
        .map(|(&share, had)| {
            let due = quanta as f64 * share as f64 / total as f64;
            (had as f64 - due).powi(2) / due
        })
        .sum();
    assert!(chi < 18.5, "chi-square {chi}, {had:?}");
}

#[test]
fn the_seed_decides() {
    let order = |seed| quantum::order(&mut Lottery::new(1, seed), &[3, 2, 1], 50);
    assert_eq!(order(1), order(1));
    assert!(order(1) != order(2));
}

/// A client that uses a quarter of its quantum wins four times as often, and so has its share of the time.
#[test]
fn compensation_keeps_the_share() {
    let mut lottery = Lottery::new(100, 7);
    let (a, b) = (TaskId(0), TaskId(1));
    lottery.join(a, 1);
    lottery.join(b, 1);
    let mut had = [0u64; 2];
    for _ in 0..40_000 {
        let client = lottery.select(&|_| true).unwrap();
        let used = if client == a { 25 } else { 100 };
        had[client.index()] += used;
        lottery.charge(client, used);
        lottery.put(client);
    }
    let share = had[0] as f64 / (had[0] + had[1]) as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn partial_sums_find_the_owner() {
    let mut random = Random::new(2);
    let mut tree = Fenwick::default();
    let mut plain: Vec<u64> = Vec::new();
    for round in 0..200 {
        let row = random.below(1 + round) as usize;
        plain.resize(plain.len().max(row + 1), 0);
        if plain[row] > 0 && random.below(2) == 0 {
            tree.subtract(row, std::mem::take(&mut plain[row]));
        } else {
            let amount = 1 + random.below(9);
            tree.add(row, amount);
            plain[row] += amount;
        }
        assert_eq!(tree.total, plain.iter().sum::<u64>());
        let mut ticket = 0;
        for (row, &amount) in plain.iter().enumerate() {
            for _ in 0..amount {
                assert_eq!(tree.find(ticket), row);
                ticket += 1;
            }
        }
    }
}
