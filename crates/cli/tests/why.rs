//! Why did real Linux decide so? The numbers that `--explain` prints obey the kernel's formulas; a debugger
//! changes nothing.

mod common;

use common::{has_linux, root, schedlab};
use schedlab_linux::decision::{Candidate, Decision, DecisionKind, Queue};
use std::path::Path;

/// Hogs of four nice values on one CPU, and a sleeper.
const WORKLOAD: &str = "schedlab-workload 1\n- INIT 0 0 1 runnable name=a nice=0\n- INIT 0 0 2 runnable name=b nice=5\n\
    - INIT 0 0 3 runnable name=c nice=-5\n- INIT 0 0 4 runnable name=d nice=10\n- INIT 0 0 5 runnable name=s\n\
    REPEAT 50 {\n- BLOCK 5 1ms\n- WAKEUP 5 7ms\n}\n- EXIT 1 9s\n- EXIT 2 9s\n- EXIT 3 9s\n- EXIT 4 9s\n- EXIT 5 1ms\n";

fn explain(dir: &Path, sched: &str, cpus: &str, questions: &[&str]) -> Vec<Decision> {
    let (workload, json) = (dir.join("w.txt"), dir.join("why.json"));
    std::fs::write(&workload, WORKLOAD).unwrap();
    let mut args = vec!["--quiet", "run", workload.to_str().unwrap(), "--sched", sched, "--cpus", cpus];
    args.extend(["--duration", "1s", "--explain-json", json.to_str().unwrap()]);
    questions.iter().for_each(|q| args.extend(["--explain", q]));
    let output = schedlab(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap()
}

/// Distance, as vruntimes wrap.
fn after(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

fn picked(queue: &Queue) -> &Candidate {
    queue.candidates.iter().find(|c| c.picked).expect("somebody is picked")
}

const TIMES: [&str; 8] =
    ["a@101ms", "b@150ms", "c@200ms", "d@300ms", "a@400ms", "b@500ms", "c@600ms", "d@700ms"];

#[test]
fn eevdf_picks_the_earliest_deadline_of_those_with_lag() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let decisions = explain(dir.path(), "linux-6.12", "1", &TIMES);
    assert_eq!(decisions.len(), TIMES.len());
    for d in &decisions {
        assert_eq!(d.kind, DecisionKind::Pick);
        let [queue] = &d.queues[..] else { panic!("{d:?}") };
        assert!(queue.candidates.len() >= 4, "{d:?}");
        let mut eligible = Vec::new();
        for (c, lag) in queue.candidates.iter().zip(queue.lags()) {
            // sched_prio_to_weight
            if let Some(id) = c.task.filter(|id| *id < 5) {
                assert_eq!(c.weight, [1024, 335, 3121, 110, 1024][id as usize]);
            }
            assert_eq!(
                c.eligible,
                Some(lag >= 0),
                "the kernel's verdict and the lag of the printed numbers: {c:?}"
            );
            // deadline = vruntime at the slice's begin + slice x 1024 / weight: it never lies further ahead
            let ahead = after(c.deadline_ns.unwrap(), c.vruntime_ns);
            let request = (u128::from(c.slice_ns.unwrap()) * 1024 / u128::from(c.weight)) as i64;
            assert!(ahead <= request + 1, "{c:?}");
            if lag >= 0 {
                eligible.push(c);
            }
        }
        // Linux 6.12, pick_eevdf(); nobody runs to parity here, since somebody else is picked
        let first = eligible
            .iter()
            .map(|c| after(c.deadline_ns.unwrap(), queue.candidates[0].deadline_ns.unwrap()))
            .min();
        let chosen = picked(queue);
        let chosen = after(chosen.deadline_ns.unwrap(), queue.candidates[0].deadline_ns.unwrap());
        assert_eq!(Some(chosen), first, "{d:?}");
    }
}

/// Between two decisions a task's vruntime grows by its CPU time x 1024 / weight (calc_delta_fair()).
#[test]
fn vruntime_is_cpu_time_by_weight() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let decisions = explain(dir.path(), "linux-6.12", "1", &["c@100ms", "c@900ms"]);
    let of = |d: &Decision, id: u32| {
        let c = d.queues[0].candidates.iter().find(|c| c.task == Some(id)).unwrap();
        (c.vruntime_ns, c.cpu_ns)
    };
    for (id, weight) in [(0, 1024.0), (1, 335.0), (2, 3121.0), (3, 110.0)] {
        let (v0, t0) = of(&decisions[0], id);
        let (v1, t1) = of(&decisions[1], id);
        let expected = (t1 - t0) as f64 * 1024.0 / weight;
        let found = after(v1, v0) as f64;
        // each accounting rounds down by less than 1 ns, and by 2^-32 of the weight's inverse
        assert!((found - expected).abs() <= 2000.0, "task {id}: {found} instead of {expected}");
    }
}

