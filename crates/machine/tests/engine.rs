//! The machine on native policies: drawn schedules first, then properties of random workloads.

use proptest::prelude::*;
use schedlab_log::{Kind, PrevState, Record};
use schedlab_machine::kernel::{Fault, FaultKind, Kernel};
use schedlab_machine::native::Native;
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_machine::{End, EndlessWait, Machine, Outcome, Program, Setup, WaitsFor};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::*;

fn ms(n: u64) -> Span {
    Span::from_ms(n)
}

fn task(pid: u32, birth: Birth, events: Vec<EventKind>) -> Task {
    let events = events.into_iter().enumerate();
    Task {
        pid,
        name: format!("task{pid}"),
        birth,
        params: None,
        affinity: None,
        cgroup: None,
        kernel_thread: false,
        events: events
            .map(|(i, kind)| Event { eid: EventId(u64::from(pid) * 1000 + i as u64), kind })
            .collect(),
    }
}

const RUNNABLE: Birth = Birth::Init { eid: EventId(0), parent: None, state: InitState::Runnable };
const BLOCKED: Birth = Birth::Init { eid: EventId(0), parent: None, state: InitState::Blocked };

fn block(length: u64) -> EventKind {
    EventKind::Block { length: ms(length) }
}
fn exit(length: u64) -> EventKind {
    EventKind::Exit { length: ms(length) }
}
fn sleep(after: u64) -> EventKind {
    EventKind::Wakeup(Wakeup::External { after: ms(after), source: ExternalSource::Timer })
}
/// Woken by task number `task` (pid = number + 1), `distance` ms of its CPU time before its event number `event`.
fn woken_by(task: u32, event: u64, distance: u64) -> EventKind {
    EventKind::Wakeup(Wakeup::Dependent {
        recorded_after: Span::ZERO,
        event: EventId(u64::from(task + 1) * 1000 + event),
        task: TaskId(task),
        distance: ms(distance),
    })
}

fn run_with(
    policy: Box<dyn Policy>,
    nr_cpus: u32,
    duration: Option<Span>,
    tasks: &[Task],
) -> (Outcome, Vec<Record>) {
    let workload = Workload { tasks: tasks.to_vec(), ..Workload::default() };
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup { topology: Topology::flat(nr_cpus).unwrap(), duration, params: Vec::new() };
    let program = Program::new(&workload).unwrap();
    let mut machine = Machine::new(Native::new(policy, &mut records), program, setup);
    let outcome = machine.run();
    assert_eq!(machine.kernel().read_out().tasks.len(), tasks.len());
    drop(machine);
    (outcome, records)
}

fn run(sched: &str, nr_cpus: u32, duration: Option<Span>, tasks: &[Task]) -> (Outcome, Vec<Record>) {
    run_with(schedlab_policies::find(sched).unwrap().build(&[]).unwrap(), nr_cpus, duration, tasks)
}

/// `12ms cpu0 t0>t1` for each switch.
fn switches(records: &[Record]) -> Vec<String> {
    let switches = records.iter().filter(|r| r.kind() == Some(Kind::Switch));
    switches.map(|r| format!("{} {} {}>{}", r.time(), r.cpu(), r.task(), r.other())).collect()
}

/// CPU time of each task, from the switches alone; also checks that no task is in two places.
fn cpu_times(records: &[Record], nr_cpus: u32, nr_tasks: usize, end: Span) -> Vec<Span> {
    let mut current = vec![(0, TaskId::IDLE); nr_cpus as usize];
    let mut times = vec![Span::ZERO; nr_tasks];
    let mut last_ns = 0;
    for record in records {
        assert!(record.time_ns >= last_ns, "time goes backwards: {record:?}");
        last_ns = record.time_ns;
        if record.kind() == Some(Kind::Switch) {
            let (since_ns, previous) = current[record.cpu().index()];
            assert_eq!(previous, record.task(), "the task switched out was not running: {record:?}");
            if previous.is_workload() {
                times[previous.index()] += Span::from_ns(record.time_ns - since_ns);
            }
            let next = record.other();
            assert!(
                next.is_idle() || current.iter().all(|(_, task)| *task != next),
                "{next} is in two places"
            );
            current[record.cpu().index()] = (record.time_ns, next);
        }
    }
    for (since_ns, task) in current {
        if task.is_workload() {
            times[task.index()] += Span::from_ns(end.as_ns() - since_ns);
        }
    }
    times
}

/// A task that computes 2 ms and waits for its timer, three times, and a hog, first in, first out on one CPU.
fn periodic_and_hog(source: ExternalSource, hog_ms: u64) -> Span {
    let wait = EventKind::Wakeup(Wakeup::External { after: ms(5), source });
    let periodic = vec![block(2), wait.clone(), block(2), wait.clone(), block(2), wait, exit(2)];
    let (outcome, _) =
        run("fifo", 1, None, &[task(1, RUNNABLE, periodic), task(2, RUNNABLE, vec![exit(hog_ms)])]);
    assert_eq!(outcome.end, End::AllDone);
    outcome.duration
}

