//! Reads the binary form, chunk by chunk from any reader.

use super::crc::crc32;
use super::varint::{Cursor, unzigzag};
use super::{
    BINARY_MAGIC, BINARY_VERSION, CHUNK_HEADER, DATA, END, FILE_HEADER, first_of_chain, has, item, object,
    tag,
};
use crate::limits::{Account, CHUNK_BYTES_MAX, Exceeded, Limits};
use crate::{
    Birth, Cgroup, CgroupId, CpuMax, Event, EventId, EventKind, ExternalSource, Handover, InitState, Late,
    Object, ObjectId, ObjectKind, ObjectOp, ParamChange, Recorded, Task, WaitCosts, Wakes, Wakeup, Workload,
};
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span, TaskId};
use std::collections::BTreeMap;
use std::io::{self, Read};

/// CPU numbers end here (as `CpuSet`'s do).
const CPU_WORDS_MAX: u64 = (1 << 16) / 64;

/// A binary workload that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct BinaryError {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What is wrong there, and what to do.
    pub problem: BinaryProblem,
}

/// What is wrong with a binary workload.
#[derive(Debug, thiserror::Error)]
pub enum BinaryProblem {
    /// Reading failed.
    #[error("cannot read: {0}")]
    Io(io::Error),
    /// Another kind of file.
    #[error("not a binary workload (it does not begin with \\x89SLWLOAD)")]
    Magic,
    /// A newer version.
    #[error(
        "version {0} of the binary form; this program reads versions 1 to {BINARY_VERSION}: use a newer schedlab, or \
            convert the file to text"
    )]
    Version(u32),
    /// The file ends too early.
    #[error(
        "the file ends here, in the middle of {0}; it was cut or is still being written: make or copy it again"
    )]
    Truncated(&'static str),
    /// Bytes changed.
    #[error(
        "checksum {found:08x}, expected {stated:08x}: the chunk that begins here is damaged; make or copy the file \
            again"
    )]
    Checksum {
        /// Of the bytes as they are.
        found: u32,
        /// As it stands in the file.
        stated: u32,
    },
    /// Whole chunks are missing, doubled or in another order.
    #[error(
        "the end states other {what} than the file holds ({stated}, not {found}); make or copy the file again"
    )]
    Totals {
        /// What was counted.
        what: &'static str,
        /// As stated.
        stated: u64,
        /// As found.
        found: u64,
    },
    /// Bytes that mean nothing although their checksum is right.
    #[error("{0}; the file was written by something else than schedlab")]
    Content(&'static str),
    /// More than the reader accepts.
    #[error("{0}: {remedy}", remedy = .0.remedy())]
    Limit(Exceeded),
    /// Bytes after the end.
    #[error("bytes follow after the end of the workload; is this two files in one?")]
    Trailing,
}

/// A piece of a workload, in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Key and value.
    Note(String, String),
    /// Reason and count; counts of one reason add up.
    Dropped(String, u64),
    /// The next control group.
    Cgroup(Cgroup),
    /// The next object.
    Object(Object),
    /// A task's row and all but its events.
    Task(TaskId, Task),
    /// More events of a task.
    Events(TaskId, Vec<Event>),
}

/// Reads a workload piece by piece; memory does not grow with the file.
pub struct BinaryReader<R: Read> {
    input: R,
    /// Offset of the next byte to be read from `input`.
    offset: u64,
    payload: Vec<u8>,
    /// Offset of the payload, and how much of it is consumed.
    payload_at: u64,
    consumed: usize,
    nr_chunks: u64,
    nr_tasks: u64,
    nr_events: u64,
    chain: u32,
    account: Account,
    ended: bool,
}

/// Reads a whole workload, up to [`Limits::HELD`]. It is not checked ([`Workload::check`]).
pub fn read_binary(input: impl Read) -> Result<Workload, BinaryError> {
    read_binary_within(input, Limits::HELD)
}

