//! Tasks ordered by a number, least first, for schedulers in which the m least of all run: one queue for all
//! CPUs, or one for each.
//!
//! ```text
//! two CPUs, keys = absolute deadlines; running: 20, 50; waiting: 60, 90
//! a task with 30 wakes: it goes to the CPU that runs 50, which goes to wait; one with 70 waits
//! ```

use schedlab_machine::policy::View;
use schedlab_units::{CpuId, TaskId};
use std::collections::BTreeSet;

/// Who waits and who runs. Equal keys: first come, first served; a preempted task keeps its place.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    waiting: Vec<BTreeSet<(u64, u64, TaskId)>>,
    running: BTreeSet<(u64, CpuId)>,
    current: Vec<Option<u64>>,
}

impl Keyed {
    /// This many queues (one, or one per CPU) for so many CPUs.
    pub(crate) fn new(nr_queues: usize, nr_cpus: u32) -> Keyed {
        Keyed {
            waiting: vec![BTreeSet::new(); nr_queues],
            running: BTreeSet::new(),
            current: vec![None; nr_cpus as usize],
        }
    }

    pub(crate) fn add(&mut self, queue: usize, key: u64, sequence: u64, task: TaskId) {
        self.waiting[queue].insert((key, sequence, task));
    }

    /// Whether it waited there.
    pub(crate) fn remove(&mut self, queue: usize, key: u64, sequence: u64, task: TaskId) -> bool {
        self.waiting[queue].remove(&(key, sequence, task))
    }

    /// Takes out the first that may run on `cpu`.
    pub(crate) fn pick(&mut self, view: &View, queue: usize, cpu: CpuId) -> Option<TaskId> {
        let (key, sequence, task) =
            *self.waiting[queue].iter().find(|&&(_, _, task)| view.allowed(task, cpu))?;
        self.waiting[queue].remove(&(key, sequence, task));
        self.set_current(cpu, Some(key));
        Some(task)
    }

    /// What runs on `cpu` has this key now; `None` = nothing of ours.
    pub(crate) fn set_current(&mut self, cpu: CpuId, key: Option<u64>) {
        if let Some(before) = self.current[cpu.index()].take() {
            self.running.remove(&(before, cpu));
        }
        self.current[cpu.index()] = key;
        if let Some(key) = key {
            self.running.insert((key, cpu));
        }
    }

    /// Where a task with this key should go: an idle CPU, one that runs nothing of ours, or the one with the
    /// greatest key, if that is greater.
    pub(crate) fn place(&self, view: &View, task: TaskId, key: u64) -> Option<CpuId> {
        if let Some(idle) = view.idle_cpu_for(task) {
            return Some(idle);
        }
        if self.running.len() < self.current.len() {
            let home = view.home_cpu(task);
            let free = |cpu: &CpuId| self.current[cpu.index()].is_none() && view.allowed(task, *cpu);
            if let Some(cpu) = Some(home).into_iter().chain(view.topology().ids()).find(free) {
                return Some(cpu);
            }
        }
        let greatest = self.running.iter().rev().find(|&&(_, cpu)| view.allowed(task, cpu))?;
        (greatest.0 > key).then_some(greatest.1)
    }
}
