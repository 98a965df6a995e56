//! What is measured of each side, per task.

use super::MatchBy;
use schedlab_instruments::{
    Distribution, IDLE_EXIT_NS, LogProblem, Quantity, Summary, TaskStats, WhyUnknown,
};
use schedlab_log::{Kind, Log, Observer, Record, Row, Run, Slots, WaitCause, note, replay};
use schedlab_units::{CpuId, TaskId};
use std::collections::BTreeMap;

/// One task's numbers, or the sum of several tasks'.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Tasks that are in it.
    pub tasks: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Waits of any cause.
    pub run_delay: Distribution,
    /// Waits after a wakeup.
    pub wakeup_latency: Distribution,
    /// Switch-outs by blocking or exiting.
    pub voluntary: u64,
    /// Switch-outs while runnable.
    pub preempted: u64,
    /// Runs on another CPU than the last.
    pub migrations: u64,
    /// Tasks of which too much was not seen ([`UNSEEN_PART`]): their waits and switches are unknown, and count nowhere.
    pub unknown: u64,
    /// How long the others were out of sight: what they waited then is in no sum.
    pub unseen_ns: u64,
    /// Blocks that did not sleep: their wakeup had come before (in a replay).
    pub skipped: u64,
}

impl Figures {
    fn of(stats: &TaskStats, skipped: u64) -> Figures {
        Figures {
            tasks: 1,
            cpu_ns: stats.cpu_ns,
            run_delay: stats.run_delay.clone(),
            wakeup_latency: stats.wakeup_latency.clone(),
            voluntary: stats.switches_voluntary,
            preempted: stats.switches_involuntary,
            migrations: stats.migrations,
            skipped,
            unknown: 0,
            unseen_ns: 0,
        }
    }

    /// Whether waits and switches are known.
    pub fn is_known(&self) -> bool {
        self.unknown == 0
    }

    pub(super) fn merge(&mut self, other: &Figures) {
        self.tasks += other.tasks;
        self.cpu_ns += other.cpu_ns;
        self.run_delay.merge(&other.run_delay);
        self.wakeup_latency.merge(&other.wakeup_latency);
        self.voluntary += other.voluntary;
        self.preempted += other.preempted;
        self.migrations += other.migrations;
        self.skipped += other.skipped;
        self.unknown += other.unknown;
        self.unseen_ns += other.unseen_ns;
    }
}

/// A task that was out of sight for at most this part of its life counts, and its waits of that time are in no sum.
const UNSEEN_PART: u64 = 20;

/// 1 if what was seen of a task is too little, and how long it was out of sight else.
fn unseen(summary: &Summary, stats: &TaskStats) -> (u64, u64) {
    let why = [Quantity::Waiting, Quantity::Stops].map(|what| summary.task_why_unknown(stats, what));
    let mut why = why.into_iter().flatten().peekable();
    if why.peek().is_none() {
        return (0, 0);
    }
    let life_ns = stats.last_ns.unwrap_or(0) - stats.first_ns.unwrap_or(0);
    let unseen_ns = stats.unseen_ns + stats.off_cpu_ns;
    match why.all(|why| matches!(why, WhyUnknown::Lost { .. })) && unseen_ns <= life_ns / UNSEEN_PART {
        true => (0, unseen_ns),
        false => (1, 0),
    }
}

/// One side: a recording, or a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What scheduled.
    pub sched: String,
    /// CPUs.
    pub nr_cpus: u32,
    /// Until the last of the tasks looked at stopped.
    pub duration_ns: u64,
    /// Waits at objects that the recording has and this side does not, the other way round, and those ended by force.
    pub(super) at_objects: [u64; 3],
    /// Row in the log, pid, name and figures of the tasks looked at.
    tasks: Vec<(u32, u32, String, Figures)>,
}

/// By pid or name: label, row, figures.
pub(super) type Keyed = BTreeMap<(u32, String), (String, Option<u32>, Figures)>;

