//! Do programs record what ftrace records? Both at once, on the same busy host, event by event.
//!
//! Needs root, tracefs, and a kernel that takes programs; without them it says so and passes.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{example, tracefs_or_skip};
use schedlab_host::{Backend, HostError, RecordOptions, Way, What};
use schedlab_trace::{Context, Mode, Pid, SchedEvent, TraceFile};
use schedlab_units::CpuId;

/// What an event says, without its time and the depth of disabled preemption (a program runs one level deeper).
type Said = (i32, Context, String);

/// Tasks that come to a CPU and never leave it: some hosts hide tasks from tracing, the idle task of a CPU among them, and from programs in
/// another way than from ftrace.
fn hidden(path: &Path) -> BTreeSet<(CpuId, Pid)> {
    let file = TraceFile::open(path, Mode::Strict).expect("own file");
    let mut stream = file.events().expect("sched events");
    let (mut came, mut left) = (BTreeSet::new(), BTreeSet::new());
    while let Some(event) = stream.next_event().expect("readable") {
        if let SchedEvent::Switch { prev, next, .. } = event.what {
            left.insert((event.cpu, prev.pid));
            came.insert((event.cpu, next.pid));
        }
    }
    came.difference(&left).copied().collect()
}

/// By CPU: time and meaning of each event, but for those that happened in the context of the hidden tasks.
fn events(path: &Path, hidden: &BTreeSet<(CpuId, Pid)>) -> BTreeMap<CpuId, Vec<(u64, Said)>> {
    let file = TraceFile::open(path, Mode::Strict).expect("own file");
    let mut stream = file.events().expect("sched events");
    let mut all: BTreeMap<CpuId, Vec<(u64, Said)>> = BTreeMap::new();
    while let Some(event) = stream.next_event().expect("readable") {
        if hidden.contains(&(event.cpu, event.pid)) {
            continue;
        }
        let name = |comm| stream.comm(comm).to_owned();
        let what = match event.what {
            SchedEvent::Switch { prev, prev_state, next } => format!(
                "switch {} {} {} {prev_state:?} > {} {} {}",
                prev.pid,
                name(prev.comm),
                prev.prio,
                next.pid,
                name(next.comm),
                next.prio
            ),
            SchedEvent::Waking(w) => format!("waking {} {} {} {}", w.pid, name(w.comm), w.prio, w.target_cpu),
            SchedEvent::WakeupNew(w) => format!("new {} {} {} {}", w.pid, name(w.comm), w.prio, w.target_cpu),
            SchedEvent::Fork { parent, child, child_comm } => {
                format!("fork {parent} {child} {}", name(child_comm))
            }
            SchedEvent::Exit { pid, comm, prio } => format!("exit {pid} {} {prio}", name(comm)),
            SchedEvent::Exec { pid, old_pid } => format!("exec {pid} {old_pid}"),
            SchedEvent::Migrate { pid, prio, orig_cpu, dest_cpu } => {
                format!("migrate {pid} {prio} {orig_cpu} {dest_cpu}")
            }
            SchedEvent::SoftIrqRaise { vec } => format!("raise {vec}"),
            SchedEvent::SoftIrqEntry { vec } => format!("softirq {vec}"),
            SchedEvent::IrqEntry { irq } => format!("irq {irq}"),
            SchedEvent::VectorEntry(vector) => format!("{vector:?}"),
            _ => continue,
        };
        let said = (event.pid.0, event.context, what);
        all.entry(event.cpu).or_default().push((event.time_ns, said));
    }
    all
}

