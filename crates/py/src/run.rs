//! A workload that was loaded, and a run of it, as Python holds them.

use crate::errors;
use crate::log::{Log, Source};
use pyo3::prelude::*;
use schedlab::embed;
use schedlab_lab::Loaded;
use std::path::PathBuf;
use std::sync::Arc;

/// A workload, read and checked once, for any number of runs.
#[pyclass(frozen, module = "schedlab._native")]
pub struct Workload {
    loaded: Arc<Loaded>,
}

#[pymethods]
impl Workload {
    /// What it is called in results.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.name
    }

    /// Tasks.
    #[getter]
    fn nr_tasks(&self) -> usize {
        self.loaded.workload.tasks.len()
    }

    /// Events of all tasks.
    #[getter]
    fn nr_events(&self) -> u64 {
        self.loaded.workload.nr_events()
    }

    /// Remarks of the import.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.loaded.notes.clone()
    }

    /// What the import left out or made up: reason and count.
    #[getter]
    fn dropped(&self) -> std::collections::BTreeMap<String, u64> {
        self.loaded.workload.dropped.clone()
    }
}

/// A run that ended as it should.
#[pyclass(frozen, module = "schedlab._native")]
pub struct Run {
    run: Arc<embed::Run>,
}

#[pymethods]
impl Run {
    /// The line of `--json`.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.run.json())
    }

    /// The page of `--html`, with so many cells and so many exact runs in its timeline.
    fn html(&self, py: Python<'_>, cells: usize, runs: usize) -> PyResult<String> {
        py.detach(|| self.run.html(embed::Detail { cells, runs }))
            .map_err(|failed| errors::of_failed(py, &failed))
    }

    /// The text of the terminal.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.run.text()).map_err(|failed| errors::of_failed(py, &failed))
    }

    /// The command that repeats it.
    #[getter]
    fn command(&self) -> &str {
        self.run.command()
    }

    /// The scheduler's warnings.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.run.warnings().to_vec()
    }

    /// What happened, record by record.
    fn log(&self) -> Log {
        Log::of(Source::Run(self.run.clone()))
    }
}

/// Names the program that makes runs, and above which samples and port lie.
#[pyfunction]
pub fn set_program(program: Option<PathBuf>) {
    schedlab_process::set_program(program);
}

/// Loads a workload from whatever the path leads to.
#[pyfunction]
pub fn load(py: Python<'_>, path: PathBuf) -> PyResult<Workload> {
    let loaded = py.detach(|| embed::load(&path)).map_err(|failed| errors::of_failed(py, &failed))?;
    Ok(Workload { loaded: Arc::new(loaded) })
}

/// Whether the run of these words has nothing to compile first.
#[pyfunction]
pub fn is_ready(py: Python<'_>, words: Vec<String>) -> PyResult<bool> {
    py.detach(|| embed::is_ready(&words)).map_err(|failed| errors::of_failed(py, &failed))
}

/// Makes the run of these words of the command line; `object` is what `schedlab resolve` printed.
#[pyfunction]
#[pyo3(signature = (words, workload=None, object=None))]
pub fn run(
    py: Python<'_>,
    words: Vec<String>,
    workload: Option<Py<Workload>>,
    object: Option<&str>,
) -> PyResult<Run> {
    let loaded = workload.map(|workload| workload.get().loaded.clone());
    let object = match object {
        Some(json) => serde_json::from_str(json).map_err(|error| errors::internal(py, &error))?,
        None => None,
    };
    let mut interrupted = None;
    let done = py.detach(|| {
        // (signals are for the main thread alone; in others this sees none)
        embed::run(&words, loaded.as_deref(), object, &mut || {
            interrupted = Python::attach(|py| py.check_signals()).err();
            interrupted.is_none()
        })
    });
    match (done, interrupted) {
        (_, Some(interrupted)) => Err(interrupted),
        (Ok(run), None) => Ok(Run { run: Arc::new(run) }),
        (Err(failed), None) => Err(errors::of_failed(py, &failed)),
    }
}
