//! When was it worst, where, for whom, and which command explains it? The longest waits, and the longest
//! times in which a CPU idled while work waited; the same rows on the terminal, in JSON and in the HTML
//! report.
//!
//! ```text
//! the longest waits       on      of                          from          explain with ... --explain
//!   60.0 ms               cpu0    batch (6), preempted        0.029000 s    6@29000000ns
//! a CPU idle while work waits, the longest times
//!   505 ms                cpu4-7  hog (3) on cpu1, 5 more     0.000000 s    3@0ns
//! ```

use crate::report::{RunReport, cause_text};
use crate::terminal::{Style, clip, line};
use crate::units::{count, percent, time};
use crate::{RunFacts, RunView};
use schedlab_instruments::{
    Began, KnownTasks, LongWait, Picture, Quantity, Stretch, Summary, TaskStats, Unknown, WaitingTask, Wasted,
};
use schedlab_log::{LogHeader, WaitCause};
use schedlab_units::{CpuId, CpuSet, TaskId};
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Stretches in the tables.
const STRETCHES_SHOWN: usize = 10;
/// Rows of each table on the terminal.
const ROWS_SHOWN: usize = 3;
/// Rows of `wasted` on the terminal.
const WASTED_SHOWN: usize = 20;
/// Waiting tasks that a row names.
const TASKS_NAMED: usize = 3;
const WIDTH: usize = 100;

/// The stretches that reports show, in order of time: the longest.
pub fn worst_stretches(summary: &Summary) -> Vec<Stretch> {
    let mut stretches = summary.system.conservation.longest.clone();
    stretches.sort_by_key(|stretch| (Reverse(stretch.ns()), stretch.from_ns));
    stretches.truncate(STRETCHES_SHOWN);
    stretches.sort_unstable();
    stretches
}

/// `cpu0`, `cpu1-3,7`.
fn cpus(cpus: &[CpuId]) -> String {
    format!("cpu{}", cpus.iter().copied().collect::<CpuSet>())
}

/// `12.004000000 s`: to the nanosecond where that is needed, to the microsecond else.
fn moment(ns: u64) -> String {
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if rest.is_multiple_of(1000) {
        format!("{seconds}.{:06} s", rest / 1000)
    } else {
        format!("{seconds}.{rest:09} s")
    }
}

fn who(header: &LogHeader, task: TaskId, width: usize) -> String {
    let task = &header.tasks[task.index()];
    format!("{} ({})", clip(&task.name, width), task.pid)
}

/// `PID@TIME` for `--explain`.
fn question(header: &LogHeader, task: TaskId, at_ns: u64) -> String {
    format!("{}@{at_ns}ns", header.tasks[task.index()].pid)
}

/// The whole command; `None` if the run cannot be asked.
fn command(header: &LogHeader, facts: &RunFacts, task: TaskId, at_ns: u64) -> Option<String> {
    (!facts.explain.is_empty()).then(|| format!("{} {}", facts.explain, question(header, task, at_ns)))
}

/// The task to ask about: one that waits through the whole stretch, if there is one.
fn asked(picture: &Picture) -> Option<&WaitingTask> {
    picture.waiting.iter().find(|waiting| waiting.throughout).or(picture.waiting.first())
}

/// `on cpu1, ran on cpu0`.
fn places(wait: &LongWait) -> String {
    match wait.cpu == wait.end_cpu {
        true => wait.cpu.to_string(),
        false => format!("{}, then {}", wait.cpu, wait.end_cpu),
    }
}

