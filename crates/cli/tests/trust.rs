//! Can a result be trusted, and is it said where it cannot? What changed the experiment comes first; nothing is lost without a word;
//! equal runs are equal, byte by byte.

mod common;

use common::{has_linux, json, root, schedlab};
use std::fs::{File, read, read_to_string, write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A camera bound to CPUs that a small machine lacks, and a task that asks for 60 % of a CPU by a reservation, twice.
fn cameras(folder: &Path) -> String {
    let path = folder.join("cameras.txt");
    let deadline = "policy=deadline runtime=6ms deadline=10ms period=10ms";
    let text = format!(
        "1 INIT 0 0 1 runnable name=camera affinity=4-5\n2 EXIT 1 5ms\n\
         3 INIT 0 0 2 runnable name=left {deadline}\n4 EXIT 2 5ms\n5 INIT 0 0 3 runnable name=right {deadline}\n6 EXIT 3 5ms\n"
    );
    write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

const CAMERA: &str = "'camera' is bound to CPUs 4-5, which this machine lacks: it may run on any";

#[test]
fn an_affinity_without_a_cpu_is_said_first() {
    let folder = tempfile::tempdir().unwrap();
    let cameras = cameras(folder.path());
    let page = folder.path().join("run.html");
    let args = ["--quiet", "run", &cameras, "--sched", "fifo", "--cpus", "2"];
    let out = schedlab(&[&args[..], &["--html", page.to_str().unwrap()]].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no '{what}' in {text}"));
    assert!(place("not the experiment that was asked for") < place(CAMERA) && place(CAMERA) < place("busy"));
    assert!(read_to_string(&page).unwrap().contains(CAMERA));
    let result = json(&[&args[..], &["--json", "-"]].concat());
    assert_eq!(result["changed_experiment"], serde_json::json!([{"what": CAMERA, "times": 1}]));
    let whole = json(&["--quiet", "run", &cameras, "--sched", "fifo", "--cpus", "6", "--json", "-"]);
    assert_eq!(whole["changed_experiment"], serde_json::json!([]));
}

#[test]
fn strict_refuses_another_experiment_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cameras = cameras(folder.path());
    let result = folder.path().join("result.json");
    for command in [
        vec!["run", "--sched", "fifo"],
        vec!["run", "--sched", "fifo", "--seed", "1-2"],
        vec!["compare", "--sched", "fifo", "--sched", "rr", "--runs", "2"],
    ] {
        let args =
            [&["--quiet"], &command[..], &[&cameras, "--cpus", "2", "--json", result.to_str().unwrap()]]
                .concat();
        let strict = schedlab(&[&args[..], &["--strict"]].concat());
        let message = String::from_utf8(strict.stderr).unwrap();
        assert_eq!(strict.status.code(), Some(2), "{command:?}: {message}");
        assert!(message.contains(CAMERA), "{message}");
        let is_many = command.contains(&"1-2"); // the result of each run says why there is none
        assert!(is_many || !result.exists(), "{command:?}");
        let free = schedlab(&args);
        assert_eq!(free.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&free.stderr));
        let text = read_to_string(&result).unwrap();
        assert!(text.contains(CAMERA), "{text}");
        std::fs::remove_file(&result).unwrap();
    }
}

/// Real Linux admits one reservation of 60 % of one CPU: the second is a normal task, and that is said first.
#[test]
fn a_reservation_that_linux_refuses_is_said_first() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cameras = cameras(folder.path());
    let result = json(&["--quiet", "run", &cameras, "--sched", "linux-6.12", "--cpus", "1", "--json", "-"]);
    let changed = result["changed_experiment"].as_array().unwrap();
    let refused =
        |change: &serde_json::Value| change["what"].as_str().unwrap().contains("refused by the kernel");
    assert!(changed.iter().any(refused), "{changed:?}");
    let args = ["--quiet", "run", &cameras, "--sched", "linux-6.12", "--cpus", "6", "--strict"];
    let out = schedlab(&args);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
}

