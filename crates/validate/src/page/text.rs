//! The table that a person reads: a line per quantity, the worst first to see.

use crate::{Judged, MeasureRow, Verdict};
use std::fmt::Write;

/// What is shown of each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One line per case, and the rows that did not pass.
    Brief,
    /// All rows.
    All,
}

/// A table of at most 100 columns.
pub fn table(cases: &[Judged], width: Width, color: bool) -> String {
    let mut text = String::new();
    for judged in cases {
        let verdict = overall(judged);
        let case = &judged.case;
        let mut line = format!(
            "{:<7} {} CPU{:<2} {:<24} {:>2} runs against {:>2}",
            case.series,
            case.cpus,
            if case.cpus == 1 { "" } else { "s" },
            case.workload,
            judged.simulated_runs,
            judged.real.runs,
        );
        let counts = [Verdict::Pass, Verdict::Known, Verdict::Fail].map(|v| judged.count(v));
        let _ = write!(line, "   {:>2} pass {:>2} known {:>2} fail", counts[0], counts[1], counts[2]);
        let judged_any = judged.rows.is_empty() || judged.rows.iter().any(|row| row.verdict != Verdict::Info);
        let said = if judged_any { word(verdict) } else { "not judged" };
        push(&mut text, &format!("{line}   {said}"), verdict, color);
        for row in &judged.rows {
            if width == Width::All || matches!(row.verdict, Verdict::Fail | Verdict::Known) {
                push(&mut text, &row_line(row), row.verdict, color);
            }
        }
        for note in &judged.notes {
            push(&mut text, &format!("    {note}"), Verdict::Info, color);
        }
    }
    text
}

fn push(text: &mut String, line: &str, verdict: Verdict, color: bool) {
    let code = match verdict {
        Verdict::Fail => "31",
        Verdict::Known => "33",
        Verdict::Pass | Verdict::Info => "",
    };
    if color && !code.is_empty() {
        let _ = writeln!(text, "\x1b[{code}m{}\x1b[0m", line.trim_end());
    } else {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A case fails if any row does.
fn overall(judged: &Judged) -> Verdict {
    [Verdict::Fail, Verdict::Known].into_iter().find(|v| judged.count(*v) > 0).unwrap_or(Verdict::Pass)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Known => "known",
        Verdict::Info => "",
    }
}

fn row_line(row: &MeasureRow) -> String {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", row.unit) };
    let tolerance = if row.tolerance.is_finite() {
        format!("±{}{}", number(row.tolerance), row.difference_unit)
    } else {
        String::new()
    };
    let mut line = format!(
        "    {:<28} real {:>9}{unit:<3} simulated {:>9}{unit:<3} {:>8}{:<2} {tolerance:>9}  {}",
        row.what,
        number(row.real),
        number(row.simulated),
        signed(row.difference),
        row.difference_unit,
        word(row.verdict)
    );
    if matches!(row.verdict, Verdict::Fail | Verdict::Known) {
        let range = |[low, high]: [f64; 2]| format!("{} to {}", number(low), number(high));
        let _ = write!(
            line,
            "\n        runs one by one: real {}, simulated {}",
            range(row.real_runs),
            range(row.simulated_runs)
        );
    }
    if let Some(cause) = row.cause {
        let _ = write!(line, "\n        {cause}");
    }
    line
}

/// Three or four significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", number(value)) } else { number(value) }
}
