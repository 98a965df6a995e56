//! Worst-case fair weighted fair queueing: who would finish first, among those that are not ahead?
//!
//! As [weighted fair queueing](crate::wfq), but only clients are eligible whose next quantum has started in
//! the ideal system: whose virtual time is not past the queue's. No client is ever a whole quantum ahead nor
//! a whole quantum behind: the best that whole quanta allow.
//!
//! ```text
//! shares 3,2,1    t        0   1   2   3   4   5
//!                 V        0   1/6 2/6 3/6 4/6 5/6
//!                 eligible ABC BC  AC  BC  AC  C            A B A B A C      (least VFT; ties: lowest id)
//! ```
//!
//! Two heaps: those not yet eligible by start, the eligible by finish; O(log n) per decision.
//!
//! *Source*: Bennett, Zhang, "WF2Q: Worst-case Fair Weighted Fair Queueing" (INFOCOM 1996). *Differs*: the
//! fluid system's virtual time advances by service / (shares of the clients runnable here), as for
//! [`wfq`](crate::wfq). If none of those that may be served is eligible (several CPUs, affinities), the one
//! that will be first is served: the CPU is not left idle.

use crate::proportional::{Clock, Discipline, Heap, May, MinQueue, Virtual, row};
use schedlab_units::TaskId;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct Wf2q {
    quantum: u64,
    /// The queue's virtual time; its share is the sum of the runnable clients' shares.
    time: Clock,
    clients: Vec<Clock>,
    /// By start.
    ahead: Heap<(Virtual, TaskId)>,
    /// By finish.
    eligible: Heap<(Virtual, TaskId)>,
}

impl Wf2q {
    /// With this quantum.
    pub fn new(quantum: u64) -> Wf2q {
        Wf2q {
            quantum,
            time: Clock::new(0, quantum),
            clients: Vec::new(),
            ahead: Heap::default(),
            eligible: Heap::default(),
        }
    }
}

impl Discipline for Wf2q {
    fn join(&mut self, client: TaskId, share: u64) {
        let index = row(&mut self.clients, client, &Clock::new(0, self.quantum));
        let clock = &mut self.clients[index];
        clock.set_share(share);
        clock.set_time(clock.time().max(self.time.time()));
        self.time.set_share(self.time.share() + share);
        self.put(client);
    }

    fn leave(&mut self, client: TaskId) {
        let _waiting = self.ahead.remove(client) || self.eligible.remove(client);
        self.time.set_share(self.time.share() - self.clients[client.index()].share());
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        let now = self.time.time();
        while let Some((start, client)) = self.ahead.first()
            && start <= now
        {
            self.ahead.pop_first();
            self.eligible.push((self.clients[client.index()].finish(), client));
        }
        self.eligible.pop(may).or_else(|| self.ahead.pop(may))
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        self.clients[client.index()].advance(used);
        self.time.advance(used);
    }

    fn put(&mut self, client: TaskId) {
        self.ahead.push((self.clients[client.index()].time(), client));
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        let clock = &mut self.clients[client.index()];
        self.time.set_share(self.time.share() - clock.share() + share);
        clock.set_share(share);
    }

    fn slice(&self, _client: TaskId) -> u64 {
        self.quantum
    }
}
