//! The constant bandwidth server, as Linux's SCHED_DEADLINE: each task has a budget Q per period P, and a
//! deadline to which it counts.
//!
//! Of the servers with budget, those with the earliest deadlines run. A task that has used up its budget is
//! *throttled* until its server is replenished (its deadline - D + P), and then has a deadline one period
//! later: it cannot take time from the others, whatever it does. At a wakeup, budget q and deadline d are
//! kept if q / (d - now) <= Q / D, else the server starts anew with Q and now + D.
//!
//! ```text
//! A is a hog with Q = 2, D = P = 5; B a hog below (SCHED_NORMAL)
//! ms   0    5    10
//!      AABBBAABBBAABBB
//! ```
//!
//! For D < P the wakeup rule is the revised one (Abeni, Lipari, Lelli 2015): the deadline stays and the
//! budget is cut to what fits, and who wakes after its deadline waits for its next period.
//!
//! *Enforcement*: `exact`, or at ticks as Linux has it (without HRTICK): a budget that is used up is noticed
//! at the next tick, what was too much is taken off the next budgets, and the service per period is right in
//! the mean only.
//!
//! *Admission*: the sum of Q / P over all tasks, in units of 2^-20 rounded down, is at most `limit` (95 per
//! cent) of the CPUs' capacity; 6.12's fair server holds 5 per cent of each CPU of that, which leaves 90. A
//! task that is refused runs as SCHED_NORMAL, and the run says so (Linux: sched_setattr fails with EBUSY and
//! the task stays what it was).
//!
//! *Sources*: Abeni, Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems" (1998); Linux
//! Documentation/scheduler/ sched-deadline.rst and kernel/sched/deadline.c of 6.12, restated. *Differs* from
//! Linux: one queue for all CPUs, with the result that push and pull aim at (the m earliest run); no
//! reclaiming (GRUB), no bandwidth inheritance; the fair server holds bandwidth but does not run. With
//! `mode=soft` an exhausted server gets a new budget and a later deadline at once (the original CBS) and may
//! use idle time. *Uncertain*: nothing known on one CPU (see `schedlab agreement`); on several, which CPU a
//! task runs on.
//!
//! As a scheduler of its own (`cbs`), POSIX real time and EEVDF lie below it (see `stack`).
//!
//! *Parameters*: `limit` (95 per cent), `mode` = hard or soft, `enforce` = exact or tick, `fair_server` = no or yes.

use crate::kit::keyed::Keyed;
use crate::kit::requests::Requests;
use crate::kit::table::Table;
use schedlab_machine::policy::{Arrival, Policy, Request, Resched, Stop, View, Wants, WorkConservation};
use schedlab_units::{CpuId, DeadlineParams, SchedPolicy, Span, TaskId, Time};
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// What happens to a task that has used up its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// It waits for its next period.
    Throttles,
    /// It goes on with a deadline one period later.
    Postpones,
}

/// When it is seen that a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// At once.
    Exact,
    /// At the next tick.
    Tick,
}

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct CbsParams {
    /// Per cent of the CPUs that may be reserved.
    pub limit_pct: u64,
    /// Whether a deadline server for the fair class holds 5 per cent of each CPU of that (6.8 and later).
    pub fair_server: bool,
    /// What happens when a budget is used up.
    pub exhaustion: Exhaustion,
    /// When that is seen.
    pub enforcement: Enforcement,
}

impl CbsParams {
    /// As in Linux before 6.8, or since.
    pub fn linux(fair_server: bool) -> CbsParams {
        let (exhaustion, enforcement) = (Exhaustion::Throttles, Enforcement::Tick);
        CbsParams { limit_pct: 95, fair_server, exhaustion, enforcement }
    }

    /// What may be reserved of each CPU, in 2^-20.
    fn limit(&self) -> u64 {
        let server = if self.fair_server { bandwidth(Span::from_ms(50), Span::from_s(1)) } else { 0 };
        (self.limit_pct << BANDWIDTH_BITS) / 100 - server
    }
}

/// Bandwidths are counted in 2^-20.
const BANDWIDTH_BITS: u32 = 20;

/// Runtime per period.
fn bandwidth(runtime: Span, period: Span) -> u64 {
    ((u128::from(runtime.as_ns()) << BANDWIDTH_BITS) / u128::from(period.as_ns().max(1))) as u64
}

/// The wakeup rule compares products of times in units of 2^10 ns.
const SCALE_BITS: u32 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Away,
    Queued,
    /// Until it is replenished, by a timer of this CPU.
    Throttled(CpuId, Time),
    Running,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// What it asked for, and whether that was granted.
    asked: Option<(DeadlineParams, bool)>,
    server: Option<DeadlineParams>,
    /// What is left, in ns; less than 0 if too much was used.
    budget_ns: i64,
    deadline: Time,
    sequence: u64,
    place: Place,
}

