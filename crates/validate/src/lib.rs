//! Is it true? Real Linux and the simulation, side by side, with tolerances that were set before.
//!
//! ```text
//!   guest or host log ──Measures::of──┐
//!                                     ├──compare──> rows: real, simulated, difference, tolerance, verdict
//!   simulated logs ────Measures::of───┘
//! ```
//!
//! A [`Case`] is a kernel version, a number of CPUs and a workload. What real Linux did is kept as a small
//! [`Golden`] file, so that a change of the simulation can be judged in seconds, without booting anything.

mod cases;
mod judge;
pub mod measure;
mod page;

pub use cases::{BURST_END_NS, Case, SERIES, as_in_guest, matrix, of_guest, vary};
pub use judge::{
    Golden, GoldenError, GuestQuestion, MeasureRow, Verdict, compare, effect, golden, known, ks_distance,
    tolerance,
};
pub use measure::Measures;
pub use page::{Width, csv, html, table};

use serde::Serialize;

/// A case with its judgement.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What was compared.
    #[serde(flatten)]
    pub case: Case,
    /// Where real Linux ran.
    pub real: Source,
    /// Runs of the simulation.
    pub simulated_runs: usize,
    /// The simulated kernel's version.
    pub simulated_version: String,
    /// The rows.
    pub rows: Vec<MeasureRow>,
    /// Both sides, for pictures; not part of the JSON.
    #[serde(skip)]
    pub sides: [Vec<Measures>; 2],
    /// What the reader should know, such as versions that differ.
    pub notes: Vec<String>,
}

/// Where real Linux ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Source {
    /// `guest (golden)`, `guest`, `guest (kvm)`, `host`.
    pub arm: String,
    /// The kernel's version.
    pub version: String,
    /// Number of runs.
    pub runs: usize,
}

impl Judged {
    /// Compares, and looks up what is known of the differences.
    pub fn new(
        case: Case,
        hz: u32,
        real: (Source, Vec<Measures>),
        simulated: (String, Vec<Measures>),
    ) -> Judged {
        let mut rows = compare(case.cpus, hz, &real.1, &simulated.1);
        known::explain(&case, &mut rows);
        Judged {
            case,
            real: real.0,
            simulated_runs: simulated.1.len(),
            simulated_version: simulated.0,
            rows,
            sides: [real.1, simulated.1],
            notes: Vec::new(),
        }
    }

    /// Shows everything and judges nothing, with the reason.
    pub fn withhold(&mut self, why: String) {
        self.rows.iter_mut().for_each(|row| row.verdict = Verdict::Info);
        self.notes.push(why);
    }

    /// How many rows have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }
}
