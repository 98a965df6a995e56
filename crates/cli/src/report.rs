//! `schedlab report`: a recording as it happened, with the tables and pictures of a run.

use crate::execute::{Files, command_line, write_log_files};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_convert::UnknownAsThread;
use schedlab_instruments::{Summary, for_each_picture, meanwhile, summarize_seen};
use schedlab_lab::{KnownRecording, load_recording};
use schedlab_log::{Log, LogHeader};
use schedlab_report::{
    Detail, NextStep, PerfettoOptions, RunFacts, RunReport, RunView, Style, worst_stretches,
};
use schedlab_stdx::csv;
use schedlab_trace::Mode;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// A recording: trace.dat, perf.data, ftrace's text (also of trace-cmd report, perf script), a Perfetto
    /// trace; or a folder with one.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Take what a damaged or truncated recording still holds, and count what is missing.
    #[arg(long)]
    pub lenient: bool,
    /// Write the schedule log: Arrow if the name ends in .arrow, else text.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write a row per task as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub results: output::ResultArgs,
}

pub(crate) fn report(args: &ReportArgs, ui: &Ui) -> Result<()> {
    let outputs = [&args.log, &args.results.perfetto, &args.results.html, &args.csv, &args.results.json];
    outputs.into_iter().flatten().try_for_each(|path| output::check(path))?;
    let mode = if args.lenient { Mode::Lenient } else { Mode::Strict };
    let recording = load_recording(&args.input, mode, ui)?;
    let log = &recording.recorded.log;
    let contradicts = |problem| Failure::Input(format!("{}: {problem}", recording.path.display()));
    let step = ui.step("measuring");
    let summary = summarize_seen(log).map_err(contradicts)?;
    let mut facts = facts(&recording);
    for_each_picture(log, &worst_stretches(&summary), |picture| facts.stretches.push(picture.clone()))
        .map_err(contradicts)?;
    facts.meanwhile = meanwhile(log, &summary.system.longest_waits).map_err(contradicts)?;
    facts.next_steps = next_steps(args);
    drop(step);
    let step = ui.step("writing results");
    let title = format!("{} as it happened", recording.name);
    let files = Files { log: args.log.clone(), perfetto: None, html: args.results.html.clone() };
    write_log_files(&files, &title, log, &summary, &facts)?;
    if let Some(path) = &args.results.perfetto {
        let shown = UnknownAsThread::new(log);
        schedlab_report::perfetto(path, &shown, PerfettoOptions::default()).map_err(Failure::input)?;
    }
    if let Some(path) = &args.csv {
        output::file(path, |out| write_csv(log.header(), &summary, out))?;
    }
    drop(step);
    let view = RunView { header: log.header(), summary: &summary, facts: &facts };
    if !output::json(args.results.json.as_deref(), |out| write_json(&recording, view, out))? {
        let detail = Detail::for_terminal(log.header().nr_cpus);
        let report = RunReport::with_summary(log, summary, facts, detail).map_err(contradicts)?;
        print!("{}", schedlab_report::terminal(&report, Style::detect()));
    }
    recording.warnings().iter().for_each(|warning| ui.say(format!("warning: {warning}")));
    let written = [
        ("log", &args.log),
        ("Perfetto file", &args.results.perfetto),
        ("HTML report", &args.results.html),
        ("table", &args.csv),
    ];
    for (what, path) in written {
        if let Some(path) = path {
            ui.say(format!("{what}: {}", path.display()));
        }
    }
    Ok(())
}

fn facts(recording: &KnownRecording) -> RunFacts {
    let recorded = &recording.recorded;
    let header = recorded.log.header();
    let mut notes = recording.warnings();
    if !header.hidden.is_nothing() {
        notes.push(format!("hidden from the recorder, and so unknown: {}", header.hidden));
    }
    if let Some(waited) = recording.waited_for {
        let ms = |ns: u64| format!("{:.1} ms", ns as f64 * 1e-6);
        notes.push(format!(
            "the program's tasks waited {} for their own CPU time, {} for kernel threads, \
             {} for others, {} beside a CPU shown as idle",
            ms(waited.program_ns),
            ms(waited.kernel_ns),
            ms(waited.stranger_ns),
            ms(waited.idle_ns + waited.exit_ns),
        ));
    } else {
        let unknown = "whether others had the CPUs is unknown: the recording does not tell which tasks are the \
            program's";
        notes.push(unknown.to_string());
    }
    notes.extend(recorded.notes.iter().map(|(name, value)| format!("{name}: {value}")));
    RunFacts {
        workload: recording.name.clone(),
        command: command_line(),
        end: format!("as recorded: {}", recording.format),
        dropped: recorded.dropped.clone(),
        notes,
        ..RunFacts::default()
    }
}

fn next_steps(args: &ReportArgs) -> Vec<NextStep> {
    let input = args.input.display();
    let mut steps = Vec::new();
    if args.results.html.is_none() {
        let command = format!("schedlab report {input} --html report.html");
        steps.push(NextStep { what: "see who ran when".into(), command });
    }
    steps.push(NextStep {
        what: "does a replay behave so?".into(),
        command: format!("schedlab fidelity {input}"),
    });
    steps
}

/// A run's JSON, and what only a recording has.
fn write_json(recording: &KnownRecording, view: RunView<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let (lost, places) = recording.recorded.lost;
    let own = json!({
        "events": recording.recorded.events,
        "observer": view.header.observer.name(),
        "hidden": view.header.hidden.iter().map(|fact| fact.name()).collect::<Vec<_>>(),
        "lost_events": lost,
        "lost_places": places,
        "contended": recording.is_contended(),
        "waited_for": recording.waited_for.map(|waited| json!({
            "program_ns": waited.program_ns,
            "kernel_ns": waited.kernel_ns,
            "stranger_ns": waited.stranger_ns,
            "idle_ns": waited.idle_ns,
            "idle_exit_ns": waited.exit_ns,
        })),
        "warnings": recording.warnings(),
    });
    schedlab_report::json_with(view, &[("recording", own)], out)
}

fn write_csv(header: &LogHeader, summary: &Summary, out: &mut dyn Write) -> std::io::Result<()> {
    let columns = [
        "task",
        "pid",
        "name",
        "cpu_ns",
        "run_delay_ns",
        "run_delay_p50_ns",
        "run_delay_p99_ns",
        "run_delay_max_ns",
        "wakeup_latency_ns",
        "wakeup_latency_p99_ns",
        "blocked_ns",
        "wakeups",
        "switches_voluntary",
        "switches_involuntary",
        "migrations",
    ];
    writeln!(out, "{}", columns.join(","))?;
    for (task, stats) in header.tasks.iter().zip(&summary.tasks) {
        let (delay, latency) = (&stats.run_delay, &stats.wakeup_latency);
        let numbers = [
            stats.cpu_ns,
            delay.sum_ns(),
            delay.percentile_ns(500),
            delay.percentile_ns(990),
            delay.max_ns(),
            latency.sum_ns(),
            latency.percentile_ns(990),
            stats.blocked_ns,
            stats.wakeups,
            stats.switches_voluntary,
            stats.switches_involuntary,
            stats.migrations,
        ];
        let numbers = numbers.map(|number| number.to_string()).join(",");
        writeln!(out, "{},{},{},{numbers}", stats.id.0, task.pid, csv::field(&task.name))?;
    }
    Ok(())
}
