//! Rate monotonic: the task with the shortest period runs (`order=deadline`: with the shortest relative deadline).
//!
//! The best of all fixed priorities for deadline = period on one CPU. Whether a set is schedulable follows
//! from response times: R = C + sum over higher priorities j of ceil(R / T_j) C_j, iterated from R = C; all R
//! <= D: no deadline is ever missed.
//!
//! ```text
//! (runtime, period) A (1, 4), B (2, 6), C (3, 12): R_A = 1, R_B = 3, R_C = 3 + 3*1 + 2*2 = 10 <= 12
//! ms   0         1
//!      0123456789
//!      ABBCACBBAC
//! ```
//!
//! *Sources*: Liu, Layland (1973); Joseph, Pandya, "Finding Response Times in a Real-Time System" (1986);
//! Leung, Whitehead (1982) for deadline monotonic. *Differs*: as EDF (see `edf`): jobs are seen through
//! wakeups and blocks. On several CPUs one queue serves all (global fixed priorities, to which Dhall's effect
//! applies), or tasks are divided (`fit`): one fits on a CPU if the analysis above finds no response too long
//! there, its own or another's. *Uncertain*: nothing.
//!
//! *Parameters*: `order` = period or deadline; `fit` = none (one queue), first, best, worst.

use crate::kit::jobs::{JobOrder, Jobs, Placement};

#[cfg(test)]
mod tests;

/// Fixed priorities by period or by relative deadline.
pub fn fixed_priority(order: JobOrder, placement: Placement) -> Jobs {
    assert!(order != JobOrder::Deadline, "an absolute deadline is not a fixed priority");
    Jobs::new(order, placement)
}
