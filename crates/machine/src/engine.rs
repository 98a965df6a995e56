//! What happens next? The event loop, and the only owner of simulated time.
//!
//! Time jumps ("warps") from event to event. At one instant, things happen in this order, each with its reason:
//!
//! 1. interrupts that one CPU has posted to another, first posted first: they belong to the event that posted them;
//! 2. CPUs that spin on another CPU, in the order in which they began: they wait for 1;
//! 3. timer interrupts (class 0), lower CPU first: a tick that falls on the end of a task's burst finds the task running, as it would
//!    on hardware, where the burst's last instruction comes after the interrupt;
//! 4. device interrupts (class 1), first planned first;
//! 5. operations of tasks (class 2), lower CPU first.
//!
//! An operation that follows at the same instant (zero CPU time after the last one) goes through 1-5 again.
//!
//! One CPU, a task that runs 4 ms and sleeps 6 ms, ticks each 4 ms:
//!
//! ```text
//! ms   0    1    2    3    4    5    6    7    8    9    10
//!      spawn               tick                          timer: wakeup
//!      t0 runs.............block, idle...................t0 runs
//! ```

use crate::kernel::{Boot, Control, Fault, FaultKind, Kernel, Op, Spawn, SpawnState, Stimulus, Yield};
use crate::program::{Code, Program};
use crate::queue::{CLASS_DEVICE, CLASS_OP, CLASS_TIMER, CpuQueue, Key};
use crate::wheel::Wheel;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Policy, Span, TaskId, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The CPUs.
    pub topology: Topology,
    /// Stop after this much simulated time, if the workload has not ended before.
    pub duration: Option<Span>,
    /// Tunables of the scheduler.
    pub params: Vec<(String, String)>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Every task has done all that the workload asks of it.
    AllDone,
    /// The duration is over.
    Duration,
    /// The tasks left wait for each other: who waits for whom.
    Deadlock(Vec<Wait>),
    /// The scheduler misbehaved.
    Fault(Fault),
}

/// A task that waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The sleeper.
    pub task: TaskId,
    /// Who should wake it.
    pub waker: TaskId,
    /// Before which of the waker's events.
    pub before_event: u64,
}

/// What a run was like. The schedule itself is in the log.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Simulated time from the start to the end.
    pub duration: Span,
    /// Per workload task: has it done all that the workload asks?
    pub finished: Vec<bool>,
    /// Calls of [`Kernel::resume`] after the start: the events of the run.
    pub events: u64,
    /// Blocks that did not sleep, since their wakeup had come already.
    pub tokens_early: u64,
    /// Host time in the event loop after the start.
    pub loop_wall_ns: u64,
    /// Of it, time inside the kernel: its share at one event in [`SAMPLE_EVERY`], scaled.
    pub kernel_wall_ns: u64,
    /// Simulated time that the kernel's boot took.
    pub boot: Span,
}

/// Every how many events the kernel's share of an event's time is measured (a prime, so as not to beat with the workload).
pub const SAMPLE_EVERY: u32 = 61;

/// A measurement longer than this (some 50 us) was interrupted by the host and does not count.
const SAMPLE_TICKS_MAX: u64 = 150_000;

/// More events than this at one instant are a livelock: far above what 1,024 CPUs and 100,000 tasks starting at once need.
const EVENTS_PER_INSTANT_MAX: u64 = 20_000_000;
/// More rounds of spinning than this with nothing else happening are a livelock.
const SPINS_MAX: u64 = 200_000;
/// Runnable tasks, all CPUs idle and nothing planned but ticks: after this long the tasks are lost (a throttled task's period is
/// at most seconds).
const LOST_AFTER_NS: u64 = 100_000_000_000;
/// A kernel that is not up after this much simulated time will not come up.
const BOOT_MAX: Span = Span::from_s(1000);

/// A control request (creating the tasks of the start) may take this much simulated time.
const CONTROL_MAX: Span = Span::from_s(100);

const NO_TOKEN: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Cpu {
    /// The task that computes in user mode, or idle.
    user: TaskId,
    since_ns: u64,
}

#[derive(Clone, Copy)]
struct Run {
    /// Index of its next step.
    step: usize,
    /// CPU time until then.
    remaining_ns: u64,
    /// The token it sleeps for.
    token: u32,
    /// Where it last entered the kernel: where its device interrupts arrive.
    cpu: u32,
    /// Where it last computed in user mode.
    on: u32,
    live: bool,
    finished: bool,
}

