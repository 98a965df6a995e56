//! A recording becomes a workload, the workload a run, the run a trace.dat and a Perfetto trace: imported
//! again they give the same workload.
//!
//! "The same" is: the same tasks, each with the same events in the same order after the same CPU time; the
//! same children, the same wakers at the same place of the waker's CPU time, the same time until external
//! wakeups. Nothing may be missing: a block whose wakeup had come already did not sleep, a yield with nobody
//! else to run changed nothing, and the log has notes of them (`schedlab_log::note`).
//!
//! Times may differ by what the export has shifted: events of one instant that a reader would order by CPU
//! are written 1 ns apart.

mod common;

use common::{has_linux, json, root, schedlab};
use schedlab_trace::Mode;
use schedlab_units::TaskId;
use schedlab_workload::derive::{DeriveOptions, import_trace};
use schedlab_workload::{Birth, EventKind, Form, Wakeup, Workload, save};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn import(path: &Path) -> Workload {
    let derived = import_trace(path, Mode::Strict, DeriveOptions::default(), |_| {});
    derived.unwrap_or_else(|error| panic!("{}: {error}", path.display())).workload
}

/// An event with the CPU time of its task until then, since its birth.
#[derive(Clone, Debug)]
struct Step {
    cpu_ns: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Fork(u32),
    /// In the text form's words, and of whom.
    Prio(String, Option<u32>),
    Yield,
    Block,
    /// Elapsed time since the block.
    External(u64),
    /// Who, after how much of its CPU time.
    By(u32, u64),
    Exit,
}

/// Each task's life, by pid.
fn lives(workload: &Workload) -> BTreeMap<u32, Vec<Step>> {
    // CPU time of each task at each event
    let mut at = BTreeMap::new();
    for task in &workload.tasks {
        let (mut before, mut length) = (0, 0);
        for event in &task.events {
            match event.kind.length() {
                Some(l) => length = l.as_ns(),
                None => (before, length) = (before + length, 0),
            }
            at.insert(event.eid, before + length);
        }
    }
    let pid = |id: TaskId| workload.task(id).pid;
    let life = |task: &schedlab_workload::Task| {
        let called = |event: &&schedlab_workload::Event| matches!(event.kind, EventKind::Call { .. });
        let steps = task.events.iter().filter(|event| !called(event)).map(|event| {
            let what = match &event.kind {
                EventKind::Fork { child, .. } => What::Fork(pid(*child)),
                EventKind::Prio { change, .. } => {
                    What::Prio(schedlab_workload::change_words(change, workload), change.target.map(pid))
                }
                EventKind::Yield { .. } => What::Yield,
                EventKind::Exec { .. } => panic!("EXEC comes back as where it put the task"),
                EventKind::Call { .. } => unreachable!("taken out above"),
                EventKind::Block { .. } => What::Block,
                EventKind::Exit { .. } => What::Exit,
                EventKind::Object { op, .. } => {
                    panic!("{} comes back as what it did to the schedule", op.name())
                }
                EventKind::Wakeup(Wakeup::External { after, .. }) => What::External(after.as_ns()),
                EventKind::Wakeup(Wakeup::Dependent { event, task, distance, .. }) => {
                    // a distance may reach past the waker's last event
                    let end =
                        at.get(event).copied().unwrap_or_else(|| workload.task(*task).cpu_demand().as_ns());
                    What::By(pid(*task), end.saturating_sub(distance.as_ns()))
                }
            };
            Step { cpu_ns: at[&event.eid], what }
        });
        let mut steps: Vec<Step> = steps.collect();
        // what is done for this run sleeps for ever
        if !matches!(steps.last(), None | Some(Step { what: What::Block | What::Exit, .. })) {
            let cpu_ns = task.cpu_demand().as_ns();
            steps.push(Step { cpu_ns, what: What::Block });
        }
        (task.pid, steps)
    };
    workload.tasks.iter().map(life).collect()
}

/// Linux sets a CPU's timer no closer than this after the last expiry (`cev_delta2ns`,
/// kernel/time/clockevents.c: at least 1 us): of two timers that expire within a microsecond on one CPU the
/// second comes late.
const TIMER_LATE_NS: u64 = 1_000;

/// Compares two workloads, which are to be the same; times may differ by `shift_ns`.
fn compare(about: &str, before: &Workload, after: &Workload, shift_ns: u64) {
    let key = |workload: &Workload| -> BTreeMap<u32, (String, bool)> {
        let tasks = workload.tasks.iter();
        tasks.map(|t| (t.pid, (t.name.clone(), matches!(t.birth, Birth::Fork { .. })))).collect()
    };
    assert_eq!(key(before), key(after), "{about}: the same tasks");
    let near = |a: u64, b: u64| a.abs_diff(b) <= shift_ns;
    let late_ns = if about.contains("linux") { TIMER_LATE_NS } else { 0 };
    let all_after = lives(after);
    for (pid, before) in lives(before) {
        let after = &all_after[&pid];
        for (at, (step, next)) in before.iter().zip(after).enumerate() {
            let same = near(next.cpu_ns, step.cpu_ns)
                && match (&next.what, &step.what) {
                    (What::External(a), What::External(b)) => near(*a, (*a).clamp(*b, *b + late_ns)),
                    (What::By(a, at), What::By(b, there)) => a == b && near(*at, *there),
                    (a, b) => a == b,
                };
            assert!(same, "{about}: task {pid}, its step {at}: {step:?} has become {next:?}");
        }
        let rest = (before.get(after.len()), after.get(before.len()));
        assert_eq!(before.len(), after.len(), "{about}: task {pid}: {rest:?}");
    }
}

