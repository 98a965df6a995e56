//! Weighted round robin: each in turn, for a time in proportion to its share.
//!
//! The oldest proportional share scheduler: O(1), and right on average, but a client with share S runs S
//! quanta at a stretch, so that it is far ahead after its turn and far behind before: with shares 3, 2, 1 by
//! up to 1.5 quanta, with 300, 200, 100 by up to 150.
//!
//! ```text
//! shares 3,2,1: A A A B B C | A A A B B C | ...
//! ```
//!
//! *Source*: the round robin section of Nieh, Vaill, Zhong, "Virtual-Time Round-Robin" (USENIX ATC 2001),
//! after Kleinrock. *Differs*: clients stand in order of arrival; one that gives its turn up early (blocks,
//! yields) loses the rest of it. Several CPUs share the line. With nice weights as shares, nice 0 has one
//! quantum per turn and the others in proportion, at least 1 ns.

use crate::proportional::{Discipline, May, row};
use schedlab_units::TaskId;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct Wrr {
    quantum: u64,
    /// The share that has one quantum per turn.
    unit: u64,
    line: VecDeque<TaskId>,
    /// Share by client.
    shares: Vec<u64>,
}

impl Wrr {
    /// A client with share `unit` runs for one `quantum` per turn.
    pub fn new(quantum: u64, unit: u64) -> Wrr {
        Wrr { quantum, unit, line: VecDeque::new(), shares: Vec::new() }
    }
}

impl Discipline for Wrr {
    fn join(&mut self, client: TaskId, share: u64) {
        self.set_share(client, share);
        self.line.push_back(client);
    }

    fn leave(&mut self, client: TaskId) {
        if let Some(place) = self.line.iter().position(|&c| c == client) {
            self.line.remove(place);
        }
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        let place = self.line.iter().position(|&client| may(client))?;
        self.line.remove(place)
    }

    fn charge(&mut self, _client: TaskId, _used: u64) {}

    fn put(&mut self, client: TaskId) {
        self.line.push_back(client);
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        let index = row(&mut self.shares, client, &0);
        self.shares[index] = share;
    }

    fn slice(&self, client: TaskId) -> u64 {
        let slice =
            u128::from(self.quantum) * u128::from(self.shares[client.index()]) / u128::from(self.unit);
        u64::try_from(slice).unwrap_or(u64::MAX).max(1)
    }
}
