//! `schedlab diff`: the first decision in which two schedule logs differ, with the state around it.

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_instruments::diff::{DiffOptions, diff as compare};
use schedlab_log::Log;
use schedlab_report::{DiffView, Style, diff_json, diff_terminal};
use schedlab_units::Span;
use std::path::{Path, PathBuf};

/// More records around the difference than this are not read by anybody.
const EVENTS_MAX: usize = 10_000;

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// A schedule log, text or Arrow: of the machine, a guest or a host.
    #[arg(value_name = "LOG")]
    pub a: PathBuf,
    /// The log to compare it with.
    #[arg(value_name = "LOG")]
    pub b: PathBuf,
    /// Decisions may lie so far apart, and stays that one log has alone add up to as much (4ms for a guest against a
    /// simulation, whose kernel code takes no time).
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub within: Span,
    /// Compare kernel threads too; else the task that they interrupt counts as running on.
    #[arg(long)]
    pub kernel_threads: bool,
    /// Records to show before and after the difference.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub events: usize,
    /// Write the result as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub(crate) fn diff(args: &DiffArgs, ui: &Ui) -> Result<()> {
    if let Some(path) = &args.json {
        output::check(path)?;
    }
    let open = |path: &Path| schedlab_log::open(path).map_err(Failure::input);
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let step = ui.step("comparing the logs");
    let options = DiffOptions {
        within: args.within,
        kernel_threads: args.kernel_threads,
        events: args.events.min(EVENTS_MAX),
    };
    let logs: [&dyn Log; 2] = [&*a, &*b];
    let either = format!("{} or {}", args.a.display(), args.b.display());
    let result = compare(logs, options).map_err(|problem| Failure::of_log(either, problem))?;
    drop(step);
    let names = [args.a.display().to_string(), args.b.display().to_string()];
    let view = DiffView { diff: &result, headers: logs.map(Log::header), names: [&names[0], &names[1]] };
    if !output::json(args.json.as_deref(), |out| writeln!(out, "{}", diff_json(view)))? {
        print!("{}", diff_terminal(view, Style::detect()));
    }
    match &result.first {
        None => Ok(()),
        Some(_) => Err(Failure::Finding(String::new())),
    }
}
