//! `race TARGET --audit`: is each barrier needed?

use super::{RaceArgs, fault};
use crate::failure::Result;
use crate::output;
use crate::ui::Ui;
use schedlab_race::explore::Plan;
use schedlab_race::study::{self, Audited};
use schedlab_race::{MemoryModel, Scenario};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What has to be mended first, since the file as it is does not hold under late stores: then nothing could be said
/// of its barriers.
pub(super) fn mended(target: &str, ui: &Ui) -> Result<Option<String>> {
    let explained = study::explained().map_err(fault)?;
    let found = explained.into_iter().find(|e| e.target == target && !e.mended_by.is_empty());
    if let Some(known) = &found {
        ui.say(format!(
            "{target} as it is does not hold under late stores: {}. {} \
             The audit is of the file with '{}' (linux/race/seeds).",
            known.text, known.reason, known.mended_by
        ));
    }
    Ok(found.map(|known| known.mended_by))
}

/// Under which models the properties of the file as it is are asked for.
const MODELS: [MemoryModel; 3] = [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm];

/// Whether each stated property holds of the file as it is: a table, and the same as JSON.
fn properties(as_it_is: &Plan, scenarios: &[Scenario]) -> Result<(String, Vec<Value>)> {
    let mut text = "what the file as it is must not do\n".to_owned();
    let mut rows: Vec<(String, Vec<Value>)> = Vec::new();
    for model in MODELS {
        let plan = Plan { model, ..as_it_is.clone() };
        let (schedules, all) = study::properties(&plan, scenarios).map_err(fault)?;
        for one in all {
            let value = json!({"model": model.name(), "schedules": schedules, "broken": one.broken});
            match rows.iter_mut().find(|(text, _)| *text == one.text) {
                Some((_, values)) => values.push(value),
                None => rows.push((one.text, vec![value])),
            }
        }
    }
    for (property, values) in &rows {
        let word = |v: &Value| {
            let (model, schedules) =
                (v["model"].as_str().unwrap_or_default(), v["schedules"].as_u64().unwrap_or(0));
            match v["broken"].as_u64() {
                Some(0) => format!("{model}: never in {schedules}"),
                broken => format!("{model}: {} of {schedules}", broken.unwrap_or(0)),
            }
        };
        let words: Vec<String> = values.iter().map(word).collect();
        text.push_str(&format!("  {property}\n      {}\n", words.join("; ")));
    }
    let rows = rows.into_iter().map(|(text, values)| json!({"text": text, "models": values})).collect();
    Ok((text, rows))
}

/// Why a barrier is needed, with the file that shows it; or what was executed without a finding.
fn why(one: &Audited, number: &mut u32, args: &RaceArgs, nr_scenarios: usize) -> Result<String> {
    let Some((without, finding)) = &one.finding else {
        return Ok(format!(
            "{} drawn and {} with at most {} deviations (all of {} scenarios of {nr_scenarios}) show nothing",
            one.schedules,
            one.bounded,
            study::AUDIT_BOUND,
            one.complete
        ));
    };
    *number += 1;
    let shrunk = without.shrink(finding).map_err(fault)?;
    let name = format!("{}-audit", without.compiled.name);
    let base = args.output.clone().unwrap_or_else(|| PathBuf::from(name));
    let path = PathBuf::from(format!("{}-{number}.race", base.display()));
    output::text(&path, &without.schedule(&shrunk, vec![one.words()]).to_string())?;
    Ok(format!("{}; {}", finding.text, path.display()))
}

/// `as_it_is`: the same target without what mends it first.
pub(super) fn audit(
    plan: &Plan,
    as_it_is: &Plan,
    scenarios: &[Scenario],
    args: &RaceArgs,
    ui: &Ui,
) -> Result<()> {
    let step = ui.step("asking what the file as it is does");
    let (mut text, stated) = properties(as_it_is, scenarios)?;
    step.now("taking barriers out and moving them, one after the other");
    let mut heard =
        |one: &Audited| step.progress(format!("{} {}: {}", one.kind, one.change.name(), one.place));
    let audited = study::audit(plan, scenarios, &mut heard).map_err(fault)?;
    drop(step);
    let mut rows = Vec::new();
    text.push_str(&format!(
        "\n{} of Linux {}{}, model {}, strategy {}, seed {}\n\n{:<18} {:<44} {:<8} {:<10} {}\n",
        plan.compiled.name,
        plan.compiled.kernel.1,
        match plan.compiled.seeded_name() {
            "" => String::new(),
            name => format!(" with '{name}'"),
        },
        plan.model.name(),
        plan.strategy.name(),
        plan.seed,
        "what",
        "where",
        "moved",
        "needed",
        "why, or how many schedules say no"
    ));
    let mut number = 0;
    for one in &audited {
        let why = why(one, &mut number, args, scenarios.len())?;
        let needed = if one.finding.is_some() { "yes" } else { "not shown" };
        text.push_str(&format!(
            "{:<18} {:<44} {:<8} {needed:<10} {why}\n",
            one.kind,
            one.place,
            one.change.name()
        ));
        rows.push(json!({
            "kind": one.kind, "place": one.place, "change": one.change.name(), "needed": one.finding.is_some(),
            "schedules": one.schedules, "bounded": one.bounded, "bound": study::AUDIT_BOUND,
            "complete_scenarios": one.complete, "scenarios": scenarios.len(), "why": why,
        }));
    }
    text.push_str(
        "\n'out': it does nothing; 'earlier', 'later': it stands on the other side of the access beside it. A \
         deviation is a preemption,\na store that is seen before it must be, or a load of what has been. 'not \
         shown' speaks of these scenarios, this model\nand so many schedules.\n",
    );
    let value = json!({
        "schema": 1, "target": plan.compiled.name, "kernel": plan.compiled.kernel.0, "model": plan.model.name(),
        "seed": plan.seed, "mended_by": plan.compiled.seeded_name(), "stated": stated, "barriers": rows,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{text}");
    }
    Ok(())
}
