//! What do the simulator and a scheduler's object share, byte by byte? The mirror of `linux/scx/scx_abi.h`,
//! which documents the fields.

use std::ffi::{c_char, c_long, c_void};
use std::ptr;

pub(super) const VERSION: u32 = 5;
pub(super) const MAX_FIELDS: usize = 8;
pub(super) const MAX_MEMBERS: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Field {
    pub(super) kind: u32,
    pub(super) offset: u32,
    pub(super) size: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Map {
    pub(super) definition: *mut c_void,
    pub(super) name: *const c_char,
    pub(super) kind: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) flags: u32,
    pub(super) nr_fields: u32,
    pub(super) fields: [Field; MAX_FIELDS],
    pub(super) inner: *mut *mut c_void,
    pub(super) nr_inner: u32,
    pub(super) inner_like: u32,
    pub(super) map_extra: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct OpsMember {
    pub(super) offset: u32,
    pub(super) size: u32,
    pub(super) is_function: u32,
    pub(super) sleepable: u32,
}

/// Where scx_userland's two halves meet.
#[repr(C)]
pub(super) struct Userland {
    pub(super) pid: *mut c_void,
    pub(super) queued: *mut c_void,
    pub(super) scheduled: *mut c_void,
    pub(super) enqueued: *mut c_void,
    pub(super) dispatched: *mut c_void,
    pub(super) batch: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
pub(super) struct ScxRequest {
    pub(super) maps: *mut Map,
    pub(super) nr_maps: u32,
    pub(super) nr_members: u32,
    pub(super) members: *mut OpsMember,
    pub(super) ops: *mut c_void,
    pub(super) ops_size: u64,
    pub(super) init_cpu: c_long,
    pub(super) arena: *mut c_void,
    pub(super) arena_pages: u64,
    pub(super) is_cid: u32,
    pub(super) draws_random: u32,
    pub(super) userland: *const Userland,
    pub(super) cgroup: *const c_char,
    pub(super) cgroup_ids: [*mut c_void; 2],
    pub(super) failed: [u8; 128],
}

impl ScxRequest {
    /// Nothing is asked yet. `draws_random`: the scheduler calls `bpf_get_prandom_u32()`.
    pub(super) fn new(draws_random: bool) -> Self {
        Self {
            maps: ptr::null_mut(),
            nr_maps: 0,
            nr_members: 0,
            members: ptr::null_mut(),
            ops: ptr::null_mut(),
            ops_size: 0,
            init_cpu: -1,
            arena: ptr::null_mut(),
            arena_pages: 0,
            is_cid: 0,
            draws_random: u32::from(draws_random),
            userland: ptr::null(),
            cgroup: ptr::null(),
            cgroup_ids: [ptr::null_mut(); 2],
            failed: [0; 128],
        }
    }
}

#[repr(C)]
pub(super) struct ExitRecord {
    pub(super) exited: u32,
    pub(super) kind: u32,
    pub(super) code: i64,
    pub(super) nr_stack: u32,
    pub(super) reserved: u32,
    pub(super) stack: [u64; 64],
    pub(super) reason: [u8; 128],
    pub(super) message: [u8; 1024],
    pub(super) dump: [u8; 65536],
}

#[repr(C)]
pub(super) struct Syscall {
    pub(super) program: *mut c_void,
    pub(super) context: *mut c_void,
    pub(super) mask: *const u64,
    pub(super) mask_words: u64,
    pub(super) next: *mut c_void,
}

#[repr(C)]
pub(super) struct Abi {
    pub(super) version: u32,
    pub(super) sizeof_map: u32,
    pub(super) sizeof_member: u32,
    pub(super) sizeof_request: u32,
    pub(super) sizeof_exit: u32,
    pub(super) task_size: u32,
    pub(super) prog_aux_size: u32,
    pub(super) map_size: u32,
    pub(super) glue_task_size: u32,
    pub(super) glue_prog_aux_size: u32,
    pub(super) glue_map_size: u32,
    pub(super) reserved: u32,
    pub(super) exit: *mut ExitRecord,
    pub(super) faults: *mut u64,
    pub(super) load: *mut c_void,
    pub(super) attach: *mut c_void,
    pub(super) call: *mut c_void,
    pub(super) value: unsafe extern "C" fn(*mut c_void, u32, u32) -> *mut c_void,
}

impl Abi {
    /// What differs between the object and this program; `None` if they agree.
    pub(super) fn check(&self) -> Option<String> {
        let pairs = [
            ("version", self.version, VERSION as usize),
            ("size of scx_map", self.sizeof_map, size_of::<Map>()),
            ("size of scx_member", self.sizeof_member, size_of::<OpsMember>()),
            ("size of scx_request", self.sizeof_request, size_of::<ScxRequest>()),
            ("size of scx_exit_record", self.sizeof_exit, size_of::<ExitRecord>()),
            ("size of task_struct", self.glue_task_size, self.task_size as usize),
            ("size of bpf_prog_aux", self.glue_prog_aux_size, self.prog_aux_size as usize),
            ("size of bpf_map", self.glue_map_size, self.map_size as usize),
        ];
        pairs
            .iter()
            .find(|(_, theirs, ours)| *theirs as usize != *ours)
            .map(|(what, theirs, ours)| format!("{what} is {theirs}, expected {ours}"))
    }
}
