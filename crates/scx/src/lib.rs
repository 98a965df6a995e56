//! How does a sched_ext scheduler in BPF C run here, unchanged? Compiled natively, against the kernel's own ext.c.
//!
//! ```text
//! scx_simple.bpf.c ── gcc ──> scx_simple.so      maps, timers, storage, iterators, kfuncs: functions of linux.so
//!      |                          |  imports by name, from linux.so's symbol table
//!   settings by name         the kernel's reg(): all tasks change to the class ext
//! ```
//!
//! * [`compile`]: source -> object, cached; layouts of types compared with the kernel's;
//! * [`Scx`]: the object in the simulated kernel's process: settings, maps, statistics, exit;
//! * [`ScxExtension`]: it beside the kernel, with its sub-schedulers;
//! * [`sub_of`]: which `--param` is about a sub-scheduler;
//! * `relocate`: fields of the kernel's that it reads through types of its own (CO-RE);
//! * `semantics`: what BPF promises and C does not;
//! * `userspace`: defaults in place of the scheduler's user-space part.

mod abi;
mod beside;
mod compile;
mod names;
mod object;
mod published;
mod relocate;
mod semantics;
mod settings;
mod subs;
mod userspace;

use std::path::PathBuf;

pub use beside::ScxExtension;
pub use compile::{CompiledScx, check_tools, compile, of_kernel};
pub use object::{Scx, ScxExit, ScxSetting, settings_of};
pub use published::Published;

/// Schedulers that a run can have, with sub-schedulers.
pub const MOST: usize = semantics::MOST;

/// Where the code of the loaded schedulers begins and ends: the scheduler's, then its sub-schedulers' in order
/// of their groups; 0 and 0 for those that are not there. For signal handlers.
pub fn texts() -> [(usize, usize); MOST] {
    semantics::texts()
}

pub use subs::{ATTACHED, sub_of};

/// Why a scheduler cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ScxError {
    /// A program is missing.
    #[error(
        "a sched_ext scheduler and its kernel are built with {program}, which is not there; on Debian: apt-get \
            install {package}"
    )]
    Tool {
        /// Which.
        program: String,
        /// The package that has it.
        package: &'static str,
    },
    /// A step failed.
    #[error("{doing} failed:\n{text}")]
    Step {
        /// Which.
        doing: &'static str,
        /// The program's words.
        text: String,
    },
    /// The kernel lacks functions that the scheduler calls.
    #[error("{kernel} has not what the scheduler calls: {names}; it was written for another kernel version")]
    Missing {
        /// The kernel.
        kernel: String,
        /// The functions.
        names: String,
    },
    /// Structures come out differently.
    #[error("the compiler lays out types otherwise than the kernel's own: {0}")]
    Layout(String),
    /// A type of the scheduler's own, of which it cannot be said where in the kernel its fields are.
    #[error("a type of the scheduler's own (CO-RE): {0}")]
    Relocation(String),
    /// A file is not as it should be.
    #[error("{path}: {why}; remove it and try again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The port cannot be found.
    #[error("{0}")]
    Kernel(String),
    /// The file system refuses something.
    #[error("cannot {doing} {path}: {source}{}", schedlab_linux::build::remedy(doing, source))]
    Io {
        /// Verb.
        doing: &'static str,
        /// Object.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}
