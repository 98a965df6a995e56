//! `schedlab sweep`: many runs from one description, each made once, into a dataset of Parquet files.

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::{Args, Subcommand};
use schedlab_report::units::{count, time};
use schedlab_report::{CHANGED, Style};
use schedlab_runner::pool;
use schedlab_sweep::{
    Bench, Cell, CostEstimate, RUNS, RunOptions, Shard, Sweep, SweepProgress, SweepSummary, SweptRun, TASKS,
    dataset,
};
use schedlab_units::Span;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    pub command: Option<SweepCommand>,
    /// The description, TOML: [grid], [zip], [[list]], [latin], [[only]], [[except]] (docs/sweeps.md).
    #[arg(required = true, value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// The dataset's folder; runs that are in it already are not made again.
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["dry_run", "check"])]
    pub output: Option<PathBuf>,
    /// Look up everything that the description names, build its kernels, and make no run.
    #[arg(long)]
    pub check: bool,
    /// Have a dask cluster make the runs: 'python -m schedlab sweep ... --dask ADDRESS', of the Python package.
    #[arg(long, value_name = "ADDRESS")]
    pub dask: Option<String>,
    /// Make some runs only, and tell what all would cost: how many, how long, how large.
    #[arg(long)]
    pub dry_run: bool,
    /// Only this part, I of N: all parts together are the sweep (`sweep merge` joins them).
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    #[command(flatten)]
    pub how: HowArgs,
}

