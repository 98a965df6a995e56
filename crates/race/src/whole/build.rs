//! How does one come by a kernel with points, as it is or with a bug?
//!
//! One tree serves all, so that a bug costs the compilation of one file: a copy of kernel/sched beside links to the
//! packaged source ([`BugTree`]). What was built is kept under a checksum of all that went into it.
//!
//! ```text
//! ~/.cache/schedlab/linux/bugs/6.12                the tree; without a bug byte for byte the package's
//! ~/.cache/.../6.12-hz250-.../race/linux+race-<key>.so          as it is
//! ~/.cache/.../6.12-hz250-.../race/linux+race-on-cpu-<key>.so   with the bug 'on-cpu'
//! ~/.cache/.../6.12-hz250-.../race/linux+race-on-cpu-<key>.src  the files that it changes, for stories
//! ```

use std::fs;
use std::path::Path;

use schedlab_linux::bugs::{BugTree, Edit, edited_by};
use schedlab_linux::{BuildError, BuildOptions, BuiltKernel, build};

use crate::compile::{Compiled, keep_sources, own_sources, sum, sum_of_file};
use crate::seeded::Seeded;
use crate::{RaceError, io};

/// The flavour that a whole scheduler needs.
pub const FLAVOUR: &str = "race";

fn refused(error: impl std::fmt::Display) -> RaceError {
    RaceError::Refused(error.to_string())
}

/// A packaged kernel's whole scheduler with points. `packaged`: the same kernel without; `flavours`: what else it is
/// to have. `build_tree` builds a tree with options, and says how far it is.
///
/// # Errors
/// An edit's old text is not there exactly once; the build fails.
pub fn packaged(
    packaged: &BuiltKernel,
    flavours: &[String],
    seeded: Option<&Seeded>,
    build_tree: &mut dyn FnMut(&Path, &BuildOptions) -> Result<BuiltKernel, BuildError>,
) -> Result<Compiled, RaceError> {
    let mut flavours = flavours.to_vec();
    flavours.retain(|flavour| flavour != FLAVOUR);
    flavours.push(FLAVOUR.to_owned());
    let edits: Vec<Edit> = seeded.map_or_else(Vec::new, |seeded| seeded.edits.clone());
    let mut inputs = vec![packaged.key.clone().into_bytes()];
    for known in build::flavours()?.iter().filter(|known| flavours.contains(&known.name)) {
        inputs.push(fs::read(&known.path).map_err(io("read", &known.path))?);
    }
    inputs.extend(edits.iter().flat_map(|e| [&e.file, &e.old, &e.new]).map(|text| text.clone().into_bytes()));
    let key = sum(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let dir = packaged.dir.join("race");
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let name = seeded.map(|seeded| format!("-{}", seeded.file_name())).unwrap_or_default();
    let object = dir.join(format!("linux+{}{name}-{}.so", flavours.join("+"), &key[..12]));
    // the one tree has other files for the next bug
    let edited =
        edited_by(seeded.map_or("no bug", |s| &s.name), &edits, &packaged.source).map_err(refused)?;
    keep_sources(&object, &edited)?;
    // several runs may want bugs at the same time: one builds after the other
    let tree = if object.is_file() { None } else { Some(BugTree::wait(packaged).map_err(refused)?) };
    if let Some(tree) = tree.filter(|_| !object.is_file()) {
        tree.put(seeded.map_or("no bug", |seeded| &seeded.name), &edits).map_err(refused)?;
        let options = BuildOptions { flavours: flavours.clone(), ..packaged.options() };
        let built = build_tree(tree.path(), &options)?;
        let aside = object.with_extension("so.new");
        fs::copy(built.object(), &aside).map_err(io("write", &aside))?;
        fs::rename(&aside, &object).map_err(io("write", &object))?;
    }
    let others: String = flavours.iter().filter(|f| *f != FLAVOUR).map(|f| format!("+{f}")).collect();
    Ok(Compiled {
        name: format!("{}{}{others}", super::PREFIX, packaged.series),
        sources: vec![own_sources(&object), packaged.dir.join("src")],
        object,
        key: key[..16].to_owned(),
        kernel: (packaged.series.clone(), packaged.version.clone()),
        source: ("kernel/sched".to_owned(), packaged.tarball_sha256.clone()),
        seeded: seeded.cloned(),
        defines: Vec::new(),
        keep: None,
    })
}

/// The whole scheduler of a kernel that was built with points: a tree or tarball of the user's.
///
/// # Errors
/// Its object cannot be read.
pub fn named(kernel: &BuiltKernel) -> Result<Compiled, RaceError> {
    let object = kernel.object();
    let bytes = fs::read(&object).map_err(io("read", &object))?;
    let others: String = kernel.flavours.iter().filter(|f| *f != FLAVOUR).map(|f| format!("+{f}")).collect();
    Ok(Compiled {
        name: format!("{}{}{others}", super::PREFIX, kernel.series),
        key: sum_of_file(&bytes)[..16].to_owned(),
        object,
        kernel: (kernel.series.clone(), kernel.version.clone()),
        source: ("kernel/sched".to_owned(), kernel.tarball_sha256.clone()),
        seeded: None,
        defines: Vec::new(),
        sources: Vec::new(),
        keep: None,
    })
}
