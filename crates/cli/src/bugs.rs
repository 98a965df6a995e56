//! `schedlab linux bugs`: fixes undone in a copy of the source (or bugs that are still there, mended in it),
//! each exposed by a workload and an instrument.
//!
//! ```text
//! linux bugs                     which there are
//! linux bugs NAME                one in detail: the fix, the edits, what is expected
//! linux bugs NAME|--all --run    edit, build what has changed, run with and without, put back
//! linux bugs NAME --add          a kernel of its own that has the bug: --sched linux-NAME
//! ```

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_lab::kernels;
use schedlab_linux::bugs::{self, Bug, BugTree, Measure, Origin, Reading};
use schedlab_linux::build::{self, BuildOptions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

#[derive(Args, Debug)]
pub(crate) struct BugsArgs {
    /// One of them; all are listed if left out.
    #[arg(conflicts_with = "all")]
    pub name: Option<String>,
    /// All of them.
    #[arg(long)]
    pub all: bool,
    /// Make it again in a copy of the kernel's source, run its workload with and without it, say whether it is exposed.
    #[arg(long)]
    pub run: bool,
    /// Build a kernel that has it, and keep that as `--sched linux-NAME` (`schedlab linux remove NAME` removes it).
    #[arg(long, conflicts_with = "run")]
    pub add: bool,
    /// As JSON, to a file or `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A bug with what was found of it.
struct Outcome<'a> {
    bug: &'a Bug,
    without: Reading,
    with: Reading,
    build_s: f64,
    run_s: f64,
}

impl Outcome<'_> {
    fn is_exposed(&self) -> bool {
        self.bug.shown.without.holds(&self.without) && self.bug.shown.with.holds(&self.with)
    }

    fn verdict(&self) -> &'static str {
        match (self.bug.shown.without.holds(&self.without), self.bug.shown.with.holds(&self.with)) {
            (true, true) => "exposed",
            (true, false) => "NOT EXPOSED",
            (false, _) => "UNEXPECTED without it",
        }
    }
}

pub(crate) fn bugs(args: &BugsArgs, ui: &Ui) -> Result<()> {
    let dir = build::port().map_err(Failure::input)?.join("bugs");
    let chosen = match &args.name {
        Some(name) => vec![bugs::find(&dir, name).map_err(Failure::input)?],
        None => bugs::all(&dir).map_err(Failure::input)?,
    };
    if (args.add || args.run) && args.name.is_none() && !args.all {
        return Err(Failure::Input("which? Give a name, or --all".into()));
    }
    if args.add {
        return add(args, &chosen, ui);
    }
    if !args.run {
        let list = Value::from(chosen.iter().map(described).collect::<Vec<_>>());
        if !output::json_value(args.json.as_deref(), &list)? {
            match &args.name {
                Some(_) => chosen.iter().for_each(|bug| print!("{}", details(bug))),
                None => print!("{}", table(&chosen)),
            }
        }
        return Ok(());
    }
    let show = !output::is_stdout(args.json.as_deref());
    let outcomes = run_all(&chosen, &dir, show, ui)?;
    let list = Value::from(outcomes.iter().map(as_json).collect::<Vec<_>>());
    output::json_value(args.json.as_deref(), &list)?;
    let missed: Vec<&str> =
        outcomes.iter().filter(|o| !o.is_exposed()).map(|o| o.bug.name.as_str()).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::Finding(format!(
        "{} of {} are not exposed as expected: {}",
        missed.len(),
        outcomes.len(),
        missed.join(", ")
    )))
}

/// Keeps kernels that have the bugs; of an open bug one that has it mended.
fn add(args: &BugsArgs, chosen: &[Bug], ui: &Ui) -> Result<()> {
    let mut added = Vec::new();
    for bug in chosen {
        let packaged = kernels::obtain(&bug.series, &BuildOptions::default(), ui).map_err(Failure::input)?;
        let path = BugTree::keep(bug, &packaged).map_err(Failure::input)?;
        let named = build::Named { name: bug.name.clone(), origin: build::Origin::Tree, path };
        build::add_named(&named).map_err(Failure::input)?;
        let options = BuildOptions { flavours: bug.flavours.clone(), ..BuildOptions::default() };
        let kernel = kernels::obtain(&bug.name, &options, ui).map_err(Failure::input)?;
        let has = if let Origin::Open(_) = bug.origin() { "without" } else { "with" };
        ui.say(format!("Linux {} {has} {}: --sched {}", bug.series, bug.name, kernel.name()));
        added.push(json!({ "bug": bug.name, "series": bug.series, "sched": kernel.name() }));
    }
    output::json_value(args.json.as_deref(), &Value::from(added)).map(|_| ())
}

