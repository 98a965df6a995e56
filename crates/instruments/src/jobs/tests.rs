//! Drawn schedules.

use super::*;
use schedlab_log::{MemLog, TextLog};
use schedlab_workload::{Workload, parse_text};
use std::path::Path;

fn workload(text: &str) -> Workload {
    parse_text("drawn", text.as_bytes()).unwrap()
}

/// A log in ms: `lines` are records of tasks t0, t1, ...
fn log(duration_ms: u64, nr_tasks: u32, lines: &str) -> MemLog {
    let mut text = format!(
        "# schedlab log 1\n# sched \"drawn\"\n# sched_version \"0\"\n# cpus 1\n# hz 0\n# duration_ns {}\n",
        duration_ms * 1_000_000
    );
    for id in 0..nr_tasks {
        text.push_str(&format!("# task t{id} pid={} policy=normal nice=0 name=\"x\"\n", id + 1));
    }
    let mut nr_records = 0;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (ms, rest) = line.split_once(' ').unwrap();
        text.push_str(&format!("{} {rest}\n", ms.parse::<u64>().unwrap() * 1_000_000));
        nr_records += 1;
    }
    text.push_str(&format!("# end {nr_records}\n"));
    TextLog::parse(&text, Path::new("drawn")).unwrap()
}

fn read(workload: &Workload, log: &MemLog) -> Jobs {
    jobs(log, &plans(workload)).unwrap()
}

const MS: u64 = 1_000_000;

fn shown(jobs: &TaskJobs, end_ms: u64) -> Vec<(u64, u64, u64)> {
    let of = |job: &Job| {
        (job.release_ns / MS, job.response_ns(end_ms * MS) / MS, job.tardiness_ns(end_ms * MS) / MS)
    };
    jobs.kept.iter().map(of).collect()
}

/// The picture of the module: 6 ms of work each 10 ms; a hog takes the CPU from 5 to 10 and from 15 to 20.
#[test]
fn a_job_that_overruns_delays_the_next_but_not_its_release() {
    let camera = workload(
        "schedlab-workload 2\n- INIT 0 0 1 runnable name=camera\n- BLOCK 1 6ms\n- WAKEUP 1 10ms absolute\n\
         - BLOCK 1 6ms\n- WAKEUP 1 10ms absolute\n- BLOCK 1 6ms\n- WAKEUP 1 10ms absolute\n- EXIT 1 0\n",
    );
    // ms     0    5    10   15   20   25   30   35
    // cpu0   CCCCChhhhhC    CCCCC    C.....CCCCCC
    let text = "0 cpu0 new t0 cpu0
        0 cpu0 switch idle -> t0
        11 cpu0 switch t0 sleeping -> idle
        11 cpu0 wakeup t0 cpu0
        14 cpu0 switch idle -> t0
        25 cpu0 switch t0 sleeping -> idle
        25 cpu0 wakeup t0 cpu0
        25 cpu0 switch idle -> t0
        31 cpu0 switch t0 sleeping -> idle
        31 cpu0 wakeup t0 cpu0
        31 cpu0 switch idle -> t0
        31 cpu0 exit t0
        31 cpu0 switch t0 dead -> idle";
    let jobs = read(&camera, &log(40, 1, text));
    let camera = &jobs.tasks[0];
    assert_eq!(shown(camera, 40), [(0, 11, 1), (10, 15, 5), (20, 11, 1)]);
    assert_eq!((camera.nr_jobs, camera.misses, camera.unfinished), (3, 3, 0));
    assert_eq!(camera.worst.unwrap().number, 1);
    assert_eq!((jobs.misses(), jobs.worst_tardiness_ns()), (3, 5 * MS));
    assert!(!camera.lost_track);
}

