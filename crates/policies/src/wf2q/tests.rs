use super::Wf2q;
use crate::testing::{Life::*, Worked, assert_worked, cycle, random_shares, schedule_with};
use schedlab_stdx::Random;

#[test]
fn the_worked_example() {
    let worked = Worked { order: "ABABAC", sixths: (-5, 4), hundreds: (-500, 400) };
    assert_worked("wf2q", &|| Box::new(Wf2q::new(1)), worked);
}

/// The published guarantee: always less than a quantum ahead and behind.
#[test]
fn always_within_a_quantum() {
    let mut random = Random::new(12);
    for _ in 0..500 {
        let shares = random_shares(&mut random, 1..=60, 300);
        let errors = cycle(&mut Wf2q::new(1), &shares);
        let total = errors.total as i64;
        assert!(errors.exact_at_end);
        assert!(errors.from_start.low > -total && errors.from_start.high < total, "{shares:?}");
    }
}

#[test]
fn a_large_share_is_not_served_ahead() {
    // shares 4,1,1,1,1, quantum 1 ms. WFQ would serve A four times in a row (finishes 1/4, 2/4, 3/4, 1); here A is
    // eligible again only when it has had its due: every other quantum
    // ms   01234567
    // cpu0 ABACADAE
    let params = [("quantum", "1ms"), ("shares", "4,1")];
    let lives: [&[_]; 5] = [&[Run(4)], &[Run(1)], &[Run(1)], &[Run(1)], &[Run(1)]];
    assert_eq!(schedule_with("wf2q", &params, 1, 20, &lives), ["ABACADAE"]);
    assert_eq!(schedule_with("wfq", &params, 1, 20, &lives), ["AAAABCDE"]);
}
