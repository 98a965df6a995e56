//! Whose are the tasks of a recording: the recorded program's, the kernel's, somebody else's?
//!
//! The program is what the recorder started, with all that descends from it: `schedlab record -- make` has
//! `make` as its child. A snapshot without init is one of the program alone, and so is its recording.
//!
//! Whoever else is called `schedlab` meanwhile is a stranger, with all children: the recorder is the process that has
//! the threads which empty the buffers.
//!
//! Other recorders leave no snapshot, and fork the command before they record. Such a child bears their name until it
//! calls exec: `perf-exec` with perf. What they fork later is their own, like perf's `addr2line`.

use super::tasks::{Task, Tasks};
use schedlab_trace::{CommId, standard_kernel_thread};
use schedlab_units::TaskId;
use schedlab_workload::derive::{ProcRow, ProcSnapshot};
use std::collections::BTreeSet;

/// Per task of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Threads of the kernel.
    pub kernel: Vec<bool>,
    /// Tasks of the program; `None`: which is the program is not known.
    pub program: Option<Vec<bool>>,
}

/// Programs that record, by the beginning of their name.
const RECORDERS: [&str; 3] = ["schedlab", "perf", "trace-cmd"];
/// What `schedlab record` calls its threads that empty the buffers.
const DRAIN: &str = "schedlab-drain";
/// What perf calls its child until that calls exec.
const PERF_CHILD: &str = "perf-exec";

pub(super) fn whose<'n>(
    tasks: &Tasks,
    snapshot: Option<&ProcSnapshot>,
    name: impl Fn(CommId) -> &'n str,
) -> Whose {
    let drained_by = drained_by(snapshot);
    let is_recorder = |row: Option<&ProcRow>, name: &str| match drained_by.is_empty() {
        true => RECORDERS.iter().any(|recorder| name.starts_with(recorder)),
        false => row.and_then(|row| row.pid).is_some_and(|pid| drained_by.contains(&pid)),
    };
    let list: Vec<_> = tasks.list.iter().filter(|task| task.id.is_workload()).collect();
    let row_of = |tid: i32| snapshot.and_then(|snapshot| snapshot.row(tid));
    let mut whose = Whose::default();
    let mut program: Vec<bool> = Vec::new();
    // tids at the start that are the program's: children of a recorder, and what descends from them
    let mut roots: BTreeSet<i32> = BTreeSet::new();
    for (tid, row) in snapshot.into_iter().flat_map(|snapshot| snapshot.rows()) {
        let mut above = Some((tid, row));
        for _ in 0..64 {
            let Some((_, row)) = above else { break };
            let parent = row.ppid.and_then(|ppid| Some((ppid, row_of(ppid)?)));
            if parent.is_some_and(|(_, row)| is_recorder(Some(row), row.comm.as_deref().unwrap_or_default()))
            {
                roots.insert(tid);
                break;
            }
            above = parent;
        }
    }
    let executed = executed(&list, snapshot, &name);
    let of_some = snapshot.is_some_and(|snapshot| !snapshot.is_empty() && snapshot.row(1).is_none());
    for task in &list {
        let row = row_of(task.tid.0).filter(|_| !task.forked);
        let of_kthreadd = row.is_some_and(|row| row.ppid == Some(2) || row.pid == Some(2));
        let parent = task.parent.map(|parent| parent.index());
        let kernel_parent = parent.is_some_and(|parent| whose.kernel.get(parent) == Some(&true));
        let is_kernel = of_kthreadd
            || kernel_parent
            || (row.is_none() && standard_kernel_thread(name(task.comm)).is_some());
        let of_recorder = executed.is_empty()
            && parent.and_then(|parent| list.get(parent)).is_some_and(|parent| {
                is_recorder(row_of(parent.tid.0).filter(|_| !parent.forked), name(parent.comm))
            });
        let inherited = parent.is_some_and(|parent| program.get(parent) == Some(&true));
        let is_root = !task.forked && (roots.contains(&task.tid.0) || executed.contains(&task.id));
        program.push(!is_kernel && (of_some || is_root || inherited || of_recorder));
        whose.kernel.push(is_kernel);
    }
    whose.program = program.iter().any(|is| *is).then_some(program);
    whose
}

/// The processes of which a snapshot shows the threads that empty the buffers.
fn drained_by(snapshot: Option<&ProcSnapshot>) -> BTreeSet<i32> {
    let rows = snapshot.into_iter().flat_map(|snapshot| snapshot.rows());
    rows.filter(|(_, row)| row.comm.as_deref() == Some(DRAIN)).filter_map(|(_, row)| row.pid).collect()
}

/// Children of a recorder that were there before it recorded, and have called exec since. Where a snapshot says who is
/// whose child, it is asked instead.
fn executed<'n>(
    list: &[&Task],
    snapshot: Option<&ProcSnapshot>,
    name: impl Fn(CommId) -> &'n str,
) -> BTreeSet<TaskId> {
    let called = |is: fn(&str, &str) -> bool| -> BTreeSet<TaskId> {
        let early = list.iter().filter(|task| !task.forked && snapshot.is_none());
        early.filter(|task| is(name(task.first_comm), name(task.comm))).map(|task| task.id).collect()
    };
    let of_perf = called(|first, _| first == PERF_CHILD);
    if !of_perf.is_empty() {
        return of_perf;
    }
    called(|first, last| RECORDERS[1..].contains(&first) && !RECORDERS.contains(&last))
}
