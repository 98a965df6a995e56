//! sched_ext schedulers, as the kernel ships them, on the kernel's own ext.c.

use schedlab_linux::build::{self, BuildOptions, BuiltKernel};
use schedlab_machine::drawn::{Life::*, workload};
use schedlab_runner::{
    ChildReport, LinuxObject, RunEnd, RunError, RunRequest, Scheduler, SchedulerError, run,
};
use schedlab_scx as scx;
use schedlab_topology::Topology;
use schedlab_units::{Nice, SchedParams, Span};
use schedlab_workload::{Cgroup, CgroupId, Workload};
use std::path::{Path, PathBuf};

fn kernel(series: &str) -> BuiltKernel {
    let options = BuildOptions { flavours: vec!["scx".into()], ..BuildOptions::default() };
    build::add(series, &options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// A scheduler of the kernel's tools/sched_ext, or a file; with the sub-schedulers that parameters ask for.
fn scheduler(series: &str, what: &str, params: &[(&str, &str)]) -> Scheduler {
    let kernel = kernel(series);
    let compile = |what: &str| {
        let file = if what.contains('/') {
            PathBuf::from(what)
        } else {
            kernel.source.join(format!("tools/sched_ext/scx_{what}.bpf.c"))
        };
        scx::compile(&kernel, &file).unwrap_or_else(|e| panic!("{e}"))
    };
    let mut compiled = compile(what);
    for (param, sub) in params {
        if let Some((scx::ATTACHED, group)) = scx::sub_of(param) {
            compiled.subs.insert(group.to_owned(), compile(sub));
        }
    }
    Scheduler::Linux(LinuxObject {
        name: format!("scx:{what}"),
        scx: Some(compiled),
        ..LinuxObject::of(&kernel)
    })
}

fn report(what: &str, cpus: u32, seconds: u64, workload: &Workload, params: &[(&str, &str)]) -> ChildReport {
    report_on("6.12", what, Topology::flat(cpus).unwrap(), seconds, workload, params)
}

fn report_on(
    series: &str,
    what: &str,
    machine: Topology,
    seconds: u64,
    workload: &Workload,
    params: &[(&str, &str)],
) -> ChildReport {
    try_on(series, what, machine, seconds, workload, params).unwrap_or_else(|e| panic!("{e}"))
}

fn try_on(
    series: &str,
    what: &str,
    machine: Topology,
    seconds: u64,
    workload: &Workload,
    params: &[(&str, &str)],
) -> Result<ChildReport, RunError> {
    let scheduler = scheduler(series, what, params);
    let request = RunRequest {
        duration: Some(Span::from_ms(seconds * 1000)),
        params: params.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        ..RunRequest::new(workload, &scheduler, machine)
    };
    run(&request).map(|result| result.report)
}

/// CPU time of each task in s, of a run that went well.
fn seconds(report: &ChildReport) -> Vec<f64> {
    assert!(matches!(report.end, RunEnd::Duration), "{:?}", report.end);
    assert_eq!(report.warnings, Vec::<String>::new());
    report.kernel_cpu_ns.iter().map(|ns| *ns as f64 * 1e-9).collect()
}

fn hogs(n: usize) -> Workload {
    workload(&vec![&[Run(1_000_000)][..]; n])
}

fn value(report: &ChildReport, group: &str, name: &str) -> Option<String> {
    report.account.iter().find(|(g, n, _)| g == group && n == name).map(|(_, _, v)| v.clone())
}

fn misbehaved(report: &ChildReport) -> (String, String) {
    match &report.end {
        RunEnd::Misbehaved { report } => (report.kind.to_string(), report.reason.clone()),
        other => panic!("{other:?}"),
    }
}

/// scx_simple charges `slice * 100 / weight`; weight is 100 at nice 0, and at nice 5 what the kernel makes of
/// its 335 of 1024: 335 * 100 / 1024 = 32.7, rounded 33. Eight hogs on one CPU: 100 : 33. (Two would
/// alternate: the one that runs is not yet in the queue when the next is taken from it.)
#[test]
fn simple_shares_by_weight() {
    let mut work = hogs(8);
    for task in &mut work.tasks[4..] {
        task.params = Some(SchedParams { nice: Nice::new(5).unwrap(), ..SchedParams::default() });
    }
    let report = report("simple", 1, 20, &work, &[]);
    let cpu = seconds(&report);
    let ratio = cpu[..4].iter().sum::<f64>() / cpu[4..].iter().sum::<f64>();
    assert!((ratio - 100.0 / 33.0).abs() < 0.1, "{cpu:?}: {ratio}");
    assert!((cpu.iter().sum::<f64>() - 20.0).abs() < 0.02, "{cpu:?}");
    // its own statistics: stats[1] counts what went through the shared queue, one for each slice of 20 ms
    let shared: u64 = value(&report, "statistics", "stats[1]").unwrap().parse().unwrap();
    assert!((1000..1200).contains(&shared), "{shared}");
}

/// First in, first out: nice does not count, 20 ms each in turn.
#[test]
fn simple_has_its_option() {
    let mut two = hogs(2);
    two.tasks[1].params = Some(SchedParams { nice: Nice::new(5).unwrap(), ..SchedParams::default() });
    let report = report("simple", 1, 4, &two, &[("fifo_sched", "true")]);
    let cpu = seconds(&report);
    assert!((cpu[0] - cpu[1]).abs() < 0.045, "{cpu:?}");
    assert_eq!(value(&report, "settings", "fifo_sched").as_deref(), Some("1"));
}

/// qmap's own test of the error exit (its option -e): the kernel throws it out, with a stack and a dump.
#[test]
fn an_error_exit_is_reported_with_its_dump() {
    let (kind, reason) = misbehaved(&report("qmap", 2, 10, &hogs(4), &[("test_error_cnt", "50")]));
    assert_eq!(kind, "scheduler exit");
    assert!(reason.starts_with("the kernel threw it out: scx_bpf_error (test triggering error)"), "{reason}");
    assert!(reason.contains("the kernel's dump:"), "{reason}");
    // B5: who called, from the kernel's function that threw it on, each once, and no second list of them in the dump.
    // (The kernel's walk knows its own code only: the scheduler's frame, between the first and the second, is not in
    // it.)
    let frames: Vec<&str> = reason.lines().filter_map(|line| line.strip_prefix("    at ")).collect();
    assert!(
        frames[0].starts_with("scx_bpf_error_bstr+") && frames[1].starts_with("do_enqueue_task+"),
        "{reason}"
    );
    assert!(frames.iter().all(|frame| frames.iter().filter(|f| f == &frame).count() == 1), "{reason}");
    assert!(!reason.contains("Backtrace:"), "{reason}");
    // of each CPU the kernel's part and qmap's own
    assert!(reason.contains("CPU states") && reason.contains("QMAP"), "{reason}");
}

/// qmap's own test of the watchdog (-t): one in five user threads is never dispatched; its timeout is 5 s.
#[test]
fn the_kernels_watchdog_finds_a_stall() {
    let report = report("qmap", 2, 30, &hogs(4), &[("stall_user_nth", "5")]);
    let (kind, reason) = misbehaved(&report);
    assert_eq!(kind, "scheduler exit");
    assert!(reason.contains("runnable task stall"), "{reason}");
    // the watchdog looks every half of the timeout: after 5 to 7.5 s
    let (_, after) = reason.split_once("failed to run for ").expect(&reason);
    let seconds: f64 = after.split('s').next().unwrap().parse().unwrap();
    assert!((5.0..=7.5).contains(&seconds), "{reason}");
    // B5: no left-overs of calls that are over: the watchdog looked, and its worker called it
    let frames: Vec<&str> = reason.lines().filter_map(|line| line.strip_prefix("    at ")).collect();
    let names: Vec<&str> = frames.iter().filter_map(|frame| frame.split('+').next()).collect();
    assert_eq!(names[..3], ["scx_watchdog_workfn", "process_one_work", "worker_thread"], "{reason}");
    assert!((5_000..8_500).contains(&(report.duration_ns / 1_000_000)), "{}", report.duration_ns);
}

/// qmap, without its tests: hogs share two CPUs; five levels by weight, first in first out in each.
#[test]
fn qmap_runs() {
    let report = report("qmap", 2, 10, &hogs(4), &[]);
    let cpu = seconds(&report);
    assert!(cpu.iter().all(|s| (s - 5.0).abs() < 0.3), "{cpu:?}");
    let dispatched: u64 = value(&report, "statistics", "nr_dispatched").unwrap().parse().unwrap();
    assert!(dispatched > 500, "{dispatched}");
}

/// central: CPU 0 decides for all, and preempts after its slice of 20 ms by a timer of 1 ms.
#[test]
fn central_decides_for_all_cpus() {
    let report = report("central", 4, 10, &hogs(8), &[]);
    let cpu = seconds(&report);
    let total: f64 = cpu.iter().sum();
    assert!((total - 40.0).abs() < 0.5, "{cpu:?}");
    assert!(cpu.iter().all(|s| (s - 5.0).abs() < 1.0), "{cpu:?}");
    let timers: u64 = value(&report, "statistics", "nr_timers").unwrap().parse().unwrap();
    assert!((9_000..12_000).contains(&timers), "10 s of 1 ms, and the boot: {timers}");
    assert_eq!(value(&report, "defaults", "nr_cpu_ids").as_deref(), Some("4"));
}

/// Tasks 0 and 1 in a group of weight 300, 2 and 3 in one of 100.
fn two_groups() -> Workload {
    let mut work = hogs(4);
    let group =
        |path: &str, weight| Cgroup { path: path.into(), weight: Some(weight), max: None, cpuset: None };
    work.cgroups = vec![group("/a", 300), group("/b", 100)];
    for (i, task) in work.tasks.iter_mut().enumerate() {
        task.cgroup = Some(CgroupId(i as u32 / 2));
    }
    work
}

/// flatcg: two control groups of weight 300 and 100 on one CPU.
#[test]
fn flatcg_shares_by_cgroup() {
    let report = report("flatcg", 1, 20, &two_groups(), &[]);
    let cpu = seconds(&report);
    let ratio = (cpu[0] + cpu[1]) / (cpu[2] + cpu[3]);
    assert!((ratio - 3.0).abs() < 0.15, "{cpu:?}: {ratio}");
}

/// RFC 9669 (BPF's instruction set): x / 0 = 0, x % 0 = x, smallest / -1 = smallest; the kernel: loads
/// through bad pointers read 0; callbacks' results have 64 bits; programs run within RCU and do not migrate.
/// libbpf: types of the program's own are relocated.
#[test]
fn what_bpf_defines_holds() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/semantics.bpf.c");
    let report = report(file.to_str().unwrap(), 2, 1, &hogs(4), &[]);
    seconds(&report);
    let expected: [(&str, i64); 19] = [
        ("quotient_u64", 0),
        ("remainder_u64", 7),
        ("quotient_u32", 0),
        ("remainder_u32", 7),
        ("quotient_s64", i64::MIN),
        ("remainder_s64", 0),
        ("quotient_by_zero_s64", 0),
        ("loaded_null", 0),
        ("loaded_wild", 0),
        ("loaded_nested", 0),
        ("compared", 1),
        ("probe_result", -14), // EFAULT
        ("order", 123),
        ("loops", 5),
        ("migration_disabled", 1),
        ("in_rcu", 1),
        ("configured", 1111),
        ("short_array[1]", 7),
        ("relocated", (1 << 45) - 1),
    ];
    // what has not changed is not listed
    assert_eq!(value(&report, "statistics", "refused"), None);
    for (name, number) in expected {
        assert_eq!(value(&report, "statistics", name), Some(number.to_string()), "{name}");
    }
    let loads: u64 = value(&report, "emulated", "loads through bad pointers").unwrap().parse().unwrap();
    assert!(loads >= 5, "{loads}");
}

/// A8: bpf_get_prandom_u32() has a state for each CPU, seeded when the program is loaded (the verifier does it).
/// Equal runs draw equal numbers; a perturbed run begins at another time of the kernel's, and draws others.
#[test]
fn random_numbers_are_drawn() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/random.bpf.c");
    let scheduler = scheduler("6.12", file.to_str().unwrap(), &[]);
    let work = hogs(4);
    let drawn = |perturb: Option<&str>| {
        let request = RunRequest {
            duration: Some(Span::from_ms(10_000)),
            perturb: perturb.map(|p| p.parse().unwrap()),
            ..RunRequest::new(&work, &scheduler, Topology::flat(2).unwrap())
        };
        let report = run(&request).unwrap_or_else(|e| panic!("{e}")).report;
        seconds(&report);
        let number = |name: &str| {
            let value = value(&report, "statistics", name).unwrap_or_else(|| panic!("{name} is 0"));
            value.parse::<u64>().unwrap()
        };
        let remainders = [0, 1, 2, 3].map(|i| number(&format!("remainders[{i}]")));
        (number("in_init"), number("first_of_cpu[0]"), number("first_of_cpu[1]"), remainders)
    };
    let plain = drawn(None);
    let (in_init, cpu0, cpu1, remainders) = plain;
    assert!(in_init != cpu0 && cpu0 != cpu1, "{plain:?}");
    // 20 ms slices on two CPUs: n draws at least, each remainder n/4 of them within 5 sigma (sigma^2 = n * 3/16)
    let n: u64 = remainders.iter().sum();
    assert!(n >= 990, "{remainders:?}");
    let sigma = (n as f64 * 3.0 / 16.0).sqrt();
    assert!(remainders.iter().all(|&r| (r as f64 - n as f64 / 4.0).abs() < 5.0 * sigma), "{remainders:?}");
    assert_eq!(plain, drawn(None));
    assert_eq!(plain, drawn(Some("7,phase=0,slack=0,start=0")));
    let [seven, eight] = ["7", "8"].map(|seed| drawn(Some(seed)));
    assert!(seven.0 != plain.0 && eight.0 != plain.0 && seven.0 != eight.0, "{seven:?} {eight:?}");
    assert_eq!(seven, drawn(Some("7")));
}

