//! A file's bytes, mapped into memory, or bytes that are there already.

use crate::error::Problem;
use std::fs::File;
use std::path::Path;

/// Where a trace's bytes are.
pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a regular file. It must not be shortened while it is open (the system would end the process with SIGBUS).
    pub fn open(path: &Path) -> Result<Bytes, Problem> {
        let file = File::open(path).map_err(Problem::Io)?;
        let metadata = file.metadata().map_err(Problem::Io)?;
        if !metadata.is_file() {
            let error = std::io::Error::other("not a regular file; a trace is read from a file on disk");
            return Err(Problem::Io(error));
        }
        if metadata.len() == 0 {
            return Ok(Bytes::Owned(Vec::new()));
        }
        // SAFETY: the map is only read, and as plain bytes; that the file is not shortened meanwhile is the caller's
        // part, as documented where traces are opened.
        unsafe { memmap2::Mmap::map(&file) }.map(Bytes::Mapped).map_err(Problem::Io)
    }

    /// Lets the system take back the memory of what was read so far; what is read again comes from the file again.
    pub fn give_back(&self) {
        if let Bytes::Mapped(map) = self {
            // SAFETY: the map is of a file and never written, so that dropped pages come back with the file's content.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}
