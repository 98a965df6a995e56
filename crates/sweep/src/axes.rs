//! What can be varied, and how are its values written?
//!
//! ```toml
//! cpus = 4                                     one value
//! cpus = [1, 2, 4]                             several
//! seed = "1-100,200"                           whole numbers: seed, cpus
//! param.base_slice_ns = { from = 100000, to = 10000000, count = 5, scale = "log" }
//! duration = { from = "1s", to = "5s", step = "1s" }
//! ```

use crate::error::SweepError;
use crate::spec::SourceText;
use crate::trial::Trial;
use crate::value::Value;
use schedlab_lab::SubjectSpec;
use schedlab_machine::Perturb;
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::generate::Spec;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What can be varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Workload,
    Generate,
    Set(String),
    Sched,
    Kernel,
    Flavour,
    Param(String),
    Cpus,
    Machine,
    Hz,
    Duration,
    Seed,
    Perturb,
    Costs,
    Ticks,
}

const NAMED: [(&str, Axis); 13] = [
    ("workload", Axis::Workload),
    ("generate", Axis::Generate),
    ("sched", Axis::Sched),
    ("kernel", Axis::Kernel),
    ("flavour", Axis::Flavour),
    ("cpus", Axis::Cpus),
    ("machine", Axis::Machine),
    ("hz", Axis::Hz),
    ("duration", Axis::Duration),
    ("seed", Axis::Seed),
    ("perturb", Axis::Perturb),
    ("costs", Axis::Costs),
    ("ticks", Axis::Ticks),
];

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Axis::Set(name) => write!(f, "set.{name}"),
            Axis::Param(name) => write!(f, "param.{name}"),
            other => {
                let named = NAMED.iter().find(|(_, axis)| axis == other);
                f.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

impl Axis {
    pub(crate) fn of(name: &str) -> Result<Axis, String> {
        if let Some((_, axis)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(axis.clone());
        }
        match name.split_once('.') {
            Some(("param", "hz")) => Err("ticks per second are the axis hz, no parameter".to_owned()),
            Some(("param", param)) if !param.is_empty() => Ok(Axis::Param(param.to_owned())),
            // (it becomes a key of TOML by itself)
            Some(("set", setting)) if is_bare_key(setting) => Ok(Axis::Set(setting.to_owned())),
            Some(("set", _)) => {
                Err("a generator's setting has a name of letters, digits, '-' and '_'".to_owned())
            }
            _ => Err(format!(
                "there is no axis '{name}'; expected one of {}, param.NAME (of the scheduler), set.NAME (of the \
                 generator)",
                NAMED.map(|(name, _)| name).join(", ")
            )),
        }
    }

    /// Writes the value into a trial. (`kernel` and `flavour` make one name together.)
    pub(crate) fn put(&self, value: &Value, trial: &mut Trial) {
        let text = value.to_string();
        let number = || match value {
            Value::Int(number) => *number as u64,
            _ => unreachable!("checked when it was read"),
        };
        match self {
            Axis::Workload => trial.workload = Some(text),
            Axis::Generate => trial.generate = Some(text),
            Axis::Set(name) => drop(trial.set.insert(name.clone(), value.clone())),
            Axis::Sched => trial.sched = text,
            Axis::Kernel | Axis::Flavour => {}
            Axis::Param(name) => drop(trial.params.insert(name.clone(), text)),
            Axis::Cpus | Axis::Machine => trial.machine = text,
            Axis::Hz => trial.hz = Some(number() as u32),
            Axis::Duration => trial.duration = Some(text),
            Axis::Seed => trial.seed = Some(number()),
            Axis::Perturb => trial.perturb = Some(text),
            Axis::Costs => trial.costs = Some(text),
            Axis::Ticks => trial.ticks = Some(text),
        }
    }

    /// What is wrong with a value here, as far as no file is needed to know it.
    fn check(&self, value: &Value) -> Result<(), String> {
        let fail = |what: String| Err(format!("{self} = {value}: {what}"));
        let whole = |max: i64| match value {
            Value::Int(number) if (0..=max).contains(number) => Ok(()),
            _ => fail(format!("expected a whole number from 0 to {max}")),
        };
        let Value::Text(text) = value else {
            return match self {
                Axis::Hz if *value == Value::Int(0) => {
                    fail("expected ticks per second, 100, 250, 300 or 1000".into())
                }
                Axis::Hz => whole(10_000),
                Axis::Seed => whole(i64::MAX),
                Axis::Cpus => match value {
                    Value::Int(number) => {
                        machine(&number.to_string()).map_err(|what| format!("{self} = {value}: {what}"))
                    }
                    _ => fail("expected a number of CPUs".into()),
                },
                Axis::Machine if matches!(value, Value::Int(_)) => {
                    machine(&value.to_string()).map_err(|what| format!("{self} = {value}: {what}"))
                }
                Axis::Set(_) => Ok(()),
                Axis::Param(_) if !matches!(value, Value::List(_)) => Ok(()),
                _ => fail("expected a text in quotes".into()),
            };
        };
        match self {
            Axis::Hz | Axis::Seed | Axis::Cpus => fail("expected a whole number".into()),
            Axis::Generate if Spec::of_kind(text).is_none() => {
                fail("there is no such generator; 'schedlab generate' lists them".into())
            }
            Axis::Sched => {
                let spec = text.parse::<SubjectSpec>().and_then(|spec| spec.check_machine().map(|()| spec));
                match spec {
                    Ok(spec) if spec.params().iter().any(|(name, _)| name == "hz") && spec.is_linux() => {
                        fail("ticks per second are the axis hz, not part of the name".into())
                    }
                    Ok(_) => Ok(()),
                    Err(error) => fail(error.to_string()),
                }
            }
            Axis::Machine if !text.contains('/') => machine(text).or_else(fail),
            Axis::Duration => match text.parse::<Span>() {
                Ok(span) if span > Span::ZERO => Ok(()),
                _ => fail("expected a time greater than zero, such as 5s".into()),
            },
            Axis::Perturb => match format!("0,{text}").parse::<Perturb>() {
                Ok(_) => Ok(()),
                Err(error) => fail(error.to_string()),
            },
            Axis::Ticks if text != "aligned" && text != "staggered" => {
                fail("expected aligned or staggered".into())
            }
            _ => Ok(()),
        }
    }
}

fn is_bare_key(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn machine(text: &str) -> Result<(), String> {
    text.parse::<Topology>().map(drop).map_err(|error| error.to_string())
}

/// The values of an axis. A long row of numbers is kept as its ends.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    List(Vec<(Value, usize)>),
    Row { from: i64, step: i64, count: u64, at: usize },
}

impl Values {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Values::List(values) => values.len() as u64,
            Values::Row { count, .. } => *count,
        }
    }

    /// The value, and where it is written.
    pub(crate) fn get(&self, index: u64) -> (Value, usize) {
        match self {
            Values::List(values) => values[index as usize].clone(),
            Values::Row { from, step, at, .. } => (Value::Int(from + step * index as i64), *at),
        }
    }
}