/// See the module.
#[derive(Debug)]
pub struct Cbs {
    params: CbsParams,
    tasks: Table<Task>,
    known: usize,
    keyed: Keyed,
    timers: Vec<BTreeSet<(Time, TaskId)>>,
    reserved: u64,
    sequence: u64,
    requests: Requests,
    warnings: Vec<String>,
}

impl Cbs {
    /// With these parameters.
    pub fn new(params: CbsParams) -> Cbs {
        Cbs {
            params,
            tasks: Table::default(),
            known: 0,
            keyed: Keyed::default(),
            timers: Vec::new(),
            reserved: 0,
            sequence: 0,
            requests: Requests::default(),
            warnings: Vec::new(),
        }
    }

    fn row(&mut self, task: TaskId) -> &mut Task {
        while self.known <= task.index() {
            self.tasks.reset(TaskId(self.known as u32));
            self.known += 1;
        }
        &mut self.tasks[task]
    }

    /// Whether the task's parameters, which it may just have got, make it one of this class. Reserves its
    /// bandwidth, once.
    pub(crate) fn admit(&mut self, view: &View, task: TaskId) -> bool {
        let params = view.params(task);
        let wanted = params.deadline.filter(|_| params.policy == SchedPolicy::Deadline);
        let asked = self.row(task).asked;
        if asked.map(|(asked, _)| asked) == wanted {
            return asked.is_some_and(|(_, granted)| granted);
        }
        self.release(task);
        let Some(wanted) = wanted else { return false };
        let needed = bandwidth(wanted.runtime, wanted.period);
        let room = u64::from(view.nr_cpus()) * self.params.limit();
        let sound = wanted.runtime > Span::ZERO
            && wanted.runtime <= wanted.deadline
            && wanted.deadline <= wanted.period;
        let granted = sound && self.reserved + needed <= room;
        self.tasks[task].asked = Some((wanted, granted));
        if granted {
            self.reserved += needed;
        } else {
            let why =
                if sound { "no bandwidth is left" } else { "runtime <= deadline <= period does not hold" };
            self.warnings.push(format!(
                "{task} asked for {} every {} (deadline {}) and was refused, {why}: it runs as SCHED_NORMAL",
                wanted.runtime, wanted.period, wanted.deadline
            ));
        }
        granted
    }

    /// Gives the task's bandwidth back.
    pub(crate) fn release(&mut self, task: TaskId) {
        if let Some((params, true)) = self.row(task).asked.take() {
            self.reserved -= bandwidth(params.runtime, params.period);
        }
    }

    /// Lets a CPU pick again.
    pub(crate) fn kick(&mut self, cpu: CpuId) {
        self.requests.kick(cpu);
    }

    fn server(&self, task: TaskId) -> DeadlineParams {
        self.tasks[task].server.expect("a task of this class has deadline parameters")
    }

    fn renew(&mut self, now: Time, task: TaskId) {
        let server = self.server(task);
        let state = &mut self.tasks[task];
        state.deadline = now + server.deadline;
        state.budget_ns = server.runtime.as_ns() as i64;
    }

    /// The wakeup rule.
    fn wake(&mut self, now: Time, task: TaskId) {
        let server = self.server(task);
        if self.tasks[task].deadline > Time::ZERO && self.replenished_at(task) <= now {
            self.replenish(now, task); // while it slept, if it had used up its budget
        }
        let state = self.tasks[task];
        let is_constrained = server.deadline < server.period;
        if state.deadline < now {
            if is_constrained && now < self.replenished_at(task) {
                // after its deadline, before its next period: it waits for that
                self.tasks[task].budget_ns = state.budget_ns.min(0);
            } else {
                self.renew(now, task);
            }
            return;
        }
        let left_ns = (state.deadline - now).as_ns();
        // q / (d - now) > Q / D
        let scaled = |ns: i64| i128::from(ns >> SCALE_BITS);
        let too_much = scaled(server.deadline.as_ns() as i64) * scaled(state.budget_ns)
            > scaled(left_ns as i64) * scaled(server.runtime.as_ns() as i64);
        if too_much && is_constrained {
            let density = bandwidth(server.runtime, server.deadline);
            self.tasks[task].budget_ns =
                ((u128::from(density) * u128::from(left_ns)) >> BANDWIDTH_BITS) as i64;
        } else if too_much {
            self.renew(now, task);
        }
    }

    /// When the server of a task without budget is replenished.
    fn replenished_at(&self, task: TaskId) -> Time {
        let server = self.server(task);
        self.tasks[task].deadline + (server.period - server.deadline)
    }

