//! Small drawings of a comparison, as SVG: what changed with its interval and every seed, and the tails of latencies.

use super::{change_text, is_better, letter};
use crate::compared::Compared;
use crate::comparison::Change;
use crate::measure::{CURVE, Measures};
use schedlab_report::units;
use schedlab_stdx::escape::html as escape;
use std::fmt::Write;

/// Colours that differ for colour-blind readers too, on light and dark ground (Okabe, Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"];

pub(super) fn colour(contender: usize) -> &'static str {
    COLOURS[contender % COLOURS.len()]
}

/// A coordinate with a tenth of a pixel: enough to see, and the same text on every machine.
fn px(x: f64) -> String {
    let text = format!("{x:.1}");
    if text == "-0.0" { "0.0".into() } else { text }
}

/// A row of the first drawing: name, change, and the difference of every seed.
pub(super) struct Row<'a> {
    pub name: String,
    pub change: &'a Change,
    /// Ratio other / base of each pair (both enlarged by the metric's grain).
    pub ratios: Vec<f64>,
}

/// What changed: ratios to the baseline on a logarithmic axis, a bar for the interval, a mark for the mean, a dot per seed.
pub(super) fn forest(rows: &[Row<'_>]) -> String {
    const LEFT: f64 = 230.0;
    const PLOT: f64 = 470.0;
    const RIGHT: f64 = 220.0;
    const ROW: f64 = 24.0;
    const TOP: f64 = 10.0;
    let grain = |row: &Row<'_>| row.change.metric.get().grain;
    let ratio = |row: &Row<'_>, difference: f64| {
        let base = row.change.base.mean + grain(row);
        ((base + difference) / base).max(1e-12)
    };
    let ends = |row: &Row<'_>| {
        let interval = &row.change.difference;
        [
            ratio(row, interval.low.max(-row.change.base.mean)),
            ratio(row, interval.mean),
            ratio(row, interval.high),
        ]
    };
    let all = rows.iter().flat_map(|row| ends(row).into_iter().chain(row.ratios.iter().copied()));
    // beyond a factor of 2000 everything stands at the edge
    let reach = all.filter(|x| x.is_finite()).map(|x| x.ln().abs()).fold(0.05, f64::max).min(7.5) * 1.08;
    let x = |ratio: f64| LEFT + PLOT / 2.0 * (1.0 + (ratio.max(1e-12).ln() / reach).clamp(-1.0, 1.0));
    let height = TOP + ROW * rows.len() as f64 + 34.0;
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = open(LEFT + PLOT + RIGHT, height);
    for tick in ratio_ticks(reach) {
        let at = px(x(tick));
        let class = if tick == 1.0 { "axis" } else { "grid" };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{at}\" y1=\"{TOP}\" x2=\"{at}\" y2=\"{}\"/>",
            px(bottom + 4.0)
        );
        let label = if tick == 1.0 { "same".to_string() } else { ratio_label(tick) };
        text(&mut svg, x(tick), bottom + 18.0, "middle", "", &label);
    }
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (number as f64 + 0.5);
        let colour = match is_better(row.change) {
            Some(true) => "var(--good)",
            Some(false) => "var(--bad)",
            None => "var(--accent)",
        };
        text(&mut svg, LEFT - 10.0, y + 4.0, "end", "style=\"fill:var(--ink)\"", &row.name);
        for ratio in &row.ratios {
            let _ = writeln!(
                svg,
                "<circle cx=\"{}\" cy=\"{}\" r=\"2.2\" fill=\"{colour}\" opacity=\".35\"/>",
                px(x(*ratio)),
                px(y)
            );
        }
        let [low, mean, high] = ends(row).map(x);
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"6\" rx=\"3\" fill=\"{colour}\" opacity=\".55\"/>\
             <rect x=\"{}\" y=\"{}\" width=\"3\" height=\"14\" fill=\"{colour}\"/>",
            px(low),
            px(y - 3.0),
            px((high - low).max(1.0)),
            px(mean - 1.5),
            px(y - 7.0)
        );
        let (by, ends) = change_text(row.change);
        text(&mut svg, LEFT + PLOT + 12.0, y + 4.0, "start", "style=\"fill:var(--ink)\"", &by);
        text(&mut svg, LEFT + PLOT + 82.0, y + 4.0, "start", "", &ends);
    }
    svg + "</svg>\n"
}

/// Ratios to mark, both ways.
fn ratio_ticks(reach: f64) -> Vec<f64> {
    let steps: &[f64] = match reach {
        _ if reach < 0.12 => &[1.02, 1.05, 1.1],
        _ if reach < 0.5 => &[1.1, 1.2, 1.5],
        _ if reach < 1.5 => &[1.5, 2.0, 4.0],
        _ if reach < 3.5 => &[2.0, 5.0, 10.0, 20.0],
        _ => &[10.0, 1000.0],
    };
    let inside = steps.iter().filter(|step| step.ln() < reach);
    inside.flat_map(|step| [1.0 / step, *step]).chain([1.0]).collect()
}

