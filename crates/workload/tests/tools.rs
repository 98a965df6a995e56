//! Tools: drawn examples, and what must hold for any workload.

mod common;

use proptest::prelude::*;
use schedlab_units::{Span, TaskId};
use schedlab_workload::stream::Source;
use schedlab_workload::tools::{Anonymise, Cut, Edit, Factor, Filter, Scale, Selector, collect, survey};
use schedlab_workload::{EventKind, InitState, Wakeup, Workload, find_deadlock, parse_text};
use std::collections::BTreeMap;

fn parsed(text: &str) -> Workload {
    let workload = parse_text("test", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    workload.check().unwrap();
    workload
}

/// What an edit makes of a workload: checked, and with the head that was promised.
fn done(source: &Source, edit: &mut dyn Edit) -> Workload {
    let workload = collect(source, edit).unwrap();
    assert_eq!(workload.nr_events(), edit.head().nr_events, "{}", workload.to_text().unwrap_or_default());
    workload.check().unwrap_or_else(|error| panic!("{error}\n{}", workload.to_text().unwrap_or_default()));
    // the same again in another pass, and in the text that is streamed
    assert_eq!(collect(source, edit).unwrap(), workload);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w");
    schedlab_workload::tools::save_edited(source, edit, &file, schedlab_workload::Form::Text).unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), workload.to_text().unwrap());
    workload
}

/// Events only, as text.
fn lines(workload: &Workload) -> String {
    let text = workload.to_text().unwrap();
    let lines = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    lines.collect::<Vec<_>>().join("\n")
}

fn keep(workload: &Workload, pids: &[u32]) -> Vec<bool> {
    Selector { pids: pids.to_vec(), ..Selector::default() }.rows(workload)
}

fn cpu(workload: &Workload) -> u128 {
    workload.tasks.iter().map(|task| u128::from(task.cpu_demand().as_ns())).sum()
}

// own time (ms)  0   1   2   3   4   5   6
// 1 make         R---F---P---R---w---------X     forks 2 and 3, sets 3's nice, wakes 2 at 4 (1 ms before its end)
// 2 cc1              RRRR----------RRRRX         born at 1
// 3 as           (goes)
const FAMILY: &str = "10 INIT 0 0 1 runnable name=make nice=5\n\
    11 FORK 1 1ms 2 name=cc1\n12 FORK 1 2ms 3 name=as\n13 PRIO 1 3ms nice=9 target=3\n14 EXIT 1 5ms\n\
    20 BLOCK 2 1ms\n21 WAKEUP 2 2ms 13 1 500us\n22 BLOCK 2 1ms\n23 WAKEUP 2 7ms 30 3 1ms\n24 EXIT 2 2ms\n\
    30 EXIT 3 6ms\n";

#[test]
fn unbound_tasks_may_run_on_every_cpu() {
    let text = "schedlab-workload 1\n\
        CGROUP /a cpuset=0-1\n\
        1 INIT 0 0 1 runnable affinity=0 cgroup=/a\n\
        2 PRIO 1 1ms affinity=1\n\
        3 PRIO 1 2ms nice=5\n\
        4 EXIT 1 3ms\n";
    let mut workload = parsed(text);
    let bound = workload.clone();
    assert_eq!(workload.unbind(), 3);
    assert_eq!(workload.tasks[0].affinity, None);
    assert_eq!(workload.cgroups[0].cpuset, None);
    assert_eq!(workload.nr_events(), bound.nr_events());
    assert_eq!(workload.unbind(), 0);
}

#[test]
fn a_filtered_task_leaves_external_wakeups_and_no_trace() {
    let workload = parsed(FAMILY);
    let source = Source::from(workload.clone());
    let mut edit = Filter::new(&source, &keep(&workload, &[1, 2])).unwrap();
    let left = done(&source, &mut edit);
    // 21 waited for 500 us before event 13, at 2.5 ms of make's CPU time: now 2.5 ms before event 14, at 5 ms
    assert_eq!(
        lines(&left),
        "10 INIT 0 0 1 runnable name=make policy=normal nice=5\n11 FORK 1 1ms 2 name=cc1\n14 EXIT 1 5ms\n\
         20 BLOCK 2 1ms\n21 WAKEUP 2 2ms 14 1 2500us\n22 BLOCK 2 1ms\n23 WAKEUP 2 7ms 0 0 0\n24 EXIT 2 2ms"
    );
    let counts: Vec<(&str, u64)> = left.dropped.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    assert_eq!(
        counts,
        [
            ("change of parameters of a task that was filtered out, left out", 1),
            ("task filtered out", 1),
            ("wakeup by a task that was filtered out, made external", 1)
        ]
    );
}

