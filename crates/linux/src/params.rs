//! Which file of the simulated kernel does a tunable (`--param NAME=VALUE`) live in?
//!
//! | name | what it sets |
//! |---|---|
//! | `base_slice_ns`, `features`, `migration_cost_ns`, `nr_migrate`, ... | `/sys/kernel/debug/sched/NAME` |
//! | `rt_runtime_us`, `rt_period_us`, `rr_timeslice_ms`, `cfs_bandwidth_slice_us`, ... | `/proc/sys/kernel/sched_NAME` |
//! | `kernel.NAME` | `/proc/sys/kernel/NAME` |
//! | `sched/PATH` | `/sys/kernel/debug/sched/PATH`, e.g. `sched/fair_server/cpu0/runtime` |
//! | `/PATH` | that file
//! | the first line's, before 5.13 | `/proc/sys/kernel/sched_NAME`, `/sys/kernel/debug/sched_features` |
//! | `boot.NAME` | `NAME=VALUE` on the kernel's command line, e.g. `boot.skew_tick=1`, `boot.isolcpus=2-3` |
//! | `cpuN` | `on` or `off`: `/sys/devices/system/cpu/cpuN/online` |
//! | `autogroup` | `on` or `off` (as it is unless stated) |
//! | `sessions` | `each`: every task that is there at the start leads a session of its own, `one` (unless stated): none does |
//!
//! A value is in force as it is written, whatever the number of CPUs: the kernel scales its own defaults
//! only. When a CPU goes on or off it scales them anew, and a value that was written before is lost; so
//! `cpuN` comes first here. (Later ones, `--at 2s:cpu3=off`, set such a value back as on a real machine.)
//!
//! `features` takes names separated by spaces or commas (`NO_DELAY_DEQUEUE,HRTICK`), each written by itself.

use schedlab_machine::kernel::Fault;

/// Names that are sysctls, without their `sched_`.
const SYSCTLS: [&str; 10] = [
    "rt_runtime_us",
    "rt_period_us",
    "rr_timeslice_ms",
    "cfs_bandwidth_slice_us",
    "deadline_period_max_us",
    "deadline_period_min_us",
    "child_runs_first",
    "autogroup_enabled",
    "schedstats",
    "util_clamp_min",
];

/// What is said of a name that the kernel does not know.
pub const NO_SUCH_PARAMETER: &str = "this kernel has no such parameter";

/// Tunables are in debugfs' `sched/` since this version; before they were sysctls.
const DEBUGFS_SINCE: (u32, u32) = (5, 13);

/// Tunables of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    writes: Vec<(String, String)>,
    /// The setting that each write is of, as it was given: `NAME=VALUE`.
    given: Vec<String>,
    command_line: String,
    sessions: bool,
}

impl Params {
    /// `version` is the kernel's, as `(6, 12)`: files have moved.
    pub(crate) fn new(params: &[(String, String)], version: (u32, u32)) -> Params {
        let mut p = Params::default();
        let is_cpu = |param: &&(String, String)| cpu_number(&param.0).is_some();
        let others = params.iter().filter(|param| !is_cpu(param));
        for (name, value) in params.iter().filter(is_cpu).chain(others) {
            match (name.strip_prefix("boot."), name.as_str()) {
                (Some(name), _) => {
                    let space = if p.command_line.is_empty() { "" } else { " " };
                    // an option without value is written boot.NAME=
                    let equals = if value.is_empty() { "" } else { "=" };
                    p.command_line.push_str(&format!("{space}{name}{equals}{value}"));
                }
                (None, "sessions") => p.sessions = value == "each",
                (None, _) => {
                    p.writes.extend(writes(name, value, version));
                    p.given.resize(p.writes.len(), format!("{name}={value}"));
                }
            }
        }
        p
    }

    /// Whether tasks are sessions.
    pub(crate) fn sessions(&self) -> bool {
        self.sessions
    }

    /// File and value, in the order given.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.writes.iter().map(|(path, value)| (path.as_str(), value.as_str()))
    }

    pub(crate) fn command_line(&self) -> &str {
        &self.command_line
    }

    /// A tunable that the kernel refuses, by the name that it was given with, and what can be done: `--param
    /// NAME=VALUE: ...`.
    pub(crate) fn explain(&self, mut fault: Fault) -> Fault {
        let refused = |(path, value): &(&str, &str)| {
            fault.reason.starts_with(&format!("writing '{value}' to {path}: "))
        };
        let found = self.writes().zip(&self.given).find(|(write, _)| refused(write));
        let Some(((path, _), given)) = found else {
            if fault.reason.starts_with("writing ") {
                fault.reason.push_str("; check the name and value that were given for this kernel version");
            }
            return fault;
        };
        let why = if fault.reason.contains("(os error 2)") {
            format!("{NO_SUCH_PARAMETER} ({path})")
        } else {
            let answer = fault.reason.split_once(": ").map_or("", |(_, answer)| answer);
            format!("{answer}; 'schedlab schedulers NAME' shows what there is, with the defaults")
        };
        fault.reason = format!("--param {given}: {why}");
        fault
    }
}

