//! What must a native scheduler decide? The contract of a [`Policy`].
//!
//! A policy has the shape of a kernel's sched class: it owns the runnable tasks that are not running, and
//! answers who runs next. Everything around it (tasks, interrupts, the current task of each CPU, the log) is
//! played by [`Native`](crate::native::Native).
//!
//! The life of a task, as the policy sees it:
//!
//! ```text
//!   task_new ─> select_cpu ─> enqueue ─> pick_next ─> (runs: tick, slice end) ─> put_prev(Blocked) ─> select_cpu ...
//!                                ^                                    │
//!                                └──── the policy queues it again <── put_prev(Preempted | Yielded)
//! ```
//!
//! Who owns a task: from `enqueue` (and from `put_prev` with a runnable reason) until `pick_next` or
//! `dequeue` hands it over, the policy does; it must not lose it meanwhile. At all other times it must not
//! return it.
//!
//! What the adaptor promises, whatever the workload does:
//!
//! 1. `task_new` comes first, once per task, and `task_exit` last, once, after the `put_prev` with [`Stop::Exited`].
//! 2. `enqueue` follows `select_cpu` at once, with the CPU that it named, and only for a task that the policy
//!    does not own.
//! 3. `dequeue` only for a task that the policy owns; `put_prev` once for each task that `pick_next`
//!    returned, before the next `pick_next` on that CPU.
//! 4. `preempts`, `tick`, `slice`, `slice_end` only for the task that runs on that CPU.
//! 5. A running task whose affinity no longer allows its CPU is taken off it as if it blocked (`put_prev`
//!    with [`Stop::Blocked`]) and arrives elsewhere with [`Arrival::Changed`].
//! 6. Time (`View::now`) never goes back; no method takes simulated time.
//!
//! What the policy owes in return; breaking a rule ends the run with a report that names the rule:
//!
//! | rule | found by | report |
//! |---|---|---|
//! | `select_cpu` names a CPU of the machine that the task's affinity allows | adaptor, at once | broken contract |
//! | `pick_next` returns a task that is queued and allowed there | adaptor, at once | broken contract |
//! | `slice` is longer than zero | adaptor, at once | broken contract |
//! | no runnable task is lost: work that an idle CPU may take is offered to it | machine, when nothing can happen any more; adaptor, at the end of the run | lost task |
//! | every method returns | the parent process, after its stall limit | stall |
//! | events at one instant come to an end | machine, after millions | livelock |
//!
//! An idle CPU asks `pick_next` only when something is enqueued with it as the target, or when a task that it
//! may run was put back (`put_prev` with a runnable reason) or enqueued on a CPU that then picked another: a
//! policy that has work for an idle CPU must name that CPU in `select_cpu`. What "work that an idle CPU may
//! take" means is the policy's own claim ([`Policy::work_conservation`]). [`contract`](crate::contract)
//! checks all of this on random workloads.

use schedlab_topology::Topology;
use schedlab_units::{CpuId, CpuSet, SchedParams, Span, TaskId, Time};

/// Why a task comes to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is new; `parent` forked it if the workload says who.
    New {
        /// The parent, if known.
        parent: Option<TaskId>,
    },
    /// It was woken; `waker` is the waking task if it was one.
    Wakeup {
        /// The waking task; `None` for an interrupt.
        waker: Option<TaskId>,
    },
    /// It was taken out and is put back: its parameters or allowed CPUs changed.
    Changed,
}

/// Why the current task stops running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The policy asked for it (preemption, end of slice): still runnable.
    Preempted,
    /// It yielded: still runnable.
    Yielded,
    /// It blocked.
    Blocked,
    /// It exited.
    Exited,
}

impl Stop {
    /// Whether the task is still runnable, and so the policy's to keep.
    #[inline]
    pub fn is_runnable(self) -> bool {
        matches!(self, Stop::Preempted | Stop::Yielded)
    }
}

