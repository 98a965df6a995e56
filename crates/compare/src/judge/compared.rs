//! One workload on one machine under several schedulers, compared: everything that its reports show.

use crate::cases::ensemble::Samples;
use crate::judge::comparison::Comparison;
use crate::judge::gate::{ConditionOutcome, Gate, Judgement};
use crate::measure::MetricValues;
use crate::page::letter;
use schedlab_lab::{Ensemble, FailureKind, Subject};
use schedlab_machine::Perturb;
use schedlab_units::Span;
use std::collections::BTreeMap;

/// A condition's outcome for one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct GateResult {
    /// Index of the condition.
    pub gate: usize,
    /// Index of the contender.
    pub contender: usize,
    /// How it turned out.
    pub judgement: Judgement,
}

/// A scenario with its comparisons. The baseline is contender 0.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The workload's name.
    pub workload: String,
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Where runs were stopped.
    pub duration: Option<Span>,
    /// The schedulers.
    pub contenders: Vec<Subject>,
    /// The seeds, in order.
    pub seeds: Vec<u64>,
    /// The perturbation's ranges.
    pub perturb: Option<Perturb>,
    /// Confidence of all intervals, 0 to 1.
    pub confidence: f64,
    /// All runs.
    pub samples: Samples,
    /// Each contender but the baseline against it, in order.
    pub comparisons: Vec<Comparison>,
    /// Each condition for each of those.
    pub gates: Vec<GateResult>,
    /// What makes it another experiment than the one that was asked for, a sentence and how often (over all runs).
    pub changed_experiment: BTreeMap<String, u64>,
}

impl Compared {
    /// Evaluates an ensemble's runs.
    pub fn new(
        workload: &str,
        ensemble: &Ensemble<'_>,
        samples: Samples,
        confidence: f64,
        gates: &[Gate],
    ) -> Compared {
        let comparisons: Vec<Comparison> = (1..ensemble.contenders.len())
            .map(|contender| Comparison::new(&samples, contender, confidence))
            .collect();
        let results = gates
            .iter()
            .enumerate()
            .flat_map(|(number, gate)| comparisons.iter().map(move |comparison| (number, gate, comparison)));
        let gates = results
            .map(|(number, gate, comparison)| GateResult {
                gate: number,
                contender: comparison.contender,
                judgement: gate.judge(&samples, comparison, confidence),
            })
            .collect();
        let mut changed_experiment = ensemble.workload.changed_experiment(ensemble.topology.nr_cpus());
        for (contender, runs) in samples.runs.iter().enumerate() {
            for (what, times) in runs.iter().flatten().flat_map(|run| &run.refused) {
                let sentence = format!("{}: {what}", letter(contender));
                *changed_experiment.entry(sentence).or_default() += times;
            }
        }
        Compared {
            workload: workload.to_string(),
            nr_cpus: ensemble.topology.nr_cpus(),
            duration: ensemble.duration,
            contenders: ensemble.contenders.to_vec(),
            seeds: ensemble.seeds.to_vec(),
            perturb: ensemble.perturb,
            confidence,
            samples,
            comparisons,
            gates,
            changed_experiment,
        }
    }

    /// Runs of a contender that gave numbers.
    pub fn measured(&self, contender: usize) -> impl Iterator<Item = &MetricValues> {
        self.samples.runs[contender].iter().filter_map(|run| run.as_ref().ok())
    }

    /// The worst kind of failure of any run.
    pub fn worst_failure(&self) -> Option<FailureKind> {
        self.samples
            .runs
            .iter()
            .flatten()
            .filter_map(|run| run.as_ref().err())
            .map(|failure| failure.kind)
            .max()
    }

    /// Of the first run that failed in this way: its scheduler, and why.
    pub fn first_failure(&self, kind: FailureKind) -> Option<(&Subject, &str)> {
        self.contenders.iter().zip(&self.samples.runs).find_map(|(contender, runs)| {
            let failure =
                runs.iter().filter_map(|run| run.as_ref().err()).find(|failure| failure.kind == kind)?;
            Some((contender, failure.reason.as_str()))
        })
    }

    /// Whether any condition is met.
    pub fn is_gate_met(&self) -> bool {
        self.gates.iter().any(|result| result.judgement.outcome == ConditionOutcome::Met)
    }

    /// Whether any run's scheduler warned.
    pub fn has_warnings(&self) -> bool {
        (0..self.contenders.len())
            .any(|contender| self.measured(contender).any(|run| !run.warnings.is_empty()))
    }
}
