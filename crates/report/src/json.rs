//! The result of a run as JSON: names are a contract (fields are added, never renamed or removed).
//!
//! `wall_ns` and `kernel_ns` are the only fields that differ between equal runs; with `--reproducible` they are 0.
//!
//! A number that the log's observer could not know is `null`, and the object has a field `unknown` that says why:
//!
//! ```json
//! "run_delay_ns": null, ...,
//! "unknown": [{"field": "run_delay_ns", "why": "hidden from the poller: why tasks stop", "seen": 0}, ...]
//! ```
//!
//! `seen` is what was seen of it. Logs that hide nothing have neither `null` there nor `unknown`.

use crate::RunView;
use schedlab_instruments::Quantity::{
    Assignments, Blocked, CpuTime, Exit, Idle, IdleWhileWaiting, Queue, Stops, Waiting, Wakeups,
};
use schedlab_instruments::{CpuStats, Distribution, KnownTasks, Summary, TaskStats, WhyUnknown};
use schedlab_log::{Fact, ObservedBy};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// Version of the form.
pub const SCHEMA: u32 = 1;

/// Writes the result of a run as one line of JSON with a line's end.
pub fn json(run: RunView<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    json_with(run, &[], out)
}

/// As [`json`], with fields of the caller's own behind the run's.
pub fn json_with(run: RunView<'_>, own: &[(&str, Value)], out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, &Run(run, own)).map_err(std::io::Error::from)?;
    out.write_all(b"\n")
}

struct Run<'a>(RunView<'a>, &'a [(&'a str, Value)]);

impl Serialize for Run<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunView { header, summary, facts } = self.0;
        let system = &summary.system;
        let conservation = &system.conservation;
        let why = |what| summary.why_unknown(what);
        let (cpu_time, idle, queue) = (why(CpuTime), why(Idle), why(Queue));
        let conserved = why(IdleWhileWaiting);
        let mut unknown = Unknowns::default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("changed_experiment", &Changed(&facts.changed_experiment))?;
        map.serialize_entry("sched", &header.sched)?;
        map.serialize_entry("cpus", &header.nr_cpus)?;
        map.serialize_entry("hz", &header.hz)?;
        map.serialize_entry("duration_ns", &header.duration.as_ns())?;
        map.serialize_entry("seed", &facts.seed)?;
        unknown.number(&mut map, "switches", system.switches, idle)?;
        unknown.number(&mut map, "migrations", system.migrations, cpu_time)?;
        map.serialize_entry("wall_ns", &facts.wall_ns)?;
        map.serialize_entry("kernel_ns", &facts.kernel_ns)?;
        map.serialize_entry("dropped", &facts.dropped)?;
        map.serialize_entry("sched_version", &header.sched_version)?;
        map.serialize_entry("params", &Params(&header.params))?;
        map.serialize_entry("workload", &facts.workload)?;
        map.serialize_entry("end", &facts.end)?;
        map.serialize_entry("records", &system.records)?;
        unknown.number(&mut map, "cpu_ns", system.task_ns, cpu_time)?;
        unknown.number(&mut map, "kernel_thread_ns", system.kernel_thread_ns, idle.or(cpu_time))?;
        unknown.number(&mut map, "idle_ns", system.idle_ns, idle)?;
        unknown.distribution(&mut map, "run_delay", &system.run_delay, why(Waiting))?;
        unknown.distribution(&mut map, "wakeup_latency", &system.wakeup_latency, why(Waiting))?;
        if let Some(known) = summary.known_tasks() {
            map.serialize_entry("known_tasks", &Known(known))?;
        }
        unknown.number(&mut map, "waiting_task_ns", system.waiting_task_ns, queue)?;
        unknown.number(&mut map, "waiting_max", system.waiting_max, queue)?;
        unknown.number(&mut map, "idle_while_waiting_ns", conservation.idle_while_waiting_ns, conserved)?;
        unknown.number(&mut map, "idle_while_waiting_max_ns", conservation.longest_ns, conserved)?;
        unknown.number(&mut map, "idle_while_waiting_stretches", conservation.stretches, conserved)?;
        map.serialize_entry("idle_while_waiting_unknown_ns", &conservation.unknown_ns)?;
        unknown.number(&mut map, "assignments", system.assignments, why(Assignments))?;
        unknown.number(
            &mut map,
            "kernel_thread_assignments",
            system.kernel_thread_assignments,
            why(Assignments).or(idle),
        )?;
        unknown.list(&mut map, "longest_waits", crate::worst::waits_json(self.0), why(Waiting))?;
        let stretches = crate::worst::stretches_json(self.0);
        unknown.list(&mut map, "idle_while_waiting_longest", stretches, conserved)?;
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
        if header.observer != ObservedBy::Machine || !header.hidden.is_nothing() {
            map.serialize_entry("observer", header.observer.name())?;
            map.serialize_entry("hidden", &header.hidden.iter().map(Fact::name).collect::<Vec<_>>())?;
        }
        unknown.finish(&mut map)?;
        map.serialize_entry("per_cpu", &Cpus(self.0))?;
        map.serialize_entry("tasks", &Tasks(self.0))?;
        map.serialize_entry("kernel_threads", &KernelThreads(self.0))?;
        self.1.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// A list: what, and how many times.