/// `/dev/full` takes nothing: each command that prints says so, and ends with 2.
#[test]
fn a_full_standard_output_is_bad_input_and_no_panic() {
    for args in [
        vec!["schedulers"],
        vec!["machines"],
        vec!["run", "samples/hand/figure1.txt", "--sched", "fifo", "--cpus", "1"],
        vec!["run", "samples/hand/figure1.txt", "--sched", "fifo", "--cpus", "1", "--json", "-"],
        vec!["run", "samples/hand/figure1.txt", "--sched", "fifo", "--cpus", "1", "--seed", "1-2"],
        vec![
            "compare",
            "samples/hand/figure1.txt",
            "--sched",
            "fifo",
            "--sched",
            "rr",
            "--cpus",
            "1",
            "--runs",
            "2",
        ],
        vec!["fairness", "--shares", "3,2,1", "--sched", "vtrr"],
        vec!["workload", "show", "samples/hand/figure1.txt"],
        vec!["import", "samples/compile"],
        vec!["generate", "hogs"],
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .current_dir(root())
            .arg("--quiet")
            .args(&args)
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains("standard output") && !message.contains("panicked"), "{args:?}: {message}");
    }
}

/// A temporary folder of 64 KiB (in a mount namespace of its own, where this user may have one): the log has no room.
#[test]
fn a_full_temporary_folder_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k tmpfs \"$1\" || exit 77; shift; TMPDIR=$TMPDIR \"$@\"";
    let run = |more: &[&str]| {
        Command::new("unshare")
            .current_dir(root())
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(folder.path())
            .arg(env!("CARGO_BIN_EXE_schedlab"))
            .args(["--quiet"])
            .args(more)
            .env("TMPDIR", folder.path())
            .output()
    };
    for command in [
        vec!["run", "samples/compile", "--sched", "fifo", "--cpus", "2"],
        vec!["compare", "samples/compile", "--sched", "fifo", "--sched", "rr", "--cpus", "2", "--runs", "2"],
    ] {
        let Ok(out) = run(&command) else { return eprintln!("not tried: there is no unshare") };
        let message =
            String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        if out.status.code() == Some(77) || message.contains("unshare failed") || message.contains("uid_map")
        {
            return eprintln!("not tried: this user may not mount: {message}");
        }
        assert_eq!(out.status.code(), Some(2), "{command:?}: {message}");
        assert!(message.contains("temporary directory") && !message.contains("internal error"), "{message}");
    }
}

#[test]
fn reproducible_results_are_equal_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let name =
        |name: &str, turn: u32| folder.path().join(format!("{turn}-{name}")).to_str().unwrap().to_string();
    for (command, has_html) in [
        (vec!["run", "samples/hand/rt.txt", "--sched", "eevdf", "--cpus", "2", "--duration", "1s"], true),
        (
            vec![
                "compare",
                "samples/hand/rt.txt",
                "--sched",
                "fifo",
                "--sched",
                "rr",
                "--cpus",
                "2",
                "--runs",
                "3",
            ],
            true,
        ),
        (vec!["fairness", "--shares", "3,2,1", "--sched", "vtrr,eevdf"], true),
        (vec!["import", "samples/kv"], false),
    ] {
        let files: Vec<Vec<Vec<u8>>> = (1..=2)
            .map(|turn| {
                let (html, json) = (name("page.html", turn), name("result.json", turn));
                let mut args = [&["--quiet", "--reproducible"], &command[..], &["--json", &json]].concat();
                if has_html {
                    args.extend(["--html", &html]);
                }
                let out = schedlab(&args);
                assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
                let written = if has_html { vec![html, json] } else { vec![json] };
                written.iter().map(|path| read(path).unwrap()).collect()
            })
            .collect();
        assert_eq!(files[0], files[1], "{command:?}");
    }
    let plain =
        json(&["--quiet", "run", "samples/hand/rt.txt", "--sched", "eevdf", "--cpus", "2", "--json", "-"]);
    assert!(plain["wall_ns"].as_u64().unwrap() > 0, "without --reproducible host time is told");
}

#[test]
fn the_seed_is_a_number() {
    let args =
        ["--quiet", "run", "samples/hand/figure1.txt", "--sched", "fifo", "--cpus", "1", "--json", "-"];
    assert_eq!(json(&args)["seed"], serde_json::Value::Null);
    assert_eq!(json(&[&args[..], &["--seed", "7"]].concat())["seed"], 7);
    assert_eq!(json(&[&args[..], &["--perturb", "5,slack=0"]].concat())["seed"], 5);
}
