//! Is the simulation close to real Linux? One row per quantity: both values, the difference, what is
//! tolerated, the verdict.

mod effect;
pub mod golden;
pub mod known;
pub mod tolerance;

pub use effect::effect;
pub use golden::{Golden, GoldenError, GuestQuestion};

use crate::judge::tolerance as limit;
use crate::measure::{DELAY_STEP_NS, Measures};
use schedlab_stdx::percentile::nearest_counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within tolerance.
    Pass,
    /// Beyond tolerance.
    Fail,
    /// Beyond tolerance, with a cause that is known, documented and bounded (see [`crate::judge::known`]).
    Known,
    /// Shown only: there is nothing to judge by.
    Info,
}

/// One quantity of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureRow {
    /// What is compared.
    pub what: String,
    /// The unit of both values.
    pub unit: &'static str,
    /// Real Linux.
    pub real: f64,
    /// The simulation.
    pub simulated: f64,
    /// Their difference, in `difference_unit`.
    pub difference: f64,
    /// `%`, or a unit.
    pub difference_unit: &'static str,
    /// Least and largest value of the runs of real Linux, each by itself.
    pub real_runs: [f64; 2],
    /// The same of the simulation's runs.
    pub simulated_runs: [f64; 2],
    /// Largest |difference| that passes.
    pub tolerance: f64,
    /// The judgement.
    pub verdict: Verdict,
    /// Why, for a known difference.
    pub cause: Option<&'static str>,
}

/// Runs of one side, pooled.
struct Pool<'a> {
    runs: &'a [Measures],
}

impl Pool<'_> {
    fn mean(&self, value: impl Fn(&Measures) -> f64) -> f64 {
        self.runs.iter().map(value).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// Mean CPU time in ns per class; the class is the task's name.
    fn classes(&self) -> BTreeMap<String, f64> {
        let mut classes: BTreeMap<String, f64> = BTreeMap::new();
        for run in self.runs {
            for task in &run.tasks {
                *classes.entry(task.name.clone()).or_default() += task.cpu_ns as f64 / self.runs.len() as f64;
            }
        }
        classes
    }

    fn delays(&self) -> BTreeMap<u64, u64> {
        let mut all = BTreeMap::new();
        for (step, count) in self.runs.iter().flat_map(|run| &run.delays) {
            *all.entry(*step).or_default() += count;
        }
        all
    }
}

/// A percentile in steps of counted ones; 0 without any.
fn percentile(steps: &BTreeMap<u64, u64>, per_cent: u32) -> u64 {
    nearest_counted(steps.iter().map(|(step, count)| (*step, *count)), per_cent * 10).unwrap_or(0)
}

/// Kolmogorov-Smirnov distance of two counted samples, each value allowed to move by `blur` before it counts:
/// the least d with F(x - blur) - d <= G(x) <= F(x + blur) + d for all x. With `blur` 0 it is the plain one.
pub fn ks_distance(a: &BTreeMap<u64, u64>, b: &BTreeMap<u64, u64>, blur: u64) -> f64 {
    let (total_a, total_b) = (a.values().sum::<u64>(), b.values().sum::<u64>());
    if total_a == 0 || total_b == 0 {
        return if total_a == total_b { 0.0 } else { 1.0 };
    }
    let excess = |low: &BTreeMap<u64, u64>, total_low: u64, high: &BTreeMap<u64, u64>, total_high: u64| {
        // F_low(x - blur) - F_high(x) is largest at a value of `low`, moved
        let (mut seen_low, mut seen_high, mut worst) = (0, 0, 0f64);
        let mut above = high.iter().peekable();
        for (step, count) in low {
            seen_low += count;
            while let Some((_, more)) = above.next_if(|(other, _)| **other <= step + blur) {
                seen_high += more;
            }
            let difference = seen_low as f64 / total_low as f64 - seen_high as f64 / total_high as f64;
            worst = worst.max(difference);
        }
        worst
    };
    excess(a, total_a, b, total_b).max(excess(b, total_b, a, total_a))
}