struct Trip {
    folder: tempfile::TempDir,
    /// Blocks that did not sleep, as the run says.
    early: u64,
}

impl Trip {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs a workload to its end.
fn run(workload: &Workload, sched: &str, cpus: u32) -> Trip {
    let mut trip = Trip { folder: tempfile::tempdir().unwrap(), early: 0 };
    let (file, log, cpus) = (trip.path("w.wlb"), trip.path("run.arrow"), cpus.to_string());
    save(&file, workload, Form::Binary).unwrap();
    let (file, log) = (file.to_str().unwrap(), log.to_str().unwrap());
    let output = schedlab(&["run", file, "--sched", sched, "--cpus", &cpus, "--log", log]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words = said.lines().find(|line| line.contains("blocks did not sleep"));
    trip.early =
        words.map_or(0, |line| line.split_whitespace().next().unwrap().replace(',', "").parse().unwrap());
    trip
}

/// Writes the log as `name`; how many events, and by how many ns they are shifted in all, at most.
fn export(trip: &Trip, name: &str) -> (u64, u64) {
    let (log, out) = (trip.path("run.arrow"), trip.path(name));
    let output = schedlab(&["export", log.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [events] => (events, 0),
        [events, shifted, at_most_ns] => (events, shifted * at_most_ns),
        _ => panic!("{said}"),
    }
}

/// There and back; what comes back, and by how much its times may differ.
fn there_and_back(about: &str, workload: &Workload, sched: &str, cpus: u32) -> (Workload, u64) {
    let trip = run(workload, sched, cpus);
    let (_, shift_ns) = export(&trip, "run.dat");
    let again = import(&trip.path("run.dat"));
    compare(about, workload, &again, shift_ns);
    let (events, early) = (workload.nr_events(), trip.early);
    eprintln!(
        "{about}: {events} events, {early} blocks did not sleep; all came back, times within {shift_ns} ns"
    );
    (again, shift_ns)
}

#[test]
fn what_is_recorded_comes_back() {
    for (sample, sched) in [
        ("gzip", "fifo"),
        ("compile", "fifo"),
        ("hackbench", "fifo"),
        ("interactive", "eevdf"),
        ("gzip", "linux-6.12"),
        ("compile", "linux-6.12"),
        ("kv", "linux-6.12"),
        ("interactive", "linux-6.12"),
    ] {
        if sched.starts_with("linux") && !has_linux() {
            continue;
        }
        let workload = import(&root().join("samples").join(sample).join("trace.dat"));
        let cpus: u32 = workload.notes["recorded CPUs"].parse().unwrap();
        there_and_back(&format!("{sample} under {sched} on {cpus} CPUs"), &workload, sched, cpus);
    }
}

/// What came back is a fixed point: the same run once more gives it again.
#[test]
fn what_came_back_comes_back_again() {
    let workload = import(&root().join("samples/compile/trace.dat"));
    let (once, _) = there_and_back("once", &workload, "fifo", 2);
    let trip = run(&once, "fifo", 2);
    let (_, shift_ns) = export(&trip, "run.dat");
    let twice = import(&trip.path("run.dat"));
    compare("twice", &once, &twice, shift_ns);
}

/// The flow of a new machine's first minute, with what its kernel records now.
#[test]
fn a_fresh_recording_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("fresh.dat");
    let script = "for i in 1 2 3; do seq 30000 | sort -n | tail -1 >/dev/null; sleep 0.02; done";
    let output = schedlab(&["record", "-o", trace.to_str().unwrap(), "--", "sh", "-c", script]);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("root") || said.contains("tracefs"), "{said}");
        eprintln!("SKIPPED: recording is not possible here: {said}");
        return;
    }
    let workload = import(&trace);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    there_and_back("fresh, fifo", &workload, "fifo", cpus);
    if has_linux() {
        there_and_back("fresh, linux-6.12", &workload, "linux-6.12", cpus);
    }
}

/// Perfetto's form tells as much.
#[test]
fn perfetto_brings_back_the_same_workload() {
    for (sample, sched) in
        [("compile", "fifo"), ("hackbench", "fifo"), ("kv", "linux-6.12"), ("gzip", "linux-6.12")]
    {
        if sched.starts_with("linux") && !has_linux() {
            continue;
        }
        let workload = import(&root().join("samples").join(sample).join("trace.dat"));
        let trip = run(&workload, sched, 2);
        let (_, shift_ns) = export(&trip, "run.pftrace");
        let about = format!("{sample} under {sched}, by Perfetto");
        compare(&about, &workload, &import(&trip.path("run.pftrace")), shift_ns);
    }
}

