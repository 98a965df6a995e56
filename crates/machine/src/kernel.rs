//! What can the hardware and its current task say to an operating system, and what does the machine read back?
//!
//! [`Kernel`] is that contract. Real Linux implements it through the port; native policies through
//! [`Native`](crate::native::Native), which plays the kernel around a [`Policy`](crate::policy::Policy).
//!
//! One call carries almost everything: [`Kernel::resume`] lets one CPU execute until it has nothing to do at
//! this instant.
//!
//! ```text
//! machine                                   kernel
//!   resume(cpu0, 4 ms, Op(t0, Block)) ──────> t0 blocks, t1 is picked
//!   <── User(t1)                              "t1 computes on cpu0 now"
//!   timer(cpu0) ──> 8 ms                      "my next timer interrupt"
//!   next_kick() ──> cpu1                      "cpu1 has an interrupt pending from another CPU"
//! ```

use schedlab_log::{KernelThread, Record};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, SchedPolicy, Span, TaskId, Time};
use schedlab_workload::Cgroup;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an operating system does on one machine. Everything happens at the instant `now` of the call: kernel
/// code takes no simulated time.
///
/// Call order: [`boot`](Kernel::boot) once; then any number of [`resume`](Kernel::resume);
/// [`control`](Kernel::control) only when no CPU is spinning. After a fault only [`fault`](Kernel::fault),
/// [`read_out`](Kernel::read_out) and [`flush_log`](Kernel::flush_log) are called.
pub trait Kernel {
    /// Whether the kernel arms its own timers for [`Op::BlockUntil`]. If not, the machine keeps all wakeup
    /// times itself, sends [`Op::Block`] only, and delivers [`Stimulus::Timer`] or [`Stimulus::Device`] when
    /// the time has come.
    const OWNS_TASK_TIMERS: bool;

    /// Whether the tick and the sleepers whose time has come are one interrupt, [`Stimulus::Timer`], after
    /// which it is chosen once who runs; if not, each sleeper is woken by an interrupt of its own, after the
    /// timer's. Of no meaning with [`Kernel::OWNS_TASK_TIMERS`].
    fn wakes_sleepers_with_ticks(&self) -> bool {
        false
    }

