//! `schedlab import`: a recording, or a description for rt-app, becomes a workload.

use crate::args::ImportArgs;
use crate::failure::{Failure, Result};
use crate::input::{self, Loaded};
use crate::ui::Ui;
use schedlab_trace::Mode;
use schedlab_units::Span;
use schedlab_workload::{EventKind, Form, TraceFormat};
use serde_json::{Value, json};
use std::time::Instant;

pub(crate) fn import(args: &ImportArgs, ui: &Ui) -> Result<()> {
    let mode = if args.lenient { Mode::Lenient } else { Mode::Strict };
    let begin = Instant::now();
    let loaded = input::load_as(&args.input, mode, ui)?;
    let wall_ns = begin.elapsed().as_nanos() as u64;
    if let Some(path) = &args.output {
        let io = |error| Failure::Input(format!("{}: cannot be written: {error}", path.display()));
        schedlab_workload::save(path, &loaded.workload, Form::of_path(path)).map_err(io)?;
    }
    let facts = facts(&loaded, wall_ns);
    match &args.json {
        Some(path) if path.as_os_str() == "-" => println!("{facts:#}"),
        Some(path) => {
            let io = |error| Failure::Input(format!("{}: cannot be written: {error}", path.display()));
            std::fs::write(path, format!("{facts:#}\n")).map_err(io)?;
            print(&loaded, wall_ns);
        }
        None => print(&loaded, wall_ns),
    }
    if let Some(path) = &args.output {
        ui.say(format!("workload: {}", path.display()));
    }
    Ok(())
}

/// For scripts.
fn format_name(format: Option<TraceFormat>) -> &'static str {
    match format {
        None => "workload",
        Some(TraceFormat::TraceDat) => "trace.dat",
        Some(TraceFormat::PerfData) => "perf.data",
        Some(TraceFormat::FtraceText) => "text",
        Some(TraceFormat::Perfetto) => "perfetto",
        Some(TraceFormat::RtApp) => "rt-app",
    }
}

/// How many events of each type.
fn counts(loaded: &Loaded) -> Vec<(&'static str, u64)> {
    let names = ["INIT", "FORK", "PRIO", "YIELD", "BLOCK", "WAKEUP", "EXIT"];
    let mut counts: Vec<(&'static str, u64)> = names.into_iter().map(|name| (name, 0)).collect();
    let mut count = |name: &str| {
        if let Some(slot) = counts.iter_mut().find(|(n, _)| *n == name) {
            slot.1 += 1;
        }
    };
    for task in &loaded.workload.tasks {
        if task.birth_eid().is_some() {
            count("INIT");
        }
        task.events.iter().for_each(|event| count(EventKind::name(&event.kind)));
    }
    counts
}

fn facts(loaded: &Loaded, wall_ns: u64) -> Value {
    let workload = &loaded.workload;
    let events: serde_json::Map<String, Value> =
        counts(loaded).into_iter().map(|(name, count)| (name.to_lowercase(), json!(count))).collect();
    let mut facts = json!({
        "schema": 1,
        "input": loaded.path.display().to_string(),
        "format": format_name(loaded.format),
        "tasks": workload.tasks.len(),
        "events": events,
        "cpu_ns": workload.tasks.iter().map(|task| task.cpu_demand().as_ns()).sum::<u64>(),
        "dropped": workload.dropped,
        "notes": workload.notes,
        "wall_ns": wall_ns,
    });
    if let Some(derived) = &loaded.derived {
        let wakeups = derived.wakeups;
        facts["trace_events"] = json!(derived.trace_events);
        facts["trace_duration_ns"] = json!(derived.duration_ns);
        facts["switches"] = json!(derived.switches);
        facts["wakeups"] = json!({
            "dependent_task": wakeups.task,
            "dependent_softirq": wakeups.softirq_on_behalf,
            "external_softirq": wakeups.softirq,
            "external_hardirq": wakeups.hardirq,
            "external_idle": wakeups.idle,
            "external_unknown_waker": wakeups.unknown_waker,
            "external_made_up": wakeups.made_up,
            "external_percent": wakeups.external_percent(),
        });
    }
    facts
}

fn print(loaded: &Loaded, wall_ns: u64) {
    let workload = &loaded.workload;
    let cpu: Span = workload.tasks.iter().map(|task| task.cpu_demand()).sum();
    println!("{}: {} tasks, {:.3} s of CPU time", loaded.name, workload.tasks.len(), cpu.as_s_f64());
    if let Some(format) = loaded.format {
        println!("imported from {format}");
    }
    println!();
    for (name, count) in counts(loaded) {
        println!("  {name:<8} {count:>10}");
    }
    if let Some(derived) = &loaded.derived {
        let wakeups = derived.wakeups;
        println!();
        println!("  wakeups by cause");
        for (count, cause) in [
            (wakeups.task, "another task of the workload (dependent)"),
            (wakeups.softirq_on_behalf, "a softirq on behalf of a task (dependent)"),
            (wakeups.hardirq, "a hardware interrupt: timer or device (external)"),
            (wakeups.softirq, "a softirq (external)"),
            (wakeups.idle, "from the idle task (external)"),
            (wakeups.unknown_waker, "a task left out of the workload (external)"),
            (wakeups.made_up, "not recorded, made up (external)"),
        ] {
            if count > 0 {
                println!("  {count:>10}  {cause}");
            }
        }
        println!("  {:>9.1}% external", wakeups.external_percent());
        println!();
        let rate = derived.trace_events as f64 / (wall_ns as f64 * 1e-9) / 1e6;
        println!("  {} trace events read at {rate:.1} M/s", derived.trace_events);
    }
    if !workload.dropped.is_empty() {
        println!();
        println!("  left out or made up");
        for (reason, count) in &workload.dropped {
            println!("  {count:>10}  {reason}");
        }
    }
}
