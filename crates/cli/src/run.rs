//! `schedlab run`: a workload, under a scheduler, on a simulated machine.

use crate::args::RunArgs;
use crate::failure::{Failure, Result};
use crate::input::{self, Loaded};
use crate::many::Variation;
use crate::output;
use crate::ui::Ui;
use schedlab_instruments::jobs::job_report;
use schedlab_instruments::{LogProblem, Summary, TaskStats, for_each_picture, summarize};
use schedlab_log::{LogHeader, RawLog};
use schedlab_machine::kernel::{Action, SKEW_TICK};
use schedlab_machine::{Costs, Perturb};
use schedlab_report::{
    Detail, NextStep, PerfettoOptions, RunFacts, RunReport, RunView, Style, deadline_marks, worst_stretches,
};
use schedlab_runner::{ChildReport, Request, RunEnd, RunError, RunResult, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::{Span, TaskId};
use schedlab_workload::Workload;
use std::path::PathBuf;
use std::time::Duration;

/// A run that has ended as it should: its log and what is known about it.
pub(crate) struct Finished {
    pub log: RawLog,
    pub summary: Summary,
    pub facts: RunFacts,
    /// What `--show` asked for: when in ns, name, text or error number.
    pub readings: Vec<(u64, String, std::result::Result<String, i32>)>,
    /// What `--explain` asked for.
    pub decisions: Vec<schedlab_linux::decision::Decision>,
    /// Line coverage, of a kernel that counts it.
    pub coverage: Vec<(String, Vec<u8>)>,
}

impl Finished {
    pub fn header(&self) -> &LogHeader {
        schedlab_log::Log::header(&self.log)
    }
    pub fn view(&self) -> RunView<'_> {
        RunView { header: self.header(), summary: &self.summary, facts: &self.facts }
    }
}

/// What `execute` needs to know.
pub(crate) struct Plan<'a> {
    pub loaded: &'a Loaded,
    pub scheduler: &'a Scheduler,
    pub topology: Topology,
    pub duration: Option<Span>,
    pub params: Vec<(String, String)>,
    /// Vary what the workload leaves open.
    pub perturb: Option<Perturb>,
    pub costs: Option<Costs>,
    /// What is done to the kernel meanwhile.
    pub actions: Vec<Action>,
    /// End the run if nothing happens for this long on the host, in time in which it could go on.
    pub stall_limit: Duration,
    /// The command that repeats the run.
    pub command: String,
}

pub(crate) fn run(args: &RunArgs, ui: &Ui) -> Result<()> {
    let topology = args.topology().ok_or_else(|| {
        Failure::Input("how many CPUs? Give --cpus N, or --machine packages=2,cores=4,smt=2".to_string())
    })?;
    check_outputs(args)?;
    args.coverage.check()?;
    if args.stall == Span::ZERO {
        return Err(Failure::Input(
            "--stall 0: expected a time greater than zero, for example 5s".to_string(),
        ));
    }
    let variations = args.many.variations()?;
    let several = !args.more.is_empty() && !args.together;
    if (variations.len() > 1 || several) && (!args.explain.is_empty() || args.coverage.coverage.is_some()) {
        return Err(Failure::Input(
            "--explain, --read-out and --coverage are about one run; give one workload and one seed".into(),
        ));
    }
    if variations.len() > 1 || several {
        return crate::many::run_many(args, topology, &variations, ui);
    }
    let loaded = load(args, ui)?;
    let scheduler = crate::schedulers::resolve_with(&args.sched, &args.param, args.hz, topology, ui)?;
    let mut plan = plan(args, &loaded, &scheduler, topology, &variations[0]);
    let version = match &scheduler {
        Scheduler::Linux(linux) => Some(linux.linux_version()),
        Scheduler::Native(_) => None,
    };
    plan.actions.extend(args.explain.actions(&loaded.workload, version)?);
    let mut finished = execute(&plan, ui)?;
    finished.facts.next_steps = next_steps(args, &plan.command);
    if version.is_some() {
        finished.facts.explain = format!("{} --explain", plan.command);
    }
    write_outputs(args, &finished, ui)?;
    args.coverage.write(&finished.coverage)?;
    crate::profile::profile(&args.profile, ui)?;
    conclude(&finished)
}