/// Judges one case. `hz` gives the length of a tick; the two sides may have different numbers of runs.
pub fn compare(nr_cpus: u32, hz: u32, real: &[Measures], simulated: &[Measures]) -> Vec<MeasureRow> {
    let mut all = rows(nr_cpus, hz, real, simulated);
    let widen = |range: &mut [f64; 2], value: f64| {
        if !value.is_nan() {
            *range = [range[0].min(value), range[1].max(value)];
        }
    };
    for row in &mut all {
        (row.real_runs, row.simulated_runs) =
            ([f64::INFINITY, f64::NEG_INFINITY], [f64::INFINITY, f64::NEG_INFINITY]);
    }
    for run in real {
        for one in rows(nr_cpus, hz, std::slice::from_ref(run), simulated) {
            let found = all.iter_mut().find(|row| row.what == one.what);
            found.into_iter().for_each(|row| widen(&mut row.real_runs, one.real));
        }
    }
    for run in simulated {
        for one in rows(nr_cpus, hz, real, std::slice::from_ref(run)) {
            let found = all.iter_mut().find(|row| row.what == one.what);
            found.into_iter().for_each(|row| widen(&mut row.simulated_runs, one.simulated));
        }
    }
    all
}

fn rows(nr_cpus: u32, hz: u32, real: &[Measures], simulated: &[Measures]) -> Vec<MeasureRow> {
    let (real, simulated) = (Pool { runs: real }, Pool { runs: simulated });
    let tick_ns = 1e9 / f64::from(hz.max(1));
    let mut rows = Vec::new();
    cpu_times(nr_cpus, tick_ns, &real, &simulated, &mut rows);
    equal_shares(nr_cpus, &real, &simulated, &mut rows);
    delays(tick_ns, &real, &simulated, &mut rows);
    let counts = |value: fn(&Measures) -> u64| {
        (real.mean(|run| value(run) as f64), simulated.mean(|run| value(run) as f64))
    };
    let (r, s) = counts(Measures::switches);
    rows.push(relative("switches", "", r, s, limit::SWITCHES, limit::SWITCHES_LEAST));
    if nr_cpus > 1 {
        let (r, s) = counts(Measures::migrations_after_start);
        rows.push(relative("migrations", "", r, s, limit::MIGRATIONS, limit::MIGRATIONS_LEAST));
        balance(&real, &simulated, &mut rows);
    }
    rows
}

/// Judged relative to `real`, or absolutely where that many more or less mean nothing.
fn relative(
    what: &str,
    unit: &'static str,
    real: f64,
    simulated: f64,
    tolerance: f64,
    least: f64,
) -> MeasureRow {
    let mut row = absolute(what, unit, real, simulated, least);
    if tolerance * real > least {
        let percent = 100.0 * (simulated - real) / real;
        (row.difference, row.difference_unit, row.tolerance) = (percent, "%", 100.0 * tolerance);
        row.verdict = if percent.abs() <= row.tolerance { Verdict::Pass } else { Verdict::Fail };
    }
    row
}

fn absolute(what: &str, unit: &'static str, real: f64, simulated: f64, tolerance: f64) -> MeasureRow {
    let difference = simulated - real;
    MeasureRow {
        what: what.to_string(),
        unit,
        real,
        simulated,
        real_runs: [real; 2],
        simulated_runs: [simulated; 2],
        difference,
        difference_unit: unit,
        tolerance,
        verdict: if difference.abs() <= tolerance { Verdict::Pass } else { Verdict::Fail },
        cause: None,
    }
}

