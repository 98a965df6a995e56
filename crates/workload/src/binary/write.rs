//! Writes the binary form, in any order and in pieces: memory does not grow with the events.

use super::crc::crc32;
use super::varint::{put, put_bytes, zigzag};
use super::{
    BINARY_MAGIC, BINARY_VERSION, CHUNK_TARGET, DATA, END, FILE_HEADER, first_of_chain, has, item, object,
    tag,
};
use crate::limits::CHUNK_BYTES_MAX;
use crate::{
    Birth, Cgroup, CgroupId, Event, EventKind, ExternalSource, Handover, InitState, Late, Object, ObjectKind,
    ObjectOp, ParamChange, Recorded, Task, WaitCosts, Wakes, Wakeup, Workload,
};
use schedlab_units::{CpuSet, SchedParams, Span, TaskId};
use std::io::{self, Write};

/// Writes a workload in binary form. Equal workloads give equal bytes.
pub fn write_binary(workload: &Workload, out: impl Write) -> io::Result<()> {
    let mut writer = BinaryWriter::of_version(out, workload.version())?;
    for (key, value) in &workload.notes {
        writer.note(key, value)?;
    }
    for (reason, count) in &workload.dropped {
        writer.dropped(reason, *count)?;
    }
    for cgroup in &workload.cgroups {
        writer.cgroup(cgroup)?;
    }
    for object in &workload.objects {
        writer.object(object)?;
    }
    for (row, task) in workload.tasks.iter().enumerate() {
        writer.task(TaskId(row as u32), task)?;
    }
    for (row, task) in workload.tasks.iter().enumerate() {
        writer.events(TaskId(row as u32), &task.events)?;
    }
    writer.finish().map(drop)
}

/// Writes a workload piece by piece. Without [`finish`](BinaryWriter::finish) the file stays incomplete, and
/// readers say so.
pub struct BinaryWriter<W: Write> {
    out: W,
    payload: Vec<u8>,
    /// Events of one task, not yet in the payload.
    run: Vec<u8>,
    open: Option<OpenRun>,
    nr_chunks: u64,
    nr_tasks: u64,
    nr_events: u64,
    chain: u32,
}

/// Whose events the run holds, how many, and where it stands.
struct OpenRun {
    row: TaskId,
    count: u64,
    eid: u64,
    since_wakeup: u64,
}

impl<W: Write> BinaryWriter<W> {
    /// Begins a file that holds anything. `out` is written in pieces of about 64 KiB; it need not be buffered.
    pub fn new(out: W) -> io::Result<BinaryWriter<W>> {
        BinaryWriter::of_version(out, BINARY_VERSION)
    }

    /// Begins a file for readers of this version: [`Workload::version`] tells which a workload needs.
    pub fn of_version(mut out: W, version: u32) -> io::Result<BinaryWriter<W>> {
        let mut header = [0; FILE_HEADER];
        header[..8].copy_from_slice(&BINARY_MAGIC);
        header[8..12].copy_from_slice(&version.to_le_bytes());
        out.write_all(&header)?;
        let payload = Vec::with_capacity(2 * CHUNK_TARGET);
        Ok(BinaryWriter {
            out,
            payload,
            run: Vec::new(),
            open: None,
            nr_chunks: 0,
            nr_tasks: 0,
            nr_events: 0,
            chain: first_of_chain(version, &header),
        })
    }

    /// Adds a note. A key may come once.
    pub fn note(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.close_run()?;
        self.payload.push(item::NOTE);
        put_bytes(&mut self.payload, key.as_bytes());
        put_bytes(&mut self.payload, value.as_bytes());
        self.flush_if_full()
    }

    /// Adds a count of what an import left out. A reason may come more than once: readers add the counts.
    pub fn dropped(&mut self, reason: &str, count: u64) -> io::Result<()> {
        self.close_run()?;
        self.payload.push(item::DROPPED);
        put_bytes(&mut self.payload, reason.as_bytes());
        put(&mut self.payload, count);
        self.flush_if_full()
    }

