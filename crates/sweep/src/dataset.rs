//! What is in a dataset? Files for whoever reads Parquet, counts, one hash, rows.

use crate::engine::{self, RunOptions, SweepProgress, SweepSummary};
use crate::error::SweepError;
use crate::key::{Summing, hex};
use crate::row::SweptRun;
use crate::spec::Sweep;
pub use crate::store::Files;
use crate::store::{self, Merged, Reading, Store, compact_with};
use crate::trial::Trial;
use schedlab_lab::Progress as Listener;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The files as they are now, each row once, also while files are put in order, or after a kill in the midst of that.
/// A sweep that is at work adds others, and may take these away: who then finds one missing asks again.
///
/// # Errors
/// There is no dataset, or one of another version.
pub fn files(dir: &Path) -> Result<Files, SweepError> {
    store::existing(dir)?;
    store::whole_files(dir)
}

/// What a dataset holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Runs.
    pub runs: u64,
    /// Rows of `tasks`.
    pub tasks: u64,
    /// Runs by status.
    pub by_status: BTreeMap<String, u64>,
    /// Runs that are another experiment than was asked for (`changed_experiment`).
    pub changed: u64,
    /// Files of the table `runs`; `tasks` has as many.
    pub files: u64,
    /// Their bytes, both tables'.
    pub bytes: u64,
    /// Runs by engine: rows of different engines are different runs.
    pub engines: BTreeMap<String, u64>,
    /// Failures by scheduler and end, most first: the first one's sentence, how often, the first one's command.
    pub failures: Vec<(String, u64, String)>,
    /// SHA-256 over all rows in order of keys: equal datasets have equal ones, however their files are cut.
    pub hash: String,
}

/// Reads the whole dataset.
///
/// # Errors
/// There is none, it is damaged, or two results of one run differ.
pub fn status(dir: &Path) -> Result<Status, SweepError> {
    let files = files(dir)?;
    let mut status = Status { files: files.runs.len() as u64, ..Status::default() };
    for path in files.runs.iter().chain(&files.tasks) {
        status.bytes += std::fs::metadata(path).map_or(0, |about| about.len());
    }
    let mut sum = Summing::default();
    let mut failures: BTreeMap<(String, String), (String, u64, String)> = BTreeMap::new();
    for_each(dir, |outcome| {
        sum.write_all(&outcome.to_bytes()).expect("a sum takes every byte");
        let text = |name: &str| outcome.column(name).map(ToString::to_string).unwrap_or_default();
        status.runs += 1;
        status.tasks += outcome.tasks().len() as u64;
        *status.by_status.entry(text("status")).or_default() += 1;
        *status.engines.entry(text("engine")).or_default() += 1;
        status.changed += u64::from(outcome.is_changed());
        if outcome.is_failed() {
            let of = failures.entry((text("sched"), text("end")));
            of.or_insert_with(|| (text("failure"), 0, text("command"))).1 += 1;
        }
        Ok(())
    })?;
    status.failures = failures.into_values().collect();
    status.failures.sort_by_key(|(_, nr, _)| std::cmp::Reverse(*nr)); // (stable: of equal ones by name)
    status.hash = hex(&sum.sum());
    Ok(status)
}

/// [`Status::hash`].
///
/// # Errors
/// As [`status`].
pub fn hash(dir: &Path) -> Result<String, SweepError> {
    let mut sum = Summing::default();
    for_each(dir, |outcome| {
        sum.write_all(&outcome.to_bytes()).expect("a sum takes every byte");
        Ok(())
    })?;
    Ok(hex(&sum.sum()))
}

/// Every run once, in order of keys; also what is only in journals. Memory is that of some rows.
///
/// # Errors
/// As [`status`], and the caller's.
pub fn for_each(
    dir: &Path,
    mut each: impl FnMut(&SweptRun) -> Result<(), SweepError>,
) -> Result<(), SweepError> {
    let mut reading = Reading::open(dir)?;
    let mut merged = Merged::new(std::mem::take(&mut reading.sources))?;
    while let Some(outcome) = merged.next()? {
        each(&outcome)?;
    }
    Ok(())
}

