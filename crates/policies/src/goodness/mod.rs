//! Linux 2.2 and 2.4: one list of runnable tasks, and each pick takes the one with the highest *goodness*.
//!
//! A task has a `counter` of ticks left. Goodness is 0 when the counter is, else counter + (20 - nice), with
//! a bonus of 15 on the CPU where it ran last. When all runnable tasks have used up their counter, *every*
//! task, sleeping ones too, gets counter = counter/2 + ticks(nice): an *epoch*. So a sleeper saves up to
//! twice its ticks, and wakes with high goodness.
//!
//! ```text
//! HZ 100, nice -20, -10, 0, 10, 19: 11, 8, 6, 3, 1 ticks = 110, 80, 60, 30, 10 ms per epoch    (2.4; WARP's figure 8)
//! two hogs of nice 0 and 10: AAAAAABBBAAAAAABBB (10 ms each letter)
//! ```
//!
//! *Source*: kernel/sched.c of 2.4.16, restated; 2.2 from VTRR's paper and from memory. *Differs*: no task
//! shares its address space with another or is a kernel thread (goodness +1 for either in the original).
//! Ticks of all CPUs fall together. *Uncertain* (2.2 only): its tick that takes the counter below zero (210
//! ms at nice 0), the halving at fork.
//!
//! *Several CPUs*: one queue for all, as in the original. A woken task goes to its last CPU if that is idle,
//! else to the one idle for longest, else it preempts where goodness(new) - goodness(current) is largest and
//! positive. A task that was preempted looks for another CPU in the same way.
//!
//! *Real time* (FIFO, RR): goodness 1000 + priority; an RR task whose counter is used up goes to the end of the list.
//!
//! *Parameter*: `hz` (default 100).

use crate::kit::lists::Lists;
use crate::kit::requests::Requests;
use crate::kit::table::Table;
use schedlab_machine::policy::{Arrival, Policy, Request, Resched, Stop, Timing, View, Wants};
use schedlab_units::{CpuId, Span, TaskId, Time};

mod rules;
#[cfg(test)]
mod tests;

pub use rules::Version;

const RUNNABLE: usize = 0;

/// Real-time goodness starts here.
const REAL_TIME: i64 = 1000;
/// Goodness of a task that has just yielded.
const YIELDED: i64 = -1;
/// Bonus on the CPU where the task ran last (i386 PROC_CHANGE_PENALTY), on several CPUs only.
const SAME_CPU: i64 = 15;

#[derive(Debug, Default)]
struct Task {
    alive: bool,
    counter: u64,
    /// Where it runs now.
    on_cpu: Option<CpuId>,
    /// Where it ran last.
    last_cpu: Option<CpuId>,
    yielded: bool,
    parent: Option<TaskId>,
}

/// See the module.
#[derive(Debug)]
pub struct Goodness {
    version: Version,
    hz: u64,
    tasks: Table<Task>,
    runnable: Lists,
    /// Per CPU: who ran last and is still runnable.
    previous: Vec<Option<TaskId>>,
    idle_since: Vec<Time>,
    requests: Requests,
}

impl Goodness {
    /// This version at this tick rate.
    pub fn new(version: Version, hz: u64) -> Goodness {
        assert!(hz > 0, "a tick rate of zero would never let a counter run down");
        Goodness {
            version,
            hz,
            tasks: Table::default(),
            runnable: Lists::new(1),
            previous: Vec::new(),
            idle_since: Vec::new(),
            requests: Requests::default(),
        }
    }

    fn ticks(&self, view: &View, task: TaskId) -> u64 {
        self.version.ticks(view.params(task).nice, self.hz)
    }

    fn goodness(&self, view: &View, task: TaskId, cpu: CpuId) -> i64 {
        let (state, params) = (&self.tasks[task], view.params(task));
        if state.yielded {
            return YIELDED;
        }
        if params.rt_priority > 0 {
            return REAL_TIME + i64::from(params.rt_priority);
        }
        if state.counter == 0 {
            return 0;
        }
        let affine = view.nr_cpus() > 1 && state.last_cpu == Some(cpu);
        state.counter as i64 + self.version.priority(params.nice, self.hz) + if affine { SAME_CPU } else { 0 }
    }

    /// Best of the previous task and the list; the first of the highest.
    fn best(&self, view: &View, cpu: CpuId) -> Option<(i64, TaskId)> {
        let mut best = None;
        let previous = self.previous[cpu.index()].filter(|&task| view.allowed(task, cpu));
        for task in previous.into_iter().chain(self.runnable.iter(RUNNABLE)) {
            if self.tasks[task].on_cpu.is_some() || !view.allowed(task, cpu) {
                continue;
            }
            let goodness = self.goodness(view, task, cpu);
            if best.is_none_or(|(highest, _)| goodness > highest) {
                best = Some((goodness, task));
            }
        }
        best
    }

