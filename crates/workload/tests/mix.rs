//! Mixes: several workloads as one, nothing collides, and every mistake is shown where it stands.

mod common;

use proptest::prelude::*;
use schedlab_workload::mix::Mix;
use schedlab_workload::{EventKind, InitState, Wakeup, Workload, find_deadlock, parse_text};
use std::path::Path;

const A: &str = "CGROUP /g weight=50\n1 INIT 0 0 1 runnable name=make nice=3\n2 FORK 1 1ms 2 name=cc1 cgroup=/g\n\
    3 EXIT 1 2ms\n\
    4 BLOCK 2 1ms\n5 WAKEUP 2 3ms\n6 EXIT 2 1ms\n";
const B: &str = "1 INIT 0 0 1 runnable name=ping\n2 INIT 0 0 12 blocked name=pong\n3 INIT 0 0 3 blocked name=late\n\
    4 EXIT 1 5ms\n5 WAKEUP 12 0 4 1 2ms\n6 EXIT 12 1ms\n7 WAKEUP 3 4ms\n8 PRIO 3 1ms nice=7 target=1\n9 EXIT 3 1ms\n";

fn load(path: &Path) -> Result<Workload, String> {
    let text = match path.to_str() {
        Some("a") => A,
        Some("b") => B,
        _ => return Err(format!("{}: not there", path.display())),
    };
    Ok(parse_text("part", text.as_bytes()).unwrap())
}

fn try_mix(toml: &str) -> Result<Workload, String> {
    let mix = Mix::parse(Path::new("mix.toml"), toml).map_err(|error| error.to_string())?;
    mix.build(&mut load).map_err(|error| error.to_string())
}

fn mixed(toml: &str) -> Workload {
    let workload = try_mix(toml).unwrap_or_else(|error| panic!("{error}"));
    workload.check().unwrap();
    assert_eq!(find_deadlock(&workload), None);
    workload
}

