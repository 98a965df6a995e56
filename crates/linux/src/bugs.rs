//! Which mistakes of earlier kernels can be made again, and where?
//!
//! `linux/bugs/NAME.toml` describes a fix of the fair class and small substitutions that undo it in a copy of
//! a kernel tree:
//!
//! ```text
//! linux/bugs/yield-again.toml   kernel/sched/fair.c: "se->vruntime = se->deadline;" -> ""  fixed in 6.19: 79104becf42b
//! ~/.cache/schedlab/linux/bugs/6.12  symbolic links to the packaged source; kernel/sched copied, edited, put back
//! ```
//!
//! A bug that the packaged kernel has itself ([`Origin::Open`]) is described the same way; its edits mend it.
//!
//! One tree serves all: after the first build an edit of `fair.c` compiles that file alone. An edit's old
//! text must occur exactly once, so that an edit of another version than it was written for is an error and
//! not another bug.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use schedlab_units::Span;
use serde::{Deserialize, Serialize};

use crate::BuiltKernel;

/// A fix that can be undone, the workload that shows it, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bug {
    /// Its name: the file's.
    #[serde(skip)]
    pub name: String,
    /// One line: what goes wrong.
    pub title: String,
    /// The series whose tree the edits are for, e.g. `6.12`.
    pub series: String,
    /// The upstream fix that the edits undo; or
    #[serde(default)]
    fix: Option<Fix>,
    /// where the packaged kernel's own bug was seen; the edits mend it.
    #[serde(default)]
    open: Option<Open>,
    /// What users see.
    pub users: String,
    /// Why it happens, for a reader of the kernel.
    pub why: String,
    /// Configuration fragments that the instrument needs.
    #[serde(default)]
    pub flavours: Vec<String>,
    /// The substitutions.
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
    /// What is run.
    pub run: Run,
    /// What shows it.
    pub shown: Shown,
}

/// Whose bug it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// One that was fixed: the packaged kernel is without, the edited one with it.
    Undone(&'a Fix),
    /// One that is there: the packaged kernel is with, the edited one without it.
    Open(&'a Open),
}

impl Bug {
    /// Whose bug it is.
    pub fn origin(&self) -> Origin<'_> {
        match (&self.fix, &self.open) {
            (Some(fix), _) => Origin::Undone(fix),
            (None, Some(open)) => Origin::Open(open),
            (None, None) => unreachable!("a description that was read has one of them"),
        }
    }

    /// What mended it upstream, if anything has.
    pub fn mended(&self) -> Option<&Fix> {
        match self.origin() {
            Origin::Undone(fix) => Some(fix),
            Origin::Open(open) => open.mended.as_ref(),
        }
    }
}

/// A bug of the packaged kernel itself; later releases may have mended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Versions that have it, by a run.
    pub versions: Vec<String>,
    /// Where a real kernel was seen to have it.
    pub seen: String,
    /// The upstream commit that mended it, if one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mended: Option<Fix>,
}

/// An upstream commit that an edit undoes, or that mended what an edit mends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// Its identifier, twelve digits; `None`: a paper tells of the mistake, and the edits make it again by hand.
    #[serde(default)]
    pub commit: Option<String>,
    /// Its subject, or the paper.
    pub subject: String,
    /// The first release of Linus's that has it.
    pub release: String,
    /// What the edits leave out of the original, or add; empty: they do the same.
    #[serde(default)]
    pub differs: String,
}

impl Fix {
    /// Its identifier, or what stands for it.
    pub fn name(&self) -> &str {
        self.commit.as_deref().unwrap_or("a paper's")
    }
}

/// A substitution in one file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, from the tree's top. A bug's file lies in or below `kernel/sched`.
    pub file: String,
    /// What is there, exactly once.
    pub old: String,
    /// What takes its place.
    pub new: String,
}

/// A run, as `schedlab run` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The workload, from the folder of the description.
    pub workload: PathBuf,
    /// Machine, duration and whatever else.
    pub args: Vec<String>,
}

