//! What did no event tell: every thread's nice, policy, affinity and cgroup when the recording began.
//!
//! A CSV beside the trace (`NAME.proc.csv` beside `NAME.dat`), one row per thread, in order of tid:
//!
//! ```text
//! pid,tid,comm,policy,nice,rt_priority,affinity,cgroup,cpu_weight,cpu_max,cpuset,ppid,state,cpu,dl_runtime_ns,...
//! 812,812,sshd,normal,0,0,0-7,/system.slice/ssh.service,100,max 100000,0-7,1,S,3,,,,
//! 18,18,migration/0,fifo,0,99,0,/,,,0-7,2,S,0,,,,
//! 900,900,bash,normal,0,0,0-7,/,,,0-7,1,S,0,,,,/autogroup-128 nice 0
//! ```
//!
//! An empty field is unknown (or does not apply); a reader takes columns by name and treats missing ones as unknown.
//! policy is the kernel's word in lower case without SCHED_: normal, fifo, rr, batch, idle, deadline, ext. affinity is
//! a CPU list as in Cpus_allowed_list. state is that of /proc/PID/stat (R, S, D, ...). Fields with a comma, a quote or
//! a line break are quoted as in RFC 4180. Threads that end while the table is read are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use schedlab_stdx::{aside, csv};

use crate::cgroup::{CgroupCpu, Cgroups, GroupTable, lineage};
use crate::error::HostError;
use crate::tracefs::read_text;

/// The columns, in the order they are written.
pub const COLUMNS: [&str; 18] = [
    "pid",
    "tid",
    "comm",
    "policy",
    "nice",
    "rt_priority",
    "affinity",
    "cgroup",
    "cpu_weight",
    "cpu_max",
    "cpuset",
    "ppid",
    "state",
    "cpu",
    "dl_runtime_ns",
    "dl_deadline_ns",
    "dl_period_ns",
    "autogroup",
];

/// One thread. `None` is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Process (thread group).
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Name, at most 15 bytes for a user thread.
    pub comm: String,
    /// normal, fifo, rr, batch, idle, deadline, ext.
    pub policy: Option<String>,
    /// -20..19.
    pub nice: Option<i32>,
    /// 1..99 for fifo and rr, else 0.
    pub rt_priority: Option<u32>,
    /// List of allowed CPUs.
    pub affinity: Option<String>,
    /// The group's path, weight, limit and cpuset.
    pub cgroup: CgroupCpu,
    /// Parent process.
    pub ppid: Option<i32>,
    /// R, S, D, T, t, I, Z.
    pub state: Option<char>,
    /// CPU it last ran on.
    pub cpu: Option<u32>,
    /// Runtime, deadline and period of policy deadline, in ns.
    pub deadline_ns: Option<(u64, u64, u64)>,
    /// The group of its session, as the kernel tells it: `/autogroup-NUMBER nice N`. `None` also where sessions have no
    /// groups of their own.
    pub autogroup: Option<String>,
}

/// Every thread of the host at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// In order of tid.
    pub rows: Vec<SnapshotRow>,
    /// Their control groups and those above, for the second table.
    pub groups: GroupTable,
}