#[test]
fn a_periodic_timer_keeps_its_grid_or_starts_it_anew() {
    // ms       0         1         2
    //          0123456789012345678901
    // expiry        |    |    |    |      5 10 15 20
    // grid     PPhhhhhhhhhPPPPPP          late for 10 at 13, and at 15 the third expiry is there: no sleep
    assert_eq!(periodic_and_hog(ExternalSource::Grid, 9), ms(17));
    // restart  PPhhhhhhhhhPPPP...PP       late for 10 at 13: the next expiry is 13 + 5
    assert_eq!(periodic_and_hog(ExternalSource::GridRestart, 9), ms(20));
    // A sleep counts from the block: 13 + 5, 20 + 5.
    assert_eq!(periodic_and_hog(ExternalSource::Timer, 9), ms(27));
    // a period late, at 16 for 10
    // grid     PPhhhhhhhhhhhhPPPPPP       all three are there
    assert_eq!(periodic_and_hog(ExternalSource::Grid, 12), ms(20));
    // skip     PPhhhhhhhhhhhhPPPP..PP     10 is given up, 15 is there, 20 is to come
    assert_eq!(periodic_and_hog(ExternalSource::GridSkip, 12), ms(22));
}

#[test]
fn a_task_may_begin_with_its_timer() {
    let wait = |after| EventKind::Wakeup(Wakeup::External { after: ms(after), source: ExternalSource::Grid });
    // Blocked until 3, 1 ms of work, until 3 + 4, 1 ms of work.
    let (outcome, _) = run("fifo", 1, None, &[task(1, BLOCKED, vec![wait(3), block(1), wait(4), exit(1)])]);
    assert_eq!(outcome.duration, ms(8));
}

#[test]
fn a_producer_wakes_a_consumer() {
    // ms   0         1
    //      0123456789012
    // cpu0 PPPPPP              P runs 6 ms; 2 ms before its end it wakes C
    // cpu1     CCC             C was blocked from the start, runs 3 ms from 4
    let tasks = [task(1, RUNNABLE, vec![exit(6)]), task(2, BLOCKED, vec![woken_by(0, 0, 2), exit(3)])];
    let (outcome, records) = run("fifo", 2, None, &tasks);
    assert_eq!(outcome.end, End::AllDone);
    assert_eq!(outcome.duration, ms(7));
    assert_eq!(
        switches(&records),
        ["0ns cpu0 idle>t0", "4ms cpu1 idle>t1", "6ms cpu0 t0>idle", "7ms cpu1 t1>idle"]
    );
    let waking = records.iter().find(|r| r.kind() == Some(Kind::Waking)).unwrap();
    assert_eq!((waking.task(), waking.other(), waking.flags), (TaskId(1), TaskId(0), 0));
}

/// Within a system call nobody else gets the CPU: who wakes a task of higher priority and then sleeps or ends does that
/// first.
#[test]
fn what_a_call_wakes_comes_when_the_call_is_over() {
    // ms   0         1
    //      01234567890         A wakes B at 4, and ends at 4; B has the higher priority
    // cpu0 AAAABBB.            without CALL: A is preempted at 4, and ends at 7
    let fifo = |rt_priority| SchedParams { policy: SchedPolicy::Fifo, rt_priority, ..SchedParams::default() };
    let ends = |calls: bool| {
        let events: Vec<EventKind> = calls.then(|| call_at(4)).into_iter().chain([exit(4)]).collect();
        let last = events.len() as u64 - 1;
        let mut tasks = [task(1, RUNNABLE, events), task(2, BLOCKED, vec![woken_by(0, last, 0), exit(3)])];
        (tasks[0].params, tasks[1].params) = (Some(fifo(1)), Some(fifo(2)));
        let (outcome, records) = run("posix", 1, None, &tasks);
        assert_eq!((outcome.end, outcome.duration), (End::AllDone, ms(7)));
        records.iter().find(|r| r.kind() == Some(Kind::Exit) && r.task() == TaskId(0)).unwrap().time()
    };
    assert_eq!([ends(false), ends(true)].map(|at| at.as_ns()), [7_000_000, 4_000_000]);
    // a sleep whose wakeup has come already ends the call, too
    // ms   0         1
    //      01234567890         C wakes A before A runs; A wakes B at 3, does not sleep, and is preempted then
    // cpu0 CAABAAA
    let mut tasks = [
        task(1, RUNNABLE, vec![call_at(2), block(2), woken_by(2, 0, 0), exit(3)]),
        task(2, BLOCKED, vec![woken_by(0, 1, 0), exit(1)]),
        task(3, RUNNABLE, vec![exit(1)]),
    ];
    for (task, rt_priority) in tasks.iter_mut().zip([1, 2, 3]) {
        task.params = Some(fifo(rt_priority));
    }
    let (outcome, records) = run("posix", 1, None, &tasks);
    assert_eq!((outcome.end, outcome.tokens_early), (End::AllDone, 1));
    assert_eq!(
        switches(&records),
        ["0ns cpu0 idle>t2", "1ms cpu0 t2>t0", "3ms cpu0 t0>t1", "4ms cpu0 t1>t0", "7ms cpu0 t0>idle"]
    );
}

