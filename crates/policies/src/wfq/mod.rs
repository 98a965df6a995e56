//! Weighted fair queueing: who would finish first?
//!
//! Each client's virtual time advances by service/share. The client is chosen whose *virtual finishing time*
//! (VFT), the virtual time after one more quantum, is least. No client ever falls a whole quantum behind its
//! due; it may get ahead by more than one.
//!
//! ```text
//! shares 3,2,1    VFT   A 1/3 2/3 .   1   .   4/3          A B A A B C      (ties: lowest id first)
//!                       B 1/2 .   1   .   .   3/2
//!                       C 1   .   .   .   .   .   2
//! ```
//!
//! `wfq` keeps the waiting clients in a binary heap: O(log n) per decision. `wfq-list` is the same scheduler
//! with an unsorted list searched at each decision, O(n): the two that the paper on VTRR measures.
//!
//! *Source*: Demers, Keshav, Shenker (SIGCOMM 1989); Parekh, Gallager (1993); as a CPU scheduler in Nieh,
//! Vaill, Zhong (2001). *Differs*: the virtual time of the ideal fluid system advances by service / (shares
//! of the clients runnable here), not of those that the fluid system would still serve. A client that becomes
//! runnable starts at the queue's virtual time, or at its own if that is later: no credit for sleeping. One
//! queue serves all CPUs.

use crate::proportional::{Clock, Discipline, Heap, List, May, MinQueue, Virtual, row};
use schedlab_units::TaskId;

#[cfg(test)]
mod tests;

/// With a heap.
pub type Wfq = FairQueue<Heap<Finish>>;
/// With a list.
pub type WfqList = FairQueue<List<Finish>>;

/// Virtual finishing time; ties by id.
pub type Finish = (Virtual, TaskId);

/// See the module.
#[derive(Debug)]
pub struct FairQueue<Q: MinQueue<Finish>> {
    quantum: u64,
    /// The queue's virtual time; its share is the sum of the runnable clients' shares.
    time: Clock,
    clients: Vec<Clock>,
    waiting: Q,
}

impl<Q: MinQueue<Finish> + Default> FairQueue<Q> {
    /// With this quantum.
    pub fn new(quantum: u64) -> FairQueue<Q> {
        FairQueue { quantum, time: Clock::new(0, quantum), clients: Vec::new(), waiting: Q::default() }
    }
}

impl<Q: MinQueue<Finish>> FairQueue<Q> {
    /// Where the client's next quantum starts, in virtual time.
    pub fn start(&self, client: TaskId) -> Virtual {
        self.clients[client.index()].time()
    }
}

impl<Q: MinQueue<Finish>> Discipline for FairQueue<Q> {
    fn join(&mut self, client: TaskId, share: u64) {
        let index = row(&mut self.clients, client, &Clock::new(0, self.quantum));
        let clock = &mut self.clients[index];
        clock.set_share(share);
        clock.set_time(clock.time().max(self.time.time()));
        self.time.set_share(self.time.share() + share);
        self.put(client);
    }

    fn leave(&mut self, client: TaskId) {
        self.waiting.remove(client);
        self.time.set_share(self.time.share() - self.clients[client.index()].share());
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        self.waiting.pop(may)
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        self.clients[client.index()].advance(used);
        self.time.advance(used);
    }

    fn put(&mut self, client: TaskId) {
        let finish = self.clients[client.index()].finish();
        self.waiting.push((finish, client));
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