/// A grid's expiry that has passed does not let the task sleep: the note AWAKE ends the job.
#[test]
fn jobs_that_do_not_sleep_between_are_distinguished() {
    let text = |source: &str| {
        format!(
            "schedlab-workload 2\n- INIT 0 0 1 runnable name=a\n- BLOCK 1 6ms\n- WAKEUP 1 5ms {source}\n\
             - BLOCK 1 1ms\n- WAKEUP 1 5ms {source}\n- EXIT 1 1ms\n"
        )
    };
    // grid: released at 0, 5, 10; the first ends at 6 without sleeping, the second at 7, and the third runs
    // from 10 to 11
    let lines = |wake: u64| {
        format!(
            "0 cpu0 new t0 cpu0
            0 cpu0 switch idle -> t0
            6 cpu0 note t0 note=2147483665 other=idle value=18446744073709551615 flags=0
            7 cpu0 switch t0 sleeping -> idle
            {wake} cpu0 wakeup t0 cpu0
            {wake} cpu0 switch idle -> t0
            {} cpu0 exit t0
            {} cpu0 switch t0 dead -> idle",
            wake + 1,
            wake + 1
        )
    };
    let grid = read(&workload(&text("grid")), &log(20, 1, &lines(10)));
    assert_eq!(shown(&grid.tasks[0], 20), [(0, 6, 1), (5, 2, 0), (10, 1, 0)]);
    // the same with a grid that restarts at 6: the second is released there, the third at 11
    let restarts = read(&workload(&text("grid-restart")), &log(20, 1, &lines(11)));
    assert_eq!(shown(&restarts.tasks[0], 20), [(0, 6, 1), (6, 1, 0), (11, 1, 0)]);
    // a grid that skips, and nothing is a period late
    let skips = read(&workload(&text("grid-skip")), &log(20, 1, &lines(10)));
    assert_eq!(skips.tasks, grid.tasks);
}

/// ```text
///   ms     0         10        20
///   a      aaaaaaaaaaaaaaaaaaa.a        released at 0, 5, 10, 15, 20
/// ```
/// The first job ends at 18. Those of 5 and 10 are over by then, and given up; that of 15 begins.
#[test]
fn jobs_a_whole_period_late_are_given_up_and_missed() {
    let wants = "schedlab-workload 6\n- INIT 0 0 1 runnable name=a\n- BLOCK 1 18ms\n- WAKEUP 1 5ms grid-skip\n\
                 - BLOCK 1 1ms\n- WAKEUP 1 5ms grid-skip\n- EXIT 1 1ms\n";
    let text = "0 cpu0 new t0 cpu0
        0 cpu0 switch idle -> t0
        18 cpu0 note t0 note=2147483665 other=idle value=18446744073709551615 flags=0
        19 cpu0 switch t0 sleeping -> idle
        20 cpu0 wakeup t0 cpu0
        20 cpu0 switch idle -> t0
        21 cpu0 exit t0
        21 cpu0 switch t0 dead -> idle";
    let jobs = read(&workload(wants), &log(25, 1, text));
    let a = &jobs.tasks[0];
    let released: Vec<u64> = a.kept.iter().map(|job| job.release_ns / MS).collect();
    assert_eq!(released, [0, 5, 10, 15, 20]);
    assert_eq!((a.nr_jobs, a.misses, a.unfinished), (5, 3, 2));
    assert_eq!((a.kept[3].end_ns, a.kept[1].end_ns), (Some(19 * MS), None));
}

/// A deadline task that another wakes: the wakeup is the release, also one that comes while it still runs.
#[test]
fn a_wakeup_releases_the_job_of_a_deadline_task() {
    let pair = workload(
        "schedlab-workload 1\n- INIT 0 0 1 blocked name=server policy=deadline runtime=2ms deadline=4ms period=10ms\n\
         - INIT 0 0 2 runnable name=client\n- WAKEUP 1 1ms\n- BLOCK 1 2ms\n- WAKEUP 1 1ms 12 2 7ms\n- BLOCK 1 2ms\n\
         12 EXIT 2 9ms\n",
    );
    let text = "0 cpu0 new t1 cpu0
        0 cpu0 switch idle -> t1
        1 cpu0 wakeup t0 cpu0
        1 cpu0 switch t1 preempted -> t0
        2 cpu0 note t1 note=2147483664 other=t0 value=7 flags=0
        3 cpu0 note t0 note=2147483665 other=t1 value=7 flags=0
        8 cpu0 switch t0 sleeping -> t1
        9 cpu0 exit t1
        9 cpu0 switch t1 dead -> idle";
    let jobs = read(&pair, &log(10, 2, text));
    assert_eq!(jobs.tasks.len(), 1, "the client has no jobs");
    // released at 1, ends at 3; the next was released at 2 and ends at 8, 2 ms beyond its deadline of 4 ms
    assert_eq!(shown(&jobs.tasks[0], 10), [(1, 2, 0), (2, 6, 2)]);
}

