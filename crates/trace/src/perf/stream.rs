//! The samples of all CPUs in one order.
//!
//! perf empties the CPUs' buffers one after the other, again and again. After two rounds nothing older than
//! the end of the first can come any more, so what is held is at most two rounds
//! (tools/perf/util/ordered-events.c does the same):
//!
//! ```text
//! round 1   cpu0: 10 20 30   cpu1: 5 25 35      kept
//! round 2   cpu0: 32 50      cpu1: 40           5 10 20 25 30 32 35 go out: up to the latest of round 1
//! ```

use super::PerfFile;
use super::records::{self, Record, Records, Step};
use super::sample::Stamp;
use crate::comm::CommTable;
use crate::container::{Counts, Mode, count, invalid};
use crate::error::{Problem, TraceError};
use crate::event::{CommId, Context, Pid, SchedEvent, TraceEvent};
use crate::format::bytes_at;
use crate::merge::{replace_first, sift_down};
use crate::stream::BACKWARDS;
use schedlab_units::CpuId;
use std::collections::VecDeque;

/// One CPU's events that cannot go out yet, in order of time.
struct Queue {
    cpu: CpuId,
    events: VecDeque<TraceEvent>,
}

/// The events of a perf.data in order. Ask [`PerfStream::next_event`] until it gives `None`; then
/// [`PerfStream::counts`] is complete.
pub struct PerfStream<'f> {
    file: &'f PerfFile,
    records: Records<'f>,
    comms: CommTable,
    /// In order of CPU.
    queues: Vec<Queue>,
    heap: Vec<(u64, u32)>,
    /// Latest time of the records so far, and of those before the last round's end.
    latest_ns: u64,
    complete_ns: u64,
    /// What is not later than this may go out.
    flush_ns: u64,
    last_ns: u64,
    ended: bool,
    counts: Counts,
}

impl<'f> PerfStream<'f> {
    pub(super) fn new(file: &'f PerfFile) -> Result<PerfStream<'f>, Problem> {
        let mut counts = file.counts().clone();
        if file.head().decoder.as_ref().is_some_and(|decoder| !decoder.states.is_from_file()) {
            count(
                &mut counts,
                "states of sched_switch not explained by the trace, taken as those of Linux 4.14 and later",
                1,
            );
        }
        Ok(PerfStream {
            file,
            records: Records::new(file.bytes(), file.head().data.clone(), file.mode()),
            comms: CommTable::new(),
            queues: Vec::new(),
            heap: Vec::new(),
            latest_ns: 0,
            complete_ns: 0,
            flush_ns: 0,
            last_ns: 0,
            ended: false,
            counts,
        })
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first damaged record or sample, with its place. In [`Mode::Lenient`] such are
    /// left out and counted.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        loop {
            if let Some((time_ns, index)) = self.heap.first().copied()
                && (time_ns <= self.flush_ns || self.ended)
            {
                let queue = &mut self.queues[index as usize].events;
                let mut event = queue.pop_front().expect("a queue in the heap has an event");
                let next_ns = queue.front().map(|event| event.time_ns);
                replace_first(&mut self.heap, next_ns);
                if event.time_ns < self.last_ns {
                    count(&mut self.counts, BACKWARDS, 1);
                    event.time_ns = self.last_ns;
                }
                self.last_ns = event.time_ns;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            self.read_round().map_err(|problem| TraceError::new(self.file.path(), problem))?;
        }
    }

    /// Reads records up to the end of a round.
    fn read_round(&mut self) -> Result<(), Problem> {
        loop {
            let record = match self.records.next(&mut self.counts)? {
                Step::Record(record) => record,
                Step::End => {
                    self.ended = true;
                    break;
                }
            };
            match record.kind {
                records::SAMPLE => self.sample(&record)?,
                records::LOST => self.lost(&record, 8),
                records::LOST_SAMPLES => self.lost(&record, 0),
                records::FINISHED_ROUND => {
                    self.flush_ns = self.complete_ns;
                    self.complete_ns = self.latest_ns;
                    break;
                }
                _ => {}
            }
        }
        // Queues that were empty have no row in the heap, those that were not have the right one.
        self.heap.clear();
        let heads = self.queues.iter().enumerate();
        let heads = heads.filter_map(|(row, queue)| Some((queue.events.front()?.time_ns, row as u32)));
        self.heap.extend(heads);
        self.heap.sort_unstable(); // a sorted list is a heap
        sift_down(&mut self.heap);
        Ok(())
    }

    fn sample(&mut self, record: &Record) -> Result<(), Problem> {
        let body = self.records.body(record);
        let head = self.file.head();
        let decoder = head.decoder.as_ref().expect("a file without event formats is not opened");
        let decoded = head.layouts.sample(body).and_then(|(stamp, raw)| {
            let (Some(raw), Some(time_ns), Some(cpu)) = (raw, stamp.time_ns, stamp.cpu) else {
                return Ok(None);
            };
            let (common, what) = decoder.decode(&body[raw], &mut self.comms)?;
            let event = TraceEvent {
                time_ns,
                cpu,
                pid: common.pid,
                context: common.context,
                preempt_count: common.preempt_count,
                what,
            };
            Ok(Some(event))
        });
        match decoded {
            Ok(Some(event)) => self.push(event),
            Ok(None) => {}
            Err(why) if self.file.mode() == Mode::Strict => {
                return Err(invalid(self.records.place(record), "a sample", why, "what its format says"));
            }
            Err(why) => count(&mut self.counts, &format!("event left out: {why}"), 1),
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, event: TraceEvent) {
        self.latest_ns = self.latest_ns.max(event.time_ns);
        let row = match self.queues.binary_search_by_key(&event.cpu, |queue| queue.cpu) {
            Ok(row) => row,
            Err(row) => {
                self.queues.insert(row, Queue { cpu: event.cpu, events: VecDeque::new() });
                row
            }
        };
        let events = &mut self.queues[row].events;
        // An interrupt between an event's time and its place in the buffer may swap two.
        if events.back().is_none_or(|last| last.time_ns <= event.time_ns) {
            events.push_back(event);
        } else {
            events.insert(events.partition_point(|other| other.time_ns <= event.time_ns), event);
        }
    }

    /// The kernel could not write: `at` is where the record says how many.
    fn lost(&mut self, record: &Record, at: usize) {
        let body = self.records.body(record);
        let lost = u64::from_le_bytes(bytes_at(body, at));
        match self.file.head().layouts.trailer(body) {
            Stamp { time_ns: Some(time_ns), cpu: Some(cpu) } => self.push(TraceEvent {
                time_ns,
                cpu,
                pid: Pid::IDLE,
                context: Context::Task,
                preempt_count: 0,
                what: SchedEvent::Lost { count: Some(lost) },
            }),
            _ => {
                count(&mut self.counts, "event lost by the recording, on which CPU and when is unknown", lost)
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
