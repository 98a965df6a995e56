//! A whole scheduler, as it is and with bugs. The kernel is built once, and one file of it for each bug.

use schedlab_linux::BuiltKernel;
use schedlab_linux::bugs::{BugTree, Edit, edited_by};
use schedlab_linux::build::{self, BuildOptions};
use schedlab_race::compile::{self, Compiled};
use schedlab_race::explore::{Explored, Finding, Plan};
use schedlab_race::seeded::Seeded;
use schedlab_race::story::Story;
use schedlab_race::{ChoiceKind, MemoryModel, Scenario, Schedule, Strategy, whole};
use schedlab_race::{seeded, study};

fn kernel(series: &str, seeded: &str) -> Compiled {
    kernel_with(series, &[], seeded)
}

fn kernel_with(series: &str, flavours: &[&str], seeded: &str) -> Compiled {
    let seeded = (!seeded.is_empty()).then(|| seeded::named(seeded, "linux").unwrap());
    kernel_of(series, flavours, seeded.as_ref())
}

fn packaged(series: &str) -> BuiltKernel {
    build::add(series, &BuildOptions::default(), &mut |_| {}).unwrap()
}

fn kernel_of(series: &str, flavours: &[&str], seeded: Option<&Seeded>) -> Compiled {
    let flavours: Vec<String> = flavours.iter().map(|f| (*f).to_owned()).collect();
    let packaged = packaged(series);
    let mut tree = |path: &std::path::Path, options: &BuildOptions| -> Result<BuiltKernel, _> {
        build::add_tree(path, options, &mut |_| {})
    };
    whole::build::packaged(&packaged, &flavours, seeded, &mut tree).unwrap()
}

fn plan(seeded: &str, schedules: u64) -> Plan {
    plan_of(kernel("6.12", seeded), schedules)
}

fn plan_of(compiled: Compiled, schedules: u64) -> Plan {
    Plan {
        compiled,
        model: MemoryModel::Sc,
        strategy: Strategy::Mix,
        seed: 1,
        schedules,
        jobs: 2,
        findings: 5,
        from: 0,
        aside: Vec::new(),
        without: Vec::new(),
        races: false,
    }
}

fn scenario(name: &str) -> Scenario {
    compile::scenarios("linux").unwrap().into_iter().find(|s| s.name == name).unwrap()
}

/// The scenarios that this kernel can serve, with the sched_ext schedulers that they ask for.
fn scenarios_of(compiled: &Compiled) -> Vec<Scenario> {
    let mut all = compile::scenarios("linux").unwrap();
    assert!(all.len() >= 20);
    all.retain(|scenario| whole::lacks(scenario, compiled).is_none());
    for scenario in &mut all {
        scenario.beside = whole::scheduler(scenario).map(|what| {
            // (uclamp and psi move a task's fields)
            let options = BuildOptions { flavours: whole::flavours(compiled), ..BuildOptions::default() };
            let kernel = build::add(&compiled.kernel.0, &options, &mut |_| {}).unwrap();
            let source = kernel.source.join(format!("tools/sched_ext/scx_{what}.bpf.c"));
            schedlab_scx::compile(&kernel, &source).unwrap()
        });
    }
    all
}

