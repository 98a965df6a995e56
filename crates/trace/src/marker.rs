//! How does a trace tell what changes nothing in the schedule, and what no event holds (affinity masks,
//! deadline parameters)? By a line of text that a run of ours was exported with: an ftrace `print` event (as
//! `trace_marker` makes it) in the task's context, which trace-cmd, KernelShark and Perfetto show.
//!
//! ```text
//! make-812 [001]  3.141592653: print: 0 schedlab: wakes 813 before it sleeps (17)
//! cc1-813  [000]  3.141600000: print: 0 schedlab: need not sleep, woken already (17)
//! cc1-813  [000]  3.141700000: print: 0 schedlab: sets 815: policy=fifo prio=50 affinity=0-3
//! ```
//!
//! A recording of a real system has none: there such things are not to be seen.

use crate::comm::CommTable;
use crate::event::{Pid, SchedEvent};
use std::fmt;

/// What a line says of the task in whose context it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// It wakes another one that does not sleep yet.
    Early {
        /// Whom.
        wakee: Pid,
        /// Which wakeup of the run.
        wakeup: u64,
    },
    /// It would block, but this wakeup has come already.
    Awake {
        /// The one of an [`Marker::Early`].
        wakeup: u64,
    },
    /// It would block until a time that has passed.
    TimeHasCome,
    /// It yields and runs on.
    Yield,
    /// Not of the task of the context: this one is runnable from the start of the trace.
    Start {
        /// Which.
        pid: Pid,
    },
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Marker::OURS)?;
        match self {
            Marker::Early { wakee, wakeup } => write!(f, "wakes {wakee} before it sleeps ({wakeup})"),
            Marker::Awake { wakeup } => write!(f, "need not sleep, woken already ({wakeup})"),
            Marker::TimeHasCome => f.write_str("need not sleep, its time has come"),
            Marker::Yield => f.write_str("yields and runs on"),
            Marker::Start { pid } => write!(f, "{pid} is runnable from the start"),
        }
    }
}

impl Marker {
    /// What every line of ours begins with.
    pub(crate) const OURS: &str = "schedlab: ";

    /// From the text of a `print` event, up to its end or a new line; `None`: not one of ours.
    pub fn parse(text: &[u8]) -> Option<Marker> {
        let rest = text.strip_prefix(Marker::OURS.as_bytes())?;
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(rest.len());
        let rest = std::str::from_utf8(&rest[..end]).ok()?.trim_end();
        let pid = |text: &str| text.parse().ok().filter(|pid| *pid > 0).map(Pid);
        let number = |text: &str| text.strip_suffix(')')?.parse().ok();
        if let Some(wakeup) = rest.strip_prefix("need not sleep, woken already (") {
            return Some(Marker::Awake { wakeup: number(wakeup)? });
        }
        if let Some(rest) = rest.strip_prefix("wakes ") {
            let (wakee, wakeup) = rest.split_once(" before it sleeps (")?;
            return Some(Marker::Early { wakee: pid(wakee)?, wakeup: number(wakeup)? });
        }
        match rest {
            "need not sleep, its time has come" => Some(Marker::TimeHasCome),
            "yields and runs on" => Some(Marker::Yield),
            _ => Some(Marker::Start { pid: pid(rest.strip_suffix(" is runnable from the start")?)? }),
        }
    }
}

/// The line by which a trace tells settings that no other event does: what the task of the context sets of
/// `pid`, or (`born`) what that one, just forked, begins with. `words` are those of a PRIO in a workload's
/// text: `nice=5`, `policy=fifo prio=50 affinity=0-3 cgroup=/batch`.
pub fn settings_line(pid: Pid, born: bool, words: &str) -> String {
    if born {
        format!("{}{pid} begins with: {words}", Marker::OURS)
    } else {
        format!("{}sets {pid}: {words}", Marker::OURS)
    }
}

/// What the text of a `print` event says, if the line is one of ours.
pub(crate) fn event(text: &[u8], comms: &mut CommTable) -> Option<SchedEvent> {
    match Marker::parse(text) {
        Some(marker) => Some(SchedEvent::Marker(marker)),
        None => settings(text).map(|(pid, born, words)| {
            let words = comms.intern_long(words);
            SchedEvent::Settings { pid, born, words }
        }),
    }
}

/// A [`settings_line`]: whose, at birth, the words.
fn settings(text: &[u8]) -> Option<(Pid, bool, &[u8])> {
    let rest = text.strip_prefix(Marker::OURS.as_bytes())?;
    let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(rest.len());
    let rest = &rest[..end];
    let colon = memchr::memmem::find(rest, b": ")?;
    let (head, words) = (&rest[..colon], rest[colon + 2..].trim_ascii_end());
    let (number, born) = match head.strip_prefix(b"sets ") {
        Some(number) => (number, false),
        None => (head.strip_suffix(b" begins with")?, true),
    };
    let pid = std::str::from_utf8(number).ok()?.parse().ok().filter(|pid| *pid > 0)?;
    Some((Pid(pid), born, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_written() {
        let words = "policy=fifo prio=50 affinity=0-3 cgroup=\"/a: b\"";
        for born in [false, true] {
            let line = settings_line(Pid(813), born, words);
            assert_eq!(settings(format!("{line}\n\0x").as_bytes()), Some((Pid(813), born, words.as_bytes())));
            assert_eq!(Marker::parse(line.as_bytes()), None, "{line}");
        }
        for line in
            ["schedlab: sets -1: nice=5", "schedlab: sets 0: nice=5", "schedlab: sets 7", "sets 7: nice=5"]
        {
            assert_eq!(settings(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for marker in [
            Marker::Early { wakee: Pid(813), wakeup: 17 },
            Marker::Awake { wakeup: u64::MAX },
            Marker::TimeHasCome,
            Marker::Yield,
            Marker::Start { pid: Pid(i32::MAX) },
        ] {
            let text = marker.to_string();
            assert_eq!(Marker::parse(text.as_bytes()), Some(marker), "{text}");
            assert_eq!(Marker::parse(format!("{text}\n\0rest").as_bytes()), Some(marker), "{text}");
            for length in 0..text.len() {
                let cut = Marker::parse(&text.as_bytes()[..length]);
                assert!(cut.is_none() || cut == Some(marker), "{text} cut to {length}: {cut:?}");
            }
        }
    }

    #[test]
    fn other_lines_are_no_markers() {
        for text in [
            "",
            "B|812|frame",
            "schedlab: ",
            "schedlab: end of the schedule log",
            "schedlab: wakes -1 before it sleeps (17)",
            "schedlab: wakes 1 before it sleeps (18446744073709551616)",
            "schedlab: 0 is runnable from the start",
        ] {
            assert_eq!(Marker::parse(text.as_bytes()), None, "{text}");
        }
    }
}
