//! Where are kernels, initial file systems and finished runs kept? Under one directory, each by a name that
//! says what is in it.

use crate::RealError;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// `$SCHEDLAB_CACHE/guest`, else `~/.cache/schedlab/guest`.
pub fn directory() -> PathBuf {
    let root = std::env::var_os("SCHEDLAB_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
        home.join(".cache/schedlab")
    });
    root.join("guest")
}

pub(crate) fn make(path: &Path) -> Result<(), RealError> {
    fs::create_dir_all(path).map_err(RealError::io("make the directory", path))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of `parts`, each with its length before it.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(hash.finalize().as_slice())
}

/// SHA-256 of a file.
pub(crate) fn file_sum(path: &Path) -> Result<String, RealError> {
    let bytes = fs::read(path).map_err(RealError::io("read", path))?;
    Ok(hex(Sha256::digest(&bytes).as_slice()))
}

/// Writes a file of the cache, which is there whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), RealError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    make(directory)?;
    schedlab_stdx::aside::write(path, bytes).map_err(RealError::io("write", path))
}
