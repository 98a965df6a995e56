//! The drawings of a comparison: what changed with its interval and every seed, every replay's waits, and the
//! tails of latencies.

use super::{change_text, is_better, letter};
use crate::judge::compared::Compared;
use crate::judge::comparison::Change;
use crate::measure::metric::METRICS;
use crate::measure::{CURVE, MetricValues};
use schedlab_report::chart::{self, Chart, Mark, Row, Rows, Scale, Series, Style, Svg, Unit, colour};

/// A change, and the ratio other / base of each pair (both enlarged by the metric's grain).
pub(super) struct Drawn<'a> {
    pub change: &'a Change,
    pub ratios: Vec<f64>,
}

/// What changed: ratios to the baseline on a logarithmic axis, a bar for the interval, a mark for the mean, a
/// dot per seed.
pub(super) fn forest(drawn: Vec<Drawn<'_>>) -> Svg {
    let row = |Drawn { change, ratios }: Drawn<'_>| {
        let base = change.base.mean + change.metric.get().grain;
        let ratio = |difference: f64| ((base + difference) / base).max(1e-12);
        let interval = &change.difference;
        let (by, ends) = change_text(change);
        let colour = match is_better(change) {
            Some(true) => chart::GOOD,
            Some(false) => chart::BAD,
            None => chart::CHANGED,
        };
        Row {
            name: change.metric.get().label.to_string(),
            colour: colour.into(),
            samples: ratios,
            mark: Mark::Interval {
                low: ratio(interval.low.max(-change.base.mean)),
                middle: ratio(interval.mean),
                high: ratio(interval.high),
            },
            notes: vec![by, ends],
        }
    };
    Rows { unit: Unit::Ratio, rows: drawn.into_iter().map(row).collect(), ..Rows::default() }.svg()
}

/// A length of time of every replay as a dot, a box for each contender; `None` if fewer than three replays
/// measured it or all have the same.
pub(super) fn replays(compared: &Compared, name: &str) -> Option<Svg> {
    const LEAST: usize = 3;
    let (place, metric) = METRICS.iter().enumerate().find(|(_, m)| m.name() == name)?;
    let row = |contender: usize| Row {
        name: letter(contender),
        colour: colour(contender).into(),
        samples: compared.measured(contender).filter_map(|run| run.values[place]).collect(),
        mark: Mark::Box,
        notes: Vec::new(),
    };
    let rows: Vec<Row> = (0..compared.contenders.len()).map(row).collect();
    let all = || rows.iter().flat_map(|row| &row.samples);
    let differ = all().any(|value| Some(value) != all().next());
    if !differ || rows.iter().any(|row| row.samples.len() < LEAST) {
        return None;
    }
    let title = format!("{} of every replay", metric.label);
    Some(Rows { title, unit: Unit::TimeNs, rows, ..Rows::default() }.svg())
}

/// The part of waits that last longer than so long: mean over seeds as a line, all seeds as a band. Both axes
/// logarithmic.
pub(super) fn tails(
    title: &str,
    compared: &Compared,
    curve: impl Fn(&MetricValues) -> &[u64],
) -> Option<Svg> {
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
    let series = curves.iter().enumerate().map(|(contender, curves)| {
        let at = |place: usize| curves.iter().map(move |curve| curve[place] as f64);
        let point =
            |ns: f64, per_mille: u32| (ns.max(SHORTEST_NS), (1.0 - f64::from(per_mille) / 1000.0).max(LEAST));
        let places = || CURVE.iter().copied().enumerate().filter(|_| !curves.is_empty());
        let mean = |place: usize| at(place).sum::<f64>() / curves.len() as f64;
        let low = places().map(|(i, per_mille)| point(at(i).fold(f64::MAX, f64::min), per_mille));
        let high = places().rev().map(|(i, per_mille)| point(at(i).fold(0.0, f64::max), per_mille));
        let points = places().map(|(i, per_mille)| point(mean(i), per_mille)).collect();
        Series { band: low.chain(high).collect(), ..Series::new(letter(contender), points, Style::Thin) }
    });
    let chart = Chart {
        title: title.into(),
        x_label: "waited longer than".into(),
        y_label: "part of the waits".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        x_unit: Unit::TimeNs,
        y_unit: Unit::Part,
        series: series.collect(),
        y_holds: vec![LEAST, 1.0],
        size: (560.0, 330.0),
        ..Chart::default()
    };
    Some(chart.svg())
}
