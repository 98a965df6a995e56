//! Figures on tasks that are not alike: heavy and light ones (11, 13, 15, 16), one with a bonus (14), and high and low
//! priorities (17).

use super::queues::{lengths, lengths_drawn};
use super::trials::{
    LONG_S, SHORT_S, Term, Trial, made, mean_of, mixed, priorities, released_ns, sticky, terms, variance,
};
use super::{Figures, Row, curve, percent_of, rounded};
use crate::facts::Facts;
use crate::scenario::Scenario;
use schedlab_lab::Subject;
use schedlab_report::chart::{Drawing, Series, Style};
use schedlab_report::table::{Column, Table};
use schedlab_runner::pool::PoolError;
use serde_json::Value;

/// What light tasks want of a CPU, in %.
const LIGHT: [u32; 12] = [5, 10, 20, 30, 40, 50, 60, 65, 70, 80, 90, 95];
/// Nice levels between high and low priority.
const APART: [u32; 10] = [2, 4, 6, 8, 12, 16, 20, 26, 32, 38];
/// Runs of each case: released, and bound.
const RUNS: [u64; 2] = [5, 3];

/// An x, and the short and long terms of its released runs and of its bound ones.
struct Pair {
    x: u32,
    released: Vec<[Term; 2]>,
    bound: Vec<[Term; 2]>,
}

type Pairs = Vec<Pair>;

fn pairs(
    xs: &[u32],
    plan: impl Fn(u32, bool) -> crate::plan::Plan,
    subject: &Subject,
    effort: (u64, usize),
) -> Result<Pairs, PoolError> {
    let mut trials = Vec::new();
    for x in xs {
        for (is_second, runs) in [false, true].into_iter().zip(RUNS) {
            trials.extend(
                (1..=runs).map(|seed| Trial { is_second, ..Trial::new(*x, seed, plan(*x, is_second)) }),
            );
        }
    }
    let found = made(&trials, subject, effort, terms)?;
    let of = |x: u32, is_second: bool| -> Vec<[Term; 2]> {
        let mine =
            trials.iter().zip(&found).filter(|(trial, _)| (trial.x, trial.is_second) == (x, is_second));
        mine.filter_map(|(_, found)| *found).collect()
    };
    Ok(xs.iter().map(|x| Pair { x: *x, released: of(*x, false), bound: of(*x, true) }).collect())
}

/// A number of the released runs beside that of the bound ones, in the mean; `term` is 0: short, 1: long.
fn both(pair: &Pair, term: usize, of: fn(&Term) -> f64) -> Option<[f64; 2]> {
    let mean = |runs: &[[Term; 2]]| mean_of(runs.iter().map(|terms| of(&terms[term])));
    Some([mean(&pair.released)?, mean(&pair.bound)?])
}

/// The symmetric absolute error, in %: 0 is a match, 100 the worst.
fn smape([dynamic, bound]: [f64; 2]) -> f64 {
    if dynamic + bound == 0.0 { 0.0 } else { percent_of((dynamic - bound).abs(), dynamic + bound) }
}

/// How much more or less the first four have than when they are bound, in %.
fn gain([dynamic, bound]: [f64; 2]) -> f64 {
    percent_of(dynamic - bound, bound)
}

const TERMS: [&str; 2] = ["short", "long"];

/// The mean of a number over some x.
fn over(pairs: &Pairs, within: impl Fn(u32) -> bool, of: impl Fn(&Pair) -> Option<f64>) -> Option<f64> {
    mean_of(pairs.iter().filter(|pair| within(pair.x)).filter_map(of))
}

