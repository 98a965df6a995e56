//! Lottery scheduling: a ticket is drawn, its owner has the next quantum.
//!
//! Each client holds as many tickets as its share. Fair by the law of large numbers only: after n quanta the
//! error's standard deviation is sqrt(n p (1-p)) quanta for a client due the part p, for p = 1/2 and n =
//! 10,000: 50 quanta. A client that uses only the fraction f of its quantum has its tickets multiplied by 1/f
//! until it next wins (compensation), so that its share holds.
//!
//! ```text
//! tickets 3,2,1    0 1 2 3 4 5          4 is drawn: B
//!                  A A A B B C
//! ```
//!
//! The winner is found in a tree of partial sums (Fenwick's): O(log n), and the same to add or take tickets.
//!
//! *Source*: Waldspurger, Weihl, "Lottery Scheduling: Flexible Proportional-Share Resource Management" (OSDI
//! 1994). *Differs*: random numbers from a seeded generator (`--param seed=N`), not the original's;
//! compensated tickets are rounded down to whole ones and at most 2^16 times the share; no currencies or
//! ticket transfers. One drawing for all CPUs: of the tickets of waiting clients.

use crate::proportional::{Discipline, May, row};
use schedlab_stdx::Random;
use schedlab_units::TaskId;

#[cfg(test)]
mod tests;

/// Compensation is limited to this factor: a client that yields after 1 ns would otherwise own all tickets.
const COMPENSATION_MAX: u64 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct Lottery {
    quantum: u64,
    random: Random,
    clients: Vec<Client>,
    /// Tickets of waiting clients as partial sums.
    tickets: Fenwick,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    share: u64,
    /// Tickets in the drawing, compensation included.
    tickets: u64,
    waiting: bool,
}

impl Lottery {
    /// With this quantum and seed.
    pub fn new(quantum: u64, seed: u64) -> Lottery {
        let (clients, tickets) = (Vec::new(), Fenwick::default());
        Lottery { quantum, random: Random::new(seed), clients, tickets }
    }

    fn draw(&mut self) -> Option<TaskId> {
        let total = self.tickets.total;
        (total > 0).then(|| TaskId(self.tickets.find(self.random.below(total)) as u32))
    }
}

impl Discipline for Lottery {
    fn join(&mut self, client: TaskId, share: u64) {
        let index = row(&mut self.clients, client, &Client::default());
        if self.clients[index].share != share {
            self.set_share(client, share);
        }
        self.put(client);
    }

    fn leave(&mut self, client: TaskId) {
        let state = &mut self.clients[client.index()];
        if std::mem::take(&mut state.waiting) {
            self.tickets.subtract(client.index(), state.tickets);
        }
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        let mut aside = Vec::new();
        let winner = loop {
            match self.draw() {
                Some(client) if may(client) => break Some(client),
                Some(client) => {
                    // its tickets are not in this drawing
                    self.leave(client);
                    aside.push(client);
                }
                None => break None,
            }
        };
        aside.into_iter().for_each(|client| self.put(client));
        if let Some(winner) = winner {
            self.leave(winner);
            let state = &mut self.clients[winner.index()];
            state.tickets = state.share;
        }
        winner
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        if used < self.quantum {
            let state = &mut self.clients[client.index()];
            let factor = u128::from(self.quantum) * u128::from(state.share) / u128::from(used.max(1));
            let most = state.share.saturating_mul(COMPENSATION_MAX);
            state.tickets = u64::try_from(factor).unwrap_or(u64::MAX).min(most);
        }
    }

    fn put(&mut self, client: TaskId) {
        let state = &mut self.clients[client.index()];
        state.waiting = true;
        self.tickets.add(client.index(), state.tickets);
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        let state = &mut self.clients[client.index()];
        (state.share, state.tickets) = (share, share);
    }

    fn slice(&self, _client: TaskId) -> u64 {
        self.quantum
    }
}

/// Partial sums: adding to one number and finding where a running total is passed cost O(log n).
#[derive(Debug, Default)]
struct Fenwick {
    /// `sums[i]` holds the numbers of the last `i & -i` rows up to row i, counted from 1.
    sums: Vec<u64>,
    total: u64,
}

impl Fenwick {
    fn add(&mut self, row: usize, amount: u64) {
        if row + 1 >= self.sums.len() {
            self.grow(row + 2);
        }
        self.total += amount;
        let mut node = row + 1;
        while node < self.sums.len() {
            self.sums[node] += amount;
            node += node & node.wrapping_neg();
        }
    }

    fn subtract(&mut self, row: usize, amount: u64) {
        self.total -= amount;
        let mut node = row + 1;
        while node < self.sums.len() {
            self.sums[node] -= amount;
            node += node & node.wrapping_neg();
        }
    }

    /// The length is a power of two plus one: the last node is then the sum of all rows so far.
    fn grow(&mut self, rows: usize) {
        let old = self.sums.len().max(1);
        let new = rows.next_power_of_two().max(16) + 1;
        self.sums.resize(new, 0);
        let mut node = (old - 1).max(1) * 2;
        while old > 1 && node < new {
            self.sums[node] = self.total;
            node *= 2;
        }
    }

    /// The row that owns number `ticket`, counted from 0 along the rows.
    fn find(&self, mut ticket: u64) -> usize {
        let mut node = 0;
        let mut step = self.sums.len() - 1;
        while step > 0 {
            let next = node + step;
            if next < self.sums.len() && self.sums[next] <= ticket {
                ticket -= self.sums[next];
                node = next;
            }
            step /= 2;
        }
        node
    }
}
