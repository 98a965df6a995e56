//! `compare`, `diff` and many runs, as scripts use them: exit status, the same bytes, real pairs of logs.

mod common;

use common::{fails, has_linux, json, number, schedlab};
use serde_json::Value;

fn text(args: &[&str]) -> (i32, String) {
    let output = schedlab(args);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
}

const SLEEPERS: &str = "samples/hand/sleepers8.txt";

/// First in, first out against round robin: the exit status follows the condition, whatever the number of
/// workers the bytes are the same.
#[test]
fn a_gate_fails_when_its_condition_is_met() {
    let compare = |extra: &[&str]| {
        let what = ["--quiet", "compare", SLEEPERS, "--sched", "fifo", "--sched", "rr:quantum=1ms"];
        let how = ["--cpus", "2", "--duration", "2s", "--runs", "5"];
        text(&[&what[..], &how, extra].concat())
    };
    let (code, plain) = compare(&["--jobs", "1"]);
    assert_eq!(code, 0, "{plain}");
    assert!(plain.contains("B against A: what changed, most first") && plain.contains("preemptions"));
    assert_eq!(compare(&["--jobs", "2"]), (0, plain));
    // a quantum of 1 ms preempts; first in, first out never does
    assert_eq!(compare(&["--fail-if", "preemptions>+100"]).0, 1);
    assert_eq!(compare(&["--fail-if", "preemptions<+100"]).0, 0);
    assert_eq!(compare(&["--fail-if", "sleeper:cpu<1ns"]).0, 0);
    let (code, one) = compare(&["--json", "-", "--jobs", "1"]);
    assert_eq!((code, one.clone()), compare(&["--json", "-", "--jobs", "3"]));
    let result: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(number(&result, "schema"), 1);
    let values = &result["scenarios"][0]["contenders"][1]["values"]["preemptions"];
    assert!(values.as_array().unwrap().iter().all(|value| value.as_f64().unwrap() > 100.0), "{values}");
}

/// Eight hogs are let go on one of four CPUs: bfs has one queue for all and wastes nothing, cfs-6.1 leaves CPUs idle.
#[test]
fn wasted_cores_are_a_gate() {
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("load.txt").display().to_string();
    assert_eq!(text(&["--quiet", "generate", "start", "-o", &load]).0, 0);
    let gate = |a: &str, b: &str| {
        let what = ["--quiet", "compare", &load, "--sched", a, "--sched", b, "--cpus", "4"];
        text(&[&what[..], &["--duration", "2s", "--runs", "5", "--fail-if", "wasted>1%"]].concat())
    };
    let (code, said) = gate("bfs", "cfs-6.1");
    assert!(code == 1 && said.contains("wasted>1%") && said.contains("MET"), "{code}: {said}");
    let (code, said) = gate("cfs-6.1", "bfs");
    assert!(code == 0 && said.contains("not met"), "{code}: {said}");
}

#[test]
fn conditions_that_cannot_be_judged_are_errors() {
    let compare = |extra: &[&str]| {
        let args = ["compare", "samples/hand/fairbench.txt", "--sched", "fifo", "--cpus", "1", "--runs", "2"];
        fails(&[&args[..], &["--duration", "100ms"], extra].concat())
    };
    for (extra, words) in [
        (&["--sched", "rr", "--fail-if", "p98>5%"][..], &["p98", "^^^", "expected"][..]),
        (&["--sched", "rr", "--fail-if", "p99>5"], &["no unit"]),
        (&["--sched", "rr", "--fail-if", "latency.p99>5%"], &["cannot be judged"]),
        (&["--sched", "rr", "--fail-if", "nobody:p99>5%"], &["nobody", "nice-20"]),
        (&[], &["--sched twice"]),
        (&["--sched", "rr:quantum=0"], &["quantum=0 of rr", "greater than zero"]),
        (&["--sched", "rr:quantum"], &["KEY=VALUE"]),
        (&["--sched", "rr", "--confidence", "100"], &["--confidence"]),
        (&["--sched", "rr", "--html", "/nowhere/x.html"], &["/nowhere"]),
        (&["--sched", "rr", "--perturb", "7,slack=0"], &["no seed"]),
    ] {
        let (code, error) = compare(extra);
        assert_eq!(code, 2, "{extra:?}: {error}");
        for word in words {
            assert!(error.contains(word), "{extra:?}: '{word}' is missing in: {error}");
        }
    }
}

