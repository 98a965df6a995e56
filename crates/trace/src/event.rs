//! What can a trace say about scheduling? One small value per event, without text: names are numbers of a table.

use crate::marker::Marker;
use crate::state::TaskState;
use schedlab_units::CpuId;

/// The traced kernel's number of a thread (its "tid"); 0 is every CPU's idle task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

impl Pid {
    /// The idle task of whichever CPU.
    pub const IDLE: Pid = Pid(0);
}

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A task name (comm), as a number of the stream's table: see [`EventStream::comm`](crate::EventStream::comm).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

/// One event of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, in ns of the clock that was traced with; never less than the CPU's event before.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: CpuId,
    /// Whose context (`common_pid`): the task that was current there, also in an interrupt.
    pub pid: Pid,
    /// What the CPU was doing.
    pub context: Context,
    /// `common_preempt_count`: depth of disabled preemption (low 4 bits) and migration (high 4 bits).
    pub preempt_count: u8,
    /// What happened.
    pub what: SchedEvent,
}

/// What a CPU was doing when an event was written: the interrupt bits of `common_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// The task itself, in the kernel.
    Task,
    /// A softirq on top of the task (or of an interrupt's end).
    SoftIrq,
    /// A hardware interrupt.
    HardIrq,
    /// A non-maskable interrupt.
    Nmi,
    /// The trace does not tell: a text without the column of flags, Perfetto before it recorded them.
    Unknown,
}

impl Context {
    /// From `common_flags` (the kernel's `enum trace_flag_type`; these bits are as they were in 2009). No
    /// format tells them.
    #[inline(always)]
    pub(crate) fn from_flags(flags: u8) -> Context {
        const HARDIRQ: u8 = 0x08;
        const SOFTIRQ: u8 = 0x10;
        const NMI: u8 = 0x40;
        match flags {
            _ if flags & NMI != 0 => Context::Nmi,
            _ if flags & HARDIRQ != 0 => Context::HardIrq,
            _ if flags & SOFTIRQ != 0 => Context::SoftIrq,
            _ => Context::Task,
        }
    }
}

/// The priority of a task whose priority the trace does not tell (Perfetto's compact form says nothing of who
/// leaves a CPU). No kernel has it.
pub const PRIO_UNKNOWN: i32 = i32::MIN;

/// One side of a context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSide {
    /// Which task.
    pub pid: Pid,
    /// Its name.
    pub comm: CommId,
    /// The kernel's priority: 0..=98 real-time (99 - rt_priority), -1 deadline, 100..=139 nice -20..=19; or
    /// [`PRIO_UNKNOWN`].
    pub prio: i32,
}

/// A task that is being made runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Which task.
    pub pid: Pid,
    /// Its name.
    pub comm: CommId,
    /// The kernel's priority.
    pub prio: i32,
    /// The CPU chosen for it (`sched_waking`: the CPU it was on).
    pub target_cpu: CpuId,
}

