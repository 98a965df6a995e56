//! A run, from a plan to its judged end: [`Finished`], or [`Ended`] with why.
//!
//! The plan is a [`RunRequest`], which [`Subject::on`](crate::Subject::on) begins. There is one judge for all runs,
//! whoever wants them and wherever they were made:
//!
//! | what happened | judged as | exit status |
//! |---|---|---|
//! | every task is done, or the duration is over | finished | 0 |
//! | the tasks that are left wait for each other | [`Ended::Deadlock`] | 2 |
//! | a parameter does not exist, a value is out of range | [`Ended::Refused`] | 2 |
//! | the log could not be written or read | [`Ended::Log`] | 2 |
//! | a kernel BUG, a lost task, an endless loop, a crash, ... | [`Ended::Misbehaved`] | 3 |
//! | the log contradicts itself, or its times do not add up | [`Ended::Internal`] | 4 |
//! | the scheduler warned | as the [`Standard`] says | 0 or 1 |
//! | it was not the experiment that was asked for ([`Finished::changed`]) | as the [`Standard`] says | 0 or 2 |

use crate::failure::{Fails, FailureKind};
use schedlab_instruments::{LogProblem, Summary, summarize};
use schedlab_log::{Log, LogError, LogHeader, LogTask, MemLog, RawLog};
use schedlab_machine::kernel::{Kernel, ReadOut};
use schedlab_machine::native::Native;
use schedlab_machine::{EndlessWait, Machine, Outcome, Program, Setup, WaitsFor};
use schedlab_policies::PolicyInfo;
use schedlab_runner::{
    ChildReport, ExitKind, ExitReport, RunEnd, RunError, RunRequest, RunResult, Scheduler, SchedulerError,
};
use schedlab_topology::Topology;
use schedlab_units::{Span, TaskId};
use schedlab_workload::{ObjectId, Workload};
use std::collections::{BTreeMap, VecDeque};

/// What ends a run besides a deadlock and misbehaviour, which always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// Nothing: the caller shows warnings, which are in [`Finished::report`], and [`Finished::changed`].
    Shown,
    /// A warning of the scheduler: what comes after it is not to be trusted. Refused requests are part of what is
    /// looked at.
    NoWarning,
    /// A warning, or anything in [`Finished::changed`]: the result would not be that of the workload.
    AsAsked,
}

/// A run that ended as it should.
#[derive(Debug)]
pub struct Finished {
    /// Its log.
    pub log: RawLog,
    /// What the log comes to. Its times add up.
    pub summary: Summary,
    /// What the run's process says besides.
    pub report: ChildReport,
    /// What lowering the workload left out: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    /// What makes it another experiment than the one that was asked for, and how often: what the workload lost on its
    /// way to this machine ([`Workload::changed_experiment`]), and what the scheduler refused.
    pub changed: BTreeMap<String, u64>,
}

impl Finished {
    /// Whether every task has done all that the workload asks (else the duration is over).
    pub fn is_done(&self) -> bool {
        self.report.end == RunEnd::AllDone
    }
}

