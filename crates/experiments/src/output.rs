//! Files of a study: nothing is half-written, and a page shows pictures first and tables under them.

use crate::table::Table;
use schedlab_stdx::aside;
use schedlab_stdx::escape::html as escape;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; choose a folder that can be written to, with free space", path.display())]
pub struct OutputError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

/// A drawing with its name and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Name of its file, without ending.
    pub name: String,
    /// What to see in it.
    pub caption: String,
    /// The picture.
    pub svg: String,
}

/// Drawings and tables of one study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pages {
    /// Heading.
    pub title: String,
    /// What the reader should know first.
    pub remarks: Vec<String>,
    /// In order.
    pub drawings: Vec<Drawing>,
    /// In order.
    pub tables: Vec<Table>,
}

/// Makes a folder that can be written to.
pub fn create(folder: &Path) -> Result<(), OutputError> {
    std::fs::create_dir_all(folder).map_err(|source| OutputError { path: folder.to_path_buf(), source })
}

fn write_file(folder: &Path, name: &str, text: &str) -> Result<PathBuf, OutputError> {
    let path = folder.join(name);
    aside::write(&path, text.as_bytes()).map_err(|source| OutputError { path: path.clone(), source })?;
    Ok(path)
}

impl Pages {
    /// Writes `NAME.csv` and `NAME.json` per table, `NAME.svg` per drawing, and `index.html` with all of them, which opens offline.
    /// Returns the paths, `index.html` first.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        let mut paths = self.write_csv(folder)?;
        for table in &self.tables {
            let json = format!("{:#}\n", table.to_json());
            paths.push(write_file(folder, &format!("{}.json", table.name), &json)?);
        }
        paths.extend(self.write_svg(folder)?);
        paths.insert(0, write_file(folder, "index.html", &self.html())?);
        Ok(paths)
    }

    /// Writes `NAME.csv` per table into a folder; returns the paths.
    pub fn write_csv(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        create(folder)?;
        let write = |table: &Table| write_file(folder, &format!("{}.csv", table.name), &table.to_csv());
        self.tables.iter().map(write).collect()
    }

    /// Writes `NAME.svg` per drawing into a folder; returns the paths.
    pub fn write_svg(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        create(folder)?;
        let write = |drawing: &Drawing| write_file(folder, &format!("{}.svg", drawing.name), &drawing.svg);
        self.drawings.iter().map(write).collect()
    }

    /// `{"schema":1,"title":...,"remarks":[...],"tables":[...]}`; tables as [`Table::to_json`] has them.
    pub fn to_json(&self) -> serde_json::Value {
        let tables: Vec<serde_json::Value> = self.tables.iter().map(Table::to_json).collect();
        serde_json::json!({"schema": 1, "title": self.title, "remarks": self.remarks, "tables": tables})
    }

    /// One self-contained page.
    pub fn html(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n",
            escape(&self.title)
        );
        for remark in &self.remarks {
            let _ = writeln!(page, "<p>{}</p>", escape(remark));
        }
        for drawing in &self.drawings {
            let _ = writeln!(
                page,
                "<figure id=\"{}\">\n{}\n<figcaption>{}</figcaption></figure>",
                drawing.name,
                drawing.svg,
                escape(&drawing.caption)
            );
        }
        for table in &self.tables {
            let _ = writeln!(
                page,
                "<h2 id=\"{}\">{}</h2>\n<div class=\"wide\"><table><tr>",
                table.name,
                escape(&table.title)
            );
            for column in &table.columns {
                // a long name may be broken where it has a joint
                let name = escape(column.name).replace('_', "_<wbr>");
                let _ = write!(page, "<th title=\"{}\">{name}</th>", escape(column.help));
            }
            page.push_str("</tr>\n");
            for row in &table.rows {
                page.push_str("<tr>");
                for (place, cell) in row.iter().enumerate() {
                    let _ = match cell {
                        serde_json::Value::Null if table.is_text(place) => write!(page, "<td>-</td>"),
                        serde_json::Value::Null => write!(page, "<td class=\"n\">-</td>"),
                        serde_json::Value::String(text) => write!(page, "<td>{}</td>", escape(text)),
                        other => match other.as_f64().filter(|_| other.is_f64()) {
                            Some(number) => {
                                write!(page, "<td class=\"n\">{}</td>", crate::table::short(number))
                            }
                            None => write!(page, "<td class=\"n\">{other}</td>"),
                        },
                    };
                }
                page.push_str("</tr>\n");
            }
            page.push_str("</table></div>\n");
        }
        page.push_str("</html>\n");
        page
    }
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}figure{margin:1.5rem 0}figure svg{max-width:100%;height:auto}\
figcaption{color:#555;max-width:50rem}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}\
th,td{padding:.15rem .6rem;border-bottom:1px solid #ddd;text-align:left;white-space:nowrap}th{white-space:normal;vertical-align:bottom}td.n{text-align:right;font-variant-numeric:tabular-nums}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn all_files_are_written_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::new("t", "A < B", vec![Column::new("a", "", "it's")]);
        table.push(vec![1.into()]);
        let drawing = Drawing { name: "d".into(), caption: "c".into(), svg: "<svg/>".into() };
        let pages =
            Pages { title: "T".into(), remarks: vec![], drawings: vec![drawing], tables: vec![table] };
        let paths = pages.write(&folder.path().join("new")).unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path().join("new")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["d.svg", "index.html", "t.csv", "t.json"]);
        assert!(
            paths[0].ends_with("index.html")
                && std::fs::read_to_string(&paths[0]).unwrap().contains("A &lt; B")
        );
        let blocked = folder.path().join("new/t.csv/below");
        assert!(pages.write(&blocked).unwrap_err().to_string().contains("choose a folder"));
    }
}
