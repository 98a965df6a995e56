//! `schedlab schedulers linux-6.12`: what can be set in that kernel (`--param`, `--at`), with the values that it has by itself.
//!
//! The kernel is asked, not a list: it boots, and its files are listed and read. `--param NAME=VALUE` takes each name as printed.

use crate::failure::{Failure, Result};
use schedlab_machine::kernel::{Action, FileRequest};
use schedlab_runner::{LinuxObject, Request, STALL_LIMIT, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::Span;

/// What `--param boot.NAME=VALUE` puts on the kernel's command line, of the scheduler's concern.
const BOOT: [(&str, &str); 8] = [
    (
        "boot.preempt",
        "none, voluntary, full, lazy: the preemption model (from 5.12 on, where the kernel is built for a choice)",
    ),
    ("boot.skew_tick", "1: ticks spread over half a tick (--ticks staggered)"),
    ("boot.isolcpus", "CPU list: outside of load balancing"),
    ("boot.nohz_full", "CPU list: no tick while a single task runs"),
    ("boot.nohz", "off: the tick goes on while idle"),
    ("boot.relax_domain_level", "how far a wakeup looks for an idle CPU"),
    ("boot.sched_verbose", "(no value) domains in debugfs, and printed at boot"),
    ("boot.psi", "1: pressure stall information (flavour psi)"),
];

/// What is the laboratory's own, not a file of the kernel's.
const OURS: [(&str, &str); 3] = [
    ("autogroup", "on, off: a group for each session"),
    ("sessions", "each: every task that is there at the start leads a session; one"),
    ("cpuN", "on, off: hotplug (--at 2s:cpu3=off)"),
];

/// A tunable and its value.
pub(crate) struct Tunable {
    pub name: String,
    pub value: String,
}

const PROC: &str = "/proc/sys/kernel";

/// Asks the kernel for everything of the scheduler's that can be set while it runs.
pub(crate) fn ask(object: &LinuxObject) -> Result<Vec<Tunable>> {
    let debug = if object.linux_version() < (5, 13) { None } else { Some("/sys/kernel/debug/sched") };
    let mut folders = vec![PROC.to_owned()];
    folders.extend(debug.map(str::to_owned));
    folders.extend(debug.map(|d| format!("{d}/fair_server/cpu0")));
    let list = |path: &String| FileRequest::List { path: path.clone() };
    let listed = read(object, folders.iter().map(list).collect())?;
    let mut files = Vec::new();
    for (folder, names) in folders.iter().zip(&listed) {
        let Ok(names) = names else { continue };
        let mut names: Vec<&str> = names.lines().filter(|n| !n.starts_with('.')).collect();
        names.sort_unstable();
        for name in names {
            // folders, and what can only be read
            let other =
                matches!(name, "debug" | "domains" | "fair_server" | "ext_server" | "ext" | "numa_balancing");
            let ours = *folder != PROC || name.starts_with("sched_") || name == "timer_migration";
            if ours && !other {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    if debug.is_none() {
        files.push("/sys/kernel/debug/sched_features".to_owned());
    }
    let values = read(object, files.iter().map(|f| FileRequest::Read { name: f.clone() }).collect())?;
    let tunable = |(file, value): (&String, &std::result::Result<String, i32>)| {
        let value = value.as_ref().ok()?.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Tunable { name: short(file), value })
    };
    Ok(files.iter().zip(&values).filter_map(tunable).collect())
}

/// The name that `--param` has for a file.
fn short(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    if file == "/sys/kernel/debug/sched_features" {
        return "features".to_owned();
    }
    match (file.strip_prefix("/sys/kernel/debug/"), file.strip_prefix("/proc/sys/kernel/")) {
        (Some(rest), _) if rest.matches('/').count() > 1 => rest.to_owned(),
        (Some(_), _) => name.to_owned(),
        (_, Some(rest)) => format!("kernel.{rest}"),
        _ => file.to_owned(),
    }
}

/// Boots it with a task that sleeps, and has these files read or listed.
fn read(object: &LinuxObject, files: Vec<FileRequest>) -> Result<Vec<std::result::Result<String, i32>>> {
    let text = b"schedlab-workload 1\n- INIT 0 0 1 runnable name=sleeps\n- BLOCK 1 1us\n- WAKEUP 1 2ms\n- EXIT 1 1us\n";
    let workload = schedlab_workload::text::parse_text("tunables", text).map_err(Failure::input)?;
    let scheduler = Scheduler::Linux(object.clone());
    let actions = [Action { at: Span::from_ms(1), files }];
    let request = Request {
        workload: &workload,
        scheduler: &scheduler,
        topology: Topology::flat(1).map_err(Failure::input)?,
        duration: None,
        params: Vec::new(),
        perturb: None,
        actions: &actions,
        stall_limit: STALL_LIMIT,
    };
    let result = schedlab_runner::run(&request).map_err(Failure::input)?;
    Ok(result.report.readings.into_iter().map(|(_, _, result)| result).collect())
}

/// For a person.
pub(crate) fn print(tunables: &[Tunable]) {
    println!("\nTunables (--param NAME=VALUE, --at TIME:NAME=VALUE), with the values that it has by itself");
    for t in tunables {
        if t.name == "features" {
            println!("  features: each can be given, with NO_ in front or not, separated by commas");
            let mut line = String::from("   ");
            for feature in t.value.split(' ') {
                if line.len() + feature.len() > 110 {
                    println!("{line}");
                    line = String::from("   ");
                }
                line.push(' ');
                line.push_str(feature);
            }
            println!("{line}");
        } else {
            println!("  {:<34} {}", t.name, t.value);
        }
    }
    println!("\nAt boot (--param only)");
    BOOT.iter().for_each(|(name, what)| println!("  {name:<34} {what}"));
    println!("\nBeside the kernel's files");
    OURS.iter().for_each(|(name, what)| println!("  {name:<34} {what}"));
    println!(
        "\nAny other file of the kernel's: --param /PATH=VALUE, --at TIME:/PATH=VALUE; --show TIME:/PATH prints it"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_names_that_param_takes() {
        assert_eq!(short("/sys/kernel/debug/sched/base_slice_ns"), "base_slice_ns");
        assert_eq!(
            short("/sys/kernel/debug/sched/fair_server/cpu0/runtime"),
            "sched/fair_server/cpu0/runtime"
        );
        assert_eq!(short("/proc/sys/kernel/sched_rt_runtime_us"), "kernel.sched_rt_runtime_us");
        assert_eq!(short("/sys/kernel/debug/sched_features"), "features");
    }
}
