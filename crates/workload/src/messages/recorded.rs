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
//! A wait in `poll` or `epoll_wait` is taken the same way: for the receipt that follows it before the next block. Waits
//! at futexes and locks stand in `locks.rs`. Other blocks (timers, disks) stay as they are.

use super::costs::{Measured, OpKind, Waits, Woken, measure, take_out};
use super::edit::{Edits, apply};
use super::held::let_go;
use super::locks::{BlockOf, Locks, Settled, SyncKind, owner_of, settle};
use super::readers::Parted;
use super::rooms::{self, Holds, RoomWait};
use crate::{
    Event, EventId, EventKind, Handover, Object, ObjectId, ObjectKind, ObjectOp, Recorded, WaitCosts, Wakes,
    Wakeup, Workload,
};
use schedlab_trace::{Carried, ChannelKind, Direction, ObjectCall, SyncCall};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a recording has shown: pipes and sockets, futexes and locks, and the children that tasks wait for.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    rows: BTreeMap<u64, u32>,
    children: BTreeMap<usize, u32>,
    pub(super) list: Vec<Seen>,
    /// Tasks that wait for several files at once.
    pub(super) pollers: BTreeSet<usize>,
    /// Wakeups by a task onto another CPU that was idle.
    kicks: BTreeSet<EventId>,
    /// Wakeups by a task that had to give its CPU to whom it woke, and how long after.
    preempted: BTreeMap<EventId, Span>,
    /// Connections that come without their caller, and whose they are.
    begun: BTreeMap<u64, usize>,
    /// What makes or takes a connection.
    connections: BTreeSet<EventId>,
    pub(super) locks: Locks,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub kind: SeenKind,
    /// Of a barrier: how many it is for.
    pub room: u32,
    /// Of a mutex.
    pub inherits_priority: bool,
    pub is_recursive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SeenKind {
    Channel(ChannelKind),
    /// The ended children of a task.
    Children,
    /// The end of a thread that another one joins.
    ThreadEnd,
    Sync(SyncKind),
}

impl SeenKind {
    /// Kinds of [`SeenKind::index`].
    const NR: usize = ChannelKind::ALL.len() + 2 + SyncKind::NR;

    fn index(self) -> usize {
        match self {
            SeenKind::Channel(kind) => kind as usize,
            SeenKind::Children => ChannelKind::ALL.len(),
            SeenKind::ThreadEnd => ChannelKind::ALL.len() + 1,
            SeenKind::Sync(kind) => ChannelKind::ALL.len() + 2 + kind as usize,
        }
    }
    fn name(self) -> &'static str {
        match self {
            SeenKind::Channel(kind) => kind.name(),
            SeenKind::Children => "children",
            SeenKind::ThreadEnd => "thread-end",
            SeenKind::Sync(kind) => kind.name(),
        }
    }
    pub(super) fn is_channel(self) -> bool {
        matches!(self, SeenKind::Channel(_))
    }
    /// As the kernel wakes there: pipes and sockets, and who waits for a child, synchronously.
    fn wakes(self) -> Wakes {
        match self {
            SeenKind::Channel(ChannelKind::Eventfd | ChannelKind::Queue)
            | SeenKind::ThreadEnd
            | SeenKind::Sync(_) => Wakes::Plain,
            SeenKind::Channel(_) | SeenKind::Children => Wakes::Sync,
        }
    }
}

impl Channels {
    /// The row of this key, a new one of this kind if there is none.
    pub(super) fn row_of(&mut self, key: u64, kind: SeenKind) -> u32 {
        let next = self.list.len() as u32;
        let row = *self.rows.entry(key).or_insert(next);
        if row == next {
            self.add(kind);
        }
        row
    }

    /// The row of a key that there is already.
    pub(super) fn known(&self, key: u64) -> Option<u32> {
        self.rows.get(&key).copied()
    }

    fn add(&mut self, kind: SeenKind) {
        self.list.push(Seen { kind, room: 0, inherits_priority: false, is_recursive: false });
    }

    /// A semaphore more that is part of this condition.
    pub(super) fn part_of_condition(&mut self, condition: u32) -> u32 {
        let row = self.part(SeenKind::Sync(SyncKind::Semaphore));
        self.locks.is_part_of(row, condition);
        row
    }

    /// A row more that no key has.
    pub(super) fn part(&mut self, kind: SeenKind) -> u32 {
        let row = self.list.len() as u32;
        self.add(kind);
        row
    }

