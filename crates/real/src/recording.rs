//! How does a guest's run become a recording? As `schedlab record` would make one of it: the trace from time 0 to the
//! end, and a table of the tasks beside it.
//!
//! ```text
//!   the guest's trace   boot ... | marker "start" | the workload | marker "end"
//!   NAME.dat                     |<------------------------------>|
//!   NAME.proc.csv       init, with the workload's tasks as its children; threads of the kernel
//! ```
//!
//! Where tasks wake each other, the recording has their [`notes`](crate::notes), too.
//!
//! Every command that takes a recording takes it, and finds the kernel's own events in it: what the simulation of
//! that very kernel is to be compared with ([`fidelity`](../../../docs/fidelity.md)).

use crate::convert::{Converted, trace_meta};
use crate::frames::Frames;
use crate::notes::Notes;
use crate::program::FIRST_PID;
use crate::{Options, RealError};
use schedlab_host::cgroup::CgroupCpu;
use schedlab_host::{GroupTable, Snapshot, SnapshotRow};
use schedlab_trace::write::{TraceDatWriter, WriteOptions};
use schedlab_units::CpuSet;
use schedlab_workload::{Birth, Cgroup, InitState, Task, Workload};
use std::path::Path;

/// Init of the guest is the program that records: its children are the recorded ones.
const INIT: (i32, &str) = (1, "schedlab-guest");
/// The parent of all kernel threads.
const KTHREADD: (i32, &str) = (2, "kthreadd");

/// Writes trace and tables.
pub(crate) fn write(
    path: &Path,
    (frames, notes): (&Frames<'_>, Option<&Notes>),
    workload: &Workload,
    options: &Options,
    run: &Converted,
) -> Result<(), RealError> {
    let (from_ns, to_ns) = (run.start_ns, run.start_ns + run.duration_ns);
    let mut writer = TraceDatWriter::create(path, WriteOptions::default())?;
    let silent = Notes::default();
    for (cpu, pages) in &frames.pages {
        let is_inside = |time_ns: u64| (from_ns..=to_ns).contains(&time_ns);
        writer.append_pages(*cpu, &notes.unwrap_or(&silent).pages(pages, is_inside)?)?;
    }
    writer.finish(&trace_meta(frames, notes, options)?)?;
    snapshot(workload, options, run).write(&Snapshot::path_beside(path))?;
    Ok(())
}

/// The tasks that there are at time 0.
fn snapshot(workload: &Workload, options: &Options, run: &Converted) -> Snapshot {
    let row = |pid: i32, name: &str, ppid: i32| SnapshotRow {
        pid,
        tid: pid,
        comm: name.to_string(),
        ppid: Some(ppid),
        ..SnapshotRow::default()
    };
    let mut rows = vec![row(INIT.0, INIT.1, 0), row(KTHREADD.0, KTHREADD.1, 0)];
    let is_listed = |pid: u32| pid == INIT.0 as u32 || pid == KTHREADD.0 as u32;
    let threads = run.kernel_threads.iter().filter(|thread| !is_listed(thread.pid) && thread.name != HOLDER);
    rows.extend(threads.map(|thread| row(thread.pid as i32, &thread.name, KTHREADD.0)));
    for (index, task) in (0..).zip(&workload.tasks) {
        if let Birth::Init { state, .. } = task.birth {
            let row = row(FIRST_PID as i32 + index, &task.name, INIT.0);
            rows.push(of_task(row, workload, task, state, options));
        }
    }
    rows.sort_by_key(|row| row.tid);
    let groups = workload.cgroups.iter().map(|group| (group.path.clone(), of_group(group))).collect();
    Snapshot { rows, groups: GroupTable { rows: groups } }
}

/// What keeps CPUs from running the workload before time 0 (`hold()` in `init.c`).
const HOLDER: &str = "holder";

fn of_task(
    row: SnapshotRow,
    workload: &Workload,
    task: &Task,
    state: InitState,
    options: &Options,
) -> SnapshotRow {
    let params = workload.inherited(task, |task| task.params).unwrap_or_default();
    let affinity = workload.inherited(task, |task| task.affinity.clone());
    let affinity = affinity.unwrap_or_else(|| CpuSet::first(options.cpus));
    let group = workload.inherited(task, |task| task.cgroup);
    let group = group.and_then(|group| workload.cgroups.get(group.0 as usize));
    SnapshotRow {
        policy: Some(params.policy.to_string()),
        nice: Some(params.nice.get()),
        rt_priority: Some(params.rt_priority.into()),
        affinity: Some(affinity.to_string()),
        cgroup: group.map_or(CgroupCpu { path: Some("/".to_string()), ..CgroupCpu::default() }, of_group),
        state: Some(if state == InitState::Blocked { 'S' } else { 'R' }),
        deadline_ns: params
            .deadline
            .map(|deadline| (deadline.runtime.as_ns(), deadline.deadline.as_ns(), deadline.period.as_ns())),
        ..row
    }
}

fn of_group(group: &Cgroup) -> CgroupCpu {
    let max = |max: schedlab_workload::CpuMax| {
        format!("{} {}", max.quota.as_ns() / 1000, max.period.as_ns() / 1000)
    };
    CgroupCpu {
        path: Some(group.path.clone()),
        weight: group.weight,
        max: group.max.map(max),
        cpuset: group.cpuset.as_ref().map(ToString::to_string),
    }
}
