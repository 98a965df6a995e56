//! For how long did some CPU idle while a task that it may run waited elsewhere? (Work conservation.)
//!
//! ```text
//!   ms    0         1
//!         0123456789
//!   cpu0  AAAAAAAA..      B waits on cpu0 from 2 to 8; cpu1 is idle from 3 on, and B may run there:
//!   cpu1  CCC.....BB      one stretch, 3 to 8 ms: 5 ms of idling while work waits
//! ```
//!
//! A *stretch* is a time through which there always is such a CPU and such a task, be they the same or others.
//!
//! * A task may run where its affinity and its group's cpuset say, also after they have changed
//!   ([`note::SET`], [`note::ALLOWED`]).
//! * A task that is held back (`cpu.max`, the limit of real time, a SCHED_DEADLINE budget: [`note::HELD`])
//!   does not wait for a CPU. Others under the same limit then wait for their own queue's CPU only: what is
//!   left of the limit has been given to that CPU.
//! * A CPU that is down does not idle. The kernel's own threads are bound to their CPUs, and are no work that waits.
//! * What the log does not tell is *unknown*, neither wasted nor not: where a task may run after a change of
//!   affinity without the new one; whether a limit held a task back; what the log's observer could not see of
//!   tasks and CPUs. Time in which a CPU idled and only such tasks could have used it is counted as unknown. (A
//!   task may certainly run on the CPU on whose queue it stands.)
//!
//! [`note::SET`]: schedlab_log::note::SET
//! [`note::ALLOWED`]: schedlab_log::note::ALLOWED
//! [`note::HELD`]: schedlab_log::note::HELD

mod account;
mod masks;
mod picture;

pub(crate) use account::Account;
pub use picture::{Began, Picture, QueuedTask, WaitingTask, for_each_picture};

use crate::LogProblem;
use schedlab_log::{Log, Slots, replay};
use schedlab_units::{Span, TaskId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Idling while work waits, of a whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Time during which at least one CPU idled and a waiting task was allowed to run there.
    pub idle_while_waiting_ns: u64,
    /// The longest such stretch.
    pub longest_ns: u64,
    /// Number of such stretches (of more than 0 ns).
    pub stretches: u64,
    /// Time during which there may have been such a CPU and task: the log does not tell.
    pub unknown_ns: u64,
    /// Tasks of which something was not known while they waited, in order, and what.
    pub unknown: Vec<(TaskId, Unknown)>,
    /// The longest stretches, in order of time: at most as many as were asked for, of equal ones the earliest.
    pub longest: Vec<Stretch>,
}

/// What is not known of a task that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// Where it may run: its affinity changed, and the log does not say to what.
    Affinity,
    /// Whether a limit of CPU time held it back: the log's observer could not see that.
    Limit,
    /// Whether it waited at all: the log's observer could not see that.
    Unseen,
}

/// A time through which some CPU idled while a task that it may run waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// From when, in ns from the start.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
}

impl Stretch {
    /// Its length.
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// What [`wasted`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wasted {
    /// Only stretches that are longer count here.
    pub bound_ns: u64,
    /// Number of these stretches.
    pub nr_stretches: u64,
    /// Their sum.
    pub total_ns: u64,
    /// All stretches, of whatever length. `longest` holds the [`STRETCHES_KEPT`] longest of those above the bound.
    pub all: Conservation,
}

/// Stretches that [`wasted`] keeps at most, so that its memory does not grow with the log.
pub const STRETCHES_KEPT: usize = 10_000;

/// Reads the log once: stretches longer than `bound`. About 100 ns per record; memory in proportion to tasks and CPUs.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule.
pub fn wasted(log: &dyn Log, bound: Span) -> Result<Wasted, LogProblem> {
    let slots = Slots::new(log.header());
    let mut account = Account::new(log.header(), &slots, Keeper::new(bound.as_ns(), STRETCHES_KEPT));
    replay(log, &slots, &mut account)?;
    let (keeper, unknown) = account.finish();
    let (nr_stretches, total_ns) = (keeper.nr_longer, keeper.longer_ns);
    Ok(Wasted { bound_ns: bound.as_ns(), nr_stretches, total_ns, all: keeper.finish(unknown) })
}

/// Adds up stretches and keeps the longest.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    bound_ns: u64,
    most: usize,
    /// The shortest on top, of equal ones the latest.
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>)>>,
    nr_longer: u64,
    longer_ns: u64,
    sum: Conservation,
    unknown_ns: u64,
}

impl Keeper {
    /// Keeps at most so many stretches that are longer than `bound_ns`.
    pub fn new(bound_ns: u64, most: usize) -> Keeper {
        Keeper { bound_ns, most, ..Keeper::default() }
    }

    fn stretch(&mut self, from_ns: u64, to_ns: u64) {
        let ns = to_ns - from_ns;
        self.sum.idle_while_waiting_ns += ns;
        self.sum.longest_ns = self.sum.longest_ns.max(ns);
        self.sum.stretches += 1;
        if ns <= self.bound_ns {
            return;
        }
        self.nr_longer += 1;
        self.longer_ns += ns;
        self.heap.push(Reverse((ns, Reverse(from_ns))));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    /// With what was unknown of tasks.
    pub fn finish(self, unknown: Vec<(TaskId, Unknown)>) -> Conservation {
        let stretch = |Reverse((ns, Reverse(from_ns)))| Stretch { from_ns, to_ns: from_ns + ns };
        let mut longest: Vec<Stretch> = self.heap.into_iter().map(stretch).collect();
        longest.sort_unstable();
        Conservation { unknown_ns: self.unknown_ns, unknown, longest, ..self.sum }
    }
}
