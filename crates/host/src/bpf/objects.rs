//! At which pipe or socket did a system call that has just returned send or receive, and how much?
//!
//! One program at the end of every system call: the number of the call says the direction, its first argument the file,
//! the file's inode what it is. A call that waited and one that did not look alike; which of them slept the switches
//! say.
//!
//! ```text
//! write(5, ..., 100) = 100   file 5 of the task ── inode: a pipe ── pipe_inode_info: number, size of the ring
//! sendto(7, ..., 100) = 100  file 7 ── a socket ── unix: the peer that will receive; inet: the two ports
//! ```
//!
//! The same program writes down three kinds of calls that are no messages: the mask of `sched_setaffinity`, which
//! the caller's memory holds; that a wait for several files has found one; that a child was waited for.
//!
//! Not taken: what goes by splice, sendfile, shared memory or io_uring.

use super::insn::{Asm, FRAME, Helper, If, Label, R0, R1, R2, R3, R6, R8, Size};
use super::programs::{Generator, Source, Unsupported};
use schedlab_trace::{
    ACCEPT_CALLS, AFFINITY_CALL, CONNECT_CALL, Direction, OBJECT_AFFINITY, OBJECT_CALLS, OBJECT_CHILD,
    OBJECT_POLLED, POLL_CALLS, WAIT_CALL,
};

/// Places on the program's own stack.
pub(super) const KEY: i32 = -24;
pub(super) const KIND: i32 = -32;
pub(super) const ROOM: i32 = -28;
const DIRECTION: i32 = -40;
const WORD: i32 = -48;
const KEPT: i32 = -56;

/// Files of a task with numbers above this are not looked at.
const FILES_MAX: i32 = 1 << 20;
/// Bits of `i_mode` that tell the kind of file (include/uapi/linux/stat.h), and two kinds.
const FILE_KIND: i32 = 0xf000;
const FIFO: i32 = 0x1000;
const SOCKET: i32 = 0xc000;
/// Families of sockets (include/linux/socket.h).
const UNIX: i32 = 1;
const INET: i32 = 2;
const INET6: i32 = 10;
/// EINPROGRESS (include/uapi/asm-generic/errno.h): the connection comes without the caller.
const IN_PROGRESS: i32 = 115;
/// Bytes of a mask of CPUs that are read: 64 CPUs.
const MASK_BYTES: i32 = 8;
/// Bytes of a page, as a shift.
const PAGE_SHIFT: i32 = 12;

/// Structures that the program walks.
pub(super) const STRUCTS: [&str; 8] =
    ["files_struct", "fdtable", "file", "inode", "pipe_inode_info", "socket", "sock", "unix_sock"];

/// Fields of `schedlab:object`; arguments of `sys_exit`: registers, value returned.
pub(super) fn fields() -> Vec<(&'static str, Source)> {
    vec![
        ("key", Source::Stack(KEY)),
        ("kind", Source::Stack(KIND)),
        ("room", Source::Stack(ROOM)),
        ("call", Source::Member(0, "orig_ax")),
        ("ret", Source::Arg(1)),
    ]
}

/// r3 = *(r3 + offset), eight bytes of the kernel's; 0 where there is nothing.
fn follow(asm: &mut Asm, offset: u32) {
    asm.add(R3, offset as i32);
    asm.mov(R1, FRAME);
    asm.add(R1, WORD);
    asm.set(R2, 8);
    asm.call(Helper::ProbeReadKernel);
    asm.load(Size::Long, R3, FRAME, WORD);
}

