//! Is inference right? Many runs of the machine, where the truth is known, seen as a poller would see them.
//!
//! ```text
//!   seed ── draw ──> case ── machine ──> schedule ── observe ──> what pollers see ── infer ──> answers
//!                      └──────────── truth ────────────────────────────────────────────────────┘ held?
//! ```
//!
//! Drawn are: the scheduler (native ones, real Linux as far as it is built), ticks per second, slice, nice value,
//! cpu.max, RT limit, 1 to 64 CPUs, the timer's grid, and how much noise there is. [`Study`] says per question how
//! often the 95 % interval holds the truth, how wide it is, and how often "cannot tell" was the answer where
//! [the table](table) calls the case identifiable.

mod case;
mod table;

pub use case::{DrawnCase, Load};

use crate::compare::intervals;
use crate::infer::{Answer, Question, infer};
use crate::stats::{Estimate, wilson};
use case::Truth;
use schedlab_lab::Subject;
use schedlab_report::chart::Drawing;
use schedlab_report::table::{Column, Table};
use schedlab_report::units::percent;
use schedlab_runner::pool::{self, PoolError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use table::TABLE;

/// What is studied.
#[derive(Clone, Debug)]
pub struct StudyConfig {
    /// Cases.
    pub runs: u32,
    /// Of what they are drawn; case i has the seed `seed + i`.
    pub seed: u64,
    /// Runs at once.
    pub jobs: usize,
    /// The schedulers; native ones and real Linux.
    pub subjects: Vec<Subject>,
}

/// How good the answers to one question are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Answers with a number (or a name) where the truth is known.
    pub given: u64,
    /// Of them, those whose interval holds the truth.
    pub held: u64,
    /// Identifiable cases.
    pub identifiable: u64,
    /// Of them, those without an answer.
    pub cannot: u64,
    /// Widths of intervals as a share of the truth, in order.
    pub widths: Vec<f64>,
    /// Answers whose interval does not hold the truth, as sentences.
    pub off: Vec<String>,
    /// Identifiable cases without an answer, and why there is none.
    pub silent: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Study {
    /// By question.
    pub scores: BTreeMap<Question, Score>,
    /// Cases by scheduler.
    pub schedulers: BTreeMap<String, u64>,
    /// Cases by load.
    pub loads: BTreeMap<Load, u64>,
    /// Cases that could not be run, each with why.
    pub failed: Vec<String>,
    /// All cases.
    pub runs: u64,
}

/// Answers that are shown of those that miss the truth.
const OFF_SHOWN: usize = 3;

/// Draws, runs, asks.
///
/// # Errors
/// No thread can be started.
///
/// # Panics
/// If `subjects` is empty.
pub fn study(config: &StudyConfig, done: impl FnMut(usize)) -> Result<Study, PoolError> {
    assert!(!config.subjects.is_empty(), "a study needs a scheduler");
    let one = |index: usize| {
        let case = DrawnCase::draw(config.seed + index as u64, &config.subjects);
        let judged = judge(&case, &config.subjects);
        (case, judged)
    };
    let mut study = Study { runs: config.runs.into(), ..Study::default() };
    for result in pool::map(config.runs as usize, config.jobs, one, done)? {
        let Ok((case, judged)) = result.map_err(|lost| study.failed.push(lost.to_string())) else { continue };
        *study.schedulers.entry(case.sched.clone()).or_default() += 1;
        *study.loads.entry(case.load).or_default() += 1;
        match judged {
            Ok(marks) => marks.into_iter().for_each(|mark| study.count(mark)),
            Err(why) => study.failed.push(format!("seed {} {}: {why}", case.seed, case.sched)),
        }
    }
    study.scores.values_mut().for_each(|score| score.widths.sort_by(f64::total_cmp));
    Ok(study)
}

/// What one answer of one case comes to.
struct Mark {
    question: Question,
    is_identifiable: bool,
    /// `None`: no answer, or no truth.
    held: Option<bool>,
    width: Option<f64>,
    is_silent: bool,
    off: Option<String>,
    silent: Option<String>,
}

fn judge(case: &DrawnCase, subjects: &[Subject]) -> Result<Vec<Mark>, String> {
    let ran = case.run(subjects).map_err(|ended| ended.short())?;
    let verdict = schedlab_instruments::verify(&ran.seen).map_err(|problem| problem.to_string())?;
    if !verdict.is_clean() {
        return Err(format!("what pollers saw is no schedule: {:?}", verdict.violations.first()));
    }
    let findings = infer(&ran.seen).map_err(|problem| problem.to_string())?;
    Ok(Question::ALL.into_iter().map(|q| mark(case, q, &findings.on(q).answer, &ran.truth)).collect())
}

fn mark(case: &DrawnCase, question: Question, answer: &Answer, of: &Truth) -> Mark {
    let row = TABLE.iter().find(|row| row.question == question);
    let is_identifiable = row.is_some_and(|row| case.duration_ms >= row.least_ms && (row.is_given)(case, of));
    let is_silent = matches!(answer, Answer::CannotTell { .. } | Answer::AtMost { .. });
    let about = || format!("seed {} {} {:?} {} CPUs", case.seed, case.sched, case.load, case.cpus);
    let silent = match answer {
        Answer::CannotTell { why, .. } => Some(format!("{}: {why}", about())),
        Answer::AtMost { bound, .. } => Some(format!("{}: at most {bound:.0}", about())),
        _ => None,
    };
    let silent = silent.filter(|_| is_identifiable);
    let mut mark = Mark { question, is_identifiable, held: None, width: None, is_silent, off: None, silent };
    match (answer, case.truth(question, of)) {
        (Answer::Is(found), Some(truth)) => {
            let held = found.holds(truth);
            (mark.held, mark.width) = (Some(held), Some((found.high - found.low) / truth));
            if !held {
                let said = format!(
                    "{:.6} ({:.6} to {:.6}, {} samples)",
                    found.value, found.low, found.high, found.n
                );
                mark.off = Some(format!("{}: {said}, truth {truth:.6}", about()));
            }
        }
        (Answer::Named { name, .. }, _) if is_identifiable => {
            mark.held = Some(*name == "fair");
            mark.off = (*name != "fair").then(|| format!("{}: {name}, truth fair", about()));
        }
        _ => {}
    }
    mark
}

impl Study {
    fn count(&mut self, mark: Mark) {
        let score = self.scores.entry(mark.question).or_default();
        score.given += u64::from(mark.held.is_some());
        score.held += u64::from(mark.held == Some(true));
        score.identifiable += u64::from(mark.is_identifiable);
        score.cannot += u64::from(mark.is_identifiable && mark.is_silent);
        score.widths.extend(mark.width);
        score.off.extend(mark.off);
        score.silent.extend(mark.silent);
    }

    /// One row a question.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("id", "", "what was asked"),
            Column::new("answers", "", "with a number, where the truth is known"),
            Column::new("held_pct", "%", "of them, the 95 % interval holds the truth"),
            Column::new("low_pct", "%", "lower end of that share's own 95 % interval"),
            Column::new("high_pct", "%", "upper end"),
            Column::new("width_pct", "%", "median width of the interval, of the truth"),
            Column::new("identifiable", "", "cases that the table calls so"),
            Column::new("cannot_tell_pct", "%", "of them, those without an answer"),
            Column::new("least_ms", "ms", "least length of an identifiable case"),
            Column::new("needs", "", "what an identifiable case needs"),
        ];
        let mut table = Table::new("study", "Answers beside the truth", columns);
        let pct = |share: f64| json!((share * 10_000.0).round() / 100.0);
        for (question, score) in self.scores.iter().filter(|(_, score)| score.given + score.identifiable > 0)
        {
            let held = wilson(score.held, score.given);
            let cannot = wilson(score.cannot, score.identifiable);
            let row = TABLE.iter().find(|row| row.question == *question);
            table.push(vec![
                json!(question.id()),
                json!(score.given),
                held.map_or(Value::Null, |held| pct(held.value)),
                held.map_or(Value::Null, |held| pct(held.low)),
                held.map_or(Value::Null, |held| pct(held.high)),
                score.width().map_or(Value::Null, pct),
                json!(score.identifiable),
                cannot.map_or(Value::Null, |cannot| pct(cannot.value)),
                json!(row.map(|row| row.least_ms)),
                json!(row.map(|row| row.needs)),
            ]);
        }
        table
    }

    /// What is stated (95 %) beside how often it is right, with the goal's bounds.
    pub fn drawing(&self) -> Drawing {
        let pct = |share: f64| 100.0 * share;
        let of: Vec<(&str, Estimate)> = self
            .scores
            .iter()
            .filter_map(|(question, score)| {
                let held = wilson(score.held, score.given)?;
                let [value, low, high] = [held.value, held.low, held.high].map(pct);
                Some((question.id(), Estimate { value, low, high, n: held.n }))
            })
            .collect();
        let svg = intervals(
            "Stated 95 %, and how often it held",
            "intervals that hold the truth, %",
            &of,
            &[90.0, 99.0],
        );
        let caption =
            "Each share with its own interval. Between the dashed lines a 95 % interval is what it says.";
        Drawing { name: "calibration".into(), caption: caption.into(), svg }
    }

    /// All answers together: how many intervals hold the truth.
    pub fn held(&self) -> Option<Estimate> {
        let sum = |of: fn(&Score) -> u64| self.scores.values().map(of).sum();
        wilson(sum(|score| score.held), sum(|score| score.given))
    }

    /// Answers that miss the truth, identifiable cases without an answer, and cases that could not be run.
    pub fn misses(&self) -> Table {
        let columns = vec![
            Column::new("id", "", "what was asked"),
            Column::new("what", "", "off: the interval does not hold the truth; cannot tell; or not run"),
            Column::new("case", "", "which case, the answer and the truth, or why there is none"),
        ];
        let mut table = Table::new("misses", "Answers that miss the truth or are lacking", columns);
        let mut add = |id: &str, what: &str, lines: &[String]| {
            lines.iter().for_each(|line| table.push(vec![json!(id), json!(what), json!(line)]));
        };
        for (question, score) in &self.scores {
            add(question.id(), "off", &score.off);
            add(question.id(), "cannot tell", &score.silent);
        }
        add("", "not run", &self.failed);
        table
    }

    /// For a terminal.
    pub fn summary(&self) -> String {
        let list = |pairs: Vec<(String, u64)>| {
            pairs.into_iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
        };
        let scheds = list(self.schedulers.iter().map(|(name, n)| (name.clone(), *n)).collect());
        let loads = list(self.loads.iter().map(|(load, n)| (load.name().to_string(), *n)).collect());
        let mut text = format!("{} cases\n  under {scheds}\n  with {loads}\n\n", self.runs);
        text += &format!(
            "{:<21}{:>8} {:>22} {:>9} {:>13} {:>12}\n",
            "", "answers", "hold the truth", "width", "identifiable", "cannot tell"
        );
        for (question, score) in self.scores.iter().filter(|(_, score)| score.given + score.identifiable > 0)
        {
            let held = wilson(score.held, score.given).map_or("-".into(), |held| {
                let [value, low, high] = [held.value, held.low, held.high].map(|share| 100.0 * share);
                format!("{value:.1} % ({low:.0} to {high:.0})")
            });
            let width = score.width().map_or("-".into(), |width| format!("{:.2} %", 100.0 * width));
            text += &format!(
                "{:<21}{:>8} {held:>22} {width:>9} {:>13} {:>12}\n",
                question.id(),
                score.given,
                score.identifiable,
                percent(score.cannot, score.identifiable.max(1))
            );
            score.off.iter().take(OFF_SHOWN).for_each(|line| text += &format!("    off: {line}\n"));
        }
        if let Some(all) = self.held() {
            let [value, low, high] = [all.value, all.low, all.high].map(|share| 100.0 * share);
            text += &format!(
                "{:<21}{:>8} {:>22}\n",
                "all",
                all.n,
                format!("{value:.1} % ({low:.0} to {high:.0})")
            );
        }
        for line in self.failed.iter().take(8) {
            text += &format!("not run: {line}\n");
        }
        text
    }
}

impl Score {
    /// Median width of the intervals, as a share of the truth.
    pub fn width(&self) -> Option<f64> {
        self.widths.get(self.widths.len() / 2).copied()
    }

    /// Share of the intervals that hold the truth.
    pub fn held_share(&self) -> Option<f64> {
        wilson(self.held, self.given).map(|share| share.value)
    }
}
