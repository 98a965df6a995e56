//! Control groups that real Linux refuses to make: the run ends and says which, why, and what to do.

use schedlab_linux::build::{self, BuildOptions};
use schedlab_runner::{ExitKind, LinuxObject, RunEnd, RunRequest, Scheduler, run};
use schedlab_topology::Topology;
use schedlab_workload::Workload;

/// How a run ends whose one task is in the last of these groups.
fn end(groups: &[&str]) -> RunEnd {
    let kernel = build::add("6.12", &BuildOptions::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let scheduler = Scheduler::Linux(LinuxObject::of(&kernel));
    let declared: String = groups.iter().map(|group| format!("CGROUP {group} weight=200\n")).collect();
    let last = groups.last().unwrap();
    let text = format!(
        "schedlab-workload 1\n{declared}- INIT 0 0 1 runnable name=member cgroup={last}\n- EXIT 1 10ms\n"
    );
    let workload: Workload = schedlab_workload::text::parse_text("test", text.as_bytes()).unwrap();
    run(&RunRequest::new(&workload, &scheduler, Topology::flat(2).unwrap())).unwrap().report.end
}

fn refusal(groups: &[&str]) -> String {
    match end(groups) {
        RunEnd::Misbehaved { report } if report.kind == ExitKind::Refused => report.reason,
        other => panic!("{groups:?}: {other:?}"),
    }
}

#[test]
fn groups_that_can_be_made_are_no_reason_to_end() {
    assert_eq!(end(&["/a", "/a/b", "/c", "/c/d", "/c/d/e", "/a/f"]), RunEnd::AllDone);
}

#[test]
fn a_path_that_is_too_long_ends_the_run() {
    let long = format!("/good/{}", "x".repeat(4096));
    assert_eq!(
        refusal(&["/good", &long, "/other"]),
        format!(
            "making the control group {long}: refused by the kernel (File name too long (os error 36)); a path has at \
             most 4,000 bytes and no line break: give the group another"
        )
    );
}

/// It is not taken for a group that is there already.
#[test]
fn a_name_that_is_a_file_ends_the_run() {
    assert_eq!(
        refusal(&["/cgroup.procs"]),
        "making the control group /cgroup.procs: refused by the kernel (File exists (os error 17)); the file system \
         of control groups has a file of that name: give the group another"
    );
}
