//! Makes all runs of a sweep that are not in the dataset yet, on all cores.
//!
//! ```text
//! for each run of the description, on each thread:
//!   key ── another shard's? ── in the dataset? ── claimed by another process? ── run it, keep it
//! ```
//!
//! Nothing is planned beyond that. An overlapping sweep makes the difference, since the rest is there. A sweep that was
//! killed goes on, and several processes share one folder: what is there, or claimed, is passed over.

use crate::bench::{Bench, Prepared};
use crate::error::SweepError;
use crate::key::Key;
use crate::row::SweptRun;
use crate::spec::Sweep;
use crate::store::Store;
use crate::trial::Trial;
use schedlab_lab::{Ended, Progress as Listener, Silent, Standard};
use schedlab_runner::pool;
use schedlab_stdx::lock;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A part of a sweep, by keys: I of N. Shards of equal N have no run in common, and all of them are the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    of: u64,
}

/// More shards than any cluster has nodes.
const SHARDS_MAX: u64 = 100_000;

impl Shard {
    /// Whether a run is in it.
    pub fn has(self, key: Key) -> bool {
        key.number() % self.of == self.index - 1
    }
}

/// Not `I/N`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no shard: expected I/N with I from 1 to N, such as 2/4, and N at most {SHARDS_MAX}")]
pub struct ShardError(String);

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let wrong = || ShardError(text.to_owned());
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let [index, of] = [index, of].map(str::parse::<u64>);
        match (index, of) {
            (Ok(index), Ok(of)) if (1..=of).contains(&index) && of <= SHARDS_MAX => Ok(Shard { index, of }),
            _ => Err(wrong()),
        }
    }
}

/// How a sweep is made.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Runs at once.
    pub jobs: usize,
    /// Only this part.
    pub shard: Option<Shard>,
    /// Keep the schedule log of each run, as `logs/KEY.arrow`.
    pub logs: bool,
    /// Make runs again that failed.
    pub again: bool,
    /// End a run as a stall if its scheduler does nothing for this long.
    pub stall_limit: Duration,
    /// Set by whoever wants no more: runs that are under way end within a twentieth of a second.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    /// All cores, everything that is missing, no logs.
    fn default() -> RunOptions {
        RunOptions {
            jobs: pool::cores(),
            shard: None,
            logs: false,
            again: false,
            stall_limit: schedlab_runner::STALL_LIMIT,
            stop: Arc::default(),
        }
    }
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SweepProgress {
    /// Runs of the description, of all shards.
    pub planned: u64,
    /// Of them: looked at.
    pub seen: u64,
    /// Of those: in the dataset already.
    pub known: u64,
    /// Made now, failed ones included.
    pub done: u64,
    /// Of those: without numbers.
    pub failed: u64,
    /// Of those: with a kernel's warning.
    pub warned: u64,
    /// Of those made: another experiment than was asked for (`changed_experiment`).
    pub changed: u64,
    /// Made per second of the host.
    pub per_s: f64,
    /// How long the rest will take, in seconds of the host; `None`: nothing is made yet.
    pub rest_s: Option<f64>,
}

/// What a sweep came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepSummary {
    /// Counts.
    pub progress: SweepProgress,
    /// Whether the dataset's files are in order: nobody else is at work in it.
    pub is_compact: bool,
    /// The first runs that failed: command and sentence.
    pub failures: Vec<(String, String)>,
}

/// Failures that a summary shows.
const FAILURES_SHOWN: usize = 10;
/// Runs that are handed out at once. (Threads meet at the end of each lot.)
const LOT: usize = 10_000;
/// Between two looks at a run that another process makes.
const PATIENCE: Duration = Duration::from_millis(50);

/// Parameters that are tried before a sweep begins; of more, those with new names.
const PROBES_MAX: usize = 200;

