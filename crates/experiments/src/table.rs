//! Results as rows with named columns and units, written as CSV and JSON.
//!
//! ```
//! use schedlab_experiments::table::{Column, Table};
//! let columns = vec![Column::new("sched", "", "scheduler"), Column::new("error_high_tu", "tu", "most ahead, in quanta")];
//! let mut table = Table::new("errors", "Service time error", columns);
//! table.push(vec!["vtrr".into(), 0.5.into()]);
//! assert_eq!(table.to_csv(), "sched,error_high_tu\nvtrr,0.5\n");
//! ```

use schedlab_stdx::csv;
use serde_json::{Map, Value, json};

/// A column: its name ends in its unit if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name in CSV and JSON.
    pub name: &'static str,
    /// Unit: `tu` (time unit, one quantum), `ns`, ...; empty = none.
    pub unit: &'static str,
    /// What it says.
    pub help: &'static str,
}

impl Column {
    /// A column.
    pub const fn new(name: &'static str, unit: &'static str, help: &'static str) -> Column {
        Column { name, unit, help }
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of its files.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// One value per column; null where there is none.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Without rows.
    pub fn new(name: impl Into<String>, title: impl Into<String>, columns: Vec<Column>) -> Table {
        Table { name: name.into(), title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a row of {} has a value per column", self.name);
        self.rows.push(row);
    }

    /// The place of a column.
    fn place(&self, column: &str) -> usize {
        let place = self.columns.iter().position(|c| c.name == column);
        place.unwrap_or_else(|| panic!("{} has no column {column}", self.name))
    }

    /// Whether the column holds text.
    pub(crate) fn is_text(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[column].is_string())
    }

    /// A cell as a number, if it is one.
    pub fn number(&self, row: usize, column: &str) -> Option<f64> {
        self.rows[row][self.place(column)].as_f64()
    }

    /// A cell as text; empty if it is no text.
    pub fn text(&self, row: usize, column: &str) -> &str {
        self.rows[row][self.place(column)].as_str().unwrap_or("")
    }

    /// With a header line; text with commas, quotes or line ends in quotes; null is empty.
    pub fn to_csv(&self) -> String {
        let mut out = self.columns.iter().map(|c| c.name).collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                Value::Null => String::new(),
                Value::String(text) => csv::field(text).into_owned(),
                other => other.to_string(),
            });
            out += &cells.collect::<Vec<_>>().join(",");
            out.push('\n');
        }
        out
    }

    /// `{"schema":1,"name":...,"columns":[{"name","unit","help"}],"rows":[{column:value}]}`.
    pub fn to_json(&self) -> Value {
        let columns: Vec<Value> =
            self.columns.iter().map(|c| json!({"name": c.name, "unit": c.unit, "help": c.help})).collect();
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row).map(|(c, cell)| (c.name.to_string(), cell.clone()));
            Value::Object(cells.collect::<Map<_, _>>())
        });
        json!({"schema": 1, "name": self.name, "title": self.title, "columns": columns, "rows": rows.collect::<Vec<_>>()})
    }

    /// For a terminal: columns in line, numbers to the right.
    pub fn to_text(&self) -> String {
        let cell = |value: &Value| match value {
            Value::Null => "-".to_string(),
            Value::String(text) => text.clone(),
            other => match other.as_f64() {
                Some(number) if other.is_f64() => short(number),
                _ => other.to_string(),
            },
        };
        let body: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let width = |c: usize| {
            let cells = body.iter().map(|row| row[c].chars().count());
            cells.max().unwrap_or(0).max(self.columns[c].name.chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_text = |c: usize| self.is_text(c);
        let line = |cells: Vec<&str>| {
            let padded = cells.iter().enumerate().map(|(c, cell)| {
                if is_text(c) { format!("{cell:<0$}", widths[c]) } else { format!("{cell:>0$}", widths[c]) }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
        };
        let mut text = line(self.columns.iter().map(|c| c.name).collect());
        body.iter().for_each(|row| text += &line(row.iter().map(String::as_str).collect()));
        text
    }
}

/// A number as a person reads it: three or four digits that count.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        0.0 => "0".into(),
        size if size >= 1000.0 => format!("{number:.0}"),
        size if size >= 100.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_and_json_names() {
        let columns = vec![Column::new("a", "", "text"), Column::new("b_ns", "ns", "number")];
        let mut table = Table::new("t", "T", columns);
        table.push(vec!["x, \"y\"".into(), Value::Null]);
        assert_eq!(table.to_csv(), "a,b_ns\n\"x, \"\"y\"\"\",\n");
        assert_eq!(table.to_json()["rows"][0]["b_ns"], Value::Null);
        assert_eq!(table.to_json()["columns"][1]["unit"], "ns");
        assert!(table.to_text().starts_with("a"));
    }
}
