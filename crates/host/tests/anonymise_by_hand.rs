//! Does anything of a trace that is given away tell of strangers? A trace by hand, whose fields stand where
//! no kernel has them. Needs no root.

#[path = "../../trace/tests/support/mod.rs"]
mod support;

use schedlab_host::{Others, Ours, anonymise};
use schedlab_trace::write::{Compression, FileVersion, RawOption, TraceMeta, WriteOptions};
use schedlab_trace::{Mode, SchedEvent, TraceFile};
use std::collections::BTreeSet;
use support::{PAGE, Page, fork, meta, read_all, switch, trace, waking};

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