#[test]
#[ignore = "long: builds Linux 6.1"]
fn cfs_picks_the_least_vruntime() {
    let dir = tempfile::tempdir().unwrap();
    for d in explain(dir.path(), "linux-6.1", "1", &TIMES) {
        let queue = &d.queues[0];
        assert!(queue.candidates.iter().all(|c| c.deadline_ns.is_none() && c.eligible.is_none()));
        let least = queue.candidates.iter().map(|c| after(c.vruntime_ns, picked(queue).vruntime_ns)).min();
        assert_eq!(least, Some(0), "{d:?}");
    }
}

/// The sleeper wakes at a known time: it was on a CPU, every CPU has what the log says it has.
#[test]
fn a_placement_shows_every_cpu() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let decisions = explain(dir.path(), "linux-6.12", "6", &["s@500us"]);
    // its first burst ends at 1 ms; 7 ms later it wakes, on 6 CPUs of which 4 are taken
    let [leaves] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!((leaves.kind, leaves.time_ns, leaves.before), (DecisionKind::Pick, 1_000_000, 4));
    let decisions = explain(dir.path(), "linux-6.12", "6", &["s@2ms"]);
    let [wakes] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!((wakes.kind, wakes.time_ns), (DecisionKind::Placement, 8_000_000));
    assert_eq!(wakes.cpus.iter().map(|c| c.cpu).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    let busy: Vec<u32> = wakes.cpus.iter().filter(|c| !c.idle).map(|c| c.current).collect();
    let mut hogs = busy.clone();
    hogs.sort_unstable();
    assert_eq!(hogs, [0, 1, 2, 3], "{wakes:?}");
    assert!(wakes.cpus.iter().all(|c| c.capacity == 1024 && c.shares_cache && (c.runnable == 0) == c.idle));
}

fn log_of(command: &[&str], log: &Path) -> Vec<u8> {
    let output = schedlab(command);
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(log).unwrap()
}