impl Generator<'_> {
    /// Puts key, kind and room on the stack, or goes to `out` if the call is none that sends or receives something
    /// here.
    pub(super) fn object_of_call(&self, asm: &mut Asm, out: Label) -> Result<(), Unsupported> {
        let (found, send, done) = (asm.label(), asm.label(), asm.label());
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R2, R1, self.offset("pt_regs", "orig_ax")?);
        self.other_call(asm, out, done)?;
        asm.store_value(Size::Long, FRAME, DIRECTION, 0);
        self.connection(asm, out, (send, found))?;
        asm.load(Size::Long, R1, R6, 8);
        asm.set(R2, 0);
        asm.jump(If::LeReg(R2), R1, out);
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R2, R1, self.offset("pt_regs", "orig_ax")?);
        asm.load(Size::Long, R8, R1, self.offset("pt_regs", "di")?);
        for (number, direction) in OBJECT_CALLS {
            let to = if direction == Direction::Send { send } else { found };
            asm.jump(If::Eq(number as i32), R2, to);
        }
        asm.jump(If::Always, R0, out);
        asm.here(send);
        asm.store_value(Size::Long, FRAME, DIRECTION, 1);
        asm.here(found);
        asm.jump(If::Ge(FILES_MAX), R8, out);
        asm.call(Helper::CurrentTask);
        asm.mov(R3, R0);
        follow(asm, self.offset("task_struct", "files")?);
        asm.jump(If::Eq(0), R3, out);
        follow(asm, self.offset("files_struct", "fdt")?);
        follow(asm, self.offset("fdtable", "fd")?);
        asm.shift_left(R8, 3);
        asm.add_reg(R3, R8);
        follow(asm, 0);
        asm.jump(If::Eq(0), R3, out);
        asm.store(Size::Long, FRAME, KEPT, R3);
        follow(asm, self.offset("file", "f_inode")?);
        follow(asm, self.offset("inode", "i_mode")?);
        asm.and(R3, FILE_KIND);
        asm.mov(R8, R3);
        asm.load(Size::Long, R3, FRAME, KEPT);
        follow(asm, self.offset("file", "private_data")?);
        asm.jump(If::Eq(0), R3, out);
        let pipe = asm.label();
        asm.jump(If::Eq(FIFO), R8, pipe);
        asm.jump(If::Ne(SOCKET), R8, out);
        self.socket(asm, out, done)?;
        asm.here(pipe);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.store_value(Size::Word, FRAME, KIND, 1);
        follow(asm, self.offset("pipe_inode_info", "max_usage")?);
        asm.shift_left(R3, PAGE_SHIFT);
        asm.store(Size::Word, FRAME, ROOM, R3);
        asm.here(done);
        Ok(())
    }

    /// r2: number of the call. Goes on if it is none of those that are no messages: the mask of
    /// `sched_setaffinity`, the end of a wait for several files, and that of a wait for a child.
    fn other_call(&self, asm: &mut Asm, out: Label, done: Label) -> Result<(), Unsupported> {
        let (affinity, polled, child, long, on) =
            (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
        asm.jump(If::Eq(AFFINITY_CALL as i32), R2, affinity);
        asm.jump(If::Eq(WAIT_CALL as i32), R2, child);
        for number in POLL_CALLS {
            asm.jump(If::Eq(number as i32), R2, polled);
        }
        asm.jump(If::Always, R0, on);
        for (here, kind) in [(polled, OBJECT_POLLED), (child, OBJECT_CHILD)] {
            asm.here(here);
            asm.load(Size::Long, R1, R6, 8);
            asm.set(R2, 0);
            asm.jump(If::LeReg(R2), R1, out);
            asm.store_value(Size::Long, FRAME, KEY, 0);
            asm.store_value(Size::Word, FRAME, ROOM, 0);
            asm.store_value(Size::Word, FRAME, KIND, kind as i32);
            asm.jump(If::Always, R0, done);
        }
        asm.here(affinity);
        asm.load(Size::Long, R1, R6, 8);
        asm.jump(If::Ne(0), R1, out);
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R2, R1, self.offset("pt_regs", "si")?);
        asm.jump(If::Ge(MASK_BYTES), R2, long);
        asm.jump(If::Always, R0, out);
        asm.here(long);
        asm.load(Size::Long, R3, R1, self.offset("pt_regs", "di")?);
        asm.store(Size::Word, FRAME, ROOM, R3);
        asm.load(Size::Long, R3, R1, self.offset("pt_regs", "dx")?);
        asm.store_value(Size::Word, FRAME, KIND, OBJECT_AFFINITY as i32);
        asm.store_value(Size::Long, FRAME, KEY, 0);
        asm.mov(R1, FRAME);
        asm.add(R1, KEY);
        asm.set(R2, MASK_BYTES);
        asm.call(Helper::ProbeReadUser);
        asm.jump(If::Always, R0, done);
        asm.here(on);
        Ok(())
    }

    /// r2: number of the call. A connection is a message too: who connects sends it, also if it does not wait for the
    /// answer; who accepts it receives it, at the file that the call returns.
    fn connection(
        &self,
        asm: &mut Asm,
        out: Label,
        (send, found): (Label, Label),
    ) -> Result<(), Unsupported> {
        let (connect, accept, done, on) = (asm.label(), asm.label(), asm.label(), asm.label());
        asm.jump(If::Eq(CONNECT_CALL as i32), R2, connect);
        for number in ACCEPT_CALLS {
            asm.jump(If::Eq(number as i32), R2, accept);
        }
        asm.jump(If::Always, R0, on);
        asm.here(accept);
        asm.load(Size::Long, R8, R6, 8);
        asm.set(R2, 0);
        asm.jump(If::LeReg(R2), R8, out);
        asm.jump(If::Always, R0, found);
        asm.here(connect);
        asm.load(Size::Long, R1, R6, 8);
        asm.jump(If::Eq(0), R1, done);
        asm.jump(If::Ne(-IN_PROGRESS), R1, out);
        asm.here(done);
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R8, R1, self.offset("pt_regs", "di")?);
        asm.jump(If::Always, R0, send);
        asm.here(on);
        Ok(())
    }

    /// r3: a socket; leaves for `done` or `out`.
    fn socket(&self, asm: &mut Asm, out: Label, done: Label) -> Result<(), Unsupported> {
        let (unix, inet, own) = (asm.label(), asm.label(), asm.label());
        follow(asm, self.offset("socket", "sk")?);
        asm.jump(If::Eq(0), R3, out);
        asm.store(Size::Long, FRAME, KEPT, R3);
        follow(asm, self.offset("sock", "__sk_common.skc_family")?);
        asm.and(R3, 0xffff);
        asm.jump(If::Eq(UNIX), R3, unix);
        asm.jump(If::Eq(INET), R3, inet);
        asm.jump(If::Ne(INET6), R3, out);
        asm.here(inet);
        asm.store_value(Size::Word, FRAME, KIND, 3);
        asm.store_value(Size::Word, FRAME, ROOM, 0);
        asm.load(Size::Long, R3, FRAME, KEPT);
        // the peer's port, as the net writes it, and the own one as a number
        follow(asm, self.offset("sock", "__sk_common.skc_portpair")?);
        asm.mov(R8, R3);
        asm.and(R8, 0xffff);
        asm.swap16(R8);
        asm.shift_right(R3, 16);
        asm.and(R3, 0xffff);
        asm.load(Size::Long, R1, FRAME, DIRECTION);
        asm.jump(If::Eq(0), R1, own);
        // from, to
        asm.shift_left(R3, 16);
        asm.or_reg(R3, R8);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.jump(If::Always, R0, done);
        asm.here(own);
        asm.shift_left(R8, 16);
        asm.or_reg(R3, R8);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.jump(If::Always, R0, done);
        asm.here(unix);
        asm.store_value(Size::Word, FRAME, KIND, 2);
        asm.load(Size::Long, R3, FRAME, KEPT);
        follow(asm, self.offset("sock", "sk_sndbuf")?);
        asm.and(R3, i32::MAX);
        asm.store(Size::Word, FRAME, ROOM, R3);
        asm.load(Size::Long, R3, FRAME, KEPT);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.load(Size::Long, R1, FRAME, DIRECTION);
        asm.jump(If::Eq(0), R1, done);
        follow(asm, self.offset("unix_sock", "peer")?);
        asm.jump(If::Eq(0), R3, out);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.jump(If::Always, R0, done);
        Ok(())
    }
}
