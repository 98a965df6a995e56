//! The program as scripts use it.
#![allow(dead_code)] // each test file uses its part

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `schedlab ARGS` in the project's folder.
pub fn schedlab(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab")).args(args).current_dir(root()).output();
    output.expect("the program starts")
}

/// The project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/cli lies two folders down")
        .to_path_buf()
}

/// Standard output of a command that must succeed, as JSON.
pub fn json(args: &[&str]) -> Value {
    let output = schedlab(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {errors}"))
}

/// Exit status and standard error.
pub fn fails(args: &[&str]) -> (i32, String) {
    let output = schedlab(args);
    let code = output.status.code().expect("the program ends by itself");
    (code, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Whether real Linux is built; `make test` sees to it before it runs the tests.
pub fn has_linux() -> bool {
    let listed = schedlab(&["linux", "list"]);
    let there = String::from_utf8_lossy(&listed.stdout).contains("linux-6.12");
    if !there {
        eprintln!("SKIPPED: Linux 6.12 is not built; `make test` builds it (or: schedlab linux add 6.12)");
    }
    there
}

/// A number of the JSON.
pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} is a number"))
}

/// A tree with a kernel/ and a Makefile of its own; the rest is the packaged source's.
pub fn kernel_tree(dir: &Path, source: &Path) {
    for entry in std::fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        let to = dir.join(entry.file_name());
        match entry.file_name().to_str() {
            Some("kernel" | "Makefile") => {
                let status = Command::new("cp").arg("-r").arg(entry.path()).arg(&to).status().unwrap();
                assert!(status.success());
            }
            _ => std::os::unix::fs::symlink(entry.path(), &to).unwrap(),
        }
    }
}
