//! Whatever a trace says, however it contradicts itself: a workload comes out that keeps every rule of the model.

use proptest::prelude::*;
use schedlab_trace::{
    Carried, ChannelKind, CommId, Context, Direction, MutexKind, ObjectCall, Pid, SchedEvent, SwitchSide,
    SyncCall, SyncOp, Syscall, SyscallKind, TaskState, TraceEvent, Vector, Wake,
};
use schedlab_units::CpuId;
use schedlab_workload::derive::{DeriveOptions, Deriver, SoftIrqRule, YieldRule};
use schedlab_workload::{Messages, WaitCosts, find_deadlock};

fn name(comm: CommId) -> &'static str {
    match comm.0 {
        4 => "ksoftirqd/0",
        5 => "migration/0",
        // a control group's path
        6 => "/a/b",
        7 => "policy=rr prio=50 affinity=0-1",
        8 => "nice=5 cgroup=/c",
        9 => "policy=fifo",
        10 => "policy=deadline runtime=1ms deadline=2ms period=2ms",
        11 => "affinity=",
        _ => "task",
    }
}

fn what() -> impl Strategy<Value = SchedEvent> {
    let pid = || (0..7i32).prop_map(Pid);
    let prio = || prop::sample::select(vec![-1, 0, 89, 98, 99, 100, 120, 139, 140]);
    let side =
        move || (pid(), prio()).prop_map(|(pid, prio)| SwitchSide { pid, comm: CommId(pid.0 as u32), prio });
    let wake = move || {
        (pid(), prio()).prop_map(|(pid, prio)| Wake {
            pid,
            comm: CommId(pid.0 as u32),
            prio,
            target_cpu: CpuId(0),
        })
    };
    let states = vec![
        TaskState::Running,
        TaskState::RunningPreempted,
        TaskState::Interruptible,
        TaskState::Idle,
        TaskState::Dead,
        TaskState::Zombie,
        TaskState::Unknown,
    ];
    let calls = vec![
        Syscall::SchedYield,
        Syscall::Nice { increment: i32::MIN },
        Syscall::SetPriority { which: 0, who: 0, nice: 99 },
        Syscall::SetPriority { which: 0, who: 3, nice: -5 },
        Syscall::SchedSetScheduler { pid: Pid(2), policy: 0x4000_0001 },
        Syscall::SchedSetScheduler { pid: Pid(0), policy: 77 },
        Syscall::SchedSetAttr { pid: Pid(4) },
        Syscall::SchedSetAffinity { pid: Pid(0) },
    ];
    let kinds: Vec<SyscallKind> = SyscallKind::NAMES.iter().map(|(_, kind)| *kind).collect();
    prop_oneof![
        8 => (side(), prop::sample::select(states), side())
            .prop_map(|(prev, prev_state, next)| SchedEvent::Switch { prev, prev_state, next }),
        4 => wake().prop_map(SchedEvent::Waking),
        1 => wake().prop_map(SchedEvent::Wakeup),
        2 => wake().prop_map(SchedEvent::WakeupNew),
        2 => (pid(), 1..7i32).prop_map(|(parent, child)| SchedEvent::Fork {
            parent,
            child: Pid(child),
            child_comm: CommId(child as u32),
        }),
        1 => (pid(), pid()).prop_map(|(pid, old_pid)| SchedEvent::Exec { pid, old_pid }),
        1 => (pid(), prio(), prio())
            .prop_map(|(pid, old_prio, new_prio)| SchedEvent::PiSetPrio { pid, old_prio, new_prio }),
        2 => prop::sample::select(calls).prop_map(SchedEvent::SysEnter),
        2 => (prop::sample::select(kinds), -1..2i64).prop_map(|(call, ret)| SchedEvent::SysExit { call, ret }),
        1 => prop::option::of(0..9u64).prop_map(|count| SchedEvent::Lost { count }),
        1 => (0..20u32).prop_map(|vec| SchedEvent::SoftIrqRaise { vec }),
        1 => (0..10u32).prop_map(|vec| SchedEvent::SoftIrqEntry { vec }),
        1 => (0..10u32).prop_map(|vec| SchedEvent::SoftIrqExit { vec }),
        1 => Just(SchedEvent::IrqEntry { irq: 1 }),
        1 => Just(SchedEvent::IrqExit { irq: 1 }),
        1 => Just(SchedEvent::VectorEntry(Vector::LocalTimer)),
        1 => Just(SchedEvent::VectorExit(Vector::LocalTimer)),
        1 => (pid(), 0..7u32, 0..2i32)
            .prop_map(|(pid, path, root)| SchedEvent::CgroupAttach { pid, path: CommId(path), root }),
        2 => (pid(), any::<bool>(), 6..13u32)
            .prop_map(|(pid, born, words)| SchedEvent::Settings { pid, born, words: CommId(words) }),
    ]
}