/// What a merge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedInto {
    /// Rows read, of all folders, those of the target included.
    pub read: u64,
    /// Runs in the target now.
    pub runs: u64,
}

/// Joins datasets into one at `out`, which may exist. What several hold is there once.
///
/// # Errors
/// One is no dataset, two results of one run differ, somebody is at work in `out`, or the host refuses. The
/// folders stay as they are then.
pub fn merge(dirs: &[PathBuf], out: &Path) -> Result<MergedInto, SweepError> {
    let same = |dir: &PathBuf| match (dir.canonicalize(), out.canonicalize()) {
        (Ok(dir), Ok(out)) => dir == out,
        _ => false,
    };
    let dirs: Vec<&PathBuf> = dirs.iter().filter(|dir| !same(dir)).collect();
    let others = dirs.iter().map(|dir| Reading::open(dir)).collect::<Result<Vec<_>, _>>()?;
    let nr = |reading: &Reading| reading.sources.iter().map(store::Source::nr_runs).sum::<Result<u64, _>>();
    let read = others.iter().map(nr).sum::<Result<u64, _>>()?;
    let target = Store::open(out)?;
    let before = target.len() as u64;
    target.finish()?;
    compact_with(out, others)?;
    for dir in dirs {
        copy_logs(dir, out)?;
    }
    let runs = nr(&Reading::open(out)?)?;
    Ok(MergedInto { read: read + before, runs })
}

/// Logs are named by keys: one that is there already is the same.
fn copy_logs(from: &Path, to: &Path) -> Result<(), SweepError> {
    let (from, to) = (from.join("logs"), to.join("logs"));
    for name in store::names(&from)?.iter().filter(|name| name.ends_with(".arrow")) {
        std::fs::create_dir_all(&to).map_err(SweepError::io("create", &to))?;
        let (source, target) = (from.join(name), to.join(name));
        if target.exists() {
            continue;
        }
        let bytes = std::fs::read(&source).map_err(SweepError::io("read", &source))?;
        schedlab_stdx::aside::write(&target, &bytes).map_err(SweepError::io("write", &target))?;
    }
    Ok(())
}

/// Makes the runs again that failed. Paths in their trials are relative to `base`. One that has numbers now takes the
/// failed one's place; a failure that is a property of the run stays.
///
/// # Errors
/// As [`engine::run`].
pub fn retry(
    dir: &Path,
    base: &Path,
    options: &RunOptions,
    listener: &dyn Listener,
    progress: &mut dyn FnMut(&SweepProgress) -> bool,
) -> Result<SweepSummary, SweepError> {
    let mut trials = Vec::new();
    for_each(dir, |outcome| {
        if outcome.is_failed() {
            let text = outcome.column("trial").and_then(|cell| cell.as_str()).unwrap_or_default();
            trials.push(Trial::from_json(text)?);
        }
        Ok(())
    })?;
    if trials.is_empty() {
        return Ok(SweepSummary { is_compact: true, ..SweepSummary::default() });
    }
    let sweep = Sweep::of_trials(&format!("{}: runs that failed", dir.display()), trials, base);
    let options = RunOptions { again: true, ..options.clone() };
    engine::run(&sweep, dir, &options, listener, progress)
}

/// The run with this key, or the only one whose key begins so.
///
/// # Errors
/// There is none, or there are several.
pub fn find(dir: &Path, key: &str) -> Result<SweptRun, SweepError> {
    let mut found: Vec<SweptRun> = Vec::new();
    let mut nr = 0;
    for_each(dir, |outcome| {
        if outcome.key().to_string().starts_with(key) {
            nr += 1;
            if found.len() < 2 {
                found.push(outcome.clone());
            }
        }
        Ok(())
    })?;
    match (found.pop(), nr) {
        (Some(one), 1) => Ok(one),
        (_, nr) => Err(SweepError::NoDataset {
            path: dir.to_owned(),
            what: format!(
                "{nr} runs have a key that begins with '{key}'; expected one: 'schedlab sweep show DIR' lists keys"
            ),
        }),
    }
}
