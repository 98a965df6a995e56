//! `schedlab validate` and `schedlab guest` as scripts use them.

mod common;
use common::{fails, has_linux, json, root, schedlab};
use serde_json::Value;

/// A short part of the matrix against what real Linux did: nothing is booted, every run is determined.
#[test]
fn the_simulation_agrees_with_what_real_linux_did() {
    if !has_linux() {
        return;
    }
    let args = ["validate", "--kernel", "6.12", "--cpus", "1", "--golden-only", "--runs", "4", "--json", "-"];
    let workloads = ["hogs:0,5,-5,10", "responsebench", "periodic-rt", "cgroup"];
    let found = json(&[&args[..], &workloads[..]].concat());
    let cases = found["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), workloads.len());
    for case in cases {
        let rows = case["rows"].as_array().expect("rows");
        assert!(rows.len() >= 6, "{case}");
        for row in rows {
            assert_ne!(row["verdict"], "fail", "{}: {row}", case["workload"]);
        }
    }
}

/// The same on several CPUs: who shares a CPU, how often tasks move, how long an uneven start takes.
#[test]
fn the_simulation_agrees_on_several_cpus() {
    if !has_linux() {
        return;
    }
    let args = ["validate", "--kernel", "6.12", "--golden-only", "--runs", "6", "--json", "-", "--cpus"];
    for (cpus, workload) in [("2", "responsebench"), ("2", "cgroup"), ("4", "periodic-rt")] {
        let found = json(&[&args[..], &[cpus, workload]].concat());
        let rows = found["cases"][0]["rows"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["what"] == "migrations"), "{found}");
        for row in rows {
            assert!(row["verdict"] == "pass" || row["verdict"] == "info", "{cpus} CPUs, {workload}: {row}");
        }
    }
}

/// What is kept of another question is refused, with the command that asks anew.
#[test]
fn kept_runs_of_another_guest_program_are_refused() {
    let name = "6.12-1-hogs-0-5--5-10.json";
    let text =
        std::fs::read_to_string(root().join("tests/golden/guest").join(name)).expect("the golden file");
    let mut golden: Value = serde_json::from_str(&text).expect("valid JSON");
    golden["guest_program"] = Value::from("0000");
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join(name), golden.to_string()).expect("written");
    let directory = directory.path().to_str().expect("a name in UTF-8");
    let args = ["validate", "hogs:0,5,-5,10", "--kernel", "6.12", "--cpus", "1", "--golden", directory];
    let (code, said) = fails(&args);
    assert_eq!((code, said.contains("guest program") && said.contains("--refresh")), (2, true), "{said}");
}

