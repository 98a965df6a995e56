//! Figures on queues of equal tasks: 4 and 5 from runs that answer questions, 7 and 12 from runs of their own.

use super::trials::{Trial, five, made, mean_of, released_ns, resolve, resolved_s};
use super::{Asked, Figures, Row, curve, percent_of, rounded};
use crate::experiments::What;
use crate::facts::Facts;
use schedlab_lab::Subject;
use schedlab_report::chart::{Drawing, Series, Style, Svg};
use schedlab_report::table::{Column, Table};
use schedlab_runner::pool::PoolError;
use serde_json::Value;

/// Figure 4: the four queues of one run of O(1).
pub(super) fn timeline(asked: &[Asked], figures: &mut Figures) {
    let Some((data, _)) = asked.iter().find(|(_, model)| model.subject == "o1-2.6.18") else { return };
    let Some(one) = data.of(What::Spread).first() else { return };
    let at_ns = released_ns(&one.scenario);
    let states = lengths(&one.facts, at_ns.saturating_sub(50_000_000), at_ns + 500_000_000);
    let columns = vec![
        Column::new("ms", "ms", "after the release"),
        Column::new("cpu", "", "whose queue"),
        Column::new("length", "tasks", "on the CPU, the running one included"),
    ];
    let (svg, table) = lengths_drawn(
        ("figure-4", "Queues of one run of O(1), [8,0,0,0]"),
        columns,
        &states,
        at_ns as f64,
        Vec::new(),
    );
    let caption = "Published: 8, 0, 0, 0 to 2, 2, 2, 2 within 250 ms, in distinct steps.";
    figures.add(Drawing { name: "figure-4".into(), caption: caption.into(), svg }, table);
}

/// The lengths of the queues between two instants, at each change.
pub(super) fn lengths(facts: &Facts, from_ns: u64, to_ns: u64) -> Vec<(u64, u64, Vec<u32>)> {
    let mut states: Vec<(u64, u64, Vec<u32>)> = Vec::new();
    facts.for_each_state(from_ns, |since_ns, until_ns, lengths| {
        if since_ns >= to_ns {
            return;
        }
        match states.last_mut() {
            Some(last) if last.2 == lengths => last.1 = until_ns.min(to_ns),
            _ => states.push((since_ns, until_ns.min(to_ns), lengths.to_vec())),
        }
    });
    states
}

/// Queues over time, with other series beside them; times in ms from `zero_ns`.
pub(super) fn lengths_drawn(
    (name, title): (&str, &str),
    columns: Vec<Column>,
    states: &[(u64, u64, Vec<u32>)],
    zero_ns: f64,
    more: Vec<Series>,
) -> (Svg, Table) {
    let mut table = Table::new(name, title, columns);
    let nr = states.first().map_or(0, |state| state.2.len());
    let mut points = vec![Vec::new(); nr];
    for (since_ns, until_ns, lengths) in states {
        let ms = |ns: u64| (ns as f64 - zero_ns) / 1e6;
        for (cpu, length) in lengths.iter().enumerate() {
            table.push(vec![rounded(ms(*since_ns)), cpu.into(), (*length).into()]);
            points[cpu].push((ms(*since_ns), f64::from(*length)));
            points[cpu].push((ms(*until_ns), f64::from(*length)));
        }
    }
    let queue = |(cpu, points)| Series::new(format!("CPU {cpu}"), points, Style::Steps);
    let mut series: Vec<Series> = points.into_iter().enumerate().map(queue).collect();
    series.extend(more);
    let svg = curve(title, "tasks on the CPU", "time, ms", series);
    (svg, table)
}

