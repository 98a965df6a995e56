//! The header as JSON, for Arrow's schema metadata. Same names as in the text form.

use crate::header::checked_cpus;
use crate::{Hidden, KernelThread, LogGroup, LogHeader, LogTask, ObservedBy};
use schedlab_units::{CpuSet, DeadlineParams, Nice, SchedParams, Span, TaskId};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Header {
    sched: String,
    sched_version: String,
    cpus: u32,
    hz: u32,
    duration_ns: u64,
    params: Vec<(String, String)>,
    tasks: Vec<Task>,
    kernel_threads: Vec<Thread>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
    /// Who observed; none: the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observer: Option<String>,
    /// What is hidden from the observer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Task {
    id: u32,
    pid: u32,
    name: String,
    policy: String,
    nice: i32,
    #[serde(default, skip_serializing_if = "is_zero")]
    rt_priority: u8,
    /// Runtime, deadline, period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ns: Option<[u64; 3]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    affinity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Group {
    path: String,
    /// Quota, period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_ns: Option<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpuset: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Thread {
    /// As in the columns `task` and `other`.
    id: u32,
    pid: u32,
    name: String,
}

fn is_zero(n: &u8) -> bool {
    *n == 0
}

pub(crate) fn to_json(header: &LogHeader) -> String {
    let tasks = header.tasks.iter().enumerate().map(|(id, task)| Task {
        id: id as u32,
        pid: task.pid,
        name: task.name.clone(),
        policy: task.params.policy.name().to_string(),
        nice: task.params.nice.get(),
        rt_priority: task.params.rt_priority,
        deadline_ns: task.params.deadline.map(|d| [d.runtime, d.deadline, d.period].map(Span::as_ns)),
        affinity: task.affinity.as_ref().map(ToString::to_string),
        parent: task.parent.map(|parent| parent.0),
        group: task.group,
    });
    let groups = header.groups.iter().map(|group| Group {
        path: group.path.clone(),
        max_ns: group.max.map(|(quota, period)| [quota.as_ns(), period.as_ns()]),
        cpuset: group.cpuset.as_ref().map(ToString::to_string),
    });
    let threads = header.kernel_threads.iter().map(|thread| Thread {
        id: TaskId::kernel_thread(thread.pid).0,
        pid: thread.pid,
        name: thread.name.clone(),
    });
    let header = Header {
        sched: header.sched.clone(),
        sched_version: header.sched_version.clone(),
        cpus: header.nr_cpus,
        hz: header.hz,
        duration_ns: header.duration.as_ns(),
        params: header.params.clone(),
        tasks: tasks.collect(),
        kernel_threads: threads.collect(),
        groups: groups.collect(),
        observer: (header.observer != ObservedBy::default()).then(|| header.observer.to_string()),
        hidden: header.hidden.iter().map(|fact| fact.name().to_string()).collect(),
    };
    serde_json::to_string(&header).expect("strings and numbers are always JSON")
}

fn cpus(list: String) -> Result<CpuSet, String> {
    list.parse().map_err(|error: schedlab_units::ParseCpuSetError| error.to_string())
}

pub(crate) fn from_json(json: &str) -> Result<LogHeader, String> {
    let header: Header = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let nr_groups = header.groups.len();
    let task = |(index, task): (usize, Task)| {
        if let Some(group) = task.group.filter(|group| *group as usize >= nr_groups) {
            return Err(format!("task {} is in group {group} of {nr_groups}", task.id));
        }
        if task.id as usize != index {
            return Err(format!("task {} stands in row {index}", task.id));
        }
        let deadline = task.deadline_ns.map(|d| d.map(Span::from_ns));
        Ok(LogTask {
            pid: task.pid,
            params: SchedParams {
                policy: task.policy.parse()?,
                nice: Nice::new(task.nice).map_err(|error| error.to_string())?,
                rt_priority: task.rt_priority,
                deadline: deadline.map(|[runtime, deadline, period]| DeadlineParams {
                    runtime,
                    deadline,
                    period,
                }),
            },
            affinity: task.affinity.map(cpus).transpose()?,
            parent: task.parent.map(TaskId),
            group: task.group,
            name: task.name,
        })
    };
    let group = |group: Group| -> Result<LogGroup, String> {
        let max = group.max_ns.map(|[quota, period]| (Span::from_ns(quota), Span::from_ns(period)));
        Ok(LogGroup { path: group.path, max, cpuset: group.cpuset.map(cpus).transpose()? })
    };
    Ok(LogHeader {
        sched: header.sched,
        sched_version: header.sched_version,
        nr_cpus: checked_cpus(header.cpus)?,
        hz: header.hz,
        duration: Span::from_ns(header.duration_ns),
        tasks: header.tasks.into_iter().enumerate().map(task).collect::<Result<_, String>>()?,
        kernel_threads: header
            .kernel_threads
            .into_iter()
            .map(|t| KernelThread { pid: t.pid, name: t.name })
            .collect(),
        params: header.params,
        groups: header.groups.into_iter().map(group).collect::<Result<_, String>>()?,
        observer: header.observer.map_or(Ok(ObservedBy::default()), |name| name.parse())?,
        hidden: header.hidden.iter().map(|name| name.parse()).collect::<Result<Hidden, String>>()?,
    })
}
