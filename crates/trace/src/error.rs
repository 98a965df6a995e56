//! What can be wrong with a trace, said so that the reader of the message knows where and what to do.

use schedlab_units::CpuId;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a trace could not be read (or not to its end), with the file where there is one.
#[derive(Debug)]
pub struct TraceError {
    path: Option<PathBuf>,
    problem: Box<Problem>,
}

impl TraceError {
    pub(crate) fn new(path: Option<&Path>, problem: Problem) -> TraceError {
        TraceError { path: path.map(Path::to_path_buf), problem: Box::new(problem) }
    }
    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
    /// The file it is about; `None` for bytes in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

/// Where in a trace: a byte of the file, a byte of what a compressed part of the file unpacks to, or a line of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte of the file (of the compressed part, if `unpacked` is set).
    pub offset: u64,
    /// Byte within the unpacked part.
    pub unpacked: Option<u64>,
    /// Line of a text, from 1; it begins at `offset`.
    pub line: Option<u64>,
}

impl Place {
    /// A byte of the file.
    pub fn at(offset: u64) -> Place {
        Place { offset, unpacked: None, line: None }
    }
    /// A byte of what the compressed part at `offset` unpacks to.
    pub fn unpacked(offset: u64, inner: u64) -> Place {
        Place { offset, unpacked: Some(inner), line: None }
    }
    /// A line of a text that begins at `offset`.
    pub fn line(line: u64, offset: u64) -> Place {
        Place { offset, unpacked: None, line: Some(line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.unpacked) {
            (Some(line), _) => write!(f, "line {line}"),
            (None, None) => write!(f, "byte {}", self.offset),
            (None, Some(inner)) => write!(f, "byte {inner} of what byte {} unpacks to", self.offset),
        }
    }
}

/// The ways in which a trace can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The system refused.
    #[error("{0}")]
    Io(#[source] std::io::Error),
    /// Not a file of the format that was asked for.
    #[error(
        "byte 0: found {found}, expected 17 08 44 \"tracing\"; this is no trace.dat (perf.data and text traces are \
            other formats)"
    )]
    WrongMagic {
        /// The first bytes, as hexadecimal and text.
        found: String,
    },
    /// None of the formats that are read here.
    #[error(
        "byte 0: found {found}, expected a recording: trace.dat, perf.data, ftrace's text or a Perfetto trace; record \
            with `schedlab record`"
    )]
    UnknownRecording {
        /// The first bytes, as hexadecimal and text.
        found: String,
    },
    /// A version nobody has told us about.
    #[error(
        "{at}: version \"{found}\", expected 6 or 7; convert it with `trace-cmd convert --file-version 7`"
    )]
    UnknownVersion {
        /// Where the version stands.
        at: Place,
        /// What stands there.
        found: String,
    },
    /// Recorded on a big-endian machine.
    #[error("{at}: byte order 1 (big endian), expected 0 (little endian); such traces are not supported")]
    BigEndian {
        /// Where the byte order stands.
        at: Place,
    },
    /// Something legal that this reader does not do.
    #[error("{at}: {what} is {value}, which is not supported; {remedy}")]
    Unsupported {
        /// Where.
        at: Place,
        /// What it is about.
        what: &'static str,
        /// What stands there.
        value: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The file ends too early.
    #[error("{at}: {what} needs {needed} bytes, {available} are left; the file is cut short: record or copy it \
        again{}", lenient_hint(*.lenient))]
    Truncated {
        /// Where.
        at: Place,
        /// What is incomplete.
        what: &'static str,
        /// Bytes it has by its own account.
        needed: u64,
        /// Bytes there are.
        available: u64,
        /// Whether [`Mode::Lenient`](crate::Mode::Lenient) loads the rest.
        lenient: bool,
    },
    /// A value that cannot be.
    #[error("{at}: {what} is {value}, expected {expected}; the file is damaged: record or copy it again")]
    Invalid {
        /// Where.
        at: Place,
        /// What it is about.
        what: &'static str,
        /// What stands there.
        value: String,
        /// What may stand there.
        expected: String,
    },
    /// More events than a recording may have.
    #[error(
        "more than {limit} events, which is the most that is read (docs/results.md); record for a shorter time, or \
            divide it (trace-cmd split)"
    )]
    TooMany {
        /// How many there may be.
        limit: u64,
    },
    /// A longer file than a recording may be.
    #[error(
        "{bytes} bytes; a recording may have {limit}: record for a shorter time, or divide it (trace-cmd split)"
    )]
    TooLong {
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
    /// A format text that cannot be used.
    #[error(
        "format of event {event}: {problem}; the recording kernel is too old, too new, or the file is damaged"
    )]
    Format {
        /// The event, or `header_page`.
        event: String,
        /// What is wrong.
        problem: String,
    },
    /// Nothing to see about scheduling.
    #[error(
        "no sched events: {detail}; record with `schedlab record` or `trace-cmd record -e sched:sched_switch -e \
            sched:sched_waking -e sched:sched_wakeup_new`"
    )]
    NoSchedEvents {
        /// What there is instead.
        detail: String,
    },
}

fn lenient_hint(lenient: bool) -> &'static str {
    if lenient { ", or load what is left (lenient mode)" } else { "" }
}

/// Why a trace could not be written. Nothing is left behind under the target's name.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Pages come whole.
    #[error(
        "{cpu}: {bytes} bytes of ring-buffer data are no whole number of {page_size}-byte pages; read trace_pipe_raw \
            in multiples of the page size"
    )]
    PartialPage {
        /// Whose pages.
        cpu: CpuId,
        /// What was given.
        bytes: usize,
        /// What one page has.
        page_size: usize,
    },
    /// No ring buffer has such pages.
    #[error("page size {value}: expected a power of two from 512 to 1048576")]
    PageSize {
        /// The value given.
        value: usize,
    },
    /// The file could not be read again.
    #[error("the trace's {what} is empty; read it from tracefs before the instance is removed")]
    MissingMeta {
        /// Field of `TraceMeta`.
        what: &'static str,
    },
}
