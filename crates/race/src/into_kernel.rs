//! How does a structure behind the hooks get into a kernel, in place of cpudeadline.c?
//!
//! ```text
//! heap.c, latest.h, heap.h   ->  kernel/sched/race/          byte by byte
//! linux/race/into            ->  kernel/sched/cpudeadline.c  the kernel's functions, which call the hooks
//!                                kernel/sched/race_structure.c, a line in kernel/sched/Makefile
//! ```
//!
//! PRAcTISE's authors changed 8.2 % of the lines of their cpudl when they took it into the kernel (Table 2). Here the
//! same file serves the explorer, threads, the port and a real kernel.

use std::fs;
use std::path::{Path, PathBuf};

use schedlab_linux::{BuiltKernel, build};
use schedlab_stdx::limits::{SOURCE_BYTES_MAX, read_bytes, read_text};

use crate::compile::{HEADER, THREADS_HEADER, included_files, own_program, sum_of_file};
use crate::threads::describe;
use crate::{RaceError, io};

const SCHED: &str = "kernel/sched";
/// The line that kernel/sched/Makefile gets begins so.
const MARK: &str = "# schedlab race --into-kernel";

/// What was put into a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The tree.
    pub tree: PathBuf,
    /// Each file of the structure, from the folder of the first one: its checksum (sha256), its lines.
    pub files: Vec<(String, String, usize)>,
}

/// Puts a structure into a tree of its own beside `kernel`, made of links to its source but for kernel/sched.
///
/// # Errors
/// As [`into_tree`].
pub fn into_copy(
    path: &Path,
    defines: &[String],
    kernel: &BuiltKernel,
    name: &str,
) -> Result<Placed, RaceError> {
    let files = structure(path, defines)?;
    let cache = kernel.dir.ancestors().nth(2).unwrap_or(&kernel.dir);
    let tree = cache.join("structures").join(name);
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(io("remove", &tree))?;
    }
    copy(&kernel.source, &tree)?;
    place(&files, path, defines, &tree)
}

/// Puts a structure into a kernel's tree of one's own, of 5.10 or later.
///
/// # Errors
/// The file does not compile, lacks a hook, or includes files from elsewhere; the tree is none.
pub fn into_tree(path: &Path, defines: &[String], tree: &Path) -> Result<Placed, RaceError> {
    let files = structure(path, defines)?;
    place(&files, path, defines, tree)
}

/// A tree of links to what is in `source`, but for the files of kernel/sched, which are copies.
fn copy(source: &Path, tree: &Path) -> Result<(), RaceError> {
    let steps = [("", Some("kernel")), ("kernel", Some("sched")), (SCHED, None)];
    for (folder, not) in steps {
        let (from, to) = (source.join(folder), tree.join(folder));
        fs::create_dir_all(&to).map_err(io("create", &to))?;
        for entry in fs::read_dir(&from).map_err(io("read", &from))?.flatten() {
            let (path, at) = (entry.path(), to.join(entry.file_name()));
            if not.is_some_and(|not| entry.file_name() == not) {
                continue;
            }
            match not.is_none() && path.is_file() {
                true => fs::copy(&path, &at).map(drop).map_err(io("write", &at))?,
                false => std::os::unix::fs::symlink(&path, &at).map_err(io("link", &at))?,
            }
        }
    }
    Ok(())
}

