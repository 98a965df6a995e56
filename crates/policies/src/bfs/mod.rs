//! BFS, Con Kolivas's scheduler for Linux desktops (2009 to 2016), with the rules of its versions 0.3xx.
//!
//! One queue for all CPUs. Each task has a slice (`rr_interval`) and a virtual deadline, renewed when the
//! slice is used up, and kept over sleep and preemption: deadline = now + rr_interval * ratio / 128, where
//! the ratio grows by a tenth with each nice level.
//!
//! ```text
//! nice      -20   -10     0    10    19
//! ratio     128   328   846  2192  5164 (about)    nice 0: 6.6 x rr_interval away, nice 19: 41 x
//! ```
//!
//! The task with the best level (real time, normal, idle), then the earliest deadline runs, found by looking
//! at all. A woken task takes an idle CPU, the nearest to its cache first, else preempts where the latest
//! deadline runs, if its own is earlier. A sleeper's deadline has come near meanwhile: that is all there is
//! for interactivity.
//!
//! Two hogs: the one of nice n runs k + 1 slices to one of the other, where k is by how many rr_intervals
//! their deadlines differ, rounded down (nice 0 and 5: 5 to 1). The documentation's "square of the ratio" is
//! a rule of thumb for many tasks.
//!
//! *Sources*: sched-BFS.txt and a later version's source, restated. *Differs*: no SCHED_ISO (workloads do not
//! know it). Ticks of all CPUs fall together. *Uncertain*: how versions 0.3xx keep tasks near their cache,
//! and whether rr_interval grew with the number of CPUs then (here not). Three rules can be chosen; by
//! default nothing is kept (`affinity=none`). `distance`: a task that ran last on another CPU counts as one
//! `rr_interval` later per step (0 for a sibling, 1 for a shared cache, 2 for a package, 3 beyond). `sticky`,
//! of later versions: a task stopped against its will is reserved for its CPU, and others see its deadline
//! later by that of nice 19. Against Harmony (0.313, four CPUs, hogs that start on one; 60 s here):
//!
//! | | five: share of each | five: migrations/s | eight: share of each | eight: migrations/s |
//! |---|---|---|---|---|
//! | Harmony | 0.80 within 1 % | 163 | fair in all runs | 13 |
//! | `none` | 0.80 | 667 | 0.50 | 0.1 |
//! | `distance` | 1, 1, 1, .5, .5 | 0.1 | .33 to 1 | 0.1 |
//! | `sticky` | 1, 1, 1, .5, .5 | 0.1 | .2 to 1 | 0.1 |
//!
//! So 0.313 was fair and kept nothing. Without affinity each end of a slice moves one of five hogs, so that
//! the rate is CPUs / slice: 163 per s tell a slice of 24.5 ms. With `rr_interval` of 24 "ms" (6 x (1 +
//! log2(8)), or 6 x 4: as remembered, it grew with the number of CPUs) `none` has 160 migrations/s and shares
//! of 0.80. Eight hogs keep their places as long as nobody else runs; with a background task (300 us each 97
//! ms) there are 2 to 16 migrations/s, with four of them 39 to 51.
//!
//! *Parameters*: `hz` (1000), `rr_interval` (6 "ms" of 2^20 ns), `affinity`.

use crate::kit::prio::PrioArrays;
use crate::kit::requests::Requests;
use crate::kit::table::Table;
use schedlab_machine::policy::{Arrival, Policy, Request, Resched, Stop, Timing, View, Wants};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, SchedParams, SchedPolicy, Span, TaskId, Time};

#[cfg(test)]
mod tests;

/// Levels: 0 to 99 real time, then normal, then idle.
const NORMAL: usize = 101;
const IDLE: usize = 102;
const LEVELS: usize = 103;
/// A task with less of its slice left than this has used it up.
const USED_UP: Span = Span::from_us(100);

