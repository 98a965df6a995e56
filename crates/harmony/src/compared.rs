//! In what do two policies differ, and is that more than chance?
//!
//! Each question with numbers of its own on both sides is a test: ranks of the values ([`rank_chance`]). Holm's
//! correction keeps the chance that any difference is found where there is none at 1 %. A question is answered
//! differently without numbers to test, or not by enough of them: that is shown, and is no finding.
//!
//! [`rank_chance`]: crate::stats::rank_chance

use crate::answer::{Answer, plain};
use crate::model::Model;
use crate::stats::{median, rank_chance};
use schedlab_compare::stats::holm;
use schedlab_report::table::{Column, Table};
use serde_json::{Value, json};

/// The chance that is allowed for any difference to be found where there is none.
pub const FAMILY: f64 = 0.01;

/// A question with both answers.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The question.
    pub id: &'static str,
    /// The answers.
    pub answers: [Answer; 2],
    /// The chance that it is noise, corrected for the number of questions; 1 where nothing could be tested.
    pub chance: f64,
}

impl Difference {
    /// Whether it is more than chance.
    pub fn is_found(&self) -> bool {
        self.chance < FAMILY
    }

    /// By how much the numbers differ, relative to the larger one.
    fn size(&self) -> f64 {
        let mean = |answer: &Answer| {
            let values = &answer.samples;
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let [a, b] = [mean(&self.answers[0]), mean(&self.answers[1])];
        (a - b).abs() / a.abs().max(b.abs()).max(1e-9)
    }
}

/// Two policies side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The subjects.
    pub subjects: [String; 2],
    /// Their machine.
    pub machine: String,
    /// Questions, those that differ first, the largest difference first.
    pub rows: Vec<Difference>,
}

impl Comparison {
    /// Compares two models of the same questions.
    pub fn of(a: &Model, b: &Model) -> Comparison {
        let pairs: Vec<(&Answer, &Answer)> =
            a.answers.iter().filter_map(|one| Some((one, b.answer(one.id)?))).collect();
        let raw: Vec<f64> = pairs.iter().map(|(a, b)| rank_chance(&a.samples, &b.samples)).collect();
        let chances = holm(&raw);
        let mut rows: Vec<Difference> = pairs
            .into_iter()
            .zip(chances)
            .map(|((a, b), chance)| Difference { id: a.id, answers: [a.clone(), b.clone()], chance })
            .collect();
        rows.sort_by(|a, b| {
            let key = |row: &Difference| (row.is_found(), row.answers[0].answer != row.answers[1].answer);
            key(b).cmp(&key(a)).then(b.size().total_cmp(&a.size()))
        });
        Comparison { subjects: [a.subject.clone(), b.subject.clone()], machine: a.machine.clone(), rows }
    }

    /// The difference in a question, if one is found.
    pub fn found(&self, id: &str) -> Option<&Difference> {
        self.rows.iter().find(|row| row.id == id && row.is_found())
    }

    /// For the terminal.
    pub fn text(&self) -> String {
        let columns = vec![
            Column::new("question", "", "identifier"),
            Column::new("a", "", "first subject"),
            Column::new("b", "", "second subject"),
            Column::new("chance", "", "that it is noise, corrected for the number of questions"),
            Column::new("finding", "", "differs: more than chance"),
        ];
        let [a, b] = &self.subjects;
        let mut table =
            Table::new("harmony-compare", format!("a = {a}, b = {b}, on {}", self.machine), columns);
        let reason = |answer: &Answer| match &answer.value {
            Some(range) if answer.answer == plain(range.mean) => {
                format!("{} {} ({} to {})", answer.answer, answer.unit, plain(range.low), plain(range.high))
            }
            Some(range) => format!("{} ({} {})", answer.answer, plain(range.mean), answer.unit),
            // the same word may stand for other numbers: they are what is tested
            None if !answer.samples.is_empty() => {
                format!(
                    "{} (middle one of {}: {})",
                    answer.answer,
                    answer.samples.len(),
                    plain(median(&answer.samples).mean)
                )
            }
            None => answer.answer.clone(),
        };
        for row in &self.rows {
            let differs = row.answers[0].answer != row.answers[1].answer;
            if row.is_found() || differs {
                let finding = if row.is_found() { "differs" } else { "not shown to differ" };
                table.push(vec![
                    row.id.into(),
                    reason(&row.answers[0]).into(),
                    reason(&row.answers[1]).into(),
                    plain(row.chance).into(),
                    finding.into(),
                ]);
            }
        }
        let found = self.rows.iter().filter(|row| row.is_found()).count();
        let mut text = format!("{}\n\n", table.title);
        if !table.rows.is_empty() {
            text += &format!("{}\n", table.to_text());
        }
        text += &match found {
            0 => format!(
                "no difference is more than chance (1 % for all {} questions together)\n",
                self.rows.len()
            ),
            _ => format!(
                "{found} of {} questions differ by more than chance (1 % for all together), the largest difference \
                first\n",
                self.rows.len()
            ),
        };
        text
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let row = |row: &Difference| {
            json!({
                "id": row.id,
                "a": row.answers[0].json(),
                "b": row.answers[1].json(),
                "chance": row.chance,
                "differs": row.is_found(),
            })
        };
        json!({
            "schema": 1,
            "subjects": self.subjects,
            "machine": self.machine,
            "questions": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}
