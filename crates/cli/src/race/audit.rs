//! `race TARGET --audit`: is each barrier needed?

use super::{RaceArgs, fault};
use crate::failure::Result;
use crate::output;
use crate::ui::Ui;
use schedlab_race::Scenario;
use schedlab_race::explore::Plan;
use schedlab_race::study::{self, Audited};
use serde_json::json;
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

pub(super) fn audit(plan: &Plan, scenarios: &[Scenario], args: &RaceArgs, ui: &Ui) -> Result<()> {
    let step = ui.step("taking barriers out, one after the other");
    let mut heard = |one: &Audited| step.progress(format!("without the {} at {}", one.kind, one.place));
    let audited = study::audit(plan, scenarios, &mut heard).map_err(fault)?;
    drop(step);
    let mut rows = Vec::new();
    let mut text = format!(
        "{} of Linux {}, model {}, strategy {}, seed {}\n\n{:<13} {:<44} {:<10} {}\n",
        plan.compiled.name,
        plan.compiled.kernel.1,
        plan.model.name(),
        plan.strategy.name(),
        plan.seed,
        "what",
        "where",
        "needed",
        "why, or how many schedules say no"
    );
    let mut number = 0;
    for one in &audited {
        let why = match &one.finding {
            Some((without, finding)) => {
                number += 1;
                let shrunk = without.shrink(finding).map_err(fault)?;
                let base = args
                    .output
                    .clone()
                    .unwrap_or_else(|| PathBuf::from(format!("{}-audit", plan.compiled.name)));
                let path = PathBuf::from(format!("{}-{number}.race", base.display()));
                output::text(&path, &without.schedule(&shrunk, vec![one.place.clone()]).to_string())?;
                format!("{}; {}", finding.text, path.display())
            }
            None => format!("{} schedules show nothing", one.schedules),
        };
        let needed = if one.finding.is_some() { "yes" } else { "not shown" };
        text.push_str(&format!("{:<13} {:<44} {needed:<10} {why}\n", one.kind, one.place));
        rows.push(json!({
            "kind": one.kind, "place": one.place, "needed": one.finding.is_some(),
            "schedules": one.schedules, "why": why,
        }));
    }
    text.push_str(
        "\n'not shown' speaks of these scenarios, this model and so many schedules; \
         locks and acquire or release within them are kept\n",
    );
    let value = json!({
        "schema": 1, "target": plan.compiled.name, "kernel": plan.compiled.kernel.0, "model": plan.model.name(),
        "seed": plan.seed, "barriers": rows,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{text}");
    }
    Ok(())
}