/// A number from the environment: how long a long run is, and which part of all schedules it is.
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Explores all scenarios of a kernel: `SCHEDULES` of each, from `SEED` on. Says how fast, and what was found. What
/// `linux/race/explained.toml` explains may be.
fn is_silent(series: &str, flavours: &[&str]) {
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let plan = Plan {
        seed: asked("SEED", 1),
        races: asked("RACES", 0) > 0,
        ..plan_of(kernel_with(series, flavours, ""), asked("SCHEDULES", 1000))
    };
    let mut known = study::explained().unwrap();
    known.retain(|e| e.covers(&plan.compiled.name, &plan.compiled.kernel.1, plan.model, None));
    let is_known = |finding: &Finding| known.iter().any(|explained| explained.is(finding));
    let mut found = Vec::new();
    for scenario in scenarios_of(&plan.compiled).iter().filter(|s| only.is_empty() || s.name == only) {
        let began = std::time::Instant::now();
        let explored = match plan.explore(scenario) {
            Ok(explored) => explored,
            Err(why) => {
                println!("{} {}: {why}", plan.compiled.name, scenario.name);
                found.push((scenario.name.clone(), vec![why.to_string()]));
                continue;
            }
        };
        let explained: u64 = explored.explained.iter().map(|(_, times)| times).sum();
        println!(
            "{} {:16} seed {} {:6} schedules {:8.0} points each {:7.1} s, {} found, {explained} races explained",
            plan.compiled.name,
            scenario.name,
            plan.seed,
            explored.schedules,
            explored.points as f64 / explored.schedules as f64,
            began.elapsed().as_secs_f64(),
            explored.findings.len(),
        );
        for finding in &explored.findings {
            println!(
                "    {} x{}: {} [{}]",
                finding.kind,
                finding.times,
                finding.text,
                finding.sites.join("; ")
            );
        }
        let unknown: Vec<String> =
            explored.findings.iter().filter(|f| !is_known(f)).map(|f| f.text.clone()).collect();
        if !unknown.is_empty() {
            found.push((scenario.name.clone(), unknown));
        }
    }
    assert_eq!(found, Vec::new(), "{}", plan.compiled.name);
}

#[test]
#[ignore = "long: builds a kernel with points"]
fn the_unmodified_scheduler_is_silent() {
    is_silent("6.12", &[]);
}

#[test]
#[ignore = "long: builds a kernel with points"]
fn linux_5_10_is_silent() {
    is_silent("5.10", &[]);
}

#[test]
#[ignore = "long: builds a kernel with points"]
fn linux_6_1_is_silent() {
    is_silent("6.1", &[]);
}

#[test]
#[ignore = "long: builds a kernel with points"]
fn linux_7_2_is_silent() {
    is_silent("7.2", &[]);
}

#[test]
#[ignore = "long: builds a kernel with points and each of these flavours"]
fn points_go_with_other_flavours() {
    for flavours in [&["psi"][..], &["lockdep", "debug"], &["debug"], &["scx"], &["psi", "uclamp", "scx"]] {
        is_silent("6.12", flavours);
    }
}

/// Beside each access in a file that the bug changes stands that file's line, as it was compiled.
fn has_the_lines_of(story: &Story, compiled: &Compiled) {
    let edits = &compiled.seeded.as_ref().unwrap().edits;
    let files = edited_by("", edits, &packaged(&compiled.kernel.0).source).unwrap();
    let mut shown = 0;
    for row in story.rows() {
        let Some((file, line)) = row.place.split(' ').next().and_then(|place| place.split_once(':')) else {
            continue;
        };
        let Some(source) = files.get(std::path::Path::new(file)) else { continue };
        let line = source.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().trim().replace('\t', " ");
        assert!(line.starts_with(&row.text) && (line.is_empty() || !row.text.is_empty()), "{line}: {row:?}");
        shown += 1;
    }
    assert!(shown > 0, "{}", story.text());
}

