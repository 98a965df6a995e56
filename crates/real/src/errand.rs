//! What does a program of this machine say in a guest? Boots a real kernel with this very executable in its file
//! system, runs it there, and brings back the files that it wrote.
//!
//! ```text
//!   this executable, its libraries, a shell ──> initramfs ──> QEMU ──> /init: fork, exec, wait, per command
//!   files of /out, what was said, how it ended <──debug console── frames
//! ```
//!
//! The executable is the one that runs now, byte for byte. If it is linked dynamically, the libraries that it has
//! loaded and its loader come along, at the places where it found them.

use crate::initramfs::Content;
use crate::{GuestKernel, Options, RealError, RunStage, frames, qemu};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the executable stands in the guest.
const PROGRAM: &str = "schedlab";

/// What an errand brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// `/proc/version` of the guest.
    pub kernel: String,
    /// Per command, what it printed and its exit status (128 and the signal's number if a signal ended it).
    pub said: Vec<(String, i32)>,
    /// The files below `/out` that the commands wrote, by their path below it.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Host time QEMU took, in ms; 0 if it came from the cache.
    pub wall_ms: u64,
}

/// Runs this executable in a guest with each of these lists of words, one after the other. A command finds folders
/// `/tmp` and `/out`, `/proc`, `/sys`, tracefs, and a shell if this machine has one. `options.duration` says nothing.
///
/// # Errors
/// See [`RealError`].
pub fn errand(
    kernel: &GuestKernel,
    commands: &[Vec<String>],
    options: &Options,
    progress: &mut dyn FnMut(RunStage),
) -> Result<Returned, RealError> {
    options.check()?;
    progress(RunStage::Preparing);
    let lines = commands.iter().map(|words| format!("/{PROGRAM}\t{}\n", words.join("\t")));
    let lines: String = lines.collect();
    if let Some(odd) = commands.iter().flatten().find(|word| word.is_empty() || word.contains(['\t', '\n'])) {
        return Err(RealError::Unsupported {
            what: "a word of a command in a guest".into(),
            value: format!("'{odd}'"),
            expected: "words that are not empty, without tabs and line ends".into(),
        });
    }
    let this = std::env::current_exe().map_err(RealError::io("find", Path::new("/proc/self/exe")))?;
    let mut programs = vec![(PROGRAM.to_string(), read(&this)?)];
    for path in libraries() {
        let name = path.display().to_string();
        programs.push((name.trim_start_matches('/').to_string(), read(&path)?));
    }
    let mut files: Vec<Content<'_>> =
        programs.iter().map(|(path, bytes)| Content { path, bytes, is_program: true }).collect();
    files.push(Content::data("commands", lines.as_bytes()));
    let guest = qemu::Guest::on_errand(kernel, options, &files)?;
    let output = guest.output(options, progress)?;
    let mut frames = frames::parse(&output.bytes)?;
    let kernel = frames.text("/proc/version")?.trim().to_string();
    let mut said = Vec::new();
    for number in 0..commands.len() {
        let status = frames.text(&format!("/out/{number}.status"))?;
        let words = frames.text(&format!("/out/{number}.said")).unwrap_or_default();
        said.push((words, status.trim().parse().unwrap_or(-1)));
    }
    let own = std::mem::take(&mut frames.files).into_iter();
    let files = own.filter_map(|(path, bytes)| Some((path.strip_prefix("/out/")?.to_string(), bytes)));
    Ok(Returned { kernel, said, files: files.collect(), wall_ms: output.wall_ms })
}

fn read(path: &Path) -> Result<Vec<u8>, RealError> {
    std::fs::read(path).map_err(RealError::io("read", path))
}

/// What this process has loaded, by the places where a loader looks; and a shell, which needs none but the C library.
fn libraries() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.starts_with('/') && path.contains(".so"))
        .map(PathBuf::from)
        .collect();
    paths.sort();
    paths.dedup();
    // the loader is named by the executable, not found
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if paths.iter().any(|path| path.file_name() == loader.file_name()) {
        paths.push(loader.to_path_buf());
    }
    paths.extend([PathBuf::from("/bin/sh")].into_iter().filter(|path| path.is_file()));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_comes_with_its_libraries() {
        let found = libraries();
        let has = |name: &str| found.iter().any(|path| path.display().to_string().contains(name));
        assert_eq!(has("libc.so.6"), has("/lib64/ld-linux-x86-64.so.2"), "{found:?}");
    }

    #[test]
    fn words_that_would_be_two_are_refused() {
        let kernel = GuestKernel {
            image: PathBuf::new(),
            package: String::new(),
            version: String::new(),
            sha256: String::new(),
            hz: 250,
        };
        let odd = [vec!["run\t-n".to_string()]];
        let error = errand(&kernel, &odd, &Options::default(), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("without tabs"), "{error}");
    }
}
