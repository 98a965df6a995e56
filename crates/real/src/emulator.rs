//! Which QEMU? The system's, unless the guest has several CPUs and the system's gives them unfair turns.
//!
//! All CPUs of a guest share one host thread under icount. Before QEMU 8.1 one CPU used up the whole time
//! until the next timer, and the others got none of it; since then each gets its part
//! (`icount_percpu_budget`). On Debian 12, whose own is 7.2, a newer one is taken from its backports:
//! downloaded by apt with lists of its own, unpacked in the cache, not installed; the libraries are those of
//! the installed QEMU.
//!
//! ```text
//!   SCHEDLAB_QEMU, if set | the system's, if new enough or 1 CPU | cache/qemu-10.0.2..., else fetched
//! ```

use crate::kernel::{first_file, output};
use crate::{RealError, cache};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// Since then every CPU gets its part of the time.
const FAIR: (u32, u32) = (8, 1);
/// What an emulator and its firmware come in.
const PACKAGES: [&str; 4] = ["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios"];

/// A QEMU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Emulator {
    /// The program.
    pub program: PathBuf,
    /// Arguments that only say where its firmware is; no part of what names a run.
    pub firmware: Vec<String>,
    /// First line of `--version`.
    pub version: String,
}

impl Emulator {
    /// An emulator fit for so many CPUs.
    pub fn find(cpus: u32) -> Result<Emulator, RealError> {
        if let Some(chosen) = std::env::var_os("SCHEDLAB_QEMU").filter(|value| !value.is_empty()) {
            let emulator = Emulator::at(PathBuf::from(chosen))?;
            return if cpus == 1 || emulator.fair() { Ok(emulator) } else { Err(too_old(&emulator)) };
        }
        let system = Emulator::at(PathBuf::from(QEMU))?;
        if cpus == 1 || system.fair() {
            return Ok(system);
        }
        match Emulator::kept()? {
            Some(kept) => Ok(kept),
            None => fetch().and_then(|()| Emulator::kept())?.ok_or_else(|| too_old(&system)),
        }
    }

    /// The same without fetching one.
    pub fn here(cpus: u32) -> Option<Emulator> {
        if let Some(chosen) = std::env::var_os("SCHEDLAB_QEMU").filter(|value| !value.is_empty()) {
            return Emulator::at(PathBuf::from(chosen)).ok();
        }
        let system = Emulator::at(PathBuf::from(QEMU)).ok().filter(|system| cpus == 1 || system.fair());
        system.or_else(|| if cpus == 1 { None } else { Emulator::kept().ok().flatten() })
    }

    fn at(program: PathBuf) -> Result<Emulator, RealError> {
        let firmware = firmware(&program);
        let version = output(Command::new(&program).arg("--version"))?;
        Ok(Emulator { program, firmware, version: version.lines().next().unwrap_or_default().to_string() })
    }

    fn fair(&self) -> bool {
        number(&self.version).is_some_and(|number| number >= FAIR)
    }

    /// The one in the cache.
    fn kept() -> Result<Option<Emulator>, RealError> {
        let program = home().join("usr/bin").join(QEMU);
        if !program.is_file() {
            return Ok(None);
        }
        let emulator = Emulator::at(program)?;
        Ok(Some(emulator).filter(Emulator::fair))
    }
}

fn home() -> PathBuf {
    cache::directory().join("qemu")
}

fn too_old(emulator: &Emulator) -> RealError {
    RealError::Missing {
        what: format!(
            "QEMU 8.1 or newer (this is '{}'), which guests with several CPUs need,",
            emulator.version
        ),
        remedy:
            "install it from the distribution's backports, or set SCHEDLAB_QEMU to the program; 1 CPU works"
                .into(),
    }
}

