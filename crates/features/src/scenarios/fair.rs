//! The fair class: nice values and its three policies.

use super::{S, feature, hogs, sleeper};
use crate::bench::Case;
use crate::{Bench, Feature, Finding, Group, Trouble};

pub(super) fn features() -> Vec<Feature> {
    let f = |name, what, run| feature(name, Group::Fair, what, run);
    vec![
        f(
            "nice",
            "hogs of nice 0, 5, -5, 10 on 1 CPU for 60 s: shares as sched_prio_to_weight (1024, 335, 3121, 110)",
            nice,
        ),
        f(
            "SCHED_BATCH",
            "a batch hog of nice 5 beside a normal one of nice 0: 335 of 1359, the same weights",
            batch,
        ),
        f(
            "batch wakes",
            "a sleeper wakes 250 times beside a hog; as batch it never preempts at its wakeup (check_preempt)",
            batch_wakes,
        ),
        f("SCHED_IDLE", "an idle hog beside a normal one: 3 of 1027 (WEIGHT_IDLEPRIO), in 60 s", idle),
        f(
            "idle yields",
            "a normal sleeper beside an idle hog runs at its wakeup (SCHED_IDLE is always preempted)",
            idle_yields,
        ),
        f("spread", "8 hogs begin on 4 CPUs: 2 on each after 1 s (the weights of all are equal)", spread),
    ]
}

fn weights_60s(
    bench: &Bench<'_>,
    workload: &str,
    weights: &[f64],
    tolerance: f64,
) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("1", 60, workload))?;
    let sum: f64 = weights.iter().sum();
    let expected: Vec<f64> = weights.iter().map(|w| 100.0 * w / sum).collect();
    Ok(Finding::numbers(&seen.shares(0..weights.len() as u32), &expected, tolerance, " %"))
}

fn nice(bench: &Bench<'_>) -> Result<Finding, Trouble> {
    let workload: String =
        [0, 5, -5, 10].iter().zip(1..).map(|(nice, pid)| hogs(pid, 1, &format!("nice={nice}"))).collect();
    // at the cut a task is a slice into its turn: up to some 20 ms (the latency target of CFS) of 60 s
    weights_60s(bench, &workload, &[1024.0, 335.0, 3121.0, 110.0], 0.05)
}

fn batch(bench: &Bench<'_>) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "") + &hogs(2, 1, "policy=batch nice=5");
    weights_60s(bench, &workload, &[1024.0, 335.0], 0.05)
}

fn idle(bench: &Bench<'_>) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "") + &hogs(2, 1, "policy=idle");
    weights_60s(bench, &workload, &[1024.0, 3.0], 0.05)
}

/// How often the sleeper (task 1) starts to run at the instant of its wakeup: 1 ms of CPU time, 15 ms of sleep, 250 times.
fn immediate(bench: &Bench<'_>, sleeper_words: &str, hog_words: &str) -> Result<u64, Trouble> {
    let workload = hogs(1, 1, hog_words) + &sleeper(2, "1ms", "15ms", 250, sleeper_words);
    // features that change preemption at wakeups stay as they are; a tick can fall on a wakeup by chance: 15.3 ms are not ticks
    let workload = workload.replace("15ms", "15300us");
    let seen = bench.go(Case::new("1", 10, &workload))?;
    let mut at_once = 0;
    let mut slept_until = None;
    for stay in seen.schedule.stays.iter().filter(|s| s.task == 1) {
        if slept_until == Some(stay.from_ns) {
            at_once += 1;
        }
        // the burst may be cut in pieces: a sleep begins when 1 ms is done; the next wakeup is 15.3 ms after that
        slept_until = Some(stay.to_ns + 15_300_000);
    }
    Ok(at_once)
}

fn batch_wakes(bench: &Bench<'_>) -> Result<Finding, Trouble> {
    let found = immediate(bench, "policy=batch", "")?;
    Ok(Finding::words(format!("{found} of 250"), "0 of 250"))
}

fn idle_yields(bench: &Bench<'_>) -> Result<Finding, Trouble> {
    let found = immediate(bench, "", "policy=idle")?;
    // a tick can fall on the end of a burst and take the CPU away just before the task sleeps: its next burst is a tick late
    let least = 248;
    Ok(Finding {
        as_expected: (least..=250).contains(&found),
        found: format!("{found} of 250"),
        expected: format!("at least {least} of 250"),
    })
}

fn spread(bench: &Bench<'_>) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("4", 11, &hogs(1, 8, "")))?;
    let mut on = [0; 4];
    for task in 0..8 {
        for cpu in seen.schedule.cpus_of(task, S, 2 * S) {
            on[cpu as usize] += 1;
        }
    }
    Ok(Finding::words(format!("{on:?}"), "[2, 2, 2, 2]"))
}