/// What happened. `Other` is an event of the trace that says nothing about scheduling, or that this reader
/// does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedEvent {
    /// `sched_switch`: the CPU changes from one task to another.
    Switch {
        /// Leaves the CPU.
        prev: SwitchSide,
        /// Why.
        prev_state: TaskState,
        /// Gets the CPU.
        next: SwitchSide,
    },
    /// `sched_waking`: somebody (the event's `pid`, or an interrupt) wakes a task.
    Waking(Wake),
    /// `sched_wakeup`: the woken task is runnable; on the CPU that enqueued it, not always the waker's.
    Wakeup(Wake),
    /// `sched_wakeup_new`: a new task is runnable.
    WakeupNew(Wake),
    /// `sched_process_fork`.
    Fork {
        /// Who forked.
        parent: Pid,
        /// The new task.
        child: Pid,
        /// Its name: its parent's.
        child_comm: CommId,
    },
    /// `sched_process_exec`: the task now runs another program (its name has changed).
    Exec {
        /// Which task.
        pid: Pid,
        /// Its number before, if it was a thread that took over its group leader's.
        old_pid: Pid,
    },
    /// `sched_process_exit`: begins to die; its last switch comes later.
    Exit {
        /// Which task.
        pid: Pid,
        /// Its name.
        comm: CommId,
        /// The kernel's priority.
        prio: i32,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// Which task.
        pid: Pid,
        /// The kernel's priority.
        prio: i32,
        /// From there.
        orig_cpu: CpuId,
        /// To there.
        dest_cpu: CpuId,
    },
    /// `sched_pi_setprio`: priority inheritance; the task's own parameters stay as they are.
    PiSetPrio {
        /// Which task.
        pid: Pid,
        /// The kernel's priority before.
        old_prio: i32,
        /// And after.
        new_prio: i32,
    },
    /// The event's task calls.
    SysEnter(Syscall),
    /// The call returns.
    SysExit {
        /// Which call.
        call: SyscallKind,
        /// What: 0 or more, or a negative errno.
        ret: i64,
    },
    /// `sched_stat_runtime`: the fair class charges a task for CPU time.
    StatRuntime {
        /// Which task.
        pid: Pid,
        /// CPU time since the charge before.
        runtime_ns: u64,
    },
    /// `irq_handler_entry`.
    IrqEntry {
        /// Interrupt number.
        irq: i32,
    },
    /// `irq_handler_exit`.
    IrqExit {
        /// Interrupt number.
        irq: i32,
    },
    /// `softirq_entry`.
    SoftIrqEntry {
        /// The kernel's number: 1 timer, 3 network receive, ...
        vec: u32,
    },
    /// `softirq_exit`.
    SoftIrqExit {
        /// The kernel's number.
        vec: u32,
    },
    /// `softirq_raise`: the softirq is to run on this CPU at the next chance; the event's context says who
    /// asked for it.
    SoftIrqRaise {
        /// The kernel's number.
        vec: u32,
    },
    /// An interrupt of the CPU's own begins (`irq_vectors`, x86): its timer, or a message of another CPU.
    VectorEntry(Vector),
    /// It ends; softirqs that it raised come right after.
    VectorExit(Vector),
    /// `cgroup_attach_task`: the task is moved to another control group.
    CgroupAttach {
        /// Which task.
        pid: Pid,
        /// The group's path; to be asked of [`EventStream::comm`](crate::EventStream::comm).
        path: CommId,
        /// The kernel's number of the hierarchy that the path is in (version 1 has several; version 2 is one).
        root: i32,
    },
    /// A call at a pipe or socket returns (`schedlab:object`, of `record --objects`).
    Object(ObjectCall),
    /// `sched_setaffinity` has returned, with the mask that it was given (`schedlab:object`).
    Affinity {
        /// Whose; 0: the caller's own.
        pid: Pid,
        /// Bit n: CPU n; 0: it could not be read.
        mask: u64,
    },
    /// A wait for several files at once has found one ready: `poll`, `select`, `epoll_wait` (`schedlab:object`).
    Polled,
    /// `wait4` has returned a child (`schedlab:object`).
    ChildTaken,
    /// A line of text by an export of ours: what no other event tells.
    Marker(Marker),
    /// Settings that a task of the trace has got, which no other event tells in full: by a line of text
    /// ([`settings_line`](crate::settings_line)).
    Settings {
        /// Whose.
        pid: Pid,
        /// What it begins with, having just been forked; else what the event's task sets.
        born: bool,
        /// The words of a PRIO in a workload's text; to be asked of [`EventStream::comm`](crate::EventStream::comm).
        words: CommId,
    },
    /// Events of this CPU are missing here: the buffer was full. The event's time is that of the page which follows.
    Lost {
        /// How many, if the kernel counted them.
        count: Option<u64>,
    },
    /// Anything else.
    Other {
        /// The event's number in this trace.
        id: u16,
    },
}

