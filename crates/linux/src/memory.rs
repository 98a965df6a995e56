//! Where does the simulated machine's memory live?
//!
//! At one fixed address, so that pointers, and whatever the kernel derives from them, are equal in every run; unreserved,
//! so that only what is touched costs anything.
//!
//! ```text
//! 4 CPUs, 1,000 tasks alive: 64 MiB + 4 x 2 MiB + 1,000 x 64 KiB -> 192 MiB of addresses, about 10 MiB touched
//! ```

use std::ffi::c_void;
use std::io;
use std::ptr;

/// Far from where the host's loader and libc put things.
const RAM_ADDRESS: usize = 0x0100_0000_0000;
/// The largest block of the kernel's page allocator in any flavour; RAM starts and ends on such a boundary.
const RAM_ALIGN: usize = 128 << 20;

/// A private, zeroed mapping.
pub(crate) struct Memory {
    start: *mut c_void,
    len: usize,
}

impl Memory {
    fn map(address: usize, len: usize, flags: i32) -> io::Result<Memory> {
        // SAFETY: a new anonymous mapping; MAP_FIXED is never passed, so nothing existing is replaced.
        let start = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(address),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Memory { start, len })
    }

    /// `len` bytes anywhere.
    pub(crate) fn anonymous(len: usize) -> io::Result<Memory> {
        Memory::map(0, len, 0)
    }

    /// The machine's RAM: 64 MiB, plus 2 MiB per CPU (per-CPU data, its kernel threads), 4 MiB in a kernel built for very
    /// many CPUs, plus 64 KiB per task alive (stack 16, task_struct, signals, cgroup share, slack).
    pub(crate) fn ram(nr_cpus: usize, live_tasks: usize, max_cpus: usize) -> io::Result<Memory> {
        let per_cpu = if max_cpus > 256 { 4 << 20 } else { 2 << 20 };
        let wanted = (64 << 20) + nr_cpus * per_cpu + live_tasks * (64 << 10);
        let len = wanted.next_multiple_of(RAM_ALIGN);
        let ram = Memory::map(RAM_ADDRESS, len, libc::MAP_FIXED_NOREPLACE)?;
        if ram.start.addr() != RAM_ADDRESS {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("the address {RAM_ADDRESS:#x} is taken in this process"),
            ));
        }
        Ok(ram)
    }

    pub(crate) fn start(&self) -> *mut c_void {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Static keys are branches that the kernel rewrites in its own text.
    pub(crate) fn make_text_writable(start: usize, end: usize) -> io::Result<()> {
        let page = 4096;
        let from = start / page * page;
        let len = end.next_multiple_of(page) - from;
        // SAFETY: the range is the kernel object's text; adding write permission breaks no one's assumption.
        let failed = unsafe {
            libc::mprotect(
                ptr::without_provenance_mut(from),
                len,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            )
        };
        if failed == 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        Err(io::Error::new(
            e.kind(),
            format!(
                "making kernel text writable: {e} (a security policy may forbid text that is writable and executable)"
            ),
        ))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.start, self.len) };
    }
}