/// Figure 5: CPU time of the eight tasks, sorted, in the last eight seconds of each run.
pub(super) fn eight(asked: &[Asked], figures: &mut Figures) {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("seed", "", "of the run"),
        Column::new("rank", "", "of the task, the least CPU time first"),
        Column::new("percent", "%", "of a CPU, over 8 s; 50 is fair"),
    ];
    let mut table = Table::new("figure-5", "CPU time with [8,0,0,0]", columns);
    let mut series = Vec::new();
    for (data, model) in asked {
        let mut points = Vec::new();
        let mut unfair = 0;
        let runs = data.of(What::Spread);
        for one in runs {
            let (from, to) = one.scenario.windows[0];
            let mut parts: Vec<f64> = one.facts.in_windows[0]
                .iter()
                .map(|ns| percent_of(*ns as f64, (to - from).as_ns() as f64))
                .collect();
            parts.sort_by(f64::total_cmp);
            unfair += usize::from(parts.first().is_some_and(|least| *least < 45.0));
            for (rank, percent) in parts.into_iter().enumerate() {
                points.push((rank as f64 + 1.0, percent));
                table.push(vec![
                    model.subject.clone().into(),
                    one.seed.into(),
                    (rank + 1).into(),
                    rounded(percent),
                ]);
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        series.push(Series::new(model.subject.clone(), points, Style::Points));
        let (published, agrees) = match model.subject.as_str() {
            "cfs-2.6.32" => ("some runs are unfair", (0.001, 1.0)),
            _ => ("every task has half of a CPU in all runs", (0.0, 0.0)),
        };
        figures.rows.push(Row {
            place: "figure 5",
            what: "share of runs in which a task has less than 45 %",
            sched: model.subject.clone(),
            published: published.into(),
            agrees,
            here: Some(unfair as f64 / runs.len().max(1) as f64),
        });
    }
    series.push(Series::new("fair", vec![(1.0, 50.0), (8.0, 50.0)], Style::Dashed));
    let svg =
        curve("CPU time of eight tasks on four CPUs", "% of a CPU", "task, the least CPU time first", series);
    let caption = "Published: half of a CPU each under O(1) and BFS; under CFS not in every run.";
    figures.add(Drawing { name: "figure-5".into(), caption: caption.into(), svg }, table);
}

/// Figure 7: the time until every queue is within 15 % of the mean.
///
/// # Errors
/// Runs cannot be started.
pub(super) fn resolving(
    subjects: &[(String, Subject)],
    effort: (u64, usize),
    figures: &mut Figures,
) -> Result<(), PoolError> {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("excess", "tasks", "more on each other queue"),
        Column::new("seed", "", "of the run"),
        Column::new("touched_s", "s", "until every queue was within 15 % of the mean, for the first time"),
        Column::new("held_s", "s", "until that held for a second"),
    ];
    let mut table = Table::new("figure-7", "Time to resolve [10+x,10+x,10+x,10]", columns);
    let mut series = Vec::new();
    let shapes = (20..=90).step_by(10);
    let trial = |x: u32, seed| Trial::new(x, seed, resolve(x));
    let trials: Vec<Trial> = shapes.flat_map(|x| (1..=10).map(move |seed| trial(x, seed))).collect();
    for (name, subject) in subjects.iter().filter(|(name, _)| name != "bfs") {
        let found = made(&trials, subject, effort, resolved_s)?;
        let mut points = Vec::new();
        for (trial, found) in trials.iter().zip(&found) {
            let Some((touched, held)) = found else { continue };
            let or_null = |value: &Option<f64>| value.map_or(Value::Null, rounded);
            points.extend(held.map(|held| (f64::from(trial.x), held)));
            let (x, seed) = (trial.x.into(), trial.seed.into());
            table.push(vec![name.clone().into(), x, seed, or_null(touched), or_null(held)]);
        }
        let is_cfs = name == "cfs-2.6.32";
        let (mean, most) = if is_cfs { ((3.0, 27.0), (13.0, 52.0)) } else { ((0.5, 9.0), (0.5, 9.0)) };
        let said = if is_cfs { ["nearly 9 s", "26 s"] } else { ["within seconds", "within seconds"] };
        let here = [
            mean_of(points.iter().map(|point| point.1)),
            points.iter().map(|point| point.1).reduce(f64::max),
        ];
        let rows = [("mean time to resolve, s", mean), ("longest time to resolve, s", most)];
        for (((what, agrees), published), here) in rows.into_iter().zip(said).zip(here) {
            let (sched, published) = (name.clone(), published.to_string());
            figures.rows.push(Row { place: "figure 7", what, sched, published, agrees, here });
        }
        series.push(Series::new(name.clone(), points, Style::Points));
    }
    let svg = curve(
        "time until every queue is within 15 % of the mean, for a second",
        "time, s",
        "tasks more on each other queue",
        series,
    );
    let caption = "Published: O(1) within seconds, CFS nearly 9 s in the mean and up to 26 s.";
    figures.add(Drawing { name: "figure-7".into(), caption: caption.into(), svg }, table);
    Ok(())
}

/// Figure 12: five tasks on four CPUs under CFS, each task's share of each second of one run.
///
/// # Errors
/// The run cannot be started.
pub(super) fn five_over_time(
    subjects: &[(String, Subject)],
    effort: (u64, usize),
    figures: &mut Figures,
) -> Result<(), PoolError> {
    const SECONDS: u64 = 70;
    let Some((_, subject)) = subjects.iter().find(|(name, _)| name == "cfs-2.6.32") else { return Ok(()) };
    let windows = (0..SECONDS).map(|second| (second, second + 1)).collect();
    let trials = [Trial { windows, ..Trial::new(5, 1, five()) }];
    let seconds = made(&trials, subject, effort, |_, facts| facts.in_windows.clone())?;
    let seconds: Vec<Vec<u64>> = seconds.into_iter().flatten().flatten().collect();
    let columns = vec![
        Column::new("task", "", "A to E"),
        Column::new("second", "s", "after the release"),
        Column::new("percent", "%", "of a CPU, in that second; 80 is fair"),
    ];
    let mut table = Table::new("figure-12", "CPU time of five tasks under CFS, one run", columns);
    let mut series = Vec::new();
    for (task, name) in ["A", "B", "C", "D", "E"].into_iter().enumerate() {
        let mut points = Vec::new();
        for (second, cpu_ns) in seconds.iter().enumerate() {
            let percent = percent_of(cpu_ns[task] as f64, 1e9);
            points.push((second as f64, percent));
            table.push(vec![name.into(), second.into(), rounded(percent)]);
        }
        series.push(Series::new(name, points, Style::Thin));
    }
    series.push(Series::new("fair", vec![(0.0, 80.0), (SECONDS as f64, 80.0)], Style::Dashed));
    let svg = curve(
        "CPU time of five tasks on four CPUs under CFS, one run",
        "% of a CPU, per second",
        "time, s",
        series,
    );
    let caption = "Published: two tasks hold a CPU each for tens of seconds, the other three share two CPUs.";
    figures.add(Drawing { name: "figure-12".into(), caption: caption.into(), svg }, table);
    Ok(())
}