/// Values that a range may have, if they are kept one by one.
const COUNT_MAX: u64 = 1_000_000;

/// What is written behind an axis's name.
pub(crate) fn values_of(
    axis: &Axis,
    value: &Spanned<DeValue<'_>>,
    text: &SourceText,
) -> Result<Values, SweepError> {
    let at = value.span().start;
    let fail = |what: String| text.at(at, what);
    let is_number = matches!(axis, Axis::Seed | Axis::Cpus);
    let values = match value.get_ref() {
        // (a setting that is a list has a list of lists here)
        DeValue::Array(list) => {
            let one = |value: &Spanned<DeValue<'_>>| {
                let place = value.span().start;
                Value::of(value.get_ref())
                    .map(|value| (value, place))
                    .map_err(|what| text.at(place, format!("{axis}: {what}")))
            };
            Values::List(list.iter().map(one).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => range(axis, table, at).map_err(|what| fail(format!("{axis}: {what}")))?,
        DeValue::String(words) if is_number => {
            Values::List(numbers(words, at).map_err(|what| fail(format!("{axis} = \"{words}\": {what}")))?)
        }
        one => Values::List(vec![(Value::of(one).map_err(|what| fail(format!("{axis}: {what}")))?, at)]),
    };
    if values.len() == 0 {
        return Err(fail(format!(
            "{axis} has no values: no run comes of it; give one at least, or leave it out"
        )));
    }
    check_all(axis, &values, text)?;
    Ok(values)
}

/// Each value by itself, and no two alike.
fn check_all(axis: &Axis, values: &Values, text: &SourceText) -> Result<(), SweepError> {
    let check = |(value, at): &(Value, usize)| axis.check(value).map_err(|what| text.at(*at, what));
    match values {
        Values::Row { count, .. } => [0, count - 1].iter().try_for_each(|index| check(&values.get(*index))),
        Values::List(list) => {
            list.iter().try_for_each(check)?;
            let mut seen = std::collections::BTreeSet::new();
            match list.iter().find(|(value, _)| !seen.insert(value.to_toml())) {
                Some((value, at)) => {
                    Err(text.at(*at, format!("{axis}: the value {value} stands there twice")))
                }
                None => Ok(()),
            }
        }
    }
}

/// `1-8,12`.
fn numbers(text: &str, at: usize) -> Result<Vec<(Value, usize)>, String> {
    let wrong = |part: &str| format!("'{part}': expected whole numbers, as 7, 1-8 or 1,2,5-9");
    let mut all = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong(part));
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("{}, the smaller one first", wrong(part)));
        }
        if last.abs_diff(first) >= COUNT_MAX || all.len() as u64 > COUNT_MAX {
            return Err(format!("more than {COUNT_MAX} numbers; write {{ from = {first}, to = {last} }}"));
        }
        all.extend((first..=last).map(|number| (Value::Int(number), at)));
    }
    Ok(all)
}

