//! A real kernel boots, does its work, and does the same again to the byte.

use schedlab_instruments::{MoveKind, for_each_move, summarize};
use schedlab_log::{Kind, MemLog, note, write_text};
use schedlab_real::{Arm, GuestKernel, Options, RealError, workloads};
use schedlab_units::CpuId;
use schedlab_workload::{Workload, read_text};

/// The kernel, or `None` (said aloud) where guests cannot be had.
fn kernel() -> Option<GuestKernel> {
    match GuestKernel::find("6.12") {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// Boots afresh; `None` (said aloud) without QEMU.
fn boot(kernel: &GuestKernel, workload: &str, options: &Options) -> Option<MemLog> {
    perform(kernel, &workloads::named(workload, options.duration).expect("a known name"), options)
}

fn perform(kernel: &GuestKernel, workload: &Workload, options: &Options) -> Option<MemLog> {
    match Arm::Guest(kernel.clone()).perform(
        workload,
        &Options { fresh: true, ..options.clone() },
        &mut |_| {},
    ) {
        Ok(run) => Some(run.log),
        Err(RealError::Missing { what, remedy }) => {
            eprintln!("SKIPPED: {what}; {remedy}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn text(log: &MemLog) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_text(log, &mut bytes, std::path::Path::new("memory")).expect("memory takes everything");
    bytes
}

fn check_twice(workload: &str, options: &Options) {
    let Some(kernel) = kernel() else { return };
    let Some(first) = boot(&kernel, workload, options) else { return };
    let Some(second) = boot(&kernel, workload, options) else { return };
    assert!(first.records.len() > 100, "only {} records", first.records.len());
    assert!(text(&first) == text(&second), "two runs of the same differ");
    let elsewhere = Options { phase: "1ms".parse().expect("a time"), ..options.clone() };
    let other = boot(&kernel, workload, &elsewhere).expect("it booted before");
    assert!(text(&first) != text(&other), "another phase of the tick is another run");
}

/// Short, so that every change is tested by it: about 10 s of the host's time a boot.
#[test]
fn the_same_bytes_twice() {
    let options = Options { duration: "300ms".parse().expect("a time"), ..Options::default() };
    check_twice("sleepers", &options);
}

/// A task that executes a program each 5 ms, beside another on its CPU: the kernel moves it to the idle CPU at the
/// first, and it goes on with its steps there. (Each program's own start takes a guest some 2 ms.)
#[test]
fn a_task_that_executes_is_moved_and_goes_on() {
    let Some(kernel) = kernel() else { return };
    let options = Options { cpus: 2, duration: "300ms".parse().expect("a time"), ..Options::default() };
    let text = "schedlab-workload 5\n- INIT 0 0 1 runnable name=hog affinity=0\n- EXIT 1 10s\n\
        - INIT 0 0 2 runnable name=program affinity=0\n- PRIO 2 5ms affinity=0-1\n- EXEC 2 +5ms\n- EXEC 2 +5ms\n\
        - EXEC 2 +5ms\n- BLOCK 2 +5ms\n- WAKEUP 2 20ms\n- EXEC 2 5ms\n- EXIT 2 +5ms\n";
    let workload = read_text("programs.txt", text.as_bytes()).expect("a sound workload");
    let Some(log) = perform(&kernel, &workload, &options) else { return };
    let notes: Vec<u32> = log
        .records
        .iter()
        .filter(|r| r.kind() == Some(Kind::Note) && r.arg == note::EXEC)
        .map(|r| u32::from(r.cpu))
        .collect();
    assert_eq!(notes, [0, 1, 1, 1], "four programs, the first of them begun on CPU 0");
    let mut moves = Vec::new();
    for_each_move(&log, |one| moves.extend((one.kind == MoveKind::Exec).then_some((one.from, one.to))))
        .unwrap();
    assert_eq!(moves, [(CpuId(0), CpuId(1))]);
    let exits = log.records.iter().filter(|r| r.kind() == Some(Kind::Exit) && r.task().is_workload());
    assert_eq!(exits.map(|r| r.task().0).collect::<Vec<u32>>(), [1], "it went on to its end");
}

#[test]
#[ignore = "long: several minutes on a busy machine"]
fn the_same_bytes_twice_on_four_cpus() {
    let options = Options { cpus: 4, duration: "3s".parse().expect("a time"), ..Options::default() };
    check_twice("start:8,0,0,0", &options);
}

/// The virtual CPUs get fair turns: four endless tasks on two CPUs have half a CPU each, whose clock is the guest's.
#[test]
#[ignore = "long: boots two CPUs"]
fn cpus_are_worth_the_same() {
    let Some(kernel) = kernel() else { return };
    let options = Options { cpus: 2, duration: "2s".parse().expect("a time"), ..Options::default() };
    let Some(log) = boot(&kernel, "hogs:0,0,0,0", &options) else { return };
    let summary = summarize(&log).expect("a sound log");
    summary.check_time().expect("no time is lost");
    for task in &summary.tasks {
        let share = task.cpu_ns as f64 / 1e9;
        assert!((share - 1.0).abs() < 0.02, "{share} s of 1 s");
    }
}

/// A recording of a guest begins at time 0, knows the tasks' settings, and is one that an import takes.
#[test]
fn a_run_is_written_as_a_recording() {
    use schedlab_workload::derive::{DeriveOptions, import_trace};
    let folder = tempfile::tempdir().expect("a folder for a while");
    let path = folder.path().join("hogs.dat");
    let duration = "300ms".parse().expect("a time");
    let options = Options { duration, recording: Some(path.clone()), ..Options::default() };
    let Some(kernel) = kernel() else { return };
    let Some(log) = boot(&kernel, "hogs:0,5", &options) else { return };
    let derived = import_trace(&path, schedlab_trace::Mode::Strict, DeriveOptions::default(), |_| {});
    let derived = derived.expect("what was recorded can be imported");
    let length_ns = derived.summary.duration_ns;
    assert!(
        length_ns.abs_diff(log.header.duration.as_ns()) < 10_000_000,
        "{length_ns} ns, nothing of the boot"
    );
    let hogs: Vec<_> = derived.workload.tasks.iter().filter(|task| task.name.starts_with("hog")).collect();
    let nices = hogs.iter().map(|task| task.params.expect("the table has it").nice.get());
    assert_eq!((nices.collect::<Vec<_>>(), hogs[0].pid), (vec![0, 5], 1000));
    let cpu_ns: u64 = hogs.iter().map(|task| task.cpu_demand().as_ns()).sum();
    assert!(cpu_ns > 290_000_000, "they had the CPU: {cpu_ns} ns");
}