/// As [`read_binary`], with limits of the caller's.
pub fn read_binary_within(input: impl Read, limits: Limits) -> Result<Workload, BinaryError> {
    let mut reader = BinaryReader::new(input)?.within(limits);
    let mut workload = Workload::default();
    let mut rows: BTreeMap<u32, (Option<Task>, Vec<Event>)> = BTreeMap::new();
    while let Some(part) = reader.next_part()? {
        let twice = match part {
            Part::Note(key, value) => workload.notes.insert(key, value).map(|_| "a note occurs twice"),
            Part::Dropped(reason, count) => {
                let total = workload.dropped.entry(reason).or_default();
                *total = total.saturating_add(count);
                None
            }
            Part::Cgroup(cgroup) => {
                workload.cgroups.push(cgroup);
                None
            }
            Part::Object(object) => {
                workload.objects.push(object);
                None
            }
            Part::Task(row, task) => {
                rows.entry(row.0).or_default().0.replace(task).map(|_| "a task occurs twice")
            }
            Part::Events(row, mut events) => {
                let all = &mut rows.entry(row.0).or_default().1;
                if all.is_empty() {
                    *all = events
                } else {
                    all.append(&mut events)
                }
                None
            }
        };
        if let Some(problem) = twice {
            return Err(reader.content(problem));
        }
    }
    for (expected, (row, (task, events))) in (0u32..).zip(rows) {
        let Some(task) = task.filter(|_| row == expected) else {
            return Err(reader.content("events belong to a task that is not there"));
        };
        workload.tasks.push(Task { events, ..task });
    }
    Ok(workload)
}

impl<R: Read> BinaryReader<R> {
    /// Begins to read: checks magic and version. `input` is read in pieces, up to [`Limits::STREAMED`]; wrap
    /// a file in a `BufReader`.
    pub fn new(input: R) -> Result<BinaryReader<R>, BinaryError> {
        let mut reader = BinaryReader {
            input,
            offset: 0,
            payload: Vec::new(),
            payload_at: 0,
            consumed: 0,
            nr_chunks: 0,
            nr_tasks: 0,
            nr_events: 0,
            chain: 0,
            account: Account::new(Limits::STREAMED),
            ended: false,
        };
        let mut header = [0; FILE_HEADER];
        let got = reader.fill(&mut header)?;
        if header[..8.min(got)] != BINARY_MAGIC[..8.min(got)] || got == 0 {
            return Err(BinaryError { offset: 0, problem: BinaryProblem::Magic });
        }
        if got < FILE_HEADER {
            return Err(reader.truncated("the header"));
        }
        match le32(&header[8..]) {
            version @ 1..=BINARY_VERSION if le32(&header[12..]) == 0 => {
                reader.chain = first_of_chain(version, &header);
                Ok(reader)
            }
            1..=BINARY_VERSION => {
                Err(BinaryError { offset: 12, problem: BinaryProblem::Content("a reserved field is not 0") })
            }
            version => Err(BinaryError { offset: 8, problem: BinaryProblem::Version(version) }),
        }
    }

    /// With limits of the caller's.
    pub fn within(self, limits: Limits) -> BinaryReader<R> {
        BinaryReader { account: Account::new(limits), ..self }
    }

    /// The next piece; none after the last.
    pub fn next_part(&mut self) -> Result<Option<Part>, BinaryError> {
        while self.consumed == self.payload.len() {
            if self.ended || !self.next_chunk()? {
                return Ok(None);
            }
        }
        let mut cursor = Cursor { bytes: &self.payload, at: self.consumed };
        let part = part(&mut cursor);
        self.consumed = cursor.at;
        match part {
            Ok(part) => match self.room(&part) {
                Ok(()) => Ok(Some(part)),
                Err(error) => Err(self.problem(BinaryProblem::Limit(error))),
            },
            Err(problem) => Err(self.content(problem)),
        }
    }

