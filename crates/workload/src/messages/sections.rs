//! Which locks does a task hold while it wakes another?
//!
//! Who is woken wants the lock next, mostly: a condition is signalled with its mutex held, and a loop of events hears
//! of something new while its list is locked. If the woken task takes its waker's CPU, it waits a second time. If not,
//! the lock is free by then. A recording without the C library's functions shows the second wait alone:
//!
//! ```text
//! recorded   W: SEND c ...................... wake(l)      R: RECV c, wait(l) .... goes on
//! workload   W: LOCK l, SEND c, UNLOCK l                   R: RECV c, LOCK l, UNLOCK l
//! ```
//!
//! So where waits at a lock follow what its holder has sent just before, each such message is sent with the lock held,
//! also where the recording shows no wait. A replay then waits where R comes too early, and waits are gained as well as
//! lost. How long W holds the lock is the median of what the waits show. R lets it go at once: how long it has it is
//! not known, nor who waits for it meanwhile.
//!
//! The evidence: of the wakeups that took their waker's CPU at least half are followed by such a wait. All other waits
//! at the lock stay recorded blocks. So do these where several tasks wait for the message: it is no object's then.

use super::edit::Insert;
use super::locks::{Settled, SyncKind, is_lock_like, length_of};
use super::recorded::{Channels, SeenKind, op_of, places};
use crate::{EventId, EventKind, ObjectId, ObjectOp, Recorded, Wakeup, Workload};
use schedlab_stdx::percentile::upper_median;
use schedlab_trace::ChannelKind;
use schedlab_units::Span;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A task's messages with a lock held show in at least so many waits.
const WAITS_MIN: usize = 8;
/// The wait follows its message within so much CPU time of both.
const SECTION_MAX: Span = Span::from_us(100);
/// The lock is taken so long before the wakeup, and once more as long as that is before its call's return: the SEND
/// moves forward by up to that when costs are taken out.
const MARGIN: Span = Span::from_us(1);

/// Where the events are that wakers do next: [`places`].
type Places = HashMap<EventId, (usize, usize)>;
/// A task, the object at which it sends or receives, and the lock.
type Use = (usize, u32, u32);

/// A wait at a lock for the task that has just woken the waiter.
#[derive(Clone, Copy)]
struct Wait {
    waker: Use,
    waiter: Use,
    /// Row of the waker's SEND.
    send: usize,
    /// Row of the waiter's receipt, and of the BLOCK.
    receive: usize,
    block: usize,
    /// CPU time from the SEND until the lock is free, and from the receipt until the lock is wanted.
    held: Span,
    before: Span,
}

/// Locks that tasks hold while they wake others.
#[derive(Default)]
pub(super) struct Sections {
    waits: Vec<Wait>,
    /// How long they hold it after their SEND.
    wakers: BTreeMap<Use, Span>,
    /// How soon they want it after their receipt.
    waiters: BTreeMap<Use, Span>,
}

