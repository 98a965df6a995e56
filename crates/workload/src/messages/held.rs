//! Which mutexes does a task hold while it sleeps a recorded sleep?
//!
//! A recorded block ends when one certain task comes to one certain place. Mutexes are had in another order in the
//! replay than in the recording. Who sleeps such a sleep with a mutex could then wait for a task that waits for the
//! mutex: a deadlock that the program has not. A signal at a condition does so in glibc: it waits for those who leave
//! the condition, whom another one has woken, who needs the mutex for that.
//!
//! ```text
//! recorded   A: lock m, wakes W, unlock m       W: leaves, wakes B       B: lock m, sleeps until W leaves, unlock m
//! replayed   B has m first: W waits for A, A for m, B for W
//! workload   B: LOCK m, UNLOCK m, BLOCK, WAKEUP (by W), LOCK m, UNLOCK m
//! ```

use super::edit::Insert;
use crate::{Event, EventKind, ObjectId, ObjectOp, Recorded, Wakeup};
use schedlab_units::Span;
use std::iter::Peekable;
use std::vec::IntoIter;

/// From which events on a task holds a mutex, and does not.
#[derive(Debug, Default)]
pub(super) struct Holds {
    changes: Vec<(usize, ObjectId, Change)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Taken,
    LetGo,
}

impl Holds {
    pub fn begins(&mut self, mutex: ObjectId, row: usize) {
        self.changes.push((row, mutex, Change::Taken));
    }

    pub fn ends(&mut self, mutex: ObjectId, row: usize) {
        self.changes.push((row, mutex, Change::LetGo));
    }

    /// The same, to be asked for one row after the other.
    pub fn in_order(&self) -> Held {
        let mut changes = self.changes.clone();
        changes.sort_by_key(|(row, ..)| *row);
        Held { changes: changes.into_iter().peekable(), now: Vec::new() }
    }
}

/// What a task holds on its way.
pub(super) struct Held {
    changes: Peekable<IntoIter<(usize, ObjectId, Change)>>,
    now: Vec<ObjectId>,
}

impl Held {
    /// Which mutexes it holds before the event of a row, in the order in which it took them; rows only grow.
    pub fn at(&mut self, row: usize) -> &[ObjectId] {
        while let Some((_, mutex, change)) = self.changes.next_if(|(at, ..)| *at <= row) {
            match change {
                Change::Taken => self.now.push(mutex),
                Change::LetGo => self.now.retain(|held| *held != mutex),
            }
        }
        &self.now
    }
}

/// What a task lets go before it blocks at `row` until another task wakes it, and takes again after.
pub(super) fn let_go(held: &mut Held, events: &[Event], row: usize) -> Vec<Insert> {
    let (Some(EventKind::Block { length }), Some(EventKind::Wakeup(Wakeup::Dependent { .. }))) =
        (events.get(row).map(|event| &event.kind), events.get(row + 1).map(|event| &event.kind))
    else {
        return Vec::new();
    };
    let held = held.at(row);
    let insert = |before, length, op| Insert { before, length, op, recorded: Recorded::Awake };
    let goes = held.iter().rev().map(|object| insert(row, *length, ObjectOp::Unlock { object: *object }));
    let mut inserts: Vec<Insert> = goes.collect();
    if events.get(row + 2).is_some_and(|next| next.kind.length().is_some()) {
        let comes = held.iter().map(|object| insert(row + 2, Span::ZERO, ObjectOp::Lock { object: *object }));
        inserts.extend(comes);
    }
    inserts
}
