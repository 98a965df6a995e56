//! Can a result be trusted, and is it said where it cannot? What changed the experiment comes first; nothing is lost
//! without a word; equal runs are equal, byte by byte.

mod common;

use common::{fails, has_linux, json, root, schedlab};
use std::fs::{File, read, read_to_string, write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A6. A camera bound to CPUs that a small machine lacks, and a task that asks for 60 % of a CPU by a reservation,
/// twice.
fn cameras(folder: &Path) -> String {
    let path = folder.join("cameras.txt");
    let deadline = "policy=deadline runtime=6ms deadline=10ms period=10ms";
    let text = format!(
        "1 INIT 0 0 1 runnable name=camera affinity=4-5\n2 EXIT 1 5ms\n\
         3 INIT 0 0 2 runnable name=left {deadline}\n4 EXIT 2 5ms\n\
         5 INIT 0 0 3 runnable name=right {deadline}\n6 EXIT 3 5ms\n"
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

/// A4. The longest waits name the CPU on whose queue each began, which the log's own lines tell; and where it ended.
#[test]
fn a_wait_is_reported_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let (w, log) = (folder.path().join("w.txt"), folder.path().join("w.log"));
    let mut text = String::new();
    (1..=5).for_each(|pid| text.push_str(&format!("- INIT 0 0 {pid} runnable name=w{pid}\n")));
    (1..=5).for_each(|pid| text.push_str(&format!("- EXIT {pid} {}ms\n", 10 + 40 * pid)));
    write(&w, text).unwrap();
    let (w, log_name) = (w.to_str().unwrap(), log.to_str().unwrap());
    for sched in ["rr", "bfs"] {
        let run = ["--quiet", "run", w, "--sched", sched, "--cpus", "2", "--json", "-", "--log", log_name];
        let waits = json(&run)["longest_waits"].as_array().unwrap().clone();
        let log = read_to_string(&log).unwrap();
        let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split_whitespace().collect()).collect();
        let elsewhere = waits.iter().filter(|wait| wait["cpu"] != wait["end_cpu"]).count();
        assert!(elsewhere > 0, "{sched}: no wait of {} ended on another CPU", waits.len());
        for wait in &waits {
            let task = format!("t{}", wait["task"]);
            let at = |field: &str| wait[field].to_string();
            let (cpu, end_cpu) = (format!("cpu{}", wait["cpu"]), format!("cpu{}", wait["end_cpu"]));
            let begins = |line: &&Vec<&str>| match line[..] {
                // switched out while runnable, on this CPU; or put onto this queue
                [time, on, "switch", out, "preempted", ..] => {
                    time == at("start_ns") && on == cpu && out == task
                }
                [time, _, "new" | "wakeup", woken, queue] => {
                    time == at("start_ns") && woken == task && queue == cpu
                }
                _ => false,
            };
            let ends = |line: &&Vec<&str>| {
                line.len() > 3
                    && line[..2] == [&at("end_ns"), &end_cpu]
                    && line.last() == Some(&task.as_str())
            };
            assert!(lines.iter().any(|line| begins(&line)), "{sched}: {wait}");
            assert!(lines.iter().any(|line| ends(&line)), "{sched}: {wait}");
        }
    }
}

/// C4. `/dev/full` takes nothing: each command that prints says so, and ends with 2.
#[test]
fn a_full_standard_output_is_bad_input_and_no_panic() {
    for args in [
        vec!["--help"],
        vec!["run", "--help"],
        vec!["--version"],
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

/// C4. A temporary folder of 64 KiB (in a mount namespace of its own, where this user may have one): the log has no
/// room.
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

/// C13: every command that writes JSON or a page, twice into two folders: the same bytes.
#[test]
fn reproducible_results_are_equal_byte_by_byte() {
    let figure = "samples/hand/figure1.txt";
    let rt = "samples/hand/rt.txt";
    let folder = tempfile::tempdir().unwrap();
    let log = |sched: &str| {
        let path = folder.path().join(format!("{sched}.log")).to_str().unwrap().to_string();
        let out = schedlab(&["--quiet", "run", rt, "--sched", sched, "--cpus", "2", "--log", &path]);
        assert!(out.status.success());
        path
    };
    let (fifo, rr) = (log("fifo"), log("rr"));
    let in_two_folders = |command: &[&str], outputs: &[(&str, &str)]| {
        let of_turn = |turn: u32| {
            let here = folder.path().join(turn.to_string());
            std::fs::create_dir_all(&here).unwrap();
            let place = |name: &str| here.join(name).to_str().unwrap().to_string();
            let named: Vec<String> = outputs.iter().map(|(_, name)| place(name)).collect();
            let mut args = [&["--quiet", "--reproducible"], command].concat();
            for ((option, _), path) in outputs.iter().zip(&named) {
                args.extend([*option, path]);
            }
            let out = schedlab(&args);
            let is_done = matches!(out.status.code(), Some(0 | 1)); // a difference is a finding
            assert!(is_done, "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
            let written: Vec<Vec<u8>> = named.iter().map(|path| read(path).unwrap()).collect();
            if outputs.is_empty() { vec![out.stdout] } else { written }
        };
        let (first, second) = (of_turn(1), of_turn(2));
        assert!(first.iter().all(|bytes| !bytes.is_empty()), "{command:?}");
        assert!(first == second, "{command:?}");
    };
    let both = [("--json", "result.json"), ("--html", "page.html")];
    let json_only = &both[..1];
    in_two_folders(&["run", rt, "--sched", "eevdf", "--cpus", "2", "--duration", "1s"], &both);
    in_two_folders(
        &["run", rt, "--sched", "eevdf", "--cpus", "2", "--duration", "1s", "--seed", "1-2"],
        json_only,
    );
    in_two_folders(&["compare", rt, "--sched", "fifo", "--sched", "rr", "--cpus", "2", "--runs", "3"], &both);
    in_two_folders(&["fairness", "--shares", "3,2,1", "--sched", "vtrr,eevdf"], &both);
    in_two_folders(&["schedulability", "--sets", "2"], &both);
    in_two_folders(&["import", "samples/kv"], json_only);
    in_two_folders(&["wasted", &fifo], json_only);
    in_two_folders(&["diff", &fifo, &rr], json_only);
    in_two_folders(&["dependencies", "samples/kv", "--sched", "fifo", "--cpus", "2", "--json"], &[]);
    in_two_folders(&["workload", "show", figure, "--json"], &[]);
    in_two_folders(&["schedulers", "--json"], &[]);
    let plain = json(&["--quiet", "run", rt, "--sched", "eevdf", "--cpus", "2", "--json", "-"]);
    assert!(plain["wall_ns"].as_u64().unwrap() > 0, "without --reproducible host time is there");
}

/// C11: what led to a crash is in the log that was asked for.
#[test]
fn the_log_of_a_run_that_died_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["--quiet", "run", "samples/hand/sleepers8.txt", "--cpus", "2", "--sched", "broken-lost"];
    for name in ["crash.log", "crash.arrow"] {
        let log = folder.path().join(name);
        let (code, message) = fails(&[&run[..], &["--log", log.to_str().unwrap()]].concat());
        assert_eq!(code, 3, "{message}");
        assert!(
            message.contains("the log up to then: ") && message.contains("repeat it with: "),
            "{message}"
        );
        let last = message.lines().rev().find(|line| line.contains(" cpu")).unwrap().trim();
        let read = schedlab(&[
            "--quiet",
            "export",
            log.to_str().unwrap(),
            "-o",
            folder.path().join("all.txt").to_str().unwrap(),
        ]);
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        assert!(read_to_string(folder.path().join("all.txt")).unwrap().contains(last), "{name}: no '{last}'");
        std::fs::remove_file(folder.path().join("all.txt")).unwrap();
    }
    let many = folder.path().join("crash-{seed}.log");
    let (code, _) = fails(&[&run[..], &["--seed", "1-2", "--log", many.to_str().unwrap()]].concat());
    assert_eq!(code, 3);
    assert!((1..=2).all(|seed| folder.path().join(format!("crash-{seed}.log")).exists()));
}

/// C12: a cache that cannot be written is looked into all the same; whoever must write there says where, and what to
/// do.
#[test]
fn an_unwritable_cache_is_said_with_its_remedy() {
    let with_cache = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command
            .current_dir(root())
            .arg("--quiet")
            .args(args)
            .env("SCHEDLAB_CACHE", "/proc/nowhere")
            .output()
            .unwrap()
    };
    let figure = "samples/hand/figure1.txt";
    for args in [
        vec!["linux", "list"],
        vec!["schedulers"],
        vec!["run", figure, "--sched", "fifo", "--cpus", "1"],
        vec!["linux", "bugs"],
    ] {
        let out = with_cache(&args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    for args in [vec!["run", figure, "--sched", "linux-6.12", "--cpus", "1"], vec!["linux", "add", "6.12"]] {
        let out = with_cache(&args);
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
        assert!(
            message.contains("/proc/nowhere/linux") && message.contains("SCHEDLAB_CACHE=DIR"),
            "{message}"
        );
    }
}

/// B4: a run for each combination of values, in order, and the values in its result.
#[test]
fn lists_of_values_are_runs() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("{quantum}-{seed}.log");
    let run =
        ["--quiet", "run", "samples/hand/sleepers8.txt", "--cpus", "2", "--duration", "1s", "--sched", "rr"];
    let swept = [&run[..], &["--sweep", "quantum=1ms,5ms", "--seed", "3-4"]].concat();
    let out = schedlab(&[&swept[..], &["--json", "-", "--log", log.to_str().unwrap()]].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    let values: Vec<(String, u64)> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|run| (run["params"]["quantum"].as_str().unwrap().to_string(), run["seed"].as_u64().unwrap()))
        .collect();
    let expected = [("1ms", 3), ("1ms", 4), ("5ms", 3), ("5ms", 4)];
    assert_eq!(values, expected.map(|(value, seed)| (value.to_string(), seed)));
    for (value, seed) in expected {
        let alone = folder.path().join("alone.log");
        let seed_text = seed.to_string();
        let param = format!("quantum={value}");
        let more = ["--param", &param, "--seed", &seed_text, "--log", alone.to_str().unwrap()];
        assert!(schedlab(&[&run[..], &more].concat()).status.success());
        assert_eq!(read(&alone).unwrap(), read(folder.path().join(format!("{value}-{seed}.log"))).unwrap());
    }
    let table = String::from_utf8(schedlab(&swept).stdout).unwrap();
    let (runs, means) = table.split_once("over the seeds").expect("means over the seeds");
    assert_eq!(runs.lines().filter(|line| line.starts_with("sleepers8")).count(), 4, "{table}");
    assert_eq!(means.lines().filter(|line| line.starts_with("sleepers8")).count(), 2, "{table}");
    for (bad, why) in [
        ("quantum", "no '='"),
        ("quantum=1ms,,2ms", "is empty"),
        ("quantun=1ms,2ms", "has no parameter 'quantun'"),
    ] {
        let (code, message) = fails(&[&run[..], &["--sweep", bad]].concat());
        assert!(code == 2 && message.contains(why), "{bad}: {code}: {message}");
    }
}

/// B4: values are contenders, a parameter can be that of all, and every task that changed can be listed.
#[test]
fn values_are_compared() {
    let compare = [
        "--quiet",
        "compare",
        "samples/hand/sleepers8.txt",
        "--cpus",
        "2",
        "--duration",
        "1s",
        "--runs",
        "3",
    ];
    let swept = [&compare[..], &["--sched", "rr", "--sweep", "quantum=1ms,5ms"]].concat();
    let result = json(&[&swept[..], &["--json", "-"]].concat());
    let contenders = result["scenarios"][0]["contenders"].as_array().unwrap();
    let labels: Vec<&str> = contenders.iter().map(|c| c["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["rr:quantum=1ms", "rr:quantum=5ms"]);
    assert_eq!(contenders[1]["params"]["quantum"], "5ms");
    let both = [&compare[..], &["--sched", "rr", "--sched", "wrr", "--param", "quantum=2ms", "--json", "-"]]
        .concat();
    let result = json(&both);
    let of_all = result["scenarios"][0]["contenders"].as_array().unwrap();
    assert!(of_all.iter().all(|c| c["params"]["quantum"] == "2ms"), "{of_all:?}");
    let changed = |text: &str| {
        text.split("by task")
            .nth(1)
            .map_or(0, |rows| rows.lines().filter(|l| l.contains(" .. ") || l.contains("always")).count())
    };
    let brief = String::from_utf8(schedlab(&swept).stdout).unwrap();
    let all = String::from_utf8(schedlab(&[&swept[..], &["--all-tasks"]].concat()).stdout).unwrap();
    assert!(changed(&brief) <= 8 && brief.contains("--all-tasks"), "{brief}");
    let shown = result_changes(&json(&[&swept[..], &["--json", "-"]].concat()));
    assert_eq!(changed(&all), shown, "{all}");
}

/// Changes of single tasks that the JSON calls changed.
fn result_changes(result: &serde_json::Value) -> usize {
    let tasks = result["scenarios"][0]["comparisons"][0]["tasks"].as_array().unwrap();
    tasks.iter().filter(|change| change["verdict"] == "changed").count()
}

/// B9: a parameter's name that is not there leads to one that is; no path of sysfs has to be understood.
#[test]
fn a_wrong_parameter_leads_to_the_right_one() {
    if !has_linux() {
        return;
    }
    let linux =
        ["--quiet", "run", "samples/hand/figure1.txt", "--sched", "linux-6.12", "--cpus", "1", "--param"];
    for (param, meant) in
        [("base_slice=1", "base_slice_ns"), ("featurs=HRTICK", "features"), ("nr_migrat=8", "nr_migrate")]
    {
        let (code, message) = fails(&[&linux[..], &[param]].concat());
        assert_eq!(code, 2, "{message}");
        let sentence = format!("--param {param}: this kernel has no such parameter");
        assert!(
            message.contains(&sentence) && message.contains(&format!("did you mean {meant}")),
            "{message}"
        );
    }
    let (code, message) = fails(&[&linux[..], &["features=NO_SUCH_THING"]].concat());
    assert!(
        code == 2 && message.contains("--param features=NO_SUCH_THING: refused by the kernel"),
        "{message}"
    );
}

/// B1: jobs are compared: five periodic tasks that FIFO, in order of arrival, makes late, and one late job is enough
/// for the gate.
#[test]
fn missed_deadlines_are_compared() {
    let cameras = "samples/hand/cameras.txt";
    let compare = ["--quiet", "compare", cameras, "--cpus", "1", "--duration", "1s", "--runs", "3"];
    let late = [&compare[..], &["--sched", "eevdf", "--sched", "fifo"]].concat();
    let (code, message) = fails(&[&late[..], &["--fail-if", "misses>0"]].concat());
    assert!(code == 1 && message.contains("--fail-if condition is met"), "{code}: {message}");
    for (condition, code) in
        [("camera:misses>0", 1), ("tardiness.max>1ms", 1), ("response.p99<1ns", 0), ("miss_share>+1pt", 1)]
    {
        assert_eq!(fails(&[&late[..], &["--fail-if", condition]].concat()).0, code, "{condition}");
    }
    // fixed priorities: none is late (docs/real-time.md)
    let in_time =
        [&compare[..], &["--sched", "fifo", "--sched", "eevdf", "--json", "-", "--fail-if", "misses>0"]]
            .concat();
    let result = json(&in_time);
    let values = &result["scenarios"][0]["contenders"][1]["values"];
    assert_eq!(values["misses"], serde_json::json!([0.0, 0.0, 0.0]));
    assert_eq!(values["tardiness.max"], serde_json::json!([0.0, 0.0, 0.0]));
    // as `run` has it: the same seed, the same jobs
    let run = json(&[
        "--quiet",
        "run",
        cameras,
        "--cpus",
        "1",
        "--duration",
        "1s",
        "--sched",
        "fifo",
        "--seed",
        "2",
        "--json",
        "-",
    ]);
    let of_fifo = &result["scenarios"][0]["contenders"][0]["values"];
    assert_eq!(of_fifo["misses"][1].as_f64().unwrap() as u64, run["misses"].as_u64().unwrap());
    assert_eq!(
        of_fifo["tardiness.max"][1].as_f64().unwrap() as u64,
        run["tardiness_max_ns"].as_u64().unwrap()
    );
    // hogs have no jobs
    let hogs = [
        "--quiet",
        "compare",
        "samples/hand/figure1.txt",
        "--cpus",
        "1",
        "--runs",
        "2",
        "--sched",
        "fifo",
        "--sched",
        "rr",
    ];
    let (code, message) = fails(&[&hogs[..], &["--fail-if", "misses>0"]].concat());
    assert!(code == 2 && message.contains("no job with a deadline"), "{code}: {message}");
}

#[test]
fn the_seed_is_a_number() {
    let args =
        ["--quiet", "run", "samples/hand/figure1.txt", "--sched", "fifo", "--cpus", "1", "--json", "-"];
    assert_eq!(json(&args)["seed"], serde_json::Value::Null);
    assert_eq!(json(&[&args[..], &["--seed", "7"]].concat())["seed"], 7);
    assert_eq!(json(&[&args[..], &["--perturb", "5,slack=0"]].concat())["seed"], 5);
}

/// C6: a path is no name of a kernel. (`linux remove DIR/x` removed DIR/x.toml, and then said that there was no such
/// kernel.)
#[test]
fn what_is_no_kernel_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (precious, cache) = (folder.path().join("precious.toml"), folder.path().join("cache"));
    std::fs::write(&precious, "a = 1\n").unwrap();
    let path = folder.path().join("precious").display().to_string();
    for name in [path.as_str(), "../../precious", "-x", ""] {
        let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .args(["linux", "remove", "--", name])
            .env("SCHEDLAB_CACHE", &cache)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert!(precious.is_file(), "{name}");
    }
}

/// A10: pipes and sockets wake with `WF_SYNC`, and so does a replay at their channels. Two packages of two CPUs: where
/// the waker is alone on its queue, `wake_affine_idle()` takes a synchronous wakeup to the waker's CPU, and
/// `select_idle_sibling()` from there to that package's idle CPU. Any other goes to the sleeper's own idle one.
#[test]
fn a_channel_wakes_synchronously() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (w, log) = (folder.path().join("w.txt"), folder.path().join("w.log"));
    // where the reader, task 1, began, and where it is woken
    let cpus = |word: &str| -> Vec<String> {
        let text = format!(
            "schedlab-workload 4\nOBJECT pipe channel {word}\n- INIT 0 0 1 runnable name=writer affinity=0\n\
             - INIT 0 0 2 runnable name=reader\n- RECV 2 +100us pipe\n- EXIT 2 +100us\n- SEND 1 +500us pipe\n\
             - EXIT 1 +0\n"
        );
        write(&w, text).unwrap();
        let (w, log_name) = (w.to_str().unwrap(), log.to_str().unwrap());
        let machine = ["--machine", "packages=2,cores=2", "--log", log_name];
        let run = schedlab(&[&["--quiet", "run", w, "--sched", "linux-6.12"][..], &machine].concat());
        assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
        let log = read_to_string(&log).unwrap();
        let of_reader =
            log.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                [_, _, "new" | "wakeup", "t1", cpu] => Some(cpu.to_owned()),
                _ => None,
            });
        of_reader.collect()
    };
    assert_eq!(cpus("sync"), ["cpu2", "cpu1"]);
    assert_eq!(cpus(""), ["cpu2", "cpu2"]);
}

/// Eight hogs on one of four CPUs, released at 100 ms: three CPUs idle beside seven tasks for a while.
fn released_hogs(folder: &Path) -> String {
    let path = folder.join("hogs.txt").to_str().unwrap().to_owned();
    let out = schedlab(&["--quiet", "generate", "start", "-o", &path]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    path
}

/// B2: the longest waits and the longest idle stretches are rows with time, CPU, task, and the command that explains
/// them, which does; the page has the same rows, and each leads to its place of the timeline.
#[test]
fn the_worst_is_dated_placed_named_and_explained() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (hogs, page) = (released_hogs(folder.path()), folder.path().join("run.html"));
    let run = ["--quiet", "run", &hogs, "--sched", "linux-6.12", "--cpus", "4", "--duration", "1500ms"];
    let result = json(&[&run[..], &["--json", "-"]].concat());
    let rows = |field: &str| result[field].as_array().unwrap().clone();
    let (waits, stretches) = (rows("longest_waits"), rows("idle_while_waiting_longest"));
    assert!(waits.len() >= 3 && !stretches.is_empty(), "{waits:?} {stretches:?}");
    let number = |row: &serde_json::Value, field: &str| row[field].as_u64().unwrap();
    for wait in &waits {
        assert!(number(wait, "end_ns") > number(wait, "start_ns") && wait["name"].is_string(), "{wait}");
        assert!(number(wait, "cpu") < 4, "{wait}");
    }
    let longest = stretches.iter().max_by_key(|row| number(row, "to_ns") - number(row, "from_ns")).unwrap();
    assert!(number(longest, "to_ns") - number(longest, "from_ns") > 1_000_000, "{longest}");
    assert!(longest["waiting"][0]["name"] == "hog", "{longest}");
    for (row, task) in [(&waits[0], &waits[0]["pid"]), (longest, &longest["waiting"][0]["pid"])] {
        let command = row["explain"].as_str().unwrap();
        let program = env!("CARGO_BIN_EXE_schedlab");
        let command = command.strip_prefix("schedlab ").unwrap().replace("--json -", "");
        assert!(command.contains(&format!("--explain {task}@")), "{command}");
        let script = format!("cd '{}' && '{program}' {command}", root().display());
        let out = Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains("vruntime") || text.contains("is placed"), "{command}: {text}");
    }
    let out = schedlab(&[&run[..], &["--html", page.to_str().unwrap()]].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("the longest waits") && text.contains("idle while work waits"), "{text}");
    let page = read_to_string(page).unwrap();
    for row in [&waits[0], longest] {
        let from = row.get("start_ns").or(row.get("from_ns")).unwrap();
        assert!(page.contains(&from.to_string()), "the page has no {from}");
    }
    assert!(page.contains(".jump("), "nothing leads to the timeline");
}

