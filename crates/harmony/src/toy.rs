//! Which policies are known so well that a verdict on them can be checked? Toys: a queue per CPU, round robin on
//! each, and balancing that is put together from parts by parameters.
//!
//! ```text
//! toy:newidle=yes                               a CPU that falls idle takes one task
//! toy:busy=60ms:amount=pairwise:cap=3           busy CPUs look each 60 ms, and take half the difference, 3 at most
//! toy:busy=60ms:mover=source:threshold=4        the longer queue pushes, if it is 4 longer
//! ```
//!
//! A check of a CPU compares its queue with the longest (or, if it pushes, with the shortest), running tasks counted,
//! and moves tasks that wait. Checks of a CPU come at its interval, whatever it finds; after a check that moved
//! something the next one comes after `after`. A busy and an idle CPU have intervals of their own; a CPU that falls
//! idle begins a new one.

use schedlab_lab::Subject;
use schedlab_machine::policy::{
    Arrival, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_policies::{ParamInfo, Params, PolicyError, PolicyInfo};
use schedlab_runner::Scheduler;
use schedlab_stdx::Random;
use schedlab_units::{CpuId, Span, TaskId, Time};
use std::collections::VecDeque;

/// How many tasks a check moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// One.
    One,
    /// Half of the longer queue.
    HalfOfQueue,
    /// Half of the difference.
    Pairwise,
    /// What the longer queue has above the mean of all, as far as the shorter one lacks it.
    Poly,
    /// So many, whatever the difference.
    Fixed(u32),
    /// Anything from one to half of the difference, each as likely.
    Random,
}

/// Who moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    /// The CPU that gets the tasks.
    Target,
    /// The CPU that has too many.
    Source,
    /// Whoever looks moves from the longest queue to the shortest.
    Third,
}

/// Which queues a CPU looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All alike.
    All,
    /// Those of its own cache first.
    Near,
    /// Those of its own cache only.
    Wall,
    /// Those of other caches first.
    Far,
}

/// Where tasks go that become runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Previous,
    IdlePreviousFirst,
    IdleSameCache,
    Waker,
    Shortest,
    Random,
}

/// Everything that a toy does.
#[derive(Clone, Copy, Debug)]
struct Rules {
    slice: Span,
    newidle: bool,
    event: bool,
    busy: Span,
    idle: Span,
    after: Span,
    /// Intervals vary by so many per cent either way.
    jitter: u64,
    amount: Amount,
    cap: u32,
    threshold: u32,
    mover: Mover,
    scope: Scope,
    /// Tasks count by their weight, not by their number.
    weighs: bool,
    wake: Place,
    fork: Place,
    exec: Place,
}

const fn param(name: &'static str, default: &'static str, help: &'static str) -> ParamInfo {
    ParamInfo { name, default, help }
}

static PARAMS: [ParamInfo; 18] = [
    param("slice", "5ms", "time slice of each queue"),
    param("newidle", "no", "a CPU that falls idle takes tasks at once (yes, no)"),
    param("event", "no", "any task that is put on a queue makes all CPUs look at once (yes, no)"),
    param("busy", "0ms", "a busy CPU looks at such intervals; 0: never"),
    param("idle", "0ms", "an idle CPU looks at such intervals; 0: never"),
    param("after", "0ms", "the next look after one that moved something; 0: after the usual interval"),
    param("jitter", "0", "intervals vary by so many per cent either way, 0 to 90"),
    param("amount", "one", "tasks moved at a time: one, half-of-queue, pairwise, poly, fixed, random"),
    param("number", "3", "how many with amount=fixed"),
    param("cap", "0", "most tasks moved at a time; 0: any"),
    param("threshold", "2", "queues must differ by so many tasks"),
    param("mover", "target", "who moves: target, source, third"),
    param("scope", "all", "whose queues are looked at: all, near (first), wall (near only), far (first)"),
    param("weighs", "no", "tasks count by their weight (yes, no)"),
    param("wake", "previous", "previous, idle-previous-first, idle-same-cache, waker, shortest, random"),
    param("fork", "previous", "previous (the parent's CPU), idle-previous-first, shortest, random"),
    param("exec", "previous", "where a task that executes a new program goes on: as fork"),
    param("seed", "1", "of what is random"),
];

/// A policy put together from parts; see the module.
pub static TOY: PolicyInfo = PolicyInfo::new(
    "toy",
    "a queue per CPU, and balancing put together from parts: to check verdicts on policies",
    "this project",
    &PARAMS,
    build,
);

