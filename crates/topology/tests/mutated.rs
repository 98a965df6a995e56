//! A machine's text, or a copy of /sys, with anything wrong in it: an error, or a machine whose parts fit
//! together. Stands in for the fuzz target `topology`, which `make fuzz` runs for longer.

use proptest::prelude::*;
use schedlab_topology::{CPUS_MAX, NODES_MAX, Topology};
use std::path::Path;

fn seed(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/topology").join(name),
    )
    .unwrap()
}

fn check(machine: &Topology) -> Result<(), TestCaseError> {
    prop_assert!((1..=CPUS_MAX).contains(&machine.nr_cpus()));
    let nodes = machine.nr_nodes();
    prop_assert!((1..=NODES_MAX).contains(&nodes));
    for cpu in machine.cpus() {
        prop_assert!(cpu.node < nodes && (1..=1024).contains(&cpu.capacity), "{cpu:?}");
    }
    prop_assert!((0..nodes).all(|a| (0..nodes).all(|b| machine.distance(a, b) > 0)));
    Ok(())
}

fn mutated(text: &str, writes: &[(prop::sample::Index, char)]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for (at, c) in writes {
        let at = at.index(characters.len());
        characters[at] = *c;
    }
    characters.into_iter().collect()
}

fn writes() -> impl Strategy<Value = Vec<(prop::sample::Index, char)>> {
    let characters: Vec<char> = "0123456789,-=*+ xé\0".chars().collect();
    prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(characters)), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts(which in 0..3usize, writes in writes()) {
        let text = mutated(&seed(["sizes.txt", "capacity.txt", "laptop.txt"][which]), &writes);
        match text.parse::<Topology>() {
            Ok(machine) => check(&machine)?,
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn copies_of_sys(writes in writes()) {
        let folder = tempfile::tempdir().unwrap();
        let sys = seed("sys.txt");
        let files: Vec<(&str, &str)> = sys.lines().map(|line| line.split_once('=').unwrap()).collect();
        // contents alone are damaged: names are the kernel's
        let contents = mutated(&files.iter().map(|(_, content)| *content).collect::<Vec<_>>().join("\n"), &writes);
        for ((name, _), content) in files.iter().zip(contents.split('\n')) {
            let path = folder.path().join("devices/system").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        match format!("{}/", folder.path().display()).parse::<Topology>() {
            Ok(machine) => check(&machine)?,
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
