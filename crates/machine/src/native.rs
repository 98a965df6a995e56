//! How does a [`Policy`] become an operating system? [`Native`] plays the kernel around it.
//!
//! It keeps the current task of each CPU, delivers ticks and slice ends, carries out the tasks' operations,
//! moves the log, and checks the policy's answers: a picked task must be queued, allowed and not running,
//! else the run ends with the rule broken.

use crate::kernel::{
    Boot, Carried, Change, Control, Fault, FaultKind, FileRequest, Kernel, Op, ReadOut, SKEW_TICK, Spawn,
    SpawnState, Stimulus, TaskCounters, Yield,
};
use crate::policy::{
    Arrival, BlockedBirth, Policy, Request, Resched, Stop, TaskView, View, Wants, WorkConservation,
};
use crate::sink::Sink;
use schedlab_log::{Kind, PrevState, Record, note};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, CpuSet, Span, TaskId, Time};
use std::collections::VecDeque;

/// How often a policy may make a CPU pick again at one instant by kicking it while it picks.
const PICKS_MAX: u32 = 1000;

/// "Here" of the experimenter's requests: no CPU, so that every CPU that gets work is kicked; logged as CPU 0.
const NOWHERE: CpuId = CpuId(u32::MAX);

/// A policy with the kernel around it; records go to `sink`.
pub struct Native<P: Policy, S: Sink> {
    policy: P,
    sink: S,
    view: View,
    cpus: Vec<CpuState>,
    tasks: Vec<TaskState>,
    kicks: VecDeque<CpuId>,
    tick: Option<Span>,
    phase: Span,
    wants: Wants,
    epoch: Time,
    logging: bool,
    fault: Option<Fault>,
}

#[derive(Clone, Copy)]
struct CpuState {
    need_resched: bool,
    /// Who stays within a system call.
    within: TaskId,
    kicked: bool,
    /// The task for which this CPU, idle, was asked to pick; it may pick another.
    kicked_for: TaskId,
    slice_end: Time,
    next_tick: Time,
    /// When that was set: at the last tick, or when the CPU ceased to be idle.
    tick_set: Time,
    /// Its ticks come this long after multiples of the period.
    tick_phase: Span,
    /// The policy's own timer.
    policy_timer: Time,
    /// The current task is no longer allowed here.
    must_move: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Absent,
    Blocked,
    Queued,
    Running,
}

#[derive(Clone, Copy)]
struct TaskState {
    place: Place,
    cpu_time: Span,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    last_ran_on: Option<CpuId>,
    /// A thread of the recorded kernel: its timers go off in the softirq that follows the interrupt's own.
    kernel_thread: bool,
    /// It is to block as soon as it runs: it is there, blocked, at the start.
    blocks_at_once: bool,
    /// When it last became queued, or blocked.
    queued_at: Time,
    /// Its dynamic priority as the log has it.
    logged_priority: Option<u32>,
}

impl<P: Policy, S: Sink> Native<P, S> {
    /// A kernel around `policy`.
    pub fn new(policy: P, sink: S) -> Native<P, S> {
        let (tick, phase) = (policy.timing().tick, policy.tick_phase());
        Native {
            policy,
            sink,
            view: View::new(Topology::flat(1).expect("one CPU is a machine"), 0),
            cpus: Vec::new(),
            tasks: Vec::new(),
            kicks: VecDeque::new(),
            tick,
            phase,
            wants: Wants::default(),
            epoch: Time::ZERO,
            logging: false,
            fault: None,
        }
    }

    /// The policy, for tests and read-outs.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    #[inline]
    fn log(&mut self, kind: Kind, cpu: CpuId, task: TaskId, other: u32, flags: u8, arg: u32) {
        if self.logging {
            self.sink.push(Record {
                time_ns: (self.view.now - self.epoch).as_ns(),
                kind: kind as u8,
                flags,
                cpu: if cpu == NOWHERE { 0 } else { cpu.0 as u16 },
                task: task.0,
                other,
                arg,
                value: 0,
            });
        }
    }

