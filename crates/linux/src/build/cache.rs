//! What has been built already?

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{BuildError, BuiltKernel, io};

/// Part of every key: counts up when the way of building changes.
const RECIPE: &str = "recipe 1";

pub(super) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$SCHEDLAB_CACHE`, else `schedlab` in the user's cache folder, to look into: what is missing is empty, so that
    /// nothing need be writable.
    pub(super) fn open() -> Result<Cache, BuildError> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = var("SCHEDLAB_CACHE")
            .or_else(|| var("XDG_CACHE_HOME").map(|d| d.join("schedlab")))
            .or_else(|| var("HOME").map(|d| d.join(".cache/schedlab")))
            .unwrap_or_else(|| std::env::temp_dir().join("schedlab-cache"));
        Cache::at(&base)
    }

    /// The same to put something into it: its folders are created if missing.
    pub(super) fn make() -> Result<Cache, BuildError> {
        Cache::open()?.made()
    }

    /// In this folder.
    pub(super) fn at(base: &Path) -> Result<Cache, BuildError> {
        let base = std::path::absolute(base).map_err(io("find", base))?;
        Ok(Cache { root: base.join("linux") })
    }

    /// With its folders.
    pub(super) fn made(self) -> Result<Cache, BuildError> {
        for sub in ["kernels", "sources", "downloads", "named", "fragments", "locks"] {
            let dir = self.root.join(sub);
            fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        }
        Ok(self)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn kernel_dir(&self, name: &str) -> PathBuf {
        self.root.join("kernels").join(name)
    }

    pub(super) fn source_dir(&self, name: &str) -> PathBuf {
        self.root.join("sources").join(name)
    }

    /// Trees and tarballs of the user's, by name.
    pub(super) fn named(&self) -> PathBuf {
        self.root.join("named")
    }

    /// Configuration fragments of the user's.
    pub(super) fn fragments(&self) -> PathBuf {
        self.root.join("fragments")
    }

    pub(super) fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }

    /// For whoever removes things: waits until nobody builds, and keeps builds waiting. Held until dropped,
    /// or until the process ends in whatever way.
    pub(super) fn lock(&self) -> Result<File, BuildError> {
        Ok(self.flock("all", libc::LOCK_EX)?.expect("it waited"))
    }

    /// For whoever builds this kernel or unpacks this source; others can be built meanwhile. `waits` is called once
    /// if another process has the lock.
    pub(super) fn lock_one(&self, what: &str, waits: &mut dyn FnMut()) -> Result<(File, File), BuildError> {
        let mut once = Some(waits);
        let mut flock = |what: &str, how| match self.flock(what, how | libc::LOCK_NB)? {
            Some(file) => Ok(file),
            None => {
                once.take().into_iter().for_each(|waits| waits());
                Ok(self.flock(what, how)?.expect("it waited"))
            }
        };
        Ok((flock("all", libc::LOCK_SH)?, flock(what, libc::LOCK_EX)?))
    }

    /// `None`: another process has it, and `how` says not to wait.
    fn flock(&self, what: &str, how: i32) -> Result<Option<File>, BuildError> {
        let path = self.root.join("locks").join(what);
        let file = File::create(&path).map_err(io("create", &path))?;
        loop {
            // SAFETY: a valid descriptor.
            if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
                return Ok(Some(file));
            }
            let error = std::io::Error::last_os_error();
            if error.kind() == std::io::ErrorKind::WouldBlock {
                return Ok(None);
            }
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(io("lock", &path)(error));
            }
        }
    }

    pub(super) fn kernels(&self) -> Result<Vec<BuiltKernel>, BuildError> {
        let dir = self.root.join("kernels");
        let mut found: Vec<BuiltKernel> =
            entries_if_any(&dir)?.iter().filter_map(|d| read_kernel(d)).collect();
        found
            .sort_by_key(|k| (version_key(&k.series), k.hz, k.nr_cpus, modified(&k.dir.join("kernel.toml"))));
        Ok(found)
    }

    pub(super) fn remove(&self, series: &str) -> Result<usize, BuildError> {
        let mut removed = 0;
        // `mine-hz250-...` and `mine-<sum>`, not those of a kernel that is called `mine-2`
        let ours = |dir: &Path, next: &[&str]| {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            let rest = name.strip_prefix(series).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| match next {
                [] => rest.len() == 12 && rest.chars().all(|c| c.is_ascii_hexdigit()),
                _ => next.iter().any(|n| rest.starts_with(n)),
            })
        };
        for (sub, counts, next) in [("kernels", true, &["hz"][..]), ("sources", false, &[])] {
            for dir in sorted_entries(&self.root.join(sub))?.iter().filter(|d| ours(d, next)) {
                remove_dir(dir)?;
                removed += usize::from(counts);
            }
        }
        let named = self.named().join(format!("{series}.toml"));
        if named.is_file() {
            // and a tree of ours that keeps a bug of this name, if there is one
            remove_dir(&self.root.join("bugs").join(series))?;
            fs::remove_file(&named).map_err(io("remove", &named))?;
        }
        Ok(removed)
    }

    /// sha256 of a file; remembered by path, size and time of change.
    pub(super) fn sha256_of(&self, path: &Path) -> Result<String, BuildError> {
        let meta = fs::metadata(path).map_err(io("read", path))?;
        let stamp = format!("{} {} {}", meta.len(), modified(path), path.display());
        let memory = self.root.join("checksums");
        let known = fs::read_to_string(&memory).unwrap_or_default();
        if let Some(sum) =
            known.lines().find_map(|l| l.split_once(' ').filter(|(_, s)| *s == stamp).map(|(sum, _)| sum))
        {
            return Ok(sum.to_owned());
        }
        let sum = sha256_file(path)?;
        let text = format!("{known}{sum} {stamp}\n");
        write_aside(&memory, text.as_bytes())?;
        Ok(sum)
    }
}

/// `6.12` sorts after `6.1`.
pub(super) fn version_key(series: &str) -> Vec<u64> {
    // 6.13.0-rc2: digits up to the first other character
    let digits =
        |part: &str| part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().unwrap_or(0);
    series.split('.').map(digits).collect()
}

fn modified(path: &Path) -> u128 {
    let time = fs::metadata(path).and_then(|m| m.modified()).ok();
    time.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |d| d.as_nanos())
}

pub(super) fn sorted_entries(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir).map_err(io("list", dir))? {
        entries.push(entry.map_err(io("list", dir))?.path());
    }
    entries.sort();
    Ok(entries)
}

/// The same of a folder that need not be there.
pub(super) fn entries_if_any(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => sorted_entries(dir),
    }
}

/// All files below a folder, sorted by path.
pub(super) fn files_below(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = Vec::new();
    for path in sorted_entries(dir)? {
        let kind = fs::symlink_metadata(&path).map_err(io("read", &path))?.file_type();
        if kind.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(super) fn sha256_file(path: &Path) -> Result<String, BuildError> {
    let mut file = File::open(path).map_err(io("open", path))?;
    let mut hash = Sha256::new();
    // a key is made of 900 small files at each start: to clear 1 MiB for each took longer than to read them
    let mut buffer = vec![0; 16 << 10];
    loop {
        let n = std::io::Read::read(&mut file, &mut buffer).map_err(io("read", path))?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// A key over the recipe, the given texts and every file of the port.
pub(super) fn key(port: &Path, texts: &[&str]) -> Result<String, BuildError> {
    let mut hash = Sha256::new();
    for text in std::iter::once(&RECIPE).chain(texts) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    let arch = port.join("arch-warp");
    for file in files_below(&arch)? {
        let name = file.strip_prefix(&arch).unwrap_or(&file).to_string_lossy().into_owned();
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(sha256_file(&file)?.as_bytes());
    }
    Ok(hex(&hash.finalize()))
}

/// A complete kernel, or nothing.
pub(super) fn read_kernel(dir: &Path) -> Option<BuiltKernel> {
    let text = fs::read_to_string(dir.join("kernel.toml")).ok()?;
    let mut kernel: BuiltKernel = toml::from_str(&text).ok()?;
    dir.clone_into(&mut kernel.dir);
    kernel.object().is_file().then_some(kernel)
}

pub(super) fn write_kernel(kernel: &BuiltKernel) -> Result<(), BuildError> {
    let path = kernel.dir.join("kernel.toml");
    let text = toml::to_string(kernel)
        .map_err(|e| BuildError::Damaged { path: path.clone(), why: e.to_string() })?;
    write_aside(&path, text.as_bytes())
}

/// Write a file so that it is there completely or not at all.
pub(super) fn write_aside(path: &Path, data: &[u8]) -> Result<(), BuildError> {
    schedlab_stdx::aside::write(path, data).map_err(io("write", path))
}

pub(super) fn remove_dir(dir: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io("remove", dir)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_sort_as_versions() {
        let mut series = ["6.12", "5.10", "6.1", "7.2"];
        series.sort_by_key(|s| version_key(s));
        assert_eq!(series, ["5.10", "6.1", "6.12", "7.2"]);
    }

    #[test]
    fn every_file_of_the_port_counts_for_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let arch = dir.path().join("arch-warp");
        fs::create_dir(&arch).unwrap();
        fs::write(arch.join("a.c"), "one").unwrap();
        let first = key(dir.path(), &["config"]).unwrap();
        assert_eq!(key(dir.path(), &["config"]).unwrap(), first);
        assert_ne!(key(dir.path(), &["confi", "g"]).unwrap(), first);
        fs::write(arch.join("a.c"), "two").unwrap();
        assert_ne!(key(dir.path(), &["config"]).unwrap(), first);
        fs::write(arch.join("a.c"), "one").unwrap();
        fs::write(arch.join("b.c"), "").unwrap();
        assert_ne!(key(dir.path(), &["config"]).unwrap(), first);
    }

    /// The sum of the three bytes "abc" is in FIPS 180-2, appendix B.1.
    #[test]
    fn sha256_is_sha256() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("abc");
        fs::write(&file, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_file(&file).unwrap(), expected);
    }
}
