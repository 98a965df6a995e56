//! What does a log say about a scheduler? Instruments are functions from a log to tables; the unit of every
//! number is in its name.
//!
//! * [`summarize`]: per task CPU time, run delay, wakeup latency, time blocked, switches, migrations; per CPU
//!   busy and idle time; for the machine also queue length and work conservation. One pass, about 50 ns per
//!   record.
//! * [`summarize_seen`]: the same of a log whose observer could not see everything; [`Summary::why_unknown`]
//!   says which numbers are unknown, and why.
//! * [`Summary::check_time`]: CPU time + idle time = CPUs x duration, exactly.
//! * [`verify`]: nothing impossible happened (no task in two places, none runs while blocked, ...).
//! * [`causality`]: did every dependent wakeup come after its cause, and how long after?
//! * [`for_each_stay`], [`stays`]: who was on which CPU from when to when.
//! * [`for_each_queue`]: how long each CPU's queue was, at any distance in time.
//! * [`for_each_move`]: each task's changes of CPU, by wakeup, fork or balancing, and who moved it.
//! * [`jobs`](jobs::jobs()): response times, missed deadlines and tardiness, per task and job.
//! * [`wasted`], [`for_each_picture`]: stretches in which a CPU idled beside a task that it may run, and what
//!   the queues were.
//! * [`waited_for`]: whose CPU tasks waited for: their own program's, the kernel's, a stranger's.
//! * [`fair_share`]: what each task received and what it was due by its weight.
//! * [`diff`](diff::diff()): the first decision in which two logs differ, and the state on both sides.
//!
//! Memory is bounded by tasks and CPUs, not by the length of the log ([`causality`]'s by the workload's
//! dependent wakeups).

mod allowed;
mod causality;
pub mod diff;
mod distribution;
mod fair_share;
pub mod jobs;
mod meanwhile;
mod moves;
mod queues;
mod stays;
mod summary;
mod unknown;
mod verify;
mod waited_for;
mod wasted;

pub use allowed::{Allowed, May};
pub use causality::{Link, causality};
pub use distribution::Distribution;
pub use fair_share::{Due, FairShare, fair_share};
pub use meanwhile::meanwhile;
pub use moves::{Move, MoveKind, for_each_move};
pub use queues::{QUEUE_GRID, QueueLength, for_each_queue};
pub use schedlab_log::{Impossible, LogProblem, WaitCause};
pub use stays::{Stay, for_each_stay, stays};
pub use summary::{
    CpuStats, LONGEST_STRETCHES, LONGEST_WAITS, LongWait, Summary, SystemStats, TaskStats, TimeNotConserved,
    summarize, summarize_seen,
};
pub use unknown::{KnownTasks, Quantity, WhyUnknown};
pub use verify::{VIOLATIONS_KEPT, Verification, Violation, verify};
pub use waited_for::{IDLE_EXIT_NS, Owner, WaitedFor, hidden_stays, waited_for};
pub use wasted::{
    Began, Conservation, Picture, QueuedTask, STRETCHES_KEPT, Stretch, Unknown, WaitingTask, Wasted,
    for_each_picture, wasted,
};