/// Both tables; nothing where there is nothing to tell.
pub(crate) fn terminal(text: &mut String, run: &RunReport, style: Style) {
    let (header, facts) = (&run.header, &run.facts);
    let explain = if facts.explain.is_empty() { "" } else { "--explain" };
    let head = |text: &mut String, what: &str, on: &str, of: &str| {
        let words = format!("{what:<22}{on:<16} {of:<28} {:<14} {explain}", "from");
        line(text, &style.dim(words.trim_end()));
    };
    let row = |text: &mut String, ns: u64, on: &str, of: &str, from_ns: u64, task: Option<TaskId>| {
        let asked = task.filter(|_| !facts.explain.is_empty());
        let question = asked.map(|task| question(header, task, from_ns)).unwrap_or_default();
        let content =
            format!("{:>20}  {:<16} {of:<28} {:<14} {question}", time(ns), clip(on, 16), moment(from_ns));
        line(text, &clip(&content, WIDTH.max(content.trim_end().chars().count())));
    };
    let waits: Vec<&LongWait> =
        run.summary.system.longest_waits.iter().filter(|wait| wait.ns() > 0).take(ROWS_SHOWN).collect();
    if !waits.is_empty() {
        let is_known = run.summary.why_unknown(Quantity::Waiting).is_none();
        head(text, if is_known { "the longest waits" } else { "long waits, as seen" }, "on", "of");
    }
    for wait in waits {
        let of = format!("{}, {}", who(header, wait.task, 10), cause_text(wait.cause));
        row(text, wait.ns(), &places(wait), &of, wait.start_ns, Some(wait.task));
    }
    let mut pictures: Vec<&Picture> = facts.stretches.iter().collect();
    pictures.sort_by_key(|picture| (Reverse(picture.stretch.ns()), picture.stretch.from_ns));
    if !pictures.is_empty() {
        text.push('\n');
        head(text, "idle while work waits", "on", "who waits, and where");
    }
    for picture in pictures.into_iter().take(ROWS_SHOWN) {
        let asked = asked(picture);
        let place = |waiting: &WaitingTask| format!("{} on {}", who(header, waiting.task, 10), waiting.cpu);
        let first = asked.map_or(String::new(), place);
        let more = picture.waiting.len().saturating_sub(1);
        let of = if more > 0 { format!("{first} +{}", count(more as u64)) } else { first };
        let task = asked.map(|waiting| waiting.task);
        row(text, picture.stretch.ns(), &cpus(&picture.idle_cpus), &of, picture.stretch.from_ns, task);
    }
}

/// What is not known of the tasks that waited; `None` if everything is.
pub(crate) fn unknown_text(summary: &Summary) -> Option<String> {
    let conservation = &summary.system.conservation;
    unknown(&conservation.unknown, conservation.unknown_ns)
}

/// Most names of tasks that are not known.
const NAMES_SHOWN: usize = 3;

/// Whose waits are known, where those of others are not.
pub(crate) fn known_text(run: RunView<'_>, known: &KnownTasks) -> String {
    let is_lost = |task: &&TaskStats| run.summary.task_why_unknown(task, Quantity::Waiting).is_some();
    let lost: Vec<&TaskStats> = run.summary.tasks.iter().filter(is_lost).collect();
    let name = |task: &&TaskStats| clip(&run.header.tasks[task.id.index()].name, 15);
    let names: Vec<String> = lost.iter().take(NAMES_SHOWN).map(name).collect();
    let more = if lost.len() > NAMES_SHOWN { ", ..." } else { "" };
    format!(
        "of {} of the {} tasks (nobody saw whether {}{more} waited)",
        count(known.tasks as u64),
        count(known.of as u64),
        names.join(", ")
    )
}

fn unknown(tasks: &[(TaskId, Unknown)], unknown_ns: u64) -> Option<String> {
    let number = |why: Unknown| tasks.iter().filter(|(_, reason)| *reason == why).count() as u64;
    let reasons = [
        (
            number(Unknown::Affinity),
            "where they may run (their affinity changed, and the log does not say to what)",
        ),
        (number(Unknown::Limit), "whether a limit of CPU time held them back"),
        (number(Unknown::Unseen), "whether they waited (nobody saw them)"),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("of {} tasks, {what}", count(*number)))
        .collect();
    // what is unknown of no task is unknown of the CPUs
    if reasons.is_empty() && unknown_ns > 0 {
        return Some(format!("unknown for {}: whether a CPU idled (nobody saw it)", time(unknown_ns)));
    }
    (!reasons.is_empty()).then(|| format!("unknown for {}: {}", time(unknown_ns), reasons.join("; ")))
}

#[derive(Serialize)]
struct WaitJson<'a> {
    task: u32,
    pid: u32,
    name: &'a str,
    cause: &'static str,
    cpu: u32,
    end_cpu: u32,
    moves: u32,
    start_ns: u64,
    end_ns: u64,
    /// Who had the CPU meanwhile: `task`, `pid`, `name`, `ns`; most first.
    meanwhile: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<String>,
}