/// A task has sent or received something; the event comes when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectCall {
    /// At which pipe or socket: a number without meaning, the same for both ends.
    pub key: u64,
    /// What it is.
    pub kind: ChannelKind,
    /// In which direction.
    pub direction: Direction,
    /// How many bytes.
    pub amount: u32,
    /// Bytes that it holds: of a pipe the room in its ring, of a socket the sender's buffer with all overhead; 0: not
    /// known.
    pub room: u32,
}

/// What messages went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelKind {
    /// A pipe, with a name or without.
    Pipe,
    /// A socket of this machine's own.
    Unix,
    /// A socket of the internet's protocols.
    Inet,
}

/// Which way data went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Into the pipe or socket.
    Send,
    /// Out of it.
    Receive,
}

impl ChannelKind {
    /// All, with the numbers that `schedlab:object` has for them and their words.
    pub const ALL: [(i64, ChannelKind, &'static str); 3] =
        [(1, ChannelKind::Pipe, "pipe"), (2, ChannelKind::Unix, "unix"), (3, ChannelKind::Inet, "inet")];
    /// Its word.
    pub fn name(self) -> &'static str {
        ChannelKind::ALL.iter().find(|(_, kind, _)| *kind == self).map_or("pipe", |(_, _, name)| name)
    }
}

/// The format of `schedlab:object`, as ftrace writes formats. No kernel has this event: programs of `record
/// --objects` write it when a system call that sends or receives returns. `call` is the number of the system call
/// (x86-64), `ret` what it returned; the number of the event is above those that kernels give.
pub const OBJECT_FORMAT: &str = "name: object\nID: 65000\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \n\
    \tfield:unsigned long key;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int kind;\toffset:16;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned int room;\toffset:20;\tsize:4;\tsigned:0;\n\
    \tfield:int call;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int ret;\toffset:28;\tsize:4;\tsigned:1;\n\
    \n\
    print fmt: \"key=%lx kind=%u room=%u call=%d ret=%d\", REC->key, REC->kind, REC->room, REC->call, REC->ret\n";

/// Numbers in `kind` of `schedlab:object` besides those of channels: a mask was set (it is in `key`, the thread's
/// number in `room`), a wait for several files has found one, a child was waited for.
pub const OBJECT_AFFINITY: i64 = 4;
/// See [`OBJECT_AFFINITY`].
pub const OBJECT_POLLED: i64 = 5;
/// See [`OBJECT_AFFINITY`].
pub const OBJECT_CHILD: i64 = 6;

/// System calls that wait for several files at once (x86-64): poll, select, epoll_wait, pselect6, ppoll, epoll_pwait,
/// epoll_pwait2.
pub const POLL_CALLS: [i64; 7] = [7, 23, 232, 270, 271, 281, 441];
/// `wait4`, and `sched_setaffinity`.
pub const WAIT_CALL: i64 = 61;
/// See [`WAIT_CALL`].
pub const AFFINITY_CALL: i64 = 203;

/// `connect`; `accept` and `accept4`. A connection is a message of its own.
pub const CONNECT_CALL: i64 = 42;
/// See [`CONNECT_CALL`].
pub const ACCEPT_CALLS: [i64; 2] = [43, 288];

/// System calls that send or receive (arch/x86/entry/syscalls/syscall_64.tbl), with the direction.
pub const OBJECT_CALLS: [(i64, Direction); 8] = [
    (0, Direction::Receive),  // read
    (1, Direction::Send),     // write
    (19, Direction::Receive), // readv
    (20, Direction::Send),    // writev
    (44, Direction::Send),    // sendto
    (45, Direction::Receive), // recvfrom
    (46, Direction::Send),    // sendmsg
    (47, Direction::Receive), // recvmsg
];

/// Which of a CPU's own interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vector {
    /// The CPU's timer: ticks and high-resolution timers.
    LocalTimer,
    /// Another CPU asks it to look at its run queue.
    Reschedule,
    /// Another CPU has it call a function.
    CallFunction,
    /// The same, for one CPU alone.
    CallFunctionSingle,
    /// Work put off until interrupts are on.
    IrqWork,
    /// The hypervisor or firmware.
    PlatformIpi,
}

