//! The runs: which were made, what came of them.

use crate::experiments::corners::isolated;
use crate::experiments::{Depth, What, experiments};
use crate::facts::Facts;
use crate::plan::Plan;
use crate::scenario::Scenario;
use schedlab_lab::{Fails, FailureKind, RunFailure, Subject};
use schedlab_report::table::{Column, Table};
use schedlab_runner::pool::{self, PoolError};
use schedlab_topology::Topology;
use serde_json::Value;
use std::collections::BTreeMap;

/// One run that ended as it should.
#[derive(Clone, Debug)]
pub struct One {
    /// Its seed.
    pub seed: u64,
    /// What was done, without the workload.
    pub scenario: Scenario,
    /// What was read off.
    pub facts: Facts,
}

/// All runs of a subject.
#[derive(Debug)]
pub struct Data {
    /// By experiment, in order of seed.
    pub runs: BTreeMap<What, Vec<One>>,
    /// Runs that did not end as they should: experiment, seed, why.
    pub failed: Vec<(String, u64, RunFailure)>,
    /// The machine.
    pub topology: Topology,
}

/// How often, how many at once.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// What is asked.
    pub depth: Depth,
    /// The first seed.
    pub seed: u64,
    /// Runs at once.
    pub jobs: usize,
}

impl Data {
    /// Makes all runs that the questions need. `done` hears how many of how many are finished.
    ///
    /// # Errors
    /// Runs cannot be started.
    pub fn collect(
        subject: &Subject,
        topology: &Topology,
        effort: Effort,
        mut done: impl FnMut(usize, usize),
    ) -> Result<Data, PoolError> {
        let mut list: Vec<(What, u64)> = seeds(topology, effort.depth, effort.seed).collect();
        if effort.depth == Depth::Full {
            let isolated = isolated(subject, topology).map(|what| (what, 8));
            list.extend(numbered(isolated, effort.seed));
        }
        let one = |index: usize| {
            let (what, seed) = list[index];
            let made = what.scenario(topology, seed);
            let mut scenario = made.map_err(|error| internal(&error))?;
            let facts = scenario.run(subject, topology, what.drawn(seed))?;
            scenario.workload = Default::default();
            Ok(One { seed, scenario, facts })
        };
        let results = pool::map(list.len(), effort.jobs, one, |n| done(n, list.len()))?;
        let mut data = Data { runs: BTreeMap::new(), failed: Vec::new(), topology: topology.clone() };
        for ((what, seed), result) in list.iter().zip(results) {
            match result.unwrap_or_else(|lost| Err(RunFailure::of(&lost))) {
                Ok(one) => data.runs.entry(*what).or_default().push(one),
                Err(failure) => data.failed.push((what.name(), *seed, failure)),
            }
        }
        Ok(data)
    }

    /// The runs of an experiment.
    pub fn of(&self, what: What) -> &[One] {
        self.runs.get(&what).map_or(&[], Vec::as_slice)
    }
}

/// The runs of all experiments on this machine, each with its seed.
pub fn seeds(topology: &Topology, depth: Depth, seed: u64) -> impl Iterator<Item = (What, u64)> {
    numbered(experiments(topology, depth), seed)
}

/// Each experiment's runs with their seeds.
fn numbered(list: impl IntoIterator<Item = (What, u64)>, seed: u64) -> impl Iterator<Item = (What, u64)> {
    let first = seed.wrapping_mul(1000).saturating_sub(999);
    list.into_iter().flat_map(move |(what, times)| (0..times).map(move |number| (what, first + number)))
}

fn internal(error: &dyn std::fmt::Display) -> RunFailure {
    RunFailure { kind: FailureKind::Internal, reason: format!("internal error: {error}") }
}

/// The runs of a plan: seed and what came of it, in order of seed.
pub type PlanRuns = Vec<(u64, Result<(Scenario, Facts), RunFailure>)>;

/// Makes the runs of a plan of the user's.
///
/// # Errors
/// Runs cannot be started.
pub fn run_plan(
    plan: &Plan,
    subject: &Subject,
    topology: &Topology,
    (seed, jobs): (u64, usize),
) -> Result<PlanRuns, PoolError> {
    let one = |index: usize| {
        let seed = seed + index as u64;
        let scenario = plan.scenario(seed);
        let scenario =
            scenario.map_err(|error| RunFailure { kind: FailureKind::Input, reason: error.to_string() })?;
        let facts = scenario.run(subject, topology, seed)?;
        Ok((scenario, facts))
    };
    let results = pool::map(plan.repeats as usize, jobs, one, |_| {})?;
    let reason = |lost: pool::JobLost| Err(RunFailure { kind: lost.kind(), reason: lost.to_string() });
    Ok((seed..).zip(results.into_iter().map(|result| result.unwrap_or_else(reason))).collect())
}

/// What came of a plan: a row per run.
pub fn plan_table(plan: &Plan, runs: &PlanRuns) -> Table {
    let columns = vec![
        Column::new("seed", "", "of the run"),
        Column::new("moves", "", "changes of CPU, those by steps included"),
        Column::new("first_move_ms", "ms", "from the last step to the first move after it"),
        Column::new(
            "balanced_ms",
            "ms",
            "from the last step until no queue was longer than another by 2, for good",
        ),
        Column::new(
            "wasted_ms",
            "ms",
            "longest time that a CPU was without task while another had two, after the last step",
        ),
        Column::new("lengths", "", "of the queues in the end"),
        Column::new("problem", "", "why there is nothing"),
    ];
    let mut table = Table::new("plan", format!("plan '{}'", plan.name), columns);
    for (seed, run) in runs {
        let row = match run {
            Err(failure) => {
                let mut row = vec![Value::from(*seed)];
                row.extend(vec![Value::Null; 5]);
                row.push(failure.reason.clone().into());
                row
            }
            Ok((scenario, facts)) => {
                let at_ns = scenario.marks.last().map_or(0, |mark| mark.at.as_ns());
                let ms = |ns: u64| Value::from(ns as f64 / 1e6);
                let first = facts.moves.iter().find(|moved| moved.time_ns > at_ns);
                let (mut since, mut wasted_since, mut wasted_ns) = (Some(at_ns), None, 0);
                facts.for_each_state(at_ns, |from_ns, until_ns, lengths| {
                    let (most, least) = (lengths.iter().max(), lengths.iter().min());
                    let apart = most.copied().unwrap_or(0) - least.copied().unwrap_or(0);
                    since = if apart > 1 { None } else { since.or(Some(from_ns)) };
                    let wasted = lengths.contains(&0) && lengths.iter().any(|length| *length > 1);
                    wasted_since = if wasted { wasted_since.or(Some(from_ns)) } else { None };
                    wasted_ns = wasted_ns.max(wasted_since.map_or(0, |since: u64| until_ns - since));
                });
                vec![
                    (*seed).into(),
                    facts.moves.len().into(),
                    first.map_or(Value::Null, |moved| ms(moved.time_ns - at_ns)),
                    since.map_or(Value::Null, |since| ms(since - at_ns)),
                    ms(wasted_ns),
                    format!("{:?}", facts.lengths_at(facts.duration_ns)).into(),
                    Value::Null,
                ]
            }
        };
        table.push(row);
    }
    table
}
