//! Every end that a run can have, judged.

use super::*;
use crate::subject::Subject;
use schedlab_machine::drawn::Life::{Run, Sleep};
use schedlab_machine::drawn::workload;
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_units::CpuId;
use std::io::{Seek, Write};

/// Two tasks that wait for each other.
fn circle() -> Workload {
    let text = include_bytes!("../../../../samples/hand/deadlock.txt");
    schedlab_workload::text::parse_text("deadlock.txt", text).unwrap_or_else(|error| panic!("{error}"))
}

fn flat(nr_cpus: u32) -> Topology {
    Topology::flat(nr_cpus).unwrap()
}

fn drawn() -> Workload {
    workload(&[&[Run(2), Sleep(1), Run(2)], &[Run(3)]])
}

/// A good run of [`drawn`], to be spoilt.
fn good(workload: &Workload) -> RunResult {
    let fifo = Subject::native("fifo").unwrap();
    schedlab_runner::run(&fifo.on(workload, flat(1))).unwrap()
}

#[test]
fn a_run_that_ends_well_is_finished() {
    let workload = drawn();
    let fifo = Subject::native("fifo").unwrap();
    let finished = run(&fifo.on(&workload, flat(1)), Standard::AsAsked).unwrap();
    assert!(finished.is_done());
    assert_eq!(finished.summary.tasks[0].cpu_ns + finished.summary.tasks[1].cpu_ns, 7_000_000);
    let cut = RunRequest { duration: Some(Span::from_ms(2)), ..fifo.on(&workload, flat(1)) };
    assert!(!run(&cut, Standard::AsAsked).unwrap().is_done());
}

/// In a process of its own and here the same records come out, and the same is said of a bad end.
#[test]
fn a_run_here_is_judged_as_one_elsewhere() {
    let fifo = Subject::native("fifo").unwrap();
    let info = fifo.info().unwrap();
    let here = |workload: &Workload| run_here(info, &[], (workload, flat(1)), None, Standard::AsAsked);
    let there = |workload: &Workload| run(&fifo.on(workload, flat(1)), Standard::AsAsked);
    let workload = drawn();
    let elsewhere = MemLog::read(&there(&workload).unwrap().log).unwrap();
    assert_eq!(here(&workload).unwrap().records, elsewhere.records);
    let circle = circle();
    let (here, there) = (here(&circle).unwrap_err(), there(&circle).unwrap_err());
    assert_eq!((here.to_string(), here.kind()), (there.to_string(), FailureKind::Input));
    let Ended::Deadlock { waits, .. } = &here else { panic!("{here}") };
    assert_eq!((waits.len(), waits[0].sleeper.as_str()), (2, "task 10 ('left')"));
    assert!(here.short().contains("2 tasks wait for each other") && !here.short().contains('\n'));
}

#[test]
fn every_kind_of_exit_has_its_status() {
    use ExitKind::*;
    let workload = drawn();
    for (kind, status) in [
        (Panic, 3),
        (Livelock, 3),
        (LostTask, 3),
        (Contract, 3),
        (Scheduler, 3),
        (Crash, 3),
        (Stall, 3),
        (Refused, 2),
        (Log, 2),
    ] {
        let mut result = good(&workload);
        let reason = "said so".to_string();
        result.report.end = RunEnd::Misbehaved { report: ExitReport { kind, reason, time_ns: 1_000_000 } };
        result.report.warnings = vec!["look out\nat line 1".to_string()];
        let ended = judge(result, &workload, Standard::Shown).unwrap_err();
        assert_eq!(ended.kind().exit_status(), status, "{kind}");
        let text = ended.to_string();
        assert!(text.contains("said so"), "{text}");
        if status == 3 {
            let first = format!("fifo misbehaved after 1ms of simulated time: {kind}: said so\n");
            assert!(text.starts_with(&first), "{text}");
            assert!(text.contains("it had warned: look out\n") && text.contains("last events:\n"), "{text}");
        }
    }
}

/// B5: a message has one clock: the log's, or, before there is a log, the machine's own.
#[test]
fn what_fails_during_the_boot_says_so() {
    let report = ExitReport { kind: ExitKind::Crash, reason: "said so".to_string(), time_ns: 45_001_000 };
    let text = misbehaved("x", &report, &[], &[]);
    assert!(
        text.starts_with("x misbehaved before the workload began, 45001us after power-on: crash: said so\n"),
        "{text}"
    );
    let text = misbehaved("x", &report, &[], &["45 cpu0 switch".to_string()]);
    assert!(text.starts_with("x misbehaved after 45001us of simulated time: crash: said so\n"), "{text}");
}

