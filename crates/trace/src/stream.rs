//! What happened on all CPUs, in one order? Each CPU's pages are in order of time; a heap merges them by (time, CPU).
//!
//! ```text
//! cpu0  10 switch        30 waking   40 switch          10 cpu0, 20 cpu1, 30 cpu0, 30 cpu1, 40 cpu0
//! cpu1         20 switch 30 switch               ->     at 30 the lower CPU comes first
//! ```
//!
//! The order between CPUs is only as good as the clock: `mono` and `global` agree to well below a
//! microsecond, `local` may be off by more. Memory: one page (or unpacked chunk) per CPU and one row per task
//! name.

use crate::comm::CommTable;
use crate::container::{Counts, Mode, Tsc, count};
use crate::decode::Decoder;
use crate::error::{Problem, TraceError};
use crate::event::{CommId, Pid, SchedEvent, TraceEvent};
use crate::file::TraceFile;
use crate::merge::replace_first;
use crate::pages::{Pages, Resident};
use crate::recording::Meter;
use crate::ring::{PageFormat, Step, step};
use schedlab_units::CpuId;
use std::path::Path;

/// From the file's clock to ns.
#[derive(Clone, Copy)]
pub(crate) struct TimeScale {
    pub tsc: Option<Tsc>,
    pub offset_ns: i64,
}

impl TimeScale {
    /// A time before 0 becomes 0, one beyond 2^64 ns the greatest.
    #[inline(always)]
    fn ns(&self, clock: u64) -> u64 {
        let ns = match self.tsc {
            None => clock,
            Some(Tsc { mult, shift }) => {
                u64::try_from((u128::from(clock) * u128::from(mult)) >> shift).unwrap_or(u64::MAX)
            }
        };
        ns.saturating_add_signed(self.offset_ns)
    }
}

/// What one CPU's stream stands at.
enum Item {
    Event { data: usize, length: usize },
    Lost { count: Option<u64> },
    End,
}

struct CpuStream<'f> {
    cpu: CpuId,
    pages: Pages<'f>,
    /// Next event in `pages.bytes()`.
    at: usize,
    /// End of the page's events.
    end: usize,
    clock: u64,
    time_ns: u64,
    item: Item,
}

/// What all CPUs' streams have in common.
struct Shared {
    format: PageFormat,
    page_size: usize,
    scale: TimeScale,
    mode: Mode,
}

pub(crate) const BACKWARDS: &str = "time going backwards on one CPU, taken as standing still";

impl CpuStream<'_> {
    /// Moves to the next event, or to a note of lost ones.
    #[inline(always)]
    fn advance(&mut self, shared: &Shared, counts: &mut Counts) -> Result<(), Problem> {
        loop {
            match step(self.pages.bytes(), self.at, self.end, &mut self.clock) {
                Step::Event { data, length, next } => {
                    self.at = next;
                    self.item = Item::Event { data, length };
                    self.set_time(shared, counts);
                    return Ok(());
                }
                Step::Skip { next } => self.at = next,
                Step::End => {
                    if self.next_page(shared, counts)? {
                        return Ok(());
                    }
                }
                Step::Damaged(why) => self.damaged(why, shared, counts)?,
            }
        }
    }

    #[inline(always)]
    fn set_time(&mut self, shared: &Shared, counts: &mut Counts) {
        let time_ns = shared.scale.ns(self.clock);
        if time_ns < self.time_ns {
            count(counts, BACKWARDS, 1);
        } else {
            self.time_ns = time_ns;
        }
    }

    #[cold]
    fn damaged(&mut self, why: &'static str, shared: &Shared, counts: &mut Counts) -> Result<(), Problem> {
        if shared.mode == Mode::Strict {
            let at = self.pages.place(self.at);
            return Err(crate::container::invalid(
                at,
                "an event",
                why,
                "an event that ends within its page's data",
            ));
        }
        count(counts, &format!("rest of a page left out: {why}"), 1);
        self.at = self.end;
        Ok(())
    }

    /// Goes to the next page with events; true if the stream now stands at its end or at lost events.
    #[cold]
    fn next_page(&mut self, shared: &Shared, counts: &mut Counts) -> Result<bool, Problem> {
        loop {
            if !self.pages.next_page(shared.mode, counts)? {
                self.item = Item::End;
                (self.at, self.end) = (0, 0);
                return Ok(true);
            }
            let start = self.pages.page();
            let page = &self.pages.bytes()[start..start + shared.page_size];
            let header = match shared.format.header(page) {
                Ok(header) => header,
                Err(length) if shared.mode == Mode::Strict => {
                    let room = shared.page_size.saturating_sub(shared.format.data);
                    let at = self.pages.place(start);
                    let expected = format!("at most {room}");
                    return Err(crate::container::invalid(
                        at,
                        "the length of a page's events",
                        length,
                        &expected,
                    ));
                }
                Err(_) => {
                    count(counts, "page left out: its events are longer than it", 1);
                    continue;
                }
            };
            self.clock = header.timestamp;
            self.at = start + shared.format.data;
            self.end = self.at + header.length;
            if let Some(lost) = header.lost {
                self.item = Item::Lost { count: lost };
                self.set_time(shared, counts);
                return Ok(true);
            }
            return Ok(false);
        }
    }
}

/// The events of one buffer in order. Ask [`EventStream::next_event`] until it gives `None`; then
/// [`EventStream::counts`] is complete.
pub struct EventStream<'f> {
    path: Option<&'f Path>,
    shared: Shared,
    decoder: Decoder,
    comms: CommTable,
    streams: Vec<CpuStream<'f>>,
    /// Streams that have events left, as a heap: least (time, index) first. Streams are in order of CPU.
    heap: Vec<(u64, u32)>,
    pub(crate) counts: Counts,
    meter: Meter,
}