/// Found, shrunk, written, read, repeated in another process; and the unmodified kernel does not show it.
#[test]
fn bugs_are_found_and_their_schedules_repeat() {
    for (seeded, scenario_name, wanted, strategy) in [
        ("queued-unchecked", "wakeup", "is runnable and on no queue", Strategy::Mix),
        ("state-before-lock", "wakeup", "is runnable and on no queue", Strategy::Mix),
        ("push-rt-unchecked", "rt-push", "", Strategy::Mix),
        ("state-before-lock", "wakeup", "is runnable and on no queue", Strategy::Pos),
        ("distribute-unlocked", "bandwidth3", "a group's time grew", Strategy::Pos),
        ("double-lock-order", "class-dl", "waits for a lock of cpu1's queue, which cpu1 has", Strategy::Mix),
    ] {
        let plan = Plan { strategy, ..plan(seeded, 1000) };
        let scenario = scenario(scenario_name);
        let explored = plan.explore(&scenario).unwrap();
        let finding = explored.findings.iter().find(|f| f.text.contains(wanted));
        let finding = finding.unwrap_or_else(|| panic!("{seeded}: {:?}", explored.findings));
        let shrunk = plan.shrink(finding).unwrap();
        assert!(shrunk.choices.len() <= finding.choices.len() && !shrunk.choices.is_empty());
        let text = plan.schedule(&shrunk, Vec::new()).to_string();
        let read = Schedule::parse("f", &text).unwrap();
        assert_eq!(read.to_string(), text);
        let again = || plan.replay(&scenario, &read.choices, "").unwrap();
        let (first, one) = again();
        // whoever builds the next bug meanwhile puts other files into the one tree
        let tree = BugTree::wait(&packaged("6.12")).unwrap();
        let old = std::fs::read_to_string(tree.path().join("kernel/sched/core.c")).unwrap();
        let line = old.lines().next().unwrap().to_owned();
        let edit =
            Edit { file: "kernel/sched/core.c".into(), old, new: format!("{line}\n\n// another bug\n") };
        tree.put("another", &[edit]).unwrap();
        let (second, two) = again();
        drop(tree);
        assert_eq!(first.as_ref().map(|f| &f.text), Some(&finding.text), "{seeded}");
        assert_eq!(first, second);
        assert_eq!(one.text(), two.text());
        assert!(one.text().contains("stood here"), "{}", one.text());
        has_the_lines_of(&one, &plan.compiled);
        assert!(one.text().contains(" rq1.") || one.text().contains(" rq0."), "{}", one.text());
        assert!(["t0.", "t1.", "t2."].iter().any(|task| one.text().contains(task)), "{}", one.text());
    }
}

/// Two stops that must match, each as long as a task needs. Without the bug the same stops show nothing.
#[test]
fn stops_that_end_with_a_change_match() {
    let scenario = scenario("push-foreign");
    let search = |seeded: &str| Plan { strategy: Strategy::Conflict, findings: 1, ..plan(seeded, 4000) };
    let with_bug = search("push-rt");
    let explored = with_bug.explore(&scenario).unwrap();
    let shrunk = with_bug.shrink(&explored.findings[0]).unwrap();
    let read = Schedule::parse("f", &with_bug.schedule(&shrunk, Vec::new()).to_string()).unwrap();
    assert!(read.to_string().contains(" until change 4 ram+0x"), "{read}");
    let (found, _) = with_bug.replay(&scenario, &read.choices, "").unwrap();
    assert_eq!(found.map(|f| f.text), Some(explored.findings[0].text.clone()));
    let (found, _) = search("").replay(&scenario, &read.choices, "").unwrap();
    assert_eq!(found.map(|f| f.text), None);
}

/// A waker whose word is late beyond the lock does not see the sleeper, which does not see the word. By order alone
/// nobody is lost, and with the barrier the same schedule shows nothing.
#[test]
fn a_missing_barrier_is_found_by_late_stores_alone() {
    let scenario = scenario("wakeup");
    let search = |seeded: &str, model| Plan { model, seed: 3, ..plan(seeded, 2000) };
    let late = search("wake-without-barrier", MemoryModel::Lkmm);
    let explored = late.explore(&scenario).unwrap();
    let finding = explored.findings.iter().find(|f| f.text.ends_with("was woken, and sleeps"));
    let shrunk = late.shrink(finding.unwrap_or_else(|| panic!("{:?}", explored.findings))).unwrap();
    assert!(shrunk.choices.iter().any(|choice| matches!(choice.what, ChoiceKind::Late(_))));
    let read = Schedule::parse("f", &late.schedule(&shrunk, Vec::new()).to_string()).unwrap();
    let again = || late.replay(&scenario, &read.choices, "").unwrap();
    let ((first, one), (second, two)) = (again(), again());
    assert_eq!(first.as_ref().map(|f| &f.text), Some(&shrunk.text));
    assert_eq!((&first, one.text()), (&second, two.text()));
    let (mended, _) = search("", MemoryModel::Lkmm).replay(&scenario, &read.choices, "").unwrap();
    assert_eq!(mended, None);
    let by_order = search("wake-without-barrier", MemoryModel::Sc);
    assert_eq!(by_order.explore(&scenario).unwrap().findings, []);
    let why = by_order.replay(&scenario, &read.choices, "").unwrap_err().to_string();
    assert!(why.contains("model lkmm"), "{why}");
}

