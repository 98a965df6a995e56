//! The system call bpf(2), as far as it is needed: maps, programs, their attachment.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use super::locks::LockPlace;
use super::programs::{Attach, Program};

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;
const MAP_TYPE_RINGBUF: u32 = 27;
const F_MMAPABLE: u32 = 1 << 10;

const PROG_TYPE_KPROBE: u32 = 2;
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_RAW_TP: u32 = 23;
const TRACE_FENTRY: u32 = 24;
const TRACE_FEXIT: u32 = 25;

/// What the kernel says of a program that it refuses: its last lines are kept.
const LOG_BYTES: usize = 1 << 20;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    attach_prog_fd: u32,
    _pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgTest {
    prog_fd: u32,
    retval: u32,
    /// Sizes and places of data and context, repetitions, flags: of other types of programs.
    rest: [u64; 8],
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    _pad: u32,
    cookie: u64,
}

fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<RawFd> {
    // SAFETY: the attribute is a local of the size passed, laid out as the kernel's for this command; what it
    // points to lives as long.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as RawFd) }
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: bpf(2) has just made it, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A ring of this many bytes, a power of two.
pub(super) fn ring(bytes: u32) -> io::Result<OwnedFd> {
    let attr = MapCreate { map_type: MAP_TYPE_RINGBUF, max_entries: bytes, ..MapCreate::default() };
    bpf(MAP_CREATE, &attr).map(owned)
}

/// A map from CPU to ring, empty; `like` is one of them.
pub(super) fn rings(cpus: u32, like: &OwnedFd) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: MAP_TYPE_ARRAY_OF_MAPS,
        key_size: 4,
        value_size: 4,
        max_entries: cpus,
        inner_map_fd: like.as_raw_fd() as u32,
        ..MapCreate::default()
    };
    bpf(MAP_CREATE, &attr).map(owned)
}

/// Puts a CPU's ring in the map.
pub(super) fn set_ring(map: &OwnedFd, cpu: u32, ring: &OwnedFd) -> io::Result<()> {
    let value = ring.as_raw_fd() as u32;
    let attr = MapUpdate {
        map_fd: map.as_raw_fd() as u32,
        key: (&raw const cpu) as u64,
        value: (&raw const value) as u64,
        ..MapUpdate::default()
    };
    bpf(MAP_UPDATE_ELEM, &attr).map(drop)
}

/// An array with one element, which can be mapped into memory.
pub(super) fn shared(bytes: u32) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: bytes,
        max_entries: 1,
        map_flags: F_MMAPABLE,
        ..MapCreate::default()
    };
    bpf(MAP_CREATE, &attr).map(owned)
}

/// A loaded and attached program; detached when dropped.
pub(super) struct Attached {
    program: OwnedFd,
    _link: OwnedFd,
}

impl Attached {
    /// Lets the kernel try the program, which stands at a function's begin or end: it calls its functions for that
    /// purpose, once (`bpf_prog_test_run_tracing()`).
    pub(super) fn try_once(&self) -> io::Result<()> {
        let attr = ProgTest { prog_fd: self.program.as_raw_fd() as u32, ..ProgTest::default() };
        bpf(PROG_TEST_RUN, &attr).map(drop)
    }
}

/// Loads a program and attaches it.
///
/// # Errors
/// What the kernel answered, with the end of what it says about the program.
pub(super) fn attach(program: &Program) -> Result<Attached, String> {
    let (expected_attach_type, attach_btf_id) = match program.attach {
        Attach::Tracepoint(id) => (TRACE_RAW_TP, id),
        Attach::Enter(id) => (TRACE_FENTRY, id),
        Attach::Exit(id) => (TRACE_FEXIT, id),
    };
    let mut attr = ProgLoad {
        prog_type: PROG_TYPE_TRACING,
        insn_cnt: (program.code.len() / 8) as u32,
        insns: program.code.as_ptr() as u64,
        // Helpers that read the kernel's memory want a licence that is compatible with its own.
        license: c"Dual MIT/GPL".as_ptr() as u64,
        expected_attach_type,
        attach_btf_id,
        ..ProgLoad::default()
    };
    let program = load(&mut attr)?;
    let open = RawTracepointOpen { prog_fd: program.as_raw_fd() as u32, ..RawTracepointOpen::default() };
    let link =
        bpf(RAW_TRACEPOINT_OPEN, &open).map_err(|e| format!("its program cannot be attached ({e})"))?;
    Ok(Attached { program, _link: owned(link) })
}

