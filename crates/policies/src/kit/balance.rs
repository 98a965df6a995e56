//! Which CPU should pull how much from which other? Balancing over scheduling domains as Linux did it from
//! 2.6.7 to 2.6.3x.
//!
//! Each CPU, at its tick, looks at each of its domains when that domain's interval is over: 1 to 4 ms if the
//! CPU is idle, 64 times that if it is busy. It finds the group with the highest load per power, and in it
//! the CPU with the highest load, and pulls
//!
//! ```text
//! amount = min(highest load - mean, what may leave there, mean - own load)
//! ```
//!
//! With 8 equal tasks of load 1 on the first of four CPUs, the mean is 2: the second pulls min(6, 7, 2) = 2,
//! then the third 2, and the fourth 2, one after the other. With 2,1,1,1 the own load of each reader is 1,
//! the mean 1.25, and nothing moves: 1.25 - 1 is less than a task, and a move would only swap who is worse
//! off (`small`); 2.6.32 makes it all the same, so that the task too many wanders.
//!
//! *Source*: specification of the kernels' behaviour (2.6.18, 2.6.32), restated. What the two differ in is in
//! [`Rules`]. *Uncertain*: powers of SMT cores, the node level's constants, the phase of the first check of
//! each CPU (staggered here).

use super::domains::{Domain, Domains, Level, POWER};
use schedlab_machine::policy::View;
use schedlab_units::{CpuId, Span, Time};

/// The run queues that are balanced.
pub(crate) trait RunQueues {
    /// Runnable tasks of a CPU, the current one included.
    fn nr_running(&self, cpu: CpuId) -> u32;
    /// Sum of their loads.
    fn load(&self, cpu: CpuId) -> u64;
    /// Moves queued tasks.
    fn pull(&mut self, view: &View, from: CpuId, to: CpuId, want: Pull) -> Pulled;
    /// Asks for the running task of `from` to be stopped and queued on `to`.
    fn push_running(&mut self, view: &View, from: CpuId, to: CpuId);
}

/// What is to be pulled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pull {
    /// At most this much load.
    pub(crate) load: u64,
    /// At most this many tasks (or looked at, where the source counts so).
    pub(crate) nr_max: u32,
    /// Whether cache-hot tasks may move.
    pub(crate) hot: Hot,
}

/// Whether tasks that ran a moment ago may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hot {
    /// They stay.
    Stays,
    /// They move too.
    Moves,
}

/// What was pulled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulled {
    /// Tasks moved.
    pub(crate) nr: u32,
    /// Nothing could move, since no queued task is allowed here.
    pub(crate) all_pinned: bool,
}

/// Why a CPU balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// At its tick, running something.
    Busy,
    /// At its tick, idle.
    Idle,
    /// It is about to become idle.
    NewIdle,
}

/// What may leave the busiest group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayLeave {
    /// All but one average task (2.6.18).
    AllButOneTask,
    /// The tasks above one per CPU (2.6.32).
    AboveCapacity,
}

/// In what the kernels differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Load of a nice-0 task.
    pub(crate) unit: u64,
    pub(crate) may_leave: MayLeave,
    /// Which remembered load is compared, when busy, idle, newly idle: 0 = that of now, i = remembered with
    /// weight 2^-(i-1).
    pub(crate) load_index: [usize; 3],
    /// Tasks at most in one move.
    pub(crate) nr_migrate: u32,
    /// A CPU whose idle periods are shorter than this on average does not look for work when it becomes idle.
    pub(crate) newidle_worth: Option<Span>,
    /// A move by a newly idle CPU ends after the first task.
    pub(crate) newidle_one: bool,
    /// Only the first idle, else the first, CPU of a group balances for it.
    pub(crate) one_per_group: bool,
    /// A task is moved also if that only turns the imbalance around: of two that share a CPU to a CPU that
    /// has one (2.6.32). So one task too many wanders.
    pub(crate) turns_around: bool,
}

/// Constants of a level: shortest and longest interval in ms, factor when busy, imbalance in per cent.
fn level_constants(level: Level) -> (u64, u64, u64, u64) {
    match level {
        Level::Core => (1, 2, 64, 110),
        Level::Package => (1, 4, 64, 125),
        Level::Machine => (8, 32, 32, 125),
    }
}

/// Failed attempts after which cache-hot tasks move (kernel: cache_nice_tries = 1).
const NICE_TRIES: u32 = 1;

#[derive(Clone, Copy, Debug)]
struct DomainState {
    interval_ms: u64,
    last: Time,
    nr_failed: u32,
}

#[derive(Clone, Debug, Default)]
struct CpuState {
    domains: Vec<DomainState>,
    /// Remembered loads, [i] with weight 2^-i for the newest.
    loads: [u64; 3],
    idle_since: Option<Time>,
    average_idle_ns: u64,
}

/// Balancing state of all CPUs.
#[derive(Debug)]
pub(crate) struct Balancer {
    rules: Rules,
    pub(crate) domains: Domains,
    cpus: Vec<CpuState>,
}