/// A shorter slice lets those who wait run sooner: fewer CPU hogs in a row, more preemptions, on real Linux.
#[test]
fn parameters_of_real_linux_are_compared() {
    if !has_linux() {
        return;
    }
    let args = ["--quiet", "compare", "samples/hand/responsebench.txt", "--cpus", "1", "--duration", "2s"];
    let scheds =
        ["--sched", "linux-6.12:base_slice_ns=20000000", "--sched", "linux-6.12:base_slice_ns=1000000"];
    let how = ["--runs", "6", "--fail-if", "preemptions>20%", "--json", "-"];
    let (code, out) = text(&[&args[..], &scheds, &how].concat());
    assert_eq!(code, 1, "{out}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["scenarios"][0]["gates"][0]["outcome"], "met");
    let same = ["--sched", "linux-6.12", "--sched", "linux-6.12", "--runs", "4", "--json", "-"];
    let result = json(&[&args[..], &same].concat());
    let changes = result["scenarios"][0]["comparisons"][0]["changes"].as_array().unwrap();
    assert!(changes.len() > 10 && changes.iter().all(|change| change["verdict"] == "not shown"));
}

fn log(folder: &tempfile::TempDir, name: &str, sched: &str, extra: &[&str]) -> String {
    let path = folder.path().join(name).to_str().unwrap().to_string();
    let args = ["--quiet", "run", "samples/hand/fairbench.txt", "--sched", sched, "--cpus", "1"];
    let (code, out) = text(&[&args[..], &["--duration", "1s", "--log", &path], extra].concat());
    assert_eq!(code, 0, "{out}");
    path
}

/// Two runs are the same run; text and Arrow say the same; another scheduler differs.
#[test]
fn diff_of_real_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let sched = if has_linux() { "linux-6.12" } else { "eevdf" };
    let a = log(&folder, "a.log", sched, &[]);
    let again = log(&folder, "again.arrow", sched, &[]);
    let (code, out) = text(&["diff", &a, &again]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("No decision differs") && out.contains("every task has the same CPU time"));
    let other = log(&folder, "other.log", "cfs-2.6.32", &[]);
    let (code, out) = text(&["diff", &a, &other, "--json", "-"]);
    assert_eq!(code, 1);
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["differs"], true);
    let first = &result["first"];
    assert!(number(first, "time_ns") < 100_000_000);
    assert_ne!(first["sides"][0]["chosen"], first["sides"][1]["chosen"]);
    assert_eq!(result["tasks"].as_array().unwrap().len(), 25);
    // either log's CPU times add up to what the one CPU did
    for which in 0..2 {
        let used: u64 =
            result["tasks"].as_array().unwrap().iter().map(|t| t["cpu_ns"][which].as_u64().unwrap()).sum();
        assert!((990_000_000..=1_000_000_000).contains(&used), "{used}");
    }
    let (code, error) = fails(&["diff", &a, "samples/hand/fairbench.txt"]);
    assert_eq!(code, 2);
    assert!(error.contains("not a schedule log"), "{error}");
    assert_eq!(fails(&["diff", &a, "/nowhere"]).0, 2);
}

/// The perturbation of a seed: it repeats, it differs from another's, a fixed phase moves the first tick, and
/// the log names it.
#[test]
fn seeds_vary_a_run_and_repeat_it() {
    let folder = tempfile::tempdir().unwrap();
    let sched = if has_linux() { "linux-6.12" } else { "eevdf" };
    let read =
        |name: &str, extra: &[&str]| std::fs::read_to_string(log(&folder, name, sched, extra)).unwrap();
    let plain = read("plain", &[]);
    assert!(!plain.contains("perturb"));
    let one = read("one", &["--seed", "1"]);
    assert!(one.contains("# param \"perturb\" \"1\""));
    assert_eq!(one, read("again", &["--seed", "1"]));
    assert_eq!(one, read("spec", &["--perturb", "1"]));
    let strip = |log: &str| log.lines().filter(|line| !line.starts_with("# param")).collect::<String>();
    assert_ne!(strip(&one), strip(&read("two", &["--seed", "2"])));
    assert_eq!(strip(&plain), strip(&read("nothing", &["--perturb", "3,phase=0,slack=0,start=0"])));
}

