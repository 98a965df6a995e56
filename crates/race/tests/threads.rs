//! Threads of this machine use a structure: what is right stays right, what is broken is found, and calls are timed.

use schedlab_race::compile::own_program;
use schedlab_race::cost::Costs;
use schedlab_race::threads::{Load, stress};
use schedlab_race::{RaceError, compile::Compiled};
use schedlab_units::Span;
use std::path::PathBuf;

fn lowest(defines: &[&str]) -> Compiled {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/race/lowest.c"));
    let defines: Vec<String> = defines.iter().map(ToString::to_string).collect();
    own_program(&path, &defines, false).unwrap()
}

fn own(text: &str) -> Compiled {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.c");
    std::fs::write(&path, format!("#include <schedlab_race.h>\n{text}\n")).unwrap();
    own_program(&path, &[], false).unwrap()
}

fn load(threads: u32) -> Load {
    Load {
        threads,
        cpus: 2.min(std::thread::available_parallelism().map_or(1, |n| n.get() as u32)),
        cycles: 20_000,
        seed: 7,
        ..Load::default()
    }
}

#[test]
fn what_is_right_stays_right_and_streams_repeat() {
    let program = lowest(&["MENDED"]);
    for threads in [2, 5, 16] {
        let [first, again] = [0, 1].map(|_| stress(&program, &load(threads)).unwrap());
        assert_eq!(first.finding, None, "{threads} threads");
        // a cycle in five brings a task, whatever the others do
        let (expected, came) = (f64::from(threads) * 20_000.0 * 0.2, first.count("arrivals"));
        assert!(
            (came as f64 - expected).abs() < 5.0 * expected.sqrt(),
            "{came} arrivals, {expected} expected"
        );
        assert_eq!(came, again.count("arrivals"));
        assert!(first.count("checks") > 0 && first.count("calls_set") > 1000, "{:?}", first.counts);
        let other = stress(&program, &Load { seed: 8, ..load(threads) }).unwrap();
        assert_ne!(came, other.count("arrivals"), "another seed, another stream");
    }
}

/// A structure that forgets an end, one whose lock is never given back, and one that falls over its own pointer.
#[test]
fn what_stays_wrong_is_found() {
    let forgets = own("static long first[RACE_CPUS_MAX]; static int nr;\n\
         static int init(int cpus) { nr = cpus; for (int i = 0; i < cpus; i++) first[i] = -1; return 0; }\n\
         static long preempt(int cpu, long key) { first[cpu] = key; return 0; }\n\
         static long finish(int cpu, long key) { (void)cpu, (void)key; return 0; }\n\
         static void rest(void)\n\
         { for (int i = 0; i < nr; i++) if (first[i] != race_first(i)) race_fail(\"CPU %d\", i); }\n\
         RACE_TARGET(.name = \"forgets\", .init = init, .preempt = preempt, .finish = finish, .rest = rest);");
    let finding = stress(&forgets, &load(2)).unwrap().finding.unwrap();
    assert!(finding.starts_with("CPU "), "{finding}");
    let waits = own("static unsigned int lock;\n\
         static long preempt(int cpu, long key) { (void)cpu, (void)key; race_lock(&lock); return 0; }\n\
         RACE_TARGET(.name = \"waits\", .preempt = preempt);");
    let finding = stress(&waits, &Load { limit_s: 2, ..load(2) }).unwrap().finding.unwrap();
    assert!(finding.contains("CPUs wait for each other"), "{finding}");
    let falls =
        own("static long preempt(int cpu, long key) { (void)cpu; *(volatile long *)8 = key; return 0; }\n\
         RACE_TARGET(.name = \"falls\", .preempt = preempt);");
    let finding = stress(&falls, &load(2)).unwrap().finding.unwrap();
    assert!(finding.contains("signal 11"), "{finding}");
}

#[test]
fn a_target_without_hooks_is_refused() {
    let bare = own("RACE_TARGET(.name = \"bare\");");
    let refused = stress(&bare, &load(2));
    assert!(matches!(&refused, Err(RaceError::Refused(text)) if text.contains("preempt")), "{refused:?}");
}

#[test]
fn each_call_has_a_sample_and_arrow_holds_them() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: one CPU");
        return;
    }
    let costs = Costs::measure(&lowest(&["MENDED"]), &load(2), &|_| {}).unwrap();
    assert_eq!(costs.finding(), None);
    // two threads, 20,000 cycles each: a task comes in one of five, and is put into the queue once
    let cells = costs.cells();
    let calls = |operation: &str| {
        let row = cells.iter().find(|row| row[1] == operation).unwrap_or_else(|| panic!("{operation}"));
        row[2].as_u64().unwrap()
    };
    assert!((7_500..=8_500).contains(&calls("enqueue")), "{}", calls("enqueue"));
    assert!(["set", "find", "pull", "dequeue"].iter().all(|operation| calls(operation) > 100));
    let all: u64 = cells.iter().map(|row| row[2].as_u64().unwrap()).sum();
    for (threads, cycles) in costs.cycles("set") {
        assert_eq!((threads, cycles.len() as u64), (2, calls("set")));
        assert!(cycles.is_sorted());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.arrow");
    costs.write_arrow(&path).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows as u64, all);
}
