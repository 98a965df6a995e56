//! A whole scheduler, as it is and with bugs. The kernel is built once, and one file of it for each bug.

use schedlab_linux::BuiltKernel;
use schedlab_linux::build::{self, BuildOptions};
use schedlab_race::compile::{self, Compiled, seeds};
use schedlab_race::explore::Plan;
use schedlab_race::{MemoryModel, Scenario, Schedule, Strategy, whole};

fn kernel(series: &str, seeded: &str) -> Compiled {
    let packaged = build::add(series, &BuildOptions::default(), &mut |_| {}).unwrap();
    let all = seeds().unwrap();
    let seeded = (!seeded.is_empty()).then(|| all.iter().find(|s| s.name == seeded).unwrap());
    let mut tree = |path: &std::path::Path, options: &BuildOptions| -> Result<BuiltKernel, _> {
        build::add_tree(path, options, &mut |_| {})
    };
    whole::build::packaged(&packaged, &[], seeded, &mut tree).unwrap()
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
        without: Vec::new(),
        races: false,
    }
}

fn scenario(name: &str) -> Scenario {
    compile::scenarios("linux").unwrap().into_iter().find(|s| s.name == name).unwrap()
}

#[test]
#[ignore = "long: builds a kernel with points"]
fn the_unmodified_scheduler_is_silent() {
    is_silent("6.12");
}

#[test]
#[ignore = "long: builds three kernels with points"]
fn other_versions_are_silent_too() {
    ["5.10", "6.1", "7.2"].into_iter().for_each(is_silent);
}

fn is_silent(series: &str) {
    let plan = plan_of(kernel(series, ""), 1000);
    let scenarios = compile::scenarios("linux").unwrap();
    assert!(scenarios.len() >= 7);
    for scenario in scenarios {
        let explored = plan.explore(&scenario).unwrap();
        assert_eq!(explored.schedules, 1000, "{}", scenario.name);
        let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(texts, Vec::<&str>::new(), "{series}, {}", scenario.name);
    }
}

/// Found, shrunk, written, read, repeated in another process; and the unmodified kernel does not show it.
#[test]
#[ignore = "long: builds a kernel with points"]
fn bugs_are_found_and_their_schedules_repeat() {
    for (seeded, scenario_name, wanted) in [
        ("queued-unchecked", "wakeup", "is runnable and on no queue"),
        ("state-before-lock", "wakeup", "is runnable and on no queue"),
        ("push-rt-unchecked", "rt-push", ""),
    ] {
        let plan = plan(seeded, 1000);
        let scenario = scenario(scenario_name);
        let explored = plan.explore(&scenario).unwrap();
        let finding = explored.findings.iter().find(|f| f.text.contains(wanted));
        let finding = finding.unwrap_or_else(|| panic!("{seeded}: {:?}", explored.findings));
        let shrunk = plan.shrink(finding).unwrap();
        assert!(shrunk.choices.len() <= finding.choices.len() && !shrunk.choices.is_empty());
        let text = plan.schedule(&shrunk, Vec::new()).to_string();
        let read = Schedule::parse("f", &text).unwrap();
        assert_eq!(read.to_string(), text);
        let again = || plan.replay(&scenario, &read.choices).unwrap();
        let ((first, one), (second, two)) = (again(), again());
        assert_eq!(first.as_ref().map(|f| &f.text), Some(&finding.text), "{seeded}");
        assert_eq!(first, second);
        assert_eq!(one.text(), two.text());
        assert!(one.text().contains("stood here"), "{}", one.text());
    }
}

/// Accesses that nothing orders have names, and locks order what they protect.
#[test]
#[ignore = "long: builds a kernel with points"]
fn races_are_named_by_their_functions() {
    let plan = Plan { races: true, ..plan("", 4) };
    let explored = plan.explore(&scenario("wakeup")).unwrap();
    let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
    // idle_cpu() looks at another CPU's rq->curr without its lock
    assert!(texts.contains(&"nothing orders __schedule() and idle_cpu()"), "{texts:?}");
}
