//! What state was every task and every CPU in, and since when? The one reading of a log, which instruments share.
//!
//! ```text
//!   (unseen) ──New──────────> waiting ──switched in──> running ──switched out, still runnable──> waiting
//!   (unseen, blocked) ──Wakeup──> waiting              running ──blocked──> blocked ──Wakeup──> waiting
//! ```
//!
//! * A task waits from the moment it is runnable (`New`, `Wakeup`, or the switch-out that left it runnable) until it runs.
//!   It is blocked from its switch-out, even where the kernel keeps it queued for a while (EEVDF's delayed dequeue).
//! * A task first seen in a `Wakeup` was blocked from its fork, or from the start if no fork was seen.
//! * A CPU is idle until its first switch, unless that switch takes a task off it that has not been seen before: then the task ran
//!   there from the start (a log that begins in the middle, as a guest's may). The log's beginning is read ahead for this.
//! * What is open at the end of the log is closed at the log's duration.
//! * A `Wakeup` of a task that is not blocked changes nothing (the kernel reports them: woken on its way to sleep).
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

use crate::{Kind, Log, LogHeader, LogProblem, PrevState, Problem, Record, Row, Slots, for_each};
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

/// Whom [`replay`] tells what happens. Each method does nothing unless it is overridden.
///
/// * Times are in ns from the log's start and never go back.
/// * Calls for one record come before [`record`](Observer::record) of that record. For a switch, first what the previous task does
///   (`run_end`, and `wait_begin` if it is still runnable), then what the next one does (`wait_end`, `run_begin`).
/// * Every `..._begin` is followed by exactly one `..._end` of the same task or CPU, at the log's end if by nothing else. A block has no
///   beginning of its own: `run_end` tells of it.
/// * Before the first record, each CPU has its `idle_begin`, or the `run_begin` of the task that ran there when the log began.
/// * A task waits, runs, or neither; never both. It waits on one CPU's queue at a time.
/// * An observer may keep anything; nothing it is handed lives longer than the call.
pub trait Observer {
    /// Time goes on from `from_ns` to `to_ns` (later); everything reported so far holds in between. Not called for records of one instant.
    fn elapse(&mut self, _from_ns: u64, _to_ns: u64) {}
    /// A task waits from now on, on this CPU's queue.
    fn wait_begin(&mut self, _row: Row, _cpu: CpuId, _cause: WaitCause) {}
    /// A waiting task is assigned to another CPU. Moves of tasks that do not wait (asleep, or just being woken) show in `record` only.
    fn wait_moved(&mut self, _row: Row, _from: CpuId, _to: CpuId) {}
    /// A task has waited: it runs now, or the log ends.
    fn wait_end(&mut self, _wait: &Wait) {}
    /// A task runs from now on.
    fn run_begin(&mut self, _row: Row, _cpu: CpuId) {}
    /// A task has run: it stops, or the log ends. If it is still runnable, `wait_begin` follows.
    fn run_end(&mut self, _run: &Run) {}
    /// A task has been blocked: it is woken, or the log ends.
    fn block_end(&mut self, _row: Row, _since_ns: u64, _now_ns: u64) {}
    /// A CPU is idle from now on.
    fn idle_begin(&mut self, _cpu: CpuId) {}
    /// A CPU has been idle.
    fn idle_end(&mut self, _cpu: CpuId, _since_ns: u64, _now_ns: u64) {}
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
    /// Why it stopped; `None`: the log ends.
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
}

#[derive(Clone, Copy, Debug)]
struct TaskState {
    phase: Phase,
    since_ns: u64,
    /// Running: where; waiting: on whose queue.
    cpu: CpuId,
    waited: Option<(WaitCause, u64)>,
}

struct CpuState {
    current: TaskId,
    since_ns: u64,
}

/// Reads the log once and tells the observer everything in order. `slots` are those of the log's header.
///
/// # Errors
/// [`LogProblem`]: the log cannot be read, or a record contradicts those before it. The observer has been told of all that came before.
pub fn replay(log: &dyn Log, slots: &Slots, observer: &mut impl Observer) -> Result<(), LogProblem> {
    let mut replay = Replay::new(log.header(), slots, &running_at_start(log, slots)?, observer)?;
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
                _ => {}
            }
        }
    }
    Ok(running)
}