fn ratio_label(ratio: f64) -> String {
    if (0.6..1.6).contains(&ratio) {
        format!("{:+.0} %", 100.0 * (ratio - 1.0))
    } else if ratio > 1.0 {
        format!("x {ratio:.0}")
    } else {
        format!("x 1/{:.0}", 1.0 / ratio)
    }
}

/// The part of waits that last longer than so long: mean over seeds as a line, all seeds as a band. Both axes logarithmic.
pub(super) fn tails(title: &str, compared: &Compared, curve: impl Fn(&Measures) -> &[u64]) -> Option<String> {
    const LEFT: f64 = 52.0;
    const PLOT: (f64, f64) = (500.0, 230.0);
    const TOP: f64 = 30.0;
    /// Shorter waits are drawn here: a microsecond.
    const SHORTEST_NS: f64 = 1e3;
    /// The part that is drawn last: one in a thousand and less.
    const LEAST: f64 = 1e-3;
    let curves: Vec<Vec<&[u64]>> = (0..compared.contenders.len())
        .map(|contender| compared.measured(contender).map(&curve).filter(|curve| !curve.is_empty()).collect())
        .collect();
    let longest = curves.iter().flatten().flat_map(|curve| curve.iter()).max().copied()? as f64;
    if longest < SHORTEST_NS {
        return None;
    }
    let (low, high) = (SHORTEST_NS.ln(), (longest * 1.1).ln());
    let x = |ns: f64| LEFT + PLOT.0 * ((ns.max(SHORTEST_NS).ln() - low) / (high - low));
    let y = |part: f64| TOP + PLOT.1 * (part.max(LEAST).ln() / LEAST.ln());
    let mut svg = open(LEFT + PLOT.0 + 16.0, TOP + PLOT.1 + 46.0);
    text(&mut svg, LEFT, 16.0, "start", "font-weight=\"600\" style=\"fill:var(--ink)\"", title);
    for (part, label) in [(1.0, "all"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %")] {
        let at = px(y(part));
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at}\" x2=\"{}\" y2=\"{at}\"/>",
            px(LEFT + PLOT.0)
        );
        text(&mut svg, LEFT - 6.0, y(part) + 4.0, "end", "", label);
    }
    for decade in 3..=12 {
        let ns = 10f64.powi(decade);
        if ns.ln() <= high {
            let at = px(x(ns));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at}\" y1=\"{TOP}\" x2=\"{at}\" y2=\"{}\"/>",
                px(TOP + PLOT.1)
            );
            let label = units::time(ns as u64).replace(".00", "").replace(".0", "");
            text(&mut svg, x(ns), TOP + PLOT.1 + 16.0, "middle", "", &label);
        }
    }
    for (contender, curves) in curves.iter().enumerate().filter(|(_, curves)| !curves.is_empty()) {
        let at = |place: usize| curves.iter().map(move |curve| curve[place] as f64);
        let place =
            |ns: f64, per_mille: u32| format!("{} {}", px(x(ns)), px(y(1.0 - f64::from(per_mille) / 1000.0)));
        let points: Vec<(usize, u32)> = CURVE.iter().copied().enumerate().collect();
        let mean = |place: usize| at(place).sum::<f64>() / curves.len() as f64;
        let line: Vec<String> = points.iter().map(|(i, per_mille)| place(mean(*i), *per_mille)).collect();
        let low = points.iter().map(|(i, per_mille)| place(at(*i).fold(f64::MAX, f64::min), *per_mille));
        let high = points.iter().rev().map(|(i, per_mille)| place(at(*i).fold(0.0, f64::max), *per_mille));
        let band: Vec<String> = low.chain(high).collect();
        let colour = colour(contender);
        let _ = writeln!(
            svg,
            "<path d=\"M{}Z\" fill=\"{colour}\" opacity=\".18\"/>\n<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
            band.join("L"),
            line.join("L")
        );
        let y = TOP + 12.0 + 15.0 * contender as f64;
        let x = LEFT + PLOT.0 - 12.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{colour}\"/>",
            px(x),
            px(y - 9.0)
        );
        text(&mut svg, x - 5.0, y, "end", "style=\"fill:var(--ink)\"", &letter(contender));
    }
    text(
        &mut svg,
        LEFT + PLOT.0 / 2.0,
        TOP + PLOT.1 + 36.0,
        "middle",
        "",
        "part of the waits that last longer than this",
    );
    Some(svg + "</svg>\n")
}

fn open(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" style=\"display:block;max-width:100%;height:auto\">\n",
        px(width),
        px(height)
    )
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, extra: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" {extra}>{content}</text>",
        px(x),
        px(y)
    );
}
