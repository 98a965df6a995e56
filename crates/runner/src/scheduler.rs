//! What can `--sched NAME` be? A native policy, or real Linux.

use schedlab_policies::{PolicyError, PolicyInfo};
use schedlab_topology::Topology;

/// A scheduler, ready to be run.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// A native policy.
    Native(&'static PolicyInfo),
}

/// A scheduler that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// No such name.
    #[error("there is no scheduler '{name}'; 'schedlab schedulers' lists them ({known})")]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A native policy refuses its parameters.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl Scheduler {
    /// Its name, as given to `--sched`.
    pub fn name(&self) -> &str {
        match self {
            Scheduler::Native(info) => info.name,
        }
    }
    /// Its exact version.
    pub fn version(&self) -> String {
        match self {
            Scheduler::Native(_) => format!("schedlab {}", env!("CARGO_PKG_VERSION")),
        }
    }
    /// Ticks per second; 0 = none.
    pub fn hz(&self) -> u32 {
        match self {
            Scheduler::Native(_) => 0,
        }
    }
    /// Whether it could run with these settings.
    pub(crate) fn check(&self, _topology: &Topology, params: &[(String, String)]) -> Result<(), SchedulerError> {
        match self {
            Scheduler::Native(info) => info.build(params).map(drop).map_err(SchedulerError::from),
        }
    }
}
