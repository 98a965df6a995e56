//! What does a log say of who was where, and who moved whom?
//!
//! A log of ours holds the plan's tasks and no others, from the plan's start on. One that was made elsewhere may hold
//! strangers, begin earlier, and show a controller that takes the steps: [`Cast`] says who is who.

use crate::scenario::{Mark, Scenario};
use schedlab_instruments::{LogProblem, Move, MoveKind, for_each_move};
use schedlab_log::{Kind, Log, Observer, Record, Row, Run, Slots, Wait, WaitCause, note, replay};
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
    /// CPU time of each task in each of the scenario's windows.
    pub in_windows: Vec<Vec<u64>>,
    /// Where each task was first seen.
    pub first: Vec<Option<CpuId>>,
    /// Wakeups and births of the tasks that were watched, and new programs that they execute.
    pub placements: Vec<Placement>,
    /// CPU time of all that is no task of the plan, all CPUs together, from the plan's start to its end.
    pub strangers_ns: u64,
    /// When the controller was awake, if there is one: a stretch per step.
    pub awake: Vec<(u64, u64)>,
}

/// A controller that sleeps for longer has taken its step. Steps of a plan that are nearer to each other are one.
pub const BETWEEN_STEPS_NS: u64 = 20_000_000;

/// Who is who in a log, and when does the plan begin in it?
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// The plan's task that each of the log's tasks is, in the order of its header; `None`: a stranger.
    pub tasks: Vec<Option<TaskId>>,
    /// Tasks of the plan.
    pub nr_tasks: usize,
    /// The log's task that takes the steps.
    pub controller: Option<TaskId>,
    /// Time 0 of the plan, in the log's time.
    pub zero_ns: u64,
    /// How long the plan lasts, as far as the log has it.
    pub duration_ns: u64,
}

impl Cast {
    /// All tasks of the log are the plan's.
    pub fn of_all(log: &dyn Log) -> Cast {
        let nr_tasks = log.header().tasks.len();
        let tasks = (0..nr_tasks as u32).map(|task| Some(TaskId(task))).collect();
        Cast { tasks, nr_tasks, duration_ns: log.header().duration.as_ns(), ..Cast::default() }
    }
}

/// A task that became runnable or executes a new program, and what there was to choose from.
#[derive(Clone, Debug)]
pub struct Placement {
    /// When.
    pub time_ns: u64,
    /// Who.
    pub task: TaskId,
    /// It was born (or else woken, or executes a new program).
    pub born: bool,
    /// It executes a new program.
    pub executes: bool,
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
    /// The step took some time, and in the end a task was not where it was carried to.
    pub is_spoiled: bool,
}

impl Facts {
    /// Reads a log twice: once for moves, once for the rest.
    ///
    /// # Errors
    /// It contradicts itself, or cannot be read.
    pub fn read(log: &dyn Log, scenario: &Scenario) -> Result<Facts, LogProblem> {
        Facts::read_as(log, scenario, &Cast::of_all(log))
    }

