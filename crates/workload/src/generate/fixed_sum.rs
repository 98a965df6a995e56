//! Which utilisations have this sum, each within these bounds, all such sets equally likely?
//!
//! UUniFast draws evenly among sets with a given sum but no bounds, and must discard those that break them;
//! with tight bounds it never ends. RandFixedSum (Roger Stafford 2006; for task sets: Emberson, Stafford and
//! Davis, "Techniques for the Synthesis of Multiprocessor Tasksets", WATERS 2010) draws evenly among those
//! that keep the bounds: the part of the plane `x1 + ... + xn = s` within the cube `[0, 1]^n` is cut into
//! simplices of equal volume; a walk through a table of transitions chooses one with the right probability,
//! and a point in it is drawn evenly.
//!
//! ```text
//! n = 2, s = 1.5:     x1 evenly in [0.5, 1], x2 = 1.5 - x1
//! n = 3, s = 1.5:     (x1, x2, x3) evenly in a regular hexagon
//! ```

use super::rng::Rng;

/// `n` numbers from `low` to `high` that add up to `sum`, drawn evenly; `n low <= sum <= n high`, `low <
/// high` or all equal.
pub fn rand_fixed_sum(n: u32, sum: f64, low: f64, high: f64, rng: &mut Rng) -> Vec<f64> {
    let n = n as usize;
    if n == 0 {
        return Vec::new();
    }
    let width = high - low;
    if n == 1 || width <= 0.0 {
        return vec![sum / n as f64; n];
    }
    // scaled to the unit cube
    let s = ((sum - n as f64 * low) / width).clamp(0.0, n as f64);
    let k = (s.floor() as usize).min(n - 1);
    let mut x = unit_cube(n, s.clamp(k as f64, k as f64 + 1.0), k, rng);
    // the walk treats coordinates in a fixed order: shuffled, they are alike
    for last in (1..n).rev() {
        let other = ((1.0 - rng.unit()) * (last + 1) as f64) as usize;
        x.swap(last, other.min(last));
    }
    x.iter_mut().for_each(|x| *x = low + width * x.clamp(0.0, 1.0));
    x
}

