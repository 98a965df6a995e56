//! How far do the native models of Linux's fair classes agree with real Linux of that version?
//!
//! The same workload on the same machine, once under the native policy and once through the real kernel:
//! shares of the CPU, numbers of switches, lengths of runs and waits, and the first decision that differs,
//! with its cause.
//!
//! ```text
//! workload       cpus   shares     switches         runs    same task   first difference
//! fairbench      1      0.00 %     4965 4967        0.00    ...         1 ms: fair server; without it none in 20 s
//! responsebench  1      0.01 %     ...                                  none in 20 s (6.1)
//! ```
//!
//! What differs by the kernel's surroundings and not by its policy is separated: the run is repeated with
//! 6.12's fair server (6.1: the limit of real-time tasks) off, with the kernel's own threads given to the
//! native policy too, and with sleeps as much longer as real timers are late. What is left is a difference of
//! the policies.

mod cases;
mod explain;
mod judge;
mod late_timers;
mod measure;
mod own_threads;
mod page;

pub use cases::{Setup, cases};
pub use explain::Cause;
pub use judge::{Comparison, Divergence, SHARE_COUNTED, compare, kolmogorov_smirnov};
pub use late_timers::with_late_timers;
pub use measure::{By, ComparedRun, Decision, OwnWakeup, Placement};
pub use own_threads::with_own_threads;
pub use page::{Row, pages};

use schedlab_lab::{Ended, Fails, FailureKind, Standard};
use schedlab_log::{LogError, LogProblem};
use schedlab_runner::{RunRequest, Scheduler};
use schedlab_units::Span;
use schedlab_workload::{Form, Workload, save};
use std::path::{Path, PathBuf};

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
    /// It did not end as it should.
    #[error("{sched} on {workload}: {}", ended.short())]
    Ended {
        /// Under this scheduler.
        sched: String,
        /// This workload.
        workload: String,
        /// How.
        ended: Box<Ended>,
    },
    /// A workload that was to be kept cannot be written.
    #[error("{}: {source}; choose a folder that can be written to, with free space", path.display())]
    Keep {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its log cannot be read.
    #[error(transparent)]
    Log(#[from] LogProblem),
}

impl From<LogError> for AgreementError {
    fn from(error: LogError) -> AgreementError {
        AgreementError::Log(error.into())
    }
}

impl Fails for AgreementError {
    fn kind(&self) -> FailureKind {
        match self {
            AgreementError::Ended { ended, .. } => ended.kind(),
            AgreementError::Keep { .. } | AgreementError::Log(_) => FailureKind::Input,
        }
    }
}

/// How a native policy and its kernel agree on one workload.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// As they are.
    pub plain: Comparison,
    /// With 6.12's fair server, or 6.1's limit of real-time tasks, off.
    pub unprotected: Comparison,
    /// With that, with the kernel's own threads in the native policy's workload too, and with its sleeps as
    /// long as real timers make them.
    pub alike: Comparison,
    /// What explains the first differences, in the order in which they were taken away; the last, if any, is
    /// what is left.
    pub causes: Vec<Cause>,
    /// Length of the native policy's run.
    pub duration_ns: u64,
    /// Of the first two runs, native and real: a hundredth, two hundredths, ... of the runs are no longer
    /// than this, in ns.
    pub run_quantiles_ns: [Vec<u64>; 2],
}

/// So often at most sleeps are lengthened by what real timers are late: what is late after a difference shows
/// when that is gone.
const TIMER_LOOKS: usize = 200;

/// One run, with its log kept in a file if there is one. Tasks beyond those of the case's workload count as
/// the kernel's.
fn run(
    case: &Setup,
    workload: &Workload,
    scheduler: &Scheduler,
    params: Vec<(String, String)>,
    keep: Option<PathBuf>,
) -> Result<ComparedRun, AgreementError> {
    let request = RunRequest {
        duration: Some(case.duration),
        params,
        ..RunRequest::new(workload, scheduler, case.topology.clone())
    };
    let log = match schedlab_lab::run(&request, Standard::NoWarning) {
        Ok(finished) => finished.log,
        Err(ended) => {
            let (sched, workload) = (scheduler.name().to_string(), case.name.clone());
            return Err(AgreementError::Ended { sched, workload, ended: Box::new(ended) });
        }
    };
    if let Some(path) = keep {
        schedlab_log::write(&path, &log)?;
    }
    Ok(ComparedRun::read(&log, case.workload.tasks.len())?)
}

