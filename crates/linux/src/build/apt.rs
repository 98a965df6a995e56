//! In which of Debian's suites is a kernel's source package, and how is it had without touching the system's apt?
//!
//! A private apt configuration: own source list, package index and cache below a folder of ours. The mirrors
//! are the system's own (`apt-get indextargets` names them), the suites are all that may have kernels, and
//! every index is verified with the archive's keyring, as apt does for the system.
//!
//! ```text
//! system: https://MIRROR/debian bookworm      private: https://MIRROR/debian bullseye bookworm trixie forky sid ...
//!         https://MIRROR/debian-security              https://MIRROR/debian-security bullseye-security ...
//! apt-cache madison linux-source-7.2  ->  7.2.13-1 sid, 7.2.12-1 forky -> apt-get download linux-source-7.2=7.2.13-1
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{BuildError, io, tools};

/// Debian's suites from 11 (Linux 5.10) on, oldest first.
const SUITES: [&str; 6] = ["bullseye", "bookworm", "trixie", "forky", "sid", "experimental"];
const SECURITY: [&str; 4] = ["bullseye-security", "bookworm-security", "trixie-security", "forky-security"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A package version in some suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) package: String,
    pub(super) version: String,
    /// Where it is, for messages: `sid/main`.
    pub(super) suite: String,
}

/// A private apt. Its folder is removed when it goes out of scope.
pub(super) struct Apt {
    dir: PathBuf,
}

impl Drop for Apt {
    fn drop(&mut self) {
        // nothing depends on it; what stays behind is removed with the cache
        drop(fs::remove_dir_all(&self.dir));
    }
}

impl Apt {
    /// Fetches the package indexes of `suites` (all if empty) from the mirrors that the system uses.
    /// `Err(Ok(why))`: cannot be had here.
    pub(super) fn open(dir: PathBuf, suites: &[String]) -> Result<Apt, Result<String, BuildError>> {
        if tools::in_path("apt-get").is_none() {
            return Err(Ok("there is no apt-get".into()));
        }
        let mirrors = mirrors().map_err(Err)?;
        if mirrors.is_empty() {
            return Err(Ok("the system's apt has no Debian mirror".into()));
        }
        for sub in ["etc", "lists/partial", "cache/archives/partial"] {
            let path = dir.join(sub);
            fs::create_dir_all(&path).map_err(|e| Err(io("create", &path)(e)))?;
        }
        let apt = Apt { dir };
        let list = apt.dir.join("etc/schedlab.sources");
        fs::write(&list, sources(&mirrors, suites)).map_err(|e| Err(io("write", &list)(e)))?;
        // a suite that a mirror lacks is an error of apt's, but the others' indexes are there
        let output = apt.run("apt-get", &["update", "-q"]).map_err(Err)?;
        if apt.indexes() == 0 {
            return Err(Ok(format!("'apt-get update' says: {}", last_words(&output))));
        }
        Ok(apt)
    }

    fn indexes(&self) -> usize {
        let entries = fs::read_dir(self.dir.join("lists")).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().contains("_Packages")).count()
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<Output, BuildError> {
        let d = self.dir.display();
        let mut command = Command::new(program);
        for option in [
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            format!("Dir::Etc::SourceParts={d}/etc"),
            "Dir::Etc::Preferences=/dev/null".to_owned(),
            "Dir::Etc::PreferencesParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={d}/lists"),
            format!("Dir::Cache={d}/cache"),
            format!("Dir::Cache::archives={d}/cache/archives"),
            "Dir::Cache::pkgcache=".to_owned(),
            "Dir::Cache::srcpkgcache=".to_owned(),
            // packages only: no translations, no software-centre data
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::CNF::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            // the newest wins, whatever suite it is in
            "APT::Default-Release=".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command.args(args).env("LC_ALL", "C").current_dir(&self.dir);
        command.output().map_err(io("run", Path::new(program)))
    }

    /// All versions of a package, newest first.
    pub(super) fn versions(&self, package: &str) -> Result<Vec<Candidate>, BuildError> {
        let output = self.run("apt-cache", &["madison", package])?;
        let mut found = madison(&String::from_utf8_lossy(&output.stdout));
        newest_first(&mut found, |c| &c.version)?;
        Ok(found)
    }

    /// Series of which there is a source package: `5.10`, `7.2`.
    pub(super) fn series(&self) -> Result<Vec<String>, BuildError> {
        let output = self.run("apt-cache", &["search", "--names-only", "^linux-source-[0-9]"])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().filter_map(|l| l.split(' ').next()?.strip_prefix("linux-source-"));
        Ok(names.filter(|n| n.chars().all(|c| c.is_ascii_digit() || c == '.')).map(str::to_owned).collect())
    }

