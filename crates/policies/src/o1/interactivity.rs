//! The estimate of how interactive a task is: `sleep_avg` and what follows from it.

use super::queues::Queues;
use super::{Activated, Version};
use schedlab_machine::policy::View;
use schedlab_units::{CpuId, Span, TaskId};

/// Levels between the lowest and the highest bonus.
const MAX_BONUS: i64 = 10;
/// A task counts as interactive if it is this many levels above its static priority (at nice 0).
const INTERACTIVE_DELTA: i64 = 2;
/// A child starts with this share of its parent's bonus.
const CHILD_PENALTY_PCT: u64 = 95;
/// Share of the wait in the queue that counts as sleep if a task woke it, in 128ths (30 % in whole hundredths of 128).
const ON_QUEUE_WEIGHT: u64 = 30 * 128 / 100;

impl Queues {
    fn max_sleep_avg_ns(&self) -> u64 {
        self.version.max_sleep_avg_ms() * 1_000_000
    }

    /// 0 to 10.
    pub(super) fn bonus(&self, task: TaskId) -> i64 {
        let full_ns = self.max_sleep_avg_ns();
        (self.tasks[task].sleep_avg_ns as i64 * MAX_BONUS) / full_ns as i64
    }

    /// How many levels above its static priority a task must be to count as interactive: more at a higher nice value.
    fn delta(&self, task: TaskId) -> i64 {
        let nice = self.tasks[task].static_level - super::NICE_0_LEVEL;
        (nice + 20) * MAX_BONUS / 40 - MAX_BONUS / 2 + INTERACTIVE_DELTA
    }

    /// Sets the level from the static priority and `sleep_avg`. The task is in no list.
    pub(super) fn update_level(&mut self, view: &View, task: TaskId) {
        let level = match self.tasks[task].real_time {
            true => 99 - i64::from(view.params(task).rt_priority),
            false => (self.tasks[task].static_level - (self.bonus(task) - MAX_BONUS / 2)).clamp(100, 139),
        };
        self.tasks[task].level = level as usize;
    }

    pub(super) fn is_interactive(&self, _view: &View, task: TaskId) -> bool {
        let state = &self.tasks[task];
        state.level as i64 <= state.static_level - self.delta(task)
    }

    /// The longest sleep that counts as such: it makes a task just interactive.
    fn interactive_sleep_ns(&self, task: TaskId) -> u64 {
        let tenths = MAX_BONUS / 2 + self.delta(task) + 1;
        let ns = self.version.max_sleep_avg_ms() as i64 * 1_000_000 * tenths / MAX_BONUS;
        (ns - self.tick_ns as i64).max(0) as u64
    }

    /// Counts `sleep_ns` of sleep.
    pub(super) fn count_sleep(&mut self, view: &View, task: TaskId, sleep_ns: u64) {
        let full_ns = self.max_sleep_avg_ns();
        let mut sleep_ns = sleep_ns.min(full_ns);
        if sleep_ns > 0 {
            let ceiling_ns = self.interactive_sleep_ns(task);
            let bonus = self.bonus(task);
            let saved_ns = &mut self.tasks[task].sleep_avg_ns;
            match self.version {
                Version::V2_6_18 if sleep_ns > ceiling_ns && *saved_ns < ceiling_ns => {
                    *saved_ns = ceiling_ns;
                }
                Version::V2_6_18 => *saved_ns += sleep_ns,
                // one long sleep lifts to one slice below the most
                Version::V2_6_7 if sleep_ns > ceiling_ns => *saved_ns = full_ns - full_ns / 10,
                // the less it has saved, the faster it saves
                Version::V2_6_7 => {
                    sleep_ns *= (MAX_BONUS - bonus).max(1) as u64;
                    *saved_ns += sleep_ns;
                }
            }
            *saved_ns = (*saved_ns).min(full_ns);
        }
        self.update_level(view, task);
    }

    /// Takes the run that ends now off what the task has saved; slowly if it has saved much.
    pub(super) fn charge_run(&mut self, view: &View, task: TaskId) {
        let ran_ns = (view.now() - self.tasks[task].stamp).as_ns().min(self.max_sleep_avg_ns());
        let charged_ns = ran_ns / self.bonus(task).max(1) as u64;
        let state = &mut self.tasks[task];
        state.sleep_avg_ns = state.sleep_avg_ns.saturating_sub(charged_ns);
        state.stamp = view.now();
    }

    /// A woken task's wait in the queue counts, too.
    pub(super) fn count_wait(&mut self, view: &View, task: TaskId) {
        let activated = std::mem::take(&mut self.tasks[task].activated);
        if activated == Activated::No || self.tasks[task].real_time {
            return;
        }
        let wait_ns = (view.now() - self.tasks[task].stamp).as_ns();
        let counted_ns = match activated {
            Activated::ByTask => wait_ns * ON_QUEUE_WEIGHT / 128,
            _ => wait_ns,
        };
        self.count_sleep(view, task, counted_ns);
    }

    /// A parent's bonus goes to its child, a little reduced.
    pub(super) fn inherit_sleep(&mut self, child: TaskId, parent: TaskId) {
        let per_level_ns = self.max_sleep_avg_ns() / MAX_BONUS as u64;
        let bonus = self.bonus(parent) as u64;
        self.tasks[child].sleep_avg_ns = bonus * CHILD_PENALTY_PCT / 100 * per_level_ns;
        self.tasks[parent].sleep_avg_ns = bonus * per_level_ns;
    }

    /// Whether the expired tasks have waited long enough, or are better than the current one.
    pub(super) fn expired_starving(&self, view: &View, cpu: CpuId) -> bool {
        let rq = &self.cpus[cpu.index()];
        let Some(since) = rq.expired_since else { return false };
        let limit_ns = self.version.max_sleep_avg_ms() * 1_000_000 * u64::from(rq.nr_running) + self.tick_ns;
        let current_static = rq.current.map_or(i64::MAX, |current| self.tasks[current].static_level);
        view.now() - since >= Span::from_ns(limit_ns) || current_static > rq.best_expired
    }

    /// Whether the slice so far used is a whole number of granules, with at least one left: then the next of
    /// equal level has its turn.
    pub(super) fn ends_granule(&self, view: &View, task: TaskId) -> bool {
        let exponent = (MAX_BONUS - self.bonus(task)).max(1) - 1;
        let cpus = u64::from(view.nr_cpus());
        let granule = (self.ticks(self.version.granule_ms()) << exponent) * cpus;
        let (full, left) = (self.full_slice(view, task), self.tasks[task].slice_ticks);
        full.saturating_sub(left).is_multiple_of(granule) && left >= granule
    }
}