/// B7: the axis of an error of hundreds of time units has labels over its whole range, and the page's tables have
/// every row of the answer.
#[test]
fn a_plot_of_large_errors_has_labels() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("fairness.html");
    let study = ["--quiet", "fairness", "--shares", "1000,1,1", "--sched", "rr,vtrr,wfq"];
    let more = ["--json", "-", "--html", page.to_str().unwrap()];
    let answer = json(&[&study[..], &more].concat());
    let page = read_to_string(page).unwrap();
    let drawing = page.split("<svg").find(|part| part.contains(">error, tu<")).expect("a plot of errors");
    let rr = page.split("<svg").find(|part| part.contains(">rr<")).unwrap_or(drawing);
    let labels = rr.split("</text>").filter_map(|text| text.rsplit('>').next()?.parse::<f64>().ok());
    let (low, high) = labels.fold((0.0_f64, 0.0_f64), |(low, high), label| (low.min(label), high.max(label)));
    assert!(low <= -10.0 && high >= 10.0, "labels from {low} to {high}");
    let mut nr_rows = 0;
    for table in answer["tables"].as_array().unwrap() {
        nr_rows += table["rows"].as_array().unwrap().len();
    }
    let shown = page.split("<tbody>").skip(1).map(|body| {
        let body = body.split("</tbody>").next().unwrap();
        body.matches("<tr").count()
    });
    assert_eq!(shown.sum::<usize>(), nr_rows);
    assert_eq!(page.matches("<table").count(), page.matches("<div class=\"scroll\"><table").count());
}