    /// The same of a log that was made elsewhere.
    ///
    /// # Errors
    /// As [`Facts::read`]; or its observer could not see every change of CPU.
    pub fn read_as(log: &dyn Log, scenario: &Scenario, cast: &Cast) -> Result<Facts, LogProblem> {
        let header = log.header();
        let slots = Slots::new(header);
        let nr_cpus = header.nr_cpus as usize;
        let mut facts = Facts {
            nr_cpus,
            duration_ns: cast.duration_ns,
            cpu_ns: vec![0; cast.nr_tasks],
            in_windows: vec![vec![0; cast.nr_tasks]; scenario.windows.len()],
            first: vec![None; cast.nr_tasks],
            ..Facts::default()
        };
        for_each_move(log, |moved| {
            let Some(Some(task)) = cast.tasks.get(moved.task.index()).filter(|_| moved.task.is_workload())
            else {
                return;
            };
            if (0..=cast.duration_ns).contains(&moved.time_ns.wrapping_sub(cast.zero_ns)) {
                facts.moves.push(Move { task: *task, time_ns: moved.time_ns - cast.zero_ns, ..*moved });
            }
        })?;
        let mut reader = Reader {
            facts,
            cast,
            now_ns: 0,
            window_ns: scenario.window.as_ns(),
            windows: scenario.windows.iter().map(|(from, to)| (from.as_ns(), to.as_ns())).collect(),
            now: vec![0; nr_cpus],
            last: vec![CpuId(0); cast.nr_tasks],
            watched: &scenario.watched,
            parents: vec![None; cast.nr_tasks],
            awake_since: None,
            wakers: vec![None; cast.nr_tasks],
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
    /// homes first; what is moved when all are there is the scheduler's own doing. A step that took some time counts
    /// from its end.
    pub fn round(&self, mark: &Mark, until_ns: u64) -> Round<'_> {
        let at_ns = mark.at.as_ns() + mark.took.as_ns();
        let is_away = |task: &TaskId| {
            self.cpu_before(*task, at_ns + 1).is_some_and(|cpu| cpu != mark.homes[task.index()])
        };
        let is_spoiled = mark.took.as_ns() > 0 && mark.tasks.iter().any(is_away);
        let mut away: Vec<(TaskId, CpuId)> = Vec::new();
        for task in &mark.tasks {
            let home = mark.homes[task.index()];
            if mark.took.as_ns() == 0 && self.cpu_before(*task, at_ns).is_some_and(|cpu| cpu != home) {
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
        Round { at_ns, moves, is_spoiled }
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
    cast: &'a Cast,
    /// Time of the plan; before it begins 0.
    now_ns: u64,
    window_ns: u64,
    windows: Vec<(u64, u64)>,
    now: Vec<u32>,
    /// Where each task was last.
    last: Vec<CpuId>,
    watched: &'a [TaskId],
    /// On which CPU each was forked.
    parents: Vec<Option<CpuId>>,
    awake_since: Option<u64>,
    /// On which CPU each was last asked to wake up.
    wakers: Vec<Option<CpuId>>,
}

impl Reader<'_> {
    /// The plan's task in this row.
    fn task(&self, row: Row) -> Option<TaskId> {
        self.cast.tasks.get(row.index()).copied().flatten()
    }

    fn is_controller(&self, row: Row) -> bool {
        self.cast.controller.is_some_and(|task| task.index() == row.index())
    }

    /// An instant of the log as one of the plan.
    fn plan_ns(&self, log_ns: u64) -> u64 {
        log_ns.saturating_sub(self.cast.zero_ns).min(self.facts.duration_ns)
    }

    /// The task runs on `cpu`, and executes a new program there.
    fn executes(&mut self, task: TaskId, cpu: CpuId) {
        let mut lengths = self.now.clone();
        lengths[cpu.index()] = lengths[cpu.index()].saturating_sub(1);
        let (time_ns, born, executes) = (self.now_ns, false, true);
        let placement = Placement { time_ns, task, born, executes, from: cpu, to: cpu, by: cpu, lengths };
        self.facts.placements.push(placement);
    }

    fn add(&mut self, row: Row, cpu: CpuId, more: bool) {
        // at its end the log closes what is open: no queue gets shorter by that
        let Some(task) = self.task(row).filter(|_| self.now_ns < self.facts.duration_ns) else { return };
        let length = &mut self.now[cpu.index()];
        *length = if more { *length + 1 } else { length.saturating_sub(1) };
        let entry = (self.now_ns, cpu, *length);
        match self.facts.lengths.last_mut() {
            // a switch takes a task off a queue and puts it back: only what holds at the end of an instant counts
            Some(last) if last.0 == entry.0 && last.1 == entry.1 => *last = entry,
            _ => self.facts.lengths.push(entry),
        }
        if more {
            self.last[task.index()] = cpu;
            self.facts.first[task.index()].get_or_insert(cpu);
        }
    }
}

impl Observer for Reader<'_> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = self.plan_ns(to_ns);
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
        if let Some(task) = self.task(row)
            && cause != WaitCause::Preempted
            && self.watched.contains(&task)
        {
            let born = cause == WaitCause::New;
            let last = self.last[task.index()];
            let from = if born { self.parents[task.index()].unwrap_or(last) } else { last };
            let (time_ns, lengths, executes) = (self.now_ns, self.now.clone(), false);
            let placement = Placement { time_ns, task, born, executes, from, to: cpu, by: from, lengths };
            self.facts.placements.push(placement);
        }
        self.add(row, cpu, true);
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        // that is where a new program goes on; what was woken or born and is moved then was put elsewhere first
        if let Some(task) = self.task(row)
            && let Some(placement) = self.facts.placements.last_mut()
            && placement.executes
            && (placement.task, placement.time_ns) == (task, self.now_ns)
        {
            placement.to = to;
        }
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
        let (since_ns, until_ns) = (self.plan_ns(run.since_ns), self.plan_ns(run.until_ns));
        match self.task(run.row) {
            Some(task) => {
                self.facts.cpu_ns[task.index()] += until_ns.saturating_sub(since_ns.max(self.window_ns));
                for ((from_ns, to_ns), cpu_ns) in self.windows.iter().zip(&mut self.facts.in_windows) {
                    cpu_ns[task.index()] += until_ns.min(*to_ns).saturating_sub(since_ns.max(*from_ns));
                }
            }
            None if self.is_controller(run.row) => {}
            None => self.facts.strangers_ns += until_ns - since_ns,
        }
    }
    fn block_end(&mut self, row: Row, since_ns: u64, now_ns: u64) {
        if !self.is_controller(row) {
            return;
        }
        let is_long = now_ns - since_ns > BETWEEN_STEPS_NS;
        let (since_ns, now_ns) = (self.plan_ns(since_ns), self.plan_ns(now_ns));
        match self.awake_since {
            // within a step it waits for the kernel to carry a task; between steps it sleeps for long
            Some(_) if !is_long => {}
            before => {
                self.facts.awake.extend(before.map(|from_ns| (from_ns, since_ns)));
                self.awake_since = Some(now_ns);
            }
        }
    }
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        match kind {
            Kind::Note if record.arg == note::EXEC => {
                if let Some(task) =
                    row.and_then(|row| self.task(row)).filter(|task| self.watched.contains(task))
                {
                    self.executes(task, record.cpu());
                }
            }
            Kind::Fork if record.other().is_workload() => {
                if let Some(child) = self.cast.tasks.get(record.other().index()).copied().flatten() {
                    self.parents[child.index()] = Some(record.cpu());
                }
            }
            // real Linux may finish a wakeup on the CPU that it chose: who asked for it was on another
            Kind::Waking => {
                if let Some(task) = row.and_then(|row| self.task(row)) {
                    self.wakers[task.index()] = Some(record.cpu());
                }
            }
            Kind::Wakeup | Kind::New => {
                let Some(task) = row.and_then(|row| self.task(row)) else { return };
                let waker = self.wakers[task.index()].take().filter(|_| kind == Kind::Wakeup);
                if let Some(placement) = self.facts.placements.last_mut()
                    && placement.task == task
                    && placement.time_ns == self.now_ns
                {
                    placement.by = waker.unwrap_or(record.cpu());
                }
            }
            _ => {}
        }
    }
}
