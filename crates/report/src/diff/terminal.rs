//! The first difference for a person, on a terminal of 100 columns.

use super::DiffView;
use crate::terminal::{Style, clip, wrapped};
use crate::units::{count, percent, time};
use schedlab_instruments::WaitCause;
use schedlab_instruments::diff::{FirstDifference, MappedBy, Pair, Place, SideView, TaskView};
use schedlab_log::{PrevState, format_record};
use schedlab_units::TaskId;
use std::cmp::Reverse;

const LETTERS: [&str; 2] = ["A", "B"];
/// Waiting tasks shown; those that are chosen always are.
const TASKS_SHOWN: usize = 12;
/// Rows of the table of CPU times.
const TIMES_SHOWN: usize = 8;
/// Other CPUs shown.
const CPUS_SHOWN: usize = 8;

/// The comparison, lines of at most 100 columns.
pub fn diff_terminal(view: DiffView<'_>, style: Style) -> String {
    let mut text = String::from("\n");
    title(&mut text, view, style);
    match &view.diff.first {
        None => nothing(&mut text, view, style),
        Some(first) => {
            decision(&mut text, view, first, style);
            tasks(&mut text, view, first, style);
            other_cpus(&mut text, view, first, style);
            events(&mut text, view, first, style);
            later(&mut text, view, style);
        }
    }
    times(&mut text, view, style);
    text
}

fn line(text: &mut String, content: &str) {
    text.push_str(content.trim_end());
    text.push('\n');
}

