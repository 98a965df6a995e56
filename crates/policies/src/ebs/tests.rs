use super::shares;
use crate::lab::{Lab, Step::*, TaskSpec, fairbench};
use schedlab_units::{Nice, Span};

/// WARP's figure 8.
#[test]
fn shares_are_those_of_the_paper() {
    for (nice, expected) in [(-20, 420), (-10, 120), (0, 20), (10, 10), (19, 1)] {
        assert_eq!(shares(Nice::new(nice).unwrap()), expected, "nice {nice}");
    }
}

#[test]
fn promotion_follows_the_decay() {
    // from level 101.5 to 100.5 of 20: a factor of 3, log2(3) * 5 s = 7.925 s
    let after = super::time_to_decay(3, 1, Span::from_s(5));
    assert!((after.as_s_f64() - 3f64.log2() * 5.0).abs() < 1e-4, "{after}");
}

#[test]
fn equal_tasks_take_turns_of_100_ms() {
    // 50 ms   0         1
    //         0123456789012345
    // cpu0    AABBAABBAABBAABB
    let hog = TaskSpec::nice(0, &[Run(400)]);
    let log = Lab::new("ebs", 1).unit_ms(50).draw(20, &[hog.clone(), hog]);
    assert_eq!(log, ["AABBAABBAABBAABB"]);
}

#[test]
fn a_sleeper_preempts_hogs() {
    // A's usage is nothing: at 500 ms it has level 100 and B, which uses all of the CPU, has level 120
    let tasks = [TaskSpec::nice(0, &[Run(50)]).from_ms(500), TaskSpec::nice(0, &[Run(550)])];
    let log = Lab::new("ebs", 1).unit_ms(50).draw(30, &tasks);
    assert_eq!(log, ["BBBBBBBBBBAB"]);
}

/// WARP, section V.D: "only a 10 % difference" between nice -20 and -10, where the shares say 250 %; a
/// staircase all the same.
#[test]
fn fairbench_is_unfair_as_published() {
    let duration = Span::from_s(180);
    let measured = Lab::new("ebs", 1).run(duration, &fairbench(duration)).unwrap();
    let shares = measured.group_shares(5);
    assert!(shares[0] / shares[1] < 1.25, "{shares:?}");
    assert!(shares.is_sorted_by(|a, b| a > b), "{shares:?}");
}
