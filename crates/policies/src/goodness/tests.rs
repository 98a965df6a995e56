use super::Version;
use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Nice;

fn ticks(version: Version, hz: u64, nice: i32) -> u64 {
    version.ticks(Nice::new(nice).unwrap(), hz)
}

/// WARP, figure 8: 110, 80, 60, 30, 10 ms; the kernel's scaling at other rates.
#[test]
fn slices_are_those_of_the_papers() {
    for (nice, ms) in [(-20, 110), (-10, 80), (0, 60), (10, 30), (19, 10)] {
        assert_eq!(ticks(Version::V2_4, 100, nice) * 10, ms, "nice {nice}");
    }
    assert_eq!(ticks(Version::V2_4, 1000, 0), 41); // (20 << 1) + 1
    assert_eq!(ticks(Version::V2_4, 256, -20), 21); // (40 >> 1) + 1
    // VTRR: 2.2's tasks run for 200 to 210 ms by default
    for (nice, ticks_expected) in [(-20, 40), (0, 20), (10, 10), (19, 1)] {
        assert_eq!(ticks(Version::V2_2, 100, nice), ticks_expected, "nice {nice}");
    }
}

#[test]
fn an_epoch_gives_each_its_ticks() {
    // 10 ms  0         1         2
    //        0123456789012345678901
    // cpu0   AAAAAABBBAAAAAABBBAABB    ticks(0) = 6, ticks(10) = 3; the last ones as the work ends
    let log = Lab::new("linux-2.4", 1)
        .unit_ms(10)
        .draw(30, &[TaskSpec::nice(0, &[Run(140)]), TaskSpec::nice(10, &[Run(80)])]);
    assert_eq!(log, ["AAAAAABBBAAAAAABBBAABB"]);
}

#[test]
fn a_sleeper_saves_half_and_wakes_with_more() {
    // 10 ms  0         1         2         3         4
    //        01234567890123456789012345678901234567890
    // cpu0   BBBBBBABBBBBBBBBBBBBBBAAAAAAAAAABBBBBBBBB
    // B, new last, is first in the list. A sleeps at 7 with a counter of 5; epochs at 7, 13, 19 make it 5/2 + 6 = 8,
    // 8/2 + 6 = 10, 10/2 + 6 = 11: at 22 it is better than B (counter 3), preempts it, and its 11 ticks are enough
    // for its 100 ms.
    let log = Lab::new("linux-2.4", 1)
        .unit_ms(10)
        .draw(60, &[TaskSpec::nice(0, &[Run(10), Sleep(150), Run(100)]), TaskSpec::nice(0, &[Run(300)])]);
    assert_eq!(log, ["BBBBBBABBBBBBBBBBBBBBBAAAAAAAAAABBBBBBBBB"]);
}

#[test]
fn v2_2_runs_a_tick_longer_than_its_counter() {
    let log = Lab::new("linux-2.2", 1)
        .unit_ms(10)
        .draw(70, &[TaskSpec::nice(0, &[Run(250)]), TaskSpec::nice(0, &[Run(250)])]);
    // equal goodness in the second epoch: the current task goes on
    assert_eq!(log, [["B".repeat(21), "A".repeat(25), "B".repeat(4)].concat()]);
}

#[test]
fn a_woken_task_goes_to_its_idle_cpu() {
    // 10 ms  0
    //        012345678
    // cpu0   BBBBBBB      B is first in the list
    // cpu1   AA..AA
    let log = Lab::new("linux-2.4", 2)
        .unit_ms(10)
        .draw(10, &[TaskSpec::nice(0, &[Run(20), Sleep(20), Run(20)]), TaskSpec::nice(0, &[Run(70)])]);
    assert_eq!(log, ["BBBBBBB", "AA..AA"]);
}

#[test]
fn real_time_comes_first() {
    // B is FIFO: it runs to its end; then RR tasks C and D of equal priority take turns of ticks(0) = 60 ms
    let log = Lab::new("linux-2.4", 1).unit_ms(10).draw(
        60,
        &[
            TaskSpec::nice(0, &[Run(20)]),
            TaskSpec::fifo(5, &[Run(100)]),
            TaskSpec::rr(3, &[Run(90)]),
            TaskSpec::rr(3, &[Run(60)]),
        ],
    );
    let tail = log[0].strip_prefix("BBBBBBBBBB").unwrap();
    assert!(tail == "CCCCCCDDDDDDCCCAA" || tail == "DDDDDDCCCCCCCCCAA", "{tail}");
}
