//! The bundles of all CPUs in one order: of each CPU one bundle is decoded at a time.

use super::PerfettoFile;
use super::bundle::{Common, CpuState};
use super::packets::{Content, Part};
use crate::container::{Counts, Mode, count, invalid};
use crate::error::{Problem, TraceError};
use crate::event::{CommId, TraceEvent};
use crate::merge::replace_first;
use crate::state::StateDecoder;
use crate::stream::BACKWARDS;
use schedlab_units::CpuId;

struct CpuStream<'f> {
    cpu: CpuId,
    parts: std::slice::Iter<'f, Part>,
    events: Vec<TraceEvent>,
    at: usize,
    time_ns: u64,
    state: CpuState,
}

/// The events of a Perfetto trace in order. Ask [`PerfettoStream::next_event`] until it gives `None`; then
/// [`PerfettoStream::counts`] is complete.
pub struct PerfettoStream<'f> {
    file: &'f PerfettoFile,
    content: Content<'f>,
    common: Common,
    streams: Vec<CpuStream<'f>>,
    heap: Vec<(u64, u32)>,
    counts: Counts,
}

/// Linux 4.14 gave `prev_state` the bits that it has today; Perfetto keeps the number alone.
fn is_known_release(release: Option<&str>) -> bool {
    let mut parts = release.unwrap_or_default().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (4, 14)
}

impl<'f> PerfettoStream<'f> {
    pub(super) fn new(file: &'f PerfettoFile) -> Result<PerfettoStream<'f>, Problem> {
        let mut counts = file.counts().clone();
        if !is_known_release(file.release()) {
            count(
                &mut counts,
                "states of sched_switch not explained by the trace, taken as those of Linux 4.14 and later",
                1,
            );
        }
        let streams = file.packets.bundles.iter().map(|(cpu, parts)| CpuStream {
            cpu: CpuId(*cpu),
            parts: parts.iter(),
            events: Vec::new(),
            at: 0,
            time_ns: 0,
            state: CpuState::default(),
        });
        let mut stream = PerfettoStream {
            file,
            content: Content::new(file.bytes.as_slice(), &file.packets),
            common: Common::new(StateDecoder::parse("")),
            streams: streams.collect(),
            heap: Vec::new(),
            counts,
        };
        for row in 0..stream.streams.len() {
            if let Some(time_ns) = stream.refill(row)? {
                stream.heap.push((time_ns, row as u32));
            }
        }
        stream.heap.sort_unstable(); // a sorted list is a heap
        Ok(stream)
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first damaged bundle, with its place. In [`Mode::Lenient`] such are left out
    /// and counted.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        let Some((time_ns, row)) = self.heap.first().copied() else { return Ok(None) };
        let stream = &mut self.streams[row as usize];
        let mut event = stream.events[stream.at];
        event.time_ns = time_ns;
        stream.time_ns = time_ns;
        stream.at += 1;
        let next_ns = match stream.events.get(stream.at) {
            Some(next) => {
                if next.time_ns < time_ns {
                    count(&mut self.counts, BACKWARDS, 1);
                }
                Some(next.time_ns.max(time_ns))
            }
            None => self
                .refill(row as usize)
                .map_err(|problem| TraceError::new(self.file.path.as_deref(), problem))?,
        };
        replace_first(&mut self.heap, next_ns);
        Ok(Some(event))
    }

    /// Decodes a CPU's next bundle that has events; gives the time of the first of them.
    #[cold]
    fn refill(&mut self, row: usize) -> Result<Option<u64>, Problem> {
        let stream = &mut self.streams[row];
        loop {
            stream.events.clear();
            stream.at = 0;
            let Some(part) = stream.parts.next() else {
                count(
                    &mut self.counts,
                    "event of the compact form whose task on the CPU is unknown, taken as idle",
                    std::mem::take(&mut stream.state.asked_in_vain),
                );
                return Ok(None);
            };
            let bytes = self.content.bytes(*part);
            let read = self.common.read(bytes.as_slice(), stream.cpu, &mut stream.state, &mut stream.events);
            if let Err(why) = read {
                if self.file.mode == Mode::Strict {
                    return Err(invalid(
                        self.content.place(*part),
                        "a bundle",
                        why,
                        "what Perfetto's protocol says",
                    ));
                }
                count(&mut self.counts, &format!("bundle of events left out: {why}"), 1);
                stream.events.clear();
                stream.state.forget();
                continue;
            }
            if let Some(first) = stream.events.first() {
                if first.time_ns < stream.time_ns {
                    count(&mut self.counts, BACKWARDS, 1);
                }
                return Ok(Some(first.time_ns.max(stream.time_ns)));
            }
        }
    }

    /// The name behind a number in an event of this stream.
    pub fn comm(&self, id: CommId) -> &str {
        self.common.comms.name(id)
    }

    /// What was left out or assumed so far, by reason.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}
