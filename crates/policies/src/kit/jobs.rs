//! The scheduler under EDF and rate monotonic: each activation of a task is a *job* with a number, and the
//! jobs with the least run.
//!
//! A job begins when its task becomes runnable (wakeup or start) and ends when it blocks. Its number is its
//! absolute deadline (EDF), or the task's period or relative deadline (fixed priorities). A task that is
//! woken at the very instant at which it blocked was late: its next job had been released a period after the
//! last one, and its deadline counts from there. Tasks without deadline parameters run in the background,
//! first come, first served.
//!
//! Where tasks are divided among CPUs, a background task gets the CPU that offers it most: what deadlines
//! leave of the CPU, divided by the background tasks there, itself included. Among equals the CPU with the
//! lower number is chosen.
//!
//! ```text
//! cpu0 has a deadline task of U = 0.6, cpu1 none; background tasks X, Y, Z come one by one
//!      cpu0 offers   cpu1 offers
//! X    0.4           1.0           cpu1
//! Y    0.4           1/2           cpu1
//! Z    0.4           1/3           cpu0
//! ```

use super::keyed::Keyed;
use super::table::Table;
use schedlab_machine::policy::{Arrival, Policy, Resched, Stop, View, Wants, WorkConservation};
use schedlab_units::{CpuId, DeadlineParams, Span, TaskId, Time};

/// What orders jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrder {
    /// Absolute deadline: release + relative deadline.
    Deadline,
    /// Period: rate monotonic.
    Period,
    /// Relative deadline: deadline monotonic.
    RelativeDeadline,
}

/// How tasks are divided among CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Not at all: one queue.
    Global,
    /// Each to the first CPU where it fits.
    FirstFit,
    /// Each to the CPU that is left the least room by it.
    BestFit,
    /// Each to the CPU that is least used.
    WorstFit,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    key: u64,
    released: Time,
    blocked: Time,
    sequence: u64,
    cpu: CpuId,
    /// What it is counted with on its CPU, in 2^-32.
    utilisation: u64,
    /// It is counted on its CPU as one without deadline.
    in_background: bool,
    queued: bool,
}

/// Keys of tasks without deadlines: after all others.
const BACKGROUND: u64 = u64::MAX;
/// A whole CPU.
const ONE: u64 = 1 << 32;

/// See the module.
#[derive(Debug)]
pub struct Jobs {
    order: JobOrder,
    placement: Placement,
    tasks: Table<Task>,
    keyed: Keyed,
    used: Vec<u64>,
    /// Per CPU: how many tasks without deadline are assigned to it.
    in_background: Vec<u64>,
    /// Per CPU: who is assigned to it, with its deadline parameters.
    assigned: Vec<Vec<(TaskId, DeadlineParams)>>,
    sequence: u64,
    warnings: Vec<String>,
}

/// Whether tasks with these fixed priorities (a low number is a high one) always meet their deadlines on one
/// CPU: response times by Joseph and Pandya, exact for deadlines up to the period; a later deadline counts as
/// the period.
fn responses_fit(tasks: &[(u64, DeadlineParams)]) -> bool {
    tasks.iter().enumerate().all(|(place, &(key, params))| {
        let limit_ns = params.deadline.min(params.period).as_ns();
        // equal ones delay each other
        let higher = || tasks.iter().enumerate().filter(move |&(other, &(k, _))| other != place && k <= key);
        let mut response_ns = params.runtime.as_ns();
        while response_ns <= limit_ns {
            let delays = higher().map(|(_, (_, other))| {
                response_ns.div_ceil(other.period.as_ns().max(1)).saturating_mul(other.runtime.as_ns())
            });
            let next_ns = delays.fold(params.runtime.as_ns(), u64::saturating_add);
            if next_ns == response_ns {
                return true;
            }
            response_ns = next_ns;
        }
        false
    })
}

/// Runtime / period, rounded up.
pub(crate) fn utilisation(params: &DeadlineParams) -> u64 {
    let period_ns = u128::from(params.period.as_ns().max(1));
    (u128::from(params.runtime.as_ns()) << 32).div_ceil(period_ns) as u64
}

impl Jobs {
    pub(crate) fn new(order: JobOrder, placement: Placement) -> Jobs {
        Jobs {
            order,
            placement,
            tasks: Table::default(),
            keyed: Keyed::default(),
            used: Vec::new(),
            in_background: Vec::new(),
            assigned: Vec::new(),
            sequence: 0,
            warnings: Vec::new(),
        }
    }

    fn queue(&self, task: TaskId) -> usize {
        if self.placement == Placement::Global { 0 } else { self.tasks[task].cpu.index() }
    }

    fn key(&self, view: &View, task: TaskId) -> u64 {
        let Some(params) = view.params(task).deadline else { return BACKGROUND };
        match self.order {
            JobOrder::Deadline => self.tasks[task].released.saturating_add(params.deadline).as_ns(),
            JobOrder::Period | JobOrder::RelativeDeadline => self.priority(&params),
        }
    }

    /// What fixed priorities go by.
    fn priority(&self, params: &DeadlineParams) -> u64 {
        if self.order == JobOrder::RelativeDeadline { params.deadline.as_ns() } else { params.period.as_ns() }
    }

    /// Whether a task has room on a CPU: up to U = 1 under EDF, by the analysis of response times under fixed
    /// priorities.
    fn fits(&self, cpu: CpuId, params: Option<DeadlineParams>) -> bool {
        let Some(params) = params else { return true };
        let within = self.used[cpu.index()] + utilisation(&params) <= ONE;
        if !within || self.order == JobOrder::Deadline {
            return within;
        }
        let others = self.assigned[cpu.index()].iter().map(|(_, other)| *other);
        let tasks: Vec<_> = others.chain([params]).map(|other| (self.priority(&other), other)).collect();
        responses_fit(&tasks)
    }

