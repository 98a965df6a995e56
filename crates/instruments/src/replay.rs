//! What state was every task and every CPU in, and since when? The one reading of the log that all instruments share.
//!
//! ```text
//!   (unseen) ──New──────────> waiting ──switched in──> running ──switched out, still runnable──> waiting
//!   (unseen, blocked) ──Wakeup──> waiting              running ──blocked──> blocked ──Wakeup──> waiting
//! ```
//!
//! * A task waits from the moment it is runnable (`New`, `Wakeup`, or the switch-out that left it runnable) until it runs.
//!   It is blocked from its switch-out, even where the kernel keeps it queued for a while (EEVDF's delayed dequeue).
//! * A task first seen in a `Wakeup` was blocked from its fork, or from the start if no fork was seen.
//! * A CPU is idle until its first switch; if that switch takes a task off it, the task ran there from the start
//!   (a log that begins in the middle, as a guest's may).
//! * What is open at the end of the log is closed at the log's duration.
//! * A `Wakeup` of a task that is not blocked changes nothing (the kernel reports them: woken on its way to sleep).

use crate::slots::Slots;
use crate::{LogProblem, Problem};
use schedlab_log::{Kind, Log, LogHeader, PrevState, Record, for_each};
use schedlab_units::TaskId;

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

/// Row number of a task, CPU, time: what observers are told. All times in ns from the start.
pub(crate) trait Observer {
    /// Time goes on from `from` to `to` (later); everything reported so far holds in between.
    fn elapse(&mut self, _from: u64, _to: u64) {}
    /// A task waits from now on, on this CPU's queue.
    fn wait_begin(&mut self, _row: u32, _cpu: u32) {}
    /// A waiting task is assigned to another CPU.
    fn wait_moved(&mut self, _row: u32, _from: u32, _to: u32) {}
    /// A task has waited.
    fn wait_end(&mut self, _wait: &Wait) {}
    /// A task has run.
    fn run_end(&mut self, _run: &Run) {}
    /// A task has been blocked.
    fn block_end(&mut self, _row: u32, _since: u64, _now: u64) {}
    /// A CPU becomes idle.
    fn idle_begin(&mut self, _cpu: u32) {}
    /// A CPU has been idle.
    fn idle_end(&mut self, _cpu: u32, _since: u64, _now: u64) {}
    /// Every record, after its effects have been reported. `row` is its task's row (`None`: idle).
    fn record(&mut self, _record: &Record, _kind: Kind, _row: Option<u32>) {}
}

/// A wait that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub row: u32,
    /// On whose queue at the end.
    pub cpu: u32,
    pub cause: WaitCause,
    pub since: u64,
    pub until: u64,
}

/// A stay on a CPU that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub row: u32,
    pub cpu: u32,
    pub since: u64,
    pub until: u64,
    /// Why it stopped; `None`: the log ends.
    pub stop: Option<PrevState>,
    /// How it came to run, and how long it had waited; `None`: not seen.
    pub waited: Option<(WaitCause, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unseen,
    /// Forked or asleep; `since` = the fork or the switch-out.
    Blocked,
    Waiting(WaitCause),
    Running,
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct TaskState {
    phase: Phase,
    since: u64,
    /// Running: where; waiting: on whose queue.
    cpu: u32,
    waited: Option<(WaitCause, u64)>,
}

struct CpuState {
    current: TaskId,
    since: u64,
    seen: bool,
}

/// Replays the log into the observer.
pub(crate) fn replay(log: &dyn Log, slots: &Slots, observer: &mut impl Observer) -> Result<(), LogProblem> {
    let mut replay = Replay::new(log.header(), slots, observer)?;
    for_each(log, |index, record| replay.step(index, record))?;
    replay.finish();
    Ok(())
}

struct Replay<'a, O> {
    slots: &'a Slots,
    observer: &'a mut O,
    duration_ns: u64,
    now: u64,
    tasks: Vec<TaskState>,
    cpus: Vec<CpuState>,
}

