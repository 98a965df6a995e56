//! What is kept of a run? A row of the table `runs`, and a row of `tasks` for each task.
//!
//! Columns have the names of `schedlab run --json` and its values; units stand last. Lists and objects are texts of
//! JSON. Numbers are signed 64-bit integers, so that differences never wrap. Host times are left out: the rows of
//! equal runs are equal, wherever they were made.

use crate::error::SweepError;
use crate::key::Key;
use schedlab_instruments::{Distribution, Summary, TaskStats};
use schedlab_log::LogTask;
use serde::{Deserialize, Serialize};

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Cell {
    /// There is none: the run failed, or it is not known.
    Null,
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(Box<str>),
}

impl Cell {
    /// Of a count or a time; what is beyond 2^63 is unknown.
    pub(crate) fn count(number: u64) -> Cell {
        i64::try_from(number).map_or(Cell::Null, Cell::Int)
    }

    pub(crate) fn text(text: impl Into<Box<str>>) -> Cell {
        Cell::Text(text.into())
    }

    /// The number, if it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Cell::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Null => f.write_str("-"),
            Cell::Int(number) => write!(f, "{number}"),
            Cell::Bool(is) => write!(f, "{is}"),
            Cell::Text(text) => f.write_str(text),
        }
    }
}

/// Cells in the order of the table's columns.
pub type TableRow = Vec<Cell>;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Whole numbers.
    Int,
    /// Yes or no.
    Bool,
    /// Texts.
    Text,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// As in `run --json`; unit last.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnType,
    /// What it means, for documentation.
    pub help: &'static str,
}

const fn int(name: &'static str, help: &'static str) -> Column {
    Column { name, kind: ColumnType::Int, help }
}
const fn text(name: &'static str, help: &'static str) -> Column {
    Column { name, kind: ColumnType::Text, help }
}

/// Columns of the table `runs`.
pub const RUNS: &[Column] = &[
    text("key", "names the run by what made it: SHA-256"),
    text("status", "done; warned: numbers, and a kernel's warning; failed: no numbers"),
    int(
        "exit_status",
        "of the command: 0, 1 warned, 2 bad input, 3 the scheduler misbehaved, 4 a bug of schedlab",
    ),
    text("end", "why it ended"),
    text("failure", "the sentence of a run that failed or warned"),
    text("exit_kind", "exit report of a scheduler that misbehaved: what kind"),
    text("exit_reason", "exit report: what it said"),
    int("exit_time_ns", "exit report: simulated time of the last event"),
    text("command", "repeats the run, in the description's folder"),
    text("trial", "what was asked for: JSON"),
    text("workload", "the workload's name"),
    text("workload_sha256", "its content"),
    text("sched", "the scheduler"),
    text("sched_version", "its version"),
    text("kernel_key", "the kernel object, by all that went into it; of a native scheduler NULL"),
    text("params", "parameters that were set: JSON"),
    int("cpus", "CPUs of the machine"),
    text("machine", "the machine as it was asked for"),
    int("hz", "ticks per second; 0: it has none"),
    int("duration_ns", "simulated time of the run"),
    int("seed", "the seed; NULL: nothing was varied"),
    text("perturb", "seed and ranges of the variation"),
    text("costs", "what kernel code cost; NULL: nothing"),
    text("engine", "the engine that made the run"),
    int("nr_tasks", "tasks of the workload"),
    int("records", "lines of its schedule log"),
    int("switches", "switches of all CPUs"),
    int("migrations", "runs that began on another CPU than the one before"),
    int("assignments", "times that a task was assigned to another CPU"),
    int("kernel_thread_assignments", "the same of the kernel's threads"),
    int("cpu_ns", "time of all CPUs in tasks"),
    int("kernel_thread_ns", "in the kernel's threads"),
    int("idle_ns", "idle"),
    int("run_delay_ns", "waiting for a CPU while runnable: sum"),
    int("run_delay_mean_ns", "mean"),
    int("run_delay_p50_ns", "median"),
    int("run_delay_p99_ns", "99th percentile"),
    int("run_delay_max_ns", "longest"),
    int("wakeup_latency_ns", "from a wakeup to the first time on a CPU: sum"),
    int("wakeup_latency_mean_ns", "mean"),
    int("wakeup_latency_p50_ns", "median"),
    int("wakeup_latency_p99_ns", "99th percentile"),
    int("wakeup_latency_max_ns", "longest"),
    int("waiting_task_ns", "integral of waiting tasks over time"),
    int("waiting_max", "most that waited at once"),
    int("idle_while_waiting_ns", "a CPU idle beside a task that it may run: time"),
    int("idle_while_waiting_max_ns", "longest"),
    int("idle_while_waiting_stretches", "how often"),
    int("idle_while_waiting_unknown_ns", "time in which it is unknown"),
    int("misses", "missed deadlines; NULL: the workload has none"),
    int("tardiness_max_ns", "the latest job"),
    text("changed_experiment", "what makes it another experiment than was asked for: JSON"),
    text("dropped", "what was left out or made up: JSON"),
    text("warnings", "the kernel's warnings: JSON"),
];