/// Whether the current task should be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resched {
    /// Let it run on.
    No,
    /// Stop it and pick again.
    Yes,
}

/// The timer interrupts that a policy wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Periodic tick while a CPU is busy; `None` = no tick.
    pub tick: Option<Span>,
}

/// How does a task come to be that is there at the start, blocked?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedBirth {
    /// By [`Policy::task_new`] alone; its first arrival is a wakeup.
    Silent,
    /// As under a real kernel: it arrives as new, is picked, and blocks before it has used any CPU time; all
    /// that before the start.
    Runs,
}

/// For which CPUs does a policy promise that none is idle while work that it may take waits?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkConservation {
    /// For all: no CPU is idle while a task that is allowed there waits anywhere.
    Machine,
    /// For each on its own: no CPU is idle while a task waits that was enqueued there (partitioned queues
    /// without balancing).
    PerCpu,
    /// For none: tasks may be held back on purpose (throttling). Lost tasks are found only when nothing can
    /// happen any more.
    Never,
}

/// What a policy needs beyond the basic calls. All of it is off by default, and then costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The periodic tick also while a CPU is idle: [`tick_idle`](Policy::tick_idle) is called (balancing by idle CPUs).
    pub idle_ticks: bool,
    /// [`next_request`](Policy::next_request) is polled: the policy moves queued tasks or asks other CPUs to
    /// reschedule.
    pub requests: bool,
    /// [`next_timer`](Policy::next_timer) is polled: the policy has timers of its own (replenishment of budgets).
    pub timers: bool,
    /// [`dynamic_priority`](Policy::dynamic_priority) is asked of each task that is given a CPU, and the log says so.
    pub priorities: bool,
}

/// Something that a policy asks the kernel around it to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Let this CPU pick again (its current task comes back by `put_prev(Preempted)` before).
    Kick(CpuId),
    /// Ask for this CPU's timer ([`Policy::next_timer`]) again. (Another CPU than the one that is being dealt
    /// with is kicked for it.)
    Timer(CpuId),
    /// A queued task has been moved from one CPU's queue to another's: the log and [`View::task_cpu`] follow.
    Moved {
        /// The task, which the policy owns.
        task: TaskId,
        /// Where it is queued now; must be allowed.
        to: CpuId,
    },
}

