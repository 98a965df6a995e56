//! Which kernels has the user given: a tree to work on, or a tarball?
//!
//! `schedlab linux add --source ~/linux --name mine` remembers the tree as `mine`; from then on `--sched
//! linux-mine` is that tree as it is at the start of the run. `--sched linux:~/linux` is the same without a
//! name.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::{self, Cache, entries_if_any, hex};
use super::config::{self, Pin};
use super::{
    BuildError, BuildOptions, BuildProgress, BuiltKernel, Origin, Wish, io, make, source, tools, tree,
};

/// A tree or a tarball with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name: `--sched linux-NAME`.
    pub name: String,
    /// A tree or a tarball.
    pub origin: Origin,
    /// Where it is.
    pub path: PathBuf,
}

impl Named {
    /// A tree without a name of its own: named by its path.
    pub fn tree(path: &Path) -> Result<Named, BuildError> {
        let path = fs::canonicalize(path).map_err(io("find", path))?;
        tree::version(&path)?;
        let folder = path.file_name().unwrap_or_default().to_string_lossy();
        let folder: String =
            folder.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        let sum = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
        Ok(Named { name: format!("{folder}_{}", &sum[..6]), origin: Origin::Tree, path })
    }

    /// A tarball, named by the version in its file's name: `linux-6.18.tar.xz` is `6.18.tarball`.
    pub fn tarball(path: &Path) -> Result<Named, BuildError> {
        let path = fs::canonicalize(path).map_err(io("find", path))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = file.split(".tar").next().unwrap_or(&file);
        let stem = stem.strip_prefix("linux-").unwrap_or(stem);
        let name = stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' });
        Ok(Named { name: format!("{}.tarball", name.collect::<String>()), origin: Origin::Tarball, path })
    }

    pub(super) fn read(cache: &Cache, name: &str) -> Result<Option<Named>, BuildError> {
        if check_name(name).is_err() {
            return Ok(None);
        }
        let path = cache.named().join(format!("{name}.toml"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("read", &path)(error)),
        };
        toml::from_str(&text).map(Some).map_err(|e| BuildError::Damaged { path, why: e.to_string() })
    }
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err("it must begin with a letter or digit".into());
    }
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c))) {
        Some(c) => Err(format!("'{c}' is not a letter, digit, dot, hyphen or underscore")),
        None => Ok(()),
    }
}

/// Remember a tree or tarball under its name, in place of what had that name before.
pub fn add_named(named: &Named) -> Result<(), BuildError> {
    let wrong = |why: String| BuildError::Name { name: named.name.clone(), why };
    check_name(&named.name).map_err(wrong)?;
    let port = source::port_dir()?;
    if config::known(&port)?.contains(&named.name) {
        return Err(wrong("it is a version of Debian's; take another".into()));
    }
    let cache = Cache::make()?;
    if Named::read(&cache, &named.name)?.is_some_and(|old| old.path != named.path) {
        // what was built from the other one is not this one's
        let _lock = cache.lock()?;
        cache.remove(&named.name)?;
    }
    let path = cache.named().join(format!("{}.toml", named.name));
    let text =
        toml::to_string(named).map_err(|e| BuildError::Damaged { path: path.clone(), why: e.to_string() })?;
    cache::write_aside(&path, text.as_bytes())
}

/// All trees and tarballs with a name, by name.
pub fn named() -> Result<Vec<Named>, BuildError> {
    let cache = Cache::open()?;
    let mut all = Vec::new();
    for path in entries_if_any(&cache.named())? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        all.extend(Named::read(&cache, &name)?);
    }
    Ok(all)
}

/// Take a configuration fragment of the user's into the cache; returns its name, the file's without `.config`.
pub fn add_fragment(path: &Path) -> Result<String, BuildError> {
    let text = fs::read_to_string(path).map_err(io("read", path))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let wrong = |why: String| BuildError::Name { name: name.clone(), why };
    check_name(&name).map_err(wrong)?;
    if source::port_dir()?.join(format!("configs/flavours/{name}.config")).is_file() {
        return Err(wrong("a flavour of the port has it; rename the file".into()));
    }
    for (number, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
        let off = line.strip_prefix("# CONFIG_").is_some_and(|l| l.ends_with(" is not set"));
        if off
            || !(line.is_empty()
                || line.starts_with('#')
                || line.starts_with("CONFIG_") && line.contains('='))
        {
            let why = format!(
                "line {number}: '{line}' is not CONFIG_NAME=VALUE (what is not named is off; CONFIG_NAME=absent takes \
                    a line of ours away)"
            );
            return Err(BuildError::Damaged { path: path.to_owned(), why });
        }
    }
    cache::write_aside(&Cache::make()?.fragments().join(format!("{name}.config")), text.as_bytes())?;
    Ok(name)
}

