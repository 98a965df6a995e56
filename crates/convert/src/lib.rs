//! How does a recording become a schedule log, and a log a recording?
//!
//! ```text
//!   any recording ── recorded_log ──> schedule log, as it happened on that system
//!   trace of a workload's program ── ProgramLog ──> schedule log of that workload     (a guest, or this machine)
//!   schedule log ── trace_dat ──> trace.dat and snapshot, for the tools that people use for real traces
//! ```
//!
//! A worked number: a task leaves its CPU at 10 ms with state S, `sched_waking` names it at 14 ms, and it
//! runs again at 15 ms. The log has a switch (sleeping) at 10, a wakeup at 14, a switch at 15: 4 ms blocked,
//! 1 ms of wakeup latency.
//!
//! What both directions of writing share (which system call a change of parameters was, in which order a
//! reader sees events of one instant) is here too; the Perfetto export uses it.

mod calls;
mod order;
mod program;
mod recorded;
mod tracedat;
mod unknown;

pub use calls::{RecordedCall, calls_for};
pub use order::{LastWritten, Shifts, birth_words, forked, marker, prio, thread_ids, unique_tids};
pub use program::{
    EventsLost, ProgramLog, ProgramRun, with_hidden_switches, with_wakeups_behind_switches, without_strangers,
};
pub use recorded::{RecordedError, RecordedLog, RecordedSchedule, Whose, recorded_log};
pub use tracedat::{Extra, TraceDatError, TraceDatOptions, TraceDatStats, trace_dat};
pub use unknown::UnknownAsThread;
