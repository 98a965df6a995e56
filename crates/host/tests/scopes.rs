//! Whose events are recorded, from when and until when: processes with their families, control groups,
//! signals, durations.
//!
//! These tests need root and tracefs (one: a control group of its own); without them they say so and pass.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use common::{tracefs_or_skip, wait_until};
use schedlab_host::{
    EventChoice, GroupTable, Others, RecordEnd, RecordOptions, RecordRequest, RecordedTrace, Scope, Snapshot,
    Stage,
};
use schedlab_trace::{Context, Mode, Pid, SchedEvent, TraceFile, Vector};

/// Recordings in this process share its signal handlers: one at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn lock() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn shell(script: &str, duration: Option<Duration>) -> RecordRequest {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    RecordRequest::Command { argv, duration, scope: Scope::Whole }
}

fn record(options: &RecordOptions) -> RecordedTrace {
    schedlab_host::record(options, &mut |_| {}).expect("recorded")
}

/// Ends with the test, however that ends.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn background(script: &str) -> Background {
    Background(Command::new("sh").args(["-c", script]).spawn().expect("sh"))
}

/// Tasks that were switched to.
fn ran(path: &Path) -> BTreeSet<i32> {
    let file = TraceFile::open(path, Mode::Strict).expect("own file");
    let mut events = file.events().expect("sched events");
    let mut ran = BTreeSet::new();
    while let Some(event) = events.next_event().expect("readable") {
        if let SchedEvent::Switch { next, .. } = event.what {
            ran.insert(next.pid.0);
        }
    }
    ran
}

#[test]
fn a_command_outlives_its_recording_and_its_status_comes_back() {
    if tracefs_or_skip("a_command_outlives_its_recording").is_none() {
        return;
    }
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let mark = folder.path().join("mark");
    // the command goes on until a signal, or for 20 s
    let go = folder.path().join("go");
    let script = format!(
        "for i in $(seq 400); do [ -e {} ] && break; sleep 0.05; done; touch {}; exit 7",
        go.display(),
        mark.display()
    );
    let what = shell(&script, Some(Duration::from_millis(200)));
    let mut there_when_written = None;
    let recorded =
        schedlab_host::record(&RecordOptions::new(folder.path().join("t.dat"), what), &mut |stage| {
            if stage == Stage::CommandGoesOn {
                there_when_written = Some((mark.exists(), folder.path().join("t.dat").exists()));
                std::fs::write(&go, "").expect("a mark");
            }
        })
        .expect("recorded");
    assert_eq!((recorded.ended, recorded.status()), (RecordEnd::Duration, 7));
    assert_eq!(there_when_written, Some((false, true)), "the file was written while the command ran");
    assert!(recorded.duration < Duration::from_millis(500), "{:?}", recorded.duration);
    assert!(mark.exists());
}

#[test]
fn signals_begin_and_end_a_recording() {
    if tracefs_or_skip("signals_begin_and_end_a_recording").is_none() {
        return;
    }
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let us = std::process::id();
    // The command tells the recorder itself: what lies between the two signals is recorded.
    let script = format!(
        "sh -c 'exit 0'; sleep 0.2; kill -USR1 {us}; sleep 0.3; sh -c 'exec true; : inside'; sleep 0.1; kill -USR2 \
            {us}; sleep 0.3"
    );
    let mut options = RecordOptions::new(folder.path().join("t.dat"), shell(&script, None));
    (options.start_on, options.stop_on) = (Some(libc::SIGUSR1), Some(libc::SIGUSR2));
    let recorded = record(&options);
    assert_eq!((recorded.ended, recorded.status()), (RecordEnd::Signal(libc::SIGUSR2), 0));
    let seconds = recorded.duration.as_secs_f64();
    assert!((0.3..0.9).contains(&seconds), "from one signal to the other: {seconds}");
    // The command's process was there when the recording began, some of its children had come and gone.
    let snapshot = Snapshot::read(&recorded.snapshot).expect("snapshot");
    let root = recorded.command_pid.expect("a command");
    assert!(snapshot.rows.iter().any(|row| row.tid == root));

    // A recording that never begins is an error, and leaves nothing.
    let mut never = RecordOptions::new(folder.path().join("u.dat"), shell("exit 0", None));
    never.start_on = Some(libc::SIGUSR1);
    let error = schedlab_host::record(&never, &mut |_| {}).expect_err("no signal");
    assert!(error.to_string().contains("had not come when what was to be recorded has ended"), "{error}");
    assert!(!folder.path().join("u.dat").exists());
}