impl Side {
    /// MetricValues a log with its summary; `wanted` says which rows count.
    ///
    /// # Errors
    /// [`LogProblem`] if the log cannot be read.
    pub fn of(log: &dyn Log, summary: &Summary, wanted: impl Fn(u32) -> bool) -> Result<Side, LogProblem> {
        let header = log.header();
        let mut skipped = vec![0u64; header.tasks.len()];
        schedlab_log::for_each(log, |_, record: &Record| -> Result<(), LogProblem> {
            let is_skip = record.kind() == Some(Kind::Note)
                && record.arg == note::AWAKE
                && record.value != note::NO_WAKEUP;
            if is_skip && let Some(times) = skipped.get_mut(record.task as usize) {
                *times += 1;
            }
            Ok(())
        })?;
        let rows = (0u32..).zip(header.tasks.iter().zip(&summary.tasks).zip(skipped));
        let rows = rows.filter(|(row, _)| wanted(*row));
        let tasks: Vec<_> = rows
            .map(|(row, ((task, stats), skipped))| {
                let (unknown, unseen_ns) = unseen(summary, stats);
                let figures = Figures { unknown, unseen_ns, ..Figures::of(stats, skipped) };
                (row, task.pid, task.name.clone(), figures)
            })
            .collect();
        let last = tasks.iter().filter_map(|(row, ..)| summary.tasks[*row as usize].last_ns).max();
        let sched = format!("{} {}", header.sched, header.sched_version);
        Ok(Side { sched, nr_cpus: header.nr_cpus, duration_ns: last.unwrap_or(0), at_objects: [0; 3], tasks })
    }

    /// The same, with how many waits at objects were skipped, gained, and ended by force in the replay.
    #[must_use]
    pub fn at_objects(self, skipped: u64, gained: u64, forced: u64) -> Side {
        Side { at_objects: [skipped, gained, forced], ..self }
    }

    pub(super) fn keyed(&self, by: MatchBy) -> Keyed {
        let mut keyed = Keyed::new();
        for (row, pid, name, figures) in &self.tasks {
            let (key, label) = match by {
                MatchBy::Pid => ((*pid, String::new()), format!("{name} ({pid})")),
                MatchBy::Name => ((0, name.clone()), name.clone()),
            };
            let (_, of, sum) = keyed.entry(key).or_insert_with(|| (label, Some(*row), Figures::default()));
            sum.merge(figures);
            if sum.tasks > 1 {
                *of = None;
            }
        }
        keyed
    }
}

/// How long the recorded kernel takes from a wakeup to the switch where nothing is in the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleExits {
    /// The waits of woken tasks that found their CPU idle. In none of these are those that had not left that CPU (it
    /// was not idle), that no task woke, that stand for strangers, or that waited for longer than
    /// [`IDLE_EXIT_NS`]: somebody whom the recording hides had that CPU.
    pub waits: Distribution,
    /// The same by how long the CPU had been idle: row k has from 2^k ns up to twice that.
    by_idle: Vec<Distribution>,
    /// The waits of those that the idle CPU's own interrupt woke, or a timer or device on another idle CPU: a replay's
    /// devices interrupt the CPU of the sleeper.
    own: Distribution,
}

/// Ways out of idle of which there are fewer tell no depth.
const DEPTHS_MIN: u64 = 32;
/// Fewer say nothing: two that take 27 and 126 us are none to draw from a thousand times.
const EXITS_MIN: u64 = 8;

impl IdleExits {
    /// From the interrupt of an idle CPU's own timer or device to the switch: [`QUANTILES`] quantiles, in ns. With too
    /// few of them those of all ways out of idle; 0 if these are too few, too.
    pub fn own_ns(&self) -> [u64; QUANTILES] {
        quantiles(self.enough(&self.own))
    }

    /// These, or all if there are too few.
    fn enough<'a>(&'a self, some: &'a Distribution) -> &'a Distribution {
        if some.count() < EXITS_MIN { &self.waits } else { some }
    }

    /// The ways out of shallow and of deep idleness, and where the one begins to be the other: so that waits are as
    /// near to their median as they can be. Without a difference, both are all. Of each [`QUANTILES`] quantiles, in
    /// ns; with too few as [`IdleExits::own_ns`].
    pub fn depths_ns(&self) -> ([u64; QUANTILES], [u64; QUANTILES], Option<u64>) {
        let merged = |rows: &[Distribution]| {
            let mut sum = Distribution::default();
            rows.iter().for_each(|row| sum.merge(row));
            sum
        };
        let whole = merged(&self.by_idle);
        let all = quantiles(self.enough(&whole));
        let mut best = (spread(&whole), (all, all, None));
        for row in 1..self.by_idle.len() {
            let [shallow, deep] = [merged(&self.by_idle[..row]), merged(&self.by_idle[row..])];
            if shallow.count().min(deep.count()) < DEPTHS_MIN {
                continue;
            }
            let left = spread(&shallow) + spread(&deep);
            if left < best.0 {
                best = (left, (quantiles(&shallow), quantiles(&deep), Some(1 << row)));
            }
        }
        best.1
    }
}