    /// Takes a piece into account. Rows count as tasks, even if they have none: who keeps something per row
    /// has room for those only.
    fn room(&mut self, part: &Part) -> Result<(), Exceeded> {
        match part {
            Part::Task(row, task) => {
                self.nr_tasks += 1;
                self.account.check_tasks(u64::from(row.0) + 1)?;
                self.account.add_events(u64::from(task.birth_eid().is_some()))?;
                self.account.add_task(task)
            }
            Part::Events(row, events) => {
                self.nr_events += events.len() as u64;
                self.account.check_tasks(u64::from(row.0) + 1)?;
                self.account.add_events(events.len() as u64)?;
                if self.account.limits().keeps_events {
                    events.iter().try_for_each(|event| self.account.add_event_bytes(&event.kind))?;
                }
                Ok(())
            }
            Part::Object(object) => {
                self.account.add_bytes(size_of::<Object>() as u64 + object.name.len() as u64)
            }
            _ => Ok(()),
        }
    }

    /// Reads a chunk into `payload`; false at the end of the workload.
    fn next_chunk(&mut self) -> Result<bool, BinaryError> {
        let start = self.offset;
        let mut header = [0; CHUNK_HEADER];
        if self.fill(&mut header)? < CHUNK_HEADER {
            return Err(self.truncated("a chunk's header"));
        }
        let (kind, length, stated) = (le32(&header), le32(&header[4..]) as usize, le32(&header[8..]));
        let fail = |problem| BinaryError { offset: start, problem };
        if (kind != DATA && kind != END) || length > CHUNK_BYTES_MAX {
            return Err(fail(BinaryProblem::Content("no chunk begins here, or the file is damaged")));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(length, 0);
        self.payload_at = self.offset;
        self.consumed = 0;
        let got = self.fill(&mut payload)?;
        if got < length {
            return Err(self.truncated("a chunk"));
        }
        self.payload = payload;
        let found = crc32(crc32(0, &header[..8]), &self.payload);
        if found != stated {
            return Err(fail(BinaryProblem::Checksum { found, stated }));
        }
        if kind == END {
            self.end(start)?;
            return Ok(false);
        }
        self.chain = crc32(self.chain, &header[8..]);
        self.nr_chunks += 1;
        Ok(true)
    }

    fn end(&mut self, start: u64) -> Result<(), BinaryError> {
        self.ended = true;
        let payload = std::mem::take(&mut self.payload);
        self.consumed = 0;
        let fail = |problem| Err(BinaryError { offset: start, problem });
        if payload.len() != 28 {
            return fail(BinaryProblem::Content("the end chunk has another length than 28"));
        }
        let stated = |at: usize| payload[at..at + 8].iter().rev().fold(0, |sum, &b| sum << 8 | u64::from(b));
        for (what, stated, found) in [
            ("chunks", stated(0), self.nr_chunks),
            ("tasks", stated(8), self.nr_tasks),
            ("events", stated(16), self.nr_events),
            ("checksums", u64::from(le32(&payload[24..])), u64::from(self.chain)),
        ] {
            if stated != found {
                return fail(BinaryProblem::Totals { what, stated, found });
            }
        }
        match self.fill(&mut [0])? {
            0 => Ok(()),
            _ => Err(BinaryError { offset: self.offset - 1, problem: BinaryProblem::Trailing }),
        }
    }

    /// Reads until the buffer is full or the input ends; how much.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, BinaryError> {
        let mut got = 0;
        while got < buffer.len() {
            match self.input.read(&mut buffer[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let offset = self.offset + got as u64;
                    return Err(BinaryError { offset, problem: BinaryProblem::Io(error) });
                }
            }
        }
        self.offset += got as u64;
        Ok(got)
    }

    fn truncated(&self, what: &'static str) -> BinaryError {
        BinaryError { offset: self.offset, problem: BinaryProblem::Truncated(what) }
    }