/// Figures 13 and 16: how near a mix of heavy and light tasks comes to one of each on each CPU.
///
/// # Errors
/// Runs cannot be started.
pub(super) fn mixes(
    subjects: &[(String, Subject)],
    effort: (u64, usize),
    figures: &mut Figures,
) -> Result<(), PoolError> {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("light_percent", "%", "of a CPU that each light task wants"),
        Column::new("term", "", "short: from 1 to 2 s after the release; long: from 30 to 60 s"),
        Column::new("smape", "%", "of the variance across the queues against one of each bound to each CPU"),
        Column::new("heavy", "%", "CPU time of the heavy tasks, more or less than bound"),
        Column::new("moves_per_s", "1/s", "of all eight tasks"),
    ];
    let mut table = Table::new("figures-13-16", "Four heavy and four light tasks", columns);
    let (mut matches, mut losses) = (Vec::new(), Vec::new());
    for (name, subject) in subjects {
        let pairs = pairs(&LIGHT, mixed, subject, effort)?;
        for (term, word) in TERMS.into_iter().enumerate() {
            let (mut of_match, mut of_loss) = (Vec::new(), Vec::new());
            for pair in &pairs {
                let x = f64::from(pair.x);
                let error = both(pair, term, |t| t.variance).map(smape);
                let heavy = both(pair, term, |t| t.first).map(gain);
                let moves = both(pair, term, |t| t.moves[0] + t.moves[1]).map(|both| both[0]);
                of_match.extend(error.map(|error| (x, error)));
                of_loss.extend(heavy.map(|heavy| (x, heavy)));
                let number = |value: Option<f64>| value.map_or(Value::Null, rounded);
                table.push(vec![
                    name.clone().into(),
                    pair.x.into(),
                    word.into(),
                    number(error),
                    number(heavy),
                    number(moves),
                ]);
            }
            if name != "bfs" {
                matches.push(Series::new(format!("{name}, {word}"), of_match, Style::Line));
            }
            losses.push(Series::new(format!("{name}, {word}"), of_loss, Style::Line));
        }
        statements(name, &pairs, figures);
    }
    let match_svg = curve(
        "variance of the queues against the ideal",
        "SMAPE, %",
        "light task's demand, % of a CPU",
        matches,
    );
    let caption = "Published, long term: O(1) and CFS mostly within 25 %, O(1) bad at 5 to 10 and 65 to 90 %; short \
        term: O(1) as long, CFS not.";
    figures.drawings.push(Drawing { name: "figure-13".into(), caption: caption.into(), svg: match_svg });
    let loss_svg = curve(
        "CPU time of heavy tasks against the ideal",
        "more or less, %",
        "light task's demand, % of a CPU",
        losses,
    );
    let caption =
        "Published: O(1) none below 60 %; CFS -20 % in the short and -10 % in the long term; BFS within 4 %.";
    figures.add(Drawing { name: "figure-16".into(), caption: caption.into(), svg: loss_svg }, table);
    Ok(())
}

/// What is published of figures 13 and 16 beside what is found.
fn statements(name: &str, pairs: &Pairs, figures: &mut Figures) {
    let error = |term: usize, within: fn(u32) -> bool| {
        over(pairs, within, |pair| both(pair, term, |t| t.variance).map(smape))
    };
    let heavy = |term: usize, within: fn(u32) -> bool| {
        over(pairs, within, |pair| both(pair, term, |t| t.first).map(gain))
    };
    let moves = over(pairs, |_| true, |pair| both(pair, 1, |t| t.moves[0] + t.moves[1]).map(|both| both[0]));
    let mut say = |place, what, published: &str, agrees, here| {
        let (sched, published) = (name.to_string(), published.to_string());
        figures.rows.push(Row { place, what, sched, published, agrees, here });
    };
    match name {
        "o1-2.6.18" => {
            let far = "SMAPE, long, light 5 and 10 %";
            say(
                "figure 13",
                "SMAPE, long, light 20 to 60 %",
                "25 % or less",
                (0.0, 25.0),
                error(1, |x| (20..=60).contains(&x)),
            );
            say("figure 13", far, "bad", (25.0, 100.0), error(1, |x| x <= 10));
            say(
                "figure 13",
                "SMAPE, long, light 65 to 90 %",
                "bad",
                (25.0, 100.0),
                error(1, |x| (65..=90).contains(&x)),
            );
            say(
                "figure 16",
                "heavy, long, light below 60 %",
                "nearly identical",
                (-5.0, 5.0),
                heavy(1, |x| x < 60),
            );
            say(
                "figure 16",
                "heavy, short, light 65 to 90 %",
                "a significant loss",
                (-60.0, -5.0),
                heavy(0, |x| (65..=90).contains(&x)),
            );
        }
        "cfs-2.6.32" => {
            say("figure 13", "SMAPE, long, all", "about 25 %", (12.5, 50.0), error(1, |_| true));
            say("section 4.5", "moves per s, long", "4.5", (2.25, 9.0), moves);
            say("figure 16", "heavy, long, all", "about -10 %", (-20.0, -5.0), heavy(1, |_| true));
            say("figure 16", "heavy, short, all", "about -20 %", (-40.0, -10.0), heavy(0, |_| true));
        }
        _ => {
            say("figure 16", "heavy, long, all", "within 4 %", (-4.0, 4.0), heavy(1, |_| true));
            say("section 4.5", "moves per s, long", "375", (187.5, 750.0), moves);
        }
    }
}

