//! The same in one file that opens offline: a matrix of verdicts, then each case with its rows and the
//! distribution of run delays.

use crate::measure::{DELAY_STEP_NS, Measures};
use crate::page::number;
use crate::{Judged, MeasureRow, Verdict};
use schedlab_report::chart::{Chart, Series, Style, Svg, Unit};
use schedlab_report::page::Page;
use schedlab_report::table::{Cell, Grid, Tone};
use std::collections::BTreeMap;

/// The page.
pub fn html(cases: &[Judged]) -> String {
    let mut page = Page::new("The simulation against real Linux");
    let count = |verdict| cases.iter().map(|judged| judged.count(verdict)).sum::<usize>();
    let [pass, known, fail] = [Verdict::Pass, Verdict::Known, Verdict::Fail].map(count);
    page.words(&[
        (&format!("{} cases: ", cases.len()), Tone::Plain),
        (&format!("{pass} quantities within tolerance"), Tone::Good),
        (", ", Tone::Plain),
        (&format!("{known} beyond it for a known cause"), Tone::Known),
        (", ", Tone::Plain),
        (&format!("{fail} failed"), Tone::Bad),
        (
            ". Real Linux ran in a guest whose clock counts instructions: what lasts less than a tick has no ground \
                truth there.",
            Tone::Plain,
        ),
    ]);
    page.grid(&matrix(cases));
    for (index, judged) in cases.iter().enumerate() {
        case(&mut page, index, judged);
    }
    page.html()
}

fn cpus(number: u32) -> String {
    format!("{number} CPU{}", if number == 1 { "" } else { "s" })
}

/// Workloads down, versions and CPUs across.
fn matrix(cases: &[Judged]) -> Grid {
    let mut columns: Vec<(u32, &str)> =
        cases.iter().map(|judged| (judged.case.cpus, judged.case.series.as_str())).collect();
    columns.sort();
    columns.dedup();
    let mut workloads: Vec<&str> = Vec::new();
    for judged in cases {
        if !workloads.contains(&judged.case.workload.as_str()) {
            workloads.push(&judged.case.workload);
        }
    }
    let verdict = |workload: &str, column: &(u32, &str)| {
        let found = cases.iter().position(|judged| {
            (judged.case.cpus, judged.case.series.as_str()) == *column && judged.case.workload == workload
        });
        let Some(index) = found else { return Cell::default() };
        let judged = &cases[index];
        let (tone, text) = match (judged.count(Verdict::Fail), judged.count(Verdict::Known)) {
            (0, 0) => (Tone::Good, "pass".to_string()),
            (0, known) => (Tone::Known, format!("{known} known")),
            (fail, _) => (Tone::Bad, format!("{fail} failed")),
        };
        Cell { link: format!("c{index}"), ..Cell::text(text).tone(tone) }
    };
    let row = |workload: &&str| {
        let cells = columns.iter().map(|column| verdict(workload, column));
        std::iter::once(Cell::text(*workload)).chain(cells).collect()
    };
    let head = columns.iter().map(|(number, series)| Cell::text(format!("{series}\n{}", cpus(*number))));
    Grid {
        head: std::iter::once(Cell::default()).chain(head).collect(),
        rows: workloads.iter().map(row).collect(),
    }
}

fn case(page: &mut Page, index: usize, judged: &Judged) {
    let case = &judged.case;
    let heading = format!("Linux {}, {}: {}", case.series, cpus(case.cpus), case.workload);
    page.section(&heading, &format!("c{index}"));
    page.note(&format!(
        "{} runs of {} ({}); {} of the simulation ({}); {} each",
        judged.real.runs,
        judged.real.arm,
        judged.real.version,
        judged.simulated_runs,
        judged.simulated_version,
        case.duration,
    ));
    judged.notes.iter().for_each(|note| page.note(note));
    let mut head: Vec<Cell> = ["real", "simulated", "difference", "tolerated"].map(Cell::number).to_vec();
    head.insert(0, Cell::text("quantity"));
    head.push(Cell::text(""));
    let grid = Grid { head, rows: judged.rows.iter().flat_map(rows).collect() };
    page.beside(|page| {
        page.grid(&grid);
        page.svg(&delays(judged));
    });
}

/// A quantity, and below it the cause of a known difference.
fn rows(row: &MeasureRow) -> Vec<Vec<Cell>> {
    let (tone, word) = match row.verdict {
        Verdict::Pass => (Tone::Good, "pass"),
        Verdict::Known => (Tone::Known, "known"),
        Verdict::Fail => (Tone::Bad, "FAIL"),
        Verdict::Info => (Tone::Soft, ""),
    };
    let tolerance = match row.tolerance.is_finite() {
        true => format!("±{} {}", number(row.tolerance), row.difference_unit),
        false => String::new(),
    };
    let sign = if row.difference > 0.0 { "+" } else { "" };
    let cells = vec![
        Cell::text(&row.what),
        Cell::number(format!("{} {}", number(row.real), row.unit)),
        Cell::number(format!("{} {}", number(row.simulated), row.unit)),
        Cell::number(format!("{sign}{} {}", number(row.difference), row.difference_unit)),
        Cell::number(tolerance),
        Cell::text(word).tone(tone),
    ];
    let cause = row.cause.map(|cause| vec![Cell { span: 6, ..Cell::text(cause).tone(Tone::Soft) }]);
    std::iter::once(cells).chain(cause).collect()
}

/// Both cumulative distributions of the run delays.
fn delays(judged: &Judged) -> Svg {
    let pooled = judged.sides.each_ref().map(|runs| pool(runs));
    let last = pooled.iter().filter_map(high).max().unwrap_or(0).max(1);
    let steps = |delays: &BTreeMap<u64, u64>| {
        let total: u64 = delays.values().sum();
        let mut seen = 0;
        let mut points = vec![(0.0, 0.0)];
        for (step, count) in delays.iter().filter(|(step, _)| **step <= last) {
            seen += count;
            points.push(((step * DELAY_STEP_NS) as f64, seen as f64 / total as f64));
        }
        points.push(((last * DELAY_STEP_NS) as f64, seen as f64 / total as f64));
        if total > 0 { points } else { Vec::new() }
    };
    // the real one broad and pale below, so that both are seen where they agree
    let looks = [("real", Style::BroadSteps), ("simulated", Style::Steps)];
    let series =
        pooled.iter().zip(looks).map(|(delays, (name, style))| Series::new(name, steps(delays), style));
    let chart = Chart {
        x_label: "run delay".into(),
        y_label: "waits no longer than that".into(),
        x_unit: Unit::TimeNs,
        y_unit: Unit::Part,
        series: series.collect(),
        y_holds: vec![0.0, 1.0],
        size: (520.0, 320.0),
        ..Chart::default()
    };
    chart.svg()
}

fn pool(runs: &[Measures]) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for (step, count) in runs.iter().flat_map(|run| &run.delays) {
        *all.entry(*step).or_default() += count;
    }
    all
}

/// Where the picture ends: 99 of 100 delays lie below.
fn high(delays: &BTreeMap<u64, u64>) -> Option<u64> {
    let total: u64 = delays.values().sum();
    let mut seen = 0;
    delays.iter().find_map(|(step, count)| {
        seen += count;
        (seen * 100 >= total * 99).then_some(*step)
    })
}
