//! In the full machine: the plan's clients as tasks, and the same errors read off the log.
//!
//! A client is a task that computes and sleeps; a task of SCHED_FIFO above them all changes nice values at
//! the planned times and takes no CPU time. Runnable is what the log says: from a wakeup to the switch in
//! which the task blocks.

use super::ledger::Ledger;
use super::plan::{Action, Plan, Turns};
use super::{DynamicResult, SHOWN, UNITS_PER_QUANTUM};
use crate::arm::{ArmError, log};
use crate::fairness::given::{ShareForm, with_quantum};
use crate::fairness::{Execution, Expressed};
use schedlab_log::{Log, LogProblem, MemLog, Observer, Row, Run, Slots, WaitCause, replay};
use schedlab_units::{CpuId, Nice, Span, TaskId};
use schedlab_workload::{Builder, ParamChange, Workload};

/// Serves the plan's clients under this arm. Shares are nice values; control groups would have to be
/// moved between.
pub(super) fn run(execution: &Execution, plan: &Plan, unit: Span) -> Result<DynamicResult, ArmError> {
    let Execution::Machine(subject, _) = execution else { unreachable!("quanta are simulated") };
    let subject = with_quantum(subject, unit);
    let unit_ns = unit.as_ns() / UNITS_PER_QUANTUM;
    let length = Span::from_ns(plan.length * unit_ns);
    let log = log(&subject, &workload(plan, unit_ns), length)?;
    let (ledger, stretches) = read(&log, plan, unit_ns).map_err(|problem| ArmError::Run(problem.into()))?;
    Ok(DynamicResult::of(
        Execution::Machine(Box::new(subject), ShareForm::Nice).label(),
        &ledger,
        unit.as_ns(),
        stretches,
    ))
}

/// The nice value that has this weight, or the nearest.
fn nice_of(share: u64) -> Nice {
    let exact = (-20..=19).filter_map(|nice| Nice::new(nice).ok()).find(|nice| nice.weight().0 == share);
    exact.unwrap_or_else(|| match Expressed::by_nice(&[share, 1024]).settings[0] {
        crate::arm::Setting::Nice(nice) => nice,
        _ => Nice::default(),
    })
}

fn workload(plan: &Plan, unit_ns: u64) -> Workload {
    let mut builder = Builder::new();
    let span = |units: u64| Span::from_ns(units * unit_ns);
    for (client, &share) in plan.shares.iter().enumerate() {
        let mut life = builder.task(format!("c{client}")).nice(nice_of(share));
        if let Some(habits) = plan.habits {
            let mut turns = Turns::of(plan, habits, client);
            let mut elapsed = 0;
            while elapsed < plan.length {
                let (work, sleep) = (turns.work(), turns.sleep());
                life = life.run(span(work)).sleep(span(sleep));
                elapsed += work + sleep;
            }
        }
        life.run(span(2 * plan.length)).exit();
    }
    let changes: Vec<(u64, u32, u64)> = plan
        .happenings
        .iter()
        .filter_map(|happening| match happening.action {
            Action::Share(share) => Some((happening.at, happening.client, share)),
            _ => None,
        })
        .collect();
    if !changes.is_empty() {
        let mut life = builder.task("changes").fifo(50).blocked();
        let mut before = 0;
        for (at, client, share) in changes {
            let (target, nice) = (Some(TaskId(client)), Some(nice_of(share)));
            life = life.sleep(span(at - before)).set(ParamChange { target, nice, ..ParamChange::default() });
            before = at;
        }
        life.block();
    }
    builder.finish().expect("clients and their changes keep the rules")
}

/// Reads the accounts off the log; returns the clients' stretches too.
fn read(log: &MemLog, plan: &Plan, unit_ns: u64) -> Result<(Ledger, Vec<Stretch>), LogProblem> {
    let tu_ns = unit_ns * UNITS_PER_QUANTUM;
    let nr_clients = plan.shares.len();
    let mut ledger = Ledger::new(&plan.shares, tu_ns, SHOWN * tu_ns);
    (0..nr_clients).for_each(|client| ledger.join(client));
    let mut accounts = Accounts { plan, unit_ns, next_change: 0, ledger, stretches: Vec::new() };
    accounts.changes_until(0);
    replay(log, &Slots::new(log.header()), &mut accounts)?;
    let Accounts { mut ledger, mut stretches, .. } = accounts;
    ledger.advance(plan.length * unit_ns);
    ledger.finish();
    stretches.retain(|(_, from, to)| to > from);
    Ok((ledger, stretches))
}

/// Client, from, to in ns.
type Stretch = (usize, u64, u64);

struct Accounts<'a> {
    plan: &'a Plan,
    unit_ns: u64,
    /// Of the plan's happenings.
    next_change: usize,
    ledger: Ledger,
    stretches: Vec<Stretch>,
}

impl Accounts<'_> {
    fn client(&self, row: Row) -> Option<usize> {
        (row.index() < self.plan.shares.len()).then(|| row.index())
    }

    /// A change takes effect before what the log holds of the same instant.
    fn changes_until(&mut self, to_ns: u64) {
        while let Some(happening) = self.plan.happenings.get(self.next_change)
            && happening.at * self.unit_ns <= to_ns
        {
            self.next_change += 1;
            self.ledger.advance(happening.at * self.unit_ns);
            if let Action::Share(share) = happening.action {
                self.ledger.change(happening.client as usize, share);
            }
        }
    }
}

impl Observer for Accounts<'_> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.changes_until(to_ns);
        self.ledger.advance(to_ns);
    }
    fn wait_begin(&mut self, row: Row, _cpu: CpuId, cause: WaitCause) {
        if let Some(client) = self.client(row)
            && cause == WaitCause::Wakeup
            && !self.ledger.runnable(client)
        {
            self.ledger.join(client);
        }
    }
    fn run_begin(&mut self, row: Row, _cpu: CpuId) {
        if let Some(client) = self.client(row) {
            self.ledger.begin(client);
        }
    }
    fn run_end(&mut self, run: &Run) {
        let Some(stop) = run.stop else { return };
        self.ledger.end();
        if let Some(client) = self.client(run.row) {
            self.stretches.push((client, run.since_ns, run.until_ns));
            if !stop.is_runnable() {
                self.ledger.leave(client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DynamicConfig, simulate};
    use super::*;
    use crate::fairness::{ShareForm, find};
    use schedlab_lab::Subject;

    /// The same clients under the same discipline, once simulated and once in the machine, have the same
    /// errors: nothing is lost in the log's reading. With quanta of 1 us both count in the same unit, so that
    /// ties between equal virtual times, which joins round, are broken alike.
    #[test]
    fn machine_and_simulation_agree() {
        for name in ["wfq", "vtrr", "eevdf-1995", "stride"] {
            let machine = Execution::Machine(Box::new(Subject::native(name).unwrap()), ShareForm::Nice);
            let config = DynamicConfig {
                machine: vec![machine],
                nice_weights: true,
                unit: Span::from_us(1),
                change_quanta: 0,
                quanta: 3_000,
                nr_clients: 6,
                ..DynamicConfig::default_mix(vec![find(name).unwrap()])
            };
            let results = simulate(&config).unwrap().results;
            let (a, b) = (&results[0], &results[1]);
            assert_eq!(a.nr_joins, b.nr_joins, "{name}");
            for (a, b) in [(a.since_start_tu, b.since_start_tu), (a.since_join_tu, b.since_join_tu)] {
                assert!((a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6, "{name}: {a:?} {b:?}");
            }
        }
    }
}