/// A question changes nothing, nor does a debugger that stops at three places.
#[test]
fn looking_changes_nothing() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (w, log) = (dir.path().join("w.txt"), dir.path().join("log"));
    std::fs::write(&w, WORKLOAD).unwrap();
    let (w, log_name) = (w.to_str().unwrap(), log.to_str().unwrap());
    let run = [w, "--sched", "linux-6.12", "--cpus", "2", "--duration", "1s", "--log", log_name];
    let plain = log_of(&[&["--quiet", "run"], &run[..]].concat(), &log);
    std::fs::remove_file(&log).unwrap();
    let asked = log_of(
        &[&["--quiet", "run"], &run[..], &["--explain", "a@100ms", "--explain", "s@300ms"]].concat(),
        &log,
    );
    assert!(plain == asked, "--explain changed the log");
    std::fs::remove_file(&log).unwrap();
    let debug = ["linux", "debug", "--wakeup", "s:3", "--batch", "--gdb", "schedlab-time", "--gdb", "bt 3"];
    let more = [
        "--gdb",
        "schedlab-runqueue",
        "--gdb",
        "schedlab-task a",
        "--gdb",
        "schedlab-domains",
        "--gdb",
        "schedlab-cpus",
    ];
    let output = schedlab(&[&debug[..], &more[..], &run[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // bursts of 1 ms, sleeps of 7: the first wakeup is at 8 ms at the earliest
    assert!(text.contains("schedlab: wakeup number 3 of s, at "), "{text}");
    for piece in ["warp_stopped", "cpu", "runs t", "vruntime", "policy 0", "imbalance_pct"] {
        assert!(text.contains(piece), "no '{piece}' in {text}");
    }
    assert!(std::fs::read(&log).unwrap() == plain, "breakpoints changed the log");
    // a stop that never comes
    let debug =
        ["linux", "debug", "--wakeup", "s:4000", "--batch", "--gdb", "schedlab-time", "--gdb", "bt 3"];
    let output = schedlab(&[&debug[..], &run[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let (_, said) =
        text.split_once("schedlab: the run ended (last event at ").expect("it says that it ended");
    let (last_ms, rest) = said.split_once(" ms) without this stop: wakeup number 4000 of s\n").expect(said);
    // a tick every 4 ms, and a task that always runs
    assert!((990.0..=1000.0).contains(&last_ms.parse::<f64>().unwrap()), "{text}");
    assert!(!rest.contains("without this stop"), "said once: {text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("Python") && !errors.contains("Python"), "{text}{errors}");
    drop(root());
}

/// A2: gdb's quoting does not reach the program: a machine with '*' in it is that machine.
#[test]
fn a_debugger_passes_every_word_on() {
    if !has_linux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let w = dir.path().join("it's a 'w' $HOME.txt");
    std::fs::write(&w, WORKLOAD).unwrap();
    let debug = ["linux", "debug", "--decision", "2", "--batch", "--gdb", "schedlab-cpus"];
    let machine = "cores=2,capacity=1024*1+512*1";
    let run = [w.to_str().unwrap(), "--sched", "linux-6.12", "--machine", machine, "--duration", "100ms"];
    let output = schedlab(&[&debug[..], &run].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("schedlab: switch number 2, at ") && text.contains("cpu1"), "{text}");
}

/// A2: compilers that run before the kernel are none of the debugger's business: it stops in the kernel.
#[test]
fn a_debugger_follows_the_run_and_no_compiler() {
    if !has_linux() {
        return;
    }
    // a source that nobody has compiled yet; trees of one's own: own_tree.rs
    let dir = tempfile::tempdir().unwrap();
    let (w, source) = (dir.path().join("w.txt"), dir.path().join("mine.bpf.c"));
    std::fs::write(&w, WORKLOAD).unwrap();
    let text = std::fs::read_to_string(root().join("linux/scx/tests/hooks.bpf.c")).unwrap();
    std::fs::write(&source, format!("{text}\n/* {} */\n", dir.path().display())).unwrap();
    let debug = ["linux", "debug", "--decision", "5", "--batch", "--gdb", "bt 3"];
    let sched = format!("scx:{}", source.display());
    let run = [w.to_str().unwrap(), "--sched", &sched, "--cpus", "2", "--duration", "100ms"];
    let output = schedlab(&[&debug[..], &run].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("schedlab: switch number 5, at ") && text.contains("warp_stopped"), "{text}");
    assert!(!text.contains("new program: /usr/"), "it followed a compiler: {text}");
}

/// A run that is refused is no run that ended well; nor are options that `run` would get.
#[test]
fn a_debugger_without_a_run_ends_with_2() {
    if !has_linux() {
        return;
    }
    let debug = ["linux", "debug", "--decision", "2", "--batch", "--gdb", "schedlab-cpus"];
    let figure = "samples/hand/figure1.txt";
    let cases: [(&[&str], &str); 4] = [
        (
            &["no-such-file.txt", "--sched", "linux-6.12", "--cpus", "1"],
            "no-such-file.txt: there is no such file",
        ),
        (&[figure, "--sched", "linux-6.12", "--cpus", "0"], "--cpus"),
        (&[figure, "--sched", "linux-6.12", "--cpus", "1", "--batch"], "--batch stands behind"),
        (
            &["--at", "4s", "--stop-at=3s", figure, "--sched", "linux-6.12"],
            "--stop-at=3s stands behind '--at'",
        ),
    ];
    for (run, words) in cases {
        let output = schedlab(&[&debug[..], run].concat());
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{run:?}: {text}");
        assert!(text.contains(words) && !text.contains("without this stop"), "{run:?}: {text}");
    }
}

/// Calls are counted exactly: a task that yields seven times calls yield_task_fair() seven times.
#[test]
#[ignore = "long: two runs under valgrind"]
fn a_profile_counts_calls() {
    let dir = tempfile::tempdir().unwrap();
    let w = dir.path().join("w.txt");
    let text =
        "schedlab-workload 1\n- INIT 0 0 1 runnable name=y\nREPEAT 7 {\n- YIELD 1 1ms\n}\n- EXIT 1 1ms\n";
    std::fs::write(&w, text).unwrap();
    let args = [
        "run",
        w.to_str().unwrap(),
        "--sched",
        "linux-6.12",
        "--cpus",
        "1",
        "--profile",
        "--profile-rows",
        "1000",
    ];
    let output = schedlab(&args);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let calls = |name: &str| {
        let line = text
            .lines()
            .find(|l| l.contains(&format!(" {name} (")))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!((calls("yield_task_fair"), calls("do_sched_yield")), ("7".to_owned(), "7".to_owned()));
    // a function whose text the kernel has patched; all tasks are fair, so that each of its calls picks once
    assert_eq!(calls("__schedule"), calls("pick_next_task_fair"));
    assert!(calls("__schedule").parse::<u32>().unwrap() >= 7, "{text}");
}
