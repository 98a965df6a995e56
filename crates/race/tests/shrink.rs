//! How short is what a finding is shrunk to? And which barriers does an audit find needed?

mod common;

use schedlab_linux::BuiltKernel;
use schedlab_linux::build::{self, BuildOptions};
use schedlab_race::compile::{self, kernel_target, own_target};
use schedlab_race::explore::Plan;
use schedlab_race::seeded;
use schedlab_race::study::{self, Change};
use schedlab_race::{MemoryModel, Scenario, Strategy};

/// More switches than these nobody wants to read: half of the findings have fewer, or as many.
const MEDIAN_PREEMPTIONS: u32 = 4;

fn kernel(series: &str) -> BuiltKernel {
    build::add(series, &BuildOptions::default(), &mut |_| {}).unwrap()
}

fn plan(target: &str, seeded: &str, kernel: &BuiltKernel, model: MemoryModel, schedules: u64) -> Plan {
    let all = seeded::all().unwrap();
    let seeded = (!seeded.is_empty()).then(|| all.iter().find(|s| s.name == seeded).unwrap());
    let compiled = kernel_target(target, kernel, seeded).unwrap();
    Plan { findings: 1, ..common::plan_of(compiled, model, Strategy::Mix, schedules) }
}

#[test]
#[ignore = "long: compiles and shrinks every seeded bug of cpupri and cpudl"]
fn findings_of_seeded_bugs_shrink_to_four_preemptions_or_fewer() {
    let kernel = kernel("6.12");
    let explained = study::explained().unwrap();
    let mut preemptions = Vec::new();
    for seeded in seeded::all().unwrap().iter().filter(|s| s.target != "linux" && s.needs != "harmless") {
        let model = if seeded.needs == "weak" { MemoryModel::Lkmm } else { MemoryModel::Sc };
        let plan = Plan { findings: 8, ..plan(&seeded.target, &seeded.name, &kernel, model, 20_000) };
        let is_new = |text: &str| {
            !explained.iter().any(|e| e.covers(&seeded.target, "", model, Some(seeded)) && e.text == text)
        };
        let finding = compile::scenarios(&seeded.target).unwrap().iter().find_map(|scenario| {
            plan.explore(scenario).unwrap().findings.into_iter().find(|f| is_new(&f.text))
        });
        let finding = finding.unwrap_or_else(|| panic!("{} is not found", seeded.name));
        let shrunk = plan.shrink(&finding).unwrap();
        let (cpus, calls) = (shrunk.scenario.cpus.len(), shrunk.scenario.nr_calls());
        println!(
            "{:<28} {cpus} CPUs, {calls} calls, {} choices, {} preemptions (found with {})",
            seeded.name,
            shrunk.choices.len(),
            shrunk.preemptions,
            finding.preemptions
        );
        preemptions.push(shrunk.preemptions);
    }
    preemptions.sort_unstable();
    let median = preemptions[preemptions.len() / 2];
    println!("median {median} of {preemptions:?}");
    assert!(median <= MEDIAN_PREEMPTIONS);
}

/// A C file with a macro MENDED: shrunk, and what the mended file does in the shrunk scenario.
fn shrunk_and_mended(body: &str, scenario: &str) -> (Scenario, usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.c");
    let scenario = scenario.replace('\n', "\\n");
    let text = format!(
        "#include <schedlab_race.h>\n#include <stdatomic.h>\n{body}\n\
         RACE_TARGET(.name = \"made\", .ops = ops, .scenario = \"{scenario}\");\n"
    );
    std::fs::write(&path, text).unwrap();
    let plan = |defines: &[String]| {
        common::plan_of(own_target(&path, defines).unwrap(), MemoryModel::Sc, Strategy::Mix, 3000)
    };
    let buggy = plan(&[]);
    let own = Scenario::parse("own", &buggy.describe().unwrap().1.unwrap()).unwrap();
    let finding = buggy.explore(&own).unwrap().findings.remove(0);
    let shrunk = buggy.shrink(&finding).unwrap().scenario;
    let mended = plan(&["MENDED".to_owned()]);
    assert_eq!(mended.explore(&own).unwrap().findings, []);
    let found = mended.explore(&shrunk).unwrap().findings.len();
    (shrunk, found)
}

