//! What is known about a run besides its log.

use schedlab_instruments::jobs::JobReport;
use schedlab_instruments::{Picture, Summary};
use schedlab_log::LogHeader;
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// Facts about a run that its log does not hold. Everything may be left at its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// What ran, for titles: the workload's name or path.
    pub workload: String,
    /// The command that repeats this run.
    pub command: String,
    /// How it ended, as a phrase: `every task is done`, `stopped after 20s`.
    pub end: String,
    /// Host time in the event loop.
    pub wall_ns: u64,
    /// Of it, inside the scheduler under test.
    pub kernel_ns: u64,
    /// What makes it another experiment than the one that was asked for, a sentence and how often: a policy that was
    /// refused, an affinity that names no CPU of the machine. Said first everywhere; also in `dropped`.
    pub changed_experiment: BTreeMap<String, u64>,
    /// The seed, if the run was varied with one.
    pub seed: Option<u64>,
    /// What was left out or made up: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    /// Per task of the workload: has it done all that the workload asks? `None`: those that exited have.
    pub finished: Option<Vec<bool>>,
    /// Warnings of the scheduler under test (a kernel's WARNs).
    pub warnings: Vec<String>,
    /// Facts worth a line each, for instance the share of external wakeups.
    pub notes: Vec<String>,
    /// What a scheduler that was loaded into the kernel says about itself: group, name, value.
    pub account: Vec<(String, String, String)>,
    /// By how much the scheduler's own account of a task's CPU time differs from the log's at most, beyond
    /// what is later than its last tick: 0 if it keeps none.
    pub account_differs_ns: u64,
    /// Response times and deadlines of tasks that have jobs; `None`: no task has any.
    pub jobs: Option<JobReport>,
    /// The longest times in which a CPU idled while work waited, in order of time
    /// ([`worst_stretches`](crate::worst_stretches)).
    pub stretches: Vec<Picture>,
    /// For each of the summary's longest waits, who had the CPU meanwhile, and for how long
    /// ([`meanwhile`](schedlab_instruments::meanwhile)).
    pub meanwhile: Vec<Vec<(TaskId, u64)>>,
    /// The command that explains a decision, up to where `TASK@TIME` follows; empty: this scheduler cannot be asked.
    pub explain: String,
    /// What to do next: commands, with a word on what they give.
    pub next_steps: Vec<NextStep>,
}

/// A command that leads on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextStep {
    /// What it gives, a few words.
    pub what: String,
    /// The command.
    pub command: String,
}

/// A run as the reports see it.
#[derive(Clone, Copy, Debug)]
pub struct RunView<'a> {
    /// Who ran on what.
    pub header: &'a LogHeader,
    /// The tables.
    pub summary: &'a Summary,
    /// The rest.
    pub facts: &'a RunFacts,
}

impl RunView<'_> {
    /// Whether the task in this row has done all that the workload asks.
    pub(crate) fn finished(&self, row: usize) -> bool {
        match &self.facts.finished {
            Some(finished) => finished.get(row).copied().unwrap_or(false),
            None => self.summary.tasks[row].exited,
        }
    }
}