/// Published schedulers, from their crates, with the defaults that stand for their user-space halves.
#[test]
#[ignore = "long: fetches crates"]
fn published_schedulers_run() {
    for name in ["bpfland", "lavd", "rusty"] {
        let source = scx::Published::parse(name, "6.12").unwrap().fetch().unwrap_or_else(|e| panic!("{e}"));
        let report = report(source.to_str().unwrap(), 4, 5, &hogs(8), &[]);
        let cpu = seconds(&report);
        let total: f64 = cpu.iter().sum();
        assert!(total > 19.8, "{name}: {cpu:?}");
        assert!(cpu.iter().all(|s| *s > 1.0), "{name}: {cpu:?}");
        assert_eq!(value(&report, "scheduler", "name").as_deref(), Some(name));
    }
}

/// Twice the same, to the last record.
#[test]
fn runs_are_deterministic() {
    let one = || {
        let r = report(
            "simple",
            2,
            2,
            &workload(&[&[Run(3), Sleep(2), Run(900)], &[Run(700)], &[Run(800)]]),
            &[],
        );
        (r.events, r.kernel_cpu_ns, r.account)
    };
    assert_eq!(one(), one());
}

/// Settings are checked before anything runs.
#[test]
fn a_bad_setting_says_what_is_expected() {
    let refused = |name: &str, value: &str| {
        let (kind, reason) = misbehaved(&report("simple", 1, 1, &hogs(1), &[(name, value)]));
        assert_eq!(kind, "refused");
        reason
    };
    let reason = refused("fifo_sched", "7000");
    assert!(reason.contains("fifo_sched: 7000 is not between 0 and 255"), "{reason}");
    let reason = refused("ops.timeout_ms", "60000");
    assert!(reason.contains("value of a member of struct sched_ext_ops"), "{reason}");
}

