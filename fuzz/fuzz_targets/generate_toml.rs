//! Any bytes as a generator's settings: an error, or settings that are written and read as the same and make
//! a workload that keeps the rules, twice the same. (Built for fuzzing the generators refuse more than
//! 100,000 events.)
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::find_deadlock;
use schedlab_workload::generate::Spec;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(spec) = Spec::from_toml("fuzz", &text) else { return };
    let written = spec.to_toml();
    let again = Spec::from_toml("again", &written).expect("what is written can be read");
    assert_eq!(again.to_toml(), written);
    match spec.build() {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(workload) => {
            workload.check().expect("what is generated keeps the rules");
            assert!(find_deadlock(&workload).is_none());
            assert!(again.build().expect("the same settings") == workload);
        }
    }
});
