//! What can `--param` set under real Linux? Asked of the kernel itself: it is booted, and its files are
//! listed and read.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_lab::{Standard, run};
use schedlab_linux::{NO_SUCH_PARAMETER, tunable_name};
use schedlab_machine::kernel::{Action, FileRequest};
use schedlab_runner::{LinuxObject, RunRequest, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::generate::from_toml;

/// A tunable.
pub(crate) struct Tunable {
    /// As `--param` takes it.
    pub name: String,
    /// Its value unless set, on as many CPUs as were asked for: what is in force there. Empty where there is
    /// none to read.
    pub default: String,
    /// Where it follows from the number of CPUs: from how many on which value is in force, rising. Else empty.
    pub by_cpus: Vec<(u32, String)>,
    /// What it does, where that is known here.
    pub help: &'static str,
}

const DEBUGFS: &str = "/sys/kernel/debug/sched";
const SYSCTLS: &str = "/proc/sys/kernel";
/// Before 5.13.
const OLD_FEATURES: &str = "/sys/kernel/debug/sched_features";

/// Not tunables: what the kernel tells about itself.
const READ_ONLY: [&str; 4] = ["debug", "domains", "ext_server", "ext"];

/// What the more important ones do, by their short name.
const HELP: &[(&str, &str)] = &[
    ("base_slice_ns", "EEVDF: CPU time of a request"),
    ("latency_ns", "CFS: period in which each task runs once"),
    ("min_granularity_ns", "CFS: shortest slice"),
    ("idle_min_granularity_ns", "CFS: shortest slice of SCHED_IDLE"),
    (
        "wakeup_granularity_ns",
        "CFS: how far ahead the current task must be to be preempted by one that wakes",
    ),
    (
        "tunable_scaling",
        "how defaults grow with the number of CPUs, from the next one that goes on or off: 0 not, 1 by its logarithm, \
            2 linearly",
    ),
    ("migration_cost_ns", "a task that ran less long ago counts as cache-hot"),
    ("nr_migrate", "most tasks that a balancing step looks at"),
    ("features", "switches of the scheduler; NO_NAME turns one off, several are separated by commas"),
    ("latency_warn_ms", "warn of waits for a resched longer than this"),
    ("latency_warn_once", "warn of that once"),
    ("verbose", "print what scheduling domains are built"),
    ("preempt", "preemption model: none, voluntary, full, lazy; the one in force in brackets"),
    ("rt_runtime_us", "of each rt_period_us, what real-time and deadline tasks may have; -1: all"),
    ("rt_period_us", "see rt_runtime_us"),
    ("rr_timeslice_ms", "slice of SCHED_RR"),
    ("cfs_bandwidth_slice_us", "how much of a group's quota a CPU takes at a time"),
    ("deadline_period_max_us", "longest period that SCHED_DEADLINE takes"),
    ("deadline_period_min_us", "shortest"),
    ("child_runs_first", "a forked child runs before its parent"),
    ("autogroup_enabled", "group tasks by session"),
    ("schedstats", "keep statistics of waits, for /proc/schedstat"),
    (
        "sched/fair_server/cpu0/runtime",
        "ns of each period that the fair class is sure of; cpu0, cpu1, ... each",
    ),
    ("sched/fair_server/cpu0/period", "see runtime"),
    ("kernel.sched_util_clamp_max", "most utilisation that a task may ask for"),
    ("kernel.sched_util_clamp_min_rt_default", "utilisation that real-time tasks ask for"),
    ("kernel.sched_energy_aware", "place tasks by energy, where the machine has an energy model"),
    ("kernel.numa_balancing", "move tasks to their memory"),
    ("kernel.timer_migration", "timers of idle CPUs go to busy ones"),
];

/// Set when the kernel boots, or by this program; not read from anywhere.
const OTHERS: &[(&str, &str)] = &[
    ("autogroup=off", "on or off: group tasks by session (needs sessions=each)"),
    ("sessions=one", "each: every task that is there at the start leads a session of its own"),
    ("cpuN=on", "off: this CPU is not online"),
    ("boot.skew_tick", "1: ticks of the CPUs are spread over a tick instead of together"),
    ("boot.preempt", "none, voluntary or full"),
    ("boot.isolcpus", "a list of CPUs that are left out of balancing"),
    ("boot.nohz_full", "a list of CPUs without ticks while one task runs"),
    ("boot.nohz", "off: ticks on idle CPUs too"),
    ("boot.relax_domain_level", "how far a newly idle CPU looks for work"),
    (
        "boot.sched_verbose",
        "print scheduling domains at boot (as an option without value: boot.sched_verbose=)",
    ),
    ("boot.psi", "1: pressure stall information (flavour psi)"),
    ("boot.NAME", "any other option of the kernel's command line"),
];

/// Numbers of CPUs at which defaults are compared: Linux's grow at powers of two, up to 8 CPUs.
const COMPARED: [u32; 5] = [1, 2, 4, 8, 16];

/// Boots the kernel once to list its files, and on several numbers of CPUs to read them: the defaults on `nr_cpus`.
pub(crate) fn tunables(linux: &LinuxObject, nr_cpus: u32, ui: &Ui) -> Result<Vec<Tunable>> {
    let version = linux.linux_version();
    let paths = files(linux, ui)?;
    let values = |nr_cpus: u32| -> Result<Vec<Option<String>>> {
        let asked = paths.iter().map(|path| FileRequest::Read { name: path.clone() }).collect();
        let read = ask(linux, nr_cpus, ui, asked)?;
        // (a folder, or not there in this version: no value)
        let value = |(_, value): (String, std::result::Result<String, i32>)| {
            Some(value.ok()?.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        Ok(read.into_iter().map(value).collect())
    };
    let here = values(nr_cpus)?;
    let elsewhere = COMPARED.into_iter().map(|n| Ok((n, values(n)?))).collect::<Result<Vec<_>>>()?;
    let mut found: Vec<Tunable> = Vec::new();
    for (index, (path, default)) in paths.iter().zip(here).enumerate() {
        let Some(default) = default else { continue };
        let name = tunable_name(path, version);
        let mut by_cpus: Vec<(u32, String)> =
            elsewhere.iter().filter_map(|(n, values)| Some((*n, values[index].clone()?))).collect();
        by_cpus.dedup_by(|next, before| next.1 == before.1);
        if by_cpus.len() == 1 {
            by_cpus.clear();
        }
        let help = HELP.iter().find(|(known, _)| *known == name).map_or("", |(_, help)| *help);
        found.push(Tunable { name, default, by_cpus, help });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    for (name, help) in OTHERS {
        let (name, default) = name.split_once('=').unwrap_or((name, ""));
        found.push(Tunable { name: name.into(), default: default.into(), by_cpus: Vec::new(), help });
    }
    Ok(found)
}

/// More to a refusal of `--param NAME=VALUE` by a kernel that has no such parameter: which was probably meant, and
/// what lists them.
pub(crate) fn meant(reason: &str, linux: &LinuxObject, ui: &Ui) -> String {
    let given = reason.strip_prefix("--param ").filter(|rest| rest.contains(NO_SUCH_PARAMETER));
    let Some((name, _)) = given.and_then(|rest| rest.split_once('=')) else { return String::new() };
    let lists = format!("'schedlab schedulers {}' lists them", linux.name);
    let Ok(paths) = files(linux, ui) else { return format!("; {lists}") };
    let mut known: Vec<String> = paths.iter().map(|path| tunable_name(path, linux.linux_version())).collect();
    // a scheduler in BPF has options of its own
    let own = linux.scx.as_ref().and_then(|compiled| schedlab_scx::settings_of(compiled).ok());
    known.extend(own.into_iter().flatten().filter(|setting| setting.is_option).map(|setting| setting.name));
    match near(name, &known)[..] {
        [] => format!("; {lists}"),
        ref near => format!("; did you mean {}? {lists}", near.join(" or ")),
    }
}

/// Of the known names at most three that look like this one, the nearest first.
fn near<'a>(name: &str, known: &'a [String]) -> Vec<&'a str> {
    const SHOWN: usize = 3;
    const ENOUGH: f64 = 0.7;
    let score = |known: &str| match known.contains(name) {
        true => 1.0 + name.len() as f64 / known.len() as f64,
        false => strsim::normalized_damerau_levenshtein(name, known),
    };
    let mut scored: Vec<(f64, &str)> = known.iter().map(|known| (score(known), known.as_str())).collect();
    scored.retain(|(score, _)| *score >= ENOUGH);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(SHOWN).map(|(_, name)| name).collect()
}

/// The files that hold tunables.
fn files(linux: &LinuxObject, ui: &Ui) -> Result<Vec<String>> {
    let list = |path: &str| FileRequest::List { path: path.to_owned() };
    let folders = vec![list(DEBUGFS), list(&format!("{DEBUGFS}/fair_server/cpu0")), list(SYSCTLS)];
    let listed = ask(linux, 1, ui, folders)?;
    let mut paths: Vec<String> = Vec::new();
    for (folder, names) in &listed {
        let Ok(names) = names else { continue };
        for name in names.lines().filter(|name| !name.is_empty() && !name.starts_with('.')) {
            let is_tunable = match folder.as_str() {
                SYSCTLS => {
                    name.starts_with("sched_")
                        || name.starts_with("numa_balancing")
                        || name == "timer_migration"
                }
                DEBUGFS => !READ_ONLY.contains(&name) && name != "fair_server",
                _ => true,
            };
            if is_tunable {
                paths.push(format!("{folder}/{name}"));
            }
        }
    }
    paths.push(OLD_FEATURES.to_owned());
    Ok(paths)
}

/// Boots the kernel on so many CPUs with next to nothing to do and accesses its files. A warning does not
/// spoil what they hold; a warning says so.
fn ask(
    linux: &LinuxObject,
    nr_cpus: u32,
    ui: &Ui,
    files: Vec<FileRequest>,
) -> Result<Vec<(String, std::result::Result<String, i32>)>> {
    let workload =
        from_toml("tunables", "kind = 'hogs'\nnices = [0]\ncpu = '1ms'").map_err(Failure::input)?;
    let scheduler = Scheduler::Linux(linux.clone());
    let request = RunRequest {
        actions: &[Action { at: Span::ZERO, files }],
        ..RunRequest::new(&workload, &scheduler, Topology::flat(nr_cpus).map_err(Failure::input)?)
    };
    let report = run(&request, Standard::Shown)?.report;
    for warning in report.warnings.iter().filter_map(|warning| warning.lines().next()) {
        ui.say(format!("note: {} warned: {warning}", linux.name));
    }
    Ok(report.readings.into_iter().map(|(_, name, result)| (name, result)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_leads_to_one_that_is() {
        let known = ["base_slice_ns", "cfs_bandwidth_slice_us", "features", "nr_migrate"].map(String::from);
        assert_eq!(near("base_slice", &known), ["base_slice_ns"]);
        assert_eq!(near("base_slcie_ns", &known), ["base_slice_ns"]);
        assert_eq!(near("slice", &known), ["base_slice_ns", "cfs_bandwidth_slice_us"]);
        assert_eq!(near("featurs", &known), ["features"]);
        assert!(near("nonsense", &known).is_empty());
    }
}
