//! What did no event tell about the tasks at the start? Policies, nice values, CPUs, control groups: the
//! /proc snapshot.
//!
//! `NAME.proc.csv` beside `NAME.dat`: a header line with names of columns, then a row per thread. Columns are
//! found by name; missing columns and empty fields are unknown, unknown columns ignored.
//!
//! ```text
//! pid,tid,comm,policy,nice,rt_priority,affinity,cgroup,cpu_weight,cpu_max,cpuset,ppid
//! 812,815,worker,batch,5,0,0-3,/system.slice/a.service,200,50000 100000,0-7,1
//! ```
//!
//! `autogroup` is the group of the task's session, as /proc/PID/autogroup has it (`/autogroup-128 nice 0`).
//!
//! A policy may be written as `ps` and `chrt` write it: OTHER, TS, FF, RR, B, IDL, DL, SCHED_FIFO, ...; `-` and
//! `?` are unknown.
//!
//! `NAME.cgroup.csv` beside it tells of the control groups above those of the threads, and of groups that came later:
//!
//! ```text
//! path,cpu_weight,cpu_max,cpuset
//! /system.slice,100,max 100000,0-7
//! ```

use crate::CpuMax;
use crate::limits::{SNAPSHOT_BYTES_MAX, read_bytes};
use schedlab_stdx::csv::records;
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span};
use std::collections::BTreeMap;
use std::path::Path;

/// All threads at the start of a recording, by tid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcSnapshot {
    rows: BTreeMap<i32, ProcRow>,
    groups: BTreeMap<String, GroupRow>,
}

/// One control group; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRow {
    /// cpu.weight; 0 for a group whose cpu.idle is set.
    pub cpu_weight: Option<u32>,
    /// cpu.max; `Some(None)` = no limit.
    pub cpu_max: Option<Option<CpuMax>>,
    /// Its CPUs.
    pub cpuset: Option<CpuSet>,
}

/// One thread; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcRow {
    /// Process.
    pub pid: Option<i32>,
    /// Parent process.
    pub ppid: Option<i32>,
    /// Name.
    pub comm: Option<String>,
    /// Policy, nice, priority, deadline parameters.
    pub params: Option<SchedParams>,
    /// Allowed CPUs.
    pub affinity: Option<CpuSet>,
    /// Path of its control group.
    pub cgroup: Option<String>,
    /// The group's cpu.weight.
    pub cpu_weight: Option<u32>,
    /// The group's cpu.max; `Some(None)` = no limit.
    pub cpu_max: Option<Option<CpuMax>>,
    /// The group's CPUs.
    pub cpuset: Option<CpuSet>,
    /// The group of its session (CONFIG_SCHED_AUTOGROUP).
    pub autogroup: Option<Autogroup>,
}

/// The group that a session has of the scheduler's own. It counts for tasks that are in no other group with the cpu
/// controller's settings (`task_wants_autogroup()`, kernel/sched/autogroup.c).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autogroup {
    /// As the kernel calls it: `/autogroup-NUMBER`.
    pub path: String,
    /// Its share, as a nice value.
    pub nice: Nice,
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// File.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line that cannot be.
    #[error(
        "{path}, line {line}: {what} is \"{value}\", expected {expected}; correct the line, or remove the snapshot to \
            import without it"
    )]
    Line {
        /// File.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column or part.
        what: &'static str,
        /// What stands there.
        value: String,
        /// What may stand there.
        expected: &'static str,
    },
}

