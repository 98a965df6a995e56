//! The rules of the house.

use schedlab_tidy::{Manifest, SourceFile, circles, drawing, files, manifests, root, words};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A line of code or comment is no longer.
const COLUMNS: usize = 120;
/// A function is no longer.
const FUNCTION_LINES: usize = 100;
/// Longer functions that are tables: a row a line.
const TABLES: [&str; 1] = ["crates/experiments/src/vtrr/published.rs table"];
/// Lines that were longer when the rule came. The number may only fall.
const STILL_WIDE: usize = 137;
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
    let mut wide = Vec::new();
    for file in sources("crates") {
        for (line, length) in file.long_lines(COLUMNS) {
            wide.push(format!("{}:{line}: {length} columns", file.path.display()));
        }
    }
    let (number, places) = (wide.len(), wide.join("\n"));
    assert!(
        number <= STILL_WIDE,
        "{number} lines are wider than {COLUMNS} columns, {STILL_WIDE} were:\n{places}"
    );
    assert!(
        number == STILL_WIDE,
        "only {number} lines are too wide now: write that into STILL_WIDE, so that it stays"
    );
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