/// Looks for such locks. They are mutexes from then on; what else was recorded of their waits is at an object of its
/// own. `is_alone`: one task alone waits at this futex, and its wakers never do.
pub(super) fn find(
    workload: &mut Workload,
    channels: &mut Channels,
    is_alone: impl Fn(u32) -> bool,
) -> Sections {
    if !(0..channels.list.len() as u32).any(|row| is_lock_like(channels, row)) {
        return Sections::default();
    }
    let places = places(workload);
    let mut waits = waits(workload, channels, &places, is_alone);
    if waits.len() < WAITS_MIN {
        return Sections::default();
    }
    let preempting = preempting(workload, channels, &places);
    let mut by_waker: BTreeMap<Use, Vec<Span>> = BTreeMap::new();
    for wait in &waits {
        by_waker.entry(wait.waker).or_default().push(wait.held);
    }
    by_waker.retain(|(task, object, _), held| {
        let wakeups = preempting.get(&(*task, *object)).copied().unwrap_or(0);
        held.len() >= WAITS_MIN && 2 * held.len() >= wakeups
    });
    waits.retain(|wait| by_waker.contains_key(&wait.waker));
    let mut by_waiter: BTreeMap<Use, Vec<Span>> = BTreeMap::new();
    for wait in &waits {
        by_waiter.entry(wait.waiter).or_default().push(wait.before);
    }
    let locks: BTreeSet<u32> = waits.iter().map(|wait| wait.waker.2).collect();
    let known: BTreeSet<(usize, usize)> = waits
        .iter()
        .flat_map(|wait| [(wait.waker.0, wait.send + 1), (wait.waiter.0, wait.block + 2)])
        .collect();
    let others: BTreeMap<u32, u32> = locks.iter().map(|lock| (*lock, channels.rest_of_lock(*lock))).collect();
    for (task, of) in workload.tasks.iter_mut().enumerate() {
        for (row, event) in of.events.iter_mut().enumerate() {
            if let EventKind::Object {
                op: ObjectOp::Send { object, .. } | ObjectOp::Receive { object, .. },
                ..
            } = &mut event.kind
                && !known.contains(&(task, row))
                && let Some(other) = others.get(&object.0)
            {
                object.0 = *other;
            }
        }
    }
    let medians = |times: BTreeMap<Use, Vec<Span>>| {
        let median = |mut times: Vec<Span>| {
            times.sort_unstable();
            upper_median(&times).unwrap_or_default()
        };
        times.into_iter().map(|(of, times)| (of, median(times))).collect()
    };
    Sections { waits, wakers: medians(by_waker), waiters: medians(by_waiter) }
}

/// All waits at locks for who has just woken the waiter.
fn waits(
    workload: &Workload,
    channels: &Channels,
    places: &Places,
    is_alone: impl Fn(u32) -> bool,
) -> Vec<Wait> {
    let is_lock = |object: ObjectId| {
        channels.list[object.0 as usize].kind == SeenKind::Sync(SyncKind::Futex)
            && is_lock_like(channels, object.0)
    };
    // messages that are objects in the replay, and never wait for room
    let is_message = |object: ObjectId| match channels.list[object.0 as usize].kind {
        SeenKind::Sync(SyncKind::Futex) => is_alone(object.0),
        kind => kind == SeenKind::Channel(ChannelKind::Eventfd),
    };
    let mut waits = Vec::new();
    for (task, events) in workload.tasks.iter().map(|task| &task.events).enumerate() {
        for (block, of) in events.windows(3).enumerate() {
            let (
                EventKind::Block { length },
                EventKind::Wakeup(Wakeup::Dependent { event, task: waker, distance, .. }),
            ) = (&of[0].kind, &of[1].kind)
            else {
                continue;
            };
            let Some(ObjectOp::Receive { object: lock, .. }) =
                op_of(&of[2]).filter(|op| is_lock(op.object()))
            else {
                continue;
            };
            // what it received right before
            let Some(receive) = block.checked_sub(1) else { continue };
            let Some(ObjectOp::Receive { object: message, .. }) = op_of(&events[receive]) else { continue };
            let Some((by, row)) = places.get(event).filter(|(by, row)| *by == waker.index() && *row > 0)
            else {
                continue;
            };
            let theirs = &workload.tasks[*by].events;
            let (sends, lets_go) = (op_of(&theirs[row - 1]), op_of(&theirs[*row]));
            let is_section = is_message(message)
                && !is_lock(message)
                && matches!(sends, Some(ObjectOp::Send { object, .. }) if object == message)
                && matches!(lets_go, Some(ObjectOp::Send { object, .. }) if object == lock);
            let free = length_of(&theirs[*row]).saturating_sub(*distance);
            let held = free.saturating_sub(length_of(&theirs[row - 1]));
            let before = length.saturating_sub(length_of(&events[receive]));
            if is_section && held <= SECTION_MAX && before <= SECTION_MAX {
                let (waker, waiter) = ((*by, message.0, lock.0), (task, message.0, lock.0));
                waits.push(Wait { waker, waiter, send: row - 1, receive, block, held, before });
            }
        }
    }
    waits
}