/// What Linux 7.2 ships in tools/sched_ext, and a current release from its crate, on 7.2. (userland's
/// decisions are made by its user-space half.)
mod newest {
    use super::*;

    fn on_7_2(what: &str, cpus: u32, seconds: u64, work: &Workload, params: &[(&str, &str)]) -> ChildReport {
        report_on("7.2", what, Topology::flat(cpus).unwrap(), seconds, work, params)
    }

    fn number(report: &ChildReport, group: &str, name: &str) -> u64 {
        value(report, group, name).unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }

    /// As on 6.12: 100 : 33.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn simple_and_flatcg_share_by_weight() {
        let mut work = hogs(8);
        for task in &mut work.tasks[4..] {
            task.params = Some(SchedParams { nice: Nice::new(5).unwrap(), ..SchedParams::default() });
        }
        let cpu = seconds(&on_7_2("simple", 1, 20, &work, &[]));
        let ratio = cpu[..4].iter().sum::<f64>() / cpu[4..].iter().sum::<f64>();
        assert!((ratio - 100.0 / 33.0).abs() < 0.1, "{cpu:?}: {ratio}");
        let cpu = seconds(&on_7_2("flatcg", 1, 20, &two_groups(), &[]));
        let ratio = (cpu[0] + cpu[1]) / (cpu[2] + cpu[3]);
        assert!((ratio - 3.0).abs() < 0.15, "{cpu:?}: {ratio}");
    }

    /// qmap of 7.2 keeps all that it knows in an arena, and speaks of cids: five levels, first in first out in each.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn qmap_runs_in_an_arena() {
        let report = on_7_2("qmap", 2, 10, &hogs(4), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().all(|s| (s - 5.0).abs() < 0.3), "{cpu:?}");
        // slices of 20 ms on two CPUs
        assert!(number(&report, "statistics", "qa.nr_dispatched") > 500);
        assert_eq!(value(&report, "defaults", "max_tasks").as_deref(), Some("16384"));
        // its own tests of the error exit and of the watchdog
        let (_, reason) = misbehaved(&on_7_2("qmap", 2, 10, &hogs(4), &[("qa.test_error_cnt", "50")]));
        assert!(reason.contains("test triggering error") && reason.contains("QMAP FIFO[0]"), "{reason}");
        let (_, reason) = misbehaved(&on_7_2("qmap", 2, 30, &hogs(4), &[("stall_user_nth", "5")]));
        assert!(reason.contains("runnable task stall"), "{reason}");
        // a slab for two tasks is not enough: the arena's limits are the scheduler's own
        let (_, reason) = misbehaved(&on_7_2("qmap", 2, 10, &hogs(4), &[("max_tasks", "2")]));
        assert!(reason.contains("task_ctx slab exhausted (max_tasks=2)"), "{reason}");
    }

    /// sdt allocates a record per task in an arena, by a tree of its own, and takes tasks in turn.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn sdt_allocates_in_an_arena() {
        let report = on_7_2("sdt", 2, 10, &hogs(4), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().all(|s| (s - 5.0).abs() < 0.3), "{cpu:?}");
        // the four, and the kernel's threads
        assert!(number(&report, "statistics", "alloc_stats.active_allocs") >= 4);
        let all = number(&report, "statistics", "alloc_stats.alloc_ops");
        assert!(all >= number(&report, "statistics", "alloc_stats.active_allocs"));
    }

    /// cpu0 runs everything on CPU 0: 10 s for four tasks on two CPUs. central: as on 6.12.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn cpu0_and_central_run() {
        let cpu = seconds(&on_7_2("cpu0", 2, 10, &hogs(4), &[]));
        assert!((cpu.iter().sum::<f64>() - 10.0).abs() < 0.1, "{cpu:?}");
        assert!(cpu.iter().all(|s| (s - 2.5).abs() < 0.1), "{cpu:?}");
        let cpu = seconds(&on_7_2("central", 4, 10, &hogs(8), &[]));
        assert!((cpu.iter().sum::<f64>() - 40.0).abs() < 0.5, "{cpu:?}");
        assert!(cpu.iter().all(|s| (s - 5.0).abs() < 1.0), "{cpu:?}");
    }

    /// pair: both CPUs of a pair run tasks of one group at a time. Two groups of two hogs on one pair: each
    /// task has half of it.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn pair_runs_groups_together() {
        let report = on_7_2("pair", 2, 10, &two_groups(), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().all(|s| (s - 5.0).abs() < 0.5), "{cpu:?}");
        assert!(number(&report, "statistics", "nr_cgrp_next") > 100);
    }

    /// scx_userland sorts by virtual time, charged by 100 / weight, and dispatches eight tasks at a time,
    /// first in first out: among 64 tasks the eight matter little, and they share 100 : 33.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn userland_shares_by_weight() {
        let mut work = hogs(16);
        let sixteen = work.tasks.clone();
        for copy in 1..4u32 {
            work.tasks.extend(sixteen.iter().cloned().map(|mut task| {
                task.pid += 16 * copy;
                for event in &mut task.events {
                    event.eid.0 += 1_000_000 * u64::from(copy);
                }
                task
            }));
        }
        for task in &mut work.tasks[32..] {
            task.params = Some(SchedParams { nice: Nice::new(5).unwrap(), ..SchedParams::default() });
        }
        let report = on_7_2("userland", 1, 60, &work, &[]);
        let cpu = seconds(&report);
        let ratio = cpu[..32].iter().sum::<f64>() / cpu[32..].iter().sum::<f64>();
        assert!((ratio - 100.0 / 33.0).abs() < 0.1, "{cpu:?}: {ratio}");
        assert!((cpu.iter().sum::<f64>() - 60.0).abs() < 0.5, "{cpu:?}");
        // slices of 20 ms, each decided in the half
        assert!(number(&report, "statistics", "nr_user_enqueues") > 2900);
    }

    /// Hogs in groups: of each task the group.
    fn grouped(paths: &[&str], of_tasks: &[usize]) -> Workload {
        let mut work = hogs(of_tasks.len());
        let group = |path: &&str| Cgroup { path: (*path).into(), weight: None, max: None, cpuset: None };
        work.cgroups = paths.iter().map(group).collect();
        for (task, group) in work.tasks.iter_mut().zip(of_tasks) {
            task.cgroup = Some(CgroupId(*group as u32));
        }
        work
    }

    /// qmap asked to queue tasks on a machine of one CPU, too (else it sends them straight to it), and so below it.
    const QUEUED: [(&str, &str); 3] =
        [("sub@/b", "qmap"), ("always_enq_immed", "true"), ("always_enq_immed@/b", "true")];

    /// qmap below qmap, as `scx_qmap -c` attaches it. qmap's dispatch() takes from its own queue first, and
    /// calls its sub-schedulers when that is empty; the task that runs is queued again after the next was
    /// chosen. So with one task of its own and two of the group on one CPU it takes turns with the group: one
    /// slice its own, one slice one of the group's. (A thread of the kernel, one or two a second, is of its
    /// own: a second slice follows the first.)
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn a_sub_scheduler_runs_its_groups_tasks() {
        let work = grouped(&["/a", "/b", "/b/x"], &[0, 1, 2]);
        let close = |report: &ChildReport, expected: [f64; 3], margin: f64| {
            let cpu = seconds(report);
            assert!(
                cpu.iter().zip(expected).all(|(a, b)| (a - b).abs() < margin),
                "{cpu:?}, not {expected:?}"
            );
        };
        // alone it has all three in one queue
        let one = on_7_2("qmap", 1, 12, &work, &[QUEUED[1]]);
        close(&one, [4.0, 4.0, 4.0], 0.1);
        let dispatched = number(&one, "statistics", "qa.nr_dispatched");
        assert!((600..660).contains(&dispatched), "12 s in slices of 20 ms, and the boot: {dispatched}");
        let two = on_7_2("qmap", 1, 12, &work, &QUEUED);
        close(&two, [6.0, 3.0, 3.0], 0.25);
        assert_eq!(value(&two, "scheduler", "name@/b").as_deref(), Some("qmap"));
        // all that the group got its scheduler dispatched, in slices of 20 ms: the first one dispatched none
        // of its tasks
        let of_group = |report: &ChildReport| seconds(report)[1..].iter().sum::<f64>();
        let by_sub = |report: &ChildReport, group: &str| {
            number(report, "statistics", &format!("qa.nr_dispatched@{group}")) as f64
        };
        assert!((of_group(&two) - 0.02 * by_sub(&two, "/b")).abs() <= 0.021, "{:?}", two.account);
        let own = number(&two, "statistics", "qa.nr_dispatched");
        assert!((300..360).contains(&own), "6 s in slices of 20 ms, and the boot: {own}");
        // its own slice: 20 ms and 12 ms in turn
        let params = [&QUEUED[..], &[("slice_ns@/b", "12000000")]].concat();
        let short = on_7_2("qmap", 1, 12, &work, &params);
        close(&short, [7.5, 2.25, 2.25], 0.25);
        assert!((of_group(&short) - 0.012 * by_sub(&short, "/b")).abs() <= 0.021, "{:?}", short.account);
        assert_eq!(value(&short, "settings", "slice_ns@/b").as_deref(), Some("12000000"));
        assert_eq!(value(&short, "settings", "slice_ns").as_deref(), Some("20000000"));
        let again = on_7_2("qmap", 1, 12, &work, &params);
        assert_eq!(
            (again.events, again.kernel_cpu_ns, again.account),
            (short.events, short.kernel_cpu_ns, short.account)
        );
        // one below the other, and the one between has no tasks
        let work = grouped(&["/a", "/b", "/b/x"], &[0, 2, 2]);
        let inner = [("sub@/b/x", "qmap"), ("always_enq_immed@/b/x", "true")];
        let nested = on_7_2("qmap", 1, 12, &work, &[&QUEUED[..], &inner].concat());
        close(&nested, [6.0, 3.0, 3.0], 0.25);
        assert!((of_group(&nested) - 0.02 * by_sub(&nested, "/b/x")).abs() <= 0.021, "{:?}", nested.account);
        assert_eq!(value(&nested, "statistics", "qa.nr_dispatched@/b"), None);
    }

    /// A fork belongs to the scheduler of the group in which it happens. A task that moves afterwards keeps
    /// it: 7.2's ext.c sets p->scx.sched in scx_fork(), when a sub-scheduler comes or goes, and nowhere else.
    /// The report counts those.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn a_task_that_moves_keeps_its_scheduler() {
        let text = |moves: &str| {
            let text = format!(
                "schedlab-workload 1\nCGROUP /a\nCGROUP /b\n- INIT 0 0 1 runnable cgroup=/a\n\
                    - INIT 0 0 2 runnable cgroup=/a\n{moves}- EXIT 2 100s\n"
            );
            schedlab_workload::parse_text("moves", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
        };
        let strangers = |report: &ChildReport| {
            report
                .refused
                .iter()
                .filter(|(why, _)| why.contains("stayed with the one"))
                .map(|(_, n)| *n)
                .sum::<u64>()
        };
        let by_sub = |report: &ChildReport| value(report, "statistics", "qa.nr_dispatched@/b");
        // forks a child into /b, goes there itself
        let moved = on_7_2(
            "qmap",
            1,
            6,
            &text("- FORK 1 1s 3 cgroup=/b\n- PRIO 1 1s cgroup=/b\n- EXIT 1 100s\n- EXIT 3 100s\n"),
            &QUEUED,
        );
        let cpu = seconds(&moved);
        assert_eq!((strangers(&moved), by_sub(&moved)), (2, None), "{cpu:?}");
        // a task of /b forks one: both are the sub-scheduler's, to the end
        let mut inside = text("- FORK 1 1s 3\n- PRIO 3 1s cgroup=/a\n- EXIT 1 100s\n- EXIT 3 100s\n");
        inside.tasks[0].cgroup = Some(CgroupId(1));
        let inside = on_7_2("qmap", 1, 12, &inside, &QUEUED);
        assert_eq!(strangers(&inside), 1);
        let cpu = seconds(&inside);
        let dispatched: f64 = by_sub(&inside).unwrap().parse().unwrap();
        assert!((cpu[0] + cpu[2] - 0.02 * dispatched).abs() <= 0.021, "{cpu:?}, {dispatched}");
    }

    /// Which scheduler was thrown out, by the kernel's own record.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn a_sub_schedulers_exit_is_reported() {
        let work = grouped(&["/a", "/b"], &[0, 1, 1]);
        let run = |work: &Workload, param| {
            misbehaved(&on_7_2("qmap", 1, 20, work, &[&QUEUED[..], &[param]].concat()))
        };
        let (kind, reason) = run(&work, ("qa.test_error_cnt@/b", "50"));
        assert_eq!(kind, "scheduler exit");
        let of_b = "the sub-scheduler of /b: the kernel threw it out: ";
        assert!(reason.starts_with(&format!("{of_b}scx_bpf_error (")), "{reason}");
        assert!(reason.contains("test triggering error)"), "{reason}");
        // the kernel names it by the number of its group; its own dump() follows
        assert!(reason.contains("the kernel's dump:\n    qmap: sub1-"), "{reason}");
        assert!(reason.contains("QMAP FIFO[0]"), "{reason}");
        // the first one takes its sub-schedulers along, and is the one that is named
        let (_, reason) = run(&work, ("qa.test_error_cnt", "50"));
        assert!(reason.starts_with("the kernel threw it out: scx_bpf_error ("), "{reason}");
        assert!(reason.contains("test triggering error)"), "{reason}");
        // two tasks of its own: its queue is never empty, and the group never runs. The watchdog blames the
        // group's scheduler
        let starved = grouped(&["/a", "/b"], &[0, 0, 1]);
        let (_, reason) = run(&starved, ("slice_ns@/b", "20000000"));
        assert!(reason.starts_with(&format!("{of_b}runnable task stall")), "{reason}");
        let (_, after) = reason.split_once("failed to run for ").expect(&reason);
        let waited: f64 = after.split('s').next().unwrap().parse().unwrap();
        assert!((5.0..=7.5).contains(&waited), "{reason}");
    }

    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn a_sub_scheduler_that_cannot_be_is_refused() {
        let work = grouped(&["/a", "/b"], &[0, 1]);
        let one = || Topology::flat(1).unwrap();
        let refused = |params: &[(&str, &str)]| match try_on("7.2", "qmap", one(), 1, &work, params) {
            Err(RunError::Scheduler(error)) => error,
            other => panic!("{other:?}"),
        };
        let error = refused(&[("sub@/c", "qmap")]);
        assert!(matches!(&error, SchedulerError::NoGroup { group, .. } if group == "/c"), "{error}");
        assert!(error.to_string().contains("no control group /c (it has /a, /b)"), "{error}");
        let error = refused(&[("slice_ns@/b", "1")]);
        assert!(matches!(error, SchedulerError::NoSub { .. }), "{error}");
        let (kind, reason) =
            misbehaved(&on_7_2("qmap", 1, 1, &work, &[("sub@/b", "qmap"), ("none@/b", "1")]));
        assert_eq!(kind, "refused");
        assert!(reason.contains("the sub-scheduler of /b: it has no variable none"), "{reason}");
        // simple has no sub_attach(): EOPNOTSUPP
        let (kind, reason) = misbehaved(&on_7_2("simple", 1, 1, &work, &[("sub@/b", "qmap")]));
        assert_eq!(kind, "refused");
        assert!(reason.contains("attaching qmap, the sub-scheduler of /b: refused"), "{reason}");
        assert!(reason.contains("takes none: it has no sub_attach()"), "{reason}");
    }

    /// A current release, from its crate.
    #[test]
    #[ignore = "long: builds Linux 7.2, fetches crates"]
    fn bpfland_1_1_runs() {
        let published = scx::Published::parse("bpfland", "7.2").unwrap();
        let source = published.fetch().unwrap_or_else(|e| panic!("{e}"));
        let report = on_7_2(source.to_str().unwrap(), 4, 5, &hogs(8), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().sum::<f64>() > 19.8 && cpu.iter().all(|s| *s > 1.0), "{cpu:?}");
        assert_eq!(value(&report, "scheduler", "name").as_deref(), Some("bpfland"));
    }

    /// scx_lavd 1.1 is linked from 22 files, keeps its tasks in an arena, and gets the machine from
    /// calls, each of which answers with the address of a mask. Four CPUs and eight hogs; then two caches and
    /// two kinds of cores.
    #[test]
    #[ignore = "long: builds Linux 7.2, fetches crates"]
    fn lavd_1_1_runs() {
        let published = scx::Published::parse("lavd", "7.2").unwrap();
        let source = published.fetch().unwrap_or_else(|e| panic!("{e}"));
        let report = on_7_2(source.to_str().unwrap(), 4, 5, &hogs(8), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().sum::<f64>() > 19.8 && cpu.iter().all(|s| *s > 1.0), "{cpu:?}");
        assert_eq!(value(&report, "scheduler", "name").as_deref(), Some("lavd"));
        assert!(number(&report, "statistics", "alloc_stats.active_allocs") >= 8);
        assert_eq!(number(&report, "statistics", "nr_cpus_onln"), 4);
        // two big and two little cores to each of two caches
        let machine: Topology = "packages=1,llcs=2,cores=4,capacity=1024*2+512*2".parse().unwrap();
        let report = report_on("7.2", source.to_str().unwrap(), machine, 5, &hogs(16), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().sum::<f64>() > 39.6 && cpu.iter().all(|s| *s > 1.3), "{cpu:?}");
        // its clocks are fields of struct rq, read through a type of its own: what a task of weight 100 was
        // given is in ns / 100
        let service = number(&report, "statistics", "cur_svc_time_iwgt");
        assert!((30_000_000..50_000_000).contains(&service), "{service}");
        let default_of = |name: &str| value(&report, "defaults", name);
        assert_eq!(default_of("cpdom_ctxs[1].__cpumask[0]").as_deref(), Some("0xc"));
        assert_eq!(default_of("cpdom_ctxs[1].is_big").as_deref(), Some("0"));
        // what it makes of that
        assert_eq!(number(&report, "statistics", "nr_cpdoms"), 4);
        assert_eq!(number(&report, "statistics", "total_max_capacity"), 4 * (1024 + 512));
        assert_eq!(number(&report, "statistics", "nr_cpus_big"), 4);
    }
}

