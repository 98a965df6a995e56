//! Which files has a study? A page with pictures first and tables under them, and each of them as a file;
//! none is ever half-written.

use crate::chart::Drawing;
use crate::page::Page;
use crate::table::Table;
use schedlab_stdx::aside;
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
    /// Writes `NAME.csv` and `NAME.json` per table, `NAME.svg` per drawing, and `index.html` with all of
    /// them, which opens offline. Returns the paths, `index.html` first.
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
        let write =
            |drawing: &Drawing| write_file(folder, &format!("{}.svg", drawing.name), &drawing.svg.text());
        self.drawings.iter().map(write).collect()
    }

    /// `{"schema":1,"title":...,"remarks":[...],"tables":[...]}`; tables as [`Table::to_json`] has them.
    pub fn to_json(&self) -> serde_json::Value {
        let tables: Vec<serde_json::Value> = self.tables.iter().map(Table::to_json).collect();
        serde_json::json!({"schema": 1, "title": self.title, "remarks": self.remarks, "tables": tables})
    }

    /// One self-contained page.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title);
        self.remarks.iter().for_each(|remark| page.note(remark));
        self.drawings.iter().for_each(|drawing| page.drawing(drawing));
        self.tables.iter().for_each(|table| page.table(table));
        page.html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Svg;
    use crate::table::Column;

    #[test]
    fn all_files_are_written_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::new("t", "A < B", vec![Column::new("a", "", "it's")]);
        table.push(vec![1.into()]);
        let drawing = Drawing { name: "d".into(), caption: "c".into(), svg: Svg::new(1.0, 1.0) };
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