/// The workload of one run: with `--together` all that are given, side by side.
pub(crate) fn load(args: &RunArgs, ui: &Ui) -> Result<Loaded> {
    if args.together {
        let all: Vec<PathBuf> = [&args.workload].into_iter().chain(&args.more).cloned().collect();
        return input::load_all(&all, ui);
    }
    input::load(&args.workload, ui)
}

/// One run as the command line describes it.
pub(crate) fn plan<'a>(
    args: &RunArgs,
    loaded: &'a Loaded,
    scheduler: &'a Scheduler,
    topology: &Topology,
    variation: &Variation,
) -> Plan<'a> {
    let mut params = args.param.clone();
    if args.ticks == "staggered" {
        params.push((SKEW_TICK.to_string(), "1".to_string()));
    }
    if let Some(seed) = variation.seed
        && scheduler.has_seed()
        && !params.iter().any(|(name, _)| name == "seed")
    {
        params.push(("seed".to_string(), seed.to_string()));
    }
    params.sort();
    Plan {
        loaded,
        scheduler,
        topology: topology.clone(),
        duration: args.duration,
        params,
        perturb: variation.perturb,
        costs: variation.costs,
        actions: args.at.actions(),
        stall_limit: Duration::from_nanos(args.stall.as_ns()),
        command: command_line(),
    }
}

/// Runs in a child process and turns the log into tables.
pub(crate) fn execute(plan: &Plan<'_>, ui: &Ui) -> Result<Finished> {
    let (name, cpus) = (plan.scheduler.name(), plan.topology.nr_cpus());
    let step = ui.step(format!("running {} under {name} on {cpus} CPUs", plan.loaded.name));
    let request = Request {
        workload: &plan.loaded.workload,
        scheduler: plan.scheduler,
        topology: plan.topology.clone(),
        duration: plan.duration.or(plan.loaded.duration),
        params: plan.params.clone(),
        placement: Vec::new(),
        perturb: plan.perturb,
        costs: plan.costs,
        actions: &plan.actions,
        // whoever debugs a run takes his time
        stall_limit: if std::env::var_os(crate::debug::PATIENT).is_some() {
            Duration::MAX
        } else {
            plan.stall_limit
        },
    };
    let result = schedlab_runner::run(&request).map_err(|error| match error {
        RunError::Report(_) => Failure::Internal(error.to_string()),
        other => Failure::input(other),
    })?;
    judge(&result, plan)?;
    step.progress("reading the log");
    finish(result, plan)
}

/// A run that did not end as it should ends the command.
fn judge(result: &RunResult, plan: &Plan<'_>) -> Result<()> {
    match &result.report.end {
        RunEnd::AllDone | RunEnd::Duration => Ok(()),
        RunEnd::Deadlock { waits } => {
            Err(Failure::Input(deadlock(&plan.loaded.workload, waits, &result.report)))
        }
        // what the experimenter asked for does not exist, or is out of range
        RunEnd::Misbehaved { report } if report.kind == schedlab_runner::ExitKind::Refused => {
            Err(Failure::Input(report.reason.clone()))
        }
        RunEnd::Misbehaved { report } => {
            let mut text = format!(
                "{} misbehaved after {} of simulated time: {}: {}\n",
                plan.scheduler.name(),
                Span::from_ns(report.time_ns),
                report.kind,
                report.reason
            );
            for warning in &result.report.warnings {
                text.push_str(&format!("  it had warned: {}\n", warning.lines().next().unwrap_or_default()));
            }
            text.push_str(&last_events(result));
            text.push_str(&format!("  repeat it with: {}", plan.command));
            Err(Failure::Misbehaved(text))
        }
    }
}

/// The last records of a run that died, for its exit report.
fn last_events(result: &RunResult) -> String {
    const SHOWN: usize = 12;
    let Ok(spill) = result.spill.try_clone() else { return String::new() };
    let Ok(log) = RawLog::salvage(spill, result.header.clone()) else { return String::new() };
    let Ok(records) = schedlab_log::Log::records(&log) else { return String::new() };
    let mut last = std::collections::VecDeque::with_capacity(SHOWN);
    for record in records.map_while(|record| record.ok()) {
        if last.len() == SHOWN {
            last.pop_front();
        }
        last.push_back(record);
    }
    if last.is_empty() {
        return "  nothing was logged before that\n".to_string();
    }
    let mut text = String::from("  last events:\n");
    for record in &last {
        let mut line = Vec::new();
        schedlab_log::format_record(&mut line, record);
        text.push_str(&format!("    {}\n", String::from_utf8_lossy(&line).trim_end()));
    }
    text
}