impl Vector {
    /// All, with the names that the trace's events have before `_entry` and `_exit`.
    pub const NAMES: [(&'static str, Vector); 6] = [
        ("local_timer", Vector::LocalTimer),
        ("reschedule", Vector::Reschedule),
        ("call_function", Vector::CallFunction),
        ("call_function_single", Vector::CallFunctionSingle),
        ("irq_work", Vector::IrqWork),
        ("x86_platform_ipi", Vector::PlatformIpi),
    ];
}

/// A system call that changes what the scheduler knows of a task, with the arguments that are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syscall {
    /// `sched_yield()`.
    SchedYield,
    /// `nice(increment)`.
    Nice {
        /// Added to the caller's nice value.
        increment: i32,
    },
    /// `setpriority(which, who, nice)`.
    SetPriority {
        /// 0 process, 1 process group, 2 user.
        which: i32,
        /// Whose; 0 = the caller's.
        who: i32,
        /// The new nice value.
        nice: i32,
    },
    /// `sched_setscheduler(pid, policy, ...)`.
    SchedSetScheduler {
        /// Whose; 0 = the caller's.
        pid: Pid,
        /// SCHED_*, perhaps with SCHED_RESET_ON_FORK (0x40000000).
        policy: i32,
    },
    /// `sched_setparam(pid, ...)`.
    SchedSetParam {
        /// Whose; 0 = the caller's.
        pid: Pid,
    },
    /// `sched_setattr(pid, ...)`.
    SchedSetAttr {
        /// Whose; 0 = the caller's.
        pid: Pid,
    },
    /// `sched_setaffinity(pid, ...)`; the mask is not in the trace.
    SchedSetAffinity {
        /// Whose; 0 = the caller's.
        pid: Pid,
    },
    /// `execve(...)`: the kernel may move the caller first.
    Execve,
}

/// A [`Syscall`] without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyscallKind {
    /// `sched_yield`.
    SchedYield,
    /// `nice`.
    Nice,
    /// `setpriority`.
    SetPriority,
    /// `sched_setscheduler`.
    SchedSetScheduler,
    /// `sched_setparam`.
    SchedSetParam,
    /// `sched_setattr`.
    SchedSetAttr,
    /// `sched_setaffinity`.
    SchedSetAffinity,
    /// `execve`.
    Execve,
}

impl SyscallKind {
    /// All, with the names that the trace's events have after `sys_enter_` and `sys_exit_`.
    pub const NAMES: [(&'static str, SyscallKind); 8] = [
        ("sched_yield", SyscallKind::SchedYield),
        ("nice", SyscallKind::Nice),
        ("setpriority", SyscallKind::SetPriority),
        ("sched_setscheduler", SyscallKind::SchedSetScheduler),
        ("sched_setparam", SyscallKind::SchedSetParam),
        ("sched_setattr", SyscallKind::SchedSetAttr),
        ("sched_setaffinity", SyscallKind::SchedSetAffinity),
        ("execve", SyscallKind::Execve),
    ];

    /// The call with its first three arguments.
    pub(crate) fn with(self, [first, second, third]: [i32; 3]) -> Syscall {
        match self {
            SyscallKind::SchedYield => Syscall::SchedYield,
            SyscallKind::Nice => Syscall::Nice { increment: first },
            SyscallKind::SetPriority => Syscall::SetPriority { which: first, who: second, nice: third },
            SyscallKind::SchedSetScheduler => Syscall::SchedSetScheduler { pid: Pid(first), policy: second },
            SyscallKind::SchedSetParam => Syscall::SchedSetParam { pid: Pid(first) },
            SyscallKind::SchedSetAttr => Syscall::SchedSetAttr { pid: Pid(first) },
            SyscallKind::SchedSetAffinity => Syscall::SchedSetAffinity { pid: Pid(first) },
            SyscallKind::Execve => Syscall::Execve,
        }
    }
}
