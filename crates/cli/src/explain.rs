//! `run --explain TASK@TIME`: why did real Linux decide so about this task? `run --read-out NAME@TIME`: its
//! own read-outs.
//!
//! ```text
//! --explain 'hog@40ms'            the next decision about the task at or after 40 ms: a pick on its CPU, or
//!                                 its placement at a wakeup
//! --read-out sched_debug@1s       the kernel's own dump of its runqueues at that time
//! ```

use crate::failure::{Failure, Result};
use clap::Args;
use schedlab_linux::decision::{Candidate, Decision, DecisionKind, Queue};
use schedlab_log::LogHeader;
use schedlab_machine::kernel::{Action, FileRequest};
use schedlab_report::units::time;
use schedlab_units::{Span, TaskId};
use schedlab_workload::{Birth, EventKind, InitState, Wakeup, Workload};
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ExplainArgs {
    /// Explain the next decision of real Linux about a task (name or pid) at or after a time, e.g. hog@40ms;
    /// may be given several times. The candidates are read from the kernel's own structures; the schedule
    /// stays what it is.
    #[arg(long, value_name = "TASK@TIME", value_parser = parse)]
    pub explain: Vec<(String, Span)>,
    /// Write the decisions that --explain shows as JSON, too.
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub explain_json: Option<PathBuf>,
    /// Print a read-out of real Linux at a time: schedstat, sched_debug, timer_list, psi (flavour psi), e.g.
    /// sched_debug@1s. Whoever reads it is process 1, which runs on CPU 0 at that instant.
    #[arg(long, value_name = "NAME@TIME", value_parser = parse)]
    pub read_out: Vec<(String, Span)>,
}

fn parse(text: &str) -> std::result::Result<(String, Span), String> {
    let (name, at) =
        text.rsplit_once('@').ok_or_else(|| format!("'{text}' is not NAME@TIME, e.g. hog@40ms"))?;
    if name.is_empty() {
        return Err(format!("'{text}' has no name before '@'"));
    }
    Ok((name.to_owned(), at.parse().map_err(|e| format!("'{at}' is not a time: {e}"))?))
}

/// The kernel's files that have a short name here, from the newest version's place on.
const READ_OUTS: [(&str, &[&str]); 4] = [
    ("schedstat", &["/proc/schedstat"]),
    ("sched_debug", &["/sys/kernel/debug/sched/debug", "/proc/sched_debug"]),
    ("timer_list", &["/proc/timer_list"]),
    ("psi", &["/proc/pressure/cpu"]),
];

impl ExplainArgs {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.explain.is_empty() && self.read_out.is_empty()
    }

    /// What the machine is asked for. `series` is the kernel's version, if the scheduler is one.
    pub(crate) fn actions(&self, workload: &Workload, version: Option<(u32, u32)>) -> Result<Vec<Action>> {
        let Some(version) = version else {
            if self.is_empty() {
                return Ok(Vec::new());
            }
            return Err(Failure::Input(
                "--explain and --read-out look into real Linux; take a --sched linux-...".to_owned(),
            ));
        };
        let mut actions = Vec::new();
        for (name, at) in &self.explain {
            let task = find(workload, name)?;
            actions.push(Action { at: *at, files: vec![FileRequest::Explain { task }] });
        }
        for (name, at) in &self.read_out {
            let Some((_, places)) = READ_OUTS.iter().find(|(known, _)| known == name) else {
                let known: Vec<&str> = READ_OUTS.iter().map(|(name, _)| *name).collect();
                return Err(Failure::Input(format!(
                    "there is no read-out '{name}'; there are {}; any other file: --show {at}:/PATH",
                    known.join(", ")
                )));
            };
            // before 5.13 the dump was in /proc
            let place = if version < (5, 13) { places.last() } else { places.first() };
            let name = place.copied().unwrap_or_default().to_owned();
            actions.push(Action { at: *at, files: vec![FileRequest::Read { name }] });
        }
        Ok(actions)
    }

    /// Writes the decisions that have come.
    pub(crate) fn write(&self, decisions: &[Decision]) -> Result<()> {
        if let Some(path) = &self.explain_json {
            crate::output::json_value(Some(path), decisions)?;
        }
        Ok(())
    }

    /// Shows the decisions that have come, and says how many have not.
    pub(crate) fn show(&self, decisions: &[Decision], header: &LogHeader) {
        for decision in decisions {
            print!("\n{}", text(decision, header));
        }
        if decisions.len() < self.explain.len() {
            println!(
                "\n{} of {} questions have no answer: no decision about the task came after that time",
                self.explain.len() - decisions.len(),
                self.explain.len()
            );
        }
    }
}

