//! Trials of a sweep one by one, and runs that are made for another machine.

use crate::errors;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedlab_lab::Fails;
use schedlab_stdx::lock;
use schedlab_sweep::{
    Asked, Bench, Cell, Column, Key, RUNS, Sweep, SweepError, SweptRun, TASKS, Trial, WorkOrder,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// The exception of an error's exit status.
fn raised(py: Python<'_>, error: &SweepError) -> PyErr {
    errors::of_status(py, error.kind().exit_status(), &error.to_string())
}

/// A dataset that is filled from outside.
#[pyclass(frozen, module = "schedlab._native")]
pub struct Asking {
    /// `None` after its end.
    asking: Mutex<Option<schedlab_sweep::Asking>>,
    bench: Arc<Bench>,
}

impl Asking {
    /// (Python's lock is never waited for while this one is held.)
    fn held(&self) -> MutexGuard<'_, Option<schedlab_sweep::Asking>> {
        lock(&self.asking)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Send + FnOnce(&mut schedlab_sweep::Asking) -> Result<T, SweepError>,
    ) -> PyResult<T> {
        let done = py.detach(|| match self.held().as_mut() {
            Some(asking) => work(asking),
            None => Err(SweepError::Host("this sweep was finished; open it again".to_owned())),
        });
        done.map_err(|error| raised(py, &error))
    }
}

#[pymethods]
impl Asking {
    /// Opens the dataset `folder` for the runs of a description, or for a shard of them.
    #[new]
    #[pyo3(signature = (description, folder, shard=None))]
    fn new(py: Python<'_>, description: PathBuf, folder: PathBuf, shard: Option<&str>) -> PyResult<Asking> {
        let shard = match shard {
            Some(text) => Some(text.parse().map_err(|error| errors::input(py, &error))?),
            None => None,
        };
        let asking = py.detach(|| schedlab_sweep::Asking::new(Sweep::load(&description)?, &folder, shard));
        let asking = asking.map_err(|error| raised(py, &error))?;
        let bench = asking.bench();
        Ok(Asking { asking: Mutex::new(Some(asking)), bench })
    }

    /// Runs of the description, of all shards.
    fn planned(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |asking| Ok(asking.planned()))
    }

    /// Runs that another process makes, as far as is known.
    fn elsewhere(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |asking| Ok(asking.elsewhere()))
    }

    /// The next run that is to be made: key and trial.
    fn ask(&self, py: Python<'_>) -> PyResult<Option<(String, String)>> {
        let asked = self.with(py, schedlab_sweep::Asking::ask)?;
        Ok(asked.map(|(key, trial)| (key.to_string(), trial.to_json())))
    }

    /// What there is of a trial, `known`, `under way` or `new`, and its key.
    fn propose(&self, py: Python<'_>, trial: &str) -> PyResult<(&'static str, String)> {
        let asked = self.with(py, |asking| asking.propose(&Trial::from_json(trial)?))?;
        Ok(match asked {
            Asked::Known(key) => ("known", key.to_string()),
            Asked::UnderWay(key) => ("under way", key.to_string()),
            Asked::New(key) => ("new", key.to_string()),
        })
    }

    /// Makes a trial's run here.
    fn run<'py>(&self, py: Python<'py>, trial: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bench = &self.bench;
        made(py, |go_on| {
            let trial = Trial::from_json(trial)?;
            let prepared = bench.prepare(&trial, &schedlab_lab::Silent)?;
            bench.perform(&trial, &prepared, None, go_on)
        })
    }

    /// The order of a trial's run, for another machine.
    fn order(&self, py: Python<'_>, trial: &str) -> PyResult<String> {
        let order = py.detach(|| Ok(self.bench.order(&Trial::from_json(trial)?)?.to_json()));
        order.map_err(|error| raised(py, &error))
    }

    /// What an order of the trial names by content.
    fn bytes<'py>(&self, py: Python<'py>, trial: &str, hash: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.bench.bytes(&Trial::from_json(trial)?, hash));
        bytes.map(|bytes| PyBytes::new(py, &bytes)).map_err(|error| raised(py, &error))
    }

    /// Keeps the result of a run that was asked; `False`: it was there before.
    fn tell(&self, py: Python<'_>, answer: &[u8]) -> PyResult<bool> {
        self.with(py, |asking| asking.tell(SweptRun::from_bytes(answer)?))
    }

    /// Whoever had the run will not tell.
    fn give_up(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let key: Key = key.parse().map_err(|error| errors::input(py, &error))?;
        self.with(py, |asking| {
            asking.give_up(key);
            Ok(())
        })
    }

    /// All results become Parquet; `True`: in order, as nobody else is at work.
    fn finish(&self, py: Python<'_>) -> PyResult<bool> {
        let done = py.detach(|| match self.held().take() {
            Some(asking) => asking.finish(),
            None => Ok(true),
        });
        done.map_err(|error| raised(py, &error))
    }
}

