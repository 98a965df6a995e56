//! What does a log say about a scheduler? Instruments are functions from a log to tables; the unit of every number is in its name.
//!
//! * [`summarize`]: per task CPU time, run delay, wakeup latency, time blocked, switches, migrations; per CPU busy and idle time;
//!   for the machine also queue length and work conservation. One pass, about 50 ns per record.
//! * [`Summary::check_time`]: CPU time + idle time = CPUs x duration, exactly.
//! * [`verify`]: nothing impossible happened (no task in two places, none runs while blocked, ...).
//! * [`causality`]: did every dependent wakeup come after its cause, and how long after?
//! * [`for_each_run`]: who was where from when to when, for pictures.
//! * [`fair_share`]: what each task received and what it was due by its weight.
//! * [`diff`](diff::diff()): the first decision in which two logs differ, and the state on both sides.
//!
//! Memory is bounded by tasks and CPUs, not by the length of the log ([`causality`]'s by the workload's dependent wakeups).

mod causality;
mod conservation;
pub mod diff;
mod distribution;
mod fair_share;
mod problem;
mod replay;
mod runs;
mod slots;
mod summary;
mod verify;

pub use causality::{Link, causality};
pub use conservation::Conservation;
pub use distribution::Distribution;
pub use fair_share::{Due, FairShare, fair_share};
pub use problem::{LogProblem, Problem};
pub use replay::WaitCause;
pub use runs::{Run, for_each_run};
pub use summary::{
    CpuStats, LONGEST_WAITS, LongWait, Summary, SystemStats, TaskStats, TimeNotConserved, summarize,
};
pub use verify::{VIOLATIONS_KEPT, Verdict, Violation, verify};