impl<'a, O: Observer> Replay<'a, O> {
    fn new(header: &LogHeader, slots: &'a Slots, observer: &'a mut O) -> Result<Self, LogProblem> {
        let duration_ns = header.duration.as_ns();
        let rows = slots.len().max(header.nr_cpus as usize) as u64;
        // every sum over tasks or CPUs is at most duration x rows
        if duration_ns.checked_mul(rows.max(1)).is_none_or(|product| product > i64::MAX as u64) {
            return Err(LogProblem::TooLong { duration_ns, rows });
        }
        let task = TaskState { phase: Phase::Unseen, since: 0, cpu: 0, waited: None };
        let cpus = (0..header.nr_cpus).map(|cpu| {
            observer.idle_begin(cpu);
            CpuState { current: TaskId::IDLE, since: 0, seen: false }
        });
        let cpus = cpus.collect();
        Ok(Replay { slots, observer, duration_ns, now: 0, tasks: vec![task; slots.len()], cpus })
    }

    #[inline]
    fn row(&self, index: u64, record: &Record, id: TaskId) -> Result<Option<u32>, LogProblem> {
        match self.slots.row(id) {
            None if !id.is_idle() => Err(LogProblem::Record {
                index,
                time_ns: record.time_ns,
                problem: Problem::UnknownTask { task: id },
            }),
            row => Ok(row),
        }
    }

    #[inline]
    fn step(&mut self, index: u64, record: &Record) -> Result<(), LogProblem> {
        let fail = |problem| LogProblem::Record { index, time_ns: record.time_ns, problem };
        if record.time_ns != self.now {
            if record.time_ns < self.now {
                return Err(fail(Problem::TimeBackwards { previous_ns: self.now }));
            }
            if record.time_ns > self.duration_ns {
                return Err(fail(Problem::TimeBeyondEnd { duration_ns: self.duration_ns }));
            }
            self.observer.elapse(self.now, record.time_ns);
            self.now = record.time_ns;
        }
        let nr_cpus = self.cpus.len() as u32;
        let known =
            |cpu: u32| if cpu < nr_cpus { Ok(cpu) } else { Err(fail(Problem::UnknownCpu { cpu, nr_cpus })) };
        let cpu = known(record.cpu.into())?;
        let Some(kind) = record.kind() else {
            return Err(fail(Problem::UnknownKind { kind: record.kind }));
        };
        let row = self.row(index, record, record.task())?;
        match kind {
            Kind::Switch => {
                let Some(state) = PrevState::from_number(record.flags) else {
                    return Err(fail(Problem::UnknownPrevState { state: record.flags }));
                };
                let next = self.row(index, record, record.other())?;
                self.switch(cpu, row, state, record.other(), next).map_err(fail)?;
            }
            Kind::New => self.runnable(row, known(record.arg)?, WaitCause::New),
            Kind::Wakeup => self.runnable(row, known(record.arg)?, WaitCause::Wakeup),
            Kind::Migrate => {
                let to = known(record.other)?;
                if let Some(row) = row {
                    let task = &mut self.tasks[row as usize];
                    if let Phase::Waiting(_) = task.phase {
                        self.observer.wait_moved(row, task.cpu, to);
                        task.cpu = to;
                    }
                }
            }
            Kind::Fork => {
                if let Some(child) = self.row(index, record, record.other())? {
                    let task = &mut self.tasks[child as usize];
                    if task.phase == Phase::Unseen {
                        (task.phase, task.since) = (Phase::Blocked, self.now);
                    }
                }
            }
            Kind::Waking | Kind::Exit | Kind::Params | Kind::Note => {}
        }
        self.observer.record(record, kind, row);
        Ok(())
    }