/// Figures 11 and 15: a mix under CFS, one run released and one bound: 100 ms of the queues, and their variance over
/// time.
///
/// # Errors
/// Runs cannot be started.
pub(super) fn one_mix(
    subjects: &[(String, Subject)],
    effort: (u64, usize),
    figures: &mut Figures,
) -> Result<(), PoolError> {
    const PERCENT: u32 = 50;
    let Some((_, subject)) = subjects.iter().find(|(name, _)| name == "cfs-2.6.32") else { return Ok(()) };
    let trial = |is_second| Trial { is_second, ..Trial::new(PERCENT, 1, mixed(PERCENT, is_second)) };
    let read = |scenario: &Scenario, facts: &Facts| {
        let at_ns = released_ns(scenario);
        let from_ns = at_ns + LONG_S.0 * 1_000_000_000;
        let per_s = |second: u64| {
            let from_ns = at_ns + second * 1_000_000_000;
            (second as f64, variance(facts, from_ns, from_ns + 1_000_000_000))
        };
        let variances: Vec<(f64, f64)> = (0..LONG_S.1).map(per_s).collect();
        let late = facts.moves.iter().filter(|moved| moved.time_ns > at_ns);
        let moves: Vec<f64> = late.map(|moved| (moved.time_ns - at_ns) as f64 / 1e9).collect();
        (lengths(facts, from_ns, from_ns + 100_000_000), from_ns, variances, moves)
    };
    let found = made(&[trial(true), trial(false)], subject, effort, read)?;
    let columns = vec![
        Column::new("case", "", "bound: one of each on each CPU; released"),
        Column::new("second", "s", "after the release"),
        Column::new("variance", "tasks^2", "across the queues, mean of that second"),
        Column::new("moves", "", "in that second"),
    ];
    let mut over_time = Table::new("figure-15", "Variance of the queues over time, CFS", columns);
    let mut series = Vec::new();
    for (case, one) in ["bound", "released"].into_iter().zip(&found) {
        let Some((states, from_ns, variances, moves)) = one else { continue };
        let columns = vec![
            Column::new("ms", "ms", "from 30 s after the release on"),
            Column::new("cpu", "", "whose queue"),
            Column::new("length", "tasks", "on the CPU, the running one included"),
        ];
        let name = format!("figure-11-{case}");
        let title = format!("Queues of 4 heavy and 4 light tasks of {PERCENT} % under CFS, {case}");
        let drawn = lengths_drawn((&name, &title), columns, states, *from_ns as f64, Vec::new());
        let caption = if case == "bound" { "Published: 1 to 2 tasks." } else { "Published: 0 to 4 tasks." };
        figures.add(Drawing { name, caption: caption.into(), svg: drawn.0 }, drawn.1);
        for (second, variance) in variances {
            let within = moves.iter().filter(|at| (*second..second + 1.0).contains(*at)).count();
            over_time.push(vec![case.into(), (*second).into(), rounded(*variance), within.into()]);
        }
        series.push(Series::new(case, variances.clone(), Style::Steps));
        if case == "released" {
            let marks = moves.iter().map(|at| (*at, 0.0)).collect();
            series.push(Series::new("moves", marks, Style::Points));
        }
    }
    let title = format!("variance across the queues, light tasks of {PERCENT} %, one run each");
    let svg = curve(&title, "variance, mean of each second", "time, s", series);
    let caption = "Published: the ideal is found, held from 11 to 33 s, and lost.";
    figures.add(Drawing { name: "figure-15".into(), caption: caption.into(), svg }, over_time);
    Ok(())
}

