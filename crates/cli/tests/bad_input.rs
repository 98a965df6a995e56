//! Bad input ends in a sentence that says what, where and what to do, with exit status 2.

mod common;

use common::{fails, has_linux, root};
use std::io::Write;

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    file
}

#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let (code, text) = fails(args);
    assert_eq!(code, 2, "{args:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{args:?}: '{word}' is missing in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn machines_that_cannot_be() {
    let workload = "samples/hand/figure1.txt";
    refused(&["run", workload, "--sched", "fifo", "--cpus", "0"], &["at least 1 CPU"]);
    refused(&["run", workload, "--sched", "fifo", "--cpus", "5000"], &["5000", "1024"]);
    refused(&["run", workload, "--sched", "fifo", "--cpus", "many"], &["many"]);
    refused(&["run", workload, "--sched", "fifo"], &["--cpus"]);
    refused(&["run", workload, "--sched", "nothing", "--cpus", "1"], &["nothing", "schedlab schedulers"]);
    refused(&["run", workload, "--sched", "rr", "--cpus", "1", "--param", "quantum=0"], &["quantum"]);
    refused(&["run", workload, "--sched", "rr", "--cpus", "1", "--param", "slice=1ms"], &["slice", "quantum"]);
    refused(&["run", workload, "--sched", "fifo", "--cpus", "1", "--duration", "soon"], &["soon", "20s"]);
    refused(&["run", workload, "--sched", "fifo", "--cpus", "1", "--log", "/nowhere/x"], &["/nowhere/x", "folder"]);
}

#[test]
fn files_that_are_no_workload() {
    refused(&["run", "not-there.txt", "--sched", "fifo", "--cpus", "1"], &["not-there.txt"]);
    let empty = file(b"");
    refused(&["run", empty.path().to_str().unwrap(), "--sched", "fifo", "--cpus", "1"], &["empty"]);
    let noise = file(b"\x00\x01\x02\x03 this is no workload");
    refused(&["import", noise.path().to_str().unwrap()], &[noise.path().to_str().unwrap()]);
    let version = file(b"schedlab-workload 99\n");
    refused(&["run", version.path().to_str().unwrap(), "--sched", "fifo", "--cpus", "1"], &["99"]);
    let missing = file(b"schedlab-workload 1\n1 INIT 0 0 7 runnable\n2 FORK 7 0 8\n3 EXIT 9 1ms\n");
    refused(&["run", missing.path().to_str().unwrap(), "--sched", "fifo", "--cpus", "1"], &["9"]);
    let folder = tempfile::tempdir().unwrap();
    refused(&["run", folder.path().to_str().unwrap(), "--sched", "fifo", "--cpus", "1"], &["folder"]);
}

#[test]
fn damaged_traces() {
    let whole = std::fs::read(root().join("samples/hackbench/trace.dat")).unwrap();
    for length in [0, 1, 9, 10, 100, 3000, whole.len() / 2, whole.len() - 1] {
        let cut = file(&whole[..length]);
        refused(&["import", cut.path().to_str().unwrap()], &[cut.path().to_str().unwrap()]);
    }
    let mut magic = whole.clone();
    magic[3] ^= 0x20;
    let magic = file(&magic);
    refused(&["import", magic.path().to_str().unwrap()], &[]);
    let mut version = whole.clone();
    let place = version.windows(2).position(|w| w == b"7\0").expect("the version is text");
    version[place] = b'9';
    let version = file(&version);
    refused(&["import", version.path().to_str().unwrap()], &["9"]);
}

/// A cyclic dependency is reported with who waits for whom, in simulated time, not as a hang.
#[test]
fn a_deadlock_names_its_tasks() {
    let words = ["deadlock", "waits for", "task"];
    refused(&["run", "samples/hand/deadlock.txt", "--sched", "fifo", "--cpus", "2"], &words);
    if has_linux() {
        refused(&["run", "samples/hand/deadlock.txt", "--sched", "linux-6.12", "--cpus", "2"], &words);
    }
}

/// A tunable that the kernel does not have.
#[test]
fn a_tunable_that_linux_does_not_have() {
    if has_linux() {
        let args = ["run", "samples/hand/figure1.txt", "--sched", "linux-6.12", "--cpus", "1", "--param", "no_such=1"];
        refused(&args, &["no_such"]);
    }
}
