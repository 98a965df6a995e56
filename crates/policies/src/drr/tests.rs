use super::Drr;
use crate::proportional::quantum;
use crate::testing::{Life::*, cycle, random_shares, schedule_with};
use schedlab_stdx::Random;

#[test]
fn with_a_quantum_per_share_it_is_weighted_round_robin() {
    assert_eq!(quantum::order(&mut Drr::new(1, 1, 1), &[3, 2, 1], 6), "AAABBC");
    let range = |shares: &[u64]| cycle(&mut Drr::new(1, 1, 1), shares).from_start;
    assert_eq!(range(&[3, 2, 1]), quantum::Range { low: -6, high: 9 });
    assert_eq!(range(&[300, 200, 100]), quantum::Range { low: -60_000, high: 90_000 });
    let drawn =
        |params: &[(&str, &str)]| schedule_with("drr", params, 1, 20, &[&[Run(6)], &[Run(4)], &[Run(2)]]);
    assert_eq!(drawn(&[("quantum", "1ms"), ("credit", "1ms"), ("shares", "3,2,1")]), ["AAABBCAAABBC"]);
    // half the credit: the example in the module. A's deficit is 3/2, then 1/2 + 3/2 = 2; C's 1/2, then 1
    assert_eq!(drawn(&[("quantum", "1ms"), ("credit", "500us"), ("shares", "3,2,1")]), ["ABAABCABAABC"]);
    // a credit far below a quantum: turns without service are skipped, long-run shares are kept
    assert_eq!(drawn(&[("quantum", "1ms"), ("credit", "1us"), ("shares", "3,2,1")]).concat().len(), 12);
}

/// A client is never owed or ahead by more than its turn's credit and a quantum: exact shares over a cycle
/// that credit divides.
#[test]
fn cycles_are_exact() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let shares = random_shares(&mut random, 2..=31, 50);
        assert!(cycle(&mut Drr::new(1, 1, 1), &shares).exact_at_end, "{shares:?}");
    }
}

#[test]
fn a_block_loses_the_deficit() {
    // quantum 2 ms; credits 3 and 2 ms. A blocks at 1 with 2 of its 3 ms left, which are lost: at 3 it has 3, one
    // quantum, not 5, two. The ms left over from that turn counts for the next: 4, two quanta.
    // ms   0         1
    //      0123456789012
    // cpu0 ABBAABBAAAABB
    let params = [("quantum", "2ms"), ("credit", "1ms"), ("shares", "3,2")];
    let lives: [&[_]; 2] = [&[Run(1), Sleep(1), Run(6)], &[Run(6)]];
    assert_eq!(schedule_with("drr", &params, 1, 20, &lives), ["ABBAABBAAAABB"]);
}
