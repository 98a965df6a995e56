//! What an exploration found: on the terminal, as JSON, as files that repeat it.

use super::{RaceArgs, fault};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_race::compile::Compiled;
use schedlab_race::explore::{Explored, Finding, Plan};
use schedlab_race::study::{self, Explained};
use schedlab_race::whole::known::KnownRace;
use schedlab_race::{Choice, ChoiceKind, MemoryModel, RaceError, Scenario};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A finding with what was made of it.
struct ReportedFinding {
    finding: Finding,
    scenario: String,
    /// Whether its schedule shows it again.
    repeats: bool,
    /// That schedule, once it is written.
    file: Option<PathBuf>,
    weak_only: bool,
    /// Other scenarios, or places, that show the same, and how often.
    also: Vec<(String, u64)>,
}

/// What is found in unmodified kernels, and does no harm.
#[derive(PartialEq, Eq)]
struct Reason {
    text: String,
    place: String,
    reason: String,
}

impl Reason {
    fn of(known: &Explained) -> Reason {
        let Explained { text, place, reason, .. } = known.clone();
        Reason { text, place, reason }
    }

    fn of_race(known: &KnownRace) -> Reason {
        let KnownRace { function, line, reason, .. } = known.clone();
        let text = format!("nothing orders what {function}() does, and another access");
        Reason { text, place: format!("{function}(), '{line}'"), reason }
    }
}

/// Adds up how often each reason was met.
fn count(explained: &mut Vec<(Reason, u64)>, reason: Reason, times: u64) {
    match explained.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, known)) => *known += times,
        None => explained.push((reason, times)),
    }
}

/// A file's name without its folders, as a label in a table.
pub(super) fn label(scenario: &str) -> &str {
    scenario.rsplit('/').next().unwrap_or(scenario)
}

/// The reasons that findings of this target may have.
pub(super) fn known(plan: &Plan) -> Result<Vec<Explained>> {
    let of = &plan.compiled;
    let mut known = if of.kernel.0.is_empty() { Vec::new() } else { study::explained().map_err(fault)? };
    known.retain(|k| k.covers(&of.name, &of.kernel.1, plan.model, of.seeded.as_ref()));
    Ok(known)
}

/// Shrinks, writes and shows what was found.
pub(super) fn report(
    args: &RaceArgs,
    plan: &Plan,
    scenarios: &[Scenario],
    all: Vec<Explored>,
    took: Duration,
    ui: &Ui,
) -> Result<()> {
    let known = known(plan)?;
    let is_known = |f: &Finding| known.iter().find(|k| k.is(f));
    let mut explained: Vec<(Reason, u64)> = Vec::new();
    let mut reported: Vec<ReportedFinding> = Vec::new();
    let step = ui.step("shrinking");
    for explored in &all {
        for finding in &explored.findings {
            if let Some(reason) = is_known(finding) {
                count(&mut explained, Reason::of(reason), finding.times);
                continue;
            }
            if let Some(first) = reported.iter_mut().find(|t| t.finding.is_same(finding)) {
                first.also.push((explored.scenario.clone(), finding.times));
                continue;
            }
            step.now(format!("shrinking: {}", finding.text));
            // one that is not shown again is no reason to keep the others back
            let (shrunk, repeats) = match plan.shrink(finding) {
                Ok(shrunk) => (shrunk, true),
                Err(RaceError::NotAgain) => (finding.clone(), false),
                Err(error) => return Err(fault(error)),
            };
            // a livelock may have shown as another one
            if let Some(first) = reported.iter_mut().find(|t| t.finding.is_same(&shrunk)) {
                match first.scenario == explored.scenario {
                    true => first.finding.times += finding.times,
                    false => first.also.push((explored.scenario.clone(), finding.times)),
                }
                continue;
            }
            // a whole scheduler's schedule says so itself: without a late store the finding is not shown
            let is_late = |choice: &Choice| matches!(choice.what, ChoiceKind::Late(_));
            let weak_only = match plan.compiled.is_whole() {
                true => shrunk.choices.iter().any(is_late),
                false => plan.model != MemoryModel::Sc && !is_found_by_order(plan, scenarios, finding)?,
            };
            reported.push(ReportedFinding {
                finding: shrunk,
                scenario: explored.scenario.clone(),
                repeats,
                file: None,
                weak_only,
                also: Vec::new(),
            });
        }
        for (race, times) in &explored.explained {
            count(&mut explained, Reason::of_race(race), *times);
        }
    }
    drop(step);
    for (n, reported) in reported.iter_mut().enumerate() {
        if reported.repeats {
            reported.file = Some(write(args, plan, &reported.finding, n + 1)?);
        }
    }
    let first = reported.iter().find(|t| t.repeats);
    if let (Some(path), Some(first)) = (&args.html, first) {
        let (_, story) = plan
            .replay(&first.finding.scenario, &first.finding.choices, &first.finding.text)
            .map_err(fault)?;
        output::text(path, &story.html(&first.finding.text))?;
    }
    let value = as_json(plan, &all, &reported, &explained);
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{}", text(plan, &all, &reported, &explained, took));
    }
    match reported.is_empty() {
        true => Ok(()),
        false => Err(Failure::Finding(String::new())),
    }
}

