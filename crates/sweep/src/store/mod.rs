//! A dataset's folder: how is a result kept exactly once, whoever is killed when?
//!
//! ```text
//! DIR/dataset.json                  what it is
//! DIR/runs/STEM.parquet             a row a run, in order of keys
//! DIR/tasks/STEM.parquet            a row a task of those runs
//! DIR/logs/KEY.arrow                schedule logs, where asked for
//! DIR/.work/                        lock, claims, journals, files that are not whole yet
//! ```
//!
//! A result goes into the journal of its process the moment it is there. Now and then the journal becomes a pair of
//! Parquet files, `part-...`: `tasks` first, then `runs`, each written elsewhere and renamed. Only then is the
//! journal removed. A process that dies leaves its journal; the next one turns that into the pair which it was to
//! become. When nobody is left at work, all pairs become pairs of 10,000 runs in order of keys ([`compact`]).

mod compact;
mod journal;
mod locks;
mod merged;

pub(crate) use compact::{compact_with, whole_files};
pub(crate) use merged::{Merged, Source};

use crate::error::SweepError;
use crate::key::Key;
use crate::row::{self, RUNS, SweptRun, TASKS};
use crate::table::{TableReader, TableWriter};
use journal::Journal;
use locks::{Claims, FolderLock};
use schedlab_stdx::limits::{TOML_BYTES_MAX, read_text};
use schedlab_stdx::lock;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// The file that says what the folder is.
const ABOUT: &str = "dataset.json";
/// What stands in it. A later schema has a later number.
const ABOUT_TEXT: &str = "{\"format\":\"schedlab sweep\",\"schema\":1}\n";
const WORK: &str = ".work";

/// Results in memory that become Parquet at once.
const ROWS_MAX: usize = 2_500;
const BYTES_MAX: usize = 16 << 20;
/// At first rows become Parquet so often; a long sweep does it in ever longer intervals, so that its files stay few.
const INTERVAL: Duration = Duration::from_secs(2);

/// Files of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// A row a run.
    pub runs: Vec<PathBuf>,
    /// A row a task.
    pub tasks: Vec<PathBuf>,
}

/// A dataset that is open for more results. Several processes may have it open at once.
pub struct Store {
    dir: PathBuf,
    lock: FolderLock,
    claims: Claims,
    id: String,
    own: Mutex<Own>,
    known: RwLock<Known>,
    others: Mutex<Others>,
}

/// Results of this process that are not Parquet yet.
struct Own {
    journal: Journal,
    number: u32,
    rows: Vec<SweptRun>,
    bytes: usize,
    begun: Instant,
    flushed: Instant,
}

/// Runs that are in the dataset.
#[derive(Default)]
struct Known {
    all: HashSet<u128>,
    failed: HashSet<u128>,
}

/// How far other processes' journals have been read, and which files of the dataset.
#[derive(Default)]
struct Others {
    journals: BTreeMap<String, u64>,
    parts: BTreeSet<String>,
}

/// Names of the files in a folder, in order; none if there is no folder.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, SweepError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(SweepError::io("list", folder)(error)),
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let mut names: Vec<String> =
        entries.map(name).collect::<Result<_, _>>().map_err(SweepError::io("list", folder))?;
    names.sort();
    Ok(names)
}

/// The stems of the pairs in a dataset's folder, in order.
pub(crate) fn stems(dir: &Path) -> Result<Vec<String>, SweepError> {
    let names = names(&dir.join("runs"))?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".parquet")).map(str::to_owned).collect())
}

/// A file of a pair.
pub(crate) fn file_of(dir: &Path, table: &str, stem: &str) -> PathBuf {
    dir.join(table).join(format!("{stem}.parquet"))
}

/// Has the disk keep the folder's names.
fn sync_folder(folder: &Path) -> Result<(), SweepError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(SweepError::io("sync", folder))
}

/// Writes a small file so that it is there completely or not at all, also after a loss of power.
fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), SweepError> {
    let fail = |error| SweepError::io("write", path)(error);
    let mut out = schedlab_stdx::aside::Aside::create(path).map_err(fail)?;
    out.write_all(bytes).and_then(|()| out.flush()).map_err(fail)?;
    out.file().sync_all().map_err(fail)?;
    out.finish().map_err(fail)?;
    sync_folder(schedlab_stdx::aside::folder_of(path))
}