/// What shows the bug, and what it says with and without.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The instrument, for a reader.
    pub by: String,
    /// How it is read.
    pub measure: Measure,
    /// What it says of the kernel as it is.
    pub without: Bound,
    /// What it says of the kernel with the bug.
    pub with: Bound,
    /// Where the two expectations come from.
    pub because: String,
}

/// A reading of a run's result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Measure {
    /// How the run ends: `done`, or the first line of its exit report.
    End,
    /// What the kernel warned of: `none`, or the first warning.
    Warning,
    /// A number of the whole run, by the name of its field of `run --json`.
    Run {
        /// For example `migrations`.
        field: String,
    },
    /// A number of the tasks with a name, or (with a final `*`) whose names begin so.
    Tasks {
        /// For example `spinner` or `s1/*`.
        tasks: String,
        /// A field of `tasks` of `run --json`, e.g. `run_delay_max_ns`.
        field: String,
        /// What is made of several tasks' numbers.
        fold: Fold,
    },
}

/// What is made of several numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// All together.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl Fold {
    /// Of no numbers there is none.
    pub fn of(self, numbers: impl Iterator<Item = u64>) -> Option<u64> {
        match self {
            Fold::Sum => numbers.reduce(|a, b| a + b),
            Fold::Max => numbers.max(),
            Fold::Min => numbers.min(),
        }
    }
}

/// What is expected of a reading: `<= 20ms`, `>= 1000`, or a text that it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Bound {
    /// At most this much: ns, or a count.
    AtMost(u64, String),
    /// At least this much.
    AtLeast(u64, String),
    /// A text.
    Holds(String),
}

impl TryFrom<String> for Bound {
    type Error = String;

    fn try_from(text: String) -> Result<Bound, String> {
        let number = |rest: &str| match rest.trim() {
            count if count.bytes().all(|b| b.is_ascii_digit()) => {
                count.parse().map_err(|_| format!("'{text}' has no number"))
            }
            span => span.parse::<Span>().map(Span::as_ns).map_err(|e| format!("'{text}': {e}")),
        };
        match (text.strip_prefix("<="), text.strip_prefix(">=")) {
            (Some(rest), _) => Ok(Bound::AtMost(number(rest)?, text)),
            (_, Some(rest)) => Ok(Bound::AtLeast(number(rest)?, text)),
            _ if text.is_empty() => Err("an expectation is '<= N', '>= N' or a text".to_owned()),
            _ => Ok(Bound::Holds(text)),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(_, text) | Bound::AtLeast(_, text) | Bound::Holds(text) => f.write_str(text),
        }
    }
}

impl From<Bound> for String {
    fn from(bound: Bound) -> String {
        bound.to_string()
    }
}

/// What an instrument said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reading {
    /// ns or a count.
    Number(u64),
    /// A text.
    Text(String),
}

impl Bound {
    /// Whether a reading is as expected.
    pub fn holds(&self, reading: &Reading) -> bool {
        match (self, reading) {
            (Bound::AtMost(most, _), Reading::Number(n)) => n <= most,
            (Bound::AtLeast(least, _), Reading::Number(n)) => n >= least,
            (Bound::Holds(part), Reading::Text(text)) => text.contains(part.as_str()),
            _ => false,
        }
    }
}

/// Why a bug cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BugError {
    /// No such description.
    #[error("there is no bug '{asked}'; there are {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// A description that cannot be understood.
    #[error("{path}: {why}")]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The source is not the one that the edit was written for.
    #[error(
        "{bug}: edit {edit} of {file}: its old text occurs {found} times, expected once; the source is another than \
            the edit was written for"
    )]
    Edit {
        /// The bug.
        bug: String,
        /// Which edit, from 1.
        edit: usize,
        /// The file.
        file: PathBuf,
        /// How often its text occurs.
        found: usize,
    },
    /// Another run has the tree.
    #[error("{path} is in use by another program that builds a kernel with a bug; wait for it")]
    Busy {
        /// The tree.
        path: PathBuf,
    },
    /// The file system refuses something.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// Verb.
        doing: &'static str,
        /// Object.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BugError {
    let path = path.to_owned();
    move |source| BugError::Io { doing, path, source }
}

