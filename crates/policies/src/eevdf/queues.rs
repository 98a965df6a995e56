//! The run queues: per CPU a tree by deadline, the sums from which V follows, and what placing and leaving mean.

use super::*;
use crate::kit::balance::{Hot, Pull, Pulled, RunQueues};
use crate::kit::requests::Requests;
use crate::kit::run_clock::RunClock;

#[derive(Clone, Debug, Default)]
pub(super) struct Rq {
    current: Option<TaskId>,
    /// How much of the current task's run is in its vruntime already.
    pub(super) clock: RunClock,
    /// The current task is to be replaced: its slice is over, or it has had too much and lost its protection.
    pub(super) resched: bool,
    /// The deadline that the current task had when picked: while it is the same, its slice is not over.
    parity: Option<i64>,
    /// Sum of weight and of weight * vruntime, the current task's and the delayed ones' included.
    load: u64,
    moment: i128,
    /// Queued, delayed and current tasks.
    nr: u32,
    /// The task that stopped last, still runnable, with its protection, and when. If it is picked at that
    /// instant it has not stopped.
    stopped: Option<(TaskId, Option<i64>, Time)>,
    /// V of the last task that left an empty queue.
    last_v: i64,
    pub(super) push_to: Option<CpuId>,
}

#[derive(Debug)]
pub(super) struct Queues {
    params: EevdfParams,
    /// In force here, known from [`Self::boot`] on.
    base_slice: Span,
    tick: Span,
    pub(super) tasks: Table<Task>,
    trees: DeadlineTrees,
    pub(super) cpus: Vec<Rq>,
    sequence: u64,
    pub(super) requests: Requests,
}

impl Queues {
    pub(super) fn new(params: EevdfParams) -> Queues {
        Queues {
            params,
            base_slice: Span::ZERO,
            tick: Span::from_ns(1_000_000_000 / params.hz),
            tasks: Table::default(),
            trees: DeadlineTrees::default(),
            cpus: Vec::new(),
            sequence: 0,
            requests: Requests::default(),
        }
    }

    pub(super) fn boot(&mut self, view: &View) {
        self.base_slice = self.params.base_slice.in_force(view.nr_cpus());
        self.cpus = vec![Rq::default(); view.nr_cpus() as usize];
        self.trees = DeadlineTrees::new(view.nr_cpus() as usize);
    }

    pub(super) fn slice_of(&self, view: &View, task: TaskId) -> Span {
        let asked = view.params(task).deadline.map(|deadline| deadline.runtime);
        asked.map_or(self.base_slice, |slice| slice.clamp(SLICES.0, SLICES.1))
    }

    /// The weighted mean of the vruntimes, rounded down.
    fn v(&self, cpu: CpuId) -> i64 {
        let rq = &self.cpus[cpu.index()];
        match rq.load {
            0 => rq.last_v,
            load => rq.moment.div_euclid(i128::from(load)) as i64,
        }
    }

    /// Whether a task of this vruntime is eligible: v <= V, exactly.
    fn eligible(&self, cpu: CpuId, vruntime: i64) -> bool {
        let rq = &self.cpus[cpu.index()];
        rq.moment >= i128::from(vruntime) * i128::from(rq.load)
    }

    fn count_in(&mut self, cpu: CpuId, task: TaskId) {
        let Task { weight, vruntime, .. } = self.tasks[task];
        let rq = &mut self.cpus[cpu.index()];
        rq.load += weight;
        rq.moment += i128::from(weight) * i128::from(vruntime);
        rq.nr += 1;
    }

    fn count_out(&mut self, cpu: CpuId, task: TaskId) {
        let v = self.v(cpu);
        let Task { weight, vruntime, .. } = self.tasks[task];
        let rq = &mut self.cpus[cpu.index()];
        rq.load -= weight;
        rq.moment -= i128::from(weight) * i128::from(vruntime);
        rq.nr -= 1;
        if rq.nr == 0 {
            rq.last_v = v;
        }
    }

    /// Brings the current task up to now; true if it is to be replaced for what that shows. (The CPU is then
    /// kicked too, since this may happen at any accounting: a wakeup in the middle of a tick can end a
    /// slice.)
    pub(super) fn update_current(&mut self, view: &View, cpu: CpuId) -> bool {
        let Some(current) = self.cpus[cpu.index()].current else { return false };
        let delta = self.cpus[cpu.index()].clock.read(view.ran(cpu));
        let over = self.charge(cpu, current, delta);
        if over {
            self.cpus[cpu.index()].resched = true;
            self.requests.kick(cpu);
        }
        over
    }

