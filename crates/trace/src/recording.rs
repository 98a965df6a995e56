//! What recorded this file? By its first bytes, and then read by the reader for it, all giving the same events.
//!
//! ```text
//! 17 08 44 "tracing"     trace.dat   TraceFile
//! "PERFILE2"             perf.data   PerfFile
//! 0a (packet)            Perfetto    PerfettoFile
//! a line of an event     text        TextFile
//! ```

use crate::bytes::Bytes;
use crate::container::{Counts, Mode};
use crate::error::{Problem, TraceError};
use crate::event::{CommId, Event};
use crate::file::TraceFile;
use crate::perf::{PerfFile, PerfStream};
use crate::perfetto::{PerfettoFile, PerfettoStream};
use crate::stream::EventStream;
use crate::text::{TextFile, TextStream, looks_like_trace_text};
use std::path::Path;

/// Format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordingFormat {
    /// trace-cmd's and our own.
    TraceDat,
    /// `perf sched record`.
    PerfData,
    /// The `trace` file of tracefs, `trace-cmd report`, `perf script`.
    Text,
    /// A Perfetto trace (protobuf).
    Perfetto,
}

/// How much of a file decides its format.
const LOOK: usize = 64 << 10;

impl RecordingFormat {
    /// From the first bytes of a file (64 KiB are enough).
    pub fn of(start: &[u8]) -> Option<RecordingFormat> {
        let start = &start[..start.len().min(LOOK)];
        Some(if start.starts_with(b"\x17\x08\x44tracing") {
            RecordingFormat::TraceDat
        } else if start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP") {
            RecordingFormat::PerfData
        } else if crate::perfetto::looks_like_perfetto(start) {
            RecordingFormat::Perfetto
        } else if looks_like_trace_text(start) {
            RecordingFormat::Text
        } else {
            return None;
        })
    }
}

/// An opened recording of any format.
pub enum Recording {
    /// See [`TraceFile`].
    TraceDat(Box<TraceFile>),
    /// See [`PerfFile`].
    PerfData(Box<PerfFile>),
    /// See [`TextFile`].
    Text(Box<TextFile>),
    /// See [`PerfettoFile`].
    Perfetto(Box<PerfettoFile>),
}

impl Recording {
    /// Opens a recording; its format is told by its content. The file must not be shortened while it is open.
    ///
    /// # Errors
    /// Those of the format's reader; [`Problem::UnknownRecording`] for none of them.
    pub fn open(path: &Path, mode: Mode) -> Result<Recording, TraceError> {
        let bytes = Bytes::open(path).map_err(|problem| TraceError::new(Some(path), problem))?;
        Recording::parse(Some(path), bytes, mode)
    }

    /// A recording in memory.
    pub fn from_bytes(bytes: Vec<u8>, mode: Mode) -> Result<Recording, TraceError> {
        Recording::parse(None, Bytes::Owned(bytes), mode)
    }

    fn parse(path: Option<&Path>, bytes: Bytes, mode: Mode) -> Result<Recording, TraceError> {
        Ok(match RecordingFormat::of(bytes.as_slice()) {
            Some(RecordingFormat::TraceDat) => {
                Recording::TraceDat(Box::new(TraceFile::parse(path, bytes, mode)?))
            }
            Some(RecordingFormat::PerfData) => {
                Recording::PerfData(Box::new(PerfFile::parse(path, bytes, mode)?))
            }
            Some(RecordingFormat::Text) => Recording::Text(Box::new(TextFile::parse(path, bytes, mode)?)),
            Some(RecordingFormat::Perfetto) => {
                Recording::Perfetto(Box::new(PerfettoFile::parse(path, bytes, mode)?))
            }
            None => {
                let start = bytes.as_slice();
                let found = match start.len() {
                    0 => "an empty file".to_string(),
                    length => crate::cursor::show_bytes(&start[..length.min(10)]),
                };
                return Err(TraceError::new(path, Problem::UnknownRecording { found }));
            }
        })
    }

