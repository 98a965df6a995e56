//! EEVDF, Linux's fair class since 6.6, with the rules of 6.12.
//!
//! *Earliest eligible virtual deadline first*. With v the vruntime of a task and w its weight, V is the
//! weighted mean of all v. A task is eligible if v <= V (it is owed service: its lag, V - v, is not
//! negative). Each task asks for a *slice*; its virtual deadline is v + slice * 1024 / w, renewed when v
//! reaches it. Of the eligible tasks, the one with the earliest deadline runs.
//!
//! ```text
//! A and B, nice 0, slice 3 ms, HZ 1000, one CPU. A runs to its deadline:   V behind A, so that only B is eligible
//! ms   0  1  2  3  4  5  6
//!      A  A  A  B  B  B  A        each runs for its slice (RUN_TO_PARITY), noticed at the tick
//! ```
//!
//! A task keeps its lag when it leaves and comes back: it is placed at V - lag * (W + w) / W (W: the others'
//! weight), which after its joining leaves just that lag. A new task gets a first deadline of half a slice. A
//! task that goes to sleep with negative lag stays queued (*delayed dequeue*) until it would be picked; then
//! it leaves with lag 0. So it cannot shed its debt by a short sleep.
//!
//! *Sources*: kernel/sched/fair.c as of 6.12, restated from a specification; Stoica, Abdel-Wahab, "Earliest
//! Eligible Virtual Deadline First" (1995). *Differs*: V is an exact fraction (the kernel's is too, relative
//! to a moving origin); division is exact where the kernel multiplies with a rounded inverse; loads in
//! placement and balancing are sums of weights, where the kernel takes decayed averages: on several CPUs this
//! approximates 6.12. No groups, no bandwidth limits. *Uncertain*: details of balancing; whether delayed
//! tasks count for it (here yes, as runnable).
//!
//! *Clock*: who is chosen after a wakeup within a system call pays for the time since that wakeup, as the kernel
//! has it (`kit::run_clock`).
//!
//! *Several CPUs*: a tree per CPU, balancing by scheduling domains; the default slice grows with the machine
//! ([`Tunable`]).
//!
//! *Parameters*: `hz` (250), `base_slice` (0.70 ms on one CPU, 2.8 ms on 8; 6.12.0 had 0.75),
//! `migration_cost` (0.5 ms), and the features `run_to_parity`, `delay_dequeue`, `preempt_short` (yes or no).
//! A task's own slice is set, as by `sched_setattr`, by the runtime of its deadline parameters (0.1 to 100
//! ms) if its policy is normal.