/// A toy with these parameters, to be called `label`.
///
/// # Errors
/// It does not have them.
pub fn toy(label: &str, params: &[(String, String)]) -> Result<Subject, PolicyError> {
    TOY.build(params)?;
    let (label, params) = (label.to_string(), params.to_vec());
    Ok(Subject { label, scheduler: Scheduler::Native(&TOY), params })
}

fn named(name: &str) -> &'static ParamInfo {
    PARAMS.iter().find(|param| param.name == name).expect("a parameter of this table")
}

/// One of some words.
fn word<T: Copy>(params: &Params<'_>, name: &str, words: &[(&str, T)]) -> Result<T, PolicyError> {
    params.read(named(name), |value| {
        let found = words.iter().find(|(word, _)| *word == value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("expected one of {}", known.join(", "))
        })
    })
}

fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let yes = |name| word(params, name, &[("yes", true), ("no", false)]);
    let span =
        |name| params.read(named(name), |value| value.parse::<Span>().map_err(|error| error.to_string()));
    let number = |name| params.value::<u32>(named(name), "a whole number");
    let places = [
        ("previous", Place::Previous),
        ("idle-previous-first", Place::IdlePreviousFirst),
        ("idle-same-cache", Place::IdleSameCache),
        ("waker", Place::Waker),
        ("shortest", Place::Shortest),
        ("random", Place::Random),
    ];
    let fixed = number("number")?.max(1);
    let amounts = [
        ("one", Amount::One),
        ("half-of-queue", Amount::HalfOfQueue),
        ("pairwise", Amount::Pairwise),
        ("poly", Amount::Poly),
        ("fixed", Amount::Fixed(fixed)),
        ("random", Amount::Random),
    ];
    let scopes = [("all", Scope::All), ("near", Scope::Near), ("wall", Scope::Wall), ("far", Scope::Far)];
    let movers = [("target", Mover::Target), ("source", Mover::Source), ("third", Mover::Third)];
    let rules = Rules {
        slice: params.span(named("slice"))?,
        newidle: yes("newidle")?,
        event: yes("event")?,
        busy: span("busy")?,
        idle: span("idle")?,
        after: span("after")?,
        jitter: u64::from(number("jitter")?.min(90)),
        amount: word(params, "amount", &amounts)?,
        cap: number("cap")?,
        threshold: number("threshold")?.max(1),
        mover: word(params, "mover", &movers)?,
        scope: word(params, "scope", &scopes)?,
        weighs: yes("weighs")?,
        wake: word(params, "wake", &places)?,
        fork: word(params, "fork", &places)?,
        exec: word(params, "exec", &places)?,
    };
    let random = Random::new(params.value::<u64>(named("seed"), "a whole number")?);
    Ok(Box::new(Toy { rules, random, cpus: Vec::new(), requests: VecDeque::new() }))
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<TaskId>,
    next_check: Option<Time>,
    /// It had a task until this instant.
    was_busy: bool,
    /// The interval under way is that of an idle CPU.
    idles: bool,
}

#[derive(Debug)]
struct Toy {
    rules: Rules,
    random: Random,
    cpus: Vec<Queue>,
    requests: VecDeque<Request>,
}

/// A nice-0 task.
const UNIT: u64 = 1024;

impl Toy {
    /// How much a task counts: one, or its weight, in units of [`UNIT`].
    fn own_load(&self, view: &View, task: TaskId) -> u64 {
        if self.rules.weighs { view.params(task).nice.weight().0 } else { UNIT }
    }

    /// How much there is on a CPU.
    fn load(&self, view: &View, cpu: CpuId) -> u64 {
        let of = |task: TaskId| self.own_load(view, task);
        let waiting: u64 = self.cpus[cpu.index()].waiting.iter().map(|task| of(*task)).sum();
        waiting + view.current(cpu).map_or(0, of)
    }

    /// The time to the next check: of a busy or an idle CPU, after one that moved something or not.
    fn interval(&mut self, idles: bool, moved: bool) -> Option<Span> {
        let usual = if idles { self.rules.idle } else { self.rules.busy };
        if usual == Span::ZERO {
            return None;
        }
        let interval = if moved && self.rules.after > Span::ZERO { self.rules.after } else { usual };
        let reach_ns = interval.as_ns() * self.rules.jitter / 100;
        let drawn_ns = interval.as_ns() - reach_ns + self.random.below(2 * reach_ns + 1);
        Some(Span::from_ns(drawn_ns))
    }

    fn plan_check(&mut self, view: &View, cpu: CpuId, moved: bool) {
        let idles = view.is_idle(cpu);
        let interval = self.interval(idles, moved);
        let queue = &mut self.cpus[cpu.index()];
        (queue.idles, queue.next_check) = (idles, interval.map(|interval| view.now() + interval));
    }

