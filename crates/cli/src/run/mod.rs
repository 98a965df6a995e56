//! `schedlab run`: a workload, under a scheduler, on a simulated machine.

pub(crate) mod many;

use crate::execute::{
    Files, Finished, Plan, command_line, command_of, conclude, execute, execute_while, question_of, report,
    write_files,
};
use crate::failure::{Failure, Result};
use crate::output;
use crate::parse::{Affinity, parse_cpus, parse_param};
use crate::seeds::{ManyArgs, Variation};
use crate::ui::Ui;
use crate::values::{Swept, combinations};
use clap::Args;
use schedlab_lab::{Loaded, Subject, SubjectSpec, load_all};
use schedlab_machine::kernel::SKEW_TICK;
use schedlab_report::{Detail, NextStep, Style};
use schedlab_runner::LinuxObject;
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Messages;
use schedlab_workload::derive::DeriveOptions;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A workload (text or binary), a recording, an rt-app description, a mix (TOML), or a folder with one of them.
    #[arg(required = true, value_name = "W")]
    pub workload: PathBuf,
    /// More workloads, each a run of its own.
    #[arg(value_name = "W")]
    pub more: Vec<PathBuf>,
    /// All workloads in one run, side by side on one machine, instead of a run for each.
    #[arg(long)]
    pub together: bool,
    /// The scheduler, with parameters if wanted: NAME[:KEY=VALUE]... (`schedlab schedulers` lists them; hz=1000 builds
    /// real Linux with other ticks).
    #[arg(long, value_name = "NAME")]
    pub sched: SubjectSpec,
    /// Where the channels of a recording come from: none (each block waits for its recorded wakeup), inferred (from who
    /// woke whom), or recorded (`record --objects`). The default is recorded if the recording has any, else none.
    #[arg(long, value_name = "CHOICE")]
    pub messages: Option<Messages>,
    /// Where tasks may run: recorded (where the recording or the workload allows them to), or none (on every CPU).
    #[arg(long, value_name = "CHOICE", default_value = "recorded")]
    pub affinity: Affinity,
    /// Number of CPUs, all alike.
    #[arg(long, value_name = "N", conflicts_with = "machine", value_parser = parse_cpus)]
    pub cpus: Option<Topology>,
    /// The machine: a number, or packages=2,llcs=2,cores=4,smt=2, or a preset, or /sys or a copy: `schedlab machines`.
    #[arg(long, value_name = "TOPO")]
    pub machine: Option<Topology>,
    #[command(flatten)]
    pub window: crate::window::WindowArgs,
    /// Stop after this much simulated time.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Timer ticks per second of real Linux: 100, 250, 300 or 1000.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// A tunable of the scheduler, NAME=VALUE; may be given several times.
    #[arg(long, value_name = "K=V", value_parser = parse_param)]
    pub param: Vec<(String, String)>,
    /// A run for each value of a parameter: NAME=VALUE,VALUE,... (a comma within a value is written \,); given
    /// several times, a run for each combination.
    #[arg(long, value_name = "K=V,V")]
    pub sweep: Vec<Swept>,
    /// Write the schedule log: Arrow if the name ends in .arrow, else text.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub results: output::ResultArgs,
    #[command(flatten)]
    pub at: crate::at::AtArgs,
    /// End the run if the scheduler does nothing for this long: an endless loop. (Time in which this machine does not
    /// let it run does not count.)
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub stall: Span,
    #[command(flatten)]
    pub explain: crate::explain::ExplainArgs,
    #[command(flatten)]
    pub profile: crate::profile::ProfileArgs,
    #[command(flatten)]
    pub coverage: crate::coverage::CoverageArgs,
    /// Ticks of all CPUs at one instant, or spread over half a tick.
    #[arg(long, value_name = "PHASE", default_value = "aligned", value_parser = ["aligned", "staggered"])]
    pub ticks: String,
    #[command(flatten)]
    pub many: ManyArgs,
}

impl RunArgs {
    /// The machine asked for.
    pub fn topology(&self) -> Option<&Topology> {
        self.machine.as_ref().or(self.cpus.as_ref())
    }
}

