//! Tools for workloads on the command line: what they print, and what they need.

mod common;

use common::{json, number, root, schedlab};
use std::path::Path;

fn run(args: &[&str]) -> (String, String) {
    let output = schedlab(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two million events take some 80 MB in memory; as a stream they must not take a third of that.
#[test]
fn memory_does_not_grow_with_the_events() {
    const LIMIT_MIB: u64 = 24;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let blocks: String = (1..=8)
        .map(|pid| format!("REPEAT 125000 {{\n- BLOCK {pid} 1ms\n- WAKEUP {pid} 2ms\n}}\n- EXIT {pid} 0\n"))
        .collect();
    std::fs::write(at("w.txt"), format!("schedlab-workload 1\n- INIT 0 0 1..8 runnable name=a\n{blocks}"))
        .unwrap();
    let (source, binary) = (at("w.txt"), at("w.wlb"));
    let memory = |said: &str| -> u64 {
        let words = said.split("at most ").nth(1).unwrap_or_else(|| panic!("no memory is stated: {said}"));
        words.split(' ').next().unwrap().parse().unwrap()
    };
    let (_, said) = run(&["workload", "convert", text(&source), "-o", text(&binary)]);
    assert!(said.contains("2,000,016 events"), "{said}");
    assert!(memory(&said) < LIMIT_MIB, "{said}");
    for (name, args) in [
        ("f.wlb", &["workload", "filter", text(&binary), "--pid", "1,2,3"][..]),
        ("c.wlb", &["workload", "cut", text(&binary), "--from", "10s", "--to", "20s"]),
        ("s.wlb", &["workload", "scale", text(&binary), "--cpu", "1/3"]),
        ("a.wlb", &["workload", "anonymise", text(&binary)]),
        ("b.txt", &["workload", "convert", text(&binary)]),
    ] {
        let (_, said) = run(&[args, &["-o", text(&at(name))]].concat());
        assert!(memory(&said) < LIMIT_MIB, "{name}: {said}");
    }
    // the windows 10 s to 20 s: ten turns of 3 ms, shared by eight tasks
    let cut = json(&["workload", "show", text(&at("c.wlb")), "--json"]);
    assert_eq!(number(&cut["events"], "block"), 8 * 3_334);
    // a text made of a binary file makes that file again
    run(&["workload", "convert", text(&at("b.txt")), "-o", text(&at("again.wlb"))]);
    assert!(std::fs::read(at("again.wlb")).unwrap() == std::fs::read(&binary).unwrap());
}

#[test]
fn a_task_is_shown_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("life.svg");
    let (shown, _) = run(&[
        "workload",
        "show",
        "samples/hand/figure1.txt",
        "--pid",
        "100",
        "--events",
        "9",
        "--svg",
        text(&svg),
    ]);
    // WARP's figure 1: 8 s of work, blocked until 20 s, 10 s of work, blocked until 50 s, 10 s of work
    for part in [
        "28.0 s of CPU time in 60.0 s of own time (46.7 %)",
        "8000.000000 ms  BLOCK    after 8.00 s of CPU time",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let picture = shown.lines().find(|line| line.contains('█')).unwrap().trim();
    assert_eq!(picture.chars().count(), 96);
    // 60 s in 96 columns of 0.625 s: 12.8 of work, blocked to column 32, work to 48, blocked to 80, work to the end
    let expected = format!(
        "{}▇{}{}{}{}",
        "█".repeat(12),
        "·".repeat(19),
        "█".repeat(16),
        "·".repeat(32),
        "█".repeat(16)
    );
    assert_eq!(picture, expected);
    let drawing = std::fs::read_to_string(svg).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n") && drawing.contains("figure-1"));
}

#[test]
fn mixes_go_wherever_a_workload_goes() {
    let mix = "samples/mix/desktop.toml";
    let summary = json(&["workload", "show", mix, "--json"]);
    let result = json(&["run", mix, "--sched", "rr", "--cpus", "4", "--json", "-"]);
    assert_eq!(number(&result, "duration_ns"), 40_000_000_000, "the mix's own duration");
    assert_eq!(result["tasks"].as_array().unwrap().len() as u64, number(&summary, "tasks"));
    let shorter = json(&["run", mix, "--sched", "rr", "--cpus", "4", "--duration", "2s", "--json", "-"]);
    assert_eq!(number(&shorter, "duration_ns"), 2_000_000_000);
    // several on the command line, and a generator's settings among them
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("hogs.toml");
    let (documented, _) = run(&["generate", "hogs", "--set", "cpu=1s", "--print-spec"]);
    std::fs::write(&spec, documented).unwrap();
    let both = json(&[
        "run",
        "samples/hand/pingpong.txt",
        text(&spec),
        "--together",
        "--sched",
        "fifo",
        "--cpus",
        "3",
        "--json",
        "-",
    ]);
    let names: Vec<&str> =
        both["tasks"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ping", "pong", "hog+0", "hog+0"]);
    assert_eq!(number(&both["tasks"][2], "cpu_ns"), 1_000_000_000);
    let imported = folder.path().join("mix.wlb");
    run(&["import", mix, "-o", text(&imported)]);
    assert_eq!(
        number(&json(&["workload", "show", text(&imported), "--json"]), "cpu_ns"),
        number(&summary, "cpu_ns")
    );
}

/// Repetitions follow each other without a gap on an idle machine, and copies begin as staggered.
#[test]
fn repetitions_and_copies_run_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let mix = folder.path().join("mix.toml");
    let sample = root().join("samples/hand/figure1.txt");
    let toml =
        format!("[[part]]\nworkload = \"{}\"\nrepeat = 3\ncopies = 2\nevery = \"7s\"\n", text(&sample));
    std::fs::write(&mix, toml).unwrap();
    let result = json(&["run", text(&mix), "--sched", "fifo", "--cpus", "4", "--json", "-"]);
    // figure 1's task lives for 60 s; the second copy begins 7 s later
    assert_eq!(number(&result, "duration_ns"), (3 * 60 + 7) * 1_000_000_000);
    let finished = result["tasks"].as_array().unwrap().iter().all(|task| task["finished"] == true);
    assert!(finished);
}