/// Tasks that had the CPU meanwhile in a row.
const MEANWHILE_SHOWN: usize = 8;

/// Who had the CPU meanwhile, of the wait of this number: the first few.
fn had(facts: &RunFacts, index: usize) -> impl Iterator<Item = &(TaskId, u64)> {
    facts.meanwhile.get(index).into_iter().flatten().take(MEANWHILE_SHOWN)
}

/// `longest_waits` of a run's JSON.
pub(crate) fn waits_json(run: RunView<'_>) -> impl Serialize {
    let RunView { header, summary, facts } = run;
    let row = |(index, wait): (usize, &LongWait)| WaitJson {
        task: wait.task.0,
        pid: header.tasks[wait.task.index()].pid,
        name: &header.tasks[wait.task.index()].name,
        cause: cause_text(wait.cause),
        cpu: wait.cpu.0,
        end_cpu: wait.end_cpu.0,
        moves: wait.moves,
        start_ns: wait.start_ns,
        end_ns: wait.end_ns,
        meanwhile: had(facts, index)
            .map(|(task, ns)| {
                let (pid, name) = named(header, *task);
                json!({ "task": task.0, "pid": pid, "name": name, "ns": ns })
            })
            .collect(),
        explain: command(header, facts, wait.task, wait.start_ns),
    };
    let waits = summary.system.longest_waits.iter().enumerate().filter(|(_, wait)| wait.ns() > 0);
    waits.map(row).collect::<Vec<_>>()
}

#[derive(Serialize)]
struct StretchJson {
    from_ns: u64,
    to_ns: u64,
    idle_cpus: Vec<u32>,
    idle_throughout: Vec<u32>,
    waiting: Vec<Value>,
    /// Per CPU: its running task and those that wait there.
    queues: Vec<u32>,
    /// What happened at its beginning.
    began: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<String>,
}

fn stretch_json(header: &LogHeader, picture: &Picture, explain: Option<String>) -> StretchJson {
    let numbers = |cpus: &[CpuId]| cpus.iter().map(|cpu| cpu.0).collect();
    let waiting = picture.waiting.iter().map(|waiting| {
        let task = &header.tasks[waiting.task.index()];
        json!({
            "task": waiting.task.0, "cpu": waiting.cpu.0, "pid": task.pid, "name": task.name,
            "since_ns": waiting.since_ns, "throughout": waiting.throughout,
        })
    });
    StretchJson {
        from_ns: picture.stretch.from_ns,
        to_ns: picture.stretch.to_ns,
        idle_cpus: numbers(&picture.idle_cpus),
        idle_throughout: numbers(&picture.idle_throughout),
        waiting: waiting.collect(),
        queues: picture.queues.iter().map(|queue| queue.total()).collect(),
        began: picture.began.iter().map(began_json).collect(),
        explain,
    }
}

fn began_json(began: &Began) -> Value {
    match began {
        Began::FellIdle(cpu) => json!({ "what": "fell_idle", "cpu": cpu.0 }),
        Began::Came { task, cpu, cause, by } => {
            let what = match cause {
                WaitCause::New => "new",
                WaitCause::Wakeup => "wakeup",
                WaitCause::Preempted => "preempted",
            };
            json!({ "what": what, "task": task.0, "cpu": cpu.0, "by": by.0 })
        }
    }
}

/// `idle_while_waiting_longest` of a run's JSON, in order of time.
pub(crate) fn stretches_json(run: RunView<'_>) -> impl Serialize {
    let RunView { header, facts, .. } = run;
    let row = |picture: &Picture| {
        let explain =
            asked(picture).and_then(|waiting| command(header, facts, waiting.task, picture.stretch.from_ns));
        stretch_json(header, picture, explain)
    };
    facts.stretches.iter().map(row).collect::<Vec<_>>()
}

/// Number and name of whoever can have a CPU.
fn named(header: &LogHeader, task: TaskId) -> (u32, &str) {
    if task.is_idle() {
        return (0, "idle");
    }
    match task.kernel_pid() {
        None => (header.tasks[task.index()].pid, &header.tasks[task.index()].name),
        Some(pid) => {
            let thread = header.kernel_threads.iter().find(|thread| thread.pid == pid);
            (pid, thread.map_or("kernel thread", |thread| thread.name.as_str()))
        }
    }
}