/// Two ends, and how numbers between them lie.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    from: f64,
    to: f64,
    unit: Unit,
    is_log: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Int,
    Float,
    Ns,
}

impl Ends {
    /// From 0 to 1.
    fn at(&self, share: f64) -> Value {
        let number = if self.is_log {
            let (low, high) = (libm::log(self.from), libm::log(self.to));
            libm::exp(low + (high - low) * share)
        } else {
            self.from + (self.to - self.from) * share
        };
        let number = number.clamp(self.from, self.to);
        match self.unit {
            Unit::Int => Value::Int(number.round() as i64),
            Unit::Float => Value::Float(number),
            Unit::Ns => Value::Text(format!("{}ns", number.round() as u64)),
        }
    }
}

fn ends(table: &DeTable<'_>) -> Result<Ends, String> {
    let end = |name: &str| -> Result<(f64, Unit), String> {
        let value = table.get(name).ok_or_else(|| format!("a range has from and to; {name} is missing"))?;
        match Value::of(value.get_ref())? {
            Value::Int(number) => Ok((number as f64, Unit::Int)),
            Value::Float(number) => Ok((number, Unit::Float)),
            Value::Text(text) => {
                let span: Span =
                    text.parse().map_err(|_| format!("{name} = \"{text}\": expected a number or a time"))?;
                Ok((span.as_ns() as f64, Unit::Ns))
            }
            other => Err(format!("{name} = {other}: expected a number or a time")),
        }
    };
    let ((from, one), (to, other)) = (end("from")?, end("to")?);
    let unit = match (one, other) {
        (one, other) if one == other => one,
        (Unit::Ns, _) | (_, Unit::Ns) => {
            return Err("from and to: one is a time and the other is not".to_owned());
        }
        _ => Unit::Float,
    };
    let is_log = match table.get("scale").map(|scale| scale.get_ref().as_str()) {
        None | Some(Some("linear")) => false,
        Some(Some("log")) => true,
        Some(_) => return Err("scale: expected \"linear\" or \"log\"".to_owned()),
    };
    if from > to {
        return Err("from is greater than to".to_owned());
    }
    if is_log && from <= 0.0 {
        return Err("scale = \"log\" begins above 0".to_owned());
    }
    Ok(Ends { from, to, unit, is_log })
}

fn known(table: &DeTable<'_>, names: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !names.contains(&key.get_ref().as_ref())) {
        Some(key) => Err(format!("'{}' is not known here; expected {}", key.get_ref(), names.join(", "))),
        None => Ok(()),
    }
}

