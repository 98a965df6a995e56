//! What is measured of every run, in which unit, and which way is better?
//!
//! A metric is a family and, if it has several, a statistic: `run_delay.p99`, `migrations`.

use schedlab_report::units;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A number of things.
    Count,
    /// A part of a whole, 0 to 1; shown in percent, differences in points.
    Share,
    /// An index from 0 to 1.
    Index,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
    /// It depends.
    Neither,
}

/// Something that is measured.
#[derive(Debug, PartialEq)]
pub struct Metric {
    /// `run_delay`
    pub family: &'static str,
    /// `p99`; empty if the family has one number only.
    pub statistic: &'static str,
    /// In words.
    pub label: &'static str,
    /// What the numbers are.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// The smallest difference that means anything. Kernel code takes no simulated time, so a microsecond of
    /// latency does not.
    pub grain: f64,
    /// Whether single tasks have it too.
    pub per_task: bool,
    /// What it is.
    pub help: &'static str,
}

/// A metric's place in [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricId(pub usize);

impl MetricId {
    /// The metric.
    pub fn get(self) -> &'static Metric {
        &METRICS[self.0]
    }
}

const US: f64 = 1e3;

const fn metric(
    family: &'static str,
    statistic: &'static str,
    label: &'static str,
    (unit, better, grain, per_task): (Unit, Better, f64, bool),
    help: &'static str,
) -> Metric {
    Metric { family, statistic, label, unit, better, grain, per_task, help }
}

const TAIL: (Unit, Better, f64, bool) = (Unit::Ns, Better::Lower, US, true);
const MIDDLE: (Unit, Better, f64, bool) = (Unit::Ns, Better::Lower, US, false);
const COUNT: (Unit, Better, f64, bool) = (Unit::Count, Better::Neither, 0.5, true);

/// All metrics, in the order in which they are shown when nothing else decides.
pub const METRICS: &[Metric] = &[
    metric("wakeup_latency", "mean", "wakeup latency, mean", TAIL, "from a wakeup until the task runs"),
    metric(
        "wakeup_latency",
        "p50",
        "wakeup latency, p50",
        MIDDLE,
        "half of all wakeups wait at most so long",
    ),
    metric(
        "wakeup_latency",
        "p90",
        "wakeup latency, p90",
        MIDDLE,
        "nine tenths of all wakeups wait at most so long",
    ),
    metric("wakeup_latency", "p99", "wakeup latency, p99", TAIL, "99 % of all wakeups wait at most so long"),
    metric("wakeup_latency", "max", "wakeup latency, max", TAIL, "the longest wait after a wakeup"),
    metric(
        "run_delay",
        "mean",
        "run delay, mean",
        TAIL,
        "a wait while runnable, of any cause: woken, preempted, new",
    ),
    metric(
        "run_delay",
        "p50",
        "run delay, p50",
        MIDDLE,
        "half of all waits while runnable are at most so long",
    ),
    metric("run_delay", "p90", "run delay, p90", MIDDLE, "nine tenths of all waits are at most so long"),
    metric("run_delay", "p99", "run delay, p99", TAIL, "99 % of all waits are at most so long"),
    metric("run_delay", "max", "run delay, max", TAIL, "the longest wait while runnable"),
    metric(
        "share_error",
        "",
        "share error",
        (Unit::Share, Better::Lower, 0.001, false),
        "CPU time that went to others than it was due to by weight (generalised processor sharing over the runnable \
            tasks)",
    ),
    metric(
        "service_error",
        "max",
        "service error, max",
        (Unit::Ns, Better::Lower, US, true),
        "largest |received - due| of a task at any time",
    ),
    metric(
        "jain",
        "",
        "Jain's index",
        (Unit::Index, Better::Higher, 0.001, false),
        "of received / due over the tasks: 1 = all alike",
    ),
    metric("migrations", "", "migrations", COUNT, "runs on another CPU than the task's last one"),
    metric("preemptions", "", "preemptions", COUNT, "switch-outs while runnable"),
    metric(
        "switches",
        "",
        "switches",
        (Unit::Count, Better::Neither, 0.5, false),
        "context switches, to and from idle included",
    ),
    metric(
        "idle_while_waiting",
        "",
        "a CPU idle while work waits",
        (Unit::Ns, Better::Lower, US, false),
        "time during which a CPU idled that a waiting task was allowed to use",
    ),
    metric(
        "idle_while_waiting",
        "max",
        "longest idle while work waits",
        (Unit::Ns, Better::Lower, US, false),
        "the longest such stretch",
    ),
    metric(
        "makespan",
        "",
        "time until all is done",
        (Unit::Ns, Better::Lower, US, false),
        "simulated time until every task has done all that it wants; none if the run was stopped before",
    ),
    metric(
        "turnaround",
        "mean",
        "turnaround, mean",
        (Unit::Ns, Better::Lower, US, true),
        "from a task's first being runnable to its exit, of those that exit",
    ),
    metric(
        "turnaround",
        "max",
        "turnaround, max",
        (Unit::Ns, Better::Lower, US, false),
        "the longest of those",
    ),
    metric("cpu", "", "CPU time", (Unit::Ns, Better::Neither, US, true), "CPU time of the workload's tasks"),
    metric(
        "misses",
        "",
        "missed deadlines",
        (Unit::Count, Better::Lower, 0.5, true),
        "jobs that ended after their deadline, or not at all; none if no job has one",
    ),
    metric(
        "miss_share",
        "",
        "share of missed deadlines",
        (Unit::Share, Better::Lower, 0.0001, true),
        "of the jobs that have a deadline",
    ),
    metric("response", "mean", "response time, mean", TAIL, "from a job's release to its end"),
    metric(
        "response",
        "p50",
        "response time, p50",
        MIDDLE,
        "half of all jobs end at most so long after their release",
    ),
    metric(
        "response",
        "p99",
        "response time, p99",
        TAIL,
        "99 % of all jobs end at most so long after their release",
    ),
    metric("response", "max", "response time, max", TAIL, "the longest time from a job's release to its end"),
    metric(
        "tardiness",
        "mean",
        "tardiness, mean",
        TAIL,
        "time after the deadline, of all jobs that have one; in time = 0",
    ),
    metric("tardiness", "max", "tardiness, max", TAIL, "of the latest job: the time after its deadline"),
];

