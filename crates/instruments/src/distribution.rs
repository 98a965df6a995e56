//! How are many lengths of time distributed? Count, sum and maximum exact; percentiles exact for few samples,
//! else within 1/128.
//!
//! The first 128 samples are kept as they are. Beyond that, samples are counted in buckets as HdrHistogram
//! has them: exact below 256 ns, then 128 buckets per power of two, so that a bucket is at most 1/128 of its
//! values wide. A percentile is the upper edge of its bucket, capped by the maximum: never too small, too
//! large by less than 0.8 %.
//!
//! Waits of seconds have 3,000 buckets, 25 KB. An hour's recording has 200,000 tasks, most with a few hundred
//! waits. So up to 2,048 samples are kept as the numbers of their buckets, two bytes each, and counted after
//! that. What is said of them is the same.
//!
//! ```
//! use schedlab_instruments::Distribution;
//! let mut waits = Distribution::default();
//! (1..=100).for_each(|ms| waits.add(ms * 1_000_000));
//! assert_eq!(waits.percentile_ns(500), 50_000_000); // the 50th of 100: half of all waits are at most 50 ms
//! assert_eq!(waits.percentile_ns(990), 99_000_000);
//! assert_eq!(waits.max_ns(), 100_000_000);
//! ```

use schedlab_stdx::percentile;

/// Lengths of time in ns, summarised in memory that does not grow with their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    samples: Samples,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Samples {
    Exact(Vec<u64>),
    /// The bucket of each, in the order in which they came.
    Few(Vec<u16>),
    /// Counts by bucket, up to the largest bucket in use.
    Many(Vec<u64>),
}

impl Default for Samples {
    fn default() -> Samples {
        Samples::Exact(Vec::new())
    }
}

/// Samples kept as they are.
const EXACT_MAX: u64 = 128;
/// Samples of which each has its bucket's number.
const FEW_MAX: u64 = 2048;
/// 2^7 buckets per power of two.
const SUB_BITS: u32 = 7;

fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

/// First and last value of a bucket.
fn bucket_range(index: usize) -> (u64, u64) {
    let shift = (index >> SUB_BITS).saturating_sub(1);
    let first = ((index - (shift << SUB_BITS)) as u64) << shift;
    (first, first + ((1 << shift) - 1))
}

#[inline]
fn count_in_bucket(counts: &mut Vec<u64>, bucket: usize, times: u64) {
    if counts.len() <= bucket {
        counts.resize(bucket + 1, 0);
    }
    counts[bucket] += times;
}

