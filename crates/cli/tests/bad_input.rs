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
    refused(
        &["run", workload, "--sched", "rr", "--cpus", "1", "--param", "slice=1ms"],
        &["slice", "quantum"],
    );
    refused(&["run", workload, "--sched", "fifo", "--cpus", "1", "--duration", "soon"], &["soon", "20s"]);
    refused(
        &["run", workload, "--sched", "fifo", "--cpus", "1", "--log", "/nowhere/x"],
        &["/nowhere/x", "folder"],
    );
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

/// Each names the path, what is expected there, and where to look.
#[test]
fn files_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not-there.x");
    let (missing, there) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
    let says = |expected: &'static str| [missing, "there is no such file", expected, there];
    refused(&["diff", missing, missing], &says("expected a schedule log"));
    refused(&["wasted", missing], &says("expected a schedule log"));
    refused(&["anonymise", missing, "-o", "x.dat"], &says("expected a trace.dat"));
    refused(&["report", missing], &says("expected a workload, a recording"));
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

/// Whether a terminal or a page would obey it: control characters but line feed and tab, and marks of direction.
fn obeyed(bytes: &[u8]) -> Option<char> {
    let text = String::from_utf8_lossy(bytes);
    text.chars().find(|c| c.is_control() && !"\n\t".contains(*c) || ('\u{202a}'..='\u{202e}').contains(c))
}

/// C7: what a file or the command line says is shown, not obeyed: in messages, on the terminal, on pages.
#[test]
fn foreign_text_is_shown_and_not_obeyed() {
    let escaped = "\\u001b]0;owned\\u0007\\u202e";
    let foreign = "\u{1b}]0;owned\u{7}\u{202e}";
    let checked = |args: &[&str], code: i32, word: &str| {
        let output = common::schedlab(args);
        let all = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&all).into_owned();
        assert_eq!((output.status.code(), obeyed(&all)), (Some(code), None), "{args:?}: {text}");
        assert!(text.contains(word), "{args:?}: '{word}' is missing in: {text}");
    };
    let bad = file(format!("schedlab-workload 1\n- INIT 0 0 1 runnable {foreign}\n").as_bytes());
    checked(&["run", bad.path().to_str().unwrap(), "--sched", "fifo", "--cpus", "1"], 2, "\\u{1b}]");
    checked(&["run", foreign, "--sched", "fifo", "--cpus", "1"], 2, escaped);
    checked(&["run", "samples/hand/rt.txt", "--sched", foreign, "--cpus", "1"], 2, escaped);
    checked(&["run", "samples/hand/rt.txt", "--sched", "fifo", "--cpus", foreign], 2, "\\u202e");
    // (clap itself takes whole commands to a terminal out of what it repeats)
    checked(&[foreign], 2, "\\u202e");
    // a task that calls itself so
    let named = "schedlab-workload 1\n- INIT 0 0 1 runnable name=\"\\x1b[2J\\u{202e}hog\"\n- EXIT 1 1s\n";
    let named = file(named.as_bytes());
    let (folder, name) = (tempfile::tempdir().unwrap(), named.path().to_str().unwrap());
    let page = folder.path().join("page.html");
    let run = ["run", name, "--sched", "fifo", "--cpus", "1", "--html", page.to_str().unwrap()];
    checked(&run, 0, "\\u001b[2J\\u20"); // cut at the column's width
    let page = std::fs::read(page).unwrap();
    assert_eq!(obeyed(&page), None);
    // in the page's data an escape of JSON would become the character again
    assert!(String::from_utf8(page).unwrap().contains("\\\\u001b[2J\\\\u202ehog"));
    checked(&["workload", "show", name], 0, "\\u001b[2J\\u202ehog");
    checked(&["run", name, "--sched", "fifo", "--cpus", "1", "--json", "-"], 0, "\\u001b[2J");
}

/// A tunable that the kernel does not have.
#[test]
fn a_tunable_that_linux_does_not_have() {
    if has_linux() {
        let args = [
            "run",
            "samples/hand/figure1.txt",
            "--sched",
            "linux-6.12",
            "--cpus",
            "1",
            "--param",
            "no_such=1",
        ];
        refused(&args, &["no_such"]);
    }
}

#[test]
fn mixes_and_settings_with_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let run = |path: &str, words: &[&str]| refused(&["run", path, "--sched", "fifo", "--cpus", "1"], words);
    let nice = write("nice.toml", "[[part]]\nworkload = \"w.txt\"\nnice = 21\n");
    run(&nice, &["nice.toml:3:8", "'21'", "3 | nice = 21", "  |        ^^"]);
    let gone = write("gone.toml", "[[part]]\nworkload = \"w.txt\"\n");
    run(&gone, &["gone.toml:2:13", "w.txt", "there is no such file", "^^^^^"]);
    // a mistake in what is named is called so, at the place that names it
    write("w.txt", "- INIT 0 0 1 runnable\n- BLOK 1 1ms\n");
    run(&gone, &["gone.toml:2:13", "w.txt:2:3", "BLOK"]);
    let circle = write("circle.toml", "[[part]]\nworkload = \"other.toml\"\n");
    write("other.toml", "[[part]]\nworkload = \"./circle.toml\"\n");
    run(&circle, &["circle.toml:2:13", "other.toml:2:13", "circle"]);
    let spec = write("spec.toml", "kind = \"hogs\"\nnice = [1]\n");
    run(&spec, &["spec.toml", "line 2", "unknown field `nice`"]);
    refused(&["generate", &spec], &["unknown field `nice`"]);
    refused(&["workload", "filter", "samples/hand/rt.txt", "-o", "/nowhere/x"], &["which tasks"]);
    refused(&["workload", "filter", "samples/hand/rt.txt", "--name", "nobody"], &["nothing is left"]);
    refused(
        &["workload", "cut", "samples/hand/rt.txt", "--from", "2s", "--to", "1s"],
        &["--to 1s is not after"],
    );
    refused(&["workload", "scale", "samples/hand/rt.txt", "--cpu", "fast"], &["'fast' is not a factor"]);
    refused(&["workload", "show", "samples/hand/rt.txt", "--pid", "77"], &["no task fits", "deadline"]);
    refused(&["workload", "convert", "samples/hand/rt.txt", "-o", "/nowhere/x.wlb"], &["/nowhere/x.wlb"]);
}
