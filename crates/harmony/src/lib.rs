//! Which balancing policy does a scheduler follow? Told from what controlled workloads do in logs, without a look at
//! its source.
//!
//! ```text
//! plan ──> scenario ──lab──> log ──> facts ──> rounds ──> answers ──> model ──> text, JSON, page
//!  │          a run of one seed      moves, queue lengths     a rule with counts each
//!  └ tasks in a start state, steps at stated or drawn times
//! ```
//!
//! Harmony (Meehean, Arpaci-Dusseau, Arpaci-Dusseau, Livny, "Uncovering CPU load balancing policies with Harmony",
//! University of Wisconsin, TR 1707, 2011) put processes on chosen CPUs, released them at once, and watched the
//! queues. The [experiments] are its start states, and others; each question has a rule that decides by counts and
//! may say that it cannot tell ([`answer::UNDECIDED`]).
//!
//! What differs: an experiment has many rounds in one run, each at a drawn instant; tasks are carried to their CPUs
//! and released at one instant from outside, by no task that falls asleep afterwards; the rules are written down,
//! where the paper's authors looked at figures.
//!
//! Whether the rules are right is tried on [toys], whose policy is known.

pub mod again;
pub mod answer;
pub mod compared;
pub mod data;
pub mod elsewhere;
pub mod experiments;
pub mod facts;
pub mod model;
pub mod plan;
pub mod questions;
pub mod reproduced;
pub mod scenario;
pub mod stats;
pub mod toy;
pub mod toys;
