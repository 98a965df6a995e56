//! What did the tasks of a real system do, as its kernel recorded it?
//!
//! Reads trace.dat, trace-cmd's file format, in versions 6 and 7, and writes it. A [`TraceFile`] gives an
//! [`EventStream`]: the events of all CPUs in order of time, as small values without text.
//!
//! ```text
//! trace.dat ── container ──> places of each CPU's pages ── pages, ring ──> records ── decode ──> TraceEvent ──> order
//!               header, options, format texts                                 ^ places of fields from the format texts
//! ```
//!
//! ```no_run
//! use schedlab_trace::{Mode, SchedEvent, TraceFile};
//! let file = TraceFile::open("trace.dat".as_ref(), Mode::Strict)?;
//! let mut events = file.events()?;
//! while let Some(event) = events.next_event()? {
//!     if let SchedEvent::Switch { next, .. } = event.what {
//!         println!("{} ns {}: {} runs", event.time_ns, event.cpu, events.comm(next.comm));
//!     }
//! }
//! # Ok::<(), schedlab_trace::TraceError>(())
//! ```
//!
//! A trace is evidence, not truth: events are lost, clocks disagree, files end early. [`SchedEvent::Lost`]
//! stands in the stream where the kernel dropped events; what a [`Mode::Lenient`] reader left out is in
//! [`EventStream::counts`].

mod bytes;
mod comm;
mod container;
mod cursor;
mod decode;
mod error;
mod event;
mod file;
mod format;
mod kernel_threads;
mod marker;
mod merge;
mod pages;
pub mod perf;
pub mod perfetto;
mod recording;
mod ring;
mod state;
mod stream;
pub mod text;
pub mod write;

pub use container::{Buffer, BufferStats, Counts, CpuPages, Mode};
pub use error::{Place, Problem, TraceError, WriteError};
pub use event::{
    ACCEPT_CALLS, AFFINITY_CALL, CONNECT_CALL, Carried, ChannelKind, CommId, Context, Direction, FUTEX_CALL,
    FUTEX_REQUEUES, IN_PROGRESS, LOCK_CALLS, LockCall, MutexKind, OBJECT_AFFINITY, OBJECT_CALLS,
    OBJECT_CHILD, OBJECT_EVENTFD, OBJECT_FORMAT, OBJECT_FUTEX, OBJECT_LOCK, OBJECT_POLLED, OBJECT_QUEUE,
    ObjectCall, POLL_CALLS, PRIO_UNKNOWN, Pid, SECOND_FILE_CALLS, SchedEvent, SwitchSide, SyncCall, SyncOp,
    Syscall, SyscallKind, TraceEvent, Vector, WAIT_CALL, WAITID_CALL, Wake, object_has_address,
};
pub use file::TraceFile;
pub use format::{EventFormat, Field, FieldKind};
pub use kernel_threads::standard_kernel_thread;
pub use marker::{Marker, settings_line};
pub use recording::{Recording, RecordingFormat, RecordingStream};
pub use state::{StateDecoder, TaskState};
pub use stream::EventStream;