impl<'f> EventStream<'f> {
    pub(crate) fn new(
        file: &'f TraceFile,
        buffer: usize,
        decoder: Decoder,
        scale: TimeScale,
    ) -> Result<EventStream<'f>, Problem> {
        let buffer = &file.buffers()[buffer];
        let shared =
            Shared { format: file.page_format(), page_size: buffer.page_size, scale, mode: file.mode() };
        let mut counts = file.counts().clone();
        if !decoder.states.is_from_file() {
            count(
                &mut counts,
                "states of sched_switch not explained by the trace, taken as those of Linux 4.14 and later",
                1,
            );
        }
        let resident = Resident::default();
        let mut streams = Vec::new();
        for place in &buffer.cpus {
            streams.push(CpuStream {
                cpu: place.cpu,
                pages: Pages::new(file.bytes(), buffer, place, &resident, shared.mode, &mut counts)?,
                at: 0,
                end: 0,
                clock: 0,
                time_ns: 0,
                item: Item::End,
            });
        }
        let mut heap = Vec::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.advance(&shared, &mut counts)?;
            if !matches!(stream.item, Item::End) {
                heap.push((stream.time_ns, index as u32));
            }
        }
        heap.sort_unstable(); // a sorted list is a heap
        let (path, comms, meter) = (file.path(), CommTable::new(), Meter::default());
        Ok(EventStream { path, shared, decoder, comms, streams, heap, counts, meter })
    }

    /// Whether any event of the buffer is a context switch; stops at the first.
    pub(crate) fn has_switch(file: &TraceFile, buffer: usize, decoder: &Decoder) -> Result<bool, Problem> {
        let scale = TimeScale { tsc: None, offset_ns: 0 };
        let buffer = &file.buffers()[buffer];
        let shared =
            Shared { format: file.page_format(), page_size: buffer.page_size, scale, mode: file.mode() };
        let mut counts = Counts::new();
        let resident = Resident::default();
        for place in &buffer.cpus {
            let mut stream = CpuStream {
                cpu: place.cpu,
                pages: Pages::new(file.bytes(), buffer, place, &resident, shared.mode, &mut counts)?,
                at: 0,
                end: 0,
                clock: 0,
                time_ns: 0,
                item: Item::End,
            };
            loop {
                stream.advance(&shared, &mut counts)?;
                match stream.item {
                    Item::Event { data, length } => {
                        if decoder.is_switch(&stream.pages.bytes()[data..data + length]) {
                            return Ok(true);
                        }
                    }
                    Item::Lost { .. } => {}
                    Item::End => break,
                }
            }
        }
        Ok(false)
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first damaged page or event, with its place. In [`Mode::Lenient`] such are left out and
    /// counted.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        loop {
            let Some((time_ns, index)) = self.heap.first().copied() else { return Ok(None) };
            let stream = &mut self.streams[index as usize];
            let decoded = match stream.item {
                Item::Event { data, length } => {
                    let record = &stream.pages.bytes()[data..data + length];
                    self.decoder.decode(record, &mut self.comms).map(|(common, what)| TraceEvent {
                        time_ns,
                        cpu: stream.cpu,
                        pid: common.pid,
                        context: common.context,
                        preempt_count: common.preempt_count,
                        what,
                    })
                }
                Item::Lost { count } => Ok(TraceEvent {
                    time_ns,
                    cpu: stream.cpu,
                    pid: Pid::IDLE,
                    context: crate::event::Context::Task,
                    preempt_count: 0,
                    what: SchedEvent::Lost { count },
                }),
                Item::End => unreachable!("streams at their end are not in the heap"),
            };
            let event = match decoded {
                Ok(event) => Some(event),
                Err(why) => {
                    let result = stream.unreadable(why, &self.shared, &mut self.counts);
                    result.map_err(|problem| TraceError::new(self.path, problem))?;
                    None
                }
            };
            if let Err(problem) = stream.advance(&self.shared, &mut self.counts) {
                return Err(TraceError::new(self.path, problem));
            }
            let next_ns = (!matches!(stream.item, Item::End)).then_some(stream.time_ns);
            replace_first(&mut self.heap, next_ns);
            if event.is_some() {
                self.meter.count(self.path)?;
                return Ok(event);
            }
        }
    }

    /// The name behind a number in an event of this stream.
    pub fn comm(&self, id: CommId) -> &str {
        self.comms.name(id)
    }

    /// What was left out or assumed so far, by reason.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl CpuStream<'_> {
    #[cold]
    fn unreadable(&self, why: &'static str, shared: &Shared, counts: &mut Counts) -> Result<(), Problem> {
        if shared.mode == Mode::Strict {
            let Item::Event { data, .. } = self.item else { unreachable!("only events are decoded") };
            let at = self.pages.place(data);
            return Err(crate::container::invalid(at, "an event", why, "what its format says"));
        }
        count(counts, &format!("event left out: {why}"), 1);
        Ok(())
    }
}

impl Iterator for EventStream<'_> {
    type Item = Result<TraceEvent, TraceError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_ns_and_are_shifted() {
        // 2.5 GHz: 0.4 ns per cycle = 1717986918 / 2^32.
        let scale = TimeScale { tsc: Some(Tsc { mult: 1_717_986_918, shift: 32 }), offset_ns: -1_000 };
        assert_eq!(scale.ns(2_500_000_000), 999_999_999 - 1_000);
        assert_eq!(scale.ns(10), 0);
        assert_eq!(TimeScale { tsc: None, offset_ns: 7 }.ns(u64::MAX), u64::MAX);
    }
}