/// # Errors
/// There is no dataset, or one of another version.
pub(crate) fn existing(dir: &Path) -> Result<(), SweepError> {
    match is_dataset(dir)? {
        true => Ok(()),
        false => Err(SweepError::NoDataset {
            path: dir.to_owned(),
            what: "there is no dataset; 'schedlab sweep FILE.toml -o DIR' makes one".to_owned(),
        }),
    }
}

/// Whether the folder is a dataset of this version; `false`: it is not there, or empty.
///
/// # Errors
/// It is something else.
pub(crate) fn is_dataset(dir: &Path) -> Result<bool, SweepError> {
    let wrong = |what: String| SweepError::NoDataset { path: dir.to_owned(), what };
    match read_text(&dir.join(ABOUT), TOML_BYTES_MAX) {
        Ok(text) if text == ABOUT_TEXT => Ok(true),
        Ok(text) => Err(wrong(format!(
            "{ABOUT} says {}, and this version of schedlab writes {}; take a new folder, or the version that made it",
            text.trim(),
            ABOUT_TEXT.trim()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let there = names(dir)?;
            if there.iter().any(|name| name == ABOUT) {
                return is_dataset(dir); // another process has begun it meanwhile
            }
            if there.iter().any(|name| !name.starts_with('.')) {
                return Err(wrong(format!(
                    "the folder holds files and no {ABOUT}: it is no dataset of a sweep; take a new folder"
                )));
            }
            Ok(false)
        }
        Err(error) => Err(SweepError::io("read", &dir.join(ABOUT))(error)),
    }
}

impl Store {
    /// Opens a dataset, or begins one. What a process that was killed has left is recovered.
    ///
    /// # Errors
    /// The folder is something else, a file of it is damaged, or the host refuses.
    pub fn open(dir: &Path) -> Result<Store, SweepError> {
        if !is_dataset(dir)? {
            fs::create_dir_all(dir).map_err(SweepError::io("create", dir))?;
            write_durably(&dir.join(ABOUT), ABOUT_TEXT.as_bytes())?;
        }
        let work = dir.join(WORK);
        for folder in ["runs", "tasks", ".work/journal", ".work/new"] {
            let folder = dir.join(folder);
            fs::create_dir_all(&folder).map_err(SweepError::io("create", &folder))?;
        }
        let folder_lock = FolderLock::new(&work)?;
        if folder_lock.try_alone()? {
            recover(dir)?;
        }
        folder_lock.share()?;
        // (the standard library's only random number; it is the name of files that pass)
        let id = format!("{:016x}", std::hash::RandomState::new().build_hasher().finish());
        let journal = Journal::create(work.join("journal").join(format!("{id}-00000")))?;
        let now = Instant::now();
        let own = Own { journal, number: 0, rows: Vec::new(), bytes: 0, begun: now, flushed: now };
        let store = Store {
            dir: dir.to_owned(),
            lock: folder_lock,
            claims: Claims::new(&work)?,
            id,
            own: Mutex::new(own),
            known: RwLock::default(),
            others: Mutex::default(),
        };
        store.refresh_parts(&mut lock(&store.others))?;
        store.refresh()?;
        Ok(store)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn known(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn know(&self, key: Key, is_failed: bool) {
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.all.insert(key.short());
        if is_failed {
            known.failed.insert(key.short());
        }
    }

    /// Whether the run is in the dataset, as far as this process has seen; failed runs are.
    pub fn has(&self, key: Key) -> bool {
        self.known().all.contains(&key.short())
    }

    /// Whether it is there without numbers.
    pub fn has_failed(&self, key: Key) -> bool {
        self.known().failed.contains(&key.short())
    }

    /// Runs in the dataset.
    pub fn len(&self) -> usize {
        self.known().all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the run for this process; `false`: somebody makes it now. To be given up when its result is kept, or
    /// when it was not made. What others have finished is seen then.
    ///
    /// # Errors
    /// The host refuses.
    pub fn claim(&self, key: Key) -> Result<bool, SweepError> {
        let is_ours = self.claims.take(key)?;
        if is_ours && let Err(error) = self.refresh() {
            self.claims.give_up(key);
            return Err(error);
        }
        Ok(is_ours)
    }

    /// Ends a claim.
    pub fn give_up(&self, key: Key) {
        self.claims.give_up(key);
    }

    /// Keeps a result. It stays whatever happens to this process from then on. `false`: it is there already.
    ///
    /// # Errors
    /// It cannot be written; then it is not kept, and all others are.
    pub fn tell(&self, outcome: SweptRun) -> Result<bool, SweepError> {
        if self.has(outcome.key()) {
            return Ok(false);
        }
        self.tell_again(outcome)?;
        Ok(true)
    }

    /// The same of a run that is there already: one with numbers takes the place of one that failed.
    ///
    /// # Errors
    /// As [`Store::tell`].
    pub fn tell_again(&self, outcome: SweptRun) -> Result<(), SweepError> {
        let mut own = lock(&self.own);
        own.bytes += own.journal.append(&outcome)?;
        self.know(outcome.key(), outcome.is_failed());
        own.rows.push(outcome);
        let interval = INTERVAL.max(own.begun.elapsed() / 20);
        if own.rows.len() >= ROWS_MAX || own.bytes >= BYTES_MAX || own.flushed.elapsed() >= interval {
            self.flush_own(&mut own)?;
        }
        Ok(())
    }

    /// Makes Parquet of what is only in the journal.
    ///
    /// # Errors
    /// The host refuses; the journal stays.
    pub fn flush(&self) -> Result<(), SweepError> {
        self.flush_own(&mut lock(&self.own))
    }

    fn flush_own(&self, own: &mut Own) -> Result<(), SweepError> {
        own.flushed = Instant::now();
        if own.rows.is_empty() {
            return Ok(());
        }
        let stem = part_of(&journal_name(own.journal.path()));
        write_part(&self.dir, &stem, &mut own.rows)?;
        lock(&self.others).parts.insert(stem);
        // the next journal is there before this one goes: others see that somebody is at work
        own.number += 1;
        let next = self.dir.join(WORK).join("journal").join(format!("{}-{:05}", self.id, own.number));
        let done = std::mem::replace(&mut own.journal, Journal::create(next)?);
        (own.rows, own.bytes) = (Vec::new(), 0);
        fs::remove_file(done.path()).map_err(SweepError::io("remove", done.path()))
    }

    /// Sees what other processes have finished.
    fn refresh(&self) -> Result<(), SweepError> {
        let folder = self.dir.join(WORK).join("journal");
        let mut others = lock(&self.others);
        let there = names(&folder)?;
        let theirs: Vec<&String> = there.iter().filter(|name| !name.starts_with(&self.id)).collect();
        let gone = others.journals.keys().any(|name| !theirs.contains(&name));
        for name in &theirs {
            let path = folder.join(name);
            let from = others.journals.get(*name).copied().unwrap_or(0);
            let length = fs::metadata(&path).map_or(from, |about| about.len());
            if length <= from {
                others.journals.entry((*name).clone()).or_insert(from);
                continue;
            }
            let to = journal::read(&path, from, |key, bytes| {
                let is_failed = SweptRun::from_bytes(bytes).is_ok_and(|outcome| outcome.is_failed());
                self.know(key, is_failed);
                Ok(())
            })?;
            others.journals.insert((*name).clone(), to);
        }
        // journals first: one that became Parquet meanwhile is found there
        if gone || !theirs.is_empty() {
            others.journals.retain(|name, _| theirs.contains(&name));
            self.refresh_parts(&mut others)?;
        }
        Ok(())
    }

    /// Reads the keys of files that have not been read.
    fn refresh_parts(&self, others: &mut Others) -> Result<(), SweepError> {
        for stem in stems(&self.dir)? {
            if others.parts.contains(&stem) {
                continue;
            }
            let path = file_of(&self.dir, "runs", &stem);
            let columns = [RUNS[row::place(RUNS, "key")], RUNS[row::place(RUNS, "status")]];
            let mut table = match TableReader::open(&path, &columns) {
                // compacted meanwhile; what came of it is in the list, or in the next
                Err(SweepError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                other => other?,
            };
            while let Some(row) = table.next()? {
                let key = row[0].as_str().and_then(|key| key.parse::<Key>().ok());
                let key = key.ok_or_else(|| SweepError::damaged(&path)("a key is no key"))?;
                self.know(key, row[1].as_str() == Some(row::FAILED));
            }
            others.parts.insert(stem);
        }
        Ok(())
    }

    /// Ends this process's work: everything becomes Parquet, in order if nobody else is at work. `true`: it is in
    /// order now.
    ///
    /// # Errors
    /// The host refuses, or two results of one run differ. Nothing is lost.
    pub fn finish(self) -> Result<bool, SweepError> {
        self.flush()?;
        let alone = self.lock.try_alone()?;
        if alone {
            // (else the empty journal stays: it tells those at work to look for our rows)
            recover(&self.dir)?;
            compact::compact(&self.dir)?;
        }
        self.lock.release();
        Ok(alone)
    }
}

/// `1f3a-00002` of a path.
fn journal_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The pair that a journal becomes.
fn part_of(journal: &str) -> String {
    format!("part-{journal}")
}

/// A pair of files, whole or not at all: `tasks` first. Doing it twice is doing it once.
fn write_part(dir: &Path, stem: &str, outcomes: &mut Vec<SweptRun>) -> Result<(), SweepError> {
    outcomes.sort_by_key(SweptRun::key);
    if outcomes.windows(2).any(|two| two[0].key() == two[1].key()) {
        *outcomes = merged::without_doubles(outcomes.clone())?; // (after an error all of them are there)
    }
    let new = dir.join(WORK).join("new");
    let (runs, tasks) = (new.join(format!("{stem}-runs")), new.join(format!("{stem}-tasks")));
    write_pair(&runs, &tasks, outcomes)?;
    for (from, table) in [(&tasks, "tasks"), (&runs, "runs")] {
        let to = file_of(dir, table, stem);
        fs::rename(from, &to).map_err(SweepError::io("rename", from))?;
        sync_folder(&dir.join(table))?;
    }
    Ok(())
}

fn write_pair(runs: &Path, tasks: &Path, outcomes: &[SweptRun]) -> Result<(), SweepError> {
    let mut of_runs = TableWriter::create(runs, RUNS)?;
    let mut of_tasks = TableWriter::create(tasks, TASKS)?;
    for outcome in outcomes {
        of_runs.push(outcome.run().clone())?;
        outcome.tasks().iter().try_for_each(|row| of_tasks.push(row.clone()))?;
    }
    of_runs.finish()?;
    of_tasks.finish()?;
    Ok(())
}

/// Bytes of a pair with these rows, tried in a folder.
pub(crate) fn part_bytes(folder: &Path, outcomes: &[SweptRun]) -> Result<u64, SweepError> {
    let paths = [folder.join("runs"), folder.join("tasks")];
    write_pair(&paths[0], &paths[1], outcomes)?;
    let size =
        |path: &PathBuf| fs::metadata(path).map(|about| about.len()).map_err(SweepError::io("read", path));
    Ok(size(&paths[0])? + size(&paths[1])?)
}

/// What processes that are gone have left becomes what it was to become. Only who is alone may do this.
fn recover(dir: &Path) -> Result<(), SweepError> {
    compact::finish_begun(dir)?;
    let new = dir.join(WORK).join("new");
    for name in names(&new)? {
        let path = new.join(name);
        fs::remove_file(&path).map_err(SweepError::io("remove", &path))?;
    }
    let folder = dir.join(WORK).join("journal");
    for name in names(&folder)? {
        let path = folder.join(&name);
        let mut outcomes = journal::outcomes(&path)?;
        if !outcomes.is_empty() {
            write_part(dir, &part_of(&name), &mut outcomes)?;
        }
        fs::remove_file(&path).map_err(SweepError::io("remove", &path))?;
    }
    Ok(())
}

/// Everything that is in a dataset, for reading: files, and what is only in journals. Nobody compacts meanwhile.
pub(crate) struct Reading {
    pub(super) _lock: Option<FolderLock>,
    /// Where the rows are.
    pub sources: Vec<Source>,
}

impl Reading {
    /// # Errors
    /// There is no dataset, or one of another version.
    pub(crate) fn open(dir: &Path) -> Result<Reading, SweepError> {
        existing(dir)?;
        // a folder that may only be read has nobody at work
        let lock = match FolderLock::new(&dir.join(WORK)) {
            Ok(lock) => {
                lock.share()?;
                Some(lock)
            }
            Err(SweepError::Io { .. }) => None,
            Err(error) => return Err(error),
        };
        let folder = dir.join(WORK).join("journal");
        let mut sources = Vec::new();
        // journals first: one that becomes Parquet meanwhile is seen twice, not never
        for name in names(&folder)? {
            let mut outcomes = journal::outcomes(&folder.join(name))?;
            outcomes.sort_by_key(SweptRun::key);
            if !outcomes.is_empty() {
                sources.push(Source::Held(merged::without_doubles(outcomes)?.into()));
            }
        }
        for stem in stems(dir)? {
            sources.push(Source::of(dir, &stem)?);
        }
        Ok(Reading { _lock: lock, sources })
    }
}
