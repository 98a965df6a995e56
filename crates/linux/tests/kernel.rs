//! The port under a minimal simulator: what is expected follows from kernel formulas, not from earlier output.
//!
//! A process holds one kernel, once: each test runs in a child process of its own (itself, asked for this one test).
//! The kernel is built if it is not in the cache.

mod child;
mod mini;

use child::in_child;
use mini::{Mini, Step, flat, hog, sleeper};
use schedlab_linux::KernelError;
use schedlab_linux::abi::op;
use schedlab_units::TaskId;

const SECOND: u64 = 1_000_000_000;
fn pin(m: &mut Mini, task: TaskId, mask: u64) {
    let words = [mask];
    assert_eq!(m.control(op::AFFINITY, [u64::from(task.0), words.as_ptr() as u64, 1, 0, 0]), 0);
}

fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found}, expected {expected} +- {tolerance}");
}

fn no_warnings(m: &Mini) {
    assert_eq!(m.kernel.console().warnings(), []);
}

/// kernel/sched/core.c sched_prio_to_weight: nice 0 1024, 5 335, -5 3121, 10 110.
#[test]
fn nice_shares_follow_the_weights() {
    in_child("nice_shares_follow_the_weights", |object| {
        let mut m = Mini::boot(&object, &flat(1), 16, "noautogroup");
        let (nice, weight) = ([0i64, 5, -5, 10], [1024.0, 335.0, 3121.0, 110.0]);
        let tasks: Vec<TaskId> = nice
            .iter()
            .map(|n| {
                let t = m.spawn(hog());
                m.control(op::NICE, [u64::from(t.0), *n as u64, 0, 0, 0]);
                t
            })
            .collect();
        m.control_sleeps();
        let before: Vec<f64> = tasks.iter().map(|t| m.cpu_s(*t)).collect();
        m.run_until(m.now + 60 * SECOND);
        let sum: f64 = weight.iter().sum();
        for (i, t) in tasks.iter().enumerate() {
            // a slice is a tick long (4 ms) at the end of the interval
            near(m.cpu_s(*t) - before[i], 60.0 * weight[i] / sum, 0.02, &format!("nice {}", nice[i]));
        }
        no_warnings(&m);
    });
}

/// The fair server has 50 ms in each second (kernel/sched/deadline.c): 5 % for fair tasks under a FIFO hog.
#[test]
fn fair_server_leaves_five_percent_beside_a_fifo_hog() {
    in_child("fair_server_leaves_five_percent_beside_a_fifo_hog", |object| {
        let mut m = Mini::boot(&object, &flat(2), 16, "noautogroup");
        let tasks = [m.spawn(hog()), m.spawn(hog())];
        tasks.iter().for_each(|t| pin(&mut m, *t, 1));
        assert_eq!(m.control(op::SCHED, [u64::from(tasks[1].0), 1 | 50 << 32, 0, 0, 0]), 0);
        m.control_sleeps();
        m.run_until(m.now + 20 * SECOND);
        near(m.cpu_s(tasks[0]), 1.0, 0.06, "fair task");
        near(m.cpu_s(tasks[0]) + m.cpu_s(tasks[1]), 20.0, 0.01, "no time is lost");
        no_warnings(&m);
    });
}