    fn replenish(&mut self, now: Time, task: TaskId) {
        let server = self.server(task);
        let state = &mut self.tasks[task];
        while state.budget_ns <= 0 {
            state.deadline = state.deadline + server.period;
            state.budget_ns += server.runtime.as_ns() as i64;
        }
        if state.deadline < now {
            self.renew(now, task); // far behind: it starts anew
        }
    }

    fn add(&mut self, task: TaskId) {
        self.tasks[task].place = Place::Queued;
        let Task { deadline, sequence, .. } = self.tasks[task];
        self.keyed.add(0, deadline.as_ns(), sequence, task);
    }

    /// Queues a runnable task, or parks it until its server is replenished.
    fn add_or_park(&mut self, now: Time, cpu: CpuId, task: TaskId) {
        if self.tasks[task].budget_ns <= 0 {
            let at = self.replenished_at(task);
            match self.params.exhaustion {
                Exhaustion::Throttles if at > now => {
                    self.tasks[task].place = Place::Throttled(cpu, at);
                    self.timers[cpu.index()].insert((at, task));
                    return;
                }
                _ => self.replenish(now, task),
            }
        }
        self.add(task);
    }
}

impl Policy for Cbs {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::Never
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.keyed = Keyed::new(1, view.nr_cpus());
        self.timers = vec![BTreeSet::new(); view.nr_cpus() as usize];
        Wants { requests: true, timers: true, ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        self.params_changed(view, task);
    }

    fn task_exit(&mut self, _view: &View, task: TaskId) {
        self.row(task).place = Place::Away;
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let deadline = view.params(task).deadline;
        let state = self.row(task);
        if state.server != deadline && deadline.is_some() {
            // a new reservation starts with a full budget at its next wakeup
            (state.server, state.budget_ns, state.deadline) = (deadline, 0, Time::ZERO);
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        self.sequence += 1;
        self.tasks[task].sequence = self.sequence;
        self.wake(view.now(), task);
        let key = self.tasks[task].deadline.as_ns();
        self.keyed.place(view, task, key).unwrap_or_else(|| view.home_cpu(task))
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.wake(view.now(), task);
        self.add_or_park(view.now(), cpu, task);
        if matches!(self.tasks[task].place, Place::Throttled(..)) {
            self.requests.timer(cpu); // (a kick would charge the current task before its tick)
        }
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        let Task { deadline, sequence, place, .. } = self.tasks[task];
        match place {
            Place::Throttled(cpu, at) => {
                self.timers[cpu.index()].remove(&(at, task));
            }
            _ => {
                self.keyed.remove(0, deadline.as_ns(), sequence, task);
            }
        }
        self.tasks[task].place = Place::Away;
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let task = self.keyed.pick(view, 0, cpu)?;
        self.tasks[task].place = Place::Running;
        let key = self.tasks[task].deadline.as_ns();
        self.keyed.set_current(cpu, Some(key));
        Some(task)
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        self.keyed.set_current(cpu, None);
        let state = &mut self.tasks[task];
        state.budget_ns -= ran.as_ns() as i64;
        state.place = Place::Away;
        if stop == Stop::Yielded {
            // as Linux has it: the job is done, the rest of the budget is forfeit
            state.budget_ns = state.budget_ns.min(0);
        }
        if stop.is_runnable() {
            self.add_or_park(view.now(), cpu, task);
        }
    }

    fn preempts(&mut self, _view: &View, _cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let (running, new) = (&self.tasks[current], &self.tasks[woken]);
        match new.place == Place::Queued && new.deadline < running.deadline {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, task: TaskId) -> Option<Span> {
        let exact = self.params.enforcement == Enforcement::Exact;
        exact.then(|| Span::from_ns(self.tasks[task].budget_ns.max(1) as u64))
    }

    fn tick(&mut self, _view: &View, _cpu: CpuId, current: TaskId, ran: Span) -> Resched {
        let is_over = ran.as_ns() as i64 >= self.tasks[current].budget_ns;
        match self.params.enforcement == Enforcement::Tick && is_over {
            true => Resched::Yes,
            false => Resched::No,
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.next()
    }

    fn next_timer(&mut self, _view: &View, cpu: CpuId) -> Option<Time> {
        self.timers[cpu.index()].first().map(|&(at, _)| at)
    }

    fn timer(&mut self, view: &View, cpu: CpuId) -> Resched {
        while let Some(&(at, task)) = self.timers[cpu.index()].first() {
            if at > view.now() {
                break;
            }
            self.timers[cpu.index()].pop_first();
            self.replenish(view.now(), task);
            self.add(task);
            let key = self.tasks[task].deadline.as_ns();
            if let Some(to) = self.keyed.place(view, task, key) {
                self.requests.kick(to);
            }
        }
        Resched::No
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
