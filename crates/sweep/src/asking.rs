//! Trials one by one: for whoever makes runs elsewhere (a cluster), or chooses them as results come (an optimiser).
//!
//! ```no_run
//! # use schedlab_sweep::{Asking, Bench, Sweep};
//! # fn main() -> Result<(), schedlab_sweep::SweepError> {
//! let sweep = Sweep::load("sweep.toml".as_ref())?;
//! let bench = Bench::new(sweep.base());
//! let mut asking = Asking::new(&sweep, "results".as_ref(), None)?;
//! while let Some((_key, trial)) = asking.ask()? {
//!     let outcome = bench.run(&trial)?;           // here, or wherever the trial is sent
//!     asking.tell(outcome)?;
//! }
//! asking.finish()?;
//! # Ok(())
//! # }
//! ```

use crate::bench::Bench;
use crate::engine::Shard;
use crate::error::SweepError;
use crate::key::Key;
use crate::row::Outcome;
use crate::spec::Sweep;
use crate::store::Store;
use crate::trial::Trial;
use std::collections::BTreeMap;
use std::path::Path;

/// A dataset that is filled from outside.
pub struct Asking<'a> {
    sweep: &'a Sweep,
    bench: Bench,
    store: Store,
    shard: Option<Shard>,
    next: u64,
    /// Asked, and not told yet.
    open: BTreeMap<Key, Trial>,
    /// Another process makes them.
    deferred: Vec<u64>,
}

/// What there is of a trial that was proposed.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Its run is in the dataset.
    Known(Key),
    /// Somebody makes it: this caller, or another process.
    UnderWay(Key),
    /// It is the caller's to make and tell now.
    New(Key),
}

impl<'a> Asking<'a> {
    /// Opens the dataset at `dir` for the sweep's runs, or for a shard of them.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn new(sweep: &'a Sweep, dir: &Path, shard: Option<Shard>) -> Result<Asking<'a>, SweepError> {
        let (bench, store) = (Bench::new(sweep.base()), Store::open(dir)?);
        Ok(Asking { sweep, bench, store, shard, next: 0, open: BTreeMap::new(), deferred: Vec::new() })
    }

    /// The dataset.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The next run of the sweep that is neither in the dataset nor under way. `None`: there is none now. Those that
    /// another process makes are asked again at the end.
    ///
    /// # Errors
    /// A run's settings make no run; the description's line is named.
    pub fn ask(&mut self) -> Result<Option<(Key, Trial)>, SweepError> {
        while self.next < self.sweep.nr_candidates() {
            let index = self.next;
            self.next += 1;
            if let Some(found) = self.take(index)? {
                return Ok(Some(found));
            }
        }
        for index in std::mem::take(&mut self.deferred) {
            if let Some(found) = self.take(index)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn take(&mut self, index: u64) -> Result<Option<(Key, Trial)>, SweepError> {
        let Some(trial) = self.sweep.candidate(index) else { return Ok(None) };
        let key = self.bench.key(&trial).map_err(|error| self.sweep.place(index, error))?;
        if self.shard.is_some_and(|shard| !shard.has(key)) {
            return Ok(None);
        }
        match self.claim(key, &trial)? {
            Asked::New(key) => Ok(Some((key, trial))),
            Asked::Known(_) => Ok(None),
            Asked::UnderWay(key) => {
                if !self.open.contains_key(&key) {
                    self.deferred.push(index);
                }
                Ok(None)
            }
        }
    }

    fn claim(&mut self, key: Key, trial: &Trial) -> Result<Asked, SweepError> {
        if self.store.has(key) {
            return Ok(Asked::Known(key));
        }
        if !self.store.claim(key)? {
            return Ok(Asked::UnderWay(key));
        }
        if self.store.has(key) {
            self.store.give_up(key);
            return Ok(Asked::Known(key));
        }
        self.open.insert(key, trial.clone());
        Ok(Asked::New(key))
    }

    /// A run that is in no description: an optimiser's choice.
    ///
    /// # Errors
    /// The trial makes no run.
    pub fn propose(&mut self, trial: &Trial) -> Result<Asked, SweepError> {
        let key = self.bench.key(trial)?;
        self.claim(key, trial)
    }

    /// Keeps the result of a run that was asked. `false`: it was there before; that does no harm.
    ///
    /// # Errors
    /// It was not asked; or it cannot be written.
    pub fn tell(&mut self, outcome: Outcome) -> Result<bool, SweepError> {
        let key = outcome.key();
        if self.store.has(key) {
            self.open.remove(&key);
            self.store.give_up(key);
            return Ok(false);
        }
        let Some(trial) = self.open.get(&key) else {
            let why = "no run of this key is under way here; a worker with another engine or workload has other keys";
            return Err(SweepError::NotAsked { key, why });
        };
        let same =
            |name: &str, text: &str| outcome.column(name).is_some_and(|cell| cell.as_str() == Some(text));
        if !same("trial", &trial.to_json()) || !same("engine", schedlab_runner::ENGINE) {
            return Err(SweepError::NotAsked { key, why: "its row is that of another trial or engine" });
        }
        let told = self.store.tell(outcome)?;
        self.open.remove(&key);
        self.store.give_up(key);
        Ok(told)
    }

    /// Whoever had the run will not tell: it can be asked again.
    pub fn give_up(&mut self, key: Key) {
        if self.open.remove(&key).is_some() {
            self.store.give_up(key);
            self.next = 0; // (what is there is passed over)
        }
    }

    /// Runs that are asked and not told.
    pub fn under_way(&self) -> usize {
        self.open.len()
    }

    /// All results become Parquet; in order, if nobody else is at work.
    ///
    /// # Errors
    /// Those of [`Store::finish`].
    pub fn finish(self) -> Result<bool, SweepError> {
        self.store.finish()
    }
}
