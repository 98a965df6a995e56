//! How long was each CPU's queue, over time?
//!
//! ```text
//!   ms    0    1    2    3    4       A, B, C begin on cpu0; B is pulled to cpu1 at 1 ms; A sleeps from 2.5 ms on
//!   cpu0  AAAAAAAAAAAACCCCCCCC
//!   cpu1  .....BBBBBBBBBBBBBBB       at ms        0      1      2      3
//!                                    cpu0         1+2    1+1    1+1    1+0      running + waiting
//!                                    cpu1         0+0    1+0    1+0    1+0
//! ```
//!
//! A CPU's queue holds its running task and those that wait on it, as the kernel's `nr_running` does. Threads
//! of the kernel are left out: they run for 0 ns of simulated time. A task asleep is on no queue, even where
//! the kernel keeps it there for a while (EEVDF's delayed dequeue).
//!
//! A scheduler with one queue for all CPUs (BFS, a shared dispatch queue of sched_ext) still assigns each
//! task a CPU; its queue lengths say where tasks were last assigned, not who will run them.

use crate::LogProblem;
use schedlab_log::{Fact, Log, Observer, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::{CpuId, Span};

/// The default distance of two samples.
pub const QUEUE_GRID: Span = Span::from_ms(1);

/// One CPU's queue at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueLength {
    /// Workload tasks on the CPU: 0 or 1.
    pub running: u32,
    /// Workload tasks that wait on its queue.
    pub waiting: u32,
}

impl QueueLength {
    /// Both: the kernel's `nr_running`.
    pub fn total(self) -> u32 {
        self.running + self.waiting
    }
}

/// Calls `f` at 0, `grid`, 2 `grid`, ... as long as that is before the log's end: with the instant in ns and
/// a row per CPU. Each row is what holds from that instant on, after everything that happens at it.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule, or if its observer could not see who waits where.
///
/// # Panics
/// If `grid` is 0.
pub fn for_each_queue(
    log: &dyn Log,
    grid: Span,
    f: impl FnMut(u64, &[QueueLength]),
) -> Result<(), LogProblem> {
    assert!(grid > Span::ZERO, "samples lie apart");
    let needed = [Fact::Wakeups, Fact::Stops, Fact::Assignments, Fact::Lives, Fact::Spans];
    log.header().needs("the length of each CPU's queue", &needed)?;
    let slots = Slots::new(log.header());
    let queues = vec![QueueLength::default(); log.header().nr_cpus as usize];
    let mut sampler = Sampler { nr_tasks: slots.nr_tasks(), grid_ns: grid.as_ns(), next_ns: 0, queues, f };
    replay(log, &slots, &mut sampler)
}

struct Sampler<F> {
    nr_tasks: u32,
    grid_ns: u64,
    next_ns: u64,
    queues: Vec<QueueLength>,
    f: F,
}

impl<F> Sampler<F> {
    fn queue(&mut self, row: Row, cpu: CpuId) -> Option<&mut QueueLength> {
        (row.0 < self.nr_tasks).then(|| &mut self.queues[cpu.index()])
    }
}

impl<F: FnMut(u64, &[QueueLength])> Observer for Sampler<F> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        while self.next_ns < to_ns {
            (self.f)(self.next_ns, &self.queues);
            self.next_ns = self.next_ns.saturating_add(self.grid_ns);
        }
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, _cause: WaitCause) {
        if let Some(queue) = self.queue(row, cpu) {
            queue.waiting += 1;
        }
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        if let Some(queue) = self.queue(row, from) {
            queue.waiting -= 1;
        }
        if let Some(queue) = self.queue(row, to) {
            queue.waiting += 1;
        }
    }
    fn wait_end(&mut self, wait: &Wait) {
        if let Some(queue) = self.queue(wait.row, wait.cpu) {
            queue.waiting -= 1;
        }
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        if let Some(queue) = self.queue(row, cpu) {
            queue.running = 1;
        }
    }
    fn run_end(&mut self, run: &Run) {
        if let Some(queue) = self.queue(run.row, run.cpu) {
            queue.running = 0;
        }
    }
}
