//! How fast does virtual time pass at a weight? With the kernel's rounding, so that a schedule can agree with
//! Linux to the ns.
//!
//! CPU time `d` at weight `w` is `d x 1024 / w` of virtual time. Linux multiplies with an inverse, 2^32 / w
//! as a whole number, of which it keeps as many upper bits as fit 32; what is lost is less than 2^-26 of the
//! result, and decides who of two is a ns ahead.
//!
//! ```text
//! weight 335 (nice 5): 1 ms of CPU time is 3,056,716 ns of virtual time; the inverse is 12,820,798, and 1024 times
//! that fits 34 bits: two are dropped
//! ```
//!
//! *Source*: the arithmetic of Linux's fair class (2.6.32 to 6.12), restated.

use schedlab_units::{NICE_0_WEIGHT, Span};

/// Weights whose inverse in the kernel's table is one less than 2^32 / w rounded (nice 13, 14, 16 and 17).
const ONE_LESS: [u64; 4] = [56, 45, 29, 23];

/// A factor as a fraction of a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    factor: u32,
    shift: u32,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate::of(NICE_0_WEIGHT.0)
    }
}

impl Rate {
    /// Virtual time per CPU time of a task of this weight, which is not 0.
    pub(crate) fn of(weight: u64) -> Rate {
        let inverse = ((1 << 32) + weight / 2) / weight - u64::from(ONE_LESS.contains(&weight));
        Rate::new(NICE_0_WEIGHT.0 * inverse)
    }

    /// The part that `weight` is of `load`, the sum of a queue's weights, which is not 0.
    pub(crate) fn part(weight: u64, load: u64) -> Rate {
        Rate::new(weight * (u64::from(u32::MAX) / load))
    }

    /// `product` / 2^32.
    fn new(product: u64) -> Rate {
        let above = 64 - (product >> 32).leading_zeros();
        Rate { factor: (product >> above) as u32, shift: 32 - above }
    }

    /// Applied to a time.
    #[inline]
    pub(crate) fn times(self, span: Span) -> u64 {
        ((u128::from(span.as_ns()) * u128::from(self.factor)) >> self.shift) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_units::Nice;

    /// Factor and shift as they follow by hand from the kernel's table of inverses (nice -20: 48388, 0:
    /// 4194304, 5: 12820798, 13: 76695844, 19: 286331153).
    #[test]
    fn inverses_are_those_of_the_kernel() {
        for (nice, inverse) in
            [(-20, 48_388u64), (0, 1 << 22), (5, 12_820_798), (13, 76_695_844), (19, 286_331_153)]
        {
            let weight = Nice::new(nice).unwrap().weight().0;
            let product = 1024 * inverse;
            let dropped = 64 - u64::leading_zeros(product >> 32);
            assert_eq!(
                Rate::of(weight),
                Rate { factor: (product >> dropped) as u32, shift: 32 - dropped },
                "nice {nice}"
            );
        }
        assert_eq!(Rate::of(335).times(Span::from_ms(1)), 3_056_716);
        assert_eq!(Rate::of(1024).times(Span::from_ns(u64::MAX >> 1)), u64::MAX >> 1);
    }

    #[test]
    fn close_to_the_exact_quotient() {
        for nice in -20..=19 {
            let weight = Nice::new(nice).unwrap().weight().0;
            for ns in [1_u64, 999, 1_000_000, 123_456_789_012] {
                let exact = ns as f64 * 1024.0 / weight as f64;
                let here = Rate::of(weight).times(Span::from_ns(ns)) as f64;
                assert!(
                    (here - exact).abs() <= exact * 2f64.powi(-26) + 1.0,
                    "nice {nice}, {ns} ns: {here}, exactly {exact}"
                );
            }
        }
        assert_eq!(Rate::part(1024, 3 * 1024).times(Span::from_ms(6)), 1_999_999);
    }
}
