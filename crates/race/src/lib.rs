//! What does scheduler code do under every order of events, and is it right?
//!
//! A *target* is C code: `cpupri.c` and `cpudeadline.c` of a kernel, byte by byte as they are, or a file of one's own
//! behind `include/schedlab_race.h`. gcc's `-fsanitize=thread` puts a call before each access to shared memory; these
//! calls are ours, and at each of them another virtual CPU may go on ([`Strategy`]). What must hold is asked at every
//! point, and of what a call returns.
//!
//! ```text
//! schedlab race cpupri --kernel 6.12        compile::kernel_target   cpupri.c, unchanged  ──gcc──> object
//!                                           explore::explore         workers, a process each: 100,000 schedules
//!                                           explore::shrink          fewer calls, fewer switches
//!                                           Schedule, Story          a file that repeats it, a column a CPU
//! ```
//!
//! C code under test may do anything, so it runs in a process of its own (`crates/process`): not in a forked child a
//! run, as whole schedulers do (decision 0001), for a run here takes 10 us, a fork 100. A wild pointer and a loop
//! without end are caught there, by signals, and are findings like others.

mod abi;
pub mod clock;
pub mod compile;
pub mod cost;
mod dpor;
mod engine;
pub mod explore;
pub mod into_kernel;
mod lacking;
pub mod litmus;
mod memory;
mod object;
mod scenario;
mod schedule;
pub mod seeded;
pub mod story;
mod strategy;
pub mod stream;
pub mod study;
mod switch;
pub mod threads;
pub mod whole;
mod worker;

pub use engine::{Altered, Met};
pub use memory::MemoryModel;
pub use scenario::{Call, Scenario};
pub use schedule::{Choice, ChoiceKind, Ends, Memory, NOBODY, Schedule};
pub use strategy::Strategy;

use std::path::{Path, PathBuf};

/// Why nothing can be explored.
#[derive(Debug, thiserror::Error)]
pub enum RaceError {
    /// A scenario or schedule with a mistake.
    #[error("{file}:{line}: '{value}', expected {expected}")]
    Text {
        /// The file, or the scenario's name.
        file: String,
        /// From 1.
        line: usize,
        /// What stands there.
        value: String,
        /// What ought to.
        expected: String,
    },
    /// No such target.
    #[error(
        "there is no target '{asked}'; there are {known}, a whole scheduler (linux-6.12), a C file of your own (.c), \
         and a litmus test of the kernel's (.litmus); docs/race.md has more"
    )]
    Target {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// No such scenario.
    #[error("{target} has no scenario '{asked}'; it has {known}, and --scenario takes a file, too")]
    Scenario {
        /// The target.
        target: String,
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// A schedule of a whole scheduler does not repeat.
    #[error("the schedule does not show its finding again; a search with its seed does")]
    NotAgain,
    /// The target cannot be compiled.
    #[error("{what} cannot be compiled:\n{text}")]
    Compile {
        /// Which file.
        what: String,
        /// The compiler's first errors.
        text: String,
    },
    /// The kernel's file has no such function.
    #[error(
        "{file} of Linux {version} has no {function}(), which the target {target} calls; take a kernel that has it \
         (--kernel), or put it back"
    )]
    Lacks {
        /// In the kernel's tree.
        file: String,
        /// The kernel's.
        version: String,
        /// What is called.
        function: String,
        /// Who calls it.
        target: String,
    },
    /// The kernel's file calls something that nothing here stands for.
    #[error(
        "{file} of Linux {version} calls {function}(), for which linux/race/support.c has nothing; take another kernel \
         (--kernel), or add it there"
    )]
    NoStandIn {
        /// In the kernel's tree.
        file: String,
        /// The kernel's.
        version: String,
        /// What it calls.
        function: String,
    },
    /// The kernel cannot be had.
    #[error("{0}")]
    Kernel(#[from] schedlab_linux::BuildError),
    /// The TSC of this machine is no clock.
    #[error(
        "{}: '{value}': the kernel does not take the TSC of this machine for a clock; expected {expected}; measure on \
         a machine with an invariant TSC ('dmesg | grep -i tsc' says why this one is not)",
        place.display()
    )]
    Clock {
        /// Where the kernel says so.
        place: PathBuf,
        /// What it says.
        value: String,
        /// What is needed.
        expected: String,
    },
    /// The target, as it is, cannot be run.
    #[error("{0}")]
    Refused(String),
    /// A schedule of something else.
    #[error("{file} is a schedule of {theirs}; {ours} has other points; {remedy}")]
    Foreign {
        /// The file.
        file: String,
        /// What it was made with.
        theirs: String,
        /// What is there now.
        ours: String,
        /// What to do.
        remedy: String,
    },
    /// A process of ours was lost.
    #[error("{0}")]
    Lost(String),
    /// The file system refuses something.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// Verb.
        doing: &'static str,
        /// Object.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Attach verb and path to an I/O error.
pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RaceError {
    let path = path.to_owned();
    move |source| RaceError::Io { doing, path, source }
}
