//! What a person reads first: what changed, most first, on a terminal of 100 columns.

use super::{
    Tasks, change_text, failure_text, is_better, letter, percentage, seeds_text, subject_changes,
    subject_label,
};
use crate::judge::compared::Compared;
use crate::judge::comparison::{Change, Comparison, Significance};
use crate::judge::gate::{ConditionOutcome, Gate};
use schedlab_report::{Style, clip, units, wrapped};

/// One scenario, lines of at most 100 columns; of single tasks those of `tasks`.
pub fn terminal(compared: &Compared, gates: &[Gate], tasks: Tasks, style: Style) -> String {
    let mut text = String::new();
    title(&mut text, compared, style);
    for comparison in &compared.comparisons {
        one(&mut text, compared, comparison, tasks, style);
    }
    judgements(&mut text, compared, gates, style);
    text
}

fn line(text: &mut String, content: &str) {
    text.push_str(content.trim_end());
    text.push('\n');
}

fn title(text: &mut String, compared: &Compared, style: Style) {
    let nr_seeds = compared.seeds.len();
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let mut parts = vec![
        style.bold(&clip(&compared.workload, 40)),
        format!("{} CPU{}", compared.nr_cpus, plural(compared.nr_cpus as usize)),
    ];
    parts.extend(compared.duration.map(|duration| format!("at most {}", units::time(duration.as_ns()))));
    parts.push(format!("{nr_seeds} replay{} each (seed {})", plural(nr_seeds), seeds_text(&compared.seeds)));
    line(text, &format!("\n{}", parts.join(" · ")));
    schedlab_report::changed_experiment(text, &compared.changed_experiment, style);
    let intervals = format!(
        "{} % intervals of the mean difference within seeds; Holm's correction decides what is shown",
        percentage(compared.confidence)
    );
    let varied = match compared.perturb {
        None => "nothing is varied".to_string(),
        Some(perturb) => format!(
            "varied: {}, timers late by 0 to {}, starts by 0 to {}",
            match (perturb.at, perturb.phase.as_ns()) {
                (Some(at), _) => format!("ticks at a phase of {at}"),
                (None, 0) => "ticks as they are".to_string(),
                (None, _) => "the phase of ticks".to_string(),
            },
            perturb.slack,
            perturb.start
        ),
    };
    let note =
        if nr_seeds == 1 { "one replay is one sample: give --runs for intervals".into() } else { intervals };
    for note in [note, varied] {
        let mut lines = String::new();
        wrapped(&mut lines, &note);
        line(text, &style.dim(lines.trim_end()));
    }
    line(text, "");
    for (number, contender) in compared.contenders.iter().enumerate() {
        let role = if number == 0 { "  baseline" } else { "" };
        let version = style.dim(&format!("  {}", contender.scheduler.version()));
        line(
            text,
            &format!("  {}  {}{version}{}", style.bold(&letter(number)), contender.label, style.dim(role)),
        );
        if let Some(failure) = failure_text(compared, number) {
            wrapped(text, &format!("     {failure}"));
        }
        let warnings: Vec<&String> = compared.measured(number).flat_map(|run| &run.warnings).collect();
        if let Some(first) = warnings.first() {
            wrapped(text, &format!("     it warned {} times; the first: {first}", warnings.len()));
        }
    }
}

fn row(change: &Change, name: &str, style: Style) -> String {
    let metric = change.metric.get();
    let (change_by, ends) = change_text(change);
    let judgement = match is_better(change) {
        Some(true) => style.paint("32", "better"),
        Some(false) => style.paint("33", "worse"),
        None => String::new(),
    };
    format!(
        "  {:<29} {:>9} {:>9} {:>10}  {:<22} {:>5}  {judgement}",
        clip(name, 29),
        metric.value_text(change.base.mean),
        metric.value_text(change.other.mean),
        change_by,
        ends,
        format!("{}/{}", change.same_sign, change.difference.n),
    )
}

/// At most 15 characters: `delay p99`.
fn short_label(change: &Change) -> String {
    let metric = change.metric.get();
    let family = match metric.family {
        "wakeup_latency" => "wakeup",
        "run_delay" => "delay",
        "service_error" => "service error",
        family => family,
    };
    format!("{family} {}", metric.statistic).trim_end().replace(" error max", " error")
}

fn head(name: &str, comparison: &Comparison, style: Style) -> String {
    style.dim(&format!(
        "  {name:<29} {:>9} {:>9} {:>10}  {:<22} {:>5}",
        letter(0),
        letter(comparison.contender),
        "change",
        "interval",
        "seeds"
    ))
}

