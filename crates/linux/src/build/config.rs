//! Which configuration does a kernel get, and which versions is the port pinned to?
//!
//! A configuration is `configs/base.config`, one line for HZ, one for the number of CPUs,
//! `configs/SERIES.config` if there is one, then the fragment of each flavour:
//! `configs/flavours/NAME.config`, or a file that the user has given (`--fragment`). A later line for an
//! option replaces an earlier one; `CONFIG_X=absent` says that there is no such option. Everything not named
//! is off.
//!
//! `versions/SERIES.toml` says how a series is built. A version that was never tried is built like the newest
//! tried series that is not newer than itself (`from`): 6.6 like 6.12, whose settings hold from 6.2 on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::cache::version_key;
use super::{BuildError, BuildOptions, io};

/// `versions/SERIES.toml`: what the port was last tested with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    /// The series; from the file's name.
    #[serde(skip)]
    pub(super) series: String,
    /// Package version that the checksums belong to.
    pub(super) version: String,
    /// The first version for which these settings hold.
    pub(super) from: String,
    /// Suites of Debian that have the package; all are looked through if these do not.
    pub(super) suites: Vec<String>,
    /// Make targets that compile all objects and stop before linking vmlinux, separated by spaces.
    pub(super) target: String,
    /// What make leaves behind: the archives to link whole.
    pub(super) archives: Vec<String>,
    /// About how many files are compiled; for the progress display.
    pub(super) files: u64,
    /// sha256 over the sorted list `sha256  name` of all files in kernel/sched, as sha256sum(1) prints it.
    pub(super) sched_sha256: String,
}

impl Pin {
    pub(super) fn read(port: &Path, series: &str) -> Result<Pin, BuildError> {
        let path = port.join("versions").join(format!("{series}.toml"));
        if !plausible(series) || !path.is_file() {
            return Err(BuildError::Version { asked: series.to_owned(), known: known(port)?.join(", ") });
        }
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        let mut pin: Pin =
            toml::from_str(&text).map_err(|e| BuildError::Damaged { path, why: e.to_string() })?;
        series.clone_into(&mut pin.series);
        Ok(pin)
    }

    /// The settings for a version (`6.6.30`): those of its own series, or the nearest.
    pub(super) fn nearest(port: &Path, version: &str) -> Result<Pin, BuildError> {
        let key = version_key(version);
        let mut best: Option<Pin> = None;
        for series in known(port)? {
            let pin = Pin::read(port, &series)?;
            let holds = version_key(&pin.from) <= key;
            if holds && best.as_ref().is_none_or(|b| version_key(&b.from) < version_key(&pin.from)) {
                best = Some(pin);
            }
        }
        best.ok_or_else(|| BuildError::Version {
            asked: version.to_owned(),
            known: known(port).map(|k| k.join(", ")).unwrap_or_default(),
        })
    }
}

/// Whether the version is of a series that the port was tried with.
pub(super) fn is_tried(port: &Path, version: &str) -> Result<bool, BuildError> {
    let key = version_key(version);
    Ok(known(port)?.iter().any(|series| key.starts_with(&version_key(series)[..2])))
}

/// `6.12`, not `../x`.
pub(super) fn plausible(series: &str) -> bool {
    series.starts_with(|c: char| c.is_ascii_digit()) && series.chars().all(|c| c.is_ascii_digit() || c == '.')
}

pub(super) fn known(port: &Path) -> Result<Vec<String>, BuildError> {
    let files = super::cache::sorted_entries(&port.join("versions"))?;
    let mut series: Vec<String> = files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "toml"))
        .filter_map(|f| Some(f.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    series.sort_by_key(|s| version_key(s));
    Ok(series)
}

/// A set of configuration lines with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavour {
    /// Its name, as in `linux-6.12+NAME`.
    pub name: String,
    /// What it is for: the file's first comment.
    pub summary: String,
    /// The file.
    pub path: std::path::PathBuf,
}

/// The port's flavours and those that the user has given, by name.
pub(super) fn flavours(port: &Path, users: &Path) -> Result<Vec<Flavour>, BuildError> {
    let mut found = BTreeMap::new();
    // the port's last: a user cannot give a file that stands in for one of them
    for dir in [users, &port.join("configs/flavours")] {
        for path in super::cache::entries_if_any(dir)? {
            if path.extension().is_none_or(|e| e != "config") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(io("read", &path))?;
            let first = text.lines().next().unwrap_or_default();
            let summary = first.strip_prefix('#').map_or("", str::trim).to_owned();
            found.insert(name.clone(), Flavour { name, summary, path });
        }
    }
    Ok(found.into_values().collect())
}

