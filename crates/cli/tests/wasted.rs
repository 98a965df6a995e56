//! When did a CPU idle beside work, and does a small scenario show it again?

mod common;

use common::{fails, has_linux, json, schedlab};
use std::path::Path;

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// B2: eight hogs on one of four CPUs, released at 1 s: real Linux leaves three CPUs idle for a while. Two of them are
/// enough to show that.
#[test]
fn a_scenario_of_few_tasks_shows_the_longest_stretch_again() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [load, log, again, log_again] =
        ["load.txt", "load.log", "again.txt", "again.log"].map(|name| path(folder.path(), name));
    schedlab(&["--quiet", "generate", "start", "-o", &load]);
    let on = ["--sched", "linux-6.12", "--cpus", "4", "--duration"];
    schedlab(&[&["--quiet", "run", &load][..], &on, &["2s", "--log", &log]].concat());
    let found = json(&["--quiet", "wasted", &log, "--json", "-"]);
    assert_eq!((&found["nr_stretches"], &found["unknown_ns"]), (&1.into(), &0.into()), "{found}");
    schedlab(&["--quiet", "wasted", &log, "-o", &again]);
    let text = std::fs::read_to_string(&again).expect("a scenario");
    assert!(text.lines().filter(|line| line.contains("name=hog")).count() < 8, "{text}");
    schedlab(&[&["--quiet", "run", &again][..], &on, &["1s", "--log", &log_again]].concat());
    let shown = json(&["--quiet", "wasted", &log_again, "--json", "-"]);
    assert!(shown["any_length"]["longest_ns"].as_u64().unwrap() > 10_000_000, "{shown}");
}

/// A recorder that does not see idling cannot say that no CPU was wasted.
#[test]
fn what_a_recording_hides_is_unknown() {
    let found = json(&["--quiet", "wasted", "samples/compile", "--json", "-"]);
    assert!(found["unknown_ns"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(found["unknown"], serde_json::json!([{"task": null, "what": "idle"}]));
    let out = schedlab(&["--quiet", "wasted", "samples/compile"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("at least ") && text.contains("whether a CPU idled (nobody saw it)"), "{text}");
}

#[test]
fn there_may_be_nothing_to_show_again() {
    let folder = tempfile::tempdir().unwrap();
    let [log, again] = ["run.log", "again.txt"].map(|name| path(folder.path(), name));
    schedlab(&["--quiet", "run", "samples/hand/figure1.txt", "--sched", "rr", "--cpus", "1", "--log", &log]);
    let (code, message) = fails(&["--quiet", "wasted", &log, "-o", &again]);
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("no stretch is longer than") && !Path::new(&again).exists(), "{message}");
}

/// A3: a sched_ext scheduler that never balances leaves three CPUs idle beside seven tasks that were bound before, from
/// their release to the end.
#[test]
#[ignore = "long: builds the kernel with sched_ext once"]
fn a_sched_ext_scheduler_that_never_balances_wastes_cores() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [load, log] = ["load.txt", "load.arrow"].map(|name| path(folder.path(), name));
    schedlab(&["--quiet", "generate", "start", "-o", &load]);
    let sched = format!("scx:{}", common::root().join("linux/scx/tests/queues.bpf.c").display());
    let run = ["--quiet", "run", &load, "--sched", &sched, "--cpus", "4", "--duration", "6s", "--log", &log];
    assert_eq!(schedlab(&run).status.code(), Some(0));
    let found = json(&["--quiet", "wasted", &log, "--json", "-"]);
    assert_eq!((&found["total_ns"], &found["unknown_ns"]), (&5_000_000_000_u64.into(), &0.into()), "{found}");
    let stretch = &found["stretches"][0];
    assert_eq!(stretch["idle_cpus"], serde_json::json!([1, 2, 3]), "{stretch}");
    assert_eq!(stretch["waiting"].as_array().map(Vec::len), Some(7), "{stretch}");
}

/// A3: under Linux 6.12 twelve hogs that start on one of two caches leave CPUs of the other idle; what their release
/// from their affinity does to the account is followed.
#[test]
fn hogs_on_one_of_two_caches_are_seen_to_waste_the_other() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [load, log] = ["load.txt", "load.arrow"].map(|name| path(folder.path(), name));
    let counts = "counts=[12, 0, 0, 0, 0, 0, 0, 0]";
    schedlab(&["--quiet", "generate", "start", "--set", counts, "-o", &load]);
    let on = ["--sched", "linux-6.12", "--machine", "packages=1,llcs=2,cores=4,smt=1", "--duration", "4s"];
    let run = [&["--quiet", "run", &load][..], &on, &["--log", &log]].concat();
    assert_eq!(schedlab(&run).status.code(), Some(0));
    let found = json(&["--quiet", "wasted", &log, "--json", "-"]);
    let (total_ns, unknown) = (found["total_ns"].as_u64().unwrap(), &found["unknown_ns"]);
    assert!(total_ns > 10_000_000 && *unknown == 0, "{found}");
}

/// The third bug of EuroSys 2016: a server's front wakes six workers at a time, and those that find no idle CPU in its
/// cache of four wait there, beside four idle CPUs of the other.
#[test]
fn wakeups_that_stay_in_one_cache_waste_the_other() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = path(folder.path(), "log.arrow");
    let workload = "samples/hand/overload-on-wakeup.txt";
    let run = ["--quiet", "run", workload, "--sched", "linux-6.12", "--machine", "packages=2,cores=4"];
    let output = schedlab(&[&run[..], &["--log", &log]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = json(&["--quiet", "wasted", &log, "--longer", "1ms", "--json", "-"]);
    let stretches = found["stretches"].as_array().unwrap();
    let cpus = |list: &serde_json::Value| -> Vec<u64> {
        list.as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap()).collect()
    };
    let of_the_far_cache = stretches.iter().filter(|stretch| {
        let waits_near =
            stretch["waiting"].as_array().unwrap().iter().all(|task| task["cpu"].as_u64().unwrap() < 4);
        waits_near && cpus(&stretch["idle_cpus"]).iter().any(|cpu| *cpu >= 4)
    });
    assert!(of_the_far_cache.count() >= 10, "{stretches:?}");
}
