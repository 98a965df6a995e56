//! Is every kernel file in the object byte for byte the distributor's?
//!
//! The kernel's build leaves a dependency file beside each object: every source and header that the compiler
//! read. Those that are the kernel's are compared, by sha256, with the same file in the package's tarball,
//! which is read afresh.
//!
//! ```text
//! 2,341 files: 2,290 identical to linux-source-6.12 6.12.117-1~deb12u1, 0 differ, 24 made by the build, 27 the port's
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::cache::{files_below, hex, sha256_file, sorted_entries};
use super::config::Pin;
use super::{BuildError, BuildProgress, BuiltKernel, io, source};

/// A kernel file that is not the package's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path in the kernel tree.
    pub path: String,
    /// sha256 of what was compiled.
    pub compiled: String,
    /// sha256 in the tarball; `None` if it has no such file.
    pub packaged: Option<String>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Kernel files compiled or included that are identical to the package's.
    pub identical: usize,
    /// Kernel files that differ: must be empty.
    pub differ: Vec<Difference>,
    /// Files that the build itself made (configuration, offsets, syscall tables).
    pub generated: usize,
    /// The port's own files, relative to arch/warp.
    pub port: Vec<String>,
    /// The compiler's own headers.
    pub compiler: Vec<PathBuf>,
    /// Files of kernel/sched that went into the object, and those that the configuration leaves out.
    pub sched_in: Vec<String>,
    /// The latter.
    pub sched_out: Vec<String>,
    /// Whether kernel/sched is the one that the port was last tested with.
    pub sched_pin: SchedPin,
}

/// kernel/sched against `linux/versions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedPin {
    /// The same files.
    Same,
    /// Another point release than the pinned one, and other files: accepted.
    OtherRelease {
        /// The version the port was last tested with.
        pinned: String,
    },
    /// The pinned version, but other files: the package is not what it was.
    Different,
    /// A tarball of the user's: there is no pin.
    None,
}

impl CheckReport {
    /// Whether everything is the distributor's.
    pub fn passed(&self) -> bool {
        self.differ.is_empty() && self.sched_pin != SchedPin::Different
    }
}

