//! First in, first out: a task runs until it blocks, exits or yields.
//!
//! The baseline of every textbook (there also called first-come first-served), and here the yardstick of the
//! machine's own cost: it decides in constant time and wants no tick. One queue serves all CPUs.
//!
//! *Source*: Conway, Maxwell, Miller, "Theory of Scheduling" (1967). *Differs*: several CPUs share the queue
//! (the original has one). Nice values and policies are ignored. A woken task goes to an idle CPU (where it
//! ran last, if that is one), else waits in line.

use crate::queue::GlobalQueue;
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_units::{CpuId, Span, TaskId};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug, Default)]
pub struct Fifo {
    queue: GlobalQueue,
}

impl Policy for Fifo {
    fn task_new(&mut self, _view: &View, _task: TaskId) {}

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        view.idle_cpu_for(task).unwrap_or_else(|| view.home_cpu(task))
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.queue.push(task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.queue.remove(task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        self.queue.pop(view, cpu)
    }

    fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        if stop.is_runnable() {
            self.queue.push(task);
        }
    }
}
