//! How does one process run many schedules from the same instant? It puts its memory back.
//!
//! A fork costs page tables, a fault for each page that is touched, and the end of a process: as much as a short
//! schedule itself. So a child keeps a copy of all that it may write, and behind a schedule only the pages that it has
//! written are copied back:
//!
//! ```text
//! fork ── keep: 9 MB are copied ── schedule ── 110 pages go back ── schedule ── 110 pages go back ── ...
//! ```
//!
//! Written pages are those that this process has for itself (`/proc/self/pagemap`). They are looked for only when there
//! were faults since the last time: who has written a page once has it, and it goes back each time.
//!
//! What is put back: writable private memory, the stack, the registers that a call keeps, the end of the heap. What is
//! not: shared memory, files. The heap never leaves `brk` ([`prepare`]), so that no mapping comes or goes.

use std::arch::global_asm;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;

use super::page::shared_memory;

const PAGE: usize = 4096;
/// Pages of the ranges that are kept; 128 MiB of RAM are 32,768.
const PAGES_MAX: usize = 1 << 20;
/// Pages whose content is kept.
const COPIES_MAX: usize = 1 << 17;
const RANGES_MAX: usize = 256;
/// Entries of the page map that are read at once.
const CHUNK: usize = 4096;
/// Bytes of the stack on which memory is put back.
const STACK: usize = 64 << 10;

// `schedlab_again_keep(place, keep, arg)`: notes where it stands, calls `keep(arg)`, and returns 0. It returns again,
// with 1, when memory is as it was then, from `schedlab_again_go(place)`. The registers that a call keeps lie on the
// stack.
// `schedlab_again_on(stack, what, arg)`: `what(arg)` on another stack, for good.
global_asm!(
    ".globl schedlab_again_keep",
    "schedlab_again_keep:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov [rdi], rsp",
    "mov rdi, rdx",
    "call rsi",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".globl schedlab_again_go",
    "schedlab_again_go:",
    "mov rsp, [rdi]",
    "mov eax, 1",
    "jmp 2b",
    ".globl schedlab_again_on",
    "schedlab_again_on:",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "ud2",
);

