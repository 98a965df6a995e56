//! How does a command end? Exit status and one sentence, by kind of failure (DESIGN: 1 finding, 2 input, 3 scheduler, 4 ours).

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

impl Failure {
    pub(crate) fn input(error: impl fmt::Display) -> Failure {
        Failure::Input(error.to_string())
    }
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Finding(_) => 1,
            Failure::Input(_) => 2,
            Failure::Misbehaved(_) => 3,
            Failure::Internal(_) => 4,
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
