//! `schedlab workload show`: what is in it, and one task's life.

use super::{SelectArgs, open, svg};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_report::units::{count, percent, time};
use schedlab_report::{Style, clip};
use schedlab_units::{Span, TaskId};
use schedlab_workload::stream::Head;
use schedlab_workload::tools::{Column, Histogram, Life, Survey, survey};
use schedlab_workload::{ALL, Birth, Event, EventKind, InitState, ObjectOp, Wakeup, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    #[command(flatten)]
    pub select: SelectArgs,
    /// With a task: list this many of its events.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub events: usize,
    /// Names listed.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub top: usize,
    /// With a task: draw its life to a file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Width of the page, and of the picture of a life in it.
const WIDTH: usize = 100;
const COLUMNS: usize = 96;
/// Columns of a drawing in a file.
const COLUMNS_SVG: usize = 960;

pub(super) fn show(args: &ShowArgs, ui: &Ui) -> Result<()> {
    let source = open(&args.input, ui)?;
    let head = source.head();
    let asked = !args.select.selector().is_all();
    let row = if asked { Some(one_task(args, head)?) } else { None };
    if row.is_none() && (args.svg.is_some() || args.events > 0) {
        return Err(Failure::Input("whose life? Name a task with --pid or --name".into()));
    }
    let columns = if args.svg.is_some() { COLUMNS_SVG } else { COLUMNS };
    let step = ui.step(format!("reading {}", args.input.display()));
    let survey = survey(&source, row.map(|row| (row, columns, args.events))).map_err(Failure::input)?;
    drop(step);
    if let (Some(path), Some(life)) = (&args.svg, &survey.life) {
        svg::write(path, head, life)?;
        ui.say(format!("drawing: {}", path.display()));
    }
    if args.json {
        return output::print_json(&facts(head, &survey));
    }
    let mut text = String::new();
    match &survey.life {
        Some(life) => task(&mut text, head, life, Style::detect()),
        None => summary(&mut text, args, head, &survey, Style::detect()),
    }
    print!("{text}");
    Ok(())
}

/// The one task that is meant; of several the one with the most events.
fn one_task(args: &ShowArgs, head: &Head) -> Result<TaskId> {
    let rows = args.select.selector().rows(&head.workload);
    let meant = (0..rows.len()).filter(|&row| rows[row]);
    let longest = meant.max_by_key(|&row| (head.lives[row].nr_events, std::cmp::Reverse(row)));
    longest.map(|row| TaskId(row as u32)).ok_or_else(|| {
        let names: Vec<&str> = head.workload.tasks.iter().map(|task| task.name.as_str()).take(8).collect();
        Failure::Input(format!("no task fits; there are for example {}", names.join(", ")))
    })
}

fn line(text: &mut String, content: &str) {
    text.push_str(content.trim_end());
    text.push('\n');
}

fn summary(text: &mut String, args: &ShowArgs, head: &Head, survey: &Survey, style: Style) {
    let workload = &head.workload;
    let name = args.input.display().to_string();
    line(text, "");
    line(
        text,
        &format!(
            "{} · {} tasks · {} events",
            style.bold(&clip(&name, 60)),
            count(workload.tasks.len() as u64),
            count(head.nr_events)
        ),
    );
    line(
        text,
        &style.dim(&format!(
            "{} of CPU time, {} in blocks; the last event would come at {} if nobody ever waited for a CPU",
            time(survey.cpu.as_ns()),
            time(survey.blocked.as_ns()),
            time(survey.end.as_ns())
        )),
    );
    line(text, "");
    let kinds: Vec<String> = survey
        .events
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(kind, n)| format!("{kind} {}", count(*n)))
        .collect();
    line(text, &format!("events     {}", kinds.join(" · ")));
    let all = survey.timers + survey.devices + survey.dependent;
    line(
        text,
        &format!(
            "wakeups    {} by timers, {} by devices, {} by tasks of the workload",
            percent(survey.timers, all),
            percent(survey.devices, all),
            percent(survey.dependent, all)
        ),
    );
    line(text, &format!("policies   {}", policies(workload)));
    if !workload.cgroups.is_empty() {
        line(text, &format!("groups     {}", groups(workload)));
    }
    line(text, "");
    histograms(text, &survey.runs, &survey.sleeps, style);
    line(text, "");
    line(
        text,
        &style.dim(&format!(
            "{:<24} {:>8} {:>12} {:>8} {:>10} {:>12} {:>12}",
            "name", "tasks", "CPU time", "share", "blocks", "mean run", "mean block"
        )),
    );
    for row in survey.names.iter().take(args.top) {
        let mean = |sum: Span, n: u64| sum.as_ns().checked_div(n).map_or_else(|| "-".into(), time);
        line(
            text,
            &format!(
                "{:<24} {:>8} {:>12} {:>8} {:>10} {:>12} {:>12}",
                clip(&row.name, 24),
                count(row.tasks),
                time(row.cpu.as_ns()),
                percent(row.cpu.as_ns(), survey.cpu.as_ns()),
                count(row.blocks),
                mean(row.cpu, row.blocks.max(row.tasks)),
                mean(row.blocked, row.blocks)
            ),
        );
    }
    if survey.names.len() > args.top {
        let more = survey.names.len() - args.top;
        line(
            text,
            &style.dim(&format!("and {} more names (--top {})", count(more as u64), survey.names.len())),
        );
    }
    if !workload.dropped.is_empty() {
        line(text, "");
        line(text, &style.dim("left out or made up so far"));
        for (reason, n) in &workload.dropped {
            line(text, &format!("{:>10}  {reason}", count(*n)));
        }
    }
    if !workload.notes.is_empty() {
        line(text, "");
        line(text, &style.dim("notes"));
        for (key, value) in &workload.notes {
            let value = value.lines().collect::<Vec<_>>().join("; ");
            line(text, &format!("{:<20} {}", clip(key, 20), clip(&value, WIDTH - 21)));
        }
    }
}

