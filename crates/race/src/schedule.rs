//! What is a schedule, as text? The choices that differ from the rule, each at a place that stays the same when
//! others are taken out.
//!
//! The rule: a CPU goes on; where it cannot, the lowest-numbered one that can goes on. Stores are seen at once, loads
//! see the newest. A place is "CPU n, at its kth point". So a schedule is short, and one in the middle can be taken
//! out:
//!
//! ```text
//! schedlab-race 1
//! target cpupri
//! kernel 6.12.117-1~deb12u1
//! object 0f6a...
//! model sc
//! finding invariant cpupri_find() returns 1 with an empty mask
//! scenario raise
//! | cpus 2
//! | first set 0 10
//! | cpu0 set 0 60
//! | cpu1 find 50 0
//! cpu0 at 4 -> cpu1
//! cpu1 at 9 -> cpu0
//! end
//! ```

use crate::RaceError;
use schedlab_units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a choice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ChoiceKind {
    /// This CPU goes on now.
    To(u8),
    /// The late store in this place of the CPU's buffer becomes visible.
    Flush(u8),
    /// The load sees a value that is so many stores old.
    Stale(u8),
    /// Of a whole scheduler: the CPU stands before this point for so many ns of simulated time; 0: until nothing else
    /// happens at this instant.
    Hold(u64),
    /// The same, for so many ns at most.
    Until(u64, Ends),
    /// Of a whole scheduler: the store at this point is seen late.
    Late(Later),
}

/// Which stores are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Later {
    /// This one alone.
    One,
    /// Those behind it, too.
    All,
}

/// What ends a hold before its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ends {
    /// An interrupt arrives at the CPU.
    Interrupt,
    /// Another CPU changes so many bytes of memory there, and goes on.
    Changed(Memory, u8),
    /// Another CPU changes them, so many times, and stops behind the last of these accesses.
    ChangedNow(Memory, u8, u8),
}

/// A place that is the same in each process that runs the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Memory {
    /// In the simulated memory.
    Ram(u64),
    /// In the kernel's object.
    Object(u64),
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Ram(at) => write!(f, "ram+{at:#x}"),
            Memory::Object(at) => write!(f, "linux+{at:#x}"),
        }
    }
}

impl Memory {
    fn parse(text: &str) -> Option<Memory> {
        let (where_, at) = text.split_once("+0x")?;
        let at = u64::from_str_radix(at, 16).ok()?;
        match where_ {
            "ram" => Some(Memory::Ram(at)),
            "linux" => Some(Memory::Object(at)),
            _ => None,
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ends::Interrupt => write!(f, "interrupt"),
            Ends::Changed(at, size) => write!(f, "change {size} {at}"),
            Ends::ChangedNow(at, size, 1) => write!(f, "change {size} {at} stop"),
            Ends::ChangedNow(at, size, times) => write!(f, "change {size} {at} stop {times}"),
        }
    }
}

impl Ends {
    fn parse(words: &[&str]) -> Option<Ends> {
        let size = |text: &str| text.parse().ok().filter(|size| (1..=8).contains(size));
        Some(match words {
            ["interrupt"] => Ends::Interrupt,
            ["change", bytes, at] => Ends::Changed(Memory::parse(at)?, size(bytes)?),
            ["change", bytes, at, "stop"] => Ends::ChangedNow(Memory::parse(at)?, size(bytes)?, 1),
            ["change", bytes, at, "stop", times] => {
                let times = times.parse().ok().filter(|times| *times > 0)?;
                Ends::ChangedNow(Memory::parse(at)?, size(bytes)?, times)
            }
            _ => return None,
        })
    }
}

/// Stands for the CPU before any CPU has begun: `start -> cpu1` in the text.
pub const NOBODY: u8 = crate::abi::CPUS_MAX as u8;