/// Without the call that wakes, or stores what is waited for, every order loses the wakeup: that is another finding,
/// which no mended file is without.
#[test]
fn what_somebody_waits_for_is_not_shrunk_away() {
    let idle = "static _Atomic int work, sleeping[RACE_CPUS_MAX];
static long give(int cpu, const long *x, int n)
{ work += 1; for (int i = 0; i < RACE_CPUS_MAX; i++) if (sleeping[i]) { race_wake(i); break; } return 0; }
#ifdef MENDED
#define SAY(cpu) sleeping[cpu] = 1; if (work) { sleeping[cpu] = 0; race_awake(); break; }
#else
#define SAY(cpu) if (work) { race_awake(); break; } sleeping[cpu] = 1;
#endif
static long take(int cpu, const long *x, int n)
{ while (!work) { race_will_sleep(); SAY(cpu) race_sleep(); sleeping[cpu] = 0; } work -= 1; return 0; }
static const struct race_op ops[] = { { \"give\", give, \"\", 0 }, { \"take\", take, \"\", 0 }, { } };";
    let looped = "static volatile int waiting, go;
static long wait(int cpu, const long *x, int n) { waiting = 1; while (!go) race_relax(); return 0; }
#ifdef MENDED
static long tell(int cpu, const long *x, int n) { go = 1; return 0; }
#else
static long tell(int cpu, const long *x, int n) { if (waiting) go = 1; return 0; }
#endif
static const struct race_op ops[] = { { \"wait\", wait, \"\", 0 }, { \"tell\", tell, \"\", 0 }, { } };";
    for (body, scenario, calls) in [
        (idle, "cpus 2\ncpu0 give\ncpu1 take\n", 2),
        (looped, "cpus 2\ncpu0 wait\ncpu1 tell\n", 2),
        // calls before all others give as well
        (idle, "cpus 2\nfirst give\ncpu0 give\ncpu1 take; take\n", 2),
    ] {
        let (shrunk, found) = shrunk_and_mended(body, scenario);
        assert!(shrunk.nr_calls() >= calls, "{}", shrunk.text);
        assert_eq!(found, 0, "{}", shrunk.text);
    }
}

/// Each barrier that the audit calls needed comes with a schedule that shows it again.
fn audited(
    target: &str,
    mended_by: &str,
    kernel: &BuiltKernel,
    schedules: u64,
) -> Vec<(String, Change, bool)> {
    let plan = plan(target, mended_by, kernel, MemoryModel::Lkmm, schedules);
    let scenarios = compile::scenarios(target).unwrap();
    let all = study::audit(&plan, &scenarios, &mut |_| {}).unwrap();
    let mut told = Vec::new();
    for one in all {
        assert!(one.finding.is_some() || one.schedules >= schedules * scenarios.len() as u64);
        if let Some((without, finding)) = &one.finding {
            let again = without.replay(&finding.scenario, &finding.choices, "").unwrap().0.unwrap();
            assert_eq!(again.text, finding.text, "{}", one.words());
            let named = study::barriers_at(&plan, &finding.scenario, &[one.words()]).unwrap();
            // a shrunk scenario may not come to all places of the barrier; those that it comes to show the harm again
            let kept = Plan { without: named, ..without.clone() };
            let kept = kept.replay(&finding.scenario, &finding.choices, "").unwrap().0;
            assert_eq!(kept.map(|f| f.text).as_ref(), Some(&finding.text), "{}", one.words());
        }
        println!("{:<8} {:<9} {}", kernel.series, one.finding.is_some(), one.words());
        told.push((one.words(), one.change, one.finding.is_some()));
    }
    told
}

#[test]
fn an_audit_tells_needed_barriers_from_others() {
    let kernel = kernel("6.12");
    let pri = audited("cpupri", "read-barrier-per-level", &kernel, 2000);
    let needed =
        |kind: &str| pri.iter().filter(|(words, _, needed)| *needed && words.starts_with(kind)).count();
    assert!(needed("read barrier") >= 1, "{pri:?}");
    assert!(pri.iter().any(|(_, change, _)| *change == Change::Later));
    assert!(pri.iter().any(|(words, _, needed)| !needed && words.starts_with("full barrier")), "{pri:?}");
    let dl = audited("cpudl", "", &kernel, 2000);
    assert!(dl.iter().any(|(words, _, needed)| *needed && words.starts_with("unlock's release")), "{dl:?}");
}

#[test]
#[ignore = "long: builds three kernels, and audits both files of each"]
fn other_versions_are_audited() {
    for series in ["5.10", "6.1", "7.2"] {
        let kernel = kernel(series);
        for (target, mended_by) in [("cpupri", "read-barrier-per-level"), ("cpudl", "")] {
            let told = audited(target, mended_by, &kernel, 20_000);
            assert!(told.iter().any(|(_, _, needed)| *needed), "{target} of {series}: {told:?}");
        }
    }
}
