use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Span;

#[test]
fn priority_rules_and_a_preempted_task_keeps_its_place() {
    // ms    0         1
    //       012345678901
    // cpu0  AAACCAAABBBB    C (20) preempts A (10) at 3; A goes on before B, which has waited with the same priority
    let tasks = [
        TaskSpec::fifo(10, &[Run(6)]),
        TaskSpec::fifo(10, &[Run(4)]),
        TaskSpec::fifo(20, &[Run(2)]).from_ms(3),
    ];
    assert_eq!(Lab::new("posix", 1).draw(20, &tasks), ["AAACCAAABBBB"]);
}

#[test]
fn round_robin_rotates_and_keeps_the_rest_of_a_slice() {
    // 50 ms  0         1
    //        0123456789
    // cpu0   ACABBAABBA     slice 100 ms; C takes 50 at 50, A keeps the 50 that are left of its slice
    let tasks = [
        TaskSpec::rr(5, &[Run(250)]),
        TaskSpec::rr(5, &[Run(200)]),
        TaskSpec::fifo(9, &[Run(50)]).from_ms(50),
    ];
    assert_eq!(Lab::new("posix", 1).unit_ms(50).draw(20, &tasks), ["ACABBAABBA"]);
}

#[test]
fn a_yield_goes_behind_equals() {
    let tasks = [TaskSpec::fifo(5, &[Run(2), Yield, Run(2)]), TaskSpec::fifo(5, &[Run(3)])];
    assert_eq!(Lab::new("posix", 1).draw(20, &tasks), ["AABBBAA"]);
}

#[test]
fn the_highest_run_on_several_cpus() {
    // ms    0         1
    //       0123456789
    // cpu0  AAAAACCCC      A (10) and B (20) run; C (30), bound to nothing, pushes A, the lowest, away at 2;
    //                      A waits and is pulled when B ends
    // cpu1  ...
    let tasks = [
        TaskSpec::fifo(10, &[Run(5)]),
        TaskSpec::fifo(20, &[Run(6)]),
        TaskSpec::fifo(30, &[Run(6)]).from_ms(2),
    ];
    let log = Lab::new("posix", 2).draw(20, &tasks);
    let at = |ms: usize| -> String {
        let mut now: Vec<char> = log.iter().filter_map(|line| line.chars().nth(ms)).collect();
        now.sort();
        now.into_iter().collect()
    };
    assert_eq!([at(0), at(1), at(2), at(5)].map(|s| s.replace('.', "")), ["AB", "AB", "BC", "BC"], "{log:?}");
    assert_eq!(at(6).replace('.', ""), "AC", "{log:?}"); // pulled at once
}

#[test]
fn normal_tasks_run_below() {
    let tasks = [TaskSpec::nice(0, &[Run(4)]), TaskSpec::fifo(1, &[Run(3)]).from_ms(2)];
    assert_eq!(Lab::new("posix", 1).draw(20, &tasks), ["AABBBAA"]);
    let tasks = [TaskSpec::nice(-20, &[Run(1000)]), TaskSpec::rr(1, &[Run(1000)])];
    assert_eq!(Lab::new("posix", 1).run(Span::from_ms(500), &tasks).unwrap().cpu[0], Span::ZERO);
}
