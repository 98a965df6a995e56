//! `schedlab hourglass whatif`: measured threads and measured stolen time under other schedulers, predicted beside
//! measured.

use super::line;
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_hourglass::{Deadlines, Map, Model, Outputs, Plan, ThreadPlan, predict, run, wilson};
use schedlab_lab::{Setting, Subject, SubjectSpec};
use schedlab_report::chart::{Bars, Drawing, Scale};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_units::Span;
use serde_json::{Value, json};

/// The options of `whatif`, which stand anywhere on the line.
struct Asked {
    /// Schedulers to predict for.
    sched: Vec<SubjectSpec>,
    /// CPUs of the predicted machine; as measured unless given.
    cpus: Option<u32>,
    /// Computing time of jobs in per cent of what was measured.
    compute_pct: u32,
    /// Drawings of what nobody saw.
    draws: u64,
    /// Where to write the workload.
    workload: Option<std::path::PathBuf>,
}

const DRAWS: u64 = 5;
/// The scheduler whose answer is held against what is measured.
const MODEL: &str = "linux-6.12";

fn asked(words: &[String]) -> Result<(Asked, Vec<String>)> {
    let mut asked = Asked { sched: Vec::new(), cpus: None, compute_pct: 100, draws: DRAWS, workload: None };
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let known = ["--sched", "--cpus", "--compute", "--draws", "--workload"];
        if !known.contains(&word.as_str()) {
            rest.push(word.clone());
            continue;
        }
        let wrong =
            |value: &str, expected: &str| Failure::Input(format!("{word} {value}: expected {expected}"));
        let value = words.next().ok_or_else(|| wrong("", "a value behind it"))?;
        let number = |expected: &str, least: u64, most: u64| {
            let parsed = value.trim_end_matches('%').parse::<u64>().ok();
            parsed.filter(|n| (least..=most).contains(n)).ok_or_else(|| wrong(value, expected))
        };
        match word.as_str() {
            "--sched" => asked.sched.push(value.parse().map_err(Failure::input)?),
            "--cpus" => asked.cpus = Some(number("1 to 4096 CPUs", 1, 4096)? as u32),
            "--compute" => {
                asked.compute_pct = number("per cent of the computing time, 1 to 1000", 1, 1000)? as u32
            }
            "--draws" => asked.draws = number("1 to 100", 1, 100)?,
            _ => asked.workload = Some(value.into()),
        }
    }
    Ok((asked, rest))
}

/// The same run with jobs of another length.
fn scaled(plan: &Plan, pct: u32) -> Plan {
    let mut plan = plan.clone();
    let times = |span: Span| Span::from_ns(span.as_ns() * u64::from(pct) / 100);
    for thread in &mut plan.threads {
        thread.model = match thread.model.clone() {
            Model::Periodic { compute, period } => Model::Periodic { compute: times(compute), period },
            Model::Sporadic { compute, period } => Model::Sporadic { compute: times(compute), period },
            other => other,
        };
    }
    plan
}

fn measured(map: &Map) -> Vec<Option<Deadlines>> {
    let of = |jobs: schedlab_hourglass::JobCounts| Deadlines { jobs: jobs.count, missed: jobs.missed };
    map.threads.iter().map(|thread| thread.jobs().map(of)).collect()
}

/// Least, mean and most of the drawings' shares of missed deadlines.
fn over_draws(draws: &[Vec<Option<Deadlines>>], thread: usize) -> Option<(f64, f64, f64)> {
    let shares: Vec<f64> = draws
        .iter()
        .filter_map(|draw| draw[thread].filter(|d| d.jobs > 0))
        .map(|deadlines| deadlines.missed as f64 / deadlines.jobs as f64)
        .collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let (least, most) = shares.iter().fold((1.0f64, 0.0f64), |(a, b), share| (a.min(*share), b.max(*share)));
    (!shares.is_empty()).then_some((least, mean, most))
}

