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
    /// Turn a trace into a workload: what each task wanted, free of any schedule.
    Import(ImportArgs),
    /// What does it do to replayed latencies whether wakeups depend on their causes? A recording, replayed with and without.
    Dependencies(DependenciesArgs),
    /// Make a workload: fairbench, responsebench, hogs, sleepers, hackbench, periodic, arrivals.
    Generate(GenerateArgs),
    /// Run a workload under a scheduler, on a simulated machine.
    Run(RunArgs),
    /// Real Linux: fetch, build, list, check, remove.
    #[command(subcommand)]
    Linux(LinuxCommand),
    /// List the schedulers that --sched takes, with their parameters.
    Schedulers {
        /// Show this one in full.
        name: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Folder for the report, the Perfetto file and the trace.
    #[arg(long, default_value = "out")]
    pub output: PathBuf,
    /// Take a sample even if recording is possible here.
    #[arg(long)]
    pub no_record: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// A trace (trace.dat, or a folder with one).
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
    /// What to make; without one the kinds are listed.
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
    /// Workload file to write: text, or binary if the name ends in .wlb.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A workload (text or binary), a trace, or a folder with one of them.
    #[arg(required = true, value_name = "W")]
    pub workload: PathBuf,
    /// The scheduler: `schedlab schedulers` lists them.
    #[arg(long, value_name = "NAME")]
    pub sched: String,
    /// Number of CPUs, all alike.
    #[arg(long, value_name = "N", conflicts_with = "machine", value_parser = parse_cpus)]
    pub cpus: Option<Topology>,
    /// The machine: a number, or packages=2,llcs=2,cores=4,smt=2.
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
    /// Ticks of all CPUs at one instant, or spread over the tick (real Linux).
    #[arg(long, value_name = "PHASE", default_value = "aligned", value_parser = ["aligned", "staggered"])]
    pub ticks: String,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LinuxCommand {
    /// Fetch the source package of this version, build it as a library; instant if that was done before.
    Add {
        /// For example 6.12.
        version: String,
        /// Ticks per second.
        #[arg(long, default_value_t = 250)]
        hz: u32,
        /// Most CPUs it can have: 64 (faster) or 1024.
        #[arg(long, default_value_t = 64)]
        nr_cpus: u32,
    },
    /// What is built.
    List,
    /// Prove that every kernel file compiled is byte-identical to the package's.
    Check {
        /// For example 6.12; all that are built if left out.
        version: Option<String>,
    },
    /// Delete what was built of a version.
    Remove {
        /// For example 6.12.
        version: String,
    },
}

pub(crate) fn parse_cpus(text: &str) -> Result<Topology, String> {
    let count: u64 = text.parse().map_err(|_| format!("'{text}' is not a number of CPUs"))?;
    count.to_string().parse().map_err(|error: schedlab_topology::TopologyError| error.to_string())
}

fn parse_param(text: &str) -> Result<(String, String), String> {
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
