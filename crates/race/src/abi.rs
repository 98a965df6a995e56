//! What do the explorer and a target's object share? As `include/schedlab_race.h` and `c/hooks.c` have it, byte by
//! byte.

use std::ffi::{c_char, c_int, c_long, c_void};

/// `RACE_VERSION`.
pub(crate) const VERSION: u32 = 1;
/// `RACE_CPUS_MAX`.
pub(crate) const CPUS_MAX: usize = 8;
/// `RACE_ARGS_MAX`.
pub(crate) const ARGS_MAX: usize = 8;

/// Bits of an access's kind beside its size.
pub(crate) const WRITE: u64 = 0x100;
pub(crate) const MARKED: u64 = 0x200;

/// Barriers.
pub(crate) const MB: u32 = 0;
pub(crate) const RMB: u32 = 1;
pub(crate) const WMB: u32 = 2;
pub(crate) const ACQUIRE: u32 = 3;
pub(crate) const RELEASE: u32 = 4;

/// What is more than a barrier, and orders all the same: of [`crate::engine::Met`] only.
pub(crate) const LOCK_ACQUIRE: u32 = 5;
pub(crate) const UNLOCK_RELEASE: u32 = 6;
pub(crate) const ATOMIC_ORDER: u32 = 7;

/// Orders of atomic operations.
pub(crate) const ORDER_ACQ: u32 = 1;
pub(crate) const ORDER_REL: u32 = 2;
pub(crate) const ORDER_FULL: u32 = 3;

/// What a failure is: `E.fail`'s first argument.
pub(crate) const FAIL_WARN: u32 = 1;
pub(crate) const FAIL_REFUSE: u32 = 2;
pub(crate) const FAIL_ENDS: u32 = 3;

pub(crate) type Alone = Option<unsafe extern "C" fn()>;
pub(crate) type Hook = Option<unsafe extern "C" fn(c_int, c_long) -> c_long>;
pub(crate) type Run = unsafe extern "C" fn(c_int, *const c_long, c_int) -> c_long;

/// `struct race_op`.
#[repr(C)]
pub(crate) struct Op {
    pub(crate) name: *const c_char,
    pub(crate) run: Option<Run>,
    pub(crate) help: *const c_char,
    pub(crate) nr_args: c_int,
}

/// `struct race_target`.
#[repr(C)]
pub(crate) struct Target {
    pub(crate) version: u32,
    pub(crate) size: u32,
    pub(crate) name: *const c_char,
    pub(crate) init: Option<unsafe extern "C" fn(c_int) -> c_int>,
    pub(crate) cleanup: Alone,
    pub(crate) start: Alone,
    pub(crate) begin: Alone,
    pub(crate) preempt: Hook,
    pub(crate) finish: Hook,
    pub(crate) find: Hook,
    pub(crate) enqueue: Hook,
    pub(crate) dequeue: Hook,
    pub(crate) check: Alone,
    pub(crate) rest: Alone,
    pub(crate) ops: *const Op,
    pub(crate) scenario: *const c_char,
    pub(crate) cpu_base: *mut c_void,
    pub(crate) cpu_stride: usize,
    pub(crate) least_first: c_int,
    pub(crate) pull_preempt: Hook,
    pub(crate) pull_finish: Hook,
    pub(crate) pull_find: Hook,
}

/// `struct engine`: what the hooks call.
#[repr(C)]
pub(crate) struct Table {
    pub(crate) access: extern "C" fn(usize, u64, usize),
    pub(crate) atomic: extern "C" fn(usize, u32, u64, u64, usize) -> u64,
    pub(crate) barrier: extern "C" fn(u32, usize),
    pub(crate) lock: extern "C" fn(usize, usize),
    pub(crate) trylock: extern "C" fn(usize, usize) -> c_int,
    pub(crate) unlock: extern "C" fn(usize, usize),
    pub(crate) relax: extern "C" fn(usize),
    pub(crate) sleep: extern "C" fn(u32, c_int, usize),
    pub(crate) fail: extern "C" fn(u32, *const c_char, usize),
    pub(crate) note: extern "C" fn(*const c_char),
    pub(crate) cpu: extern "C" fn() -> c_int,
    pub(crate) alloc: extern "C" fn(usize, usize) -> usize,
    pub(crate) free: extern "C" fn(usize, usize),
    pub(crate) is_weak: u64,
}
