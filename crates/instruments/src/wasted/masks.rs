//! Sets of CPUs that tasks may use: in which of them does a CPU idle while a task waits?
//!
//! Tasks that may use the same CPUs share a set. Per set, waiting tasks and idle CPUs are counted, so that a
//! change costs as many steps as there are sets that hold its CPU (one, when nothing is pinned), whatever the
//! number of CPUs and tasks.

use schedlab_units::{CpuId, CpuSet};
use std::collections::BTreeMap;

struct Mask {
    cpus: CpuSet,
    /// Tasks that have it.
    tasks: u32,
    /// Of them, those that wait.
    waiting: u32,
    /// Those that may be waiting for one of these CPUs, as far as is known.
    maybe: u32,
    /// Idle CPUs.
    idle: u32,
    /// CPUs that nobody sees, which may idle.
    maybe_idle: u32,
}

#[derive(Default)]
pub(super) struct Masks {
    numbers: BTreeMap<CpuSet, u32>,
    masks: Vec<Mask>,
    free: Vec<u32>,
    /// Masks that hold a CPU.
    of_cpu: Vec<Vec<u32>>,
    is_idle: Vec<bool>,
    may_idle: Vec<bool>,
    /// Masks with an idle CPU and a waiting task.
    pub nr_wasted: u32,
    /// Masks with a CPU that idles and a task that waits for one of the mask's, where either may be so or not.
    pub nr_maybe: u32,
}

impl Masks {
    pub fn new(nr_cpus: usize) -> Masks {
        let (of_cpu, is_idle) = (vec![Vec::new(); nr_cpus], vec![false; nr_cpus]);
        Masks { of_cpu, may_idle: is_idle.clone(), is_idle, ..Masks::default() }
    }

    /// Whether the CPU is up, and idle.
    pub fn is_idle(&self, cpu: CpuId) -> bool {
        self.is_idle[cpu.index()]
    }

    /// The number of this set, for one more task.
    pub fn take(&mut self, cpus: &CpuSet) -> u32 {
        if let Some(&mask) = self.numbers.get(cpus) {
            self.masks[mask as usize].tasks += 1;
            return mask;
        }
        let count = |which: &[bool]| cpus.iter().filter(|cpu| which[cpu.index()]).count() as u32;
        let (idle, maybe_idle) = (count(&self.is_idle), count(&self.may_idle));
        let new = Mask { cpus: cpus.clone(), tasks: 1, waiting: 0, maybe: 0, idle, maybe_idle };
        let mask = match self.free.pop() {
            Some(mask) => {
                self.masks[mask as usize] = new;
                mask
            }
            None => {
                self.masks.push(new);
                self.masks.len() as u32 - 1
            }
        };
        self.numbers.insert(cpus.clone(), mask);
        cpus.iter().for_each(|cpu| self.of_cpu[cpu.index()].push(mask));
        mask
    }

    /// One task has it no longer; it must not be counted as waiting.
    pub fn give_back(&mut self, mask: u32) {
        let place = &mut self.masks[mask as usize];
        place.tasks -= 1;
        if place.tasks == 0 {
            let cpus = std::mem::take(&mut place.cpus);
            cpus.iter().for_each(|cpu| self.of_cpu[cpu.index()].retain(|other| *other != mask));
            self.numbers.remove(&cpus);
            self.free.push(mask);
        }
    }

    #[inline]
    fn change(&mut self, mask: u32, change: impl FnOnce(&mut Mask)) {
        let mask = &mut self.masks[mask as usize];
        let state = |mask: &Mask| {
            let wasted = mask.waiting > 0 && mask.idle > 0;
            let maybe = mask.waiting + mask.maybe > 0 && mask.idle + mask.maybe_idle > 0;
            [u32::from(wasted), u32::from(maybe)]
        };
        let [wasted, maybe] = state(mask);
        change(mask);
        let [wasted_now, maybe_now] = state(mask);
        self.nr_wasted = self.nr_wasted + wasted_now - wasted;
        self.nr_maybe = self.nr_maybe + maybe_now - maybe;
    }

    #[inline]
    pub fn idle(&mut self, cpu: CpuId, begins: bool) {
        if std::mem::replace(&mut self.is_idle[cpu.index()], begins) == begins {
            return;
        }
        for i in 0..self.of_cpu[cpu.index()].len() {
            let mask = self.of_cpu[cpu.index()][i];
            self.change(mask, |mask| if begins { mask.idle += 1 } else { mask.idle -= 1 });
        }
    }

    /// Nobody sees whether the CPU idles.
    #[cold]
    pub fn may_idle(&mut self, cpu: CpuId, begins: bool) {
        if std::mem::replace(&mut self.may_idle[cpu.index()], begins) == begins {
            return;
        }
        for i in 0..self.of_cpu[cpu.index()].len() {
            let mask = self.of_cpu[cpu.index()][i];
            self.change(mask, |mask| if begins { mask.maybe_idle += 1 } else { mask.maybe_idle -= 1 });
        }
    }

    #[inline]
    pub fn wait(&mut self, mask: u32, is_certain: bool, begins: bool) {
        self.change(mask, |mask| {
            let count = if is_certain { &mut mask.waiting } else { &mut mask.maybe };
            if begins { *count += 1 } else { *count -= 1 }
        });
    }
}
