//! What can be asked for: the command line. Its names are a contract; scripts use them.

use clap::{Parser, Subcommand};

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
    /// End with status 2 if it is not the experiment that was asked for: a policy was refused, or an affinity names
    /// no CPU of the machine.
    #[arg(long, global = true)]
    pub strict: bool,
    /// Equal runs write equal files, byte by byte: host times are 0 in them, and the command stands without its
    /// outputs. (What measures host time by its nature, as `reproduce warp` does, still has it.)
    #[arg(long, global = true)]
    pub reproducible: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Record a real workload here (or take a sample), run it through Linux and native schedulers, show the result.
    Demo(crate::demo::DemoArgs),
    /// Record the scheduling events of a command, processes, control groups, or the whole system (needs root).
    Record(crate::record::RecordArgs),
    /// Make a recording fit to be given away: without the names of strangers, host, paths and groups.
    Anonymise(crate::anonymise::AnonymiseArgs),
    /// Turn a recording (trace.dat, perf.data, ftrace text, Perfetto) or an rt-app description into a workload.
    Import(crate::import::ImportArgs),
    /// What does it do to replayed latencies whether wakeups depend on their causes? A recording, replayed with and without.
    Dependencies(crate::dependencies::DependenciesArgs),
    /// Make a workload: fairbench, responsebench, hogs, sleepers, start, hackbench, server, forkstorm, execstorm, periodic, arrivals, random.
    Generate(crate::generate::GenerateArgs),
    /// Look at a workload, or take a part of it: show, filter, cut, scale, anonymise, convert.
    #[command(subcommand)]
    Workload(crate::workload::WorkloadCommand),
    /// Run a workload under a scheduler, on a simulated machine.
    Run(Box<crate::run::RunArgs>),
    /// Several schedulers or parameters on the same workload, over an ensemble of perturbed replays: what changed, most first.
    Compare(crate::compare::CompareArgs),
    /// The first decision in which two schedule logs differ, with the state on both sides; exit status 1 if there is one.
    Diff(crate::diff::DiffArgs),
    /// Times in which a CPU idled beside a task that it may run, from a schedule log: when, which CPUs, which tasks.
    Wasted(crate::wasted::WastedArgs),
    /// Scheduler code under every order of events: cpupri.c and cpudeadline.c of any kernel, or a C file of your own.
    Race(Box<crate::race::RaceArgs>),
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
    /// A scheduler's balancing policy, told from what controlled workloads do: questions, answers, intervals.
    Harmony(Box<crate::harmony::HarmonyArgs>),
    /// Real Linux in a deterministic QEMU guest: ground truth.
    #[command(subcommand)]
    Guest(crate::guest::GuestCommand),
    /// Compare the simulation with real Linux: tables with tolerances and verdicts.
    Validate(crate::validate::ValidateArgs),
    /// Compare native CFS and EEVDF with the real kernels that they model, decision by decision, and explain the differences.
    Agreement(crate::agreement::AgreementArgs),
    /// Which random sets of periodic tasks do real-time schedulers serve in time? Against theory, with curves.
    Schedulability(crate::schedulability::SchedulabilityArgs),
    /// The manual in other forms: man pages, completions for shells, the book's reference.
    #[command(subcommand)]
    Manual(crate::manual::ManualCommand),
    /// Show a machine that --machine takes, or list those with a name; take a snapshot of this one.
    Machines(crate::machines::MachinesArgs),
    /// List the schedulers that --sched takes, with their parameters.
    Schedulers {
        /// Show this one in full.
        name: Option<schedlab_lab::SubjectSpec>,
        /// Show the defaults that real Linux has on so many CPUs.
        #[arg(long, value_name = "N", default_value_t = 1)]
        cpus: u32,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}
