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
//! The cache is `$SCHEDLAB_CACHE`, or `schedlab` under `$XDG_CACHE_HOME` or `~/.cache`. A kernel's folder is
//! named by a checksum of everything that goes into it (source tarball, port, configuration, compiler), so
//! asking again is instant, and a change of the port gives another folder. `kernel.toml` is written last: a
//! folder without it is unfinished. Processes that want the same kernel (or the same source unpacked) wait
//! for each other at a lock file.
//!
//! A tree that the user works on (`--source`) and a tarball of the user's have a name (`linux-NAME`). A
//! tree's objects are kept, so that only what was edited is compiled again before the next run.

mod apt;
mod cache;
mod check;
mod config;
pub mod herd;
mod make;
mod named;
mod profile;
mod source;
mod tools;
mod tree;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use config::Pin;

pub use source::port_dir;

pub use check::{CheckReport, Difference, SchedPin, check};
pub use config::Flavour;
pub use named::{Named, add_fragment, add_named, add_tree, named};

/// What can be chosen about a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// Ticks per second: 100, 250, 300 or 1000. Debian's kernels have 250.
    pub hz: u32,
    /// Most CPUs that it can have: 64 (small CPU masks, fast) or 1024.
    pub nr_cpus: u32,
    /// Configuration fragments by name, in this order: of [`flavours`], e.g. `uclamp`.
    pub flavours: Vec<String>,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions { hz: 250, nr_cpus: 64, flavours: Vec::new() }
    }
}

impl BuildOptions {
    /// `hz250-cpus64+uclamp`
    fn tag(&self) -> String {
        format!("hz{}-cpus{}{}", self.hz, self.nr_cpus, plus(&self.flavours))
    }
}

/// Flavours as they stand in a kernel's name: `+a+b`.
pub fn plus(flavours: &[String]) -> String {
    flavours.iter().map(|f| format!("+{f}")).collect()
}

/// Where the work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// What is being done now, e.g. `compiling`.
    pub step: &'static str,
    /// Units done of this step; files, for `compiling`.
    pub done: u64,
    /// Units in all; 0 if unknown.
    pub total: u64,
}

/// Where a kernel's source is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The distributor's package, verified.
    #[default]
    Package,
    /// A tarball of the user's.
    Tarball,
    /// A tree that the user works on.
    Tree,
}