    /// Prepares to run on this machine. Afterwards the machine resumes CPU 0 (and whomever that kicks) until
    /// [`is_up`](Kernel::is_up).
    fn boot(&mut self, boot: &Boot<'_>) -> Result<(), Fault>;

    /// Whether every CPU is online and control requests are accepted.
    fn is_up(&self) -> bool;

    /// Lets `cpu` execute at `now` until it is idle, computes in user mode, or spins. Pending interrupts are
    /// delivered first, then `stimulus`.
    fn resume(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>) -> Yield;

    /// Time passes from now on between an interrupt that asks for another task and the choice of it
    /// ([`Yield::Paused`]). [`WITHIN_CALL`]: the choice is made at the task's next operation, unless the kernel is
    /// preempted within system calls. Kernels that do not know the difference choose at once.
    fn set_resched(&mut self, _span: Span) {}

    /// The same between an interrupt to this idle CPU and the choice, at its next [`Kernel::resume`].
    fn set_idle_resched(&mut self, _cpu: CpuId, _span: Span) {}

    /// CPUs stop from now on at points of these kinds ([`Yield::Point`]). Kernels that were not built for
    /// that, and kinds that they do not have, never stop.
    fn set_points(&mut self, _kinds: PointSet) {}

    /// Where a CPU stands since its last [`Yield::Spin`] or [`Yield::Point`]. A kernel whose CPUs do neither
    /// need not say.
    fn point(&self, _cpu: CpuId) -> Point {
        Point::RELAX
    }

    /// Whether interrupts of devices arrive at this CPU: not while it is off.
    #[inline]
    fn takes_devices(&self, _cpu: CpuId) -> bool {
        true
    }

    /// When the CPU's timer will interrupt it; [`Time::NEVER`] = off; while it is [`Yield::Paused`], the end
    /// of that. Changes only while that CPU is resumed.
    fn timer(&self, cpu: CpuId) -> Time;

    /// The next CPU for which an interrupt was posted by another CPU (or by a control request) and that must
    /// be resumed at this instant; first posted, first returned, each CPU at most once until it is resumed.
    fn next_kick(&mut self) -> Option<CpuId>;

    /// Hands in a request of the experimenter (not of a task). It is carried out while the machine goes on
    /// resuming kicked CPUs at this instant; [`control_done`](Kernel::control_done) says when.
    fn control(&mut self, now: Time, request: Control<'_>) -> Result<(), Fault>;

    /// Whether the last request is done; what came of it, if so. Handed over once.
    fn control_done(&mut self) -> Option<Carried>;

    /// Turns the schedule log on: every record from here on has its time counted from `epoch`.
    fn start_log(&mut self, epoch: Time);

    /// Appends a note of the machine's own (`schedlab_log::note`) to the log, after all that was logged so
    /// far; only the time is left to be put in, as for every record. Nothing happens while the log is off.
    fn note(&mut self, now: Time, note: Record);

    /// As [`Kernel::note`], for notes that are made where they are to lie.
    #[inline(always)]
    fn note_by(&mut self, now: Time, note: impl Fn() -> Record)
    where
        Self: Sized,
    {
        self.note(now, note());
    }

    /// What the kernel says of the run so far: asked when the run is over. May be asked again.
    fn read_out(&mut self) -> ReadOut;

    /// The run ends here, not because every task is done: has the scheduler forgotten a runnable task? The
    /// port leaves that to the kernel's own watchdogs.
    fn check_end(&mut self, _now: Time) -> Result<(), Fault> {
        Ok(())
    }

    /// After [`Yield::Fault`]: what happened.
    fn fault(&mut self) -> Fault;

    /// Hands on every record logged so far.
    fn flush_log(&mut self) -> std::io::Result<()>;
}

/// For [`Kernel::set_resched`]: interrupts find the task in the system call that its next operation ends.
pub const WITHIN_CALL: Span = Span::MAX;

/// What came of a [`Kernel::control`] request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Whether it was carried out.
    pub result: Result<(), Fault>,
    /// What a [`Control::Files`] read, or noted as refused: name and result, in order. Also if the request failed.
    pub readings: Vec<(String, Result<String, i32>)>,
}

/// What a kernel says of a run when it is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadOut {
    /// Threads of the kernel itself that may occur in the log, by pid.
    pub kernel_threads: Vec<KernelThread>,
    /// What the kernel itself counted for each task of the workload, by id: a second opinion on the log. Empty if
    /// the kernel did not boot.
    pub tasks: Vec<TaskCounters>,
    /// Warnings since boot: each the kernel's own text.
    pub warnings: Vec<String>,
    /// Requests of the workload's tasks that the kernel refused: what and why -> how often.
    pub refused: BTreeMap<String, u64>,
    /// What a scheduler that is loaded into the kernel says about itself: group (settings, statistics, ...), name,
    /// value.
    pub loaded_scheduler: Vec<(String, String, String)>,
    /// Line coverage since [`start_log`](Kernel::start_log) of a kernel that was built for it: per compiled file its
    /// name and gcov's data.
    pub coverage: Vec<(String, Vec<u8>)>,
}

/// The tunable that spreads the CPUs' ticks over half a tick (`--ticks staggered`): "1" = spread. Real Linux
/// takes it from its command line (`tick_setup_sched_timer()`), [`Native`](crate::native::Native) does the
/// same.
pub const SKEW_TICK: &str = "boot.skew_tick";

/// What a kernel learns before its first instruction.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// The CPUs.
    pub topology: &'a Topology,
    /// How many workload tasks will exist at most; their ids are `0..nr_tasks`.
    pub nr_tasks: u32,
    /// How many of them are there at the start, born of no other.
    pub nr_initial: u32,
    /// How many control groups will be asked for ([`Control::Cgroups`]).
    pub nr_groups: u32,
    /// The clock at power-on.
    pub now: Time,
    /// What the kernel's random numbers depend on besides that clock; 0 in a run that nothing perturbs. (Real
    /// machines boot at different times, too.)
    pub entropy: u64,
    /// Tunables (`--param`), in order of name.
    pub params: &'a [(String, String)],
}

