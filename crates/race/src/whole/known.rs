//! Which pairs of accesses that nothing orders are the unmodified kernel's own, and why do they do no harm?
//!
//! `linux/race/races.toml` names one access of a pair, by its function and by what its line reads or writes, and says
//! why another CPU may come between:
//!
//! ```toml
//! [[race]]
//! function = "idle_cpu"       # the innermost one, as DWARF has it
//! line = "rq->curr"           # stands in the access's line, or in the one before or behind it
//! kernels = ["5.10", "6.1"]   # of which series the reason is true; without it: of all that have such a line
//! reason = "..."
//! ```
//!
//! Of several entries the one whose text stands in the access's own line comes first.
//!
//! A function's other accesses stay findings, and so does what that function's line does in an edited tree, if the edit
//! changes the line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use schedlab_linux::bugs::Edit;
use schedlab_linux::build;
use serde::Deserialize;

use super::scenario::is_of_series;
use crate::explore::Finding;
use crate::{RaceError, io};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownRace {
    /// The function of one of the two accesses.
    pub function: String,
    /// What its line holds.
    pub line: String,
    /// Of which series of Linux, e.g. `6.1`; empty: of all. A tree of one's own counts by its version.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Why it does no harm.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllKnown {
    race: Vec<KnownRace>,
}

/// All that are true of this version; of every version if it is empty.
///
/// # Errors
/// The file cannot be read.
pub fn known(version: &str) -> Result<Vec<KnownRace>, RaceError> {
    let path = build::port()?.join("race/races.toml");
    let text = std::fs::read_to_string(&path).map_err(io("read", &path))?;
    let mut all: AllKnown =
        toml::from_str(&text).map_err(|e| RaceError::Refused(format!("{}: {e}", path.display())))?;
    all.race.retain(|known| version.is_empty() || is_of_series(&known.kernels, version));
    Ok(all.race)
}

/// The source that an object was compiled from, by lines.
pub(super) struct Source {
    tree: PathBuf,
    edits: Vec<Edit>,
    files: HashMap<String, Vec<String>>,
}

impl Source {
    pub(super) fn new(tree: &Path, edits: &[Edit]) -> Source {
        Source { tree: tree.to_owned(), edits: edits.to_vec(), files: HashMap::new() }
    }

    /// The line of `kernel/sched/core.c:812 f`, and the same with its neighbours.
    fn around(&mut self, place: &str) -> Option<(String, String)> {
        let (file, line) = place.split_once(' ')?.0.rsplit_once(':')?;
        let line: usize = line.parse().ok()?;
        let (tree, edits) = (&self.tree, &self.edits);
        let lines = self.files.entry(file.to_owned()).or_insert_with(|| {
            let mut text = std::fs::read_to_string(tree.join(file)).unwrap_or_default();
            for edit in edits.iter().filter(|edit| edit.file == file) {
                text = text.replacen(&edit.old, &edit.new, 1);
            }
            text.lines().map(str::to_owned).collect()
        });
        let from = line.saturating_sub(2).min(lines.len());
        let own = lines.get(line.checked_sub(1)?).cloned().unwrap_or_default();
        Some((own, lines[from..(line + 1).min(lines.len())].join("\n")))
    }

    /// The reason of a race that has one.
    pub(super) fn explain<'a>(&mut self, race: &Finding, known: &'a [KnownRace]) -> Option<&'a KnownRace> {
        race.sites.iter().find_map(|site| {
            let function = site.rsplit(' ').next()?;
            let here: Vec<&KnownRace> = known.iter().filter(|k| k.function == function).collect();
            let (own, around) = if here.is_empty() { None } else { self.around(site) }?;
            let in_line = here.iter().find(|k| own.contains(&k.line));
            in_line.or_else(|| here.iter().find(|k| around.contains(&k.line))).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn races_of_the_same_functions_on_other_lines_are_others() {
        let found = |kind: &str, lines: [u32; 2]| Finding {
            kind: kind.into(),
            text: "nothing orders f() and g()".into(),
            sites: vec![format!("kernel/smp.c:{} f", lines[0]), format!("kernel/smp.c:{} g", lines[1])],
            first_schedule: 0,
            times: 1,
            preemptions: 0,
            choices: Vec::new(),
            scenario: Scenario::parse("s", "cpus 1\n").unwrap(),
            told_as: format!("{lines:?}"),
        };
        assert!(found("race", [1, 2]).is_same(&found("race", [1, 2])));
        assert!(!found("race", [1, 2]).is_same(&found("race", [1, 3])));
        // where the others stood is no part of what was found
        assert!(found("invariant", [1, 2]).is_same(&found("invariant", [1, 3])));
    }

    #[test]
    fn a_race_is_explained_by_function_and_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("kernel/sched")).unwrap();
        let text =
            "int idle_cpu(int cpu)\n{\n\tif (rq->curr != rq->idle)\n\t\treturn 0;\n\n\tif (rq->nr_running)\n";
        std::fs::write(dir.path().join("kernel/sched/core.c"), text).unwrap();
        let known = [KnownRace {
            function: "idle_cpu".into(),
            line: "rq->curr".into(),
            kernels: Vec::new(),
            reason: "a guess is enough".into(),
        }];
        let race = |line: u32, function: &str| Finding {
            kind: "race".into(),
            text: String::new(),
            sites: vec![
                "kernel/sched/core.c:900 __schedule".into(),
                format!("kernel/sched/core.c:{line} {function}"),
            ],
            first_schedule: 0,
            times: 1,
            preemptions: 0,
            choices: Vec::new(),
            scenario: Scenario::parse("s", "cpus 1\n").unwrap(),
            told_as: String::new(),
        };
        let mut source = Source::new(dir.path(), &[]);
        assert_eq!(source.explain(&race(3, "idle_cpu"), &known), Some(&known[0]));
        // another access of that function, another function, and a line that an edit has changed
        assert_eq!(source.explain(&race(6, "idle_cpu"), &known), None);
        assert_eq!(source.explain(&race(3, "busy_cpu"), &known), None);
        let edit =
            Edit { file: "kernel/sched/core.c".into(), old: "rq->curr".into(), new: "rq->donor".into() };
        assert_eq!(Source::new(dir.path(), &[edit]).explain(&race(3, "idle_cpu"), &known), None);
        // the entry of the access's own line comes before that of its neighbour
        let of = |line: &str| KnownRace { line: line.into(), ..known[0].clone() };
        let both = [of("idle_cpu(int cpu)"), of("if (rq->nr_running)"), of("return 0;")];
        assert_eq!(source.explain(&race(6, "idle_cpu"), &both), Some(&both[1]));
        assert_eq!(source.explain(&race(5, "idle_cpu"), &both), Some(&both[1]));
        assert_eq!(source.explain(&race(4, "idle_cpu"), &both), Some(&both[2]));
    }
}
