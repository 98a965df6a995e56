//! How much may a file ask for? Every limit that a reader keeps stands here, with its reason, and in one table
//! (docs/results.md) for users; a test compares the two. What a *workload* may expand to, whatever its form is,
//! stands in `schedlab_workload::limits`, which uses these.
//!
//! A reader looks at what a file *makes*, not at how long it is: `1 INIT 0 0 1..4000000000` is one line. What is
//! read whole is read by [`read_bytes`] or [`read_text`], which stop at the limit: a pipe or a device has no length.
//!
//! ```
//! use schedlab_stdx::limits::{TOML_BYTES_MAX, read_text};
//! let path = std::env::temp_dir().join(format!("schedlab-limits-{}.toml", std::process::id()));
//! std::fs::write(&path, "cpus = 4\n").unwrap();
//! assert_eq!(read_text(&path, TOML_BYTES_MAX).unwrap(), "cpus = 4\n");
//! let error = read_text(&path, 8).unwrap_err();
//! assert_eq!(error.to_string(), "9 bytes; such a file may have 8: divide it");
//! std::fs::remove_file(&path).unwrap();
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// TOML that people write (a mix, a generator's settings, a plan, costs), in bytes: some 50,000 parts of a mix.
pub const TOML_BYTES_MAX: u64 = 4 << 20;
/// A description for rt-app, in bytes of JSON.
pub const JSON_BYTES_MAX: u64 = 64 << 20;
/// Lists and objects within each other in a description for rt-app.
pub const JSON_DEPTH_MAX: u32 = 64;
/// A snapshot of `/proc` beside a recording, in bytes of CSV: some two million threads.
pub const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;
/// A file of a machine's folder (like `/sys`), in bytes: the kernel's own have a page.
pub const SYSFS_BYTES_MAX: u64 = 1 << 20;
/// Source that is compiled here (a scheduler in BPF C, a target of `race`, a litmus test), in bytes: the longest
/// file of the kernel's scheduler has 0.4 MiB.
pub const SOURCE_BYTES_MAX: u64 = 16 << 20;
/// A scenario or a schedule of `race`, in bytes: a schedule has some 10 bytes for each of its choices.
pub const RACE_BYTES_MAX: u64 = 64 << 20;
/// A line of a workload's text, in bytes.
pub const LINE_BYTES_MAX: u64 = 16 << 20;
/// A line of a log's text, in bytes: a task's name can have any length.
pub const LOG_LINE_BYTES_MAX: u64 = 1 << 20;
/// Records of a log: 1,000 million, 32 GB. Readers let them pass by, at some 0.1 us each.
pub const LOG_RECORDS_MAX: u64 = 1_000_000_000;
/// Tasks, groups and the like in a log's header, each line of it one: 4 million.
pub const LOG_HEADER_LINES_MAX: u64 = 4_000_000;
/// Events of a recording, after it was unpacked: two hours of a kernel that is compiled on two CPUs. The longest
/// read takes a minute. A packed file has up to a thousand times as many as its length tells.
pub const RECORDING_EVENTS_MAX: u64 = 200_000_000;
/// A recording's file, in bytes: as many events as may be, in the longest form (a text). Where a text has no lines, or
/// none of events, nothing else ends the search for one.
pub const RECORDING_BYTES_MAX: u64 = 64 << 30;
/// Bytes that one packed part of a recording (a section, a packet) unpacks to.
pub const UNPACKED_BYTES_MAX: u64 = 64 << 20;
/// Packets with events in a Perfetto trace: each is remembered, in 24 bytes.
pub const PACKETS_MAX: usize = 50_000_000;

/// Reads a file whole that should be small, up to `bytes_max`.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] for a longer one, with its length, the limit and what to do.
pub fn read_bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path)?;
    let stated = file.metadata()?.len();
    // a pipe states no length: what comes is counted
    let got = match stated > bytes_max {
        true => stated,
        false => file.take(bytes_max + 1).read_to_end(&mut text)? as u64,
    };
    if got > bytes_max {
        let message = format!("{got} bytes; such a file may have {bytes_max}: divide it");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// As [`read_bytes`], a text.
///
/// # Errors
/// As [`read_bytes`]; text that is not UTF-8 is [`io::ErrorKind::InvalidData`].
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read_bytes(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// As [`read_text`], a file of TOML, up to [`TOML_BYTES_MAX`].
///
/// # Errors
/// As [`read_text`].
pub fn read_toml(path: &Path) -> io::Result<String> {
    read_text(path, TOML_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the limit all is well; one beyond says what, how much, and what to do. A device that never ends is read up
    /// to the limit, and a file of a terabyte not at all.
    #[test]
    fn files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_bytes(&path, 5).unwrap(), b"12345");
        let error = read_bytes(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "5 bytes; such a file may have 4: divide it");
        let error = read_bytes(Path::new("/dev/zero"), 4096).unwrap_err();
        assert_eq!(error.to_string(), "4097 bytes; such a file may have 4096: divide it");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_text(&path, TOML_BYTES_MAX).unwrap_err();
        assert_eq!(error.to_string(), "1099511627776 bytes; such a file may have 4194304: divide it");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_toml(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