fn range(axis: &Axis, table: &DeTable<'_>, at: usize) -> Result<Values, String> {
    known(table, &["from", "to", "step", "count", "scale"])?;
    let ends = ends(table)?;
    let get = |name: &str| table.get(name).map(|value| Value::of(value.get_ref())).transpose();
    let (step, count) = (get("step")?, get("count")?);
    match (step, count) {
        (Some(_), Some(_)) => Err("give step or count, not both".to_owned()),
        (_, Some(Value::Int(count))) if count > 0 && count as u64 <= COUNT_MAX => {
            let share = |index: i64| if count == 1 { 0.0 } else { index as f64 / (count - 1) as f64 };
            let mut values: Vec<(Value, usize)> =
                (0..count).map(|index| (ends.at(share(index)), at)).collect();
            values.dedup_by(|one, other| one.0 == other.0); // whole numbers may fall together
            Ok(Values::List(values))
        }
        (_, Some(count)) => Err(format!("count = {count}: expected a whole number from 1 to {COUNT_MAX}")),
        (step, None) if ends.unit == Unit::Int => {
            let step = match step {
                None => 1,
                Some(Value::Int(step)) if step > 0 => step,
                Some(step) => return Err(format!("step = {step}: expected a whole number above 0")),
            };
            let (from, to) = (ends.from as i64, ends.to as i64);
            Ok(Values::Row { from, step, count: to.abs_diff(from) / step as u64 + 1, at })
        }
        (Some(Value::Text(step)), None) if ends.unit == Unit::Ns => {
            let step: Span = step.parse().map_err(|_| format!("step = \"{step}\": expected a time"))?;
            if step == Span::ZERO || (ends.to - ends.from) as u64 / step.as_ns().max(1) > COUNT_MAX {
                return Err(format!("step = {step}: expected a time that makes at most {COUNT_MAX} values"));
            }
            let all = (ends.from as u64..=ends.to as u64).step_by(step.as_ns() as usize);
            Ok(Values::List(all.map(|ns| (Value::Text(format!("{ns}ns")), at)).collect()))
        }
        _ => Err(format!("{axis}: a range of such values needs count, how many they are")),
    }
}

/// What a hypercube draws from.
#[derive(Clone, Debug)]
pub(crate) enum Spread {
    Between(Ends, usize),
    Choices(Values),
}

pub(crate) fn spread_of(
    axis: &Axis,
    value: &Spanned<DeValue<'_>>,
    text: &SourceText,
) -> Result<Spread, SweepError> {
    let at = value.span().start;
    match value.get_ref() {
        DeValue::Table(table) => {
            let ends = known(table, &["from", "to", "scale"]).and_then(|()| ends(table));
            let ends = ends.map_err(|what| text.at(at, format!("{axis}: {what}")))?;
            for share in [0.0, 1.0] {
                axis.check(&ends.at(share)).map_err(|what| text.at(at, what))?;
            }
            Ok(Spread::Between(ends, at))
        }
        _ => values_of(axis, value, text).map(Spread::Choices),
    }
}

/// A Latin hypercube (McKay, Beckman, Conover 1979): each axis is cut into as many parts as there are points, each part
/// has one point, and which parts come together is drawn.
pub(crate) fn latin_rows(
    samples: usize,
    seed: u64,
    axes: &[(usize, Spread)],
) -> Vec<Vec<(usize, Value, usize)>> {
    let mut rows: Vec<Vec<(usize, Value, usize)>> = vec![Vec::with_capacity(axes.len()); samples];
    for (number, (axis, spread)) in axes.iter().enumerate() {
        let mut random = Random::for_part(seed, number as u64);
        let mut parts: Vec<usize> = (0..samples).collect();
        for last in (1..samples).rev() {
            parts.swap(last, random.below(last as u64 + 1) as usize);
        }
        for (row, part) in rows.iter_mut().zip(parts) {
            let share = (part as f64 + random.unit_f64()) / samples as f64;
            let (value, at) = match spread {
                Spread::Between(ends, at) => (ends.at(share), *at),
                Spread::Choices(values) => {
                    values.get(((share * values.len() as f64) as u64).min(values.len() - 1))
                }
            };
            row.push((*axis, value, at));
        }
    }
    rows
}
