use super::*;
use crate::{
    Fact, Hidden, KernelThread, Kind, LogError, LogGroup, LogHeader, LogTask, MemLog, ObservedBy, Record,
};
use proptest::prelude::*;
use schedlab_units::{CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span, TaskId};
use std::path::Path;

/// The example of the module's documentation.
const EXAMPLE: &str = r#"# schedlab log 1
# sched "fifo"
# sched_version "0.1.0"
# cpus 2
# hz 0
# duration_ns 20000000
# task t0 pid=17 policy=normal nice=0 name="gzip"
# kernel_thread k12 name="migration/0"
            0 cpu0 new t0 cpu0
            0 cpu0 switch idle -> t0
      4000000 cpu0 switch t0 sleeping -> idle
     10000000 cpu0 waking t0 by idle irq
     10000000 cpu0 migrate t0 cpu0 -> cpu1
     10000000 cpu0 wakeup t0 cpu1
     10000000 cpu1 switch idle -> t0
     12000000 cpu1 params t0 policy=normal nice=5 rt_priority=0 affinity
     20000000 cpu1 exit t0
     20000000 cpu1 switch t0 dead -> idle
# end 10
"#;

fn parse(text: &str) -> Result<MemLog, LogError> {
    TextLog::parse(text, Path::new("test.log"))
}

