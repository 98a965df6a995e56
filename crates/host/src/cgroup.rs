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
//! A task's row has its own group's values only. Those of the groups above it, which as a rule have no tasks
//! of their own, stand in a second table, a row per group, `NAME.cgroup.csv` ([`GroupTable`]):
//!
//! ```text
//! path,cpu_weight,cpu_max,cpuset
//! /system.slice,100,max 100000,0-7
//! /system.slice/ssh.service,200,50000 100000,0-3
//! ```
//!
//! The root group of version 2 has none of these files; its columns are empty (unknown).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schedlab_stdx::{aside, csv};

use crate::error::HostError;
use crate::snapshot::text;
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

/// The groups that tasks are in, and all groups above them, but for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupTable {
    /// By path.
    pub rows: BTreeMap<String, CgroupCpu>,
}

impl GroupTable {
    /// `a/b.cgroup.csv` for `a/b.dat`.
    pub fn path_beside(trace: &Path) -> PathBuf {
        trace.with_extension("cgroup.csv")
    }

    /// `a/b.cgroup.csv` for `a/b.proc.csv`.
    pub(crate) fn path_beside_snapshot(snapshot: &Path) -> PathBuf {
        let name = snapshot.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = name.strip_suffix(".csv").unwrap_or(&name);
        let stem = stem.strip_suffix(".proc").unwrap_or(stem);
        snapshot.with_file_name(format!("{stem}.cgroup.csv"))
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut out = "path,cpu_weight,cpu_max,cpuset\n".to_owned();
        for (path, group) in &self.rows {
            let fields =
                [path.clone(), text(group.weight), text(group.max.as_ref()), text(group.cpuset.as_ref())];
            let fields = fields.each_ref().map(|field| csv::field(field));
            out += &(fields.join(",") + "\n");
        }
        out
    }

    /// Parses a table.
    ///
    /// # Errors
    /// [`HostError::Snapshot`] with file, line and what was expected.
    pub fn from_csv(table: &str, path: &Path) -> Result<GroupTable, HostError> {
        let bad = |line: usize, problem: &str| HostError::Snapshot {
            path: path.to_owned(),
            line,
            problem: problem.to_owned(),
        };
        let mut rows = BTreeMap::new();
        for (line, record) in csv::records(table).skip(1) {
            let [name, weight, max, cpuset] = record.as_slice() else {
                return Err(bad(line, "expected four fields: path,cpu_weight,cpu_max,cpuset"));
            };
            let some = |field: &String| Some(field.clone()).filter(|field| !field.is_empty());
            let weight = some(weight).map(|weight| weight.parse()).transpose();
            let weight = weight.map_err(|_| bad(line, "cpu_weight is no number, expected 1 to 10000"))?;
            let group = CgroupCpu { path: Some(name.clone()), weight, max: some(max), cpuset: some(cpuset) };
            rows.insert(name.clone(), group);
        }
        Ok(GroupTable { rows })
    }

    /// Writes the file aside and renames it; a table without rows is no file, and one that lies there from an earlier
    /// recording goes.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), HostError> {
        if !self.rows.is_empty() {
            return aside::write(path, self.to_csv().as_bytes()).map_err(HostError::io("cannot write", path));
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(HostError::io("cannot remove the old", path)(e))
            }
            _ => Ok(()),
        }
    }

    /// Takes in the rows of a later table for groups that are not known yet.
    pub(crate) fn add_new(&mut self, later: GroupTable) {
        for (path, group) in later.rows {
            self.rows.entry(path).or_insert(group);
        }
    }
}

/// A path's ancestors below the root, and itself: `/a/b` has `/a` and `/a/b`.
pub(crate) fn lineage(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(at, _)| at);
    ends.chain([path.len()]).map(|end| &path[..end]).filter(|path| path.len() > 1)
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

    /// The groups of these tasks and those above them.
    pub(crate) fn table<'a>(&self, of: impl Iterator<Item = &'a CgroupCpu>) -> GroupTable {
        let mut table = GroupTable::default();
        for own in of {
            let Some(path) = own.path.as_deref() else { continue };
            for group in lineage(path) {
                if !table.rows.contains_key(group) {
                    let values = if group == path { own.clone() } else { self.group(group) };
                    table.rows.insert(group.to_owned(), values);
                }
            }
        }
        table
    }

    /// The group with this path in the hierarchy that has the cpu controller.
    fn group(&self, path: &str) -> CgroupCpu {
        match &self.v1_cpu {
            Some(_) => self.read(&format!("1:cpu:{path}\n2:cpuset:{path}\n")),
            None => self.read(&format!("0::{path}\n")),
        }
    }

    /// The folder of the group with this path in the hierarchy that has the cpu controller.
    pub(crate) fn folder(&self, path: &str) -> Option<PathBuf> {
        let root = self.v1_cpu.as_ref().or(self.v2.as_ref())?;
        Some(root.join(path.trim_start_matches('/'))).filter(|folder| folder.is_dir())
    }

    /// The kernel's number of the hierarchy that has the cpu controller, from the text of a /proc/PID/cgroup: events of
    /// moves name it.
    pub(crate) fn hierarchy(proc_cgroup: &str) -> Option<u32> {
        let line = |controller: &str| {
            proc_cgroup.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (id, controllers) = (parts.next()?, parts.next()?);
                controllers.split(',').any(|c| c == controller).then(|| id.parse().ok())?
            })
        };
        line("cpu").or_else(|| line(""))
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
        assert_eq!(
            cgroups.folder("/job"),
            Some(folder.path().join("cpu/job")),
            "version 1 has the controller"
        );
        assert_eq!(cgroups.folder("/user"), None);
    }

    #[test]
    fn the_groups_above_are_in_the_table_and_the_root_is_not() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for (name, text) in [
            ("a/cpu.weight", "50\n"),
            ("a/cpu.max", "20000 100000\n"),
            ("a/b/cpu.weight", "300\n"),
            ("a/b/cpuset.cpus.effective", "0,2\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        let mut cgroups = Cgroups::new(&format!("cgroup2 {} cgroup2 rw 0 0\n", folder.path().display()));
        let own = [cgroups.of_task("0::/a/b\n"), cgroups.of_task("0::/\n"), cgroups.of_task("0::/a/b\n")];
        let table = cgroups.table(own.iter());
        let expected = "path,cpu_weight,cpu_max,cpuset\n/a,50,20000 100000,\n/a/b,300,,\"0,2\"\n";
        assert_eq!(table.to_csv(), expected);
        assert_eq!(GroupTable::from_csv(expected, Path::new("x")).expect("own output"), table);
        let bad = GroupTable::from_csv("path\n/a,heavy,,\n", Path::new("x.csv")).expect_err("no number");
        assert!(bad.to_string().starts_with("x.csv:2: cpu_weight is no number"), "{bad}");
    }

    #[test]
    fn the_hierarchy_of_the_cpu_controller_is_found() {
        assert_eq!(Cgroups::hierarchy("9:name=systemd:/\n1:cpu,cpuacct:/\n0::/\n"), Some(1));
        assert_eq!(Cgroups::hierarchy("0::/user.slice\n"), Some(0));
        assert_eq!(Cgroups::hierarchy(""), None);
        assert_eq!(lineage("/a/b/c").collect::<Vec<_>>(), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(lineage("/").count(), 0);
    }
}
