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
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        let (run, rows) = outcome.into_rows();
        rows.into_iter().try_for_each(|row| tasks.push(row))?;
        runs.push(run)?;
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

/// The step that was begun, if there is one.
fn begun(dir: &Path) -> Result<Option<Intent>, SweepError> {
    let path = intent_file(dir);
    match fs::read(&path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text).map_err(SweepError::damaged(&path))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SweepError::io("read", &path)(error)),
    }
}

/// The files that hold each row once, whoever is at work: before a step the old ones, from its beginning on the new
/// ones, wherever they lie at that moment. A run's tasks are there if the run is.
pub(crate) fn whole_files(dir: &Path) -> Result<super::Files, SweepError> {
    let mut before = (begun(dir)?, stems(dir)?);
    // (seen twice alike: nothing was renamed meanwhile)
    let (intent, stems) = loop {
        let now = (begun(dir)?, stems(dir)?);
        if now == before {
            break now;
        }
        before = now;
    };
    let intent = intent.unwrap_or_default();
    let mut files = super::Files::default();
    for (table, paths) in [("runs", &mut files.runs), ("tasks", &mut files.tasks)] {
        let stays =
            |path: &PathBuf| !intent.remove.contains(path) && intent.rename.iter().all(|(_, to)| to != path);
        let old = stems.iter().map(|stem| Path::new(table).join(format!("{stem}.parquet"))).filter(stays);
        let new = intent.rename.iter().filter(|(_, to)| to.starts_with(table)).map(|(from, to)| {
            let is_there = dir.join(to).exists();
            if is_there { to.clone() } else { from.clone() }
        });
        paths.extend(old.chain(new).map(|path| dir.join(path)));
        paths.sort();
    }
    Ok(files)
}

/// Does what an intent says, if there is one; what has been done already is passed over.
pub(super) fn finish_begun(dir: &Path) -> Result<(), SweepError> {
    let path = intent_file(dir);
    let Some(intent) = begun(dir)? else { return Ok(()) };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    /// A step in its midst: one of two new files has its place, the old ones are all there. Each row counts once.
    #[test]
    fn files_of_a_step_in_its_midst_are_the_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for table in ["runs", "tasks"] {
            touch(&at(&format!("{table}/part-a.parquet")));
            touch(&at(&format!("{table}/later.parquet")));
        }
        let names = |files: &[PathBuf]| -> Vec<String> {
            let short = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
            files.iter().map(short).collect()
        };
        let before = whole_files(folder.path()).unwrap();
        assert_eq!(names(&before.runs), ["runs/later.parquet", "runs/part-a.parquet"]);
        let path = |text: &str| PathBuf::from(text);
        let intent = Intent {
            rename: vec![
                (path(".work/new/0-tasks"), path("tasks/0a.parquet")),
                (path(".work/new/0-runs"), path("runs/0a.parquet")),
            ],
            remove: vec![path("runs/part-a.parquet"), path("tasks/part-a.parquet")],
        };
        touch(&at("tasks/0a.parquet"));
        touch(&at(".work/new/0-runs"));
        fs::write(intent_file(folder.path()), serde_json::to_vec(&intent).unwrap()).unwrap();
        let files = whole_files(folder.path()).unwrap();
        assert_eq!(names(&files.runs), [".work/new/0-runs", "runs/later.parquet"]);
        assert_eq!(names(&files.tasks), ["tasks/0a.parquet", "tasks/later.parquet"]);
        finish_begun(folder.path()).unwrap();
        let files = whole_files(folder.path()).unwrap();
        assert_eq!(names(&files.runs), ["runs/0a.parquet", "runs/later.parquet"]);
        assert_eq!(names(&files.tasks), ["tasks/0a.parquet", "tasks/later.parquet"]);
    }
}
