//! Threads of this machine use a structure: what is right stays right, what is broken is found, and calls are timed.

use schedlab_race::compile::own_program;
use schedlab_race::cost::Costs;
use schedlab_race::stream::Stream;
use schedlab_race::threads::{Load, stress};
use schedlab_race::{RaceError, compile::Compiled};
use schedlab_units::Span;
use std::path::PathBuf;
use std::sync::Arc;

fn lowest(defines: &[&str]) -> Compiled {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/race/lowest.c"));
    let defines: Vec<String> = defines.iter().map(ToString::to_string).collect();
    own_program(&path, &defines, false).unwrap()
}

fn sample(name: &str) -> Compiled {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/race"));
    own_program(&folder.join(name), &[], false).unwrap()
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
    let half = own("static long put(int cpu, long key) { (void)cpu, (void)key; return 0; }\n\
         RACE_TARGET(.name = \"half\", .enqueue = put);");
    let refused = stress(&half, &load(2));
    assert!(
        matches!(&refused, Err(RaceError::Refused(text)) if text.contains("no dequeue()")),
        "{refused:?}"
    );
}

/// Structures for push and pull, and two ready queues, with fewer threads than CPUs, as many, and more.
#[test]
fn samples_are_right_below_at_and_above_the_number_of_cpus() {
    for name in ["heap.c", "skiplist.c", "combining.c", "push_pull.c", "queue_heap.c", "queue_rbtree.c"] {
        let program = sample(name);
        for threads in [1, 2, 9] {
            let stressed = stress(&program, &Load { cycles: 4000, ..load(threads) }).unwrap();
            assert_eq!(stressed.finding, None, "{name}, {threads} threads");
            let called = if name.starts_with("queue") { "calls_enqueue" } else { "calls_set" };
            assert!(stressed.count(called) > 500, "{name}: {:?}", stressed.counts);
            let pulls = stressed.count("calls_pull_find");
            assert_eq!(pulls > 0, name == "push_pull.c", "{name}: {pulls}");
        }
    }
}

/// What pull() knows, and what is in a ready queue, is compared with the queues.
#[test]
fn a_structure_for_pull_or_a_queue_that_forgets_is_found() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/race"));
    let broken = tempfile::tempdir().unwrap();
    for (name, old, new, text) in [
        ("push_pull.c", ".pull_finish = pull_preempt", ".pull_finish = forgets", "what pull() knows"),
        ("queue_rbtree.c", "t->first = next_of(t, gone);", "t->first = t->root;", "leftmost"),
        ("queue_heap.c", "if (at < last)", "if (0)", "in it"),
    ] {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            std::fs::copy(entry.path(), broken.path().join(entry.file_name())).unwrap();
        }
        let path = broken.path().join(name);
        let whole = std::fs::read_to_string(&path).unwrap();
        let forgets =
            "static long forgets(int cpu, long key) { (void)cpu, (void)key; return 0; }\nRACE_TARGET(";
        let edited = whole.replace(old, new).replace("RACE_TARGET(", forgets);
        assert_ne!(whole, edited);
        std::fs::write(&path, edited).unwrap();
        let program = own_program(&path, &[], false).unwrap();
        let finding = stress(&program, &Load { limit_s: 10, ..load(4) }).unwrap().finding;
        assert!(finding.as_ref().is_some_and(|found| found.contains(text)), "{name}: {finding:?}");
    }
}

/// Tasks come as the stream says, on each CPU its own, and again when it is over.
#[test]
fn tasks_come_as_a_stream_says() {
    let program = sample("heap.c");
    let stream = Stream::random_sets(4, (0.6, 3), Span::from_ms(2_000), 3).unwrap();
    let came = stream.events.len() as u64;
    let once = Load { cycles: 200, stream: Some(Arc::new(stream)), ..load(4) };
    for (rounds, cycles) in [(1, 200), (3, 600)] {
        let stressed = stress(&program, &Load { cycles, ..once.clone() }).unwrap();
        assert_eq!((stressed.finding.as_deref(), stressed.count("arrivals")), (None, rounds * came));
        // what each uses is less than a CPU has
        assert!(stressed.count("ends") > stressed.count("arrivals") * 8 / 10, "{:?}", stressed.counts);
    }
    // fewer threads than CPUs that it was made for: one has the tasks of several
    let stressed = stress(&program, &Load { threads: 2, ..once }).unwrap();
    assert_eq!((stressed.finding.as_deref(), stressed.count("arrivals")), (None, came));
}

/// A call that does not come back is named, with its CPU.
#[test]
fn who_does_not_return_is_named() {
    let loops = own("static long preempt(int cpu, long key)\n\
         { for (; cpu == 1 && key > 50;) race_relax(); return 0; }\n\
         RACE_TARGET(.name = \"loops\", .preempt = preempt);");
    let finding = stress(&loops, &Load { limit_s: 2, ..load(2) }).unwrap().finding.unwrap();
    assert!(finding.contains("does not return") && finding.ends_with("cpu1 in preempt()"), "{finding}");
}

/// A structure's own measures: a time and a number, with as many samples as it says, and its calls without them.
#[test]
fn a_structure_measures_itself() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: one CPU");
        return;
    }
    let program = own("static long preempt(int cpu, long key)\n\
         { unsigned long since = race_clock(); (void)cpu; race_time(\"nothing\", since);\n\
           race_count(\"key of a task\", (unsigned long)key); return 0; }\n\
         RACE_TARGET(.name = \"measures\", .preempt = preempt);");
    let costs = Costs::measure(&program, &Load { cycles: 5000, ..load(2) }, &|_| {}).unwrap();
    let own = costs.operations().split_off(schedlab_race::threads::OPERATIONS.len());
    assert_eq!(own, [("nothing", true), ("key of a task", false)]);
    let of = |name: &str| costs.cycles(name).pop().unwrap().1;
    let (times, keys) = (of("nothing"), of("key of a task"));
    assert!(keys.len() > 500 && times.len() == keys.len(), "{} and {}", times.len(), keys.len());
    assert!(keys.iter().all(|key| (0.0..=99.0).contains(key)) && keys.last() > keys.first());
    let rows = costs.cells();
    let row = rows.iter().find(|row| row[1] == "key of a task").unwrap();
    assert_eq!((&row[3], row[2].as_u64()), (&serde_json::json!("number"), Some(keys.len() as u64)));
}

#[test]
fn each_call_has_a_sample_and_arrow_holds_them() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: one CPU");
        return;
    }
    let costs = Costs::measure(&lowest(&["MENDED"]), &load(2), &|_| {}).unwrap();
    assert_eq!(costs.finding(), None);
    // two threads, 20,000 cycles each: a task comes in one of five, and is put into the queue, and into another one if
    // it is pushed or pulled
    let cells = costs.cells();
    let calls = |operation: &str| {
        let row = cells.iter().find(|row| row[1] == operation).unwrap_or_else(|| panic!("{operation}"));
        row[2].as_u64().unwrap()
    };
    assert!((7_500..=10_500).contains(&calls("enqueue")), "{}", calls("enqueue"));
    assert!(calls("dequeue") + 10 > calls("enqueue"), "nearly all tasks have left");
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