/// Why a CPU is resumed, apart from pending interrupts.
#[derive(Clone, Copy, Debug)]
pub enum Stimulus<'a> {
    /// Nothing more: pending interrupts only, or going on after [`Yield::Spin`].
    Continue,
    /// Its timer interrupt is due, also for these sleepers, whose time has come (none if the kernel keeps
    /// their timers itself, [`Kernel::OWNS_TASK_TIMERS`]). All of that is one interrupt: whoever is to run
    /// next is chosen after it, once.
    Timer(&'a [TaskId]),
    /// A device interrupt whose handler wakes these tasks, in this order.
    Device(&'a [TaskId]),
    /// The task in user mode on this CPU (`task`, the one of the last [`Yield::User`]) enters the kernel to do this.
    Op(TaskId, Op<'a>),
    /// As `Op`, and the task stays within the system call until its next `Op`. A CPU that is asked to choose another
    /// task does so only then, unless the kernel is preempted within system calls.
    Call(TaskId, Op<'a>),
}

/// An operation of the current task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op<'a> {
    /// Sleep until woken.
    Block,
    /// Sleep until this instant, by a timer of the kernel's own (`nanosleep`). Only if [`Kernel::OWNS_TASK_TIMERS`].
    BlockUntil(Time),
    /// Wake this task, which is blocked.
    Wake(TaskId),
    /// As `Wake`, by one who says that it will sleep soon (`WF_SYNC`): pipes and sockets.
    WakeSync(TaskId),
    /// Create this task; it inherits what `fork` lets it inherit and is runnable at once.
    Fork(&'a Spawn<'a>),
    /// `sched_yield`.
    Yield,
    /// `execve`: a new program, for which the scheduler may choose another CPU (`sched_exec()`).
    Exec,
    /// Set parameters of a task (itself or another).
    Set(TaskId, &'a Change),
    /// End.
    Exit,
    /// Nothing more: the system call that [`Stimulus::Call`] began is over.
    Return,
}

/// A task to be created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spawn<'a> {
    /// Its id.
    pub id: TaskId,
    /// Its name.
    pub name: &'a str,
    /// Whether it was a thread of the recorded kernel.
    pub kernel_thread: bool,
    /// Settings that differ from what it inherits.
    pub change: Option<&'a Change>,
    /// Runnable at once, or blocked until woken. Forked tasks are always runnable at once.
    pub state: SpawnState,
    /// The CPU that it begins on, unless it is a deadline task (which cannot be bound to one); `None`:
    /// wherever the scheduler puts it.
    pub cpu: Option<CpuId>,
}

impl<'a> Spawn<'a> {
    /// Whether it is to be a deadline task.
    pub fn is_deadline(&self) -> bool {
        let params = self.change.and_then(|change| change.params);
        params.is_some_and(|params| params.policy == SchedPolicy::Deadline)
    }

    /// The CPUs that it may use, if it has a set of its own.
    pub fn affinity(&self) -> Option<&'a CpuSet> {
        self.change.and_then(|change| change.affinity.as_ref())
    }
}

/// State of a task created by [`Control::Spawn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnState {
    /// Wants a CPU at once.
    Runnable,
    /// Has blocked without having used CPU time.
    Blocked,
}

/// New settings for a task; `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Policy, nice, priorities, all at once as `sched_setattr(2)` sets them.
    pub params: Option<SchedParams>,
    /// The nice value alone, as `setpriority(2)` sets it; after `params`.
    pub nice: Option<Nice>,
    /// Allowed CPUs.
    pub affinity: Option<CpuSet>,
    /// Index of the control group to move to, in the order in which they were created.
    pub cgroup: Option<u32>,
}

/// A request of the experimenter.
#[derive(Clone, Copy, Debug)]
pub enum Control<'a> {
    /// Create these tasks, in this order, as children of the kernel's first process.
    Spawn(&'a [Spawn<'a>]),
    /// Create these control groups, parents first; they are numbered from 0 in this order.
    Cgroups(&'a [Cgroup]),
    /// Read and write the kernel's own files, in this order. [`Carried::readings`] has what was read.
    Files(&'a [FileRequest]),
}

/// Something that the experimenter does to the kernel while the workload runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// When, from the workload's start.
    pub at: Span,
    /// What, in this order, at one instant unless the kernel itself waits for something.
    pub files: Vec<FileRequest>,
}