fn policies(workload: &Workload) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for task in &workload.tasks {
        let key = match &task.params {
            None => "as their parents".to_string(),
            Some(params) if params.rt_priority > 0 => format!("{} {}", params.policy, params.rt_priority),
            Some(params) if params.deadline.is_some() => params.policy.to_string(),
            Some(params) => format!("{} {}", params.policy, params.nice),
        };
        *counts.entry(key).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let shown: Vec<String> = counts.iter().take(6).map(|(key, n)| format!("{key}: {}", count(*n))).collect();
    let more = if counts.len() > 6 { format!(", and {} more", counts.len() - 6) } else { String::new() };
    shown.join(", ") + &more
}

fn groups(workload: &Workload) -> String {
    let mut members = vec![0u64; workload.cgroups.len()];
    for group in workload.tasks.iter().filter_map(|task| task.cgroup) {
        if let Some(n) = members.get_mut(group.0 as usize) {
            *n += 1;
        }
    }
    let shown = workload.cgroups.iter().zip(members).take(4);
    let shown: Vec<String> =
        shown.map(|(group, n)| format!("{} ({} tasks)", clip(&group.path, 24), count(n))).collect();
    let more = workload.cgroups.len().saturating_sub(4);
    shown.join(", ") + &if more > 0 { format!(", and {more} more") } else { String::new() }
}

/// Two histograms side by side, a line per power of two (of ten where many).
fn histograms(text: &mut String, runs: &Histogram, sleeps: &Histogram, style: Style) {
    const BAR: usize = 24;
    let head = |name: &str, h: &Histogram| {
        format!(
            "{name}: {} · mean {} · longest {}",
            count(h.count),
            time(h.mean().as_ns()),
            time(h.max.as_ns())
        )
    };
    line(text, &format!("{:<50}{}", clip(&head("runs", runs), 49), clip(&head("blocks", sleeps), 49)));
    let used = |h: &Histogram| {
        let first = h.buckets.iter().position(|&n| n > 0);
        first.map(|first| (first, h.buckets.iter().rposition(|&n| n > 0).unwrap_or(first)))
    };
    let (Some(low), Some(high)) = (
        [runs, sleeps].into_iter().filter_map(used).map(|(first, _)| first).min(),
        [runs, sleeps].into_iter().filter_map(used).map(|(_, last)| last).max(),
    ) else {
        return;
    };
    // two powers of two a line where there would be too many
    let step = if high - low > 24 { 2 } else { 1 };
    let part = |h: &Histogram, from: usize| h.buckets[from..(from + step).min(64)].iter().sum::<u64>();
    let largest = |h: &Histogram| (low..=high).step_by(step).map(|i| part(h, i)).max().unwrap_or(0).max(1);
    let (most_runs, most_sleeps) = (largest(runs), largest(sleeps));
    for from in (low..=high).step_by(step) {
        let bar = |n: u64, most: u64| {
            // any at all shows; eighths of a character
            let eighths = (n as u128 * (BAR as u128 * 8)).div_ceil(most as u128) as usize;
            const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
            let bar = "█".repeat(eighths / 8) + PARTS[eighths % 8];
            let width = eighths.div_ceil(8);
            (bar, width)
        };
        let (left, left_width) = bar(part(runs, from), most_runs);
        let (right, _) = bar(part(sleeps, from), most_sleeps);
        let label = time(1u64 << from.min(63));
        line(
            text,
            &format!(
                "{} {left}{:pad$} {:>8} {} {right} {}",
                style.dim(&format!("{label:>8} ┤")),
                "",
                style.dim(&nonzero(part(runs, from))),
                style.dim(&format!("{label:>8} ┤")),
                style.dim(&nonzero(part(sleeps, from))),
                pad = BAR + 4 - left_width
            ),
        );
    }
}

