//! In which control groups were the tasks, what did those allow, and who was moved?
//!
//! ```text
//! snapshot, a thread    tid 815 in /web/log                  INIT ... cgroup=/web/log
//! snapshot, the groups  /web 300, /web/log 100               CGROUP /web weight=300, CGROUP /web/log weight=100
//! cgroup_attach_task    pid 815 to /batch, by 700            PRIO 700 ... cgroup=/batch target=815
//! ```
//!
//! Where sessions have groups of the scheduler's own (CONFIG_SCHED_AUTOGROUP), those are groups, too:
//!
//! ```text
//! snapshot, a thread    tid 815 in / and /autogroup-128      INIT ... cgroup=/autogroup-128
//! setsid() returns      in 816, a child of 815               PRIO 816 ... cgroup=/session-816
//! ```

use super::engine::Deriver;
use super::prio::PrioState;
use super::snapshot::{GroupRow, ProcRow, ProcSnapshot};
use super::tasks::Where;
use crate::{Birth, Cgroup, CgroupId, EventKind, ParamChange, Workload};
use schedlab_trace::Pid;
use schedlab_units::{CpuSet, NICE_0_WEIGHT, Nice, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Moves between groups: a PRIO's `cgroup` is a row here until the end.
#[derive(Default)]
pub(super) struct Moves {
    /// Paths, in order of their first move.
    pub paths: Vec<String>,
    rows: BTreeMap<String, u32>,
    /// The hierarchy whose moves are taken.
    root: Option<i32>,
}

impl Moves {
    /// The row of a path, a new one at the first time.
    pub(super) fn row(&mut self, path: &str) -> u32 {
        if let Some(row) = self.rows.get(path) {
            return *row;
        }
        let row = self.paths.len() as u32;
        self.paths.push(path.to_string());
        self.rows.insert(path.to_string(), row);
        row
    }
}

impl Deriver<'_> {
    /// `cgroup_attach_task` on this CPU.
    pub(super) fn moved(&mut self, cpu: usize, pid: Pid, path: &str, root: i32) {
        if *self.moves.root.get_or_insert(root) != root {
            self.count("move in another hierarchy of control groups than the first, left out", 1);
            return;
        }
        let Some(target) = self.tasks.find(pid).filter(|_| path.starts_with('/')) else {
            self.count("move to another control group, of a task that is not in the trace, left out", 1);
            return;
        };
        let group = CgroupId(self.moves.row(path));
        match self.current(cpu) {
            Some(mover) => self.emit_move(mover, target, group),
            // A task that is not in the workload has done it.
            None if matches!(self.tasks.list[target].at, Where::Runnable { .. } | Where::Running { .. }) => {
                self.emit_move(target, target, group);
            }
            None => {
                let state: &mut PrioState = &mut self.tasks.list[target].prio;
                state.late_group = Some(group);
            }
        }
    }

    /// A task moves another one, or itself, to this group now.
    fn emit_move(&mut self, mover: usize, target: usize, group: CgroupId) {
        let target = (target != mover).then_some(TaskId(target as u32));
        let change = Box::new(ParamChange { target, cgroup: Some(group), ..ParamChange::default() });
        self.tasks.emit(mover, self.now_ns, |length| EventKind::Prio { length, change });
    }

    /// A task has begun a session. That is a group of its own if the sessions of the snapshot are and the task's kin is
    /// in no other group.
    pub(super) fn new_session(&mut self, task: usize) {
        let mut oldest = task;
        while let Birth::Fork { parent } = self.tasks.list[oldest].birth {
            oldest = parent.index();
        }
        let session = |row: &'_ ProcRow| self.snapshot.is_some_and(|all| all.session_of(row).is_some());
        if self.row_of(oldest).is_some_and(session) {
            let row = self.moves.row(&format!("{SESSION}{}", self.tasks.list[task].tid));
            self.emit_move(task, task, CgroupId(row));
        }
    }

    /// After a WAKEUP: the move that was made meanwhile.
    #[inline]
    pub(super) fn late_move(&mut self, task: usize) {
        if let Some(group) = self.tasks.list[task].prio.late_group.take() {
            self.emit_move(task, task, group);
        }
    }
}

/// Before the number of the task that begins a session.
const SESSION: &str = "/session-";

