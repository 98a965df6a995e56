//! Files and folders: recognised by content, refused with what they are.

mod common;

use schedlab_workload::stream::Source;
use schedlab_workload::{FileKind, Form, LoadError, LoadedFile, TraceFormat, identify, load, save};
use std::fs;
use std::path::Path;

fn message_of(path: &Path) -> String {
    load(path).unwrap_err().to_string()
}

#[test]
fn both_forms_are_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..50 {
        let workload = common::workload(seed, 10);
        for form in [Form::Text, Form::Binary] {
            let file = folder.path().join("w");
            save(&file, &workload, form).unwrap();
            match load(&file).unwrap() {
                LoadedFile::Workload { path, form: found, workload: again } => {
                    assert_eq!((path, found), (file, form));
                    assert_eq!(again, workload);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside the file");
}

/// A name that could be foreseen (the file's, with this process's number) was a way to have another user's
/// file overwritten.
#[test]
fn planted_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, victim) = (folder.path().join("w"), folder.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    let planted = folder.path().join(format!("w.{}.tmp", std::process::id()));
    std::os::unix::fs::symlink(&victim, planted).unwrap();
    std::os::unix::fs::symlink(&victim, &file).unwrap();
    let workload = common::workload(1, 10);
    save(&file, &workload, Form::Text).unwrap();
    Source::from(workload).save(&file, Form::Binary).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
}

#[test]
fn every_hand_written_sample_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/hand");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .collect();
    names.sort();
    let expected = [
        "cameras.txt",
        "cgroup.txt",
        "deadlock.txt",
        "fairbench.txt",
        "figure1.txt",
        "forktree.txt",
        "overload-on-wakeup.txt",
        "overrun.txt",
        "philosophers.txt",
        "pingpong.txt",
        "pipe.txt",
        "pool.txt",
        "responsebench.txt",
        "rt.txt",
        "sleepers8.txt",
    ];
    assert_eq!(names, expected);
    for name in names {
        match load(&folder.join(&name)) {
            Ok(LoadedFile::Workload { workload, .. }) => {
                let deadlock = schedlab_workload::find_deadlock(&workload);
                assert_eq!(deadlock.is_some(), name == "deadlock.txt", "{name}: {deadlock:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn files_are_recognised_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    // two Perfetto packets: trusted_uid 0, then a clock snapshot of no bytes
    let perfetto = [0x0a, 0x02, 0x18, 0x00, 0x0a, 0x02, 0x32, 0x00];
    for (content, kind) in [
        (&b"schedlab-workload 1\n"[..], FileKind::Text),
        (b"\n# comment\n1 INIT 0 0 7 runnable", FileKind::Text),
        (b"\x89SLW", FileKind::Binary), // cut, but recognisable
        (b"\x17\x08\x44tracing6\0", FileKind::Trace(TraceFormat::TraceDat)),
        (b"PERFILE2....", FileKind::Trace(TraceFormat::PerfData)),
        (b"# tracer: nop\n#\n", FileKind::Trace(TraceFormat::FtraceText)),
        (&perfetto, FileKind::Trace(TraceFormat::Perfetto)),
        (b"  {\n \"tasks\": { } }", FileKind::Trace(TraceFormat::RtApp)),
    ] {
        fs::write(&file, content).unwrap();
        assert_eq!(identify(&file).unwrap(), (file.clone(), kind));
    }
    let mix = folder.path().join("mix.toml");
    fs::write(&mix, "# a mix\n").unwrap();
    assert_eq!(identify(&mix).unwrap().1, FileKind::Mix);
    for (content, says) in [
        (&b""[..], "is empty"),
        (b"\0\0\0\0\0", "nothing but zero bytes"),
        (b"\x7fELF\x02", "a program, neither a workload nor a recording; record it"),
        (b"\x1f\x8b\x08", "gzip-compressed"),
        (b"ARROW1\0\0", "logs are results"),
        (b"hello\nworld\n", "some other text"),
        (b"{}", "not of rt-app"),
        (b"\x01\x02\x03\xff", "unknown format"),
        (b"\x89SLW", "ends here, in the middle of the header"),
    ] {
        fs::write(&file, content).unwrap();
        let message = message_of(&file);
        assert!(message.contains(says) && message.starts_with(&file.display().to_string()), "{message}");
    }
    let there = format!("the folder that is there is {}: look", folder.path().display());
    for missing in ["nowhere", "no/where/at.all"] {
        let path = folder.path().join(missing);
        let says = format!("{}: there is no such file or folder; expected a workload", path.display());
        let message = message_of(&path);
        assert!(message.starts_with(&says) && message.contains(&there), "{message}");
    }
    assert!(message_of(Path::new("/dev/null")).contains("neither a file nor a folder"));
}

#[test]
fn a_folder_stands_for_the_one_file_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(matches!(load(folder.path()), Err(LoadError::EmptyFolder { .. })));
    fs::write(path("README.md"), "# about\n").unwrap();
    fs::write(path("trace.proc.csv"), "pid,tid,comm\n1,1,init\n").unwrap();
    fs::write(path("provenance.toml"), "host = 'x'\n").unwrap();
    fs::write(path(".hidden.txt"), "schedlab-workload 1\n").unwrap();
    fs::write(path("trace.dat"), b"\x17\x08\x44tracing6\0").unwrap();
    assert_eq!(
        load(folder.path()).unwrap(),
        LoadedFile::Trace { path: path("trace.dat"), format: TraceFormat::TraceDat }
    );
    fs::write(path("second.txt"), "schedlab-workload 1\n").unwrap();
    let message = message_of(folder.path());
    assert!(message.contains("2 workloads or traces (second.txt, trace.dat)"), "{message}");
}

#[test]
fn a_broken_rule_in_a_binary_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut workload = common::workload(3, 10);
    workload.tasks.truncate(1);
    workload.tasks[0].events.clear();
    workload.tasks[0].pid = 0;
    let file = folder.path().join("w.wlb");
    assert_eq!(Form::of_path(&file), Form::Binary);
    save(&file, &workload, Form::Binary).unwrap();
    assert!(message_of(&file).contains("pid 0 means"));
}

#[test]
fn what_cannot_be_written_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut workload = common::workload(3, 10);
    workload.tasks[0].cgroup = Some(schedlab_workload::CgroupId(99));
    let file = folder.path().join("w.txt");
    let message = save(&file, &workload, Form::Text).unwrap_err().to_string();
    assert!(message.contains("w.txt: cannot write: control group 99"), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
