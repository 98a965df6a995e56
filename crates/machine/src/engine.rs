//! What happens next? The event loop, and the only owner of simulated time.
//!
//! Time jumps ("warps") from event to event. At one instant, things happen in this order, each with its reason:
//!
//! 1. interrupts that one CPU has posted to another, first posted first: they belong to the event that posted them;
//! 2. CPUs that spin on another CPU, in the order in which they began: they wait for 1;
//!    (1 and 2 are [`FirstPosted`]; a machine may be given another [`Order`], see [`crate::order`])
//! 3. timer interrupts (class 0), lower CPU first: a tick that falls on the end of a task's burst finds the
//!    task running, as it would on hardware, where the burst's last instruction comes after the interrupt.
//!    Under policies with a tick, the tick and the sleepers whose time has come on that CPU are one
//!    interrupt, after which the CPU chooses once who runs, as real Linux does by itself;
//! 4. device interrupts (class 1), first planned first; also the sleepers of CPUs that have no tick now,
//!    under policies with a tick all of one CPU at once;
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

mod checks;
mod enter;
mod quiet;
mod rounds;
mod start;
mod steer;
mod steps;

use crate::kernel::{Action, Change, Control, Fault, FaultKind, FileRequest, Kernel, Op, Reading, Stimulus};
use crate::objects::Objects;
use crate::order::{FirstPosted, Order, Turn};
use crate::program::{Code, Program};
use crate::queue::{CLASS_DEVICE, CLASS_TIMER, CpuQueue, GROUP, Key, Next};
use crate::wheel::Wheel;
use schedlab_log::{Kind, Record, note};
use schedlab_stdx::Random;
use schedlab_topology::{CAPACITY_SCALE, Topology};
use schedlab_units::{CpuId, CpuSet, Span, TaskId, Time};
use schedlab_workload::{Object, WaitCosts};
use std::collections::VecDeque;
use std::sync::Arc;

use checks::{SPINS_MAX, spins_for_ever};
use rounds::{Pollers, PutOff};
use steer::Steer;
use steps::Act;

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
    Deadlock(Vec<EndlessWait>),
    /// The scheduler misbehaved.
    Fault(Fault),
}

/// A task that waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EndlessWait {
    /// The sleeper.
    pub task: TaskId,
    /// What for.
    pub waits_for: WaitsFor,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum WaitsFor {
    /// Another task's event.
    Event {
        /// Who should wake it.
        waker: TaskId,
        /// Before which of the waker's events.
        before_event: u64,
    },
    /// Something at an object.
    Object {
        /// The object's number in the workload.
        object: u32,
        /// Who holds it, if it is a mutex.
        owner: Option<TaskId>,
    },
}

/// A wait that was ended by force.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Forced {
    /// Simulated time since the start.
    pub at: Span,
    /// Whose.
    pub task: TaskId,
    /// All who waited then, this task among them.
    pub waits: Vec<EndlessWait>,
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
    /// Waits at objects that slept where the recording had none.
    pub waits_gained: u64,
    /// Waits at objects that did not sleep where the recording had one.
    pub waits_skipped: u64,
    /// Sends to objects that were closed by then.
    pub sends_lost: u64,
    /// Recorded waits at objects that were ended since all that were left waited.
    pub waits_forced: u64,
    /// The first of them.
    pub first_forced: Option<Forced>,
    /// Host time in the event loop after the start.
    pub loop_wall_ns: u64,
    /// Of it, time inside the kernel: its share at one event in [`SAMPLE_EVERY`], scaled.
    pub kernel_wall_ns: u64,
    /// Simulated time that the kernel's boot took.
    pub boot: Span,
}

/// Every how many events the kernel's share of an event's time is measured (a prime, so as not to beat with
/// the workload).
pub const SAMPLE_EVERY: u64 = 61;

/// A measurement longer than this (some 50 us) was interrupted by the host and does not count.
const SAMPLE_TICKS_MAX: u64 = 150_000;

/// A kernel that is not up after this much simulated time will not come up.
const BOOT_MAX: Span = Span::from_s(1000);

