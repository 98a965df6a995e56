//! Any bytes as a text workload: an error with a place, or a workload whose canonical text means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::{limits::Limits, text::parse_text_within};
use schedlab_workload::{find_deadlock, parse_text};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { events: 10_000, tasks: 1_000, ..Limits::HELD };
    match parse_text_within("fuzz", bytes, limits) {
        Err(error) => assert!(!error.to_string().is_empty() && !error.picture().is_empty()),
        Ok(workload) => {
            let checked = workload.check();
            find_deadlock(&workload);
            if checked.is_ok() {
                let text = workload.to_text().expect("what passes the check can be written");
                let again = parse_text("again", text.as_bytes()).expect("what is written can be read");
                assert_eq!(again, workload);
                assert_eq!(again.to_text().ok(), Some(text));
            }
        }
    }
});