/// A run that did not end as it should. The text tells all that is known, over several lines if need be;
/// [`Ended::short`] is a line.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It could not be started: the workload cannot be executed, the scheduler does not take the parameters, the host
    /// refuses.
    #[error(transparent)]
    NotStarted(RunError),
    /// The tasks that are left wait for each other.
    #[error("{}", deadlock(*after, waits))]
    Deadlock {
        /// When nothing could happen any more.
        after: Span,
        /// Who waits for whom.
        waits: Vec<NamedWait>,
    },
    /// What the experimenter asked for does not exist, or is out of range.
    #[error("{reason}")]
    Refused {
        /// In the scheduler's words.
        reason: String,
    },
    /// It was not the experiment that was asked for ([`Standard::AsAsked`]).
    #[error("{sched} did not run the experiment that was asked for: {what} ({times} times)")]
    NotAsAsked {
        /// The scheduler.
        sched: String,
        /// What was refused or lost.
        what: String,
        /// How often.
        times: u64,
    },
    /// The scheduler misbehaved.
    #[error("{}", misbehaved(sched, report, warnings, last))]
    Misbehaved {
        /// The scheduler.
        sched: String,
        /// What it did.
        report: ExitReport,
        /// Its warnings before that.
        warnings: Vec<String>,
        /// The last records of the log, as text.
        last: Vec<String>,
        /// The records up to then, where they were kept.
        log: Option<Box<RawLog>>,
    },
    /// The scheduler warned ([`Standard::NoWarning`], [`Standard::AsAsked`]).
    #[error("{sched} warned {} times during the run; the first: {}", warnings.len(), first_line(warnings))]
    Warned {
        /// The scheduler.
        sched: String,
        /// Its warnings, one at least.
        warnings: Vec<String>,
    },
    /// The host could not write the log, or read it again.
    #[error("{0}")]
    Log(String),
    /// A bug of ours.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Fails for Ended {
    fn kind(&self) -> FailureKind {
        match self {
            Ended::NotStarted(RunError::Report(_) | RunError::Worker(_)) | Ended::Internal(_) => {
                FailureKind::Internal
            }
            Ended::NotStarted(_)
            | Ended::Deadlock { .. }
            | Ended::Refused { .. }
            | Ended::NotAsAsked { .. }
            | Ended::Log(_) => FailureKind::Input,
            Ended::Misbehaved { .. } => FailureKind::Misbehaved,
            Ended::Warned { .. } => FailureKind::Finding,
        }
    }
}

impl From<RunError> for Ended {
    fn from(error: RunError) -> Ended {
        Ended::NotStarted(error)
    }
}

impl From<LogError> for Ended {
    fn from(error: LogError) -> Ended {
        Ended::Log(error.to_string())
    }
}

impl From<LogProblem> for Ended {
    fn from(problem: LogProblem) -> Ended {
        match problem {
            LogProblem::Log(error) => error.into(),
            contradiction => Ended::Internal(contradiction.to_string()),
        }
    }
}

impl Ended {
    /// Why, on one line.
    pub fn short(&self) -> String {
        match self {
            Ended::Deadlock { waits, .. } => format!(
                "the workload deadlocks: {} tasks wait for each other; 'schedlab run' names them",
                waits.len()
            ),
            Ended::Misbehaved { report: ExitReport { kind, reason, time_ns }, .. } => {
                format!("{kind} after {}: {reason}", Span::from_ns(*time_ns))
            }
            other => other.to_string(),
        }
    }
}

/// A task that waits for ever, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWait {
    /// `task 12 ('make')`
    pub sleeper: String,
    /// What for: `task 11 ('cc1'), which wakes it before its event 7`, `channel pipe`.
    pub waits_for: String,
    /// Whether that is an object.
    pub is_at_object: bool,
}

impl NamedWait {
    /// With the names of this workload.
    pub fn new(workload: &Workload, wait: EndlessWait) -> NamedWait {
        let name = |id: TaskId| {
            let task = workload.task(id);
            format!("task {} ('{}')", task.pid, task.name)
        };
        let waits_for = match wait.waits_for {
            WaitsFor::Event { waker, before_event } => {
                format!("{}, which wakes it before its event {before_event}", name(waker))
            }
            WaitsFor::Object { object, owner } => {
                let it = workload.object(ObjectId(object));
                let held = owner.map_or(String::new(), |owner| format!(", which {} holds", name(owner)));
                format!("{} {}{held}", it.kind.name(), it.name)
            }
        };
        let is_at_object = matches!(wait.waits_for, WaitsFor::Object { .. });
        NamedWait { sleeper: name(wait.task), waits_for, is_at_object }
    }
}

/// Runs to the end in a process of its own, reads the log once and judges.
///
/// # Errors
/// [`Ended`]: it could not be started, or did not end as it should.
pub fn run(request: &RunRequest<'_>, standard: Standard) -> Result<Finished, Ended> {
    judge(schedlab_runner::run(request)?, request.workload, standard)
}

