//! Which scheduler does better, by how much, and is that more than chance?
//!
//! One deterministic replay is one sample. An [`Ensemble`](schedlab_lab::Ensemble) replays a workload many
//! times, each time perturbed by another seed ([`schedlab_machine::Perturb`]), under several schedulers that
//! see the same perturbed workloads. A [`Comparison`] with the first of them, the baseline, tells what
//! changed, most first, with intervals; and a [`Gate`] turns that into yes or no for CI.
//!
//! ```text
//!   workload x seeds x contenders ──Ensemble──> Samples ──Comparison──> changes, ranked ──Gate──> exit status
//!                                                  └──> text, JSON, HTML
//! ```
//!
//! A worked number: under FIFO on one CPU, a task of 1 ms that comes behind two of 100 ms waits 200 ms; under
//! round robin with a quantum of 10 ms it waits 20 ms. Whatever the seeds, the comparison says -90 %.

mod cases;
pub mod fidelity;
mod judge;
pub mod measure;
pub mod page;

pub use cases::ensemble::{RunOutcome, Samples};
pub use cases::subjects::{TaskGroup, subjects};
pub use judge::compared::{Compared, GateResult};
pub use judge::comparison::{Change, Comparison, Significance};
pub use judge::gate::{self, Gate, GateError};
pub use measure::{MetricValues, metric, stats};