/// A choice that differs from the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Choice {
    /// At a point of this CPU; [`NOBODY`]: before any CPU has begun.
    pub cpu: u8,
    /// Which of its points, from 1.
    pub at: u32,
    /// What.
    pub what: ChoiceKind,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice { cpu, at, what } = self;
        match what {
            ChoiceKind::To(to) if *cpu == NOBODY => write!(f, "start -> cpu{to}"),
            ChoiceKind::To(to) => write!(f, "cpu{cpu} at {at} -> cpu{to}"),
            ChoiceKind::Flush(place) => write!(f, "cpu{cpu} at {at} flush {place}"),
            ChoiceKind::Stale(age) => write!(f, "cpu{cpu} at {at} stale {age}"),
            ChoiceKind::Hold(ns) => write!(f, "cpu{cpu} at {at} hold {}", Span::from_ns(*ns)),
            ChoiceKind::Late(Later::One) => write!(f, "cpu{cpu} at {at} late one"),
            ChoiceKind::Late(Later::All) => write!(f, "cpu{cpu} at {at} late all"),
            ChoiceKind::Until(ns, ends) => {
                write!(f, "cpu{cpu} at {at} hold {} until {ends}", Span::from_ns(*ns))
            }
        }
    }
}

impl Choice {
    fn parse(line: &str) -> Option<Choice> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| text.strip_prefix("cpu").and_then(|n| n.parse().ok());
        if let ["start", "->", to] = words[..] {
            return Some(Choice { cpu: NOBODY, at: 1, what: ChoiceKind::To(number(to)?) });
        }
        if let [cpu, "at", at, "hold", most, "until", ref ends @ ..] = words[..] {
            let what = ChoiceKind::Until(most.parse::<Span>().ok()?.as_ns(), Ends::parse(ends)?);
            return Some(Choice { cpu: number(cpu)?, at: at.parse().ok()?, what });
        }
        let [cpu, "at", at, verb, value] = words[..] else { return None };
        let what = match verb {
            "->" => ChoiceKind::To(number(value)?),
            "flush" => ChoiceKind::Flush(value.parse().ok()?),
            "stale" => ChoiceKind::Stale(value.parse().ok()?),
            "hold" => ChoiceKind::Hold(value.parse::<Span>().ok()?.as_ns()),
            "late" if value == "one" => ChoiceKind::Late(Later::One),
            "late" if value == "all" => ChoiceKind::Late(Later::All),
            _ => return None,
        };
        Some(Choice { cpu: number(cpu)?, at: at.parse().ok()?, what })
    }
}

/// A schedule with what it belongs to: all that a replay needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// `cpupri`, `cpudl`, or a C file.
    pub target: String,
    /// The kernel's name or series as it was asked for; empty for a C file.
    pub kernel: String,
    /// Its exact version; empty for a C file.
    pub version: String,
    /// A seeded bug's name; empty: none.
    pub seeded: String,
    /// Macros, of a C file.
    pub defines: Vec<String>,
    /// Checksum of the object: another object has other points.
    pub object: String,
    /// `sc`, `tso` or `lkmm`.
    pub model: String,
    /// Barriers that are left out, as `FILE:LINE`.
    pub without: Vec<String>,
    /// StepKind and text of what it shows.
    pub finding: (String, String),
    /// The scenario's name and text.
    pub scenario: (String, String),
    /// The choices.
    pub choices: Vec<Choice>,
}

/// First line.
const HEAD: &str = "schedlab-race 1";

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\ntarget {}", self.target)?;
        for (word, value) in [("kernel", &self.kernel), ("version", &self.version), ("seeded", &self.seeded)]
        {
            if !value.is_empty() {
                writeln!(f, "{word} {value}")?;
            }
        }
        for define in &self.defines {
            writeln!(f, "define {define}")?;
        }
        writeln!(f, "object {}\nmodel {}", self.object, self.model)?;
        for barrier in &self.without {
            writeln!(f, "without {barrier}")?;
        }
        writeln!(f, "finding {} {}", self.finding.0, self.finding.1.replace('\n', " "))?;
        writeln!(f, "scenario {}", self.scenario.0)?;
        for line in self.scenario.1.lines() {
            writeln!(f, "| {line}")?;
        }
        for choice in &self.choices {
            writeln!(f, "{choice}")?;
        }
        writeln!(f, "end")
    }
}

