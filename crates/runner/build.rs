//! Which engine is this? A number over the sources of every crate that a run executes, and of all crates from
//! elsewhere: two programs with the same one give the same bytes, and speak the same words to each other.

use std::path::{Path, PathBuf};

/// The crates below the runner, and itself.
const ENGINE: [&str; 11] = [
    "stdx", "units", "trace", "topology", "workload", "log", "machine", "policies", "linux", "process",
    "runner",
];

/// FNV-1a, 64 bits.
fn add(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn main() {
    let crates = Path::new("..");
    let mut found = Vec::new();
    for name in ENGINE {
        let source = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", source.display());
        files(&source, &mut found);
    }
    let lock = crates.join("../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    found.push(lock);
    found.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for path in found {
        add(&mut hash, path.to_string_lossy().as_bytes());
        add(&mut hash, &std::fs::read(&path).unwrap_or_default());
    }
    println!("cargo::rustc-env=SCHEDLAB_ENGINE={hash:016x}");
}