    fn content(&self, problem: &'static str) -> BinaryError {
        self.problem(BinaryProblem::Content(problem))
    }

    /// A problem of the item before this place.
    fn problem(&self, problem: BinaryProblem) -> BinaryError {
        BinaryError { offset: self.payload_at + self.consumed as u64, problem }
    }
}

fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

type Decoded<T> = Result<T, &'static str>;

fn part(c: &mut Cursor<'_>) -> Decoded<Part> {
    match c.byte().ok_or("an item is missing")? {
        item::NOTE => {
            let note = c.text().zip(c.text()).ok_or("a note is cut short or not UTF-8")?;
            Ok(Part::Note(note.0, note.1))
        }
        item::DROPPED => {
            let (reason, count) = c.text().zip(c.number()).ok_or("a count is cut short or not UTF-8")?;
            Ok(Part::Dropped(reason, count))
        }
        item::CGROUP => cgroup(c).ok_or("a control group is cut short or out of range").map(Part::Cgroup),
        item::OBJECT => object_item(c).ok_or("an object is cut short or out of range").map(Part::Object),
        item::TASK => {
            let (row, task) = task(c).ok_or("a task is cut short or out of range")?;
            Ok(Part::Task(row, task))
        }
        item::EVENTS => {
            let row = c.number32().map(TaskId).filter(|row| row.is_workload()).ok_or("no such task")?;
            let count = c.number().ok_or("a run of events is cut short")?;
            let bytes = c.slice().ok_or("a run of events is cut short")?;
            // an event takes two bytes at least
            if count == 0 || count > bytes.len() as u64 / 2 {
                return Err("a run states more events than it can hold, or none");
            }
            let mut events = Vec::with_capacity(count as usize);
            let mut run = Cursor { bytes, at: 0 };
            let (mut eid, mut since_wakeup) = (0, 0);
            for _ in 0..count {
                let event = event(&mut run, &mut eid, &mut since_wakeup);
                events.push(event.ok_or("an event is cut short or out of range")?);
            }
            if !run.is_at_end() {
                return Err("a run states fewer events than it holds");
            }
            Ok(Part::Events(row, events))
        }
        _ => Err("an item of unknown kind"),
    }
}

#[inline]
fn event(c: &mut Cursor<'_>, last_eid: &mut u64, since_wakeup: &mut u64) -> Option<Event> {
    let tag = c.byte()?;
    let mut eid = last_eid.wrapping_add(1);
    if tag & tag::EID != 0 {
        let step = unzigzag(c.number()?);
        eid = eid.wrapping_add(step as u64);
        if step == 0 {
            return None; // one way to write each event
        }
    }
    *last_eid = eid;
    let first = c.number()?;
    let kind = tag & !tag::EID;
    let length = if is_wakeup(kind) {
        *since_wakeup = 0;
        Span::from_ns(first)
    } else {
        *since_wakeup = since_wakeup.wrapping_add(first);
        Span::from_ns(*since_wakeup)
    };
    let kind = match kind {
        tag::FORK => EventKind::Fork { length, child: task_id(c)? },
        tag::PRIO => EventKind::Prio { length, change: Box::new(change(c)?) },
        tag::YIELD => EventKind::Yield { length },
        tag::EXEC => EventKind::Exec { length },
        tag::CALL => EventKind::Call { length },
        tag::BLOCK => EventKind::Block { length },
        tag::EXIT => EventKind::Exit { length },
        tag::OBJECT => {
            let (op, recorded) = op(c)?;
            EventKind::Object { length, op, recorded }
        }
        tag::DEPENDENT => {
            let event = EventId(eid.wrapping_add(unzigzag(c.number()?) as u64));
            let task = task_id(c)?;
            let distance = Span::from_ns(c.number()?);
            EventKind::Wakeup(Wakeup::Dependent { recorded_after: length, event, task, distance })
        }
        external => {
            let source = source_of(external)?;
            EventKind::Wakeup(Wakeup::External { after: length, source })
        }
    };
    Some(Event { eid: EventId(eid), kind })
}