/// Stafford's algorithm in his notation; `k = floor(s)`, below n.
fn unit_cube(n: usize, s: f64, k: usize, rng: &mut Rng) -> Vec<f64> {
    let s1: Vec<f64> = (0..n).map(|i| s - (k as f64 - i as f64)).collect();
    let s2: Vec<f64> = (0..n).map(|i| (k + n - i) as f64 - s).collect();
    // w: volumes of the simplices, scaled so that they do not vanish; t: the probability of each step of the walk
    let mut w = vec![vec![0.0; n + 1]; n];
    w[0][1] = f64::MAX;
    let mut t = vec![vec![0.0; n]; n - 1];
    for i in 2..=n {
        for j in 0..i {
            let step1 = w[i - 2][j + 1] * s1[j] / i as f64;
            let step2 = w[i - 2][j] * s2[n - i + j] / i as f64;
            w[i - 1][j + 1] = step1 + step2;
            let all = w[i - 1][j + 1] + f64::MIN_POSITIVE;
            t[i - 2][j] = if s2[n - i + j] > s1[j] { step2 / all } else { 1.0 - step1 / all };
        }
    }
    let mut x = vec![0.0; n];
    let (mut rest, mut column, mut sum, mut product) = (s, k + 1, 0.0, 1.0);
    for i in (1..n).rev() {
        let step = if rng.unit() <= t[i - 1][column - 1] { 1.0 } else { 0.0 };
        let shrink = libm::pow(rng.unit(), 1.0 / i as f64);
        sum += (1.0 - shrink) * product * rest / (i as f64 + 1.0);
        product *= shrink;
        x[n - i - 1] = sum + product * step;
        rest -= step;
        column -= step as usize;
    }
    x[n - 1] = sum + product * rest;
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 20_000;

    /// Largest distance between what was drawn and the distribution function.
    fn distance(mut drawn: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        drawn.sort_by(f64::total_cmp);
        let n = drawn.len() as f64;
        let both =
            |(i, &x): (usize, &f64)| (cdf(x) - i as f64 / n).abs().max((cdf(x) - (i + 1) as f64 / n).abs());
        drawn.iter().enumerate().map(both).fold(0.0, f64::max)
    }

    fn sets(n: u32, sum: f64, low: f64, high: f64) -> Vec<Vec<f64>> {
        (0..N as u64).map(|stream| rand_fixed_sum(n, sum, low, high, &mut Rng::new(11, stream))).collect()
    }

    // once in a thousand seeds a right generator is further off (Kolmogorov and Smirnov)
    const CRITICAL: f64 = 1.95;

    #[test]
    fn sums_are_exact_and_bounds_are_kept() {
        for (n, sum, low, high) in [
            (2, 1.5, 0.0, 1.0),
            (3, 1.5, 0.0, 1.0),
            (5, 4.99, 0.0, 1.0),
            (10, 2.5, 0.05, 0.6),
            (50, 20.0, 0.1, 0.9),
            (7, 0.7, 0.1, 0.2),
        ] {
            for set in sets(n, sum, low, high).iter().take(2000) {
                let total: f64 = set.iter().sum();
                assert!((total - sum).abs() < 1e-12 * f64::from(n).max(1.0) * 10.0, "{total} of {sum}");
                assert!(set.iter().all(|x| (low..=high).contains(x)), "{set:?}");
            }
        }
        assert_eq!(rand_fixed_sum(1, 0.5, 0.0, 1.0, &mut Rng::new(1, 1)), [0.5]);
        assert_eq!(rand_fixed_sum(3, 0.6, 0.2, 0.2, &mut Rng::new(1, 1)).len(), 3);
        assert!(rand_fixed_sum(0, 0.0, 0.0, 1.0, &mut Rng::new(1, 1)).is_empty());
    }

    // two numbers: one is even on the segment that the cube leaves
    #[test]
    fn two_numbers_are_even_on_their_segment() {
        for (sum, from, to) in [(0.6, 0.0, 0.6), (1.0, 0.0, 1.0), (1.5, 0.5, 1.0)] {
            for which in 0..2 {
                let drawn = sets(2, sum, 0.0, 1.0).iter().map(|set| set[which]).collect();
                let off = distance(drawn, |x| ((x - from) / (to - from)).clamp(0.0, 1.0));
                assert!(off < CRITICAL / (N as f64).sqrt(), "sum {sum}: {off}");
            }
        }
    }

    // three numbers, sum 1.5: even in the hexagon; the density of one is the length of what is left for the other two,
    // t = 1.5 - x in [0.5, 1.5]: proportional to t up to 1 and to 2 - t beyond
    #[test]
    fn three_numbers_are_even_in_their_hexagon() {
        let area = |t: f64| if t <= 1.0 { t * t / 2.0 } else { 0.5 + (t - 1.0) * 2.0 - (t * t - 1.0) / 2.0 };
        let (least, most) = (area(0.5), area(1.5));
        let cdf = |x: f64| ((most - area((1.5 - x).clamp(0.5, 1.5))) / (most - least)).clamp(0.0, 1.0);
        for which in 0..3 {
            let off = distance(sets(3, 1.5, 0.0, 1.0).iter().map(|set| set[which]).collect(), cdf);
            assert!(off < CRITICAL / (N as f64).sqrt(), "coordinate {which}: {off}");
        }
        // and a sum below 1 leaves a triangle: P(x1 < x) = 1 - (1 - x/s)^2, as UUniFast draws it
        let off = distance(sets(3, 0.8, 0.0, 1.0).iter().map(|set| set[0]).collect(), |x| {
            1.0 - (1.0 - (x / 0.8).clamp(0.0, 1.0)).powi(2)
        });
        assert!(off < CRITICAL / (N as f64).sqrt(), "{off}");
        let uunifast =
            (0..N as u64).map(|stream| super::super::uunifast(3, 0.8, &mut Rng::new(5, stream))[0]).collect();
        let off = distance(uunifast, |x| 1.0 - (1.0 - (x / 0.8).clamp(0.0, 1.0)).powi(2));
        assert!(off < CRITICAL / (N as f64).sqrt(), "UUniFast: {off}");
    }
}
