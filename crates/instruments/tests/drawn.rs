//! Drawn schedules: the tables' values are read off the drawings by hand.

use schedlab_instruments::*;
use schedlab_log::{LogHeader, LogTask, MemLog, TextLog};
use schedlab_units::{CpuSet, Span, TaskId};
use std::path::Path;

const MS: u64 = 1_000_000;

/// Lines `ms cpu kind ...` (times in ms) to a log of tasks t0, t1, ... (all CPUs allowed) and kernel thread k9.
fn log(nr_cpus: u32, nr_tasks: u32, duration_ms: u64, lines: &str) -> MemLog {
    let mut text = format!(
        "# schedlab log 1\n# sched \"drawn\"\n# cpus {nr_cpus}\n# duration_ns {}\n",
        duration_ms * MS
    );
    (0..nr_tasks)
        .for_each(|t| text += &format!("# task t{t} pid={} policy=normal nice=0 name=\"{t}\"\n", t + 1));
    text += "# kernel_thread k9 name=\"migration/0\"\n";
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in &lines {
        let (ms, rest) = line.split_once(' ').unwrap();
        text += &format!("{} {rest}\n", ms.parse::<u64>().unwrap() * MS);
    }
    text += &format!("# end {}\n", lines.len());
    TextLog::parse(&text, Path::new("drawn")).unwrap()
}

fn summary(log: &MemLog) -> Summary {
    let verdict = verify(log).unwrap();
    assert!(verdict.is_clean(), "{:?}", verdict.violations);
    let summary = summarize(log).unwrap();
    summary.check_time().unwrap();
    summary
}

/// The drawing in the documentation of `summary`.
#[test]
fn two_tasks_share_a_cpu() {
    // ms    0         1         2
    //       0123456789012345678901
    // cpu0  AAAABBBBAA....AAAAAAAA  A blocks at 10, is woken at 14, runs until the end at 22; B is new at 2, exits at 8
    let log = log(
        1,
        2,
        22,
        "0 cpu0 new t0 cpu0
         0 cpu0 switch idle -> t0
         2 cpu0 fork t0 -> t1
         2 cpu0 new t1 cpu0
         4 cpu0 switch t0 preempted -> t1
         8 cpu0 exit t1
         8 cpu0 switch t1 dead -> t0
         10 cpu0 switch t0 sleeping -> idle
         14 cpu0 waking t0 by idle irq
         14 cpu0 wakeup t0 cpu0
         14 cpu0 switch idle -> t0",
    );
    let s = summary(&log);
    let a = &s.tasks[0];
    assert_eq!((a.cpu_ns, a.blocked_ns), (14 * MS, 4 * MS));
    assert_eq!((a.run_delay.sum_ns(), a.run_delay.max_ns(), a.run_delay.count()), (4 * MS, 4 * MS, 3));
    assert_eq!((a.wakeup_latency.sum_ns(), a.wakeup_latency.count()), (0, 1));
    assert_eq!((a.preempted_wait_ns, a.new_wait_ns), (4 * MS, 0));
    assert_eq!((a.wakeups, a.switches_voluntary, a.switches_involuntary, a.runs), (1, 1, 1, 3));
    assert_eq!((a.exited, a.first_ns, a.last_ns), (false, Some(0), Some(22 * MS)));
    let b = &s.tasks[1];
    assert_eq!((b.cpu_ns, b.blocked_ns, b.new_wait_ns), (4 * MS, 0, 2 * MS));
    assert_eq!((b.run_delay.sum_ns(), b.wakeup_latency.count()), (2 * MS, 0));
    assert_eq!((b.exited, b.first_ns, b.last_ns), (true, Some(2 * MS), Some(8 * MS)));
    assert_eq!((b.wakeups, b.switches_voluntary, b.switches_involuntary), (0, 1, 0));
    assert_eq!((s.cpus[0].busy_ns, s.cpus[0].idle_ns, s.cpus[0].switches), (18 * MS, 4 * MS, 5));
    // B waits 2..4, A waits 4..8
    assert_eq!((s.system.waiting_task_ns, s.system.waiting_max), (6 * MS, 1));
    assert_eq!(s.system.run_delay.sum_ns(), 6 * MS);
    let longest: Vec<(u32, u64, u64)> =
        s.system.longest_waits.iter().map(|w| (w.task.0, w.start_ns / MS, w.end_ns / MS)).collect();
    assert_eq!(longest, [(0, 4, 8), (1, 2, 4)]);
    assert_eq!(s.system.conservation, Conservation::default());
}

