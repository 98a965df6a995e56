//! One run of a command: made, judged, turned into tables, pictures and files.

use crate::changes;
use crate::failure::{Failure, Result};
use crate::output;
use crate::tunables::meant;
use crate::ui::Ui;
use schedlab_instruments::jobs::job_report;
use schedlab_instruments::{Summary, TaskStats, for_each_picture, meanwhile};
use schedlab_lab::{Ended, Fails, Loaded, NamedWait, Standard, Subject};
use schedlab_log::{Log, LogHeader, RawLog};
use schedlab_machine::kernel::Action;
use schedlab_machine::{Costs, EndlessWait, Forced, Perturb};
use schedlab_report::{
    Detail, PerfettoOptions, RunFacts, RunReport, RunView, deadline_marks, worst_stretches,
};
use schedlab_runner::{ChildReport, RunRequest};
use schedlab_topology::Topology;
use schedlab_units::Span;
use std::path::PathBuf;
use std::time::Duration;

/// Makes a run wait for its debugger, however long that takes.
pub(crate) const PATIENT: &str = "SCHEDLAB_PATIENT";

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
        self.log.header()
    }
    pub fn view(&self) -> RunView<'_> {
        RunView { header: self.header(), summary: &self.summary, facts: &self.facts }
    }
}

/// A run that is to be made.
pub(crate) struct Plan<'a> {
    pub loaded: &'a Loaded,
    pub subject: Subject,
    pub topology: Topology,
    pub duration: Option<Span>,
    /// Vary what the workload leaves open.
    pub perturb: Option<Perturb>,
    /// For reports.
    pub seed: Option<u64>,
    pub costs: Option<Costs>,
    /// What is done to the kernel meanwhile.
    pub actions: Vec<Action>,
    /// End the run if nothing happens for this long on the host, in time in which it could go on.
    pub stall_limit: Duration,
    /// Where the log goes if the scheduler misbehaves: the records up to then.
    pub crash_log: Option<PathBuf>,
    /// The command that repeats the run.
    pub command: String,
}

/// Runs in a child process and turns the log into tables.
pub(crate) fn execute(plan: &Plan<'_>, ui: &Ui) -> Result<Finished> {
    execute_while(plan, &mut || true, ui)
}

/// The same; `go_on` is asked some twenty times a second, and a false ends the run with an error.
pub(crate) fn execute_while(plan: &Plan<'_>, go_on: &mut dyn FnMut() -> bool, ui: &Ui) -> Result<Finished> {
    let (name, cpus) = (plan.subject.scheduler.name(), plan.topology.nr_cpus());
    changes::refuse(&plan.loaded.workload.changed_experiment(cpus), ui)?;
    let step = ui.step(format!("running {} under {name} on {cpus} CPUs", plan.loaded.name));
    let request = RunRequest {
        duration: plan.duration.or(plan.loaded.duration),
        perturb: plan.perturb,
        costs: plan.costs,
        actions: &plan.actions,
        // whoever debugs a run takes his time
        stall_limit: if std::env::var_os(PATIENT).is_some() { Duration::MAX } else { plan.stall_limit },
        ..plan.subject.on(&plan.loaded.workload, plan.topology.clone())
    };
    if request.stall_limit == Duration::MAX {
        schedlab_run_begins();
    }
    let run = schedlab_lab::run_while(&request, Standard::Shown, go_on);
    let run = run.map_err(|ended| failed(&ended, plan, ui))?;
    drop(step);
    changes::refuse(&run.changed, ui)?;
    finish(run, plan)
}

/// A place for a debugger: the kernel is built, and the next process to be forked is the run's. Compilers before it
/// are none of its business.
// SAFETY: the name is the project's own; nothing else in this program defines it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn schedlab_run_begins() {
    std::hint::black_box(());
}

