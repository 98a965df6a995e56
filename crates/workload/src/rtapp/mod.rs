//! What does an rt-app description ask its threads to do? (`rt-app FILE.json`; its doc/tutorial.txt and
//! src/rt-app.c, version 1.0.)
//!
//! ```text
//! { "global": { "duration": 1 },                        expanded for 1 s
//!   "tasks": { "sensor": { "policy": "SCHED_FIFO", "priority": 20,
//!                "run": 2000, "timer": { "ref": "tick", "period": 10000 } } } }
//!
//! 1 INIT   0 0 1 runnable name=sensor policy=fifo prio=20
//! 2 BLOCK  1 2ms                       run: CPU time
//! 3 WAKEUP 1 10ms 0 0 0 grid-restart   timer: the grid of its expiries goes on, however late the task comes
//! 4 BLOCK  1 2ms ...
//! ```
//!
//! Loops and phases are played on an imagined machine where every thread has a CPU of its own: that tells who
//! waits for whom at a mutex, a condition, a barrier, and how often each loop runs until the duration is
//! over. What depends on nobody (run, sleep, timers) is then exact under any scheduler; what one thread's
//! action means to another becomes a dependent wakeup.
//!
//! | rt-app | workload |
//! |---|---|
//! | run | CPU time, as calibrated |
//! | runtime | CPU time; rt-app's includes the time others have the CPU: counted |
//! | sleep | BLOCK, WAKEUP after that long |
//! | timer, relative, absolute | WAKEUP `grid-restart`, `grid`; a second timer of a task, or a shared one: as long as imagined, counted |
//! | barrier | an object (ARRIVE) |
//! | signal, broad, wait, sync, suspend, resume | WAKEUP dependent on the thread that signals (comes last) |
//! | lock, unlock | an object (LOCK, UNLOCK), if several threads use it and time passes while it is held |
//! | yield, fork | YIELD, FORK |
//! | phases, loop, instance, delay | expanded |
//! | policy, priority, dl-*, cpus, taskgroup (of task or phase) | parameters, PRIO |
//! | mem, iorun, uclamp, memory nodes | not expressed: counted |
//!
//! rt-app's threads start by creation, a barrier and calibration; here they are there at time 0.

mod describe;
mod json;
mod play;

pub use json::Place;

use crate::Workload;
use crate::limits::{Exceeded, JSON_BYTES_MAX, Limits, read_bytes};
use std::path::{Path, PathBuf};

/// Why a description could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RtAppError {
    /// The system refused.
    #[error("{}: cannot read: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Something that cannot be.
    #[error("{}, {place}: {what} is {value}, expected {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Where.
        place: Place,
        /// What it is about.
        what: String,
        /// What stands there.
        value: String,
        /// What may stand there.
        expected: String,
    },
    /// Too much to expand.
    #[error("{}: {exceeded}; give a shorter duration (\"global\": {{ \"duration\": seconds }}), smaller loops or \
        fewer instances", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What, how much, and the limit.
        exceeded: Exceeded,
    },
    /// A loop that never ends and takes no time.
    #[error("{}: task \"{task}\" loops without run, sleep or timer: no time would pass; add one, or a \"loop\" \
        count", path.display())]
    NoTime {
        /// The file.
        path: PathBuf,
        /// The task.
        task: String,
    },
    /// A mutex that is locked for ever: rt-app, too, would go on after its duration until somebody stops it.
    #[error("{}: task \"{task}\" still holds a mutex long after the end, and rt-app ends no thread that does; add \
        an \"unlock\" for each \"lock\"", path.display())]
    NeverUnlocks {
        /// The file.
        path: PathBuf,
        /// The task.
        task: String,
    },
}

/// Reads a description.
pub fn read_rtapp(path: &Path) -> Result<Workload, RtAppError> {
    let io = |error| RtAppError::Io { path: path.to_path_buf(), error };
    let text = read_bytes(path, JSON_BYTES_MAX).map_err(io)?;
    parse_rtapp(path, &String::from_utf8_lossy(&text))
}

/// Reads the text of a description; `path` is for messages.
pub fn parse_rtapp(path: &Path, text: &str) -> Result<Workload, RtAppError> {
    parse_rtapp_within(path, text, Limits::HELD)
}

/// As [`parse_rtapp`], with limits of the caller's.
pub fn parse_rtapp_within(path: &Path, text: &str, limits: Limits) -> Result<Workload, RtAppError> {
    let fail = |fault: describe::Fault| RtAppError::Value {
        path: path.to_path_buf(),
        place: fault.place,
        what: fault.what,
        value: fault.value,
        expected: fault.expected,
    };
    let root = json::parse(text).map_err(|(place, expected)| {
        let found = text.lines().nth(place.line.saturating_sub(1) as usize).unwrap_or_default();
        let found: String = found.chars().skip(place.column.saturating_sub(1) as usize).take(20).collect();
        let value = if found.is_empty() { "nothing".to_string() } else { format!("\"{found}\"") };
        fail(describe::Fault { place, what: "the JSON".to_string(), value, expected: expected.to_string() })
    })?;
    let description = describe::describe(&root).map_err(fail)?;
    let mut workload = play::play(&description, limits).map_err(|stop| match stop {
        play::Stop::TooLarge(exceeded) => RtAppError::TooLarge { path: path.to_path_buf(), exceeded },
        play::Stop::NoTime(task) => RtAppError::NoTime { path: path.to_path_buf(), task },
        play::Stop::NeverUnlocks(task) => RtAppError::NeverUnlocks { path: path.to_path_buf(), task },
    })?;
    let source = path.file_name().map(|name| name.to_string_lossy().into_owned());
    workload.notes.insert("source".to_string(), source.unwrap_or_default());
    workload.notes.insert("form of the recording".to_string(), "a description for rt-app".to_string());
    Ok(workload)
}