#[test]
fn a_process_is_recorded_with_the_processes_below_it() {
    if tracefs_or_skip("a_process_is_recorded_with_the_processes_below_it").is_none() {
        return;
    }
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    // A family from before the recording, and a stranger beside it.
    let nap = "for i in $(seq 3000); do sleep 0.02; done";
    let mark = |name: &str| folder.path().join(name);
    // each says which process it is
    let begin = |name: &str| format!("sh -c 'echo $PPID > {}'; {nap}", mark(name).display());
    let family = background(&format!("(({}) & {}) & {}", begin("1"), begin("2"), begin("3")));
    let stranger = background(&begin("4"));
    let said = |name: &str| -> Option<i32> { std::fs::read_to_string(mark(name)).ok()?.trim().parse().ok() };
    wait_until("the family and the stranger", || {
        ["1", "2", "3", "4"].iter().all(|name| said(name).is_some())
    });
    let shells: Vec<i32> = ["1", "2", "3"].iter().filter_map(|name| said(name)).collect();
    let pids = vec![family.0.id() as i32];
    let what =
        RecordRequest::Processes { pids, duration: Some(Duration::from_millis(400)), scope: Scope::Whole };
    let mut options = RecordOptions::new(&output, what);
    options.anonymise = Some(Others::Drop);
    record(&options);
    let (ran, snapshot) =
        (ran(&output), Snapshot::read(&output.with_extension("proc.csv")).expect("snapshot"));
    let there = |tid: &i32| snapshot.rows.iter().any(|row| row.tid == *tid && row.comm == "sh");
    assert!(shells.iter().all(there), "the process, its child and its grandchild: {:?}", snapshot.rows);
    assert!(shells.iter().all(|tid| ran.contains(tid)), "{shells:?} in {ran:?}");
    assert!(!ran.contains(&(stranger.0.id() as i32)));
    // Family is over: what is left of it goes with the group of processes.
    let _ = Command::new("sh").args(["-c", &format!("kill {}", shells.map_to_text())]).status();
}

trait MapToText {
    fn map_to_text(&self) -> String;
}

