//! Start-time fair queueing: who would start first?
//!
//! As [weighted fair queueing](crate::wfq), but the client is chosen whose next quantum *starts* first in
//! virtual time. It is WFQ's mirror: no client ever gets a whole quantum ahead of its due; it may fall behind
//! by more than one.
//!
//! ```text
//! shares 3,2,1    starts  A 0   .   .   1/3 .   2/3        A B C A B A      (ties: larger share first, then lower id)
//!                         B .   0   .   .   1/2
//!                         C .   .   0
//! ```
//!
//! The queue's virtual time is the start of the quantum in service, which costs nothing to know; when all
//! have left it is the latest finish. *Source*: Goyal, Guo, Vin, "A Hierarchical CPU Scheduler for Multimedia
//! Operating Systems" (OSDI 1996). *Differs*: ties go to the larger share (the paper leaves them open). With
//! several CPUs the virtual time is the latest start so far.

use crate::proportional::{Clock, Discipline, Heap, May, MinQueue, Virtual, row};
use schedlab_units::TaskId;
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct Sfq {
    quantum: u64,
    /// The queue's virtual time.
    time: Virtual,
    latest_finish: Virtual,
    runnable: u32,
    clients: Vec<Clock>,
    waiting: Heap<(Virtual, Reverse<u64>, TaskId)>,
}

impl Sfq {
    /// With this quantum.
    pub fn new(quantum: u64) -> Sfq {
        Sfq { quantum, time: 0, latest_finish: 0, runnable: 0, clients: Vec::new(), waiting: Heap::default() }
    }
}

impl Discipline for Sfq {
    fn join(&mut self, client: TaskId, share: u64) {
        let index = row(&mut self.clients, client, &Clock::new(0, self.quantum));
        let clock = &mut self.clients[index];
        clock.set_share(share);
        clock.set_time(clock.time().max(self.time));
        self.runnable += 1;
        self.put(client);
    }

    fn leave(&mut self, client: TaskId) {
        self.waiting.remove(client);
        self.runnable -= 1;
        if self.runnable == 0 {
            self.time = self.time.max(self.latest_finish);
        }
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        let client = self.waiting.pop(may)?;
        self.time = self.time.max(self.clients[client.index()].time());
        Some(client)
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        let clock = &mut self.clients[client.index()];
        clock.advance(used);
        self.latest_finish = self.latest_finish.max(clock.time());
    }

    fn put(&mut self, client: TaskId) {
        let clock = &self.clients[client.index()];
        self.waiting.push((clock.time(), Reverse(clock.share()), client));
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        self.clients[client.index()].set_share(share);
    }

    fn slice(&self, _client: TaskId) -> u64 {
        self.quantum
    }
}
