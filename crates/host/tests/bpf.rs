//! Do programs record what ftrace records? Both at once, on the same busy host, event by event.
//!
//! Needs root, tracefs, and a kernel that takes programs; without them it says so and passes.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{example, tracefs_or_skip, wait_until};
use schedlab_host::{Backend, CaptureMethod, HostError, RecordOptions, RecordRequest};
use schedlab_trace::{Context, Mode, Pid, SchedEvent, TraceFile};
use schedlab_units::CpuId;

/// What an event says, without its time and the depth of disabled preemption (a program runs one level deeper).
type Said = (i32, Context, String);

/// Tasks that come to a CPU and never leave it: some hosts hide tasks from tracing, the idle task of a CPU
/// among them, and from programs in another way than from ftrace.
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
            SchedEvent::Switch { prev, prev_state, next } => {
                // Its parent may reap it on another CPU between the two looks at it.
                let state = match format!("{prev_state:?}").as_str() {
                    "Zombie" | "Dead" => "exited".to_owned(),
                    other => other.to_owned(),
                };
                format!(
                    "switch {} {} {} {state} > {} {} {}",
                    prev.pid,
                    name(prev.comm),
                    prev.prio,
                    next.pid,
                    name(next.comm),
                    next.prio
                )
            }
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

/// Readings of the clock for one event are rarely this far apart: one is taken just behind the other.
const CLOSE_NS: u64 = 10_000;
/// They may be this far apart: whatever interrupts the kernel between the two.
const APART_NS: u64 = 2_000_000;

/// How the events of a CPU in one recording are found in another that holds it whole.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Differences in time of the events that both have.
    apart_ns: Vec<u64>,
    only_ours: Vec<Said>,
    only_theirs: Vec<Said>,
}

/// The place in `theirs`, and what to leave out on either side, with the least left out (2 an event) and the
/// fewest that are not close to each other (1 a pair). What is said before that place and after it is no
/// difference. (To go along both lists and take what comes first does not do: two tasks that wake each other
/// say the same again every 30 us, and whoever begins a round too early sees a difference in every
/// one.)
fn find(ours: &[(u64, Said)], theirs: &[(u64, Said)]) -> Found {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Step {
        Both,
        Ours,
        Theirs,
        Begin,
    }
    // steps[i][j]: the last one on the cheapest way through i of ours that ends at j of theirs; it begins
    // anywhere in theirs for nothing
    let width = theirs.len() + 1;
    let mut steps = vec![Step::Begin; (ours.len() + 1) * width];
    let mut cost = vec![0_u32; width];
    for (i, own) in ours.iter().enumerate() {
        let mut diagonal = cost[0];
        cost[0] += 2;
        let row = &mut steps[(i + 1) * width..(i + 2) * width];
        row[0] = Step::Ours;
        for (j, other) in theirs.iter().enumerate() {
            let apart_ns = own.0.abs_diff(other.0);
            let both = diagonal + u32::from(apart_ns > CLOSE_NS);
            let mut best = (cost[j + 1] + 2, Step::Ours);
            if cost[j] + 2 < best.0 {
                best = (cost[j] + 2, Step::Theirs);
            }
            if own.1 == other.1 && apart_ns < APART_NS && both <= best.0 {
                best = (both, Step::Both);
            }
            diagonal = cost[j + 1];
            (cost[j + 1], row[j + 1]) = best;
        }
    }
    let (mut i, mut j) = (ours.len(), (0..width).min_by_key(|&j| cost[j]).unwrap_or(0));
    let mut found = Found::default();
    loop {
        match steps[i * width + j] {
            Step::Both => {
                (i, j) = (i - 1, j - 1);
                found.apart_ns.push(ours[i].0.abs_diff(theirs[j].0));
            }
            Step::Ours => {
                i -= 1;
                found.only_ours.push(ours[i].1.clone());
            }
            Step::Theirs => {
                j -= 1;
                found.only_theirs.push(theirs[j].1.clone());
            }
            Step::Begin => return found,
        }
    }
}

