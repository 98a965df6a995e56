//! Which is the first decision in which two schedule logs differ, what was the state on both sides, and how
//! much differs later?
//!
//! Two logs of the same workload: from two schedulers, two versions, or from real Linux in a guest and from
//! its simulation. On each CPU the sequences of decisions (who runs next) are laid side by side:
//!
//! ```text
//!                0    4    8    12   16   20   ms
//!   a  cpu0      t1...t2...t1...t3...t1...
//!   b  cpu0      t1...t2...t1...t2...t3...       first difference at 12 ms on cpu0: a picks t3, b picks t2
//! ```
//!
//! With a tolerance (`within`), decisions may lie so far apart and still agree, and stays that one log alone
//! has may add up to as much: kernel code takes time in a real kernel and none in the simulation. With a
//! tolerance of 0 all stays that have a length must agree to the nanosecond. Kernel threads are left out
//! unless asked for: the task that they interrupt counts as running on.
//!
//! Memory is bounded by tasks and CPUs; each log is read once, and once more up to the difference.

mod align;
mod map;
mod side;

pub use map::{MappedBy, Pair, TaskMap};
pub use side::{CpuView, Place, SideView, TaskView};

use crate::LogProblem;
use align::{Aligner, Alignment, Decision, IDLE, Unmatched};
use schedlab_log::{Fact, Kind, Log, Slots};
use schedlab_units::{CpuId, Span, TaskId};
use side::{Focus, Moment, look};

/// What counts as a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// Decisions may lie so far apart.
    pub within: Span,
    /// Compare kernel threads too.
    pub kernel_threads: bool,
    /// Records to show before and after the difference.
    pub events: usize,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions { within: Span::ZERO, kernel_threads: false, events: 6 }
    }
}

/// The first difference.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstDifference {
    /// On which CPU.
    pub cpu: CpuId,
    /// When the first of the two logs decides.
    pub time_ns: u64,
    /// The state of both just before.
    pub sides: [SideView; 2],
    /// Decisions before it that agree, on all CPUs.
    pub agreed_before: u64,
}

/// CPU time of one task in both logs, up to the end of the shorter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTime {
    /// Which.
    pub pair: Pair,
    /// In the first and in the second log.
    pub cpu_ns: [u64; 2],
}

impl TaskTime {
    /// Second less first.
    pub fn difference_ns(&self) -> i64 {
        self.cpu_ns[1] as i64 - self.cpu_ns[0] as i64
    }
}

/// How two logs differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Which task is which.
    pub map: TaskMap,
    /// The options.
    pub options: DiffOptions,
    /// The logs were compared up to here.
    pub compared_ns: u64,
    /// CPUs compared.
    pub nr_cpus: u32,
    /// Where they first differ.
    pub first: Option<FirstDifference>,
    /// How often a CPU that agreed stopped to agree (the first difference included).
    pub differences: u64,
    /// Decisions in each log.
    pub decisions: [u64; 2],
    /// Pairs of decisions that agree.
    pub agreed: u64,
    /// Decisions that only one log has, explained by the tolerance.
    pub skipped: u64,
    /// Largest distance between two decisions that agree.
    pub largest_shift_ns: u64,
    /// CPU time during which the logs have different tasks on a CPU; of `nr_cpus * compared_ns`.
    pub disagree_ns: u64,
    /// CPU time per task; kernel threads only if they were compared.
    pub tasks: Vec<TaskTime>,
    /// Stays and CPU time of kernel threads in each log, if they were left out.
    pub kernel_threads: [(u64, u64); 2],
}

impl Diff {
    /// No decision differs.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// Compares two logs.
///
/// # Errors
/// [`LogProblem`] if one of them is no schedule, or if its observer could not see the decisions that are compared.
pub fn diff(logs: [&dyn Log; 2], options: DiffOptions) -> Result<Diff, LogProblem> {
    let headers = logs.map(Log::header);
    let needed = [Fact::Wakeups, Fact::Stops, Fact::Idle, Fact::Assignments, Fact::Lives, Fact::Spans];
    for header in headers {
        header.needs("the first difference", &needed)?;
    }
    let [slots_a, slots_b] = headers.map(Slots::new);
    let slots = [&slots_a, &slots_b];
    let map = TaskMap::new(headers, slots);
    let nr_cpus = headers[0].nr_cpus.min(headers[1].nr_cpus);
    let compared_ns = headers[0].duration.min(headers[1].duration).as_ns();
    let within_ns = options.within.as_ns();
    let aligner = Aligner::new(within_ns, options.kernel_threads, (nr_cpus, compared_ns), slots, &map);
    let found = aligner.run(logs)?;
    let first = match &found.first {
        Some(first) => Some(describe(logs, slots, &map, options, first, found.agreed_before_first)?),
        None => None,
    };
    let nr_shown = if options.kernel_threads { map.pairs.len() } else { map.nr_workload };
    let times = map.pairs[..nr_shown].iter().zip(found.cpu_ns[0].iter().zip(&found.cpu_ns[1]));
    let tasks = times.map(|(&pair, (&a, &b))| TaskTime { pair, cpu_ns: [a, b] }).collect();
    let Alignment {
        agreed,
        skipped,
        differences,
        decisions,
        disagree_ns,
        largest_shift_ns,
        kernel_threads,
        ..
    } = found;
    Ok(Diff {
        options,
        compared_ns,
        nr_cpus,
        first,
        differences,
        decisions,
        agreed,
        skipped,
        largest_shift_ns,
        disagree_ns,
        tasks,
        kernel_threads: if options.kernel_threads { [(0, 0); 2] } else { kernel_threads },
        map,
    })
}

/// The state of both logs at a difference.
fn describe(
    logs: [&dyn Log; 2],
    slots: [&Slots; 2],
    map: &TaskMap,
    options: DiffOptions,
    first: &Unmatched,
    agreed_before: u64,
) -> Result<FirstDifference, LogProblem> {
    let id = |which: usize, decision: &Decision| match decision.who {
        IDLE => Some(TaskId::IDLE),
        who => {
            let pair = map.pairs[who as usize];
            if which == 0 { pair.a } else { pair.b }
        }
    };
    // a decision later than the tolerance is another matter: this log goes on as before
    let decides = first
        .next
        .map(|next| next.filter(|decision| decision.time_ns - first.time_ns <= options.within.as_ns()));
    let side = |which: usize| -> Result<SideView, LogProblem> {
        let moment = match &decides[which] {
            Some(decision) => Moment::Record { index: decision.index, time_ns: decision.time_ns },
            None => Moment::After(first.time_ns),
        };
        let chosen = decides.map(|decision| decision.and_then(|decision| id(which, &decision)));
        let focus = Focus { cpu: first.cpu, chosen, events: options.events };
        let mut view = look(logs[which], slots[which], moment, focus)?;
        if let Some(decision) = &decides[which] {
            view.decision = id(which, decision).map(|task| (decision.time_ns, task));
            let record = view.after.first().filter(|record| record.kind() == Some(Kind::Switch));
            view.stop =
                record.filter(|record| !record.task().is_idle()).and_then(|record| record.prev_state());
        }
        Ok(view)
    };
    let sides = [side(0)?, side(1)?];
    Ok(FirstDifference { cpu: first.cpu, time_ns: first.time_ns, sides, agreed_before })
}

#[cfg(test)]
mod tests;