/// `waits` of the HTML report's data: row, CPU, why, from, to, CPU at the end, command, who had the CPU meanwhile (name
/// and number, ns).
pub(crate) fn waits_page(run: &RunReport) -> Value {
    let row = |(index, wait): (usize, &LongWait)| {
        let had = had(&run.facts, index).map(|(task, ns)| {
            let (pid, name) = named(&run.header, *task);
            json!([if pid == 0 { name.to_owned() } else { format!("{name} ({pid})") }, ns])
        });
        let command = command(&run.header, &run.facts, wait.task, wait.start_ns);
        json!([
            wait.task.0,
            wait.cpu.0,
            cause_text(wait.cause),
            wait.start_ns,
            wait.end_ns,
            wait.end_cpu.0,
            command,
            had.collect::<Vec<_>>()
        ])
    };
    run.summary.system.longest_waits.iter().enumerate().filter(|(_, wait)| wait.ns() > 0).map(row).collect()
}

/// `stretches` of the HTML report's data: from, to, idle CPUs, waiting tasks (row, CPU), row asked about,
/// command, queues.
pub(crate) fn stretches_page(run: &RunReport) -> Value {
    let row = |picture: &Picture| {
        let asked = asked(picture).map(|waiting| waiting.task);
        let from_ns = picture.stretch.from_ns;
        let waiting = picture.waiting.iter().take(100).map(|waiting| json!([waiting.task.0, waiting.cpu.0]));
        json!([
            from_ns,
            picture.stretch.to_ns,
            cpus(&picture.idle_cpus),
            waiting.collect::<Vec<_>>(),
            asked.map(|task| task.0),
            asked.and_then(|task| command(&run.header, &run.facts, task, from_ns)),
            picture.queues.iter().map(|queue| queue.total()).collect::<Vec<_>>(),
            picture.waiting.len(),
        ])
    };
    run.facts.stretches.iter().map(row).collect()
}

/// `schedlab wasted`, for a person: what was found and the longest stretches, lines of at most 100 columns
/// but for long names. `pictures` are of the longest stretches, in any order.
pub fn wasted_terminal(header: &LogHeader, found: &Wasted, pictures: &[Picture], style: Style) -> String {
    let mut text = String::new();
    let duration_ns = header.duration.as_ns();
    let all = &found.all;
    let plural = if found.nr_stretches == 1 { "stretch" } else { "stretches" };
    let bound =
        if found.bound_ns > 0 { format!(" longer than {}", time(found.bound_ns)) } else { String::new() };
    line(
        &mut text,
        &format!("\n{} · {} CPUs · {}", style.bold(&header.sched), header.nr_cpus, time(duration_ns)),
    );
    line(
        &mut text,
        &format!(
            "a CPU idle beside a task that it may run: {}{} {plural}{bound}, {} ({} of the time)",
            if all.unknown_ns > 0 { "at least " } else { "" },
            style.bold(&count(found.nr_stretches)),
            style.bold(&time(found.total_ns)),
            percent(found.total_ns, duration_ns)
        ),
    );
    line(
        &mut text,
        &style.dim(&format!(
            "of any length: {}{}, {} ({} of the time), the longest {}",
            if all.unknown_ns > 0 { "at least " } else { "" },
            count(all.stretches),
            time(all.idle_while_waiting_ns),
            percent(all.idle_while_waiting_ns, duration_ns),
            time(all.longest_ns)
        )),
    );
    if let Some(unknown) = unknown(&all.unknown, all.unknown_ns) {
        crate::terminal::wrapped(&mut text, &unknown);
    }
    let mut pictures: Vec<&Picture> = pictures.iter().collect();
    pictures.sort_by_key(|picture| (Reverse(picture.stretch.ns()), picture.stretch.from_ns));
    if !pictures.is_empty() {
        text.push('\n');
        let head = format!("{:>10}  {:<16} {:<12} {:<20} waiting", "length", "from", "idle", "queues");
        line(&mut text, &style.dim(&head));
    }
    for picture in pictures.iter().take(WASTED_SHOWN) {
        line(&mut text, &wasted_row(header, picture));
        line(&mut text, &style.dim(&format!("            {}", who_could(header, picture))));
    }
    if found.nr_stretches > WASTED_SHOWN as u64 {
        let rest = count(found.nr_stretches - WASTED_SHOWN as u64);
        line(&mut text, &style.dim(&format!("and {rest} more (--json)")));
    }
    if !pictures.is_empty() {
        let words =
            "queues: tasks on each CPU at the beginning, the running one included; *: waits all through it";
        line(&mut text, &style.dim(words));
    }
    text
}

