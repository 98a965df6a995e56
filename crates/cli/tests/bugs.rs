//! Bugs made again: every description is whole, every edit fits the pinned source exactly once, and each is exposed.

mod common;

use common::{fails, has_linux, json, root, schedlab};
use schedlab_linux::bugs::{self, Bug, Measure, Origin as Whose, Reading};
use schedlab_linux::build::{self, Origin};

fn all() -> Vec<Bug> {
    bugs::all(&root().join("linux/bugs")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_description_is_whole() {
    let all = all();
    assert!(all.len() >= 5, "{}", all.len());
    let table = schedlab(&["linux", "bugs"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    for bug in &all {
        let workload = root().join("linux/bugs").join(&bug.run.workload);
        assert!(workload.exists(), "{}: {}", bug.name, workload.display());
        let shown = schedlab(&["workload", "show", workload.to_str().unwrap()]);
        assert_eq!(shown.status.code(), Some(0), "{}: {}", bug.name, String::from_utf8_lossy(&shown.stderr));
        let details = schedlab(&["linux", "bugs", &bug.name]);
        assert_eq!(details.status.code(), Some(0));
        let details = String::from_utf8_lossy(&details.stdout).into_owned();
        if let Whose::Open(open) = bug.origin() {
            assert!(!open.versions.is_empty(), "{}", bug.name);
            assert!(details.contains("there in ") && details.contains(&open.versions[0]), "{details}");
        }
        // who mended it and when, if anybody has: in the table and in the details
        let row = table.lines().find(|line| line.starts_with(&format!("{} ", bug.name))).expect("a row");
        let words: Vec<&str> = row.split_whitespace().skip(1).collect();
        let Some(fix) = bug.mended() else {
            assert_eq!(words[..2], ["not", "yet"], "{row}");
            continue;
        };
        match &fix.commit {
            Some(id) => {
                assert!(id.len() == 12 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{}: {id}", bug.name);
                assert!(fix.subject.starts_with("sched/"), "{}: {}", bug.name, fix.subject);
            }
            None => assert!(fix.subject.contains("section"), "{}: {}", bug.name, fix.subject),
        }
        assert!(details.contains(&fix.subject) && details.contains(&format!("Linux {}", fix.release)));
        assert!(row.contains(&fix.release) && row.contains(fix.name()), "{row}");
    }
    assert_eq!(json(&["linux", "bugs", "--json", "-"]).as_array().map(Vec::len), Some(all.len()));
}

#[test]
fn every_edit_fits_the_pinned_source_once() {
    if !has_linux() {
        return;
    }
    let kernels = build::installed().unwrap();
    for bug in all() {
        let mut sources = kernels.iter().filter(|k| k.series == bug.series && k.origin == Origin::Package);
        let Some(kernel) = sources.find(|k| k.source.join("kernel/sched").is_dir()) else {
            eprintln!("SKIPPED: {}: Linux {} is not unpacked", bug.name, bug.series);
            continue;
        };
        let files = bugs::edited(&bug, &kernel.source).unwrap_or_else(|e| panic!("{e}"));
        // What upstream has mended is not to be found in a later kernel's source, where one is unpacked.
        let mended = match bug.origin() {
            Whose::Open(open) => open.mended.as_ref(),
            Whose::Undone(_) => None,
        };
        let later = |k: &&build::BuiltKernel| {
            let release = |text: &str| -> Vec<u32> {
                text.split(['.', '-']).map_while(|part| part.parse().ok()).take(2).collect()
            };
            mended.is_some_and(|fix| release(&k.version) >= release(&fix.release))
        };
        for other in kernels.iter().filter(|k| k.origin == Origin::Package).filter(later) {
            if other.source.join("kernel/sched").is_dir() {
                assert!(bugs::edited(&bug, &other.source).is_err(), "{} is in {}", bug.name, other.version);
            }
        }
        for (file, text) in files {
            let original = std::fs::read_to_string(kernel.source.join(&file)).unwrap();
            assert_ne!(text, original, "{}", bug.name);
        }
    }
}

/// What this project says is wrong in real Linux is so in the kernel as the distributor ships it, run here.
#[test]
fn what_is_still_open_is_in_the_packaged_kernel() {
    if !has_linux() {
        return;
    }
    let open: Vec<Bug> = all().into_iter().filter(|bug| matches!(bug.origin(), Whose::Open(_))).collect();
    assert!(!open.is_empty());
    for bug in open {
        let workload = root().join("linux/bugs").join(&bug.run.workload);
        let sched = format!("linux-{}", bug.series);
        let mut command =
            vec!["--quiet", "run", workload.to_str().unwrap(), "--sched", &sched, "--json", "-"];
        command.extend(bug.run.args.iter().map(String::as_str));
        let run = json(&command);
        let number = match &bug.shown.measure {
            Measure::Tasks { tasks, field, fold } => {
                let all = run["tasks"].as_array().unwrap();
                let meant = all.iter().filter(|task| task["name"] == tasks.as_str());
                fold.of(meant.map(|task| task[field].as_u64().unwrap())).unwrap()
            }
            Measure::Run { field } => run[field].as_u64().unwrap(),
            other => panic!("{}: a number is expected, not {other:?}", bug.name),
        };
        let reading = Reading::Number(number);
        assert!(bug.shown.with.holds(&reading), "{}: {reading:?}, expected {}", bug.name, bug.shown.with);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let (code, errors) = fails(&["linux", "bugs", "no-such-bug"]);
    assert!(code == 2 && errors.contains("there is no bug 'no-such-bug'; there are "), "{errors}");
    let (code, errors) = fails(&["linux", "bugs", "--run"]);
    assert!(code == 2 && errors.contains("which? Give a name, or --all"), "{errors}");
}

#[test]
#[ignore = "long: compiles kernel/sched once for each bug"]
fn every_bug_is_exposed() {
    if !has_linux() {
        return;
    }
    let outcomes = json(&["--quiet", "linux", "bugs", "--all", "--run", "--json", "-"]);
    let outcomes = outcomes.as_array().expect("a list");
    assert_eq!(outcomes.len(), all().len());
    assert!(outcomes.iter().all(|o| o["exposed"] == true), "{outcomes:#?}");
}