/// A native scheduler. The module says in which order the methods are called and who owns a task when.
pub trait Policy {
    /// What it promises about idle CPUs; the answer is always the same. Instants count, not what happens within one.
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::Machine
    }

    /// Its timer needs; asked once.
    fn timing(&self) -> Timing {
        Timing { tick: None }
    }

    /// When ticks fall within their period: at `phase`, `phase + period`, ... of the machine's clock. Asked
    /// once. (The clock of a machine starts 1 ms before the first tick of the kernels of the port, which
    /// therefore have the phase 1 ms.)
    fn tick_phase(&self) -> Span {
        Span::ZERO
    }

    /// How tasks come to be that are blocked at the start; asked once.
    fn blocked_birth(&self) -> BlockedBirth {
        BlockedBirth::Silent
    }

    /// What it needs beyond the basic calls; asked once, before anything else, when the machine is known.
    fn boot(&mut self, _view: &View) -> Wants {
        Wants::default()
    }

    /// A task comes to exist. It is not runnable yet and the policy does not own it; its parameters are in
    /// `view`. Ids are dense from 0, and a forked task has inherited its parent's parameters.
    fn task_new(&mut self, view: &View, task: TaskId);

    /// A task is gone; the policy does not own it at this time and never hears of it again.
    fn task_exit(&mut self, _view: &View, _task: TaskId) {}

    /// Parameters of a task have changed; the policy does not own it at this time (a queued task is dequeued
    /// before and enqueued after). The new ones are in `view`.
    fn params_changed(&mut self, _view: &View, _task: TaskId) {}

    /// Where should a task go that becomes runnable? Must be allowed by its affinity ([`View::home_cpu`]
    /// always is). Called just before `enqueue`; the policy does not own the task yet.
    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId;

    /// Where should the running task go on, which executes a new program and has nothing in the caches? Must be
    /// allowed. Another CPU than its own: it stops, and arrives there as [`Arrival::Changed`].
    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        view.task_cpu(task)
    }

    /// The task is runnable; the policy owns it from here on. `cpu` is what `select_cpu` said. If that CPU is
    /// idle, it calls `pick_next` at this instant; if not, `preempts` is asked.
    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival);

    /// Gives a queued task back: its parameters or allowed CPUs are about to change, or it leaves this
    /// policy. `cpu` is where it was enqueued or last ran. `params_changed`, `select_cpu` and `enqueue`
    /// follow at the same instant.
    fn dequeue(&mut self, view: &View, cpu: CpuId, task: TaskId);

    /// Chooses and hands over the next task to run on `cpu`; `None` = idle. It must be one that the policy
    /// owns and be allowed on `cpu`, wherever it was enqueued: balancing by pull happens here. The module
    /// says when an idle CPU asks.
    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId>;

    /// The current task has run for `ran` since it was picked and stops. If it is still runnable
    /// ([`Stop::is_runnable`]), the policy owns it again and queues it; `enqueue` is not called for it.
    /// `pick_next` on this CPU follows at the same instant, except after promise 5 of the module.
    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop);

    /// Should `woken`, just enqueued on `cpu`, replace the current task there? `Yes` stops the current task
    /// at this instant (`put_prev` with [`Stop::Preempted`]), but who comes next is up to `pick_next`. Not
    /// called if the CPU is idle.
    fn preempts(&mut self, _view: &View, _cpu: CpuId, _current: TaskId, _woken: TaskId) -> Resched {
        Resched::No
    }

    /// How long may `task`, just picked (also if it was picked again, or its last slice's end said `No`), run before
    /// [`slice_end`](Policy::slice_end) is asked? `None` = until it stops by itself. Not zero.
    fn slice(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) -> Option<Span> {
        None
    }

    /// The slice is over after `ran` of running; the answer `No` starts another slice.
    fn slice_end(&mut self, _view: &View, _cpu: CpuId, _task: TaskId, _ran: Span) -> Resched {
        Resched::Yes
    }

    /// The periodic tick, if [`timing`](Policy::timing) asks for one, on busy CPUs only; `ran` = since
    /// `current` was picked. A tick and a slice end at one instant: first the tick.
    fn tick(&mut self, _view: &View, _cpu: CpuId, _current: TaskId, _ran: Span) -> Resched {
        Resched::No
    }

    /// The periodic tick of an idle CPU, if [`Wants::idle_ticks`]; `Yes` = pick again (work was pulled).
    fn tick_idle(&mut self, _view: &View, _cpu: CpuId) -> Resched {
        Resched::No
    }

    /// The next thing that the policy asks for, if [`Wants::requests`]. Polled after every call that may
    /// change the policy's queues, until it answers `None`; requests are carried out in this order.
    fn next_request(&mut self) -> Option<Request> {
        None
    }

    /// When does the policy want [`timer`](Policy::timer) to be called on `cpu`, if [`Wants::timers`]? Polled
    /// whenever that CPU has executed something; so a timer of a CPU must be planned in a call that concerns
    /// that CPU.
    fn next_timer(&mut self, _view: &View, _cpu: CpuId) -> Option<Time> {
        None
    }

    /// The time named by [`next_timer`](Policy::next_timer) has come; the policy must drop it. `Yes` = pick
    /// again on `cpu`.
    fn timer(&mut self, _view: &View, _cpu: CpuId) -> Resched {
        Resched::No
    }

    /// The priority that the policy has worked out for a task, if [`Wants::priorities`]; lower is served first, on a
    /// scale of the policy's own. `None`: it has none now.
    fn dynamic_priority(&self, _task: TaskId) -> Option<u32> {
        None
    }

    /// What the user should know before trusting the run (a task refused by admission control, ...); read
    /// after the run.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a policy may know of the machine. Read only.