/// A kernel, a workload, and the time between them.
pub struct Machine<K: Kernel> {
    kernel: K,
    program: Arc<Program>,
    cpus: Vec<Cpu>,
    runs: Vec<Run>,
    delivered: Vec<u64>,
    /// Per task: the last expiry of its periodic timer (ns); empty if no task has one.
    grids: Vec<u64>,
    queue: CpuQueue,
    wheel: Wheel,
    spinning: VecDeque<CpuId>,
    now_ns: u64,
    live: u32,
    waiting: u32,
    events: u64,
    events_at_instant: u64,
    spins: u64,
    tokens_early: u64,
    /// When a task last did something or was woken by a device.
    last_progress_ns: u64,
    sample_in: u32,
    /// An event under measurement: when it began, and how long the kernel took.
    sample: Option<(u64, u64)>,
    sampled_inside: u64,
    sampled_whole: u64,
    pulse: Option<&'static std::sync::atomic::AtomicU64>,
    setup: Setup,
}

impl<K: Kernel> Machine<K> {
    /// Puts a workload on a machine; nothing happens yet.
    pub fn new(kernel: K, program: Program, setup: Setup) -> Machine<K> {
        let nr_cpus = setup.topology.nr_cpus() as usize;
        let runs = program
            .tasks
            .iter()
            .map(|task| Run {
                step: task.first_step,
                remaining_ns: 0,
                token: NO_TOKEN,
                cpu: 0,
                on: 0,
                live: false,
                finished: task.idle_forever,
            })
            .collect();
        Machine {
            kernel,
            cpus: vec![Cpu { user: TaskId::IDLE, since_ns: 0 }; nr_cpus],
            runs,
            delivered: vec![0; program.tokens.len().div_ceil(64)],
            grids: vec![0; if program.has_grids() { program.tasks.len() } else { 0 }],
            queue: CpuQueue::new(nr_cpus),
            wheel: Wheel::new(program.tasks.len()),
            spinning: VecDeque::new(),
            now_ns: 1_000_000, // power-on; the kernel's clock is never zero
            live: 0,
            waiting: 0,
            events: 0,
            events_at_instant: 0,
            spins: 0,
            tokens_early: 0,
            last_progress_ns: 0,
            sample_in: SAMPLE_EVERY,
            sample: None,
            sampled_inside: 0,
            sampled_whole: 0,
            pulse: None,
            program: Arc::new(program),
            setup,
        }
    }

    /// Lets a supervisor see that the loop is alive: the counter grows while events happen.
    pub fn set_pulse(&mut self, pulse: &'static std::sync::atomic::AtomicU64) {
        self.pulse = Some(pulse);
    }

    /// The kernel, for read-outs after the run.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Boots the kernel, starts the workload, and runs it to its end.
    pub fn run(&mut self) -> Outcome {
        let mut epoch_ns = self.now_ns;
        let mut started = None;
        let end = self.boot().and_then(|()| {
            epoch_ns = self.now_ns;
            started = Some(std::time::Instant::now());
            self.start(epoch_ns)?;
            self.events = 0;
            (self.sampled_inside, self.sampled_whole) = (0, 0);
            let end_ns = self
                .setup
                .duration
                .map_or(u64::MAX >> 2, |duration| epoch_ns.saturating_add(duration.as_ns()));
            self.main_loop(end_ns)
        });
        let (loop_wall_ns, kernel_wall_ns) = match started {
            None => (0, 0),
            Some(started) => {
                let wall_ns = started.elapsed().as_nanos() as u64;
                let inside = self.sampled_inside as f64 / self.sampled_whole.max(1) as f64;
                (wall_ns, (wall_ns as f64 * inside.min(1.0)) as u64)
            }
        };
        let end = end.unwrap_or_else(End::Fault);
        Outcome {
            end,
            duration: Span::from_ns(self.now_ns - epoch_ns),
            finished: self.runs.iter().map(|run| run.finished).collect(),
            events: self.events,
            tokens_early: self.tokens_early,
            loop_wall_ns,
            kernel_wall_ns,
            boot: Span::from_ns(epoch_ns - 1_000_000),
        }
    }

