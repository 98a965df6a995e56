//! A change of the scheduler that was developed in the simulation is built as a real kernel, and does there
//! what it did here.

mod common;

use common::root;
use schedlab_linux::bugs::Edit;
use serde::Deserialize;
use std::process::Command;

/// What of linux/port-back/*.toml matters here.
#[derive(Deserialize)]
struct Change {
    series: String,
    edit: Vec<Edit>,
}

/// The script judges: each real kernel agrees with its own simulation in every quantity, and with the other's
/// in no case.
#[test]
#[ignore = "long: builds a kernel for x86-64 (some 10 minutes on two cores), boots it and the unchanged one six times \
    each"]
fn a_changed_kernel_agrees_with_its_simulation_and_not_with_the_unchanged_one() {
    let out = tempfile::tempdir().unwrap();
    let output = Command::new(root().join("scripts/port-back.sh"))
        .arg(out.path())
        .env("SCHEDLAB", env!("CARGO_BIN_EXE_schedlab"))
        .output()
        .expect("the script starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("{said}");
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("as it should be"), "{said}");
}

/// An exact substitution of a text that is there once: what is built is what is shown.
#[test]
fn the_edit_fits_the_packaged_source() {
    let text = std::fs::read_to_string(root().join("linux/port-back/privilege-pays-double.toml")).unwrap();
    let change: Change = toml::from_str(&text).unwrap();
    let kernel = schedlab_linux::build::installed()
        .unwrap()
        .into_iter()
        .find(|kernel| kernel.series == change.series && kernel.source.is_dir());
    let Some(kernel) = kernel else {
        eprintln!("SKIPPED: Linux {} is not built; `make test` builds it", change.series);
        return;
    };
    assert_eq!(change.edit.len(), 1);
    for edit in &change.edit {
        let text = std::fs::read_to_string(kernel.source.join(&edit.file)).unwrap();
        assert_eq!(text.matches(edit.old.as_str()).count(), 1, "{}", edit.file);
        assert!(edit.new.starts_with(edit.old.as_str()), "the change only adds");
    }
}
