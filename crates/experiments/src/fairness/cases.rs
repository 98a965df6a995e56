//! Random shares with a given sum.

use schedlab_stdx::Random;

/// How shares are spread before they are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Each uniform.
    Uniform,
    /// Each exponential: a few large ones, many small.
    Exponential,
    /// The k-th largest is 1/k of the largest (Zipf); who is the k-th is drawn.
    Zipf,
    /// All equal but one, which has half of all: the worst case of schedulers that serve in rounds.
    OneLarge,
    /// All equal (as far as the sum divides).
    Equal,
}

/// A name that is no spread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no distribution '{0}'; there are uniform, exponential, zipf, one-large, equal")]
pub struct ParseSpreadError(String);

impl Spread {
    const ALL: [Spread; 5] =
        [Spread::Uniform, Spread::Exponential, Spread::Zipf, Spread::OneLarge, Spread::Equal];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Spread::Uniform => "uniform",
            Spread::Exponential => "exponential",
            Spread::Zipf => "zipf",
            Spread::OneLarge => "one-large",
            Spread::Equal => "equal",
        }
    }
}

impl std::str::FromStr for Spread {
    type Err = ParseSpreadError;
    fn from_str(text: &str) -> Result<Spread, ParseSpreadError> {
        let found = Spread::ALL.into_iter().find(|spread| spread.name() == text);
        found.ok_or_else(|| ParseSpreadError(text.to_string()))
    }
}

/// `nr_clients` shares of at least 1 with sum `total` >= `nr_clients`. Each has 1; the rest is divided in
/// proportion to the drawn numbers, rounded down, and what rounding leaves goes to the largest remainders
/// (lower place first).
pub fn draw_shares(random: &mut Random, spread: Spread, nr_clients: usize, total: u64) -> Vec<u64> {
    let uniform = |random: &mut Random| 1 + random.below(1 << 32);
    let drawn: Vec<u64> = match spread {
        Spread::Uniform => (0..nr_clients).map(|_| uniform(random)).collect(),
        // -log2 in fixed point, by integer means only: equal on every machine
        Spread::Exponential => (0..nr_clients).map(|_| minus_log2(uniform(random))).collect(),
        Spread::Zipf => {
            let mut ranks: Vec<u64> = (1..=nr_clients as u64).collect();
            for place in (1..nr_clients).rev() {
                ranks.swap(place, random.below(place as u64 + 1) as usize);
            }
            ranks.into_iter().map(|rank| (1 << 32) / rank).collect()
        }
        Spread::OneLarge => {
            let large = random.below(nr_clients as u64) as usize;
            (0..nr_clients)
                .map(|client| if client == large { (nr_clients as u64 - 1).max(1) } else { 1 })
                .collect()
        }
        Spread::Equal => vec![1; nr_clients],
    };
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
        mantissa = (mantissa * mantissa) >> 63;
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
        for spread in Spread::ALL {
            assert_eq!(spread.name().parse(), Ok(spread));
            for _ in 0..2_000 {
                let nr_clients = 1 + random.below(130) as usize;
                let total = nr_clients as u64 + random.below(4096);
                let shares = draw_shares(&mut random, spread, nr_clients, total);
                assert_eq!(shares.iter().sum::<u64>(), total, "{spread:?}, {nr_clients} clients");
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

    /// Half for one; ranks 1, 2, 4 of Zipf as 4 : 2 : 1 (each has 1 first, which for large sums is nothing).
    #[test]
    fn drawn_shapes_are_as_named() {
        let mut random = Random::new(3);
        let mut one = draw_shares(&mut random, Spread::OneLarge, 9, 16_000_009);
        one.sort_unstable();
        assert_eq!((one[0], one[7], one[8]), (1_000_001, 1_000_001, 8_000_001));
        let mut zipf = draw_shares(&mut random, Spread::Zipf, 4, 25_000_000);
        zipf.sort_unstable();
        assert!((zipf[3] as f64 / 12_000_000.0 - 1.0).abs() < 1e-5 && zipf[2] / 1000 == 6_000, "{zipf:?}");
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