#[test]
fn what_one_recording_lacks_is_found_in_the_midst_of_a_ping_pong() {
    let said = |what: &str| (1, Context::Task, what.to_owned());
    let list = |events: &[(u64, &str)]| -> Vec<(u64, Said)> {
        events.iter().map(|(us, what)| (us * 1000, said(what))).collect()
    };
    // a and b wake each other every 10 us, from 100 us on
    let game = |rounds: std::ops::Range<u64>| -> Vec<(u64, &'static str)> {
        rounds.flat_map(|i| [(100 + 20 * i, "a"), (110 + 20 * i, "b")]).collect()
    };
    let theirs = list(&game(0..100));
    // begins in the 30th round and ends in the 60th, its clock is read 3 us later
    let ours: Vec<_> = theirs[60..120].iter().map(|(ns, said)| (ns + 3000, said.clone())).collect();
    let both = find(&ours, &theirs);
    assert_eq!((both.apart_ns.len(), both.only_ours.len(), both.only_theirs.len()), (60, 0, 0));

    // an event of the game is missing on one side, another on the other, and one is somebody else's
    let (mut holes, mut more) = (ours.clone(), theirs.clone());
    holes.remove(20);
    more.remove(60 + 40);
    more.insert(60 + 10, (theirs[70].0, said("c")));
    let found = find(&holes, &more);
    assert_eq!((found.apart_ns.len(), found.only_ours), (58, vec![said("a")]));
    assert_eq!(found.only_theirs, [said("a"), said("c")]);

    // one reading of the clock was held up, for many rounds
    let mut held_up = ours.clone();
    held_up[30].0 += APART_NS / 2;
    let found = find(&held_up, &theirs);
    assert_eq!((found.apart_ns.len(), found.only_ours.len(), found.only_theirs.len()), (60, 0, 0));

    // the same events at another time are others
    let later: Vec<_> = ours.iter().map(|(ns, said)| (ns + 10 * APART_NS, said.clone())).collect();
    let none = find(&later, &theirs);
    assert_eq!((none.apart_ns.len(), none.only_ours.len()), (0, 60));
}

#[test]
fn programs_record_what_ftrace_records() {
    const TEST: &str = "programs_record_what_ftrace_records";
    if tracefs_or_skip(TEST).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    // In another process: both have signal handlers. It begins first and ends last, however slow this host
    // is: it records until its command, and what there is to see (naps, pipes, births and deaths), goes to
    // end.
    let load = format!(
        "cd {}; touch started; (for i in $(seq 5000); do [ -e stop ] && break; sleep 0.003; done) & \
         for i in $(seq 400); do [ -e stop ] && break; sleep 0.03; seq 20000 | sort -n | tail -1 >/dev/null; done; \
         wait",
        folder.path().display()
    );
    let mut ftrace = Command::new(example("record"))
        .arg("-o")
        .arg(path("ftrace.dat"))
        .args(["--ftrace", "--irq", "--softirq", "--", "sh", "-c", &load])
        .stderr(Stdio::null())
        .spawn()
        .expect("the recorder starts");
    wait_until("ftrace to record", || path("started").exists());
    let what = RecordRequest::System { duration: Some(Duration::from_millis(500)) };
    let mut options = RecordOptions::new(path("bpf.dat"), what);
    options.events = options.events.with_interrupts();
    options.backend = Backend::Bpf;
    let recorded = schedlab_host::record(&options, &mut |_| {});
    std::fs::write(path("stop"), "").expect("a mark");
    assert!(ftrace.wait().expect("its end").success());
    let recorded = match recorded {
        Err(HostError::NoPrograms { why }) => {
            eprintln!("SKIPPED {TEST}: {why}");
            return;
        }
        other => other.expect("recorded"),
    };
    assert!(matches!(recorded.method, CaptureMethod::Bpf { .. }) && recorded.nr_lost() == 0, "{recorded}");

    let hidden = hidden(&path("ftrace.dat"));
    let (ours, theirs) = (events(&path("bpf.dat"), &hidden), events(&path("ftrace.dat"), &hidden));
    let mut all = Found::default();
    for (cpu, ours) in &ours {
        let theirs: &[(u64, Said)] = theirs.get(cpu).map_or(&[], Vec::as_slice);
        // what is too far away to be the same need not be looked at
        let (from, until) = (ours[0].0.saturating_sub(APART_NS), ours[ours.len() - 1].0 + APART_NS);
        let theirs =
            &theirs[theirs.partition_point(|e| e.0 < from)..theirs.partition_point(|e| e.0 <= until)];
        let Found { apart_ns, only_ours, only_theirs } = find(ours, theirs);
        all.apart_ns.extend(apart_ns);
        all.only_ours.extend(only_ours);
        all.only_theirs.extend(only_theirs);
    }
    let Found { mut apart_ns, only_ours, only_theirs } = all;
    let compared = apart_ns.len();
    assert!(compared > 1000, "{compared} events say little");
    apart_ns.sort_unstable();
    let median_ns = apart_ns[compared / 2];
    eprintln!(
        "{compared} events are the same, half of them within {median_ns} ns; only programs have {only_ours:?}, only \
            ftrace {only_theirs:?}"
    );
    // One reads the clock just behind the other.
    assert!(median_ns < 20_000, "{median_ns} ns apart");
    // A host may hide tasks from ftrace now and then; nothing else may stand in one of them alone.
    assert!((only_ours.len() + only_theirs.len()) * 200 <= compared, "{only_ours:?} {only_theirs:?}");
}
