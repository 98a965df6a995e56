//! `race --replay F`: one schedule, again, with all that happens in it.

use super::{RaceArgs, compiled, fault, litmus, plan, scenario_of};
use crate::failure::{Failure, Result};
use crate::gdb;
use crate::output;
use crate::ui::Ui;
use clap::ValueEnum;
use schedlab_linux::build;
use schedlab_race::compile::Compiled;
use schedlab_race::explore::{Finding, Plan};
use schedlab_race::{MemoryModel, RaceError, Scenario, Schedule, Strategy, study};
use schedlab_stdx::limits::{RACE_BYTES_MAX, read_text};
use serde_json::json;
use std::path::Path;

/// What must come of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Expected {
    /// Nothing is found: the code was mended.
    None,
    /// It shows its finding.
    Finding,
}

/// A schedule's file with what it belongs to.
struct Opened {
    name: String,
    schedule: Schedule,
    plan: Plan,
    scenario: Scenario,
    /// It was made with another object.
    is_foreign: bool,
}

/// A schedule names a file as it was typed, seen from where that was. If there is none from here, the one beside the
/// schedule is meant.
fn beside(schedule: &Path, target: &str) -> Option<String> {
    let named = Path::new(target);
    if !study::is_file(target) || named.exists() {
        return None;
    }
    let folder = schedule.parent()?;
    let near = [Some(folder.join(named)), named.file_name().map(|name| folder.join(name))];
    near.into_iter().flatten().find(|path| path.is_file()).map(|path| path.display().to_string())
}

/// `defines`: macros beside those of the schedule.
fn open(
    (path, defines): (&Path, &[String]),
    make_plan: &dyn Fn(Compiled) -> Result<Plan>,
    takes_foreign: bool,
    ui: &Ui,
) -> Result<Opened> {
    let name = path.display().to_string();
    let text = read_text(path, RACE_BYTES_MAX)
        .map_err(|e| Failure::Input(format!("{name}: {e}; give a file that 'race' wrote")))?;
    let schedule = Schedule::parse(&name, &text).map_err(fault)?;
    let beside = beside(path, &schedule.target);
    let target = beside.as_deref().unwrap_or(&schedule.target);
    let seeded = Some(schedule.seeded.as_str()).filter(|s| !s.is_empty());
    let defines = [&schedule.defines, defines].concat();
    let compiled = compiled((target, &defines), &schedule.kernel, seeded, ui)?;
    let is_foreign = compiled.key != schedule.object;
    if is_foreign && !takes_foreign {
        return Err(fault(RaceError::Foreign {
            file: name,
            theirs: format!("{} {} (object {})", schedule.target, schedule.version, schedule.object),
            ours: format!("{} {} (object {})", compiled.name, compiled.kernel.1, compiled.key),
            remedy: "explore again: 'schedlab race', with the same target and seed; as a test of code that is being \
                     changed, give --expect none or --expect finding"
                .into(),
        }));
    }
    let model = MemoryModel::parse(&schedule.model);
    let model = model.ok_or_else(|| {
        Failure::Input(format!("{name}: model '{}', expected sc, tso or lkmm", schedule.model))
    })?;
    let mut plan = Plan { model, ..make_plan(compiled)? };
    plan.races |= schedule.finding.0 == "race";
    let scenario = scenario_of(&plan, &schedule.scenario.0, &schedule.scenario.1, ui)?;
    plan.without = study::barriers_at(&plan, &scenario, &schedule.without).map_err(fault)?;
    Ok(Opened { name, schedule, plan, scenario, is_foreign })
}

/// gdb at a schedule's choices: `linux debug --schedule F`.
pub(crate) fn debug_schedule(path: &Path, gdb: (&[String], bool), ui: &Ui) -> Result<()> {
    let plan = |compiled: Compiled| -> Result<Plan> {
        Ok(Plan {
            compiled,
            model: MemoryModel::Sc,
            strategy: Strategy::Mix,
            seed: 1,
            schedules: 1,
            jobs: 1,
            findings: 1,
            from: 0,
            aside: Vec::new(),
            without: Vec::new(),
            races: false,
        })
    };
    debug(&open((path, &[]), &plan, false, ui)?, gdb)
}

