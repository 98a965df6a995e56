//! Where are the project's own files, such as its samples?

use std::path::{Path, PathBuf};

/// A file of the project: from the working directory or the program upwards.
pub(crate) fn project_file(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let working = std::env::current_dir().ok();
    let starts = [working.as_deref(), program.as_deref()];
    let found = starts
        .into_iter()
        .flatten()
        .flat_map(Path::ancestors)
        .map(|folder| folder.join(name))
        .find(|p| p.exists())?;
    let relative = working.and_then(|folder| found.strip_prefix(folder).ok().map(Path::to_path_buf));
    Some(relative.map_or(found.clone(), |short| Path::new(".").join(short)))
}
