//! Drawn schedules: a workload in milliseconds, and who ran in each.

use schedlab_log::{Kind, Record};
use schedlab_machine::native::Native;
use schedlab_machine::{End, Machine, Program, Setup};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::{
    Birth, Event, EventId, EventKind, ExternalSource, InitState, Task, Wakeup, Workload,
};

/// What a task does next, in ms.
pub(crate) enum Life {
    Run(u64),
    Sleep(u64),
}

/// Tasks A, B, ... that are all there at the start.
pub(crate) fn workload(lives: &[&[Life]]) -> Workload {
    let tasks = lives.iter().enumerate().map(|(index, life)| {
        let mut events = Vec::new();
        let mut length = Span::ZERO;
        for step in *life {
            match step {
                Life::Run(ms) => length += Span::from_ms(*ms),
                Life::Sleep(ms) => {
                    events.push(EventKind::Block { length });
                    length = Span::ZERO;
                    let source = ExternalSource::Timer;
                    events.push(EventKind::Wakeup(Wakeup::External { after: Span::from_ms(*ms), source }));
                }
            }
        }
        events.push(EventKind::Exit { length });
        let events = events.into_iter().enumerate();
        Task {
            pid: index as u32 + 1,
            name: char::from(b'A' + index as u8).to_string(),
            birth: Birth::Init { eid: EventId(0), parent: None, state: InitState::Runnable },
            params: None,
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: events
                .map(|(i, kind)| Event { eid: EventId(1 + 1000 * index as u64 + i as u64), kind })
                .collect(),
        }
    });
    Workload { tasks: tasks.collect(), ..Workload::default() }
}

/// Runs the tasks and draws one line per CPU, one letter per ms, `.` = idle; the idle end is left out.
pub(crate) fn schedule(sched: &str, nr_cpus: u32, limit_ms: u64, lives: &[&[Life]]) -> Vec<String> {
    let policy = crate::find(sched).unwrap().build(&[]).unwrap();
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup {
        topology: Topology::flat(nr_cpus).unwrap(),
        duration: Some(Span::from_ms(limit_ms)),
        params: Vec::new(),
    };
    let program = Program::new(&workload(lives)).unwrap();
    let outcome = Machine::new(Native::new(policy, &mut records), program, setup).run();
    assert_eq!(outcome.end, End::AllDone);
    let ms = 1_000_000;
    let mut lines = vec![vec![b'.'; limit_ms as usize]; nr_cpus as usize];
    let mut current = vec![(0u64, None::<u32>); nr_cpus as usize];
    for record in records.iter().filter(|r| r.kind() == Some(Kind::Switch)) {
        let (since, task) = current[record.cpu().index()];
        assert_eq!(record.time_ns % ms, 0, "a drawn schedule has whole milliseconds");
        if let Some(task) = task {
            lines[record.cpu().index()][(since / ms) as usize..(record.time_ns / ms) as usize]
                .fill(b'A' + task as u8);
        }
        current[record.cpu().index()] =
            (record.time_ns, record.other().is_workload().then_some(record.other));
    }
    lines.into_iter().map(|line| String::from_utf8(line).unwrap().trim_end_matches('.').to_string()).collect()
}
