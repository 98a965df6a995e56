//! The rules of the house.

use schedlab_tidy::{Manifest, SourceFile, circles, drawing, files, manifests, root, words};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A line of code or comment is no longer.
const COLUMNS: usize = 120;
/// A function is no longer.
const FUNCTION_LINES: usize = 100;
/// Longer functions that are tables: a row a line.
const TABLES: [&str; 1] = ["crates/experiments/src/vtrr/judge.rs table"];
/// Files with longer lines, and how many: texts of other programs' formats, bytes, a regular expression. A row of a
/// table in a comment may be longer, too: no row can be broken.
const WIDE_LITERALS: [(&str, usize); 10] = [
    ("crates/cli/src/coverage.rs", 1),
    ("crates/compare/src/judge/gate/tests.rs", 1),
    ("crates/convert/src/tracedat/records.rs", 3),
    ("crates/convert/src/tracedat/snapshot.rs", 1),
    ("crates/report/tests/outputs.rs", 4),
    ("crates/trace/src/state.rs", 2),
    ("crates/trace/tests/support/mod.rs", 1),
    ("crates/workload/examples/import_speed.rs", 1),
    ("crates/workload/tests/binary.rs", 3),
    ("crates/workload/tests/limits.rs", 1),
];
/// Public names that nobody in this repository uses, each with why it is public.
const API: &str = include_str!("../api.txt");
/// Where the drawing of the floors stands in ARCHITECTURE.md.
const FLOORS: (&str, &str) =
    ("<!-- floors: made by `TIDY_WRITE=1 cargo test -p schedlab-tidy` -->\n```text\n", "```\n");

fn sources(below: &str) -> Vec<SourceFile> {
    let root = root();
    files(&root.join(below), ".rs").iter().map(|path| SourceFile::read(&root, path)).collect()
}

/// Fails with one line per fault.
fn none(faults: Vec<String>, rule: &str) {
    assert!(faults.is_empty(), "{} against the rule '{rule}':\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn no_line_is_longer_than_a_screen_is_wide() {
    let mut literals: BTreeMap<&str, usize> = WIDE_LITERALS.into_iter().collect();
    let mut faults = Vec::new();
    for file in sources("crates") {
        let is_row = |line: usize| {
            let text = file.text.lines().nth(line - 1).unwrap_or_default().trim_start();
            ["//! |", "/// |", "// |"].iter().any(|start| text.starts_with(start))
        };
        let wide: Vec<_> = file.long_lines(COLUMNS).into_iter().filter(|(line, _)| !is_row(*line)).collect();
        let path = file.path.display().to_string();
        if literals.remove(path.as_str()).unwrap_or(0) != wide.len() {
            faults.extend(wide.iter().map(|(line, length)| format!("{path}:{line}: {length} columns")));
            faults.push(format!("{path}: {} wide lines are not what WIDE_LITERALS says", wide.len()));
        }
    }
    faults.extend(literals.keys().map(|path| format!("WIDE_LITERALS: there is no {path}")));
    none(faults, "120 columns");
}

#[test]
fn no_function_is_longer_than_a_hundred_lines() {
    let mut faults = Vec::new();
    let mut tables: BTreeSet<&str> = TABLES.into_iter().collect();
    for file in sources("crates") {
        for function in file.functions().iter().filter(|function| function.nr_lines > FUNCTION_LINES) {
            let name = format!("{} {}", file.path.display(), function.name);
            if !tables.remove(name.as_str()) {
                faults.push(format!("{name}: {} lines from {}", function.nr_lines, function.line));
            }
        }
    }
    faults.extend(tables.iter().map(|name| format!("{name} is short enough: take it off the list")));
    none(faults, "100 lines a function, tables excepted");
}

#[test]
fn every_crate_is_described_and_the_drawing_shows_the_floors() {
    let root = root();
    let path = root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md");
    let manifests = manifests(&root);
    let missing = |manifest: &&Manifest| !text.contains(&format!("| `{}` |", manifest.name));
    let faults =
        manifests.iter().filter(missing).map(|m| format!("{}: no row of the table", m.name)).collect();
    none(faults, "every crate has its row in ARCHITECTURE.md");
    let (head, rest) = text.split_once(FLOORS.0).expect("the drawing's first line");
    let (drawn, tail) = rest.split_once(FLOORS.1).expect("the drawing's last line");
    let now = drawing(&manifests);
    if std::env::var_os("TIDY_WRITE").is_some() {
        std::fs::write(&path, [head, FLOORS.0, &now, FLOORS.1, tail].concat())
            .expect("ARCHITECTURE.md is written");
    } else {
        assert_eq!(
            drawn, now,
            "the drawing in ARCHITECTURE.md is out of date; make it anew as its first line says"
        );
    }
}

/// The command line's files: main dispatches, a command knows what it needs, and nothing leads back.
#[test]
fn the_command_lines_files_stand_in_no_circle() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let src = Path::new("crates/cli/src");
    for file in sources("crates/cli/src") {
        let inside = file.path.strip_prefix(src).expect("below src").to_path_buf();
        let first = inside.components().next().expect("a file has a name").as_os_str();
        let module = Path::new(first).file_stem().expect("a name").to_string_lossy().into_owned();
        let named = file.text.split("crate::").skip(1).map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned()
        });
        edges.entry(module.clone()).or_default().extend(named.filter(|name| *name != module));
    }
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    for named in edges.values_mut() {
        named.retain(|name| modules.contains(name));
    }
    none(circles(&edges).into_iter().map(|circle| circle.join(" ")).collect(), "no circle of files");
}

