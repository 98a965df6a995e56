//! What keeps a result from the moment it is there? A journal, until its rows are Parquet.
//!
//! ```text
//! .work/journal/1f3a-0002      length crc key outcome   length crc key outcome   length cr▒     killed here
//! ```
//!
//! A result is one write at the end of the file. Whoever reads takes whole entries only; a torn one at the end is as
//! if it had never been. A journal belongs to one process, which alone writes it; others read along.

use crate::error::SweepError;
use crate::key::Key;
use crate::row::SweptRun;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Length and checksum, four bytes each; then the key.
const HEAD: usize = 8;
const KEY: usize = 32;
/// An entry is never longer: some hundred thousand tasks.
const ENTRY_MAX: usize = 1 << 30;

/// A journal that this process writes.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Journal {
    /// A new one; there is none of this name.
    pub(crate) fn create(path: PathBuf) -> Result<Journal, SweepError> {
        let file = File::options().append(true).create_new(true).open(&path);
        let file = file.map_err(SweepError::io("create", &path))?;
        Ok(Journal { file, path, length: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All of it, or nothing. Gives its bytes.
    pub(crate) fn append(&mut self, outcome: &SweptRun) -> Result<usize, SweepError> {
        let body = outcome.to_bytes();
        let mut entry = Vec::with_capacity(HEAD + KEY + body.len());
        entry.extend(((KEY + body.len()) as u32).to_le_bytes());
        entry.extend([0; 4]);
        entry.extend(outcome.key().0);
        entry.extend(&body);
        let crc = crc32fast::hash(&entry[HEAD..]);
        entry[4..HEAD].copy_from_slice(&crc.to_le_bytes());
        let written = self.file.write_all(&entry);
        if let Err(error) = written {
            // what came of it is cut off; if even that fails, readers see a torn end
            let _ = self.file.set_len(self.length);
            return Err(SweepError::io("write", &self.path)(error));
        }
        self.length += entry.len() as u64;
        Ok(entry.len())
    }
}

/// Reads entries from `offset` on; `each` hears key and the outcome's bytes. Gives where whole entries end.
pub(crate) fn read(
    path: &Path,
    offset: u64,
    mut each: impl FnMut(Key, &[u8]) -> Result<(), SweepError>,
) -> Result<u64, SweepError> {
    let fail = |error| SweepError::io("read", path)(error);
    let file = match File::open(path) {
        Ok(file) => file,
        // it has become Parquet meanwhile
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(offset),
        Err(error) => return Err(fail(error)),
    };
    let length = file.metadata().map_err(fail)?.len();
    let mut at = offset;
    let mut entry = Vec::new();
    while length >= at + (HEAD + KEY) as u64 {
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, at).map_err(fail)?;
        let body = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
        let end = at + (HEAD + body) as u64;
        if !(KEY..=ENTRY_MAX).contains(&body) || end > length {
            break;
        }
        entry.resize(body, 0);
        file.read_exact_at(&mut entry, at + HEAD as u64).map_err(fail)?;
        if crc32fast::hash(&entry).to_le_bytes() != head[4..] {
            break;
        }
        let key = Key(entry[..KEY].try_into().expect("32 bytes"));
        each(key, &entry[KEY..])?;
        at = end;
    }
    Ok(at)
}

/// All outcomes of a journal.
pub(crate) fn outcomes(path: &Path) -> Result<Vec<SweptRun>, SweepError> {
    let mut all = Vec::new();
    read(path, 0, |_, bytes| {
        all.push(SweptRun::from_bytes(bytes).map_err(SweepError::damaged(path))?);
        Ok(())
    })?;
    Ok(all)
}
