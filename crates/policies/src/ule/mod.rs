//! A scheduler like FreeBSD's ULE: a queue per CPU, a score for interactivity, and a calendar for the others.
//!
//! A task's *score* compares how long it slept (s) and ran (r) in the last seconds: 50 r / s if it slept
//! more, 100 - 50 s / r if it ran more. Below 30 (with its nice value added) it is *interactive* and goes,
//! with a priority by its score, to a queue that is always served first. The others are *timeshare*: they go
//! into a calendar of 64 days, as many days ahead of today as their priority is worse (recent CPU use and
//! nice), so that none starves.
//!
//! ```text
//! A, a hog: r = 5 s, s = 0: score 100, timeshare. B runs 1 ms of each 10: r / s = 1/9, score 5: interactive, before A
//! ```
//!
//! Slices: 94 ms for a timeshare task alone, divided by the number of tasks on the CPU, at least a sixth of that.
//!
//! *Sources*: J. Roberson, "ULE: A Modern Scheduler for FreeBSD" (2003); the behaviour described in Bouron et
//! al., "The Battle of the Schedulers" (2018). *Differs* (hence "like"): priorities within a class by the
//! score or by usage, without FreeBSD's numbers for kernel threads; real-time tasks stand above all by
//! priority. *Uncertain*: constants are from memory (stathz 127, slice 12 ticks, history of 5 s, threshold
//! 30).
//!
//! *Several CPUs*: a woken task goes to its last CPU if that is idle or runs something worse, else to an idle
//! one, else the least loaded; an idle CPU steals from the most loaded one; once in a while (here each
//! second) the most loaded gives one task to the least loaded.
//!
//! *Parameters*: `hz` (127), `slice` (94 ms), `threshold` (30).