fn nonzero(n: u64) -> String {
    if n == 0 { String::new() } else { count(n) }
}

/// Who a task is, in words.
pub(super) fn who(workload: &Workload, row: TaskId) -> String {
    let task = workload.task(row);
    format!("{} (pid {})", clip(&task.name, 32), task.pid)
}

fn task(text: &mut String, head: &Head, life: &Life, style: Style) {
    let workload = &head.workload;
    let task = workload.task(life.row);
    line(text, "");
    line(text, &style.bold(&who(workload, life.row)));
    let birth = match task.birth {
        Birth::Init { state: InitState::Runnable, .. } => "there from the start, runnable".to_string(),
        Birth::Init { state: InitState::Blocked, .. } => "there from the start, blocked".to_string(),
        Birth::Fork { parent } => {
            format!("forked by {} at {}", who(workload, parent), time(life.from.as_ns()))
        }
    };
    let cpu = life.columns.iter().map(|column| column.cpu.as_ns()).sum::<u64>();
    let length = life.to.saturating_sub(life.from).as_ns();
    line(
        text,
        &style.dim(&format!(
            "{birth}; {} events, {} of CPU time in {} of own time ({}){}",
            count(life.nr_events),
            time(cpu),
            time(length),
            percent(cpu, length),
            task.params.map_or(String::new(), |params| format!("; {} {}", params.policy, params.nice))
        )),
    );
    line(text, "");
    line(text, &format!("  {}", picture(&life.columns, length)));
    let marks = marks(&life.columns);
    if !marks.trim().is_empty() {
        line(text, &format!("  {}", style.dim(&marks)));
    }
    let (from, to) = (time(life.from.as_ns()), time(life.to.as_ns()));
    let width = life.columns.len().min(COLUMNS);
    let to_width = width.saturating_sub(from.chars().count());
    line(text, &format!("  {}", style.dim(&format!("{from}{to:>to_width$}"))));
    line(
        text,
        &format!(
            "  {}",
            style.dim("height: share of the time with work; · blocked; marks: F fork, P prio, Y yield, w woken by a \
                task, X exit")
        ),
    );
    line(text, "");
    histograms(text, &life.runs, &life.sleeps, style);
    for (what, others) in [("woken by", &life.woken_by), ("wakes", &life.wakes)] {
        let mut most: Vec<(&TaskId, &u64)> = others.iter().collect();
        most.sort_by_key(|(row, n)| (std::cmp::Reverse(**n), **row));
        if most.is_empty() {
            continue;
        }
        let shown: Vec<String> = most
            .iter()
            .take(3)
            .map(|(row, n)| format!("{} {} times", who(workload, **row), count(**n)))
            .collect();
        let more = most.len().saturating_sub(3);
        let more = if more > 0 { format!(", and {} more tasks", count(more as u64)) } else { String::new() };
        line(text, "");
        text.pop();
        line(text, &format!("\n{what:<9} {}{more}", shown.join(", ")));
    }
    if !life.first.is_empty() {
        line(text, "");
        line(text, &style.dim(&format!("{:>17}  {:<8} what", "own time", "event")));
        for (at, event) in &life.first {
            line(text, &format!("{:>14.6} ms  {}", at.as_ms_f64(), described(workload, event)));
        }
    }
}

/// A life in columns of at most [`COLUMNS`] characters.
fn picture(columns: &[Column], length_ns: u64) -> String {
    const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let cells = columns.len().min(COLUMNS);
    (0..cells)
        .map(|cell| {
            let part = cell * columns.len() / cells..(cell + 1) * columns.len() / cells;
            let cpu: u64 = columns[part.clone()].iter().map(|column| column.cpu.as_ns()).sum();
            let all = (u128::from(length_ns.max(1)) * part.len() as u128 / columns.len() as u128).max(1);
            // any work at all shows
            LEVELS[((u128::from(cpu) * 8).div_ceil(all) as usize).min(8)]
        })
        .collect()
}

