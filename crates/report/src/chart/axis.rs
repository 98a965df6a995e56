//! From values to places: linear, logarithmic, and logarithmic on both sides of zero; and which values are
//! marked, in which words.

use crate::units;

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// Equal ratios have equal lengths; values are greater than zero.
    Log,
    /// Linear from -1 to 1, logarithmic beyond, on both sides.
    SymLog,
}

/// What the numbers along an axis are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Unit {
    /// As they are, 200000 as `200k`; the axis's label has the unit.
    #[default]
    Number,
    /// Nanoseconds, shown as `20 us`.
    TimeNs,
    /// Parts of one, shown as `5 %`.
    Part,
    /// Ratios to something, shown as `same`, `+10 %`, `x 2`, `x 1/2`.
    Ratio,
}

impl Scale {
    fn warp(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(SMALLEST).log10(),
            Scale::SymLog if value.abs() <= 1.0 => value,
            Scale::SymLog => value.signum() * (1.0 + value.abs().log10()),
        }
    }
}

/// Pixels for a text along an axis upwards.
pub(super) const UP: f64 = 18.0;
/// Pixels for a text along an axis to the right: `500 us`.
pub(super) const RIGHT: f64 = 56.0;

/// Values below fall together on a logarithmic axis.
const SMALLEST: f64 = 1e-12;

/// An axis from `low` to `high` over `length` pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Between ticks, if linear.
    step: f64,
    /// What is marked of each power of ten, if logarithmic.
    within: &'static [f64],
    length: f64,
    is_empty: bool,
}

impl Axis {
    /// Fits the values, and ends at numbers that are marked.
    pub(super) fn fit(scale: Scale, values: impl Iterator<Item = f64>, length: f64, apart: f64) -> Axis {
        let mut axis = Axis::tight(scale, values, length, apart);
        match scale {
            Scale::Linear => {
                let step = step(axis.high - axis.low);
                axis.low = (axis.low / step).floor() * step;
                axis.high = (axis.high / step).ceil() * step;
                axis.step = step;
            }
            Scale::Log => {
                let marks = marks(axis.low, axis.high, axis.within);
                (axis.low, axis.high) = (marks[0], marks[marks.len() - 1]);
            }
            Scale::SymLog => {
                let beyond = |value: f64| *marks(1.0, value.max(1.0), axis.within).last().unwrap_or(&value);
                if axis.low < 0.0 {
                    axis.low = -beyond(-axis.low);
                }
                if axis.high > 0.0 {
                    axis.high = beyond(axis.high);
                }
            }
        }
        axis
    }

    /// From the least value to the greatest; texts of marks need `apart` pixels.
    pub(super) fn tight(scale: Scale, values: impl Iterator<Item = f64>, length: f64, apart: f64) -> Axis {
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        let is_empty = low > high;
        if is_empty {
            (low, high) = (if scale == Scale::Log { 0.1 } else { 0.0 }, 1.0);
        }
        if low == high && scale != Scale::Log {
            (low, high) = (low - low.abs().max(1.0) * 0.5, high + high.abs().max(1.0) * 0.5);
        }
        if scale == Scale::Log {
            low = low.max(SMALLEST);
            high = high.max(low * 1.01);
        }
        let decades = match scale {
            Scale::SymLog => 1.5 * high.max(-low).max(1.0).log10(), // there are two such halves
            Scale::Linear | Scale::Log => (high / low).log10(),
        };
        let within: &[f64] = match decades {
            decades if decades >= (length / (3.0 * apart)).min(4.0) => &[1.0],
            decades if decades >= 0.6 => &[1.0, 2.0, 5.0],
            _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        };
        Axis { scale, low, high, step: step(high - low), within, length, is_empty }
    }

    /// A logarithmic axis of ratios with `same` in its middle.
    pub(super) fn around_one(reach: f64, length: f64) -> Axis {
        Axis {
            scale: Scale::Log,
            low: 1.0 / reach,
            high: reach,
            step: 1.0,
            within: &[1.0],
            length,
            is_empty: false,
        }
    }

