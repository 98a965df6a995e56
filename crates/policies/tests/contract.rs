//! Every registered scheduler keeps the contract of `schedlab_machine::policy`, on 1, 2 and 4 CPUs.

use schedlab_machine::contract;
use schedlab_policies::registry;

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
