//! The native module of the Python package `schedlab`: classes and conversions, no logic. What is pleasant to use is
//! written in Python around it (`python/schedlab`), with type stubs (`_native.pyi`).
//!
//! ```text
//! python/schedlab  ──words──>  run()     the command line's own run (schedlab::embed)  ──>  Run: json, html, log
//!                              Table     columns for polars, pandas, pyarrow, DuckDB  <──  records, JSON
//! ```
//!
//! The caller's process has threads, so nothing is forked in it: runs are made by workers, which are the package's own
//! program started by exec ([`schedlab_process::set_program`]). The interpreter's lock is released meanwhile, and taken
//! some twenty times a second to see whether Ctrl-C was pressed.

mod columns;
mod errors;
mod log;
mod run;
mod spans;
mod sweep;
mod table;

use pyo3::prelude::*;

/// Classes and conversions of `schedlab`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("ENGINE", schedlab_runner::ENGINE)?;
    module.add_class::<run::Workload>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<log::Log>()?;
    module.add_class::<sweep::Asking>()?;
    module.add_class::<sweep::Depot>()?;
    module.add_function(wrap_pyfunction!(run::set_program, module)?)?;
    module.add_function(wrap_pyfunction!(run::load, module)?)?;
    module.add_function(wrap_pyfunction!(run::is_ready, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::rows_of, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::dataset_files, module)?)?;
    module.add_function(wrap_pyfunction!(log::open_log, module)?)?;
    module.add_function(wrap_pyfunction!(table::table_of_json, module)?)
}
