use super::Version;
use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_machine::{Machine, Setup};
use schedlab_topology::Topology;
use schedlab_units::Span;

/// WARP's figure 8 for 2.6.7; the kernel's table for 2.6.18 (sched-design.txt: 5 ms to 800 ms, 100 ms at nice 0).
#[test]
fn slices_are_those_of_the_papers() {
    for (nice, old_ms, new_ms) in
        [(-20, 200, 800), (-10, 151, 600), (-1, 107, 420), (0, 102, 100), (10, 53, 50), (19, 10, 5)]
    {
        assert_eq!(Version::V2_6_7.slice_ms(120 + nice), old_ms, "2.6.7, nice {nice}");
        assert_eq!(Version::V2_6_18.slice_ms(120 + nice), new_ms, "2.6.18, nice {nice}");
    }
}

/// Runs of letters: "A100 B5".
fn runs(sched: &str, limit: u64, tasks: &[TaskSpec]) -> String {
    let drawn = Lab::new(sched, 1).draw(limit, tasks).remove(0);
    let mut runs: Vec<(char, u32)> = Vec::new();
    for letter in drawn.chars() {
        match runs.last_mut() {
            Some((last, n)) if *last == letter => *n += 1,
            _ => runs.push((letter, 1)),
        }
    }
    runs.iter().map(|(letter, n)| format!("{letter}{n}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn hogs_take_turns_of_their_slices() {
    // expired after its slice, each waits until the active array is empty
    let tasks = [TaskSpec::nice(0, &[Run(250)]), TaskSpec::nice(10, &[Run(120)])];
    assert_eq!(runs("o1-2.6.18", 400, &tasks), "A100 B50 A100 B50 A50 B20");
    assert_eq!(runs("o1-2.6.7", 400, &tasks), "A102 B53 A102 B53 A46 B14");
}

#[test]
fn an_interactive_task_preempts_and_stays_active() {
    // A slept a second before its first run: 2.6.18 lifts it to INTERACTIVE_SLEEP = 1 s * (5 + 2 + 1) / 10 -
    // a tick = 799 ms, so its bonus is 7 - 5 = 2 levels: interactive. B, a hog, has bonus -5. A preempts at
    // 1000 and needs 250 ms: at the end of its slice of 100 ms it goes back to the active array (the expired
    // array has B only since its slices ended; it does not starve yet) as long as its bonus lasts. Running
    // costs a seventh of the time at bonus 7, a sixth at 6, so that 250 ms cost about 40 ms: level 123 at
    // worst, far better than B's 125.
    let tasks = [TaskSpec::nice(0, &[Run(250)]).from_ms(1000), TaskSpec::nice(0, &[Run(1300)])];
    assert_eq!(runs("o1-2.6.18", 2000, &tasks), "B1000 A250 B300");
}

#[test]
fn a_better_static_priority_among_the_expired_ends_the_favour() {
    // As above, but B has nice -5: once B is expired, A (nice 0) must go to the expired array at the end of
    // its slice. B's slice is 400 * 25 / 20 = 500 ms, level 115 + 5 = 120; A has level 118 after its sleep
    // and preempts B at 700, in B's second slice (B: alone, expired at 500 and swapped at once). A's slice of
    // 100 ms is over at 800; B is active, no one is expired, and so A stays active: it runs on until it has
    // used up what it saved: level 119, 120 after bonus 6 and 5.
    let tasks = [TaskSpec::nice(0, &[Run(150)]).from_ms(700), TaskSpec::nice(-5, &[Run(1000)])];
    assert_eq!(runs("o1-2.6.18", 2000, &tasks), "B700 A150 B300");
}

#[test]
fn parent_and_child_share_a_slice() {
    // A forks B after 40 ms, with 60 of its 100 ticks left: each gets 30; the child runs first.
    // ms 0..40 A, 40..70 B (its first slice), 70..100 A, then both have slices of 100.
    let ms = Span::from_ms;
    let mut builder = schedlab_workload::Builder::new();
    let a = builder.task("A").inherits().id();
    let b = builder.life(a).run(ms(40)).fork("B");
    builder.life(a).run(ms(80)).exit();
    builder.life(b).run(ms(80)).exit();
    let workload = builder.finish().unwrap();
    let mut records = Vec::new();
    let policy = crate::find("o1-2.6.18").unwrap().build(&[]).unwrap();
    let setup = Setup { topology: Topology::flat(1).unwrap(), duration: None, params: vec![] };
    let program = schedlab_machine::Program::new(&workload).unwrap();
    Machine::new(schedlab_machine::native::Native::new(policy, &mut records), program, setup).run();
    let switches: Vec<(u64, u32)> = records
        .iter()
        .filter(|r| r.kind() == Some(schedlab_log::Kind::Switch))
        .map(|r| (r.time_ns / 1_000_000, r.other().0))
        .collect();
    let idle = schedlab_units::TaskId::IDLE.0;
    assert_eq!(switches, [(0, 0), (40, 1), (70, 0), (100, 1), (150, 0), (200, idle)]);
}

/// Harmony, findings 1 to 3: [8,0,0,0] on four CPUs becomes 2,2,2,2 within 250 ms by six migrations, then
/// nothing moves, and all have the same CPU time.
#[test]
fn eight_hogs_on_one_cpu_spread_in_steps() {
    let hog = TaskSpec::nice(0, &[Run(20_000)]).bound("0", 1000);
    let measured = Lab::new("o1-2.6.18", 4).run(Span::from_s(11), &vec![hog; 8]).unwrap();
    assert_eq!(measured.migrations.iter().sum::<u64>(), 6);
    let moved = measured.records.iter().filter(|r| r.kind() == Some(schedlab_log::Kind::Migrate));
    let last_ms = moved.map(|r| r.time_ns / 1_000_000).max().unwrap();
    assert!((1000..=1250).contains(&last_ms), "last move at {last_ms} ms");
    for cpu in &measured.cpu {
        assert!((cpu.as_s_f64() - 5.125).abs() < 0.25, "{:?}", measured.cpu);
    }
}

/// Harmony, figure 9: five tasks on four CPUs: three have a CPU each, two share one; few migrations.
#[test]
fn five_hogs_on_four_cpus_stay_unequal() {
    let tasks: Vec<TaskSpec> = (0..5).map(|_| TaskSpec::nice(0, &[Run(70_000)])).collect();
    let measured = Lab::new("o1-2.6.18", 4).run(Span::from_s(60), &tasks).unwrap();
    let mut shares: Vec<f64> = measured.cpu.iter().map(|cpu| cpu.as_s_f64() / 60.0).collect();
    shares.sort_by(f64::total_cmp);
    assert!(shares[1] < 0.52 && shares[0] > 0.48 && shares[2] > 0.99, "{shares:?}");
    assert!(measured.migrations.iter().sum::<u64>() < 10);
}
