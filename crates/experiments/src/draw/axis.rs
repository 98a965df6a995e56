//! From values to places: linear, logarithmic, and logarithmic on both sides of zero.

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

impl Scale {
    fn warp(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(1e-12).log10(),
            Scale::SymLog if value.abs() <= 1.0 => value,
            Scale::SymLog => value.signum() * (1.0 + value.abs().log10()),
        }
    }
}

/// An axis from `low` to `high` over `length` pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Between ticks, if linear.
    step: f64,
    length: f64,
}

impl Axis {
    /// Fits the values; linear axes end at round numbers.
    pub(crate) fn fit(scale: Scale, values: impl Iterator<Item = f64>, length: f64) -> Axis {
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low == high {
            (low, high) = (low - low.abs().max(1.0) * 0.5, high + high.abs().max(1.0) * 0.5);
        }
        if scale == Scale::Log {
            low = low.max(1e-12);
            high = high.max(low * 1.01);
        }
        let step = step(high - low);
        if scale == Scale::Linear {
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        }
        Axis { scale, low, high, step, length }
    }

    /// The place of a value, from the axis's beginning.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.warp(self.low), self.scale.warp(self.high));
        (self.scale.warp(value) - low) / (high - low) * self.length
    }

    /// Values to mark.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let inside = |value: &f64| {
            *value >= self.low * (1.0 - 1e-9) - 1e-12 && *value <= self.high * (1.0 + 1e-9) + 1e-12
        };
        match self.scale {
            Scale::Linear => {
                let first = (self.low / self.step).round() as i64;
                let last = (self.high / self.step).round() as i64;
                (first..=last).map(|k| k as f64 * self.step).collect()
            }
            Scale::Log => {
                let decades: Vec<f64> = (-12..=15).map(|e| 10f64.powi(e)).collect();
                let whole: Vec<f64> = decades.iter().copied().filter(inside).collect();
                if whole.len() >= 4 {
                    return whole;
                }
                let finer = decades.iter().flat_map(|d| [*d, 2.0 * d, 5.0 * d]);
                finer.filter(inside).collect()
            }
            Scale::SymLog => {
                let mut ticks = vec![-1.0, 0.0, 1.0];
                (1..=12).map(|e| 10f64.powi(e)).for_each(|decade| ticks.extend([-decade, decade]));
                let mut ticks: Vec<f64> =
                    ticks.into_iter().filter(|t| *t >= self.low && *t <= self.high).collect();
                ticks.sort_by(f64::total_cmp);
                ticks
            }
        }
    }
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

/// A tick's text: 1000 as 1k.
pub(crate) fn label(value: f64) -> String {
    let size = value.abs();
    let plain = |number: f64| {
        let text = format!("{number:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        text.to_string()
    };
    match size {
        _ if size >= 1e9 => plain(value / 1e9) + "G",
        _ if size >= 1e6 => plain(value / 1e6) + "M",
        _ if size >= 1e4 => plain(value / 1e3) + "k",
        _ => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_place_and_mark() {
        let linear = Axis::fit(Scale::Linear, [0.3, 9.7].into_iter(), 100.0);
        assert_eq!((linear.at(0.0), linear.at(10.0)), (0.0, 100.0));
        assert_eq!(linear.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let log = Axis::fit(Scale::Log, [1.0, 1000.0].into_iter(), 90.0);
        assert!((log.at(10.0) - 30.0).abs() < 1e-9);
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        let both = Axis::fit(Scale::SymLog, [-100.0, 100.0].into_iter(), 60.0);
        assert!((both.at(0.0) - 30.0).abs() < 1e-9 && (both.at(1.0) - 40.0).abs() < 1e-9);
        assert_eq!(both.ticks(), [-100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0]);
        assert_eq!([label(-0.5), label(200_000.0), label(1e6), label(3.0)], ["-0.5", "200k", "1M", "3"]);
    }
}
