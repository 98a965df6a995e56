//! Any bytes as a snapshot of /proc beside a recording (threads, then groups after a line of `===`): an error
//! that names the line, or rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::derive::ProcSnapshot;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (threads, groups) = text.split_once("===\n").unwrap_or((&text, ""));
    match ProcSnapshot::parse(threads, "fuzz.csv") {
        Err(error) => assert!(error.to_string().contains("fuzz.csv"), "{error}"),
        Ok(mut snapshot) => {
            if let Err(error) = snapshot.add_groups(groups, "groups.csv") {
                assert!(error.to_string().contains("groups.csv"), "{error}");
            }
            for (tid, row) in snapshot.rows() {
                assert_eq!(snapshot.row(tid), Some(row));
            }
        }
    }
});