use crate::kit::prio::PrioArrays;
use crate::kit::requests::Requests;
use crate::kit::table::Table;
use schedlab_machine::policy::{
    Arrival, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_units::{CpuId, Span, TaskId, Time};

#[cfg(test)]
mod tests;

/// Levels of the first array: 0 to 99 real time, then interactive by score.
const URGENT: usize = 100;
/// Of the urgent tasks.
const LEVELS: usize = URGENT + 100;
/// Days of the calendar.
const DAYS: usize = 64;
/// History of sleeping and running: when it exceeds this, it fades.
const HISTORY: Span = Span::from_s(5);
/// A child takes at most this much of its parent's history.
const HISTORY_OF_CHILD: Span = Span::from_ms(500);
/// Slices are never less than this part of the full one.
const SLICE_PARTS: u64 = 6;
/// Time between two rounds of balancing.
const BALANCE: Span = Span::from_s(1);

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct UleParams {
    /// Ticks per second.
    pub hz: u64,
    /// Slice of a task alone on its CPU.
    pub slice: Span,
    /// Scores below this are interactive.
    pub threshold: u64,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Real time or interactive, by level.
    Urgent(usize),
    /// On this day of the calendar.
    Timeshare(usize),
    #[default]
    Nowhere,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    cpu: CpuId,
    rank: Rank,
    slept: Span,
    ran: Span,
    /// Since when it sleeps.
    asleep: Option<Time>,
    left: Span,
}

#[derive(Clone, Debug, Default)]
struct Rq {
    current: Option<TaskId>,
    /// Runnable tasks, the current one included.
    load: u32,
    today: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Ule {
    params: UleParams,
    tasks: Table<Task>,
    urgent: PrioArrays,
    calendar: PrioArrays,
    cpus: Vec<Rq>,
    next_balance: Time,
    requests: Requests,
}

/// 0 (always asleep) to 100 (always running).
pub fn score(slept: Span, ran: Span) -> u64 {
    let (slept_ns, ran_ns) = (slept.as_ns(), ran.as_ns());
    match ran_ns.cmp(&slept_ns) {
        std::cmp::Ordering::Less => 50 * ran_ns / slept_ns,
        std::cmp::Ordering::Equal => 50,
        std::cmp::Ordering::Greater => 100 - 50 * slept_ns / ran_ns,
    }
}

impl Ule {
    /// With these parameters; rate and slice are not zero.
    pub fn new(params: UleParams) -> Ule {
        assert!(params.hz > 0 && params.slice > Span::ZERO, "a slice of zero has no meaning");
        Ule {
            params,
            tasks: Table::default(),
            urgent: PrioArrays::default(),
            calendar: PrioArrays::default(),
            cpus: Vec::new(),
            next_balance: Time::ZERO,
            requests: Requests::default(),
        }
    }

    /// Lets old history fade.
    fn fade(&mut self, task: TaskId) {
        let state = &mut self.tasks[task];
        let sum = state.slept + state.ran;
        if sum <= HISTORY {
            return;
        }
        // far above (one long sleep): scaled to the limit; else a fifth is forgotten
        let (parts, of) = match sum.as_ns() > 2 * HISTORY.as_ns() {
            true => (HISTORY.as_ns(), sum.as_ns()),
            false => (4, 5),
        };
        let scale = |span: Span| {
            Span::from_ns((u128::from(span.as_ns()) * u128::from(parts) / u128::from(of)) as u64)
        };
        (state.slept, state.ran) = (scale(state.slept), scale(state.ran));
    }

    fn rank(&self, view: &View, cpu: CpuId, task: TaskId) -> Rank {
        let (params, state) = (view.params(task), &self.tasks[task]);
        if params.rt_priority > 0 {
            return Rank::Urgent(99 - usize::from(params.rt_priority.min(99)));
        }
        let nice = i64::from(params.nice.get());
        let score = score(state.slept, state.ran) as i64 + nice;
        if score < self.params.threshold as i64 {
            return Rank::Urgent(URGENT + score.max(0) as usize);
        }
        // up to 23 days for the share of time it ran, up to 40 for nice
        let used_days = 23 * state.ran.as_ns() / (state.ran + state.slept).as_ns().max(1);
        let days = (used_days as i64 + nice + 20).clamp(0, DAYS as i64 - 2) as usize;
        Rank::Timeshare((self.cpus[cpu.index()].today + days) % DAYS)
    }

    fn add(&mut self, cpu: CpuId, task: TaskId, rank: Rank) {
        let state = &mut self.tasks[task];
        (state.cpu, state.rank) = (cpu, rank);
        match rank {
            Rank::Urgent(level) => self.urgent.push_back(cpu.index(), level, task),
            Rank::Timeshare(day) => self.calendar.push_back(cpu.index(), day, task),
            Rank::Nowhere => unreachable!("a queued task has a rank"),
        }
    }

    fn remove(&mut self, task: TaskId) {
        let Task { cpu, rank, .. } = self.tasks[task];
        match rank {
            Rank::Urgent(level) => self.urgent.remove(cpu.index(), level, task),
            Rank::Timeshare(day) => self.calendar.remove(cpu.index(), day, task),
            Rank::Nowhere => unreachable!("a queued task has a rank"),
        }
    }

    /// The first of the urgent ones, else of the first day from today on that has any.
    fn first(&mut self, cpu: CpuId) -> Option<TaskId> {
        if let Some((_, task)) = self.urgent.first(cpu.index()) {
            return Some(task);
        }
        let today = self.cpus[cpu.index()].today;
        let day = self
            .calendar
            .level_from(cpu.index(), today)
            .or_else(|| self.calendar.level_from(cpu.index(), 0))?;
        self.cpus[cpu.index()].today = day;
        self.calendar.level(cpu.index(), day).next()
    }

    /// Moves one waiting task from `from` to `to`; whether there was one.
    fn move_one(&mut self, view: &View, from: CpuId, to: CpuId) -> bool {
        let waiting = self.urgent.iter(from.index()).chain(self.calendar.iter(from.index()));
        let Some((_, task)) = waiting.into_iter().find(|&(_, task)| view.allowed(task, to)) else {
            return false;
        };
        self.remove(task);
        self.cpus[from.index()].load -= 1;
        self.cpus[to.index()].load += 1;
        let rank = self.rank(view, to, task);
        self.add(to, task, rank);
        self.requests.moved(task, to);
        true
    }

    fn full_slice(&self, cpu: CpuId) -> Span {
        let load = u64::from(self.cpus[cpu.index()].load).clamp(1, SLICE_PARTS);
        Span::from_ns(self.params.slice.as_ns() / load)
    }

    fn balance(&mut self, view: &View) {
        self.next_balance = view.now() + BALANCE;
        let load = |cpu: &CpuId| (self.cpus[cpu.index()].load, std::cmp::Reverse(*cpu));
        let (most, least) = (view.topology().ids().max_by_key(load), view.topology().ids().min_by_key(load));
        if let (Some(most), Some(least)) = (most, least)
            && self.cpus[most.index()].load > self.cpus[least.index()].load + 1
            && self.move_one(view, most, least)
            && view.is_idle(least)
        {
            self.requests.kick(least);
        }
    }
}

impl Policy for Ule {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::PerCpu
    }

    fn timing(&self) -> Timing {
        Timing { tick: Some(Span::from_ns(1_000_000_000 / self.params.hz)) }
    }

    /// Real time 0 to 99, interactive tasks 100 and their score, all others [`LEVELS`]: their turn comes with the days.
    fn dynamic_priority(&self, task: TaskId) -> Option<u32> {
        match self.tasks[task].rank {
            Rank::Urgent(level) => Some(level as u32),
            Rank::Timeshare(_) => Some(LEVELS as u32),
            Rank::Nowhere => None,
        }
    }

    fn boot(&mut self, view: &View) -> Wants {
        let nr_cpus = view.nr_cpus() as usize;
        self.urgent = PrioArrays::new(nr_cpus, LEVELS);
        self.calendar = PrioArrays::new(nr_cpus, DAYS);
        self.cpus = vec![Rq::default(); nr_cpus];
        Wants { requests: true, idle_ticks: nr_cpus > 1, priorities: true, ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        let left = self.params.slice;
        *self.tasks.reset(task) = Task { asleep: Some(view.now()), left, ..Task::default() };
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        if self.cpus[cpu.index()].current == Some(task) {
            self.tasks[task].rank = self.rank(view, cpu, task);
            self.requests.kick(cpu);
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        match arrival {
            Arrival::Wakeup { .. } => {
                if let Some(since) = self.tasks[task].asleep.take() {
                    self.tasks[task].slept += view.now() - since;
                    self.fade(task);
                }
            }
            Arrival::New { parent: Some(parent) } => {
                let Task { slept, ran, .. } = self.tasks[parent];
                let sum_ns = (slept + ran).as_ns().max(HISTORY_OF_CHILD.as_ns());
                let part = |span: Span| {
                    let ns = u128::from(span.as_ns()) * u128::from(HISTORY_OF_CHILD.as_ns());
                    Span::from_ns((ns / u128::from(sum_ns)) as u64)
                };
                (self.tasks[task].slept, self.tasks[task].ran) = (part(slept), part(ran));
            }
            _ => {}
        }
        let home = view.home_cpu(task);
        let rank = self.rank(view, home, task);
        let runs_worse = |cpu: CpuId| match self.cpus[cpu.index()].current {
            Some(current) => matches!(rank, Rank::Urgent(_)) && rank < self.tasks[current].rank,
            None => true,
        };
        if view.is_idle(home) || (runs_worse(home) && matches!(arrival, Arrival::Wakeup { .. })) {
            return home;
        }
        view.idle_cpu_for(task).unwrap_or_else(|| {
            let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
            allowed.min_by_key(|&cpu| (self.cpus[cpu.index()].load, cpu != home, cpu)).unwrap_or(home)
        })
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.tasks[task].asleep = None;
        self.cpus[cpu.index()].load += 1;
        let rank = self.rank(view, cpu, task);
        self.add(cpu, task, rank);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        self.remove(task);
        self.cpus[cpu.index()].load -= 1;
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        if self.cpus[cpu.index()].load == 0 {
            // steal: from the most loaded that has something for us
            let mut others: Vec<CpuId> = view.topology().ids().filter(|&c| c != cpu).collect();
            others.retain(|c| self.cpus[c.index()].load > 1);
            others.sort_by_key(|c| (std::cmp::Reverse(self.cpus[c.index()].load), *c));
            others.into_iter().any(|from| self.move_one(view, from, cpu));
        }
        let task = self.first(cpu)?;
        self.remove(task);
        self.cpus[cpu.index()].current = Some(task);
        self.requests.picked(Some(task));
        Some(task)
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        let full = self.full_slice(cpu);
        let state = &mut self.tasks[task];
        state.ran += ran;
        state.left = state.left.saturating_sub(ran);
        if state.left == Span::ZERO || stop != Stop::Preempted {
            state.left = full;
        }
        self.fade(task);
        self.cpus[cpu.index()].current = None;
        if stop.is_runnable() {
            let rank = self.rank(view, cpu, task);
            self.add(cpu, task, rank);
        } else {
            self.tasks[task].asleep = Some(view.now());
            self.cpus[cpu.index()].load -= 1;
        }
    }

    fn preempts(&mut self, _view: &View, _cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let (new, running) = (self.tasks[woken].rank, self.tasks[current].rank);
        match matches!(new, Rank::Urgent(_)) && new < running {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn slice(&mut self, view: &View, cpu: CpuId, task: TaskId) -> Option<Span> {
        let fifo = view.params(task).policy == schedlab_units::SchedPolicy::Fifo;
        (!fifo).then(|| self.tasks[task].left.min(self.full_slice(cpu)))
    }

    fn slice_end(&mut self, _view: &View, _cpu: CpuId, task: TaskId, ran: Span) -> Resched {
        self.tasks[task].left = ran; // used up, also if the load cut it short
        Resched::Yes
    }

    fn tick(&mut self, view: &View, cpu: CpuId, _current: TaskId, _ran: Span) -> Resched {
        // a day passes when no one is left on it
        let rq = &mut self.cpus[cpu.index()];
        if self.calendar.level(cpu.index(), rq.today).next().is_none() {
            rq.today = (rq.today + 1) % DAYS;
        }
        if view.now() >= self.next_balance {
            self.balance(view);
        }
        Resched::No
    }

    fn tick_idle(&mut self, view: &View, cpu: CpuId) -> Resched {
        if view.now() >= self.next_balance {
            self.balance(view);
        }
        let overloaded = self.cpus[cpu.index()].load == 0 && self.cpus.iter().any(|rq| rq.load > 1);
        if overloaded { Resched::Yes } else { Resched::No }
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.next()
    }
}
