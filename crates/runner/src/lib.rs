//! How is one run made safe? In a child process, which a worker forks, watches and cleans up after.
//!
//! ```text
//!   caller, any thread        worker (one thread, started by exec)      child
//!   workload by its hash ──>  maps it, once
//!   job ───────────────────>  fork ──────────────────────────────────>  load the scheduler, boot, run
//!   waits                     watch the pulse, wait                     records ──> spill file (32 bytes each)
//!   read the report  <──────  how it ended                              outcome ──> report file (JSON)
//!   read the spill file
//! ```
//!
//! Whatever the scheduler under test does (a kernel BUG, a wild pointer, an endless loop), the caller gets a
//! [`RunResult`]: the outcome, or an [`ExitReport`] with what was going on. The files have no names; nothing
//! is left behind.
//!
//! The caller may have threads: it forks nothing. Its workers are kept for later runs ([`end_idle`] ends
//! them), and end with it. They are its own executable, started again ([`schedlab_process`]); a library
//! inside another's names the `schedlab` program ([`schedlab_process::set_program`]).

mod child;
mod control;
mod crash;
mod offline;
mod outcome;
pub mod pool;
mod scheduler;
mod store;
mod watch;
mod wire;
mod worker;
mod workers;

pub use child::COMMAND_LINE;
pub use scheduler::{LinuxObject, Scheduler, SchedulerError};
pub use workers::end_idle;

/// Which engine this is: a number over the sources of all that a run executes, 16 hexadecimal digits.
/// Programs with the same one give the same bytes.
pub const ENGINE: &str = env!("SCHEDLAB_ENGINE");

use schedlab_log::{KernelThread, LogGroup, LogHeader, LogTask};
use schedlab_machine::kernel::{Action, Fault, FaultKind};
use schedlab_machine::{Costs, End, EndlessWait, Forced, Perturb, ProgramError};
use schedlab_topology::Topology;
use schedlab_units::{ClassKind, CpuId, Span, TaskId};
use schedlab_workload::{Birth, Cgroup, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

/// What to run, on what, under which scheduler.
#[derive(Clone, Debug)]
pub struct RunRequest<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The scheduler.
    pub scheduler: &'a Scheduler,
    /// The machine.
    pub topology: Topology,
    /// Stop after this much simulated time.
    pub duration: Option<Span>,
    /// Tunables of the scheduler, in order of name.
    pub params: Vec<(String, String)>,
    /// Vary what the workload leaves open; `None`: exactly as it says. The log's header names it as the
    /// parameter [`PERTURB`].
    pub perturb: Option<Perturb>,
    /// The CPUs that tasks begin on, row i `TaskId(i)`; empty, or `None`: wherever the scheduler puts them.
    /// The log's header names it as the parameter [`PLACEMENT`].
    pub placement: Vec<Option<CpuId>>,
    /// What kernel code costs; `None`: nothing. The log's header names it as the parameter [`COSTS`].
    pub costs: Option<Costs>,
    /// What the experimenter does while the workload runs.
    pub actions: &'a [Action],
    /// End the run as a stall if nothing happens for this long, in time in which it could go on (a busy host
    /// is no stall).
    pub stall_limit: Duration,
}

impl<'a> RunRequest<'a> {
    /// Exactly what the workload says, to its end, with the scheduler's defaults.
    pub fn new(workload: &'a Workload, scheduler: &'a Scheduler, topology: Topology) -> RunRequest<'a> {
        RunRequest {
            workload,
            scheduler,
            topology,
            duration: None,
            params: Vec::new(),
            perturb: None,
            placement: Vec::new(),
            costs: None,
            actions: &[],
            stall_limit: STALL_LIMIT,
        }
    }
}

/// [`RunRequest::stall_limit`] unless something else is asked for.
pub const STALL_LIMIT: Duration = Duration::from_secs(60);

/// How a run ended, as the child reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum RunEnd {
    /// Every task has done all that the workload asks of it.
    AllDone,
    /// The duration is over.
    Duration,
    /// The tasks left wait for each other.
    Deadlock {
        /// Who waits for whom.
        waits: Vec<EndlessWait>,
    },
    /// The scheduler misbehaved.
    Misbehaved {
        /// What happened.
        report: ExitReport,
    },
}

