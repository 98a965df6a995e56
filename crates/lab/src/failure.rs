//! Whose fault is it that there is no result? One answer for every error; a command's exit status is this answer as a
//! number.
//!
//! ```
//! use schedlab_lab::{Fails, FailureKind, SubjectSpec};
//! let error = "rr:quantum".parse::<SubjectSpec>().unwrap_err();
//! assert_eq!((error.kind(), error.kind().exit_status()), (FailureKind::Input, 2));
//! ```

use crate::load::NoWorkload;
use crate::run::Ended;
use crate::subject::SubjectError;
use schedlab_runner::pool::{JobLost, PoolError};

/// Whose fault. The later ones weigh more: of many runs the worst decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Nobody's: something was found, such as a kernel's warning.
    Finding,
    /// The workload, a parameter or the host is not what is needed (a workload that deadlocks included).
    Input,
    /// The scheduler under test misbehaved.
    Misbehaved,
    /// A bug of ours.
    Internal,
}

impl FailureKind {
    /// 1 a finding, 2 bad input, 3 the scheduler misbehaved, 4 a bug of ours.
    pub fn exit_status(self) -> u8 {
        match self {
            FailureKind::Finding => 1,
            FailureKind::Input => 2,
            FailureKind::Misbehaved => 3,
            FailureKind::Internal => 4,
        }
    }

    /// What a program says that ended with this status; all but 1 to 3 is a bug of ours.
    pub fn of_exit_status(status: i32) -> FailureKind {
        match status {
            1 => FailureKind::Finding,
            2 => FailureKind::Input,
            3 => FailureKind::Misbehaved,
            _ => FailureKind::Internal,
        }
    }
}

/// An error that knows whose fault it is.
pub trait Fails: std::error::Error {
    /// Whose.
    fn kind(&self) -> FailureKind;
}

/// Everything that can go wrong on the way from a name and a path to a judged run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such scheduler, or it cannot be had.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// There is no such workload, or it cannot be read.
    #[error(transparent)]
    Load(#[from] NoWorkload),
    /// The run did not end as it should.
    #[error(transparent)]
    Run(#[from] Ended),
    /// Workers could not be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A job panicked.
    #[error(transparent)]
    Job(#[from] JobLost),
}

impl Fails for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Error::Subject(error) => error.kind(),
            Error::Load(error) => error.kind(),
            Error::Run(ended) => ended.kind(),
            Error::Pool(error) => error.kind(),
            Error::Job(error) => error.kind(),
        }
    }
}

impl Fails for PoolError {
    fn kind(&self) -> FailureKind {
        FailureKind::Input
    }
}

impl Fails for JobLost {
    fn kind(&self) -> FailureKind {
        FailureKind::Internal
    }
}

/// A failure that can be kept and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFailure {
    /// Whose fault.
    pub kind: FailureKind,
    /// What happened.
    pub reason: String,
}

impl RunFailure {
    /// The error in full.
    pub fn of(error: &impl Fails) -> RunFailure {
        RunFailure { kind: error.kind(), reason: error.to_string() }
    }
}

impl std::fmt::Display for RunFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for RunFailure {}

impl Fails for RunFailure {
    fn kind(&self) -> FailureKind {
        self.kind
    }
}
