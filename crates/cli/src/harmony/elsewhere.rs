//! `harmony plan`, `perform` and `judge`: the parts of a question, for runs that are made elsewhere.

use super::print_model;
use crate::execute::command_line;
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::{Args, Subcommand};
use schedlab_harmony::elsewhere::{MANIFEST, Part, judged, read, write};
use schedlab_harmony::experiments::Depth;
use schedlab_harmony::model::Model;
use schedlab_harmony::toy::toy;
use schedlab_lab::{Real, SpecForm, Subject, SubjectSpec};
use schedlab_log::Log;
use schedlab_real::{Arm, GuestKernel, Options};
use schedlab_runner::pool;
use schedlab_topology::Topology;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub(crate) enum Elsewhere {
    /// Write the plans of all experiments into a folder: to be performed anywhere.
    Plan(PlanArgs),
    /// Perform the plans of a folder and put each run's log beside its plan.
    Perform(PerformArgs),
    /// Judge the logs and recordings in a folder: ours, trace.dat, perf.data, ...
    Judge(JudgeArgs),
    /// What the probes see in any log: queue lengths, dispatches, moves with who made them, CPU time.
    Probe(super::probe::ProbeArgs),
}

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// The folder; it is made.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// CPUs of the machine, all alike.
    #[arg(long, value_name = "N", default_value = "4", conflicts_with = "machine")]
    #[arg(value_parser = crate::parse::parse_cpus)]
    pub cpus: Topology,
    /// A machine: packages=2,llcs=2,cores=4,smt=2, or a name (`schedlab machines`).
    #[arg(long, value_name = "TOPO")]
    pub machine: Option<Topology>,
    /// Fewer runs, and only the questions of the paper's table 1 and those near them.
    #[arg(long)]
    pub quick: bool,
    /// Other drawn times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seed: u64,
}

#[derive(Args, Debug)]
pub(crate) struct PerformArgs {
    /// The folder that `harmony plan` wrote.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Who performs: a scheduler in the simulated machine; guest:6.1, guest:6.12, a real kernel in a virtual machine;
    /// host, this machine's own (as root).
    #[arg(long, value_name = "SPEC")]
    pub sched: SubjectSpec,
    /// Only the runs of these experiments: spread,intrinsic,...
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Timer ticks per second of real Linux in the simulated machine: 100, 250, 300 or 1000.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// Most runs at once in the simulated machine; all cores unless given.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    pub jobs: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct JudgeArgs {
    /// The folder with plans and logs: RUN.arrow, RUN.log, RUN.dat, RUN.data, ...
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print the reasoning behind an answer; may be given several times.
    #[arg(long, value_name = "ID")]
    pub explain: Vec<String>,
    /// Write a page with a picture per answer.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the answers as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub(super) fn elsewhere(part: &Elsewhere, ui: &Ui) -> Result<()> {
    match part {
        Elsewhere::Plan(args) => plan(args, ui),
        Elsewhere::Perform(args) => perform(args, ui),
        Elsewhere::Judge(args) => judge(args, ui),
        Elsewhere::Probe(args) => super::probe::probe(args, ui),
    }
}

fn plan(args: &PlanArgs, ui: &Ui) -> Result<()> {
    let topology = args.machine.as_ref().unwrap_or(&args.cpus);
    if topology.nr_cpus() < 2 {
        return Err(super::one_cpu());
    }
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let manifest = write(&args.output, topology, depth, args.seed)?;
    println!("{} runs; {}", manifest.runs.len(), args.output.join(MANIFEST).display());
    ui.say("perform them ('schedlab harmony perform DIR --sched SPEC', or by other means), then judge the folder");
    Ok(())
}

fn perform(args: &PerformArgs, ui: &Ui) -> Result<()> {
    let (topology, parts) = read(&args.folder)?;
    let is_wanted = |part: &Part| args.only.is_empty() || args.only.contains(&part.entry.experiment);
    if let Some(unknown) =
        args.only.iter().find(|name| parts.iter().all(|part| part.entry.experiment != **name))
    {
        let mut known: Vec<&str> = parts.iter().map(|part| part.entry.experiment.as_str()).collect();
        known.dedup();
        return Err(Failure::Input(format!("--only {unknown}: the plan has {}", known.join(", "))));
    }
    let parts: Vec<Part> = parts.into_iter().filter(is_wanted).collect();
    match args.sched.form() {
        SpecForm::Guest { .. } | SpecForm::Host => perform_really(args, &topology, &parts, ui),
        _ => perform_here(args, &topology, &parts, ui),
    }
}