fn deadlock(workload: &Workload, waits: &[schedlab_runner::Wait], report: &ChildReport) -> String {
    const SHOWN: usize = 10;
    let name = |id: u32| {
        let task = workload.task(TaskId(id));
        format!("task {} ('{}')", task.pid, task.name)
    };
    let mut text = format!(
        "the workload deadlocks after {} of simulated time: the {} tasks that are left wait for each other\n",
        Span::from_ns(report.duration_ns),
        waits.len()
    );
    for wait in waits.iter().take(SHOWN) {
        let (sleeper, waker) = (name(wait.task), name(wait.waker));
        text.push_str(&format!(
            "  {sleeper} waits for {waker}, which wakes it before its event {}\n",
            wait.before_event
        ));
    }
    if waits.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", waits.len() - SHOWN));
    }
    text.push_str("  make one of these wakeups external (deid 0), or correct the event that it depends on");
    text
}

fn finish(result: RunResult, plan: &Plan<'_>) -> Result<Finished> {
    let RunResult { header, spill, report, dropped } = result;
    let internal = |error: &dyn std::fmt::Display| Failure::Internal(format!("internal error: {error}"));
    let log = RawLog::open(spill, header).map_err(|e| internal(&e))?;
    let summary = summarize(&log).map_err(|error| match error {
        LogProblem::Log(error) => Failure::input(error),
        other => internal(&other),
    })?;
    summary.check_time().map_err(|e| internal(&e))?;
    let mut stretches = Vec::new();
    for_each_picture(&log, &worst_stretches(&summary), |picture| stretches.push(picture.clone()))
        .map_err(|e| internal(&e))?;
    let mut all_dropped = plan.loaded.workload.dropped.clone();
    for (reason, count) in dropped.into_iter().chain(report.refused.clone()) {
        *all_dropped.entry(reason).or_default() += count;
    }
    let jobs = job_report(&log, &plan.loaded.workload).map_err(|e| internal(&e))?;
    let differing = differing_accounts(plan, &report, &summary);
    let facts = RunFacts {
        workload: plan.loaded.name.clone(),
        command: plan.command.clone(),
        end: match &report.end {
            RunEnd::AllDone => "every task is done".to_string(),
            _ => format!("stopped after {}", Span::from_ns(report.duration_ns)),
        },
        wall_ns: report.loop_wall_ns,
        kernel_ns: report.kernel_wall_ns,
        dropped: all_dropped,
        finished: Some(report.finished.clone()),
        warnings: report.warnings.clone(),
        notes: notes(plan, &report, &differing),
        account: report.account.clone(),
        account_differs_ns: differing.iter().map(Differing::by_ns).max().unwrap_or(0),
        jobs,
        stretches,
        explain: String::new(),
        next_steps: Vec::new(),
    };
    let ChildReport { readings, decisions, coverage, .. } = report;
    Ok(Finished { log, summary, facts, readings, decisions, coverage })
}

/// A task of whose CPU time the scheduler has an account of its own that is not the log's.
struct Differing<'a> {
    task: &'a TaskStats,
    kernel_ns: u64,
}

impl Differing<'_> {
    fn by_ns(&self) -> u64 {
        self.task.cpu_ns.abs_diff(self.kernel_ns)
    }
}

fn differing_accounts<'a>(plan: &Plan<'_>, report: &ChildReport, summary: &'a Summary) -> Vec<Differing<'a>> {
    // a kernel accounts for a task that is on a CPU at its ticks, the last of which is up to a tick before the end
    // (a CPU without a tick: at the one that another CPU does for it each second)
    let has_tickless =
        plan.params.iter().any(|(name, _)| name == "boot.nohz_full" || name == "boot.isolcpus");
    let hz = if has_tickless { 1 } else { plan.scheduler.hz() };
    let tick_ns = 1_000_000_000_u64.checked_div(hz.into()).unwrap_or(0);
    let is_late = |task: &TaskStats, kernel_ns: u64| {
        !task.exited && task.cpu_ns.checked_sub(kernel_ns).is_some_and(|late_ns| late_ns < tick_ns)
    };
    summary
        .tasks
        .iter()
        .zip(&report.kernel_cpu_ns)
        .filter(|(task, kernel_ns)| task.cpu_ns != **kernel_ns && !is_late(task, **kernel_ns))
        .map(|(task, kernel_ns)| Differing { task, kernel_ns: *kernel_ns })
        .collect()
}

