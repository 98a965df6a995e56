//! The run queues: two arrays per CPU, and moving tasks between them and between CPUs.

use super::*;
use crate::kit::balance::{Hot, Pull, Pulled, RunQueues};
use crate::kit::requests::Requests;

/// A task that ran less than this ago is cache hot (kernel: cache_hot_time of SD_CPU_INIT).
const CACHE_HOT: Span = Span::from_us(2500);

#[derive(Clone, Debug)]
pub(super) struct Rq {
    pub(super) nr_running: u32,
    pub(super) load: u64,
    pub(super) current: Option<TaskId>,
    /// Which of the two arrays is active: 0 or 1.
    active: usize,
    /// Since when tasks wait in the expired array.
    pub(super) expired_since: Option<Time>,
    /// Best static priority among the expired.
    pub(super) best_expired: i64,
    /// The current task is to be pushed there.
    pub(super) push_to: Option<CpuId>,
}

#[derive(Debug)]
pub(super) struct Queues {
    pub(super) version: Version,
    hz: u64,
    pub(super) tick_ns: u64,
    pub(super) tasks: Table<Task>,
    arrays: PrioArrays,
    pub(super) cpus: Vec<Rq>,
    pub(super) requests: Requests,
}

impl Queues {
    pub(super) fn new(version: Version, hz: u64) -> Queues {
        Queues {
            version,
            hz,
            tick_ns: 1_000_000_000 / hz,
            tasks: Table::default(),
            arrays: PrioArrays::default(),
            cpus: Vec::new(),
            requests: Requests::default(),
        }
    }

    pub(super) fn boot(&mut self, view: &View) {
        let nr_cpus = view.nr_cpus() as usize;
        self.arrays = PrioArrays::new(2 * nr_cpus, LEVELS);
        let rq = Rq {
            nr_running: 0,
            load: 0,
            current: None,
            active: 0,
            expired_since: None,
            best_expired: LEVELS as i64,
            push_to: None,
        };
        self.cpus = vec![rq; nr_cpus];
    }

    /// Ticks in so many ms, at least one.
    pub(super) fn ticks(&self, ms: u64) -> u64 {
        (ms * self.hz / 1000).max(1)
    }

    pub(super) fn full_slice(&self, _view: &View, task: TaskId) -> u64 {
        self.ticks(self.version.slice_ms(self.tasks[task].static_level))
    }

    pub(super) fn set_static(&mut self, view: &View, task: TaskId) {
        let params = view.params(task);
        let state = &mut self.tasks[task];
        state.static_level = NICE_0_LEVEL + i64::from(params.nice.get());
        state.real_time = params.rt_priority > 0;
    }

    pub(super) fn active_array(&self, cpu: CpuId) -> usize {
        2 * cpu.index() + self.cpus[cpu.index()].active
    }
    pub(super) fn expired_array(&self, cpu: CpuId) -> usize {
        2 * cpu.index() + 1 - self.cpus[cpu.index()].active
    }

    fn weight(&self, task: TaskId) -> u64 {
        self.version.load(self.tasks[task].static_level)
    }

    fn note_added(&mut self, cpu: CpuId, array: usize, task: TaskId) {
        let weight = self.weight(task);
        let state = &mut self.tasks[task];
        (state.cpu, state.array) = (cpu, Some(array));
        let rq = &mut self.cpus[cpu.index()];
        rq.nr_running += 1;
        rq.load += weight;
    }

    /// Puts a task, which is in no array, at the end of its level.
    pub(super) fn add(&mut self, _view: &View, cpu: CpuId, array: usize, task: TaskId) {
        self.arrays.push_back(array, self.tasks[task].level, task);
        self.note_added(cpu, array, task);
    }

    /// Puts a task right before `other`, on that one's level.
    pub(super) fn add_before(&mut self, cpu: CpuId, task: TaskId, other: TaskId) {
        let Task { level, array, .. } = self.tasks[other];
        let array = array.expect("the other one is queued or runs");
        self.tasks[task].level = level;
        self.arrays.insert_before(array, level, task, other);
        self.note_added(cpu, array, task);
    }

    pub(super) fn remove(&mut self, task: TaskId) {
        let weight = self.weight(task);
        let state = &mut self.tasks[task];
        let array = state.array.take().expect("a task that is taken out is in an array");
        self.arrays.remove(array, state.level, task);
        let rq = &mut self.cpus[state.cpu.index()];
        rq.nr_running -= 1;
        rq.load -= weight;
    }