    /// The current task has run for `delta` more. Says whether others are to have their turn: its slice is
    /// over, or it is not eligible and no longer protected by its slice.
    pub(super) fn charge(&mut self, cpu: CpuId, task: TaskId, delta: Span) -> bool {
        if delta == Span::ZERO {
            return false;
        }
        let rq = &mut self.cpus[cpu.index()];
        let state = &mut self.tasks[task];
        let grown = state.virtual_ns(delta);
        state.vruntime += grown;
        rq.moment += i128::from(grown) * i128::from(state.weight);
        let over = state.vruntime >= state.deadline;
        if over {
            state.deadline = state.vruntime + state.virtual_ns(state.slice);
        }
        let Task { vruntime, deadline, .. } = *state;
        let short = || {
            self.params.preempt_short
                && self.cpus[cpu.index()].parity != Some(deadline)
                && !self.eligible(cpu, vruntime)
        };
        self.cpus[cpu.index()].nr > 1 && (over || short())
    }

    /// A yield: an eligible task forfeits what is left of its request.
    pub(super) fn forfeit(&mut self, cpu: CpuId, task: TaskId) {
        let state = self.tasks[task];
        if self.cpus[cpu.index()].nr > 1 && self.eligible(cpu, state.vruntime) {
            let skipped = state.deadline - state.vruntime;
            self.cpus[cpu.index()].moment += i128::from(skipped) * i128::from(state.weight);
            let state = &mut self.tasks[task];
            state.vruntime = state.deadline;
            state.deadline += state.virtual_ns(state.slice);
        }
    }

    pub(super) fn queue(&mut self, task: TaskId) {
        self.sequence += 1;
        let state = &mut self.tasks[task];
        state.queued = true;
        self.trees.insert(state.cpu.index(), task, state.deadline, self.sequence, state.vruntime);
    }

    fn unqueue(&mut self, task: TaskId) {
        self.tasks[task].queued = false;
        self.trees.remove(self.tasks[task].cpu.index(), task);
    }

    /// Lag when leaving: at most two slices or a tick's worth either way.
    fn lag_of(&self, cpu: CpuId, task: TaskId) -> i64 {
        let state = &self.tasks[task];
        let limit = state.virtual_ns(Span::from_ns(2 * state.slice.as_ns()).max(self.tick));
        (self.v(cpu) - state.vruntime).clamp(-limit, limit)
    }

    /// Puts a task, which belongs to no queue, among those of `cpu` such that its lag is what it was.
    pub(super) fn place(&mut self, cpu: CpuId, task: TaskId, is_new: bool) {
        let v = self.v(cpu);
        let load = i128::from(self.cpus[cpu.index()].load);
        let state = &mut self.tasks[task];
        state.cpu = cpu;
        let mut lag = if is_new { 0 } else { state.lag };
        if load > 0 {
            lag = (i128::from(lag) * (load + i128::from(state.weight)) / load) as i64;
        } else {
            lag = 0;
        }
        state.vruntime = v - lag;
        let mut request = state.virtual_ns(state.slice);
        if state.relative {
            state.deadline += state.vruntime;
            state.relative = false;
        } else {
            if is_new {
                request /= 2;
            }
            state.deadline = state.vruntime + request;
        }
        self.count_in(cpu, task);
    }

    /// A task comes (back) to the queue of `cpu`.
    pub(super) fn join(&mut self, cpu: CpuId, task: TaskId) {
        self.place(cpu, task, false);
        self.queue(task);
    }

    /// A new task: it starts with the weight that it inherits; a weight of its own is set at once, which is a
    /// leaving and joining.
    pub(super) fn begin(&mut self, cpu: CpuId, task: TaskId, inherited: u64) {
        let own = self.tasks[task].weight;
        self.tasks[task].set_weight(inherited);
        self.place(cpu, task, true);
        self.queue(task);
        if own != inherited {
            self.leave_keeping_deadline(task);
            self.reweigh(task, own);
            self.join(cpu, task);
        }
    }

