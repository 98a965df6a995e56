//! How does the explorer go from one CPU's stack to another's?
//!
//! Registers that a C function keeps are pushed, the stack pointer is stored, the other one's taken: some 2 ns.

use std::arch::global_asm;
use std::ffi::c_void;
use std::io;
use std::ops::Range;

global_asm!(
    ".globl schedlab_race_switch",
    ".type schedlab_race_switch,@function",
    "schedlab_race_switch:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    // (function, a, b, c, r15): the kernel's code expects the CPU in r15
    ".globl schedlab_race_call",
    ".type schedlab_race_call,@function",
    "schedlab_race_call:",
    "push r15",
    "mov r15, r8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "call rax",
    "pop r15",
    "ret",
);

unsafe extern "C" {
    fn schedlab_race_switch(from: *mut usize, to: usize);
    fn schedlab_race_call(function: usize, a: usize, b: usize, c: usize, r15: usize) -> usize;
}

/// Goes on where `to` was left; `from` gets the place to come back to.
///
/// # Safety
/// `to` is a stack pointer that this function or [`Stacks::fresh`] made, and no object with a destructor is alive in
/// frames that are never returned to.
pub(crate) unsafe fn switch(from: *mut usize, to: usize) {
    // SAFETY: the caller's promise.
    unsafe { schedlab_race_switch(from, to) }
}

/// Calls a C function with up to three arguments and this value in register r15.
///
/// # Safety
/// `function` is one that takes these arguments.
pub(crate) unsafe fn call(function: usize, arguments: [usize; 3], r15: usize) -> usize {
    let [a, b, c] = arguments;
    // SAFETY: the caller's promise; r15 is put back.
    unsafe { schedlab_race_call(function, a, b, c, r15) }
}

/// Stacks side by side, each with an unreadable page below it.
pub(crate) struct Stacks {
    base: usize,
    number: usize,
}

/// Of a CPU, in bytes.
pub(crate) const STACK: usize = 64 << 10;
const GUARD: usize = 4096;

impl Stacks {
    /// # Errors
    /// No memory.
    pub(crate) fn new(number: usize) -> io::Result<Stacks> {
        let bytes = number * (STACK + GUARD);
        // SAFETY: a new mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stacks = Stacks { base: base as usize, number };
        for n in 0..number {
            let guard = (stacks.range(n).start - GUARD) as *mut c_void;
            // SAFETY: a page of the mapping above.
            if unsafe { libc::mprotect(guard, GUARD, libc::PROT_NONE) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(stacks)
    }

    /// Where stack `n` is.
    pub(crate) fn range(&self, n: usize) -> Range<usize> {
        let start = self.base + n * (STACK + GUARD) + GUARD;
        start..start + STACK
    }

    /// All of them.
    pub(crate) fn all(&self) -> Range<usize> {
        self.base..self.base + self.number * (STACK + GUARD)
    }

    /// A stack pointer for [`switch`] with which `entry` begins on stack `n`.
    pub(crate) fn fresh(&self, n: usize, entry: extern "C" fn() -> !) -> usize {
        let top = self.range(n).end - 64;
        // six registers, the entry, and a return address that is never used; the stack is aligned as at a call
        let words: [usize; 8] = [0, 0, 0, 0, 0, 0, entry as usize, 0];
        let sp = top - size_of_val(&words);
        // SAFETY: within the stack, which nobody is on.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), sp as *mut usize, words.len()) };
        sp
    }
}