impl Snapshot {
    /// Reads /proc.
    ///
    /// # Errors
    /// [`HostError::Io`] when /proc cannot be listed; threads that vanish meanwhile are left out.
    pub fn take() -> Result<Snapshot, HostError> {
        let mut cgroups = Cgroups::new(&read_text(Path::new("/proc/self/mounts")).unwrap_or_default());
        let enabled = read_text(Path::new("/proc/sys/kernel/sched_autogroup_enabled")).unwrap_or_default();
        let has_autogroups = enabled.trim() == "1";
        let mut rows = Vec::new();
        for pid in numbers_in(Path::new("/proc")).map_err(HostError::io("cannot list", "/proc"))? {
            let autogroup = has_autogroups.then(|| autogroup_of(pid)).flatten();
            for tid in numbers_in(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default() {
                let row = read_thread(pid, tid, &mut cgroups);
                rows.extend(row.map(|row| SnapshotRow { autogroup: autogroup.clone(), ..row }));
            }
        }
        rows.sort_by_key(|row| row.tid);
        let groups = cgroups.table(rows.iter().map(|row| &row.cgroup));
        Ok(Snapshot { rows, groups })
    }

    /// The threads of these processes and of all processes below them.
    pub(crate) fn family(&self, processes: &[i32]) -> BTreeSet<i32> {
        let mut children: BTreeMap<i32, BTreeSet<i32>> = BTreeMap::new();
        for row in &self.rows {
            children.entry(row.ppid.unwrap_or(0)).or_default().insert(row.pid);
        }
        let mut family: BTreeSet<i32> = BTreeSet::new();
        let mut open: Vec<i32> = processes.to_vec();
        while let Some(process) = open.pop() {
            if family.insert(process) {
                open.extend(children.get(&process).into_iter().flatten());
            }
        }
        self.rows.iter().filter(|row| family.contains(&row.pid)).map(|row| row.tid).collect()
    }

    /// The threads in these control groups and in the groups below them.
    pub(crate) fn members(&self, groups: &[String]) -> BTreeSet<i32> {
        let is_in = |row: &&SnapshotRow| {
            row.cgroup
                .path
                .as_deref()
                .is_some_and(|path| lineage(path).any(|p| groups.iter().any(|g| g == p)))
        };
        self.rows.iter().filter(is_in).map(|row| row.tid).collect()
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut out = COLUMNS.join(",") + "\n";
        for row in &self.rows {
            let deadline = |part: fn((u64, u64, u64)) -> u64| text(row.deadline_ns.map(part));
            let fields = [
                row.pid.to_string(),
                row.tid.to_string(),
                row.comm.clone(),
                text(row.policy.as_ref()),
                text(row.nice),
                text(row.rt_priority),
                text(row.affinity.as_ref()),
                text(row.cgroup.path.as_ref()),
                text(row.cgroup.weight),
                text(row.cgroup.max.as_ref()),
                text(row.cgroup.cpuset.as_ref()),
                text(row.ppid),
                text(row.state),
                text(row.cpu),
                deadline(|(runtime, _, _)| runtime),
                deadline(|(_, deadline, _)| deadline),
                deadline(|(_, _, period)| period),
                text(row.autogroup.as_ref()),
            ];
            out += &fields.each_ref().map(|field| csv::field(field)).join(",");
            out.push('\n');
        }
        out
    }

    /// Parses a table; columns are found by name, unknown ones are ignored, missing ones are unknown.
    ///
    /// # Errors
    /// [`HostError::Snapshot`] with file, line, column and what was expected.
    pub fn from_csv(table: &str, path: &Path) -> Result<Snapshot, HostError> {
        let error = |line, problem| HostError::Snapshot { path: path.to_owned(), line, problem };
        let mut records = csv::records(table);
        let (_, header) = records.next().ok_or_else(|| {
            error(1, format!("the file is empty, expected the columns {}", COLUMNS.join(",")))
        })?;
        let place = |name: &str| header.iter().position(|column| column == name);
        for needed in ["pid", "tid", "comm"] {
            if place(needed).is_none() {
                return Err(error(
                    1,
                    format!("there is no column {needed}; the columns are {}", COLUMNS.join(",")),
                ));
            }
        }
        let places = COLUMNS.map(place);
        let mut rows = Vec::new();
        for (line, record) in records {
            if record.len() != header.len() {
                return Err(error(
                    line,
                    format!("{} fields, expected {} as in the first line", record.len(), header.len()),
                ));
            }
            let field = |column: &str| {
                let at = COLUMNS.iter().position(|name| *name == column)?;
                record.get(places[at]?).filter(|text| !text.is_empty())
            };
            let bad = |column: &str, expected: &str| {
                error(line, format!("{column} is {:?}, expected {expected}", field(column)))
            };
            macro_rules! number {
                ($column:literal) => {
                    field($column)
                        .map(|text| text.parse().map_err(|_| bad($column, "a whole number")))
                        .transpose()?
                };
            }
            let (runtime, deadline, period) =
                (number!("dl_runtime_ns"), number!("dl_deadline_ns"), number!("dl_period_ns"));
            rows.push(SnapshotRow {
                pid: number!("pid").ok_or_else(|| bad("pid", "a whole number"))?,
                tid: number!("tid").ok_or_else(|| bad("tid", "a whole number"))?,
                comm: field("comm").cloned().unwrap_or_default(),
                policy: field("policy").cloned(),
                nice: number!("nice"),
                rt_priority: number!("rt_priority"),
                affinity: field("affinity").cloned(),
                cgroup: CgroupCpu {
                    path: field("cgroup").cloned(),
                    weight: number!("cpu_weight"),
                    max: field("cpu_max").cloned(),
                    cpuset: field("cpuset").cloned(),
                },
                ppid: number!("ppid"),
                state: field("state").and_then(|text| text.chars().next()),
                cpu: number!("cpu"),
                deadline_ns: match (runtime, deadline, period) {
                    (Some(runtime), Some(deadline), Some(period)) => Some((runtime, deadline, period)),
                    _ => None,
                },
                autogroup: field("autogroup").cloned(),
            });
        }
        Ok(Snapshot { rows, groups: GroupTable::default() })
    }

    /// Writes the table, and that of the control groups beside it if there are any, under other names and renames them.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), HostError> {
        self.groups.write(&GroupTable::path_beside_snapshot(path))?;
        aside::write(path, self.to_csv().as_bytes()).map_err(HostError::io("cannot write", path))
    }

