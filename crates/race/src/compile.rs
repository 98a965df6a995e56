//! How does C code become a target?
//!
//! ```text
//! kernel/sched/cpupri.c, unchanged, in linux/race/unit_cpupri.c   the kernel's own flags, -fsanitize=thread
//! linux/race/target_cpupri.c: what must hold; support.c: stubs     the kernel's own flags
//! crates/race/c/hooks.c: what the compiler's calls mean
//!                                        all together              cpupri-<key>.so
//! my.c, -fsanitize=thread, and hooks.c                             own.so
//! ```
//!
//! Atomic operations, locks and barriers come from `linux/race/include/asm`, in place of the port's: another machine,
//! not another kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use schedlab_linux::BuiltKernel;
use schedlab_linux::build::{self, Origin};
use schedlab_stdx::aside;
use schedlab_stdx::limits::{SOURCE_BYTES_MAX, read_bytes, read_text};
use sha2::{Digest, Sha256};

use crate::seeded::{Seeded, edit};
use crate::{RaceError, io, lacking};

/// What gcc puts calls before; and each access of the source stays one: where a compiler may read a variable once or
/// twice, it is twice, so that what another compiler or configuration would do is seen.
const POINTS: [&str; 13] = [
    "-fno-tree-fre",
    "-fno-tree-pre",
    "-fno-tree-dominator-opts",
    "-fno-code-hoisting",
    "-fno-tree-tail-merge",
    "-fno-gcse",
    "-fno-tree-vrp",
    "-fno-tree-copy-prop",
    "-fno-tree-forwprop",
    "-gdwarf-4", // addr2line 2.40 takes the wrong file of version 5
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=0",
];
/// `schedlab_race.h`, which a C file of one's own includes.
pub const HEADER: &str = include_str!("../include/schedlab_race.h");
const HOOKS: &str = include_str!("../c/hooks.c");

/// What stands for the rest of the kernel, and its own functions on masks.
const SUPPORT: &str = "support.c";
const BITS: &str = "unit_bits.c";

/// A target of a kernel: its name and its file in the kernel's tree.
pub const KERNEL_TARGETS: [(&str, &str); 2] =
    [("cpupri", "kernel/sched/cpupri.c"), ("cpudl", "kernel/sched/cpudeadline.c")];

/// A target that can be explored.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// `cpupri`, or a path.
    pub name: String,
    /// The object.
    pub object: PathBuf,
    /// A checksum of all that went into it.
    pub key: String,
    /// The kernel's name and exact version; empty for a C file.
    pub kernel: (String, String),
    /// The file under test, and its checksum (sha256).
    pub source: (String, String),
    /// The bug that was put in.
    pub seeded: Option<Seeded>,
    /// Macros, of a C file.
    pub defines: Vec<String>,
    /// Folders with the files that it was compiled from, the first one first. Where the compiler read them there may be
    /// others by now. Empty: they are where it read them.
    pub sources: Vec<PathBuf>,
    /// What an object that is built for one run lies in.
    #[doc(hidden)]
    pub keep: Option<std::sync::Arc<tempfile::TempDir>>,
}

impl Compiled {
    /// Whether ThreadSanitizer is in it.
    pub(crate) fn is_sanitized(&self) -> bool {
        self.object.to_string_lossy().ends_with(SANITIZED)
    }

    /// The bug's name; empty: none.
    pub fn seeded_name(&self) -> &str {
        self.seeded.as_ref().map_or("", |seeded| &seeded.name)
    }