    /// Adds a control group; the first is [`CgroupId`] 0.
    pub fn cgroup(&mut self, cgroup: &Cgroup) -> io::Result<()> {
        self.close_run()?;
        let out = &mut self.payload;
        out.push(item::CGROUP);
        put_bytes(out, cgroup.path.as_bytes());
        let bit = |given: bool, bit: u8| if given { bit } else { 0 };
        out.push(
            bit(cgroup.weight.is_some(), has::PARAMS)
                | bit(cgroup.cpuset.is_some(), has::AFFINITY)
                | bit(cgroup.max.is_some(), has::CGROUP),
        );
        cgroup.weight.inspect(|&weight| put(out, u64::from(weight)));
        cgroup.cpuset.as_ref().inspect(|cpuset| put_cpus(out, cpuset));
        if let Some(max) = cgroup.max {
            put(out, max.quota.as_ns());
            put(out, max.period.as_ns());
        }
        self.flush_if_full()
    }

    /// Adds an object; the first is [`ObjectId`](crate::ObjectId) 0.
    pub fn object(&mut self, object: &Object) -> io::Result<()> {
        self.close_run()?;
        self.payload.push(item::OBJECT);
        put_bytes(&mut self.payload, object.name.as_bytes());
        put_object(&mut self.payload, object);
        self.flush_if_full()
    }

    /// Adds a task without its events. Each row once; rows may come in any order, before or after their events.
    pub fn task(&mut self, row: TaskId, task: &Task) -> io::Result<()> {
        self.close_run()?;
        let out = &mut self.payload;
        out.push(item::TASK);
        put(out, u64::from(row.0));
        put(out, u64::from(task.pid));
        put_bytes(out, task.name.as_bytes());
        let (birth, eid, parent) = match task.birth {
            Birth::Init { eid, parent, state: InitState::Runnable } => (0, eid.0, parent),
            Birth::Init { eid, parent, state: InitState::Blocked } => (has::BLOCKED, eid.0, parent),
            Birth::Fork { parent } => (has::FORKED, 0, Some(parent)),
        };
        let mut bits = birth | settings_bits(task.params.as_ref(), task.affinity.as_ref(), task.cgroup);
        bits |= if task.kernel_thread { has::FOURTH } else { 0 };
        bits |= if parent.is_some() { has::FIFTH } else { 0 };
        out.push(bits);
        put(out, eid);
        parent.inspect(|parent| put(out, u64::from(parent.0)));
        put_settings(out, task.params.as_ref(), task.affinity.as_ref(), task.cgroup);
        self.nr_tasks += 1;
        self.flush_if_full()
    }

    /// Appends events to a task's. In which pieces they come makes no difference to the file.
    pub fn events(&mut self, row: TaskId, events: &[Event]) -> io::Result<()> {
        for event in events {
            if self.open.as_ref().is_none_or(|open| open.row != row) {
                self.close_run()?;
                self.open = Some(OpenRun { row, count: 0, eid: 0, since_wakeup: 0 });
            }
            let Some(open) = &mut self.open else { continue };
            put_event(&mut self.run, event, &mut open.eid, &mut open.since_wakeup);
            open.count += 1;
            if self.run.len() >= CHUNK_TARGET {
                self.close_run()?;
            }
        }
        Ok(())
    }