/// `12.004000000 s`: to the nanosecond.
fn moment(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn title(text: &mut String, view: DiffView<'_>, style: Style) {
    for (which, letter) in LETTERS.iter().enumerate() {
        let header = view.headers[which];
        let plural = if header.nr_cpus == 1 { "" } else { "s" };
        let mut parts = vec![
            style.bold(&clip(&header.sched, 30)),
            format!("{} CPU{plural}", header.nr_cpus),
            time(header.duration.as_ns()),
        ];
        if header.hz != 0 {
            parts.push(format!("HZ={}", header.hz));
        }
        parts.extend(header.params.iter().map(|(name, value)| format!("{name}={value}")));
        parts.push(style.dim(view.names[which]));
        line(text, &format!("{}  {}", style.bold(letter), parts.join(" · ")));
    }
    let diff = view.diff;
    let alone = diff.map.unmatched().count();
    let by = match diff.map.by {
        MappedBy::Number => "the same in both, by number",
        MappedBy::Place => "under other names, matched by their place in the list",
        MappedBy::Name => "matched by name",
    };
    let mut parts = vec![format!("{} tasks, {by}", count((diff.map.nr_workload - alone) as u64))];
    if alone > 0 {
        parts.push(style.warn(&format!("{} tasks are in one log only", count(alone as u64))));
    }
    if diff.options.within.as_ns() > 0 {
        parts.push(format!("decisions may lie {} apart", diff.options.within));
    }
    let left_out = (0..2).filter(|which| diff.kernel_threads[*which].0 > 0).map(|which| {
        let (stays, ns) = diff.kernel_threads[which];
        format!("{}: {} stays, {}", LETTERS[which], count(stays), time(ns))
    });
    let left_out: Vec<String> = left_out.collect();
    if !left_out.is_empty() {
        parts.push(format!("kernel threads left out ({})", left_out.join(", ")));
    }
    if view.headers[0].nr_cpus != view.headers[1].nr_cpus {
        parts.push(style.warn(&format!("only {} CPUs are compared", diff.nr_cpus)));
    }
    if view.headers[0].duration != view.headers[1].duration {
        parts.push(format!("compared up to {}", time(diff.compared_ns)));
    }
    wrapped(text, &parts.join("; "));
}

fn nothing(text: &mut String, view: DiffView<'_>, style: Style) {
    let diff = view.diff;
    let verdict =
        format!("No decision differs: {} agree, up to {}", count(diff.agreed), moment(diff.compared_ns));
    line(text, &format!("\n{}", style.bold(&verdict)));
    tolerance(text, view);
}

/// What the tolerance had to explain.
fn tolerance(text: &mut String, view: DiffView<'_>) {
    let diff = view.diff;
    if diff.largest_shift_ns > 0 {
        line(text, &format!("decisions that agree lie up to {} apart", time(diff.largest_shift_ns)));
    }
    if diff.skipped > 0 {
        let within = if diff.options.within.as_ns() == 0 {
            "of no length".into()
        } else {
            format!("within {}", diff.options.within)
        };
        line(text, &format!("{} decisions are in one log only, {within}", count(diff.skipped)));
    }
}

/// `t7 cc1`
fn label(view: DiffView<'_>, which: usize, task: TaskId) -> String {
    if task.is_idle() { "idle".into() } else { format!("{task} {}", clip(view.task_name(which, task), 15)) }
}

fn decision(text: &mut String, view: DiffView<'_>, first: &FirstDifference, style: Style) {
    let verdict = format!(
        "First difference at {} on {}, after {}",
        moment(first.time_ns),
        first.cpu,
        match first.agreed_before {
            1 => "one decision that agrees".to_string(),
            n => format!("{} decisions that agree", count(n)),
        }
    );
    line(text, &format!("\n{}", style.bold(&verdict)));
    let columns = |name: &str, cells: [String; 2]| {
        let [a, b] = cells.map(|cell| clip(&cell, 41));
        format!("  {name:<12}{a:<43}{b}")
    };
    line(text, &style.dim(&columns("", LETTERS.map(|letter| letter.to_string()))));
    let before = |which: usize| {
        let side = &first.sides[which];
        let current = side.cpus[first.cpu.index()].current;
        let view_of = view.row(which, current).map(|row| side.tasks[row]);
        match view_of {
            None => "idle".to_string(),
            Some(task) => {
                format!("{}, on it for {}", label(view, which, current), time(side.time_ns - task.since_ns))
            }
        }
    };
    line(text, &columns("runs before", [before(0), before(1)]));
    let stops = |which: usize| match (first.sides[which].decision, first.sides[which].stop) {
        (None, _) => "goes on".to_string(),
        (Some(_), Some(stop)) => format!("{} at {}", stop_text(stop), moment(first.sides[which].time_ns)),
        (Some(_), None) => format!("ends at {}", moment(first.sides[which].time_ns)),
    };
    line(text, &columns("which", [stops(0), stops(1)]));
    let chooses = |which: usize| match first.sides[which].decision {
        None => "nobody else".to_string(),
        Some((_, task)) => label(view, which, task),
    };
    line(text, &style.bold(&columns("chosen", [chooses(0), chooses(1)])));
}

fn stop_text(stop: PrevState) -> &'static str {
    match stop {
        PrevState::Preempted => "is preempted",
        PrevState::Yielded => "yields",
        PrevState::Sleeping => "goes to sleep",
        PrevState::Disk => "waits for a device",
        PrevState::Dead => "exits",
        PrevState::Unknown => "stops, nobody saw why",
    }
}

/// `waits 12.0 ms, woken`
fn state_text(task: Option<TaskView>, side: &SideView, first: &FirstDifference) -> [String; 2] {
    let Some(task) = task else { return ["not in this log".into(), String::new()] };
    let since = time(side.time_ns.saturating_sub(task.since_ns));
    let elsewhere = |cpu| if cpu == first.cpu { String::new() } else { format!(" on {cpu}") };
    let state = match task.place {
        Place::Absent => "not there yet".into(),
        Place::Gone => "has exited".into(),
        Place::Blocked => format!("asleep {since}"),
        Place::Running(cpu) => format!("runs {since}{}", elsewhere(cpu)),
        Place::Waiting(cpu, cause) => {
            let cause = match cause {
                WaitCause::New => "new",
                WaitCause::Wakeup => "woken",
                WaitCause::Preempted => "preempted",
            };
            format!("waits {since}{}, {cause}", elsewhere(cpu))
        }
    };
    [state, time(task.cpu_ns)]
}

