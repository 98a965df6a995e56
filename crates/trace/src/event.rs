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
    /// A task has done something at a futex, or is about to at a lock of the C library.
    Sync(SyncCall),
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
    /// A call at a futex that failed (`schedlab:object`).
    FoundNothing,
    /// Something at an object of a kind, by a call or with an amount that is not known (`schedlab:object`).
    UnknownObject,
    /// Somebody whom the recording leaves out has the CPU from now on, which is shown as idle meanwhile; or no longer
    /// (`schedlab:stranger`).
    Stranger {
        /// Has it.
        busy: bool,
    },
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
    /// What goes that way.
    pub what: Carried,
    /// How many bytes.
    pub amount: u32,
    /// Bytes that it holds: of a pipe the room in its ring (an odd number: one more, and each write is a packet that
    /// shares no page with others), of a socket the sender's buffer with all overhead; 0: not known.
    pub room: u32,
}

/// What a call sends or receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carried {
    /// Data.
    #[default]
    Data,
    /// A connection: `connect` has made it, or `accept` taken it.
    Connection,
    /// The same, but `connect` did not wait for it (EINPROGRESS). It may be called again to ask whether the connection
    /// stands.
    ConnectionBegun,
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
    /// An eventfd: amounts are what was added to its counter, and taken from it.
    Eventfd,
    /// A message queue, of POSIX or of System V: amounts are messages.
    Queue,
}

/// A task has done something at a futex (the event comes when the call returns), or is about to at a lock of the C
/// library (the event comes when its function begins).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncCall {
    /// Where: a number without meaning, the same for all who come there. A mutex and the futex in it have the same one.
    pub key: u64,
    /// The second place: where waiters are put by a requeue, the mutex of a wait at a condition, from which place in
    /// the program a mutex is locked (a number without meaning as well); else 0, as where a recording does not say it.
    pub other: u64,
    /// What.
    pub what: SyncOp,
    /// Of a wait at a futex the value that was expected there, of a wakeup how many were woken, of a barrier how many
    /// it is for.
    pub value: u32,
}

/// What is done at a futex or lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncOp {
    /// A wait at a futex has ended: somebody woke the task.
    FutexWoken,
    /// The futex had another value than expected, so there was no wait.
    FutexChanged,
    /// A wait has ended otherwise: its time was over, or a signal came.
    FutexGaveUp,
    /// Woke so many.
    FutexWake,
    /// Woke so many, and had others wait at the other place.
    FutexRequeue,
    /// Holds a futex whose holder inherits priority.
    FutexLockPi,
    /// Let such a futex go.
    FutexUnlockPi,
    /// Wants a mutex.
    MutexLock(MutexKind),
    /// Wants a mutex if nobody holds it.
    MutexTry(MutexKind),
    /// Lets a mutex go.
    MutexUnlock,
    /// Waits at a condition, without holding the mutex `other` meanwhile.
    ConditionWait,
    /// Wakes one who waits at a condition.
    ConditionSignal,
    /// Wakes all.
    ConditionBroadcast,
    /// Wants one of a semaphore.
    SemaphoreWait,
    /// Wants one if there is any, and there was when it began.
    SemaphoreTry,
    /// The same, and there was none.
    SemaphoreEmpty,
    /// Adds one to a semaphore.
    SemaphorePost,
    /// Has come to a barrier.
    BarrierWait,
}

/// What the C library says of a mutex (`__kind` of glibc's pthread_mutex_t).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MutexKind {
    /// Its holder may lock it again.
    pub is_recursive: bool,
    /// Its holder inherits the priority of who waits.
    pub inherits_priority: bool,
}

impl MutexKind {
    /// From `__kind` (nptl/pthreadP.h: the type in the lower two bits, PTHREAD_MUTEX_PRIO_INHERIT_NP).
    pub fn from_bits(bits: u32) -> MutexKind {
        MutexKind { is_recursive: bits & 3 == 1, inherits_priority: bits & 0x20 != 0 }
    }
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
    pub const ALL: [(i64, ChannelKind, &'static str); 5] = [
        (1, ChannelKind::Pipe, "pipe"),
        (2, ChannelKind::Unix, "unix"),
        (3, ChannelKind::Inet, "inet"),
        (OBJECT_EVENTFD, ChannelKind::Eventfd, "eventfd"),
        (OBJECT_QUEUE, ChannelKind::Queue, "queue"),
    ];
    /// Its word.
    pub fn name(self) -> &'static str {
        ChannelKind::ALL.iter().find(|(_, kind, _)| *kind == self).map_or("pipe", |(_, _, name)| name)
    }
}

