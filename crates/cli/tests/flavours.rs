//! Each debugging flavour finds a bug of its class, seeded into a copy of Linux 6.12, and nothing without it.

mod common;

use common::{kernel_tree, schedlab};
use schedlab_linux::build::{self, BuildOptions};

/// One exact edit of a file of kernel/sched, and what its flavour says then.
struct Seed {
    flavour: &'static str,
    file: &'static str,
    correct: &'static str,
    wrong: &'static str,
    /// Beginning of the finding, and what it must name.
    finding: &'static str,
    place: &'static str,
}

const SEEDS: [Seed; 4] = [
    // a group's array of queues is one too short: the last CPU's pointer is written behind it
    Seed {
        flavour: "asan",
        file: "fair.c",
        correct: "tg->cfs_rq = kcalloc(nr_cpu_ids, ",
        wrong: "tg->cfs_rq = kcalloc(nr_cpu_ids - 1, ",
        finding: "BUG: KASAN: slab-out-of-bounds in ",
        place: "init_tg_cfs_entry",
    },
    // loads decayed over more than 64 half-lives (2.1 s): a shift by more bits than the word has
    Seed {
        flavour: "ubsan",
        file: "pelt.c",
        correct: "n > LOAD_AVG_PERIOD * 63",
        wrong: "n > LOAD_AVG_PERIOD * 630",
        finding: "UBSAN: shift-out-of-bounds in ",
        place: "kernel/sched/pelt.c",
    },
    // the pool's lock outside a queue's, everywhere else inside it
    Seed {
        flavour: "lockdep",
        file: "core.c",
        correct: "guard(rq_lock_irq)(rq);\n\t\tcfs_rq->runtime_enabled",
        wrong: "guard(raw_spinlock_irq)(&cfs_b->lock);\n\t\tguard(rq_lock)(rq);\n\t\tcfs_rq->runtime_enabled",
        finding: "WARNING: possible circular locking dependency detected",
        place: "cfs_b->lock",
    },
    // a group's queue is put into the list of leaves again while it is there
    Seed {
        flavour: "debug",
        file: "fair.c",
        correct: "\tcfs_rq->on_list = 1;\n",
        wrong: "",
        finding: "WARNING: ",
        place: "list_add",
    },
];

/// A throttled group on two CPUs, and a task that sleeps for four seconds between 100 ms of computing.
const WORKLOAD: &str = "schedlab-workload 1
CGROUP /a max=20ms/100ms
- INIT 0 0 1 runnable name=hog cgroup=/a
- INIT 0 0 2 runnable name=other cgroup=/a
- INIT 0 0 3 runnable name=sleeper
- EXIT 1 2s
- EXIT 2 2s
REPEAT 2 {
  - BLOCK 3 100ms
  - WAKEUP 3 4s
}
- EXIT 3 100ms
";