/// All descriptions in `dir` (`linux/bugs`), by name.
pub fn all(dir: &Path) -> Result<Vec<Bug>, BugError> {
    let mut bugs = Vec::new();
    for path in entries(dir)?.into_iter().filter(|p| p.extension().is_some_and(|e| e == "toml")) {
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        // the workloads beside them are TOML, too
        if text.lines().any(|line| line.starts_with("series = ")) {
            bugs.push(parse(&path, &text)?);
        }
    }
    Ok(bugs)
}

/// The description called `name`.
pub fn find(dir: &Path, name: &str) -> Result<Bug, BugError> {
    let bugs = all(dir)?;
    let known = bugs.iter().map(|b| b.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = bugs.into_iter().find(|b| b.name == name);
    found.ok_or_else(|| BugError::Unknown { asked: name.to_owned(), known })
}

fn parse(path: &Path, text: &str) -> Result<Bug, BugError> {
    let wrong = |why: String| BugError::Description { path: path.to_owned(), why };
    let mut bug: Bug = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
    bug.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if bug.fix.is_some() == bug.open.is_some() {
        return Err(wrong(
            "it has neither or both of [fix] (the edits undo it) and [open] (they mend it)".into(),
        ));
    }
    if bug.edits.is_empty() {
        return Err(wrong("it has no edit".into()));
    }
    for (number, edit) in bug.edits.iter().enumerate().map(|(i, e)| (i + 1, e)) {
        if !lies_in(&edit.file, &[SCHED]) {
            return Err(wrong(format!("edit {number}: '{}' is not a file in kernel/sched", edit.file)));
        }
        if edit.old.is_empty() || edit.old == edit.new {
            return Err(wrong(format!("edit {number} changes nothing")));
        }
    }
    let textual = matches!(bug.shown.measure, Measure::End | Measure::Warning);
    for bound in [&bug.shown.without, &bug.shown.with] {
        if matches!(bound, Bound::Holds(_)) != textual {
            return Err(wrong(format!(
                "'{bound}' is no expectation of what is measured (numbers: '<= 20ms', '>= 9')"
            )));
        }
    }
    Ok(bug)
}

/// The files of a tree with the bug, by their names from the top; `source` is a tree without it.
pub fn edited(bug: &Bug, source: &Path) -> Result<BTreeMap<PathBuf, String>, BugError> {
    edited_by(&bug.name, &bug.edits, source)
}

/// The files of a tree that these edits change, as they leave them, by their names from the top.
///
/// # Errors
/// A file cannot be read; an edit's old text is not there exactly once.
pub fn edited_by(name: &str, edits: &[Edit], source: &Path) -> Result<BTreeMap<PathBuf, String>, BugError> {
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (number, edit) in edits.iter().enumerate().map(|(i, e)| (i + 1, e)) {
        let file = PathBuf::from(&edit.file);
        let text = match files.remove(&file) {
            Some(text) => text,
            None => {
                let path = source.join(&file);
                fs::read_to_string(&path).map_err(io("read", &path))?
            }
        };
        let found = text.matches(&edit.old).count();
        if found != 1 {
            return Err(BugError::Edit { bug: name.to_owned(), edit: number, file, found });
        }
        files.insert(file, text.replacen(&edit.old, &edit.new, 1));
    }
    Ok(files)
}

/// Whether it is the name of something below one of these folders of a tree, and leads nowhere else.
pub fn lies_in(file: &str, folders: &[&str]) -> bool {
    let file = Path::new(file);
    let is_plain = file.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain && folders.iter().any(|folder| file.starts_with(folder) && file != Path::new(folder))
}

/// The folder that is always a copy.
const SCHED: &str = "kernel/sched";

/// A copy of a kernel tree that bugs are put into, one at a time. Dropped, it is as the original is.
#[derive(Debug)]
pub struct BugTree {
    root: PathBuf,
    source: PathBuf,
    lock: File,
}

impl BugTree {
    /// The copy beside the kernels of the cache that `kernel` is in, made if it is not there: links to its
    /// source, but for kernel/sched.
    pub fn open(kernel: &BuiltKernel) -> Result<BugTree, BugError> {
        BugTree::at(&BugTree::root(kernel), &kernel.source, false)
    }

    /// The same, when whoever has it is done.
    pub fn wait(kernel: &BuiltKernel) -> Result<BugTree, BugError> {
        BugTree::at(&BugTree::root(kernel), &kernel.source, true)
    }

    fn root(kernel: &BuiltKernel) -> PathBuf {
        let cache = kernel.dir.ancestors().nth(2).unwrap_or(&kernel.dir);
        cache.join("bugs").join(&kernel.series)
    }

    fn at(root: &Path, source: &Path, waits: bool) -> Result<BugTree, BugError> {
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent).map_err(io("create", parent))?;
        }
        // 6.1 and 6.12 are two trees: what stands behind their dots is no extension
        let mut lock_path = root.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let lock = File::create(&lock_path).map_err(io("create", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if waits => lock.lock().map_err(io("lock", &lock_path))?,
            Err(TryLockError::WouldBlock) => return Err(BugError::Busy { path: root.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(io("lock", &lock_path)(error)),
        }
        link_all(source, root)?;
        let tree = BugTree { root: root.to_owned(), source: source.to_owned(), lock };
        tree.restore()?;
        Ok(tree)
    }

    /// A tree that keeps the bug, beside the kernels of the cache that `kernel` is in; returns where it is. What was
    /// there is put right.
    pub fn keep(bug: &Bug, kernel: &BuiltKernel) -> Result<PathBuf, BugError> {
        let cache = kernel.dir.ancestors().nth(2).unwrap_or(&kernel.dir);
        let root = cache.join("bugs").join(&bug.name);
        link_all(&kernel.source, &root)?;
        put(&root, &kernel.source, &bug.name, &bug.edits)?;
        Ok(root)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Put the bug in, and no other.
    pub fn apply(&self, bug: &Bug) -> Result<(), BugError> {
        self.put(&bug.name, &bug.edits)
    }

    /// Put these edits in, and no others; none: the tree is the original. `name` is for messages.
    pub fn put(&self, name: &str, edits: &[Edit]) -> Result<(), BugError> {
        put(&self.root, &self.source, name, edits)
    }

    /// Make all files what they are in the original.
    pub fn restore(&self) -> Result<(), BugError> {
        put(&self.root, &self.source, "", &[])
    }
}

/// Make the files under `root` those of `source` with these edits. A file that is right keeps its time, one that
/// changes gets a new one, so that make sees what has changed.
fn put(root: &Path, source: &Path, name: &str, edits: &[Edit]) -> Result<(), BugError> {
    let edited = edited_by(name, edits, source)?;
    for file in edited.keys() {
        own_folder(root, source, file)?;
    }
    let below = |top: &Path, path: PathBuf| path.strip_prefix(top).unwrap_or(&path).to_owned();
    let ours = files_below(&source.join(SCHED))?.into_iter().map(|path| below(source, path));
    let copies = copies_below(root)?.into_iter().map(|path| below(root, path));
    let copies = copies.filter(|file| !file.starts_with(SCHED) && source.join(file).is_file());
    for file in ours.chain(copies).chain(edited.keys().cloned()).collect::<BTreeSet<PathBuf>>() {
        let path = source.join(&file);
        let data = match edited.get(&file) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(&path).map_err(io("read", &path))?,
        };
        let copy = root.join(file);
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder).map_err(io("create", folder))?;
        }
        if copy.is_symlink() {
            fs::remove_file(&copy).map_err(io("remove", &copy))?;
        }
        if !fs::read(&copy).is_ok_and(|old| old == data) {
            fs::write(&copy, data).map_err(io("write", &copy))?;
        }
    }
    Ok(())
}