    /// A new epoch.
    fn refill(&mut self, view: &View) {
        let (version, hz) = (self.version, self.hz);
        for (index, task) in self.tasks.rows_mut().enumerate().filter(|(_, task)| task.alive) {
            let nice = view.params(TaskId(index as u32)).nice;
            task.counter = task.counter / 2 + version.ticks(nice, hz);
        }
    }

    /// Where `task`, which is runnable and waits, should run.
    fn place(&self, view: &View, task: TaskId) -> Option<CpuId> {
        let last = self.tasks[task].last_cpu.unwrap_or_else(|| view.home_cpu(task));
        if view.is_idle(last) && view.allowed(task, last) {
            return Some(last);
        }
        let allowed = || view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
        if let Some(cpu) =
            allowed().filter(|&cpu| view.is_idle(cpu)).min_by_key(|cpu| (self.idle_since[cpu.index()], *cpu))
        {
            return Some(cpu);
        }
        let mut best: Option<(i64, CpuId)> = None;
        for cpu in allowed() {
            let Some(current) = view.current(cpu) else { continue };
            let gain = self.goodness(view, task, cpu) - self.goodness(view, current, cpu);
            if gain > best.map_or(0, |(gain, _)| gain) {
                best = Some((gain, cpu));
            }
        }
        best.map(|(_, cpu)| cpu)
    }
}

impl Policy for Goodness {
    fn timing(&self) -> Timing {
        Timing { tick: Some(Span::from_ns(1_000_000_000 / self.hz)) }
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.previous = vec![None; view.nr_cpus() as usize];
        self.idle_since = vec![view.now(); view.nr_cpus() as usize];
        Wants { requests: true, ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        let counter = self.ticks(view, task);
        *self.tasks.reset(task) = Task { alive: true, counter, ..Task::default() };
    }

    fn task_exit(&mut self, _view: &View, task: TaskId) {
        self.tasks[task].alive = false;
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        if let Arrival::New { parent: Some(parent) } = arrival {
            let counter = self.tasks[parent].counter;
            let (child, rest) = self.version.fork(counter);
            self.tasks[parent].counter = rest;
            let last_cpu = self.tasks[parent].last_cpu;
            let state = &mut self.tasks[task];
            (state.counter, state.parent, state.last_cpu) = (child, Some(parent), last_cpu);
            if rest == 0
                && let Some(cpu) = self.tasks[parent].on_cpu
            {
                self.requests.kick(cpu);
            }
        }
        self.place(view, task).unwrap_or_else(|| view.home_cpu(task))
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.runnable.push_front(RUNNABLE, task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.runnable.remove(RUNNABLE, task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let mut best = self.best(view, cpu);
        if best.is_some_and(|(goodness, _)| goodness == 0) {
            self.refill(view);
            best = self.best(view, cpu);
        }
        let previous = self.previous[cpu.index()].take();
        let picked = best.map(|(_, task)| task);
        if let Some(previous) = previous {
            self.tasks[previous].yielded = false;
            if picked != Some(previous)
                && let Some(other) = self.place(view, previous)
                && other != cpu
            {
                self.requests.kick(other);
            }
        }
        match picked {
            Some(task) => {
                let state = &mut self.tasks[task];
                (state.on_cpu, state.last_cpu) = (Some(cpu), Some(cpu));
            }
            None if !view.is_idle(cpu) => self.idle_since[cpu.index()] = view.now(),
            None => {}
        }
        picked
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        self.tasks[task].on_cpu = None;
        match stop {
            Stop::Preempted | Stop::Yielded => {
                self.tasks[task].yielded = stop == Stop::Yielded;
                self.previous[cpu.index()] = Some(task);
                if view.params(task).policy == schedlab_units::SchedPolicy::RoundRobin
                    && self.tasks[task].counter == 0
                {
                    self.tasks[task].counter = self.ticks(view, task);
                    self.runnable.remove(RUNNABLE, task);
                    self.runnable.push_back(RUNNABLE, task);
                }
            }
            Stop::Blocked => self.runnable.remove(RUNNABLE, task),
            Stop::Exited => {
                self.runnable.remove(RUNNABLE, task);
                let Task { counter, parent, .. } = self.tasks[task];
                if let Some(parent) = parent.filter(|&parent| self.tasks[parent].alive) {
                    let most = 20 * self.hz / 100;
                    let kept = &mut self.tasks[parent].counter;
                    *kept = (*kept + counter).min(most);
                }
            }
        }
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        match self.goodness(view, woken, cpu) > self.goodness(view, current, cpu) {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn tick(&mut self, _view: &View, _cpu: CpuId, current: TaskId, _ran: Span) -> Resched {
        let state = &mut self.tasks[current];
        match self.version.tick(&mut state.counter) {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.next()
    }
}
