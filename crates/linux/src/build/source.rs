//! Where does the kernel's source come from, and is it what the distributor ships?
//!
//! First choice: the installed package's tarball in /usr/src, whose checksum dpkg knows. Else the package is
//! downloaded into the cache by apt, which verifies it against the archive's signature: from the suites that
//! the system's apt knows, else by a private apt from whichever suite has it. Nothing of the system is
//! changed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use schedlab_stdx::aside::Aside;

use super::apt::{self, Apt};
use super::cache::{Cache, remove_dir, sorted_entries};
use super::config::Pin;
use super::{BuildError, BuildProgress, io, tools};

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

/// The folder `linux/` of this repository, or of the installed package: it lies above the program's folder there
/// (for a library inside a foreign executable: above the program that makes its runs).
pub fn port_dir() -> Result<PathBuf, BuildError> {
    let is_port = |dir: &Path| dir.join("arch-warp/include/warp_abi.h").is_file();
    if let Some(dir) = std::env::var_os("SCHEDLAB_LINUX_DIR").map(PathBuf::from) {
        return if is_port(&dir) { absolute(&dir) } else { Err(BuildError::Port) };
    }
    let starts = [
        schedlab_process::program(),
        std::env::current_exe().ok(),
        std::env::current_dir().ok(),
        Some(env!("CARGO_MANIFEST_DIR").into()),
    ];
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

/// The package's tarball: installed, downloaded before, or downloaded now.
pub(super) fn find(
    cache: &Cache,
    pin: &Pin,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Tarball, BuildError> {
    let package = format!("linux-source-{}", pin.series);
    let installed = PathBuf::from(format!("/usr/src/{package}.tar.xz"));
    if installed.is_file() {
        return from_installed(cache, &pin.series, &package, installed);
    }
    if let Some(tarball) = from_downloads(cache, &package)? {
        return Ok(tarball);
    }
    progress(BuildProgress { step: "downloading the source", done: 0, total: 0 });
    let mut tried = vec![format!("{} is not there", installed.display())];
    if let Err(why) = download(cache, &package)? {
        tried.push(why);
        if let Err(why) = download_privately(cache, pin, &package, progress)? {
            tried.push(why);
        }
    }
    from_downloads(cache, &package)?
        .ok_or_else(|| BuildError::Source { series: pin.series.clone(), why: tried.join("; ") })
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
        let found =
            String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or("").to_owned();
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

/// The newest package in the cache's downloads, its tarball taken out of it.
fn from_downloads(cache: &Cache, package: &str) -> Result<Option<Tarball>, BuildError> {
    let prefix = format!("{package}_");
    let name = |p: &PathBuf| p.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut debs: Vec<(String, PathBuf)> = sorted_entries(&cache.downloads())?
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "deb"))
        .filter_map(|p| Some((name(&p).strip_prefix(&prefix)?.split('_').next()?.to_owned(), p)))
        .collect();
    apt::newest_first(&mut debs, |(version, _)| version)?;
    let Some((_, deb)) = debs.first() else { return Ok(None) };
    let output = Command::new("dpkg-deb")
        .arg("-f")
        .arg(deb)
        .arg("Version")
        .output()
        .map_err(io("run", "dpkg-deb".as_ref()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let path = cache.downloads().join(format!("{package}_{version}.tar.xz"));
    if !path.is_file() {
        let member = format!("./usr/src/{package}.tar.xz");
        let mut unpack = Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(deb)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io("run", "dpkg-deb".as_ref()))?;
        let out = Aside::create(&path).map_err(io("create", &path))?;
        let packed = unpack.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let unpacked = out.file().try_clone().map_err(io("write", &path))?;
        let status = Command::new("tar").args(["-xO", &member]).stdin(packed).stdout(unpacked).status();
        let status = status.map_err(io("run", "tar".as_ref()))?;
        unpack.wait().map_err(io("run", "dpkg-deb".as_ref()))?;
        if !status.success() {
            let why = format!("it holds no {member}; remove it and try again");
            return Err(BuildError::Damaged { path: deb.clone(), why });
        }
        out.finish().map_err(io("write", &path))?;
    }
    let sha256 = cache.sha256_of(&path)?;
    Ok(Some(Tarball { path, version, sha256 }))
}

/// What downloads left that were killed.
fn sweep(cache: &Cache) {
    ["part-", "apt-"].iter().for_each(|prefix| schedlab_process::sweep(&cache.downloads(), prefix));
}

/// Downloads by the system's own apt, from the suites that it knows. `Ok(Err(why))`: it has none.
fn download(cache: &Cache, package: &str) -> Result<Result<(), String>, BuildError> {
    if tools::in_path("apt-get").is_none() {
        return Ok(Err("there is no apt-get to download it with".into()));
    }
    // into a folder of its own first, so that a download that breaks off leaves nothing in the cache
    sweep(cache);
    let dir = cache.downloads().join(format!("part-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let output = Command::new("apt-get")
        .args(["download", "-q", "-o", "APT::Sandbox::User=root", package])
        .env("LC_ALL", "C")
        .current_dir(&dir)
        .output()
        .map_err(io("run", "apt-get".as_ref()))?;
    let result = if output.status.success() {
        sorted_entries(&dir)?.iter().try_for_each(|file| {
            let to = cache.downloads().join(file.file_name().unwrap_or_default());
            fs::rename(file, &to).map_err(io("write", &to))
        })?;
        Ok(())
    } else {
        let text = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(format!("the system's suites do not have it ('apt-get download {package}': {text})"))
    };
    remove_dir(&dir)?;
    Ok(result)
}

/// Downloads by a private apt, from the suites that are known to have it, else from whichever has it.
fn download_privately(
    cache: &Cache,
    pin: &Pin,
    package: &str,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Result<(), String>, BuildError> {
    sweep(cache);
    let mut why = String::new();
    for suites in [&pin.suites[..], &[]] {
        progress(BuildProgress { step: "looking for the suite that has it", done: 0, total: 0 });
        let apt = match Apt::open(cache.downloads().join(format!("apt-{}", std::process::id())), suites) {
            Ok(apt) => apt,
            Err(Ok(reason)) => {
                why = reason;
                continue;
            }
            Err(Err(error)) => return Err(error),
        };
        let Some(newest) = apt.versions(package)?.into_iter().next() else {
            why = "none of Debian's suites has it".into();
            continue;
        };
        progress(BuildProgress { step: "downloading the source", done: 0, total: 0 });
        match apt.download(&newest, &cache.downloads())? {
            Ok(()) => return Ok(Ok(())),
            Err(reason) => why = format!("{} has {}: {reason}", newest.suite, newest.version),
        }
    }
    Ok(Err(why))
}

/// The newest series of which Debian has a source package now, in any suite.
pub(super) fn newest(cache: &Cache) -> Result<String, BuildError> {
    let failed = |why: String| BuildError::Source { series: "newest".into(), why };
    sweep(cache);
    let dir = cache.downloads().join(format!("apt-{}", std::process::id()));
    let apt = match Apt::open(dir, &[]) {
        Ok(apt) => apt,
        Err(Ok(why)) => return Err(failed(why)),
        Err(Err(error)) => return Err(error),
    };
    let series = apt.series()?.into_iter().max_by_key(|s| super::cache::version_key(s));
    series.ok_or_else(|| failed("none of Debian's suites has a linux-source package".into()))
}

/// A tarball of the user's: nothing vouches for it.
pub(super) fn own_tarball(cache: &Cache, path: &Path) -> Result<Tarball, BuildError> {
    let path = fs::canonicalize(path).map_err(io("find", path))?;
    let sha256 = cache.sha256_of(&path)?;
    Ok(Tarball { path, version: String::new(), sha256 })
}

/// The name of the one folder that everything in a tarball is in.
fn top_folder(tarball: &Path) -> Result<String, BuildError> {
    let mut tar = Command::new("tar")
        .arg("-tf")
        .arg(tarball)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(io("run", "tar".as_ref()))?;
    let mut first = String::new();
    if let Some(out) = tar.stdout.take() {
        // the first names are enough; tar ends when nobody reads on
        for line in BufReader::new(out).lines().take(10) {
            let line = line.map_err(io("read", tarball))?;
            let line = line.trim_start_matches("./");
            // a git archive begins with a comment of no folder
            if line.contains('/') && !line.starts_with("pax_global_header") {
                first = line.split('/').next().unwrap_or_default().to_owned();
                break;
            }
        }
    }
    drop(tar.wait());
    if first.is_empty() {
        let why = "no kernel source: everything must be in one folder, as in linux-6.12.tar.xz".into();
        return Err(BuildError::Damaged { path: tarball.to_owned(), why });
    }
    Ok(first)
}

/// The unpacked source in the cache.
pub(super) fn unpack(
    cache: &Cache,
    name: &str,
    tarball: &Tarball,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, BuildError> {
    let folder = format!("{name}-{}", &tarball.sha256[..12]);
    let _lock = cache.lock_one(&format!("source-{folder}"), &mut || {
        progress(BuildProgress { step: "waiting for another that unpacks the source", done: 0, total: 0 });
    })?;
    let dir = cache.source_dir(&folder);
    let complete = dir.join("complete");
    if !complete.is_file() {
        progress(BuildProgress { step: "unpacking", done: 0, total: 0 });
        remove_dir(&dir)?;
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        let top = top_folder(&tarball.path)?;
        let log = dir.join("unpack.log");
        let take = |left_out: &[&str]| {
            let mut tar = Command::new("tar");
            tar.arg("-xf").arg(&tarball.path).arg("-C").arg(&dir);
            tar.args(["--wildcards", "--wildcards-match-slash"]);
            tar.args(left_out.iter().map(|pattern| format!("--exclude={top}/{pattern}")));
            super::make::run_logged(&mut tar, "unpacking the source", &log, &mut |_| {})
        };
        // A name can be a hard link to one that is left out (tarballs made with `tar -h`): then all is taken.
        take(&LEFT_OUT).or_else(|_| take(&[]))?;
        super::cache::write_aside(&complete, top.as_bytes())?;
    }
    let top = fs::read_to_string(&complete).map_err(io("read", &complete))?;
    let tree = dir.join(top.trim());
    // made by an earlier version of this program, which wrote something else there
    Ok(if tree.is_dir() { tree } else { dir.join(format!("linux-source-{name}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_whose_names_are_links_to_what_is_left_out_is_unpacked_whole() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(&dir.path().join("cache")).and_then(Cache::made).unwrap();
        let tree = dir.path().join("linux-6.13");
        // as in the kernel: the link's target is not needed, and comes first
        let (target, link) = ("arch/arm/boot/dts/board.dts", "scripts/dtc/include-prefixes/arm/board.dts");
        for folder in ["arch/arm/boot/dts", "scripts/dtc/include-prefixes"] {
            fs::create_dir_all(tree.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(
            "../../../arch/arm/boot/dts",
            tree.join("scripts/dtc/include-prefixes/arm"),
        )
        .unwrap();
        fs::write(tree.join(target), "board").unwrap();
        fs::write(tree.join("Makefile"), "make").unwrap();
        for (options, with_target) in [("-cf", false), ("-chf", true)] {
            let tar = dir.path().join(format!("linux{options}.tar"));
            let mut program = Command::new("tar");
            program.arg(options).arg(&tar).arg("-C").arg(dir.path());
            program.args(["Makefile", "arch", "scripts"].map(|name| format!("linux-6.13/{name}")));
            assert!(program.status().unwrap().success());
            let tarball = own_tarball(&cache, &tar).unwrap();
            let source = unpack(&cache, "6.13.tarball", &tarball, &mut |_| {}).unwrap();
            assert_eq!(fs::read_to_string(source.join("Makefile")).unwrap(), "make");
            assert_eq!(fs::read_to_string(source.join(link)).is_ok(), with_target, "{options}");
        }
    }
}