/// scx_rusty with two NUMA nodes, that is two domains: all eight CPUs are used, by all twelve tasks.
#[test]
#[ignore = "long: fetches crates"]
fn rusty_runs_on_two_nodes() {
    let source = scx::Published::parse("rusty", "6.12").unwrap().fetch().unwrap_or_else(|e| panic!("{e}"));
    let machine: Topology = "packages=2,cores=4,distance=21".parse().unwrap();
    let report = report_on("6.12", source.to_str().unwrap(), machine, 5, &hogs(12), &[]);
    let cpu = seconds(&report);
    assert!(cpu.iter().sum::<f64>() > 39.5 && cpu.iter().all(|s| *s > 1.0), "{cpu:?}");
    assert_eq!(value(&report, "defaults", "nr_doms").as_deref(), Some("2"));
    assert_eq!(value(&report, "defaults", "dom_cpumasks[1][0]").as_deref(), Some("0xf0"));
}

/// What linux/scx/tests/hostile.bpf.c tries, by its number; the report of the run.
fn hostile(act: u32) -> (String, String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/hostile.bpf.c");
    let scheduler = scheduler("6.12", file.to_str().unwrap(), &[]);
    let work = hogs(4);
    let request = RunRequest {
        duration: Some(Span::from_ms(2000)),
        params: vec![("act".to_owned(), act.to_string())],
        stall_limit: std::time::Duration::from_millis(500),
        ..RunRequest::new(&work, &scheduler, Topology::flat(2).unwrap())
    };
    misbehaved(&run(&request).unwrap().report)
}

