//! `sweep`, as scripts use it: the same rows whoever is killed, the columns of `run --json`, commands that
//! repeat a run.

mod common;

use common::{has_linux, root};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// `schedlab ARGS` in a folder.
fn schedlab(folder: &Path, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab")).args(args).current_dir(folder).output();
    output.expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Standard output of a command that must succeed.
fn done(folder: &Path, args: &[&str]) -> String {
    let output = schedlab(folder, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&done(folder, args)).unwrap()
}

fn hash(folder: &Path, dir: &str) -> String {
    let status = json(folder, &["sweep", "status", dir, "--json", "-"]);
    status["hash"].as_str().unwrap().to_string()
}

const SMALL: &str = r#"
[grid]
generate = "sleepers"
set.tasks = 4
set.run = "1ms"
set.sleep = "2ms"
set.duration = "50ms"
sched = ["rr", "eevdf"]
cpus = [1, 2]
seed = "1-75"
"#;

fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), text).unwrap();
    folder
}

/// 300 runs: undisturbed; killed some times; two programs at one folder; two shards.
#[test]
fn the_dataset_is_the_same_whoever_is_killed() {
    let folder = folder(SMALL);
    let at = folder.path();
    done(at, &["--quiet", "sweep", "s.toml", "-o", "plain"]);
    let plain = hash(at, "plain");
    let start = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args([&["--quiet", "sweep", "s.toml"], args].concat()).current_dir(at);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut nr_killed = 0;
    for ms in [40, 90, 150, 220] {
        let mut child = start(&["-o", "killed"]);
        std::thread::sleep(Duration::from_millis(ms));
        nr_killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(nr_killed > 0);
    done(at, &["sweep", "s.toml", "-o", "killed"]);
    assert_eq!(hash(at, "killed"), plain);

    let (mut one, mut other) =
        (start(&["-o", "two", "--json", "a.json"]), start(&["-o", "two", "--json", "b.json"]));
    assert!(one.wait().unwrap().success() && other.wait().unwrap().success());
    assert_eq!(hash(at, "two"), plain);
    let made = |name: &str| {
        let text = std::fs::read_to_string(at.join(name)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["done"].as_u64().unwrap()
    };
    assert_eq!(made("a.json") + made("b.json"), 300, "each run is made by one of them");

    done(at, &["sweep", "s.toml", "-o", "a", "--shard", "1/2"]);
    done(at, &["sweep", "s.toml", "-o", "b", "--shard", "2/2"]);
    done(at, &["sweep", "merge", "b", "a", "-o", "whole"]);
    assert_eq!(hash(at, "whole"), plain);
    let again = json(at, &["sweep", "s.toml", "-o", "whole", "--json", "-"]);
    assert_eq!((again["done"].as_u64(), again["known"].as_u64()), (Some(0), Some(300)));
    let table = done(at, &["sweep", "show", "whole", "--limit", "3"]);
    assert!(table.contains("... and 297 more") && table.contains("sleepers-"), "{table}");
}

/// Every number of a row is that of `run --json` of the row's command.
fn check_columns(at: &Path, dir: &str) {
    let rows = done(at, &["sweep", "show", dir, "--json", "-"]);
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let command = row["command"].as_str().unwrap();
        let path = Path::new(env!("CARGO_BIN_EXE_schedlab")).parent().unwrap().display().to_string();
        let script = format!("PATH={path}:$PATH; {command} --json -");
        let output = Command::new("bash").args(["-c", &script]).current_dir(at).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output));
        let run: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{command}: {error}"));
        let mut compared = 0;
        for (name, value) in row.as_object().unwrap() {
            if let Some(expected) = run.get(name) {
                assert_eq!(value, expected, "{name} of {command}");
                compared += 1;
            }
        }
        assert!(compared >= 36, "{compared} columns are fields of run --json");
    }
}

#[test]
fn columns_are_the_fields_of_run_json_and_commands_repeat_a_run() {
    let folder = folder(
        r#"
        [grid]
        sched = ["rr", "posix"]
        cpus = 2
        duration = "300ms"
        param.quantum = "3ms"
        [[list]]
        generate = "sleepers"
        set.tasks = 3
        [[list]]
        generate = "hogs"
        set.nices = [[0, 5, 5]]
        seed = 3
        perturb = "slack=0"
        [[except]]
        sched = "posix"
        "#,
    );
    done(folder.path(), &["sweep", "s.toml", "-o", "d"]);
    check_columns(folder.path(), "d");
}

