//! Does anything of a trace that is given away tell of strangers? A trace by hand, whose fields stand where
//! no kernel has them. Needs no root.

#[path = "../../trace/tests/support/mod.rs"]
mod support;

use schedlab_host::{Others, Ours, anonymise};
use schedlab_trace::write::{Compression, EventSystem, FileVersion, RawOption, TraceMeta, WriteOptions};
use schedlab_trace::{Mode, SchedEvent, TraceFile};
use std::collections::BTreeSet;
use support::{PAGE, Page, fork, meta, read_all, switch, systems, trace, waking};

const PLAIN: WriteOptions = WriteOptions { version: FileVersion::V7(Compression::None), page_size: PAGE };

/// pid 1 is ours and forks 3; 2 is a stranger whose name is behind the end of another's, too.
#[test]
fn nothing_of_strangers_is_left_and_times_stay() {
    let mut stale = switch(1, 0, 2);
    stale[36..52].copy_from_slice(b"ab\0secretresidue");
    let page = Page::at(100)
        .event(5, &stale)
        .event(5, &waking(1, 0, 2))
        .event(5, &fork(1, 3, "ours", "ours"))
        .event(200, &switch(2, 0, 1));
    let meta = TraceMeta {
        saved_cmdlines: b"1 ours\n2 secretname\n99 bystander\n".to_vec(),
        uname: Some("Linux secrethost 6.12.0-secret x86_64".to_string()),
        buffer_name: "secretbuffer".to_string(),
        kallsyms: b"0 T secretsymbol\n".to_vec(),
        options: vec![RawOption { id: 10, data: b"1 1 /home/secretpath\n\0".to_vec() }],
        ..meta()
    };
    let folder = tempfile::tempdir().unwrap();
    let (full, out) = (folder.path().join("full.dat"), folder.path().join("out.dat"));
    std::fs::write(&full, trace(&meta, PLAIN, &[(0, vec![page])])).unwrap();
    let ours = Ours { pids: BTreeSet::from([1]), ..Ours::default() };
    let done = anonymise(&full, None, &ours, Others::Rename, &out, PLAIN).unwrap();
    assert_eq!((done.events, done.events_dropped, done.kept, done.others), (4, 0, 2, 1));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no snapshot of nothing");

    let clean = std::fs::read(&out).unwrap();
    let visible = String::from_utf8_lossy(&clean);
    for hidden in ["secret", "residue", "bystander", "w2", "n2", "p2"] {
        assert!(!visible.contains(hidden), "{hidden}");
    }
    assert!(!clean.windows(4).any(|bytes| bytes == [0xaa; 4]), "what was on the page before");
    let file = TraceFile::open(&out, Mode::Strict).unwrap();
    assert_eq!(file.uname(), Some("Linux localhost 6.12 x86_64"));
    let (events, stream) = read_all(&file).unwrap();
    assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [105, 110, 115, 315]);
    let SchedEvent::Switch { prev, next, .. } = events[0].what else { panic!("{:?}", events[0]) };
    assert_eq!((stream.comm(prev.comm), stream.comm(next.comm)), ("ab", "other-1"));
    let SchedEvent::Fork { child_comm, .. } = events[2].what else { panic!("{:?}", events[2]) };
    assert_eq!(stream.comm(child_comm), "ours");
}

/// pid 1 is ours, 5 and 4 are strangers, who hand the CPU to each other.
#[test]
fn a_recording_without_strangers_says_when_one_had_the_cpu_and_not_who() {
    let page = Page::at(100)
        .event(0, &switch(5, 0, 1))
        .event(10, &switch(1, 1, 5))
        .event(10, &switch(5, 1, 4))
        .event(10, &waking(4, 0, 1))
        .event(10, &switch(4, 0, 1))
        .event(10, &switch(1, 1, 0))
        .event(10, &switch(0, 0, 4))
        .event(10, &switch(4, 1, 0));
    let quiet = Page::at(200).event(0, &switch(1, 1, 0));
    let folder = tempfile::tempdir().unwrap();
    let [full, out, again] = ["full.dat", "out.dat", "again.dat"].map(|name| folder.path().join(name));
    std::fs::write(&full, trace(&meta(), PLAIN, &[(0, vec![page]), (1, vec![quiet])])).unwrap();
    let ours = Ours { pids: BTreeSet::from([1]), ..Ours::default() };
    let said = |path: &std::path::Path| -> Vec<(u64, u32, String)> {
        let (events, _) = read_all(&TraceFile::open(path, Mode::Strict).unwrap()).unwrap();
        let what = |what: SchedEvent| match what {
            SchedEvent::Switch { prev, next, .. } => format!("{} -> {}", prev.pid.0, next.pid.0),
            SchedEvent::Stranger { busy } => format!("stranger {}", u8::from(busy)),
            SchedEvent::Waking(wake) => format!("waking {}", wake.pid.0),
            other => panic!("{other:?}"),
        };
        events.iter().map(|event| (event.time_ns, event.cpu.0, what(event.what))).collect()
    };
    let done = anonymise(&full, None, &ours, Others::Drop, &out, PLAIN).unwrap();
    assert_eq!(done.strangers_ns, 30 + 10);
    let expected = [
        (100, 0, "0 -> 1"),
        (110, 0, "1 -> 0"),
        (110, 0, "stranger 1"),
        (130, 0, "waking 1"),
        (140, 0, "stranger 0"),
        (140, 0, "0 -> 1"),
        (150, 0, "1 -> 0"),
        (160, 0, "stranger 1"),
        (170, 0, "stranger 0"),
        // who was never disturbed says so
        (200, 1, "1 -> 0"),
        (200, 1, "stranger 0"),
    ]
    .map(|(ns, cpu, text)| (ns, cpu, text.to_string()));
    assert_eq!(said(&out), expected);
    // once more changes nothing
    let done = anonymise(&out, None, &ours, Others::Drop, &again, PLAIN).unwrap();
    assert_eq!((said(&again), done.strangers_ns), (expected.to_vec(), 40));
    let renamed = anonymise(&full, None, &ours, Others::Rename, &out, PLAIN).unwrap();
    assert_eq!((renamed.strangers_ns, said(&out).len()), (0, 9));
    // an event that is shorter than its format says is left out, and nothing else is
    let mut formats = systems();
    let format = "name: stranger\nID: 30\nformat:\n\tfield:int common_pid;\toffset:0;\tsize:4;\tsigned:1;\n\
                  \tfield:unsigned short common_type;\toffset:4;\tsize:2;\tsigned:0;\n\n\
                  \tfield:unsigned int busy;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";
    formats.push(EventSystem { name: "schedlab".to_string(), formats: vec![format.as_bytes().to_vec()] });
    let short = Page::at(100).event(0, &switch(0, 0, 1)).event(5, &[0, 0, 0, 0, 30, 0, 0, 0]);
    let meta = TraceMeta { systems: formats, ..meta() };
    std::fs::write(&full, trace(&meta, PLAIN, &[(0, vec![short])])).unwrap();
    anonymise(&full, None, &ours, Others::Drop, &out, PLAIN).unwrap();
    assert_eq!(said(&out), [(100, 0, "0 -> 1".to_string())]);
}