    fn boot(&mut self) -> Result<(), Fault> {
        let boot = Boot {
            topology: &self.setup.topology,
            nr_tasks: self.program.nr_tasks(),
            now: Time::from_ns(self.now_ns),
            params: &self.setup.params,
        };
        self.kernel.boot(&boot)?;
        let deadline_ns = self.now_ns + BOOT_MAX.as_ns();
        if !self.kernel.is_up() {
            self.step(CpuId(0), Stimulus::Continue)?;
        }
        while !self.kernel.is_up() {
            if !self.next_event(deadline_ns)? {
                return Err(Fault {
                    kind: FaultKind::Livelock,
                    reason: format!("the kernel was not up after {BOOT_MAX} of simulated time"),
                });
            }
        }
        if !self.program.cgroups.is_empty() {
            let program = Arc::clone(&self.program);
            self.control(Control::Cgroups(&program.cgroups))?;
        }
        self.spawn_initial(SpawnState::Blocked)?;
        // start the workload on a full second of the kernel's clock, at least 100 ms from now: boot's own work is over then,
        // and ticks have the same phase in every run
        let second_ns = Span::from_s(1).as_ns();
        let epoch_ns = (self.now_ns + second_ns / 10).next_multiple_of(second_ns);
        while self.next_event(epoch_ns - 1)? {}
        self.now_ns = epoch_ns;
        Ok(())
    }

    /// Time 0 of the workload: the log starts, runnable tasks come into being, first sleeps are armed.
    fn start(&mut self, epoch_ns: u64) -> Result<(), Fault> {
        self.events_at_instant = 0;
        self.kernel.start_log(Time::from_ns(epoch_ns));
        for index in 0..self.program.tasks.len() {
            let id = TaskId(index as u32);
            let (init, idle_forever) =
                (self.program.tasks[index].init, self.program.tasks[index].idle_forever);
            match init {
                Some(SpawnState::Blocked) if !idle_forever => {
                    self.born(id);
                    self.runs[index].remaining_ns = 0;
                    let code = self.program.steps[self.runs[index].step].code();
                    self.advance_step(id);
                    match code {
                        Code::BlockTimer(after_ns) | Code::BlockDevice(after_ns) => {
                            self.wheel.insert(id.0, epoch_ns + after_ns);
                        }
                        Code::BlockGrid(after_ns) | Code::BlockGridRestart(after_ns) => {
                            self.grids[index] = epoch_ns + after_ns;
                            self.wheel.insert(id.0, epoch_ns + after_ns);
                        }
                        Code::BlockToken(token) => {
                            self.runs[index].token = token;
                            self.waiting += 1;
                        }
                        other => {
                            unreachable!("a task blocked at the start begins with a block, not {other:?}")
                        }
                    }
                }
                Some(SpawnState::Runnable) => self.born(id),
                _ => {}
            }
        }
        self.spawn_initial(SpawnState::Runnable)
    }

