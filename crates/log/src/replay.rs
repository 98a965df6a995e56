//! What state was every task and every CPU in, and since when? The one reading of a log, which instruments share.
//!
//! ```text
//!   (unseen) ──New──────────> waiting ──switched in──> running ──switched out, still runnable──> waiting
//!   (unseen, blocked) ──Wakeup──> waiting              running ──blocked──> blocked ──Wakeup──> waiting
//! ```
//!
//! * A task waits from the moment it is runnable (`New`, `Wakeup`, or the switch-out that left it runnable)
//!   until it runs. It is blocked from its switch-out, even where the kernel keeps it queued for a while
//!   (EEVDF's delayed dequeue).
//! * A task first seen in a `Wakeup` was blocked from its fork, or from the start if no fork was seen.
//! * A CPU is idle until its first switch, unless that switch takes a task off it that has not been seen
//!   before: then the task ran there from the start (a log that begins in the middle, as a guest's may). The
//!   log's beginning is read ahead for this.
//! * What is open at the end of the log is closed at the log's duration.
//! * A `Wakeup` of a task that is not blocked changes nothing (the kernel reports them: woken on its way to sleep).
//!
//! # What nobody saw
//!
//! The header may hide facts from the log's observer ([`Hidden`](crate::Hidden)). Then states are unknown, and
//! an observer hears of that:
//!
//! ```text
//!   ms      0    1    2    3    4  # hidden wakeups idle
//!   cpu0    AAAAAAAAAA?????AAAAA   0 switch idle -> A           at 2 ms A goes to sleep, at 3 ms it runs again
//!                                  2 switch A sleeping -> idle  task_unknown_begin(A, OffCpu), cpu_unknown_begin(cpu0)
//!                                  3 switch idle -> A           task_unknown_end(A, ..), cpu_unknown_end(cpu0, ..)
//! ```
//!
//! * Wakeups hidden: a task that went to sleep is [`Unseen::OffCpu`] until it is seen again. Stops hidden: so
//!   is one that stopped with [`PrevState::Unknown`]. Either, or births and exits, hidden: so is every task
//!   until it is seen for the first time, unless its first record is its birth.
//! * Idle time hidden: a CPU without a task of the log is unknown, not idle.
//! * Spans hidden: [`note::UNKNOWN_CPU`] and [`note::UNKNOWN_TASK`] make CPUs and tasks unknown
//!   ([`Unseen::All`]) until they are seen again.
//!
//! Nothing of this happens in a log that hides nothing.
//!
//! # What an observer is called with
//!
//! ```text
//!   ms    0    1    2    3    4         the log                   the calls, in order
//!   cpu0  AAAAAAAAAABBBBB.....          (the log begins)          idle_begin(cpu0)
//!                                       0 new A cpu0              wait_begin(A, cpu0, New)          record(new)
//!                                       0 switch idle -> A        idle_end(cpu0, 0, 0)
//!                                                                 wait_end(A, cpu0, New, 0..0)
//!                                                                 run_begin(A, cpu0)                record(switch)
//!                                       1 wakeup B cpu0           elapse(0, 1 ms)
//!                                                                 block_end(B, 0, 1 ms)
//!                                                                 wait_begin(B, cpu0, Wakeup)       record(wakeup)
//!                                       2 switch A sleeping -> B  elapse(1 ms, 2 ms)
//!                                                                 run_end(A, cpu0, 0..2 ms, Sleeping)
//!                                                                 wait_end(B, cpu0, Wakeup, 1..2 ms)
//!                                                                 run_begin(B, cpu0)                record(switch)
//!                                       3 switch B dead -> idle   elapse(2 ms, 3 ms)
//!                                                                 run_end(B, cpu0, 2..3 ms, Dead)
//!                                                                 idle_begin(cpu0)                  record(switch)
//!                                       (the log ends at 4 ms)    elapse(3 ms, 4 ms)
//!                                                                 idle_end(cpu0, 3 ms, 4 ms)
//!                                                                 block_end(A, 2 ms, 4 ms)
//! ```
//!
//! The drawing is a test of this module.

use crate::{
    Fact, Hidden, Impossible, Kind, Log, LogHeader, LogProblem, PrevState, Record, Row, Slots, for_each, note,
};
use schedlab_units::{CpuId, TaskId};

/// Why a task became runnable and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitCause {
    /// It is new.
    New,
    /// It was woken.
    Wakeup,
    /// It was preempted, its slice was over, or it yielded.
    Preempted,
}

/// What nobody saw of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unseen {
    /// Whether it waits or is blocked: it runs on no CPU.
    OffCpu,
    /// Whether it runs, waits or is blocked.
    All,
}

