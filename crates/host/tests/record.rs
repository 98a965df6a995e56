//! Does the recorder record, count its losses, and clean up after itself on a real kernel?
//!
//! These tests need root and tracefs; without them they say so and pass.

mod common;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{example, has_trace_cmd, instances_of, record, tracefs_or_skip, wait_until};
use schedlab_host::tracefs::Tracefs;
use schedlab_host::{
    Backend, GroupTable, RecordEnd, RecordOptions, RecordRequest, RecordedTrace, Scope, Snapshot,
};
use schedlab_trace::{Mode, Pid, SchedEvent, TraceFile};

/// Recordings in this process share its signal handlers: one at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn lock() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn shell(script: &str) -> RecordRequest {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    RecordRequest::Command { argv, duration: None, scope: Scope::Whole }
}

fn send(child: &Child, signal: i32) {
    // SAFETY: the child is ours and not yet reaped.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Both ways; on a kernel that takes no programs the second is ftrace again.
const WAYS: [Backend; 2] = [Backend::Ftrace, Backend::Auto];

#[test]
fn a_command_is_recorded_from_birth_to_death() {
    let Some(tracefs) = tracefs_or_skip("a_command_is_recorded_from_birth_to_death") else { return };
    let _lock = lock();
    WAYS.into_iter().for_each(|way| from_birth_to_death(&tracefs, way));
}

fn from_birth_to_death(tracefs: &Tracefs, way: Backend) {
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    // Three naps and a child: at least four blocks, one fork, one exec of the child.
    let what = shell("sleep 0.05; sleep 0.05; sleep 0.05; exit 7");
    let options = RecordOptions { backend: way, ..RecordOptions::new(&output, what) };
    let recorded = schedlab_host::record(&options, &mut |_| {}).expect("recorded");
    assert_eq!((recorded.status(), recorded.ended, recorded.nr_lost()), (7, RecordEnd::TargetEnded, 0));
    assert!(recorded.events.missing.is_empty(), "{:?}", recorded.events.missing);
    assert!(instances_of(tracefs, std::process::id()).is_empty());
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("folder").collect();
    let groups = usize::from(GroupTable::path_beside(&output).exists());
    assert_eq!(left.len(), 2 + groups, "only the trace, its snapshot and perhaps its groups: {left:?}");

    // The shell was held at its gate when the snapshot was taken, under its own name.
    let root = recorded.command_pid.expect("a command ran");
    let snapshot = Snapshot::read(&recorded.snapshot).expect("snapshot");
    let row = snapshot.rows.iter().find(|row| row.tid == root).expect("the command is in the snapshot");
    assert_eq!((row.comm.as_str(), row.ppid), ("sh", Some(std::process::id() as i32)));

    let file = TraceFile::open(&output, Mode::Strict).expect("own file");
    assert_eq!(file.buffers()[0].clock.trim_matches(['[', ']']), "mono");
    let mut events = file.events().expect("sched events");
    let (mut forks, mut exits, mut last_switch_out) = (0, Vec::new(), BTreeMap::new());
    let mut kernel_events = 0;
    while let Some(event) = events.next_event().expect("readable") {
        kernel_events += 1;
        match event.what {
            SchedEvent::Fork { parent, .. } if parent == Pid(root) => forks += 1,
            SchedEvent::Exit { pid, .. } => exits.push(pid),
            SchedEvent::Switch { prev, .. } => {
                last_switch_out.insert(prev.pid, event.time_ns);
            }
            SchedEvent::Lost { .. } => kernel_events -= 1,
            _ => {}
        }
    }
    assert!(forks >= 3, "three naps are three processes, {forks} forks");
    assert!(exits.contains(&Pid(root)), "the command's end is in it");
    assert!(last_switch_out.contains_key(&Pid(root)), "and its last switch");
    assert_eq!(kernel_events, recorded.nr_events(), "the file has the events that the kernel counted");
}

#[test]
fn trace_cmd_reads_what_was_written_and_counts_the_same() {
    const TEST: &str = "trace_cmd_reads_what_was_written_and_counts_the_same";
    if tracefs_or_skip(TEST).is_none() || !has_trace_cmd(TEST) {
        return;
    }
    let _lock = lock();
    WAYS.into_iter().for_each(trace_cmd_counts_the_same);
}

fn trace_cmd_counts_the_same(way: Backend) {
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let mut options =
        RecordOptions::new(&output, RecordRequest::System { duration: Some(Duration::from_millis(700)) });
    options.backend = way;
    options.events.irq = true;
    options.events.softirq = true;
    options.events.stat_runtime = true;
    let recorded = schedlab_host::record(&options, &mut |_| {}).expect("recorded");
    assert_eq!(recorded.ended, RecordEnd::Duration);
    let report = Command::new("trace-cmd").arg("report").arg("-i").arg(&output).output().expect("trace-cmd");
    assert!(report.status.success());
    assert_eq!(String::from_utf8_lossy(&report.stderr), "", "no complaint");
    let text = String::from_utf8_lossy(&report.stdout);
    let lines = text.lines().filter(|line| !line.starts_with("cpus=") && !line.starts_with("CPU ")).count();
    assert_eq!(lines as u64, recorded.nr_events(), "events in the report and in the kernel's count");
}

#[test]
fn a_tiny_buffer_loses_events_and_says_how_many() {
    if tracefs_or_skip("a_tiny_buffer_loses_events_and_says_how_many").is_none() {
        return;
    }
    let _lock = lock();
    WAYS.into_iter().for_each(losses_are_counted);
}

/// Makes the calling thread SCHED_FIFO.
fn become_fifo() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` outlives the call; 0 is the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// A recording of 300 ms whose tiny buffer overflows while it goes on, so that a page after the gap tells of it.
fn record_with_losses(output: &Path, way: Backend) -> RecordedTrace {
    // In 50 ms of every 150 ms two FIFO threads per CPU yield to each other as fast as they can: that fills
    // two pages in some 50 us, and nothing else runs meanwhile, the drain least of all. (They are FIFO from
    // the start. Whoever became so first would keep the others from it, and a thread alone on its CPU yields
    // to nobody.)
    const EVERY: Duration = Duration::from_millis(150);
    const BURST: Duration = Duration::from_millis(50);
    let mut options =
        RecordOptions::new(output, RecordRequest::System { duration: Some(Duration::from_millis(300)) });
    options.backend = way;
    options.buffer_kb = 8;
    options.buffer_percent = 100;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                become_fifo();
                let mut burst = begin;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    burst += EVERY;
                    std::thread::sleep(burst.saturating_duration_since(Instant::now()));
                    while burst.elapsed() < BURST {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let recorded = schedlab_host::record(&options, &mut |_| {});
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        recorded
    })
    .expect("recorded")
}

fn losses_are_counted(way: Backend) {
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let nr_events = |recorded: &RecordedTrace| recorded.cpus.iter().map(|cpu| cpu.pages.events).sum::<u64>();
    let recorded = record_with_losses(&output, way);
    assert!(nr_events(&recorded) > 0, "a buffer of 8 KiB cannot hold 50 ms of yielding: {recorded}");
    let (in_pages, all) = (nr_events(&recorded), recorded.nr_lost());
    assert!(in_pages <= all, "the page heads say {in_pages}, the kernel {all}");
    // Where they are missing is known: within the recording, one place after the other on each CPU.
    let gaps = recorded.gaps();
    assert_eq!(gaps.len() as u64, recorded.cpus.iter().map(|cpu| cpu.pages.gaps).sum::<u64>());
    let end_ns = recorded.start_ns + recorded.duration.as_nanos() as u64 + 1_000_000_000;
    for gap in &gaps {
        let from_ns = gap.from_ns.unwrap_or(recorded.start_ns);
        assert!(recorded.start_ns <= from_ns && from_ns <= gap.until_ns && gap.until_ns < end_ns, "{gap:?}");
    }
    // The reader, which looks at the pages by itself, finds the same number.
    let file = TraceFile::open(&output, Mode::Lenient).expect("own file");
    let mut events = file.events().expect("sched events");
    let (mut lost, mut unknown, mut seen) = (0, 0, 0);
    while let Some(event) = events.next_event().expect("readable") {
        match event.what {
            SchedEvent::Lost { count: Some(count) } => lost += count,
            SchedEvent::Lost { count: None } => unknown += 1,
            _ => seen += 1,
        }
    }
    let gaps: u64 = recorded.cpus.iter().map(|cpu| cpu.pages.gaps_of_unknown_size).sum();
    assert_eq!((lost, unknown), (in_pages, gaps));
    assert_eq!(seen, recorded.nr_events());
}

#[test]
fn a_tree_recording_holds_no_switch_between_strangers() {
    if tracefs_or_skip("a_tree_recording_holds_no_switch_between_strangers").is_none() {
        return;
    }
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let RecordRequest::Command { argv, .. } = shell("sleep 0.1; (sleep 0.1; true) & wait") else { return };
    let what = RecordRequest::Command { argv, duration: None, scope: Scope::Tree };
    let recorded = schedlab_host::record(&RecordOptions::new(&output, what), &mut |_| {}).expect("recorded");
    let mut tree = std::collections::BTreeSet::from([Pid(recorded.command_pid.expect("command"))]);
    let file = TraceFile::open(&output, Mode::Strict).expect("own file");
    let mut events = file.events().expect("sched events");
    let (mut switches, mut strangers) = (0, 0);
    while let Some(event) = events.next_event().expect("readable") {
        match event.what {
            SchedEvent::Fork { parent, child, .. } if tree.contains(&parent) => {
                tree.insert(child);
            }
            SchedEvent::Switch { prev, next, .. } => {
                switches += 1;
                strangers += u32::from(!tree.contains(&prev.pid) && !tree.contains(&next.pid));
            }
            _ => {}
        }
    }
    assert!(tree.len() >= 4, "sh, two sleeps and a subshell: {tree:?}");
    assert!(switches > 0);
    assert_eq!(strangers, 0);
}

#[test]
fn a_running_process_is_recorded_until_it_ends() {
    if tracefs_or_skip("a_running_process_is_recorded_until_it_ends").is_none() {
        return;
    }
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let mut child = Command::new("sh").args(["-c", "sleep 0.3; sleep 0.3"]).spawn().expect("sh");
    let what = RecordRequest::Processes { pids: vec![child.id() as i32], duration: None, scope: Scope::Tree };
    let recorded = schedlab_host::record(&RecordOptions::new(folder.path().join("t.dat"), what), &mut |_| {})
        .expect("ok");
    assert_eq!(recorded.ended, RecordEnd::TargetEnded);
    assert!(recorded.nr_events() > 0);
    child.wait().expect("its end");
    let gone = RecordRequest::Processes { pids: vec![child.id() as i32], duration: None, scope: Scope::Tree };
    let error = schedlab_host::record(&RecordOptions::new(folder.path().join("u.dat"), gone), &mut |_| {});
    assert!(error.expect_err("no such process").to_string().starts_with("there is no process"));
}

/// Starts the example recorder on a command that runs until a signal stops it, and waits until it records.
fn start_recorder(tracefs: &Tracefs, output: &Path, script: &str) -> Child {
    // whoever runs the tests in the background, or with nohup, has these ignored, and commands inherit that
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: the default action; no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let child = Command::new(example("record"))
        .arg("-o")
        .arg(output)
        .args(["--", "sh", "-c", script])
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the recorder starts");
    wait_until("the recording to begin", || output.with_extension("started").exists());
    assert_eq!(instances_of(tracefs, child.id()).len(), 1);
    child
}

#[test]
fn interrupted_recorders_leave_a_whole_file_and_no_instance() {
    let Some(tracefs) = tracefs_or_skip("interrupted_recorders_leave_a_whole_file_and_no_instance") else {
        return;
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let folder = tempfile::tempdir().expect("folder");
        let output = folder.path().join("t.dat");
        let script = format!("touch {}; exec sleep 100", output.with_extension("started").display());
        let mut child = start_recorder(&tracefs, &output, &script);
        // To the recorder alone, as `kill` does: it hands the signal on to the command.
        send(&child, signal);
        let status = child.wait().expect("its end");
        assert_eq!(status.code(), Some(128 + signal), "the command's status: it got the signal");
        assert!(instances_of(&tracefs, child.id()).is_empty());
        let file = TraceFile::open(&output, Mode::Strict).expect("a whole file");
        assert!(file.events().is_ok());
        assert!(Snapshot::path_beside(&output).exists());
    }
}

#[test]
fn ctrl_c_for_the_whole_group_reaches_the_command_and_the_file_is_whole() {
    let Some(tracefs) = tracefs_or_skip("ctrl_c_for_the_whole_group") else { return };
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let (started, signal) = (output.with_extension("started"), folder.path().join("told"));
    let script = format!(
        "trap 'echo INT >> {}; exit 3' INT; touch {}; while :; do sleep 0.05; done",
        signal.display(),
        started.display()
    );
    let mut child = start_recorder(&tracefs, &output, &script);
    // SAFETY: the group was made for this child.
    assert_eq!(unsafe { libc::kill(-(child.id() as i32), libc::SIGINT) }, 0);
    assert_eq!(child.wait().expect("its end").code(), Some(3));
    assert!(std::fs::read_to_string(signal).expect("the command saw a signal").starts_with("INT\n"));
    assert!(TraceFile::open(&output, Mode::Strict).is_ok());
    assert!(instances_of(&tracefs, child.id()).is_empty());
}

/// C10: a killed recorder leaves an instance of tracefs, until the next recording.
#[test]
fn what_a_killed_recorder_leaves_is_removed_by_the_next() {
    let Some(tracefs) = tracefs_or_skip("what_a_killed_recorder_leaves_is_removed_by_the_next") else {
        return;
    };
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let script = format!("touch {}; sleep 100", output.with_extension("started").display());
    let mut child = start_recorder(&tracefs, &output, &script);
    // SAFETY: the group was made for this child; the command must not outlive the test.
    assert_eq!(unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) }, 0);
    child.wait().expect("its end");
    assert_eq!(instances_of(&tracefs, child.id()).len(), 1, "nobody was left to remove it");
    let left: Vec<String> = std::fs::read_dir(folder.path())
        .expect("folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    assert_eq!(left, ["t.started"], "no half file");

    let _lock = lock();
    let what = RecordRequest::System { duration: Some(Duration::from_millis(50)) };
    let recorded = schedlab_host::record(&RecordOptions::new(&output, what), &mut |_| {}).expect("recorded");
    // Another recorder on this host may have been quicker to clean up; gone it must be.
    assert!(instances_of(&tracefs, child.id()).is_empty(), "removed: {:?}", recorded.removed_instances);
}

#[test]
fn a_command_that_does_not_exist_leaves_nothing() {
    if tracefs_or_skip("a_command_that_does_not_exist_leaves_nothing").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let out = record(&["-o", output.to_str().expect("utf-8"), "--", "/no/such/program"]);
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("/no/such/program") && said.contains("nothing was recorded"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 0);
}

#[test]
fn a_panic_removes_the_instance_too() {
    let Some(tracefs) = tracefs_or_skip("a_panic_removes_the_instance_too") else { return };
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let panicked = std::panic::catch_unwind(|| {
        let mut options = RecordOptions::new(&output, shell("sleep 0.2"));
        options.progress_every = Some(Duration::from_millis(20));
        let _ = schedlab_host::record(&options, &mut |_| panic!("on purpose"));
    });
    assert!(panicked.is_err());
    assert!(instances_of(&tracefs, std::process::id()).is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 0);
}

#[test]
fn without_tracefs_the_error_says_what_is_missing_and_what_works() {
    let folder = tempfile::tempdir().expect("folder");
    let _lock = lock();
    let mut options = RecordOptions::new(folder.path().join("t.dat"), shell("true"));
    options.tracefs = Some(folder.path().to_owned());
    let error = schedlab_host::record(&options, &mut |_| {}).expect_err("no tracefs there");
    assert!(error.is_unavailable());
    let said = error.to_string();
    for part in ["no tracefs", "mount -t tracefs", "CONFIG_EVENT_TRACING", "samples/"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn without_root_the_error_says_so() {
    // Another user than root, if we may become one; else we are one already.
    let folder = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .tempdir()
        .expect("folder");
    // The example may lie in a folder that the other user cannot enter.
    let program = folder.path().join("record");
    std::fs::copy(example("record"), &program).expect("copy");
    let mut command = Command::new(&program);
    command.args(["-t", "0.1", "-o"]).arg(folder.path().join("t.dat"));
    // SAFETY: a plain query.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65_534).gid(65_534);
    }
    let out = command.output().expect("the recorder runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("needs root") && said.contains("sudo") && said.contains("samples/"), "{said}");
}