    /// Has the kernel create the tasks that are there at the start in this state, and waits until it has.
    ///
    /// In order of their ids, but deadline tasks last: under Linux nothing runs above them, the one who creates them included.
    fn spawn_initial(&mut self, state: SpawnState) -> Result<(), Fault> {
        let program = Arc::clone(&self.program);
        let tasks = program.tasks.iter().enumerate().filter(|(_, task)| task.init == Some(state));
        let mut spawns: Vec<Spawn<'_>> = tasks
            .map(|(index, task)| Spawn {
                id: TaskId(index as u32),
                name: &task.name,
                change: task.change.as_ref(),
                state,
            })
            .collect();
        let is_deadline = |spawn: &Spawn<'_>| {
            spawn
                .change
                .and_then(|change| change.params)
                .is_some_and(|params| params.policy == Policy::Deadline)
        };
        spawns.sort_by_key(is_deadline);
        if spawns.is_empty() { Ok(()) } else { self.control(Control::Spawn(&spawns)) }
    }

    /// Hands a request in and goes on until it is carried out: at this instant, unless a task that was just created keeps the
    /// kernel from it (a deadline task on the only CPU), in which case time goes on.
    fn control(&mut self, request: Control<'_>) -> Result<(), Fault> {
        self.kernel.control(Time::from_ns(self.now_ns), request)?;
        let limit_ns = self.now_ns + CONTROL_MAX.as_ns();
        loop {
            if let Some(cpu) = self.kernel.next_kick().or_else(|| self.spinning.pop_front()) {
                self.step(cpu, Stimulus::Continue)?;
            } else if let Some(result) = self.kernel.control_done() {
                return result;
            } else if !self.next_event(limit_ns)? {
                let reason =
                    format!("a control request was not carried out within {CONTROL_MAX} of simulated time");
                return Err(Fault { kind: FaultKind::LostTask, reason });
            }
        }
    }

    fn born(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        run.live = true;
        self.live += 1;
        run.remaining_ns = self.program.steps[run.step].after_ns;
        if let Some(grid_ns) = self.grids.get_mut(id.index()) {
            *grid_ns = self.now_ns;
        }
    }

    fn main_loop(&mut self, end_ns: u64) -> Result<End, Fault> {
        while self.live > 0 {
            if self.live == self.waiting {
                return Ok(End::Deadlock(self.waits()));
            }
            if !self.next_event(end_ns)? {
                if self.queue.first().0 == Key::NEVER && self.wheel.next_ns() == u64::MAX {
                    return Err(self.lost());
                }
                self.now_ns = end_ns;
                self.kernel.check_end(Time::from_ns(end_ns))?;
                return Ok(End::Duration);
            }
        }
        // what the last event has set off at this instant
        while let Some(cpu) = self.kernel.next_kick().or_else(|| self.spinning.pop_front()) {
            self.step(cpu, Stimulus::Continue)?;
        }
        Ok(End::AllDone)
    }

    /// Carries out the next event not later than `limit_ns`; false if there is none.
    #[inline]
    fn next_event(&mut self, limit_ns: u64) -> Result<bool, Fault> {
        if let Some(cpu) = self.kernel.next_kick() {
            self.spins = 0;
            return self.step(cpu, Stimulus::Continue).map(|()| true);
        }
        if let Some(cpu) = self.spinning.pop_front() {
            self.spins += 1;
            if self.spins > SPINS_MAX {
                return Err(Fault {
                    kind: FaultKind::Livelock,
                    reason: format!("{cpu} spins in the kernel for ever"),
                });
            }
            return self.step(cpu, Stimulus::Continue).map(|()| true);
        }
        self.spins = 0;
        let (cpu_key, cpu) = self.queue.first();
        let wheel_ns = self.wheel.next_ns();
        let device_first = Key::new(wheel_ns, CLASS_DEVICE) < cpu_key;
        let time_ns = if device_first { wheel_ns } else { cpu_key.time_ns() };
        if time_ns > limit_ns {
            return Ok(false);
        }
        if time_ns > self.now_ns {
            self.now_ns = time_ns;
            self.events_at_instant = 0;
        }
        if device_first {
            let task = TaskId(self.wheel.pop(time_ns).expect("the wheel has a task due now"));
            let cpu = CpuId(self.runs[task.index()].cpu);
            self.step(cpu, Stimulus::Device(&[task]))?;
        } else if cpu_key.class() == CLASS_TIMER {
            self.step(CpuId(cpu as u32), Stimulus::Timer)?;
        } else {
            self.operate(CpuId(cpu as u32))?;
        }
        Ok(true)
    }

    /// Lets a CPU execute, and plans its next event.
    #[inline]
    fn step(&mut self, cpu: CpuId, stimulus: Stimulus<'_>) -> Result<(), Fault> {
        let now_ns = self.now_ns;
        let state = &mut self.cpus[cpu.index()];
        if !state.user.is_idle() {
            let run = &mut self.runs[state.user.index()];
            run.remaining_ns = run.remaining_ns.saturating_sub(now_ns - state.since_ns);
            state.since_ns = now_ns;
        }
        self.events += 1;
        self.sample_in -= 1;
        let yielded = if self.sample_in == 0 {
            self.resume_sampled(cpu, stimulus)?
        } else {
            self.kernel.resume(cpu, Time::from_ns(now_ns), stimulus)
        };
        let timer_key = Key::new(self.kernel.timer(cpu).as_ns(), CLASS_TIMER);
        let state = &mut self.cpus[cpu.index()];
        let key = match yielded {
            Yield::User(task) => {
                *state = Cpu { user: task, since_ns: now_ns };
                if self.runs[task.index()].on != cpu.0 {
                    self.arrive_from(task, cpu);
                }
                timer_key.min(Key::new(now_ns.saturating_add(self.runs[task.index()].remaining_ns), CLASS_OP))
            }
            Yield::Idle => {
                state.user = TaskId::IDLE;
                timer_key
            }
            Yield::Spin => {
                state.user = TaskId::IDLE;
                self.spinning.push_back(cpu);
                timer_key
            }
            Yield::Fault => return Err(self.kernel.fault()),
        };
        self.queue.set(cpu.index(), key);
        Ok(())
    }

    /// A task computes on another CPU than before. It may have been taken off that one at this very instant, before that CPU has
    /// had its own turn: what it computed there is counted now.
    fn arrive_from(&mut self, task: TaskId, cpu: CpuId) {
        let run = &mut self.runs[task.index()];
        let before = std::mem::replace(&mut run.on, cpu.0);
        let there = &mut self.cpus[before as usize];
        if there.user == task {
            run.remaining_ns = run.remaining_ns.saturating_sub(self.now_ns - there.since_ns);
            there.user = TaskId::IDLE;
        }
    }

    /// `resume` with a stop watch and the checks that need not be made each time.
    #[cold]
    #[inline(never)]
    fn resume_sampled(&mut self, cpu: CpuId, stimulus: Stimulus<'_>) -> Result<Yield, Fault> {
        let before = ticks();
        if let Some((began, inside)) = self.sample.take() {
            // the event after a measured one closes the measurement: kernel's part and whole of one event
            self.sample_in = SAMPLE_EVERY;
            let whole = before.saturating_sub(began);
            if whole < SAMPLE_TICKS_MAX {
                self.sampled_inside += inside;
                self.sampled_whole += whole;
            }
            return Ok(self.kernel.resume(cpu, Time::from_ns(self.now_ns), stimulus));
        }
        self.sample_in = 1;
        if let Some(pulse) = self.pulse {
            pulse.store(self.events, std::sync::atomic::Ordering::Relaxed);
        }
        self.events_at_instant += u64::from(SAMPLE_EVERY);
        if self.events_at_instant > EVENTS_PER_INSTANT_MAX {
            return Err(Fault {
                kind: FaultKind::Livelock,
                reason: format!("more than {EVENTS_PER_INSTANT_MAX} events at one instant"),
            });
        }
        if !matches!(stimulus, Stimulus::Continue | Stimulus::Timer) {
            self.last_progress_ns = self.now_ns;
        } else if !K::OWNS_TASK_TIMERS && self.now_ns - self.last_progress_ns > LOST_AFTER_NS {
            self.last_progress_ns = self.now_ns;
            let idle = self.cpus.iter().all(|cpu| cpu.user.is_idle()) && self.wheel.next_ns() == u64::MAX;
            if idle && self.live > self.waiting {
                return Err(self.lost());
            }
        }
        let before = ticks();
        let yielded = self.kernel.resume(cpu, Time::from_ns(self.now_ns), stimulus);
        self.sample = Some((before, ticks().saturating_sub(before)));
        Ok(yielded)
    }

    #[inline]
    fn advance_step(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        run.step += 1;
        run.remaining_ns = self.program.steps.get(run.step).map_or(0, |step| step.after_ns);
    }

    /// The task on this CPU has computed as long as its program says: carry out its next step.
    #[inline]
    fn operate(&mut self, cpu: CpuId) -> Result<(), Fault> {
        let id = self.cpus[cpu.index()].user;
        let now_ns = self.now_ns;
        let index = id.index();
        let code = self.program.steps[self.runs[index].step].code();
        self.cpus[cpu.index()].since_ns = now_ns;
        self.advance_step(id);
        self.runs[index].cpu = cpu.0;
        match code {
            Code::BlockTimer(after_ns) if K::OWNS_TASK_TIMERS => {
                let until = Time::from_ns(now_ns.saturating_add(after_ns));
                self.enter(cpu, id, Op::BlockUntil(until))
            }
            Code::BlockTimer(after_ns) | Code::BlockDevice(after_ns) => {
                self.wheel.insert(id.0, now_ns.saturating_add(after_ns));
                self.enter(cpu, id, Op::Block)
            }
            Code::BlockGrid(after_ns) | Code::BlockGridRestart(after_ns) => {
                let expiry_ns = self.grids[index].saturating_add(after_ns);
                if expiry_ns <= now_ns {
                    // Late: no sleep, as clock_nanosleep until a time that has passed.
                    let restarts = matches!(code, Code::BlockGridRestart(_));
                    self.grids[index] = if restarts { now_ns } else { expiry_ns };
                    self.tokens_early += 1;
                    return self.compute_on(cpu, id);
                }
                self.grids[index] = expiry_ns;
                if K::OWNS_TASK_TIMERS {
                    return self.enter(cpu, id, Op::BlockUntil(Time::from_ns(expiry_ns)));
                }
                self.wheel.insert(id.0, expiry_ns);
                self.enter(cpu, id, Op::Block)
            }
            Code::BlockToken(token) => {
                let (word, bit) = (token as usize / 64, 1 << (token % 64));
                if self.delivered[word] & bit != 0 {
                    self.tokens_early += 1;
                    return self.compute_on(cpu, id);
                }
                self.runs[index].token = token;
                self.waiting += 1;
                self.enter(cpu, id, Op::Block)
            }
            Code::BlockForever => {
                self.done(id);
                self.enter(cpu, id, Op::Block)
            }
            Code::Deliver(token) => {
                let sleeper = self.program.tokens[token as usize].sleeper;
                if self.runs[sleeper.index()].token == token {
                    self.runs[sleeper.index()].token = NO_TOKEN;
                    self.waiting -= 1;
                    self.enter(cpu, id, Op::Wake(sleeper))
                } else {
                    self.delivered[token as usize / 64] |= 1 << (token % 64);
                    self.compute_on(cpu, id)
                }
            }
            Code::Fork(child) => {
                self.born(TaskId(child));
                let program = Arc::clone(&self.program);
                let task = &program.tasks[child as usize];
                let spawn = Spawn {
                    id: TaskId(child),
                    name: &task.name,
                    change: task.change.as_ref(),
                    state: SpawnState::Runnable,
                };
                self.enter(cpu, id, Op::Fork(&spawn))
            }
            Code::Set(change) => {
                let program = Arc::clone(&self.program);
                let (target, change) = &program.changes[change as usize];
                self.enter(cpu, id, Op::Set(target.unwrap_or(id), change))
            }
            Code::Yield => self.enter(cpu, id, Op::Yield),
            Code::Exit => {
                self.done(id);
                self.enter(cpu, id, Op::Exit)
            }
        }
    }

    #[inline]
    fn enter(&mut self, cpu: CpuId, id: TaskId, op: Op<'_>) -> Result<(), Fault> {
        self.step(cpu, Stimulus::Op(id, op))
    }

    /// The task goes on computing without having entered the kernel.
    #[inline]
    fn compute_on(&mut self, cpu: CpuId, id: TaskId) -> Result<(), Fault> {
        let timer_key = Key::new(self.kernel.timer(cpu).as_ns(), CLASS_TIMER);
        let due_ns = self.now_ns.saturating_add(self.runs[id.index()].remaining_ns);
        self.queue.set(cpu.index(), timer_key.min(Key::new(due_ns, CLASS_OP)));
        Ok(())
    }

    fn done(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        run.finished = true;
        run.live = false;
        self.live -= 1;
    }

    /// Nothing will ever happen again, yet tasks are left that wait for nobody: they are runnable and nobody runs them.
    fn lost(&self) -> Fault {
        let lost = |run: &&Run| run.live && run.token == NO_TOKEN;
        let first = self.runs.iter().position(|run| lost(&run)).unwrap_or(0);
        Fault {
            kind: FaultKind::LostTask,
            reason: format!(
                "nothing can happen any more, but {} runnable ({} in all): a task that becomes runnable must be picked by some CPU",
                format_args!("{} is", TaskId(first as u32)),
                self.runs.iter().filter(lost).count()
            ),
        }
    }

    fn waits(&self) -> Vec<Wait> {
        let waiting = self.runs.iter().enumerate().filter(|(_, run)| run.token != NO_TOKEN);
        waiting
            .map(|(index, run)| {
                let token = self.program.tokens[run.token as usize];
                Wait { task: TaskId(index as u32), waker: token.waker, before_event: token.before.0 }
            })
            .collect()
    }
}

/// A cheap clock of the host, for shares of time only.
#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC has no preconditions.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
