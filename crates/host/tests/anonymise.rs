//! Does a recording that is given away still tell the command's story, and nobody else's?
//!
//! Needs root and tracefs; without them it says so and passes.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::tracefs_or_skip;
use schedlab_host::{Others, Ours, RecordOptions, RecordRequest, Scope, Snapshot, anonymise};
use schedlab_trace::write::{Compression, FileVersion, WriteOptions};
use schedlab_trace::{Mode, Pid, SchedEvent, TraceFile};

/// What happened to each of some tasks: CPU time, and the times of wakings and of switches out with their state.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    cpu_ns: BTreeMap<Pid, u64>,
    happened: BTreeSet<(u64, Pid, String)>,
    switches_between_others: u64,
    breaks_in_chain: u64,
}

fn story(path: &Path, root: Pid) -> (Story, BTreeSet<Pid>) {
    let file = TraceFile::open(path, Mode::Strict).expect("readable");
    // Births first: a child's first events may stand before its fork, on another CPU at the same time.
    let mut tree = BTreeSet::from([root]);
    let mut events = file.events().expect("sched events");
    while let Some(event) = events.next_event().expect("readable") {
        match event.what {
            SchedEvent::Fork { parent, child, .. } if tree.contains(&parent) => {
                tree.insert(child);
            }
            _ => {}
        }
    }
    let (mut story, mut on_cpu) = (Story::default(), BTreeMap::new());
    let mut events = file.events().expect("sched events");
    while let Some(event) = events.next_event().expect("readable") {
        match event.what {
            SchedEvent::Switch { prev, next, prev_state } => {
                if let Some((pid, since)) = on_cpu.insert(event.cpu, (next.pid, event.time_ns)) {
                    story.breaks_in_chain += u64::from(pid != prev.pid);
                    if pid == prev.pid && tree.contains(&pid) {
                        *story.cpu_ns.entry(prev.pid).or_default() += event.time_ns - since;
                    }
                }
                if tree.contains(&prev.pid) {
                    story.happened.insert((event.time_ns, prev.pid, format!("{prev_state:?}")));
                }
                let ours = tree.contains(&prev.pid) || tree.contains(&next.pid);
                story.switches_between_others += u64::from(!ours);
            }
            SchedEvent::Waking(wake) if tree.contains(&wake.pid) => {
                story.happened.insert((event.time_ns, wake.pid, "waking".to_owned()));
            }
            _ => {}
        }
    }
    (story, tree)
}

#[test]
fn a_recording_given_away_tells_the_commands_story_and_no_strangers_name() {
    if tracefs_or_skip("a_recording_given_away_tells_the_commands_story").is_none() {
        return;
    }
    const SECRET: &str = "topsecretname";
    let folder = tempfile::tempdir().expect("folder");
    let full = folder.path().join("full.dat");
    let stop = AtomicBool::new(false);
    let recorded = std::thread::scope(|scope| {
        // A stranger per CPU who works and naps under a name that nobody must see.
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let stranger = std::thread::Builder::new().name(SECRET.to_owned());
            stranger
                .spawn_scoped(scope, || {
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..1000 {
                            std::thread::yield_now();
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
                .expect("thread");
        }
        let script =
            "for i in 1 2 3 4 5; do head -c 2000000 /dev/zero | gzip | wc -c; sleep 0.02; done >/dev/null";
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let what = RecordRequest::Command { argv, duration: None, scope: Scope::Whole };
        // Uncompressed, so that the name is found by looking at the file.
        let write = WriteOptions { version: FileVersion::V7(Compression::None), ..WriteOptions::default() };
        let options = RecordOptions { write, ..RecordOptions::new(&full, what) };
        let recorded = schedlab_host::record(&options, &mut |_| {});
        stop.store(true, Ordering::Relaxed);
        recorded
    })
    .expect("recorded");
    assert_eq!(recorded.nr_lost(), 0);
    let root = recorded.command_pid.expect("command");
    let (before, tree) = story(&full, Pid(root));
    assert!(tree.len() > 20, "five rounds of three programs and a nap: {}", tree.len());
    assert!(contains(&full, SECRET), "the full recording has the name, so that its absence means something");

    for others in [Others::Rename, Others::Drop] {
        let out = folder.path().join(format!("{others:?}.dat"));
        // Uncompressed, so that a name could be found by looking at the file.
        let options = WriteOptions { version: FileVersion::V7(Compression::None), ..WriteOptions::default() };
        let ours = Ours { pids: BTreeSet::from([root]), ..Ours::default() };
        let done =
            anonymise(&full, Some(&recorded.snapshot), &ours, others, &out, options).expect("anonymised");
        assert!(done.reused_pids.is_empty());
        assert_eq!(done.events - done.events_told + done.events_dropped, recorded.nr_events());
        assert_eq!(done.events_told > 0, others == Others::Drop);
        assert!(!contains(&out, SECRET) && !contains(&Snapshot::path_beside(&out), SECRET));
        let (after, same_tree) = story(&out, Pid(root));
        assert_eq!(same_tree, tree);
        assert_eq!(after.cpu_ns, before.cpu_ns, "{others:?}: CPU times");
        assert_eq!(after.happened, before.happened, "{others:?}: blocks and wakes");
        match others {
            Others::Rename => {
                assert_eq!((done.events_dropped, after.breaks_in_chain), (0, before.breaks_in_chain));
            }
            // There may be breaks before: some virtual machines' kernels never tell when certain threads leave a CPU.
            Others::Drop => assert!(
                after.breaks_in_chain <= before.breaks_in_chain,
                "every CPU's switches follow each other as before: {} and {} breaks",
                before.breaks_in_chain,
                after.breaks_in_chain
            ),
        }
        match others {
            Others::Rename => {}
            Others::Drop => assert!(after.switches_between_others < before.switches_between_others / 2),
        }
    }

    // The same in one go.
    let out = folder.path().join("direct.dat");
    let argv = ["sleep", "0.05"].map(Into::into).to_vec();
    let what = RecordRequest::Command { argv, duration: None, scope: Scope::Whole };
    let mut options = RecordOptions::new(&out, what);
    options.anonymise = Some(Others::Drop);
    let recorded = schedlab_host::record(&options, &mut |_| {}).expect("recorded");
    let names = recorded.anonymised.expect("anonymised").names;
    assert!(names.contains("sleep") && !names.iter().any(|name| name.contains("schedlab")), "{names:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("folder").collect();
    assert_eq!(left.len(), 8, "four traces, four snapshots, no full recording: {left:?}");
}

fn contains(path: &Path, text: &str) -> bool {
    let file = TraceFile::open(path, Mode::Strict);
    let bytes = std::fs::read(path).expect("file");
    // Names in a compressed file: through the reader's list.
    let saved = file.is_ok_and(|file| file.cmdlines().values().any(|name| name.contains(text)));
    saved || bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
