//! Which configuration does a kernel get, and which versions is the port pinned to?
//!
//! A configuration is `configs/base.config`, then one line for HZ and one for the number of CPUs, then
//! `configs/SERIES.config` if there is one. A later line for an option replaces an earlier one; `CONFIG_X=absent` says that
//! the series has no such option. Everything not named is off.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::{BuildError, BuildOptions, io};

/// `versions/SERIES.toml`: what the port was last tested with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    /// Package version that the checksums belong to.
    pub(super) version: String,
    /// Make target that compiles all objects and stops before linking vmlinux.
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
        let plain = series.chars().all(|c| c.is_ascii_digit() || c == '.');
        if !plain || !path.is_file() {
            return Err(BuildError::Version { asked: series.to_owned(), known: known(port)?.join(", ") });
        }
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        toml::from_str(&text).map_err(|e| BuildError::Damaged { path, why: e.to_string() })
    }
}

pub(super) fn known(port: &Path) -> Result<Vec<String>, BuildError> {
    let files = super::cache::sorted_entries(&port.join("versions"))?;
    Ok(files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "toml"))
        .filter_map(|f| Some(f.file_stem()?.to_string_lossy().into_owned()))
        .collect())
}

/// A configuration as asked for.
pub(super) struct Wanted {
    text: String,
}

impl Wanted {
    pub(super) fn new(port: &Path, series: &str, options: &BuildOptions) -> Result<Wanted, BuildError> {
        let dir = port.join("configs");
        let read = |name: &str| -> Result<String, BuildError> {
            let path = dir.join(name);
            fs::read_to_string(&path).map_err(io("read", &path))
        };
        let choose = |what, prefix: &str, value: u32| -> Result<String, BuildError> {
            if dir.join(format!("{prefix}-{value}.config")).is_file() {
                return read(&format!("{prefix}-{value}.config"));
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
            read("base.config")?,
            choose("HZ", "hz", options.hz)?,
            choose("NR_CPUS", "cpus", options.nr_cpus)?,
        ];
        if dir.join(format!("{series}.config")).is_file() {
            parts.push(read(&format!("{series}.config"))?);
        }
        Ok(Wanted { text: merge(&parts) })
    }

    /// `CONFIG_X=value` lines, sorted.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Lines that a .config does not have.
    pub(super) fn missing_in(&self, config: &str) -> Vec<&str> {
        self.text.lines().filter(|wanted| !config.lines().any(|line| line == *wanted)).collect()
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
        let parts = ["# why\nCONFIG_B=y\nCONFIG_A=1\nCONFIG_C=y\n", "CONFIG_A=2\n\nCONFIG_C=absent\n"].map(String::from);
        assert_eq!(merge(&parts), "CONFIG_A=2\nCONFIG_B=y\n");
    }

    #[test]
    fn what_is_missing_is_named() {
        let wanted = Wanted { text: "CONFIG_A=2\nCONFIG_B=y\n".into() };
        assert_eq!(wanted.missing_in("CONFIG_A=25\n# CONFIG_B is not set\n"), ["CONFIG_A=2", "CONFIG_B=y"]);
        assert!(wanted.missing_in("x\nCONFIG_B=y\nCONFIG_A=2\n").is_empty());
    }

    /// The repository's own files: every series and flavour has a configuration.
    #[test]
    fn all_flavours_have_a_configuration() {
        let port = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux");
        for series in known(&port).unwrap() {
            Pin::read(&port, &series).unwrap();
            for hz in [100, 250, 1000] {
                for nr_cpus in [64, 1024] {
                    let wanted = Wanted::new(&port, &series, &BuildOptions { hz, nr_cpus }).unwrap();
                    assert!(wanted.text().contains(&format!("CONFIG_HZ_{hz}=y\n")));
                    assert!(wanted.text().contains(&format!("CONFIG_NR_CPUS={nr_cpus}\n")));
                }
            }
            let odd = Wanted::new(&port, &series, &BuildOptions { hz: 251, nr_cpus: 64 });
            let message = odd.err().unwrap().to_string();
            assert_eq!(message, "there is no configuration with HZ 251; there is one for 100, 250, 300, 1000");
        }
        let unknown = Pin::read(&port, "2.0").unwrap_err().to_string();
        assert!(unknown.starts_with("there is no port for Linux '2.0'; there is one for "), "{unknown}");
    }
}