/// Wakeups are timed in elapsed time, the others in CPU time.
#[inline]
fn is_wakeup(kind: u8) -> bool {
    kind == tag::DEPENDENT || source_of(kind).is_some()
}

#[inline]
fn source_of(kind: u8) -> Option<ExternalSource> {
    tag::SOURCES.iter().find(|(tag, _)| *tag == kind).map(|(_, source)| *source)
}

fn task_id(c: &mut Cursor<'_>) -> Option<TaskId> {
    c.number32().map(TaskId).filter(|id| id.is_workload())
}

fn cgroup(c: &mut Cursor<'_>) -> Option<Cgroup> {
    let path = c.text()?;
    let bits = c.byte()?;
    let mut cgroup = Cgroup { path, ..Cgroup::default() };
    if bits & has::PARAMS != 0 {
        cgroup.weight = Some(c.number32()?);
    }
    if bits & has::AFFINITY != 0 {
        cgroup.cpuset = Some(cpus(c)?);
    }
    if bits & has::CGROUP != 0 {
        cgroup.max = Some(CpuMax { quota: span(c)?, period: span(c)? });
    }
    (bits & !(has::PARAMS | has::AFFINITY | has::CGROUP) == 0).then_some(cgroup)
}

fn object_item(c: &mut Cursor<'_>) -> Option<Object> {
    let name = c.text()?;
    let (kind, bits) = (c.byte()?, c.byte()?);
    let (first, second) = (bits & object::FIRST != 0, bits & object::SECOND != 0);
    let kind = match kind {
        object::CHANNEL | object::STREAM => {
            let is_stream = kind == object::STREAM;
            let start = c.number32()?;
            let capacity = if first { Some(c.number32()?) } else { None };
            let low = if second { Some(c.number32()?) } else { None };
            match is_stream {
                true => ObjectKind::Stream { capacity, start, low },
                false => ObjectKind::Channel { capacity, start, low },
            }
        }
        object::SEMAPHORE if !first && !second => ObjectKind::Semaphore { start: c.number32()? },
        object::MUTEX if !second => {
            ObjectKind::Mutex(if first { Handover::Fifo } else { Handover::Competing })
        }
        object::CONDITION if !first && !second => ObjectKind::Condition,
        object::BARRIER if !first && !second => ObjectKind::Barrier { parties: c.number32()? },
        object::TIMER if !second => ObjectKind::Timer(if first { Late::Restart } else { Late::Grid }),
        _ => return None,
    };
    let wakes = if bits & object::SYNC != 0 { Wakes::Sync } else { Wakes::Plain };
    let (sleep, wake) = match bits & object::COSTS {
        0 => (Span::ZERO, Span::ZERO),
        _ => (span(c)?, span(c)?),
    };
    let tail = if bits & object::TAIL != 0 { span(c)? } else { Span::ZERO };
    let costs = WaitCosts { sleep, wake, tail };
    let (is_closed, is_polled) = (bits & object::CLOSED != 0, bits & object::POLLED != 0);
    (bits >> 7 == 0).then_some(Object { name, kind, wakes, costs, is_closed, is_polled })
}