/// What came from other machines, and the runs that are made for them.
#[pyclass(frozen, module = "schedlab._native")]
pub struct Depot {
    bench: Bench,
    depot: schedlab_sweep::Depot,
}

#[pymethods]
impl Depot {
    /// In this folder.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Depot> {
        let depot = schedlab_sweep::Depot::open(&folder).map_err(|error| raised(py, &error))?;
        Ok(Depot { bench: Bench::new(&folder), depot })
    }

    /// Hashes of what an order needs and is not here.
    fn missing(&self, py: Python<'_>, order: &str) -> PyResult<Vec<String>> {
        let missing = py.detach(|| {
            let order = WorkOrder::from_json(order)?;
            order.check()?;
            self.depot.missing(&order)
        });
        missing.map_err(|error| raised(py, &error))
    }

    /// Keeps what was brought.
    fn put(&self, py: Python<'_>, hash: &str, bytes: &[u8]) -> PyResult<()> {
        py.detach(|| self.depot.put(hash, bytes)).map_err(|error| raised(py, &error))
    }

    /// Makes the run.
    fn fulfil<'py>(&self, py: Python<'py>, order: &str) -> PyResult<Bound<'py, PyBytes>> {
        made(py, |go_on| self.bench.fulfil(&WorkOrder::from_json(order)?, &self.depot, go_on))
    }
}

/// Makes a run with Python's lock free; Ctrl-C ends it in the main thread.
fn made<'py>(
    py: Python<'py>,
    work: impl Send + FnOnce(&mut dyn FnMut() -> bool) -> Result<SweptRun, SweepError>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut interrupted = None;
    let done = py.detach(|| {
        work(&mut || {
            interrupted = Python::attach(|py| py.check_signals()).err();
            interrupted.is_none()
        })
    });
    match (done, interrupted) {
        (_, Some(interrupted)) => Err(interrupted),
        (Ok(outcome), None) => Ok(PyBytes::new(py, &outcome.to_bytes())),
        (Err(error), None) => Err(raised(py, &error)),
    }
}

/// The Parquet files of a dataset that hold each row once: those of the table `runs`, and those of `tasks`.
#[pyfunction]
pub fn dataset_files(py: Python<'_>, folder: PathBuf) -> PyResult<(Vec<PathBuf>, Vec<PathBuf>)> {
    let files = schedlab_sweep::dataset::files(&folder).map_err(|error| raised(py, &error))?;
    Ok((files.runs, files.tasks))
}

/// An answer's rows as JSON: that of the table `runs`, and those of `tasks`.
#[pyfunction]
pub fn rows_of(py: Python<'_>, answer: &[u8]) -> PyResult<(String, String)> {
    let outcome = SweptRun::from_bytes(answer).map_err(|error| raised(py, &error))?;
    let tasks: Vec<serde_json::Value> = outcome.tasks().iter().map(|row| object(TASKS, row)).collect();
    Ok((object(RUNS, outcome.run()).to_string(), serde_json::Value::Array(tasks).to_string()))
}

fn object(columns: &[Column], row: &[Cell]) -> serde_json::Value {
    let value = |cell: &Cell| match cell {
        Cell::Null => serde_json::Value::Null,
        Cell::Int(number) => (*number).into(),
        Cell::Bool(is) => (*is).into(),
        Cell::Text(text) => text.to_string().into(),
    };
    columns.iter().zip(row).map(|(column, cell)| (column.name.to_owned(), value(cell))).collect()
}