/// A kernel object that is ready to be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltKernel {
    /// Series, e.g. `6.12`; or the name that the user gave to a tree or tarball.
    pub series: String,
    /// The source package's exact version, e.g. `6.12.117-1~deb12u1`; of a tree, what its Makefile and git say.
    pub version: String,
    /// Ticks per second.
    pub hz: u32,
    /// Most CPUs.
    pub nr_cpus: u32,
    /// Configuration fragments.
    #[serde(default)]
    pub flavours: Vec<String>,
    /// Where the source is from.
    #[serde(default)]
    pub origin: Origin,
    /// The tried series whose settings it was built with; empty: its own.
    #[serde(default)]
    pub settings: String,
    /// What the user ought to know about this build.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// sha256 of the source tarball; of a tree, of its path.
    pub tarball_sha256: String,
    /// The tarball it came from, or the tree.
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

    /// The name that `--sched` takes: `linux-6.12`, `linux-6.12+uclamp`.
    pub fn name(&self) -> String {
        format!("linux-{}{}", self.series, plus(&self.flavours))
    }

    /// Its version as numbers: `(6, 12)`.
    pub fn linux_version(&self) -> (u32, u32) {
        let mut parts = self.version.split('.').map(|p| p.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// The options that it was built with.
    pub fn options(&self) -> BuildOptions {
        BuildOptions { hz: self.hz, nr_cpus: self.nr_cpus, flavours: self.flavours.clone() }
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
    #[error(
        "there is no port for Linux '{asked}'; there is one for {known}, and for any tree or tarball from 5.10 on \
            ('schedlab linux add --source DIR', '--tarball FILE')"
    )]
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
    /// No such configuration fragment.
    #[error(
        "there is no flavour '{asked}'; there are {known}; a file of your own: 'schedlab linux add ... --fragment FILE'"
    )]
    Flavour {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// A name that means something else already, or cannot be one.
    #[error("'{name}' cannot be a name: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: String,
    },
    /// Not a kernel tree.
    #[error(
        "{path} is not a Linux source tree (no Makefile with VERSION, PATCHLEVEL and SUBLEVEL beside kernel/sched); \
            give the folder that holds both"
    )]
    NoTree {
        /// The folder.
        path: PathBuf,
    },
    /// A version that the port was never tried with does not build.
    #[error(
        "Linux {version} is none of the versions that the port was tried with ({known}); it was tried with the \
            settings of {settings}, and failed: {source}"
    )]
    Untried {
        /// Its version.
        version: String,
        /// Tried ones.
        known: String,
        /// The series whose settings were taken.
        settings: String,
        /// What went wrong.
        source: Box<BuildError>,
    },
    /// The source package cannot be had.
    #[error(
        "no source of Linux {series}: {why}; install it with 'apt-get install linux-source-{series}', or give a tree \
            (--source DIR) or a tarball (--tarball FILE)"
    )]
    Source {
        /// Series.
        series: String,
        /// What was tried and what came of it.
        why: String,
    },
    /// The installed tarball is not the package's.
    #[error(
        "{path} does not have the checksum that its package gives ({why}); reinstall linux-source-{series}"
    )]
    Verify {
        /// The tarball.
        path: PathBuf,
        /// What differs.
        why: String,
        /// Series.
        series: String,
    },
    /// herd7 cannot be had.
    #[error(
        "there is no herd7: {why}; install Debian's package herdtools7, 7.58 or newer, so that 'herd7' is in PATH, or \
            let the system's apt reach a Debian mirror"
    )]
    Herd {
        /// What was tried and what came of it.
        why: String,
    },
    /// The port's folder is not there.
    #[error(
        "the folder 'linux' with the port is not found; looked at $SCHEDLAB_LINUX_DIR, above the program, above the \
            current folder; set SCHEDLAB_LINUX_DIR"
    )]
    Port,
    /// The kernel's configuration does not come out as written.
    #[error(
        "Linux {series} does not accept these configuration lines: {lines}; full configuration in {config}"
    )]
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
    /// The kernel that was to count what it does most did not.
    #[error(
        "the training of {object} failed: {reason}; a kernel without the flavour makes the same decisions"
    )]
    Training {
        /// The kernel.
        object: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The file system refuses something.
    #[error("cannot {doing} {path}: {source}{}", remedy(doing, source))]
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

/// What to do about a file that cannot be written: nearly all that this crate writes is in the cache.
pub fn remedy(doing: &str, error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    if !["create", "list", "write", "lock", "remove"].contains(&doing) {
        return "";
    }
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free space there, or name a folder on another disk for what is built: SCHEDLAB_CACHE=DIR"
        }
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::NotADirectory
        | ErrorKind::NotFound => "; name a folder that you may write for what is built: SCHEDLAB_CACHE=DIR",
        _ => "",
    }
}

/// Attach verb and path to an I/O error.
pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Io { doing, path, source }
}

/// Build a kernel, or find it already built. `series` is e.g. `6.12`, or a name given by [`add_named`].
pub fn add(
    series: &str,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuiltKernel, BuildError> {
    let step = |step| BuildProgress { step, done: 0, total: 0 };
    let port = source::port_dir()?;
    let cache = cache::Cache::make()?;
    let pin = match Pin::read(&port, series) {
        Ok(pin) => pin,
        Err(unknown) => match Named::read(&cache, series)? {
            Some(named) => return named::build(&cache, &port, &named, options, progress),
            None => return Err(unknown),
        },
    };
    let wanted = config::Wanted::new(&port, &cache.fragments(), series, options)?;
    tools::check()?;
    progress(step("finding the source"));
    let tarball = source::find(&cache, &pin, progress)?;
    let job = Wish { cache: &cache, port: &port, name: series, pin: &pin, wanted: &wanted, options };
    job.build(tarball, Origin::Package, progress)
}

/// What is to be built from a tarball.
struct Wish<'a> {
    cache: &'a cache::Cache,
    port: &'a Path,
    /// Series, or the name of a tarball of the user's.
    name: &'a str,
    pin: &'a Pin,
    wanted: &'a config::Wanted,
    options: &'a BuildOptions,
}

