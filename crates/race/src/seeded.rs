//! Which bugs can be put into a target, and from where?
//!
//! ```text
//! --seeded push-rt                  linux/race/seeds/push-rt.toml: an upstream fix undone, or a mutation
//! --seeded my.toml                  the same form, from a file of one's own
//! --seeded my.patch                 a unified diff of the kernel, as git writes it: is my change right?
//! --seeded reverse:fix.patch        the same taken back: is the bug found that it mends?
//! ```
//!
//! Each hunk of a patch becomes a substitution, context and all. It applies wherever its old text stands, which must be
//! once.

use std::fs;
use std::path::{Path, PathBuf};

use diffy::Line;
use diffy::patch_set::{ParseOptions, PatchSet};
use schedlab_linux::bugs::{Edit, lies_in};
use schedlab_linux::build;
use schedlab_stdx::limits::{SOURCE_BYTES_MAX, read_text};
use serde::Deserialize;

use crate::compile::KERNEL_TARGETS;
use crate::whole::PREFIX;
use crate::{RaceError, io};

/// A bug that is put into a target: an upstream fix undone, or a mutation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeded {
    /// Its name: the file's.
    #[serde(skip)]
    pub name: String,
    /// `cpupri` or `cpudl`.
    pub target: String,
    /// Another one whose edits come first; empty: the file as it is.
    #[serde(default)]
    pub base: String,
    /// One line: what is wrong.
    pub title: String,
    /// The upstream commit that is undone; empty: a mutation.
    #[serde(default)]
    pub fix: String,
    /// `sc`: shown by interleaving alone; `weak`: by late stores only; `harmless`: by nothing.
    pub needs: String,
    /// Why.
    pub why: String,
    /// Of the whole scheduler: the kernel whose tree the edits are for; empty: 6.12.
    #[serde(default)]
    pub kernel: String,
    /// Flavours that it needs beside the points.
    #[serde(default)]
    pub flavours: Vec<String>,
    /// Scenarios in which it can happen; empty: all of the target's.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// The substitutions.
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
}

impl Seeded {
    /// Its name as a part of a file's name.
    pub(crate) fn file_name(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let last = self.name.rsplit('/').next().unwrap_or_default();
        last.chars().map(|c| if is_plain(c) { c } else { '-' }).take(60).collect()
    }
}

/// Folders of a kernel tree that the port compiles from.
const TOPS: [&str; 6] = ["kernel", "include", "lib", "arch", "init", "mm"];
/// What stands before a patch that is to be taken back.
const REVERSE: &str = "reverse:";
/// The whole scheduler's name as a target of bugs.
const WHOLE: &str = "linux";

/// Whether `--seeded` names a file.
fn is_file(name: &str) -> bool {
    let path = name.strip_prefix(REVERSE).unwrap_or(name);
    path.contains('/') || [".toml", ".patch", ".diff"].iter().any(|end| path.ends_with(end))
}

/// All bugs of `linux/race/seeds`, by name.
///
/// # Errors
/// The port's folder is not there, or a description is no such.
pub fn all() -> Result<Vec<Seeded>, RaceError> {
    let dir = build::port()?.join("race/seeds");
    let listed = fs::read_dir(&dir).map_err(io("read", &dir))?;
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        described(&path, name)
    };
    let mut all = paths.into_iter().map(read).collect::<Result<Vec<Seeded>, RaceError>>()?;
    let plain = all.clone();
    for seeded in &mut all {
        begin_with_base(seeded, &plain)?;
    }
    Ok(all)
}

/// The bug of this name, or of this file, for a target (`cpupri`, `linux-6.12`).
///
/// # Errors
/// The target has no such bug; the file cannot be read, or is neither a description nor a patch.
pub fn named(name: &str, target: &str) -> Result<Seeded, RaceError> {
    let target = if target.starts_with(PREFIX) { WHOLE } else { target };
    if is_file(name) {
        let seeded = from_file(name, target)?;
        return match seeded.target == target {
            true => Ok(seeded),
            false => Err(RaceError::Refused(format!(
                "--seeded {name}: it is a bug of {}, not of {target}; take that target",
                seeded.target
            ))),
        };
    }
    let all = all()?;
    let names: Vec<&str> = all.iter().filter(|s| s.target == target).map(|s| s.name.as_str()).collect();
    let text = format!(
        "--seeded {name}: {target} has no such bug; it has {}, and --seeded takes a .toml, .patch or .diff file, too",
        names.join(", ")
    );
    all.iter().find(|s| s.name == name && s.target == target).cloned().ok_or(RaceError::Refused(text))
}

