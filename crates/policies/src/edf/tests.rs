use crate::lab::{Lab, Measured, Step::*, TaskSpec};
use schedlab_units::Span;

/// A task of `runtime` ms each `period` ms, with implicit deadline.
pub(crate) fn periodic(runtime: u64, period: u64, horizon: u64) -> TaskSpec {
    TaskSpec::deadline(runtime, period, period, &[Run(runtime)]).periodic(period, horizon / period)
}

fn run(sched: &str, nr_cpus: u32, tasks: &[(u64, u64)], horizon: u64) -> Measured {
    let specs: Vec<TaskSpec> = tasks.iter().map(|&(c, t)| periodic(c, t, horizon)).collect();
    Lab::new(sched, nr_cpus).run(Span::from_ms(horizon), &specs).unwrap()
}

/// Jobs that took longer than their period.
fn misses(measured: &Measured, tasks: &[(u64, u64)]) -> usize {
    let late = |task: usize, period: u64| {
        measured.responses[task].iter().filter(|&&response| response > Span::from_ms(period)).count()
    };
    tasks.iter().enumerate().map(|(task, &(_, period))| late(task, period)).sum()
}

/// A reproducible stream of numbers.
pub(crate) fn draws(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    }
}

#[test]
fn the_documented_schedule() {
    let tasks = [periodic(2, 5, 35).exact(), periodic(4, 7, 35).exact()];
    assert_eq!(Lab::new("gedf", 1).draw(40, &tasks), ["AABBBBAABBBBAABAABBBAABBBBAABBBBAA"]);
}

/// Liu and Layland: with U <= 1 on one CPU no deadline is missed, whatever the tasks.
#[test]
fn full_utilisation_meets_all_deadlines() {
    let periods = [4, 5, 8, 10, 16, 20, 40, 80];
    let mut draw = draws(1);
    let mut full = 0;
    for _ in 0..150 {
        let (mut left, mut tasks) = (80, Vec::new()); // of the hyperperiod
        while left > 0 && tasks.len() < 8 {
            let period = periods[draw(8) as usize];
            let most = left * period / 80;
            if most == 0 {
                break;
            }
            let runtime = if tasks.len() == 7 { most } else { 1 + draw(most) };
            left -= runtime * 80 / period;
            tasks.push((runtime, period));
        }
        full += u32::from(left == 0);
        let measured = run("gedf", 1, &tasks, 160);
        assert_eq!(misses(&measured, &tasks), 0, "{tasks:?}");
        let jobs: usize = (0..tasks.len()).map(|task| measured.responses[task].len()).sum();
        assert_eq!(jobs as u64, tasks.iter().map(|&(_, period)| 160 / period).sum::<u64>());
    }
    assert!(full > 50, "only {full} sets with U = 1");
}

#[test]
fn overload_misses() {
    let tasks = [(3, 5), (3, 6)]; // U = 1.1
    assert!(misses(&run("gedf", 1, &tasks, 300), &tasks) > 10);
}

/// Dhall's effect: two light tasks delay a heavy one on two CPUs although U = 1.3 of 2; a partition has no difficulty.
#[test]
fn dhalls_effect() {
    let tasks = [(2, 10), (2, 10), (10, 11)];
    assert!(misses(&run("gedf", 2, &tasks, 110), &tasks) > 0);
    assert_eq!(misses(&run("pedf", 2, &tasks, 110), &tasks), 0);
}

/// Three tasks of U = 0.6 on two CPUs: under global EDF each is late by at most 6 ms (Devi and
/// Anderson: ((m - 1) e - e) / (m - (m - 1) u) + e) and so has all its service but that; a partition must overload a
/// CPU, and says so.
#[test]
fn what_no_partition_can_do() {
    let tasks = [(6, 10), (6, 10), (6, 10)];
    let global = run("gedf", 2, &tasks, 2_000);
    let least = |measured: &Measured| measured.cpu.iter().copied().min().unwrap();
    assert!(least(&global) >= Span::from_ms(200 * 6 - 7), "{:?}", global.cpu);
    let partitioned = run("pedf", 2, &tasks, 2_000);
    assert_eq!(partitioned.warnings.len(), 1, "{:?}", partitioned.warnings);
    assert!(least(&partitioned) < Span::from_ms(1_100), "{:?}", partitioned.cpu);
}

#[test]
fn fits_differ() {
    // used: A 0.5 on cpu0; B 0.4: best and first fit beside A, worst fit on cpu1
    let on = |fit: &str| {
        let specs = [periodic(5, 10, 20), periodic(4, 10, 20)];
        let measured = Lab::new("pedf", 2).param("fit", fit).run(Span::from_ms(20), &specs).unwrap();
        let b = measured.runs().iter().find(|run| run.3.0 == 1 && run.2 > run.1);
        b.unwrap().0
    };
    assert_eq!([on("first"), on("best"), on("worst")], [0, 0, 1]);
}

#[test]
fn tasks_without_deadline_run_in_the_background() {
    let tasks = [TaskSpec::nice(0, &[Run(6)]), periodic(2, 5, 15).exact()];
    assert_eq!(Lab::new("gedf", 1).draw(30, &tasks), ["BBAAABBAAABB"]);
}

/// A9: what deadlines leave of a CPU, divided by those without deadline there: the documented example, with three
/// hogs X, Y, Z.
#[test]
fn background_tasks_go_where_most_is_left() {
    let hog = || TaskSpec::nice(0, &[Run(1_000)]);
    let specs = [periodic(6, 10, 100), hog(), hog(), hog()];
    let cpus = |sched: &str, fit: &str| -> Vec<Vec<usize>> {
        let measured = Lab::new(sched, 2).param("fit", fit).run(Span::from_ms(100), &specs).unwrap();
        let of_task = |task: u32| {
            let runs = measured.runs().iter().filter(|run| run.3.0 == task && run.2 > run.1);
            let mut cpus: Vec<usize> = runs.map(|run| run.0).collect();
            cpus.dedup();
            cpus
        };
        (0..4).map(of_task).collect()
    };
    for (sched, fit) in [("pedf", "first"), ("pedf", "best"), ("pedf", "worst"), ("rm", "first")] {
        // Y waits for X, which runs first come, first served
        assert_eq!(cpus(sched, fit), [vec![0], vec![1], vec![], vec![0]], "{sched} {fit}");
    }
}
