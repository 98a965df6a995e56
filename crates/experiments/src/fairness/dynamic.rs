//! How fair are they when clients sleep, join, leave and change their shares?
//!
//! *Error, defined for this.* The ideal serves all clients that are runnable now, at rates in proportion to their shares now: client A,
//! while runnable, is due S_A(t)/T(t) of each unit of time, T being the sum over the clients that are runnable under the scheduler
//! studied. A sleeping client is due nothing. Its error is what it received less what it was due:
//!
//! * *since the start*: kept over sleeps, so that a client which left ahead comes back ahead;
//! * *since it last joined*: from zero at each wakeup; what a client sees that does not remember.
//!
//! A share change counts from its instant. Extremes are taken at the edges of a client's own service, between which its error only
//! falls, and when it leaves. Errors are exact but for one rounding of 2^-64 of a unit per change of T (see
//! [`Clock`](schedlab_policies::proportional::Clock)).
//!
//! Each client alternates between work (an amount of CPU time) and sleep (a length of time), and changes its share at given times; all
//! drawn from the seed, and the same for every scheduler.

use super::{Contender, Spread, draw_shares};
use crate::table::{Column, Table};
use schedlab_policies::proportional::{Clock, Discipline, Virtual};
use schedlab_policies::{Drr, Eevdf1995, Insert, Lottery, Reset, Sfq, Stride, Vtrr, Wf2q, Wfq, WfqList, Wrr};
use schedlab_units::{Random, TaskId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Units of service and time per quantum: sleeps begin and end within quanta.
pub const UNITS_PER_QUANTUM: u64 = 1000;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct DynamicConfig {
    /// Which schedulers.
    pub contenders: Vec<&'static Contender>,
    /// Number of clients.
    pub nr_clients: u32,
    /// Sum of their shares at the start.
    pub total: u64,
    /// Length, in quanta.
    pub quanta: u64,
    /// Mean work between sleeps, in quanta; 0 = never sleeps.
    pub work_quanta: u64,
    /// Mean sleep, in quanta.
    pub sleep_quanta: u64,
    /// Mean time between share changes of one client, in quanta; 0 = never.
    pub change_quanta: u64,
    /// Decides all that is random.
    pub seed: u64,
}

impl DynamicConfig {
    /// 16 clients, 2,048 shares, about half of them asleep at any time, for 50,000 quanta.
    pub fn default_mix(contenders: Vec<&'static Contender>) -> DynamicConfig {
        DynamicConfig {
            contenders,
            nr_clients: 16,
            total: 2048,
            quanta: 50_000,
            work_quanta: 20,
            sleep_quanta: 100,
            change_quanta: 5_000,
            seed: 1,
        }
    }
}

/// Errors of one scheduler, in quanta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicResult {
    /// The scheduler.
    pub sched: &'static str,
    /// Lowest and highest error since the start.
    pub since_start_tu: (f64, f64),
    /// Lowest and highest error since the client last joined.
    pub since_join_tu: (f64, f64),
    /// Joins (wakeups) of all clients.
    pub nr_joins: u64,
    /// Share changes.
    pub nr_changes: u64,
}

/// With [`UNITS_PER_QUANTUM`] instead of one unit per quantum.
fn fine(contender: &Contender, seed: u64) -> Box<dyn Discipline> {
    const Q: u64 = UNITS_PER_QUANTUM;
    match contender.name {
        "wrr" => Box::new(Wrr::new(Q, 1)),
        "drr" => Box::new(Drr::new(Q, Q, 1)),
        "wfq" => Box::new(Wfq::new(Q)),
        "wfq-list" => Box::new(WfqList::new(Q)),
        "stride" => Box::new(Stride::new(Q)),
        "sfq" => Box::new(Sfq::new(Q)),
        "wf2q" => Box::new(Wf2q::new(Q)),
        "eevdf-1995" => Box::new(Eevdf1995::new(Q)),
        "vtrr" => Box::new(Vtrr::new(Q, Insert::Neighbours, Reset::Incremental)),
        "lottery" => Box::new(Lottery::new(Q, seed)),
        other => unreachable!("{other} is not in CONTENDERS"),
    }
}

struct Client {
    share: u64,
    random: Random,
    work_left: u64,
    asleep: bool,
    /// Ideal clock when it joined or last changed its share.
    mark: Virtual,
    /// Received less due until `mark`, in units of 2^-64: since the start, and since it joined.
    start_error: i128,
    join_error: i128,
}

#[derive(Clone, Copy)]
struct Extremes {
    low: i128,
    high: i128,
}

impl Extremes {
    fn include(&mut self, error: i128) {
        self.low = self.low.min(error);
        self.high = self.high.max(error);
    }
    fn tu(self) -> (f64, f64) {
        let unit = 2f64.powi(64) * UNITS_PER_QUANTUM as f64;
        (self.low as f64 / unit, self.high as f64 / unit)
    }
}