/// `QEMU emulator version 10.0.2 (Debian ...` -> (10, 0).
fn number(version: &str) -> Option<(u32, u32)> {
    let number = version.split_whitespace().skip_while(|word| *word != "version").nth(1)?;
    let mut parts = number.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// `-L` for a program that is not where its package puts it.
fn firmware(program: &Path) -> Vec<String> {
    let root = program.parent().and_then(Path::parent).filter(|root| root.starts_with(cache::directory()));
    let Some(root) = root else { return Vec::new() };
    let folders = ["share/qemu", "share/seabios"].map(|folder| root.join(folder));
    folders.iter().flat_map(|folder| ["-L".to_string(), folder.display().to_string()]).collect()
}

/// Gets the newest QEMU that this system's backports have into the cache.
fn fetch() -> Result<(), RealError> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename =
        release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or_default();
    let indexes = output(Command::new("apt-get").args(["indextargets", "--format", "$(SITE) $(CODENAME)"]))?;
    let site = indexes.lines().find_map(|line| line.strip_suffix(codename)?.strip_suffix(' '));
    let (Some(site), false) = (site, codename.is_empty()) else {
        return Err(RealError::Missing {
            what: "the package index of this distribution".into(),
            remedy: "run `apt-get update`, or set SCHEDLAB_QEMU to a QEMU 8.1 or newer".into(),
        });
    };
    cache::make(&cache::directory())?;
    let parent = cache::directory();
    let work = tempfile::tempdir_in(&parent).map_err(RealError::io("make a directory in", &parent))?;
    let at = |name: &str| work.path().join(name);
    for folder in ["sources", "lists/partial", "debs"] {
        cache::make(&at(folder))?;
    }
    let sources = format!(
        "Types: deb\nURIs: {site}\nSuites: {codename}-backports\nComponents: main\n\
         Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    );
    cache::write(&at("sources/backports.sources"), sources.as_bytes())?;
    // lists of its own: the system's configuration and lists stay as they are
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-o", "Dir::Etc::SourceList=/dev/null"]);
        for (option, value) in [("Dir::Etc::SourceParts", at("sources")), ("Dir::State::Lists", at("lists"))]
        {
            command.arg("-o").arg(format!("{option}={}", value.display()));
        }
        for option in ["Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", "Acquire::Languages=none"] {
            command.args(["-o", option]);
        }
        output(command.args(["-o", "APT::Sandbox::User=root"]).args(arguments).current_dir(at("debs")))
    };
    apt(&["update"])?;
    let packages = PACKAGES.map(|package| format!("{package}/{codename}-backports"));
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    apt(&[&["download"], names.as_slice()].concat())?;
    let tree = at("tree");
    for package in PACKAGES {
        let deb = first_file(&at("debs"), |name| name.starts_with(&format!("{package}_")))?;
        output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&tree))?;
    }
    let libraries = output(Command::new("ldd").arg(tree.join("usr/bin").join(QEMU)))?;
    let missing: Vec<&str> =
        libraries.lines().filter(|line| line.contains("not found")).map(str::trim).collect();
    if !missing.is_empty() {
        return Err(RealError::Missing {
            what: format!("libraries of QEMU ({})", missing.join("; ")),
            remedy: "install the distribution's own QEMU, which has them: apt-get install qemu-system-x86"
                .into(),
        });
    }
    let home = home();
    if home.exists() {
        fs::remove_dir_all(&home).map_err(RealError::io("remove the old", &home))?;
    }
    fs::rename(&tree, &home).map_err(RealError::io("rename into place", &home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_distinguished() {
        assert_eq!(number("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"), Some((7, 2)));
        assert_eq!(number("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)"), Some((10, 0)));
        assert_eq!(number("something else"), None);
        let fair = |version| number(version).is_some_and(|number| number >= FAIR);
        assert!(fair("QEMU emulator version 10.0.2") && fair("QEMU emulator version 8.1.0"));
        assert!(!fair("QEMU emulator version 7.2.22") && !fair("nothing"));
    }
}