/// Exit status and everything that a run prints.
fn run(workload: &str, sched: &str) -> (i32, String) {
    let output =
        schedlab(&["--quiet", "run", workload, "--sched", sched, "--cpus", "2", "--duration", "10s"]);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("the program ends by itself"), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn each_edit_fits_the_source() {
    let Ok(Some(kernel)) = build::find("6.12", &BuildOptions::default()) else {
        eprintln!("SKIPPED: Linux 6.12 is not built");
        return;
    };
    for seed in &SEEDS {
        let text = std::fs::read_to_string(kernel.source.join("kernel/sched").join(seed.file)).unwrap();
        assert_eq!(text.matches(seed.correct).count(), 1, "{}: {}", seed.file, seed.correct);
    }
}

#[test]
#[ignore = "long: builds a kernel tree for each flavour"]
fn each_flavour_finds_a_bug_of_its_class() {
    let kernel = build::add("6.12", &BuildOptions::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let dir = tempfile::tempdir().unwrap();
    kernel_tree(dir.path(), &kernel.source);
    let workload = dir.path().join("w.txt");
    std::fs::write(&workload, WORKLOAD).unwrap();
    let workload = workload.to_str().unwrap();
    let name = format!("test-flavours-{}", std::process::id());
    let only = std::env::var("SCHEDLAB_FLAVOUR").ok();
    for seed in SEEDS.iter().filter(|seed| only.as_deref().is_none_or(|only| only == seed.flavour)) {
        let tree = dir.path().to_str().unwrap();
        let added =
            schedlab(&["--quiet", "linux", "add", "--source", tree, "--name", &name, "--with", seed.flavour]);
        assert_eq!(added.status.code(), Some(0), "{}", String::from_utf8_lossy(&added.stderr));
        let sched = format!("linux-{name}+{}", seed.flavour);
        let (code, text) = run(workload, &sched);
        assert_eq!(code, 0, "{}: a finding without a bug: {text}", seed.flavour);
        let path = dir.path().join("kernel/sched").join(seed.file);
        let correct = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, correct.replacen(seed.correct, seed.wrong, 1)).unwrap();
        let (code, text) = run(workload, &sched);
        std::fs::write(&path, correct).unwrap();
        eprintln!("{}: {}", seed.flavour, text.lines().last().unwrap_or_default());
        assert_eq!(code, 1, "{}: {text}", seed.flavour);
        assert!(text.contains(seed.finding) && text.contains(seed.place), "{}: {text}", seed.flavour);
    }
    schedlab(&["linux", "remove", &name]);
}

/// Seven calls of sched_yield() are seven executions of its lines, whatever the boot did; the same again is
/// the same, byte for byte.
#[test]
#[ignore = "long: builds Linux 6.12 with gcov"]
fn coverage_counts_what_the_workload_does() {
    let options = BuildOptions { flavours: vec!["gcov".into()], ..BuildOptions::default() };
    build::add("6.12", &options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let dir = tempfile::tempdir().unwrap();
    let workload = dir.path().join("w.txt");
    let text = "schedlab-workload 1
- INIT 0 0 1 runnable name=a
- INIT 0 0 2 runnable name=b
REPEAT 7 {
  - YIELD 1 1ms
}
- EXIT 1 1ms
- EXIT 2 20ms
";
    std::fs::write(&workload, text).unwrap();
    let info = |folder: &str| {
        let out = dir.path().join(folder);
        let (workload, out) = (workload.to_str().unwrap(), out.to_str().unwrap());
        let run = schedlab(&[
            "--quiet",
            "run",
            workload,
            "--sched",
            "linux-6.12+gcov",
            "--cpus",
            "1",
            "--coverage",
            out,
        ]);
        assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
        std::fs::read_to_string(dir.path().join(folder).join("coverage.info")).unwrap()
    };
    let once = info("once");
    assert!(once.contains("FNDA:7,do_sched_yield\n") && once.contains("FNDA:7,yield_task_fair\n"));
    assert!(once.contains("FNDA:0,task_tick_dl\n"), "no deadline task ran");
    assert_eq!(once, info("again"));
}

#[test]
fn a_scheduler_that_counts_no_lines_is_reported_so() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cov");
    let args = ["run", "samples/hand/fairbench.txt", "--sched", "fifo", "--cpus", "1", "--duration", "1s"];
    let (code, error) = common::fails(&[&args[..], &["--coverage", out.to_str().unwrap()]].concat());
    assert_eq!(code, 2);
    assert!(error.contains("--sched linux-6.12+gcov"), "{error}");
}

/// The flavour pgo is the same source compiled otherwise: whatever a workload does, the log is the same, byte
/// for byte, but for the scheduler's name. What the training never did (a stop of a CPU) is among it.
#[test]
#[ignore = "long: builds Linux 6.12 twice"]
fn a_profile_guided_kernel_decides_the_same() {
    for flavours in [vec![], vec!["pgo".into()]] {
        let options = BuildOptions { flavours, ..BuildOptions::default() };
        build::add("6.12", &options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let log = |sched: &str, arguments: &[&str]| -> Vec<String> {
        let file = dir.path().join("run.log");
        let ours = ["--sched", sched, "--duration", "10s", "--log", file.to_str().unwrap()];
        let run = schedlab(&[&["--quiet", "run"][..], arguments, &ours].concat());
        assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().filter(|line| !line.starts_with("# sched ")).map(str::to_owned).collect()
    };
    for arguments in [
        &["samples/hand/sleepers8.txt", "--cpus", "4"][..],
        &["samples/hand/cgroup.txt", "--cpus", "4"],
        &["samples/hand/rt.txt", "--cpus", "1"],
        &["samples/hand/forktree.txt", "--cpus", "2"],
        &["samples/hackbench", "--cpus", "4"],
        &["samples/compile", "--machine", "server"],
        &["samples/hand/fairbench.txt", "--cpus", "3", "--at", "2s:cpu2=off", "--at", "4s:cpu2=on"],
    ] {
        let plain = log("linux-6.12", arguments);
        assert!(plain.len() > 50, "{arguments:?}: {} lines", plain.len());
        assert!(plain == log("linux-6.12+pgo", arguments), "{arguments:?}: another schedule");
    }
}
