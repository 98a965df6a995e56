//! What does a decision cost, in ns and instructions, against the number of clients?
//!
//! Each policy stands alone on a test stand ([`Stand`](schedlab_machine::stand::Stand)): one CPU, N runnable clients with nice values
//! spread over -20..19. Three operations:
//!
//! * *select*: the current client's 10 ms are over; it is put back and the next one chosen (`put_prev`, `pick_next`, `slice`);
//! * *dequeue*: a waiting client is taken out; *enqueue*: it comes back (`select_cpu`, `enqueue`).
//!
//! ns are host time, least of several repetitions (dequeue and enqueue together: a clock's own cost would drown one of them).
//! Instructions are counted by valgrind's callgrind, where it is installed, and do not depend on load or caches: a linear cost shows as
//! a factor of ten from one N to the next, a logarithmic one as a constant step, a constant one as nothing.
//!
//! ```text
//! instructions per select     N = 10     1,000     100,000
//! vtrr                            c         c           c
//! wfq (heap)                    c+s      c+3s        c+5s
//! wfq-list                       10 d   1,000 d   100,000 d
//! ```

mod instructions;
mod measure;
mod pictures;

pub use instructions::{InstructionsError, Probe, instructions, probe};
pub use measure::measure;

use crate::table::{Column, Table};
use schedlab_machine::policy::Policy;
use schedlab_policies::{PolicyError, find};

/// A policy with parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its name in tables: the scheduler, and parameters that are not default.
    pub label: String,
    /// The scheduler.
    pub sched: String,
    /// Parameters that are given.
    pub params: Vec<(String, String)>,
}

/// A scheduler that cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// No such native scheduler.
    #[error("there is no native scheduler '{0}'; 'schedlab schedulers' lists them")]
    Unknown(String),
    /// Parameters do not fit.
    #[error(transparent)]
    Params(#[from] PolicyError),
}

impl Subject {
    /// From `NAME` or `NAME:K=V:K=V`.
    pub fn parse(text: &str) -> Result<Subject, CostError> {
        let mut parts = text.split(':');
        let sched = parts.next().unwrap_or_default().to_string();
        let params = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
        let params = params.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let subject = Subject { label: text.to_string(), sched, params };
        subject.build()?;
        Ok(subject)
    }

    pub(crate) fn build(&self) -> Result<Box<dyn Policy>, CostError> {
        let info = find(&self.sched).ok_or_else(|| CostError::Unknown(self.sched.clone()))?;
        Ok(info.build(&self.params)?)
    }
}

/// Every registered scheduler, and VTRR's variants.
pub fn all_subjects() -> Vec<Subject> {
    let plain = schedlab_policies::registry().iter().map(|info| info.name.to_string());
    let variants = ["vtrr:insert=list", "vtrr:insert=tree", "vtrr:insert=array", "vtrr:reset=pass"];
    let texts = plain.chain(variants.map(String::from));
    texts.map(|text| Subject::parse(&text).expect("registered schedulers can be built")).collect()
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which policies.
    pub subjects: Vec<Subject>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Repetitions of each timing; the least counts.
    pub repetitions: u32,
}

impl Config {
    /// All policies at 1 to 100,000 clients, and at 200 as in the paper on VTRR.
    pub fn full() -> Config {
        Config {
            subjects: all_subjects(),
            clients: vec![1, 10, 100, 200, 1_000, 10_000, 100_000],
            repetitions: 5,
        }
    }
}

/// Costs of one policy at one number of clients; `None` = not measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Label of the subject.
    pub label: String,
    /// Number of clients.
    pub nr_clients: u32,
    /// Host ns per select.
    pub select_wall_ns: Option<f64>,
    /// Host ns per dequeue and enqueue.
    pub sleep_wake_wall_ns: Option<f64>,
    /// Instructions per select.
    pub select_instructions: Option<f64>,
    /// Instructions per dequeue.
    pub dequeue_instructions: Option<f64>,
    /// Instructions per enqueue.
    pub enqueue_instructions: Option<f64>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// In order of subject, then clients.
    pub rows: Vec<Row>,
    /// What the reader should know (no valgrind, ...).
    pub remarks: Vec<String>,
}

impl Cost {
    /// The row of a policy at a number of clients.
    pub fn row(&self, label: &str, nr_clients: u32) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == label && row.nr_clients == nr_clients)
    }

    /// All rows.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("sched", "", "scheduler, with parameters that are not default"),
            Column::new("nr_clients", "", "runnable clients"),
            Column::new(
                "select_wall_ns",
                "ns",
                "host time to put the current client back and choose the next",
            ),
            Column::new("sleep_wake_wall_ns", "ns", "host time to take a waiting client out and put it back"),
            Column::new("select_instructions", "", "instructions per select"),
            Column::new("dequeue_instructions", "", "instructions per dequeue"),
            Column::new("enqueue_instructions", "", "instructions per enqueue"),
        ];
        let mut table = Table::new("cost", "Cost of scheduling operations", columns);
        for row in &self.rows {
            let tenth = |value: Option<f64>| value.map(|value| (value * 10.0).round() / 10.0);
            table.push(vec![
                row.label.clone().into(),
                row.nr_clients.into(),
                tenth(row.select_wall_ns).into(),
                tenth(row.sleep_wake_wall_ns).into(),
                tenth(row.select_instructions).into(),
                tenth(row.dequeue_instructions).into(),
                tenth(row.enqueue_instructions).into(),
            ]);
        }
        table
    }
}