/// An access to one of the kernel's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Set a tunable by the name that `--param` has for it, or a file by its path.
    Write {
        /// Tunable or path.
        name: String,
        /// Its value.
        value: String,
        /// What a refusal means.
        refusal: Refusal,
    },
    /// Bring a CPU up or take it down.
    Hotplug {
        /// Which.
        cpu: CpuId,
        /// What it is to be.
        to: Hotplug,
        /// What a refusal means.
        refusal: Refusal,
    },
    /// Remove a folder: a control group that nobody is in.
    Remove {
        /// Its path.
        path: String,
        /// What a refusal means.
        refusal: Refusal,
    },
    /// Read a file.
    Read {
        /// Tunable or path.
        name: String,
    },
    /// No file: explain the next decision about this task at or after the action's time. The schedule is not
    /// touched by it.
    Explain {
        /// The task.
        task: TaskId,
    },
    /// List a folder; the reading has a name per line.
    List {
        /// Its path.
        path: String,
    },
    /// No file: sets these tasks from outside, all at one instant. No task of the workload does it, so that nothing
    /// wakes or falls asleep for it, save the kernel's first process on the CPU `by`, which had better have work: a
    /// CPU that falls idle balances.
    Change {
        /// Whose settings change, in this order.
        tasks: Vec<TaskId>,
        /// The settings.
        change: Change,
        /// Where the kernel's first process does it, there and nowhere else. (A native scheduler has none: it just
        /// happens.)
        by: CpuId,
    },
    /// Nothing that the kernel hears of: this task's present need for CPU time is over, and what its program says
    /// next comes as soon as it runs. (As a signal does, this takes effect when the task is on a CPU.)
    Cut {
        /// The task.
        task: TaskId,
    },
}

impl FileRequest {
    /// Sets what `name` stands for: a CPU (`cpu3`, with `on` or `off`), a tunable, or a file by its path; `rmdir`
    /// removes the folder `value`.
    ///
    /// # Errors
    /// A CPU's value that is neither: what was given, what is possible.
    pub fn set(name: &str, value: &str, refusal: Refusal) -> Result<FileRequest, String> {
        if name == "rmdir" {
            return Ok(FileRequest::Remove { path: value.to_owned(), refusal });
        }
        let Some(cpu) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) else {
            return Ok(FileRequest::Write { name: name.to_owned(), value: value.to_owned(), refusal });
        };
        let to = match value {
            "on" | "1" => Hotplug::On,
            "off" | "0" => Hotplug::Off,
            _ => return Err(format!("'{value}' is no state of a CPU: {name}=on or {name}=off")),
        };
        Ok(FileRequest::Hotplug { cpu: CpuId(cpu), to, refusal })
    }
}

/// What [`FileRequest::Hotplug`] makes of a CPU. `Display`: `on`, `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hotplug {
    /// Online.
    On,
    /// Offline: nothing runs on it.
    Off,
}

impl std::fmt::Display for Hotplug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Hotplug::On => "on",
            Hotplug::Off => "off",
        })
    }
}

/// What it means that the kernel refuses a [`FileRequest::Write`] or a [`FileRequest::Hotplug`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The run ends.
    Ends,
    /// It is noted among the readings, and the run goes on.
    Noted,
}

/// What came of a [`FileRequest::Read`] or [`FileRequest::List`], or of a write or hotplug whose refusal is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When it was asked for, from the workload's start.
    pub at: Span,
    /// Tunable or path.
    pub name: String,
    /// The text, empty for a write; or the error number (22 = EINVAL).
    pub result: Result<String, i32>,
}

/// What a resumed CPU does when it has nothing more to do at this instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// Idle: waits for an interrupt.
    Idle,
    /// This workload task computes in user mode.
    User(TaskId),
    /// Waits in the kernel for another CPU (a spin lock, a cross-call): resume it again at this instant,
    /// after the others.
    Spin,
    /// Works in the kernel, with interrupts off, until [`Kernel::timer`]: resume it then, as if for a timer's
    /// interrupt.
    Paused,
    /// Has stopped inside the kernel at a point that was asked for ([`Kernel::set_points`]): it waits for
    /// nothing, and goes on when it is resumed.
    Point,
    /// The kernel object asked to end the run.
    Fault,
}

