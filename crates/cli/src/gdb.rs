//! gdb as a command, for whoever opens one.

use crate::failure::{Failure, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// gdb in PATH.
pub(crate) fn program() -> Result<PathBuf> {
    std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|d| d.join("gdb")).find(|p| p.is_file()))
        .ok_or_else(|| Failure::Input("gdb is not found in PATH; on Debian: apt-get install gdb".into()))
}

/// It asks for nothing, loads no scripts of others, and shows what its commands say.
pub(crate) fn command(gdb: &Path, batch: bool) -> Command {
    let mut command = Command::new(gdb);
    command.arg("-q").arg("-iex").arg("set auto-load no");
    if batch {
        command.arg("-batch");
    }
    // before it reads a program or attaches to one
    for setting in [
        "set confirm off",
        "set pagination off",
        "set debuginfod enabled off",
        "set breakpoint pending on",
        "set print thread-events off",
        "set print inferior-events off",
    ] {
        command.args([OsStr::new("-iex"), OsStr::new(setting)]);
    }
    command
}

/// How it ended.
pub(crate) fn ended(status: std::io::Result<ExitStatus>) -> Result<()> {
    let status = status.map_err(|e| Failure::Input(format!("gdb cannot be started: {e}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Input(format!("gdb ended with {status}"))),
    }
}
