//! Machines: what the kernel makes of cores, caches, nodes, capacities, and of CPUs that come and go.

use super::{MS, S, feature, hogs};
use crate::measure::{Case, Observed};
use crate::{Feature, FeatureGroup, Finding, ScenarioBench, Trouble};

pub(super) fn features() -> Vec<Feature> {
    let f = |name, what, run| feature(name, FeatureGroup::Machine, what, run);
    vec![
        f("SMT", "4 cores of 2 threads: 4 hogs take a core each", smt),
        f("LLC", "2 caches of 4 cores: 4 hogs take 2 cores at each cache", llc),
        f(
            "domains",
            "2 sockets of 2 caches of 2 cores of 2 threads: domains SMT, MC, PKG (DIE before 6.7), NUMA",
            domains,
        ),
        f(
            "NUMA levels",
            "2 sockets of 2 nodes, distances 12 and 32: two NUMA domains above each node",
            numa_levels,
        ),
        f("NUMA distance", "the kernel's own table of distances is the machine's", numa_distance),
        f("NUMA balance", "8 hogs born on 2 nodes of 4 CPUs: one on each CPU after 1 s", numa_balance),
        f(
            "capacity",
            "2 tasks of 2 s of work begin on little cores (512): they move to the big ones, done within 2.5 s",
            capacity,
        ),
        f(
            "hotplug",
            "2 hogs, CPU 1 off from 2 to 4 s: nobody runs there, 10 CPU seconds in 6 s, then both run again",
            hotplug,
        ),
        f(
            "hotplug bound",
            "a task bound to CPU 1 is moved to another when it goes off (select_fallback_rq)",
            hotplug_bound,
        ),
        f("laptop", "preset: 4 hogs on 4 big and 4 little cores: all end on the big ones", laptop),
        f(
            "server",
            "preset: 2 x 16 cores x 2 threads, 32 hogs: 16 on each socket, one on each core after 1 s (11 s before \
                5.18)",
            server,
        ),
        f(
            "/sys snapshot",
            "a machine from a folder (threads 0,4 1,5 2,6 3,7; 2 nodes): the kernel's own /sys says the same, 4 hogs \
                take a core each",
            snapshot,
        ),
        f("WARP's machine", "preset: 16 sockets of 4 cores, 64 hogs: one on each CPU after 2 s", warp),
        Feature {
            nr_cpus: 1024,
            ..f("128 CPUs", "preset: 16 caches of 8 cores, 64 hogs: 4 at each cache", multi_llc)
        },
        Feature { nr_cpus: 1024, ..f("1,024 CPUs", "boots; 1,024 hogs: every CPU is busy at 3 s", thousand) },
    ]
}

/// How many of the running tasks are on CPUs of each group, at an instant.
fn count_by(seen: &Observed, ns: u64, groups: usize, group: impl Fn(u32) -> usize) -> Vec<u32> {
    let mut count = vec![0; groups];
    for (_, cpu) in seen.schedule.running_at(ns) {
        count[group(cpu)] += 1;
    }
    count
}

fn smt(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("cores=4,smt=2", 2, &hogs(1, 4, "")))?;
    let found = count_by(&seen, 2 * S - 1, 4, |cpu| cpu as usize / 2);
    Ok(Finding::words(format!("{found:?}"), "[1, 1, 1, 1]"))
}

fn llc(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("llcs=2,cores=4", 2, &hogs(1, 4, "")))?;
    let found = count_by(&seen, 2 * S - 1, 2, |cpu| cpu as usize / 4);
    Ok(Finding::words(format!("{found:?}"), "[2, 2]"))
}