    /// Says what dynamic priority a task has that is given the CPU, if it is another than the log says.
    fn log_priority(&mut self, cpu: CpuId, task: TaskId) {
        let priority = self.policy.dynamic_priority(task);
        let Some(now) = priority.filter(|_| self.logging) else { return };
        if self.tasks[task.index()].logged_priority.replace(now) != priority {
            self.sink.push(Record {
                time_ns: (self.view.now - self.epoch).as_ns(),
                kind: Kind::Note as u8,
                flags: 0,
                cpu: cpu.0 as u16,
                task: task.0,
                other: TaskId::IDLE.0,
                arg: note::PRIORITY,
                value: now.into(),
            });
        }
    }

    fn broken(&mut self, reason: String) {
        if self.fault.is_none() {
            self.fault = Some(Fault { kind: FaultKind::Contract, reason });
        }
    }

    #[inline]
    fn kick(&mut self, here: CpuId, cpu: CpuId) {
        self.cpus[cpu.index()].need_resched = true;
        if here != cpu && !self.cpus[cpu.index()].kicked {
            self.cpus[cpu.index()].kicked = true;
            self.kicks.push_back(cpu);
        }
    }

    /// Carries out what the policy asks for.
    fn requests(&mut self, here: CpuId) {
        while let Some(request) = self.policy.next_request() {
            match request {
                Request::Kick(cpu) if cpu.0 < self.view.nr_cpus() => self.kick(here, cpu),
                Request::Timer(cpu) if cpu.0 < self.view.nr_cpus() => {
                    if cpu != here {
                        self.kick(here, cpu); // its timers are asked for when it has been dealt with
                    }
                }
                Request::Kick(cpu) | Request::Timer(cpu) => {
                    return self.broken(format!("it kicked {cpu}, which does not exist"));
                }
                Request::Moved { task, to } => {
                    let place = self.tasks.get(task.0 as usize).map(|task| task.place);
                    if place != Some(Place::Queued)
                        || to.0 >= self.view.nr_cpus()
                        || !self.view.allowed(task, to)
                    {
                        return self.broken(format!(
                            "it moved {task} to {to}: the task is not queued or not allowed there"
                        ));
                    }
                    let from = std::mem::replace(&mut self.view.tasks[task.index()].cpu, to);
                    if from != to {
                        self.log(Kind::Migrate, here, task, to.0, 0, from.0);
                    }
                }
            }
        }
    }

    /// Lets a CPU pick again that was kicked while it picked.
    #[cold]
    fn pick_again(&mut self, cpu: CpuId) {
        for _ in 0..PICKS_MAX {
            if !self.cpus[cpu.index()].need_resched || self.fault.is_some() {
                return;
            }
            self.schedule(cpu, Stop::Preempted);
        }
        self.broken(format!("it kicked {cpu} at each of {PICKS_MAX} picks at one instant"));
    }

