//! What nice value and policy has a task, and who changed them? Events show the kernel's priority, which a
//! mutex may have lent.
//!
//! ```text
//! kernel's prio   -1         deadline
//!                 0..=98     real-time, rt_priority = 99 - prio  (FIFO or RR: the snapshot or the call tells)
//!                 100..=139  nice = prio - 120                   (normal, batch, idle: the snapshot or the call tells)
//! ```
//!
//! `setpriority(2)` and `nice(2)` say what they set. `sched_setscheduler(2)` says the policy, `sched_setattr(2)` and
//! `sched_setparam(2)` nothing: the next priority seen of the target completes their PRIO. Between `sched_pi_setprio`
//! to a lent priority and the one back, priorities seen say nothing.

use super::engine::Deriver;
use super::tasks::Where;
use crate::changed::{UNKNOWN_AFFINITY, UNKNOWN_CHANGE, UNKNOWN_DEADLINE};
use crate::{CgroupId, EventKind, ParamChange};
use schedlab_trace::{PRIO_UNKNOWN, Pid, Syscall};
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, SchedPolicy, TaskId};

/// A task's parameters as far as they are known.
#[derive(Clone, Debug, Default)]
pub(super) struct PrioState {
    /// At its start; `None`: its parent's, or unknown.
    pub initial: Option<SchedParams>,
    /// Now.
    pub current: Option<SchedParams>,
    /// A mutex has lent it a priority.
    lent: bool,
    /// The call it is in, until that returns.
    pub call: Option<Syscall>,
    /// Affinity and control group that it was forked with, where the trace tells.
    pub born: Option<Box<ParamChange>>,
    /// PRIO events, at (task, index), that wait for this task's next priority, with the policy asked for.
    awaiting: Vec<(u32, u32, Option<SchedPolicy>)>,
    /// A change seen while it was blocked: its PRIO follows its WAKEUP.
    late: Option<SchedParams>,
    /// A move to another control group while it was blocked: its PRIO follows its WAKEUP too.
    pub late_group: Option<CgroupId>,
}

/// SCHED_RESET_ON_FORK, a flag in the policy argument (include/uapi/linux/sched.h).
const RESET_ON_FORK: i32 = 0x4000_0000;

/// The kernel's priority for these parameters.
pub fn prio_of(params: &SchedParams) -> i32 {
    match params.policy {
        SchedPolicy::Deadline => -1,
        SchedPolicy::Fifo | SchedPolicy::RoundRobin => 99 - i32::from(params.rt_priority),
        SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Ext => {
            120 + params.nice.get()
        }
    }
}

/// Parameters that show as `prio`, like `old` (and of policy `asked`) in what a priority does not tell.
/// `None`: deadline without parameters, or no priority a kernel has.
pub fn params_for(prio: i32, old: Option<SchedParams>, asked: Option<SchedPolicy>) -> Option<SchedParams> {
    let old = old.unwrap_or_default();
    let policy = asked.unwrap_or(old.policy);
    match prio {
        100..=139 => {
            let policy = match policy {
                SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Ext => policy,
                _ => SchedPolicy::Normal,
            };
            Some(SchedParams { policy, ..SchedParams::normal(Nice::new(prio - 120).ok()?) })
        }
        0..=98 => {
            let policy = if policy == SchedPolicy::RoundRobin { policy } else { SchedPolicy::Fifo };
            Some(SchedParams { policy, nice: old.nice, rt_priority: (99 - prio) as u8, deadline: None })
        }
        -1 => old.deadline.map(|deadline| SchedParams {
            policy: SchedPolicy::Deadline,
            nice: old.nice,
            rt_priority: 0,
            deadline: Some(deadline),
        }),
        _ => None,
    }
}

