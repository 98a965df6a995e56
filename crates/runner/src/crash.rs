//! Where was the scheduler when it crashed, or when it would not come back?
//!
//! The child's handler for fatal signals (on a stack of its own) copies what is needed into the page that it
//! shares with its caller: registers, the words of the kernel stack that look like return addresses, the
//! simulated time, how many records wait to be written. The caller, which is healthy, looks the addresses up
//! in the kernel object's symbol table:
//!
//! ```text
//! SIGSEGV at address 0x8 (a NULL pointer) in pick_next_entity+0x12, on cpu1
//!   called from
//!     pick_next_task_fair+0x9b
//!     __schedule+0x1f0
//! SIGSEGV at address 0x0 (a NULL pointer) in my_enqueue+0x7 (my.bpf.c:31), on cpu0
//! ```
//!
//! A child that does not come back gets [`ASK`], and answers in the same way from wherever it is.

use schedlab_linux::abi::{Abi, Cpu};
use schedlab_linux::callers::{Code, chain};
use schedlab_linux::kernel::WINDOW;
use schedlab_linux::stack;
use schedlab_log::Record;
use schedlab_scx as scx;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The signal by which the worker asks a child that does not come back where it is.
pub(crate) const ASK: i32 = libc::SIGUSR2;

/// Return addresses that are kept.
const CALLS: usize = 24;

/// What the handler leaves behind. Plain data: written by the child, read by the caller when the child is gone.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    /// 0: no crash.
    signal: i32,
    /// Which simulated CPU; `u32::MAX` = unknown.
    cpu: u32,
    /// What the faulting instruction reached for.
    address: u64,
    /// Program counter.
    at: u64,
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 ... r15.
    registers: [u64; 16],
    /// The kernel object's code; 0 = none is loaded.
    text_start: u64,
    text_end: u64,
    /// The schedulers' code, as scx::texts() says.
    schedulers: [(usize, usize); scx::MOST],
    /// Simulated time from the workload's start.
    time_ns: u64,
    nr_calls: u32,
    /// Records in the kernel object's window that are not yet handed on.
    nr_window: u32,
    calls: [u64; CALLS],
}

const NAMES: [&str; 16] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

static SCENE: AtomicPtr<Scene> = AtomicPtr::new(std::ptr::null_mut());
static TABLE: AtomicPtr<Abi> = AtomicPtr::new(std::ptr::null_mut());
static BUSY: AtomicU32 = AtomicU32::new(0);