    #[inline]
    fn pick_if_asked(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].need_resched {
            self.pick_again(cpu);
        }
    }

    /// Makes a task runnable: select CPU, enqueue, preempt.
    #[inline]
    fn arrive(&mut self, here: CpuId, task: TaskId, arrival: Arrival) {
        let cpu = self.policy.select_cpu(&self.view, task, arrival);
        self.arrive_on(here, (cpu, "select_cpu"), task, arrival);
    }

    /// `by` is the policy's method that chose the CPU.
    #[inline]
    fn arrive_on(&mut self, here: CpuId, (cpu, by): (CpuId, &str), task: TaskId, arrival: Arrival) {
        if cpu.0 >= self.view.nr_cpus() || !self.view.allowed(task, cpu) {
            return self.broken(format!("{by} put {task} on {cpu}, where it is not allowed to run"));
        }
        let from = self.view.tasks[task.index()].cpu;
        if from != cpu && !matches!(arrival, Arrival::New { .. }) {
            self.log(Kind::Migrate, here, task, cpu.0, 0, from.0);
        }
        self.view.tasks[task.index()].cpu = cpu;
        self.tasks[task.index()].place = Place::Queued;
        self.tasks[task.index()].queued_at = self.view.now;
        match arrival {
            Arrival::New { .. } => self.log(Kind::New, here, task, TaskId::IDLE.0, 0, cpu.0),
            Arrival::Wakeup { .. } => self.log(Kind::Wakeup, here, task, TaskId::IDLE.0, 0, cpu.0),
            Arrival::Changed => {}
        }
        self.policy.enqueue(&self.view, cpu, task, arrival);
        match self.view.current(cpu) {
            None => self.kick_idle(here, cpu, task),
            Some(current) => {
                if self.policy.preempts(&self.view, cpu, current, task) == Resched::Yes {
                    self.kick(here, cpu);
                }
            }
        }
    }

    #[inline]
    fn wake(&mut self, here: CpuId, task: TaskId, waker: Option<TaskId>) {
        if self.tasks[task.index()].place != Place::Blocked {
            return;
        }
        let (other, irq) = (waker.unwrap_or(TaskId::IDLE).0, u8::from(waker.is_none()));
        self.log(Kind::Waking, here, task, other, irq, 0);
        self.arrive(here, task, Arrival::Wakeup { waker });
    }

    /// Stops the current task, if any, and returns it.
    #[inline]
    fn stop_current(&mut self, cpu: CpuId, stop: Stop) -> TaskId {
        let current = self.view.cpus[cpu.index()].current;
        if !current.is_idle() {
            let ran = self.view.ran(cpu);
            let state = &mut self.tasks[current.index()];
            state.cpu_time += ran;
            state.last_ran_on = Some(cpu);
            state.queued_at = self.view.now;
            state.place = match stop {
                Stop::Preempted | Stop::Yielded => Place::Queued,
                Stop::Blocked => Place::Blocked,
                Stop::Exited => Place::Absent,
            };
            self.policy.put_prev(&self.view, cpu, current, ran, stop);
        }
        current
    }

    /// Replaces the current task of `cpu`.
    #[inline]
    fn schedule(&mut self, cpu: CpuId, stop: Stop) {
        let now = self.view.now;
        let previous = self.stop_current(cpu, stop);
        self.cpus[cpu.index()].need_resched = false;
        let kicked_for = std::mem::replace(&mut self.cpus[cpu.index()].kicked_for, TaskId::IDLE);
        let picked = self.policy.pick_next(&self.view, cpu);
        if self.wants.requests {
            self.requests(cpu);
        }
        let next = match picked {
            None => TaskId::IDLE,
            Some(task) => {
                let known = self.tasks.get(task.0 as usize).map(|t| t.place);
                if known != Some(Place::Queued) || !self.view.allowed(task, cpu) {
                    let why = match known {
                        None => "which does not exist",
                        Some(Place::Queued) => "which is not allowed there",
                        Some(Place::Running) => "which runs elsewhere",
                        Some(Place::Blocked) => "which is blocked",
                        Some(Place::Absent) => "which has exited or was never created",
                    };
                    return self.broken(format!("pick_next on {cpu} returned {task}, {why}"));
                }
                task
            }
        };
        if self.wants.priorities && !next.is_idle() {
            self.log_priority(cpu, next);
        }
        if next == previous {
            if next.is_idle() {
                self.view.set_idle(cpu, true);
            } else {
                self.tasks[next.index()].place = Place::Running;
                self.view.cpus[cpu.index()].since = now;
                self.arm(cpu, next);
            }
            return;
        }
        let state = match stop {
            Stop::Preempted => PrevState::Preempted,
            Stop::Yielded => PrevState::Yielded,
            Stop::Blocked => PrevState::Sleeping,
            Stop::Exited => PrevState::Dead,
        };
        if !previous.is_idle() {
            let counters = &mut self.tasks[previous.index()];
            if stop.is_runnable() && stop != Stop::Yielded {
                counters.involuntary += 1
            } else {
                counters.voluntary += 1
            }
        }
        if !next.is_idle() {
            let task = &mut self.tasks[next.index()];
            task.place = Place::Running;
            if task.last_ran_on.is_some_and(|last| last != cpu) {
                task.migrations += 1;
            }
            let from = std::mem::replace(&mut self.view.tasks[next.index()].cpu, cpu);
            if from != cpu {
                self.log(Kind::Migrate, cpu, next, cpu.0, 0, from.0);
            }
        }
        self.log(Kind::Switch, cpu, previous, next.0, state as u8, 0);
        self.view.cpus[cpu.index()].current = next;
        self.view.cpus[cpu.index()].since = now;
        self.view.set_idle(cpu, next.is_idle());
        self.arm(cpu, next);
        if stop.is_runnable() && !previous.is_idle() {
            self.kick_idle_for(cpu, previous);
        }
        if !kicked_for.is_idle()
            && kicked_for != next
            && !next.is_idle()
            && self.tasks[kicked_for.index()].place == Place::Queued
        {
            self.kick_idle_for(cpu, kicked_for);
        }
    }

    /// Lets an idle CPU pick, for this task; from here on the CPU does not count as idle, and the next
    /// arrival looks elsewhere.
    #[inline]
    fn kick_idle(&mut self, here: CpuId, idle: CpuId, task: TaskId) {
        self.view.set_idle(idle, false);
        let kicked_for = &mut self.cpus[idle.index()].kicked_for;
        if kicked_for.is_idle() {
            *kicked_for = task; // a later one chose this CPU though it was taken
        }
        self.kick(here, idle);
    }

    /// Another task (perhaps one that may run nowhere else) took the CPU that this one had or was meant for:
    /// an idle CPU may have it, if the policy has one queue for all. (With a queue per CPU it is for the
    /// policy to balance, when its rules say so.)
    #[cold]
    fn kick_idle_for(&mut self, here: CpuId, task: TaskId) {
        if self.policy.work_conservation() == WorkConservation::Machine
            && let Some(idle) = self.view.idle_cpu_for(task)
        {
            self.kick_idle(here, idle, task);
        }
    }

    #[inline]
    fn arm(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.view.now;
        let state = &mut self.cpus[cpu.index()];
        if task.is_idle() {
            state.slice_end = Time::NEVER;
            if !self.wants.idle_ticks {
                state.next_tick = Time::NEVER;
            }
            return;
        }
        if let Some(tick) = self.tick
            && state.next_tick == Time::NEVER
        {
            state.next_tick = next_tick(now, tick, state.tick_phase);
            state.tick_set = now;
        }
        state.slice_end = match self.policy.slice(&self.view, cpu, task) {
            Some(slice) if slice > Span::ZERO => now + slice,
            Some(_) => return self.broken(format!("slice gave {task} a slice of zero")),
            None => Time::NEVER,
        };
    }

    /// The timer interrupt, with the tasks whose sleep is over. Timers of one instant go off in the order in
    /// which they were set: a sleep that began before the last tick is over before the tick that is due now.
    /// Threads of the kernel come last, in the order of their ids: what wakes them is the interrupt itself,
    /// in an order of its own, however long they have slept.
    fn timer_and_sleepers(&mut self, cpu: CpuId, sleepers: &[TaskId]) {
        let tick_set = self.cpus[cpu.index()].tick_set;
        let early = |native: &Self, task: TaskId| {
            let state = &native.tasks[task.index()];
            !state.kernel_thread && state.queued_at < tick_set
        };
        for &task in sleepers {
            if early(self, task) {
                self.wake(cpu, task, None);
            }
        }
        self.timer_interrupt(cpu);
        let is_kernel_thread = |native: &Self, task: TaskId| native.tasks[task.index()].kernel_thread;
        for &task in sleepers {
            // (those of the first round are no longer blocked)
            if !is_kernel_thread(self, task) {
                self.wake(cpu, task, None);
            }
        }
        let mut threads: Vec<TaskId> =
            sleepers.iter().copied().filter(|&task| is_kernel_thread(self, task)).collect();
        threads.sort_unstable();
        for task in threads {
            self.wake(cpu, task, None);
        }
    }

    fn timer_interrupt(&mut self, cpu: CpuId) {
        let now = self.view.now;
        let state = self.cpus[cpu.index()];
        if state.policy_timer <= now {
            self.cpus[cpu.index()].policy_timer = Time::NEVER;
            if self.policy.timer(&self.view, cpu) == Resched::Yes {
                self.cpus[cpu.index()].need_resched = true;
            }
        }
        let Some(current) = self.view.current(cpu) else {
            if state.next_tick <= now {
                self.cpus[cpu.index()].next_tick =
                    now + self.tick.expect("a tick is planned only if there is one");
                self.cpus[cpu.index()].tick_set = now;
                if self.policy.tick_idle(&self.view, cpu) == Resched::Yes {
                    self.cpus[cpu.index()].need_resched = true;
                }
            }
            return;
        };
        let ran = self.view.ran(cpu);
        if state.next_tick <= now {
            let period = self.tick.expect("a tick is planned only if there is one");
            self.cpus[cpu.index()].next_tick = now + period;
            self.cpus[cpu.index()].tick_set = now;
            if self.policy.tick(&self.view, cpu, current, ran) == Resched::Yes {
                self.cpus[cpu.index()].need_resched = true;
            }
        }
        if state.slice_end <= now {
            self.cpus[cpu.index()].slice_end = Time::NEVER;
            match self.policy.slice_end(&self.view, cpu, current, ran) {
                Resched::Yes => self.cpus[cpu.index()].need_resched = true,
                Resched::No => self.arm(cpu, current),
            }
        }
    }

    /// Creates a task. One that begins on a stated CPU is bound to it until all are there.
    fn spawn(&mut self, here: CpuId, spawn: &Spawn<'_>, parent: Option<TaskId>) {
        let id = spawn.id;
        if let Some(parent) = parent {
            let TaskView { params, affinity, cpu } = self.view.tasks[parent.index()].clone();
            self.view.tasks[id.index()] = TaskView { params, affinity, cpu };
            self.log(Kind::Fork, here, parent, id.0, 0, 0);
        }
        if let Some(change) = spawn.change {
            self.apply(id, change);
        }
        if let Some(cpu) = spawn.cpu {
            self.view.tasks[id.index()].affinity = Some(CpuSet::single(cpu));
        }
        self.tasks[id.index()].kernel_thread = spawn.kernel_thread;
        self.view.tasks[id.index()].cpu = self.view.home_cpu(id);
        self.policy.task_new(&self.view, id);
        match spawn.state {
            SpawnState::Runnable => self.arrive(here, id, Arrival::New { parent }),
            SpawnState::Blocked if self.policy.blocked_birth() == BlockedBirth::Runs => {
                self.tasks[id.index()].blocks_at_once = true;
                self.arrive(here, id, Arrival::New { parent });
            }
            SpawnState::Blocked => self.tasks[id.index()].place = Place::Blocked,
        }
    }

    /// Before the start: tasks that are to be there blocked block when they have been picked.
    #[cold]
    fn block_at_once(&mut self, cpu: CpuId) {
        while let Some(current) = self.view.current(cpu)
            && std::mem::take(&mut self.tasks[current.index()].blocks_at_once)
            && self.fault.is_none()
        {
            self.schedule(cpu, Stop::Blocked);
            if self.wants.requests {
                self.pick_if_asked(cpu);
            }
        }
    }

    fn counters(&self, task: TaskId) -> TaskCounters {
        let state = self.tasks[task.index()];
        let running: Span = self
            .view
            .cpus
            .iter()
            .filter(|cpu| cpu.current == task)
            .map(|cpu| self.view.now.saturating_since(cpu.since))
            .sum();
        TaskCounters {
            cpu: state.cpu_time + running,
            voluntary: state.voluntary,
            involuntary: state.involuntary,
            migrations: state.migrations,
        }
    }

    fn apply_and_log(&mut self, here: CpuId, task: TaskId, change: &Change) {
        self.apply(task, change);
        let is_logged = change.params.is_some() || change.nice.is_some() || change.affinity.is_some();
        if is_logged && self.logging {
            let params = self.view.tasks[task.index()].params;
            let [nice] = (params.nice.get() as i8).to_le_bytes();
            self.sink.push(Record {
                time_ns: (self.view.now - self.epoch).as_ns(),
                kind: Kind::Params as u8,
                flags: u8::from(change.affinity.is_some()),
                cpu: if here == NOWHERE { 0 } else { here.0 as u16 },
                task: task.0,
                other: TaskId::IDLE.0,
                arg: 0,
                value: u64::from(u32::from_le_bytes([params.policy.number(), nice, params.rt_priority, 0])),
            });
        }
    }

    fn apply(&mut self, task: TaskId, change: &Change) {
        let view = &mut self.view.tasks[task.index()];
        if let Some(params) = change.params {
            view.params = params;
        }
        if let Some(nice) = change.nice {
            view.params.nice = nice;
        }
        if let Some(affinity) = &change.affinity {
            view.affinity = Some(affinity.clone());
        }
    }

    fn set(&mut self, here: CpuId, task: TaskId, change: &Change) {
        match self.tasks[task.index()].place {
            Place::Queued => {
                let cpu = self.view.task_cpu(task);
                self.policy.dequeue(&self.view, cpu, task);
                self.apply_and_log(here, task, change);
                self.policy.params_changed(&self.view, task);
                self.arrive(here, task, Arrival::Changed);
            }
            Place::Absent => {} // not born yet, or gone: as ESRCH
            place => {
                self.apply_and_log(here, task, change);
                self.policy.params_changed(&self.view, task);
                let cpu = self.view.task_cpu(task);
                if place == Place::Running && !self.view.allowed(task, cpu) {
                    if here == cpu {
                        self.move_away(cpu, task);
                    } else {
                        // by that CPU itself, as the kernel's stopper does it: the machine must see it stop
                        // before it runs elsewhere
                        self.cpus[cpu.index()].must_move = true;
                        self.kick(here, cpu);
                    }
                }
            }
        }
    }

    /// The running task executes a new program.
    fn exec(&mut self, cpu: CpuId, task: TaskId) {
        let to = self.policy.exec_cpu(&self.view, task);
        if to != cpu {
            self.take_off(cpu, task);
            self.arrive_on(cpu, (to, "exec_cpu"), task, Arrival::Changed);
        }
    }

    /// The running task is no longer allowed on its CPU.
    fn move_away(&mut self, cpu: CpuId, task: TaskId) {
        self.take_off(cpu, task);
        self.arrive(cpu, task, Arrival::Changed);
    }

    /// The running task leaves its CPU, and is nowhere for now.
    fn take_off(&mut self, cpu: CpuId, task: TaskId) {
        // take it off the CPU as if it blocked, then let it arrive elsewhere
        let ran = self.view.ran(cpu);
        self.policy.put_prev(&self.view, cpu, task, ran, Stop::Blocked);
        let state = &mut self.tasks[task.index()];
        state.cpu_time += ran;
        state.last_ran_on = Some(cpu);
        state.involuntary += 1;
        self.log(Kind::Switch, cpu, task, TaskId::IDLE.0, PrevState::Preempted as u8, 0);
        self.view.cpus[cpu.index()].current = TaskId::IDLE;
        self.view.cpus[cpu.index()].since = self.view.now;
        self.view.set_idle(cpu, true);
        self.arm(cpu, TaskId::IDLE);
        self.kick(cpu, cpu);
    }

    #[inline]
    fn op(&mut self, cpu: CpuId, task: TaskId, op: Op<'_>) {
        match op {
            Op::Block => self.schedule(cpu, Stop::Blocked),
            Op::Wake(target) | Op::WakeSync(target) => self.wake(cpu, target, Some(task)),
            Op::Fork(child) => self.spawn(cpu, child, Some(task)),
            Op::Yield => self.schedule(cpu, Stop::Yielded),
            Op::Exec => self.exec(cpu, task),
            Op::Return => {}
            Op::Set(target, change) => self.set(cpu, target, change),
            Op::Exit => {
                self.log(Kind::Exit, cpu, task, TaskId::IDLE.0, 0, 0);
                self.schedule(cpu, Stop::Exited);
                self.policy.task_exit(&self.view, task);
            }
            Op::BlockUntil(_) => unreachable!("the machine keeps the timers of native policies"),
        }
    }
}

