//! Comparisons as JSON: names are a contract (fields are added, never renamed or removed).

use super::letter;
use crate::cases::ensemble::RunOutcome;
use crate::judge::compared::Compared;
use crate::judge::comparison::{Change, Significance};
use crate::judge::gate::{ConditionOutcome, Gate};
use crate::measure::metric::{Better, METRICS, Unit, ids};
use crate::measure::stats::Interval;
use serde_json::{Map, Value, json};

/// Version of the form.
const SCHEMA: u32 = 1;

/// All scenarios as one JSON object.
pub fn json(scenarios: &[Compared], gates: &[Gate]) -> Value {
    let metrics = METRICS.iter().map(|metric| {
        let unit = match metric.unit {
            Unit::Ns => "ns",
            Unit::Count => "count",
            Unit::Share => "share",
            Unit::Index => "index",
        };
        let better = match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        };
        json!({"name": metric.name(), "label": metric.label, "unit": unit, "better": better, "help": metric.help})
    });
    json!({
        "schema": SCHEMA,
        "metrics": metrics.collect::<Vec<_>>(),
        "scenarios": scenarios.iter().map(|compared| scenario(compared, gates)).collect::<Vec<_>>(),
        "gate_met": scenarios.iter().any(Compared::is_gate_met),
    })
}

/// A number; what is not finite (no interval, from nothing to something) is null.
fn number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { Value::Null }
}

fn interval(interval: &Interval) -> Value {
    json!({"mean": number(interval.mean), "low": number(interval.low), "high": number(interval.high), "n": interval.n})
}

fn scenario(compared: &Compared, gates: &[Gate]) -> Value {
    let contenders = compared.contenders.iter().enumerate().map(|(at, contender)| {
        let params: Map<String, Value> =
            contender.params.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let failures = compared.samples.runs[at].iter().zip(&compared.seeds).filter_map(|(run, seed)| {
            let failure = run.as_ref().err()?;
            Some(json!({"seed": seed, "kind": format!("{:?}", failure.kind).to_lowercase(), "reason": failure.reason}))
        });
        let warnings: Vec<&String> = compared.measured(at).flat_map(|run| &run.warnings).collect();
        json!({
            "label": contender.label, "letter": letter(at), "sched": contender.scheduler.name(),
            "sched_version": contender.scheduler.version(), "hz": contender.scheduler.hz(), "params": params,
            "values": values(&compared.samples.runs[at]),
            "failures": failures.collect::<Vec<_>>(), "warnings": warnings,
        })
    });
    let comparisons = compared.comparisons.iter().map(|comparison| {
        json!({
            "baseline": 0, "contender": comparison.contender, "pairs": comparison.nr_pairs,
            "changes": comparison.changes.iter().map(|c| change(compared, c)).collect::<Vec<_>>(),
            "tasks": comparison.subjects.iter().map(|c| change(compared, c)).collect::<Vec<_>>(),
        })
    });
    let gates = compared.gates.iter().map(|result| {
        let outcome = match result.judgement.outcome {
            ConditionOutcome::Met => "met",
            ConditionOutcome::NotMet => "not met",
            ConditionOutcome::Open => "not shown",
            ConditionOutcome::NoData => "no data",
        };
        json!({"condition": gates[result.gate].text, "contender": result.contender, "outcome": outcome,
               "quantity": interval(&result.judgement.interval)})
    });
    json!({
        "changed_experiment": compared.changed_experiment.iter()
            .map(|(what, times)| json!({"what": what, "times": times})).collect::<Vec<_>>(),
        "workload": compared.workload,
        "cpus": compared.nr_cpus,
        "duration_ns": compared.duration.map(|duration| duration.as_ns()),
        "confidence": compared.confidence,
        "seeds": compared.seeds,
        "perturb": compared.perturb.map(|p| json!({"phase_ns": p.phase.as_ns(), "at_ns": p.at.map(|at| at.as_ns()),
            "slack_ns": p.slack.as_ns(), "start_ns": p.start.as_ns()})),
        "contenders": contenders.collect::<Vec<_>>(),
        "comparisons": comparisons.collect::<Vec<_>>(),
        "gates": gates.collect::<Vec<_>>(),
    })
}

/// Per metric the value of each seed; null where a run has none.
fn values(runs: &[RunOutcome]) -> Map<String, Value> {
    let of = |run: &RunOutcome, id: usize| run.as_ref().ok().and_then(|run| run.values[id]);
    let list = |id: usize| runs.iter().map(|run| of(run, id)).collect::<Vec<_>>();
    ids().map(|id| (id.get().name(), json!(list(id.0)))).collect()
}

fn change(compared: &Compared, change: &Change) -> Value {
    let verdict = match change.verdict {
        Significance::Changed => "changed",
        Significance::Negligible => "negligible",
        Significance::NotShown => "not shown",
    };
    let mut row = json!({
        "metric": change.metric.get().name(),
        "base": interval(&change.base),
        "other": interval(&change.other),
        "difference": interval(&change.difference),
        "relative": interval(&change.relative()),
        "p": change.difference.p,
        "p_adjusted": change.p_adjusted,
        "same_sign": change.same_sign,
        "verdict": verdict,
        "size": change.size,
    });
    if let Some(subject) = change.subject {
        let subject = &compared.samples.subjects[subject];
        row["task"] = json!(subject.label);
        row["ids"] = json!(subject.tasks.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    row
}
