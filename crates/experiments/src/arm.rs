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
//! use schedlab_experiments::arm::*;
//! use schedlab_lab::Subject;
//! let clients: Vec<Client> = [3, 2, 1].map(|share| Client::new("", Setting::Share(share))).to_vec();
//! let vtrr = Subject::native("vtrr").unwrap();
//! let ran = who_ran(&vtrr, &clients, schedlab_units::Span::from_ms(60)).unwrap();
//! let order: Vec<usize> = ran.iter().map(|stretch| stretch.client).collect();
//! assert_eq!(order, [0, 1, 2, 0, 1, 0]); // quanta of 10 ms
//! ```

use schedlab_instruments::{Stay, stays};
use schedlab_lab::{Ended, Fails, FailureKind, Standard, Subject, run, run_here};
use schedlab_log::MemLog;
use schedlab_runner::RunRequest;
use schedlab_topology::Topology;
use schedlab_units::{Nice, Span};
use schedlab_workload::{Builder, Cgroup, Workload};

/// How a scheduler gets what a client is due.
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
    /// It did not end as it should.
    #[error(transparent)]
    Run(Ended),
    /// It did not do what the clients' settings ask for.
    #[error("{sched} refused a setting: {reason}; try 'nice' for shares, or shares that it can express")]
    Refused {
        /// Its label.
        sched: String,
        /// What it said.
        reason: String,
    },
}

impl Fails for ArmError {
    fn kind(&self) -> FailureKind {
        match self {
            ArmError::Run(ended) => ended.kind(),
            ArmError::Refused { .. } => FailureKind::Input,
        }
    }
}

impl ArmError {
    fn of(subject: &Subject, ended: Ended) -> ArmError {
        let sched = subject.label.clone();
        match ended {
            Ended::Refused { reason } => ArmError::Refused { sched, reason },
            Ended::NotAsAsked { what, .. } => ArmError::Refused { sched, reason: what },
            other => ArmError::Run(other),
        }
    }
}

/// Runs the clients on one CPU and returns their service in order of time, until `length`.
pub fn who_ran(subject: &Subject, clients: &[Client], length: Span) -> Result<Vec<Stretch>, ArmError> {
    let workload = workload(clients, length);
    let shares: Option<Vec<String>> = clients
        .iter()
        .map(|client| match client.setting {
            Setting::Share(share) => Some(share.to_string()),
            _ => None,
        })
        .collect();
    let subject = match shares {
        Some(shares) => subject.clone().with("shares", &shares.join(",")),
        None => subject.clone(),
    };
    let log = log(&subject, &workload, length)?;
    let stretch =
        |stay: &Stay| Stretch { client: stay.task.index(), from_ns: stay.start_ns, to_ns: stay.end_ns };
    let stays = stays(&log).map_err(|problem| ArmError::Run(problem.into()))?;
    Ok(stays.iter().map(stretch).collect())
}

/// The log of a workload on one CPU: a native scheduler in this process, real Linux in a child. A warning, or a request
/// that is refused, is no result: the clients would not be those that were asked for.
pub(crate) fn log(subject: &Subject, workload: &Workload, length: Span) -> Result<MemLog, ArmError> {
    let topology = Topology::flat(1).expect("one CPU is a machine");
    let ended = |ended| ArmError::of(subject, ended);
    if let Some(info) = subject.info() {
        let (what, length) = ((workload, topology), Some(length));
        return run_here(info, &subject.params, what, length, Standard::AsAsked).map_err(ended);
    }
    let request = RunRequest { duration: Some(length), ..subject.on(workload, topology) };
    let log = run(&request, Standard::AsAsked).map_err(ended)?.log;
    MemLog::read(&log).map_err(|error| ArmError::Run(error.into()))
}

fn workload(clients: &[Client], length: Span) -> Workload {
    let mut builder = Builder::new();
    for (index, client) in clients.iter().enumerate() {
        let group = match client.setting {
            Setting::GroupWeight(weight) => {
                let path = format!("/client{index}");
                Some(builder.cgroup(Cgroup { path, weight: Some(weight), ..Cgroup::default() }))
            }
            Setting::Share(_) | Setting::Nice(_) => None,
        };
        let mut life = builder.task(&client.name);
        if let Some(group) = group {
            life = life.cgroup(group);
        }
        if let Setting::Nice(nice) = client.setting {
            life = life.nice(nice);
        }
        life.run(Span::from_ns(length.as_ns() * 2)).exit();
    }
    builder.finish().expect("tasks that only compute keep the rules")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spoilt::{LENGTH, circle, overfull};

    /// Nobody's clients deadlock, but what did was taken for a result once.
    #[test]
    fn a_deadlock_and_a_warning_are_no_results() {
        let fifo = Subject::native("fifo").unwrap();
        let deadlock = log(&fifo, &circle(), LENGTH).unwrap_err();
        assert!(matches!(deadlock, ArmError::Run(Ended::Deadlock { .. })), "{deadlock}");
        assert_eq!(deadlock.kind(), FailureKind::Input);
        let cbs = Subject::native("cbs").unwrap();
        let warned = log(&cbs, &overfull(), LENGTH).unwrap_err();
        assert!(matches!(warned, ArmError::Run(Ended::Warned { .. })), "{warned}");
        assert_eq!(warned.kind(), FailureKind::Finding);
        assert!(!log(&fifo, &overfull(), LENGTH).unwrap().records.is_empty());
    }

    #[test]
    fn refused_settings_say_what_else_there_is() {
        let fifo = Subject::native("fifo").unwrap();
        let request = "nice -21".to_string();
        for ended in [
            Ended::Refused { reason: request.clone() },
            Ended::NotAsAsked { sched: "fifo".into(), what: request.clone(), times: 1 },
        ] {
            let error = ArmError::of(&fifo, ended);
            assert!(error.to_string().contains("fifo refused a setting: nice -21; try 'nice'"), "{error}");
            assert_eq!(error.kind(), FailureKind::Input);
        }
    }
}
