//! Does every command of docs/tutorial.md do what the page says?
//!
//! A block ` ```console ` holds commands behind `$ ` and lines of their output; `...` stands for lines left
//! out, so the others must come in this order. `status=1` behind the word is the exit status of its commands.
//! ` ```file NAME ` is a file that the reader writes.

mod common;

use common::{has_linux, root};
use std::path::Path;
use std::process::Command;

/// The next line of the output that is `line`, from `from` on: where the one behind it begins.
fn find(output: &[&str], from: usize, line: &str) -> Option<usize> {
    let same = |shown: &&str| shown.split_whitespace().eq(line.split_whitespace());
    output[from..].iter().position(same).map(|at| from + at + 1)
}

/// Runs one command in `dir`; its output must have the lines of `shown`, in order.
fn check(dir: &Path, command: &str, status: i32, shown: &[&str]) {
    let words = shlex::split(command).expect("the command has no open quote");
    assert_eq!(words[0], "schedlab", "{command}");
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(&words[1..])
        .current_dir(dir)
        .env("SCHEDLAB_LINUX_DIR", root().join("linux"))
        .env("COLUMNS", "120")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{command}\n{text}{errors}");
    let (lines, mut from, mut open): (Vec<&str>, _, _) = (text.lines().collect(), 0, true);
    for line in shown {
        if *line == "..." {
            open = true;
            continue;
        }
        let next = find(&lines, from, line);
        let next = next
            .unwrap_or_else(|| panic!("{command}\nhas no line (behind the one before)\n{line}\nbut\n{text}"));
        assert!(open || next == from + 1, "{command}\nother lines stand before\n{line}\n{text}");
        (from, open) = (next, false);
    }
}

#[test]
fn the_tutorial_is_true() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("samples"), dir.path().join("samples")).unwrap();
    let page = std::fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let (mut lines, mut commands) = (page.lines(), 0);
    while let Some(line) = lines.next() {
        let Some(head) = line.strip_prefix("```").filter(|head| !head.is_empty()) else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(name) = head.strip_prefix("file ") {
            std::fs::write(dir.path().join(name), body.join("\n") + "\n").unwrap();
        } else if let Some(options) = head.strip_prefix("console") {
            let status = options.trim().strip_prefix("status=").map_or(0, |status| status.parse().unwrap());
            let starts: Vec<usize> = (0..body.len()).filter(|at| body[*at].starts_with("$ ")).collect();
            for (nth, start) in starts.iter().enumerate() {
                let end = starts.get(nth + 1).copied().unwrap_or(body.len());
                check(dir.path(), &body[*start][2..], status, &body[start + 1..end]);
                commands += 1;
            }
        } else {
            assert_eq!(head, "sh", "a block of another kind is not run: {line}");
        }
    }
    assert!(commands >= 14, "{commands} commands");
}
