//! `schedlab hourglass`: safe however it ends, of use without rights, and right where the truth is known.

mod common;

use common::{fails, has_linux, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Processes whose command line has this word.
fn with_word(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // a dead process that nobody has waited for has no command line
        if line.contains(word) {
            found.push(line);
        }
    }
    found
}

/// Kills a run at one moment after the other; nothing of it may be left.
fn nothing_is_left(times: u64) {
    let folder = tempfile::tempdir().unwrap();
    for time in 0..times {
        // a number that no other process has on its command line
        let odd = format!("{}.{time:04}", 7000 + std::process::id());
        let beside = format!("sleep {odd} & sleep {odd}");
        let files = ["a.log", "a.html", "a.json"].map(|name| folder.path().join(name));
        let [log, html, json] = files.each_ref().map(|path| path.to_str().unwrap());
        let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .args(["--quiet", "hourglass", "-d", "150ms", "-n", "3", "--beside", &beside])
            .args(["--log", log, "--html", html, "--json", json])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // spread over the run's length, without a pattern
        let at_us = (time * 2_654_435_761) % 900_000;
        std::thread::sleep(Duration::from_micros(at_us));
        child.kill().unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !with_word(&odd).is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(with_word(&odd), Vec::<String>::new(), "killed after {at_us} us");
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let path = entry.path();
            assert!(files.contains(&path), "killed after {at_us} us: {} is left", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            let is_whole = match path.extension().unwrap().to_str() {
                Some("html") => text.trim_end().ends_with("</html>"),
                Some("json") => serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                _ => schedlab_log::open(&path).is_ok(),
            };
            assert!(is_whole, "killed after {at_us} us: {} is half a file", path.display());
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn a_killed_run_leaves_nothing() {
    nothing_is_left(6);
}

#[test]
#[ignore = "long: a hundred runs are killed"]
fn a_run_killed_at_a_hundred_moments_leaves_nothing() {
    nothing_is_left(100);
}

#[test]
fn real_time_threads_may_not_have_every_cpu() {
    let cpus = std::thread::available_parallelism().unwrap().get().to_string();
    let (code, said) = fails(&["hourglass", "-d", "100ms", "-n", &cpus, "-p", "FIFO", "10", "-w", "CPU"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--all-cpus"), "{said}");
}

/// As the user nobody: a map with causes, and a sentence for each right that is missing.
#[test]
fn a_user_without_rights_gets_a_map() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !is_root {
        eprintln!("SKIPPED: only root can become nobody; every other test here runs without rights then");
        return;
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .arg(env!("CARGO_BIN_EXE_schedlab"))
        .args([
            "--quiet",
            "hourglass",
            "-d",
            "300ms",
            "-w",
            "PERIODIC",
            "1ms",
            "10ms",
            "-p",
            "RTHIGH",
            "-i",
            "RTC",
        ])
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("RTHIGH") || said.contains("was refused"), "{said}");
    assert!(said.contains("deadlines missed") && said.contains("cause of a gap"), "{said}");
}

/// Time by cause in ns, of a run whose tables are JSON.
fn by_cause(found: &serde_json::Value, cause: &str) -> u64 {
    let tables = found["tables"].as_array().unwrap();
    let causes = tables.iter().find(|table| table["name"] == "causes").unwrap();
    let rows = causes["rows"].as_array().unwrap().iter().filter(|row| row["cause"] == cause);
    rows.map(|row| row["sum_ns"].as_u64().unwrap()).sum()
}

/// A group with cpu.max, in the first version of groups or the second; gone with its value.
struct Group(std::path::PathBuf);

impl Group {
    /// 8 ms of every 40 ms; `None` if groups cannot be made here.
    fn throttled() -> Option<Group> {
        let name = format!("schedlab-test-{}", std::process::id());
        for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"] {
            let group = Group(std::path::Path::new(root).join(&name));
            let set = |file: &str, value: &str| std::fs::write(group.0.join(file), value).is_ok();
            let first = || set("cpu.cfs_period_us", "40000") && set("cpu.cfs_quota_us", "8000");
            if std::fs::create_dir(&group.0).is_ok() && (first() || set("cpu.max", "8000 40000")) {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).ok();
    }
}

/// In a group with cpu.max most of the time is said to be its; beside a busy neighbour none of it.
#[test]
fn a_throttled_group_and_a_busy_neighbour_have_different_causes() {
    let Some(group) = Group::throttled() else {
        eprintln!("SKIPPED: no group with cpu.max can be made here");
        return;
    };
    let run = ["--quiet", "hourglass", "-d", "1s", "-a", "0", "-w", "CPU", "--json", "-"];
    let throttled = json(&[&run[..], &["-c", group.0.to_str().unwrap()]].concat());
    assert!(by_cause(&throttled, "cpu.max") > 500_000_000, "{throttled}");
    let neighbour = "exec taskset -c 0 sh -c 'while :; do :; done'";
    let beside = json(&[&run[..], &["--beside", neighbour]].concat());
    assert!(by_cause(&beside, "switched out") > 250_000_000, "{beside}");
    assert_eq!(by_cause(&beside, "cpu.max"), 0, "{beside}");
}

#[test]
fn an_rt_app_description_runs_as_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(
        &path,
        r#"{ "global": { "duration": 1 }, "tasks": { "camera": { "loop": 20, "run": 1000,
             "timer": { "ref": "tick", "period": 10000 } } } }"#,
    )
    .unwrap();
    let found =
        json(&["--quiet", "hourglass", "-d", "300ms", "--rt-app", path.to_str().unwrap(), "--json", "-"]);
    let text = found.to_string();
    assert!(text.contains("SCRIPT camera"), "{text}");
}

/// A few cases under real Linux; `cargo test -p schedlab-hourglass` asks native schedulers.
#[test]
fn a_study_asks_real_linux() {
    if !has_linux() {
        return;
    }
    let found =
        json(&["--quiet", "hourglass", "study", "--runs", "6", "--sched", "linux-6.12", "--json", "-"]);
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    let tick = rows.iter().find(|row| row.to_string().contains("tick_ns")).unwrap().to_string();
    assert!(!tick.contains("null"), "{tick}");
}

#[test]
fn what_if_says_what_it_needs() {
    let (code, said) = fails(&["hourglass", "whatif", "-d", "100ms", "-w", "CPU"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("deadlines"), "{said}");
    let (code, said) = fails(&["hourglass", "whatif", "--compute", "lots", "-d", "100ms"]);
    assert!(code == 2 && said.contains("per cent"), "{said}");
}
