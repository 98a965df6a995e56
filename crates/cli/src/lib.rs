//! `schedlab`: the command line over the laboratory. It is a library so that a program of one's own can be it, too.
//!
//! ```text
//! your crate: MY_POLICY ──main_with(&[MY_POLICY])──> the whole command line, with one scheduler more
//! src/bin/schedlab.rs:    main_with(&[])         ──> the command line as it comes
//! ```
//!
//! A run happens in another process, which is the same executable started again (crates/process). So your
//! policy is there as well, and nothing has to be installed: no fork of this repository, no plugin, no
//! protocol. docs/write-a-scheduler.md goes through it.

#[macro_use]
mod print;

mod agreement;
mod anonymise;
mod args;
mod at;
mod bugs;
mod changes;
mod compare;
mod costs;
mod coverage;
mod debug;
mod demo;
mod dependencies;
mod diff;
pub mod embed;
mod execute;
mod explain;
mod export;
mod failure;
mod fairness;
mod features;
mod fidelity;
mod gdb;
mod generate;
mod guest;
mod harmony;
mod hourglass;
mod import;
mod linux;
mod machines;
mod manual;
mod output;
mod pages;
mod parse;
mod profile;
mod project;
mod race;
mod record;
mod report;
mod reproduce;
mod run;
mod schedulability;
mod schedulers;
mod seeds;
mod sweep;
mod tunables;
mod ui;
mod validate;
mod values;
mod wasted;
mod window;
mod workload;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use schedlab_lab::FailureKind;
use std::process::ExitCode;

pub use schedlab_policies::{ParamInfo, Params, PolicyError, PolicyInfo};

/// The whole command line, with schedulers more. To be called first in `main()`; its answer is the exit status.
///
/// Names that are taken or cannot be typed end it with 2 and a sentence.
pub fn main_with(policies: &[PolicyInfo]) -> ExitCode {
    // a closed pipe (`schedlab ... | head`) ends the program quietly, as other tools do
    // SAFETY: sets a disposition before any thread or handler exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    embed::end_with_parent();
    if !policies.is_empty()
        && let Err(error) = schedlab_policies::extend(policies)
    {
        print::stderr(&format!("schedlab: {error}"));
        return ExitCode::from(FailureKind::Input.exit_status());
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| print::refused(&error));
    let ui = ui::Ui::new(cli.quiet, cli.strict);
    if cli.reproducible {
        output::make_reproducible();
    }
    let result = match &cli.command {
        Command::Demo(args) => demo::demo(args, &ui),
        Command::Record(args) => record::record(args, &ui),
        Command::Anonymise(args) => anonymise::anonymise(args, &ui),
        Command::Import(args) => import::import(args, &ui),
        Command::Dependencies(args) => dependencies::dependencies(args, &ui),
        Command::Generate(args) => generate::generate(args, &ui),
        Command::Workload(command) => workload::workload(command, &ui),
        Command::Run(args) => run::run(args, &ui),
        Command::Resolve(args) => run::resolve(args, &ui),
        Command::Report(args) => report::report(args, &ui),
        Command::Fidelity(args) => fidelity::fidelity(args, &ui),
        Command::Compare(args) => compare::compare(args, &ui),
        Command::Sweep(args) => sweep::sweep(args, &ui),
        Command::Diff(args) => diff::diff(args, &ui),
        Command::Wasted(args) => wasted::wasted(args, &ui),
        Command::Race(args) => race::race(args, &ui),
        Command::Export(args) => export::export(args, &ui),
        Command::Linux(command) => linux::linux(command, &ui),
        Command::Fairness(args) => fairness::fairness(args, &ui),
        Command::Reproduce(command) => reproduce::reproduce(command, &ui),
        Command::Probe(args) => fairness::probe(args),
        Command::ProbeMachine(args) => fairness::probe_machine(args),
        Command::Harmony(args) => harmony::harmony(args, &ui),
        Command::Hourglass(args) => hourglass::hourglass(args, &ui),
        Command::Guest(command) => guest::guest(command, &ui),
        Command::Validate(args) => validate::validate(args, &ui),
        Command::Agreement(args) => agreement::agreement(args, &ui),
        Command::Schedulability(args) => schedulability::schedulability(args, &ui),
        Command::Manual(command) => manual::manual(command, Cli::command(), &ui),
        Command::Machines(args) => machines::machines(args),
        Command::Schedulers { name, cpus, json } => schedulers::schedulers(name.as_ref(), *cpus, *json, &ui),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.sentence().is_empty() {
                print::stderr(&format!("schedlab: {}", failure.sentence()));
            }
            ExitCode::from(failure.code())
        }
    }
}
