//! Which differences beyond tolerance are understood? Each with its cause and a bound: beyond the bound it fails after all.

use crate::{Case, Row, Verdict};

/// A difference with a cause.
pub struct Known {
    /// Start of the series' name, empty = all.
    pub series: &'static str,
    /// CPUs it occurs on.
    pub cpus: &'static [u32],
    /// Start of the workload's name.
    pub workload: &'static str,
    /// Start of the row's name.
    pub row: &'static str,
    /// Largest |difference| in the row's own unit.
    pub bound: f64,
    /// The cause; LIMITATIONS.md has more.
    pub cause: &'static str,
}

/// All of them; see LIMITATIONS.md, "Validation".
pub const KNOWN: &[Known] = &[
    Known {
        series: "6.1",
        cpus: &[1],
        workload: "fairbench",
        row: "run delay p99",
        bound: 8.1,
        cause: "a delay of 1.9 s is the sum of 480 ticks among tasks whose virtual times are equal to the microsecond: 0.4 %",
    },
    Known {
        series: "",
        cpus: &[1],
        workload: "hackbench",
        row: "CPU time of",
        bound: 3.0,
        cause: "kernel code takes time: a wakeup costs the sender 3 to 5 us of the 200 us of a message",
    },
];

/// Turns failures that are understood into known differences.
pub(crate) fn explain(case: &Case, rows: &mut [Row]) {
    for row in rows.iter_mut().filter(|row| row.verdict == Verdict::Fail) {
        let found = KNOWN.iter().find(|known| {
            (known.series.is_empty() || known.series == case.series)
                && known.cpus.contains(&case.cpus)
                && case.workload.starts_with(known.workload)
                && row.what.starts_with(known.row)
                && row.difference.abs() <= known.bound
        });
        if let Some(known) = found {
            row.verdict = Verdict::Known;
            row.cause = Some(known.cause);
        }
    }
}
