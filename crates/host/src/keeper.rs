//! Who removes a recording's settings from the kernel if the recorder is killed?
//!
//! A tracing instance outlives its maker. So a second process waits at a line to the recorder: the line ends however
//! the recorder does, and then the keeper removes the instance, if it is still there.
//!
//! ```text
//! recorder (pid 812)  ──socket── keeper       kill -9 812: the keeper reads the line's end,
//!     │ makes instances/schedlab.812...       writes 0 to tracing_on, and removes the folder
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use schedlab_process::Started;

use crate::tracefs::write_control;

schedlab_process::entrance! {
    static KEEPER = ("tracing-keeper", keep);
}

/// How often, and how long apart, a folder that is in use is tried again: a killed process closes its files first.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(10);

/// A process that removes an instance when this one ends.
#[derive(Debug)]
pub(crate) struct Keeper(Started);

impl Keeper {
    /// Starts it for this folder; `None`: the system refuses, and the next recording removes what is left.
    pub(crate) fn of(instance: &Path) -> Option<Keeper> {
        let mut started = KEEPER.start().ok()?;
        let path = instance.as_os_str().as_bytes();
        let length = u32::try_from(path.len()).ok()?.to_le_bytes();
        started.socket.write_all(&[&length[..], path].concat()).ok()?;
        Some(Keeper(started))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.socket.shutdown(Shutdown::Both);
        let _ = self.0.child.wait();
    }
}

/// The keeper's whole life.
fn keep(mut line: UnixStream) {
    let mut length = [0; 4];
    if line.read_exact(&mut length).is_err() {
        return;
    }
    let mut path = vec![0; (u32::from_le_bytes(length) as usize).min(libc::PATH_MAX as usize)];
    if line.read_exact(&mut path).is_err() {
        return;
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
    // nothing more is said: this returns when the recorder has ended
    let _ = line.read(&mut [0]);
    let _ = remove(&path);
}

/// Removes an instance, with every setting in it.
///
/// # Errors
/// The system's; EBUSY while one of its files is open.
pub(crate) fn remove(instance: &Path) -> io::Result<()> {
    // Stop the events first: the kernel may refuse for a moment while a reader's last file is being closed.
    let _ = write_control(&instance.join("tracing_on"), "0");
    let _ = write_control(&instance.join("events/enable"), "0");
    let mut result = fs::remove_dir(instance);
    for _ in 0..TRIES {
        match &result {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                thread::sleep(APART);
                result = fs::remove_dir(instance);
            }
            _ => break,
        }
    }
    result
}
