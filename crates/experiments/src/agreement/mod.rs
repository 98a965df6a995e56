//! How far do the native models of Linux's fair classes agree with real Linux of that version?
//!
//! The same workload on the same machine, once under the native policy and once through the real kernel: shares of the CPU, numbers
//! of switches, lengths of runs and waits, and the first decision that differs, with its cause.
//!
//! ```text
//! workload       cpus   shares     switches         runs    same task   first difference
//! fairbench      1      0.00 %     4965 4967        0.00    ...         1 ms: fair server; without it none in 20 s
//! responsebench  1      0.01 %     ...                                  none in 20 s (6.1)
//! ```
//!
//! What differs by the kernel's surroundings and not by its fair class is separated: the run is repeated with 6.12's fair server off,
//! and with the kernel's own threads given to the native policy too. What is left is a difference of the policies.

mod cases;
mod compare;
mod explain;
mod own_threads;
mod page;
mod schedule;

pub use cases::{Case, cases};
pub use compare::{Comparison, Divergence, SHARE_COUNTED, compare, kolmogorov_smirnov};
pub use explain::Cause;
pub use own_threads::with_own_threads;
pub use page::{Row, pages};
pub use schedule::{By, Decision, OwnWakeup, Placement, Schedule};

use schedlab_log::{LogError, RawLog};
use schedlab_runner::{Request, RunEnd, RunError, STALL_LIMIT, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;

/// A native policy and the kernel that it models.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The native policy.
    pub native: Scheduler,
    /// The real kernel.
    pub real: Scheduler,
    /// Whether that kernel has a deadline server for the fair class (since 6.8).
    pub fair_server: bool,
    /// Whether it places new tasks a slice behind the others (CFS).
    pub start_debit: bool,
}

/// A run that gives nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum AgreementError {
    /// It could not be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It did not end as it should.
    #[error("{sched} on {workload}: {reason}")]
    Ended {
        /// Under this scheduler.
        sched: String,
        /// This workload.
        workload: String,
        /// How.
        reason: String,
    },
    /// Its log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// How a native policy and its kernel agree on one workload.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// As they are.
    pub plain: Comparison,
    /// With the fair server off.
    pub without_server: Comparison,
    /// With that, and with the kernel's own threads in the native policy's workload too.
    pub alike: Comparison,
    /// What explains the first differences, in the order in which they were taken away; the last, if any, is what is left.
    pub causes: Vec<Cause>,
    /// Length of the native policy's run.
    pub duration_ns: u64,
    /// Of the first two runs, native and real: a hundredth, two hundredths, ... of the runs are no longer than this, in ns.
    pub run_quantiles_ns: [Vec<u64>; 2],
}

/// One run. `nr_tasks` are the workload's own tasks; those after them count as the kernel's.
fn run(
    case: &Case,
    workload: &Workload,
    scheduler: &Scheduler,
    params: Vec<(String, String)>,
) -> Result<Schedule, AgreementError> {
    let request = Request {
        workload,
        scheduler,
        topology: case.topology.clone(),
        duration: Some(case.duration),
        params,
        perturb: None,
        actions: &[],
        costs: None,
        stall_limit: STALL_LIMIT,
    };
    let result = schedlab_runner::run(&request)?;
    let reason = match result.report.end {
        RunEnd::AllDone | RunEnd::Duration => None,
        RunEnd::Deadlock { .. } => Some("the workload deadlocks".to_string()),
        RunEnd::Misbehaved { report } => Some(format!("{}: {}", report.kind, report.reason)),
    };
    if let Some(reason) = reason {
        let (sched, workload) = (scheduler.name().to_string(), case.name.clone());
        return Err(AgreementError::Ended { sched, workload, reason });
    }
    let log = RawLog::open(result.spill, result.header)?;
    Ok(Schedule::read(&log, case.workload.tasks.len())?)
}

/// Switches 6.12's fair server off on every CPU.
fn no_fair_server(topology: &Topology) -> Vec<(String, String)> {
    let off = |cpu| (format!("sched/fair_server/cpu{cpu}/runtime"), "0".to_string());
    let mut params: Vec<_> = (0..topology.nr_cpus()).map(off).collect();
    params.sort();
    params
}

/// Runs a workload under both of a pair and tells why they differ.
///
/// # Errors
/// A run that could not be started or did not end as it should.
pub fn agree(case: &Case, pair: &Pair) -> Result<Agreement, AgreementError> {
    let native = run(case, &case.workload, &pair.native, Vec::new())?;
    let real = run(case, &case.workload, &pair.real, Vec::new())?;
    let plain = compare(&native, &real);
    let run_quantiles_ns = [&native, &real].map(Schedule::run_quantiles_ns);
    let (quiet, without_server) = if pair.fair_server && plain.divergence.is_some() {
        let quiet = run(case, &case.workload, &pair.real, no_fair_server(&case.topology))?;
        let comparison = compare(&native, &quiet);
        (quiet, comparison)
    } else {
        (real, plain.clone())
    };
    let duration_ns = native.duration_ns;
    let alike = if without_server.divergence.is_some() && !quiet.own_wakeups.is_empty() {
        let workload = with_own_threads(&case.workload, &quiet);
        let native = run(case, &workload, &pair.native, Vec::new())?;
        compare(&native, &quiet)
    } else {
        without_server.clone()
    };
    let mut causes = Vec::new();
    if explain::moved(&plain, &without_server) {
        causes.push(Cause::FairServer);
    }
    if explain::moved(&without_server, &alike) {
        causes.push(Cause::OwnThreads);
    }
    if let Some(found) = &alike.divergence {
        causes.push(explain::cause(found, &case.workload, case.topology.nr_cpus(), pair.start_debit));
    }
    Ok(Agreement { plain, without_server, alike, causes, duration_ns, run_quantiles_ns })
}

/// A length of simulated time in ms.
pub(crate) fn ms(ns: u64) -> f64 {
    Span::from_ns(ns).as_ms_f64()
}
