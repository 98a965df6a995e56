//! How does an unmodified Linux become a library that the simulator can load?
//!
//! ```text
//! linux-source-6.12 (Debian package, verified)      linux/arch-warp (the port)      linux/configs
//!        | unpack what is needed, once                    | copy                         |
//!        v                                                v                              v
//!   sources/6.12-<sum>/  <--symlinks-- kernels/6.12-hz250-cpus64-<key>/src/arch/warp   build/.config
//!                                                 | the kernel's own build: make ARCH=warp
//!                                                 v
//!                                         linux.so, kernel.toml
//! ```
//!
//! The cache is `$SCHEDLAB_CACHE`, or `schedlab` under `$XDG_CACHE_HOME` or `~/.cache`. A kernel's folder is named by a
//! checksum of everything that goes into it (source tarball, port, configuration, compiler), so asking again is instant,
//! and a change of the port gives another folder. `kernel.toml` is written last: a folder without it is unfinished.
//! Calls from several processes wait for each other at a lock file.

mod cache;
mod check;
mod config;
mod make;
mod source;
mod tools;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use check::{CheckReport, Difference, SchedPin, check};

/// What can be chosen about a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// Ticks per second: 100, 250, 300 or 1000. Debian's kernels have 250.
    pub hz: u32,
    /// Most CPUs that it can have: 64 (small CPU masks, fast) or 1024.
    pub nr_cpus: u32,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions { hz: 250, nr_cpus: 64 }
    }
}

/// Where the work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done now, e.g. `compiling`.
    pub step: &'static str,
    /// Units done of this step; files, for `compiling`.
    pub done: u64,
    /// Units in all; 0 if unknown.
    pub total: u64,
}

/// A kernel object that is ready to be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltKernel {
    /// Series, e.g. `6.12`.
    pub series: String,
    /// The source package's exact version, e.g. `6.12.117-1~deb12u1`.
    pub version: String,
    /// Ticks per second.
    pub hz: u32,
    /// Most CPUs.
    pub nr_cpus: u32,
    /// sha256 of the source tarball.
    pub tarball_sha256: String,
    /// The tarball it came from.
    pub tarball: PathBuf,
    /// Unpacked source.
    pub source: PathBuf,
    /// Key over everything that went into it.
    pub key: String,
    /// The compiler's version line.
    pub compiler: String,
    /// How long the build took, s.
    pub build_s: u64,
    /// The folder that holds it.
    #[serde(skip)]
    pub dir: PathBuf,
}

impl BuiltKernel {
    /// The shared object.
    pub fn object(&self) -> PathBuf {
        self.dir.join("linux.so")
    }

    /// The name that `--sched` takes: `linux-6.12`.
    pub fn name(&self) -> String {
        format!("linux-{}", self.series)
    }
}

/// Why a kernel cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs are missing.
    #[error("building a kernel needs {missing}, not found in PATH; on Debian: apt-get install {packages}")]
    Tools {
        /// The programs.
        missing: String,
        /// Packages that have them.
        packages: String,
    },
    /// No such kernel.
    #[error("there is no port for Linux '{asked}'; there is one for {known}")]
    Version {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// A number that no configuration exists for.
    #[error("there is no configuration with {what} {asked}; there is one for {known}")]
    Option {
        /// `HZ` or `NR_CPUS`.
        what: &'static str,
        /// What was asked for.
        asked: u32,
        /// What there is.
        known: String,
    },
    /// The source package cannot be had.
    #[error("no source of Linux {series}: {why}; install it with 'apt-get install linux-source-{series}'")]
    Source {
        /// Series.
        series: String,
        /// What was tried and what came of it.
        why: String,
    },
    /// The installed tarball is not the package's.
    #[error("{path} does not have the checksum that its package gives ({why}); reinstall linux-source-{series}")]
    Verify {
        /// The tarball.
        path: PathBuf,
        /// What differs.
        why: String,
        /// Series.
        series: String,
    },
    /// The port's folder is not there.
    #[error(
        "the folder 'linux' with the port is not found; looked at $SCHEDLAB_LINUX_DIR, above the program, above the current folder; set SCHEDLAB_LINUX_DIR"
    )]
    Port,
    /// The kernel's configuration does not come out as written.
    #[error("Linux {series} does not accept these configuration lines: {lines}; full configuration in {config}")]
    Config {
        /// Series.
        series: String,
        /// Lines.
        lines: String,
        /// The .config.
        config: PathBuf,
    },
    /// A step of the build failed.
    #[error("{step} failed; last lines of {log}:\n{tail}")]
    Step {
        /// Which.
        step: &'static str,
        /// Full log.
        log: PathBuf,
        /// Its end.
        tail: String,
    },
    /// The file system refuses something.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// Verb.
        doing: &'static str,
        /// Object.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file of ours or of the cache is not as it should be.
    #[error("{path}: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// Nothing to remove or check.
    #[error("no kernel '{name}' in {cache}; 'schedlab linux list' shows what is there")]
    NotInstalled {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        cache: PathBuf,
    },
}

