//! `schedlab fairness`: how far from its due does each client get, and what does deciding cost?

mod args;
mod cost;
mod dynamic;
mod study;

pub(crate) use args::FairnessArgs;
pub(crate) use cost::{ProbeArgs, ProbeMachineArgs, measure, probe, probe_machine};

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use args::FairnessCommand;
use schedlab_experiments::fairness::{Told, Way};
use schedlab_experiments::subject::Subject;
use schedlab_topology::Topology;

pub(crate) fn fairness(args: &FairnessArgs, ui: &Ui) -> Result<()> {
    match &args.command {
        None => study::study(&args.study, ui),
        Some(FairnessCommand::Dynamic(args)) => dynamic::dynamic(args, ui),
        Some(FairnessCommand::Cost(args)) => cost::cost(args, ui),
    }
}

/// `NAME:K=V:K=V`; real Linux is built if it is not there yet.
pub(crate) fn subject(text: &str, hz: u32, ui: &Ui) -> Result<Subject> {
    let one_cpu = Topology::flat(1).map_err(Failure::input)?;
    let scheduler = crate::schedulers::resolve(Subject::name_in(text), hz, &one_cpu, ui)?;
    Subject::with(text, scheduler).map_err(Failure::input)
}

/// Every release of Linux that is built; trees of one's own are no part of a study's figures.
pub(crate) fn built_linux(hz: u32, ui: &Ui) -> Result<Vec<Subject>> {
    let release = |name: &str| {
        name.trim_start_matches("linux-").chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    let built =
        crate::linux::versions().into_iter().filter(|version| version.built && release(&version.name));
    built.map(|version| subject(&version.name, hz, ui)).collect()
}

/// The arms of these schedulers.
fn ways(scheds: &[String], hz: u32, express: &[Told], ui: &Ui) -> Result<Vec<Way>> {
    let mut ways = Vec::new();
    for text in scheds {
        ways.extend(Way::of(&subject(text, hz, ui)?, express));
    }
    Ok(ways)
}