    #[inline]
    fn runnable(&mut self, row: Option<u32>, cpu: u32, cause: WaitCause) {
        let Some(row) = row else { return };
        let task = &mut self.tasks[row as usize];
        match task.phase {
            Phase::Blocked | Phase::Unseen if cause == WaitCause::Wakeup => {
                self.observer.block_end(row, task.since, self.now);
            }
            Phase::Blocked | Phase::Unseen => {}
            Phase::Waiting(_) | Phase::Running | Phase::Dead => return,
        }
        *task = TaskState { phase: Phase::Waiting(cause), since: self.now, cpu, waited: None };
        self.observer.wait_begin(row, cpu);
    }

    #[inline]
    fn switch(
        &mut self,
        cpu: u32,
        prev: Option<u32>,
        state: PrevState,
        next_id: TaskId,
        next: Option<u32>,
    ) -> Result<(), Problem> {
        let now = self.now;
        let place = &mut self.cpus[cpu as usize];
        let prev_id = prev.map_or(TaskId::IDLE, |row| self.slots.id(row));
        let was_seen = std::mem::replace(&mut place.seen, true);
        let was_elsewhere = prev.is_some_and(|row| self.tasks[row as usize].phase != Phase::Unseen);
        if place.current != prev_id && (was_seen || was_elsewhere) {
            return Err(Problem::PrevNotCurrent { cpu, prev: prev_id, current: place.current });
        }
        match prev {
            None => self.observer.idle_end(cpu, place.since, now),
            Some(row) => {
                let task = &mut self.tasks[row as usize];
                if !was_seen {
                    // it ran here from the start
                    if place.since != now {
                        // the time counted as idle so far was not
                        self.observer.idle_end(cpu, now, now);
                    }
                    *task = TaskState { phase: Phase::Running, since: place.since, cpu, waited: None };
                }
                let run =
                    Run { row, cpu, since: task.since, until: now, stop: Some(state), waited: task.waited };
                task.since = now;
                task.phase = match state {
                    PrevState::Preempted | PrevState::Yielded => Phase::Waiting(WaitCause::Preempted),
                    PrevState::Sleeping | PrevState::Disk => Phase::Blocked,
                    PrevState::Dead => Phase::Dead,
                };
                let waits = matches!(task.phase, Phase::Waiting(_));
                self.observer.run_end(&run);
                if waits {
                    self.observer.wait_begin(row, cpu);
                }
            }
        }
        (place.current, place.since) = (next_id, now);
        match next {
            None => self.observer.idle_begin(cpu),
            Some(row) => {
                let task = &mut self.tasks[row as usize];
                let waited = match task.phase {
                    Phase::Waiting(cause) => {
                        self.observer.wait_end(&Wait {
                            row,
                            cpu: task.cpu,
                            cause,
                            since: task.since,
                            until: now,
                        });
                        Some((cause, now - task.since))
                    }
                    Phase::Unseen => None,
                    Phase::Running => {
                        return Err(Problem::AlreadyRunning { task: next_id, cpu, other_cpu: task.cpu });
                    }
                    Phase::Blocked => return Err(Problem::RanWhileBlocked { task: next_id, cpu }),
                    Phase::Dead => return Err(Problem::RanAfterExit { task: next_id, cpu }),
                };
                *task = TaskState { phase: Phase::Running, since: now, cpu, waited };
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        let end = self.duration_ns;
        if end > self.now {
            self.observer.elapse(self.now, end);
        }
        for (cpu, state) in self.cpus.iter().enumerate() {
            if state.current.is_idle() {
                self.observer.idle_end(cpu as u32, state.since, end);
            }
        }
        for (row, task) in self.tasks.iter().enumerate() {
            let row = row as u32;
            let (since, until) = (task.since, end);
            match task.phase {
                Phase::Unseen | Phase::Dead => {}
                Phase::Blocked => self.observer.block_end(row, since, until),
                Phase::Waiting(cause) => {
                    self.observer.wait_end(&Wait { row, cpu: task.cpu, cause, since, until })
                }
                Phase::Running => {
                    let run = Run { row, cpu: task.cpu, since, until, stop: None, waited: task.waited };
                    self.observer.run_end(&run);
                }
            }
        }
    }
}