impl Drop for BugTree {
    fn drop(&mut self) {
        // the next one to open it puts right what this could not
        drop(self.restore());
        // to close it is not enough: a process that another thread has just forked holds it until it executes
        drop(self.lock.unlock());
    }
}

/// Link all of a source tree into `root`, but for kernel/sched, which is a folder of its own.
fn link_all(source: &Path, root: &Path) -> Result<(), BugError> {
    let sched = root.join(SCHED);
    fs::create_dir_all(&sched).map_err(io("create", &sched))?;
    link(source, root, "kernel")?;
    link(&source.join("kernel"), &root.join("kernel"), "sched")
}

/// Make the folder of a file, and those that it lies in, folders of `root` with links instead of links themselves.
fn own_folder(root: &Path, source: &Path, file: &Path) -> Result<(), BugError> {
    let mut folders: Vec<&Path> =
        file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    for folder in folders {
        let at = root.join(folder);
        if at.is_symlink() {
            fs::remove_file(&at).map_err(io("remove", &at))?;
            fs::create_dir(&at).map_err(io("create", &at))?;
            link(&source.join(folder), &at, "")?;
        }
    }
    Ok(())
}

/// Files that are no links, in folders that are none.
fn copies_below(dir: &Path) -> Result<Vec<PathBuf>, BugError> {
    let mut files = Vec::new();
    for path in entries(dir)?.into_iter().filter(|path| !path.is_symlink()) {
        match path.is_dir() {
            true => files.extend(copies_below(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

/// Link all that is in `from` into `to`, but `not`. What is a folder or a file of its own there stays.
fn link(from: &Path, to: &Path, not: &str) -> Result<(), BugError> {
    for entry in entries(from)? {
        let name = entry.file_name().unwrap_or_default();
        let at = to.join(name);
        if name == not || fs::read_link(&at).is_ok_and(|target| target == entry) {
            continue;
        }
        match at.is_symlink() {
            true => fs::remove_file(&at).map_err(io("remove", &at))?,
            false if at.is_dir() => {
                link(&entry, &at, "")?;
                continue;
            }
            false if at.exists() => continue,
            false => {}
        }
        symlink(&entry, &at).map_err(io("link", &at))?;
    }
    Ok(())
}

/// All files of a folder and those in it (7.2 has kernel/sched/ext), sorted.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>, BugError> {
    let mut files = Vec::new();
    for path in entries(dir)? {
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, BugError> {
    let read = fs::read_dir(dir).map_err(io("read", dir))?;
    let mut all =
        read.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(io("read", dir))?;
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIX: &str = r#"fix = { commit = "123456789abc", subject = "s", release = "6.13" }"#;
    const SPEC: &str = r#"
title = "t"
series = "6.12"
users = "u"
why = "w"
fix = { commit = "123456789abc", subject = "s", release = "6.13" }
edit = [{ file = "kernel/sched/fair.c", old = "b = 2;", new = "b = 3;" }]
run = { workload = "w.txt", args = ["--cpus", "1"] }
[shown]
by = "run delay"
measure = { kind = "tasks", tasks = "a", field = "run_delay_max_ns", fold = "max" }
without = "<= 20ms"
with = ">= 1s"
because = "."
"#;

    fn bug(text: &str) -> Result<Bug, BugError> {
        parse(Path::new("x/some-bug.toml"), text)
    }

    #[test]
    fn a_description_is_understood_or_says_what_is_wrong() {
        let good = bug(SPEC).unwrap();
        assert_eq!(
            (good.name.as_str(), good.shown.without.clone()),
            ("some-bug", Bound::AtMost(20_000_000, "<= 20ms".into()))
        );
        assert!(
            good.shown.with.holds(&Reading::Number(1_000_000_000))
                && !good.shown.with.holds(&Reading::Number(999_999_999))
        );
        for (old, new, said) in [
            ("kernel/sched/fair.c", "kernel/fork.c", "is not a file in kernel/sched"),
            ("kernel/sched/fair.c", "kernel/sched/../fork.c", "is not a file in kernel/sched"),
            ("b = 3;", "b = 2;", "edit 1 changes nothing"),
            ("<= 20ms", "done", "'done' is no expectation"),
            ("<= 20ms", "<= 20 fortnights", "unknown unit"),
            ("users", "user", "unknown field"),
            ("fix =", "open = { versions = [], seen = \"\" }\nfix =", "neither or both"),
            (FIX, "", "neither or both"),
            ("kind = \"tasks\"", "kind = \"guess\"", "unknown variant"),
        ] {
            let message = bug(&SPEC.replacen(old, new, 1)).unwrap_err().to_string();
            assert!(message.starts_with("x/some-bug.toml: ") && message.contains(said), "{said}: {message}");
        }
    }

    #[test]
    fn one_bug_at_a_time_and_none_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (source, root) = (dir.path().join("source"), dir.path().join("tree"));
        fs::create_dir_all(source.join("kernel/sched")).unwrap();
        fs::create_dir_all(source.join("lib/a")).unwrap();
        for (name, text) in [
            ("Makefile", "m"),
            ("lib/a/b.c", "x"),
            ("lib/a/c.c", "x"),
            ("kernel/fork.c", "f"),
            ("kernel/sched/fair.c", "a = 1; b = 2;\n"),
        ] {
            fs::write(source.join(name), text).unwrap();
        }
        let fair = root.join("kernel/sched/fair.c");
        let read = || fs::read_to_string(&fair).unwrap();
        let tree = BugTree::at(&root, &source, false).unwrap();
        assert!(matches!(BugTree::at(&root, &source, false), Err(BugError::Busy { .. })));
        let _other = BugTree::at(&dir.path().join("6.1"), &source, false).unwrap();
        assert!(BugTree::at(&dir.path().join("6.12"), &source, true).is_ok());
        tree.apply(&bug(SPEC).unwrap()).unwrap();
        assert_eq!(read(), "a = 1; b = 3;\n");
        assert!(root.join("lib").is_symlink() && root.join("kernel/fork.c").is_symlink());
        let other = bug(&SPEC.replace("b = 2;", "a = 1;").replace("b = 3;", "a = 0;")).unwrap();
        tree.apply(&other).unwrap();
        assert_eq!(read(), "a = 0; b = 2;\n");
        let missing = bug(&SPEC.replace("b = 2;", "c")).unwrap();
        let message = tree.apply(&missing).unwrap_err().to_string();
        assert!(message.contains("edit 1 of kernel/sched/fair.c: its old text occurs 0 times"), "{message}");
        // a file beyond the scheduler: its folder's links become copies only where they must
        let fork = Edit { file: "kernel/fork.c".into(), old: "f".into(), new: "g".into() };
        tree.put("beyond", &[fork]).unwrap();
        let forked = || fs::read_to_string(root.join("kernel/fork.c")).unwrap();
        assert_eq!((forked().as_str(), read().as_str()), ("g", "a = 1; b = 2;\n"));
        let deep = Edit { file: "lib/a/b.c".into(), old: "x".into(), new: "y".into() };
        tree.put("deep", &[deep]).unwrap();
        assert_eq!(fs::read_to_string(root.join("lib/a/b.c")).unwrap(), "y");
        assert!(root.join("lib/a/c.c").is_symlink() && forked() == "f");
        drop(tree);
        assert_eq!(fs::read_to_string(root.join("lib/a/b.c")).unwrap(), "x");
        assert_eq!(fs::read_to_string(source.join("lib/a/b.c")).unwrap(), "x");
        assert_eq!(read(), "a = 1; b = 2;\n");
        // opened again, it is linked as it is
        let tree = BugTree::at(&root, &source, false).unwrap();
        tree.restore().unwrap();
        drop(tree);
        assert_eq!(read(), "a = 1; b = 2;\n");
        assert_eq!(fs::read_to_string(source.join("kernel/sched/fair.c")).unwrap(), "a = 1; b = 2;\n");
    }
}