/// Whom [`replay`] tells what happens. Each method does nothing unless it is overridden.
///
/// * Times are in ns from the log's start and never go back.
/// * Calls for one record come before [`record`](Observer::record) of that record. For a switch, first what
///   the previous task does (`run_end`, and `wait_begin` if it is still runnable), then what the next one
///   does (`wait_end`, `run_begin`).
/// * Every `..._begin` is followed by exactly one `..._end` of the same task or CPU, at the log's end if by
///   nothing else. A block has no beginning of its own: `run_end` tells of it.
/// * Before the first record, each CPU has its `idle_begin`, or the `run_begin` of the task that ran there
///   when the log began.
/// * A task waits, runs, is unknown, or none of these; never two. It waits on one CPU's queue at a time. A CPU
///   is idle, unknown, or runs a task.
/// * An observer may keep anything; nothing it is handed lives longer than the call.
pub trait Observer {
    /// Time goes on from `from_ns` to `to_ns` (later); everything reported so far holds in between. Not
    /// called for records of one instant.
    fn elapse(&mut self, _from_ns: u64, _to_ns: u64) {}
    /// A task waits from now on, on this CPU's queue.
    fn wait_begin(&mut self, _row: Row, _cpu: CpuId, _cause: WaitCause) {}
    /// A waiting task is assigned to another CPU. Moves of tasks that do not wait (asleep, or just being
    /// woken) show in `record` only.
    fn wait_moved(&mut self, _row: Row, _from: CpuId, _to: CpuId) {}
    /// A task has waited: it runs now, nobody sees it from here on, or the log ends.
    fn wait_end(&mut self, _wait: &Wait) {}
    /// A task runs from now on.
    fn run_begin(&mut self, _row: Row, _cpu: CpuId) {}
    /// A task has run: it stops, nobody sees it from here on, or the log ends. If it is still runnable,
    /// `wait_begin` follows.
    fn run_end(&mut self, _run: &Run) {}
    /// A task has been blocked: it is woken, nobody sees it from here on, or the log ends.
    fn block_end(&mut self, _row: Row, _since_ns: u64, _now_ns: u64) {}
    /// A CPU is idle from now on.
    fn idle_begin(&mut self, _cpu: CpuId) {}
    /// A CPU has been idle.
    fn idle_end(&mut self, _cpu: CpuId, _since_ns: u64, _now_ns: u64) {}
    /// Nobody sees from now on what a task does.
    fn task_unknown_begin(&mut self, _row: Row, _what: Unseen) {}
    /// Nobody saw what a task did; it is seen again, or the log ends. It comes with the same [`Unseen`] as its
    /// beginning.
    fn task_unknown_end(&mut self, _row: Row, _what: Unseen, _since_ns: u64, _now_ns: u64) {}
    /// Nobody sees from now on whether a CPU idles, or who runs there.
    fn cpu_unknown_begin(&mut self, _cpu: CpuId) {}
    /// Nobody saw what a CPU did; it is seen again, or the log ends.
    fn cpu_unknown_end(&mut self, _cpu: CpuId, _since_ns: u64, _now_ns: u64) {}
    /// Every record, after its effects have been reported. `row` is its task's row; `None`: idle.
    fn record(&mut self, _record: &Record, _kind: Kind, _row: Option<Row>) {}
}

/// A wait that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waited.
    pub row: Row,
    /// On whose queue at the end.
    pub cpu: CpuId,
    /// Why it was runnable.
    pub cause: WaitCause,
    /// From when, in ns from the start.
    pub since_ns: u64,
    /// Until when.
    pub until_ns: u64,
}

/// A run, from switch to switch, that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who ran.
    pub row: Row,
    /// Where.
    pub cpu: CpuId,
    /// From when, in ns from the start.
    pub since_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// Why it stopped; `None`: the log ends, or nobody sees it from here on.
    pub stop: Option<PrevState>,
    /// How it came to run, and how long it had waited in ns; `None`: not seen.
    pub waited: Option<(WaitCause, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unseen,
    /// Forked or asleep; `since_ns` = the fork or the switch-out.
    Blocked,
    Waiting(WaitCause),
    Running,
    Dead,
    Unknown(Unseen),
}

#[derive(Clone, Copy, Debug)]
struct TaskState {
    phase: Phase,
    since_ns: u64,
    /// Running: where; waiting: on whose queue.
    cpu: CpuId,
    waited: Option<(WaitCause, u64)>,
}

#[derive(Clone, Copy)]
struct CpuState {
    current: TaskId,
    since_ns: u64,
    /// Nobody sees who runs there, or whether it idles; `current` is idle.
    is_unknown: bool,
}

/// Reads the log once and tells the observer everything in order. `slots` are those of the log's header.
///
/// # Errors
/// [`LogProblem`]: the log cannot be read, or a record contradicts those before it. The observer has been
/// told of all that came before.
pub fn replay(log: &dyn Log, slots: &Slots, observer: &mut impl Observer) -> Result<(), LogProblem> {
    let running = running_at_start(log, slots)?;
    let unknown = match log.header().hidden.is_nothing() {
        true => Vec::new(),
        false => unknown_at_start(log, slots)?,
    };
    let mut replay = Replay::new(log.header(), slots, &running, &unknown, observer)?;
    for_each(log, |index, record| replay.step(index, record))?;
    replay.finish();
    Ok(())
}

