//! Any bytes as a schedule log in Arrow form: an error, or records that are written and read as the same. The
//! library behind it panics on some damage; the reader catches that, so the panics are distinguished from ours by
//! their place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_log::{MemLog, Record};
use std::path::Path;
use std::sync::Once;

/// Panics within the library are the reader's business; all others end the program.
fn only_our_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let file = info.location().map(|place| place.file()).unwrap_or_default();
            if !file.contains("/arrow-") && !file.contains("/flatbuffers-") && !file.contains("/library/") {
                eprintln!("{info}");
                std::process::abort();
            }
        }));
    });
}

fn read(path: &Path) -> Option<MemLog> {
    let log = schedlab_log::open(path).ok()?;
    let records: Vec<Record> = log.records().ok()?.collect::<Result<_, _>>().ok()?;
    Some(MemLog { header: log.header().clone(), records })
}

fuzz_target!(|bytes: &[u8]| {
    only_our_panics();
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let path = folder.path().join("fuzz.arrow");
    std::fs::write(&path, bytes).expect("a file in memory");
    if let Some(log) = read(&path) {
        schedlab_log::write(&path, &log).expect("what was read can be written");
        let again = read(&path).expect("what is written can be read");
        if again.records != log.records {
            eprintln!("the records differ");
            std::process::abort();
        }
    }
});
