//! `schedlab linux`: real Linux, fetched, built, proved unmodified, removed.

use crate::args::LinuxCommand;
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_linux::build::{self, CheckReport, SchedPin};
use schedlab_linux::{BuildOptions, BuiltKernel};
use schedlab_runner::LinuxObject;
use schedlab_topology::Topology;

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
        LinuxCommand::Add { version, hz, nr_cpus } => {
            let kernel = obtain(version, BuildOptions { hz: *hz, nr_cpus: *nr_cpus }, ui)?;
            println!("{}", describe(&kernel));
            Ok(())
        }
        LinuxCommand::List => {
            let kernels = build::installed().map_err(Failure::input)?;
            if kernels.is_empty() {
                println!("no kernel is built yet; 'schedlab linux add 6.12' builds one");
            }
            kernels.iter().for_each(|kernel| println!("{}", describe(kernel)));
            Ok(())
        }
        LinuxCommand::Check { version } => check(version.as_deref(), ui),
        LinuxCommand::Remove { version } => {
            let count = build::remove(version).map_err(Failure::input)?;
            println!("removed {count} kernel{} of {version} and its source", if count == 1 { "" } else { "s" });
            Ok(())
        }
    }
}

fn describe(kernel: &BuiltKernel) -> String {
    let size = std::fs::metadata(kernel.object()).map_or(0, |meta| meta.len());
    format!(
        "{:<12} {:<24} HZ={:<5} up to {:>4} CPUs   {:>5.1} MB   {}",
        kernel.name(),
        kernel.version,
        kernel.hz,
        kernel.nr_cpus,
        size as f64 / 1e6,
        kernel.object().display()
    )
}

/// Builds it, or finds it built.
fn obtain(version: &str, options: BuildOptions, ui: &Ui) -> Result<BuiltKernel> {
    let what = format!("Linux {version} (HZ={}, up to {} CPUs)", options.hz, options.nr_cpus);
    let step = ui.step(format!("{what}: looking for it"));
    let mut last = "";
    build::add(version, &options, &mut |progress| {
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

/// The kernel behind `--sched linux-VERSION`, built on first use.
pub(crate) fn object(version: &str, hz: u32, topology: &Topology, ui: &Ui) -> Result<LinuxObject> {
    let nr_cpus = if topology.nr_cpus() <= SMALL_BUILD_CPUS { SMALL_BUILD_CPUS } else { LARGE_BUILD_CPUS };
    let options = BuildOptions { hz, nr_cpus };
    let kernel = match build::find(version, &options).map_err(Failure::input)? {
        Some(kernel) => kernel,
        None => obtain(version, options, ui)?,
    };
    Ok(LinuxObject {
        name: kernel.name(),
        version: kernel.version.clone(),
        hz,
        nr_cpus,
        object: kernel.object(),
    })
}

/// The versions that there is a port for.
pub(crate) fn versions() -> Vec<Version> {
    let installed = build::installed().unwrap_or_default();
    let series = build::known_series().unwrap_or_default();
    series
        .into_iter()
        .map(|series| Version {
            name: format!("linux-{series}"),
            summary: format!("Linux {series}, unmodified, from Debian's package linux-source-{series}"),
            built: installed.iter().any(|kernel| kernel.series == series),
        })
        .collect()
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
        let step = ui.step(format!("checking {}", kernel.name()));
        let report = build::check(kernel, &mut |progress| step.progress(progress.step)).map_err(Failure::input)?;
        drop(step);
        print_check(kernel, &report);
        failed += usize::from(!report.passed());
    }
    if failed > 0 {
        return Err(Failure::Finding(format!("{failed} of {} kernels are not the distributor's", kernels.len())));
    }
    Ok(())
}

fn print_check(kernel: &BuiltKernel, report: &CheckReport) {
    println!("{}", describe(kernel));
    println!("  {:>5} kernel files compiled or included are byte-identical to the package's", report.identical);
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
            println!("  kernel/sched differs from that of {pinned}, which the port was last tested with: accepted, to be watched");
        }
        SchedPin::Different => println!("  kernel/sched is NOT what this version of the package had when it was pinned"),
    }
    println!("  {}", if report.passed() { "passed" } else { "FAILED" });
}
