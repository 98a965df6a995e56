//! The run queues: per CPU a tree by virtual runtime, and the arithmetic on them.

use super::*;
use crate::kit::balance::{Hot, Pull, Pulled, RunQueues};
use crate::kit::requests::Requests;
use crate::kit::run_clock::RunClock;

#[derive(Clone, Debug, Default)]
pub(super) struct Rq {
    tree: BTreeSet<(i64, u64, TaskId)>,
    pub(super) current: Option<TaskId>,
    /// How much of the current task's run is in its vruntime already.
    pub(super) clock: RunClock,
    /// How long it had run before it was picked again without having stopped, or what it paid for from before.
    pub(super) before: Span,
    /// The task that stopped last, still runnable, how long it had run, and when. If it is picked at that
    /// instant it has not stopped.
    pub(super) stopped: Option<(TaskId, Span, Time)>,
    /// The current task is to be replaced.
    pub(super) resched: bool,
    min_vruntime: i64,
    /// Sum of weights, the current task's included.
    load: u64,
    pub(super) nr_running: u32,
    /// The task that was preempted last: it is preferred, for its cache, if that is fair.
    pub(super) last_buddy: Option<TaskId>,
    /// The task that was woken and preempts (6.1).
    pub(super) next_buddy: Option<TaskId>,
    /// It yielded.
    pub(super) skip: Option<TaskId>,
    pub(super) push_to: Option<CpuId>,
}

