//! Where does herd7 come from? Debian's newer suites have it; an older system runs it by their loader.
//!
//! The packages are had as a kernel's source is ([`apt`](super::apt)): from the system's own mirrors, verified by apt,
//! into the cache. Nothing of the system is changed.
//!
//! ```text
//! ~/.cache/schedlab/linux/herd7/7.58-2/usr/bin/herd7                     of herdtools7
//!                                     /usr/lib/x86_64-linux-gnu/...      of that suite's libc6 and libgmp10
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::Apt;
use super::cache::{Cache, remove_dir, sorted_entries};
use super::{BuildError, io, tools};

/// The suite that has it.
const SUITE: &str = "forky";
/// What is needed.
const PACKAGES: [&str; 3] = ["herdtools7", "libc6", "libgmp10"];
/// The oldest version that was compared with.
const OLDEST: (u32, u32) = (7, 58);

/// A herd7 that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Herd7 {
    /// As it says: `7.58`.
    pub version: String,
    /// Of the package: `7.58-2`; empty: the system's own program.
    pub package: String,
    /// Where the packages lie; `None`: the system has it.
    root: Option<PathBuf>,
}

impl Herd7 {
    /// A command of it, without arguments.
    pub fn command(&self) -> Command {
        let Some(root) = &self.root else { return Command::new("herd7") };
        let lib = root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(lib.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&lib).arg(root.join("usr/bin/herd7"));
        command.arg("-set-libdir").arg(root.join("usr/share/herdtools7/herd"));
        command
    }

    /// With the version that it says.
    fn asked(mut self) -> Option<Herd7> {
        let output = self.command().arg("-version").output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout);
        self.version = text.split([',', ' ', '\n']).next().unwrap_or_default().to_owned();
        let mut numbers = self.version.split('.').map(|n| n.parse().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        (found >= OLDEST).then_some(self)
    }
}

/// herd7: the system's if it is new enough, what was downloaded before, or what is downloaded now.
///
/// # Errors
/// It cannot be had: what was tried, and what to do.
pub fn herd7() -> Result<Herd7, BuildError> {
    let of = |root: Option<PathBuf>, package: &str| Herd7 {
        version: String::new(),
        package: package.to_owned(),
        root,
    };
    if let Some(own) = tools::in_path("herd7").and_then(|_| of(None, "").asked()) {
        return Ok(own);
    }
    let cache = Cache::make()?;
    let dir = cache.root().join("herd7");
    let downloaded = || -> Result<Option<Herd7>, BuildError> {
        let versions = super::cache::entries_if_any(&dir)?;
        let found = versions.iter().rev().find_map(|root| {
            let name = root.file_name()?.to_string_lossy().into_owned();
            of(Some(root.clone()), &name).asked()
        });
        Ok(found)
    };
    if let Some(found) = downloaded()? {
        return Ok(found);
    }
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let _lock = cache.lock_one("herd7", &mut || {})?;
    if let Some(found) = downloaded()? {
        return Ok(found);
    }
    let why = match download(&cache, &dir)? {
        Ok(()) => "what was downloaded does not run here".to_owned(),
        Err(why) => why,
    };
    downloaded()?.ok_or(BuildError::Herd { why })
}

/// Downloads and unpacks the packages. `Ok(Err(why))`: they cannot be had.
fn download(cache: &Cache, dir: &Path) -> Result<Result<(), String>, BuildError> {
    let apt_dir = cache.downloads().join(format!("apt-{}", std::process::id()));
    let apt = match Apt::open(apt_dir, &[SUITE.to_owned()]) {
        Ok(apt) => apt,
        Err(Ok(why)) => return Ok(Err(why)),
        Err(Err(error)) => return Err(error),
    };
    let part = dir.join(format!("part-{}", std::process::id()));
    remove_dir(&part)?;
    fs::create_dir_all(&part).map_err(io("create", &part))?;
    let result = unpack(&apt, &part);
    let result = match result? {
        Ok(version) => {
            let to = dir.join(version);
            remove_dir(&to)?;
            fs::rename(part.join("root"), &to).map_err(io("write", &to)).map(Ok)
        }
        Err(why) => Ok(Err(why)),
    };
    remove_dir(&part)?;
    result
}

/// The packages in `part/root`; the version of the first.
fn unpack(apt: &Apt, part: &Path) -> Result<Result<String, String>, BuildError> {
    let mut version = String::new();
    for package in PACKAGES {
        let Some(newest) = apt.versions(package)?.into_iter().next() else {
            return Ok(Err(format!("the mirror's suite {SUITE} has no {package}")));
        };
        if let Err(why) = apt.download(&newest, part)? {
            return Ok(Err(why));
        }
        if version.is_empty() {
            version = newest.version;
        }
    }
    for deb in sorted_entries(part)?.iter().filter(|path| path.extension().is_some_and(|e| e == "deb")) {
        let status = Command::new("dpkg-deb").arg("-x").arg(deb).arg(part.join("root")).status();
        if !status.map_err(io("run", "dpkg-deb".as_ref()))?.success() {
            return Ok(Err(format!("{} cannot be unpacked", deb.display())));
        }
    }
    Ok(Ok(version))
}
