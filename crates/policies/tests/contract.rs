//! Every registered scheduler keeps the contract of `schedlab_machine::policy`, on 1, 2 and 4 CPUs.

use schedlab_machine::contract;
use schedlab_policies::lab::{Lab, Step, TaskSpec};
use schedlab_policies::registry;
use schedlab_units::Span;

fn check(seeds: std::ops::Range<u64>) {
    assert!(registry().len() >= 2);
    for info in registry() {
        let made = contract::check(&|| info.build(&[]).expect("the defaults are valid"), seeds.clone());
        let records = made.unwrap_or_else(|violation| panic!("{}: {violation}", info.name));
        assert!(records > 1_000, "{}: only {records} records", info.name);
    }
}

#[test]
fn every_policy_keeps_the_contract() {
    check(0..100);
}

#[test]
#[ignore = "long: 5,000 workloads for every policy"]
fn every_policy_keeps_the_contract_for_long() {
    check(100..5_100);
}

/// Eight tasks without deadline that never sleep keep four CPUs busy: after 2 s none has been idle for more than 5 %.
#[test]
fn every_policy_uses_all_cpus() {
    const LIMIT: Span = Span::from_s(2);
    let hogs: Vec<TaskSpec> = (0..8).map(|_| TaskSpec::nice(0, &[Step::Run(10_000)])).collect();
    let fits = ["first", "best", "worst"].map(|fit| ("fit", fit));
    for info in registry() {
        let is_divided = |param: &(&str, &str)| info.params.iter().any(|known| known.name == param.0);
        let variants = fits.iter().filter(|fit| is_divided(fit)).map(|fit| Some(*fit)).chain([None]);
        for param in variants {
            let lab = Lab::new(info.name, 4);
            let lab = match param {
                Some((name, value)) => lab.param(name, value),
                None => lab,
            };
            let measured = lab.run(LIMIT, &hogs).expect("hogs run anywhere");
            let mut used = [0; 4];
            for &(cpu, from_ns, to_ns, _) in measured.runs() {
                used[cpu] += to_ns - from_ns;
            }
            let least = LIMIT.as_ns() / 100 * 95;
            assert!(used.iter().all(|&ns| ns >= least), "{} {param:?}: {used:?}", info.name);
        }
    }
}

/// The default that is shown is the value in force: setting it changes nothing, on any number of CPUs. A
/// value that is set is in force as it is, so that the default of one CPU is another slice on four.
#[test]
fn a_default_that_is_set_changes_nothing() {
    let life = [Step::Run(7), Step::Sleep(3), Step::Run(20)];
    let tasks: Vec<TaskSpec> = (0..9).map(|nice| TaskSpec::nice(nice, &life.repeat(5))).collect();
    let records = |name: &str, nr_cpus: u32, params: &[(&str, &str)]| {
        let lab = params.iter().fold(Lab::new(name, nr_cpus), |lab, (name, value)| lab.param(name, value));
        lab.run(Span::from_ms(400), &tasks).expect("the workload runs anywhere").records
    };
    for nr_cpus in [1, 2, 4] {
        for info in registry() {
            let defaults: Vec<_> = info.params.iter().map(|param| (param.name, param.default)).collect();
            let plain = records(info.name, nr_cpus, &[]);
            assert_eq!(plain, records(info.name, nr_cpus, &defaults), "{} on {nr_cpus} CPUs", info.name);
        }
        let [plain, set] = [&[][..], &[("base_slice", "700us")]].map(|p| records("eevdf", nr_cpus, p));
        assert_eq!(plain == set, nr_cpus == 1, "{nr_cpus} CPUs");
    }
}