    /// The CPUs that one looks at, those to be preferred first.
    fn circles(&self, view: &View, cpu: CpuId) -> Vec<Vec<CpuId>> {
        let cpus = view.topology().cpus();
        let others: Vec<CpuId> = view.topology().ids().filter(|other| *other != cpu).collect();
        let is_near = |other: &CpuId| cpus[other.index()].llc == cpus[cpu.index()].llc;
        let (near, far): (Vec<CpuId>, Vec<CpuId>) = others.iter().copied().partition(is_near);
        match self.rules.scope {
            Scope::All => vec![others],
            Scope::Near => vec![near, far],
            Scope::Wall => vec![near],
            Scope::Far => vec![far, near],
        }
    }

    /// From where to where a check of this CPU moves, if it does.
    fn find(&mut self, view: &View, cpu: CpuId) -> Option<(CpuId, CpuId)> {
        let least = u64::from(self.rules.threshold) * UNIT;
        for circle in self.circles(view, cpu) {
            let mut order = circle;
            self.random.shuffle(&mut order); // of equals any
            let load = |other: &CpuId| self.load(view, *other);
            let (from, to) = match self.rules.mover {
                Mover::Target => (order.iter().copied().max_by_key(load), Some(cpu)),
                Mover::Source => (Some(cpu), order.iter().copied().min_by_key(load)),
                Mover::Third => {
                    order.push(cpu);
                    (order.iter().copied().max_by_key(load), order.iter().copied().min_by_key(load))
                }
            };
            if let (Some(from), Some(to)) = (from, to)
                && self.load(view, from) >= self.load(view, to) + least
                && !self.cpus[from.index()].waiting.is_empty()
            {
                return Some((from, to));
            }
        }
        None
    }

    /// How many tasks to move.
    fn amount(&mut self, view: &View, from: CpuId, to: CpuId) -> usize {
        let nr =
            |toy: &Toy, cpu: CpuId| toy.cpus[cpu.index()].waiting.len() + usize::from(!view.is_idle(cpu));
        let (source, target) = (nr(self, from), nr(self, to));
        let all: usize = view.topology().ids().map(|cpu| nr(self, cpu)).sum();
        let mean = all as f64 / f64::from(view.nr_cpus());
        let half = source.saturating_sub(target) / 2;
        let number = match self.rules.amount {
            Amount::One => 1,
            Amount::HalfOfQueue => source / 2,
            Amount::Pairwise => half,
            Amount::Poly => (source as f64 - mean).min(mean - target as f64).max(0.0) as usize,
            Amount::Fixed(number) => number as usize,
            Amount::Random => 1 + self.random.below(half.max(1) as u64) as usize,
        };
        let cap = if self.rules.cap == 0 { usize::MAX } else { self.rules.cap as usize };
        number.clamp(1, cap)
    }

    /// A check of this CPU: the tasks that it moved, which are on their new queue, and where that is.
    fn check(&mut self, view: &View, cpu: CpuId) -> Option<(CpuId, Vec<TaskId>)> {
        let (from, to) = self.find(view, cpu)?;
        let number = self.amount(view, from, to);
        let (mut gives, mut gets) = (self.load(view, from), self.load(view, to));
        let mut moved = Vec::new();
        let waiting = std::mem::take(&mut self.cpus[from.index()].waiting);
        for task in waiting.into_iter().rev() {
            let weight = view.params(task).nice.weight().0;
            // one that weighs too much would only turn the difference around
            let fits = !self.rules.weighs || gets + weight < gives;
            if moved.len() < number && view.allowed(task, to) && fits {
                (gives, gets) = (gives - weight.min(gives), gets + weight);
                moved.push(task);
            } else {
                self.cpus[from.index()].waiting.push_front(task);
            }
        }
        self.cpus[to.index()].waiting.extend(&moved);
        (!moved.is_empty()).then_some((to, moved))
    }

    /// Has the kernel around it know what a check has moved.
    fn tell(&mut self, view: &View, moved: Option<(CpuId, Vec<TaskId>)>) -> bool {
        let Some((to, tasks)) = moved else { return false };
        self.requests.extend(tasks.into_iter().map(|task| Request::Moved { task, to }));
        if view.is_idle(to) {
            self.requests.push_back(Request::Kick(to));
        }
        true
    }

