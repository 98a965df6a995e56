//! Recorded pipes and sockets as channels.
//!
//! A recording has an event when a call that sends or receives returns, and the switches and wakeups in between. A
//! block is a wait at a channel if its waker was inside a call at that very channel, in the other direction:
//!
//! ```text
//! recorded   A: ............ waking B .. write(pipe) returns        B: BLOCK ... runs ... read(pipe) returns
//! workload   A: ....................... SEND 100 pipe               B: RECV 100 pipe (slept)
//! ```
//!
//! A wait in `poll` or `epoll_wait` is taken the same way: for the receipt that follows it before the next block. Other
//! blocks (timers, disks, children, futexes) stay as they are.

use super::costs::{Waits, measure, take_out};
use super::edit::{Edits, apply};
use crate::{
    Event, EventId, EventKind, Object, ObjectId, ObjectKind, ObjectOp, WaitCosts, Wakes, Wakeup, Workload,
};
use schedlab_trace::{ChannelKind, ObjectCall};
use schedlab_units::TaskId;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The pipes and sockets that a recording has shown.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    rows: BTreeMap<u64, u32>,
    list: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    kind: ChannelKind,
    room: u32,
}

impl Channels {
    /// Which object this is.
    pub fn row(&mut self, call: ObjectCall) -> ObjectId {
        let next = self.list.len() as u32;
        let row = *self.rows.entry(call.key).or_insert(next);
        if row == next {
            self.list.push(Seen { kind: call.kind, room: 0 });
        }
        let seen = &mut self.list[row as usize];
        seen.room = seen.room.max(call.room);
        ObjectId(row)
    }
}

/// What one channel's tasks did there in all.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sends: u64,
    sent: u64,
    receives: u64,
    received: u64,
}

impl Traffic {
    fn is_usable(&self) -> bool {
        self.sends > 0 && self.receives > 0
    }
    fn mean(&self) -> u64 {
        self.sent.div_ceil(self.sends.max(1)).max(1)
    }
}

/// Which way, and where.
fn side(op: ObjectOp) -> (ObjectId, bool) {
    (op.object(), matches!(op, ObjectOp::Send { .. }))
}

fn op_of(event: &Event) -> Option<ObjectOp> {
    match event.kind {
        EventKind::Object { op, .. } => Some(op),
        _ => None,
    }
}

/// Turns operations that were derived one by one into channels with waits.
pub(crate) fn put_in(workload: &mut Workload, channels: &Channels) {
    let mut traffic = vec![Traffic::default(); channels.list.len()];
    for op in workload.tasks.iter().flat_map(|task| &task.events).filter_map(op_of) {
        let of = &mut traffic[op.object().0 as usize];
        match op {
            ObjectOp::Send { amount, .. } => {
                (of.sends, of.sent) = (of.sends + 1, of.sent + u64::from(amount))
            }
            ObjectOp::Receive { amount, .. } => {
                (of.receives, of.received) = (of.receives + 1, of.received + u64::from(amount));
            }
            _ => {}
        }
    }
    let places = places(workload);
    let nr_blocks = dependent_blocks(workload);
    let (mut edits, mut waits) = (Vec::new(), Waits::default());
    for task in 0..workload.tasks.len() {
        let mut found = edits_of(workload, task, &traffic, &places, &mut waits);
        found.removed.extend(unusable(&workload.tasks[task].events, &traffic));
        edits.push(found);
    }
    let kind_of = |id: ObjectId| channels.list[id.0 as usize].kind as usize;
    let op_kind = |event: &Event| op_of(event).map(side).map(|(object, sends)| (kind_of(object), sends));
    let costs = measure(workload, &waits, ChannelKind::ALL.len(), op_kind);
    take_out(workload, &waits, |id| costs[kind_of(id)]);
    apply(workload, &edits);
    let rows = add_objects(workload, channels, &traffic, &costs);
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        if let EventKind::Object { op, .. } = &mut event.kind {
            *op = op.mapped(|id| rows[id.0 as usize].unwrap_or(id));
        }
    }
    let nr = |kind: ChannelKind| {
        channels.list.iter().zip(&traffic).filter(|(seen, of)| seen.kind == kind && of.is_usable()).count()
    };
    let kinds: Vec<String> =
        ChannelKind::ALL.into_iter().map(|(_, kind, word)| format!("{} {word}", nr(kind))).collect();
    let sends: u64 = traffic.iter().filter(|of| of.is_usable()).map(|of| of.sends).sum();
    let (nr_channels, kinds) = (workload.objects.len(), kinds.join(", "));
    let nr_waits = waits.slept.len();
    let note = format!(
        "recorded: {nr_channels} channels ({kinds}), {sends} sends; {nr_waits} of {nr_blocks} blocks that a task \
         ended are waits at them"
    );
    workload.notes.insert("messages".to_string(), note);
    let one_sided = traffic.iter().filter(|of| !of.is_usable() && of.sends + of.receives > 0).count();
    workload.count_dropped("pipe or socket with one end outside the workload, left out", one_sided as u64);
}