/// The next multiple of the tick's period after `now`, shifted by the phase.
#[inline]
fn next_tick(now: Time, tick: Span, phase: Span) -> Time {
    let period_ns = tick.as_ns();
    let since_first_ns = now.as_ns() + period_ns - phase.as_ns();
    Time::from_ns(since_first_ns / period_ns * period_ns + phase.as_ns())
}

/// How far the ticks of a CPU are shifted if they are spread over half a tick, as the kernel does it
/// (`tick_setup_sched_timer()`).
fn skew(tick: Span, cpu: u64, nr_cpus: u64) -> Span {
    Span::from_ns(tick.as_ns() / 2 / nr_cpus * cpu)
}

impl<P: Policy, S: Sink> Kernel for Native<P, S> {
    const OWNS_TASK_TIMERS: bool = false;

    #[inline]
    fn wakes_sleepers_with_ticks(&self) -> bool {
        self.tick.is_some()
    }

    fn boot(&mut self, boot: &Boot<'_>) -> Result<(), Fault> {
        let nr_cpus = boot.topology.nr_cpus() as usize;
        self.view = View::new(boot.topology.clone(), boot.nr_tasks);
        self.view.now = boot.now;
        self.cpus = vec![
            CpuState {
                need_resched: false,
                within: TaskId::IDLE,
                kicked: false,
                kicked_for: TaskId::IDLE,
                slice_end: Time::NEVER,
                next_tick: Time::NEVER,
                tick_set: Time::ZERO,
                tick_phase: Span::ZERO,
                policy_timer: Time::NEVER,
                must_move: false,
            };
            nr_cpus
        ];
        let spread = boot.params.iter().any(|(name, value)| name == SKEW_TICK && value == "1");
        if let Some(tick) = self.tick {
            for (number, cpu) in self.cpus.iter_mut().enumerate() {
                let skew = if spread { skew(tick, number as u64, nr_cpus as u64) } else { Span::ZERO };
                cpu.tick_phase = Span::from_ns((self.phase + skew).as_ns() % tick.as_ns());
            }
        }
        self.wants = self.policy.boot(&self.view);
        if let Some(tick) = self.tick
            && self.wants.idle_ticks
        {
            // the machine reads a CPU's timer when it has executed something
            for (number, cpu) in self.cpus.iter_mut().enumerate() {
                cpu.next_tick = next_tick(boot.now, tick, cpu.tick_phase);
                cpu.kicked = true;
                self.kicks.push_back(CpuId(number as u32));
            }
        }
        let absent = TaskState {
            place: Place::Absent,
            cpu_time: Span::ZERO,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            last_ran_on: None,
            blocks_at_once: false,
            kernel_thread: false,
            queued_at: Time::ZERO,
            logged_priority: None,
        };
        self.tasks = vec![absent; boot.nr_tasks as usize];
        Ok(())
    }

