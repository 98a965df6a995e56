//! What scripts and people read: JSON against values read off a drawing, the terminal's width, the timeline
//! against the log.

use schedlab_instruments::for_each_stay;
use schedlab_log::{Kind, MemLog, TextLog, synthetic::Config};
use schedlab_report::*;
use schedlab_units::Span;
use serde_json::Value;
use std::path::Path;

/// ```text
/// ms    0         1
///       0123456789
/// cpu0  AABBkAA..A      A: nice 5; B exits; k9 preempts nobody: it runs when B is done; A sleeps 7 to 9
/// cpu1  ..........
/// ```
const DRAWN: &str = r#"# schedlab log 1
# sched "drawn"
# sched_version "v"
# cpus 2
# hz 250
# duration_ns 10000000
# param "slice_ns" "2000000"
# task t0 pid=70 policy=normal nice=5 name="A"
# task t1 pid=71 policy=fifo nice=0 rt_priority=3 name="B"
# kernel_thread k9 name="migration/0"
       0 cpu0 new t0 cpu0
       0 cpu0 new t1 cpu0
       0 cpu0 switch idle -> t0
 2000000 cpu0 switch t0 preempted -> t1
 4000000 cpu0 waking k9 by t1
 4000000 cpu0 wakeup k9 cpu0
 4000000 cpu0 exit t1
 4000000 cpu0 switch t1 dead -> k9
 5000000 cpu0 switch k9 sleeping -> t0
 7000000 cpu0 switch t0 sleeping -> idle
 9000000 cpu0 waking t0 by idle irq
 9000000 cpu0 wakeup t0 cpu0
 9000000 cpu0 switch idle -> t0
# end 13
"#;

fn drawn() -> MemLog {
    TextLog::parse(DRAWN, Path::new("drawn")).unwrap()
}

fn json_of(run: &RunReport) -> Value {
    let mut out = Vec::new();
    json(run.view(), &mut out).unwrap();
    assert_eq!(out.last(), Some(&b'\n'));
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn json_holds_what_the_contract_names() {
    let facts = RunFacts {
        wall_ns: 11,
        kernel_ns: 7,
        dropped: [("lost".to_string(), 3)].into(),
        ..RunFacts::default()
    };
    let run = RunReport::new(&drawn(), facts, Detail::for_html(1)).unwrap();
    let found = json_of(&run);
    let pick = |value: &Value, names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| {
                (name.to_string(), value.get(name).unwrap_or_else(|| panic!("{name} is missing")).clone())
            })
            .collect()
    };
    let top = [
        "schema",
        "sched",
        "cpus",
        "hz",
        "duration_ns",
        "switches",
        "migrations",
        "wall_ns",
        "kernel_ns",
        "dropped",
    ];
    let expected: Value = serde_json::from_str(
        r#"{"schema":1,"sched":"drawn","cpus":2,"hz":250,"duration_ns":10000000,"switches":6,"migrations":0,
            "wall_ns":11,"kernel_ns":7,"dropped":{"lost":3}}"#,
    )
    .unwrap();
    assert_eq!(pick(&found, &top), expected);
    let names = [
        "id",
        "name",
        "nice",
        "policy",
        "cpu_ns",
        "run_delay_ns",
        "run_delay_max_ns",
        "blocked_ns",
        "wakeups",
        "switches_voluntary",
        "switches_involuntary",
        "migrations",
        "finished",
    ];
    let tasks: Vec<Value> =
        found["tasks"].as_array().unwrap().iter().map(|task| pick(task, &names)).collect();
    let expected: Value = serde_json::from_str(
        r#"[{"id":0,"name":"A","nice":5,"policy":"normal","cpu_ns":5000000,"run_delay_ns":3000000,"run_delay_max_ns":3000000,
             "blocked_ns":2000000,"wakeups":1,"switches_voluntary":1,"switches_involuntary":1,"migrations":0,"finished":false},
            {"id":1,"name":"B","nice":0,"policy":"fifo","cpu_ns":2000000,"run_delay_ns":2000000,"run_delay_max_ns":2000000,
             "blocked_ns":0,"wakeups":0,"switches_voluntary":1,"switches_involuntary":0,"migrations":0,"finished":true}]"#,
    )
    .unwrap();
    assert_eq!(Value::from(tasks), expected);
    let threads = found["kernel_threads"].as_array().unwrap();
    assert_eq!(
        (threads.len(), &threads[0]["name"], &threads[0]["cpu_ns"]),
        (1, &"migration/0".into(), &1_000_000.into())
    );
    assert_eq!(found["params"]["slice_ns"], "2000000");
    assert_eq!(found["per_cpu"][0]["idle_ns"], 2_000_000);
    // B waited on cpu0 from 0 to 2 and A from 2 to 5 while cpu1 idled
    assert_eq!(
        (&found["idle_while_waiting_ns"], &found["idle_while_waiting_stretches"]),
        (&5_000_000.into(), &1.into())
    );
}

