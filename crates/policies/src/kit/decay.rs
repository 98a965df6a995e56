//! Exponential decay in whole numbers: `x * 2^(-t / half_life)`, the same on every computer.
//!
//! Half of 1,000 after one half-life is 500; after half of one, 707.

use schedlab_units::Span;

/// 2^(-2^-k) for k = 1..=24, in units of 2^-62: each the square root of the one before, of 1/2 at first.
const ROOTS: [u64; 24] = roots();

const ONE: u64 = 1 << 62;

const fn roots() -> [u64; 24] {
    let mut table = [0; 24];
    let mut value = ONE / 2;
    let mut k = 0;
    while k < table.len() {
        value = sqrt_q62(value);
        table[k] = value;
        k += 1;
    }
    table
}

/// Square root of a number below 1 in units of 2^-62: the largest r with r * r <= value * 2^62.
const fn sqrt_q62(value: u64) -> u64 {
    let target = (value as u128) << 62;
    let (mut low, mut high) = (0u128, ONE as u128);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle <= target {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low as u64
}

/// `value` after `elapsed`, rounded down; exact to about 2^-24 of the exponent's fraction.
pub(crate) fn decay(value: u64, elapsed: Span, half_life: Span) -> u64 {
    let whole = elapsed.as_ns() / half_life.as_ns();
    if whole >= 64 || value == 0 {
        return 0;
    }
    let rest = elapsed.as_ns() % half_life.as_ns();
    let fraction = ((u128::from(rest) << ROOTS.len()) / u128::from(half_life.as_ns())) as u64;
    let mut factor = ONE;
    for (k, &root) in ROOTS.iter().enumerate() {
        if fraction >> (ROOTS.len() - 1 - k) & 1 == 1 {
            factor = ((u128::from(factor) * u128::from(root)) >> 62) as u64;
        }
    }
    ((u128::from(value) * u128::from(factor)) >> 62) as u64 >> whole
}