/// What the threads share.
struct Work<'a> {
    sweep: &'a Sweep,
    bench: &'a Bench,
    store: &'a Store,
    options: &'a RunOptions,
    logs: PathBuf,
    stop: AtomicBool,
    error: Mutex<Option<SweepError>>,
    seen: AtomicU64,
    known: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    warned: AtomicU64,
    changed: AtomicU64,
    /// Claimed by another process.
    deferred: Mutex<Vec<u64>>,
    /// Failed runs that were made again.
    again: Mutex<HashSet<u128>>,
    failures: Mutex<Vec<(String, String)>>,
}

/// What one look at a run came to.
enum Looked {
    Passed,
    Known,
    Made,
    Claimed,
}

/// Makes all runs of the sweep that are not in the dataset at `dir`. `progress` hears how far it is, and ends it with
/// `false`; `listener` hears of kernels that are built.
///
/// # Errors
/// The description asks for what there is not (its line is named), the host refuses something, or the caller wants no
/// more. What was made is kept, and the same call goes on.
pub fn run(
    sweep: &Sweep,
    dir: &Path,
    options: &RunOptions,
    listener: &dyn Listener,
    progress: &mut dyn FnMut(&SweepProgress) -> bool,
) -> Result<SweepSummary, SweepError> {
    let bench = Bench::new(sweep.base()).with_stall_limit(options.stall_limit);
    let planned = check(sweep, &bench, listener)?;
    let store = Store::open(dir)?;
    let logs = dir.join("logs");
    if options.logs {
        std::fs::create_dir_all(&logs).map_err(SweepError::io("create", &logs))?;
    }
    let work = Work {
        sweep,
        bench: &bench,
        store: &store,
        options,
        logs,
        stop: AtomicBool::new(false),
        error: Mutex::default(),
        seen: AtomicU64::new(0),
        known: AtomicU64::new(0),
        done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        warned: AtomicU64::new(0),
        changed: AtomicU64::new(0),
        deferred: Mutex::default(),
        again: Mutex::default(),
        failures: Mutex::default(),
    };
    let begun = Instant::now();
    let mut tell = |work: &Work<'_>| {
        if !progress(&work.progress(planned, begun)) {
            work.fail(SweepError::Stopped);
        }
    };
    let mut next = 0;
    while next < sweep.nr_candidates() && !work.is_stopped() {
        let wanted = (next..sweep.nr_candidates()).filter(|index| sweep.candidate(*index).is_some());
        let lot: Vec<u64> = wanted.take(LOT).collect();
        next = lot.last().map_or(sweep.nr_candidates(), |last| last + 1);
        work.lot(&lot, &mut tell)?;
    }
    work.wait_for_others(&mut tell)?;
    tell(&work);
    let Work { error, failures, .. } = &work;
    let error = lock(error).take();
    let failures = std::mem::take(&mut *lock(failures));
    let progress = work.progress(planned, begun);
    drop(work);
    let stopped = || options.stop.load(Ordering::Relaxed).then_some(SweepError::Stopped);
    match error.or_else(stopped) {
        Some(error) => {
            let _ = store.flush(); // what cannot be flushed stays in the journal
            Err(error)
        }
        None => Ok(SweepSummary { progress, is_compact: store.finish()?, failures }),
    }
}