fn run_all<'a>(chosen: &'a [Bug], dir: &Path, show: bool, ui: &Ui) -> Result<Vec<Outcome<'a>>> {
    if show {
        println!(
            "{:<20} {:<44} {:>14} {:>14}  {:<11} {:>9}",
            "bug", "instrument", "without", "with", "verdict", "build+run"
        );
    }
    let mut outcomes = Vec::new();
    let series: BTreeSet<&str> = chosen.iter().map(|bug| bug.series.as_str()).collect();
    for series in series {
        let packaged = kernels::obtain(series, &BuildOptions::default(), ui).map_err(Failure::input)?;
        let tree = BugTree::open(&packaged).map_err(Failure::input)?;
        for bug in chosen.iter().filter(|bug| bug.series == series) {
            let outcome = run_one(bug, dir, &tree, ui)?;
            if show {
                println!("{}", row(&outcome));
            }
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

fn run_one<'a>(bug: &'a Bug, dir: &Path, tree: &BugTree, ui: &Ui) -> Result<Outcome<'a>> {
    let options = BuildOptions { flavours: bug.flavours.clone(), ..BuildOptions::default() };
    let plus = build::plus(&bug.flavours);
    let started = Instant::now();
    tree.apply(bug).map_err(Failure::input)?;
    let verb = if let Origin::Open(_) = bug.origin() { "mended in" } else { "put into" };
    let what = format!("{} {verb} a copy of Linux {}", bug.name, bug.series);
    kernels::with_progress(&what, ui, |p| build::add_tree(tree.path(), &options, p))
        .map_err(Failure::input)?;
    let build_s = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let step = ui.step(format!("{}: {}", bug.name, bug.run.workload.display()));
    let edited = read(bug, dir, &format!("linux:{}{plus}", tree.path().display()))?;
    let packaged = read(bug, dir, &format!("linux-{}{plus}", bug.series))?;
    let (with, without) = match bug.origin() {
        Origin::Undone(_) => (edited, packaged),
        Origin::Open(_) => (packaged, edited),
    };
    drop(step);
    tree.restore().map_err(Failure::input)?;
    Ok(Outcome { bug, without, with, build_s, run_s: started.elapsed().as_secs_f64() })
}

/// The arguments of `schedlab run`, but for the scheduler.
fn arguments(bug: &Bug, dir: &Path) -> Vec<String> {
    let workload = dir.join(&bug.run.workload);
    [workload.display().to_string()].into_iter().chain(bug.run.args.iter().cloned()).collect()
}

/// Runs the workload in a process of its own, as a user would, and reads the instrument.
fn read(bug: &Bug, dir: &Path, sched: &str) -> Result<Reading> {
    let program = std::env::current_exe().map_err(Failure::input)?;
    let output = Command::new(program)
        .args(["--quiet", "run"])
        .args(arguments(bug, dir))
        .args(["--sched", sched, "--json", "-"])
        .output()
        .map_err(Failure::input)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let failed = || {
        let first = errors.lines().next().unwrap_or("it says nothing").to_owned();
        Failure::Input(format!("{}: the run under {sched} gives no result: {first}", bug.name))
    };
    match (&bug.shown.measure, output.status.code()) {
        (Measure::End, Some(3)) => return Ok(Reading::Text(ending(&errors))),
        (_, Some(0 | 1)) => {}
        (_, Some(3)) => return Err(Failure::Misbehaved(errors.into_owned())),
        _ => return Err(failed()),
    }
    let run: Value = serde_json::from_slice(&output.stdout).map_err(|_| failed())?;
    reading(&bug.shown.measure, &run).map_err(|why| Failure::Input(format!("{}: {why}", bug.name)))
}

