//! When has a run gone wrong? Nothing happens any more, or too much happens at one instant.
//!
//! ```text
//! every live task waits for another's wakeup        a deadlock: an end like others, with who waits for whom
//! ... and one of them at an object, by a recording  that wait ends, and is counted
//! runnable tasks, idle CPUs, nothing but ticks      tasks lost by the scheduler, after 200 s of it
//! millions of events at one instant                 a livelock
//! a CPU spins 200,000 times, nothing else happens   a livelock
//! ```
//!
//! The first and the last are seen at once; for the others [`Machine::check`] looks at one event in [`SAMPLE_EVERY`].

use super::{AT_OBJECT, EndlessWait, Forced, Machine, NO_TOKEN, Run, SAMPLE_EVERY, WaitsFor};
use crate::kernel::{Fault, FaultKind, Kernel, Stimulus};
use crate::order::Order;
use crate::program::Code;
use schedlab_units::{CpuId, Span, TaskId};
use schedlab_workload::Recorded;

/// More events than this at one instant are a livelock, whatever the workload: far above what 1,024 CPUs and
/// 100,000 tasks starting at once need.
const EVENTS_PER_INSTANT_MAX: u64 = 20_000_000;
/// What any workload may have at one instant; and for each task, which may start or wake there, and each step
/// of a task, which may take no time.
const EVENTS_PER_INSTANT: u64 = 1_000_000;
const EVENTS_PER_TASK: u64 = 64;
const EVENTS_PER_STEP: u64 = 4;
/// More rounds of spinning than this with nothing else happening are a livelock.
pub(super) const SPINS_MAX: u64 = 200_000;
/// Runnable tasks, all CPUs idle and nothing planned but ticks: after twice as long the tasks are lost (a
/// throttled task's period is at most seconds), if none of them has computed in between.
const LOST_AFTER_NS: u64 = 100_000_000_000;

/// A CPU waits for another that does nothing.
#[cold]
pub(super) fn spins_for_ever(cpu: CpuId) -> Fault {
    Fault { kind: FaultKind::Livelock, reason: format!("{cpu} spins in the kernel for ever") }
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// Looks, before a CPU is resumed for this, whether events pile up at this instant or tasks have been lost.
    pub(super) fn check(&mut self, stimulus: Stimulus<'_>) -> Result<(), Box<Fault>> {
        let (instant_ns, events) = self.crowd;
        self.crowd = (self.now_ns, if instant_ns == self.now_ns { events + SAMPLE_EVERY } else { 0 });
        // (the least that the limit can be first: the other is seldom computed)
        if self.crowd.1 > EVENTS_PER_INSTANT && self.crowd.1 > self.events_at_an_instant() {
            return Err(Box::new(Fault {
                kind: FaultKind::Livelock,
                reason: format!("more than {} events at one instant", self.events_at_an_instant()),
            }));
        }
        if !matches!(stimulus, Stimulus::Continue | Stimulus::Timer(&[])) {
            self.last_progress_ns = self.now_ns;
        } else if self.now_ns.saturating_sub(self.last_progress_ns.max(self.asleep_until_ns)) > LOST_AFTER_NS
        {
            self.last_progress_ns = self.now_ns;
            let idle = self.cpus.iter().all(|cpu| cpu.user.is_idle()) && self.wheel_ns() == u64::MAX;
            // (who has a small share of a CPU computes now and then, and does nothing else for long)
            let left_ns = self.runs.iter().fold(0u64, |sum, run| sum.wrapping_add(run.remaining_ns));
            let computes = std::mem::replace(&mut self.left_ns, left_ns) != left_ns;
            if idle && !computes && self.live > self.waiting {
                return Err(Box::new(self.lost()));
            }
        }
        Ok(())
    }

    /// How many events this workload may have at one instant.
    fn events_at_an_instant(&self) -> u64 {
        let tasks = EVENTS_PER_TASK * self.program.tasks.len() as u64;
        let steps = EVENTS_PER_STEP * self.program.steps.len() as u64;
        (EVENTS_PER_INSTANT + tasks + steps).min(EVENTS_PER_INSTANT_MAX)
    }

    /// Nothing will ever happen again, yet tasks are left that wait for nobody: they are runnable and nobody runs them.
    pub(super) fn lost(&self) -> Fault {
        let lost = |run: &&Run| run.live && !run.waits();
        let first = self.runs.iter().position(|run| lost(&run)).unwrap_or(0);
        Fault {
            kind: FaultKind::LostTask,
            reason: format!(
                "nothing can happen any more, but {} runnable ({} in all): a task that becomes runnable must be \
                    picked by some CPU",
                format_args!("{} is", TaskId(first as u32)),
                self.runs.iter().filter(lost).count()
            ),
        }
    }

    /// All that are left wait. A recording says of its waits that they ended: the one goes on whose task is least far
    /// with its steps. False: no wait is a recorded one, and this is a deadlock.
    #[cold]
    pub(super) fn force_a_wait(&mut self, epoch_ns: u64) -> bool {
        let nr_steps = self.program.steps.len();
        let is_recorded = |index: usize| {
            let run = &self.runs[index];
            let step = if self.objects.goes_on(TaskId(index as u32)) { run.step } else { run.step - 1 };
            let act = match self.program.steps[step].code() {
                Code::Object(act) => self.program.acts[act as usize],
                _ => return false,
            };
            act.recorded != Recorded::Nothing
        };
        let progress = |index: usize| {
            let first = self.program.tasks[index].first_step;
            let end = self.program.tasks.get(index + 1).map_or(nr_steps, |next| next.first_step);
            // in millionths, so that equal shares are equal
            ((self.runs[index].step - first) as u64 * 1_000_000) / (end - first).max(1) as u64
        };
        let waiting = (0..self.runs.len()).filter(|index| self.runs[*index].token == AT_OBJECT);
        let Some(first) =
            waiting.filter(|index| is_recorded(*index)).min_by_key(|index| (progress(*index), *index))
        else {
            return false;
        };
        let task = TaskId(first as u32);
        if self.first_forced.is_none() {
            let at = Span::from_ns(self.now_ns - epoch_ns);
            self.first_forced = Some(Forced { at, task, waits: self.waits() });
        }
        self.objects.force(task);
        self.runs[first].token = NO_TOKEN;
        self.waiting -= 1;
        self.wheel.insert(first as u32, self.now_ns);
        true
    }

    /// Who waits for whom, when nobody else is left.
    pub(super) fn waits(&self) -> Vec<EndlessWait> {
        let waiting = self.runs.iter().enumerate().filter(|(_, run)| run.waits());
        waiting
            .map(|(index, run)| {
                let task = TaskId(index as u32);
                let waits_for = if run.token == AT_OBJECT {
                    let (object, owner) = self.objects.awaited(task);
                    WaitsFor::Object { object, owner }
                } else {
                    let token = self.program.tokens[run.token as usize];
                    WaitsFor::Event { waker: token.waker, before_event: token.before.0 }
                };
                EndlessWait { task, waits_for }
            })
            .collect()
    }
}
