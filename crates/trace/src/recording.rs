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
use crate::event::{CommId, TraceEvent};
use crate::file::TraceFile;
use crate::perf::{PerfFile, PerfStream};
use crate::perfetto::{PerfettoFile, PerfettoStream};
use crate::stream::EventStream;
use crate::text::{TextFile, TextStream, looks_like_trace_text};
use schedlab_stdx::limits::RECORDING_EVENTS_MAX;
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
    /// Opens a recording; its content shows its format. The file must not be shortened while it is open.
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
        let stream = match self {
            Recording::TraceDat(file) => Stream::TraceDat(Box::new(file.events()?)),
            Recording::PerfData(file) => Stream::PerfData(Box::new(file.events()?)),
            Recording::Text(file) => Stream::Text(Box::new(file.events()?)),
            Recording::Perfetto(file) => Stream::Perfetto(Box::new(file.events()?)),
        };
        Ok(RecordingStream { stream, path: self.path(), meter: Meter::default() })
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Recording::TraceDat(file) => file.path.as_deref(),
            Recording::PerfData(file) => file.path.as_deref(),
            Recording::Text(file) => file.path.as_deref(),
            Recording::Perfetto(file) => file.path.as_deref(),
        }
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
pub struct RecordingStream<'f> {
    stream: Stream<'f>,
    path: Option<&'f Path>,
    meter: Meter,
}

enum Stream<'f> {
    /// See [`EventStream`].
    TraceDat(Box<EventStream<'f>>),
    /// See [`PerfStream`].
    PerfData(Box<PerfStream<'f>>),
    /// See [`TextStream`].
    Text(Box<TextStream<'f>>),
    /// See [`PerfettoStream`].
    Perfetto(Box<PerfettoStream<'f>>),
}

/// Counts events up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    left: u64,
    limit: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::of(RECORDING_EVENTS_MAX)
    }
}

impl Meter {
    pub(crate) fn of(limit: u64) -> Meter {
        Meter { left: limit, limit }
    }

    /// Another event has come.
    #[inline]
    pub(crate) fn count(&mut self, path: Option<&Path>) -> Result<(), TraceError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(TraceError::new(path, Problem::TooMany { limit: self.limit })),
        }
    }
}

impl RecordingStream<'_> {
    /// With another limit than [`RECORDING_EVENTS_MAX`].
    pub fn at_most(mut self, events: u64) -> Self {
        self.meter = Meter::of(events);
        self
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first thing that is damaged, with its place. In [`Mode::Lenient`] such are
    /// left out and counted. In both, [`Problem::TooMany`].
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        let event = match &mut self.stream {
            Stream::TraceDat(stream) => stream.next_event(),
            Stream::PerfData(stream) => stream.next_event(),
            Stream::Text(stream) => stream.next_event(),
            Stream::Perfetto(stream) => stream.next_event(),
        }?;
        if event.is_some() {
            self.meter.count(self.path)?;
        }
        Ok(event)
    }
    /// The name behind a number in an event of this stream.
    #[inline]
    pub fn comm(&self, id: CommId) -> &str {
        match &self.stream {
            Stream::TraceDat(stream) => stream.comm(id),
            Stream::PerfData(stream) => stream.comm(id),
            Stream::Text(stream) => stream.comm(id),
            Stream::Perfetto(stream) => stream.comm(id),
        }
    }
    /// What was left out or assumed so far, by reason.
    pub fn counts(&self) -> &Counts {
        match &self.stream {
            Stream::TraceDat(stream) => stream.counts(),
            Stream::PerfData(stream) => stream.counts(),
            Stream::Text(stream) => stream.counts(),
            Stream::Perfetto(stream) => stream.counts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many events as there may be, and one more, which no mode leaves out.
    #[test]
    fn events_are_counted() {
        let line = |at: u32| {
            let (prev, next) = (1 + at % 2, 2 - at % 2);
            format!(
                "  a-{prev} [000] d..2. 1.00000{at}: sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 \
                 prev_state=S ==> next_comm=a next_pid={next} next_prio=120\n"
            )
        };
        let text: String = (0..3).map(line).collect();
        for mode in [Mode::Strict, Mode::Lenient] {
            let file = Recording::from_bytes(format!("# tracer: nop\n#\n{text}").into_bytes(), mode).unwrap();
            let read = |most: u64| {
                let mut events = file.events().unwrap().at_most(most);
                let mut count = 0;
                while events.next_event()?.is_some() {
                    count += 1;
                }
                Ok::<_, TraceError>(count)
            };
            assert_eq!(read(3).unwrap(), 3);
            let error = read(2).unwrap_err();
            assert!(matches!(error.problem(), Problem::TooMany { limit: 2 }), "{error}");
        }
    }

    /// trace.dat's own stream, which some readers use without the others, counts as well.
    #[test]
    fn a_meter_ends_with_its_limit() {
        let mut meter = Meter::of(1);
        meter.count(None).unwrap();
        assert!(matches!(meter.count(None).unwrap_err().problem(), Problem::TooMany { limit: 1 }));
        assert_eq!(Meter::default().limit, RECORDING_EVENTS_MAX);
    }
}
