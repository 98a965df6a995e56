//! A file's bytes, mapped into memory, or bytes that are there already.

use crate::error::Problem;
use schedlab_stdx::limits::RECORDING_BYTES_MAX;
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
        if metadata.len() > RECORDING_BYTES_MAX {
            return Err(Problem::TooLong { bytes: metadata.len(), limit: RECORDING_BYTES_MAX });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// C1: a file as long as may be is mapped, one byte more is refused. (It takes no room on the disk.)
    #[test]
    fn a_recording_is_as_long_as_may_be() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(RECORDING_BYTES_MAX).unwrap();
        assert_eq!(Bytes::open(file.path()).unwrap().as_slice().len() as u64, RECORDING_BYTES_MAX);
        file.as_file().set_len(RECORDING_BYTES_MAX + 1).unwrap();
        let Err(Problem::TooLong { bytes, limit }) = Bytes::open(file.path()) else { panic!("it was taken") };
        assert_eq!((bytes, limit), (RECORDING_BYTES_MAX + 1, RECORDING_BYTES_MAX));
    }
}
