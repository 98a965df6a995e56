//! What did Perfetto's ftrace data source see? Bundles of events, one CPU's each, in a trace of
//! protocol-buffer packets.
//!
//! ```text
//! trace = packet*                packet 1 (length, bytes), again and again
//! packet                         1 bundle | 2 names of tasks | 45 kernel and CPUs | 50 packed packets | 10 writer
//! bundle                         1 cpu  2 event*  3 events before are lost  4 compact
//! event                          1 time  2 thread  5 flags  4 sched_switch | 20 sched_waking | 239 fork | ...
//! compact                        columns, times as differences, names by number in the bundle's own table:
//!   switch   +time  prev_state  next_pid  next_prio  next_comm        who leaves is who came last on this CPU
//!   waking   +time  pid  target_cpu  prio  comm  flags                the waker is who is on this CPU
//! ```
//!
//! What the compact form does not tell: the priority with which a task leaves its CPU
//! ([`PRIO_UNKNOWN`](crate::PRIO_UNKNOWN)), who leaves at the first switch of a CPU and after lost events
//! (taken as idle, and counted), and in traces before Perfetto 44 whether a waking came from an interrupt
//! ([`Context::Unknown`](crate::Context::Unknown)).
//!
//! Protocol: protos/perfetto/trace/trace_packet.proto, ftrace/ftrace_event_bundle.proto, ftrace/sched.proto
//! of Perfetto 51. Bundles are found in one pass over the packets' heads (24 bytes of memory each), then
//! decoded one per CPU at a time.

mod bundle;
mod packets;
mod stream;
mod wire;

pub use stream::PerfettoStream;

use crate::bytes::Bytes;
use crate::container::{Counts, Mode};
use crate::error::TraceError;
use packets::Packets;
use std::path::{Path, PathBuf};

/// An opened Perfetto trace.
pub struct PerfettoFile {
    pub(crate) path: Option<PathBuf>,
    pub(crate) bytes: Bytes,
    mode: Mode,
    packets: Packets,
}

impl PerfettoFile {
    /// Opens a trace and finds its bundles. The file must not be shortened while it is open.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first packet that cannot be, with its place;
    /// [`Problem::NoSchedEvents`](crate::Problem::NoSchedEvents) if there is no bundle of ftrace events.
    pub fn open(path: &Path, mode: Mode) -> Result<PerfettoFile, TraceError> {
        let bytes = Bytes::open(path).map_err(|problem| TraceError::new(Some(path), problem))?;
        PerfettoFile::parse(Some(path), bytes, mode)
    }

    /// A trace in memory.
    pub fn from_bytes(bytes: Vec<u8>, mode: Mode) -> Result<PerfettoFile, TraceError> {
        PerfettoFile::parse(None, Bytes::Owned(bytes), mode)
    }

    pub(crate) fn parse(path: Option<&Path>, bytes: Bytes, mode: Mode) -> Result<PerfettoFile, TraceError> {
        let packets =
            packets::scan(bytes.as_slice(), mode).map_err(|problem| TraceError::new(path, problem))?;
        Ok(PerfettoFile { path: path.map(Path::to_path_buf), bytes, mode, packets })
    }

    /// The events of all CPUs in order of time, then CPU.
    ///
    /// # Errors
    /// In [`Mode::Strict`], a CPU's first bundle that cannot be read.
    pub fn events(&self) -> Result<PerfettoStream<'_>, TraceError> {
        PerfettoStream::new(self).map_err(|problem| TraceError::new(self.path.as_deref(), problem))
    }

    /// Number of CPUs of the recorded system, where the trace tells.
    pub fn cpu_count(&self) -> Option<u32> {
        self.packets.cpu_count
    }
    /// Release of the recorded system's kernel, where the trace tells.
    pub fn release(&self) -> Option<&str> {
        self.packets.release.as_deref()
    }
    /// Version of the tracing service, where the trace tells.
    pub fn tool(&self) -> Option<&str> {
        self.packets.tool.as_deref()
    }
    /// What a lenient [`PerfettoFile::open`] found missing, by reason.
    pub fn counts(&self) -> &Counts {
        &self.packets.counts
    }
    /// How damage is treated.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// Whether the begin of a file looks like a Perfetto trace: field 1 (packet, length-delimited), again and again.
pub(crate) fn looks_like_perfetto(start: &[u8]) -> bool {
    let mut at = 0;
    for packet in 0.. {
        if at >= start.len() {
            return packet > 0;
        }
        if start[at] != 0x0a {
            return false;
        }
        let (mut length, mut shift) = (0usize, 0);
        loop {
            at += 1;
            let Some(&byte) = start.get(at) else { return packet > 0 };
            if shift > 28 {
                return false;
            }
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        // a packet begins with the tag of a field: number not 0, wire type 0, 1, 2 or 5
        at += 1;
        if length > 0
            && let Some(&tag) = start.get(at)
            && (tag >> 3 == 0 || !matches!(tag & 7, 0 | 1 | 2 | 5))
        {
            return false;
        }
        at = at.saturating_add(length);
    }
    false
}
