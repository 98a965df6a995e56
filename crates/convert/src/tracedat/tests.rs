use super::*;
use proptest::prelude::*;
use schedlab_instruments::for_each_stay;
use schedlab_log::{MemLog, TextLog, synthetic::Config};
use schedlab_trace::{Context, Mode, SchedEvent, TaskState, TraceFile};
use schedlab_units::Span;
use std::collections::BTreeMap;

fn exported(
    log: &MemLog,
    options: &TraceDatOptions,
) -> (tempfile::TempDir, std::path::PathBuf, TraceDatStats) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.dat");
    let stats = trace_dat(&path, log, options).unwrap();
    (folder, path, stats)
}

/// Lines "time cpu pid what".
fn lines(path: &Path) -> Vec<String> {
    let file = TraceFile::open(path, Mode::Strict).unwrap();
    let mut events = file.events().unwrap();
    let mut lines = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        let what = match event.what {
            SchedEvent::Switch { prev, prev_state, next } => {
                format!("switch {} {prev_state:?} {}", prev.pid, next.pid)
            }
            SchedEvent::Waking(wake) => format!("waking {} prio {}", wake.pid, wake.prio),
            SchedEvent::WakeupNew(wake) => format!("new {} prio {}", wake.pid, wake.prio),
            SchedEvent::Fork { parent, child, .. } => format!("fork {parent} {child}"),
            SchedEvent::Exit { pid, .. } => format!("exit {pid}"),
            SchedEvent::Migrate { pid, orig_cpu, dest_cpu, .. } => {
                format!("migrate {pid} {} {}", orig_cpu.0, dest_cpu.0)
            }
            SchedEvent::SysEnter(call) => format!("{call:?}"),
            SchedEvent::SysExit { call, ret } => format!("{call:?} returns {ret}"),
            SchedEvent::Settings { pid, born, words } => {
                format!("settings of {pid}, born {born}: {}", events.comm(words))
            }
            SchedEvent::Other { .. } => continue,
            other => panic!("{other:?}"),
        };
        let irq = if event.context == Context::HardIrq { " irq" } else { "" };
        lines.push(format!("{} {} {}{irq}: {what}", event.time_ns - super::EPOCH_NS, event.cpu.0, event.pid));
    }
    assert!(events.counts().is_empty(), "{:?}", events.counts());
    lines
}

fn parsed(text: &str) -> MemLog {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    let nr_records = text.lines().filter(|line| !line.starts_with('#')).count();
    std::fs::write(&path, format!("{text}# end {nr_records}\n")).unwrap();
    MemLog::read(&TextLog::open(&path).unwrap()).unwrap()
}

const HEAD: &str = "# schedlab log 1\n# sched \"fifo\"\n# sched_version \"1\"\n# cpus 2\n# hz 0\n# duration_ns 9000\n\
    # task t0 pid=10 policy=normal nice=5 name=\"make\"\n# task t1 pid=11 policy=fifo nice=0 rt_priority=7 parent=t0 \
    name=\"a rather long name\"\n\
    # kernel_thread k17 name=\"migration/0\"\n";

