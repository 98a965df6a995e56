//! Comparisons for people and scripts: terminal, JSON, HTML.

mod draw;
mod html;
mod json;
mod terminal;

pub use html::html;
pub use json::json;
pub use terminal::terminal;

use crate::judge::compared::Compared;
use crate::judge::comparison::{Change, Comparison, Significance};
use crate::measure::metric::{Better, Unit};
use crate::measure::stats::Interval;

/// `A` is the baseline.
pub(crate) fn letter(contender: usize) -> String {
    match u8::try_from(contender) {
        Ok(n) if n < 26 => char::from(b'A' + n).to_string(),
        _ => format!("#{}", contender + 1),
    }
}

/// 0.95 as `95`.
pub(crate) fn percentage(part: f64) -> String {
    let text = format!("{:.4}", 100.0 * part);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// `1-20`, `3,5,9`.
pub(crate) fn seeds_text(seeds: &[u64]) -> String {
    match seeds {
        [first, .., last] if seeds.windows(2).all(|pair| pair[1] == pair[0] + 1) => format!("{first}-{last}"),
        _ => seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}

/// A part as a percentage, with its sign: `+4.2 %`, `-67 %`, `x 12`.
pub(crate) fn percent_text(part: f64) -> String {
    let percent = 100.0 * part;
    match percent.abs() {
        _ if percent.is_infinite() => "new".to_string(),
        size if size < 0.05 => "0.0 %".to_string(),
        size if size < 9.95 => format!("{percent:+.1} %"),
        size if size < 999.5 => format!("{percent:+.0} %"),
        _ => format!("x {}", short(1.0 + part)),
    }
}

fn short(number: f64) -> String {
    if number < 99.5 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// The change: relative, unless the baseline is zero or the metric is a share or an index (whose points say more).
pub(crate) fn change_text(change: &Change) -> (String, String) {
    let metric = change.metric.get();
    let relative = change.relative();
    let in_points = matches!(metric.unit, Unit::Share | Unit::Index) || relative.mean.is_infinite();
    let (interval, text): (Interval, &dyn Fn(f64) -> String) = if in_points {
        (change.difference, &|x: f64| metric.difference_text(x))
    } else {
        (relative, &percent_text)
    };
    let ends = if interval.low.is_infinite() {
        "unknown".to_string()
    } else if interval.low == interval.high {
        "always".to_string()
    } else {
        format!("{} .. {}", text(interval.low), text(interval.high))
    };
    (text(interval.mean), ends)
}

/// Whether the change is for the better: `Some(true)`; `None` if that depends.
pub(crate) fn is_better(change: &Change) -> Option<bool> {
    match change.metric.get().better {
        Better::Lower => Some(change.difference.mean < 0.0),
        Better::Higher => Some(change.difference.mean > 0.0),
        Better::Neither => None,
    }
}

/// Which changes of single tasks are listed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// At most so many lines: two for tasks of one kind, which are those whose names differ in their numbers only
    /// (`other-240`, `other-241`), and single tasks only where those of their name together do not show it.
    Most(usize),
    /// Every one that the ensemble shows.
    All,
}

/// Changes of subjects worth a line, and how many more the ensemble shows.
pub(crate) fn subject_changes<'a>(
    compared: &'a Compared,
    comparison: &'a Comparison,
    tasks: Tasks,
) -> (Vec<&'a Change>, usize) {
    let all: Vec<&Change> =
        comparison.subjects.iter().filter(|change| change.verdict == Significance::Changed).collect();
    let Tasks::Most(most) = tasks else { return (all, 0) };
    let has_changed = |subject: usize, change: &Change| {
        all.iter().any(|other| other.subject == Some(subject) && other.metric == change.metric)
    };
    let kind = |change: &Change| change.subject.map(|at| kind(&compared.samples.subjects[at].label));
    let mut shown: Vec<&Change> = Vec::new();
    for change in &all {
        let Some(subject) = change.subject else { continue };
        let group = compared.samples.subjects[subject].group;
        let of_kind = shown.iter().filter(|other| kind(other) == kind(change)).count();
        if of_kind < 2 && !group.is_some_and(|group| has_changed(group, change)) {
            shown.push(change);
        }
        if shown.len() == most {
            break;
        }
    }
    let hidden = all.len() - shown.len();
    (shown, hidden)
}

/// A label without the numbers of its name: `other-240` and `other-7 t3` are of one kind, `hog nice 0` and `hog nice
/// 5` are not.
fn kind(label: &str) -> String {
    let (name, nice) = label.split_at(label.find(" nice ").unwrap_or(label.len()));
    let words: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
    words.trim_end_matches(" t").to_string() + nice
}

/// `cc1 x24`
pub(crate) fn subject_label(compared: &Compared, change: &Change) -> String {
    let Some(subject) = change.subject else { return "all tasks".into() };
    let subject = &compared.samples.subjects[subject];
    match subject.tasks.len() {
        1 => subject.label.clone(),
        n => format!("{} x{n}", subject.label),
    }
}

/// What is said of failures of a contender's runs: how many, and the first reason.
pub(crate) fn failure_text(compared: &Compared, contender: usize) -> Option<String> {
    let runs = &compared.samples.runs[contender];
    let failed: Vec<_> =
        runs.iter().enumerate().filter_map(|(at, run)| Some((at, run.as_ref().err()?))).collect();
    let (at, first) = failed.first()?;
    Some(format!(
        "{} of {} runs failed; the first, seed {}: {}",
        failed.len(),
        runs.len(),
        compared.seeds[*at],
        first.reason.lines().next().unwrap_or_default()
    ))
}
