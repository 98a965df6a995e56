use super::{Wfq, WfqList};
use crate::testing::{Life::*, Worked, assert_worked, cycle, random_shares, schedule_with};
use schedlab_stdx::Random;

#[test]
fn the_worked_example() {
    let worked = || Worked { order: "ABAABC", sixths: (-5, 6), hundreds: (-500, 600) };
    assert_worked("wfq", &|| Box::new(Wfq::new(1)), worked());
    assert_worked("wfq-list", &|| Box::new(WfqList::new(1)), worked());
}

/// The published guarantee: no client falls a whole quantum behind. Cycles are exact; heap and list decide alike.
#[test]
fn never_a_quantum_behind() {
    let mut random = Random::new(11);
    for _ in 0..300 {
        let shares = random_shares(&mut random, 1..=40, 200);
        let errors = cycle(&mut Wfq::new(1), &shares);
        assert!(errors.exact_at_end && errors.from_start.low > -(errors.total as i64), "{shares:?}");
        assert_eq!(errors, cycle(&mut WfqList::new(1), &shares));
    }
}

#[test]
fn a_sleeper_has_no_credit() {
    // equal shares, quantum 2 ms. B sleeps from 3 to 9 at virtual time 1 and comes back at the queue's, 7.5 (which
    // advances at the end of quanta): it is served twice until it is where A is, 12, not nine times; then they
    // alternate.
    // ms   0         1         2
    //      012345678901234567890123456789
    // cpu0 AABAAAAAAAABBBBAABBAABBAABAAAA
    let params = [("quantum", "2ms"), ("shares", "1")];
    let lives: [&[_]; 2] = [&[Run(20)], &[Run(1), Sleep(6), Run(9)]];
    for sched in ["wfq", "wfq-list"] {
        assert_eq!(
            schedule_with(sched, &params, 1, 40, &lives),
            ["AABAAAAAAAABBBBAABBAABBAABAAAA"],
            "{sched}"
        );
    }
}

#[test]
fn two_cpus_share_one_queue() {
    // shares 2,1,1 on 2 CPUs: A is due one CPU and has it; B and C alternate
    // ms   0         1
    //      012345
    // cpu0 AAAAAA
    // cpu1 BCBCBC
    let params = [("quantum", "1ms"), ("shares", "2,1,1")];
    let lives: [&[_]; 3] = [&[Run(6)], &[Run(3)], &[Run(3)]];
    let drawn = schedule_with("wfq", &params, 2, 30, &lives);
    let served = |letter| drawn.concat().matches(letter).count();
    assert_eq!(
        (served('A'), served('B'), served('C'), drawn[0].len(), drawn[1].len()),
        (6, 3, 3, 6, 6),
        "{drawn:?}"
    );
}