    /// Whether it is a kernel with its whole scheduler, not a part of one.
    pub fn is_whole(&self) -> bool {
        self.name.starts_with(crate::whole::PREFIX)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn sum(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

fn run(command: &mut Command, what: &str) -> Result<(), RaceError> {
    let output = command.stdin(Stdio::null()).output().map_err(io("run", "gcc".as_ref()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let is_error = |l: &&str| l.contains("error") || l.contains("undefined");
    let mut lines: Vec<&str> = text.lines().filter(is_error).take(12).collect();
    if lines.is_empty() {
        lines = text.lines().take(12).collect();
    }
    Err(RaceError::Compile { what: what.to_owned(), text: lines.join("\n") })
}

fn write(path: &Path, text: &str) -> Result<(), RaceError> {
    fs::write(path, text).map_err(io("write", path))
}

fn compiler() -> String {
    let output = Command::new("gcc").arg("--version").output();
    output
        .map(|o| String::from_utf8_lossy(&o.stdout).lines().next().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

/// `schedlab_race.h` and the hooks' object, in a folder.
fn hooks(dir: &Path) -> Result<PathBuf, RaceError> {
    let (header, source, object) = (dir.join("schedlab_race.h"), dir.join("hooks.c"), dir.join("hooks.o"));
    write(&header, HEADER)?;
    write(&source, HOOKS)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIC", "-I"]).arg(dir).args(["-c", "-o"]).arg(&object).arg(&source);
    run(&mut gcc, "hooks.c")?;
    Ok(object)
}

fn link(objects: &[PathBuf], to: &Path, what: &str) -> Result<(), RaceError> {
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-o"]).arg(to).args(objects);
    gcc.arg("-Wl,--gc-sections,-Bsymbolic,-z,now,-z,relro,--no-undefined");
    run(&mut gcc, what)
}

/// A kernel's file under test, with what it is compiled with.
pub(crate) struct KernelSource<'a> {
    kernel: &'a BuiltKernel,
    /// In the kernel's tree.
    file: &'static str,
    /// As it is there.
    source: Vec<u8>,
    edited: Option<String>,
    /// `linux/race`.
    ours: PathBuf,
    flags: Vec<String>,
    /// All that goes into each object.
    inputs: Vec<Vec<u8>>,
}

impl<'a> KernelSource<'a> {
    /// `cpupri` or `cpudl`, with a seeded bug or as it is.
    pub(crate) fn read(
        name: &str,
        kernel: &'a BuiltKernel,
        seeded: Option<&Seeded>,
    ) -> Result<KernelSource<'a>, RaceError> {
        let Some((_, file)) = KERNEL_TARGETS.iter().find(|(n, _)| *n == name) else {
            let known = KERNEL_TARGETS.map(|(n, _)| n).join(", ");
            return Err(RaceError::Target { asked: name.to_owned(), known });
        };
        let ours = build::port()?.join("race");
        let source = read(kernel.dir.join("src").join(file))?;
        let edited = match seeded {
            Some(seeded) => Some(edit(&String::from_utf8_lossy(&source), seeded, file)?),
            None => None,
        };
        let flags = build::sched_flags(kernel)?;
        let mut inputs =
            vec![kernel.key.clone().into_bytes(), flags.join(" ").into_bytes(), compiler().into_bytes()];
        inputs.push(edited.clone().map_or_else(|| source.clone(), String::into_bytes));
        inputs.push(HEADER.into());
        let mut files = vec![ours.join(SUPPORT), ours.join(BITS), ours.join(format!("unit_{name}.c"))];
        let mut folders = vec![ours.clone(), ours.join("include/asm")];
        if kernel.origin == Origin::Tree {
            folders.push(kernel.dir.join("src/kernel/sched"));
        }
        for folder in folders {
            let listed = fs::read_dir(&folder).map_err(io("read", &folder))?;
            let headers = listed.flatten().map(|entry| entry.path());
            files.extend(headers.filter(|path| path.extension().is_some_and(|e| e == "h")));
        }
        files.sort();
        for file in files {
            inputs.push(read(file)?);
        }
        Ok(KernelSource { kernel, file, source, edited, ours, flags, inputs })
    }

    /// The target's name and place, for an object made of these files of `linux/race` and texts of ours.
    fn target(
        &self,
        (name, ending): (&str, &str),
        seeded: Option<&Seeded>,
        (files, texts): (&[String], &[&str]),
    ) -> Result<Compiled, RaceError> {
        let mut inputs = self.inputs.clone();
        for file in files {
            inputs.push(read(self.ours.join(file))?);
        }
        inputs.extend(texts.iter().map(|text| text.as_bytes().to_vec()));
        let key = sum(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let dir = self.kernel.dir.join("race");
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        Ok(Compiled {
            name: name.to_owned(),
            object: dir.join(format!("{name}-{}{ending}", &key[..12])),
            key: key[..16].to_owned(),
            kernel: (self.kernel.series.clone(), self.kernel.version.clone()),
            source: (self.file.to_owned(), sum_of_file(&self.source)),
            seeded: seeded.cloned(),
            defines: Vec::new(),
            sources: Vec::new(),
            keep: None,
        })
    }

    /// Compiles files of `linux/race` into `work`, each with these words more than the kernel's.
    fn objects(
        &self,
        (work, compiled): (&Path, &Compiled),
        files: &[(&str, &[&str])],
    ) -> Result<Vec<PathBuf>, RaceError> {
        let own = own_sources(&compiled.object).join(Path::new(self.file).parent().unwrap_or(Path::new("")));
        if let Some(text) = &self.edited {
            keep_sources(&compiled.object, &BTreeMap::from([(self.file.into(), text.clone())]))?;
        }
        let one = |(source, more): &(&str, &[&str])| {
            let object = work.join(format!("{source}.o"));
            let mut gcc = Command::new("gcc");
            gcc.current_dir(self.kernel.dir.join("build"));
            for include in [&own, work, &self.ours.join("include"), &self.ours] {
                gcc.arg("-I").arg(include);
            }
            gcc.arg("-iquote").arg(self.kernel.dir.join("src/lib"));
            gcc.args(&self.flags).args(["-ffunction-sections", "-fdata-sections"]).args(*more);
            gcc.args(["-c", "-o"]).arg(&object).arg(self.ours.join(source));
            run(&mut gcc, &format!("linux/race/{source} with Linux {}", self.kernel.version))?;
            Ok(object)
        };
        files.iter().map(one).collect()
    }
}

fn read(path: PathBuf) -> Result<Vec<u8>, RaceError> {
    fs::read(&path).map_err(io("read", &path))
}

/// A kernel's target: `cpupri` or `cpudl`, with a seeded bug or as it is.
///
/// # Errors
/// No such target or kernel; an edit whose old text is not there exactly once; the compiler's errors.
pub fn kernel_target(
    name: &str,
    kernel: &BuiltKernel,
    seeded: Option<&Seeded>,
) -> Result<Compiled, RaceError> {
    let source = KernelSource::read(name, kernel, seeded)?;
    let (unit, target) = (format!("unit_{name}.c"), format!("target_{name}.c"));
    let compiled = source.target((name, ".so"), seeded, (std::slice::from_ref(&target), &[HOOKS]))?;
    if compiled.object.is_file() {
        return Ok(compiled);
    }
    let work = temporary(&kernel.dir.join("race"))?;
    let lacks = |error| lacking::named(error, name, source.file, &kernel.version);
    let mut objects = vec![hooks(work.path())?];
    let files: [(&str, &[&str]); 4] = [(&unit, &POINTS), (BITS, &POINTS), (&target, &[]), (SUPPORT, &[])];
    objects.extend(source.objects((work.path(), &compiled), &files).map_err(lacks)?);
    let aside = work.path().join("target.so");
    link(&objects, &aside, name).map_err(lacks)?;
    fs::rename(&aside, &compiled.object).map_err(io("write", &compiled.object))?;
    Ok(compiled)
}

/// What the compiler is given besides, where CPUs are threads.
const THREADS: [&str; 2] = ["-DRACE_THREADS", "-ffixed-r15"];
const SANITIZER: &str = "-fsanitize=thread";
/// How the name of such a program ends.
const SANITIZED: &str = ".tsan";
/// `schedlab_threads.h`, which `schedlab_race.h` includes then.
pub(crate) const THREADS_HEADER: &str = include_str!("../include/schedlab_threads.h");
const STRESS: &str = include_str!("../c/stress.c");

/// A target as a program whose CPUs are threads: a kernel's, with the hooks of `linux/race/stress_NAME.c`.
///
/// # Errors
/// As [`kernel_target`].
pub fn kernel_program(
    name: &str,
    kernel: &BuiltKernel,
    seeded: Option<&Seeded>,
    sanitized: bool,
) -> Result<Compiled, RaceError> {
    let source = KernelSource::read(name, kernel, seeded)?;
    let (unit, hooks) = (format!("unit_{name}.c"), format!("stress_{name}.c"));
    let ending = if sanitized { SANITIZED } else { ".stress" };
    let texts = [STRESS, THREADS_HEADER, ending];
    let compiled = source.target((name, ending), seeded, (std::slice::from_ref(&hooks), &texts))?;
    if compiled.object.is_file() {
        return Ok(compiled);
    }
    let work = temporary(&kernel.dir.join("race"))?;
    let lacks = |error| lacking::named(error, name, source.file, &kernel.version);
    let mut objects = vec![runtime(work.path(), sanitized)?];
    let words = threads_words(sanitized);
    let files = [unit.as_str(), BITS, &hooks, SUPPORT].map(|file| (file, words.as_slice()));
    objects.extend(source.objects((work.path(), &compiled), &files).map_err(lacks)?);
    let aside = work.path().join("program");
    link_program(&objects, &aside, name, sanitized).map_err(lacks)?;
    fs::rename(&aside, &compiled.object).map_err(io("write", &compiled.object))?;
    Ok(compiled)
}

/// The same of a C file of one's own, with macros.
///
/// # Errors
/// As [`own_target`].
pub fn own_program(path: &Path, defines: &[String], sanitized: bool) -> Result<Compiled, RaceError> {
    let source = read_bytes(path, SOURCE_BYTES_MAX).map_err(io("read", path))?;
    let dir = temporary(&std::env::temp_dir())?;
    let mut objects = vec![runtime(dir.path(), sanitized)?];
    let object = dir.path().join("own.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-std=gnu11", "-Wall"]).args(threads_words(sanitized));
    gcc.args(defines.iter().map(|define| format!("-D{define}")));
    gcc.arg("-I").arg(dir.path()).args(["-c", "-o"]).arg(&object).arg(path);
    run(&mut gcc, &path.display().to_string())?;
    objects.push(object);
    let to = dir.path().join(if sanitized { "own.tsan" } else { "own" });
    link_program(&objects, &to, &path.display().to_string(), sanitized)?;
    let text = defines.join("\n");
    let parts = included(path, dir.path(), defines)?;
    let key = sum(&[&parts, text.as_bytes(), STRESS.as_bytes(), THREADS_HEADER.as_bytes()]);
    Ok(Compiled {
        name: path.display().to_string(),
        object: to,
        key: key[..16].to_owned(),
        kernel: Default::default(),
        source: (path.display().to_string(), sum_of_file(&source)),
        seeded: None,
        defines: defines.to_vec(),
        sources: Vec::new(),
        keep: Some(std::sync::Arc::new(dir)),
    })
}

/// A C file and the files that it includes of its user's.
pub(crate) fn included_files(path: &Path, defines: &[String]) -> Result<Vec<PathBuf>, RaceError> {
    let dir = temporary(&std::env::temp_dir())?;
    write(&dir.path().join("schedlab_race.h"), HEADER)?;
    write(&dir.path().join("schedlab_threads.h"), THREADS_HEADER)?;
    files_of(path, dir.path(), defines)
}

/// The same, with the headers in `dir`.
fn files_of(path: &Path, dir: &Path, defines: &[String]) -> Result<Vec<PathBuf>, RaceError> {
    let mut gcc = Command::new("gcc");
    gcc.arg("-MM").args(defines.iter().map(|define| format!("-D{define}"))).arg("-I").arg(dir).arg(path);
    let output = gcc.stdin(Stdio::null()).output().map_err(io("run", "gcc".as_ref()))?;
    // own.o: own.c latest.h \
    //  /tmp/.../schedlab_race.h
    let text = String::from_utf8_lossy(&output.stdout).replace("\\\n", " ");
    let files = text.split_once(':').map_or("", |(_, files)| files).split_whitespace();
    let others = files.map(Path::new).filter(|file| *file != path && !file.starts_with(dir));
    // a name with a blank in it is several words here, and none of them is there
    let others = others.filter(|file| file.is_file()).map(Path::to_owned);
    Ok([path.to_owned()].into_iter().chain(others).collect())
}

/// A C file and all that it includes of its user's: what decides which program it is.
fn included(path: &Path, dir: &Path, defines: &[String]) -> Result<Vec<u8>, RaceError> {
    let mut all = Vec::new();
    for file in files_of(path, dir, defines)? {
        all.extend(read_bytes(&file, SOURCE_BYTES_MAX).map_err(io("read", &file))?);
    }
    Ok(all)
}

fn threads_words(sanitized: bool) -> Vec<&'static str> {
    THREADS.into_iter().chain(sanitized.then_some(SANITIZER)).collect()
}

/// The threads' runtime, and the headers, in a folder.
fn runtime(dir: &Path, sanitized: bool) -> Result<PathBuf, RaceError> {
    write(&dir.join("schedlab_race.h"), HEADER)?;
    write(&dir.join("schedlab_threads.h"), THREADS_HEADER)?;
    let (source, object) = (dir.join("stress.c"), dir.join("stress.o"));
    write(&source, STRESS)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-Wall"]).args(threads_words(sanitized)).arg("-I").arg(dir);
    gcc.args(["-c", "-o"]).arg(&object).arg(&source);
    run(&mut gcc, "stress.c")?;
    Ok(object)
}

fn link_program(objects: &[PathBuf], to: &Path, what: &str, sanitized: bool) -> Result<(), RaceError> {
    let mut gcc = Command::new("gcc");
    gcc.arg("-o").arg(to).args(sanitized.then_some(SANITIZER)).args(objects);
    gcc.args(["-pthread", "-Wl,--gc-sections"]);
    run(&mut gcc, what)
}

/// As `sha256sum` prints it.
pub(crate) fn sum_of_file(bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hex(&hash.finalize())
}

/// A folder that goes with this process; those of killed ones go now.
pub(crate) fn temporary(parent: &Path) -> Result<tempfile::TempDir, RaceError> {
    let prefix = schedlab_process::prefix_in(parent, "schedlab-race-");
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(io("create", parent))
}

/// A C file of one's own, with macros (`NAME`, `NAME=VALUE`).
///
/// # Errors
/// No such file; the compiler's errors.
pub fn own_target(path: &Path, defines: &[String]) -> Result<Compiled, RaceError> {
    let source = read_bytes(path, SOURCE_BYTES_MAX).map_err(io("read", path))?;
    let dir = temporary(&std::env::temp_dir())?;
    let mut objects = vec![hooks(dir.path())?];
    let object = dir.path().join("own.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-fPIC", "-std=gnu11", "-Wall", "-fno-stack-protector", "-ffunction-sections"]);
    gcc.args(defines.iter().map(|define| format!("-D{define}")));
    gcc.args(POINTS).arg("-I").arg(dir.path()).args(["-c", "-o"]).arg(&object).arg(path);
    run(&mut gcc, &path.display().to_string())?;
    objects.push(object);
    let to = dir.path().join("own.so");
    link(&objects, &to, &path.display().to_string())?;
    if !crate::object::is_target(&to) {
        return Err(RaceError::Refused(format!(
            "{} has no RACE_TARGET(...), which says what is called: #include <schedlab_race.h>, and end the file with \
             RACE_TARGET(.name = \"...\", .find = find, .scenario = \"...\"); samples/race/lowest.c has one",
            path.display()
        )));
    }
    let key = sum(&[
        &included(path, dir.path(), defines)?,
        defines.join("\n").as_bytes(),
        HEADER.as_bytes(),
        HOOKS.as_bytes(),
        compiler().as_bytes(),
    ]);
    Ok(Compiled {
        name: path.display().to_string(),
        object: to,
        key: key[..16].to_owned(),
        kernel: Default::default(),
        source: (path.display().to_string(), sum_of_file(&source)),
        seeded: None,
        defines: defines.to_vec(),
        sources: Vec::new(),
        keep: Some(std::sync::Arc::new(dir)),
    })
}

/// A litmus test (`.litmus`) as a target, and the test.
///
/// # Errors
/// No such file, or none that is understood.
pub fn litmus_target(path: &Path) -> Result<(Compiled, crate::litmus::Litmus), RaceError> {
    let text = read_text(path, SOURCE_BYTES_MAX).map_err(io("read", path))?;
    let litmus = crate::litmus::Litmus::parse(&path.display().to_string(), &text)?;
    let dir = temporary(&std::env::temp_dir())?;
    let source = dir.path().join("litmus.c");
    write(&source, &litmus.source)?;
    let compiled = own_target(&source, &[])?;
    Ok((Compiled { name: path.display().to_string(), ..compiled }, litmus))
}

/// The scenarios that belong to a kernel's target, by name.
///
/// # Errors
/// A file cannot be read, or is none.
pub fn scenarios(target: &str) -> Result<Vec<crate::Scenario>, RaceError> {
    let dir = build::port()?.join("race/scenarios").join(target);
    let Ok(listed) = fs::read_dir(&dir) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        match target {
            "linux" => crate::whole::scenario(&name, &text),
            _ => crate::Scenario::parse(&name, &text),
        }
    };
    paths.into_iter().map(read).collect()
}

/// Which of the functions that are inlined at an address is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The innermost one: what the instruction does.
    Innermost,
    /// The innermost one that stands in no header: `find_next_bit()` and `task_on_cpu()` are everywhere, and say
    /// nothing.
    OutOfHeaders,
}

/// Source lines of addresses in an object: `kernel/sched/cpupri.c:86 __cpupri_find`.
pub fn places(object: &Path, addresses: &[usize], frame: Frame) -> Vec<String> {
    if addresses.is_empty() {
        return Vec::new();
    }
    match addressed(object, addresses) {
        Some(said) => frames_of(&said, frame).iter().map(Placed::named).collect(),
        None => addresses.iter().map(|at| format!("{at:#x}")).collect(),
    }
}

/// Where the files of an object lie that were made for it alone: those that an edit changes.
pub(crate) fn own_sources(object: &Path) -> PathBuf {
    object.with_extension("src")
}

/// Writes files of an edited tree beside the object that is compiled from them.
pub(crate) fn keep_sources(object: &Path, files: &BTreeMap<PathBuf, String>) -> Result<(), RaceError> {
    for (name, text) in files {
        let path = own_sources(object).join(name);
        let is_there = fs::read(&path).is_ok_and(|old| old == text.as_bytes());
        let dir = path.parent().unwrap_or(&path);
        fs::create_dir_all(dir).map_err(io("create", dir))?;
        // (somebody may be reading it)
        if !is_there {
            aside::write(&path, text.as_bytes()).map_err(io("write", &path))?;
        }
    }
    Ok(())
}

/// The file that a compiler read as `path`: in the first of these folders that has one of its name.
fn source_of(path: &str, sources: &[PathBuf]) -> PathBuf {
    let below = |folder: &PathBuf| {
        let mut rest = Path::new(path).components();
        std::iter::from_fn(|| rest.next().map(|_| rest.as_path()))
            .filter(|name| !name.as_os_str().is_empty())
            .map(|name| folder.join(name))
            .find(|file| file.is_file())
    };
    sources.iter().find_map(below).unwrap_or_else(|| PathBuf::from(path))
}

/// The same with what stands in that line, if its file can be read: `if (skip)`.
pub(crate) fn places_and_text(
    (object, sources): (&Path, &[PathBuf]),
    addresses: &[usize],
    frame: Frame,
) -> Vec<(String, String)> {
    let Some(said) = addressed(object, addresses).filter(|_| !addresses.is_empty()) else {
        return places(object, addresses, frame).into_iter().map(|place| (place, String::new())).collect();
    };
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let with_text = |placed: Placed<'_>| {
        let (path, line) = placed.file.rsplit_once(':').unwrap_or((placed.file, ""));
        let lines = files.entry(path.to_owned()).or_insert_with(|| {
            let source = fs::read(source_of(path, sources)).unwrap_or_default();
            String::from_utf8_lossy(&source).lines().map(one_line).collect()
        });
        let number = line.parse::<usize>().ok().and_then(|line| line.checked_sub(1));
        (placed.named(), number.and_then(|number| lines.get(number)).cloned().unwrap_or_default())
    };
    frames_of(&said, frame).into_iter().map(with_text).collect()
}