/// What happens to a client at a time; in this order at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Change,
    Wake,
}

struct Simulation {
    discipline: Box<dyn Discipline>,
    clients: Vec<Client>,
    /// Service per share that a client always runnable is due.
    ideal: Clock,
    now: u64,
    calendar: BinaryHeap<Reverse<(u64, Happening, u32)>>,
    since_start: Extremes,
    since_join: Extremes,
    nr_joins: u64,
    nr_changes: u64,
    work: u64,
    sleep: u64,
    change: u64,
    most: u64,
}

/// 1 to 2 x mean - 1, uniform.
fn around(random: &mut Random, mean: u64) -> u64 {
    1 + random.below(2 * mean - 1)
}

impl Simulation {
    fn new(config: &DynamicConfig, contender: &Contender) -> Simulation {
        let mut random = Random::for_part(config.seed, u64::from(config.nr_clients));
        let shares = draw_shares(&mut random, Spread::Uniform, config.nr_clients as usize, config.total);
        let client = |(index, share): (usize, u64)| Client {
            share,
            random: Random::for_part(config.seed, index as u64 + 1_000_000),
            work_left: u64::MAX,
            asleep: true,
            mark: 0,
            start_error: 0,
            join_error: 0,
        };
        let mut simulation = Simulation {
            discipline: fine(contender, config.seed),
            clients: shares.into_iter().enumerate().map(client).collect(),
            ideal: Clock::new(0, UNITS_PER_QUANTUM),
            now: 0,
            calendar: BinaryHeap::new(),
            since_start: Extremes { low: 0, high: 0 },
            since_join: Extremes { low: 0, high: 0 },
            nr_joins: 0,
            nr_changes: 0,
            work: config.work_quanta * UNITS_PER_QUANTUM,
            sleep: config.sleep_quanta * UNITS_PER_QUANTUM,
            change: config.change_quanta * UNITS_PER_QUANTUM,
            most: (2 * config.total / u64::from(config.nr_clients)).max(1),
        };
        for id in 0..config.nr_clients {
            simulation.join(id);
            if simulation.change > 0 {
                let at = around(&mut simulation.clients[id as usize].random, simulation.change);
                simulation.calendar.push(Reverse((at, Happening::Change, id)));
            }
        }
        simulation
    }

    /// Brings a runnable client's errors up to now.
    fn settle(&mut self, id: u32) {
        let now = self.ideal.time();
        let client = &mut self.clients[id as usize];
        let due = (now - client.mark) * i128::from(client.share);
        client.mark = now;
        client.start_error -= due;
        client.join_error -= due;
        self.since_start.include(client.start_error);
        self.since_join.include(client.join_error);
    }

    fn join(&mut self, id: u32) {
        let client = &mut self.clients[id as usize];
        client.asleep = false;
        client.join_error = 0;
        client.mark = self.ideal.time();
        if self.work > 0 {
            client.work_left = around(&mut client.random, self.work);
        }
        let share = client.share;
        self.ideal.set_share(self.ideal.share() + share);
        self.discipline.join(TaskId(id), share);
        self.nr_joins += 1;
    }

    fn change(&mut self, id: u32, in_service: Option<u32>) {
        let most = self.most;
        let client = &mut self.clients[id as usize];
        let share = 1 + client.random.below(most);
        self.calendar.push(Reverse((
            self.now + around(&mut client.random, self.change),
            Happening::Change,
            id,
        )));
        self.nr_changes += 1;
        if client.asleep {
            client.share = share;
            return;
        }
        self.settle(id);
        let client = &mut self.clients[id as usize];
        let old = std::mem::replace(&mut client.share, share);
        self.ideal.set_share(self.ideal.share() - old + share);
        if in_service == Some(id) {
            self.discipline.set_share(TaskId(id), share);
        } else {
            self.discipline.leave(TaskId(id));
            self.discipline.join(TaskId(id), share);
        }
    }

    /// Lets time pass; clients wake and change meanwhile.
    fn pass(&mut self, until: u64, in_service: Option<u32>) {
        loop {
            let next = self.calendar.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let step_to = next.min(until);
            if self.ideal.share() > 0 {
                self.ideal.advance(step_to - self.now);
            }
            self.now = step_to;
            if next > until {
                return;
            }
            let Reverse((_, happening, id)) = self.calendar.pop().expect("it was peeked at");
            match happening {
                Happening::Wake => self.join(id),
                Happening::Change => self.change(id, in_service),
            }
        }
    }

