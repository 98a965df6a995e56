//! Which version has what? Features down, versions across.
//!
//! ```text
//! fair class        5.10    6.1    6.12    7.2    expected
//!   nice             ok      ok     ok      ok    22.3 7.3 68.0 2.4 % ± 0.05
//!   cpu.idle         -       ok     ok      ok
//! ```

use crate::{Feature, FeatureCell, FeatureGroup, SUITE, all};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The results of one kernel, as kept beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SUITE`] when they were found.
    pub suite: u32,
    /// Cells by the feature's name.
    pub cells: BTreeMap<String, FeatureCell>,
}

impl Results {
    /// Nothing is known yet.
    pub fn fresh() -> Results {
        Results { suite: SUITE, cells: BTreeMap::new() }
    }

    /// What is known from before; nothing if it is from another suite, or unreadable.
    pub fn read(path: &Path) -> Results {
        let known = std::fs::read(path).ok().and_then(|data| serde_json::from_slice::<Results>(&data).ok());
        known.filter(|k| k.suite == SUITE).unwrap_or_else(Results::fresh)
    }

    /// Keep them, whole or not at all.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        schedlab_stdx::aside::write(path, &serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?)
    }
}

/// A version and what it showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// As in `--sched`: `linux-6.12`.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// Cells by the feature's name.
    pub cells: BTreeMap<String, FeatureCell>,
}

/// The table as text. `colour` marks what differs.
pub fn text(columns: &[Column], colour: bool) -> String {
    let features = all();
    let paint = |code: &str, text: String| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
    let first = features.iter().map(|f| f.name.chars().count()).max().unwrap_or(0).max(28);
    let width = columns.iter().map(|c| c.name.chars().count()).max().unwrap_or(0).max(10);
    let mut out = String::new();
    let mut group = None;
    for feature in &features {
        if group != Some(feature.group) {
            if group.is_some() {
                out.push('\n');
            }
            let heads: String = columns.iter().map(|c| format!("  {:^width$}", c.name)).collect();
            out.push_str(&paint("1", format!("{:<first$}{heads}", feature.group.title())));
            out.push('\n');
            group = Some(feature.group);
        }
        let mut line = format!("  {:<w$}", feature.name, w = first - 2);
        for column in columns {
            let (mark, code) = match column.cells.get(feature.name) {
                Some(FeatureCell::Ran(f)) if f.as_expected => ("ok", "32"),
                Some(FeatureCell::Ran(_)) => ("DIFFERS", "31"),
                Some(FeatureCell::Absent { why }) if why.starts_with("since ") => (why.as_str(), "2"),
                Some(FeatureCell::Absent { .. }) => ("not in it", "2"),
                Some(FeatureCell::NotBuilt { .. }) => ("not built", "2"),
                Some(FeatureCell::Failed { .. }) => ("FAILED", "31"),
                None => ("", "0"),
            };
            line.push_str("  ");
            line.push_str(&paint(code, format!("{mark:^width$}")));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push_str(&notes(columns, &features));
    out
}

/// What was found, where it is not as expected, and why cells are empty.
fn notes(columns: &[Column], features: &[Feature]) -> String {
    let mut out = String::new();
    let mut line = |feature: &Feature, column: &Column, text: String| {
        if out.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("{}, {}: {text}\n", column.name, feature.name));
    };
    for feature in features {
        for column in columns {
            match column.cells.get(feature.name) {
                Some(FeatureCell::Ran(f)) if !f.as_expected => {
                    line(
                        feature,
                        column,
                        format!("found {}, expected {} ({})", f.found, f.expected, feature.what),
                    );
                }
                Some(FeatureCell::Failed { why }) => line(feature, column, why.clone()),
                Some(FeatureCell::Absent { why }) if !why.starts_with("since ") => {
                    line(feature, column, why.clone())
                }
                Some(FeatureCell::NotBuilt { how }) => line(feature, column, how.clone()),
                _ => {}
            }
        }
    }
    out
}

/// Every number: found and expected, feature by feature.
pub fn details(columns: &[Column]) -> String {
    let mut out = String::new();
    for feature in all() {
        out.push_str(&format!("{}: {}\n", feature.name, feature.what));
        for column in columns {
            if let Some(FeatureCell::Ran(f)) = column.cells.get(feature.name) {
                let mark = if f.as_expected { "ok" } else { "DIFFERS" };
                out.push_str(&format!(
                    "  {:<14} {mark:<8} {}   expected {}\n",
                    column.name, f.found, f.expected
                ));
            }
        }
    }
    out
}

/// As JSON: columns with their cells, and what each feature's scenario is.
pub fn json(columns: &[Column]) -> serde_json::Value {
    let features: Vec<_> = all()
        .iter()
        .map(|f| serde_json::json!({"name": f.name, "group": f.group.title(), "what": f.what}))
        .collect();
    serde_json::json!({"schema": 1, "suite": SUITE, "features": features, "kernels": columns})
}

/// The section titles in order, for other layouts.
pub fn groups() -> [FeatureGroup; 5] {
    [
        FeatureGroup::Fair,
        FeatureGroup::RealTime,
        FeatureGroup::Groups,
        FeatureGroup::Machine,
        FeatureGroup::System,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;

    fn column(cells: &[(&str, FeatureCell)]) -> Column {
        Column {
            name: "linux-6.12".into(),
            version: "6.12.1".into(),
            cells: cells.iter().map(|(n, c)| ((*n).to_owned(), c.clone())).collect(),
        }
    }

    #[test]
    fn what_differs_is_explained_below() {
        let columns = [column(&[
            ("nice", FeatureCell::Ran(Finding::number(1.0, 1.0, 0.1, ""))),
            ("spread", FeatureCell::Ran(Finding::words("[8, 0, 0, 0]", "[2, 2, 2, 2]"))),
            ("cpu.idle", FeatureCell::Absent { why: "since 5.15".into() }),
        ])];
        let text = text(&columns, false);
        let line = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name)).unwrap().to_owned();
        assert!(line("nice").ends_with("ok"), "{text}");
        assert!(line("spread").ends_with("DIFFERS"), "{text}");
        assert!(line("cpu.idle").ends_with("since 5.15"), "{text}");
        assert!(text.contains("linux-6.12, spread: found [8, 0, 0, 0], expected [2, 2, 2, 2]"), "{text}");
    }

    #[test]
    fn results_are_kept_for_their_suite_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("features.json");
        let mut results = Results::read(&path);
        assert!(results.cells.is_empty());
        results.cells.insert("nice".into(), FeatureCell::Ran(Finding::words("a", "a")));
        results.write(&path).unwrap();
        assert_eq!(Results::read(&path), results);
        Results { suite: SUITE + 1, ..results }.write(&path).unwrap();
        assert!(Results::read(&path).cells.is_empty());
    }
}