fn op(c: &mut Cursor<'_>) -> Option<(ObjectOp, Recorded)> {
    let bits = c.byte()?;
    let recorded = match bits & !15 {
        0 => Recorded::Nothing,
        object::SLEPT => Recorded::Slept,
        object::AWAKE => Recorded::Awake,
        _ => return None,
    };
    let object = ObjectId(c.number32()?);
    let op = match bits & 15 {
        object::SEND => ObjectOp::Send { object, amount: c.number32()? },
        object::RECEIVE => ObjectOp::Receive { object, amount: c.number32()? },
        object::CLOSE => ObjectOp::Close { object },
        object::LOCK => ObjectOp::Lock { object },
        object::UNLOCK => ObjectOp::Unlock { object },
        object::WAIT => ObjectOp::Wait { object, mutex: ObjectId(c.number32()?) },
        object::SIGNAL => ObjectOp::Signal { object },
        object::BROADCAST => ObjectOp::Broadcast { object },
        object::ARRIVE => ObjectOp::Arrive { object },
        object::TICK => ObjectOp::Tick { object, period: span(c)? },
        _ => return None,
    };
    Some((op, recorded))
}

fn task(c: &mut Cursor<'_>) -> Option<(TaskId, Task)> {
    let row = task_id(c)?;
    let pid = c.number32()?;
    let name = c.text()?;
    let bits = c.byte()?;
    let eid = EventId(c.number()?);
    let parent = if bits & has::FIFTH != 0 { Some(task_id(c)?) } else { None };
    let blocked = bits & has::BLOCKED != 0;
    let state = if blocked { InitState::Blocked } else { InitState::Runnable };
    let birth = match (bits & has::FORKED != 0, parent) {
        (false, parent) => Birth::Init { eid, parent, state },
        (true, Some(parent)) if eid.0 == 0 && !blocked => Birth::Fork { parent },
        _ => return None,
    };
    let (params, affinity, cgroup) = settings(c, bits)?;
    let kernel_thread = bits & has::FOURTH != 0;
    let task = Task { pid, name, birth, params, affinity, cgroup, kernel_thread, events: Vec::new() };
    (bits & 0x80 == 0).then_some((row, task))
}

fn change(c: &mut Cursor<'_>) -> Option<ParamChange> {
    let bits = c.byte()?;
    let nice = if bits & has::FOURTH != 0 { Some(nice(c)?) } else { None };
    let target = if bits & has::FIFTH != 0 { Some(task_id(c)?) } else { None };
    let (params, affinity, cgroup) = settings(c, bits)?;
    (bits >> 5 == 0).then_some(ParamChange { target, params, nice, affinity, cgroup })
}

type Settings = (Option<SchedParams>, Option<CpuSet>, Option<CgroupId>);

fn settings(c: &mut Cursor<'_>, bits: u8) -> Option<Settings> {
    let params = if bits & has::PARAMS != 0 {
        let number = c.byte()?;
        let policy = SchedPolicy::from_number(u32::from(number & 0x7f))?;
        let nice = nice(c)?;
        let rt_priority = c.byte()?;
        let deadline = if number & 0x80 != 0 {
            Some(DeadlineParams { runtime: span(c)?, deadline: span(c)?, period: span(c)? })
        } else {
            None
        };
        Some(SchedParams { policy, nice, rt_priority, deadline })
    } else {
        None
    };
    let affinity = if bits & has::AFFINITY != 0 { Some(cpus(c)?) } else { None };
    let cgroup = if bits & has::CGROUP != 0 { Some(CgroupId(c.number32()?)) } else { None };
    Some((params, affinity, cgroup))
}

fn nice(c: &mut Cursor<'_>) -> Option<Nice> {
    Nice::new(i32::from(c.byte()? as i8)).ok()
}

fn span(c: &mut Cursor<'_>) -> Option<Span> {
    c.number().map(Span::from_ns)
}

fn cpus(c: &mut Cursor<'_>) -> Option<CpuSet> {
    let words = c.number().filter(|&words| words <= CPU_WORDS_MAX)?;
    let mut cpus = CpuSet::empty();
    for word in 0..words as u32 {
        for byte in 0..8 {
            let bits = c.byte()?;
            let base = word * 64 + byte * 8;
            (0..8).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| cpus.insert(CpuId(base + bit)));
        }
    }
    (cpus.words().len() as u64 == words).then_some(cpus)
}
