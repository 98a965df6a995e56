//! Clients that always want the CPU, under any scheduler, in the full machine: who ran when?
//!
//! The machine has one CPU. What a client is due is said in the way that the scheduler understands:
//!
//! | setting | who understands it |
//! |---|---|
//! | [`Setting::Share`] | the native proportional share schedulers (`--param shares=3,2,1`) |
//! | [`Setting::Nice`] | every other native scheduler, and real Linux: forty weights, a factor of about 1.25 apart |
//! | [`Setting::GroupWeight`] | real Linux: each client in a control group with a cpu.weight from 1 to 10,000 |
//!
//! ```
//! use schedlab_experiments::{arm::*, subject::Subject};
//! let clients: Vec<Client> = [3, 2, 1].map(|share| Client::new("", Setting::Share(share))).to_vec();
//! let vtrr = Subject::parse("vtrr").unwrap();
//! let ran = who_ran(&vtrr, &clients, schedlab_units::Span::from_ms(60)).unwrap();
//! let order: Vec<usize> = ran.iter().map(|stretch| stretch.client).collect();
//! assert_eq!(order, [0, 1, 2, 0, 1, 0]); // quanta of 10 ms
//! ```

use crate::subject::Subject;
use schedlab_instruments::{LogProblem, Stay, stays};
use schedlab_log::{LogError, LogHeader, LogTask, MemLog, RawLog, Record};
use schedlab_machine::native::Native;
use schedlab_machine::{End, Machine, Program, ProgramError, Setup};
use schedlab_policies::PolicyError;
use schedlab_runner::{ExitKind, Request, RunEnd, RunError};
use schedlab_topology::Topology;
use schedlab_units::{Nice, SchedParams, Span};
use schedlab_workload::{Birth, Cgroup, CgroupId, Event, EventId, EventKind, InitState, Task, Workload};

/// How a scheduler is told what a client is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A share as such.
    Share(u64),
    /// A nice value.
    Nice(Nice),
    /// cpu.weight of a control group with this client alone, 1 to 10,000.
    GroupWeight(u32),
}

/// A client that computes for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Name in drawings.
    pub name: String,
    /// What it is due.
    pub setting: Setting,
}

impl Client {
    /// A client.
    pub fn new(name: impl Into<String>, setting: Setting) -> Client {
        Client { name: name.into(), setting }
    }
}

/// A stretch of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Index of the client.
    pub client: usize,
    /// Beginning.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
}

