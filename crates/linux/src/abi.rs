//! What do the simulator and the kernel object share, byte by byte?
//!
//! The mirror of `linux/arch-warp/include/warp_abi.h` and `warp_cpu.h`, which document every field; names are
//! the same without `warp_`. [`Abi::check`] compares version and sizes with what the loaded object says
//! before anything else is read.

#![allow(missing_docs)] // fields: see the header

use std::ffi::{c_char, c_int, c_void};

use schedlab_log::Record;

/// The version of the boundary that this crate speaks.
pub const VERSION: u32 = 9;

/// Interrupts, as bits of [`Cpu::pending`] and [`Cpu::posted`].
pub mod irq {
    /// Reschedule IPI.
    pub const RESCHED: u8 = 0x01;
    /// Call-function IPI.
    pub const CALL: u8 = 0x02;
    /// `irq_work`.
    pub const WORK: u8 = 0x04;
    /// The CPU's clockevent.
    pub const TIMER: u8 = 0x08;
    /// Wakes [`super::Cpu::device_tasks`].
    pub const DEVICE: u8 = 0x10;
    /// In `posted` only: resume this CPU for the first time.
    pub const START: u8 = 0x80;
}

/// Values of [`Cpu::why`].
pub mod why {
    /// Never resumed yet.
    pub const OFF: u8 = 0;
    /// Halted until an interrupt.
    pub const IDLE: u8 = 1;
    /// The current task is in user mode.
    pub const USER: u8 = 2;
    /// Spinning: other CPUs must run first.
    pub const RELAX: u8 = 3;
    /// Wants the simulator: see [`super::call`].
    pub const CALL: u8 = 4;
    /// Kernel code takes time: resume at [`super::Cpu::paused_until_ns`].
    pub const PAUSED: u8 = 5;
    /// Stopped at a point that was asked for ([`super::Abi::points`]): see [`super::Cpu::point`], whose numbers are
    /// those of [`PointKind`](schedlab_machine::kernel::PointKind).
    pub const POINT: u8 = 6;
}

/// Values of [`Cpu::call`].
pub mod call {
    /// Console text.
    pub const PRINT: u8 = 1;
    /// The log window is full.
    pub const LOG_FULL: u8 = 2;
    /// `panic()`.
    pub const PANIC: u8 = 3;
    /// Powered off.
    pub const HALT: u8 = 4;
    /// A kernel thread exits: its id and name.
    pub const THREAD: u8 = 5;
    /// [`super::Abi::watch`] holds the decision that was asked for.
    pub const DECISION: u8 = 6;
}

/// Values of [`Task::op`]; the header documents the arguments.
pub mod op {
    /// Nothing asked.
    pub const NONE: u32 = 0;
    /// Block, with or without a wake time.
    pub const BLOCK: u32 = 1;
    /// Wake another task.
    pub const WAKE: u32 = 2;
    /// Fork.
    pub const FORK: u32 = 3;
    /// `sched_yield()`.
    pub const YIELD: u32 = 4;
    /// Exit.
    pub const EXIT: u32 = 5;
    /// Set nice.
    pub const NICE: u32 = 6;
    /// `sched_setattr()`.
    pub const SCHED: u32 = 7;
    /// `sched_setaffinity()`.
    pub const AFFINITY: u32 = 8;
    /// Write a file.
    pub const WRITE: u32 = 9;
    /// Read a file.
    pub const READ: u32 = 10;
    /// Make a directory.
    pub const MKDIR: u32 = 11;
    /// Remove a directory.
    pub const RMDIR: u32 = 12;
    /// Mount a file system.
    pub const MOUNT: u32 = 13;
    /// Move a task to a cgroup.
    pub const ATTACH: u32 = 14;
    /// List a directory.
    pub const LIST: u32 = 15;
    /// Several operations in one system call.
    pub const BATCH: u32 = 16;
    /// `setsid()`.
    pub const SETSID: u32 = 17;
    /// Call a function of an object that the simulator has loaded.
    pub const CALL: u32 = 18;
    /// `sched_exec()`.
    pub const EXEC: u32 = 19;
    /// Nothing: the end of a system call in which the task stayed.
    pub const RETURN: u32 = 20;

    /// Flag of `BLOCK`: not interruptible.
    pub const F_UNINTERRUPTIBLE: u32 = 1;
    /// Flag of `WAKE`: the waker is about to block.
    pub const F_SYNC: u32 = 2;
    /// Flag of `SCHED`: children start with default parameters.
    pub const F_RESET_ON_FORK: u32 = 4;
    /// Flag of all: the task stays within the system call until an operation without it.
    pub const F_STAYS: u32 = 8;
    /// As a target: the task itself.
    pub const SELF: u64 = 0xffff_fffe;
}

/// As `resched_ns`: interrupts find the task in the system call that its next operation ends.
pub const RESCHED_CALL: u32 = u32::MAX;

/// Id of the control task (pid 1).
pub const CONTROL: u32 = 0x8000_0001;

/// One virtual CPU.
#[repr(C, align(64))]
pub struct Cpu {
    pub curr: *mut c_void,
    pub pcpu_off: usize,
    pub id: u32,
    pub irq_on: u8,
    pub pending: u8,
    pub posted: u8,
    pub queued: u8,
    pub deadline_ns: u64,
    pub sp: *mut c_void,
    pub task: u32,
    pub why: u8,
    pub online: u8,
    pub call: u8,
    pub point: u8,
    pub nr_device_tasks: u32,
    pub idle_resched_ns: u32,
    pub device_tasks: *const u32,
    pub call_text: *const u8,
    pub call_len: u64,
    pub paused_until_ns: u64,
    pub point_address: usize,
    pub point_code: usize,
    pub reserved2: [u64; 2],
}