/// B8: records of migrations, those of the kernel's threads among them, are one number, and runs that began on
/// another CPU another one. Both are what the log's own lines say.
#[test]
fn migrations_are_no_assignments() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.log");
    let run = ["--quiet", "run", "samples/gzip", "--sched", "linux-6.12", "--cpus", "4", "--json", "-"];
    let result = json(&[&run[..], &["--log", log.to_str().unwrap()]].concat());
    let text = read_to_string(&log).unwrap();
    let (mut records, mut migrations) = (0, 0);
    let mut last = std::collections::HashMap::new();
    let is_task = |name: &str| name.starts_with('t');
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, _, "migrate", ..] => records += 1,
            [_, cpu, "switch", .., next] if is_task(next) => {
                migrations += u64::from(last.insert(next, cpu).is_some_and(|before| before != cpu));
            }
            _ => {}
        }
    }
    let number = |field: &str| result[field].as_u64().unwrap();
    assert_eq!(records, number("assignments") + number("kernel_thread_assignments"));
    assert_eq!(migrations, number("migrations"));
    assert!(migrations > 0 && records > migrations, "{records} {migrations}");
}

/// B8: a machine of more CPUs than the built kernel has needs a second one, and that is said before minutes pass.
#[test]
fn a_second_kernel_is_announced() {
    let out = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .current_dir(root())
        .args(["run", "samples/hand/figure1.txt", "--sched", "linux-6.12", "--cpus", "128"])
        .env("SCHEDLAB_CACHE", "/proc/nowhere") // it is announced and then cannot be built
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    for words in
        ["up to 1024 CPUs) is built first, once: ", "machines of more than 64 CPUs have a build of their own"]
    {
        assert!(said.contains(words), "'{words}' is missing in: {said}");
    }
}

