//! Faults of every kind inside real Linux: the run ends (or, for a WARN, goes on) with a report that names the place.
//!
//! The faults are put into a copy of the kernel object: the first bytes of `yield_task_fair()` become a bad
//! access, an endless loop, a call of a function that is a BUG, or a WARN. A task that yields after 3 ms runs
//! into them, so that function and time are known.

use schedlab_linux::build::{self, BuildOptions};
use schedlab_linux::symbols::Symbols;
use schedlab_log::{Log, RawLog};
use schedlab_runner::{LinuxObject, RunEnd, RunRequest, RunResult, Scheduler, run};
use schedlab_topology::Topology;
use schedlab_workload::Workload;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where an address of the file's symbol table lies in the file (ELF64 program headers).
fn file_offset(data: &[u8], address: u64) -> usize {
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(data[at..at + 2].try_into().unwrap()) as usize;
    let (table, entry, count) = (word(0x20) as usize, half(0x36), half(0x38));
    for header in (0..count).map(|i| table + i * entry) {
        let (kind, offset, start, size) =
            (data[header], word(header + 8), word(header + 16), word(header + 32));
        if kind == 1 && (start..start + size).contains(&address) {
            return (address - start + offset) as usize;
        }
    }
    panic!("{address:#x} is in no segment");
}

/// A copy of the kernel object whose `yield_task_fair()` begins with this code; `code` gets its address.
fn broken(dir: &Path, code: impl Fn(u64, &dyn Fn(&str) -> u64) -> Vec<u8>) -> Scheduler {
    let kernel = build::add("6.12", &BuildOptions::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let symbols = Symbols::read(&kernel.object()).unwrap();
    let address = |name: &str| symbols.address(name).unwrap_or_else(|| panic!("no function {name}"));
    let at = address("yield_task_fair");
    let mut data = std::fs::read(kernel.object()).unwrap();
    let from = file_offset(&data, at);
    let code = code(at, &address);
    data[from..from + code.len()].copy_from_slice(&code);
    let object: PathBuf = dir.join("linux.so");
    std::fs::write(&object, data).unwrap();
    Scheduler::Linux(LinuxObject { object, ..LinuxObject::of(&kernel) })
}

/// `call` or `jmp` to a function, from the instruction's end.
fn relative(op: u8, end: u64, target: u64) -> Vec<u8> {
    let mut code = vec![op];
    code.extend((target.wrapping_sub(end) as i32).to_le_bytes());
    code
}

fn replay(scheduler: &Scheduler) -> RunResult {
    let text = "schedlab-workload 1\n- INIT 0 0 1 runnable name=yields\n- INIT 0 0 2 runnable name=other\n\
                - YIELD 1 3ms\n- EXIT 1 1ms\n- EXIT 2 10ms\n";
    let workload: Workload = schedlab_workload::text::parse_text("test", text.as_bytes()).unwrap();
    let request = RunRequest {
        stall_limit: Duration::from_millis(1500),
        ..RunRequest::new(&workload, scheduler, Topology::flat(2).unwrap())
    };
    run(&request).unwrap()
}

/// Kind, reason and time of a run that must have ended badly; and how many of its last records are there.
fn bad_end(scheduler: &Scheduler) -> (String, String, u64, usize) {
    let result = replay(scheduler);
    let RunEnd::Misbehaved { report } = result.report.end else { panic!("{:?}", result.report.end) };
    let log = RawLog::salvage(result.spill, result.header).unwrap();
    let records = log.records().unwrap().count();
    (report.kind.to_string(), report.reason, report.time_ns, records)
}

/// All that was logged, as bytes.
fn log_of(scheduler: &Scheduler) -> Vec<u8> {
    let mut log = Vec::new();
    std::io::Read::read_to_end(&mut replay(scheduler).spill, &mut log).unwrap();
    log
}

/// Until it crashes, or hangs, it does what the whole kernel does, and all of that is in the log.
#[test]
fn the_log_is_kept_up_to_the_fault() {
    let dir = tempfile::tempdir().unwrap();
    let nop = broken(dir.path(), |_, _| vec![0xc3]);
    let whole = log_of(&nop);
    for code in [vec![0x48, 0x8b, 0x04, 0x25, 0x08, 0, 0, 0], vec![0xeb, 0xfe]] {
        let faulty = broken(dir.path(), |_, _| code.clone());
        let kept = log_of(&faulty);
        assert!(kept.len() > 32 && kept.len() < whole.len(), "{} of {} bytes", kept.len(), whole.len());
        assert!(whole.starts_with(&kept));
    }
}

#[test]
fn a_bad_pointer_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    // mov rax, [0x8]
    let scheduler = broken(dir.path(), |_, _| vec![0x48, 0x8b, 0x04, 0x25, 0x08, 0, 0, 0]);
    let (kind, reason, time_ns, records) = bad_end(&scheduler);
    assert_eq!((kind.as_str(), time_ns), ("crash", 3_000_000), "{reason}");
    assert!(reason.contains("SIGSEGV"), "{reason}");
    assert!(reason.contains("at address 0x8 (a NULL pointer) in yield_task_fair+0x0, on cpu"), "{reason}");
    assert!(reason.contains("\n    do_sched_yield+0x"), "{reason}");
    assert!(reason.contains("rsp 0000"), "{reason}");
    assert!(records > 0, "the last records are lost");
}