#[test]
fn a_deadline_task_gets_its_runtime_in_each_period() {
    in_child("a_deadline_task_gets_its_runtime_in_each_period", |object| {
        let mut m = Mini::boot(&object, &flat(4), 16, "noautogroup");
        let tasks: Vec<TaskId> = (0..5).map(|_| m.spawn(hog())).collect();
        let ms = 1_000_000;
        assert_eq!(m.control(op::SCHED, [u64::from(tasks[4].0), 6, 30 * ms, 100 * ms, 100 * ms]), 0);
        // 950 ms/s is all there is for real-time tasks: 97 of 100 ms is refused (EBUSY)
        assert_eq!(m.control(op::SCHED, [u64::from(tasks[3].0), 6, 97 * ms, 100 * ms, 100 * ms]), 0);
        let refused: Vec<i64> = (0..3)
            .map(|i| m.control(op::SCHED, [u64::from(tasks[i].0), 6, 97 * ms, 100 * ms, 100 * ms]))
            .collect();
        assert!(refused.contains(&-16), "4 CPUs x 0.95 cannot hold 0.3 + 4 x 0.97: {refused:?}");
        m.control(op::SCHED, [u64::from(tasks[3].0), 0, 0, 0, 0]);
        for t in &tasks[..3] {
            m.control(op::SCHED, [u64::from(t.0), 0, 0, 0, 0]);
        }
        m.control_sleeps();
        let before = m.cpu_s(tasks[4]);
        m.run_until(m.now + 20 * SECOND);
        // the first and last period can be cut; throttling is enforced at the tick (4 ms) at worst
        near(m.cpu_s(tasks[4]) - before, 6.0, 0.064, "30 ms in each of 200 periods");
        no_warnings(&m);
    });
}

#[test]
fn cgroup_weight_and_max_hold() {
    in_child("cgroup_weight_and_max_hold", |object| {
        let mut m = Mini::boot(&object, &flat(1), 16, "noautogroup");
        assert_eq!((m.mkdir("/cg"), m.mount("cgroup2", "/cg")), (0, 0));
        assert_eq!(m.write("/cg/cgroup.subtree_control", "+cpu"), 4);
        for (name, file, value) in
            [("a", "cpu.weight", "300"), ("b", "cpu.weight", "100"), ("c", "cpu.max", "20000 100000")]
        {
            assert_eq!(m.mkdir(&format!("/cg/{name}")), 0);
            assert!(m.write(&format!("/cg/{name}/{file}"), value) > 0);
        }
        let tasks: Vec<TaskId> = ["a", "b", "b", "c", "c"]
            .iter()
            .map(|group| {
                let t = m.spawn(hog());
                let path = std::ffi::CString::new(format!("/cg/{group}/cgroup.procs")).unwrap();
                assert!(m.control(op::ATTACH, [u64::from(t.0), path.as_ptr() as u64, 0, 0, 0]) > 0);
                t
            })
            .collect();
        m.control_sleeps();
        let before: Vec<f64> = tasks.iter().map(|t| m.cpu_s(*t)).collect();
        m.run_until(m.now + 60 * SECOND);
        let ran: Vec<f64> = tasks.iter().zip(before).map(|(t, b)| m.cpu_s(*t) - b).collect();
        // c's weight of 100 in 500 would be 20 %, its limit is 20 %: it gets less than its share by what
        // throttling costs
        near(ran[3] + ran[4], 12.0, 0.3, "cpu.max 20 %");
        near(ran[0] / (ran[1] + ran[2]), 3.0, 0.05, "weights 300 to 100");
        no_warnings(&m);
    });
}

/// Nothing in the way: a timer wakes a task at its instant, and the task runs at that instant.
#[test]
fn sleeps_are_exact_on_an_idle_cpu() {
    in_child("sleeps_are_exact_on_an_idle_cpu", |object| {
        let mut m = Mini::boot(&object, &flat(1), 16, "noautogroup");
        let t = m.spawn(sleeper(1_000_000, 2_000_000));
        m.control_sleeps();
        let (before, start) = (m.kernel.stats(t), m.now);
        m.run_until(start + 30 * SECOND);
        let after = m.kernel.stats(t);
        // at the cut the task is one phase into its period at most
        near((after.cpu_ns - before.cpu_ns) as f64, 10e9, 1e6, "1 of 3 ms");
        near((after.nvcsw - before.nvcsw) as f64, 10_000.0, 1.0, "a sleep every 3 ms");
        no_warnings(&m);
    });
}

