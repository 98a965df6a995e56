//! What did the recorded system's scheduler do? Any recording, as a schedule log.
//!
//! ```text
//!   sched_switch A S ==> B     switch A (sleeping) -> B
//!   sched_waking A by C        waking A by C, wakeup A: it waits from here on, as `perf sched` has it since 6.11
//!   sched_wakeup A on CPU 3    migrate, if it was thought to wait elsewhere
//! ```
//!
//! What the events do not tell is not guessed: the header says what is hidden, and what had to be put in so
//! that no record contradicts another is counted by reason. Tasks are numbered as an import of the same
//! recording numbers them, by pid in order of appearance.
//!
//! Memory is bounded by tasks and CPUs, besides a window of 32 MiB ([`spool`]): records go to a nameless
//! file, 32 bytes each.

mod log;
pub(crate) mod schedule;
mod spool;
mod tasks;
mod whose;

pub use log::RecordedLog;
pub use whose::Whose;

use schedlab_log::{Fact, Hidden, KernelThread, LogError, LogHeader, ObservedBy, RawLog};
use schedlab_trace::{Mode, Recording, TraceError};
use schedlab_units::{SchedPolicy, Span};
use schedlab_workload::derive::{ProcSnapshot, SnapshotError, snapshot_beside};
use schedule::{Ended, Schedule, Seen};
use std::collections::BTreeMap;
use std::path::Path;
use tasks::Tasks;

/// A recording that gives no log.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The snapshot beside it cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The records cannot be kept.
    #[error(
        "cannot write records to a temporary file: {0}; see that TMPDIR has room, 32 bytes for each event"
    )]
    Spool(#[from] std::io::Error),
    /// The records cannot be read again.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Nothing of scheduling is in it.
    #[error(
        "{path}: {events} events, and no context switch among them; record with the scheduler's events \
         (schedlab record, trace-cmd record -e sched, perf sched record)"
    )]
    NoSwitch {
        /// The file.
        path: String,
        /// Events of other kinds.
        events: u64,
    },
}

/// A recording as it happened.
pub struct RecordedSchedule {
    /// The schedule.
    pub log: RecordedLog,
    /// Events read.
    pub events: u64,
    /// What was left out or put in: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    /// Where it comes from: name -> value.
    pub notes: BTreeMap<String, String>,
    /// Events that the recording lost, as far as it counted them, and places where it lost some.
    pub lost: (u64, u64),
    /// Whose the tasks are.
    pub whose: Whose,
}

/// Reads a recording of whatever tool. `progress` is called now and then with the number of events read.
///
/// # Errors
/// [`RecordedError`]; in [`Mode::Strict`] also what is damaged.
pub fn recorded_log(
    path: &Path,
    mode: Mode,
    mut progress: impl FnMut(u64),
) -> Result<RecordedSchedule, RecordedError> {
    let file = Recording::open(path, mode)?;
    let snapshot = snapshot_beside(path)?;
    let mut stream = file.events()?;
    let mut schedule = Schedule::new(tempfile::tempfile()?);
    while let Some(event) = stream.next_event()? {
        schedule.event(&event, |comm| stream.comm(comm))?;
        if schedule.events.is_multiple_of(1 << 18) {
            progress(schedule.events);
            file.give_back();
        }
    }
    progress(schedule.events);
    let Ended { head, body, tasks, nr_cpus, duration_ns, mut counts, seen, events } = schedule.finish()?;
    if seen.switches == 0 {
        return Err(RecordedError::NoSwitch { path: path.display().to_string(), events });
    }
    for (reason, times) in stream.counts() {
        *counts.entry(reason.clone()).or_default() += times;
    }
    let nr_cpus = nr_cpus.max(file.cpu_count().unwrap_or(0));
    let release = file.release().unwrap_or("unknown release");
    let mut header = LogHeader {
        sched: "recorded".to_string(),
        sched_version: format!("Linux {release}"),
        nr_cpus,
        duration: Span::from_ns(duration_ns),
        ..LogHeader::default()
    };
    for task in &tasks.list {
        let name = stream.comm(task.comm);
        if let Some(pid) = task.id.kernel_pid() {
            header.kernel_threads.push(match task.strangers_of {
                Some(cpu) => KernelThread::strangers(cpu, pid),
                None => KernelThread { pid, name: name.to_string() },
            });
        } else {
            let row = snapshot.as_ref().and_then(|snapshot| snapshot.row(task.tid.0));
            header.tasks.push(task.log_task(name, row, nr_cpus));
        }
    }
    header.kernel_threads.sort_by_key(|thread| thread.pid);
    header.observer = ObservedBy::Recorder;
    header.hidden = hidden(&seen, &tasks, snapshot.as_ref());
    let notes = notes(path, &file, snapshot.as_ref());
    let whose = whose::whose(&tasks, snapshot.as_ref(), |comm| stream.comm(comm));
    let log = RecordedLog { head, body: RawLog::open(body, header)? };
    Ok(RecordedSchedule { log, events, dropped: counts, notes, lost: (seen.lost_events, seen.gaps), whose })
}

/// What these events cannot tell.
fn hidden(seen: &Seen, tasks: &Tasks, snapshot: Option<&ProcSnapshot>) -> Hidden {
    // a snapshot of a whole system has init
    let of_some = snapshot.is_some_and(|snapshot| !snapshot.is_empty() && snapshot.row(1).is_none());
    let strangers = seen.not_idle > 0 || tasks.list.iter().any(|task| task.is_hidden());
    // where the snapshot has every task, there were no births; an exit shows in the switch
    let all_lived = |snapshot: &ProcSnapshot| {
        tasks.list.iter().filter(|task| task.id.is_workload()).all(|task| snapshot.row(task.tid.0).is_some())
    };
    let no_lives = seen.births + seen.exits == 0 && !snapshot.is_some_and(all_lived);
    // no event tells when a group has used up its limit: it matters where there are limits
    let limited = |snapshot: &ProcSnapshot| {
        snapshot.rows().any(|(_, row)| {
            let is_deadline = row.params.is_some_and(|params| params.policy == SchedPolicy::Deadline);
            is_deadline || row.cpu_max.is_some_and(|max| max.is_some())
        })
    };
    [
        (Fact::Wakeups, seen.waking + seen.wakeup == 0),
        (Fact::Stops, seen.unknown_stops > 0),
        (Fact::Idle, (of_some && seen.strangers == 0) || strangers),
        (Fact::Assignments, seen.migrations + seen.wakeup == 0),
        (Fact::Affinity, snapshot.is_none()),
        (Fact::Params, seen.prios == 0),
        (Fact::Lives, no_lives),
        (Fact::Spans, seen.unseen_spans > 0),
        (Fact::Limits, snapshot.is_none_or(limited)),
    ]
    .into_iter()
    .filter_map(|(fact, is_hidden)| is_hidden.then_some(fact))
    .collect()
}

fn notes(path: &Path, file: &Recording, snapshot: Option<&ProcSnapshot>) -> BTreeMap<String, String> {
    let snapshot = snapshot.map_or("none".to_string(), |snapshot| format!("{} threads", snapshot.len()));
    [
        ("source", path.file_name().map(|name| name.to_string_lossy().into_owned())),
        ("recorded by", file.tool().map(str::to_string)),
        ("recorded kernel", file.release().map(str::to_string)),
        ("snapshot", Some(snapshot)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_string(), value?)))
    .collect()
}
