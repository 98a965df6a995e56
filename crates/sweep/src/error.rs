//! What can go wrong with a sweep, where, and whose fault is it?

use crate::key::Key;
use schedlab_lab::{Fails, FailureKind};
use std::io;
use std::path::{Path, PathBuf};

/// A sweep that cannot be made, or a dataset that cannot be read. What is in the dataset stays there.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A mistake in the description.
    #[error("{file}: line {line}: {what}{}", picture(text))]
    At {
        /// The file, as it was named.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The line.
        text: String,
        /// The value, what was expected, what to do.
        what: String,
    },
    /// The description cannot be read as a whole, or asks for nothing.
    #[error("{file}: {what}")]
    File {
        /// The file, as it was named.
        file: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// One run's settings make no run.
    #[error("{axis} = {value}: {what}")]
    Setting {
        /// Which setting: an axis, such as `workload` or `param.quantum`.
        axis: String,
        /// As given.
        value: String,
        /// What is wrong and what to do.
        what: String,
        /// Whose fault.
        kind: FailureKind,
    },
    /// A workload's file was changed while the sweep was at work.
    #[error(
        "{workload}: it was changed while the sweep was at work; what was made before is kept. \
         Run the sweep again: it makes the runs of the new one"
    )]
    Changed {
        /// The workload.
        workload: String,
    },
    /// The host refuses something.
    #[error("{}: cannot {doing}: {source}; {remedy}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// A file of the dataset that is not what was written.
    #[error(
        "{}: this file of the dataset is damaged ({why}); remove {}, and run the sweep again: \
         only its runs are repeated", path.display(), to_remove(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        why: String,
    },
    /// A folder that is no dataset, or one of another version.
    #[error("{}: {what}", path.display())]
    NoDataset {
        /// The folder.
        path: PathBuf,
        /// What it is, and what to do.
        what: String,
    },
    /// Two results of one run that differ.
    #[error(
        "run {key} has two results that differ in {column}: '{first}' and '{second}'. Equal keys mean equal runs: \
         one of the two was changed by hand, or made by a program that names another's engine"
    )]
    Contradiction {
        /// The run.
        key: Key,
        /// The first column that differs.
        column: String,
        /// One value.
        first: String,
        /// The other.
        second: String,
    },
    /// An answer to what nobody asked.
    #[error("the result of run {key} was not asked for, and is not taken: {why}")]
    NotAsked {
        /// Its key.
        key: Key,
        /// Why not.
        why: &'static str,
    },
    /// The host could not make a run: no result of the run itself.
    #[error("{0}")]
    Host(String),
    /// A bug of ours.
    #[error("internal error: {0}")]
    Internal(String),
    /// The caller wanted no more.
    #[error("the sweep was stopped; what was made is kept, and the same command goes on")]
    Stopped,
}

impl Fails for SweepError {
    fn kind(&self) -> FailureKind {
        match self {
            SweepError::Setting { kind, .. } => *kind,
            SweepError::Internal(_) => FailureKind::Internal,
            _ => FailureKind::Input,
        }
    }
}

/// What to do if a folder cannot be written.
pub(crate) const SPACE: &str =
    "free space there, or take another folder; nothing is lost, and the same command goes on";

impl SweepError {
    /// For `map_err` of whatever touches a file.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SweepError {
        let path = path.to_owned();
        move |source| SweepError::Io { doing, path, source, remedy: SPACE }
    }

    /// For `map_err` of whatever reads a file of the dataset.
    pub(crate) fn damaged<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> SweepError {
        let path = path.to_owned();
        move |error| SweepError::Damaged { path: path.clone(), why: error.to_string() }
    }

    pub(crate) fn setting(axis: &str, value: &str, what: impl std::fmt::Display) -> SweepError {
        let (axis, value) = (axis.to_owned(), value.to_owned());
        SweepError::Setting { axis, value, what: what.to_string(), kind: FailureKind::Input }
    }
}

/// What has to go with a damaged file so that its runs are made again: a run is known by its row in `runs`.
fn to_remove(path: &Path) -> String {
    let folder = path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "tasks"));
    match (folder.and_then(Path::parent), path.file_name()) {
        (Some(dataset), Some(name)) => format!("it and {}", dataset.join("runs").join(name).display()),
        _ => "it".to_owned(),
    }
}

/// The line below the sentence.
fn picture(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("\n  | {}", text.trim_end()) }
}
