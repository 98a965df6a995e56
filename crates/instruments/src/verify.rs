//! Could this have happened on a real machine? Every record is checked against what the records before it said.
//!
//! ```text
//!   cpu0 AAAA        A runs on both CPUs from 2 to 4:
//!   cpu1   AAAA      AlreadyRunning { task: t0, cpu: 1, other_cpu: 0 } in record 3 at 2,000,000 ns
//! ```
//!
//! Written apart from the instruments' own reading of the log, so that each checks the other. A checked log is
//! one of a whole run: CPUs are idle at the start, and a workload task runs only after a `New` or a `Wakeup`.
//! What the header hides is not held against a record: a task or a CPU that nobody saw may do anything until it
//! is seen again.

use crate::Impossible;
use schedlab_log::{Fact, Kind, Log, LogError, LogHeader, PrevState, Record, Row, Slots, for_each, note};
use schedlab_units::{CpuId, TaskId};

/// A record that says something impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {index} at {time_ns} ns: {problem}")]
pub struct Violation {
    /// Position in the log, from 0.
    pub index: u64,
    /// Its time.
    pub time_ns: u64,
    /// What is impossible.
    pub problem: Impossible,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// The first [`VIOLATIONS_KEPT`] violations.
    pub violations: Vec<Violation>,
    /// Number of violations.
    pub nr_violations: u64,
    /// Records checked.
    pub records: u64,
    /// Wakeups of tasks that were running or waiting already: nothing wrong (the kernel reports a wakeup that
    /// comes while a task is on its way to sleep), but worth a look if there are many.
    pub wakeups_of_runnable: u64,
}

impl Verification {
    /// Nothing impossible.
    pub fn is_clean(&self) -> bool {
        self.nr_violations == 0
    }
}

/// Violations kept in a [`Verification`].
pub const VIOLATIONS_KEPT: usize = 100;

/// Checks the whole log. After a violation the record is believed and the check goes on.
pub fn verify(log: &dyn Log) -> Result<Verification, LogError> {
    let mut checker = Checker::new(log.header());
    for_each(log, |index, record| -> Result<(), LogError> {
        checker.check(index, record);
        Ok(())
    })?;
    Ok(checker.verdict)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Unseen,
    Asleep,
    Queued,
    On(u32),
    Gone,
    /// Nobody saw.
    Unknown,
}

struct Checker<'a> {
    header: &'a LogHeader,
    slots: Slots,
    verdict: Verification,
    now: u64,
    places: Vec<Place>,
    /// The CPU a task is assigned to, where known.
    assigned: Vec<Option<u32>>,
    /// Its affinity is still the header's.
    affinity_known: Vec<bool>,
    /// `None`: nobody saw.
    current: Vec<Option<TaskId>>,
}