/// The format of `schedlab:object`, as ftrace writes formats. No kernel has this event: programs of `record
/// --objects` write it when a system call that sends or receives returns. `call` is the number of the system call
/// (x86-64), `ret` what it returned; the number of the event is above those that kernels give. The upper half of `call`
/// is 1 for the file that splice, tee and sendfile write to; of a futex it is what was asked for, without flags.
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
    \tfield:unsigned long other;\toffset:32;\tsize:8;\tsigned:0;\n\
    \n\
    print fmt: \"key=%lx kind=%u room=%u call=%d ret=%d other=%lx\", REC->key, REC->kind, REC->room, REC->call, \
    REC->ret, REC->other\n";

/// Numbers in `kind` of `schedlab:object` besides those of channels: a mask was set (it is in `key`, the thread's
/// number in `room`), a wait for several files has found one, a child was waited for.
pub const OBJECT_AFFINITY: i64 = 4;
/// See [`OBJECT_AFFINITY`].
pub const OBJECT_POLLED: i64 = 5;
/// See [`OBJECT_AFFINITY`].
pub const OBJECT_CHILD: i64 = 6;
/// An eventfd; `room` is the amount.
pub const OBJECT_EVENTFD: i64 = 7;
/// A message queue; `room` is how many messages it holds, 0 if that is not known.
pub const OBJECT_QUEUE: i64 = 8;
/// A futex; `room` is the value that the caller passed, `other` the place that waiters are moved to.
pub const OBJECT_FUTEX: i64 = 9;
/// A function of the C library, whose number ([`LOCK_CALLS`]) is in `call`; `room` is what the library says of the
/// object, `other` the mutex of a wait at a condition.
pub const OBJECT_LOCK: i64 = 10;

/// Whether `key` and `other` of this kind are addresses, which no recording tells.
pub fn object_has_address(kind: i64) -> bool {
    !matches!(kind, OBJECT_AFFINITY | OBJECT_POLLED | OBJECT_CHILD)
}

/// `futex`.
pub const FUTEX_CALL: i64 = 202;
/// Operations of `futex` (include/uapi/linux/futex.h) that put waiters elsewhere, and so have a second place:
/// FUTEX_REQUEUE, CMP_REQUEUE, WAIT_REQUEUE_PI, CMP_REQUEUE_PI.
pub const FUTEX_REQUEUES: [i64; 4] = [3, 4, 11, 12];

/// The greatest number of an operation of `futex`: `FUTEX_LOCK_PI2` (include/uapi/linux/futex.h, 6.12).
const FUTEX_OPERATION_MAX: i64 = 13;

/// What a call of `futex` did that returned this; `None`: nothing of interest.
fn futex_op(operation: i64, value: u32, ret: i32) -> Option<(SyncOp, u32)> {
    const VALUE_CHANGED: i32 = -11;
    let woken = u32::try_from(ret).unwrap_or(0);
    Some(match operation {
        // FUTEX_WAIT, FUTEX_WAIT_BITSET
        0 | 9 => match ret {
            0 => (SyncOp::FutexWoken, value),
            VALUE_CHANGED => (SyncOp::FutexChanged, value),
            _ => (SyncOp::FutexGaveUp, value),
        },
        // FUTEX_WAKE, FUTEX_WAKE_OP, FUTEX_WAKE_BITSET
        1 | 5 | 10 => (SyncOp::FutexWake, woken),
        operation if FUTEX_REQUEUES[..2].contains(&operation) => (SyncOp::FutexRequeue, woken),
        // FUTEX_LOCK_PI, FUTEX_LOCK_PI2
        6 | 13 if ret == 0 => (SyncOp::FutexLockPi, 0),
        7 if ret == 0 => (SyncOp::FutexUnlockPi, 0),
        _ => return None,
    })
}

/// Functions of the C library, by the number that `call` has: their names, and what they do.
pub const LOCK_CALLS: [(&str, LockCall); 16] = [
    ("pthread_mutex_lock", LockCall::Lock),
    ("pthread_mutex_timedlock", LockCall::Lock),
    ("pthread_mutex_clocklock", LockCall::Lock),
    ("pthread_mutex_trylock", LockCall::Try),
    ("pthread_mutex_unlock", LockCall::Unlock),
    ("pthread_cond_wait", LockCall::Wait),
    ("pthread_cond_timedwait", LockCall::Wait),
    ("pthread_cond_clockwait", LockCall::Wait),
    ("pthread_cond_signal", LockCall::Signal),
    ("pthread_cond_broadcast", LockCall::Broadcast),
    ("sem_wait", LockCall::Take),
    ("sem_timedwait", LockCall::Take),
    ("sem_post", LockCall::Post),
    ("pthread_barrier_wait", LockCall::Barrier),
    ("sem_trywait", LockCall::TryTake),
    ("sem_clockwait", LockCall::Take),
];

/// What a function of the C library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// Takes a mutex.
    Lock,
    /// Takes a mutex that is free.
    Try,
    /// Lets a mutex go.
    Unlock,
    /// Waits at a condition.
    Wait,
    /// Wakes one of those who do.
    Signal,
    /// Wakes all.
    Broadcast,
    /// Takes one of a semaphore.
    Take,
    /// Takes one if there is any; `room` is how many there were when the function began.
    TryTake,
    /// Adds one.
    Post,
    /// Comes to a barrier.
    Barrier,
}