/// `linux-x misbehaved after 5ms of simulated time: crash: ..., SIGSEGV (a bad pointer) ... in
/// pick_task_fair+0x53` -> from `crash` on.
fn ending(errors: &str) -> String {
    let line = errors.lines().find(|l| l.contains("misbehaved after")).unwrap_or(errors.trim());
    line.split_once("of simulated time: ").map_or(line, |(_, report)| report).to_owned()
}

fn reading(measure: &Measure, run: &Value) -> std::result::Result<Reading, String> {
    let number = |value: &Value, field: &str| {
        value[field].as_u64().ok_or_else(|| format!("'run --json' has no number '{field}'"))
    };
    match measure {
        Measure::End => Ok(Reading::Text("done".into())),
        Measure::Warning => {
            let first = run["warnings"].as_array().and_then(|all| all.first());
            let text = first.map(|w| w.as_str().map_or_else(|| w.to_string(), str::to_owned));
            Ok(Reading::Text(text.unwrap_or_else(|| "none".into())))
        }
        Measure::Run { field } => number(run, field).map(Reading::Number),
        Measure::Tasks { tasks, field, fold } => {
            let is_meant = |name: &str| match tasks.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == tasks,
            };
            let all = run["tasks"].as_array().into_iter().flatten();
            let meant = all.filter(|task| task["name"].as_str().is_some_and(is_meant));
            let numbers =
                meant.map(|task| number(task, field)).collect::<std::result::Result<Vec<u64>, _>>()?;
            let folded =
                fold.of(numbers.into_iter()).ok_or_else(|| format!("no task is called '{tasks}'"))?;
            Ok(Reading::Number(folded))
        }
    }
}

fn is_time(measure: &Measure) -> bool {
    matches!(measure, Measure::Run { field } | Measure::Tasks { field, .. } if field.ends_with("_ns"))
}

fn shown(measure: &Measure, reading: &Reading) -> String {
    match reading {
        Reading::Number(ns) if is_time(measure) => schedlab_report::units::time(*ns),
        Reading::Number(count) => count.to_string(),
        // "crash: the scheduler's process ended by ..."
        Reading::Text(text) => text.split(':').next().unwrap_or(text).to_owned(),
    }
}

fn row(outcome: &Outcome<'_>) -> String {
    let measure = &outcome.bug.shown.measure;
    let mut text = format!(
        "{:<20} {:<44} {:>14} {:>14}  {:<11} {:>5.0}+{:.0} s",
        outcome.bug.name,
        outcome.bug.shown.by,
        shown(measure, &outcome.without),
        shown(measure, &outcome.with),
        outcome.verdict(),
        outcome.build_s,
        outcome.run_s
    );
    if let (Measure::End | Measure::Warning, Reading::Text(report)) = (measure, &outcome.with) {
        text.push_str(&format!("\n{:<20} {report}", ""));
    }
    if !outcome.is_exposed() {
        let shown = &outcome.bug.shown;
        text.push_str(&format!("\n{:<20} expected without: {}; with: {}", "", shown.without, shown.with));
    }
    text
}

fn table(bugs: &[Bug]) -> String {
    let mut text =
        format!("{:<20} {:<9} {:<13} {}\n", "bug", "fixed", "by", "what goes wrong; what shows it");
    for bug in bugs {
        let (fixed, by) = bug.mended().map_or(("not yet", "edits here"), |fix| (&fix.release, fix.name()));
        text.push_str(&format!("{:<20} {:<9} {:<13} {}\n", bug.name, fixed, by, bug.title));
        text.push_str(&format!("{:<20} {:<9} {:<13} {}\n", "", "", "", bug.shown.by));
    }
    text + "\n'schedlab linux bugs NAME' has more; 'schedlab linux bugs --all --run' makes each again and measures\n"
}

