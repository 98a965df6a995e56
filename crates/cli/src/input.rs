//! What can W be? A workload file, a trace, or a folder with one of them.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_workload::Workload;
use std::path::{Path, PathBuf};

/// A workload with what reports say of it.
pub(crate) struct Loaded {
    pub workload: Workload,
    /// For titles.
    pub name: String,
    /// Facts worth a line each.
    pub notes: Vec<String>,
    /// The file it came from.
    pub path: PathBuf,
}

/// Names looked for in a folder, in this order.
const IN_FOLDER: [&str; 3] = ["trace.dat", "workload.txt", "workload.wlb"];

/// Loads a workload; a trace is imported on the fly.
pub(crate) fn load(path: &Path, ui: &Ui) -> Result<Loaded> {
    let step = ui.step(format!("loading {}", path.display()));
    let file = resolve(path)?;
    let workload = {
        let bytes = std::fs::read(&file).map_err(Failure::input)?;
        schedlab_workload::read_text(&file.display().to_string(), &bytes).map_err(Failure::input)?
    };
    drop(step);
    Ok(Loaded { workload, name: path.display().to_string(), notes: Vec::new(), path: file })
}

/// The file behind W.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let found: Vec<PathBuf> = IN_FOLDER.iter().map(|name| path.join(name)).filter(|file| file.is_file()).collect();
    match found.first() {
        Some(file) => Ok(file.clone()),
        None => Err(Failure::Input(format!(
            "{}: the folder holds no workload; expected one of {}",
            path.display(),
            IN_FOLDER.join(", ")
        ))),
    }
}