/// Children are reaped by the kernel; memory for 2,000 tasks is enough for 20,000 that live one after the other.
#[test]
fn forks_and_exits_do_not_leak() {
    in_child("forks_and_exits_do_not_leak", |object| {
        let mut m = Mini::boot(&object, &flat(2), 20_002, "noautogroup");
        let threads = m.kernel.threads().len();
        let (mut forks, mut ran) = (0, false);
        let parent = m.spawn(Box::new(move |_| {
            ran = !ran;
            if forks == 20_000 {
                return Step::Op(op::EXIT, 0, [0; 5]);
            } else if ran {
                return Step::Run(50_000);
            }
            forks += 1;
            let mut done = false;
            Step::Fork(Box::new(move |_| {
                done = !done;
                if done { Step::Run(20_000) } else { Step::Op(op::EXIT, 0, [0; 5]) }
            }))
        }));
        m.control_sleeps();
        m.run_until(m.now + 3 * SECOND);
        for id in 0..=20_000 {
            let task = TaskId(id);
            assert!(!m.kernel.alive(task), "{task} is still there");
            let expected = if task == parent { 20_000 * 50_000 } else { 20_000 };
            assert_eq!(m.kernel.stats(task).cpu_ns, expected, "{task}");
        }
        assert!(m.kernel.threads().len() <= threads + 8);
        no_warnings(&m);
    });
}

#[test]
fn tasks_wake_each_other_and_yield() {
    in_child("tasks_wake_each_other_and_yield", |object| {
        let mut m = Mini::boot(&object, &flat(1), 16, "noautogroup");
        // 0 blocks for good, again and again; 1 runs 1 ms, wakes it, yields to it
        let mut ran = false;
        let sleeper = m.spawn(Box::new(move |_| {
            ran = !ran;
            if ran { Step::Run(250_000) } else { Step::Op(op::BLOCK, 0, [u64::MAX, 0, 0, 0, 0]) }
        }));
        let mut phase = 0u32;
        let mut sync = false;
        let waker = m.spawn(Box::new(move |_| {
            phase = (phase + 1) % 3;
            match phase {
                1 => Step::Run(1_000_000),
                2 => {
                    sync = !sync;
                    Step::Op(op::WAKE, if sync { op::F_SYNC } else { 0 }, [u64::from(sleeper.0), 0, 0, 0, 0])
                }
                _ => Step::Op(op::YIELD, 0, [0; 5]),
            }
        }));
        m.control_sleeps();
        let before = [sleeper, waker].map(|t| m.cpu_s(t));
        m.run_until(m.now + 10 * SECOND);
        let ran = [m.cpu_s(sleeper) - before[0], m.cpu_s(waker) - before[1]];
        near(ran[0] + ran[1], 10.0, 0.001, "the CPU is never idle");
        // each wake gives 0.25 ms to the sleeper per 1 ms of the waker, unless one comes while it still runs
        assert!(ran[0] > 1.0 && ran[0] <= 2.001, "{ran:?}");
        no_warnings(&m);
    });
}

/// Log and kernel agree: between switches, each task's time adds up to se.sum_exec_runtime; no CPU loses a switch.
#[test]
fn the_log_is_complete() {
    in_child("the_log_is_complete", |object| {
        let mut m = Mini::boot(&object, &flat(4), 64, "noautogroup");
        let tasks: Vec<TaskId> =
            (0..12).map(|i| m.spawn(sleeper(700_000 + 100_000 * i, 400_000 + 300_000 * i))).collect();
        m.control_sleeps();
        let before: Vec<u64> = tasks.iter().map(|t| m.kernel.stats(*t).cpu_ns).collect();
        let start = m.now;
        m.keep_log = true;
        m.start_log();
        m.run_until(start + 2 * SECOND);
        m.flush_log();
        let end = m.now - start;
        let mut on: Vec<Option<(u32, u64)>> = vec![None; 4];
        let mut ran = vec![0u64; tasks.len()];
        let mut last = 0;
        let mut switches = 0;
        for r in m.log.iter() {
            assert!(r.time_ns >= last, "time goes back");
            last = r.time_ns;
            if r.kind != 1 {
                continue;
            }
            switches += 1;
            let cpu = usize::from(r.cpu);
            if let Some((task, since)) = on[cpu] {
                assert_eq!(
                    task, r.task,
                    "cpu{cpu} at {} switches from a task that it did not run",
                    r.time_ns
                );
                if let Some(t) = ran.get_mut(task as usize) {
                    *t += r.time_ns - since;
                }
            } else if let Some(t) = ran.get_mut(r.task as usize) {
                *t += r.time_ns; // it ran since the log began
            }
            on[cpu] = Some((r.other, r.time_ns));
        }
        for (task, since) in on.iter().flatten() {
            if let Some(t) = ran.get_mut(*task as usize) {
                *t += end - since;
            }
        }
        assert!(switches > 5_000);
        for (i, t) in tasks.iter().enumerate() {
            let kernel = m.kernel.stats(*t).cpu_ns - before[i];
            // a task that runs at either end has up to a tick that the kernel has not accounted yet
            near(ran[i] as f64, kernel as f64, 4e6, &format!("{t}"));
        }
        no_warnings(&m);
    });
}

