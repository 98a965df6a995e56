//! What does one call of a policy do and cost? A bench: the calls of the contract, in the right order
//! and with a truthful [`View`], but without tasks' programs, events or a log.
//!
//! ```
//! use schedlab_machine::{policy::*, bench::PolicyBench};
//! # use schedlab_units::*;
//! # #[derive(Default)] struct Mine(std::collections::VecDeque<TaskId>);
//! # impl Policy for Mine {
//! #     fn task_new(&mut self, _: &View, _: TaskId) {}
//! #     fn select_cpu(&mut self, v: &View, t: TaskId, _: Arrival) -> CpuId {
//! #         v.idle_cpu_for(t).unwrap_or(v.home_cpu(t))
//! #     }
//! #     fn enqueue(&mut self, _: &View, _: CpuId, t: TaskId, _: Arrival) { self.0.push_back(t) }
//! #     fn dequeue(&mut self, _: &View, _: CpuId, t: TaskId) { self.0.retain(|&x| x != t) }
//! #     fn pick_next(&mut self, _: &View, _: CpuId) -> Option<TaskId> { self.0.pop_front() }
//! #     fn put_prev(&mut self, _: &View, _: CpuId, t: TaskId, _: Span, s: Stop) {
//! #         if s.is_runnable() { self.0.push_back(t) }
//! #     }
//! # }
//! let mut bench = PolicyBench::new(Mine::default(), 1, 2);
//! bench.create(TaskId(0), SchedParams::default());
//! bench.create(TaskId(1), SchedParams::default());
//! bench.wake(TaskId(0));
//! bench.wake(TaskId(1));
//! assert_eq!(bench.pick(CpuId(0)), Some(TaskId(0)));
//! bench.put(CpuId(0), Span::from_ms(10), Stop::Preempted);
//! assert_eq!(bench.pick(CpuId(0)), Some(TaskId(1)));
//! ```

use crate::policy::{Arrival, CpuView, Policy, Request, Stop, View, Wants};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, SchedParams, Span, TaskId};

/// See the module. The caller keeps the contract's order; nothing is checked.
pub struct PolicyBench<P: Policy> {
    policy: P,
    view: View,
    wants: Wants,
}

impl<P: Policy> PolicyBench<P> {
    /// A machine of equal CPUs, on which up to `nr_tasks` tasks may be created.
    pub fn new(mut policy: P, nr_cpus: u32, nr_tasks: u32) -> PolicyBench<P> {
        let topology = Topology::flat(nr_cpus).expect("a test bench has from 1 to 1,024 CPUs");
        let view = View::new(topology, nr_tasks);
        let wants = policy.boot(&view);
        PolicyBench { policy, view, wants }
    }

    /// The policy.
    pub fn policy(&mut self) -> &mut P {
        &mut self.policy
    }

    /// What the policy sees.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// A task comes to exist, blocked.
    pub fn create(&mut self, task: TaskId, params: SchedParams) {
        self.view.tasks[task.index()].params = params;
        self.policy.task_new(&self.view, task);
    }

    /// Moves queued tasks as the policy asks; kicks are left to the caller.
    #[inline]
    fn requests(&mut self) {
        if self.wants.requests {
            while let Some(request) = self.policy.next_request() {
                if let Request::Moved { task, to } = request {
                    self.view.tasks[task.index()].cpu = to;
                }
            }
        }
    }

    /// A blocked task becomes runnable.
    #[inline]
    pub fn wake(&mut self, task: TaskId) {
        let arrival = Arrival::Wakeup { waker: None };
        let cpu = self.policy.select_cpu(&self.view, task, arrival);
        self.view.tasks[task.index()].cpu = cpu;
        self.policy.enqueue(&self.view, cpu, task, arrival);
        self.requests();
    }

    /// Takes a queued task out, as for a change of its parameters; `wake` puts it back.
    #[inline]
    pub fn dequeue(&mut self, task: TaskId) {
        let cpu = self.view.task_cpu(task);
        self.policy.dequeue(&self.view, cpu, task);
        self.requests();
    }

    /// The CPU, whose last task has been put, picks the next.
    #[inline]
    pub fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        let next = self.policy.pick_next(&self.view, cpu);
        self.requests();
        if let Some(task) = next {
            self.view.tasks[task.index()].cpu = cpu;
        }
        let current = next.unwrap_or(TaskId::IDLE);
        self.view.cpus[cpu.index()] = CpuView { current, since: self.view.now };
        self.view.set_idle(cpu, next.is_none());
        if let Some(task) = next {
            self.policy.slice(&self.view, cpu, task);
        }
        next
    }

    /// The current task of the CPU, if any, stops after `ran`.
    #[inline]
    pub fn put(&mut self, cpu: CpuId, ran: Span, stop: Stop) {
        self.view.now = self.view.now + ran;
        let current = self.view.cpus[cpu.index()].current;
        if !current.is_idle() {
            self.policy.put_prev(&self.view, cpu, current, ran, stop);
            self.requests();
        }
    }
}
