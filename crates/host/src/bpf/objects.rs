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
//! splice, tee and sendfile read one file and write another: the program looks at each such call twice, once for either
//! file. Futexes stand in `futex.rs`.
//!
//! Not taken: what goes by vmsplice, shared memory or io_uring.

use super::insn::{Asm, FRAME, Helper, If, Label, R0, R1, R2, R3, R6, R8, Size};
use super::programs::{Generator, Source, Unsupported};
use schedlab_trace::{
    ACCEPT_CALLS, AFFINITY_CALL, CONNECT_CALL, Direction, FUTEX_CALL, IN_PROGRESS, OBJECT_AFFINITY,
    OBJECT_CALLS, OBJECT_CHILD, OBJECT_EVENTFD, OBJECT_POLLED, OBJECT_QUEUE, POLL_CALLS, SECOND_FILE_CALLS,
    WAIT_CALL, WAITID_CALL,
};

/// Places on the program's own stack.
pub(super) const KEY: i32 = -24;
pub(super) const KIND: i32 = -32;
pub(super) const ROOM: i32 = -28;
const DIRECTION: i32 = -40;
pub(super) const WORD: i32 = -48;
const KEPT: i32 = -56;
pub(super) const OTHER: i32 = -64;
pub(super) const CALL: i32 = -72;

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
/// Bytes of a mask of CPUs that are read: 64 CPUs.
const MASK_BYTES: i32 = 8;
/// Bytes of a page, as a shift.
const PAGE_SHIFT: i32 = 12;
/// Where in a pipe's key the number of its inode begins: all addresses of the kernel are alike above.
const INODE_SHIFT: i32 = 40;
/// `O_DIRECT` (asm-generic/fcntl.h).
const O_DIRECT: i32 = 0x4000;

/// What anonymous files of eventfd are called ("[eventfd]", fs/eventfd.c), its first eight bytes.
const EVENTFD_NAME: u64 = u64::from_le_bytes(*b"[eventfd");
/// Options of waitid (include/uapi/linux/wait.h): nobody is waited for, nobody is taken.
const NO_HANG: i32 = 1;
const NO_WAIT: i32 = 0x0100_0000;
/// Where siginfo_t says whose end it is (include/uapi/asm-generic/siginfo.h).
const WHOSE_END: i32 = 12;
/// Calls at message queues, of System V (the queue's number is what they get) and of POSIX.
const NUMBERED_QUEUE_CALLS: [i64; 2] = [69, 70];
const QUEUE_CALLS: [i64; 2] = [242, 243];

/// Structures that the program walks.
pub(super) const STRUCTS: [&str; 10] = [
    "files_struct",
    "fdtable",
    "file",
    "inode",
    "pipe_inode_info",
    "socket",
    "sock",
    "unix_sock",
    "dentry",
    "mqueue_inode_info",
];

/// Which file of a call is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The one that most calls have; of those that have two, the one that is read.
    First,
    /// The one that is written by calls that read another.
    Second,
}

/// Fields of `schedlab:object`; arguments of `sys_exit`: registers, value returned.
pub(super) fn fields() -> Vec<(&'static str, Source)> {
    vec![
        ("key", Source::Stack(KEY)),
        ("kind", Source::Stack(KIND)),
        ("room", Source::Stack(ROOM)),
        ("call", Source::Stack(CALL)),
        ("ret", Source::Arg(1)),
        ("other", Source::Stack(OTHER)),
    ]
}

/// r3 = *(r3 + offset), eight bytes of the kernel's; 0 where there is nothing.
pub(super) fn follow(asm: &mut Asm, offset: u32) {
    asm.add(R3, offset as i32);
    asm.mov(R1, FRAME);
    asm.add(R1, WORD);
    asm.set(R2, 8);
    asm.call(Helper::ProbeReadKernel);
    asm.load(Size::Long, R3, FRAME, WORD);
}

/// WORD = bytes of the caller's memory at r3; 0 where there is nothing.
pub(super) fn read_user(asm: &mut Asm, bytes: i32) {
    asm.store_value(Size::Long, FRAME, WORD, 0);
    asm.mov(R1, FRAME);
    asm.add(R1, WORD);
    asm.set(R2, bytes);
    asm.call(Helper::ProbeReadUser);
}

