//! POSIX real time: SCHED_FIFO and SCHED_RR, with a queue per CPU and push and pull between them, as Linux has it.
//!
//! The highest priority runs; FIFO until it blocks or yields, RR for its slice, then the next of equal
//! priority. On several CPUs the aim is that the m highest of all run:
//!
//! ```text
//! wake   its CPU runs something as high or higher?   go to the CPU that runs the lowest, if that is lower
//! push   a CPU has picked and more wait there?       the highest waiting one goes to a CPU that runs lower
//! pull   a CPU is about to run lower than others     take the highest that waits elsewhere
//!        have waiting?
//! ```
//!
//! *Source*: POSIX.1-2001 (Process Scheduling option); kernel/sched/rt.c's behaviour, restated from its
//! documentation. *Differs*: RR slices are exact, not rounded to ticks; there is no throttling (Linux: 950 ms
//! of each second). As a scheduler of its own (`posix`), all other tasks share the CPU below, by EEVDF (see
//! `stack`). *Uncertain*: nothing known.
//!
//! *Parameter*: `rr_slice` (100 ms).

use crate::kit::prio::PrioArrays;
use crate::kit::requests::Requests;
use crate::kit::table::Table;
use schedlab_machine::policy::{Arrival, Policy, Request, Resched, Stop, View, Wants, WorkConservation};
use schedlab_units::{CpuId, SchedPolicy, Span, TaskId};
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// Level 0 is priority 99.
const LEVELS: usize = 100;

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    cpu: CpuId,
    level: usize,
    left: Span,
}

/// See the module.
#[derive(Debug)]
pub struct Posix {
    rr_slice: Span,
    tasks: Table<Task>,
    queued: PrioArrays,
    current: Vec<Option<TaskId>>,
    /// CPUs where tasks wait.
    waiting: BTreeSet<CpuId>,
    requests: Requests,
}

/// How high a CPU is occupied: the level it runs, or lower than all.
const NOT_REAL_TIME: usize = LEVELS;
const IDLE: usize = LEVELS + 1;

impl Posix {
    /// With this slice for SCHED_RR, which is not zero.
    pub fn new(rr_slice: Span) -> Posix {
        assert!(rr_slice > Span::ZERO, "a slice of zero would never let a task run");
        Posix {
            rr_slice,
            tasks: Table::default(),
            queued: PrioArrays::default(),
            current: Vec::new(),
            waiting: BTreeSet::new(),
            requests: Requests::default(),
        }
    }

    fn occupied(&self, view: &View, cpu: CpuId) -> usize {
        match self.current[cpu.index()] {
            Some(current) => self.tasks[current].level,
            None if view.is_idle(cpu) => IDLE,
            None => match view.current(cpu).map(|current| view.params(current).policy) {
                Some(SchedPolicy::Deadline) => 0, // a higher class
                _ => NOT_REAL_TIME,
            },
        }
    }

    /// The allowed CPU that is occupied lowest, if that is lower than the task; its own CPU on ties, then the
    /// lowest number.
    fn lowest(&self, view: &View, task: TaskId) -> Option<CpuId> {
        let home = view.task_cpu(task);
        let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
        let lowest =
            allowed.max_by_key(|&cpu| (self.occupied(view, cpu), cpu == home, std::cmp::Reverse(cpu)))?;
        (self.occupied(view, lowest) > self.tasks[task].level).then_some(lowest)
    }

    fn add(&mut self, cpu: CpuId, task: TaskId, front: bool) {
        let state = &mut self.tasks[task];
        state.cpu = cpu;
        match front {
            true => self.queued.push_front(cpu.index(), state.level, task),
            false => self.queued.push_back(cpu.index(), state.level, task),
        }
        self.waiting.insert(cpu);
    }

    fn remove(&mut self, task: TaskId) {
        let Task { cpu, level, .. } = self.tasks[task];
        self.queued.remove(cpu.index(), level, task);
        if self.queued.nr(cpu.index()) == 0 {
            self.waiting.remove(&cpu);
        }
    }