fn call_at(length: u64) -> EventKind {
    EventKind::Call { length: ms(length) }
}

#[test]
fn a_wakeup_that_comes_early_is_kept() {
    // one CPU, FIFO: P runs first (it wakes C at 4), C has not blocked yet when the wakeup comes, and so never sleeps
    // ms   0         1
    //      01234567890
    // cpu0 PPPPPPCCCCC         C: 2 ms, block (kept wakeup: goes on at once), 3 ms
    let tasks =
        [task(1, RUNNABLE, vec![exit(6)]), task(2, RUNNABLE, vec![block(2), woken_by(0, 0, 2), exit(3)])];
    let (outcome, records) = run("fifo", 1, None, &tasks);
    assert_eq!(outcome.tokens_early, 1);
    assert_eq!(switches(&records), ["0ns cpu0 idle>t0", "6ms cpu0 t0>t1", "11ms cpu0 t1>idle"]);
}

#[test]
fn forks_yields_and_blocked_starts() {
    // ms   0         1
    //      0123456789012345
    // cpu0 AABBAAACCC          A forks B at 2 and yields; B exits after 2 ms; C sleeps from the start for 5 ms
    let tasks = [
        task(
            1,
            RUNNABLE,
            vec![
                EventKind::Fork { length: ms(2), child: TaskId(1) },
                EventKind::Yield { length: ms(2) },
                exit(5),
            ],
        ),
        task(2, Birth::Fork { parent: TaskId(0) }, vec![exit(2)]),
        task(3, BLOCKED, vec![sleep(5), exit(3)]),
    ];
    let (outcome, records) = run("fifo", 1, None, &tasks);
    assert_eq!(outcome.end, End::AllDone);
    assert_eq!(
        switches(&records),
        ["0ns cpu0 idle>t0", "2ms cpu0 t0>t1", "4ms cpu0 t1>t0", "7ms cpu0 t0>t2", "10ms cpu0 t2>idle"]
    );
    let yielded = records.iter().find(|r| r.kind() == Some(Kind::Switch) && r.time_ns == 2_000_000).unwrap();
    assert_eq!(PrevState::from_number(yielded.flags), Some(PrevState::Yielded));
}

#[test]
fn affinity_moves_a_running_task() {
    // A runs on cpu0, and after 3 ms restricts itself to cpu1
    let change = ParamChange { affinity: Some("1".parse().unwrap()), ..ParamChange::default() };
    let tasks =
        [task(1, RUNNABLE, vec![EventKind::Prio { length: ms(3), change: Box::new(change) }, exit(5)])];
    let (outcome, records) = run("fifo", 2, None, &tasks);
    assert_eq!(outcome.duration, ms(5));
    assert_eq!(
        switches(&records),
        ["0ns cpu0 idle>t0", "3ms cpu0 t0>idle", "3ms cpu1 idle>t0", "5ms cpu1 t0>idle"]
    );
}

#[test]
fn tasks_that_wait_for_each_other_are_a_deadlock_not_a_hang() {
    let tasks = [
        task(1, RUNNABLE, vec![block(1), woken_by(1, 2, 1), exit(3)]),
        task(2, RUNNABLE, vec![block(1), woken_by(0, 2, 1), exit(3)]),
    ];
    let (outcome, _) = run("fifo", 1, Some(Span::from_s(1000)), &tasks);
    let End::Deadlock(waits) = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(outcome.duration, ms(2));
    let waits_for = WaitsFor::Event { waker: TaskId(1), before_event: 2002 };
    assert_eq!(waits[0], EndlessWait { task: TaskId(0), waits_for });
    assert!(matches!(waits[1].waits_for, WaitsFor::Event { waker: TaskId(0), .. }));
    assert_eq!(waits[1].task, TaskId(1));
}

#[test]
fn the_duration_ends_a_run_exactly() {
    let (outcome, records) = run("rr", 2, Some(ms(25)), &[task(1, RUNNABLE, vec![exit(1000)])]);
    assert_eq!((outcome.end, outcome.duration), (End::Duration, ms(25)));
    assert_eq!(cpu_times(&records, 2, 1, ms(25)), [ms(25)]);
    assert!(!outcome.finished[0]);
}