/// A file of the user's; its name is its path.
fn from_file(name: &str, target: &str) -> Result<Seeded, RaceError> {
    let path = Path::new(name.strip_prefix(REVERSE).unwrap_or(name));
    if path.extension().is_some_and(|end| end == "toml") {
        if name.starts_with(REVERSE) {
            return Err(RaceError::Refused(format!(
                "--seeded {name}: only a patch can be taken back; leave '{REVERSE}' out"
            )));
        }
        let mut seeded = described(path, name.to_owned())?;
        begin_with_base(&mut seeded, &all()?)?;
        return Ok(seeded);
    }
    let text = read_text(path, SOURCE_BYTES_MAX).map_err(io("read", path))?;
    Ok(Seeded {
        name: name.to_owned(),
        target: target.to_owned(),
        base: String::new(),
        title: format!("{} as a patch", path.display()),
        fix: String::new(),
        needs: "sc".to_owned(),
        why: "a patch says nothing of that".to_owned(),
        kernel: String::new(),
        flavours: Vec::new(),
        scenarios: Vec::new(),
        edits: edits_of(path, &text, name.starts_with(REVERSE))?,
    })
}

/// A description as in `linux/race/seeds`.
fn described(path: &Path, name: String) -> Result<Seeded, RaceError> {
    let text = read_text(path, SOURCE_BYTES_MAX).map_err(io("read", path))?;
    let wrong =
        |e: toml::de::Error| RaceError::Refused(format!("{}: {}", path.display(), e.to_string().trim_end()));
    let seeded: Seeded = toml::from_str(&text).map_err(wrong)?;
    if let Some(edit) = seeded.edits.iter().find(|edit| !lies_in(&edit.file, &TOPS)) {
        return Err(RaceError::Refused(format!(
            "{}: '{}' is no file of a kernel; expected a path from the tree's top, e.g. kernel/sched/core.c",
            path.display(),
            edit.file
        )));
    }
    Ok(Seeded { name, ..seeded })
}

/// Puts the edits of the description that a bug begins with before its own.
fn begin_with_base(seeded: &mut Seeded, known: &[Seeded]) -> Result<(), RaceError> {
    if seeded.base.is_empty() {
        return Ok(());
    }
    let base = known.iter().find(|s| s.name == seeded.base).ok_or_else(|| {
        RaceError::Refused(format!("{}.toml: there is no '{}.toml' to begin with", seeded.name, seeded.base))
    })?;
    seeded.edits.splice(0..0, base.edits.iter().cloned());
    Ok(())
}

/// A patch's hunks as substitutions.
fn edits_of(path: &Path, text: &str, is_reversed: bool) -> Result<Vec<Edit>, RaceError> {
    let refused = |what: String| {
        RaceError::Refused(format!("{}: {what}; expected a unified diff of a kernel's files", path.display()))
    };
    let mut edits = Vec::new();
    for file in PatchSet::parse(text, ParseOptions::unidiff()) {
        let file = file.map_err(|e| refused(e.to_string()))?;
        let Some(patch) = file.patch().as_text() else {
            return Err(refused("it changes a binary file".into()));
        };
        let reversed = patch.reverse();
        let patch = if is_reversed { &reversed } else { patch };
        let (from, to) = (patch.original().unwrap_or_default(), patch.modified().unwrap_or_default());
        let (Some(name), true) = (in_tree(from), in_tree(from) == in_tree(to)) else {
            return Err(refused(format!("it makes '{to}' of '{from}'")));
        };
        for hunk in patch.hunks() {
            let (mut old, mut new) = (String::new(), String::new());
            for line in hunk.lines() {
                match line {
                    Line::Context(text) => {
                        old.push_str(text);
                        new.push_str(text);
                    }
                    Line::Delete(text) => old.push_str(text),
                    Line::Insert(text) => new.push_str(text),
                }
            }
            edits.push(Edit { file: name.clone(), old, new });
        }
    }
    Ok(edits)
}

