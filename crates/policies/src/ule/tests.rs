use super::score;
use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Span;

#[test]
fn the_score_compares_sleep_and_run() {
    let s = Span::from_ms;
    assert_eq!([score(s(0), s(0)), score(s(9), s(1)), score(s(5), s(5))], [50, 5, 50]);
    assert_eq!([score(s(1), s(9)), score(s(0), s(9))], [95, 100]);
}

#[test]
fn hogs_share_the_slice() {
    // slice 94 ms / 2 tasks = 47 ms each
    let hog = TaskSpec::nice(0, &[Run(94)]);
    let drawn = Lab::new("ule", 1).draw(200, &[hog.clone(), hog]).remove(0);
    assert_eq!(drawn, ["A".repeat(47), "B".repeat(47), "A".repeat(47), "B".repeat(47)].concat());
}

#[test]
fn an_interactive_task_preempts() {
    let tasks =
        [TaskSpec::nice(0, &[Run(5_000)]), TaskSpec::nice(0, &[Run(1), Sleep(9)]).repeat(200).from_ms(1000)];
    let measured = Lab::new("ule", 1).run(Span::from_s(3), &tasks).unwrap();
    assert_eq!(measured.worst_wait(1), Span::ZERO);
}

#[test]
fn a_nice_hog_does_not_starve() {
    let tasks = [TaskSpec::nice(-10, &[Run(60_000)]), TaskSpec::nice(10, &[Run(60_000)])];
    let measured = Lab::new("ule", 1).run(Span::from_s(30), &tasks).unwrap();
    assert!(measured.cpu[1] > Span::from_s(1) && measured.cpu[0] > measured.cpu[1], "{:?}", measured.cpu);
}

/// Bouron et al.: ULE balances long-running tasks slowly but to perfection.
#[test]
fn balance_is_slow_and_perfect() {
    let hog = TaskSpec::nice(0, &[Run(60_000)]).bound("0", 1000);
    let measured = Lab::new("ule", 4).run(Span::from_s(40), &vec![hog; 16]).unwrap();
    let end = Span::from_s(40).as_ns();
    let mut last = [0u32; 16];
    for &(cpu, _, to, task) in measured.runs() {
        if task.index() < 16 && to <= end {
            last[task.index()] = cpu as u32;
        }
    }
    for cpu in 0..4 {
        assert_eq!(last.iter().filter(|&&c| c == cpu).count(), 4, "{last:?}");
    }
}