fn dependent_blocks(workload: &Workload) -> u64 {
    let events = workload.tasks.iter().flat_map(|task| &task.events);
    events.filter(|event| matches!(event.kind, EventKind::Wakeup(Wakeup::Dependent { .. }))).count() as u64
}

/// Row of task and event of all events that wakers do next; only ever asked.
fn places(workload: &Workload) -> HashMap<EventId, (usize, usize)> {
    let mut places = HashMap::new();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event, .. }) = event.kind {
            places.insert(event, (usize::MAX, 0));
        }
    }
    for (task, events) in workload.tasks.iter().map(|task| &task.events).enumerate() {
        for (row, event) in events.iter().enumerate() {
            if let Some(place) = places.get_mut(&event.eid) {
                *place = (task, row);
            }
        }
    }
    places
}

/// Rows of operations at what has no other end.
fn unusable<'a>(events: &'a [Event], traffic: &'a [Traffic]) -> impl Iterator<Item = usize> + 'a {
    let is_out = |event: &Event| op_of(event).is_some_and(|op| !traffic[op.object().0 as usize].is_usable());
    events.iter().enumerate().filter(move |(_, event)| is_out(event)).map(|(row, _)| row)
}

/// Which blocks of a task are waits, and for which operation.
fn edits_of(
    workload: &Workload,
    task: usize,
    traffic: &[Traffic],
    places: &HashMap<EventId, (usize, usize)>,
    waits: &mut Waits,
) -> Edits {
    let events = &workload.tasks[task].events;
    let mut edits = Edits::default();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for (row, pair) in events.windows(2).enumerate() {
        let (EventKind::Block { .. }, EventKind::Wakeup(Wakeup::Dependent { event, task: waker, .. })) =
            (&pair[0].kind, &pair[1].kind)
        else {
            continue;
        };
        let Some(place) = places.get(event) else { continue };
        let Some(by) = waker_is_in(workload, *waker, Some(place)) else { continue };
        if !traffic[by.object().0 as usize].is_usable() {
            continue;
        }
        let (object, sends) = side(by);
        let Some(own) = waits_for(events, row + 2, (object, !sends)) else { continue };
        // several blocks may lie within one call
        let first = taken.insert(own);
        edits.blocks.insert(row, first.then(|| op_of(&events[own])).flatten());
        edits.removed.insert(own);
        waits.slept.insert((task, row), object);
        waits.woke.entry(*place).or_default().push(object);
    }
    edits
}