/// Figure 14: what a light task is given beside heavy ones, after 16 others were there and without.
///
/// # Errors
/// Runs cannot be started.
pub(super) fn bonus(
    subjects: &[(String, Subject)],
    effort: (u64, usize),
    figures: &mut Figures,
) -> Result<(), PoolError> {
    let Some((name, subject)) = subjects.iter().find(|(name, _)| name == "o1-2.6.18") else { return Ok(()) };
    let columns = vec![
        Column::new("heavy", "tasks", "beside the light one, on its CPU"),
        Column::new("case", "", "cold; warm: 16 others were there for 10 s and have ended"),
        Column::new(
            "percent",
            "%",
            "of the CPU that the light task has, from 1 to 2 s after their end, mean of 5 runs",
        ),
    ];
    let mut table = Table::new("figure-14", "CPU time of a light task of 85 % under O(1)", columns);
    let mut trials = Vec::new();
    for is_second in [false, true] {
        for x in 1..=8 {
            let windows = vec![SHORT_S];
            trials.extend((1..=5).map(|seed| Trial {
                is_second,
                windows: windows.clone(),
                ..Trial::new(x, seed, sticky(x, is_second))
            }));
        }
    }
    let found = made(&trials, subject, effort, |_, facts| facts.in_windows[0][0])?;
    let mut series = Vec::new();
    let mut apart = Vec::new();
    for (is_second, case) in [(false, "without"), (true, "with")] {
        let mut points = Vec::new();
        for x in 1..=8 {
            let mine =
                trials.iter().zip(&found).filter(|(trial, _)| (trial.x, trial.is_second) == (x, is_second));
            let percents = mine.filter_map(|(_, ns)| ns.map(|ns| percent_of(ns as f64, 1e9)));
            let Some(percent) = mean_of(percents) else { continue };
            points.push((f64::from(x), percent));
            table.push(vec![x.into(), case.into(), rounded(percent)]);
        }
        apart.push(mean_of(points.iter().map(|point| point.1)));
        series.push(Series::new(case, points, Style::Line));
    }
    figures.rows.push(Row {
        place: "figure 14",
        what: "light task's CPU, warm less cold, in %",
        sched: name.clone(),
        published: "the bonus outlives the load".into(),
        agrees: (2.0, 100.0),
        here: apart[0].zip(apart[1]).map(|(cold, warm)| warm - cold),
    });
    let svg = curve("CPU time of a light task of 85 %", "% of the CPU", "heavy tasks beside it", series);
    let caption = "Published: the priority bonus in levels, larger after the load than without. Logs have no dynamic \
        priorities: this is what the bonus gives.";
    figures.add(Drawing { name: "figure-14".into(), caption: caption.into(), svg }, table);
    Ok(())
}