/// Columns of the table `tasks`; `key` is that of `runs`.
pub const TASKS: &[Column] = &[
    text("key", "the run"),
    int("id", "number in the log"),
    int("pid", "pid"),
    text("name", "name"),
    int("nice", "nice value at the start"),
    text("policy", "policy at the start"),
    int("cpu_ns", "time on a CPU"),
    int("run_delay_ns", "waiting for a CPU while runnable: sum"),
    int("run_delay_mean_ns", "mean"),
    int("run_delay_p50_ns", "median"),
    int("run_delay_p99_ns", "99th percentile"),
    int("run_delay_max_ns", "longest"),
    int("preempted_wait_ns", "part of it after a preemption"),
    int("new_wait_ns", "part of it before the first run"),
    int("wakeup_latency_ns", "from a wakeup to the first time on a CPU: sum"),
    int("wakeup_latency_mean_ns", "mean"),
    int("wakeup_latency_p50_ns", "median"),
    int("wakeup_latency_p99_ns", "99th percentile"),
    int("wakeup_latency_max_ns", "longest"),
    int("blocked_ns", "time asleep"),
    int("wakeups", "wakeups"),
    int("runs", "times that it got a CPU"),
    int("switches_voluntary", "switches by sleeping or ending"),
    int("switches_involuntary", "switches while runnable"),
    int("yields", "of those, by sched_yield"),
    int("migrations", "runs that began on another CPU than the one before"),
    int("assignments", "times that it was assigned to another CPU"),
    int("first_ns", "when it was first runnable"),
    int("last_ns", "when it last stopped"),
    Column { name: "finished", kind: ColumnType::Bool, help: "the workload asks for nothing more of it" },
];

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweptRun {
    key: [u8; 32],
    run: TableRow,
    tasks: Vec<TableRow>,
}

/// The place of a column, which there is.
pub(crate) fn place(columns: &[Column], name: &str) -> usize {
    columns.iter().position(|column| column.name == name).expect("a column of the table")
}

/// The status of a run without numbers.
pub(crate) const FAILED: &str = "failed";

impl SweptRun {
    /// From rows in the columns' order.
    pub(crate) fn new(key: Key, run: TableRow, tasks: Vec<TableRow>) -> SweptRun {
        debug_assert_eq!(run.len(), RUNS.len());
        SweptRun { key: key.0, run, tasks }
    }

    /// Which run.
    pub fn key(&self) -> Key {
        Key(self.key)
    }

    /// Its row, in the order of [`RUNS`].
    pub fn run(&self) -> &TableRow {
        &self.run
    }

    /// A row for each task, in the order of [`TASKS`].
    pub fn tasks(&self) -> &[TableRow] {
        &self.tasks
    }

    /// Both: its row, and one for each task.
    pub(crate) fn into_rows(self) -> (TableRow, Vec<TableRow>) {
        (self.run, self.tasks)
    }

    /// A value by its column's name.
    pub fn column(&self, name: &str) -> Option<&Cell> {
        RUNS.iter().position(|column| column.name == name).map(|at| &self.run[at])
    }

    /// Whether it has no numbers.
    pub fn is_failed(&self) -> bool {
        self.run[1].as_str() == Some(FAILED)
    }

    /// Whether it is another experiment than was asked for.
    pub fn is_changed(&self) -> bool {
        let what = self.column("changed_experiment").and_then(Cell::as_str);
        what.is_some_and(|list| list != "[]")
    }