use crate::cfs::{Tunable, weight_of};
use crate::kit::balance::{Balancer, MayLeave, Rules};
use crate::kit::deadline_tree::DeadlineTrees;
use crate::kit::rate::Rate;
use crate::kit::table::Table;
use crate::kit::wake;
use schedlab_machine::policy::{
    Arrival, BlockedBirth, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_units::{CpuId, NICE_0_WEIGHT, SchedPolicy, Span, TaskId, Time};

mod queues;
#[cfg(test)]
mod tests;

use queues::Queues;

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct EevdfParams {
    /// Ticks per second.
    pub hz: u64,
    /// When in its period the tick comes.
    pub tick_phase: Span,
    /// Slice of a task that asks for none.
    pub base_slice: Tunable,
    /// A task that ran less than this ago is cache hot.
    pub migration_cost: Span,
    /// The current task keeps the CPU until its slice is over.
    pub run_to_parity: bool,
    /// Sleepers with negative lag stay queued.
    pub delay_dequeue: bool,
    /// A woken task with a shorter slice may break run-to-parity.
    pub preempt_short: bool,
}

impl Default for EevdfParams {
    fn default() -> EevdfParams {
        EevdfParams {
            hz: 250,
            tick_phase: Span::from_ms(1),
            base_slice: Tunable::Growing(Span::from_us(700)),
            migration_cost: Span::from_us(500),
            run_to_parity: true,
            delay_dequeue: true,
            preempt_short: true,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    cpu: CpuId,
    weight: u64,
    rate: Rate,
    slice: Span,
    vruntime: i64,
    /// Virtual deadline; relative to vruntime while `relative`.
    deadline: i64,
    relative: bool,
    /// V - v when it left.
    lag: i64,
    queued: bool,
    /// Asleep, but still queued.
    delayed: bool,
    last_ran: Time,
}

impl Task {
    fn set_weight(&mut self, weight: u64) {
        (self.weight, self.rate) = (weight, Rate::of(weight));
    }

    /// This much CPU time, in its virtual time.
    fn virtual_ns(&self, span: Span) -> i64 {
        self.rate.times(span) as i64
    }
}

/// Shortest and longest slice that a task can ask for.
const SLICES: (Span, Span) = (Span::from_us(100), Span::from_ms(100));

/// See the module.
#[derive(Debug)]
pub struct Eevdf {
    params: EevdfParams,
    queues: Queues,
    balancer: Balancer,
}

impl Eevdf {
    /// With these parameters; rate and slice are not zero.
    pub fn new(params: EevdfParams) -> Eevdf {
        assert!(
            params.hz > 0 && params.base_slice.in_force(1) > Span::ZERO,
            "a slice of zero has no meaning"
        );
        let rules = Rules {
            unit: NICE_0_WEIGHT.0,
            may_leave: MayLeave::AboveCapacity,
            load_index: [0, 0, 0],
            nr_migrate: 32,
            newidle_worth: Some(params.migration_cost),
            newidle_one: true,
            one_per_group: true,
            turns_around: false,
        };
        Eevdf { params, queues: Queues::new(params), balancer: Balancer::new(rules) }
    }

    /// Should the woken task replace the current one?
    fn wakeup_preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> bool {
        if self.queues.cpus[cpu.index()].resched {
            return true;
        }
        let (current_policy, woken_policy) = (view.params(current).policy, view.params(woken).policy);
        if current_policy == SchedPolicy::Idle && woken_policy != SchedPolicy::Idle {
            self.queues.unprotect(cpu);
            return true;
        }
        if woken_policy != SchedPolicy::Normal {
            return false;
        }
        let over = self.queues.update_current(view, cpu);
        self.queues.woken_first(cpu, current, woken) || over
    }
}

impl Policy for Eevdf {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::PerCpu
    }

    fn timing(&self) -> Timing {
        Timing { tick: Some(Span::from_ns(1_000_000_000 / self.params.hz)) }
    }

    fn tick_phase(&self) -> Span {
        self.params.tick_phase
    }

    fn blocked_birth(&self) -> BlockedBirth {
        BlockedBirth::Runs
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.queues.boot(view);
        self.balancer.boot(view);
        Wants { requests: true, idle_ticks: self.balancer.is_needed(), ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        let slice = self.queues.slice_of(view, task);
        let state = self.queues.tasks.reset(task);
        *state = Task { slice, cpu: view.home_cpu(task), ..Task::default() };
        state.set_weight(weight_of(view.params(task)));
    }

    fn task_exit(&mut self, _view: &View, task: TaskId) {
        self.queues.forget(task);
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        self.queues.params_changed(view, task);
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        let state = self.queues.tasks[task];
        match arrival {
            // still queued: it goes on where it is
            _ if state.delayed && view.allowed(task, state.cpu) => state.cpu,
            Arrival::New { parent } => wake::idlest_modern(&self.queues, view, task, parent),
            Arrival::Wakeup { waker } => {
                wake::modern(&self.queues, view, &self.balancer.domains, task, state.weight, waker)
            }
            Arrival::Changed => view.home_cpu(task),
        }
    }

    /// As a newborn (`SD_BALANCE_EXEC` and `SD_BALANCE_FORK` are one path).
    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        wake::idlest_modern(&self.queues, view, task, Some(task))
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
        if self.queues.tasks[task].delayed {
            // without accounting for the current task first
            self.queues.wake_delayed(cpu, task);
            if self.queues.tasks[task].queued {
                return;
            }
        }
        self.queues.update_current(view, cpu);
        match arrival {
            Arrival::New { parent } => {
                let inherited = parent.map_or(NICE_0_WEIGHT.0, |parent| weight_of(view.params(parent)));
                self.queues.begin(cpu, task, inherited);
            }
            _ => self.queues.join(cpu, task),
        }
    }

    fn dequeue(&mut self, view: &View, _cpu: CpuId, task: TaskId) {
        let cpu = self.queues.tasks[task].cpu;
        self.queues.update_current(view, cpu);
        self.queues.leave_keeping_deadline(task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let mut picked = self.queues.pick(view.now(), cpu);
        if picked.is_none() && self.balancer.newly_idle(&mut self.queues, view, cpu) {
            picked = self.queues.pick(view.now(), cpu);
        }
        self.queues.requests.picked(picked);
        self.balancer.note_idle(view, cpu, picked.is_none());
        picked
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        let delta = self.queues.cpus[cpu.index()].clock.stop(view.now(), ran, stop);
        self.queues.charge(cpu, task, delta);
        self.queues.tasks[task].last_ran = view.now();
        let push_to = self.queues.cpus[cpu.index()].push_to.take();
        match stop {
            Stop::Preempted | Stop::Yielded => {
                if stop == Stop::Yielded {
                    self.queues.forfeit(cpu, task);
                }
                self.queues.put_back(view.now(), cpu, task);
                if let Some(to) = push_to
                    && view.allowed(task, to)
                {
                    self.queues.move_task(view, task, to);
                    self.queues.requests.kick(to);
                }
            }
            Stop::Blocked => self.queues.sleep(cpu, task),
            Stop::Exited => self.queues.stop_running(cpu, task),
        }
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let asks = self.wakeup_preempts(view, cpu, current, woken);
        if asks {
            self.queues.cpus[cpu.index()].clock.asked(view.ran(cpu));
        }
        if asks { Resched::Yes } else { Resched::No }
    }

    fn tick(&mut self, view: &View, cpu: CpuId, _current: TaskId, _ran: Span) -> Resched {
        self.queues.update_current(view, cpu);
        self.balancer.tick(&mut self.queues, view, cpu);
        if self.queues.cpus[cpu.index()].resched { Resched::Yes } else { Resched::No }
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
