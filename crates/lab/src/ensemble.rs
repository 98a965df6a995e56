//! Many runs of one workload: under several schedulers that see the same seeds, spread over all cores.
//!
//! ```text
//!              seed 1    seed 2    seed 3          one column: the same perturbed workload, a pair
//!   baseline   run       run       run
//!   other      run       run       run
//! ```
//!
//! Runs are spread over workers ([`schedlab_runner::pool`]); results do not depend on how many.

use crate::failure::{Fails, RunFailure};
use crate::run::{Ended, Finished, Standard, run};
use crate::subject::Subject;
use schedlab_machine::Perturb;
use schedlab_runner::RunRequest;
use schedlab_runner::pool::{self, PoolError};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;

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
    pub contenders: &'a [Subject],
    /// One run per contender and seed.
    pub seeds: &'a [u64],
    /// Ranges of the perturbation; its seed is replaced by each of `seeds`. `None`: seeds are only what schedulers draw
    /// from.
    pub perturb: Option<Perturb>,
    /// Runs at once.
    pub jobs: usize,
}

impl Ensemble<'_> {
    /// Runs everything and measures each run that ends as it should, by this standard; `done` hears how many runs are
    /// finished. Gives, by contender and then by seed, what was measured, or on one line why there is nothing.
    ///
    /// # Errors
    /// Workers cannot be started.
    pub fn run<T: Send>(
        &self,
        standard: Standard,
        measure: impl Fn(&Finished) -> Result<T, Ended> + Sync,
        done: impl FnMut(usize),
    ) -> Result<Vec<Vec<Result<T, RunFailure>>>, PoolError> {
        let (nr_seeds, nr_contenders) = (self.seeds.len(), self.contenders.len());
        // seeds outermost: contenders of one seed run at about the same time
        let one = |index: usize| {
            let (contender, seed) =
                (&self.contenders[index % nr_contenders], self.seeds[index / nr_contenders]);
            self.one(contender, seed, standard)
                .and_then(|finished| measure(&finished))
                .map_err(|ended| RunFailure { kind: ended.kind(), reason: ended.short() })
        };
        let results = pool::map(nr_seeds * nr_contenders, self.jobs, one, done)?;
        let mut runs: Vec<Vec<_>> = (0..nr_contenders).map(|_| Vec::with_capacity(nr_seeds)).collect();
        for (index, result) in results.into_iter().enumerate() {
            runs[index % nr_contenders].push(result.unwrap_or_else(|lost| Err(RunFailure::of(&lost))));
        }
        Ok(runs)
    }

    /// One run. Deterministic.
    fn one(&self, contender: &Subject, seed: u64, standard: Standard) -> Result<Finished, Ended> {
        let contender = contender.clone().seeded(seed);
        let request = RunRequest {
            duration: self.duration,
            perturb: self.perturb.map(|perturb| Perturb { seed, ..perturb }),
            ..contender.on(self.workload, self.topology.clone())
        };
        run(&request, standard)
    }
}