#[test]
fn equal_runs_differ_in_wall_and_kernel_time_only() {
    let run = |wall_ns| {
        let facts = RunFacts { wall_ns, kernel_ns: wall_ns / 2, ..RunFacts::default() };
        json_of(&RunReport::new(&Config::default().log(), facts, Detail::for_terminal(4)).unwrap())
    };
    let (mut a, mut b) = (run(10), run(20));
    assert_ne!(a, b);
    for value in [&mut a, &mut b] {
        value.as_object_mut().unwrap().retain(|name, _| name != "wall_ns" && name != "kernel_ns");
    }
    assert_eq!(a, b);
}

#[test]
fn the_machine_may_say_who_is_finished() {
    let facts = RunFacts { finished: Some(vec![true, true]), ..RunFacts::default() };
    let run = RunReport::new(&drawn(), facts, Detail::for_terminal(2)).unwrap();
    assert_eq!(json_of(&run)["tasks"][0]["finished"], true);
}

#[test]
fn the_terminal_summary_fits_100_columns() {
    let nasty = "a name that is much too long for a table\u{1b}[31m\n";
    for nr_cpus in [1, 2, 16, 17, 300] {
        let mut log = Config { nr_cpus, duration: Span::from_ms(60), jobs: 20, ..Config::default() }.log();
        log.header.tasks[0].name = nasty.to_string();
        log.header.sched = nasty.to_string();
        let facts = RunFacts {
            workload: nasty.to_string(),
            end: "every task is done".to_string(),
            wall_ns: 12_345_678,
            kernel_ns: 2_345_678,
            dropped: [("a reason of many words that goes on ".repeat(6), 123_456_789)].into(),
            warnings: vec![
                "WARNING: CPU: 3 PID: 17 at kernel/sched/core.c:1234 some_function+0x12/0x34 ".repeat(3),
            ],
            notes: vec!["word ".repeat(60)],
            ..RunFacts::default()
        };
        let run = RunReport::new(&log, facts, Detail::for_terminal(nr_cpus)).unwrap();
        let text = terminal(&run, Style::PLAIN);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{nr_cpus} CPUs: {} columns: {line}", line.chars().count());
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        assert!(text.lines().count() < 70, "{nr_cpus} CPUs");
        let colored = terminal(&run, Style { color: true });
        assert!(colored.contains("\x1b["));
        let plain = colored
            .replace("\x1b[0m", "")
            .replace("\x1b[1m", "")
            .replace("\x1b[2m", "")
            .replace("\x1b[33m", "")
            .replace("\x1b[36m", "");
        assert_eq!(plain, text, "colours change nothing else");
    }
}

#[test]
fn commands_are_never_broken() {
    let command = format!("schedlab run {} --cpus 4", "w".repeat(200));
    let next = NextStep { what: "a picture".to_string(), command: command.clone() };
    let facts = RunFacts { command: command.clone(), next_steps: vec![next], ..RunFacts::default() };
    let run = RunReport::new(&drawn(), facts, Detail::for_terminal(2)).unwrap();
    assert_eq!(terminal(&run, Style::PLAIN).lines().filter(|line| line.ends_with(&command)).count(), 2);
}

