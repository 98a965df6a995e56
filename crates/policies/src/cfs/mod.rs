//! CFS, the completely fair scheduler of Linux 2.6.23 to 6.5, as of 2.6.32 and as of 6.1.
//!
//! Each task has a virtual runtime that grows by 1024 / weight per ns of CPU time; the runnable task with the
//! least runs. In a period (`latency`, or `min_granularity` per task if there are many) each should run once,
//! for a slice in proportion to its weight.
//!
//! ```text
//! two hogs, nice 0 and 5 (weights 1024 and 335), 2.6.32 on one CPU, HZ 1000: period 5 ms, slices 3.77 and 1.23 ms.
//! The tick notices: A runs 4 ms (first tick after its slice), B 2 ms (not before B's vruntime, +3.06 per ms, has
//! passed A's), ...
//! ```
//!
//! A new task starts a slice later than the others (START_DEBIT). A sleeper wakes with at least
//! `min_vruntime - latency / 2`, and preempts if the current task is more than `wakeup_granularity` (in the woken
//! task's virtual time) ahead of it.
//!
//! *Sources*: kernel/sched_fair.c of 2.6.32.60 and the documented behaviour of 6.1, restated. *Differs*:
//! exact division where the kernel multiplies with a rounded inverse (less than a ns per event apart); loads
//! are sums of weights, where 6.1 takes decayed averages (PELT), so that 6.1's placement and balancing on
//! several CPUs are approximations; no groups, no bandwidth limits. Five equal hogs on four CPUs wander:
//! 2.6.32 (not 6.1) moves one of two that share a CPU to a CPU that has one, which only turns the imbalance
//! around; 25.5 moves per second here, 23 in Harmony's runs. *Not explained*: [8,0,0,0] takes Harmony's
//! kernel 30 moves, this model 6. Against real 6.1 on one CPU: fairbench within 1 %, responsebench within 0.4
//! % (see `tests`). *Uncertain*: 2.6.32's choice of a CPU at wakeup (its last or its waker's here; later
//! stable kernels also look for an idle one).
//!
//! *Clock* (6.1): who is chosen after a wakeup within a system call pays for the time since that wakeup, as the kernel
//! has it (`kit::run_clock`).
//!
//! *Several CPUs*: a tree per CPU, balancing by scheduling domains (`kit::balance`); defaults of tunables
//! grow with the machine ([`Tunable`]).
//!
//! *Parameters*: `hz`, `latency`, `min_granularity`, `wakeup_granularity` (on one CPU: 2.6.32: 1000, 5 ms, 1
//! ms, 1 ms; 6.1: 250, 6 ms, 0.75 ms, 1 ms), `migration_cost` (0.5 ms).

use crate::kit::balance::{Balancer, MayLeave, Rules};
use crate::kit::rate::Rate;
use crate::kit::table::Table;
use crate::kit::wake;
use schedlab_machine::policy::{
    Arrival, BlockedBirth, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_units::{CpuId, NICE_0_WEIGHT, Nice, SchedParams, SchedPolicy, Span, TaskId, Time};
use std::collections::BTreeSet;

mod queues;
#[cfg(test)]
mod tests;

use queues::Queues;

/// Which kernel's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CfsVersion {
    /// Linux 2.6.32.
    V2_6_32,
    /// Linux 6.1.
    V6_1,
}

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct CfsParams {
    /// Which rules.
    pub version: CfsVersion,
    /// Ticks per second.
    pub hz: u64,
    /// When in its period the tick comes.
    pub tick_phase: Span,
    /// Period in which each task should run once.
    pub latency: Tunable,
    /// Shortest slice.
    pub min_granularity: Tunable,
    /// How far ahead the current task must be for a woken one to preempt it.
    pub wakeup_granularity: Tunable,
    /// A task that ran less than this ago is cache hot.
    pub migration_cost: Span,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    cpu: CpuId,
    /// Relative to the minimum of its queue while `relative`.
    vruntime: i64,
    relative: bool,
    weight: u64,
    rate: Rate,
    /// Its place among equal vruntimes: first come, first served.
    sequence: u64,
    queued: bool,
    last_ran: Time,
}

