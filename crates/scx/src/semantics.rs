//! What do BPF programs rely on that native code lacks? Division by zero, and loads through bad pointers.
//!
//! BPF: `x / 0 = 0`, `x % 0 = x`, `INT_MIN / -1 = INT_MIN`; a load through a bad pointer of a kernel type (0,
//! freed, not an address) reads 0. x86 traps in all these cases. The signal's handler does what BPF does, if
//! the instruction is the scheduler's:
//!
//! ```text
//! div %rcx, rcx = 0                  rax = 0, rdx = rax as it was; go on behind it
//! mov 0x10(%rdi),%eax, rdi = 0       rdi points into a page of zeros; one step; rdi = 0 again, eax = 0
//! ```
//!
//! The second works for every instruction that loads, since the processor executes it; which registers it has
//! is all that is decoded. A store through a bad pointer is what BPF's verifier refuses: the run ends as a
//! crash.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// How often the handlers had to act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) divisions: u64,
    pub(crate) loads: u64,
}

/// Code of a scheduler's object, and the object's own count of loads.
struct Armed {
    start: AtomicUsize,
    end: AtomicUsize,
    faults: AtomicPtr<u64>,
}

/// The scheduler, and its sub-schedulers.
pub(crate) const MOST: usize = 16;
static ARMED: [Armed; MOST] = [const {
    Armed { start: AtomicUsize::new(0), end: AtomicUsize::new(0), faults: AtomicPtr::new(ptr::null_mut()) }
}; MOST];
static NR_ARMED: AtomicUsize = AtomicUsize::new(0);
/// Readable zeros; loads are sent to their middle.
static ZEROS: AtomicUsize = AtomicUsize::new(0);
static DIVISIONS: AtomicU64 = AtomicU64::new(0);
static LOADS: AtomicU64 = AtomicU64::new(0);
/// A load under way: the register + 1, what it held, what it holds meanwhile.
static STEP_REGISTER: AtomicUsize = AtomicUsize::new(0);
static STEP_ORIGINAL: AtomicUsize = AtomicUsize::new(0);
static STEP_SUBSTITUTE: AtomicUsize = AtomicUsize::new(0);

const ZERO_BYTES: usize = 8192;
const TRAP_FLAG: i64 = 0x100;

/// The general registers in the order of instruction encoding, as indexes of `gregs`.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];
const RAX: usize = 0;
const RDX: usize = 2;
const RSP: usize = 4;

/// The operand that can be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Register(usize),
    Memory { base: Option<usize>, index: Option<(usize, u32)>, displacement: i64 },
}

/// As much of an instruction as is needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    /// 0: one byte; 1: after 0f.
    map: u8,
    opcode: u8,
    /// The ModRM byte's reg field: a register, or a part of the opcode.
    reg: usize,
    operand: Operand,
    is_16: bool,
    is_64: bool,
    /// Bytes up to the end of the displacement: without an immediate operand.
    length: usize,
}

impl Instruction {
    fn decode(code: &[u8]) -> Option<Instruction> {
        let mut at = 0;
        let mut next = || {
            at += 1;
            code.get(at - 1).copied()
        };
        let (mut is_16, mut rex) = (false, 0);
        let mut byte = next()?;
        while matches!(byte, 0x66 | 0xf2 | 0xf3 | 0x2e | 0x3e | 0x26) {
            is_16 |= byte == 0x66;
            byte = next()?;
        }
        if byte & 0xf0 == 0x40 {
            rex = byte;
            byte = next()?;
        }
        let mut map = 0;
        if byte == 0x0f {
            map = 1;
            byte = next()?;
            if byte == 0x38 || byte == 0x3a {
                return None;
            }
        }
        let opcode = byte;
        let modrm = next()?;
        let extend = |bit: u8| usize::from(rex >> bit & 1) << 3;
        let (mode, rm) = (modrm >> 6, usize::from(modrm & 7));
        let operand = if mode == 3 {
            Operand::Register(rm | extend(0))
        } else {
            let (mut base, mut index) = (Some(rm | extend(0)), None);
            let mut wide = mode == 2;
            if rm == 4 {
                let sib = next()?;
                let (b, i) = (usize::from(sib & 7), usize::from(sib >> 3 & 7) | extend(1));
                base = Some(b | extend(0));
                if i != RSP {
                    index = Some((i, 1 << (sib >> 6)));
                }
                if b == 5 && mode == 0 {
                    (base, wide) = (None, true);
                }
            } else if rm == 5 && mode == 0 {
                // relative to the instruction pointer: never a bad pointer
                return None;
            }
            let displacement = if wide {
                let bytes = [next()?, next()?, next()?, next()?];
                i64::from(i32::from_le_bytes(bytes))
            } else if mode == 1 {
                i64::from(next()? as i8)
            } else {
                0
            };
            Operand::Memory { base, index, displacement }
        };
        let reg = usize::from(modrm >> 3 & 7) | extend(2);
        Some(Instruction { map, opcode, reg, operand, is_16, is_64: rex & 8 != 0, length: at })
    }