    fn is_up(&self) -> bool {
        true
    }

    #[inline]
    fn resume(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>) -> Yield {
        self.view.now = now;
        self.cpus[cpu.index()].kicked = false;
        match stimulus {
            Stimulus::Continue => {}
            Stimulus::Timer(sleepers) => self.timer_and_sleepers(cpu, sleepers),
            Stimulus::Device(tasks) => tasks.iter().for_each(|&task| self.wake(cpu, task, None)),
            Stimulus::Op(task, op) | Stimulus::Call(task, op) => self.op(cpu, task, op),
        }
        if self.wants.requests {
            self.requests(cpu);
        }
        // within a system call nobody else is chosen
        let within = match stimulus {
            Stimulus::Call(task, _) => task,
            Stimulus::Op(..) => TaskId::IDLE,
            _ => self.cpus[cpu.index()].within,
        };
        let stays = self.view.current(cpu) == Some(within);
        self.cpus[cpu.index()].within = if stays { within } else { TaskId::IDLE };
        if self.cpus[cpu.index()].need_resched && !stays && self.fault.is_none() {
            if std::mem::take(&mut self.cpus[cpu.index()].must_move)
                && let Some(task) = self.view.current(cpu)
                && !self.view.allowed(task, cpu)
            {
                self.move_away(cpu, task);
            }
            self.schedule(cpu, Stop::Preempted);
            if self.wants.requests {
                self.pick_if_asked(cpu);
            }
        }
        if !self.logging {
            self.block_at_once(cpu);
        }
        if self.wants.timers {
            self.cpus[cpu.index()].policy_timer =
                self.policy.next_timer(&self.view, cpu).unwrap_or(Time::NEVER);
        }
        if self.fault.is_some() {
            return Yield::Fault;
        }
        match self.view.cpus[cpu.index()].current {
            TaskId::IDLE => Yield::Idle,
            current => Yield::User(current),
        }
    }