    /// Whether who was woken by this wakeup took its waker's CPU.
    pub(super) fn took_its_cpu(&self, wakeup: EventId) -> bool {
        self.preempted.contains_key(&wakeup)
    }

    /// What a task does by this call; `None`: nothing that a replay could do. Who did not wait for a connection may ask
    /// again whether it stands; that is no second one.
    pub fn op(&mut self, task: usize, call: ObjectCall) -> Option<ObjectOp> {
        self.locks.keeps_what_it_tried(task);
        let asks_again = match (call.what, call.direction) {
            (Carried::ConnectionBegun, _) => {
                self.begun.insert(call.key, task);
                false
            }
            (Carried::Connection, Direction::Send) => self.begun.remove(&call.key) == Some(task),
            _ => false,
        };
        if asks_again || call.amount == 0 {
            return None;
        }
        let row = self.row_of(call.key, SeenKind::Channel(call.kind));
        let seen = &mut self.list[row as usize];
        seen.room = seen.room.max(call.room);
        let (object, amount) = (ObjectId(row), call.amount);
        Some(match call.direction {
            Direction::Send => ObjectOp::Send { object, amount },
            Direction::Receive => ObjectOp::Receive { object, amount },
        })
    }

    /// This event makes or takes a connection.
    pub fn connected(&mut self, event: EventId) {
        self.connections.insert(event);
    }

    /// What the children of a task end at.
    pub fn children_of(&mut self, task: usize) -> ObjectId {
        let next = self.list.len() as u32;
        let row = *self.children.entry(task).or_insert(next);
        if row == next {
            self.add(SeenKind::Children);
        }
        ObjectId(row)
    }

    /// What a task does at a futex or lock; `None`: nothing that a replay could do.
    pub fn sync(&mut self, task: usize, call: SyncCall) -> Option<ObjectOp> {
        super::locks::op_of_call(self, task, call)
    }

    /// A mutex was locked by this event, from this place in the program; 0: it is not known.
    pub fn locked_from(&mut self, event: EventId, place: u64) {
        if place != 0 {
            self.locks.from.insert(event, place);
        }
    }

    /// A task has been born; others may wait for its end.
    pub fn born(&mut self, tid: i32, task: usize, parent: usize) {
        self.locks.born(tid, task, parent);
    }

    /// Where a task tells of its end to who joins it.
    pub fn end_of(&mut self, task: usize) -> ObjectId {
        if let Some(row) = self.locks.ends.get(&task) {
            return ObjectId(*row);
        }
        let row = self.list.len() as u32;
        self.add(SeenKind::ThreadEnd);
        self.locks.ends.insert(task, row);
        ObjectId(row)
    }

    /// A task does something else than what is done within a function of the C library's locks.
    pub fn leaves_lock(&mut self, task: usize) {
        self.locks.leaves(task);
    }

    /// A task waits for several files at once.
    pub fn polls(&mut self, task: usize) {
        self.pollers.insert(task);
    }

    /// The last wakeup among these events was one onto another, idle CPU.
    pub fn kicked(&mut self, events: &[Event]) {
        let last = events.iter().rev().find(|event| matches!(event.kind, EventKind::Wakeup(_)));
        self.kicks.extend(last.map(|event| event.eid));
    }

    /// The last wakeup among these events has taken its waker's CPU, so long after.
    pub fn preempted(&mut self, events: &[Event], after: Span) {
        let last = events.iter().rev().find(|event| matches!(event.kind, EventKind::Wakeup(_)));
        self.preempted.extend(last.map(|event| (event.eid, after)));
    }

    /// The tasks that stay in the workload, by their rows there.
    pub fn renumber(&mut self, rows: &[Option<TaskId>]) {
        let kept = self.pollers.iter().filter_map(|task| rows[*task].map(TaskId::index));
        self.pollers = kept.collect();
    }
}

/// What one channel's tasks did there in all.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sends: u64,
    sent: u64,
    receives: u64,
    received: u64,
    /// What was in it before the recording, as far as it was taken out.
    at_start: u64,
}

impl Traffic {
    /// Whether both ends are there. Of children, each must have been waited for: a thread tells nobody of its end.
    fn is_usable(&self, kind: SeenKind) -> bool {
        let is_counted = matches!(kind, SeenKind::Children | SeenKind::ThreadEnd);
        self.sends > 0 && self.receives > 0 && (!is_counted || self.sends == self.receives)
    }
    fn mean(&self) -> u64 {
        self.sent.div_ceil(self.sends.max(1)).max(1)
    }
}