struct Changed<'a>(&'a BTreeMap<String, u64>);

impl Serialize for Changed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Change<'a> {
            what: &'a str,
            times: u64,
        }
        serializer.collect_seq(self.0.iter().map(|(what, times)| Change { what, times: *times }))
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

/// Numbers that are not known: `null` in their place, and in the end a list of them, with the reason and what was seen.
#[derive(Default)]
struct Unknowns(Vec<Value>);

impl Unknowns {
    fn number<M: SerializeMap>(
        &mut self,
        map: &mut M,
        name: &str,
        seen: impl Serialize,
        why: Option<WhyUnknown>,
    ) -> Result<(), M::Error> {
        let Some(why) = why else { return map.serialize_entry(name, &seen) };
        self.0.push(json!({ "field": name, "why": why.to_string(), "seen": seen }));
        map.serialize_entry(name, &Value::Null)
    }

    /// A list that may lack entries: it is `null`, and nothing of it is repeated.
    fn list<M: SerializeMap>(
        &mut self,
        map: &mut M,
        name: &str,
        list: impl Serialize,
        why: Option<WhyUnknown>,
    ) -> Result<(), M::Error> {
        let Some(why) = why else { return map.serialize_entry(name, &list) };
        self.0.push(json!({ "field": name, "why": why.to_string() }));
        map.serialize_entry(name, &Value::Null)
    }

    /// Sum, mean, median, p99 and maximum: `NAME_ns` is the sum.
    fn distribution<M: SerializeMap>(
        &mut self,
        map: &mut M,
        name: &str,
        d: &Distribution,
        why: Option<WhyUnknown>,
    ) -> Result<(), M::Error> {
        self.number(map, &format!("{name}_ns"), d.sum_ns(), why)?;
        self.number(map, &format!("{name}_mean_ns"), d.mean_ns(), why)?;
        self.number(map, &format!("{name}_p50_ns"), d.percentile_ns(500), why)?;
        self.number(map, &format!("{name}_p99_ns"), d.percentile_ns(990), why)?;
        self.number(map, &format!("{name}_max_ns"), d.max_ns(), why)
    }

    /// `unknown`: the list, where there is anything in it.
    fn finish<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error> {
        if self.0.is_empty() { Ok(()) } else { map.serialize_entry("unknown", &self.0) }
    }
}

/// Sum, mean, median, p99 and maximum: `NAME_ns` is the sum.
pub(crate) fn distribution<M: SerializeMap>(
    map: &mut M,
    name: &str,
    d: &Distribution,
) -> Result<(), M::Error> {
    Unknowns::default().distribution(map, name, d, None)
}

struct Known(KnownTasks);