#[test]
fn migrations_are_runs_on_another_cpu_and_assignments_are_records() {
    // ms    0         1
    //       0123456789012
    // cpu0  AAAABBBB.....     A waits on cpu0 from 4, is moved to cpu1 at 5 and back at 6 and to cpu1 at 7, runs there
    // cpu1  CCCCCCCAAAAA.     until 12; B runs on cpu0 all the time
    let log = log(
        2,
        3,
        13,
        "0 cpu0 new t0 cpu0
         0 cpu0 switch idle -> t0
         0 cpu0 new t1 cpu0
         0 cpu1 new t2 cpu1
         0 cpu1 switch idle -> t2
         4 cpu0 switch t0 preempted -> t1
         5 cpu1 migrate t0 cpu0 -> cpu1
         6 cpu0 migrate t0 cpu1 -> cpu0
         7 cpu1 migrate t0 cpu0 -> cpu1
         7 cpu1 switch t2 dead -> t0
         8 cpu0 switch t1 sleeping -> idle
         12 cpu1 switch t0 disk -> idle",
    );
    let s = summary(&log);
    assert_eq!((s.tasks[0].migrations, s.tasks[0].assignments, s.tasks[0].runs), (1, 3, 2));
    assert_eq!(s.system.migrations, 1);
    assert_eq!(s.tasks[0].run_delay.sum_ns(), 3 * MS);
    // queues: cpu0 holds B 0..4, A 4..5 and 6..7; cpu1 holds A 5..6
    assert_eq!((s.cpus[0].waiting_task_ns, s.cpus[1].waiting_task_ns), (6 * MS, MS));
    assert_eq!(s.tasks[1].blocked_ns, 5 * MS, "blocked from 8 to the end at 13");
    assert_eq!(s.tasks[0].blocked_ns, MS, "disk sleep from 12 to the end");
}

#[test]
fn waits_at_the_end_and_yields_and_kernel_threads() {
    // ms    0         1
    //       0123456789
    // cpu0  AABBkAAAAA      A yields at 2; k9 preempts B at 4 until 5; B waits from 4 to the end at 10
    let log = log(
        1,
        2,
        10,
        "0 cpu0 new t0 cpu0
         0 cpu0 new t1 cpu0
         0 cpu0 switch idle -> t0
         2 cpu0 switch t0 yielded -> t1
         4 cpu0 waking k9 by t1
         4 cpu0 wakeup k9 cpu0
         4 cpu0 switch t1 preempted -> k9
         5 cpu0 switch k9 sleeping -> t0",
    );
    let s = summary(&log);
    let [a, b] = [&s.tasks[0], &s.tasks[1]];
    assert_eq!((a.cpu_ns, a.switches_involuntary, a.yields, a.preempted_wait_ns), (7 * MS, 1, 1, 3 * MS));
    // B: 0..2 new, 4..10 preempted and not over
    assert_eq!((b.run_delay.count(), b.run_delay.sum_ns(), b.run_delay.max_ns()), (2, 8 * MS, 6 * MS));
    let k = s.task(TaskId::kernel_thread(9)).unwrap();
    // blocked from the start to 4 and from 5 to the end
    assert_eq!((k.cpu_ns, k.blocked_ns, k.wakeups), (MS, 9 * MS, 1));
    assert_eq!((s.system.kernel_thread_ns, s.system.task_ns, s.cpus[0].kernel_thread_ns), (MS, 9 * MS, MS));
    assert_eq!(s.system.run_delay.sum_ns(), 11 * MS, "kernel threads stand apart");
    assert_eq!(s.system.waiting_max, 2, "A and B while k9 runs");
}

