//! How do rows of JSON become columns? `tasks[]`, `per_cpu[]` and their like have an object per row; a column is named
//! as the field is.
//!
//! | values of a field | column |
//! |---|---|
//! | whole numbers | int64; uint64 if one needs it |
//! | numbers, some with a fraction | float64 |
//! | booleans, texts | bool, utf8 |
//! | lists, objects, or values of several kinds | utf8: each as JSON |
//! | `null`, or a row without the field | null: nobody knows it |

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, Field, Schema};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Unknown,
    Signed,
    Unsigned,
    Float,
    Bool,
    Text,
    Json,
}

impl Form {
    fn of(value: &Value) -> Form {
        match value {
            Value::Null => Form::Unknown,
            Value::Bool(_) => Form::Bool,
            Value::String(_) => Form::Text,
            Value::Number(number) if number.is_i64() => Form::Signed,
            Value::Number(number) if number.is_u64() => Form::Unsigned,
            Value::Number(_) => Form::Float,
            Value::Array(_) | Value::Object(_) => Form::Json,
        }
    }

    /// The form that holds values of both.
    fn and(self, other: Form, has_negative: bool) -> Form {
        let is_number = |form| matches!(form, Form::Signed | Form::Unsigned | Form::Float);
        match (self, other) {
            (one, two) if one == two => one,
            (Form::Unknown, form) | (form, Form::Unknown) => form,
            (Form::Signed, Form::Unsigned) | (Form::Unsigned, Form::Signed) if !has_negative => {
                Form::Unsigned
            }
            (one, two) if is_number(one) && is_number(two) => Form::Float,
            _ => Form::Json,
        }
    }
}

/// The rows as columns, in the order in which fields first occur.
pub fn of_rows(rows: &[Map<String, Value>]) -> Result<RecordBatch, ArrowError> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for name in rows.iter().flat_map(Map::keys) {
        if seen.insert(name) {
            names.push(name);
        }
    }
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = names
        .iter()
        .map(|name| {
            let values: Vec<Option<&Value>> = rows.iter().map(|row| row.get(*name)).collect();
            let column = column(&values);
            (Field::new(*name, column.data_type().clone(), true), column)
        })
        .unzip();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn column(values: &[Option<&Value>]) -> ArrayRef {
    let known = || values.iter().map(|value| value.filter(|value| !value.is_null()));
    let has_negative = known().flatten().any(|value| value.as_i64().is_some_and(|n| n < 0));
    let form = known().flatten().map(Form::of).fold(Form::Unknown, |a, b| a.and(b, has_negative));
    match form {
        Form::Signed => Arc::new(known().map(|value| value?.as_i64()).collect::<Int64Array>()),
        Form::Unsigned => Arc::new(known().map(|value| value?.as_u64()).collect::<UInt64Array>()),
        Form::Float => Arc::new(known().map(|value| value?.as_f64()).collect::<Float64Array>()),
        Form::Bool => Arc::new(known().map(|value| value?.as_bool()).collect::<BooleanArray>()),
        Form::Text => Arc::new(known().map(|value| value?.as_str()).collect::<StringArray>()),
        Form::Json => Arc::new(known().map(|value| Some(value?.to_string())).collect::<StringArray>()),
        // nothing is known: a column of numbers without a number
        Form::Unknown => Arc::new(Int64Array::new_null(values.len())),
    }
}
