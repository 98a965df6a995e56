//! From a recording of whatever tool, and the snapshot beside it, to a workload.

use super::snapshot::{ProcSnapshot, SnapshotError};
use super::{DeriveOptions, Derived, Deriver, TraceTime, WindowError};
use crate::Messages;
use crate::limits::{Account, Exceeded, Limits};
use schedlab_trace::{Mode, Recording, RecordingFormat, SchedEvent, TraceError};
use std::path::{Path, PathBuf};

/// Why a trace could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The snapshot beside it.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The part that was asked for.
    #[error("{}: {problem}", path.display())]
    Window {
        /// The recording.
        path: PathBuf,
        /// What is wrong with it.
        problem: WindowError,
    },
    /// More than a workload in memory may hold.
    #[error("{path}: {exceeded}; {}", .exceeded.remedy())]
    TooMuch {
        /// The recording.
        path: PathBuf,
        /// What there is too much of.
        exceeded: Exceeded,
    },
    /// Pipes and sockets were asked for.
    #[error(
        "{}: it has no events of pipes and sockets, expected those of 'schedlab record --objects'; record again with \
         it, or use --messages inferred", path.display()
    )]
    NoObjects {
        /// The file.
        path: PathBuf,
    },
}

/// Where the snapshot of a trace is: `NAME.proc.csv` beside `NAME.dat`.
pub(super) fn snapshot_path(trace: &Path) -> PathBuf {
    trace.with_extension("proc.csv")
}

/// The snapshot of a trace; `None`: there is none.
///
/// # Errors
/// It is there and cannot be read.
pub fn snapshot_beside(trace: &Path) -> Result<Option<ProcSnapshot>, SnapshotError> {
    match snapshot_path(trace) {
        beside if beside.exists() => ProcSnapshot::read(&beside).map(Some),
        _ => Ok(None),
    }
}

/// Whether what has been derived so far is as much as a workload in memory may hold.
fn within(deriver: &Deriver, limits: Limits, path: &Path) -> Result<(), ImportError> {
    let (tasks, events) = deriver.size();
    let account = Account::new(limits);
    let checked = account.check_tasks(tasks).and_then(|()| account.check_events(events));
    checked.map_err(|exceeded| ImportError::TooMuch { path: path.to_path_buf(), exceeded })
}

/// An event at an object is among so many of a recording that has any.
const FIRST_EVENTS: usize = 1 << 16;

/// Which channels a recording shows, by its first events.
fn shown(file: &Recording) -> Result<Messages, ImportError> {
    let mut stream = file.events()?;
    for _ in 0..FIRST_EVENTS {
        match stream.next_event()?.map(|event| event.what) {
            Some(SchedEvent::Object(_) | SchedEvent::Sync(_)) => return Ok(Messages::Recorded),
            Some(_) => {}
            None => break,
        }
    }
    Ok(Messages::None)
}