/// Check a kernel of the cache.
pub fn check(
    kernel: &BuiltKernel,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<CheckReport, BuildError> {
    let tree = fs::canonicalize(&kernel.source).map_err(io("find", &kernel.source))?;
    let (src, objects) = (kernel.dir.join("src"), kernel.dir.join("build"));
    let port = fs::canonicalize(src.join("arch/warp")).map_err(io("find", &src))?;
    let objects_real = fs::canonicalize(&objects).map_err(io("find", &objects))?;
    progress(BuildProgress { step: "reading dependency files", done: 0, total: 0 });
    let mut report = CheckReport {
        identical: 0,
        differ: Vec::new(),
        generated: 0,
        port: Vec::new(),
        compiler: Vec::new(),
        sched_in: Vec::new(),
        sched_out: Vec::new(),
        sched_pin: SchedPin::Same,
    };
    let mut kernel_files = BTreeMap::new();
    for file in dependencies(&objects)? {
        if let Ok(path) = file.strip_prefix(&port) {
            report.port.push(path.display().to_string());
        } else if let Ok(path) = file.strip_prefix(&tree) {
            kernel_files.insert(path.display().to_string(), sha256_file(&file)?);
        } else if file.starts_with(&objects_real) {
            report.generated += 1;
        } else {
            report.compiler.push(file);
        }
    }
    let total = kernel_files.len() as u64;
    let wanted = kernel_files.keys().map(String::as_str).collect();
    let packaged = from_tarball(&kernel.tarball, &wanted, &mut |done| {
        progress(BuildProgress { step: "comparing with the tarball", done, total });
    })?;
    for (path, compiled) in &kernel_files {
        match packaged.get(path) {
            Some(sum) if sum == compiled => report.identical += 1,
            other => {
                let (path, compiled, packaged) = (path.clone(), compiled.clone(), other.cloned());
                report.differ.push(Difference { path, compiled, packaged });
            }
        }
    }
    let sched = tree.join("kernel/sched");
    for file in files_below(&sched)? {
        let name = file.strip_prefix(&tree).unwrap_or(&file).display().to_string();
        let list =
            if kernel_files.contains_key(&name) { &mut report.sched_in } else { &mut report.sched_out };
        list.push(name);
    }
    let Ok(pin) = Pin::read(&source::port_dir()?, &kernel.series) else {
        report.sched_pin = SchedPin::None;
        return Ok(report);
    };
    report.sched_pin = if sched_sum(&tree)? == pin.sched_sha256 {
        SchedPin::Same
    } else if pin.version == kernel.version {
        SchedPin::Different
    } else {
        SchedPin::OtherRelease { pinned: pin.version }
    };
    Ok(report)
}

/// What `cd kernel/sched && find -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` computes, names without `./`.
pub(super) fn sched_sum(tree: &Path) -> Result<String, BuildError> {
    let dir = tree.join("kernel/sched");
    let mut hash = Sha256::new();
    let files = files_below(&dir)?;
    let mut named: Vec<(String, &PathBuf)> =
        files.iter().map(|f| (f.strip_prefix(&dir).unwrap_or(f).display().to_string(), f)).collect();
    named.sort(); // as text: `ext.c` before `ext/`
    for (name, file) in named {
        hash.update(format!("{}  {name}\n", sha256_file(file)?));
    }
    Ok(hex(&hash.finalize()))
}

/// All files that the compiler read for the kernel's objects, without links. Host tools (scripts/, usr/) are
/// not part of it.
fn dependencies(objects: &Path) -> Result<BTreeSet<PathBuf>, BuildError> {
    let mut files = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for dir in sorted_entries(objects)? {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !dir.is_dir() || ["scripts", "usr", "tools"].contains(&name.as_str()) {
            continue;
        }
        for cmd in files_below(&dir)?.iter().filter(|f| f.extension().is_some_and(|e| e == "cmd")) {
            let text = fs::read_to_string(cmd).map_err(io("read", cmd))?;
            for path in named_in(&text) {
                if !seen.insert(path.to_owned()) {
                    continue;
                }
                let full = objects.join(path);
                // a generated header can have been temporary
                if let Ok(real) = fs::canonicalize(&full) {
                    files.insert(real);
                }
            }
        }
    }
    Ok(files)
}

/// Paths in a .cmd file: the source, and the list of what it includes.
///
/// ```text
/// source_kernel/fork.o := /src/kernel/fork.c
///
/// deps_kernel/fork.o := \
///     $(wildcard include/config/SMP) \
///   /src/include/linux/sched.h \
/// ```
fn named_in(text: &str) -> impl Iterator<Item = &str> {
    let source =
        text.lines().filter(|l| l.starts_with("source_")).filter_map(|l| l.split_once(":= ")).map(|(_, p)| p);
    let listed = text
        .lines()
        .skip_while(|l| !l.starts_with("deps_"))
        .skip(1)
        .take_while(|l| !l.trim().is_empty())
        .map(|l| l.trim().trim_end_matches('\\').trim())
        .filter(|l| !l.starts_with("$(") && !l.is_empty());
    source.chain(listed).map(str::trim)
}

/// sha256 of the wanted files as the tarball has them.
///
/// A file that is archived under several names (`tar -h` does that with what symbolic links point to) has its
/// bytes under the first of them only, which need not be a wanted one: then the tarball is read once more,
/// for those.
fn from_tarball(
    path: &Path,
    wanted: &BTreeSet<&str>,
    done: &mut dyn FnMut(u64),
) -> Result<BTreeMap<String, String>, BuildError> {
    let Archived { mut sums, links } = read_tarball(path, wanted, done)?;
    let others: BTreeSet<&str> =
        links.values().map(String::as_str).filter(|first| !sums.contains_key(*first)).collect();
    if !others.is_empty() {
        let more = read_tarball(path, &others, &mut |_| {})?;
        sums.extend(more.sums);
    }
    for (name, first) in links {
        if let Some(sum) = sums.get(&first).cloned() {
            sums.insert(name, sum);
        }
    }
    Ok(sums)
}

/// What a tarball has of the wanted files.
struct Archived {
    /// sha256 by name.
    sums: BTreeMap<String, String>,
    /// Names without bytes of their own: the name that has them.
    links: BTreeMap<String, String>,
}

/// A name in a tarball without its first part, linux-source-6.12/.
fn inside(path: &Path) -> String {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.skip(1).collect::<PathBuf>().display().to_string()
}

fn read_tarball(
    path: &Path,
    wanted: &BTreeSet<&str>,
    done: &mut dyn FnMut(u64),
) -> Result<Archived, BuildError> {
    let [program, option] = unpacker(path).map_err(io("read", path))?;
    let mut unpacking = Command::new(program)
        .arg(option)
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(io("run", program.as_ref()))?;
    let Some(pipe) = unpacking.stdout.take() else {
        return Err(BuildError::Damaged { path: path.into(), why: format!("{program} gave no output") });
    };
    let mut archive = tar::Archive::new(std::io::BufReader::with_capacity(1 << 20, pipe));
    let mut found = Archived { sums: BTreeMap::new(), links: BTreeMap::new() };
    for entry in archive.entries().map_err(io("read", path))? {
        let mut entry = entry.map_err(io("read", path))?;
        let name = inside(&entry.path().map_err(io("read", path))?);
        if !wanted.contains(name.as_str()) {
            continue;
        }
        if entry.header().entry_type().is_hard_link() {
            if let Some(first) = entry.link_name().map_err(io("read", path))? {
                found.links.insert(name, inside(&first));
            }
            continue;
        }
        let mut data = Vec::new();
        entry.read_to_end(&mut data).map_err(io("read", path))?;
        found.sums.insert(name, hex(&Sha256::digest(&data)));
        if found.sums.len().is_multiple_of(64) {
            done(found.sums.len() as u64);
        }
    }
    // what follows the last entry, so that the program comes to its end, checksum included
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(io("read", path))?;
    let status = unpacking.wait().map_err(io("run", program.as_ref()))?;
    if !status.success() {
        let why = format!("{program} cannot unpack it; get it again (a package: reinstall it)");
        return Err(BuildError::Damaged { path: path.into(), why });
    }
    Ok(found)
}

/// What unpacks a tarball to its output, and how, by the file's first bytes: a package's is xz, a user's may
/// be any that tar reads.
fn unpacker(path: &Path) -> std::io::Result<[&'static str; 2]> {
    let mut start = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut start)?;
    Ok(match start.as_slice() {
        [0x1f, 0x8b, ..] => ["gzip", "-dc"],
        [b'B', b'Z', b'h', ..] => ["bzip2", "-dc"],
        [0x28, 0xb5, 0x2f, 0xfd] => ["zstd", "-dc"],
        [0xfd, b'7', b'z', b'X'] => ["xz", "-dc"],
        _ => ["cat", "--"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_is_known_by_its_first_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let tar = dir.path().join("t");
        for program in ["xz", "gzip"] {
            let packed = Command::new(program).arg("-c").stdin(Stdio::null()).output().unwrap();
            std::fs::write(&tar, packed.stdout).unwrap();
            assert_eq!(unpacker(&tar).unwrap()[0], program);
        }
        std::fs::write(&tar, "linux-6.13/Makefile").unwrap();
        assert_eq!(unpacker(&tar).unwrap()[0], "cat");
    }

    #[test]
    fn a_file_archived_under_several_names_is_found_under_each() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("linux-6.13");
        std::fs::create_dir_all(tree.join("include/dt-bindings")).unwrap();
        std::fs::create_dir_all(tree.join("include/uapi")).unwrap();
        std::fs::write(tree.join("include/uapi/codes.h"), "codes").unwrap();
        std::fs::write(tree.join("Makefile"), "make").unwrap();
        std::os::unix::fs::symlink("../uapi/codes.h", tree.join("include/dt-bindings/codes.h")).unwrap();
        let names = ["include/dt-bindings/codes.h", "include/uapi/codes.h"];
        // either name may come first, and so be the one that has the bytes; either may be the wanted one
        for (number, order) in [names, [names[1], names[0]]].into_iter().enumerate() {
            let tar = dir.path().join(format!("{number}.tar"));
            let mut program = Command::new("tar");
            program.arg("-chf").arg(&tar).arg("-C").arg(dir.path());
            program.args(["./linux-6.13/Makefile".to_string()]);
            assert!(program.args(order.map(|name| format!("linux-6.13/{name}"))).status().unwrap().success());
            let listed = Command::new("tar").arg("-tvf").arg(&tar).output().unwrap();
            assert!(String::from_utf8_lossy(&listed.stdout).contains(" link to "), "{listed:?}");
            for wanted in [vec![names[0]], vec![names[1]], vec![names[0], names[1], "Makefile", "none"]] {
                let sums = from_tarball(&tar, &wanted.iter().copied().collect(), &mut |_| {}).unwrap();
                for name in wanted {
                    let text = match name {
                        "Makefile" => Some("make"),
                        "none" => None,
                        _ => Some("codes"),
                    };
                    assert_eq!(
                        sums.get(name),
                        text.map(|text| hex(&Sha256::digest(text))).as_ref(),
                        "{name}"
                    );
                }
            }
        }
    }

    #[test]
    fn dependency_files_are_read() {
        let text = "savedcmd_k/a.o := gcc -Wp,-MMD,k/.a.o.d -o k/a.o /s/k/a.c\n\nsource_k/a.o := /s/k/a.c\n\n\
            deps_k/a.o := \\\n    $(wildcard include/config/SMP) \\\n  /s/include/linux/x.h \\\n  \
            include/generated/y.h \\\n\nk/a.o: $(deps_k/a.o)\n\n$(deps_k/a.o):\n";
        assert_eq!(
            named_in(text).collect::<Vec<_>>(),
            ["/s/k/a.c", "/s/include/linux/x.h", "include/generated/y.h"]
        );
    }
}