fn details(bug: &Bug) -> String {
    let mut text = format!("{}: {}\n\n", bug.name, bug.title);
    match bug.origin() {
        Origin::Undone(fix) => {
            text.push_str(&format!(
                "fixed by    {} (\"{}\"), Linux {}\n",
                fix.name(),
                fix.subject,
                fix.release
            ));
            if !fix.differs.is_empty() {
                text.push_str(&format!("differs     {}\n", fix.differs));
            }
        }
        Origin::Open(open) => {
            text.push_str(&format!("there in    {}; the edits below mend it\n", open.versions.join(", ")));
            match &open.mended {
                Some(fix) => text.push_str(&format!(
                    "mended by   {} (\"{}\"), Linux {}: {}\n",
                    fix.name(),
                    fix.subject,
                    fix.release,
                    fix.differs
                )),
                None => text.push_str("mended by   no release yet\n"),
            }
            text.push_str(&format!("seen        {}\n", open.seen.trim()));
        }
    }
    text.push_str(&format!("users see   {}\nwhy         {}\n", bug.users.trim(), bug.why.trim()));
    let flavours = build::plus(&bug.flavours);
    text.push_str(&format!(
        "run         {} {} --sched linux-{}{flavours}\n",
        bug.run.workload.display(),
        bug.run.args.join(" "),
        bug.series
    ));
    text.push_str(&format!(
        "shown by    {}: without {}, with {}\n            {}\n",
        bug.shown.by,
        bug.shown.without,
        bug.shown.with,
        bug.shown.because.trim()
    ));
    for edit in &bug.edits {
        text.push_str(&format!("\nedit of {}\n", edit.file));
        edit.old.lines().for_each(|line| text.push_str(&format!("  - {line}\n")));
        edit.new.lines().for_each(|line| text.push_str(&format!("  + {line}\n")));
    }
    text
}

fn described(bug: &Bug) -> Value {
    let (fix, open) = match bug.origin() {
        Origin::Undone(fix) => (Some(fix), None),
        Origin::Open(open) => (None, Some(open)),
    };
    json!({
        "name": bug.name, "title": bug.title, "series": bug.series, "fix": fix, "open": open, "flavours": bug.flavours,
        "workload": bug.run.workload, "args": bug.run.args, "instrument": bug.shown.by,
        "expected_without": bug.shown.without, "expected_with": bug.shown.with,
    })
}

fn as_json(outcome: &Outcome<'_>) -> Value {
    let mut value = described(outcome.bug);
    value["without"] = json!(outcome.without);
    value["with"] = json!(outcome.with);
    value["exposed"] = json!(outcome.is_exposed());
    // seconds of this machine: of the build (edit to object), of the two runs
    value["build_wall_s"] = json!(outcome.build_s);
    value["runs_wall_s"] = json!(outcome.run_s);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_linux::bugs::Fold;

    #[test]
    fn instruments_are_read_by_name() {
        let run = json!({"migrations": 3, "warnings": [], "tasks": [
            {"name": "s1/cc1", "cpu_ns": 5}, {"name": "s1/make", "cpu_ns": 7}, {"name": "s2/cc1", "cpu_ns": 100}]});
        let tasks = |tasks: &str, fold| Measure::Tasks { tasks: tasks.into(), field: "cpu_ns".into(), fold };
        let read = |measure: &Measure| reading(measure, &run);
        assert_eq!(read(&Measure::Run { field: "migrations".into() }), Ok(Reading::Number(3)));
        assert_eq!(read(&tasks("s1/*", Fold::Sum)), Ok(Reading::Number(12)));
        assert_eq!(read(&tasks("s1/*", Fold::Max)), Ok(Reading::Number(7)));
        assert_eq!(read(&tasks("s2/cc1", Fold::Min)), Ok(Reading::Number(100)));
        assert_eq!(read(&tasks("s3", Fold::Sum)).unwrap_err(), "no task is called 's3'");
        assert_eq!(read(&Measure::Warning), Ok(Reading::Text("none".into())));
        assert!(read(&Measure::Run { field: "nonsense".into() }).is_err());
    }

    #[test]
    fn an_exit_report_is_distinguished_from_its_first_line() {
        let errors = "schedlab: linux-x misbehaved after 5ms of simulated time: crash: SIGSEGV in \
            pick_task_fair+0x53, on cpu1\n  called from\n";
        assert_eq!(ending(errors), "crash: SIGSEGV in pick_task_fair+0x53, on cpu1");
    }
}