    /// Puts the events gathered into the payload.
    fn close_run(&mut self) -> io::Result<()> {
        let Some(OpenRun { row, count, .. }) = self.open.take() else { return Ok(()) };
        self.payload.push(item::EVENTS);
        put(&mut self.payload, u64::from(row.0));
        put(&mut self.payload, count);
        put_bytes(&mut self.payload, &self.run);
        self.run.clear();
        self.nr_events += count;
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.payload.len() < CHUNK_TARGET {
            return Ok(());
        }
        if self.payload.len() > CHUNK_BYTES_MAX {
            let message =
                format!("one note or name of {} bytes; at most 16 MiB can be stored", self.payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.flush(DATA)
    }

    fn flush(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.payload.len() as u32).to_le_bytes();
        let kind = kind.to_le_bytes();
        let crc = crc32(crc32(crc32(0, &kind), &length), &self.payload).to_le_bytes();
        self.chain = crc32(self.chain, &crc);
        for part in [&kind[..], &length, &crc, &self.payload] {
            self.out.write_all(part)?;
        }
        self.nr_chunks += 1;
        self.payload.clear();
        Ok(())
    }

    /// Completes the file and gives the writer back, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.close_run()?;
        if !self.payload.is_empty() {
            self.flush(DATA)?;
        }
        for number in [self.nr_chunks, self.nr_tasks, self.nr_events] {
            self.payload.extend_from_slice(&number.to_le_bytes());
        }
        self.payload.extend_from_slice(&self.chain.to_le_bytes());
        self.flush(END)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[inline]
fn source_tag(source: ExternalSource) -> u8 {
    let tag = tag::SOURCES.iter().find(|(_, known)| *known == source);
    tag.map_or(tag::TIMER, |(tag, _)| *tag)
}

#[inline]
fn put_event(out: &mut Vec<u8>, event: &Event, last_eid: &mut u64, since_wakeup: &mut u64) {
    let step = event.eid.0.wrapping_sub(last_eid.wrapping_add(1)) as i64;
    *last_eid = event.eid.0;
    let kind = match &event.kind {
        EventKind::Fork { .. } => tag::FORK,
        EventKind::Prio { .. } => tag::PRIO,
        EventKind::Yield { .. } => tag::YIELD,
        EventKind::Exec { .. } => tag::EXEC,
        EventKind::Call { .. } => tag::CALL,
        EventKind::Block { .. } => tag::BLOCK,
        EventKind::Exit { .. } => tag::EXIT,
        EventKind::Object { .. } => tag::OBJECT,
        EventKind::Wakeup(Wakeup::External { source, .. }) => source_tag(*source),
        EventKind::Wakeup(Wakeup::Dependent { .. }) => tag::DEPENDENT,
    };
    if step == 0 {
        out.push(kind);
    } else {
        out.push(kind | tag::EID);
        put(out, zigzag(step));
    }
    match event.kind.length() {
        Some(length) => {
            put(out, length.as_ns().wrapping_sub(*since_wakeup));
            *since_wakeup = length.as_ns();
        }
        None => *since_wakeup = 0,
    }
    match &event.kind {
        EventKind::Fork { child, .. } => put(out, u64::from(child.0)),
        EventKind::Prio { change, .. } => put_change(out, change),
        EventKind::Object { op, recorded, .. } => put_op(out, *op, *recorded),
        EventKind::Wakeup(Wakeup::External { after, .. }) => put(out, after.as_ns()),
        EventKind::Wakeup(Wakeup::Dependent { recorded_after, event, task, distance }) => {
            put(out, recorded_after.as_ns());
            put(out, zigzag(event.0.wrapping_sub(*last_eid) as i64));
            put(out, u64::from(task.0));
            put(out, distance.as_ns());
        }
        _ => {}
    }
}

fn put_object(out: &mut Vec<u8>, it: &Object) {
    let bit = |given: bool, bit: u8| if given { bit } else { 0 };
    let (kind, bits, numbers) = match it.kind {
        ObjectKind::Channel { capacity, start, low } | ObjectKind::Stream { capacity, start, low } => {
            let bits = bit(capacity.is_some(), object::FIRST) | bit(low.is_some(), object::SECOND);
            let is_stream = matches!(it.kind, ObjectKind::Stream { .. });
            let kind = if is_stream { object::STREAM } else { object::CHANNEL };
            (kind, bits, [Some(start), capacity, low])
        }
        ObjectKind::Semaphore { start } => (object::SEMAPHORE, 0, [Some(start), None, None]),
        ObjectKind::Mutex(order) => (object::MUTEX, bit(order == Handover::Fifo, object::FIRST), [None; 3]),
        ObjectKind::Condition => (object::CONDITION, 0, [None; 3]),
        ObjectKind::Barrier { parties } => (object::BARRIER, 0, [Some(parties), None, None]),
        ObjectKind::Timer(late) => (object::TIMER, bit(late == Late::Restart, object::FIRST), [None; 3]),
    };
    let sync = bit(it.wakes == Wakes::Sync, object::SYNC);
    let WaitCosts { sleep, wake, tail } = it.costs;
    let costs = bit(sleep > Span::ZERO || wake > Span::ZERO, object::COSTS);
    let has_tail = bit(tail > Span::ZERO, object::TAIL);
    out.extend([
        kind,
        bits | sync
            | costs
            | has_tail
            | bit(it.is_closed, object::CLOSED)
            | bit(it.is_polled, object::POLLED),
    ]);
    numbers.into_iter().flatten().for_each(|number| put(out, u64::from(number)));
    if costs != 0 {
        put(out, sleep.as_ns());
        put(out, wake.as_ns());
    }
    if has_tail != 0 {
        put(out, tail.as_ns());
    }
}

fn put_op(out: &mut Vec<u8>, op: ObjectOp, recorded: Recorded) {
    let (act, operand) = match op {
        ObjectOp::Send { amount, .. } => (object::SEND, Some(u64::from(amount))),
        ObjectOp::Receive { amount, .. } => (object::RECEIVE, Some(u64::from(amount))),
        ObjectOp::Close { .. } => (object::CLOSE, None),
        ObjectOp::Lock { .. } => (object::LOCK, None),
        ObjectOp::Unlock { .. } => (object::UNLOCK, None),
        ObjectOp::Wait { mutex, .. } => (object::WAIT, Some(u64::from(mutex.0))),
        ObjectOp::Signal { .. } => (object::SIGNAL, None),
        ObjectOp::Broadcast { .. } => (object::BROADCAST, None),
        ObjectOp::Arrive { .. } => (object::ARRIVE, None),
        ObjectOp::Tick { period, .. } => (object::TICK, Some(period.as_ns())),
    };
    let recorded = match recorded {
        Recorded::Nothing => 0,
        Recorded::Slept => object::SLEPT,
        Recorded::Awake => object::AWAKE,
    };
    out.push(act | recorded);
    put(out, u64::from(op.object().0));
    operand.inspect(|operand| put(out, *operand));
}

fn put_change(out: &mut Vec<u8>, change: &ParamChange) {
    let mut bits = settings_bits(change.params.as_ref(), change.affinity.as_ref(), change.cgroup);
    bits |= if change.nice.is_some() { has::FOURTH } else { 0 };
    bits |= if change.target.is_some() { has::FIFTH } else { 0 };
    out.push(bits);
    change.nice.inspect(|nice| out.push(nice.get() as u8));
    change.target.inspect(|target| put(out, u64::from(target.0)));
    put_settings(out, change.params.as_ref(), change.affinity.as_ref(), change.cgroup);
}

fn settings_bits(params: Option<&SchedParams>, affinity: Option<&CpuSet>, cgroup: Option<CgroupId>) -> u8 {
    let bit = |given: bool, bit: u8| if given { bit } else { 0 };
    bit(params.is_some(), has::PARAMS)
        | bit(affinity.is_some(), has::AFFINITY)
        | bit(cgroup.is_some(), has::CGROUP)
}

fn put_settings(
    out: &mut Vec<u8>,
    params: Option<&SchedParams>,
    affinity: Option<&CpuSet>,
    cgroup: Option<CgroupId>,
) {
    if let Some(params) = params {
        // the top bit of the policy says that deadline parameters follow
        let deadline_follows = if params.deadline.is_some() { 0x80 } else { 0 };
        out.push(params.policy.number() | deadline_follows);
        out.push(params.nice.get() as u8);
        out.push(params.rt_priority);
        if let Some(deadline) = params.deadline {
            for span in [deadline.runtime, deadline.deadline, deadline.period] {
                put(out, span.as_ns());
            }
        }
    }
    affinity.inspect(|cpus| put_cpus(out, cpus));
    cgroup.inspect(|cgroup| put(out, u64::from(cgroup.0)));
}

fn put_cpus(out: &mut Vec<u8>, cpus: &CpuSet) {
    put(out, cpus.words().len() as u64);
    cpus.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}
