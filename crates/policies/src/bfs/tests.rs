use super::ratio;
use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Span;

/// sched-BFS.txt: 128, then a tenth more per level; nice 19 is about 41 times nice -20.
#[test]
fn ratios_grow_by_a_tenth() {
    assert_eq!([ratio(-20), ratio(-19), ratio(-18)], [128, 140, 154]);
    assert!((ratio(0) as f64 / 128.0 - 1.1f64.powi(20)).abs() < 0.2, "{}", ratio(0));
    let last = ratio(19) as f64 / 128.0;
    assert!((39.0..=41.2).contains(&last), "{last}");
}

#[test]
fn equal_hogs_take_turns_of_rr_interval() {
    let hog = TaskSpec::nice(0, &[Run(12)]);
    let log = Lab::new("bfs", 1).param("rr_interval", "6ms").draw(30, &[hog.clone(), hog]);
    assert_eq!(log, ["AAAAAABBBBBBAAAAAABBBBBB"]);
}

#[test]
fn a_sleeper_keeps_its_deadline_and_preempts() {
    // B runs 2 of its 6 ms, sleeps 10 and has at 16 the deadline of its first slice, before A's newer one: it preempts
    let tasks = [TaskSpec::nice(0, &[Run(20)]), TaskSpec::nice(0, &[Run(2), Sleep(8), Run(2)])];
    let log = Lab::new("bfs", 1).param("rr_interval", "6ms").draw(40, &tasks);
    assert_eq!(log, ["AAAAAABBAAAAAAAABBAAAAAA"]);
}

/// Two hogs: the better one runs as long as its new deadline comes before the other's, so that it has one
/// slice more than the number of slices by which the deadlines differ.
#[test]
fn shares_of_two_hogs_follow_the_deadlines() {
    for nice in 1..=10 {
        let tasks = [TaskSpec::nice(0, &[Run(60_000)]), TaskSpec::nice(nice, &[Run(60_000)])];
        let lab = Lab::new("bfs", 1).param("rr_interval", "6ms");
        let measured = lab.run(Span::from_s(30), &tasks).unwrap();
        let shares = measured.cpu[0].as_ns() as f64 / measured.cpu[1].as_ns() as f64;
        let slices = (ratio(nice) - ratio(0)) / 128 + 1;
        assert!((shares / slices as f64 - 1.0).abs() < 0.03, "nice {nice}: {shares}, expected {slices}");
    }
}

/// Harmony, findings 3 and 8: [8,0,0,0] is fair in all runs, and five tasks on four CPUs have within 1 % of 80 % each.
#[test]
fn harmonys_fairness() {
    let hog = |release| TaskSpec::nice(0, &[Run(70_000)]).bound("0", release);
    let eight = Lab::new("bfs", 4).run(Span::from_s(31), &vec![hog(1000); 8]).unwrap();
    for cpu in &eight.cpu {
        assert!((cpu.as_s_f64() - 15.125).abs() < 0.3, "{:?}", eight.cpu);
    }
    let five = Lab::new("bfs", 4).run(Span::from_s(61), &vec![hog(1000); 5]).unwrap();
    for cpu in &five.cpu {
        let share = (cpu.as_s_f64() - 0.2) / 60.0;
        assert!((share - 0.8).abs() < 0.01, "{:?}", five.cpu);
    }
}