/// Measures, predicts, measures what was predicted.
pub(super) fn whatif(words: &[String], ui: &Ui) -> Result<()> {
    let (mut asked, rest) = asked(words)?;
    let line = line(&rest)?;
    super::check_outputs(&line)?;
    if asked.sched.is_empty() {
        asked.sched.push(MODEL.parse().map_err(Failure::input)?);
    }
    let step = ui.step("measuring");
    let map = run(&line.plan, &|what| step.now(what.to_string())).map_err(Failure::input)?;
    drop(step);
    let cpus = asked.cpus.unwrap_or(map.nr_cpus);
    map.predicts().map_err(Failure::input)?;
    if let Some(path) = &asked.workload {
        let mut text = Vec::new();
        schedlab_workload::write_text(&map.workload(asked.compute_pct, 1), &mut text)
            .map_err(Failure::input)?;
        output::text(path, &String::from_utf8_lossy(&text))?;
        ui.say(format!("wrote {}", path.display()));
    }
    let setting = Setting { hz: 250, nr_cpus: cpus, progress: ui };
    let subjects: std::result::Result<Vec<Subject>, _> =
        asked.sched.iter().map(|spec| spec.resolve(setting)).collect();
    let mut predictions = Vec::new();
    // What was stolen comes back as a task above all others. No limit may hold that one back; but real-time threads of
    // the plan have theirs.
    let has_limit = line.plan.threads.iter().any(|thread| thread.class.is_real_time());
    for subject in subjects.map_err(Failure::input)? {
        let subject = if has_limit { subject } else { subject.unprotected(cpus) };
        let step = ui.step("predicting");
        let mut draws = Vec::new();
        for seed in 0..asked.draws {
            step.now(format!("predicting under {}, drawing {} of {}", subject.label, seed + 1, asked.draws));
            let workload = map.workload(asked.compute_pct, seed);
            let found = predict(&workload, &line.plan.threads, &subject, (cpus, line.plan.duration));
            draws.push(found.map_err(|error| Failure::Input(error.to_string()))?);
        }
        predictions.push((subject.label, draws));
    }
    let step = ui.step("measuring what was predicted");
    let again = run(&scaled(&line.plan, asked.compute_pct), &|_| {}).map_err(Failure::input)?;
    drop(step);
    let table = table(&map, &again, &predictions, &line.plan.threads);
    deliver(&map, table, &line.outputs, ui)
}

/// The table, with what it holds for; the page has a picture; log and Perfetto are of the run that predicts.
fn deliver(map: &Map, table: Table, outputs: &Outputs, ui: &Ui) -> Result<()> {
    if let Some(path) = &outputs.log {
        schedlab_log::write(path, &map.log()).map_err(Failure::input)?;
        ui.say(format!("wrote {}", path.display()));
    }
    if let Some(path) = &outputs.perfetto {
        output::text(path, &map.perfetto().to_string())?;
        ui.say(format!("wrote {}", path.display()));
    }
    let holds = format!("holds for: {}", map.holds_for());
    let mut json = table.to_json();
    json["holds_for"] = json!(map.holds_for());
    let text = table.to_text();
    if let Some(path) = &outputs.html {
        let remarks = map.notes.iter().cloned().chain([holds.clone()]).collect();
        let drawings = vec![drawing(&table)];
        let title = "schedlab hourglass whatif".to_string();
        let pages = Pages { title, remarks, drawings, tables: vec![table, map.conditions()] };
        output::text(path, &pages.html())?;
        ui.say(format!("wrote {}", path.display()));
    }
    if !output::json_value(outputs.json.as_deref(), &json)? {
        map.notes.iter().for_each(|note| println!("note: {note}"));
        println!("{text}{holds}");
    }
    Ok(())
}