fn write(log: &MemLog) -> String {
    let mut out = Vec::new();
    write_text(log, &mut out, Path::new("out")).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_example_means_what_the_record_says() {
    let log = parse(EXAMPLE).unwrap();
    assert_eq!((log.header.nr_cpus, log.header.duration), (2, Span::from_ms(20)));
    let largest = parse(&EXAMPLE.replacen("# cpus 2", "# cpus 65536", 1)).unwrap();
    assert_eq!(largest.header.nr_cpus, 65_536);
    assert_eq!(log.header.tasks[0].name, "gzip");
    let idle = TaskId::IDLE.0;
    let r = |time_ns, cpu, kind: Kind, task, other, flags, arg, value| Record {
        time_ns,
        kind: kind as u8,
        flags,
        cpu,
        task,
        other,
        arg,
        value,
    };
    let ms = 1_000_000;
    assert_eq!(
        log.records,
        [
            r(0, 0, Kind::New, 0, idle, 0, 0, 0),
            r(0, 0, Kind::Switch, idle, 0, 0, 0, 0),
            r(4 * ms, 0, Kind::Switch, 0, idle, 2, 0, 0),
            r(10 * ms, 0, Kind::Waking, 0, idle, 1, 0, 0),
            r(10 * ms, 0, Kind::Migrate, 0, 1, 0, 0, 0),
            r(10 * ms, 0, Kind::Wakeup, 0, idle, 0, 1, 0),
            r(10 * ms, 1, Kind::Switch, idle, 0, 0, 0, 0),
            r(12 * ms, 1, Kind::Params, 0, idle, 1, 0, 5 << 8),
            r(20 * ms, 1, Kind::Exit, 0, idle, 0, 0, 0),
            r(20 * ms, 1, Kind::Switch, 0, idle, 4, 0, 0),
        ]
    );
    assert_eq!(write(&log), EXAMPLE);
}

#[test]
fn errors_name_the_line_and_what_is_expected() {
    for (from, to, line, problem) in [
        (
            "4000000 cpu0 switch t0 sleeping",
            "4000000 cpu0 switch t0 snoring",
            11,
            "'snoring' is not preempted",
        ),
        ("switch t0 sleeping -> idle", "switch t0 -> idle", 11, "why did t0 stop?"),
        ("4000000 cpu0", "-4 cpu0", 11, "the time is not a number"),
        ("cpu0 waking t0 by idle", "cpu0 waking t0 by", 12, "'irq': expected idle, tN or kN"),
        ("cpu0 wakeup t0 cpu1", "cpu0 wakeup t0", 14, "the line ends where a CPU"),
        ("cpu0 wakeup t0 cpu1", "cpu0 woke t0 cpu1", 14, "unknown kind 'woke'"),
        ("cpu0 wakeup t0 cpu1", "cpu70000 wakeup t0 cpu1", 14, "cpu70000 is beyond"),
        ("cpu0 wakeup t0 cpu1", "cpu0 wakeup t0 cpu1 now", 14, "unexpected 'now'"),
        ("# end 10", "# end 11", 19, "the number of records is 10"),
        ("# cpus 2", "# cpus two", 4, "'two' is not a number of CPUs"),
        ("# cpus 2", "# cpus 65537", 4, "65537 CPUs; a log has at most 65536"),
        ("# cpus 2\n", "", 8, "a header line '# cpus ...' is expected"),
        ("# task t0", "# task t1", 7, "expected task t0"),
        ("nice=0 name", "nice=77 name", 7, "'77' is not a nice value"),
        ("\"gzip\"", "gzip", 7, "expected a JSON string"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        match parse(&EXAMPLE.replacen(from, to, 1)) {
            Err(LogError::Line { line: at, problem: found, .. }) => {
                assert!(at == line && found.contains(problem), "{to}: line {at}, {found}");
            }
            other => panic!("{to}: {other:?}"),
        }
    }
}

#[test]
fn cut_foreign_and_future_files_are_refused() {
    let cut = |bytes: usize| parse(&EXAMPLE[..bytes]);
    for bytes in 0..EXAMPLE.len() - 1 {
        assert!(cut(bytes).is_err(), "cut at byte {bytes}");
    }
    let before_end = EXAMPLE.find("# end").unwrap();
    assert!(matches!(cut(before_end), Err(LogError::Truncated { .. })));
    assert!(matches!(parse("PK\u{3}\u{4}"), Err(LogError::NotALog { .. })));
    assert!(matches!(parse(""), Err(LogError::NotALog { .. })));
    let future = EXAMPLE.replacen("log 1", "log 3", 1);
    match parse(&future) {
        Err(LogError::UnknownVersion { found, supported: 2, .. }) => assert_eq!(found, "3"),
        other => panic!("{other:?}"),
    }
}

/// Nothing is written of an observer who saw everything: a log of the machine is what it was in version 1.
#[test]
fn the_header_says_who_observed_and_what_is_hidden() {
    let log = parse(EXAMPLE).unwrap();
    assert_eq!((log.header.observer, log.header.hidden), (ObservedBy::Machine, Hidden::NOTHING));
    let lines = "# duration_ns 20000000\n# observer poller\n# hidden wakeups idle spans\n";
    let text = EXAMPLE.replacen("log 1", "log 2", 1).replacen("# duration_ns 20000000\n", lines, 1);
    let log = parse(&text).unwrap();
    assert_eq!(log.header.observer, ObservedBy::Poller);
    assert_eq!(log.header.hidden, Hidden::of(&[Fact::Spans, Fact::Idle, Fact::Wakeups]));
    assert_eq!(write(&log), text);
    // a guest that saw everything needs no reader that knows of hidden things
    let text = EXAMPLE.replacen("# duration_ns 20000000\n", "# duration_ns 20000000\n# observer guest\n", 1);
    assert_eq!(write(&parse(&text).unwrap()), text);
    for (line, problem) in
        [("# observer ghost", "machine guest recorder poller"), ("# hidden wakeups all", "'all' is nothing")]
    {
        match parse(&EXAMPLE.replacen("# hz 0", line, 1)) {
            Err(LogError::Line { line: 5, problem: found, .. }) => {
                assert!(found.contains(problem), "{found}")
            }
            other => panic!("{other:?}"),
        }
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    (any::<u64>(), 1u8..=9, any::<u8>(), any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>())
        .prop_map(|(time_ns, kind, flags, cpu, task, other, arg, value)| {
            // half of the values are small, as in real logs
            let value = if value & 1 == 0 { value >> 40 } else { value };
            let task = if task & 1 == 0 { task >> 20 } else { task };
            Record { time_ns, kind, flags, cpu, task, other, arg, value }
        })
}

pub(crate) fn any_header() -> impl Strategy<Value = LogHeader> {
    let policies = [
        SchedPolicy::Normal,
        SchedPolicy::Fifo,
        SchedPolicy::RoundRobin,
        SchedPolicy::Batch,
        SchedPolicy::Idle,
        SchedPolicy::Deadline,
    ];
    let deadline = proptest::option::of((any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(r, d, p)| {
        DeadlineParams { runtime: Span::from_ns(r), deadline: Span::from_ns(d), period: Span::from_ns(p) }
    }));
    let params = (proptest::sample::select(policies.to_vec()), -20i32..20, any::<u8>(), deadline).prop_map(
        |(policy, nice, rt_priority, deadline)| SchedParams {
            policy,
            nice: Nice::new(nice).unwrap(),
            rt_priority,
            deadline,
        },
    );
    let affinity = proptest::option::of(proptest::collection::vec(0u32..200, 0..5))
        .prop_map(|cpus| cpus.map(|cpus| cpus.into_iter().map(schedlab_units::CpuId).collect::<CpuSet>()));
    let parent = proptest::option::of(0u32..1000).prop_map(|p| p.map(TaskId));
    let group = proptest::option::of(0u32..2);
    let task = (any::<u32>(), ".{0,20}", params, affinity.clone(), parent, group).prop_map(
        |(pid, name, params, affinity, parent, group)| LogTask { pid, name, params, affinity, parent, group },
    );
    let max = proptest::option::of((any::<u64>(), any::<u64>()))
        .prop_map(|max| max.map(|(quota, period)| (Span::from_ns(quota), Span::from_ns(period))));
    let group = (".{0,20}", max, affinity).prop_map(|(path, max, cpuset)| LogGroup { path, max, cpuset });
    let thread =
        (0u32..1 << 31, ".{0,20}").prop_map(|(pid, name)| KernelThread { pid: pid.min((1 << 31) - 2), name });
    let observers = [ObservedBy::Machine, ObservedBy::Guest, ObservedBy::Recorder, ObservedBy::Poller];
    let pair = (".{0,10}", ".{0,10}");
    (
        (".{0,10}", ".{0,10}", 0_u32..=1 << 16, any::<u32>(), any::<u64>()),
        proptest::collection::vec(task, 0..4),
        proptest::collection::vec(thread, 0..3),
        proptest::collection::vec(pair, 0..3),
        (
            proptest::collection::vec(group, 0..3),
            proptest::sample::select(observers.to_vec()),
            proptest::sample::subsequence(Fact::ALL.to_vec(), 0..9),
        ),
    )
        .prop_map(
            |((sched, sched_version, nr_cpus, hz, duration), mut tasks, kernel_threads, params, last)| {
                let (groups, observer, facts) = last;
                for task in &mut tasks {
                    task.group = task.group.filter(|group| (*group as usize) < groups.len());
                }
                LogHeader {
                    sched,
                    sched_version,
                    nr_cpus,
                    hz,
                    duration: Span::from_ns(duration),
                    tasks,
                    kernel_threads,
                    params,
                    groups,
                    observer,
                    hidden: Hidden::of(&facts),
                }
            },
        )
}

proptest! {
    #[test]
    fn any_log_round_trips(header in any_header(), records in proptest::collection::vec(any_record(), 0..50)) {
        let log = MemLog { header, records };
        let text = write(&log);
        let read = parse(&text).unwrap();
        prop_assert_eq!(&read.header, &log.header);
        prop_assert_eq!(&read.records, &log.records.iter().map(|r| r.canonical()).collect::<Vec<_>>());
        prop_assert_eq!(write(&read), text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(line in ".{0,60}", at in 0usize..19) {
        let mut lines: Vec<&str> = EXAMPLE.lines().collect();
        lines[at] = &line;
        let _ = parse(&lines.join("\n"));
    }
}
