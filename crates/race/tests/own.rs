//! C files of one's own: what is found, how it is called, and that it repeats.

mod common;

use schedlab_race::compile::own_target;
use schedlab_race::explore::{Explored, Finding, Plan};
use schedlab_race::{MemoryModel, RaceError, Scenario, Schedule, Strategy};
use std::path::{Path, PathBuf};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/race/lowest.c")
}

fn plan_of(path: &Path, defines: &[&str], model: MemoryModel, strategy: Strategy) -> Plan {
    let defines: Vec<String> = defines.iter().map(|d| (*d).to_owned()).collect();
    common::plan_of(own_target(path, &defines).unwrap(), model, strategy, 3000)
}

fn own_scenario(plan: &Plan) -> Scenario {
    Scenario::parse("own", &plan.describe().unwrap().1.unwrap()).unwrap()
}

/// The rivals of cpudeadline.c: what must hold holds, and a search that does not look again is found out.
#[test]
fn rivals_are_right_and_one_that_looks_once_is_not() {
    let folder = sample().parent().unwrap().to_owned();
    let broken = tempfile::tempdir().unwrap();
    for name in ["latest.h", "heap.h", "heap.c", "skiplist.c", "combining.c"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let looks_once = text.replace("if (!(before & 1) && sequence == before)", "if (before == before)");
        assert_eq!(text != looks_once, name == "latest.h");
        std::fs::write(broken.path().join(name), looks_once).unwrap();
    }
    for name in ["push_pull.c", "queue_heap.c", "queue_rbtree.c"] {
        for model in [MemoryModel::Sc, MemoryModel::Lkmm] {
            let plan = plan_of(&folder.join(name), &[], model, Strategy::Mix);
            let explored = plan.explore(&own_scenario(&plan)).unwrap();
            assert_eq!(kinds(&explored), Vec::<&str>::new(), "{name}, {}", model.name());
        }
    }
    for name in ["heap.c", "skiplist.c", "combining.c"] {
        for model in [MemoryModel::Sc, MemoryModel::Lkmm] {
            let plan = plan_of(&folder.join(name), &[], model, Strategy::Mix);
            let explored = plan.explore(&own_scenario(&plan)).unwrap();
            assert_eq!(kinds(&explored), Vec::<&str>::new(), "{name}, {}", model.name());
        }
        let plan = plan_of(&broken.path().join(name), &[], MemoryModel::Sc, Strategy::Mix);
        let explored = plan.explore(&own_scenario(&plan)).unwrap();
        let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
        let none = "find() returns none, and a CPU had a later deadline during the whole call";
        assert!(texts.contains(&none), "{name}: {texts:?}");
        // what a file includes is a part of it
        let whole = own_target(&folder.join(name), &[]).unwrap();
        assert_ne!(plan.compiled.key, whole.key, "{name}");
    }
}