impl Serialize for Known {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let KnownTasks { tasks, of, sum } = &self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tasks", tasks)?;
        map.serialize_entry("of", of)?;
        distribution(&mut map, "run_delay", &sum.run_delay)?;
        distribution(&mut map, "wakeup_latency", &sum.wakeup_latency)?;
        map.serialize_entry("cpu_ns", &sum.cpu_ns)?;
        map.serialize_entry("switches_voluntary", &sum.switches_voluntary)?;
        map.serialize_entry("switches_involuntary", &sum.switches_involuntary)?;
        map.serialize_entry("migrations", &sum.migrations)?;
        map.end()
    }
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
        let summary = self.0.summary;
        serializer.collect_seq(summary.cpus.iter().enumerate().map(|(cpu, stats)| Cpu {
            cpu,
            stats,
            summary,
        }))
    }
}

struct Cpu<'a> {
    cpu: usize,
    stats: &'a CpuStats,
    summary: &'a Summary,
}

impl Serialize for Cpu<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stats = self.stats;
        let [idle, queue] = [Idle, Queue].map(|what| self.summary.cpu_why_unknown(stats, what));
        let mut unknown = Unknowns::default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("cpu", &self.cpu)?;
        unknown.number(&mut map, "busy_ns", stats.busy_ns, idle)?;
        unknown.number(&mut map, "kernel_thread_ns", stats.kernel_thread_ns, idle)?;
        unknown.number(&mut map, "idle_ns", stats.idle_ns, idle)?;
        unknown.number(&mut map, "switches", stats.switches, idle)?;
        unknown.number(&mut map, "waiting_task_ns", stats.waiting_task_ns, queue)?;
        unknown.number(&mut map, "waiting_max", stats.waiting_max, queue)?;
        unknown.finish(&mut map)?;
        map.end()
    }
}

struct Tasks<'a>(RunView<'a>);

impl Serialize for Tasks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunView { header, summary, facts } = self.0;
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
                summary,
                finished: Some(finished),
                is_finished_known: facts.finished.is_some(),
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
                summary,
                finished: None,
                is_finished_known: true,
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
    summary: &'a Summary,
    /// `None` for a kernel thread, which is never done; neither nice nor policy is known of those.
    finished: Option<bool>,
    /// The workload's own account says so, not the log.
    is_finished_known: bool,
}

impl Serialize for Task<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stats = self.stats;
        let why = |what| self.summary.task_why_unknown(stats, what);
        let (cpu_time, waiting, stops) = (why(CpuTime), why(Waiting), why(Stops));
        let mut unknown = Unknowns::default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("pid", &self.pid)?;
        map.serialize_entry("name", self.name)?;
        if self.finished.is_some() {
            map.serialize_entry("nice", &self.nice)?;
            map.serialize_entry("policy", self.policy)?;
        }
        unknown.number(&mut map, "cpu_ns", stats.cpu_ns, cpu_time)?;
        unknown.distribution(&mut map, "run_delay", &stats.run_delay, waiting)?;
        unknown.number(&mut map, "preempted_wait_ns", stats.preempted_wait_ns, waiting)?;
        unknown.number(&mut map, "new_wait_ns", stats.new_wait_ns, waiting)?;
        unknown.distribution(&mut map, "wakeup_latency", &stats.wakeup_latency, waiting)?;
        unknown.number(&mut map, "blocked_ns", stats.blocked_ns, why(Blocked))?;
        unknown.number(&mut map, "wakeups", stats.wakeups, why(Wakeups))?;
        unknown.number(&mut map, "runs", stats.runs, cpu_time)?;
        unknown.number(&mut map, "switches_voluntary", stats.switches_voluntary, stops)?;
        unknown.number(&mut map, "switches_involuntary", stats.switches_involuntary, stops)?;
        unknown.number(&mut map, "yields", stats.yields, stops)?;
        unknown.number(&mut map, "migrations", stats.migrations, cpu_time)?;
        unknown.number(&mut map, "assignments", stats.assignments, why(Assignments))?;
        unknown.number(&mut map, "first_ns", stats.first_ns, waiting)?;
        unknown.number(&mut map, "last_ns", stats.last_ns, waiting)?;
        if let Some(finished) = self.finished {
            unknown.number(&mut map, "finished", finished, why(Exit).filter(|_| !self.is_finished_known))?;
        }
        unknown.finish(&mut map)?;
        map.end()
    }
}
