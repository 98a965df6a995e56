//! The snapshot beside an exported trace: what no event tells about the tasks that were there at the start.

use super::TraceDatOptions;
use crate::order::thread_ids;
use schedlab_log::{LogError, LogHeader};
use schedlab_stdx::{aside, csv::field};
use schedlab_units::TaskId;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// What the log does not hold of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Whether it was a kernel thread on the recorded system.
    pub kernel_thread: bool,
    /// Path of its control group; none: the root.
    pub cgroup: Option<String>,
    /// The group's cpu.weight.
    pub cpu_weight: Option<u32>,
    /// The group's cpu.max: quota and period in us.
    pub cpu_max_us: Option<(u64, u64)>,
    /// The group's CPUs.
    pub cpuset: Option<String>,
}

const HEADER: &str = "pid,tid,comm,policy,nice,rt_priority,affinity,cgroup,cpu_weight,cpu_max,cpuset,ppid,dl_runtime_ns,dl_deadline_ns,dl_period_ns";
/// kthreadd, the parent of all kernel threads; init, of all others.
const KTHREADD: u32 = 2;
const INIT: u32 = 1;

pub(super) fn write(
    path: &Path,
    header: &LogHeader,
    forked: &BTreeSet<TaskId>,
    options: &TraceDatOptions,
) -> Result<(), LogError> {
    let tids = thread_ids(header);
    let all_cpus = format!("0-{}", header.nr_cpus.saturating_sub(1));
    let mut text = format!("{HEADER}\n");
    let none = Extra::default();
    for (row, task) in header.tasks.iter().enumerate() {
        if forked.contains(&TaskId(row as u32)) {
            continue;
        }
        let extra = options.extra.get(row).unwrap_or(&none);
        let p = task.params;
        let affinity = task.affinity.as_ref().map_or(all_cpus.clone(), ToString::to_string);
        let parent = task.parent.and_then(|parent| tids.get(parent.0 as usize)).copied();
        let parent = if extra.kernel_thread { KTHREADD } else { parent.unwrap_or(INIT) };
        let number = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
        let max = extra.cpu_max_us.map_or(String::new(), |(quota, period)| format!("{quota} {period}"));
        let deadline = p.deadline.map(|d| [d.runtime, d.deadline, d.period].map(|span| span.as_ns()));
        let [runtime, relative, period] = [0, 1, 2].map(|i| number(deadline.map(|d| d[i])));
        let tid = tids[row];
        let _ = writeln!(
            text,
            "{tid},{tid},{},{},{},{},{},{},{},{max},{},{parent},{runtime},{relative},{period}",
            field(&task.name),
            p.policy,
            p.nice,
            p.rt_priority,
            field(&affinity),
            field(extra.cgroup.as_deref().unwrap_or("/")),
            number(extra.cpu_weight.map(u64::from)),
            field(extra.cpuset.as_deref().unwrap_or_default()),
        );
    }
    if !options.tasks_only {
        for (thread, tid) in header.kernel_threads.iter().zip(&tids[header.tasks.len()..]) {
            let name = field(&thread.name);
            let _ = writeln!(text, "{tid},{tid},{name},normal,0,0,,/,,,,{KTHREADD},,,");
        }
    }
    aside::write(path, text.as_bytes()).map_err(LogError::io("write", path))
}
