//! Is it a difference, and how large? Paired intervals by Student's t, and Holm's correction for asking many
//! questions at once.
//!
//! Every seed gives one run under each scheduler, on the same perturbed workload: a pair. What is estimated
//! is the mean difference within pairs, so that what the seeds do to both cancels out.
//!
//! ```
//! use schedlab_compare::stats::paired;
//! // Student's own data (1908): extra hours of sleep under two drugs, ten patients
//! let a = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
//! let b = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
//! let difference = paired(&a, &b, 0.95);
//! assert!((difference.mean - 1.58).abs() < 1e-9);
//! assert!((difference.low - 0.7001142).abs() < 1e-6 && (difference.high - 2.4598858).abs() < 1e-6);
//! assert!((difference.p - 0.0028329).abs() < 1e-6);
//! ```

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The interval's lower end; minus infinity for a single value.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Values.
    pub n: usize,
    /// Two-sided probability of a mean at least so far from zero if the true one is zero.
    pub p: f64,
}

impl Interval {
    /// Scaled by a positive factor.
    pub fn scaled(self, factor: f64) -> Interval {
        Interval { mean: self.mean * factor, low: self.low * factor, high: self.high * factor, ..self }
    }
}

/// Mean of the values, with the interval that covers the true mean at this confidence (0 to 1), by Student's t.
///
/// Values that are all equal leave no doubt: the interval is that point. One value leaves every doubt. No value: NaN.
pub fn mean(values: &[f64], confidence: f64) -> Interval {
    let n = values.len();
    let count = n as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let nothing_else = values.iter().all(|value| *value == values[0]);
    if n < 2 {
        return Interval { mean, low: f64::NEG_INFINITY, high: f64::INFINITY, n, p: 1.0 };
    }
    if nothing_else {
        let (mean, p) = (values[0], if values[0] == 0.0 { 1.0 } else { 0.0 });
        return Interval { mean, low: mean, high: mean, n, p };
    }
    let error = (squares / (count - 1.0) / count).sqrt();
    let t = StudentsT::new(0.0, 1.0, count - 1.0).expect("at least one degree of freedom");
    let reach = t.inverse_cdf(0.5 + confidence / 2.0) * error;
    let p = 2.0 * t.cdf(-(mean / error).abs());
    Interval { mean, low: mean - reach, high: mean + reach, n, p }
}

/// Mean of `b - a` within pairs.
pub fn paired(a: &[f64], b: &[f64], confidence: f64) -> Interval {
    assert_eq!(a.len(), b.len(), "pairs have two values");
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    mean(&differences, confidence)
}

/// Holm's step-down correction (1979): the chance that any of the corrected values falls below x without a
/// true difference is at most x.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(p[at] * (p.len() - rank) as f64).min(1.0);
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stdx::Random;

    /// Two-sided 95 % quantiles of Student's t, from the printed tables: 1, 4, 9, 19, 29 degrees of freedom.
    #[test]
    fn quantiles_are_the_tables() {
        for (n, quantile) in [(2, 12.706), (5, 2.776), (10, 2.262), (20, 2.093), (30, 2.045)] {
            // values -1 and 1 (and 0): standard error known
            let mut values = vec![0.0; n];
            (values[0], values[1]) = (-1.0, 1.0);
            let error = (2.0 / (n as f64 - 1.0) / n as f64).sqrt();
            let interval = mean(&values, 0.95);
            assert!((interval.high / error - quantile).abs() < 6e-4, "{n}: {}", interval.high / error);
        }
    }

    #[test]
    fn doubt_and_certainty() {
        let one = mean(&[3.0], 0.95);
        assert!(one.low.is_infinite() && one.high.is_infinite() && one.p == 1.0);
        let sure = paired(&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0], 0.95);
        assert_eq!((sure.low, sure.high, sure.p), (2.0, 2.0, 0.0));
        let same = paired(&[1.0, 5.0], &[1.0, 5.0], 0.95);
        assert_eq!((same.low, same.high, same.p), (0.0, 0.0, 1.0));
    }

    /// The example of Holm's method as R's `p.adjust(c(0.01, 0.02, 0.03, 0.005), "holm")` gives it.
    #[test]
    fn holm_is_holms() {
        let adjusted = holm(&[0.01, 0.02, 0.03, 0.005]);
        for (got, expected) in adjusted.iter().zip([0.03, 0.04, 0.04, 0.02]) {
            assert!((got - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    /// Of 2,000 intervals at 95 % from noise without a difference, about 1,900 hold zero: binomial, standard
    /// deviation 9.7; five of them.
    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut random = Random::new(5);
        // sum of twelve uniform numbers less six: close to normal
        let mut normal = || (0..12).map(|_| random.unit_f64()).sum::<f64>() - 6.0;
        let mut covered = 0;
        for _ in 0..2000 {
            let noise: Vec<f64> = (0..8).map(|_| normal()).collect();
            let interval = mean(&noise, 0.95);
            covered += u32::from(interval.low <= 0.0 && interval.high >= 0.0);
        }
        assert!((1852..=1948).contains(&covered), "{covered}");
    }
}
