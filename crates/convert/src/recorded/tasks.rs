//! The tasks that a recording has shown so far, and what is known of each.

use schedlab_log::LogTask;
use schedlab_trace::{CommId, PRIO_UNKNOWN, Pid};
use schedlab_units::{CpuId, SchedParams, TaskId};
use schedlab_workload::derive::{ProcRow, params_for, prio_of};
use std::collections::{BTreeMap, BTreeSet};

/// A place among the records, and when that was: right behind the last record of a task or a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub position: u64,
    pub time_ns: u64,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing of it was seen but its number.
    Unseen,
    /// Forked, never woken.
    New,
    /// Asleep; its wakeup may have come before it left its CPU, if none comes after.
    Blocked { woken_early: bool },
    /// Runnable, on this CPU's queue as far as is known.
    Waiting { cpu: CpuId },
    /// On this CPU.
    Running { cpu: CpuId },
}

pub(super) struct Task {
    pub id: TaskId,
    pub tid: Pid,
    /// The number in the log (another one if the kernel used it twice).
    pub pid: u32,
    pub comm: CommId,
    /// Its name when it was seen first.
    pub first_comm: CommId,
    pub at: At,
    /// Behind its last record.
    pub mark: Mark,
    /// A waking came while it was not asleep, in the stay that it is in: the waker may have seen that it is about to.
    pub woken_early: bool,
    /// Inside `sched_yield`.
    pub in_yield: bool,
    pub parent: Option<TaskId>,
    /// It was forked: the snapshot's row of this number is another task's.
    pub forked: bool,
    /// How often it came to a CPU, and whether it was ever seen to leave one.
    pub arrivals: u32,
    pub seen_leaving: bool,
    /// In how many stays on a CPU begin or end is missing.
    pub broken_stays: u32,
    pub initial: Option<SchedParams>,
    pub params: Option<SchedParams>,
    /// It stands for all whom the recording leaves out on this CPU.
    pub strangers_of: Option<CpuId>,
    /// A mutex has lent it a priority.
    lent: bool,
}

/// So many times must a task have come to a CPU without leaving it to be taken as one that the recording hides.
const HIDDEN_ARRIVALS: u32 = 3;

impl Task {
    /// Whether the recording leaves out what happens in its context: it comes to CPUs and never leaves one.
    pub fn is_hidden(&self) -> bool {
        self.arrivals >= HIDDEN_ARRIVALS && !self.seen_leaving
    }

    /// The events show this priority. Gives the new parameters if it is not that of those known so far.
    pub fn see_prio(&mut self, prio: i32) -> Option<SchedParams> {
        if self.lent || prio == PRIO_UNKNOWN || self.params.is_some_and(|params| prio_of(&params) == prio) {
            return None;
        }
        let new = params_for(prio, self.params.or(self.initial), None)?;
        let is_first = self.params.replace(new).is_none();
        if is_first {
            self.initial = Some(new);
        }
        (!is_first).then_some(new)
    }

    /// `sched_pi_setprio`: until its own priority is back, what the events show is lent.
    pub fn lend(&mut self, new_prio: i32) {
        self.lent = self.params.is_some_and(|params| prio_of(&params) != new_prio);
    }