impl Work<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.options.stop.load(Ordering::Relaxed)
    }

    /// The first error ends it all.
    fn fail(&self, error: SweepError) {
        self.stop.store(true, Ordering::Relaxed);
        let mut first = lock(&self.error);
        first.get_or_insert(error);
    }

    fn progress(&self, planned: u64, begun: Instant) -> SweepProgress {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (seen, known, done) = (load(&self.seen), load(&self.known), load(&self.done));
        let elapsed_s = begun.elapsed().as_secs_f64();
        let rest_s = (done > 0)
            .then(|| elapsed_s / (seen - known).max(1) as f64 * planned.saturating_sub(seen) as f64);
        SweepProgress {
            planned,
            seen,
            known,
            done,
            failed: load(&self.failed),
            warned: load(&self.warned),
            changed: load(&self.changed),
            per_s: done as f64 / elapsed_s.max(1e-9),
            rest_s,
        }
    }

    fn lot(&self, lot: &[u64], tell: &mut dyn FnMut(&Work<'_>)) -> Result<(), SweepError> {
        let one = |at: usize| {
            if self.is_stopped() {
                return;
            }
            match self.look(lot[at]) {
                Ok(Looked::Claimed) => {
                    lock(&self.deferred).push(lot[at]);
                    return;
                }
                Ok(Looked::Known) => drop(self.known.fetch_add(1, Ordering::Relaxed)),
                Ok(Looked::Passed | Looked::Made) => {}
                Err(error) => self.fail(self.sweep.place(lot[at], error)),
            }
            self.seen.fetch_add(1, Ordering::Relaxed);
        };
        let results = pool::map(lot.len(), self.options.jobs, one, |_| tell(self));
        let results = results.map_err(|error| SweepError::Host(error.to_string()))?;
        match results.into_iter().find_map(Result::err) {
            Some(lost) => Err(SweepError::Internal(lost.to_string())),
            None => Ok(()),
        }
    }

    /// Runs that another process makes: they are there in the end, or ours if that process is gone.
    fn wait_for_others(&self, tell: &mut dyn FnMut(&Work<'_>)) -> Result<(), SweepError> {
        loop {
            let deferred = std::mem::take(&mut *lock(&self.deferred));
            if deferred.is_empty() || self.is_stopped() {
                return Ok(());
            }
            let before = deferred.len();
            self.lot(&deferred, tell)?;
            let left = lock(&self.deferred).len();
            if left == before {
                tell(self);
                std::thread::sleep(PATIENCE);
            }
        }
    }

    /// Whether nothing is to be done about this run.
    fn is_there(&self, key: Key) -> bool {
        if !self.store.has(key) {
            return false;
        }
        let is_failed = self.store.has_failed(key);
        if is_failed && self.options.again {
            let again = lock(&self.again);
            return again.contains(&key.short());
        }
        is_failed || !self.options.logs || self.log(key).exists()
    }

    fn log(&self, key: Key) -> PathBuf {
        self.logs.join(format!("{key}.arrow"))
    }

    fn look(&self, index: u64) -> Result<Looked, SweepError> {
        let Some(trial) = self.sweep.candidate(index) else { return Ok(Looked::Passed) };
        let prepared = self.bench.prepare(&trial, &Silent)?;
        let key = prepared.key;
        if self.options.shard.is_some_and(|shard| !shard.has(key)) {
            return Ok(Looked::Passed);
        }
        if self.is_there(key) {
            return Ok(Looked::Known);
        }
        if !self.store.claim(key)? {
            return Ok(Looked::Claimed);
        }
        let looked = if self.is_there(key) { Ok(Looked::Known) } else { self.make(&trial, &prepared) };
        self.store.give_up(key);
        looked
    }

    fn make(&self, trial: &Trial, prepared: &Prepared) -> Result<Looked, SweepError> {
        let log = self.options.logs.then(|| self.log(prepared.key));
        let outcome = self.bench.perform(trial, prepared, log.as_deref(), &mut || !self.is_stopped())?;
        let is_failed = outcome.is_failed();
        let status = outcome.run()[1].clone();
        if is_failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
            self.note(&outcome);
            lock(&self.again).insert(prepared.key.short());
        } else if status.as_str() == Some("warned") {
            self.warned.fetch_add(1, Ordering::Relaxed);
        }
        self.changed.fetch_add(u64::from(outcome.is_changed()), Ordering::Relaxed);
        // (one that is there already was made for its log, or again: doubles are put in order in the end)
        self.store.tell_again(outcome)?;
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(Looked::Made)
    }

    fn note(&self, outcome: &SweptRun) {
        let mut failures = lock(&self.failures);
        if failures.len() < FAILURES_SHOWN {
            let text = |name: &str| outcome.column(name).map(ToString::to_string).unwrap_or_default();
            failures.push((text("command"), text("failure")));
        }
    }
}