/// The writes that a setting consists of: file and value each.
pub(crate) fn writes(name: &str, value: &str, version: (u32, u32)) -> Vec<(String, String)> {
    let path = path_of(name, version);
    match name {
        "features" => {
            value.split([' ', ',']).filter(|v| !v.is_empty()).map(|v| (path.clone(), v.to_owned())).collect()
        }
        _ if name == "autogroup" || cpu_number(name).is_some() => {
            let value = match value {
                "on" => "1",
                "off" => "0",
                other => other,
            };
            vec![(path, value.to_owned())]
        }
        _ => vec![(path, value.to_owned())],
    }
}

/// `cpu3`
fn cpu_number(name: &str) -> Option<u32> {
    name.strip_prefix("cpu")?.parse().ok()
}

/// The file that says whether a CPU is online.
pub(crate) fn online_file(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// The file that a name stands for.
pub(crate) fn path_of(name: &str, version: (u32, u32)) -> String {
    if let Some(cpu) = cpu_number(name) {
        return online_file(cpu);
    }
    if name == "autogroup" {
        return "/proc/sys/kernel/sched_autogroup_enabled".to_owned();
    }
    let short = name.strip_prefix("sched_").unwrap_or(name);
    if name.starts_with('/') {
        name.to_owned()
    } else if let Some(rest) = name.strip_prefix("kernel.") {
        format!("/proc/sys/kernel/{}", rest.replace('.', "/"))
    } else if SYSCTLS.contains(&short) {
        format!("/proc/sys/kernel/sched_{short}")
    } else if version < DEBUGFS_SINCE && name == "features" {
        "/sys/kernel/debug/sched_features".to_owned()
    } else if version < DEBUGFS_SINCE && !name.starts_with("sched/") {
        format!("/proc/sys/kernel/sched_{short}")
    } else {
        format!("/sys/kernel/debug/sched/{}", name.strip_prefix("sched/").unwrap_or(short))
    }
}

/// The shortest name by which `--param` sets this file.
pub fn tunable_name(path: &str, version: (u32, u32)) -> String {
    let mut names = Vec::new();
    if let Some(rest) = path.strip_prefix("/sys/kernel/debug/sched/") {
        if !rest.contains('/') {
            names.push(rest.to_owned());
        }
        names.push(format!("sched/{rest}"));
    } else if let Some(rest) = path.strip_prefix("/proc/sys/kernel/") {
        names.extend(rest.strip_prefix("sched_").map(str::to_owned));
        names.push(format!("kernel.{rest}"));
    } else if path == "/sys/kernel/debug/sched_features" {
        names.push("features".to_owned());
    }
    names
        .into_iter()
        .find(|name| path_of(name, version) == path && !name.starts_with('/'))
        .unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_files() {
        let given: Vec<(String, String)> = [
            ("base_slice_ns", "3000000"),
            ("boot.skew_tick", "1"),
            ("boot.nohz", ""),
            ("cpu3", "off"),
            ("features", "NO_DELAY_DEQUEUE, HRTICK"),
            ("rt_runtime_us", "-1"),
            ("kernel.sched_rr_timeslice_ms", "50"),
            ("sched/fair_server/cpu0/runtime", "1"),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .to_vec();
        let p = Params::new(&given, (6, 12));
        assert_eq!(p.command_line(), "skew_tick=1 nohz");
        let debug = "/sys/kernel/debug/sched";
        assert_eq!(
            p.writes().collect::<Vec<_>>(),
            [
                ("/sys/devices/system/cpu/cpu3/online", "0"),
                (&*format!("{debug}/base_slice_ns"), "3000000"),
                (&*format!("{debug}/features"), "NO_DELAY_DEQUEUE"),
                (&*format!("{debug}/features"), "HRTICK"),
                ("/proc/sys/kernel/sched_rt_runtime_us", "-1"),
                ("/proc/sys/kernel/sched_rr_timeslice_ms", "50"),
                (&*format!("{debug}/fair_server/cpu0/runtime"), "1"),
            ]
        );
    }

    #[test]
    fn files_find_their_names() {
        for (path, name) in [
            ("/sys/kernel/debug/sched/base_slice_ns", "base_slice_ns"),
            ("/sys/kernel/debug/sched/fair_server/cpu0/runtime", "sched/fair_server/cpu0/runtime"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "rt_runtime_us"),
            ("/proc/sys/kernel/sched_energy_aware", "kernel.sched_energy_aware"),
            ("/proc/sys/kernel/numa_balancing", "kernel.numa_balancing"),
            ("/elsewhere", "/elsewhere"),
        ] {
            assert_eq!(tunable_name(path, (6, 12)), name);
            assert_eq!(path_of(name, (6, 12)), path);
        }
        assert_eq!(tunable_name("/sys/kernel/debug/sched_features", (5, 10)), "features");
        assert_eq!(tunable_name("/proc/sys/kernel/sched_latency_ns", (5, 10)), "latency_ns");
    }

    #[test]
    fn before_5_13_tunables_are_sysctls() {
        let path = |name| path_of(name, (5, 10));
        assert_eq!(path("migration_cost_ns"), "/proc/sys/kernel/sched_migration_cost_ns");
        assert_eq!(path("features"), "/sys/kernel/debug/sched_features");
        assert_eq!(path("rt_runtime_us"), "/proc/sys/kernel/sched_rt_runtime_us");
    }
}
