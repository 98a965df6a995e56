//! What does the guest find in its file system? `/init` (our static program), `/program`, `/events`,
//! `/settings`: a cpio archive ("newc") without times or owners, so that the same input gives the same bytes.

use crate::{RealError, cache, kernel};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("../init/init.c");
const FLAGS: [&str; 4] = ["-static", "-O2", "-Wall", "-s"];

/// Where the program is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// As process 1 of a guest.
    Guest,
    /// As a process of this machine.
    Host,
}

/// What the program can do besides steps that every guest's can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Tasks execute new programs.
    Exec,
    /// Programs that it finds in its file system, in place of a workload.
    Errand,
    /// Tasks note what they do at tokens.
    Notes,
}

impl Extra {
    const ALL: [Extra; 3] = [Extra::Exec, Extra::Errand, Extra::Notes];

    fn word(self) -> &'static str {
        match self {
            Extra::Exec => "EXEC",
            Extra::Errand => "ERRAND",
            Extra::Notes => "NOTES",
        }
    }
}

/// The program's text. What stands between `#ifdef EXEC` and `#endif // EXEC` (or another word) is left out where
/// nobody asks for it: an addition there changes nothing of what was asked of guests before.
fn source(extras: &[Extra]) -> String {
    let mut inside: Option<Extra> = None;
    let is_wanted = |line: &&str| {
        let is = |before: &str, extra: &Extra| line.trim_end() == format!("{before} {}", extra.word());
        inside = Extra::ALL.into_iter().find(|extra| is("#ifdef", extra)).or(inside);
        let is_wanted = inside.is_none_or(|extra| extras.contains(&extra));
        inside = inside.filter(|_| !Extra::ALL.iter().any(|extra| is("#endif //", extra)));
        is_wanted
    };
    SOURCE.split_inclusive('\n').filter(is_wanted).collect()
}

fn flags(extras: &[Extra]) -> Vec<String> {
    let defines = extras.iter().map(|extra| format!("-D{}", extra.word()));
    FLAGS.into_iter().map(str::to_string).chain(defines).collect()
}

/// Compiles the program, or takes it from the cache.
pub(crate) fn init_binary(runs: Runs, extras: &[Extra]) -> Result<PathBuf, RealError> {
    let gcc = kernel::output(Command::new("gcc").arg("--version"))?;
    let mut flags = flags(extras);
    if runs == Runs::Host {
        flags.push("-DHOST".to_string());
    }
    let joined = flags.join(" ");
    let text = self::source(extras);
    let key = cache::key(&[text.as_bytes(), joined.as_bytes(), gcc.as_bytes()]);
    let target = cache::directory().join(format!("init-{}", &key[..16]));
    if target.is_file() {
        return Ok(target);
    }
    let directory = cache::directory();
    cache::make(&directory)?;
    let work = tempfile::tempdir_in(&directory).map_err(RealError::io("make a directory in", &directory))?;
    let (source, binary) = (work.path().join("init.c"), work.path().join("init"));
    cache::write(&source, text.as_bytes())?;
    kernel::output(Command::new("gcc").args(&flags).arg("-o").arg(&binary).arg(&source))?;
    std::fs::rename(&binary, &target).map_err(RealError::io("rename into place", &target))?;
    Ok(target)
}

/// Names the program by its source and how it is compiled; the compiler's version is not in it.
pub(crate) fn source_sum(extras: &[Extra]) -> String {
    cache::key(&[source(extras).as_bytes(), flags(extras).join(" ").as_bytes()])
}

/// A file of the archive: where, its bytes, whether it can be executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub path: &'a str,
    pub bytes: &'a [u8],
    pub is_program: bool,
}

impl<'a> Content<'a> {
    pub(crate) fn data(path: &'a str, bytes: &'a [u8]) -> Content<'a> {
        Content { path, bytes, is_program: false }
    }
}

/// The archive with `/init` and these files, in folders that it makes.
pub(crate) fn archive(init: &Path, files: &[Content<'_>]) -> Result<Vec<u8>, RealError> {
    let binary = std::fs::read(init).map_err(RealError::io("read", init))?;
    let mut cpio = Cpio::default();
    for directory in ["dev", "proc", "sys", "cg"] {
        cpio.entry(directory, 0o040755, &[], (0, 0));
    }
    cpio.entry("dev/console", 0o020600, &[], (5, 1));
    cpio.entry("dev/mem", 0o020600, &[], (1, 1));
    cpio.entry("init", 0o100755, &binary, (0, 0));
    let mut made: Vec<String> = Vec::new();
    for file in files {
        for (at, _) in file.path.match_indices('/') {
            let folder = &file.path[..at];
            if !made.iter().any(|other| other == folder) {
                cpio.entry(folder, 0o040755, &[], (0, 0));
                made.push(folder.to_string());
            }
        }
        let mode = if file.is_program { 0o100755 } else { 0o100644 };
        cpio.entry(file.path, mode, file.bytes, (0, 0));
    }
    cpio.entry("TRAILER!!!", 0, &[], (0, 0));
    Ok(cpio.bytes)
}

#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    /// `device`: major and minor of a device node.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        self.entries += 1;
        let fields = [
            self.entries, // inode
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            content.len() as u32,
            0, // device of the file system
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0, // checksum: none in this format
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_is_not_in_the_program() {
        let plain = source(&[]);
        for (extra, mark) in [(Extra::Exec, "execve("), (Extra::Errand, "execv("), (Extra::Notes, "NOTES_FD")]
        {
            assert!(!plain.contains(mark) && source(&[extra]).contains(mark), "{extra:?}");
            assert!(Extra::ALL.iter().all(|other| *other == extra || !source(&[*other]).contains(mark)));
        }
        let both = source(&[Extra::Exec, Extra::Notes]);
        assert!(both.contains("execve(") && both.contains("NOTES_FD") && !both.contains("execv("));
    }

    /// Read back by cpio itself.
    #[test]
    fn the_archive_is_one_that_cpio_reads() {
        if Command::new("cpio").arg("--version").output().is_err() {
            eprintln!("skipped: no cpio on this system");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let init = directory.path().join("x");
        std::fs::write(&init, b"#!init").unwrap();
        let files = [Content::data("program", b"12345"), Content::data("settings", b"")];
        let archive = archive(&init, &files).unwrap();
        let file = directory.path().join("a.cpio");
        std::fs::write(&file, archive).unwrap();
        let script = "cd \"$1\" && cpio -idm --quiet --no-absolute-filenames init program settings dev < a.cpio && \
            cat program";
        let output = Command::new("sh").args(["-c", script, "sh"]).arg(directory.path()).output().unwrap();
        assert_eq!(output.stdout, b"12345", "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(directory.path().join("init")).unwrap(), b"#!init");
    }
}
