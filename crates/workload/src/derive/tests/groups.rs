//! Control groups: of the snapshot, of the groups above, and by moves.

use super::*;
use crate::{CgroupId, CpuMax, ParamChange};

const PROC: &str = "tid,comm,cgroup,cpu_weight,cpu_max,cpuset\n\
    7,t7,/web/log,300,20000 50000,0\n\
    8,t8,/,,,\n\
    9,t9,/web,50,max 100000,0-1\n";

fn moved(trace: &mut Trace, us: u64, cpu: u32, by: i32, pid: i32, path: i32, root: i32) {
    let what = SchedEvent::CgroupAttach { pid: Pid(pid), path: CommId(path as u32), root };
    trace.push(us, cpu, by, Context::Task, what);
}

/// Paths stand at the end of the names.
const TO_WEB: i32 = 28;
const TO_NEW: i32 = 29;

fn derive(trace: &Trace) -> Workload {
    let mut snapshot = ProcSnapshot::parse(PROC, "x.proc.csv").unwrap();
    snapshot
        .add_groups("path,cpu_weight,cpu_max,cpuset\n/web,50,max 100000,0-1\n/new/one,0,,1\n", "x.cgroup.csv")
        .unwrap();
    let names = |comm: CommId| match comm.0 as i32 {
        TO_WEB => "/web",
        TO_NEW => "/new/one",
        _ => name(comm),
    };
    let mut deriver = Deriver::new(DeriveOptions::default(), Some(&snapshot));
    for event in &trace.events {
        deriver.event(event, names);
    }
    let workload = deriver.finish(Some(2), names).workload;
    workload.check().unwrap();
    workload
}

fn move_of(change: &ParamChange, workload: &Workload) -> String {
    let group = &workload.cgroups[change.cgroup.unwrap().0 as usize];
    let target = change.target.map_or(0, |target| workload.task(target).pid);
    format!("{target}>{}", group.path)
}

fn moves(workload: &Workload, pid: u32) -> Vec<(u64, String)> {
    let events = task(workload, pid).events.iter();
    events
        .filter_map(|event| match &event.kind {
            EventKind::Prio { length, change } => Some((length.as_ns() / 1000, move_of(change, workload))),
            _ => None,
        })
        .collect()
}

#[test]
fn groups_and_those_above_come_with_their_settings() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(10, 0, 7, 'S', 9).switch(20, 0, 9, 'X', 0);
    trace.switch(30, 1, 8, 'X', 0);
    let workload = derive(&trace);
    let path = |id: CgroupId| workload.cgroups[id.0 as usize].path.as_str();
    assert_eq!(
        workload.cgroups.iter().map(|group| group.path.as_str()).collect::<Vec<_>>(),
        ["/web", "/web/log"]
    );
    assert_eq!(task(&workload, 7).cgroup.map(path), Some("/web/log"));
    assert_eq!((task(&workload, 8).cgroup, task(&workload, 9).cgroup.map(path)), (None, Some("/web")));
    let [web, log] = workload.cgroups.as_slice() else { panic!() };
    // /web: no limit, and all of the recorded CPUs
    assert_eq!((web.weight, web.max, &web.cpuset), (Some(50), None, &None));
    let max = CpuMax { quota: Span::from_ms(20), period: Span::from_ms(50) };
    assert_eq!((log.weight, log.max), (Some(300), Some(max)));
    assert_eq!(log.cpuset.as_ref().unwrap().to_string(), "0");
}