/// Two processes under address space randomisation write the same log.
#[test]
fn two_runs_are_byte_identical() {
    let run = || {
        in_child("two_runs_are_byte_identical", |object| {
            let mut m = Mini::boot(&object, &flat(8), 64, "noautogroup");
            for i in 0..20 {
                m.spawn(sleeper(900_000 + 77_000 * i, 500_000 + 31_000 * i));
            }
            for _ in 0..4 {
                m.spawn(hog());
            }
            m.control_sleeps();
            m.start_log();
            m.run_until(m.now + 20 * SECOND);
            m.flush_log();
            println!("\nresult {} {:016x}", m.records, m.hash);
        })
    };
    let first = run();
    if std::env::var("SCHEDLAB_CHILD").is_ok() {
        return;
    }
    assert_eq!(first, run());
    let records: u64 = first[0].split(' ').next().unwrap().parse().unwrap();
    assert!(records > 100_000, "{records}");
}

#[test]
fn tunables_can_be_read_and_written() {
    in_child("tunables_can_be_read_and_written", |object| {
        let mut m = Mini::boot(&object, &flat(4), 16, "noautogroup skew_tick=1");
        m.mkdir("/proc");
        m.mkdir("/sys");
        assert_eq!((m.mount("proc", "/proc"), m.mount("sysfs", "/sys")), (0, 0));
        assert_eq!(m.mount("debugfs", "/sys/kernel/debug"), 0);
        // 0.7 ms times 1 + log2(4 CPUs), kernel/sched/fair.c; Debian's preemption model
        let base = "/sys/kernel/debug/sched/base_slice_ns";
        assert_eq!(m.read(base).unwrap().trim(), "2100000");
        assert!(m.write(base, "3000000") > 0);
        assert_eq!(m.read(base).unwrap().trim(), "3000000");
        assert_eq!(m.read("/sys/kernel/debug/sched/preempt").unwrap().trim(), "none (voluntary) full");
        assert_eq!(m.read("/proc/sys/kernel/sched_rt_runtime_us").unwrap().trim(), "950000");
        assert_eq!(m.write("/proc/sys/kernel/sched_rt_runtime_us", "2000000"), -22);
        assert_eq!(m.read("/nonexistent"), Err(-2));
        assert!(m.read("/proc/cmdline").unwrap().contains("skew_tick=1"));
        no_warnings(&m);
    });
}

#[test]
fn the_end_of_process_one_is_a_panic_that_is_reported() {
    in_child("the_end_of_process_one_is_a_panic_that_is_reported", |object| {
        let mut m = Mini::boot(&object, &flat(2), 16, "noautogroup");
        m.control_starts(op::EXIT, [0; 5]);
        match m.try_run_while(&mut |_| true) {
            Err(KernelError::Dead { panic: true, reason }) => {
                assert!(reason.contains("Attempted to kill init"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    });
}
