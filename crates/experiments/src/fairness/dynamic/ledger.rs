//! What is each client owed, while others come and go?
//!
//! An ideal clock runs at one unit of service per unit of time, divided by the shares of all runnable
//! clients. Between two moments at which it read v1 and v2, a runnable client with share S was due (v2 - v1)
//! x S.
//!
//! Shares 3 and 1 from 0; the second sleeps from 4 to 8: the first is due 3 by time 4, then all of the 4 that follow.

use schedlab_policies::proportional::{Clock, Virtual};

/// Lowest and highest, in units of 2^-64 of a unit of service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extremes {
    low: i128,
    high: i128,
}

impl Extremes {
    fn include(&mut self, error: i128) {
        self.low = self.low.min(error);
        self.high = self.high.max(error);
    }
    /// In time units of so many units of service.
    pub fn tu(self, per_tu: u64) -> (f64, f64) {
        (tu(self.low, per_tu), tu(self.high, per_tu))
    }
}

fn tu(error: i128, per_tu: u64) -> f64 {
    error as f64 / 2f64.powi(64) / per_tu as f64
}

#[derive(Clone, Debug)]
struct Account {
    share: u64,
    runnable: bool,
    /// Ideal clock when it was last settled.
    mark: Virtual,
    /// Received less due until `mark`: since the start, and since it joined.
    start_error: i128,
    join_error: i128,
    received: u64,
    curve: Vec<(f64, f64)>,
}

/// Accounts of all clients.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    clients: Vec<Account>,
    /// Who is served, and since when that has not been credited.
    serving: Option<(usize, u64)>,
    ideal: Clock,
    now: u64,
    per_tu: u64,
    /// Curves are kept until here.
    curves_until: u64,
    pub since_start: Extremes,
    pub since_join: Extremes,
    pub nr_joins: u64,
    pub nr_changes: u64,
}

impl Ledger {
    /// Clients with these shares, all absent; `per_tu` units of service (and of time) are a time unit.
    pub fn new(shares: &[u64], per_tu: u64, curves_until: u64) -> Ledger {
        let account = |&share: &u64| Account {
            share,
            runnable: false,
            mark: 0,
            start_error: 0,
            join_error: 0,
            received: 0,
            curve: Vec::new(),
        };
        Ledger {
            clients: shares.iter().map(account).collect(),
            serving: None,
            ideal: Clock::new(0, per_tu),
            now: 0,
            per_tu,
            curves_until,
            since_start: Extremes::default(),
            since_join: Extremes::default(),
            nr_joins: 0,
            nr_changes: 0,
        }
    }

    /// Now.
    pub fn now(&self) -> u64 {
        self.now
    }
    /// A client's share.
    pub fn share(&self, client: usize) -> u64 {
        self.clients[client].share
    }
    /// Whether it is runnable.
    pub fn runnable(&self, client: usize) -> bool {
        self.clients[client].runnable
    }
    /// Its error against time, in time units.
    pub fn curve(&self, client: usize) -> &[(f64, f64)] {
        &self.clients[client].curve
    }
    /// Service that it has had.
    pub fn received(&self, client: usize) -> u64 {
        self.clients[client].received
    }

    /// Time passes.
    pub fn advance(&mut self, to: u64) {
        if self.ideal.share() > 0 {
            self.ideal.advance(to - self.now);
        }
        self.now = to;
    }

    /// Credits the client in service with its service so far.
    fn credit(&mut self) {
        if let Some((client, since)) = self.serving {
            let length = self.now - since;
            self.serving = Some((client, self.now));
            let account = &mut self.clients[client];
            account.start_error += i128::from(length) << 64;
            account.join_error += i128::from(length) << 64;
            account.received += length;
        }
    }

