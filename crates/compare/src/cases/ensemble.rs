//! What an ensemble of perturbed replays ([`Ensemble`]) gives: the samples that comparisons are made of.

use crate::cases::subjects::{TaskGroup, subjects};
use crate::measure::MetricValues;
use schedlab_instruments::jobs::plans;
use schedlab_lab::{Ended, Ensemble, RunFailure, Standard};
use schedlab_runner::pool::PoolError;

/// One run's result.
pub type RunOutcome = Result<MetricValues, RunFailure>;

/// All runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// By contender, then by seed.
    pub runs: Vec<Vec<RunOutcome>>,
    /// Whose numbers each run has, besides those of all tasks.
    pub subjects: Vec<TaskGroup>,
}

impl Samples {
    /// Runs everything; `done` hears how many runs are finished. Warnings do not end a run: they are in its
    /// [`MetricValues`].
    ///
    /// # Errors
    /// Workers cannot be started.
    pub fn of(ensemble: &Ensemble<'_>, done: impl FnMut(usize)) -> Result<Samples, PoolError> {
        let subjects = subjects(ensemble.workload);
        let plans = plans(ensemble.workload);
        let measure = |run: &_| MetricValues::of(run, &subjects, &plans).map_err(Ended::from);
        let runs = ensemble.run(Standard::Shown, measure, done)?;
        Ok(Samples { runs, subjects })
    }
}