/// A line of source as it is shown: no blanks around it, nothing that controls a terminal, and not too long.
fn one_line(line: &str) -> String {
    const SHOWN: usize = 100;
    line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect()
}

/// What `addr2line` says of these addresses; `None`: there is none.
fn addressed(object: &Path, addresses: &[usize]) -> Option<String> {
    let mut command = Command::new("addr2line");
    command.args(["-f", "-i", "-a", "-e"]).arg(object);
    // a return address stands behind its call
    command.args(addresses.iter().map(|at| format!("{:#x}", at.saturating_sub(1))));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where an address is in the source.
struct Placed<'a> {
    /// Path and line: `/src/kernel/sched/fair.c:77`.
    file: &'a str,
    function: &'a str,
}

impl Placed<'_> {
    fn named(&self) -> String {
        let Placed { file, function } = self;
        let file = match file.rfind("/kernel/").or_else(|| file.rfind("/include/")) {
            Some(at) => &file[at + 1..],
            None => file.rsplit('/').next().unwrap_or(file),
        };
        format!("{file} {function}")
    }
}

/// From `addr2line -f -i -a`: a line with the address, then two lines for each function, innermost first.
fn frames_of(text: &str, frame: Frame) -> Vec<Placed<'_>> {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match groups.last_mut() {
            Some(group) if !line.starts_with("0x") => group.push(line),
            _ => groups.push(Vec::new()),
        }
    }
    groups.iter().map(|group| named_frame(group, frame)).collect()
}

