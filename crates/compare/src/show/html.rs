//! One self-contained page: what changed as a picture, tails of latencies, all numbers.

use super::draw::{Row, colour, forest, tails};
use super::{
    change_text, failure_text, is_better, letter, percentage, seeds_text, subject_changes, subject_label,
};
use crate::compared::Compared;
use crate::comparison::{Change, Comparison, Verdict};
use crate::gate::{Gate, Outcome};
use crate::metric::METRICS;
use schedlab_report::{static_page, units};
use schedlab_stdx::escape::html as escape;
use std::fmt::Write;

/// Rows of the picture.
const DRAWN: usize = 14;
const SUBJECTS_SHOWN: usize = 30;

/// The page; opens offline.
pub fn html(title: &str, scenarios: &[Compared], gates: &[Gate], command: &str) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(title));
    for compared in scenarios {
        scenario(&mut body, compared, gates);
    }
    let _ = writeln!(body, "<h3>again</h3><pre>{}</pre>", escape(command));
    body.push_str("<details><summary>what the metrics are</summary><table><tbody>\n");
    for metric in METRICS {
        let _ = writeln!(
            body,
            "<tr><td class=\"text\">{}</td><td class=\"text\"><code>{}</code></td><td class=\"text\">{}</td></tr>",
            escape(metric.label),
            metric.name(),
            escape(metric.help)
        );
    }
    body.push_str("</tbody></table></details>\n");
    static_page(title, &body)
}

fn scenario(body: &mut String, compared: &Compared, gates: &[Gate]) {
    let plural = if compared.nr_cpus == 1 { "" } else { "s" };
    let _ = writeln!(body, "<h2>{} · {} CPU{plural}</h2>", escape(&compared.workload), compared.nr_cpus);
    let duration =
        compared.duration.map(|d| format!(", at most {}", units::time(d.as_ns()))).unwrap_or_default();
    let _ = writeln!(
        body,
        "<p>{} perturbed replays each (seed {}){duration}; intervals of the mean difference at {} %, in pairs of one seed.</p>\n<div class=\"panel\">",
        compared.seeds.len(),
        seeds_text(&compared.seeds),
        percentage(compared.confidence)
    );
    for (at, contender) in compared.contenders.iter().enumerate() {
        let role = if at == 0 { " baseline" } else { "" };
        let _ = writeln!(
            body,
            "<div><span class=\"swatch\" style=\"background:{}\"></span> <b>{}</b> {} <small>{}{role}</small></div>",
            colour(at),
            letter(at),
            escape(&contender.label),
            escape(&contender.scheduler.version())
        );
        if let Some(failure) = failure_text(compared, at) {
            let _ = writeln!(body, "<p class=\"warn\">{}</p>", escape(&failure));
        }
    }
    body.push_str("</div>\n");
    judgements(body, compared, gates);
    for comparison in &compared.comparisons {
        one(body, compared, comparison);
    }
    let curves = [
        tails("run delay", compared, |run| &run.run_delay_curve),
        tails("wakeup latency", compared, |run| &run.wakeup_latency_curve),
    ];
    body.push_str("<div class=\"two\">");
    for curve in curves.into_iter().flatten() {
        let _ = writeln!(body, "<div class=\"panel\">{curve}</div>");
    }
    body.push_str("</div>\n");
}

fn one(body: &mut String, compared: &Compared, comparison: &Comparison) {
    let (a, b) = (letter(0), letter(comparison.contender));
    let changed: Vec<&Change> = comparison.changed().collect();
    if comparison.nr_pairs == 0 {
        let _ = writeln!(body, "<h3>{b} against {a}: no seed has numbers of both</h3>");
        return;
    }
    if changed.is_empty() {
        let _ = writeln!(body, "<h3>{b} against {a}: no difference that this ensemble can show</h3>");
    } else {
        let _ = writeln!(body, "<h3>{b} against {a}: what changed, most first</h3>\n<div class=\"panel\">");
        let rows: Vec<Row<'_>> =
            changed.iter().take(DRAWN).map(|change| drawn(compared, comparison, change)).collect();
        body.push_str(&forest(&rows));
        body.push_str("</div>\n");
    }
    table(body, "all tasks", compared, comparison, &comparison.changes.iter().collect::<Vec<_>>());
    let subjects = subject_changes(compared, comparison, SUBJECTS_SHOWN);
    if !subjects.is_empty() {
        table(body, "by task: what changed, most first", compared, comparison, &subjects);
    }
}

