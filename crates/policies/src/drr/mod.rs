//! Deficit round robin: as weighted round robin, but in whole quanta, and what is left of a turn counts for the next.
//!
//! Made for packets that cannot be cut: each turn adds `credit` x share to a client's deficit; it is served
//! in whole quanta (the packets) while its deficit covers one; the rest is kept. With a credit of one quantum
//! per share it is weighted round robin; with a smaller credit turns are shorter and errors smaller, at the
//! price of turns in which nobody's deficit suffices.
//!
//! ```text
//! shares 3,2,1, credit = 1 quantum:    A A A B B C | ...
//! shares 3,2,1, credit = 1/2 quantum:  A B | A A B C | A B | ...      deficits after the first turn: A 1/2, B 0, C 1/2
//! ```
//!
//! *Source*: Shreedhar, Varghese, "Efficient Fair Queuing Using Deficit Round Robin" (SIGCOMM 1995).
//! *Differs*: a quantum of CPU time takes the place of the packet, all of one size; turns in which no deficit
//! suffices are skipped in one step. A client that blocks loses its deficit (as an empty queue does there).
//! With nice weights as shares, `credit` is that of nice 0. A share's credit is rounded down to the unit of
//! time (1 ns), at least 1: exact shares need credit x share to be whole.

use crate::proportional::{Discipline, May, row};
use schedlab_units::TaskId;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct Drr {
    quantum: u64,
    credit: u64,
    unit: u64,
    line: VecDeque<TaskId>,
    clients: Vec<Client>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// Per turn.
    credit: u64,
    deficit: u64,
}

impl Drr {
    /// Served in whole `quantum`s; a client with share `unit` earns `credit` per turn.
    pub fn new(quantum: u64, credit: u64, unit: u64) -> Drr {
        Drr { quantum, credit, unit, line: VecDeque::new(), clients: Vec::new() }
    }

    /// One turn along the line: the first client that may be served and whose deficit suffices. Those passed
    /// over go to the end; those that may not be served here keep their place.
    fn turn(&mut self, may: May<'_>) -> Option<TaskId> {
        let mut place = 0;
        for _ in 0..self.line.len() {
            let client = self.line[place];
            if !may(client) {
                place += 1;
                continue;
            }
            self.line.remove(place);
            let state = &mut self.clients[client.index()];
            state.deficit = state.deficit.saturating_add(state.credit);
            if state.deficit >= self.quantum {
                return Some(client);
            }
            self.line.push_back(client);
        }
        None
    }
}

impl Discipline for Drr {
    fn join(&mut self, client: TaskId, share: u64) {
        self.set_share(client, share);
        self.clients[client.index()].deficit = 0;
        self.line.push_back(client);
    }

    fn leave(&mut self, client: TaskId) {
        if let Some(place) = self.line.iter().position(|&c| c == client) {
            self.line.remove(place);
        }
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        if let Some(client) = self.turn(may) {
            return Some(client);
        }
        // nobody's deficit suffices: skip the turns in which that stays so
        let Drr { line, clients, quantum, .. } = self;
        let served = || line.iter().filter(|&&client| may(client));
        let turns = served().map(|client| {
            let state = clients[client.index()];
            (*quantum - state.deficit).div_ceil(state.credit)
        });
        let skipped = turns.min()? - 1;
        let served: Vec<TaskId> = served().copied().collect();
        for client in served {
            let state = &mut clients[client.index()];
            state.deficit += skipped * state.credit;
        }
        self.turn(may)
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        let state = &mut self.clients[client.index()];
        state.deficit = state.deficit.saturating_sub(used);
    }

    fn put(&mut self, client: TaskId) {
        self.line.push_back(client);
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        let index = row(&mut self.clients, client, &Client::default());
        let credit = u128::from(self.credit) * u128::from(share) / u128::from(self.unit);
        self.clients[index].credit = u64::try_from(credit).unwrap_or(u64::MAX).max(1);
    }

    fn slice(&self, client: TaskId) -> u64 {
        self.clients[client.index()].deficit / self.quantum * self.quantum
    }
}