/// Which way, and where: whether others may go on by it.
pub(super) fn side(op: ObjectOp) -> (ObjectId, bool) {
    let gives = matches!(op, ObjectOp::Send { .. } | ObjectOp::Unlock { .. } | ObjectOp::Signal { .. });
    (op.object(), gives || matches!(op, ObjectOp::Broadcast { .. }))
}

pub(super) fn op_of(event: &Event) -> Option<ObjectOp> {
    match event.kind {
        EventKind::Object { op, .. } => Some(op),
        _ => None,
    }
}

/// What [`put_in`] has found beside objects.
pub(crate) struct PutIn {
    /// What it costs to interrupt an idle CPU.
    pub kick: Span,
    pub at_futexes: AtFutexes,
}

/// Recorded waits at futexes where one task alone waits, by what was their BLOCK.
pub(crate) type AtFutexes = BTreeMap<EventId, AtFutex>;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtFutex {
    /// Its WAKEUP, which may be gone.
    pub wakeup: EventId,
    pub waker: TaskId,
    /// A number of the futex.
    pub futex: u32,
    /// The object that it is, if it is one.
    pub object: Option<ObjectId>,
}

/// Turns operations that were derived one by one into channels with waits.
pub(crate) fn put_in(workload: &mut Workload, channels: &mut Channels) -> PutIn {
    let nr_unfinished = super::unfinished::finish(workload, channels);
    let parted = super::readers::part(workload, channels);
    workload.count_dropped(
        "call that had not returned when the recording ended, put in for its wakeup",
        nr_unfinished,
    );
    let nr_unborn = pair_ends(workload, channels);
    workload.count_dropped("wait for a child whose fork is not in the recording, left out", nr_unborn);
    let repeated = super::rounds::repeated(workload, &channels.pollers);
    let (counted, merged) = merge_polled(workload, channels, &parted.loose);
    // what is put in from here on has numbers that tell nothing of the time
    let mut traffic = traffic_of(workload, channels.list.len());
    let nr_counting = super::conditions::count(workload, channels);
    let mut settled = settle(workload, channels);
    traffic.resize(channels.list.len(), Traffic::default());
    let channels = &*channels;
    let kind_of = |id: ObjectId| channels.list[owner_of(channels, id.0).unwrap_or(id.0) as usize].kind;
    let is_usable = |row: usize, seen: &Seen| match seen.kind {
        SeenKind::Sync(_) => settled.usable[row],
        _ if parted.loose.contains(&row) => false,
        kind => traffic[row].is_usable(kind),
    };
    let usable: Vec<bool> =
        channels.list.iter().enumerate().map(|(row, seen)| is_usable(row, seen)).collect();
    let places = places(workload);
    let nr_blocks = dependent_blocks(workload);
    let (mut edits, mut waits) = (Vec::new(), Waits::default());
    for task in 0..workload.tasks.len() {
        let mut found = edits_of((workload, channels), task, (&usable, &mut settled), &places, &mut waits);
        let own = &mut settled.tasks[task];
        // a wait at a condition becomes an unlock, whatever is known of the condition
        let stays = |row: &usize| own.changed.contains_key(row);
        found.removed.extend(unusable(&workload.tasks[task].events, &usable).filter(|row| !stays(row)));
        found.removed.append(&mut own.removed);
        found.inserted.append(&mut own.inserted);
        let (events, mut held) = (&workload.tasks[task].events, own.holds.in_order());
        for row in (0..events.len()).filter(|row| !found.blocks.contains_key(row)) {
            found.inserted.append(&mut let_go(&mut held, events, row));
        }
        found.inserted.sort_by_key(|insert| insert.before);
        for (row, op) in std::mem::take(&mut own.changed) {
            if let EventKind::Object { op: old, recorded, .. } = &mut workload.tasks[task].events[row].kind {
                *old = op;
                *recorded = if own.slept.contains(&row) { Recorded::Slept } else { *recorded };
            }
        }
        edits.push(found);
    }
    let rooms = rooms::shown(workload, &waits, |row| traffic[row as usize].at_start);
    let op_kind = |event: &Event| {
        let (object, sends) = op_of(event).map(side)?;
        let connects = channels.connections.contains(&event.eid);
        Some(OpKind { kind: kind_of(object).index(), sends, connects })
    };
    let Measured { costs, leads, kick } =
        measure(workload, &waits, SeenKind::NR, op_kind, |id| kind_of(id).index());
    let of_object = |id| (costs[kind_of(id).index()], leads[kind_of(id).index()]);
    take_out(workload, &waits, of_object, kick);
    apply(workload, &edits);
    let rows = add_objects(workload, channels, (&traffic, &usable, &counted), (&costs, &settled, &rooms));
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        if let EventKind::Object { op, .. } = &mut event.kind {
            *op = op.mapped(|id| rows[id.0 as usize].unwrap_or(id));
        }
    }
    let rounds = super::rounds::part(workload, &channels.pollers, &repeated);
    let nr_waits =
        waits.slept.values().filter(|id| !matches!(kind_of(**id), SeenKind::Sync(_))).count() as u64;
    note(workload, channels, (&traffic, &usable), (nr_waits, nr_blocks), (merged, &parted, rounds));
    let nr_lock_waits = waits.slept.len() as u64 - nr_waits;
    super::locks::note(workload, channels, (&usable, &settled), (nr_lock_waits, nr_blocks, nr_counting));
    if kick > Span::ZERO {
        let text = format!("{kick}, paid by who wakes: kick in a file of costs");
        workload.notes.insert("interrupting an idle CPU".to_string(), text);
    }
    let mut at_futexes = waits.at_futexes;
    for wait in at_futexes.values_mut() {
        wait.object = rows[wait.futex as usize];
    }
    PutIn { kick, at_futexes }
}

