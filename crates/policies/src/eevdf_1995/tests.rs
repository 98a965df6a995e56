use super::Eevdf1995;
use crate::Wf2q;
use crate::proportional::Discipline;
use crate::testing::{Life::*, Worked, assert_worked, cycle, random_shares, schedule_with};
use schedlab_stdx::Random;
use schedlab_units::TaskId;

#[test]
fn the_worked_example() {
    let worked = Worked { order: "ABABAC", sixths: (-5, 4), hundreds: (-500, 400) };
    assert_worked("eevdf-1995", &|| Box::new(Eevdf1995::new(1)), worked);
}

#[test]
fn with_requests_of_a_quantum_it_is_wf2q() {
    let mut random = Random::new(14);
    for _ in 0..100 {
        let shares = random_shares(&mut random, 1..=40, 200);
        assert_eq!(cycle(&mut Eevdf1995::new(1), &shares), cycle(&mut Wf2q::new(1), &shares));
    }
}

/// The sum of lags is zero whatever joins and leaves: the theorem on which the equations for V rest.
/// Rounding: one 2^-64 per step.
#[test]
fn lags_sum_to_zero() {
    let mut random = Random::new(15);
    let mut queue = Eevdf1995::new(10);
    let mut present: Vec<TaskId> = Vec::new();
    for step in 0..20_000i128 {
        let client = TaskId(random.below(12) as u32);
        let place = present.iter().position(|&c| c == client);
        match (random.below(4), place) {
            (0, None) => {
                queue.join(client, 1 + random.below(9));
                present.push(client);
            }
            (1, Some(place)) if present.len() > 1 => {
                queue.leave(client);
                present.swap_remove(place);
            }
            _ => {
                if let Some(client) = queue.select(&|_| true) {
                    queue.charge(client, 1 + random.below(10));
                    queue.put(client);
                }
            }
        }
        let lags = present.iter().map(|client| {
            let clock = &queue.clients[client.index()].eligible;
            (queue.time.time() - clock.time()) * i128::from(clock.share())
        });
        let sum: i128 = lags.sum();
        assert!(sum.abs() <= 200 * (step + 1), "after step {step}: {sum} x 2^-64");
    }
}

/// The equations, on numbers: equal shares, A has 6 where 3 is due, lag -3, V = 3. It leaves: V = 3 - 3/1 =
/// 0. It comes back at once: ve = 0 + 3, V = 0 + 3/2: it is still ahead, by 3/2.
#[test]
fn lag_is_kept_while_away() {
    let mut queue = Eevdf1995::new(10);
    let (a, b) = (TaskId(0), TaskId(1));
    queue.join(a, 1);
    queue.join(b, 1);
    assert_eq!(queue.select(&|_| true), Some(a));
    queue.charge(a, 6);
    let one = 1i128 << 64;
    assert_eq!(queue.time.time(), 3 * one);
    queue.leave(a);
    assert_eq!((queue.time.time(), queue.clients[0].lag), (0, -3 * one));
    queue.join(a, 1);
    assert_eq!((queue.time.time(), queue.clients[0].eligible.time()), (3 * one / 2, 3 * one));
}

#[test]
fn a_sleeper_has_no_credit() {
    // as in wfq/tests.rs, where the times are explained; V steps to 2 when B leaves at 3, and to 7.75 when it is back
    // at 9
    // ms   0         1         2
    //      012345678901234567890123456789
    // cpu0 AABAAAAAAAABBBBAABBAABBAABAAAA
    let params = [("quantum", "2ms"), ("shares", "1")];
    let lives: [&[_]; 2] = [&[Run(20)], &[Run(1), Sleep(6), Run(9)]];
    assert_eq!(schedule_with("eevdf-1995", &params, 1, 40, &lives), ["AABAAAAAAAABBBBAABBAABBAABAAAA"]);
}