#[test]
fn programs_record_what_ftrace_records() {
    const TEST: &str = "programs_record_what_ftrace_records";
    if tracefs_or_skip(TEST).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    // In another process: both have signal handlers. It begins first and ends last.
    let mut ftrace = Command::new(example("record"))
        .arg("-o")
        .arg(path("ftrace.dat"))
        .args(["-t", "3", "--ftrace", "--irq", "--softirq"])
        .stderr(Stdio::null())
        .spawn()
        .expect("the recorder starts");
    std::thread::sleep(Duration::from_millis(1200));
    let what = What::System { duration: Some(Duration::from_millis(500)) };
    let mut options = RecordOptions::new(path("bpf.dat"), what);
    options.events = options.events.with_interrupts();
    options.backend = Backend::Bpf;
    // Something to see: births, deaths, naps, pipes, a socket.
    let mut load = Command::new("sh")
        .args(["-c", "(for i in $(seq 150); do sleep 0.003; done) & for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.03; seq 20000 | sort -n | tail -1 >/dev/null; done; wait"])
        .spawn()
        .expect("sh");
    let recorded = match schedlab_host::record(&options, &mut |_| {}) {
        Err(HostError::NoPrograms { why }) => {
            eprintln!("SKIPPED {TEST}: {why}");
            ftrace.wait().expect("its end");
            load.wait().expect("its end");
            return;
        }
        other => other.expect("recorded"),
    };
    load.wait().expect("its end");
    assert!(ftrace.wait().expect("its end").success());
    assert!(matches!(recorded.way, Way::Bpf { .. }) && recorded.nr_lost() == 0, "{recorded}");

    let hidden = hidden(&path("ftrace.dat"));
    let (ours, theirs) = (events(&path("bpf.dat"), &hidden), events(&path("ftrace.dat"), &hidden));
    let mut compared = 0;
    let (mut only_ours, mut only_theirs) = (Vec::new(), Vec::new());
    for (cpu, ours) in &ours {
        let theirs = &theirs[cpu];
        // Theirs holds ours whole: from the first one on, event by event, at the same time but for the way to the clock.
        // The nearest in time: two tasks that wake each other say the same again within 30 us.
        let start = (0..theirs.len())
            .filter(|&at| theirs[at].1 == ours[0].1 && theirs[at].0.abs_diff(ours[0].0) < 200_000)
            .min_by_key(|&at| theirs[at].0.abs_diff(ours[0].0));
        let start = start.unwrap_or_else(|| panic!("{cpu}: ftrace does not have {:?}", ours[0]));
        let mut theirs = &theirs[start..];
        let mut ours = ours.as_slice();
        while let ([own, our_rest @ ..], [other, their_rest @ ..]) = (ours, theirs) {
            if own.1 == other.1 {
                assert!(own.0.abs_diff(other.0) < 2_000_000, "{cpu}: {own:?} {other:?}");
                (ours, theirs) = (our_rest, their_rest);
                compared += 1;
                continue;
            }
            // One of them has something that the other has not: go on where they meet again.
            let near =
                |list: &[(u64, Said)], event: &Said| list.iter().take(20).position(|(_, said)| said == event);
            match (near(theirs, &own.1), near(ours, &other.1)) {
                (Some(skip), other_skip) if other_skip.is_none_or(|other| skip <= other) => {
                    only_theirs.extend(theirs[..skip].iter().map(|(_, said)| said.clone()));
                    theirs = &theirs[skip..];
                }
                (_, Some(skip)) => {
                    only_ours.extend(ours[..skip].iter().map(|(_, said)| said.clone()));
                    ours = &ours[skip..];
                }
                _ => {
                    only_ours.push(own.1.clone());
                    only_theirs.push(other.1.clone());
                    (ours, theirs) = (our_rest, their_rest);
                }
            }
        }
    }
    eprintln!(
        "{compared} events are the same; only programs have {only_ours:?}, only ftrace {only_theirs:?}"
    );
    assert!(compared > 1000, "{compared} events say little");
    // A host may hide tasks from ftrace now and then; nothing else may be told by one of them alone.
    assert!((only_ours.len() + only_theirs.len()) * 200 <= compared, "{only_ours:?} {only_theirs:?}");
}
