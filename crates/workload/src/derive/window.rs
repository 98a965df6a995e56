//! Which part of a recording is taken, in the recording's own time?
//!
//! ```text
//! recording    100.0 s ├──────────────────────────────┤ 160.0 s
//! --from 120 --to 130               ├────┤                as if it had been begun and ended then
//! ```
//!
//! What came before is not looked at: who was on a CPU, what a task was called and how it was set is what events
//! within the window tell, and the snapshot beside the recording, which is of its start.

use std::fmt;
use std::str::FromStr;

/// An instant of a recording's own clock, as tools print it: seconds with up to 9 decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceTime(pub u64);

impl fmt::Display for TraceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl FromStr for TraceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<TraceTime, String> {
        let bad =
            || format!("'{text}' is not a time of a recording: seconds as tools print them, 12345.678901");
        let number = text.strip_suffix('s').unwrap_or(text);
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 9 {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let part: u64 = format!("{part:0<9}").parse().map_err(|_| bad())?;
        let ns = whole.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(part));
        ns.map(TraceTime).ok_or_else(bad)
    }
}

/// A part of a recording; both ends belong to it. The default is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// From when on; `None`: from the first event.
    pub from: Option<TraceTime>,
    /// Until when; `None`: to the last event.
    pub to: Option<TraceTime>,
}

/// A window that a recording does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// It ends before it begins.
    #[error("the part from {from} to {to} is empty: --to is to be later than --from")]
    Empty {
        /// Its begin.
        from: TraceTime,
        /// Its end.
        to: TraceTime,
    },
    /// One of its ends is not in the recording.
    #[error("{end} {asked} is outside the recording, which holds {first} to {last}: give a time within")]
    Outside {
        /// `--from` or `--to`.
        end: &'static str,
        /// The time given.
        asked: TraceTime,
        /// The recording's first event.
        first: TraceTime,
        /// Its last.
        last: TraceTime,
    },
    /// There is nothing in the recording.
    #[error("the recording holds no event, and so no part of it can be taken")]
    NoEvents,
}

impl Window {
    /// Whether it is all of a recording.
    pub fn is_all(&self) -> bool {
        *self == Window::default()
    }

    /// Whether an instant belongs to it.
    pub fn holds(&self, time_ns: u64) -> bool {
        self.from.is_none_or(|from| from.0 <= time_ns) && self.to.is_none_or(|to| time_ns <= to.0)
    }

    /// Whether it begins before it ends.
    ///
    /// # Errors
    /// [`WindowError::Empty`].
    pub fn check(&self) -> Result<(), WindowError> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if to <= from => Err(WindowError::Empty { from, to }),
            _ => Ok(()),
        }
    }

    /// Whether a recording with these times of its first and last event has it.
    ///
    /// # Errors
    /// [`WindowError::Outside`], [`WindowError::NoEvents`].
    pub fn check_within(&self, extent: Option<(u64, u64)>) -> Result<(), WindowError> {
        if self.is_all() {
            return Ok(());
        }
        let (first, last) = extent.ok_or(WindowError::NoEvents)?;
        for (end, asked) in [("--from", self.from), ("--to", self.to)] {
            if let Some(asked) = asked.filter(|asked| !(first..=last).contains(&asked.0)) {
                let (first, last) = (TraceTime(first), TraceTime(last));
                return Err(WindowError::Outside { end, asked, first, last });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_tools_print_them() {
        for (text, ns) in [("12345.678901", 12_345_678_901_000), ("7", 7_000_000_000), ("0.000000001s", 1)] {
            assert_eq!(text.parse(), Ok(TraceTime(ns)));
        }
        assert_eq!(TraceTime(12_345_678_901_000).to_string(), "12345.678901000");
        for text in
            ["", "1.", ".5", "-1", "1.0000000001", "1e3", "5ms", "99999999999999999999", "20000000000"]
        {
            assert!(text.parse::<TraceTime>().unwrap_err().contains("12345.678901"), "{text}");
        }
    }

    #[test]
    fn both_ends_belong_to_a_window_and_lie_in_the_recording() {
        let window = |from, to| Window { from: Some(TraceTime(from)), to: Some(TraceTime(to)) };
        assert_eq!([9, 10, 20, 21].map(|ns| window(10, 20).holds(ns)), [false, true, true, false]);
        assert_eq!(
            window(20, 20).check(),
            Err(WindowError::Empty { from: TraceTime(20), to: TraceTime(20) })
        );
        assert_eq!(window(10, 20).check_within(Some((10, 20))), Ok(()));
        let end = |window: Window| match window.check_within(Some((10, 20))) {
            Err(WindowError::Outside { end, .. }) => end,
            other => panic!("{other:?}"),
        };
        assert_eq!((end(window(9, 20)), end(window(10, 21))), ("--from", "--to"));
        assert_eq!(window(10, 20).check_within(None), Err(WindowError::NoEvents));
        assert_eq!(Window::default().check_within(None), Ok(()));
    }
}