/// Loads a program.
fn load(attr: &mut ProgLoad) -> Result<OwnedFd, String> {
    attr.prog_name[..8].copy_from_slice(b"schedlab");
    let loaded = bpf(PROG_LOAD, attr).or_else(|error| {
        // Once more, for the reason.
        let mut log = vec![0u8; LOG_BYTES];
        (attr.log_level, attr.log_size, attr.log_buf) = (1, LOG_BYTES as u32, log.as_mut_ptr() as u64);
        bpf(PROG_LOAD, attr).map_err(|_| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
            let text = String::from_utf8_lossy(&log[..end]).into_owned();
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed")).collect();
            let last = lines[lines.len().saturating_sub(2)..].join("; ");
            format!("the kernel does not load its program ({error}) {last}")
        })
    });
    Ok(owned(loaded?))
}

/// `struct perf_event_attr` as far as a probe needs it (PERF_ATTR_SIZE_VER5, include/uapi/linux/perf_event.h).
#[repr(C)]
struct ProbeAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    path: u64,
    offset: u64,
    rest: [u64; 5],
}

/// Loads a program and attaches it to a function of a library, whoever calls it.
///
/// # Errors
/// What the kernel answered.
pub(super) fn attach_to_library(code: &[u8], place: &LockPlace, uprobe: u32) -> Result<Attached, String> {
    const SET_BPF: libc::c_ulong = 0x4004_2408;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let mut attr = ProgLoad {
        prog_type: PROG_TYPE_KPROBE,
        insn_cnt: (code.len() / 8) as u32,
        insns: code.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        ..ProgLoad::default()
    };
    let program = load(&mut attr)?;
    let path = CString::new(place.file.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    let probe = ProbeAttr {
        kind: uprobe,
        size: size_of::<ProbeAttr>() as u32,
        config: 0,
        sample_period: 1,
        sample_type: 0,
        read_format: 0,
        flags: 0,
        wakeup_events: 1,
        bp_type: 0,
        path: path.as_ptr() as u64,
        offset: place.offset,
        rest: [0; 5],
    };
    let refused = |what: &str| format!("{what} ({})", io::Error::last_os_error());
    // SAFETY: the attribute is a local of the size that it states, and the path in it lives as long; all processes, of
    // which the kernel wants one CPU named.
    let event = unsafe {
        libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(&probe), -1, 0, -1, CLOSE_ON_EXEC)
    };
    if event < 0 {
        return Err(refused(&format!("{}: no probe at {:#x}", place.file.display(), place.offset)));
    }
    let event = owned(event as RawFd);
    // SAFETY: both descriptors are open.
    if unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, program.as_raw_fd()) } < 0 {
        return Err(refused("the probe takes no program"));
    }
    Ok(Attached { program, _link: event })
}

/// A piece of memory shared with the kernel; unmapped when dropped.
pub(super) struct Mapping {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory, which belongs to whoever owns the mapping; accesses to what the kernel changes are atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(fd: &OwnedFd, offset: usize, bytes: usize, writable: bool) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Mapping { at: at.cast(), bytes })
        }
    }

    /// The word of eight bytes at this offset.
    pub(super) fn long(&self, offset: usize) -> &std::sync::atomic::AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "a word within the mapping");
        // SAFETY: inside the mapping and aligned, as just checked; shared with the kernel, hence atomic.
        unsafe { &*self.at.add(offset).cast() }
    }

    /// The word of four bytes at this offset.
    pub(super) fn word(&self, offset: usize) -> &std::sync::atomic::AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes, "a word within the mapping");
        // SAFETY: as above.
        unsafe { &*self.at.add(offset).cast() }
    }

    /// Bytes that the kernel does not change meanwhile.
    pub(super) fn bytes(&self, offset: usize, count: usize) -> &[u8] {
        assert!(offset + count <= self.bytes, "bytes within the mapping");
        // SAFETY: inside the mapping, as just checked; the caller asks for a sample that is complete and not
        // handed back.
        unsafe { std::slice::from_raw_parts(self.at.add(offset), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in new, of that size.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// A descriptor that waits for many.
pub(super) struct Epoll(OwnedFd);

impl Epoll {
    pub(super) fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers; the result is checked and owned by nobody else.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Epoll(owned(fd))) }
    }

    /// Also wait for this one: once each time it is made ready (`edge`), or as long as it is.
    pub(super) fn add(&self, fd: RawFd, edge: bool) -> io::Result<()> {
        let events = libc::EPOLLIN | if edge { libc::EPOLLET } else { 0 };
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: the event is a local; both descriptors are open.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits at most so long; whether this descriptor was ready.
    pub(super) fn wait(&self, timeout_ms: i32, asked: RawFd) -> io::Result<bool> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        // SAFETY: the array has as many places as is said.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 16, timeout_ms) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        Ok(events[..count as usize].iter().any(|event| event.u64 == asked as u64))
    }
}

/// The kernel's description of its types.
pub(super) fn read_btf() -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    io::Read::read_to_end(&mut File::open("/sys/kernel/btf/vmlinux")?, &mut data)?;
    Ok(data)
}