#[derive(Args, Debug)]
pub(crate) struct HowArgs {
    /// Most runs at once; all cores unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Keep each run's schedule log, as DIR/logs/KEY.arrow.
    #[arg(long)]
    pub logs: bool,
    /// End a run if its scheduler does nothing for this long: an endless loop.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub stall: Span,
    /// Write what it came to as JSON, `-` = standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SweepCommand {
    /// Join datasets, such as shards, into one; what several hold is there once.
    Merge {
        /// Datasets.
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
        /// The folder of the whole; it may be a dataset already.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Make the runs again that failed.
    Retry {
        /// The dataset.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Where paths of workloads begin: the description's folder.
        #[arg(long, value_name = "DIR", default_value = ".")]
        from: PathBuf,
        #[command(flatten)]
        how: HowArgs,
    },
    /// What is in a dataset: runs, failures, files, and one hash that equal datasets have in common.
    Status {
        /// The dataset.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// As JSON, `-` = standard output.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// The runs of a dataset as a table, or one run with all that is known of it.
    Show {
        /// The dataset.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// The run whose key begins so.
        #[arg(value_name = "KEY")]
        key: Option<String>,
        /// Rows of the table.
        #[arg(long, value_name = "N", default_value_t = 40)]
        limit: usize,
        /// All rows as JSON, one a line; `-` = standard output.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

impl HowArgs {
    fn options(&self, shard: Option<Shard>) -> Result<RunOptions> {
        if self.stall == Span::ZERO {
            let text = "--stall 0: expected a time greater than zero, for example 5s";
            return Err(Failure::Input(text.to_string()));
        }
        Ok(RunOptions {
            jobs: self.jobs.map_or_else(pool::cores, |jobs| jobs as usize),
            shard,
            logs: self.logs,
            stall_limit: Duration::from_nanos(self.stall.as_ns()),
            ..RunOptions::default()
        })
    }
}

pub(crate) fn sweep(args: &SweepArgs, ui: &Ui) -> Result<()> {
    match &args.command {
        None => begin(args, ui),
        Some(SweepCommand::Merge { dirs, output }) => {
            let step = ui.step(format!("joining {} datasets", dirs.len()));
            let merged = dataset::merge(dirs, output)?;
            drop(step);
            println!(
                "{}: {} runs, of {} that were read",
                output.display(),
                count(merged.runs),
                count(merged.read)
            );
            Ok(())
        }
        Some(SweepCommand::Retry { dir, from, how }) => {
            let options = how.options(None)?;
            let summary = listen(ui, |heard| dataset::retry(dir, from, &options, ui, heard))?;
            conclude(&summary, dir, how, ui)
        }
        Some(SweepCommand::Status { dir, json }) => status(dir, json.as_deref(), ui),
        Some(SweepCommand::Show { dir, key, limit, json }) => {
            show(dir, key.as_deref(), *limit, json.as_deref())
        }
    }
}

fn begin(args: &SweepArgs, ui: &Ui) -> Result<()> {
    let file = args.file.as_deref().expect("clap demands it");
    if let Some(address) = &args.dask {
        let text = format!(
            "--dask {address}: clusters are reached from Python; install the package (make wheel), and begin with \
             'python -m schedlab sweep'"
        );
        return Err(Failure::Input(text));
    }
    let sweep = Sweep::load(file)?;
    let options = args.how.options(args.shard)?;
    let step = ui.step(format!("{}: looking up what it names", file.display()));
    if args.check {
        let planned = schedlab_sweep::check(&sweep, &Bench::new(sweep.base()), ui)?;
        drop(step);
        println!("{} runs", count(planned));
        return Ok(());
    }
    if args.dry_run {
        step.now("trial runs");
        let estimate = schedlab_sweep::estimate(&sweep, &options, ui)?;
        drop(step);
        return show_estimate(&estimate, &options, args.how.json.as_deref());
    }
    drop(step);
    let dir = args.output.as_deref().expect("clap demands it");
    let summary = listen(ui, |heard| schedlab_sweep::run(&sweep, dir, &options, ui, heard))?;
    conclude(&summary, dir, &args.how, ui)
}

/// Shows how far the work is, ten times a second at most.
fn listen(
    ui: &Ui,
    work: impl FnOnce(
        &mut dyn FnMut(&SweepProgress) -> bool,
    ) -> std::result::Result<SweepSummary, schedlab_sweep::SweepError>,
) -> Result<SweepSummary> {
    const PAUSE: Duration = Duration::from_millis(100);
    let step = ui.step("sweep");
    let mut shown: Option<Instant> = None;
    let mut heard = |progress: &SweepProgress| {
        if shown.is_none_or(|shown| shown.elapsed() >= PAUSE) {
            shown = Some(Instant::now());
            step.progress(line(progress));
        }
        true
    };
    Ok(work(&mut heard)?)
}

/// `1,200 of 20,000 runs done, 300 were there, 2 failed; 410 a second, 46 s left`
fn line(progress: &SweepProgress) -> String {
    let SweepProgress { planned, known, done, failed, per_s, rest_s, .. } = *progress;
    let mut text = format!("{} of {} runs done", count(done), count(planned));
    if known > 0 {
        text.push_str(&format!(", {} were there", count(known)));
    }
    if failed > 0 {
        text.push_str(&format!(", {} failed", count(failed)));
    }
    if let Some(rest_s) = rest_s {
        text.push_str(&format!("; {per_s:.1} a second, {} left", host_time(rest_s)));
    }
    text
}

/// Host time for people.
fn host_time(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn show_estimate(estimate: &CostEstimate, options: &RunOptions, json: Option<&Path>) -> Result<()> {
    let CostEstimate { planned, tried, failed, run_s, total_s, bytes } = estimate;
    let value = serde_json::json!({
        "schema": 1, "planned": planned, "tried": tried, "failed": failed,
        "run_wall_s": run_s, "total_wall_s": total_s, "bytes": bytes, "jobs": options.jobs,
    });
    if json.is_some() && output::json_value(json, &value)? {
        return Ok(());
    }
    println!("{} runs", count(*planned));
    println!("{} tried: {} each, {failed} failed", count(*tried), host_time(*run_s));
    println!(
        "about {} with --jobs {}, about {} kB of Parquet",
        host_time(*total_s),
        options.jobs,
        count(bytes / 1000)
    );
    Ok(())
}

/// Says what came of it. Runs that failed now are a finding; they are rows.
fn conclude(summary: &SweepSummary, dir: &Path, how: &HowArgs, ui: &Ui) -> Result<()> {
    let SweepProgress { planned, known, done, failed, warned, changed, per_s, .. } = summary.progress;
    let value = serde_json::json!({
        "schema": 1, "planned": planned, "known": known, "done": done, "failed": failed, "warned": warned,
        "changed": changed, "compact": summary.is_compact,
    });
    let to_stdout = how.json.is_some() && output::json_value(how.json.as_deref(), &value)?;
    if !to_stdout {
        println!("{}: {} runs made, {} were there", dir.display(), count(done), count(known));
        if done > 0 {
            println!("{per_s:.1} a second");
        }
        if changed > 0 {
            println!("{}: {} runs; their column changed_experiment says why", CHANGED, count(changed));
        }
        if !summary.is_compact {
            println!("another process is at work in the folder; the last one puts the files in order");
        }
    }
    // what was there already counts as well
    let changed = if ui.is_strict() { dataset::status(dir)?.changed } else { 0 };
    if changed > 0 {
        return Err(Failure::Input(format!(
            "{CHANGED}: {} runs of {}; their column changed_experiment says why ('schedlab sweep show DIR KEY'); \
             correct the workload or the machine, or leave --strict out",
            count(changed),
            dir.display()
        )));
    }
    if failed + warned == 0 {
        return Ok(());
    }
    let mut text =
        format!("{failed} runs failed, {warned} warned; their rows say why ('schedlab sweep status DIR')");
    for (command, failure) in &summary.failures {
        text.push_str(&format!("\n  {}\n    {command}", failure.lines().next().unwrap_or_default()));
    }
    Err(Failure::Finding(text))
}

fn status(dir: &Path, json: Option<&Path>, ui: &Ui) -> Result<()> {
    let step = ui.step(format!("reading {}", dir.display()));
    let status = dataset::status(dir)?;
    drop(step);
    let failures: Vec<serde_json::Value> = status
        .failures
        .iter()
        .map(|(failure, times, command)| serde_json::json!({"failure": failure, "times": times, "command": command}))
        .collect();
    let value = serde_json::json!({
        "schema": 1, "runs": status.runs, "tasks": status.tasks, "by_status": status.by_status,
        "changed": status.changed, "files": status.files,
        "bytes": status.bytes, "engines": status.engines, "failures": failures, "hash": status.hash,
    });
    if json.is_some() && output::json_value(json, &value)? {
        return Ok(());
    }
    let by = status.by_status.iter().map(|(status, nr)| format!("{} {status}", count(*nr)));
    println!(
        "{} runs ({}), {} tasks",
        count(status.runs),
        by.collect::<Vec<_>>().join(", "),
        count(status.tasks)
    );
    if status.changed > 0 {
        println!("{CHANGED}: {} runs; their column changed_experiment says why", count(status.changed));
    }
    println!("{} files a table, {} kB", count(status.files), count(status.bytes / 1000));
    for (engine, nr) in &status.engines {
        let here = if engine == schedlab_runner::ENGINE { ", this program's" } else { "" };
        println!("engine {engine}{here}: {} runs", count(*nr));
    }
    for (failure, times, command) in status.failures.iter().take(10) {
        println!(
            "{:>9}  {}\n           {command}",
            count(*times),
            failure.lines().next().unwrap_or_default()
        );
    }
    println!("hash {}", status.hash);
    Ok(())
}

fn show(dir: &Path, key: Option<&str>, limit: usize, json: Option<&Path>) -> Result<()> {
    if let Some(path) = json {
        return rows_as_json(dir, key, path);
    }
    if let Some(key) = key {
        let outcome = dataset::find(dir, key)?;
        for (column, cell) in RUNS.iter().zip(outcome.run()).filter(|(_, cell)| **cell != Cell::Null) {
            println!("{:<32} {cell}", column.name);
        }
        println!();
        let head: Vec<String> = TASKS[1..7].iter().map(|column| column.name.to_string()).collect();
        println!("{}", Style::detect().dim(&head.join("  ")));
        for row in outcome.tasks() {
            println!("{}", row[1..7].iter().map(Cell::to_string).collect::<Vec<_>>().join("  "));
        }
        return Ok(());
    }
    let mut rows = Vec::new();
    let mut nr = 0;
    dataset::for_each(dir, |outcome| {
        nr += 1;
        if rows.len() < limit {
            rows.push(cells(outcome));
        }
        Ok(())
    })?;
    crate::run::many::print_table(&SHOWN, &rows, Style::detect());
    if nr > rows.len() as u64 {
        println!("... and {} more: --limit N, --json -", count(nr - rows.len() as u64));
    }
    Ok(())
}

/// Columns of the table.
const SHOWN: [&str; 11] = [
    "key",
    "workload",
    "sched",
    "params",
    "cpus",
    "seed",
    "switches",
    "migrations",
    "delay p50",
    "p99",
    "end",
];

fn cells(outcome: &SweptRun) -> Vec<String> {
    let text = |name: &str| outcome.column(name).map(Cell::to_string).unwrap_or_default();
    let span = |name: &str| {
        outcome.column(name).and_then(Cell::int).map_or("-".to_string(), |ns| time(ns.unsigned_abs()))
    };
    let mut key = text("key");
    key.truncate(12);
    vec![
        key,
        text("workload"),
        text("sched"),
        text("params"),
        text("cpus"),
        text("seed"),
        text("switches"),
        text("migrations"),
        span("run_delay_p50_ns"),
        span("run_delay_p99_ns"),
        text("end"),
    ]
}

/// A line a run. What is JSON in a column is JSON here.
fn rows_as_json(dir: &Path, key: Option<&str>, path: &Path) -> Result<()> {
    const NESTED: [&str; 5] = ["trial", "params", "changed_experiment", "dropped", "warnings"];
    let value = |name: &str, cell: &Cell| match cell {
        Cell::Null => serde_json::Value::Null,
        Cell::Int(number) => (*number).into(),
        Cell::Bool(is) => (*is).into(),
        Cell::Text(text) if NESTED.contains(&name) => serde_json::from_str(text).unwrap_or_default(),
        Cell::Text(text) => text.to_string().into(),
    };
    let mut failed = None;
    output::json(Some(path), |out| {
        let result = dataset::for_each(dir, |outcome| {
            if key.is_some_and(|key| !outcome.key().to_string().starts_with(key)) {
                return Ok(());
            }
            let row =
                RUNS.iter().zip(outcome.run()).map(|(c, cell)| (c.name.to_string(), value(c.name, cell)));
            let row: serde_json::Map<String, serde_json::Value> = row.collect();
            let line = serde_json::Value::Object(row).to_string();
            writeln!(out, "{line}").map_err(|source| schedlab_sweep::SweepError::Io {
                doing: "write",
                path: path.to_owned(),
                source,
                remedy: "free space there",
            })
        });
        failed = result.err();
        Ok(())
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}
