//! A recording with anything wrong in it, as far as it can be read at all, gives a workload that keeps the
//! rules. Found by fuzzing: a time near 2^64 made the sum of CPU times overflow.

use proptest::prelude::*;
use schedlab_trace::{Mode, Recording};
use schedlab_workload::derive::{DeriveOptions, Derived, Deriver};
use schedlab_workload::find_deadlock;
use std::path::Path;

const FILES: [&str; 6] =
    ["trace.dat", "perf.data", "perf-pipe.data", "ftrace.txt", "compact.perfetto", "plain.perfetto"];

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/tools").join(name)).unwrap()
}

fn import(bytes: Vec<u8>) -> Option<Derived> {
    let file = Recording::from_bytes(bytes, Mode::Lenient).ok()?;
    let mut stream = file.events().ok()?;
    let mut deriver = Deriver::new(DeriveOptions::default(), None);
    while let Ok(Some(event)) = stream.next_event() {
        deriver.event(&event, |comm| stream.comm(comm));
    }
    Some(deriver.finish(file.cpu_count(), |comm| stream.comm(comm)))
}

#[test]
fn a_time_of_five_hundred_years_is_left_out() {
    let text = String::from_utf8(sample("ftrace.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let late: Vec<String> = lines
        .iter()
        .enumerate()
        .map(
            |(row, line)| {
                if row > 300 { line.replacen(" 14153.", " 18446744073.", 1) } else { line.to_string() }
            },
        )
        .collect();
    let derived = import((late.join("\n") + "\n").into_bytes()).unwrap();
    let reason = derived.workload.dropped.keys().find(|reason| reason.contains("13 days"));
    assert_eq!(derived.workload.dropped[reason.unwrap()], lines.len() as u64 - 301);
    assert!(derived.summary.cpu_ns < 1_000_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_gives_a_workload_that_keeps_the_rules(
        which in 0..FILES.len(),
        writes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte]),
            prop::sample::select(vec![0u64, 1, 1 << 31, 1 << 62, u64::MAX]).prop_map(|v| v.to_le_bytes().to_vec()),
            "[0-9]{1,9}".prop_map(String::into_bytes),
        ]), 1..20),
    ) {
        let mut bytes = sample(FILES[which]);
        for (at, value) in writes {
            let at = at.index(bytes.len());
            let end = (at + value.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
        if let Some(derived) = import(bytes) {
            prop_assert_eq!(derived.workload.check().map_err(|error| error.to_string()), Ok(()));
            prop_assert!(find_deadlock(&derived.workload).is_none());
            let demand: u64 = derived.workload.tasks.iter().map(|task| task.cpu_demand().as_ns()).sum();
            prop_assert_eq!(demand, derived.summary.cpu_ns);
        }
    }
}