/// A control request (creating the tasks of the start) may take this much simulated time.
const CONTROL_MAX: Span = Span::from_s(100);

const NO_TOKEN: u32 = u32::MAX;
/// The token of a task that sleeps at an object.
const AT_OBJECT: u32 = u32::MAX - 1;
/// The token of a task that was woken at an object, and tries again once it has a CPU.
const RETRIES: u32 = u32::MAX - 2;

#[derive(Clone, Copy)]
#[repr(align(32))]
struct Cpu {
    /// The task that computes in user mode, or idle.
    user: TaskId,
    /// While the CPU is paused: the task that computed before.
    before: TaskId,
    since_ns: u64,
    /// When its timer interrupts it next, as of when it was last resumed.
    timer: Key,
}

#[derive(Clone, Copy)]
#[repr(align(64))] // one cache line
struct Run {
    /// Index of its next step.
    step: usize,
    /// CPU time until then.
    remaining_ns: u64,
    /// CPU time that the kernel has cost it and that is still to come off its bursts.
    paid_ns: u64,
    /// The instant of its last sleep that had one.
    until_ns: u64,
    /// The token it sleeps for.
    token: u32,
    /// Where it last entered the kernel: where its device interrupts arrive.
    cpu: u32,
    /// Where it last computed in user mode.
    on: u32,
    live: bool,
    finished: bool,
    /// It has computed before (kept only if kernel code takes time).
    has_run: bool,
    /// It is within a system call that goes on ([`Stimulus::Call`]).
    within: bool,
    /// That call is over when it has computed so long, and [`Run::behind_ns`] begins.
    returns: bool,
    /// CPU time from that return to its next step.
    behind_ns: u64,
}

impl Run {
    /// Whether it sleeps for something that another task is to do.
    fn waits(&self) -> bool {
        self.token != NO_TOKEN && self.token != RETRIES
    }
}

/// What made the kernel work, as far as that costs the task that computes next.
#[derive(Clone, Copy)]
enum Charge {
    Tick,
    Interrupt,
    Ipi,
    /// An operation of the task itself, which has paid for it before.
    Own,
}

impl Charge {
    fn of(stimulus: &Stimulus<'_>) -> Charge {
        match stimulus {
            Stimulus::Timer([]) => Charge::Tick,
            Stimulus::Timer(_) | Stimulus::Device(_) => Charge::Interrupt,
            Stimulus::Continue => Charge::Ipi,
            Stimulus::Op(..) | Stimulus::Call(..) => Charge::Own,
        }
    }
}

/// Kernel code takes this much of the task's CPU time.
fn pay(run: &mut Run, ns: u64, added: bool) {
    run.remaining_ns = run.remaining_ns.saturating_add(ns);
    if !added {
        run.paid_ns += ns;
    }
}