impl Balancer {
    pub(crate) fn new(rules: Rules) -> Balancer {
        Balancer { rules, domains: Domains::default(), cpus: Vec::new() }
    }

    /// The machine is known.
    pub(crate) fn boot(&mut self, view: &View) {
        self.domains = Domains::new(view.topology());
        let nr_cpus = u64::from(view.nr_cpus());
        self.cpus = (0..view.nr_cpus())
            .map(|cpu| {
                let of_cpu = &self.domains.of_cpu[cpu as usize];
                let state = |&d: &usize| {
                    let (min_ms, _, factor, _) = level_constants(self.domains.domains[d].level);
                    // first checks are spread over the longest interval between two
                    let spread_ns = min_ms * factor * 1_000_000 * u64::from(cpu) / nr_cpus;
                    let last = view.now() + Span::from_ns(spread_ns);
                    DomainState { interval_ms: min_ms, last, nr_failed: 0 }
                };
                CpuState {
                    domains: of_cpu.iter().map(state).collect(),
                    average_idle_ns: self.rules.newidle_worth.map_or(0, |worth| 2 * worth.as_ns()),
                    ..CpuState::default()
                }
            })
            .collect();
    }

    /// Whether there is anything to balance with.
    pub(crate) fn is_needed(&self) -> bool {
        !self.domains.domains.is_empty()
    }

    /// The tick of a CPU. Returns whether tasks came.
    pub(crate) fn tick<Q: RunQueues>(&mut self, queues: &mut Q, view: &View, cpu: CpuId) -> bool {
        if !self.is_needed() {
            return false;
        }
        let load = queues.load(cpu);
        for (i, kept) in self.cpus[cpu.index()].loads.iter_mut().enumerate() {
            // a rising load is rounded up, so that it is reached
            let round_up = if load > *kept { (1 << i) - 1 } else { 0 };
            *kept = (*kept * ((1 << i) - 1) + load + round_up) >> i;
        }
        let mut came = false;
        for place in 0..self.cpus[cpu.index()].domains.len() {
            let busy = queues.nr_running(cpu) > 0;
            let domain = self.domains.of_cpu[cpu.index()][place];
            let (_, _, factor, _) = level_constants(self.domains.domains[domain].level);
            let state = self.cpus[cpu.index()].domains[place];
            let interval = Span::from_ms(state.interval_ms * if busy { factor } else { 1 });
            if view.now().saturating_since(state.last) < interval || state.last > view.now() {
                continue;
            }
            // missed checks (long idle) are not made up for
            let late = view.now() - state.last;
            self.cpus[cpu.index()].domains[place].last =
                if late >= interval + interval { view.now() } else { state.last + interval };
            let why = if busy { Why::Busy } else { Why::Idle };
            came |= self.balance(queues, view, cpu, place, why);
        }
        came
    }

    /// The CPU has nothing to run. Returns whether tasks came.
    pub(crate) fn newly_idle<Q: RunQueues>(&mut self, queues: &mut Q, view: &View, cpu: CpuId) -> bool {
        if !self.is_needed() {
            return false;
        }
        let worth = self.rules.newidle_worth.map_or(0, |worth| worth.as_ns());
        if self.cpus[cpu.index()].average_idle_ns < worth {
            return false;
        }
        (0..self.cpus[cpu.index()].domains.len())
            .any(|place| self.balance(queues, view, cpu, place, Why::NewIdle))
    }

    /// The CPU becomes idle or busy: keeps the average length of its idle periods.
    pub(crate) fn note_idle(&mut self, view: &View, cpu: CpuId, idle: bool) {
        let Some(worth) = self.rules.newidle_worth else { return };
        let state = &mut self.cpus[cpu.index()];
        if idle {
            state.idle_since.get_or_insert(view.now());
        } else if let Some(since) = state.idle_since.take() {
            let length_ns = (view.now() - since).as_ns();
            let limit_ns = 2 * worth.as_ns();
            state.average_idle_ns =
                if length_ns > limit_ns { limit_ns } else { (state.average_idle_ns * 7 + length_ns) / 8 };
        }
    }

    fn balance<Q: RunQueues>(
        &mut self,
        queues: &mut Q,
        view: &View,
        cpu: CpuId,
        place: usize,
        why: Why,
    ) -> bool {
        let domain = &self.domains.domains[self.domains.of_cpu[cpu.index()][place]];
        let (min_ms, max_ms, _, _) = level_constants(domain.level);
        let found = self.busiest(queues, view, domain, cpu, why);
        let state = &mut self.cpus[cpu.index()].domains[place];
        let Some((from, amount)) = found else {
            if why != Why::NewIdle {
                state.nr_failed = 0;
                state.interval_ms = (state.interval_ms * 2).min(max_ms);
            }
            return false;
        };
        let hot = if state.nr_failed > NICE_TRIES { Hot::Moves } else { Hot::Stays };
        let nr_max = if why == Why::NewIdle && self.rules.newidle_one { 1 } else { self.rules.nr_migrate };
        let pulled = match queues.nr_running(from) {
            0 | 1 => Pulled::default(),
            _ => queues.pull(view, from, cpu, Pull { load: amount, nr_max, hot }),
        };
        if why == Why::NewIdle {
            return pulled.nr > 0;
        }
        if pulled.all_pinned {
            state.interval_ms = (state.interval_ms * 2).min(max_ms);
            return false;
        }
        if pulled.nr > 0 {
            state.nr_failed = 0;
            state.interval_ms = min_ms;
            return true;
        }
        state.nr_failed += 1;
        if state.nr_failed > NICE_TRIES + 2 {
            state.nr_failed = NICE_TRIES + 1;
            if queues.nr_running(from) > 1 {
                queues.push_running(view, from, cpu);
            }
        } else {
            state.interval_ms = min_ms;
        }
        false
    }