impl Deriver<'_> {
    /// Gives a task its parameters at the start: the snapshot's, if they show as `prio`, else what `prio` tells.
    pub(super) fn first_prio(&mut self, task: usize, prio: i32) {
        let row = self.row_of(task).and_then(|row| row.params);
        let params = match row {
            Some(params) if prio_of(&params) == prio => Some(params),
            Some(params) => {
                self.count(
                    "task whose first priority in the trace is not the snapshot's; the trace's taken",
                    1,
                );
                params_for(prio, Some(params), None)
            }
            None => params_for(prio, None, None),
        };
        if params.is_none() {
            self.count(UNKNOWN_DEADLINE, 1);
        }
        if row.is_none() && (0..=98).contains(&prio) {
            self.count("real-time task of which the trace does not tell FIFO from RR, taken as FIFO", 1);
        }
        let params = params.unwrap_or_default();
        let state = &mut self.tasks.list[task].prio;
        (state.initial, state.current) = (Some(params), Some(params));
    }

    /// A forked task is seen for the first time, with this priority: its parent's parameters, unless it shows
    /// otherwise.
    pub(super) fn inherit(&mut self, child: usize, parent: usize, prio: i32) {
        if self.tasks.list[child].prio.born.as_ref().is_some_and(|born| born.params.is_some()) {
            return; // told in full
        }
        match self.tasks.list[parent].prio.current {
            Some(params) if prio_of(&params) == prio => self.tasks.list[child].prio.current = Some(params),
            // The parent had reset-on-fork set, or its own parameters have not been seen yet.
            Some(params) => {
                let own = params_for(prio, Some(params), None);
                let state = &mut self.tasks.list[child].prio;
                (state.initial, state.current) = (own, own);
            }
            None => {
                let own = params_for(prio, None, None);
                self.tasks.list[child].prio.current = own;
                self.tasks.list[child].prio.initial = own;
            }
        }
    }

    /// A task is seen with this priority.
    #[inline]
    pub(super) fn see_prio(&mut self, task: usize, prio: i32) {
        let state = &self.tasks.list[task].prio;
        if state.lent || prio == PRIO_UNKNOWN {
            return;
        }
        match state.current {
            Some(params) if prio_of(&params) == prio && state.awaiting.is_empty() => {}
            Some(_) => self.changed_prio(task, prio),
            None => self.first_prio(task, prio),
        }
    }

    #[cold]
    fn changed_prio(&mut self, task: usize, prio: i32) {
        let old = self.tasks.list[task].prio.current;
        let awaiting = std::mem::take(&mut self.tasks.list[task].prio.awaiting);
        if let Some((_, _, policy)) = awaiting.last().copied() {
            let Some(new) = params_for(prio, old, policy) else {
                self.count(UNKNOWN_CHANGE, awaiting.len() as u64);
                self.remove_prio_events(&awaiting);
                return;
            };
            // Two calls before the task was seen again: only the last one's effect is known.
            for (caller, event, _) in &awaiting {
                if let EventKind::Prio { change, .. } =
                    &mut self.tasks.list[*caller as usize].events[*event as usize].kind
                {
                    change.params = Some(new);
                }
            }
            self.tasks.list[task].prio.current = Some(new);
            return;
        }
        let Some(new) = params_for(prio, old, None) else {
            self.count(UNKNOWN_CHANGE, 1);
            return;
        };
        self.count("change of priority without a call in the trace, placed where it was first seen", 1);
        self.tasks.list[task].prio.current = Some(new);
        if matches!(self.tasks.list[task].at, Where::Blocked { .. }) {
            self.tasks.list[task].prio.late = Some(new);
        } else if !matches!(self.tasks.list[task].at, Where::Dead | Where::New) {
            self.emit_prio(task, None, Some(new));
        }
    }

    /// After a WAKEUP: the PRIO that waited for it.
    #[inline]
    pub(super) fn late_prio(&mut self, task: usize) {
        if let Some(params) = self.tasks.list[task].prio.late.take() {
            self.emit_prio(task, None, Some(params));
        }
        self.late_move(task);
    }

    fn emit_prio(&mut self, caller: usize, target: Option<usize>, params: Option<SchedParams>) -> usize {
        let target = target.filter(|target| *target != caller).map(|target| TaskId(target as u32));
        let change = Box::new(ParamChange { target, params, ..ParamChange::default() });
        self.tasks.emit(caller, self.now_ns, |length| EventKind::Prio { length, change })
    }

    /// `sched_pi_setprio`.
    pub(super) fn pi_prio(&mut self, task: usize, old_prio: i32, new_prio: i32) {
        if self.tasks.list[task].prio.current.is_none() {
            // The first sight of it; a priority that is given back is not its own either.
            self.first_prio(task, old_prio.max(new_prio));
        }
        let state = &mut self.tasks.list[task].prio;
        state.lent = state.current.is_none_or(|params| prio_of(&params) != new_prio);
    }

    /// A call that may change parameters has returned without an error.
    pub(super) fn call_done(&mut self, caller: usize, call: Syscall) {
        if self.facts.told_settings {
            return; // a line of text has told it
        }
        let who = match call {
            Syscall::SchedYield | Syscall::Execve | Syscall::Setsid => return,
            Syscall::Nice { .. } => Pid(0),
            Syscall::SetPriority { which: 0, who, .. } => Pid(who),
            Syscall::SetPriority { .. } => {
                // Of a process group or a user: each task's change is placed where it is first seen.
                return;
            }
            Syscall::SchedSetAffinity { .. } => {
                self.facts.affinity_calls += 1;
                return;
            }
            Syscall::SchedSetScheduler { pid, .. }
            | Syscall::SchedSetParam { pid }
            | Syscall::SchedSetAttr { pid } => pid,
        };
        let target = if who.0 == 0 { Some(caller) } else { self.tasks.find(who) };
        let Some(target) = target else {
            self.count("change of the priority of a task that is not in the trace, left out", 1);
            return;
        };
        let current = self.tasks.list[target].prio.current;
        let nice = |nice: i32| Nice::new(nice.clamp(-20, 19)).expect("clamped to the range");
        let set_nice = match call {
            Syscall::Nice { increment } => {
                Some(nice(current.unwrap_or_default().nice.get().saturating_add(increment)))
            }
            Syscall::SetPriority { nice: value, .. } => Some(nice(value)),
            _ => None,
        };
        if let Some(nice) = set_nice {
            let new = SchedParams { nice, ..current.unwrap_or_default() };
            self.tasks.list[target].prio.current = Some(new);
            self.emit_prio(caller, Some(target), Some(new));
            return;
        }
        let policy = match call {
            Syscall::SchedSetScheduler { policy, .. } => {
                SchedPolicy::from_number((policy & !RESET_ON_FORK) as u32)
            }
            _ => None,
        };
        let event = self.emit_prio(caller, Some(target), None);
        self.tasks.list[target].prio.awaiting.push((caller as u32, event as u32, policy));
    }

    /// `sched_setaffinity` has returned: the mask that it was given (bit n: CPU n; 0: not known), for the caller itself
    /// or another.
    pub(super) fn affinity(&mut self, caller: Pid, target: Pid, mask: u64) {
        let target = if target.0 == 0 { caller } else { target };
        let (Some(caller), Some(target)) = (self.tasks.find(caller), self.tasks.find(target)) else { return };
        if mask == 0
            || self.facts.told_settings
            || !matches!(self.tasks.list[caller].at, Where::Running { .. })
        {
            return;
        }
        self.facts.affinity_masks += 1;
        let affinity: CpuSet = (0..u64::BITS).filter(|cpu| mask & (1 << cpu) != 0).map(CpuId).collect();
        let other = Some(TaskId(target as u32)).filter(|_| target != caller);
        let change =
            Box::new(ParamChange { target: other, affinity: Some(affinity), ..ParamChange::default() });
        self.tasks.emit(caller, self.now_ns, |length| EventKind::Prio { length, change });
    }

    /// At the end: calls whose effect was never seen set nothing.
    pub(super) fn drop_unseen_prio(&mut self) {
        let unknown = self.facts.affinity_calls.saturating_sub(self.facts.affinity_masks);
        self.count(UNKNOWN_AFFINITY, unknown);
        for task in 0..self.tasks.list.len() {
            let awaiting = std::mem::take(&mut self.tasks.list[task].prio.awaiting);
            self.count(
                "change of parameters whose effect is not in the trace, left out",
                awaiting.len() as u64,
            );
            self.remove_prio_events(&awaiting);
        }
    }

    /// Marks PRIO events as setting nothing; [`Deriver::finish`] takes them out (indices are in use until then).
    fn remove_prio_events(&mut self, events: &[(u32, u32, Option<SchedPolicy>)]) {
        for (caller, event, _) in events {
            if let EventKind::Prio { change, .. } =
                &mut self.tasks.list[*caller as usize].events[*event as usize].kind
            {
                **change = ParamChange::default();
            }
        }
    }
}
