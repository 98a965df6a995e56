//! Which runs do the paper's figures need beyond those that answer questions? Plans with a few numbers read off each.

use crate::facts::Facts;
use crate::plan::{Act, Class, Plan, Step, Tasks};
use crate::scenario::Scenario;
use schedlab_lab::{FailureKind, RunFailure, Subject};
use schedlab_runner::pool::{self, PoolError};
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::Span;

/// CPUs of the paper's machine.
pub(super) const CPUS: u32 = 4;

/// A run to be made.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// What is varied along x: tasks, % of a CPU, or nice levels.
    pub x: u32,
    /// Other times are drawn with another one.
    pub seed: u64,
    /// What is done.
    pub plan: Plan,
    /// The second of two cases: bound, or warm.
    pub is_second: bool,
    /// CPU time is counted in these stretches after the release, in seconds.
    pub windows: Vec<(u64, u64)>,
}

impl Trial {
    /// The first of two cases, with the paper's short and long term.
    pub fn new(x: u32, seed: u64, plan: Plan) -> Trial {
        Trial { x, seed, plan, is_second: false, windows: vec![SHORT_S, LONG_S] }
    }
}

/// Stretches after the release, in seconds: the paper's short and long term.
pub(super) const SHORT_S: (u64, u64) = (1, 2);
/// See [`SHORT_S`].
pub(super) const LONG_S: (u64, u64) = (30, 60);

/// When the tasks were let go: at the first step, or, if there is none, when the latest would have been.
pub(super) fn released_ns(scenario: &Scenario) -> u64 {
    scenario.marks.first().map_or(2_000_000_000, |mark| mark.at.as_ns())
}

/// Makes the runs, and reads something off each; in the order of the trials, with those that did not end as they
/// should as `None`.
///
/// # Errors
/// Runs cannot be started.
pub(super) fn made<T: Send>(
    trials: &[Trial],
    subject: &Subject,
    (seed, jobs): (u64, usize),
    read: impl Fn(&Scenario, &Facts) -> T + Sync,
) -> Result<Vec<Option<T>>, PoolError> {
    let topology = Topology::flat(CPUS).expect("four CPUs");
    let one = |index: usize| -> Result<T, RunFailure> {
        let trial = &trials[index];
        let drawn = Random::for_part(seed, trial.seed * 1000 + u64::from(trial.x)).next_u64();
        let failed = |why: String| RunFailure { kind: FailureKind::Internal, reason: why };
        let mut scenario = trial.plan.scenario(drawn).map_err(|error| failed(error.to_string()))?;
        let at = Span::from_ns(released_ns(&scenario));
        let stretch = |(from, to): (u64, u64)| (at + Span::from_s(from), at + Span::from_s(to));
        scenario.windows = trial.windows.iter().copied().map(stretch).collect();
        let facts = scenario.run(subject, &topology, drawn)?;
        scenario.workload = Default::default();
        Ok(read(&scenario, &facts))
    };
    let results = pool::map(trials.len(), jobs, one, |_| {})?;
    Ok(results.into_iter().map(|result| result.ok().and_then(Result::ok)).collect())
}

fn plan(name: &str, seconds: u64, tasks: Vec<Tasks>, steps: Vec<Step>) -> Plan {
    Plan { name: name.into(), cpus: CPUS, duration: Span::from_s(seconds), repeats: 1, tasks, steps }
}

fn drawn(act: Act) -> Step {
    Step::drawn(Span::from_s(1), Span::from_s(2), act)
}

/// [10+x,10+x,10+x,10], arranged at a drawn instant.
pub(super) fn resolve(x: u32) -> Plan {
    let total = 40 + 3 * x;
    let evenly = (0..CPUS).map(|cpu| total / CPUS + u32::from(cpu < total % CPUS)).collect();
    let (tasks, counts) = (Tasks::heavy("hog", evenly), [10 + x, 10 + x, 10 + x, 10]);
    plan("resolve", 40, vec![tasks], vec![drawn(Act::Arrange).counts(&counts)])
}

/// [5,0,0,0], for as long as the paper's figure 12.
pub(super) fn five() -> Plan {
    let tasks = Tasks::heavy("hog", vec![2, 1, 1, 1]);
    plan("five", 72, vec![tasks], vec![drawn(Act::Arrange).counts(&[5, 0, 0, 0])])
}

