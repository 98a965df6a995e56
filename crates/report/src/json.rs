//! The result of a run as JSON: names are a contract (fields are added, never renamed or removed).
//!
//! `wall_ns` and `kernel_ns` are the only fields that differ between equal runs.

use crate::RunView;
use schedlab_instruments::{Distribution, TaskStats};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// Version of the form.
pub const SCHEMA: u32 = 1;

/// Writes the result of a run as one line of JSON with a line's end.
pub fn json(run: RunView<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, &Run(run)).map_err(std::io::Error::from)?;
    out.write_all(b"\n")
}

struct Run<'a>(RunView<'a>);

impl Serialize for Run<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunView { header, summary, facts } = self.0;
        let system = &summary.system;
        let conservation = &system.conservation;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("sched", &header.sched)?;
        map.serialize_entry("cpus", &header.nr_cpus)?;
        map.serialize_entry("hz", &header.hz)?;
        map.serialize_entry("duration_ns", &header.duration.as_ns())?;
        map.serialize_entry("switches", &system.switches)?;
        map.serialize_entry("migrations", &system.migrations)?;
        map.serialize_entry("wall_ns", &facts.wall_ns)?;
        map.serialize_entry("kernel_ns", &facts.kernel_ns)?;
        map.serialize_entry("dropped", &facts.dropped)?;
        map.serialize_entry("sched_version", &header.sched_version)?;
        map.serialize_entry("params", &Params(&header.params))?;
        map.serialize_entry("workload", &facts.workload)?;
        map.serialize_entry("end", &facts.end)?;
        map.serialize_entry("records", &system.records)?;
        map.serialize_entry("cpu_ns", &system.task_ns)?;
        map.serialize_entry("kernel_thread_ns", &system.kernel_thread_ns)?;
        map.serialize_entry("idle_ns", &system.idle_ns)?;
        distribution(&mut map, "run_delay", &system.run_delay)?;
        distribution(&mut map, "wakeup_latency", &system.wakeup_latency)?;
        map.serialize_entry("waiting_task_ns", &system.waiting_task_ns)?;
        map.serialize_entry("waiting_max", &system.waiting_max)?;
        map.serialize_entry("idle_while_waiting_ns", &conservation.idle_while_waiting_ns)?;
        map.serialize_entry("idle_while_waiting_max_ns", &conservation.longest_ns)?;
        map.serialize_entry("idle_while_waiting_stretches", &conservation.stretches)?;
        map.serialize_entry("idle_while_waiting_unknown_ns", &conservation.unknown_ns)?;
        map.serialize_entry("assignments", &system.assignments)?;
        map.serialize_entry("kernel_thread_assignments", &system.kernel_thread_assignments)?;
        map.serialize_entry("longest_waits", &crate::worst::waits_json(self.0))?;
        map.serialize_entry("idle_while_waiting_longest", &crate::worst::stretches_json(self.0))?;
        map.serialize_entry("warnings", &facts.warnings)?;
        map.serialize_entry("account_differs_ns", &facts.account_differs_ns)?;
        map.serialize_entry("notes", &facts.notes)?;
        if !facts.account.is_empty() {
            map.serialize_entry("scheduler", &account(&facts.account))?;
        }
        if let Some(report) = &facts.jobs {
            map.serialize_entry("misses", &report.jobs.misses())?;
            map.serialize_entry("tardiness_max_ns", &report.jobs.worst_tardiness_ns())?;
            map.serialize_entry("jobs", &crate::jobs::JobsJson { header, report })?;
        }
        map.serialize_entry("per_cpu", &Cpus(self.0))?;
        map.serialize_entry("tasks", &Tasks(self.0))?;
        map.serialize_entry("kernel_threads", &KernelThreads(self.0))?;
        map.end()
    }
}

