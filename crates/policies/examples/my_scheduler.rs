//! Least service first: who has had the least CPU time goes next. The scheduler of docs/write-a-scheduler.md.

// begin
use schedlab_machine::policy::{Arrival, Policy, Resched, Stop, View};
use schedlab_units::{CpuId, Span, TaskId};
use std::collections::BTreeSet;

/// Who has had the least CPU time goes next, for 5 ms at a time.
#[derive(Default)]
pub struct LeastServiceFirst {
    /// CPU time of each task so far.
    service_ns: Vec<u64>,
    /// Waiting tasks, least service first; ties by id.
    waiting: BTreeSet<(u64, TaskId)>,
}

impl LeastServiceFirst {
    fn key(&self, task: TaskId) -> (u64, TaskId) {
        (self.service_ns[task.index()], task)
    }
}

impl Policy for LeastServiceFirst {
    fn task_new(&mut self, _view: &View, task: TaskId) {
        self.service_ns.resize(self.service_ns.len().max(task.index() + 1), 0);
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        view.idle_cpu_for(task).unwrap_or_else(|| view.home_cpu(task))
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.waiting.insert(self.key(task));
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.waiting.remove(&self.key(task));
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        let first = self.waiting.iter().find(|(_, task)| view.allowed(*task, cpu)).copied()?;
        self.waiting.remove(&first);
        Some(first.1)
    }

    fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        self.service_ns[task.index()] += ran.as_ns();
        if stop.is_runnable() {
            self.waiting.insert(self.key(task));
        }
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) -> Option<Span> {
        Some(Span::from_ms(5))
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let current_ns = self.service_ns[current.index()] + view.ran(cpu).as_ns();
        if self.service_ns[woken.index()] < current_ns { Resched::Yes } else { Resched::No }
    }
}
// end

fn main() {
    use schedlab_machine::drawn::{Life::*, schedule};
    for line in
        schedule(Box::new(LeastServiceFirst::default()), 1, 60, &[&[Run(4), Sleep(6), Run(8)], &[Run(20)]])
    {
        println!("{line}");
    }
}