    /// For a journey between processes of one release.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("memory takes every byte")
    }

    /// From what [`SweptRun::to_bytes`] gives.
    ///
    /// # Errors
    /// It is something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<SweptRun, SweepError> {
        let wrong = |why: String| {
            SweepError::Host(format!(
                "this is no outcome of a run ({why}); send what Outcome::to_bytes gives"
            ))
        };
        let outcome: SweptRun = postcard::from_bytes(bytes).map_err(|error| wrong(error.to_string()))?;
        let fits = |columns: &[Column], row: &TableRow| {
            row.len() == columns.len()
                && columns.iter().zip(row).all(|(column, cell)| {
                    matches!(
                        (column.kind, cell),
                        (_, Cell::Null)
                            | (ColumnType::Int, Cell::Int(_))
                            | (ColumnType::Bool, Cell::Bool(_))
                            | (ColumnType::Text, Cell::Text(_))
                    )
                })
        };
        let named = outcome.run.first().and_then(Cell::as_str) == Some(&*outcome.key().to_string());
        if !named || !fits(RUNS, &outcome.run) || !outcome.tasks.iter().all(|row| fits(TASKS, row)) {
            return Err(wrong("its columns are others".to_owned()));
        }
        Ok(outcome)
    }

    /// The first column in which two results of one run differ, with both values.
    pub(crate) fn difference(&self, other: &SweptRun) -> Option<(String, String, String)> {
        let differ = |columns: &[Column], one: &TableRow, other: &TableRow| {
            let at = (0..columns.len()).find(|at| one[*at] != other[*at])?;
            Some((columns[at].name.to_owned(), one[at].to_string(), other[at].to_string()))
        };
        // who asked, and under which name, is no part of what a run is
        let asked = ["command", "trial", "workload", "machine"].map(|name| place(RUNS, name));
        let mut adopted = other.run.clone();
        for at in asked {
            adopted[at] = self.run[at].clone();
        }
        if let Some(found) = differ(RUNS, &self.run, &adopted) {
            return Some(found);
        }
        if self.tasks.len() != other.tasks.len() {
            let nr = |outcome: &SweptRun| outcome.tasks.len().to_string();
            return Some(("rows of tasks".to_owned(), nr(self), nr(other)));
        }
        self.tasks.iter().zip(&other.tasks).find_map(|(one, other)| differ(TASKS, one, other))
    }
}

/// The five columns of a distribution.
fn distribution(row: &mut TableRow, of: &Distribution) {
    let numbers = [of.sum_ns(), of.mean_ns(), of.percentile_ns(500), of.percentile_ns(990), of.max_ns()];
    row.extend(numbers.map(Cell::count));
}

/// The columns from `records` to `idle_while_waiting_unknown_ns`.
pub(crate) fn numbers(row: &mut TableRow, summary: &Summary) {
    let (system, conservation) = (&summary.system, &summary.system.conservation);
    let counts = [
        system.records,
        system.switches,
        system.migrations,
        system.assignments,
        system.kernel_thread_assignments,
        system.task_ns,
        system.kernel_thread_ns,
        system.idle_ns,
    ];
    row.extend(counts.map(Cell::count));
    distribution(row, &system.run_delay);
    distribution(row, &system.wakeup_latency);
    let counts = [
        system.waiting_task_ns,
        system.waiting_max.into(),
        conservation.idle_while_waiting_ns,
        conservation.longest_ns,
        conservation.stretches,
        conservation.unknown_ns,
    ];
    row.extend(counts.map(Cell::count));
}

/// A row of the table `tasks`.
pub(crate) fn task(key: &str, id: usize, task: &LogTask, stats: &TaskStats, finished: bool) -> TableRow {
    let mut row = Vec::with_capacity(TASKS.len());
    row.push(Cell::text(key));
    row.push(Cell::Int(id as i64));
    row.push(Cell::Int(task.pid.into()));
    row.push(Cell::text(task.name.as_str()));
    row.push(Cell::Int(task.params.nice.get().into()));
    row.push(Cell::text(task.params.policy.name()));
    row.push(Cell::count(stats.cpu_ns));
    distribution(&mut row, &stats.run_delay);
    row.extend([stats.preempted_wait_ns, stats.new_wait_ns].map(Cell::count));
    distribution(&mut row, &stats.wakeup_latency);
    let counts = [
        stats.blocked_ns,
        stats.wakeups,
        stats.runs,
        stats.switches_voluntary,
        stats.switches_involuntary,
        stats.yields,
        stats.migrations,
        stats.assignments,
    ];
    row.extend(counts.map(Cell::count));
    row.extend([stats.first_ns, stats.last_ns].map(|time| time.map_or(Cell::Null, Cell::count)));
    row.push(Cell::Bool(finished));
    row
}
