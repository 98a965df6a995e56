//! Does the house keep its rules? Columns, lengths of functions, floors of crates, circles of files, names
//! that nobody uses, sentences.
//!
//! Everything here reads the checkout as text; nothing of the project is run. The rules themselves are in
//! `tests/tidy.rs`.
//!
//! ```text
//!   crates/*/Cargo.toml ──> Manifest ──> floors      a crate stands one above the highest that it needs
//!   crates/*/src/**.rs  ──> SourceFile ──> long lines, long functions, public names, modules that name each other
//! ```
//!
//! A worked number: `units` needs no crate of ours, so its floor is 0; `log` needs `units` alone, so its floor is 1.

mod circles;
mod floors;
mod prose;
mod source;

pub use circles::circles;
pub use floors::{Manifest, drawing, manifests};
pub use prose::{Sentence, sentences};
pub use source::{Function, PublicName, SourceFile, words};

use std::path::{Path, PathBuf};

/// The project's folder.
pub fn root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).expect("this crate lies two folders down").to_path_buf()
}

/// Files below `folder` whose name ends in `ending`, in order of their path; `target` folders are left out.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "target" && name != ".git") {
                    folders.push(path);
                }
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
