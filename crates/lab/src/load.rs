//! From a path to a workload: a file of one, a recording, a mix, the settings of a generator, or a folder with one of
//! them.
//!
//! ```text
//! samples/hand/rt.txt         a workload                     read
//! samples/compile             a folder with a recording      imported
//! samples/rtapp/player.json   a description for rt-app       expanded
//! desktop.toml                a mix of several               mixed, each part from a path of its own
//! hogs.toml                   settings of a generator        made
//! ```

use crate::failure::{Fails, FailureKind};
use crate::progress::Progress;
use schedlab_trace::Mode;
use schedlab_units::Span;
use schedlab_workload::derive::{DeriveOptions, Derived, ImportError, Summary, import_trace};
use schedlab_workload::generate::{GenerateError, Spec};
use schedlab_workload::limits::{MIX_DEPTH_MAX, MIX_FILES_MAX, read_toml};
use schedlab_workload::mix::{Mix, MixError};
use schedlab_workload::{LoadedFile as Found, RtAppError, TraceFormat, Workload, read_rtapp};
use std::path::{Path, PathBuf};

/// A workload with what reports say of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The workload.
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

/// A path that gives no workload.
#[derive(Debug, thiserror::Error)]
pub enum NoWorkload {
    /// There is nothing of the kind, or it is damaged.
    #[error(transparent)]
    File(#[from] schedlab_workload::LoadError),
    /// A recording that cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A part was asked for of what is no recording.
    #[error(
        "{}: --from and --to are times of a recording, and this is {found}; give the file of a recording",
        path.display()
    )]
    NoPart {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A description for rt-app that is not understood.
    #[error(transparent)]
    RtApp(#[from] RtAppError),
    /// A mix that cannot be made.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// Settings of a generator that are not understood.
    #[error(transparent)]
    Settings(GenerateError),
    /// Settings that give no workload.
    #[error("{}: {error}", path.display())]
    Generate {
        /// The file.
        path: PathBuf,
        /// Why.
        error: GenerateError,
    },
    /// A mix within mixes within mixes.
    #[error(
        "{}: mixes are nested {} deep; at most {MIX_DEPTH_MAX}: name the workloads of an inner one directly",
        path.display(),
        MIX_DEPTH_MAX + 1
    )]
    TooDeep {
        /// The innermost.
        path: PathBuf,
    },
    /// A TOML file that cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl Fails for NoWorkload {
    fn kind(&self) -> FailureKind {
        FailureKind::Input
    }
}

/// How recordings are understood, and the mixes that are being read, outermost first.
struct Within<'a> {
    mode: Mode,
    options: DeriveOptions,
    above: Vec<PathBuf>,
    /// Files read so far.
    files: usize,
    progress: &'a dyn Progress,
}

impl Within<'_> {
    fn new(mode: Mode, options: DeriveOptions, progress: &dyn Progress) -> Within<'_> {
        Within { mode, options, above: Vec::new(), files: 0, progress }
    }
}

/// Loads a workload; a recording is imported on the fly, and must be whole.
///
/// # Errors
/// There is none at this path.
pub fn load(path: &Path, progress: &dyn Progress) -> Result<Loaded, NoWorkload> {
    load_as(path, Mode::Strict, DeriveOptions::default(), progress)
}

/// As [`load`], with a say in what happens to a damaged recording, and in how one is understood.
///
/// # Errors
/// There is no workload at this path.
pub fn load_as(
    path: &Path,
    mode: Mode,
    options: DeriveOptions,
    progress: &dyn Progress,
) -> Result<Loaded, NoWorkload> {
    load_within(path, &mut Within::new(mode, options, progress))
}

/// Loads one workload, or several side by side as one; of a recording this part.
///
/// # Errors
/// There is none at one of the paths; a part is asked for of what is no recording, or that it does not have.
///
/// # Panics
/// Without a path.
pub fn load_all(
    paths: &[PathBuf],
    options: DeriveOptions,
    progress: &dyn Progress,
) -> Result<Loaded, NoWorkload> {
    let [first, rest @ ..] = paths else { panic!("no path") };
    if rest.is_empty() {
        return load_as(first, Mode::Strict, options, progress);
    }
    let mut within = Within::new(Mode::Strict, options, progress);
    let mut names = Vec::new();
    let workload = Mix::of(paths).build(&mut |path| {
        names.push(title(path));
        load_part(path, &mut within)
    })?;
    Ok(Loaded { workload, ..Loaded::at(first.clone(), names.join(" + ")) })
}

impl Loaded {
    fn at(path: PathBuf, name: String) -> Loaded {
        let (workload, notes) = (Workload::default(), Vec::new());
        Loaded { workload, name, notes, path, derived: None, duration: None, format: None }
    }
}

