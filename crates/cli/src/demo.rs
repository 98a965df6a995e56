//! `schedlab demo`: the whole flow once, on something real.
//!
//! Record a parallel compile (or take the sample), replay it through real Linux and two native schedulers on
//! 2 and on 8 CPUs, and put the results side by side.

use crate::execute::{Finished, Plan, conclude, execute, report};
use crate::failure::{Failure, Result};
use crate::project::project_file;
use crate::ui::Ui;
use clap::Args;
use schedlab_host::anonymise::Others;
use schedlab_host::{RecordOptions, RecordRequest, Scope};
use schedlab_lab::{Loaded, Subject, SubjectSpec, load};
use schedlab_report::{Detail, PerfettoOptions, Style};
use schedlab_topology::Topology;
use std::path::{Path, PathBuf};

const LINUX: &str = "linux-6.12";
const HZ: u32 = 250;
const CPUS: [u32; 2] = [2, 8];
const NATIVE: [&str; 2] = ["fifo", "rr"];

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Folder for the report, the Perfetto file and the trace.
    #[arg(short, long, default_value = "out")]
    pub output: PathBuf,
    /// Take a sample even if recording is possible here.
    #[arg(long)]
    pub no_record: bool,
}

pub(crate) fn demo(args: &DemoArgs, ui: &Ui) -> Result<()> {
    std::fs::create_dir_all(&args.output).map_err(|error| {
        Failure::Input(format!(
            "{}: the folder cannot be made: {error}; name another with --output",
            args.output.display()
        ))
    })?;
    let trace = obtain_trace(args, ui)?;
    let mut loaded = load(&trace, ui)?;
    if trace.starts_with(&args.output) {
        loaded.name = "demo".to_string(); // not the folder's
    }
    ui.say(format!("{}: {} tasks", trace.display(), loaded.workload.tasks.len()));

    let mut runs: Vec<Finished> = Vec::new();
    let one = Topology::flat(1).map_err(Failure::input)?;
    let linux: SubjectSpec = LINUX.parse()?;
    let native = || NATIVE.iter().map(|name| one_run(&loaded, &Subject::native(name)?, CPUS[0], &trace, ui));
    let mut natives: Vec<Finished> = Vec::new();
    if !linux.is_ready(ui.setting(HZ, &one)).unwrap_or(false) {
        // a build takes minutes, and the first picture does not wait for it
        natives = native().collect::<Result<_>>()?;
        ui.say(format!(
            "a first picture, without real Linux: {}",
            draw(&natives, &loaded, &args.output)?.display()
        ));
    }
    match linux.resolve(ui.setting(HZ, &one)) {
        Ok(linux) => {
            for cpus in CPUS {
                runs.push(one_run(&loaded, &linux, cpus, &trace, ui)?);
            }
        }
        Err(error) => {
            ui.say(format!("real Linux is left out: {error}"));
            ui.say("native schedulers, reports and everything else work without it");
        }
    }
    if natives.is_empty() {
        natives = native().collect::<Result<_>>()?;
    }
    runs.append(&mut natives);
    show(&runs, &loaded, &args.output, ui)?;
    runs.iter().try_for_each(conclude)
}

fn one_run(loaded: &Loaded, subject: &Subject, cpus: u32, trace: &Path, ui: &Ui) -> Result<Finished> {
    let plan = Plan {
        loaded,
        subject: subject.clone(),
        topology: Topology::flat(cpus).map_err(Failure::input)?,
        duration: None,
        perturb: None,
        seed: None,
        costs: None,
        actions: Vec::new(),
        stall_limit: schedlab_runner::STALL_LIMIT,
        crash_log: None,
        command: format!("schedlab run {} --sched {} --cpus {cpus}", trace.display(), subject.label),
    };
    execute(&plan, ui)
}

/// Records here if that is possible, else names a sample; says which and why.
fn obtain_trace(args: &DemoArgs, ui: &Ui) -> Result<PathBuf> {
    if !args.no_record {
        match record(&args.output, ui) {
            Ok(trace) => return Ok(trace),
            Err(reason) => ui.say(format!("not recorded here: {reason}")),
        }
    }
    let sample = project_file("samples/compile").ok_or_else(|| {
        Failure::Input(
            "there is no sample to show: run this in the project's folder, where samples/ is".to_string(),
        )
    })?;
    ui.say(format!("taking the sample {}", sample.display()));
    Ok(sample)
}

fn record(output: &Path, ui: &Ui) -> std::result::Result<PathBuf, String> {
    let script = project_file("scripts/demo-workload.sh").ok_or("scripts/demo-workload.sh is not here")?;
    let trace = output.join("trace.dat");
    let what = RecordRequest::Command { argv: vec![script.into()], duration: None, scope: Scope::Whole };
    ui.say("recording a real workload (a parallel compile, a compressor, a metronome): about 15 s");
    let mut options = RecordOptions::new(&trace, what);
    options.anonymise = Some(Others::Drop); // what else runs here is nobody's business
    let recorded = crate::record::capture(&options, ui).map_err(|error| error.to_string())?;
    if recorded.status() != 0 {
        return Err(format!("the workload ended with status {}", recorded.status()));
    }
    ui.say(recorded.to_string().trim_end());
    Ok(trace)
}

fn show(runs: &[Finished], loaded: &Loaded, output: &Path, ui: &Ui) -> Result<()> {
    let style = Style::detect();
    if let Some(first) = runs.first() {
        // (the others have their own lists in the page)
        print!(
            "{}",
            schedlab_report::terminal(&report(first, Detail::for_terminal(first.header().nr_cpus))?, style)
        );
    }
    println!();
    println!(
        "{:<12} {:>5} {:>12} {:>10} {:>10} {:>11} {:>11} {:>11} {:>12}",
        "scheduler",
        "CPUs",
        "simulated",
        "switches",
        "migrations",
        "delay mean",
        "delay p99",
        "delay max",
        "speed"
    );
    for run in runs {
        let (header, system) = (run.header(), &run.summary.system);
        println!(
            "{:<12} {:>5} {:>10.2} s {:>10} {:>10} {:>8.3} ms {:>8.3} ms {:>8.1} ms {:>7.0} x rt",
            header.sched,
            header.nr_cpus,
            header.duration.as_s_f64(),
            system.switches,
            system.migrations,
            system.run_delay.mean_ns() as f64 * 1e-6,
            system.run_delay.percentile_ns(990) as f64 * 1e-6,
            system.run_delay.max_ns() as f64 * 1e-6,
            header.duration.as_ns() as f64 / run.facts.wall_ns.max(1) as f64
        );
    }
    let html = draw(runs, loaded, output)?;
    let perfetto = output.join("demo.pftrace");
    let first = runs.first().ok_or_else(|| Failure::Internal("the demo ran nothing".into()))?;
    schedlab_report::perfetto(&perfetto, &first.log, PerfettoOptions::default()).map_err(Failure::input)?;
    println!();
    println!("report:        {}", html.display());
    println!("Perfetto file: {}   (open it at ui.perfetto.dev)", perfetto.display());
    ui.say("delay: time from runnable to running; x rt: times real time");
    Ok(())
}

/// The page with all runs.
fn draw(runs: &[Finished], loaded: &Loaded, output: &Path) -> Result<PathBuf> {
    let html = output.join("demo.html");
    let reports: Vec<_> =
        runs.iter().map(|run| report(run, Detail::for_html(runs.len()))).collect::<Result<Vec<_>>>()?;
    schedlab_report::html(&html, &format!("{}: one workload, several schedulers", loaded.name), &reports)
        .map_err(Failure::input)?;
    Ok(html)
}