/// Looks up every workload, scheduler, machine and file of costs once, and tries parameters of real Linux. Gives the
/// number of runs.
///
/// # Errors
/// One of them is not there, or a scheduler lacks a parameter: with the description's line.
pub fn check(sweep: &Sweep, bench: &Bench, listener: &dyn Listener) -> Result<u64, SweepError> {
    let mut planned = 0;
    let (mut seen, mut generated) = (HashSet::new(), 0);
    let (mut tried, mut names) = (BTreeSet::new(), BTreeSet::new());
    for index in 0..sweep.nr_candidates() {
        let Some(trial) = sweep.candidate(index) else { continue };
        planned += 1;
        let workload = trial.settings_toml().or_else(|| trial.workload.clone()).unwrap_or_default();
        let mut is_new = false;
        let sched = format!("{} {:?} {}", trial.sched, trial.params, trial.hz());
        for (kind, name) in [
            ("workload", workload),
            ("sched", sched),
            ("machine", trial.machine.clone()),
            ("costs", trial.costs.clone().unwrap_or_default()),
        ] {
            let key = (kind, name);
            if kind == "workload" && trial.generate.is_some() && !seen.contains(&key) {
                generated += 1;
                if generated > PROBES_MAX {
                    continue; // each is a file of settings by itself; the others are checked when they are made
                }
            }
            is_new |= seen.insert(key);
        }
        if !is_new {
            continue;
        }
        let place = |error| sweep.place(index, error);
        let prepared = bench.prepare(&trial, listener).map_err(place)?;
        let fresh = trial.params.iter().any(|param| {
            !tried.contains(&(trial.sched.clone(), trial.hz(), param.0.clone(), param.1.clone()))
        });
        let fresh_name =
            trial.params.keys().any(|name| !names.contains(&(trial.sched.clone(), name.clone())));
        if prepared.is_linux() && (fresh_name || (fresh && tried.len() < PROBES_MAX)) {
            probe(bench, &trial).map_err(place)?;
            for (name, value) in &trial.params {
                tried.insert((trial.sched.clone(), trial.hz(), name.clone(), value.clone()));
                names.insert((trial.sched.clone(), name.clone()));
            }
        }
    }
    if planned == 0 {
        let what = "no run is left: [[only]] and [[except]] leave out all of them; loosen one".to_owned();
        return Err(SweepError::File { file: sweep.name().to_owned(), what });
    }
    Ok(planned)
}

/// A millisecond of one task under the trial's scheduler: does it take the parameters?
fn probe(bench: &Bench, trial: &Trial) -> Result<(), SweepError> {
    let tiny = Trial {
        workload: None,
        generate: Some("hogs".to_owned()),
        set: [("nices".to_owned(), crate::value::Value::List(vec![crate::value::Value::Int(0)]))].into(),
        duration: Some("1ms".to_owned()),
        costs: None,
        ..trial.clone()
    };
    let prepared = bench.prepare(&tiny, &Silent)?;
    match schedlab_lab::run(&prepared.request(schedlab_runner::STALL_LIMIT), Standard::Shown) {
        Err(Ended::Refused { reason }) => {
            // (else it refuses something else, an object of another port for one)
            let named = trial.params.iter().find(|(name, _)| reason.contains(name.as_str()));
            let Some((name, value)) = named else {
                return Err(SweepError::setting("sched", &trial.sched, reason));
            };
            let what = format!("{reason}; 'schedlab schedulers {}' lists what it takes", trial.sched);
            Err(SweepError::setting(&format!("param.{name}"), value, what))
        }
        _ => Ok(()),
    }
}