/// A configuration as asked for.
pub(super) struct Wanted {
    text: String,
    /// `VAR=VALUE` for make, from `#! make VAR=VALUE` lines of flavours.
    pub(super) make_args: Vec<String>,
    /// Arguments for the final link, from `#! link ARG` lines of flavours.
    pub(super) link_args: Vec<String>,
    /// Headers `asm/NAME` that the port takes from `asm-generic/NAME`, from `#! header SINCE NAME` lines of flavours.
    pub(super) headers: Vec<String>,
    /// The workload that the kernel is trained with (`configs/profiles/FILE`), from a `#! profile FILE` line
    /// of a flavour.
    pub(super) profile: Option<PathBuf>,
}

impl Wanted {
    /// `series` is that of the settings; `users` is the folder with the user's own fragments.
    pub(super) fn new(
        port: &Path,
        users: &Path,
        series: &str,
        options: &BuildOptions,
    ) -> Result<Wanted, BuildError> {
        let dir = port.join("configs");
        let read = |path: &Path| fs::read_to_string(path).map_err(io("read", path));
        let choose = |what, prefix: &str, value: u32| -> Result<String, BuildError> {
            let path = dir.join(format!("{prefix}-{value}.config"));
            if path.is_file() {
                return read(&path);
            }
            let known = super::cache::sorted_entries(&dir)?;
            let names = known.iter().filter_map(|p| p.file_stem()).map(|s| s.to_string_lossy().into_owned());
            let mut numbers: Vec<u32> =
                names.filter_map(|n| n.strip_prefix(&format!("{prefix}-"))?.parse().ok()).collect();
            numbers.sort_unstable();
            let known = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(BuildError::Option { what, asked: value, known })
        };
        let mut parts = vec![
            read(&dir.join("base.config"))?,
            choose("HZ", "hz", options.hz)?,
            choose("NR_CPUS", "cpus", options.nr_cpus)?,
        ];
        let of_series = dir.join(format!("{series}.config"));
        if of_series.is_file() {
            parts.push(read(&of_series)?);
        }
        let known = flavours(port, users)?;
        for wanted in &options.flavours {
            let Some(flavour) = known.iter().find(|f| f.name == *wanted) else {
                let names: Vec<&str> = known.iter().map(|f| &*f.name).collect();
                return Err(BuildError::Flavour { asked: wanted.clone(), known: names.join(", ") });
            };
            parts.push(read(&flavour.path)?);
        }
        let directive = |prefix: &str| -> Vec<String> {
            let lines = parts.iter().flat_map(|part| part.lines());
            lines
                .filter_map(|l| l.strip_prefix("#! ")?.strip_prefix(prefix))
                .map(|l| l.trim().to_owned())
                .collect()
        };
        let (make_args, link_args) = (directive("make "), directive("link "));
        // only where the version has it: a kernel that needs it not is the same with and without the line
        let number = |v: &str| -> Vec<u32> { v.split('.').map_while(|n| n.parse().ok()).collect() };
        let headers: Vec<String> = directive("header ")
            .iter()
            .filter_map(|line| line.split_once(' '))
            .filter(|(since, _)| number(series) >= number(since))
            .map(|(_, name)| name.trim().to_owned())
            .collect();
        let profile = directive("profile ").last().map(|file| dir.join("profiles").join(file));
        let mut text = merge(&parts);
        let named = |kind, list: &Vec<String>| -> Vec<(&str, String)> {
            list.iter().map(|a| (kind, a.clone())).collect()
        };
        for line in [named("make", &make_args), named("link", &link_args), named("header", &headers)].concat()
        {
            text.push_str(&format!("#! {} {}\n", line.0, line.1));
        }
        if let Some(path) = &profile {
            text.push_str(&format!("#! profile {}\n", super::profile::recipe(path)?));
        }
        Ok(Wanted { text, make_args, link_args, headers, profile })
    }

    /// `CONFIG_X=value` lines, sorted, then the flavours' build arguments as comments: all that the result depends on.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Lines that a .config does not have.
    pub(super) fn missing_in(&self, config: &str) -> Vec<&str> {
        let wanted = self.text.lines().filter(|l| l.starts_with("CONFIG_"));
        wanted.filter(|wanted| !config.lines().any(|line| line == *wanted)).collect()
    }
}

