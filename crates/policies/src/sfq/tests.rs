use super::Sfq;
use crate::Wfq;
use crate::testing::{Life::*, Worked, assert_worked, cycle, schedule_with};
use schedlab_stdx::Random;

#[test]
fn the_worked_example() {
    let worked = Worked { order: "ABCABA", sixths: (-3, 3), hundreds: (-300, 300) };
    assert_worked("sfq", &|| Box::new(Sfq::new(1)), worked);
}

/// SFQ is WFQ backwards: least start instead of least finish. Read from the end of a cycle, a start is a
/// finish; so the errors change signs. Ties are broken differently, by at most the clients that tie; without
/// ties (pairwise coprime shares) it is exact.
#[test]
fn the_mirror_of_wfq() {
    let primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71];
    let mut random = Random::new(4);
    for _ in 0..100 {
        let mut shares = primes.to_vec();
        random.shuffle(&mut shares);
        shares.truncate(2 + random.below(10) as usize);
        let (sfq, wfq) = (cycle(&mut Sfq::new(1), &shares), cycle(&mut Wfq::new(1), &shares));
        assert!(sfq.from_start.high < sfq.total as i64, "never a quantum ahead: {shares:?}");
        assert!(sfq.exact_at_end);
        // all clients tie at the beginning (SFQ) and at the end (WFQ) of a cycle: the order among these n is
        // free, and moves an error by less than n shares of one quantum each
        let slack = shares.len() as i64 * shares.iter().max().map_or(0, |&share| share as i64);
        assert!((sfq.from_start.low + wfq.from_start.high).abs() <= slack, "{shares:?}: {sfq:?} {wfq:?}");
        assert!((sfq.from_start.high + wfq.from_start.low).abs() <= slack, "{shares:?}: {sfq:?} {wfq:?}");
    }
}

#[test]
fn a_sleeper_starts_at_the_start_in_service() {
    // equal shares, quantum 2 ms. B sleeps from 3 to 9; the quantum then in service started at virtual time 8, and so
    // does B
    // ms   0         1         2
    //      012345678901234567890123456789
    // cpu0 AABAAAAAAAABBAABBAABBAABBAABAA
    let params = [("quantum", "2ms"), ("shares", "1")];
    let lives: [&[_]; 2] = [&[Run(20)], &[Run(1), Sleep(6), Run(9)]];
    assert_eq!(schedule_with("sfq", &params, 1, 40, &lives), ["AABAAAAAAAABBAABBAABBAABBAABAA"]);
}