/// The file and what it includes of its user's, if it can serve.
fn structure(path: &Path, defines: &[String]) -> Result<Vec<(String, Vec<u8>)>, RaceError> {
    let program = own_program(path, defines, false)?;
    let said = describe(&program)?;
    for hook in ["preempt", "finish", "find"] {
        if said.count(&format!("hook_{hook}")) == 0 {
            return Err(RaceError::Refused(format!(
                "{}: the structure has no {hook}(), which the kernel's cpudl needs: add it to RACE_TARGET()",
                path.display()
            )));
        }
    }
    if said.count("least_first") == 0 {
        return Err(RaceError::Refused(format!(
            "{}: its keys are priorities, and cpudeadline.c keeps deadlines: a structure of deadlines says \
             .least_first = 1 in RACE_TARGET()",
            path.display()
        )));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut all = Vec::new();
    for file in included_files(path, defines)? {
        let Ok(inside) = file.strip_prefix(folder) else {
            return Err(RaceError::Refused(format!(
                "{}: it includes {}, which is not in its folder: put it there, so that both can go into a \
                 kernel's tree",
                path.display(),
                file.display()
            )));
        };
        all.push((
            inside.to_string_lossy().into_owned(),
            read_bytes(&file, SOURCE_BYTES_MAX).map_err(io("read", &file))?,
        ));
    }
    Ok(all)
}

fn place(
    files: &[(String, Vec<u8>)],
    path: &Path,
    defines: &[String],
    tree: &Path,
) -> Result<Placed, RaceError> {
    let sched = tree.join(SCHED);
    let header = sched.join("cpudeadline.h");
    let declared = read_text(&header, SOURCE_BYTES_MAX).map_err(io("read", &header))?;
    let ours = build::port()?.join("race/into");
    let race = sched.join("race");
    if race.exists() {
        fs::remove_dir_all(&race).map_err(io("remove", &race))?;
    }
    let write = |to: &Path, bytes: &[u8]| -> Result<(), RaceError> {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(io("create", parent))?;
        }
        schedlab_stdx::aside::write(to, bytes).map_err(io("write", to))
    };
    for (name, bytes) in files {
        write(&race.join(name), bytes)?;
    }
    write(&race.join("schedlab_race.h"), HEADER.as_bytes())?;
    write(&race.join("schedlab_threads.h"), THREADS_HEADER.as_bytes())?;
    for (from, to) in [
        ("limits.h", "race/limits.h"),
        ("race_structure.c", "race_structure.c"),
        ("cpudeadline.c", "cpudeadline.c"),
    ] {
        let from = ours.join(from);
        let mut text = read_text(&from, SOURCE_BYTES_MAX).map_err(io("read", &from))?;
        if to == "cpudeadline.c" && declared.contains("bool online") {
            text.insert_str(0, "#define RACE_CPUDL_ONLINE\n");
        }
        if to == "cpudeadline.c" && !sched.join("build_policy.c").exists() {
            // before 5.18 each file is a unit of its own
            text.insert_str(0, "#include \"sched.h\"\n");
        }
        write(&sched.join(to), text.as_bytes())?;
    }
    let makefile = sched.join("Makefile");
    let text = read_text(&makefile, SOURCE_BYTES_MAX).map_err(io("read", &makefile))?;
    let kept = text.split(MARK).next().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let defines: String = defines.iter().map(|define| format!(" '-D{define}'")).collect();
    let lines = format!(
        "{kept}{MARK}\n\
         CFLAGS_build_policy.o += -I $(srctree)/{SCHED}/race\n\
         CFLAGS_cpudeadline.o += -I $(srctree)/{SCHED}/race\n\
         CFLAGS_race_structure.o := -w -std=gnu11 -ffreestanding -DRACE_THREADS '-DRACE_FILE=\"race/{name}\"'{defines} \
         -I $(srctree)/{SCHED}/race -isystem $(shell $(CC) -print-file-name=include)\n\
         obj-y += race_structure.o\n"
    );
    write(&makefile, lines.as_bytes())?;
    // what is said to be unchanged is what stands there now
    for (name, bytes) in files {
        let at = race.join(name);
        if fs::read(&at).map_err(io("read", &at))? != *bytes {
            return Err(RaceError::Refused(format!(
                "{name}: a file of that name stands beside the structure in the kernel's tree already: give yours \
                 another name"
            )));
        }
    }
    let listed = files.iter().map(|(name, bytes)| {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        (name.clone(), sum_of_file(bytes), lines)
    });
    Ok(Placed { tree: tree.to_owned(), files: listed.collect() })
}
