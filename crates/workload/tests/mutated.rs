//! What people write by hand (text workloads, mixes, generators' settings, snapshots), with anything wrong in
//! it: an error that says where, or something that keeps the rules. Stands in for the fuzz targets of the
//! same names, which `make fuzz` runs for longer.

use proptest::prelude::*;
use schedlab_workload::derive::ProcSnapshot;
use schedlab_workload::generate::Spec;
use schedlab_workload::mix::Mix;
use schedlab_workload::{find_deadlock, parse_text};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files of a folder, in order of name.
fn texts(folder: &str) -> Vec<String> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(!texts.is_empty(), "{folder}");
    texts
}

/// A change of a text: never one that makes a number longer, so that what is described stays small.
#[derive(Clone, Debug)]
enum Change {
    Replace(prop::sample::Index, char),
    Remove(prop::sample::Index, usize),
    Swap(prop::sample::Index, prop::sample::Index),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    let character =
        prop::sample::select("\n\t \"'=[]{}#,.:/-@()Ee_\\\0é0123456789wns".chars().collect::<Vec<_>>());
    prop_oneof![
        8 => (at(), character).prop_map(|(at, c)| Change::Replace(at, c)),
        3 => (at(), 1..30usize).prop_map(|(at, n)| Change::Remove(at, n)),
        3 => (at(), at()).prop_map(|(a, b)| Change::Swap(a, b)),
        1 => at().prop_map(Change::Cut),
    ]
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for change in changes {
        if let Change::Swap(a, b) = change {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
    }
    let mut characters: Vec<char> = lines.join("\n").chars().chain(['\n']).collect();
    for change in changes.iter().filter(|_| !text.is_empty()) {
        match change {
            Change::Replace(at, c) => {
                let at = at.index(characters.len());
                // a digit for a digit, something else for something else
                if characters[at].is_ascii_digit() == c.is_ascii_digit() {
                    characters[at] = *c;
                }
            }
            Change::Remove(at, n) => {
                let at = at.index(characters.len());
                let end = (at + n).min(characters.len() - 1);
                // numbers on both sides must not become one
                if at < end && !characters[at.saturating_sub(1)].is_ascii_digit() {
                    characters.drain(at..end);
                }
            }
            Change::Cut(at) => characters.truncate(at.index(characters.len()) + 1),
            Change::Swap(..) => {}
        }
    }
    characters.into_iter().collect()
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn hand_written(which in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..6)) {
        let all = self::texts("samples/hand");
        let text = changed(&all[which.index(all.len())], &changes);
        match parse_text("mutated.txt", text.as_bytes()) {
            Err(error) => {
                prop_assert!(error.to_string().starts_with("mutated.txt:"), "{error}");
                prop_assert!(!error.picture().is_empty());
            }
            Ok(workload) => {
                find_deadlock(&workload);
                if workload.check().is_ok() {
                    let written = workload.to_text().unwrap();
                    prop_assert_eq!(&parse_text("again", written.as_bytes()).unwrap(), &workload);
                }
            }
        }
    }

    #[test]
    fn mixes(which in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..4)) {
        let all = self::texts("fuzz/seeds/mix_toml");
        let text = changed(&all[which.index(all.len())], &changes);
        let part = "schedlab-workload 1\n- INIT 0 0 1 runnable name=worker\n- BLOCK 1 4ms\n- WAKEUP 1 6ms\n\
            - EXIT 1 1ms\n";
        let part = parse_text("part", part.as_bytes()).unwrap();
        let built = Mix::parse(Path::new("mutated.toml"), &text).and_then(|mix| mix.build(&mut |_| Ok(part.clone())));
        match built {
            Err(error) => prop_assert!(error.to_string().starts_with("mutated.toml"), "{error}"),
            Ok(workload) => prop_assert_eq!(workload.check().map_err(|error| error.to_string()), Ok(())),
        }
    }

    #[test]
    fn generators(which in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..4)) {
        let all = self::texts("fuzz/seeds/generate_toml");
        let text = changed(&all[which.index(all.len())], &changes);
        match Spec::from_toml("mutated.toml", &text) {
            Err(error) => prop_assert!(error.to_string().starts_with("mutated.toml"), "{error}"),
            Ok(spec) => {
                let written = spec.to_toml();
                prop_assert_eq!(Spec::from_toml("again", &written).unwrap().to_toml(), written);
            }
        }
    }

    #[test]
    fn snapshots(changes in prop::collection::vec(change(), 1..6)) {
        let all = self::texts("fuzz/seeds/proc_snapshot");
        let (threads, groups) = all[0].split_once("===\n").unwrap();
        match ProcSnapshot::parse(&changed(threads, &changes), "threads.csv") {
            Err(error) => prop_assert!(error.to_string().contains("threads.csv"), "{error}"),
            Ok(mut snapshot) => {
                if let Err(error) = snapshot.add_groups(&changed(groups, &changes), "groups.csv") {
                    prop_assert!(error.to_string().contains("groups.csv"), "{error}");
                }
            }
        }
    }
}