#[test]
fn a_filtered_parent_leaves_a_child_that_comes_by_itself() {
    let workload = parsed(FAMILY);
    let source = Source::from(workload.clone());
    let left = done(&source, &mut Filter::new(&source, &keep(&workload, &[2])).unwrap());
    // its nice value is the one it inherited, its identifier the FORK's
    assert_eq!(
        lines(&left),
        "11 INIT 0 0 2 blocked name=cc1 policy=normal nice=5\n31 WAKEUP 2 1ms 0 0 0\n20 BLOCK 2 1ms\n\
         21 WAKEUP 2 2ms 0 0 0\n22 BLOCK 2 1ms\n23 WAKEUP 2 7ms 0 0 0\n24 EXIT 2 2ms"
    );
    // a timer that was set for an instant since its birth is set for the same instant since the start
    let workload = parsed(
        "1 INIT 0 0 1 runnable\n2 FORK 1 4ms 2\n3 BLOCK 2 1ms\n4 WAKEUP 2 9ms absolute\n5 BLOCK 2 1ms\n\
            6 WAKEUP 2 9ms absolute\n",
    );
    let source = Source::from(workload.clone());
    let left = done(&source, &mut Filter::new(&source, &keep(&workload, &[2])).unwrap());
    assert_eq!(
        lines(&left),
        "2 INIT 0 0 2 blocked name=task-2\n7 WAKEUP 2 4ms 0 0 0\n3 BLOCK 2 1ms\n4 WAKEUP 2 13ms 0 0 0 absolute\n\
         5 BLOCK 2 1ms\n6 WAKEUP 2 9ms 0 0 0 absolute"
    );
    // a list that ended with a FORK of a task that goes ends with a BLOCK
    let workload = parsed(
        "1 INIT 0 0 1 runnable\n2 FORK 1 1ms 2\n3 FORK 1 2ms 3\n4 INIT 0 0 4 blocked\n5 WAKEUP 4 9ms 2 1 1ms\n",
    );
    let source = Source::from(workload.clone());
    let left = done(&source, &mut Filter::new(&source, &keep(&workload, &[1, 4])).unwrap());
    assert_eq!(
        lines(&left),
        "1 INIT 0 0 1 runnable name=task-1\n4 INIT 0 0 4 blocked name=task-4\n3 BLOCK 1 2ms\n5 WAKEUP 4 9ms 3 1 2ms"
    );
}

// own time (ms)  0    2    4    6    8    10   12   14
// 1              RRRRRRRRRR---------------RRRRRRRRRRRR      the picture in the module's documentation
// 2                   -----(by 1 at 3.5)RRRRX
// 3                                            RRRRX
const WINDOW: &str = "1 INIT 0 0 1 runnable\n2 INIT 0 0 2 blocked\n3 INIT 0 0 3 blocked\n\
    4 BLOCK 1 5ms\n5 WAKEUP 1 5ms\n6 EXIT 1 5ms\n7 WAKEUP 2 8ms 4 1 1500us\n8 EXIT 2 2ms\n9 WAKEUP 3 13ms\n\
    10 EXIT 3 1ms\n";

#[test]
fn a_window_takes_what_is_left_and_ends_with_a_block() {
    let cut = |from: u64, to: u64| {
        let source = Source::from(parsed(WINDOW));
        let mut edit = Cut::new(&source, Span::from_ms(from), Span::from_ms(to)).unwrap();
        let left = done(&source, &mut edit);
        let external = left.dropped.get("wakeup by another task from outside the window, made external");
        (lines(&left), external.copied().unwrap_or(0))
    };
    assert_eq!(
        cut(3, 12),
        (
            "1 INIT 0 0 1 runnable name=task-1\n2 INIT 0 0 2 blocked name=task-2\n4 BLOCK 1 2ms\n5 WAKEUP 1 5ms 0 0 0\n\
             6 BLOCK 1 2ms\n7 WAKEUP 2 5ms 4 1 1500us\n8 EXIT 2 2ms"
                .to_string(),
            0
        )
    );
    // 2 is woken from 3.5 ms on 1's clock, before the window
    assert_eq!(
        cut(4, 9),
        (
            "1 INIT 0 0 1 runnable name=task-1\n2 INIT 0 0 2 blocked name=task-2\n4 BLOCK 1 1ms\n\
             7 WAKEUP 2 4ms 0 0 0\n8 BLOCK 2 1ms"
                .to_string(),
            1
        )
    );
    // 1 is cut between the wakeup's place and the event that it precedes
    let text =
        "1 INIT 0 0 1 runnable\n2 INIT 0 0 2 blocked\n4 EXIT 1 5ms\n7 WAKEUP 2 1ms 4 1 3ms\n8 EXIT 2 2ms\n";
    let source = Source::from(parsed(text));
    let left = done(&source, &mut Cut::new(&source, Span::ZERO, Span::from_ms(4)).unwrap());
    assert_eq!(
        lines(&left),
        "1 INIT 0 0 1 runnable name=task-1\n2 INIT 0 0 2 blocked name=task-2\n4 BLOCK 1 4ms\n\
         7 WAKEUP 2 1ms 4 1 2ms\n8 EXIT 2 2ms"
    );
}

