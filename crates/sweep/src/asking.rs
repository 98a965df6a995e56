//! Trials one by one: for whoever makes runs elsewhere (a cluster), or chooses them as results come (an optimiser).
//!
//! ```no_run
//! # use schedlab_sweep::{Asking, Bench, Sweep};
//! # fn main() -> Result<(), schedlab_sweep::SweepError> {
//! let sweep = Sweep::load("sweep.toml".as_ref())?;
//! let bench = Bench::new(sweep.base());
//! let mut asking = Asking::new(sweep, "results".as_ref(), None)?;
//! while let Some((_key, trial)) = asking.ask()? {
//!     let outcome = bench.run(&trial)?;           // here, or wherever the trial is sent
//!     asking.tell(outcome)?;
//! }
//! asking.finish()?;
//! # Ok(())
//! # }
//! ```

use crate::bench::{Bench, Prepared};
use crate::engine::Shard;
use crate::error::SweepError;
use crate::key::{Key, hex};
use crate::row::SweptRun;
use crate::spec::Sweep;
use crate::store::Store;
use crate::trial::Trial;
use schedlab_lab::Silent;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// A dataset that is filled from outside.
pub struct Asking {
    sweep: Sweep,
    bench: Arc<Bench>,
    store: Store,
    shard: Option<Shard>,
    next: u64,
    /// Asked, and not told yet.
    open: BTreeMap<Key, Open>,
    /// Told here: the first 64 bits of the SHA-256 of each answer.
    told: HashMap<u128, u64>,
    /// Another process makes them.
    deferred: Vec<u64>,
}

/// What an answer has to be of.
struct Open {
    trial: String,
    workload_sha256: String,
    kernel_key: Option<String>,
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

impl Asking {
    /// Opens the dataset at `dir` for the sweep's runs, or for a shard of them.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn new(sweep: Sweep, dir: &Path, shard: Option<Shard>) -> Result<Asking, SweepError> {
        let (bench, store) = (Arc::new(Bench::new(sweep.base())), Store::open(dir)?);
        let (open, told, deferred) = (BTreeMap::new(), HashMap::new(), Vec::new());
        Ok(Asking { sweep, bench, store, shard, next: 0, open, told, deferred })
    }

    /// Where its trials become keys and orders; it makes runs, too.
    pub fn bench(&self) -> Arc<Bench> {
        self.bench.clone()
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
        let prepared = self.bench.prepare(&trial, &Silent).map_err(|error| self.sweep.place(index, error))?;
        if self.shard.is_some_and(|shard| !shard.has(prepared.key)) {
            return Ok(None);
        }
        match self.claim(&prepared, &trial)? {
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

    fn claim(&mut self, prepared: &Prepared, trial: &Trial) -> Result<Asked, SweepError> {
        let key = prepared.key;
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
        let workload_sha256 = hex(&prepared.ready.sha256);
        let kernel_key = prepared.kernel_key.clone();
        self.open.insert(key, Open { trial: trial.to_json(), workload_sha256, kernel_key });
        Ok(Asked::New(key))
    }

    /// A run that is in no description: an optimiser's choice.
    ///
    /// # Errors
    /// The trial makes no run.
    pub fn propose(&mut self, trial: &Trial) -> Result<Asked, SweepError> {
        let prepared = self.bench.prepare(trial, &Silent)?;
        self.claim(&prepared, trial)
    }

    /// Keeps the result of a run that was asked. `false`: it was there before, with the same result; that does no harm.
    ///
    /// # Errors
    /// It was not asked, or is the result of something else, or differs from what came before; or it cannot be
    /// written.
    pub fn tell(&mut self, outcome: SweptRun) -> Result<bool, SweepError> {
        let key = outcome.key();
        let digest = Sha256::digest(outcome.to_bytes());
        let sum = u64::from_be_bytes(digest[..8].try_into().expect("eight of 32 bytes"));
        if self.store.has(key) {
            if self.told.get(&key.short()).is_some_and(|before| *before != sum) {
                let [first, second] = ["the one that is kept", "the one that came later"].map(str::to_owned);
                let column = "some column".to_owned();
                return Err(SweepError::Contradiction { key, column, first, second });
            }
            self.open.remove(&key);
            self.store.give_up(key);
            return Ok(false);
        }
        let Some(open) = self.open.get(&key) else {
            let why = "no run of this key is under way here; a worker with another engine or workload has other keys";
            return Err(SweepError::NotAsked { key, why });
        };
        let is =
            |name: &str, text: Option<&str>| outcome.column(name).is_some_and(|cell| cell.as_str() == text);
        if !is("trial", Some(&open.trial)) || !is("engine", Some(schedlab_runner::ENGINE)) {
            return Err(SweepError::NotAsked { key, why: "its row is that of another trial or engine" });
        }
        if !is("workload_sha256", Some(&open.workload_sha256))
            || !is("kernel_key", open.kernel_key.as_deref())
        {
            return Err(SweepError::NotAsked { key, why: "its row is that of another workload or kernel" });
        }
        let told = self.store.tell(outcome)?;
        self.told.insert(key.short(), sum);
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

    /// Runs of the description, less what is left out; of all shards.
    pub fn planned(&self) -> u64 {
        (0..self.sweep.nr_candidates()).filter(|index| self.sweep.candidate(*index).is_some()).count() as u64
    }

    /// Runs that another process makes, as far as is known.
    pub fn elsewhere(&self) -> usize {
        self.deferred.len()
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
