//! A first-in first-out queue of runnable tasks from which a CPU takes the first that it may run.

use schedlab_machine::policy::View;
use schedlab_units::{CpuId, TaskId};
use std::collections::VecDeque;

/// One queue for all CPUs.
#[derive(Debug, Default)]
pub(crate) struct GlobalQueue {
    tasks: VecDeque<TaskId>,
}

impl GlobalQueue {
    #[inline]
    pub(crate) fn push(&mut self, task: TaskId) {
        self.tasks.push_back(task);
    }

    /// Takes the first task allowed on `cpu`: O(1) unless tasks with restricted affinity stand before it.
    #[inline]
    pub(crate) fn pop(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let first = *self.tasks.front()?;
        if view.allowed(first, cpu) {
            return self.tasks.pop_front();
        }
        let place = self.tasks.iter().position(|&task| view.allowed(task, cpu))?;
        self.tasks.remove(place)
    }

    /// Takes this task out, wherever it stands.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(place) = self.tasks.iter().position(|&t| t == task) {
            self.tasks.remove(place);
        }
    }
}