/// Names of cpu0's scheduling domains, lowest first.
fn domain_names(bench: &ScenarioBench, machine: &str) -> Result<Vec<String>, Trouble> {
    // debugfs from 5.13 on, sysctl before
    let folder = if bench.version < (5, 13) {
        "/proc/sys/kernel/sched_domain/cpu0"
    } else {
        "/sys/kernel/debug/sched/domains/cpu0"
    };
    // from 6.0 on the folder is filled on request only
    let mut case = Case::new(machine, 1, &hogs(1, 1, "")).params(&[("boot.sched_verbose", "")]);
    for level in 0..6 {
        case = case.read(100, &format!("{folder}/domain{level}/name"));
    }
    let seen = bench.go(case)?;
    Ok((0..6).map_while(|n| seen.reading(n).ok()).collect())
}

fn domains(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let names = domain_names(bench, "packages=2,llcs=2,cores=2,smt=2")?;
    let package = if bench.version < (6, 7) { "DIE" } else { "PKG" };
    Ok(Finding::words(names.join(" "), format!("SMT MC {package} NUMA")))
}

fn numa_levels(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let names = domain_names(bench, "packages=2,nodes=2,cores=4,distance=32")?;
    // with the cache as wide as the package, MC is the node's own level
    let numa = names.iter().filter(|n| *n == "NUMA").count();
    Ok(Finding::words(format!("{numa}"), "2"))
}

fn numa_distance(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let case = Case::new("packages=2,nodes=2,cores=4,distance=32", 1, &hogs(1, 1, ""));
    let seen = bench.go(case.read(1, "/sys/devices/system/node/node1/distance"))?;
    Ok(Finding::words(seen.text(0)?, "12 10 32 32"))
}

fn one_each(bench: &ScenarioBench, machine: &str, nr_cpus: u32, seconds: u64) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new(machine, seconds + 1, &hogs(1, nr_cpus, "")))?;
    let (from, to) = (seconds * S, (seconds + 1) * S);
    let busy = (0..nr_cpus).filter(|c| seen.schedule.busy_ns(*c, from, to) == to - from).count();
    Ok(Finding::words(format!("{busy} busy"), format!("{nr_cpus} busy")))
}

fn numa_balance(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    one_each(bench, "packages=2,cores=4,distance=21", 8, 1)
}

fn warp(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    one_each(bench, "warp", 64, 2)
}

fn thousand(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    one_each(bench, "packages=8,llcs=4,cores=16,smt=2", 1024, 3)
}

fn capacity(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // born on the little cores, then free to go anywhere
    let mut workload = String::new();
    for pid in 1..=2 {
        workload += &format!(
            "- INIT 0 0 {pid} runnable name=work affinity=2-3\n- PRIO {pid} 1ms affinity=0-3\n- EXIT {pid} 2s\n"
        );
    }
    let seen = bench.go(Case::new("cores=4,capacity=1024*2+512*2", 10, &workload))?;
    let last_s = seen.schedule.stays.last().map_or(0.0, |s| s.end_ns as f64 * 1e-9);
    Ok(Finding {
        as_expected: (2.0..2.5).contains(&last_s),
        found: format!("{last_s:.2} s"),
        expected: "2 to 2.5 s (4 s on little cores)".into(),
    })
}

fn hotplug(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let case = Case::new("2", 6, &hogs(1, 2, "")).set(2000, "cpu1", "off").set(4000, "cpu1", "on");
    let seen = bench.go(case)?;
    for n in 0..2 {
        seen.text(n)?;
    }
    let there = |from, to| seen.schedule.busy_ns(1, from, to) as f64 * 1e-9;
    // going off waits for RCU and the stopper; coming back for the balancer: tens of ms each
    let found =
        [there(2 * S + 100 * MS, 4 * S), there(4 * S + 300 * MS, 6 * S), seen.cpu_s(0) + seen.cpu_s(1)];
    Ok(Finding::numbers(&found, &[0.0, 1.7, 10.0], 0.2, " s"))
}

fn hotplug_bound(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // a real-time hog without limit would keep the CPU's own hotplug thread from its work, on hardware too
    let case = Case::new("2", 4, &hogs(1, 1, "affinity=1")).set(2000, "cpu1", "off");
    let seen = bench.go(case)?;
    seen.text(0)?;
    let found = format!(
        "{:?}, then {:?}",
        seen.schedule.cpus_of(0, 0, 2 * S),
        seen.schedule.cpus_of(0, 2 * S + 100 * MS, 4 * S)
    );
    Ok(Finding::words(found, "[1], then [0]"))
}

