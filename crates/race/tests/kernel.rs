//! cpupri.c and cpudeadline.c of Linux 6.12, as they are and with bugs; and of the other versions.

mod common;

use schedlab_linux::BuiltKernel;
use schedlab_linux::build::{self, BuildOptions};
use schedlab_race::compile::{self, Compiled, kernel_target};
use schedlab_race::explore::Plan;
use schedlab_race::seeded;
use schedlab_race::threads::{self, Load};
use schedlab_race::{MemoryModel, Strategy, study};
use sha2::{Digest, Sha256};

fn version(series: &str) -> BuiltKernel {
    build::add(series, &BuildOptions::default(), &mut |_| {}).unwrap()
}

fn kernel() -> BuiltKernel {
    version("6.12")
}

fn plan(target: &str, seeded: &str, model: MemoryModel, schedules: u64) -> Plan {
    let all = seeded::all().unwrap();
    let seeded = (!seeded.is_empty()).then(|| all.iter().find(|s| s.name == seeded).unwrap());
    plan_of(kernel_target(target, &kernel(), seeded).unwrap(), model, schedules)
}

fn plan_of(compiled: Compiled, model: MemoryModel, schedules: u64) -> Plan {
    common::plan_of(compiled, model, Strategy::Mix, schedules)
}

/// Texts of all findings, over all scenarios, each once.
fn found(plan: &Plan) -> Vec<String> {
    let scenarios = compile::scenarios(&plan.compiled.name).unwrap();
    assert!(scenarios.len() >= 4);
    let mut texts: Vec<String> = scenarios
        .iter()
        .flat_map(|scenario| plan.explore(scenario).unwrap().findings.into_iter().map(|f| f.text))
        .collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Threads use the unmodified files at the same time, and the structures say what the queues say; a count that is never
/// taken back, atomic operations that are none, and a CPU that stays free are found.
#[test]
fn threads_find_what_stays_wrong() {
    let load = Load {
        threads: 8,
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        cycles: 50_000,
        ..Load::default()
    };
    let all = seeded::all().unwrap();
    for (target, seeded, text) in [
        ("cpupri", "", ""),
        ("cpudl", "", ""),
        ("cpupri", "count-stays", "count of a level"),
        ("cpudl", "stays-free", "in the heap and free"),
    ] {
        let seeded = all.iter().find(|s| s.name == seeded);
        let program = compile::kernel_program(target, &kernel(), seeded, false).unwrap();
        let stressed = threads::stress(&program, &load).unwrap();
        match text {
            "" => assert_eq!(stressed.finding, None, "{target}"),
            text => {
                assert!(stressed.finding.as_ref().is_some_and(|found| found.contains(text)), "{stressed:?}")
            }
        }
    }
}

/// The file is the package's, and what is found has its reason.
fn is_silent(kernel: &BuiltKernel) {
    let explained = study::explained().unwrap();
    for (target, file) in compile::KERNEL_TARGETS {
        let compiled = kernel_target(target, kernel, None).unwrap();
        let bytes = std::fs::read(kernel.source.join(file)).unwrap();
        let sum: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(compiled.source, (file.to_owned(), sum), "what was compiled is the package's file");
        for model in [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm] {
            let new: Vec<String> = found(&plan_of(compiled.clone(), model, 3000))
                .into_iter()
                .filter(|text| {
                    !explained.iter().any(|e| e.covers(target, "", model, None) && e.text == *text)
                })
                .collect();
            assert_eq!(new, Vec::<String>::new(), "{target} of {}, {}", kernel.series, model.name());
        }
    }
}

#[test]
fn unmodified_files_show_what_is_explained_and_nothing_else() {
    is_silent(&kernel());
}

/// Their levels, masks and locks differ; the same must hold of them, under the explorer and under threads.
#[test]
#[ignore = "long: builds three kernels"]
fn other_versions_are_targets() {
    for series in ["5.10", "6.1", "7.2"] {
        let kernel = version(series);
        is_silent(&kernel);
        for (target, _) in compile::KERNEL_TARGETS {
            let program = compile::kernel_program(target, &kernel, None, false).unwrap();
            let stressed = threads::stress(&program, &Load { threads: 8, ..Load::default() }).unwrap();
            assert_eq!(stressed.finding, None, "{target} of {series}");
            assert!(stressed.count("checks") > 0 && stressed.count("calls_find") > 100, "{stressed:?}");
        }
        let all = seeded::all().unwrap();
        let seeded = all.iter().find(|s| s.name == "count-stays").unwrap();
        let bug = plan_of(kernel_target("cpupri", &kernel, Some(seeded)).unwrap(), MemoryModel::Sc, 3000);
        assert!(!found(&bug).is_empty(), "{series} with a count that is never taken back");
    }
}

#[test]
fn an_undone_fix_is_found_shrunk_and_named() {
    let plan = plan("cpupri", "empty-mask", MemoryModel::Sc, 3000);
    let scenarios = compile::scenarios("cpupri").unwrap();
    let raise = scenarios.iter().find(|s| s.name == "raise").unwrap();
    let explored = plan.explore(raise).unwrap();
    let texts: Vec<&str> = explored.findings.iter().map(|f| f.text.as_str()).collect();
    assert_eq!(texts, ["cpupri_find() returns 1 with an empty mask"]);
    let shrunk = plan.shrink(&explored.findings[0]).unwrap();
    assert!(
        shrunk.preemptions <= 2 && shrunk.scenario.nr_calls() == 2,
        "{}",
        plan.schedule(&shrunk, Vec::new())
    );
    let (_, story) = plan.replay(&shrunk.scenario, &shrunk.choices, "").unwrap();
    assert!(story.text().contains(" kernel/sched/cpupri.c:"), "{}", story.text());
}

#[test]
fn a_barrier_is_missed_by_the_weak_model_alone() {
    assert_eq!(found(&plan("cpupri", "no-read-barriers", MemoryModel::Sc, 2000)), Vec::<String>::new());
    assert_eq!(found(&plan("cpupri", "no-read-barriers", MemoryModel::Tso, 2000)), Vec::<String>::new());
    let weak = found(&plan("cpupri", "no-read-barriers", MemoryModel::Lkmm, 2000));
    assert_eq!(weak, ["cpupri_find() misses a CPU that could take the task during the whole call"]);
    assert_eq!(
        found(&plan("cpupri", "read-barrier-per-level", MemoryModel::Lkmm, 20_000)),
        Vec::<String>::new()
    );
}

#[test]
fn an_edit_that_does_not_fit_is_refused() {
    let mut seeded = seeded::all().unwrap().into_iter().find(|s| s.name == "empty-mask").unwrap();
    seeded.edits[0].old = "no such text".into();
    let error = kernel_target("cpupri", &kernel(), Some(&seeded)).unwrap_err().to_string();
    assert!(error.contains("is there 0 times in this version, expected once"), "{error}");
}