/// What nothing orders in the unmodified kernel has a reason each; a lock that was taken out leaves a finding. Its
/// schedule shows that one, not the explained ones, in a story around both accesses.
#[test]
#[ignore = "long: builds a kernel with points"]
fn races_have_reasons_and_a_missing_lock_has_none() {
    let scenario = scenario("bandwidth-slack");
    let search = |seeded: &str| Plan { races: true, ..plan(seeded, 100) };
    let explored = search("").explore(&scenario).unwrap();
    let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
    assert!(texts.is_empty(), "{texts:?}");
    assert!(explored.explained.iter().any(|(known, _)| known.function == "idle_cpu"));

    let unlocked = search("assign-unlocked");
    let explored = unlocked.explore(&scenario).unwrap();
    let wanted = "nothing orders __assign_cfs_rq_runtime() and __return_cfs_rq_runtime()";
    let finding = explored.findings.iter().find(|f| f.text == wanted);
    let finding = finding.unwrap_or_else(|| panic!("{:?}", explored.findings));
    let (found, story) = unlocked.replay(&scenario, &finding.choices, wanted).unwrap();
    assert_eq!(found.map(|f| f.text), Some(wanted.to_owned()));
    assert_eq!(story.text().matches("nothing orders this and the other one").count(), 2);
}

/// `delayed-class` shows what the unmodified kernel shows in the same scenario, which needs a stop for it.
/// Without one it is a finding.
#[test]
#[ignore = "long: builds a kernel with points"]
fn a_finding_without_stops_is_not_explained_by_one_that_needs_them() {
    let scenario = scenario("class-delayed-dl");
    let explained = |seeded: &str, first: u64| {
        let plan = Plan { from: first, ..plan(seeded, first + 30) };
        let found = plan.explore(&scenario).unwrap().findings;
        let is = |known: &study::Explained| found.iter().any(|finding| known.is(finding));
        (found.len(), study::explained().unwrap().iter().any(is))
    };
    assert_eq!(explained("delayed-class", 0), (1, false));
    assert_eq!(explained("", 260), (1, true));
}

/// A warning is said once. One that came before the schedules begin is a finding of each of them; what ends the kernel
/// there is one of the scenario's.
#[test]
#[ignore = "long: builds a kernel with points"]
fn what_happens_before_the_schedules_begin_is_found() {
    let old = "\ttrace_sched_wakeup_new(p);\n";
    for (line, kind, times) in [("WARN_ON_ONCE(1)", "warn", 20), ("*(volatile int *)8 = 0", "crash", 1)] {
        let bug = Seeded {
            name: kind.into(),
            edits: vec![Edit {
                file: "kernel/sched/core.c".into(),
                old: old.into(),
                new: format!("{old}\t{line};\n"),
            }],
            ..seeded::named("queued-unchecked", "linux").unwrap()
        };
        let plan = plan_of(kernel_of("6.12", &[], Some(&bug)), 20);
        let scenario = scenario("rt-push");
        let findings = plan.explore(&scenario).unwrap().findings;
        let counts: Vec<_> = findings.iter().map(|f| (f.kind.as_str(), f.first_schedule, f.times)).collect();
        assert_eq!(counts, [(kind, 0, times)]);
        let (again, _) = plan.replay(&scenario, &plan.shrink(&findings[0]).unwrap().choices, "").unwrap();
        assert_eq!(again.map(|f| f.text), Some(findings[0].text.clone()));
    }
}

/// A search that goes on behind another one has made the same schedules as one that did not stop, none of them twice.
#[test]
#[ignore = "long: builds a kernel with points"]
fn a_search_goes_on_where_another_one_stopped() {
    let scenario = scenario("wakeup");
    let whole = Plan { races: true, ..plan("queued-unchecked", 200) };
    let at_once = whole.explore(&scenario).unwrap();
    let mut parts = Plan { schedules: 70, ..whole.clone() }.explore(&scenario).unwrap();
    assert!(parts.findings.iter().any(|f| f.kind == "invariant"), "{:?}", parts.findings);
    parts.go_on(Plan { from: 70, ..whole.clone() }.explore(&scenario).unwrap());
    let counts = |e: &Explored| {
        let mut races: Vec<_> = e.explained.iter().map(|(race, times)| (&race.reason, *times)).collect();
        races.sort();
        let races: Vec<(String, u64)> = races.into_iter().map(|(r, times)| (r.clone(), times)).collect();
        (e.schedules, e.points, races)
    };
    assert_eq!(counts(&parts), counts(&at_once));
    assert_eq!(parts.findings, at_once.findings);
}

