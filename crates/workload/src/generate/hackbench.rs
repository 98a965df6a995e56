//! Groups of senders and receivers, every sender to every receiver of its group, as in `hackbench`.
//!
//! ```text
//! sender 0   sssS----------sssS          s a message sent; S the last of a window: then the sender waits
//! receiver 0 .r....r                     r a message received: until it comes, the receiver is blocked
//! receiver 1 ..r....r                    (a message that comes while the receiver is busy is waiting for it, and it goes on)
//! ```
//!
//! Message (turn, sender, receiver): in each turn a sender sends one message to every receiver of its group, in order. A receiver takes
//! turn after turn, in each the senders in order. A full socket buffer is modelled by `window`: after so many messages the sender waits until
//! the last of them is received. No order of events can make that a deadlock: what a message waits for comes before it in the order
//! (turn, sender, receiver).

use super::build::{Builder, Place};
use super::{GenerateError, duration, nice};
use crate::limits::TIME_MAX;
use crate::{InitState, Workload};
use schedlab_units::{SchedParams, Span, TaskId};
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
}

impl Default for Hackbench {
    /// 4 groups of 20 senders and 20 receivers (hackbench's group), 10 turns; 3 us to send, 2 us to receive, a guess for 100-byte messages.
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
        let mut builder = Builder::new(
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
        let params = SchedParams::normal(nice("nice", self.nice)?);
        for _ in 0..self.groups {
            self.group(&mut builder, params);
        }
        Ok(builder.finish())
    }

    fn group(&self, builder: &mut Builder, params: SchedParams) {
        let senders: Vec<TaskId> =
            (0..self.senders).map(|_| builder.task("sender".into(), params, InitState::Runnable)).collect();
        let receivers: Vec<TaskId> = (0..self.receivers)
            .map(|_| builder.task("receiver".into(), params, InitState::Blocked))
            .collect();
        // per sender: waits for its next event, each with the number of the message that ends them
        let mut waits: Vec<Vec<(Place, u64)>> = vec![Vec::new(); senders.len()];
        let mut sent = vec![0u64; senders.len()]; // in the current window
        // per receiver: waits for its next event (of senders whose window is full)
        let mut acknowledge: Vec<Vec<Place>> = vec![Vec::new(); receivers.len()];
        let mut first = vec![true; receivers.len()];
        for turn in 0..self.turns {
            for (s, &sender) in senders.iter().enumerate() {
                for (r, &receiver) in receivers.iter().enumerate() {
                    // the receiver: is done with the message before, then waits for this one
                    if !std::mem::take(&mut first[r]) {
                        let done = builder.block(receiver, self.receive);
                        for place in acknowledge[r].drain(..) {
                            builder.set_event(place, done, Span::ZERO);
                        }
                    }
                    sent[s] += 1;
                    let message = sent[s];
                    waits[s].push((builder.wait(receiver, sender), message));
                    // the sender: blocks when the window is full, until this receiver has taken this message; ends after the last
                    let is_last = turn + 1 == self.turns && r + 1 == receivers.len();
                    let cpu = Span::from_ns(self.send.as_ns() * message);
                    if is_last || message == u64::from(self.window) {
                        let event =
                            if is_last { builder.exit(sender, cpu) } else { builder.block(sender, cpu) };
                        for (place, number) in waits[s].drain(..) {
                            let distance = Span::from_ns(self.send.as_ns() * (message - number));
                            builder.set_event(place, event, distance);
                        }
                        if !is_last {
                            acknowledge[r].push(builder.wait(sender, receiver));
                        }
                        sent[s] = 0;
                    }
                }
            }
        }
        for (r, &receiver) in receivers.iter().enumerate() {
            let done = if first[r] { None } else { Some(builder.exit(receiver, self.receive)) };
            for (place, done) in acknowledge[r].drain(..).zip(done) {
                builder.set_event(place, done, Span::ZERO);
            }
        }
    }
}