impl Wish<'_> {
    fn build(
        &self,
        tarball: source::Tarball,
        origin: Origin,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<BuiltKernel, BuildError> {
        let started = std::time::Instant::now();
        let step = |step| BuildProgress { step, done: 0, total: 0 };
        let Wish { cache, port, name, pin, wanted, options } = self;
        let compiler = tools::compiler_version()?;
        let key = cache::key(port, &[&tarball.sha256, wanted.text(), &compiler])?;
        let dir = cache.kernel_dir(&format!("{name}-{}-{}", options.tag(), &key[..12]));
        if let Some(built) = cache::read_kernel(&dir) {
            return Ok(built);
        }
        let _lock = cache.lock_one(&dir.file_name().unwrap_or_default().to_string_lossy(), &mut || {
            progress(step("waiting for another build"));
        })?;
        if let Some(built) = cache::read_kernel(&dir) {
            return Ok(built);
        }
        cache::remove_dir(&dir)?;
        let source = source::unpack(cache, name, &tarball, progress)?;
        let version = if origin == Origin::Package { tarball.version } else { tree::version(&source)? };
        let tried = config::is_tried(port, &version)?;
        let is_pinned = origin == Origin::Package;
        let job =
            make::Job { dir: &dir, source: &source, port, wanted, pin, tried, incremental: false, is_pinned };
        let remarks = named::with_version(port, &version, pin, tried, make::build(&job, progress))?;
        let built = BuiltKernel {
            series: (*name).to_owned(),
            version,
            hz: options.hz,
            nr_cpus: options.nr_cpus,
            flavours: options.flavours.clone(),
            origin,
            settings: pin.series.clone(),
            remarks,
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
}

/// All kernels in the cache that are complete, newest port last, by series, HZ and CPUs.
pub fn installed() -> Result<Vec<BuiltKernel>, BuildError> {
    cache::Cache::open()?.kernels()
}

/// The built kernel with these properties, made with the present port, if there is one; does not build. A
/// tree that the user works on is never found: whether it is up to date is known by building.
pub fn find(series: &str, options: &BuildOptions) -> Result<Option<BuiltKernel>, BuildError> {
    let matching =
        |k: &BuiltKernel| k.series == series && k.origin != Origin::Tree && k.options() == *options;
    let port = source::port_dir()?;
    let users = cache::Cache::open()?.fragments();
    for kernel in installed()?.into_iter().filter(matching) {
        let settings = if kernel.settings.is_empty() { series } else { &kernel.settings };
        let wanted = config::Wanted::new(&port, &users, settings, options)?;
        if cache::key(&port, &[&kernel.tarball_sha256, wanted.text(), &kernel.compiler])? == kernel.key {
            return Ok(Some(kernel));
        }
    }
    Ok(None)
}

/// The compiler's arguments for files of `kernel/sched`, without input and output, as this kernel's build noted them.
/// They hold in its folder `build`.
///
/// # Errors
/// The notes are not there, or hold no command.
pub fn sched_flags(kernel: &BuiltKernel) -> Result<Vec<String>, BuildError> {
    let dir = kernel.dir.join("build/kernel/sched");
    // before 5.18 each file is compiled by itself
    let noted = [".build_policy.o.cmd", ".cpupri.o.cmd"].map(|name| dir.join(name));
    let path = noted.iter().find(|path| path.is_file()).unwrap_or(&noted[0]);
    let text = std::fs::read_to_string(path).map_err(io("read", path))?;
    let line = text.lines().next().unwrap_or_default();
    let (_, command) = line.split_once(":= ").ok_or_else(|| BuildError::Damaged {
        path: path.clone(),
        why: "it holds no command; remove the kernel and add it again".into(),
    })?;
    let mut words = command.split(" ; ").next().unwrap_or_default().split_whitespace().skip(1);
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "-c" => {}
            "-o" => drop(words.next()),
            _ if word.starts_with("-Wp,-M") || word.ends_with(".c") => {}
            _ => flags.push(word.replace('\'', "")),
        }
    }
    Ok(flags)
}

/// The folder `linux` with the port.
pub fn port() -> Result<PathBuf, BuildError> {
    source::port_dir()
}

/// Series that there is a port for, e.g. `6.12`, oldest first.
pub fn known_series() -> Result<Vec<String>, BuildError> {
    config::known(&source::port_dir()?)
}

/// Configuration fragments that a kernel can be built with, by name.
pub fn flavours() -> Result<Vec<Flavour>, BuildError> {
    config::flavours(&source::port_dir()?, &cache::Cache::open()?.fragments())
}

/// The newest series of which Debian has a source package today, in any suite. Asks the mirrors.
pub fn newest() -> Result<String, BuildError> {
    source::newest(&cache::Cache::make()?)
}

/// Remove all kernels of a series or name from the cache, with unpacked source and the name itself. Returns
/// how many kernels.
pub fn remove(series: &str) -> Result<usize, BuildError> {
    let cache = cache::Cache::make()?;
    if named::check_name(series).is_err() {
        // a path, for instance: nothing of that name is in the cache, and nothing outside is ours
        return Err(BuildError::NotInstalled { name: series.to_owned(), cache: cache.root().to_owned() });
    }
    let _lock = cache.lock()?;
    let known = Named::read(&cache, series)?.is_some();
    let n = cache.remove(series)?;
    if n == 0 && !known {
        return Err(BuildError::NotInstalled { name: series.to_owned(), cache: cache.root().to_owned() });
    }
    Ok(n)
}