impl RunEnd {
    /// How the machine says that a run ended, `duration` after its start.
    pub fn of(end: End, duration: Span) -> RunEnd {
        match end {
            End::AllDone => RunEnd::AllDone,
            End::Duration => RunEnd::Duration,
            End::Deadlock(waits) => RunEnd::Deadlock { waits },
            End::Fault(Fault { kind, reason }) => {
                let report = ExitReport { kind: kind.into(), reason, time_ns: duration.as_ns() };
                RunEnd::Misbehaved { report }
            }
        }
    }
}

/// How a run was brought to an end before its time. As JSON and for people: the words of [`ExitKind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitKind {
    /// The kernel hit BUG or panicked.
    #[serde(rename = "kernel panic")]
    Panic,
    /// CPUs spin for ever at one instant.
    #[serde(rename = "livelock")]
    Livelock,
    /// A picked task was not runnable, or a runnable one was lost.
    #[serde(rename = "lost task")]
    LostTask,
    /// A policy broke its contract.
    #[serde(rename = "broken contract")]
    Contract,
    /// A request was refused: a parameter that does not exist, a value out of range.
    #[serde(rename = "refused")]
    Refused,
    /// A loadable scheduler was thrown out by the kernel, or left.
    #[serde(rename = "scheduler exit")]
    Scheduler,
    /// The run's process died: a bad pointer, an assertion, no memory.
    #[serde(rename = "crash")]
    Crash,
    /// Nothing happened for [`RunRequest::stall_limit`].
    #[serde(rename = "stall")]
    Stall,
    /// The log could not be written.
    #[serde(rename = "log")]
    Log,
}

impl ExitKind {
    /// `kernel panic`, `livelock`, `lost task`, `broken contract`, `refused`, `scheduler exit`, `crash`,
    /// `stall` or `log`.
    pub fn as_str(self) -> &'static str {
        match self {
            ExitKind::Panic => "kernel panic",
            ExitKind::Livelock => "livelock",
            ExitKind::LostTask => "lost task",
            ExitKind::Contract => "broken contract",
            ExitKind::Refused => "refused",
            ExitKind::Scheduler => "scheduler exit",
            ExitKind::Crash => "crash",
            ExitKind::Stall => "stall",
            ExitKind::Log => "log",
        }
    }
}

impl std::fmt::Display for ExitKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<FaultKind> for ExitKind {
    fn from(kind: FaultKind) -> ExitKind {
        match kind {
            FaultKind::Panic => ExitKind::Panic,
            FaultKind::Livelock => ExitKind::Livelock,
            FaultKind::LostTask => ExitKind::LostTask,
            FaultKind::Contract => ExitKind::Contract,
            FaultKind::Refused => ExitKind::Refused,
            FaultKind::Scheduler => ExitKind::Scheduler,
        }
    }
}

/// The scheduler under test misbehaved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// What kind.
    pub kind: ExitKind,
    /// What it said.
    pub reason: String,
    /// Simulated time of the last event seen, from the start of the workload.
    pub time_ns: u64,
}