    /// The task, which is in no queue, has another weight: what it is owed stays the same in CPU time. (What
    /// it has asked for does not: 6.12 leaves the distance to the deadline as it was in virtual time.)
    fn reweigh(&mut self, task: TaskId, weight: u64) {
        let state = &mut self.tasks[task];
        state.lag = (i128::from(state.lag) * i128::from(state.weight) / i128::from(weight)) as i64;
        state.set_weight(weight);
    }

    /// A queued task leaves without having slept: lag and distance to the deadline go with it.
    pub(super) fn leave_keeping_deadline(&mut self, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        let lag = self.lag_of(cpu, task);
        self.unqueue(task);
        self.count_out(cpu, task);
        let state = &mut self.tasks[task];
        state.lag = lag;
        state.deadline -= state.vruntime;
        state.relative = true;
    }

    /// The current task stops for good or for long.
    pub(super) fn stop_running(&mut self, cpu: CpuId, task: TaskId) {
        self.tasks[task].lag = self.lag_of(cpu, task);
        self.count_out(cpu, task);
        self.forget_current(cpu);
    }

    fn forget_current(&mut self, cpu: CpuId) {
        let rq = &mut self.cpus[cpu.index()];
        (rq.current, rq.parity) = (None, None);
    }

    /// The current task blocks: it leaves, or stays queued if it has had too much.
    pub(super) fn sleep(&mut self, cpu: CpuId, task: TaskId) {
        let owes = !self.eligible(cpu, self.tasks[task].vruntime);
        if self.params.delay_dequeue && owes {
            self.tasks[task].delayed = true;
            self.forget_current(cpu);
            self.queue(task);
        } else {
            self.stop_running(cpu, task);
        }
    }

    /// The task leaves this class for good: a delayed one is still queued.
    pub(super) fn forget(&mut self, task: TaskId) {
        if self.tasks[task].queued {
            let cpu = self.tasks[task].cpu;
            self.unqueue(task);
            self.count_out(cpu, task);
            self.tasks[task].delayed = false;
        }
    }

    /// A delayed task is woken. It goes on as if it had not slept; if it has come to be owed something, that
    /// is clipped to nothing. On another CPU (its affinity has changed) it leaves first.
    pub(super) fn wake_delayed(&mut self, cpu: CpuId, task: TaskId) {
        let here = self.tasks[task].cpu;
        let lag = self.lag_of(here, task);
        self.tasks[task].delayed = false;
        if here == cpu && lag <= 0 {
            return;
        }
        self.unqueue(task);
        self.count_out(here, task);
        self.tasks[task].lag = lag.min(0);
        if here == cpu {
            self.join(cpu, task);
        }
    }

    /// The current task goes back to the tree.
    pub(super) fn put_back(&mut self, now: Time, cpu: CpuId, task: TaskId) {
        self.cpus[cpu.index()].stopped = Some((task, self.cpus[cpu.index()].parity, now));
        self.forget_current(cpu);
        self.queue(task);
    }

    /// The eligible task with the earliest deadline, if there is any.
    fn best(&self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.cpus[cpu.index()];
        let eligible = |v: i64| rq.moment >= i128::from(v) * i128::from(rq.load);
        // V is a mean: someone is not above it. (Only the current task may be that one.)
        self.trees.first_eligible(cpu.index(), eligible)
    }