/// A run that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    /// The scheduler refuses its parameters.
    #[error(transparent)]
    Params(#[from] PolicyError),
    /// It could not be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The workload cannot be executed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its log cannot be read.
    #[error(transparent)]
    Log(#[from] LogProblem),
    /// The scheduler misbehaved.
    #[error("{sched} misbehaved: {reason}")]
    Misbehaved {
        /// Its label.
        sched: String,
        /// What it did.
        reason: String,
    },
    /// It did not do what the clients' settings ask for.
    #[error("{sched} refused a setting: {reason}; try 'nice' for shares, or shares that it can express")]
    Refused {
        /// Its label.
        sched: String,
        /// What it said.
        reason: String,
    },
}

impl From<LogError> for ArmError {
    fn from(error: LogError) -> ArmError {
        ArmError::Log(error.into())
    }
}

/// Runs the clients on one CPU and returns their service in order of time, until `length`.
pub fn who_ran(subject: &Subject, clients: &[Client], length: Span) -> Result<Vec<Stretch>, ArmError> {
    let workload = workload(clients, length);
    let mut params = subject.params.clone();
    let shares: Option<Vec<String>> = clients
        .iter()
        .map(|client| match client.setting {
            Setting::Share(share) => Some(share.to_string()),
            _ => None,
        })
        .collect();
    params.extend(shares.map(|shares| ("shares".to_string(), shares.join(","))));
    let log = log(subject, params, &workload, length)?;
    let stretch =
        |stay: &Stay| Stretch { client: stay.task.index(), from_ns: stay.start_ns, to_ns: stay.end_ns };
    Ok(stays(&log)?.iter().map(stretch).collect())
}

/// The log of a workload on one CPU: a native scheduler in this process, real Linux in a child.
pub(crate) fn log(
    subject: &Subject,
    params: Vec<(String, String)>,
    workload: &Workload,
    length: Span,
) -> Result<MemLog, ArmError> {
    let topology = Topology::flat(1).expect("one CPU is a machine");
    let misbehaved = |reason: String| ArmError::Misbehaved { sched: subject.label.clone(), reason };
    if let Some(info) = subject.native() {
        let policy = info.build(&params)?;
        let mut records: Vec<Record> = Vec::new();
        let setup = Setup { topology, duration: Some(length), params: Vec::new() };
        let outcome = Machine::new(Native::new(policy, &mut records), Program::new(workload)?, setup).run();
        return match outcome.end {
            End::Fault(fault) => Err(misbehaved(fault.to_string())),
            _ => {
                let tasks = vec![LogTask::default(); workload.tasks.len()];
                let header = LogHeader { nr_cpus: 1, duration: length, tasks, ..LogHeader::default() };
                Ok(MemLog { header, records })
            }
        };
    }
    let mut params = params;
    params.sort(); // as the runner wants them
    let request =
        Request { duration: Some(length), params, ..Request::new(workload, &subject.scheduler, topology) };
    let result = schedlab_runner::run(&request)?;
    if let RunEnd::Misbehaved { report } = &result.report.end {
        return Err(match report.kind {
            ExitKind::Refused => {
                ArmError::Refused { sched: subject.label.clone(), reason: report.reason.clone() }
            }
            kind => misbehaved(format!("{kind}: {}", report.reason)),
        });
    }
    if let Some((reason, _)) = result.report.refused.first_key_value() {
        return Err(ArmError::Refused { sched: subject.label.clone(), reason: reason.clone() });
    }
    Ok(MemLog::read(&RawLog::open(result.spill, result.header)?)?)
}

fn workload(clients: &[Client], length: Span) -> Workload {
    let mut cgroups = Vec::new();
    let task = |(index, client): (usize, &Client)| {
        let mut params = SchedParams::default();
        let mut cgroup = None;
        match client.setting {
            Setting::Share(_) => {}
            Setting::Nice(nice) => params = SchedParams::normal(nice),
            Setting::GroupWeight(weight) => {
                cgroup = Some(CgroupId(cgroups.len() as u32));
                let path = format!("/client{index}");
                cgroups.push(Cgroup { path, weight: Some(weight), max: None, cpuset: None });
            }
        }
        Task {
            pid: index as u32 + 1,
            name: client.name.clone(),
            birth: Birth::Init { eid: EventId(0), parent: None, state: InitState::Runnable },
            params: Some(params),
            affinity: None,
            cgroup,
            kernel_thread: false,
            events: vec![Event {
                eid: EventId(index as u64 + 1),
                kind: EventKind::Exit { length: Span::from_ns(length.as_ns() * 2) },
            }],
        }
    };
    let tasks = clients.iter().enumerate().map(task).collect();
    Workload { tasks, cgroups, ..Workload::default() }
}

/// CPU time of a client, and the longest time that it had none.
pub fn received_and_wait(stretches: &[Stretch], client: usize, length: Span) -> (u64, u64) {
    let (mut received_ns, mut wait_ns, mut last_ns) = (0, 0, 0);
    for stretch in stretches.iter().filter(|stretch| stretch.client == client) {
        received_ns += stretch.to_ns - stretch.from_ns;
        wait_ns = wait_ns.max(stretch.from_ns - last_ns);
        last_ns = stretch.to_ns;
    }
    (received_ns, wait_ns.max(length.as_ns() - last_ns))
}
