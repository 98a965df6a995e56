//! The text form: round trips, the hand-written conveniences, and mistakes told where they are.

mod common;

use proptest::prelude::*;
use schedlab_units::{Span, TaskId};
use schedlab_workload::limits::Limits;
use schedlab_workload::text::{TextProblem, looks_like_text, parse_text_within};
use schedlab_workload::{EventId, EventKind, Wakeup, Workload, parse_text, read_text};

fn read(text: &str) -> Workload {
    read_text("w.txt", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{}", error.picture()))
}

fn lengths(workload: &Workload, row: u32) -> Vec<(&'static str, u64)> {
    let time = |kind: &EventKind| match kind {
        EventKind::Wakeup(Wakeup::External { after, .. }) => after.as_ns(),
        EventKind::Wakeup(Wakeup::Dependent { distance, .. }) => distance.as_ns(),
        kind => kind.length().unwrap().as_ns(),
    };
    let events = &workload.task(TaskId(row)).events;
    events.iter().map(|event| (event.kind.name(), time(&event.kind))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_back_exactly(workload in common::workloads()) {
        workload.check().unwrap();
        let text = workload.to_text().unwrap();
        let again = read_text("w.txt", text.as_bytes()).unwrap();
        prop_assert_eq!(&again, &workload);
        prop_assert_eq!(again.to_text().unwrap(), text);
    }

    #[test]
    fn broken_text_is_refused_without_a_panic(
        workload in common::workloads(),
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut text = workload.to_text().unwrap().into_bytes();
        text.truncate(cut.index(text.len() + 1));
        for (at, byte) in flips {
            if !text.is_empty() {
                let at = at.index(text.len());
                text[at] = byte;
            }
        }
        let limits = Limits { events: 10_000, tasks: 1_000, ..Limits::HELD };
        match parse_text_within("w.txt", &text, limits) {
            Ok(workload) => drop(workload.check()),
            Err(error) => {
                prop_assert!(error.line >= 1 && error.column >= 1);
                prop_assert!(!error.to_string().is_empty() && !error.picture().is_empty());
            }
        }
        let _ = read_text("w.txt", &text[..text.len().min(2000)]);
    }
}

// Figure 1: fork at 0 s, runs to 8 s, sleeps to 20 s, runs to 30 s, sleeps to 50 s, runs to 60 s and exits;
// alone on a CPU.
#[test]
fn the_life_cycle_of_figure_1() {
    let workload = read(include_str!("../../../samples/hand/figure1.txt"));
    let s = 1_000_000_000;
    let child = workload.tasks.iter().position(|task| task.name == "figure-1").unwrap() as u32;
    assert_eq!(
        lengths(&workload, child),
        [("BLOCK", 8 * s), ("WAKEUP", 12 * s), ("BLOCK", 10 * s), ("WAKEUP", 20 * s), ("EXIT", 10 * s)]
    );
    assert_eq!(workload.task(TaskId(child)).cpu_demand(), Span::from_s(28));
}

#[test]
fn plain_warp_lines_need_no_header() {
    let workload = read(
        "1 INIT 0 0 100 runnable\n2 BLOCK 100 4000000\n3 WAKEUP 100 6000000 0 0 0\n4 PRIO 100 1000 -5\n\
            5 EXIT 100 2000000\n",
    );
    assert_eq!(lengths(&workload, 0).len(), 4);
    assert_eq!(workload.tasks[0].name, "task-100");
    let EventKind::Prio { change, .. } = &workload.tasks[0].events[2].kind else { panic!() };
    assert_eq!((change.nice.unwrap().get(), change.params), (-5, None));
}

#[test]
fn repetition_and_ranges_expand() {
    let workload = read(
        "schedlab-workload 1\n- INIT 0 0 11..13 runnable name=w\nREPEAT 2 {\n - BLOCK 11..13 1ms\n - WAKEUP 11..13 \
            2ms\n}\n- FORK 12 0 20..21 nice=3\n",
    );
    let names: Vec<(u32, &str)> = workload.tasks.iter().map(|task| (task.pid, task.name.as_str())).collect();
    assert_eq!(names, [(11, "w"), (12, "w"), (13, "w"), (20, "task-20"), (21, "task-21")]);
    let (ms, round) = (1_000_000, 4);
    let once = [("BLOCK", ms), ("WAKEUP", 2 * ms), ("BLOCK", ms), ("WAKEUP", 2 * ms)];
    assert_eq!(lengths(&workload, 0), once);
    assert_eq!(lengths(&workload, 1)[..round], once);
    assert_eq!(lengths(&workload, 1)[round..], [("FORK", 0), ("FORK", 0)]);
    // numbered in the order of the canonical text: three INITs, then task by task
    let eids: Vec<u64> =
        workload.tasks.iter().flat_map(|task| &task.events).map(|event| event.eid.0).collect();
    assert_eq!(eids, (4..18).collect::<Vec<_>>());
}

#[test]
fn repeated_labels_mean_the_same_iteration() {
    let workload = read(
        "- INIT 0 0 1 runnable\n- INIT 0 0 2 blocked\nREPEAT 3 {\n @sent BLOCK 1 1ms\n - WAKEUP 1 5ms\n - WAKEUP 2 0 \
            @sent - 10us\n - BLOCK 2 2ms\n}\n- WAKEUP 2 0 @sent[0] 1 1us\n",
    );
    let sent: Vec<EventId> = workload.tasks[0].events.iter().step_by(2).map(|event| event.eid).collect();
    let waits: Vec<EventId> = workload.tasks[1]
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Wakeup(Wakeup::Dependent { event, task: TaskId(0), .. }) => Some(event),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [sent[0], sent[1], sent[2], sent[0]]);
    assert_eq!(lengths(&workload, 1)[0], ("WAKEUP", 10_000));
}

#[test]
fn plus_counts_from_the_previous_event() {
    let workload = read(
        "- INIT 0 0 1 runnable\nREPEAT 3 {\n - YIELD 1 +2ms\n}\n- BLOCK 1 +1ms\n- WAKEUP 1 4ms\n- EXIT 1 +1ms\n",
    );
    let ms = 1_000_000;
    assert_eq!(
        lengths(&workload, 0),
        [
            ("YIELD", 2 * ms),
            ("YIELD", 4 * ms),
            ("YIELD", 6 * ms),
            ("BLOCK", 7 * ms),
            ("WAKEUP", 4 * ms),
            ("EXIT", ms)
        ]
    );
}

#[test]
fn nested_blocks_multiply() {
    let workload = read(
        "- INIT 0 0 1 runnable\nREPEAT 3 {\n REPEAT 4 {\n - BLOCK 1 1ms\n - WAKEUP 1 1ms\n }\n - BLOCK 1 0\n - WAKEUP \
            1 1s\n}\n",
    );
    assert_eq!(workload.tasks[0].events.len(), 3 * (4 * 2 + 2));
}

#[test]
fn mistakes_are_reported_with_place_and_remedy() {
    use TextProblem as P;
    let init = "- INIT 0 0 1 runnable\n";
    for (text, line, column, problem, says) in [
        ("", 1, 1, P::Missing, "no event"),
        ("# only a comment\n", 2, 1, P::Missing, "no event"),
        ("hello world\n", 1, 1, P::Header, "schedlab-workload 1"),
        ("schedlab-workload 9\n", 1, 19, P::Version, "reads versions 1 to 8"),
        ("schedlab-workload one\n", 1, 19, P::Header, "expected a version"),
        ("- INIT 0 0 1 runnable\n3 WAKUP 1 6ms\n", 2, 3, P::Word, "did you mean WAKEUP?"),
        ("- INIT 0 0 1 runnable\n  - block 1 6ms\n", 2, 5, P::Word, "did you mean BLOCK?"),
        ("- INIT 0 0 1 running\n", 1, 14, P::Word, "runnable or blocked"),
        ("- INIT 0 5ms 1 runnable\n", 1, 10, P::Value, "expected 0"),
        ("- INIT 0 0 1\n", 1, 13, P::Missing, "runnable or blocked"),
        ("- INIT 0 0 1 runnable nise=4\n", 1, 23, P::Word, "did you mean nice=?"),
        ("- INIT 0 0 1 runnable nice=40\n", 1, 28, P::Value, "-20 to 19"),
        ("- INIT 0 0 1 runnable nice=4 nice=5\n", 1, 30, P::Extra, "twice"),
        ("- INIT 0 0 1 runnable prio=4\n", 1, 23, P::Value, "policy=fifo"),
        ("- INIT 0 0 1 runnable policy=deadline runtime=1ms\n", 1, 39, P::Value, "period="),
        ("- INIT 0 0 1 runnable cgroup=/x\n", 1, 30, P::Declaration, "no line above declares"),
        ("- INIT 0 0 1 runnable name=\"é\n", 1, 28, P::Quote, "never closed"),
        ("0 INIT 0 0 1 runnable\n", 1, 1, P::Number, "a number from 1"),
        ("- INIT 7 0 1 runnable\n", 1, 8, P::Declaration, "no line creates task 7"),
        ("@a INIT 0 0 1 runnable\n", 1, 1, P::Label, "cannot carry a label"),
        ("} INIT\n", 1, 3, P::Extra, "end of the line"),
        (&format!("{init}- BLOCK 1 5 weeks\n"), 2, 13, P::Extra, "end of the line"),
        (&format!("{init}- BLOCK 1 5weeks\n"), 2, 11, P::Duration, "unknown unit"),
        (&format!("{init}- BLOCK 1 -5ms\n"), 2, 11, P::Duration, "not a duration"),
        (&format!("{init}- BLOCK 1 99999999999s\n"), 2, 11, P::Duration, "too large"),
        (&format!("{init}- BLOCK 2 5ms\n"), 2, 9, P::Declaration, "no line creates task 2"),
        (&format!("{init}- BLOCK 0 5ms\n"), 2, 9, P::Number, "from 1"),
        (&format!("{init}- BLOCK 5..1 5ms\n"), 2, 9, P::Number, "range"),
        (&format!("{init}- INIT 0 0 1 blocked\n"), 2, 12, P::Declaration, "line 1 already"),
        (&format!("{init}- WAKEUP 1 5ms 0 3 0\n"), 2, 18, P::Value, "external"),
        (&format!("{init}- WAKEUP 1 5ms @x 1 0\n"), 2, 16, P::Label, "no event carries"),
        (&format!("{init}- WAKEUP 1 +5ms\n"), 2, 12, P::Value, "without the +"),
        (&format!("{init}@x BLOCK 1 1\n@x BLOCK 1 1\n"), 3, 1, P::Label, "line 2 already"),
        (&format!("{init}REPEAT 0 {{\n}}\n"), 2, 8, P::Number, "at least 1"),
        (&format!("{init}REPEAT 3\n- BLOCK 1 1\n}}\n"), 2, 9, P::Missing, "{"),
        (&format!("{init}REPEAT 3 {{\n- BLOCK 1 1\n"), 2, 1, P::Repeat, "never closed"),
        (&format!("{init}}}\n"), 2, 1, P::Repeat, "no REPEAT"),
        (&format!("REPEAT 3 {{\n{init}}}\n"), 2, 1, P::Repeat, "events only"),
        (&format!("{init}REPEAT 3 {{\n7 BLOCK 1 1\n}}\n"), 3, 1, P::Repeat, "fixed number"),
        (&format!("{init}REPEAT 110000000 {{\n- YIELD 1 1\n}}\n"), 4, 1, P::Limit, "110000001 events"),
        (
            &format!("{init}REPEAT 99999999 {{\nREPEAT 99999999999999999 {{\n- YIELD 1 1\n}}\n}}\n"),
            6,
            1,
            P::Limit,
            "a workload may have 100000000 in memory; repeat less often",
        ),
        (
            &format!("{init}REPEAT 2 {{\n- PRIO 1 1 cgroup=/x\n}}\n"),
            3,
            19,
            P::Declaration,
            "declares the group /x",
        ),
        (
            "- INIT 0 0 1..4294967295 runnable\n",
            1,
            12,
            P::Limit,
            "4294967295 tasks; a workload may have 1000000",
        ),
        (&format!("{init}- FORK 1 0 2 row=7\n"), 2, 1, P::Declaration, "row=7 is out of range"),
        ("CGROUP /a\nCGROUP /a\n", 2, 1, P::Declaration, "line 1 already"),
        ("CGROUP /a weight=x\n", 1, 18, P::Number, "1 to 10000"),
        ("NOTE a b c\n", 1, 10, P::Extra, "end of the line"),
        // in order line by line, but against the model's rules
        (&format!("{init}- BLOCK 1 1ms\n\n - YIELD 1 2ms\n"), 4, 2, P::Rule, "a blocked task cannot run"),
        (&format!("{init}- YIELD 1 3ms\n- YIELD 1 2ms\n"), 3, 1, P::Rule, "less than the 3ms"),
        (&format!("{init}7 YIELD 1 3ms\n7 YIELD 1 4ms\n"), 3, 1, P::Rule, "more than once"),
        ("- INIT 0 0 1 runnable affinity=\n", 1, 1, P::Rule, "allowed CPUs is empty"),
        ("CGROUP /a/b\n", 1, 1, P::Rule, "its parent /a is not declared"),
        (&format!("{init}REPEAT 9 {{\n - BLOCK 1 1\n}}\n"), 3, 2, P::Rule, "cannot run"),
    ] {
        let error = read_text("w.txt", text.as_bytes()).expect_err(text);
        let message = format!("{error}\n{}", error.picture());
        assert!(message.contains(says), "{text}\n{message}");
        assert_eq!((error.line, error.column, error.problem), (line, column, problem), "{text}\n{message}");
        assert!(message.starts_with(&format!("w.txt:{line}:{column}: ")), "{message}");
    }
}

#[test]
fn a_mistake_is_drawn() {
    let error = parse_text("w.txt", "\n\n3 WAKUP 100 6ms\n".as_bytes()).unwrap_err();
    assert_eq!(error.problem, TextProblem::Header); // the first line decides whether this is a workload at all
    let error = parse_text("w.txt", "schedlab-workload 1\n\n3 WAKUP 100 6ms\n".as_bytes()).unwrap_err();
    let drawn = "  3 | 3 WAKUP 100 6ms\n    |   ^^^^^";
    assert_eq!(error.picture(), drawn);
}

#[test]
fn odd_bytes_are_located() {
    let error = parse_text("w.txt", b"- INIT 0 0 1 runnable\n- YIELD \xff 1\n").unwrap_err();
    assert_eq!((error.line, error.column, error.problem), (2, 9, TextProblem::Encoding));
    let bytes = "\u{feff}schedlab-workload 1\r\n- INIT 0 0 1 runnable\r\n- EXIT 1 1ms\r\n";
    assert_eq!(read(bytes).tasks.len(), 1); // byte order mark and CRLF
}

#[test]
fn a_workload_is_recognised_by_its_first_line() {
    for (text, yes) in [
        ("schedlab-workload 1\n", true),
        ("# hello\n\n  1 INIT 0 0 100 runnable\n", true),
        ("CGROUP /a\n", true),
        ("# tracer: nop\n#\n", false),
        ("{ \"tasks\": {} }", false),
        ("[mix]\n", false),
        ("", false),
    ] {
        assert_eq!(looks_like_text(text.as_bytes()), yes, "{text}");
    }
}

/// What a PRIO sets, in words and back; the examples have every word.
#[test]
fn changes_in_words_are_read_again() {
    let text = "schedlab-workload 1\nCGROUP \"/a b\"\n- INIT 0 0 1 runnable name=x\n- PRIO 1 1 nice=-3\n\
        - PRIO 1 2 policy=rr prio=50 affinity=0-3,8\n- PRIO 1 3 policy=batch nice=4 renice=5 cgroup=\"/a b\"\n\
        - PRIO 1 4 policy=deadline runtime=1ms deadline=2500us period=10ms\n- EXIT 1 5\n";
    let workload = schedlab_workload::parse_text("words", text.as_bytes()).unwrap();
    let words = workload.tasks[0].events.iter().filter_map(|event| match &event.kind {
        EventKind::Prio { change, .. } => Some((change, schedlab_workload::change_words(change, &workload))),
        _ => None,
    });
    let mut seen = Vec::new();
    for (change, words) in words {
        let (read, path) = schedlab_workload::parse_change_words(&words).unwrap();
        assert_eq!(path.as_deref(), change.cgroup.map(|_| "/a b"), "{words}");
        assert_eq!(schedlab_workload::ParamChange { cgroup: change.cgroup, ..read }, **change, "{words}");
        seen.push(words);
    }
    assert_eq!(
        seen,
        [
            "nice=-3",
            "policy=rr prio=50 affinity=0-3,8",
            "policy=batch nice=4 renice=5 cgroup=\"/a b\"",
            "policy=deadline runtime=1ms deadline=2500us period=10ms",
        ]
    );
    for wrong in ["target=7", "nice=77", "policy=fifo \"", "speed=3"] {
        assert!(schedlab_workload::parse_change_words(wrong).is_none(), "{wrong}");
    }
}
