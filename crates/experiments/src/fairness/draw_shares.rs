//! Random shares with a given sum.

use schedlab_units::Random;

/// How shares are spread before they are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Each uniform.
    Uniform,
    /// Each exponential: a few large ones, many small.
    Exponential,
}

/// `nr_clients` shares of at least 1 with sum `total` >= `nr_clients`. Each has 1; the rest is divided in proportion to the drawn
/// numbers, rounded down, and what rounding leaves goes to the largest remainders (lower place first).
pub fn draw_shares(random: &mut Random, spread: Spread, nr_clients: usize, total: u64) -> Vec<u64> {
    let drawn: Vec<u64> = (0..nr_clients)
        .map(|_| {
            let uniform = 1 + random.below(1 << 32);
            match spread {
                Spread::Uniform => uniform,
                // -log2 in fixed point, by integer means only: equal on every machine
                Spread::Exponential => minus_log2(uniform),
            }
        })
        .collect();
    let rest = u128::from(total - nr_clients as u64);
    let sum: u128 = drawn.iter().map(|&x| u128::from(x)).sum::<u128>().max(1);
    let mut shares: Vec<u64> = drawn.iter().map(|&x| 1 + (u128::from(x) * rest / sum) as u64).collect();
    let left = total - shares.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..nr_clients).collect();
    by_remainder.sort_by_key(|&i| (std::cmp::Reverse(u128::from(drawn[i]) * rest % sum), i));
    by_remainder.iter().take(left as usize).for_each(|&i| shares[i] += 1);
    shares
}

/// -log2(x / 2^32) with 24 fractional bits, x in 1..=2^32: the whole part by the leading bit, the rest by squaring.
fn minus_log2(x: u64) -> u64 {
    let whole = 63 - x.leading_zeros();
    let mut mantissa = u128::from(x) << (63 - whole); // in [2^63, 2^64)
    let mut fraction = 0u64;
    for _ in 0..24 {
        mantissa = mantissa * mantissa >> 63;
        fraction <<= 1;
        if mantissa >= 1 << 64 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    (32 << 24) - (u64::from(whole) << 24 | fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_none_is_zero() {
        let mut random = Random::new(1);
        for spread in [Spread::Uniform, Spread::Exponential] {
            for _ in 0..2_000 {
                let nr_clients = 1 + random.below(130) as usize;
                let total = nr_clients as u64 + random.below(4096);
                let shares = draw_shares(&mut random, spread, nr_clients, total);
                assert_eq!(shares.iter().sum::<u64>(), total);
                assert!(shares.len() == nr_clients && shares.iter().all(|&share| share >= 1));
            }
        }
    }

    #[test]
    fn logarithms_are_right() {
        for x in [1, 2, 3, 1000, 1 << 31, (1 << 32) - 1, 1 << 32] {
            let exact = 32.0 - (x as f64).log2();
            assert!((minus_log2(x) as f64 / (1 << 24) as f64 - exact).abs() < 1e-6, "{x}");
        }
    }

    /// Mean of the largest of n uniform shares: n/(n+1) of the range, so about 2 total/(n+1) after scaling.
    #[test]
    fn uniform_shares_have_the_expected_maximum() {
        let mut random = Random::new(2);
        let largest =
            (0..2000).map(|_| *draw_shares(&mut random, Spread::Uniform, 50, 10_000).iter().max().unwrap());
        let mean = largest.sum::<u64>() as f64 / 2000.0;
        assert!((mean / (2.0 * 10_000.0 / 51.0) - 1.0).abs() < 0.03, "{mean}");
    }
}