pub(crate) fn run(args: &RunArgs, ui: &Ui) -> Result<()> {
    let topology = checked_topology(args)?;
    check_outputs(args)?;
    args.coverage.check()?;
    let variations = args.many.variations()?;
    let combinations = combinations(&args.sweep)?;
    let several = (!args.more.is_empty() && !args.together) || variations.len() > 1 || !args.sweep.is_empty();
    if several && (!args.explain.is_empty() || args.coverage.coverage.is_some()) {
        return Err(Failure::Input(
            "--explain, --read-out and --coverage are about one run; give one workload, one seed and no --sweep".into(),
        ));
    }
    if several {
        return many::run_many(args, topology, (&combinations, &variations), ui);
    }
    let loaded = load(args, ui)?;
    let subject = subject(args, &[], topology, ui)?;
    let mut plan = plan(args, &loaded, &subject, topology, &variations[0]);
    let version = subject.linux().map(|linux| linux.linux_version());
    plan.actions.extend(args.explain.actions(&loaded.workload, version)?);
    let mut finished = execute(&plan, ui)?;
    finished.facts.next_steps = next_steps(args, &plan.command);
    if version.is_some() {
        finished.facts.explain = question_of(std::env::args().skip(1).collect());
    }
    write_outputs(args, &finished, ui)?;
    args.coverage.write(&finished.coverage)?;
    crate::profile::profile(&args.profile, ui)?;
    conclude(&finished)
}

/// One run for a program around this library: nothing is printed or written. The workload may have been loaded before,
/// and a kernel object found.
pub(crate) fn one(
    args: &RunArgs,
    given: (Option<&Loaded>, Option<LinuxObject>),
    words: &[String],
    go_on: &mut dyn FnMut() -> bool,
    ui: &Ui,
) -> Result<Finished> {
    let topology = checked_topology(args)?;
    let variations = args.many.variations()?;
    let is_several = !args.more.is_empty() && !args.together;
    if is_several || variations.len() > 1 || !args.sweep.is_empty() {
        return Err(Failure::Input(
            "these are several runs; ask for one: one workload (or together), one seed, no list of values"
                .into(),
        ));
    }
    let (loaded, object) = given;
    let mut own = None;
    let loaded = match loaded {
        Some(loaded) => loaded,
        None => own.insert(load(args, ui)?),
    };
    let subject = match object {
        Some(object) => with_ticks(args, args.sched.and(&args.param).with_object(object)),
        None => subject(args, &[], topology, ui)?,
    };
    let plan = Plan {
        command: command_of(words.to_vec()),
        ..plan(args, loaded, &subject, topology, &variations[0])
    };
    let mut finished = execute_while(&plan, go_on, ui)?;
    if subject.linux().is_some() {
        finished.facts.explain = question_of(words.to_vec());
    }
    Ok(finished)
}

/// The machine, if what is asked for can be run at all.
fn checked_topology(args: &RunArgs) -> Result<&Topology> {
    let topology = args.topology().ok_or_else(|| {
        Failure::Input("how many CPUs? Give --cpus N, or --machine packages=2,cores=4,smt=2".to_string())
    })?;
    if args.stall == Span::ZERO {
        return Err(Failure::Input(
            "--stall 0: expected a time greater than zero, for example 5s".to_string(),
        ));
    }
    Ok(topology)
}

/// The kernel object of a run's scheduler, as JSON on standard output; it is built if it is not there yet. For a
/// program around this library: whose compilers are started by a process of their own.
pub(crate) fn resolve(args: &RunArgs, ui: &Ui) -> Result<()> {
    let subject = subject(args, &[], checked_topology(args)?, ui)?;
    output::print_json(&subject.linux())
}

/// Whether a run has nothing to compile first.
pub(crate) fn is_ready(args: &RunArgs, ui: &Ui) -> Result<bool> {
    Ok(args.sched.and(&args.param).is_ready(ui.setting(args.hz, checked_topology(args)?))?)
}

