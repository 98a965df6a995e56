//! sched_ext schedulers, as the kernel ships them, on the kernel's own ext.c.

use schedlab_linux::build::{self, BuildOptions, BuiltKernel};
use schedlab_linux::scx;
use schedlab_machine::drawn::{Life::*, workload};
use schedlab_runner::{ChildReport, LinuxObject, Request, RunEnd, Scheduler, run};
use schedlab_topology::Topology;
use schedlab_units::{Nice, SchedParams, Span};
use schedlab_workload::{Cgroup, CgroupId, Workload};
use std::path::{Path, PathBuf};

fn kernel(series: &str) -> BuiltKernel {
    let options = BuildOptions { flavours: vec!["scx".into()], ..BuildOptions::default() };
    build::add(series, &options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// A scheduler of the kernel's tools/sched_ext, or a file.
fn scheduler(series: &str, what: &str) -> Scheduler {
    let kernel = kernel(series);
    let file = if what.contains('/') {
        PathBuf::from(what)
    } else {
        kernel.source.join(format!("tools/sched_ext/scx_{what}.bpf.c"))
    };
    let compiled = scx::compile(&kernel, &file).unwrap_or_else(|e| panic!("{e}"));
    Scheduler::Linux(LinuxObject {
        name: format!("scx:{what}"),
        version: kernel.version.clone(),
        hz: kernel.hz,
        nr_cpus: kernel.nr_cpus,
        object: kernel.object(),
        scx: Some(compiled),
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
    let scheduler = scheduler(series, what);
    let request = Request {
        duration: Some(Span::from_ms(seconds * 1000)),
        params: params.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        ..Request::new(workload, &scheduler, machine)
    };
    run(&request).unwrap().report
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
        RunEnd::Misbehaved { report } => (report.kind.clone(), report.reason.clone()),
        other => panic!("{other:?}"),
    }
}

/// scx_simple charges `slice * 100 / weight`; weight is 100 at nice 0, and at nice 5 what the kernel makes of its 335 of 1024:
/// 335 * 100 / 1024 = 32.7, rounded 33. Eight hogs on one CPU: 100 : 33. (Two would alternate: the one that runs is not yet in
/// the queue when the next is taken from it.)
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
    assert!(reason.contains("\n    at ") && reason.contains("the kernel's dump:"), "{reason}");
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

/// RFC 9669 (BPF's instruction set): x / 0 = 0, x % 0 = x, smallest / -1 = smallest; the kernel: loads through bad pointers read
/// 0; callbacks' results have 64 bits; programs run within RCU and do not migrate.
#[test]
fn what_bpf_defines_holds() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/semantics.bpf.c");
    let report = report(file.to_str().unwrap(), 2, 1, &hogs(4), &[]);
    seconds(&report);
    let expected: [(&str, i64); 16] = [
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
    ];
    for (name, number) in expected {
        assert_eq!(value(&report, "statistics", name), Some(number.to_string()), "{name}");
    }
    let loads: u64 = value(&report, "emulated", "loads through bad pointers").unwrap().parse().unwrap();
    assert!(loads >= 5, "{loads}");
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

/// What Linux 7.2 ships in tools/sched_ext, and a current release from its crate, on 7.2. (userland's decisions are made by its
/// user-space half.)
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

    /// pair: both CPUs of a pair run tasks of one group at a time. Two groups of two hogs on one pair: each task has half of it.
    #[test]
    #[ignore = "long: builds Linux 7.2"]
    fn pair_runs_groups_together() {
        let report = on_7_2("pair", 2, 10, &two_groups(), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().all(|s| (s - 5.0).abs() < 0.5), "{cpu:?}");
        assert!(number(&report, "statistics", "nr_cgrp_next") > 100);
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

    /// scx_lavd 1.1 is linked from 22 files, keeps its tasks in an arena, and is told of the machine by calls, each of which
    /// answers with the address of a mask. Four CPUs for eight hogs; two caches and two kinds of cores.
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
        // a node, a cache, four cores, four CPUs below the top: the numbers that its topology counts, level by level
        assert_eq!(number(&report, "statistics", "nr_cpus_onln"), 4);
        let machine: Topology = "packages=1,llcs=2,cores=2,capacity=1024*2+512*2".parse().unwrap();
        let report = report_on("7.2", source.to_str().unwrap(), machine, 5, &hogs(8), &[]);
        let cpu = seconds(&report);
        assert!(cpu.iter().sum::<f64>() > 19.8 && cpu.iter().all(|s| *s > 0.5), "{cpu:?}");
        let told = |name: &str| value(&report, "defaults", name);
        assert_eq!(told("cpdom_ctxs[1].__cpumask[0]").as_deref(), Some("0xc"));
        assert_eq!(told("cpdom_ctxs[1].is_big").as_deref(), Some("0"));
        assert_eq!(number(&report, "statistics", "nr_cpus_big"), 2);
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
