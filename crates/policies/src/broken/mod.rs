//! What happens to a scheduler that breaks its contract? Policies that are broken on purpose, to be run by
//! name: `--sched broken-lost`.
//!
//! Each is first in, first out until its `at`-th pick, at which it breaks one rule of `schedlab_machine::policy`:
//!
//! ```text
//! name             what it does at that pick                     how the run ends
//! broken-blocked   returns a task that is blocked                broken contract: pick_next returned t0, blocked
//! broken-running   returns a task that runs elsewhere, or exited broken contract
//! broken-lost      forgets the tasks that wait                   lost task, when nothing can happen any more
//! broken-kept      says that nobody waits, though some do        lost task, at the end of the run
//! broken-cpu       puts a task where it may not run              broken contract: select_cpu
//! broken-slice     gives a slice of no length                    broken contract: slice
//! broken-loop      does not return                               stall, found by the parent process
//! broken-panic     panics                                        crash
//! ```
//!
//! They are not on the list of schedulers; tests and the guide "write a scheduler" use them.

use crate::registry::{ParamInfo, PolicyInfo};
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_units::{CpuId, Span, TaskId};
use std::collections::VecDeque;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Blocked,
    Running,
    Lost,
    Kept,
    Cpu,
    Slice,
    Loop,
    Panic,
}

#[derive(Debug)]
struct Broken {
    fault: Fault,
    at: u64,
    picks: u64,
    queue: VecDeque<TaskId>,
    /// Who blocked last, and who was picked last.
    blocked: Option<TaskId>,
    picked: Option<TaskId>,
}

impl Broken {
    fn is_due(&self) -> bool {
        self.picks >= self.at
    }
}

impl Policy for Broken {
    fn task_new(&mut self, _view: &View, _task: TaskId) {}

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        if self.fault == Fault::Cpu && self.is_due() {
            return CpuId(view.nr_cpus());
        }
        view.idle_cpu_for(task).unwrap_or_else(|| view.home_cpu(task))
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.queue.push_back(task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.queue.retain(|&queued| queued != task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        self.picks += 1;
        if self.is_due() {
            match self.fault {
                Fault::Blocked if self.blocked.is_some() => return self.blocked,
                Fault::Running if self.picked.is_some() => return self.picked,
                Fault::Lost => self.queue.clear(),
                Fault::Kept => return None,
                Fault::Loop => loop {
                    std::hint::spin_loop();
                },
                Fault::Panic => panic!("broken-panic: this policy panics at its pick {}", self.picks),
                _ => {}
            }
        }
        let place = self.queue.iter().position(|&task| view.allowed(task, cpu))?;
        self.picked = self.queue.remove(place);
        self.picked
    }

    fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        if stop == Stop::Blocked {
            self.blocked = Some(task);
        }
        if stop.is_runnable() {
            self.queue.push_back(task);
        }
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) -> Option<Span> {
        Some(if self.fault == Fault::Slice && self.is_due() { Span::ZERO } else { Span::from_ms(10) })
    }
}

const AT: ParamInfo = ParamInfo {
    name: "at",
    default: "10",
    help: "the pick from which on the rule is broken, counted from 1",
};

macro_rules! broken {
    ($name:literal, $summary:literal, $fault:ident) => {
        PolicyInfo::deliberately($name, $summary, &[AT], |params| {
            let at = params.value(&AT, "a whole number from 0")?;
            let queue = VecDeque::new();
            Ok(Box::new(Broken { fault: Fault::$fault, at, picks: 0, queue, blocked: None, picked: None }))
        })
    };
}

/// The broken ones, which [`find`](crate::find) knows and [`registry`](crate::registry()) does not list.
pub const POLICIES: [PolicyInfo; 8] = [
    broken!("broken-blocked", "broken on purpose: returns a task that is blocked", Blocked),
    broken!("broken-running", "broken on purpose: returns a task twice", Running),
    broken!("broken-lost", "broken on purpose: forgets the tasks that wait", Lost),
    broken!("broken-kept", "broken on purpose: picks nobody though tasks wait", Kept),
    broken!("broken-cpu", "broken on purpose: puts a task on a CPU that does not exist", Cpu),
    broken!("broken-slice", "broken on purpose: gives a slice of no length", Slice),
    broken!("broken-loop", "broken on purpose: never returns", Loop),
    broken!("broken-panic", "broken on purpose: panics", Panic),
];
