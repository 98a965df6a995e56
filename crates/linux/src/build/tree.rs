//! A kernel that the user works on: built again before each run, and only what has changed.
//!
//! ```text
//! ~/linux (the user's, not written to)     trees/mine-hz250-cpus64-<key>/src     symbolic links, plus arch/warp
//!    edit kernel/sched/fair.c                          .../build                 objects, kept
//! schedlab run W --sched linux-mine         make compiles fair.c, links  ->  linux.so
//! ```
//!
//! What an earlier build inside the user's tree has left there (`.config`, `include/generated`, ...) is not
//! linked: it would be taken for ours.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::sorted_entries;
use super::{BuildError, io};

/// Top-level entries of a tree that are left out: version control, and products of a build inside the tree.
const NOT_LINKED: [&str; 6] = [".git", ".config", ".config.old", ".version", "vmlinux", "include"];
/// The same for `include/`.
const NOT_LINKED_INCLUDE: [&str; 2] = ["config", "generated"];

/// What a kernel tree says it is: `6.12.117`, or `6.13.0-rc2`.
pub(super) fn version(tree: &Path) -> Result<String, BuildError> {
    let path = tree.join("Makefile");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(BuildError::NoTree { path: tree.to_owned() });
        }
        text => text.map_err(io("read", &path))?,
    };
    let value = |name: &str| {
        let line = text.lines().take(20).find_map(|l| l.strip_prefix(name)?.trim_start().strip_prefix('='));
        line.map(|v| v.trim().to_owned())
    };
    match (value("VERSION"), value("PATCHLEVEL"), value("SUBLEVEL")) {
        (Some(v), Some(p), Some(s)) if tree.join("kernel/sched").is_dir() => {
            Ok(format!("{v}.{p}.{s}{}", value("EXTRAVERSION").unwrap_or_default()))
        }
        _ => Err(BuildError::NoTree { path: tree.to_owned() }),
    }
}

/// The commit that is checked out, if the tree is a git work tree. Nothing is written there.
pub(super) fn commit(tree: &Path) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(tree)
        .args(["rev-parse", "--short=12", "HEAD"])
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The source tree as the build sees it: symbolic links to `source`, with a copy of the port as arch/warp, so
/// that the sources stay untouched and every build keeps the port it was made with. An existing one is
/// brought up to date. `headers` are those of asm/ that are asm-generic's, beyond those that the port names
/// itself.
pub(super) fn lay_beside(
    source: &Path,
    port: &Path,
    headers: &[String],
    tree: &Path,
) -> Result<(), BuildError> {
    link_all(source, tree, &|name| !NOT_LINKED.contains(&name) && name != "arch" && !name.ends_with(".o"))?;
    link_all(&source.join("include"), &tree.join("include"), &|name| !NOT_LINKED_INCLUDE.contains(&name))?;
    link_all(&source.join("arch"), &tree.join("arch"), &|name| name != "warp")?;
    let (from, to) = (port.join("arch-warp"), tree.join("arch/warp"));
    let mut files = Vec::new();
    for file in super::cache::files_below(&from)? {
        let data = fs::read(&file).map_err(io("read", &file))?;
        files.push((to.join(file.strip_prefix(&from).unwrap_or(&file)), data));
    }
    for name in headers {
        let data = format!("#include <asm-generic/{name}>\n").into_bytes();
        files.push((to.join("include/asm").join(name), data));
    }
    for (to, data) in files {
        // an unchanged file keeps its time, and make its objects
        if fs::read(&to).is_ok_and(|old| old == data) {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(io("create", parent))?;
        }
        fs::write(&to, data).map_err(io("write", &to))?;
    }
    Ok(())
}

/// Make the links of `to` those to the wanted entries of `from`, no more and no fewer.
fn link_all(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<(), BuildError> {
    fs::create_dir_all(to).map_err(io("create", to))?;
    let mut there = Vec::new();
    for link in sorted_entries(to)? {
        let kind = fs::symlink_metadata(&link).map_err(io("read", &link))?;
        if !kind.file_type().is_symlink() {
            continue;
        }
        let name = link.file_name().unwrap_or_default().to_owned();
        let target = from.join(&name);
        let right = wanted(&name.to_string_lossy()) && fs::read_link(&link).is_ok_and(|t| t == target);
        if right && target.exists() {
            there.push(name);
        } else {
            fs::remove_file(&link).map_err(io("remove", &link))?;
        }
    }
    for entry in sorted_entries(from)? {
        let name = entry.file_name().unwrap_or_default().to_owned();
        if wanted(&name.to_string_lossy()) && !there.contains(&name) {
            let link: PathBuf = to.join(&name);
            symlink(&entry, &link).map_err(io("link", &link))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(dir: &Path, names: &[&str]) {
        for name in names {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }

    #[test]
    fn a_tree_says_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let makefile =
            "# SPDX\nVERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 0\nEXTRAVERSION = -rc2\nNAME = Baby\n";
        fs::write(dir.path().join("Makefile"), makefile).unwrap();
        let message = version(dir.path()).unwrap_err().to_string();
        assert!(message.contains("is not a Linux source tree"), "{message}");
        fs::create_dir_all(dir.path().join("kernel/sched")).unwrap();
        assert_eq!(version(dir.path()).unwrap(), "6.13.0-rc2");
    }

    #[test]
    fn links_follow_the_tree_and_leave_out_what_a_build_left_there() {
        let (source, port, tree) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (s, t) = (source.path(), tree.path());
        touch(
            s,
            &["Makefile", "kernel/fork.c", ".config", "include/linux/a.h", "include/generated/autoconf.h"],
        );
        touch(s, &["arch/x86/Kconfig", "arch/warp/left-over", "old"]);
        touch(port.path(), &["arch-warp/Kconfig"]);
        lay_beside(s, port.path(), &[], t).unwrap();
        let there = |name: &str| t.join(name).exists();
        assert!(
            there("kernel/fork.c") && there("include/linux/a.h") && there("arch/x86/Kconfig") && there("old")
        );
        assert!(!there(".config") && !there("include/generated") && !there("arch/warp/left-over"));
        assert_eq!(fs::read_to_string(t.join("arch/warp/Kconfig")).unwrap(), "arch-warp/Kconfig");
        // later: a file goes, another comes
        fs::remove_file(s.join("old")).unwrap();
        touch(s, &["new", "lib/x.c"]);
        lay_beside(s, port.path(), &[], t).unwrap();
        assert!(!there("old") && there("new") && there("lib/x.c"));
        // the user's tree has nothing of ours
        assert!(!s.join("arch/warp/Kconfig").exists());
    }
}
