//! Any bytes as a schedule log in text form: an error with a place, or a log whose canonical text means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_log::{MemLog, TextLog, write_text};
use std::path::Path;

fn text(log: &MemLog) -> String {
    let mut out = Vec::new();
    write_text(log, &mut out, Path::new("fuzz")).expect("what was read can be written");
    String::from_utf8(out).expect("the text form is text")
}

fuzz_target!(|bytes: &[u8]| {
    let given = String::from_utf8_lossy(bytes);
    if let Ok(log) = TextLog::parse(&given, Path::new("fuzz")) {
        let once = text(&log);
        let again = TextLog::parse(&once, Path::new("again")).expect("what is written can be read");
        assert_eq!(again.records, log.records);
        assert_eq!(text(&again), once);
    }
});
