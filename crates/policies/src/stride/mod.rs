//! Stride scheduling: each client takes steps of its own length, the one that would be least far goes next.
//!
//! A client's stride is the reciprocal of its tickets (shares); its pass grows by one stride per quantum; the
//! least pass is served. With all clients runnable throughout this is [weighted fair queueing](crate::wfq),
//! and errors are the same. The difference is what a client keeps when it leaves: here its distance from the
//! global pass (`remain`), whether ahead or behind, is restored when it comes back; there being behind is
//! forgiven and forgotten.
//!
//! ```text
//! tickets 3,2,1    pass  A 1/3 2/3 .   1   .   4/3          A B A A B C
//!                        B 1/2 .   1   .   .   3/2
//!                        C 1   .   .   .   .   .   2
//! ```
//!
//! *Source*: Waldspurger, Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource Management"
//! (MIT TM-528, 1995), with its dynamic operations: join, leave, ticket changes (what remains of a stride is
//! scaled by old/new tickets), partial quanta. *Differs*: strides are not rounded to integers (the original
//! truncates 2^20 / tickets, and drifts). One queue for all CPUs.

use crate::proportional::{Clock, Discipline, Heap, May, MinQueue, Virtual, row};
use schedlab_units::TaskId;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct Stride {
    quantum: u64,
    /// The global pass; its share is the sum of the runnable clients' tickets.
    global: Clock,
    clients: Vec<Client>,
    /// By pass.
    waiting: Heap<(Virtual, TaskId)>,
}

#[derive(Clone, Debug)]
struct Client {
    /// The pass less one stride: where the next quantum starts.
    start: Clock,
    /// While absent: `start` from the global pass, when it left.
    remain: Virtual,
}

impl Stride {
    /// With this quantum.
    pub fn new(quantum: u64) -> Stride {
        let waiting = Heap::default();
        Stride { quantum, global: Clock::new(0, quantum), clients: Vec::new(), waiting }
    }
}

/// A distance kept over a change of tickets: service counts, and a stride is its reciprocal.
fn scaled(remain: Virtual, old: u64, new: u64) -> Virtual {
    if old == new || old == 0 {
        return remain;
    }
    // 2^127 / 2^64 leaves 63 bits for (distance in service) x tickets; beyond that the precision is not needed
    match remain.checked_mul(Virtual::from(old)) {
        Some(product) => product / Virtual::from(new),
        None => remain / Virtual::from(new) * Virtual::from(old),
    }
}

impl Discipline for Stride {
    fn join(&mut self, client: TaskId, share: u64) {
        let empty = Client { start: Clock::new(0, self.quantum), remain: 0 };
        let index = row(&mut self.clients, client, &empty);
        let state = &mut self.clients[index];
        let remain = scaled(state.remain, state.start.share(), share);
        state.start.set_share(share);
        state.start.set_time(self.global.time() + remain);
        self.global.set_share(self.global.share() + share);
        self.put(client);
    }

    fn leave(&mut self, client: TaskId) {
        self.waiting.remove(client);
        let state = &mut self.clients[client.index()];
        state.remain = state.start.time() - self.global.time();
        self.global.set_share(self.global.share() - state.start.share());
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        self.waiting.pop(may)
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        self.clients[client.index()].start.advance(used);
        self.global.advance(used);
    }

    fn put(&mut self, client: TaskId) {
        let pass = self.clients[client.index()].start.finish();
        self.waiting.push((pass, client));
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        let clock = &mut self.clients[client.index()].start;
        let remain = scaled(clock.time() - self.global.time(), clock.share(), share);
        self.global.set_share(self.global.share() - clock.share() + share);
        clock.set_share(share);
        clock.set_time(self.global.time() + remain);
    }

    fn slice(&self, _client: TaskId) -> u64 {
        self.quantum
    }
}