/// CPU time of each class, in ms.
fn cpu_times(nr_cpus: u32, tick_ns: f64, real: &Pool<'_>, simulated: &Pool<'_>, rows: &mut Vec<MeasureRow>) {
    let capacity_ns = real.mean(|run| run.duration_ns as f64) * f64::from(nr_cpus);
    let other = simulated.classes();
    for (name, real_ns) in real.classes() {
        let simulated_ns = other.get(&name).copied().unwrap_or(0.0);
        let tolerance = match nr_cpus {
            1 => limit::CPU_TIME_1,
            _ => {
                let share = real_ns / capacity_ns;
                let found = limit::CPU_TIME_N.iter().find(|(least, _)| share >= *least);
                found.map_or(limit::CPU_TIME_1, |(_, tolerance)| *tolerance)
            }
        };
        let least_ms = limit::CPU_TIME_TICKS * tick_ns / 1e6;
        let what = format!("CPU time of {name}");
        rows.push(relative(&what, "ms", real_ns / 1e6, simulated_ns / 1e6, tolerance, least_ms));
    }
}

/// Where one class of tasks uses the whole machine: the smallest and the largest share that a task has, in points.
fn equal_shares(nr_cpus: u32, real: &Pool<'_>, simulated: &Pool<'_>, rows: &mut Vec<MeasureRow>) {
    let hogs = |run: &Measures| -> Vec<f64> {
        let all = run.tasks.iter().map(|task| task.cpu_ns).max().unwrap_or(0) as f64;
        let busy: Vec<_> = run.tasks.iter().filter(|task| task.cpu_ns as f64 > 0.01 * all).collect();
        let alike = busy.iter().all(|task| task.name == busy[0].name && task.blocks == 0);
        let sum: u64 = busy.iter().map(|task| task.cpu_ns).sum();
        let shares = busy.iter().map(|task| 100.0 * task.cpu_ns as f64 / sum.max(1) as f64);
        if alike && busy.len() > nr_cpus as usize { shares.collect() } else { Vec::new() }
    };
    if real.runs.iter().any(|run| hogs(run).is_empty()) {
        return;
    }
    let least = |run: &Measures| hogs(run).into_iter().fold(100.0, f64::min);
    let most = |run: &Measures| hogs(run).into_iter().fold(0.0, f64::max);
    let points = limit::EQUAL_SHARE_POINTS;
    rows.push(absolute("least share of a task", "%", real.mean(least), simulated.mean(least), points));
    rows.push(absolute("largest share of a task", "%", real.mean(most), simulated.mean(most), points));
}

fn delays(tick_ns: f64, real: &Pool<'_>, simulated: &Pool<'_>, rows: &mut Vec<MeasureRow>) {
    let (r, s) = (real.delays(), simulated.delays());
    for per_cent in [50, 90, 99] {
        let [r, s] = [&r, &s].map(|delays| (percentile(delays, per_cent) * DELAY_STEP_NS) as f64 / 1e6);
        let what = format!("run delay p{per_cent}");
        rows.push(absolute(&what, "ms", r, s, limit::DELAY_TICKS * tick_ns / 1e6 + limit::DELAY_GRAIN_MS));
    }
    let distance = ks_distance(&r, &s, limit::DELAY_BLUR_NS / DELAY_STEP_NS);
    rows.push(absolute("run delay K-S distance", "", 0.0, distance, limit::DELAY_KS));
}

