//! The O(1) scheduler of Linux 2.6.0 to 2.6.22, as of 2.6.7 and as of 2.6.18.
//!
//! Each CPU has two arrays of 140 priority lists, *active* and *expired*. The first task of the best active
//! list runs. A task that has used up its slice gets a new one and waits in the expired array; when the
//! active one is empty, the two are swapped.
//!
//! ```text
//! slices       nice -20  -10    0   10   19
//!   2.6.7          200  151  102   53   10 ms    (linear, WARP's figure 8)
//!   2.6.18         800  600  100   50    5 ms    (140 - static priority, times 20 ms below nice 0, times 5 ms above)
//! two hogs, nice 0, 2.6.18: A 100 ms, B 100 ms, swap, A 100 ms, B 100 ms, swap, ...
//! ```
//!
//! *Interactivity*. A task saves time asleep in `sleep_avg` (0 to about 1 s) and spends it running; a tenth
//! of it each is worth a priority level, from -5 to +5 around the static priority. A task far enough above
//! its static priority counts as interactive: at the end of its slice it goes back to the *active* array,
//! unless the expired tasks starve. WARP found this to be what makes 2.6 ten times worse than 2.4 in the
//! worst wait of responsebench.
//!
//! *Sources*: kernel/sched.c of 2.6.18, restated; for 2.6.7 WARP's slices, formula 10 + 190 (19 - nice) / 39
//! ms. *Differs*: every task counts as a user process, every sleep as interruptible; ticks of all CPUs fall
//! together; the smallest unit of sleep and run time is a nanosecond as there, of slices a tick. A wakeup by
//! an external event counts as by an interrupt. A task without a parent in the workload is placed as exec
//! would (on the least loaded CPU). *Uncertain*: for 2.6.7, that a sleep is multiplied by 10 - bonus (a rule
//! of that time, from memory) and its `interactive_credit` (left out); for both, the detail of exit, and the
//! balancing constants beyond one package (see `kit::balance`).
//!
//! *Several CPUs*: an array pair per CPU; balancing by scheduling domains; a woken task stays on its CPU or
//! is pulled to its waker's; `sleep_avg` and slice travel with the task (the "sticky" state that Harmony
//! saw).
//!
//! *Parameters*: `hz` (default 1000).

use crate::kit::balance::Balancer;
use crate::kit::prio::PrioArrays;
use crate::kit::table::Table;
use schedlab_machine::policy::{
    Arrival, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_units::{CpuId, SchedPolicy, Span, TaskId, Time};

mod interactivity;
mod queues;
mod rules;
#[cfg(test)]
mod tests;
mod wake;

use queues::Queues;
pub use rules::Version;

/// Priority levels: 0 to 98 real time, 100 to 139 by nice.
const LEVELS: usize = 140;
const NICE_0_LEVEL: i64 = 120;

/// How a task was woken: decides what its wait in the queue counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activated {
    #[default]
    No,
    /// By another task: the wait counts for 30 %.
    ByTask,
    /// By an interrupt: the wait counts in full.
    ByInterrupt,
}

#[derive(Clone, Debug, Default)]
struct Task {
    alive: bool,
    /// Where it is queued or runs; meaningful while `array` is set.
    cpu: CpuId,
    /// The array that holds it (the current task stays in its array).
    array: Option<usize>,
    level: usize,
    running: bool,
    static_level: i64,
    real_time: bool,
    slice_ticks: u64,
    sleep_avg_ns: u64,
    /// When its state changed last: start of a sleep, of a wait, of a run.
    stamp: Time,
    /// When it stopped running last.
    last_ran: Time,
    activated: Activated,
    parent: Option<TaskId>,
    first_slice: bool,
    /// It was taken out of an expired array, to which it returns.
    was_expired: bool,
}

/// See the module.
#[derive(Debug)]
pub struct O1 {
    queues: Queues,
    balancer: Balancer,
    hz: u64,
}

impl O1 {
    /// This version at this tick rate.
    pub fn new(version: Version, hz: u64) -> O1 {
        assert!(hz > 0, "a tick rate of zero would never end a slice");
        O1 { queues: Queues::new(version, hz), balancer: Balancer::new(version.balancing()), hz }
    }

    /// The slice of `task` is used up.
    fn slice_used(&mut self, view: &View, cpu: CpuId, task: TaskId) {
        let queues = &mut self.queues;
        queues.remove(task);
        queues.update_level(view, task);
        let slice_ticks = queues.full_slice(view, task);
        let state = &mut queues.tasks[task];
        state.slice_ticks = slice_ticks;
        state.first_slice = false;
        let rq = &mut queues.cpus[cpu.index()];
        rq.expired_since.get_or_insert(view.now());
        if !queues.is_interactive(view, task) || queues.expired_starving(view, cpu) {
            let static_level = queues.tasks[task].static_level;
            let rq = &mut queues.cpus[cpu.index()];
            rq.best_expired = rq.best_expired.min(static_level);
            queues.add(view, cpu, queues.expired_array(cpu), task);
        } else {
            queues.add(view, cpu, queues.active_array(cpu), task);
        }
    }
}