#[test]
fn an_idle_cpu_beside_a_waiting_task_breaks_work_conservation_only_where_the_task_may_run() {
    // ms    0         1
    //       0123456789
    // cpu0  AAAAAAAABB      B is new on cpu0 at 2 and waits until 8
    // cpu1  CCC...CCCC      C sleeps 3 to 6: cpu1 idles 3 ms while B waits
    let lines = "0 cpu0 new t0 cpu0
         0 cpu0 switch idle -> t0
         0 cpu1 new t2 cpu1
         0 cpu1 switch idle -> t2
         2 cpu0 new t1 cpu0
         3 cpu1 switch t2 sleeping -> idle
         6 cpu1 wakeup t2 cpu1
         6 cpu1 switch idle -> t2
         8 cpu0 switch t0 dead -> t1";
    let mut log = log(2, 3, 10, lines);
    let longest = vec![Stretch { from_ns: 3 * MS, to_ns: 6 * MS }];
    let broken = Conservation {
        idle_while_waiting_ns: 3 * MS,
        longest_ns: 3 * MS,
        stretches: 1,
        longest,
        ..Conservation::default()
    };
    assert_eq!(summary(&log).system.conservation, broken);
    log.header.tasks[1].affinity = Some("0".parse::<CpuSet>().unwrap());
    assert_eq!(summary(&log).system.conservation, Conservation::default());
    log.header.tasks[1].affinity = Some("0-1".parse::<CpuSet>().unwrap());
    assert_eq!(summary(&log).system.conservation, broken);
    // its affinity changes at 4, to what is not said: 1 ms is wasted, 2 ms may be
    let mut params = log.records[4];
    (params.kind, params.flags, params.time_ns) = (schedlab_log::Kind::Params as u8, 1, 4 * MS);
    log.records.insert(6, params);
    let expected = Conservation {
        idle_while_waiting_ns: MS,
        longest_ns: MS,
        stretches: 1,
        unknown_ns: 2 * MS,
        unknown: vec![(TaskId(1), Unknown::Affinity)],
        longest: vec![Stretch { from_ns: 3 * MS, to_ns: 4 * MS }],
    };
    assert_eq!(summary(&log).system.conservation, expected);
}

#[test]
fn a_task_asleep_at_the_start_is_blocked_until_its_wakeup() {
    let log =
        log(1, 1, 10, "3 cpu0 waking t0 by idle irq\n 3 cpu0 wakeup t0 cpu0\n 4 cpu0 switch idle -> t0");
    let t = &summary(&log).tasks[0];
    assert_eq!(
        (t.blocked_ns, t.cpu_ns, t.wakeup_latency.sum_ns(), t.first_ns),
        (3 * MS, 6 * MS, MS, Some(3 * MS))
    );
}

#[test]
fn a_log_that_begins_in_the_middle_counts_the_first_task_from_the_start() {
    // A was running on cpu0 before the log began
    let log = log(1, 1, 10, "4 cpu0 switch t0 sleeping -> idle");
    let s = summarize(&log).unwrap();
    s.check_time().unwrap();
    assert_eq!((s.tasks[0].cpu_ns, s.cpus[0].idle_ns, s.tasks[0].run_delay.count()), (4 * MS, 6 * MS, 0));
}

#[test]
fn an_empty_log_is_all_idle() {
    let log = MemLog {
        header: LogHeader { nr_cpus: 3, duration: Span::from_ms(5), ..LogHeader::default() },
        records: vec![],
    };
    let s = summary(&log);
    assert_eq!((s.system.idle_ns, s.system.records), (15 * MS, 0));
}

