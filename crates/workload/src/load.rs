//! What is this file, and what workload is in it? By content, not by name.
//!
//! ```text
//! "schedlab-workload 1", "1 INIT 0 0 100 runnable"    text          read here
//! 89 "SLWLOAD"                                        binary        read here
//! trace.dat, perf.data, ftrace's text, Perfetto       recordings    for the caller to import
//! { "tasks": ... }                                    rt-app        for the caller to import
//! name.toml                                           mix           for the caller to mix
//! folder with one of these                            that one
//! ELF, gzip, Arrow, ...                               refused, with what it is and what to do
//! ```

use crate::binary::read_binary_within;
use crate::binary::{BINARY_MAGIC, BinaryProblem};
use crate::limits::Limits;
use crate::text::{looks_like_text, read_text_file};
use crate::{BinaryError, TextError, Workload, WorkloadError, write_binary, write_text};
use schedlab_stdx::whereabouts;
use schedlab_trace::RecordingFormat;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A workload as text.
    Text,
    /// A workload in binary form.
    Binary,
    /// A recording, to be imported.
    Trace(TraceFormat),
    /// A TOML file that mixes workloads.
    Mix,
}

/// Format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// `trace-cmd record` or `schedlab record`.
    TraceDat,
    /// `perf sched record`.
    PerfData,
    /// The `trace` file of tracefs, `trace-cmd report`, `perf script`.
    FtraceText,
    /// A Perfetto trace (protobuf).
    Perfetto,
    /// rt-app's description of tasks (JSON).
    RtApp,
}

impl std::fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TraceFormat::TraceDat => "a trace.dat",
            TraceFormat::PerfData => "a perf.data",
            TraceFormat::FtraceText => "ftrace's text",
            TraceFormat::Perfetto => "a Perfetto trace",
            TraceFormat::RtApp => "a description for rt-app",
        })
    }
}

/// What [`load`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadedFile {
    /// A workload, read and checked.
    Workload {
        /// The file it was in.
        path: PathBuf,
        /// Its form.
        form: Form,
        /// The workload.
        workload: Workload,
    },
    /// A recording, not read.
    Trace {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: TraceFormat,
    },
    /// A mix, not read.
    Mix {
        /// The file.
        path: PathBuf,
    },
}

/// The two forms of a workload on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For millions of events.
    Binary,
}

impl Form {
    /// The form that a file name asks for: `.wlb` is binary, all else text.
    pub fn of_path(path: &Path) -> Form {
        if path.extension().is_some_and(|extension| extension == "wlb") { Form::Binary } else { Form::Text }
    }
}

/// A path that gives no workload.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is nothing of this name.
    #[error("{}: there is no such file or folder; expected a workload, a recording, or a folder with one; {}",
        path.display(), whereabouts(path))]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// Reading failed.
    #[error("{}: cannot read: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A device, a pipe, ...
    #[error("{}: neither a file nor a folder; copy it to a file first", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// No bytes.
    #[error("{}: the file is empty; expected a workload or a trace", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Not for us.
    #[error("{}: this is {found}, neither a workload nor a recording; {remedy}", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A folder with nothing to run.
    #[error("{}: the folder holds no workload and no trace; name a file, or put one trace.dat, workload.txt or the \
        like there", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A folder with too much to run.
    #[error("{}: the folder holds {} workloads or traces ({}); name one of \
        them", path.display(), names.len(), list(names))]
    Ambiguous {
        /// The folder.
        path: PathBuf,
        /// What could be meant.
        names: Vec<OsString>,
    },
    /// A mistake in a text; shown with its line.
    #[error("{}\n{}", .0, .0.picture())]
    Text(#[from] Box<TextError>),
    /// A binary file that cannot be read.
    #[error("{}: {error}", path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: BinaryError,
    },
    /// A binary workload that breaks the rules of the model.
    #[error("{}: {error}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// Which.
        error: WorkloadError,
    },
}

