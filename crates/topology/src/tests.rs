use super::*;

fn topology(text: &str) -> Topology {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn sizes_are_checked() {
    assert_eq!("0".parse::<Topology>(), Err(TopologyError::NoCpu));
    assert_eq!("1025".parse::<Topology>(), Err(TopologyError::TooMany(1025)));
    assert_eq!("99999999999".parse::<Topology>(), Err(TopologyError::TooMany(99_999_999_999)));
    assert_eq!("packages=64,cores=64".parse::<Topology>(), Err(TopologyError::TooMany(4096)));
    assert_eq!("packages=128,cores=2".parse::<Topology>(), Err(TopologyError::TooManyNodes(128)));
    assert_eq!(topology("1024").nr_cpus(), 1024);
    for (text, problem) in [
        ("eight", "'eight' is not KEY=NUMBER"),
        (
            "cores=4,threds=2",
            "'threds' is none of packages, nodes, llcs, cores, smt, cluster, capacity, distance, near",
        ),
        ("cores=x", "'x' is not a number"),
        ("cores=4,capacity=2048", "'2048' is not a capacity from 1 to 1024"),
        ("cores=2,capacity=1024*3", "3 capacities for 2 cores"),
        ("cores=6,cluster=4", "6 cores cannot be split evenly into clusters of 4"),
        ("cores=6,nodes=4", "6 cores of a package cannot be split evenly into 4 nodes"),
        ("packages=2,cores=2,distance=10", "10 is a node's distance from itself"),
    ] {
        let message = text.parse::<Topology>().unwrap_err().to_string();
        assert!(
            message.contains(problem) && message.contains("packages=2,llcs=2,cores=4,smt=2"),
            "{message}"
        );
    }
}

#[test]
fn text_form_round_trips() {
    for text in [
        "1",
        "8",
        "packages=2,llcs=2,cores=4,smt=2",
        "packages=16,llcs=1,cores=4,smt=1",
        "packages=2,llcs=4,cores=8,smt=2,nodes=2,distance=32",
        "packages=1,llcs=1,cores=8,smt=1,cluster=4,capacity=250*4+620*2+1024*2",
    ] {
        assert_eq!(topology(text).to_string(), text);
    }
    for preset in presets::PRESETS {
        let built = topology(preset.name);
        assert_eq!((built.to_string(), &built), (preset.name.to_string(), &topology(&built.to_string())));
    }
}

/// Two sockets with two nodes each: near within a socket, far between sockets.
#[test]
fn nodes_and_their_distances() {
    let t = topology("packages=2,nodes=2,llcs=2,cores=2,distance=32");
    assert_eq!((t.nr_cpus(), t.nr_nodes()), (8, 4));
    assert_eq!(t.cpus().iter().map(|c| c.node).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
    let row = |a| (0..4).map(|b| t.distance(a, b)).collect::<Vec<_>>();
    assert_eq!(row(0), [10, 12, 32, 32]);
    assert_eq!(row(3), [32, 32, 12, 10]);
    assert_eq!(topology("packages=2,nodes=0,cores=2").nr_nodes(), 1);
    let cut = topology("packages=1,nodes=2,cores=4");
    assert_eq!(cut.cpus().iter().map(|c| c.llc).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn capacities_are_per_core() {
    let t = topology("llcs=2,cores=3,smt=2,capacity=1024+512");
    let capacities: Vec<u32> = t.cpus().iter().map(|c| c.capacity).collect();
    assert_eq!(capacities, [1024, 1024, 512, 512, 512, 512, 1024, 1024, 512, 512, 512, 512]);
    assert!(t.is_asymmetric() && !topology("8").is_asymmetric());
}

#[test]
fn presets_are_what_they_say() {
    let laptop = topology("laptop");
    assert_eq!(laptop.cpus().iter().map(|c| c.llc).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(laptop.cpus().iter().map(|c| c.cluster).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 4, 4, 4]);
    assert_eq!(laptop.cpus().iter().map(|c| c.capacity).collect::<Vec<_>>()[3..5], [1024, 600]);
    assert_eq!((topology("server").nr_cpus(), topology("server").distance(0, 1)), (64, 21));
    let multi = topology("multi-llc");
    assert_eq!((multi.nr_cpus(), multi.cpus()[127].llc, multi.nr_nodes()), (128, 15, 1));
    let warp = topology("warp");
    assert_eq!((warp.nr_cpus(), warp.cpus()[63].package, warp.nr_nodes()), (64, 15, 16));
    let mesh = topology("mesh");
    let linked = |a: u32, b: u32| mesh.distance(a, b) == 16;
    let two_links = |a: u32, b: u32| linked(a, b) || (0..8).any(|via| linked(a, via) && linked(via, b));
    assert_eq!((mesh.nr_cpus(), mesh.nr_nodes()), (64, 8));
    for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        assert!(mesh.distance(a, b) == mesh.distance(b, a) && two_links(a, b), "{a} {b}");
    }
    assert_eq!((0..8).filter(|b| linked(0, *b)).collect::<Vec<_>>(), [1, 2, 4, 6]);
    assert!(!linked(1, 2));
}

fn write(dir: &std::path::Path, files: &[(String, &str)]) {
    for (name, text) in files {
        let path = dir.join("devices/system").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }
}

/// 2 sockets of 1 core with 2 threads, threads numbered as firmware does (0,2 and 1,3), CPU 3 offline; a node
/// without CPUs.
fn two_sockets(dir: &std::path::Path) {
    write(dir, &[("cpu/online".to_string(), "0-2")]);
    for (cpu, package, siblings) in [(0, "0", "0,2"), (1, "1", "1"), (2, "0", "0,2")] {
        let t = |name: &str| format!("cpu/cpu{cpu}/{name}");
        write(
            dir,
            &[
                (t("topology/physical_package_id"), package),
                (t("topology/thread_siblings_list"), siblings),
                (t("topology/cluster_cpus_list"), siblings),
                (t("cache/index0/level"), "1"),
                (t("cache/index0/type"), "Data"),
                (t("cache/index0/shared_cpu_list"), siblings),
                (t("cache/index3/level"), "3"),
                (t("cache/index3/type"), "Unified"),
                (t("cache/index3/shared_cpu_list"), siblings),
            ],
        );
    }
    for (node, cpus, distance) in [(0, "0,2", "10 21 17"), (1, "1", "21 10 28"), (2, "", "17 28 10")] {
        let name = |file: &str| format!("node/node{node}/{file}");
        write(dir, &[(name("cpulist"), cpus), (name("distance"), distance)]);
    }
}

#[test]
fn sysfs_is_read_and_copied() {
    let dir = tempfile::tempdir().unwrap();
    two_sockets(dir.path());
    let t = topology(dir.path().to_str().unwrap());
    let cpu = |core, package| Cpu { core, cluster: core, llc: core, package, node: package, capacity: 1024 };
    assert_eq!(t.cpus(), [cpu(0, 0), cpu(1, 1), cpu(0, 0)]);
    assert_eq!((t.nr_nodes(), t.distances()), (2, &[10, 21, 21, 10][..]));
    let copy = tempfile::tempdir().unwrap();
    let copied = sysfs::snapshot(dir.path(), copy.path()).unwrap();
    assert_eq!(copied, 1 + 3 * 9 + 3 * 2);
    assert_eq!(topology(copy.path().to_str().unwrap()).cpus(), t.cpus());
}

#[test]
fn a_folder_that_is_no_sysfs_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let message = dir.path().to_str().unwrap().parse::<Topology>().unwrap_err().to_string();
    assert!(
        message.contains("cpu/online") && message.contains("a folder like /sys is expected"),
        "{message}"
    );
    two_sockets(dir.path());
    let broken = dir.path().join("devices/system/node/node0/distance");
    std::fs::write(&broken, "ten\n").unwrap();
    let message = dir.path().to_str().unwrap().parse::<Topology>().unwrap_err().to_string();
    assert!(message.contains("node0/distance: 'ten' is not a row of distances"), "{message}");
}

/// The machine that the tests run on.
#[test]
fn this_machine_is_read() {
    let here = sysfs::read(std::path::Path::new("/sys")).unwrap();
    let online = std::thread::available_parallelism().unwrap().get();
    assert!(here.nr_cpus() as usize >= online, "{here:?}");
}