    /// Whether there was no value to fit.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The place of a value, from the axis's beginning; what lies beyond an end stands at that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.warp(self.low), self.scale.warp(self.high));
        ((self.scale.warp(value) - low) / (high - low)).clamp(0.0, 1.0) * self.length
    }

    /// Values to mark.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let inside = |value: &f64| *value * NEAR >= self.low && *value <= self.high * NEAR;
        match self.scale {
            Scale::Linear => {
                let first = (self.low / self.step - 1e-9).ceil() as i64;
                let last = (self.high / self.step + 1e-9).floor() as i64;
                (first..=last).map(|k| k as f64 * self.step).collect()
            }
            Scale::Log => marks(self.low, self.high, self.within).into_iter().filter(inside).collect(),
            Scale::SymLog => {
                let largest = self.high.max(-self.low).max(1.0);
                let beyond = marks(1.0, largest, self.within);
                let negative = beyond.iter().rev().map(|mark| -mark);
                let all = negative.chain([0.0]).chain(beyond.iter().copied());
                all.filter(|t| *t >= self.low * NEAR && *t <= self.high * NEAR).collect()
            }
        }
    }
}

/// Room for rounding.
const NEAR: f64 = 1.0 + 1e-9;

/// Powers of ten times `within`, from the last one below a range to the first one above it.
fn marks(low: f64, high: f64, within: &[f64]) -> Vec<f64> {
    let first = low.log10().floor() as i32 - 1;
    let last = high.log10().ceil() as i32 + 1;
    let all: Vec<f64> = (first..=last).flat_map(|e| within.iter().map(move |m| m * 10f64.powi(e))).collect();
    let from = all.iter().rposition(|mark| *mark <= low * NEAR).unwrap_or(0);
    let to = all.iter().position(|mark| *mark >= high / NEAR).unwrap_or(all.len() - 1);
    all[from..=to].to_vec()
}

/// A round step (1, 2 or 5 times a power of ten) that divides a range into about five.
fn step(range: f64) -> f64 {
    let rough = range / 5.0;
    let power = 10f64.powi(rough.log10().floor() as i32);
    let factor = rough / power;
    power
        * if factor < 1.5 {
            1.0
        } else if factor < 3.5 {
            2.0
        } else if factor < 7.5 {
            5.0
        } else {
            10.0
        }
}

impl Unit {
    /// The texts of an axis's ticks: with as many decimals as tell them apart.
    pub(super) fn labels(self, ticks: &[f64]) -> Vec<String> {
        let usual: Vec<String> = ticks.iter().map(|tick| self.label(*tick)).collect();
        let apart = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        if usual.windows(2).all(|pair| pair[0] != pair[1]) || !matches!(self, Unit::Number) || apart <= 0.0 {
            return usual;
        }
        let places = (-apart.log10()).ceil().clamp(0.0, 12.0) as usize;
        ticks.iter().map(|tick| format!("{tick:.places$}")).collect()
    }

    /// A tick's text.
    pub(super) fn label(self, value: f64) -> String {
        match self {
            Unit::Number => number(value),
            Unit::TimeNs if value < 0.0 => format!("-{}", Unit::TimeNs.label(-value)),
            Unit::TimeNs => {
                let text = units::time(value.round() as u64);
                match text.split_once(' ') {
                    Some((number, unit)) if number.contains('.') => {
                        format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
                    }
                    _ => text,
                }
            }
            Unit::Part => format!("{} %", number(value * 100.0)),
            Unit::Ratio if (value - 1.0).abs() < 1e-9 => "same".into(),
            Unit::Ratio if (0.6..1.6).contains(&value) => format!("{:+.0} %", 100.0 * (value - 1.0)),
            Unit::Ratio if value > 1.0 => format!("x {value:.0}"),
            Unit::Ratio => format!("x 1/{:.0}", 1.0 / value),
        }
    }
}