/// A change with every seed's ratio.
fn drawn<'a>(compared: &Compared, comparison: &Comparison, change: &'a Change) -> Row<'a> {
    let grain = change.metric.get().grain;
    let runs = compared.samples.runs[0].iter().zip(&compared.samples.runs[comparison.contender]);
    let ratio = |(a, b): (&crate::RunOutcome, &crate::RunOutcome)| {
        let value = |run: &crate::RunOutcome| run.as_ref().ok()?.values[change.metric.0];
        Some((value(b)? + grain) / (value(a)? + grain))
    };
    Row { name: change.metric.get().label.to_string(), change, ratios: runs.filter_map(ratio).collect() }
}

fn table(body: &mut String, title: &str, compared: &Compared, comparison: &Comparison, changes: &[&Change]) {
    let _ = writeln!(
        body,
        "<details open><summary>{title}</summary><div class=\"scroll\"><table><thead><tr><th class=\"text\"></th><th>{}</th><th>{}</th>\
         <th>change</th><th class=\"text\">interval</th><th>seeds</th><th class=\"text\"></th></tr></thead><tbody>",
        letter(0),
        letter(comparison.contender)
    );
    for change in changes {
        let metric = change.metric.get();
        let (by, ends) = change_text(change);
        let name = match change.subject {
            None => metric.label.to_string(),
            Some(_) => format!("{}: {}", subject_label(compared, change), metric.label),
        };
        let (colour, judgement) = match (change.verdict, is_better(change)) {
            (Verdict::Changed, Some(true)) => ("var(--good)", "better"),
            (Verdict::Changed, Some(false)) => ("var(--bad)", "worse"),
            (Verdict::Changed, None) => ("var(--accent)", "changed"),
            (Verdict::Negligible, _) => ("var(--soft)", "less than matters"),
            (Verdict::NotShown, _) => ("var(--faint)", "not shown"),
        };
        let _ = writeln!(
            body,
            "<tr><td class=\"text\" title=\"{}\">{}</td><td>{}</td><td>{}</td><td>{by}</td><td class=\"text\">{ends}</td>\
             <td>{}/{}</td><td class=\"text\" style=\"color:{colour}\">{judgement}</td></tr>",
            escape(metric.help),
            escape(&name),
            metric.value_text(change.base.mean),
            metric.value_text(change.other.mean),
            change.same_sign,
            change.difference.n,
        );
    }
    body.push_str("</tbody></table></div></details>\n");
}

fn judgements(body: &mut String, compared: &Compared, gates: &[Gate]) {
    if compared.gates.is_empty() {
        return;
    }
    body.push_str("<div class=\"panel\"><table><tbody>\n");
    for result in &compared.gates {
        let gate = &gates[result.gate];
        let interval = &result.judgement.interval;
        let (colour, verdict) = match result.judgement.outcome {
            Outcome::Met => ("var(--bad)", "met"),
            Outcome::NotMet => ("var(--good)", "not met"),
            Outcome::Open => ("var(--bad)", "not shown: more runs would tell"),
            Outcome::NoData => ("var(--bad)", "nothing of the kind was measured"),
        };
        let numbers = match result.judgement.outcome {
            Outcome::NoData => String::new(),
            _ if interval.n < 2 || interval.low == interval.high => gate.number_text(interval.mean),
            _ => format!(
                "{} ({} .. {})",
                gate.number_text(interval.mean),
                gate.number_text(interval.low),
                gate.number_text(interval.high)
            ),
        };
        let _ = writeln!(
            body,
            "<tr><td class=\"text\"><code>{}</code></td><td class=\"text\">{}</td><td class=\"text\" style=\"color:{colour}\">{verdict}</td><td class=\"text\">{numbers}</td></tr>",
            escape(&gate.text),
            letter(result.contender),
        );
    }
    body.push_str("</tbody></table></div>\n");
}