/// Everything that the child knows at the end of a run, apart from the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildReport {
    /// How it ended.
    #[serde(flatten)]
    pub end: RunEnd,
    /// Simulated time from the start to the end.
    pub duration_ns: u64,
    /// Per task: has it done all that the workload asks?
    pub finished: Vec<bool>,
    /// Events after the start.
    pub events: u64,
    /// Blocks that did not sleep, since their wakeup had come already.
    pub tokens_early: u64,
    /// Waits at objects that slept where the recording had none.
    pub waits_gained: u64,
    /// Waits at objects that did not sleep where the recording had one.
    pub waits_skipped: u64,
    /// Sends to objects that were closed by then.
    pub sends_lost: u64,
    /// Recorded waits at objects that were ended since all that were left waited.
    pub waits_forced: u64,
    /// The first of them.
    pub first_forced: Option<Forced>,
    /// Host time in the event loop.
    pub loop_wall_ns: u64,
    /// Of it, inside the kernel (sampled).
    pub kernel_wall_ns: u64,
    /// Simulated time of the boot.
    pub boot_ns: u64,
    /// The kernel's own threads: pid, name.
    pub kernel_threads: Vec<(u32, String)>,
    /// Requests of the workload that the scheduler refused: what and why -> how often.
    pub refused: BTreeMap<String, u64>,
    /// The kernel's warnings.
    pub warnings: Vec<String>,
    /// Per task, the kernel's own account: CPU time in ns (empty if it keeps none).
    pub kernel_cpu_ns: Vec<u64>,
    /// What the actions read: when in ns, name, text or error number.
    pub readings: Vec<(u64, String, Result<String, i32>)>,
    /// What a scheduler that was loaded into the kernel says about itself: group, name, value.
    #[serde(default)]
    pub account: Vec<(String, String, String)>,
    /// Line coverage of a kernel built for it (flavour gcov): file, gcov's data.
    #[serde(default)]
    pub coverage: Vec<(String, Vec<u8>)>,
    /// Decisions that were to be explained and have come; real Linux only.
    #[serde(default)]
    pub decisions: Vec<schedlab_linux::decision::Decision>,
    /// Why this host's kernel could not contain the scheduler, which ran with its user's rights; `None`: it
    /// was, or it is a native policy ([`schedlab_process::contain`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncontained: Option<String>,
}

/// A finished run.
#[derive(Debug)]
pub struct RunResult {
    /// Who ran on what.
    pub header: LogHeader,
    /// The records, 32 bytes each in order.
    pub spill: File,
    /// The child's report.
    pub report: ChildReport,
    /// What lowering the workload left out: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
}

/// A run that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The workload cannot be executed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The scheduler cannot be loaded or refuses its parameters.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// The host refused a resource.
    #[error("cannot {doing}: {source}; {remedy}")]
    Host {
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The child's report is missing or damaged: a bug of ours.
    #[error("internal error: the run's report is unreadable ({0})")]
    Report(String),
    /// No process for runs can be started.
    #[error(transparent)]
    Start(#[from] schedlab_process::StartError),
    /// The program that was named for runs is another release.
    #[error(
        "the program that was started for runs has the engine {theirs}, and this one {ENGINE}: their results may \
         differ; install the same release of both"
    )]
    OtherEngine {
        /// Its [`ENGINE`].
        theirs: String,
    },
    /// The program that was named for runs does not have this native policy.
    #[error("the program that was started for runs has no policy '{name}'; name one that has it")]
    NoPolicy {
        /// The policy.
        name: String,
    },
    /// A native policy that no other process can find.
    #[error(
        "the policy '{name}' is in a library that was loaded later, not in the executable: a process for its runs \
         would not have it; link it into the executable"
    )]
    NotInExecutable {
        /// The policy.
        name: String,
    },
    /// The worker ended before the run did: killed from outside, or a bug of ours. The run is lost, the next
    /// has another worker.
    #[error("the run is lost: its worker process {0}")]
    Worker(String),
    /// The caller of [`run_while`] ended it.
    #[error("the run was stopped")]
    Stopped,
}

/// Runs the workload to its end in a child process. May be called from any thread of any process.
///
/// # Errors
/// Nothing was run: the workload or the scheduler's settings are wrong, the host refuses a resource. Or the
/// run is lost.
pub fn run(request: &RunRequest<'_>) -> Result<RunResult, RunError> {
    perform(request, None)
}

