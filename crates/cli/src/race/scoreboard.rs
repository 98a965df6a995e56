//! `race --scoreboard`: which search finds which seeded bug, and how soon?

use super::{RaceArgs, fault, kernel};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_race::study::{self, Explained, Score};
use schedlab_race::{MemoryModel, Strategy, seeded};
use serde_json::json;

/// Searches of the table. The last one is the weak model's.
const SEARCHES: [(Strategy, MemoryModel, &str); 5] = [
    (Strategy::Random, MemoryModel::Sc, "random"),
    (Strategy::Pct(3), MemoryModel::Sc, "pct-3"),
    (Strategy::Pos, MemoryModel::Sc, "pos"),
    (Strategy::Dpor, MemoryModel::Sc, "exhaustive"),
    (Strategy::Mix, MemoryModel::Lkmm, "lkmm"),
];

fn cell(score: &Score) -> String {
    match score.schedules {
        Some(n) => n.to_string(),
        None => "-".into(),
    }
}

/// Whether the table says of a bug what its description does.
fn agrees(needs: &str, scores: &[Score]) -> bool {
    let (sc, weak) = scores.split_at(scores.len() - 1);
    let by_order = sc.iter().any(|s| s.schedules.is_some());
    let by_weak = weak.iter().any(|s| s.schedules.is_some());
    match needs {
        "sc" => by_order,
        "weak" => !by_order && by_weak,
        _ => !by_order && !by_weak,
    }
}

pub(super) fn scoreboard(args: &RaceArgs, ui: &Ui) -> Result<()> {
    let kernel = kernel(args.kernel(), ui)?;
    let explained = study::explained().map_err(fault)?;
    let step = ui.step("scoreboard");
    let mut rows = Vec::new();
    let mut text = format!(
        "Linux {}; schedules up to the first finding, median of {} seeds, at most {} of each scenario; \
         '-': not found\n\n| bug | target | needs | {} | found as | agrees |\n|{}\n",
        kernel.version,
        args.seeds,
        args.schedules(),
        SEARCHES.map(|(_, _, name)| name).join(" | "),
        "---|".repeat(SEARCHES.len() + 5)
    );
    let mut misses = Vec::new();
    for seeded in seeded::all().map_err(fault)?.into_iter().filter(|s| s.target != "linux") {
        step.now(format!("scoreboard: {}", seeded.name));
        let (compiled, scenarios) = study::seeded(&seeded, &kernel).map_err(fault)?;
        let mut scores = Vec::new();
        for (strategy, model, _) in SEARCHES {
            let amount = (args.seeds, args.schedules());
            let covers = |e: &&Explained| e.covers(&seeded.target, "", model, Some(&seeded));
            let known: Vec<String> = explained.iter().filter(covers).map(|e| e.text.clone()).collect();
            scores
                .push(study::score(&compiled, &scenarios, (strategy, model), amount, &known).map_err(fault)?);
        }
        let finding = scores.iter().find_map(|s| s.finding.clone()).unwrap_or_else(|| "-".into());
        let agrees = agrees(&seeded.needs, &scores);
        if !agrees {
            misses.push(seeded.name.clone());
        }
        text.push_str(&format!(
            "| {} | {} | {} | {} | {finding} | {} |\n",
            seeded.name,
            seeded.target,
            seeded.needs,
            scores.iter().map(cell).collect::<Vec<_>>().join(" | "),
            if agrees { "yes" } else { "**no**" }
        ));
        type Row<'a> = (&'a (Strategy, MemoryModel, &'static str), &'a Score);
        let search = |((_, _, name), score): Row<'_>| {
            let Score { schedules, wall_s, .. } = score;
            json!({"name": name, "schedules": schedules, "wall_s": wall_s})
        };
        rows.push(json!({
            "name": seeded.name, "target": seeded.target,
            "title": seeded.title, "fix": seeded.fix, "needs": seeded.needs,
            "agrees": agrees, "finding": finding,
            "searches": SEARCHES.iter().zip(&scores).map(search).collect::<Vec<_>>(),
        }));
    }
    drop(step);
    let value = json!({
        "schema": 1, "kernel": kernel.version, "seeds": args.seeds, "schedules": args.schedules(), "bugs": rows,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{text}");
    }
    match misses.is_empty() {
        true => Ok(()),
        false => Err(Failure::Finding(format!("not as described: {}", misses.join(", ")))),
    }
}
