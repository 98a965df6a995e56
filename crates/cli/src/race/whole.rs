//! A whole scheduler as a target: its kernel with points, and the scenarios that this kernel can serve.

use super::{SCHEDULES, fault, result, seed_named};
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_lab::{ScxSpec, Setting, extension, kernels};
use schedlab_linux::BuildOptions;
use schedlab_linux::build;
use schedlab_race::compile::{self, Compiled};
use schedlab_race::explore::{Explored, Plan};
use schedlab_race::{RaceError, Scenario, whole};

/// Schedules of each scenario behind which a search looks whether it has a finding.
const ROUNDS: [u64; 4] = [100, 1_000, 10_000, SCHEDULES];

/// With a number of schedules: so many of each scenario, one after the other. Without: a few of each, then more of
/// each, up to the round that finds what has no known reason. A bug that one scenario shows soon is not behind hours of
/// others.
pub(super) fn explore(
    plan: &Plan,
    scenarios: &[Scenario],
    schedules: Option<u64>,
    ui: &Ui,
) -> Result<Vec<Explored>> {
    let known = result::known(plan)?;
    let asked = schedules.map(|most| [most]);
    let rounds: &[u64] = asked.as_ref().map_or(&ROUNDS, |one| one);
    let target = &plan.compiled.name;
    let mut all: Vec<Explored> = Vec::new();
    let mut from = 0;
    for most in rounds {
        let step = ui.step(format!("exploring {target}"));
        for (n, scenario) in scenarios.iter().enumerate() {
            if all.get(n).is_some_and(|explored| explored.is_complete) {
                continue;
            }
            step.now(format!("exploring {target}: {}, up to {most} schedules", scenario.name));
            let aside = known.iter().filter_map(|k| k.aside(&scenario.name)).collect();
            let round = Plan { from, schedules: *most, aside, ..plan.clone() };
            let explored = round.explore(scenario).map_err(fault)?;
            match all.get_mut(n) {
                Some(before) => before.go_on(explored),
                None => all.push(explored),
            }
        }
        drop(step);
        let is_new = |explored: &Explored| explored.findings.iter().any(|f| !known.iter().any(|k| k.is(f)));
        if *most < SCHEDULES && asked.is_none() && all.iter().any(is_new) {
            let why = "for there are findings; --schedules N makes more";
            ui.say(format!("stopped at {most} schedules of each scenario, {why}"));
            break;
        }
        from = *most;
    }
    Ok(all)
}

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
    let setting = Setting { hz, nr_cpus, progress: ui };
    scenario.beside = Some(extension(&asked, &whole::flavours(compiled), option, setting)?);
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