impl Policy for O1 {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::PerCpu
    }

    fn timing(&self) -> Timing {
        Timing { tick: Some(Span::from_ns(1_000_000_000 / self.hz)) }
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.queues.boot(view);
        self.balancer.boot(view);
        let idle_ticks = self.balancer.is_needed();
        Wants { requests: true, idle_ticks, priorities: true, ..Wants::default() }
    }

    /// The kernel's `task->prio`: 100 to 139 by nice value and bonus, real time below.
    fn dynamic_priority(&self, task: TaskId) -> Option<u32> {
        Some(self.queues.tasks[task].level as u32)
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        *self.queues.tasks.reset(task) = Task { alive: true, stamp: view.now(), ..Task::default() };
        self.queues.set_static(view, task);
        let slice_ticks = self.queues.full_slice(view, task);
        self.queues.tasks[task].slice_ticks = slice_ticks;
        self.queues.update_level(view, task);
    }

    fn task_exit(&mut self, _view: &View, task: TaskId) {
        self.queues.tasks[task].alive = false;
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let (cpu, before) = (self.queues.tasks[task].cpu, self.queues.tasks[task].level);
        let array = self.queues.tasks[task].array;
        if array.is_some() {
            self.queues.remove(task);
        }
        let old_static = self.queues.tasks[task].static_level;
        self.queues.set_static(view, task);
        let state = &mut self.queues.tasks[task];
        if state.real_time || before < 100 {
            self.queues.update_level(view, task);
        } else {
            let shifted = state.level as i64 + state.static_level - old_static;
            state.level = shifted.clamp(100, 139) as usize;
        }
        if let Some(array) = array {
            self.queues.add(view, cpu, array, task);
            if self.queues.tasks[task].level > before {
                self.queues.requests.kick(cpu); // it runs, and is worth less now
            }
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        match arrival {
            Arrival::New { parent: Some(parent) } => {
                self.fork(view, task, parent);
                let home = view.task_cpu(parent);
                if view.allowed(task, home) { home } else { view.home_cpu(task) }
            }
            Arrival::New { parent: None } => self.least_loaded(view, task),
            Arrival::Wakeup { waker } => self.wake_cpu(view, task, waker),
            Arrival::Changed => view.home_cpu(task),
        }
    }

    /// `sched_balance_self(SD_BALANCE_EXEC)`: the least loaded CPU, unless its own has hardly more.
    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        self.exec_target(view, task)
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
        match arrival {
            Arrival::Wakeup { waker } => self.queues.activate(view, cpu, task, waker.is_none()),
            Arrival::New { parent: Some(parent) } if self.child_first(view, cpu, task, parent) => {}
            _ => {
                let queues = &mut self.queues;
                if matches!(arrival, Arrival::New { .. }) {
                    queues.tasks[task].stamp = view.now();
                }
                let array = match std::mem::take(&mut queues.tasks[task].was_expired) {
                    true => queues.expired_array(cpu),
                    false => queues.active_array(cpu),
                };
                queues.add(view, cpu, array, task);
            }
        }
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        let state = &self.queues.tasks[task];
        let was_expired = state.array == Some(self.queues.expired_array(state.cpu));
        self.queues.tasks[task].was_expired = was_expired;
        self.queues.remove(task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        if self.queues.cpus[cpu.index()].nr_running == 0 {
            self.balancer.newly_idle(&mut self.queues, view, cpu);
        }
        let picked = self.queues.pick(view, cpu);
        self.queues.requests.picked(picked);
        picked
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        let queues = &mut self.queues;
        queues.charge_run(view, task);
        let state = &mut queues.tasks[task];
        state.running = false;
        state.last_ran = view.now();
        queues.cpus[cpu.index()].current = None;
        match stop {
            Stop::Preempted => {
                if let Some(to) = queues.cpus[cpu.index()].push_to.take()
                    && view.allowed(task, to)
                {
                    queues.move_task(view, task, to);
                    queues.requests.kick(to);
                }
            }
            // a yielding task waits with the expired ones; a real-time one at the end of its list
            Stop::Yielded => {
                queues.remove(task);
                let array = match queues.tasks[task].real_time {
                    true => queues.active_array(cpu),
                    false => queues.expired_array(cpu),
                };
                queues.add(view, cpu, array, task);
            }
            Stop::Blocked => queues.remove(task),
            Stop::Exited => {
                queues.remove(task);
                self.exit(view, task);
            }
        }
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let tasks = &self.queues.tasks;
        let child = tasks[woken].first_slice
            && tasks[woken].parent == Some(current)
            && tasks[woken].stamp == view.now()
            && tasks[woken].level == tasks[current].level;
        let _ = cpu;
        if tasks[woken].level < tasks[current].level || child { Resched::Yes } else { Resched::No }
    }

    fn tick(&mut self, view: &View, cpu: CpuId, task: TaskId, _ran: Span) -> Resched {
        let mut resched = Resched::No;
        let class = view.params(task).policy;
        let queues = &mut self.queues;
        if queues.tasks[task].array == Some(queues.expired_array(cpu)) {
            resched = Resched::Yes; // already expired, waits for this CPU to notice
        } else if queues.tasks[task].real_time {
            if class == SchedPolicy::RoundRobin {
                queues.tasks[task].slice_ticks = queues.tasks[task].slice_ticks.saturating_sub(1);
                if queues.tasks[task].slice_ticks == 0 {
                    queues.tasks[task].slice_ticks = queues.full_slice(view, task);
                    queues.requeue(view, task);
                    resched = Resched::Yes;
                }
            }
        } else {
            queues.tasks[task].slice_ticks = queues.tasks[task].slice_ticks.saturating_sub(1);
            if queues.tasks[task].slice_ticks == 0 {
                self.slice_used(view, cpu, task);
                resched = Resched::Yes;
            } else if queues.is_interactive(view, task) && queues.ends_granule(view, task) {
                queues.remove(task);
                queues.update_level(view, task);
                queues.add(view, cpu, queues.active_array(cpu), task);
                resched = Resched::Yes;
            }
        }
        self.balancer.tick(&mut self.queues, view, cpu);
        resched
    }

    fn tick_idle(&mut self, view: &View, cpu: CpuId) -> Resched {
        match self.balancer.tick(&mut self.queues, view, cpu) {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        self.queues.requests.next()
    }
}
