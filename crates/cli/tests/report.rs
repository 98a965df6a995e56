//! Recordings as they happened, and beside their replays.

mod common;

use common::{has_linux, json, root, schedlab};
use std::fs;
use std::path::Path;

/// B3: a sample's report has a run's tables, says what is hidden, and writes every file.
#[test]
fn a_recording_is_reported_as_it_happened() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let files = [at("x.html"), at("x.csv"), at("x.log"), at("x.json")];
    let args = [
        "--quiet",
        "report",
        "samples/hackbench",
        "--html",
        &files[0],
        "--csv",
        &files[1],
        "--log",
        &files[2],
    ];
    let output = schedlab(&[&args[..], &["--json", &files[3]]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in
        ["recorded · hackbench · 2 CPUs", "run delay", "hidden from the recorder", "schedlab fidelity"]
    {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let value: serde_json::Value = serde_json::from_str(&fs::read_to_string(&files[3]).unwrap()).unwrap();
    assert_eq!((value["sched"].as_str(), value["cpus"].as_u64()), (Some("recorded"), Some(2)));
    // strangers are left out of this recording: nobody knows whether a CPU idled
    assert!(value["idle_ns"].is_null(), "{}", value["idle_ns"]);
    assert_eq!(value["recording"]["observer"], "recorder");
    assert_eq!(value["recording"]["contended"], true);
    let rows = fs::read_to_string(&files[1]).unwrap();
    assert_eq!(rows.lines().count() as u64, 1 + value["tasks"].as_array().unwrap().len() as u64);
    // the log that it writes says what is hidden
    let log = fs::read_to_string(&files[2]).unwrap();
    assert!(log.contains("# observer recorder\n") && log.contains("# hidden idle"), "{:.400}", log);
    assert!(fs::read_to_string(&files[0]).unwrap().contains("hackbench as it happened"));
}

#[test]
fn every_format_is_reported() {
    for name in ["trace.dat", "perf.data", "ftrace.txt", "plain.perfetto"] {
        let value = json(&["--quiet", "report", &format!("samples/tools/{name}"), "--json", "-"]);
        assert!(
            value["recording"]["events"].as_u64() > Some(100) && value["cpu_ns"].as_u64() > Some(0),
            "{name}"
        );
    }
}

#[test]
fn what_was_not_recorded_is_refused() {
    for (path, says) in
        [("samples/hand/figure1.txt", "a workload, not a recording"), ("samples/rtapp/player.json", "rt-app")]
    {
        let output = schedlab(&["--quiet", "report", path]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(says), "{path}: {text}");
        assert_eq!(schedlab(&["--quiet", "fidelity", path]).status.code(), Some(2));
    }
    let two = ["--quiet", "fidelity", "samples/gzip", "samples/kv", "--against", "samples/kv"];
    assert_eq!(schedlab(&two).status.code(), Some(2));
}

/// Under a native scheduler, so that no kernel is needed: the figures add up and the page has its pictures.
#[test]
fn a_replay_is_laid_beside_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let [html, log] = ["f.html", "f.log"].map(|name| folder.path().join(name).display().to_string());
    let args = [
        "--quiet",
        "fidelity",
        "samples/hackbench",
        "--sched",
        "eevdf",
        "--no-causes",
        "--html",
        &html,
        "--log",
        &log,
    ];
    let value = json(&[&args[..], &["--json", "-"]].concat());
    assert!(value["skipped_blocks"].as_u64() > Some(1000), "hackbench's messages are not in recorded order");
    assert_eq!(value["gained_blocks"], 0);
    let quantities = value["quantities"].as_array().unwrap();
    let cpu = quantities.iter().find(|row| row["name"] == "cpu" && row["task"].is_null()).unwrap();
    let [recorded, replayed] = ["recorded", "replayed"].map(|side| cpu[side].as_f64().unwrap());
    assert!((recorded / replayed - 1.0).abs() < 0.01, "the same work: {recorded} {replayed}");
    let pairs = &value["wakeup_pairs"];
    assert!(pairs["in_order"].as_u64() <= pairs["pairs"].as_u64() && pairs["pairs"].as_u64() > Some(1000));
    assert!(fs::read_to_string(&html).unwrap().matches("<svg").count() >= 2);
    assert!(fs::read_to_string(&log).unwrap().contains("# sched \"eevdf\""));
    let two = ["--quiet", "fidelity", "samples/hackbench", "samples/kv", "--log", &log];
    assert_eq!(schedlab(&two).status.code(), Some(2), "one log is of one replay");
    let several =
        ["--quiet", "fidelity", "samples/hackbench", "samples/kv", "--sched", "eevdf", "--no-causes"];
    let text = String::from_utf8(schedlab(&several).stdout).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.contains("hackbench*") || line.contains("kv")).count(),
        2,
        "{text}"
    );
    assert!(root().join("docs/fidelity.md").exists());
}

