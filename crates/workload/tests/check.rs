//! Every rule of the model is broken once, and told in its own words.

use schedlab_units::{CpuSet, DeadlineParams, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::{
    Birth, CgroupId, Event, EventId, EventKind, InitState, ParamChange, Task, Wakeup, Workload, parse_text,
};

fn problems(text: &str) -> Vec<String> {
    let workload = parse_text("w.txt", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    message_of(&workload)
}

fn message_of(workload: &Workload) -> Vec<String> {
    match workload.check() {
        Ok(()) => Vec::new(),
        Err(error) => {
            assert_eq!(error.nr_problems, error.problems.len() as u64);
            error.problems.iter().map(ToString::to_string).collect()
        }
    }
}

fn assert_told(problems: &[String], says: &str, about: &str) {
    assert_eq!(problems.len(), 1, "{about}: {problems:#?}");
    assert!(problems[0].contains(says), "{about}: expected {says:?} in {:?}", problems[0]);
}

#[test]
fn rules_of_objects() {
    let head = "OBJECT p channel\nOBJECT m mutex\nOBJECT c condition\nOBJECT b barrier parties=2\n\
        1 INIT 0 0 1 runnable name=a\n";
    for (text, says) in [
        ("- LOCK 1 1ms p\n", "task 1 (a), event 2 (LOCK): LOCK cannot be done at p, which is a channel"),
        ("- SEND 1 1ms m\n", "SEND cannot be done at m, which is a mutex"),
        ("- LOCK 1 1ms m\n- LOCK 1 2ms m\n", "locks m, which it holds already"),
        ("- UNLOCK 1 1ms m\n", "lets m go, but does not hold it"),
        ("- SIGNAL 1 0 c\n- WAIT 1 1ms c m\n", "lets m go, but does not hold it"),
        ("- SIGNAL 1 0 c\n- WAIT 1 1ms c p\n", "WAIT cannot be done at p"),
        ("- CLOSE 1 1ms p\n- SEND 1 1ms p\n", "uses p after it has closed it itself"),
        ("- RECV 1 1ms p\n", "object p: tasks wait here, but nobody ever sends"),
        (
            "- LOCK 1 0 m\n- WAIT 1 0 c m\n- UNLOCK 1 0 m\n",
            "object c: tasks wait here, but nobody ever sends, signals",
        ),
        ("- ARRIVE 1 1ms b\n", "object b: opens when 2 tasks have come, but only 1 ever come"),
        ("- SEND 1 1ms p\n- SEND 1 500us p\n", "its length 500us is less than the 1ms"),
    ] {
        assert_told(&problems(&format!("{head}{text}")), says, text);
    }
    for (object, says) in [
        ("x channel capacity=0", "object x: a channel holds 1 or more"),
        ("x channel capacity=2 start=3", "object x: a channel holds 1 or more"),
        ("x channel capacity=2 low=2", "lets senders in below it"),
        ("x barrier parties=0", "a barrier needs parties=1 or more"),
        ("\"\" mutex", "an object needs a name"),
    ] {
        assert_told(&problems(&format!("OBJECT {object}\n1 INIT 0 0 1 runnable name=a\n")), says, object);
    }
}

#[test]
fn lines_about_objects_are_refused_with_their_place() {
    let a = "1 INIT 0 0 1 runnable\n";
    for (text, column, says) in [
        ("- SEND 1 1ms p -3\n", 16, "a whole number from 1"),
        ("- SEND 1 1ms p 0\n", 16, "a whole number from 1"),
        ("- SEND 1 1ms p all\n", 16, "a whole number from 1"),
        ("- RECV 1 1ms p 0\n", 16, "or \"all\""),
        ("- SEND 1 1ms q\n", 14, "no line above declares the object q"),
        ("- SEND 1 1ms p 1 asleep\n", 18, "slept, awake"),
        ("- SENT 1 1ms p\n", 3, "did you mean SEND?"),
        ("- DEADLINE 1 1ms\n", 3, "kept for a later version"),
        ("OBJECT p mutex\n", 1, "declared on line 1 already"),
        ("OBJECT r pipe\n", 10, "channel, stream, semaphore, mutex"),
        ("OBJECT r mutex capacity=3\n", 16, "a mutex may have fifo, sync, sleep, wake, tail, closed"),
        ("OBJECT r channel capacity=x\n", 27, "a whole number"),
        ("OBJECT r barrier\n", 10, "needs parties="),
    ] {
        let error = parse_text("w.txt", format!("OBJECT p channel\n{a}{text}").as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{text}: {error}");
        assert_eq!((error.line, error.column), (3, column), "{text}: {error}");
    }
}

/// Every file in samples/hand keeps the rules, and stays what it is in the binary form.
#[test]
fn the_samples_with_objects_are_what_they_say() {
    for (name, objects) in [("pipe", 1), ("philosophers", 4), ("pool", 5)] {
        let path = format!("{}/../../samples/hand/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let workload = schedlab_workload::read_text(name, &std::fs::read(path).unwrap()).unwrap();
        assert_eq!((workload.objects.len(), workload.version()), (objects, 4), "{name}");
        let mut bytes = Vec::new();
        schedlab_workload::write_binary(&workload, &mut bytes).unwrap();
        assert_eq!(schedlab_workload::read_binary(&bytes[..]).unwrap(), workload);
    }
}

#[test]
fn rules_that_text_can_break() {
    let a = "1 INIT 0 0 1 runnable name=a\n";
    let ab = "1 INIT 0 0 1 runnable name=a\n2 INIT 0 0 2 blocked name=b\n";
    for (text, says) in [
        // order of a task's events
        (
            format!("{a}- BLOCK 1 1ms\n9 YIELD 1 2ms\n"),
            "task 1 (a), event 9 (YIELD): a blocked task cannot run",
        ),
        (format!("{a}- BLOCK 1 1ms\n- BLOCK 1 2ms\n"), "a blocked task cannot run"),
        (format!("{a}- WAKEUP 1 1ms\n"), "no BLOCK before this WAKEUP"),
        (format!("{a}- BLOCK 1 1ms\n- WAKEUP 1 1ms\n- WAKEUP 1 1ms\n"), "no BLOCK before this WAKEUP"),
        (format!("{ab}- YIELD 2 1ms\n"), "a blocked task cannot run"),
        (format!("{a}- EXIT 1 1ms\n- YIELD 1 2ms\n"), "after the task's EXIT"),
        (format!("{a}- EXIT 1 1ms\n- FORK 1 2ms 2\n"), "after the task's EXIT"),
        (format!("{a}- YIELD 1 2ms\n- YIELD 1 1ms\n"), "its length 1ms is less than the 2ms"),
        (format!("{a}- BLOCK 1 18446744073s\n- WAKEUP 1 18446744073s\n"), "584 years"),
        // identifiers
        (format!("{a}1 YIELD 1 2ms\n"), "identifier 1 occurs more than once"),
        (
            format!("{a}999999999 YIELD 1 2ms\n999999999 YIELD 1 3ms\n"),
            "identifier 999999999 occurs more than once",
        ),
        // births
        ("1 INIT 1 0 1 runnable\n".into(), "its own parent"),
        (format!("{a}- FORK 2 1ms 3\n- FORK 3 1ms 2\n"), "leads back to itself"),
        (format!("{a}- FORK 2 1ms 2\n"), "its own parent"),
        // dependencies
        (
            format!("{ab}- WAKEUP 2 0 7 1 0\n"),
            "waits for event 7 of task 1, but no event has that identifier",
        ),
        (format!("{ab}- WAKEUP 2 0 7 2 0\n- BLOCK 2 1ms\n"), "waits for an event of its own task"),
        (format!("{ab}- WAKEUP 2 0 7 1 0\n7 YIELD 2 1ms\n"), "that event is task 2's"),
        (format!("{ab}- WAKEUP 2 0 1 1 0\n"), "which is INIT"),
        (format!("{ab}- WAKEUP 2 0 7 1 0\n- BLOCK 1 1ms\n7 WAKEUP 1 1ms\n"), "which is WAKEUP"),
        (format!("{ab}- WAKEUP 2 0 7 1 5ms\n7 YIELD 1 4ms\n"), "only 4ms after the waker's own wakeup"),
        (
            format!("{ab}- WAKEUP 2 0 7 1 5ms\n- YIELD 1 2ms\n7 YIELD 1 4ms\n"),
            "only 4ms after the waker's own",
        ),
        // settings
        (format!("{a}- PRIO 1 1ms\n"), "changes nothing"),
        (format!("{a}- PRIO 1 1ms target=1\n"), "changes nothing"),
        ("1 INIT 0 0 1 runnable affinity=\n".into(), "allowed CPUs is empty"),
        (format!("{a}- PRIO 1 1ms affinity=\n"), "allowed CPUs is empty"),
        ("1 INIT 0 0 1 runnable policy=fifo\n".into(), "expected prio=1 to prio=99"),
        ("1 INIT 0 0 1 runnable policy=rr prio=100\n".into(), "policy rr with real-time priority 100"),
        ("1 INIT 0 0 1 runnable policy=normal prio=5\n".into(), "only fifo and rr have one"),
        ("1 INIT 0 0 1 runnable policy=deadline\n".into(), "needs runtime="),
        (
            "1 INIT 0 0 1 runnable policy=fifo prio=1 runtime=1ms period=2ms\n".into(),
            "policy fifo has no runtime",
        ),
        ("1 INIT 0 0 1 runnable policy=deadline runtime=3ms period=2ms\n".into(), "runtime <= deadline"),
        ("1 INIT 0 0 1 runnable policy=deadline runtime=1us period=2ms\n".into(), "1024ns <= runtime"),
        // control groups
        ("CGROUP a\n".into(), "cgroup a: is not a path"),
        ("CGROUP /a/\n".into(), "is not a path"),
        ("CGROUP /a/../b\n".into(), "is not a path"),
        ("CGROUP /a/b\n".into(), "its parent /a is not declared before it"),
        ("CGROUP / weight=5\n".into(), "the root has no settings"),
        ("CGROUP /a weight=0\n".into(), "weight 0 is out of range"),
        ("CGROUP /a weight=10001\n".into(), "weight 10001 is out of range"),
        ("CGROUP /a max=999us/100ms\n".into(), "quota of at least 1ms"),
        ("CGROUP /a max=1ms/2s\n".into(), "period of 1ms to 1s"),
        ("CGROUP /a cpuset=\n".into(), "allowed CPUs is empty"),
    ] {
        assert_told(&problems(&text), says, &text);
    }
}

#[test]
fn what_is_allowed_passes() {
    let a = "1 INIT 0 0 1 runnable name=a\n";
    for text in [
        "".to_string(),
        "# nothing happens\nschedlab-workload 1\n".into(),
        format!("{a}- BLOCK 1 1ms\n"), // blocked for the rest of the run
        format!("{a}- BLOCK 1 0\n- WAKEUP 1 0\n- EXIT 1 0\n"), // everything takes no time
        format!("{a}- INIT 0 0 2 blocked\n"), // blocked throughout
        format!("{a}- INIT 0 0 2 blocked\n- WAKEUP 2 0 7 1 2ms\n- YIELD 1 2ms\n7 YIELD 1 4ms\n"),
        // past an event of the waker: WARP's deid need not be the waker's next event
        format!("{a}- INIT 0 0 2 blocked\n- WAKEUP 2 0 7 1 4ms\n- YIELD 1 2ms\n7 YIELD 1 4ms\n"),
        format!("{a}- FORK 1 1ms 2\n- FORK 2 1ms 3\n- EXIT 3 1ms\n- EXIT 1 2ms\n"),
        "CGROUP /\nCGROUP /a\nCGROUP /a/b weight=1 max=1ms/1s\n1 INIT 0 0 1 runnable cgroup=/\n".into(),
        "1 INIT 0 0 1 runnable policy=deadline runtime=1024ns period=1024ns\n".into(),
    ] {
        let text = if text.is_empty() { "schedlab-workload 1\n".to_string() } else { text };
        assert_eq!(problems(&text), Vec::<String>::new(), "{text}");
    }
}

fn task(pid: u32, birth: Birth) -> Task {
    Task {
        pid,
        name: "x".into(),
        birth,
        params: None,
        affinity: None,
        cgroup: None,
        kernel_thread: false,
        events: Vec::new(),
    }
}

fn init(eid: u64) -> Birth {
    Birth::Init { eid: EventId(eid), parent: None, state: InitState::Runnable }
}

fn with_event(kind: EventKind) -> Workload {
    let mut first = task(1, init(1));
    first.events.push(Event { eid: EventId(2), kind });
    Workload { tasks: vec![first, task(2, init(3))], ..Workload::default() }
}

#[test]
fn rules_that_only_a_program_can_break() {
    let fork = |child| EventKind::Fork { length: Span::ZERO, child: TaskId(child) };
    let prio = |change| EventKind::Prio { length: Span::ZERO, change: Box::new(change) };
    let target =
        ParamChange { target: Some(TaskId(9)), affinity: Some(CpuSet::first(1)), ..ParamChange::default() };
    let waker = Wakeup::Dependent {
        recorded_after: Span::ZERO,
        event: EventId(1),
        task: TaskId(7),
        distance: Span::ZERO,
    };
    let mut blocked = with_event(EventKind::Wakeup(waker));
    blocked.tasks[0].birth = Birth::Init { eid: EventId(1), parent: None, state: InitState::Blocked };
    let tasks = |tasks: Vec<Task>| Workload { tasks, ..Workload::default() };
    let child = |parent| Birth::Fork { parent: TaskId(parent) };
    let mut twice = tasks(vec![task(1, init(1)), task(2, child(0))]);
    twice.tasks[0].events =
        [2, 3].map(|eid| Event { eid: EventId(eid), kind: fork(1) }).into_iter().collect();
    let mut others = tasks(vec![task(1, init(1)), task(2, init(2)), task(3, child(0))]);
    others.tasks[0].events = vec![Event { eid: EventId(3), kind: fork(2) }];
    others.tasks[1].events = vec![Event { eid: EventId(4), kind: fork(2) }];
    let mut cgroup = tasks(vec![task(1, init(1))]);
    cgroup.tasks[0].cgroup = Some(CgroupId(0));
    let mut deadline = tasks(vec![task(1, init(1))]);
    let params = DeadlineParams { runtime: Span::ZERO, deadline: Span::ZERO, period: Span::ZERO };
    deadline.tasks[0].params =
        Some(SchedParams { policy: SchedPolicy::Deadline, deadline: Some(params), ..SchedParams::default() });
    for (workload, says) in [
        (tasks(vec![task(1, init(1)), task(1, init(2))]), "pid 1 belongs to an earlier task too"),
        (tasks(vec![task(0, init(1))]), "pid 0 means"),
        (tasks(vec![task(1, init(0))]), "identifier 0 means"),
        (tasks(vec![task(1, init(1)), task(2, child(0))]), "no FORK event creates it"),
        (tasks(vec![task(1, child(8))]), "its parent is task row 8, but the workload has 1 tasks"),
        (with_event(fork(5)), "the child is task row 5"),
        (with_event(fork(1)), "there from the start"),
        (with_event(prio(target)), "the target is task row 9"),
        (blocked, "the waker is task row 7"),
        (twice, "which an earlier FORK created"),
        (others, "whose parent is said to be task 1"),
        (cgroup, "names control group 0, but the workload has only 0"),
        (deadline, "runtime <= deadline"),
    ] {
        assert_told(&message_of(&workload), says, says);
        assert!(schedlab_workload::find_deadlock(&workload).is_none()); // and never panics
        let _ = workload.to_text();
    }
}

#[test]
fn many_problems_are_counted() {
    let text = "- INIT 0 0 1 runnable\nREPEAT 1000 {\n- BLOCK 1 1ms\n}\n";
    let error = parse_text("w.txt", text.as_bytes()).unwrap().check().unwrap_err();
    assert_eq!((error.problems.len(), error.nr_problems), (20, 999));
    assert!(error.to_string().ends_with("and 979 more"), "{error}");
}
