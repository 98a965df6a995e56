//! All quantities of all cases as one table, for other programs: a line per row, numbers in full.

use crate::{Judged, Verdict};
use schedlab_report::table::csv_line;

/// Names of the columns.
const COLUMNS: [&str; 16] = [
    "kernel",
    "cpus",
    "workload",
    "quantity",
    "unit",
    "real",
    "real_least",
    "real_largest",
    "simulated",
    "simulated_least",
    "simulated_largest",
    "difference",
    "difference_unit",
    "tolerance",
    "verdict",
    "cause",
];

/// A line per quantity under the names of the columns; a quantity that is not judged has no tolerance.
pub fn csv(cases: &[Judged]) -> String {
    let mut text = csv_line(COLUMNS);
    for judged in cases {
        for row in &judged.rows {
            let verdict = match row.verdict {
                Verdict::Pass => "pass",
                Verdict::Fail => "fail",
                Verdict::Known => "known",
                Verdict::Info => "info",
            };
            let tolerance = if row.tolerance.is_finite() { row.tolerance.to_string() } else { String::new() };
            text += &csv_line([
                judged.case.series.clone(),
                judged.case.cpus.to_string(),
                judged.case.workload.clone(),
                row.what.clone(),
                row.unit.into(),
                row.real.to_string(),
                row.real_runs[0].to_string(),
                row.real_runs[1].to_string(),
                row.simulated.to_string(),
                row.simulated_runs[0].to_string(),
                row.simulated_runs[1].to_string(),
                row.difference.to_string(),
                row.difference_unit.into(),
                tolerance,
                verdict.into(),
                row.cause.unwrap_or_default().into(),
            ]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::{Case, Judged, MeasureRow, Source, Verdict};

    #[test]
    fn names_with_commas_stay_one_field() {
        let workload = "hogs:0,5".into();
        let case = Case { series: "6.12".into(), cpus: 2, workload, duration: "1s".into(), runs: 1 };
        let mut judged = Judged::new(case, 250, (Source::default(), Vec::new()), (String::new(), Vec::new()));
        judged.rows = vec![MeasureRow {
            what: "time to balance, median".into(),
            unit: "ms",
            real: 4.0,
            simulated: 5.5,
            difference: 1.5,
            real_runs: [0.0; 2],
            simulated_runs: [0.0; 2],
            difference_unit: "ms",
            tolerance: f64::INFINITY,
            verdict: Verdict::Info,
            cause: None,
        }];
        let text = super::csv(&[judged]);
        let line = "6.12,2,\"hogs:0,5\",\"time to balance, median\",ms,4,0,0,5.5,0,0,1.5,ms,,info,";
        assert_eq!(text.lines().nth(1), Some(line));
    }
}