/// A reason names an edit that there is, and scenarios that there are.
#[test]
fn reasons_name_edits_and_scenarios_that_exist() {
    let (seeds, scenarios) = (seeded::all().unwrap(), compile::scenarios("linux").unwrap());
    for known in study::explained().unwrap().iter().filter(|known| known.target == "linux") {
        let edit = seeds.iter().find(|seed| seed.name == known.mended_by);
        assert!(edit.is_some_and(|edit| edit.needs == "harmless"), "{}: {}", known.text, known.mended_by);
        for name in &known.scenarios {
            assert!(scenarios.iter().any(|scenario| scenario.name == *name), "{}: {name}", known.text);
        }
    }
}

/// The C files and headers of a folder of a kernel's source, and of those in it.
fn texts(folder: &std::path::Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            all.extend(texts(&entry));
        } else if entry.extension().is_some_and(|end| end == "c" || end == "h") {
            all.push(String::from_utf8_lossy(&std::fs::read(entry).unwrap()).into_owned());
        }
    }
    all
}

/// A race's reason is given once, of series that there are. What it names stands in the source of each of them that is
/// built on this machine.
#[test]
fn reasons_of_races_name_code_that_exists() {
    const SERIES: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];
    let all = whole::known::known("").unwrap();
    for (n, known) in all.iter().enumerate() {
        let name = format!("{}: {}", known.function, known.line);
        assert!(known.kernels.iter().all(|series| SERIES.contains(&series.as_str())), "{name}");
        assert!(known.reason.ends_with('.'), "{name}");
        let is_same = |other: &whole::known::KnownRace| {
            (&other.function, &other.line) == (&known.function, &known.line)
                && (other.kernels.is_empty() || known.kernels.iter().any(|k| other.kernels.contains(k)))
        };
        assert!(!all[..n].iter().any(is_same), "{name}: twice");
    }
    for series in SERIES {
        let Some(kernel) = build::find(series, &BuildOptions::default()).unwrap() else { continue };
        let texts = texts(&kernel.source.join("kernel"));
        // those of all series were read in 6.12
        let is_asked = |kernels: &[String]| match kernels.is_empty() {
            true => series == "6.12",
            false => kernels.iter().any(|of| of == series),
        };
        for known in all.iter().filter(|known| is_asked(&known.kernels)) {
            let (function, line) = (format!("{}(", known.function), &known.line);
            let is_there = texts.iter().any(|text| text.contains(&function) && text.contains(line.as_str()));
            assert!(is_there, "{series}: {}: {line}", known.function);
        }
    }
}

/// The scenarios that showed most pairs of the other series, with a seed that the entries were not written by.
#[test]
#[ignore = "long: builds kernels with points"]
fn races_of_other_series_have_reasons() {
    for series in ["5.10", "6.1", "7.2"] {
        let plan = Plan { races: true, seed: 11, ..plan_of(kernel_with(series, &[], ""), 50) };
        for name in ["affinity-both-short", "bandwidth-slack", "class-dl", "cpuset", "rt-limit"] {
            let explored = plan.explore(&scenario(name)).unwrap();
            let races = explored.findings.iter().filter(|f| f.kind == "race");
            let texts: Vec<&str> = races.map(|f| f.text.as_str()).collect();
            assert!(texts.is_empty(), "{series} {name}: {texts:?}");
            assert!(!explored.explained.is_empty(), "{series} {name}");
        }
    }
}

