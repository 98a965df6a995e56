//! How does a command end? Exit status and one sentence, by kind of failure (DESIGN: 1 finding, 2 input, 3 scheduler, 4
//! ours).

use schedlab_instruments::LogProblem;
use schedlab_lab::{Fails, FailureKind};
use std::fmt;

/// A failed command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A finding: failed validation, a kernel WARN, a difference. The result itself is printed already.
    Finding(String),
    /// Bad usage or input: what, where, what to do.
    Input(String),
    /// The scheduler under test misbehaved.
    Misbehaved(String),
    /// A bug of ours.
    Internal(String),
    /// Ends with this status, without a word: `record` passes on its command's.
    Status(u8),
}

/// Every error that knows whose fault it is: the exit status follows from that.
impl<E: Fails> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::of(error.kind(), error.to_string())
    }
}

impl Failure {
    pub(crate) fn of(kind: FailureKind, sentence: String) -> Failure {
        match kind {
            FailureKind::Finding => Failure::Finding(sentence),
            FailureKind::Input => Failure::Input(sentence),
            FailureKind::Misbehaved => Failure::Misbehaved(sentence),
            FailureKind::Internal => Failure::Internal(sentence),
        }
    }
    pub(crate) fn input(error: impl fmt::Display) -> Failure {
        Failure::Input(error.to_string())
    }
    /// Of a log that cannot be read, or says too little or too much for a question; `whose` names it.
    pub(crate) fn of_log(whose: impl fmt::Display, problem: LogProblem) -> Failure {
        match problem {
            LogProblem::Log(error) => Failure::input(error),
            other => Failure::Input(format!("{whose}: {other}")),
        }
    }
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Finding(_) => FailureKind::Finding.exit_status(),
            Failure::Input(_) => FailureKind::Input.exit_status(),
            Failure::Misbehaved(_) => FailureKind::Misbehaved.exit_status(),
            Failure::Internal(_) => FailureKind::Internal.exit_status(),
            Failure::Status(code) => *code,
        }
    }
    /// For standard error; empty if everything has been said.
    pub(crate) fn sentence(&self) -> &str {
        match self {
            Failure::Finding(text)
            | Failure::Input(text)
            | Failure::Misbehaved(text)
            | Failure::Internal(text) => text,
            Failure::Status(_) => "",
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;