impl Distribution {
    /// Adds a sample. The sum of all samples must stay below 2^64 ns (584 years);
    /// [`summarize`](crate::summarize) sees to it.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        match &mut self.samples {
            Samples::Exact(samples) if self.count <= EXACT_MAX => samples.push(ns),
            Samples::Few(buckets) if self.count <= FEW_MAX => buckets.push(bucket(ns) as u16),
            Samples::Many(counts) => count_in_bucket(counts, bucket(ns), 1),
            _ => {
                self.make_room(self.count);
                self.put(bucket(ns), 1);
            }
        }
    }

    /// Adds samples of which only the bucket is known.
    fn put(&mut self, bucket: usize, times: u64) {
        match &mut self.samples {
            Samples::Exact(_) => unreachable!("room was made for buckets"),
            Samples::Few(buckets) => buckets.extend((0..times).map(|_| bucket as u16)),
            Samples::Many(counts) => count_in_bucket(counts, bucket, times),
        }
    }

    /// Goes over to the form in which so many samples are kept, which is more than there can be exact ones.
    #[cold]
    fn make_room(&mut self, count: u64) {
        let is_few = count <= FEW_MAX;
        if is_few && matches!(self.samples, Samples::Few(_)) || matches!(self.samples, Samples::Many(_)) {
            return;
        }
        let empty = if is_few { Samples::Few(Vec::new()) } else { Samples::Many(Vec::new()) };
        match std::mem::replace(&mut self.samples, empty) {
            Samples::Exact(samples) => samples.into_iter().for_each(|ns| self.put(bucket(ns), 1)),
            Samples::Few(buckets) => buckets.into_iter().for_each(|bucket| self.put(bucket.into(), 1)),
            Samples::Many(_) => unreachable!("there is no larger form"),
        }
    }

    /// Adds all samples of another distribution.
    pub fn merge(&mut self, other: &Distribution) {
        let count = self.count + other.count;
        if let (Samples::Exact(mine), Samples::Exact(others)) = (&mut self.samples, &other.samples)
            && count <= EXACT_MAX
        {
            mine.extend_from_slice(others);
        } else {
            self.make_room(count);
            match &other.samples {
                Samples::Exact(samples) => samples.iter().for_each(|ns| self.put(bucket(*ns), 1)),
                Samples::Few(buckets) => buckets.iter().for_each(|bucket| self.put((*bucket).into(), 1)),
                Samples::Many(counts) => {
                    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                        self.put(bucket, *count);
                    }
                }
            }
        }
        self.count = count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Sum in ns, exact.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
    /// Largest sample in ns, exact; 0 without samples.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }
    /// Mean in ns, rounded down; 0 without samples.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }
    /// Whether percentiles are exact (few samples).
    pub fn is_exact(&self) -> bool {
        matches!(self.samples, Samples::Exact(_))
    }

    /// The smallest value that at least `per_mille` of 1,000 samples do not exceed (nearest rank): 500 =
    /// median, 990 = p99. 0 without samples.
    pub fn percentile_ns(&self, per_mille: u32) -> u64 {
        let rank = percentile::rank(self.count, per_mille);
        match &self.samples {
            Samples::Exact(samples) => {
                let mut sorted = samples.clone();
                sorted.sort_unstable();
                percentile::nearest(&sorted, per_mille).unwrap_or(0)
            }
            Samples::Few(buckets) => {
                let mut buckets = buckets.clone();
                let (_, found, _) = buckets.select_nth_unstable(rank.saturating_sub(1) as usize);
                bucket_range((*found).into()).1.min(self.max_ns)
            }
            Samples::Many(_) => {
                let mut seen = 0;
                let mut answer = self.max_ns;
                self.for_each_bucket(|_, last, count| {
                    if seen < rank {
                        answer = last;
                    }
                    seen += count;
                });
                answer.min(self.max_ns)
            }
        }
    }

    /// The largest difference of the two shares of samples that are at most so long (Kolmogorov and Smirnov's
    /// statistic), 0 to 1; samples of at most `grain_ns` count as equal. `None`: one of them has no samples.
    ///
    /// Exact for few samples; else within the buckets' width, 1/128 of a value.
    ///
    /// ```
    /// use schedlab_instruments::Distribution;
    /// let of = |values: &[u64]| {
    ///     let mut d = Distribution::default();
    ///     values.iter().for_each(|ns| d.add(*ns));
    ///     d
    /// };
    /// assert_eq!(of(&[1, 2, 3, 4]).kolmogorov_smirnov(&of(&[3, 4, 5, 6]), 0), Some(0.5));
    /// assert_eq!(of(&[1, 2, 3, 4]).kolmogorov_smirnov(&of(&[3, 4, 5, 6]), 4), Some(0.5));
    /// assert_eq!(of(&[1, 2, 3, 4]).kolmogorov_smirnov(&of(&[3, 4, 5, 6]), 6), Some(0.0));
    /// assert_eq!(of(&[]).kolmogorov_smirnov(&of(&[3]), 0), None);
    /// ```
    pub fn kolmogorov_smirnov(&self, other: &Distribution, grain_ns: u64) -> Option<f64> {
        let edges = |d: &Distribution| {
            let mut edges: Vec<(u64, u64)> = Vec::new();
            // the same edges whether samples are kept or counted in buckets
            d.for_each_bucket(|first, _, count| {
                edges.push((bucket_range(bucket(first)).1.max(grain_ns), count))
            });
            edges
        };
        let exact = self.is_exact() && other.is_exact();
        let points = |d: &Distribution| match exact {
            false => edges(d),
            true => {
                let mut points = Vec::new();
                d.for_each_bucket(|first, _, count| points.push((first.max(grain_ns), count)));
                points
            }
        };
        if self.count == 0 || other.count == 0 {
            return None;
        }
        let (mine, others) = (points(self), points(other));
        let (mut i, mut j, mut seen, mut largest) = (0, 0, (0u64, 0u64), 0.0f64);
        while i < mine.len() || j < others.len() {
            let next = |points: &[(u64, u64)], at: usize| points.get(at).map_or(u64::MAX, |point| point.0);
            let edge = next(&mine, i).min(next(&others, j));
            while i < mine.len() && mine[i].0 == edge {
                seen.0 += mine[i].1;
                i += 1;
            }
            while j < others.len() && others[j].0 == edge {
                seen.1 += others[j].1;
                j += 1;
            }
            let difference = seen.0 as f64 / self.count as f64 - seen.1 as f64 / other.count as f64;
            largest = largest.max(difference.abs());
        }
        Some(largest)
    }

    /// Calls `f` with the first value, the last value and the number of samples of every bucket in use, in
    /// ascending order.
    pub fn for_each_bucket(&self, mut f: impl FnMut(u64, u64, u64)) {
        match &self.samples {
            Samples::Exact(samples) => {
                let mut sorted = samples.clone();
                sorted.sort_unstable();
                for equal in sorted.chunk_by(|a, b| a == b) {
                    f(equal[0], equal[0], equal.len() as u64);
                }
            }
            Samples::Few(buckets) => {
                let mut sorted = buckets.clone();
                sorted.sort_unstable();
                for equal in sorted.chunk_by(|a, b| a == b) {
                    let (first, last) = bucket_range(equal[0].into());
                    f(first, last, equal.len() as u64);
                }
            }
            Samples::Many(counts) => {
                for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    let (first, last) = bucket_range(index);
                    f(first, last, *count);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_numbers() {
        let mut next = 0u64;
        for index in 0..bucket(u64::MAX) {
            let (first, last) = bucket_range(index);
            assert_eq!((first, bucket(first), bucket(last)), (next, index, index));
            assert!(last - first <= first / 128, "bucket {first}..={last} is wider than 1/128");
            next = last + 1;
        }
        assert_eq!(bucket_range(bucket(u64::MAX)), (next, u64::MAX));
    }

    impl Distribution {
        fn buckets(&self) -> Vec<(u64, u64, u64)> {
            let mut all = Vec::new();
            self.for_each_bucket(|first, last, count| all.push((first, last, count)));
            all
        }
    }

    /// The form in which samples are kept changes nothing that is said of them.
    #[test]
    fn few_and_many_say_the_same() {
        let mut few = Distribution::default();
        (0..FEW_MAX).for_each(|n| few.add(n * n * 1000));
        let mut many = few.clone();
        many.make_room(FEW_MAX + 1);
        assert!(matches!((&few.samples, &many.samples), (Samples::Few(_), Samples::Many(_))));
        assert_eq!(few.buckets(), many.buckets());
        (0..=1000).for_each(|n| assert_eq!(few.percentile_ns(n), many.percentile_ns(n), "{n}"));
    }

    #[test]
    fn nothing_has_no_length() {
        let none = Distribution::default();
        assert_eq!((none.percentile_ns(990), none.mean_ns(), none.max_ns()), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn percentiles_are_the_nearest_rank_within_the_stated_error(
            samples in prop_oneof![
                proptest::collection::vec(0u64..1 << 40, 1..600),
                proptest::collection::vec(0u64..1 << 40, 1900..2200),
            ],
            small in 0u32..40,
            split in 0usize..2200,
            per_mille in 0u32..=1000,
        ) {
            let samples: Vec<u64> = samples.iter().map(|ns| ns >> small).collect();
            let split = split.min(samples.len());
            let mut whole = Distribution::default();
            let (mut left, mut right) = (Distribution::default(), Distribution::default());
            samples.iter().for_each(|ns| whole.add(*ns));
            samples[..split].iter().for_each(|ns| left.add(*ns));
            samples[split..].iter().for_each(|ns| right.add(*ns));
            left.merge(&right);
            prop_assert_eq!(left.buckets(), whole.buckets());
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let rank = (sorted.len() * per_mille as usize).div_ceil(1000).max(1);
            let exact = sorted[rank - 1];
            for d in [&whole, &left] {
                let found = d.percentile_ns(per_mille);
                prop_assert!(found >= exact && found - exact <= exact / 128, "{found} for {exact}");
                if d.is_exact() {
                    prop_assert_eq!(found, exact);
                }
                prop_assert_eq!(d.count(), samples.len() as u64);
                prop_assert_eq!(d.sum_ns(), samples.iter().sum::<u64>());
                prop_assert_eq!(Some(d.max_ns()), sorted.last().copied());
            }
        }
    }
}