/// Other names: what people say.
pub const ALIASES: &[(&str, &str)] = &[
    ("latency", "wakeup_latency"),
    ("wakeup", "wakeup_latency"),
    ("delay", "run_delay"),
    ("fairness", "share_error"),
    ("lag", "service_error"),
    ("idle", "idle_while_waiting"),
    ("wasted", "idle_while_waiting"),
    ("completion", "makespan"),
    ("duration", "makespan"),
    ("missed", "misses"),
    ("response_time", "response"),
    ("lateness", "tardiness"),
];

/// The family that a bare statistic (`p99>5%`) is about: the one that has samples whenever anybody waits.
pub const BARE_FAMILY: &str = "run_delay";

impl Metric {
    /// `run_delay.p99`
    pub fn name(&self) -> String {
        if self.statistic.is_empty() {
            self.family.into()
        } else {
            format!("{}.{}", self.family, self.statistic)
        }
    }

    /// A value as people read it.
    pub fn value_text(&self, value: f64) -> String {
        match self.unit {
            Unit::Ns => units::time(value.max(0.0).round() as u64),
            Unit::Count if value < 100.0 && value.fract() != 0.0 => format!("{value:.1}"),
            Unit::Count => units::count(value.max(0.0).round() as u64),
            Unit::Share => format!("{:.2} %", 100.0 * value),
            Unit::Index => format!("{value:.3}"),
        }
    }

    /// A difference as people read it, with its sign.
    pub fn difference_text(&self, difference: f64) -> String {
        let sign = if difference < 0.0 { "-" } else { "+" };
        match self.unit {
            Unit::Share if difference.abs() > 0.999 => format!("{sign}{:.1} pt", 100.0 * difference.abs()),
            Unit::Share => format!("{sign}{:.2} pt", 100.0 * difference.abs()),
            _ => format!("{sign}{}", self.value_text(difference.abs())),
        }
    }
}

/// The family of this name or alias.
pub fn family(name: &str) -> Option<&'static str> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, family)| family);
    METRICS.iter().map(|metric| metric.family).find(|family| *family == name)
}

/// The metric of this family and statistic.
pub fn find(family: &str, statistic: &str) -> Option<MetricId> {
    METRICS.iter().position(|m| m.family == family && m.statistic == statistic).map(MetricId)
}

/// Statistics of a family, in order; an empty one if it has a plain number.
pub fn statistics(family: &str) -> Vec<&'static str> {
    METRICS.iter().filter(|metric| metric.family == family).map(|metric| metric.statistic).collect()
}

/// All metrics' places.
pub fn ids() -> impl Iterator<Item = MetricId> {
    (0..METRICS.len()).map(MetricId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_aliases_lead_to_them() {
        let mut names: Vec<String> = METRICS.iter().map(Metric::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(ALIASES.iter().all(|(alias, to)| family(alias) == Some(*to) && family(to) == Some(*to)));
        assert!(find(BARE_FAMILY, "p99").is_some());
    }

    #[test]
    fn numbers_are_readable() {
        let text =
            |name: &str, statistic: &str, value: f64| find(name, statistic).unwrap().get().value_text(value);
        assert_eq!(text("run_delay", "p99", 12_345_678.4), "12.3 ms");
        assert_eq!(text("migrations", "", 12.5), "12.5");
        assert_eq!(text("migrations", "", 1234.6), "1,235");
        assert_eq!(text("share_error", "", 0.1234), "12.34 %");
        assert_eq!(find("share_error", "").unwrap().get().difference_text(-0.01), "-1.00 pt");
    }
}
