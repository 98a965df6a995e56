//! One self-contained file with pictures first: CPU timeline, distribution of waits, tables. Opens offline,
//! light and dark.
//!
//! Runs stand side by side: a comparison on top if there are several, colours by name are the same in all. The page is
//! `assets/report.html` with style, script and data put in; the data is JSON, with what is large packed in base64:
//!
//! * `cells`: per CPU and bucket 1 + 2 x [`CELL_GROUPS`] bytes: busy, then group and share of the groups with
//!   the most time.
//! * `runs` of a window: varints; per CPU the number of runs, then for each run the gap to the previous run's
//!   end, its length, the task's row, `stop + 8 x cause`, and if there is a cause the time waited.

use crate::groups::Group;
use crate::report::RunReport;
use crate::timeline::{CELL_GROUPS, Window};
use schedlab_instruments::{Distribution, Quantity, WaitCause, WhyUnknown};
use schedlab_log::{LogError, PrevState};
use schedlab_stdx::aside;
use schedlab_stdx::escape::{html as escape, visible};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// Tasks in the table: those with the most CPU time and those with the longest waits.
const TASKS_BY_CPU: usize = 1000;
const TASKS_BY_DELAY: usize = 500;
/// Groups in table and picture; a byte holds their number, the last value stands for all others.
const GROUPS_MAX: usize = 254;
const OTHER_GROUP: u8 = 255;

/// Writes the report of one or several runs; the file appears when it is complete.
pub fn html(path: &Path, title: &str, runs: &[RunReport]) -> Result<(), LogError> {
    aside::with(path, |error| error, |out| write_html(title, runs, out)).map_err(LogError::io("write", path))
}

/// Writes the report of one or several runs.
pub fn write_html(title: &str, runs: &[RunReport], out: &mut dyn Write) -> std::io::Result<()> {
    let runs: Vec<Value> = runs.iter().map(run).collect();
    let mut data = json!({ "title": title, "version": env!("CARGO_PKG_VERSION"), "runs": runs });
    make_visible(&mut data);
    // inside <script> only '<' could end the element or begin a comment
    let data = data.to_string().replace('<', "\\u003c");
    let page = include_str!("../assets/report.html");
    for (n, part) in page.split("@@").enumerate() {
        match (n % 2, part) {
            (0, text) => out.write_all(text.as_bytes())?,
            (_, "TITLE") => out.write_all(escape(title).as_bytes())?,
            (_, "STYLE") => out.write_all(include_bytes!("../assets/report.css"))?,
            (_, "SCRIPT") => out.write_all(include_bytes!("../assets/report.js"))?,
            (_, "DATA") => out.write_all(data.as_bytes())?,
            (_, other) => unreachable!("report.html has no place named {other}"),
        }
    }
    out.flush()
}

