//! What is said of a policy? Answers to named questions, each with what it rests on.

use crate::stats::Range;
use schedlab_report::chart::Svg;
use serde_json::{Value, json};

/// An answer that says nothing: the data do not tell.
pub const UNDECIDED: &str = "undecided";
/// An answer that says nothing: the machine, or the policy, has nothing of the kind.
pub const NOT_APPLICABLE: &str = "not-applicable";

/// One question's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The question's identifier.
    pub id: &'static str,
    /// One of the words that docs/harmony.md lists for it.
    pub answer: String,
    /// A number, if the question has one.
    pub value: Option<Range>,
    /// Its unit.
    pub unit: &'static str,
    /// How sure the answer is, 0 to 1: the lower end of the 95 % interval of the share of runs that agree; of a
    /// number 0.95.
    pub confidence: f64,
    /// Runs, or rounds within runs, that it rests on.
    pub runs: usize,
    /// The reasoning, with counts.
    pub evidence: Vec<String>,
    /// What it was decided on, a number per run or round: what a comparison looks at.
    pub samples: Vec<f64>,
    /// The experiment that shows it.
    pub experiment: String,
    /// What it looks like.
    pub picture: Option<Svg>,
}

impl Answer {
    /// Nothing is known yet.
    pub fn undecided(id: &'static str, why: impl Into<String>) -> Answer {
        Answer {
            id,
            answer: UNDECIDED.into(),
            value: None,
            unit: "",
            confidence: 0.0,
            runs: 0,
            evidence: vec![why.into()],
            samples: Vec::new(),
            experiment: String::new(),
            picture: None,
        }
    }

    /// There is nothing of the kind.
    pub fn not_applicable(id: &'static str, why: impl Into<String>) -> Answer {
        Answer { answer: NOT_APPLICABLE.into(), confidence: 1.0, ..Answer::undecided(id, why) }
    }

    /// A word.
    pub fn word(id: &'static str, answer: &str, confidence: f64, runs: usize) -> Answer {
        let answer = answer.to_string();
        Answer { answer, confidence, runs, evidence: Vec::new(), ..Answer::undecided(id, "") }
    }

    /// A number. Its word is the number.
    pub fn number(id: &'static str, value: Range, unit: &'static str, runs: usize) -> Answer {
        let word = plain(value.mean);
        Answer { value: Some(value), unit, ..Answer::word(id, &word, 0.95, runs) }
    }

    /// With this number beside the word.
    pub fn with(self, value: Range, unit: &'static str) -> Answer {
        Answer { value: Some(value), unit, ..self }
    }

    /// With a line of reasoning.
    pub fn because(mut self, line: impl Into<String>) -> Answer {
        self.evidence.push(line.into());
        self
    }

    /// With the numbers that it was decided on.
    pub fn of(self, samples: Vec<f64>) -> Answer {
        Answer { samples, ..self }
    }

    /// Shown by this experiment.
    pub fn by(self, experiment: impl Into<String>) -> Answer {
        Answer { experiment: experiment.into(), ..self }
    }

    /// As the schema of `--json` has it.
    pub fn json(&self) -> Value {
        let number = |pick: fn(&Range) -> f64| {
            let value = self.value.as_ref().map(pick).filter(|value| value.is_finite());
            value.map_or(Value::Null, |value| json!(rounded(value)))
        };
        json!({
            "id": self.id,
            "answer": self.answer,
            "value": number(|range| range.mean),
            "low": number(|range| range.low),
            "high": number(|range| range.high),
            "unit": self.unit,
            "confidence": rounded(self.confidence),
            "runs": self.runs,
            "evidence": self.evidence,
            "experiment": self.experiment,
        })
    }
}

/// Six significant digits: more say nothing, and would differ where a sum is taken in another order.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// A number for people: 0.035, 1.24, 60, 11458.
pub fn plain(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "unknown".into(),
        0.0 => "0".into(),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.4}")),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The word whose share of the runs is at least nine in ten, by the counts; undecided if none has it.
pub fn by_majority(id: &'static str, counts: &[(&str, usize)], n: usize) -> Answer {
    let found = counts.iter().find(|(_, count)| n > 0 && *count * 10 >= n * 9);
    let reason: Vec<String> = counts.iter().map(|(word, count)| format!("{word} in {count}")).collect();
    let line = format!("of {n}: {}", reason.join(", "));
    match found {
        Some((word, count)) => Answer::word(id, word, crate::stats::share(*count, n).low, n).because(line),
        None => Answer { runs: n, ..Answer::undecided(id, line) }.because("no answer holds in nine of ten"),
    }
}