    /// Brings a runnable client's errors up to now.
    fn bring_up_to_date(&mut self, client: usize) {
        if self.serving.is_some_and(|(serving, _)| serving == client) {
            self.credit();
        }
        let time = self.ideal.time();
        let account = &mut self.clients[client];
        let due = (time - account.mark) * i128::from(account.share);
        account.mark = time;
        account.start_error -= due;
        account.join_error -= due;
        self.since_start.include(account.start_error);
        self.since_join.include(account.join_error);
        self.mark_curve(client);
    }

    /// Service of a runnable client begins.
    pub fn begin(&mut self, client: usize) {
        self.bring_up_to_date(client);
        self.serving = Some((client, self.now));
    }

    /// Service ends, if there is any.
    pub fn end(&mut self) {
        if let Some((client, _)) = self.serving {
            self.bring_up_to_date(client);
            self.serving = None;
        }
    }

    fn mark_curve(&mut self, client: usize) {
        if self.now <= self.curves_until {
            let per_tu = self.per_tu;
            let account = &mut self.clients[client];
            let point = (self.now as f64 / per_tu as f64, tu(account.start_error, per_tu));
            if account.curve.last() != Some(&point) {
                account.curve.push(point);
            }
        }
    }

    /// The client becomes runnable.
    pub fn join(&mut self, client: usize) {
        let time = self.ideal.time();
        let account = &mut self.clients[client];
        debug_assert!(!account.runnable, "client {client} is runnable already");
        (account.runnable, account.join_error, account.mark) = (true, 0, time);
        let share = account.share;
        self.ideal.set_share(self.ideal.share() + share);
        self.nr_joins += 1;
        self.mark_curve(client);
    }

    /// The client, not in service, stops being runnable.
    pub fn leave(&mut self, client: usize) {
        self.bring_up_to_date(client);
        self.clients[client].runnable = false;
        self.ideal.set_share(self.ideal.share() - self.clients[client].share);
    }

    /// The client's share changes.
    pub fn change(&mut self, client: usize, share: u64) {
        self.nr_changes += 1;
        if self.clients[client].runnable {
            self.bring_up_to_date(client);
            self.ideal.set_share(self.ideal.share() - self.clients[client].share + share);
        }
        self.clients[client].share = share;
    }

    /// Number of clients.
    pub fn nr_clients(&self) -> usize {
        self.clients.len()
    }

    /// The end: runnable clients are settled.
    pub fn finish(&mut self) {
        self.end();
        for client in 0..self.clients.len() {
            if self.clients[client].runnable {
                self.bring_up_to_date(client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The module's example, the second being served first.
    #[test]
    fn a_sleeper_is_due_nothing() {
        let mut ledger = Ledger::new(&[3, 1], 1, 100);
        ledger.join(0);
        ledger.join(1);
        ledger.begin(1);
        ledger.advance(4);
        ledger.end();
        assert_eq!(ledger.since_start.tu(1), (0.0, 3.0)); // due 1, had 4
        ledger.leave(1);
        ledger.begin(0);
        assert_eq!(ledger.since_start.tu(1), (-3.0, 3.0)); // due 3, had nothing
        ledger.advance(8);
        ledger.end();
        ledger.join(1);
        ledger.change(0, 1); // due half from now on
        ledger.advance(10);
        ledger.finish();
        assert_eq!(ledger.curve(0).last(), Some(&(10.0, -4.0))); // due 3 + 4 + 1, had 4
        assert_eq!(ledger.curve(1).last(), Some(&(10.0, 2.0)));
        assert_eq!((ledger.nr_joins, ledger.nr_changes, ledger.received(1)), (3, 1, 4));
    }

    /// A share that changes during service: what has been served is credited first.
    #[test]
    fn a_change_in_service_credits_what_was_served() {
        let mut ledger = Ledger::new(&[1, 1], 1, 0);
        ledger.join(0);
        ledger.join(1);
        ledger.begin(0);
        ledger.advance(2);
        ledger.change(0, 3); // due 1, had 2: +1
        ledger.advance(6);
        ledger.end(); // due 1 + 3, had 6: +2
        assert_eq!(ledger.since_start.tu(1), (0.0, 2.0));
    }
}
