//! Is a simulation with costs of kernel code nearer to real Linux than one without? Every quantity, in tolerances.

use crate::page::number;
use crate::{Judged, MeasureRow};
use std::fmt::Write;

/// A difference as a share of what is tolerated; `None` where nothing is.
fn off(row: &MeasureRow) -> Option<f64> {
    (row.tolerance.is_finite() && row.tolerance > 0.0).then(|| row.difference.abs() / row.tolerance)
}

/// A change of less than this part of a tolerance is none.
const SAME: f64 = 0.02;

/// The quantities that costs change, and how far all are from real Linux on average. Both lists hold the same
/// cases in the same order.
pub fn effect(without: &[Judged], with: &[Judged]) -> String {
    let mut text =
        String::from("Quantities that the costs of kernel code change (difference from real Linux)\n");
    let _ =
        writeln!(text, "  {:<40} {:<26} {:>10} {:>12} {:>12}", "case", "quantity", "real", "without", "with");
    let (mut sums, mut rows) = ([0.0, 0.0], 0u32);
    let (mut nearer, mut farther) = (0, 0);
    for (before, after) in without.iter().zip(with) {
        for (plain, costly) in before.rows.iter().zip(&after.rows) {
            let (Some(a), Some(b)) = (off(plain), off(costly)) else { continue };
            sums = [sums[0] + a, sums[1] + b];
            rows += 1;
            if (a - b).abs() < SAME {
                continue;
            }
            let verdict = if b < a { "nearer" } else { "farther" };
            *if b < a { &mut nearer } else { &mut farther } += 1;
            let case = format!("{} {} CPU, {}", before.case.series, before.case.cpus, before.case.workload);
            let difference = |row: &MeasureRow| format!("{}{}", number(row.difference), row.difference_unit);
            let real = format!("{} {}", number(plain.real), plain.unit);
            let _ = writeln!(
                text,
                "  {case:<40} {:<26} {real:>10} {:>12} {:>12}  {verdict}",
                plain.what,
                difference(plain),
                difference(costly)
            );
        }
    }
    let mean = |sum: f64| number(sum / f64::from(rows.max(1)));
    let _ = writeln!(
        text,
        "{nearer} nearer, {farther} farther, {} as before; mean |difference| over tolerance: {} without, {} with costs",
        rows - nearer - farther,
        mean(sums[0]),
        mean(sums[1])
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Source, Verdict};

    fn judged(differences: [f64; 2]) -> Judged {
        let row = |difference| MeasureRow {
            what: "CPU time".into(),
            unit: "ms",
            real: 10.0,
            simulated: 10.0 + difference,
            difference,
            real_runs: [0.0; 2],
            simulated_runs: [0.0; 2],
            difference_unit: "%",
            tolerance: 1.0,
            verdict: Verdict::Pass,
            cause: None,
        };
        let case =
            Case { series: "6.12".into(), cpus: 1, workload: "x".into(), duration: "1s".into(), runs: 1 };
        let mut judged = Judged::new(case, 250, (Source::default(), Vec::new()), (String::new(), Vec::new()));
        judged.rows = differences.map(row).to_vec();
        judged
    }

    #[test]
    fn nearer_and_farther_are_distinguished() {
        let text = effect(&[judged([0.8, -0.1])], &[judged([0.2, -0.5])]);
        assert!(text.contains("1 nearer, 1 farther, 0 as before"), "{text}");
        assert!(text.contains("0.450 without, 0.350 with"), "{text}");
    }
}
