//! Any bytes as a description for rt-app: an error with a place, or a workload that keeps the rules and is
//! written and read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::limits::Limits;
use schedlab_workload::rtapp::parse_rtapp_within;
use schedlab_workload::{find_deadlock, parse_text};
use std::path::Path;

const LIMITS: Limits = Limits { events: 10_000, ..Limits::HELD };

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(workload) = parse_rtapp_within(Path::new("fuzz.json"), &text, LIMITS) {
        workload.check().expect("what is expanded keeps the rules");
        assert!(find_deadlock(&workload).is_none());
        let text = workload.to_text().expect("what passes the check can be written");
        assert_eq!(parse_text("again", text.as_bytes()).expect("what is written can be read"), workload);
    }
});