/// What there is, for the notes of the workload.
fn note(
    workload: &mut Workload,
    channels: &Channels,
    (traffic, usable): (&[Traffic], &[bool]),
    (nr_waits, nr_blocks): (u64, u64),
    (merged, parted, rounds): (u64, &Parted, u64),
) {
    let of = |kind: SeenKind| {
        let all = channels.list.iter().zip(traffic).zip(usable);
        all.filter(move |((seen, _), usable)| seen.kind == kind && **usable).map(|((_, of), _)| of)
    };
    let kinds: Vec<String> = ChannelKind::ALL
        .into_iter()
        .map(|(_, kind, word)| (of(SeenKind::Channel(kind)).count(), word))
        .filter(|(nr, word)| *nr > 0 || ["pipe", "unix", "inet"].contains(word))
        .map(|(nr, word)| format!("{nr} {word}"))
        .collect();
    let sends: u64 = ChannelKind::ALL
        .into_iter()
        .flat_map(|(_, kind, _)| of(SeenKind::Channel(kind)))
        .map(|of| of.sends)
        .sum();
    let (parents, kinds) = (of(SeenKind::Children).count(), kinds.join(", "));
    let is_used = |(seen, usable): (&Seen, &bool)| seen.kind.is_channel() && *usable;
    let nr_channels = channels.list.iter().zip(usable).filter(|both| is_used(*both)).count();
    let mut note = format!(
        "recorded: {nr_channels} channels ({kinds}), {sends} sends; {nr_waits} of {nr_blocks} blocks that a task \
         ended are waits at them"
    );
    if parents > 0 {
        note += &format!(", or of {parents} tasks for their children");
    }
    if merged > 0 {
        note += &format!("; {merged} channels whose reader polls are one with others between the same tasks");
    }
    if parted.nr > 0 {
        note += &format!("; {} that several tasks read are one for each reader", parted.nr);
    }
    if rounds > 0 {
        note += &format!("; {rounds} rounds of pollers have each answer behind its question");
    }
    workload.notes.insert("messages".to_string(), note);
    let is_one_sided = |(seen, of, usable): &(&Seen, &Traffic, &bool)| {
        !**usable && of.sends + of.receives > 0 && seen.kind.is_channel()
    };
    let all = channels.list.iter().zip(traffic).zip(usable).map(|((seen, of), usable)| (seen, of, usable));
    let one_sided = all.filter(is_one_sided).count() - parted.loose.len();
    workload.count_dropped(
        "pipe or socket that several tasks read of which one polls, left out: blocks there stay recorded ones",
        parted.loose.len() as u64,
    );
    workload.count_dropped("pipe or socket with one end outside the workload, left out", one_sided as u64);
}

/// What was done at each channel.
fn traffic_of(workload: &Workload, nr_channels: usize) -> Vec<Traffic> {
    let mut traffic = vec![Traffic::default(); nr_channels];
    for op in workload.tasks.iter().flat_map(|task| &task.events).filter_map(op_of) {
        let of = &mut traffic[op.object().0 as usize];
        match op {
            ObjectOp::Send { amount, .. } => {
                (of.sends, of.sent) = (of.sends + 1, of.sent + u64::from(amount));
            }
            ObjectOp::Receive { amount, .. } => {
                (of.receives, of.received) = (of.receives + 1, of.received + u64::from(amount));
            }
            _ => {}
        }
    }
    for (of, missing) in traffic.iter_mut().zip(missing_of(workload, nr_channels)) {
        of.at_start = missing;
    }
    traffic
}