    /// What the log's header says of it.
    pub fn log_task(&self, name: &str, row: Option<&ProcRow>, nr_cpus: u32) -> LogTask {
        let row = row.filter(|_| !self.forked);
        let own = row.and_then(|row| row.params);
        let agrees = |params: &SchedParams| self.initial.is_none_or(|seen| prio_of(&seen) == prio_of(params));
        let everywhere = |set: &schedlab_units::CpuSet| (0..nr_cpus).all(|cpu| set.contains(CpuId(cpu)));
        let fallback = format!("task-{}", self.tid);
        let name = [name, row.and_then(|row| row.comm.as_deref()).unwrap_or_default(), &fallback]
            .into_iter()
            .find(|name| !name.is_empty());
        LogTask {
            pid: self.pid,
            name: name.unwrap_or_default().to_string(),
            params: own.filter(agrees).or(self.initial).unwrap_or_default(),
            affinity: row.and_then(|row| row.affinity.clone()).filter(|set| !everywhere(set)),
            parent: self.parent,
            group: None,
        }
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Tasks {
    pub list: Vec<Task>,
    living: BTreeMap<Pid, u32>,
    used: BTreeSet<Pid>,
    /// The last one found, by the low bits of its number.
    cache: Vec<(i32, u32)>,
    nr_workload: u32,
    next_fresh_pid: u32,
}

const CACHE_ROWS: usize = 1 << 12;
/// Beyond the kernel's greatest pid (PID_MAX_LIMIT, 2^22): for tasks whose number had been used before, as an
/// import has it.
const FIRST_FRESH_PID: u32 = (1 << 22) + 1;

impl Tasks {
    pub fn new() -> Tasks {
        Tasks { cache: vec![(0, u32::MAX); CACHE_ROWS], next_fresh_pid: FIRST_FRESH_PID, ..Tasks::default() }
    }

    /// The living task with this number.
    #[inline]
    pub fn find(&mut self, tid: Pid) -> Option<usize> {
        let entry = &mut self.cache[tid.0 as usize % CACHE_ROWS];
        if entry.0 == tid.0 && entry.1 != u32::MAX {
            return Some(entry.1 as usize);
        }
        let row = *self.living.get(&tid)?;
        *entry = (tid.0, row);
        Some(row as usize)
    }

    /// A new task; one that has the number so far loses it. `of_scheduler`: the scheduler's own
    /// (migration/N), no task of the workload.
    pub fn add(&mut self, tid: Pid, comm: CommId, of_scheduler: bool) -> usize {
        let row = self.list.len();
        let pid = if self.used.insert(tid) {
            tid.0 as u32
        } else {
            self.next_fresh_pid += 1;
            self.next_fresh_pid - 1
        };
        let id = if of_scheduler { TaskId::kernel_thread(pid) } else { TaskId(self.nr_workload) };
        self.nr_workload += u32::from(!of_scheduler);
        self.living.insert(tid, row as u32);
        self.cache[tid.0 as usize % CACHE_ROWS] = (tid.0, row as u32);
        self.list.push(Task {
            id,
            tid,
            pid,
            comm,
            first_comm: comm,
            at: At::Unseen,
            mark: Mark::default(),
            woken_early: false,
            in_yield: false,
            parent: None,
            forked: false,
            arrivals: 0,
            seen_leaving: false,
            broken_stays: 0,
            initial: None,
            params: None,
            strangers_of: None,
            lent: false,
        });
        row
    }

    /// The row of all whom the recording leaves out on this CPU.
    pub fn strangers(&mut self, cpu: CpuId) -> usize {
        if let Some(row) = self.list.iter().position(|task| task.strangers_of == Some(cpu)) {
            return row;
        }
        let tid = Pid(self.next_fresh_pid as i32);
        self.next_fresh_pid += 1;
        let row = self.add(tid, CommId::default(), true);
        self.list[row].strangers_of = Some(cpu);
        row
    }

    /// The number of this task is free again.
    pub fn forget(&mut self, row: usize) {
        let tid = self.list[row].tid;
        if self.living.get(&tid) == Some(&(row as u32)) {
            self.living.remove(&tid);
            self.cache[tid.0 as usize % CACHE_ROWS] = (0, u32::MAX);
        }
    }

    /// A thread that calls exec takes over its process's number.
    pub fn renumber(&mut self, row: usize, tid: Pid) {
        self.forget(row);
        if let Some(old) = self.find(tid) {
            self.forget(old);
        }
        self.list[row].tid = tid;
        self.living.insert(tid, row as u32);
    }
}
