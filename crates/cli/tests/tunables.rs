//! The default that `schedulers NAME` shows is the value in force, and a value that is set is in force as it is.

mod common;

use common::{has_linux, json, schedlab};
use std::path::Path;

/// What a run prints of a tunable, and its log without the lines that repeat the parameters.
fn run(folder: &Path, sched: &str, cpus: &str, params: &[String], show: &str) -> (String, String) {
    let log = folder.join("log");
    let mut args = vec![
        "--quiet",
        "run",
        "samples/hand/fairbench.txt",
        "--sched",
        sched,
        "--cpus",
        cpus,
        "--duration",
        "2s",
    ];
    let show = format!("20ms:{show}");
    args.extend(["--show", &show, "--log", log.to_str().unwrap()]);
    params.iter().for_each(|param| args.extend(["--param", param]));
    let output = schedlab(&args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{params:?}: {}", String::from_utf8_lossy(&output.stderr));
    let shown = text.split(" at 20ms").nth(1).unwrap_or_default();
    let shown = shown.split_whitespace().next().unwrap_or_default().to_owned();
    let log = std::fs::read_to_string(&log).unwrap();
    (shown, log.lines().filter(|line| !line.starts_with("# param")).collect::<Vec<_>>().join("\n"))
}

/// Name and default of the tunables that follow from the number of CPUs.
fn scaled(sched: &str, cpus: &str) -> Vec<(String, String)> {
    let listed = json(&["schedulers", sched, "--cpus", cpus, "--json"]);
    let params = listed[0]["params"].as_array().unwrap();
    let grows = params.iter().filter(|param| !param["by_cpus"].as_array().unwrap().is_empty());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    grows.map(|param| (text(&param["name"]), text(&param["default"]))).collect()
}

fn a_default_that_is_set_changes_nothing_under(sched: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    // 25 tasks are more than 8: under CFS their slices follow from the granularity alone (__sched_period())
    let shaping = if expected == OF_CFS { "min_granularity_ns" } else { "base_slice_ns" };
    for cpus in ["1", "2", "4"] {
        let defaults = scaled(sched, cpus);
        let names: Vec<&str> = defaults.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{sched}");
        let all: Vec<String> = defaults.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (_, plain) = run(folder.path(), sched, cpus, &[], names[0]);
        let (_, set) = run(folder.path(), sched, cpus, &all, names[0]);
        assert!(plain == set, "{sched} on {cpus} CPUs with {all:?} decides otherwise");
        for (name, value) in &defaults {
            // what is shown is in force, and so is another value that is set
            assert_eq!(run(folder.path(), sched, cpus, &[], name).0, *value, "{sched} {name}");
            let other = (value.parse::<u64>().unwrap() * 3).to_string();
            let (shown, log) = run(folder.path(), sched, cpus, &[format!("{name}={other}")], name);
            assert_eq!(shown, other, "{sched} {name} on {cpus} CPUs");
            if name == shaping {
                assert!(log != plain, "{sched}: {name}={other} changes nothing");
            }
        }
    }
}

const OF_EEVDF: [&str; 1] = ["base_slice_ns"];
const OF_CFS: [&str; 3] = ["latency_ns", "min_granularity_ns", "wakeup_granularity_ns"];

/// A5: the default that is shown, set by hand, is the one that is in force.
#[test]
fn a_default_that_is_set_changes_nothing() {
    if !has_linux() {
        return;
    }
    a_default_that_is_set_changes_nothing_under("linux-6.12", &OF_EEVDF);
}

#[test]
#[ignore = "long: builds 5.10, 6.1 and 7.2"]
fn a_default_that_is_set_changes_nothing_in_other_versions() {
    a_default_that_is_set_changes_nothing_under("linux-5.10", &OF_CFS);
    a_default_that_is_set_changes_nothing_under("linux-6.1", &OF_CFS);
    a_default_that_is_set_changes_nothing_under("linux-7.2", &OF_EEVDF);
}

/// A5: with a CPU off from the start the value that is set is in force, too: the kernel scales its defaults when
/// a CPU goes off.
#[test]
fn a_value_stands_beside_a_cpu_that_is_off() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let params = ["base_slice_ns=5000000", "cpu3=off"].map(str::to_owned);
    assert_eq!(run(folder.path(), "linux-6.12", "4", &params, "base_slice_ns").0, "5000000");
}
