//! A stack of scheduling classes, as Linux has it: deadline above real time above a fair class.
//!
//! Each class is a [`Policy`] of its own that sees only its tasks. A CPU runs the first task that a class
//! offers, asked from the top; a woken task preempts a current one of a lower class, and is compared by the
//! class itself with one of its own.
//!
//! ```text
//! SCHED_DEADLINE, admitted   -> Cbs
//! SCHED_FIFO, SCHED_RR       -> Posix
//! the others, and refused    -> the fair class (Cfs, Eevdf)
//! ```
//!
//! *Differs* from Linux: a fair class balances only at ticks that find the CPU idle or with one of its own tasks.

use crate::cbs::Cbs;
use crate::kit::table::Table;
use crate::posix::Posix;
use schedlab_machine::policy::{
    Arrival, BlockedBirth, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_units::{ClassKind, CpuId, Span, TaskId, Time};

#[cfg(test)]
mod tests;

/// Which class a task belongs to, highest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Deadline,
    RealTime,
    #[default]
    Fair,
}

/// See the module.
#[derive(Debug)]
pub struct Stack<F> {
    deadline: Cbs,
    real_time: Posix,
    fair: F,
    places: Table<Place>,
    /// Per CPU: the class that the current task was picked from.
    current: Vec<Option<(TaskId, Place)>>,
    wants: [Wants; 3],
}

macro_rules! class {
    ($self:ident, $place:expr, $class:ident => $call:expr) => {
        match $place {
            Place::Deadline => {
                let $class = &mut $self.deadline;
                $call
            }
            Place::RealTime => {
                let $class = &mut $self.real_time;
                $call
            }
            Place::Fair => {
                let $class = &mut $self.fair;
                $call
            }
        }
    };
}

impl<F: Policy> Stack<F> {
    /// This fair class below POSIX real time and SCHED_DEADLINE.
    pub fn new(deadline: Cbs, real_time: Posix, fair: F) -> Stack<F> {
        Stack {
            deadline,
            real_time,
            fair,
            places: Table::default(),
            current: Vec::new(),
            wants: [Wants::default(); 3],
        }
    }

    fn wanted_place(&mut self, view: &View, task: TaskId) -> Place {
        let admitted = self.deadline.admit(view, task);
        match view.params(task).policy.class() {
            ClassKind::Deadline if admitted => Place::Deadline,
            ClassKind::RealTime => Place::RealTime,
            _ => Place::Fair,
        }
    }

    /// The task, which no class owns or runs, comes under another class if its parameters say so.
    fn change_place(&mut self, view: &View, task: TaskId) {
        let place = self.wanted_place(view, task);
        let before = std::mem::replace(&mut self.places[task], place);
        if place == before {
            class!(self, place, class => class.params_changed(view, task));
        } else {
            class!(self, before, class => class.task_exit(view, task));
            class!(self, place, class => class.task_new(view, task));
        }
    }
}

impl<F: Policy> Policy for Stack<F> {
    fn work_conservation(&self) -> WorkConservation {
        WorkConservation::Never
    }

    fn timing(&self) -> Timing {
        self.fair.timing()
    }

    fn tick_phase(&self) -> Span {
        self.fair.tick_phase()
    }

    fn blocked_birth(&self) -> BlockedBirth {
        self.fair.blocked_birth()
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.current = vec![None; view.nr_cpus() as usize];
        self.wants = [self.deadline.boot(view), self.real_time.boot(view), self.fair.boot(view)];
        Wants {
            idle_ticks: self.wants[2].idle_ticks,
            requests: true,
            timers: self.wants.iter().any(|wants| wants.timers),
            ..Wants::default()
        }
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        self.places.reset(task);
        let place = self.wanted_place(view, task);
        self.places[task] = place;
        class!(self, place, class => class.task_new(view, task));
    }

    fn task_exit(&mut self, view: &View, task: TaskId) {
        self.deadline.release(task);
        class!(self, self.places[task], class => class.task_exit(view, task));
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        let runs_on = self.current.iter().position(|current| current.is_some_and(|(t, _)| t == task));
        let Some(cpu) = runs_on else { return self.change_place(view, task) };
        let place = self.wanted_place(view, task);
        if place == self.places[task] {
            class!(self, place, class => class.params_changed(view, task));
        } else {
            // it changes class when it is put back
            self.deadline.kick(CpuId(cpu as u32));
        }
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        class!(self, self.places[task], class => class.select_cpu(view, task, arrival))
    }

    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        class!(self, self.places[task], class => class.exec_cpu(view, task))
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
        class!(self, self.places[task], class => class.enqueue(view, cpu, task, arrival));
    }

    fn dequeue(&mut self, view: &View, cpu: CpuId, task: TaskId) {
        class!(self, self.places[task], class => class.dequeue(view, cpu, task));
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        for place in [Place::Deadline, Place::RealTime, Place::Fair] {
            if let Some(task) = class!(self, place, class => class.pick_next(view, cpu)) {
                self.current[cpu.index()] = Some((task, place));
                return Some(task);
            }
        }
        None
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        let place = self.current[cpu.index()].take().map_or(self.places[task], |(_, place)| place);
        let changes = self.wanted_place(view, task) != place;
        if !changes || stop == Stop::Exited {
            return class!(self, place, class => class.put_prev(view, cpu, task, ran, stop));
        }
        // it leaves its old class as if it blocked, and arrives in the new one
        class!(self, place, class => class.put_prev(view, cpu, task, ran, Stop::Blocked));
        self.change_place(view, task);
        if stop.is_runnable() {
            class!(self, self.places[task], class => class.enqueue(view, cpu, task, Arrival::Changed));
        }
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let running = self.current[cpu.index()].map_or(self.places[current], |(_, place)| place);
        let new = self.places[woken];
        match new.cmp(&running) {
            std::cmp::Ordering::Less => Resched::Yes,
            std::cmp::Ordering::Greater => Resched::No,
            std::cmp::Ordering::Equal => {
                class!(self, new, class => class.preempts(view, cpu, current, woken))
            }
        }
    }

    fn slice(&mut self, view: &View, cpu: CpuId, task: TaskId) -> Option<Span> {
        class!(self, self.places[task], class => class.slice(view, cpu, task))
    }

    fn slice_end(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span) -> Resched {
        class!(self, self.places[task], class => class.slice_end(view, cpu, task, ran))
    }

    fn tick(&mut self, view: &View, cpu: CpuId, current: TaskId, ran: Span) -> Resched {
        let place = self.current[cpu.index()].map_or(self.places[current], |(_, place)| place);
        class!(self, place, class => class.tick(view, cpu, current, ran))
    }

    fn tick_idle(&mut self, view: &View, cpu: CpuId) -> Resched {
        self.fair.tick_idle(view, cpu)
    }

    fn next_request(&mut self) -> Option<Request> {
        let request = self.deadline.next_request().or_else(|| self.real_time.next_request());
        match request {
            None if self.wants[2].requests => self.fair.next_request(),
            request => request,
        }
    }

    fn next_timer(&mut self, view: &View, cpu: CpuId) -> Option<Time> {
        self.deadline.next_timer(view, cpu)
    }

    fn timer(&mut self, view: &View, cpu: CpuId) -> Resched {
        self.deadline.timer(view, cpu)
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.deadline.warnings();
        warnings.extend(self.real_time.warnings());
        warnings.extend(self.fair.warnings());
        warnings
    }
}