pub(super) fn replay(path: &Path, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let opened = open((path, &args.define), &|compiled| plan(args, compiled), args.expect.is_some(), ui)?;
    if args.debug {
        return debug(&opened, (&args.gdb_commands, args.batch));
    }
    if let Some(expected) = args.expect {
        return expect(expected, &opened, ui);
    }
    let Opened { name, schedule, plan, scenario, .. } = opened;
    let (finding, story) = plan.replay(&scenario, &schedule.choices, &schedule.finding.1).map_err(fault)?;
    let title =
        finding.as_ref().map_or_else(|| "nothing is found".to_owned(), |f| format!("{}: {}", f.kind, f.text));
    if let Some(html) = &args.html {
        output::text(html, &story.html(&title))?;
    }
    if let Some(path) = &args.litmus {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        litmus::write(&story, &stem, path, &schedule.kernel, ui)?;
    }
    let rows: Vec<_> = story
        .rows()
        .into_iter()
        .map(|r| {
            json!({
                "cpu": r.cpu, "point": r.at, "what": r.what, "place": r.place, "holds": r.holds, "before": r.before,
            })
        })
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
        None if schedule.target.ends_with(".c") => Err(Failure::Input(format!(
            "{name}: the schedule alone does not show '{}'; expected a target that begins each schedule as the first \
             one: what is marked RACE_PRIVATE, and what the file keeps elsewhere, keeps its values; set it anew in \
             start()",
            schedule.finding.1
        ))),
        None => Err(Failure::Internal(format!(
            "{name}: the schedule does not show '{}' again although the object is the same",
            schedule.finding.1
        ))),
    }
}

/// A schedule as a test. On the object that it was made with it is repeated; on another one, in which points stand
/// elsewhere, its scenario is explored as well.
fn expect(expected: Expected, opened: &Opened, ui: &Ui) -> Result<()> {
    let Opened { name, schedule, plan, scenario, is_foreign } = opened;
    let is_it =
        |f: &Finding| (f.kind.as_str(), f.text.as_str()) == (&*schedule.finding.0, &*schedule.finding.1);
    let (finding, _) = plan.replay(scenario, &schedule.choices, &schedule.finding.1).map_err(fault)?;
    let mut found = finding.filter(|f| expected == Expected::None || is_it(f));
    let mut tried = "the schedule".to_owned();
    if *is_foreign && found.is_none() {
        let explored = plan.explore(scenario).map_err(fault)?;
        tried = format!("the schedule on another object, and {} of its scenario's", explored.schedules);
        found = explored.findings.into_iter().find(is_it);
    }
    match (expected, found) {
        (Expected::None, None) => ui.say(format!("{name}: {tried}: nothing, as expected")),
        (Expected::Finding, Some(_)) => {
            ui.say(format!("{name}: {tried}: '{}', as expected", schedule.finding.1))
        }
        (Expected::None, Some(f)) => {
            let text = format!("{name}: {tried}: {}: {}, expected nothing", f.kind, f.text);
            return Err(Failure::Finding(text));
        }
        (Expected::Finding, None) => {
            let text = format!("{name}: {tried}: nothing, expected '{}'", schedule.finding.1);
            return Err(Failure::Finding(text));
        }
    }
    Ok(())
}

/// gdb on the process that runs the schedule.
fn debug(opened: &Opened, (commands, batch): (&[String], bool)) -> Result<()> {
    let helper = build::port().map_err(Failure::input)?.join("gdb/race.py");
    let gdb = gdb::program()?;
    let Opened { plan, scenario, schedule, .. } = opened;
    let start = |pid: u32| {
        let mut command = gdb::command(&gdb, batch);
        let first = if schedule.choices.is_empty() { "python to_first_point()" } else { "schedlab-next" };
        command.arg("-p").arg(pid.to_string()).arg("-x").arg(&helper);
        // a text in JSON is one in Python
        if plan.compiled.is_whole() && !plan.compiled.sources.is_empty() {
            let folders: Vec<_> = plan.compiled.sources.iter().map(|f| f.to_string_lossy()).collect();
            command.arg("-ex").arg(format!("python sources({})", json!(folders)));
        }
        command.args(["-ex", first]);
        for text in commands {
            command.arg("-ex").arg(format!("python then({})", json!(text)));
        }
        if batch {
            command.args(["-ex", "python leave()"]);
        }
        command.status()
    };
    let status = plan.watch(scenario, &schedule.choices, start).map_err(fault)?;
    gdb::ended(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_is_looked_for_beside_the_schedule() {
        let dir = tempfile::tempdir().unwrap();
        let schedule = dir.path().join("own-1.race");
        std::fs::write(dir.path().join("own.c"), "").unwrap();
        let near = dir.path().join("own.c").display().to_string();
        assert_eq!(beside(&schedule, "own.c"), Some(near.clone()));
        assert_eq!(beside(&schedule, "/nowhere/at/all/own.c"), Some(near.clone()));
        assert_eq!(beside(&schedule, &near), None);
        assert_eq!(beside(&schedule, "other.c"), None);
        assert_eq!(beside(&schedule, "cpupri"), None);
    }
}
