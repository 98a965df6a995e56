use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Span;

#[test]
fn a_hog_gets_its_budget_each_period() {
    let tasks = [TaskSpec::deadline(2, 5, 5, &[Run(6)]), TaskSpec::nice(0, &[Run(9)])];
    assert_eq!(Lab::new("cbs", 1).draw(20, &tasks), ["AABBBAABBBAABBB"]);
}

#[test]
fn without_others_hard_servers_idle_and_soft_ones_do_not() {
    let tasks = [TaskSpec::deadline(2, 5, 5, &[Run(6)])];
    assert_eq!(Lab::new("cbs", 1).draw(20, &tasks), ["AA...AA...AA"]);
    assert_eq!(Lab::new("cbs", 1).param("mode", "soft").draw(20, &tasks), ["AAAAAA"]);
}

/// Isolation: whatever a neighbour does beyond its reservation, a task that keeps to its own meets its deadlines.
#[test]
fn a_misbehaving_server_harms_only_itself() {
    let tasks = [
        TaskSpec::deadline(3, 10, 10, &[Run(3)]).periodic(10, 100),
        TaskSpec::deadline(12, 20, 20, &[Run(10_000)]), // declares 12 of 20, wants all
        TaskSpec::nice(0, &[Run(10_000)]),
    ];
    let measured = Lab::new("cbs", 1).run(Span::from_s(1), &tasks).unwrap();
    assert_eq!(measured.responses[0].len(), 100);
    assert!(measured.worst_response(0) <= Span::from_ms(10), "{}", measured.worst_response(0));
    assert_eq!(measured.cpu[1], Span::from_ms(600)); // 12 of 20
    assert!(measured.cpu[2] >= Span::from_ms(99)); // the rest: 1 - 0.3 - 0.6
    // the same without servers: plain EDF lets the hog's job, whose deadline is long past, starve the others
    let edf = Lab::new("gedf", 1).run(Span::from_s(1), &tasks).unwrap();
    assert!(edf.worst_response(0) > Span::from_ms(10) || edf.responses[0].len() < 100);
}

#[test]
fn admission_refuses_what_does_not_fit() {
    let hog = TaskSpec::deadline(4, 10, 10, &[Run(10_000)]);
    let measured = Lab::new("cbs", 1).run(Span::from_s(1), &vec![hog.clone(); 3]).unwrap();
    assert_eq!(measured.warnings.len(), 1, "{:?}", measured.warnings);
    assert!(measured.warnings[0].contains("t2") && measured.warnings[0].contains("refused"));
    assert_eq!(measured.cpu, [Span::from_ms(400), Span::from_ms(400), Span::from_ms(200)]);
    // two CPUs have room for four
    assert!(Lab::new("cbs", 2).run(Span::from_s(1), &vec![hog; 4]).unwrap().warnings.is_empty());
}

/// The wakeup rule. A (Q = 4, P = 10) runs 2 of its 4 ms and sleeps until 7: 2 ms of budget in the 3 ms to
/// its deadline would be more than 4 in 10, so that it starts anew with 4 ms and the deadline 17. After a
/// sleep until 3 it keeps both: 2 in 7 is less.
#[test]
fn a_wakeup_keeps_or_renews_the_budget() {
    let hog = TaskSpec::nice(0, &[Run(30)]);
    let late = TaskSpec::deadline(4, 10, 10, &[Run(2), Sleep(5), Run(6)]);
    // 4 ms from 7 on, then throttled until 17
    assert_eq!(Lab::new("cbs", 1).draw(60, &[late, hog.clone()])[0][..20], *"AABBBBBAAAABBBBBBAAB");
    let early = TaskSpec::deadline(4, 10, 10, &[Run(2), Sleep(1), Run(6)]);
    // the other 2 ms from 3 on, then throttled until 10
    assert_eq!(Lab::new("cbs", 1).draw(60, &[early, hog])[0][..16], *"AABAABBBBBAAAABB");
}

#[test]
fn the_earliest_deadlines_run_on_several_cpus() {
    // three servers on two CPUs; A and B have the earlier deadlines, C follows on the CPU that is free first
    let tasks = [
        TaskSpec::deadline(3, 10, 10, &[Run(3)]),
        TaskSpec::deadline(5, 12, 12, &[Run(5)]),
        TaskSpec::deadline(4, 20, 20, &[Run(4)]),
    ];
    assert_eq!(Lab::new("cbs", 2).draw(20, &tasks), ["AAACCCC", "BBBBB"]);
}