/// What a CPU is about to do, or has just done, where it stopped inside the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PointKind {
    /// Waits for another CPU (`cpu_relax()`): [`Yield::Spin`]. CPUs always stop there.
    Relax = 0,
    /// Before an atomic operation that reads and writes: `atomic_add()`, `xchg()`, `cmpxchg()`.
    Atomic = 1,
    /// Before an attempt to take a spin lock.
    Lock = 2,
    /// After a spin lock was released.
    Unlock = 3,
    /// After interrupts were enabled, and those that waited were taken.
    InterruptsOn = 4,
    /// Before an ordinary read.
    Read = 5,
    /// Before an ordinary write.
    Write = 6,
    /// Before a read that the source marks as shared (`READ_ONCE()`).
    MarkedRead = 7,
    /// Before a write that the source marks as shared (`WRITE_ONCE()`).
    MarkedWrite = 8,
    /// Before a barrier, while this CPU has stores that others do not see yet.
    Barrier = 9,
}

impl PointKind {
    /// All kinds, in order of number.
    pub const ALL: [PointKind; 10] = {
        use PointKind::*;
        [Relax, Atomic, Lock, Unlock, InterruptsOn, Read, Write, MarkedRead, MarkedWrite, Barrier]
    };

    /// The kind of this number.
    pub fn from_number(number: u8) -> Option<PointKind> {
        PointKind::ALL.get(usize::from(number)).copied()
    }
}

/// Kinds of points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointSet(u32);

impl PointSet {
    /// No kind: CPUs stop only where they spin.
    pub const NONE: PointSet = PointSet(0);
    /// Every kind there is.
    pub const ALL: PointSet = PointSet((1 << PointKind::ALL.len()) - 1);

    /// These kinds.
    pub fn of(kinds: &[PointKind]) -> PointSet {
        PointSet(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u32))
    }

    /// Whether a kind is among them.
    pub fn contains(self, kind: PointKind) -> bool {
        self.0 >> kind as u32 & 1 == 1
    }

    /// Bit n stands for the kind of number n.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// Where a CPU has stopped inside the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// What it is about to do, or has just done.
    pub kind: PointKind,
    /// The memory concerned, an address in this process; 0: none. It differs from process to process.
    pub address: u64,
    /// The code, as an offset into the kernel object's text; 0: not said.
    pub code: u64,
    /// Whether interrupts are on: one that arrives now is taken here.
    pub interrupts_on: bool,
}

impl Point {
    /// Spins, nothing more is known.
    pub const RELAX: Point = Point { kind: PointKind::Relax, address: 0, code: 0, interrupts_on: false };
}

/// Accounting inside the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounters {
    /// CPU time (kernel: `se.sum_exec_runtime`).
    pub cpu: Span,
    /// Voluntary switches (kernel: `nvcsw`).
    pub voluntary: u64,
    /// Involuntary switches (kernel: `nivcsw`).
    pub involuntary: u64,
    /// Migrations (kernel: `se.nr_migrations`).
    pub migrations: u64,
}

/// The scheduler under test misbehaved, or refused to work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {reason}")]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// What it said.
    pub reason: String,
}

/// Kinds of misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The kernel hit BUG or panicked.
    Panic,
    /// CPUs spin for ever at one instant.
    Livelock,
    /// A picked task was not runnable, or a runnable one was lost.
    LostTask,
    /// A policy broke its contract.
    Contract,
    /// A request was refused (e.g. a parameter does not exist).
    Refused,
    /// A loadable scheduler was thrown out by the kernel, or left.
    Scheduler,
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FaultKind::Panic => "kernel panic",
            FaultKind::Livelock => "livelock",
            FaultKind::LostTask => "lost task",
            FaultKind::Contract => "broken contract",
            FaultKind::Refused => "refused",
            FaultKind::Scheduler => "scheduler exit",
        })
    }
}