/// Picks a task that is blocked.
#[derive(Default)]
struct Broken(Vec<TaskId>);
impl Policy for Broken {
    fn task_new(&mut self, _: &View, task: TaskId) {
        self.0.push(task);
    }
    fn select_cpu(&mut self, _: &View, _: TaskId, _: Arrival) -> CpuId {
        CpuId(0)
    }
    fn enqueue(&mut self, _: &View, _: CpuId, _: TaskId, _: Arrival) {}
    fn dequeue(&mut self, _: &View, _: CpuId, _: TaskId) {}
    fn pick_next(&mut self, _: &View, _: CpuId) -> Option<TaskId> {
        self.0.first().copied()
    }
    fn put_prev(&mut self, _: &View, _: CpuId, _: TaskId, _: Span, _: Stop) {}
}

#[test]
fn a_broken_policy_ends_with_the_rule_it_broke() {
    let tasks = [task(1, RUNNABLE, vec![block(1), sleep(1), exit(1)])];
    let (outcome, _) = run_with(Box::<Broken>::default(), 1, None, &tasks);
    let End::Fault(Fault { kind, reason }) = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(kind, FaultKind::Contract);
    assert!(reason.contains("which is blocked"), "{reason}");
}

/// Random workloads: sleeps, forks, yields, nice changes, wakeups by earlier tasks (so that none waits in a circle).
fn arbitrary_tasks() -> impl Strategy<Value = Vec<Task>> {
    proptest::collection::vec(proptest::collection::vec((0u8..6, 0u64..5000, 0u64..9000), 0..12), 1..9)
        .prop_map(|lives| {
            let mut tasks: Vec<Task> = Vec::new();
            for (index, life) in lives.iter().enumerate() {
                let mut events = Vec::new();
                let mut length = Span::ZERO;
                for &(what, run_us, after_us) in life {
                    length += Span::from_us(run_us);
                    match what {
                        0 => events.push(EventKind::Yield { length }),
                        1 => {
                            let params =
                                Some(SchedParams::normal(Nice::new((run_us % 40) as i32 - 20).unwrap()));
                            let change = ParamChange { params, ..ParamChange::default() };
                            events.push(EventKind::Prio { length, change: Box::new(change) });
                        }
                        2 if index > 0 => {
                            // woken by an event of an earlier task
                            let waker = after_us as usize % index;
                            let choices: Vec<(EventId, Span)> = tasks[waker]
                                .events
                                .iter()
                                .filter_map(|e| e.kind.length().map(|l| (e.eid, l)))
                                .collect();
                            let (event, limit) = choices[run_us as usize % choices.len()];
                            events.push(EventKind::Block { length });
                            events.push(EventKind::Wakeup(Wakeup::Dependent {
                                recorded_after: Span::ZERO,
                                event,
                                task: TaskId(waker as u32),
                                distance: Span::from_ns(after_us % (limit.as_ns() + 1)),
                            }));
                            length = Span::ZERO;
                        }
                        _ => {
                            events.push(EventKind::Block { length });
                            let source =
                                if what == 3 { ExternalSource::Device } else { ExternalSource::Timer };
                            events.push(EventKind::Wakeup(Wakeup::External {
                                after: Span::from_us(after_us),
                                source,
                            }));
                            length = Span::ZERO;
                        }
                    }
                }
                events.push(EventKind::Exit { length });
                let birth = if index % 3 == 2 { BLOCKED } else { RUNNABLE };
                if birth == BLOCKED {
                    events.insert(
                        0,
                        EventKind::Wakeup(Wakeup::External { after: ms(1), source: ExternalSource::Timer }),
                    );
                }
                tasks.push(task(index as u32 + 1, birth, events));
            }
            tasks
        })
}

proptest! {
    /// Every task gets exactly the CPU time it asks for, is never in two places, and a second run gives the same bytes.
    #[test]
    fn random_workloads_are_served_exactly(tasks in arbitrary_tasks(), nr_cpus in 1u32..5, rr in any::<bool>()) {
        let sched = if rr { "rr" } else { "fifo" };
        let (outcome, records) = run(sched, nr_cpus, None, &tasks);
        prop_assert_eq!(&outcome.end, &End::AllDone);
        let times = cpu_times(&records, nr_cpus, tasks.len(), outcome.duration);
        for (task, time) in tasks.iter().zip(&times) {
            prop_assert_eq!(*time, task.cpu_demand(), "{}", task.name);
        }
        let (_, again) = run(sched, nr_cpus, None, &tasks);
        prop_assert_eq!(records, again);
    }
}
