//! A [`Discipline`] as a native scheduler: one queue for all CPUs.

use super::{Discipline, Shares};
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_units::{CpuId, Span, TaskId};

/// One discipline serves all CPUs; service is CPU time in ns.
#[derive(Debug)]
pub struct Proportional<D: Discipline> {
    discipline: D,
    shares: Shares,
}

impl<D: Discipline> Proportional<D> {
    /// With this source of shares.
    pub fn new(discipline: D, shares: Shares) -> Proportional<D> {
        Proportional { discipline, shares }
    }

    /// The discipline, for read-outs.
    pub fn discipline(&self) -> &D {
        &self.discipline
    }
}

impl<D: Discipline> Policy for Proportional<D> {
    fn task_new(&mut self, _view: &View, _task: TaskId) {}

    fn params_changed(&mut self, view: &View, task: TaskId) {
        // a queued task has been taken out and will join with its new share, a blocked one when it wakes
        if view.current(view.task_cpu(task)) == Some(task) {
            let share = self.shares.of(view, task);
            self.discipline.set_share(task, share);
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        view.idle_cpu_for(task).unwrap_or_else(|| view.home_cpu(task))
    }

    fn enqueue(&mut self, view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        let share = self.shares.of(view, task);
        self.discipline.join(task, share);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.discipline.leave(task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        self.discipline.select(&|task| view.allowed(task, cpu))
    }

    fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        self.discipline.charge(task, ran.as_ns());
        if stop.is_runnable() { self.discipline.put(task) } else { self.discipline.leave(task) }
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, task: TaskId) -> Option<Span> {
        Some(Span::from_ns(self.discipline.slice(task)))
    }
}
