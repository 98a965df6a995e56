//! Who was on which CPU from when to when, and why did it stop? The log as a list of runs, for pictures.

use crate::replay::{self, Observer, replay};
use crate::slots::Slots;
use crate::{LogProblem, WaitCause};
use schedlab_log::{Log, PrevState};
use schedlab_units::{CpuId, TaskId};

/// One stay of a task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who.
    pub task: TaskId,
    /// Where.
    pub cpu: CpuId,
    /// From when, in ns from the start.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// Why it stopped; `None`: the log ends.
    pub stop: Option<PrevState>,
    /// Why it had been waiting, and for how long in ns; `None`: that was before the log.
    pub waited: Option<(WaitCause, u64)>,
}

/// Calls `f` with every run, when it ends: ordered by end, and on each CPU by start too.
pub fn for_each_run(log: &dyn Log, f: impl FnMut(&Run)) -> Result<(), LogProblem> {
    let slots = Slots::new(log.header());
    replay(log, &slots, &mut Visitor { slots: &slots, f })
}

struct Visitor<'a, F> {
    slots: &'a Slots,
    f: F,
}

impl<F: FnMut(&Run)> Observer for Visitor<'_, F> {
    #[inline]
    fn run_end(&mut self, run: &replay::Run) {
        (self.f)(&Run {
            task: self.slots.id(run.row),
            cpu: CpuId(run.cpu),
            start_ns: run.since,
            end_ns: run.until,
            stop: run.stop,
            waited: run.waited,
        });
    }
}
