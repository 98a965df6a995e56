//! Which programs does a build need, and are they here?

use std::path::PathBuf;
use std::process::Command;

use super::BuildError;

/// Program and the Debian package that has it.
const NEEDED: [(&str, &str); 8] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

pub(super) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

pub(super) fn check() -> Result<(), BuildError> {
    let missing: Vec<_> = NEEDED.iter().filter(|(program, _)| in_path(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let join = |pick: fn(&(&'static str, &'static str)) -> &'static str, with: &str| {
        missing.iter().map(|pair| pick(pair)).collect::<Vec<_>>().join(with)
    };
    Err(BuildError::Tools { missing: join(|p| p.0, ", "), packages: join(|p| p.1, " ") })
}

/// `gcc (Debian 12.2.0-14+deb12u1) 12.2.0`
pub(super) fn compiler_version() -> Result<String, BuildError> {
    let output = Command::new("gcc").arg("--version").output().map_err(super::io("run", "gcc".as_ref()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// How many jobs make may run: the CPUs this process may use.
pub(super) fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
