//! What does a log look like to a person, a test, `grep` and `diff`? The canonical text form: the same log
//! gives the same bytes.
//!
//! ```text
//! # schedlab log 1
//! # sched "fifo"
//! # sched_version "0.1.0"
//! # cpus 2
//! # hz 0
//! # duration_ns 20000000
//! # task t0 pid=17 policy=normal nice=0 name="gzip"
//! # kernel_thread k12 name="migration/0"
//!             0 cpu0 new t0 cpu0
//!             0 cpu0 switch idle -> t0
//!       4000000 cpu0 switch t0 sleeping -> idle
//!      10000000 cpu0 waking t0 by idle irq
//!      10000000 cpu0 migrate t0 cpu0 -> cpu1
//!      10000000 cpu0 wakeup t0 cpu1
//!      10000000 cpu1 switch idle -> t0
//!      12000000 cpu1 params t0 policy=normal nice=5 rt_priority=0 affinity
//!      20000000 cpu1 exit t0
//!      20000000 cpu1 switch t0 dead -> idle
//! # end 10
//! ```
//!
//! A log that was not observed by the machine says `# observer guest`, and what is hidden from its observer `#
//! hidden wakeups stops` ([`ObservedBy`](crate::ObservedBy), [`Hidden`](crate::Hidden)); where anything is
//! hidden the first line has version 2.
//!
//! Times are integer ns from the start of the run, the CPU is where it happened. Strings are JSON strings. `#
//! end` with the number of records is the last line: a file without it was cut off. Other lines that begin
//! with `#` are comments. Only what a record means is kept ([`Record::canonical`](crate::Record::canonical)):
//! writers may leave anything in fields without a meaning.

mod read;
mod write;

pub use read::TextLog;
pub(crate) use write::decode_params;
pub use write::{format_record, write_text};

/// Newest version of the text form. Version 2 has `# observer` and `# hidden` ([`Hidden`](crate::Hidden)).
pub const VERSION: u32 = 2;
/// The first line, up to the version.
pub(crate) const MAGIC: &str = "# schedlab log ";

#[cfg(test)]
pub(crate) mod tests;