impl Rq {
    /// The task is none of the buddies.
    pub(super) fn clear_buddies(&mut self, task: TaskId) {
        for buddy in [&mut self.last_buddy, &mut self.next_buddy, &mut self.skip] {
            if *buddy == Some(task) {
                *buddy = None;
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Queues {
    params: CfsParams,
    /// The tunables in force here, known from [`Self::boot`] on.
    latency: Span,
    min_granularity: Span,
    wakeup_granularity: Span,
    nr_latency: u64,
    pub(super) tasks: Table<Task>,
    pub(super) cpus: Vec<Rq>,
    sequence: u64,
    pub(super) requests: Requests,
}

fn times(span: Span, factor: u64) -> Span {
    Span::from_ns(span.as_ns() * factor)
}

impl Queues {
    pub(super) fn new(params: CfsParams) -> Queues {
        Queues {
            params,
            latency: Span::ZERO,
            min_granularity: Span::ZERO,
            wakeup_granularity: Span::ZERO,
            nr_latency: 0,
            tasks: Table::default(),
            cpus: Vec::new(),
            sequence: 0,
            requests: Requests::default(),
        }
    }

    pub(super) fn boot(&mut self, view: &View) {
        let nr_cpus = view.nr_cpus();
        self.latency = self.params.latency.in_force(nr_cpus);
        self.min_granularity = self.params.min_granularity.in_force(nr_cpus);
        self.wakeup_granularity = self.params.wakeup_granularity.in_force(nr_cpus);
        self.nr_latency = self.latency.as_ns().div_ceil(self.min_granularity.as_ns());
        self.cpus = vec![Rq::default(); nr_cpus as usize];
    }

    /// How many tasks the period has room for.
    pub(super) fn nr_latency(&self) -> u64 {
        self.nr_latency
    }

    /// The period, in virtual time.
    pub(super) fn latency_ns(&self) -> i64 {
        self.latency.as_ns() as i64
    }

    /// Brings the current task's vruntime up to now.
    pub(super) fn update_current(&mut self, view: &View, cpu: CpuId) {
        if let Some(current) = self.cpus[cpu.index()].current {
            let delta = self.cpus[cpu.index()].clock.read(view.ran(cpu));
            self.charge(cpu, current, delta);
        }
    }

    /// The current task has run for `delta` more.
    pub(super) fn charge(&mut self, cpu: CpuId, task: TaskId, delta: Span) {
        let state = &mut self.tasks[task];
        state.vruntime += state.virtual_ns(delta);
        self.update_min(cpu);
    }

    /// The least vruntime of the queue; never goes back.
    fn update_min(&mut self, cpu: CpuId) {
        let rq = &self.cpus[cpu.index()];
        let current = rq.current.map(|task| self.tasks[task].vruntime);
        let first = rq.tree.first().map(|&(vruntime, ..)| vruntime);
        if let Some(least) = current.into_iter().chain(first).min() {
            let min = &mut self.cpus[cpu.index()].min_vruntime;
            *min = least.max(*min);
        }
    }

    /// CPU time that a task of this weight should have in a period, if `nr` tasks with `load` in all are runnable.
    fn slice(&self, weight: u64, nr: u32, load: u64) -> Span {
        let period = match u64::from(nr) > self.nr_latency {
            true => times(self.min_granularity, u64::from(nr)),
            false => self.latency,
        };
        let slice = Span::from_ns(Rate::part(weight, load.max(1)).times(period));
        // 6.1 does not let it fall below the granularity
        if self.params.version == CfsVersion::V6_1 { slice.max(self.min_granularity) } else { slice }
    }

    /// The task comes from the queue of another CPU, or left this one: the same distance from that one's minimum here.
    pub(super) fn take_over(&mut self, task: TaskId, cpu: CpuId) {
        let from = std::mem::replace(&mut self.tasks[task].cpu, cpu);
        let min = |cpu: CpuId| self.cpus[cpu.index()].min_vruntime;
        if std::mem::take(&mut self.tasks[task].relative) {
            self.tasks[task].vruntime += min(cpu);
        } else if from != cpu {
            self.tasks[task].vruntime += min(cpu) - min(from);
        }
    }

    /// A new task waits for a slice first: it is placed where the current task is, or a slice after the
    /// minimum if that is later. In 6.1 that is the queue of the CPU that creates it; it has the weight that
    /// it inherits, and a weight of its own is set at once, which is a leaving and joining.
    pub(super) fn begin(&mut self, view: &View, cpu: CpuId, task: TaskId, parent: Option<TaskId>) {
        let own = self.tasks[task].weight;
        let (here, inherited) = match self.params.version {
            CfsVersion::V2_6_32 => (cpu, own),
            CfsVersion::V6_1 => parent.map_or((CpuId(0), NICE_0_WEIGHT.0), |parent| {
                (view.task_cpu(parent), weight_of(view.params(parent)))
            }),
        };
        self.update_current(view, here);
        let rq = &self.cpus[here.index()];
        let slice = self.slice(inherited, rq.nr_running + 1, rq.load + inherited);
        let min = rq.min_vruntime;
        let current = rq.current.map_or(i64::MIN, |current| self.tasks[current].vruntime);
        let state = &mut self.tasks[task];
        state.set_weight(inherited);
        state.vruntime = current.max(min + state.virtual_ns(slice)) - min;
        state.relative = true;
        self.update_current(view, cpu);
        self.join(cpu, task);
        if own != inherited {
            let min = self.cpus[cpu.index()].min_vruntime;
            self.leave(cpu, task);
            let nice = |params: &SchedParams| params.nice;
            if nice(view.params(task)) == parent.map_or(Nice::default(), |parent| nice(view.params(parent))) {
                // (SCHED_IDLE: without DEQUEUE_MOVE, which only a change of priority has, the minimum stays)
                self.cpus[cpu.index()].min_vruntime = min;
            }
            self.tasks[task].set_weight(own);
            self.join(cpu, task);
        }
    }

    fn join(&mut self, cpu: CpuId, task: TaskId) {
        self.take_over(task, cpu);
        self.note_runnable(cpu, task);
        self.queue(task);
    }

    /// A queued task leaves. What it is ahead of the minimum counts where it joins; the minimum may move for
    /// its leaving.
    pub(super) fn leave(&mut self, cpu: CpuId, task: TaskId) {
        self.unqueue(task);
        let min = self.cpus[cpu.index()].min_vruntime;
        let state = &mut self.tasks[task];
        state.vruntime -= min;
        state.relative = true;
        self.note_gone(cpu, task);
    }

    /// A sleeper gets half a period of credit at most.
    pub(super) fn place_woken(&mut self, cpu: CpuId, task: TaskId, is_idle: bool) {
        let credit = if is_idle && self.params.version == CfsVersion::V6_1 {
            self.min_granularity
        } else {
            self.latency
        };
        let at_least = self.cpus[cpu.index()].min_vruntime - (credit.as_ns() / 2) as i64;
        let vruntime = &mut self.tasks[task].vruntime;
        *vruntime = at_least.max(*vruntime);
    }

    pub(super) fn note_runnable(&mut self, cpu: CpuId, task: TaskId) {
        let weight = self.tasks[task].weight;
        let rq = &mut self.cpus[cpu.index()];
        rq.nr_running += 1;
        rq.load += weight;
    }

    /// The task, which is in no tree, is not runnable any more, or not here.
    pub(super) fn note_gone(&mut self, cpu: CpuId, task: TaskId) {
        let weight = self.tasks[task].weight;
        let rq = &mut self.cpus[cpu.index()];
        rq.nr_running -= 1;
        rq.load -= weight;
        rq.clear_buddies(task);
        self.update_min(cpu);
    }

    pub(super) fn queue(&mut self, task: TaskId) {
        self.sequence += 1;
        let state = &mut self.tasks[task];
        (state.sequence, state.queued) = (self.sequence, true);
        self.cpus[state.cpu.index()].tree.insert((state.vruntime, state.sequence, task));
    }

    pub(super) fn unqueue(&mut self, task: TaskId) {
        let state = &mut self.tasks[task];
        state.queued = false;
        self.cpus[state.cpu.index()].tree.remove(&(state.vruntime, state.sequence, task));
    }

    /// The weight may be another now. The task is not in the tree, but may run.
    pub(super) fn params_changed(&mut self, view: &View, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        let runs = self.cpus[cpu.index()].current == Some(task);
        if runs {
            self.update_current(view, cpu);
        }
        let weight = weight_of(view.params(task));
        let before = self.tasks[task].weight;
        self.tasks[task].set_weight(weight);
        if runs {
            let rq = &mut self.cpus[cpu.index()];
            rq.load = rq.load + weight - before;
            if weight < before {
                self.requests.kick(cpu);
            }
        }
    }

    /// A wakeup asks for another task than the current one. (2.6.32 reads the clock each time.)
    pub(super) fn asked(&mut self, view: &View, cpu: CpuId) {
        if self.params.version == CfsVersion::V6_1 {
            self.cpus[cpu.index()].clock.asked(view.ran(cpu));
        }
    }

    /// Whether `current` is so far ahead that `woken` should preempt it.
    pub(super) fn ahead(&self, current: TaskId, woken: TaskId) -> bool {
        let (current, woken) = (&self.tasks[current], &self.tasks[woken]);
        current.vruntime - woken.vruntime > woken.virtual_ns(self.wakeup_granularity)
    }

    /// The leftmost; not the one that yielded, if another may go first; or the next or the last buddy, if
    /// that is not unfair.
    pub(super) fn pick(&mut self, now: Time, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.cpus[cpu.index()];
        let mut tasks = rq.tree.iter().map(|&(_, _, task)| task);
        let left = tasks.next()?;
        let mut picked = left;
        if rq.skip == Some(left)
            && let Some(second) = tasks.next()
            && !self.ahead(second, left)
        {
            picked = second;
        }
        let waits_here = |&buddy: &TaskId| self.tasks[buddy].queued && self.tasks[buddy].cpu == cpu;
        let buddies = [rq.next_buddy, rq.last_buddy];
        if let Some(buddy) = buddies.into_iter().flatten().filter(waits_here).find(|&b| !self.ahead(b, left))
        {
            picked = buddy;
        }
        self.unqueue(picked);
        let rq = &mut self.cpus[cpu.index()];
        let goes_on = rq.stopped.take().filter(|&(task, _, at)| task == picked && at == now);
        if goes_on.is_none() {
            rq.clear_buddies(picked);
        }
        let from_before = rq.clock.start(now);
        rq.before = goes_on.map_or(from_before, |(_, ran, _)| ran);
        (rq.current, rq.resched) = (Some(picked), false);
        Some(picked)
    }

    /// At the tick: has the current task run for its slice, or is it a slice ahead of the leftmost?
    pub(super) fn slice_over(&mut self, cpu: CpuId, current: TaskId, ran: Span) -> bool {
        let rq = &self.cpus[cpu.index()];
        let (weight, ran) = (self.tasks[current].weight, rq.before + ran);
        let slice = self.slice(weight, rq.nr_running, rq.load);
        if ran > slice {
            self.cpus[cpu.index()].clear_buddies(current);
            return true;
        }
        match rq.tree.first() {
            Some(&(left, ..)) if ran >= self.min_granularity => {
                self.tasks[current].vruntime - left > slice.as_ns() as i64
            }
            _ => false,
        }
    }

    pub(super) fn move_task(&mut self, task: TaskId, to: CpuId) {
        self.leave(self.tasks[task].cpu, task);
        self.join(to, task);
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

    /// In order of vruntime, at most so many looked at; a task that is heavier than twice what is left stays.
    fn pull(&mut self, view: &View, from: CpuId, to: CpuId, want: Pull) -> Pulled {
        let mut pulled = Pulled { nr: 0, all_pinned: true };
        let mut left = want.load;
        let look_at = want.nr_max.max(32) as usize;
        let candidates: Vec<TaskId> =
            self.cpus[from.index()].tree.iter().take(look_at).map(|&(_, _, task)| task).collect();
        for task in candidates {
            if left == 0 || pulled.nr >= want.nr_max {
                break;
            }
            if !view.allowed(task, to) {
                continue;
            }
            pulled.all_pinned = false;
            let state = self.tasks[task];
            let rq = &self.cpus[from.index()];
            let hot = view.now().saturating_since(state.last_ran) < self.params.migration_cost
                || [rq.last_buddy, rq.next_buddy].contains(&Some(task));
            if (hot && want.hot == Hot::Stays) || state.weight / 2 > left {
                continue;
            }
            self.move_task(task, to);
            pulled.nr += 1;
            left = left.saturating_sub(state.weight);
            if let Some(current) = self.cpus[to.index()].current {
                self.update_current(view, to);
                if self.ahead(current, task) {
                    self.asked(view, to);
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