    /// Where a task is put. (One that runs already, and executes a new program, is no load to itself.)
    fn place(&mut self, view: &View, task: TaskId, place: Place, waker: Option<TaskId>) -> CpuId {
        let home = view.home_cpu(task);
        let cpus = view.topology().cpus();
        let allowed: Vec<CpuId> = view.topology().ids().filter(|cpu| view.allowed(task, *cpu)).collect();
        match place {
            Place::Previous => home,
            Place::IdlePreviousFirst => view.idle_cpu_for(task).unwrap_or(home),
            Place::IdleSameCache if view.is_idle(home) => home,
            Place::IdleSameCache => {
                let near =
                    |cpu: &&CpuId| cpus[cpu.index()].llc == cpus[home.index()].llc && view.is_idle(**cpu);
                allowed.iter().find(near).copied().unwrap_or(home)
            }
            Place::Waker => {
                let there = waker.map(|waker| view.task_cpu(waker)).filter(|cpu| view.allowed(task, *cpu));
                there.unwrap_or(home)
            }
            Place::Shortest => {
                let itself =
                    |cpu: CpuId| if view.current(cpu) == Some(task) { self.own_load(view, task) } else { 0 };
                let key = |cpu: &&CpuId| (self.load(view, **cpu) - itself(**cpu), **cpu != home);
                allowed.iter().min_by_key(key).copied().unwrap_or(home)
            }
            Place::Random if allowed.is_empty() => home,
            Place::Random => *self.random.pick(&allowed),
        }
    }
}

impl Policy for Toy {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::PerCpu
    }

    fn timing(&self) -> Timing {
        Timing { tick: None }
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.cpus = (0..view.nr_cpus()).map(|_| Queue::default()).collect();
        Wants { requests: true, timers: true, ..Wants::default() }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        if task == TaskId(0) {
            // CPUs that nothing has happened on would not be asked for their timers
            self.requests.extend(view.topology().ids().map(Request::Timer));
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        match arrival {
            Arrival::Changed | Arrival::New { parent: None } => view.home_cpu(task),
            Arrival::New { parent: Some(_) } => self.place(view, task, self.rules.fork, None),
            Arrival::Wakeup { waker } => self.place(view, task, self.rules.wake, waker),
        }
    }

    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        self.place(view, task, self.rules.exec, None)
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.cpus[cpu.index()].waiting.push_back(task);
        if self.rules.event {
            // by the CPUs themselves: a task may be moved only when the kernel has heard that it is there
            for other in view.topology().ids().filter(|other| *other != cpu) {
                self.cpus[other.index()].next_check = Some(view.now());
                self.requests.push_back(Request::Timer(other));
            }
        }
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.cpus.iter_mut().for_each(|queue| queue.waiting.retain(|other| *other != task));
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let fell_idle = std::mem::take(&mut self.cpus[cpu.index()].was_busy);
        if let Some(task) = self.cpus[cpu.index()].waiting.pop_front() {
            if std::mem::take(&mut self.cpus[cpu.index()].idles) {
                let interval = self.interval(false, false);
                self.cpus[cpu.index()].next_check = interval.map(|interval| view.now() + interval);
            }
            return Some(task);
        }
        if fell_idle
            && self.rules.newidle
            && self.rules.mover == Mover::Target
            && let Some((_, tasks)) = self.check(view, cpu)
        {
            let mine = &mut self.cpus[cpu.index()].waiting;
            let first = mine.pop_front();
            let moved = |task: &TaskId| Request::Moved { task: *task, to: cpu };
            self.requests.extend(tasks.iter().filter(|task| Some(**task) != first).map(moved));
            return first;
        }
        if fell_idle {
            let interval = self.interval(true, false);
            let queue = &mut self.cpus[cpu.index()];
            (queue.idles, queue.next_check) = (true, interval.map(|interval| view.now() + interval));
        }
        None
    }

    fn put_prev(&mut self, _view: &View, cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        if stop.is_runnable() {
            self.cpus[cpu.index()].waiting.push_back(task);
        }
        self.cpus[cpu.index()].was_busy = true;
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) -> Option<Span> {
        Some(self.rules.slice)
    }

    fn slice_end(&mut self, _view: &View, cpu: CpuId, _task: TaskId, _ran: Span) -> Resched {
        if self.cpus[cpu.index()].waiting.is_empty() { Resched::No } else { Resched::Yes }
    }

    fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    fn next_timer(&mut self, view: &View, cpu: CpuId) -> Option<Time> {
        if self.cpus[cpu.index()].next_check.is_none() {
            self.plan_check(view, cpu, false);
        }
        self.cpus[cpu.index()].next_check
    }

    fn timer(&mut self, view: &View, cpu: CpuId) -> Resched {
        let moved = self.check(view, cpu);
        let has_moved = self.tell(view, moved);
        self.plan_check(view, cpu, has_moved);
        Resched::No
    }
}
