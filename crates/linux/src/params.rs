//! Which file of the simulated kernel does a tunable (`--param NAME=VALUE`) live in?
//!
//! | name | what it sets |
//! |---|---|
//! | `base_slice_ns`, `features`, `migration_cost_ns`, `nr_migrate`, ... | `/sys/kernel/debug/sched/NAME` |
//! | `rt_runtime_us`, `rt_period_us`, `rr_timeslice_ms`, `cfs_bandwidth_slice_us`, ... | `/proc/sys/kernel/sched_NAME` |
//! | `kernel.NAME` | `/proc/sys/kernel/NAME` |
//! | `sched/PATH` | `/sys/kernel/debug/sched/PATH`, e.g. `sched/fair_server/cpu0/runtime` |
//! | `/PATH` | that file
//! | `boot.NAME` | `NAME=VALUE` on the kernel's command line, e.g. `boot.skew_tick=1` |
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

/// Tunables of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    writes: Vec<(String, String)>,
    command_line: String,
}

impl Params {
    pub(crate) fn new(params: &[(String, String)]) -> Params {
        let mut p = Params::default();
        for (name, value) in params {
            if let Some(name) = name.strip_prefix("boot.") {
                let space = if p.command_line.is_empty() { "" } else { " " };
                p.command_line.push_str(&format!("{space}{name}={value}"));
            } else if name == "features" {
                let path = path_of(name);
                let each = value.split([' ', ',']).filter(|v| !v.is_empty());
                p.writes.extend(each.map(|v| (path.clone(), v.to_owned())));
            } else {
                p.writes.push((path_of(name), value.clone()));
            }
        }
        p
    }

    /// File and value, in the order given.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.writes.iter().map(|(path, value)| (path.as_str(), value.as_str()))
    }

    pub(crate) fn command_line(&self) -> &str {
        &self.command_line
    }

    /// Say what can be done about a tunable that the kernel refuses.
    pub(crate) fn explain(&self, mut fault: Fault) -> Fault {
        if self.writes.iter().any(|(path, _)| fault.reason.contains(path.as_str())) {
            fault.reason.push_str("; check the name and range of this --param for this kernel version");
        }
        fault
    }
}

fn path_of(name: &str) -> String {
    let short = name.strip_prefix("sched_").unwrap_or(name);
    if name.starts_with('/') {
        name.to_owned()
    } else if let Some(rest) = name.strip_prefix("kernel.") {
        format!("/proc/sys/kernel/{}", rest.replace('.', "/"))
    } else if SYSCTLS.contains(&short) {
        format!("/proc/sys/kernel/sched_{short}")
    } else {
        format!("/sys/kernel/debug/sched/{}", name.strip_prefix("sched/").unwrap_or(short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_files() {
        let given: Vec<(String, String)> = [
            ("base_slice_ns", "3000000"),
            ("boot.skew_tick", "1"),
            ("features", "NO_DELAY_DEQUEUE, HRTICK"),
            ("rt_runtime_us", "-1"),
            ("kernel.sched_rr_timeslice_ms", "50"),
            ("sched/fair_server/cpu0/runtime", "1"),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .to_vec();
        let p = Params::new(&given);
        assert_eq!(p.command_line(), "skew_tick=1");
        let debug = "/sys/kernel/debug/sched";
        assert_eq!(
            p.writes().collect::<Vec<_>>(),
            [
                (&*format!("{debug}/base_slice_ns"), "3000000"),
                (&*format!("{debug}/features"), "NO_DELAY_DEQUEUE"),
                (&*format!("{debug}/features"), "HRTICK"),
                ("/proc/sys/kernel/sched_rt_runtime_us", "-1"),
                ("/proc/sys/kernel/sched_rr_timeslice_ms", "50"),
                (&*format!("{debug}/fair_server/cpu0/runtime"), "1"),
            ]
        );
    }
}
