//! What does theory say a job's response time can be at most? For sets of periodic tasks on one CPU, beside
//! the longest measured.
//!
//! ```text
//! fixed priorities (FIFO, RR), exact for deadlines up to the period (Joseph, Pandya 1986):
//!   R = C + sum over tasks of the same or a higher priority of ceil(R / T) C, iterated from R = C
//!   (C, T) A (1, 4), B (2, 6), C (3, 12): R_C = 3 -> 6 -> 8 -> 10 -> 10
//! earliest deadline first (SCHED_DEADLINE): no job is late if the sum of C / min(D, T) <= 1 (Liu, Layland 1973)
//! ```
//!
//! Theory knows no overhead, no throttling and no blocking, and takes every release for exact. A measured
//! response beyond its bound says that one of these is not so.

use super::plan::{Ends, JobPlan, Passed};
use schedlab_units::{ClassKind, SchedParams, SchedPolicy};
use schedlab_workload::{EventKind, Workload};

/// What theory says of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Longest response time.
    pub response_ns: u64,
    /// How it was found: `fixed priorities` or `earliest deadline first`.
    pub theory: &'static str,
}

struct Periodic {
    row: usize,
    run_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    params: SchedParams,
}

/// Bounds of the tasks' response times on one CPU; row i is `TaskId(i)`. `None`: theory has none, because a
/// task of the same class or above is not periodic, or the set is too much for the CPU.
///
/// `params[i]` are the parameters of `TaskId(i)` at its start.
pub fn bounds(workload: &Workload, plans: &[Option<JobPlan>], params: &[SchedParams]) -> Vec<Option<Bound>> {
    let mut found = vec![None; workload.tasks.len()];
    let is_urgent =
        |row: usize| matches!(params[row].policy.class(), ClassKind::RealTime | ClassKind::Deadline);
    let urgent: Vec<usize> = (0..params.len()).filter(|row| is_urgent(*row)).collect();
    let set: Option<Vec<Periodic>> =
        urgent.iter().map(|row| periodic(workload, *row, plans[*row].as_ref()?, params[*row])).collect();
    let Some(set) = set else { return found };
    let is_deadline = |task: &&Periodic| task.params.policy == SchedPolicy::Deadline;
    if set.iter().filter(is_deadline).count() == set.len() {
        let density: f64 =
            set.iter().map(|task| task.run_ns as f64 / task.deadline_ns.min(task.period_ns) as f64).sum();
        if density <= 1.0 {
            for task in &set {
                let response_ns = task.deadline_ns.min(task.period_ns);
                found[task.row] = Some(Bound { response_ns, theory: "earliest deadline first" });
            }
        }
    } else if !set.iter().any(|task| is_deadline(&task)) {
        for task in &set {
            let response_ns = response_ns(task, &set);
            found[task.row] =
                response_ns.map(|response_ns| Bound { response_ns, theory: "fixed priorities" });
        }
    }
    found
}

/// The task as theory sees it; `None` if it is not periodic, or can block within a job.
fn periodic(workload: &Workload, row: usize, plan: &JobPlan, params: SchedParams) -> Option<Periodic> {
    let is_release = |ends| matches!(ends, Ends::Instant { passed: Passed::Stays, .. });
    if !plan.blocks().all(is_release) || plan.ends_in_job {
        return None;
    }
    let period_ns = plan.period_ns()?;
    let run_ns = workload.tasks[row].events.iter().filter_map(|event| match event.kind {
        EventKind::Block { length } => Some(length.as_ns()),
        _ => None,
    });
    let deadline_ns = plan.deadline_ns.unwrap_or(period_ns);
    Some(Periodic { row, run_ns: run_ns.max()?, period_ns, deadline_ns, params })
}

/// The longest response under fixed priorities; `None`: longer than the period.
fn response_ns(task: &Periodic, set: &[Periodic]) -> Option<u64> {
    let delays =
        |other: &&Periodic| other.row != task.row && other.params.rt_priority >= task.params.rt_priority;
    let mut response_ns = task.run_ns;
    loop {
        let others = set.iter().filter(delays);
        let delay_ns: u64 = others
            .map(|other| response_ns.div_ceil(other.period_ns.max(1)).saturating_mul(other.run_ns))
            .fold(0, u64::saturating_add);
        let next_ns = task.run_ns.saturating_add(delay_ns);
        if next_ns > task.period_ns {
            return None;
        }
        if next_ns == response_ns {
            return Some(response_ns);
        }
        response_ns = next_ns;
    }
}