    /// Whether it reads its memory operand, and nothing else happens there.
    fn is_load(&self) -> bool {
        let part = self.reg & 7;
        match (self.map, self.opcode) {
            (0, 0x8a | 0x8b | 0x63 | 0x69 | 0x6b | 0x84 | 0x85) => true,
            // add, or, adc, sbb, and, sub, xor with a register as destination; all forms of cmp
            (0, 0x38..=0x3b) => true,
            (0, op @ 0x00..=0x37) => matches!(op & 7, 2 | 3),
            (0, 0x80 | 0x81 | 0x83) => part == 7,
            (0, 0xf6 | 0xf7) => matches!(part, 0 | 1 | 4..=7),
            // cmov, bt, imul, movzx, movsx, popcnt, bit scans
            (1, 0x40..=0x4f | 0xa3 | 0xaf | 0xb6 | 0xb7 | 0xb8 | 0xbc | 0xbd | 0xbe | 0xbf) => true,
            (1, 0xba) => part == 4,
            _ => false,
        }
    }

    /// Bits that a division works with.
    fn width(&self) -> u32 {
        match self.opcode & 1 {
            0 => 8,
            _ if self.is_64 => 64,
            _ if self.is_16 => 16,
            _ => 32,
        }
    }
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// What BPF makes of a division that traps: the registers rax and rdx afterwards.
///
/// A trap without a divisor of 0 is the smallest number by -1.
fn divided(width: u32, divisor: u64, rax: u64, rdx: u64) -> (u64, u64) {
    let low = mask(width);
    let is_zero = divisor & low == 0;
    let (quotient, remainder) = if is_zero { (0, rax & low) } else { (rax & low, 0) };
    match width {
        // al and ah
        8 => (rax & !0xffff | quotient | remainder << 8, rdx),
        16 => (rax & !low | quotient, rdx & !low | remainder),
        // a result of 32 bits clears the upper half
        _ => (quotient, remainder),
    }
}

/// The registers of the interrupted code.
struct Registers<'a>(&'a mut [i64; 23]);