/// Groups of names with values, whole numbers as numbers; a name that occurs again has a list.
fn account(rows: &[(String, String, String)]) -> BTreeMap<&str, BTreeMap<&str, Value>> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    for (group, name, text) in rows {
        let value = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
        let value = value.unwrap_or_else(|_| Value::from(text.as_str()));
        let names = groups.entry(group).or_default();
        match names.get_mut(name.as_str()) {
            None => drop(names.insert(name, value)),
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    groups
}

/// Sum, mean, median, p99 and maximum: `NAME_ns` is the sum.
pub(crate) fn distribution<M: SerializeMap>(
    map: &mut M,
    name: &str,
    d: &Distribution,
) -> Result<(), M::Error> {
    map.serialize_entry(&format!("{name}_ns"), &d.sum_ns())?;
    map.serialize_entry(&format!("{name}_mean_ns"), &d.mean_ns())?;
    map.serialize_entry(&format!("{name}_p50_ns"), &d.percentile_ns(500))?;
    map.serialize_entry(&format!("{name}_p99_ns"), &d.percentile_ns(990))?;
    map.serialize_entry(&format!("{name}_max_ns"), &d.max_ns())
}

struct Params<'a>(&'a [(String, String)]);

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

struct Cpus<'a>(RunView<'a>);

impl Serialize for Cpus<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Cpu {
            cpu: usize,
            busy_ns: u64,
            kernel_thread_ns: u64,
            idle_ns: u64,
            switches: u64,
            waiting_task_ns: u64,
            waiting_max: u32,
        }
        serializer.collect_seq(self.0.summary.cpus.iter().enumerate().map(|(cpu, stats)| Cpu {
            cpu,
            busy_ns: stats.busy_ns,
            kernel_thread_ns: stats.kernel_thread_ns,
            idle_ns: stats.idle_ns,
            switches: stats.switches,
            waiting_task_ns: stats.waiting_task_ns,
            waiting_max: stats.waiting_max,
        }))
    }
}

struct Tasks<'a>(RunView<'a>);

impl Serialize for Tasks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunView { header, summary, .. } = self.0;
        let mut list = serializer.serialize_seq(Some(header.tasks.len()))?;
        for (row, (task, stats)) in header.tasks.iter().zip(&summary.tasks).enumerate() {
            let (nice, policy) = (task.params.nice.get(), task.params.policy.name());
            let finished = self.0.finished(row);
            list.serialize_element(&Task {
                id: row as u32,
                pid: task.pid,
                name: &task.name,
                nice,
                policy,
                stats,
                finished: Some(finished),
            })?;
        }
        list.end()
    }
}

struct KernelThreads<'a>(RunView<'a>);

impl Serialize for KernelThreads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunView { header, summary, .. } = self.0;
        serializer.collect_seq(header.kernel_threads.iter().zip(&summary.kernel_threads).map(
            |(thread, stats)| Task {
                id: stats.id.0,
                pid: thread.pid,
                name: &thread.name,
                nice: 0,
                policy: "kernel",
                stats,
                finished: None,
            },
        ))
    }
}

struct Task<'a> {
    id: u32,
    pid: u32,
    name: &'a str,
    nice: i32,
    policy: &'a str,
    stats: &'a TaskStats,
    /// `None` for a kernel thread, which is never done; neither nice nor policy is known of those.
    finished: Option<bool>,
}

impl Serialize for Task<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stats = self.stats;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("pid", &self.pid)?;
        map.serialize_entry("name", self.name)?;
        if self.finished.is_some() {
            map.serialize_entry("nice", &self.nice)?;
            map.serialize_entry("policy", self.policy)?;
        }
        map.serialize_entry("cpu_ns", &stats.cpu_ns)?;
        distribution(&mut map, "run_delay", &stats.run_delay)?;
        map.serialize_entry("preempted_wait_ns", &stats.preempted_wait_ns)?;
        map.serialize_entry("new_wait_ns", &stats.new_wait_ns)?;
        distribution(&mut map, "wakeup_latency", &stats.wakeup_latency)?;
        map.serialize_entry("blocked_ns", &stats.blocked_ns)?;
        map.serialize_entry("wakeups", &stats.wakeups)?;
        map.serialize_entry("runs", &stats.runs)?;
        map.serialize_entry("switches_voluntary", &stats.switches_voluntary)?;
        map.serialize_entry("switches_involuntary", &stats.switches_involuntary)?;
        map.serialize_entry("yields", &stats.yields)?;
        map.serialize_entry("migrations", &stats.migrations)?;
        map.serialize_entry("assignments", &stats.assignments)?;
        map.serialize_entry("first_ns", &stats.first_ns)?;
        map.serialize_entry("last_ns", &stats.last_ns)?;
        if let Some(finished) = self.finished {
            map.serialize_entry("finished", &finished)?;
        }
        map.end()
    }
}