    fn move_task(&mut self, task: TaskId, to: CpuId) {
        self.remove(task);
        self.add(to, task, false);
        self.requests.moved(task, to);
    }

    /// Takes over the highest task that waits elsewhere, if it is higher than what waits here.
    fn pull(&mut self, view: &View, cpu: CpuId) {
        let here = self.queued.first(cpu.index()).map_or(NOT_REAL_TIME, |(level, _)| level);
        let best = self
            .waiting
            .iter()
            .filter(|&&from| from != cpu)
            .filter_map(|&from| self.queued.iter(from.index()).find(|&(_, task)| view.allowed(task, cpu)))
            .min_by_key(|&(level, _)| level);
        if let Some((level, task)) = best
            && level < here
        {
            self.move_task(task, cpu);
        }
    }

    /// Sends tasks that wait here to CPUs that run lower.
    fn push(&mut self, view: &View, cpu: CpuId) {
        let mut sent: Vec<CpuId> = Vec::new();
        let waiting: Vec<TaskId> = self.queued.iter(cpu.index()).map(|(_, task)| task).collect();
        for task in waiting {
            match self.lowest(view, task) {
                // one for each CPU: it is not yet seen to run it
                Some(to) if to != cpu && !sent.contains(&to) => {
                    sent.push(to);
                    self.move_task(task, to);
                    self.requests.kick(to);
                }
                _ => break,
            }
        }
    }
}

impl Policy for Posix {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::PerCpu
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.queued = PrioArrays::new(view.nr_cpus() as usize, LEVELS);
        self.current = vec![None; view.nr_cpus() as usize];
        Wants { requests: true, ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        let left = self.rr_slice;
        *self.tasks.reset(task) = Task { left, cpu: view.home_cpu(task), level: 0 };
        self.params_changed(view, task);
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let level = 99 - usize::from(view.params(task).rt_priority.min(99));
        let before = std::mem::replace(&mut self.tasks[task].level, level);
        let cpu = self.tasks[task].cpu;
        if level > before && self.current[cpu.index()] == Some(task) {
            self.requests.kick(cpu);
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        let home = view.home_cpu(task);
        if self.occupied(view, home) > self.tasks[task].level {
            return home; // whatever runs there, it is lower
        }
        self.lowest(view, task).unwrap_or(home)
    }

    fn enqueue(&mut self, _view: &View, cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.add(cpu, task, false);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.remove(task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        if !self.waiting.is_empty() {
            self.pull(view, cpu);
        }
        let (_, task) = self.queued.first(cpu.index())?;
        self.remove(task);
        self.current[cpu.index()] = Some(task);
        self.tasks[task].cpu = cpu;
        if self.queued.nr(cpu.index()) > 0 {
            self.push(view, cpu);
        }
        self.requests.picked(Some(task));
        Some(task)
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        self.current[cpu.index()] = None;
        let state = &mut self.tasks[task];
        state.left = state.left.saturating_sub(ran);
        let used_up = view.params(task).policy == SchedPolicy::RoundRobin && state.left == Span::ZERO;
        if used_up || view.params(task).policy != SchedPolicy::RoundRobin {
            state.left = self.rr_slice;
        }
        match stop {
            Stop::Preempted if view.allowed(task, cpu) => self.add(cpu, task, !used_up),
            Stop::Yielded => self.add(cpu, task, false),
            Stop::Preempted => self.add(cpu, task, false),
            Stop::Blocked | Stop::Exited => {}
        }
    }

    fn preempts(&mut self, _view: &View, _cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        match self.tasks[woken].level < self.tasks[current].level {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn slice(&mut self, view: &View, _cpu: CpuId, task: TaskId) -> Option<Span> {
        (view.params(task).policy == SchedPolicy::RoundRobin).then_some(self.tasks[task].left)
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.next()
    }
}
