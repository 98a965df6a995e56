//! Who removes a recording's settings from the kernel if the recorder is killed?
//!
//! A tracing instance outlives its maker. So a second process waits at a line to the recorder: the line ends however
//! the recorder does, and then the keeper removes the instance, if it is still there.
//!
//! ```text
//! recorder (pid 812)  ──socket── keeper       kill -9 812: the keeper reads the line's end,
//!     │ makes instances/schedlab.812...       writes 0 to tracing_on, and removes the folder
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use schedlab_process::Started;

use crate::tracefs::write_control;

schedlab_process::entrance! {
    static KEEPER = ("tracing-keeper", keep);
}

/// How long a killed recorder may take to close its files.
const PATIENCE: Duration = Duration::from_secs(2);
/// A folder that is in use is tried again after this.
const APART: Duration = Duration::from_millis(10);

/// A process that removes an instance when this one ends.
#[derive(Debug)]
pub(crate) struct Keeper(Started);

impl Keeper {
    /// Starts it for this folder; `None`: the system refuses, and the next recording removes what is left.
    pub(crate) fn of(instance: &Path) -> Option<Keeper> {
        let mut started = KEEPER.start().ok()?;
        started.socket.write_all(instance.as_os_str().as_bytes()).ok()?;
        Some(Keeper(started))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.socket.shutdown(Shutdown::Both);
        let _ = self.0.child.wait();
    }
}

/// The keeper's whole life: the line says the folder, and ends with the recorder.
fn keep(mut line: UnixStream) {
    let mut path = Vec::new();
    if line.read_to_end(&mut path).is_ok() && !path.is_empty() {
        let _ = remove(Path::new(OsStr::from_bytes(&path)), PATIENCE);
    }
}

/// Removes an instance, with every setting in it; tries for so long while it is in use.
///
/// # Errors
/// The system's; EBUSY while one of its files is open.
pub(crate) fn remove(instance: &Path, patience: Duration) -> io::Result<()> {
    // Stop the events first: the kernel may refuse for a moment while a reader's last file is being closed.
    let _ = write_control(&instance.join("tracing_on"), "0");
    let _ = write_control(&instance.join("events/enable"), "0");
    let mut result = fs::remove_dir(instance);
    for _ in 0..patience.as_millis() / APART.as_millis() {
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
