//! For how long did some CPU idle while a task that it may run waited elsewhere? (Work conservation.)
//!
//! ```text
//!   cpu0 AAAAAAAA    B waits on cpu0 from 2 to 5, cpu1 is idle from 3 on:
//!   cpu1 CCC.....    2 ms of idling while work waits
//! ```
//!
//! Tasks with equal affinity share a mask; per mask we count waiting tasks and idle CPUs, so that a record costs as many steps
//! as there are masks that hold its CPU (one, when nothing is pinned), whatever the number of CPUs. The kernel's own threads are
//! bound to their CPUs and do not count as work that waits. A task whose affinity changes during the run leaves the account at
//! that moment, since the log does not hold the new mask; such tasks are counted. A CPU that is down does not idle.

use schedlab_log::{LogHeader, Row};
use schedlab_units::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// Idling while work waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Time during which at least one CPU idled and a waiting task was allowed to run there.
    pub idle_while_waiting_ns: u64,
    /// The longest such stretch.
    pub longest_ns: u64,
    /// Number of such stretches (of more than 0 ns).
    pub stretches: u64,
    /// Tasks left out from some moment on, because their affinity changed.
    pub tasks_left_out: u64,
}

pub(crate) struct Account {
    result: Conservation,
    masks: Vec<Mask>,
    /// Masks that hold a CPU.
    of_cpu: Vec<Vec<u32>>,
    /// Mask of a task; `None`: not counted.
    of_row: Vec<Option<u32>>,
    waiting: Vec<bool>,
    is_idle: Vec<bool>,
    is_down: Vec<bool>,
    /// Masks with both a waiting task and an idle CPU.
    nr_violated: u32,
    stretch_ns: u64,
}

#[derive(Default)]
struct Mask {
    waiting: u32,
    idle: u32,
}

impl Account {
    /// `rows`: workload tasks and kernel threads.
    pub fn new(header: &LogHeader, rows: usize) -> Account {
        let everywhere = CpuSet::first(header.nr_cpus);
        let mut numbers: BTreeMap<CpuSet, u32> = BTreeMap::new();
        let mut of_row: Vec<Option<u32>> = Vec::with_capacity(rows);
        for task in &header.tasks {
            let mask =
                task.affinity.as_ref().map_or_else(|| everywhere.clone(), |a| a.intersection(&everywhere));
            let next = numbers.len() as u32;
            of_row.push(Some(*numbers.entry(mask).or_insert(next)));
        }
        of_row.resize(rows, None);
        let mut of_cpu = vec![Vec::new(); header.nr_cpus as usize];
        for (mask, number) in &numbers {
            mask.iter().for_each(|cpu| of_cpu[cpu.index()].push(*number));
        }
        Account {
            result: Conservation::default(),
            masks: numbers.iter().map(|_| Mask::default()).collect(),
            of_cpu,
            of_row,
            waiting: vec![false; rows],
            is_idle: vec![false; header.nr_cpus as usize],
            is_down: vec![false; header.nr_cpus as usize],
            nr_violated: 0,
            stretch_ns: 0,
        }
    }

    #[inline]
    fn change(&mut self, mask: u32, change: impl FnOnce(&mut Mask)) {
        let mask = &mut self.masks[mask as usize];
        let was = mask.waiting > 0 && mask.idle > 0;
        change(mask);
        let is = mask.waiting > 0 && mask.idle > 0;
        self.nr_violated = self.nr_violated + u32::from(is) - u32::from(was);
    }

    #[inline]
    pub fn idle(&mut self, cpu: CpuId, begins: bool) {
        self.is_idle[cpu.index()] = begins;
        if !self.is_down[cpu.index()] {
            self.count_idle(cpu, begins);
        }
    }

    /// The CPU goes down or comes back.
    pub fn down(&mut self, cpu: CpuId, begins: bool) {
        if self.is_down[cpu.index()] != begins {
            self.is_down[cpu.index()] = begins;
            if self.is_idle[cpu.index()] {
                self.count_idle(cpu, !begins);
            }
        }
    }

    #[inline]
    fn count_idle(&mut self, cpu: CpuId, begins: bool) {
        for i in 0..self.of_cpu[cpu.index()].len() {
            let mask = self.of_cpu[cpu.index()][i];
            self.change(mask, |mask| if begins { mask.idle += 1 } else { mask.idle -= 1 });
        }
    }

    #[inline]
    pub fn wait(&mut self, row: Row, begins: bool) {
        let row = row.index();
        if let Some(mask) = self.of_row[row]
            && self.waiting[row] != begins
        {
            self.waiting[row] = begins;
            self.change(mask, |mask| if begins { mask.waiting += 1 } else { mask.waiting -= 1 });
        }
    }

    /// The task's affinity changes to something unknown.
    pub fn leave_out(&mut self, row: Row) {
        self.wait(row, false);
        if self.of_row[row.index()].take().is_some() {
            self.result.tasks_left_out += 1;
        }
    }

    #[inline]
    pub fn elapse(&mut self, ns: u64) {
        if self.nr_violated > 0 {
            self.stretch_ns += ns;
        } else if self.stretch_ns > 0 {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        let ns = std::mem::take(&mut self.stretch_ns);
        if ns > 0 {
            self.result.idle_while_waiting_ns += ns;
            self.result.longest_ns = self.result.longest_ns.max(ns);
            self.result.stretches += 1;
        }
    }

    pub fn finish(mut self) -> Conservation {
        self.end_stretch();
        self.result
    }
}
