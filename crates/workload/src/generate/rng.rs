//! Random numbers: xoshiro256** (Blackman and Vigna 2018), seeded by [`schedlab_stdx::Random`].
//!
//! Ours, because a generator of a library may change from version to version, and then a seed would not name
//! a workload any more. Nothing here depends on the machine: integers only, and logarithms from a software
//! library.

use schedlab_stdx::Random;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Stream number `stream` of `seed`. Give every task and purpose a stream of its own: then one more task,
    /// or one more draw, leaves all the others as they were.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut mix = Random::new(Random::new(seed).next_u64().wrapping_add(stream));
        Rng { state: std::array::from_fn(|_| mix.next_u64()) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in (0, 1]: never 0, so that its logarithm exists.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_gives_the_numbers_of_the_reference_code() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!([(); 4].map(|()| rng.bits()), [11520, 0, 1509978240, 1215971899390074240]);
    }

    #[test]
    fn the_unit_interval_is_filled_evenly() {
        let mut rng = Rng::new(1, 0);
        let n = 100_000;
        let mut tenths = [0; 10];
        for _ in 0..n {
            let unit = rng.unit();
            assert!(unit > 0.0 && unit <= 1.0);
            tenths[((unit * 10.0) as usize).min(9)] += 1;
        }
        // each is binomial with standard deviation 95
        assert!(tenths.iter().all(|&count: &i32| (count - 10_000).abs() < 500), "{tenths:?}");
    }
}
