//! What can be asked for: the command line. Its names are a contract; scripts use them.

use crate::dependencies::DependenciesArgs;
use crate::record::RecordArgs;
use clap::{Args, Parser, Subcommand};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Dependencies;
use std::path::PathBuf;

/// A laboratory for CPU schedulers: record real workloads, replay them in simulated time through unmodified Linux
/// or a scheduler of your own, on any number of CPUs, and see what happened and why.
#[derive(Parser, Debug)]
#[command(
    name = "schedlab",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// No progress; results only.
    #[arg(long, global = true)]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Record a real workload here (or take a sample), run it through Linux and native schedulers, show the result.
    Demo(DemoArgs),
    /// Record the scheduling events of a command, processes, control groups, or the whole system (needs root).
    Record(RecordArgs),
    /// Make a recording fit to be given away: without the names of strangers, host, paths and groups.
    Anonymise(crate::anonymise::AnonymiseArgs),
    /// Turn a recording (trace.dat, perf.data, ftrace text, Perfetto) or an rt-app description into a workload.
    Import(ImportArgs),
    /// What does it do to replayed latencies whether wakeups depend on their causes? A recording, replayed with and without.
    Dependencies(DependenciesArgs),
    /// Make a workload: fairbench, responsebench, hogs, sleepers, hackbench, server, forkstorm, execstorm, periodic, arrivals, random.
    Generate(GenerateArgs),
    /// Look at a workload, or take a part of it: show, filter, cut, scale, anonymise, convert.
    #[command(subcommand)]
    Workload(crate::workload::WorkloadCommand),
    /// Run a workload under a scheduler, on a simulated machine.
    Run(Box<RunArgs>),
    /// Several schedulers or parameters on the same workload, over an ensemble of perturbed replays: what changed, most first.
    Compare(crate::compare::CompareArgs),
    /// The first decision in which two schedule logs differ, with the state on both sides; exit status 1 if there is one.
    Diff(crate::diff::DiffArgs),
    /// Times in which a CPU idled beside a task that it may run, from a schedule log: when, which CPUs, which tasks.
    Wasted(crate::wasted::WastedArgs),
    /// A schedule log for other tools: trace.dat (trace-cmd, KernelShark, import), Perfetto, Arrow, text.
    Export(crate::export::ExportArgs),
    /// Real Linux: fetch, build, list, check, debug, remove; make its bugs again.
    #[command(subcommand)]
    Linux(crate::linux::LinuxCommand),
    /// How far from its due does each client get, and what does deciding cost? The study of the paper on VTRR, for any scheduler.
    Fairness(Box<crate::fairness::FairnessArgs>),
    /// Every table and figure of a paper, beside the published value.
    #[command(subcommand)]
    Reproduce(crate::reproduce::ReproduceCommand),
    #[command(hide = true)]
    Probe(crate::fairness::ProbeArgs),
    #[command(hide = true)]
    ProbeMachine(crate::fairness::ProbeMachineArgs),
    /// Real Linux in a deterministic QEMU guest: ground truth.
    #[command(subcommand)]
    Guest(crate::guest::GuestCommand),
    /// Compare the simulation with real Linux: tables with tolerances and verdicts.
    Validate(crate::validate::ValidateArgs),
    /// Compare native CFS and EEVDF with the real kernels that they model, decision by decision, and explain the differences.
    Agreement(crate::agreement::AgreementArgs),
    /// Which random sets of periodic tasks do real-time schedulers serve in time? Against theory, with curves.
    Schedulability(crate::schedulability::SchedulabilityArgs),
    /// Show a machine that --machine takes, or list those with a name; take a snapshot of this one.
    Machines(crate::machines::MachinesArgs),
    /// List the schedulers that --sched takes, with their parameters.
    Schedulers {
        /// Show this one in full.
        name: Option<String>,
        /// Show the defaults that real Linux has on so many CPUs.
        #[arg(long, value_name = "N", default_value_t = 1)]
        cpus: u32,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Folder for the report, the Perfetto file and the trace.
    #[arg(short, long, default_value = "out")]
    pub output: PathBuf,
    /// Take a sample even if recording is possible here.
    #[arg(long)]
    pub no_record: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// A recording: trace.dat, perf.data (file, pipe, compressed), ftrace's text (also of trace-cmd report, perf script), a
    /// Perfetto trace; or rt-app's JSON; or a folder with one of them. The content tells which.
    pub input: PathBuf,
    /// Workload file to write: text, or binary if the name ends in .wlb.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Take what a damaged or truncated trace still holds, and count what is missing.
    #[arg(long)]
    pub lenient: bool,
    /// Which wakeups depend on the task that caused them: infer (by evidence), all (and every softirq's), none (each sleep as long as
    /// recorded), or tasks=NAME,WAKER>SLEEPER,... (only these; * stands for any text).
    #[arg(long, value_name = "CHOICE", default_value = "infer")]
    pub dependencies: Dependencies,
    /// Leave the time of recorded interrupts in the tasks' CPU time.
    #[arg(long)]
    pub keep_interrupts: bool,
    /// Summary as JSON, to a file or `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to make, or a TOML file (NAME.toml) with kind and settings; without one the kinds are listed.
    #[arg(value_name = "KIND|FILE.toml")]
    pub kind: Option<String>,
    /// Take kind and settings from a TOML file.
    #[arg(long, value_name = "FILE", conflicts_with = "kind")]
    pub from: Option<PathBuf>,
    /// Nice values, where the kind has them: 0,0,5,-5.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub nice: Option<String>,
    /// A setting of the kind, NAME=VALUE; without -o all settings are printed.
    #[arg(long, value_name = "K=V", value_parser = parse_param)]
    pub set: Vec<(String, String)>,
    /// Print the settings with their meanings, as TOML to edit (also what happens without -o).
    #[arg(long)]
    pub print_spec: bool,
    /// Workload file to write: text, or binary if the name ends in .wlb.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

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
    /// The scheduler: `schedlab schedulers` lists them.
    #[arg(long, value_name = "NAME")]
    pub sched: String,
    /// Number of CPUs, all alike.
    #[arg(long, value_name = "N", conflicts_with = "machine", value_parser = parse_cpus)]
    pub cpus: Option<Topology>,
    /// The machine: a number, or packages=2,llcs=2,cores=4,smt=2, or a preset, or /sys or a copy: `schedlab machines`.
    #[arg(long, value_name = "TOPO")]
    pub machine: Option<Topology>,
    /// Stop after this much simulated time.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Timer ticks per second of real Linux: 100, 250 or 1000.
    #[arg(long, default_value_t = 250, value_name = "HZ")]
    pub hz: u32,
    /// A tunable of the scheduler, NAME=VALUE; may be given several times.
    #[arg(long, value_name = "K=V", value_parser = parse_param)]
    pub param: Vec<(String, String)>,
    /// Write the schedule log: Arrow if the name ends in .arrow, else text.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write a file for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write an HTML report.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the results as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub at: crate::at::AtArgs,
    /// End the run if the scheduler does nothing for this long: an endless loop. (Time in which this machine does not let it run does not count.)
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
    pub many: crate::many::ManyArgs,
}

pub(crate) fn parse_cpus(text: &str) -> Result<Topology, String> {
    let count: u64 = text.parse().map_err(|_| format!("'{text}' is not a number of CPUs"))?;
    count.to_string().parse().map_err(|error: schedlab_topology::TopologyError| error.to_string())
}

pub(crate) fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(format!("'{text}' is not NAME=VALUE")),
    }
}

impl RunArgs {
    /// The machine asked for.
    pub fn topology(&self) -> Option<&Topology> {
        self.machine.as_ref().or(self.cpus.as_ref())
    }
}
