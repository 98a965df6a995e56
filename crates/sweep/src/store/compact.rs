//! How do many small files become few? Merged into new ones, which take the old ones' place in one step.
//!
//! ```text
//! .work/new/0-runs ...        new files grow
//! .work/intent.json           the step: these are renamed, those removed; it is finished whatever happens
//! runs/ tasks/                renamed, removed
//! ```
//!
//! The new files are in order of keys, 10,000 runs each. They are named by their first key and their bytes: equal
//! datasets are equal files.

use super::{Merged, Reading, Source, WORK, file_of, names, stems, sync_folder, write_durably};
use crate::error::SweepError;
use crate::key::{Key, hex};
use crate::row::{RUNS, TASKS};
use crate::table::TableWriter;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Runs of a file.
pub(crate) const RUNS_PER_FILE: u64 = 10_000;

/// Paths are below the dataset's folder.
#[derive(Debug, Serialize, Deserialize)]
struct Intent {
    rename: Vec<(PathBuf, PathBuf)>,
    remove: Vec<PathBuf>,
}

fn intent_file(dir: &Path) -> PathBuf {
    dir.join(WORK).join("intent.json")
}

/// Puts the dataset in order, if it is not. Only who is alone may do this.
pub(super) fn compact(dir: &Path) -> Result<(), SweepError> {
    let stems = stems(dir)?;
    if stems.iter().all(|stem| !stem.starts_with("part-")) && names(&dir.join("tasks"))?.len() == stems.len()
    {
        return stems.iter().try_for_each(|stem| check(dir, stem));
    }
    let sources = stems.iter().map(|stem| Source::of(dir, stem)).collect::<Result<_, _>>()?;
    replace(dir, sources)
}

/// Whether a pair is what was written: its name ends with the sum of both files.
fn check(dir: &Path, stem: &str) -> Result<(), SweepError> {
    let (runs, tasks) = (file_of(dir, "runs", stem), file_of(dir, "tasks", stem));
    let sum = |path: &Path| -> io::Result<[u8; 32]> {
        let (mut file, mut sum) = (fs::File::open(path)?, Sha256::new());
        let mut part = vec![0; 1 << 20];
        loop {
            match file.read(&mut part)? {
                0 => return Ok(sum.finalize().into()),
                length => sum.update(&part[..length]),
            }
        }
    };
    let whole = match (sum(&runs), sum(&tasks)) {
        (Ok(runs), Ok(tasks)) => {
            let sums = Sha256::new().chain_update(runs).chain_update(tasks).finalize();
            stem.ends_with(&format!("-{}", hex(&sums[..8])))
        }
        _ => false,
    };
    if whole {
        return Ok(());
    }
    // a reader knows which of the two it is, and what is wrong
    let mut source = Source::of(dir, stem)?;
    while source.next()?.is_some() {}
    Err(SweepError::damaged(&tasks)("its bytes, or those of its runs, are not those that its name states"))
}

/// The same with what other datasets hold.
pub(crate) fn compact_with(dir: &Path, others: Vec<Reading>) -> Result<(), SweepError> {
    let store = super::FolderLock::new(&dir.join(WORK))?;
    if !store.try_alone()? {
        return Err(SweepError::NoDataset {
            path: dir.to_owned(),
            what: "another process is at work in it; wait until that has ended".to_owned(),
        });
    }
    super::recover(dir)?;
    let mut sources = stems(dir)?.iter().map(|stem| Source::of(dir, stem)).collect::<Result<Vec<_>, _>>()?;
    let mut locks = Vec::new();
    for Reading { _lock, sources: theirs } in others {
        sources.extend(theirs);
        locks.push(_lock);
    }
    replace(dir, sources)
}

/// Writes everything into new files and lets them take the place of all that are there.
fn replace(dir: &Path, sources: Vec<Source>) -> Result<(), SweepError> {
    let mut merged = Merged::new(sources)?;
    let new = Path::new(WORK).join("new");
    let mut rename = Vec::new();
    let mut number = 0;
    let mut file: Option<(Key, TableWriter, TableWriter)> = None;
    let mut end = |file: Option<(Key, TableWriter, TableWriter)>, number: u32| -> Result<(), SweepError> {
        let Some((first, runs, tasks)) = file else { return Ok(()) };
        let sums = Sha256::new().chain_update(runs.finish()?).chain_update(tasks.finish()?).finalize();
        let stem = format!("{}-{}", hex(&first.0[..8]), hex(&sums[..8]));
        for table in ["tasks", "runs"] {
            let to = Path::new(table).join(format!("{stem}.parquet"));
            rename.push((new.join(format!("{number}-{table}")), to));
        }
        Ok(())
    };
    while let Some(outcome) = merged.next()? {
        if file.as_ref().is_some_and(|(_, runs, _)| runs.nr_rows() == RUNS_PER_FILE) {
            end(file.take(), number)?;
            number += 1;
        }
        let (_, runs, tasks) = match &mut file {
            Some(file) => file,
            None => {
                let path = |table: &str| dir.join(&new).join(format!("{number}-{table}"));
                let runs = TableWriter::create(&path("runs"), RUNS)?;
                file.insert((outcome.key(), runs, TableWriter::create(&path("tasks"), TASKS)?))
            }
        };
        outcome.tasks().iter().try_for_each(|row| tasks.push(row.clone()))?;
        runs.push(outcome.run().clone())?;
    }
    end(file, number)?;
    drop(merged);
    let mut remove = Vec::new();
    for table in ["runs", "tasks"] {
        let there = names(&dir.join(table))?.into_iter().map(|name| Path::new(table).join(name));
        remove.extend(there.filter(|path| rename.iter().all(|(_, to)| to != path)));
    }
    let intent = serde_json::to_vec(&Intent { rename, remove }).expect("paths have a JSON form");
    write_durably(&intent_file(dir), &intent)?;
    finish_begun(dir)
}

/// Does what an intent says, if there is one; what has been done already is passed over.
pub(super) fn finish_begun(dir: &Path) -> Result<(), SweepError> {
    let path = intent_file(dir);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SweepError::io("read", &path)(error)),
    };
    let intent: Intent = serde_json::from_slice(&text).map_err(SweepError::damaged(&path))?;
    let passed = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    for (from, to) in &intent.rename {
        passed(fs::rename(dir.join(from), dir.join(to)))
            .map_err(SweepError::io("rename", &dir.join(from)))?;
    }
    for folder in ["runs", "tasks"] {
        sync_folder(&dir.join(folder))?;
    }
    for path in &intent.remove {
        passed(fs::remove_file(dir.join(path))).map_err(SweepError::io("remove", &dir.join(path)))?;
    }
    for folder in ["runs", "tasks"] {
        sync_folder(&dir.join(folder))?;
    }
    passed(fs::remove_file(&path)).map_err(SweepError::io("remove", &path))?;
    Ok(())
}