#[test]
fn a_jump_to_nowhere_is_reported_with_its_caller() {
    let dir = tempfile::tempdir().unwrap();
    // xor eax, eax; call rax
    let scheduler = broken(dir.path(), |_, _| vec![0x31, 0xc0, 0xff, 0xd0]);
    let (kind, reason, ..) = bad_end(&scheduler);
    assert_eq!(kind, "crash", "{reason}");
    assert!(reason.contains("after a jump to 0x0, on cpu"), "{reason}");
    assert!(reason.contains("\n    yield_task_fair+0x3\n"), "{reason}");
}

#[test]
fn an_endless_loop_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    // jmp to itself
    let scheduler = broken(dir.path(), |_, _| vec![0xeb, 0xfe]);
    let (kind, reason, time_ns, records) = bad_end(&scheduler);
    assert_eq!((kind.as_str(), time_ns), ("stall", 3_000_000), "{reason}");
    assert!(
        reason.contains("an endless loop inside the scheduler, in yield_task_fair+0x0, on cpu"),
        "{reason}"
    );
    assert!(reason.contains("\n    do_sched_yield+0x"), "{reason}");
    assert!(records > 0, "the last records are lost");
}

#[test]
fn a_bug_is_reported_in_the_kernels_words() {
    let dir = tempfile::tempdir().unwrap();
    // warp_no_ftrace() is BUG()
    let scheduler = broken(dir.path(), |at, address| relative(0xe9, at + 5, address("warp_no_ftrace")));
    let (kind, reason, time_ns, _) = bad_end(&scheduler);
    assert_eq!((kind.as_str(), time_ns), ("kernel panic", 3_000_000), "{reason}");
    assert!(reason.starts_with("BUG!"), "{reason}");
    assert!(reason.contains("BUG: failure at") && reason.contains("warp_no_ftrace"), "{reason}");
    assert!(reason.contains("do_sched_yield+0x"), "no stack: {reason}");
}

#[test]
fn a_warning_is_a_finding_with_its_stack_and_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let scheduler = broken(dir.path(), |at, address| {
        // warn_slowpath_fmt(NULL, 0, TAINT_WARN, NULL), on an aligned stack
        let mut code =
            vec![0x48, 0x83, 0xec, 0x08, 0x31, 0xff, 0x31, 0xf6, 0xba, 9, 0, 0, 0, 0x31, 0xc9, 0x31, 0xc0];
        code.extend(relative(0xe8, at + code.len() as u64 + 5, address("warn_slowpath_fmt")));
        code.extend([0x48, 0x83, 0xc4, 0x08, 0xc3]);
        code
    });
    let result = replay(&scheduler);
    assert_eq!(result.report.end, RunEnd::AllDone);
    let [warning] = &result.report.warnings[..] else { panic!("{:?}", result.report.warnings) };
    assert!(warning.starts_with("WARNING: CPU: "), "{warning}");
    assert!(warning.contains("yield_task_fair+0x") && warning.contains("do_sched_yield+0x"), "{warning}");
}
