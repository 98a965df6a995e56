//! `race --replay F`: one schedule, again, with all that happens in it.

use super::{RaceArgs, compiled, fault, plan, scenario_of};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_race::explore::Plan;
use schedlab_race::{MemoryModel, RaceError, Schedule, study};
use schedlab_stdx::limits::{RACE_BYTES_MAX, read_text};
use serde_json::json;
use std::path::Path;

pub(super) fn replay(path: &Path, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let name = path.display().to_string();
    let text = read_text(path, RACE_BYTES_MAX)
        .map_err(|e| Failure::Input(format!("{name}: {e}; give a file that 'race' wrote")))?;
    let schedule = Schedule::parse(&name, &text).map_err(fault)?;
    let seeded = Some(schedule.seeded.as_str()).filter(|s| !s.is_empty());
    let compiled = compiled((&schedule.target, &schedule.defines), &schedule.kernel, seeded, ui)?;
    if compiled.key != schedule.object {
        return Err(fault(RaceError::Foreign {
            file: name,
            theirs: format!("{} {} (object {})", schedule.target, schedule.version, schedule.object),
            ours: format!("{} {} (object {})", compiled.name, compiled.kernel.1, compiled.key),
            remedy: "explore again: 'schedlab race', with the same target and seed".into(),
        }));
    }
    let model = MemoryModel::parse(&schedule.model);
    let model = model.ok_or_else(|| {
        Failure::Input(format!("{name}: model '{}', expected sc, tso or lkmm", schedule.model))
    })?;
    let mut plan = Plan { model, ..plan(args, compiled)? };
    plan.races |= schedule.finding.0 == "race";
    let scenario = scenario_of(&plan, &schedule.scenario.0, &schedule.scenario.1)?;
    plan.without = study::barriers_at(&plan, &scenario, &schedule.without).map_err(fault)?;
    let (finding, story) = plan.replay(&scenario, &schedule.choices).map_err(fault)?;
    let title =
        finding.as_ref().map_or_else(|| "nothing is found".to_owned(), |f| format!("{}: {}", f.kind, f.text));
    if let Some(html) = &args.html {
        output::text(html, &story.html(&title))?;
    }
    let rows: Vec<_> = story
        .rows()
        .into_iter()
        .map(|r| json!({"cpu": r.cpu, "point": r.at, "what": r.what, "place": r.place}))
        .collect();
    let value = json!({
        "schema": 1, "target": schedule.target, "kernel": schedule.kernel, "model": schedule.model,
        "finding": finding.as_ref().map(|f| json!({"kind": f.kind, "text": f.text, "sites": f.sites})), "events": rows,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{}\n{title}\n", story.text());
    }
    match finding {
        Some(_) => Err(Failure::Finding(String::new())),
        None if schedule.finding.0.is_empty() => Ok(()),
        None => Err(Failure::Internal(format!(
            "{name}: the schedule does not show '{}' again although the object is the same",
            schedule.finding.1
        ))),
    }
}
