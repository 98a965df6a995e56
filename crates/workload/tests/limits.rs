//! Each limit of `schedlab_workload::limits`, at the limit and one beyond: the last one is read, the next is
//! refused with its place, what it makes, the limit and what to do. Where the real limit takes too long, a
//! lower one is given.

use schedlab_units::TaskId;
use schedlab_workload::limits::{self, Limits};
use schedlab_workload::mix::Mix;
use schedlab_workload::rtapp::{parse_rtapp, parse_rtapp_within};
use schedlab_workload::stream::Source;
use schedlab_workload::text::{TextProblem, parse_text_within};
use schedlab_workload::{Workload, binary, load_within, parse_text, read_binary, write_binary};
use std::path::{Path, PathBuf};

/// Ten events, four tasks, some bytes.
const FEW: Limits = Limits { events: 10, tasks: 4, bytes: 400, keeps_events: true };

/// A file of the test's own.
struct File(tempfile::TempDir);

impl File {
    fn new() -> File {
        File(tempfile::tempdir().unwrap())
    }
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// The text as it is read in memory, and as a stream that writes what it reads.
fn both_ways(text: &str, limits: Limits) -> [Result<u64, String>; 2] {
    let file = File::new();
    let path = file.write("w.txt", format!("schedlab-workload 1\n{text}"));
    let whole = match load_within(&path, limits) {
        Ok(schedlab_workload::LoadedFile::Workload { workload, .. }) => Ok(workload.nr_events()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    let stream = Source::open_within(&path, Limits { keeps_events: false, ..limits });
    let streamed = stream.map_err(|error| error.to_string()).map(|source| {
        let source = source.expect("a text");
        let tasks = &source.head().workload.tasks;
        let mut nr = tasks.iter().filter(|task| task.birth_eid().is_some()).count() as u64;
        let mut count = |_: TaskId, run: &mut Vec<_>| {
            nr += run.len() as u64;
            Ok(())
        };
        source.runs(&mut count).unwrap();
        assert_eq!(nr, source.head().nr_events);
        nr
    });
    [whole, streamed]
}

fn fits(text: &str, limits: Limits, nr_events: u64) {
    for read in both_ways(text, limits) {
        assert_eq!(read, Ok(nr_events), "{text}");
    }
}

fn refused(text: &str, limits: Limits, words: &[&str]) {
    for read in both_ways(text, limits) {
        let error = read.expect_err(text);
        for word in words {
            assert!(error.contains(word), "{text}: '{word}' is missing in: {error}");
        }
    }
}

#[test]
fn events_of_a_text() {
    let blocks = |n: u32| format!("- INIT 0 0 1 runnable\nREPEAT {n} {{\n- YIELD 1 0\n}}\n");
    fits(&blocks(9), FEW, 10);
    refused(
        &blocks(10),
        FEW,
        &["w.txt:5:1: '}'", "this makes 11 events", "may have 10", "repeat less often"],
    );
    // many at once, and in blocks within blocks
    fits("- INIT 0 0 1..4 runnable\nREPEAT 1 {\n- YIELD 1..4 0\n}\n", FEW, 8);
    refused("- INIT 0 0 1..4 runnable\nREPEAT 2 {\n- YIELD 1..4 0\n}\n", FEW, &[":5:1:", "12 events"]);
    let nested = "- INIT 0 0 1 runnable\nREPEAT 4000000000 {\nREPEAT 4000000000 {\nREPEAT 4000000000 {\n- YIELD 1 0\n\
        }\n}\n}\n";
    refused(nested, FEW, &["18446744073709551615 events"]);
    refused(nested, Limits::HELD, &["a workload may have 100000000"]);
    // what repeats nothing costs nothing
    let empty = "- INIT 0 0 1 runnable\nREPEAT 4000000000 {\nREPEAT 4000000000 {\n}\n}\n";
    fits(empty, FEW, 1);
}

#[test]
fn events_of_a_stream() {
    let blocks = |n: u64| format!("- INIT 0 0 1 runnable\nREPEAT {n} {{\n- YIELD 1 0\n}}\n");
    let file = File::new();
    let beyond = file.write("w.txt", blocks(Limits::STREAMED.events));
    let error = Source::open(&beyond).unwrap_err().to_string();
    assert!(error.contains("this makes 200000001 events; a workload may have 200000000;"), "{error}");
    // what does not fit into memory passes by
    let streamed = Limits { keeps_events: false, ..FEW };
    let [whole, passed] = [FEW, Limits { events: 1000, ..streamed }]
        .map(|limits| Source::open_within(&file.write("x.txt", blocks(500)), limits).is_ok());
    assert_eq!((whole, passed), (false, true));
}

#[test]
fn tasks_of_a_text() {
    fits("- INIT 0 0 1..4 runnable\n", FEW, 4);
    refused(
        "- INIT 0 0 1..5 runnable\n",
        FEW,
        &["w.txt:2:12: '1..5'", "this makes 5 tasks", "may have 4", "state fewer"],
    );
    refused("- INIT 0 0 1..4 runnable\n- INIT 0 0 5 runnable\n", FEW, &[":3:12: '5'", "this makes 5 tasks"]);
    fits("- INIT 0 0 1 runnable\n- FORK 1 0 2..4\n", FEW, 4);
    refused("- INIT 0 0 1 runnable\n- FORK 1 0 2..5\n", FEW, &[":3:12: '2..5'", "this makes 5 tasks"]);
    // the line of the finding, which took 4 GB
    for text in ["- INIT 0 0 1..4000000000 runnable\n", "- INIT 0 0 1 runnable\n- FORK 1 0 2..4000000000\n"] {
        refused(text, Limits::HELD, &["tasks; a workload may have 1000000", "state fewer tasks"]);
    }
    refused("- INIT 0 0 1 runnable\n- YIELD 1..4000000000 0\n", Limits::HELD, &["4000000000 tasks"]);
}

/// Names, CPU lists, settings and labels take room, too: one word may stand for much.
#[test]
fn bytes_of_a_text() {
    let named = |n: usize| format!("- INIT 0 0 1..4 runnable name={}\n", "x".repeat(n));
    fits(&named(100), FEW, 4);
    refused(&named(101), FEW, &["this makes 404 bytes", "may have 400", "shorter names"]);
    // CPU 65535: 8 KiB a task, or a change
    refused("- INIT 0 0 1..1000000 runnable affinity=65535\n", Limits::HELD, &["bytes of names, CPU lists"]);
    let change = "- INIT 0 0 1 runnable\nREPEAT 3000 {\n- PRIO 1 0 affinity=65535\n}\n";
    let [whole, streamed] = both_ways(change, Limits { bytes: 16 << 20, ..Limits::HELD });
    assert!(whole.unwrap_err().contains("16777216 in memory"));
    assert_eq!(streamed, Ok(3_001), "changes pass by");
    let labels = "- INIT 0 0 1 runnable\n- INIT 0 0 2 blocked\nREPEAT 2 {\n@x YIELD 1 0\n- WAKEUP 2 0 @x 1 0\n\
        - BLOCK 2 0\n}\n";
    let [whole, _] = both_ways(labels, FEW);
    assert_eq!(whole, Ok(8));
    refused(labels, Limits { bytes: 100, ..FEW }, &["bytes of names, CPU lists, settings and labels"]);
}

#[test]
fn lines_and_blocks_of_a_text() {
    let nested = |n: usize| {
        format!("- INIT 0 0 1 runnable\n{}- YIELD 1 0\n{}", "REPEAT 1 {\n".repeat(n), "}\n".repeat(n))
    };
    fits(&nested(limits::REPEAT_DEPTH_MAX), FEW, 2);
    refused(&nested(limits::REPEAT_DEPTH_MAX + 1), FEW, &["nested more than 16 deep"]);
    let long = |n: u64| {
        let mut text = String::from("- INIT 0 0 1 runnable #");
        text.push_str(&"x".repeat(n as usize - text.len() - 1));
        text + "\n"
    };
    fits(&long(limits::LINE_BYTES_MAX), FEW, 1);
    refused(&long(limits::LINE_BYTES_MAX + 1), FEW, &["w.txt:2:1", "the line is longer than 16 MiB"]);
}

#[test]
fn everything_of_the_binary_form() {
    let file = File::new();
    let read = |text: &str, limits: Limits| {
        let mut bytes = Vec::new();
        write_binary(&parse_text("t", text.as_bytes()).unwrap(), &mut bytes).unwrap();
        let path = file.write("w.wlb", &bytes);
        let stream = Source::open_within(&path, Limits { keeps_events: false, ..limits });
        let whole = binary::read_binary_within(bytes.as_slice(), limits).map(|workload| workload.nr_events());
        assert_eq!(whole.is_ok(), stream.is_ok());
        whole.map_err(|error| error.to_string())
    };
    let yields = |n: usize| format!("- INIT 0 0 1 runnable\n{}", "- YIELD 1 0\n".repeat(n));
    assert_eq!(read(&yields(9), FEW), Ok(10));
    let error = read(&yields(10), FEW).unwrap_err();
    assert!(
        error.starts_with("byte ") && error.contains("11 events; a workload may have 10 in memory: repeat"),
        "{error}"
    );
    assert_eq!(read("- INIT 0 0 1..4 blocked\n", FEW), Ok(4));
    assert!(read("- INIT 0 0 1..5 blocked\n", FEW).unwrap_err().contains("5 tasks; a workload may have 4"));
    let named = |n: usize| format!("- INIT 0 0 1 blocked name={}\n", "x".repeat(n));
    assert_eq!(read(&named(400), FEW), Ok(1));
    assert!(read(&named(401), FEW).unwrap_err().contains("401 bytes"));
    // a row that no workload within the limits has
    let mut writer = binary::BinaryWriter::new(Vec::new()).unwrap();
    let event = parse_text("t", yields(1).as_bytes()).unwrap().tasks[0].events[0].clone();
    writer.events(TaskId(1_000_000), &[event]).unwrap();
    let bytes = writer.finish().unwrap();
    let error = read_binary(bytes.as_slice()).unwrap_err().to_string();
    assert!(error.contains("1000001 tasks; a workload may have 1000000"), "{error}");
}

/// What is written in one piece fits into a chunk, or is refused; a chunk that says it is longer is no chunk.
#[test]
fn chunks_of_the_binary_form() {
    let write = |length: usize| {
        let mut workload = parse_text("t", b"- INIT 0 0 1 blocked\n").unwrap();
        workload.notes.insert("a".into(), "x".repeat(length));
        let mut bytes = Vec::new();
        write_binary(&workload, &mut bytes).map(|()| bytes).map_err(|error| error.to_string())
    };
    let (mut fits, mut beyond) = (limits::CHUNK_BYTES_MAX - 256, limits::CHUNK_BYTES_MAX + 1);
    while beyond - fits > 1 {
        let middle = usize::midpoint(fits, beyond);
        match write(middle) {
            Ok(_) => fits = middle,
            Err(_) => beyond = middle,
        }
    }
    let mut bytes = write(fits).unwrap();
    assert_eq!(read_binary(bytes.as_slice()).unwrap().notes["a"].len(), fits);
    let error = write(beyond).unwrap_err();
    assert!(error.contains("16777217 bytes; at most 16 MiB can be stored"), "{error}");
    // the length of that chunk, one more
    let length = (limits::CHUNK_BYTES_MAX as u32).to_le_bytes();
    let at = bytes.windows(4).position(|four| four == length).expect("a chunk is as long as may be");
    bytes[at] += 1;
    let error = read_binary(bytes.as_slice()).unwrap_err().to_string();
    assert!(error.contains("no chunk begins here"), "{error}");
}

fn mix(text: &str, limits: Limits) -> Result<Workload, String> {
    let mix = Mix::parse(Path::new("mix.toml"), text).map_err(|error| error.to_string())?;
    let part = "- INIT 0 0 1..2 runnable\n- YIELD 1 0\n";
    let mut load = |_: &Path| parse_text("part", part.as_bytes()).map_err(|error| error.to_string());
    mix.build_within(&mut load, limits).map_err(|error| error.to_string())
}

#[test]
fn everything_of_a_mix() {
    let copies = |n: u32| format!("[[part]]\nworkload = \"w\"\ncopies = {n}\n");
    assert_eq!(mix(&copies(2), FEW).unwrap().tasks.len(), 4);
    let error = mix(&copies(3), FEW).unwrap_err();
    for word in ["mix.toml:3:10: '3'", "this makes 6 tasks; a workload may have 4 in memory", "fewer copies"]
    {
        assert!(error.contains(word), "{error}");
    }
    let tasks = Limits { tasks: 1000, ..FEW };
    assert_eq!(mix(&copies(3), tasks).unwrap().nr_events(), 9);
    assert!(mix(&copies(4), tasks).unwrap_err().contains("12 events"));
    // parts add up, each at the part that is too much
    let error =
        mix("[[part]]\nworkload = \"w\"\n[[part]]\nworkload = \"w\"\n[[part]]\nworkload = \"w\"\n", FEW)
            .unwrap_err();
    assert!(error.contains("mix.toml:6:13: 'w'") && error.contains("6 tasks"), "{error}");
    // a million copies of two tasks, and one copy more than may be asked for
    let error = mix(&copies(limits::TIMES_MAX), Limits::HELD).unwrap_err();
    assert!(error.contains("2000000 tasks; a workload may have 1000000"), "{error}");
    assert!(mix(&copies(limits::TIMES_MAX + 1), Limits::HELD).unwrap_err().contains("1 to 1000000"));
    let repeat = |n: u32| format!("[[part]]\nworkload = \"w\"\nrepeat = {n}\n");
    assert!(mix(&repeat(limits::TIMES_MAX), Limits::HELD).unwrap_err().contains("mix.toml:3:10: '1000000'"));
}

/// What several parts name is loaded once as long as there is room to keep it.
#[test]
fn parts_that_are_kept_are_bounded() {
    let text = "[[part]]\nworkload = \"w\"\nto = \"1ns\"\n".repeat(3);
    let mix = Mix::parse(Path::new("mix.toml"), &text).unwrap();
    let loads = |nr_yields: usize| {
        let mut loads = 0;
        let part = format!("- INIT 0 0 1 runnable\n{}- EXIT 1 +1ms\n", "- YIELD 1 +1us\n".repeat(nr_yields));
        let mut load = |_: &Path| {
            loads += 1;
            parse_text("part", part.as_bytes()).map_err(|error| error.to_string())
        };
        let limits = Limits { events: 1000, ..Limits::HELD };
        mix.build_within(&mut load, limits).unwrap();
        loads
    };
    assert_eq!((loads(10), loads(2000)), (1, 3));
}

#[test]
fn everything_of_a_description_for_rt_app() {
    let instances = |n: u32| {
        format!(
            r#"{{ "tasks": {{ "a": {{ "instance": {n}, "loop": 1, "phases": {{ "p": {{ "run": 1000 }} }} }} }} }}"#
        )
    };
    let read = |text: &str, limits: Limits| {
        parse_rtapp_within(Path::new("a.json"), text, limits)
            .map(|w| w.tasks.len())
            .map_err(|error| error.to_string())
    };
    let steps = Limits { events: 100, ..FEW };
    assert_eq!(read(&instances(4), steps), Ok(4));
    assert!(read(&instances(5), steps).unwrap_err().contains("this makes 5 tasks; a workload may have 4"));
    let loops = |n: u32| {
        format!(
            r#"{{ "tasks": {{ "a": {{ "loop": {n}, "phases": {{ "p": {{ "run": 1000, "sleep": 1000 }} }} }} }} }}"#
        )
    };
    let events = Limits { events: 1000, ..FEW };
    assert_eq!(read(&loops(400), events), Ok(1));
    assert!(read(&loops(500), events).unwrap_err().contains("1001 events; a workload may have 1000"));
    // ten descriptions of 100,000 threads each are a million, eleven are more
    let many = |n: u32| {
        let tasks: Vec<String> =
            (0..n).map(|i| format!(r#""t{i}": {{ "instance": 100000, "loop": 1, "run": 1 }}"#)).collect();
        format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "))
    };
    let error = parse_rtapp(Path::new("a.json"), &many(11)).unwrap_err().to_string();
    assert!(error.contains("1100000 tasks; a workload may have 1000000"), "{error}");
    let nested = |n: usize| {
        let inner = format!("{}1{}", "[".repeat(n), "]".repeat(n));
        read(
            &format!(
                r#"{{ "global": {{ "x": {inner} }}, "tasks": {{ "a": {{ "loop": 1, "phases": {{ "p": {{ "run": 1000 }} }} }} }} }}"#
            ),
            steps,
        )
    };
    let depth = limits::JSON_DEPTH_MAX as usize - 3;
    assert_eq!(nested(depth), Ok(1));
    assert!(nested(depth + 1).unwrap_err().contains("line 1, column"));
}

#[test]
fn a_text_in_memory_keeps_the_same_limits() {
    let text = "- INIT 0 0 1 runnable\nREPEAT 10 {\n- YIELD 1 0\n}\n";
    let error = parse_text_within("w", text.as_bytes(), FEW).unwrap_err();
    assert_eq!((error.problem, error.line), (TextProblem::Limit, 4));
}
