//! Who was on which CPU from when to when, and why did it stop?
//!
//! ```text
//!   ms    0         1                 stays, in order of their ends:
//!         0123456789                    B cpu1 0 to 3, sleeping
//!   cpu0  AAAAAABBB.                    A cpu0 0 to 6, preempted
//!   cpu1  BBB.......                    B cpu0 6 to 9, dead; it had waited since its wakeup at 5, 1 ms
//! ```
//!
//! A stay lasts from switch to switch. Kernel code takes no simulated time, so that a kernel thread's stay
//! often lasts 0 ns.

use crate::{LogProblem, WaitCause};
use schedlab_log::{Log, Observer, PrevState, Run, Slots, replay};
use schedlab_units::{CpuId, TaskId};

/// A task on a CPU without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Who.
    pub task: TaskId,
    /// Where.
    pub cpu: CpuId,
    /// From when, in ns from the start.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// Why it stopped; `None`: the log ends, or nobody sees it from here on.
    pub stop: Option<PrevState>,
    /// Why it had been waiting, and for how long in ns; `None`: that was before the log.
    pub waited: Option<(WaitCause, u64)>,
}

impl Stay {
    /// Its length.
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The part of it from `from_ns` to `to_ns`; `None` if that part has no length.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Option<Stay> {
        let (start_ns, end_ns) = (self.start_ns.max(from_ns), self.end_ns.min(to_ns));
        (start_ns < end_ns).then_some(Stay { start_ns, end_ns, ..*self })
    }
}

/// Calls `f` with every stay, kernel threads' included, when it ends: ordered by end, and on each CPU by
/// start too. Stays that the end of the log cuts off come last, in order of task.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule.
pub fn for_each_stay(log: &dyn Log, f: impl FnMut(&Stay)) -> Result<(), LogProblem> {
    let slots = Slots::new(log.header());
    replay(log, &slots, &mut Visitor { slots: &slots, f })
}

/// All stays of workload tasks that lasted longer than 0 ns, ordered by end; those that the end of the log
/// cuts off in order of CPU. Takes memory in proportion to the log: for logs of experiments.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule.
pub fn stays(log: &dyn Log) -> Result<Vec<Stay>, LogProblem> {
    let mut stays = Vec::new();
    for_each_stay(log, |stay| {
        if stay.task.is_workload() && stay.ns() > 0 {
            stays.push(*stay);
        }
    })?;
    let end_ns = log.header().duration.as_ns();
    let is_cut_off = |stay: &Stay| stay.stop.is_none() && stay.end_ns == end_ns;
    let cut_off = stays.iter().rposition(|stay| !is_cut_off(stay)).map_or(0, |last| last + 1);
    stays[cut_off..].sort_by_key(|stay| stay.cpu);
    Ok(stays)
}

struct Visitor<'a, F> {
    slots: &'a Slots,
    f: F,
}

impl<F: FnMut(&Stay)> Observer for Visitor<'_, F> {
    #[inline]
    fn run_end(&mut self, run: &Run) {
        (self.f)(&Stay {
            task: self.slots.id(run.row),
            cpu: run.cpu,
            start_ns: run.since_ns,
            end_ns: run.until_ns,
            stop: run.stop,
            waited: run.waited,
        });
    }
}