/// What no sample has: yields with and without effect, changes of settings. Affinity masks, deadline
/// parameters and what tells FIFO from RR are behind pointers in real traces; our exports tell them in words.
#[test]
fn hand_written_workloads_come_back() {
    let names = ["pingpong", "forktree", "responsebench", "sleepers8", "figure1"];
    let hand = names.map(|name| {
        (name, std::fs::read_to_string(root().join(format!("samples/hand/{name}.txt"))).unwrap())
    });
    let yields = "schedlab-workload 1\n- INIT 0 0 1 runnable name=alone\n- INIT 0 0 2 blocked name=late\n\
        - YIELD 1 1ms\n- YIELD 1 2ms\n- PRIO 1 3ms nice=5\n- BLOCK 1 4ms\n- WAKEUP 1 5ms\n\
        - YIELD 1 4ms\n- EXIT 1 6ms\n- WAKEUP 2 10ms\n- YIELD 2 1ms\n- EXIT 2 3ms\n";
    let settings = "schedlab-workload 1\nCGROUP /batch\n- INIT 0 0 1 runnable name=chief nice=2\n\
        - INIT 0 0 2 blocked name=other policy=batch affinity=0\n\
        - PRIO 1 1ms policy=rr prio=50\n- PRIO 1 1ms policy=fifo prio=51 affinity=0-1\n\
        - PRIO 1 2ms target=2 policy=idle affinity=1\n- PRIO 1 2ms target=2 nice=19 cgroup=/batch\n\
        - PRIO 1 3ms policy=normal nice=2\n- PRIO 1 3ms nice=2\n\
        - FORK 1 3ms 3 name=child policy=rr prio=7 affinity=1\n- FORK 1 3ms 4 name=like-its-parent\n\
        - PRIO 1 3ms target=4 policy=batch nice=3 renice=-3\n- EXIT 1 4ms\n\
        - WAKEUP 2 10ms\n- PRIO 2 1ms policy=deadline runtime=1ms deadline=20ms period=30ms affinity=0-1\n\
        - BLOCK 2 2ms\n- WAKEUP 2 40ms\n- PRIO 2 1ms policy=normal affinity=0\n- EXIT 2 2ms\n\
        - PRIO 3 1ms policy=normal\n- EXIT 3 2ms\n- EXIT 4 3ms\n";
    let all = hand.iter().map(|(name, text)| (*name, text.as_str()));
    std::thread::scope(|scope| {
        for (name, text) in all.chain([("yields", yields), ("settings", settings)]) {
            scope.spawn(move || comes_back(name, text));
        }
    });
}

/// Under each scheduler and in both forms.
fn comes_back(name: &str, text: &str) {
    let mut workload = schedlab_workload::parse_text(name, text.as_bytes()).unwrap();
    // number 2 is every Linux' kthreadd, so that an export would choose another
    workload.tasks.iter_mut().for_each(|task| task.pid += 1000);
    for sched in ["fifo", "linux-6.12"] {
        if sched.starts_with("linux") && !has_linux() {
            continue;
        }
        let trip = run(&workload, sched, if name == "settings" { 2 } else { 1 });
        for form in ["run.dat", "run.pftrace"] {
            let (_, shift_ns) = export(&trip, form);
            let again = import(&trip.path(form));
            compare(&format!("{name} under {sched}, {form}"), &workload, &again, shift_ns);
            if name == "settings" {
                let start = |w: &Workload, pid| {
                    let task = w.tasks.iter().find(|task| task.pid == pid).unwrap();
                    (task.params, task.affinity.clone())
                };
                for pid in [1003, 1004] {
                    assert_eq!(start(&again, pid), start(&workload, pid), "{pid} under {sched}, {form}");
                }
            }
        }
    }
}

/// The real trace-cmd reads what is exported: as many events, at the same places.
#[test]
fn trace_cmd_opens_it() {
    let there = Command::new("trace-cmd").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: no trace-cmd (apt-get install trace-cmd)");
        return;
    }
    let workload = import(&root().join("samples/hackbench/trace.dat"));
    let trip = run(&workload, "fifo", 2);
    let (events, _) = export(&trip, "run.dat");
    let report = Command::new("trace-cmd").arg("report").arg(trip.path("run.dat")).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let lines: Vec<&str> = report.lines().filter(|line| line.contains(": ")).collect();
    assert_eq!(lines.len() as u64, events, "{}", lines[..3].join("\n"));
    // as a text it is imported too: the same lives, to the microseconds that it prints
    let text = trip.path("report.txt");
    std::fs::write(&text, &report).unwrap();
    let facts = json(&["--quiet", "import", text.to_str().unwrap(), "--json", "-"]);
    assert_eq!(facts["tasks"].as_u64(), Some(workload.tasks.len() as u64));
    assert_eq!(facts["events"]["fork"].as_u64(), Some(80));
}
