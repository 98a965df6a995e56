//! One line of the schedule log: 32 bytes, written by the kernel object or a native policy's adaptor.
//!
//! Order: records stand in the order in which things happened in simulated time; at one instant, in the order
//! in which the machine carried them out. The layout is shared with the kernel object
//! (`linux/arch-warp/include/warp_abi.h`).

use schedlab_units::{CpuId, SchedPolicy, TaskId, Time};

/// What a [`Record`] says. The comment gives the meaning of `task`, `other`, `arg`, `value` and `flags`;
/// `cpu` is the CPU on which it happened unless stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `task` (previous) stops running, `other` (next) starts; `flags` is the [`PrevState`] of `task`.
    Switch = 1,
    /// Someone asks for `task` to be woken; `other` is the waker (idle: nobody); flags bit 0: from interrupt context.
    Waking = 2,
    /// `task` is runnable from now on, on CPU `arg`.
    Wakeup = 3,
    /// `task` is runnable for the first time, on CPU `arg`.
    New = 4,
    /// `task` is assigned to another CPU: from `arg` to `other` (a CPU number). Emitted when a runnable or
    /// waking task changes CPU.
    Migrate = 5,
    /// `task` (parent) created `other` (child).
    Fork = 6,
    /// `task` exits.
    Exit = 7,
    /// Scheduling parameters of `task` are set: `value` = policy | (nice & 0xff) << 8 | rt_priority << 16;
    /// flags bit 0: affinity changed.
    Params = 8,
    /// A decision note of a scheduler, `arg` names it (native policies: their own numbering); instruments
    /// ignore unknown ones. Those of the machine are in [`note`].
    Note = 9,
}

/// Numbers in `arg` of a [`Kind::Note`] by the machine: what a task does that changes nothing in the
/// schedule, so that no other record tells it. With them a log tells the whole workload that ran.
pub mod note {
    /// `cpu` comes up (`value` 1) or goes down (0).
    pub const CPU: u32 = 0x8000_0001;
    /// `task` wakes `other`, which does not sleep (yet); `value` is the number of the wakeup.
    pub const EARLY: u32 = 0x8000_0010;
    /// `task` would sleep, but need not: wakeup `value` has come already, from `other`; [`NO_WAKEUP`]: its
    /// own time has come.
    pub const AWAKE: u32 = 0x8000_0011;
    /// `task` yields, and runs on.
    pub const YIELD: u32 = 0x8000_0012;
    /// `task` sets parameters of `other` (itself or another): 8 bytes of the words of a PRIO in a workload's
    /// text, in order, `flags` the piece's number modulo 256. The last piece has a zero byte, behind which
    /// all are zero.
    pub const SET: u32 = 0x8000_0013;
    /// `task` executes a new program; the kernel may now move it to an idler CPU (`sched_exec()`).
    pub const EXEC: u32 = 0x8000_0014;
    /// `task` is runnable but must not run for now, or is no longer held back: `value` is one of
    /// [`HELD_NOT`], [`HELD_GROUP`], [`HELD_REAL_TIME`], [`HELD_DEADLINE`]. A task that is held back stands
    /// on a queue but does not wait for a CPU.
    pub const HELD: u32 = 0x8000_0015;
    /// `task` may use these CPUs from now on: bit b of `value` is CPU 64 x `flags` + b. One note for each 64
    /// CPUs of the machine, one after the other. Written where the last [`Params`](super::Kind::Params) or
    /// the header do not say so: a cpuset, a CPU that went down.
    pub const ALLOWED: u32 = 0x8000_0016;
    /// `task` is given the CPU with the dynamic priority `value`, which the scheduler has worked out for it: lower is
    /// served first, on a scale of the scheduler's own. Written where it is another than the last.
    pub const PRIORITY: u32 = 0x8000_0017;
    /// `value` of a [`HELD`]: it may run.
    pub const HELD_NOT: u64 = 0;
    /// `value` of a [`HELD`]: its group has used up its `cpu.max` for this period.
    pub const HELD_GROUP: u64 = 1;
    /// `value` of a [`HELD`]: real-time tasks have used up what they may use of this period (`rt_runtime_us`).
    pub const HELD_REAL_TIME: u64 = 2;
    /// `value` of a [`HELD`]: it has used up its SCHED_DEADLINE budget for this period.
    pub const HELD_DEADLINE: u64 = 3;
    /// From here on nobody saw what `cpu` did, until the next switch on it: neither whether it idled nor who
    /// ran there. That switch's previous task is whatever it was. The task that was running there, and those
    /// that wait on its queue, are unknown from here on, too. Only in logs whose header hides
    /// [`Fact::Spans`](crate::Fact::Spans). `task` has no meaning.
    pub const UNKNOWN_CPU: u32 = 0x8000_0020;
    /// From here on nobody saw whether `task` ran, waited or was blocked, until the next record that says so:
    /// its wakeup, or a switch from or to it. If it is running, its CPU is unknown too. Only in logs whose
    /// header hides [`Fact::Spans`](crate::Fact::Spans).
    pub const UNKNOWN_TASK: u32 = 0x8000_0021;
    /// A poller's thread `task` did not see some time from here on: see [`Missed`](crate::Missed).
    pub const MISSED: u32 = 0x8000_0030;
    /// A poller's thread `task` is about to sleep, and asks to be woken at `value` ns of the log; `flags`: by
    /// which timer.
    pub const DUE: u32 = 0x8000_0031;
    /// A poller's thread `task` has done a job, which was due at `value` ns of the log.
    pub const JOB: u32 = 0x8000_0032;
    /// `value` of an [`AWAKE`] that no task is behind.
    pub const NO_WAKEUP: u64 = u64::MAX;
}