/// What was recorded on one CPU is replayed on two, where the recorded masks bind it to one unless they are left out.
#[test]
fn a_program_bound_to_one_cpu_is_predicted_on_two() {
    let pipeline = ["samples/dependencies/pipeline-1cpu", "--against", "samples/dependencies/pipeline"];
    let args = ["--cpus", "2", "--sched", "eevdf", "--no-causes", "--json", "-"];
    let run_delay = |affinity: &str| {
        let options = ["--quiet", "fidelity", "--affinity", affinity];
        let value = json(&[&options[..], &pipeline, &args].concat());
        let quantities = value["quantities"].as_array().unwrap();
        let sum = quantities
            .iter()
            .find(|row| row["name"] == "run_delay" && row["statistic"] == "sum" && row["task"].is_null());
        let sum = sum.unwrap();
        sum["replayed"].as_f64().unwrap() / sum["recorded"].as_f64().unwrap()
    };
    let (bound, unbound) = (run_delay("recorded"), run_delay("none"));
    assert!(bound > 5.0, "one CPU's delays, beside two CPUs': {bound}");
    assert!((0.2..2.0).contains(&unbound), "{unbound}");
    let run =
        ["run", "samples/dependencies/pipeline-1cpu", "--sched", "fifo", "--cpus", "2", "--affinity", "none"];
    let text = String::from_utf8(schedlab(&run).stdout).unwrap();
    assert!(text.contains("5 sets of allowed CPUs are left out"), "{text}");
}

/// With channels blocks are gained as well as lost, and no CPU time is.
#[test]
fn channels_are_inferred_and_those_that_were_not_recorded_are_refused() {
    let args = ["--quiet", "fidelity", "samples/hackbench", "--sched", "eevdf", "--no-causes", "--json", "-"];
    let value = json(&[&args[..], &["--messages", "inferred"]].concat());
    assert!(value["gained_blocks"].as_u64() > Some(100), "{}", value["gained_blocks"]);
    assert!(value["messages"].as_str().unwrap().starts_with("inferred: "), "{}", value["messages"]);
    let quantities = value["quantities"].as_array().unwrap();
    let cpu = quantities.iter().find(|row| row["name"] == "cpu" && row["task"].is_null()).unwrap();
    let [recorded, replayed] = ["recorded", "replayed"].map(|side| cpu[side].as_f64().unwrap());
    assert!((recorded / replayed - 1.0).abs() < 0.01, "the same work: {recorded} {replayed}");
    for (input, choice, says) in [
        ("samples/hackbench", "recorded", "record --objects"),
        ("samples/hand/figure1.txt", "inferred", "needs the recording"),
        ("samples/hackbench", "some", "expected none, inferred or recorded"),
    ] {
        let output = schedlab(&["--quiet", "import", input, "--messages", choice]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(says), "{input} {choice}: {text}");
    }
}