#[test]
fn warnings_and_refused_requests_end_a_run_only_where_the_caller_says_so() {
    let workload = drawn();
    let spoilt = |standard, warns: bool, refuses: bool| {
        let mut result = good(&workload);
        result.report.warnings.extend(warns.then(|| "careful\nnow".to_string()));
        result.report.refused.extend(refuses.then(|| ("nice -21".to_string(), 3)));
        judge(result, &workload, standard).map(|_| ()).map_err(|ended| (ended.kind(), ended.to_string()))
    };
    use Standard::*;
    for standard in [Shown, NoWarning, AsAsked] {
        assert_eq!(spoilt(standard, false, false), Ok(()));
    }
    assert_eq!(spoilt(Shown, true, true), Ok(()));
    assert_eq!(spoilt(NoWarning, false, true), Ok(()));
    let warned = "fifo warned 1 times during the run; the first: careful".to_string();
    for standard in [NoWarning, AsAsked] {
        assert_eq!(spoilt(standard, true, false), Err((FailureKind::Finding, warned.clone())));
    }
    let refused = "fifo did not run the experiment that was asked for: nice -21 (3 times)".to_string();
    assert_eq!(spoilt(AsAsked, false, true), Err((FailureKind::Input, refused)));
}

/// A log in which a task is in two places, one that is longer than its run, and one that ends within a record.
#[test]
fn a_log_that_contradicts_itself_is_our_bug() {
    let workload = drawn();
    let mut result = good(&workload);
    let mut records =
        MemLog::read(&RawLog::open(result.spill.try_clone().unwrap(), result.header.clone()).unwrap())
            .unwrap()
            .records;
    result.header.nr_cpus = 2;
    let first = records.iter().position(|r| r.kind() == Some(schedlab_log::Kind::Switch)).unwrap();
    let mut twice = records[first];
    twice.cpu = 1;
    records.insert(first + 1, twice);
    result.spill.set_len(0).unwrap();
    result.spill.rewind().unwrap();
    let bytes: Vec<u8> = records.iter().flat_map(schedlab_log::to_bytes).collect();
    result.spill.write_all(&bytes).unwrap();
    let shorter = |nr_bytes: u64| {
        let mut result = good(&workload);
        result.header.duration = Span::from_ms(1);
        result.spill.set_len(nr_bytes).unwrap();
        result
    };
    let whole = good(&workload).spill.metadata().unwrap().len();
    for (result, word) in [
        (result, "two places"),
        (shorter(whole), "beyond the log's end"),
        (shorter(whole - 1), "ends with 31"),
    ] {
        let ended = judge(result, &workload, Standard::Shown).unwrap_err();
        assert_eq!(ended.kind(), FailureKind::Internal);
        assert!(
            ended.to_string().starts_with("internal error: ") && ended.to_string().contains(word),
            "{ended}"
        );
    }
}

/// Never picks anything.
struct Idle;

impl Policy for Idle {
    fn task_new(&mut self, _view: &View, _task: TaskId) {}
    fn select_cpu(&mut self, view: &View, task: TaskId, _arrival: Arrival) -> CpuId {
        view.home_cpu(task)
    }
    fn enqueue(&mut self, _view: &View, _cpu: CpuId, _task: TaskId, _arrival: Arrival) {}
    fn dequeue(&mut self, _view: &View, _cpu: CpuId, _task: TaskId) {}
    fn pick_next(&mut self, _view: &View, _cpu: CpuId) -> Option<TaskId> {
        None
    }
    fn put_prev(&mut self, _view: &View, _cpu: CpuId, _task: TaskId, _ran: Span, _stop: Stop) {}
}

static IDLE: PolicyInfo = PolicyInfo::new("idle", "", "", &[], |_| Ok(Box::new(Idle)));

#[test]
fn what_cannot_be_started_says_why() {
    let workload = drawn();
    let rr = Subject::native("rr").unwrap().with("quantum", "0");
    let ended = run(&rr.on(&workload, flat(1)), Standard::Shown).unwrap_err();
    assert!(matches!(ended, Ended::NotStarted(_)) && ended.kind() == FailureKind::Input, "{ended}");
    let here = run_here(rr.info().unwrap(), &rr.params, (&workload, flat(1)), None, Standard::Shown);
    assert_eq!(here.unwrap_err().to_string(), ended.to_string());
    let lost = run_here(&IDLE, &[], (&workload, flat(1)), None, Standard::Shown).unwrap_err();
    assert_eq!(lost.kind(), FailureKind::Misbehaved, "{lost}");
    assert!(lost.short().starts_with("lost task after "), "{lost}");
}
