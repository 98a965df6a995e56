//! What did the machine look like while a CPU idled beside waiting work?

use super::account::{Account, Task};
use super::{Keeper, Stretch};
use crate::{LogProblem, QueueLength};
use schedlab_log::{Kind, Log, Observer, Record, Row, Run, Slots, Unseen, Wait, WaitCause, replay};
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, TaskId};

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
    /// What happened at its beginning: whoever did it could have acted. Nothing: where tasks may run has changed.
    pub began: Vec<Began>,
    /// The workload's tasks that ran or waited at its beginning, in order.
    pub present: Vec<QueuedTask>,
}

/// What began a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// This CPU fell idle, and took none of the tasks that wait.
    FellIdle(CpuId),
    /// A task came to this queue although a CPU that it may use idled.
    Came {
        /// Who.
        task: TaskId,
        /// On whose queue.
        cpu: CpuId,
        /// Why.
        cause: WaitCause,
        /// The CPU that put it there: the waker's, the parent's, its own.
        by: CpuId,
    },
}

/// A task that was on a CPU's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedTask {
    /// Who.
    pub task: TaskId,
    /// On whose queue, or on which CPU.
    pub cpu: CpuId,
    /// Where it might run; all CPUs of its cpuset if that was not known.
    pub cpus: CpuSet,
    /// Policy, nice value and priority.
    pub params: SchedParams,
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
    let header = log.header();
    let queues = vec![QueueLength::default(); header.nr_cpus as usize];
    let account = Account::new(header, &slots, Keeper::new(u64::MAX, 0));
    let running = vec![None; header.nr_cpus as usize];
    let came = header.tasks.iter().map(|task| Came { params: task.params, ..Came::default() }).collect();
    replay(log, &slots, &mut Painter { account, queues, running, came, stretches, picture: None, f })
}

/// What is known of a task besides its place.
#[derive(Clone, Copy, Debug, Default)]
struct Came {
    params: SchedParams,
    /// Why it waits.
    cause: Option<WaitCause>,
    /// The CPU that last woke or created it, or let it be taken off.
    by: CpuId,
}

struct Painter<'a, F> {
    account: Account<'a>,
    queues: Vec<QueueLength>,
    /// Who runs on each CPU, of the workload.
    running: Vec<Option<Row>>,
    /// A row per task.
    came: Vec<Came>,
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
            began: self.began(stretch.from_ns, &candidates),
            present: self.present(),
        }
    }

    fn began(&self, from_ns: u64, candidates: &[(usize, &Task)]) -> Vec<Began> {
        let account = &self.account;
        let fell_idle =
            |cpu: &CpuId| account.idle_since_ns[cpu.index()] == Some(from_ns) && account.masks.is_idle(*cpu);
        let is_wanted = |cpu: &CpuId| candidates.iter().any(|(_, task)| account.may_use(task, *cpu));
        let cpus = (0..account.idle_since_ns.len() as u32).map(CpuId);
        let mut began: Vec<Began> = cpus.filter(fell_idle).filter(is_wanted).map(Began::FellIdle).collect();
        for (row, task) in candidates {
            let came = &self.came[*row];
            if let (Some((since_ns, cpu)), Some(cause)) = (task.waits, came.cause)
                && since_ns == from_ns
            {
                let by = if cause == WaitCause::Preempted { cpu } else { came.by };
                began.push(Began::Came { task: TaskId(*row as u32), cpu, cause, by });
            }
        }
        began
    }

    fn present(&self) -> Vec<QueuedTask> {
        let mut present = Vec::new();
        for (row, task) in self.account.tasks.iter().enumerate() {
            let runs =
                self.running.iter().position(|running| running.is_some_and(|there| there.index() == row));
            let cpu = task.waits.map(|(_, cpu)| cpu).or(runs.map(|cpu| CpuId(cpu as u32)));
            let Some(cpu) = cpu else { continue };
            let (cpus, params) = (task.may.cpus.clone(), self.came[row].params);
            present.push(QueuedTask { task: TaskId(row as u32), cpu, cpus, params });
        }
        present
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
        if let Some(came) = self.came.get_mut(row.index()) {
            came.cause = Some(cause);
        }
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
        self.running[cpu.index()] = Some(row).filter(|row| row.index() < self.came.len());
        self.queue(row, cpu).into_iter().for_each(|queue| queue.running = 1);
    }
    fn run_end(&mut self, run: &Run) {
        self.running[run.cpu.index()] = None;
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
        let came = row.and_then(|row| self.came.get_mut(row.index()));
        match (came, kind) {
            (Some(came), Kind::Waking | Kind::New) => came.by = record.cpu(),
            (Some(came), Kind::Params) => {
                if let Some((policy, nice, rt_priority)) = record.params() {
                    let nice = Nice::new(nice.into()).unwrap_or_default();
                    came.params = SchedParams { policy, nice, rt_priority, ..came.params };
                }
            }
            _ => {}
        }
        self.account.record(record, kind, row);
    }
}
