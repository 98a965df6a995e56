//! Which of several tasks that receive at one channel is a message for? The one that received it in the recording.
//!
//! A pipe or socket that one task reads gives its messages in the order in which they were sent, whatever the schedule.
//! Where several read, one could take what another needs to go on: who answers then waits for the next question, which
//! its asker sends after the answer. So each of them has a channel of its own:
//!
//! ```text
//! recorded   A: send 5, send 3                B: receive 4        C: receive 4         (bytes 0 to 3, 4 to 7)
//! workload   A: SEND 4 x-b, SEND 1 x-c, SEND 3 x-c                B: RECV 4 x-b        C: RECV 4 x-c
//! ```
//!
//! With one receiver each, no schedule can end in a deadlock that the recorded one has not. Of the tasks that wait for
//! each other take the one whose next event comes first in the recording: all before it has been done, so what it waits
//! for has been sent, and nobody else can have taken it.
//!
//! Each part has the room of the whole: it never held more. Where one task reads first and another one after it (a
//! shell and then its child), that is the room that there was. Where they read at the same time, there is more room
//! than there was. A sender that waits for room is no new deadlock: in the recording, what there is now in the part was
//! in the whole as well. Only several senders can fill it in another order, as they can any channel.
//!
//! Where one of several readers polls, nobody waits at that channel: its threads take what comes, and where nothing is
//! there they go on with something else (Go parks a goroutine, and its thread runs another one). Such a channel is left
//! out, if a reader comes back to it after another one. Else it is several connections: a socket that is closed leaves
//! its place in the kernel's memory, and with it its number, to one that somebody else opens.

use super::recorded::{Channels, SeenKind, op_of};
use crate::{Event, EventId, EventKind, ObjectId, ObjectOp, Recorded, Workload};
use schedlab_units::Span;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An event: row of the task, row of the event there.
type Place = (usize, usize);

/// Who sent and who received at one channel, in the order of the recording (which is that of event numbers).
#[derive(Default)]
struct Ends {
    sends: Vec<(EventId, Place, u32)>,
    receives: Vec<(EventId, Place, u32)>,
}

impl Ends {
    fn has_several_receivers(&self) -> bool {
        let first = self.receives.first().map(|(_, place, _)| place.0);
        !self.sends.is_empty() && self.receives.iter().any(|(_, place, _)| Some(place.0) != first)
    }

    /// Whether one that has received receives again after another one. Receipts are in order.
    fn take_turns(&self) -> bool {
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        self.receives.windows(2).any(|pair| {
            let [(_, (before, _), _), (_, (now, _), _)] = [pair[0], pair[1]];
            before != now && (gone.insert(before), gone.contains(&now)).1
        })
    }
}

/// What a send is in pieces: for which task, how much. `None`: nobody received it.
type Pieces = Vec<(Option<usize>, u32)>;

/// What was found of channels that several tasks read.
#[derive(Debug, Default)]
pub(super) struct Parted {
    /// How many are one for each reader now.
    pub nr: u64,
    /// Those that are left out.
    pub loose: BTreeSet<usize>,
}