/// A kernel, a workload, and the time between them. `O` says in which order CPUs go on that are ready at one instant.
pub struct Machine<K: Kernel, O: Order = FirstPosted> {
    kernel: K,
    order: O,
    steer: Steer,
    program: Arc<Program>,
    cpus: Vec<Cpu>,
    runs: Vec<Run>,
    /// Row i is token i.
    sent: Vec<Sent>,
    objects: Objects,
    queue: CpuQueue,
    wheel: Wheel,
    /// Tasks whose planned wakeup is due at this instant and still to be carried out (policies with ticks only).
    due: VecDeque<u32>,
    /// Tasks that start after the workload's start: when, who; the next one last.
    late: Vec<(u64, u32)>,
    now_ns: u64,
    live: u32,
    waiting: u32,
    events: u64,
    /// Events at one instant so far, in samples: the instant, how many.
    crowd: (u64, u64),
    spins: u64,
    tokens_early: u64,
    /// When a task last did something or was woken by a device.
    last_progress_ns: u64,
    /// The last instant that a task has asked the kernel's own timers for.
    asleep_until_ns: u64,
    /// CPU time that was left to all tasks when it was last asked whether some are lost.
    left_ns: u64,
    /// At which event the next sample is taken.
    sample_at: u64,
    /// An event under measurement: when it began, and how long the kernel took.
    sample: Option<(u64, u64)>,
    sampled_inside: u64,
    sampled_whole: u64,
    pulse: Option<&'static std::sync::atomic::AtomicU64>,
    setup: Setup,
    /// The experimenter's actions, the next one last.
    actions: Vec<Action>,
    /// Where tasks may run by the action under way, in its order.
    masks: Vec<(TaskId, CpuSet)>,
    /// The action under way: when it was asked for, and when it is too late for it to be done.
    acting: Option<(Span, u64)>,
    first_forced: Option<Forced>,
    readings: Vec<Reading>,
    /// CPUs differ in capacity: work takes longer on smaller ones.
    asymmetric: bool,
    /// Kernel code takes time.
    costly: bool,
    /// An idle CPU takes time to answer an interrupt from another one.
    idles_out: bool,
    /// Until when the system call lasts in which an interrupt has found each CPU's task; `u64::MAX`: there is none.
    call_ends_ns: Vec<u64>,
    /// Draws how long CPUs take to answer; the same draws in every run.
    exits: Random,
    /// Per CPU; of use only if that takes time.
    rest: Vec<Rest>,
    /// Who has woken last at an object, on which CPU.
    woke: (TaskId, CpuId),
    /// Sleeping or waking at an object takes time.
    pays_at_objects: bool,
    /// Of each task; empty if no answers are put off.
    put_off: Vec<PutOff>,
    pollers: Pollers,
}

/// What has come of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Nobody waits for it, and it has not been delivered.
    No,
    /// Its sleeper waits for it, or has done so.
    Awaited,
    /// It came before anybody waited.
    Early,
}

/// Whether a CPU is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It is not.
    Awake,
    /// It is, since then.
    Idle { since_ns: u64 },
    /// Another CPU has posted it an interrupt, which it is about to take.
    Leaving,
}

impl<K: Kernel> Machine<K> {
    /// Puts a workload on a machine; nothing happens yet.
    pub fn new(kernel: K, program: Program, setup: Setup) -> Machine<K> {
        Machine::with_order(kernel, program, setup, FirstPosted::default())
    }
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// As [`Machine::new`], with an order of ready CPUs that differs from the ordinary one.
    pub fn with_order(kernel: K, program: Program, setup: Setup, order: O) -> Machine<K, O> {
        let nr_cpus = setup.topology.nr_cpus() as usize;
        let runs = program
            .tasks
            .iter()
            .map(|task| Run {
                step: task.first_step,
                remaining_ns: 0,
                paid_ns: 0,
                until_ns: 0,
                token: NO_TOKEN,
                cpu: 0,
                on: 0,
                live: false,
                finished: task.idle_forever,
                has_run: false,
                within: false,
                returns: false,
                behind_ns: 0,
            })
            .collect();
        Machine {
            kernel,
            order,
            steer: Steer::new(if O::STEERS { nr_cpus } else { 0 }),
            cpus: vec![
                Cpu { user: TaskId::IDLE, before: TaskId::IDLE, since_ns: 0, timer: Key::NEVER };
                // (quiet.rs)
                nr_cpus.next_multiple_of(GROUP)
            ],
            runs,
            sent: vec![Sent::No; program.tokens.len()],
            objects: Objects::new(&program.objects, program.tasks.len()),
            queue: CpuQueue::new(nr_cpus),
            wheel: Wheel::new(program.tasks.len()),
            due: VecDeque::new(),
            late: Vec::new(),
            now_ns: 1_000_000, // power-on; the kernel's clock is never zero
            live: 0,
            waiting: 0,
            events: 0,
            crowd: (0, 0),
            spins: 0,
            tokens_early: 0,
            last_progress_ns: 0,
            asleep_until_ns: 0,
            left_ns: u64::MAX,
            sample_at: SAMPLE_EVERY,
            sample: None,
            sampled_inside: 0,
            sampled_whole: 0,
            pulse: None,
            costly: !program.costs.is_none(),
            idles_out: false,
            call_ends_ns: vec![u64::MAX; nr_cpus],
            exits: Random::new(0),
            rest: vec![Rest::Awake; nr_cpus],
            woke: (TaskId::IDLE, CpuId(0)),
            pays_at_objects: false,
            put_off: vec![PutOff::default(); if program.has_questions() { program.tasks.len() } else { 0 }],
            pollers: Pollers::new(&program),
            program: Arc::new(program),
            actions: Vec::new(),
            masks: Vec::new(),
            acting: None,
            first_forced: None,
            readings: Vec::new(),
            asymmetric: setup.topology.is_asymmetric(),
            setup,
        }
    }