/// C9: native code from a file computes and reads; whatever else it asks the host for ends its run, and is named.
#[test]
fn a_scheduler_that_reaches_for_the_host_is_ended() {
    let (kind, reason) = hostile(1);
    assert_eq!(kind, "crash");
    assert!(reason.contains("its code ended the process of the run by itself, with status 0"), "{reason}");
    let asked = [
        (2, "fork (system call 57: new processes)"),
        (3, "socket (system call 41: the network)"),
        (4, "open (system call 2: writing files)"),
        (5, "kill (system call 62: other processes)"),
        (6, "execve (system call 59: new processes)"),
        (7, "unlink (system call 87: writing files)"),
        (8, "ptrace (system call 101: other processes)"),
    ];
    for (act, call) in asked {
        let (kind, reason) = hostile(act);
        assert_eq!(kind, "crash");
        assert!(reason.contains(&format!("it asked the host for {call}")), "{reason}");
        assert!(reason.contains("hostile.bpf.c:"), "{reason}");
    }
    assert!(!Path::new("/tmp/schedlab-hostile").exists());
}

/// B5: A fault has its function, file and line, and those of its callers: no left-overs, none twice.
#[test]
fn a_fault_names_the_line_of_the_source() {
    let source = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/hostile.bpf.c"),
    )
    .unwrap();
    let line = |what: &str| 1 + source.lines().position(|line| line.contains(what)).unwrap();
    let (kind, reason) = hostile(9);
    assert_eq!(kind, "crash");
    let at = format!("hostile.bpf.c:{})", line("*nowhere = value"));
    let place = reason.lines().next().unwrap();
    assert!(place.contains("in fault_here+") && place.contains(&at), "{reason}");
    let callers: Vec<&str> = reason
        .lines()
        .skip_while(|line| !line.contains("called from"))
        .skip(1)
        .take_while(|line| !line.contains("registers"))
        .map(str::trim)
        .collect();
    let by = format!("hostile.bpf.c:{})", line("fault_here(1);"));
    assert!(callers[0].starts_with("hostile_enqueue+") && callers[0].contains(&by), "{reason}");
    // the kernel calls it through its table of operations
    assert!(callers[1..5].iter().any(|caller| caller.starts_with("do_enqueue_task+")), "{reason}");
    let mut once = callers.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), callers.len(), "{reason}");
    let (kind, reason) = hostile(10);
    assert_eq!(kind, "stall");
    let places = [line("asm volatile(\"\");") - 1, line("asm volatile(\"\");")];
    let named = places.iter().any(|line| reason.contains(&format!("hostile.bpf.c:{line})")));
    assert!(reason.contains("in hostile_enqueue+") && named, "{reason}");
}

