//! What does a log say of who was where, and who moved whom?

use crate::scenario::{Mark, Scenario};
use schedlab_instruments::{LogProblem, Move, MoveKind, for_each_move};
use schedlab_log::{Kind, Log, Observer, Record, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::{CpuId, TaskId};

/// What is read off one run. Times are ns from its start; only tasks of the workload count.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// CPUs.
    pub nr_cpus: usize,
    /// How long the run lasted.
    pub duration_ns: u64,
    /// Moves, in order of time.
    pub moves: Vec<Move>,
    /// Each change of a queue's length, running task included: when, where, the new length.
    pub lengths: Vec<(u64, CpuId, u32)>,
    /// CPU time of each task in the scenario's window.
    pub cpu_ns: Vec<u64>,
    /// Where each task was first seen.
    pub first: Vec<Option<CpuId>>,
    /// Wakeups and births of the tasks that were watched.
    pub placements: Vec<Placement>,
}

/// A task that became runnable, and what there was to choose from.
#[derive(Clone, Debug)]
pub struct Placement {
    /// When.
    pub time_ns: u64,
    /// Who.
    pub task: TaskId,
    /// It was born (or else woken).
    pub born: bool,
    /// Where it was before; a newborn's parent.
    pub from: CpuId,
    /// Where it was put.
    pub to: CpuId,
    /// Where that was decided: the waker's or the parent's CPU.
    pub by: CpuId,
    /// The length of each queue without it.
    pub lengths: Vec<u32>,
}

/// The moves after an arrangement that the scheduler itself made.
#[derive(Clone, Debug)]
pub struct Round<'a> {
    /// When the arrangement was made.
    pub at_ns: u64,
    /// The scheduler's own moves since.
    pub moves: Vec<&'a Move>,
}

impl Facts {
    /// Reads a log twice: once for moves, once for the rest.
    ///
    /// # Errors
    /// It contradicts itself, or cannot be read.
    pub fn read(log: &dyn Log, scenario: &Scenario) -> Result<Facts, LogProblem> {
        let header = log.header();
        let slots = Slots::new(header);
        let nr_tasks = header.tasks.len();
        let nr_cpus = header.nr_cpus as usize;
        let mut facts = Facts {
            nr_cpus,
            duration_ns: header.duration.as_ns(),
            cpu_ns: vec![0; nr_tasks],
            first: vec![None; nr_tasks],
            ..Facts::default()
        };
        for_each_move(log, |moved| {
            if moved.task.is_workload() {
                facts.moves.push(*moved);
            }
        })?;
        let mut reader = Reader {
            facts,
            now_ns: 0,
            window_ns: scenario.window.as_ns(),
            now: vec![0; nr_cpus],
            last: vec![CpuId(0); nr_tasks],
            watched: &scenario.watched,
            parents: vec![None; nr_tasks],
        };
        replay(log, &slots, &mut reader)?;
        Ok(reader.facts)
    }

    /// The lengths of all queues at an instant, after all that happens at it.
    pub fn lengths_at(&self, ns: u64) -> Vec<u32> {
        let mut lengths = vec![0; self.nr_cpus];
        for (at, cpu, length) in &self.lengths {
            if *at > ns {
                break;
            }
            lengths[cpu.index()] = *length;
        }
        lengths
    }

    /// Calls `f` with each stretch of time from `from_ns` on in which no length changes: its two ends, and the lengths.
    pub fn for_each_state(&self, from_ns: u64, mut f: impl FnMut(u64, u64, &[u32])) {
        let mut lengths = vec![0; self.nr_cpus];
        let mut since_ns = 0;
        let end = (self.duration_ns, CpuId(0), u32::MAX);
        for (at, cpu, length) in self.lengths.iter().chain([&end]) {
            if *at > since_ns && *at > from_ns {
                f(since_ns.max(from_ns), *at, &lengths);
            }
            since_ns = *at;
            if *length != u32::MAX {
                lengths[cpu.index()] = *length;
            }
        }
    }

    /// Where a task is at an instant, before what happens at it.
    pub fn cpu_before(&self, task: TaskId, ns: u64) -> Option<CpuId> {
        let before = |moved: &&Move| moved.task == task && moved.time_ns < ns;
        let last = self.moves.iter().rev().find(before).map(|moved| moved.to);
        last.or(self.first[task.index()])
    }

