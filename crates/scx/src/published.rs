//! Where is a scheduler that is published as a crate? Fetched by cargo, as any crate is, into its own registry folder.
//!
//! ```text
//! bpfland  ->  scx_bpfland =1.0.6 and scx_utils =1.0.6 (headers; from 1.1 on scx_cargo)
//!          ->  ~/.cargo/registry/src/INDEX/scx_bpfland-1.0.6/src/bpf/main.bpf.c
//! ```
//!
//! cargo checks what it fetches against the index. Only the C files are used; nothing of the crates is built or run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ScxError;

/// Version of the schedulers' crates that a series of kernels is tried with.
const TRIED: [(&str, &str); 2] = [("6.12", "1.0.6"), ("7.2", "1.1.4")];

/// A published scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// `bpfland`
    pub name: String,
    /// `1.0.6`
    pub version: String,
}

impl Published {
    /// `bpfland`, or `bpfland-1.0.6`; without a version the one that this kernel was tried with.
    pub fn parse(text: &str, kernel: &str) -> Option<Published> {
        let text = text.strip_prefix("scx_").unwrap_or(text);
        let word = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let (name, version) = match text.rsplit_once('-') {
            Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => (name, version),
            _ => (text, TRIED.iter().find(|(series, _)| *series == kernel)?.1),
        };
        let plain = version.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
        (word(name) && plain).then(|| Published { name: name.to_owned(), version: version.to_owned() })
    }

    /// The scheduler's source, if cargo has fetched it.
    pub fn find(&self) -> Option<PathBuf> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
        let sources = fs::read_dir(home.join("registry/src")).ok()?;
        let mut found: Vec<PathBuf> = sources
            .flatten()
            .map(|index| index.path().join(format!("scx_{}-{}/src/bpf/main.bpf.c", self.name, self.version)))
            .filter(|file| file.is_file())
            .collect();
        found.sort();
        found.into_iter().next()
    }

    /// The crate that has its headers.
    fn headers(&self) -> &'static str {
        if self.version.starts_with("1.0.") { "scx_utils" } else { "scx_cargo" }
    }

    /// Have cargo fetch it, with the crate that has its headers.
    pub fn fetch(&self) -> Result<PathBuf, ScxError> {
        if let Some(file) = self.find() {
            return Ok(file);
        }
        let dir = std::env::temp_dir().join(format!("schedlab-fetch-{}", std::process::id()));
        let io = |source| ScxError::Io { doing: "write", path: dir.clone(), source };
        let manifest = format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n\
                scx_{} = \"={}\"\n{} = \"={}\"\n",
            self.name,
            self.version,
            self.headers(),
            self.version
        );
        fs::create_dir_all(dir.join("src")).map_err(io)?;
        fs::write(dir.join("Cargo.toml"), manifest).map_err(io)?;
        fs::write(dir.join("src/lib.rs"), "").map_err(io)?;
        let result = fetch_in(&dir);
        drop(fs::remove_dir_all(&dir));
        result?;
        let why = format!("the crate scx_{} {} has no src/bpf/main.bpf.c", self.name, self.version);
        self.find().ok_or(ScxError::Step { doing: "fetching the scheduler's crate", text: why })
    }
}

fn fetch_in(dir: &Path) -> Result<(), ScxError> {
    let output = Command::new("cargo")
        .args(["fetch", "--quiet"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|_| ScxError::Tool { program: "cargo".into(), package: "cargo" })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ScxError::Step { doing: "fetching the scheduler's crate", text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions() {
        let parsed = |text, kernel| Published::parse(text, kernel).map(|p| (p.name, p.version));
        let of = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(parsed("lavd", "6.12"), of("lavd", "1.0.6"));
        assert_eq!(parsed("scx_lavd-1.0.17", "6.12"), of("lavd", "1.0.17"));
        assert_eq!(parsed("lavd", "5.10"), None);
        assert_eq!(parsed("../lavd", "6.12"), None);
    }
}
