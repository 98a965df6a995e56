//! What rt-app would make its threads do is what the workload says. Expected values follow src/rt-app.c of
//! rt-app 1.0 (run_event, thread_body), played by hand on a machine with a CPU for each thread.

use proptest::prelude::*;
use schedlab_units::Span;
use schedlab_workload::limits::Limits;
use schedlab_workload::rtapp::{RtAppError, parse_rtapp, parse_rtapp_within};
use schedlab_workload::{
    EventKind, ExternalSource, Handover, ObjectKind, Task, Wakeup, Workload, find_deadlock, parse_text,
};
use std::path::Path;

#[track_caller]
fn read(text: &str) -> Workload {
    let workload = parse_rtapp(Path::new("a.json"), text).unwrap_or_else(|error| panic!("{error}"));
    workload.check().unwrap();
    assert_eq!(find_deadlock(&workload), None);
    workload
}

fn task<'w>(workload: &'w Workload, name: &str) -> &'w Task {
    workload.tasks.iter().find(|task| task.name == name).unwrap_or_else(|| panic!("no task {name}"))
}

/// A task's life in one line, times in ms: `B2 T10 B2 <-a@1 E3`: T timer, G grid, g grid-restart, `<-` woken
/// by, so long before.
fn life(workload: &Workload, name: &str) -> String {
    let ms = |span: Span| span.as_ns() as f64 / 1e6;
    let word = |kind: &EventKind| match kind {
        EventKind::Block { length } => format!("B{}", ms(*length)),
        EventKind::Exit { length } => format!("E{}", ms(*length)),
        EventKind::Yield { length } => format!("Y{}", ms(*length)),
        EventKind::Exec { .. } | EventKind::Call { .. } => panic!("no description has EXEC or CALL"),
        EventKind::Fork { length, child } => format!("F{}:{}", ms(*length), workload.task(*child).name),
        EventKind::Prio { length, change } => {
            let cpus = change.affinity.as_ref().map(|set| set.to_string()).unwrap_or_default();
            let params = change.params.map(|p| format!("{} {} {}", p.policy, p.nice, p.rt_priority));
            format!("P{}[{cpus}{}]", ms(*length), params.unwrap_or_default())
        }
        EventKind::Wakeup(Wakeup::External { after, source }) => {
            let letter = match source {
                ExternalSource::Grid => "G",
                ExternalSource::GridRestart => "g",
                _ => "T",
            };
            format!("{letter}{}", ms(*after))
        }
        EventKind::Object { length, op, .. } => format!("{}{}", op.name(), ms(*length)),
        EventKind::Wakeup(Wakeup::Dependent { task, distance, .. }) => {
            format!("<-{}@{}", workload.task(*task).name, ms(*distance))
        }
    };
    task(workload, name).events.iter().map(|event| word(&event.kind)).collect::<Vec<_>>().join(" ")
}

#[test]
fn loops_and_phases_are_expanded() {
    let workload = read(
        r#"{ "tasks": { "a": { "loop": 2, "priority": 5, "cpus": [0, 1], "phases": {
            "one": { "loop": 2, "run": 1000, "sleep": 3000 },
            "two": { "cpus": [1], "run0": 2000, "run1": 500, "yield": "" } } } } }"#,
    );
    let once = "B1 T3 B1 T3 P0[1] Y2.5";
    // The second round: back to the task's CPUs; lengths count on from the last wakeup.
    assert_eq!(life(&workload, "a"), format!("{once} P2.5[0-1] B3.5 T3 B1 T3 P0[1] Y2.5 E2.5"));
    assert_eq!(task(&workload, "a").params.unwrap().nice.get(), 5);
    assert!(workload.dropped.is_empty(), "{:?}", workload.dropped);
    assert_eq!(workload.version(), 1);
}

/// Found by fuzzing: phases that are done no times, in a task that loops for ever, never came to an end.
#[test]
fn phases_that_are_done_no_times_end_at_once() {
    let text = r#"{ "global": { "duration": 1 }, "tasks": { "t": { "phases": {
        "none": { "loop": 0, "run": 1000 }, "empty": { "loop": 3 } } } } }"#;
    assert_eq!(life(&read(text), "t"), "E0");
}

