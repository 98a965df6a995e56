//! In what do two maps differ, and is that more than chance? Two systems, two kernels, two settings.

use crate::infer::{Answer, Findings, Question};
use crate::stats::Estimate;
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
        Column::new("a", "", "of the first"),
        Column::new("b", "", "of the second"),
        Column::new("difference", "", "b less a"),
        Column::new("low", "", "lower end of its 95 % interval"),
        Column::new("high", "", "upper end"),
        Column::new("verdict", "", "differ, not shown to differ, or cannot tell"),
    ];
    let mut table = Table::new("compare", "Two maps", columns);
    for question in Question::ALL {
        let id = json!(question.id());
        let [answer_a, answer_b] = [a, b].map(|findings| &findings.on(question).answer);
        let row = match (answer_a, answer_b) {
            (Answer::Is(a), Answer::Is(b)) => {
                let off = difference(a, b);
                let verdict = if off.holds(0.0) { "not shown to differ" } else { "differ" };
                vec![
                    id,
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
                vec![id, json!(a), json!(b), json!(null), json!(null), json!(null), json!(verdict)]
            }
            _ => {
                let show = |answer: &Answer| match answer {
                    Answer::Is(e) => json!(e.value),
                    Answer::AtMost { bound, .. } => json!(format!("at most {bound:.0}")),
                    Answer::Named { name, .. } => json!(name),
                    Answer::CannotTell { .. } => json!(null),
                };
                let [a, b] = [answer_a, answer_b].map(show);
                vec![id, a, b, json!(null), json!(null), json!(null), json!("cannot tell")]
            }
        };
        table.push(row);
    }
    table
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