    /// Its format.
    pub fn format(&self) -> RecordingFormat {
        match self {
            Recording::TraceDat(_) => RecordingFormat::TraceDat,
            Recording::PerfData(_) => RecordingFormat::PerfData,
            Recording::Text(_) => RecordingFormat::Text,
            Recording::Perfetto(_) => RecordingFormat::Perfetto,
        }
    }

    /// The scheduler's events of all CPUs in order of time.
    pub fn events(&self) -> Result<RecordingStream<'_>, TraceError> {
        Ok(match self {
            Recording::TraceDat(file) => RecordingStream::TraceDat(Box::new(file.events()?)),
            Recording::PerfData(file) => RecordingStream::PerfData(Box::new(file.events()?)),
            Recording::Text(file) => RecordingStream::Text(Box::new(file.events()?)),
            Recording::Perfetto(file) => RecordingStream::Perfetto(Box::new(file.events()?)),
        })
    }

    /// Lets the system take back the memory that the file has taken so far, so that a reader of a large one needs
    /// little. To be called now and then; what is read again comes from the file.
    pub fn give_back(&self) {
        let bytes = match self {
            Recording::TraceDat(file) => &file.bytes,
            Recording::PerfData(file) => &file.bytes,
            Recording::Text(file) => &file.bytes,
            Recording::Perfetto(file) => &file.bytes,
        };
        bytes.give_back();
    }

    /// Number of CPUs of the recorded system, where the file tells.
    pub fn cpu_count(&self) -> Option<u32> {
        match self {
            Recording::TraceDat(file) => file.cpu_count(),
            Recording::PerfData(file) => file.cpu_count(),
            Recording::Text(file) => file.cpu_count(),
            Recording::Perfetto(file) => file.cpu_count(),
        }
    }
    /// What recorded, where the file tells.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Recording::TraceDat(file) => file.tool(),
            Recording::PerfData(file) => file.tool(),
            Recording::Text(_) => None,
            Recording::Perfetto(file) => file.tool(),
        }
    }
    /// Release of the recorded system's kernel, where the file tells. (Its host name is nobody's business.)
    pub fn release(&self) -> Option<&str> {
        match self {
            Recording::TraceDat(file) => file.uname().and_then(|uname| uname.split_whitespace().nth(2)),
            Recording::PerfData(file) => file.release(),
            Recording::Text(_) => None,
            Recording::Perfetto(file) => file.release(),
        }
    }
}

/// The events of a recording. Ask [`RecordingStream::next_event`] until it gives `None`; then
/// [`RecordingStream::counts`] is complete.
pub enum RecordingStream<'f> {
    /// See [`EventStream`].
    TraceDat(Box<EventStream<'f>>),
    /// See [`PerfStream`].
    PerfData(Box<PerfStream<'f>>),
    /// See [`TextStream`].
    Text(Box<TextStream<'f>>),
    /// See [`PerfettoStream`].
    Perfetto(Box<PerfettoStream<'f>>),
}

impl RecordingStream<'_> {
    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first thing that is damaged, with its place. In [`Mode::Lenient`] such are
    /// left out and counted.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        match self {
            RecordingStream::TraceDat(stream) => stream.next_event(),
            RecordingStream::PerfData(stream) => stream.next_event(),
            RecordingStream::Text(stream) => stream.next_event(),
            RecordingStream::Perfetto(stream) => stream.next_event(),
        }
    }
    /// The name behind a number in an event of this stream.
    #[inline]
    pub fn comm(&self, id: CommId) -> &str {
        match self {
            RecordingStream::TraceDat(stream) => stream.comm(id),
            RecordingStream::PerfData(stream) => stream.comm(id),
            RecordingStream::Text(stream) => stream.comm(id),
            RecordingStream::Perfetto(stream) => stream.comm(id),
        }
    }
    /// What was left out or assumed so far, by reason.
    pub fn counts(&self) -> &Counts {
        match self {
            RecordingStream::TraceDat(stream) => stream.counts(),
            RecordingStream::PerfData(stream) => stream.counts(),
            RecordingStream::Text(stream) => stream.counts(),
            RecordingStream::Perfetto(stream) => stream.counts(),
        }
    }
}