impl Registers<'_> {
    fn get(&self, register: usize) -> u64 {
        self.0[REGISTERS[register] as usize] as u64
    }
    fn set(&mut self, register: usize, value: u64) {
        self.0[REGISTERS[register] as usize] = value as i64;
    }
    fn instruction_pointer(&self) -> usize {
        self.0[libc::REG_RIP as usize] as usize
    }
    fn address(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Register(_) => 0,
            Operand::Memory { base, index, displacement } => {
                let base = base.map_or(0, |r| self.get(r));
                let index = index.map_or(0, |(r, scale)| self.get(r).wrapping_mul(u64::from(scale)));
                base.wrapping_add(index).wrapping_add(displacement as u64)
            }
        }
    }
    /// Whose code it is.
    fn armed(&self) -> Option<&'static Armed> {
        let at = self.instruction_pointer();
        let holds =
            |a: &&Armed| (a.start.load(Ordering::Relaxed)..a.end.load(Ordering::Relaxed)).contains(&at);
        ARMED[..NR_ARMED.load(Ordering::Relaxed)].iter().find(holds)
    }
    /// The instruction, if it is the scheduler's.
    fn instruction(&self) -> Option<Instruction> {
        let (at, end) = (self.instruction_pointer(), self.armed()?.end.load(Ordering::Relaxed));
        // SAFETY: the bytes from here to the end of the object's code, at most 15, are mapped and not written to.
        let code = unsafe { std::slice::from_raw_parts(at as *const u8, (end - at).min(15)) };
        Instruction::decode(code)
    }

    fn divide(&mut self) -> bool {
        let Some(i) = self.instruction() else { return false };
        if i.map != 0 || !matches!(i.opcode, 0xf6 | 0xf7) || !matches!(i.reg & 7, 6 | 7) {
            return false;
        }
        let divisor = match i.operand {
            // ah and the like are not used as divisors by compilers that have 16 registers
            Operand::Register(r) => self.get(r),
            memory => {
                // SAFETY: the processor has just read a divisor of this width there.
                unsafe {
                    let at = self.address(memory) as *const u8;
                    match i.width() {
                        8 => u64::from(at.read_unaligned()),
                        16 => u64::from(at.cast::<u16>().read_unaligned()),
                        32 => u64::from(at.cast::<u32>().read_unaligned()),
                        _ => at.cast::<u64>().read_unaligned(),
                    }
                }
            }
        };
        let (rax, rdx) = divided(i.width(), divisor, self.get(RAX), self.get(RDX));
        self.set(RAX, rax);
        self.set(RDX, rdx);
        self.0[libc::REG_RIP as usize] += i.length as i64;
        DIVISIONS.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Let the load read zeros: send its base register there for one step.
    fn redirect(&mut self) -> bool {
        let Some(i) = self.instruction().filter(Instruction::is_load) else { return false };
        let Operand::Memory { base: Some(base), index, .. } = i.operand else { return false };
        let zeros = ZEROS.load(Ordering::Relaxed);
        let busy = STEP_REGISTER.load(Ordering::Relaxed) != 0;
        if busy || base == RSP || index.is_some_and(|(r, _)| r == base) || zeros == 0 {
            return false;
        }
        let original = self.get(base);
        let middle = (zeros + ZERO_BYTES / 2) as u64;
        let substitute = original.wrapping_add(middle.wrapping_sub(self.address(i.operand)));
        STEP_ORIGINAL.store(original as usize, Ordering::Relaxed);
        STEP_SUBSTITUTE.store(substitute as usize, Ordering::Relaxed);
        STEP_REGISTER.store(base + 1, Ordering::Relaxed);
        self.set(base, substitute);
        self.0[libc::REG_EFL as usize] |= TRAP_FLAG;
        LOADS.fetch_add(1, Ordering::Relaxed);
        let faults = self.armed().map_or(ptr::null_mut(), |armed| armed.faults.load(Ordering::Relaxed));
        if !faults.is_null() {
            // SAFETY: a counter in the object's data; one thread.
            unsafe { *faults += 1 };
        }
        true
    }

    fn stepped(&mut self) -> bool {
        let Some(register) = STEP_REGISTER.swap(0, Ordering::Relaxed).checked_sub(1) else { return false };
        // unless it was the load's destination
        if self.get(register) == STEP_SUBSTITUTE.load(Ordering::Relaxed) as u64 {
            self.set(register, STEP_ORIGINAL.load(Ordering::Relaxed) as u64);
        }
        self.0[libc::REG_EFL as usize] &= !TRAP_FLAG;
        true
    }
}

unsafe extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context of this thread, which nobody else refers to.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let mut registers = Registers(registers);
    let handled = match signal {
        libc::SIGFPE => registers.divide(),
        libc::SIGTRAP => registers.stepped(),
        _ => registers.redirect(),
    };
    if handled {
        return;
    }
    let before = SIGNALS.iter().position(|s| *s == signal).map_or(0, |i| BEFORE[i].load(Ordering::Relaxed));
    if before == libc::SIG_DFL || before == libc::SIG_IGN {
        // the instruction is executed again, and the process ends by this signal
        // SAFETY: signal() is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    } else {
        // SAFETY: the handler that was there, which takes these three arguments (SA_SIGINFO, as `arm` has checked).
        unsafe {
            let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(before);
            handler(signal, info, context);
        }
    }
}

