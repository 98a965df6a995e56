//! Many perturbed replays of one workload under several schedulers: the samples that comparisons are made of.
//!
//! ```text
//!              seed 1    seed 2    seed 3          one column: the same perturbed workload, a pair
//!   baseline   run       run       run
//!   other      run       run       run
//! ```
//!
//! Runs are spread over worker processes ([`schedlab_runner::pool`]); results do not depend on how many.

use crate::measure::Measures;
use crate::subjects::{Subject, subjects};
use schedlab_instruments::LogProblem;
use schedlab_log::RawLog;
use schedlab_machine::Perturb;
use schedlab_runner::pool::{self, PoolError};
use schedlab_runner::{Request, RunEnd, RunError, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;
use serde::{Deserialize, Serialize};

/// A scheduler with its parameters.
#[derive(Clone, Debug)]
pub struct Contender {
    /// What to call it.
    pub label: String,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Its parameters.
    pub params: Vec<(String, String)>,
}

/// What is run, where, and how often.
#[derive(Clone, Debug)]
pub struct Ensemble<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The machine.
    pub topology: Topology,
    /// Stop each run after so much simulated time.
    pub duration: Option<Span>,
    /// The schedulers.
    pub contenders: &'a [Contender],
    /// One run per contender and seed.
    pub seeds: &'a [u64],
    /// Ranges of the perturbation; its seed is replaced by each of `seeds`. `None`: seeds are only what schedulers draw from.
    pub perturb: Option<Perturb>,
    /// Runs at once.
    pub jobs: usize,
}

/// Why a run has no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureKind {
    /// The workload or a parameter is wrong (a deadlock included).
    Input,
    /// The scheduler under test misbehaved.
    Misbehaved,
    /// A bug of ours.
    Internal,
}

/// A run without numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFailure {
    /// Whose fault.
    pub kind: FailureKind,
    /// What happened.
    pub reason: String,
}

/// One run's result.
pub type RunOutcome = Result<Measures, RunFailure>;

/// All runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// By contender, then by seed.
    pub runs: Vec<Vec<RunOutcome>>,
    /// Whose numbers each run has, besides those of all tasks.
    pub subjects: Vec<Subject>,
}

impl Ensemble<'_> {
    /// Runs everything; `done` hears how many runs are finished.
    pub fn run(&self, done: impl FnMut(usize)) -> Result<Samples, PoolError> {
        let subjects = subjects(self.workload);
        let (nr_seeds, nr_contenders) = (self.seeds.len(), self.contenders.len());
        // seeds outermost: contenders of one seed run at about the same time
        let one = |index: usize| {
            let contender = &self.contenders[index % nr_contenders];
            self.one(contender, self.seeds[index / nr_contenders], &subjects)
        };
        let results = pool::map(nr_seeds * nr_contenders, self.jobs, one, done)?;
        let mut runs: Vec<Vec<RunOutcome>> =
            (0..nr_contenders).map(|_| Vec::with_capacity(nr_seeds)).collect();
        for (index, result) in results.into_iter().enumerate() {
            let outcome = result.unwrap_or_else(|died| Err(internal(&died)));
            runs[index % nr_contenders].push(outcome);
        }
        Ok(Samples { runs, subjects })
    }

    /// One run. Deterministic.
    fn one(&self, contender: &Contender, seed: u64, subjects: &[Subject]) -> RunOutcome {
        let mut params = contender.params.clone();
        if contender.scheduler.has_seed() && !params.iter().any(|(name, _)| name == "seed") {
            params.push(("seed".to_string(), seed.to_string()));
        }
        params.sort();
        let request = Request {
            duration: self.duration,
            params,
            perturb: self.perturb.map(|perturb| Perturb { seed, ..perturb }),
            ..Request::new(self.workload, &contender.scheduler, self.topology.clone())
        };
        let result = schedlab_runner::run(&request).map_err(|error| match error {
            RunError::Report(_) => internal(&error),
            other => RunFailure { kind: FailureKind::Input, reason: other.to_string() },
        })?;
        let is_done = match &result.report.end {
            RunEnd::AllDone => true,
            RunEnd::Duration => false,
            RunEnd::Deadlock { waits } => {
                let reason = format!(
                    "the workload deadlocks: {} tasks wait for each other; 'schedlab run' names them",
                    waits.len()
                );
                return Err(RunFailure { kind: FailureKind::Input, reason });
            }
            RunEnd::Misbehaved { report } => {
                let refused = report.kind == schedlab_runner::ExitKind::Refused;
                let kind = if refused { FailureKind::Input } else { FailureKind::Misbehaved };
                let place = if refused {
                    String::new()
                } else {
                    format!("{} after {}: ", report.kind, Span::from_ns(report.time_ns))
                };
                return Err(RunFailure { kind, reason: format!("{place}{}", report.reason) });
            }
        };
        let log = RawLog::open(result.spill, result.header).map_err(|error| internal(&error))?;
        let mut measures = Measures::of(&log, is_done, subjects).map_err(|error| match error {
            LogProblem::Log(error) => RunFailure { kind: FailureKind::Input, reason: error.to_string() },
            other => internal(&other),
        })?;
        let first_line = |text: &String| text.lines().next().unwrap_or_default().to_string();
        measures.warnings = result.report.warnings.iter().map(first_line).collect();
        Ok(measures)
    }
}

fn internal(error: &dyn std::fmt::Display) -> RunFailure {
    RunFailure { kind: FailureKind::Internal, reason: format!("internal error: {error}") }
}