/// How a task is kept near its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Not at all.
    None,
    /// Elsewhere its deadline counts as later, by distance.
    Distance,
    /// If stopped against its will, it is reserved for its CPU.
    Sticky,
}

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct BfsParams {
    /// Ticks per second.
    pub hz: u64,
    /// Slice of every task.
    pub rr_interval: Span,
    /// How a task is kept near its cache.
    pub affinity: Affinity,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    level: usize,
    deadline: Time,
    left: Span,
    last: Option<CpuId>,
    sticky: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Bfs {
    params: BfsParams,
    tasks: Table<Task>,
    queue: PrioArrays,
    /// Per CPU: the current task began in the first half of a tick.
    dither: Vec<bool>,
    requests: Requests,
}

/// How much later than now a deadline is, in 128ths of `rr_interval`: 128 at nice -20, then a tenth more per level.
pub fn ratio(nice: i32) -> u64 {
    (0..nice + 20).fold(128, |ratio, _| ratio * 11 / 10)
}

/// Steps between two CPUs: 0 the same or a sibling, 1 a shared cache, 2 a package, 3 beyond.
fn distance(topology: &Topology, a: CpuId, b: CpuId) -> u64 {
    let (a, b) = (&topology.cpus()[a.index()], &topology.cpus()[b.index()]);
    match () {
        () if a.core == b.core => 0,
        () if a.llc == b.llc => 1,
        () if a.package == b.package => 2,
        () => 3,
    }
}

fn level(params: &SchedParams) -> usize {
    match params.policy {
        _ if params.rt_priority > 0 => 99 - usize::from(params.rt_priority.min(99)),
        SchedPolicy::Idle => IDLE,
        _ => NORMAL,
    }
}

impl Bfs {
    /// With these parameters, none of which is zero.
    pub fn new(params: BfsParams) -> Bfs {
        assert!(params.hz > 0 && params.rr_interval > Span::ZERO, "a slice of zero has no meaning");
        Bfs {
            params,
            tasks: Table::default(),
            queue: PrioArrays::new(1, LEVELS),
            dither: Vec::new(),
            requests: Requests::default(),
        }
    }

    fn offset(&self, nice: i32) -> Span {
        Span::from_ns(self.params.rr_interval.as_ns() * ratio(nice) / 128)
    }

    /// A new slice and a new deadline.
    fn renew(&mut self, view: &View, task: TaskId) {
        let offset = self.offset(view.params(task).nice.get());
        let state = &mut self.tasks[task];
        (state.left, state.deadline) = (self.params.rr_interval, view.now() + offset);
    }

    /// The deadline as a CPU sees it.
    fn seen_from(&self, view: &View, task: TaskId, cpu: CpuId) -> Time {
        let Task { deadline, last, sticky, .. } = self.tasks[task];
        let Some(last) = last.filter(|&last| last != cpu) else { return deadline };
        match self.params.affinity {
            Affinity::Distance => {
                let steps = distance(view.topology(), last, cpu);
                deadline + Span::from_ns(steps * self.params.rr_interval.as_ns())
            }
            Affinity::Sticky if sticky => deadline + self.offset(19),
            _ => deadline,
        }
    }

    /// The nearest idle CPU.
    fn idle_near(&self, view: &View, task: TaskId) -> Option<CpuId> {
        if !view.any_idle() {
            return None;
        }
        let home = view.home_cpu(task);
        let idle = view.topology().ids().filter(|&cpu| view.is_idle(cpu) && view.allowed(task, cpu));
        idle.min_by_key(|&cpu| (cpu != home, distance(view.topology(), home, cpu), cpu))
    }

    fn goes_before(&self, new: &Task, running: &Task) -> bool {
        match new.level.cmp(&running.level) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => new.level == NORMAL && new.deadline < running.deadline,
            std::cmp::Ordering::Greater => false,
        }
    }
}