#[test]
fn timers_are_grids_and_end_with_the_duration() {
    let text = |mode: &str| {
        format!(
            r#"{{ "global": {{ "duration": 1 }}, "tasks": {{ "a": {{ "delay": 500000, "run": 2000,
                "timer": {{ "ref": "unique", "period": 200000{mode} }} }} }} }}"#
        )
    };
    // Starts at 500 ms, works at 500, 700, 900 ms, ends at the next activation.
    let relative = read(&text(""));
    assert_eq!(life(&relative, "a"), "G500 B2 g200 B2 g200 B2 g200 E0");
    let absolute = read(&text(r#", "mode": "absolute""#));
    assert_eq!(life(&absolute, "a"), "G500 B2 G200 B2 G200 B2 G200 E0");
    // Both forms on disk keep it.
    let again = parse_text("again", absolute.to_text().unwrap().as_bytes()).unwrap();
    assert_eq!(again, absolute);
    assert!(absolute.to_text().unwrap().starts_with("schedlab-workload 2\n"));
}

/// "unique" is a timer of the task's own: another task's "absolute" is not its mode.
#[test]
fn a_unique_timer_has_its_own_mode() {
    let text = r#"{ "tasks": {
        "a": { "loop": 1, "phases": { "p": {
            "run": 1000, "timer": { "ref": "unique", "period": 5000, "mode": "absolute" } } } },
        "b": { "loop": 1, "phases": { "p": { "run": 1000, "timer": { "ref": "unique", "period": 5000 } } } } } }"#;
    let workload = read(text);
    assert_eq!(life(&workload, "a"), "B1 G5 E0");
    assert_eq!(life(&workload, "b"), "B1 g5 E0");
}

#[test]
fn conditions_wake_and_signals_may_be_lost() {
    // a signals at 1 ms (b waits since 0) and at 3 ms (b computes until 4: lost); b waits again for ever.
    let workload = read(
        r#"{ "tasks": {
            "a": { "loop": 1, "phases": { "p": { "loop": 2, "run": 1000, "signal": "c", "sleep": 1000 } } },
            "b": { "loop": 2, "phases": { "p": { "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m",
                                                 "run": 3000 } } } } }"#,
    );
    assert_eq!(life(&workload, "a"), "B1 T1 B1 T1 E0");
    assert_eq!(life(&workload, "b"), "B0 <-a@0 B3");
    let dropped: Vec<(&str, u64)> = workload.dropped.iter().map(|(why, n)| (why.as_str(), *n)).collect();
    assert_eq!(
        dropped,
        [("signal that nobody waited for: it is lost, as with rt-app", 1), ("task that waits for ever", 1)]
    );
}

#[test]
fn a_mutex_is_an_object_that_excludes() {
    // ms   0    1    2    3    4    5
    // a    [aaaaaaaaaaaa] aaaaa             holds m from 0 to 2, and computes 1 ms more
    // b    bbbbb(waits)[bbbbb]              wants m at 1, gets it at 2 from a, holds it for 1
    let workload = read(
        r#"{ "tasks": {
            "a": { "loop": 1, "phases": { "p": { "lock": "m", "run0": 2000, "unlock": "m", "run1": 1000 } } },
            "b": { "loop": 1, "phases": { "p": { "run0": 1000, "lock": "m", "run1": 1000, "unlock": "m" } } } } }"#,
    );
    assert_eq!(life(&workload, "a"), "LOCK0 UNLOCK2 E3");
    assert_eq!(life(&workload, "b"), "LOCK1 UNLOCK2 E2");
    assert_eq!(workload.objects[0].kind, ObjectKind::Mutex(Handover::Competing));
    assert!(workload.dropped.is_empty(), "{:?}", workload.dropped);
}

#[test]
fn whoever_comes_back_from_a_condition_wants_the_mutex_again() {
    // c waits with m let go; s, who holds m for 2 ms, signals in the middle
    let workload = read(
        r#"{ "tasks": {
            "c": { "loop": 1, "phases": { "p": { "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m",
                                                 "run": 1000 } } },
            "s": { "loop": 1, "phases": { "p": { "run": 1000, "lock": "m", "run1": 1000, "signal": "c", "run2": 1000,
                                                 "unlock": "m" } } } } }"#,
    );
    assert_eq!(life(&workload, "s"), "LOCK1 UNLOCK3 E3");
    assert_eq!(life(&workload, "c"), "LOCK0 UNLOCK0 B0 <-s@1 LOCK0 UNLOCK0 E1");
}