#[derive(Debug)]
pub struct View {
    pub(crate) now: Time,
    pub(crate) topology: Topology,
    pub(crate) cpus: Vec<CpuView>,
    /// A bit per CPU: idle, 64 per word.
    pub(crate) idle: Vec<u64>,
    /// A bit per word of `idle`: has an idle CPU.
    pub(crate) idle_summary: u64,
    pub(crate) tasks: Vec<TaskView>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuView {
    pub current: TaskId,
    pub since: Time,
}

#[derive(Clone, Debug)]
pub(crate) struct TaskView {
    pub params: SchedParams,
    pub affinity: Option<CpuSet>,
    pub cpu: CpuId,
}

impl View {
    pub(crate) fn new(topology: Topology, nr_tasks: u32) -> View {
        let nr_cpus = topology.nr_cpus() as usize;
        let mut view = View {
            now: Time::ZERO,
            topology,
            cpus: vec![CpuView { current: TaskId::IDLE, since: Time::ZERO }; nr_cpus],
            idle: vec![0; nr_cpus.div_ceil(64)],
            idle_summary: 0,
            tasks: vec![
                TaskView { params: SchedParams::default(), affinity: None, cpu: CpuId(0) };
                nr_tasks as usize
            ],
        };
        (0..nr_cpus).for_each(|cpu| view.set_idle(CpuId(cpu as u32), true));
        view
    }

    #[inline]
    pub(crate) fn set_idle(&mut self, cpu: CpuId, idle: bool) {
        let word = cpu.index() / 64;
        let bit = 1 << (cpu.0 % 64);
        if idle {
            self.idle[word] |= bit;
            self.idle_summary |= 1 << word;
        } else {
            self.idle[word] &= !bit;
            if self.idle[word] == 0 {
                self.idle_summary &= !(1 << word);
            }
        }
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }
    /// Number of CPUs.
    #[inline]
    pub fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }
    /// Which CPUs share what.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
    /// Who runs on a CPU; `None` = idle.
    #[inline]
    pub fn current(&self, cpu: CpuId) -> Option<TaskId> {
        let current = self.cpus[cpu.index()].current;
        (!current.is_idle()).then_some(current)
    }
    /// How long the current task of a CPU has been running.
    #[inline]
    pub fn ran(&self, cpu: CpuId) -> Span {
        self.now - self.cpus[cpu.index()].since
    }
    /// Policy, nice and priorities of a task.
    #[inline]
    pub fn params(&self, task: TaskId) -> &SchedParams {
        &self.tasks[task.index()].params
    }
    /// The CPU on which a task runs, is queued, or was last.
    #[inline]
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.tasks[task.index()].cpu
    }
    /// Allowed CPUs of a task; `None` = all.
    pub fn affinity(&self, task: TaskId) -> Option<&CpuSet> {
        self.tasks[task.index()].affinity.as_ref()
    }
    /// Whether the task may run on the CPU.
    #[inline]
    pub fn allowed(&self, task: TaskId, cpu: CpuId) -> bool {
        self.tasks[task.index()].affinity.as_ref().is_none_or(|set| set.contains(cpu))
    }
    /// Whether a CPU is idle.
    #[inline]
    pub fn is_idle(&self, cpu: CpuId) -> bool {
        self.idle[cpu.index() / 64] >> (cpu.0 % 64) & 1 == 1
    }
    /// An idle CPU that the task may use: the one where it was last, else the lowest.
    #[inline]
    pub fn idle_cpu_for(&self, task: TaskId) -> Option<CpuId> {
        let TaskView { affinity, cpu, .. } = &self.tasks[task.index()];
        match affinity {
            None if self.is_idle(*cpu) => Some(*cpu),
            None if self.idle_summary == 0 => None,
            None => {
                let word = self.idle_summary.trailing_zeros();
                Some(CpuId(word * 64 + self.idle[word as usize].trailing_zeros()))
            }
            Some(set) if set.contains(*cpu) && self.is_idle(*cpu) => Some(*cpu),
            Some(set) => set.iter().take_while(|cpu| cpu.0 < self.nr_cpus()).find(|&cpu| self.is_idle(cpu)),
        }
    }
    /// Whether any CPU is idle.
    #[inline]
    pub fn any_idle(&self) -> bool {
        self.idle_summary != 0
    }
    /// The lowest idle CPU among `cpus` that the task may use.
    pub fn idle_cpu_among(&self, task: TaskId, cpus: &[CpuId]) -> Option<CpuId> {
        if self.idle_summary == 0 {
            return None;
        }
        cpus.iter().copied().find(|&cpu| self.is_idle(cpu) && self.allowed(task, cpu))
    }
    /// The CPU where the task was last if it is allowed there, else the lowest allowed.
    #[inline]
    pub fn home_cpu(&self, task: TaskId) -> CpuId {
        let TaskView { affinity, cpu, .. } = &self.tasks[task.index()];
        match affinity {
            Some(set) if !set.contains(*cpu) => set.iter().next().unwrap_or(*cpu),
            _ => *cpu,
        }
    }
}

