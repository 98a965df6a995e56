//! All quantities of all cases as one table, for other programs: a line per row, numbers in full.

use crate::{Judged, Verdict};
use schedlab_stdx::csv::field;
use std::fmt::Write;

/// Columns: `kernel,cpus,workload,quantity,unit,real,real_least,real_largest,simulated,simulated_least,simulated_largest,difference,difference_unit,tolerance,verdict,cause`; a quantity that is
/// not judged has no tolerance.
pub fn csv(cases: &[Judged]) -> String {
    let mut text = String::from(
        "kernel,cpus,workload,quantity,unit,real,real_least,real_largest,simulated,simulated_least,simulated_largest,difference,difference_unit,tolerance,verdict,cause\n",
    );
    for judged in cases {
        for row in &judged.rows {
            let verdict = match row.verdict {
                Verdict::Pass => "pass",
                Verdict::Fail => "fail",
                Verdict::Known => "known",
                Verdict::Info => "info",
            };
            let tolerance = if row.tolerance.is_finite() { row.tolerance.to_string() } else { String::new() };
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{tolerance},{verdict},{}",
                judged.case.series,
                judged.case.cpus,
                field(&judged.case.workload),
                field(&row.what),
                row.unit,
                row.real,
                row.real_runs[0],
                row.real_runs[1],
                row.simulated,
                row.simulated_runs[0],
                row.simulated_runs[1],
                row.difference,
                row.difference_unit,
                field(row.cause.unwrap_or_default()),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::{Case, Judged, Row, Source, Verdict};

    #[test]
    fn names_with_commas_stay_one_field() {
        let workload = "hogs:0,5".into();
        let case = Case { series: "6.12".into(), cpus: 2, workload, duration: "1s".into(), runs: 1 };
        let mut judged = Judged::new(case, 250, (Source::default(), Vec::new()), (String::new(), Vec::new()));
        judged.rows = vec![Row {
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
