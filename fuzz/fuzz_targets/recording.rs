//! Any bytes as a recording of whatever tool (perf.data, Perfetto, text, trace.dat): both modes must end,
//! without panic, and the lenient one must give what the strict one gives. The workload derived from what was
//! read keeps the rules, with and without what was recorded of objects.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_trace::{Mode, Recording};
use schedlab_workload::derive::{DeriveOptions, Deriver};
use schedlab_workload::{Messages, find_deadlock};

fn read(bytes: &[u8], mode: Mode, messages: Messages) -> Option<u64> {
    let file = Recording::from_bytes(bytes.to_vec(), mode).ok()?;
    let mut stream = file.events().ok()?;
    let mut deriver = Deriver::new(DeriveOptions { messages, ..DeriveOptions::default() }, None);
    let mut count = 0;
    while let Some(event) = stream.next_event().ok()? {
        deriver.event(&event, |comm| stream.comm(comm));
        count += 1;
    }
    let workload = deriver.finish(file.cpu_count(), |comm| stream.comm(comm)).workload;
    workload.check().expect("what is derived keeps the rules");
    assert!(find_deadlock(&workload).is_none());
    Some(count)
}

fuzz_target!(|bytes: &[u8]| {
    for messages in [Messages::None, Messages::Recorded] {
        let strict = read(bytes, Mode::Strict, messages);
        let lenient = read(bytes, Mode::Lenient, messages);
        if strict.is_some() {
            assert_eq!(strict, lenient);
        }
    }
});
