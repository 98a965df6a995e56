//! The kernel's own litmus tests, against what herd7 says of them.

use schedlab_linux::build::{self, BuildOptions};
use schedlab_race::compile::own_target;
use schedlab_race::explore::Plan;
use schedlab_race::litmus::Litmus;
use schedlab_race::{MemoryModel, Scenario, Strategy};

/// Allowed, and not modelled: a load that sees a store which comes later (LB), the inside of a lock that is seen before
/// the lock (MP+polockonce), stores that reach two CPUs in different order (Z6.0).
const MISSED: [&str; 4] = [
    "LB+poonceonces",
    "MP+polockonce+poacquiresilsil",
    "Z6.0+pooncelock+pooncelock+pombonce",
    "Z6.0+pooncerelease+poacquirerelease+fencembonceonce",
];

/// Whether the outcome is seen under each of the three models.
fn seen(litmus: &Litmus, schedules: u64) -> [bool; 3] {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("litmus.c");
    std::fs::write(&path, &litmus.source).unwrap();
    let compiled =
        own_target(&path, &[]).unwrap_or_else(|e| panic!("{}: {e}\n{}", litmus.name, litmus.source));
    [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm].map(|model| {
        let plan = Plan {
            compiled: compiled.clone(),
            model,
            strategy: Strategy::Mix,
            seed: 1,
            schedules,
            jobs: 1,
            findings: 1,
            without: Vec::new(),
            races: false,
        };
        let scenario = Scenario::parse("own", &plan.describe().unwrap().1.unwrap()).unwrap();
        !plan.explore(&scenario).unwrap().findings.is_empty()
    })
}

fn all() -> Vec<Litmus> {
    let kernel = build::add("6.12", &BuildOptions::default(), &mut |_| {}).unwrap();
    let dir = kernel.source.join("tools/memory-model/litmus-tests");
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "litmus"));
    paths.sort();
    paths
        .iter()
        .map(|p| Litmus::parse(&p.display().to_string(), &std::fs::read_to_string(p).unwrap()).unwrap())
        .collect()
}

#[test]
#[ignore = "long: compiles and explores 35 programs under three models"]
fn no_outcome_that_herd7_forbids_is_seen() {
    let tests = all();
    assert_eq!(tests.len(), 35);
    let mut missed = Vec::new();
    for litmus in &tests {
        let [sc, tso, lkmm] = seen(litmus, 20_000);
        println!("{:<50} herd7 {:<10} sc {sc:<5} tso {tso:<5} lkmm {lkmm}", litmus.name, litmus.verdict);
        assert!(!sc || tso, "{}: what order alone shows, tso shows", litmus.name);
        match litmus.verdict.as_str() {
            "Never" => assert!(!sc && !tso && !lkmm, "{} is seen", litmus.name),
            "Sometimes" if !lkmm => missed.push(litmus.name.as_str()),
            _ => {}
        }
    }
    assert_eq!(missed, MISSED);
}

#[test]
fn the_shape_of_the_finding_in_cpupri_is_seen_by_late_loads_alone() {
    let path = build::port().unwrap().join("race/litmus/cpupri-next-level.litmus");
    let litmus = Litmus::parse("shape", &std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(litmus.verdict, "Sometimes");
    assert_eq!(seen(&litmus, 5000), [false, false, true]);
    let text = litmus.source.replace("r1 = READ_ONCE(*mask1);", "r1 = READ_ONCE(*mask1); smp_rmb();");
    assert_eq!(seen(&Litmus { source: text, ..litmus }, 5000), [false; 3], "a read barrier mends it");
}