/// Every kind of impossible log, and what is said of it: the record's index and the problem.
#[test]
fn impossible_logs_are_named() {
    let [t0, t1, idle] = [TaskId(0), TaskId(1), TaskId::IDLE];
    let on0 = "0 cpu0 new t0 cpu0\n 0 cpu0 switch idle -> t0\n";
    let cases: &[(&str, u64, Impossible)] = &[
        ("2 cpu1 switch idle -> t0", 2, Impossible::AlreadyRunning { task: t0, cpu: 1, other_cpu: 0 }),
        ("2 cpu0 switch t1 sleeping -> t1", 2, Impossible::PrevNotCurrent { cpu: 0, prev: t1, current: t0 }),
        (
            "2 cpu1 switch t1 sleeping -> idle",
            2,
            Impossible::PrevNotCurrent { cpu: 1, prev: t1, current: idle },
        ),
        (
            "2 cpu0 switch t0 sleeping -> idle\n 3 cpu0 switch idle -> t0",
            3,
            Impossible::RanWhileBlocked { task: t0, cpu: 0 },
        ),
        (
            "2 cpu0 switch t0 dead -> idle\n 3 cpu0 switch idle -> t0",
            3,
            Impossible::RanAfterExit { task: t0, cpu: 0 },
        ),
        ("2 cpu0 switch t0 dead -> idle\n 3 cpu0 wakeup t0 cpu0", 3, Impossible::WokenAfterExit { task: t0 }),
        ("2 cpu1 switch idle -> t1", 2, Impossible::NeverMadeRunnable { task: t1, cpu: 1 }),
        ("2 cpu0 new t1 cpu0\n 1 cpu0 exit t0", 3, Impossible::TimeBackwards { previous_ns: 2 * MS }),
        ("11 cpu0 exit t0", 2, Impossible::TimeBeyondEnd { duration_ns: 10 * MS }),
        ("2 cpu0 wakeup t7 cpu0", 2, Impossible::UnknownTask { task: TaskId(7) }),
        ("2 cpu5 exit t0", 2, Impossible::UnknownCpu { cpu: 5, nr_cpus: 2 }),
        ("2 cpu0 wakeup t1 cpu2", 2, Impossible::UnknownCpu { cpu: 2, nr_cpus: 2 }),
        ("2 cpu0 switch t0 state=9 -> idle", 2, Impossible::UnknownPrevState { state: 9 }),
        ("2 cpu0 new t0 cpu0", 2, Impossible::NewTwice { task: t0 }),
        (
            "2 cpu0 new t1 cpu0\n 3 cpu1 switch idle -> t1",
            3,
            Impossible::RanElsewhere { task: t1, cpu: 1, assigned_cpu: 0 },
        ),
        (
            "2 cpu0 new t1 cpu0\n 3 cpu0 migrate t1 cpu1 -> cpu0",
            3,
            Impossible::MigratedFromElsewhere { task: t1, cpu: 1, assigned_cpu: 0 },
        ),
        (
            "2 cpu0 migrate t0 cpu0 -> cpu1",
            2,
            Impossible::MigratedWhileRunning { task: t0, cpu: 0, to_cpu: 1 },
        ),
        (
            "2 cpu1 new t2 cpu1\n 2 cpu1 switch idle -> t2",
            3,
            Impossible::NotAllowed { task: TaskId(2), cpu: 1 },
        ),
    ];
    for (lines, index, problem) in cases {
        let mut log = log(2, 3, 10, &format!("{on0}{lines}"));
        log.header.tasks[2] = LogTask { affinity: Some("0".parse().unwrap()), ..LogTask::default() };
        let verdict = verify(&log).unwrap();
        let first = verdict.violations.first().unwrap_or_else(|| panic!("nothing found in {lines}"));
        assert_eq!((first.index, first.problem), (*index, *problem), "{lines}");
        assert_eq!(first.time_ns, log.records[*index as usize].time_ns);
    }
    // a wakeup of a running task is no violation: the kernel reports it when a task is woken on its way to sleep
    let woken = log(2, 3, 10, &format!("{on0}2 cpu1 wakeup t0 cpu0"));
    let verdict = verify(&woken).unwrap();
    assert!(verdict.is_clean() && verdict.wakeups_of_runnable == 1);
}

/// The check of the sums must be able to fail.
#[test]
fn time_that_is_lost_is_found() {
    let mut s = summary(&log(1, 1, 10, "0 cpu0 new t0 cpu0\n 0 cpu0 switch idle -> t0"));
    s.cpus[0].idle_ns += 1;
    let lost = TimeNotConserved { what: "cpu0".into(), busy_ns: 10 * MS, idle_ns: 1, expected_ns: 10 * MS };
    assert_eq!(s.check_time(), Err(lost));
}

#[test]
fn runs_tell_how_they_came_about() {
    let log = log(
        1,
        2,
        10,
        "0 cpu0 new t0 cpu0
         0 cpu0 switch idle -> t0
         1 cpu0 new t1 cpu0
         4 cpu0 switch t0 preempted -> t1
         6 cpu0 switch t1 dead -> t0",
    );
    let mut runs = Vec::new();
    for_each_stay(&log, |run| {
        runs.push((
            run.task.0,
            run.start_ns / MS,
            run.end_ns / MS,
            run.stop,
            run.waited.map(|(c, ns)| (c, ns / MS)),
        ));
    })
    .unwrap();
    use schedlab_log::PrevState::{Dead, Preempted};
    assert_eq!(
        runs,
        [
            (0, 0, 4, Some(Preempted), Some((WaitCause::New, 0))),
            (1, 4, 6, Some(Dead), Some((WaitCause::New, 3))),
            (0, 6, 10, None, Some((WaitCause::Preempted, 2)))
        ]
    );
}

