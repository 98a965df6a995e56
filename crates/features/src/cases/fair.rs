//! The fair class: nice values and its three policies.

use super::{S, feature, hogs, sleeper};
use crate::measure::Case;
use crate::{Feature, FeatureGroup, Finding, ScenarioBench, Trouble};

pub(super) fn features() -> Vec<Feature> {
    let f = |name, what, run| feature(name, FeatureGroup::Fair, what, run);
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
    bench: &ScenarioBench,
    workload: &str,
    weights: &[f64],
    tolerance: f64,
) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("1", 60, workload))?;
    let sum: f64 = weights.iter().sum();
    let expected: Vec<f64> = weights.iter().map(|w| 100.0 * w / sum).collect();
    Ok(Finding::numbers(&seen.shares(0..weights.len() as u32), &expected, tolerance, " %"))
}

fn nice(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload: String =
        [0, 5, -5, 10].iter().zip(1..).map(|(nice, pid)| hogs(pid, 1, &format!("nice={nice}"))).collect();
    // at the cut a task is a slice into its turn: up to some 20 ms (the latency target of CFS) of 60 s
    weights_60s(bench, &workload, &[1024.0, 335.0, 3121.0, 110.0], 0.05)
}

fn batch(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "") + &hogs(2, 1, "policy=batch nice=5");
    weights_60s(bench, &workload, &[1024.0, 335.0], 0.05)
}

fn idle(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "") + &hogs(2, 1, "policy=idle");
    weights_60s(bench, &workload, &[1024.0, 3.0], 0.05)
}

/// Wakeups of the sleeper (task 1), and after how many of them it runs at the same instant: 1 ms of CPU time,
/// 15.3 ms of sleep, 250 times (15.3 ms, so that a wakeup seldom falls on a tick).
fn immediate(bench: &ScenarioBench, sleeper_words: &str, hog_words: &str) -> Result<(usize, usize), Trouble> {
    let workload = hogs(1, 1, hog_words) + &sleeper(2, "1ms", "15300us", 250, sleeper_words);
    Ok(bench.go(Case::new("1", 10, &workload))?.schedule.at_once(1))
}

fn batch_wakes(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let (woken, found) = immediate(bench, "policy=batch", "")?;
    Ok(Finding::words(format!("{found} of {woken}"), "0 of 250"))
}

fn idle_yields(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let (woken, found) = immediate(bench, "", "policy=idle")?;
    Ok(Finding::words(format!("{found} of {woken}"), "250 of 250"))
}

fn spread(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("4", 11, &hogs(1, 8, "")))?;
    let mut on = [0; 4];
    for task in 0..8 {
        for cpu in seen.schedule.cpus_of(task, S, 2 * S) {
            on[cpu as usize] += 1;
        }
    }
    Ok(Finding::words(format!("{on:?}"), "[2, 2, 2, 2]"))
}
