//! What does this machine's scheduler do, as seen from user level, without privilege?
//!
//! Threads poll the clock. Where it jumps, they were not running. From the map of who ran when follow
//! answers, each with an interval and a sample size, or "cannot tell".
//!
//! ```text
//!   Plan ── run ──> Map ── log ──> a schedule log as any other ── infer ──> tick, slice, switch cost, ...
//! ```
//!
//! After John Regehr, "Inferring Scheduling Behavior with Hourglass" (FREENIX 2002). His program is not to be
//! had any more; this one follows its description.

mod beside;
mod calibrate;
mod cause;
mod check;
mod compare;
mod counter;
mod file;
mod infer;
mod line;
mod linux;
mod loads;
mod log;
mod map;
mod models;
mod observe;
mod os;
mod perfetto;
mod plan;
mod poll;
mod reproduced;
mod rivals;
mod rtapp;
mod run;
mod stats;
mod study;
mod suite;
mod view;
mod whatif;

pub use calibrate::{Calibration, Skew};
pub use check::{Checked, check};
pub use compare::{compare, compare_all, compared_drawings, compared_text};
pub use file::{PlanFile, ThreadFile};
pub use infer::{Answer, Findings, Inference, Question, infer};
pub use line::{Line, LineError, Outputs, parse};
pub use loads::Contention;
pub use map::{CauseSum, JobCounts, Map, ThreadMap};
pub use observe::{View, observe};
pub use plan::{Class, Model, ModelStep, Plan, PlanError, THREADS_MAX, ThreadPlan, Timer};
pub use reproduced::reproduced;
pub use rtapp::threads_of;
pub use run::{HourglassError, run};
pub use schedlab_host::Backend;
pub use stats::{Estimate, wilson};
pub use study::{DrawnCase, Load, Score, Study, StudyConfig, study};
pub use suite::suite;
pub use whatif::{Deadlines, WhatIfError, predict};