/// A file's name from the tree's top, as it is or behind `a/`, `b/` or another folder; `None`: not a kernel's.
fn in_tree(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let from = parts.iter().take(2).position(|part| TOPS.contains(part))?;
    let file = parts[from..].join("/");
    lies_in(&file, &TOPS).then_some(file)
}

/// A file of the kernel with a bug's substitutions.
///
/// # Errors
/// An edit is of another file, or its old text is not there exactly once.
pub(crate) fn edit(text: &str, seeded: &Seeded, file: &str) -> Result<String, RaceError> {
    let mut text = text.to_owned();
    let theirs = match is_file(&seeded.name) {
        true => seeded.name.clone(),
        false => format!("linux/race/seeds/{}.toml", seeded.name),
    };
    for edit in &seeded.edits {
        if edit.file != file {
            let of = KERNEL_TARGETS.iter().find(|(_, known)| *known == edit.file).map(|(name, _)| *name);
            return Err(RaceError::Refused(format!(
                "{theirs}: it changes {}, and the target is {file} alone; take the target {}",
                edit.file,
                of.unwrap_or("linux-6.12")
            )));
        }
        let times = text.matches(&edit.old).count();
        if times != 1 {
            return Err(RaceError::Refused(format!(
                "{}: the text to be replaced in {} is there {times} times in this version, expected once; \
                 take another kernel, or change {theirs}",
                seeded.name, edit.file
            )));
        }
        text = text.replacen(&edit.old, &edit.new, 1);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "From 12ab Mon Sep 17 00:00:00 2001\nSubject: [PATCH] sched: ask again\n\nA reason.\n---\n \
        kernel/sched/rt.c | 2 +-\n\ndiff --git a/kernel/sched/rt.c b/kernel/sched/rt.c\nindex 1..2 100644\n\
        --- a/kernel/sched/rt.c\n+++ b/kernel/sched/rt.c\n@@ -10,3 +10,3 @@ static int push(void)\n \ta();\n\
        -\tif (b)\n+\tif (c)\n \t\treturn;\n@@ -20 +20,2 @@\n \td();\n+\te();\n-- \n2.40.0\n";

    #[test]
    fn a_patch_becomes_substitutions_forth_and_back() {
        let path = Path::new("x.patch");
        let edits = edits_of(path, PATCH, false).unwrap();
        let edit = |old: &str, new: &str| Edit {
            file: "kernel/sched/rt.c".into(),
            old: old.into(),
            new: new.into(),
        };
        let first = ("\ta();\n\tif (b)\n\t\treturn;\n", "\ta();\n\tif (c)\n\t\treturn;\n");
        assert_eq!(edits, [edit(first.0, first.1), edit("\td();\n", "\td();\n\te();\n")]);
        let back = edits_of(path, PATCH, true).unwrap();
        assert_eq!(back, [edit(first.1, first.0), edit("\td();\n\te();\n", "\td();\n")]);
    }

    #[test]
    fn what_is_no_patch_of_the_scheduler_is_refused() {
        let path = Path::new("x.patch");
        let wrong = |text: &str| edits_of(path, text, false).unwrap_err().to_string();
        assert!(wrong("nothing\n").starts_with("x.patch: "), "{}", wrong("nothing\n"));
        let other = PATCH.replace("kernel/sched/rt.c", "drivers/rtc.c");
        assert!(wrong(&other).contains("drivers/rtc.c"), "{}", wrong(&other));
        let moved = PATCH.replace("+++ b/kernel/sched/rt.c", "+++ b/kernel/sched/dl.c");
        assert!(wrong(&moved).contains("dl.c"), "{}", wrong(&moved));
        assert_eq!(in_tree("linux-6.12/kernel/cpu.c").as_deref(), Some("kernel/cpu.c"));
        assert_eq!(in_tree("a/kernel/sched/../fork.c"), None);
        assert_eq!(in_tree("mykernel/sched/rt.c"), None);
    }

    #[test]
    fn a_file_is_known_by_its_name() {
        for (name, expected) in
            [("push-rt", false), ("a.patch", true), ("reverse:x/y", true), ("./z.toml", true)]
        {
            assert_eq!(is_file(name), expected, "{name}");
        }
    }
}