// ns    0    1000    2000     3000
// cpu0  make make----k make...          k: migration/0, for no time at all
// cpu1               child
#[test]
fn every_record_becomes_the_kernels_event() {
    let text = format!(
        "{HEAD}0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n1000 cpu0 fork t0 -> t1\n1000 cpu0 new t1 cpu1\n\
            1000 cpu1 switch idle -> t1\n\
         1500 cpu0 note t0 note=2147483667 other=t0 value=60736833546606 flags=0\n\
         1500 cpu0 params t0 policy=normal nice=7 rt_priority=0\n1600 cpu0 params t1 policy=batch nice=7 \
         rt_priority=0\n\
         1700 cpu0 params t0 policy=normal nice=7 rt_priority=0 affinity\n\
         2000 cpu0 switch t0 preempted -> k17\n2000 cpu0 switch k17 sleeping -> t0\n\
         2500 cpu0 switch t0 yielded -> idle\n2500 cpu0 switch idle -> t0\n\
         3000 cpu0 switch t0 sleeping -> idle\n3000 cpu1 waking t0 by t1\n3000 cpu1 migrate t0 cpu0 -> cpu1\n\
         3000 cpu1 wakeup t0 cpu1\n\
         3500 cpu1 exit t1\n3500 cpu1 switch t1 dead -> t0\n4000 cpu1 switch t0 disk -> idle\n\
         5000 cpu0 waking t0 by idle irq\n5000 cpu0 wakeup t0 cpu0\n"
    );
    let log = parsed(&text);
    let (_folder, path, stats) =
        exported(&log, &TraceDatOptions { tasks_only: true, ..TraceDatOptions::default() });
    assert_eq!(
        lines(&path),
        [
            "0 0 0: switch 0 Running 10",
            "1000 0 10: fork 10 11",
            "1000 0 10: settings of 11, born true: policy=fifo nice=0 prio=7",
            "1000 0 10: new 11 prio 92",
            "1000 1 0: switch 0 Running 11",
            "1500 0 10: settings of 10, born false: nice=7",
            "1500 0 10: SetPriority { which: 0, who: 0, nice: 7 }",
            "1500 0 10: SetPriority returns 0",
            "1600 0 10: SchedSetScheduler { pid: Pid(11), policy: 3 }",
            "1600 0 10: SchedSetScheduler returns 0",
            "1700 0 10: SchedSetAffinity { pid: Pid(0) }",
            "1700 0 10: SchedSetAffinity returns 0",
            // the thread that is left out ran for no time: nothing has happened
            "2500 0 10: SchedYield",
            "2500 0 10: switch 10 Running 0",
            "2500 0 0: switch 0 Running 10",
            "2500 0 10: SchedYield returns 0",
            "3000 0 10: switch 10 Interruptible 0",
            "3000 1 11: waking 10 prio 127",
            "3000 1 11 irq: migrate 10 0 1",
            "3500 1 11: exit 11",
            "3500 1 11: switch 11 Dead 10",
            "4000 1 10: switch 10 Uninterruptible 0",
            "5000 0 0 irq: waking 10 prio 127",
        ]
    );
    assert_eq!((stats.shifted_events, stats.shift_max_ns), (0, 0));
    // with the kernel's threads everything is there
    let (_folder, path, _) =
        exported(&log, &TraceDatOptions { compress: true, ..TraceDatOptions::default() });
    let all = lines(&path);
    assert!(all.contains(&"2000 0 10: switch 10 RunningPreempted 17".to_string()), "{all:?}");
    let csv = std::fs::read_to_string(path.with_extension("proc.csv")).unwrap();
    assert!(csv.contains("\n10,10,make,normal,5,0,0-1,/,,,,1,,,\n17,17,migration/0,"), "{csv}");
}

// Woken on cpu1, run on cpu0 in the same instant: a reader that takes cpu0 first must not see it the other way round.
#[test]
fn the_order_of_one_instant_is_kept() {
    let text = format!(
        "{HEAD}0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n100 cpu1 switch idle -> t1\n\
            1000 cpu0 switch t0 sleeping -> idle\n\
         2000 cpu1 waking t0 by t1\n2000 cpu1 wakeup t0 cpu0\n2000 cpu0 switch idle -> t0\n"
    );
    let (_folder, path, stats) = exported(&parsed(&text), &TraceDatOptions::default());
    let all = lines(&path);
    assert_eq!(all[3..], ["2000 1 11: waking 10 prio 125", "2001 0 0: switch 0 Running 10"]);
    assert_eq!((stats.shifted_events, stats.shift_max_ns), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every run of every task, within the shifts that the conversion reports.
    #[test]
    fn every_run_of_the_log_is_in_the_trace(seed in any::<u64>(), nr_cpus in 1..6u32, jobs in 0..8u32) {
        let config = Config { nr_cpus, jobs, seed, duration: Span::from_ms(120), ..Config::default() };
        let log = config.log();
        let (_folder, path, stats) = exported(&log, &TraceDatOptions::default());
        prop_assert!(stats.shift_max_ns < 1000, "{stats:?}");
        let mut expected: Vec<(u32, u64, u64)> = Vec::new();
        for_each_stay(&log, |run| {
            if run.task.is_workload() && run.stop.is_some() {
                expected.push((1000 + run.task.0, run.start_ns, run.end_ns));
            }
        }).unwrap();
        let file = TraceFile::open(&path, Mode::Strict).unwrap();
        let mut events = file.events().unwrap();
        let (mut since, mut found) = (BTreeMap::new(), Vec::new());
        while let Some(event) = events.next_event().unwrap() {
            if let SchedEvent::Switch { prev, prev_state, next } = event.what {
                if let Some(start) = since.remove(&prev.pid.0)
                    && prev.pid.0 >= 1000
                {
                    prop_assert!(prev_state != TaskState::Unknown);
                    found.push((prev.pid.0 as u32, start, event.time_ns - super::EPOCH_NS));
                }
                since.insert(next.pid.0, event.time_ns - super::EPOCH_NS);
            }
        }
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(expected.len(), found.len());
        for (a, b) in expected.iter().zip(&found) {
            prop_assert!(a.0 == b.0 && b.1 - a.1 <= stats.shift_max_ns && b.2 - a.2 <= stats.shift_max_ns, "{a:?} \
                {b:?}");
        }
    }
}
