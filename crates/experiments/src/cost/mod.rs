//! What does a decision cost, in ns and instructions, against the number of clients?
//!
//! Each policy is alone on a test bench ([`PolicyBench`](schedlab_machine::bench::PolicyBench)): one CPU, N
//! runnable clients with nice values spread over -20..19. Three operations:
//!
//! * *select*: the current client's 10 ms are over; it is put back and the next one chosen (`put_prev`,
//!   `pick_next`, `slice`);
//! * *dequeue*: a waiting client is taken out; *enqueue*: it comes back (`select_cpu`, `enqueue`).
//!
//! ns are host time, the least of many short batches (dequeue and enqueue together: a clock's own cost would
//! drown one of them). A batch takes some 0.2 ms, far less than the time between two interruptions even on a
//! busy host, so that the least is one that nothing interrupted; `noise_pct` tells by how much the middle
//! batch was longer: what a single measurement would have been off by. Instructions are counted by valgrind's
//! callgrind, where it is installed, and do not depend on load or caches: a linear cost shows as a factor of
//! ten from one N to the next, a logarithmic one as a constant step, a constant one as nothing.
//!
//! ```text
//! instructions per select     N = 10     1,000     100,000
//! vtrr                            c         c           c
//! wfq (heap)                    c+s      c+3s        c+5s
//! wfq-list                       10 d   1,000 d   100,000 d
//! ```

mod instructions;
mod judge;
mod linux;
pub mod machine;
mod measure;
mod page;

pub use instructions::{Count, InstructionsError, instructions, probe};
pub(crate) use judge::PAPER;
pub use linux::Times;
pub use measure::measure;

use schedlab_lab::{Ended, Fails, FailureKind, Subject, SubjectError};
use schedlab_linux::KernelError;
use schedlab_report::table::{Column, Table};
use std::ffi::OsString;
use std::path::PathBuf;

/// A scheduler that cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// It is not there, or its parameters do not fit.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The kernel object cannot be loaded.
    #[error(transparent)]
    Load(#[from] KernelError),
    /// Real Linux did not end as it should.
    #[error("with {nr_clients} clients: {ended}")]
    Linux {
        /// Clients.
        nr_clients: u32,
        /// How.
        ended: Ended,
    },
    /// Real Linux is measured in a process of its own, which failed.
    #[error("the process that measures {label} with {nr_clients} clients failed: {problem}")]
    Process {
        /// The subject.
        label: String,
        /// Clients.
        nr_clients: u32,
        /// What it said.
        problem: String,
        /// Whose fault, by its exit status.
        kind: FailureKind,
    },
}

impl Fails for CostError {
    fn kind(&self) -> FailureKind {
        match self {
            CostError::Subject(error) => error.kind(),
            CostError::Load(_) => FailureKind::Input,
            CostError::Linux { ended, .. } => ended.kind(),
            CostError::Process { kind, .. } => *kind,
        }
    }
}

/// Why a sched_ext scheduler has no costs here.
pub fn refuses_scx(text: &str) -> SubjectError {
    SubjectError::NotTaken {
        by: "fairness cost",
        text: text.to_string(),
        why: "what is timed and counted are the functions of the kernel's fair class, which a sched_ext scheduler \
              replaces; 'schedlab run --profile' counts what it does"
            .to_string(),
    }
}

/// How this program is started as a probe: `program arguments... LABEL N [OBJECT]` must call [`probe`] and
/// print what it returns.
#[derive(Clone, Debug)]
pub struct ProbeCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments before the label.
    pub arguments: Vec<OsString>,
}

impl ProbeCommand {
    /// The arguments for one subject at one number of clients.
    fn arguments_for(&self, subject: &Subject, nr_clients: u32) -> Vec<OsString> {
        let mut arguments = self.arguments.clone();
        arguments.push(subject.label.clone().into());
        arguments.push(nr_clients.to_string().into());
        arguments.extend(subject.linux().map(|linux| linux.object.clone().into()));
        arguments
    }
}

/// Every registered scheduler, and VTRR's variants.
pub fn all_subjects() -> Vec<Subject> {
    let plain = schedlab_policies::registry().iter().map(|info| info.name.to_string());
    let variants = ["vtrr:insert=list", "vtrr:insert=tree", "vtrr:insert=array", "vtrr:reset=pass"];
    let texts = plain.chain(variants.map(String::from));
    texts.map(|text| Subject::native(&text).expect("registered schedulers can be built")).collect()
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which policies.
    pub subjects: Vec<Subject>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Most clients under real Linux: each is a process of the simulated kernel, some 30 KB of memory.
    pub linux_clients_max: u32,
    /// Batches of each timing; the least counts.
    pub repetitions: u32,
}

impl Config {
    /// All policies at 1 to 100,000 clients, and at 200 as in the paper on VTRR.
    pub fn full() -> Config {
        Config {
            subjects: all_subjects(),
            clients: vec![1, 10, 100, 200, 1_000, 10_000, 100_000],
            linux_clients_max: 100_000,
            repetitions: 40,
        }
    }

    /// Whether a subject is measured at this number of clients.
    pub(crate) fn measures(&self, subject: &Subject, nr_clients: u32) -> bool {
        subject.linux().is_none() || nr_clients <= self.linux_clients_max
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
    /// How much longer than the least the middle one of the batches took, in percent: how restless the host was.
    pub noise_pct: Option<f64>,
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

    /// The paper's ratios beside those of this run, if it has any of them.
    pub fn ratios(&self) -> Option<Table> {
        judge::table(self)
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
            Column::new(
                "noise_pct",
                "%",
                "how much longer than the least, which counts, the middle one of the timings was",
            ),
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
                row.noise_pct.map(f64::round).into(),
                tenth(row.select_instructions).into(),
                tenth(row.dequeue_instructions).into(),
                tenth(row.enqueue_instructions).into(),
            ]);
        }
        table
    }
}