/// The drawing in the documentation of `queues`.
#[test]
fn queues_are_sampled_at_any_distance() {
    // ms    0    1    2    3    4
    // cpu0  AAAAAAAAAAAACCCCCCCC    B is pulled to cpu1 at 1 ms; A sleeps from 2.5 ms on
    // cpu1  .....BBBBBBBBBBBBBBB
    let log = log(
        2,
        3,
        8,
        "0 cpu0 new t0 cpu0
         0 cpu0 new t1 cpu0
         0 cpu0 new t2 cpu0
         0 cpu0 switch idle -> t0
         2 cpu1 migrate t1 cpu0 -> cpu1
         2 cpu1 switch idle -> t1
         5 cpu0 switch t0 sleeping -> k9
         5 cpu0 switch k9 sleeping -> t2",
    );
    summary(&log);
    let sampled = |grid: Span| {
        let mut samples = Vec::new();
        for_each_queue(&log, grid, |ns, queues| {
            let lengths: Vec<(u32, u32)> = queues.iter().map(|q| (q.running, q.waiting)).collect();
            samples.push((ns / MS, lengths[0], lengths[1], queues[0].total()));
        })
        .unwrap();
        samples
    };
    let expected =
        [(0, (1, 2), (0, 0), 3), (2, (1, 1), (1, 0), 2), (4, (1, 1), (1, 0), 2), (6, (1, 0), (1, 0), 1)];
    assert_eq!(sampled(Span::from_ms(2)), expected);
    assert_eq!(sampled(Span::from_ms(5)), [expected[0], (5, (1, 0), (1, 0), 1)]);
    assert_eq!(sampled(QUEUE_GRID).len(), 8);
    assert_eq!(sampled(Span::from_ms(100)), [expected[0]]);
}

/// The drawing in the documentation of `moves`, and the kinds that it does not show.
#[test]
fn every_change_of_cpu_has_a_kind_and_a_mover() {
    // ms    0    1    2    3    4    5    6
    // cpu0  AAAAAAAAAA                   D      A forks C at 1.5 ms, for cpu1; D executes a program at 5 ms
    // cpu1  .....BBBBB     AAAAA   C            A runs on cpu2 at 4.5 ms although nothing moved it
    let log = log(
        3,
        4,
        14,
        "0 cpu0 new t0 cpu0
         0 cpu0 new t1 cpu0
         0 cpu0 switch idle -> t0
         2 cpu1 migrate t1 cpu0 -> cpu1
         2 cpu1 switch idle -> t1
         3 cpu0 fork t0 -> t2
         3 cpu0 new t2 cpu1
         4 cpu0 switch t0 sleeping -> idle
         4 cpu1 switch t1 sleeping -> t2
         5 cpu1 switch t2 dead -> idle
         6 cpu1 waking t0 by idle irq
         6 cpu1 migrate t0 cpu0 -> cpu1
         6 cpu1 wakeup t0 cpu1
         6 cpu1 switch idle -> t0
         8 cpu1 switch t0 preempted -> idle
         9 cpu2 switch idle -> t0
         10 cpu0 new t3 cpu0
         10 cpu0 switch idle -> t3
         11 cpu0 note t3 note=2147483668 other=idle value=0 flags=0
         11 cpu0 switch t3 preempted -> idle
         11 cpu0 migrate t3 cpu0 -> cpu1
         11 cpu1 switch idle -> t3",
    );
    let mut found = Vec::new();
    for_each_move(&log, |m| {
        found.push((m.time_ns / MS, m.task.0, m.from.0, m.to.0, m.kind, m.mover.map(|cpu| cpu.0)));
    })
    .unwrap();
    let expected = [
        (2, 1, 0, 1, MoveKind::Balance, Some(1)),
        (3, 2, 0, 1, MoveKind::Fork, Some(0)),
        (6, 0, 0, 1, MoveKind::Wake, Some(1)),
        (9, 0, 1, 2, MoveKind::Balance, None),
        (11, 3, 0, 1, MoveKind::Exec, Some(0)),
    ];
    assert_eq!(found, expected);
}
