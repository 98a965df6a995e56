//! How would it be on a CPU twice as fast, or with users half as busy? CPU times and sleeps times a factor.
//!
//! ```text
//! cpu 0.5, sleep 2:     BLOCK 4ms, WAKEUP 6ms   ->   BLOCK 2ms, WAKEUP 12ms
//! ```
//!
//! Products are rounded down to whole ns, exactly (no floating point): so lengths stay in order, and the
//! place of a wakeup stays between the same two events of its waker. Deadline parameters and limits of groups
//! stay as they are.

use super::Edit;
use crate::stream::{Head, Source};
use crate::{Event, EventKind, ObjectOp, Wakeup};
use schedlab_units::{Span, TaskId};
use std::fmt;
use std::str::FromStr;

/// A factor, exactly as written: `0.1` is one tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    numerator: u64,
    denominator: u64,
}

/// A text that is no factor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a factor; expected a number from 0 to 1000000 with at most 9 decimals, such as 0.5 or 2, or a \
        fraction such as 1/3"
)]
pub struct FactorError(String);

/// No factor is larger.
const FACTOR_MAX: u64 = 1_000_000;

impl Factor {
    /// No change.
    pub const ONE: Factor = Factor { numerator: 1, denominator: 1 };

    /// The product, rounded down; at most 2^64 - 1 ns.
    pub fn apply(self, span: Span) -> Span {
        let product = u128::from(span.as_ns()) * u128::from(self.numerator) / u128::from(self.denominator);
        Span::from_ns(u64::try_from(product).unwrap_or(u64::MAX))
    }
}

impl FromStr for Factor {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Factor, FactorError> {
        let fail = || FactorError(text.to_string());
        let digits = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if plain { text.parse::<u64>().map_err(|_| fail()) } else { Err(fail()) }
        };
        let factor = if let Some((numerator, denominator)) = text.split_once('/') {
            Factor { numerator: digits(numerator)?, denominator: digits(denominator)? }
        } else {
            let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
            if decimals.len() > 9 {
                return Err(fail());
            }
            let denominator = 10u64.pow(decimals.len() as u32);
            let numerator =
                digits(whole)?.checked_mul(denominator).and_then(|n| n.checked_add(digits(decimals).ok()?));
            digits(decimals)?;
            Factor { numerator: numerator.ok_or_else(fail)?, denominator }
        };
        let too_large = factor.numerator / factor.denominator.max(1) > FACTOR_MAX;
        if factor.denominator == 0 || too_large { Err(fail()) } else { Ok(factor) }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Factor { numerator, denominator } = *self;
        let power_of_ten = (0..10).any(|n| 10u64.pow(n) == denominator);
        if power_of_ten {
            write!(f, "{}", numerator as f64 / denominator as f64)
        } else {
            write!(f, "{numerator}/{denominator}")
        }
    }
}

/// Times of a workload's tasks, each with factors of its own.
#[derive(Clone, Debug)]
pub struct Scale {
    head: Head,
    /// Per row: of CPU times, of sleeps.
    factors: Vec<(Factor, Factor)>,
}

impl Scale {
    /// CPU times and sleeps of the tasks with `rows` set times `cpu` and `sleep`.
    pub fn new(source: &Source, rows: &[bool], cpu: Factor, sleep: Factor) -> Scale {
        let factors = rows.iter().map(|&meant| if meant { (cpu, sleep) } else { (Factor::ONE, Factor::ONE) });
        Scale { head: source.head().clone(), factors: factors.collect() }
    }

    /// As [`Scale::new`], with factors per row.
    pub(crate) fn with(head: Head, factors: Vec<(Factor, Factor)>) -> Scale {
        Scale { head, factors }
    }

    fn of(&self, row: TaskId) -> (Factor, Factor) {
        self.factors.get(row.0 as usize).copied().unwrap_or((Factor::ONE, Factor::ONE))
    }

    fn event(&self, row: TaskId, event: &mut Event) {
        let (cpu, sleep) = self.of(row);
        match &mut event.kind {
            EventKind::Fork { length, .. }
            | EventKind::Prio { length, .. }
            | EventKind::Yield { length }
            | EventKind::Exec { length }
            | EventKind::Call { length }
            | EventKind::Block { length }
            | EventKind::Exit { length } => *length = cpu.apply(*length),
            EventKind::Object { length, op, .. } => {
                *length = cpu.apply(*length);
                if let ObjectOp::Tick { period, .. } = op {
                    *period = sleep.apply(*period);
                }
            }
            EventKind::Wakeup(Wakeup::External { after, .. }) => *after = sleep.apply(*after),
            EventKind::Wakeup(Wakeup::Dependent { recorded_after, task, distance, .. }) => {
                *recorded_after = sleep.apply(*recorded_after);
                *distance = self.of(*task).0.apply(*distance);
            }
        }
    }
}

impl Edit for Scale {
    fn head(&self) -> &Head {
        &self.head
    }

    fn run(&mut self, row: TaskId, events: &mut Vec<Event>) -> Option<TaskId> {
        events.iter_mut().for_each(|event| self.event(row, event));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_what_they_say() {
        for (text, ns) in
            [("0.1", 100), ("1", 1000), ("2.5", 2500), ("1/3", 333), ("0", 0), ("1000000", 1_000_000_000)]
        {
            assert_eq!(text.parse::<Factor>().unwrap().apply(Span::from_ns(1000)).as_ns(), ns, "{text}");
        }
        // 10 ms x 0.7 is 7 ms, which the nearest double below 0.7 would miss
        assert_eq!("0.7".parse::<Factor>().unwrap().apply(Span::from_ms(10)), Span::from_ms(7));
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "1e3",
            "0.1234567890",
            "1/0",
            "1/",
            "1000001",
            "a",
            "99999999999999999999",
        ] {
            assert!(text.parse::<Factor>().is_err(), "{text}");
        }
        assert_eq!(
            ["0.25", "1/3", "2"].map(|text| text.parse::<Factor>().unwrap().to_string()),
            ["0.25", "1/3", "2"]
        );
        assert_eq!("1000000".parse::<Factor>().unwrap().apply(Span::MAX), Span::MAX);
    }
}