/// Four heavy tasks and four that want `percent` of a CPU: on one CPU and released, or one of each bound to each CPU.
pub(super) fn mixed(percent: u32, is_bound: bool) -> Plan {
    let light = |counts| Tasks { class: Class::Light, percent, ..Tasks::heavy("light", counts) };
    placed("mixed", is_bound, |counts| vec![Tasks::heavy("heavy", counts.clone()), light(counts)])
}

/// Four tasks of high and four of low priority, `difference` nice levels apart: the same.
pub(super) fn priorities(difference: u32, is_bound: bool) -> Plan {
    let half = (difference / 2) as i32;
    let of = |name, nice, counts| Tasks { nice, ..Tasks::heavy(name, counts) };
    placed("priorities", is_bound, |counts| vec![of("high", -half, counts.clone()), of("low", half, counts)])
}

fn placed(name: &str, is_bound: bool, tasks: impl Fn(Vec<u32>) -> Vec<Tasks>) -> Plan {
    match is_bound {
        true => plan(name, 63, tasks(vec![1; 4]), Vec::new()),
        false => plan(name, 63, tasks(vec![4]), vec![drawn(Act::Release)]),
    }
}

/// A task of 85 % beside `heavies`, all bound to one CPU; if it is warm, 16 others are there for the first 10 s.
pub(super) fn sticky(heavies: u32, is_warm: bool) -> Plan {
    let mean = Span::from_ms(17);
    let light = Tasks { class: Class::Light, percent: 85, mean, ..Tasks::heavy("light", vec![1]) };
    let load = Tasks::heavy("load", vec![if is_warm { 16 } else { 0 }]);
    let end = Step { tasks: Some("load".into()), ..Step::at(Span::from_s(10), Act::End) };
    plan("sticky", 13, vec![light, Tasks::heavy("heavy", vec![heavies]), load], vec![end])
}

/// The variance across the queues, in the mean over a stretch after the release.
pub(super) fn variance(facts: &Facts, from_ns: u64, to_ns: u64) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    facts.for_each_state(from_ns, |since_ns, until_ns, lengths| {
        let length_ns = until_ns.min(to_ns).saturating_sub(since_ns) as f64;
        let n = lengths.len() as f64;
        let mean = lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / n;
        let squares: f64 = lengths.iter().map(|length| (f64::from(*length) - mean).powi(2)).sum();
        sum += squares / n * length_ns;
        total += length_ns;
    });
    sum / total.max(1.0)
}

/// When every queue was within 15 % of the mean after the release: for the first time, and for a second, in s.
pub(super) fn resolved_s(scenario: &Scenario, facts: &Facts) -> (Option<f64>, Option<f64>) {
    let at_ns = released_ns(scenario);
    let (mut touched, mut held, mut since) = (None, None, None);
    facts.for_each_state(at_ns, |from_ns, until_ns, lengths| {
        let mean = lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / lengths.len() as f64;
        let is_near = lengths.iter().all(|length| (f64::from(*length) - mean).abs() <= 0.15 * mean);
        since = if is_near { since.or(Some(from_ns)) } else { None };
        if let Some(since) = since {
            let after_s = (since - at_ns) as f64 / 1e9;
            touched = touched.or(Some(after_s));
            if held.is_none() && until_ns - since >= 1_000_000_000 {
                held = Some(after_s);
            }
        }
    });
    (touched, held)
}

/// What is read off a run of four and four, in the short and in the long term.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Term {
    /// Mean variance across the queues.
    pub variance: f64,
    /// CPU time of the first four tasks, in CPUs.
    pub first: f64,
    /// Moves per second of the first four, and of the other four.
    pub moves: [f64; 2],
    /// CPU time of the other four, in CPUs.
    pub second: f64,
}

/// The short and the long term of a run of four and four.
pub(super) fn terms(scenario: &Scenario, facts: &Facts) -> [Term; 2] {
    let of = |number: usize| {
        let (from, to) = scenario.windows[number];
        let (from_ns, to_ns) = (from.as_ns(), to.as_ns());
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        let cpus = |tasks: &[u64]| tasks.iter().sum::<u64>() as f64 / 1e9 / seconds;
        let mut moves = [0.0; 2];
        for moved in facts.moves.iter().filter(|moved| (from_ns..to_ns).contains(&moved.time_ns)) {
            moves[usize::from(moved.task.index() >= 4)] += 1.0 / seconds;
        }
        let (first, second) = facts.in_windows[number].split_at(4);
        let variance = variance(facts, from_ns, to_ns);
        Term { variance, first: cpus(first), second: cpus(second), moves }
    };
    [of(0), of(1)]
}

/// The mean of those that there are; `None` if there is none.
pub(super) fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