fn marks(columns: &[Column]) -> String {
    let cells = columns.len().min(COLUMNS);
    (0..cells)
        .map(|cell| {
            let part = &columns[cell * columns.len() / cells..(cell + 1) * columns.len() / cells];
            let any = |of: fn(&Column) -> u32| part.iter().any(|column| of(column) > 0);
            match () {
                () if part.iter().any(|column| column.exit) => 'X',
                () if any(|column| column.forks) => 'F',
                () if any(|column| column.prios) => 'P',
                () if any(|column| column.yields) => 'Y',
                () if any(|column| column.woken) => 'w',
                () => ' ',
            }
        })
        .collect()
}

/// A length as people read it.
fn long(span: Span) -> String {
    time(span.as_ns())
}

/// An event in words.
fn described(workload: &Workload, event: &Event) -> String {
    let what = match &event.kind {
        EventKind::Fork { length, child } => {
            format!("{} after {} of CPU time", who(workload, *child), long(*length))
        }
        EventKind::Prio { length, change } => {
            let target = change.target.map_or("its own".to_string(), |target| who(workload, target));
            format!("parameters of {target}, after {} of CPU time", long(*length))
        }
        EventKind::Yield { length }
        | EventKind::Exec { length }
        | EventKind::Call { length }
        | EventKind::Block { length }
        | EventKind::Exit { length } => {
            format!("after {} of CPU time", long(*length))
        }
        EventKind::Object { length, op, .. } => {
            let amount = match *op {
                ObjectOp::Receive { amount: ALL, .. } => "all at ".to_string(),
                ObjectOp::Send { amount, .. } | ObjectOp::Receive { amount, .. } => format!("{amount} at "),
                _ => String::new(),
            };
            let object = workload.object(op.object());
            format!("{amount}{} {}, after {} of CPU time", object.kind.name(), object.name, long(*length))
        }
        EventKind::Wakeup(Wakeup::External { after, source }) => {
            format!("by a {}, after {}", source.name(), long(*after))
        }
        EventKind::Wakeup(Wakeup::Dependent { recorded_after, event, task, distance }) => format!(
            "by {}, {} before its event {} (recorded after {})",
            who(workload, *task),
            long(*distance),
            event.0,
            long(*recorded_after)
        ),
    };
    format!("{:<8} {what}", event.kind.name())
}

fn histogram(h: &Histogram) -> Value {
    let buckets: Vec<Value> = h
        .buckets
        .iter()
        .enumerate()
        .filter(|(_, n)| **n > 0)
        .map(|(i, n)| json!({ "from_ns": if i == 0 { 0 } else { 1u64 << i }, "count": n }))
        .collect();
    json!({ "count": h.count, "mean_ns": h.mean().as_ns(), "max_ns": h.max.as_ns(), "buckets": buckets })
}

fn facts(head: &Head, survey: &Survey) -> Value {
    let events: serde_json::Map<String, Value> = survey
        .events
        .iter()
        .filter(|(kind, n)| *n > 0 || *kind != "OBJECT")
        .map(|(kind, n)| (kind.to_lowercase(), json!(n)))
        .collect();
    let mut facts = json!({
        "schema": 1,
        "tasks": head.workload.tasks.len(),
        "events": events,
        "cpu_ns": survey.cpu.as_ns(),
        "blocked_ns": survey.blocked.as_ns(),
        "end_ns": survey.end.as_ns(),
        "wakeups": { "timer": survey.timers, "device": survey.devices, "dependent": survey.dependent },
        "runs": histogram(&survey.runs),
        "sleeps": histogram(&survey.sleeps),
        "names": survey.names.iter().map(|row| json!({
            "name": row.name, "tasks": row.tasks, "cpu_ns": row.cpu.as_ns(),
            "blocks": row.blocks, "blocked_ns": row.blocked.as_ns(),
        })).collect::<Vec<_>>(),
        "dropped": head.workload.dropped,
        "notes": head.workload.notes,
    });
    if let Some(life) = &survey.life {
        let task = head.workload.task(life.row);
        facts["life"] = json!({
            "row": life.row.0, "pid": task.pid, "name": task.name,
            "from_ns": life.from.as_ns(), "to_ns": life.to.as_ns(), "events": life.nr_events,
            "cpu_ns": life.columns.iter().map(|column| column.cpu.as_ns()).collect::<Vec<_>>(),
            "runs": histogram(&life.runs), "sleeps": histogram(&life.sleeps),
        });
    }
    facts
}
