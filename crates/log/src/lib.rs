//! What happened, when, on which CPU, and why where known?
//!
//! The schedule log is one schema for the machine, the guest and the host, so that an instrument cannot tell
//! which it reads. A log is a [`LogHeader`] (who ran on what) and a sequence of fixed-size [`Record`]s in a
//! documented order.
//!
//! ```text
//!            0 ns cpu0 new      t0              created, runnable on cpu0
//!            0 ns cpu0 switch   idle -> t0      t0 runs
//!    4,000,000 ns cpu0 switch   t0 -> idle      t0 blocked
//!   10,000,000 ns cpu0 waking   t0 by idle irq  its timer fired
//!   10,000,000 ns cpu0 wakeup   t0              runnable again
//!   10,000,000 ns cpu0 switch   idle -> t0
//! ```
//!
//! Three forms: the *spill* file of a run (raw records, [`RawLog`]), the canonical *text* ([`TextLog`]) for
//! people, goldens and `diff`, and *Arrow* ([`ArrowLog`]) for analysis tools. All are read through [`Log`],
//! in batches: memory does not grow with the log.
//!
//! What the records mean (who waits, runs, sleeps since when, and where) is read in one place, [`replay()`]:
//! it tells an [`Observer`] each change of state. Tables per task have a row per [`Row`].
//!
//! Not every observer sees everything. The header says who observed and what is hidden ([`ObservedBy`],
//! [`Hidden`]); notes say which CPUs and tasks nobody saw for a while ([`note::UNKNOWN_CPU`],
//! [`note::UNKNOWN_TASK`]). Replay tells an observer of both.

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "arrow")]
mod arrow_bounds;
mod asked;
mod error;
mod file;
mod header;
#[cfg(feature = "arrow")]
mod header_json;
mod missed;
mod observer;
mod problem;
mod record;
mod replay;
mod slots;
mod source;
mod spill;
pub mod synthetic;
mod text;
mod words;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowLog, Columns, LOG_COLUMNS, LogColumn, write_arrow};
pub use asked::FromWaking;
pub use error::LogError;
pub use file::{open, write};
pub use header::{KernelThread, LogGroup, LogHeader, LogTask};
pub use missed::{Missed, MissedCause};
pub use observer::{Fact, Hidden, ObservedBy};
pub use problem::{Impossible, LogProblem};
pub use record::{Kind, PrevState, Record, note};
pub use replay::{Observer, Run, Unseen, Wait, WaitCause, replay};
pub use slots::{Row, Slots};
pub use source::{Batches, Log, MemLog, Records, for_each};
pub use spill::{RawLog, to_bytes};
pub use text::{TextLog, format_record, write_text};
pub use words::SetWords;
