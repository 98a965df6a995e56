//! Groups of senders and receivers, every sender to every receiver of its group, as in `hackbench`.
//!
//! ```text
//! sender 0   sssS----------sssS    s a message sent; S the last of a window: then the sender waits
//! receiver 0 .r....r               r a message received: until it comes, the receiver is blocked
//! receiver 1 ..r....r              (a message that comes while the receiver is busy is waiting for it, and it goes on)
//! ```
//!
//! Message (turn, sender, receiver): in each turn a sender sends one message to every receiver of its group,
//! in order. A receiver takes turn after turn, in each the senders in order. A full socket buffer is modelled
//! by `window`: after so many messages the sender waits until the last of them is received. No order of
//! events can make that a deadlock: what a message waits for comes before it in the order (turn, sender,
//! receiver).

use super::{GenerateError, duration, finished, nice};
use crate::build::Place;
use crate::limits::TIME_MAX;
use crate::{Builder, Object, ObjectId, ObjectKind, ObjectOp, WaitCosts, Wakes, Workload};
use schedlab_units::{Nice, Span, TaskId};
use serde::{Deserialize, Serialize};

/// Parameters; the defaults are those of `hackbench` with fewer groups and turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hackbench {
    /// Groups, independent of each other.
    pub groups: u32,
    /// Senders in each group.
    pub senders: u32,
    /// Receivers in each group.
    pub receivers: u32,
    /// Turns: messages from each sender to each receiver.
    pub turns: u32,
    /// CPU time to send a message.
    #[serde(with = "duration")]
    pub send: Span,
    /// CPU time to receive one.
    #[serde(with = "duration")]
    pub receive: Span,
    /// Messages a sender may have on the way.
    pub window: u32,
    /// Nice value of all.
    pub nice: i32,
    /// Whether each receiver has a socket, an object of `window` messages, as in the real program: who waits for whom
    /// is then decided by what is in the sockets when the tasks run, not beforehand.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
}

impl Default for Hackbench {
    /// 4 groups of 20 senders and 20 receivers (hackbench's group), 10 turns; 3 us to send, 2 us to receive,
    /// a guess for 100-byte messages.
    fn default() -> Hackbench {
        Hackbench {
            groups: 4,
            senders: 20,
            receivers: 20,
            turns: 10,
            send: Span::from_us(3),
            receive: Span::from_us(2),
            window: 64,
            nice: 0,
            objects: false,
        }
    }
}

impl Hackbench {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        for (name, value) in [
            ("groups", self.groups),
            ("senders", self.senders),
            ("receivers", self.receivers),
            ("turns", self.turns),
            ("window", self.window),
        ] {
            if value == 0 {
                return Err(GenerateError::Parameter { name, value: "0".into(), expected: "1 or more" });
            }
        }
        let of = |n: u32| u128::from(n);
        let messages = of(self.groups)
            .saturating_mul(of(self.senders) * of(self.receivers))
            .saturating_mul(of(self.turns));
        let tasks = of(self.groups) * (of(self.senders) + of(self.receivers));
        let mut builder = Builder::new().with_room(
            messages.saturating_mul(2 + 2_u128.div_ceil(of(self.window))).saturating_add(tasks * 2),
        )?;
        let sending = self.send.as_ns().checked_mul(u64::from(self.turns) * u64::from(self.receivers));
        let receiving = self.receive.as_ns().checked_mul(u64::from(self.turns) * u64::from(self.senders));
        let long = |ns: Option<u64>| ns.is_none_or(|ns| Span::from_ns(ns) > TIME_MAX);
        if long(sending) || long(receiving) {
            let value = format!("{} and {}", self.send, self.receive);
            return Err(GenerateError::Parameter {
                name: "send and receive",
                value,
                expected: "at most 1000000s in sum",
            });
        }
        let nice = nice("nice", self.nice)?;
        for group in 0..self.groups {
            if self.objects {
                self.group_with_sockets(&mut builder, nice, group);
            } else {
                self.group(&mut builder, nice);
            }
        }
        finished(builder)
    }

    /// A socket per receiver, of which every sender of the group has an end. A full socket takes senders in again
    /// when it is down to a quarter (`unix_writable()`).
    fn group_with_sockets(&self, builder: &mut Builder, nice: Nice, group: u32) {
        let low = (self.window > 4).then_some(self.window / 4);
        let kind = ObjectKind::Channel { capacity: Some(self.window), start: 0, low };
        let sockets: Vec<ObjectId> = (0..self.receivers)
            .map(|receiver| {
                let name = format!("socket-{}-{}", group + 1, receiver + 1);
                builder.object(Object {
                    name,
                    kind,
                    wakes: Wakes::Sync,
                    costs: WaitCosts::default(),
                    is_closed: false,
                    is_polled: false,
                })
            })
            .collect();
        for _ in 0..self.senders {
            let mut sender = builder.task("sender").nice(nice);
            for _ in 0..self.turns {
                for &object in &sockets {
                    sender = sender.run(self.send).at(ObjectOp::Send { object, amount: 1 });
                }
            }
            sender.exit();
        }
        for object in sockets {
            let mut receiver = builder.task("receiver").nice(nice);
            for _ in 0..u64::from(self.turns) * u64::from(self.senders) {
                receiver = receiver.at(ObjectOp::Receive { object, amount: 1 }).run(self.receive);
            }
            receiver.exit();
        }
    }

    fn group(&self, builder: &mut Builder, nice: Nice) {
        let senders: Vec<TaskId> =
            (0..self.senders).map(|_| builder.task("sender").nice(nice).id()).collect();
        let receivers: Vec<TaskId> =
            (0..self.receivers).map(|_| builder.task("receiver").nice(nice).blocked().id()).collect();
        let mut sent = vec![0u32; senders.len()]; // in the current window
        // per receiver: waits for its next event (of senders whose window is full)
        let mut acknowledge: Vec<Vec<Place>> = vec![Vec::new(); receivers.len()];
        let mut first = vec![true; receivers.len()];
        for turn in 0..self.turns {
            for (s, &sender) in senders.iter().enumerate() {
                for (r, &receiver) in receivers.iter().enumerate() {
                    // the receiver: is done with the message before, then waits for this one
                    if !std::mem::take(&mut first[r]) {
                        let done = builder.life(receiver).run(self.receive).block().eid();
                        for place in acknowledge[r].drain(..) {
                            builder.set_event(place, done, Span::ZERO);
                        }
                    }
                    sent[s] += 1;
                    builder.life(sender).run(self.send).wakes(receiver);
                    // the sender: blocks when the window is full, until this receiver has taken this message;
                    // ends after the last
                    if turn + 1 == self.turns && r + 1 == receivers.len() {
                        builder.life(sender).exit();
                    } else if sent[s] == self.window {
                        acknowledge[r].push(builder.wait(sender, receiver));
                        sent[s] = 0;
                    }
                }
            }
        }
        for (r, &receiver) in receivers.iter().enumerate() {
            let done =
                if first[r] { None } else { Some(builder.life(receiver).run(self.receive).exit().eid()) };
            for (place, done) in acknowledge[r].drain(..).zip(done) {
                builder.set_event(place, done, Span::ZERO);
            }
        }
    }
}
