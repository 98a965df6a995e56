//! Puts operations at objects in the place of recorded blocks, and between other events, without moving any CPU time.
//!
//! ```text
//! before   BLOCK 5us   WAKEUP (by 7)   BLOCK 3us   WAKEUP (timer)        lengths count from the WAKEUP
//! after    RECV 5us pipe               BLOCK 8us   WAKEUP (timer)        an operation is no WAKEUP: 5 + 3
//! ```

use crate::{Event, EventId, EventKind, ObjectOp, Recorded, Wakeup, Workload};
use schedlab_units::Span;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An operation to be put before an event of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Insert {
    /// Row of the event, which is no WAKEUP.
    pub before: usize,
    /// CPU time since the last WAKEUP; taken as at most the event's, and at least that of the event before.
    pub length: Span,
    pub op: ObjectOp,
    pub recorded: Recorded,
}

/// What changes in a task's list of events.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits {
    /// Rows of BLOCKs that go with the WAKEUP behind them; an operation that may come in their place.
    pub blocks: BTreeMap<usize, Option<ObjectOp>>,
    /// Rows of operations that go.
    pub removed: BTreeSet<usize>,
    /// In order of place.
    pub inserted: Vec<Insert>,
}

/// Where the place of an event that is gone is found now.
#[derive(Clone, Copy)]
struct Moved {
    /// The event that comes next.
    next: EventId,
    /// CPU time from the place of the event that is gone until there.
    more: Span,
}

/// Makes the changes; `edits` has one entry for each task.
pub(super) fn apply(workload: &mut Workload, edits: &[Edits]) {
    let mut fresh = workload.free_eid().0;
    let mut moved: HashMap<EventId, Moved> = HashMap::new();
    for (task, edits) in workload.tasks.iter_mut().zip(edits) {
        if edits.blocks.is_empty() && edits.removed.is_empty() && edits.inserted.is_empty() {
            continue;
        }
        let events = std::mem::take(&mut task.events);
        task.events = rewrite(events, edits, &mut fresh, &mut moved);
    }
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event, distance, .. }) = &mut event.kind
            && let Some(moved) = moved.get(event)
        {
            (*event, *distance) = (moved.next, *distance + moved.more);
        }
    }
}

fn rewrite(
    events: Vec<Event>,
    edits: &Edits,
    fresh: &mut u64,
    moved: &mut HashMap<EventId, Moved>,
) -> Vec<Event> {
    let mut out = Vec::with_capacity(events.len() + edits.inserted.len());
    let mut inserted = edits.inserted.iter().peekable();
    // CPU time of the stretch before the WAKEUPs that are gone
    let mut base = Span::ZERO;
    // events that are gone and wait for the next one that stays, with their places
    let mut open: Vec<(EventId, Span)> = Vec::new();
    let (mut over, mut last) = (0, Span::ZERO);
    for (row, mut event) in events.into_iter().enumerate() {
        if row < over {
            continue;
        }
        let most = event.kind.length().map(|length| base + length);
        while let Some(insert) = inserted.next_if(|insert| insert.before <= row) {
            // costs may have been taken out of the events' lengths since it was noted
            last = most.map_or(base + insert.length, |most| most.min(base + insert.length)).max(last);
            let kind = EventKind::Object { length: last, op: insert.op, recorded: insert.recorded };
            out.push(Event { eid: EventId(*fresh), kind });
            *fresh += 1;
        }
        let Some(length) = event.kind.length().map(|length| base + length) else {
            (base, last) = (Span::ZERO, Span::ZERO);
            out.push(event);
            continue;
        };
        if let Some(op) = edits.blocks.get(&row) {
            over = row + 2;
            base = length;
            match op {
                Some(op) => {
                    event.kind = EventKind::Object { length, op: *op, recorded: Recorded::Slept };
                }
                None => {
                    open.push((event.eid, length));
                    continue;
                }
            }
        } else if edits.removed.contains(&row) {
            open.push((event.eid, length));
            continue;
        } else {
            set_length(&mut event.kind, length);
        }
        for (eid, place) in open.drain(..) {
            moved.insert(eid, Moved { next: event.eid, more: length.saturating_sub(place) });
        }
        last = length;
        out.push(event);
    }
    // the CPU time before an event that is gone stays
    if let Some((eid, length)) = open.pop() {
        for (gone, place) in open {
            moved.insert(gone, Moved { next: eid, more: length.saturating_sub(place) });
        }
        out.push(Event { eid, kind: EventKind::Block { length } });
    }
    out
}

pub(super) fn set_length(kind: &mut EventKind, to: Span) {
    match kind {
        EventKind::Fork { length, .. }
        | EventKind::Prio { length, .. }
        | EventKind::Yield { length }
        | EventKind::Exec { length }
        | EventKind::Call { length }
        | EventKind::Block { length }
        | EventKind::Object { length, .. }
        | EventKind::Exit { length } => *length = to,
        EventKind::Wakeup(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExternalSource, ObjectId};

    #[test]
    fn what_is_put_in_stays_between_its_neighbours() {
        let us = Span::from_us;
        let event = |eid, kind| Event { eid: EventId(eid), kind };
        let timer = Wakeup::External { after: Span::ZERO, source: ExternalSource::Timer };
        let events = vec![
            event(0, EventKind::Yield { length: us(10) }),
            event(1, EventKind::Block { length: us(12) }),
            event(2, EventKind::Wakeup(timer)),
        ];
        let insert = |before, length| Insert {
            before,
            length,
            op: ObjectOp::Lock { object: ObjectId(0) },
            recorded: Recorded::Awake,
        };
        // noted when the lengths were longer, or shorter
        let inserted = vec![insert(0, us(11)), insert(1, us(3)), insert(1, us(15))];
        let edits = Edits { inserted, ..Edits::default() };
        let out = rewrite(events, &edits, &mut 3, &mut HashMap::new());
        let lengths: Vec<Option<Span>> = out.iter().map(|event| event.kind.length()).collect();
        let expected = [10, 10, 10, 12, 12].map(|length| Some(us(length)));
        assert_eq!(lengths, [&expected[..], &[None]].concat());
    }
}
