//! What happens on a whole scheduler's CPUs, as text.
//!
//! ```text
//! cpus 2
//! from 20ms                       # until then the tasks come into being; schedules differ from here on
//! for 4ms                         # so long
//! param sched_rt_runtime_us -1    # as --param has it
//! at 21ms cpu1 off                # the experimenter writes: a tunable, a file, or a CPU on or off
//! schedlab-workload 1             # from here on: a workload (docs/workloads.md)
//! - INIT 0 0 1 runnable name=a
//! ...
//! ```

use schedlab_units::Span;

use crate::RaceError;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WholeScenario {
    pub(crate) cpus: u32,
    pub(crate) from: Span,
    pub(crate) length: Span,
    pub(crate) params: Vec<(String, String)>,
    /// When, what, its value.
    pub(crate) writes: Vec<(Span, String, String)>,
    /// The workload's text.
    pub(crate) workload: String,
}

/// Most CPUs of a scenario.
const CPUS_MAX: u32 = 16;

impl WholeScenario {
    /// Reads the text form.
    ///
    /// # Errors
    /// The line, what it holds and what was expected.
    pub(crate) fn parse(name: &str, text: &str) -> Result<WholeScenario, RaceError> {
        let bad = |line: usize, value: &str, expected: &str| RaceError::Text {
            file: name.to_owned(),
            line,
            value: value.to_owned(),
            expected: expected.to_owned(),
        };
        let mut scenario = WholeScenario {
            cpus: 0,
            from: Span::ZERO,
            length: Span::ZERO,
            params: Vec::new(),
            writes: Vec::new(),
            workload: String::new(),
        };
        for (n, whole) in text.lines().enumerate() {
            let n = n + 1;
            if whole.starts_with("schedlab-workload") {
                scenario.workload = text.lines().skip(n - 1).flat_map(|line| [line, "\n"]).collect();
                break;
            }
            let line = whole.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let span = |word: &str| word.parse::<Span>().map_err(|e| bad(n, word, &format!("a time: {e}")));
            match words[..] {
                [] => {}
                ["cpus", number] => {
                    let cpus = number.parse().ok().filter(|cpus| (2..=CPUS_MAX).contains(cpus));
                    scenario.cpus = cpus.ok_or_else(|| bad(n, number, &format!("2 to {CPUS_MAX} CPUs")))?;
                }
                ["from", time] => scenario.from = span(time)?,
                ["for", time] => scenario.length = span(time)?,
                ["param", name, value] => scenario.params.push((name.to_owned(), value.to_owned())),
                ["at", time, name, value] => {
                    scenario.writes.push((span(time)?, name.to_owned(), value.to_owned()));
                }
                _ => {
                    let expected = "'cpus N', 'from TIME', 'for TIME', 'param NAME VALUE', 'at TIME NAME VALUE' \
                                    or a workload's first line";
                    return Err(bad(n, whole, expected));
                }
            }
        }
        let last = text.lines().count();
        if scenario.cpus == 0 || scenario.length == Span::ZERO {
            return Err(bad(last, "", "'cpus N' and 'for TIME' before the workload"));
        }
        if scenario.workload.is_empty() {
            return Err(bad(last, "", "a workload, from its line 'schedlab-workload 1' on"));
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_and_its_mistakes_are_reported() {
        let text = "cpus 2 # two\nfrom 20ms\nfor 4ms\nat 21ms cpu1 off\nschedlab-workload 1\n- INIT 0 0 1 runnable\n";
        let scenario = WholeScenario::parse("s", text).unwrap();
        assert_eq!((scenario.cpus, scenario.from, scenario.length), (2, Span::from_ms(20), Span::from_ms(4)));
        assert_eq!(scenario.writes, [(Span::from_ms(21), "cpu1".to_owned(), "off".to_owned())]);
        assert_eq!(scenario.workload, "schedlab-workload 1\n- INIT 0 0 1 runnable\n");
        let wrong = |text: &str| WholeScenario::parse("s", text).unwrap_err().to_string();
        assert!(wrong("cpus 1\n").starts_with("s:1: '1', expected 2 to 16 CPUs"));
        assert!(wrong("cpus 2\nfrom soon\n").starts_with("s:2: 'soon', expected a time"));
        assert!(wrong("cpus 2\nfro 1ms\n").starts_with("s:2: 'fro 1ms', expected 'cpus N'"));
        assert!(wrong("cpus 2\nfor 1ms\n").contains("expected a workload"));
    }
}