    #[inline]
    fn timer(&self, cpu: CpuId) -> Time {
        let state = &self.cpus[cpu.index()];
        state.slice_end.min(state.next_tick).min(state.policy_timer)
    }

    #[inline]
    fn next_kick(&mut self) -> Option<CpuId> {
        self.kicks.pop_front()
    }

    fn control(&mut self, now: Time, request: Control<'_>) -> Result<(), Fault> {
        self.view.now = now;
        match request {
            Control::Spawn(tasks) => {
                for spawn in tasks {
                    self.spawn(NOWHERE, spawn, None);
                    if self.wants.requests {
                        self.requests(NOWHERE);
                    }
                }
                for spawn in tasks.iter().filter(|spawn| spawn.cpu.is_some()) {
                    self.view.tasks[spawn.id.index()].affinity = spawn.affinity().cloned();
                }
            }
            Control::Cgroups(_) => {} // native policies know no groups; the report says so
            Control::Files(files) => {
                for file in files {
                    let FileRequest::Change { tasks, change, .. } = file else {
                        let reason =
                            "a native scheduler has no files and no CPU hotplug: --at is for real Linux";
                        return Err(Fault { kind: FaultKind::Refused, reason: reason.to_owned() });
                    };
                    for task in tasks {
                        self.set(NOWHERE, *task, change);
                        if self.wants.requests {
                            self.requests(NOWHERE);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn control_done(&mut self) -> Option<Carried> {
        Some(Carried { result: Ok(()), readings: Vec::new() })
    }

    fn start_log(&mut self, epoch: Time) {
        self.epoch = epoch;
        self.logging = true;
    }

    fn note(&mut self, now: Time, note: Record) {
        if self.logging {
            self.sink.push(Record { time_ns: (now - self.epoch).as_ns(), ..note });
        }
    }

    fn read_out(&mut self) -> ReadOut {
        let tasks = (0..self.tasks.len() as u32).map(|id| self.counters(TaskId(id))).collect();
        ReadOut { tasks, warnings: self.policy.warnings(), ..ReadOut::default() }
    }

    fn check_end(&mut self, now: Time) -> Result<(), Fault> {
        self.view.now = now;
        let promise = self.policy.work_conservation();
        let forgotten_by = |task: TaskId| match promise {
            WorkConservation::Never => None,
            WorkConservation::PerCpu => Some(self.view.task_cpu(task)).filter(|&cpu| self.view.is_idle(cpu)),
            WorkConservation::Machine => self.view.idle_cpu_for(task),
        };
        for (index, state) in self.tasks.iter().enumerate().filter(|(_, state)| state.place == Place::Queued)
        {
            let task = TaskId(index as u32);
            if let Some(cpu) = forgotten_by(task) {
                let since = state.queued_at.saturating_since(self.epoch);
                let reason = format!(
                    "at the end {task} is runnable, since {since} of the run, and {cpu}, where it may run, is idle: \
                     a queued task must be offered to an idle CPU"
                );
                return Err(Fault { kind: FaultKind::LostTask, reason });
            }
        }
        Ok(())
    }

    fn fault(&mut self) -> Fault {
        self.fault.take().unwrap_or(Fault { kind: FaultKind::Contract, reason: "no reason recorded".into() })
    }

    fn flush_log(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}