#[test]
fn the_last_at_a_barrier_lets_the_others_on() {
    let workload = read(
        r#"{ "tasks": {
            "a": { "instance": 2, "loop": 1, "phases": { "p": { "run": 1000, "barrier": "x", "run1": 1000 } } },
            "b": { "loop": 1, "phases": { "p": { "run": 5000, "barrier": "x", "run1": 2000 } } } } }"#,
    );
    assert_eq!(life(&workload, "a-0"), "ARRIVE1 E2");
    assert_eq!(life(&workload, "a-1"), "ARRIVE1 E2");
    assert_eq!(life(&workload, "b"), "ARRIVE5 E7");
    assert_eq!(workload.objects[0].kind, ObjectKind::Barrier { parties: 3 });
}

#[test]
fn suspend_resume_sync_and_fork() {
    let workload = read(
        r#"{ "tasks": {
            "a": { "loop": 1, "phases": { "p": { "suspend", "run": 1000, "fork": "child" } } },
            "b": { "loop": 1, "phases": { "p": { "run": 2000, "resume": "a", "run1": 1000 } } },
            "child": { "instance": 0, "loop": 1, "phases": { "p": { "run": 4000 } } },
            "ping": { "loop": 2, "phases": { "p":
                { "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 1000 } } },
            "pong": { "loop": 2, "phases": { "p":
                { "run": 1000, "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m" } } }
        } }"#,
    );
    assert_eq!(life(&workload, "a"), "B0 <-b@1 F1:child E1");
    assert_eq!(life(&workload, "b"), "E3");
    assert_eq!(life(&workload, "child"), "E4");
    // ping waits at 0; pong wakes it at 1 and waits; ping runs to 2, wakes pong and waits; pong runs to 3, ...
    assert_eq!(life(&workload, "ping"), "B0 <-pong@0 B1 <-pong@0 E1");
    assert_eq!(life(&workload, "pong"), "B1 <-ping@0 B1");
}

#[test]
fn policies_and_groups() {
    let workload = read(
        r#"{ "global": { "default_policy": "SCHED_RR" }, "tasks": {
            "rr": { "loop": 1, "phases": { "p": { "run": 1000 },
                "q": { "policy": "SCHED_OTHER", "priority": 3, "run": 1000 } } },
            "dl": { "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000,
                "taskgroup": "/a/b", "loop": 1, "run": 1000 } },
            "comment": "ignored" }"#,
    );
    let rr = task(&workload, "rr").params.unwrap();
    assert_eq!((rr.policy.name(), rr.rt_priority), ("rr", 10));
    assert_eq!(life(&workload, "rr"), "P1[normal 3 0] E2");
    let deadline = task(&workload, "dl").params.unwrap().deadline.unwrap();
    let ms = |span: Span| span.as_ns() / 1_000_000;
    assert_eq!([ms(deadline.runtime), ms(deadline.deadline), ms(deadline.period)], [2, 10, 10]);
    let paths: Vec<&str> = workload.cgroups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["/a", "/a/b"]);
    assert_eq!(task(&workload, "dl").cgroup.unwrap().0, 1);
    // Without phases a task goes on for ever: 10 s of 1 ms.
    assert_eq!(task(&workload, "dl").cpu_demand(), Span::from_s(10));
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    for (text, parts) in [
        (
            r#"{ "tasks": { "a": { "run": "long" } } }"#,
            &["line 1, column 28", "\"run\" is \"long\"", "a whole number"][..],
        ),
        (r#"{ "tasks": { "a": { "run": -1 } } }"#, &["-1", "microseconds"]),
        (
            "{\n\"tasks\": { \"a\": { \"run\" 1 } } }",
            &["line 2, column 25", "\"1 } } }\"", ": after the key"],
        ),
        (r#"{ "tasks": { "a": { "policy": "SCHED_X", "run": 1 } } }"#, &["SCHED_X", "SCHED_FIFO"]),
        (r#"{ "tasks": { "a": { "policy": "SCHED_FIFO", "priority": 0, "run": 1 } } }"#, &["1 to 99"]),
        (r#"{ "tasks": { "a": { "policy": "SCHED_DEADLINE", "run": 1 } } }"#, &["dl-runtime"]),
        (
            r#"{ "tasks": { "a": { "fork": "b" } } }"#,
            &["\"fork\" of task \"a\"", "\"b\"", "the name of a task"],
        ),
        (r#"{ "tasks": { } }"#, &["\"tasks\" is an object", "at least one task"]),
        (r#"{ "global": { } }"#, &["a member \"tasks\""]),
        (r#"{ "tasks": { "a": { "cpus": [], "run": 1 } } }"#, &["\"cpus\"", "at least one CPU"]),
    ] {
        let error = parse_rtapp(Path::new("a.json"), text).unwrap_err().to_string();
        for part in parts.iter().chain(&["a.json, line"]) {
            assert!(error.contains(part), "{text}: \"{error}\" lacks \"{part}\"");
        }
    }
    let endless = r#"{ "tasks": { "a": { "signal": "x" } } }"#;
    let error = parse_rtapp(Path::new("a.json"), endless).unwrap_err();
    assert!(matches!(&error, RtAppError::NoTime { task, .. } if task == "a"), "{error}");
    // found by fuzzing: a thread that holds a mutex goes on after the end
    let locked = r#"{ "global": { "duration": 1 }, "tasks": { "a": { "run": 500, "lock": "m" } } }"#;
    let error = parse_rtapp(Path::new("a.json"), locked).unwrap_err();
    assert!(matches!(&error, RtAppError::NeverUnlocks { task, .. } if task == "a"), "{error}");
    // runs in a row are one event, however many: a million seconds of them are too many all the same
    let long = r#"{ "global": { "duration": 1000000 }, "tasks": { "a": { "run": 1 } } }"#;
    let error = parse_rtapp_within(Path::new("a.json"), long, Limits { events: 1_000_000, ..Limits::HELD })
        .unwrap_err();
    assert!(matches!(&error, RtAppError::TooLarge { .. }), "{error}");
    let many = r#"{ "global": { "duration": 100000 }, "tasks": { "a": { "run": 1, "sleep": 1 } } }"#;
    assert!(matches!(
        parse_rtapp_within(Path::new("a.json"), many, Limits { events: 10_000, ..Limits::HELD }).unwrap_err(),
        RtAppError::TooLarge { .. }
    ));
}

#[test]
fn what_cannot_be_expressed_is_counted() {
    let workload = read(
        r#"{ "global": { "pi_enabled": true }, "tasks": {
            "a": { "loop": 1, "phases": { "p": { "mem": 1000, "iorun": 5, "runtime": 1000, "util_min": 5,
                "timer": { "ref": "t", "period": 2000 }, "timer2": { "ref": "u", "period": 3000 } } } },
            "b": { "loop": 1, "phases": { "p": { "timer": { "ref": "t", "period": 2000 } } } } } }"#,
    );
    let reasons: Vec<&str> = workload.dropped.keys().map(String::as_str).collect();
    for part in [
        "pi_enabled",
        "\"mem\"",
        "\"iorun\"",
        "\"runtime\"",
        "\"util_min\"",
        "wait for a timer that other tasks use",
    ] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:?}");
    }
}

fn sample() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/rtapp/player.json"))
        .unwrap()
}

/// Real rt-app 1.0, recorded with samples/rtapp/player.json on a busy machine: its feeder blocked 101 times.
#[test]
fn the_sample_is_what_rt_app_runs() {
    let workload = read(&sample());
    let blocks = |name: &str| {
        let is_block = |event: &&schedlab_workload::Event| matches!(event.kind, EventKind::Block { .. });
        task(&workload, name).events.iter().filter(is_block).count()
    };
    // 2 s of 20 ms; the decoder waits once for each of the feeder's signals; the sink for each of the decoder's.
    assert_eq!((blocks("feeder"), blocks("decoder"), blocks("sink")), (100, 101, 101));
    assert_eq!(task(&workload, "feeder").cpu_demand(), Span::from_ms(50));
    assert_eq!(task(&workload, "decoder").cpu_demand(), Span::from_ms(400));
    assert_eq!(task(&workload, "worker-1").cpu_demand(), Span::from_ms(120));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_is_refused_or_gives_a_workload_that_keeps_the_rules(
        writes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~\n]{0,6}"), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut text = sample();
        for (at, new) in writes {
            let at = at.index(text.len());
            let end = (at + new.len()).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &new);
            }
        }
        if let Some(cut) = cut {
            let cut = cut.index(text.len());
            if text.is_char_boundary(cut) {
                text.truncate(cut);
            }
        }
        let limits = Limits { events: 20_000, ..Limits::HELD };
        if let Ok(workload) = parse_rtapp_within(Path::new("damaged.json"), &text, limits) {
            prop_assert_eq!(workload.check().map_err(|error| error.to_string()), Ok(()));
            prop_assert!(find_deadlock(&workload).is_none());
        }
    }
}