#[test]
fn real_linux_is_swept_and_a_parameter_that_it_lacks_is_refused() {
    if !has_linux() {
        return;
    }
    let text = r#"
        [grid]
        workload = "w.txt"
        kernel = "6.12"
        machine = "packages=2,cores=2"
        duration = "200ms"
        seed = [1]
        param.base_slice_ns = [700000, 3000000]
    "#;
    let folder = folder(text);
    let at = folder.path();
    std::fs::copy(root().join("samples/hand/sleepers8.txt"), at.join("w.txt")).unwrap();
    done(at, &["sweep", "s.toml", "-o", "d", "--logs"]);
    check_columns(at, "d");
    assert_eq!(std::fs::read_dir(at.join("d/logs")).unwrap().count(), 2);
    std::fs::write(at.join("s.toml"), text.replace("base_slice_ns", "base_slce_ns")).unwrap();
    let output = schedlab(at, &["sweep", "s.toml", "-o", "other"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("s.toml: line 8: param.base_slce_ns = 700000"), "{said}");
    assert!(!at.join("other").exists(), "nothing was begun");
}

/// Bad input: exit status 2, the place, and what to do; failed runs are a finding, and rows.
#[test]
fn what_is_wrong_is_said_before_anything_is_run() {
    let folder = folder(SMALL);
    let at = folder.path();
    for (from, to, words) in [
        ("\"rr\"", "\"nosuch\"", &["s.toml: line 8", "no scheduler 'nosuch'"][..]),
        ("\"rr\"", "\"rr:quantum=0\"", &["line 8", "greater than zero"]),
        ("generate = \"sleepers\"", "workload = \"nowhere.txt\"", &["nowhere.txt"]),
        ("set.tasks = 4", "set.task = 4", &["line 4", "task"]),
        ("set.run = \"1ms\"", "set.run = \"1 weeks\"", &["line 5", "set.run"]),
        ("set.sleep = \"2ms\"", "set.sleep = [\"2ms\", [1]]", &["line 6", "set.sleep"]),
        ("set.duration = \"50ms\"", "set.duration = \"0s\"", &["line 7", "set.duration", "more than 0"]),
        ("set.tasks = 4", "set.\"a = 1\\ntasks\" = 4", &["line 4", "letters"]),
        ("cpus = [1, 2]", "cpus = [0]", &["line 9", "at least 1 CPU"]),
        ("cpus = [1, 2]", "cpus = 1\ncosts = \"none.toml\"", &["line 10", "none.toml"]),
    ] {
        let text = SMALL.replace(from, to);
        let text = if to.starts_with("workload") { text.replace("set.", "# set.") } else { text };
        std::fs::write(at.join("bad.toml"), text).unwrap();
        for args in [&["sweep", "bad.toml", "-o", "d"][..], &["sweep", "bad.toml", "--dry-run"]] {
            let output = schedlab(at, args);
            let said = String::from_utf8_lossy(&output.stderr).replace("bad.toml", "s.toml");
            assert_eq!(output.status.code(), Some(2), "{to}: {said}");
            words.iter().for_each(|word| assert!(said.contains(word), "{to}: {said}"));
        }
        assert!(!at.join("d").exists(), "{to}: nothing was begun");
    }
    for args in [
        &["sweep"][..],
        &["sweep", "s.toml"],
        &["sweep", "none.toml", "-o", "d"],
        &["sweep", "s.toml", "-o", "d", "--shard", "3/2"],
        &["sweep", "s.toml", "-o", "d", "--jobs", "0"],
        &["sweep", "status", "nowhere"],
        &["sweep", "merge", "nowhere", "-o", "d"],
        &["sweep", "s.toml", "-o", "."],
    ] {
        let output = schedlab(at, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
    }
    std::fs::write(at.join("f.toml"), SMALL.replace("\"eevdf\"", "\"broken-lost\"").replace("1-75", "1-2"))
        .unwrap();
    let output = schedlab(at, &["sweep", "f.toml", "-o", "f"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("4 runs failed") && said.contains("schedlab run sleepers-"), "{said}");
    let status = json(at, &["sweep", "status", "f", "--json", "-"]);
    assert_eq!(
        (status["by_status"]["done"].as_u64(), status["by_status"]["failed"].as_u64()),
        (Some(4), Some(4))
    );
    let output = schedlab(at, &["sweep", "retry", "f"]);
    assert_eq!(output.status.code(), Some(1), "it fails again: {}", text(&output));
}

#[test]
fn a_dry_run_says_what_it_would_cost_and_keeps_nothing() {
    let folder = folder(SMALL);
    let cost = json(folder.path(), &["sweep", "s.toml", "--dry-run", "--json", "-"]);
    assert_eq!(cost["planned"].as_u64(), Some(300));
    assert!(cost["tried"].as_u64() > Some(3) && cost["bytes"].as_u64() > Some(1000), "{cost}");
    assert!(cost["total_wall_s"].as_f64() > cost["run_wall_s"].as_f64(), "{cost}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A6: a run that is another experiment is a row like others; the sweep says so, and with `--strict` ends with 2, also
/// when the rows are there already.
#[test]
fn a_changed_experiment_is_said_of_a_sweep() {
    let folder = folder("[grid]\nworkload = \"bound.txt\"\nsched = \"fifo\"\ncpus = [2, 6]\n");
    let bound = "schedlab-workload 1\n- INIT 0 0 1 runnable name=camera affinity=4-5\n- EXIT 1 10ms\n";
    std::fs::write(folder.path().join("bound.txt"), bound).unwrap();
    let words = "this is not the experiment that was asked for: 1 runs";
    let sweep = ["--quiet", "sweep", "s.toml", "-o", "out"];
    for nr_there in ["2 runs made, 0 were there", "0 runs made, 2 were there"] {
        let output = schedlab(folder.path(), &[&["--strict"], &sweep[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(words) && text(&output).contains(nr_there), "{}", text(&output));
    }
    assert!(done(folder.path(), &["sweep", "status", "out"]).contains(words));
    std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    assert!(done(folder.path(), &sweep).contains(words));
    assert_eq!(json(folder.path(), &["sweep", "status", "out", "--json", "-"])["changed"], 1);
}
