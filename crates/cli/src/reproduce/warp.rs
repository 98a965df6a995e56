//! The paper on WARP.

use crate::failure::{Failure, Result};
use crate::fairness::built_linux;
use crate::guest;
use crate::output;
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::warp::{Benchmark, Levels, Overhead, Real, Recording, WarpConfig, reproduce};
use schedlab_host::overhead::{self, Spread};
use schedlab_real::{Arm, GuestKernel, Options};
use schedlab_units::Span;
use schedlab_validate::{Case, SERIES};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct WarpArgs {
    /// Recordings for figures 5 and 6: traces or workloads. One whose name has gzip, compile, interactive,
    /// hackbench or kv in it stands beside the paper's workload of that kind.
    #[arg(value_name = "RECORDING", default_values = SAMPLES)]
    pub recordings: Vec<PathBuf>,
    /// CPUs of their replays.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub cpus: u32,
    /// Replays of each, of which the shortest counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    /// Length of fairbench and responsebench. The paper's is 180s.
    #[arg(long, value_name = "TIME", default_value = "180s")]
    pub duration: Span,
    /// Runs of each benchmark and scheduler, which differ in the tick's phase and the lateness of timers.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub samples: u32,
    /// Boot real kernels again for figures 7 and 10 (some minutes each), and keep what they did in this file.
    #[arg(long, value_name = "FILE")]
    pub refresh: Option<PathBuf>,
    /// Runs of each workload for what tracing costs (section V.C; needs root): some 30 s each; 0 for the
    /// types of event alone.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub overhead_runs: u32,
    /// Pairs of slices of 15 ms for each type of event, one with it recorded and one without.
    #[arg(long, value_name = "N", default_value_t = crate::record::OVERHEAD_PAIRS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub overhead_pairs: u32,
    /// Leave out what tracing costs.
    #[arg(long, conflicts_with_all = ["overhead_runs", "overhead_pairs"])]
    pub no_overhead: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

const SAMPLES: [&str; 5] =
    ["samples/gzip", "samples/interactive", "samples/compile", "samples/hackbench", "samples/kv"];
/// Which row of the paper's figure 6 a recording's name points to.
const LIKE: [(&str, usize); 5] =
    [("gzip", 0), ("interactive", 1), ("compile", 2), ("hackbench", 3), ("kv", 3)];
/// Real runs of each benchmark, each with another phase of the tick.
const REAL_RUNS: u32 = 1;
/// A guest takes one to three times its own time on a quiet host.
const WALL_LIMIT_S: u64 = 3600;
const HZ: u32 = 250;

/// What guests did, as kept.
const KEPT: &str = include_str!("../../../../tests/golden/warp.json");

pub(super) fn warp(args: &WarpArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let mut config = WarpConfig {
        cpus: args.cpus,
        repeats: args.repeats,
        duration: args.duration,
        samples: args.samples,
        ..WarpConfig::default()
    };
    for path in &args.recordings {
        config.recordings.push(recording(path, ui)?);
    }
    config.linux = built_linux(HZ, ui)?;
    config.real = match &args.refresh {
        Some(path) => refresh(path, args.duration, ui)?,
        None => serde_json::from_str(KEPT)
            .map_err(|error| Failure::Internal(format!("tests/golden/warp.json: {error}")))?,
    };
    (config.overhead, config.overhead_note) = tracing(args, ui)?;
    let step = ui.step("replaying the recordings, and running fairbench and responsebench");
    let mut pages = reproduce(&config)?;
    drop(step);
    if config.linux.is_empty() {
        let note = "No Linux is built: 'schedlab linux add 6.12' and '6.1' bring unmodified kernels into every figure.";
        pages.remarks.push(note.to_string());
        ui.say(note);
    }
    let mut summary = String::new();
    for table in &pages.tables {
        summary += &format!("{}\n{}\n", table.title, table.to_text());
    }
    args.output.deliver(&pages, &summary, ui)
}

/// What tracing costs on this host, and where that was measured or why it was not.
fn tracing(args: &WarpArgs, ui: &Ui) -> Result<(Vec<Overhead>, String)> {
    if args.no_overhead {
        return Ok((Vec::new(), "what tracing costs was left out (--no-overhead)".into()));
    }
    let runs = args.overhead_runs;
    let step = ui.step("measuring what tracing costs");
    let options = crate::record::overhead_options(args.overhead_pairs, runs)?;
    let measured = match overhead::measure(&options, &mut |what| step.now(what)) {
        Ok(measured) => measured,
        Err(error) if error.is_unavailable() => {
            return Ok((Vec::new(), format!("what tracing costs could not be measured here: {error}")));
        }
        Err(error) => return Err(Failure::input(error)),
    };
    drop(step);
    let mut note = format!(
        "measured on Linux {} with {} CPUs, {runs} runs of each workload, while the host did whatever else it did",
        measured.kernel, measured.cpus
    );
    for cost in &measured.workloads {
        note.extend(cost.missing.map(|why| format!("; {} could not be run: {why}", cost.name)));
    }
    Ok((overhead_rows(&measured), note))
}

fn overhead_rows(measured: &overhead::Overhead) -> Vec<Overhead> {
    let row = |what: &str, like: &str, way: &str, us: Spread| Overhead {
        what: what.into(),
        like: like.into(),
        way: way.into(),
        us: us.median,
        low_us: us.low,
        high_us: us.high,
    };
    let mut rows = Vec::new();
    for cost in measured.events.iter().filter(|cost| cost.published_us().is_some()) {
        let name = cost.operation.name();
        rows.extend(cost.us.map(|us| row(&cost.operation.events().join(" + "), name, "ftrace", us)));
        rows.extend(cost.bpf_us.map(|us| row(&cost.operation.events().join(" + "), name, "bpf", us)));
    }
    for cost in &measured.workloads {
        let Some((like, _)) = cost.published() else { continue };
        for way in &cost.ways {
            let sum = |part: fn(&Spread) -> f64| part(&way.drain_us) + part(&way.write_us);
            let us = Spread { median: sum(|s| s.median), low: sum(|s| s.low), high: sum(|s| s.high) };
            rows.push(row(cost.name, like, way.way, us));
        }
    }
    rows
}

fn recording(path: &Path, ui: &Ui) -> Result<Recording> {
    let loaded = schedlab_lab::load(path, ui)?;
    let recorded = loaded.derived.as_ref().map(|summary| Span::from_ns(summary.duration_ns));
    let Some(recorded) = recorded else {
        return Err(Failure::Input(format!(
            "{}: a workload file does not say how long the recorded run took; give the trace that it came from",
            path.display()
        )));
    };
    crate::changes::tell_of(&loaded.name, &loaded.workload, None, ui)?;
    let like = LIKE.iter().find(|(part, _)| loaded.name.contains(part)).map(|(_, row)| *row);
    Ok(Recording { name: loaded.name, like, workload: loaded.workload, recorded })
}

/// Boots every kernel for both benchmarks.
fn refresh(path: &Path, duration: Span, ui: &Ui) -> Result<Vec<Real>> {
    let mut runs = Vec::new();
    for series in SERIES {
        let kernel = GuestKernel::find(series).map_err(guest::failure)?;
        for benchmark in Benchmark::ALL {
            for index in 0..REAL_RUNS {
                let options = Options {
                    duration,
                    phase: Case::phase(index),
                    wall_limit_s: WALL_LIMIT_S,
                    ..Options::default()
                };
                let what = format!("guest {series}, {} for {duration}, run {}", benchmark.name(), index + 1);
                let workload = benchmark.workload(duration);
                let run =
                    Arm::Guest(kernel.clone()).perform(&workload, &options, &mut guest::stages(ui, &what));
                let run = run.map_err(guest::failure)?;
                runs.push(Real {
                    series: series.to_string(),
                    version: format!("guest, {}", run.report.package_version),
                    key: run.report.key,
                    benchmark,
                    duration_ns: duration.as_ns(),
                    levels: Levels::of(&run.log).map_err(|error| Failure::Internal(error.to_string()))?,
                });
            }
        }
    }
    let lines: Vec<String> =
        runs.iter().map(|run| serde_json::to_string(run).expect("plain data is valid JSON")).collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    output::text(path, &text)?;
    Ok(runs)
}
