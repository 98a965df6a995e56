//! `schedlab linux`: real Linux, fetched, built, proved unmodified, removed.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::{Args, Subcommand};
use schedlab_lab::kernels;
use schedlab_linux::build::{self, CheckReport, Named, Origin, SchedPin};
use schedlab_linux::{BuildOptions, BuiltKernel};
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub(crate) enum LinuxCommand {
    /// Fetch the source package of this version, build it as a library; instant if that was done before.
    ///
    /// The package is looked for in all of Debian's suites; the system's apt configuration is not touched. A
    /// tree of your own (--source) or a tarball (--tarball) of 5.10 or later does as well. A tree is built
    /// again before each run, and only what has changed; nothing is written to it.
    Add(AddArgs),
    /// What is built, what can be built, and the flavours that it can be built in.
    List,
    /// Prove that every kernel file compiled is byte-identical to the package's. With --all: what works in
    /// which version.
    Check(crate::features::CheckArgs),
    /// Fixes of the fair class that can be undone in a copy of the source, and what shows each: a workload
    /// and an instrument.
    Bugs(crate::bugs::BugsArgs),
    /// Run a workload under gdb, with the kernel's source and symbols: stop at a time, a wakeup, a decision.
    ///
    /// Options of this command come first, then the workload and what `run` takes. Simulated time stands
    /// still while gdb has the run. Helpers: schedlab-time, schedlab-cpus, schedlab-runqueue [CPU],
    /// schedlab-task NAME, schedlab-domains [CPU].
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
    #[arg(long, default_value_t = 250, value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// Most CPUs it can have: 64 (faster) or 1024.
    #[arg(long, default_value_t = 64)]
    pub nr_cpus: u32,
    /// A flavour, as listed by `linux list`, e.g. uclamp or preempt-full; may be given several times. --sched
    /// linux-6.12+uclamp
    #[arg(long = "with", value_name = "FLAVOUR")]
    pub with: Vec<String>,
    /// A configuration fragment of your own, lines CONFIG_NAME=VALUE; from then on a flavour with the file's name.
    #[arg(long, value_name = "FILE")]
    pub fragment: Vec<PathBuf>,
}

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
    let mut is_new = false;
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
            is_new = build::named().map_err(Failure::input)?.iter().all(|known| known.name != named.name);
            build::add_named(&named).map_err(Failure::input)?;
            named.name
        }
        (None, Some("newest")) => {
            let _step = ui.step("asking Debian's mirrors for the newest kernel");
            build::newest().map_err(Failure::input)?
        }
        (None, version) => version.unwrap_or_default().to_owned(),
    };
    let kernel = kernels::obtain(&version, &options, ui).map_err(|error| {
        // a tarball that gave no kernel is not kept as one; a tree is, since it will be worked on
        if is_new && args.tarball.is_some() {
            let _ = build::remove(&version);
        }
        Failure::input(error)
    })?;
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
                "  kernel/sched differs from that of {pinned}, which the port was last tested with: accepted, to be \
                    watched"
            );
        }
        SchedPin::None => println!("  kernel/sched is your tarball's: nothing vouches for it"),
        SchedPin::Different => {
            println!("  kernel/sched is NOT what this version of the package had when it was pinned")
        }
    }
    println!("  {}", if report.passed() { "passed" } else { "FAILED" });
}
