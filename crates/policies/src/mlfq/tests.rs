use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Span;

#[test]
fn hogs_sink_and_take_longer_turns() {
    // 10 ms  0         1
    //        01234567890123
    // cpu0   ABAABBAAAABBBBA   10 ms each on level 0, 20 on level 1, 40 on level 2 and from then on
    let log = Lab::new("mlfq", 1)
        .unit_ms(10)
        .draw(30, &[TaskSpec::nice(0, &[Run(80)]), TaskSpec::nice(0, &[Run(70)])]);
    assert_eq!(log, ["ABAABBAAAABBBBA"]);
}

#[test]
fn a_short_task_preempts_until_its_allotment_is_used() {
    // A is on level 2 from 30 on. B (1 ms, then 9 ms of sleep) comes at 40, preempts at each wakeup for ten times 1 ms
    let tasks =
        [TaskSpec::nice(0, &[Run(300)]), TaskSpec::nice(0, &[Run(1), Sleep(9)]).repeat(9).from_ms(40)];
    let measured = Lab::new("mlfq", 1).run(Span::from_ms(200), &tasks).unwrap();
    assert_eq!(measured.worst_wait(1), Span::ZERO);
}

#[test]
fn a_boost_lifts_all() {
    // B, new, would starve A from 500 ms on if it were never boosted: B's pieces of 5 ms stay on level 0 for
    // two turns only
    let tasks = [TaskSpec::nice(0, &[Run(5_000)]), TaskSpec::nice(0, &[Run(5_000)]).from_ms(500)];
    let measured = Lab::new("mlfq", 1).param("boost", "100ms").run(Span::from_s(4), &tasks).unwrap();
    assert!((measured.cpu[1].as_s_f64() - 1.75).abs() < 0.1, "{:?}", measured.cpu);
}
