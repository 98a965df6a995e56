//! Where are the project's own files, such as its samples?

use std::path::{Path, PathBuf};

/// A file of the project: from the working directory, the program or this crate upwards. (In an installed package the
/// files lie above the program, too. A library inside a foreign executable has named its own program.)
pub(crate) fn project_file(name: &str) -> Option<PathBuf> {
    let program = schedlab_process::program().or_else(|| std::env::current_exe().ok());
    let working = std::env::current_dir().ok();
    // a program of one's own lies elsewhere: the crate that it was built from is the project's; an installed package
    // has its own files, and takes none from a checkout
    let is_project = |folder: &Path| folder.join("linux/arch-warp").is_dir();
    let near = [working.as_deref(), program.as_deref()];
    let is_near = near.into_iter().flatten().flat_map(Path::ancestors).any(is_project);
    let crate_folder = (!is_near).then(|| Path::new(env!("CARGO_MANIFEST_DIR")));
    let starts = [working.as_deref(), program.as_deref(), crate_folder];
    let found = starts
        .into_iter()
        .flatten()
        .flat_map(Path::ancestors)
        .map(|folder| folder.join(name))
        .find(|p| p.exists())?;
    let relative = working.and_then(|folder| found.strip_prefix(folder).ok().map(Path::to_path_buf));
    Some(relative.map_or(found.clone(), |short| Path::new(".").join(short)))
}