/// Predicted beside measured, per thread and scheduler.
fn drawing(table: &Table) -> Drawing {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name).unwrap_or(0);
    let [thread, sched] = ["thread", "sched"].map(place);
    let values = ["measured_pct", "predicted_pct", "again_pct"].map(place);
    let group = |row: &Vec<Value>| {
        let name = format!("thread {}, {}", row[thread], row[sched].as_str().unwrap_or_default());
        (name, values.iter().map(|at| row[*at].as_f64()).collect())
    };
    let bars = Bars {
        title: "Deadlines missed".into(),
        y_label: "%".into(),
        y_scale: Scale::Linear,
        names: ["measured before", "predicted", "measured"].map(String::from).to_vec(),
        groups: table.rows.iter().map(group).collect(),
        set: 0,
    };
    let caption =
        "The second measurement has the predicted computing time; it is on this machine's own scheduler.";
    Drawing { name: "whatif".into(), caption: caption.into(), svg: bars.svg() }
}

/// The prediction and what was measured are so many points of a hundred apart at most, where they agree.
const NEAR: f64 = 0.03;
/// An interval that is wider says nothing.
const WIDE: f64 = 0.06;

/// How a prediction (least, mean and most of its drawings) stands beside what was measured.
fn verdict((least, mean, most): (f64, f64, f64), measured: f64) -> &'static str {
    // shares are of some thousand jobs: differences of less are rounding
    let at_most = |difference: f64, bound: f64| difference <= bound + 1e-9;
    match () {
        () if at_most((mean - measured).abs(), NEAR) => "within 3 points",
        () if (least..=most).contains(&measured) && at_most(most - least, WIDE) => "inside",
        () => "off",
    }
}

type Predicted = (String, Vec<Vec<Option<Deadlines>>>);

fn table(map: &Map, again: &Map, predictions: &[Predicted], threads: &[ThreadPlan]) -> Table {
    let columns = vec![
        Column::new("thread", "", "which"),
        Column::new("model", "", "what it does"),
        Column::new("measured_pct", "%", "deadlines missed in the run that the prediction is made from"),
        Column::new("sched", "", "the scheduler of the prediction"),
        Column::new("predicted_pct", "%", "mean over the drawings of what nobody saw"),
        Column::new("least_pct", "%", "of the drawings"),
        Column::new("most_pct", "%", "of the drawings"),
        Column::new("again_pct", "%", "measured afterwards, with the predicted computing time"),
        Column::new("again_low_pct", "%", "lower end of its 95 % interval"),
        Column::new("again_high_pct", "%", "upper end"),
        Column::new(
            "verdict",
            "",
            "measured: within 3 points of the mean, inside the drawings' interval (6 points wide at most), or off",
        ),
    ];
    let mut table = Table::new("whatif", "Deadlines missed, predicted beside measured", columns);
    let pct = |share: f64| json!((share * 10_000.0).round() / 100.0);
    let (first, second) = (measured(map), measured(again));
    for (index, plan) in threads.iter().enumerate() {
        let (Some(before), Some(after)) = (first[index], second[index]) else { continue };
        let share = |of: Deadlines| wilson(of.missed, of.jobs);
        for (label, draws) in predictions {
            let predicted = over_draws(draws, index);
            let after = share(after);
            let verdict =
                predicted.zip(after).map_or(Value::Null, |(p, after)| json!(verdict(p, after.value)));
            table.push(vec![
                json!(index),
                json!(plan.model.to_string()),
                share(before).map_or(Value::Null, |e| pct(e.value)),
                json!(label),
                predicted.map_or(Value::Null, |p| pct(p.1)),
                predicted.map_or(Value::Null, |p| pct(p.0)),
                predicted.map_or(Value::Null, |p| pct(p.2)),
                after.map_or(Value::Null, |e| pct(e.value)),
                after.map_or(Value::Null, |e| pct(e.low)),
                after.map_or(Value::Null, |e| pct(e.high)),
                verdict,
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_interval_is_no_excuse() {
        assert_eq!(verdict((0.10, 0.10, 0.10), 0.13), "within 3 points");
        assert_eq!(verdict((0.08, 0.09, 0.14), 0.135), "inside");
        assert_eq!(verdict((0.00, 0.10, 0.50), 0.20), "off");
        assert_eq!(verdict((0.10, 0.10, 0.10), 0.14), "off");
    }
}