/// The call that the waker was in: the first that returns after the wakeup.
fn waker_is_in(workload: &Workload, waker: TaskId, place: Option<&(usize, usize)>) -> Option<ObjectOp> {
    let (task, row) = *place.filter(|(task, _)| *task == waker.index())?;
    for event in &workload.tasks[task].events[row..] {
        match event.kind {
            EventKind::Object { op, .. } => return Some(op),
            EventKind::Fork { .. } | EventKind::Exit { .. } => return None,
            _ => {}
        }
    }
    None
}

/// Row of the operation that a block before `from` was for: that of the call that it was in, or one that follows in the
/// same stretch, after a wait for several.
fn waits_for(events: &[Event], from: usize, wanted: (ObjectId, bool)) -> Option<usize> {
    let mut in_call = true;
    for (row, event) in events.iter().enumerate().skip(from) {
        match event.kind {
            EventKind::Object { op, .. } if side(op) == wanted => return Some(row),
            EventKind::Object { .. } => in_call = false,
            EventKind::Block { .. } | EventKind::Yield { .. } if !in_call => return None,
            EventKind::Fork { .. } | EventKind::Exit { .. } | EventKind::Prio { .. } => return None,
            _ => {}
        }
    }
    None
}

/// Bytes of a pipe's page.
const PAGE: u64 = 4096;

/// What a pipe with so many bytes of ring holds of messages of this size, and what one of its pages holds: small
/// messages share a page as far as they fit whole (`pipe_write` in fs/pipe.c).
fn pipe_holds(room: u64, mean: u64) -> (u64, u64) {
    let of_page = if mean < PAGE { PAGE / mean * mean } else { PAGE };
    (room / PAGE * of_page, of_page)
}

/// What a unix socket holds of messages of this size: each is charged with the memory that it takes, its `truesize`
/// (`SKB_TRUESIZE`: sk_buff of 256 bytes, the data with 320 bytes of skb_shared_info in an allocation of a power of
/// two).
fn unix_holds(room: u64, mean: u64) -> u64 {
    let whole = mean.min((room / 2).saturating_sub(64).max(1));
    let charged = 256 + (whole + 320).next_power_of_two();
    (room / charged).max(1) * whole
}

/// The channels that have two ends, in order of appearance; by row of `channels`.
fn add_objects(
    workload: &mut Workload,
    channels: &Channels,
    traffic: &[Traffic],
    costs: &[WaitCosts],
) -> Vec<Option<ObjectId>> {
    let mut unlimited = 0;
    let mut rows = Vec::new();
    for (number, (seen, of)) in channels.list.iter().zip(traffic).enumerate() {
        if !of.is_usable() {
            rows.push(None);
            continue;
        }
        let (room, mean) = (u64::from(seen.room), of.mean());
        let held = match seen.kind {
            ChannelKind::Pipe if room > 0 => {
                let (holds, of_page) = pipe_holds(room, mean);
                Some((holds, holds.saturating_sub(of_page)))
            }
            // a sender that waits is let in at a quarter (`unix_writable` in net/unix/af_unix.c)
            ChannelKind::Unix if room > 0 => Some(unix_holds(room, mean)).map(|holds| (holds, holds / 4)),
            _ => None,
        };
        // what was in it before the recording, as far as it was taken out
        let start = of.received.saturating_sub(of.sent);
        let left = (of.sent + start).saturating_sub(of.received);
        let held = held.filter(|(holds, _)| {
            let fits = left <= *holds && start <= *holds;
            unlimited += u64::from(!fits);
            fits
        });
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let kind = ObjectKind::Channel {
            capacity: held.map(|(holds, _)| small(holds.max(1))),
            start: small(start),
            low: held.map(|(_, low)| small(low)),
        };
        let name = format!("{}-{}", seen.kind.name(), number + 1);
        let object =
            Object { name, kind, wakes: Wakes::Sync, costs: costs[seen.kind as usize], is_closed: false };
        rows.push(Some(workload.add_object(object)));
    }
    workload.count_dropped("pipe or socket of which not all was read, taken as one without limit", unlimited);
    rows
}