/// With its edit a finding of the unmodified kernel is gone.
#[test]
#[ignore = "long: builds a kernel with points"]
fn edits_mend_what_the_unmodified_kernel_shows() {
    for (edit, scenario_name, schedules) in [
        ("server-looked-again", "fair-server", 3000),
        ("server-uncounted", "hotplug-fork", 300),
        ("inactive-pulls-not", "hotplug-class", 1500),
    ] {
        let explored = plan(edit, schedules).explore(&scenario(scenario_name)).unwrap();
        let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
        assert!(texts.is_empty(), "{edit}: {texts:?}");
    }
}

/// Tasks take turns at a mutex that lends priority. The unmodified kernel forgets who waits for its next owner (a real
/// machine's does, too: docs/race.md).
#[test]
#[ignore = "long: builds a kernel with points"]
fn who_takes_a_mutex_with_waiters_keeps_what_they_lend() {
    is_mended("6.12", "owner-unlent", "mutex-dl", (64, 1), "waits for a mutex of");
}

#[test]
#[ignore = "long: builds kernels with points"]
fn edits_mend_what_6_12_shows_of_classes_that_change() {
    is_mended("6.12", "niced-boosted", "mutex", (1000, 1), "a callback waits for whoever does");
    is_mended(
        "6.12",
        "left-runs-on",
        "dl-leave",
        (1500, 2),
        "cpu0 runs leaver, and has a task of an earlier",
    );
    is_mended("6.12", "inactive-pulls-not", "hotplug-back", (800, 1), "would end as time passes");
}

/// Whoever makes the domains anew lets groups run beyond their limits.
#[test]
#[ignore = "long: builds kernels with points"]
fn cpus_that_stay_active_keep_groups_held_back() {
    let text = "a group's time grew without a new period";
    is_mended("6.12", "active-held-back", "bandwidth-domains", (300, 1), text);
    is_mended("6.1", "active-held-back-6.1", "bandwidth-domains", (300, 1), text);
}

const HELD_BACK: &str = "a deadline task is held back until it has time again, and no timer will end that";
const BUSY: &str = "its cache counts more busy CPUs than there are";

/// What the checks found of 6.12 they find of other series, and the edit mends it there, too.
#[test]
#[ignore = "long: builds a kernel with points"]
fn edits_mend_what_5_10_shows() {
    is_mended("5.10", "held-back-outside", "class-dl", (2000, 2), HELD_BACK);
    is_mended("5.10", "weight-of-domain", "hotplug-dl", (1500, 2), BUSY);
    is_mended(
        "5.10",
        "moved-unheard-5.10",
        "hotplug-bandwidth",
        (300, 1),
        "is idle, and 1 of its tasks could run",
    );
    is_mended("5.10", "workers-bound", "hotplug-partition", (100, 1), "process_one_work");
    is_mended("5.10", "off-cpu-turns-free", "hotplug-dl-held", (1000, 1), "set_task_cpu");
}

#[test]
#[ignore = "long: builds kernels with points"]
fn edits_mend_what_6_1_and_7_2_show() {
    is_mended("6.1", "held-back-outside", "class-dl", (1500, 3), HELD_BACK);
    is_mended("6.1", "weight-of-domain", "hotplug-rt", (300, 2), BUSY);
    is_mended("7.2", "held-back-outside", "class-dl", (1500, 3), HELD_BACK);
    is_mended("7.2", "replenished-unheard", "dl-late", (1000, 1), "is idle, and 1 of its tasks could run");
    let text = "have more bandwidth than is reserved in their domain";
    is_mended("7.2", "moved-asleep", "cpuset-dl-asleep", (300, 2), text);
    let text = "more bandwidth is reserved than deadline tasks and servers have";
    is_mended("7.2", "offline-reserves-twice", "hotplug-dl-off", (100, 1), text);
}

/// So many schedules from a seed on show this text, and with the edit none does.
fn is_mended(series: &str, edit: &str, scenario_name: &str, (schedules, seed): (u64, u64), text: &str) {
    for seeded in ["", edit] {
        let plan = Plan { seed, findings: 20, ..plan_of(kernel(series, seeded), schedules) };
        let explored = plan.explore(&scenario(scenario_name)).unwrap();
        let shows = explored.findings.iter().any(|finding| finding.text.contains(text));
        assert_eq!(shows, seeded.is_empty(), "{series} {scenario_name} '{seeded}'");
    }
}
