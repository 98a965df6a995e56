//! What do the tasks want to do, whatever scheduler serves them?
//!
//! A [`Workload`] is WARP's model (section III.A): each task's life is a series of seven kinds of [`Event`], timed in
//! CPU time while the task is runnable and in elapsed time while it is blocked. No schedule is in it, so that any
//! scheduler, on any number of CPUs, can serve it.
//!
//! A task that runs 4 ms, sleeps 6 ms, runs 2 ms more and ends, in the text form (WARP's figure 2):
//!
//! ```text
//! 1 INIT   0   0   100 runnable name=worker
//! 2 BLOCK  100 4ms
//! 3 WAKEUP 100 6ms 0 0 0
//! 4 EXIT   100 2ms
//! ```

pub mod binary;
pub mod build;
mod changed;
pub mod check;
mod deadlock;
mod dependencies;
pub mod derive;
pub mod generate;
mod index;
pub mod limits;
mod load;
mod messages;
pub mod mix;
mod model;
mod objects;
pub mod rtapp;
pub mod stream;
pub mod text;
pub mod tools;

pub use binary::{BinaryError, read_binary, write_binary};
pub use build::{Builder, Life, WorkloadBuildError};
pub use check::WorkloadError;
pub use deadlock::{Deadlock, find_deadlock};
pub use dependencies::{Between, Chosen, Dependencies, DependenciesError};
pub use index::{EventIndex, EventPlace};
pub use load::{FileKind, Form, LoadError, LoadedFile, TraceFormat, identify, load, load_within, save};
pub use messages::{Messages, MessagesError};
pub use model::{
    Birth, Cgroup, CgroupId, CpuMax, Event, EventId, EventKind, ExternalSource, InitState, ParamChange, Task,
    Wakeup, Workload,
};
pub use objects::{ALL, Handover, Late, Object, ObjectId, ObjectKind, ObjectOp, Recorded, WaitCosts, Wakes};
pub use rtapp::{RtAppError, read_rtapp};
pub use text::{TextError, change_words, parse_change_words, parse_text, read_text, write_text};
