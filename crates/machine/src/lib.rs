//! Who runs next, and when does anything happen at all? The machine: virtual CPUs, one event queue, simulated time.
//!
//! ```text
//!   Workload ──Program──> Machine <──trait Kernel──> real Linux (crate linux) | Native<Policy>
//!                            │
//!                            └──> records of the schedule log
//! ```
//!
//! The machine owns time and knows what each task does next; the [`Kernel`](kernel::Kernel) knows who runs.
//! Neither scans all CPUs or all tasks for an event.

pub mod bench;
pub mod contract;
mod costs;
pub mod drawn;
pub mod engine;
pub mod kernel;
pub mod native;
mod objects;
pub mod order;
mod perturb;
pub mod policy;
mod program;
mod queue;
pub mod sink;
mod wheel;

pub use costs::{COST_MAX, CostError, Costs};
pub use engine::{End, EndlessWait, Forced, Machine, Outcome, Setup, WaitsFor};
pub use perturb::{LATE_ONE_IN, LateTimers, Perturb, PerturbError};
pub use program::{AtObject, Code, Program, ProgramError, ProgramTask, Step, Token};
