//! Shared by the tests that record: where the example binaries are, and whether this host lets us.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use schedlab_host::tracefs::Tracefs;

/// The tracing interface, or `None` after saying aloud why the test is skipped.
pub fn tracefs_or_skip(test: &str) -> Option<Tracefs> {
    // Even root may be refused to make an instance (a locked-down kernel, a container). Tried once: other
    // tests of this process count its instances.
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let tried = || Tracefs::open().and_then(|tracefs| tracefs.make_instance().map(drop));
    match REFUSED.get_or_init(|| tried().err().map(|error| error.to_string())) {
        None => Tracefs::open().ok(),
        Some(why) => {
            eprintln!("SKIPPED {test}: {why}");
            None
        }
    }
}

/// An example of this package, which cargo builds with its tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("path of the test");
    let folder = test.parent().and_then(Path::parent).expect("target folder");
    let path = folder.join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo test builds it with this package's tests", path.display());
    path
}

/// Runs the example recorder.
pub fn record(arguments: &[&str]) -> Output {
    Command::new(example("record")).args(arguments).output().expect("the recorder runs")
}

/// Looks again and again; fails after 20 s.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited 20 s for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Instances of the recorder with this process id.
pub fn instances_of(tracefs: &Tracefs, pid: u32) -> Vec<String> {
    let prefix = format!("schedlab.{pid}.");
    let entries = std::fs::read_dir(tracefs.root().join("instances")).expect("instances");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// Is trace-cmd there? Says so if not.
pub fn has_trace_cmd(test: &str) -> bool {
    let there = Command::new("trace-cmd").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED part of {test}: trace-cmd is not installed");
    }
    there
}