/// A task's mailbox, and what the kernel says about the task.
#[repr(C, align(64))]
pub struct Task {
    pub op: u32,
    pub flags: u32,
    pub arg: [u64; 5],
    pub result: i64,
    pub task: *mut c_void,
    pub pid: u32,
    pub done: u32,
    pub cpu_ns: u64,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub migrations: u64,
    pub wait_ns: u64,
    pub reserved: [u64; 2],
}

/// An element of [`op::BATCH`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    pub op: u32,
    pub flags: u32,
    pub arg: [u64; 5],
    pub result: i64,
}

/// Where a CPU is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topo {
    pub core: u32,
    pub cluster: u32,
    pub llc: u32,
    pub package: u32,
    pub node: u32,
    pub capacity: u32,
}

/// Power-on parameters.
#[repr(C)]
pub struct Boot {
    pub now_ns: u64,
    pub nr_cpus: u32,
    pub max_tasks: u32,
    pub topo: *const Topo,
    pub tasks: *mut Task,
    pub memory: *mut c_void,
    pub memory_size: u64,
    pub command_line: *const c_char,
    pub distance: *const u32,
    pub nr_nodes: u32,
    pub nr_groups: u32,
}

/// A thread of the simulated kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Thread {
    pub id: u32,
    pub pid: u32,
    pub comm: [u8; 16],
    pub cpu_ns: u64,
}

/// Something that could have been picked, or a CPU that a task could have been placed on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Entity {
    pub class: u8,
    pub flags: u8,
    pub level: u16,
    pub task: u32,
    pub prio: i32,
    pub reserved: u32,
    pub vruntime: u64,
    pub deadline: u64,
    pub slice_ns: u64,
    pub weight: u64,
    pub exec_ns: u64,
    pub ran_ns: u64,
    pub load_avg: u64,
    pub util_avg: u64,
    pub group: [u8; 32],
}

/// What is wanted about a decision, and what there was.
#[repr(C)]
#[derive(Debug)]
pub struct Watch {
    pub from_ns: u64,
    pub explain: u32,
    pub stop: u32,
    pub task: u32,
    pub nth: u32,
    pub entities: *mut Entity,
    pub max_entities: u32,
    pub nr_entities: u32,
    pub lost: u32,
    pub count: u32,
    pub event: u32,
    pub cpu: u32,
    pub prev: u32,
    pub curr: u32,
    pub prev_cpu: u32,
    pub reserved: u32,
    pub time_ns: u64,
}

/// The exported table.
#[repr(C)]
pub struct Abi {
    pub version: u32,
    pub sizeof_abi: u32,
    pub sizeof_cpu: u32,
    pub sizeof_task: u32,
    pub sizeof_record: u32,
    pub sizeof_topo: u32,
    pub sizeof_boot: u32,
    pub sizeof_thread: u32,
    pub sizeof_op: u32,
    pub max_cpus: u32,
    pub hz: u32,
    pub linux_version: u32,
    pub linux_banner: *const c_char,
    pub now_ns: *mut u64,
    pub log_epoch_ns: u64,
    pub cpus: *mut Cpu,
    pub control: *mut Task,
    pub kick: *mut u32,
    pub nr_kick: u32,
    pub resched_ns: u32,
    pub log_next: *mut Record,
    pub log_end: *mut Record,
    pub log_on: u32,
    pub control_ready: u32,
    pub boot: unsafe extern "C" fn(*const Boot) -> c_int,
    pub resume: unsafe extern "C" fn(*mut Cpu),
    pub task_stats: unsafe extern "C" fn(*mut Task),
    pub threads: unsafe extern "C" fn(*mut Thread, u32) -> u32,
    pub text_start: *const u8,
    pub text_end: *const u8,
    pub watch: *mut Watch,
    pub watch_on: u32,
    pub sizeof_entity: u32,
    pub sizeof_watch: u32,
    pub reserved2: u32,
    pub coverage: Option<unsafe extern "C" fn(u32, *mut *const c_char, *mut u8, u64) -> u64>,
    pub coverage_reset: Option<unsafe extern "C" fn()>,
    pub points: *mut u32,
}

impl Abi {
    /// What differs between the object's boundary and this crate's, in words; `None` if they agree.
    pub fn check(&self) -> Option<String> {
        let ours = [
            ("version", self.version, VERSION as usize),
            ("size of warp_abi", self.sizeof_abi, size_of::<Abi>()),
            ("size of warp_cpu", self.sizeof_cpu, size_of::<Cpu>()),
            ("size of warp_task", self.sizeof_task, size_of::<Task>()),
            ("size of warp_record", self.sizeof_record, size_of::<Record>()),
            ("size of warp_topo", self.sizeof_topo, size_of::<Topo>()),
            ("size of warp_boot", self.sizeof_boot, size_of::<Boot>()),
            ("size of warp_thread", self.sizeof_thread, size_of::<Thread>()),
            ("size of warp_op", self.sizeof_op, size_of::<Operation>()),
            ("size of warp_entity", self.sizeof_entity, size_of::<Entity>()),
            ("size of warp_watch", self.sizeof_watch, size_of::<Watch>()),
        ];
        ours.iter()
            .find(|(_, theirs, ours)| *theirs as usize != *ours)
            .map(|(what, theirs, ours)| format!("{what} is {theirs} in the kernel object and {ours} here"))
    }
}

const _: () = assert!(size_of::<Cpu>() == 128 && size_of::<Task>() == 128);