    /// Reads a table, and that of the control groups if it lies beside.
    ///
    /// # Errors
    /// [`HostError::Io`] or [`HostError::Snapshot`].
    pub fn read(path: &Path) -> Result<Snapshot, HostError> {
        let read = |path: &Path| read_text(path).map_err(HostError::io("cannot read", path));
        let mut snapshot = Snapshot::from_csv(&read(path)?, path)?;
        let groups = GroupTable::path_beside_snapshot(path);
        if groups.exists() {
            snapshot.groups = GroupTable::from_csv(&read(&groups)?, &groups)?;
        }
        Ok(snapshot)
    }

    /// Where the snapshot of a trace lies: `a/b.dat` has `a/b.proc.csv`.
    pub fn path_beside(trace: &Path) -> PathBuf {
        trace.with_extension("proc.csv")
    }
}

pub(crate) fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

/// Names in a folder that are numbers, in order.
pub(crate) fn numbers_in(folder: &Path) -> std::io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The group of a process' session, which all its threads are in. For the kernel's own threads nothing stands there.
fn autogroup_of(pid: i32) -> Option<String> {
    let line = read_text(Path::new(&format!("/proc/{pid}/autogroup"))).ok()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn read_thread(pid: i32, tid: i32, cgroups: &mut Cgroups) -> Option<SnapshotRow> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let read = |file: &str| read_text(Path::new(&format!("{folder}/{file}"))).ok();
    let stat = read("stat")?;
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    // Counted as in proc(5), where the state is field 3.
    let fields: Vec<&str> = stat[close + 1..].split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let status = read("status").unwrap_or_default();
    let policy = field(41).and_then(|p| p.parse().ok());
    Some(SnapshotRow {
        pid,
        tid,
        comm: comm_of(&stat[open + 1..close]),
        policy: policy.map(policy_name),
        nice: field(19).and_then(|n| n.parse().ok()),
        rt_priority: field(40).and_then(|p| p.parse().ok()),
        affinity: status
            .lines()
            .find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned())),
        cgroup: cgroups.of_task(&read("cgroup").unwrap_or_default()),
        ppid: field(4).and_then(|p| p.parse().ok()),
        state: field(3).and_then(|s| s.chars().next()),
        cpu: field(39).and_then(|c| c.parse().ok()),
        deadline_ns: (policy == Some(SCHED_DEADLINE)).then(|| deadline_parameters(tid)).flatten(),
        autogroup: None,
    })
}

