//! Simulated time: instants ([`Time`]) and lengths ([`Span`]), both integer nanoseconds.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// An instant of simulated time, in ns since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Time(u64);

/// A length of time in ns; what of (CPU time, elapsed time) the name beside it says.
///
/// Text form: an integer or decimal with a unit, `250us`, `1.5ms`, `20s`; a bare number is ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than everything: "no event planned".
    pub const NEVER: Time = Time(u64::MAX);
    /// The instant `ns` nanoseconds after the start.
    #[inline]
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }
    /// Nanoseconds since the start.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Seconds since the start, for people and statistics only.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
    /// Time from `earlier` to here; zero if `earlier` is in fact later.
    #[inline]
    pub const fn saturating_since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// This much later, or [`Time::NEVER`] if that cannot be represented.
    #[inline]
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than any run.
    pub const MAX: Span = Span(u64::MAX);
    /// `ns` nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns)
    }
    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us * 1_000)
    }
    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }
    /// `s` seconds.
    pub const fn from_s(s: u64) -> Span {
        Span(s * 1_000_000_000)
    }
    /// Nanoseconds.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Seconds, for people and statistics only.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
    /// Milliseconds, for people and statistics only.
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }
    /// The difference, or zero if `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// The sum, or `None` past 2^64 ns (584 years).
    pub const fn checked_add(self, other: Span) -> Option<Span> {
        match self.0.checked_add(other.0) {
            Some(ns) => Some(Span(ns)),
            None => None,
        }
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}
impl Sub for Time {
    type Output = Span;
    #[inline]
    fn sub(self, earlier: Time) -> Span {
        Span(self.0 - earlier.0)
    }
}
impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}
impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, other: Span) -> Span {
        Span(self.0 - other.0)
    }
}
impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Span) {
        self.0 += other.0;
    }
}
impl SubAssign for Span {
    #[inline]
    fn sub_assign(&mut self, other: Span) {
        self.0 -= other.0;
    }
}
impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

/// The shortest exact form: `4ms`, `1500us`, `17ns`, `0ns`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let text = match ns {
            0 => "0ns".to_string(),
            _ if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
            _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
            _ if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
            _ => format!("{ns}ns"),
        };
        f.pad(&text)
    }
}

/// Why a text is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSpanError {
    text: String,
    problem: &'static str,
}

impl fmt::Display for ParseSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a duration: {}; write for example 500ns, 250us, 1.5ms or 20s",
            self.text, self.problem
        )
    }
}
impl std::error::Error for ParseSpanError {}

impl std::str::FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Span, ParseSpanError> {
        let fail = |problem| ParseSpanError { text: text.to_string(), problem };
        let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits_end);
        let unit_ns: u64 = match unit.trim_start() {
            "" | "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(fail("unknown unit")),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(fail("no number"));
        }
        if fraction.contains('.') {
            return Err(fail("two decimal points"));
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| fail("too large"))? };
        let mut ns = whole.checked_mul(unit_ns).ok_or_else(|| fail("too large"))?;
        let mut scale_ns = unit_ns;
        for digit in fraction.bytes() {
            if !scale_ns.is_multiple_of(10) {
                if digit == b'0' {
                    continue;
                }
                return Err(fail("finer than 1 ns"));
            }
            scale_ns /= 10;
            let add = u64::from(digit - b'0').checked_mul(scale_ns).ok_or_else(|| fail("too large"))?;
            ns = ns.checked_add(add).ok_or_else(|| fail("too large"))?;
        }
        Ok(Span(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_parse_with_every_unit() {
        for (text, ns) in [
            ("7", 7),
            ("7ns", 7),
            ("1.5us", 1500),
            ("4ms", 4_000_000),
            ("20s", 20_000_000_000),
            ("2min", 120_000_000_000),
            ("0.25 s", 250_000_000),
            (".5ms", 500_000),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().as_ns(), ns, "{text}");
        }
    }

    #[test]
    fn bad_spans_say_what_is_wrong() {
        for (text, problem) in [
            ("", "no number"),
            ("4 weeks", "unknown unit"),
            ("-3ms", "unknown unit"),
            ("1.2.3s", "two decimal points"),
            ("0.5ns", "finer than 1 ns"),
            ("99999999999999999999", "too large"),
            ("18446744074s", "too large"),
        ] {
            let error = text.parse::<Span>().unwrap_err();
            assert_eq!(error.problem, problem, "{text}");
        }
    }

    #[test]
    fn spans_print_shortest_and_parse_back() {
        for ns in [0, 1, 999, 1_000, 1_500_000, 4_000_000, 20_000_000_000, u64::MAX] {
            let span = Span::from_ns(ns);
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
        assert_eq!(Span::from_ns(4_000_000).to_string(), "4ms");
    }
}