/// Buckets hold the CPUs' busy time, windows hold exactly the log's runs that overlap them.
#[test]
fn the_timeline_is_the_log() {
    for (nr_cpus, runs) in [(1, 50), (4, 1000), (4, 1_000_000), (40, 3000)] {
        let log =
            Config { nr_cpus, duration: Span::from_ms(400), jobs: 2 * nr_cpus, ..Config::default() }.log();
        let detail = Detail { cells: 64 * nr_cpus as usize, runs };
        let run = RunReport::new(&log, RunFacts::default(), detail).unwrap();
        let timeline = &run.timeline;
        for (cpu, cells) in run.summary.cpus.iter().zip(&timeline.cells) {
            let busy: u64 = cells.iter().map(|cell| u64::from(cell.busy)).sum();
            let exact = cpu.busy_ns as f64 * 255.0 / timeline.bucket_ns as f64;
            assert!((busy as f64 - exact).abs() <= 0.5 * cells.len() as f64, "{busy} {exact}");
            for cell in cells {
                let top: u32 = cell.top.iter().map(|(_, share)| u32::from(*share)).sum();
                assert!(top <= u32::from(cell.busy) + 2);
            }
        }
        let mut all = Vec::new();
        for_each_stay(&log, |run| all.push(*run)).unwrap();
        assert_eq!(timeline.nr_runs, all.len() as u64);
        assert!(
            timeline.windows.windows(2).all(|w| w[0].end_ns <= w[1].start_ns),
            "windows are apart and in order"
        );
        if runs >= all.len() {
            assert_eq!((timeline.windows.len(), timeline.nr_runs_kept), (1, timeline.nr_runs));
        } else {
            // each window may go over its share by what is running when it is full
            let slack = timeline.windows.len() * (nr_cpus as usize + 1) * 2;
            assert!(timeline.nr_runs_kept as usize <= runs + slack, "{} of {runs}", timeline.nr_runs_kept);
        }
        for window in &timeline.windows {
            let mut expected = vec![Vec::new(); nr_cpus as usize];
            for run in all.iter().filter(|r| r.start_ns < window.end_ns && r.end_ns > window.start_ns) {
                expected[run.cpu.index()].push((run.start_ns, run.end_ns));
            }
            for (expected, runs) in expected.iter().zip(&window.runs) {
                let found = runs.iter().filter(|r| r.start_ns < window.end_ns && r.end_ns > window.start_ns);
                assert_eq!(&found.map(|r| (r.start_ns, r.end_ns)).collect::<Vec<_>>(), expected);
            }
        }
    }
}

#[test]
fn the_html_file_is_one_file_of_bounded_size_whatever_the_names() {
    let nasty = "</script><script>alert(1)</script><!--";
    let mut log = Config { nr_cpus: 8, duration: Span::from_s(8), jobs: 40, ..Config::default() }.log();
    log.header.tasks[0].name = nasty.to_string();
    let run = RunReport::new(&log, RunFacts::default(), Detail::for_html(2)).unwrap();
    let mut out = Vec::new();
    write_html(nasty, &[run.clone(), run], &mut out).unwrap();
    assert!(out.len() < 5_000_000, "{} bytes", out.len());
    let page = String::from_utf8(out).unwrap();
    assert_eq!(page.matches("<script").count(), 2, "the data and the program, nothing else");
    assert_eq!(page.matches("</script").count(), 2);
    let start = page.find("id=\"data\">").unwrap() + 10;
    let data: Value =
        serde_json::from_str(&page[start..start + page[start..].find("</script>").unwrap()]).unwrap();
    assert_eq!(data["runs"].as_array().unwrap().len(), 2);
    let switches = log.records.iter().filter(|r| r.kind() == Some(Kind::Switch)).count();
    assert_eq!(data["runs"][0]["switches"], switches);
}

/// ```text
/// ms    0         1
///       0123456789
/// cpu0  AAA???AAA?      A polls the clock; when it is off its CPU, nobody knows why, or who is there
/// cpu1  ??????????
/// ```
const POLLED: &str = r#"# schedlab log 2
# sched "unknown"
# sched_version ""
# cpus 2
# hz 0
# duration_ns 10000000
# observer poller
# hidden wakeups stops idle assignments
# task t0 pid=70 policy=normal nice=0 name="A"
       0 cpu0 new t0 cpu0
       0 cpu0 switch idle -> t0
 3000000 cpu0 switch t0 unknown -> idle
 6000000 cpu0 switch idle -> t0
 9000000 cpu0 switch t0 unknown -> idle
# end 5
"#;