/// What there is to say of a run that failed. The log of one that misbehaved is kept, where one was asked for: what
/// led to it is in there.
fn failed(ended: &Ended, plan: &Plan<'_>, ui: &Ui) -> Failure {
    let mut text = ended.to_string();
    let Ended::Misbehaved { log, .. } = ended else {
        if let (Ended::Refused { .. }, Some(linux)) = (ended, plan.subject.linux()) {
            text.push_str(&meant(&text, linux, ui));
        }
        return Failure::of(ended.kind(), text);
    };
    text.push_str(&format!("\n  repeat it with: {}", plan.command));
    if let (Some(path), Some(log)) = (&plan.crash_log, log) {
        let name = path.display();
        match schedlab_log::write(path, &**log) {
            Ok(()) => text.push_str(&format!("\n  the log up to then: {name} ({} records)", log.len())),
            Err(error) => text.push_str(&format!("\n  the log up to then could not be kept: {error}")),
        }
    }
    Failure::Misbehaved(text)
}

fn finish(run: schedlab_lab::Finished, plan: &Plan<'_>) -> Result<Finished> {
    let mut dropped = plan.loaded.workload.dropped.clone();
    for (reason, count) in run.dropped.iter().chain(&run.report.refused) {
        *dropped.entry(reason.clone()).or_default() += count;
    }
    let mut stretches = Vec::new();
    for_each_picture(&run.log, &worst_stretches(&run.summary), |picture| stretches.push(picture.clone()))
        .map_err(Ended::from)?;
    let meanwhile = meanwhile(&run.log, &run.summary.system.longest_waits).map_err(Ended::from)?;
    let jobs = job_report(&run.log, &plan.loaded.workload).map_err(Ended::from)?;
    let differing = differing_accounts(plan, &run.report, &run.summary);
    let facts = RunFacts {
        workload: plan.loaded.name.clone(),
        command: plan.command.clone(),
        end: if run.is_done() {
            "every task is done".to_string()
        } else {
            format!("stopped after {}", Span::from_ns(run.report.duration_ns))
        },
        wall_ns: output::host_ns(run.report.loop_wall_ns),
        kernel_ns: output::host_ns(run.report.kernel_wall_ns),
        changed_experiment: run.changed.clone(),
        seed: plan.seed,
        dropped,
        finished: Some(run.report.finished.clone()),
        warnings: run.report.warnings.clone(),
        notes: notes(plan, &run.report, &differing),
        account: run.report.account.clone(),
        account_differs_ns: differing.iter().map(Differing::by_ns).max().unwrap_or(0),
        jobs,
        stretches,
        meanwhile,
        explain: String::new(),
        next_steps: Vec::new(),
    };
    let schedlab_lab::Finished { log, summary, report, .. } = run;
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
        plan.subject.params.iter().any(|(name, _)| name == "boot.nohz_full" || name == "boot.isolcpus");
    let hz = if has_tickless { 1 } else { plan.subject.scheduler.hz() };
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

/// Of those who waited then so many are named.
const WAITING_MAX: usize = 4;

/// Whose wait was the first that was ended by force, and who else waited for what.
fn first_forced(plan: &Plan<'_>, first: &Forced) -> String {
    let named = |wait: &EndlessWait| {
        let NamedWait { sleeper, waits_for, .. } = NamedWait::new(&plan.loaded.workload, *wait);
        format!("{sleeper} waited for {waits_for}")
    };
    let (own, others): (Vec<_>, Vec<_>) = first.waits.iter().partition(|wait| wait.task == first.task);
    let more = others.len().saturating_sub(WAITING_MAX);
    let mut all: Vec<String> =
        own.into_iter().chain(others.into_iter().take(WAITING_MAX)).map(named).collect();
    if more > 0 {
        all.push(format!("{more} more waited"));
    }
    format!("; the first after {}: {}", first.at, all.join(", "))
}

fn notes(plan: &Plan<'_>, report: &ChildReport, differing: &[Differing<'_>]) -> Vec<String> {
    let mut notes = plan.loaded.notes.clone();
    if let Some(why) = &report.uncontained {
        notes.push(format!("the scheduler ran with your user's rights, not contained: {why}"));
    }
    if report.tokens_early > 0 {
        notes.push(format!("{} blocks did not sleep: their wakeup had come already", report.tokens_early));
    }
    if report.waits_gained + report.waits_skipped > 0 {
        notes.push(format!(
            "at objects {} blocks did not sleep that slept in the recording, {} slept that did not",
            report.waits_skipped, report.waits_gained
        ));
    }
    if report.waits_forced > 0 {
        notes.push(format!(
            "{} recorded waits at objects were ended, since all tasks that were left waited: the recording says that \
                they went on{}",
            report.waits_forced,
            report.first_forced.as_ref().map_or(String::new(), |first| first_forced(plan, first))
        ));
    }
    if report.sends_lost > 0 {
        notes.push(format!(
            "{} sends to objects that were closed by then: nothing came of them",
            report.sends_lost
        ));
    }
    if let Some(Differing { task, kernel_ns }) = differing.iter().max_by_key(|d| d.by_ns()) {
        notes.push(format!(
            "the scheduler's own account of CPU time differs from the log's for {} tasks, most for pid {}: {}, in the \
                log {}",
            differing.len(),
            plan.loaded.workload.task(task.id).pid,
            Span::from_ns(*kernel_ns),
            Span::from_ns(task.cpu_ns)
        ));
    }
    notes
}

