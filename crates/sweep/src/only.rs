//! Which runs are left out? Those for which every entry of an `[[except]]` holds.
//!
//! ```toml
//! [[except]]
//! sched = ["fifo", "rr"]          # one of these
//! cpus = { min = 4 }              # 4 or more; also max, not
//! ```
//!
//! An axis that a run does not have holds for nothing.

use crate::axes::Axis;
use crate::spec::Chosen;
use crate::value::Value;
use schedlab_units::Span;
use std::cmp::Ordering;
use toml::Spanned;
use toml::de::DeValue;

/// A table of conditions that hold together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition(Vec<(Axis, Test)>);

#[derive(Clone, Debug)]
enum Test {
    OneOf(Vec<Value>),
    Within { min: Option<Value>, max: Option<Value>, not: Option<Value> },
}

impl Condition {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn and(&mut self, axis: Axis, value: &Spanned<DeValue<'_>>) -> Result<(), String> {
        let test = match value.get_ref() {
            DeValue::Table(table) => {
                let (mut min, mut max, mut not) = (None, None, None);
                for (name, value) in table.iter() {
                    let place = match name.get_ref().as_ref() {
                        "min" => &mut min,
                        "max" => &mut max,
                        "not" => &mut not,
                        other => {
                            return Err(format!("'{other}' is not known here; expected min, max or not"));
                        }
                    };
                    *place = Some(Value::of(value.get_ref())?);
                }
                for bound in [&min, &max].into_iter().flatten() {
                    if order(bound, bound).is_none() {
                        return Err(format!("{bound}: expected a number or a time, such as 4 or \"5ms\""));
                    }
                }
                Test::Within { min, max, not }
            }
            one => match Value::of(one)? {
                Value::List(values) if values.is_empty() => {
                    return Err("the list is empty: nothing has one of its values".to_owned());
                }
                Value::List(values) => Test::OneOf(values),
                value => Test::OneOf(vec![value]),
            },
        };
        self.0.push((axis, test));
        Ok(())
    }

    pub(crate) fn holds(&self, chosen: &[Chosen<'_>]) -> bool {
        self.0.iter().all(|(axis, test)| chosen.iter().any(|one| one.axis == axis && test.holds(&one.value)))
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Test::OneOf(values) => values.iter().any(|one| equal(one, value)),
            Test::Within { min, max, not } => {
                let at_least = |min: &Value| order(value, min).is_some_and(Ordering::is_ge);
                let at_most = |max: &Value| order(value, max).is_some_and(Ordering::is_le);
                min.as_ref().is_none_or(at_least)
                    && max.as_ref().is_none_or(at_most)
                    && not.as_ref().is_none_or(|not| !equal(value, not))
            }
        }
    }
}

fn equal(one: &Value, other: &Value) -> bool {
    one == other || order(one, other) == Some(Ordering::Equal)
}

/// Of numbers, and of texts that are times.
fn order(one: &Value, other: &Value) -> Option<Ordering> {
    let time = |value: &Value| match value {
        Value::Text(text) => text.parse::<Span>().ok().map(Span::as_ns),
        _ => None,
    };
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Text(_), Value::Text(_)) => Some(time(one)?.cmp(&time(other)?)),
        _ => one.number()?.partial_cmp(&other.number()?),
    }
}
