//! MLFQ, the multi-level feedback queue of the textbooks.
//!
//! 1. The highest level runs, its tasks in turns.
//! 2. A new task begins at the highest.
//! 3. A task that has used up its allotment at a level, in however many pieces, goes one down.
//! 4. From time to time all go back to the highest (*boost*).
//!
//! ```text
//! quantum 10 ms, doubled per level; A is a hog, B runs 1 ms and sleeps 9
//! ms   0         1         2         3
//!      0123456789012345678901234567890123
//!      AAAAAAAAAABAAAAAAAAABAAAAAAAAABAAA     B stays on level 0 until it has used 10 ms there in all
//! ```
//!
//! *Sources*: Corbato, Daggett, Daley (CTSS, 1962); R. and A. Arpaci-Dusseau, "Operating Systems: Three Easy
//! Pieces", chapter 8 (rules 1 to 5). *Differs*: one queue serves all CPUs (the textbook has one CPU). Nice
//! values and policies are ignored. A boost takes effect at the next decision after it is due. *Uncertain*:
//! nothing; constants are a choice.
//!
//! *Parameters*: `levels` (3), `quantum` (10 ms at the highest level, doubled at each below), `boost` (1 s).

use crate::kit::prio::PrioArrays;
use crate::kit::table::Table;
use schedlab_machine::policy::{Arrival, Policy, Resched, Stop, View, Wants};
use schedlab_units::{CpuId, Span, TaskId};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    level: usize,
    used: Span,
    /// The boost that it has seen.
    boost: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Mlfq {
    levels: usize,
    quantum: Span,
    boost: Span,
    tasks: Table<Task>,
    queue: PrioArrays,
    boosts: u64,
}

impl Mlfq {
    /// With 1 to 16 levels; quantum and boost are not zero.
    pub fn new(levels: usize, quantum: Span, boost: Span) -> Mlfq {
        assert!((1..=16).contains(&levels) && quantum > Span::ZERO && boost > Span::ZERO);
        let queue = PrioArrays::new(1, levels);
        Mlfq { levels, quantum, boost, tasks: Table::default(), queue, boosts: 0 }
    }

    fn allotment(&self, level: usize) -> Span {
        Span::from_ns(self.quantum.as_ns() << level)
    }

    /// Brings a task that is not queued up to the last boost.
    fn refresh(&mut self, task: TaskId) {
        let state = &mut self.tasks[task];
        if state.boost != self.boosts {
            *state = Task { level: 0, used: Span::ZERO, boost: self.boosts };
        }
    }

    /// Boosts if it is time.
    fn check_boost(&mut self, view: &View) {
        let boosts = view.now().as_ns() / self.boost.as_ns();
        if boosts == self.boosts {
            return;
        }
        self.boosts = boosts;
        let queued: Vec<(usize, TaskId)> = self.queue.iter(0).collect();
        for (level, task) in queued {
            self.queue.remove(0, level, task);
            self.refresh(task);
            self.queue.push_back(0, 0, task);
        }
    }
}

impl Policy for Mlfq {
    fn boot(&mut self, _view: &View) -> Wants {
        Wants { priorities: true, ..Wants::default() }
    }

    /// Its level.
    fn dynamic_priority(&self, task: TaskId) -> Option<u32> {
        Some(self.tasks[task].level as u32)
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        self.check_boost(view);
        let boost = self.boosts;
        *self.tasks.reset(task) = Task { boost, ..Task::default() };
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        if let Some(idle) = view.idle_cpu_for(task) {
            return idle;
        }
        self.check_boost(view);
        self.refresh(task);
        let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
        let running =
            allowed.filter_map(|cpu| view.current(cpu).map(|current| (self.tasks[current].level, cpu)));
        match running.max_by_key(|&(level, cpu)| (level, std::cmp::Reverse(cpu))) {
            Some((level, cpu)) if level > self.tasks[task].level => cpu,
            _ => view.home_cpu(task),
        }
    }

    fn enqueue(&mut self, view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.check_boost(view);
        self.refresh(task);
        self.queue.push_back(0, self.tasks[task].level, task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.queue.remove(0, self.tasks[task].level, task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        self.check_boost(view);
        let (level, task) = self.queue.iter(0).find(|&(_, task)| view.allowed(task, cpu))?;
        self.queue.remove(0, level, task);
        Some(task)
    }

    fn put_prev(&mut self, view: &View, _cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        self.check_boost(view);
        let allotment = self.allotment(self.tasks[task].level);
        let state = &mut self.tasks[task];
        state.used += ran;
        let mut rest = false;
        if state.used >= allotment {
            state.level = (state.level + 1).min(self.levels - 1);
            state.used = Span::ZERO;
        } else {
            rest = stop == Stop::Preempted;
        }
        self.refresh(task);
        if stop.is_runnable() {
            let level = self.tasks[task].level;
            match rest {
                true => self.queue.push_front(0, level, task), // its turn was not over
                false => self.queue.push_back(0, level, task),
            }
        }
    }

    fn preempts(&mut self, _view: &View, _cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        match self.tasks[woken].level < self.tasks[current].level {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, task: TaskId) -> Option<Span> {
        let Task { level, used, .. } = self.tasks[task];
        Some(self.allotment(level).saturating_sub(used))
    }
}
