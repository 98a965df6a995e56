//! Where does a result go? To a file, which is written aside and renamed, so that none is ever half-written;
//! or to standard output, if it is called `-`: then nothing else is printed there.
//!
//! ```text
//! --json FILE   the file, and the table for people on standard output
//! --json -      the JSON alone on standard output
//! ```

use crate::failure::{Failure, Result};
use clap::Args;
use schedlab_log::LogError;
use schedlab_stdx::{aside, escape::Shown};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the results of one run go, beside the terminal.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ResultArgs {
    /// Write a file for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write an HTML report.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the results as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `--reproducible`.
static REPRODUCIBLE: AtomicBool = AtomicBool::new(false);

/// From now on what is written depends on the experiment alone: not on host time, nor on where it is written to.
pub(crate) fn make_reproducible() {
    REPRODUCIBLE.store(true, Ordering::Relaxed);
}

/// Whether `--reproducible` was given.
pub(crate) fn is_reproducible() -> bool {
    REPRODUCIBLE.load(Ordering::Relaxed)
}

/// A time of the host as it is written: 0 with `--reproducible`.
pub(crate) fn host_ns(ns: u64) -> u64 {
    if is_reproducible() { 0 } else { ns }
}

/// A folder for what another program is to read or write; those of killed processes of ours go.
///
/// # Errors
/// None can be made where temporary files lie.
pub(crate) fn temporary_folder() -> Result<tempfile::TempDir> {
    let prefix = schedlab_process::prefix_in(&std::env::temp_dir(), "schedlab-cli-");
    tempfile::Builder::new().prefix(&prefix).tempdir().map_err(Failure::input)
}

/// A command line without the options that have no part in its result.
pub(crate) fn without_outputs(words: Vec<String>) -> Vec<String> {
    const WITH_VALUE: [&str; 11] = [
        "--log",
        "--logs",
        "--perfetto",
        "--html",
        "--json",
        "--csv",
        "--jobs",
        "--coverage",
        "--explain-json",
        "--output",
        "-o",
    ];
    let mut words = words.into_iter();
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if WITH_VALUE.contains(&name) {
            if name == word {
                words.next();
            }
        } else if word != "--quiet" {
            left.push(word);
        }
    }
    left
}

/// Whether `path` is `-`.
pub(crate) fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == "-")
}

/// Writes `text` to the file `path`.
pub(crate) fn text(path: &Path, text: &str) -> Result<()> {
    file(path, |out| out.write_all(text.as_bytes()))
}

/// Writes what `content` writes to the file `path`.
pub(crate) fn file(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    aside::with(path, |error| error, |out| content(out))
        .map_err(|error| Failure::input(LogError::io("write", path)(error)))
}

/// Writes what `content` writes to where `--json` says: nowhere, to a file, to standard output (`true`: leave
/// it alone then). Characters in names that a terminal would obey are written as JSON's escapes.
pub(crate) fn json(
    path: Option<&Path>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool> {
    match path {
        Some(path) if path.as_os_str() == "-" => {
            let mut out = Shown::new(io::stdout().lock());
            content(&mut out).and_then(|()| out.flush()).map_err(|error| crate::print::unwritten(&error))?;
            Ok(true)
        }
        Some(path) => file(path, |out| content(&mut Shown::new(out))).map(|()| false),
        None => Ok(false),
    }
}

/// Writes a value where `--json` says, as [`json`] does: indented, with a line's end.
pub(crate) fn json_value<T: serde::Serialize + ?Sized>(path: Option<&Path>, value: &T) -> Result<bool> {
    json(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Prints a value as JSON on standard output, as [`json_value`] does for `-`.
pub(crate) fn print_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<()> {
    json_value(Some(Path::new("-")), value).map(drop)
}

/// Refuses a file that cannot be written, before anything is run; `-` is standard output.
pub(crate) fn check(path: &Path) -> Result<()> {
    if is_stdout(Some(path)) {
        return Ok(());
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !folder.is_dir() {
        let problem = if path.is_dir() { "is a folder" } else { "its folder does not exist" };
        return Err(Failure::Input(format!(
            "{}: {problem}; give a file name in an existing folder",
            path.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_its_outputs_is_the_same_experiment() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let left = without_outputs(words(
            "--quiet run w.txt --sched fifo --html=a.html --json - --cpus 2 --jobs 4 --seed 3",
        ));
        assert_eq!(left.join(" "), "run w.txt --sched fifo --cpus 2 --seed 3");
    }

    #[test]
    fn a_value_that_cannot_be_written_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        assert!(!json_value(Some(&path), &[1, 2]).unwrap());
        let failed = json(Some(&path), |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(matches!(failed, Err(Failure::Input(text)) if text.contains("the disk is full")));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[\n  1,\n  2\n]\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "what was aside is gone");
        assert!(!json_value(None, &1).unwrap());
        assert!(matches!(check(dir.path()), Err(Failure::Input(text)) if text.contains("is a folder")));
    }
}
