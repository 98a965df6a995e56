//! A log as text with anything wrong in it: an error with a place, or a log whose canonical text means the
//! same. Stands in for the fuzz target `log_text`, which `make fuzz` runs for longer.

use proptest::prelude::*;
use schedlab_log::{MemLog, TextLog, write_text};
use std::path::Path;

fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/log_text");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

fn text(log: &MemLog) -> String {
    let mut out = Vec::new();
    write_text(log, &mut out, Path::new("mutated")).unwrap();
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_is_refused_or_means_something(
        which in any::<prop::sample::Index>(),
        writes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~\n]{1,4}"), 1..6),
        removed in prop::option::of((any::<prop::sample::Index>(), 1..80usize)),
    ) {
        let seeds = seeds();
        let mut bytes = seeds[which.index(seeds.len())].clone().into_bytes();
        for (at, value) in writes {
            let at = at.index(bytes.len());
            let end = (at + value.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.as_bytes()[..end - at]);
        }
        if let Some((at, n)) = removed {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + n).min(bytes.len()));
        }
        let given = String::from_utf8_lossy(&bytes).into_owned();
        match TextLog::parse(&given, Path::new("mutated.log")) {
            Err(error) => prop_assert!(error.to_string().starts_with("mutated.log"), "{error}"),
            Ok(log) => {
                let once = text(&log);
                let again = TextLog::parse(&once, Path::new("again")).unwrap();
                prop_assert_eq!(&again.records, &log.records);
                prop_assert_eq!(text(&again), once);
            }
        }
    }
}
