//! What is asked for makes no sense, or would be empty: refused with the value and what is expected, exit status 2.
//! An answer that comes of nothing looks like a good one.

mod common;

use common::fails;

fn refused(args: &[&str], words: &[&str]) {
    let (code, message) = fails(&[&["--quiet"], args].concat());
    assert_eq!(code, 2, "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?}: '{word}' is missing in: {message}");
    }
}

/// No schedule, no seed, no run at once, no tick: each of them once ended with status 0.
#[test]
fn numbers_that_make_an_answer_empty_are_refused() {
    let rt = "samples/hand/rt.txt";
    let target = "samples/race/lowest.c";
    refused(&["race", target, "--schedules", "0"], &["'0'", "--schedules"]);
    refused(&["race", "--scoreboard", "--seeds", "0"], &["'0'", "--seeds"]);
    for command in [
        &["run", rt, "--sched", "fifo", "--cpus", "1"][..],
        &["compare", rt, "--sched", "fifo", "--sched", "rr", "--cpus", "1"],
        &["harmony", "--sched", "fifo"],
        &["race", target],
        &["hourglass", "study"],
    ] {
        refused(&[command, &["--jobs", "0"]].concat(), &["'0' is no number of runs at once", "1 to 4096"]);
    }
    for command in [&["run", rt, "--cpus", "1"][..], &["harmony"], &["fidelity", "samples/gzip"]] {
        let all = [command, &["--sched", "fifo", "--hz", "0"]].concat();
        refused(&all, &["'0' is no number of ticks per second"]);
    }
    refused(&["harmony", "--toys", "99999999999"], &["99999999999", "--toys"]);
}

#[test]
fn a_target_that_is_no_source_is_refused_before_it_is_compiled() {
    refused(&["race", "samples/hand/rt.txt"], &["there is no target 'samples/hand/rt.txt'", "a C file"]);
}

/// A load that never ran is another experiment than the one that was asked for.
#[test]
fn a_command_beside_that_cannot_run_is_refused() {
    refused(
        &["hourglass", "-d", "200ms", "--beside", "/proc/nowhere"],
        &["'/proc/nowhere'", "cannot run it"],
    );
}

/// Help has what errors point to.
#[test]
fn the_help_of_hourglass_lists_its_options() {
    for args in
        [&["hourglass", "--help"][..], &["hourglass", "check", "--help"], &["hourglass", "whatif", "-h"]]
    {
        let output = common::schedlab(args);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(text.contains("-w MODEL") && text.contains("--beside CMD"), "{args:?}: {text}");
    }
}
