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
use schedlab_experiments::fairness::{Execution, ShareForm};
use schedlab_lab::{Subject, SubjectList, SubjectSpec, kernels};
use schedlab_topology::Topology;

pub(crate) fn fairness(args: &FairnessArgs, ui: &Ui) -> Result<()> {
    match &args.command {
        None => study::study(&args.study, ui),
        Some(FairnessCommand::Dynamic(args)) => dynamic::dynamic(args, ui),
        Some(FairnessCommand::Cost(args)) => cost::cost(args, ui),
    }
}

/// A scheduler on one CPU; real Linux is built if it is not there yet.
pub(crate) fn subject(spec: &SubjectSpec, hz: u32, ui: &Ui) -> Result<Subject> {
    Ok(spec.resolve(ui.setting(hz, &Topology::flat(1).map_err(Failure::input)?))?)
}

/// Every packaged Linux that is built. A tree or tarball of the user's own is no part of a study unless it is named.
pub(crate) fn built_linux(hz: u32, ui: &Ui) -> Result<Vec<Subject>> {
    let packaged: Vec<String> =
        kernels::packaged_series().into_iter().map(|series| format!("linux-{series}")).collect();
    let versions = kernels::versions().into_iter();
    versions
        .filter(|version| version.built && packaged.contains(&version.name))
        .map(|version| subject(&version.name.parse()?, hz, ui))
        .collect()
}

/// The arms of these schedulers.
fn executions(scheds: &[SubjectList], hz: u32, express: &[ShareForm], ui: &Ui) -> Result<Vec<Execution>> {
    let mut executions = Vec::new();
    for spec in scheds.iter().flat_map(|list| &list.0) {
        executions.extend(Execution::of(&subject(spec, hz, ui)?, express));
    }
    Ok(executions)
}