#[test]
fn settings_at_the_windows_begin_are_those_reached_by_then() {
    let text = "1 INIT 0 0 1 runnable nice=1\n2 INIT 0 0 2 runnable policy=batch\n\
        3 PRIO 1 1ms nice=3\n4 FORK 1 2ms 3\n5 PRIO 1 3ms policy=idle target=2\n6 PRIO 1 4ms nice=7 target=2\n\
        7 EXIT 1 9ms\n\
        8 EXIT 2 9ms\n9 BLOCK 3 9ms\n";
    let source = Source::from(parsed(text));
    let left = done(&source, &mut Cut::new(&source, Span::from_ms(5), Span::MAX).unwrap());
    assert_eq!(
        lines(&left),
        "1 INIT 0 0 1 runnable name=task-1 policy=normal nice=3\n2 INIT 0 0 2 runnable name=task-2 policy=idle nice=7\n\
         4 INIT 1 0 3 runnable name=task-3 policy=normal nice=3\n7 EXIT 1 4ms\n8 EXIT 2 4ms\n9 BLOCK 3 6ms"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_filter_keeps_the_rules_and_the_times(workload in common::workloads(), chosen in any::<u64>()) {
        let keep: Vec<bool> = (0..workload.tasks.len()).map(|row| chosen >> (row % 64) & 1 == 1).collect();
        let source = Source::from(workload.clone());
        let mut edit = Filter::new(&source, &keep).unwrap();
        let left = done(&source, &mut edit);
        let stays: Vec<&schedlab_workload::Task> =
            workload.tasks.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(task, _)| task).collect();
        prop_assert_eq!(left.tasks.len(), stays.len());
        for (old, new) in stays.iter().zip(&left.tasks) {
            prop_assert_eq!((old.pid, old.cpu_demand()), (new.pid, new.cpu_demand()));
            // whoever still depends on another is woken at the same place of the waker's life
            for event in &new.events {
                let EventKind::Wakeup(Wakeup::Dependent { event: deid, task, distance, .. }) = event.kind else {
                    continue;
                };
                let before = old.events.iter().find(|other| other.eid == event.eid).unwrap();
                let EventKind::Wakeup(Wakeup::Dependent {
                    event: old_deid, task: old_task, distance: old_distance, ..
                }) = before.kind
                else {
                    panic!("it became dependent")
                };
                let place = |w: &Workload, task: TaskId, deid, distance: Span| {
                    let task = w.task(task);
                    let at = task.events.iter().position(|event| event.eid == deid).unwrap();
                    let wakeups = task.events[..at].iter().filter(|e| matches!(e.kind, EventKind::Wakeup(_))).count();
                    // a child that comes by itself has one wakeup more
                    let first = task.events.first().is_some_and(|e| w.nr_events() > 0 && e.eid > source.head().eid_max);
                    (task.pid, wakeups - usize::from(first), task.events[at].kind.length().unwrap() - distance)
                };
                prop_assert_eq!(place(&left, task, deid, distance), place(&workload, old_task, old_deid, old_distance));
            }
        }
        if find_deadlock(&workload).is_none() {
            prop_assert_eq!(find_deadlock(&left), None);
        }
    }

    #[test]
    fn keeping_all_changes_nothing(workload in common::workloads()) {
        let source = Source::from(workload.clone());
        let all = vec![true; workload.tasks.len()];
        prop_assert_eq!(&done(&source, &mut Filter::new(&source, &all).unwrap()), &workload);
        prop_assert_eq!(&done(&source, &mut Scale::new(&source, &all, Factor::ONE, Factor::ONE)), &workload);
        let keep = ["*".to_string()];
        let named = done(&source, &mut Anonymise::new(&source, &keep));
        prop_assert_eq!(&named.tasks, &workload.tasks);
    }

    // Windows side by side hold all CPU time, none of it twice; each is a workload by itself.
    #[test]
    fn windows_share_out_the_cpu_time(workload in common::workloads(), at in any::<[u64; 2]>()) {
        let source = Source::from(workload.clone());
        let end = source.head().lives.iter().map(|life| life.end.as_ns()).max().unwrap_or(0);
        let mut at: Vec<u64> = at.iter().map(|at| at % (end + 2)).collect();
        at.sort_unstable();
        let bounds = [0, at[0], at[1], u64::MAX].map(Span::from_ns);
        let mut total = 0;
        for pair in bounds.windows(2) {
            let left = done(&source, &mut Cut::new(&source, pair[0], pair[1]).unwrap());
            total += cpu(&left);
            if find_deadlock(&workload).is_none() {
                prop_assert_eq!(find_deadlock(&left), None, "{}", left.to_text().unwrap());
            }
        }
        prop_assert_eq!(total, cpu(&workload));
    }

    #[test]
    fn any_factor_keeps_the_rules(
        workload in common::workloads(),
        n in 0u64..50,
        d in 1u64..50,
        chosen in any::<u64>(),
    ) {
        let source = Source::from(workload.clone());
        let rows: Vec<bool> = (0..workload.tasks.len()).map(|row| chosen >> (row % 64) & 1 == 1).collect();
        let factor: Factor = format!("{n}/{d}").parse().unwrap();
        let scaled = done(&source, &mut Scale::new(&source, &rows, factor, factor));
        for ((old, new), meant) in workload.tasks.iter().zip(&scaled.tasks).zip(rows) {
            for (old, new) in old.events.iter().zip(&new.events) {
                let expected = |span: Span| {
                    if meant { (u128::from(span.as_ns()) * u128::from(n) / u128::from(d)) as u64 } else { span.as_ns() }
                };
                prop_assert_eq!(old.kind.length().map(expected), new.kind.length().map(Span::as_ns));
            }
        }
    }
}

