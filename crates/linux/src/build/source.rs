//! Where does the kernel's source come from, and is it what the distributor ships?
//!
//! First choice: the installed package's tarball in /usr/src, whose checksum dpkg knows. Else the package is downloaded by
//! apt, which verifies it against the archive's signature, into the cache; nothing of the system is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{Cache, remove_dir, sorted_entries};
use super::{BuildError, Progress, io, tools};

/// A verified source tarball.
pub(super) struct Tarball {
    pub(super) path: PathBuf,
    /// Package version.
    pub(super) version: String,
    pub(super) sha256: String,
}

/// Parts of the source that no object of ours needs: they are left in the tarball. (`*` matches `/`, too.)
const LEFT_OUT: [&str; 9] = [
    "Documentation/*/*",
    "arch/*/*.[chS]",
    "arch/*.dts*",
    "drivers/[ad-z]*/*.[chS]",
    "net/*.[ch]",
    "samples/*.[chS]",
    "sound/*.[ch]",
    "tools/perf/*",
    "tools/testing/*",
];

/// The folder `linux/` of this repository.
pub(super) fn port_dir() -> Result<PathBuf, BuildError> {
    let is_port = |dir: &Path| dir.join("arch-warp/include/warp_abi.h").is_file();
    if let Some(dir) = std::env::var_os("SCHEDLAB_LINUX_DIR").map(PathBuf::from) {
        return if is_port(&dir) { absolute(&dir) } else { Err(BuildError::Port) };
    }
    let starts = [std::env::current_exe().ok(), std::env::current_dir().ok(), Some(env!("CARGO_MANIFEST_DIR").into())];
    for start in starts.into_iter().flatten() {
        if let Some(dir) = start.ancestors().map(|above| above.join("linux")).find(|dir| is_port(dir)) {
            return absolute(&dir);
        }
    }
    Err(BuildError::Port)
}

fn absolute(dir: &Path) -> Result<PathBuf, BuildError> {
    fs::canonicalize(dir).map_err(io("find", dir))
}

pub(super) fn find(
    cache: &Cache,
    series: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<Tarball, BuildError> {
    let package = format!("linux-source-{series}");
    let installed = PathBuf::from(format!("/usr/src/{package}.tar.xz"));
    if installed.is_file() {
        return from_installed(cache, series, &package, installed);
    }
    let why_not = match from_downloads(cache, series, &package)? {
        Ok(tarball) => return Ok(tarball),
        Err(why) => why,
    };
    progress(Progress { step: "downloading the source", done: 0, total: 0 });
    download(cache, series, &package)?;
    from_downloads(cache, series, &package)?
        .map_err(|why| BuildError::Source { series: series.to_owned(), why: format!("{why_not}; then {why}") })
}

fn from_installed(cache: &Cache, series: &str, package: &str, path: PathBuf) -> Result<Tarball, BuildError> {
    let dpkg = PathBuf::from(format!("/var/lib/dpkg/info/{package}.md5sums"));
    let wrong = |why: String| BuildError::Verify { path: path.clone(), why, series: series.to_owned() };
    let sums = fs::read_to_string(&dpkg).map_err(|e| wrong(format!("{}: {e}", dpkg.display())))?;
    let inside = path.strip_prefix("/").unwrap_or(&path).display().to_string();
    let expected = sums
        .lines()
        .find_map(|line| line.split_once("  ").filter(|(_, file)| *file == inside))
        .map(|(sum, _)| sum.to_owned())
        .ok_or_else(|| wrong(format!("{} does not list it", dpkg.display())))?;
    // the checksum is remembered with the package's sum in its name: verified once per file state
    let sha256 = cache.sha256_of(&path)?;
    let verified = cache.root().join(format!("verified-{sha256}"));
    if fs::read_to_string(&verified).unwrap_or_default().trim() != expected {
        let output = Command::new("md5sum").arg(&path).output().map_err(io("run", "md5sum".as_ref()))?;
        let found = String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or("").to_owned();
        if found != expected {
            return Err(wrong(format!("md5 is {found}, expected {expected}")));
        }
        super::cache::write_aside(&verified, expected.as_bytes())?;
    }
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${Version}", package])
        .output()
        .map_err(io("run", "dpkg-query".as_ref()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Tarball { path, version, sha256 })
}

/// The newest package in the cache's downloads, its tarball taken out of it; or why there is none.
fn from_downloads(cache: &Cache, series: &str, package: &str) -> Result<Result<Tarball, String>, BuildError> {
    let prefix = format!("{package}_");
    let debs: Vec<PathBuf> = sorted_entries(&cache.downloads())?
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "deb"))
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))
        .collect();
    let Some(deb) = debs.last() else {
        return Ok(Err(format!("/usr/src/{package}.tar.xz is not there")));
    };
    let output = Command::new("dpkg-deb")
        .arg("-f")
        .arg(deb)
        .arg("Version")
        .output()
        .map_err(io("run", "dpkg-deb".as_ref()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let path = cache.downloads().join(format!("{package}_{version}.tar.xz"));
    if !path.is_file() {
        let aside = path.with_extension(format!("tmp{}", std::process::id()));
        let member = format!("./usr/src/{package}.tar.xz");
        let mut unpack = Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(deb)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io("run", "dpkg-deb".as_ref()))?;
        let out = fs::File::create(&aside).map_err(io("create", &aside))?;
        let pipe = unpack.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let status = Command::new("tar").args(["-xO", &member]).stdin(pipe).stdout(out).status();
        let status = status.map_err(io("run", "tar".as_ref()))?;
        unpack.wait().map_err(io("run", "dpkg-deb".as_ref()))?;
        if !status.success() {
            fs::remove_file(&aside).map_err(io("remove", &aside))?;
            return Ok(Err(format!("{} holds no {member}", deb.display())));
        }
        fs::rename(&aside, &path).map_err(io("write", &path))?;
    }
    let sha256 = cache.sha256_of(&path)?;
    let _ = series;
    Ok(Ok(Tarball { path, version, sha256 }))
}

