//! Every command of docs/run-your-scx-scheduler.md does what the page says.

use std::path::Path;
use std::process::Command;

#[test]
fn the_guides_commands_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/run-your-scx-scheduler.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(root.join("linux/scx/tests/semantics.bpf.c"), dir.path().join("my.bpf.c")).unwrap();
    let mut seen = 0;
    for line in page.lines().filter_map(|line| line.strip_prefix("    schedlab ")) {
        let args: Vec<&str> = line.split_whitespace().collect();
        let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .arg("--quiet")
            .args(&args)
            .current_dir(dir.path())
            .env("SCHEDLAB_LINUX_DIR", root.join("linux"))
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // a stall is the scheduler's misbehaviour, a difference a finding
        let expected = match args[0] {
            "diff" => 1,
            _ if line.contains("stall_user_nth") => 3,
            _ => 0,
        };
        assert_eq!(output.status.code(), Some(expected), "schedlab {line}\n{out}{err}");
        match expected {
            3 => assert!(err.contains("runnable task stall") && err.contains("CPU states"), "{line}: {err}"),
            _ if line.contains("fifo_sched=true") => assert!(out.contains("fifo_sched=1"), "{line}: {out}"),
            _ if args[0] == "run" => assert!(out.contains("the loaded scheduler"), "{line}: {out}"),
            _ => {}
        }
        seen += 1;
    }
    assert!(seen >= 9, "{seen} commands");
}