/// A task by pid, or by a name that one task has.
pub(crate) fn find(workload: &Workload, name: &str) -> Result<TaskId> {
    let by = |test: &dyn Fn(&schedlab_workload::Task) -> bool| -> Vec<u32> {
        (0u32..).zip(&workload.tasks).filter(|(_, t)| test(t)).map(|(id, _)| id).collect()
    };
    if let Ok(pid) = name.parse::<u32>()
        && let [id] = by(&|t| t.pid == pid)[..]
    {
        return Ok(TaskId(id));
    }
    match by(&|t| t.name == name)[..] {
        [id] => Ok(TaskId(id)),
        [] => Err(Failure::Input(format!("the workload has no task '{name}'; give its name or pid"))),
        ref several => {
            let rows: Vec<String> = several.iter().take(LISTED).map(|id| listed(workload, *id)).collect();
            let more = several.len().saturating_sub(LISTED);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            Err(Failure::Input(format!(
                "{} tasks are called '{name}'; give one's pid, e.g. --explain {}@TIME:\n{}{more}",
                several.len(),
                workload.tasks[several[0] as usize].pid,
                rows.join("\n")
            )))
        }
    }
}

/// Tasks of one name that a message lists.
const LISTED: usize = 20;

/// `    812  from the start, wants 40.0 ms of CPU time`
fn listed(workload: &Workload, id: u32) -> String {
    let task = &workload.tasks[id as usize];
    let begin = match &task.birth {
        Birth::Fork { parent } => format!("forked by {}", workload.task(*parent).pid),
        Birth::Init { state: InitState::Runnable, .. } => "from the start".to_string(),
        Birth::Init { state: InitState::Blocked, .. } => match task.events.first().map(|event| &event.kind) {
            Some(EventKind::Wakeup(Wakeup::External { after, .. })) => format!("from {after} on"),
            _ => "asleep at the start".to_string(),
        },
    };
    format!("  {:>7}  {begin}, wants {} of CPU time", task.pid, time(task.cpu_demand().as_ns()))
}

fn who(id: u32, header: &LogHeader) -> String {
    let task = TaskId(id);
    if task == TaskId::IDLE {
        return "idle".to_owned();
    }
    if let Some(task) = header.tasks.get(id as usize) {
        return format!("{} ({})", task.name, task.pid);
    }
    match task.kernel_pid() {
        Some(pid) => {
            let name =
                header.kernel_threads.iter().find(|t| t.pid == pid).map_or("kernel thread", |t| &*t.name);
            format!("{name} ({pid})")
        }
        None => format!("{task}"),
    }
}

fn ms(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

fn signed_ms(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, ms(ns.unsigned_abs()))
}

/// A decision for a person.
pub(crate) fn text(decision: &Decision, header: &LogHeader) -> String {
    let task = who(decision.task, header);
    let mut out = match decision.kind {
        DecisionKind::Pick => format!(
            "{task} at {} ms: cpu{} picks {} after {}\n",
            ms(decision.time_ns),
            decision.cpu,
            who(decision.after.unwrap_or(u32::MAX), header),
            who(decision.before, header)
        ),
        DecisionKind::Placement => format!(
            "{task} at {} ms: woken on cpu{}, where {} runs; it was on cpu{} before\n",
            ms(decision.time_ns),
            decision.cpu,
            who(decision.before, header),
            decision.prev_cpu.unwrap_or(0)
        ),
    };
    if !decision.real_time.is_empty() {
        out.push_str("  real-time and deadline tasks, which come first\n");
        for c in &decision.real_time {
            let mark = if c.picked { ">" } else { " " };
            let what = match (c.rt_priority, c.deadline_ns, c.slice_ns) {
                (Some(priority), _, _) => format!("priority {priority}"),
                (None, Some(deadline), Some(left)) => {
                    format!(
                        "deadline {} ms of the kernel's clock, {} ms of its runtime left",
                        ms(deadline),
                        ms(left)
                    )
                }
                _ => String::new(),
            };
            out.push_str(&format!("  {mark} {:<24} {what}\n", who(c.task.unwrap_or(u32::MAX), header)));
        }
    }
    for (level, queue) in decision.queues.iter().enumerate() {
        out.push_str(&queue_text(level, queue, header));
    }
    if !decision.cpus.is_empty() {
        out.push_str("  CPU       idle  shares its cache  runnable    load    util  capacity  runs\n");
        for c in &decision.cpus {
            let yes = |is| if is { "yes" } else { "-" };
            out.push_str(&format!(
                "  {:<8} {:>5}  {:>16}  {:>8}  {:>6}  {:>6}  {:>8}  {}\n",
                format!("cpu{}", c.cpu),
                yes(c.idle),
                yes(c.shares_cache),
                c.runnable,
                c.load,
                c.util,
                c.capacity,
                who(c.current, header)
            ));
        }
    }
    if decision.lost > 0 {
        out.push_str(&format!("  and {} more\n", decision.lost));
    }
    out
}

