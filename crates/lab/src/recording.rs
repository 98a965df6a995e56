//! A recording as it happened: found at a path, read, and judged for what it is worth as a measurement.

use crate::failure::{Fails, FailureKind};
use crate::load::title;
use crate::progress::Progress;
use schedlab_convert::{RecordedError, RecordedSchedule, recorded_log};
use schedlab_instruments::{LogProblem, Owner, WaitedFor, hidden_stays, waited_for};
use schedlab_log::Log;
use schedlab_trace::Mode;
use schedlab_workload::{LoadedFile as Found, TraceFormat};
use std::path::{Path, PathBuf};

/// A recording, and what is known of how it was made.
pub struct KnownRecording {
    /// The file.
    pub path: PathBuf,
    /// For titles: the file's name, or its folder's.
    pub name: String,
    /// Its format.
    pub format: TraceFormat,
    /// The schedule and its facts.
    pub recorded: RecordedSchedule,
    /// Whose each task of the log is, if it is known which are the program's.
    pub owners: Option<Vec<Owner>>,
    /// Whose CPU the program's tasks waited for; `None`: which tasks are the program's is not known.
    pub waited_for: Option<WaitedFor>,
}

/// A path that leads to no recording that can be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is nothing of the kind, or it is damaged.
    #[error(transparent)]
    File(#[from] schedlab_workload::LoadError),
    /// It cannot be read as a schedule.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// A workload, a mix, a description: nothing that has happened.
    #[error(
        "{}: this is {found}, not a recording: nothing has happened yet; 'schedlab run' makes it happen", path.display()
    )]
    NotRecorded {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// The schedule contradicts itself.
    #[error("{}: {problem}", path.display())]
    Contradicts {
        /// The file.
        path: PathBuf,
        /// Where and how.
        problem: LogProblem,
    },
}

impl Fails for RecordingError {
    fn kind(&self) -> FailureKind {
        FailureKind::Input
    }
}

/// More than this share of the program's waiting for CPUs that others had, or of all CPUs' time, is no property of the
/// program.
pub const CONTENDED_SHARE: f64 = 0.10;
/// Less waiting than this is none, whoever it was for.
const CONTENDED_NS: u64 = 1_000_000;

impl KnownRecording {
    /// Whether others took part: more than a tenth of the program's waiting was for CPUs that they had, or they had
    /// more than a tenth of all CPUs' time. `None`: not known.
    pub fn is_contended(&self) -> Option<bool> {
        let waited = self.waited_for?;
        Some(is_waiting_for_others(&waited) || self.strangers_share() > CONTENDED_SHARE)
    }

    /// Which part of all CPUs' time those had whom the recording leaves out, as far as it tells of them: 0 to 1.
    pub fn strangers_share(&self) -> f64 {
        let header = self.recorded.log.header();
        let all_ns = header.duration.as_ns() as f64 * f64::from(header.nr_cpus);
        let strangers_ns = self.waited_for.map_or(0, |waited| waited.strangers_cpu_ns);
        if strangers_ns == 0 { 0.0 } else { strangers_ns as f64 / all_ns }
    }

    /// When each CPU is shown as idle although somebody whom the recording hides must have had it (ns from the start).
    ///
    /// # Errors
    /// [`LogProblem`] if the schedule contradicts itself.
    pub fn hidden_stays(&self) -> Result<Vec<Vec<(u64, u64)>>, LogProblem> {
        self.owners.as_ref().map_or(Ok(Vec::new()), |owners| hidden_stays(&self.recorded.log, owners))
    }

    /// What to know before the figures are taken for the program's own: a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(waited) = self.waited_for.filter(is_waiting_for_others) {
            warnings.push(format!(
                "the recording machine was contended: {:.0} % of the program's waiting ({:.1} of {:.1} ms) \
                 was for CPUs that others had; its delays are not the program's own",
                100.0 * waited.others_share(),
                waited.others_ns() as f64 * 1e-6,
                waited.total_ns() as f64 * 1e-6
            ));
        }
        let share = self.strangers_share();
        if share > CONTENDED_SHARE {
            warnings.push(format!(
                "others had {:.0} % of the recorded CPUs' time: alone the program may be done earlier",
                100.0 * share
            ));
        }
        let (events, places) = self.recorded.lost;
        if places > 0 {
            let counted = if events > 0 { format!("at least {events} events") } else { "events".to_string() };
            warnings.push(format!(
                "the recording lost {counted} in {places} places; what happened there is unknown \
                 (record again with a larger --buffer-kib)"
            ));
        }
        warnings
    }
}

fn is_waiting_for_others(waited: &WaitedFor) -> bool {
    waited.others_ns() > CONTENDED_NS && waited.others_share() > CONTENDED_SHARE
}

/// Reads the recording at a path: a file, or a folder with one.
///
/// # Errors
/// There is none, or it is damaged (with [`Mode::Lenient`] what is damaged is left out).
pub fn load_recording(
    path: &Path,
    mode: Mode,
    progress: &dyn Progress,
) -> Result<KnownRecording, RecordingError> {
    let name = title(path);
    let not = |path: PathBuf, found| RecordingError::NotRecorded { path, found };
    let (path, format) = match schedlab_workload::load(path)? {
        Found::Trace { path, format: TraceFormat::RtApp } => {
            return Err(not(path, "a description for rt-app"));
        }
        Found::Trace { path, format } => (path, format),
        Found::Workload { path, .. } => return Err(not(path, "a workload")),
        Found::Mix { path } => return Err(not(path, "a mix of workloads")),
    };
    let step = progress.step(format!("reading {}", path.display()));
    let recorded = recorded_log(&path, mode, |events| {
        step.progress(format!("reading {}: {events} events", path.display()));
    })?;
    let owners = recorded.whose.program.as_ref().map(|program| {
        let owner = |(is_program, is_kernel): (&bool, &bool)| match (is_program, is_kernel) {
            (_, true) => Owner::Kernel,
            (true, _) => Owner::Program,
            (false, false) => Owner::Stranger,
        };
        program.iter().zip(&recorded.whose.kernel).map(owner).collect::<Vec<_>>()
    });
    let waited = owners.as_ref().map(|owners| waited_for(&recorded.log, owners)).transpose();
    let waited_for = waited.map_err(|problem| RecordingError::Contradicts { path: path.clone(), problem })?;
    debug_assert_eq!(recorded.log.header().tasks.len(), recorded.whose.kernel.len());
    Ok(KnownRecording { path, name, format, recorded, owners, waited_for })
}