fn download(cache: &Cache, series: &str, package: &str) -> Result<(), BuildError> {
    let failed = |why: String| BuildError::Source { series: series.to_owned(), why };
    if tools::in_path("apt-get").is_none() {
        return Err(failed("it is not installed, and there is no apt-get to download it with".into()));
    }
    // into a folder of its own first, so that a download that breaks off leaves nothing in the cache
    let dir = cache.downloads().join(format!("part-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let output = Command::new("apt-get")
        .args(["download", "-q", "-o", "APT::Sandbox::User=root", package])
        .current_dir(&dir)
        .output()
        .map_err(io("run", "apt-get".as_ref()))?;
    let result = if output.status.success() {
        sorted_entries(&dir)?.iter().try_for_each(|file| {
            let to = cache.downloads().join(file.file_name().unwrap_or_default());
            fs::rename(file, &to).map_err(io("write", &to))
        })
    } else {
        let text = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(failed(format!("'apt-get download {package}' says: {text} (does 'apt-get update' help?)")))
    };
    remove_dir(&dir)?;
    result
}

/// The unpacked source in the cache.
pub(super) fn unpack(
    cache: &Cache,
    series: &str,
    tarball: &Tarball,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, BuildError> {
    let dir = cache.source_dir(&format!("{series}-{}", &tarball.sha256[..12]));
    let tree = dir.join(format!("linux-source-{series}"));
    if dir.join("complete").is_file() {
        return Ok(tree);
    }
    progress(Progress { step: "unpacking", done: 0, total: 0 });
    remove_dir(&dir)?;
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let log = dir.join("unpack.log");
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&tarball.path).arg("-C").arg(&dir).args(["--wildcards", "--wildcards-match-slash"]);
    for pattern in LEFT_OUT {
        tar.arg(format!("--exclude=linux-source-{series}/{pattern}"));
    }
    super::make::run_logged(&mut tar, "unpacking the source", &log, &mut |_| {})?;
    fs::write(dir.join("complete"), &tarball.version).map_err(io("write", &dir))?;
    Ok(tree)
}