/// What stands in an event of a futex or lock: kind, key, other, room, call, ret. `None`: nothing that this reader
/// knows.
pub(crate) fn sync_call(
    (kind, call): (i64, i64),
    (key, other): (u64, u64),
    room: u32,
    ret: i32,
) -> Option<SchedEvent> {
    let (what, value) = if kind == OBJECT_FUTEX {
        let operation = call >> 16;
        match futex_op(operation, room, ret) {
            Some(done) => done,
            None => {
                return (0..=FUTEX_OPERATION_MAX).contains(&operation).then_some(SchedEvent::FoundNothing);
            }
        }
    } else {
        let (_, function) = LOCK_CALLS.get(usize::try_from(call).ok()?)?;
        let mutex = MutexKind::from_bits(room);
        match function {
            LockCall::Lock => (SyncOp::MutexLock(mutex), 0),
            LockCall::Try => (SyncOp::MutexTry(mutex), 0),
            LockCall::Unlock => (SyncOp::MutexUnlock, 0),
            LockCall::Wait => (SyncOp::ConditionWait, 0),
            LockCall::Signal => (SyncOp::ConditionSignal, 0),
            LockCall::Broadcast => (SyncOp::ConditionBroadcast, 0),
            LockCall::TryTake if room == 0 => (SyncOp::SemaphoreEmpty, 0),
            LockCall::TryTake => (SyncOp::SemaphoreTry, 0),
            LockCall::Take => (SyncOp::SemaphoreWait, 0),
            LockCall::Post => (SyncOp::SemaphorePost, 0),
            LockCall::Barrier => (SyncOp::BarrierWait, room),
        }
    };
    Some(SchedEvent::Sync(SyncCall { key, other, what, value }))
}

/// System calls that wait for several files at once (x86-64): poll, select, epoll_wait, pselect6, ppoll, epoll_pwait,
/// epoll_pwait2.
pub const POLL_CALLS: [i64; 7] = [7, 23, 232, 270, 271, 281, 441];
/// `wait4`, `waitid`, and `sched_setaffinity`.
pub const WAIT_CALL: i64 = 61;
/// See [`WAIT_CALL`].
pub const WAITID_CALL: i64 = 247;
/// See [`WAIT_CALL`].
pub const AFFINITY_CALL: i64 = 203;

/// `connect`; `accept` and `accept4`. A connection is a message of its own.
pub const CONNECT_CALL: i64 = 42;
/// EINPROGRESS (include/uapi/asm-generic/errno.h): the connection comes without the caller of `connect`.
pub const IN_PROGRESS: i32 = 115;
/// See [`CONNECT_CALL`].
pub const ACCEPT_CALLS: [i64; 2] = [43, 288];

/// System calls that send or receive (arch/x86/entry/syscalls/syscall_64.tbl), with the direction.
pub const OBJECT_CALLS: [(i64, Direction); 14] = [
    (0, Direction::Receive),   // read
    (1, Direction::Send),      // write
    (19, Direction::Receive),  // readv
    (20, Direction::Send),     // writev
    (44, Direction::Send),     // sendto
    (45, Direction::Receive),  // recvfrom
    (46, Direction::Send),     // sendmsg
    (47, Direction::Receive),  // recvmsg
    (40, Direction::Receive),  // sendfile: the file that is read
    (275, Direction::Receive), // splice: the file that is read
    (69, Direction::Send),     // msgsnd
    (70, Direction::Receive),  // msgrcv
    (242, Direction::Send),    // mq_timedsend
    (243, Direction::Receive), // mq_timedreceive
];

/// System calls that write to a second file: sendfile, splice, tee.
pub const SECOND_FILE_CALLS: [i64; 3] = [40, 275, 276];

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
    /// `setsid()`: with CONFIG_SCHED_AUTOGROUP the new session is a group of the scheduler's own.
    Setsid,
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
    /// `setsid`.
    Setsid,
}

impl SyscallKind {
    /// All, with the names that the trace's events have after `sys_enter_` and `sys_exit_`.
    pub const NAMES: [(&'static str, SyscallKind); 9] = [
        ("sched_yield", SyscallKind::SchedYield),
        ("nice", SyscallKind::Nice),
        ("setpriority", SyscallKind::SetPriority),
        ("sched_setscheduler", SyscallKind::SchedSetScheduler),
        ("sched_setparam", SyscallKind::SchedSetParam),
        ("sched_setattr", SyscallKind::SchedSetAttr),
        ("sched_setaffinity", SyscallKind::SchedSetAffinity),
        ("execve", SyscallKind::Execve),
        ("setsid", SyscallKind::Setsid),
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
            SyscallKind::Setsid => Syscall::Setsid,
        }
    }
}
