//! The summary that a person reads first, on a terminal of 100 columns.

use crate::facts::RunView;
use crate::groups::Group;
use crate::report::RunReport;
use crate::units::{count, percent, time};
use schedlab_instruments::{Distribution, Quantity, SystemStats, TaskStats, WhyUnknown};
use schedlab_log::Fact;
use schedlab_stdx::escape::visible;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;

/// How the summary may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colours and bold type (ANSI escapes).
    pub color: bool,
}

impl Style {
    /// Colours if standard output is a terminal and `NO_COLOR` (no-color.org) is unset or empty.
    pub fn detect() -> Style {
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style { color: std::io::stdout().is_terminal() && !forbidden }
    }
    /// No escapes.
    pub const PLAIN: Style = Style { color: false };

    /// With an ANSI code: `36` = cyan.
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
    /// Emphasis.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }
    /// Of second rank.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
    /// Needs attention.
    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// What stands over [`RunFacts::changed_experiment`](crate::RunFacts::changed_experiment).
pub const CHANGED: &str = "this is not the experiment that was asked for";

/// Width of the summary in columns.
const WIDTH: usize = 100;
/// Rows of the CPU picture; more CPUs share rows.
const CPU_ROWS: usize = 16;
/// Groups shown by CPU time, and more if they have the longest waits.
const GROUPS_SHOWN: usize = 10;
const GROUPS_BY_DELAY: usize = 3;

/// The summary of a run, lines of at most 100 columns.
pub fn terminal(run: &RunReport, style: Style) -> String {
    let mut text = String::new();
    title(&mut text, run, style);
    changed_experiment(&mut text, &run.facts.changed_experiment, style);
    cpus(&mut text, run, style);
    scheduling(&mut text, run, style);
    groups(&mut text, run, style);
    crate::jobs::terminal(&mut text, run, style);
    facts(&mut text, run, style);
    text
}

/// What stands in place of a number that is not known.
const UNKNOWN: &str = "unknown";

/// The text, or [`UNKNOWN`] if there is a reason why it is not known.
fn known(text: String, why: Option<WhyUnknown>) -> String {
    if why.is_some() { UNKNOWN.to_string() } else { text }
}

pub(crate) fn line(text: &mut String, content: &str) {
    text.push_str(content.trim_end());
    text.push('\n');
}

/// At most `width` characters on one line; what a terminal would obey is escaped, for names come from traces.
pub fn clip(name: &str, width: usize) -> String {
    let name = visible(name).replace(['\n', '\t'], " ");
    if name.chars().count() <= width {
        return name;
    }
    name.chars().take(width - 1).chain(['…']).collect()
}

fn title(text: &mut String, run: &RunReport, style: Style) {
    let (header, facts) = (&run.header, &run.facts);
    let mut parts = vec![style.bold(&clip(&header.sched, 30))];
    if !facts.workload.is_empty() {
        parts.push(style.bold(&clip(&facts.workload, 30)));
    }
    let plural = if header.nr_cpus == 1 { "" } else { "s" };
    parts.push(format!("{} CPU{plural}", header.nr_cpus));
    if header.hz != 0 {
        parts.push(format!("HZ={}", header.hz));
    }
    parts.push(time(run.summary.duration_ns));
    line(text, &format!("\n{}", parts.join(" · ")));
    let mut second = Vec::new();
    if !facts.end.is_empty() {
        second.push(facts.end.clone());
    }
    if facts.wall_ns > 0 {
        let speed = run.summary.duration_ns as f64 / facts.wall_ns as f64;
        let speed = if speed < 10.0 { format!("{speed:.1}") } else { count(speed as u64) };
        second.push(format!("simulated in {}: {speed} times real time", time(facts.wall_ns)));
        if facts.kernel_ns > 0 {
            second.push(format!("{} of it in the scheduler", percent(facts.kernel_ns, facts.wall_ns)));
        }
    }
    if !second.is_empty() {
        line(text, &style.dim(&clip(&second.join(", "), WIDTH)));
    }
    if !header.hidden.is_nothing() {
        line(text, &style.warn(&format!("the {} could not see: {}", header.observer, header.hidden)));
    }
    if !header.params.is_empty() {
        let params: Vec<String> =
            header.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        line(text, &style.dim(&clip(&format!("with {}", params.join(" ")), WIDTH)));
    }
}

/// That it is not the experiment that was asked for, and why; nothing if it is.
pub fn changed_experiment(text: &mut String, changed: &BTreeMap<String, u64>, style: Style) {
    if changed.is_empty() {
        return;
    }
    line(text, &format!("\n{}", style.paint("31", CHANGED)));
    for (what, times) in changed {
        wrapped(text, &format!("{:>9}  {what}", count(*times)));
    }
}

fn cpus(text: &mut String, run: &RunReport, style: Style) {
    const CELLS: usize = 60;
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (summary, timeline) = (&run.summary, &run.timeline);
    let nr_cpus = summary.cpus.len();
    if nr_cpus == 0 {
        return;
    }
    let per_row = nr_cpus.div_ceil(CPU_ROWS);
    text.push('\n');
    let times = format!("0{:>width$}", time(summary.duration_ns), width = CELLS - 1);
    line(text, &style.dim(&format!("{:<10} {:>7}  {times} {:>9} {:>6}", "CPU", "busy", "switches", "queue")));
    for first in (0..nr_cpus).step_by(per_row) {
        let row = first..(first + per_row).min(nr_cpus);
        let name = if per_row == 1 { format!("cpu{first}") } else { format!("cpu{first}-{}", row.end - 1) };
        let stats = &summary.cpus[row.clone()];
        let busy: u64 = stats.iter().map(|cpu| cpu.busy_ns).sum();
        let waiting: u64 = stats.iter().map(|cpu| cpu.waiting_task_ns).sum();
        let all = summary.duration_ns * row.len() as u64;
        let nr_buckets = timeline.cells.first().map_or(0, Vec::len);
        let picture: String = (0..CELLS)
            .map(|cell| {
                let buckets = cell * nr_buckets / CELLS..((cell + 1) * nr_buckets).div_ceil(CELLS);
                let cells = timeline.cells[row.clone()].iter().flat_map(|cpu| &cpu[buckets.clone()]);
                let (sum, unseen, number) = cells.fold((0u64, 0u64, 0u64), |(sum, unseen, number), c| {
                    (sum + u64::from(c.busy), unseen + u64::from(c.unseen), number + 1)
                });
                if unseen > sum {
                    return '?';
                }
                // any work at all shows
                LEVELS[(sum * 8).div_ceil((number * 255).max(1)) as usize]
            })
            .collect();
        let mean_queue = if all == 0 { 0.0 } else { waiting as f64 / summary.duration_ns as f64 };
        let why = |what| stats.iter().find_map(|cpu| summary.cpu_why_unknown(cpu, what));
        let [idle, queue] = [Quantity::Idle, Quantity::Queue].map(why);
        line(
            text,
            &format!(
                "{name:<10} {:>7}  {} {:>9} {:>6}",
                known(percent(busy, all), idle),
                style.paint("36", &picture),
                known(count(stats.iter().map(|cpu| cpu.switches).sum()), idle),
                if queue.is_some() { "?".to_string() } else { format!("{mean_queue:.2}") },
            ),
        );
    }
    line(text, &style.dim(QUEUE));
    if run.header.hidden.has_any(&[Fact::Idle, Fact::Spans]) {
        line(text, &style.dim("?: nobody saw what the CPU did"));
    }
}

/// Defines what the table of CPUs shows.
const QUEUE: &str =
    "queue: tasks that wait on the CPU's queue, on average over the time; the running one is not counted";

fn scheduling(text: &mut String, run: &RunReport, style: Style) {
    let summary = &run.summary;
    let system = &summary.system;
    let seconds = summary.duration_ns as f64 * 1e-9;
    let rate = |n: u64| {
        if seconds > 0.0 {
            format!("{}/s", count((n as f64 / seconds).round() as u64))
        } else {
            String::new()
        }
    };
    line(
        text,
        &style.dim(&format!(
            "{:<16}{:>10} {:>10} {:>10} {:>10} {:>10}",
            "waiting", "mean", "p50", "p99", "max", "times"
        )),
    );
    let waits =
        |text: &mut String, run_delay: &Distribution, after: &Distribution, why: Option<WhyUnknown>| {
            for (name, d) in [("run delay", run_delay), ("after a wakeup", after)] {
                let values = [d.mean_ns(), d.percentile_ns(500), d.percentile_ns(990), d.max_ns()];
                let [mean, p50, p99, max] = values.map(|ns| known(time(ns), why));
                line(
                    text,
                    &format!(
                        "{name:<16}{mean:>10} {p50:>10} {:>10} {max:>10} {:>10}",
                        style.bold(&format!("{p99:>10}")).trim_start(),
                        known(count(d.count()), why)
                    ),
                );
            }
        };
    waits(text, &system.run_delay, &system.wakeup_latency, summary.why_unknown(Quantity::Waiting));
    if let Some(seen) = &run.known_tasks {
        line(text, &crate::worst::known_text(run.view(), seen));
        waits(text, &seen.sum.run_delay, &seen.sum.wakeup_latency, None);
    }
    let conservation = &system.conservation;
    text.push('\n');
    let why = |what| summary.why_unknown(what);
    let counted = |n: u64, what| known(format!("{}  {}", count(n), style.dim(&rate(n))), why(what));
    let mut pairs = vec![
        ("switches", counted(system.switches, Quantity::Idle)),
        ("migrations", counted(system.migrations, Quantity::CpuTime)),
        ("assignments to another CPU", known(assignments(system, style), why(Quantity::Assignments))),
    ];
    let idle = conservation.idle_while_waiting_ns;
    let share = percent(idle, summary.duration_ns);
    let idle_text = if idle == 0 {
        "never".to_string()
    } else {
        format!(
            "{}  {}",
            time(idle),
            style.dim(&format!("{share} of the time, longest {}", time(conservation.longest_ns)))
        )
    };
    pairs.push(("a CPU idle while work waits", known(idle_text, why(Quantity::IdleWhileWaiting))));
    let strangers_ns = strangers_ns(run);
    let own_ns = system.kernel_thread_ns - strangers_ns;
    for (name, cpu_ns) in [("scheduler's own threads", own_ns), ("strangers, not shown", strangers_ns)] {
        if cpu_ns > 0 {
            pairs.push((name, format!("{} CPU time", time(cpu_ns))));
        }
    }
    for (name, value) in pairs {
        line(text, &format!("{name:<28}{value}"));
    }
    if let Some(unknown) = crate::worst::unknown_text(summary) {
        wrapped(text, &unknown);
    }
    crate::worst::terminal(text, run, style);
}

/// CPU time of those of whom a recording says only that they had a CPU.
fn strangers_ns(run: &RunReport) -> u64 {
    let RunView { header, summary, .. } = run.view();
    let threads = header.kernel_threads.iter().zip(&summary.kernel_threads);
    threads.filter(|(thread, _)| thread.are_strangers()).map(|(_, stats)| stats.cpu_ns).sum()
}

/// A migration is a run elsewhere; a scheduler may assign a task twice before it runs, or back again.
fn assignments(system: &SystemStats, style: Style) -> String {
    let all = system.assignments + system.kernel_thread_assignments;
    let more = match system.kernel_thread_assignments {
        0 => "whether the task ran there or not".to_string(),
        threads => {
            format!("whether the task ran there or not; {} by own threads", count(threads))
        }
    };
    format!("{}  {}", count(all), style.dim(&more))
}

fn groups(text: &mut String, run: &RunReport, style: Style) {
    let groups = &run.groups.list;
    let by_cpu = |g: &&Group| !g.kernel;
    let all: Vec<&Group> = groups.iter().filter(by_cpu).collect();
    if all.is_empty() {
        return;
    }
    let mut shown: Vec<&Group> = all.iter().take(GROUPS_SHOWN).copied().collect();
    let mut rest: Vec<&Group> = all.iter().skip(GROUPS_SHOWN).copied().collect();
    rest.sort_by_key(|group| std::cmp::Reverse(group.sum.run_delay.max_ns()));
    shown.extend(rest.iter().take(GROUPS_BY_DELAY));
    text.push('\n');
    let head = format!(
        "{:<15} {:>6} {:>9} {:>7}  {:>9} {:>9} {:>9}  {:>8} {:>8} {:>7}",
        "tasks by name",
        "tasks",
        "CPU time",
        "share",
        "delay p50",
        "p99",
        "max",
        "blocked",
        "preempt",
        "migr"
    );
    line(text, &style.dim(&head));
    let machine = run.summary.duration_ns * run.summary.cpus.len() as u64;
    let row = |name: &str, tasks: u64, sum: &TaskStats| {
        let delay =
            [sum.run_delay.percentile_ns(500), sum.run_delay.percentile_ns(990), sum.run_delay.max_ns()]
                .map(time);
        let why = |what| run.summary.task_why_unknown(sum, what);
        let (cpu_time, stops) = (why(Quantity::CpuTime), why(Quantity::Stops));
        let [p50, p99, max] = delay.map(|delay| known(delay, why(Quantity::Waiting)));
        format!(
            "{:<15} {:>6} {:>9} {:>7}  {p50:>9} {p99:>9} {max:>9}  {:>8} {:>8} {:>7}",
            clip(name, 15),
            count(tasks),
            known(time(sum.cpu_ns), cpu_time),
            known(percent(sum.cpu_ns, machine), cpu_time),
            known(short_count(sum.switches_voluntary), stops),
            known(short_count(sum.switches_involuntary), stops),
            known(short_count(sum.migrations), cpu_time),
        )
    };
    shown.iter().for_each(|group| line(text, &row(&group.name, group.tasks, &group.sum)));
    let hidden = all.len() - shown.len();
    if hidden > 0 {
        line(text, &style.dim(&format!("and {hidden} more names")));
    }
    if all.len() > 1 {
        let mut total = TaskStats::default();
        all.iter().for_each(|group| total.add(&group.sum));
        total.run_delay = run.summary.system.run_delay.clone();
        line(text, &style.bold(&row("all", all.iter().map(|group| group.tasks).sum(), &total)));
        if let Some(seen) = &run.known_tasks {
            let name = format!("all but {}", seen.of - seen.tasks);
            line(text, &style.bold(&row(&name, seen.tasks as u64, &seen.sum)));
        }
    }
    let unfinished = (0..run.header.tasks.len()).filter(|row| !run.view().finished(*row)).count();
    if unfinished > 0 && run.facts.finished.is_some() {
        line(text, &style.dim(&format!("{} tasks were not done at the end", count(unfinished as u64))));
    }
}

/// At most 7 characters: `999,999` or `12.3 M`.
fn short_count(n: u64) -> String {
    if n < 1_000_000 { count(n) } else { format!("{:.1} M", n as f64 * 1e-6) }
}

fn facts(text: &mut String, run: &RunReport, style: Style) {
    let facts = &run.facts;
    if !facts.warnings.is_empty() {
        line(text, &format!("\n{}", style.warn("the scheduler warned")));
        for warning in facts.warnings.iter().take(5) {
            // its stack stands below it, a function a line
            warning.lines().for_each(|content| wrapped(text, content));
        }
        if facts.warnings.len() > 5 {
            line(text, &format!("  and {} more", facts.warnings.len() - 5));
        }
    }
    if !facts.dropped.is_empty() {
        line(text, &format!("\n{}", style.warn("left out or made up: check before trusting")));
        for (reason, number) in &facts.dropped {
            wrapped(text, &format!("{:>9}  {reason}", count(*number)));
        }
    }
    account(text, &facts.account, style);
    if !facts.notes.is_empty() {
        line(text, &format!("\n{}", style.dim("notes")));
        facts.notes.iter().for_each(|note| wrapped(text, note));
    }
    if !facts.command.is_empty() || !facts.next_steps.is_empty() {
        line(text, &format!("\n{}", style.dim("next")));
        let again = (!facts.command.is_empty()).then_some(("the same again", &facts.command));
        let steps = facts.next_steps.iter().map(|step| (step.what.as_str(), &step.command));
        for (what, command) in steps.chain(again) {
            // commands are never cut or broken: they are to be copied
            let _ = writeln!(text, "  {what:<26} {command}");
        }
    }
}

/// What a loaded scheduler says about itself: a paragraph for each group.
fn account(text: &mut String, rows: &[(String, String, String)], style: Style) {
    /// More than these are in the JSON.
    const SHOWN: usize = 40;
    let titles = [
        ("scheduler", "the loaded scheduler"),
        ("defaults", "set in place of its user-space half (--param NAME=VALUE)"),
        ("settings", "its settings"),
        ("statistics", "its own statistics"),
        ("emulated", "what BPF defines and C does not"),
    ];
    printed(text, rows, style);
    for (group, title) in titles {
        let of_group: Vec<_> = rows.iter().filter(|(g, _, _)| g == group).collect();
        if of_group.is_empty() {
            continue;
        }
        line(text, &format!("\n{}", style.dim(title)));
        let pair = |(_, name, value): &&(String, String, String)| match group {
            "scheduler" => format!("{name}: {value}"),
            _ => format!("{name}={value}"),
        };
        let mut shown: Vec<String> = of_group.iter().take(SHOWN).map(pair).collect();
        if of_group.len() > SHOWN {
            shown.push(format!("and {} more (--json)", of_group.len() - SHOWN));
        }
        match group {
            "scheduler" => shown.iter().for_each(|row| wrapped(text, row)),
            _ => wrapped(text, &shown.join("  ")),
        }
    }
}

/// What a scheduler wrote with `bpf_printk()`: the last lines, each with the log's time.
fn printed(text: &mut String, rows: &[(String, String, String)], style: Style) {
    /// Lines on the terminal; the JSON has those that are kept.
    const SHOWN: usize = 20;
    let of = |wanted: &'static str| {
        rows.iter()
            .filter(move |(group, name, _)| group == "printed" && name == wanted)
            .map(|(_, _, value)| value)
    };
    let lines: Vec<&String> = of("line").collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN)..];
    let count: u64 = of("lines").next().and_then(|count| count.parse().ok()).unwrap_or(0);
    if shown.is_empty() {
        return;
    }
    let which = match count > shown.len() as u64 {
        true => format!(", the last {} of {count} lines", shown.len()),
        false => String::new(),
    };
    line(text, &format!("\n{}", style.dim(&format!("what it printed (bpf_printk){which}"))));
    for row in shown {
        line(text, &format!("  {}", visible(row)));
    }
}

/// Words in lines of at most [`WIDTH`] columns, indented.
pub fn wrapped(text: &mut String, content: &str) {
    let lead = content.len() - content.trim_start().len();
    let mut current = " ".repeat(2 + lead);
    let mut is_empty = true;
    for word in visible(content).split_whitespace() {
        if !is_empty && current.chars().count() + 1 + word.chars().count() > WIDTH {
            line(text, &current);
            current = " ".repeat(4);
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    line(text, &current);
}