fn balance(real: &Pool<'_>, simulated: &Pool<'_>, rows: &mut Vec<MeasureRow>) {
    let times = |pool: &Pool<'_>| {
        let mut times = BTreeMap::new();
        for balance in pool.runs.iter().filter_map(|run| run.balance) {
            *times.entry(balance.after_ns / 1_000_000).or_default() += 1;
        }
        times
    };
    let (r, s) = (times(real), times(simulated));
    if r.is_empty() && s.is_empty() {
        return;
    }
    let median = |times: &BTreeMap<u64, u64>| percentile(times, 50) as f64;
    let moves = |pool: &Pool<'_>| pool.mean(|run| run.balance.map_or(f64::NAN, |b| f64::from(b.moves)));
    let mut row = absolute("time to balance, median", "ms", median(&r), median(&s), f64::INFINITY);
    row.verdict = Verdict::Info;
    rows.push(row);
    let mut row = absolute("moves until balanced", "", moves(real), moves(simulated), f64::INFINITY);
    row.verdict = Verdict::Info;
    rows.push(row);
    let mut row = absolute("time to balance K-S", "", 0.0, ks_distance(&r, &s, 0), limit::BALANCE_KS);
    if r.values().sum::<u64>() < 10 || s.values().sum::<u64>() < 10 {
        row.verdict = Verdict::Info; // too few for a distribution
    }
    rows.push(row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::TaskMeasures;

    fn counted(values: &[u64]) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        values.iter().for_each(|value| *counts.entry(*value).or_default() += 1);
        counts
    }

    /// By hand: F steps at 1, 2, 3, 4; G at 2, 3, 4, 5: the plain distance is 1/4, and none if a step may move by one.
    #[test]
    fn distances_are_those_computed_by_hand() {
        let (a, b) = (counted(&[1, 2, 3, 4]), counted(&[2, 3, 4, 5]));
        assert_eq!(ks_distance(&a, &b, 0), 0.25);
        assert_eq!(ks_distance(&b, &a, 0), 0.25);
        assert_eq!(ks_distance(&a, &b, 1), 0.0);
        // one of four is far away, whatever the blur
        assert_eq!(ks_distance(&counted(&[1, 1, 1, 100]), &counted(&[1, 1, 1, 1]), 10), 0.25);
        assert_eq!(ks_distance(&counted(&[0]), &counted(&[50]), 10), 1.0);
        assert_eq!(ks_distance(&counted(&[]), &counted(&[]), 0), 0.0);
        assert_eq!(ks_distance(&counted(&[1]), &counted(&[]), 0), 1.0);
    }

    fn run(cpu_ms: &[(&str, u64)], preemptions: u64, delays: &[(u64, u64)]) -> Measures {
        let tasks = cpu_ms.iter().map(|(name, ms)| TaskMeasures {
            name: (*name).into(),
            cpu_ns: ms * 1_000_000,
            preemptions: preemptions / cpu_ms.len() as u64,
            ..TaskMeasures::default()
        });
        Measures {
            duration_ns: 10_000_000_000,
            tasks: tasks.collect(),
            delays: delays.to_vec(),
            ..Measures::default()
        }
    }

    fn failed(rows: &[MeasureRow]) -> Vec<&str> {
        rows.iter().filter(|row| row.verdict == Verdict::Fail).map(|row| row.what.as_str()).collect()
    }

    #[test]
    fn equal_runs_pass_and_each_difference_fails_its_own_row() {
        let real = [run(&[("a", 8000), ("b", 2000)], 1000, &[(400, 90), (800, 10)])];
        assert_eq!(failed(&compare(1, 250, &real, &real)), [""; 0]);
        // 1 % of 8000 is 80
        let cpu = [run(&[("a", 8081), ("b", 1919)], 1000, &[(400, 90), (800, 10)])];
        assert_eq!(failed(&compare(1, 250, &real, &cpu)), ["CPU time of a", "CPU time of b"]);
        let cpu = [run(&[("a", 8079), ("b", 2019)], 1000, &[(400, 90), (800, 10)])];
        assert_eq!(failed(&compare(1, 250, &real, &cpu)), [""; 0]);
        let switches = [run(&[("a", 8000), ("b", 2000)], 1052, &[(400, 90), (800, 10)])];
        assert_eq!(failed(&compare(1, 250, &real, &switches)), ["switches"]);
        // p50 4 -> 5.1 ms is within a tick but beyond the blur for 90 of 100
        let delays = [run(&[("a", 8000), ("b", 2000)], 1000, &[(510, 90), (800, 10)])];
        assert_eq!(failed(&compare(1, 250, &real, &delays)), ["run delay K-S distance"]);
        let delays = [run(&[("a", 8000), ("b", 2000)], 1000, &[(400, 90), (1300, 10)])];
        assert_eq!(failed(&compare(1, 250, &real, &delays)), ["run delay p99"]);
    }
}