/// Into how many parts a distribution of ways out of idle is cut.
pub const QUANTILES: usize = 20;

/// The means of twenty equal parts, in ns: what is drawn from them is as long in sum as what was measured. Each is the
/// mean of ten percentiles: p0.2, p0.7 ... p4.7 of the first. All 0 if there are too few.
fn quantiles(of: &Distribution) -> [u64; QUANTILES] {
    if of.count() < EXITS_MIN {
        return [0; QUANTILES];
    }
    let mean = |part: u32| (0..10).map(|k| of.percentile_ns(50 * part + 5 * k + 2)).sum::<u64>() / 10;
    std::array::from_fn(|part| mean(part as u32))
}

/// Sum of the distances from the median, by twenty quantiles.
fn spread(of: &Distribution) -> u64 {
    let middle = of.percentile_ns(500);
    let sum: u64 = quantiles(of).iter().map(|time| time.abs_diff(middle)).sum();
    sum * of.count() / QUANTILES as u64
}

/// How long the recorded kernel takes from a wakeup to the switch on an idle CPU.
///
/// # Errors
/// [`LogProblem`] if the log cannot be read.
pub fn exits_of_idle(log: &dyn Log) -> Result<IdleExits, LogProblem> {
    struct Watch {
        /// Of each row: whether it stands for all whom the recording leaves out on a CPU. When those woke is unknown.
        strangers: Vec<bool>,
        /// Since when each CPU is idle; `None`: it is not.
        idle_since_ns: Vec<Option<u64>>,
        waiting: Vec<u32>,
        /// Of rows that were woken onto an idle CPU without another waiting there: since when that was idle.
        alone: Vec<Option<u64>>,
        /// Where each row's last waking came from, and whether it was an interrupt that hit no task.
        woken_on: Vec<(u16, bool)>,
        exits: IdleExits,
    }
    impl Observer for Watch {
        fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
            let is_first =
                cause == WaitCause::Wakeup && self.waiting[cpu.index()] == 0 && !self.strangers[row.index()];
            self.alone[row.index()] = self.idle_since_ns[cpu.index()].filter(|_| is_first);
            self.waiting[cpu.index()] += 1;
        }
        fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
            self.alone[row.index()] = None;
            self.waiting[from.index()] -= 1;
            self.waiting[to.index()] += 1;
        }
        fn wait_end(&mut self, wait: &schedlab_log::Wait) {
            self.waiting[wait.cpu.index()] -= 1;
            if let Some(idle_ns) = self.alone[wait.row.index()].take() {
                let waited_ns = wait.until_ns - wait.since_ns;
                if waited_ns > IDLE_EXIT_NS {
                    return;
                }
                self.exits.waits.add(waited_ns);
                let (woken_on, by_none) = self.woken_on[wait.row.index()];
                if by_none || CpuId(woken_on.into()) == wait.cpu {
                    self.exits.own.add(waited_ns);
                } else if let Some(row) = wait.since_ns.saturating_sub(idle_ns).checked_ilog2() {
                    let (row, by_idle) = (row as usize, &mut self.exits.by_idle);
                    by_idle.resize(by_idle.len().max(row + 1), Distribution::default());
                    by_idle[row].add(waited_ns);
                }
            }
        }
        fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
            if let (Kind::Waking, Some(row)) = (kind, row) {
                let by_none = record.other == TaskId::IDLE.0 && record.flags & 1 != 0;
                self.woken_on[row.index()] = (record.cpu, by_none);
            }
        }
        fn run_begin(&mut self, _row: Row, cpu: CpuId) {
            self.idle_since_ns[cpu.index()] = None;
        }
        fn run_end(&mut self, run: &Run) {
            self.idle_since_ns[run.cpu.index()] = Some(run.until_ns);
        }
    }
    let (slots, nr_cpus) = (Slots::new(log.header()), log.header().nr_cpus as usize);
    let mut watch = Watch {
        strangers: log.header().strangers(),
        idle_since_ns: vec![Some(0); nr_cpus],
        waiting: vec![0; nr_cpus],
        alone: vec![None; slots.len()],
        woken_on: vec![(u16::MAX, false); slots.len()],
        exits: IdleExits::default(),
    };
    replay(log, &slots, &mut watch)?;
    Ok(watch.exits)
}