unsafe extern "C" {
    fn schedlab_again_keep(place: *mut usize, keep: extern "C" fn(*mut Kept), kept: *mut Kept) -> u32;
    fn schedlab_again_go(place: *const usize) -> !;
    fn schedlab_again_on(stack: *mut u8, what: extern "C" fn(*mut Kept), kept: *mut Kept) -> !;
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Range {
    start: usize,
    pages: usize,
    /// Of its first page in `copy_of`.
    first: usize,
    /// A page that is not there is the file's, not zero.
    is_file: bool,
}

/// Memory that may be written, from a line of `/proc/self/maps`.
struct Map {
    start: usize,
    end: usize,
    is_file: bool,
    is_heap: bool,
}

/// A page that goes back: where it lies, and its copy; `u32::MAX`: it was not there, and is all zero.
#[derive(Clone, Copy)]
#[repr(C)]
struct Written {
    at: usize,
    copy: u32,
}

/// All of it lies in shared memory, which is not put back, and is zero at first.
#[repr(C)]
pub(super) struct Kept {
    place: usize,
    heap_end: usize,
    pagemap: i32,
    wake: i32,
    done: i32,
    nr_ranges: usize,
    nr_copies: usize,
    nr_written: usize,
    faults: i64,
    /// Something found no room: this process ends behind its schedule.
    is_full: bool,
    ranges: [Range; RANGES_MAX],
    written: [Written; COPIES_MAX],
    chunk: [u64; CHUNK],
    stack: [u8; STACK],
    /// Of each page of the ranges: its copy's number and 1; 0: none.
    copy_of: [u32; PAGES_MAX],
    copies: [[u8; PAGE]; COPIES_MAX],
}

/// The heap is to grow at its end alone, and never to shrink.
pub(super) fn prepare() {
    // SAFETY: settings of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// Memory for [`again`].
pub(super) fn room() -> io::Result<*mut Kept> {
    Ok(shared_memory(size_of::<Kept>())?.cast())
}

/// In a child: comes back at once, and again with the same memory for each byte that comes from `wake`, when
/// [`leave`] has been called.
///
/// # Errors
/// The process's memory cannot be looked at.
pub(super) fn again(kept: *mut Kept, wake: i32, done: i32) -> io::Result<()> {
    let mut maps = maps()?;
    // SAFETY: a constant name.
    let pagemap = unsafe { libc::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if pagemap < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `kept` is this process's alone from here on, but for the server, which does not look at it.
    unsafe {
        let k = &mut *kept;
        (k.pagemap, k.wake, k.done) = (pagemap, wake, done);
        (k.nr_copies, k.nr_written, k.faults) = (0, 0, -1);
        // the heap may have grown while the list was read; nothing is allocated any more
        k.heap_end = libc::sbrk(0).addr();
        maps.iter_mut().filter(|map| map.is_heap).for_each(|map| map.end = k.heap_end);
        let pages: usize = maps.iter().map(|map| (map.end - map.start) / PAGE).sum();
        k.is_full = maps.len() > RANGES_MAX || pages > PAGES_MAX;
        k.nr_ranges = 0;
        let mut first = 0;
        for map in maps.iter().filter(|_| !k.is_full) {
            let pages = (map.end - map.start) / PAGE;
            k.ranges[k.nr_ranges] = Range { start: map.start, pages, first, is_file: map.is_file };
            first += pages;
            k.nr_ranges += 1;
        }
        schedlab_again_keep(&raw mut k.place, keep, kept);
    }
    Ok(())
}

/// The schedule is over: the process says so, puts its memory back, and waits.
pub(super) fn leave(kept: *mut Kept) -> ! {
    // SAFETY: the stack in `kept` is used for nothing else, and ends on a boundary of 16 bytes.
    unsafe {
        let end = (&raw mut (*kept).stack).cast::<u8>().add(STACK);
        schedlab_again_on(end.with_addr(end.addr() & !15), put_back, kept)
    }
}

/// The writable private memory of this process.
fn maps() -> io::Result<Vec<Map>> {
    let map = |line: &str| {
        // 7ffe658b5000-7ffe658d6000 rw-p 00000000 00:00 0    [stack]
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words.first()?.split_once('-')?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        let rights = words.get(1)?.as_bytes();
        let is_file = *words.get(4)? != "0";
        let is_heap = words.get(5) == Some(&"[heap]");
        let map = Map { start: hex(start)?, end: hex(end)?, is_file, is_heap };
        (rights[1] == b'w' && rights[3] == b'p').then_some(map)
    };
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().filter_map(map).collect())
}

/// Calls `what` for each page of the ranges: its number, its address, its entry in the page map, whether it is a
/// file's.
///
/// # Safety
/// `kept` is whole, and nobody else uses it.
unsafe fn each_page(kept: *mut Kept, mut what: impl FnMut(usize, usize, u64, bool)) {
    // SAFETY: as above; the chunk has room for what is read.
    unsafe {
        for n in 0..(*kept).nr_ranges {
            let Range { start, pages, first, is_file } = (*kept).ranges[n];
            let mut page = 0;
            while page < pages {
                let wanted = (pages - page).min(CHUNK);
                let chunk = (&raw mut (*kept).chunk).cast::<u64>();
                let from = (start / PAGE + page) * 8;
                let got = libc::pread((*kept).pagemap, chunk.cast(), wanted * 8, from as i64);
                if got < 8 {
                    (*kept).is_full = true;
                    return;
                }
                for at in 0..got as usize / 8 {
                    let number = page + at;
                    what(first + number, start + number * PAGE, *chunk.add(at), is_file);
                }
                page += got as usize / 8;
            }
        }
    }
}

/// Bits of a page map's entry.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const OWN: u64 = 1 << 56;

/// Copies all that is there.
extern "C" fn keep(kept: *mut Kept) {
    // SAFETY: the pages are there, and readable; the copies have room.
    unsafe {
        each_page(kept, |number, at, entry, is_file| {
            let nr = (*kept).nr_copies;
            (*kept).copy_of[number] = 0;
            if entry & (PRESENT | SWAPPED) == 0 && !is_file {
                return;
            }
            if nr == COPIES_MAX {
                (*kept).is_full = true;
                return;
            }
            let to = (&raw mut (*kept).copies[nr]).cast::<u8>();
            std::ptr::copy_nonoverlapping(std::ptr::with_exposed_provenance::<u8>(at), to, PAGE);
            (*kept).copy_of[number] = nr as u32 + 1;
            (*kept).nr_copies = nr + 1;
        });
    }
}

fn faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: zeroed is a valid rusage, and the call writes one.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init().ru_minflt
    }
}

/// Runs on its own stack, and touches nothing that is put back once that has begun.
extern "C" fn put_back(kept: *mut Kept) {
    // SAFETY: all that is copied lies in the ranges, which are writable; a page without a copy was zero.
    unsafe {
        let mut byte = [0u8];
        if faults() != (*kept).faults {
            (*kept).nr_written = 0;
            each_page(kept, |number, at, entry, _| {
                let nr = (*kept).nr_written;
                if entry & (PRESENT | OWN | OF_FILE) != (PRESENT | OWN) {
                    return;
                }
                if nr == COPIES_MAX {
                    (*kept).is_full = true;
                    return;
                }
                (*kept).written[nr] = Written { at, copy: (*kept).copy_of[number].wrapping_sub(1) };
                (*kept).nr_written = nr + 1;
            });
        }
        let k = &mut *kept;
        if k.is_full || libc::write(k.done, byte.as_ptr().cast::<c_void>(), 1) != 1 {
            libc::_exit(0);
        }
        libc::brk(std::ptr::with_exposed_provenance_mut(k.heap_end));
        let got = loop {
            let got = libc::read(k.wake, byte.as_mut_ptr().cast::<c_void>(), 1);
            if got >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break got;
            }
        };
        if got != 1 {
            libc::_exit(0);
        }
        k.faults = faults();
        for n in 0..k.nr_written {
            let Written { at, copy } = k.written[n];
            let to = std::ptr::with_exposed_provenance_mut::<u8>(at);
            match copy {
                u32::MAX => std::ptr::write_bytes(to, 0, PAGE),
                copy => {
                    std::ptr::copy_nonoverlapping((&raw const k.copies[copy as usize]).cast(), to, PAGE);
                }
            }
        }
        schedlab_again_go(&raw const k.place);
    }
}
