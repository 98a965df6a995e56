//! Streams: what passes by is what is in the file, and memory does not grow with it.

mod common;

use proptest::prelude::*;
use schedlab_units::TaskId;
use schedlab_workload::stream::{Source, StreamError};
use schedlab_workload::{Form, Workload, parse_text, save, write_binary};
use std::path::Path;

/// All that a source hands out, as a workload.
fn drained(source: &Source) -> Workload {
    let mut workload = source.head().workload.clone();
    let mut nr = workload.tasks.iter().filter(|task| task.birth_eid().is_some()).count() as u64;
    source
        .runs(&mut |row, events| {
            assert!(!events.is_empty());
            nr += events.len() as u64;
            workload.tasks[row.index()].events.extend_from_slice(events);
            Ok(())
        })
        .unwrap();
    assert_eq!(nr, source.head().nr_events);
    workload
}

fn opened(path: &Path) -> Source {
    Source::open(path).unwrap().expect("a workload")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_form_hands_out_the_same(workload in common::workloads()) {
        let folder = tempfile::tempdir().unwrap();
        let memory = Source::from(workload.clone());
        prop_assert_eq!(&drained(&memory), &workload);
        for form in [Form::Text, Form::Binary] {
            let (file, copy) = (folder.path().join("w"), folder.path().join("copy"));
            save(&file, &workload, form).unwrap();
            let source = opened(&file);
            prop_assert_eq!(source.head(), memory.head());
            prop_assert_eq!(&drained(&source), &workload);
            // and is written as the writers that have it all in memory write it
            for again in [Form::Text, Form::Binary] {
                source.save(&copy, again).unwrap();
                let mut expected = Vec::new();
                match again {
                    Form::Text => schedlab_workload::write_text(&workload, &mut expected).unwrap(),
                    Form::Binary => write_binary(&workload, &mut expected).unwrap(),
                }
                prop_assert!(std::fs::read(&copy).unwrap() == expected, "{form:?} to {again:?}");
            }
        }
    }
}

#[test]
fn a_text_by_hand_streams_like_it_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.txt");
    // numbers given and not, ranges, repeats, relative lengths, a child that is mentioned before its FORK, rows
    let text = "schedlab-workload 1\r\n# by hand\nCGROUP /a weight=50\n- INIT 0 0 1..3 runnable name=w cgroup=/a\n\
        7 INIT 1 0 9 blocked\n- WAKEUP 9 0 20 5 1us\nREPEAT 30000 {\n - BLOCK 1..2 +1ms\n - WAKEUP 1..2 6ms device\n}\n\
        - FORK 3 1ms 5 name=child\n- PRIO 3 +1ms nice=4 target=5\n20 EXIT 5 1s\n- EXIT 9 3ms\n";
    std::fs::write(&file, text).unwrap();
    let whole = parse_text("w", text.as_bytes()).unwrap();
    assert_eq!(drained(&opened(&file)), whole);
    // task by task, it makes the same file as one that is written from memory, however it is cut into pieces
    let by_task = folder.path().join("by_task.txt");
    std::fs::write(&by_task, whole.to_text().unwrap()).unwrap();
    let copy = folder.path().join("copy.wlb");
    opened(&by_task).save(&copy, Form::Binary).unwrap();
    let mut expected = Vec::new();
    write_binary(&whole, &mut expected).unwrap();
    assert!(expected.len() > 300_000, "several chunks: {}", expected.len());
    assert!(std::fs::read(&copy).unwrap() == expected);
    // labels need the whole text
    let labelled = "- INIT 0 0 1 runnable\n- INIT 0 0 2 blocked\nREPEAT 3 {\n@x BLOCK 1 1ms\n- WAKEUP 1 1ms\n\
        - WAKEUP 2 0 @x 1 0\n- BLOCK 2 1ms\n}\n";
    std::fs::write(&file, labelled).unwrap();
    assert_eq!(drained(&opened(&file)), parse_text("w", labelled.as_bytes()).unwrap());
}

#[test]
fn broken_rules_and_lines_are_reported_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.txt");
    for (text, says) in [
        ("- INIT 0 0 1 runnable\n- WAKEUP 1 1ms\n", "no BLOCK before this WAKEUP"),
        ("- INIT 0 0 1 blocked\n- BLOCK 1 1ms\n", "a blocked task cannot run"),
        ("- INIT 0 0 1 runnable\n- BLOCK 2 1ms\n", ":2:9: '2': no line creates task 2"),
        ("- INIT 0 0 1 runnable\n- BLOK 1 1ms\n", ":2:3: 'BLOK'"),
        ("- INIT 0 0 1 runnable\n- INIT 0 0 1 runnable\n", "created on line 1 already"),
        ("- INIT 0 0 1 runnable\nREPEAT 2 {\n", "never closed"),
        ("- INIT 0 0 1 runnable\n- FORK 1 1ms 2\n- EXIT 1 0\n", "length 0ns is less than the 1ms"),
    ] {
        std::fs::write(&file, text).unwrap();
        let message = Source::open(&file).unwrap_err().to_string();
        assert!(message.contains(says), "{text}\n{message}");
    }
    std::fs::write(&file, b"- INIT 0 0 1 runnable\n- BLOCK 1 \xff\n").unwrap();
    let message = Source::open(&file).unwrap_err().to_string();
    assert!(message.contains(":2:11: '\\\\xff': this byte is not UTF-8"), "{message}");
    // a row far out costs no memory
    let mut writer = schedlab_workload::binary::BinaryWriter::new(Vec::new()).unwrap();
    let task = parse_text("w", b"- INIT 0 0 1 runnable\n- EXIT 1 1ms\n").unwrap().tasks.remove(0);
    writer.task(TaskId(2_000_000_000), &task).unwrap();
    std::fs::write(&file, writer.finish().unwrap()).unwrap();
    assert!(
        Source::open(&file)
            .unwrap_err()
            .to_string()
            .contains("2000000001 tasks; a workload may have 1000000")
    );
}

#[test]
fn traces_and_mixes_are_no_streams_and_a_failed_write_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mix = folder.path().join("mix.toml");
    std::fs::write(&mix, "").unwrap_or_default();
    std::fs::write(&mix, "[[part]]\n").unwrap();
    assert!(Source::open(&mix).unwrap().is_none());
    let source = Source::from(common::workload(3, 10));
    let target = folder.path().join("w.wlb");
    let feed = |_: &mut schedlab_workload::stream::EventSink<'_>| Err(StreamError::Identifiers);
    let failed = schedlab_workload::stream::save_stream(&target, Form::Binary, source.head(), feed);
    assert!(failed.is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(
        source.save(&folder.path().join("nowhere/w"), Form::Text),
        Err(StreamError::Write { .. })
    ));
}