impl ProcSnapshot {
    /// Reads a snapshot file `NAME.proc.csv`, and `NAME.cgroup.csv` if it lies beside.
    pub fn read(path: &Path) -> Result<ProcSnapshot, SnapshotError> {
        let read = |path: &Path| match read_bytes(path, SNAPSHOT_BYTES_MAX) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(source) => Err(SnapshotError::Io { path: path.display().to_string(), source }),
        };
        let mut snapshot = ProcSnapshot::parse(&read(path)?, &path.display().to_string())?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(stem) = name.strip_suffix(".proc.csv") {
            let groups = path.with_file_name(format!("{stem}.cgroup.csv"));
            if groups.exists() {
                snapshot.add_groups(&read(&groups)?, &groups.display().to_string())?;
            }
        }
        Ok(snapshot)
    }

    /// Takes in the text of a table of control groups; `name` is for messages.
    pub fn add_groups(&mut self, text: &str, name: &str) -> Result<(), SnapshotError> {
        let mut records = records(text);
        let (_, header) = records.next().unwrap_or_default();
        for (line, record) in records.filter(|(_, record)| !record.iter().all(String::is_empty)) {
            let reader = RowReader { header: &header, record: &record, line, name };
            let Some(path) = reader.path("path")? else {
                return Err(SnapshotError::Line {
                    path: name.to_string(),
                    line,
                    what: "path",
                    value: record.join(",").chars().take(60).collect(),
                    expected: "a path from the root, /..., in a column of that name",
                });
            };
            self.groups.insert(path, reader.group()?);
        }
        Ok(())
    }

    /// The control group with this path.
    pub fn group(&self, path: &str) -> Option<&GroupRow> {
        self.groups.get(path)
    }

    /// The group of a thread's session, if that counts: the thread is in no group that the cpu controller knows.
    pub(super) fn session_of<'a>(&self, row: &'a ProcRow) -> Option<&'a Autogroup> {
        row.autogroup.as_ref().filter(|_| !self.has_cpu_group(row))
    }

    /// Whether a thread is in a group that the cpu controller knows, or in one below it.
    fn has_cpu_group(&self, row: &ProcRow) -> bool {
        let path = row.cgroup.as_deref().unwrap_or("/").trim_end_matches('/');
        let mut above = path.match_indices('/').skip(1).map(|(end, _)| &path[..end]).chain([path]);
        !path.is_empty()
            && (row.cpu_weight.is_some()
                || above.any(|path| self.group(path).is_some_and(|group| group.cpu_weight.is_some())))
    }

    /// The thread's row.
    pub fn row(&self, tid: i32) -> Option<&ProcRow> {
        self.rows.get(&tid)
    }
    /// Number of threads.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether it has no thread at all.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// All rows, by tid.
    pub fn rows(&self) -> impl Iterator<Item = (i32, &ProcRow)> {
        self.rows.iter().map(|(tid, row)| (*tid, row))
    }

    /// Reads the text of a snapshot; `name` is for messages.
    pub fn parse(text: &str, name: &str) -> Result<ProcSnapshot, SnapshotError> {
        let mut records = records(text);
        let fail = |line, what, value: &str, expected| {
            let value = value.chars().take(60).collect();
            Err(SnapshotError::Line { path: name.to_string(), line, what, value, expected })
        };
        let Some((_, header)) = records.next() else {
            return fail(1, "the header", "", "names of columns, tid among them");
        };
        let column = |wanted: &str| header.iter().position(|name| name == wanted);
        let Some(tid_column) = column("tid") else {
            return fail(1, "the header", &header.join(","), "names of columns, tid among them");
        };
        let mut rows = BTreeMap::new();
        for (line, record) in records {
            if record.iter().all(String::is_empty) {
                continue;
            }
            let reader = RowReader { header: &header, record: &record, line, name };
            let Some(tid) = record.get(tid_column).and_then(|tid| tid.parse::<i32>().ok()) else {
                return fail(line, "tid", &record.join(","), "a number");
            };
            rows.insert(tid, reader.row()?);
        }
        Ok(ProcSnapshot { rows, groups: BTreeMap::new() })
    }
}

/// Picks the fields of one record by their column's name.
struct RowReader<'a> {
    header: &'a [String],
    record: &'a [String],
    line: usize,
    name: &'a str,
}