/// All operations at objects: task and row, the event, what is done, and behind which event it was begun.
fn each_op(workload: &Workload, mut see: impl FnMut((usize, usize), EventId, ObjectOp, EventId)) {
    let mut born: HashMap<usize, EventId> = HashMap::new();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        if let EventKind::Fork { child, .. } = event.kind {
            born.insert(child.index(), event.eid);
        }
    }
    for (task, of) in workload.tasks.iter().enumerate() {
        let mut before = of.birth_eid().or_else(|| born.get(&task).copied()).unwrap_or_default();
        for (row, event) in of.events.iter().enumerate() {
            if let Some(op) = op_of(event) {
                see((task, row), event.eid, op, before);
            }
            if matches!(event.kind, EventKind::Object { .. } | EventKind::Fork { .. }) {
                before = event.eid;
            }
        }
    }
}

/// What the children of one task say to it, with task and row of each event.
#[derive(Default)]
struct ChildEnds {
    /// Begun behind which event, and its own.
    sent: Vec<(EventId, EventId, (usize, usize))>,
    received: Vec<(EventId, (usize, usize))>,
}

/// Takes out what has no other side of the ends of children: those that nobody waited for any more, and waits for a
/// child whose fork was not recorded. How many of the latter.
fn pair_ends(workload: &mut Workload, channels: &Channels) -> u64 {
    let mut ends: BTreeMap<u32, ChildEnds> = BTreeMap::new();
    each_op(workload, |place, eid, op, before| {
        if channels.list[op.object().0 as usize].kind == SeenKind::Children {
            let ChildEnds { sent, received } = ends.entry(op.object().0).or_default();
            match op {
                ObjectOp::Send { .. } => sent.push((before, eid, place)),
                _ => received.push((eid, place)),
            }
        }
    });
    let mut edits = vec![Edits::default(); workload.tasks.len()];
    let mut nr = 0;
    for ChildEnds { mut sent, mut received } in ends.into_values() {
        received.sort_unstable();
        let Some((last, _)) = received.last() else { continue };
        let late = sent.iter().filter(|(_, eid, _)| eid > last).map(|(.., place)| *place);
        for (task, row) in late {
            edits[task].removed.insert(row);
        }
        sent.sort_unstable();
        let (mut begun, mut there) = (sent.into_iter().peekable(), 0u64);
        for (eid, (task, row)) in received {
            there += std::iter::from_fn(|| begun.next_if(|(before, ..)| *before < eid)).count() as u64;
            if there > 0 {
                there -= 1;
            } else {
                nr += 1;
                edits[task].removed.insert(row);
            }
        }
    }
    apply(workload, &edits);
    nr
}

/// How much each channel's receivers took out that no recorded SEND can have put in: a SEND that its task began after
/// they had it. When a task began it is not recorded; it was behind what the task did before, another task's fork or
/// operation at an object. Events are numbered in order of time. What was received beyond all that was sent is part of
/// it.
///
/// ```text
/// 12  t1 RECV 1 pipe    awake: whose message is it?
/// 290 t1 SEND 1 pipe    begun behind event 12: not this one's, so 1 was there at the start
/// ```
fn missing_of(workload: &Workload, nr_channels: usize) -> Vec<u64> {
    let mut sent: Vec<Vec<(EventId, u64)>> = vec![Vec::new(); nr_channels];
    let mut received = sent.clone();
    each_op(workload, |_, eid, op, before| match op {
        ObjectOp::Send { object, amount } => sent[object.0 as usize].push((before, amount.into())),
        ObjectOp::Receive { object, amount } => received[object.0 as usize].push((eid, amount.into())),
        _ => {}
    });
    let missing = sent.into_iter().zip(received).map(|(mut sent, mut received)| {
        sent.sort_unstable();
        received.sort_unstable();
        let (mut begun, mut there, mut taken, mut missing) = (sent.into_iter().peekable(), 0, 0, 0u64);
        for (eid, amount) in received {
            there += std::iter::from_fn(|| begun.next_if(|(before, _)| *before < eid))
                .map(|(_, n)| n)
                .sum::<u64>();
            taken += amount;
            missing = missing.max(taken.saturating_sub(there));
        }
        missing
    });
    missing.collect()
}