/// B5: what a scheduler prints is in the report of a run that ends well: the last 100 lines, with the log's time, and
/// how many there were.
#[test]
fn what_a_scheduler_prints_is_kept() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/printing.bpf.c");
    let report = report(file.to_str().unwrap(), 1, 10, &hogs(2), &[]);
    assert!(matches!(report.end, RunEnd::Duration), "{:?}", report.end);
    let rows = |name: &str| {
        let rows = report.account.iter().filter(|(group, n, _)| group == "printed" && n == name);
        rows.map(|(_, _, value)| value.clone()).collect::<Vec<_>>()
    };
    let queued = value(&report, "statistics", "queued").unwrap();
    // (the first ones were printed before the log began, by the boot's own tasks)
    assert_eq!(rows("lines"), std::slice::from_ref(&queued));
    let lines = rows("line");
    assert_eq!(lines.len(), 100);
    assert!(lines[99].ends_with(&format!("as number {queued}")), "{}", lines[99]);
    // "9.980000 s  queued ...": no clock but the log's
    let time = |line: &str| line.split(" s").next().unwrap().parse::<f64>().unwrap();
    assert!((9.0..=10.0).contains(&time(&lines[99])), "{}", lines[99]);
}

/// B5: a scheduler whose half decides is refused with the reason.
#[test]
fn a_scheduler_that_waits_for_its_half_is_refused() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/printing.bpf.c");
    let folder = tempfile::tempdir().unwrap();
    let with_half = folder.path().join("half.bpf.c");
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(&with_half, format!("#define WITH_A_HALF\n{text}")).unwrap();
    let one = Topology::flat(1).unwrap();
    let report = try_on("6.12", with_half.to_str().unwrap(), one, 1, &hogs(1), &[]);
    let said = format!("{report:?}");
    assert!(said.contains("the map decided is a user ring buffer"), "{said}");
}
