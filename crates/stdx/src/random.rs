//! Random numbers that are the same on every machine, for ever: nothing random enters a run but through a seed.
//!
//! SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): 64 bits of
//! state, one addition and one mixing function per number. Good enough to draw workloads, shares and lottery
//! tickets; not for secrets.
//!
//! ```
//! let mut random = schedlab_stdx::Random::new(0);
//! assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF); // the published first value for seed 0
//! ```

/// A generator; equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A generator for part `index` of a job with this seed: parts drawn in any order or in parallel give the
    /// same numbers.
    pub fn for_part(seed: u64, index: u64) -> Random {
        let mut outer = Random::new(seed);
        let seed = outer.next_u64();
        let mut inner = Random::new(seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Random::new(inner.next_u64())
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number in `0..bound`, each equally likely (Lemire's multiplication with rejection). `bound` is not zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `0.0..1.0`.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of the elements.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Puts the elements into a random order, each equally likely (Fisher-Yates).
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_published_ones() {
        let mut random = Random::new(1_234_567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!([(); 4].map(|()| random.next_u64()), expected);
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut random = Random::new(1);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[random.below(6) as usize] += 1);
        // binomial(60000, 1/6): standard deviation 91; 5 of them
        assert!(counts.iter().all(|&count| (9_544..=10_456).contains(&count)), "{counts:?}");
    }

    #[test]
    fn parts_differ_and_repeat() {
        let first = |seed, part| Random::for_part(seed, part).next_u64();
        assert_eq!(first(7, 3), first(7, 3));
        assert!(first(7, 3) != first(7, 4) && first(7, 3) != first(8, 3));
    }
}