/// C8: `sudo schedlab record -- CMD` runs CMD as whoever called sudo, and the recording of a whole system is that
/// user's alone.
#[test]
fn a_recorded_command_runs_as_who_called_sudo() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    if folder.path().metadata().unwrap().uid() != 0 || !Path::new("/sys/kernel/tracing/instances").is_dir() {
        return eprintln!("SKIPPED: recording needs root and tracefs");
    }
    let nobody = 65534;
    let record = |more: &[&str]| {
        let output = folder.path().join("t.dat");
        let out = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .current_dir(folder.path())
            .args(["--quiet", "record", "-o", output.to_str().unwrap()])
            .args(more)
            .env("SUDO_UID", nobody.to_string())
            .output()
            .unwrap();
        assert!(out.status.success(), "{more:?}: {}", String::from_utf8_lossy(&out.stderr));
        output.metadata().unwrap()
    };
    let who = || read_to_string(folder.path().join("who")).unwrap().trim().to_owned();
    record(&["--", "sh", "-c", "id -u > who"]);
    assert_eq!(who(), nobody.to_string());
    std::fs::remove_file(folder.path().join("who")).unwrap();
    record(&["--user", "root", "--", "sh", "-c", "id -u > who"]);
    assert_eq!(who(), "0");
    let whole = record(&["--system", "--duration", "200ms"]);
    assert_eq!((whole.mode() & 0o777, whole.uid()), (0o600, nobody));
}

/// C10: what cannot be added leaves no name behind, and no half of a tree.
#[test]
fn a_tarball_that_cannot_be_added_leaves_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let (tarball, cache) = (folder.path().join("bad.tar"), folder.path().join("cache"));
    write(&tarball, "this is no tarball\n".repeat(100)).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .current_dir(root())
        .args(["--quiet", "linux", "add", "--name", "mine", "--tarball", tarball.to_str().unwrap()])
        .env("SCHEDLAB_CACHE", &cache)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("bad.tar"), "{said}");
    // (a lock is an empty file that nobody reads)
    let names = ["-name", "*mine*", "-not", "-path", "*/locks/*"];
    let left = Command::new("find").arg(&cache).args(names).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}