/// What a sweep would cost.
#[derive(Clone, Debug, PartialEq)]
pub struct CostEstimate {
    /// Runs of the description.
    pub planned: u64,
    /// Trial runs that were made for this.
    pub tried: u64,
    /// Of those: failed.
    pub failed: u64,
    /// Host time of one run, in seconds: mean of those.
    pub run_s: f64,
    /// Host time of the whole, with so many jobs.
    pub total_s: f64,
    /// Bytes of the dataset, from the trial runs' rows.
    pub bytes: u64,
}

/// Trial runs of an estimate, and for how long they go on.
const TRIALS: u64 = 32;
const TRIALS_TIME: Duration = Duration::from_secs(10);

/// Makes some runs, spread over the whole sweep, and tells what all of them would cost. Nothing is kept.
///
/// # Errors
/// As [`run`].
pub fn estimate(
    sweep: &Sweep,
    options: &RunOptions,
    listener: &dyn Listener,
) -> Result<CostEstimate, SweepError> {
    let bench = Bench::new(sweep.base()).with_stall_limit(options.stall_limit);
    let planned = check(sweep, &bench, listener)?;
    let begun = Instant::now();
    let (mut outcomes, mut wall_s) = (Vec::new(), 0.0);
    let step = sweep.nr_candidates().div_ceil(TRIALS).max(1);
    // one without being counted: workers are started, workloads are lowered
    let mut is_first = true;
    for from in (0..sweep.nr_candidates()).step_by(step as usize) {
        let Some((index, trial)) = (from..(from + step).min(sweep.nr_candidates()))
            .find_map(|index| Some((index, sweep.candidate(index)?)))
        else {
            continue;
        };
        let place = |error| sweep.place(index, error);
        let prepared = bench.prepare(&trial, &Silent).map_err(place)?;
        if std::mem::take(&mut is_first) {
            bench.perform(&trial, &prepared, None, &mut || true).map_err(place)?;
        }
        let run = Instant::now();
        outcomes.push(bench.perform(&trial, &prepared, None, &mut || true).map_err(place)?);
        wall_s += run.elapsed().as_secs_f64();
        if begun.elapsed() > TRIALS_TIME {
            break;
        }
    }
    let tried = outcomes.len() as u64;
    let failed = outcomes.iter().filter(|outcome| outcome.is_failed()).count() as u64;
    let run_s = wall_s / tried.max(1) as f64;
    let of_shard = options.shard.map_or(1.0, |shard| shard.of as f64);
    let nr = planned as f64 / of_shard;
    let bytes = bytes_of_row(&outcomes)? * nr;
    let jobs = options.jobs.min(pool::cores()).max(1) as f64;
    Ok(CostEstimate { planned, tried, failed, run_s, total_s: run_s * nr / jobs, bytes: bytes as u64 })
}

/// Bytes that one more run takes in Parquet: what all take beyond half of them.
fn bytes_of_row(outcomes: &[SweptRun]) -> Result<f64, SweepError> {
    let folder = tempfile::tempdir().map_err(SweepError::io("create a folder in", &std::env::temp_dir()))?;
    let size = |outcomes: &[SweptRun]| crate::store::part_bytes(folder.path(), outcomes);
    let half = outcomes.len() / 2;
    let all = size(outcomes)? as f64;
    if half == 0 {
        return Ok(all / outcomes.len().max(1) as f64);
    }
    Ok((all - size(&outcomes[..half])? as f64) / (outcomes.len() - half) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_no_run_and_leave_none_out() {
        let shards: Vec<Shard> = (1..=3).map(|index| format!("{index}/3").parse().unwrap()).collect();
        for first in 0..=255 {
            let key = Key([first; 32]);
            assert_eq!(shards.iter().filter(|shard| shard.has(key)).count(), 1);
        }
        for bad in ["", "1", "0/2", "3/2", "1/0", "a/b", "1/100001", "-1/2"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
