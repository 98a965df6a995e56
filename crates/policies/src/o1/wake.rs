//! Where a task that becomes runnable goes, and what parent and child share.

use super::*;
use crate::kit::balance::RunQueues;

/// Share of the parent's sleep average that stays when a lazier child exits: 3 of 4.
const EXIT_WEIGHT: u64 = 3;
/// A move to the waker's CPU may make the imbalance this much worse, in per cent (half of what balancing tolerates).
const WAKE_IMBALANCE_PCT: u64 = 112;

impl O1 {
    /// Its CPU, or that of its waker if the load there allows.
    pub(super) fn wake_cpu(&mut self, view: &View, task: TaskId, waker: Option<TaskId>) -> CpuId {
        let home = view.home_cpu(task);
        let Some(here) = waker.map(|waker| view.task_cpu(waker)) else { return home };
        if here == home || !view.allowed(task, here) || view.is_idle(home) {
            return home;
        }
        let queues = &self.queues;
        let (here_load, home_load) = (queues.load(here), queues.load(home));
        let weight = queues.version.load(queues.tasks[task].static_level);
        let nr_here = u64::from(queues.nr_running(here)).max(1);
        let fits = here_load <= home_load && here_load + home_load <= here_load / nr_here;
        if fits || 100 * (here_load + weight) <= WAKE_IMBALANCE_PCT * home_load { here } else { home }
    }

    /// As exec places a task: where the load is lowest, its own CPU on ties.
    pub(super) fn least_loaded(&self, view: &View, task: TaskId) -> CpuId {
        let home = view.home_cpu(task);
        let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
        allowed.min_by_key(|&cpu| (self.queues.load(cpu), cpu != home, cpu)).unwrap_or(home)
    }

    /// Where a task that executes a new program goes on (`find_idlest_group()` of 2.6.18): its own CPU's load must be
    /// 12 % above the least (half of the domains' `imbalance_pct`).
    pub(super) fn exec_target(&self, view: &View, task: TaskId) -> CpuId {
        let (here, least) = (view.task_cpu(task), self.least_loaded(view, task));
        match 100 * self.queues.load(here) < 112 * self.queues.load(least) {
            true => here,
            false => least,
        }
    }

    /// Parent and child divide the slice, and the child gets most of the parent's bonus.
    pub(super) fn fork(&mut self, view: &View, child: TaskId, parent: TaskId) {
        let queues = &mut self.queues;
        let slice = queues.tasks[parent].slice_ticks;
        queues.inherit_sleep(child, parent);
        let state = &mut queues.tasks[child];
        (state.slice_ticks, state.first_slice, state.parent) = (slice.div_ceil(2), true, Some(parent));
        queues.tasks[parent].slice_ticks = slice / 2;
        queues.update_level(view, child);
        if slice / 2 == 0 && queues.tasks[parent].running && !queues.tasks[parent].real_time {
            let cpu = queues.tasks[parent].cpu;
            queues.tasks[parent].slice_ticks = 1;
            self.slice_used(view, cpu, parent);
            self.queues.requests.kick(cpu);
        }
    }

    /// Queues a child right before its parent, which runs on this CPU; false if it does not.
    pub(super) fn child_first(&mut self, view: &View, cpu: CpuId, child: TaskId, parent: TaskId) -> bool {
        let queues = &mut self.queues;
        queues.tasks[child].stamp = view.now();
        let beside = queues.cpus[cpu.index()].current == Some(parent)
            && queues.tasks[parent].array.is_some()
            && queues.tasks[child].real_time == queues.tasks[parent].real_time
            && queues.tasks[child].static_level == queues.tasks[parent].static_level;
        if beside {
            queues.add_before(cpu, child, parent);
        }
        beside
    }

    /// An exiting child gives its first slice back and draws its parent's sleep average down to its own.
    pub(super) fn exit(&mut self, view: &View, task: TaskId) {
        let Task { parent, first_slice, slice_ticks, sleep_avg_ns, .. } = self.queues.tasks[task].clone();
        let Some(parent) = parent.filter(|&parent| self.queues.tasks[parent].alive) else { return };
        let full = self.queues.full_slice(view, parent);
        let state = &mut self.queues.tasks[parent];
        if first_slice {
            state.slice_ticks = (state.slice_ticks + slice_ticks).min(full);
        }
        if sleep_avg_ns < state.sleep_avg_ns {
            state.sleep_avg_ns =
                state.sleep_avg_ns / (EXIT_WEIGHT + 1) * EXIT_WEIGHT + sleep_avg_ns / (EXIT_WEIGHT + 1);
        }
    }
}
