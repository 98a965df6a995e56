//! How long? Distributions of times, each drawn from one or two uniform numbers by a formula.
//!
//! ```text
//! "6ms"                                                              always 6 ms
//! { uniform = { min = "1ms", max = "3ms" } }                         min + (max - min) u
//! { exponential = { mean = "10ms" } }                                -mean ln u
//! { pareto = { min = "1ms", shape = 1.05, max = "100s" } }           min u^(-1/shape), cut at max; P(length > T) = (min/T)^shape
//! { log_normal = { median = "1ms", sigma = 1.2 } }                   median e^(sigma n), n standard normal (Box and Muller 1958)
//! ```
//!
//! Pareto with a shape of 1.05 to 1.25 is the law of process lifetimes that the WARP paper cites (section II), near 1/T.

use super::rng::Rng;
use super::{GenerateError, duration};
use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// A distribution of lengths of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a duration such as \"4ms\", or one of { uniform = { min, max } }, { exponential = { mean } }, \
                 { pareto = { min, shape, max } }, { log_normal = { median, sigma } }"
)]
pub enum Distribution {
    /// Always the same.
    Fixed(#[serde(with = "duration")] Span),
    /// Drawn.
    Drawn(Drawn),
}

/// The distributions proper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    /// Evenly between two lengths.
    Uniform {
        /// Shortest.
        #[serde(with = "duration")]
        min: Span,
        /// Longest.
        #[serde(with = "duration")]
        max: Span,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        #[serde(with = "duration")]
        mean: Span,
    },
    /// Heavy tail.
    Pareto {
        /// Shortest.
        #[serde(with = "duration")]
        min: Span,
        /// Exponent; at 1 or below there is no mean.
        shape: f64,
        /// Longer ones are cut to this.
        #[serde(with = "duration")]
        max: Span,
    },
    /// The logarithm is normal.
    LogNormal {
        /// Half are shorter.
        #[serde(with = "duration")]
        median: Span,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// No single length is longer (about 11 days); keeps sums of many within 64 bits.
const LENGTH_MAX: Span = Span::from_s(1_000_000);

impl Distribution {
    /// Always `span`.
    pub fn fixed(span: Span) -> Distribution {
        Distribution::Fixed(span)
    }

    /// Whether the parameters make sense; `name` is the field in the error.
    pub(super) fn check(&self, name: &'static str) -> Result<(), GenerateError> {
        let fail = |value: String, expected| Err(GenerateError::Parameter { name, value, expected });
        let positive = |number: f64| number.is_finite() && number > 0.0;
        match *self {
            Distribution::Fixed(span) if span > LENGTH_MAX => fail(span.to_string(), "at most 1000000s"),
            Distribution::Drawn(Drawn::Uniform { min, max }) if min > max || max > LENGTH_MAX => {
                fail(format!("{min} to {max}"), "min <= max <= 1000000s")
            }
            Distribution::Drawn(Drawn::Exponential { mean }) if mean > LENGTH_MAX => {
                fail(mean.to_string(), "a mean of at most 1000000s")
            }
            Distribution::Drawn(Drawn::Pareto { min, max, .. })
                if min == Span::ZERO || min > max || max > LENGTH_MAX =>
            {
                fail(format!("{min} to {max}"), "0 < min <= max <= 1000000s")
            }
            Distribution::Drawn(Drawn::Pareto { shape, .. }) if !positive(shape) => {
                fail(shape.to_string(), "a shape above 0, such as 1.05")
            }
            Distribution::Drawn(Drawn::LogNormal { median, .. }) if median > LENGTH_MAX => {
                fail(median.to_string(), "a median of at most 1000000s")
            }
            Distribution::Drawn(Drawn::LogNormal { sigma, .. }) if !(sigma.is_finite() && sigma >= 0.0) => {
                fail(sigma.to_string(), "a sigma of 0 or more")
            }
            _ => Ok(()),
        }
    }

    /// Draws a length, rounded to ns.
    pub fn draw(&self, rng: &mut Rng) -> Span {
        let ns = |span: Span| span.as_ns() as f64;
        let length_ns = match *self {
            Distribution::Fixed(span) => return span,
            Distribution::Drawn(Drawn::Uniform { min, max }) => ns(min) + (ns(max) - ns(min)) * rng.unit(),
            Distribution::Drawn(Drawn::Exponential { mean }) => -ns(mean) * libm::log(rng.unit()),
            Distribution::Drawn(Drawn::Pareto { min, shape, max }) => {
                (ns(min) * libm::pow(rng.unit(), -1.0 / shape)).min(ns(max))
            }
            Distribution::Drawn(Drawn::LogNormal { median, sigma }) => {
                let radius = libm::sqrt(-2.0 * libm::log(rng.unit()));
                let normal = radius * libm::cos(2.0 * std::f64::consts::PI * rng.unit());
                ns(median) * libm::exp(sigma * normal)
            }
        };
        Span::from_ns(libm::round(length_ns.clamp(0.0, ns(LENGTH_MAX))) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 100_000;

    fn sorted(distribution: Drawn) -> Vec<f64> {
        let mut rng = Rng::new(42, 0);
        let distribution = Distribution::Drawn(distribution);
        let mut lengths: Vec<f64> = (0..N).map(|_| distribution.draw(&mut rng).as_ms_f64()).collect();
        lengths.sort_by(f64::total_cmp);
        lengths
    }

    fn assert_near(value: f64, expected: f64, relative: f64) {
        assert!((value / expected - 1.0).abs() < relative, "{value}, expected {expected}");
    }

    #[test]
    fn quantiles_follow_the_formulas() {
        let ms = Span::from_ms;
        let quantile = |lengths: &[f64], q: f64| lengths[(q * N as f64) as usize];
        let uniform = sorted(Drawn::Uniform { min: ms(10), max: ms(30) });
        let exponential = sorted(Drawn::Exponential { mean: ms(10) });
        let pareto = sorted(Drawn::Pareto { min: ms(1), shape: 1.05, max: Span::from_s(1000) });
        let log_normal = sorted(Drawn::LogNormal { median: ms(10), sigma: 0.5 });
        // tolerance: 5 standard errors of the quantile at most
        for q in [0.1f64, 0.5, 0.9] {
            assert_near(quantile(&uniform, q), 10.0 + 20.0 * q, 0.02);
            assert_near(quantile(&exponential, q), -10.0 * (1.0 - q).ln(), 0.05);
            assert_near(quantile(&pareto, q), (1.0 - q).powf(-1.0 / 1.05), 0.05);
        }
        // standard normal quantiles 0.1, 0.5, 0.9: -1.28155, 0, 1.28155
        for (q, z) in [(0.1, -1.28155f64), (0.5, 0.0), (0.9, 1.28155)] {
            assert_near(quantile(&log_normal, q), 10.0 * (0.5 * z).exp(), 0.03);
        }
        assert_near(exponential.iter().sum::<f64>() / N as f64, 10.0, 0.02);
    }

    #[test]
    fn the_extremes_stay_in_range() {
        let wild = [
            Drawn::Pareto { min: Span::from_ns(1), shape: 0.01, max: Span::from_s(9) },
            Drawn::LogNormal { median: Span::from_s(1), sigma: 300.0 },
            Drawn::Exponential { mean: LENGTH_MAX },
        ];
        for drawn in wild {
            Distribution::Drawn(drawn).check("x").unwrap();
            let mut rng = Rng::new(1, 1);
            assert!((0..1000).all(|_| Distribution::Drawn(drawn).draw(&mut rng) <= LENGTH_MAX));
        }
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let s = Span::from_s;
        for drawn in [
            Drawn::Uniform { min: s(2), max: s(1) },
            Drawn::Pareto { min: s(0), shape: 1.0, max: s(1) },
            Drawn::Pareto { min: s(1), shape: 0.0, max: s(2) },
            Drawn::Pareto { min: s(1), shape: f64::NAN, max: s(2) },
            Drawn::LogNormal { median: s(1), sigma: -1.0 },
            Drawn::LogNormal { median: s(1), sigma: f64::INFINITY },
        ] {
            assert!(Distribution::Drawn(drawn).check("service").is_err(), "{drawn:?}");
        }
    }
}
