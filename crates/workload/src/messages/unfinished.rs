//! Which calls had not returned when the recording ended?
//!
//! A call's event comes when it returns. Of one that has woken a task and then lost its CPU until the end there is
//! none, though its message has been received:
//!
//! ```text
//! recorded   A: .. write(pipe) wakes B, preempted .. (the end)      B: BLOCK, WAKEUP (by A), read(pipe) returns
//! workload   A: .. SEND pipe                                        B: BLOCK, WAKEUP (by A), RECV pipe
//! ```
//!
//! Without it the message would be taken as one that was in the pipe all along, and the replay would have one too many.

use super::recorded::{Channels, op_of, places, side, waits_for};
use crate::{Event, EventId, EventKind, ObjectId, ObjectOp, Recorded, Wakeup, Workload};
use std::collections::BTreeMap;

/// Puts such calls in, at the end of their task; gives how many.
pub(super) fn finish(workload: &mut Workload, channels: &Channels) -> u64 {
    let places = places(workload);
    let mut found: BTreeMap<usize, ObjectOp> = BTreeMap::new();
    for events in workload.tasks.iter().map(|task| &task.events) {
        for (row, pair) in events.windows(2).enumerate() {
            let (EventKind::Block { .. }, EventKind::Wakeup(Wakeup::Dependent { event, task: waker, .. })) =
                (&pair[0].kind, &pair[1].kind)
            else {
                continue;
            };
            let Some((task, place)) = places.get(event).copied().filter(|(task, _)| *task == waker.index())
            else {
                continue;
            };
            let own = &workload.tasks[task].events;
            let is_end = place + 1 == own.len() && matches!(own[place].kind, EventKind::Block { .. });
            if !is_end || found.contains_key(&task) {
                continue;
            }
            // what it did before, the last first
            let known = own.iter().rev().filter_map(op_of).find_map(|op| {
                let (object, sends) = moved(op)?;
                let at = waits_for(events, row + 2, (object, !sends))?;
                let is_channel = channels.list[object.0 as usize].kind.is_channel();
                is_channel.then(|| op_of(&events[at]).map(|answer| opposite(answer, object)))?
            });
            found.extend(known.map(|op| (task, op)));
        }
    }
    let mut fresh = workload.free_eid().0;
    let nr = found.len() as u64;
    for (task, op) in found {
        let events = &mut workload.tasks[task].events;
        let Some(length) = events.last().and_then(|last| last.kind.length()) else { continue };
        let kind = EventKind::Object { length, op, recorded: Recorded::Awake };
        // what its wakeups are placed before is the call now
        let last = events.len() - 1;
        let eid = std::mem::replace(&mut events[last].eid, EventId(fresh));
        events.insert(last, Event { eid, kind });
        fresh += 1;
    }
    nr
}

/// Where something is sent or received, and which of the two.
fn moved(op: ObjectOp) -> Option<(ObjectId, bool)> {
    matches!(op, ObjectOp::Send { .. } | ObjectOp::Receive { .. }).then(|| side(op))
}

/// What lets this one go on.
fn opposite(op: ObjectOp, object: ObjectId) -> ObjectOp {
    match op {
        ObjectOp::Receive { amount, .. } => ObjectOp::Send { object, amount },
        ObjectOp::Send { amount, .. } => ObjectOp::Receive { object, amount },
        other => other,
    }
}
