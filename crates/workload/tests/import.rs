//! A recorded trace becomes the workload that an independent reader of trace-cmd's text sees (tests/report_summary.py).

use schedlab_trace::Mode;
use schedlab_workload::derive::{DeriveOptions, Derived, ImportError, InterruptRule, import_trace};
use schedlab_workload::{EventKind, Task, Wakeup, find_deadlock};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data").join(name)
}

fn import(path: &Path) -> Derived {
    import_trace(path, Mode::Strict, DeriveOptions::default(), |_| {}).unwrap()
}

/// As report_summary.py counts: interrupts are part of the stays that they hit.
fn import_with_interrupts(path: &Path) -> Derived {
    let options = DeriveOptions { interrupts: InterruptRule::Keep, ..DeriveOptions::default() };
    import_trace(path, Mode::Strict, options, |_| {}).unwrap()
}

fn count(task: &Task, wanted: fn(&EventKind) -> bool) -> usize {
    task.events.iter().filter(|event| wanted(&event.kind)).count()
}

/// pid, CPU time (ns), blocks, exits, forks: what report_summary.py prints for small.report.txt.
const SMALL: [(u32, u64, usize, usize, usize); 9] = [
    (15, 8436, 1, 0, 0),
    (44, 53059, 1, 0, 0),
    (3161, 30347, 1, 0, 0),
    (17848, 5944089, 0, 0, 0),
    (17906, 0, 1, 0, 0),
    (17923, 1084512, 1, 0, 1),
    (17925, 3304787, 1, 0, 0),
    (17926, 1239223, 10, 1, 1),
    (17927, 277809, 8, 1, 0),
];

#[test]
fn versions_6_and_7_give_what_the_report_says() {
    for name in ["small-v6.dat", "small-v7.dat"] {
        let derived = import_with_interrupts(&data(name));
        let workload = &derived.workload;
        workload.check().unwrap();
        assert_eq!(find_deadlock(workload), None);
        assert!(workload.dropped.is_empty(), "{:?}", workload.dropped);
        let mut tasks: Vec<&Task> = workload.tasks.iter().collect();
        tasks.sort_by_key(|task| task.pid);
        assert_eq!(tasks.len(), SMALL.len());
        for (task, (pid, cpu_ns, blocks, exits, forks)) in tasks.iter().zip(SMALL) {
            assert_eq!((task.pid, task.cpu_demand().as_ns()), (pid, cpu_ns));
            let ours = count(task, |kind| matches!(kind, EventKind::Block { .. }));
            // The BLOCK at the trace's end of a task that still runs or waits is no sleep.
            assert!(ours == blocks || ours == blocks + 1, "{pid}: {ours} blocks, {blocks} in the report");
            assert_eq!(count(task, |kind| matches!(kind, EventKind::Exit { .. })), exits, "{pid}");
            assert_eq!(count(task, |kind| matches!(kind, EventKind::Fork { .. })), forks, "{pid}");
        }
        // The ping-pong's two processes wake each other; setpriority(5), then FIFO 10.
        let ping = tasks[7];
        assert_eq!(ping.name, "pingpong");
        let prios: Vec<String> = ping
            .events
            .iter()
            .filter_map(
                |event| if let EventKind::Prio { change, .. } = &event.kind { change.params } else { None },
            )
            .map(|params| format!("{} {} {}", params.policy, params.nice, params.rt_priority))
            .collect();
        assert_eq!(prios, ["normal 5 0", "fifo 5 10"]);
        let by_pong = ping.events.iter().filter(|event| match event.kind {
            EventKind::Wakeup(Wakeup::Dependent { task, .. }) => workload.task(task).pid == 17927,
            _ => false,
        });
        assert!(by_pong.count() > 0);
    }
}

/// The report's lines: irq 36 and softirqs 4 and 9 hit task 17848 for 4359 + 25968 + 2224 ns, softirqs 1 and
/// 7 task 17925 for 7384 + 1954 ns.
#[test]
fn interrupts_are_taken_out_as_the_report_has_them() {
    let derived = import(&data("small-v7.dat"));
    for (task, (pid, cpu_ns, ..)) in derived
        .workload
        .tasks
        .iter()
        .flat_map(|task| SMALL.iter().filter(|row| row.0 == task.pid).map(move |row| (task, *row)))
    {
        let interrupts_ns = match pid {
            17848 => 4359 + 25968 + 2224,
            17925 => 7384 + 1954,
            _ => 0,
        };
        assert_eq!(task.cpu_demand().as_ns(), cpu_ns - interrupts_ns, "{pid}");
    }
    assert_eq!(derived.summary.interrupt_ns, 32551 + 9338);
}

#[test]
fn lost_events_are_shown() {
    let derived = import(&data("lost.dat"));
    assert_eq!(derived.workload.dropped["event lost by the recording (buffer full)"], 83 + 976);
    // and where: trace-cmd's text of the same file says CPU:0 [83 EVENTS DROPPED], CPU:1 [976 EVENTS DROPPED]
    let places = &derived.workload.notes["events lost by the recording"];
    assert!(
        places.starts_with("cpu") && places.contains(" s (83)") && places.contains(" s (976)"),
        "{places}"
    );
    derived.workload.check().unwrap();
    assert_eq!(find_deadlock(&derived.workload), None);
    assert_eq!(derived.workload.notes["recorded CPUs"], "2");
    assert_eq!(derived.workload.notes["snapshot"], "none");
}

#[test]
fn a_snapshot_beside_the_trace_is_read_and_must_be_right() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("small.dat");
    std::fs::copy(data("small-v7.dat"), &trace).unwrap();
    let beside = directory.path().join("small.proc.csv");
    std::fs::write(&beside, "pid,tid,comm,policy,nice\n17848,17848,cc1,batch,0\n").unwrap();
    let derived = import(&trace);
    assert_eq!(derived.workload.notes["snapshot"], "1 threads");
    let task = derived.workload.tasks.iter().find(|task| task.pid == 17848).unwrap();
    assert_eq!(task.params.unwrap().policy.name(), "batch");

    std::fs::write(&beside, "pid,tid,comm,policy,nice\n17848,17848,cc1,batch,fast\n").unwrap();
    let error = import_trace(&trace, Mode::Strict, DeriveOptions::default(), |_| {}).unwrap_err();
    assert!(matches!(error, ImportError::Snapshot(_)));
    let message = error.to_string();
    assert!(message.contains("small.proc.csv, line 2: nice is \"fast\", expected -20 to 19"), "{message}");
}

#[test]
fn two_imports_are_equal() {
    assert_eq!(import(&data("small-v7.dat")), import(&data("small-v7.dat")));
    let (v6, v7) = (import(&data("small-v6.dat")), import(&data("small-v7.dat")));
    assert_eq!(v6.workload.tasks, v7.workload.tasks);
    assert_eq!(v6.summary, v7.summary);
}