/// Weight of SCHED_IDLE.
const IDLE_WEIGHT: u64 = 3;

/// A task's weight in a fair class.
pub(crate) fn weight_of(params: &SchedParams) -> u64 {
    match params.policy {
        SchedPolicy::Idle => IDLE_WEIGHT,
        _ => params.nice.weight().0,
    }
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

/// A length of time that may grow with the machine, as Linux's tunables do (`tunable_scaling` = 1).
///
/// ```text
/// text         1 CPU    2, 3     4 to 7   8 and more
/// 700us*log    0.7 ms   1.4 ms   2.1 ms   2.8 ms
/// 700us        0.7 ms   0.7 ms   0.7 ms   0.7 ms
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunable {
    /// This long on every machine.
    Fixed(Span),
    /// This long on one CPU; times 1 + log2(CPUs), of at most 8 CPUs, on several.
    Growing(Span),
}

impl Tunable {
    /// What marks a value that grows, in text.
    pub(crate) const GROWS: &str = "*log";

    /// What is in force on a machine of so many CPUs.
    pub fn in_force(self, nr_cpus: u32) -> Span {
        match self {
            Tunable::Fixed(span) => span,
            Tunable::Growing(span) => Span::from_ns(span.as_ns() * u64::from(1 + nr_cpus.min(8).ilog2())),
        }
    }

    fn is_zero(self) -> bool {
        self.in_force(1) == Span::ZERO
    }
}

/// See the module.
#[derive(Debug)]
pub struct Cfs {
    params: CfsParams,
    queues: Queues,
    balancer: Balancer,
}

impl Cfs {
    /// With these parameters, none of which is zero.
    pub fn new(params: CfsParams) -> Cfs {
        assert!(
            params.hz > 0 && !params.latency.is_zero() && !params.min_granularity.is_zero(),
            "slices of zero have no meaning"
        );
        let rules = Rules {
            unit: NICE_0_WEIGHT.0,
            may_leave: MayLeave::AboveCapacity,
            load_index: match params.version {
                CfsVersion::V2_6_32 => [2, 1, 0],
                CfsVersion::V6_1 => [0, 0, 0],
            },
            nr_migrate: 32,
            newidle_worth: Some(params.migration_cost),
            newidle_one: true,
            one_per_group: true,
            turns_around: params.version == CfsVersion::V2_6_32,
        };
        Cfs { params, queues: Queues::new(params), balancer: Balancer::new(rules) }
    }

    /// Should the woken task replace the current one? Both are fair tasks.
    fn wakeup_preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> bool {
        if self.queues.cpus[cpu.index()].resched {
            return true;
        }
        let (current_policy, woken_policy) = (view.params(current).policy, view.params(woken).policy);
        let by_class = current_policy == SchedPolicy::Idle && woken_policy != SchedPolicy::Idle;
        if !by_class {
            self.queues.update_current(view, cpu);
            if woken_policy != SchedPolicy::Normal || !self.queues.ahead(current, woken) {
                return false;
            }
        }
        let is_modern = self.params.version == CfsVersion::V6_1;
        let nr_latency = self.queues.nr_latency();
        let rq = &mut self.queues.cpus[cpu.index()];
        rq.resched = true;
        if is_modern && !by_class {
            rq.next_buddy = Some(woken);
        }
        if u64::from(rq.nr_running) >= nr_latency && current_policy != SchedPolicy::Idle {
            rq.last_buddy = Some(current);
        }
        true
    }
}

impl Policy for Cfs {
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
        match self.params.version {
            CfsVersion::V2_6_32 => BlockedBirth::Silent,
            CfsVersion::V6_1 => BlockedBirth::Runs,
        }
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.queues.boot(view);
        self.balancer.boot(view);
        Wants { requests: true, idle_ticks: self.balancer.is_needed(), ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        let state = self.queues.tasks.reset(task);
        *state = Task { cpu: view.home_cpu(task), ..Task::default() };
        state.set_weight(weight_of(view.params(task)));
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        self.queues.params_changed(view, task);
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        let weight = self.queues.tasks[task].weight;
        match arrival {
            Arrival::New { parent } => match self.params.version {
                CfsVersion::V2_6_32 => wake::idlest(&self.queues, view, task),
                CfsVersion::V6_1 => wake::idlest_modern(&self.queues, view, task, parent),
            },
            Arrival::Wakeup { waker } => match self.params.version {
                CfsVersion::V2_6_32 => wake::classic(&self.queues, view, task, weight, waker),
                CfsVersion::V6_1 => {
                    wake::modern(&self.queues, view, &self.balancer.domains, task, weight, waker)
                }
            },
            Arrival::Changed => view.home_cpu(task),
        }
    }

    /// As a newborn (`SD_BALANCE_EXEC` and `SD_BALANCE_FORK` are one path).
    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        match self.params.version {
            CfsVersion::V2_6_32 => wake::idlest(&self.queues, view, task),
            CfsVersion::V6_1 => wake::idlest_modern(&self.queues, view, task, Some(task)),
        }
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
        if let Arrival::New { parent } = arrival {
            self.queues.begin(view, cpu, task, parent);
            return;
        }
        self.queues.update_current(view, cpu);
        self.queues.take_over(task, cpu);
        if matches!(arrival, Arrival::Wakeup { .. }) {
            self.queues.place_woken(cpu, task, view.params(task).policy == SchedPolicy::Idle);
        }
        self.queues.note_runnable(cpu, task);
        self.queues.queue(task);
    }

    fn dequeue(&mut self, view: &View, _cpu: CpuId, task: TaskId) {
        let cpu = self.queues.tasks[task].cpu;
        self.queues.update_current(view, cpu);
        self.queues.leave(cpu, task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        if self.queues.cpus[cpu.index()].nr_running == 0 {
            self.balancer.newly_idle(&mut self.queues, view, cpu);
        }
        let picked = self.queues.pick(view.now(), cpu);
        self.queues.requests.picked(picked);
        self.balancer.note_idle(view, cpu, picked.is_none());
        picked
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        let delta = self.queues.cpus[cpu.index()].clock.stop(view.now(), ran, stop);
        self.queues.charge(cpu, task, delta);
        if stop == Stop::Blocked && ran == Span::ZERO && self.queues.tasks[task].last_ran == Time::ZERO {
            // it is there, blocked, at the start: the boot's own threads, created after it, move the minimum
            // on by half a period and more, so that it will wake as a long sleeper
            self.queues.tasks[task].vruntime -= self.queues.latency_ns();
        }
        self.queues.tasks[task].last_ran = view.now();
        let is_modern = self.params.version == CfsVersion::V6_1;
        let rq = &mut self.queues.cpus[cpu.index()];
        rq.current = None;
        let push_to = rq.push_to.take();
        if !stop.is_runnable() {
            self.queues.note_gone(cpu, task);
            return;
        }
        rq.stopped = Some((task, rq.before + ran, view.now()));
        if stop == Stop::Yielded && is_modern && rq.nr_running > 1 {
            rq.clear_buddies(task);
            rq.skip = Some(task);
        }
        self.queues.queue(task);
        if let Some(to) = push_to
            && view.allowed(task, to)
        {
            self.queues.move_task(task, to);
            self.queues.requests.kick(to);
        }
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let asks = self.wakeup_preempts(view, cpu, current, woken);
        if asks {
            self.queues.asked(view, cpu);
        }
        if asks { Resched::Yes } else { Resched::No }
    }

    fn tick(&mut self, view: &View, cpu: CpuId, current: TaskId, ran: Span) -> Resched {
        self.queues.update_current(view, cpu);
        if self.queues.cpus[cpu.index()].nr_running > 1 && self.queues.slice_over(cpu, current, ran) {
            self.queues.cpus[cpu.index()].resched = true;
        }
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
