//! What can be wrong with a log file: where, what was found, what was expected, what to do.

use crate::{Fact, ObservedBy};
use schedlab_stdx::whereabouts;
use std::path::{Path, PathBuf};

/// A log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is nothing of this name.
    #[error(
        "{}: there is no such file; expected a schedule log, as `schedlab run ... --log F` writes one; {}",
        path.display(),
        whereabouts(path)
    )]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The system refused to read or write.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error(
        "{} is not a schedule log: it begins with {found}, expected '# schedlab log 1' (text) or ARROW1 (Arrow); \
         `schedlab run ... --log F` writes one",
        path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
        /// Its first bytes, printable.
        found: String,
    },
    /// Written by a newer schedlab.
    #[error(
        "{} is a schedule log of version {found}; this schedlab reads versions 1 to {supported}: use a newer schedlab, \
         or write the log again",
        path.display()
    )]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The newest that can be read.
        supported: u32,
    },
    /// The question needs what the log's observer could not see.
    #[error(
        "{what} cannot be known from this log: {} are hidden from its observer, the {observer}; \
         ask a log that shows them",
        .fact.name()
    )]
    Hidden {
        /// What was asked for.
        what: &'static str,
        /// What it needs and the log hides.
        fact: Fact,
        /// Who observed.
        observer: ObservedBy,
    },
    /// The file ends early.
    #[error("{} is cut off or damaged: {problem}; copy or write it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// A line of the text form is wrong.
    #[error("{}:{line}: {problem} in '{text}'", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// The line (its beginning).
        text: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A record's kind is a number that this version does not know.
    #[error(
        "record {index} at {time_ns} ns has the unknown kind {kind}; the writer (kernel object or policy) \
         is of another version: build it again"
    )]
    UnknownKind {
        /// Position in the log, from 0.
        index: u64,
        /// The record's time.
        time_ns: u64,
        /// The number found.
        kind: u8,
    },
    /// The program was built without Arrow.
    #[error("{} is an Arrow file, which this program was built without; use the text form (a name without .arrow), or \
        build with the feature `arrow` of schedlab-log", path.display())]
    NoArrow {
        /// The file.
        path: PathBuf,
    },
    /// An Arrow file does not hold what a log must hold.
    #[error("{}: {problem}", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        problem: String,
    },
}

impl LogError {
    /// For `map_err`: the system refused `doing` (a verb: "read", "write") to the file.
    pub fn io<'a>(doing: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> LogError + 'a {
        move |source| match (doing, source.kind()) {
            ("open", std::io::ErrorKind::NotFound) => LogError::Missing { path: path.to_path_buf() },
            _ => LogError::Io { doing, path: path.to_path_buf(), source },
        }
    }
}