impl<'a> Checker<'a> {
    fn new(header: &'a LogHeader) -> Checker<'a> {
        let slots = Slots::new(header);
        let rows = slots.len();
        let unseen = match header.hidden.has_any(&[Fact::Wakeups, Fact::Stops, Fact::Lives, Fact::Spans]) {
            true => Place::Unknown,
            false => Place::Unseen,
        };
        let current = if header.hidden.is_nothing() { Some(TaskId::IDLE) } else { None };
        Checker {
            header,
            slots,
            verdict: Verification::default(),
            now: 0,
            places: vec![unseen; rows],
            assigned: vec![None; rows],
            affinity_known: vec![true; rows],
            current: vec![current; header.nr_cpus as usize],
        }
    }

    fn check(&mut self, index: u64, record: &Record) {
        self.verdict.records += 1;
        let time_ns = record.time_ns;
        let before = self.verdict.violations.len();
        if time_ns < self.now {
            self.found(Impossible::TimeBackwards { previous_ns: self.now });
        }
        self.now = time_ns;
        let duration_ns = self.header.duration.as_ns();
        if time_ns > duration_ns {
            self.found(Impossible::TimeBeyondEnd { duration_ns });
        }
        if let Err(problem) = self.record(record) {
            self.found(problem);
        }
        for violation in &mut self.verdict.violations[before..] {
            (violation.index, violation.time_ns) = (index, time_ns);
        }
    }

    fn found(&mut self, problem: Impossible) {
        self.verdict.nr_violations += 1;
        if self.verdict.violations.len() < VIOLATIONS_KEPT {
            self.verdict.violations.push(Violation { index: 0, time_ns: 0, problem });
        }
    }

    fn cpu(&self, cpu: u32) -> Result<u32, Impossible> {
        let nr_cpus = self.header.nr_cpus;
        if cpu < nr_cpus { Ok(cpu) } else { Err(Impossible::UnknownCpu { cpu, nr_cpus }) }
    }

    /// Row of a task that must be named in the header; `None`: idle.
    fn row(&self, task: TaskId) -> Result<Option<usize>, Impossible> {
        match self.slots.row(task) {
            Some(row) => Ok(Some(row.index())),
            None if task.is_idle() => Ok(None),
            None => Err(Impossible::UnknownTask { task }),
        }
    }

    fn record(&mut self, record: &Record) -> Result<(), Impossible> {
        let cpu = self.cpu(record.cpu.into())?;
        let kind = record.kind().ok_or(Impossible::UnknownKind { kind: record.kind })?;
        let task = record.task();
        let row = self.row(task)?;
        match (kind, row) {
            (Kind::Switch, _) => {
                let state = PrevState::from_number(record.flags);
                let state = state.ok_or(Impossible::UnknownPrevState { state: record.flags })?;
                self.row(record.other())?;
                self.stop(cpu, task, state);
                self.start(cpu, record.other());
                self.current[cpu as usize] = Some(record.other());
            }
            (Kind::New | Kind::Wakeup, Some(row)) => {
                let to = self.cpu(record.arg)?;
                match (kind, self.places[row]) {
                    (_, Place::Gone) => self.found(Impossible::WokenAfterExit { task }),
                    (Kind::New, Place::Queued | Place::On(_)) => self.found(Impossible::NewTwice { task }),
                    (_, Place::Queued | Place::On(_)) => {
                        self.verdict.wakeups_of_runnable += 1;
                        return Ok(());
                    }
                    (_, Place::Unseen | Place::Asleep | Place::Unknown) => {}
                }
                self.places[row] = Place::Queued;
                self.assigned[row] = Some(to);
            }
            (Kind::Migrate, Some(row)) => {
                let (from, to) = (self.cpu(record.arg)?, self.cpu(record.other)?);
                let assigned = self.assigned[row].replace(to);
                if let Place::On(cpu) = self.places[row] {
                    self.found(Impossible::MigratedWhileRunning { task, cpu, to_cpu: to });
                } else if let Some(assigned_cpu) = assigned.filter(|assigned| *assigned != from) {
                    self.found(Impossible::MigratedFromElsewhere { task, cpu: from, assigned_cpu });
                }
            }
            (Kind::Fork, _) => {
                self.row(record.other())?;
            }
            (Kind::Note, row) if matches!(record.arg, note::UNKNOWN_CPU | note::UNKNOWN_TASK) => {
                if !self.header.hidden.has(Fact::Spans) {
                    return Err(Impossible::NotDeclared { fact: Fact::Spans });
                }
                match (record.arg, row) {
                    (note::UNKNOWN_CPU, _) => self.lose_cpu(cpu),
                    (_, Some(row)) => self.lose(row),
                    (_, None) => {}
                }
            }
            (Kind::Params, Some(row)) if record.flags & 1 != 0 => self.affinity_known[row] = false,
            _ => {}
        }
        Ok(())
    }

    /// `task` stops on `cpu`.
    fn stop(&mut self, cpu: u32, task: TaskId, state: PrevState) {
        if let Some(current) = self.current[cpu as usize].filter(|current| *current != task) {
            self.found(Impossible::PrevNotCurrent { cpu, prev: task, current });
        }
        if state == PrevState::Unknown && !self.header.hidden.has(Fact::Stops) {
            self.found(Impossible::NotDeclared { fact: Fact::Stops });
        }
        if let Some(row) = self.slots.row(task) {
            self.assigned[row.index()] = Some(cpu);
            self.places[row.index()] = match state {
                PrevState::Preempted | PrevState::Yielded => Place::Queued,
                PrevState::Sleeping | PrevState::Disk if self.header.hidden.has(Fact::Wakeups) => {
                    Place::Unknown
                }
                PrevState::Sleeping | PrevState::Disk => Place::Asleep,
                PrevState::Dead => Place::Gone,
                PrevState::Unknown => Place::Unknown,
            };
        }
    }

    /// Nobody sees this task from now on.
    fn lose(&mut self, row: usize) {
        if let Place::On(cpu) = self.places[row] {
            self.current[cpu as usize] = None;
        }
        if self.places[row] != Place::Gone {
            (self.places[row], self.assigned[row]) = (Place::Unknown, None);
        }
    }

    /// Nobody sees this CPU from now on, nor its task, nor those on its queue.
    fn lose_cpu(&mut self, cpu: u32) {
        self.current[cpu as usize] = None;
        let anywhere = self.header.hidden.has(Fact::Assignments);
        for row in 0..self.places.len() {
            let is_here = match self.places[row] {
                Place::On(on) => on == cpu,
                Place::Queued => anywhere || self.assigned[row] == Some(cpu),
                _ => false,
            };
            if is_here {
                self.lose(row);
            }
        }
    }

    /// `task` starts on `cpu`.
    fn start(&mut self, cpu: u32, task: TaskId) {
        let Some(row) = self.slots.row(task).map(Row::index) else { return };
        match self.places[row] {
            Place::On(other_cpu) => self.found(Impossible::AlreadyRunning { task, cpu, other_cpu }),
            Place::Asleep => self.found(Impossible::RanWhileBlocked { task, cpu }),
            Place::Gone => self.found(Impossible::RanAfterExit { task, cpu }),
            Place::Unseen if task.is_workload() => self.found(Impossible::NeverMadeRunnable { task, cpu }),
            Place::Queued | Place::Unseen | Place::Unknown => {}
        }
        let assigned = self.assigned[row].filter(|_| !self.header.hidden.has(Fact::Assignments));
        if let Some(assigned_cpu) = assigned.filter(|assigned| *assigned != cpu) {
            self.found(Impossible::RanElsewhere { task, cpu, assigned_cpu });
        }
        if task.is_workload() && self.affinity_known[row] && !self.header.hidden.has(Fact::Affinity) {
            let affinity = &self.header.tasks[row].affinity;
            if affinity.as_ref().is_some_and(|affinity| !affinity.contains(CpuId(cpu))) {
                self.found(Impossible::NotAllowed { task, cpu });
            }
        }
        self.places[row] = Place::On(cpu);
        self.assigned[row] = Some(cpu);
    }
}