/// How often a task's SEND at an object woke one that took its CPU.
fn preempting(workload: &Workload, channels: &Channels, places: &Places) -> HashMap<(usize, u32), usize> {
    let mut times = HashMap::new();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event: by, .. }) = event.kind
            && channels.took_its_cpu(event.eid)
            && let Some((task, row)) = places.get(&by)
            && let Some(ObjectOp::Send { object, .. }) =
                workload.tasks.get(*task).and_then(|task| op_of(&task.events[*row]))
        {
            *times.entry((*task, object.0)).or_insert(0) += 1;
        }
    }
    times
}

impl Sections {
    /// How many locks there are.
    pub fn nr_locks(&self) -> u64 {
        self.wakers.keys().map(|(.., lock)| *lock).collect::<BTreeSet<u32>>().len() as u64
    }

    /// Puts the locks around what is sent, and behind what is received.
    pub fn put(&self, workload: &Workload, channels: &Channels, settled: &mut Settled) {
        let is_channel = |object: u32| channels.list[object as usize].kind.is_channel();
        let stands = |object: u32| is_channel(object) || settled.usable[object as usize];
        let locks: Vec<u32> =
            self.wakers.keys().filter(|(_, object, _)| stands(*object)).map(|(.., lock)| *lock).collect();
        for lock in locks {
            settled.usable[lock as usize] = true;
        }
        let waited: HashMap<(usize, usize), &Wait> =
            self.waits.iter().map(|wait| ((wait.waiter.0, wait.receive), wait)).collect();
        let freed: HashMap<(usize, usize), Span> =
            self.waits.iter().map(|wait| ((wait.waker.0, wait.send), wait.held)).collect();
        // the lock is taken before the wakeup, which comes before its call's return
        let mut leads: HashMap<EventId, Span> = HashMap::new();
        for event in workload.tasks.iter().flat_map(|task| &task.events) {
            if let EventKind::Wakeup(Wakeup::Dependent { event, distance, .. }) = event.kind {
                let lead = leads.entry(event).or_default();
                *lead = distance.max(*lead);
            }
        }
        let Settled { tasks, usable, .. } = settled;
        for ((task, of), own) in workload.tasks.iter().enumerate().zip(tasks) {
            for (row, event) in of.events.iter().enumerate() {
                let (next, at) = (row + 1, length_of(event));
                let Some(op) = op_of(event) else { continue };
                let is_last = of.events.get(next).is_none_or(|next| next.kind.length().is_none());
                if is_last || !(is_channel(op.object().0) || usable[op.object().0 as usize]) {
                    continue;
                }
                match op {
                    ObjectOp::Send { object, .. } => {
                        for ((.., lock), held) in uses(&self.wakers, task, object) {
                            let lead =
                                leads.get(&event.eid).map_or(Span::ZERO, |lead| *lead + *lead + MARGIN);
                            let held = freed.get(&(task, row)).unwrap_or(held);
                            own.inserted.push(takes(row, at.saturating_sub(lead), *lock));
                            own.inserted.push(lets_go(next, at + *held, *lock));
                        }
                    }
                    ObjectOp::Receive { object, .. } => {
                        for ((.., lock), before) in uses(&self.waiters, task, object) {
                            own.inserted.push(takes(next, at + *before, *lock));
                            match waited.get(&(task, row)).filter(|wait| wait.waiter.2 == *lock) {
                                Some(wait) => {
                                    let free = wait.block + 2;
                                    own.waits_at(row, *lock);
                                    own.inserted.push(lets_go(free, length_of(&of.events[free]), *lock));
                                }
                                None => own.inserted.push(lets_go(next, at + *before, *lock)),
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Which locks a task uses with what it does at an object.
fn uses(all: &BTreeMap<Use, Span>, task: usize, object: ObjectId) -> impl Iterator<Item = (&Use, &Span)> {
    all.range((task, object.0, 0)..=(task, object.0, u32::MAX))
}

fn takes(before: usize, length: Span, lock: u32) -> Insert {
    let op = ObjectOp::Lock { object: ObjectId(lock) };
    Insert { before, length, op, recorded: Recorded::Awake }
}

fn lets_go(before: usize, length: Span, lock: u32) -> Insert {
    let op = ObjectOp::Unlock { object: ObjectId(lock) };
    Insert { before, length, op, recorded: Recorded::Nothing }
}
