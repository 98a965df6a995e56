//! The policy of a subject as it was found: the answers to all questions, as text, JSON and a page.

use crate::answer::{Answer, NOT_APPLICABLE, UNDECIDED, plain};
use crate::data::Data;
use schedlab_report::page::Page;
use schedlab_report::table::{Column, Table};
use serde_json::{Value, json};

/// A subject's balancing policy.
#[derive(Clone, Debug)]
pub struct Model {
    /// The scheduler, as it was typed.
    pub subject: String,
    /// The machine.
    pub machine: String,
    /// The command that repeats all of it.
    pub command: String,
    /// The folder that its logs lie in, if they were made elsewhere.
    pub folder: Option<String>,
    /// The answers.
    pub answers: Vec<Answer>,
    /// Runs that did not end as they should.
    pub failed: Vec<String>,
    /// Runs that did.
    pub runs: usize,
}

impl Model {
    /// Asks everything.
    pub fn of(data: &Data, subject: &str, command: &str) -> Model {
        Model {
            subject: subject.to_string(),
            machine: machine_name(&data.topology),
            command: command.to_string(),
            folder: None,
            answers: crate::questions::answers(data),
            failed: failed(data),
            runs: data.runs.values().map(Vec::len).sum(),
        }
    }

    /// The answer to a question; `None`: there is no such question.
    pub fn answer(&self, id: &str) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.id == id)
    }

    /// The schema of `--json`.
    pub fn json(&self) -> Value {
        json!({
            "schema": 1,
            "subject": self.subject,
            "machine": self.machine,
            "questions": self.answers.iter().map(Answer::json).collect::<Vec<_>>(),
            "runs": self.runs,
            "failed": self.failed,
            "command": self.command,
        })
    }

    /// A row per question.
    fn table(&self) -> Table {
        let columns = vec![
            Column::new("question", "", "identifier; --explain ID prints the reasoning"),
            Column::new("answer", "", "the answer"),
            Column::new("value", "", "its number, with the unit"),
            Column::new("from", "", "lower end of the 95 % interval"),
            Column::new("to", "", "upper end"),
            Column::new("confidence", "", "lower end of the 95 % interval of the share that agrees"),
            Column::new("n", "", "runs or rounds that it rests on"),
        ];
        let mut table = Table::new("harmony", format!("{} on {}", self.subject, self.machine), columns);
        for answer in &self.answers {
            let number = |pick: fn(&crate::stats::Range) -> f64| {
                answer.value.as_ref().map_or(Value::Null, |range| plain(pick(range)).into())
            };
            let value = answer.value.as_ref().map_or(Value::Null, |range| {
                format!("{} {}", plain(range.mean), answer.unit).trim_end().to_string().into()
            });
            let confidence = if answer.answer == UNDECIDED || answer.answer == NOT_APPLICABLE {
                Value::Null
            } else {
                plain((answer.confidence * 100.0).floor() / 100.0).into()
            };
            table.push(vec![
                answer.id.into(),
                answer.answer.clone().into(),
                value,
                number(|range| range.low),
                number(|range| range.high),
                confidence,
                answer.runs.into(),
            ]);
        }
        table
    }

    /// For the terminal.
    pub fn text(&self) -> String {
        let table = self.table();
        let undecided = self.answers.iter().filter(|answer| answer.answer == UNDECIDED).count();
        let mut text = format!("{}\n\n{}\n", table.title, table.to_text());
        text += &format!(
            "{} runs; {} of {} questions undecided. 'schedlab harmony ... --explain ID' prints the reasoning.\n",
            self.runs,
            undecided,
            self.answers.len()
        );
        for failed in &self.failed {
            text += &format!("not counted: {failed}\n");
        }
        text
    }

    /// Why this answer; `None`: there is no such question.
    pub fn explain(&self, id: &str) -> Option<String> {
        let answer = self.answer(id)?;
        let mut text = format!("{id}: {}", answer.answer);
        if let Some(range) = &answer.value {
            let (value, low, high) = (plain(range.mean), plain(range.low), plain(range.high));
            text += &format!(" ({value} {}, 95 %: {low} to {high})", answer.unit);
        }
        text += &format!("\n{} on {}, {} runs or rounds\n", self.subject, self.machine, answer.runs);
        for line in &answer.evidence {
            text += &format!("  {line}\n");
        }
        if !answer.experiment.is_empty() {
            text += &format!("experiments: {}\n", answer.experiment);
            let (what, how) = self.shown_by(answer);
            text += &format!("{what}: {how}\n");
        }
        Some(text)
    }

    /// Where the runs are that an answer rests on, or the command that repeats one.
    fn shown_by(&self, answer: &Answer) -> (&'static str, String) {
        let first = answer.experiment.split(", ").next().unwrap_or_default();
        let name = match first {
            "detect" => "detect-4+16",
            "threshold" => "threshold-4",
            "demand" => "demand-10",
            "sticky" => "sticky-warm",
            other => other,
        };
        match &self.folder {
            Some(folder) => ("its logs", format!("{folder}/{first}-*")),
            None => ("a run of it", format!("{} --experiment {name} --log FILE", self.command)),
        }
    }

    /// A page with a picture for each row that has one.
    pub fn html(&self) -> String {
        let mut page = Page::new(format!("Balancing policy of {}", self.subject));
        page.note(&format!("Machine: {}. {} runs.", self.machine, self.runs));
        page.command(&self.command);
        page.table(&self.table());
        for failed in &self.failed {
            page.warning(&format!("not counted: {failed}"));
        }
        for answer in &self.answers {
            page.section(&format!("{}: {}", answer.id, answer.answer), answer.id);
            answer.evidence.iter().for_each(|line| page.note(line));
            if !answer.experiment.is_empty() {
                let (what, how) = self.shown_by(answer);
                page.note(&format!("Experiments: {}; {what}:", answer.experiment));
                page.command(&how);
            }
            if let Some(picture) = &answer.picture {
                page.svg(picture);
            }
        }
        page.html()
    }
}

/// The runs that are not counted, a line for those of an experiment that have one reason.
fn failed(data: &Data) -> Vec<String> {
    let mut lines: Vec<(&str, &str, Vec<u64>)> = Vec::new();
    for (name, seed, failure) in &data.failed {
        match lines.iter_mut().find(|(of, why, _)| (*of, *why) == (name.as_str(), failure.reason.as_str())) {
            Some((_, _, seeds)) => seeds.push(*seed),
            None => lines.push((name, &failure.reason, vec![*seed])),
        }
    }
    let line = |(name, why, seeds): (&str, &str, Vec<u64>)| match &seeds[..] {
        [seed] => format!("{name}, seed {seed}: {why}"),
        [first, .., last] if last - first + 1 == seeds.len() as u64 => {
            format!("{name}, seeds {first} to {last}: {why}")
        }
        _ => format!("{name}, seeds {seeds:?}: {why}"),
    };
    lines.into_iter().map(line).collect()
}

/// What a machine is called: as it was written, and how many CPUs it has.
fn machine_name(topology: &schedlab_topology::Topology) -> String {
    let cpus = topology.nr_cpus();
    let llcs: std::collections::BTreeSet<u32> = topology.cpus().iter().map(|cpu| cpu.llc).collect();
    match (llcs.len(), topology.nr_nodes()) {
        (1, _) => format!("{cpus} CPUs"),
        (llcs, 1) => format!("{cpus} CPUs, {llcs} last-level caches"),
        (llcs, nodes) => format!("{cpus} CPUs, {llcs} last-level caches, {nodes} nodes"),
    }
}
