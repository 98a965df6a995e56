//! Which of the sorted samples is the 99th percentile? There are several definitions. The project has three,
//! each by name.
//!
//! ```text
//! samples 10 20 30 40       p50   p75   p99
//! nearest                    20    30    40  the smallest sample that at least this share of all do not exceed
//! interpolated               25  32.5  39.7  between two samples, in proportion (definition 7 of Hyndman and Fan 1996)
//! upper_median               30              the sample behind the middle
//! ```
//!
//! `nearest` is what every report means by p50, p90 and p99: it is a value that occurred.
//!
//! ```
//! use schedlab_stdx::percentile::{interpolated, nearest, rank, upper_median};
//! let samples = [10, 20, 30, 40];
//! assert_eq!(nearest(&samples, 750), Some(30));
//! assert_eq!(rank(4, 750), 3); // the third of the four
//! assert_eq!(interpolated(&samples.map(f64::from), 0.75), Some(32.5));
//! assert_eq!(upper_median(&samples), Some(30));
//! ```

/// The place, from 1, of a percentile among `count` sorted samples: the least that is at least `per_mille`
/// thousandths of `count`. 500 is the median, 990 the 99th percentile; more than 1000 counts as 1000. At
/// least 1.
pub fn rank(count: u64, per_mille: u32) -> u64 {
    let rank = (u128::from(count) * u128::from(per_mille.min(1000))).div_ceil(1000).max(1);
    u64::try_from(rank).expect("not more than the count, or 1")
}

/// The nearest-rank percentile of samples in ascending order: the smallest that at least `per_mille`
/// thousandths of them do not exceed. `None` without samples.
pub fn nearest<T: Copy>(sorted: &[T], per_mille: u32) -> Option<T> {
    sorted.get(rank(sorted.len() as u64, per_mille) as usize - 1).copied()
}

/// As [`nearest`], of values in ascending order that each occur `count` times.
pub fn nearest_counted<T: Copy>(
    counted: impl IntoIterator<Item = (T, u64)> + Clone,
    per_mille: u32,
) -> Option<T> {
    let all = counted.clone().into_iter().map(|(_, count)| count).sum();
    let (wanted, mut seen) = (rank(all, per_mille), 0);
    let mut reached = counted.into_iter().skip_while(|(_, count)| {
        seen += count;
        seen < wanted
    });
    reached.next().map(|(value, _)| value)
}

/// The places, from 0, of the two samples `share` of the way from the first to the last of `count`, and how
/// far from the one to the other: of 4 samples 0.75 is at (2, 3, 0.25). `None` without samples.
pub fn between(count: usize, share: f64) -> Option<(usize, usize, f64)> {
    let place = share * count.checked_sub(1)? as f64;
    Some((place.floor() as usize, place.ceil() as usize, place.fract()))
}

/// The value `share` of the way from the first to the last of samples in ascending order, between two of them
/// in proportion; `share` is from 0 to 1. `None` without samples.
pub fn interpolated(sorted: &[f64], share: f64) -> Option<f64> {
    let (low, high, part) = between(sorted.len(), share)?;
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}

/// The places, from 0, of the two among so many samples in ascending order between which the median of what they are
/// drawn from lies 95 times in 100, whatever its distribution: by the binomial distribution, and its normal
/// approximation from a thousand samples on. `None` of fewer than six, which have no such places.
fn median_places(count: usize) -> Option<(usize, usize)> {
    const MANY: usize = 1000;
    /// Of a standard normal distribution, two-sided 95 %.
    const Z: f64 = 1.959_963_984_540_054;
    let low = if count > MANY {
        let count = count as f64;
        (count / 2.0 - Z * count.sqrt() / 2.0).floor() as usize
    } else {
        // how many of the least samples may be left out: that at most so many lie below the median has 2.5 %
        let mut chance = 0.5f64.powi(count as i32);
        let (mut sum, mut left_out) = (chance, 0);
        while sum <= 0.025 {
            chance *= (count - left_out) as f64 / (left_out + 1) as f64;
            sum += chance;
            left_out += 1;
        }
        left_out
    };
    low.checked_sub(1).map(|low| (low, count - 1 - low))
}

/// The 95 % interval of the median of what these samples, in ascending order, are drawn from; `None` of fewer than six.
pub fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    median_places(sorted.len()).map(|(low, high)| (sorted[low], sorted[high]))
}

/// The sample in the middle of those in ascending order; of an even number the second of the two. `None`
/// without samples.
pub fn upper_median<T: Copy>(sorted: &[T]) -> Option<T> {
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(
            (nearest::<u64>(&[], 500), interpolated(&[], 0.5), upper_median::<u64>(&[])),
            (None, None, None)
        );
        assert_eq!(nearest_counted::<u64>([], 500), None);
        assert_eq!(rank(0, 990), 1);
        assert_eq!(rank(u64::MAX, 2000), u64::MAX);
    }

    /// Printed tables (Conover, table A3; ranks from 1): 6 samples 1 and 6, 10: 2 and 9, 20: 6 and 15, 100: 40 and 61.
    #[test]
    fn a_medians_places_are_the_tables() {
        for (count, places) in
            [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (20, (6, 15)), (100, (40, 61))]
        {
            let (low, high) = median_places(count).expect("six or more");
            assert_eq!((low + 1, high + 1), places, "{count}");
        }
        assert_eq!((0..6).filter_map(median_places).count(), 0);
        // both ways agree where they meet
        let ([below, above], reach) = ([1000, 1001].map(|n| median_places(n).unwrap().0), 1);
        assert!(below.abs_diff(above) <= reach, "{below} {above}");
    }

    #[test]
    fn an_even_number_of_samples_has_the_lower_median() {
        assert_eq!([500, 501, 990].map(|share| nearest(&[1, 2, 3, 4], share)), [Some(2), Some(3), Some(4)]);
        assert_eq!(between(4, 0.75), Some((2, 3, 0.25)));
    }

    #[test]
    fn one_hundred_samples_have_their_own_numbers() {
        let samples: Vec<u64> = (1..=100).collect();
        for per_cent in 1..=100 {
            assert_eq!(nearest(&samples, per_cent * 10), Some(u64::from(per_cent)));
        }
        assert_eq!(
            (nearest(&samples, 0), nearest(&samples, 1), nearest(&samples, 999)),
            (Some(1), Some(1), Some(100))
        );
    }

    proptest! {
        #[test]
        fn nearest_is_what_its_definition_says(
            mut samples in prop::collection::vec(0u64..9, 1..40),
            per_mille in 1u32..=1000,
        ) {
            samples.sort_unstable();
            let not_more = |value: u64| samples.iter().filter(|sample| **sample <= value).count() as u64 * 1000;
            let enough = |value: &u64| not_more(*value) >= samples.len() as u64 * u64::from(per_mille);
            let expected = samples.iter().copied().find(enough);
            prop_assert_eq!(nearest(&samples, per_mille), expected);
            let counted = samples.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64));
            prop_assert_eq!(nearest_counted(counted, per_mille), expected);
        }

        #[test]
        fn interpolated_lies_between_two_samples(
            mut samples in prop::collection::vec(-9.0f64..9.0, 1..40),
            share in 0.0f64..=1.0,
        ) {
            samples.sort_by(f64::total_cmp);
            let value = interpolated(&samples, share).unwrap();
            let rounding = 1e-12;
            prop_assert!(samples[0] - rounding <= value && value <= samples[samples.len() - 1] + rounding);
            prop_assert_eq!(interpolated(&samples, 0.0), Some(samples[0]));
            prop_assert_eq!(interpolated(&samples, 1.0), samples.last().copied());
        }
    }
}