/// The weight of a control group that has the share of a session of this nice value; `None` is the usual one.
fn weight_of(nice: Nice) -> Option<u32> {
    const USUAL: u64 = 100;
    let weight = (nice.weight().0 * USUAL).div_ceil(NICE_0_WEIGHT.0);
    (weight != USUAL).then(|| weight.clamp(1, 10_000) as u32)
}

/// Control groups of the workload, parents first.
pub(super) struct Cgroups<'a> {
    pub list: Vec<Cgroup>,
    by_path: BTreeMap<String, CgroupId>,
    snapshot: Option<&'a ProcSnapshot>,
    all: Option<CpuSet>,
    /// Groups with cpu.idle, for which there is no word.
    pub idle: u64,
    /// Sessions that are groups.
    sessions: BTreeSet<CgroupId>,
}

impl<'a> Cgroups<'a> {
    pub fn new(snapshot: Option<&'a ProcSnapshot>, cpu_count: Option<u32>) -> Cgroups<'a> {
        let all = cpu_count.filter(|count| *count <= 1 << 16).map(CpuSet::first);
        Cgroups {
            list: Vec::new(),
            by_path: BTreeMap::new(),
            snapshot,
            all,
            idle: 0,
            sessions: BTreeSet::new(),
        }
    }

    /// Whether a set of CPUs leaves out none of the recorded machine's.
    pub fn is_all(&self, set: &CpuSet) -> bool {
        set.is_empty() || self.all.as_ref().is_some_and(|all| set.intersection(all) == *all)
    }

    /// The task's group with its settings; `None` is the root.
    pub fn of_row(&mut self, row: &ProcRow) -> Option<CgroupId> {
        if let Some(session) = self.snapshot.and_then(|snapshot| snapshot.session_of(row)) {
            let id = self.declare(&session.path)?;
            self.list[id.0 as usize].weight = weight_of(session.nice);
            self.sessions.insert(id);
            return Some(id);
        }
        let path = row.cgroup.as_deref()?.trim_end_matches('/');
        if path.is_empty() {
            return None;
        }
        let id = self.declare(path)?;
        let (cpu_weight, cpu_max) = (row.cpu_weight, row.cpu_max);
        self.set(id, &GroupRow { cpu_weight, cpu_max, cpuset: row.cpuset.clone() });
        Some(id)
    }

    /// The groups are the workload's; with a note of how many are sessions, those that began in the recording among
    /// them.
    pub fn put_into(self, workload: &mut Workload) {
        let begun = self.list.iter().filter(|group| group.path.starts_with(SESSION)).count();
        if !self.sessions.is_empty() {
            let nr = self.sessions.len() + begun;
            let text = format!("{nr} are groups of the scheduler's own (sched_autogroup)");
            workload.notes.insert("sessions".to_string(), text);
        }
        workload.cgroups = self.list;
    }

    /// The group that a task is moved to, the root among them.
    pub fn of_move(&mut self, path: &str) -> CgroupId {
        match self.declare(path.trim_end_matches('/')) {
            Some(id) => id,
            None => self.add("/"),
        }
    }

    fn declare(&mut self, path: &str) -> Option<CgroupId> {
        if let Some(id) = self.by_path.get(path) {
            return Some(*id);
        }
        // Every prefix that ends before a slash is a group of its own.
        let (parent, name) = path.rsplit_once('/')?;
        if matches!(name, "" | "." | "..") {
            return None;
        }
        if !parent.is_empty() {
            self.declare(parent)?;
        }
        Some(self.add(path))
    }

    fn add(&mut self, path: &str) -> CgroupId {
        if let Some(id) = self.by_path.get(path) {
            return *id;
        }
        let id = CgroupId(self.list.len() as u32);
        self.list.push(Cgroup { path: path.to_string(), ..Cgroup::default() });
        self.by_path.insert(path.to_string(), id);
        if let Some(known) = self.snapshot.and_then(|snapshot| snapshot.group(path)).filter(|_| path != "/") {
            self.set(id, &known.clone());
        }
        id
    }

    fn set(&mut self, id: CgroupId, known: &GroupRow) {
        let cpuset = known.cpuset.clone().filter(|set| !self.is_all(set));
        let group = &mut self.list[id.0 as usize];
        if known.cpu_weight == Some(0) && group.weight.is_none() {
            self.idle += 1;
        }
        group.weight = known.cpu_weight.map(|weight| weight.max(1)).or(group.weight);
        group.max = known.cpu_max.flatten().or(group.max);
        group.cpuset = cpuset.or(group.cpuset.take());
    }
}
