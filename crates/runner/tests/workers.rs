//! What if a worker is lost, its caller is killed, a run is no longer wanted, or a scheduler leaves something behind?

use schedlab_machine::drawn::Life::*;
use schedlab_machine::drawn::workload;
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_policies::PolicyInfo;
use schedlab_runner::{RunEnd, RunError, RunRequest, RunResult, Scheduler, pool, run, run_while};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span, TaskId};
use schedlab_workload::Workload;
use std::process::Command;
use std::time::{Duration, Instant};

/// First in, first out; it does something first.
struct Doing {
    queue: Vec<TaskId>,
    first: Option<fn()>,
}

impl Policy for Doing {
    fn task_new(&mut self, _: &View, _: TaskId) {}
    fn select_cpu(&mut self, view: &View, task: TaskId, _: Arrival) -> CpuId {
        view.home_cpu(task)
    }
    fn enqueue(&mut self, _: &View, _: CpuId, task: TaskId, _: Arrival) {
        self.queue.push(task);
    }
    fn dequeue(&mut self, _: &View, _: CpuId, task: TaskId) {
        self.queue.retain(|&t| t != task);
    }
    fn pick_next(&mut self, _: &View, _: CpuId) -> Option<TaskId> {
        if let Some(first) = self.first.take() {
            first();
        }
        (!self.queue.is_empty()).then(|| self.queue.remove(0))
    }
    fn put_prev(&mut self, _: &View, _: CpuId, task: TaskId, _: Span, stop: Stop) {
        if stop.is_runnable() {
            self.queue.push(task);
        }
    }
}

macro_rules! doing {
    ($name:ident, $first:expr) => {
        static $name: PolicyInfo =
            PolicyInfo::new(stringify!($name), "does something", "this test", &[], |_| {
                Ok(Box::new(Doing { queue: Vec::new(), first: Some($first) }))
            });
    };
}

doing!(WAITS, || std::thread::sleep(Duration::from_secs(600)));
doing!(NOTHING, || {});
// three processes that do not end with their parent, and one that has nothing to do with it any more
doing!(LEAVES, || {
    for _ in 0..3 {
        // (the worker, as their subreaper, ends and reaps them)
        std::mem::forget(Command::new("sleep").arg("607").spawn().expect("sleep"));
    }
    Command::new("sh").args(["-c", "setsid sleep 607 &"]).status().expect("sh");
});

fn small() -> Workload {
    workload(&[&[Run(1), Sleep(1), Run(1)], &[Run(1)]])
}

fn result_of(info: &'static PolicyInfo) -> Result<RunResult, RunError> {
    let (workload, scheduler) = (small(), Scheduler::Native(info));
    run(&RunRequest::new(&workload, &scheduler, Topology::flat(1).unwrap()))
}

/// The environment of this user's processes, by pid.
fn environments() -> Vec<(i32, String)> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbered = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let environment = |pid| {
        Some((
            pid,
            String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/environ")).ok()?).into_owned(),
        ))
    };
    numbered.filter_map(environment).collect()
}

const MARK: &str = "SCHEDLAB_TEST_MARK";

/// Processes whose first ancestor was started with this mark, itself included. (One that is dead and not
/// waited for has no environment.)
fn marked(mark: &str) -> Vec<i32> {
    let mark = format!("{MARK}={mark}\0");
    environments()
        .into_iter()
        .filter(|(_, environment)| environment.contains(&mark))
        .map(|(pid, _)| pid)
        .collect()
}

/// Runs one of these tests as a program of its own, with a mark.
fn again(test: &str, mark: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(MARK, mark).stdout(std::process::Stdio::null());
    command
}

fn mark() -> Option<String> {
    std::env::var(MARK).ok()
}