/// A policy chosen at run time. Every method is handed on, those with a default too: clippy refuses this block if one
/// is missing.
#[deny(clippy::missing_trait_methods)]
impl Policy for Box<dyn Policy> {
    fn work_conservation(&self) -> WorkConservation {
        (**self).work_conservation()
    }
    fn timing(&self) -> Timing {
        (**self).timing()
    }
    fn tick_phase(&self) -> Span {
        (**self).tick_phase()
    }
    fn blocked_birth(&self) -> BlockedBirth {
        (**self).blocked_birth()
    }
    fn task_new(&mut self, view: &View, task: TaskId) {
        (**self).task_new(view, task);
    }
    fn task_exit(&mut self, view: &View, task: TaskId) {
        (**self).task_exit(view, task);
    }
    fn params_changed(&mut self, view: &View, task: TaskId) {
        (**self).params_changed(view, task);
    }
    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        (**self).select_cpu(view, task, arrival)
    }
    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        (**self).exec_cpu(view, task)
    }
    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
        (**self).enqueue(view, cpu, task, arrival);
    }
    fn dequeue(&mut self, view: &View, cpu: CpuId, task: TaskId) {
        (**self).dequeue(view, cpu, task);
    }
    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        (**self).pick_next(view, cpu)
    }
    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        (**self).put_prev(view, cpu, task, ran, stop);
    }
    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        (**self).preempts(view, cpu, current, woken)
    }
    fn slice(&mut self, view: &View, cpu: CpuId, task: TaskId) -> Option<Span> {
        (**self).slice(view, cpu, task)
    }
    fn slice_end(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span) -> Resched {
        (**self).slice_end(view, cpu, task, ran)
    }
    fn tick(&mut self, view: &View, cpu: CpuId, current: TaskId, ran: Span) -> Resched {
        (**self).tick(view, cpu, current, ran)
    }
    fn boot(&mut self, view: &View) -> Wants {
        (**self).boot(view)
    }
    fn dynamic_priority(&self, task: TaskId) -> Option<u32> {
        (**self).dynamic_priority(task)
    }
    fn tick_idle(&mut self, view: &View, cpu: CpuId) -> Resched {
        (**self).tick_idle(view, cpu)
    }
    fn next_request(&mut self) -> Option<Request> {
        (**self).next_request()
    }
    fn next_timer(&mut self, view: &View, cpu: CpuId) -> Option<Time> {
        (**self).next_timer(view, cpu)
    }
    fn timer(&mut self, view: &View, cpu: CpuId) -> Resched {
        (**self).timer(view, cpu)
    }
    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }
}
