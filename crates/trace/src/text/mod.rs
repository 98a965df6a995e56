//! What does ftrace's text say? The file `trace` (or `trace_pipe`) of tracefs, `trace-cmd report`, `perf script`.
//!
//! ```text
//!            bash-812     [001] d..2.  1234.567890: sched_waking: comm=cat pid=813 prio=120 target_cpu=000  tracefs
//!            bash-812     [001]  1234.567890: sched_waking: comm=...                            ... without irq-info
//!            bash-812     (    812) [001] d..2. 1234.567890: sched_waking: comm=...             ... with record-tgid
//! inst:      bash-812     [001] 1234.567890123: sched_switch:  bash:812 [120] S ==> cat:813 [120]  trace-cmd report -t
//! inst:  bash-812     1d..2. 1234.567890: sched_waking: comm=...                                trace-cmd report -l
//!            bash   812 [001]  1234.567890:       sched:sched_waking: comm=...                  perf script
//! ```
//!
//! A text holds less than the recording it was made from. What is lost, and what is done about it:
//!
//! * Times are rounded to 1 us, unless the text has nine digits: lengths are off by up to 1 us per stay on a CPU.
//! * Whether an event came from an interrupt stands in the flags (`d.h2.`: hardirq). trace-cmd (without `-l`)
//!   and perf script leave them out, tracefs does with `noirq-info`: then [`Context::Unknown`].
//! * trace-cmd's plugin for sched_switch (3.1.6) prints `R+` as `R`, `I` as `W`, and swaps `X` with `Z`. `W`
//!   is taken as I; all others mean the same to a workload.
//! * perf script prints -1 as the thread of a task that is being reaped: the one is taken that the CPU was
//!   last given to.
//! * Names may hold blanks and colons; the first place that fits is taken.

mod line;
mod payload;

use crate::bytes::Bytes;
use crate::comm::CommTable;
use crate::container::{Counts, Mode, count, invalid};
use crate::error::{Place, Problem, TraceError};
use crate::event::{CommId, Context, Pid, SchedEvent, TraceEvent};
use crate::stream::BACKWARDS;
use line::{Head, Line};
use schedlab_units::CpuId;
use std::path::{Path, PathBuf};

/// An opened text.
pub struct TextFile {
    pub(crate) path: Option<PathBuf>,
    pub(crate) bytes: Bytes,
    mode: Mode,
}

/// More CPUs than any Linux has.
const MAX_CPU: u32 = 1 << 16;
/// A text that has no event in so many lines has none.
const LINES_WITHOUT_EVENT: usize = 1000;

/// Whether the begin of a file looks like one of these texts: an event's line is among the first.
pub fn looks_like_trace_text(start: &[u8]) -> bool {
    if start.starts_with(b"# tracer:") {
        return true;
    }
    let whole = start.iter().rposition(|byte| *byte == b'\n').map_or(start, |end| &start[..end]);
    whole
        .split(|byte| *byte == b'\n')
        .take(LINES_WITHOUT_EVENT)
        .any(|line| matches!(Line::parse(line), Line::Event(..)))
}

impl TextFile {
    /// Opens a text. The file must not be shortened while it is open.
    pub fn open(path: &Path, mode: Mode) -> Result<TextFile, TraceError> {
        let bytes = Bytes::open(path).map_err(|problem| TraceError::new(Some(path), problem))?;
        TextFile::parse(Some(path), bytes, mode)
    }

    /// A text in memory.
    pub fn from_bytes(bytes: Vec<u8>, mode: Mode) -> Result<TextFile, TraceError> {
        TextFile::parse(None, Bytes::Owned(bytes), mode)
    }

    pub(crate) fn parse(path: Option<&Path>, bytes: Bytes, mode: Mode) -> Result<TextFile, TraceError> {
        Ok(TextFile { path: path.map(Path::to_path_buf), bytes, mode })
    }

