//! In what do two maps differ, and is that more than chance? Two systems, two kernels, two settings.

use crate::infer::{Answer, Findings, Question};
use crate::stats::Estimate;
use schedlab_report::chart::{Chart, Drawing, Series, Style, Svg};
use schedlab_report::table::{Column, Table};
use serde_json::json;

/// B less A, with the interval of the difference of two independent estimates.
fn difference(a: &Estimate, b: &Estimate) -> Estimate {
    let down = ((a.high - a.value).powi(2) + (b.value - b.low).powi(2)).sqrt();
    let up = ((a.value - a.low).powi(2) + (b.high - b.value).powi(2)).sqrt();
    let value = b.value - a.value;
    Estimate { value, low: value - down, high: value + up, n: a.n.min(b.n) }
}

/// One row a question.
pub fn compare(a: &Findings, b: &Findings) -> Table {
    let columns = vec![
        Column::new("id", "", "what was asked"),
        Column::new("a_shown", "", "of the first, for people"),
        Column::new("b_shown", "", "of the second"),
        Column::new("a", "", "of the first"),
        Column::new("b", "", "of the second"),
        Column::new("difference", "", "b less a"),
        Column::new("low", "", "lower end of its 95 % interval"),
        Column::new("high", "", "upper end"),
        Column::new("verdict", "", "differ, not shown to differ, or cannot tell"),
    ];
    let mut table = Table::new("compare", "Two maps", columns);
    for question in Question::ALL {
        let [answer_a, answer_b] = [a, b].map(|findings| &findings.on(question).answer);
        let [shown_a, shown_b] = [answer_a, answer_b].map(|answer| json!(question.shown_answer(answer)));
        let mut row = vec![json!(question.id()), shown_a, shown_b];
        row.extend(match (answer_a, answer_b) {
            (Answer::Is(a), Answer::Is(b)) => {
                let off = difference(a, b);
                let verdict = if off.holds(0.0) { "not shown to differ" } else { "differ" };
                vec![
                    json!(a.value),
                    json!(b.value),
                    json!(off.value),
                    json!(off.low),
                    json!(off.high),
                    json!(verdict),
                ]
            }
            (Answer::Named { name: a, .. }, Answer::Named { name: b, .. }) => {
                let verdict = if a == b { "not shown to differ" } else { "differ" };
                vec![json!(a), json!(b), json!(null), json!(null), json!(null), json!(verdict)]
            }
            _ => {
                let show = |answer: &Answer| match answer {
                    Answer::Is(e) => json!(e.value),
                    Answer::AtMost { bound, .. } => json!(format!("at most {bound:.0}")),
                    Answer::Named { name, .. } => json!(name),
                    Answer::CannotTell { .. } => json!(null),
                };
                let [a, b] = [answer_a, answer_b].map(show);
                vec![a, b, json!(null), json!(null), json!(null), json!("cannot tell")]
            }
        });
        table.push(row);
    }
    table
}

/// A row for each question that one of them answers and each of them; each beside the first.
pub fn compare_all(found: &[(String, Findings)]) -> Table {
    let columns = vec![
        Column::new("id", "", "what was asked"),
        Column::new("of", "", "of whom"),
        Column::new("shown", "", "the answer with its 95 % interval, for people"),
        Column::new("value", "", "the answer"),
        Column::new("low", "", "lower end of its 95 % interval"),
        Column::new("high", "", "upper end"),
        Column::new("samples", "", "on how many it rests"),
        Column::new("less_first", "", "the answer less that of the first"),
        Column::new("less_low", "", "lower end of that difference's 95 % interval"),
        Column::new("less_high", "", "upper end"),
        Column::new("verdict", "", "beside the first: differ, not shown to differ, or cannot tell"),
    ];
    let mut table = Table::new("compare", "What pollers see, each beside the first", columns);
    for question in Question::ALL {
        let answers: Vec<&Answer> = found.iter().map(|(_, findings)| &findings.on(question).answer).collect();
        if answers.iter().all(|answer| matches!(answer, Answer::CannotTell { .. })) {
            continue;
        }
        for (place, ((name, _), answer)) in found.iter().zip(&answers).enumerate() {
            let mut row = vec![json!(question.id()), json!(name), json!(question.shown_answer(answer))];
            row.extend(match answer {
                Answer::Is(e) => [json!(e.value), json!(e.low), json!(e.high), json!(e.n)],
                Answer::AtMost { bound, n } => {
                    [json!(format!("at most {bound:.0}")), json!(null), json!(null), json!(n)]
                }
                Answer::Named { name, n, .. } => [json!(name), json!(null), json!(null), json!(n)],
                Answer::CannotTell { .. } => [json!("cannot tell"), json!(null), json!(null), json!(null)],
            });
            row.extend(match (answers[0], answer) {
                _ if place == 0 => [json!(null), json!(null), json!(null), json!("")],
                (Answer::Is(a), Answer::Is(b)) => {
                    let off = difference(a, b);
                    let verdict = if off.holds(0.0) { "not shown to differ" } else { "differ" };
                    [json!(off.value), json!(off.low), json!(off.high), json!(verdict)]
                }
                (Answer::Named { name: a, .. }, Answer::Named { name: b, .. }) => {
                    let verdict = if a == b { "not shown to differ" } else { "differ" };
                    [json!(null), json!(null), json!(null), json!(verdict)]
                }
                _ => [json!(null), json!(null), json!(null), json!("cannot tell")],
            });
            table.push(row);
        }
    }
    table
}