/// Gives each task that receives where others do a channel of its own.
pub(super) fn part(workload: &mut Workload, channels: &mut Channels) -> Parted {
    let mut ends: BTreeMap<u32, Ends> = BTreeMap::new();
    for (task, events) in workload.tasks.iter().map(|task| &task.events).enumerate() {
        for (row, event) in events.iter().enumerate() {
            let Some(op) = op_of(event) else { continue };
            let SeenKind::Channel(_) = channels.list[op.object().0 as usize].kind else { continue };
            let of = ends.entry(op.object().0).or_default();
            match op {
                ObjectOp::Send { amount, .. } => of.sends.push((event.eid, (task, row), amount)),
                ObjectOp::Receive { amount, .. } => of.receives.push((event.eid, (task, row), amount)),
                _ => {}
            }
        }
    }
    ends.retain(|_, of| of.has_several_receivers());
    for of in ends.values_mut() {
        of.sends.sort_unstable();
        of.receives.sort_unstable();
    }
    let polls = |of: &Ends| {
        of.take_turns() && of.receives.iter().any(|(_, place, _)| channels.pollers.contains(&place.0))
    };
    let loose: BTreeSet<usize> =
        ends.iter().filter(|(_, of)| polls(of)).map(|(channel, _)| *channel as usize).collect();
    ends.retain(|channel, _| !loose.contains(&(*channel as usize)));
    let mut parted: BTreeMap<Place, Vec<(ObjectId, u32)>> = BTreeMap::new();
    for (channel, of) in &ends {
        let mut own: BTreeMap<Option<usize>, ObjectId> = BTreeMap::new();
        let seen = channels.list[*channel as usize];
        let mut object = |receiver: Option<usize>| {
            let next = ObjectId(channels.list.len() as u32);
            *own.entry(receiver).or_insert_with(|| {
                channels.list.push(seen);
                next
            })
        };
        for (_, place, amount) in &of.receives {
            parted.insert(*place, vec![(object(Some(place.0)), *amount)]);
        }
        for ((_, place, _), pieces) in of.sends.iter().zip(pieces(of)) {
            let pieces = pieces.into_iter().map(|(receiver, amount)| (object(receiver), amount));
            parted.insert(*place, pieces.collect());
        }
    }
    put(workload, &parted);
    Parted { nr: ends.len() as u64, loose }
}

/// For whom each send is: what comes first is received first. What was received and never sent was there before.
fn pieces(of: &Ends) -> Vec<Pieces> {
    let sum =
        |list: &[(EventId, Place, u32)]| list.iter().map(|(.., amount)| u64::from(*amount)).sum::<u64>();
    let mut before = sum(&of.receives).saturating_sub(sum(&of.sends));
    let mut wanted: VecDeque<(usize, u64)> = VecDeque::new();
    for (_, place, amount) in &of.receives {
        let there = before.min((*amount).into());
        before -= there;
        wanted.push_back((place.0, u64::from(*amount) - there));
    }
    let mut all = Vec::new();
    for (.., amount) in &of.sends {
        let (mut pieces, mut left) = (Pieces::new(), *amount);
        while left > 0 {
            while wanted.front().is_some_and(|(_, more)| *more == 0) {
                wanted.pop_front();
            }
            let (receiver, piece) = match wanted.front_mut() {
                Some((receiver, more)) => {
                    let piece = (*more).min(left.into());
                    *more -= piece;
                    (Some(*receiver), piece as u32)
                }
                None => (None, left),
            };
            left -= piece;
            match pieces.last_mut() {
                Some((last, amount)) if *last == receiver => *amount += piece,
                _ => pieces.push((receiver, piece)),
            }
        }
        all.push(pieces);
    }
    all
}

/// Puts the parts in the place of the whole.
fn put(workload: &mut Workload, parted: &BTreeMap<Place, Vec<(ObjectId, u32)>>) {
    let mut fresh = workload.free_eid().0;
    let tasks: BTreeSet<usize> = parted.keys().map(|(task, _)| *task).collect();
    for task in tasks {
        let events = std::mem::take(&mut workload.tasks[task].events);
        let mut out: Vec<Event> = Vec::with_capacity(events.len());
        for (row, event) in events.into_iter().enumerate() {
            let Some(parts) = parted.get(&(task, row)) else {
                out.push(event);
                continue;
            };
            for (number, (object, amount)) in parts.iter().enumerate() {
                let (object, amount) = (*object, *amount);
                let op = match op_of(&event) {
                    Some(ObjectOp::Send { .. }) => ObjectOp::Send { object, amount },
                    _ => ObjectOp::Receive { object, amount },
                };
                let length = event.kind.length().unwrap_or(Span::ZERO);
                let kind = EventKind::Object { length, op, recorded: Recorded::Awake };
                // what its wakeups are placed before is the first
                let eid = if number == 0 { event.eid } else { EventId(fresh) };
                fresh += u64::from(number > 0);
                out.push(Event { eid, kind });
            }
        }
        workload.tasks[task].events = out;
    }
}