/// Times from the least of the queue on, so that they can be compared by eye; the JSON has the kernel's own numbers.
fn queue_text(level: usize, queue: &Queue, header: &LogHeader) -> String {
    let eevdf = queue.candidates.iter().any(|c| c.deadline_ns.is_some());
    let least = |get: &dyn Fn(&Candidate) -> u64| {
        let base = queue.candidates.first().map_or(0, get);
        let lowest = queue.candidates.iter().map(|c| get(c).wrapping_sub(base) as i64).min().unwrap_or(0);
        base.wrapping_add(lowest as u64)
    };
    let from = least(&|c| c.vruntime_ns);
    let rule = if eevdf {
        "the earliest deadline of those that are eligible (lag >= 0)"
    } else {
        "the least vruntime"
    };
    let place =
        if level == 0 { "the CPU's queue".to_owned() } else { format!("queue of the group, level {level}") };
    let mut out = format!("  {place}: {rule}; ms, vruntime and deadline from the least vruntime on\n");
    let timed = if eevdf { "  eligible      deadline     slice" } else { "" };
    out.push_str(&format!(
        "    {:<24} {:>7} {:>13} {:>13}{timed} {:>10} {:>12} {:>6} {:>5}\n",
        "", "weight", "vruntime", "lag", "turn", "CPU time", "load", "util"
    ));
    for (c, lag) in queue.candidates.iter().zip(queue.lags()) {
        let name = match (&c.group, c.task) {
            (Some(group), _) => format!("group {group}"),
            (None, task) => who(task.unwrap_or(u32::MAX), header),
        };
        let timed = match (c.eligible, c.deadline_ns, c.slice_ns) {
            (Some(eligible), Some(deadline), Some(slice)) => format!(
                "  {:>8}  {:>12} {:>9}",
                if eligible { "yes" } else { "no" },
                signed_ms(deadline.wrapping_sub(from) as i64),
                format!("{}.{:03}", slice / 1_000_000, slice / 1000 % 1000)
            ),
            _ => String::new(),
        };
        let mut notes = Vec::new();
        if c.delayed {
            notes.push("sleeps already");
        }
        if c.next_buddy {
            notes.push("next buddy");
        }
        out.push_str(&format!(
            "  {} {:<24} {:>7} {:>13} {:>13}{timed} {:>10} {:>12} {:>6} {:>5}  {}\n",
            if c.picked { ">" } else { " " },
            name,
            c.weight,
            ms(c.vruntime_ns.wrapping_sub(from)),
            signed_ms(lag),
            format!("{}.{:03}", c.turn_ns / 1_000_000, c.turn_ns / 1000 % 1000),
            format!("{}.{:03}", c.cpu_ns / 1_000_000, c.cpu_ns / 1000 % 1000),
            c.load,
            c.util,
            notes.join(", ")
        ));
    }
    out.lines().map(|l| l.trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_a_name_and_a_time() {
        assert_eq!(parse("a@b@40ms"), Ok(("a@b".to_owned(), Span::from_ms(40))));
        assert_eq!(parse("hog").unwrap_err(), "'hog' is not NAME@TIME, e.g. hog@40ms");
        assert_eq!(parse("@1s").unwrap_err(), "'@1s' has no name before '@'");
        assert!(parse("hog@soon").unwrap_err().starts_with("'soon' is not a time"));
    }

    #[test]
    fn tasks_of_one_name_are_listed_with_their_pids_and_times() {
        let ms = Span::from_ms;
        let mut w = schedlab_workload::Builder::new().first_pid(812);
        let first = w.task("cc").id();
        let child = w.life(first).run(ms(2)).fork("cc");
        w.life(first).run(ms(1)).exit();
        w.life(child).run(ms(40)).exit();
        w.task("cc").start(ms(5)).run(ms(7)).exit();
        w.task("ld").run(ms(1)).exit();
        let workload = w.finish().unwrap();
        assert!(matches!(find(&workload, "ld"), Ok(TaskId(3))));
        assert!(matches!(find(&workload, "813"), Ok(TaskId(1))));
        let Err(Failure::Input(message)) = find(&workload, "cc") else { panic!("there are three") };
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "3 tasks are called 'cc'; give one's pid, e.g. --explain 812@TIME:");
        assert_eq!(
            lines[1..],
            [
                "      812  from the start, wants 3.00 ms of CPU time",
                "      813  forked by 812, wants 40.0 ms of CPU time",
                "      814  from 5ms on, wants 7.00 ms of CPU time",
            ]
        );
    }
}