/// Two crates may give their types the same name only if no crate can see both.
#[test]
fn one_name_means_one_thing_in_all_that_a_crate_sees() {
    let root = root();
    let manifests = manifests(&root);
    let mut given: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for manifest in &manifests {
        let lib = root.join("crates").join(&manifest.name).join("src/lib.rs");
        if lib.exists() {
            given.insert(&manifest.name, SourceFile::read(&root, &lib).types_given());
        }
    }
    let mut faults = BTreeSet::new();
    for manifest in &manifests {
        let seen = manifest.needs.iter().chain([&manifest.name]);
        let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in seen {
            for given in given.get(name.as_str()).into_iter().flatten() {
                owners.entry(given).or_default().push(name);
            }
        }
        for (name, owners) in owners.iter_mut().filter(|(_, owners)| owners.len() > 1) {
            owners.sort_unstable();
            faults.insert(format!("{name} is a type of {}", owners.join(" and of ")));
        }
    }
    none(faults.into_iter().collect(), "one name for one idea: rename one of them");
}

/// Whoever knows one study finds the way in the others (ARCHITECTURE.md).
#[test]
fn a_study_consists_of_cases_measures_judgement_and_page() {
    let root = root().join("crates");
    let mut faults = Vec::new();
    for study in
        ["validate", "features", "compare", "experiments/src/agreement", "experiments/src/schedulability"]
    {
        let folder = root.join(study);
        let folder = if folder.join("src").exists() { folder.join("src") } else { folder };
        for stage in ["cases", "measure", "judge", "page"] {
            if !folder.join(stage).join("mod.rs").exists() && !folder.join(format!("{stage}.rs")).exists() {
                faults.push(format!("{study}: there is no module '{stage}'"));
            }
        }
    }
    none(faults, "a study has cases, measure, judge and page");
}

#[test]
fn a_public_name_is_used_or_stands_in_the_list_with_its_reason() {
    let sources = sources("crates");
    let others: Vec<String> = files(&root().join("fuzz"), ".rs")
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a source file"))
        .collect();
    let texts = sources.iter().map(|file| file.text.as_str()).chain(others.iter().map(String::as_str));
    let words = words(texts);
    let listed: BTreeMap<&str, &str> = API
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(": ").expect("NAME: REASON"))
        .collect();
    let mut faults = Vec::new();
    let mut public: BTreeSet<String> = BTreeSet::new();
    for file in sources.iter().filter(|file| file.path.components().any(|part| part.as_os_str() == "src")) {
        for name in file.public_names() {
            if words[name.name.as_str()] < 2 && !listed.contains_key(name.name.as_str()) {
                faults.push(format!("{}:{}: {}", file.path.display(), name.line, name.name));
            }
            public.insert(name.name);
        }
    }
    for name in listed.keys().filter(|name| !public.contains(**name) || words[**name] >= 2) {
        faults.push(format!("crates/tidy/api.txt: {name} is used, or there is no such name"));
    }
    none(faults, "no public name that nobody uses, unless crates/tidy/api.txt says why");
}

/// docs/trust.md names tests: each of them is a function of these sources.
#[test]
fn the_tests_that_a_page_names_are_there() {
    let page = std::fs::read_to_string(root().join("docs/trust.md")).expect("the page");
    let sources = sources("crates");
    let is_test =
        |name: &str| name.matches('_').count() >= 3 && name.chars().all(|c| c.is_lowercase() || c == '_');
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(|name| is_test(name)).collect();
    let is_there = |name: &str| sources.iter().any(|file| file.text.contains(&format!("fn {name}(")));
    let faults = named.iter().filter(|name| !is_there(name)).map(|name| (*name).to_owned()).collect();
    assert!(named.len() > 30, "{} names: is the page still read?", named.len());
    none(faults, "a test that docs/trust.md names is there");
}