/// Whether interleaving alone shows it, too.
fn is_found_by_order(plan: &Plan, scenarios: &[Scenario], finding: &Finding) -> Result<bool> {
    let plan = Plan { model: MemoryModel::Sc, ..plan.clone() };
    for scenario in scenarios.iter().filter(|s| s.name == finding.scenario.name) {
        let explored = plan.explore(scenario).map_err(fault)?;
        if explored.findings.iter().any(|f| f.text == finding.text) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The file that repeats it.
pub(super) fn write(args: &RaceArgs, plan: &Plan, finding: &Finding, number: usize) -> Result<PathBuf> {
    let name = &plan.compiled.name;
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".c");
    let base = args.output.clone().unwrap_or_else(|| PathBuf::from(stem));
    let path = PathBuf::from(format!("{}-{number}.race", base.display()));
    output::text(&path, &plan.schedule(finding, Vec::new()).to_string())?;
    Ok(path)
}

fn as_json(
    plan: &Plan,
    all: &[Explored],
    reported: &[ReportedFinding],
    explained: &[(Reason, u64)],
) -> Value {
    let compiled = &plan.compiled;
    let findings = reported.iter().map(|t| {
        let f = &t.finding;
        json!({
            "kind": f.kind, "text": f.text, "scenario": t.scenario,
            "first_schedule": f.first_schedule, "times": f.times,
            "sites": f.sites, "preemptions": f.preemptions, "choices": f.choices.len(),
            "schedule": t.file.as_ref().map(|p| p.display().to_string()), "weak_only": t.weak_only,
            "also": t.also.iter().map(|(name, times)| json!({"scenario": name, "times": times})).collect::<Vec<_>>(),
        })
    });
    let scenarios = all.iter().map(|e| {
        json!({
            "name": e.scenario, "schedules": e.schedules, "points": e.points, "complete": e.is_complete,
            "redundant": e.redundant, "findings": e.findings.len(),
        })
    });
    let reason = |(known, times): &(Reason, u64)| {
        let Reason { place, text, reason } = known;
        json!({"site": place, "text": text, "reason": reason, "times": times})
    };
    json!({
        "schema": 1, "target": compiled.name, "kernel": compiled.kernel.0, "kernel_version": compiled.kernel.1,
        "source": compiled.source.0, "source_sha256": compiled.source.1, "seeded": compiled.seeded_name(),
        "model": plan.model.name(), "strategy": plan.strategy.name(), "seed": plan.seed,
        "schedules": all.iter().map(|e| e.schedules).sum::<u64>(),
        "scenarios": scenarios.collect::<Vec<_>>(), "findings": findings.collect::<Vec<_>>(),
        "explained": explained.iter().map(reason).collect::<Vec<_>>(),
    })
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn shrunk_to(finding: &Finding, is_whole: bool) -> String {
    let calls = counted(finding.scenario.nr_calls(), "call");
    let preemptions = counted(finding.preemptions as usize, "preemption");
    match (finding.is_endless(), is_whole) {
        (true, _) => format!("not shrunk: {calls}, {preemptions}"),
        (false, true) => format!("shrunk to {preemptions}"),
        (false, false) => format!("shrunk to {calls}, {preemptions}"),
    }
}

/// What is looked at: the target, its kernel and file, the bug in it.
pub(super) fn subject(compiled: &Compiled) -> String {
    let mut text = compiled.name.clone();
    if !compiled.kernel.1.is_empty() {
        let (file, sum) = &compiled.source;
        text.push_str(&format!(" of Linux {}, {file}, sha256 {}", compiled.kernel.1, &sum[..16]));
    }
    if let Some(seeded) = &compiled.seeded {
        text.push_str(&format!(", with the bug '{}'", seeded.name));
    }
    text
}

fn text(
    plan: &Plan,
    all: &[Explored],
    reported: &[ReportedFinding],
    explained: &[(Reason, u64)],
    took: Duration,
) -> String {
    let compiled = &plan.compiled;
    let mut text = format!(
        "{}\nmodel {}, strategy {}, seed {}\n\n{:<22} {:>10} {:>14}  {}\n",
        subject(compiled),
        plan.model.name(),
        plan.strategy.name(),
        plan.seed,
        "scenario",
        "schedules",
        "points each",
        "found"
    );
    for e in all {
        let each = e.points as f64 / (e.schedules + e.redundant).max(1) as f64;
        let found = match (e.findings.len(), e.is_complete) {
            (0, true) => "nothing, and these are all".to_owned(),
            (0, false) => "nothing".to_owned(),
            (n, _) if e.findings.iter().any(Finding::is_endless) => {
                format!("{n}, and the search ended there")
            }
            (n, _) => n.to_string(),
        };
        text.push_str(&format!("{:<22} {:>10} {each:>14.1}  {found}\n", label(&e.scenario), e.schedules));
    }
    let schedules: u64 = all.iter().map(|e| e.schedules).sum();
    text.push_str(&format!(
        "\n{schedules} schedules in {:.1} s with {} process{}\n",
        took.as_secs_f64(),
        plan.jobs,
        if plan.jobs == 1 { "" } else { "es" }
    ));
    for (n, t) in reported.iter().enumerate() {
        let f = &t.finding;
        let weak = if t.weak_only { "; by late stores only" } else { "" };
        text.push_str(&format!(
            "\n{}. {}: {}\n   {} of {}'s schedules, first number {}{weak}; {}\n",
            n + 1,
            f.kind,
            f.text,
            f.times,
            label(&t.scenario),
            f.first_schedule,
            match t.repeats {
                true => shrunk_to(f, compiled.is_whole()),
                false => "not shrunk".to_owned(),
            },
        ));
        f.sites.iter().for_each(|site| text.push_str(&format!("     at {site}\n")));
        let also: Vec<String> =
            t.also.iter().map(|(name, times)| format!("{} ({times} times)", label(name))).collect();
        if !also.is_empty() {
            text.push_str(&format!("   the same also in {}\n", also.join(", ")));
        }
        match &t.file {
            Some(file) => text.push_str(&format!("   schedlab race --replay {}\n", file.display())),
            None => text.push_str(&format!("   {}\n", RaceError::NotAgain)),
        }
    }
    for (e, times) in explained {
        text.push_str(&format!("\nexplained, {times} times: {}\n   {}\n   {}\n", e.text, e.place, e.reason));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_no_folders() {
        assert_eq!(label("/tmp/a/b/own.c's scenario"), "own.c's scenario");
        assert_eq!(label("raise"), "raise");
    }

    #[test]
    fn reasons_of_races_have_a_place_and_are_added_up() {
        let known = |line: &str| KnownRace {
            function: "idle_cpu".into(),
            line: line.into(),
            kernels: Vec::new(),
            reason: "a guess is enough".into(),
        };
        let mut explained = Vec::new();
        for line in ["rq->curr", "rq->nr_running", "rq->curr"] {
            count(&mut explained, Reason::of_race(&known(line)), 3);
        }
        let rows: Vec<(&str, u64)> = explained.iter().map(|(r, times)| (&*r.place, *times)).collect();
        assert_eq!(rows, [("idle_cpu(), 'rq->curr'", 6), ("idle_cpu(), 'rq->nr_running'", 3)]);
    }
}