/// Several runs: in order, the same whatever the number of workers, each with a file of its own, and the same
/// as one by one.
#[test]
fn many_runs_come_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("{workload}-{seed}.log").to_str().unwrap().to_string();
    let many = |jobs: &str| {
        let args = ["--quiet", "run", SLEEPERS, "samples/hand/figure1.txt", "--sched", "rr", "--cpus", "2"];
        let how = ["--duration", "1s", "--seed", "1-3", "--jobs", jobs, "--json", "-", "--log", &files];
        let (code, out) = text(&[&args[..], &how].concat());
        assert_eq!(code, 0);
        let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let key = |run: &Value| {
            (
                run["workload"].as_str().unwrap().to_string(),
                run["params"]["perturb"].as_str().unwrap().to_string(),
            )
        };
        (
            lines.iter().map(key).collect::<Vec<_>>(),
            lines.iter().map(|run| number(run, "switches")).collect::<Vec<_>>(),
        )
    };
    let alone = many("1");
    let expected =
        ["sleepers8", "figure1"].iter().flat_map(|w| ["1", "2", "3"].map(|s| (w.to_string(), s.to_string())));
    assert_eq!(alone.0, expected.collect::<Vec<_>>());
    assert_eq!(alone, many("4"));
    let single = folder.path().join("single.log").to_str().unwrap().to_string();
    let args = ["--quiet", "run", SLEEPERS, "--sched", "rr", "--cpus", "2", "--duration", "1s"];
    assert_eq!(text(&[&args[..], &["--seed", "2", "--log", &single]].concat()).0, 0);
    let of_many = folder.path().join("sleepers8-2.log");
    assert_eq!(std::fs::read(single).unwrap(), std::fs::read(of_many).unwrap());
    // one file for many runs, and a run that fails
    let (code, error) = fails(&[&args[..], &["--seed", "1-2", "--log", "/tmp/x.log"]].concat());
    assert_eq!(code, 2);
    assert!(error.contains("{seed}"), "{error}");
    let broken =
        ["run", SLEEPERS, "samples/hand/deadlock.txt", "--sched", "rr", "--cpus", "1", "--duration", "1s"];
    let (code, error) = fails(&broken);
    assert_eq!(code, 2);
    assert!(error.contains("1 of 2 runs failed") && error.contains("deadlocks"), "{error}");
}

/// A1: a mix says when its runs end: `run` and `compare` stop there alike, and a `--duration` goes before it.
#[test]
fn a_mix_ends_after_its_own_duration() {
    let folder = tempfile::tempdir().unwrap();
    let mix = folder.path().join("mix.toml");
    let text =
        "duration = \"250ms\"\n[[part]]\ngenerate = { kind = \"hogs\", nices = [0, 0], cpu = \"2s\" }\n";
    std::fs::write(&mix, text).unwrap();
    let mix = mix.to_str().unwrap();
    let compared = |extra: &[&str]| {
        let what = ["compare", mix, "--sched", "fifo", "--sched", "rr", "--cpus", "1"];
        let result = json(&[&what[..], &["--runs", "2", "--json", "-"], extra].concat());
        let scenario = &result["scenarios"][0];
        let cpu_ns = scenario["contenders"][1]["values"]["cpu"][0].as_f64().unwrap();
        (number(scenario, "duration_ns"), cpu_ns as u64 / 1_000_000)
    };
    let run = json(&["run", mix, "--sched", "rr", "--cpus", "1", "--json", "-"]);
    assert_eq!(number(&run, "duration_ns"), 250_000_000);
    // each run begins up to 4 ms late
    let (duration_ns, cpu_ms) = compared(&[]);
    assert!(duration_ns == 250_000_000 && (246..=250).contains(&cpu_ms), "{duration_ns} {cpu_ms}");
    let (duration_ns, cpu_ms) = compared(&["--duration", "100ms"]);
    assert!(duration_ns == 100_000_000 && (96..=100).contains(&cpu_ms), "{duration_ns} {cpu_ms}");
}
