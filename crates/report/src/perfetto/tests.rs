use super::*;
use proptest::prelude::*;
use schedlab_convert::unique_tids;
use schedlab_instruments::for_each_stay;
use schedlab_log::{MemLog, TextLog, synthetic::Config};
use schedlab_units::Span;

/// A decoded field: a number or bytes.
#[derive(Clone, Debug, PartialEq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn decode(mut bytes: &[u8]) -> Vec<(u32, Value<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a varint ends");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let number = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(number),
            2 => {
                let (content, rest) = bytes.split_at(number as usize);
                bytes = rest;
                Value::Bytes(content)
            }
            other => panic!("wire type {other}"),
        };
        fields.push(((tag >> 3) as u32, value));
    }
    fields
}

fn message<'a>(fields: &[(u32, Value<'a>)], field: u32) -> Option<&'a [u8]> {
    fields
        .iter()
        .find_map(|(f, v)| if let (true, Value::Bytes(b)) = (*f == field, v) { Some(*b) } else { None })
}

fn number(fields: &[(u32, Value<'_>)], field: u32) -> Option<u64> {
    fields
        .iter()
        .find_map(|(f, v)| if let (true, Value::Number(n)) = (*f == field, v) { Some(*n) } else { None })
}

#[derive(Clone, Debug)]
struct Event {
    ts: u64,
    cpu: u64,
    pid: u64,
    kind: u32,
    content: Vec<u8>,
}

/// What trace_processor's sorter makes of the file: events of a CPU in file order, all by (time, CPU).
fn events(trace: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    for (field, packet) in decode(trace) {
        assert_eq!(field, field::TRACE_PACKET);
        let Value::Bytes(packet) = packet else { panic!("a packet is a message") };
        let packet = decode(packet);
        let Some(bundle) = message(&packet, field::FTRACE_EVENTS) else { continue };
        let bundle = decode(bundle);
        let cpu = number(&bundle, field::BUNDLE_CPU).expect("a bundle has a CPU");
        for (_, event) in bundle.iter().filter(|(f, _)| *f == field::BUNDLE_EVENT) {
            let Value::Bytes(event) = event else { panic!("an event is a message") };
            let event = decode(event);
            let (kind, content) = event
                .iter()
                .find_map(|(f, v)| if let Value::Bytes(b) = v { Some((*f, b.to_vec())) } else { None })
                .expect("an event has content");
            let ts = number(&event, field::EVENT_TIMESTAMP).unwrap();
            events.push(Event { ts, cpu, pid: number(&event, field::EVENT_PID).unwrap(), kind, content });
        }
    }
    events.sort_by_key(|event| (event.ts, event.cpu)); // stable
    events
}

fn written(log: &MemLog) -> (Vec<u8>, PerfettoStats) {
    let mut out = Vec::new();
    let stats = write_perfetto(log, PerfettoOptions::default(), &mut out, Path::new("out")).unwrap();
    (out, stats)
}

/// Thread states as trace_processor's ThreadStateTracker derives them: (tid, state, cpu, start, end).
fn thread_states(events: &[Event]) -> Vec<(u64, String, Option<u64>, u64, u64)> {
    let mut open: BTreeMap<u64, (String, Option<u64>, u64)> = BTreeMap::new();
    let mut done = Vec::new();
    let mut set = |tid: u64, state: &str, cpu: Option<u64>, ts: u64| {
        if tid != 0
            && let Some((state, cpu, since)) = open.insert(tid, (state.to_string(), cpu, ts))
        {
            done.push((tid, state, cpu, since, ts));
        }
        if state == "gone" {
            open.remove(&tid);
        }
    };
    let mut current: BTreeMap<u64, u64> = BTreeMap::new();
    let mut blocked: BTreeMap<u64, bool> = BTreeMap::new();
    for event in events {
        let content = decode(&event.content);
        match event.kind {
            field::SCHED_SWITCH => {
                let (prev, next) = (number(&content, 2).unwrap(), number(&content, 6).unwrap());
                let before = current.insert(event.cpu, next);
                assert_eq!(before.unwrap_or(0), prev, "prev is what ran on the CPU");
                let (state, is_blocked) = match number(&content, 4).unwrap() {
                    0x100 => ("R+", false),
                    0 => ("R", false),
                    1 => ("S", true),
                    2 => ("D", true),
                    0x10 => ("X", true),
                    other => panic!("state {other}"),
                };
                set(prev, state, None, event.ts);
                blocked.insert(prev, is_blocked);
                set(next, "Running", Some(event.cpu), event.ts);
                blocked.insert(next, false);
            }
            field::SCHED_WAKING | field::TASK_NEWTASK => {
                let field = if event.kind == field::SCHED_WAKING { 2 } else { 1 };
                let tid = number(&content, field).unwrap();
                if blocked.insert(tid, false) != Some(false) {
                    set(tid, "R", None, event.ts);
                }
            }
            _ => {}
        }
    }
    done
}

fn check(config: Config) {
    let log = config.log();
    let (trace, stats) = written(&log);
    let events = events(&trace);
    assert_eq!(events.len() as u64, stats.events);
    // every run of the log is a slice on its CPU, of its task, in order; times within the stated shift
    let mut expected: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let tid = |task: TaskId| match task.kernel_pid() {
        Some(pid) => u64::from(pid),
        None => u64::from(log.header.tasks[task.index()].pid),
    };
    for_each_stay(&log, |run| {
        if run.stop.is_some() {
            let place = (tid(run.task), u64::from(run.cpu.0));
            expected.entry(place).or_default().push((run.start_ns, run.end_ns));
        }
    })
    .unwrap();
    let states = thread_states(&events);
    let mut found: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for (tid, state, cpu, since, until) in &states {
        if state == "Running" {
            found.entry((*tid, cpu.unwrap())).or_default().push((*since, *until));
        }
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{config:?}");
    for (place, runs) in &expected {
        assert_eq!(found[place].len(), runs.len(), "{place:?}");
        for (found, run) in found[place].iter().zip(runs) {
            let shift = [found.0 - run.0, found.1 - run.1];
            assert!(shift.iter().all(|ns| *ns <= stats.shift_max_ns), "{place:?} {run:?} {found:?}");
        }
    }
    // as many waits and sleeps as the log has: each run but a task's first comes after one of them
    for (tid, state, ..) in states.windows(1).map(|w| &w[0]) {
        assert!(["R", "R+", "S", "D", "X", "Running"].contains(&state.as_str()), "{tid} {state}");
    }
    let wakeups = log.records.iter().filter(|r| r.kind() == Some(Kind::Waking)).count();
    assert!(events.iter().filter(|e| e.kind == field::SCHED_WAKING).count() >= wakeups);
    assert!(stats.shift_max_ns < 1000, "{stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn perfetto_sees_the_runs_of_the_log(nr_cpus in 1u32..20, jobs in 0u32..30, seed: u64) {
        check(Config { nr_cpus, jobs, seed, duration: Span::from_ms(100), ..Config::default() });
    }
}

/// ```text
/// ms     0   1   2
/// cpu0   .   .   A      A is woken by B on cpu1 at 1 and runs on cpu0 in the same nanosecond
/// cpu1   B   B   B
/// ```
#[test]
fn a_wakeup_by_a_higher_cpu_comes_before_the_run_on_a_lower_one() {
    let text = r#"# schedlab log 1
# sched "drawn"
# cpus 2
# duration_ns 3000000
# task t0 pid=70 policy=fifo nice=0 rt_priority=10 name="A"
# task t1 pid=71 policy=normal nice=5 name="B"
0 cpu1 new t1 cpu1
0 cpu1 switch idle -> t1
1000000 cpu1 waking t0 by t1
1000000 cpu1 wakeup t0 cpu0
1000000 cpu0 switch idle -> t0
2000000 cpu0 switch t0 sleeping -> idle
# end 6
"#;
    let log = TextLog::parse(text, Path::new("drawn")).unwrap();
    let (trace, stats) = written(&log);
    assert_eq!((stats.shifted_events, stats.shift_max_ns), (1, 1));
    let events = events(&trace);
    let seen: Vec<(u64, u64, u64, u32)> = events.iter().map(|e| (e.ts, e.cpu, e.pid, e.kind)).collect();
    assert_eq!(
        seen,
        [
            (0, 1, 0, field::PRINT), // "schedlab: 71 is runnable from the start", for our own import
            (0, 1, 0, field::SCHED_WAKING), // B is there from the start: runnable from 0
            (0, 1, 0, field::SCHED_WAKEUP_NEW),
            (0, 1, 0, field::SCHED_SWITCH),
            (1_000_000, 1, 71, field::SCHED_WAKING), // the waker is B
            (1_000_001, 0, 0, field::SCHED_SWITCH),
            (2_000_000, 0, 70, field::SCHED_SWITCH),
            (3_000_000, 0, 0, field::PRINT),
        ]
    );
    let switch = decode(&events[5].content);
    assert_eq!(message(&switch, 1), Some(&b"swapper/0"[..]));
    assert_eq!(message(&switch, 5), Some(&b"A"[..]));
    // FIFO priority 10 is the kernel's 99 - 10; nice 5 is 125
    assert_eq!((number(&switch, 6), number(&switch, 7)), (Some(70), Some(89)));
    assert_eq!(number(&decode(&events[3].content), 7), Some(125));
}

#[test]
fn thread_ids_are_unique_and_kept_where_possible() {
    let tids = unique_tids([7, 7, 0, 2, 1 << 31, 100_000, 8].into_iter());
    assert_eq!(tids, [7, 100_001, 100_002, 2, 100_003, 100_000, 8]);
}

#[test]
fn a_forked_task_is_announced_with_its_name_and_parent() {
    let log = Config { nr_cpus: 2, duration: Span::from_ms(5), ..Config::default() }.log();
    let (trace, _) = written(&log);
    let fork = log.records.iter().find(|r| r.kind() == Some(Kind::Fork)).unwrap();
    let child = &log.header.tasks[fork.other().index()];
    let events = events(&trace);
    let event = events.iter().find(|e| e.kind == field::TASK_NEWTASK).unwrap();
    let content = decode(&event.content);
    assert_eq!(event.pid, u64::from(log.header.tasks[fork.task().index()].pid));
    assert_eq!(number(&content, 1), Some(child.pid.into()));
    assert_eq!(message(&content, 2), Some(child.name.as_bytes()));
    assert_eq!(content.len(), 3);
}
