//! A process holds one kernel, once: a test's body runs in a child process (this test program, asked for this
//! one test). The kernel is built if it is not in the cache.

use std::path::PathBuf;
use std::process::Command;

use schedlab_linux::build::{self, BuildOptions};

const SERIES: &str = "6.12";

pub fn object() -> PathBuf {
    // to try a kernel that is not in the cache
    if let Some(object) = std::env::var_os("SCHEDLAB_TEST_OBJECT") {
        return object.into();
    }
    build::add(SERIES, &BuildOptions::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}")).object()
}

/// Run the test's body in a child process; returns what it printed in lines `result ...`.
pub fn in_child(test: &str, body: impl FnOnce(PathBuf)) -> Vec<String> {
    if std::env::var("SCHEDLAB_CHILD").as_deref() == Ok(test) {
        body(PathBuf::from(std::env::var("SCHEDLAB_OBJECT").unwrap()));
        return Vec::new();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("SCHEDLAB_CHILD", test)
        .env("SCHEDLAB_OBJECT", object())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|l| l.strip_prefix("result ")).map(str::to_owned).collect()
}
