//! Recordings as logs: drawn ones record by record, those of other tools and the samples against what is known of them.

use proptest::prelude::*;
use schedlab_convert::{RecordedSchedule, recorded_log};
use schedlab_instruments::{Owner, Summary, hidden_stays, summarize_seen, waited_for};
use schedlab_log::{Fact, Log, format_record, note};
use schedlab_trace::Mode;
use std::path::{Path, PathBuf};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
}

fn recorded(path: &Path) -> RecordedSchedule {
    recorded_log(path, Mode::Strict, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// No record contradicts another, and all time that was seen is somebody's.
fn agrees(name: &str, recorded: &RecordedSchedule) -> Summary {
    let summary = summarize_seen(&recorded.log).unwrap_or_else(|error| panic!("{name}: {error}"));
    summary.check_time().unwrap_or_else(|error| panic!("{name}: {error}"));
    summary
}

/// A text of ftrace with these lines: "task-pid [cpu] flags us: event".
fn drawn(lines: &[(&str, u32, &str, u64, &str)]) -> (RecordedSchedule, Vec<String>) {
    drawn_beside(None, lines)
}

/// The same, with a snapshot beside it.
fn drawn_beside(
    snapshot: Option<&str>,
    lines: &[(&str, u32, &str, u64, &str)],
) -> (RecordedSchedule, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    let mut text = String::from("# tracer: nop\n#\n");
    for (task, cpu, flags, us, event) in lines {
        let second = 100 + us / 1_000_000;
        text.push_str(&format!("{task:>16} [{cpu:03}] {flags} {second}.{:06}: {event}\n", us % 1_000_000));
    }
    std::fs::write(&path, text).unwrap();
    if let Some(snapshot) = snapshot {
        std::fs::write(folder.path().join("trace.proc.csv"), snapshot).unwrap();
    }
    let recorded = recorded(&path);
    let records = recorded.log.records().unwrap().map(|record| {
        let mut line = Vec::new();
        format_record(&mut line, &record.unwrap());
        String::from_utf8(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let records = records.collect();
    agrees("drawn", &recorded);
    (recorded, records)
}

const D: &str = "d...";
const IRQ: &str = "dNh.";

fn switch(prev: &str, state: &str, next: &str) -> String {
    let side =
        |task: &str| task.rsplit_once('-').map(|(comm, pid)| (comm.to_string(), pid.to_string())).unwrap();
    let ((prev, prev_pid), (next, next_pid)) = (side(prev), side(next));
    format!(
        "sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> \
         next_comm={next} next_pid={next_pid} next_prio=120"
    )
}

fn forked(child: &str, parent: &str) -> String {
    let ((child, child_pid), (parent, pid)) =
        (child.rsplit_once('-').unwrap(), parent.rsplit_once('-').unwrap());
    format!("sched_process_fork: comm={parent} pid={pid} child_comm={child} child_pid={child_pid}")
}

fn waking(task: &str, cpu: u32) -> String {
    let (comm, pid) = task.rsplit_once('-').unwrap();
    format!("sched_waking: comm={comm} pid={pid} prio=120 target_cpu={cpu:03}")
}

/// The numbers of the tasks that are the program's.
fn program(recorded: &RecordedSchedule) -> Vec<u32> {
    let whose = recorded.whose.program.iter().flatten();
    let tasks = recorded.log.header().tasks.iter().zip(whose);
    tasks.filter(|(_, is)| **is).map(|(task, _)| task.pid).collect()
}

/// Two are called schedlab: 6 empties the buffers, 20 is somebody else's, with a child before and one meanwhile.
#[test]
fn a_namesake_of_the_recorder_has_no_part_in_the_program() {
    let snapshot = "pid,tid,comm,ppid\n1,1,init,0\n6,6,schedlab,1\n6,8,schedlab-drain,1\n7,7,make,6\n\
                    20,20,schedlab,1\n21,21,cc1,20\n";
    let (recorded, _) = drawn_beside(
        Some(snapshot),
        &[
            ("cc1-21", 0, D, 0, &switch("cc1-21", "S", "make-7")),
            ("make-7", 0, D, 1000, &forked("make-9", "make-7")),
            ("make-7", 0, D, 2000, &switch("make-7", "S", "schedlab-20")),
            ("schedlab-20", 0, D, 3000, &forked("schedlab-22", "schedlab-20")),
            ("schedlab-20", 0, D, 4000, &switch("schedlab-20", "S", "swapper/0-0")),
        ],
    );
    assert_eq!(program(&recorded), [7, 9]);
}

/// perf forks its command before it records, and its own addr2line at the end; no snapshot says who is whose child.
#[test]
fn the_program_of_perf_and_trace_cmd_is_the_child_that_called_exec() {
    for (recorder, child) in [("perf-6", "perf-exec-7"), ("trace-cmd-6", "trace-cmd-7")] {
        let (recorded, _) = drawn(&[
            (recorder, 0, D, 0, &switch(recorder, "S", child)),
            (child, 0, D, 1000, &switch(child, "S", "swapper/0-0")),
            ("<idle>-0", 0, D, 2000, &switch("swapper/0-0", "R", "make-7")),
            ("make-7", 0, D, 2500, &forked("make-9", "make-7")),
            ("make-7", 0, D, 3000, &switch("make-7", "R", recorder)),
            (recorder, 0, D, 3500, &forked("perf-8", recorder)),
            (recorder, 0, D, 4000, &switch(recorder, "S", "make-7")),
        ]);
        assert_eq!(program(&recorded), [7, 9], "{recorder}");
    }
}

// ms    0    1    2    3    4    5    6    7    8
// cpu0  A    |X        |A        |X                X was left out; A waits for it from 2 on, and B all along
#[test]
fn who_was_left_out_had_the_cpu_when_the_recording_says_so() {
    let snapshot = "pid,tid,comm,ppid\n7,7,a,6\n";
    let out = switch("a-7", "S", "swapper/0-0");
    let events = [
        ("a-7", 0, D, 0, waking("b-9", 0)),
        ("a-7", 0, D, 1000, out.clone()),
        ("<idle>-0", 0, D, 1000, "stranger: busy=1".to_string()),
        ("<idle>-0", 0, D, 2000, waking("a-7", 0)),
        ("<idle>-0", 0, D, 3000, "stranger: busy=0".to_string()),
        ("<idle>-0", 0, D, 3000, switch("swapper/0-0", "R", "a-7")),
        // nobody can have a CPU that is a task's
        ("a-7", 0, D, 4000, "stranger: busy=1".to_string()),
        ("a-7", 0, D, 5000, out),
        ("<idle>-0", 0, D, 5000, "stranger: busy=1".to_string()),
        ("<idle>-0", 0, D, 8000, waking("b-9", 0)),
    ];
    let lines =
        events.each_ref().map(|(task, cpu, flags, us, event)| (*task, *cpu, *flags, *us, event.as_str()));
    let (recorded, records) = drawn_beside(Some(snapshot), &lines);
    let shown: Vec<&str> = records.iter().map(String::as_str).filter(|r| r.contains("switch")).collect();
    let strangers = &recorded.log.header().kernel_threads;
    assert_eq!((strangers.len(), strangers[0].name.as_str()), (1, "strangers/0"));
    let x = format!("k{}", strangers[0].pid);
    assert_eq!(
        shown,
        [
            "0 cpu0 switch idle -> t0".to_string(),
            "1000000 cpu0 switch t0 sleeping -> idle".to_string(),
            format!("1000000 cpu0 switch idle -> {x}"),
            format!("3000000 cpu0 switch {x} sleeping -> idle"),
            "3000000 cpu0 switch idle -> t0".to_string(),
            "5000000 cpu0 switch t0 sleeping -> idle".to_string(),
            format!("5000000 cpu0 switch idle -> {x}"),
        ]
    );
    assert_eq!(recorded.dropped["somebody left out on a CPU that a task of the recording has, left out"], 1);
    // the recording is of some tasks, and still tells when its CPUs idled
    assert!(!recorded.log.header().hidden.has(Fact::Idle));
    let owners = [Owner::Program, Owner::Program];
    let waited = waited_for(&recorded.log, &owners).unwrap();
    let ms = 1_000_000;
    assert_eq!((waited.stranger_ns, waited.strangers_cpu_ns), (ms + 5 * ms, 5 * ms));
    assert_eq!(hidden_stays(&recorded.log, &owners).unwrap(), [[(ms, 3 * ms), (5 * ms, 8 * ms)]]);
}

// ms    0    1    2    3    4    5
// cpu0  A    A|idle     A woken at 3 by a timer, runs at 3.5
#[test]
fn a_sleep_is_as_long_as_it_was() {
    let (out, back) = (switch("a-7", "S", "swapper/0-0"), switch("swapper/0-0", "R", "a-7"));
    let (recorded, records) = drawn(&[
        ("a-7", 0, D, 0, &waking("b-9", 0)),
        ("a-7", 0, D, 2000, &out),
        ("<idle>-0", 0, IRQ, 3000, &waking("a-7", 0)),
        ("<idle>-0", 0, D, 3500, &back),
        ("a-7", 0, D, 5000, &switch("a-7", "R+", "b-9")),
    ]);
    assert_eq!(
        records,
        [
            "0 cpu0 switch idle -> t0",
            "0 cpu0 waking t1 by t0",
            "0 cpu0 wakeup t1 cpu0",
            "2000000 cpu0 switch t0 sleeping -> idle",
            "3000000 cpu0 waking t0 by idle irq",
            "3000000 cpu0 wakeup t0 cpu0",
            "3500000 cpu0 switch idle -> t0",
            "5000000 cpu0 switch t0 preempted -> t1",
        ]
    );
    let summary = summarize_seen(&recorded.log).unwrap();
    let a = &summary.tasks[0];
    assert_eq!((a.cpu_ns, a.blocked_ns, a.wakeup_latency.sum_ns()), (3_500_000, 1_000_000, 500_000));
    assert_eq!(recorded.dropped.len(), 0, "{:?}", recorded.dropped);
}

/// A wakeup that came 20 us before its task had left the CPU ends that block: the task waits from its switch-out on.
#[test]
fn an_early_waking_is_understood_when_the_task_runs_again() {
    let (_, records) = drawn(&[
        ("a-7", 0, D, 0, &waking("c-5", 0)),
        ("w-8", 1, D, 1980, &waking("a-7", 0)),
        ("a-7", 0, D, 2000, &switch("a-7", "S", "c-5")),
        ("w-8", 1, D, 2100, &waking("x-11", 1)),
        ("c-5", 0, D, 2500, &switch("c-5", "S", "a-7")),
    ]);
    let at = records.iter().position(|line| line == "2000000 cpu0 wakeup t0 cpu0").expect("put in");
    assert_eq!(records[at - 1], "2000000 cpu0 switch t0 sleeping -> t1");
    assert!(records[at + 1].starts_with("2100000 cpu1 waking"), "{records:?}");
}

/// A CPU that looks for another task to run is late with the switch-out: a waking of 94 us before is the one that ends
/// the block, for no other does. Nothing is unknown then.
#[test]
fn a_waking_long_before_the_switch_out_ends_its_block_if_no_other_does() {
    let (recorded, records) = drawn(&[
        ("a-7", 0, D, 0, &waking("c-5", 0)),
        ("w-8", 1, D, 1906, &waking("a-7", 0)),
        ("a-7", 0, D, 2000, &switch("a-7", "S", "c-5")),
        ("c-5", 0, D, 2500, &switch("c-5", "S", "a-7")),
    ]);
    assert!(records.iter().any(|line| line == "2000000 cpu0 wakeup t0 cpu0"), "{records:?}");
    assert_eq!(recorded.dropped.len(), 0, "{:?}", recorded.dropped);
}

/// A waking that came while its task waited for a CPU found it runnable: it ends no block of the stay that follows.
#[test]
fn a_waking_of_a_waiting_task_ends_no_later_block() {
    let (recorded, _) = drawn(&[
        ("a-7", 0, D, 0, &waking("c-5", 0)),
        ("a-7", 0, D, 1000, &switch("a-7", "R+", "c-5")),
        ("w-8", 1, D, 1990, &waking("a-7", 0)),
        ("c-5", 0, D, 2000, &switch("c-5", "R+", "a-7")),
        ("a-7", 0, D, 2010, &switch("a-7", "S", "c-5")),
        ("c-5", 0, D, 2500, &switch("c-5", "S", "a-7")),
    ]);
    let reason = "blocked task that ran again without a wakeup in the recording: unknown from its block on";
    assert_eq!(recorded.dropped.get(reason), Some(&1), "{:?}", recorded.dropped);
}

/// The switch from A to B is not in the recording: A left at its last event, when B came is not known.
#[test]
fn a_switch_that_is_missing_is_put_in_and_counted() {
    let (recorded, records) = drawn(&[
        ("a-7", 0, D, 0, &waking("b-9", 0)),
        ("a-7", 0, D, 1000, &waking("c-5", 0)),
        ("b-9", 0, D, 3000, &switch("b-9", "S", "c-5")),
        ("c-5", 0, D, 4000, &switch("c-5", "S", "a-7")),
    ]);
    let unseen = format!("1000000 cpu0 note idle note={} other=idle value=0 flags=0", note::UNKNOWN_CPU);
    let expected = [
        &*unseen,
        "3000000 cpu0 switch idle -> t1",
        "3000000 cpu0 switch t1 sleeping -> t2",
        "4000000 cpu0 switch t2 sleeping -> t0",
    ];
    assert_eq!(records[records.len() - 4..], expected);
    assert_eq!(recorded.dropped.values().sum::<u64>(), 1, "{:?}", recorded.dropped);
    assert!(recorded.log.header().hidden.has(Fact::Spans));
}

/// Events without a record of their own move the time on between two switches that are put in at one place.
#[test]
fn what_is_put_in_at_one_place_stands_in_order_of_time() {
    let irq = "irq_handler_entry: irq=9 name=acpi";
    drawn(&[
        ("a-7", 0, D, 0, &waking("z-20", 0)),
        ("b-8", 1, D, 10, &waking("y-21", 1)),
        ("a-7", 0, IRQ, 1000, irq),
        ("b-8", 1, IRQ, 2000, irq),
        // b has left cpu1 at 2 ms unseen, a has left cpu0 at 1 ms: both are put in behind the second waking
        ("d-10", 1, IRQ, 3000, irq),
        ("c-9", 0, IRQ, 4000, irq),
        ("c-9", 0, D, 5000, &switch("c-9", "S", "z-20")),
    ]);
}

/// Recordings of one program by different tools give about the same schedule, and each agrees with itself.
#[test]
fn every_tool_s_recording_is_a_schedule() {
    for name in [
        "tools/trace.dat",
        "tools/perf.data",
        "tools/perf-pipe.data",
        "tools/ftrace.txt",
        "tools/report.txt",
        "tools/plain.perfetto",
        "tools/packed.perfetto",
        "tools/compact.perfetto",
    ] {
        let recorded = recorded(&sample(name));
        let summary = agrees(name, &recorded);
        println!("{name}: {:?} hidden {}", recorded.dropped, recorded.log.header().hidden);
        assert!(summary.system.switches > 0 && summary.system.task_ns > 0, "{name}");
    }
}

/// CPU time of each task is what an import finds (these recordings have no interrupts, which an import would take out).
#[test]
fn the_samples_have_the_cpu_time_that_an_import_finds() {
    use schedlab_workload::derive::{DeriveOptions, import_trace};
    for name in ["compile", "gzip", "hackbench", "interactive", "kv"] {
        let path = sample(name).join("trace.dat");
        let recorded = recorded(&path);
        let summary = agrees(name, &recorded);
        let derived = import_trace(&path, Mode::Strict, DeriveOptions::default(), |_| {}).unwrap();
        let (header, workload) = (recorded.log.header(), derived.workload);
        println!("{name}: {:?} hidden {}", recorded.dropped, recorded.log.header().hidden);
        let mut worst = (0, String::new());
        let mut all = (0, 0);
        for task in &workload.tasks {
            let at =
                header.tasks.iter().position(|row| row.pid == task.pid).expect("imported: it is in the log");
            assert_eq!(header.tasks[at].name, task.name, "{name}");
            let (cpu_ns, imported_ns) = (summary.tasks[at].cpu_ns, task.cpu_demand().as_ns());
            all = (all.0 + cpu_ns, all.1 + imported_ns);
            worst = worst.max((cpu_ns.abs_diff(imported_ns), format!("{} {}", task.name, task.pid)));
        }
        println!("{name}: most off {worst:?}");
        // where a switch from idle is not in the recording, an import charges a stay from its first event on only
        assert!(all.0.abs_diff(all.1) * 200 <= all.1, "{name}: {all:?} ns, more than 0.5 % apart");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is said of strangers, beside tasks that change CPUs: the log contradicts nothing, and all time that was
    /// seen is somebody's ([`drawn`] looks).
    #[test]
    fn any_words_of_strangers_give_a_log(
        events in prop::collection::vec((1..4usize, 0..2usize, 1..2000u64, 0..5u8, any::<bool>()), 1..60),
    ) {
        let tasks = ["swapper/0-0", "a-7", "b-8", "c-9"];
        // who has which CPU, by row of `tasks`
        let mut on = [0, 0];
        let mut us = 0;
        let mut lines = vec![("a-7", 0, D, 0, switch("a-7", "S", tasks[0]))];
        for (task, cpu, step_us, what, flag) in events {
            us += step_us;
            let context = if on[cpu] == 0 { "<idle>-0" } else { tasks[on[cpu]] };
            let event = match what {
                0 | 1 => format!("stranger: busy={}", u8::from(flag)),
                2 => waking(tasks[task], cpu as u32),
                _ => {
                    let next = if on.contains(&task) { 0 } else { task };
                    if next == on[cpu] {
                        continue;
                    }
                    let prev = std::mem::replace(&mut on[cpu], next);
                    switch(tasks[prev], if flag { "S" } else { "R" }, tasks[next])
                }
            };
            lines.push((context, cpu as u32, D, us, event));
        }
        let lines: Vec<_> =
            lines.iter().map(|(task, cpu, flags, us, event)| (*task, *cpu, *flags, *us, event.as_str())).collect();
        drawn(&lines);
    }

    /// The same of events that contradict each other: who has a CPU, and where a task is.
    #[test]
    fn any_events_give_a_log(
        events in prop::collection::vec((0..4usize, 0..4usize, 0..2u32, 1..2000u64, 0..5u8, any::<bool>()), 1..60),
    ) {
        let tasks = ["swapper/0-0", "a-7", "b-8", "c-9"];
        let contexts = ["<idle>-0", "a-7", "b-8", "c-9"];
        let mut us = 0;
        let mut lines = vec![("a-7", 0, D, 0, switch("a-7", "S", tasks[0]))];
        for (task, other, cpu, step_us, what, flag) in events {
            us += step_us;
            let event = match what {
                0 | 1 => format!("stranger: busy={}", u8::from(flag)),
                2 => waking(tasks[other.max(1)], cpu),
                _ => switch(tasks[task], if flag { "S" } else { "R" }, tasks[other]),
            };
            lines.push((contexts[task], cpu, D, us, event));
        }
        let lines: Vec<_> =
            lines.iter().map(|(task, cpu, flags, us, event)| (*task, *cpu, *flags, *us, event.as_str())).collect();
        drawn(&lines);
    }
}
