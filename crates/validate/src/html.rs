//! The same in one file that opens offline: a matrix of verdicts, then each case with its rows and the distribution of run delays.

use crate::measure::{DELAY_STEP_NS, Measures};
use crate::text::number;
use crate::{Judged, Row, Verdict};
use schedlab_stdx::escape::html as escape;
use std::collections::BTreeMap;
use std::fmt::Write;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#667;--line:#d8dce2;--bg:#fff;--pass:#1a7f4b;--known:#9a6700;--fail:#c62f2f;--real:#1f6feb;--sim:#d9730d}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--dim:#99a;--line:#363c45;--bg:#14171b;--pass:#4cc38a;--known:#e0b341;--fail:#ff7b72;--real:#6ea8ff;--sim:#ffa657}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--bg);max-width:1100px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.1em;margin:2em 0 .3em;border-top:1px solid var(--line);padding-top:1em}
table{border-collapse:collapse}td,th{padding:.15em .7em;text-align:right;font-variant-numeric:tabular-nums}th{font-weight:600;color:var(--dim)}
td:first-child,th:first-child{text-align:left}.pass{color:var(--pass)}.known{color:var(--known)}.fail{color:var(--fail);font-weight:600}
.dim{color:var(--dim)}.flow{display:flex;gap:2em;flex-wrap:wrap;align-items:flex-start}.matrix td{border:1px solid var(--line);text-align:center}
.cause{text-align:left;color:var(--dim);max-width:60em;padding-left:1.6em}a{color:inherit;text-decoration:none}
svg text{fill:var(--dim);font-size:11px}
";

/// The page.
pub fn html(cases: &[Judged]) -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>schedlab validate</title><style>{STYLE}</style><h1>The simulation against real Linux</h1>"
    );
    let count = |verdict| cases.iter().map(|judged| judged.count(verdict)).sum::<usize>();
    let _ = write!(
        page,
        "<p>{} cases: <span class=pass>{} quantities within tolerance</span>, <span class=known>{} beyond it for a known \
         cause</span>, <span class=fail>{} failed</span>. Real Linux ran in a guest whose clock counts instructions: what lasts \
         less than a tick has no ground truth there.</p>",
        cases.len(),
        count(Verdict::Pass),
        count(Verdict::Known),
        count(Verdict::Fail)
    );
    matrix(&mut page, cases);
    for (index, judged) in cases.iter().enumerate() {
        case(&mut page, index, judged);
    }
    page.push_str("</html>\n");
    page
}

/// Workloads down, versions and CPUs across.
fn matrix(page: &mut String, cases: &[Judged]) {
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
    page.push_str("<table class=matrix><tr><th>");
    for (cpus, series) in &columns {
        let _ = write!(page, "<th>{}<br>{cpus} CPU{}", escape(series), if *cpus == 1 { "" } else { "s" });
    }
    for workload in workloads {
        let _ = write!(page, "<tr><td style='text-align:left'>{}", escape(workload));
        for column in &columns {
            let found = cases.iter().position(|judged| {
                (judged.case.cpus, judged.case.series.as_str()) == *column && judged.case.workload == workload
            });
            page.push_str("<td>");
            if let Some(index) = found {
                let judged = &cases[index];
                let (fail, known) = (judged.count(Verdict::Fail), judged.count(Verdict::Known));
                let (class, text) = match (fail, known) {
                    (0, 0) => ("pass", "pass".to_string()),
                    (0, known) => ("known", format!("{known} known")),
                    (fail, _) => ("fail", format!("{fail} failed")),
                };
                let _ = write!(page, "<a class={class} href='#c{index}'>{text}</a>");
            }
        }
    }
    page.push_str("</table>");
}

