//! Any bytes as a recording of whatever tool (perf.data, Perfetto, text, trace.dat): both modes must end,
//! without panic, and the lenient one must give what the strict one gives. The workload derived from what was
//! read keeps the rules, with and without what was recorded of objects. Replayed, it ends, and not in a deadlock.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_log::Record;
use schedlab_machine::native::Native;
use schedlab_machine::{End, Machine, Program, Setup};
use schedlab_topology::Topology;
use schedlab_trace::{Mode, Recording};
use schedlab_units::Span;
use schedlab_workload::derive::{DeriveOptions, Deriver};
use schedlab_workload::{Messages, Workload, find_deadlock};

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
    replay(&workload);
    Some(count)
}

/// On one CPU, so that the order is another one.
fn replay(workload: &Workload) {
    let Ok(mut program) = Program::new(workload) else { return };
    program.restrict_to(1);
    let mut records: Vec<Record> = Vec::new();
    let topology = Topology::flat(1).expect("there is one of one CPU");
    let setup = Setup { topology, duration: Some(Span::from_ms(100)), params: Vec::new() };
    let policy = schedlab_policies::find("fifo").and_then(|entry| entry.build(&[]).ok()).expect("FIFO is there");
    let outcome = Machine::new(Native::new(policy, &mut records), program, setup).run();
    assert!(!matches!(outcome.end, End::Deadlock(_)), "{:?}", outcome.end);
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
