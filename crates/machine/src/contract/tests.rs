//! Broken policies: each ends with the rule that it broke.

use super::{Broken, check, check_one};
use crate::kernel::FaultKind;
use crate::policy::{Arrival, Policy, Stop, View};
use schedlab_units::{CpuId, Span, TaskId};
use schedlab_workload::Builder;
use std::collections::VecDeque;

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    PicksBlocked,
    PicksTwice,
    PicksUnknown,
    LosesThird,
    LosesPreempted,
    IgnoresAffinity,
    SelectsForbidden,
    ZeroSlice,
    HoldsBack,
    Unsteady,
}

/// First in, first out, with a quantum of 3 ms, and a fault.
struct Faulty {
    fault: Fault,
    queue: VecDeque<TaskId>,
    enqueued: u32,
    last_blocked: Option<TaskId>,
    running: Option<TaskId>,
}

thread_local! {
    /// Something outside that a policy must not depend on.
    static OUTSIDE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Policy for Faulty {
    fn task_new(&mut self, _view: &View, _task: TaskId) {}

    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        match self.fault {
            Fault::SelectsForbidden => CpuId(view.nr_cpus()),
            Fault::HoldsBack => view.home_cpu(task),
            _ => view.idle_cpu_for(task).unwrap_or_else(|| view.home_cpu(task)),
        }
    }

    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.enqueued += 1;
        if self.fault == Fault::LosesThird && self.enqueued == 3 {
            return;
        }
        self.queue.push_back(task);
    }

    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.queue.retain(|&t| t != task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        match self.fault {
            Fault::PicksBlocked if self.last_blocked.is_some() => return self.last_blocked,
            Fault::PicksTwice => {
                let elsewhere = |task: &TaskId| {
                    let there = view.task_cpu(*task);
                    there != cpu && view.current(there) == Some(*task)
                };
                if let Some(running) = self.running.filter(elsewhere) {
                    return Some(running);
                }
            }
            Fault::PicksUnknown => return Some(TaskId(1_000_000)),
            Fault::Unsteady => {
                let odd = OUTSIDE.replace(OUTSIDE.get() + 1).is_multiple_of(3);
                if odd && let Some(last) = self.queue.pop_back() {
                    self.queue.push_front(last);
                }
            }
            _ => {}
        }
        let ignores = self.fault == Fault::IgnoresAffinity;
        let place = self.queue.iter().position(|&task| ignores || view.allowed(task, cpu))?;
        self.running = self.queue.remove(place);
        self.running
    }

    fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        match stop {
            _ if stop.is_runnable() && self.fault == Fault::LosesPreempted => {}
            _ if stop.is_runnable() => self.queue.push_back(task),
            Stop::Blocked => self.last_blocked = Some(task),
            _ => {}
        }
    }

    fn slice(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) -> Option<Span> {
        Some(if self.fault == Fault::ZeroSlice { Span::ZERO } else { Span::from_ms(3) })
    }
}

fn faulty(fault: Fault) -> Box<dyn Policy> {
    Box::new(Faulty { fault, queue: VecDeque::new(), enqueued: 0, last_blocked: None, running: None })
}

#[test]
fn a_sound_policy_passes() {
    let records = check(&|| faulty(Fault::Nothing), 0..200).unwrap();
    assert!(records > 10_000, "only {records} records: the workloads are too small to mean much");
}

/// Each fault is found, by the mechanism that the contract's table names, with words that name the rule.
#[test]
fn each_fault_is_named() {
    let cases = [
        (Fault::PicksBlocked, Some(FaultKind::Contract), "which is blocked"),
        (Fault::PicksTwice, Some(FaultKind::Contract), "which runs elsewhere"),
        (Fault::PicksUnknown, Some(FaultKind::Contract), "which does not exist"),
        (Fault::LosesThird, Some(FaultKind::LostTask), "must be picked by some CPU"),
        (Fault::LosesPreempted, Some(FaultKind::LostTask), "must be picked by some CPU"),
        (Fault::IgnoresAffinity, Some(FaultKind::Contract), "which is not allowed there"),
        (Fault::SelectsForbidden, Some(FaultKind::Contract), "select_cpu put"),
        (Fault::ZeroSlice, Some(FaultKind::Contract), "a slice of zero"),
        (Fault::HoldsBack, None, "against the policy's claim of work conservation (Machine)"),
    ];
    for (fault, kind, words) in cases {
        // the workload that shows it may need two CPUs, a sleep, an affinity: some seed has it. The witness
        // is left out where it would speak first of idle CPUs.
        let found =
            (0..200).find_map(|seed| check(&|| unwitnessed(faulty(fault), kind), seed..seed + 1).err());
        let broken = found.unwrap_or_else(|| panic!("'{words}' was not found")).broken;
        if kind.is_some() {
            let Broken::Fault(fault) = &broken else { panic!("'{words}': {broken}") };
            assert_eq!(Some(fault.kind), kind, "{broken}");
        }
        assert!(broken.to_string().contains(words), "'{words}' in: {broken}");
    }
}