fn load_within(path: &Path, within: &mut Within<'_>) -> Result<Loaded, NoWorkload> {
    let step = within.progress.step(format!("loading {}", path.display()));
    let name = title(path);
    let found = schedlab_workload::load(path)?;
    if !within.options.window.is_all()
        && let Some(found) = no_recording(&found)
    {
        return Err(NoWorkload::NoPart { path: path.to_path_buf(), found });
    }
    match found {
        Found::Workload { path, workload, .. } => Ok(Loaded { workload, ..Loaded::at(path, name) }),
        Found::Trace { path, format: TraceFormat::RtApp } => {
            let workload = read_rtapp(&path)?;
            let note =
                "expanded from a description for rt-app; who waits for whom is as with a CPU for each task";
            let notes = vec![note.to_string()];
            Ok(Loaded { workload, notes, format: Some(TraceFormat::RtApp), ..Loaded::at(path, name) })
        }
        Found::Trace { path, format } => {
            let derived = import_trace(&path, within.mode, within.options, |events| {
                step.progress(format!("importing {}: {events} events", path.display()));
            })?;
            let Derived { workload, summary } = derived;
            let (mut notes, derived) = (notes(&summary), Some(summary));
            let noted = |what: &str| workload.notes.get(what).map(|note| format!("{what} {note}"));
            notes.extend(["messages", "locks"].into_iter().filter_map(noted));
            Ok(Loaded { workload, notes, derived, format: Some(format), ..Loaded::at(path, name) })
        }
        Found::Mix { path } => {
            drop(step);
            load_toml(&path, name, within)
        }
    }
}

/// What it is, if it is no recording.
fn no_recording(found: &Found) -> Option<&'static str> {
    match found {
        Found::Workload { .. } => Some("a workload"),
        Found::Mix { .. } => Some("a mix of workloads, or a generator's settings"),
        Found::Trace { format: TraceFormat::RtApp, .. } => Some("a description for rt-app"),
        Found::Trace { .. } => None,
    }
}

/// A mix, or the settings of a generator.
fn load_toml(path: &Path, name: String, within: &mut Within<'_>) -> Result<Loaded, NoWorkload> {
    let text = read_toml(path).map_err(|error| NoWorkload::Read { path: path.to_path_buf(), error })?;
    let mut loaded = Loaded::at(path.to_path_buf(), name);
    if Spec::is_spec(&text) {
        let spec = Spec::from_toml(&path.display().to_string(), &text).map_err(NoWorkload::Settings)?;
        loaded.workload =
            spec.build().map_err(|error| NoWorkload::Generate { path: path.to_path_buf(), error })?;
        return Ok(loaded);
    }
    let here = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if within.above.len() == MIX_DEPTH_MAX {
        return Err(NoWorkload::TooDeep { path: path.to_path_buf() });
    }
    within.above.push(here);
    let mix = Mix::parse(path, &text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    loaded.workload = mix.build(&mut |part| load_part(&folder.join(part), within))?;
    loaded.duration = mix.duration;
    within.above.pop();
    Ok(loaded)
}

/// In `dropped`.
const INNER_DURATION: &str = "duration of a mix within a mix, left out: the outermost mix's ends the run";

fn load_part(path: &Path, within: &mut Within<'_>) -> Result<Workload, String> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if within.above.contains(&whole) {
        return Err("this mix is being read already: mixes must not name each other in a circle".to_string());
    }
    if within.files == MIX_FILES_MAX {
        return Err(format!(
            "this is one file more than the {MIX_FILES_MAX} that a mix may read, with those within it"
        ));
    }
    within.files += 1;
    let Loaded { mut workload, duration, .. } =
        load_within(path, within).map_err(|error| error.to_string())?;
    if duration.is_some() {
        workload.count_dropped(INNER_DURATION, 1);
    }
    Ok(workload)
}

/// Whether this is a recording of a real system (or a folder with one). It is not read.
pub fn is_recording(path: &Path) -> bool {
    matches!(schedlab_workload::load(path), Ok(Found::Trace { .. }))
}

/// `samples/compile/trace.dat` and `samples/compile` are both "compile".
pub fn title(path: &Path) -> String {
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
        "imported from a trace of {:.1} s with {:.1} s of CPU time; {:.0} % of {} wakeups are external (timers, \
         devices, tasks left out), the others depend on a task of the workload",
        Span::from_ns(summary.duration_ns).as_s_f64(),
        Span::from_ns(summary.cpu_ns).as_s_f64(),
        wakeups.external_percent(),
        wakeups.total()
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    fn sample(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
    }

    #[test]
    fn every_kind_of_file_is_loaded() {
        let load =
            |name: &str| load(&sample(name), &Silent).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = load("hand/figure1.txt");
        assert_eq!((text.name.as_str(), text.notes.len(), text.format), ("figure1", 0, None));
        let trace = load("hackbench");
        assert_eq!((trace.name.as_str(), trace.notes.len()), ("hackbench", 1));
        assert!(trace.derived.is_some() && trace.path.ends_with("trace.dat"));
        assert_eq!(load("rtapp/player.json").format, Some(TraceFormat::RtApp));
        let mix = load("mix/desktop.toml");
        assert!(mix.derived.is_none() && !mix.workload.tasks.is_empty());
        let two = [sample("hand/figure1.txt"), sample("hand/rt.txt")];
        let two = load_all(&two, DeriveOptions::default(), &Silent).unwrap();
        assert_eq!(two.name, "figure1 + rt");
        let error = super::load(Path::new("/nowhere.txt"), &Silent).unwrap_err();
        assert!(error.kind() == FailureKind::Input && error.to_string().contains("/nowhere.txt"));
    }
}
