//! Any bytes as a machine: its text (`--machine 8`, `packages=2,...`), or a copy of /sys as lines
//! `file=content` (a `/` after the first `=` of a line stands for a new line): an error, or a machine whose
//! parts fit together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_topology::{CPUS_MAX, NODES_MAX, Topology};
use std::path::Path;

fn check(machine: &Topology) {
    assert!((1..=CPUS_MAX).contains(&machine.nr_cpus()));
    assert!((1..=NODES_MAX).contains(&machine.nr_nodes()));
    for cpu in machine.cpus() {
        assert!(cpu.node < machine.nr_nodes() && (1..=1024).contains(&cpu.capacity));
    }
    let nodes = machine.nr_nodes();
    assert!((0..nodes).all(|a| (0..nodes).all(|b| machine.distance(a, b) > 0)));
}

/// The folder that lines of `file=content` describe, if any line does.
fn folder(text: &str, root: &Path) -> bool {
    let mut any = false;
    for (file, content) in text.lines().take(200).filter_map(|line| line.split_once('=')) {
        let plain = file.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'/' || b == b'_');
        if !plain || file.len() > 100 || file.is_empty() || file.starts_with('/') || file.ends_with('/') {
            continue;
        }
        let path = root.join("devices/system").join(file);
        let made = path.parent().is_some_and(|parent| std::fs::create_dir_all(parent).is_ok());
        any |= made && std::fs::write(path, content.replace('/', "\n")).is_ok();
    }
    any
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains('/') {
        if let Ok(machine) = text.parse::<Topology>() {
            check(&machine);
        }
        return;
    }
    let root = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    if folder(&text, root.path())
        && let Ok(machine) = root.path().display().to_string().parse::<Topology>()
    {
        check(&machine);
    }
});