    /// What the scheduler moved after a mark, until `until_ns`. At the mark's instant tasks are carried to their
    /// homes first; what is moved when all are there is the scheduler's own doing.
    pub fn round(&self, mark: &Mark, until_ns: u64) -> Round<'_> {
        let at_ns = mark.at.as_ns();
        let mut away: Vec<(TaskId, CpuId)> = Vec::new();
        for task in &mark.tasks {
            let home = mark.homes[task.index()];
            if self.cpu_before(*task, at_ns).is_some_and(|cpu| cpu != home) {
                away.push((*task, home));
            }
        }
        let mut moves = Vec::new();
        for moved in self.moves.iter().filter(|moved| (at_ns..until_ns).contains(&moved.time_ns)) {
            let arrives = |entry: &(TaskId, CpuId)| *entry == (moved.task, moved.to);
            if moved.time_ns == at_ns && !away.is_empty() {
                away.retain(|entry| !arrives(entry));
            } else if mark.tasks.contains(&moved.task) {
                moves.push(moved);
            }
        }
        Round { at_ns, moves }
    }

    /// How many of the moves of runnable tasks have nobody who made them, and how many there are.
    pub fn unmade(&self) -> (usize, usize) {
        let of_runnable = self.moves.iter().filter(|moved| moved.kind == MoveKind::Balance);
        let all = of_runnable.clone().count();
        (of_runnable.filter(|moved| moved.mover.is_none()).count(), all)
    }
}

struct Reader<'a> {
    facts: Facts,
    now_ns: u64,
    window_ns: u64,
    now: Vec<u32>,
    /// Where each task was last.
    last: Vec<CpuId>,
    watched: &'a [TaskId],
    /// On which CPU each was forked.
    parents: Vec<Option<CpuId>>,
}

impl Reader<'_> {
    fn is_task(&self, row: Row) -> bool {
        row.index() < self.last.len()
    }

    fn add(&mut self, row: Row, cpu: CpuId, more: bool) {
        // at its end the log closes what is open: no queue gets shorter by that
        if !self.is_task(row) || self.now_ns >= self.facts.duration_ns {
            return;
        }
        let length = &mut self.now[cpu.index()];
        *length = if more { *length + 1 } else { length.saturating_sub(1) };
        let entry = (self.now_ns, cpu, *length);
        match self.facts.lengths.last_mut() {
            // a switch takes a task off a queue and puts it back: only what holds at the end of an instant counts
            Some(last) if last.0 == entry.0 && last.1 == entry.1 => *last = entry,
            _ => self.facts.lengths.push(entry),
        }
        if more {
            self.last[row.index()] = cpu;
            self.facts.first[row.index()].get_or_insert(cpu);
        }
    }
}

impl Observer for Reader<'_> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
        if self.is_task(row) && cause != WaitCause::Preempted && self.watched.contains(&TaskId(row.0)) {
            let born = cause == WaitCause::New;
            let last = self.last[row.index()];
            let from = if born { self.parents[row.index()].unwrap_or(last) } else { last };
            let (time_ns, task, lengths) = (self.now_ns, TaskId(row.0), self.now.clone());
            self.facts.placements.push(Placement { time_ns, task, born, from, to: cpu, by: from, lengths });
        }
        self.add(row, cpu, true);
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        self.add(row, from, false);
        self.add(row, to, true);
    }
    fn wait_end(&mut self, wait: &Wait) {
        self.add(wait.row, wait.cpu, false);
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        self.add(row, cpu, true);
    }
    fn run_end(&mut self, run: &Run) {
        self.add(run.row, run.cpu, false);
        if self.is_task(run.row) {
            let since_ns = run.since_ns.max(self.window_ns);
            self.facts.cpu_ns[run.row.index()] += run.until_ns.saturating_sub(since_ns);
        }
    }
    fn record(&mut self, record: &Record, kind: Kind, _row: Option<Row>) {
        match kind {
            Kind::Fork if record.other().is_workload() => {
                self.parents[record.other().index()] = Some(record.cpu());
            }
            Kind::Wakeup | Kind::New => {
                if let Some(placement) = self.facts.placements.last_mut()
                    && placement.task == record.task()
                    && placement.time_ns == self.now_ns
                {
                    placement.by = record.cpu();
                }
            }
            _ => {}
        }
    }
}
