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
pub const KNOWN: &[Known] = &[];

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
