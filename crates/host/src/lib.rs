//! What do the tasks of this host do right now? `schedlab record`, as a library.
//!
//! The only crate that reads a wall clock and touches the running kernel. It records scheduler events through a
//! private tracefs instance into a trace.dat, with a table of all threads at the start beside it:
//!
//! ```text
//!  record(options) ── tracefs instance ── drain per CPU ──┐
//!        │                                                ├─> NAME.dat       (trace.dat version 7)
//!        └─── /proc/*/task/* at the start ────────────────┴─> NAME.proc.csv, NAME.cgroup.csv
//! ```
//!
//! A second of a busy two-CPU host is some 10,000 events, 400 KB of pages, about 60 KB of compressed file.
//!
//! [`record::record`] does all of it; the parts are public for those who need one: [`snapshot::Snapshot`] for
//! the table, [`tracefs::Tracefs`] for a private instance, [`anonymise`] to make a recording fit to be given
//! away.

pub mod anonymise;
mod bpf;
mod capture;
pub mod cgroup;
mod command;
mod drain;
pub mod error;
pub mod events;
mod keeper;
pub mod overhead;
pub mod periodic;
pub mod record;
mod signals;
pub mod snapshot;
mod target;
pub mod tracefs;
mod user;

pub use anonymise::{Anonymised, Others, Ours, anonymise, page_events};
pub use bpf::calls::{CallTimer, CallTimes, tsc_hz};
pub use capture::{Backend, CaptureMethod};
pub use cgroup::GroupTable;
pub use command::CommandEnd;
pub use drain::{DrainCost, Gap, PageLoss};
pub use error::HostError;
pub use events::EventChoice;
pub use record::{RecordEnd, RecordOptions, RecordRequest, RecordedTrace, Scope, Stage, record};
pub use signals::signal_by_name;
pub use snapshot::{Snapshot, SnapshotRow};
pub use user::User;
