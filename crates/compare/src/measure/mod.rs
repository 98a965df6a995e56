//! The numbers of one run.

pub mod metric;
pub mod stats;

use crate::cases::subjects::{Gathered, TaskGroup};
use crate::measure::metric::{MetricId, ids};
use schedlab_instruments::jobs::{JobPlan, Jobs, jobs};
use schedlab_instruments::{Distribution, FairShare, LogProblem, Summary, fair_share};
use schedlab_lab::Finished;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is measured of one run. A metric without samples (no wakeups, nobody exits) has no value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricValues {
    /// By metric.
    pub values: Vec<Option<f64>>,
    /// By subject, then by metric.
    pub subjects: Vec<Vec<Option<f64>>>,
    /// Wakeup latency in ns at each of [`CURVE`]; empty without wakeups.
    pub wakeup_latency_curve: Vec<u64>,
    /// Run delay likewise.
    pub run_delay_curve: Vec<u64>,
    /// Warnings of the scheduler under test, one line each.
    pub warnings: Vec<String>,
    /// What the scheduler refused to the workload, and how often.
    pub refused: BTreeMap<String, u64>,
}

/// Parts of a thousand at which latency curves are kept.
pub const CURVE: [u32; 37] = [
    0, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 825, 850, 875, 900,
    910, 920, 930, 940, 950, 960, 970, 980, 985, 990, 992, 994, 996, 998, 999, 1000,
];

impl MetricValues {
    /// MetricValues a run; `subjects`: whose numbers are wanted, `plans`: which jobs its workload asks for, row i
    /// `TaskId(i)`.
    pub fn of(
        run: &Finished,
        subjects: &[TaskGroup],
        plans: &[Option<JobPlan>],
    ) -> Result<MetricValues, LogProblem> {
        let summary = &run.summary;
        let share = fair_share(&run.log)?;
        let has_jobs = plans.iter().any(Option::is_some);
        let jobs = if has_jobs { jobs(&run.log, plans)? } else { Jobs::default() };
        let mut all = Gathered::default();
        jobs.tasks.iter().for_each(|jobs| all.jobs.add(jobs));
        summary.tasks.iter().for_each(|task| all.add(task));
        all.service_error_ns = share.largest_error_ns();
        let machine = Machine { summary, share: &share, is_done: run.is_done() };
        let curve = |d: &Distribution| match d.count() {
            0 => Vec::new(),
            _ => CURVE.iter().map(|per_mille| d.percentile_ns(*per_mille)).collect(),
        };
        let of_subject = |subject: &TaskGroup| {
            let gathered = Gathered::of(subject, summary, &share, &jobs);
            ids().map(|id| if id.get().per_task { value(id, &gathered, None) } else { None }).collect()
        };
        Ok(MetricValues {
            values: ids().map(|id| value(id, &all, Some(&machine))).collect(),
            subjects: subjects.iter().map(of_subject).collect(),
            wakeup_latency_curve: curve(&summary.system.wakeup_latency),
            run_delay_curve: curve(&summary.system.run_delay),
            warnings: run.report.warnings.iter().map(|text| first_line(text)).collect(),
            refused: run.report.refused.clone(),
        })
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

/// What only the whole machine has.
struct Machine<'a> {
    summary: &'a Summary,
    share: &'a FairShare,
    is_done: bool,
}

fn value(id: MetricId, tasks: &Gathered, machine: Option<&Machine<'_>>) -> Option<f64> {
    let metric = id.get();
    let of = |d: &Distribution| {
        let ns = match metric.statistic {
            "mean" => return (d.count() > 0).then(|| d.sum_ns() as f64 / d.count() as f64),
            "p50" => d.percentile_ns(500),
            "p90" => d.percentile_ns(900),
            "p99" => d.percentile_ns(990),
            "max" => d.max_ns(),
            other => unreachable!("{other} is no statistic of a distribution"),
        };
        (d.count() > 0).then_some(ns as f64)
    };
    let number = |n: u64| Some(n as f64);
    match (metric.family, metric.statistic) {
        ("wakeup_latency", _) => of(&tasks.wakeup_latency),
        ("run_delay", _) => of(&tasks.run_delay),
        ("turnaround", _) => of(&tasks.turnaround),
        ("service_error", _) => number(tasks.service_error_ns),
        ("migrations", _) => number(tasks.migrations),
        ("preemptions", _) => number(tasks.preemptions),
        ("cpu", _) => number(tasks.cpu_ns),
        ("misses", _) => tasks.jobs.of_deadlines(0).and(number(tasks.jobs.misses)),
        ("miss_share", _) => tasks.jobs.of_deadlines(tasks.jobs.misses),
        ("response", _) => of(&tasks.jobs.response),
        ("tardiness", "mean") => tasks.jobs.of_deadlines(tasks.jobs.tardiness.sum_ns()),
        ("tardiness", _) => tasks.jobs.of_deadlines(0).and(number(tasks.jobs.tardiness.max_ns())),
        ("share_error", _) => machine.map(|m| m.share.share_error()),
        ("jain", _) => machine.map(|m| m.share.jain()),
        ("switches", _) => machine.map(|m| m.summary.system.switches as f64),
        ("idle_while_waiting", "") => {
            machine.map(|m| m.summary.system.conservation.idle_while_waiting_ns as f64)
        }
        ("idle_while_waiting", _) => machine.map(|m| m.summary.system.conservation.longest_ns as f64),
        ("makespan", _) => machine.filter(|m| m.is_done).map(|m| m.summary.duration_ns as f64),
        (family, statistic) => unreachable!("nobody measures {family}.{statistic}"),
    }
}