    /// The events in order of the lines.
    ///
    /// # Errors
    /// [`Problem::NoSchedEvents`] if no line is a sched_switch.
    pub fn events(&self) -> Result<TextStream<'_>, TraceError> {
        TextStream::new(self).map_err(|problem| TraceError::new(self.path.as_deref(), problem))
    }

    /// Number of CPUs of the recorded system, where the text tells: `#P:4`, or `cpus=4`.
    pub fn cpu_count(&self) -> Option<u32> {
        let start = self.bytes.as_slice();
        let start = &start[..start.len().min(4096)];
        let number = |text: &[u8]| {
            let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            std::str::from_utf8(&text[..length])
                .ok()?
                .parse()
                .ok()
                .filter(|cpus| (1..=MAX_CPU).contains(cpus))
        };
        start.split(|byte| *byte == b'\n').find_map(|line| {
            let at = || Some(line.windows(3).rposition(|window| window == b"#P:")? + 3);
            match line {
                [b'#', ..] => number(&line[at()?..]),
                _ => number(line.strip_prefix(b"cpus=")?),
            }
        })
    }
    /// How damage is treated.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// The events of a text in order. Ask [`TextStream::next_event`] until it gives `None`; then [`TextStream::counts`] is
/// complete.
pub struct TextStream<'f> {
    file: &'f TextFile,
    at: usize,
    line: u64,
    time_ns: u64,
    /// Events that the header announces, and those that came.
    announced: u64,
    seen: u64,
    comms: CommTable,
    /// Who is on each CPU, for lines that do not tell; by CPU.
    current: Vec<Pid>,
    /// A place where lines are missing, to be given before the next event of this CPU (`None`: of any).
    lost: Option<(Option<u32>, Option<u64>)>,
    counts: Counts,
}

