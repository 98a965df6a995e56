//! What did `perf sched record` see? Its perf.data, as a file, from a pipe, or compressed.
//!
//! ```text
//! file  "PERFILE2", 104  attrs: which events, how samples look   data: records   features: event formats, kernel, CPUs
//! pipe  "PERFILE2", 16   records: HEADER_ATTR, HEADER_FEATURE, TRACING_DATA (event formats), then as in a file
//!
//! data   COMM MMAP ...     of the tasks that were there
//!        SAMPLE            time, CPU, and the raw bytes of the tracepoint, as in a trace.dat
//!        COMPRESSED        zstd: more of the same
//!        LOST              the buffer was full
//!        FINISHED_ROUND    all CPUs' buffers have been emptied once: what is older than the round before is complete
//! ```
//!
//! The raw bytes are decoded by the formats of the recording kernel, as those of a trace.dat are. Per CPU,
//! records are in order of time; a merge over the CPUs gives one order, holding at most two rounds in memory.
//!
//! Layout: tools/perf/Documentation/perf.data-file-format.txt and tools/perf/util/header.c, event.h of Linux
//! 6.12. Why not the crate linux-perf-data: docs/decisions/perf-data-reader.md.

mod header;
mod records;
mod sample;
mod stream;

pub use stream::PerfStream;

use crate::bytes::Bytes;
use crate::container::{Counts, Mode};
use crate::error::{Problem, TraceError};
use header::Head;
use std::path::{Path, PathBuf};

/// An opened perf.data.
pub struct PerfFile {
    pub(crate) path: Option<PathBuf>,
    pub(crate) bytes: Bytes,
    mode: Mode,
    head: Head,
}

impl PerfFile {
    /// Opens a recording and reads all but its samples. The file must not be shortened while it is open.
    ///
    /// # Errors
    /// [`Problem::UnknownRecording`], [`Problem::Truncated`], [`Problem::Unsupported`],
    /// [`Problem::NoSchedEvents`], each with its place.
    pub fn open(path: &Path, mode: Mode) -> Result<PerfFile, TraceError> {
        let bytes = Bytes::open(path).map_err(|problem| TraceError::new(Some(path), problem))?;
        PerfFile::parse(Some(path), bytes, mode)
    }

    /// A recording in memory.
    pub fn from_bytes(bytes: Vec<u8>, mode: Mode) -> Result<PerfFile, TraceError> {
        PerfFile::parse(None, Bytes::Owned(bytes), mode)
    }

    pub(crate) fn parse(path: Option<&Path>, bytes: Bytes, mode: Mode) -> Result<PerfFile, TraceError> {
        let head = header::parse(bytes.as_slice(), mode).map_err(|problem| TraceError::new(path, problem))?;
        Ok(PerfFile { path: path.map(Path::to_path_buf), bytes, mode, head })
    }

    /// The events of all CPUs in order of time, then CPU.
    ///
    /// # Errors
    /// [`Problem::NoSchedEvents`] if no sched_switch was recorded, [`Problem::Format`].
    pub fn events(&self) -> Result<PerfStream<'_>, TraceError> {
        PerfStream::new(self).map_err(|problem| TraceError::new(self.path.as_deref(), problem))
    }

    /// Number of CPUs of the recorded system, where the file tells.
    pub fn cpu_count(&self) -> Option<u32> {
        self.head.cpu_count
    }
    /// Release of the recorded system's kernel, where the file tells.
    pub fn release(&self) -> Option<&str> {
        self.head.release.as_deref()
    }
    /// Version of the perf that recorded, where the file tells.
    pub fn tool(&self) -> Option<&str> {
        self.head.tool.as_deref()
    }
    /// What a lenient [`PerfFile::open`] found missing, by reason.
    pub fn counts(&self) -> &Counts {
        &self.head.counts
    }
    /// How damage is treated.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
    fn head(&self) -> &Head {
        &self.head
    }
}

/// Refuses what is not for this reader.
fn unsupported(at: crate::error::Place, what: &'static str, value: String, remedy: &'static str) -> Problem {
    Problem::Unsupported { at, what, value, remedy }
}