fn notes(plan: &Plan<'_>, report: &ChildReport, differing: &[Differing<'_>]) -> Vec<String> {
    let mut notes = plan.loaded.notes.clone();
    if report.tokens_early > 0 {
        notes.push(format!("{} blocks did not sleep: their wakeup had come already", report.tokens_early));
    }
    if let Some(Differing { task, kernel_ns }) = differing.iter().max_by_key(|d| d.by_ns()) {
        notes.push(format!(
            "the scheduler's own account of CPU time differs from the log's for {} tasks, most for pid {}: {}, in the log {}",
            differing.len(),
            plan.loaded.workload.task(task.id).pid,
            Span::from_ns(*kernel_ns),
            Span::from_ns(task.cpu_ns)
        ));
    }
    notes
}

/// The command as typed, with the program's plain name.
pub(crate) fn command_line() -> String {
    let quote = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    std::iter::once("schedlab".to_string())
        .chain(std::env::args().skip(1).map(quote))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The same run again, with a picture.
fn next_steps(args: &RunArgs, command: &str) -> Vec<NextStep> {
    let mut steps = Vec::new();
    if args.html.is_none() {
        let command = format!("{command} --html report.html");
        steps.push(NextStep { what: "see who ran when".into(), command });
    }
    if args.perfetto.is_none() {
        let command = format!("{command} --perfetto run.pftrace");
        steps.push(NextStep { what: "open it in ui.perfetto.dev".into(), command });
    }
    steps
}

/// Refuses outputs that cannot be written before anything is run.
fn check_outputs(args: &RunArgs) -> Result<()> {
    let paths = [&args.log, &args.perfetto, &args.html, &args.json];
    paths.into_iter().flatten().try_for_each(|path| output::check(path))
}

/// Files that a run writes.
pub(crate) struct Files {
    pub log: Option<PathBuf>,
    pub perfetto: Option<PathBuf>,
    pub html: Option<PathBuf>,
}

pub(crate) fn write_files(files: &Files, finished: &Finished) -> Result<()> {
    if let Some(path) = &files.log {
        schedlab_log::write(path, &finished.log).map_err(Failure::input)?;
    }
    if let Some(path) = &files.perfetto {
        let marks = finished.facts.jobs.as_ref().map(deadline_marks).unwrap_or_default();
        let options = PerfettoOptions { marks: &marks, ..PerfettoOptions::default() };
        schedlab_report::perfetto(path, &finished.log, options).map_err(Failure::input)?;
    }
    if let Some(path) = &files.html {
        let title = format!("{} under {}", finished.facts.workload, finished.header().sched);
        let report = report(finished, Detail::for_html(1))?;
        schedlab_report::html(path, &title, &[report]).map_err(Failure::input)?;
    }
    Ok(())
}

fn write_outputs(args: &RunArgs, finished: &Finished, ui: &Ui) -> Result<()> {
    let step = ui.step("writing results");
    let files = Files { log: args.log.clone(), perfetto: args.perfetto.clone(), html: args.html.clone() };
    write_files(&files, finished)?;
    args.explain.write(&finished.decisions)?;
    drop(step);
    if !output::json(args.json.as_deref(), |out| schedlab_report::json(finished.view(), out))? {
        let report = report(finished, Detail::for_terminal(finished.header().nr_cpus))?;
        print!("{}", schedlab_report::terminal(&report, Style::detect()));
        crate::at::print(&finished.readings);
        args.explain.show(&finished.decisions, finished.header());
    }
    for (what, path) in [("log", &args.log), ("Perfetto file", &args.perfetto), ("HTML report", &args.html)] {
        if let Some(path) = path {
            ui.say(format!("{what}: {}", path.display()));
        }
    }
    Ok(())
}

/// The run with its pictures.
pub(crate) fn report(finished: &Finished, detail: Detail) -> Result<RunReport> {
    RunReport::with_summary(&finished.log, finished.summary.clone(), finished.facts.clone(), detail)
        .map_err(|error| Failure::Internal(format!("internal error: {error}")))
}

/// A kernel's warnings are a finding.
pub(crate) fn conclude(finished: &Finished) -> Result<()> {
    match finished.facts.warnings.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Finding(format!(
            "{} warned {} times during the run; the first: {}",
            finished.header().sched,
            finished.facts.warnings.len(),
            first.lines().next().unwrap_or_default()
        ))),
    }
}
