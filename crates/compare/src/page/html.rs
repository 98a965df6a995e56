//! One self-contained page: what changed as a picture, every replay, tails of latencies, all numbers.

use super::draw::{Drawn, forest, replays, tails};
use super::{
    Tasks, change_text, failure_text, is_better, letter, percentage, seeds_text, subject_changes,
    subject_label,
};
use crate::judge::compared::Compared;
use crate::judge::comparison::{Change, Comparison, Significance};
use crate::judge::gate::{ConditionOutcome, Gate};
use crate::measure::metric::METRICS;
use schedlab_report::chart::colour;
use schedlab_report::page::Page;
use schedlab_report::table::{Cell, Grid, Tone};
use schedlab_report::units;

/// More rows than these are folded away.
const FOLDED: usize = 30;
/// Rows of the picture.
const DRAWN: usize = 14;

/// The page; opens offline.
pub fn html(title: &str, scenarios: &[Compared], gates: &[Gate], command: &str) -> String {
    let mut page = Page::new(title);
    for compared in scenarios {
        scenario(&mut page, compared, gates);
    }
    page.part("again");
    page.command(command);
    let metric = |metric: &crate::measure::metric::Metric| {
        vec![Cell::text(metric.label), Cell::text(metric.name()).tone(Tone::Code), Cell::text(metric.help)]
    };
    let metrics = Grid { head: Vec::new(), rows: METRICS.iter().map(metric).collect() };
    page.fold("what the metrics are", false, |page| page.grid(&metrics));
    page.html()
}

fn scenario(page: &mut Page, compared: &Compared, gates: &[Gate]) {
    let plural = if compared.nr_cpus == 1 { "" } else { "s" };
    page.section(&format!("{} · {} CPU{plural}", compared.workload, compared.nr_cpus), "");
    if !compared.changed_experiment.is_empty() {
        page.warning(schedlab_report::CHANGED);
        for (what, times) in &compared.changed_experiment {
            page.warning(&format!("{times} × {what}"));
        }
    }
    let duration =
        compared.duration.map(|d| format!(", at most {}", units::time(d.as_ns()))).unwrap_or_default();
    page.note(&format!(
        "{} perturbed replays each (seed {}){duration}; intervals of the mean difference at {} %, in pairs of one \
            seed.",
        compared.seeds.len(),
        seeds_text(&compared.seeds),
        percentage(compared.confidence)
    ));
    page.panel(|page| {
        for (at, contender) in compared.contenders.iter().enumerate() {
            let role = if at == 0 { ", baseline" } else { "" };
            let version = format!("  {}{role}", contender.scheduler.version());
            let (name, label) = (letter(at), format!(" {} ", contender.label));
            page.key(
                colour(at),
                &[(name.as_str(), Tone::Bold), (&label, Tone::Plain), (&version, Tone::Soft)],
            );
            if let Some(failure) = failure_text(compared, at) {
                page.warning(&failure);
            }
        }
    });
    if !compared.gates.is_empty() {
        page.panel(|page| page.grid(&judgements(compared, gates)));
    }
    for comparison in &compared.comparisons {
        one(page, compared, comparison);
    }
    let drawings = [
        replays(compared, "run_delay.p99"),
        replays(compared, "wakeup_latency.p99"),
        tails("run delay", compared, |run| &run.run_delay_curve),
        tails("wakeup latency", compared, |run| &run.wakeup_latency_curve),
    ];
    page.part(
        "waits: every replay as a dot in a box of quartiles; tails as means over replays in a band of all",
    );
    page.beside(|page| drawings.iter().flatten().for_each(|svg| page.panel(|page| page.svg(svg))));
}