/// Who sends and who receives at a channel, and how often.
#[derive(Default)]
struct Ends {
    senders: BTreeSet<usize>,
    receivers: BTreeSet<usize>,
    sends: u64,
    receives: u64,
}

/// A kind of channel, its senders and its receivers.
type Between<'a> = (usize, &'a BTreeSet<usize>, &'a BTreeSet<usize>);

/// A task that polls takes what comes first, at whatever socket. So sockets between the same tasks are one to it, if
/// each receipt took one message; it counts messages, not bytes. Gives those that others are part of now, and how many
/// those are.
fn merge_polled(
    workload: &mut Workload,
    channels: &Channels,
    loose: &BTreeSet<usize>,
) -> (BTreeSet<usize>, u64) {
    let mut ends: Vec<Ends> = channels.list.iter().map(|_| Ends::default()).collect();
    for (task, events) in workload.tasks.iter().map(|task| &task.events).enumerate() {
        for op in events.iter().filter_map(op_of) {
            let (object, sends) = side(op);
            let of = &mut ends[object.0 as usize];
            match sends {
                true => (of.sends, _) = (of.sends + 1, of.senders.insert(task)),
                false => (of.receives, _) = (of.receives + 1, of.receivers.insert(task)),
            }
        }
    }
    let mut groups: BTreeMap<Between<'_>, Vec<u32>> = BTreeMap::new();
    for (row, (seen, of)) in (0..).zip(channels.list.iter().zip(&ends)) {
        let is_counted = of.sends > 0
            && of.sends == of.receives
            && seen.kind.is_channel()
            && !loose.contains(&(row as usize));
        if is_counted && of.receivers.is_subset(&channels.pollers) {
            groups.entry((seen.kind.index(), &of.senders, &of.receivers)).or_default().push(row);
        }
    }
    let mut into: BTreeMap<u32, u32> = BTreeMap::new();
    for group in groups.values().filter(|group| group.len() > 1) {
        into.extend(group.iter().map(|row| (*row, group[0])));
    }
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        if let EventKind::Object {
            op: ObjectOp::Send { object, amount } | ObjectOp::Receive { object, amount },
            ..
        } = &mut event.kind
            && let Some(first) = into.get(&object.0)
        {
            (*object, *amount) = (ObjectId(*first), 1);
        }
    }
    let nr = into.iter().filter(|(row, first)| row != first).count() as u64;
    (into.into_values().map(|first| first as usize).collect(), nr)
}

fn dependent_blocks(workload: &Workload) -> u64 {
    let events = workload.tasks.iter().flat_map(|task| &task.events);
    events.filter(|event| matches!(event.kind, EventKind::Wakeup(Wakeup::Dependent { .. }))).count() as u64
}