/// The tasks that run or wait on this CPU in either log, and those chosen: where they are in both.
fn tasks(text: &mut String, view: DiffView<'_>, first: &FirstDifference, style: Style) {
    let chosen: [Option<Pair>; 2] =
        [0, 1].map(|which| first.sides[which].decision.and_then(|(_, task)| view.pair(which, task)));
    let task_in = |pair: Pair, which: usize| {
        let row = DiffView::id(pair, which).and_then(|task| view.row(which, task));
        row.map(|row| first.sides[which].tasks[row])
    };
    let here = |pair: &Pair| {
        (0..2).any(|which| {
            task_in(*pair, which).is_some_and(
                |task| matches!(task.place, Place::Running(cpu) | Place::Waiting(cpu, _) if cpu == first.cpu),
            )
        })
    };
    let is_kernel = |pair: &Pair| pair.a.or(pair.b).is_some_and(|task| !task.is_workload());
    let is_chosen = |pair: &Pair| chosen.contains(&Some(*pair));
    let all = view.diff.map.pairs.iter().copied();
    let mut rows: Vec<Pair> =
        all.filter(|pair| is_chosen(pair) || (here(pair) && !is_kernel(pair))).collect();
    // chosen ones first, then who has waited longest
    let longest =
        |pair: &Pair| (0..2).filter_map(|which| task_in(*pair, which)).map(|task| task.since_ns).min();
    rows.sort_by_key(|pair| (!is_chosen(pair), longest(pair)));
    if rows.is_empty() {
        return;
    }
    line(text, "");
    let head = format!(
        "  {:<24}{:<27} {:>7}  {:<27} {:>7}",
        format!("tasks of {}", first.cpu),
        "A",
        "CPU",
        "B",
        "CPU"
    );
    line(text, &style.dim(&head));
    for pair in rows.iter().take(TASKS_SHOWN) {
        let which = usize::from(pair.a.is_none());
        let name = DiffView::id(*pair, which).map(|task| label(view, which, task)).unwrap_or_default();
        let marks: Vec<&str> =
            (0..2).filter(|which| chosen[*which] == Some(*pair)).map(|which| LETTERS[which]).collect();
        let mark = if marks.is_empty() { String::new() } else { format!("<{}", marks.join(",")) };
        let [[a, cpu_a], [b, cpu_b]] =
            [0, 1].map(|which| state_text(task_in(*pair, which), &first.sides[which], first));
        let row = format!("  {name:<19} {mark:<3} {a:<27} {cpu_a:>7}  {b:<27} {cpu_b:>7}");
        line(text, &if marks.is_empty() { row } else { style.bold(&row) });
    }
    if rows.len() > TASKS_SHOWN {
        line(text, &style.dim(&format!("  and {} more", rows.len() - TASKS_SHOWN)));
    }
}

fn other_cpus(text: &mut String, view: DiffView<'_>, first: &FirstDifference, style: Style) {
    let others: Vec<usize> =
        (0..view.diff.nr_cpus as usize).filter(|cpu| *cpu != first.cpu.index()).collect();
    if others.is_empty() {
        return;
    }
    line(text, "");
    line(text, &style.dim(&format!("  {:<12}{:<43}{}", "other CPUs", "A", "B")));
    for cpu in others.iter().take(CPUS_SHOWN) {
        let cells = [0, 1].map(|which| {
            let state = first.sides[which].cpus[*cpu];
            let waiting =
                if state.waiting == 0 { String::new() } else { format!(", {} wait", state.waiting) };
            format!("{}{waiting}", label(view, which, state.current))
        });
        line(text, &format!("  {:<12}{:<43}{}", format!("cpu{cpu}"), cells[0], cells[1]));
    }
    if others.len() > CPUS_SHOWN {
        line(text, &style.dim(&format!("  and {} more", others.len() - CPUS_SHOWN)));
    }
}

