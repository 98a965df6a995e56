//! `schedlab`: the command line over the laboratory.

mod args;
mod demo;
mod dependencies;
mod failure;
mod generate;
mod import;
mod input;
mod linux;
mod record;
mod run;
mod schedulers;
mod ui;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // a closed pipe (`schedlab ... | head`) ends the program quietly, as other tools do
    // SAFETY: sets a disposition before any thread or handler exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let cli = Cli::parse();
    let ui = ui::Ui::new(cli.quiet);
    let result = match &cli.command {
        Command::Demo(args) => demo::demo(args, &ui),
        Command::Record(args) => record::record(args, &ui),
        Command::Import(args) => import::import(args, &ui),
        Command::Dependencies(args) => dependencies::dependencies(args, &ui),
        Command::Generate(args) => generate::generate(args, &ui),
        Command::Run(args) => run::run(args, &ui),
        Command::Linux(command) => linux::linux(command, &ui),
        Command::Schedulers { name, json } => schedulers::schedulers(name.as_deref(), *json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.sentence().is_empty() {
                eprintln!("schedlab: {}", failure.sentence());
            }
            ExitCode::from(failure.code())
        }
    }
}
