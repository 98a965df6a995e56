//! What can W be? A workload file, a trace, or a folder with one of them.

use crate::failure::{Failure, Result};
use crate::mix::Within;
use crate::ui::Ui;
use schedlab_trace::Mode;
use schedlab_units::Span;
use schedlab_workload::derive::{DeriveOptions, Derived, Summary, import_trace};
use schedlab_workload::{Loaded as Found, TraceFormat, Workload, read_rtapp};
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
    /// When a run of it ends, if nothing else is asked (a mix may say so).
    pub duration: Option<Span>,
    /// If it was imported: from what.
    pub format: Option<TraceFormat>,
}

/// Loads a workload; a trace is imported on the fly.
pub(crate) fn load(path: &Path, ui: &Ui) -> Result<Loaded> {
    load_as(path, Mode::Strict, DeriveOptions::default(), ui)
}

/// Loads one workload, or several as one.
pub(crate) fn load_all(paths: &[PathBuf], ui: &Ui) -> Result<Loaded> {
    match paths {
        [path] => load(path, ui),
        _ => crate::mix::load_several(paths, ui),
    }
}

/// As [`load`], with a say in what happens to a damaged trace, and in how a trace is understood.
pub(crate) fn load_as(path: &Path, mode: Mode, options: DeriveOptions, ui: &Ui) -> Result<Loaded> {
    load_within(path, &mut Within { mode, options, above: Vec::new(), files: 0, ui })
}

/// As [`load_as`], as a part of mixes that are being loaded.
pub(crate) fn load_within(path: &Path, within: &mut Within<'_>) -> Result<Loaded> {
    let (mode, options, ui) = (within.mode, within.options, within.ui);
    let step = ui.step(format!("loading {}", path.display()));
    let name = title(path);
    match schedlab_workload::load(path).map_err(Failure::input)? {
        Found::Workload { path, workload, .. } => Ok(Loaded {
            workload,
            name,
            notes: Vec::new(),
            path,
            derived: None,
            duration: None,
            format: None,
        }),
        Found::Trace { path, format } if format != TraceFormat::RtApp => {
            let derived = import_trace(&path, mode, options, |events| {
                step.progress(format!("importing {}: {events} events", path.display()));
            })
            .map_err(Failure::input)?;
            let Derived { workload, summary } = derived;
            let (notes, derived) = (notes(&summary), Some(summary));
            Ok(Loaded { workload, name, notes, path, derived, duration: None, format: Some(format) })
        }
        Found::Trace { path, format } => {
            let workload = read_rtapp(&path).map_err(Failure::input)?;
            let note =
                "expanded from a description for rt-app; who waits for whom is as with a CPU for each task";
            Ok(Loaded {
                workload,
                name,
                notes: vec![note.to_string()],
                path,
                derived: None,
                duration: None,
                format: Some(format),
            })
        }
        Found::Mix { path } => {
            drop(step);
            crate::mix::load(&path, name, within)
        }
    }
}

/// Whether this is a recording of a real system (or a folder with one). It is not read.
pub(crate) fn is_recording(path: &Path) -> bool {
    matches!(schedlab_workload::load(path), Ok(Found::Trace { .. }))
}

/// `samples/compile/trace.dat` and `samples/compile` are both "compile".
pub(crate) fn title(path: &Path) -> String {
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