/// The same; `go_on` is asked some twenty times a second, and a false ends the run with [`RunError::Stopped`].
///
/// # Errors
/// As [`run()`].
pub fn run_while(request: &RunRequest<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<RunResult, RunError> {
    perform(request, Some(go_on))
}

fn perform(request: &RunRequest<'_>, go_on: Option<&mut dyn FnMut() -> bool>) -> Result<RunResult, RunError> {
    let prepared = store::prepared(request.workload)?;
    request.scheduler.check(&request.topology, &prepared.cgroups, &request.params)?;
    let mut spill = outcome::spill()?;
    let mut worker = workers::take(request, prepared.hash)?;
    let job = wire::Job::new(request, prepared.hash, worker.is_own())?;
    let ended = worker.perform(&job, &prepared, &spill, go_on).map_err(|lost| match lost {
        workers::Lost::Died(how) => RunError::Worker(how),
        workers::Lost::Stopped => RunError::Stopped,
    })?;
    let report = outcome::report(request, ended, &worker, &mut spill);
    workers::give_back(worker);
    let report = report?;
    let header = header(request, &report);
    let spill = offline::complete(spill, &header, request.actions)?;
    let dropped = prepared.dropped(request.topology.nr_cpus());
    Ok(RunResult { header, spill, report, dropped })
}

fn header(request: &RunRequest<'_>, report: &ChildReport) -> LogHeader {
    let workload = request.workload;
    let parent = |birth: Birth| match birth {
        Birth::Init { parent, .. } => parent,
        Birth::Fork { parent } => Some(parent),
    };
    let groups = match request.scheduler {
        Scheduler::Linux(_) => workload.cgroups.as_slice(),
        Scheduler::Native(_) => &[], // native policies know no groups
    };
    LogHeader {
        sched: request.scheduler.name().to_string(),
        sched_version: request.scheduler.version(),
        nr_cpus: request.topology.nr_cpus(),
        hz: request.scheduler.hz(),
        duration: Span::from_ns(report.duration_ns),
        tasks: workload
            .tasks
            .iter()
            .map(|task| LogTask {
                pid: task.pid,
                name: task.name.clone(),
                params: workload.inherited(task, |t| t.params).unwrap_or_default(),
                affinity: workload.inherited(task, |t| t.affinity.clone()),
                parent: parent(task.birth),
                group: workload
                    .inherited(task, |t| t.cgroup)
                    .map(|group| group.0)
                    .filter(|_| !groups.is_empty()),
            })
            .collect(),
        groups: groups.iter().map(log_group).collect(),
        kernel_threads: report
            .kernel_threads
            .iter()
            .map(|(pid, name)| KernelThread { pid: *pid, name: name.clone() })
            .collect(),
        params: recorded_params(request),
        ..LogHeader::default()
    }
}

fn log_group(group: &Cgroup) -> LogGroup {
    let max = group.max.map(|max| (max.quota, max.period));
    LogGroup { path: group.path.clone(), max, cpuset: group.cpuset.clone() }
}

/// The name under which a log's header keeps the perturbation of its run.
pub const PERTURB: &str = "perturb";
/// The name under which a log's header keeps what kernel code cost in its run.
pub const COSTS: &str = "costs";
/// The name under which a log's header keeps where tasks began: `2,0,0,-`.
pub const PLACEMENT: &str = "placement";

fn recorded_params(request: &RunRequest<'_>) -> Vec<(String, String)> {
    let mut params = request.params.clone();
    if let Some(perturb) = &request.perturb {
        params.push((PERTURB.to_string(), perturb.to_string()));
    }
    if let Some(costs) = request.costs.filter(|costs| !costs.is_none()) {
        params.push((COSTS.to_string(), costs.to_string()));
    }
    if !request.placement.is_empty() {
        let cpus = request.placement.iter().map(|cpu| cpu.map_or("-".to_owned(), |cpu| cpu.0.to_string()));
        params.push((PLACEMENT.to_owned(), cpus.collect::<Vec<_>>().join(",")));
    }
    params.sort();
    params
}

/// Whether the task starts in a real-time policy: the kernel gives its timers no slack.
fn is_real_time(workload: &Workload, task: TaskId) -> bool {
    let params = workload.inherited(workload.task(task), |task| task.params);
    params.is_some_and(|params| matches!(params.policy.class(), ClassKind::RealTime | ClassKind::Deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name() {
        use ExitKind::*;
        for kind in [Panic, Livelock, LostTask, Contract, Refused, Scheduler, Crash, Stall, Log] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        use FaultKind as Of;
        for kind in [Of::Panic, Of::Livelock, Of::LostTask, Of::Contract, Of::Refused, Of::Scheduler] {
            assert_eq!(ExitKind::from(kind).to_string(), kind.to_string());
        }
    }
}
