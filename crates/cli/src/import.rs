//! `schedlab import`: a recording, or a description for rt-app, becomes a workload.

use crate::changes;
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_lab::{Loaded, load_as};
use schedlab_report::units::{count, time};
use schedlab_trace::Mode;
use schedlab_units::Span;
use schedlab_workload::derive::{DeriveOptions, InterruptRule, SoftIrqRule};
use schedlab_workload::{Chosen, Dependencies, EventKind, Form, Messages, TraceFormat, Wakeup, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// A recording: trace.dat, perf.data (file, pipe, compressed), ftrace's text (also of trace-cmd report,
    /// perf script), a Perfetto trace; or rt-app's JSON; or a folder with one of them. The content tells
    /// which.
    pub input: PathBuf,
    /// Workload file to write: text, or binary if the name ends in .wlb.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Take what a damaged or truncated trace still holds, and count what is missing.
    #[arg(long)]
    pub lenient: bool,
    /// Which wakeups depend on the task that caused them: infer (by evidence), all (and every softirq's),
    /// none (each sleep as long as recorded), or tasks=NAME,WAKER>SLEEPER,... (only these; * stands for any
    /// text).
    #[arg(long, value_name = "CHOICE", default_value = "infer")]
    pub dependencies: Dependencies,
    /// Where channels come from: none (each block waits for its recorded wakeup), inferred (from who woke whom), or
    /// recorded (`record --objects`). The default is recorded if the recording has any, else none.
    #[arg(long, value_name = "CHOICE")]
    pub messages: Option<Messages>,
    /// Leave the time of recorded interrupts in the tasks' CPU time.
    #[arg(long)]
    pub keep_interrupts: bool,
    /// Take the time of recorded interrupts from their CPUs again, by a task above all others.
    #[arg(long, conflicts_with = "keep_interrupts")]
    pub replay_interrupts: bool,
    #[command(flatten)]
    pub window: crate::window::WindowArgs,
    /// Summary as JSON, to a file or `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub(crate) fn import(args: &ImportArgs, ui: &Ui) -> Result<()> {
    let mode = if args.lenient { Mode::Lenient } else { Mode::Strict };
    let begin = Instant::now();
    let mut loaded = load_as(&args.input, mode, derive_options(args), ui)?;
    let wall_ns = output::host_ns(begin.elapsed().as_nanos() as u64);
    changes::refuse(&loaded.workload.changed_experiment(u32::MAX), ui)?;
    if args.dependencies == Dependencies::All && loaded.derived.is_none() {
        return Err(Failure::Input(format!(
            "{}: --dependencies all needs the trace: a workload no longer holds what it was not derived to depend on",
            loaded.path.display()
        )));
    }
    let asked = args.messages.filter(|messages| *messages != Messages::None);
    if let (Some(messages), None) = (asked, &loaded.derived) {
        return Err(Failure::Input(format!(
            "{}: --messages {messages} needs the recording: a workload has its channels, or has none; leave --messages \
             out",
            loaded.path.display()
        )));
    }
    let chosen = args.dependencies.apply(&mut loaded.workload);
    if let Some(path) = &args.output {
        schedlab_workload::save(path, &loaded.workload, Form::of_path(path)).map_err(Failure::input)?;
    }
    let facts = facts(&loaded, &args.dependencies, chosen, wall_ns);
    if !output::json_value(args.json.as_deref(), &facts)? {
        print(&loaded, wall_ns);
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
    let events = loaded.workload.tasks.iter().flat_map(|task| &task.events);
    let nr_at_objects = events.filter(|event| matches!(event.kind, EventKind::Object { .. })).count() as u64;
    if nr_at_objects > 0 {
        counts.push(("OBJECT", nr_at_objects));
    }
    counts
}

fn derive_options(args: &ImportArgs) -> DeriveOptions {
    let mut options =
        DeriveOptions { window: args.window.window(), messages: args.messages, ..DeriveOptions::default() };
    if args.dependencies == Dependencies::All {
        options.softirq = SoftIrqRule::Always;
    }
    if args.keep_interrupts {
        options.interrupts = InterruptRule::Keep;
    } else if args.replay_interrupts {
        options.interrupts = InterruptRule::Replay;
    }
    options
}

/// Who wakes whom: (waker, sleeper) by name, how often, most often first.
fn pairs(workload: &Workload) -> Vec<((&str, &str), u64)> {
    let mut pairs: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for task in &workload.tasks {
        for event in &task.events {
            if let EventKind::Wakeup(Wakeup::Dependent { task: waker, .. }) = event.kind {
                *pairs.entry((&workload.task(waker).name, &task.name)).or_default() += 1;
            }
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    pairs
}

fn facts(loaded: &Loaded, choice: &Dependencies, chosen: Chosen, wall_ns: u64) -> Value {
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
        "dependencies": {
            "choice": choice.to_string(),
            "dependent": chosen.dependent,
            "made_external": chosen.made_external,
            "pairs": pairs(workload)
                .into_iter()
                .map(|((waker, sleeper), count)| json!({"waker": waker, "sleeper": sleeper, "wakeups": count}))
                .collect::<Vec<_>>(),
        },
        "changed_experiment": changes::json(&workload.changed_experiment(u32::MAX)),
        "dropped": workload.dropped,
        "notes": workload.notes,
        "wall_ns": wall_ns,
    });
    if let Some(derived) = &loaded.derived {
        let wakeups = derived.wakeups;
        facts["trace_events"] = json!(derived.trace_events);
        facts["trace_duration_ns"] = json!(derived.duration_ns);
        facts["switches"] = json!(derived.switches);
        facts["interrupt_ns"] = json!(derived.interrupt_ns);
        facts["wakeups"] = json!({
            "dependent_task": wakeups.task,
            "dependent_softirq": wakeups.softirq_on_behalf,
            "dependent_softirq_raised": wakeups.softirq_raised,
            "external_softirq": wakeups.softirqs(),
            "external_timer_softirq": wakeups.timer_softirq,
            "external_hardirq": wakeups.hardirqs(),
            "external_timer": wakeups.timer,
            "external_device": wakeups.device,
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
    let mut changed = String::new();
    let style = schedlab_report::Style::detect();
    schedlab_report::changed_experiment(&mut changed, &workload.changed_experiment(u32::MAX), style);
    print!("{changed}");
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
            (wakeups.timer, "the timer's interrupt (external)"),
            (wakeups.device, "a device's interrupt (external)"),
            (wakeups.other_hardirq, "a hardware interrupt, of which timer or device is unknown (external)"),
            (wakeups.softirq, "a softirq (external)"),
            (wakeups.timer_softirq, "the timer softirq (external)"),
            (wakeups.idle, "from the idle task (external)"),
            (wakeups.unknown_waker, "a task left out of the workload (external)"),
            (wakeups.made_up, "not recorded, made up (external)"),
        ] {
            if count > 0 {
                println!("  {count:>10}  {cause}");
            }
        }
        println!("  {:>9.1}% external", wakeups.external_percent());
        for note in ["evidence for softirqs on behalf of tasks", "evidence for timers and devices"] {
            if let Some(evidence) = workload.notes.get(note) {
                println!("              {note}: {evidence}");
            }
        }
    }
    if let Some(choice) = workload.notes.get("dependencies, by choice") {
        println!();
        println!("  dependencies {choice}");
    }
    for what in ["messages", "locks"] {
        if let Some(said) = workload.notes.get(what) {
            println!();
            println!("  {what} {said}");
        }
    }
    print_pairs(workload);
    if let Some(derived) = &loaded.derived {
        println!();
        if derived.interrupt_ns > 0 {
            let interrupt = Span::from_ns(derived.interrupt_ns);
            println!(
                "  {:.3} s of interrupts that hit these tasks are not in their CPU time",
                interrupt.as_s_f64()
            );
        }
        let rate = derived.trace_events as f64 / (wall_ns.max(1) as f64 * 1e-9) / 1e6;
        println!("  {} trace events read in {} ({rate:.2} M/s)", count(derived.trace_events), time(wall_ns));
    }
    if !workload.dropped.is_empty() {
        println!();
        println!("  left out or made up");
        for (reason, count) in &workload.dropped {
            println!("  {count:>10}  {reason}");
        }
    }
}

/// The pairs of tasks that wake each other most.
fn print_pairs(workload: &Workload) {
    const SHOWN: usize = 10;
    let pairs = pairs(workload);
    if pairs.is_empty() {
        return;
    }
    println!();
    println!("  who wakes whom (dependent wakeups, by name)");
    for ((waker, sleeper), count) in pairs.iter().take(SHOWN) {
        println!("  {count:>10}  {waker} > {sleeper}");
    }
    if let Some(rest) = pairs.get(SHOWN..).filter(|rest| !rest.is_empty()) {
        let wakeups: u64 = rest.iter().map(|(_, count)| count).sum();
        println!("  {wakeups:>10}  {} more pairs", rest.len());
    }
}