/// A target from its functions and its scenario.
fn made(dir: &tempfile::TempDir, body: &str, scenario: &str) -> PathBuf {
    let path = dir.path().join("made.c");
    let rest = if body.contains("void rest(void)") { ".rest = rest, " } else { "" };
    let text = format!(
        "#include <schedlab_race.h>\n#include <stdatomic.h>\n#include <stddef.h>\n{body}\n\
         RACE_TARGET(.name = \"made\", .ops = ops, {rest} .scenario = \"{}\");\n",
        scenario.replace('\n', "\\n")
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn explore_made(body: &str, scenario: &str, model: MemoryModel, strategy: Strategy) -> Explored {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan_of(&made(&dir, body, scenario), &[], model, strategy);
    plan.explore(&own_scenario(&plan)).unwrap()
}

fn kinds(explored: &Explored) -> Vec<&str> {
    explored.findings.iter().map(|f| f.kind.as_str()).collect()
}

#[test]
fn the_worked_example_has_a_bug_and_the_mended_one_has_none() {
    let plan = plan_of(&sample(), &[], MemoryModel::Sc, Strategy::Mix);
    let scenario = own_scenario(&plan);
    let explored = plan.explore(&scenario).unwrap();
    assert_eq!(explored.schedules, 3000);
    let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
    assert_eq!(texts, ["find() returns none, and a CPU was lower during the whole call"]);
    let mended = plan_of(&sample(), &["MENDED"], MemoryModel::Sc, Strategy::Mix);
    assert_eq!(mended.explore(&scenario).unwrap().findings, []);
}

#[test]
fn the_result_does_not_depend_on_the_number_of_processes() {
    let plan = plan_of(&sample(), &[], MemoryModel::Sc, Strategy::Mix);
    let scenario = own_scenario(&plan);
    let of = |jobs| Plan { jobs, ..plan.clone() }.explore(&scenario).unwrap().findings;
    assert_eq!(of(1), of(3));
}

#[test]
fn a_shrunk_schedule_repeats_to_the_byte_in_other_processes() {
    let plan = plan_of(&sample(), &[], MemoryModel::Sc, Strategy::Mix);
    let explored = plan.explore(&own_scenario(&plan)).unwrap();
    let shrunk = plan.shrink(&explored.findings[0]).unwrap();
    assert!(shrunk.scenario.nr_calls() <= 3, "{}", shrunk.scenario.text);
    assert!(shrunk.preemptions <= 2, "{}", plan.schedule(&shrunk, Vec::new()));
    let text = plan.schedule(&shrunk, Vec::new()).to_string();
    let again = Schedule::parse("text", &text).unwrap();
    let scenario = Scenario::parse(&again.scenario.0, &again.scenario.1).unwrap();
    let replayed = || {
        let (finding, story) = plan.replay(&scenario, &again.choices, "").unwrap();
        (finding.map(|f: Finding| f.text), story.text(), story.html("t"))
    };
    let (first, second) = (replayed(), replayed());
    assert_eq!(first, second);
    assert_eq!(first.0.as_deref(), Some("find() returns none, and a CPU was lower during the whole call"));
    assert!(first.1.contains("lowest.c:"), "{}", first.1);
}

const TWO_LOCKS: &str = "static unsigned int a, b;
static long both(unsigned int *p, unsigned int *q)
{ race_lock(p); race_lock(q); race_unlock(q); race_unlock(p); return 0; }
static long ab(int cpu, const long *x, int n) { return both(&a, &b); }
static long ba(int cpu, const long *x, int n) { return both(&b, &a); }
static const struct race_op ops[] = { { \"ab\", ab, \"\", 0 }, { \"ba\", ba, \"\", 0 }, { NULL } };";

#[test]
fn locks_in_two_orders_are_a_deadlock_with_who_waits_for_whom() {
    let explored = explore_made(TWO_LOCKS, "cpus 2\ncpu0 ab\ncpu1 ba\n", MemoryModel::Sc, Strategy::Dpor);
    assert!(explored.is_complete);
    let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
    let wanted = "cpu0 waits for the lock b that cpu1 holds; cpu1 waits for the lock a that cpu0 holds";
    assert_eq!((kinds(&explored), texts), (vec!["deadlock"], vec![wanted]));
    let same = explore_made(TWO_LOCKS, "cpus 2\ncpu0 ab\ncpu1 ab\n", MemoryModel::Sc, Strategy::Dpor);
    assert!(same.is_complete && same.findings.is_empty());
}

#[test]
fn sleeping_after_a_look_loses_the_wakeup_and_sleeping_as_the_kernel_does_not() {
    let body = |wait: &str| {
        format!(
            "static _Atomic int ready;
static long wait(int cpu, const long *x, int n) {{ {wait} return 0; }}
static long wake(int cpu, const long *x, int n) {{ ready = 1; race_wake(0); return 0; }}
static const struct race_op ops[] = {{ {{ \"wait\", wait, \"\", 0 }}, {{ \"wake\", wake, \"\", 0 }}, {{ NULL }} }};"
        )
    };
    let scenario = "cpus 2\ncpu0 wait\ncpu1 wake\n";
    let wrong = body("if (!ready) { race_will_sleep(); race_sleep(); }");
    let right = body("race_will_sleep(); if (!ready) race_sleep(); else race_awake();");
    for model in [MemoryModel::Sc, MemoryModel::Lkmm] {
        assert_eq!(kinds(&explore_made(&wrong, scenario, model, Strategy::Mix)), ["lost_wakeup"]);
        assert!(explore_made(&right, scenario, model, Strategy::Mix).findings.is_empty());
    }
}

#[test]
fn cpus_that_wait_for_each_other_in_loops_are_a_livelock() {
    let body = "static _Atomic int flag[2];
static long meet(int cpu, const long *x, int n) { while (!flag[1 - cpu]) race_relax(); flag[cpu] = 1; return 0; }
static const struct race_op ops[] = { { \"meet\", meet, \"\", 0 }, { NULL } };";
    let explored = explore_made(body, "cpus 2\ncpu0 meet\ncpu1 meet\n", MemoryModel::Sc, Strategy::Mix);
    assert_eq!(kinds(&explored), ["livelock"]);
    assert_eq!(explored.findings[0].times, 3000);
}

#[test]
fn bad_pointers_and_memory_that_was_given_back_are_findings() {
    let body = "static int *shared;
static long publish(int cpu, const long *x, int n) { shared = race_alloc(4); race_free(shared); return 0; }
static long use(int cpu, const long *x, int n) { int *p = shared; return *p; }
static const struct race_op ops[] = { { \"publish\", publish, \"\", 0 }, { \"use\", use, \"\", 0 }, { NULL } };";
    let explored = explore_made(body, "cpus 2\ncpu0 publish\ncpu1 use\n", MemoryModel::Sc, Strategy::Mix);
    let mut found: Vec<(&str, &str)> =
        explored.findings.iter().map(|f| (f.kind.as_str(), f.text.as_str())).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [("crash", "a bad pointer (SIGSEGV)"), ("invariant", "access to memory that was given back")]
    );
}

/// Store buffering and message passing, as every model of memory has them: which outcomes there are.
fn outcomes(left: &str, right: &str, bad: &str, model: MemoryModel) -> bool {
    let body = format!(
        "static int x, y, r0, r1, r2;
#define ONCE(v) (*(volatile int *)&(v))
static long left(int cpu, const long *a, int n) {{ {left} return 0; }}
static long right(int cpu, const long *a, int n) {{ {right} return 0; }}
static void rest(void) {{ if ({bad}) race_fail(\"seen\"); }}
static const struct race_op ops[] = {{ {{ \"left\", left, \"\", 0 }}, {{ \"right\", right, \"\", 0 }}, {{ NULL }} }};"
    );
    !explore_made(&body, "cpus 2\ncpu0 left\ncpu1 right\n", model, Strategy::Mix).findings.is_empty()
}

#[test]
fn late_stores_are_seen_as_the_models_say() {
    let (mb, wmb, rmb) = ("race_barrier(RACE_MB);", "race_barrier(RACE_WMB);", "race_barrier(RACE_RMB);");
    let sb = |between: &str, model| {
        let left = format!("ONCE(x) = 1; {between} r0 = ONCE(y);");
        let right = format!("ONCE(y) = 1; {between} r1 = ONCE(x);");
        outcomes(&left, &right, "r0 == 0 && r1 == 0", model)
    };
    assert_eq!(
        [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm].map(|m| sb("", m)),
        [false, true, true]
    );
    assert_eq!([MemoryModel::Tso, MemoryModel::Lkmm].map(|m| sb(mb, m)), [false, false]);
    let mp = |write: &str, read: &str, model| {
        let left = format!("ONCE(x) = 1; {write} ONCE(y) = 1;");
        let right = format!("r0 = ONCE(y); {read} r1 = ONCE(x);");
        outcomes(&left, &right, "r0 == 1 && r1 == 0", model)
    };
    assert_eq!(
        [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm].map(|m| mp("", "", m)),
        [false, false, true]
    );
    assert!(mp(wmb, "", MemoryModel::Lkmm) && mp("", rmb, MemoryModel::Lkmm));
    assert!(!mp(wmb, rmb, MemoryModel::Lkmm));
    // coherence: what was seen is not unseen
    let corr = |model| outcomes("ONCE(x) = 1;", "r0 = ONCE(x); r1 = ONCE(x);", "r0 == 1 && r1 == 0", model);
    assert!(!corr(MemoryModel::Lkmm));
}

#[test]
fn mistakes_say_where_and_what() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(&dir, TWO_LOCKS, "cpus 1\ncpu0 ab\n");
    let plan = plan_of(&path, &[], MemoryModel::Sc, Strategy::Mix);
    for (text, wanted) in [
        ("cpus 1\ncpu0 take\n", "t:2: 'take', expected one of 'ab "),
        ("cpus 1\ncpu0 ab 1\n", "t:2: 'ab' has 1 arguments, expected 0"),
    ] {
        let error = plan.explore(&Scenario::parse("t", text).unwrap()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    std::fs::write(&path, "int x = ;\n").unwrap();
    let error = own_target(&path, &[]).unwrap_err();
    assert!(matches!(&error, RaceError::Compile { text, .. } if text.contains("made.c:1")), "{error}");
    std::fs::write(&path, "int x;\n").unwrap();
    let error = own_target(&path, &[]).unwrap_err().to_string();
    assert!(error.contains("made.c has no RACE_TARGET(...)"), "{error}");
}

#[test]
fn what_a_target_lacks_or_refuses_is_said_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.c");
    let write = |body: &str| {
        std::fs::write(&path, format!("#include <schedlab_race.h>\n{body}\n")).unwrap();
        plan_of(&path, &[], MemoryModel::Sc, Strategy::Mix)
    };
    let refused = |plan: &Plan, text: &str| {
        plan.explore(&Scenario::parse("s.txt", text).unwrap()).unwrap_err().to_string()
    };
    let none = write("RACE_TARGET(.name = \"none\");");
    let error = refused(&none, "cpus 1\ncpu0 find 3\n");
    assert!(error.contains("s.txt:2: 'find': this target has no operation at all"), "{error}");
    assert!(error.contains("'.find = find' to RACE_TARGET(...)"), "{error}");
    let some = write(
        "static long set(int cpu, const long *x, int n) { if (x[0] > 9) race_refuse(\"no %ld\", x[0]); return 0; }
static const struct race_op ops[] = { { \"set\", set, \"\", 1 }, { } };
RACE_TARGET(.name = \"some\", .ops = ops);",
    );
    let error = refused(&some, "cpus 1\ncpu0 set 3\ncpu0 take\n");
    assert!(error.contains("s.txt:3: 'take', expected one of 'set '"), "{error}");
    assert!(error.contains("{ \"take\", ... } to the table of '.ops'"), "{error}");
    let error = refused(&some, "cpus 1\n\ncpu0 set 3; set 99\n");
    assert!(error.contains("s.txt:3: 'set 99': no 99"), "{error}");
    let error = refused(&some, "cpus 1\nfirst set 3; set 77\ncpu0 set 3\n");
    assert!(error.contains("s.txt:2: 'set 77': no 77"), "{error}");
}

/// A call that would end the process ends its schedule, and has a place.
#[test]
fn a_call_that_ends_the_process_is_a_finding() {
    for (act, text) in [
        ("exit(0);", "the target ends its process: exit()"),
        ("abort();", "the target ends its process: abort()"),
        ("assert(n == 1);", "assertion 'n == 1' fails"),
    ] {
        let body = format!(
            "#include <assert.h>\n#include <stdlib.h>\n\
             static int shared;\nstatic long act(int cpu, const long *x, int n)\n\
             {{\n\tshared = 1;\n\t{act}\n\treturn 0;\n}}\n\
             static const struct race_op ops[] = {{ {{ \"act\", act, \"\", 0 }}, {{ NULL }} }};"
        );
        let explored = explore_made(&body, "cpus 1\ncpu0 act\n", MemoryModel::Sc, Strategy::Mix);
        assert_eq!(explored.findings.len(), 1, "{act}");
        let finding = &explored.findings[0];
        assert_eq!((&*finding.kind, &*finding.text), ("crash", text));
        assert_eq!(finding.sites, ["made.c:10 act"], "{act}");
        assert_eq!(explored.schedules, 3000);
    }
}

/// It is given 2 s of CPU time, once: the search ends there.
#[test]
fn a_loop_without_points_is_a_livelock_where_it_stands() {
    let body = "static int shared;
static long loop(int cpu, const long *x, int n)
{
	shared = 1;
	for (;;)
		__asm__ volatile(\"\");
}
static const struct race_op ops[] = { { \"loop\", loop, \"\", 0 }, { NULL } };";
    let dir = tempfile::tempdir().unwrap();
    let path = made(&dir, body, "cpus 2\ncpu0 loop\ncpu1 loop\n");
    let plan = plan_of(&path, &[], MemoryModel::Sc, Strategy::Mix);
    let explored = plan.explore(&own_scenario(&plan)).unwrap();
    assert_eq!((kinds(&explored), explored.schedules), (vec!["livelock"], 1));
    let finding = &explored.findings[0];
    assert!(finding.is_endless() && finding.times == 1);
    let place = &finding.sites[0];
    assert!(["made.c:8 loop", "made.c:9 loop"].contains(&&**place), "{place}");
    assert_eq!(&plan.shrink(finding).unwrap(), finding);
    // nor does a target that hangs, or crashes, as it is built
    for (act, why) in
        [("for (;;) __asm__ volatile(\"\");", "does not come back"), ("*(volatile int *)8 = 1;", "SIGSEGV")]
    {
        let text = format!(
            "#include <schedlab_race.h>\nstatic int init(int cpus) {{ {act} return 0; }}\n\
             static long preempt(int cpu, long key) {{ return 0; }}\n\
             RACE_TARGET(.name = \"made\", .init = init, .preempt = preempt, \
             .scenario = \"cpus 1\\ncpu0 preempt 1\\n\");\n"
        );
        std::fs::write(&path, text).unwrap();
        let plan = plan_of(&path, &[], MemoryModel::Sc, Strategy::Mix);
        let error = plan.explore(&own_scenario(&plan)).unwrap_err().to_string();
        assert!(error.contains("the target's init(): ") && error.contains(why), "{error}");
    }
}

/// C9: a target is anybody's program. It can compute; asking the host for a file or a process ends it, and the caller
/// says so.
#[test]
fn a_target_that_reaches_for_the_host_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("written");
    for act in [
        format!("open(\"{}\", O_CREAT | O_WRONLY, 0600);", victim.display()),
        "fork();".to_owned(),
        "socket(AF_INET, SOCK_STREAM, 0);".to_owned(),
        "kill(getppid(), 0);".to_owned(),
    ] {
        let body = format!(
            "#include <fcntl.h>\n#include <signal.h>\n#include <sys/socket.h>\n#include <unistd.h>\n\
             __attribute__((constructor)) static void at_once(void) {{ {act} }}\n\
             static long nothing(int cpu, const long *x, int n) {{ return 0; }}\n\
             static const struct race_op ops[] = {{ {{ \"nothing\", nothing, \"\", 0 }}, {{ NULL }} }};"
        );
        let plan = plan_of(&made(&dir, &body, "cpus 1\ncpu0 nothing\n"), &[], MemoryModel::Sc, Strategy::Mix);
        let error = plan.describe().map(drop).unwrap_err().to_string();
        assert!(error.contains("SIGSYS: it asked the host for something that it may not"), "{act}: {error}");
    }
    assert!(!victim.exists());
}