fn events(text: &mut String, view: DiffView<'_>, first: &FirstDifference, style: Style) {
    for (which, letter) in LETTERS.iter().enumerate() {
        let side = &first.sides[which];
        let head = format!("  {letter}: events on {} and of the tasks chosen", first.cpu);
        line(text, &format!("\n{}", style.dim(&head)));
        let records = side.before.iter().map(|record| (false, record));
        let decides = side.decision.is_some();
        let after = side.after.iter().enumerate().map(|(at, record)| (decides && at == 0, record));
        let mut now_shown = decides;
        let mut rows: Vec<(bool, String)> = Vec::new();
        for (is_decision, record) in records.chain(after) {
            if !now_shown && record.time_ns > side.time_ns {
                rows.push((true, format!("{:>13} goes on", side.time_ns)));
                now_shown = true;
            }
            let mut bytes = Vec::new();
            format_record(&mut bytes, record);
            rows.push((is_decision, with_names(view, which, &String::from_utf8_lossy(&bytes))));
        }
        if rows.is_empty() {
            line(text, "    none");
        }
        for (is_decision, row) in rows {
            let row = format!("  {} {row}", if is_decision { ">" } else { " " });
            line(text, &if is_decision { style.bold(&row) } else { row });
        }
    }
}

/// Puts the names of the tasks behind a record's text.
fn with_names(view: DiffView<'_>, which: usize, record: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for word in record.split_whitespace() {
        if let Ok(task) = word.parse::<TaskId>()
            && !task.is_idle()
        {
            let name = clip(view.task_name(which, task), 15);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    format!("{record:<60} {}", names.join(", "))
}

fn later(text: &mut String, view: DiffView<'_>, style: Style) {
    let diff = view.diff;
    let machine_ns = diff.compared_ns * u64::from(diff.nr_cpus);
    line(text, &format!("\n{}", style.bold("All in all")));
    let times =
        if diff.differences == 1 { "once".into() } else { format!("{} times", count(diff.differences)) };
    line(
        text,
        &format!(
            "  a CPU parts ways {times}; different tasks are on the CPUs for {} ({} of the time)",
            time(diff.disagree_ns),
            percent(diff.disagree_ns, machine_ns)
        ),
    );
    let [a, b] = diff.decisions;
    line(text, &format!("  {} decisions in A, {} in B; {} agree", count(a), count(b), count(diff.agreed)));
    let mut rest = String::new();
    tolerance(&mut rest, view);
    rest.lines().for_each(|row| line(text, &format!("  {row}")));
}

/// Who got more, who less.
fn times(text: &mut String, view: DiffView<'_>, style: Style) {
    let mut rows: Vec<_> = view.diff.tasks.iter().filter(|task| task.difference_ns() != 0).collect();
    if rows.is_empty() {
        let all = "every task has the same CPU time in both";
        line(text, &if view.diff.is_empty() { all.to_string() } else { format!("  {all}") });
        return;
    }
    rows.sort_by_key(|task| Reverse(task.difference_ns().unsigned_abs()));
    let moved: u64 = rows.iter().map(|task| task.difference_ns().max(0) as u64).sum();
    let less: u64 = rows.iter().map(|task| (-task.difference_ns()).max(0) as u64).sum();
    line(text, "");
    let head = format!("  {:<24}{:>11}{:>11}{:>12}{:>10}", "CPU time", "A", "B", "B - A", "");
    line(text, &style.dim(&head));
    for task in rows.iter().take(TIMES_SHOWN) {
        let which = usize::from(task.pair.a.is_none());
        let name = DiffView::id(task.pair, which).map(|id| label(view, which, id)).unwrap_or_default();
        let difference = task.difference_ns();
        let sign = if difference < 0 { '-' } else { '+' };
        let relative = match task.cpu_ns[0] {
            0 => "new".to_string(),
            base => match 100.0 * difference as f64 / base as f64 {
                small if small.abs() < 0.05 => String::new(),
                percent if percent.abs() < 999.5 => format!("{percent:+.1} %"),
                percent => format!("x {:.0}", 1.0 + percent / 100.0),
            },
        };
        line(
            text,
            &format!(
                "  {name:<24}{:>11}{:>11}{:>12}{relative:>10}",
                time(task.cpu_ns[0]),
                time(task.cpu_ns[1]),
                format!("{sign}{}", time(difference.unsigned_abs())),
            ),
        );
    }
    let more = rows.len().saturating_sub(TIMES_SHOWN);
    let rest = if more > 0 { format!("and {more} more; in all ") } else { "in all ".into() };
    line(text, &style.dim(&format!("  {rest}+{} and -{}", time(moved), time(less))));
}
