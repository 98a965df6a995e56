//! What do tasks wait for, if not for a clock or for one certain event of another task? For each other, by way of
//! objects.
//!
//! ```text
//! OBJECT pipe channel capacity=2        writer  S S S-----S        puts 1 in each time; the third time it must wait
//!                                       reader  ..R.....R.R        takes 1 out each time; what is taken makes room
//! ```
//!
//! A recorded BLOCK waits for one recorded WAKEUP, whatever has happened meanwhile. A task at an object waits *if the
//! object says so*: a reader that finds its pipe full goes on, one that comes too early sleeps. So blocks are lost
//! and gained as they would be. `docs/objects.md` has the rules, one by one; [`ObjectOp`] names the operations.

use crate::{EventKind, Workload};
use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// Index into [`Workload::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(pub u32);

/// Something that tasks wait at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Object {
    /// Its name, unique in the workload.
    pub name: String,
    /// What it is.
    pub kind: ObjectKind,
    /// How it wakes: as the kernel does for this kind of thing.
    pub wakes: Wakes,
    /// What waiting there takes.
    pub costs: WaitCosts,
    /// Out of use from the start: nobody waits at it, and nothing that is done at it matters. Tools close the objects
    /// of tasks that they leave out.
    pub is_closed: bool,
    /// Its reader waits for several things at once, takes what there is, and answers then.
    pub is_polled: bool,
}

/// CPU time that a sleep takes, which lengths of events do not hold: who does not sleep does not use it. And where in
/// its call a task wakes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WaitCosts {
    /// Of who sleeps, after it was woken.
    pub sleep: Span,
    /// Of who wakes, after it has done so.
    pub wake: Span,
    /// Of who wakes, from there to the return of its call; part of the lengths. Whom it woke has its CPU then at the
    /// earliest.
    pub tail: Span,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A pipe, a socket, a message queue, an eventfd: senders put in, receivers take out.
    Channel {
        /// What it holds at most; `None`: there is always room.
        capacity: Option<u32>,
        /// What is in it at the start.
        start: u32,
        /// A sender that waits for room is let in once no more than this is left; `None`: at once.
        low: Option<u32>,
    },
    /// A channel as a pipe or a socket has it: who waits is woken when something can move, and tries again when he
    /// gets a CPU; who comes meanwhile may pass him.
    Stream {
        /// What it holds at most; `None`: there is always room.
        capacity: Option<u32>,
        /// What is in it at the start.
        start: u32,
        /// Senders that wait for room are woken once no more than this is left; `None`: at once.
        low: Option<u32>,
    },
    /// A counter; a taker gets all that it asks for at once, or waits.
    Semaphore {
        /// What there is at the start.
        start: u32,
    },
    /// Held by one task at a time.
    Mutex(Handover),
    /// Tasks wait here until another one signals.
    Condition,
    /// Tasks wait here until so many have come.
    Barrier {
        /// How many.
        parties: u32,
    },
    /// A periodic timer that several tasks share.
    Timer(Late),
}

impl ObjectKind {
    /// Whether no sender waits for room.
    pub fn has_always_room(self) -> bool {
        matches!(self, ObjectKind::Channel { capacity: None, .. } | ObjectKind::Stream { capacity: None, .. })
    }
}

/// Who gets a mutex that is let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Handover {
    /// Nobody yet: the one who has waited longest is woken and tries again. Another task may come first, as with a
    /// futex.
    #[default]
    Competing,
    /// The one who has waited longest.
    Fifo,
}

/// What a timer does whose expiry has passed when a task comes to wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Late {
    /// Its grid stays.
    #[default]
    Grid,
    /// The grid begins anew there.
    Restart,
}

/// How a task that waits is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wakes {
    /// An ordinary wakeup: futexes, eventfd, message queues.
    #[default]
    Plain,
    /// The waker says that it will sleep soon (`WF_SYNC`): pipes and sockets.
    Sync,
}

/// An amount that means "all there is, and at least 1" where a task receives.
pub const ALL: u32 = 0;

/// What a task does at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ObjectOp {
    /// Puts so much into a channel, or adds so much to a semaphore.
    Send {
        /// The channel or semaphore.
        object: ObjectId,
        /// How much.
        amount: u32,
    },
    /// Takes so much out.
    Receive {
        /// The channel or semaphore.
        object: ObjectId,
        /// How much, or [`ALL`].
        amount: u32,
    },
    /// Ends an object: nobody waits there any more.
    Close {
        /// The object.
        object: ObjectId,
    },
    /// Takes a mutex.
    Lock {
        /// The mutex.
        object: ObjectId,
    },
    /// Lets a mutex go.
    Unlock {
        /// The mutex.
        object: ObjectId,
    },
    /// Lets a mutex go, waits for a signal, and takes the mutex again.
    Wait {
        /// The condition.
        object: ObjectId,
        /// The mutex.
        mutex: ObjectId,
    },
    /// Wakes the task that has waited longest, if one waits.
    Signal {
        /// The condition.
        object: ObjectId,
    },
    /// Wakes all that wait.
    Broadcast {
        /// The condition.
        object: ObjectId,
    },
    /// Waits until all parties have come.
    Arrive {
        /// The barrier.
        object: ObjectId,
    },
    /// Waits for a timer's next expiry.
    Tick {
        /// The timer.
        object: ObjectId,
        /// From the expiry before (the first: from the start) to this one.
        period: Span,
    },
}