impl MapToText for Vec<i32> {
    fn map_to_text(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// A control group that this test may use, gone when dropped; and a path to it in its hierarchy.
struct Group {
    folder: PathBuf,
    path: String,
    v1: bool,
}

impl Group {
    fn make(test: &str) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let of = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                (words[2] == kind && (option.is_empty() || words[3].split(',').any(|o| o == option)))
                    .then(|| PathBuf::from(words[1]))
            })
        };
        let (v1, v2) = (of("cgroup", "cpu"), of("cgroup2", ""));
        let path = format!("/schedlab-test-{}/inner", std::process::id());
        let (root, v1) = match (v1, v2) {
            (Some(root), _) => (root, true),
            (None, Some(root)) => (root, false),
            _ => {
                eprintln!("SKIPPED {test}: no control groups");
                return None;
            }
        };
        let group = Group { folder: root.join(&path[1..]), path, v1 };
        let outer = group.folder.parent()?.to_owned();
        let mut made = std::fs::create_dir_all(&outer);
        if !v1 {
            let _ = std::fs::write(root.join("cgroup.subtree_control"), "+cpu");
            made = made.and_then(|()| std::fs::write(outer.join("cgroup.subtree_control"), "+cpu"));
        }
        if let Err(error) = made.and_then(|()| std::fs::create_dir_all(&group.folder)) {
            eprintln!("SKIPPED {test}: no control group of its own ({error})");
            let _ = std::fs::remove_dir(&outer);
            return None;
        }
        Some(group)
    }

    fn set(&self, outer: bool, weight: u32, quota_us: u32) {
        let folder = if outer { self.folder.parent().expect("two levels") } else { &self.folder };
        let put = |file: &str, value: String| {
            std::fs::write(folder.join(file), value).unwrap_or_else(|e| panic!("{file}: {e}"));
        };
        if self.v1 {
            put("cpu.shares", (weight * 1024 / 100).to_string());
            put("cpu.cfs_quota_us", quota_us.to_string());
        } else {
            put("cpu.weight", weight.to_string());
            put("cpu.max", format!("{quota_us} 100000"));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The tasks in it have ended; the kernel may take a moment to notice.
        for folder in [Some(self.folder.as_path()), self.folder.parent()].into_iter().flatten() {
            for _ in 0..50 {
                if std::fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_control_group_is_recorded_with_what_is_moved_to_it_and_with_its_settings() {
    const TEST: &str = "a_control_group_is_recorded";
    if tracefs_or_skip(TEST).is_none() {
        return;
    }
    let _lock = lock();
    let Some(group) = Group::make(TEST) else { return };
    group.set(true, 50, 80_000);
    group.set(false, 200, 30_000);
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let procs = group.folder.join("cgroup.procs");
    let nap = "for i in $(seq 3000); do sleep 0.02; done";
    let member = background(&format!("echo $$ > {}; {nap}", procs.display()));
    let stranger = background(nap);
    wait_until("the member to be in its group", || {
        std::fs::read_to_string(&procs).is_ok_and(|pids| !pids.is_empty())
    });
    // Comes to the group while it is recorded, and tells the recorder when it is there.
    let go = folder.path().join("go");
    let late = background(&format!(
        "until [ -e {} ]; do sleep 0.02; done; echo $$ > {}; sleep 0.5; kill -USR2 {}; {nap}",
        go.display(),
        procs.display(),
        std::process::id()
    ));
    let what =
        RecordRequest::Cgroups { paths: vec![group.path.clone()], duration: Some(Duration::from_secs(20)) };
    let mut options = RecordOptions::new(&output, what);
    options.anonymise = Some(Others::Drop);
    options.stop_on = Some(libc::SIGUSR2);
    options.progress_every = Some(Duration::from_millis(20));
    let recorded = schedlab_host::record(&options, &mut |stage| {
        if matches!(stage, Stage::Recording { .. }) {
            std::fs::write(&go, "").expect("a mark");
        }
    })
    .expect("recorded");
    assert_eq!(recorded.ended, RecordEnd::Signal(libc::SIGUSR2));
    let ran = ran(&output);
    let pid = |process: &Background| process.0.id() as i32;
    assert!(ran.contains(&pid(&member)) && ran.contains(&pid(&late)), "{ran:?}");
    assert!(!ran.contains(&pid(&stranger)));

    // Names of groups are gone, what lies in what and what they allow are not.
    let table = GroupTable::path_beside(&output);
    let csv = std::fs::read_to_string(&table).expect("there are groups");
    assert!(!csv.contains("schedlab-test"), "{csv}");
    let groups = GroupTable::from_csv(&csv, &table).expect("own table");
    let rows: Vec<_> =
        groups.rows.iter().map(|(path, g)| (path.as_str(), g.weight, g.max.as_deref())).collect();
    let [(outer, Some(50), Some("80000 100000")), (inner, Some(200), Some("30000 100000"))] = rows.as_slice()
    else {
        panic!("{rows:?}");
    };
    assert!(inner.starts_with(&format!("{outer}/")), "{rows:?}");
    let snapshot = Snapshot::read(&recorded.snapshot).expect("snapshot");
    let row = snapshot.rows.iter().find(|row| row.tid == pid(&member)).expect("it was there at the start");
    assert_eq!((row.cgroup.path.as_deref(), row.cgroup.weight), (Some(*inner), Some(200)));

    // The move is in the trace.
    let file = TraceFile::open(&output, Mode::Strict).expect("own file");
    let mut events = file.events().expect("sched events");
    let mut moves = Vec::new();
    while let Some(event) = events.next_event().expect("readable") {
        if let SchedEvent::CgroupAttach { pid, path, .. } = event.what {
            moves.push((pid, events.comm(path).to_owned()));
        }
    }
    assert_eq!(moves, [(Pid(pid(&late)), (*inner).to_owned())]);
    drop((member, stranger, late));
}

#[test]
fn interrupts_are_recorded_with_who_raised_softirqs() {
    if tracefs_or_skip("interrupts_are_recorded").is_none() {
        return;
    }
    let _lock = lock();
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("t.dat");
    let mut options =
        RecordOptions::new(&output, shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", None));
    options.events = EventChoice::default().with_interrupts();
    let recorded = record(&options);
    let file = TraceFile::open(&output, Mode::Strict).expect("own file");
    let mut events = file.events().expect("sched events");
    let (mut timer, mut raised, mut entered, mut depth_wrong) = (0, 0, 0, 0);
    let mut on_timer = std::collections::BTreeSet::new();
    while let Some(event) = events.next_event().expect("readable") {
        match event.what {
            SchedEvent::VectorEntry(Vector::LocalTimer) => {
                timer += 1;
                depth_wrong += u64::from(!on_timer.insert(event.cpu));
            }
            SchedEvent::VectorExit(Vector::LocalTimer) => {
                on_timer.remove(&event.cpu);
            }
            SchedEvent::SoftIrqRaise { .. } => raised += u64::from(event.context == Context::HardIrq),
            SchedEvent::SoftIrqEntry { .. } => entered += 1,
            _ => {}
        }
    }
    if recorded.events.missing.is_empty() {
        assert!(timer > 10, "a busy CPU has a tick: {timer}");
        assert_eq!(depth_wrong, 0, "the timer's interrupt does not interrupt itself");
    }
    assert!(raised > 0 && entered > 0, "{raised} {entered}");
}
