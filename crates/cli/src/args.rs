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
    /// What does it do to replayed latencies whether wakeups depend on their causes? A recording, replayed
    /// with and without.
    Dependencies(crate::dependencies::DependenciesArgs),
    /// Make a workload: fairbench, responsebench, hogs, sleepers, start, hackbench, server, forkstorm, execstorm,
    /// periodic, arrivals, random.
    Generate(crate::generate::GenerateArgs),
    /// Look at a workload, or take a part of it: show, filter, cut, scale, anonymise, convert.
    #[command(subcommand)]
    Workload(crate::workload::WorkloadCommand),
    /// Run a workload under a scheduler, on a simulated machine.
    Run(Box<crate::run::RunArgs>),
    #[command(hide = true)]
    Resolve(Box<crate::run::RunArgs>),
    /// A recording as it happened: the recorded schedule through every instrument, with a run's tables and pictures.
    Report(crate::report::ReportArgs),
    /// Does the replay of a recording behave as the recorded machine did? Both side by side, what differs most first.
    Fidelity(crate::fidelity::FidelityArgs),
    /// Several schedulers or parameters on the same workload, over an ensemble of perturbed replays: what
    /// changed, most first.
    Compare(crate::compare::CompareArgs),
    /// Many runs from one description, each made once, whoever is killed meanwhile: a dataset of Parquet files.
    Sweep(Box<crate::sweep::SweepArgs>),
    /// The first decision in which two schedule logs differ, with the state on both sides; exit status 1 if
    /// there is one.
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
    /// How far from its due does each client get, and what does deciding cost? The study of the paper on
    /// VTRR, for any scheduler.
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
    /// What does this machine's scheduler do, seen from user level without privilege?
    Hourglass(crate::hourglass::HourglassArgs),
    /// Real Linux in a deterministic QEMU guest: ground truth.
    #[command(subcommand)]
    Guest(crate::guest::GuestCommand),
    /// Compare the simulation with real Linux: tables with tolerances and verdicts.
    Validate(crate::validate::ValidateArgs),
    /// Compare native CFS and EEVDF with the real kernels that they model, decision by decision, and explain
    /// the differences.
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

#[cfg(test)]
mod tests {
    use super::Cli;
    use crate::manual::{commands, man, native_schedulers};
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};
    use schedlab_policies::registry;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
    }

    struct Shown {
        line: usize,
        /// Behind `schedlab`.
        words: Vec<String>,
        /// To be typed as it stands: in a block of code.
        whole: bool,
    }

    /// Commands of a page, in blocks of code and within lines.
    fn commands_of(page: &str) -> Vec<Shown> {
        let (mut found, mut code) = (Vec::new(), false);
        for (number, line) in page.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                code = !code;
                continue;
            }
            let whole = code || line.starts_with("    ");
            let texts: Vec<&str> =
                if whole { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
            for text in texts {
                let text = text.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
                let Some(rest) = text.strip_prefix("schedlab ").or_else(|| text.strip_prefix("$schedlab "))
                else {
                    continue;
                };
                // a remark stands behind spaces
                let Some(words) = rest.split("   ").next().and_then(shlex::split) else { continue };
                // what a shell takes for itself ends the command
                let ends = ["|", ">", "2>", "&&", ";", "#", "->", "=>", "<", "&"];
                let words = words.into_iter().take_while(|word| !ends.contains(&word.as_str()));
                let words: Vec<String> = words.collect();
                found.push(Shown { line: number + 1, words, whole });
            }
        }
        found
    }

    #[test]
    fn pages_are_read_as_a_person_does() {
        let page = "schedlab run x `schedlab list`\n```sh\n$ schedlab run 'a b' --cpus 2 | head # x\n\
            ls\n  sudo schedlab record -- ls\n```\nschedlab y";
        let found = commands_of(page);
        let of = |nth: usize| (found[nth].line, found[nth].words.join("+"), found[nth].whole);
        assert_eq!(of(0), (1, "list".into(), false));
        assert_eq!(of(1), (3, "run+a b+--cpus+2".into(), true));
        assert_eq!((found.len(), of(2)), (3, (5, "record+--+ls".into(), true)));
    }

    /// What the pages tell a person to type is a command: no option has another name, no value another form.
    #[test]
    fn every_command_on_a_page_is_one() {
        let (mut wrong, mut checked) = (Vec::new(), 0);
        let pages = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages = pages.chain([root().join("README.md")]);
        for path in pages.filter(|path| path.extension().is_some_and(|e| e == "md")) {
            for Shown { line, words, whole } in commands_of(&std::fs::read_to_string(&path).unwrap()) {
                if words.iter().any(|word| word.contains(['[', '…']) || word == "...") {
                    continue; // a form, not a command
                }
                checked += 1;
                let Err(error) = Cli::try_parse_from(std::iter::once("schedlab".into()).chain(words)) else {
                    continue;
                };
                // what stands within a line may be a part of a command, with words such as NAME in it
                let named = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
                if error.use_stderr() && (whole || named) {
                    let text = error.to_string();
                    wrong.push(format!(
                        "{}:{line}: {}",
                        path.display(),
                        text.lines().next().unwrap_or_default()
                    ));
                }
            }
        }
        assert!(checked > 100, "only {checked} commands were found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_manual_has_every_command_and_every_scheduler() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path(), Cli::command()).unwrap();
        let page = std::fs::read_to_string(dir.path().join("schedlab-linux-add.1")).unwrap();
        assert!(page.contains("schedlab-linux-add") && page.contains("tarball"), "{page}");
        assert!(!dir.path().join("schedlab-probe.1").exists());
        let text = commands(&Cli::command());
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            assert!(
                text.contains(&format!("## `schedlab {}`", command.get_name())),
                "{}",
                command.get_name()
            );
        }
        let text = native_schedulers(registry());
        assert!(registry().iter().all(|info| text.contains(&format!("\n## {}\n", info.name))));
        assert!(text.contains("| `quantum` |"));
    }
}
