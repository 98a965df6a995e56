//! How far may the truth lie from what was counted? Intervals that need no model of the noise.
//!
//! ```text
//! 0 of 4,000 jobs missed     0 to 0.096 %       Wilson (1927), which is no point at zero
//! median of 101 gaps         the 41st to the 61st, whatever their distribution
//! ```

use serde::Serialize;

/// Of a standard normal distribution, two-sided 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Samples.
    pub n: u64,
}

impl Estimate {
    /// Whether a value lies in the interval.
    pub fn holds(&self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }
}

/// The share of hits among `all`, with Wilson's interval; `None` of nothing.
pub fn wilson(hits: u64, all: u64) -> Option<Estimate> {
    if all == 0 {
        return None;
    }
    let (n, p) = (all as f64, hits as f64 / all as f64);
    let z2 = Z * Z;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let reach = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let low = if hits == 0 { 0.0 } else { (centre - reach).max(0.0) };
    let high = if hits == all { 1.0 } else { (centre + reach).min(1.0) };
    Some(Estimate { value: p, low, high, n: all })
}

/// The median of sorted values with the interval between two of them that holds the true median 95 times in
/// 100, by the binomial distribution's normal approximation; `None` with fewer than six values, for which
/// there is no such interval.
pub fn median(sorted: &[f64]) -> Option<Estimate> {
    let n = sorted.len();
    if n < 6 {
        return None;
    }
    let reach = Z * (n as f64).sqrt() / 2.0;
    let low = ((n as f64 / 2.0 - reach).floor().max(1.0) as usize) - 1;
    let high = ((n as f64 / 2.0 + 1.0 + reach).ceil() as usize).min(n) - 1;
    let middle = n / 2;
    let value = if n % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Some(Estimate { value, low: sorted[low], high: sorted[high], n: n as u64 })
}

/// The mean with its interval by Student's t, which needs at least three values here.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    if n < 3 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (n as f64 - 1.0) / n as f64).sqrt();
    let reach = student(n as u64 - 1) * error;
    Some(Estimate { value: mean, low: mean - reach, high: mean + reach, n: n as u64 })
}

/// Sum of the second by sum of the first of these pairs, with its interval: by Student's t over what each pair's second
/// differs from its share (the ratio estimator of sampling theory). Needs three pairs.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let n = pairs.len();
    let whole: f64 = pairs.iter().map(|pair| pair.0).sum();
    if n < 3 || whole <= 0.0 {
        return None;
    }
    let value = pairs.iter().map(|pair| pair.1).sum::<f64>() / whole;
    let squares: f64 = pairs.iter().map(|(all, part)| (part - value * all).powi(2)).sum();
    let error = (squares * n as f64 / (n as f64 - 1.0)).sqrt() / whole;
    let reach = student(n as u64 - 1) * error;
    Some(Estimate { value, low: value - reach, high: value + reach, n: n as u64 })
}

/// Two-sided 95 % of Student's t, by Cornish and Fisher's expansion: within 0.5 % from 3 degrees of freedom
/// on; exact values for 1 and 2.
pub(crate) fn student(degrees: u64) -> f64 {
    match degrees {
        0 | 1 => 12.706_205,
        2 => 4.302_653,
        _ => {
            let v = degrees as f64;
            let [z3, z5, z7] = [Z.powi(3), Z.powi(5), Z.powi(7)];
            let first = (z3 + Z) / 4.0 / v;
            let second = (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / 96.0 / v.powi(2);
            let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / 384.0 / v.powi(3);
            Z + first + second + third
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    #[test]
    fn wilson_is_as_published() {
        for (hits, all, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let found = wilson(hits, all).unwrap();
            assert!((found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4, "{found:?}");
        }
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(5, 5).unwrap().high, 1.0);
    }

    #[test]
    fn a_medians_interval_lies_between_two_values() {
        let values: Vec<f64> = (1..=101).map(f64::from).collect();
        let found = median(&values).unwrap();
        assert_eq!((found.value, found.low, found.high), (51.0, 40.0, 62.0));
        assert_eq!(median(&values[..5]), None);
    }

    #[test]
    fn students_t_is_as_in_the_tables() {
        for (degrees, t) in
            [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)]
        {
            assert!((student(degrees) / t - 1.0).abs() < 0.011, "{degrees}: {}", student(degrees));
        }
        let found = mean(&[1.0, 2.0, 3.0]).unwrap();
        assert!((found.high - 4.484).abs() < 0.01);
        // of equal wholes, a ratio is the mean of the shares
        let found = ratio(&[(2.0, 1.0), (2.0, 2.0), (2.0, 3.0)]).unwrap();
        assert!((found.value - 1.0).abs() < 1e-12 && (found.high - 2.242).abs() < 0.01, "{found:?}");
    }
}