    /// To the end of its list.
    pub(super) fn requeue(&mut self, view: &View, task: TaskId) {
        let Task { cpu, array, .. } = self.tasks[task];
        self.remove(task);
        self.add(view, cpu, array.expect("a queued task is in an array"), task);
    }

    /// A sleeper becomes runnable.
    pub(super) fn activate(&mut self, view: &View, cpu: CpuId, task: TaskId, by_interrupt: bool) {
        if self.tasks[task].real_time {
            self.update_level(view, task);
        } else {
            let slept_ns = (view.now() - self.tasks[task].stamp).as_ns();
            self.count_sleep(view, task, slept_ns);
        }
        let state = &mut self.tasks[task];
        state.activated = if by_interrupt { Activated::ByInterrupt } else { Activated::ByTask };
        state.stamp = view.now();
        self.add(view, cpu, self.active_array(cpu), task);
    }

    /// The first task of the best active list, after a swap if there is none.
    pub(super) fn pick(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        if self.arrays.nr(self.active_array(cpu)) == 0 {
            let rq = &mut self.cpus[cpu.index()];
            rq.active = 1 - rq.active;
            (rq.expired_since, rq.best_expired) = (None, LEVELS as i64);
        }
        let (_, task) = self.arrays.first(self.active_array(cpu))?;
        if self.tasks[task].activated != Activated::No && !self.tasks[task].real_time {
            let array = self.tasks[task].array.expect("it is queued");
            self.remove(task);
            self.count_wait(view, task);
            self.add(view, cpu, array, task);
        }
        let state = &mut self.tasks[task];
        state.activated = Activated::No;
        state.running = true;
        state.stamp = view.now();
        self.cpus[cpu.index()].current = Some(task);
        Some(task)
    }

    /// Moves a queued task to the same array of another CPU.
    pub(super) fn move_task(&mut self, view: &View, task: TaskId, to: CpuId) {
        let Task { cpu: from, array, .. } = self.tasks[task];
        let was_active = array == Some(self.active_array(from));
        self.remove(task);
        let array = if was_active { self.active_array(to) } else { self.expired_array(to) };
        self.add(view, to, array, task);
        self.requests.moved(task, to);
    }
}

impl RunQueues for Queues {
    fn nr_running(&self, cpu: CpuId) -> u32 {
        self.cpus[cpu.index()].nr_running
    }
    fn load(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu.index()].load
    }

    /// Expired tasks first, as they are cold; best level first, in a list the last first.
    fn pull(&mut self, view: &View, from: CpuId, to: CpuId, want: Pull) -> Pulled {
        let mut pulled = Pulled { nr: 0, all_pinned: true };
        let mut left = want.load;
        let here_best = self.arrays.first(self.active_array(to)).map_or(LEVELS, |(level, _)| level);
        for array in [self.expired_array(from), self.active_array(from)] {
            let candidates: Vec<(usize, TaskId)> = self.arrays.iter_back(array).collect();
            let mut passed_best = false;
            for (level, task) in candidates {
                if left == 0 || pulled.nr >= want.nr_max {
                    return pulled;
                }
                if !view.allowed(task, to) {
                    continue;
                }
                pulled.all_pinned = false;
                let hot = view.now().saturating_since(self.tasks[task].last_ran) < CACHE_HOT;
                if self.tasks[task].running || (hot && want.hot == Hot::Stays) {
                    continue;
                }
                let weight = self.weight(task);
                if weight > left {
                    // too heavy, unless it would be the best here and one like it has been passed over before
                    let better = level < here_best;
                    if !better || !std::mem::replace(&mut passed_best, true) {
                        continue;
                    }
                }
                self.move_task(view, task, to);
                pulled.nr += 1;
                left = left.saturating_sub(weight);
                let current = self.cpus[to.index()].current;
                if current.is_some_and(|current| level < self.tasks[current].level) {
                    self.requests.kick(to);
                }
            }
        }
        pulled
    }

    fn push_running(&mut self, _view: &View, from: CpuId, to: CpuId) {
        self.cpus[from.index()].push_to = Some(to);
        self.requests.kick(from);
    }
}