/// A task that never gets the CPU misses every deadline that passes, and not only its first.
#[test]
fn jobs_behind_an_unfinished_one_are_missed_too() {
    let mut text = String::from("schedlab-workload 2\n- INIT 0 0 1 runnable name=starved\n");
    text.push_str(&"- BLOCK 1 1ms\n- WAKEUP 1 10ms absolute\n".repeat(5));
    text.push_str("- EXIT 1 0\n");
    let jobs = read(&workload(&text), &log(35, 1, "0 cpu0 new t0 cpu0"));
    let starved = &jobs.tasks[0];
    assert_eq!(shown(starved, 35), [(0, 35, 25), (10, 25, 15), (20, 15, 5)]);
    assert_eq!((starved.nr_jobs, starved.misses, starved.unfinished), (3, 3, 3));
    assert_eq!(starved.response.count(), 0);
    let (low, share, high) = starved.miss_share().unwrap();
    assert!(share == 1.0 && high == 1.0 && (low - 0.4385).abs() < 1e-3, "{low}");
}

/// A (1, 4), B (2, 6), C (3, 12) under fixed priorities: C's response is 10 (the module of bounds); EDF's
/// bound is the deadline.
#[test]
fn bounds_are_those_of_the_theory() {
    let set = |policy: &dyn Fn(usize, u64) -> String| {
        let mut text = String::from("schedlab-workload 2\n");
        for (task, (run, period)) in [(1, 4), (2, 6), (3, 12)].into_iter().enumerate() {
            let pid = task + 1;
            text.push_str(&format!("- INIT 0 0 {pid} runnable name=t {}\n", policy(task, period)));
            text.push_str(&format!(
                "- BLOCK {pid} {run}ms\n- WAKEUP {pid} {period}ms absolute\n- EXIT {pid} 0\n"
            ));
        }
        let workload = workload(&text);
        let params: Vec<_> = workload.tasks.iter().map(|task| task.params.unwrap_or_default()).collect();
        let found = bounds(&workload, &plans(&workload), &params);
        found.iter().map(|bound| bound.map(|bound| bound.response_ns / MS)).collect::<Vec<_>>()
    };
    let fifo = |task: usize, _| format!("policy=fifo prio={}", 50 - task);
    assert_eq!(set(&fifo), [Some(1), Some(3), Some(10)]);
    let edf = |_, period| format!("policy=deadline runtime=1ms deadline={period}ms period={period}ms");
    // C / D sums up to 1/4 + 2/6 + 3/12 = 0.83
    assert_eq!(set(&edf), [Some(4), Some(6), Some(12)]);
    let mixed = |task: usize, period: u64| if task == 0 { fifo(0, period) } else { edf(task, period) };
    assert_eq!(set(&mixed), [None, None, None]);
}

/// B1: two SCHED_DEADLINE tasks wait for each other before their first job: those blocks are not theirs. (Counted,
/// they gave each job the end of the one before: response times of 0.)
#[test]
fn what_is_blocked_before_any_work_ends_no_job() {
    let one = |pid: u32| {
        format!(
            "- INIT 0 0 {pid} runnable policy=deadline runtime=3ms deadline=10ms period=10ms\n- BLOCK {pid} 2ms\n\
             - WAKEUP {pid} 10ms absolute\n- BLOCK {pid} 2ms\n- WAKEUP {pid} 10ms absolute\n- EXIT {pid} 0\n"
        )
    };
    let both = workload(&format!("schedlab-workload 2\n{}{}", one(1), one(2)));
    // ms     0    5    10   15   20
    // cpu0   AABB......AABB......
    let text = "0 cpu0 new t0 cpu0
        0 cpu0 switch idle -> t0
        0 cpu0 switch t0 sleeping -> idle
        0 cpu0 new t1 cpu0
        0 cpu0 switch idle -> t1
        0 cpu0 switch t1 sleeping -> idle
        0 cpu0 wakeup t0 cpu0
        0 cpu0 wakeup t1 cpu0
        0 cpu0 switch idle -> t0
        2 cpu0 switch t0 sleeping -> t1
        4 cpu0 switch t1 sleeping -> idle
        10 cpu0 wakeup t0 cpu0
        10 cpu0 wakeup t1 cpu0
        10 cpu0 switch idle -> t0
        12 cpu0 switch t0 sleeping -> t1
        14 cpu0 switch t1 sleeping -> idle
    ";
    let found = read(&both, &log(20, 2, text));
    assert_eq!(shown(&found.tasks[0], 20), [(0, 2, 0), (10, 2, 0)]);
    assert_eq!(shown(&found.tasks[1], 20), [(0, 4, 0), (10, 4, 0)]);
    assert!(found.tasks.iter().all(|task| !task.lost_track && task.misses == 0));
}