/// Makes no claim about idle CPUs if a fault of the run is what the test looks for.
fn unwitnessed(policy: Box<dyn Policy>, kind: Option<FaultKind>) -> Box<dyn Policy> {
    struct NoClaim(Box<dyn Policy>);
    impl Policy for NoClaim {
        fn work_conservation(&self) -> crate::policy::WorkConservation {
            crate::policy::WorkConservation::Never
        }
        fn task_new(&mut self, view: &View, task: TaskId) {
            self.0.task_new(view, task);
        }
        fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
            self.0.select_cpu(view, task, arrival)
        }
        fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
            self.0.enqueue(view, cpu, task, arrival);
        }
        fn dequeue(&mut self, view: &View, cpu: CpuId, task: TaskId) {
            self.0.dequeue(view, cpu, task);
        }
        fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
            self.0.pick_next(view, cpu)
        }
        fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
            self.0.put_prev(view, cpu, task, ran, stop);
        }
        fn slice(&mut self, view: &View, cpu: CpuId, task: TaskId) -> Option<Span> {
            self.0.slice(view, cpu, task)
        }
    }
    if kind.is_some() { Box::new(NoClaim(policy)) } else { policy }
}

#[test]
fn dependence_on_the_outside_is_found() {
    let broken = check(&|| faulty(Fault::Unsteady), 0..50).unwrap_err().broken;
    assert!(matches!(broken, Broken::NotDeterministic(_)), "{broken}");
}

/// A task lost while others go on is found at the end of the run, with since when.
#[test]
fn a_loss_is_found_at_the_end_of_the_duration() {
    use crate::{End, Machine, Program, Setup, native::Native};
    let mut builder = Builder::new();
    for sleeps in [5, 100] {
        let mut life = builder.task("").inherits();
        for _ in 0..sleeps {
            life = life.run(Span::from_ms(1)).sleep(Span::from_ms(1));
        }
        life.run(Span::from_ms(1)).exit();
    }
    let workload = builder.finish().unwrap();
    // the third enqueue is t0's wakeup at 2 ms; t1 sleeps and runs on
    let setup = Setup {
        topology: schedlab_topology::Topology::flat(2).unwrap(),
        duration: Some(Span::from_us(20_500)),
        params: Vec::new(),
    };
    let mut log = Vec::new();
    let kernel = Native::new(faulty(Fault::LosesThird), &mut log);
    let outcome = Machine::new(kernel, Program::new(&workload).unwrap(), setup).run();
    let End::Fault(fault) = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(fault.kind, FaultKind::LostTask);
    assert!(fault.reason.contains("t0 is runnable, since 2ms of the run"), "{}", fault.reason);
    // and a sound policy ends as it should
    assert!(check_one(&|| faulty(Fault::Nothing), &workload, 2).is_ok());
}

/// Found by the suite: a task moved to the CPU of whoever changed its affinity, and picked there at once,
/// kept on computing for what it had computed already on the CPU that it was taken from.
#[test]
fn a_task_pulled_by_its_mover_does_not_compute_twice() {
    use schedlab_units::CpuSet;
    use schedlab_workload::ParamChange;
    /// Last in, first out; whoever comes takes the CPU.
    struct Pushy(Vec<TaskId>);
    impl Policy for Pushy {
        fn task_new(&mut self, _view: &View, _task: TaskId) {}
        fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
            view.idle_cpu_for(task).unwrap_or_else(|| view.home_cpu(task))
        }
        fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
            self.0.push(task);
        }
        fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
            self.0.retain(|&t| t != task);
        }
        fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
            let place = self.0.iter().rposition(|&task| view.allowed(task, cpu))?;
            Some(self.0.remove(place))
        }
        fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
            if stop.is_runnable() {
                self.0.insert(0, task);
            }
        }
        fn preempts(&mut self, _: &View, _: CpuId, _: TaskId, _: TaskId) -> crate::policy::Resched {
            crate::policy::Resched::Yes
        }
    }
    let ms = Span::from_ms;
    let change = ParamChange {
        target: Some(TaskId(1)),
        affinity: Some(CpuSet::single(CpuId(0))),
        ..ParamChange::default()
    };
    let mut builder = Builder::new();
    builder.task("").inherits().cpu(0).run(ms(3)).set(change).run(ms(2)).exit();
    builder.task("").inherits().cpu(1).run(ms(10)).exit();
    let workload = builder.finish().unwrap();
    // cpu0 AAABBBBBBBAA      B's other 7 ms follow at once
    // cpu1 BBB
    let drawing = crate::drawn::draw(Box::new(Pushy(Vec::new())), 2, 20, &workload);
    assert_eq!(drawing, ["AAABBBBBBBAA", "BBB"]);
}