/// Build what the name stands for; a tree incrementally.
pub(super) fn build(
    cache: &Cache,
    port: &Path,
    named: &Named,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuiltKernel, BuildError> {
    tools::check()?;
    progress(BuildProgress { step: "finding the source", done: 0, total: 0 });
    match named.origin {
        Origin::Tree => build_tree(cache, port, named, options, progress),
        Origin::Package | Origin::Tarball => {
            let tarball = source::own_tarball(cache, &named.path)?;
            // the version is inside: unpack before the settings are chosen
            let source = source::unpack(cache, &named.name, &tarball, progress)?;
            let pin = Pin::nearest(port, &tree::version(&source)?)?;
            let wanted = config::Wanted::new(port, &cache.fragments(), &pin.series, options)?;
            let wish = Wish { cache, port, name: &named.name, pin: &pin, wanted: &wanted, options };
            wish.build(tarball, Origin::Tarball, progress)
        }
    }
}

/// Build a tree that is not remembered under a name: `--sched linux:DIR`.
pub fn add_tree(
    path: &Path,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuiltKernel, BuildError> {
    build(&Cache::make()?, &source::port_dir()?, &Named::tree(path)?, options, progress)
}

fn build_tree(
    cache: &Cache,
    port: &Path,
    named: &Named,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuiltKernel, BuildError> {
    let started = std::time::Instant::now();
    let version = tree::version(&named.path)?;
    let pin = Pin::nearest(port, &version)?;
    let wanted = config::Wanted::new(port, &cache.fragments(), &pin.series, options)?;
    let compiler = tools::compiler_version()?;
    let path_sum = hex(&Sha256::digest(named.path.as_os_str().as_encoded_bytes()));
    // whatever of ours changes begins anew; what the user edits does not
    let key = cache::key(port, &[&path_sum, wanted.text(), &compiler])?;
    let dir = cache.kernel_dir(&format!("{}-{}-{}", named.name, options.tag(), &key[..12]));
    let _lock = cache.lock_one(&dir.file_name().unwrap_or_default().to_string_lossy(), &mut || {
        progress(BuildProgress { step: "waiting for another build", done: 0, total: 0 });
    })?;
    let tried = config::is_tried(port, &version)?;
    let job = make::Job {
        dir: &dir,
        source: &named.path,
        port,
        wanted: &wanted,
        pin: &pin,
        tried,
        incremental: true,
        is_pinned: false,
    };
    let remarks = with_version(port, &version, &pin, tried, make::build(&job, progress))?;
    let object = cache::sha256_file(&dir.join("linux.so"))?;
    let commit = tree::commit(&named.path).map_or(String::new(), |c| format!("git {c}, "));
    let built = BuiltKernel {
        series: named.name.clone(),
        version: format!("{version} ({commit}object {})", &object[..12]),
        hz: options.hz,
        nr_cpus: options.nr_cpus,
        flavours: options.flavours.clone(),
        origin: Origin::Tree,
        settings: pin.series.clone(),
        remarks,
        tarball_sha256: path_sum,
        tarball: named.path.clone(),
        source: named.path.clone(),
        key,
        compiler,
        build_s: started.elapsed().as_secs(),
        dir: dir.clone(),
    };
    cache::write_kernel(&built)?;
    progress(BuildProgress { step: "done", done: 0, total: 0 });
    Ok(built)
}

/// Say of an untried version that it is one, whether it went well or not.
pub(super) fn with_version(
    port: &Path,
    version: &str,
    pin: &Pin,
    tried: bool,
    result: Result<Vec<String>, BuildError>,
) -> Result<Vec<String>, BuildError> {
    if tried {
        return result;
    }
    let known = config::known(port)?.join(", ");
    match result {
        Ok(mut remarks) => {
            let text = format!(
                "Linux {version} is none of the versions that the port was tried with ({known}); it was built with \
                    the settings of {}",
                pin.series
            );
            remarks.insert(0, text);
            Ok(remarks)
        }
        Err(source) => Err(BuildError::Untried {
            version: version.to_owned(),
            known,
            settings: pin.series.clone(),
            source: Box::new(source),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_file_names() {
        for good in ["mine", "6.18-rc1", "a_b.c"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "../x", ".hidden", "a/b", "a+b", "a b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tarball_is_named_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        for (file, name) in [("linux-6.18.2.tar.xz", "6.18.2.tarball"), ("my tree.tar.gz", "my_tree.tarball")]
        {
            let path = dir.path().join(file);
            fs::write(&path, "").unwrap();
            assert_eq!(Named::tarball(&path).unwrap().name, name);
        }
        // no Makefile at all; a tree's own test has one without kernel/sched
        let message = Named::tree(dir.path()).unwrap_err().to_string();
        assert!(message.contains("is not a Linux source tree"), "{message}");
    }
}