fn one(text: &mut String, compared: &Compared, comparison: &Comparison, tasks: Tasks, style: Style) {
    let (a, b) = (letter(0), letter(comparison.contender));
    if comparison.nr_pairs == 0 {
        line(text, &format!("\n{}", style.warn(&format!("{b} against {a}: no seed has numbers of both"))));
        return;
    }
    let changed: Vec<&Change> = comparison.changed().collect();
    if comparison.nr_pairs == 1 {
        line(text, &format!("\n{}", style.bold(&format!("{b} against {a}: one replay each, no interval"))));
        line(text, &head("largest first", comparison, style));
        let mut all: Vec<&Change> = comparison.changes.iter().filter(|c| c.difference.mean != 0.0).collect();
        all.sort_by(|a, b| b.size.total_cmp(&a.size));
        all.iter().for_each(|change| line(text, &row(change, change.metric.get().label, style)));
        return;
    }
    if changed.is_empty() {
        let verdict = format!("{b} against {a}: no difference that this ensemble can show");
        line(text, &format!("\n{}", style.bold(&verdict)));
    } else {
        line(text, &format!("\n{}", style.bold(&format!("{b} against {a}: what changed, most first"))));
        line(text, &head("all tasks", comparison, style));
        changed.iter().for_each(|change| line(text, &row(change, change.metric.get().label, style)));
    }
    let of = |verdict: Significance| -> Vec<&Change> {
        comparison.changes.iter().filter(|change| change.verdict == verdict).collect()
    };
    let list = |changes: &[&Change]| {
        let one = |change: &&Change| {
            let (by, ends) = change_text(change);
            let what = if ends == "always" { by } else { ends };
            let what =
                if change.difference.low == 0.0 && change.difference.high == 0.0 { "0".into() } else { what };
            // a name and its interval stay together on a line
            format!("{} ({what})", change.metric.get().label).replace(' ', "\u{a0}")
        };
        changes.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    let say = |text: &mut String, what: &str, changes: &[&Change]| {
        if !changes.is_empty() {
            let mut lines = String::new();
            wrapped_hard(&mut lines, &format!("{what}: {}", list(changes)));
            text.push_str(&style.dim(lines.trim_end()));
            text.push('\n');
        }
    };
    say(text, "changed by less than matters", &of(Significance::Negligible));
    let rest = if changed.is_empty() { "the differences lie within" } else { "no difference shown" };
    say(text, rest, &of(Significance::NotShown));
    let (subjects, hidden) = subject_changes(compared, comparison, tasks);
    if !subjects.is_empty() {
        line(text, &head("by task", comparison, style));
        for change in subjects {
            let name = format!("{:<13} {}", clip(&subject_label(compared, change), 13), short_label(change));
            line(text, &row(change, &name, style));
        }
        let asked = comparison.subjects.len();
        let note = match hidden {
            0 => format!("  all that changed, among {asked} asked"),
            _ => format!(
                "  and {hidden} more that changed, among {asked} asked: --all-tasks, --html and --json list them"
            ),
        };
        line(text, &style.dim(&note));
    }
}

/// As [`wrapped`], but breaks at plain blanks only; hard ones are put back.
fn wrapped_hard(text: &mut String, content: &str) {
    const WIDTH: usize = 100;
    let mut current = String::from(" ");
    for word in content.split(' ') {
        if current.chars().count() + 1 + word.chars().count() > WIDTH && current.len() > 4 {
            line(text, &current);
            current = String::from("   ");
        }
        current.push(' ');
        current.push_str(&word.replace('\u{a0}', " "));
    }
    line(text, &current);
}

fn judgements(text: &mut String, compared: &Compared, gates: &[Gate], style: Style) {
    if compared.gates.is_empty() {
        return;
    }
    line(text, &format!("\n{}", style.bold("conditions")));
    for result in &compared.gates {
        let gate = &gates[result.gate];
        let interval = &result.judgement.interval;
        let number = |x: f64| gate.number_text(x);
        let verdict = match result.judgement.outcome {
            ConditionOutcome::Met => style.paint("31", "MET"),
            ConditionOutcome::NotMet => "not met".to_string(),
            ConditionOutcome::Open => style.warn("not shown"),
            ConditionOutcome::NoData => style.warn("no data"),
        };
        let quantity = match result.judgement.outcome {
            ConditionOutcome::NoData => "nothing of the kind was measured".to_string(),
            _ if interval.n < 2 => number(interval.mean),
            _ if interval.low == interval.high => format!("{}, always", number(interval.mean)),
            _ => format!("{} ({} .. {})", number(interval.mean), number(interval.low), number(interval.high)),
        };
        let open = match result.judgement.outcome {
            ConditionOutcome::Open => "; more --runs would tell",
            _ => "",
        };
        let content =
            format!("  {:<28} {}  {verdict:<9}  {quantity}{open}", gate.text, letter(result.contender));
        line(text, &content);
    }
}
