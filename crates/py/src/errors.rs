//! Which exception is it? One class per exit status of the command line, all in `schedlab._errors`; this is the one
//! place where an error of ours becomes one.

use pyo3::prelude::*;
use schedlab::embed::Failed;
use schedlab_lab::FailureKind;

/// The exception that stands for an exit status: `schedlab._errors.of_status(status, sentence)`.
pub fn of_status(py: Python<'_>, status: u8, sentence: &str) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        py.import("schedlab._errors")?.getattr("of_status")?.call1((status, sentence))
    };
    made().map_or_else(|error| error, PyErr::from_value)
}

/// The same of a command that failed.
pub fn of_failed(py: Python<'_>, failed: &Failed) -> PyErr {
    of_status(py, failed.status, &failed.sentence)
}

/// Something that the caller gave is not what is needed.
pub fn input(py: Python<'_>, error: &dyn std::fmt::Display) -> PyErr {
    of_status(py, FailureKind::Input.exit_status(), &error.to_string())
}

/// A bug of ours.
pub fn internal(py: Python<'_>, error: &dyn std::fmt::Display) -> PyErr {
    of_status(py, FailureKind::Internal.exit_status(), &format!("internal error: {error}"))
}
