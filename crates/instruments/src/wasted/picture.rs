//! What did the machine look like while a CPU idled beside waiting work?

use super::account::{Account, Task};
use super::{Keeper, Stretch};
use crate::{LogProblem, QueueLength};
use schedlab_log::{Kind, Log, Observer, Record, Row, Run, Slots, Unseen, Wait, WaitCause, replay};
use schedlab_units::{CpuId, TaskId};

/// The machine at the beginning of a stretch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// When.
    pub stretch: Stretch,
    /// CPUs that idle at its beginning although a waiting task may use them.
    pub idle_cpus: Vec<CpuId>,
    /// Of them, those that idle all through it.
    pub idle_throughout: Vec<CpuId>,
    /// Tasks that wait at its beginning and may use one of these CPUs, in order.
    pub waiting: Vec<WaitingTask>,
    /// Every CPU's queue at its beginning; a row per CPU.
    pub queues: Vec<QueueLength>,
}

/// A task that waits while a CPU that it may use idles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    /// Who.
    pub task: TaskId,
    /// On whose queue.
    pub cpu: CpuId,
    /// Since when, in ns from the start.
    pub since_ns: u64,
    /// It waits all through the stretch, perhaps on other queues.
    pub throughout: bool,
}

/// Reads the log once more and calls `f` with a picture of each of these stretches, which [`wasted`](super::wasted) or
/// [`summarize`](crate::summarize) found in it; they stand in order of time.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule.
pub fn for_each_picture(
    log: &dyn Log,
    stretches: &[Stretch],
    f: impl FnMut(&Picture),
) -> Result<(), LogProblem> {
    if stretches.is_empty() {
        return Ok(());
    }
    let slots = Slots::new(log.header());
    let queues = vec![QueueLength::default(); log.header().nr_cpus as usize];
    let account = Account::new(log.header(), &slots, Keeper::new(u64::MAX, 0));
    replay(log, &slots, &mut Painter { account, queues, stretches, picture: None, f })
}

struct Painter<'a, F> {
    account: Account<'a>,
    queues: Vec<QueueLength>,
    /// Those that have not ended yet.
    stretches: &'a [Stretch],
    picture: Option<Picture>,
    f: F,
}

impl<F: FnMut(&Picture)> Painter<'_, F> {
    fn begin(&self, stretch: Stretch) -> Picture {
        let account = &self.account;
        let candidates: Vec<(usize, &Task)> =
            account.tasks.iter().enumerate().filter(|(_, task)| account.could_run(task)).collect();
        let is_wanted = |cpu: &CpuId| candidates.iter().any(|(_, task)| account.may_use(task, *cpu));
        let cpus = (0..account.idle_since_ns.len() as u32).map(CpuId);
        let waiting = candidates.iter().filter_map(|&(row, task)| {
            let (since_ns, cpu) = task.waits?;
            Some(WaitingTask { task: TaskId(row as u32), cpu, since_ns, throughout: false })
        });
        Picture {
            stretch,
            idle_cpus: cpus.filter(|cpu| account.masks.is_idle(*cpu)).filter(is_wanted).collect(),
            idle_throughout: Vec::new(),
            waiting: waiting.collect(),
            queues: self.queues.clone(),
        }
    }

    /// Just before its end.
    fn end(&mut self, mut picture: Picture) {
        let since_ns = |cpu: &CpuId| self.account.idle_since_ns[cpu.index()];
        let from_ns = picture.stretch.from_ns;
        let still = |cpu: &&CpuId| since_ns(cpu).is_some_and(|since_ns| since_ns <= from_ns);
        picture.idle_throughout = picture.idle_cpus.iter().filter(still).copied().collect();
        for waiting in &mut picture.waiting {
            let waits = self.account.tasks[waiting.task.index()].waits;
            waiting.throughout = waits.is_some_and(|(since_ns, _)| since_ns <= from_ns);
        }
        (self.f)(&picture);
    }

    /// A workload task's place in the queues.
    fn queue(&mut self, row: Row, cpu: CpuId) -> Option<&mut QueueLength> {
        (row.index() < self.account.tasks.len()).then(|| &mut self.queues[cpu.index()])
    }
}

impl<F: FnMut(&Picture)> Observer for Painter<'_, F> {
    fn elapse(&mut self, from_ns: u64, to_ns: u64) {
        if let Some((stretch, rest)) = self.stretches.split_first() {
            if stretch.from_ns == from_ns {
                self.picture = Some(self.begin(*stretch));
            }
            if stretch.to_ns == to_ns
                && let Some(picture) = self.picture.take()
            {
                self.end(picture);
                self.stretches = rest;
            }
        }
        self.account.elapse(from_ns, to_ns);
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
        self.account.wait_begin(row, cpu, cause);
        self.queue(row, cpu).into_iter().for_each(|queue| queue.waiting += 1);
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        self.account.wait_moved(row, from, to);
        self.queue(row, from).into_iter().for_each(|queue| queue.waiting -= 1);
        self.queue(row, to).into_iter().for_each(|queue| queue.waiting += 1);
    }
    fn wait_end(&mut self, wait: &Wait) {
        self.account.wait_end(wait);
        self.queue(wait.row, wait.cpu).into_iter().for_each(|queue| queue.waiting -= 1);
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        self.queue(row, cpu).into_iter().for_each(|queue| queue.running = 1);
    }
    fn run_end(&mut self, run: &Run) {
        self.queue(run.row, run.cpu).into_iter().for_each(|queue| queue.running = 0);
    }
    fn idle_begin(&mut self, cpu: CpuId) {
        self.account.idle_begin(cpu);
    }
    fn idle_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
        self.account.idle_end(cpu, since_ns, now_ns);
    }
    fn task_unknown_begin(&mut self, row: Row, what: Unseen) {
        self.account.task_unknown_begin(row, what);
    }
    fn task_unknown_end(&mut self, row: Row, what: Unseen, since_ns: u64, now_ns: u64) {
        self.account.task_unknown_end(row, what, since_ns, now_ns);
    }
    fn cpu_unknown_begin(&mut self, cpu: CpuId) {
        self.account.cpu_unknown_begin(cpu);
    }
    fn cpu_unknown_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
        self.account.cpu_unknown_end(cpu, since_ns, now_ns);
    }
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        self.account.record(record, kind, row);
    }
}