const SIGNALS: [c_int; 4] = [libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP];
/// Handlers that were there before, in this order.
static BEFORE: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Have BPF's rules hold for the code in `text`, beside what they hold for already; `faults` counts loads as well.
///
/// # Safety
/// `text` must be the code of an object that stays loaded, `faults` a counter in its data or null.
pub(crate) unsafe fn arm(text: std::ops::Range<usize>, faults: *mut u64) -> io::Result<()> {
    let number = NR_ARMED.load(Ordering::Relaxed);
    let Some(slot) = ARMED.get(number) else {
        return Err(io::Error::other(format!("a run has at most {} sub-schedulers", MOST - 1)));
    };
    slot.start.store(text.start, Ordering::Relaxed);
    slot.end.store(text.end, Ordering::Relaxed);
    slot.faults.store(faults, Ordering::Relaxed);
    NR_ARMED.store(number + 1, Ordering::Relaxed);
    if number > 0 {
        return Ok(());
    }
    let map = |len, protection| {
        // SAFETY: a new anonymous mapping.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), len, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at) }
    };
    const STACK: usize = 64 << 10;
    let zeros = map(ZERO_BYTES, libc::PROT_READ)?;
    let stack = map(STACK, libc::PROT_READ | libc::PROT_WRITE)?;
    ZEROS.store(zeros as usize, Ordering::Relaxed);
    // the simulated kernel's stacks are small
    let alternate = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack is mapped for the rest of the process; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        if libc::sigaltstack(&alternate, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        for (signal, slot) in SIGNALS.into_iter().zip(&BEFORE) {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, &action, &mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let takes_three = before.sa_flags & libc::SA_SIGINFO != 0;
            slot.store(if takes_three { before.sa_sigaction } else { libc::SIG_DFL }, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Where the code of the run's schedulers lies: the scheduler's, then its sub-schedulers' in order of their
/// groups. For signal handlers.
pub(crate) fn texts() -> [(usize, usize); MOST] {
    let at = |armed: &Armed| (armed.start.load(Ordering::Relaxed), armed.end.load(Ordering::Relaxed));
    std::array::from_fn(|i| at(&ARMED[i]))
}

/// How often so far.
pub(crate) fn counts() -> Counts {
    Counts { divisions: DIVISIONS.load(Ordering::Relaxed), loads: LOADS.load(Ordering::Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(code: &[u8]) -> Instruction {
        Instruction::decode(code).unwrap()
    }

    /// Encodings from the processor's manual (Intel SDM, volume 2).
    #[test]
    fn instructions_are_decoded() {
        let memory = |base, displacement| Operand::Memory { base: Some(base), index: None, displacement };
        // mov 0x10(%rdi),%eax
        let i = decode(&[0x8b, 0x47, 0x10]);
        assert_eq!((i.operand, i.length, i.is_load()), (memory(7, 16), 3, true));
        // mov %eax,0x10(%rdi): a store
        assert!(!decode(&[0x89, 0x47, 0x10]).is_load());
        // mov 0x12345678(%r12),%r9
        let i = decode(&[0x4d, 0x8b, 0x8c, 0x24, 0x78, 0x56, 0x34, 0x12]);
        assert_eq!((i.operand, i.reg, i.is_64, i.length), (memory(12, 0x1234_5678), 9, true, 8));
        // movzwl -8(%rax,%rbx,4),%ecx
        let i = decode(&[0x0f, 0xb7, 0x4c, 0x98, 0xf8]);
        let operand = Operand::Memory { base: Some(0), index: Some((3, 4)), displacement: -8 };
        assert_eq!((i.map, i.operand, i.is_load()), (1, operand, true));
        // cmpl $0x5,0x8(%rdx)
        assert!(decode(&[0x83, 0x7a, 0x08, 0x05]).is_load());
        // addl $0x5,0x8(%rdx): a store
        assert!(!decode(&[0x83, 0x42, 0x08, 0x05]).is_load());
        // call *0x8(%rdx)
        assert!(!decode(&[0xff, 0x52, 0x08]).is_load());
        // div %rcx; idivl (%rsi); divb %cl; div %cx
        let i = decode(&[0x48, 0xf7, 0xf1]);
        assert_eq!((i.operand, i.reg, i.width(), i.length), (Operand::Register(1), 6, 64, 3));
        let i = decode(&[0xf7, 0x3e]);
        assert_eq!((i.operand, i.reg, i.width(), i.length), (memory(6, 0), 7, 32, 2));
        assert_eq!(decode(&[0xf6, 0xf1]).width(), 8);
        assert_eq!(decode(&[0x66, 0xf7, 0xf1]).width(), 16);
    }

    /// BPF's instruction set (RFC 9669): x / 0 = 0, x % 0 = x, INT_MIN / -1 = INT_MIN, INT_MIN % -1 = 0.
    #[test]
    fn divisions_are_bpfs() {
        assert_eq!(divided(64, 0, 77, 5), (0, 77));
        assert_eq!(divided(32, 0xffff_ffff_0000_0000, 0x1_0000_004d, 5), (0, 0x4d));
        let smallest = 1u64 << 63;
        assert_eq!(divided(64, u64::MAX, smallest, u64::MAX), (smallest, 0));
        assert_eq!(divided(32, 0xffff_ffff, 0x8000_0000, 0xffff_ffff), (0x8000_0000, 0));
        // al = 0, ah = 7; the rest stays
        assert_eq!(divided(8, 0, 0xabcd_0007, 9), (0xabcd_0700, 9));
    }
}
