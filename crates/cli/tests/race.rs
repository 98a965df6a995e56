//! A schedule's file: shown, a test, a litmus test, under gdb; and what is said of bad ones.

mod common;
use common::{has_linux, root, schedlab};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The worked example, with a finding of it.
struct Found {
    dir: tempfile::TempDir,
    source: PathBuf,
    file: PathBuf,
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ends(output: &Output, status: i32, text: &str) {
    let words = words(output);
    assert_eq!(output.status.code(), Some(status), "{words}");
    assert!(words.contains(text), "'{text}' is not in: {words}");
}

fn found() -> Found {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("lowest.c");
    std::fs::copy(root().join("samples/race/lowest.c"), &source).unwrap();
    let base = dir.path().join("lowest");
    let explored = schedlab(&[
        "race",
        source.to_str().unwrap(),
        "--schedules",
        "3000",
        "--jobs",
        "1",
        "--output",
        base.to_str().unwrap(),
    ]);
    ends(&explored, 1, "find() returns none, and a CPU was lower during the whole call");
    Found { file: dir.path().join("lowest-1.race"), source, dir }
}

fn replay(found: &Found, more: &[&str]) -> Output {
    schedlab(&[&["race", "--replay", found.file.to_str().unwrap()], more].concat())
}

#[test]
fn a_schedule_is_shown_and_is_a_test_as_it_stands() {
    let found = found();
    let shown = replay(&found, &[]);
    ends(&shown, 1, "lowest.c:");
    ends(&shown, 1, "goes on: this decides");
    ends(&replay(&found, &["--expect", "finding"]), 0, "as expected");
    ends(&replay(&found, &["--expect", "none"]), 1, "expected nothing");
    // mended: another object, whose points stand elsewhere
    let text = std::fs::read_to_string(&found.source).unwrap();
    std::fs::write(&found.source, format!("#define MENDED\n{text}")).unwrap();
    ends(&replay(&found, &[]), 2, "has other points");
    ends(&replay(&found, &["--expect", "none", "--schedules", "3000"]), 0, "nothing, as expected");
    ends(&replay(&found, &["--expect", "finding", "--schedules", "3000"]), 1, "nothing, expected 'find()");
    // an edit that does not mend it
    std::fs::write(&found.source, format!("{text}\nint unused;\n")).unwrap();
    ends(&replay(&found, &["--expect", "none", "--schedules", "3000"]), 1, "expected nothing");
}

#[test]
fn without_herd7_a_litmus_test_is_written_and_the_remedy_said() {
    let found = found();
    // what compiles is there, and nothing to download with
    let bin = found.dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for tool in ["gcc", "as", "ld", "addr2line"] {
        let path = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|dir| dir.join(tool))
            .find(|path| path.is_file())
            .unwrap_or_else(|| panic!("there is no {tool}"));
        std::os::unix::fs::symlink(path, bin.join(tool)).unwrap();
    }
    let out = found.dir.path().join("lowest.litmus");
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["race", "--replay", found.file.to_str().unwrap(), "--litmus", out.to_str().unwrap()])
        .env("PATH", &bin)
        .env("SCHEDLAB_CACHE", found.dir.path().join("cache"))
        .current_dir(root())
        .output()
        .unwrap();
    ends(
        &output,
        2,
        "there is no herd7: there is no apt-get; install Debian's package herdtools7, 7.58 or newer",
    );
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("C lowest\n") && text.contains("exists ("), "{text}");
}

#[test]
fn gdb_stands_at_a_schedules_choices_on_the_cpus_own_stack() {
    if !Path::new("/usr/bin/gdb").is_file() {
        eprintln!("SKIPPED: there is no gdb");
        return;
    }
    let found = found();
    // gdb and a process that wait for each other would wait for ever
    let output = Command::new("timeout")
        .args(["--kill-after=5", "300", env!("CARGO_BIN_EXE_schedlab"), "race", "--replay"])
        .arg(&found.file)
        .args(["--debug", "--batch", "--gdb", "bt 3", "--gdb", "schedlab-point", "--gdb", "schedlab-where"])
        .current_dir(root())
        .output()
        .unwrap();
    let words = words(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("stands before its point"), "{words}");
    assert!(words.contains("lowest.c:"), "{words}");
    assert!(words.matches("schedlab: cpu").count() >= 2, "{words}");
}

/// The upstream fix of cpupri's empty mask as a patch: taken back, its bug is found; put in once more, it does not fit.
#[test]
fn a_patch_is_taken_back_and_its_bug_is_found() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mask.patch");
    let patch = "Subject: [PATCH] sched: ask the mask again\n\n---\n--- a/kernel/sched/cpupri.c\n\
                 +++ b/kernel/sched/cpupri.c\n@@ -108,6 +108,8 @@\n \t\t * condition, simply act as though we never \
                 hit this\n \t\t * priority level and continue on.\n \t\t */\n+\t\tif \
                 (cpumask_empty(lowest_mask))\n+\t\t\treturn 0;\n \t}\n \n \treturn 1;\n-- \n2.40.0\n";
    std::fs::write(&file, patch).unwrap();
    let name = file.to_str().unwrap();
    let out = dir.path().join("mask");
    let race = |target: &str, seeded: &str| {
        let words =
            ["race", target, "--kernel", "6.12", "--schedules", "5000", "--jobs", "1", "--seeded", seeded];
        schedlab(&[&words[..], &["--output", out.to_str().unwrap()]].concat())
    };
    let back = format!("reverse:{name}");
    ends(&race("cpupri", &back), 1, "mask");
    // what was found knows the patch
    let schedule = dir.path().join("mask-1.race");
    ends(&schedlab(&["race", "--replay", schedule.to_str().unwrap()]), 1, "cpupri.c:");
    ends(&race("cpupri", name), 2, "is there 0 times in this version, expected once");
    ends(&race("cpudl", &back), 2, "take the target cpupri");
    ends(&race("cpupri", "missing.patch"), 2, "cannot read missing.patch");
    let unheard = schedlab(&["race", "cpupri", "--from", "samples/hand/pipe.txt"]);
    ends(&unheard, 2, "add --stress or --cost");
    std::fs::write(&file, "no patch\n").unwrap();
    ends(&race("cpupri", name), 2, "expected a unified diff");
}
