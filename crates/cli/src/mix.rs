//! TOML files as workloads: mixes of several, and settings of a generator.

use crate::failure::{Failure, Result};
use crate::input::{self, Loaded};
use crate::ui::Ui;
use schedlab_trace::Mode;
use schedlab_workload::derive::DeriveOptions;
use schedlab_workload::generate::Spec;
use schedlab_workload::limits::{MIX_DEPTH_MAX, MIX_FILES_MAX, read_toml};
use schedlab_workload::mix::Mix;
use std::path::{Path, PathBuf};

/// How a damaged trace is taken, and the mixes that are being loaded, outermost first.
pub(crate) struct Within<'a> {
    pub mode: Mode,
    /// How a trace is understood.
    pub options: DeriveOptions,
    pub above: Vec<PathBuf>,
    /// Files read so far.
    pub files: usize,
    pub ui: &'a Ui,
}

/// Loads the workload that a TOML file describes.
pub(crate) fn load(path: &Path, name: String, within: &mut Within<'_>) -> Result<Loaded> {
    let text = read_toml(path)
        .map_err(|error| Failure::Input(format!("{}: cannot be read: {error}", path.display())))?;
    let mut loaded = Loaded {
        workload: Default::default(),
        name,
        notes: Vec::new(),
        path: path.to_path_buf(),
        derived: None,
        duration: None,
        format: None,
    };
    if Spec::is_spec(&text) {
        let spec = Spec::from_toml(&path.display().to_string(), &text).map_err(Failure::input)?;
        loaded.workload =
            spec.build().map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
        return Ok(loaded);
    }
    let here = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if within.above.len() == MIX_DEPTH_MAX {
        return Err(Failure::Input(format!(
            "{}: mixes are nested {} deep; at most {MIX_DEPTH_MAX}: name the workloads of an inner one directly",
            path.display(),
            MIX_DEPTH_MAX + 1
        )));
    }
    within.above.push(here);
    let mix = Mix::parse(path, &text).map_err(Failure::input)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    loaded.workload = mix.build(&mut |part| load_part(&folder.join(part), within)).map_err(Failure::input)?;
    loaded.duration = mix.duration;
    within.above.pop();
    Ok(loaded)
}

fn load_part(
    path: &Path,
    within: &mut Within<'_>,
) -> std::result::Result<schedlab_workload::Workload, String> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if within.above.contains(&whole) {
        return Err("this mix is being read already: mixes must not name each other in a circle".to_string());
    }
    if within.files == MIX_FILES_MAX {
        return Err(format!(
            "this is one file more than the {MIX_FILES_MAX} that a mix may read, with those within it"
        ));
    }
    within.files += 1;
    match input::load_within(path, within) {
        Ok(loaded) => Ok(loaded.workload),
        Err(failure) => Err(failure.sentence().to_string()),
    }
}

/// Several workloads at once, as they are.
pub(crate) fn load_several(paths: &[PathBuf], ui: &Ui) -> Result<Loaded> {
    let mut within =
        Within { mode: Mode::Strict, options: DeriveOptions::default(), above: Vec::new(), files: 0, ui };
    let mut names = Vec::new();
    let mix = Mix::of(paths);
    let workload = mix
        .build(&mut |path| {
            names.push(input::title(path));
            load_part(path, &mut within)
        })
        .map_err(Failure::input)?;
    let name = names.join(" + ");
    Ok(Loaded {
        workload,
        name,
        notes: Vec::new(),
        path: paths[0].clone(),
        derived: None,
        duration: None,
        format: None,
    })
}