impl RowReader<'_> {
    fn field(&self, column: &str) -> Option<&str> {
        let index = self.header.iter().position(|name| name == column)?;
        self.record.get(index).map(|field| field.trim()).filter(|field| !field.is_empty())
    }
    fn parse<T>(
        &self,
        column: &'static str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SnapshotError> {
        match self.field(column) {
            None => Ok(None),
            Some(field) => match parse(field) {
                Some(value) => Ok(Some(value)),
                None => Err(SnapshotError::Line {
                    path: self.name.to_string(),
                    line: self.line,
                    what: column,
                    value: field.chars().take(60).collect(),
                    expected,
                }),
            },
        }
    }

    fn row(&self) -> Result<ProcRow, SnapshotError> {
        let number = |field: &str| field.parse().ok();
        let ns = |column| self.parse(column, "a number of ns", |field| field.parse().ok().map(Span::from_ns));
        let policy = match self.field("policy") {
            Some("-" | "?") => None, // ps knows none
            _ => self.parse("policy", POLICIES, SchedPolicy::from_tool)?,
        };
        let nice = self.parse("nice", "-20 to 19", |field| field.parse::<Nice>().ok())?;
        let rt_priority =
            self.parse("rt_priority", "0 to 99", |field| field.parse::<u8>().ok().filter(|p| *p <= 99))?;
        let deadline = match (ns("dl_runtime_ns")?, ns("dl_deadline_ns")?, ns("dl_period_ns")?) {
            (Some(runtime), Some(deadline), Some(period)) => {
                Some(DeadlineParams { runtime, deadline, period })
            }
            _ => None,
        };
        let params = policy.map(|policy| SchedParams {
            policy,
            nice: nice.unwrap_or_default(),
            rt_priority: match policy {
                SchedPolicy::Fifo | SchedPolicy::RoundRobin => rt_priority.unwrap_or(1).max(1),
                _ => 0,
            },
            deadline: deadline.filter(|_| policy == SchedPolicy::Deadline),
        });
        let group = self.group()?;
        Ok(ProcRow {
            pid: self.parse("pid", "a number", number)?,
            ppid: self.parse("ppid", "a number", number)?,
            comm: self.field("comm").map(str::to_string),
            params,
            affinity: self.parse("affinity", CPUS, cpu_list)?,
            cgroup: self.path("cgroup")?,
            cpu_weight: group.cpu_weight,
            cpu_max: group.cpu_max,
            cpuset: group.cpuset,
            autogroup: self.parse("autogroup", "/autogroup-NUMBER nice N", autogroup)?,
        })
    }

    fn path(&self, column: &'static str) -> Result<Option<String>, SnapshotError> {
        self.parse(column, "a path from the root, /...", |field| {
            field.starts_with('/').then(|| field.to_string())
        })
    }

    /// What both tables say of a control group.
    fn group(&self) -> Result<GroupRow, SnapshotError> {
        Ok(GroupRow {
            cpu_weight: self.parse("cpu_weight", "1 to 10000, or 0 for an idle group", |field| {
                field.parse().ok().filter(|weight| *weight <= 10_000)
            })?,
            cpu_max: self.parse("cpu_max", "QUOTA PERIOD in us, or max PERIOD", cpu_max)?,
            cpuset: self.parse("cpuset", CPUS, cpu_list)?,
        })
    }
}

/// As /proc/PID/autogroup has it.
fn autogroup(field: &str) -> Option<Autogroup> {
    let mut words = field.split_whitespace();
    let path =
        words.next().filter(|path| path.strip_prefix("/autogroup-").is_some_and(is_number))?.to_string();
    let nice = match (words.next(), words.next(), words.next()) {
        (None, ..) => Nice::default(),
        (Some("nice"), Some(nice), None) => nice.parse().ok()?,
        _ => return None,
    };
    Some(Autogroup { path, nice })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

const POLICIES: &str = "normal, batch, idle, fifo, rr, deadline or ext; or as ps and chrt write it: OTHER, TS, FF, \
    RR, B, IDL, DL";
const CPUS: &str = "a list of CPUs such as 0-3,8";

fn cpu_list(field: &str) -> Option<CpuSet> {
    let mut set = CpuSet::empty();
    for range in field.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= 1 << 16 {
            return None;
        }
        for cpu in first..=last {
            set.insert(CpuId(cpu));
        }
    }
    Some(set)
}

