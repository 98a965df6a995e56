//! What can W be? A workload file, a trace, or a folder with one of them.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_trace::Mode;
use schedlab_units::Span;
use schedlab_workload::derive::{DeriveOptions, Derived, Summary, import_trace};
use schedlab_workload::{Loaded as Found, TraceFormat, Workload};
use std::path::{Path, PathBuf};

/// A workload with what reports say of it.
pub(crate) struct Loaded {
    pub workload: Workload,
    /// For titles.
    pub name: String,
    /// Facts worth a line each.
    pub notes: Vec<String>,
    /// The file it came from.
    pub path: PathBuf,
    /// If it was derived from a trace: what that gave.
    pub derived: Option<Summary>,
}

/// Loads a workload; a trace is imported on the fly.
pub(crate) fn load(path: &Path, ui: &Ui) -> Result<Loaded> {
    load_as(path, Mode::Strict, DeriveOptions::default(), ui)
}

/// As [`load`], with a say in what happens to a damaged trace, and in how a trace is understood.
pub(crate) fn load_as(path: &Path, mode: Mode, options: DeriveOptions, ui: &Ui) -> Result<Loaded> {
    let step = ui.step(format!("loading {}", path.display()));
    let name = title(path);
    match schedlab_workload::load(path).map_err(Failure::input)? {
        Found::Workload { path, workload, .. } => {
            Ok(Loaded { workload, name, notes: Vec::new(), path, derived: None })
        }
        Found::Trace { path, format: TraceFormat::TraceDat } => {
            let derived = import_trace(&path, mode, options, |events| {
                step.progress(format!("importing {}: {events} events", path.display()));
            })
            .map_err(Failure::input)?;
            let Derived { workload, summary } = derived;
            Ok(Loaded { workload, name, notes: notes(&summary), path, derived: Some(summary) })
        }
        Found::Trace { path, format } => Err(Failure::Input(format!(
            "{}: this is {format}, which cannot be imported yet; record with 'schedlab record' or 'trace-cmd record'",
            path.display()
        ))),
        Found::Mix { path } => Err(Failure::Input(format!(
            "{}: mixes of workloads cannot be run yet; give one workload or trace",
            path.display()
        ))),
    }
}

/// `samples/compile/trace.dat` and `samples/compile` are both "compile".
fn title(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = || path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match stem.as_str() {
        "trace" | "workload" => folder().unwrap_or(stem),
        _ => stem,
    }
}

fn notes(summary: &Summary) -> Vec<String> {
    let wakeups = summary.wakeups;
    vec![format!(
        "imported from a trace of {:.1} s with {:.1} s of CPU time; {:.0} % of {} wakeups are external (timers, devices, tasks \
         left out), the others depend on a task of the workload",
        Span::from_ns(summary.duration_ns).as_s_f64(),
        Span::from_ns(summary.cpu_ns).as_s_f64(),
        wakeups.external_percent(),
        wakeups.total()
    )]
}
