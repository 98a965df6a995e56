//! `schedlab linux`: real Linux, fetched, built, proved unmodified, removed.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::{Args, Subcommand};
use schedlab_linux::build::{self, CheckReport, Named, Origin, SchedPin};
use schedlab_linux::{BuildOptions, BuiltKernel};
use schedlab_runner::LinuxObject;
use schedlab_topology::Topology;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub(crate) enum LinuxCommand {
    /// Fetch the source package of this version, build it as a library; instant if that was done before.
    ///
    /// The package is looked for in all of Debian's suites; the system's apt configuration is not touched. A tree of your own
    /// (--source) or a tarball (--tarball) of 5.10 or later does as well. A tree is built again before each run, and only what
    /// has changed; nothing is written to it.
    Add(AddArgs),
    /// What is built, what can be built, and the flavours that it can be built in.
    List,
    /// Prove that every kernel file compiled is byte-identical to the package's. With --all: what works in which version.
    Check(CheckArgs),
    /// Fixes of the fair class that can be undone in a copy of the source, and what shows each: a workload and an instrument.
    Bugs(crate::bugs::BugsArgs),
    /// Run a workload under gdb, with the kernel's source and symbols: stop at a time, a wakeup, a decision.
    ///
    /// Options of this command come first, then the workload and what `run` takes. Simulated time stands still while gdb has the
    /// run. Helpers: schedlab-time, schedlab-cpus, schedlab-runqueue [CPU], schedlab-task NAME, schedlab-domains [CPU].
    Debug(crate::debug::DebugArgs),
    /// Delete what was built of a version.
    Remove {
        /// For example 6.12, or the name of a tree or tarball.
        version: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// For example 6.12; `newest` for the newest that Debian has in any suite.
    #[arg(required_unless_present_any = ["source", "tarball"], conflicts_with_all = ["source", "tarball"])]
    pub version: Option<String>,
    /// A kernel tree that you work on.
    #[arg(long, value_name = "DIR", conflicts_with = "tarball")]
    pub source: Option<PathBuf>,
    /// A kernel tarball.
    #[arg(long, value_name = "FILE")]
    pub tarball: Option<PathBuf>,
    /// What the tree or tarball is called from now on: --sched linux-NAME.
    #[arg(long, conflicts_with = "version")]
    pub name: Option<String>,
    /// Ticks per second.
    #[arg(long, default_value_t = 250)]
    pub hz: u32,
    /// Most CPUs it can have: 64 (faster) or 1024.
    #[arg(long, default_value_t = 64)]
    pub nr_cpus: u32,
    /// A flavour, as listed by `linux list`, e.g. uclamp or preempt-full; may be given several times. --sched linux-6.12+uclamp
    #[arg(long = "with", value_name = "FLAVOUR")]
    pub with: Vec<String>,
    /// A configuration fragment of your own, lines CONFIG_NAME=VALUE; from then on a flavour with the file's name.
    #[arg(long, value_name = "FILE")]
    pub fragment: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// For example 6.12; all that are built if left out.
    pub version: Option<String>,
    /// What works in which version: a table, each cell from a scenario that ran.
    #[arg(long)]
    pub all: bool,
    /// With --all: run the scenarios again, also where the result is known.
    #[arg(long, requires = "all")]
    pub refresh: bool,
    /// With --all: what each scenario is, what it found and what was expected.
    #[arg(long, requires = "all")]
    pub details: bool,
    /// With --all: as JSON, to a file or `-`.
    #[arg(long, value_name = "FILE", requires = "all")]
    pub json: Option<PathBuf>,
}

/// A version that `--sched` can name.
pub(crate) struct Version {
    pub name: String,
    pub summary: String,
    pub built: bool,
}

/// CPUs up to which the small, faster build serves.
const SMALL_BUILD_CPUS: u32 = 64;
const LARGE_BUILD_CPUS: u32 = 1024;

pub(crate) fn linux(command: &LinuxCommand, ui: &Ui) -> Result<()> {
    match command {
        LinuxCommand::Add(args) => add(args, ui),
        LinuxCommand::List => list(),
        LinuxCommand::Check(args) if args.all => crate::features::check_all(args, ui),
        LinuxCommand::Check(args) => check(args.version.as_deref(), ui),
        LinuxCommand::Bugs(args) => crate::bugs::bugs(args, ui),
        LinuxCommand::Debug(args) => crate::debug::debug(args, ui),
        LinuxCommand::Remove { version } => {
            let count = build::remove(version).map_err(Failure::input)?;
            println!(
                "removed {count} kernel{} of {version} and its unpacked source",
                if count == 1 { "" } else { "s" }
            );
            Ok(())
        }
    }
}

fn add(args: &AddArgs, ui: &Ui) -> Result<()> {
    let mut flavours = args.with.clone();
    for file in &args.fragment {
        flavours.push(build::add_fragment(file).map_err(Failure::input)?);
    }
    let options = BuildOptions { hz: args.hz, nr_cpus: args.nr_cpus, flavours };
    let named = match (&args.source, &args.tarball) {
        (Some(dir), _) => Some(Named::tree(dir).map_err(Failure::input)?),
        (_, Some(file)) => Some(Named::tarball(file).map_err(Failure::input)?),
        _ => None,
    };
    let version = match (named, args.version.as_deref()) {
        (Some(mut named), _) => {
            if let Some(name) = &args.name {
                name.clone_into(&mut named.name);
            }
            build::add_named(&named).map_err(Failure::input)?;
            named.name
        }
        (None, Some("newest")) => {
            let _step = ui.step("asking Debian's mirrors for the newest kernel");
            build::newest().map_err(Failure::input)?
        }
        (None, version) => version.unwrap_or_default().to_owned(),
    };
    let kernel = obtain(&version, &options, ui)?;
    println!("{}", describe(&kernel));
    println!("use it with --sched {}", kernel.name());
    Ok(())
}

fn list() -> Result<()> {
    let kernels = build::installed().map_err(Failure::input)?;
    if kernels.is_empty() {
        println!("no kernel is built yet; 'schedlab linux add 6.12' builds one");
    } else {
        println!("Built");
        kernels.iter().for_each(|kernel| println!("  {}", describe(kernel)));
    }
    println!(
        "\nVersions that the port was tried with (any other from 5.10 on: --source DIR, --tarball FILE)"
    );
    println!("  {}", build::known_series().map_err(Failure::input)?.join("  "));
    let named = build::named().map_err(Failure::input)?;
    if !named.is_empty() {
        println!("\nTrees and tarballs of yours");
    }
    for n in named {
        let kind = if n.origin == Origin::Tree { "tree" } else { "tarball" };
        println!("  linux-{:<20} {kind} {}", n.name, n.path.display());
    }
    println!("\nFlavours (--with NAME, or --sched linux-6.12+NAME)");
    for flavour in build::flavours().map_err(Failure::input)? {
        println!("  {:<16} {}", flavour.name, flavour.summary);
    }
    Ok(())
}

fn describe(kernel: &BuiltKernel) -> String {
    let size = std::fs::metadata(kernel.object()).map_or(0, |meta| meta.len());
    format!(
        "{:<14} {:<24} HZ={:<4} up to {:>4} CPUs {:>5.1} MB  built in {:>3} s  {}",
        kernel.name(),
        kernel.version,
        kernel.hz,
        kernel.nr_cpus,
        size as f64 / 1e6,
        kernel.build_s,
        kernel.object().display()
    )
}

/// Shows how far a build is.
pub(crate) fn with_progress<T>(
    what: &str,
    ui: &Ui,
    work: impl FnOnce(&mut dyn FnMut(build::Progress)) -> std::result::Result<T, schedlab_linux::BuildError>,
) -> Result<T> {
    let step = ui.step(format!("{what}: looking for it"));
    let mut last = "";
    work(&mut |progress| {
        let text = match (progress.done, progress.total) {
            (0, 0) => format!("{what}: {}", progress.step),
            (done, 0) => format!("{what}: {}, {done} files", progress.step),
            (done, total) => format!("{what}: {}, {done} of {total}", progress.step),
        };
        if progress.step == last {
            step.progress(text);
        } else {
            last = progress.step;
            step.now(text);
        }
    })
    .map_err(Failure::input)
}

fn what(name: &str, options: &BuildOptions) -> String {
    let flavours = build::plus(&options.flavours);
    format!("Linux {name}{flavours} (HZ={}, up to {} CPUs)", options.hz, options.nr_cpus)
}

/// Builds it, or finds it built.
pub(crate) fn obtain(version: &str, options: &BuildOptions, ui: &Ui) -> Result<BuiltKernel> {
    let kernel = with_progress(&what(version, options), ui, |p| build::add(version, options, p))?;
    remark(&kernel, ui);
    Ok(kernel)
}

fn remark(kernel: &BuiltKernel, ui: &Ui) {
    for remark in &kernel.remarks {
        ui.say(format!("note: {remark}"));
    }
}

/// What `--sched linux-...` or `linux:DIR` asks for.
pub(crate) struct Asked {
    /// A series or a name, or the path of a tree.
    name: String,
    is_path: bool,
    flavours: Vec<String>,
}

/// `linux-6.12`, `linux-6.12+uclamp`, `linux-mine`, `linux:DIR`, `linux:DIR+uclamp`; none if it is neither.
pub(crate) fn parse(sched: &str) -> Option<Asked> {
    let (rest, is_path) = match (sched.strip_prefix("linux-"), sched.strip_prefix("linux:")) {
        (Some(name), _) => (name, false),
        (_, Some(path)) => (path, true),
        _ => return None,
    };
    // a folder's name can have a plus
    if is_path && Path::new(rest).is_dir() {
        return Some(Asked { name: rest.to_owned(), is_path, flavours: Vec::new() });
    }
    let mut parts = rest.split('+').map(str::to_owned);
    let name = parts.next().unwrap_or_default();
    Some(Asked { name, is_path, flavours: parts.collect() })
}

impl Asked {
    /// A packaged version without flavours.
    pub(crate) fn series(series: &str) -> Asked {
        Asked { name: series.to_owned(), is_path: false, flavours: Vec::new() }
    }

    /// A packaged version or a kernel with a name, in this flavour.
    pub(crate) fn flavoured(name: &str, flavour: &str) -> Asked {
        Asked { name: name.to_owned(), is_path: false, flavours: vec![flavour.to_owned()] }
    }

    /// Whether there is such a kernel, or could be: else the name may be a native scheduler's (`linux-2.4`).
    pub(crate) fn known(&self) -> bool {
        self.is_path
            || build::known_series().unwrap_or_default().contains(&self.name)
            || build::named().unwrap_or_default().iter().any(|n| n.name == self.name)
    }
}

/// The kernel behind `--sched`, built on first use; a tree of the user's is brought up to date.
pub(crate) fn object(asked: &Asked, hz: u32, topology: &Topology, ui: &Ui) -> Result<LinuxObject> {
    let kernel = built(asked, hz, topology, ui)?;
    Ok(LinuxObject {
        name: kernel.name(),
        version: kernel.version.clone(),
        hz,
        nr_cpus: kernel.nr_cpus,
        object: kernel.object(),
        scx: None,
    })
}

/// The same, with all that is known about how it was built.
pub(crate) fn built(asked: &Asked, hz: u32, topology: &Topology, ui: &Ui) -> Result<BuiltKernel> {
    let nr_cpus = if topology.nr_cpus() <= SMALL_BUILD_CPUS { SMALL_BUILD_CPUS } else { LARGE_BUILD_CPUS };
    let options = BuildOptions { hz, nr_cpus, flavours: asked.flavours.clone() };
    if asked.is_path {
        let path = Path::new(&asked.name);
        let kernel = with_progress(&what(&asked.name, &options), ui, |p| build::add_tree(path, &options, p))?;
        remark(&kernel, ui);
        Ok(kernel)
    } else {
        match build::find(&asked.name, &options).map_err(Failure::input)? {
            Some(kernel) => Ok(kernel),
            None => obtain(&asked.name, &options, ui),
        }
    }
}

/// The versions that there is a port for, and the user's own kernels. Built: by the present port, as it is without further options
/// (an object of an older port would be built again before its first run).
pub(crate) fn versions() -> Vec<Version> {
    let installed = build::installed().unwrap_or_default();
    let series = build::known_series().unwrap_or_default();
    let packaged = series.into_iter().map(|series| {
        let summary = format!("Linux {series}, unmodified, from Debian's package linux-source-{series}");
        (series, summary)
    });
    let own = build::named().unwrap_or_default().into_iter().map(|named| {
        let summary = match named.origin {
            Origin::Tree => format!("your tree {}, as it is when the run starts", named.path.display()),
            _ => format!("your tarball {}", named.path.display()),
        };
        (named.name, summary)
    });
    packaged
        .chain(own)
        .map(|(series, summary)| Version {
            name: format!("linux-{series}"),
            summary,
            built: match build::find(&series, &BuildOptions::default()) {
                Ok(found) => found.is_some() || is_own_and_built(&installed, &series),
                Err(_) => false,
            },
        })
        .collect()
}

/// A tree of the user's is built again before each run, what has changed of it.
fn is_own_and_built(installed: &[BuiltKernel], name: &str) -> bool {
    installed.iter().any(|kernel| kernel.series == name && kernel.origin == Origin::Tree)
}

fn check(version: Option<&str>, ui: &Ui) -> Result<()> {
    let kernels = build::installed().map_err(Failure::input)?;
    let kernels: Vec<_> = kernels.into_iter().filter(|k| version.is_none_or(|v| v == k.series)).collect();
    if kernels.is_empty() {
        let what = version.map_or("no kernel is built".to_string(), |v| format!("Linux {v} is not built"));
        return Err(Failure::Input(format!("{what}; 'schedlab linux add 6.12' builds one")));
    }
    let mut failed = 0;
    for kernel in &kernels {
        if kernel.origin == Origin::Tree {
            println!("{}\n  a tree of yours: nothing vouches for it", describe(kernel));
            continue;
        }
        let step = ui.step(format!("checking {}", kernel.name()));
        let report =
            build::check(kernel, &mut |progress| step.progress(progress.step)).map_err(Failure::input)?;
        drop(step);
        print_check(kernel, &report);
        failed += usize::from(!report.passed());
    }
    if failed > 0 {
        return Err(Failure::Finding(format!(
            "{failed} of {} kernels are not the distributor's",
            kernels.len()
        )));
    }
    Ok(())
}

fn print_check(kernel: &BuiltKernel, report: &CheckReport) {
    println!("{}", describe(kernel));
    println!(
        "  {:>5} kernel files compiled or included are byte-identical to the package's",
        report.identical
    );
    println!("  {:>5} differ", report.differ.len());
    for difference in &report.differ {
        let packaged = difference.packaged.as_deref().unwrap_or("not in the package");
        println!("        {}: compiled {}, package {packaged}", difference.path, difference.compiled);
    }
    println!("  {:>5} files made by the kernel's own build (configuration, offsets)", report.generated);
    println!("  {:>5} files of the port (arch/warp)", report.port.len());
    println!("  {:>5} headers of the compiler", report.compiler.len());
    println!(
        "  kernel/sched: {} files are in; the configuration leaves out {}",
        report.sched_in.len(),
        if report.sched_out.is_empty() { "none".to_string() } else { report.sched_out.join(", ") }
    );
    match &report.sched_pin {
        SchedPin::Same => println!("  kernel/sched is the one that the port was last tested with"),
        SchedPin::OtherRelease { pinned } => {
            println!(
                "  kernel/sched differs from that of {pinned}, which the port was last tested with: accepted, to be watched"
            );
        }
        SchedPin::None => println!("  kernel/sched is your tarball's: nothing vouches for it"),
        SchedPin::Different => {
            println!("  kernel/sched is NOT what this version of the package had when it was pinned")
        }
    }
    println!("  {}", if report.passed() { "passed" } else { "FAILED" });
}