    /// Chooses the next task; delayed ones that come up leave.
    pub(super) fn pick(&mut self, now: Time, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu.index()].resched = false;
        let stopped = self.cpus[cpu.index()].stopped.take();
        let stopped = stopped
            .filter(|&(task, _, at)| at == now && self.tasks[task].queued && self.tasks[task].cpu == cpu);
        let protected = stopped.filter(|&(task, parity, _)| {
            let Task { vruntime, deadline, .. } = self.tasks[task];
            self.params.run_to_parity && parity == Some(deadline) && self.eligible(cpu, vruntime)
        });
        loop {
            let kept = protected.map(|(task, ..)| task);
            let task = kept.or_else(|| self.best(cpu)).or_else(|| self.trees.first(cpu.index()))?;
            if !self.tasks[task].delayed {
                self.unqueue(task);
                // a task that goes on is protected only as far as it was
                let goes_on = stopped.filter(|&(before, ..)| before == task);
                let parity = goes_on.map_or(Some(self.tasks[task].deadline), |(_, parity, _)| parity);
                let rq = &mut self.cpus[cpu.index()];
                (rq.current, rq.parity) = (Some(task), parity);
                rq.clock.start(now);
                return Some(task);
            }
            let lag = self.lag_of(cpu, task).min(0);
            self.unqueue(task);
            self.count_out(cpu, task);
            let state = &mut self.tasks[task];
            (state.delayed, state.lag) = (false, lag);
        }
    }

    /// The current task no longer keeps the CPU until its slice is over.
    pub(super) fn unprotect(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].parity = None;
    }

    /// Would the woken task be picked now?
    pub(super) fn woken_first(&mut self, cpu: CpuId, current: TaskId, woken: TaskId) -> bool {
        let (running, new) = (self.tasks[current], self.tasks[woken]);
        let running_eligible = self.eligible(cpu, running.vruntime);
        let new_eligible = self.eligible(cpu, new.vruntime);
        let shorter = self.params.preempt_short
            && new.slice < running.slice
            && new_eligible
            && (new.deadline < running.deadline || !running_eligible);
        if shorter {
            self.unprotect(cpu);
        }
        let keeps = self.params.run_to_parity
            && running_eligible
            && self.cpus[cpu.index()].parity == Some(running.deadline);
        if keeps {
            return false;
        }
        let Some(best) = self.best(cpu) else { return false };
        let current_first = running_eligible && running.deadline < self.tasks[best].deadline;
        best == woken && !current_first
    }

    /// Weight or slice may be others now. The task is not queued, but may run or be asleep and delayed.
    pub(super) fn params_changed(&mut self, view: &View, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        let runs = self.cpus[cpu.index()].current == Some(task);
        if runs {
            self.update_current(view, cpu);
        }
        let delayed = self.tasks[task].delayed;
        if delayed {
            self.leave_keeping_deadline(task);
        } else if runs {
            self.tasks[task].lag = self.lag_of(cpu, task);
            self.count_out(cpu, task);
            let state = &mut self.tasks[task];
            state.deadline -= state.vruntime;
            state.relative = true;
        }
        let (weight, slice) = (weight_of(view.params(task)), self.slice_of(view, task));
        let lighter = weight < self.tasks[task].weight;
        self.reweigh(task, weight);
        self.tasks[task].slice = slice;
        if delayed {
            self.join(cpu, task);
        }
        if runs {
            self.place(cpu, task, false);
            // it is picked anew, and so protected anew
            self.cpus[cpu.index()].parity = Some(self.tasks[task].deadline);
            if lighter {
                self.requests.kick(cpu);
            }
        }
    }

    pub(super) fn move_task(&mut self, view: &View, task: TaskId, to: CpuId) {
        self.leave_keeping_deadline(task);
        self.update_current(view, to);
        self.place(to, task, false);
        self.queue(task);
        self.requests.moved(task, to);
    }
}

impl RunQueues for Queues {
    fn nr_running(&self, cpu: CpuId) -> u32 {
        self.cpus[cpu.index()].nr
    }
    fn load(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu.index()].load
    }

    /// In order of deadline, at most 32 looked at.
    fn pull(&mut self, view: &View, from: CpuId, to: CpuId, want: Pull) -> Pulled {
        let mut pulled = Pulled { nr: 0, all_pinned: true };
        let mut left = want.load;
        self.update_current(view, from);
        let candidates = self.trees.tasks(from.index());
        for task in candidates.into_iter().take(32) {
            if left == 0 || pulled.nr >= want.nr_max {
                break;
            }
            let state = self.tasks[task];
            if state.delayed || !view.allowed(task, to) {
                continue;
            }
            pulled.all_pinned = false;
            let hot = view.now().saturating_since(state.last_ran) < self.params.migration_cost;
            if (hot && want.hot == Hot::Stays) || state.weight / 2 > left {
                continue;
            }
            self.move_task(view, task, to);
            pulled.nr += 1;
            left = left.saturating_sub(state.weight);
            if let Some(current) = self.cpus[to.index()].current
                && self.woken_first(to, current, task)
            {
                self.cpus[to.index()].clock.asked(view.ran(to));
                self.requests.kick(to);
            }
        }
        pulled
    }

    fn push_running(&mut self, _view: &View, from: CpuId, to: CpuId) {
        self.cpus[from.index()].push_to = Some(to);
        self.requests.kick(from);
    }
}
