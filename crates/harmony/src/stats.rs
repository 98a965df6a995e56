//! How sure may one be? Shares with their intervals, the length of a period from when its ends are met, the chance
//! that draws are uniform.
//!
//! ```
//! use schedlab_harmony::stats::{share, uniform_chance, uniform_max};
//! // 10 of 10: at least 72 % (Wilson, 95 %)
//! assert!((share(10, 10).low - 0.7225).abs() < 1e-4);
//! // the largest of 19 draws from 0 to P is 95: P is 100 in the mean, and with 97.5 % no more than 115.4
//! let draws: Vec<f64> = (1..=19).map(|n| 5.0 * f64::from(n)).collect();
//! let period = uniform_max(&draws);
//! assert_eq!(period.mean, 100.0);
//! assert!((period.low - 95.13).abs() < 0.01 && (period.high - 115.36).abs() < 0.01);
//! assert!(uniform_chance(&draws, 100.0) > 0.9);
//! ```

/// A value with the ends of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The value.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A share of `n` with Wilson's interval at 95 %; of nothing: anything from 0 to 1.
pub fn share(k: usize, n: usize) -> Range {
    if n == 0 {
        return Range { mean: 0.5, low: 0.0, high: 1.0 };
    }
    const Z: f64 = 1.959_964;
    let (k, n) = (k as f64, n as f64);
    let p = k / n;
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let reach = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    Range { mean: p, low: (centre - reach).max(0.0), high: (centre + reach).min(1.0) }
}

/// The chance of `k` or fewer of `n`, each with a chance of `p` (binomial).
pub fn at_most(k: usize, n: usize, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    // each term from the one before: none, then one more
    let mut term = (1.0 - p).powi(n as i32);
    let mut sum = term;
    for i in 0..k {
        term *= (n - i) as f64 / (i as f64 + 1.0) * p / (1.0 - p);
        sum += term;
    }
    sum.min(1.0)
}

/// Student's 95 % interval of a mean.
pub fn mean(values: &[f64]) -> Range {
    let interval = schedlab_compare::stats::mean(values, 0.95);
    Range { mean: interval.mean, low: interval.low, high: interval.high }
}

/// The middle value, with the order statistics that hold the true one in 95 % of cases (normal approximation of the
/// binomial).
pub fn median(values: &[f64]) -> Range {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return Range { mean: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    let reach = 0.98 * (n as f64).sqrt();
    let low = (n as f64 / 2.0 - reach).floor().max(0.0) as usize;
    let high = ((n as f64 / 2.0 + reach).ceil() as usize).min(n - 1);
    let middle = if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 };
    Range { mean: middle, low: sorted[low], high: sorted[high] }
}

/// The end of a range of which these were drawn: at least the largest, and with 95 % at most 19 times the gap to the
/// next one above it (Robson and Whitlock, "Estimation of a truncation point", Biometrika 51, 1964).
///
/// ```
/// let end = schedlab_harmony::stats::largest(&[10.0, 30.0, 29.0]);
/// assert_eq!((end.low, end.high), (30.0, 49.0));
/// ```
pub fn largest(values: &[f64]) -> Range {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [.., next, most] = sorted[..] else { return Range { mean: f64::NAN, low: f64::NAN, high: f64::NAN } };
    Range { mean: most, low: most, high: most + 19.0 * (most - next) }
}

/// The period of which these are times from a random instant to its next end: uniform from 0 to the period. The
/// interval leaves out a chance of 2.5 % on either side.
pub fn uniform_max(values: &[f64]) -> Range {
    let n = values.len() as f64;
    let max = values.iter().copied().fold(0.0, f64::max);
    Range {
        mean: max * (n + 1.0) / n,
        low: max / 0.975_f64.powf(1.0 / n),
        high: max / 0.025_f64.powf(1.0 / n),
    }
}

/// The chance of draws at least so unevenly spread from 0 to `limit`, if they are uniform (Kolmogorov and Smirnov).
pub fn uniform_chance(values: &[f64], limit: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let apart = sorted.iter().enumerate().map(|(index, value)| {
        let expected = (value / limit).clamp(0.0, 1.0);
        let rank = index as f64;
        (expected - rank / n).abs().max(((rank + 1.0) / n - expected).abs())
    });
    let distance = apart.fold(0.0, f64::max);
    let lambda = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    if lambda < 0.2 {
        return 1.0;
    }
    let term = |j: f64| (-2.0 * j * j * lambda * lambda).exp() * if j as u32 % 2 == 1 { 2.0 } else { -2.0 };
    (1..=100).map(|j| term(f64::from(j))).sum::<f64>().clamp(0.0, 1.0)
}

/// The value around which most lie within `tolerance` (relative), and the share of all that does.
pub fn mode(values: &[f64], tolerance: f64) -> Option<(f64, f64)> {
    let near =
        |centre: f64| values.iter().filter(|value| (**value - centre).abs() <= tolerance * centre).count();
    // of equals the smallest
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let best = sorted.iter().copied().rev().max_by_key(|value| near(*value))?;
    Some((best, near(best) as f64 / values.len() as f64))
}

/// The chance that two sets of values are at least so different in rank if there is no difference (Mann and Whitney,
/// ties corrected, normal approximation).
pub fn rank_chance(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len() as f64, b.len() as f64);
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|value| (*value, true)).collect();
    all.extend(b.iter().map(|value| (*value, false)));
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut ranks_of_a, mut ties, mut first) = (0.0, 0.0, 0);
    while first < all.len() {
        let last = all[first..].iter().take_while(|entry| entry.0 == all[first].0).count() + first;
        let size = (last - first) as f64;
        let rank = (first as f64 + 1.0 + last as f64) / 2.0;
        ranks_of_a += rank * all[first..last].iter().filter(|entry| entry.1).count() as f64;
        ties += size * size * size - size;
        first = last;
    }
    let total = n + m;
    let u = ranks_of_a - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)).max(1.0));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    libm::erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_the_tables() {
        // two-sided 5 % of the normal distribution
        assert!((libm::erfc(1.959_964 / std::f64::consts::SQRT_2) - 0.05).abs() < 1e-6);
        // complete separation of 10 and 10: U = 0, z = (50 - 0.5) / 13.229 = 3.742, chance 1.83e-4
        let (a, b): (Vec<f64>, Vec<f64>) = (0..10).map(|n| (f64::from(n), f64::from(n + 10))).unzip();
        assert!((rank_chance(&a, &b) - 1.83e-4).abs() < 2e-6, "{}", rank_chance(&a, &b));
        assert_eq!(rank_chance(&a, &a), 1.0);
        // all at one place are not uniform
        assert!(uniform_chance(&[0.5; 20], 1.0) < 0.001);
        assert_eq!(mode(&[60.0, 60.0, 61.0, 124.0], 0.05), Some((60.0, 0.75)));
        // 8 of 10 at nine in ten: 1 - 0.9^10 - 10 x 0.9^9 x 0.1 = 0.2639
        assert!((at_most(8, 10, 0.9) - 0.2639).abs() < 1e-4 && at_most(10, 10, 0.9) == 1.0);
        assert!((at_most(1, 3, 0.9) - 0.028).abs() < 1e-12, "0.1^3 + 3 x 0.9 x 0.1^2");
        let middle = median(&[5.0, 1.0, 3.0]);
        assert_eq!((middle.mean, middle.low, middle.high), (3.0, 1.0, 5.0));
    }
}
