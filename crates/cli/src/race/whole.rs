//! A whole scheduler as a target: its kernel with points, and the scenarios that this kernel can serve.

use super::{fault, seed_named};
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_lab::{ScxSpec, Setting, extension, kernels};
use schedlab_linux::BuildOptions;
use schedlab_linux::build;
use schedlab_race::compile::{self, Compiled};
use schedlab_race::{RaceError, Scenario, whole};

/// `linux-6.12`, `linux-6.12+psi`, `linux-NAME`: with points.
pub(super) fn compiled(target: &str, seeded: Option<&str>, ui: &Ui) -> Result<Compiled> {
    let mut parts = target.split('+').map(str::to_owned);
    let series = parts.next().unwrap_or_default();
    let series = series.strip_prefix(whole::PREFIX).unwrap_or(&series);
    let mut flavours: Vec<String> = parts.collect();
    let seeded = seeded.map(|name| seed_named(name, whole::PREFIX.trim_end_matches('-'))).transpose()?;
    let is_named = build::named().map_err(|e| fault(e.into()))?.iter().any(|n| n.name == series);
    if is_named {
        if let Some(seeded) = seeded {
            return Err(Failure::Input(format!(
                "--seeded {}: only packaged kernels have seeded bugs; edit the tree of {target}",
                seeded.name
            )));
        }
        flavours.retain(|flavour| flavour != whole::build::FLAVOUR);
        flavours.push(whole::build::FLAVOUR.to_owned());
        let options = BuildOptions { flavours, ..BuildOptions::default() };
        let kernel = kernels::obtain(series, &options, ui).map_err(|e| fault(e.into()))?;
        return whole::build::named(&kernel).map_err(fault);
    }
    let packaged = super::kernel(series, ui)?;
    for flavour in seeded.iter().flat_map(|seeded| &seeded.flavours) {
        if !flavours.contains(flavour) {
            flavours.push(flavour.clone());
        }
    }
    let what = match &seeded {
        Some(seeded) => format!("Linux {series} with points and the bug '{}'", seeded.name),
        None => format!("Linux {series} with points"),
    };
    whole::build::packaged(&packaged, &flavours, seeded.as_ref(), &mut |tree, options| {
        kernels::with_progress(&what, ui, |progress| build::add_tree(tree, options, progress))
    })
    .map_err(fault)
}

/// Compiles the sched_ext scheduler that a scenario asks for, as a run does. A kernel without the class gets none.
pub(super) fn with_scheduler(scenario: &mut Scenario, compiled: &Compiled, ui: &Ui) -> Result<()> {
    let Some(what) = whole::scheduler(scenario) else { return Ok(()) };
    if whole::lacks(scenario, compiled).is_some() {
        return Ok(());
    }
    let asked = ScxSpec { what, kernel: compiled.kernel.0.clone() };
    let BuildOptions { hz, nr_cpus, .. } = BuildOptions::default();
    let option = format!("{}: sched {}", scenario.name, asked.what);
    scenario.beside = Some(extension(&asked, option, Setting { hz, nr_cpus, progress: ui })?);
    Ok(())
}

/// The scenarios of whole schedulers: the one of this name, else all. Of all, those that the kernel cannot serve
/// are named and left out.
pub(super) fn scenarios(compiled: &Compiled, wanted: Option<&str>, ui: &Ui) -> Result<Vec<Scenario>> {
    let mut all = compile::scenarios("linux").map_err(fault)?;
    if let Some(name) = wanted {
        let known = all.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
        all.retain(|scenario| scenario.name == name);
        if all.is_empty() {
            return Err(fault(RaceError::Scenario {
                target: compiled.name.clone(),
                asked: name.to_owned(),
                known,
            }));
        }
    }
    let mut kept = Vec::new();
    for mut scenario in all {
        match whole::lacks(&scenario, compiled) {
            Some(needs) if wanted.is_some() => {
                return Err(Failure::Input(format!(
                    "--scenario {}: {} cannot serve it; it asks for {needs}",
                    scenario.name, compiled.name
                )));
            }
            Some(needs) => ui.say(format!("note: {} is left out: it asks for {needs}", scenario.name)),
            None => {
                with_scheduler(&mut scenario, compiled, ui)?;
                kept.push(scenario);
            }
        }
    }
    Ok(kept)
}
