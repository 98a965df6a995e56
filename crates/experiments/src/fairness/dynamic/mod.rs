//! How fair are they when clients sleep, join, leave and change their shares?
//!
//! *Error, defined for this.* The ideal serves all clients that are runnable now, at rates in proportion to
//! their shares now: client A, while runnable, is due S_A(t)/T(t) of each unit of time, T being the sum over
//! the clients that are runnable under the scheduler studied. A sleeping client is due nothing. Its error is
//! what it received less what it was due:
//!
//! * *since the start*: kept over sleeps, so that a client which left ahead comes back ahead;
//! * *since it last joined*: from zero at each wakeup; what a client sees that does not remember.
//!
//! A share change counts from its instant. Extremes are taken at the edges of a client's own service, between
//! which its error only falls, and when it leaves. Errors are exact but for one rounding of 2^-64 of a unit
//! per change of T (see [`Clock`](schedlab_policies::proportional::Clock)).
//!
//! What clients do is [drawn](DynamicConfig), each alternating between work (an amount of CPU time) and sleep
//! (a length of time) and changing its share at given times; or [written down](Script). It is the same for
//! every scheduler. The proportional share schedulers are simulated quantum by quantum; others, real Linux
//! included, run in the full machine, where shares are weights of nice values, and the same errors are read
//! off the log.

mod ledger;
mod logged;
mod page;
mod plan;
mod simulation;

pub use page::Dynamic;
pub use plan::{Action, Happening, ParseHappeningError, PlanError};

use super::{ConfigError, Contender, Execution};
use ledger::Ledger;
use plan::Plan;
use schedlab_units::Span;

/// Units of service and time per quantum: sleeps begin and end within quanta.
pub const UNITS_PER_QUANTUM: u64 = 1000;

/// Clients that are drawn.
#[derive(Clone, Debug)]
pub struct DynamicConfig {
    /// Which schedulers, quantum by quantum.
    pub contenders: Vec<&'static Contender>,
    /// Which arms in the full machine.
    pub machine: Vec<Execution>,
    /// A time unit in the machine.
    pub unit: Span,
    /// Number of clients.
    pub nr_clients: u32,
    /// Sum of their shares at the start.
    pub total: u64,
    /// Shares are weights of nice values from -10 to 10 instead, which all schedulers take; `total`
    /// does not count then.
    pub nice_weights: bool,
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
            machine: Vec::new(),
            unit: Span::from_ms(10),
            nr_clients: 16,
            total: 2048,
            nice_weights: false,
            quanta: 50_000,
            work_quanta: 20,
            sleep_quanta: 100,
            change_quanta: 5_000,
            seed: 1,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.contenders.is_empty() && self.machine.is_empty() {
            return Err(ConfigError::Empty("scheduler"));
        }
        if self.quanta == 0 {
            return Err(ConfigError::Empty("quantum of time"));
        }
        if self.nr_clients == 0 || self.total < u64::from(self.nr_clients) {
            return Err(ConfigError::Shares { nr_clients: self.nr_clients, total: self.total });
        }
        let longest = self.quanta.max(self.work_quanta).max(self.sleep_quanta).max(self.change_quanta);
        if self.total > 1 << 30 || longest > 1 << 40 {
            return Err(ConfigError::TooLarge(self.total.max(longest)));
        }
        Ok(())
    }
}

/// Clients whose life is written down; they always want the CPU while they are runnable.
#[derive(Clone, Debug)]
pub struct Script {
    /// Shares at the start, by client from A on.
    pub shares: Vec<u64>,
    /// What happens.
    pub happenings: Vec<Happening>,
    /// Length, in quanta.
    pub quanta: u64,
    /// For schedulers that draw.
    pub seed: u64,
}

/// Errors of one scheduler, in quanta.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicResult {
    /// The scheduler.
    pub sched: String,
    /// Lowest and highest error since the start.
    pub since_start_tu: (f64, f64),
    /// Lowest and highest error since the client last joined.
    pub since_join_tu: (f64, f64),
    /// Joins (wakeups) of all clients.
    pub nr_joins: u64,
    /// Share changes.
    pub nr_changes: u64,
    /// Service of each client, in quanta.
    pub received_tu: Vec<f64>,
    /// Per client, (time, error since the start) in quanta, for the first [`SHOWN`] quanta.
    pub curves: Vec<Vec<(f64, f64)>>,
    /// Stretches of service (client, from, to) in quanta, for as long.
    pub stretches: Vec<(usize, f64, f64)>,
}

/// Curves are kept for so many quanta.
pub const SHOWN: u64 = 400;

impl DynamicResult {
    fn of(sched: String, ledger: &Ledger, per_tu: u64, stretches: Vec<(usize, u64, u64)>) -> DynamicResult {
        let clients = 0..ledger.nr_clients();
        let tu = |units: u64| units as f64 / per_tu as f64;
        let shown = stretches.into_iter().filter(|&(_, from, _)| tu(from) < SHOWN as f64);
        DynamicResult {
            sched,
            since_start_tu: ledger.since_start.tu(per_tu),
            since_join_tu: ledger.since_join.tu(per_tu),
            nr_joins: ledger.nr_joins,
            nr_changes: ledger.nr_changes,
            received_tu: clients.clone().map(|client| tu(ledger.received(client))).collect(),
            curves: clients.map(|client| ledger.curve(client).to_vec()).collect(),
            stretches: shown.map(|(client, from, to)| (client, tu(from), tu(to))).collect(),
        }
    }
}

/// Serves drawn clients under each scheduler.
pub fn simulate(config: &DynamicConfig) -> Result<Dynamic, ConfigError> {
    config.check()?;
    let plan = Plan::drawn(config);
    let mut results: Vec<DynamicResult> =
        config.contenders.iter().map(|contender| simulation::simulate(contender, &plan)).collect();
    for execution in &config.machine {
        results.push(logged::run(execution, &plan, config.unit)?);
    }
    let sharing = match config.nice_weights {
        true => "shares are weights of nice values".to_string(),
        false => format!("{} shares", config.total),
    };
    let title = format!(
        "Service time error when clients sleep, join and change shares ({} clients, {sharing}, {} quanta, seed {})",
        config.nr_clients, config.quanta, config.seed
    );
    Ok(Dynamic { title, script: None, results })
}

/// Serves clients whose life is written down, under each scheduler.
pub fn follow(contenders: &[&'static Contender], script: &Script) -> Result<Dynamic, PlanError> {
    let plan = Plan::written(script)?;
    let results = contenders.iter().map(|contender| simulation::simulate(contender, &plan)).collect();
    let shares: Vec<String> = script.shares.iter().map(u64::to_string).collect();
    let title = format!("Service time error: shares {}, {} quanta", shares.join(", "), script.quanta);
    Ok(Dynamic { title, script: Some(script.clone()), results })
}

#[cfg(test)]
mod tests;
