//! Earliest eligible virtual deadline first, as published in 1995.
//!
//! A client asks for `request` of service at a time. Its request is eligible from virtual time *ve*, when it
//! has received its due, and has the virtual deadline vd = ve + request/share. Among the eligible the
//! earliest deadline is served. With requests of one quantum this decides as [WF2Q](crate::wf2q); shorter
//! requests mean earlier deadlines and smaller errors, longer ones fewer switches, without a change of
//! shares.
//!
//! ```text
//! shares 3,2,1, request 1    V   0   1/6 2/6 3/6 4/6 5/6
//!                            A B A B A C
//! ```
//!
//! What a client is owed when it leaves (its lag: share x (V - ve)) is spread over those that stay: V steps
//! by lag / (sum of the shares that stay). When it comes back, ve = V - lag/share, and V steps back by lag /
//! (sum of shares, its own included). So the sum of lags is always zero; a client that leaves and comes back
//! at once keeps the part of its lag that the others' shares are of all.
//!
//! *Source*: Stoica, Abdel-Wahab, "Earliest Eligible Virtual Deadline First" (ODU TR-95-22, 1995): equations
//! for V at leave and join, and the strategy in which a client keeps its lag while away. *Differs*: all
//! clients have the same request size (parameter `request`); a client that stops early is charged what it
//! used and asks anew; service is not preempted within a request; the lag of the last client to leave is
//! dropped; a request that has become eligible stays so when V steps back at a join. If none of those that
//! may be served is eligible (several CPUs, affinities), the one that will be first is served.

use crate::proportional::{Clock, Discipline, Heap, May, MinQueue, Virtual, row};
use schedlab_units::TaskId;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct Eevdf1995 {
    request: u64,
    /// V; its share is the sum of the runnable clients' shares.
    time: Clock,
    clients: Vec<Client>,
    /// By eligible time.
    ahead: Heap<(Virtual, TaskId)>,
    /// By deadline.
    eligible: Heap<(Virtual, TaskId)>,
}

#[derive(Clone, Debug)]
struct Client {
    /// ve.
    eligible: Clock,
    /// While absent: share x (V - ve) when it left, in units of 2^-64.
    lag: Virtual,
}

impl Eevdf1995 {
    /// Each client asks for this much at a time.
    pub fn new(request: u64) -> Eevdf1995 {
        Eevdf1995 {
            request,
            time: Clock::new(0, request),
            clients: Vec::new(),
            ahead: Heap::default(),
            eligible: Heap::default(),
        }
    }

    /// Takes a client's share and lag out of the system. `waiting` or not.
    fn depart(&mut self, client: TaskId) {
        let state = &mut self.clients[client.index()];
        let share = state.eligible.share();
        let behind = self.time.time() - state.eligible.time();
        // the product fits: a lag beyond 2^63 units of service x share is cut off
        state.lag = behind.checked_mul(Virtual::from(share)).unwrap_or(behind.signum() * Virtual::MAX);
        let rest = self.time.share() - share;
        if rest > 0 {
            self.time.set_time(self.time.time() + state.lag / Virtual::from(rest));
        } else {
            state.lag = 0;
        }
        self.time.set_share(rest);
    }

    /// Puts a client with its lag into the system.
    fn arrive(&mut self, client: TaskId, share: u64) {
        let state = &mut self.clients[client.index()];
        let total = self.time.share() + share;
        state.eligible.set_share(share);
        state.eligible.set_time(self.time.time() - state.lag / Virtual::from(share));
        self.time.set_time(self.time.time() - state.lag / Virtual::from(total));
        self.time.set_share(total);
    }
}

impl Discipline for Eevdf1995 {
    fn join(&mut self, client: TaskId, share: u64) {
        let empty = Client { eligible: Clock::new(0, self.request), lag: 0 };
        row(&mut self.clients, client, &empty);
        self.arrive(client, share);
        self.put(client);
    }

    fn leave(&mut self, client: TaskId) {
        let _waiting = self.ahead.remove(client) || self.eligible.remove(client);
        self.depart(client);
    }

    fn select(&mut self, may: May<'_>) -> Option<TaskId> {
        let now = self.time.time();
        while let Some((start, client)) = self.ahead.first()
            && start <= now
        {
            self.ahead.pop_first();
            let deadline = self.clients[client.index()].eligible.finish();
            self.eligible.push((deadline, client));
        }
        self.eligible.pop(may).or_else(|| self.ahead.pop(may))
    }

    fn charge(&mut self, client: TaskId, used: u64) {
        self.clients[client.index()].eligible.advance(used);
        self.time.advance(used);
    }

    fn put(&mut self, client: TaskId) {
        self.ahead.push((self.clients[client.index()].eligible.time(), client));
    }

    fn set_share(&mut self, client: TaskId, share: u64) {
        self.depart(client);
        self.arrive(client, share);
    }

    fn slice(&self, _client: TaskId) -> u64 {
        self.request
    }
}