/// How much of a file is looked at to tell what it is. (Comments may precede the first line of a text.)
const LOOK: u64 = 64 << 10;

fn list(names: &[OsString]) -> String {
    const SHOWN: usize = 5;
    let mut text = names.iter().take(SHOWN).map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", ...");
    }
    text
}

/// Tells what a path holds, without reading all of it. For a folder: the one file in it that can be run.
pub fn identify(path: &Path) -> Result<(PathBuf, FileKind), LoadError> {
    let io_error = |error: io::Error| {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound => LoadError::Missing { path },
            _ => LoadError::Io { path, error },
        }
    };
    let metadata = fs::metadata(path).map_err(io_error)?;
    if metadata.is_dir() {
        return identify_folder(path);
    }
    if !metadata.is_file() {
        return Err(LoadError::NotAFile { path: path.to_path_buf() });
    }
    if metadata.len() == 0 {
        return Err(LoadError::Empty { path: path.to_path_buf() });
    }
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(LOOK).read_to_end(&mut start)).map_err(io_error)?;
    match kind(&start, path) {
        Ok(kind) => Ok((path.to_path_buf(), kind)),
        Err((found, remedy)) => Err(LoadError::OtherFile { path: path.to_path_buf(), found, remedy }),
    }
}

/// The one file of a folder that can be run; a mix beside its parts goes first, other TOML files (provenance)
/// do not count.
fn identify_folder(folder: &Path) -> Result<(PathBuf, FileKind), LoadError> {
    let io_error = |error| LoadError::Io { path: folder.to_path_buf(), error };
    let mut names = fs::read_dir(folder)
        .and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        })
        .map_err(io_error)?;
    names.sort();
    let hidden = |name: &OsString| name.as_encoded_bytes().starts_with(b".");
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| !hidden(name)) {
        let path = folder.join(&name);
        if path.is_file()
            && let Ok((path, kind)) = identify(&path)
        {
            found.push((name, path, kind));
        }
    }
    if found.iter().any(|(.., kind)| *kind != FileKind::Mix) {
        found.retain(|(.., kind)| *kind != FileKind::Mix);
    }
    match found.len() {
        0 => Err(LoadError::EmptyFolder { path: folder.to_path_buf() }),
        1 => found
            .pop()
            .map(|(_, path, kind)| (path, kind))
            .ok_or(LoadError::EmptyFolder { path: folder.to_path_buf() }),
        _ => Err(LoadError::Ambiguous {
            path: folder.to_path_buf(),
            names: found.into_iter().map(|(name, ..)| name).collect(),
        }),
    }
}