    /// Chooses the CPU of a task, if tasks are divided among CPUs.
    fn assign(&mut self, view: &View, task: TaskId) {
        if self.placement == Placement::Global {
            return;
        }
        self.unassign(task);
        let params = view.params(task).deadline;
        let needed = params.as_ref().map_or(0, utilisation);
        let allowed = || view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
        let fits = |cpu: &CpuId| self.fits(*cpu, params);
        let used = |cpu: CpuId| self.used[cpu.index()];
        let chosen = match self.placement {
            _ if params.is_none() => allowed().reduce(|a, b| if self.offers_more(b, a) { b } else { a }),
            Placement::Global | Placement::FirstFit => allowed().find(fits),
            Placement::BestFit => allowed().filter(fits).max_by_key(|&c| (used(c), std::cmp::Reverse(c))),
            Placement::WorstFit => allowed().filter(fits).min_by_key(|&cpu| (used(cpu), cpu)),
        };
        let cpu = chosen.unwrap_or_else(|| {
            self.warnings.push(format!("{task} fits on no CPU: it shares the least used one"));
            allowed().min_by_key(|&cpu| (used(cpu), cpu)).unwrap_or_else(|| view.home_cpu(task))
        });
        self.used[cpu.index()] += needed;
        self.in_background[cpu.index()] += u64::from(params.is_none());
        self.assigned[cpu.index()].extend(params.map(|params| (task, params)));
        let state = &mut self.tasks[task];
        (state.cpu, state.utilisation, state.in_background) = (cpu, needed, params.is_none());
    }

    /// Whether one more task without deadline gets more on CPU `a` than on `b`.
    fn offers_more(&self, a: CpuId, b: CpuId) -> bool {
        let left = |cpu: CpuId| u128::from(ONE.saturating_sub(self.used[cpu.index()]));
        let sharers = |cpu: CpuId| u128::from(self.in_background[cpu.index()] + 1);
        left(a) * sharers(b) > left(b) * sharers(a)
    }

    /// Its CPU has it no more.
    fn unassign(&mut self, task: TaskId) {
        let state = &mut self.tasks[task];
        let cpu = state.cpu.index();
        self.used[cpu] -= std::mem::take(&mut state.utilisation);
        self.in_background[cpu] -= u64::from(std::mem::take(&mut state.in_background));
        self.assigned[cpu].retain(|(other, _)| *other != task);
    }

    fn add(&mut self, task: TaskId) {
        self.tasks[task].queued = true;
        let Task { key, sequence, .. } = self.tasks[task];
        self.keyed.add(self.queue(task), key, sequence, task);
    }
}

impl Policy for Jobs {
    fn work_conservation(&self) -> WorkConservation {
        match self.placement {
            Placement::Global => WorkConservation::Machine,
            _ => WorkConservation::PerCpu,
        }
    }

    fn boot(&mut self, view: &View) -> Wants {
        let nr_queues = if self.placement == Placement::Global { 1 } else { view.nr_cpus() as usize };
        self.keyed = Keyed::new(nr_queues, view.nr_cpus());
        self.used = vec![0; view.nr_cpus() as usize];
        self.in_background = vec![0; view.nr_cpus() as usize];
        self.assigned = vec![Vec::new(); view.nr_cpus() as usize];
        Wants::default()
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        self.tasks.reset(task);
        self.assign(view, task);
    }

    fn task_exit(&mut self, _view: &View, task: TaskId) {
        if self.placement != Placement::Global {
            self.unassign(task);
        }
        self.tasks[task] = Task::default();
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let runs = view.topology().ids().any(|cpu| view.current(cpu) == Some(task));
        if !runs || !view.allowed(task, self.tasks[task].cpu) {
            self.assign(view, task);
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        let is_release = !matches!(arrival, Arrival::Changed);
        if is_release {
            let late = matches!(arrival, Arrival::Wakeup { .. }) && self.tasks[task].blocked == view.now();
            let period = view.params(task).deadline.map(|params| params.period).filter(|_| late);
            let state = &mut self.tasks[task];
            state.released = period.map_or(view.now(), |period| (state.released + period).min(view.now()));
        }
        if is_release || self.tasks[task].sequence == 0 || self.order != JobOrder::Deadline {
            let key = self.key(view, task);
            self.sequence += 1;
            let state = &mut self.tasks[task];
            (state.key, state.sequence) = (key, self.sequence);
        }
        match self.placement {
            Placement::Global => {
                let key = self.tasks[task].key;
                self.keyed.place(view, task, key).unwrap_or_else(|| view.home_cpu(task))
            }
            _ => {
                if !view.allowed(task, self.tasks[task].cpu) {
                    self.assign(view, task);
                }
                self.tasks[task].cpu
            }
        }
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.add(task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        let Task { key, sequence, .. } = self.tasks[task];
        self.keyed.remove(self.queue(task), key, sequence, task);
        self.tasks[task].queued = false;
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let queue = if self.placement == Placement::Global { 0 } else { cpu.index() };
        let picked = self.keyed.pick(view, queue, cpu)?;
        self.tasks[picked].queued = false;
        self.keyed.set_current(cpu, Some(self.tasks[picked].key));
        Some(picked)
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        self.keyed.set_current(cpu, None);
        self.tasks[task].blocked = if stop == Stop::Blocked { view.now() } else { Time::NEVER };
        if stop == Stop::Yielded {
            self.sequence += 1;
            self.tasks[task].sequence = self.sequence;
        }
        if stop.is_runnable() {
            self.add(task);
        }
    }

    fn preempts(&mut self, _view: &View, _cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        match self.tasks[woken].key < self.tasks[current].key {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