/// Imports a recording: trace.dat, perf.data, ftrace's text or a Perfetto trace, told by its content.
/// `progress` is called now and then with the number of events read so far.
///
/// The memory taken is that of the workload; the recording itself is read page by page (line by line, bundle
/// by bundle, two rounds of perf at a time).
///
/// # Errors
/// [`ImportError::Trace`] for a trace that cannot be read (in [`Mode::Strict`]: not in full),
/// [`ImportError::Snapshot`] for a snapshot that is there but cannot be read. A trace without snapshot is
/// fine. [`ImportError::Window`] for a part ([`DeriveOptions::window`]) that the recording does not have.
/// [`ImportError::TooMuch`] beyond [`Limits::HELD`].
pub fn import_trace(
    path: &Path,
    mode: Mode,
    options: DeriveOptions,
    mut progress: impl FnMut(u64),
) -> Result<Derived, ImportError> {
    let no_such_part = |problem| ImportError::Window { path: path.to_path_buf(), problem };
    let window = options.window;
    window.check().map_err(no_such_part)?;
    let file = Recording::open(path, mode)?;
    let snapshot = snapshot_beside(path)?;
    let chosen = options.messages;
    let options = DeriveOptions { messages: Some(chosen.map_or_else(|| shown(&file), Ok)?), ..options };
    let mut stream = file.events()?;
    let mut deriver = Deriver::new(options, snapshot.as_ref());
    let mut count = 0;
    let mut extent: Option<(u64, u64)> = None;
    while let Some(event) = stream.next_event()? {
        let (first, last) = extent.get_or_insert((event.time_ns, event.time_ns));
        (*first, *last) = ((*first).min(event.time_ns), (*last).max(event.time_ns));
        if window.holds(event.time_ns) {
            deriver.event(&event, |comm| stream.comm(comm));
        }
        count += 1;
        if count % (1 << 18) == 0 {
            progress(count);
            file.give_back();
            within(&deriver, Limits::HELD, path)?;
        }
    }
    within(&deriver, Limits::HELD, path)?;
    progress(count);
    window.check_within(extent).map_err(no_such_part)?;
    if chosen == Some(Messages::Recorded) && deriver.object_calls() == 0 {
        return Err(ImportError::NoObjects { path: path.to_path_buf() });
    }
    let mut derived = deriver.finish(file.cpu_count(), |comm| stream.comm(comm));
    for (reason, times) in stream.counts() {
        derived.workload.count_dropped(reason, *times);
    }
    let notes = &mut derived.workload.notes;
    let mut note = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            notes.insert(key.to_string(), value);
        }
    };
    if let (false, Some((first, last))) = (window.is_all(), extent) {
        let (from, to) = (window.from.unwrap_or(TraceTime(first)), window.to.unwrap_or(TraceTime(last)));
        note(
            "part of the recording",
            Some(format!("{from} to {to} of {} to {}", TraceTime(first), TraceTime(last))),
        );
    }
    note("source", path.file_name().map(|name| name.to_string_lossy().into_owned()));
    note("recorded by", file.tool().map(str::to_string));
    note("recorded CPUs", file.cpu_count().map(|count| count.to_string()));
    note("recorded kernel", file.release().map(str::to_string));
    let form = match file.format() {
        RecordingFormat::TraceDat => None,
        RecordingFormat::PerfData => Some("perf.data"),
        RecordingFormat::Text => Some("text: times to the digits printed, 1 us as a rule"),
        RecordingFormat::Perfetto => Some("Perfetto"),
    };
    note("form of the recording", form.map(str::to_string));
    note("snapshot", Some(snapshot.as_ref().map_or("none".to_string(), |s| format!("{} threads", s.len()))));
    Ok(derived)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::{CommId, TraceEvent};

    /// Two tasks that run in turn: as many tasks and events as there may be, and one more of either.
    #[test]
    fn what_is_derived_is_bounded() {
        let text = "# tracer: nop\n#\n\
            a-1 [000] d..2. 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> \
            next_comm=b next_pid=2 next_prio=120\n\
            b-2 [000] d..2. 1.000002: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> \
            next_comm=a next_pid=1 next_prio=120\n";
        let file = Recording::from_bytes(text.as_bytes().to_vec(), Mode::Strict).unwrap();
        let mut stream = file.events().unwrap();
        let mut deriver = Deriver::new(DeriveOptions::default(), None);
        let name = |_: CommId| "x";
        let mut all: Vec<TraceEvent> = Vec::new();
        while let Some(event) = stream.next_event().unwrap() {
            all.push(event);
        }
        all.iter().for_each(|event| deriver.event(event, name));
        let (tasks, events) = deriver.size();
        assert!(tasks == 2 && events >= 2, "{tasks} {events}");
        let path = Path::new("x.dat");
        let limits = Limits { tasks, events, ..Limits::HELD };
        within(&deriver, limits, path).unwrap();
        for (limits, says) in [
            (
                Limits { tasks: tasks - 1, ..limits },
                "x.dat: this makes 2 tasks; a workload may have 1 in memory",
            ),
            (Limits { events: events - 1, ..limits }, "events; a workload may have"),
        ] {
            let error = within(&deriver, limits, path).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