/// Several threads wait at one condition, and a signal sleeps in the C library with the mutex: the replay comes to its
/// end under other orders, too, and still has the mutex and waits at it.
#[test]
fn a_queue_with_several_waiters_replays_to_its_end() {
    for sched in ["eevdf", "fifo"] {
        for cpus in ["1", "2", "4"] {
            let args =
                ["--quiet", "run", "samples/dependencies/queue", "--messages", "recorded", "--sched", sched];
            let output = schedlab(&[&args[..], &["--cpus", cpus]].concat());
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{sched} {cpus}: {text}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.txt").display().to_string();
    // the default, where a recording has locks
    let import = ["--quiet", "import", "samples/dependencies/queue", "-o", &file];
    assert!(schedlab(&import).status.success());
    let text = fs::read_to_string(&file).unwrap();
    assert!(schedlab(&[&import[..], &["--messages", "none"]].concat()).status.success());
    assert!(!fs::read_to_string(&file).unwrap().contains(" LOCK "));
    let locks = text.lines().filter(|line| line.contains(" LOCK ")).count();
    assert!(text.contains("1 of 3 mutex") && locks > 50, "{locks} of the mutex");
}

/// Writes a recording in which `a` computes for `first_us`, somebody who was left out has the CPU for `stranger_us`,
/// and `a` computes for `last_us`. Its path.
fn with_a_stranger(folder: &Path, [first_us, stranger_us, last_us]: [u64; 3]) -> String {
    let trace = folder.join("trace.txt");
    let switch = |(prev, state): (&str, &str), next: &str| {
        let side = |task: &str| task.rsplit_once('-').map(|(name, pid)| (name.to_string(), pid.to_string()));
        let ((prev, prev_pid), (next, next_pid)) = (side(prev).unwrap(), side(next).unwrap());
        format!(
            "sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> \
             next_comm={next} next_pid={next_pid} next_prio=120"
        )
    };
    let idle = "swapper/0-0";
    let away_us = 1000 + first_us;
    let back_us = away_us + stranger_us;
    let lines = [
        ("<idle>-0", 0, "stranger: busy=0".to_string()),
        ("<idle>-0", 1000, "sched_waking: comm=a pid=7 prio=120 target_cpu=000".to_string()),
        ("<idle>-0", 1000, switch((idle, "R"), "a-7")),
        ("a-7", away_us, switch(("a-7", "R"), idle)),
        ("<idle>-0", away_us, "stranger: busy=1".to_string()),
        ("<idle>-0", back_us, "stranger: busy=0".to_string()),
        ("<idle>-0", back_us, switch((idle, "R"), "a-7")),
        ("a-7", back_us + last_us, switch(("a-7", "S"), idle)),
    ];
    let mut text = String::from("# tracer: nop\n#\n");
    for (task, us, event) in lines {
        let (s, us) = (100 + us / 1_000_000, us % 1_000_000);
        text.push_str(&format!("{task:>16} [000] d... {s}.{us:06}: {event}\n"));
    }
    fs::write(&trace, text).unwrap();
    fs::write(folder.join("trace.proc.csv"), "pid,tid,comm,ppid\n7,7,a,6\n").unwrap();
    trace.to_str().unwrap().to_string()
}

// s     0      1              2              3
// cpu0  a|strangers ...                      |a 100 ms    the fair server would give `a` 50 ms of each of theirs
#[test]
fn a_stranger_keeps_the_cpu_however_long_others_wait() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = with_a_stranger(folder.path(), [5_000, 3_000_000, 100_000]);
    let value = json(&["--quiet", "fidelity", &path, "--sched", "linux-6.12", "--no-causes", "--json", "-"]);
    let duration = &value["quantities"][0];
    let ms = |side: &str| duration[side].as_u64().unwrap().div_ceil(1_000_000);
    assert_eq!((ms("recorded"), ms("replayed")), (3106, 3106));
}

#[test]
fn strangers_have_the_cpu_again_when_the_recording_says_that_they_had_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_a_stranger(folder.path(), [5_000, 10_000, 5_000]);
    let path = path.as_str();
    let report = json(&["--quiet", "report", path, "--json", "-"]);
    assert_eq!(report["kernel_threads"][0]["name"], "strangers/0");
    assert_eq!(
        report["idle_ns"], 1_000_000,
        "the recording is of some tasks, and still says when its CPU idled"
    );
    assert_eq!(report["recording"]["contended"], true);
    let shown = schedlab(&["--quiet", "report", path]).stdout;
    assert!(String::from_utf8_lossy(&shown).contains("strangers, not shown        10.0 ms CPU time"));
    for (more, says, replayed_ms) in [
        (&[][..], "had 47.6 % of the recorded CPUs' time, and have it again in the replay", 21),
        (&["--strangers", "none"], "had 47.6 % of the recorded CPUs' time, and are not in the replay", 11),
    ] {
        let args = ["--quiet", "fidelity", path, "--sched", "eevdf", "--no-causes", "--json", "-"];
        let value = json(&[&args[..], more].concat());
        assert_eq!(value["strangers"], says);
        let duration = &value["quantities"][0];
        let ms = |side: &str| duration[side].as_u64().unwrap().div_ceil(1_000_000);
        assert_eq!(
            (duration["name"].as_str(), ms("recorded"), ms("replayed")),
            (Some("duration"), 21, replayed_ms)
        );
    }
}

// us    100             5100  5130           50 sleeps of 5 ms by the CPU's own timer: the task waits 30 us for each
// cpu0  a|idle ...     timer|idle_resched|a
#[test]
fn an_idle_cpu_takes_time_from_its_own_timer_to_the_switch() {
    if !has_linux() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let sleeper = "schedlab-workload 1\n- INIT 0 0 1 runnable name=a\nREPEAT 50 {\n- BLOCK 1 100us\n\
                   - WAKEUP 1 5ms\n}\n- EXIT 1 10us\n";
    fs::write(at("w.txt"), sleeper).unwrap();
    let waited_ns = |cost: &str| {
        fs::write(at("c.toml"), cost).unwrap();
        let run = ["run", &at("w.txt"), "--sched", "linux-6.12", "--cpus", "2", "--costs", &at("c.toml")];
        json(&[&["--quiet"], &run[..], &["--json", "-"]].concat())["run_delay_ns"].as_u64()
    };
    assert_eq!(waited_ns("idle_resched = \"30us\"\n"), Some(50 * 30_000));
    assert_eq!(waited_ns("kick = \"30us\"\n"), Some(0));
}