/// What a recording tells of an operation at an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recorded {
    /// Nothing: it was written by hand or drawn.
    #[default]
    Nothing,
    /// The task slept for it.
    Slept,
    /// The task did not sleep.
    Awake,
}

impl ObjectKind {
    /// Its word in the text form.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Channel { .. } => "channel",
            ObjectKind::Stream { .. } => "stream",
            ObjectKind::Semaphore { .. } => "semaphore",
            ObjectKind::Mutex(_) => "mutex",
            ObjectKind::Condition => "condition",
            ObjectKind::Barrier { .. } => "barrier",
            ObjectKind::Timer(_) => "timer",
        }
    }
}

impl ObjectOp {
    /// Its type in the text form.
    pub fn name(self) -> &'static str {
        match self {
            ObjectOp::Send { .. } => "SEND",
            ObjectOp::Receive { .. } => "RECV",
            ObjectOp::Close { .. } => "CLOSE",
            ObjectOp::Lock { .. } => "LOCK",
            ObjectOp::Unlock { .. } => "UNLOCK",
            ObjectOp::Wait { .. } => "WAIT",
            ObjectOp::Signal { .. } => "SIGNAL",
            ObjectOp::Broadcast { .. } => "BROADCAST",
            ObjectOp::Arrive { .. } => "ARRIVE",
            ObjectOp::Tick { .. } => "TICK",
        }
    }

    /// The object.
    #[inline]
    pub fn object(self) -> ObjectId {
        match self {
            ObjectOp::Send { object, .. }
            | ObjectOp::Receive { object, .. }
            | ObjectOp::Close { object }
            | ObjectOp::Lock { object }
            | ObjectOp::Unlock { object }
            | ObjectOp::Wait { object, .. }
            | ObjectOp::Signal { object }
            | ObjectOp::Broadcast { object }
            | ObjectOp::Arrive { object }
            | ObjectOp::Tick { object, .. } => object,
        }
    }

    /// The same at other objects.
    #[must_use]
    pub fn mapped(self, of: impl Fn(ObjectId) -> ObjectId) -> ObjectOp {
        match self {
            ObjectOp::Send { object, amount } => ObjectOp::Send { object: of(object), amount },
            ObjectOp::Receive { object, amount } => ObjectOp::Receive { object: of(object), amount },
            ObjectOp::Close { object } => ObjectOp::Close { object: of(object) },
            ObjectOp::Lock { object } => ObjectOp::Lock { object: of(object) },
            ObjectOp::Unlock { object } => ObjectOp::Unlock { object: of(object) },
            ObjectOp::Wait { object, mutex } => ObjectOp::Wait { object: of(object), mutex: of(mutex) },
            ObjectOp::Signal { object } => ObjectOp::Signal { object: of(object) },
            ObjectOp::Broadcast { object } => ObjectOp::Broadcast { object: of(object) },
            ObjectOp::Arrive { object } => ObjectOp::Arrive { object: of(object) },
            ObjectOp::Tick { object, period } => ObjectOp::Tick { object: of(object), period },
        }
    }

    /// Whether this can be done at an object of this kind.
    pub fn fits(self, kind: ObjectKind) -> bool {
        match self {
            ObjectOp::Close { .. } => true,
            ObjectOp::Send { .. } | ObjectOp::Receive { .. } => {
                let takes = matches!(kind, ObjectKind::Channel { .. } | ObjectKind::Stream { .. });
                takes || matches!(kind, ObjectKind::Semaphore { .. })
            }
            ObjectOp::Lock { .. } | ObjectOp::Unlock { .. } => matches!(kind, ObjectKind::Mutex(_)),
            ObjectOp::Wait { .. } | ObjectOp::Signal { .. } | ObjectOp::Broadcast { .. } => {
                kind == ObjectKind::Condition
            }
            ObjectOp::Arrive { .. } => matches!(kind, ObjectKind::Barrier { .. }),
            ObjectOp::Tick { .. } => matches!(kind, ObjectKind::Timer(_)),
        }
    }
}

impl Recorded {
    /// Its word in the text form; empty for [`Recorded::Nothing`].
    pub fn name(self) -> &'static str {
        match self {
            Recorded::Nothing => "",
            Recorded::Slept => "slept",
            Recorded::Awake => "awake",
        }
    }
}

impl Workload {
    /// The object of this number.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    /// Takes objects out of use that tasks need which are left out; how many were in use.
    pub(crate) fn close_objects(&mut self, meant: impl Fn(ObjectId) -> bool) -> u64 {
        let mut closed = 0;
        for (row, object) in (0..).zip(&mut self.objects) {
            if !object.is_closed && meant(ObjectId(row)) {
                object.is_closed = true;
                closed += 1;
            }
        }
        closed
    }

    /// A new object.
    pub fn add_object(&mut self, object: Object) -> ObjectId {
        self.objects.push(object);
        ObjectId(self.objects.len() as u32 - 1)
    }
}

impl EventKind {
    /// The objects that it concerns.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let both = match *self {
            EventKind::Object { op: ObjectOp::Wait { object, mutex }, .. } => [Some(object), Some(mutex)],
            EventKind::Object { op, .. } => [Some(op.object()), None],
            _ => [None, None],
        };
        both.into_iter().flatten()
    }

    /// An operation of which nothing was recorded.
    pub fn at_object(length: Span, op: ObjectOp) -> EventKind {
        EventKind::Object { length, op, recorded: Recorded::Nothing }
    }
}
