//! Drive a kernel object by hand: `cargo run --release --example drive -- OBJECT SCENARIO CPUS [SECONDS]`.
//!
//! Scenarios: place, nice, rt, dl, sleep, bench, cgroup, groups, fork, files. groups has memory for SECONDS
//! control groups, and makes them until the kernel refuses one (or panics, out of memory), eight times as
//! many at most. What each prints can be compared with the same scenario on any other kernel.
//! SCHEDLAB_CONSOLE=1 shows the kernel's console.

#[path = "../tests/mini/mod.rs"]
#[allow(dead_code)]
mod mini;

use std::path::PathBuf;
use std::time::Instant;

use mini::{Mini, Program, Step, flat, hog, sleeper};
use schedlab_linux::abi::op;
use schedlab_units::TaskId;

fn affinity(m: &mut Mini, task: TaskId, mask: u64) {
    let words = [mask];
    let r = m.control(op::AFFINITY, [u64::from(task.0), words.as_ptr() as u64, 1, 0, 0]);
    assert_eq!(r, 0, "affinity of {task}");
}

fn sched(m: &mut Mini, task: TaskId, policy: u64, param: i32, dl: [u64; 3]) -> i64 {
    m.control(op::SCHED, [u64::from(task.0), policy | u64::from(param as u32) << 32, dl[0], dl[1], dl[2]])
}

fn show(m: &Mini, tasks: &[TaskId], when: &str) {
    println!("[{when}] t={:.6}s", m.now as f64 * 1e-9);
    for t in tasks {
        let s = m.kernel.stats(*t);
        println!(
            "  {t} run={:.6}s voluntary={} involuntary={} migrations={}",
            s.cpu_ns as f64 * 1e-9,
            s.nvcsw,
            s.nivcsw,
            s.migrations
        );
    }
}

/// CPU time of this process, ns.
fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Two groups, one with thrice the weight, one with a limit; two hogs in each.
fn cgroup(m: &mut Mini, tasks: &mut Vec<TaskId>) {
    println!("mkdir {} mount {}", m.mkdir("/cg"), m.mount("cgroup2", "/cg"));
    println!("controllers {}", m.write("/cg/cgroup.subtree_control", "+cpu +cpuset"));
    println!("groups {} {}", m.mkdir("/cg/a"), m.mkdir("/cg/b"));
    println!(
        "weight {} max {}",
        m.write("/cg/a/cpu.weight", "300"),
        m.write("/cg/b/cpu.max", "20000 100000")
    );
    for i in 0..4 {
        let t = m.spawn(hog());
        let path = std::ffi::CString::new(if i < 2 { "/cg/a/cgroup.procs" } else { "/cg/b/cgroup.procs" });
        let r = m.control(op::ATTACH, [u64::from(t.0), path.unwrap().as_ptr() as u64, 0, 0, 0]);
        assert!(r > 0, "attach: {r}");
        tasks.push(t);
    }
}

/// What the kernel's own files say.
fn files(m: &mut Mini) {
    println!("proc {} {}", m.mkdir("/proc"), m.mount("proc", "/proc"));
    println!("sys {} {}", m.mkdir("/sys"), m.mount("sysfs", "/sys"));
    println!("debugfs {}", m.mount("debugfs", "/sys/kernel/debug"));
    println!("{:?}", m.read("/proc/sys/kernel/sched_rt_runtime_us"));
    println!("{:?}", m.read("/sys/kernel/debug/sched/base_slice_ns"));
    println!("{:?}", m.read("/sys/kernel/debug/sched/features"));
    println!("{:?}", m.read("/sys/kernel/debug/sched/preempt"));
    println!("{:?} {:?}", m.read("/proc/sys/kernel/pid_max"), m.read("/proc/sys/kernel/threads-max"));
    println!("{:?}", m.read("/proc/meminfo"));
    println!("{}", m.read("/sys/kernel/debug/sched/debug").unwrap());
}

