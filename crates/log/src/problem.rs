//! What can a log say that cannot have happened?

use crate::{Fact, LogError};
use schedlab_units::TaskId;

/// Something impossible in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it; the fields are the values in them
pub enum Impossible {
    #[error("time goes back from {previous_ns} ns")]
    TimeBackwards { previous_ns: u64 },
    #[error("it lies beyond the log's end at {duration_ns} ns")]
    TimeBeyondEnd { duration_ns: u64 },
    #[error("{task} is not in the log's header")]
    UnknownTask { task: TaskId },
    #[error("cpu{cpu} is not one of the {nr_cpus} CPUs")]
    UnknownCpu { cpu: u32, nr_cpus: u32 },
    #[error("kind {kind} is unknown")]
    UnknownKind { kind: u8 },
    #[error("previous state {state} of a switch is unknown")]
    UnknownPrevState { state: u8 },
    #[error("{prev} stops on cpu{cpu}, where {current} is running")]
    PrevNotCurrent { cpu: u32, prev: TaskId, current: TaskId },
    #[error("{task} starts on cpu{cpu} while it is running on cpu{other_cpu}: it is in two places")]
    AlreadyRunning { task: TaskId, cpu: u32, other_cpu: u32 },
    #[error("{task} starts on cpu{cpu}, but it is blocked")]
    RanWhileBlocked { task: TaskId, cpu: u32 },
    #[error("{task} starts on cpu{cpu}, but nothing made it runnable before")]
    NeverMadeRunnable { task: TaskId, cpu: u32 },
    #[error("{task} starts on cpu{cpu} after its exit")]
    RanAfterExit { task: TaskId, cpu: u32 },
    #[error("{task} is made runnable after its exit")]
    WokenAfterExit { task: TaskId },
    #[error("{task} is made runnable for the first time, but it was there before")]
    NewTwice { task: TaskId },
    #[error("{task} starts on cpu{cpu}, but it is assigned to cpu{assigned_cpu}")]
    RanElsewhere { task: TaskId, cpu: u32, assigned_cpu: u32 },
    #[error("{task} moves away from cpu{cpu}, but it is assigned to cpu{assigned_cpu}")]
    MigratedFromElsewhere { task: TaskId, cpu: u32, assigned_cpu: u32 },
    #[error("{task} is moved to cpu{to_cpu} while it is running on cpu{cpu}")]
    MigratedWhileRunning { task: TaskId, cpu: u32, to_cpu: u32 },
    #[error("{task} starts on cpu{cpu}, where it is not allowed to run")]
    NotAllowed { task: TaskId, cpu: u32 },
    #[error("it says that something was not seen, but the header does not hide {}; name it in '# \
        hidden'", .fact.name())]
    NotDeclared { fact: Fact },
    #[error(
        "{task} stops on cpu{cpu}, which nobody saw, but was known to be elsewhere: write an UNKNOWN_TASK before"
    )]
    StoppedUnseen { task: TaskId, cpu: u32 },
}

/// A log cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum LogProblem {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A record says something impossible.
    #[error("the log contradicts itself in record {index} at {time_ns} ns: {problem}")]
    Record {
        /// Position in the log, from 0.
        index: u64,
        /// Its time.
        time_ns: u64,
        /// What is impossible.
        problem: Impossible,
    },
    /// Sums could exceed 64 bits.
    #[error(
        "a log of {duration_ns} ns with {rows} tasks or CPUs is too long: the product must stay below 2^63 ns"
    )]
    TooLong {
        /// The log's duration.
        duration_ns: u64,
        /// Number of tasks (with kernel threads), or of CPUs if there are more.
        rows: u64,
    },
}
