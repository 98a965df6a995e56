//! Who ran when, and who waited when? The log read once, a row per stretch.
//!
//! Columns: `task` (the number of the workload's task; kernel threads follow behind the last one), `pid`, `name`,
//! `cpu`,
//! `start_ns`, `end_ns`; of a run also `stop`, why it stopped (null: the log ends), and `waited_ns`, how long it had
//! waited (null: nobody saw); of a wait `cause`: new, wakeup or preempted.

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, Field, Schema};
use schedlab_log::{Log, LogHeader, LogProblem, Observer, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::CpuId;
use std::sync::Arc;

/// The log cannot be read, or contradicts itself.
#[derive(Debug)]
pub enum SpansError {
    /// In its records.
    Log(LogProblem),
    /// A bug of ours.
    Arrow(ArrowError),
}

impl std::fmt::Display for SpansError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpansError::Log(problem) => problem.fmt(f),
            SpansError::Arrow(error) => error.fmt(f),
        }
    }
}

impl From<ArrowError> for SpansError {
    fn from(error: ArrowError) -> SpansError {
        SpansError::Arrow(error)
    }
}

/// Stretches by row, in the order in which they end.
#[derive(Default)]
struct Stretches {
    rows: Vec<u32>,
    cpus: Vec<u16>,
    starts: Vec<u64>,
    ends: Vec<u64>,
}

impl Stretches {
    fn push(&mut self, row: Row, cpu: CpuId, start_ns: u64, end_ns: u64) {
        self.rows.push(row.0);
        self.cpus.push(cpu.0 as u16); // (a machine has at most 1,024)
        self.starts.push(start_ns);
        self.ends.push(end_ns);
    }

    fn columns(self, header: &LogHeader) -> Vec<(&'static str, ArrayRef)> {
        let who = |row: &u32| {
            let row = *row as usize;
            match header.tasks.get(row) {
                Some(task) => (task.pid, task.name.as_str()),
                None => {
                    let thread = &header.kernel_threads[row - header.tasks.len()];
                    (thread.pid, thread.name.as_str())
                }
            }
        };
        let pids = UInt32Array::from_iter_values(self.rows.iter().map(|row| who(row).0));
        let names = StringArray::from_iter_values(self.rows.iter().map(|row| who(row).1));
        vec![
            ("task", Arc::new(UInt32Array::from(self.rows))),
            ("pid", Arc::new(pids)),
            ("name", Arc::new(names)),
            ("cpu", Arc::new(UInt16Array::from(self.cpus))),
            ("start_ns", Arc::new(UInt64Array::from(self.starts))),
            ("end_ns", Arc::new(UInt64Array::from(self.ends))),
        ]
    }
}

fn batch(columns: Vec<(&'static str, ArrayRef)>) -> Result<RecordBatch, SpansError> {
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect())?)
}

#[derive(Default)]
struct Runs {
    stretches: Stretches,
    stops: Vec<Option<&'static str>>,
    waited: Vec<Option<u64>>,
}

impl Observer for Runs {
    fn run_end(&mut self, run: &Run) {
        self.stretches.push(run.row, run.cpu, run.since_ns, run.until_ns);
        self.stops.push(run.stop.map(|stop| stop.name()));
        self.waited.push(run.waited.map(|(_, ns)| ns));
    }
}

/// Every run from switch to switch.
pub fn runs(log: &dyn Log) -> Result<RecordBatch, SpansError> {
    let mut runs = Runs::default();
    replay(log, &Slots::new(log.header()), &mut runs).map_err(SpansError::Log)?;
    let mut columns = runs.stretches.columns(log.header());
    columns.push(("stop", Arc::new(StringArray::from(runs.stops))));
    columns.push(("waited_ns", Arc::new(UInt64Array::from(runs.waited))));
    batch(columns)
}

#[derive(Default)]
struct Waits {
    stretches: Stretches,
    causes: Vec<&'static str>,
}

impl Observer for Waits {
    fn wait_end(&mut self, wait: &Wait) {
        self.stretches.push(wait.row, wait.cpu, wait.since_ns, wait.until_ns);
        self.causes.push(match wait.cause {
            WaitCause::New => "new",
            WaitCause::Wakeup => "wakeup",
            WaitCause::Preempted => "preempted",
        });
    }
}

/// Every wait for a CPU.
pub fn waits(log: &dyn Log) -> Result<RecordBatch, SpansError> {
    let mut waits = Waits::default();
    replay(log, &Slots::new(log.header()), &mut waits).map_err(SpansError::Log)?;
    let mut columns = waits.stretches.columns(log.header());
    columns.push(("cause", Arc::new(StringArray::from(waits.causes))));
    batch(columns)
}