/// More control groups than were announced: what each takes, and when there is no room.
fn groups(m: &mut Mini, nr_groups: u32) {
    println!("proc {} {}", m.mkdir("/proc"), m.mount("proc", "/proc"));
    println!("cgroup2 {} {}", m.mkdir("/cg"), m.mount("cgroup2", "/cg"));
    println!("controllers {}", m.write("/cg/cgroup.subtree_control", "+cpu +cpuset"));
    let free = |m: &mut Mini| {
        let text = m.read("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MemFree:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = free(m);
    for n in 0..8 * nr_groups {
        if n == nr_groups {
            let used = before - free(m);
            println!("{n} groups: {used} of {before} KB, {:.1} each", used as f64 / f64::from(n));
        }
        let result = m.mkdir(&format!("/cg/g{n}"));
        if result != 0 {
            println!("group {n} is refused: {result}; {} KB are free", free(m));
            break;
        }
    }
}

/// One parent, a child every 0.5 ms that runs 0.2 ms and exits.
fn forks() -> Program {
    let mut forks = 0;
    let mut running = false;
    Box::new(move |_| {
        running = !running;
        if running || forks == 20_000 {
            return if forks == 20_000 { Step::Op(op::EXIT, 0, [0; 5]) } else { Step::Run(500_000) };
        }
        forks += 1;
        let mut ran = false;
        Step::Fork(Box::new(move |_| {
            ran = !ran;
            if ran { Step::Run(200_000) } else { Step::Op(op::EXIT, 0, [0; 5]) }
        }))
    })
}

fn show_end(m: &Mini, tasks: &[TaskId]) {
    if tasks.len() <= 8 {
        show(m, tasks, "end");
    } else {
        let run: Vec<f64> = tasks.iter().map(|t| m.cpu_s(*t)).collect();
        println!(
            "{} tasks ran {:.6} to {:.6} s",
            run.len(),
            run.iter().copied().fold(f64::MAX, f64::min),
            run.iter().copied().fold(0.0, f64::max)
        );
    }
}

fn main() {
    let arg: Vec<String> = std::env::args().collect();
    let (object, scenario, cpus) = (PathBuf::from(&arg[1]), arg[2].as_str(), arg[3].parse::<u32>().unwrap());
    let seconds: f64 = arg.get(4).map_or(10.0, |s| s.parse().unwrap());
    let start = Instant::now();
    let nr_groups = if scenario == "groups" { seconds as u32 } else { 16 };
    let mut m = Mini::boot_for_groups(&object, &flat(cpus), 30_000, "noautogroup", nr_groups);
    println!(
        "{}\nbooted {cpus} CPUs in {:.1} ms, {:.3} ms simulated, {} resumes; {} warnings",
        m.kernel.banner(),
        start.elapsed().as_secs_f64() * 1e3,
        m.now as f64 * 1e-6,
        m.resumes,
        m.kernel.console().nr_warnings()
    );
    let mut tasks = Vec::new();
    match scenario {
        "place" => {
            for _ in 0..8 {
                let t = m.spawn(hog());
                affinity(&mut m, t, 1);
                tasks.push(t);
            }
            m.run_until(m.now + 200_000_000);
            show(&m, &tasks, "all pinned to cpu0");
            for t in &tasks {
                affinity(&mut m, *t, (1 << cpus) - 1);
            }
        }
        "nice" => {
            for nice in [0, 0, 0, 0, 5, 5, -5, 10] {
                let t = m.spawn(hog());
                affinity(&mut m, t, 1);
                m.control(op::NICE, [u64::from(t.0), nice as u64, 0, 0, 0]);
                tasks.push(t);
            }
        }
        "rt" => {
            for _ in 0..2 {
                let t = m.spawn(hog());
                affinity(&mut m, t, 1);
                tasks.push(t);
            }
            println!("FIFO 50: {}", sched(&mut m, tasks[1], 1, 50, [0; 3]));
        }
        "dl" => {
            for _ in 0..5 {
                tasks.push(m.spawn(hog()));
            }
            println!("DEADLINE: {}", sched(&mut m, tasks[4], 6, 0, [30_000_000, 100_000_000, 100_000_000]));
        }
        "sleep" => {
            for _ in 0..4 * cpus {
                tasks.push(m.spawn(sleeper(100_000, 300_000)));
            }
        }
        "eight" => {
            for _ in 0..8 {
                tasks.push(m.spawn(sleeper(4_000_000, 6_000_000)));
            }
        }
        "bench" => {
            for _ in 0..2 * cpus {
                tasks.push(m.spawn(hog()));
            }
        }
        "cgroup" => cgroup(&mut m, &mut tasks),
        "fork" => tasks.push(m.spawn(forks())),
        "files" => files(&mut m),
        "groups" => groups(&mut m, nr_groups),
        _ => panic!("unknown scenario {scenario}"),
    }
    m.control_sleeps();
    if std::env::var_os("NOLOG").is_none() {
        m.start_log();
    }
    let (v0, w0, r0, t0) = (m.now, cpu_ns(), m.resumes, m.timers);
    m.run_until(m.now + (seconds * 1e9) as u64);
    let wall = (cpu_ns() - w0) as f64 * 1e-9;
    m.flush_log();
    show_end(&m, &tasks);
    let (resumes, timers) = (m.resumes - r0, m.timers - t0);
    println!(
        "{:.3} s simulated in {wall:.3} CPU s ({:.0} x); {resumes} resumes, {timers} timers, {} records (hash \
            {:016x}); {:.0} ns/resume {:.0} ns/timer {:.0} ns/record",
        (m.now - v0) as f64 * 1e-9,
        (m.now - v0) as f64 * 1e-9 / wall,
        m.records,
        m.hash,
        wall * 1e9 / resumes as f64,
        wall * 1e9 / timers as f64,
        wall * 1e9 / m.records as f64
    );
    for w in m.kernel.console().warnings() {
        println!("WARNING {} {:#?}", w.head, w.text);
    }
}