impl Schedule {
    /// Reads the text form.
    ///
    /// # Errors
    /// Not such a file: the line, what it holds and what was expected.
    pub fn parse(name: &str, text: &str) -> Result<Schedule, RaceError> {
        let bad = |line: usize, value: &str, expected: &str| RaceError::Text {
            file: name.to_owned(),
            line,
            value: value.to_owned(),
            expected: expected.to_owned(),
        };
        let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim_end()));
        if lines.next().is_none_or(|(_, line)| line != HEAD) {
            let first = text.lines().next().unwrap_or("");
            return Err(bad(1, first, &format!("'{HEAD}', the first line of a schedule that 'race' wrote")));
        }
        let mut schedule = Schedule {
            target: String::new(),
            kernel: String::new(),
            version: String::new(),
            seeded: String::new(),
            defines: Vec::new(),
            object: String::new(),
            model: String::new(),
            without: Vec::new(),
            finding: Default::default(),
            scenario: Default::default(),
            choices: Vec::new(),
        };
        let mut last = 1;
        for (n, line) in lines {
            last = n;
            let (word, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.to_owned();
            match word {
                "target" => schedule.target = value,
                "kernel" => schedule.kernel = value,
                "version" => schedule.version = value,
                "seeded" => schedule.seeded = value,
                "define" => schedule.defines.push(value),
                "object" => schedule.object = value,
                "model" => schedule.model = value,
                "without" => schedule.without.push(value),
                "finding" => {
                    let (kind, text) = value.split_once(' ').unwrap_or((&value, ""));
                    schedule.finding = (kind.to_owned(), text.to_owned());
                }
                "scenario" => schedule.scenario.0 = value,
                "|" => {
                    schedule.scenario.1.push_str(&value);
                    schedule.scenario.1.push('\n');
                }
                "end" => return Ok(schedule),
                _ => {
                    let expected = "'cpu0 at 4 -> cpu1', '... flush N', '... stale N', '... late one', \
                         '... late all', '... hold TIME', '... hold TIME until interrupt', \
                         '... hold TIME until change 1-8 ram+0x40', or 'end'";
                    schedule.choices.push(Choice::parse(line).ok_or_else(|| bad(n, line, expected))?);
                }
            }
        }
        Err(bad(last, "", "'end': the file is cut off"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_as_it_went() {
        let schedule = Schedule {
            target: "cpupri".into(),
            kernel: "6.12".into(),
            version: "6.12.117".into(),
            seeded: "empty-mask".into(),
            defines: vec!["A=1".into()],
            object: "abc".into(),
            model: "lkmm".into(),
            without: vec!["cpupri.c:250".into()],
            finding: ("invariant".into(), "an empty mask".into()),
            scenario: ("raise".into(), "cpus 2\ncpu0 set 0 60\n".into()),
            choices: vec![
                Choice { cpu: NOBODY, at: 1, what: ChoiceKind::To(1) },
                Choice { cpu: 0, at: 4, what: ChoiceKind::Flush(2) },
                Choice { cpu: 1, at: 9, what: ChoiceKind::Stale(1) },
                Choice { cpu: 1, at: 12, what: ChoiceKind::Hold(4_100_000) },
                Choice { cpu: 0, at: 812, what: ChoiceKind::Hold(0) },
                Choice { cpu: 0, at: 810, what: ChoiceKind::Late(Later::One) },
                Choice { cpu: 1, at: 811, what: ChoiceKind::Late(Later::All) },
                Choice { cpu: 0, at: 813, what: ChoiceKind::Until(1000, Ends::Interrupt) },
                Choice { cpu: 0, at: 814, what: ChoiceKind::Until(0, Ends::Changed(Memory::Ram(0x40), 4)) },
                Choice {
                    cpu: 1,
                    at: 9,
                    what: ChoiceKind::Until(5, Ends::ChangedNow(Memory::Object(8), 1, 1)),
                },
                Choice { cpu: 1, at: 8, what: ChoiceKind::Until(5, Ends::ChangedNow(Memory::Ram(8), 4, 3)) },
            ],
        };
        let text = schedule.to_string();
        assert_eq!(Schedule::parse("f", &text).unwrap(), schedule);
        let cut = text.replace("end\n", "");
        let error = Schedule::parse("f", &cut).unwrap_err().to_string();
        assert!(error.contains("cut off"), "{error}");
        let bent = text.replace("cpu0 at 4 flush 2", "cpu0 at x flush 2");
        let error = Schedule::parse("f", &bent).unwrap_err().to_string();
        assert!(error.starts_with("f:15: ") && error.contains("cpu0 at x flush 2"), "{error}");
    }
}