/// The name as the events have it. /proc shows a kworker with the work it last did ("kworker/0:1-events"), which is no
/// part of its name, and other kernel threads with more than the 15 bytes that events carry.
fn comm_of(shown: &str) -> String {
    let name = match shown.strip_prefix("kworker/") {
        Some(rest) if !rest.starts_with("R-") => {
            let end = rest.find(['-', '+']).unwrap_or(rest.len());
            &shown[.."kworker/".len() + end]
        }
        _ => shown,
    };
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

const SCHED_DEADLINE: u32 = 6;

/// The kernel's names, from include/uapi/linux/sched.h.
fn policy_name(policy: u32) -> String {
    match policy {
        0 => "normal".to_owned(),
        1 => "fifo".to_owned(),
        2 => "rr".to_owned(),
        3 => "batch".to_owned(),
        5 => "idle".to_owned(),
        SCHED_DEADLINE => "deadline".to_owned(),
        7 => "ext".to_owned(),
        other => other.to_string(),
    }
}

/// Runtime, deadline and period in ns.
fn deadline_parameters(tid: i32) -> Option<(u64, u64, u64)> {
    // SAFETY: a structure of plain numbers.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size passed, which is that of the local.
    let rc = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size_of::<libc::sched_attr>(), 0u32)
    };
    (rc == 0).then_some((attr.sched_runtime, attr.sched_deadline, attr.sched_period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_thread_is_in_the_snapshot_as_the_system_calls_say() {
        let me = std::process::id() as i32;
        let snapshot = Snapshot::take().expect("proc");
        let row = snapshot.rows.iter().find(|row| row.tid == me).expect("main thread");
        assert_eq!(row.pid, me);
        // Independent witnesses: getpriority, getppid, sched_getscheduler.
        // SAFETY: plain queries.
        let (nice, parent, policy) = unsafe {
            (
                libc::getpriority(libc::PRIO_PROCESS, me as u32),
                libc::getppid(),
                libc::sched_getscheduler(me) as u32,
            )
        };
        assert_eq!(row.nice, Some(nice));
        assert_eq!(row.ppid, Some(parent));
        assert_eq!(row.policy, Some(policy_name(policy)));
        assert!(row.affinity.as_deref().is_some_and(|list| list.starts_with(|c: char| c.is_ascii_digit())));
        let enabled = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
        match &row.autogroup {
            Some(group) => {
                assert_eq!(enabled.trim(), "1");
                assert!(group.starts_with("/autogroup-") && group.contains(" nice "), "{group}");
            }
            // Nobody called setsid() between the kernel's first task and this one (a container may be so): its file is
            // there, and empty.
            None => {
                let line = std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default();
                assert!(enabled.trim() != "1" || line.trim().is_empty(), "{line}");
            }
        }
    }

    #[test]
    fn a_table_comes_back_as_it_was_whatever_the_name() {
        let row = |comm: &str| SnapshotRow {
            pid: 1,
            tid: 2,
            comm: comm.to_owned(),
            policy: Some("normal".to_owned()),
            nice: Some(-5),
            affinity: Some("0,2-3".to_owned()),
            deadline_ns: Some((1, 2, 3)),
            cgroup: CgroupCpu { path: Some("/a,b".to_owned()), weight: Some(100), max: None, cpuset: None },
            state: Some('S'),
            autogroup: Some("/autogroup-128 nice 0".to_owned()),
            ..SnapshotRow::default()
        };
        let names = ["plain", "with,comma", "say \"hi\"", "new\nline", " edge ", "()"];
        let snapshot = Snapshot { rows: names.map(row).to_vec(), ..Snapshot::default() };
        let csv = snapshot.to_csv();
        assert_eq!(Snapshot::from_csv(&csv, Path::new("x.csv")).expect("own output"), snapshot);
    }

    #[test]
    fn columns_are_found_by_name_and_missing_ones_are_unknown() {
        let csv = "comm,other,tid,pid\nsh,zzz,12,11\n";
        let snapshot = Snapshot::from_csv(csv, Path::new("x.csv")).expect("three columns are enough");
        let expected = SnapshotRow { pid: 11, tid: 12, comm: "sh".to_owned(), ..SnapshotRow::default() };
        assert_eq!(snapshot.rows, [expected]);
    }

    #[test]
    fn a_bad_table_is_refused_with_place_and_expectation() {
        let said = |csv: &str| Snapshot::from_csv(csv, Path::new("x.csv")).expect_err("bad").to_string();
        assert!(said("").starts_with("x.csv:1: the file is empty"));
        assert!(said("pid,comm\n").starts_with("x.csv:1: there is no column tid"));
        assert!(said("pid,tid,comm\n1,2,a\n1,2\n").starts_with("x.csv:3: 2 fields, expected 3"));
        assert!(
            said("pid,tid,comm,nice\n1,2,a,x\n")
                .contains("x.csv:2: nice is Some(\"x\"), expected a whole number")
        );
    }

    #[test]
    fn names_are_those_of_the_events() {
        assert_eq!(comm_of("kworker/0:1-events"), "kworker/0:1");
        assert_eq!(comm_of("kworker/u8:2+flush-8:0"), "kworker/u8:2");
        assert_eq!(comm_of("kworker/0:0H-events_highpri"), "kworker/0:0H");
        assert_eq!(comm_of("kworker/R-slub_flushwq"), "kworker/R-slub_");
        assert_eq!(comm_of("rcu_exp_par_gp_kthread_worker/0"), "rcu_exp_par_gp_");
        assert_eq!(comm_of("my-program"), "my-program");
    }

    #[test]
    fn the_snapshot_lies_beside_its_trace() {
        assert_eq!(Snapshot::path_beside(Path::new("a/trace.dat")), Path::new("a/trace.proc.csv"));
    }
}