/// The same; `go_on` is asked some twenty times a second, and a false ends the run.
///
/// # Errors
/// As [`run`]; [`RunError::Stopped`] if it was not to go on.
pub fn run_while(
    request: &RunRequest<'_>,
    standard: Standard,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Finished, Ended> {
    judge(schedlab_runner::run_while(request, go_on)?, request.workload, standard)
}

/// What to make of a run whose process has ended.
fn judge(result: RunResult, workload: &Workload, standard: Standard) -> Result<Finished, Ended> {
    let RunResult { header, spill, report, dropped } = result;
    let mut changed = workload.changed_experiment(header.nr_cpus);
    changed.extend(report.refused.clone());
    let end = EndOfRun {
        sched: &header.sched,
        workload,
        end: &report.end,
        after: Span::from_ns(report.duration_ns),
        warnings: &report.warnings,
        changed: &changed,
    };
    end.judge(standard, || {
        spill.try_clone().ok().and_then(|spill| RawLog::salvage(spill, header.clone()).ok())
    })?;
    let log = RawLog::open(spill, header).map_err(|error| Ended::Internal(error.to_string()))?;
    let summary = checked(&log)?;
    Ok(Finished { log, summary, report, dropped, changed })
}

/// What the log comes to, if its times add up.
fn checked(log: &dyn Log) -> Result<Summary, Ended> {
    let summary = summarize(log)?;
    summary.check_time().map_err(|error| Ended::Internal(error.to_string()))?;
    Ok(summary)
}

/// Runs a native scheduler in this process: no process, no file, some microseconds instead of milliseconds for a small
/// workload. For schedulers that are known to end. Judged as [`run`] judges.
///
/// # Errors
/// [`Ended`].
pub fn run_here(
    info: &'static PolicyInfo,
    params: &[(String, String)],
    (workload, topology): (&Workload, Topology),
    duration: Option<Span>,
    standard: Standard,
) -> Result<MemLog, Ended> {
    let scheduler = Scheduler::Native(info);
    let policy = info.build(params).map_err(|error| RunError::from(SchedulerError::from(error)))?;
    let mut program = Program::new(workload).map_err(RunError::from)?;
    program.restrict_to(topology.nr_cpus());
    let nr_cpus = topology.nr_cpus();
    let setup = Setup { topology, duration, params: Vec::new() };
    let mut records = Vec::new();
    let mut machine = Machine::new(Native::new(policy, &mut records), program, setup);
    let outcome = machine.run();
    let duration = outcome.duration;
    judge_machine(machine.kernel(), outcome, info.name, (workload, nr_cpus), standard)?;
    drop(machine);
    let task = |task: &schedlab_workload::Task| LogTask {
        pid: task.pid,
        name: task.name.clone(),
        params: task.params.unwrap_or_default(),
        affinity: task.affinity.clone(),
        ..LogTask::default()
    };
    let header = LogHeader {
        sched: info.name.to_string(),
        sched_version: scheduler.version(),
        nr_cpus,
        hz: scheduler.hz(),
        duration,
        tasks: workload.tasks.iter().map(task).collect(),
        params: params.to_vec(),
        ..LogHeader::default()
    };
    let log = MemLog { header, records };
    checked(&log)?;
    Ok(log)
}

/// What to make of a machine of so many CPUs that was run in this process, by whoever measures inside it. Its log is
/// not looked at.
///
/// # Errors
/// [`Ended`].
pub fn judge_machine(
    kernel: &mut impl Kernel,
    outcome: Outcome,
    sched: &str,
    (workload, nr_cpus): (&Workload, u32),
    standard: Standard,
) -> Result<(), Ended> {
    let ReadOut { warnings, refused, .. } = kernel.read_out();
    let end = RunEnd::of(outcome.end, outcome.duration);
    let mut changed = workload.changed_experiment(nr_cpus);
    changed.extend(refused);
    let (warnings, changed) = (&warnings, &changed);
    let end = EndOfRun { sched, workload, end: &end, after: outcome.duration, warnings, changed };
    end.judge(standard, || None)
}

/// Everything that the judge looks at, wherever the run was made.
struct EndOfRun<'a> {
    sched: &'a str,
    workload: &'a Workload,
    end: &'a RunEnd,
    after: Span,
    warnings: &'a [String],
    changed: &'a BTreeMap<String, u64>,
}

