//! Are verdicts on policies that are known right?

use schedlab_harmony::data::Effort;
use schedlab_harmony::experiments::Depth;
use schedlab_harmony::toys::{self, Family, KnownToy, SchedExt, Score, Truth};
use schedlab_lab::Silent;
use std::path::Path;

fn tried(cases: &[KnownToy], depth: Depth) -> Vec<toys::Tried> {
    let effort = Effort { depth, seed: 1, jobs: schedlab_runner::pool::cores() };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/scx/tests/queues.bpf.c");
    let sched_ext = Some(SchedExt { source: &source, hz: 250, progress: &Silent });
    toys::asked(cases, effort, sched_ext, |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn check(tried: &[toys::Tried]) {
    for toy in tried {
        for (id, _, answer, score) in toy.rows.iter().filter(|row| row.3 != Score::Right) {
            println!("{} {id} {score:?}: {}", toy.case.params, answer.evidence.join("; "));
        }
    }
    let failed: Vec<&String> = tried.iter().flat_map(|toy| &toy.failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let wrong = toys::count(tried, Score::Wrong) + toys::count(tried, Score::Outside);
    assert_eq!(wrong, 0, "\n{}", toys::table(tried, false).to_text());
    let all: usize = tried.iter().map(|toy| toy.rows.len()).sum();
    let undecided = toys::count(tried, Score::Undecided);
    assert!(undecided * 10 <= all, "{undecided} of {all} undecided\n{}", toys::table(tried, false).to_text());
}

/// Of queues of 9, 9, 9 and 0: half of the difference, what is above the mean of 6.75, or always three.
#[test]
fn what_an_idle_cpu_takes_is_found() {
    let known = |(amount, taken): (&str, f64)| KnownToy {
        params: format!("busy=60ms:idle=20ms:amount={amount}"),
        family: Family::Native,
        has_caches: false,
        truths: vec![("idle_amount", Truth::Number(taken))],
    };
    let cases = [("pairwise", 4.0), ("poly", 2.0), ("fixed:number=3", 3.0)].map(known);
    let tried = tried(&cases, Depth::Full);
    assert_eq!(toys::count(&tried, Score::Right), cases.len(), "\n{}", toys::table(&tried, true).to_text());
}

/// A toy of each kind; all of them in the long test.
#[test]
fn verdicts_on_some_toys_are_right() {
    let cases = toys::named();
    let some: Vec<KnownToy> = cases.into_iter().step_by(6).collect();
    assert!(some.len() >= 5);
    check(&tried(&some, Depth::Full));
}

#[test]
#[ignore = "long: 34 toys, a minute on two cores"]
fn verdicts_on_all_named_toys_are_right() {
    check(&tried(&toys::named(), Depth::Full));
}

/// The same of toys in BPF C, on Linux's own ext.c.
#[test]
#[ignore = "long: 18 toys on real Linux at full depth"]
fn verdicts_on_sched_ext_toys_are_right() {
    check(&tried(&toys::named_sched_ext(), Depth::Full));
}

#[test]
#[ignore = "long: 40 drawn toys, a minute on two cores"]
fn verdicts_on_drawn_toys_are_right_and_intervals_hold_what_they_say() {
    let tried = tried(&toys::drawn(1, 40), Depth::Full);
    let coverage = toys::coverage(&tried);
    // 95 % intervals of numbers: at least nine in ten hold the truth; those that do not are wrong answers by chance
    assert!(
        coverage.of >= 20 && coverage.share() >= 0.9,
        "{coverage:?}\n{}",
        toys::table(&tried, false).to_text()
    );
    assert!(coverage.width <= 0.1, "{coverage:?}");
    assert_eq!(toys::count(&tried, Score::Wrong), 0, "\n{}", toys::table(&tried, false).to_text());
}