fn merge(parts: &[String]) -> String {
    let mut options = BTreeMap::new();
    for line in parts.iter().flat_map(|part| part.lines()).map(str::trim) {
        if let Some((name, value)) = line.split_once('=').filter(|_| line.starts_with("CONFIG_")) {
            options.insert(name, value);
        }
    }
    options.retain(|_, value| *value != "absent");
    options.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_replace_and_remove() {
        let parts = ["# why\nCONFIG_B=y\nCONFIG_A=1\nCONFIG_C=y\n", "CONFIG_A=2\n\nCONFIG_C=absent\n"]
            .map(String::from);
        assert_eq!(merge(&parts), "CONFIG_A=2\nCONFIG_B=y\n");
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = "CONFIG_A=2\nCONFIG_B=y\n#! make KCFLAGS=-g\n".into();
        let wanted =
            Wanted { text, make_args: Vec::new(), link_args: Vec::new(), headers: Vec::new(), profile: None };
        assert_eq!(wanted.missing_in("CONFIG_A=25\n# CONFIG_B is not set\n"), ["CONFIG_A=2", "CONFIG_B=y"]);
        assert!(wanted.missing_in("x\nCONFIG_B=y\nCONFIG_A=2\n").is_empty());
    }

    /// Settings are those of the nearest tried series that is not newer.
    #[test]
    fn an_untried_version_is_built_like_its_nearest_relative() {
        let port = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux");
        let near = |v: &str| Pin::nearest(&port, v).map(|p| p.series).map_err(|e| e.to_string());
        for (version, series) in [
            ("5.10", "5.10"),
            ("5.15.3", "5.10"),
            ("6.1.1", "6.1"),
            ("6.6", "6.12"),
            ("6.12.5", "6.12"),
            ("6.18", "6.12"),
            ("7.2.1", "7.2"),
            ("8.0", "7.2"),
        ] {
            assert_eq!(near(version).as_deref(), Ok(series), "{version}");
        }
        assert!(near("5.4.1").unwrap_err().starts_with("there is no port for Linux '5.4.1'"));
    }

    /// Two kernels of the flavour pgo are one only if they were trained with the same workload.
    #[test]
    fn the_training_is_part_of_the_key() {
        let port = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = port.path().join("configs").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for name in ["base", "hz-250", "cpus-64"] {
            write(&format!("{name}.config"), "CONFIG_A=y\n");
        }
        write("flavours/pgo.config", "# trained\n#! profile mix.txt\n#! make KCFLAGS=-g1\n");
        write("profiles/mix.txt", "one");
        let options = BuildOptions { flavours: vec!["pgo".into()], ..BuildOptions::default() };
        let wanted = || Wanted::new(port.path(), port.path(), "6.12", &options).unwrap();
        let first = wanted();
        assert_eq!(first.profile.as_deref(), Some(&*port.path().join("configs/profiles/mix.txt")));
        assert_eq!(first.text(), wanted().text());
        assert!(first.text().contains("-fprofile-use") && first.text().contains("#! make KCFLAGS=-g1\n"));
        write("profiles/mix.txt", "two");
        assert_ne!(first.text(), wanted().text());
    }

    /// The repository's own files: every series and flavour has a configuration.
    #[test]
    fn all_flavours_have_a_configuration() {
        let port = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux");
        let users = tempfile::tempdir().unwrap();
        let users = users.path();
        for series in known(&port).unwrap() {
            Pin::read(&port, &series).unwrap();
            for flavour in flavours(&port, users).unwrap() {
                assert!(!flavour.summary.is_empty(), "{}", flavour.path.display());
            }
            for hz in [100, 250, 1000] {
                for nr_cpus in [64, 1024] {
                    let options = BuildOptions { hz, nr_cpus, ..BuildOptions::default() };
                    let wanted = Wanted::new(&port, users, &series, &options).unwrap();
                    assert!(wanted.text().contains(&format!("CONFIG_HZ_{hz}=y\n")));
                    assert!(wanted.text().contains(&format!("CONFIG_NR_CPUS={nr_cpus}\n")));
                }
            }
            let odd = BuildOptions { hz: 251, ..BuildOptions::default() };
            let odd = Wanted::new(&port, users, &series, &odd);
            let message = odd.err().unwrap().to_string();
            assert_eq!(
                message,
                "there is no configuration with HZ 251; there is one for 100, 250, 300, 1000"
            );
        }
        let unknown = Pin::read(&port, "2.0").unwrap_err().to_string();
        assert!(unknown.starts_with("there is no port for Linux '2.0'; there is one for "), "{unknown}");
    }
}