/// Runs a workload under both of a pair and tells why they differ. With a folder, the logs of all runs are
/// kept in it, for `schedlab diff`: `WORKLOAD-CPUS-SCHEDULER.log`, those of the second look with `-alike`;
/// also the workload with the kernel's own threads.
///
/// # Errors
/// A run that could not be started or did not end as it should; a log that cannot be written.
pub fn agree(case: &Setup, pair: &Pair, logs: Option<&Path>) -> Result<Agreement, AgreementError> {
    let keep = |scheduler: &Scheduler, suffix: &str| {
        let name = format!("{}-{}-{}{suffix}.log", case.name, case.topology.nr_cpus(), scheduler.name());
        logs.map(|folder| folder.join(name))
    };
    let plain_run =
        |scheduler: &Scheduler| run(case, &case.workload, scheduler, Vec::new(), keep(scheduler, ""));
    let native = plain_run(&pair.native)?;
    let real = plain_run(&pair.real)?;
    let plain = compare(&native, &real);
    let run_quantiles_ns = [&native, &real].map(ComparedRun::run_quantiles_ns);
    // (the real run to which the native one is compared last)
    let (quiet, unprotected_comparison) = if plain.divergence.is_some() {
        let params = pair.real.unprotected(case.topology.nr_cpus());
        let quiet = run(case, &case.workload, &pair.real, params, keep(&pair.real, "-alike"))?;
        let comparison = compare(&native, &quiet);
        (quiet, comparison)
    } else {
        (real, plain.clone())
    };
    let duration_ns = native.duration_ns;
    let mut last_native = native;
    let mut alike = unprotected_comparison.clone();
    let mut last_workload = case.workload.clone();
    let repeat = |workload: &Workload| -> Result<(ComparedRun, Comparison), AgreementError> {
        let native = run(case, workload, &pair.native, Vec::new(), keep(&pair.native, "-alike"))?;
        let comparison = compare(&native, &quiet);
        Ok((native, comparison))
    };
    if alike.divergence.is_some() && !quiet.own_wakeups.is_empty() {
        let workload = with_own_threads(&case.workload, &quiet);
        let (native, comparison) = repeat(&workload)?;
        // (at the same time, too: with the same threads on its queues the native policy may do something
        // else, and more to the point)
        if !explain::moved(&comparison, &alike) {
            (last_workload, last_native, alike) = (workload, native, comparison);
        }
    }
    let with_threads = alike.clone();
    for _ in 0..TIMER_LOOKS {
        let Some(found) = &alike.divergence else { break };
        let Some(workload) = with_late_timers(&last_workload, &last_native, &quiet, found.time_ns) else {
            break;
        };
        let (native, comparison) = repeat(&workload)?;
        if !explain::moved(&alike, &comparison) {
            break;
        }
        (last_workload, last_native, alike) = (workload, native, comparison);
    }
    if let Some(folder) = logs.filter(|_| plain.divergence.is_some()) {
        let path = folder.join(format!("{}-{}-alike.wlb", case.name, case.topology.nr_cpus()));
        save(&path, &last_workload, Form::Binary)
            .map_err(|source| AgreementError::Keep { path: path.clone(), source })?;
    }
    let mut causes = Vec::new();
    if explain::moved(&plain, &unprotected_comparison) {
        causes.push(if pair.fair_server { Cause::FairServer } else { Cause::RealTimeLimit });
    }
    if explain::moved(&unprotected_comparison, &with_threads) {
        causes.push(Cause::OwnThreads);
    }
    if explain::moved(&with_threads, &alike) {
        causes.push(Cause::TimerResolution);
    }
    if let Some(found) = &alike.divergence {
        let cause = explain::cause(found, &case.workload, &last_native, &quiet, pair.start_debit);
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    Ok(Agreement { plain, unprotected: unprotected_comparison, alike, causes, duration_ns, run_quantiles_ns })
}

/// The same as text, exactly: `21.552437`.
pub(crate) fn ms_text(ns: u64) -> String {
    let text = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A length of simulated time in ms.
pub(crate) fn ms(ns: u64) -> f64 {
    Span::from_ns(ns).as_ms_f64()
}