/// Makes every text within a value [`visible`]: names come from traces.
fn make_visible(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = visible(text) {
                *text = shown;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_visible),
        Value::Object(fields) => fields.values_mut().for_each(make_visible),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn run(run: &RunReport) -> Value {
    let (header, summary, facts) = (&run.header, &run.summary, &run.facts);
    let system = &summary.system;
    let conservation = &system.conservation;
    let all_stats = summary.tasks.iter().chain(&summary.kernel_threads);
    let why = |what| summary.why_unknown(what);
    let (cpu_time, idle, queue) = (why(Quantity::CpuTime), why(Quantity::Idle), why(Quantity::Queue));
    let waiting = why(Quantity::Waiting);
    let idle_while_waiting =
        [conservation.idle_while_waiting_ns, conservation.longest_ns, conservation.stretches]
            .map(|n| known(n, why(Quantity::IdleWhileWaiting)));
    let assignments =
        [system.assignments, system.kernel_thread_assignments].map(|n| known(n, why(Quantity::Assignments)));
    let mut data = json!({
        "sched": header.sched, "sched_version": header.sched_version, "workload": facts.workload,
        "cpus": header.nr_cpus, "hz": header.hz, "duration_ns": summary.duration_ns,
        "params": header.params, "end": facts.end, "command": facts.command,
        "wall_ns": facts.wall_ns, "kernel_ns": facts.kernel_ns,
        "changed_experiment": facts.changed_experiment, "changed_title": crate::terminal::CHANGED,
        "dropped": facts.dropped, "warnings": facts.warnings, "notes": facts.notes,
        "next": facts.next_steps.iter().map(|step| json!([step.what, step.command])).collect::<Vec<_>>(),
        "records": system.records, "switches": known(system.switches, idle),
        "migrations": known(system.migrations, cpu_time),
        "task_ns": known(system.task_ns, cpu_time),
        "kernel_thread_ns": known(system.kernel_thread_ns, idle.or(cpu_time)),
        "idle_ns": known(system.idle_ns, idle),
        "waiting_task_ns": known(system.waiting_task_ns, queue), "waiting_max": known(system.waiting_max, queue),
        "idle_while_waiting": idle_while_waiting,
        "run_delay": distribution(&system.run_delay, waiting),
        "wakeup_latency": distribution(&system.wakeup_latency, waiting),
        "known_tasks": run.known_tasks.as_ref().map(|seen| json!({
            "text": crate::worst::known_text(run.view(), seen),
            "run_delay": distribution(&seen.sum.run_delay, None),
            "wakeup_latency": distribution(&seen.sum.wakeup_latency, None),
        })),
        "run_delay_bins": if waiting.is_some() { Vec::new() } else { bins(&system.run_delay) },
        "wakeup_latency_bins": if waiting.is_some() { Vec::new() } else { bins(&system.wakeup_latency) },
        "per_cpu": summary.cpus.iter().map(|cpu| {
            let [idle, queue] = [Quantity::Idle, Quantity::Queue].map(|what| summary.cpu_why_unknown(cpu, what));
            let times = [cpu.busy_ns, cpu.kernel_thread_ns, cpu.idle_ns, cpu.switches].map(|n| known(n, idle));
            let queues = [cpu.waiting_task_ns, cpu.waiting_max.into()].map(|n| known(n, queue));
            times.into_iter().chain(queues).collect::<Value>()
        }).collect::<Vec<_>>(),
        "groups": run.groups.list.iter().take(GROUPS_MAX).map(|group| group_row(run, group)).collect::<Vec<_>>(),
        "nr_groups": run.groups.list.len(),
        // every task, for the timeline: a task's name is its group's
        "pids": header.tasks.iter().map(|task| task.pid).collect::<Vec<_>>(),
        "task_groups": run.groups.of_task.iter().map(|group| group_byte(*group)).collect::<Vec<_>>(),
        "rare_names": rare_names(run),
        "threads": header.kernel_threads.iter().zip(&run.groups.of_kernel_thread).map(|(thread, group)| {
            json!([thread.pid, thread.name, group_byte(*group)])
        }).collect::<Vec<_>>(),
        "runs_total": all_stats.map(|stats| stats.runs).sum::<u64>(),
        "tasks": tasks(run),
        "waits": crate::worst::waits_page(run),
        "stretches": crate::worst::stretches_page(run),
        "assignments": assignments,
        "unknown": crate::worst::unknown_text(summary),
        "jobs": run.facts.jobs.as_ref().map(crate::jobs::page),
        "timeline": {
            "bucket_ns": run.timeline.bucket_ns,
            "cells": cells(run),
            "nr_runs_kept": run.timeline.nr_runs_kept,
            "windows": run.timeline.windows.iter().map(|window| json!({
                "start_ns": window.start_ns, "end_ns": window.end_ns, "runs": base64(&pack(window)),
            })).collect::<Vec<_>>(),
        },
    });
    if !header.hidden.is_nothing() {
        let unseen: Vec<u8> = run.timeline.cells.iter().flatten().map(|cell| cell.unseen).collect();
        data["hidden"] = json!(format!("The {} could not see: {}.", header.observer, header.hidden));
        data["unseen_cells"] = json!(base64(&unseen));
    }
    data
}

/// The number, or a word in its place; the page's script shows either.
fn known(n: impl Into<Value>, why: Option<WhyUnknown>) -> Value {
    if why.is_some() { Value::from("unknown") } else { n.into() }
}

fn group_row(run: &RunReport, group: &Group) -> Value {
    let why = |what| run.summary.task_why_unknown(&group.sum, what);
    let (cpu_time, stops, waiting) = (why(Quantity::CpuTime), why(Quantity::Stops), why(Quantity::Waiting));
    json!([
        group.name,
        group.kernel,
        group.tasks,
        known(group.sum.cpu_ns, cpu_time),
        distribution(&group.sum.run_delay, waiting),
        distribution(&group.sum.wakeup_latency, waiting),
        known(group.sum.switches_voluntary, stops),
        known(group.sum.switches_involuntary, stops),
        known(group.sum.migrations, cpu_time),
    ])
}

fn group_byte(group: u32) -> u8 {
    if (group as usize) < GROUPS_MAX { group as u8 } else { OTHER_GROUP }
}

/// Names of the tasks whose group is not among the first [`GROUPS_MAX`]: row, name.
fn rare_names(run: &RunReport) -> Vec<(usize, &str)> {
    let rare = run.groups.of_task.iter().enumerate().filter(|(_, group)| group_byte(**group) == OTHER_GROUP);
    rare.map(|(row, _)| (row, run.header.tasks[row].name.as_str())).collect()
}

/// Count, sum, mean, p50, p99, p99.9, max.
fn distribution(d: &Distribution, why: Option<WhyUnknown>) -> Value {
    let percentiles = [500, 990, 999].map(|per_mille| d.percentile_ns(per_mille));
    let [p50, p99, p999] = percentiles;
    [d.count(), d.sum_ns(), d.mean_ns(), p50, p99, p999, d.max_ns()]
        .map(|n| known(n, why))
        .into_iter()
        .collect()
}

/// Samples by length in eighths of an octave: upper edge in ns, count.
fn bins(d: &Distribution) -> Vec<(u64, u64)> {
    let mut bins: Vec<(u64, u64)> = Vec::new();
    d.for_each_bucket(|_, last, count| {
        let edge = if last == 0 { 0 } else { ((last as f64).log2() * 8.0).ceil() as i32 };
        let edge_ns = if last == 0 { 0 } else { (f64::from(edge) / 8.0).exp2().ceil() as u64 };
        let edge_ns = edge_ns.min(d.max_ns());
        match bins.last_mut() {
            Some((ns, n)) if *ns == edge_ns => *n += count,
            _ => bins.push((edge_ns, count)),
        }
    });
    bins
}

fn tasks(run: &RunReport) -> Vec<Value> {
    let stats = &run.summary.tasks;
    let mut by_cpu: Vec<usize> = (0..stats.len()).collect();
    let mut by_delay = by_cpu.clone();
    by_cpu.sort_by_key(|row| (Reverse(stats[*row].cpu_ns), *row));
    by_delay.sort_by_key(|row| (Reverse(stats[*row].run_delay.max_ns()), *row));
    let mut shown: BTreeSet<usize> = by_delay.into_iter().take(TASKS_BY_DELAY).collect();
    shown.extend(by_cpu.iter().take(TASKS_BY_CPU));
    let row = |row: &usize| {
        let (task, header) = (&stats[*row], &run.header.tasks[*row]);
        let policy = header.params.policy.name();
        let why = |what| run.summary.task_why_unknown(task, what);
        let (cpu_time, stops, waiting) =
            (why(Quantity::CpuTime), why(Quantity::Stops), why(Quantity::Waiting));
        let exit = why(Quantity::Exit).filter(|_| run.facts.finished.is_none());
        json!([
            row,
            header.params.nice.get(),
            policy,
            known(task.cpu_ns, cpu_time),
            distribution(&task.run_delay, waiting),
            distribution(&task.wakeup_latency, waiting),
            known(task.blocked_ns, why(Quantity::Blocked)),
            known(task.wakeups, why(Quantity::Wakeups)),
            known(task.switches_voluntary, stops),
            known(task.switches_involuntary, stops),
            known(task.migrations, cpu_time),
            known(run.view().finished(*row), exit),
            task.first_ns.filter(|_| waiting.is_none()),
            task.last_ns.filter(|_| waiting.is_none()),
        ])
    };
    by_cpu.iter().filter(|row| shown.contains(row)).map(row).collect()
}

fn cells(run: &RunReport) -> String {
    let cells = &run.timeline.cells;
    let mut bytes = Vec::with_capacity(cells.iter().map(Vec::len).sum::<usize>() * (1 + 2 * CELL_GROUPS));
    for cell in cells.iter().flatten() {
        bytes.push(cell.busy);
        for (group, share) in cell.top {
            bytes.extend([group_byte(group), share]);
        }
    }
    base64(&bytes)
}

fn pack(window: &Window) -> Vec<u8> {
    let mut out = Vec::new();
    let mut varint = |mut value: u64| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    for runs in &window.runs {
        varint(runs.len() as u64);
        let mut at = 0;
        for run in runs {
            varint(run.start_ns - at);
            varint(run.end_ns - run.start_ns);
            varint(run.row.into());
            let stop = match run.stop {
                Some(PrevState::Preempted) => 0,
                Some(PrevState::Yielded) => 1,
                Some(PrevState::Sleeping) => 2,
                Some(PrevState::Disk) => 3,
                Some(PrevState::Dead) => 4,
                Some(PrevState::Unknown) | None => 5,
            };
            let (cause, waited_ns) = match run.waited {
                None => (0, 0),
                Some((WaitCause::New, ns)) => (1, ns),
                Some((WaitCause::Wakeup, ns)) => (2, ns),
                Some((WaitCause::Preempted, ns)) => (3, ns),
            };
            varint(stop + 8 * cause);
            if cause != 0 {
                varint(waited_ns);
            }
            at = run.end_ns;
        }
    }
    out
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().enumerate().fold(0u32, |bits, (n, byte)| bits | u32::from(*byte) << (16 - 8 * n));
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 63) as usize];
            text.push(if n <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_rfc_4648s() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn the_page_has_exactly_the_places_that_are_filled() {
        let page = include_str!("../assets/report.html");
        let places: Vec<&str> = page.split("@@").skip(1).step_by(2).collect();
        assert_eq!(places, ["TITLE", "STYLE", "DATA", "SCRIPT"]);
        for asset in [include_str!("../assets/report.css"), include_str!("../assets/report.js"), page] {
            let asset = asset.replace("http://www.w3.org/2000/svg", ""); // a name, not an address that is loaded
            for outside in ["http:", "https:", "@import", "src="] {
                assert!(!asset.contains(outside), "the file must not load anything: {outside}");
            }
        }
    }
}
