//! How much does a socket hold, where the kernel does not say so?
//!
//! A socket of the internet holds what its two buffers hold, and both change while it is used. But who waits for room
//! shows how much was in it then, and who lets it in shows how much of that was gone:
//!
//! ```text
//! level     5.2   5.3 MB                          4.1 MB
//! sender    SEND  SEND: waits for room .......... goes on           it holds 5.3 MB, and lets in at 4.1 MB
//! receiver                  RECV  RECV ... RECV
//! ```
//!
//! A SEND that waits has put in part of its amount: half is taken for the middle. The medians of at least [`WAITS_MIN`]
//! waits count, and only if the middle half of them lies within half the median.

use super::costs::Waits;
use super::recorded::op_of;
use crate::{EventId, ObjectId, ObjectOp, Workload};
use std::collections::BTreeMap;

/// Fewer waits for room tell nothing.
const WAITS_MIN: usize = 16;

/// A sender that had to wait for room.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoomWait {
    pub object: ObjectId,
    /// Its BLOCK and its WAKEUP.
    pub asleep: (EventId, EventId),
    /// What it was to send.
    pub amount: u32,
    /// What the receiver was to take out in the call that let it in.
    pub taken: u32,
}

/// What a channel holds, and at which level its senders are let in.
pub(super) type Holds = (u64, u64);

/// The channels whose room shows, by their rows. Events must have their recorded numbers, in order of time.
pub(super) fn shown(workload: &Workload, waits: &Waits, start: impl Fn(u32) -> u64) -> BTreeMap<u32, Holds> {
    let mut by_object: BTreeMap<u32, Vec<RoomWait>> = BTreeMap::new();
    for wait in &waits.for_room {
        by_object.entry(wait.object.0).or_default().push(*wait);
    }
    by_object.retain(|_, waits| waits.len() >= WAITS_MIN);
    if by_object.is_empty() {
        return BTreeMap::new();
    }
    let mut moved: BTreeMap<u32, Vec<(EventId, i64)>> =
        by_object.keys().map(|row| (*row, Vec::new())).collect();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        let (object, change) = match op_of(event) {
            Some(ObjectOp::Send { object, amount }) => (object, i64::from(amount)),
            Some(ObjectOp::Receive { object, amount }) => (object, -i64::from(amount)),
            _ => continue,
        };
        if let Some(of) = moved.get_mut(&object.0) {
            of.push((event.eid, change));
        }
    }
    let of =
        |(row, waits): (u32, Vec<RoomWait>)| Some((row, holds(&waits, moved.remove(&row)?, start(row))?));
    by_object.into_iter().filter_map(of).collect()
}

/// What one channel holds.
fn holds(waits: &[RoomWait], mut moved: Vec<(EventId, i64)>, start: u64) -> Option<Holds> {
    moved.sort_unstable();
    // from changes to levels: what is there after each
    let start = i64::try_from(start).ok()?;
    let mut level = start;
    for (_, change) in &mut moved {
        level += *change;
        *change = level;
    }
    let before = |eid: EventId| match moved.partition_point(|(at, _)| *at < eid) {
        0 => start,
        nr => moved[nr - 1].1,
    };
    let at = |wait: &RoomWait| {
        let (slept, woken) = wait.asleep;
        let full = before(slept) + i64::from(wait.amount) / 2;
        (full, full - (before(slept) - before(woken)).max(0) - i64::from(wait.taken))
    };
    let (mut full, mut let_in): (Vec<i64>, Vec<i64>) = waits.iter().map(at).unzip();
    full.sort_unstable();
    let_in.sort_unstable();
    let [low_quarter, holds, high_quarter] = [1, 2, 3].map(|quarter| full[(full.len() - 1) * quarter / 4]);
    if holds <= 0 || high_quarter - low_quarter > holds / 2 {
        return None;
    }
    let low = let_in[(let_in.len() - 1) / 2].clamp(0, holds - 1);
    Some((holds as u64, low as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender of 10 each that waits whenever 100 are there, and a receiver who takes 20 twice before it is let in.
    fn waits(nr: u64) -> (Vec<RoomWait>, Vec<(EventId, i64)>) {
        let mut moved: Vec<(EventId, i64)> = (0..10).map(|at| (EventId(at), 10)).collect();
        let mut waits = Vec::new();
        for round in 0..nr {
            let at = 100 + 100 * round;
            let asleep = (EventId(at), EventId(at + 2));
            waits.push(RoomWait { object: ObjectId(0), asleep, amount: 10, taken: 20 });
            moved.extend([(EventId(at + 1), -20), (EventId(at + 3), -20)]);
            moved.extend((4..8).map(|later| (EventId(at + later), 10)));
        }
        (waits, moved)
    }

    #[test]
    fn a_channel_holds_what_is_there_when_its_sender_waits() {
        let (waits, moved) = waits(20);
        assert_eq!(holds(&waits, moved, 0), Some((105, 65)));
    }

    #[test]
    fn what_was_there_at_the_start_counts() {
        let (waits, moved) = waits(20);
        assert_eq!(holds(&waits, moved, 30), Some((135, 95)));
    }

    #[test]
    fn waits_that_disagree_show_nothing() {
        let (mut waits, moved) = waits(20);
        for (nr, wait) in waits.iter_mut().enumerate() {
            wait.amount = 200 * nr as u32;
        }
        assert_eq!(holds(&waits, moved, 0), None);
    }
}
