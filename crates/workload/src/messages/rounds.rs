//! In which order does a poller answer? It takes what has come, and then it answers all of that.
//!
//! How much comes in one round is the schedule's doing: one at a time where each client's write preempts its writer,
//! four where it does not. A list of events that has four receipts before four answers would make a replay wait for
//! the fourth question before the first is answered, although the program would answer and wait again. So each answer
//! stands right behind its question, and the channel is `polled`: the machine puts answers off as long as more
//! questions are there (docs/objects.md, rule 4).
//!
//! ```text
//! recorded   poll  RECV RECV RECV SEND SEND SEND  poll       three had come
//! workload         RECV SEND RECV SEND RECV SEND             answered when no more are there, be it one or five
//! ```
//!
//! The same of clients that keep several questions on their way. The CPU time before each operation stays with it. A
//! round is receipts from several, all but the first without a sleep, and behind them at least as many SENDs with
//! nothing between. The SENDs are at channels that have always room, or that never held more than an eighth of their
//! room: one that waits for room keeps its place, since who makes room may wait for the receipts. A server that answers
//! each question before it takes the next one has no such rounds, and stays as it is.

use super::recorded::{op_of, side};
use crate::{Event, EventId, EventKind, Object, ObjectId, ObjectKind, ObjectOp, Recorded, Workload};
use schedlab_units::Span;
use std::collections::BTreeSet;

/// Questions that came behind others in a round, of which there are fewer tell nothing.
const TOGETHER_MIN: usize = 16;
/// A server that answers one by one has found at most so many more questions there after an answer.
const SINGLY_PER_TOGETHER: usize = 8;
/// A channel that held at most one part in so many of what it can hold never lacked room.
const ROOM_PER_LEVEL: i64 = 8;

/// Operations that follow another one of the same kind at the same channel: a client that reads a head and then a body,
/// or connects and then writes, has one question there and not two. Asked before channels of a poller are merged.
pub(super) fn repeated(workload: &Workload, pollers: &BTreeSet<usize>) -> BTreeSet<EventId> {
    let mut repeated = BTreeSet::new();
    for task in pollers {
        let mut seen: Vec<(ObjectId, bool)> = Vec::new();
        for event in &workload.tasks[*task].events {
            let Some(at) = op_of(event).map(side) else {
                seen.clear();
                continue;
            };
            seen.retain(|(_, gives)| *gives == at.1);
            if seen.contains(&at) {
                repeated.insert(event.eid);
            }
            seen.push(at);
        }
    }
    repeated
}

/// Puts the answers of each round of these tasks behind their questions. How many rounds there were.
pub(super) fn part(workload: &mut Workload, pollers: &BTreeSet<usize>, repeated: &BTreeSet<EventId>) -> u64 {
    let mut nr = 0;
    let mut polled: BTreeSet<ObjectId> = BTreeSet::new();
    let roomy = if pollers.is_empty() { Vec::new() } else { roomy(workload) };
    for task in pollers {
        let events = &mut workload.tasks[*task].events;
        let rounds = rounds_of(events, &roomy, repeated);
        let together: usize = rounds.iter().map(|(_, asked)| asked - 1).sum();
        if together < TOGETHER_MIN || together * SINGLY_PER_TOGETHER < singly(events, &roomy) {
            continue;
        }
        for (first, asked) in rounds {
            polled.extend(events[first..first + asked].iter().filter_map(op_of).map(ObjectOp::object));
            interleave(&mut events[..first + 2 * asked], first, asked);
            nr += 1;
        }
    }
    for object in polled {
        workload.objects[object.0 as usize].is_polled = true;
    }
    nr
}

/// Which objects have always room, or had by far enough in the recording. Events are numbered in order of time.
fn roomy(workload: &Workload) -> Vec<bool> {
    let mut moves: Vec<(EventId, ObjectId, i64)> = Vec::new();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        match op_of(event) {
            Some(ObjectOp::Send { object, amount }) => moves.push((event.eid, object, amount.into())),
            Some(ObjectOp::Receive { object, amount }) => moves.push((event.eid, object, -i64::from(amount))),
            _ => {}
        }
    }
    moves.sort_unstable();
    let mut levels = vec![(0i64, 0i64); workload.objects.len()];
    for (_, object, change) in moves {
        let (level, most) = &mut levels[object.0 as usize];
        *level = level.saturating_add(change);
        *most = (*level).max(*most);
    }
    let is_roomy = |(object, (_, most)): (&Object, &(i64, i64))| match object.kind {
        ObjectKind::Stream { capacity: Some(capacity), start, .. } => {
            (most + i64::from(start)).saturating_mul(ROOM_PER_LEVEL) <= i64::from(capacity)
        }
        kind => kind.has_always_room(),
    };
    workload.objects.iter().zip(&levels).map(is_roomy).collect()
}

/// Where rounds of several questions begin, and of how many.
fn rounds_of(events: &[Event], roomy: &[bool], repeated: &BTreeSet<EventId>) -> Vec<(usize, usize)> {
    let is_new = |event: &Event| !repeated.contains(&event.eid);
    let (mut rounds, mut row) = (Vec::new(), 0);
    while row < events.len() {
        let asked = questions(&events[row..]);
        let is_round = asked > 1 && answers(&events[row + asked..], roomy) >= asked;
        if is_round && events[row..row + 2 * asked].iter().all(is_new) {
            rounds.push((row, asked));
            row += asked;
        }
        row += asked.max(1);
    }
    rounds
}

/// How often a question was there when the one before had been answered.
fn singly(events: &[Event], roomy: &[bool]) -> usize {
    let is_one = |three: &&[Event]| {
        let is_next_there = matches!(three[2].kind, EventKind::Object { recorded: Recorded::Awake, .. });
        is_next_there && questions(&three[..1]) + answers(&three[1..2], roomy) + questions(&three[2..]) == 3
    };
    events.windows(3).filter(is_one).count()
}

/// How many receipts follow one another here that were taken in one round.
fn questions(events: &[Event]) -> usize {
    let is_one = |(nr, event): &(usize, &Event)| {
        let EventKind::Object { op: ObjectOp::Receive { .. }, recorded, .. } = event.kind else {
            return false;
        };
        *nr == 0 || recorded == Recorded::Awake
    };
    events.iter().enumerate().take_while(is_one).count()
}

/// How many SENDs follow one another here that never wait.
fn answers(events: &[Event], roomy: &[bool]) -> usize {
    let is_one = |event: &&Event| match op_of(event) {
        Some(ObjectOp::Send { object, .. }) => roomy[object.0 as usize],
        _ => false,
    };
    events.iter().take_while(is_one).count()
}

/// The `nr` events from `first` on and the `nr` behind them, by turns; `events` end there.
fn interleave(events: &mut [Event], first: usize, nr: usize) {
    let length = |event: &Event| event.kind.length().unwrap_or_default();
    let mut at = first.checked_sub(1).map_or(Span::ZERO, |before| length(&events[before]));
    let mut before = at;
    let gap_of = |event: &Event| {
        let gap = length(event).saturating_sub(before);
        before = length(event);
        (event.clone(), gap)
    };
    let round: Vec<(Event, Span)> = events[first..].iter().map(gap_of).collect();
    let by_turns = (0..nr).flat_map(|k| [k, nr + k]);
    for (slot, from) in events[first..].iter_mut().zip(by_turns) {
        let (mut event, gap) = round[from].clone();
        at += gap;
        super::edit::set_length(&mut event.kind, at);
        *slot = event;
    }
}