/// The workload of one run: with `--together` all that are given, side by side.
fn load(args: &RunArgs, ui: &Ui) -> Result<Loaded> {
    let more = if args.together { &args.more[..] } else { &[] };
    let all: Vec<PathBuf> = std::iter::once(&args.workload).chain(more).cloned().collect();
    load_these(args, &all, ui)
}

/// These as one, as the command line wants recordings to be understood.
fn load_these(args: &RunArgs, all: &[PathBuf], ui: &Ui) -> Result<Loaded> {
    if let Some(messages) = args.messages.filter(|messages| *messages != Messages::None)
        && let Some(path) = all.iter().find(|path| !schedlab_lab::is_recording(path))
    {
        return Err(Failure::Input(format!(
            "{}: --messages {messages} needs a recording: a workload has its channels, or has none; leave --messages \
             out",
            path.display()
        )));
    }
    let options =
        DeriveOptions { window: args.window.window(), messages: args.messages, ..DeriveOptions::default() };
    let mut loaded = load_all(all, options, ui)?;
    args.affinity.apply(&mut loaded);
    Ok(loaded)
}

/// The scheduler with everything that the command line sets, and `more`; real Linux is built if it is not there yet.
fn subject(args: &RunArgs, more: &[(String, String)], topology: &Topology, ui: &Ui) -> Result<Subject> {
    let subject = args.sched.and(&args.param).and(more).resolve(ui.setting(args.hz, topology))?;
    Ok(with_ticks(args, subject))
}

fn with_ticks(args: &RunArgs, subject: Subject) -> Subject {
    if args.ticks == "staggered" { subject.with(SKEW_TICK, "1") } else { subject }
}

/// One run as the command line describes it.
fn plan<'a>(
    args: &RunArgs,
    loaded: &'a Loaded,
    subject: &Subject,
    topology: &Topology,
    variation: &Variation,
) -> Plan<'a> {
    let subject = subject.clone();
    Plan {
        loaded,
        subject: if let Some(seed) = variation.seed { subject.seeded(seed) } else { subject },
        topology: topology.clone(),
        duration: args.duration,
        perturb: variation.perturb,
        seed: variation.number(),
        costs: variation.costs,
        actions: args.at.actions(),
        stall_limit: Duration::from_nanos(args.stall.as_ns()),
        crash_log: args.log.clone(),
        command: command_line(),
    }
}

/// The same run again, with a picture.
fn next_steps(args: &RunArgs, command: &str) -> Vec<NextStep> {
    let mut steps = Vec::new();
    if args.results.html.is_none() {
        let command = format!("{command} --html report.html");
        steps.push(NextStep { what: "see who ran when".into(), command });
    }
    if args.results.perfetto.is_none() {
        let command = format!("{command} --perfetto run.pftrace");
        steps.push(NextStep { what: "open it in ui.perfetto.dev".into(), command });
    }
    steps
}

/// Refuses outputs that cannot be written before anything is run.
fn check_outputs(args: &RunArgs) -> Result<()> {
    let paths = [&args.log, &args.results.perfetto, &args.results.html, &args.results.json];
    paths.into_iter().flatten().try_for_each(|path| output::check(path))
}

fn write_outputs(args: &RunArgs, finished: &Finished, ui: &Ui) -> Result<()> {
    let step = ui.step("writing results");
    let files = Files {
        log: args.log.clone(),
        perfetto: args.results.perfetto.clone(),
        html: args.results.html.clone(),
    };
    write_files(&files, finished)?;
    args.explain.write(&finished.decisions)?;
    drop(step);
    if !output::json(args.results.json.as_deref(), |out| schedlab_report::json(finished.view(), out))? {
        let report = report(finished, Detail::for_terminal(finished.header().nr_cpus))?;
        print!("{}", schedlab_report::terminal(&report, Style::detect()));
        crate::at::print(&finished.readings);
        args.explain.show(&finished.decisions, finished.header());
    }
    for (what, path) in
        [("log", &args.log), ("Perfetto file", &args.results.perfetto), ("HTML report", &args.results.html)]
    {
        if let Some(path) = path {
            ui.say(format!("{what}: {}", path.display()));
        }
    }
    Ok(())
}