/// All but the header and the notes.
fn lines(workload: &Workload) -> String {
    let text = workload.to_text().unwrap();
    let lines = text.lines().skip(1).filter(|line| !line.starts_with("NOTE"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn parts_keep_to_themselves() {
    // pids 1 are taken: the second part's go up by a hundred, all of them
    assert_eq!(
        lines(&mixed("[[part]]\nworkload = 'a'\n[[part]]\nworkload = 'b'\nstart = '10ms'\n")),
        "CGROUP /g weight=50\n\
         1 INIT 0 0 1 runnable name=make policy=normal nice=3\n\
         7 INIT 0 0 101 blocked name=ping\n8 INIT 0 0 112 blocked name=pong\n9 INIT 0 0 103 blocked name=late\n\
         2 FORK 1 1ms 2 name=cc1 cgroup=/g row=1\n3 EXIT 1 2ms\n4 BLOCK 2 1ms\n5 WAKEUP 2 3ms 0 0 0\n6 EXIT 2 1ms\n\
         16 WAKEUP 101 10ms 0 0 0\n10 EXIT 101 5ms\n\
         11 WAKEUP 112 10ms 10 101 2ms\n12 EXIT 112 1ms\n\
         13 WAKEUP 103 14ms 0 0 0\n14 PRIO 103 1ms nice=7 target=101\n15 EXIT 103 1ms"
    );
}

#[test]
fn copies_begin_one_after_the_other_each_in_its_group() {
    let toml = "[[part]]\nworkload = 'a'\ncopies = 2\nevery = '1s'\nprefix = 's{copy}/'\ncgroup_root = '/s{copy}'\n\
        [[cgroup]]\npath = '/s2'\nweight = 400\nmax = '20ms/50ms'\ncpuset = '0-3'\n";
    assert_eq!(
        lines(&mixed(toml)),
        "CGROUP /s2 weight=400 max=20ms/50ms cpuset=0-3\nCGROUP /s1\nCGROUP /s1/g weight=50\nCGROUP /s2/g weight=50\n\
         1 INIT 0 0 1 runnable name=s1/make policy=normal nice=3 cgroup=/s1\n\
         7 INIT 0 0 11 blocked name=s2/make policy=normal nice=3 cgroup=/s2\n\
         2 FORK 1 1ms 2 name=s1/cc1 cgroup=/s1/g row=1\n3 EXIT 1 2ms\n4 BLOCK 2 1ms\n5 WAKEUP 2 3ms 0 0 0\n\
         6 EXIT 2 1ms\n\
         13 WAKEUP 11 1s 0 0 0\n8 FORK 11 1ms 12 name=s2/cc1 cgroup=/s2/g row=3\n9 EXIT 11 2ms\n\
         10 BLOCK 12 1ms\n11 WAKEUP 12 3ms 0 0 0\n12 EXIT 12 1ms"
    );
}

// repeat          w w w .  wX
// ping            RRRRR    RRRRR        the second one begins when ping, pong and late of the first have all ended
#[test]
fn what_is_repeated_begins_when_all_before_it_has_ended() {
    let workload = mixed("[[part]]\nworkload = 'b'\nrepeat = 3\n");
    let names: Vec<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["ping", "pong", "late", "repeat", "ping", "pong", "late", "ping", "pong", "late"]);
    let text = workload.to_text().unwrap();
    let of = |pid: u32| -> Vec<String> {
        let mine = |line: &&str| line.split(' ').nth(2) == Some(&pid.to_string()) && !line.contains("INIT");
        text.lines().filter(mine).map(|line| line.split_once(' ').unwrap().1.to_string()).collect()
    };
    // the conductor waits for the three ends, then for the next three
    let waits = [4, 6, 9].map(|eid| eid.to_string());
    let pid = workload.tasks[3].pid;
    let conducted = of(pid);
    assert_eq!(conducted.len(), 12);
    for (i, deid) in waits.iter().enumerate() {
        assert_eq!(conducted[2 * i].split(' ').nth(3), Some(deid.as_str()), "{conducted:?}");
        assert_eq!(conducted[2 * i + 1], format!("BLOCK {pid} 0"));
    }
    assert_eq!(conducted[11], format!("EXIT {pid} 0"));
    // whoever was there from the start waits for it; whom another task wakes does not; who slept first sleeps then
    let gate = workload.tasks[3].events[5].eid.0;
    let second: Vec<Vec<String>> = workload.tasks[4..7].iter().map(|task| of(task.pid)).collect();
    assert_eq!(second[0][0], format!("WAKEUP {} 0 {gate} {pid} 0", workload.tasks[4].pid));
    assert!(
        second[1][0].starts_with(&format!("WAKEUP {} 0 ", workload.tasks[5].pid))
            && !second[1][0].contains(&format!(" {pid} "))
    );
    let late = workload.tasks[6].pid;
    assert_eq!(
        second[2][..3],
        [
            format!("WAKEUP {late} 0 {gate} {pid} 0"),
            format!("BLOCK {late} 0"),
            format!("WAKEUP {late} 4ms 0 0 0")
        ]
    );
    assert!(
        workload.tasks[4..].iter().all(|task| matches!(
            task.birth,
            schedlab_workload::Birth::Init { state: InitState::Blocked, .. }
        ))
    );
}

#[test]
fn overrides_hold_whatever_the_workload_changes_later() {
    let toml = "[[part]]\nworkload = 'b'\nnice = 5\naffinity = '1'\n\
        [[part.task]]\nname = 'p*ng'\npolicy = 'rr'\nprio = 7\n[[part.task]]\npid = [12, 3]\ncgroup = '/x/y'\n\
        affinity = '0'\n";
    assert_eq!(
        lines(&mixed(toml)),
        "CGROUP /x\nCGROUP /x/y\n\
         1 INIT 0 0 1 runnable name=ping policy=rr nice=5 prio=7 affinity=1\n\
         2 INIT 0 0 12 blocked name=pong policy=rr nice=5 prio=7 affinity=0 cgroup=/x/y\n\
         3 INIT 0 0 3 blocked name=late policy=normal nice=5 affinity=0 cgroup=/x/y\n\
         4 EXIT 1 5ms\n5 WAKEUP 12 0 4 1 2ms\n6 EXIT 12 1ms\n7 WAKEUP 3 4ms 0 0 0\n8 PRIO 3 1ms nice=5 target=1\n\
         9 EXIT 3 1ms"
    );
    // a child inherits what its parent got, and what it alone gets is stated
    let inherit = mixed("[[part]]\nworkload = 'a'\n[[part.task]]\nname = 'make'\nnice = 9\n");
    assert_eq!(inherit.tasks[1].params, None);
    let alone = mixed("[[part]]\nworkload = 'a'\n[[part.task]]\nname = 'cc1'\npolicy = 'batch'\n");
    let params = alone.tasks[1].params.unwrap();
    assert_eq!((params.policy.name(), params.nice.get()), ("batch", 3));
    assert_eq!(alone.tasks[0].params.unwrap().policy.name(), "normal");
    let both = mixed(
        "[[part]]\nworkload = 'a'\nnice = 9\n[[part.task]]\nname = 'make'\nchildren = true\nnice = 4\n",
    );
    assert_eq!((both.tasks[0].params.unwrap().nice.get(), both.tasks[1].params), (4, None));
}

#[test]
fn windows_factors_and_limits_apply_before_all_else() {
    // b from 1 ms to 4.5 ms: ping's next 3.5 ms; pong, recorded as woken at once, ends at 1 ms; late's first
    // half millisecond
    let window = mixed("[[part]]\nworkload = 'b'\nfrom = '1ms'\nto = '4500us'\ncpu_scale = 2\n");
    assert_eq!(
        lines(&window),
        "1 INIT 0 0 1 runnable name=ping\n2 INIT 0 0 12 runnable name=pong\n3 INIT 0 0 3 blocked name=late\n\
         4 BLOCK 1 7ms\n6 EXIT 12 0\n7 WAKEUP 3 3ms 0 0 0\n8 BLOCK 3 1ms"
    );
    // ping ends after 2 ms, where it was to wake pong after 3
    let limited = mixed("[[part]]\nworkload = 'b'\ncpu_limit = '2ms'\nsleep_scale = 0.5\n");
    assert_eq!(
        lines(&limited),
        "DROPPED 1 \"task ended at its CPU limit\"\nDROPPED 1 \"wakeup by a task that has ended at its CPU limit, \
            made external\"\n\
         1 INIT 0 0 1 runnable name=ping\n2 INIT 0 0 12 blocked name=pong\n3 INIT 0 0 3 blocked name=late\n\
         4 EXIT 1 2ms\n5 WAKEUP 12 0 0 0 0\n6 EXIT 12 1ms\n7 WAKEUP 3 2ms 0 0 0\n8 PRIO 3 1ms nice=7 target=1\n\
         9 EXIT 3 1ms"
    );
    // make ends before it forks
    let childless = mixed("[[part]]\nworkload = 'a'\n[[part.task]]\nname = 'make'\ncpu_limit = '500us'\n");
    assert_eq!(childless.tasks.len(), 1);
    assert_eq!(childless.dropped["task whose parent ended at its CPU limit before it, left out"], 1);
}

#[test]
fn a_generator_may_stand_for_a_workload() {
    let toml = "duration = '2s'\n[[part]]\ngenerate = { kind = 'hogs', nices = [0, 5], cpu = '1s' }\n[[part]]\n\
        workload = 'b'\n";
    assert_eq!(Mix::parse(Path::new("m"), toml).unwrap().duration, Some("2s".parse().unwrap()));
    let names: Vec<String> =
        mixed(toml).tasks.iter().map(|task| format!("{} {}", task.pid, task.name)).collect();
    assert_eq!(names, ["1 hog+0", "2 hog+5", "101 ping", "112 pong", "103 late"]);
}

#[test]
fn every_mistake_is_shown_where_it_stands() {
    for (toml, says) in [
        ("", "mix.toml:1:1: the mix has no part"),
        ("[[part]]\n", "mix.toml:1:1: '[[part]]': a part needs workload"),
        ("[[part]\n", "mix.toml:1:"),
        (
            "[[part]]\nworkload = 'a'\nnice = 21\n",
            "mix.toml:3:8: '21': expected a nice value, -20 to 19\n  3 | nice = 21\n    |        ^^",
        ),
        (
            "[[part]]\nworkload = 'a'\nstrat = '1s'\n",
            "mix.toml:3:1: 'strat': no such field; did you mean start?",
        ),
        (
            "[[part]]\nworkload = 'a'\ncolour = 'red'\n",
            "mix.toml:3:1: 'colour': expected workload, generate, start",
        ),
        ("durations = '1s'\n[[part]]\nworkload = 'a'\n", "did you mean duration?"),
        ("[part]\nworkload = 'a'\n", "expected tables: [[part]]"),
        ("[[part]]\nworkload = 7\n", "mix.toml:2:12: '7': expected a text"),
        (
            "[[part]]\nworkload = 'gone'\n",
            "mix.toml:2:13: 'gone': gone: not there\n  2 | workload = 'gone'\n    |             ^^^^",
        ),
        ("[[part]]\nworkload = 'a'\ngenerate = { kind = 'hogs' }\n", "either workload or generate"),
        (
            "[[part]]\ngenerate = { kind = 'hogs', nice = [0] }\n",
            "mix.toml:2:29: 'nice': unknown field `nice`",
        ),
        ("[[part]]\ngenerate = { kind = 'frogs' }\n", "kind \"frogs\" is not known"),
        ("[[part]]\ngenerate = { kind = 'hackbench', senders = 0 }\n", "senders = 0; expected 1 or more"),
        ("[[part]]\nworkload = 'a'\nstart = 'soon'\n", "mix.toml:3:10: 'soon': expected a length of time"),
        ("[[part]]\nworkload = 'a'\nstart = 1.5\n", "expected a length of time"),
        ("[[part]]\nworkload = 'a'\ncopies = 0\n", "expected how often, 1 to 1000000"),
        ("[[part]]\nworkload = 'a'\nevery = '1s'\n", "there is only one; add copies = N"),
        (
            "[[part]]\nworkload = 'a'\nfrom = '2s'\nto = '1s'\n",
            "mix.toml:4:7: '1s': expected a time after from, 2s",
        ),
        ("[[part]]\nworkload = 'a'\nfrom = '2s'\n", "mix.toml:1:1: '[[part]]': nothing happens from 2s"),
        ("[[part]]\nworkload = 'a'\nprio = 5\n", "makes sense only with policy = \"fifo\""),
        (
            "[[part]]\nworkload = 'a'\npolicy = 'fifo'\n",
            "mix.toml:3:11: 'fifo': policy fifo with real-time priority 0; expected prio=1",
        ),
        (
            "[[part]]\nworkload = 'a'\npolicy = 'deadline'\nruntime = '5ms'\nperiod = '4ms'\n",
            "runtime <= deadline <= period",
        ),
        ("[[part]]\nworkload = 'a'\npolicy = 'best'\n", "expected normal, batch, idle"),
        ("[[part]]\nworkload = 'a'\naffinity = ''\n", "expected a list of CPUs"),
        ("[[part]]\nworkload = 'a'\ncgroup = 'x'\n", "expected the path of a control group"),
        ("[[part]]\nworkload = 'a'\ncpu_scale = 'two'\n", "expected a factor"),
        (
            "[[part]]\nworkload = 'a'\n[[part.task]]\nnice = 1\n",
            "mix.toml:3:1: '[[part.task]]': which tasks?",
        ),
        (
            "[[part]]\nworkload = 'a'\n[[part.task]]\nname = 'cc2'\n",
            "mix.toml:3:1: '[[part.task]]': no task of the workload fits this",
        ),
        ("[[part]]\nworkload = 'a'\n[[part.task]]\nname = []\n", "the list is empty"),
        ("[[part]]\nworkload = 'a'\n[[cgroup]]\nweight = 5\n", "a group needs path"),
        ("[[part]]\nworkload = 'a'\n[[cgroup]]\npath = '/a'\nweight = 0\n", "expected a weight, 1 to 10000"),
        ("[[part]]\nworkload = 'a'\n[[cgroup]]\npath = '/a'\nmax = '1us'\n", "a quota of at least 1ms"),
        (
            "[[part]]\nworkload = 'a'\n[[cgroup]]\npath = '/a'\n[[cgroup]]\npath = '/a'\n",
            "mix.toml:6:9: '/a': this group stands here twice",
        ),
        (
            "[[part]]\nworkload = 'a'\ncopies = 1000000\nrepeat = 1000\n",
            "mix.toml:3:10: '1000000': this makes 2000000000 tasks; a workload may have 1000000 in memory",
        ),
        ("[[part]]\nworkload = 'a'\ncopies = 3\nevery = '18446744073s'\n", "more than 2^64 ns"),
    ] {
        let message = try_mix(toml).expect_err(toml);
        assert!(message.contains(says), "{toml}\n{message}\nexpected: {says}");
    }
}

#[test]
fn timers_for_an_instant_and_groups_with_two_settings_are_refused() {
    // timers for an instant count from the start: later copies set the first one later, repetitions cannot
    let clock = |_: &Path| {
        let text = "- INIT 0 0 1 runnable\n- BLOCK 1 1ms\n- WAKEUP 1 5ms absolute\n- BLOCK 1 1ms\n\
            - WAKEUP 1 5ms absolute\n- EXIT 1 0\n";
        Ok(parse_text("part", text.as_bytes()).unwrap())
    };
    let build = |toml: &str| Mix::parse(Path::new("m"), toml).unwrap().build(&mut { clock });
    let later = build("[[part]]\nworkload = 'w'\nstart = '3ms'\n").unwrap();
    assert_eq!(
        lines(&later).lines().skip(1).collect::<Vec<_>>(),
        [
            "7 WAKEUP 1 3ms 0 0 0",
            "2 BLOCK 1 1ms",
            "3 WAKEUP 1 8ms 0 0 0 absolute",
            "4 BLOCK 1 1ms",
            "5 WAKEUP 1 5ms 0 0 0 absolute",
            "6 EXIT 1 0"
        ]
    );
    let message = build("[[part]]\nworkload = 'w'\nrepeat = 2\n").unwrap_err().to_string();
    assert!(message.contains("m:3:10: '2': this workload sets timers for an instant"), "{message}");
    // the same group with other settings: merged only if they are the same
    let load = |path: &Path| {
        let weight = if path == Path::new("a") { 50 } else { 60 };
        let text = format!("CGROUP /g weight={weight}\n- INIT 0 0 1 runnable cgroup=/g\n");
        Ok(parse_text("part", text.as_bytes()).unwrap())
    };
    let build = |toml: &str| Mix::parse(Path::new("m"), toml).unwrap().build(&mut { load });
    let message = build("[[part]]\nworkload = 'a'\n[[part]]\nworkload = 'b'\n").unwrap_err().to_string();
    assert!(
        message.contains("m:4:13: 'b': group /g has other settings here") && message.contains("cgroup_root"),
        "{message}"
    );
    let stated =
        build("[[part]]\nworkload = 'a'\n[[part]]\nworkload = 'b'\n[[cgroup]]\npath = '/g'\nweight = 7\n")
            .unwrap();
    assert_eq!(stated.cgroups[0].weight, Some(7));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // Whatever is mixed, every copy does what the workload does, and the whole keeps the rules.
    #[test]
    fn copies_of_anything_are_that_thing(
        seed in any::<u64>(),
        size in 1..10u64,
        copies in 1..4usize,
        start in 0..3u64,
    ) {
        let workload = common::workload(seed, size);
        prop_assume!(!workload.tasks.is_empty());
        let toml = format!("[[part]]\nworkload = 'w'\ncopies = {copies}\nstart = '{start}s'\n");
        let mix = Mix::parse(Path::new("m"), &toml).unwrap();
        let whole = match mix.build(&mut |_| Ok(workload.clone())) {
            Ok(whole) => whole,
            Err(error) => panic!("{error}"),
        };
        whole.check().unwrap();
        let nr = workload.tasks.len();
        prop_assert_eq!(whole.tasks.len(), nr * copies);
        if find_deadlock(&workload).is_none() {
            prop_assert_eq!(find_deadlock(&whole), None);
        }
        for (row, task) in whole.tasks.iter().enumerate() {
            let old = &workload.tasks[row % nr];
            prop_assert_eq!((&task.name, task.cpu_demand(), &task.params), (&old.name, old.cpu_demand(), &old.params));
            let inserted = task.events.len() - old.events.len();
            prop_assert!(inserted <= 1);
            for (new, old) in task.events[inserted..].iter().zip(&old.events) {
                prop_assert_eq!(new.kind.length(), old.kind.length());
                if let EventKind::Wakeup(Wakeup::Dependent { task: waker, .. }) = &new.kind
                    && let EventKind::Wakeup(Wakeup::Dependent { task: old_waker, .. }) = &old.kind
                {
                    // within its own copy
                    prop_assert_eq!((waker.index() / nr, waker.index() % nr), (row / nr, old_waker.index()));
                }
            }
        }
    }
}