fn wasted_row(header: &LogHeader, picture: &Picture) -> String {
    let queues: Vec<String> = picture.queues.iter().map(|queue| queue.total().to_string()).collect();
    let mut waiting: Vec<&WaitingTask> = picture.waiting.iter().collect();
    waiting.sort_by_key(|waiting| (!waiting.throughout, waiting.task));
    let names = waiting.iter().take(TASKS_NAMED).map(|waiting| {
        let mark = if waiting.throughout { "*" } else { "" };
        format!("{} on {}{mark}", who(header, waiting.task, 15), waiting.cpu)
    });
    let mut names: Vec<String> = names.collect();
    if waiting.len() > TASKS_NAMED {
        names.push(format!("{} more", count((waiting.len() - TASKS_NAMED) as u64)));
    }
    format!(
        "{:>10}  {:<16} {:<12} {:<20} {}",
        time(picture.stretch.ns()),
        moment(picture.stretch.from_ns),
        clip(&cpus(&picture.idle_cpus), 12),
        clip(&queues.join(" "), 20),
        names.join(", ")
    )
}

/// What began a stretch, and which CPUs could have ended it: those that idled could pull, those with the tasks push.
fn who_could(header: &LogHeader, picture: &Picture) -> String {
    let mut fell = Vec::new();
    let mut came = Vec::new();
    for began in &picture.began {
        match began {
            Began::FellIdle(cpu) => fell.push(*cpu),
            Began::Came { task, cpu, cause, by } => {
                let why = match cause {
                    WaitCause::New => "was created by",
                    WaitCause::Wakeup => "was woken by",
                    WaitCause::Preempted => "was put back by",
                };
                came.push(format!("{} {why} {by} for {cpu}", who(header, *task, 15)));
            }
        }
    }
    let mut began = Vec::new();
    if !fell.is_empty() {
        began.push(format!("{} fell idle", cpus(&fell)));
    }
    began.extend(came.iter().take(1).cloned());
    if came.len() > 1 {
        began.push(format!("{} more came", came.len() - 1));
    }
    let began = if began.is_empty() { "where tasks may run changed".to_string() } else { began.join(", ") };
    let mut queues: Vec<CpuId> = picture.waiting.iter().map(|waiting| waiting.cpu).collect();
    queues.sort_unstable();
    queues.dedup();
    format!(
        "{began}; {} could pull, {} could push",
        clip(&cpus(&picture.idle_cpus), 12),
        clip(&cpus(&queues), 12)
    )
}

/// `schedlab wasted` as JSON, but for its stretches: what stands before and behind them.
pub fn wasted_json(header: &LogHeader, found: &Wasted) -> Value {
    let all = &found.all;
    let unknown = all.unknown.iter().map(|(task, why)| {
        let why = match why {
            Unknown::Affinity => "affinity",
            Unknown::Limit => "limit",
            Unknown::Unseen => "seen",
        };
        json!({ "task": task.0, "what": why })
    });
    // (of no task: whether a CPU idled)
    let of_cpus =
        (all.unknown.is_empty() && all.unknown_ns > 0).then(|| json!({ "task": null, "what": "idle" }));
    json!({
        "schema": 1,
        "sched": header.sched,
        "cpus": header.nr_cpus,
        "duration_ns": header.duration.as_ns(),
        "bound_ns": found.bound_ns,
        "nr_stretches": found.nr_stretches,
        "total_ns": found.total_ns,
        "unknown_ns": all.unknown_ns,
        "unknown": unknown.chain(of_cpus).collect::<Vec<_>>(),
        "any_length": {
            "stretches": all.stretches, "total_ns": all.idle_while_waiting_ns, "longest_ns": all.longest_ns,
        },
        "stretches_kept": all.longest.len(),
    })
}

/// One stretch of `schedlab wasted` as JSON.
pub fn wasted_stretch_json(header: &LogHeader, picture: &Picture) -> Value {
    serde_json::to_value(stretch_json(header, picture, None)).expect("numbers and strings are always JSON")
}