    fn run(&mut self, end: u64) {
        while self.now < end {
            let Some(TaskId(id)) = self.discipline.select(&|_| true) else {
                let next = self.calendar.peek().map_or(end, |Reverse((time, ..))| *time);
                self.pass(next.min(end), None);
                continue;
            };
            self.settle(id);
            let slice = self.discipline.slice(TaskId(id));
            let length = slice.min(self.clients[id as usize].work_left).min(end - self.now);
            self.pass(self.now + length, Some(id));
            let client = &mut self.clients[id as usize];
            let received = i128::from(length) << 64;
            client.start_error += received;
            client.join_error += received;
            if self.work > 0 {
                client.work_left -= length;
            }
            let done = client.work_left == 0;
            self.settle(id);
            self.discipline.charge(TaskId(id), length);
            if done {
                self.discipline.leave(TaskId(id));
                let client = &mut self.clients[id as usize];
                client.asleep = true;
                let wake = self.now + around(&mut client.random, self.sleep.max(1));
                self.calendar.push(Reverse((wake, Happening::Wake, id)));
                self.ideal.set_share(self.ideal.share() - client.share);
            } else {
                self.discipline.put(TaskId(id));
            }
        }
        for id in 0..self.clients.len() as u32 {
            if !self.clients[id as usize].asleep {
                self.settle(id);
            }
        }
    }
}

/// Simulates each scheduler on the same clients.
pub fn simulate(config: &DynamicConfig) -> Vec<DynamicResult> {
    let run = |contender: &&'static Contender| {
        let mut simulation = Simulation::new(config, contender);
        simulation.run(config.quanta * UNITS_PER_QUANTUM);
        DynamicResult {
            sched: contender.name,
            since_start_tu: simulation.since_start.tu(),
            since_join_tu: simulation.since_join.tu(),
            nr_joins: simulation.nr_joins,
            nr_changes: simulation.nr_changes,
        }
    };
    config.contenders.iter().map(run).collect()
}

/// A row per scheduler.
pub fn table(config: &DynamicConfig, results: &[DynamicResult]) -> Table {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("since_start_low_tu", "tu", "lowest error since the start (kept over sleeps)"),
        Column::new("since_start_high_tu", "tu", "highest error since the start (kept over sleeps)"),
        Column::new("since_join_low_tu", "tu", "lowest error since the client last joined"),
        Column::new("since_join_high_tu", "tu", "highest error since the client last joined"),
        Column::new("nr_joins", "", "joins of all clients"),
        Column::new("nr_changes", "", "share changes of all clients"),
    ];
    let title = format!(
        "Service time error when clients sleep, join and change shares ({} clients, {} shares, {} quanta, seed {})",
        config.nr_clients, config.total, config.quanta, config.seed
    );
    let mut table = Table::new("fairness-dynamic", title, columns);
    for result in results {
        table.push(vec![
            result.sched.into(),
            result.since_start_tu.0.into(),
            result.since_start_tu.1.into(),
            result.since_join_tu.0.into(),
            result.since_join_tu.1.into(),
            result.nr_joins.into(),
            result.nr_changes.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::{CONTENDERS, find};
    use super::*;
    use schedlab_policies::proportional::quantum;

    fn config(contenders: Vec<&'static Contender>) -> DynamicConfig {
        DynamicConfig { quanta: 5_000, ..DynamicConfig::default_mix(contenders) }
    }

    /// Nobody sleeps, nobody changes: the errors are those of the static definition.
    #[test]
    fn without_changes_it_is_the_static_error() {
        for contender in CONTENDERS {
            let still = DynamicConfig {
                nr_clients: 7,
                total: 100,
                quanta: 100,
                work_quanta: 0,
                change_quanta: 0,
                ..config(vec![contender])
            };
            let result = simulate(&still)[0];
            let mut random = Random::for_part(still.seed, 7);
            let shares = draw_shares(&mut random, Spread::Uniform, 7, 100);
            let mut discipline = (contender.make)(7, still.seed);
            let (low, high) = quantum::serve(&mut *discipline, &shares, 100, |_, _, _| {}).from_start_tu();
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(
                near(result.since_start_tu.0, low) && near(result.since_start_tu.1, high),
                "{contender:?}: {result:?}, {low} {high}"
            );
            assert_eq!(result.since_start_tu, result.since_join_tu);
        }
    }

    /// EEVDF keeps lags while away: since the start its errors stay near a quantum or two, where WFQ's, which forgets, wander.
    #[test]
    fn kept_lags_keep_errors_small() {
        let results = simulate(&config(vec![find("eevdf-1995").unwrap(), find("wfq").unwrap()]));
        let width = |result: &DynamicResult| result.since_start_tu.1 - result.since_start_tu.0;
        assert!(width(&results[0]) < width(&results[1]), "{results:?}");
        assert!(results.iter().all(|result| result.nr_joins > 200 && result.nr_changes > 5), "{results:?}");
    }
}