/// The same for a terminal: a block for each question.
///
/// ```text
/// tick_ns
///   here                   4.00 ms (4.00 ms to 4.00 ms)
///   guest:6.1              4.00 ms (4.00 ms to 4.00 ms)    difference 12 ns (-40 ns to 64 ns): not shown to differ
/// ```
pub fn compared_text(found: &[(String, Findings)]) -> String {
    let wide = found.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut silent = Vec::new();
    for question in Question::ALL {
        let answers: Vec<&Answer> = found.iter().map(|(_, findings)| &findings.on(question).answer).collect();
        if answers.iter().all(|answer| matches!(answer, Answer::CannotTell { .. })) {
            silent.push(question.id());
            continue;
        }
        text += &format!("{}\n", question.id());
        for (place, ((name, _), answer)) in found.iter().zip(&answers).enumerate() {
            let beside = match (answers[0], answer) {
                _ if place == 0 => String::new(),
                (Answer::Is(a), Answer::Is(b)) => {
                    let off = difference(a, b);
                    let verdict = if off.holds(0.0) { "not shown to differ" } else { "differ" };
                    format!("difference {}: {verdict}", question.shown_estimate(&off))
                }
                (Answer::Named { name: a, .. }, Answer::Named { name: b, .. }) => {
                    if a == b { "not shown to differ" } else { "differ" }.to_string()
                }
                _ => String::new(),
            };
            let line = format!("  {name:<wide$}   {:<36} {beside}", question.shown_answer(answer));
            text += &format!("{}\n", line.trim_end());
        }
    }
    if !silent.is_empty() {
        schedlab_report::wrapped(&mut text, &format!("nobody can tell: {}", silent.join(", ")));
    }
    text
}

/// Numbers with their intervals beside each other, and lines across at `marks`.
pub(crate) fn intervals(title: &str, y_label: &str, of: &[(&str, Estimate)], marks: &[f64]) -> Svg {
    let mut series = Vec::new();
    let end = of.len() as f64 + 0.5;
    // zero is the axis
    for mark in marks.iter().filter(|mark| **mark != 0.0) {
        series.push(Series::new("", vec![(0.5, *mark), (end, *mark)], Style::Dashed));
    }
    for (place, (name, e)) in of.iter().enumerate() {
        let x = place as f64 + 1.0;
        series.push(Series::new(format!("{}: {name}", place + 1), vec![(x, e.value)], Style::Points));
        series.push(Series::new("", vec![(x, e.low), (x, e.high)], Style::Thin));
    }
    let chart = Chart {
        title: title.into(),
        x_label: "number in the list".into(),
        y_label: y_label.into(),
        series,
        y_holds: marks.to_vec(),
        size: (620.0, 260.0),
        ..Chart::default()
    };
    chart.svg()
}

/// A picture for each question that two or more answer with numbers: the answers with their intervals.
pub fn compared_drawings(found: &[(String, Findings)]) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    for question in Question::ALL {
        let estimates: Vec<(&str, Estimate)> = found
            .iter()
            .filter_map(|(name, findings)| match &findings.on(question).answer {
                Answer::Is(e) => Some((name.as_str(), *e)),
                _ => None,
            })
            .collect();
        if estimates.len() < 2 {
            continue;
        }
        let (scale, unit) = question.scale(estimates.iter().map(|(_, e)| e.value).fold(0.0, f64::max));
        let scaled = |e: &Estimate| {
            let [value, low, high] = [e.value, e.low, e.high].map(|value| value / scale);
            Estimate { value, low, high, n: e.n }
        };
        let scaled: Vec<(&str, Estimate)> = estimates.iter().map(|(name, e)| (*name, scaled(e))).collect();
        let svg = intervals(question.id(), unit, &scaled, &[0.0]);
        let caption = "Each answer with its 95 % interval.".into();
        drawings.push(Drawing { name: question.id().into(), caption, svg });
    }
    drawings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_in_squares() {
        let at = |value: f64, reach: f64| Estimate { value, low: value - reach, high: value + reach, n: 9 };
        let off = difference(&at(10.0, 3.0), &at(20.0, 4.0));
        assert_eq!((off.value, off.low, off.high), (10.0, 5.0, 15.0));
        assert!(difference(&at(10.0, 3.0), &at(12.0, 4.0)).holds(0.0));
    }
}