/// Why the previous task of a [`Kind::Switch`] stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PrevState {
    /// Still runnable: preempted, or its slice was over.
    Preempted = 0,
    /// Still runnable: it yielded.
    Yielded = 1,
    /// Blocked, interruptible (S).
    Sleeping = 2,
    /// Blocked, uninterruptible (D).
    Disk = 3,
    /// Exited.
    Dead = 4,
    /// Nobody saw why it stopped: it may wait or be blocked. Only in logs whose header hides
    /// [`Fact::Stops`](crate::Fact::Stops).
    Unknown = 5,
}

impl PrevState {
    /// Whether the task is still runnable, as far as is known.
    pub fn is_runnable(self) -> bool {
        matches!(self, PrevState::Preempted | PrevState::Yielded)
    }
    /// From the stored number.
    pub fn from_number(number: u8) -> Option<PrevState> {
        use PrevState::*;
        [Preempted, Yielded, Sleeping, Disk, Dead, Unknown].into_iter().find(|state| *state as u8 == number)
    }
}

impl PrevState {
    const NAMES: [&'static str; 6] = ["preempted", "yielded", "sleeping", "disk", "dead", "unknown"];
    /// The name in the text form and in Arrow.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// From [`PrevState::name`].
    pub fn from_name(name: &str) -> Option<PrevState> {
        let number = Self::NAMES.iter().position(|n| *n == name)?;
        PrevState::from_number(number as u8)
    }
}

impl Kind {
    const NAMES: [&'static str; 9] =
        ["switch", "waking", "wakeup", "new", "migrate", "fork", "exit", "params", "note"];
    /// The name in the text form and in Arrow.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize - 1]
    }
    /// From [`Kind::name`].
    pub fn from_name(name: &str) -> Option<Kind> {
        let position = Self::NAMES.iter().position(|n| *n == name)?;
        Some(Kind::ALL[position])
    }
    /// All kinds, in numeric order.
    pub const ALL: [Kind; 9] = [
        Kind::Switch,
        Kind::Waking,
        Kind::Wakeup,
        Kind::New,
        Kind::Migrate,
        Kind::Fork,
        Kind::Exit,
        Kind::Params,
        Kind::Note,
    ];
    /// From the stored number.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }
}

/// One event of the schedule log. See [`Kind`] for the meaning of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Simulated time in ns.
    pub time_ns: u64,
    /// A [`Kind`] as number.
    pub kind: u8,
    /// By kind.
    pub flags: u8,
    /// The CPU on which it happened.
    pub cpu: u16,
    /// A [`TaskId`] as number.
    pub task: u32,
    /// By kind; mostly a [`TaskId`] as number.
    pub other: u32,
    /// By kind.
    pub arg: u32,
    /// By kind.
    pub value: u64,
}

const _: () = assert!(size_of::<Record>() == 32);

impl Record {
    /// When.
    pub fn time(&self) -> Time {
        Time::from_ns(self.time_ns)
    }
    /// Where.
    pub fn cpu(&self) -> CpuId {
        CpuId(u32::from(self.cpu))
    }
    /// Who.
    pub fn task(&self) -> TaskId {
        TaskId(self.task)
    }
    /// The second task, where the kind has one.
    pub fn other(&self) -> TaskId {
        TaskId(self.other)
    }
    /// What; `None` for a number this version does not know.
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.kind)
    }

    /// Why the previous task stopped; `None` unless this is a [`Kind::Switch`] with a known state.
    pub fn prev_state(&self) -> Option<PrevState> {
        if self.kind == Kind::Switch as u8 { PrevState::from_number(self.flags) } else { None }
    }
    /// Policy, nice and real-time priority that a [`Kind::Params`] sets; `None` for other kinds and for a
    /// value that holds anything else.
    pub fn params(&self) -> Option<(SchedPolicy, i8, u8)> {
        if self.kind == Kind::Params as u8 { crate::text::decode_params(self.value) } else { None }
    }
    /// With the fields that have no meaning for its kind cleared (0; a task: idle), as the text form keeps
    /// it: writers may leave anything there (the kernel object leaves the tracepoint's raw state in the `arg`
    /// of a switch).
    pub fn canonical(mut self) -> Record {
        let (keep_flags, keep_other, keep_arg, keep_value) = match self.kind() {
            Some(Kind::Switch) => (0xff, true, false, false),
            Some(Kind::Waking) => (1, true, false, false),
            Some(Kind::Wakeup | Kind::New) => (0, false, true, false),
            Some(Kind::Migrate) => (0, true, true, false),
            Some(Kind::Fork) => (0, true, false, false),
            Some(Kind::Exit) => (0, false, false, false),
            Some(Kind::Params) => (1, false, false, true),
            Some(Kind::Note) | None => (0xff, true, true, true),
        };
        self.flags &= keep_flags;
        if !keep_other {
            self.other = TaskId::IDLE.0;
        }
        if !keep_arg {
            self.arg = 0;
        }
        if !keep_value {
            self.value = 0;
        }
        self
    }
}
