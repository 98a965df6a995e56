use crate::lab::{Lab, Step::*, TaskSpec};

#[test]
fn classes_stand_above_each_other() {
    // ms    0         1
    //       01234567890
    // cpu0  CCBBBAAAA      C: SCHED_DEADLINE, B: SCHED_FIFO, A: SCHED_NORMAL of nice -20
    let tasks = [
        TaskSpec::nice(-20, &[Run(4)]),
        TaskSpec::fifo(1, &[Run(3)]),
        TaskSpec::deadline(3, 100, 100, &[Run(2)]),
    ];
    for sched in ["cbs", "posix", "eevdf", "cfs-6.1", "cfs-2.6.32"] {
        assert_eq!(Lab::new(sched, 1).draw(20, &tasks), ["CCBBBAAAA"], "{sched}");
    }
}

/// A running task that becomes real time, and one that ceases to be.
#[test]
fn a_task_changes_class_while_it_runs() {
    use schedlab_units::{SchedParams, SchedPolicy, Span, TaskId};
    use schedlab_workload::{EventKind, ParamChange};
    let mut workload = crate::lab::workload(&[TaskSpec::nice(0, &[Run(9)]), TaskSpec::nice(0, &[Run(3)])]);
    let set = |ms, params| {
        let change = ParamChange { params: Some(params), ..ParamChange::default() };
        EventKind::Prio { length: Span::from_ms(ms), change: Box::new(change) }
    };
    let fifo = SchedParams { policy: SchedPolicy::Fifo, rt_priority: 1, ..SchedParams::default() };
    let mut events = vec![set(1, fifo), set(6, SchedParams::default())];
    events.extend(workload.tasks[0].events.drain(..).map(|event| event.kind));
    workload.tasks[0].events = events
        .into_iter()
        .enumerate()
        .map(|(i, kind)| schedlab_workload::Event { eid: schedlab_workload::EventId(100 + i as u64), kind })
        .collect();
    let policy = crate::find("eevdf").unwrap().build(&[("tick_phase".into(), "0".into())]).unwrap();
    let mut records: Vec<schedlab_log::Record> = Vec::new();
    let setup = schedlab_machine::Setup {
        topology: schedlab_topology::Topology::flat(1).unwrap(),
        duration: None,
        params: Vec::new(),
    };
    let program = schedlab_machine::Program::new(&workload).unwrap();
    let native = schedlab_machine::native::Native::new(policy, &mut records);
    schedlab_machine::Machine::new(native, program, setup).run();
    let switches: Vec<(u64, u32)> = records
        .iter()
        .filter(|r| r.kind() == Some(schedlab_log::Kind::Switch) && r.other() != TaskId::IDLE)
        .map(|r| (r.time_ns / 1_000_000, r.other().0))
        .collect();
    // from its first ms on, A runs its 5 real-time ms without a break (at HZ 250 others would have their turn
    // each 4 ms)
    assert_eq!(
        switches.iter().filter(|&&(ms, task)| task == 1 && (1..6).contains(&ms)).count(),
        0,
        "{switches:?}"
    );
    assert!(switches.iter().any(|&(ms, task)| task == 1 && ms >= 6), "{switches:?}");
}
