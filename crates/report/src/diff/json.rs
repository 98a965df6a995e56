//! A comparison of two logs as JSON: names are a contract (fields are added, never renamed or removed).

use super::DiffView;
use schedlab_instruments::WaitCause;
use schedlab_instruments::diff::{MappedBy, Pair, Place, SideView, TaskView};
use schedlab_log::{Record, format_record};
use serde_json::{Value, json};

/// Version of the form.
const SCHEMA: u32 = 1;

/// The comparison as one JSON object.
pub fn diff_json(view: DiffView<'_>) -> Value {
    let diff = view.diff;
    let log = |which: usize| {
        let header = view.headers[which];
        json!({"name": view.names[which], "sched": header.sched, "sched_version": header.sched_version,
               "cpus": header.nr_cpus, "hz": header.hz, "duration_ns": header.duration.as_ns(),
               "decisions": diff.decisions[which],
               "kernel_thread_stays_left_out": diff.kernel_threads[which].0,
               "kernel_thread_ns_left_out": diff.kernel_threads[which].1})
    };
    let tasks = diff.tasks.iter().map(|task| {
        let mut row = names(view, task.pair);
        row["cpu_ns"] = json!(task.cpu_ns);
        row["difference_ns"] = json!(task.difference_ns());
        row
    });
    json!({
        "schema": SCHEMA,
        "differs": !diff.is_empty(),
        "within_ns": diff.options.within.as_ns(),
        "kernel_threads": diff.options.kernel_threads,
        "compared_ns": diff.compared_ns,
        "cpus": diff.nr_cpus,
        "tasks_matched_by": match diff.map.by {
            MappedBy::Number => "number",
            MappedBy::Place => "place",
            MappedBy::Name => "name",
        },
        "logs": [log(0), log(1)],
        "first": diff.first.as_ref().map(|first| json!({
            "time_ns": first.time_ns,
            "cpu": first.cpu.0,
            "agreed_before": first.agreed_before,
            "sides": [side(view, 0, &first.sides[0]), side(view, 1, &first.sides[1])],
        })),
        "differences": diff.differences,
        "agreed": diff.agreed,
        "skipped": diff.skipped,
        "largest_shift_ns": diff.largest_shift_ns,
        "disagree_ns": diff.disagree_ns,
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

fn names(view: DiffView<'_>, pair: Pair) -> Value {
    let id = |which: usize| DiffView::id(pair, which).map(|task| task.to_string());
    let which = usize::from(pair.a.is_none());
    let name = DiffView::id(pair, which).map(|task| view.task_name(which, task).to_string());
    json!({"ids": [id(0), id(1)], "name": name})
}

fn side(view: DiffView<'_>, which: usize, side: &SideView) -> Value {
    let chosen = side.decision.map(|(_, task)| task);
    let header = view.headers[which];
    let ids = (0..header.tasks.len() as u32).map(schedlab_units::TaskId);
    let threads = header.kernel_threads.iter().map(|t| schedlab_units::TaskId::kernel_thread(t.pid));
    let there = |task: &TaskView| !matches!(task.place, Place::Absent | Place::Gone);
    let tasks = ids.chain(threads).zip(&side.tasks).filter(|(id, task)| there(task) || Some(*id) == chosen);
    let tasks = tasks.map(|(id, task)| {
        let (state, cpu, cause) = match task.place {
            Place::Absent => ("absent", None, None),
            Place::Gone => ("exited", None, None),
            Place::Blocked => ("blocked", None, None),
            Place::Running(cpu) => ("running", Some(cpu.0), None),
            Place::Waiting(cpu, cause) => ("waiting", Some(cpu.0), Some(cause)),
        };
        let cause = cause.map(|cause| match cause {
            WaitCause::New => "new",
            WaitCause::Wakeup => "wakeup",
            WaitCause::Preempted => "preempted",
        });
        json!({"id": id.to_string(), "name": view.task_name(which, id), "state": state, "cpu": cpu,
               "cause": cause, "since_ns": task.since_ns, "cpu_ns": task.cpu_ns})
    });
    let cpus =
        side.cpus.iter().map(|cpu| json!({"current": cpu.current.to_string(), "waiting": cpu.waiting}));
    json!({
        "time_ns": side.time_ns,
        "decides": side.decision.is_some(),
        "chosen": chosen.map(|task| task.to_string()),
        "chosen_name": chosen.map(|task| view.task_name(which, task)),
        "stop": side.stop.map(|stop| stop.name()),
        "cpus": cpus.collect::<Vec<_>>(),
        "tasks": tasks.collect::<Vec<_>>(),
        "before": side.before.iter().map(text).collect::<Vec<_>>(),
        "after": side.after.iter().map(text).collect::<Vec<_>>(),
    })
}

fn text(record: &Record) -> String {
    let mut bytes = Vec::new();
    format_record(&mut bytes, record);
    String::from_utf8_lossy(&bytes).trim_start().to_string()
}
