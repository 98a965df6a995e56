//! What can stand on an axis? Whole numbers, numbers, texts, truth values; lists where a generator's setting is one.

use serde::{Deserialize, Serialize};
use std::fmt;
use toml::de::DeValue;

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true`.
    Bool(bool),
    /// `700000`.
    Int(i64),
    /// `0.5`; neither NaN nor infinite.
    Float(f64),
    /// `"5ms"`.
    Text(String),
    /// `[0, 5]`.
    List(Vec<Value>),
}

/// A list within lists within lists is a mistake.
const DEPTH_MAX: usize = 4;

impl Value {
    /// From TOML; or what is wrong with it.
    pub(crate) fn of(value: &DeValue<'_>) -> Result<Value, String> {
        Value::within(value, 0)
    }

    fn within(value: &DeValue<'_>, depth: usize) -> Result<Value, String> {
        match value {
            DeValue::String(text) => Ok(Value::Text(text.to_string())),
            DeValue::Boolean(is) => Ok(Value::Bool(*is)),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(Value::Int)
                .map_err(|_| format!("{} is no whole number below 2^63", number.as_str())),
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(float) if float.is_finite() => Ok(Value::Float(float)),
                _ => Err(format!("{} is no number that a run can have; write a finite one", number.as_str())),
            },
            DeValue::Array(list) if depth < DEPTH_MAX => {
                let values = list.iter().map(|value| Value::within(value.get_ref(), depth + 1));
                values.collect::<Result<_, _>>().map(Value::List)
            }
            other => Err(format!(
                "a {} is no value of an axis; expected a number, a text in quotes, true or false",
                other.type_str()
            )),
        }
    }

    /// As TOML writes it.
    pub(crate) fn to_toml(&self) -> String {
        match self {
            Value::Text(text) => toml::Value::String(text.clone()).to_string(),
            Value::List(values) => {
                format!("[{}]", values.iter().map(Value::to_toml).collect::<Vec<_>>().join(", "))
            }
            Value::Float(number) => toml::Value::Float(*number).to_string(),
            other => other.to_string(),
        }
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// As a command takes it: texts without quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(is) => write!(f, "{is}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
            Value::List(_) => f.write_str(&self.to_toml()),
        }
    }
}
