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
        cause: "kernel code takes time: 10 us a message of 200 us; --costs brings 6.1 to 0.2 %",
    },
    Known {
        series: "6.12",
        cpus: &[1],
        workload: "hackbench",
        row: "switches",
        bound: 14.0,
        cause: "kernel code takes time, some 10 us an operation; with --costs costs/guest-6.12.toml 0.05 %",
    },
    Known {
        series: "6.12",
        cpus: &[1],
        workload: "ping-pong",
        row: "CPU time of",
        bound: 5.5,
        cause: "kernel code takes time, and three turns are just below a tick; with --costs costs/guest-6.12.toml 0.3 %",
    },
    Known {
        series: "6.12",
        cpus: &[1],
        workload: "ping-pong",
        row: "run delay K-S distance",
        bound: 0.12,
        cause: "kernel code takes time, and three turns are just below a tick; with --costs costs/guest-6.12.toml .012",
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