/// cpu.max as the kernel writes it: `max 100000` or `50000 100000`, in us.
fn cpu_max(field: &str) -> Option<Option<CpuMax>> {
    let mut words = field.split_whitespace();
    let quota = words.next()?;
    let period: u64 = words.next().map_or(Some(100_000), |word| word.parse().ok())?;
    if quota == "max" {
        return Some(None);
    }
    let span = |us: u64| us.checked_mul(1000).map(Span::from_ns);
    Some(Some(CpuMax { quota: span(quota.parse().ok()?)?, period: span(period)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_may_be_missing() {
        let text = "tid,extra,policy,nice,comm,rt_priority,affinity,cpu_max,cgroup\n\
                    7,x,batch,-5,\"a \"\"b\"\", c\",0,\"0-1,3\",50000 100000,/a\n\
                    8,,fifo,,,42,,max 100000,\n9\n";
        let snapshot = ProcSnapshot::parse(text, "x.proc.csv").unwrap();
        assert_eq!(snapshot.len(), 3);
        let row = snapshot.row(7).unwrap();
        let params = row.params.unwrap();
        assert_eq!((params.policy, params.nice.get()), (SchedPolicy::Batch, -5));
        assert_eq!(row.comm.as_deref(), Some("a \"b\", c"));
        assert_eq!(row.affinity.as_ref().unwrap().iter().map(|cpu| cpu.0).collect::<Vec<_>>(), [0, 1, 3]);
        let limit = row.cpu_max.unwrap().unwrap();
        assert_eq!((limit.quota, limit.period), (Span::from_ms(50), Span::from_ms(100)));
        let row = snapshot.row(8).unwrap();
        assert_eq!(
            (row.params.unwrap().rt_priority, row.cpu_max, row.cgroup.as_ref()),
            (42, Some(None), None)
        );
        assert_eq!(snapshot.row(9), Some(&ProcRow::default()));
    }

    /// The letters of `ps -eLo cls` (ps(1)), and those of chrt(1).
    #[test]
    fn a_policy_may_be_written_as_ps_and_chrt_do() {
        let words = "OTHER TS FF RR DL DLN B IDL EXT SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE normal rr";
        let expected =
            "normal normal fifo rr deadline deadline batch idle ext normal fifo rr batch idle normal rr";
        let rows: String =
            words.split(' ').enumerate().map(|(tid, word)| format!("{},{word}\n", tid + 1)).collect();
        let snapshot = ProcSnapshot::parse(&format!("tid,policy\n{rows}"), "x").unwrap();
        let found: Vec<&str> = snapshot.rows().map(|(_, row)| row.params.unwrap().policy.name()).collect();
        assert_eq!(found.join(" "), expected);
        for unknown in ["-", "?"] {
            let snapshot = ProcSnapshot::parse(&format!("tid,policy\n1,{unknown}\n"), "x").unwrap();
            assert_eq!(snapshot.row(1).unwrap().params, None);
        }
        let error = ProcSnapshot::parse("tid,policy\n1,FFF\n", "x").unwrap_err().to_string();
        assert!(
            error.contains("policy is \"FFF\", expected normal") && error.contains("TS, FF, RR"),
            "{error}"
        );
    }

    #[test]
    fn groups_have_a_table_of_their_own() {
        let mut snapshot = ProcSnapshot::parse("tid\n1\n", "x.proc.csv").unwrap();
        snapshot
            .add_groups(
                "path,cpu_weight,cpu_max,cpuset\n/a,0,max 100000,\n/a/b,300,20000 50000,\"0,2\"\n",
                "x",
            )
            .unwrap();
        assert_eq!(
            snapshot.group("/a"),
            Some(&GroupRow { cpu_weight: Some(0), cpu_max: Some(None), cpuset: None })
        );
        let group = snapshot.group("/a/b").unwrap();
        assert_eq!(group.cpu_max.unwrap().unwrap().quota, Span::from_ms(20));
        assert_eq!(group.cpuset.as_ref().unwrap().to_string(), "0,2");
        for (text, says) in
            [("path\n\n\nb\n", "line 4: path is \"b\""), ("name\nx\n", "line 2: path is \"x\"")]
        {
            let error = snapshot.add_groups(text, "x.cgroup.csv").unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn messages_name_line_value_and_expectation() {
        for (text, parts) in [
            ("", ["line 1", "header", "tid"]),
            ("pid,comm\n1,x\n", ["line 1", "pid,comm", "tid among them"]),
            ("tid,nice\n1,0\n2,33\n", ["line 3", "nice is \"33\"", "-20 to 19"]),
            ("tid,policy\n\"1\",nrml\n", ["line 2", "policy is \"nrml\"", "normal"]),
            ("tid,affinity\n1,9-3\n", ["line 2", "9-3", "0-3,8"]),
            ("tid\nx\n", ["line 2", "tid", "number"]),
        ] {
            let error = ProcSnapshot::parse(text, "x.proc.csv").unwrap_err().to_string();
            assert!(error.starts_with("x.proc.csv, "), "{error}");
            for part in parts {
                assert!(error.contains(part), "{error} lacks {part}");
            }
        }
    }
}
