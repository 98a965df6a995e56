//! Which cgroup is a task in, and what CPU weight, limit and cpuset does that group have?
//!
//! No event tells it. /proc/PID/cgroup gives the path, /sys/fs/cgroup the values. Version 1 hierarchies are translated
//! to the files of version 2, so that one column has one meaning:
//!
//! | column | version 2 file | version 1 |
//! |---|---|---|
//! | cpu_weight | cpu.weight, 1..10000, default 100 | cpu.shares x 100 / 1024, rounded, as the kernel converts |
//! | cpu_max | cpu.max, "max 100000" or "QUOTA PERIOD" in us | cpu.cfs_quota_us (-1 is max), cpu.cfs_period_us |
//! | cpuset | cpuset.cpus.effective | cpuset.effective_cpus or cpuset.cpus |
//!
//! A group's own values only: those of the groups above it stand in their own tasks' rows, if they have any. The root
//! group of version 2 has none of these files; its columns are empty (unknown).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::tracefs::read_text;

/// What a task's group says about CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupCpu {
    /// Path in the hierarchy that has the cpu controller.
    pub path: Option<String>,
    /// As in cpu.weight.
    pub weight: Option<u32>,
    /// As in cpu.max.
    pub max: Option<String>,
    /// List of CPUs.
    pub cpuset: Option<String>,
}

/// Reads groups, each only once.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    v2: Option<PathBuf>,
    v1_cpu: Option<PathBuf>,
    v1_cpuset: Option<PathBuf>,
    known: BTreeMap<String, CgroupCpu>,
}

impl Cgroups {
    /// Finds the mounted hierarchies in a table as /proc/self/mounts.
    pub(crate) fn new(mounts: &str) -> Cgroups {
        let mut cgroups = Cgroups::default();
        for line in mounts.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let &[_device, at, kind, options, ..] = words.as_slice() else { continue };
            let has = |controller| options.split(',').any(|option| option == controller);
            match kind {
                "cgroup2" => cgroups.v2.get_or_insert(PathBuf::from(at)),
                "cgroup" if has("cpu") => cgroups.v1_cpu.get_or_insert(PathBuf::from(at)),
                "cgroup" if has("cpuset") => cgroups.v1_cpuset.get_or_insert(PathBuf::from(at)),
                _ => continue,
            };
        }
        cgroups
    }

    /// The group of a task, from the text of its /proc/PID/task/TID/cgroup.
    pub(crate) fn of_task(&mut self, proc_cgroup: &str) -> CgroupCpu {
        if let Some(known) = self.known.get(proc_cgroup) {
            return known.clone();
        }
        let found = self.read(proc_cgroup);
        self.known.insert(proc_cgroup.to_owned(), found.clone());
        found
    }

    fn read(&self, proc_cgroup: &str) -> CgroupCpu {
        let path_of = |controller: &str| {
            proc_cgroup.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (_id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                controllers.split(',').any(|c| c == controller).then(|| path.to_owned())
            })
        };
        // Line "0::/path" is version 2; a controller named in another line is in version 1.
        let unified = path_of("");
        let text = |folder: &Option<PathBuf>, path: &Option<String>, file: &str| {
            let folder = folder.as_ref()?.join(path.as_ref()?.trim_start_matches('/'));
            value(&folder.join(file))
        };
        let mut group = CgroupCpu::default();
        match path_of("cpu") {
            Some(path) => {
                let path = Some(path);
                let shares = text(&self.v1_cpu, &path, "cpu.shares").and_then(|s| s.parse().ok());
                group.weight = shares.map(weight_of_shares);
                let quota = text(&self.v1_cpu, &path, "cpu.cfs_quota_us");
                let period = text(&self.v1_cpu, &path, "cpu.cfs_period_us");
                group.max = quota.zip(period).map(|(quota, period)| {
                    if quota.starts_with('-') { format!("max {period}") } else { format!("{quota} {period}") }
                });
                group.path = path;
            }
            None => {
                group.weight = text(&self.v2, &unified, "cpu.weight").and_then(|w| w.parse().ok());
                group.max = text(&self.v2, &unified, "cpu.max");
                group.path = unified.clone();
            }
        }
        group.cpuset = match path_of("cpuset") {
            Some(path) => {
                let path = Some(path);
                text(&self.v1_cpuset, &path, "cpuset.effective_cpus")
                    .or_else(|| text(&self.v1_cpuset, &path, "cpuset.cpus"))
            }
            None => text(&self.v2, &unified, "cpuset.cpus.effective"),
        };
        group
    }
}

fn value(path: &Path) -> Option<String> {
    let text = read_text(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Version 1's shares (1024 is default) as version 2's weight (100 is default), rounded to nearest and kept within
/// 1..10000: the kernel's own `sched_weight_to_cgroup`.
fn weight_of_shares(shares: u64) -> u32 {
    // The result is at most 10000.
    (shares.saturating_mul(100).saturating_add(512) / 1024).clamp(1, 10_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_weights_as_in_the_kernel() {
        // kernel: clamp(DIV_ROUND_CLOSEST(weight * 100, 1024), 1, 10000)
        for (shares, weight) in [(1024, 100), (2, 1), (512, 50), (262_144, 10_000), (10, 1), (2048, 200)] {
            assert_eq!(weight_of_shares(shares), weight, "shares {shares}");
        }
    }

    #[test]
    fn both_versions_are_read() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        };
        file("v2/user/cpu.weight", "250\n");
        file("v2/user/cpu.max", "50000 100000\n");
        file("v2/user/cpuset.cpus.effective", "0-3\n");
        file("cpu/job/cpu.shares", "2048\n");
        file("cpu/job/cpu.cfs_quota_us", "-1\n");
        file("cpu/job/cpu.cfs_period_us", "100000\n");
        file("cpuset/job/cpuset.cpus", "1\n");
        let root = folder.path().display();
        let mounts = format!(
            "cgroup2 {root}/v2 cgroup2 rw 0 0\ncgroup {root}/cpu cgroup rw,cpu,cpuacct 0 0\n\
             cgroup {root}/cpuset cgroup rw,cpuset 0 0\n"
        );
        let mut cgroups = Cgroups::new(&mounts);
        let v2 = cgroups.of_task("0::/user\n");
        assert_eq!(
            v2,
            CgroupCpu {
                path: Some("/user".to_owned()),
                weight: Some(250),
                max: Some("50000 100000".to_owned()),
                cpuset: Some("0-3".to_owned()),
            }
        );
        let v1 = cgroups.of_task("3:cpuset:/job\n2:cpu,cpuacct:/job\n0::/user\n");
        assert_eq!(
            v1,
            CgroupCpu {
                path: Some("/job".to_owned()),
                weight: Some(200),
                max: Some("max 100000".to_owned()),
                cpuset: Some("1".to_owned()),
            }
        );
        assert_eq!(cgroups.of_task("0::/\n").weight, None, "the root group has no weight");
    }
}