#[test]
fn names_go_and_families_stay() {
    let text = "NOTE source secret.dat\nNOTE \"recorded CPUs\" 2\nCGROUP /user\nCGROUP /user/alice\n\
        - INIT 0 0 1 runnable name=firefox cgroup=/user/alice\n- INIT 0 0 2 runnable name=\"Web Content\"\n\
        - INIT 0 0 3 runnable name=firefox\n- INIT 0 0 4 runnable name=kworker/0:1-secret kernel=yes\n\
        - INIT 0 0 5 runnable name=make\n- INIT 0 0 6 runnable name=kworker/0:9-liar\n";
    let source = Source::from(parsed(text));
    let mut edit = Anonymise::new(&source, &["ma*".into()]);
    let naming = edit.naming().clone();
    let given = done(&source, &mut edit);
    let names: Vec<&str> = given.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["program-1", "program-2", "program-1", "kworker/0:1", "make", "program-3"]);
    let paths: Vec<&str> = given.cgroups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["/group-1", "/group-1/group-2"]);
    assert_eq!(given.notes.keys().collect::<Vec<_>>(), ["recorded CPUs"]);
    let text = given.to_text().unwrap();
    for secret in ["firefox", "Web", "secret", "user", "alice", "liar"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert_eq!(naming.tasks["firefox"], "program-1");
    assert_eq!(naming.notes, ["source"]);
}

#[test]
fn a_survey_counts_what_is_there() {
    let workload = parsed(FAMILY);
    let expected_cpu = cpu(&workload);
    let source = Source::from(workload);
    let found = survey(&source, Some((TaskId(1), 10, 2))).unwrap();
    let events: BTreeMap<&str, u64> = found.events.into_iter().collect();
    let expected = [
        ("BLOCK", 2),
        ("EXIT", 3),
        ("FORK", 2),
        ("INIT", 1),
        ("OBJECT", 0),
        ("PRIO", 1),
        ("WAKEUP", 2),
        ("YIELD", 0),
    ];
    assert_eq!(events, BTreeMap::from(expected));
    assert_eq!(u128::from(found.cpu.as_ns()), expected_cpu);
    assert_eq!((found.dependent, found.timers, found.blocked), (2, 0, Span::from_ms(9)));
    // cc1: born at 1 ms; RR.. 1 ms, 2 ms of sleep, 1 ms, 7 ms, 2 ms: 13 ms in 10 columns of 1.3 ms
    let life = found.life.unwrap();
    assert_eq!((life.from, life.to), (Span::from_ms(1), Span::from_ms(14)));
    let columns: Vec<u64> = life.columns.iter().map(|column| column.cpu.as_ns() / 1000).collect();
    assert_eq!(columns, [1000, 0, 900, 100, 0, 0, 0, 0, 700, 1300]);
    assert!(life.columns[9].exit && life.columns[2].woken == 1);
    assert_eq!(life.woken_by, BTreeMap::from([(TaskId(0), 1), (TaskId(2), 1)]));
    assert_eq!(
        life.first.iter().map(|(at, event)| (at.as_ns(), event.eid.0)).collect::<Vec<_>>(),
        [(2_000_000, 20), (4_000_000, 21)]
    );
    assert_eq!(life.runs.mean(), Span::from_ns(4_000_000 / 3));
    let _ = InitState::Blocked;
}