/// The comparison can fail: half a percent passes, three do not.
#[test]
fn a_planted_difference_is_found() {
    if !has_linux() {
        return;
    }
    let golden = root().join("tests/golden/guest/6.12-1-hogs-0-5--5-10.json");
    let text = std::fs::read_to_string(golden).expect("the golden file");
    for (factor, status) in [(1.005, 0), (1.03, 1)] {
        let mut golden: Value = serde_json::from_str(&text).expect("valid JSON");
        for run in golden["runs"].as_array_mut().expect("runs") {
            let task = &mut run["tasks"][2]; // nice -5, which has two thirds
            let cpu_ns = task["cpu_ns"].as_f64().expect("a number") * factor;
            task["cpu_ns"] = Value::from(cpu_ns as u64);
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("6.12-1-hogs-0-5--5-10.json");
        std::fs::write(&path, golden.to_string()).expect("written");
        let directory = directory.path().to_str().expect("a name in UTF-8");
        let args =
            ["validate", "hogs:0,5,-5,10", "--kernel", "6.12", "--cpus", "1", "--golden-only", "--runs", "2"];
        let output = schedlab(&[&args[..], &["--golden", directory]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert_eq!(said.contains("CPU time of hog-5") && said.contains("FAIL"), status == 1, "{said}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let empty = tempfile::tempdir().expect("a directory");
    let empty = empty.path().to_str().expect("a name in UTF-8");
    let (code, said) = fails(&["validate", "fairbench", "--golden-only", "--golden", empty]);
    assert_eq!((code, said.contains("leave out --golden-only")), (2, true), "{said}");
    let damaged = tempfile::tempdir().expect("a directory");
    std::fs::write(damaged.path().join("6.12-1-fairbench.json"), "{\"format\": 1}").expect("written");
    let damaged = damaged.path().to_str().expect("a name in UTF-8");
    let args = ["validate", "fairbench", "--kernel", "6.12", "--cpus", "1", "--golden", damaged];
    let (code, said) = fails(&args);
    assert_eq!(
        (code, said.contains("6.12-1-fairbench.json") && said.contains("--refresh")),
        (2, true),
        "{said}"
    );
    // a header of a kernel image without its .config, and then no image at all
    let mut image = vec![0; 4096];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    let path = std::path::Path::new(empty).join("bzImage");
    std::fs::write(&path, &image).expect("written");
    let path = path.to_str().expect("a name in UTF-8");
    for (args, wants) in [
        (&["validate", "hogs:0", "--kernel-image", path][..], "ticks per second"),
        (&["validate", "hogs:0", "--kernel-image", "Cargo.toml"], "arch/x86/boot/bzImage"),
        (&["guest", "run", "hogs:0", "--kernel", "Cargo.toml"], "arch/x86/boot/bzImage"),
        (&["validate", "hogs:0", "--kernel-image", path, "--kernel", "6.1"], "cannot be used with"),
        (&["guest", "run", "fare"], "fairbench"),
        (&["guest", "run", "hogs:0", "--cpus", "65"], "1 to 64"),
        (&["guest", "run", "hogs:0", "--kernel", "/no/such/vmlinuz"], "no such file"),
        (&["guest", "run", "hogs:0", "--kernel", "latest"], "6.12"),
        (&["guest", "run", "start:8,x"], "list of numbers"),
    ] {
        let (code, said) = fails(args);
        assert_eq!((code, said.contains(wants)), (2, true), "{args:?}: {said}");
    }
}

/// 6.1, three equal hogs and a latency of 12 ms: a slice of a tick, 4 ms less the rounding of 12 ms / 3
/// (`__calc_delta()`: 3,999,999 ns). A turn that begins at the instant of a tick is longer at the next one
/// (`check_preempt_tick()`: 4,000,000 > 3,999,999); one that begins 2 us behind it is not, and goes on for
/// another tick. (6.12 counts on across turns, with deadlines: there it changes nothing.) A thread of the
/// kernel may come between two turns; it has two in a hundred at most.
#[test]
fn what_lies_between_tick_and_choice_decides_about_turns_of_a_tick() {
    let listed = schedlab(&["linux", "list"]);
    if !String::from_utf8_lossy(&listed.stdout).contains("linux-6.1 ") {
        eprintln!("SKIPPED: Linux 6.1 is not built (schedlab linux add 6.1)");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("a name in UTF-8").to_string();
    let (workload, costs, log) = (path("w.txt"), path("c.toml"), path("r.log"));
    let hogs = (1..=3).map(|pid| format!("- INIT 0 0 {pid} runnable\n- EXIT {pid} 9s\n"));
    std::fs::write(&workload, format!("schedlab-workload 1\n{}", hogs.collect::<String>())).expect("written");
    for (resched, wanted_us) in [("0us", 4000), ("2us", 8000)] {
        std::fs::write(&costs, format!("resched = \"{resched}\"\n")).expect("written");
        let mut args = vec!["--quiet", "run", &workload, "--sched", "linux-6.1", "--cpus", "1"];
        args.extend(["--duration", "1s", "--param", "latency_ns=12000000", "--costs", &costs, "--log", &log]);
        let output = schedlab(&args);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&log).expect("the log");
        let switches = text.lines().filter(|line| line.contains(" preempted -> t"));
        let at = switches.map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let at: Vec<u64> = at.collect::<Option<_>>().expect("times");
        assert!(at.len() > 100, "{text}");
        let turns_us = at.windows(2).skip(5).map(|pair| (pair[1] - pair[0]) / 1000);
        let others: Vec<u64> = turns_us.filter(|us| *us != wanted_us).collect();
        assert!(50 * others.len() <= at.len(), "{resched}: not {wanted_us} us: {others:?} of {}", at.len());
    }
}