/// Time since the event before, CPU, task, context, whether the task is the one that should be there, what.
fn step() -> impl Strategy<Value = (u64, u32, i32, usize, bool, SchedEvent)> {
    (0..40_000u64, 0..3u32, 0..7i32, 0..4usize, any::<bool>(), any_event())
}

fn any_event() -> impl Strategy<Value = SchedEvent> {
    prop_oneof![3 => what(), 2 => at_objects()]
}

/// Events at objects, at few enough places that they meet, contradict each other and are used in several ways.
fn at_objects() -> impl Strategy<Value = SchedEvent> {
    let kinds: Vec<ChannelKind> = ChannelKind::ALL.iter().map(|(_, kind, _)| *kind).collect();
    let mutex = MutexKind { is_recursive: true, inherits_priority: true };
    let operations = vec![
        SyncOp::FutexWoken,
        SyncOp::FutexChanged,
        SyncOp::FutexGaveUp,
        SyncOp::FutexWake,
        SyncOp::FutexRequeue,
        SyncOp::FutexLockPi,
        SyncOp::FutexUnlockPi,
        SyncOp::MutexLock(MutexKind::default()),
        SyncOp::MutexLock(mutex),
        SyncOp::MutexTry(MutexKind::default()),
        SyncOp::MutexUnlock,
        SyncOp::ConditionWait,
        SyncOp::ConditionSignal,
        SyncOp::ConditionBroadcast,
        SyncOp::SemaphoreWait,
        SyncOp::SemaphoreTry,
        SyncOp::SemaphoreEmpty,
        SyncOp::SemaphorePost,
        SyncOp::BarrierWait,
    ];
    let directions = vec![Direction::Send, Direction::Receive];
    let carried = vec![Carried::Data, Carried::Connection, Carried::ConnectionBegun];
    prop_oneof![
        2 => (
            (0..3u64, prop::sample::select(kinds), prop::sample::select(directions)),
            (prop::sample::select(carried), 0..3u32, 0..9000u32),
        )
            .prop_map(|((key, kind, direction), (what, amount, room))| {
                SchedEvent::Object(ObjectCall { key, kind, direction, what, amount: amount * 70, room })
            }),
        6 => (0..4u64, 0..4u64, prop::sample::select(operations), 0..4u32)
            .prop_map(|(key, other, what, value)| SchedEvent::Sync(SyncCall { key, other, what, value })),
        1 => Just(SchedEvent::Polled),
        1 => Just(SchedEvent::FoundNothing),
        1 => Just(SchedEvent::ChildTaken),
        1 => any::<bool>().prop_map(|busy| SchedEvent::Stranger { busy }),
        1 => (0..7i32, any::<u64>()).prop_map(|(pid, mask)| SchedEvent::Affinity { pid: Pid(pid), mask }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_give_a_workload_that_keeps_the_rules(
        events in prop::collection::vec(step(), 1..150),
        all_yields in any::<bool>(),
        softirq in 0..3usize,
        messages in prop::sample::select(Messages::ALL.to_vec()),
    ) {
        let options = DeriveOptions {
            yields: if all_yields { YieldRule::All } else { YieldRule::Switched },
            softirq: [SoftIrqRule::Evidence, SoftIrqRule::Never, SoftIrqRule::Always][softirq],
            messages: Some(messages),
            ..DeriveOptions::default()
        };
        let mut deriver = Deriver::new(options, None);
        let mut time_ns = 1_000_000;
        for (step_ns, cpu, pid, context, own, what) in events {
            time_ns += step_ns;
            // Half of the switches come from where they should: whole lives are seen besides contradictions.
            let pid = match what {
                SchedEvent::Switch { prev, .. } if own => prev.pid,
                _ => Pid(pid),
            };
            let context = [Context::Task, Context::Task, Context::HardIrq, Context::SoftIrq][context];
            deriver.event(&TraceEvent { time_ns, cpu: CpuId(cpu), pid, context, preempt_count: 0, what }, name);
        }
        let derived = deriver.finish(Some(3), name);
        prop_assert_eq!(derived.workload.check().map_err(|error| error.to_string()), Ok(()));
        prop_assert!(find_deadlock(&derived.workload).is_none(), "{}", find_deadlock(&derived.workload).unwrap());
        let demand: u64 = derived.workload.tasks.iter().map(|task| task.cpu_demand().as_ns()).sum();
        // what a sleep takes at a recorded object is the object's
        let costs = derived.workload.objects.iter().any(|object| object.costs != WaitCosts::default());
        prop_assert!(demand == derived.summary.cpu_ns || costs);
    }
}
