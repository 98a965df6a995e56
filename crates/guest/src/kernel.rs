//! Which kernel does the guest boot, and where does it come from? Debian's cloud kernels, as packages that are taken apart in
//! the cache; nothing is installed.
//!
//! ```text
//! "6.12" -> linux-image-6.12-cloud-amd64 depends on linux-image-6.12.117+deb12-cloud-amd64 (6.12.117-1~deb12u1)
//!        -> apt-get download, dpkg-deb -x -> cache/kernels/linux-image-..._6.12.117-1~deb12u1/{vmlinuz,config}
//! ```

use crate::{GuestError, cache};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestKernel {
    /// The compressed image.
    pub image: PathBuf,
    /// Its package, or the file's name.
    pub package: String,
    /// The package's version; empty for a file.
    pub version: String,
    /// SHA-256 of the image.
    pub sha256: String,
    /// CONFIG_HZ; 0 = unknown (a file without a config beside it).
    pub hz: u32,
}

/// A row of `schedlab guest list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What to give as kernel, e.g. `6.12`.
    pub series: String,
    /// Package.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// Whether it is in the cache already.
    pub cached: bool,
}

/// Series that this crate is tested with.
pub const SERIES: [&str; 2] = ["6.1", "6.12"];

impl GuestKernel {
    /// The kernel of this name: a series (`6.12`) or a path. A package is downloaded if the cache has none of the series.
    ///
    /// # Errors
    /// [`GuestError::Kernel`] for a name that is neither, [`GuestError::Missing`] without apt, [`GuestError::Command`] if the
    /// download fails.
    pub fn find(name: &str) -> Result<GuestKernel, GuestError> {
        if name.contains('/') || Path::new(name).is_file() {
            return GuestKernel::from_file(Path::new(name));
        }
        let series = name.strip_prefix("linux-").unwrap_or(name);
        let valid = series.split('.').count() >= 2
            && series.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        if !valid {
            let why = "it is neither a series nor an existing file".to_string();
            return Err(GuestError::Kernel { name: name.to_string(), why });
        }
        if let Some(kernel) = cached(series)?.pop() {
            return Ok(kernel);
        }
        download(series)
    }

    /// An image of one's own. A `config-X` beside `vmlinuz-X` (or `.config`, `config`) tells HZ.
    pub fn from_file(image: &Path) -> Result<GuestKernel, GuestError> {
        let name = image.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if !image.is_file() {
            let why = "there is no such file".to_string();
            return Err(GuestError::Kernel { name: image.display().to_string(), why });
        }
        let beside = image.with_file_name(name.replacen("vmlinuz", "config", 1));
        let config = [beside, image.with_file_name("config"), image.with_file_name(".config")]
            .into_iter()
            .find(|path| path != image && path.is_file());
        Ok(GuestKernel {
            image: image.to_path_buf(),
            package: name,
            version: String::new(),
            sha256: cache::file_sum(image)?,
            hz: config.map_or(Ok(0), |config| read_hz(&config))?,
        })
    }
}

fn read_hz(config: &Path) -> Result<u32, GuestError> {
    let text = fs::read_to_string(config).map_err(GuestError::io("read", config))?;
    Ok(text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok()).unwrap_or(0))
}

fn kernels_directory() -> PathBuf {
    cache::directory().join("kernels")
}

/// `6.12.117-1~deb12u1` -> [6, 12, 117, 1, 12, 1]: good enough to find the newest of a series.
fn version_order(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn in_series(version: &str, series: &str) -> bool {
    version.strip_prefix(series).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Kernels of a series in the cache, oldest first.
fn cached(series: &str) -> Result<Vec<GuestKernel>, GuestError> {
    let directory = kernels_directory();
    let Ok(entries) = fs::read_dir(&directory) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((package, version)) = name.split_once('_') else { continue };
        let image = entry.path().join("vmlinuz");
        if in_series(version, series) && image.is_file() {
            found.push(GuestKernel {
                sha256: cache::file_sum(&image)?,
                hz: read_hz(&entry.path().join("config"))?,
                image,
                package: package.to_string(),
                version: version.to_string(),
            });
        }
    }
    found.sort_by_key(|kernel| version_order(&kernel.version));
    Ok(found)
}

/// Version of the kernel that [`GuestKernel::find`] takes from the cache; `None` if it would have to be downloaded.
pub(crate) fn newest_kept(series: &str) -> Option<String> {
    let entries = fs::read_dir(kernels_directory()).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let versions = names.filter_map(|name| Some(name.split_once('_')?.1.to_string()));
    versions.filter(|version| in_series(version, series)).max_by_key(|version| version_order(version))
}

/// The package behind a series, with its version, as apt has it now.
fn candidate(series: &str) -> Result<(String, String), GuestError> {
    let metas = [format!("linux-image-{series}-cloud-amd64"), "linux-image-cloud-amd64".to_string()];
    for meta in metas {
        let Ok(shown) = output(Command::new("apt-cache").args(["--no-all-versions", "show", &meta])) else {
            continue;
        };
        let field = |name: &str| {
            shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_string))
        };
        let (Some(version), Some(depends)) = (field("Version"), field("Depends")) else { continue };
        let package = depends.split([',', ' ']).find(|word| word.starts_with("linux-image-"));
        if let (true, Some(package)) = (in_series(&version, series), package) {
            return Ok((package.to_string(), version));
        }
    }
    Err(GuestError::Missing {
        what: format!("a cloud kernel of series {series} among this system's packages"),
        remedy: format!(
            "run `apt-get update` (Debian 12 and 13 have one), or give the path of an image instead of '{series}'"
        ),
    })
}

