//! Text to condition, with a caret under what is wrong.

use super::{Gate, GateError, Op, Quantity};
use crate::measure::metric::{ALIASES, BARE_FAMILY, METRICS, MetricId, Unit, family, find, statistics};
use std::str::FromStr;

/// A part of the text and where it stands, in characters.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Part<'a> {
    /// Without the blanks around it.
    fn trimmed(self) -> Part<'a> {
        let lead = self.text.chars().take_while(|c| c.is_whitespace()).count();
        Part { text: self.text.trim(), at: self.at + lead }
    }
    /// Divided at a byte; the bytes in `gap` belong to neither side.
    fn split(self, byte: usize, gap: usize) -> (Part<'a>, Part<'a>) {
        let (left, right) = (&self.text[..byte], &self.text[byte + gap..]);
        let skipped = self.text[..byte + gap].chars().count();
        (Part { text: left, at: self.at }, Part { text: right, at: self.at + skipped })
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Gate, GateError> {
        Reader { text }.condition()
    }
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn error(&self, part: Part<'_>, problem: impl Into<String>, expected: impl Into<String>) -> GateError {
        // what is shown is one line: control characters would move the caret
        let text: String = self.text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let length = part.text.chars().count().max(1);
        GateError { text, at: part.at, length, problem: problem.into(), expected: expected.into() }
    }

    fn condition(&self) -> Result<Gate, GateError> {
        const FORM: &str = "METRIC > THRESHOLD, for example p99>5% or migrations>+100";
        let whole = Part { text: self.text, at: 0 };
        let Some(place) = self.text.rfind(['>', '<']) else {
            return Err(self.error(whole, "the condition has no comparison", FORM));
        };
        let equal = self.text[place + 1..].starts_with('=');
        let op = match (self.text.as_bytes()[place], equal) {
            (b'>', false) => Op::Above,
            (b'>', true) => Op::AtLeast,
            (_, false) => Op::Below,
            (_, true) => Op::AtMost,
        };
        let (left, right) = whole.split(place, 1 + usize::from(equal));
        let (subject, name) = match left.text.rfind(':') {
            None => (None, left.trimmed()),
            Some(colon) => {
                let (subject, name) = left.split(colon, 1);
                if subject.text.trim().is_empty() {
                    return Err(self.error(
                        subject,
                        "a name is missing before ':'",
                        "the name of tasks, as in cc1:p99>5%",
                    ));
                }
                (Some(subject.trimmed().text.to_string()), name.trimmed())
            }
        };
        let metric = self.metric(name)?;
        if subject.is_some() && !metric.get().per_task {
            let singles = METRICS.iter().filter(|metric| metric.per_task).map(|metric| metric.name());
            let singles = singles.collect::<Vec<_>>().join(", ");
            return Err(self.error(
                name,
                format!("tasks have no {}", metric.get().name()),
                format!("one of {singles}"),
            ));
        }
        let (quantity, threshold) = self.threshold(right.trimmed(), metric)?;
        Ok(Gate { subject, metric, op, quantity, threshold, text: self.text.to_string() })
    }

    fn metric(&self, name: Part<'a>) -> Result<MetricId, GateError> {
        let or = |list: &[&str]| match list {
            [] => String::new(),
            [one] => (*one).to_string(),
            [all @ .., last] => format!("{} or {last}", all.join(", ")),
        };
        let families = || {
            let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.family).collect();
            names.dedup();
            names.extend(ALIASES.iter().map(|(alias, _)| *alias));
            format!("{}, or a statistic of the run delay: {}", names.join(", "), or(&statistics(BARE_FAMILY)))
        };
        if name.text.is_empty() {
            return Err(self.error(name, "the metric is missing", families()));
        }
        if let Some(id) = find(BARE_FAMILY, name.text) {
            return Ok(id);
        }
        let (first, statistic) = match name.text.find('.') {
            None => (name, None),
            Some(dot) => {
                let (first, statistic) = name.split(dot, 1);
                (first.trimmed(), Some(statistic.trimmed()))
            }
        };
        let Some(family) = family(first.text) else {
            return Err(self.error(first, format!("there is no metric '{}'", first.text), families()));
        };
        let known: Vec<&str> = statistics(family).into_iter().filter(|s| !s.is_empty()).collect();
        let text = statistic.map_or("", |part| part.text);
        if let Some(id) = find(family, text).filter(|_| statistic.is_none() || !text.is_empty()) {
            return Ok(id);
        }
        // one statistic only: it need not be named
        if let (None, [only]) = (statistic, &known[..])
            && let Some(id) = find(family, only)
        {
            return Ok(id);
        }
        let expected = if known.is_empty() {
            format!("{family} alone")
        } else {
            format!("{family} with .{}", or(&known).replace(", ", ", .").replace(" or ", " or ."))
        };
        let problem = match statistic {
            None => format!("{family} has several statistics"),
            Some(part) => format!("{family} has no statistic '{}'", part.text),
        };
        Err(self.error(statistic.filter(|part| !part.text.is_empty()).unwrap_or(first), problem, expected))
    }

    fn threshold(&self, part: Part<'a>, metric: MetricId) -> Result<(Quantity, f64), GateError> {
        let metric = metric.get();
        let (units, example) = match metric.unit {
            Unit::Ns => ("a time with its unit (ns, us, ms, s), or a percentage", "2ms, +2ms or 5%"),
            Unit::Count => ("a number or a percentage", "100, +100 or 5%"),
            Unit::Share => ("points or a percentage of the baseline", "2pt, +2pt or 5%"),
            Unit::Index => ("a number or a percentage", "0.9, -0.1 or 5%"),
        };
        let expected = || format!("{units}: {example}");
        if part.text.is_empty() {
            return Err(self.error(part, "the threshold is missing", expected()));
        }
        let signed = part.text.starts_with(['+', '-']);
        let digits_at = usize::from(signed);
        let digits = part.text[digits_at..].find(|c: char| !c.is_ascii_digit() && c != '.');
        let end = digits.map_or(part.text.len(), |at| digits_at + at);
        let (number_part, unit) = part.split(end, 0);
        let unit = unit.trimmed();
        let number: f64 = match number_part.text[digits_at..].parse::<f64>() {
            Ok(number) if number.is_finite() && !number_part.text.ends_with('.') => {
                if part.text.starts_with('-') { -number } else { number }
            }
            _ => {
                let wrong = if number_part.text.is_empty() { part } else { number_part };
                return Err(self.error(wrong, format!("'{}' is not a number", wrong.text), expected()));
            }
        };
        let quantity = if signed { Quantity::Change } else { Quantity::Value };
        let scaled = |factor: f64| Ok((quantity, number * factor));
        match (unit.text, metric.unit) {
            ("%", _) => Ok((Quantity::Relative, number / 100.0)),
            ("ns", Unit::Ns) => scaled(1.0),
            ("us", Unit::Ns) => scaled(1e3),
            ("ms", Unit::Ns) => scaled(1e6),
            ("s", Unit::Ns) => scaled(1e9),
            ("pt", Unit::Share) => scaled(0.01),
            ("", Unit::Count | Unit::Index) => scaled(1.0),
            ("", _) => {
                Err(self.error(part, format!("the threshold for {} has no unit", metric.name()), expected()))
            }
            (other, _) => {
                Err(self.error(unit, format!("'{other}' is no unit of {}", metric.name()), expected()))
            }
        }
    }
}