#[test]
fn a_move_is_the_doing_of_who_made_it() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(5, 1, 8, 'S', 9).switch(6, 1, 9, 'S', 0);
    moved(&mut trace, 10, 0, 7, 7, TO_WEB, 1); // itself
    moved(&mut trace, 20, 0, 7, 8, TO_NEW, 1); // another
    moved(&mut trace, 30, 1, 0, 9, TO_NEW, 1); // by somebody who is not in the workload, while it sleeps
    moved(&mut trace, 31, 0, 7, 9, TO_NEW, 4); // in another hierarchy
    moved(&mut trace, 32, 0, 7, 25, TO_NEW, 1); // of nobody
    trace.switch(40, 0, 7, 'X', 0).timer(50, 1, 0, 9).switch(52, 1, 0, 'R', 9).switch(60, 1, 9, 'X', 0);
    let workload = derive(&trace);
    assert_eq!(moves(&workload, 7), [(10, "0>/web".to_string()), (20, "8>/new/one".to_string())]);
    assert_eq!(moves(&workload, 9), [(0, "0>/new/one".to_string())]);
    let paths: Vec<_> = workload.cgroups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
    assert_eq!(paths, [("/web", Some(50)), ("/new", None), ("/new/one", Some(1)), ("/web/log", Some(300))]);
    assert_eq!(
        dropped(&workload),
        [
            ("control group with cpu.idle, taken as one of weight 1", 1),
            ("move in another hierarchy of control groups than the first, left out", 1),
            ("move to another control group, of a task that is not in the trace, left out", 1),
        ]
    );
    // and the text keeps it
    let text = workload.to_text().unwrap();
    assert!(text.contains("PRIO 7 20us cgroup=/new/one target=8"), "{text}");
}

#[test]
fn sessions_have_groups_where_the_kernel_gives_them_some() {
    let setsid = |trace: &mut Trace, us: u64, cpu: u32, pid: i32, ret: i64| {
        let what = SchedEvent::SysExit { call: SyscallKind::Setsid, ret };
        trace.push(us, cpu, pid, Context::Task, what);
    };
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8);
    setsid(&mut trace, 5, 0, 7, -1); // it leads a group of processes: refused
    setsid(&mut trace, 5, 1, 8, 8); // in a control group, which counts more than its session
    trace.fork(10, 0, 7, 21).wakeup_new(11, 0, 7, 21).switch(20, 1, 8, 'S', 21);
    setsid(&mut trace, 25, 1, 21, 21);
    trace.switch(30, 1, 21, 'S', 9).switch(40, 0, 7, 'S', 0).switch(50, 1, 9, 'S', 0);
    let text = "tid,comm,cgroup,cpu_weight,autogroup\n7,t7,/,100,/autogroup-12 nice 5\n\
                8,t8,/web,50,/autogroup-13 nice 0\n9,t9,/,,\n";
    let snapshot = ProcSnapshot::parse(text, "x.proc.csv").unwrap();
    let workload = trace.derive_with(DeriveOptions::default(), Some(&snapshot)).workload;
    let path = |id: CgroupId| workload.cgroups[id.0 as usize].path.as_str();
    assert_eq!(task(&workload, 7).cgroup.map(path), Some("/autogroup-12"));
    assert_eq!(task(&workload, 8).cgroup.map(path), Some("/web"));
    assert_eq!(task(&workload, 9).cgroup, None);
    assert_eq!(moves(&workload, 21), [(5, "0>/session-21".to_string())]);
    assert!(moves(&workload, 7).is_empty() && moves(&workload, 8).is_empty());
    assert_eq!(workload.notes["sessions"], "2 are groups of the scheduler's own (sched_autogroup)");
    // nice 5 has a third of the share
    let weights: Vec<_> = workload.cgroups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
    assert_eq!(weights, [("/session-21", None), ("/autogroup-12", Some(33)), ("/web", Some(50))]);
}

#[test]
fn a_session_that_cannot_be_is_refused() {
    for session in ["autogroup-12", "/autogroup-", "/autogroup-1 nice", "/autogroup-1 nice 20", "/a/b nice 0"]
    {
        let text = format!("tid,autogroup\n7,{session}\n");
        let error = ProcSnapshot::parse(&text, "x.proc.csv").unwrap_err().to_string();
        let place =
            format!("x.proc.csv, line 2: autogroup is \"{session}\", expected /autogroup-NUMBER nice N");
        assert!(error.starts_with(&place), "{error}");
    }
}
