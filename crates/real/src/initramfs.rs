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

/// The program's text. What stands between `#ifdef EXEC` and `#endif // EXEC` is left out where no task executes a new
/// program: an addition there changes nothing of what was asked of guests before.
fn source(executes: bool) -> String {
    let mut is_for_all = true;
    let is_wanted = |line: &&str| {
        let (begins, ends) = (line.starts_with("#ifdef EXEC"), line.starts_with("#endif // EXEC"));
        is_for_all = (is_for_all || ends) && !begins;
        executes || is_for_all && !ends
    };
    SOURCE.split_inclusive('\n').filter(is_wanted).collect()
}

fn flags(executes: bool) -> Vec<&'static str> {
    FLAGS.into_iter().chain(executes.then_some("-DEXEC")).collect()
}

/// Compiles the program, or takes it from the cache.
pub(crate) fn init_binary(runs: Runs, executes: bool) -> Result<PathBuf, RealError> {
    let gcc = kernel::output(Command::new("gcc").arg("--version"))?;
    let mut flags = flags(executes);
    if runs == Runs::Host {
        flags.push("-DHOST");
    }
    let joined = flags.join(" ");
    let text = self::source(executes);
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
pub(crate) fn source_sum(executes: bool) -> String {
    cache::key(&[source(executes).as_bytes(), flags(executes).join(" ").as_bytes()])
}

/// The archive with `/init` and these files.
pub(crate) fn archive(init: &Path, files: &[(&str, &[u8])]) -> Result<Vec<u8>, RealError> {
    let binary = std::fs::read(init).map_err(RealError::io("read", init))?;
    let mut cpio = Cpio::default();
    for directory in ["dev", "proc", "sys", "cg"] {
        cpio.entry(directory, 0o040755, &[], (0, 0));
    }
    cpio.entry("dev/console", 0o020600, &[], (5, 1));
    cpio.entry("dev/mem", 0o020600, &[], (1, 1));
    cpio.entry("init", 0o100755, &binary, (0, 0));
    for (name, content) in files {
        cpio.entry(name, 0o100644, content, (0, 0));
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
        let archive = archive(&init, &[("program", b"12345"), ("settings", b"")]).unwrap();
        let file = directory.path().join("a.cpio");
        std::fs::write(&file, archive).unwrap();
        let script = "cd \"$1\" && cpio -idm --quiet --no-absolute-filenames init program settings dev < a.cpio && \
            cat program";
        let output = Command::new("sh").args(["-c", script, "sh"]).arg(directory.path()).output().unwrap();
        assert_eq!(output.stdout, b"12345", "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(directory.path().join("init")).unwrap(), b"#!init");
    }
}