fn case(page: &mut String, index: usize, judged: &Judged) {
    let case = &judged.case;
    let _ = write!(
        page,
        "<h2 id=c{index}>Linux {}, {} CPU{}: {}</h2><p class=dim>{} runs of {} ({}); {} of the simulation ({}); {} each",
        escape(&case.series),
        case.cpus,
        if case.cpus == 1 { "" } else { "s" },
        escape(&case.workload),
        judged.real.runs,
        escape(&judged.real.arm),
        escape(&judged.real.version),
        judged.simulated_runs,
        escape(&judged.simulated_version),
        escape(&case.duration),
    );
    for note in &judged.notes {
        let _ = write!(page, "<br>{}", escape(note));
    }
    page.push_str(
        "</p><div class=flow><table><tr><th>quantity<th>real<th>simulated<th>difference<th>tolerated<th>",
    );
    for row in &judged.rows {
        row_html(page, row);
    }
    page.push_str("</table>");
    delays(page, judged);
    page.push_str("</div>");
}

fn row_html(page: &mut String, row: &Row) {
    let (class, word) = match row.verdict {
        Verdict::Pass => ("pass", "pass"),
        Verdict::Known => ("known", "known"),
        Verdict::Fail => ("fail", "FAIL"),
        Verdict::Info => ("dim", ""),
    };
    let tolerance = if row.tolerance.is_finite() {
        format!("±{} {}", number(row.tolerance), row.difference_unit)
    } else {
        String::new()
    };
    let _ = write!(
        page,
        "<tr><td>{}<td>{} {}<td>{} {}<td>{}{} {}<td>{tolerance}<td class={class}>{word}",
        escape(&row.what),
        number(row.real),
        row.unit,
        number(row.simulated),
        row.unit,
        if row.difference > 0.0 { "+" } else { "" },
        number(row.difference),
        row.difference_unit,
    );
    if let Some(cause) = row.cause {
        let _ = write!(page, "<tr><td colspan=6 class=cause>{}", escape(cause));
    }
}

/// Both cumulative distributions of the run delays.
fn delays(page: &mut String, judged: &Judged) {
    const WIDTH: f64 = 360.0;
    const HEIGHT: f64 = 200.0;
    let pooled = judged.sides.each_ref().map(|runs| pool(runs));
    let last = pooled.iter().filter_map(high).max().unwrap_or(0).max(1);
    let last_ms = last as f64 * DELAY_STEP_NS as f64 / 1e6;
    let _ = write!(
        page,
        "<svg width={} height={} viewBox='-34 -14 {} {}' role=img><rect width={WIDTH} height={HEIGHT} fill=none stroke='var(--line)'/>",
        WIDTH + 60.0,
        HEIGHT + 50.0,
        WIDTH + 60.0,
        HEIGHT + 50.0
    );
    // the real one broad and pale below, so that both are seen where they agree
    let looks = [("var(--real)", 5.0, 0.45), ("var(--sim)", 1.4, 1.0)];
    for (delays, (color, width, opacity)) in pooled.iter().zip(looks) {
        let total: u64 = delays.values().sum();
        if total == 0 {
            continue;
        }
        let mut path = format!("M0 {HEIGHT}");
        let mut seen = 0;
        for (step, count) in delays.iter().filter(|(step, _)| **step <= last) {
            let x = *step as f64 / last as f64 * WIDTH;
            seen += count;
            let _ = write!(path, "H{x:.1}V{:.1}", HEIGHT * (1.0 - seen as f64 / total as f64));
        }
        let _ = write!(
            page,
            "<path d='{path}H{WIDTH}' fill=none stroke='{color}' stroke-width={width} opacity={opacity} />"
        );
    }
    let _ = write!(
        page,
        "<text x=0 y={0}>0</text><text x={WIDTH} y={0} text-anchor=end>{1} ms</text><text x=-6 y=10 text-anchor=end>1</text>\
         <text x=-6 y={HEIGHT} text-anchor=end>0</text><text x={2} y={0} text-anchor=middle>run delay</text>\
         <text x=352 y=180 text-anchor=end style='fill:var(--real)'>real</text>\
         <text x=352 y=194 text-anchor=end style='fill:var(--sim)'>simulated</text></svg>",
        HEIGHT + 16.0,
        number(last_ms),
        WIDTH / 2.0
    );
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