    /// Downloads a package into a folder; apt verifies it by the signed index. `Ok(Err(why))`: refused.
    pub(super) fn download(&self, wanted: &Candidate, to: &Path) -> Result<Result<(), String>, BuildError> {
        let name = format!("{}={}", wanted.package, wanted.version);
        let output = self.run("apt-get", &["download", "-q", &name])?;
        if !output.status.success() {
            return Ok(Err(format!("'apt-get download {name}' says: {}", last_words(&output))));
        }
        for file in super::cache::sorted_entries(&self.dir)? {
            if file.extension().is_some_and(|e| e == "deb") {
                let target = to.join(file.file_name().unwrap_or_default());
                fs::rename(&file, &target).map_err(io("write", &target))?;
            }
        }
        Ok(Ok(()))
    }
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> =
        text.lines().filter(|l| l.starts_with("E:") || l.starts_with("Err:")).take(3).collect();
    if lines.is_empty() { text.trim().replace('\n', "; ") } else { lines.join("; ") }
}

/// The Debian mirrors that the system's apt uses: URI and whether it is the security archive.
fn mirrors() -> Result<Vec<(String, bool)>, BuildError> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
        .env("LC_ALL", "C")
        .output()
        .map_err(io("run", "apt-get".as_ref()))?;
    Ok(debian_mirrors(&String::from_utf8_lossy(&output.stdout)))
}

fn debian_mirrors(text: &str) -> Vec<(String, bool)> {
    let uris: BTreeSet<&str> = text.lines().map(|l| l.trim().trim_end_matches('/')).collect();
    let mut found = Vec::new();
    for uri in uris {
        match uri.rsplit('/').next() {
            Some("debian") => found.push((uri.to_owned(), false)),
            Some("debian-security") => found.push((uri.to_owned(), true)),
            _ => {}
        }
    }
    found
}

/// A deb822 source list.
fn sources(mirrors: &[(String, bool)], wanted: &[String]) -> String {
    let mut text = String::new();
    for (uri, security) in mirrors {
        let known: &[&str] = if *security { &SECURITY } else { &SUITES };
        let suites: Vec<&str> =
            known.iter().copied().filter(|s| wanted.is_empty() || wanted.iter().any(|w| w == s)).collect();
        if suites.is_empty() {
            continue;
        }
        text.push_str(&format!("Types: deb\nURIs: {uri}\nSuites: {}\nComponents: main\n", suites.join(" ")));
        if Path::new(KEYRING).is_file() {
            text.push_str(&format!("Signed-By: {KEYRING}\n"));
        }
        text.push('\n');
    }
    text
}

/// `linux-source-7.2 |   7.2.13-1 | http://MIRROR/debian sid/main amd64 Packages`
fn madison(text: &str) -> Vec<Candidate> {
    let line = |line: &str| {
        let mut parts = line.split('|').map(str::trim);
        let (package, version, place) = (parts.next()?, parts.next()?, parts.next()?);
        if !place.ends_with("Packages") {
            return None;
        }
        let suite = place.split(' ').nth(1)?;
        Some(Candidate { package: package.into(), version: version.into(), suite: suite.into() })
    };
    text.lines().filter_map(line).collect()
}

/// Sorts by Debian's order of versions.
pub(super) fn newest_first<T>(list: &mut [T], version: impl Fn(&T) -> &str) -> Result<(), BuildError> {
    // few elements, and dpkg knows the rules
    for i in 1..list.len() {
        let mut at = i;
        while at > 0 && newer(version(&list[at]), version(&list[at - 1]))? {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
    Ok(())
}

fn newer(a: &str, b: &str) -> Result<bool, BuildError> {
    let status = Command::new("dpkg").args(["--compare-versions", a, "gt", b]).status();
    Ok(status.map_err(io("run", "dpkg".as_ref()))?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_mirrors_of_the_system_are_used() {
        let text = "http://a.example/debian/\nhttp://a.example/debian/\nhttp://a.example/debian-security/\n\
            https://b.example/node_20.x/\n";
        let found = debian_mirrors(text);
        assert_eq!(
            found,
            [
                ("http://a.example/debian".to_owned(), false),
                ("http://a.example/debian-security".to_owned(), true)
            ]
        );
        let list = sources(&found, &["sid".to_owned()]);
        assert!(
            list.starts_with("Types: deb\nURIs: http://a.example/debian\nSuites: sid\nComponents: main\n"),
            "{list}"
        );
        assert!(!list.contains("security"), "{list}");
        let list = sources(&found, &[]);
        assert!(list.contains("Suites: bullseye bookworm trixie forky sid experimental\n"), "{list}");
        assert!(list.contains("Suites: bullseye-security bookworm-security"), "{list}");
    }

    /// The order is dpkg's: 5.10.99 before 5.10.223, a backport (~) before what it was made from.
    #[test]
    fn the_newest_version_is_first() {
        let text = "\
linux-source-5.10 | 5.10.99-1 | http://a.example/debian bullseye/main amd64 Packages
linux-source-5.10 | 5.10.223-1~deb10u1 | http://a.example/debian bullseye/main amd64 Packages
linux-source-5.10 | 5.10.223-1 | http://a.example/debian bullseye/main amd64 Packages
 linux-5.10 | 5.10.234-1 | http://a.example/debian bullseye/main Sources
";
        let mut found = madison(text);
        newest_first(&mut found, |c| &c.version).unwrap();
        let versions: Vec<&str> = found.iter().map(|c| &*c.version).collect();
        assert_eq!(versions, ["5.10.223-1", "5.10.223-1~deb10u1", "5.10.99-1"]);
        assert_eq!(found[0].suite, "bullseye/main");
    }
}
