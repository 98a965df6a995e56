//! Which kernel does the guest boot, and where does it come from? Debian's cloud kernels, as packages that
//! are taken apart in the cache; nothing is installed.
//!
//! ```text
//! "6.12" -> linux-image-6.12-cloud-amd64 depends on linux-image-6.12.117+deb12-cloud-amd64 (6.12.117-1~deb12u1)
//!        -> apt-get download, dpkg-deb -x -> cache/kernels/linux-image-..._6.12.117-1~deb12u1/{vmlinuz,config}
//! ```

use crate::{RealError, cache};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestKernel {
    /// The compressed image.
    pub image: PathBuf,
    /// Its package, or the file's name.
    pub package: String,
    /// The package's version; for a file, the release that it says it is, and its name.
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

/// Its real-mode part, in which a bzImage's header and version are.
const HEAD_BYTES: u64 = 64 * 1024;
/// Series that this crate is tested with.
pub const SERIES: [&str; 2] = ["6.1", "6.12"];

impl GuestKernel {
    /// The kernel of this name: a series (`6.12`) or a path. A package is downloaded if the cache has none of
    /// the series.
    ///
    /// # Errors
    /// [`RealError::Kernel`] for a name that is neither, [`RealError::Missing`] without apt,
    /// [`RealError::Command`] if the download fails.
    pub fn find(name: &str) -> Result<GuestKernel, RealError> {
        if name.contains('/') || Path::new(name).is_file() {
            return GuestKernel::from_file(Path::new(name));
        }
        let series = name.strip_prefix("linux-").unwrap_or(name);
        let valid = series.split('.').count() >= 2
            && series.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        if !valid {
            let why = "it is neither a series nor an existing file".to_string();
            return Err(RealError::Kernel { name: name.to_string(), why });
        }
        if let Some(kernel) = cached(series)?.pop() {
            return Ok(kernel);
        }
        download(series)
    }

    /// Its series: `6.12` of `6.12.117-1~deb12u1`.
    #[must_use]
    pub fn series(&self) -> String {
        let mut parts = self.version.split(|c: char| !c.is_ascii_digit());
        [parts.next(), parts.next()].map(Option::unwrap_or_default).join(".")
    }

    /// An image of one's own (`arch/x86/boot/bzImage` of a build). A `config-X` beside `vmlinuz-X` (or
    /// `.config`, `config`) tells HZ.
    ///
    /// # Errors
    /// [`RealError::Kernel`] if there is no such file, or it is no such image.
    pub fn from_file(image: &Path) -> Result<GuestKernel, RealError> {
        let name = image.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if !image.is_file() {
            let why = "there is no such file".to_string();
            return Err(RealError::Kernel { name: image.display().to_string(), why });
        }
        let wrong = |why: &str| RealError::Kernel { name: image.display().to_string(), why: why.to_string() };
        let release = release_in(image)?.ok_or_else(|| {
            wrong("it is no compressed kernel for x86 (of a build, give arch/x86/boot/bzImage)")
        })?;
        let beside = image.with_file_name(name.replacen("vmlinuz", "config", 1));
        let config = [beside, image.with_file_name("config"), image.with_file_name(".config")]
            .into_iter()
            .find(|path| path != image && path.is_file());
        Ok(GuestKernel {
            image: image.to_path_buf(),
            version: format!("{release} ({name})"),
            package: name,
            sha256: cache::file_sum(image)?,
            hz: config.map_or(Ok(0), |config| read_hz(&config))?,
        })
    }
}

/// The release that a bzImage says it is, `6.12.117`; `None`: it is none. Its header has "HdrS" at byte
/// 0x202, and at 0x20e where its version's text is, less 0x200 (the kernel's
/// Documentation/arch/x86/boot.rst).
fn release_in(image: &Path) -> Result<Option<String>, RealError> {
    let io = || RealError::io("read", image);
    let mut head = Vec::new();
    fs::File::open(image).map_err(io())?.take(HEAD_BYTES).read_to_end(&mut head).map_err(io())?;
    if head.get(0x202..0x206) != Some(&b"HdrS"[..]) {
        return Ok(None);
    }
    let at = usize::from(u16::from_le_bytes([0x20e, 0x20f].map(|byte| head.get(byte).copied().unwrap_or(0))))
        + 0x200;
    let text = head.get(at..).unwrap_or_default();
    let text = text.split(|byte| matches!(byte, 0 | b' ')).next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(text).into_owned()))
}