impl Generator<'_> {
    /// Puts key, kind, room and call on the stack, or goes to `out` if the call is none that sends or receives
    /// something here.
    pub(super) fn object_of_call(&self, asm: &mut Asm, which: Which, out: Label) -> Result<(), Unsupported> {
        let (found, send, done) = (asm.label(), asm.label(), asm.label());
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R2, R1, self.offset("pt_regs", "orig_ax")?);
        if which == Which::Second {
            self.second_file(asm, out, found)?;
        } else {
            asm.store_value(Size::Long, FRAME, OTHER, 0);
            asm.store(Size::Word, FRAME, CALL, R2);
            self.other_call(asm, out, done)?;
            asm.store_value(Size::Long, FRAME, DIRECTION, 0);
            self.connection(asm, out, (send, found))?;
            self.queue_call(asm, out, (found, done))?;
            asm.load(Size::Long, R1, R6, 8);
            asm.set(R2, 0);
            asm.jump(If::LeReg(R2), R1, out);
            asm.load(Size::Long, R1, R6, 0);
            asm.load(Size::Long, R2, R1, self.offset("pt_regs", "orig_ax")?);
            asm.load(Size::Long, R8, R1, self.offset("pt_regs", "di")?);
            let sendfile = asm.label();
            asm.jump(If::Eq(SECOND_FILE_CALLS[0] as i32), R2, sendfile);
            for (number, direction) in OBJECT_CALLS {
                let to = if direction == Direction::Send { send } else { found };
                asm.jump(If::Eq(number as i32), R2, to);
            }
            asm.jump(If::Always, R0, out);
            asm.here(sendfile);
            asm.load(Size::Long, R8, R1, self.offset("pt_regs", "si")?);
            asm.jump(If::Always, R0, found);
            asm.here(send);
            asm.store_value(Size::Long, FRAME, DIRECTION, 1);
        }
        asm.here(found);
        self.file(asm, out, done)?;
        asm.here(done);
        Ok(())
    }

    /// r2: number of the call. r8: the file that it has written to, besides the one that it has read.
    fn second_file(&self, asm: &mut Asm, out: Label, found: Label) -> Result<(), Unsupported> {
        let is_known = asm.label();
        let files = SECOND_FILE_CALLS.map(|number| (number, asm.label()));
        for (number, here) in files {
            asm.jump(If::Eq(number as i32), R2, here);
        }
        asm.jump(If::Always, R0, out);
        for ((_, here), register) in files.into_iter().zip(["di", "dx", "si"]) {
            asm.here(here);
            asm.load(Size::Long, R8, R1, self.offset("pt_regs", register)?);
            asm.jump(If::Always, R0, is_known);
        }
        asm.here(is_known);
        asm.load(Size::Long, R1, R6, 8);
        asm.mov(R3, R2);
        asm.set(R2, 0);
        asm.jump(If::LeReg(R2), R1, out);
        asm.or(R3, 1 << 16);
        asm.store(Size::Word, FRAME, CALL, R3);
        asm.store_value(Size::Long, FRAME, OTHER, 0);
        asm.store_value(Size::Long, FRAME, DIRECTION, 1);
        asm.jump(If::Always, R0, found);
        Ok(())
    }

    /// r8: number of a file of the current task; leaves for `done` with key, kind and room, or for `out`.
    fn file(&self, asm: &mut Asm, out: Label, done: Label) -> Result<(), Unsupported> {
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
        let (no_queue, pipe) = (asm.label(), asm.label());
        asm.load(Size::Word, R1, FRAME, CALL);
        for number in QUEUE_CALLS {
            let next = asm.label();
            asm.jump(If::Ne(number as i32), R1, next);
            self.queue(asm, done)?;
            asm.here(next);
        }
        asm.jump(If::Always, R0, no_queue);
        asm.here(no_queue);
        follow(asm, self.offset("file", "f_inode")?);
        follow(asm, self.offset("inode", "i_mode")?);
        asm.and(R3, FILE_KIND);
        asm.mov(R8, R3);
        asm.load(Size::Long, R3, FRAME, KEPT);
        follow(asm, self.offset("file", "private_data")?);
        asm.jump(If::Eq(0), R3, out);
        asm.jump(If::Eq(FIFO), R8, pipe);
        let other = asm.label();
        asm.jump(If::Ne(SOCKET), R8, other);
        self.socket(asm, out, done)?;
        asm.here(other);
        self.event_counter(asm, out, done)?;
        asm.here(pipe);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.store_value(Size::Word, FRAME, KIND, 1);
        // an odd number: each write is a packet with pages of its own (`is_packetized()` in fs/pipe.c)
        asm.load(Size::Long, R3, FRAME, KEPT);
        follow(asm, self.offset("file", "f_flags")?);
        asm.and(R3, O_DIRECT);
        asm.shift_right(R3, O_DIRECT.trailing_zeros() as i32);
        asm.mov(R8, R3);
        asm.load(Size::Long, R3, FRAME, KEY);
        follow(asm, self.offset("pipe_inode_info", "max_usage")?);
        asm.shift_left(R3, PAGE_SHIFT);
        asm.add_reg(R3, R8);
        asm.store(Size::Word, FRAME, ROOM, R3);
        // the next pipe may lie where this one did; its inode has another number
        asm.load(Size::Long, R3, FRAME, KEPT);
        follow(asm, self.offset("file", "f_inode")?);
        follow(asm, self.offset("inode", "i_ino")?);
        asm.shift_left(R3, INODE_SHIFT);
        asm.mov(R8, R3);
        asm.load(Size::Long, R3, FRAME, KEY);
        asm.add_reg(R3, R8);
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.jump(If::Always, R0, done);
        Ok(())
    }

    /// r3: what stands behind a file that is neither pipe nor socket, in the state KEPT; its name says whether it is
    /// an eventfd, the caller's memory how much was added or taken. A kernel that does not tell names has none.
    fn event_counter(&self, asm: &mut Asm, out: Label, done: Label) -> Result<(), Unsupported> {
        let places = self.offset("file", "f_path.dentry").and_then(|at| {
            let name = self.offset("dentry", "d_name.name")?;
            Ok((at, name))
        });
        let Ok((at, name)) = places else {
            asm.jump(If::Always, R0, out);
            return Ok(());
        };
        asm.store(Size::Long, FRAME, KEY, R3);
        asm.load(Size::Long, R3, FRAME, KEPT);
        follow(asm, at);
        asm.jump(If::Eq(0), R3, out);
        follow(asm, name);
        follow(asm, 0);
        asm.set_long(R1, EVENTFD_NAME.wrapping_neg());
        asm.add_reg(R3, R1);
        asm.jump(If::Ne(0), R3, out);
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R3, R1, self.offset("pt_regs", "si")?);
        read_user(asm, 8);
        let fits = asm.label();
        asm.load(Size::Long, R3, FRAME, WORD);
        asm.mov(R1, R3);
        asm.shift_right(R1, 32);
        asm.jump(If::Eq(0), R1, fits);
        asm.set(R3, -1);
        asm.here(fits);
        asm.store(Size::Word, FRAME, ROOM, R3);
        asm.store_value(Size::Word, FRAME, KIND, OBJECT_EVENTFD as i32);
        asm.jump(If::Always, R0, done);
        Ok(())
    }

    /// r2: number of the call. Message queues: an empty message is a message, and sending one returns 0.
    fn queue_call(
        &self,
        asm: &mut Asm,
        out: Label,
        (found, done): (Label, Label),
    ) -> Result<(), Unsupported> {
        let (by_file, by_number, on) = (asm.label(), asm.label(), asm.label());
        for number in QUEUE_CALLS {
            asm.jump(If::Eq(number as i32), R2, by_file);
        }
        for number in NUMBERED_QUEUE_CALLS {
            asm.jump(If::Eq(number as i32), R2, by_number);
        }
        asm.jump(If::Always, R0, on);
        for (here, to) in [(by_file, found), (by_number, done)] {
            asm.here(here);
            asm.load(Size::Long, R3, R6, 8);
            asm.set(R2, -1);
            asm.jump(If::LeReg(R2), R3, out);
            asm.load(Size::Long, R8, R1, self.offset("pt_regs", "di")?);
            asm.store(Size::Long, FRAME, KEY, R8);
            asm.store_value(Size::Word, FRAME, ROOM, 0);
            asm.store_value(Size::Word, FRAME, KIND, OBJECT_QUEUE as i32);
            asm.jump(If::Always, R0, to);
        }
        asm.here(on);
        Ok(())
    }

    /// r3: the file of a POSIX queue.
    fn queue(&self, asm: &mut Asm, done: Label) -> Result<(), Unsupported> {
        follow(asm, self.offset("file", "f_inode")?);
        asm.store(Size::Long, FRAME, KEY, R3);
        let at = |path| self.offset("mqueue_inode_info", path);
        if let (Ok(most), Ok(inode)) = (at("attr.mq_maxmsg"), at("vfs_inode")) {
            asm.add(R3, -(inode as i32));
            follow(asm, most);
            asm.store(Size::Word, FRAME, ROOM, R3);
        }
        asm.jump(If::Always, R0, done);
        Ok(())
    }

    /// r2: number of the call. Goes on if it is none of those that are no messages: the mask of
    /// `sched_setaffinity`, the end of a wait for several files, and that of a wait for a child.
    fn other_call(&self, asm: &mut Asm, out: Label, done: Label) -> Result<(), Unsupported> {
        let (affinity, polled, child, long, on) =
            (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
        let (futex, waitid, taken) = (asm.label(), asm.label(), asm.label());
        asm.jump(If::Eq(FUTEX_CALL as i32), R2, futex);
        asm.jump(If::Eq(AFFINITY_CALL as i32), R2, affinity);
        asm.jump(If::Eq(WAIT_CALL as i32), R2, child);
        asm.jump(If::Eq(WAITID_CALL as i32), R2, waitid);
        for number in POLL_CALLS {
            asm.jump(If::Eq(number as i32), R2, polled);
        }
        asm.jump(If::Always, R0, on);
        for (here, kind) in [(polled, OBJECT_POLLED), (child, OBJECT_CHILD)] {
            asm.here(here);
            asm.load(Size::Long, R1, R6, 8);
            asm.set(R2, 0);
            asm.jump(If::LeReg(R2), R1, out);
            if kind == OBJECT_CHILD {
                asm.here(taken);
            }
            asm.store_value(Size::Long, FRAME, KEY, 0);
            asm.store_value(Size::Word, FRAME, ROOM, 0);
            asm.store_value(Size::Word, FRAME, KIND, kind as i32);
            asm.jump(If::Always, R0, done);
        }
        asm.here(futex);
        self.futex(asm)?;
        asm.jump(If::Always, R0, done);
        asm.here(waitid);
        self.waitid(asm, out, taken)?;
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

    /// `waitid` returns 0 also if it has found nobody: what it wrote to its caller's memory says whose end it took.
    fn waitid(&self, asm: &mut Asm, out: Label, taken: Label) -> Result<(), Unsupported> {
        let no_memory = asm.label();
        asm.load(Size::Long, R1, R6, 8);
        asm.jump(If::Ne(0), R1, out);
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Long, R8, R1, self.offset("pt_regs", "r10")?);
        asm.jump(If::Has(NO_WAIT), R8, out);
        asm.load(Size::Long, R3, R1, self.offset("pt_regs", "dx")?);
        asm.jump(If::Eq(0), R3, no_memory);
        asm.add(R3, WHOSE_END);
        read_user(asm, 4);
        asm.load(Size::Word, R1, FRAME, WORD);
        asm.jump(If::Eq(0), R1, out);
        asm.jump(If::Always, R0, taken);
        asm.here(no_memory);
        asm.jump(If::Has(NO_HANG), R8, out);
        asm.jump(If::Always, R0, taken);
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
