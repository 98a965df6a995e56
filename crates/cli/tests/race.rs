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

/// A file of one's own in a folder.
fn own(dir: &Path, name: &str, hook: &str) -> String {
    let scenario = "cpus 2\\ncpu0 preempt 1\\ncpu1 preempt 2\\n";
    let text = format!(
        "#include <schedlab_race.h>\n{hook}\nRACE_TARGET(.name = \"{name}\", .preempt = preempt, \
         .scenario = \"{scenario}\");\n"
    );
    let path = dir.join(format!("{name}.c"));
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Of the explorer each is a finding, status 1: a crash, a deadlock, a loop without end, an exit, what a check says.
/// What ends the explorer's own process is none: nothing is known of the target then.
#[test]
fn every_finding_ends_with_1_and_only_a_lost_explorer_with_3() {
    const HEAD: &str = "static long preempt(int cpu, long key) { (void)cpu, (void)key;";
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let explored = |name: &str, hook: &str| {
        let path = own(dir.path(), name, hook);
        let words = ["race", &path, "--schedules", "200", "--jobs", "1", "--output", out.to_str().unwrap()];
        (schedlab(&words), path)
    };
    for (name, before, body, text) in [
        ("crash", "", "*(volatile long *)8 = key; return 0; }", "crash: a bad pointer"),
        ("deadlock", "static unsigned int lock;", "race_lock(&lock); return 0; }", "deadlock: cpu"),
        ("livelock", "static volatile long x;", "while (!x) ; return 0; }", "livelock: no end"),
        ("fail", "static long x;", "x = key; if (x != key) race_fail(\"another\"); return 0; }", "another"),
    ] {
        ends(&explored(name, &format!("{before}\n{HEAD} {body}")).0, 1, text);
    }
    let (ended, path) = explored("leaves", &format!("void _exit(int);\n{HEAD} _exit(0); }}"));
    ends(&ended, 1, "crash: the target ends its process: _exit()");
    // exit_group() itself is nobody's function
    let (lost, _) = explored("goes", &format!("long syscall(long, ...);\n{HEAD} return syscall(231, 0); }}"));
    ends(&lost, 3, "the process that runs the target was lost: it ended with status 0");
    ends(&schedlab(&["race", &path, "--stress", "2", "--cycles", "200"]), 3, "before its threads were done");
}

/// A file that keeps what it knows from schedule to schedule has findings that no schedule shows alone: the remedy is
/// said, by the search or by the replay.
#[test]
fn what_is_not_set_anew_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let race = |name: &str, fails: &str| {
        let hook = format!(
            "static int times RACE_PRIVATE;\nstatic long preempt(int cpu, long key) {{ (void)cpu, (void)key; \
             if ({fails}) race_fail(\"kept\"); return 0; }}"
        );
        let path = own(dir.path(), name, &hook);
        let out = dir.path().join(name);
        schedlab(&["race", &path, "--schedules", "200", "--jobs", "1", "--output", out.to_str().unwrap()])
    };
    ends(&race("later", "times++ >= 50"), 2, "is to be set anew in start()");
    // the second call shows it; after the first schedule one call does
    ends(&race("second", "times++ >= 1"), 1, "shrunk to 1 call");
    let file = dir.path().join("second-1.race");
    ends(&schedlab(&["race", "--replay", file.to_str().unwrap()]), 2, "set it anew in start()");
}

/// A version whose file has not the function that the target calls: said with file, version and function.
#[test]
fn a_function_that_the_version_lacks_is_named() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("renamed.patch");
    let patch = "Subject: [PATCH] sched: another name\n\n---\n--- a/kernel/sched/cpudeadline.c\n\
                 +++ b/kernel/sched/cpudeadline.c\n@@ -1,1 +1,1 @@\n\
                 -void cpudl_clear(struct cpudl *cp, int cpu, bool online)\n\
                 +void cpudl_forget(struct cpudl *cp, int cpu, bool online)\n-- \n2.40.0\n";
    std::fs::write(&file, patch).unwrap();
    let name = file.to_str().unwrap();
    let lacks = "kernel/sched/cpudeadline.c of Linux 6.12";
    for words in [&["--jobs", "1"][..], &["--stress", "2"]] {
        let ended = schedlab(&[&["race", "cpudl", "--kernel", "6.12", "--seeded", name], words].concat());
        ends(&ended, 2, lacks);
        ends(&ended, 2, "has no cpudl_clear(), which the target cpudl calls; take a kernel that has it");
    }
}

/// Cycles are refused where the kernel does not trust the TSC: place, value, expectation, remedy.
#[test]
fn an_unstable_tsc_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let command = command.args(words).current_dir(root()).env("SCHEDLAB_CLOCKSOURCE", dir.path());
        command.output().expect("the program starts")
    };
    let refused = |words: &[&str], file: &str, value: &str| {
        let place = dir.path().join(file);
        let ended = ask(words);
        ends(&ended, 2, &format!("{}: '{value}'", place.display()));
        ends(&ended, 2, "expected tsc");
        ends(&ended, 2, "measure on a machine with an invariant TSC");
    };
    std::fs::write(dir.path().join("available_clocksource"), "hpet acpi_pm \n").unwrap();
    std::fs::write(dir.path().join("current_clocksource"), "hpet\n").unwrap();
    if std::thread::available_parallelism().map_or(1, usize::from) > 1 {
        let words =
            ["race", "samples/race/lowest.c", "-D", "MENDED", "--cost", "--cpus", "2", "--cycles", "100"];
        refused(&words, "available_clocksource", "hpet acpi_pm");
    }
    refused(&["race", "cpudl", "--cost", "--in-kernel"], "current_clocksource", "hpet");
    let own = ask(&["race", "samples/race/lowest.c", "--cost", "--in-kernel"]);
    ends(&own, 2, "--in-kernel measures what the running kernel has: cpupri and cpudl");
}
