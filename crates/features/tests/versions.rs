//! Every scenario on real kernels. 6.12 and 6.1 in every test run; the other versions and the large builds in
//! the long one.

use schedlab_features::{FeatureCell, ScenarioBench, all};
use schedlab_linux::build::{self, BuildOptions};
use schedlab_runner::LinuxObject;

/// Runs the scenarios that this build is for; fails with every cell that is not fine.
fn every_scenario(series: &str, options: &BuildOptions) {
    let kernel = build::add(series, options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let version = kernel.linux_version();
    let object = LinuxObject::of(&kernel);
    let bench = ScenarioBench { kernel: object, version };
    let mut wrong = Vec::new();
    let mut ran = 0;
    for feature in all() {
        let flavoured = !options.flavours.is_empty();
        let wanted = if flavoured {
            feature.flavour.is_some_and(|(f, _)| options.flavours.iter().any(|o| o == f))
        } else {
            feature.nr_cpus == options.nr_cpus
        };
        if !wanted {
            continue;
        }
        let cell = bench.run(&feature);
        ran += usize::from(matches!(cell, FeatureCell::Ran(_)));
        // what a flavour is for must be there
        if !cell.is_fine() || flavoured && !matches!(cell, FeatureCell::Ran(_)) {
            wrong.push(format!("{}: {cell:?}", feature.name));
        }
    }
    assert!(wrong.is_empty(), "{series}:\n{}", wrong.join("\n"));
    let least = if options.nr_cpus > 64 {
        2
    } else if options.flavours.is_empty() {
        40
    } else {
        1
    };
    assert!(ran >= least, "{series}: only {ran} scenarios ran");
}

#[test]
fn linux_6_12_does_what_its_formulas_say() {
    every_scenario("6.12", &BuildOptions::default());
}

#[test]
#[ignore = "long: builds Linux 6.1"]
fn linux_6_1_does_what_its_formulas_say() {
    every_scenario("6.1", &BuildOptions::default());
}

#[test]
#[ignore = "long: downloads and builds another kernel"]
fn linux_5_10_does_what_its_formulas_say() {
    every_scenario("5.10", &BuildOptions::default());
}

#[test]
#[ignore = "long: downloads and builds another kernel, from a suite that moves"]
fn linux_7_2_does_what_its_formulas_say() {
    every_scenario("7.2", &BuildOptions::default());
}

#[test]
#[ignore = "long: builds a kernel for 1,024 CPUs"]
fn a_thousand_cpus_boot_and_balance() {
    every_scenario("6.12", &BuildOptions { nr_cpus: 1024, ..BuildOptions::default() });
}

/// Its per-CPU memory is the port's (linux/arch-warp/kernel/percpu.c).
#[test]
#[ignore = "long: downloads and builds another kernel, for 1,024 CPUs"]
fn a_thousand_cpus_of_5_10_boot_and_balance() {
    every_scenario("5.10", &BuildOptions { nr_cpus: 1024, ..BuildOptions::default() });
}

#[test]
#[ignore = "long: builds another flavour"]
fn clamps_choose_the_big_cores() {
    every_scenario("6.12", &BuildOptions { flavours: vec!["uclamp".into()], ..BuildOptions::default() });
}