/// By first bytes: what it is, or what it is instead and what to do.
fn kind(start: &[u8], path: &Path) -> Result<FileKind, (&'static str, &'static str)> {
    const OTHERS: [(&[u8], &str, &str); 8] = [
        (b"ARROW1", "an Arrow file (a schedule log?)", "logs are results: name the workload they came from"),
        (b"\x7fELF", "a program", "record it: schedlab record -o trace.dat -- PROGRAM"),
        (b"\x1f\x8b", "gzip-compressed", "unpack it with gunzip first"),
        (b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it with unzstd first"),
        (b"\xfd7zXZ", "xz-compressed", "unpack it with unxz first"),
        (b"PK\x03\x04", "a zip archive", "unpack it first"),
        (b"SQLite format 3", "an SQLite database", "export the trace as trace.dat, perf.data or Perfetto"),
        (b"2ELIFREP", "a perf.data of a big-endian machine", "record on a little-endian machine"),
    ];
    if start.starts_with(&BINARY_MAGIC[..start.len().min(8)]) {
        return Ok(FileKind::Binary);
    }
    if let Some(&(_, found, remedy)) = OTHERS.iter().find(|(magic, ..)| start.starts_with(magic)) {
        return Err((found, remedy));
    }
    if looks_like_text(start) {
        return Ok(FileKind::Text);
    }
    if let Some(format) = RecordingFormat::of(start) {
        return Ok(FileKind::Trace(match format {
            RecordingFormat::TraceDat => TraceFormat::TraceDat,
            RecordingFormat::PerfData => TraceFormat::PerfData,
            RecordingFormat::Text => TraceFormat::FtraceText,
            RecordingFormat::Perfetto => TraceFormat::Perfetto,
        }));
    }
    let extension = path.extension().unwrap_or_default();
    if extension == "toml" {
        return Ok(FileKind::Mix);
    }
    if skip_comments(start).starts_with(b"{") {
        let quoted = |key: &[u8]| start.windows(key.len()).any(|window| window == key);
        if quoted(b"\"traceEvents\"") {
            return Err(("a trace for Chrome's viewer", "export it as a Perfetto trace instead"));
        }
        if quoted(b"\"tasks\"") || quoted(b"\"global\"") {
            return Ok(FileKind::Trace(TraceFormat::RtApp));
        }
        return Err((
            "JSON, but not of rt-app (no \"tasks\")",
            "see `schedlab import --help` for what can be read",
        ));
    }
    if start.iter().all(|&byte| byte == 0) {
        return Err(("nothing but zero bytes", "make or copy the file again"));
    }
    let text = std::str::from_utf8(start).is_ok() && !start.contains(&0);
    if text {
        return Err((
            "some other text",
            "a workload begins with the line schedlab-workload 1, then: eid TYPE pid length ...",
        ));
    }
    Err((
        "of an unknown format",
        "expected a workload (text or binary), trace.dat, perf.data, Perfetto, ftrace text or rt-app JSON",
    ))
}

/// What follows blanks and comments: rt-app's JSON may begin with them.
fn skip_comments(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let end: &[u8] = if text.starts_with(b"/*") {
            b"*/"
        } else if text.starts_with(b"//") {
            b"\n"
        } else {
            return text;
        };
        let Some(at) = text.windows(end.len()).position(|window| window == end) else { return &[] };
        text = &text[at + end.len()..];
    }
}

/// Reads the workload at a path, checked, or says that it is a trace or a mix, which others read.
///
/// `path` is a file or a folder with one. Files are read piece by piece, so that memory goes with the events
/// alone; of those there may be [`Limits::HELD`].
pub fn load(path: &Path) -> Result<LoadedFile, LoadError> {
    load_within(path, Limits::HELD)
}

/// As [`load`], with limits of the caller's.
pub fn load_within(path: &Path, limits: Limits) -> Result<LoadedFile, LoadError> {
    let (path, kind) = identify(path)?;
    match kind {
        FileKind::Trace(format) => Ok(LoadedFile::Trace { path, format }),
        FileKind::Mix => Ok(LoadedFile::Mix { path }),
        FileKind::Text => {
            let workload = read_text_file(&path, limits)?;
            Ok(LoadedFile::Workload { path, form: Form::Text, workload })
        }
        FileKind::Binary => {
            let binary_error = |error| LoadError::Binary { path: path.clone(), error };
            let file = File::open(&path).map_err(|error| {
                binary_error(BinaryError { offset: 0, problem: BinaryProblem::Io(error) })
            })?;
            let file = BufReader::with_capacity(1 << 20, file);
            let workload = read_binary_within(file, limits).map_err(binary_error)?;
            match workload.check() {
                Ok(()) => Ok(LoadedFile::Workload { path, form: Form::Binary, workload }),
                Err(error) => Err(LoadError::Rules { path, error }),
            }
        }
    }
}

/// Writes a workload to a file, which is whole or not there. Errors name the file.
pub fn save(path: &Path, workload: &Workload, form: Form) -> io::Result<()> {
    let write = |mut out: &mut (dyn Write + Send)| match form {
        Form::Text => write_text(workload, &mut out),
        Form::Binary => write_binary(workload, &mut out),
    };
    schedlab_stdx::aside::with(path, |error| error, write)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: cannot write: {error}", path.display())))
}