/// Two decimals, more where the number is small; 10000 as `10k`.
fn number(value: f64) -> String {
    let size = value.abs();
    let plain = |number: f64| {
        let places = if size > 0.0 && size < 0.095 { (-size.log10()).ceil() as usize + 1 } else { 2 };
        let text = format!("{number:.places$}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".into() } else { text.to_string() }
    };
    match size {
        _ if size >= 1e9 => plain(value / 1e9) + "G",
        _ if size >= 1e6 => plain(value / 1e6) + "M",
        _ if size >= 1e4 => plain(value / 1e3) + "k",
        _ if size > 0.0 && size < 1e-6 => format!("{value:.0e}"),
        _ => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_narrow_axis_differ() {
        assert_eq!(Unit::Number.labels(&[0.99, 0.992, 0.994]), ["0.990", "0.992", "0.994"]);
        assert_eq!(Unit::Number.labels(&[0.0, 0.5, 1.0]), ["0", "0.5", "1"]);
    }

    #[test]
    fn axes_place_and_mark() {
        let linear = Axis::fit(Scale::Linear, [0.3, 9.7].into_iter(), 100.0, UP);
        assert_eq!((linear.at(0.0), linear.at(10.0)), (0.0, 100.0));
        assert_eq!(linear.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let log = Axis::fit(Scale::Log, [1.0, 1000.0].into_iter(), 300.0, UP);
        assert!((log.at(10.0) - 100.0).abs() < 1e-9);
        let ticks = log.ticks();
        assert_eq!(ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        let both = Axis::fit(Scale::SymLog, [-1e4, 1e4].into_iter(), 100.0, UP);
        assert!((both.at(0.0) - 50.0).abs() < 1e-9 && (both.at(1.0) - 60.0).abs() < 1e-9);
        let decades = [-1e4, -1e3, -100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0, 1e3, 1e4];
        assert_eq!(both.ticks(), decades);
        assert!(Axis::fit(Scale::Log, std::iter::empty(), 1.0, UP).is_empty());
    }

    /// Errors of a quantum and a half: the axis is marked beyond -1 and 1, and both its ends are.
    #[test]
    fn what_lies_a_little_beyond_one_is_marked_too() {
        let axis = Axis::fit(Scale::SymLog, [-1.4, 1.46].into_iter(), 300.0, UP);
        assert_eq!(axis.ticks(), [-1.5, -1.0, 0.0, 1.0, 1.5]);
        let axis = Axis::fit(Scale::SymLog, [-0.8, 25.13].into_iter(), 300.0, UP);
        assert_eq!(axis.ticks(), [-1.0, 0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    }

    #[test]
    fn logarithmic_axes_end_at_marks_however_short_they_are() {
        let ends = |low: f64, high: f64| {
            let ticks = Axis::fit(Scale::Log, [low, high].into_iter(), 300.0, UP).ticks();
            (ticks[0], ticks[ticks.len() - 1], ticks.len())
        };
        assert_eq!(ends(160.1, 160.1), (150.0, 200.0, 2));
        assert_eq!(ends(444.6, 608.7), (400.0, 800.0, 4));
        assert_eq!(ends(3.0, 700.0), (2.0, 1000.0, 9));
        assert_eq!(ends(3.0, 70_000.0), (1.0, 1e5, 6));
        // in half the room every third label is left
        assert_eq!(
            Axis::fit(Scale::Log, [3.0, 700.0].into_iter(), 100.0, UP).ticks(),
            [1.0, 10.0, 100.0, 1000.0]
        );
    }

    #[test]
    fn numbers_keep_the_digits_that_count() {
        let label = |value| Unit::Number.label(value);
        assert_eq!([label(-0.5), label(200_000.0), label(1e6), label(3.0)], ["-0.5", "200k", "1M", "3"]);
        assert_eq!([label(0.001), label(0.02), label(1e-9), label(0.0)], ["0.001", "0.02", "1e-9", "0"]);
        assert_eq!([Unit::TimeNs.label(1e4), Unit::TimeNs.label(2.5e9)], ["10 us", "2.5 s"]);
        assert_eq!([Unit::Part.label(0.001), Unit::Part.label(1.0)], ["0.1 %", "100 %"]);
        let ratio = |value| Unit::Ratio.label(value);
        assert_eq!([ratio(1.0), ratio(1.1), ratio(2.0), ratio(0.1)], ["same", "+10 %", "x 2", "x 1/10"]);
    }
}