impl Policy for Bfs {
    fn timing(&self) -> Timing {
        Timing { tick: Some(Span::from_ns(1_000_000_000 / self.params.hz)) }
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.dither = vec![false; view.nr_cpus() as usize];
        Wants { requests: true, ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        *self.tasks.reset(task) = Task { level: level(view.params(task)), ..Task::default() };
        self.renew(view, task);
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let before = self.tasks[task];
        self.tasks[task].level = level(view.params(task));
        self.renew(view, task);
        let later = self.goes_before(&before, &self.tasks[task]);
        let runs = view.topology().ids().find(|&cpu| view.current(cpu) == Some(task));
        if let Some(cpu) = runs.filter(|_| later) {
            self.requests.kick(cpu);
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        if let Arrival::New { parent: Some(parent) } = arrival {
            let Task { left, deadline, last, .. } = self.tasks[parent];
            self.tasks[parent].left = Span::from_ns(left.as_ns() / 2);
            let state = &mut self.tasks[task];
            (state.left, state.deadline, state.last) = (Span::from_ns(left.as_ns() / 2), deadline, last);
            if state.left < USED_UP {
                self.renew(view, task);
            }
        }
        if let Some(idle) = self.idle_near(view, task) {
            return idle;
        }
        let new = self.tasks[task];
        let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
        let running = allowed.filter_map(|cpu| view.current(cpu).map(|current| (self.tasks[current], cpu)));
        let worst =
            running.max_by_key(|&(current, cpu)| (current.level, current.deadline, std::cmp::Reverse(cpu)));
        match worst {
            Some((current, cpu)) if new.level != IDLE && self.goes_before(&new, &current) => cpu,
            _ => view.home_cpu(task),
        }
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.queue.push_back(0, self.tasks[task].level, task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.queue.remove(0, self.tasks[task].level, task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let mut level = 0;
        let picked = loop {
            level = self.queue.level_from(0, level)?;
            let allowed = self.queue.level(0, level).filter(|&task| view.allowed(task, cpu));
            let picked = match level {
                0..NORMAL => allowed.into_iter().next(),
                _ => allowed.min_by_key(|&task| self.seen_from(view, task, cpu)),
            };
            match picked {
                Some(picked) => break picked,
                None => level += 1,
            }
        };
        self.queue.remove(0, level, picked);
        let tick_ns = 1_000_000_000 / self.params.hz;
        self.dither[cpu.index()] = view.now().as_ns() % tick_ns <= tick_ns / 2;
        let state = &mut self.tasks[picked];
        (state.last, state.sticky) = (Some(cpu), false);
        Some(picked)
    }

    fn put_prev(&mut self, view: &View, _cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        let state = &mut self.tasks[task];
        state.left = state.left.saturating_sub(ran);
        state.sticky = stop == Stop::Preempted;
        if state.left < USED_UP || (stop == Stop::Yielded && state.level >= NORMAL) {
            self.renew(view, task);
        }
        if !stop.is_runnable() {
            return;
        }
        let level = self.tasks[task].level;
        match stop == Stop::Preempted && level < NORMAL && view.params(task).policy == SchedPolicy::Fifo {
            true => self.queue.push_front(0, level, task),
            false => self.queue.push_back(0, level, task),
        }
    }

    fn preempts(&mut self, _view: &View, _cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let (new, running) = (self.tasks[woken], self.tasks[current]);
        match new.level != IDLE && self.goes_before(&new, &running) {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn tick(&mut self, view: &View, cpu: CpuId, current: TaskId, ran: Span) -> Resched {
        if view.params(current).policy == SchedPolicy::Fifo {
            return Resched::No;
        }
        let left = self.tasks[current].left.saturating_sub(ran);
        let half_tick = Span::from_ns(500_000_000 / self.params.hz);
        let over = if self.dither[cpu.index()] { left <= half_tick } else { left < USED_UP };
        if !over {
            return Resched::No;
        }
        // what little is left is void
        self.tasks[current].left = ran;
        Resched::Yes
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.next()
    }
}