/// Per CPU, whom the log's first switch takes off it although nothing was heard of it before.
fn running_at_start(log: &dyn Log, slots: &Slots) -> Result<Vec<Option<Row>>, LogProblem> {
    let nr_cpus = log.header().nr_cpus as usize;
    let (mut running, mut cpu_seen) = (vec![None; nr_cpus], vec![false; nr_cpus]);
    let mut task_seen = vec![false; slots.len()];
    let (mut unseen_cpus, mut unseen_tasks) = (nr_cpus, slots.len());
    let mut batches = log.batches()?;
    while let Some(batch) = batches.next_batch()? {
        for record in batch {
            if unseen_cpus == 0 || unseen_tasks == 0 {
                return Ok(running);
            }
            let mut see = |id: TaskId| {
                let row = slots.row(id)?;
                let was_seen = std::mem::replace(&mut task_seen[row.index()], true);
                unseen_tasks -= usize::from(!was_seen);
                (!was_seen).then_some(row)
            };
            match record.kind() {
                Some(Kind::New | Kind::Wakeup) => drop(see(record.task())),
                Some(Kind::Fork) => drop(see(record.other())),
                Some(Kind::Switch) => {
                    let prev = see(record.task());
                    see(record.other());
                    if let Some(seen) = cpu_seen.get_mut(usize::from(record.cpu))
                        && !std::mem::replace(seen, true)
                    {
                        unseen_cpus -= 1;
                        running[usize::from(record.cpu)] = prev;
                    }
                }
                Some(Kind::Note) if record.arg == note::UNKNOWN_CPU => {
                    if let Some(seen) = cpu_seen.get_mut(usize::from(record.cpu)) {
                        unseen_cpus -= usize::from(!std::mem::replace(seen, true));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(running)
}

/// Per task, what nobody saw of it from the log's start until it is seen first; for a log that hides something.
fn unknown_at_start(log: &dyn Log, slots: &Slots) -> Result<Vec<Option<Unseen>>, LogProblem> {
    let header = log.header();
    let may_be_off = header.hidden.has_any(&[Fact::Wakeups, Fact::Stops, Fact::Lives]);
    let mut unknown = vec![may_be_off.then_some(Unseen::OffCpu); slots.len()];
    let mut is_seen = vec![false; slots.len()];
    let mut cpu_unknown = vec![false; header.nr_cpus as usize];
    for_each(log, |_, record| -> Result<(), LogProblem> {
        let mut first = |id: TaskId, what: Option<Unseen>| {
            if let Some(row) = slots.row(id).map(Row::index)
                && !std::mem::replace(&mut is_seen[row], true)
            {
                unknown[row] = what;
            }
        };
        let off = may_be_off.then_some(Unseen::OffCpu);
        let cpu = cpu_unknown.get_mut(usize::from(record.cpu));
        match record.kind() {
            Some(Kind::New) => first(record.task(), None),
            Some(Kind::Fork) => first(record.other(), None),
            Some(Kind::Wakeup) => first(record.task(), off),
            Some(Kind::Switch) => {
                let was_unknown = cpu.is_some_and(std::mem::take);
                first(record.task(), was_unknown.then_some(Unseen::All));
                first(record.other(), off);
            }
            Some(Kind::Note) if record.arg == note::UNKNOWN_TASK => first(record.task(), off),
            Some(Kind::Note) if record.arg == note::UNKNOWN_CPU => {
                cpu.into_iter().for_each(|cpu| *cpu = true)
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(unknown)
}

struct Replay<'a, O> {
    slots: &'a Slots,
    observer: &'a mut O,
    hidden: Hidden,
    duration_ns: u64,
    now_ns: u64,
    tasks: Vec<TaskState>,
    cpus: Vec<CpuState>,
}

impl<'a, O: Observer> Replay<'a, O> {
    fn new(
        header: &LogHeader,
        slots: &'a Slots,
        running: &[Option<Row>],
        unknown: &[Option<Unseen>],
        observer: &'a mut O,
    ) -> Result<Self, LogProblem> {
        let hidden = header.hidden;
        let duration_ns = header.duration.as_ns();
        let rows = slots.len().max(header.nr_cpus as usize) as u64;
        // every sum over tasks or CPUs is at most duration x rows
        if duration_ns.checked_mul(rows.max(1)).is_none_or(|product| product > i64::MAX as u64) {
            return Err(LogProblem::TooLong { duration_ns, rows });
        }
        let task = TaskState { phase: Phase::Unseen, since_ns: 0, cpu: CpuId(0), waited: None };
        let mut tasks = vec![task; slots.len()];
        let cpus = (0..header.nr_cpus).map(CpuId).zip(running).map(|(cpu, running)| {
            let Some(row) = *running else {
                let is_unknown = hidden.has(Fact::Idle);
                match is_unknown {
                    true => observer.cpu_unknown_begin(cpu),
                    false => observer.idle_begin(cpu),
                }
                return CpuState { current: TaskId::IDLE, since_ns: 0, is_unknown };
            };
            observer.run_begin(row, cpu);
            tasks[row.index()] = TaskState { phase: Phase::Running, cpu, ..task };
            CpuState { current: slots.id(row), since_ns: 0, is_unknown: false }
        });
        let cpus = cpus.collect();
        for (row, (task, what)) in tasks.iter_mut().zip(unknown).enumerate() {
            if let (Phase::Unseen, Some(what)) = (task.phase, *what) {
                task.phase = Phase::Unknown(what);
                observer.task_unknown_begin(Row(row as u32), what);
            }
        }
        Ok(Replay { slots, observer, hidden, duration_ns, now_ns: 0, tasks, cpus })
    }

    #[inline]
    fn row(&self, index: u64, record: &Record, id: TaskId) -> Result<Option<Row>, LogProblem> {
        match self.slots.row(id) {
            None if !id.is_idle() => Err(LogProblem::Record {
                index,
                time_ns: record.time_ns,
                problem: Impossible::UnknownTask { task: id },
            }),
            row => Ok(row),
        }
    }

    #[inline]
    fn step(&mut self, index: u64, record: &Record) -> Result<(), LogProblem> {
        let fail = |problem| LogProblem::Record { index, time_ns: record.time_ns, problem };
        if record.time_ns != self.now_ns {
            if record.time_ns < self.now_ns {
                return Err(fail(Impossible::TimeBackwards { previous_ns: self.now_ns }));
            }
            if record.time_ns > self.duration_ns {
                return Err(fail(Impossible::TimeBeyondEnd { duration_ns: self.duration_ns }));
            }
            self.observer.elapse(self.now_ns, record.time_ns);
            self.now_ns = record.time_ns;
        }
        let nr_cpus = self.cpus.len() as u32;
        let known = |cpu: u32| {
            if cpu < nr_cpus { Ok(CpuId(cpu)) } else { Err(fail(Impossible::UnknownCpu { cpu, nr_cpus })) }
        };
        let cpu = known(record.cpu.into())?;
        let Some(kind) = record.kind() else {
            return Err(fail(Impossible::UnknownKind { kind: record.kind }));
        };
        let row = self.row(index, record, record.task())?;
        match kind {
            Kind::Switch => {
                let Some(state) = PrevState::from_number(record.flags) else {
                    return Err(fail(Impossible::UnknownPrevState { state: record.flags }));
                };
                let next = self.row(index, record, record.other())?;
                self.switch(cpu, row, state, record.other(), next).map_err(fail)?;
            }
            Kind::New => self.runnable(row, known(record.arg)?, WaitCause::New),
            Kind::Wakeup => self.runnable(row, known(record.arg)?, WaitCause::Wakeup),
            Kind::Migrate => {
                let to = known(record.other)?;
                if let Some(row) = row {
                    let task = &mut self.tasks[row.index()];
                    if let Phase::Waiting(_) = task.phase {
                        self.observer.wait_moved(row, task.cpu, to);
                        task.cpu = to;
                    }
                }
            }
            Kind::Fork => {
                if let Some(child) = self.row(index, record, record.other())? {
                    let task = &mut self.tasks[child.index()];
                    if task.phase == Phase::Unseen {
                        (task.phase, task.since_ns) = (Phase::Blocked, self.now_ns);
                    }
                }
            }
            Kind::Note if matches!(record.arg, note::UNKNOWN_CPU | note::UNKNOWN_TASK) => {
                if !self.hidden.has(Fact::Spans) {
                    return Err(fail(Impossible::NotDeclared { fact: Fact::Spans }));
                }
                match (record.arg, row) {
                    (note::UNKNOWN_CPU, _) => self.cpu_unknown(cpu),
                    (_, Some(row)) => self.task_unknown(row),
                    (_, None) => {}
                }
            }
            Kind::Waking | Kind::Exit | Kind::Params | Kind::Note => {}
        }
        self.observer.record(record, kind, row);
        Ok(())
    }

    #[inline]
    fn runnable(&mut self, row: Option<Row>, cpu: CpuId, cause: WaitCause) {
        let Some(row) = row else { return };
        let task = &mut self.tasks[row.index()];
        match task.phase {
            Phase::Blocked | Phase::Unseen if cause == WaitCause::Wakeup => {
                self.observer.block_end(row, task.since_ns, self.now_ns);
            }
            Phase::Blocked | Phase::Unseen => {}
            Phase::Unknown(what) => self.observer.task_unknown_end(row, what, task.since_ns, self.now_ns),
            Phase::Waiting(_) | Phase::Running | Phase::Dead => return,
        }
        *task = TaskState { phase: Phase::Waiting(cause), since_ns: self.now_ns, cpu, waited: None };
        self.observer.wait_begin(row, cpu, cause);
    }

    #[inline]
    fn switch(
        &mut self,
        cpu: CpuId,
        prev: Option<Row>,
        state: PrevState,
        next_id: TaskId,
        next: Option<Row>,
    ) -> Result<(), Impossible> {
        let now_ns = self.now_ns;
        let prev_id = prev.map_or(TaskId::IDLE, |row| self.slots.id(row));
        let CpuState { current, since_ns, is_unknown } = self.cpus[cpu.index()];
        if is_unknown {
            self.observer.cpu_unknown_end(cpu, since_ns, now_ns);
            if let Some(row) = prev {
                self.seen_to_stop(cpu, row)?;
                self.stop(cpu, row, state)?;
            }
        } else {
            if current != prev_id {
                return Err(Impossible::PrevNotCurrent { cpu: cpu.0, prev: prev_id, current });
            }
            match prev {
                None => self.observer.idle_end(cpu, since_ns, now_ns),
                Some(row) => {
                    let task = &self.tasks[row.index()];
                    let (since_ns, waited) = (task.since_ns, task.waited);
                    self.observer.run_end(&Run {
                        row,
                        cpu,
                        since_ns,
                        until_ns: now_ns,
                        stop: Some(state),
                        waited,
                    });
                    self.stop(cpu, row, state)?;
                }
            }
        }
        let is_unknown = next.is_none() && self.hidden.has(Fact::Idle);
        self.cpus[cpu.index()] = CpuState { current: next_id, since_ns: now_ns, is_unknown };
        match next {
            None if is_unknown => self.observer.cpu_unknown_begin(cpu),
            None => self.observer.idle_begin(cpu),
            Some(row) => {
                let task = &mut self.tasks[row.index()];
                let waited = match task.phase {
                    Phase::Waiting(cause) => {
                        let (cpu, since_ns) = (task.cpu, task.since_ns);
                        self.observer.wait_end(&Wait { row, cpu, cause, since_ns, until_ns: now_ns });
                        Some((cause, now_ns - since_ns))
                    }
                    Phase::Unseen => None,
                    Phase::Unknown(what) => {
                        self.observer.task_unknown_end(row, what, task.since_ns, now_ns);
                        None
                    }
                    Phase::Running => {
                        let (cpu, other_cpu) = (cpu.0, task.cpu.0);
                        return Err(Impossible::AlreadyRunning { task: next_id, cpu, other_cpu });
                    }
                    Phase::Blocked => return Err(Impossible::RanWhileBlocked { task: next_id, cpu: cpu.0 }),
                    Phase::Dead => return Err(Impossible::RanAfterExit { task: next_id, cpu: cpu.0 }),
                };
                *task = TaskState { phase: Phase::Running, since_ns: now_ns, cpu, waited };
                self.observer.run_begin(row, cpu);
            }
        }
        Ok(())
    }

    /// The task has left its CPU.
    #[inline]
    fn stop(&mut self, cpu: CpuId, row: Row, state: PrevState) -> Result<(), Impossible> {
        let task = &mut self.tasks[row.index()];
        (task.since_ns, task.cpu) = (self.now_ns, cpu);
        task.phase = match state {
            PrevState::Preempted | PrevState::Yielded => Phase::Waiting(WaitCause::Preempted),
            PrevState::Sleeping | PrevState::Disk if !self.hidden.has(Fact::Wakeups) => Phase::Blocked,
            PrevState::Sleeping | PrevState::Disk => Phase::Unknown(Unseen::OffCpu),
            PrevState::Dead => Phase::Dead,
            PrevState::Unknown if self.hidden.has(Fact::Stops) => Phase::Unknown(Unseen::OffCpu),
            PrevState::Unknown => return Err(Impossible::NotDeclared { fact: Fact::Stops }),
        };
        match task.phase {
            Phase::Waiting(cause) => self.observer.wait_begin(row, cpu, cause),
            Phase::Unknown(what) => self.observer.task_unknown_begin(row, what),
            _ => {}
        }
        Ok(())
    }

    /// A CPU that nobody saw is seen again, at the moment at which this task leaves it.
    #[cold]
    fn seen_to_stop(&mut self, cpu: CpuId, row: Row) -> Result<(), Impossible> {
        let (id, task) = (self.slots.id(row), &self.tasks[row.index()]);
        match task.phase {
            Phase::Unknown(what) => {
                self.observer.task_unknown_end(row, what, task.since_ns, self.now_ns);
                Ok(())
            }
            Phase::Unseen => Ok(()),
            Phase::Running => Err(Impossible::AlreadyRunning { task: id, cpu: cpu.0, other_cpu: task.cpu.0 }),
            Phase::Dead => Err(Impossible::RanAfterExit { task: id, cpu: cpu.0 }),
            Phase::Waiting(_) | Phase::Blocked => Err(Impossible::StoppedUnseen { task: id, cpu: cpu.0 }),
        }
    }

    /// Nobody sees this CPU from now on, nor its task, nor those that wait on its queue.
    #[cold]
    fn cpu_unknown(&mut self, cpu: CpuId) {
        let now_ns = self.now_ns;
        let state = &mut self.cpus[cpu.index()];
        if state.is_unknown {
            return;
        }
        let CpuState { current, since_ns, .. } =
            std::mem::replace(state, CpuState { current: TaskId::IDLE, since_ns: now_ns, is_unknown: true });
        match self.slots.row(current) {
            None => self.observer.idle_end(cpu, since_ns, now_ns),
            Some(row) => {
                let TaskState { since_ns, waited, .. } = self.tasks[row.index()];
                self.observer.run_end(&Run { row, cpu, since_ns, until_ns: now_ns, stop: None, waited });
                self.lose(row);
            }
        }
        self.observer.cpu_unknown_begin(cpu);
        let anywhere = self.hidden.has(Fact::Assignments);
        for row in 0..self.tasks.len() {
            let task = self.tasks[row];
            if matches!(task.phase, Phase::Waiting(_)) && (anywhere || task.cpu == cpu) {
                self.task_unknown(Row(row as u32));
            }
        }
    }

    /// Nobody sees this task from now on.
    #[cold]
    fn task_unknown(&mut self, row: Row) {
        let now_ns = self.now_ns;
        let TaskState { phase, since_ns, cpu, .. } = self.tasks[row.index()];
        match phase {
            Phase::Running => return self.cpu_unknown(cpu),
            Phase::Dead | Phase::Unknown(Unseen::All) => return,
            Phase::Unseen => {}
            Phase::Blocked => self.observer.block_end(row, since_ns, now_ns),
            Phase::Waiting(cause) => {
                self.observer.wait_end(&Wait { row, cpu, cause, since_ns, until_ns: now_ns });
            }
            Phase::Unknown(what) => self.observer.task_unknown_end(row, what, since_ns, now_ns),
        }
        self.lose(row);
    }

    fn lose(&mut self, row: Row) {
        let task = &mut self.tasks[row.index()];
        (task.phase, task.since_ns) = (Phase::Unknown(Unseen::All), self.now_ns);
        self.observer.task_unknown_begin(row, Unseen::All);
    }

    fn finish(&mut self) {
        let end_ns = self.duration_ns;
        if end_ns > self.now_ns {
            self.observer.elapse(self.now_ns, end_ns);
        }
        for (cpu, state) in self.cpus.iter().enumerate() {
            if state.is_unknown {
                self.observer.cpu_unknown_end(CpuId(cpu as u32), state.since_ns, end_ns);
            } else if state.current.is_idle() {
                self.observer.idle_end(CpuId(cpu as u32), state.since_ns, end_ns);
            }
        }
        for (row, task) in self.tasks.iter().enumerate() {
            let row = Row(row as u32);
            let TaskState { since_ns, cpu, waited, .. } = *task;
            match task.phase {
                Phase::Unseen | Phase::Dead => {}
                Phase::Blocked => self.observer.block_end(row, since_ns, end_ns),
                Phase::Unknown(what) => self.observer.task_unknown_end(row, what, since_ns, end_ns),
                Phase::Waiting(cause) => {
                    self.observer.wait_end(&Wait { row, cpu, cause, since_ns, until_ns: end_ns });
                }
                Phase::Running => {
                    self.observer.run_end(&Run { row, cpu, since_ns, until_ns: end_ns, stop: None, waited });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextLog;
    use std::path::Path;

    const MS: u64 = 1_000_000;

    /// Writes down what the replay says, in ms.
    #[derive(Default)]
    struct Scribe(Vec<String>);

    impl Scribe {
        fn add(&mut self, what: String) {
            self.0.push(what);
        }
    }

    impl Observer for Scribe {
        fn elapse(&mut self, from_ns: u64, to_ns: u64) {
            self.add(format!("elapse {} {}", from_ns / MS, to_ns / MS));
        }
        fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
            self.add(format!("wait_begin {} {cpu} {cause:?}", row.0));
        }
        fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
            self.add(format!("wait_moved {} {from} {to}", row.0));
        }
        fn wait_end(&mut self, wait: &Wait) {
            let Wait { row, cpu, cause, since_ns, until_ns } = wait;
            self.add(format!("wait_end {} {cpu} {cause:?} {}..{}", row.0, since_ns / MS, until_ns / MS));
        }
        fn run_begin(&mut self, row: Row, cpu: CpuId) {
            self.add(format!("run_begin {} {cpu}", row.0));
        }
        fn run_end(&mut self, run: &Run) {
            let Run { row, cpu, since_ns, until_ns, stop, .. } = run;
            self.add(format!("run_end {} {cpu} {}..{} {stop:?}", row.0, since_ns / MS, until_ns / MS));
        }
        fn block_end(&mut self, row: Row, since_ns: u64, now_ns: u64) {
            self.add(format!("block_end {} {} {}", row.0, since_ns / MS, now_ns / MS));
        }
        fn idle_begin(&mut self, cpu: CpuId) {
            self.add(format!("idle_begin {cpu}"));
        }
        fn idle_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
            self.add(format!("idle_end {cpu} {} {}", since_ns / MS, now_ns / MS));
        }
        fn task_unknown_begin(&mut self, row: Row, what: Unseen) {
            self.add(format!("task_unknown_begin {} {what:?}", row.0));
        }
        fn task_unknown_end(&mut self, row: Row, what: Unseen, since_ns: u64, now_ns: u64) {
            self.add(format!("task_unknown_end {} {what:?} {}..{}", row.0, since_ns / MS, now_ns / MS));
        }
        fn cpu_unknown_begin(&mut self, cpu: CpuId) {
            self.add(format!("cpu_unknown_begin {cpu}"));
        }
        fn cpu_unknown_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
            self.add(format!("cpu_unknown_end {cpu} {}..{}", since_ns / MS, now_ns / MS));
        }
        fn record(&mut self, _record: &Record, kind: Kind, _row: Option<Row>) {
            self.add(format!("record {}", kind.name()));
        }
    }

    fn calls_of(nr_cpus: u32, lines: &str) -> Vec<String> {
        try_calls_of(nr_cpus, "", lines).unwrap()
    }

    fn try_calls_of(nr_cpus: u32, hidden: &str, lines: &str) -> Result<Vec<String>, LogProblem> {
        let header = format!(
            "# schedlab log 2\n# sched \"x\"\n# sched_version \"1\"\n# cpus {nr_cpus}\n# hz 250\n\
                # duration_ns 4000000\n\
             {hidden}# task t0 pid=1 policy=normal nice=0 name=\"a\"\n# task t1 pid=2 policy=normal nice=0 name=\"b\"\n"
        );
        let text = format!("{header}{lines}# end {}\n", lines.lines().count());
        let log = TextLog::parse(&text, Path::new("drawn")).unwrap();
        let mut scribe = Scribe::default();
        replay(&log, &Slots::new(log.header()), &mut scribe)?;
        Ok(scribe.0)
    }

    /// The drawing at the top of this module.
    #[test]
    fn the_drawn_schedule_is_reported_call_by_call() {
        let calls = calls_of(
            1,
            "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n1000000 cpu0 wakeup t1 cpu0\n\
             2000000 cpu0 switch t0 sleeping -> t1\n3000000 cpu0 switch t1 dead -> idle\n",
        );
        let expected = [
            "idle_begin cpu0",
            "wait_begin 0 cpu0 New",
            "record new",
            "idle_end cpu0 0 0",
            "wait_end 0 cpu0 New 0..0",
            "run_begin 0 cpu0",
            "record switch",
            "elapse 0 1",
            "block_end 1 0 1",
            "wait_begin 1 cpu0 Wakeup",
            "record wakeup",
            "elapse 1 2",
            "run_end 0 cpu0 0..2 Some(Sleeping)",
            "wait_end 1 cpu0 Wakeup 1..2",
            "run_begin 1 cpu0",
            "record switch",
            "elapse 2 3",
            "run_end 1 cpu0 2..3 Some(Dead)",
            "idle_begin cpu0",
            "record switch",
            "elapse 3 4",
            "idle_end cpu0 3 4",
            "block_end 0 2 4",
        ];
        assert_eq!(calls, expected);
    }

    /// cpu1 has run t0 since before the log; preempted, it is moved to cpu0 while it waits.
    #[test]
    fn a_task_that_ran_before_the_log_runs_from_its_start() {
        let calls = calls_of(
            2,
            "1000000 cpu1 switch t0 preempted -> idle\n2000000 cpu1 migrate t0 cpu1 -> cpu0\n\
                2000000 cpu0 switch idle -> t0\n",
        );
        let expected = [
            "idle_begin cpu0",
            "run_begin 0 cpu1",
            "elapse 0 1",
            "run_end 0 cpu1 0..1 Some(Preempted)",
            "wait_begin 0 cpu1 Preempted",
            "idle_begin cpu1",
            "record switch",
            "elapse 1 2",
            "wait_moved 0 cpu1 cpu0",
            "record migrate",
            "idle_end cpu0 0 2",
            "wait_end 0 cpu0 Preempted 1..2",
            "run_begin 0 cpu0",
            "record switch",
            "elapse 2 4",
            "idle_end cpu1 1 4",
            "run_end 0 cpu0 2..4 None",
        ];
        assert_eq!(calls, expected);
    }

    /// The drawing of what nobody saw, at the top of this module.
    #[test]
    fn what_the_header_hides_is_unknown() {
        let lines = "0 cpu0 switch idle -> t0\n2000000 cpu0 switch t0 sleeping -> idle\n\
                     3000000 cpu0 switch idle -> t0\n";
        let calls = try_calls_of(1, "# observer recorder\n# hidden wakeups idle\n", lines).unwrap();
        let expected = [
            "cpu_unknown_begin cpu0",
            "task_unknown_begin 0 OffCpu",
            "task_unknown_begin 1 OffCpu",
            "cpu_unknown_end cpu0 0..0",
            "task_unknown_end 0 OffCpu 0..0",
            "run_begin 0 cpu0",
            "record switch",
            "elapse 0 2",
            "run_end 0 cpu0 0..2 Some(Sleeping)",
            "task_unknown_begin 0 OffCpu",
            "cpu_unknown_begin cpu0",
            "record switch",
            "elapse 2 3",
            "cpu_unknown_end cpu0 2..3",
            "task_unknown_end 0 OffCpu 2..3",
            "run_begin 0 cpu0",
            "record switch",
            "elapse 3 4",
            "run_end 0 cpu0 3..4 None",
            "task_unknown_end 1 OffCpu 0..4",
        ];
        assert_eq!(calls, expected);
    }

    /// From 1 to 3 ms nobody sees cpu0, where t0 runs and t1 waits.
    #[test]
    fn what_nobody_saw_for_a_while_is_unknown() {
        let none = TaskId::IDLE.0;
        let record =
            Record { time_ns: MS, kind: Kind::Note as u8, task: none, other: none, ..Record::default() };
        let mut note = Vec::new();
        crate::format_record(&mut note, &Record { arg: note::UNKNOWN_CPU, ..record });
        let note = String::from_utf8(note).unwrap();
        let lines = format!(
            "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n0 cpu0 new t1 cpu0\n{note}\n\
             3000000 cpu0 switch t1 preempted -> t0\n"
        );
        let calls = try_calls_of(1, "# hidden spans\n", &lines).unwrap();
        let from = calls.iter().position(|call| call == "elapse 0 1").unwrap();
        let expected = [
            "elapse 0 1",
            "run_end 0 cpu0 0..1 None",
            "task_unknown_begin 0 All",
            "cpu_unknown_begin cpu0",
            "wait_end 1 cpu0 New 0..1",
            "task_unknown_begin 1 All",
            "record note",
            "elapse 1 3",
            "cpu_unknown_end cpu0 1..3",
            "task_unknown_end 1 All 1..3",
            "wait_begin 1 cpu0 Preempted",
            "task_unknown_end 0 All 1..3",
            "run_begin 0 cpu0",
            "record switch",
            "elapse 3 4",
            "run_end 0 cpu0 3..4 None",
            "wait_end 1 cpu0 Preempted 3..4",
        ];
        assert_eq!(calls[from..], expected);
        let problem = try_calls_of(1, "", &lines).unwrap_err().to_string();
        assert!(problem.contains("does not hide spans"), "{problem}");
    }

    #[test]
    fn a_stop_without_a_reason_must_be_declared() {
        let lines = "0 cpu0 switch t0 unknown -> idle\n";
        assert!(try_calls_of(1, "# hidden stops\n", lines).is_ok());
        let problem = try_calls_of(1, "", lines).unwrap_err().to_string();
        assert!(problem.contains("does not hide stops"), "{problem}");
    }

    /// What the observer of a log may rely on, checked at each call.
    #[derive(Default)]
    struct Strict {
        tasks: Vec<&'static str>,
        cpus: Vec<&'static str>,
        /// Time running, waiting, unknown per task; busy, idle, unknown per CPU.
        cpu_ns: Vec<u64>,
    }

    impl Strict {
        fn task(&mut self, row: Row, from: &'static str, to: &'static str) {
            assert_eq!(self.tasks[row.index()], from, "row {}", row.0);
            self.tasks[row.index()] = to;
        }
        fn cpu(&mut self, cpu: CpuId, from: &'static str, to: &'static str) {
            assert_eq!(self.cpus[cpu.index()], from, "{cpu}");
            self.cpus[cpu.index()] = to;
        }
    }

    impl Observer for Strict {
        fn wait_begin(&mut self, row: Row, _cpu: CpuId, _cause: WaitCause) {
            self.task(row, "", "waits");
        }
        fn wait_end(&mut self, wait: &Wait) {
            self.task(wait.row, "waits", "");
        }
        fn run_begin(&mut self, row: Row, cpu: CpuId) {
            self.task(row, "", "runs");
            self.cpu(cpu, "", "busy");
        }
        fn run_end(&mut self, run: &Run) {
            self.task(run.row, "runs", "");
            self.cpu(run.cpu, "busy", "");
            self.cpu_ns[run.cpu.index()] += run.until_ns - run.since_ns;
        }
        fn idle_begin(&mut self, cpu: CpuId) {
            self.cpu(cpu, "", "idle");
        }
        fn idle_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
            self.cpu(cpu, "idle", "");
            self.cpu_ns[cpu.index()] += now_ns - since_ns;
        }
        fn task_unknown_begin(&mut self, row: Row, _what: Unseen) {
            self.task(row, "", "unknown");
        }
        fn task_unknown_end(&mut self, row: Row, _what: Unseen, _since_ns: u64, _now_ns: u64) {
            self.task(row, "unknown", "");
        }
        fn cpu_unknown_begin(&mut self, cpu: CpuId) {
            self.cpu(cpu, "", "unknown");
        }
        fn cpu_unknown_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
            self.cpu(cpu, "unknown", "");
            self.cpu_ns[cpu.index()] += now_ns - since_ns;
        }
    }

    proptest::proptest! {
        /// Whatever is hidden, and wherever spans of a sound log are lost, each task and CPU is in one state at
        /// a time, and every CPU's time is accounted for.
        #[test]
        fn any_part_of_a_log_may_be_hidden(
            seed in 0u64..200,
            facts in proptest::sample::subsequence(Fact::ALL.to_vec(), 0..9),
            lost in proptest::collection::vec((0usize..400, 0u16..4, 1usize..60), 0..4),
        ) {
            let mut log = crate::synthetic::Config { seed, ..Default::default() }.log();
            log.header.hidden = Hidden::of(&facts).with(Fact::Spans);
            for (at, cpu, number) in lost {
                lose(&mut log, at, cpu, number);
            }
            let slots = Slots::new(log.header());
            let mut strict = Strict {
                tasks: vec![""; slots.len()],
                cpus: vec![""; log.header.nr_cpus as usize],
                cpu_ns: vec![0; log.header.nr_cpus as usize],
            };
            replay(&log, &slots, &mut strict).unwrap();
            proptest::prop_assert!(strict.tasks.iter().all(|state| state.is_empty()));
            proptest::prop_assert!(strict.cpu_ns.iter().all(|ns| *ns == log.header.duration.as_ns()));
        }
    }

    /// Takes away what happened anywhere from record `at` on, for `number` records, and says that nobody saw
    /// any CPU or task there. A task that is gone by then is left out of account.
    fn lose(log: &mut crate::MemLog, at: usize, cpu: u16, number: usize) {
        let at = at.min(log.records.len());
        let end = (at + number).min(log.records.len());
        let Some(time_ns) = log.records.get(at).map(|record| record.time_ns) else { return };
        let note = |arg: u32, cpu: u16, task: u32| Record {
            time_ns,
            kind: Kind::Note as u8,
            cpu,
            task,
            other: TaskId::IDLE.0,
            arg,
            ..Record::default()
        };
        let nr_cpus = log.header.nr_cpus as u16;
        let cpus =
            (0..nr_cpus).map(|n| (n + cpu) % nr_cpus).map(|cpu| note(note::UNKNOWN_CPU, cpu, TaskId::IDLE.0));
        let tasks = (0..log.header.tasks.len() as u32).map(|task| note(note::UNKNOWN_TASK, 0, task));
        let threads = log.header.kernel_threads.iter();
        let threads = threads.map(|thread| note(note::UNKNOWN_TASK, 0, TaskId::kernel_thread(thread.pid).0));
        let notes: Vec<Record> = cpus.chain(tasks).chain(threads).collect();
        log.records.splice(at..end, notes);
    }
}