fn path_of(folder: &Path, part: &Part) -> PathBuf {
    folder.join(format!("{}.arrow", part.entry.run))
}

/// In the simulated machine.
fn perform_here(args: &PerformArgs, topology: &Topology, parts: &[Part], ui: &Ui) -> Result<()> {
    let spec = &args.sched;
    let subject: Subject = match spec.name() {
        "toy" => toy(spec.text(), spec.params()).map_err(Failure::input)?,
        _ => spec.resolve(ui.setting(args.hz, topology))?,
    };
    let step = ui.step(format!("performing under {}", subject.label));
    let one = |number: usize| {
        let part = &parts[number];
        let finished = part.scenario.finished(&subject, topology, part.drawn())?;
        schedlab_log::write(&path_of(&args.folder, part), &finished.log).map_err(Failure::input)
    };
    let jobs = args.jobs.unwrap_or_else(pool::cores).max(1);
    let on_progress = |done: usize| step.progress(format!("{done} of {} runs", parts.len()));
    let results = pool::map(parts.len(), jobs, one, on_progress).map_err(Failure::input)?;
    drop(step);
    for result in results {
        result.map_err(|lost| Failure::Internal(lost.to_string()))??;
    }
    println!("{} runs performed by {}", parts.len(), subject.label);
    Ok(())
}

/// By a real kernel: as real processes, one run after the other.
fn perform_really(args: &PerformArgs, topology: &Topology, parts: &[Part], ui: &Ui) -> Result<()> {
    let arm = match args.sched.real("harmony perform")? {
        Real::Guest(name) => Arm::Guest(GuestKernel::find(name).map_err(crate::guest::failure)?),
        Real::Host => Arm::Host,
    };
    if *topology != Topology::flat(topology.nr_cpus()).map_err(Failure::input)? {
        return Err(Failure::Input(format!(
            "{}: the plan's machine is {topology}; a real kernel here has CPUs that are all alike: plan with --cpus {}",
            args.folder.display(),
            topology.nr_cpus()
        )));
    }
    let (mut performed, mut not) = (0, Vec::new());
    for (number, part) in parts.iter().enumerate() {
        let Some(workload) = part.controlled().map_err(|error| Failure::Internal(error.to_string()))? else {
            not.push(part.entry.experiment.as_str());
            continue;
        };
        let step = ui.step(format!("{} of {}: {}", number + 1, parts.len(), part.entry.run));
        let options = Options {
            cpus: topology.nr_cpus(),
            duration: part.scenario.duration,
            trace_buffer_mb: 32,
            wall_limit_s: 1800,
            ..Options::default()
        };
        let real = arm.perform(&workload, &options, &mut |_| {}).map_err(crate::guest::failure)?;
        drop(step);
        if real.report.nr_refused > 0 {
            let refused: Vec<String> = real.report.refused().into_keys().collect();
            return Err(Failure::Input(format!(
                "{}: the kernel refused part of it: {}",
                part.entry.run,
                refused.join("; ")
            )));
        }
        let log: &dyn Log = &real.log;
        schedlab_log::write(&path_of(&args.folder, part), log).map_err(Failure::input)?;
        performed += 1;
    }
    println!("{performed} runs performed by {}", args.sched.text());
    not.dedup();
    if !not.is_empty() {
        println!(
            "not performed: {}; there tasks are stopped while they compute, which no process here does to another",
            not.join(", ")
        );
    }
    Ok(())
}

fn judge(args: &JudgeArgs, ui: &Ui) -> Result<()> {
    [&args.html, &args.json].into_iter().flatten().try_for_each(|path| output::check(path))?;
    let step = ui.step(format!("reading {}", args.folder.display()));
    let data = judged(&args.folder, |done, all| step.progress(format!("{done} of {all} logs")))?;
    drop(step);
    let folder = args.folder.display().to_string();
    let model = Model { folder: Some(folder.clone()), ..Model::of(&data, &folder, &command_line()) };
    print_model(&model, &args.explain, &args.html, &args.json, ui)
}