/// Row of task and event of all events that wakers do next; only ever asked.
pub(super) fn places(workload: &Workload) -> HashMap<EventId, (usize, usize)> {
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
fn unusable<'a>(events: &'a [Event], usable: &'a [bool]) -> impl Iterator<Item = usize> + 'a {
    let is_out = |event: &Event| op_of(event).is_some_and(|op| !usable[op.object().0 as usize]);
    events.iter().enumerate().filter(move |(_, event)| is_out(event)).map(|(row, _)| row)
}

/// CPU time from a child's telling its parent to its end, at most.
const EXIT_MAX: Span = Span::from_us(100);

/// Which blocks of a task are waits, and for which operation.
fn edits_of(
    (workload, channels): (&Workload, &Channels),
    task: usize,
    (usable, settled): (&[bool], &mut Settled),
    places: &HashMap<EventId, (usize, usize)>,
    waits: &mut Waits,
) -> Edits {
    let events = &workload.tasks[task].events;
    let mut edits = Edits::default();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for (row, pair) in events.windows(2).enumerate() {
        let (
            EventKind::Block { .. },
            EventKind::Wakeup(Wakeup::Dependent { event, task: waker, distance, .. }),
        ) = (&pair[0].kind, &pair[1].kind)
        else {
            continue;
        };
        if let Some(ObjectOp::Receive { object, .. }) = op_of_call(events, row + 2)
            && settled.alone[object.0 as usize]
        {
            let wait = AtFutex { wakeup: pair[1].eid, waker: *waker, futex: object.0, object: None };
            waits.at_futexes.insert(pair[0].eid, wait);
        }
        let Some(place) = places.get(event) else { continue };
        let exits = |by: ObjectOp| {
            let kind = channels.list[by.object().0 as usize].kind;
            matches!(kind, SeenKind::Children | SeenKind::ThreadEnd)
        };
        // a child that wakes its parent otherwise (it executes a program) has its end before it
        let may_be = |by: &ObjectOp| {
            let moves = matches!(by, ObjectOp::Send { .. } | ObjectOp::Receive { .. });
            let at_its_end =
                *distance <= EXIT_MAX && op_of(&workload.tasks[place.0].events[place.1]).is_some();
            moves && usable[by.object().0 as usize] && (!exits(*by) || at_its_end)
        };
        let found = waker_is_in(workload, *waker, Some(place)).into_iter().filter(may_be).find_map(|by| {
            let (object, sends) = side(by);
            waits_for(events, row + 2, (object, !sends)).map(|own| (object, own, by))
        });
        let Some((object, own, by)) = found else { continue };
        match settled.whose_block((workload, channels), (task, row), object) {
            BlockOf::Function => drop(edits.blocks.insert(row, None)),
            BlockOf::Unknown => continue,
            BlockOf::Itself => {
                // several blocks may lie within one call
                let (before, there) = match taken.insert(own) {
                    true => without_own(events, row + 2..own),
                    false => (None, op_of(&events[own])),
                };
                edits.blocks.insert(row, before);
                match there {
                    Some(op) if before.is_some() => drop(settled.tasks[task].changed.insert(own, op)),
                    Some(_) => {}
                    None => drop(edits.removed.insert(own)),
                }
            }
        }
        waits.slept.insert((task, row), object);
        waits.for_room.extend(room_wait(&events[row..=own], object, by));
        if own == row + 2
            && let Some(length) = events[own].kind.length()
        {
            waits.behind.push((object, length));
        }
        let kicks = channels.kicks.contains(&pair[1].eid);
        let tail = channels.preempted.get(&pair[1].eid).copied();
        let returns = op_of(&workload.tasks[place.0].events[place.1]).map(side) == Some((object, true));
        let lead = returns.then_some(*distance);
        waits.woke.entry(*place).or_default().push(Woken { object, kicks, lead, tail });
    }
    edits
}

/// A wait for room, from its BLOCK to its SEND: whom `by` lets in, who receives.
fn room_wait(events: &[Event], object: ObjectId, by: ObjectOp) -> Option<RoomWait> {
    let [block, wakeup, .., own] = events else { return None };
    let (Some(ObjectOp::Send { amount, .. }), ObjectOp::Receive { amount: taken, .. }) = (op_of(own), by)
    else {
        return None;
    };
    Some(RoomWait { object, asleep: (block.eid, wakeup.eid), amount, taken })
}

/// What a task that waits for several files receives when its wait is over, and what it receives where the call is, if
/// it sends itself something in between: that is not there before.
///
/// ```text
/// recorded   poll BLOCK ... WAKEUP   SEND 1 s   RECV 2 s
/// workload   RECV 1 s (slept)        SEND 1 s   RECV 1 s
/// ```
fn without_own(events: &[Event], between: std::ops::Range<usize>) -> (Option<ObjectOp>, Option<ObjectOp>) {
    let own = between.end;
    let Some(ObjectOp::Receive { object: of, amount }) = op_of(&events[own]) else {
        return (op_of(&events[own]), None);
    };
    let sent = events[between].iter().filter_map(|event| match op_of(event)? {
        ObjectOp::Send { object, amount } if object == of => Some(u64::from(amount)),
        _ => None,
    });
    let sent = u32::try_from(sent.sum::<u64>()).unwrap_or(u32::MAX).min(amount - 1);
    let receipt = |amount| ObjectOp::Receive { object: of, amount };
    (Some(receipt(amount - sent)), (sent > 0).then(|| receipt(sent)))
}

/// The call that the waker was in: the first that returns after the wakeup. At a task's end there may be several.
fn waker_is_in(workload: &Workload, waker: TaskId, place: Option<&(usize, usize)>) -> Vec<ObjectOp> {
    let Some((task, row)) = place.filter(|(task, _)| *task == waker.index()) else { return Vec::new() };
    let mut found: Vec<(Span, ObjectOp)> = Vec::new();
    for event in &workload.tasks[*task].events[*row..] {
        match event.kind {
            EventKind::Object { length, op, .. }
                if found.first().is_none_or(|(first, _)| *first == length) =>
            {
                found.push((length, op));
            }
            EventKind::Object { .. } | EventKind::Fork { .. } | EventKind::Exit { .. } => break,
            _ if found.is_empty() => {}
            _ => break,
        }
    }
    found.into_iter().map(|(_, op)| op).collect()
}

/// Row of the operation that a block before `from` was for: that of the call that it was in, or one that follows in the
/// same stretch, after a wait for several.
pub(super) fn waits_for(events: &[Event], from: usize, wanted: (ObjectId, bool)) -> Option<usize> {
    let mut in_call = true;
    for (row, event) in events.iter().enumerate().skip(from) {
        match event.kind {
            EventKind::Object { op: op @ (ObjectOp::Send { .. } | ObjectOp::Receive { .. }), .. }
                if side(op) == wanted =>
            {
                return Some(row);
            }
            EventKind::Object { .. } => in_call = false,
            EventKind::Block { .. } | EventKind::Yield { .. } if !in_call => return None,
            EventKind::Fork { .. } | EventKind::Exit { .. } | EventKind::Prio { .. } => return None,
            _ => {}
        }
    }
    None
}

/// The operation of the call that a block before `from` was in, or of the next one.
fn op_of_call(events: &[Event], from: usize) -> Option<ObjectOp> {
    let ends = |event: &&Event| {
        matches!(event.kind, EventKind::Object { .. } | EventKind::Fork { .. } | EventKind::Exit { .. })
    };
    events.get(from..)?.iter().find(ends).and_then(op_of)
}

/// Bytes of a pipe's page.
const PAGE: u64 = 4096;

/// What a pipe with so many bytes of ring holds of messages of this size, and what one of its pages holds: small
/// messages share a page as far as they fit whole (`pipe_write` in fs/pipe.c). If the number is odd they are packets,
/// and share none.
fn pipe_holds(room: u64, mean: u64) -> (u64, u64) {
    let is_packets = room % 2 == 1;
    let of_page = match mean < PAGE {
        true if is_packets => mean,
        true => PAGE / mean * mean,
        false => PAGE,
    };
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
    (traffic, usable, counted): (&[Traffic], &[bool], &BTreeSet<usize>),
    (costs, settled, rooms): (&[WaitCosts], &Settled, &BTreeMap<u32, Holds>),
) -> Vec<Option<ObjectId>> {
    let mut unlimited = 0;
    let mut rows = Vec::new();
    for (number, (seen, of)) in channels.list.iter().zip(traffic).enumerate() {
        if !usable[number] || owner_of(channels, number as u32).is_some() {
            rows.push(None);
            continue;
        }
        let (room, mean) = (u64::from(seen.room), of.mean());
        let held = match seen.kind {
            _ if counted.contains(&number) => None,
            SeenKind::Channel(ChannelKind::Pipe) if room > 0 => {
                let (holds, of_page) = pipe_holds(room, mean);
                Some((holds, holds.saturating_sub(of_page)))
            }
            // a sender that waits is let in at a quarter (`unix_writable` in net/unix/af_unix.c)
            SeenKind::Channel(ChannelKind::Unix) if room > 0 => {
                Some(unix_holds(room, mean)).map(|holds| (holds, holds / 4))
            }
            SeenKind::Channel(ChannelKind::Queue) if room > 0 => Some((room, room - 1)),
            SeenKind::Channel(_) if room == 0 => rooms.get(&(number as u32)).copied(),
            _ => None,
        };
        // what was in it before the recording, as far as it was taken out
        let start = of.at_start;
        let left = (of.sent + start).saturating_sub(of.received);
        let held = held.filter(|(holds, _)| {
            let fits = left <= *holds && start <= *holds;
            unlimited += u64::from(!fits);
            fits
        });
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let kind = match seen.kind {
            SeenKind::Sync(SyncKind::Mutex) => ObjectKind::Mutex(Handover::Competing),
            SeenKind::Sync(SyncKind::Barrier) => ObjectKind::Barrier { parties: seen.room },
            SeenKind::Sync(_) => ObjectKind::Semaphore { start: settled.starts[number] },
            _ => ObjectKind::Stream {
                capacity: held.map(|(holds, _)| small(holds.max(1))),
                start: small(start),
                low: held.map(|(_, low)| small(low)),
            },
        };
        let name = format!("{}-{}", seen.kind.name(), number + 1);
        let (wakes, costs) = (seen.kind.wakes(), costs[seen.kind.index()]);
        let object = Object { name, kind, wakes, costs, is_closed: false, is_polled: false };
        rows.push(Some(workload.add_object(object)));
    }
    workload.count_dropped("pipe or socket of which not all was read, taken as one without limit", unlimited);
    rows
}
