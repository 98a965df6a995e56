//! Any bytes as a trace.dat: both modes must end, without panic, and the lenient one must give what the
//! strict one gives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_trace::{Mode, TraceFile};

fn read(bytes: &[u8], mode: Mode) -> Option<u64> {
    let file = TraceFile::from_bytes(bytes.to_vec(), mode).ok()?;
    let mut events = file.events().ok()?;
    let mut count = 0;
    while events.next_event().ok()?.is_some() {
        count += 1;
    }
    Some(count)
}

fuzz_target!(|bytes: &[u8]| {
    let strict = read(bytes, Mode::Strict);
    let lenient = read(bytes, Mode::Lenient);
    if strict.is_some() {
        assert_eq!(strict, lenient);
    }
});
