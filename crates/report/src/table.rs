//! How do results stand in rows? With named columns and units, as CSV, JSON, text for a terminal and HTML.
//!
//! ```
//! use schedlab_report::table::{Column, Table};
//! let error = Column::new("error_high_tu", "tu", "most ahead, in quanta");
//! let columns = vec![Column::new("sched", "", "scheduler"), error];
//! let mut table = Table::new("errors", "Service time error", columns);
//! table.push(vec!["vtrr".into(), 0.5.into()]);
//! assert_eq!(table.to_csv(), "sched,error_high_tu\nvtrr,0.5\n");
//! ```

use schedlab_stdx::csv;
use schedlab_stdx::escape::html as escape;
use serde_json::{Map, Value, json};

/// A column of a [`Table`]: its name ends in its unit if it has one.
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

/// Data in rows.
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
    fn is_text(&self, column: usize) -> bool {
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
        let mut csv = csv_line(self.columns.iter().map(|c| c.name));
        for row in &self.rows {
            csv += &csv_line(row.iter().map(|cell| match cell {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }));
        }
        csv
    }

    /// `{"schema":1,"name":...,"columns":[{"name","unit","help"}],"rows":[{column:value}]}`.
    pub fn to_json(&self) -> Value {
        let columns: Vec<Value> =
            self.columns.iter().map(|c| json!({"name": c.name, "unit": c.unit, "help": c.help})).collect();
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row).map(|(c, cell)| (c.name.to_string(), cell.clone()));
            Value::Object(cells.collect::<Map<_, _>>())
        });
        let rows: Vec<_> = rows.collect();
        json!({"schema": 1, "name": self.name, "title": self.title, "columns": columns, "rows": rows})
    }

    /// For a terminal: columns in line, numbers to the right.
    pub fn to_text(&self) -> String {
        let body: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
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

/// As a person reads it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => text.clone(),
        other => match other.as_f64() {
            Some(number) if other.is_f64() => short(number),
            _ => other.to_string(),
        },
    }
}

/// A line of CSV (RFC 4180).
pub fn csv_line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| csv::field(cell.as_ref()).into_owned()).collect();
    cells.join(",") + "\n"
}

/// How a text stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    #[default]
    Plain,
    /// For the better, passed.
    Good,
    /// For the worse, failed.
    Bad,
    /// Beyond what is tolerated for a known reason.
    Known,
    /// Changed, neither for the better nor for the worse.
    Changed,
    /// Of second rank.
    Soft,
    /// Of third rank.
    Faint,
    /// A name to type.
    Code,
    /// A name to look for.
    Bold,
}

impl Tone {
    /// Its class in the page's style.
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Known => "known",
            Tone::Changed => "changed",
            Tone::Soft => "soft",
            Tone::Faint => "faint",
            Tone::Code => "code",
            Tone::Bold => "bold",
        }
    }

    /// The text in this tone, as HTML.
    pub(crate) fn html(self, text: &str) -> String {
        match self {
            Tone::Plain => escape(text),
            tone => format!("<span class=\"{}\">{}</span>", tone.class(), escape(text)),
        }
    }
}

/// A cell of a [`Grid`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What is read.
    pub text: String,
    /// How.
    pub tone: Tone,
    /// Numbers stand to the right.
    pub is_number: bool,
    /// Shown where a pointer rests on it; empty = nothing.
    pub help: String,
    /// The anchor on this page that it leads to; empty = none.
    pub link: String,
    /// Columns; 0 and 1: one.
    pub span: usize,
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }
    /// A number, as text.
    pub fn number(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), is_number: true, ..Cell::default() }
    }
    /// In a tone.
    pub fn tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
    /// With an explanation.
    pub fn help(self, help: impl Into<String>) -> Cell {
        Cell { help: help.into(), ..self }
    }

    fn html(&self, element: &str) -> String {
        /// Longer texts are broken into lines.
        const LONG: usize = 40;
        let is_long = !self.is_number && self.text.chars().count() > LONG;
        let classes =
            [(self.is_number, "n"), (is_long, "long"), (self.tone != Tone::Plain, self.tone.class())];
        let classes: Vec<&str> = classes.into_iter().filter(|(is, _)| *is).map(|(_, class)| class).collect();
        let mut tag = element.to_string();
        for (name, value) in [("class", classes.join(" ")), ("title", escape(&self.help))] {
            if !value.is_empty() {
                tag += &format!(" {name}=\"{value}\"");
            }
        }
        if self.span > 1 {
            tag += &format!(" colspan=\"{}\"", self.span);
        }
        // a long name may be broken where it has a joint
        let joint = if element == "th" { "_<wbr>" } else { "_" };
        let text = escape(&self.text).replace('_', joint).replace('\n', "<br>");
        match self.link.is_empty() {
            true => format!("<{tag}>{text}</{element}>"),
            false => format!("<{tag}><a href=\"#{}\">{text}</a></{element}>", escape(&self.link)),
        }
    }
}

/// Tables of so many columns are set closely.
const DENSE: usize = 12;

/// Rows as they are read, in a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Over the columns; none = no line of heads.
    pub head: Vec<Cell>,
    /// From top to bottom.
    pub rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// As HTML.
    pub(crate) fn html(&self) -> String {
        let line = |cells: &[Cell], element: &str| {
            let cells: String = cells.iter().map(|cell| cell.html(element)).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let nr_columns = self.head.len().max(self.rows.first().map_or(0, Vec::len));
        let class = if nr_columns >= DENSE { "scroll dense" } else { "scroll" };
        let mut html = format!("<div class=\"{class}\"><table>\n");
        if !self.head.is_empty() {
            html += &format!("<thead>{}</thead>\n", line(&self.head, "th"));
        }
        html += "<tbody>\n";
        self.rows.iter().for_each(|row| html += &line(row, "td"));
        html + "</tbody></table></div>\n"
    }
}

impl Table {
    /// As it is read in a page.
    pub(crate) fn grid(&self) -> Grid {
        let cell = |(place, value): (usize, &Value)| match value {
            Value::String(text) => Cell::text(text),
            Value::Null if self.is_text(place) => Cell::text("-"),
            value => Cell::number(shown(value)),
        };
        let head = |(place, column): (usize, &Column)| Cell {
            is_number: !self.is_text(place),
            ..Cell::text(column.name).help(column.help)
        };
        Grid {
            head: self.columns.iter().enumerate().map(head).collect(),
            rows: self.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect(),
        }
    }
}

/// A number as a person reads it: three or four digits that count.
pub fn short(number: f64) -> String {
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

    #[test]
    fn cells_are_escaped_aligned_and_explained() {
        let columns = vec![Column::new("a_b", "", "what's \"a\""), Column::new("n", "", "")];
        let mut table = Table::new("t", "T", columns);
        table.push(vec!["<x>".into(), 0.5.into()]);
        table.push(vec![Value::Null, Value::Null]);
        let html = table.grid().html();
        assert!(
            html.contains("<th title=\"what's &quot;a&quot;\">a_<wbr>b</th><th class=\"n\">n</th>"),
            "{html}"
        );
        assert!(html.contains("<td>&lt;x&gt;</td><td class=\"n\">0.500</td>"), "{html}");
        assert!(html.contains("<td>-</td><td class=\"n\">-</td>"), "{html}");
        let linked = Cell { link: "c1".into(), span: 2, ..Cell::text("a\nb").tone(Tone::Bad) };
        assert_eq!(linked.html("td"), "<td class=\"bad\" colspan=\"2\"><a href=\"#c1\">a<br>b</a></td>");
    }
}
