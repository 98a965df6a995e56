//! Who may do what in a folder at the same time? Locks of the system, which end with their process however it ends.
//!
//! | lock | held by | while |
//! |---|---|---|
//! | `.work/lock`, shared | every coordinator | it works |
//! | `.work/lock`, alone | who recovers or compacts | nobody else works |
//! | a byte of `.work/claims` | a coordinator | it makes the run whose key begins with that number |

use crate::error::SweepError;
use crate::key::Key;
use schedlab_stdx::lock;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Mutex;

fn open(path: &Path) -> Result<File, SweepError> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    file.map_err(SweepError::io("open", path))
}

/// The folder's lock.
pub(crate) struct FolderLock {
    file: File,
    path: std::path::PathBuf,
}

impl FolderLock {
    pub(crate) fn new(work: &Path) -> Result<FolderLock, SweepError> {
        let path = work.join("lock");
        Ok(FolderLock { file: open(&path)?, path })
    }

    /// Waits until nobody recovers or compacts.
    pub(crate) fn share(&self) -> Result<(), SweepError> {
        self.file.lock_shared().map_err(SweepError::io("lock", &self.path))
    }

    /// Alone; `false`: others are at work. The shared lock is gone in any case.
    pub(crate) fn try_alone(&self) -> Result<bool, SweepError> {
        self.file.unlock().map_err(SweepError::io("unlock", &self.path))?;
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(SweepError::io("lock", &self.path)(error)),
        }
    }

    pub(crate) fn release(&self) {
        let _ = self.file.unlock(); // (it ends with the file in any case)
    }
}

/// Runs that are being made.
pub(crate) struct Claims {
    file: File,
    path: std::path::PathBuf,
    /// Locks are the process's: its threads look here.
    ours: Mutex<BTreeSet<i64>>,
}

impl Claims {
    pub(crate) fn new(work: &Path) -> Result<Claims, SweepError> {
        let path = work.join("claims");
        Ok(Claims { file: open(&path)?, path, ours: Mutex::default() })
    }

    fn byte(key: Key) -> i64 {
        (key.number() >> 2) as i64 // below 2^62, as offsets must be
    }

    fn set(&self, byte: i64, kind: libc::c_int) -> std::io::Result<()> {
        // SAFETY: a struct of integers, for which zero is a value.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        (lock.l_start, lock.l_len) = (byte, 1);
        // SAFETY: the descriptor is open, and the struct lives until the call returns.
        match unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Whether the run is now this caller's to make; `false`: somebody makes it.
    pub(crate) fn take(&self, key: Key) -> Result<bool, SweepError> {
        let byte = Claims::byte(key);
        let mut ours = lock(&self.ours);
        if !ours.insert(byte) {
            return Ok(false);
        }
        match self.set(byte, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(error) => {
                ours.remove(&byte);
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EACCES) => Ok(false),
                    _ => Err(SweepError::io("lock a run in", &self.path)(error)),
                }
            }
        }
    }

    /// It is made, or nobody makes it after all.
    pub(crate) fn give_up(&self, key: Key) {
        let byte = Claims::byte(key);
        let mut ours = lock(&self.ours);
        let _ = self.set(byte, libc::F_UNLCK); // (it ends with the file in any case)
        ours.remove(&byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_made_by_one_and_the_folder_is_one_s_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (Claims::new(folder.path()).unwrap(), Claims::new(folder.path()).unwrap());
        let (key, next) = (Key([7; 32]), Key([8; 32]));
        assert!(one.take(key).unwrap() && !one.take(key).unwrap() && !other.take(key).unwrap());
        assert!(other.take(next).unwrap());
        one.give_up(key);
        assert!(other.take(key).unwrap());
        drop(other);
        assert!(one.take(key).unwrap() && one.take(next).unwrap(), "locks end with who held them");

        let (a, b) = (FolderLock::new(folder.path()).unwrap(), FolderLock::new(folder.path()).unwrap());
        a.share().unwrap();
        b.share().unwrap();
        assert!(!a.try_alone().unwrap());
        b.release();
        assert!(a.try_alone().unwrap());
    }
}
