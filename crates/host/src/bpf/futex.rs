//! Who waits at a futex, and who wakes? What the call of `futex` that has just returned was given.
//!
//! ```text
//! futex(0x7f..10, WAIT | PRIVATE, 2) = 0    key: the process's memory and the address; room: 2
//! futex(0x7f..10, WAKE | PRIVATE, 1) = 0    the same key: it woke nobody
//! ```
//!
//! A futex that is not private is known by its address alone: processes that share it by a fork have it at the same
//! one. Memory that two processes map at different addresses is taken for two futexes.

use super::insn::{Asm, FRAME, Helper, If, R0, R1, R2, R3, R6, R8, Size};
use super::objects::{CALL, KEY, KIND, OTHER, ROOM, follow};
use super::programs::{Generator, Unsupported};
use schedlab_trace::{FUTEX_CALL, FUTEX_REQUEUES, OBJECT_FUTEX};

/// FUTEX_PRIVATE_FLAG, and what of an operation is no flag (include/uapi/linux/futex.h).
const PRIVATE: i32 = 128;
const OPERATION: i32 = 127;
/// By so many bits is the address of a process's description shifted before another address is added: both together
/// are the identity.
const PROCESS_SHIFT: i32 = 16;

impl Generator<'_> {
    /// Puts what a call of `futex` was given on the stack.
    pub(super) fn futex(&self, asm: &mut Asm) -> Result<(), Unsupported> {
        let register = |asm: &mut Asm, to, name| {
            asm.load(Size::Long, R1, R6, 0);
            asm.load(Size::Long, to, R1, self.offset("pt_regs", name)?);
            Ok::<(), Unsupported>(())
        };
        let (private, second, done) = (asm.label(), asm.label(), asm.label());
        register(asm, R8, "si")?;
        self.process(asm)?;
        asm.jump(If::Has(PRIVATE), R8, private);
        asm.set(R3, 0);
        asm.here(private);
        register(asm, R2, "di")?;
        asm.add_reg(R2, R3);
        asm.store(Size::Long, FRAME, KEY, R2);
        register(asm, R2, "dx")?;
        asm.store(Size::Word, FRAME, ROOM, R2);
        asm.store_value(Size::Word, FRAME, KIND, OBJECT_FUTEX as i32);
        asm.and(R8, OPERATION);
        asm.mov(R2, R8);
        asm.shift_left(R2, 16);
        asm.or(R2, FUTEX_CALL as i32);
        asm.store(Size::Word, FRAME, CALL, R2);
        for operation in FUTEX_REQUEUES {
            asm.jump(If::Eq(operation as i32), R8, second);
        }
        asm.jump(If::Always, R0, done);
        asm.here(second);
        register(asm, R2, "r8")?;
        asm.add_reg(R2, R3);
        asm.store(Size::Long, FRAME, OTHER, R2);
        asm.here(done);
        Ok(())
    }

    /// r3 = what tells this process's memory from that of others, to be added to an address in it.
    pub(super) fn process(&self, asm: &mut Asm) -> Result<(), Unsupported> {
        asm.call(Helper::CurrentTask);
        asm.mov(R3, R0);
        follow(asm, self.offset("task_struct", "mm")?);
        asm.shift_left(R3, PROCESS_SHIFT);
        Ok(())
    }
}