impl<'f> TextStream<'f> {
    fn new(file: &'f TextFile) -> Result<TextStream<'f>, Problem> {
        let bytes = file.bytes.as_slice();
        let has_switch = || {
            let needle = b"sched_switch: ";
            let mut rest = bytes;
            while let Some(at) = memchr::memmem::find(rest, needle) {
                let start = memchr::memrchr(b'\n', &rest[..at]).map_or(0, |at| at + 1);
                let end = memchr::memchr(b'\n', &rest[at..]).map_or(rest.len(), |end| at + end);
                if let Line::Event(_, _, name, _) = Line::parse(&rest[start..end])
                    && name == b"sched_switch"
                {
                    return true;
                }
                rest = &rest[end..];
            }
            false
        };
        if !has_switch() {
            let lines = memchr::memchr_iter(b'\n', bytes).count();
            let detail = format!("{lines} lines of text hold not one sched_switch");
            return Err(Problem::NoSchedEvents { detail });
        }
        Ok(TextStream {
            file,
            at: 0,
            line: 0,
            time_ns: 0,
            announced: 0,
            seen: 0,
            comms: CommTable::new(),
            current: Vec::new(),
            lost: None,
            counts: Counts::new(),
        })
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// In [`Mode::Strict`], the first line of a sched event that cannot be read, and a last line without end.
    /// In [`Mode::Lenient`] such are left out and counted. Other lines that are no events are left out and
    /// counted in both.
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        self.next_problem().map_err(|problem| TraceError::new(self.file.path.as_deref(), problem))
    }

    fn next_problem(&mut self) -> Result<Option<TraceEvent>, Problem> {
        let bytes = self.file.bytes.as_slice();
        loop {
            if self.at >= bytes.len() {
                self.end();
                return Ok(None);
            }
            let start = self.at;
            self.line += 1;
            let Some(length) = memchr::memchr(b'\n', &bytes[start..]) else {
                self.at = bytes.len();
                self.cut_short(bytes, start)?;
                self.end();
                return Ok(None);
            };
            let line = &bytes[start..start + length];
            let parsed = Line::parse(line);
            if let Line::Event(head, time, name, payload) = parsed {
                if self.lost.is_some()
                    && let Some(event) = self.lost_before(&head, time.ns)
                {
                    self.line -= 1; // this line comes again
                    return Ok(Some(event));
                }
                self.at = start + length + 1;
                self.seen += 1;
                let place = Place::line(self.line, start as u64);
                if let Some(event) = self.event(&head, time, name, payload, place)? {
                    return Ok(Some(event));
                }
                continue;
            }
            self.at = start + length + 1;
            match parsed {
                Line::Lost(cpu, count) => self.lost = Some((cpu, count)),
                Line::Entries(here, written) => {
                    self.announced = here;
                    count(
                        &mut self.counts,
                        "event overwritten before the first one of the text",
                        written.saturating_sub(here),
                    );
                }
                Line::Nothing => {}
                Line::Unknown | Line::Event(..) => {
                    count(&mut self.counts, "line of the text that is no event, left out", 1);
                }
            }
        }
    }

    /// A text that is cut between two lines shows it by its header alone.
    #[cold]
    fn end(&mut self) {
        let missing = std::mem::take(&mut self.announced).saturating_sub(self.seen);
        count(&mut self.counts, "event that the text's header announces and that is not there", missing);
    }

    /// The last line has no end: it may lack half a number.
    #[cold]
    fn cut_short(&mut self, bytes: &[u8], start: usize) -> Result<(), Problem> {
        if self.file.mode == Mode::Strict {
            return Err(Problem::Truncated {
                at: Place::line(self.line, start as u64),
                what: "a line with its end",
                needed: (bytes.len() - start) as u64 + 1,
                available: (bytes.len() - start) as u64,
                lenient: true,
            });
        }
        count(&mut self.counts, "last line left out: cut short", 1);
        Ok(())
    }

    /// The note that events are missing before this one, if that is its place.
    #[cold]
    fn lost_before(&mut self, head: &Head, time_ns: u64) -> Option<TraceEvent> {
        let (cpu, count) = self.lost?;
        if cpu.is_some_and(|cpu| cpu != head.cpu) {
            return None;
        }
        self.lost = None;
        self.time_ns = self.time_ns.max(time_ns);
        Some(TraceEvent {
            time_ns: self.time_ns,
            cpu: CpuId(head.cpu),
            pid: Pid::IDLE,
            context: Context::Task,
            preempt_count: 0,
            what: SchedEvent::Lost { count },
        })
    }

    #[inline]
    fn event(
        &mut self,
        head: &Head,
        time: line::Time,
        name: &[u8],
        payload: &[u8],
        place: Place,
    ) -> Result<Option<TraceEvent>, Problem> {
        if time.digits == 0 {
            return Err(Problem::Unsupported {
                at: place,
                what: "the time",
                value: format!("\"{}\", without a point: the clock counts no seconds", time.ns),
                remedy: "record again with `echo mono > trace_clock`",
            });
        }
        let parsed = if head.cpu > MAX_CPU {
            Err("a CPU number up to 65536")
        } else {
            payload::parse(name, payload, &mut self.comms)
        };
        let what = match parsed {
            Ok(Some(what)) => what,
            Ok(None) => SchedEvent::Other { id: 0 },
            Err(expected) if self.file.mode == Mode::Strict => {
                let shown = String::from_utf8_lossy(&payload[..payload.len().min(200)]).into_owned();
                return Err(invalid(place, "an event", format!("\"{shown}\""), expected));
            }
            Err(expected) => {
                count(&mut self.counts, &format!("event left out: its line lacks {expected}"), 1);
                return Ok(None);
            }
        };
        if time.ns < self.time_ns {
            count(&mut self.counts, BACKWARDS, 1);
        }
        self.time_ns = self.time_ns.max(time.ns);
        let pid = self.pid(head, &what);
        Ok(Some(TraceEvent {
            time_ns: self.time_ns,
            cpu: CpuId(head.cpu),
            pid,
            context: head.context,
            preempt_count: head.preempt_count,
            what,
        }))
    }

    /// Whose context: as the line says, or where that is -1, who the CPU was last given to.
    #[inline]
    fn pid(&mut self, head: &Head, what: &SchedEvent) -> Pid {
        let cpu = head.cpu as usize;
        if self.current.len() <= cpu {
            self.current.resize(cpu + 1, Pid::IDLE);
        }
        let pid = match what {
            SchedEvent::Switch { prev, .. } => prev.pid,
            _ if head.pid.0 < 0 => self.current[cpu],
            _ => head.pid,
        };
        self.current[cpu] = match what {
            SchedEvent::Switch { next, .. } => next.pid,
            _ => pid,
        };
        pid
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