struct Replay<'a, O> {
    slots: &'a Slots,
    observer: &'a mut O,
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
        observer: &'a mut O,
    ) -> Result<Self, LogProblem> {
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
                observer.idle_begin(cpu);
                return CpuState { current: TaskId::IDLE, since_ns: 0 };
            };
            observer.run_begin(row, cpu);
            tasks[row.index()] = TaskState { phase: Phase::Running, cpu, ..task };
            CpuState { current: slots.id(row), since_ns: 0 }
        });
        let cpus = cpus.collect();
        Ok(Replay { slots, observer, duration_ns, now_ns: 0, tasks, cpus })
    }

    #[inline]
    fn row(&self, index: u64, record: &Record, id: TaskId) -> Result<Option<Row>, LogProblem> {
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
        if record.time_ns != self.now_ns {
            if record.time_ns < self.now_ns {
                return Err(fail(Problem::TimeBackwards { previous_ns: self.now_ns }));
            }
            if record.time_ns > self.duration_ns {
                return Err(fail(Problem::TimeBeyondEnd { duration_ns: self.duration_ns }));
            }
            self.observer.elapse(self.now_ns, record.time_ns);
            self.now_ns = record.time_ns;
        }
        let nr_cpus = self.cpus.len() as u32;
        let known = |cpu: u32| {
            if cpu < nr_cpus { Ok(CpuId(cpu)) } else { Err(fail(Problem::UnknownCpu { cpu, nr_cpus })) }
        };
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
    ) -> Result<(), Problem> {
        let now_ns = self.now_ns;
        let place = &mut self.cpus[cpu.index()];
        let prev_id = prev.map_or(TaskId::IDLE, |row| self.slots.id(row));
        if place.current != prev_id {
            return Err(Problem::PrevNotCurrent { cpu: cpu.0, prev: prev_id, current: place.current });
        }
        match prev {
            None => self.observer.idle_end(cpu, place.since_ns, now_ns),
            Some(row) => {
                let task = &mut self.tasks[row.index()];
                let (since_ns, waited) = (task.since_ns, task.waited);
                let run = Run { row, cpu, since_ns, until_ns: now_ns, stop: Some(state), waited };
                task.since_ns = now_ns;
                task.phase = match state {
                    PrevState::Preempted | PrevState::Yielded => Phase::Waiting(WaitCause::Preempted),
                    PrevState::Sleeping | PrevState::Disk => Phase::Blocked,
                    PrevState::Dead => Phase::Dead,
                };
                let waits = matches!(task.phase, Phase::Waiting(_));
                self.observer.run_end(&run);
                if waits {
                    self.observer.wait_begin(row, cpu, WaitCause::Preempted);
                }
            }
        }
        (place.current, place.since_ns) = (next_id, now_ns);
        match next {
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
                    Phase::Running => {
                        let (cpu, other_cpu) = (cpu.0, task.cpu.0);
                        return Err(Problem::AlreadyRunning { task: next_id, cpu, other_cpu });
                    }
                    Phase::Blocked => return Err(Problem::RanWhileBlocked { task: next_id, cpu: cpu.0 }),
                    Phase::Dead => return Err(Problem::RanAfterExit { task: next_id, cpu: cpu.0 }),
                };
                *task = TaskState { phase: Phase::Running, since_ns: now_ns, cpu, waited };
                self.observer.run_begin(row, cpu);
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        let end_ns = self.duration_ns;
        if end_ns > self.now_ns {
            self.observer.elapse(self.now_ns, end_ns);
        }
        for (cpu, state) in self.cpus.iter().enumerate() {
            if state.current.is_idle() {
                self.observer.idle_end(CpuId(cpu as u32), state.since_ns, end_ns);
            }
        }
        for (row, task) in self.tasks.iter().enumerate() {
            let row = Row(row as u32);
            let TaskState { since_ns, cpu, waited, .. } = *task;
            match task.phase {
                Phase::Unseen | Phase::Dead => {}
                Phase::Blocked => self.observer.block_end(row, since_ns, end_ns),
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

    /// Writes down what it is told, in ms.
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
        fn record(&mut self, _record: &Record, kind: Kind, _row: Option<Row>) {
            self.add(format!("record {}", kind.name()));
        }
    }

    fn told(nr_cpus: u32, lines: &str) -> Vec<String> {
        let header = format!(
            "# schedlab log 1\n# sched \"x\"\n# sched_version \"1\"\n# cpus {nr_cpus}\n# hz 250\n# duration_ns 4000000\n\
             # task t0 pid=1 policy=normal nice=0 name=\"a\"\n# task t1 pid=2 policy=normal nice=0 name=\"b\"\n"
        );
        let text = format!("{header}{lines}# end {}\n", lines.lines().count());
        let log = TextLog::parse(&text, Path::new("drawn")).unwrap();
        let mut scribe = Scribe::default();
        replay(&log, &Slots::new(log.header()), &mut scribe).unwrap();
        scribe.0
    }

    /// The drawing at the top of this module.
    #[test]
    fn the_drawn_schedule_is_told_call_by_call() {
        let calls = told(
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
        let calls = told(
            2,
            "1000000 cpu1 switch t0 preempted -> idle\n2000000 cpu1 migrate t0 cpu1 -> cpu0\n2000000 cpu0 switch idle -> t0\n",
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
}