/// At once, or within two seconds.
fn all_gone(mark: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        if marked(mark).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Runs this test's body in a process of its own, and sees to it that nothing is left of that.
fn alone(test: &str, body: impl FnOnce(&str)) {
    match mark() {
        Some(mark) => body(&mark),
        None => {
            let mark = format!("{test}-{}", std::process::id());
            assert!(again(test, &mark).status().unwrap().success());
            assert!(all_gone(&mark), "{:?} are left", marked(&mark));
        }
    }
}

fn kill(pid: i32) {
    // SAFETY: a plain call; the pid is that of a process that this test has started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Of the processes with this mark, the child of this one.
fn worker(mark: &str) -> i32 {
    let me = std::process::id().to_string();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let all = marked(mark);
        let is_mine = |pid: &&i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.split_whitespace().nth(1) == Some(&me))
        };
        // this process, the worker, the run
        if all.len() == 3 {
            return *all.iter().find(is_mine).expect("a worker");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no worker")
}

#[test]
fn a_lost_worker_costs_one_run() {
    alone("a_lost_worker_costs_one_run", |mark| {
        let results = pool::map(
            2,
            2,
            |index| match index {
                0 => Some(result_of(&WAITS).unwrap_err().to_string()),
                _ => {
                    kill(worker(mark));
                    None
                }
            },
            |_| {},
        );
        let error = results.unwrap().swap_remove(0).unwrap().unwrap();
        assert_eq!(
            error,
            "the run is lost: its worker process was ended by signal 9 (SIGKILL: from outside, or out of memory)"
        );
        assert_eq!(result_of(&NOTHING).unwrap().report.end, RunEnd::AllDone);
        // one that is idle costs none
        let idle = marked(mark).into_iter().find(|pid| *pid as u32 != std::process::id()).unwrap();
        kill(idle);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(result_of(&NOTHING).unwrap().report.end, RunEnd::AllDone);
    });
}

#[test]
fn a_caller_that_is_killed_leaves_nothing() {
    const TEST: &str = "a_caller_that_is_killed_leaves_nothing";
    if mark().is_some() {
        // runs that end at once, and runs that never do
        let one = |index: usize| drop(result_of(if index % 3 == 2 { &WAITS } else { &NOTHING }));
        drop(pool::map(1_000_000, 4, one, |_| {}));
        return;
    }
    // from the exec to the middle of runs
    for (number, ms) in
        [0, 1, 2, 3, 5, 7, 9, 12, 15, 18, 22, 27, 35, 50, 80, 120, 200].into_iter().enumerate()
    {
        let mark = format!("killed-{number}-{}", std::process::id());
        let mut caller = again(TEST, &mark).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        let seen = marked(&mark).len();
        caller.kill().unwrap();
        caller.wait().unwrap();
        assert!(all_gone(&mark), "after {ms} ms: {:?} of {seen} are left", marked(&mark));
    }
}

#[test]
fn a_run_that_nobody_wants_ends() {
    alone("a_run_that_nobody_wants_ends", |mark| {
        let (workload, scheduler) = (small(), Scheduler::Native(&WAITS));
        let request = RunRequest::new(&workload, &scheduler, Topology::flat(1).unwrap());
        let mut asked = 0;
        let begun = Instant::now();
        let result = run_while(&request, &mut || {
            asked += 1;
            asked < 5
        });
        assert!(matches!(result, Err(RunError::Stopped)), "{result:?}");
        assert!(asked == 5 && begun.elapsed() < Duration::from_secs(20));
        let me = std::process::id() as i32;
        let left: Vec<i32> = marked(mark).into_iter().filter(|pid| *pid != me).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(
            run_while(
                &RunRequest::new(&workload, &Scheduler::Native(&NOTHING), Topology::flat(1).unwrap()),
                &mut || true
            )
            .unwrap()
            .report
            .end,
            RunEnd::AllDone
        );
    });
}

#[test]
fn what_a_scheduler_has_started_ends_with_its_run() {
    alone("what_a_scheduler_has_started_ends_with_its_run", |mark| {
        assert_eq!(result_of(&LEAVES).unwrap().report.end, RunEnd::AllDone);
        // this process and its worker
        assert_eq!(marked(mark).len(), 2, "{:?}", marked(mark));
    });
}

/// A registry that grows at run time has its entries on the heap.
#[test]
fn a_policy_need_not_be_a_static() {
    const RUN: schedlab_policies::ParamInfo =
        schedlab_policies::ParamInfo { name: "first", default: "no", help: "do something first" };
    let params = Box::leak(Box::new([RUN]));
    let made = PolicyInfo::new("made", "at run time", "this test", params, |params| {
        let first = params.value::<String>(&RUN, "a word")?;
        assert_eq!(first, "yes");
        Ok(Box::new(Doing { queue: Vec::new(), first: None }))
    });
    let (workload, scheduler) = (small(), Scheduler::Native(Box::leak(Box::new(made))));
    let mut request = RunRequest::new(&workload, &scheduler, Topology::flat(1).unwrap());
    request.params = vec![("first".into(), "yes".into())];
    assert_eq!(run(&request).unwrap().report.end, RunEnd::AllDone);
}