fn download(series: &str) -> Result<GuestKernel, GuestError> {
    let (package, _) = candidate(series)?;
    let target = kernels_directory();
    cache::make(&target)?;
    let work = tempfile::tempdir_in(&target).map_err(GuestError::io("make a directory in", &target))?;
    output(Command::new("apt-get").args(["-q", "download", &package]).current_dir(work.path()))?;
    let deb = first_file(work.path(), |name| name.ends_with(".deb"))?;
    let version = output(Command::new("dpkg-deb").arg("-f").arg(&deb).arg("Version"))?.trim().to_string();
    let tree = work.path().join("tree");
    output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&tree))?;
    let boot = tree.join("boot");
    let keep = work.path().join("keep");
    cache::make(&keep)?;
    for (prefix, name) in [("vmlinuz-", "vmlinuz"), ("config-", "config")] {
        let from = first_file(&boot, |file| file.starts_with(prefix))?;
        fs::copy(&from, keep.join(name)).map_err(GuestError::io("copy", &from))?;
    }
    let home = target.join(format!("{package}_{version}"));
    if !home.exists() {
        fs::rename(&keep, &home).map_err(GuestError::io("rename into place", &home))?;
    }
    cached(series)?.pop().ok_or_else(|| GuestError::Kernel {
        name: series.to_string(),
        why: format!("package {package} has version {version}"),
    })
}

pub(crate) fn first_file(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf, GuestError> {
    let entries = fs::read_dir(directory).map_err(GuestError::io("read", directory))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    let found =
        names.into_iter().find(|path| path.file_name().is_some_and(|name| wanted(&name.to_string_lossy())));
    found.ok_or_else(|| GuestError::Missing {
        what: format!("the kernel image in {}", directory.display()),
        remedy: "the package has another layout than Debian's cloud kernels; give the path of an image"
            .to_string(),
    })
}

/// Runs a program to its end and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, GuestError> {
    let line = format!("{command:?}").replace('"', "");
    let program = command.get_program().to_string_lossy().into_owned();
    let result = command.output().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => GuestError::Missing {
            what: format!("the program {program}"),
            remedy: remedy(&program).to_string(),
        },
        _ => GuestError::Io { doing: "run", path: program.into(), source },
    })?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        let output = said.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>();
        return Err(GuestError::Command {
            command: line,
            status: result.status.to_string(),
            output: output.join("\n"),
        });
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

fn remedy(program: &str) -> &'static str {
    match program {
        "qemu-system-x86_64" => "install it: apt-get install --no-install-recommends qemu-system-x86",
        "gcc" => "install it: apt-get install gcc libc6-dev",
        _ => "kernels come as Debian packages; elsewhere give the path of a kernel image",
    }
}

/// What `schedlab guest list` shows: kernels in the cache, and what apt offers for the known series.
pub fn list() -> Result<Vec<Listed>, GuestError> {
    let mut rows = Vec::new();
    for series in SERIES {
        for kernel in cached(series)? {
            let row = Listed {
                series: series.to_string(),
                package: kernel.package,
                version: kernel.version,
                cached: true,
            };
            rows.push(row);
        }
        if let Ok((package, version)) = candidate(series)
            && !rows.iter().any(|row| row.package == package && row.version == version)
        {
            rows.push(Listed { series: series.to_string(), package, version, cached: false });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_and_versions() {
        assert!(in_series("6.1.192-2", "6.1") && in_series("6.12.117-1~deb12u1", "6.12"));
        assert!(!in_series("6.12.117-1", "6.1") && !in_series("5.10.1", "6.1"));
        assert!(version_order("6.12.117-1~deb12u1") > version_order("6.12.99-1"));
        for bad in ["", "six", "6", "6..1", "6.x", "latest"] {
            assert!(matches!(GuestKernel::find(bad), Err(GuestError::Kernel { .. })), "{bad}");
        }
        assert!(matches!(GuestKernel::find("/no/such/vmlinuz"), Err(GuestError::Kernel { .. })));
    }
}