/// Attach verb and path to an I/O error.
pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Io { doing, path, source }
}

/// Build a kernel, or find it already built. `series` is e.g. `6.12`.
pub fn add(
    series: &str,
    options: &BuildOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuiltKernel, BuildError> {
    let started = std::time::Instant::now();
    let step = |step| Progress { step, done: 0, total: 0 };
    let port = source::port_dir()?;
    let pin = config::Pin::read(&port, series)?;
    let wanted = config::Wanted::new(&port, series, options)?;
    tools::check()?;
    let cache = cache::Cache::open()?;
    progress(step("finding the source"));
    let tarball = source::find(&cache, series, progress)?;
    let compiler = tools::compiler_version()?;
    let key = cache::key(&port, &[&tarball.sha256, wanted.text(), &compiler])?;
    let name = format!("{series}-hz{}-cpus{}-{}", options.hz, options.nr_cpus, &key[..12]);
    let dir = cache.kernel_dir(&name);
    if let Some(built) = cache::read_kernel(&dir) {
        return Ok(built);
    }
    progress(step("waiting for another build"));
    let _lock = cache.lock()?;
    if let Some(built) = cache::read_kernel(&dir) {
        return Ok(built);
    }
    cache::remove_dir(&dir)?;
    let source = source::unpack(&cache, series, &tarball, progress)?;
    make::build(&make::Job { dir: &dir, source: &source, port: &port, wanted: &wanted, pin: &pin }, progress)?;
    let built = BuiltKernel {
        series: series.to_owned(),
        version: tarball.version,
        hz: options.hz,
        nr_cpus: options.nr_cpus,
        tarball_sha256: tarball.sha256,
        tarball: tarball.path,
        source,
        key,
        compiler,
        build_s: started.elapsed().as_secs(),
        dir: dir.clone(),
    };
    cache::write_kernel(&built)?;
    progress(step("done"));
    Ok(built)
}

/// All kernels in the cache that are complete, newest port last, by series, HZ and CPUs.
pub fn installed() -> Result<Vec<BuiltKernel>, BuildError> {
    cache::Cache::open()?.kernels()
}

/// The built kernel with these properties, made with the present port, if there is one; does not build.
pub fn find(series: &str, options: &BuildOptions) -> Result<Option<BuiltKernel>, BuildError> {
    let matching = |k: &BuiltKernel| k.series == series && k.hz == options.hz && k.nr_cpus == options.nr_cpus;
    let port = source::port_dir()?;
    let wanted = config::Wanted::new(&port, series, options)?;
    for kernel in installed()?.into_iter().filter(matching) {
        if cache::key(&port, &[&kernel.tarball_sha256, wanted.text(), &kernel.compiler])? == kernel.key {
            return Ok(Some(kernel));
        }
    }
    Ok(None)
}

/// Series that there is a port for, e.g. `6.12`.
pub fn known_series() -> Result<Vec<String>, BuildError> {
    config::known(&source::port_dir()?)
}

/// Remove all kernels of a series from the cache, and its unpacked source. Returns how many kernels.
pub fn remove(series: &str) -> Result<usize, BuildError> {
    let cache = cache::Cache::open()?;
    let _lock = cache.lock()?;
    let n = cache.remove(series)?;
    if n == 0 {
        return Err(BuildError::NotInstalled { name: series.to_owned(), cache: cache.root().to_owned() });
    }
    Ok(n)
}