    /// The load of a CPU as another sees it (`own`: as it sees itself): a rise is believed late, a fall too.
    fn load_seen<Q: RunQueues>(&self, queues: &Q, cpu: CpuId, index: usize, own: bool) -> u64 {
        let now = queues.load(cpu);
        if index == 0 {
            return now;
        }
        let kept = self.cpus[cpu.index()].loads[index - 1];
        if own { now.max(kept) } else { now.min(kept) }
    }

    /// The CPU to pull from, and how much load.
    fn busiest<Q: RunQueues>(
        &self,
        queues: &Q,
        view: &View,
        domain: &Domain,
        cpu: CpuId,
        why: Why,
    ) -> Option<(CpuId, u64)> {
        struct Stats {
            load: u64,
            per_task: u64,
            nr: u64,
            power: u64,
            group: usize,
        }
        let index = self.rules.load_index[why as usize];
        let (_, _, _, imbalance_pct) = level_constants(domain.level);
        let (mut total_load, mut total_power) = (0, 0);
        let mut own: Option<Stats> = None;
        let mut busiest: Option<Stats> = None;
        for (number, group) in domain.groups.iter().enumerate() {
            let is_own = group.cpus.contains(&cpu);
            if is_own && self.rules.one_per_group && why != Why::NewIdle {
                let balancer =
                    group.cpus.iter().find(|&&c| queues.nr_running(c) == 0).unwrap_or(&group.cpus[0]);
                if *balancer != cpu {
                    return None;
                }
            }
            let seen: u64 = group.cpus.iter().map(|&c| self.load_seen(queues, c, index, is_own)).sum();
            let weighted: u64 = group.cpus.iter().map(|&c| queues.load(c)).sum();
            let nr: u64 = group.cpus.iter().map(|&c| u64::from(queues.nr_running(c))).sum();
            total_load += seen;
            total_power += group.power;
            let load = seen * POWER / group.power;
            let per_task = weighted.checked_div(nr).unwrap_or(0);
            let stats = Stats { load, per_task, nr, power: group.power, group: number };
            if is_own {
                own = Some(stats);
            } else if nr > (group.power / POWER).max(1) && busiest.as_ref().is_none_or(|b| load > b.load) {
                busiest = Some(stats);
            }
        }
        let (own, busiest) = (own?, busiest?);
        let mean = total_load * POWER / total_power;
        if own.load >= busiest.load
            || own.load >= mean
            || 100 * busiest.load <= imbalance_pct * own.load
            || busiest.per_task == 0
        {
            return None;
        }
        let may_leave = match self.rules.may_leave {
            MayLeave::AllButOneTask => busiest.load.saturating_sub(busiest.per_task),
            MayLeave::AboveCapacity => {
                let above = busiest.nr.saturating_sub((busiest.power / POWER).max(1));
                above * self.rules.unit * POWER / busiest.power
            }
        };
        let excess = busiest.load.saturating_sub(mean).min(may_leave);
        let mut amount = (excess * busiest.power).min((mean - own.load) * own.power) / POWER;
        if amount < busiest.per_task {
            let own_per_task = if own.nr > 0 { own.per_task } else { self.rules.unit };
            if !self.small(busiest.load, busiest.per_task, own.load, own_per_task, own.nr) {
                return None;
            }
            amount = busiest.per_task;
        }
        let group = &domain.groups[busiest.group];
        let queue = group
            .cpus
            .iter()
            .copied()
            .filter(|&c| c != cpu)
            .filter(|&c| !(queues.nr_running(c) == 1 && queues.load(c) > amount))
            .max_by_key(|&c| (queues.load(c), std::cmp::Reverse(c)))?;
        let _ = view;
        Some((queue, amount))
    }

    /// Less than one task is to move: is it worth moving one all the same?
    fn small(&self, busiest: u64, per_task: u64, own: u64, own_per_task: u64, own_nr: u64) -> bool {
        let tasks_apart = if own_nr > 0 && per_task > own_per_task { 1 } else { 2 };
        let for_turning = if self.rules.turns_around { per_task } else { 0 };
        if busiest - own + for_turning >= per_task * tasks_apart {
            return true;
        }
        // power in use now and after the move, if each CPU can use at most one task's load
        let now = per_task.min(busiest) + own_per_task.min(own);
        let then = per_task.min(busiest.saturating_sub(per_task)) + own_per_task.min(own + per_task);
        then > now
    }
}
