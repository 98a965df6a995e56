//! Who calls what on which CPU? Ten lines of text.
//!
//! ```text
//! # a CPU is raised while another looks for a place for a task of priority 50
//! cpus 2
//! first set 0 10; set 1 99        before all others, one after the other
//! cpu0 set 0 60
//! cpu1 find 50 0                  arguments are whole numbers, as the target's help says
//! ```
//!
//! Calls of one CPU stand in one line, with `;` between them, or in several lines.

use crate::RaceError;
use crate::abi::{ARGS_MAX, CPUS_MAX};
use serde::{Deserialize, Serialize};

/// A call of one of the target's operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The operation's name.
    pub op: String,
    /// Its arguments.
    pub args: Vec<i64>,
    /// Where it stands, from 1.
    pub line: usize,
}

/// Who calls what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name, or the file's.
    pub name: String,
    /// As it was written.
    pub text: String,
    /// Before any CPU begins.
    pub first: Vec<Call>,
    /// Of each CPU.
    pub cpus: Vec<Vec<Call>>,
    /// Of a whole scheduler: the sched_ext scheduler that its text asks for.
    #[serde(default)]
    pub beside: Option<schedlab_scx::CompiledScx>,
}

impl Scenario {
    /// Reads the text form.
    ///
    /// # Errors
    /// The line, what it holds and what was expected.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, RaceError> {
        let mut scenario = Scenario {
            name: name.into(),
            text: text.into(),
            first: Vec::new(),
            cpus: Vec::new(),
            beside: None,
        };
        for (n, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or("").trim();
            let bad = |value: &str, expected: String| RaceError::Text {
                file: name.to_owned(),
                line: n + 1,
                value: value.to_owned(),
                expected,
            };
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if word.is_empty() {
                continue;
            }
            if word == "cpus" {
                let number = rest.trim().parse().ok().filter(|n| (1..=CPUS_MAX).contains(n));
                let number: usize =
                    number.ok_or_else(|| bad(rest, format!("a number from 1 to {CPUS_MAX}")))?;
                scenario.cpus = vec![Vec::new(); number];
                continue;
            }
            let number: Option<usize> = word.strip_prefix("cpu").and_then(|n| n.parse().ok());
            let nr_cpus = scenario.cpus.len();
            let calls = match number {
                Some(cpu) if cpu < nr_cpus => &mut scenario.cpus[cpu],
                Some(_) if nr_cpus == 0 => {
                    return Err(bad(word, "'cpus N' before the first CPU's line".into()));
                }
                Some(_) => {
                    return Err(bad(word, format!("cpu0 to cpu{}, as the line 'cpus' says", nr_cpus - 1)));
                }
                None if word == "first" => &mut scenario.first,
                None => return Err(bad(word, "'cpus N', 'first CALLS', 'cpuN CALLS' or a comment".into())),
            };
            for call in rest.split(';').map(str::trim).filter(|call| !call.is_empty()) {
                let mut words = call.split_whitespace();
                let op = words.next().unwrap_or_default().to_owned();
                let args: Result<Vec<i64>, _> = words.map(str::parse).collect();
                let args = args.map_err(|_| bad(call, "whole numbers after the operation's name".into()))?;
                if args.len() > ARGS_MAX {
                    return Err(bad(call, format!("at most {ARGS_MAX} arguments")));
                }
                calls.push(Call { op, args, line: n + 1 });
            }
        }
        if scenario.cpus.is_empty() {
            return Err(RaceError::Text {
                file: name.to_owned(),
                line: text.lines().count().max(1),
                value: String::new(),
                expected: "a line 'cpus N', and one with calls for each CPU".into(),
            });
        }
        Ok(scenario)
    }

    /// Calls in all, without the first ones.
    pub fn nr_calls(&self) -> usize {
        self.cpus.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_what() {
        let text =
            "# raised\ncpus 2\nfirst set 0 10; set 1 99\ncpu0 set 0 60 # up\ncpu1 find 50 0\ncpu1 find -1\n";
        let scenario = Scenario::parse("raise", text).unwrap();
        assert_eq!(scenario.first.len(), 2);
        assert_eq!(scenario.cpus[1][1], Call { op: "find".into(), args: vec![-1], line: 6 });
        assert_eq!(scenario.nr_calls(), 3);
    }

    #[test]
    fn mistakes_are_shown_where_they_stand() {
        for (text, place) in [
            ("cpus 9\n", "s:1: '9'"),
            ("cpu0 set\n", "s:1: 'cpu0'"),
            ("cpus 2\ncpu2 set\n", "s:2: 'cpu2'"),
            ("cpus 2\ncpu1 set x\n", "s:2: 'set x'"),
            ("cpus 2\nlast set 1\n", "s:2: 'last'"),
            ("\n", "s:1: ''"),
        ] {
            let error = Scenario::parse("s", text).unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
    }
}