    /// Has the experimenter do this while the workload runs. At one instant they come after everything else
    /// that happens then.
    pub fn set_actions(&mut self, mut actions: Vec<Action>) {
        // a stable sort: what was given first comes first
        actions.sort_by_key(|action| action.at);
        actions.reverse();
        self.actions = actions;
    }

    /// What the actions read, in order.
    pub fn readings(&self) -> &[Reading] {
        &self.readings
    }

    /// Work done in this time on a CPU: a CPU of half the capacity does half as much.
    #[inline]
    fn work(&self, cpu: u32, elapsed_ns: u64) -> u64 {
        if !self.asymmetric {
            return elapsed_ns;
        }
        let capacity = self.setup.topology.cpus()[cpu as usize].capacity;
        (u128::from(elapsed_ns) * u128::from(capacity) / u128::from(CAPACITY_SCALE)) as u64
    }

    /// Time that this much work takes on a CPU, rounded up: after it the work is done.
    #[inline]
    fn time_for(&self, cpu: u32, work_ns: u64) -> u64 {
        if !self.asymmetric {
            return work_ns;
        }
        let capacity = u128::from(self.setup.topology.cpus()[cpu as usize].capacity);
        let time = (u128::from(work_ns) * u128::from(CAPACITY_SCALE)).div_ceil(capacity);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Lets a supervisor see that the loop is alive: the counter grows while events happen.
    pub fn set_pulse(&mut self, pulse: &'static std::sync::atomic::AtomicU64) {
        self.pulse = Some(pulse);
    }

    /// The kernel, for read-outs after the run.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// The order of ready CPUs, for read-outs after the run.
    pub fn order(&self) -> &O {
        &self.order
    }

    /// As [`Self::order`], for orders that have something left to do.
    pub fn order_mut(&mut self) -> &mut O {
        &mut self.order
    }

    /// Boots the kernel, starts the workload, and runs it to its end.
    pub fn run(&mut self) -> Outcome {
        let mut epoch_ns = self.now_ns;
        let mut started = None;
        let end = self.boot().and_then(|()| {
            epoch_ns = self.now_ns;
            started = Some(std::time::Instant::now());
            self.start(epoch_ns)?;
            self.kernel.set_resched(self.program.costs.resched);
            let costs = &self.program.costs;
            self.idles_out = costs.at_idle_cpus();
            let takes_time = |object: &Object| object.costs != WaitCosts::default();
            self.pays_at_objects =
                self.costly || self.idles_out || self.program.objects.iter().any(takes_time);
            let rest = |cpu: &Cpu| match cpu.user.is_idle() {
                true => Rest::Idle { since_ns: epoch_ns },
                false => Rest::Awake,
            };
            self.rest = self.cpus.iter().map(rest).collect();
            (self.events, self.sample_at, self.sample) = (0, SAMPLE_EVERY, None);
            (self.sampled_inside, self.sampled_whole) = (0, 0);
            let end_ns = self
                .setup
                .duration
                .map_or(u64::MAX >> 2, |duration| epoch_ns.saturating_add(duration.as_ns()));
            let takes_time = self.costly || self.idles_out || self.pays_at_objects || self.asymmetric;
            let is_plain = self.program.late.is_none() && !self.program.has_calls && self.put_off.is_empty();
            match (is_plain && !takes_time && !O::STEERS, self.program.objects.is_empty()) {
                (true, true) => self.main_loop::<true, false>(epoch_ns, end_ns),
                (true, false) => self.main_loop::<true, true>(epoch_ns, end_ns),
                (false, _) => self.main_loop::<false, true>(epoch_ns, end_ns),
            }
        });
        let (loop_wall_ns, kernel_wall_ns) = match started {
            None => (0, 0),
            Some(started) => {
                let wall_ns = started.elapsed().as_nanos() as u64;
                let inside = self.sampled_inside as f64 / self.sampled_whole.max(1) as f64;
                (wall_ns, (wall_ns as f64 * inside.min(1.0)) as u64)
            }
        };
        let end = end.unwrap_or_else(|fault| End::Fault(*fault));
        Outcome {
            end,
            duration: Span::from_ns(self.now_ns - epoch_ns),
            finished: self.runs.iter().map(|run| run.finished).collect(),
            events: self.events,
            tokens_early: self.tokens_early,
            waits_gained: self.objects.counts.gained,
            waits_skipped: self.objects.counts.skipped,
            sends_lost: self.objects.counts.lost,
            waits_forced: self.objects.counts.forced,
            first_forced: self.first_forced.take(),
            loop_wall_ns,
            kernel_wall_ns,
            boot: Span::from_ns(epoch_ns - 1_000_000),
        }
    }

    /// `PLAIN`: nothing that the kernel does takes time, all CPUs are equally fast, none is steered, no timer is late,
    /// no task stays within a call, no answer is put off, and no action is under way: while one is, all goes by the
    /// loop for other runs. `OBJECTS`: there are some. The compiler leaves out what is for other runs.
    #[inline(never)]
    fn main_loop<const PLAIN: bool, const OBJECTS: bool>(
        &mut self,
        epoch_ns: u64,
        end_ns: u64,
    ) -> Result<End, Box<Fault>> {
        while self.live > 0 {
            if self.live == self.waiting && !self.force_a_wait(epoch_ns) {
                return Ok(End::Deadlock(self.waits()));
            }
            if self.acting.is_some() {
                self.act_on()?;
            }
            let late_ns = self.late.last().map_or(u64::MAX, |(at_ns, _)| *at_ns);
            let action_ns = self.next_action_ns(epoch_ns);
            let limit = Key::after(end_ns.min(late_ns).min(action_ns));
            // until one of the above is to be looked at again; none of them changes by itself, actions are
            // begun and ended here only
            let happened = match self.acting.is_some() {
                true => self.next_event(limit)?,
                false => loop {
                    let happened = self.next_event_here::<PLAIN, OBJECTS>(limit)?;
                    if !happened || self.live == self.waiting {
                        break happened;
                    }
                },
            };
            if happened {
                continue;
            }
            if O::STEERS && self.let_all_go()? {
                continue;
            }
            if late_ns <= end_ns.min(action_ns) {
                self.spawn_late(late_ns)?;
                continue;
            }
            if action_ns <= end_ns {
                self.act(action_ns)?;
                continue;
            }
            if self.queue.first().0.is_never() && self.wheel_ns() == u64::MAX {
                return Err(Box::new(self.lost()));
            }
            self.now_ns = end_ns;
            self.kernel.check_end(Time::from_ns(end_ns))?;
            return Ok(End::Duration);
        }
        // what the last event has set off at this instant
        self.order.may_hold(false);
        while let Some(turn) = self.next_turn() {
            self.go_on(turn.cpu)?;
        }
        Ok(End::AllDone)
    }

    /// When the experimenter acts next; never while an action is under way.
    fn next_action_ns(&self, epoch_ns: u64) -> u64 {
        match (self.actions.last(), self.acting) {
            (Some(next), None) => epoch_ns.saturating_add(next.at.as_ns()),
            _ => u64::MAX,
        }
    }

    /// Begins the next action. The run goes on meanwhile: the kernel may have to wait for something (a CPU
    /// that goes off waits for RCU, say).
    #[cold]
    fn act(&mut self, at_ns: u64) -> Result<(), Box<Fault>> {
        self.now_ns = self.now_ns.max(at_ns);
        let Some(Action { at, files }) = self.actions.pop() else { return Ok(()) };
        let mut files = files;
        files.retain(|file| match file {
            FileRequest::Cut { task } => {
                self.cut(*task);
                false
            }
            _ => true,
        });
        if files.is_empty() {
            return Ok(());
        }
        self.kernel.control(Time::from_ns(self.now_ns), Control::Files(&files))?;
        self.acting = Some((at, self.now_ns + CONTROL_MAX.as_ns()));
        for file in files {
            if let FileRequest::Change { tasks, change: Change { affinity: Some(cpus), .. }, .. } = file {
                self.masks.extend(tasks.into_iter().map(|task| (task, cpus.clone())));
            }
        }
        Ok(())
    }

    /// Says in the log where tasks may run by the experimenter's action: no task of the log did that.
    fn note_masks(&mut self) {
        let nr_words = CpuSet::first(self.setup.topology.nr_cpus()).words().len();
        for (task, cpus) in std::mem::take(&mut self.masks) {
            let words = cpus.words().iter().copied().chain(std::iter::repeat(0));
            for (number, value) in words.take(nr_words).enumerate() {
                let record = Record {
                    time_ns: 0,
                    kind: Kind::Note as u8,
                    flags: number as u8,
                    cpu: 0,
                    task: task.0,
                    other: TaskId::IDLE.0,
                    arg: note::ALLOWED,
                    value,
                };
                self.kernel.note(Time::from_ns(self.now_ns), record);
            }
        }
    }

    /// A task needs no more CPU time until its next step. One that computes takes that step at this instant.
    fn cut(&mut self, task: TaskId) {
        let run = &mut self.runs[task.index()];
        (run.remaining_ns, run.behind_ns) = (0, 0);
        let cpu = run.on as usize;
        if self.cpus[cpu].user == task {
            self.cpus[cpu].since_ns = self.now_ns;
            let key = self.cpus[cpu].timer.min(self.next_step_key(CpuId(cpu as u32), task));
            self.queue.set(cpu, key);
        }
    }

    /// Looks whether the action under way is done.
    #[cold]
    fn act_on(&mut self) -> Result<(), Box<Fault>> {
        let Some((at, limit_ns)) = self.acting else { return Ok(()) };
        if let Some(carried) = self.kernel.control_done() {
            self.acting = None;
            self.note_masks();
            let read = carried.readings.into_iter();
            self.readings.extend(read.map(|(name, result)| Reading { at, name, result }));
            return carried.result.map_err(Box::new);
        }
        if self.now_ns > limit_ns {
            let reason = format!("an action asked for at {at} was not done {CONTROL_MAX} later");
            return Err(Box::new(Fault { kind: FaultKind::LostTask, reason }));
        }
        Ok(())
    }

    /// Carries out the next event before `limit`; false if there is none.
    #[inline(never)]
    fn next_event(&mut self, limit: Key) -> Result<bool, Box<Fault>> {
        self.next_event_here::<false, true>(limit)
    }

    /// As [`Self::next_event`], as part of its caller: the main loop.
    #[inline(always)]
    fn next_event_here<const PLAIN: bool, const OBJECTS: bool>(
        &mut self,
        limit: Key,
    ) -> Result<bool, Box<Fault>> {
        let one;
        let (cpu, stimulus) = if let Some(turn) = self.next_turn() {
            match turn.spins {
                true => self.count_spin(turn.cpu)?,
                false => self.spins = 0,
            }
            if O::STEERS {
                return self.go_on(turn.cpu).map(|()| true);
            }
            if !PLAIN && self.idles_out && self.leaves_idle(turn) {
                return Ok(true);
            }
            (turn.cpu, Stimulus::Continue)
        } else {
            if O::STEERS && self.deliver_held()? {
                return Ok(true);
            }
            self.spins = 0;
            let (cpu_key, cpu) = self.queue.first();
            let wheel_ns = self.wheel_ns();
            let device_key = Key::new(wheel_ns, CLASS_DEVICE);
            let others = limit.min(device_key);
            if (cpu_key, cpu).is_op_before(others) {
                self.now_ns = self.at_step::<PLAIN>(cpu_key.time_ns());
                return self.own_steps::<PLAIN, OBJECTS>(CpuId(cpu as u32), others).map(|()| true);
            }
            let key = device_key.min(cpu_key);
            if key >= limit {
                return Ok(false);
            }
            let time_ns = key.time_ns();
            self.now_ns = self.now_ns.max(time_ns);
            let cpu = CpuId(cpu as u32);
            if O::STEERS && self.hold_timer(cpu, key.class()) {
                return Ok(true);
            }
            match key.class() {
                CLASS_TIMER => {
                    if wheel_ns == time_ns && self.kernel.wakes_sleepers_with_ticks() {
                        let sleepers = self.due_sleepers_of(cpu);
                        return self.step(cpu, Stimulus::Timer(&sleepers)).map(|()| true);
                    }
                    (cpu, Stimulus::Timer(&[]))
                }
                // no other event of a CPU's own has the class of devices
                _ if !PLAIN && key == cpu_key && self.rest[cpu.index()] == Rest::Leaving => {
                    (cpu, Stimulus::Continue)
                }
                _ => {
                    if self.kernel.wakes_sleepers_with_ticks() {
                        return self.wake_first_due().map(|()| true);
                    }
                    one = [TaskId(self.wheel.pop(time_ns).expect("the wheel has a task due now"))];
                    if O::STEERS && self.hold_device(one[0]) {
                        return Ok(true);
                    }
                    (self.device_cpu(one[0]), Stimulus::Device(&one))
                }
            }
        };
        // here the kernel is entered, and in `enter_now`: the rest of the loop is around the two
        self.step_here::<PLAIN>(cpu, stimulus).map(|()| true)
    }

    /// The time of a step that is due. Where nothing takes time no step is late.
    #[inline(always)]
    fn at_step<const PLAIN: bool>(&self, due_ns: u64) -> u64 {
        debug_assert!(!PLAIN || due_ns >= self.now_ns);
        if PLAIN { due_ns } else { self.now_ns.max(due_ns) }
    }

    /// The task on this CPU takes its next step; then those whose turn it is, on whatever CPU, up to one that enters
    /// the kernel, which is done, and up to `others`.
    #[inline(always)]
    fn own_steps<const PLAIN: bool, const OBJECTS: bool>(
        &mut self,
        cpu: CpuId,
        others: Key,
    ) -> Result<(), Box<Fault>> {
        let Some(mut cpu) = self.quiet_steps::<PLAIN, OBJECTS>(cpu, others)? else { return Ok(()) };
        loop {
            if !PLAIN && self.costly && self.call_is_over(cpu) {
                return self.step(cpu, Stimulus::Op(self.cpus[cpu.index()].user, Op::Return));
            }
            let Cpu { user: id, timer, since_ns, .. } = &mut self.cpus[cpu.index()];
            *since_ns = self.now_ns;
            let (id, timer) = (*id, *timer);
            if !PLAIN && self.pays_at_objects && self.returns(id) {
                return self.step(cpu, Stimulus::Op(id, Op::Return));
            }
            let (act, stays) = self.next_step::<PLAIN>(cpu, id);
            let run = &mut self.runs[id.index()];
            if !PLAIN && stays && run.returns {
                run.joins_call();
            }
            let Run { within, returns, .. } = run;
            let comes_back = *within && !stays;
            let stays = stays || !PLAIN && *returns;
            match act {
                Act::Enter(op) => {
                    *within = stays;
                    return self.enter_now::<PLAIN>(cpu, id, op, stays);
                }
                Act::Seldom(code) => {
                    *within = stays;
                    return self.operate_seldom(cpu, id, code, stays);
                }
                // it does not enter the kernel, and goes on computing; if it is there already, it may have to come back
                Act::GoesOn => {}
            }
            if comes_back {
                *within = false;
                return self.step(cpu, Stimulus::Op(id, Op::Return));
            }
            self.queue.set(cpu.index(), timer.min(self.next_step_key_here::<PLAIN>(cpu, id)));
            let (key, next) = self.queue.first();
            if O::STEERS || key >= others || !key.is_op() || self.acting.is_some() {
                return Ok(());
            }
            self.now_ns = self.now_ns.max(key.time_ns());
            cpu = CpuId(next as u32);
        }
    }

    /// Too many turns in a row of CPUs that spin are a livelock.
    #[inline(always)]
    fn count_spin(&mut self, cpu: CpuId) -> Result<(), Box<Fault>> {
        self.spins += 1;
        if self.spins > SPINS_MAX { Err(Box::new(spins_for_ever(cpu))) } else { Ok(()) }
    }

    /// The ready CPU that goes on now.
    #[inline(always)]
    fn next_turn(&mut self) -> Option<Turn> {
        self.order.next(&mut self.kernel, Time::from_ns(self.now_ns))
    }

    /// The CPU that takes a device's interrupt for this task: where the task last entered the kernel, if that
    /// CPU is on.
    #[inline]
    fn device_cpu(&self, task: TaskId) -> CpuId {
        self.taking_devices(CpuId(self.runs[task.index()].cpu))
    }

    /// This CPU; while it is off the next one that is on, as a kernel moves interrupts away from a CPU that goes off.
    #[inline]
    fn taking_devices(&self, cpu: CpuId) -> CpuId {
        if self.kernel.takes_devices(cpu) {
            return cpu;
        }
        let nr_cpus = self.setup.topology.nr_cpus();
        (cpu.0..nr_cpus).chain(0..cpu.0).map(CpuId).find(|cpu| self.kernel.takes_devices(*cpu)).unwrap_or(cpu)
    }

    /// When the next planned wakeup is due.
    #[inline]
    fn wheel_ns(&self) -> u64 {
        // (`due` is of use only where the machine keeps the sleepers' timers)
        if K::OWNS_TASK_TIMERS || self.due.is_empty() { self.wheel.next_ns() } else { self.now_ns }
    }

    /// Whose timer is it? The kernel's own timers do not come here.
    #[inline]
    fn is_sleeper(&self, task: u32) -> bool {
        // (a wait at an object that is ended by force may be the first step)
        let Some(before) = self.runs[task as usize].step.checked_sub(1) else { return false };
        self.kernel.wakes_sleepers_with_ticks()
            && !matches!(self.program.steps[before].code(), Code::BlockDevice(_) | Code::Object(_))
    }

    /// Takes out the tasks whose own timers are due now on this CPU.
    fn due_sleepers_of(&mut self, cpu: CpuId) -> Vec<TaskId> {
        self.collect_due();
        let (sleepers, others) = self
            .due
            .iter()
            .partition(|&&task| self.is_sleeper(task) && self.runs[task as usize].cpu == cpu.0);
        self.due = others;
        let sleepers: VecDeque<u32> = sleepers;
        sleepers.into_iter().map(TaskId).collect()
    }

    /// All that is due now leaves the wheel.
    #[inline]
    fn collect_due(&mut self) {
        if self.due.is_empty() {
            while let Some(task) = self.wheel.pop(self.now_ns) {
                self.due.push_back(task);
            }
        }
    }

    /// Under a policy with ticks, the wakeup planned first of those that are due: by a device, or by a timer
    /// together with all others of that CPU.
    fn wake_first_due(&mut self) -> Result<(), Box<Fault>> {
        self.collect_due();
        let task = *self.due.front().expect("the wheel has a task due now");
        let cpu = CpuId(self.runs[task as usize].cpu);
        if self.due.len() == 1 || !self.is_sleeper(task) {
            self.due.pop_front();
            let task = TaskId(task);
            return match self.is_sleeper(task.0) {
                true => self.step(cpu, Stimulus::Timer(&[task])),
                false => self.step(cpu, Stimulus::Device(&[task])),
            };
        }
        let sleepers = self.due_sleepers_of(cpu);
        self.step(cpu, Stimulus::Timer(&sleepers))
    }
}