/// Which of these functions is named: lines of function and file in turns, innermost first.
fn named_frame<'a>(group: &[&'a str], frame: Frame) -> Placed<'a> {
    let mut pairs = group.chunks_exact(2);
    let of_source = |pair: &&[&str]| frame == Frame::OutOfHeaders && pair[1].contains(".c:");
    let pair = pairs.clone().find(of_source).or_else(|| pairs.next());
    let (function, file) = pair.map_or(("??", "??"), |pair| (pair[0], pair[1]));
    Placed { file: file.split(" (discriminator").next().unwrap_or(file), function }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headers_function_is_named_by_who_calls_it() {
        let text = "0x0000000000001233\nfind_next_bit\n/src/./include/linux/find.h:65\nrebalance\n\
            /src/kernel/sched/fair.c:77 (discriminator 3)\nsched_softirq\n/src/kernel/sched/fair.c:99\n\
            0x0000000000001300\ncpu_of\n/src/kernel/sched/sched.h:9\nown\n/src/kernel/sched/core.c:3\n\
            0x0000000000001310\n??\n??:0\n";
        let places_of = |text, frame| frames_of(text, frame).iter().map(Placed::named).collect::<Vec<_>>();
        let inner = ["include/linux/find.h:65 find_next_bit", "kernel/sched/sched.h:9 cpu_of", "??:0 ??"];
        assert_eq!(places_of(text, Frame::Innermost), inner);
        let outer = ["kernel/sched/fair.c:77 rebalance", "kernel/sched/core.c:3 own", "??:0 ??"];
        assert_eq!(places_of(text, Frame::OutOfHeaders), outer);
    }

    #[test]
    fn a_line_of_source_is_shown_without_what_controls_a_terminal() {
        assert_eq!(one_line("\t\tif (a)\t/* \u{1b}[31m */  "), "if (a) /*  [31m */");
        assert_eq!(one_line(&"x".repeat(300)).len(), 100);
    }
}