fn one(page: &mut Page, compared: &Compared, comparison: &Comparison) {
    let (a, b) = (letter(0), letter(comparison.contender));
    if comparison.nr_pairs == 0 {
        return page.part(&format!("{b} against {a}: no seed has numbers of both"));
    }
    let drawn: Vec<Drawn<'_>> =
        comparison.changed().take(DRAWN).map(|change| drawn(compared, comparison, change)).collect();
    if drawn.is_empty() {
        page.part(&format!("{b} against {a}: no difference that this ensemble can show"));
    } else {
        page.part(&format!("{b} against {a}: what changed, most first"));
        page.panel(|page| page.svg(&forest(drawn)));
    }
    let all: Vec<&Change> = comparison.changes.iter().collect();
    page.fold("all tasks", true, |page| page.grid(&changes(compared, comparison, &all)));
    let (subjects, _) = subject_changes(compared, comparison, Tasks::All);
    if !subjects.is_empty() {
        page.fold("by task: what changed, most first", subjects.len() <= FOLDED, |page| {
            page.grid(&changes(compared, comparison, &subjects));
        });
    }
}

/// A change with every seed's ratio.
fn drawn<'a>(compared: &Compared, comparison: &Comparison, change: &'a Change) -> Drawn<'a> {
    let grain = change.metric.get().grain;
    let runs = compared.samples.runs[0].iter().zip(&compared.samples.runs[comparison.contender]);
    let ratio = |(a, b): (&crate::RunOutcome, &crate::RunOutcome)| {
        let value = |run: &crate::RunOutcome| run.as_ref().ok()?.values[change.metric.0];
        Some((value(b)? + grain) / (value(a)? + grain))
    };
    Drawn { change, ratios: runs.filter_map(ratio).collect() }
}

fn changes(compared: &Compared, comparison: &Comparison, changes: &[&Change]) -> Grid {
    let row = |change: &&Change| {
        let metric = change.metric.get();
        let (by, ends) = change_text(change);
        let name = match change.subject {
            None => metric.label.to_string(),
            Some(_) => format!("{}: {}", subject_label(compared, change), metric.label),
        };
        let (tone, judgement) = match (change.verdict, is_better(change)) {
            (Significance::Changed, Some(true)) => (Tone::Good, "better"),
            (Significance::Changed, Some(false)) => (Tone::Bad, "worse"),
            (Significance::Changed, None) => (Tone::Changed, "changed"),
            (Significance::Negligible, _) => (Tone::Soft, "less than matters"),
            (Significance::NotShown, _) => (Tone::Faint, "not shown"),
        };
        vec![
            Cell::text(name).help(metric.help),
            Cell::number(metric.value_text(change.base.mean)),
            Cell::number(metric.value_text(change.other.mean)),
            Cell::number(by),
            Cell::text(ends),
            Cell::number(format!("{}/{}", change.same_sign, change.difference.n)),
            Cell::text(judgement).tone(tone),
        ]
    };
    let head = vec![
        Cell::text(""),
        Cell::number(letter(0)),
        Cell::number(letter(comparison.contender)),
        Cell::number("change"),
        Cell::text("interval"),
        Cell::number("seeds").help("pairs of one seed whose difference has this sign, of all pairs"),
        Cell::text(""),
    ];
    Grid { head, rows: changes.iter().map(row).collect() }
}

fn judgements(compared: &Compared, gates: &[Gate]) -> Grid {
    let row = |result: &crate::GateResult| {
        let gate = &gates[result.gate];
        let interval = &result.judgement.interval;
        let (tone, verdict) = match result.judgement.outcome {
            ConditionOutcome::Met => (Tone::Bad, "met"),
            ConditionOutcome::NotMet => (Tone::Good, "not met"),
            ConditionOutcome::Open => (Tone::Bad, "not shown: more runs would tell"),
            ConditionOutcome::NoData => (Tone::Bad, "nothing of the kind was measured"),
        };
        let numbers = match result.judgement.outcome {
            ConditionOutcome::NoData => String::new(),
            _ if interval.n < 2 || interval.low == interval.high => gate.number_text(interval.mean),
            _ => format!(
                "{} ({} .. {})",
                gate.number_text(interval.mean),
                gate.number_text(interval.low),
                gate.number_text(interval.high)
            ),
        };
        vec![
            Cell::text(&gate.text).tone(Tone::Code),
            Cell::text(letter(result.contender)),
            Cell::text(verdict).tone(tone),
            Cell::text(numbers),
        ]
    };
    Grid { head: Vec::new(), rows: compared.gates.iter().map(row).collect() }
}
