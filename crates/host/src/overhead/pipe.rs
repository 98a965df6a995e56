//! A byte from one thread to another, by a pipe: as plain as waking and blocking can be.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::HostError;

/// The two ends.
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    pub(super) fn new() -> Result<Pipe, HostError> {
        let mut fds = [0; 2];
        // SAFETY: pipe2 fills the two descriptors, which then belong to the two owners made here.
        unsafe {
            if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return Err(HostError::last_os("cannot make a pipe"));
            }
            Ok(Pipe { read: OwnedFd::from_raw_fd(fds[0]), write: OwnedFd::from_raw_fd(fds[1]) })
        }
    }

    /// Sends a byte.
    pub(super) fn put(&self) {
        let byte = 1u8;
        // SAFETY: one byte of a local. A pipe with a byte or two in it never refuses another.
        unsafe { libc::write(self.write.as_raw_fd(), (&raw const byte).cast(), 1) };
    }

    /// Waits for one.
    pub(super) fn get(&self) {
        let mut byte = 0u8;
        // SAFETY: one byte into a local; interrupted reads are begun again.
        while unsafe { libc::read(self.read.as_raw_fd(), (&raw mut byte).cast(), 1) } < 0 {}
    }
}
