//! The schedule log as columns: turned once and kept, or streamed where it is too large for that.

use crate::table::{Table, schema_capsule, stream_capsule};
use crate::{errors, spans};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use schedlab::embed;
use schedlab_log::{Columns, LogError, Record};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// Rows per piece: 35 MB of columns, so that a log streams in little memory.
const PIECE_ROWS: usize = 1 << 20;

/// Columns of more records than these (0.6 GB) are not kept: each reader turns them again, piece by piece.
const KEPT_ROWS: u64 = 16 << 20;

/// Where the records are.
#[derive(Clone)]
pub enum Source {
    /// With a run.
    Run(Arc<embed::Run>),
    /// In a file.
    File(PathBuf),
}

impl Source {
    /// Does something with the log.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&dyn schedlab_log::Log) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        match self {
            Source::Run(run) => work(run.log()),
            Source::File(path) => work(&*schedlab_log::open(path)?),
        }
    }

    /// Hands its records on as columns, piece by piece, until `take` wants no more.
    fn pieces(&self, mut take: impl FnMut(RecordBatch) -> bool) -> Result<(), LogError> {
        self.with(|log| {
            let columns = Columns::new(log.header());
            // (the readers of logs have checked every kind)
            let turned = |rows: &[Record]| columns.batch(rows).expect("every kind is known");
            let mut rows: Vec<Record> = Vec::new();
            let mut batches = log.batches()?;
            while let Some(mut batch) = batches.next_batch()? {
                while !batch.is_empty() {
                    let (part, rest) = batch.split_at(batch.len().min(PIECE_ROWS - rows.len()));
                    rows.extend_from_slice(part);
                    batch = rest;
                    if rows.len() == PIECE_ROWS {
                        if !take(turned(&rows)) {
                            return Ok(());
                        }
                        rows.clear();
                    }
                }
            }
            if !rows.is_empty() {
                take(turned(&rows));
            }
            Ok(())
        })
    }
}

/// A schedule log.
#[pyclass(frozen, module = "schedlab._native")]
pub struct Log {
    source: Source,
    kept: OnceLock<Table>,
}

impl Log {
    /// What is there.
    pub fn of(source: Source) -> Log {
        Log { source, kept: OnceLock::new() }
    }

    fn schema(&self) -> Result<Arc<Schema>, LogError> {
        self.source.with(|log| Ok(Columns::new(log.header()).schema().clone()))
    }

    /// Number of records, if that is known without reading them.
    fn len_hint(&self) -> Result<Option<u64>, LogError> {
        self.source.with(|log| Ok(log.len_hint()))
    }

    /// The columns, turned now unless they were before.
    fn kept(&self) -> Result<&Table, LogError> {
        if let Some(table) = self.kept.get() {
            return Ok(table);
        }
        let mut batches = Vec::new();
        self.source.pieces(|batch| {
            batches.push(batch);
            true
        })?;
        // another thread may have been quicker: its columns stay, so that addresses do
        Ok(self.kept.get_or_init(|| Table::new(self.schema_of(&batches), batches)))
    }

    fn schema_of(&self, batches: &[RecordBatch]) -> Arc<Schema> {
        match batches.first() {
            Some(batch) => batch.schema(),
            None => self.schema().unwrap_or_else(|_| Arc::new(Schema::empty())),
        }
    }

    fn reader(&self) -> Result<Box<dyn RecordBatchReader + Send>, LogError> {
        match self.len_hint()? {
            Some(records) if records <= KEPT_ROWS => Ok(self.kept()?.reader()),
            _ => Ok(Box::new(Streamed::new(self.source.clone(), self.schema()?))),
        }
    }
}

#[pymethods]
impl Log {
    /// A stream of the records' columns.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = py.detach(|| self.reader()).map_err(|error| errors::input(py, &error))?;
        stream_capsule(py, reader)
    }

    /// Names and types.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.schema().map_err(|error| errors::input(py, &error))?;
        schema_capsule(py, &schema)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let counted = || match self.len_hint()? {
            Some(records) => Ok(records as usize),
            None => self.source.with(|log| {
                let mut records = 0;
                schedlab_log::for_each(log, |_, _| {
                    records += 1;
                    Ok::<(), LogError>(())
                })?;
                Ok(records)
            }),
        };
        py.detach(counted).map_err(|error: LogError| errors::input(py, &error))
    }

    /// Names of the columns in order.
    #[getter]
    fn column_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let schema = self.schema().map_err(|error| errors::input(py, &error))?;
        Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    /// Where the values of each kept column lie in memory, piece by piece.
    fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let table = py.detach(|| self.kept()).map_err(|error| errors::input(py, &error))?;
        table.addresses(py)
    }

    /// All of it in memory.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.kept()).cloned().map_err(|error| errors::input(py, &error))
    }

    /// Every run of a task on a CPU, from switch to switch.
    fn runs(&self, py: Python<'_>) -> PyResult<Table> {
        self.spans(py, spans::runs)
    }

    /// Every wait of a runnable task for a CPU.
    fn waits(&self, py: Python<'_>) -> PyResult<Table> {
        self.spans(py, spans::waits)
    }

    /// The page of `--html`, with so many cells and so many exact runs in its timeline.
    fn html(&self, py: Python<'_>, title: &str, cells: usize, runs: usize) -> PyResult<String> {
        let detail = embed::Detail { cells, runs };
        let page = || self.source.with(|log| Ok(embed::log_html(title, log, detail)));
        let page = py.detach(page).map_err(|error| errors::input(py, &error))?;
        page.map_err(|failed| errors::of_failed(py, &failed))
    }

    /// Writes it: as Arrow if the name ends in `.arrow`, else as text.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.source.with(|log| schedlab_log::write(&path, log)))
            .map_err(|error| errors::input(py, &error))
    }
}

impl Log {
    fn spans(
        &self,
        py: Python<'_>,
        of: fn(&dyn schedlab_log::Log) -> Result<RecordBatch, spans::SpansError>,
    ) -> PyResult<Table> {
        let batch = py.detach(|| self.source.with(|log| Ok(of(log))));
        let batch = batch.map_err(|error| errors::input(py, &error))?;
        batch.map(Table::of).map_err(|error| errors::input(py, &error))
    }
}

/// Opens the schedule log in a file.
#[pyfunction]
pub fn open_log(py: Python<'_>, path: PathBuf) -> PyResult<Log> {
    let log = Log::of(Source::File(path));
    log.schema().map_err(|error| errors::input(py, &error))?;
    Ok(log)
}

/// The columns of a large log: a thread turns the next piece while the last one is used, and ends with its reader.
struct Streamed {
    schema: Arc<Schema>,
    pieces: Receiver<Result<RecordBatch, ArrowError>>,
}

impl Streamed {
    fn new(source: Source, schema: Arc<Schema>) -> Streamed {
        let (sender, pieces) = sync_channel(1);
        std::thread::spawn(move || Streamed::send(&source, &sender));
        Streamed { schema, pieces }
    }

    fn send(source: &Source, sender: &SyncSender<Result<RecordBatch, ArrowError>>) {
        if let Err(error) = source.pieces(|batch| sender.send(Ok(batch)).is_ok()) {
            let _ = sender.send(Err(ArrowError::ExternalError(Box::new(error))));
        }
    }
}

impl Iterator for Streamed {
    type Item = Result<RecordBatch, ArrowError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.pieces.recv().ok()
    }
}

impl RecordBatchReader for Streamed {
    fn schema(&self) -> Arc<Schema> {
        self.schema.clone()
    }
}
