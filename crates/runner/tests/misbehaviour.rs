//! Policies that misbehave end with a report that names the rule they broke; the parent goes on.

use schedlab_machine::drawn::{Life::*, workload};
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_policies::PolicyInfo;
use schedlab_runner::{RunEnd, RunRequest, Scheduler, run};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span, TaskId};
use std::time::Duration;

/// First in, first out, until the second task is to be picked.
struct Broken {
    queue: Vec<TaskId>,
    picks: u32,
    fault: fn(&mut Broken) -> Option<TaskId>,
}

impl Policy for Broken {
    fn task_new(&mut self, _view: &View, _task: TaskId) {}
    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        view.home_cpu(task)
    }
    fn enqueue(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _arrival: Arrival) {
        self.queue.push(task);
    }
    fn dequeue(&mut self, _view: &View, _cpu: CpuId, task: TaskId) {
        self.queue.retain(|&t| t != task);
    }
    fn pick_next(&mut self, _view: &View, _cpu: CpuId) -> Option<TaskId> {
        self.picks += 1;
        if self.picks == 2 {
            return (self.fault)(self);
        }
        (!self.queue.is_empty()).then(|| self.queue.remove(0))
    }
    fn put_prev(&mut self, _view: &View, _cpu: CpuId, task: TaskId, _ran: Span, stop: Stop) {
        if stop.is_runnable() {
            self.queue.push(task);
        }
    }
}

/// How a run of two tasks, 1 ms each, ends under a policy with this fault at its second pick.
fn end(info: &'static PolicyInfo) -> (String, String) {
    let workload = workload(&[&[Run(1), Sleep(1), Run(1)], &[Run(1)]]);
    let scheduler = Scheduler::Native(info);
    let request = RunRequest {
        stall_limit: Duration::from_millis(700),
        ..RunRequest::new(&workload, &scheduler, Topology::flat(1).unwrap())
    };
    match run(&request).unwrap().report.end {
        RunEnd::Misbehaved { report } => (report.kind.to_string(), report.reason),
        other => panic!("{}: {other:?}", info.name),
    }
}

macro_rules! broken {
    ($name:ident, $fault:expr) => {
        static $name: PolicyInfo = PolicyInfo::new(stringify!($name), "broken", "this test", &[], |_| {
            Ok(Box::new(Broken { queue: Vec::new(), picks: 0, fault: $fault }))
        });
    };
}

broken!(BLOCKED, |_| Some(TaskId(0)));
broken!(LOSES, |policy| {
    policy.queue.clear();
    None
});
broken!(LOOPS, |policy| {
    loop {
        std::hint::black_box(&policy.queue);
    }
});
broken!(SLEEPS, |_| {
    std::thread::sleep(Duration::from_secs(600));
    None
});
broken!(STOPPED, |policy| {
    // as by Ctrl-Z and, 1.5 s later, fg
    let wake = format!("sleep 1.5; kill -CONT {}", std::process::id());
    let mut helper = std::process::Command::new("sh").args(["-c", &wake]).spawn().expect("sh");
    // SAFETY: a plain call.
    unsafe { libc::raise(libc::SIGSTOP) };
    let _ = helper.wait();
    (!policy.queue.is_empty()).then(|| policy.queue.remove(0))
});
broken!(PANICS, |policy| Some(policy.queue[7]));

#[test]
fn returns_a_blocked_task() {
    let (kind, reason) = end(&BLOCKED);
    assert_eq!(
        (kind.as_str(), reason.as_str()),
        ("broken contract", "pick_next on cpu0 returned t0, which is blocked")
    );
}

#[test]
fn loses_a_task() {
    let (kind, reason) = end(&LOSES);
    assert_eq!(kind, "lost task");
    assert!(reason.contains("t1 is runnable (1 in all)"), "{reason}");
}

#[test]
fn loops() {
    let (kind, reason) = end(&LOOPS);
    assert_eq!(kind, "stall");
    assert!(reason.contains("an endless loop inside the scheduler"), "{reason}");
}

#[test]
fn sleeps() {
    let (kind, reason) = end(&SLEEPS);
    assert_eq!(kind, "stall", "{reason}");
}

/// Time in which it cannot go on is not held against it, though it be longer than the limit.
#[test]
fn a_run_that_is_stopped_for_a_while_goes_on() {
    let workload = workload(&[&[Run(1), Sleep(1), Run(1)], &[Run(1)]]);
    let scheduler = Scheduler::Native(&STOPPED);
    let request = RunRequest {
        stall_limit: Duration::from_millis(700),
        ..RunRequest::new(&workload, &scheduler, Topology::flat(1).unwrap())
    };
    let begun = std::time::Instant::now();
    assert_eq!(run(&request).unwrap().report.end, RunEnd::AllDone);
    assert!(begun.elapsed() > Duration::from_millis(1400), "it was not stopped");
}

#[test]
fn panics() {
    let (kind, reason) = end(&PANICS);
    assert_eq!(kind, "crash");
    assert!(reason.contains("index out of bounds"), "{reason}");
}

/// Threads of the parent that panic all the while do not hang a child that is forked meanwhile: it would
/// stall instead of crashing.
#[test]
fn panics_elsewhere_do_not_hang_a_child() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static OVER: AtomicBool = AtomicBool::new(false);
    let panicking = (0..2).map(|_| {
        std::thread::spawn(|| {
            while !OVER.load(Ordering::Relaxed) {
                let caught = std::panic::catch_unwind(|| panic!("not the child's"));
                assert!(caught.is_err());
            }
        })
    });
    let threads: Vec<_> = panicking.collect();
    for _ in 0..40 {
        let (kind, reason) = end(&PANICS);
        assert!(kind == "crash" && reason.contains("index out of bounds"), "{kind}: {reason}");
    }
    OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
