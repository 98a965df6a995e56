//! How are millions of events stored? A few bytes each, in chunks that prove themselves.
//!
//! ```text
//! file   = 89 "SLWLOAD"  version u32       0 u32      16 bytes
//!          chunk ...                                  data, about 64 KiB each
//!          end chunk                                  number of chunks, tasks, events; checksum of checksums
//!                                                     (from version 3 on with the header)
//! chunk  = kind u32 ('DATA' or 'END.')  length u32  crc32 u32 (of kind, length and payload)   payload
//! DATA   = item ...     note | dropped | cgroup | task | run of one task's events
//! ```
//!
//! Integers are little-endian; within items they are LEB128 varints. An event is a tag (type, and whether its
//! identifier is the previous one's plus one), then the CPU time since the previous event: `- BLOCK 100 4ms`
//! takes 5 bytes instead of 16 as text.
//!
//! Every chunk can be decoded by itself (a run states its task and starts from zero), so a reader may map the
//! file and hop from chunk to chunk by length. The end chunk tells a whole file from one that was cut at a
//! chunk's boundary. Readers refuse with the byte offset; no input makes them panic or allocate more than the
//! file's size warrants.

mod crc;
mod read;
mod varint;
mod write;

pub use read::{BinaryError, BinaryProblem, BinaryReader, Part, read_binary, read_binary_within};
pub use write::{BinaryWriter, write_binary};

/// First bytes of a binary workload. (The first has its top bit set, so that no text starts like it.)
pub const BINARY_MAGIC: [u8; 8] = *b"\x89SLWLOAD";
/// The newest version. Version 2 added timers set for an instant, version 3 the evidence of recordings on external
/// wakeups, version 4 objects, version 5 EXEC, version 6 timers that skip, version 7 CALL, version 8 tails of calls and
/// what is polled. The lowest version that has all that occurs is written ([`crate::Workload::version`]).
pub const BINARY_VERSION: u32 = 8;

/// Bytes of the file's and of a chunk's header.
const FILE_HEADER: usize = 16;
const CHUNK_HEADER: usize = 12;
const DATA: u32 = u32::from_le_bytes(*b"DATA");
const END: u32 = u32::from_le_bytes(*b"END.");
/// A chunk is written once it holds this much; readers refuse one above
/// [`CHUNK_BYTES_MAX`](crate::limits::CHUNK_BYTES_MAX).
const CHUNK_TARGET: usize = 64 << 10;

/// The checksum of checksums begins with this: from version 3 on it covers the header, so that a changed
/// version is named.
fn first_of_chain(version: u32, header: &[u8; FILE_HEADER]) -> u32 {
    if version < 3 { 0 } else { crc::crc32(0, header) }
}

/// Item kinds.
mod item {
    pub const NOTE: u8 = 1;
    pub const DROPPED: u8 = 2;
    pub const CGROUP: u8 = 3;
    pub const TASK: u8 = 4;
    pub const EVENTS: u8 = 5;
    /// Version 4.
    pub const OBJECT: u8 = 6;
    // 7 is kept for deadlines of jobs
}

/// Event tags: kind, and [`tag::EID`].
mod tag {
    use crate::ExternalSource;

    pub const FORK: u8 = 0;
    pub const PRIO: u8 = 1;
    pub const YIELD: u8 = 2;
    pub const BLOCK: u8 = 3;
    pub const TIMER: u8 = 4;
    pub const DEVICE: u8 = 5;
    pub const DEPENDENT: u8 = 6;
    pub const EXIT: u8 = 7;
    /// What happens at an object, version 4: an [`super::object`] and what was recorded follow.
    pub const OBJECT: u8 = 34;
    // 35 is kept for deadlines of jobs
    /// Version 5.
    pub const EXEC: u8 = 36;
    /// Version 7.
    pub const CALL: u8 = 38;
    /// The identifier is not the previous one's plus one; the difference follows.
    pub const EID: u8 = 8;

    /// External wakeups. From 16 on came with version 2, from 19 on with version 3, 37 with version 6; none has
    /// the bit [`EID`].
    pub const SOURCES: [(u8, ExternalSource); 13] = [
        (TIMER, ExternalSource::Timer),
        (DEVICE, ExternalSource::Device),
        (16, ExternalSource::Grid),
        (17, ExternalSource::GridRestart),
        (18, ExternalSource::Absolute),
        (19, ExternalSource::HardIrq),
        (20, ExternalSource::SoftIrq),
        (21, ExternalSource::TimerSoftIrq),
        (22, ExternalSource::Idle),
        (23, ExternalSource::Unknown),
        (32, ExternalSource::MadeUp),
        (33, ExternalSource::Task),
        (37, ExternalSource::GridSkip),
    ];
}

/// What happens at an object: the tag in the low 4 bits, 16 or 32 for what was recorded.
mod object {
    pub const SEND: u8 = 0;
    pub const RECEIVE: u8 = 1;
    pub const CLOSE: u8 = 2;
    pub const LOCK: u8 = 3;
    pub const UNLOCK: u8 = 4;
    pub const WAIT: u8 = 5;
    pub const SIGNAL: u8 = 6;
    pub const BROADCAST: u8 = 7;
    pub const ARRIVE: u8 = 8;
    pub const TICK: u8 = 9;
    pub const SLEPT: u8 = 16;
    pub const AWAKE: u8 = 32;
    /// Kinds of objects.
    pub const CHANNEL: u8 = 0;
    pub const SEMAPHORE: u8 = 1;
    pub const MUTEX: u8 = 2;
    pub const CONDITION: u8 = 3;
    pub const BARRIER: u8 = 4;
    pub const TIMER: u8 = 5;
    pub const STREAM: u8 = 6;
    /// Bits of an object: it wakes synchronously, it is closed, two that its kind gives a meaning.
    pub const SYNC: u8 = 1;
    pub const CLOSED: u8 = 2;
    pub const FIRST: u8 = 4;
    pub const SECOND: u8 = 8;
    /// Its costs follow, of a sleep and of a wakeup.
    pub const COSTS: u8 = 16;
    /// The tail of its calls follows.
    pub const TAIL: u8 = 32;
    /// Its reader polls.
    pub const POLLED: u8 = 64;
}

/// Bits that say which optional fields follow.
mod has {
    pub const PARAMS: u8 = 1;
    pub const AFFINITY: u8 = 2;
    pub const CGROUP: u8 = 4;
    /// PRIO: nice alone. Task: kernel thread.
    pub const FOURTH: u8 = 8;
    /// PRIO: target. Task: parent.
    pub const FIFTH: u8 = 16;
    /// Task: blocked at the start.
    pub const BLOCKED: u8 = 32;
    /// Task: forked.
    pub const FORKED: u8 = 64;
}