/// The command as typed, with the program's plain name; with `--reproducible` without what has no part in its result.
pub(crate) fn command_line() -> String {
    command_of(std::env::args().skip(1).collect())
}

/// The same of any words behind the program's name.
pub(crate) fn command_of(mut words: Vec<String>) -> String {
    let quote = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    if output::is_reproducible() {
        words = output::without_outputs(words);
    }
    std::iter::once("schedlab".to_string()).chain(words.into_iter().map(quote)).collect::<Vec<_>>().join(" ")
}

/// What asks real Linux about a run of these words, up to `PID@TIME`. How the answer is written is no part of the
/// question: `--reproducible` may be put behind it.
pub(crate) fn question_of(words: Vec<String>) -> String {
    format!("{} --explain", command_of(words.into_iter().filter(|word| word != "--reproducible").collect()))
}

/// Files that a run writes.
pub(crate) struct Files {
    pub log: Option<PathBuf>,
    pub perfetto: Option<PathBuf>,
    pub html: Option<PathBuf>,
}

pub(crate) fn write_files(files: &Files, finished: &Finished) -> Result<()> {
    let title = format!("{} under {}", finished.facts.workload, finished.header().sched);
    write_log_files(files, &title, &finished.log, &finished.summary, &finished.facts)
}

/// The same of any log.
pub(crate) fn write_log_files(
    files: &Files,
    title: &str,
    log: &dyn Log,
    summary: &Summary,
    facts: &RunFacts,
) -> Result<()> {
    if let Some(path) = &files.log {
        schedlab_log::write(path, log).map_err(Failure::input)?;
    }
    if let Some(path) = &files.perfetto {
        let marks = facts.jobs.as_ref().map(deadline_marks).unwrap_or_default();
        let options = PerfettoOptions { marks: &marks, ..PerfettoOptions::default() };
        schedlab_report::perfetto(path, log, options).map_err(Failure::input)?;
    }
    if let Some(path) = &files.html {
        let report = pictured(log, summary, facts, Detail::for_html(1))?;
        schedlab_report::html(path, title, &[report]).map_err(Failure::input)?;
    }
    Ok(())
}

/// The run with its pictures.
pub(crate) fn report(finished: &Finished, detail: Detail) -> Result<RunReport> {
    pictured(&finished.log, &finished.summary, &finished.facts, detail)
}

fn pictured(log: &dyn Log, summary: &Summary, facts: &RunFacts, detail: Detail) -> Result<RunReport> {
    RunReport::with_summary(log, summary.clone(), facts.clone(), detail)
        .map_err(|error| Failure::Internal(format!("internal error: {error}")))
}

/// A kernel's warnings are a finding.
pub(crate) fn conclude(finished: &Finished) -> Result<()> {
    let warnings = finished.facts.warnings.clone();
    if warnings.is_empty() {
        return Ok(());
    }
    Err(Ended::Warned { sched: finished.header().sched.clone(), warnings }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_a_run_takes_reproducible_once() {
        let question = |words: &str| question_of(words.split(' ').map(str::to_owned).collect());
        let plain = question("run w.txt --sched linux-6.12 --cpus 2");
        assert_eq!(plain, "schedlab run w.txt --sched linux-6.12 --cpus 2 --explain");
        assert_eq!(question("--reproducible run w.txt --sched linux-6.12 --cpus 2"), plain);
        assert_eq!(question("run w.txt --sched linux-6.12 --cpus 2 --reproducible"), plain);
    }
}
