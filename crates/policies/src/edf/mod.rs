//! Earliest deadline first, global (`gedf`) and partitioned (`pedf`).
//!
//! A job, from wakeup to the next block, has the absolute deadline wakeup + relative deadline; the jobs with
//! the earliest run. Nothing enforces the declared runtime (see `cbs` for that).
//!
//! ```text
//! tasks (runtime, period) A (2, 5), B (4, 7), one CPU: U = 2/5 + 4/7 = 0.97 <= 1: no deadline is missed
//! ms   0         1         2         3
//!      0123456789012345678901234567890123
//!      AABBBBAABBBBAABAABBBAABBBBAABBBBAA
//! ```
//!
//! On one CPU every task set with U <= 1 (deadline = period) meets all deadlines. On m CPUs global EDF can
//! fail with U barely above 1 (Dhall's effect: m short tasks and one with a utilisation near 1), while
//! partitioning needs a division of the tasks that fits.
//!
//! *Sources*: Liu, Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment"
//! (1973); Dhall, Liu, "On a Real-Time Scheduling Problem" (1978). *Differs*: jobs are seen only through
//! wakeups and blocks. A task that is still busy with a job when the next is released begins that one as soon
//! as it blocks, with the deadline that counts from the release (told by a wakeup at the very instant of the
//! block). Tasks without deadline parameters run in the background, first come, first served; policy and nice
//! are ignored. Partitioning happens task by task, as they come; the order of arrival decides. A background
//! task gets the CPU that offers it most (see `kit::jobs`). *Uncertain*: nothing.
//!
//! *Parameter* (`pedf`): `fit` = first, best or worst (default first).

pub use crate::kit::jobs::{JobOrder, Jobs, Placement};

#[cfg(test)]
pub(crate) mod tests;

/// Global EDF.
pub fn global() -> Jobs {
    Jobs::new(JobOrder::Deadline, Placement::Global)
}

/// Partitioned EDF.
pub fn partitioned(placement: Placement) -> Jobs {
    assert!(placement != Placement::Global, "a partition divides the tasks");
    Jobs::new(JobOrder::Deadline, placement)
}