#[test]
fn what_the_observer_could_not_see_is_unknown_and_never_0() {
    let log = TextLog::parse(POLLED, Path::new("polled")).unwrap();
    let run = RunReport::new(&log, RunFacts::default(), Detail::for_html(1)).unwrap();
    let value = json_of(&run);
    assert_eq!(value["cpu_ns"], 6_000_000, "A's own time is known");
    assert_eq!((&value["observer"], &value["hidden"][0]), (&Value::from("poller"), &Value::from("wakeups")));
    for field in ["run_delay_ns", "run_delay_p99_ns", "idle_ns", "switches", "waiting_max", "longest_waits"] {
        assert_eq!(value.get(field), Some(&Value::Null), "{field}");
        let listed = value["unknown"].as_array().unwrap();
        let why = &listed.iter().find(|entry| entry["field"] == field).unwrap()["why"];
        assert!(why.as_str().unwrap().starts_with("hidden from the poller: "), "{field}: {why}");
    }
    let task = &value["tasks"][0];
    assert_eq!((&task["cpu_ns"], &task["runs"]), (&Value::from(6_000_000), &Value::from(2)));
    for field in ["run_delay_ns", "blocked_ns", "wakeups", "switches_voluntary", "assignments"] {
        assert_eq!(task.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(value["per_cpu"][1].get("idle_ns"), Some(&Value::Null));
    let (_, whole) = run.timeline.cells[1].split_last().unwrap(); // the last bucket reaches beyond the end
    assert!(whole.iter().all(|cell| cell.unseen == 255 && cell.busy == 0));

    let text = terminal(&run, Style::PLAIN);
    assert!(text.contains("the poller could not see: wakeups stops idle assignments"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("cpu1") && line.contains("unknown  ????")), "{text}");
    for name in ["run delay", "after a wakeup", "switches", "a CPU idle while work waits"] {
        let row = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row.contains("unknown") && !row.contains('0'), "{row}");
    }
    let mut page = Vec::new();
    write_html("t", &[run], &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains(r#""idle_ns":"unknown""#) && page.contains(r#""unseen_cells":"#));
    assert!(page.contains("The poller could not see: wakeups stops idle assignments."));
}

/// B has cpu1 all the time, so it never waited: its sums are known beside those of A, whom nobody saw off its CPU.
#[test]
fn sums_of_the_tasks_that_nobody_lost_stand_beside_the_unknown_ones() {
    let (a, b) = ("name=\"A\"\n", " 3000000 cpu0 switch t0 unknown");
    let of_b = "# task t1 pid=71 policy=normal nice=0 name=\"<B>\"\n";
    let runs_b = "       0 cpu1 new t1 cpu1\n       0 cpu1 switch idle -> t1\n";
    let text = POLLED.replace(a, &format!("{a}{of_b}")).replace(b, &format!("{runs_b}{b}"));
    let log = TextLog::parse(&text.replace("# end 5", "# end 7"), Path::new("polled")).unwrap();
    let run = RunReport::new(&log, RunFacts::default(), Detail::for_html(1)).unwrap();
    let value = json_of(&run);
    let known = &value["known_tasks"];
    assert_eq!((&known["tasks"], &known["of"]), (&Value::from(1), &Value::from(2)));
    assert_eq!((&known["cpu_ns"], &known["run_delay_max_ns"]), (&Value::from(10_000_000), &Value::from(0)));
    assert_eq!(value.get("run_delay_max_ns"), Some(&Value::Null));

    let text = terminal(&run, Style::PLAIN);
    let (unknown, of) =
        text.split_once("of 1 of the 2 tasks (nobody saw whether A waited)\n").expect("whose they are");
    assert!(unknown.lines().any(|line| line.starts_with("run delay") && line.contains("unknown")), "{text}");
    assert!(
        of.lines().next().is_some_and(|line| line.starts_with("run delay") && !line.contains("unknown")),
        "{text}"
    );
    assert!(of.lines().any(|line| line.starts_with("all but 1") && line.contains("10.0 ms")), "{text}");
}

/// A log that hides nothing has none of the fields that speak of it.
#[test]
fn a_log_that_hides_nothing_has_no_word_of_it() {
    let run = RunReport::new(&drawn(), RunFacts::default(), Detail::for_html(1)).unwrap();
    let value = json_of(&run);
    let of_task = [&value["tasks"][0], &value["per_cpu"][0], &value];
    assert!(
        of_task
            .iter()
            .all(|object| ["unknown", "hidden", "observer"].iter().all(|f| object.get(f).is_none()))
    );
}
