//! Round robin: as FIFO, but a task that has run for a quantum goes to the end of the line if others wait.
//!
//! *Source*: Kleinrock, "Analysis of a time-shared processor" (1964). *Differs*: several CPUs share the
//! queue. Nice values and policies are ignored. Preempted quanta do not occur; a task that blocks starts with
//! a full quantum.
//!
//! *Parameter*: `quantum` (default 10 ms, VTRR's).

use crate::queue::GlobalQueue;
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_units::{CpuId, Span, TaskId};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct RoundRobin {
    queue: GlobalQueue,
    quantum: Span,
}

impl RoundRobin {
    /// With this quantum, which is not zero.
    pub fn new(quantum: Span) -> RoundRobin {
        assert!(quantum > Span::ZERO, "a quantum of zero would never let a task run");
        RoundRobin { queue: GlobalQueue::default(), quantum }
    }
}

impl Policy for RoundRobin {
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

    fn slice(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) -> Option<Span> {
        Some(self.quantum)
    }
}
