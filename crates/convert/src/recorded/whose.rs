//! Whose are the tasks of a recording: the recorded program's, the kernel's, somebody else's?
//!
//! The program is what the recorder started, with all that descends from it: `schedlab record -- make` has
//! `make` as its child. A snapshot without init is one of the program alone, and so is its recording.

use super::tasks::Tasks;
use schedlab_trace::standard_kernel_thread;
use schedlab_workload::derive::ProcSnapshot;
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

pub(super) fn whose<'n>(
    tasks: &Tasks,
    snapshot: Option<&ProcSnapshot>,
    name: impl Fn(schedlab_trace::CommId) -> &'n str,
) -> Whose {
    let is_recorder = |name: &str| RECORDERS.iter().any(|recorder| name.starts_with(recorder));
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
            if parent.is_some_and(|(_, parent)| parent.comm.as_deref().is_some_and(is_recorder)) {
                roots.insert(tid);
                break;
            }
            above = parent;
        }
    }
    let of_some = snapshot.is_some_and(|snapshot| !snapshot.is_empty() && snapshot.row(1).is_none());
    for task in &list {
        let row = row_of(task.tid.0).filter(|_| !task.forked);
        let of_kthreadd = row.is_some_and(|row| row.ppid == Some(2) || row.pid == Some(2));
        let parent = task.parent.map(|parent| parent.index());
        let kernel_parent = parent.is_some_and(|parent| whose.kernel.get(parent) == Some(&true));
        let is_kernel = of_kthreadd
            || kernel_parent
            || (row.is_none() && standard_kernel_thread(name(task.comm)).is_some());
        let of_recorder =
            parent.and_then(|parent| list.get(parent)).is_some_and(|task| is_recorder(name(task.comm)));
        let inherited = parent.is_some_and(|parent| program.get(parent) == Some(&true));
        let is_root = !task.forked && roots.contains(&task.tid.0);
        program.push(!is_kernel && (of_some || is_root || inherited || of_recorder));
        whose.kernel.push(is_kernel);
    }
    whose.program = program.iter().any(|is| *is).then_some(program);
    whose
}
