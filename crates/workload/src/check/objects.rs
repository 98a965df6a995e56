//! What is known of objects without a schedule: names, numbers, the order of one task's operations.

use crate::{Object, ObjectId, ObjectKind, ObjectOp};
use std::collections::BTreeSet;

/// What is wrong with an object, or with what is done at it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectFlaw {
    /// Two objects of one name.
    #[error("an earlier object has that name; give every object a name of its own")]
    DuplicateName,
    /// No name.
    #[error("an object needs a name")]
    NoName,
    /// Numbers of a channel.
    #[error(
        "a channel holds 1 or more, starts with no more, lets senders in below it; correct capacity=, start=, low="
    )]
    Channel,
    /// Nobody would ever come.
    #[error("a barrier needs parties=1 or more")]
    Parties,
    /// No such object.
    #[error("names object number {0}, but the workload has {1}")]
    Missing(u32, usize),
    /// The operation is another object's.
    #[error("{op} cannot be done at {name}, which is a {kind}")]
    Unfit {
        /// The operation.
        op: &'static str,
        /// The object.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// A negative or missing amount.
    #[error("sends nothing; expected an amount of 1 or more")]
    NoAmount,
    /// After its own CLOSE.
    #[error("uses {0} after it has closed it itself; move the CLOSE behind its last use")]
    AfterClose(String),
    /// Locks twice.
    #[error("locks {0}, which it holds already: it would wait for itself; unlock it first")]
    LocksTwice(String),
    /// Unlocks what it has not locked.
    #[error("lets {0} go, but does not hold it; lock it first")]
    NotHeld(String),
    /// Receives that nobody serves.
    #[error("tasks wait here, but nobody ever sends, signals or closes it; add who does, or start=")]
    NobodySends,
    /// A barrier that never opens.
    #[error("opens when {parties} tasks have come, but only {arrive} ever come; correct parties=")]
    TooFewArrive {
        /// As stated.
        parties: u32,
        /// Tasks that come.
        arrive: u32,
    },
}

/// Who does what at an object.
#[derive(Clone, Default)]
pub(super) struct Uses {
    pub is_awaited: bool,
    pub is_served: bool,
    /// The last task that came, and how many did.
    pub arrived: Option<usize>,
    pub nr_arrived: u32,
}

/// What is wrong with an object by itself.
pub(super) fn object_flaw(object: &Object) -> Option<ObjectFlaw> {
    match object.kind {
        _ if object.name.is_empty() => Some(ObjectFlaw::NoName),
        ObjectKind::Channel { capacity: Some(capacity), start, low }
        | ObjectKind::Stream { capacity: Some(capacity), start, low } => {
            let wrong = capacity == 0 || start > capacity || low.is_some_and(|low| low >= capacity);
            wrong.then_some(ObjectFlaw::Channel)
        }
        ObjectKind::Barrier { parties: 0 } => Some(ObjectFlaw::Parties),
        _ => None,
    }
}

/// One task's way through its operations.
#[derive(Default)]
pub(super) struct AtObjects {
    held: BTreeSet<ObjectId>,
    closed: BTreeSet<ObjectId>,
}

impl AtObjects {
    pub fn step(&mut self, objects: &[Object], op: ObjectOp) -> Result<(), ObjectFlaw> {
        let get = |id: ObjectId| objects.get(id.0 as usize).ok_or(ObjectFlaw::Missing(id.0, objects.len()));
        let (id, object) = (op.object(), get(op.object())?);
        let name = || object.name.clone();
        if !op.fits(object.kind) {
            return Err(ObjectFlaw::Unfit { op: op.name(), name: name(), kind: object.kind.name() });
        }
        if self.closed.contains(&id) {
            return Err(ObjectFlaw::AfterClose(name()));
        }
        match op {
            ObjectOp::Send { amount: 0, .. } => Err(ObjectFlaw::NoAmount),
            ObjectOp::Close { .. } => {
                self.closed.insert(id);
                self.held.remove(&id);
                Ok(())
            }
            ObjectOp::Lock { .. } if !self.held.insert(id) => Err(ObjectFlaw::LocksTwice(name())),
            ObjectOp::Unlock { .. } if !self.held.remove(&id) => Err(ObjectFlaw::NotHeld(name())),
            ObjectOp::Wait { mutex, .. } => {
                let own = get(mutex)?;
                if !matches!(own.kind, ObjectKind::Mutex(_)) {
                    let (op, kind) = ("WAIT", own.kind.name());
                    return Err(ObjectFlaw::Unfit { op, name: own.name.clone(), kind });
                }
                let held = self.held.contains(&mutex);
                if held { Ok(()) } else { Err(ObjectFlaw::NotHeld(own.name.clone())) }
            }
            _ => Ok(()),
        }
    }
}