impl EndOfRun<'_> {
    /// The one place where the end of a run is judged. `log` gives what was logged of a run that died.
    fn judge(&self, standard: Standard, log: impl FnOnce() -> Option<RawLog>) -> Result<(), Ended> {
        let sched = || self.sched.to_string();
        match self.end {
            RunEnd::AllDone | RunEnd::Duration => {}
            RunEnd::Deadlock { waits } => {
                let waits = waits.iter().map(|wait| NamedWait::new(self.workload, *wait)).collect();
                return Err(Ended::Deadlock { after: self.after, waits });
            }
            RunEnd::Misbehaved { report } => {
                let reason = report.reason.clone();
                let misbehaved = || {
                    let log = log();
                    Ended::Misbehaved {
                        sched: sched(),
                        report: report.clone(),
                        warnings: self.warnings.to_vec(),
                        last: log.as_ref().map_or_else(Vec::new, last_records),
                        log: log.map(Box::new),
                    }
                };
                return Err(match report.kind {
                    ExitKind::Refused => Ended::Refused { reason },
                    ExitKind::Log => Ended::Log(reason),
                    ExitKind::Panic
                    | ExitKind::Livelock
                    | ExitKind::LostTask
                    | ExitKind::Contract
                    | ExitKind::Scheduler
                    | ExitKind::Crash
                    | ExitKind::Stall => misbehaved(),
                });
            }
        }
        let (no_warning, as_asked) = match standard {
            Standard::Shown => (false, false),
            Standard::NoWarning => (true, false),
            Standard::AsAsked => (true, true),
        };
        if no_warning && !self.warnings.is_empty() {
            return Err(Ended::Warned { sched: sched(), warnings: self.warnings.to_vec() });
        }
        if let Some((what, times)) = self.changed.first_key_value().filter(|_| as_asked) {
            return Err(Ended::NotAsAsked { sched: sched(), what: what.clone(), times: *times });
        }
        Ok(())
    }
}

/// The last records of a log, as text.
fn last_records(log: &RawLog) -> Vec<String> {
    const SHOWN: usize = 12;
    let Ok(records) = log.records() else { return Vec::new() };
    let mut last = VecDeque::with_capacity(SHOWN);
    for record in records.map_while(|record| record.ok()) {
        if last.len() == SHOWN {
            last.pop_front();
        }
        last.push_back(record);
    }
    let text = |record: &_| {
        let mut line = Vec::new();
        schedlab_log::format_record(&mut line, record);
        String::from_utf8_lossy(&line).trim_end().to_string()
    };
    last.iter().map(text).collect()
}

fn first_line(texts: &[String]) -> &str {
    texts.first().and_then(|text| text.lines().next()).unwrap_or_default()
}

fn misbehaved(sched: &str, report: &ExitReport, warnings: &[String], last: &[String]) -> String {
    let ExitReport { kind, reason, time_ns } = report;
    let after = Span::from_ns(*time_ns);
    // without a record it is the kernel's boot, whose clock is another one
    let when = match last.is_empty() && *time_ns > 0 {
        true => format!("before the workload began, {after} after power-on"),
        false => format!("after {after} of simulated time"),
    };
    let mut text = format!("{sched} misbehaved {when}: {kind}: {reason}");
    for warning in warnings {
        text.push_str(&format!("\n  it had warned: {}", warning.lines().next().unwrap_or_default()));
    }
    if last.is_empty() {
        text.push_str("\n  nothing was logged before that");
    } else {
        text.push_str("\n  last events:");
        last.iter().for_each(|line| text.push_str(&format!("\n    {line}")));
    }
    text
}

fn deadlock(after: Span, waits: &[NamedWait]) -> String {
    const SHOWN: usize = 10;
    let who = match waits.len() {
        1 => "the task that is left waits for what nobody will do".to_string(),
        nr => format!("the {nr} tasks that are left wait for each other"),
    };
    let mut text = format!("the workload deadlocks after {after} of simulated time: {who}\n");
    for NamedWait { sleeper, waits_for, .. } in waits.iter().take(SHOWN) {
        text.push_str(&format!("  {sleeper} waits for {waits_for}\n"));
    }
    if waits.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", waits.len() - SHOWN));
    }
    text.push_str("  make one of these wakeups external (deid 0), or correct the event that it depends on");
    if waits.iter().any(|wait| wait.is_at_object) {
        text.push_str("; at an object: send, signal or unlock once more, or close it");
    }
    text
}

#[cfg(test)]
mod tests;