/// In the child: from now on fatal signals leave a description in `scene`.
pub(crate) fn watch(scene: *mut Scene) {
    SCENE.store(scene, Ordering::SeqCst);
    const ALT_STACK: usize = 64 << 10;
    let stack = Box::leak(vec![0u8; ALT_STACK].into_boxed_slice());
    let alternate = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: ALT_STACK };
    // SAFETY: the stack is never freed; the handler only touches its arguments, the atomics above and what
    // they point to.
    unsafe {
        libc::sigaltstack(&alternate, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, ASK]
        {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// In the child: this kernel is loaded.
pub(crate) fn loaded(table: *const Abi) {
    TABLE.store(table.cast_mut(), Ordering::SeqCst);
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let scene = SCENE.load(Ordering::SeqCst);
    if !scene.is_null() && BUSY.swap(1, Ordering::SeqCst) == 0 {
        // SAFETY: the kernel hands in both structures; the scene is the shared page's, which nobody else writes.
        unsafe { describe(signal, &*info, &*context.cast::<libc::ucontext_t>(), &mut *scene) };
    }
    // SAFETY: the signal's default action ends this process: the worker sees why.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// SAFETY: `info` and `context` are those of the signal; a kernel that [`loaded`] has named is still loaded.
unsafe fn describe(signal: i32, info: &libc::siginfo_t, context: &libc::ucontext_t, scene: &mut Scene) {
    use libc::{
        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP, REG_RBX,
        REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP,
    };
    const ORDER: [i32; 16] = [
        REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9, REG_R10,
        REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    let register = |which: i32| context.uc_mcontext.gregs[which as usize] as u64;
    scene.registers = ORDER.map(register);
    scene.at = register(REG_RIP);
    // SAFETY: the field is meant for these signals.
    scene.address = unsafe { info.si_addr() } as u64;
    scene.cpu = u32::MAX;
    let table = TABLE.load(Ordering::SeqCst);
    if !table.is_null() {
        // SAFETY: the table is the loaded kernel's, see above.
        let table = unsafe { &*table };
        (scene.text_start, scene.text_end) = (table.text_start as u64, table.text_end as u64);
        // SAFETY: the clock is the kernel's variable.
        scene.time_ns = unsafe { *table.now_ns }.saturating_sub(table.log_epoch_ns);
        // r15 is the virtual CPU in all kernel code
        let (first, this) = (table.cpus as usize, register(REG_R15) as usize);
        if (first..first + table.max_cpus as usize * size_of::<Cpu>()).contains(&this) {
            scene.cpu = ((this - first) / size_of::<Cpu>()) as u32;
        }
        if !table.log_next.is_null() {
            let start = (table.log_end as usize).saturating_sub(WINDOW * size_of::<Record>());
            let written = (table.log_next as usize).saturating_sub(start) / size_of::<Record>();
            scene.nr_window = written as u32;
        }
        scene.schedulers = scx::texts();
        let mut texts = [(0, 0); scx::MOST + 1];
        texts[1..].copy_from_slice(&scene.schedulers);
        texts[0] = (scene.text_start as usize, scene.text_end as usize);
        let inside = texts.iter().any(|(start, end)| (*start..*end).contains(&(scene.at as usize)));
        // a jump to nowhere has its return address on top of the stack
        if inside || scene.at < 4096 {
            // SAFETY: the stack pointer is a kernel stack's, which is mapped up to its end.
            let found = unsafe { stack::walk(register(REG_RSP) as usize, &texts, &mut scene.calls) };
            scene.nr_calls = found as u32;
        }
    }
    // last: everything above is there
    scene.signal = signal;
}

impl Scene {
    /// Whether the handler has been there.
    pub(crate) fn is_there(&self) -> bool {
        self.signal != 0
    }

    /// The system call that was refused, in words.
    pub(crate) fn refused_call(&self) -> Option<String> {
        // the kernel puts the number back into rax
        let [call, ..] = self.registers;
        (self.signal == libc::SIGSYS).then(|| schedlab_process::contain::refused_call(call))
    }

    /// Simulated time.
    pub(crate) fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Records in the kernel object's window, at most so many.
    pub(crate) fn nr_window(&self, at_most: usize) -> usize {
        (self.nr_window as usize).min(at_most)
    }

    /// Where it was, in words. `object` is the kernel object's file, if the scheduler is one; `schedulers` are
    /// those of sched_ext.
    pub(crate) fn place(&self, object: Option<&Path>, schedulers: &[&Path]) -> String {
        let kernel = object.and_then(|path| Code::of_kernel(path, self.text_start, self.text_end));
        let loaded = schedulers.iter().zip(&self.schedulers).filter(|(_, (start, _))| *start != 0);
        let theirs =
            loaded.filter_map(|(path, (start, end))| Code::of_scheduler(path, *start as u64, *end as u64));
        let code: Vec<Code> = kernel.into_iter().chain(theirs).collect();
        let calls = &self.calls[..(self.nr_calls as usize).min(CALLS)];
        let (at, callers) = chain(self.at, calls, &code);
        let cpu = if self.cpu == u32::MAX { String::new() } else { format!(", on cpu{}", self.cpu) };
        let mut text = match &at {
            Some(place) => format!("in {place}{cpu}"),
            None if self.at < 4096 => format!("after a jump to {:#x}{cpu}", self.at),
            None => format!("at {:#x}, outside the kernel object{cpu}", self.at),
        };
        if !callers.is_empty() {
            text.push_str("\n  called from");
            callers.iter().for_each(|caller| text.push_str(&format!("\n    {caller}")));
        }
        if self.at < 4096 || at.is_some() {
            text.push_str("\n  registers");
            for (i, (name, value)) in NAMES.iter().zip(self.registers).enumerate() {
                let start = if i % 4 == 0 { "\n    " } else { "  " };
                text.push_str(&format!("{start}{name:<3} {value:016x}"));
            }
        }
        text
    }

    /// What the bad access was.
    pub(crate) fn access(&self) -> String {
        match self.signal {
            libc::SIGSEGV | libc::SIGBUS if self.address < 4096 => {
                format!(" at address {:#x} (a NULL pointer)", self.address)
            }
            libc::SIGSEGV | libc::SIGBUS => format!(" at address {:#x}", self.address),
            _ => String::new(),
        }
    }
}