fn laptop(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("laptop", 3, &hogs(1, 4, "")))?;
    Ok(Finding::words(format!("{:?}", count_by(&seen, 3 * S - 1, 2, |cpu| cpu as usize / 4)), "[4, 0]"))
}

fn server(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // From 5.18 on a fork spreads over sockets at once (adjust_numa_imbalance() asks for idle cores). Before,
    // it may fill one socket first; then a running task is moved to the other one after cache_nice_tries + 3
    // = 5 passes of at most 2 x 64 ms (sd_init(): max_interval), one at a time (SD_SERIALIZE), and 16 at most
    // have to go: 10.24 s
    let seconds = if bench.version < (5, 18) { 11 } else { 1 };
    let seen = bench.go(Case::new("server", seconds, &hogs(1, 32, "")))?;
    let at = seconds * S - 1;
    let sockets = count_by(&seen, at, 2, |cpu| cpu as usize / 32);
    let cores = count_by(&seen, at, 32, |cpu| cpu as usize / 2);
    let alone = cores.iter().filter(|n| **n == 1).count();
    Ok(Finding::words(format!("{sockets:?}, {alone} cores"), "[16, 16], 32 cores"))
}

/// 2 sockets of 2 cores of 2 threads; CPU n and n + 4 are a core, as firmware numbers them; sockets 0,1,4,5
/// and 2,3,6,7.
fn snapshot(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let folder = tempfile::tempdir().map_err(Trouble::failed)?;
    let system = folder.path().join("devices/system");
    let write = |name: String, text: &str| -> Result<(), Trouble> {
        let path = system.join(name);
        let parent = path.parent().unwrap_or(&system);
        std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, text)).map_err(Trouble::failed)
    };
    write("cpu/online".into(), "0-7")?;
    let sockets = ["0-1,4-5", "2-3,6-7"];
    for cpu in 0..8u32 {
        let (core, socket) = (cpu % 4, (cpu % 4 / 2) as usize);
        let topology = |file: &str| format!("cpu/cpu{cpu}/topology/{file}");
        write(topology("physical_package_id"), &socket.to_string())?;
        write(topology("thread_siblings_list"), &format!("{core},{}", core + 4))?;
        let cache = |file: &str| format!("cpu/cpu{cpu}/cache/index3/{file}");
        write(cache("level"), "3")?;
        write(cache("type"), "Unified")?;
        write(cache("shared_cpu_list"), sockets[socket])?;
    }
    for (node, distance) in ["10 21", "21 10"].iter().enumerate() {
        write(format!("node/node{node}/cpulist"), sockets[node])?;
        write(format!("node/node{node}/distance"), distance)?;
    }
    let path = folder.path().display().to_string();
    let case = Case::new(&path, 2, &hogs(1, 4, ""))
        .read(1, "/sys/devices/system/cpu/cpu5/topology/thread_siblings_list")
        .read(1, "/sys/devices/system/node/node1/cpulist")
        .read(1, "/sys/devices/system/node/node1/distance");
    let seen = bench.go(case)?;
    let each = count_by(&seen, 2 * S - 1, 4, |cpu| cpu as usize % 4);
    let found = format!("{}; {}; {}; {each:?}", seen.text(0)?, seen.text(1)?, seen.text(2)?);
    Ok(Finding::words(found, "1,5; 2-3,6-7; 21 10; [1, 1, 1, 1]"))
}

fn multi_llc(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("multi-llc", 3, &hogs(1, 64, "")))?;
    let found = count_by(&seen, 3 * S - 1, 16, |cpu| cpu as usize / 8);
    let even = found.iter().filter(|n| **n == 4).count();
    Ok(Finding::words(format!("{even} of 16"), "16 of 16"))
}