/// Figure 17: moves of high and low priorities, per second of CPU time.
///
/// # Errors
/// Runs cannot be started.
pub(super) fn levels(
    subjects: &[(String, Subject)],
    effort: (u64, usize),
    figures: &mut Figures,
) -> Result<(), PoolError> {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("difference", "nice levels", "between high and low"),
        Column::new("term", "", "short: from 1 to 2 s after the release; long: from 30 to 60 s"),
        Column::new("high_moves", "1/CPU s", "of the four high ones, per second of their CPU time"),
        Column::new("low_moves", "1/CPU s", "of the four low ones"),
        Column::new(
            "high",
            "%",
            "CPU time of the high ones, more or less than bound one of each to each CPU",
        ),
    ];
    let mut table = Table::new("figure-17", "Four tasks of high and four of low priority", columns);
    let mut series = Vec::new();
    for (name, subject) in subjects {
        let pairs = pairs(&APART, priorities, subject, effort)?;
        let normal = |pair: &Pair, term| {
            let high = both(pair, term, |t| t.moves[0])?[0] / both(pair, term, |t| t.first)?[0];
            let low = both(pair, term, |t| t.moves[1])?[0] / both(pair, term, |t| t.second)?[0].max(1e-9);
            Some([high, low])
        };
        for (term, word) in TERMS.into_iter().enumerate() {
            for pair in &pairs {
                let Some([high, low]) = normal(pair, term) else { continue };
                let gain = both(pair, term, |t| t.first).map_or(Value::Null, |both| rounded(gain(both)));
                let row = [rounded(high), rounded(low), gain];
                let mut cells = vec![name.clone().into(), pair.x.into(), word.into()];
                cells.extend(row);
                table.push(cells);
            }
        }
        if name == "bfs" {
            for (class, which) in ["high", "low"].into_iter().zip(0..2) {
                let points =
                    pairs.iter().filter_map(|pair| Some((f64::from(pair.x), normal(pair, 1)?[which])));
                series.push(Series::new(format!("{name}, {class}"), points.collect(), Style::Line));
            }
        }
        level_statements(name, &pairs, |pair| normal(pair, 1), figures);
    }
    let svg =
        curve("moves per second of CPU time under BFS", "moves", "nice levels between high and low", series);
    let caption =
        "Published: high ones move 1.9 times as often at differences of 2 to 6, low ones 2.3 times from 16.";
    figures.add(Drawing { name: "figure-17".into(), caption: caption.into(), svg }, table);
    Ok(())
}

/// What is published of priorities beside what is found.
fn level_statements(
    name: &str,
    pairs: &Pairs,
    normal: impl Fn(&Pair) -> Option<[f64; 2]>,
    figures: &mut Figures,
) {
    let worst = |term: usize, within: fn(u32) -> bool| {
        let mine = pairs.iter().filter(|pair| within(pair.x));
        mine.filter_map(|pair| both(pair, term, |t| t.first).map(gain)).reduce(f64::min)
    };
    let low = over(pairs, |x| x >= 26, |pair| both(pair, 1, |t| t.moves[1]).map(|both| both[0]));
    let mut say = |place, what, published: &str, agrees, here| {
        let (sched, published) = (name.to_string(), published.to_string());
        figures.rows.push(Row { place, what, sched, published, agrees, here });
    };
    match name {
        "o1-2.6.18" => {
            say("section 4.6", "low ones' moves per s, from 26 levels on", "1.5", (0.75, 3.0), low);
            say(
                "section 4.6",
                "high ones' CPU, worst, up to 6 levels",
                "up to -20 %",
                (-30.0, -10.0),
                worst(1, |x| x <= 6),
            );
        }
        "cfs-2.6.32" => {
            say(
                "section 4.6",
                "high ones' CPU, worst, short",
                "up to -75 %",
                (-85.0, -50.0),
                worst(0, |_| true),
            );
            say(
                "section 4.6",
                "high ones' CPU, worst, long",
                "-4 % at most",
                (-4.0, 0.0),
                worst(1, |_| true),
            );
        }
        _ => {
            let ratio = |within: fn(u32) -> bool| {
                over(pairs, within, |pair| normal(pair).map(|[high, low]| low / high.max(1e-9)))
            };
            say(
                "figure 17",
                "moves of low by high, 2 to 6 levels",
                "1 / 1.9",
                (0.36, 0.77),
                ratio(|x| x <= 6),
            );
            say(
                "figure 17",
                "moves of low by high, from 16 levels on",
                "2.3",
                (1.5, 3.5),
                ratio(|x| x >= 16),
            );
            say(
                "section 4.6",
                "high ones' CPU, worst, short",
                "up to -12 %",
                (-18.0, -6.0),
                worst(0, |_| true),
            );
        }
    }
}