fn read_hz(config: &Path) -> Result<u32, RealError> {
    let text = fs::read_to_string(config).map_err(RealError::io("read", config))?;
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
fn cached(series: &str) -> Result<Vec<GuestKernel>, RealError> {
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
fn candidate(series: &str) -> Result<(String, String), RealError> {
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
    Err(RealError::Missing {
        what: format!("a cloud kernel of series {series} among this system's packages"),
        remedy: format!(
            "run `apt-get update` (Debian 12 and 13 have one), or give the path of an image instead of '{series}'"
        ),
    })
}

fn download(series: &str) -> Result<GuestKernel, RealError> {
    let (package, _) = candidate(series)?;
    let target = kernels_directory();
    cache::make(&target)?;
    let work = tempfile::Builder::new()
        .prefix(&schedlab_process::prefix_in(&target, "download-"))
        .tempdir_in(&target)
        .map_err(RealError::io("make a directory in", &target))?;
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
        fs::copy(&from, keep.join(name)).map_err(RealError::io("copy", &from))?;
    }
    let home = target.join(format!("{package}_{version}"));
    if !home.exists() {
        fs::rename(&keep, &home).map_err(RealError::io("rename into place", &home))?;
    }
    cached(series)?.pop().ok_or_else(|| RealError::Kernel {
        name: series.to_string(),
        why: format!("package {package} has version {version}"),
    })
}

pub(crate) fn first_file(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf, RealError> {
    let entries = fs::read_dir(directory).map_err(RealError::io("read", directory))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    let found =
        names.into_iter().find(|path| path.file_name().is_some_and(|name| wanted(&name.to_string_lossy())));
    found.ok_or_else(|| RealError::Missing {
        what: format!("the kernel image in {}", directory.display()),
        remedy: "the package has another layout than Debian's cloud kernels; give the path of an image"
            .to_string(),
    })
}

/// Runs a program to its end and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, RealError> {
    let line = format!("{command:?}").replace('"', "");
    let program = command.get_program().to_string_lossy().into_owned();
    let result = command.output().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => RealError::Missing {
            what: format!("the program {program}"),
            remedy: remedy(&program).to_string(),
        },
        _ => RealError::Io { doing: "run", path: program.into(), source },
    })?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        let output = said.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>();
        return Err(RealError::Command {
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
pub fn list() -> Result<Vec<Listed>, RealError> {
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
            assert!(matches!(GuestKernel::find(bad), Err(RealError::Kernel { .. })), "{bad}");
        }
        assert!(matches!(GuestKernel::find("/no/such/vmlinuz"), Err(RealError::Kernel { .. })));
    }

    #[test]
    fn images_say_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("bzImage");
        let find = || GuestKernel::from_file(&image);
        for text in [&b"ELF"[..], &[0; 0x208], &[0; 4096]] {
            std::fs::write(&image, text).unwrap();
            let said = find().unwrap_err().to_string();
            assert!(said.contains("no compressed kernel") && said.contains("bzImage"), "{said}");
        }
        let mut bytes = vec![0; 4096];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x300u16.to_le_bytes());
        bytes[0x500..0x50d].copy_from_slice(b"6.12.3 (me) #");
        std::fs::write(&image, &bytes).unwrap();
        std::fs::write(directory.path().join("config"), "CONFIG_X=y\nCONFIG_HZ=300\n").unwrap();
        let found = find().unwrap();
        assert_eq!((found.version.as_str(), found.hz), ("6.12.3 (bzImage)", 300));
        assert_eq!(found.series(), "6.12");
        std::fs::write(&image, &bytes[..0x208]).unwrap(); // cut within the header
        assert_eq!(find().unwrap().version, " (bzImage)");
    }
}
