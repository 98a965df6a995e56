//! Tables of TOML whose every mistake has its place: values are taken field by field, what is left over is unknown.

use super::MixError;
use crate::text::near;
use crate::tools::Factor;
use schedlab_units::{CpuSet, Nice, SchedPolicy, Span};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) type Found<T> = Result<T, MixError>;

/// A file being read.
#[derive(Clone, Copy)]
pub(super) struct Document<'d> {
    pub path: &'d Path,
    pub text: &'d str,
}

/// A value and its place.
pub(super) type Value<'d> = Spanned<DeValue<'d>>;

impl<'d> Document<'d> {
    pub fn fault<T>(
        self,
        at: &Range<usize>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Found<T> {
        Err(MixError::at((self.path, self.text), at, expected, remedy))
    }

    /// A value parsed from a text, or from a number as it is written.
    fn parsed<T>(self, value: &Value<'d>, parse: impl Fn(&str) -> Result<T, String>) -> Found<T> {
        let written;
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(_) | DeValue::Float(_) => {
                written = self.text[value.span()].replace('_', "");
                &written
            }
            _ => "",
        };
        parse(text).or_else(|expected| self.fault(&value.span(), expected, ""))
    }

    pub fn string(self, value: &Value<'d>) -> Found<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => self.fault(&value.span(), "expected a text in quotation marks", ""),
        }
    }

    pub fn span(self, value: &Value<'d>) -> Found<Span> {
        let expected = || "expected a length of time such as \"4ms\"".to_string();
        if !matches!(value.get_ref(), DeValue::String(_) | DeValue::Integer(_)) {
            return self.fault(&value.span(), expected(), "");
        }
        self.parsed(value, |text| text.parse().map_err(|_| expected()))
    }

    pub fn number(
        self,
        value: &Value<'d>,
        expected: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Found<i64> {
        if !matches!(value.get_ref(), DeValue::Integer(_)) {
            return self.fault(&value.span(), expected, "");
        }
        let number = |text: &str| text.parse().ok().filter(|number| range.contains(number));
        self.parsed(value, |text| number(text).ok_or_else(|| expected.to_string()))
    }

    pub fn flag(self, value: &Value<'d>) -> Found<bool> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => self.fault(&value.span(), "expected true or false", ""),
        }
    }

    pub fn factor(self, value: &Value<'d>) -> Found<Factor> {
        self.parsed(value, |text| {
            let expected = "expected a factor such as 0.5, 2 or \"1/3\", with at most 9 decimals";
            text.parse().map_err(|_| expected.to_string())
        })
    }

    pub fn nice(self, value: &Value<'d>) -> Found<Nice> {
        let nice = self.number(value, "expected a nice value, -20 to 19", -20..=19)?;
        Nice::new(nice as i32).or_else(|_| self.fault(&value.span(), "expected a nice value, -20 to 19", ""))
    }

    pub fn policy(self, value: &Value<'d>) -> Found<SchedPolicy> {
        self.parsed(value, |text| {
            text.parse().map_err(|_| "expected normal, batch, idle, fifo, rr, deadline or ext".to_string())
        })
    }

    pub fn cpus(self, value: &Value<'d>) -> Found<CpuSet> {
        self.parsed(value, |text| {
            let cpus: Option<CpuSet> = text.parse().ok();
            let expected = "expected a list of CPUs such as \"0-3,8\"";
            cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(|| expected.to_string())
        })
    }

    /// The path of a control group.
    pub fn group(self, value: &Value<'d>) -> Found<String> {
        let path = self.string(value)?;
        let proper = |part: &str| !part.is_empty() && part != "." && part != "..";
        if path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(proper)) {
            return Ok(path);
        }
        self.fault(&value.span(), "expected the path of a control group, such as \"/batch/slow\"", "")
    }

    /// One value, or a list of them.
    pub fn list<T>(self, value: &Value<'d>, item: impl Fn(&Value<'d>) -> Found<T>) -> Found<Vec<T>> {
        match value.get_ref() {
            DeValue::Array(items) if items.is_empty() => {
                self.fault(&value.span(), "the list is empty; name at least one, or leave it out", "")
            }
            DeValue::Array(items) => items.iter().map(item).collect(),
            _ => Ok(vec![item(value)?]),
        }
    }
}

/// A table whose fields are taken one by one.
pub(super) struct Fields<'d> {
    pub document: Document<'d>,
    table: DeTable<'d>,
    pub at: Range<usize>,
    /// Names asked for so far.
    known: Vec<&'static str>,
}

impl<'d> Fields<'d> {
    pub fn new(document: Document<'d>, table: Spanned<DeTable<'d>>) -> Fields<'d> {
        Fields { document, at: table.span(), table: table.into_inner(), known: Vec::new() }
    }

    /// Takes a field, if it is there.
    pub fn take(&mut self, name: &'static str) -> Option<Value<'d>> {
        self.known.push(name);
        self.table.remove(name)
    }

    /// Takes a field and reads it.
    pub fn get<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Document<'d>, &Value<'d>) -> Found<T>,
    ) -> Found<Option<(T, Range<usize>)>> {
        let document = self.document;
        let Some(value) = self.take(name) else { return Ok(None) };
        Ok(Some((read(document, &value)?, value.span())))
    }

    /// As [`Fields::get`], without the place.
    pub fn value<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Document<'d>, &Value<'d>) -> Found<T>,
    ) -> Found<Option<T>> {
        Ok(self.get(name, read)?.map(|(value, _)| value))
    }

    /// Takes an array of tables (`[[name]]`).
    pub fn tables(&mut self, name: &'static str) -> Found<Vec<Fields<'d>>> {
        let document = self.document;
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let at = value.span();
        let expected = format!("expected tables: [[{name}]] on a line of its own, the fields below");
        let DeValue::Array(items) = value.into_inner() else { return document.fault(&at, expected, "") };
        items
            .into_iter()
            .map(|item| {
                let at = item.span();
                match item.into_inner() {
                    DeValue::Table(table) => Ok(Fields::new(document, Spanned::new(at, table))),
                    _ => document.fault(&at, expected.clone(), ""),
                }
            })
            .collect()
    }

    /// Whatever has not been taken is not known.
    pub fn finish(self) -> Found<()> {
        // the first in the file
        let Some(key) = self.table.keys().min_by_key(|key| key.span().start) else { return Ok(()) };
        let name = key.get_ref().as_ref();
        let mut expected = format!("expected {}", self.known.join(", "));
        if let Some(known) = self.known.iter().find(|known| near(name, known)) {
            expected = format!("no such field; did you mean {known}?");
        }
        self.document.fault(&key.span(), expected, "")
    }
}
