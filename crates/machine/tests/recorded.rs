//! Random programs that send and receive, as a recorder would see them on a CPU each: no replay of them ends in a
//! deadlock, on however many CPUs and under whatever scheduler, and none needs force for that. Nor does one of programs
//! whose tasks also wait at a futex each, of which no recorder sees the wakeups that found them awake.

use proptest::prelude::*;
use schedlab_log::Record;
use schedlab_machine::native::Native;
use schedlab_machine::{End, Machine, Outcome, Program, Setup};
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_trace::{
    Carried, ChannelKind, CommId, Context, Direction, MutexKind, ObjectCall, Pid, SchedEvent, SwitchSide,
    SyncCall, SyncOp, TaskState, TraceEvent, Wake,
};
use schedlab_units::CpuId;
use schedlab_workload::derive::{DeriveOptions, Deriver};
use schedlab_workload::{EventKind, Messages, Workload};
use std::collections::{BTreeSet, VecDeque};

/// What a recorder sees; task N has CPU N - 1 for itself.
struct Seen {
    deriver: Deriver<'static>,
    now_us: u64,
    nr_tasks: i32,
}

impl Seen {
    fn at(&mut self, pid: i32, current: i32, what: SchedEvent) {
        self.now_us += 1;
        let event = TraceEvent {
            time_ns: self.now_us * 1000,
            cpu: CpuId(pid as u32 - 1),
            pid: Pid(current),
            context: Context::Task,
            preempt_count: 0,
            what,
        };
        self.deriver.event(&event, |_| "task");
    }

    fn switch(&mut self, pid: i32, prev: i32, prev_state: TaskState, next: i32) {
        let side = |pid: i32| SwitchSide { pid: Pid(pid), comm: CommId(pid as u32), prio: 120 };
        self.at(pid, prev, SchedEvent::Switch { prev: side(prev), prev_state, next: side(next) });
    }

    fn call(&mut self, pid: i32, channel: usize, direction: Direction, amount: u64) {
        let (key, amount) = (channel as u64 + 1, amount as u32);
        let call =
            ObjectCall { key, kind: ChannelKind::Inet, direction, what: Carried::Data, amount, room: 0 };
        self.at(pid, pid, SchedEvent::Object(call));
    }

    fn waking(&mut self, pid: i32, sleeper: i32) {
        let wake = Wake { pid: Pid(sleeper), comm: CommId(0), prio: 120, target_cpu: CpuId(0) };
        self.at(pid, pid, SchedEvent::Waking(wake));
    }

    /// A call at the futex of a task.
    fn futex(&mut self, pid: i32, owner: i32, what: SyncOp) {
        let value = u32::from(what == SyncOp::FutexWake);
        self.at(pid, pid, SchedEvent::Sync(SyncCall { key: 100 + owner as u64, other: 0, what, value }));
    }

    /// One task wakes another at its futex.
    fn unpark(&mut self, pid: i32, sleeper: i32, is_late: bool) {
        self.waking(pid, sleeper);
        if !is_late {
            self.futex(pid, sleeper, SyncOp::FutexWake);
        }
        self.switch(sleeper, 0, TaskState::Running, sleeper);
        self.futex(sleeper, sleeper, SyncOp::FutexWoken);
        if is_late {
            self.futex(pid, sleeper, SyncOp::FutexWake);
        }
    }

    /// The same with a lock held, for which the other one waits then.
    fn unpark_locked(&mut self, pid: i32, sleeper: i32) {
        self.unpark(pid, sleeper, false);
        self.switch(sleeper, sleeper, TaskState::Interruptible, 0);
        self.waking(pid, sleeper);
        self.lock(pid, SyncOp::FutexWake, 1);
        self.switch(sleeper, 0, TaskState::Running, sleeper);
        self.lock(sleeper, SyncOp::FutexWoken, 2);
    }

    fn lock(&mut self, pid: i32, what: SyncOp, value: u32) {
        self.at(pid, pid, SchedEvent::Sync(SyncCall { key: 99, other: 0, what, value }));
    }
}

/// What a task wakes others with at futexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parks {
    No,
    /// Nothing.
    Plain,
    /// A lock that it holds, and that who is woken wants then.
    Locked,
}

/// Tasks send and receive at random; who finds nothing sleeps until somebody sends. With `parks` each also waits at a
/// futex of its own until another has woken it there once, now or before.
fn recorded(seed: u64, parks: Parks, messages: Messages) -> Workload {
    let mut random = Random::new(seed);
    let mut below = move |n: u64| random.below(n);
    let nr_tasks = 2 + below(4) as i32;
    let options = DeriveOptions { messages: Some(messages), ..DeriveOptions::default() };
    let mut seen = Seen { deriver: Deriver::new(options, None), now_us: 0, nr_tasks };
    (1..=nr_tasks).for_each(|pid| seen.switch(pid, 0, TaskState::Running, pid));
    let nr_channels = 1 + below(3) as usize;
    let mut levels = vec![0; nr_channels];
    let mut lines: Vec<VecDeque<(i32, u64)>> = vec![VecDeque::new(); nr_channels];
    let mut running: Vec<i32> = (1..=nr_tasks).collect();
    // in some programs the last task polls
    let poller = if below(3) == 0 { nr_tasks } else { 0 };
    let (mut parked, mut permits) = (BTreeSet::new(), vec![0; nr_tasks as usize + 1]);
    for _ in 0..below(if parks == Parks::No { 80 } else { 600 }) {
        seen.now_us += below(20);
        let pid = running[below(running.len() as u64) as usize];
        if parks != Parks::No && below(4) > 0 {
            let other = 1 + below(nr_tasks as u64) as i32;
            if other != pid && parked.remove(&other) {
                match parks {
                    Parks::Locked if below(4) > 0 => seen.unpark_locked(pid, other),
                    _ => seen.unpark(pid, other, below(2) == 0),
                }
                running.push(other);
            } else if other != pid {
                permits[other as usize] = 1;
            } else if std::mem::take(&mut permits[pid as usize]) == 0 && running.len() > 1 {
                seen.switch(pid, pid, TaskState::Interruptible, 0);
                parked.insert(pid);
                running.retain(|other| *other != pid);
            }
            continue;
        }
        let (channel, amount) = (below(nr_channels as u64) as usize, 1 + below(4));
        if below(2) == 0 {
            levels[channel] += amount;
            let Some((reader, wanted)) = lines[channel].pop_front() else {
                seen.call(pid, channel, Direction::Send, amount);
                continue;
            };
            seen.waking(pid, reader);
            let is_late = below(2) == 0;
            if !is_late {
                seen.call(pid, channel, Direction::Send, amount);
            }
            seen.switch(reader, 0, TaskState::Running, reader);
            let taken = wanted.min(levels[channel]);
            levels[channel] -= taken;
            seen.call(reader, channel, Direction::Receive, taken);
            if is_late {
                seen.call(pid, channel, Direction::Send, amount);
            }
            running.push(reader);
        } else if levels[channel] > 0 {
            let taken = amount.min(levels[channel]);
            levels[channel] -= taken;
            if pid == poller {
                seen.at(pid, pid, SchedEvent::Polled);
            }
            seen.call(pid, channel, Direction::Receive, taken);
        } else if running.len() > 1 {
            seen.switch(pid, pid, TaskState::Interruptible, 0);
            lines[channel].push_back((pid, amount));
            running.retain(|other| *other != pid);
        }
    }
    running.into_iter().for_each(|pid| seen.switch(pid, pid, TaskState::Dead, 0));
    seen.deriver.finish(Some(seen.nr_tasks as u32), |_| "task").workload
}

fn run(sched: &str, nr_cpus: u32, workload: &Workload) -> Outcome {
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup { topology: Topology::flat(nr_cpus).unwrap(), duration: None, params: Vec::new() };
    let mut program = Program::new(workload).unwrap();
    program.restrict_to(nr_cpus);
    let policy = schedlab_policies::find(sched).unwrap().build(&[]).unwrap();
    Machine::new(Native::new(policy, &mut records), program, setup).run()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_recording_of_messages_replays_into_a_deadlock(seed in any::<u64>(), nr_cpus in 1..4u32) {
        let messages = if seed % 4 == 0 { Messages::Inferred } else { Messages::Recorded };
        let parks = match (seed % 2, seed % 3) {
            (0, _) => Parks::Plain,
            (_, 0) => Parks::Locked,
            _ => Parks::No,
        };
        let workload = recorded(seed, parks, messages);
        workload.check().unwrap();
        for sched in ["fifo", "rr", "eevdf"] {
            let outcome = run(sched, nr_cpus, &workload);
            prop_assert_eq!((outcome.end, outcome.waits_forced), (End::AllDone, 0), "{}", sched);
        }
    }
}

/// The programs above wait at channels indeed.
#[test]
fn most_of_them_wait_at_channels() {
    let waits = |seed: &u64| {
        let workload = recorded(*seed, Parks::No, Messages::Recorded);
        let events = workload.tasks.iter().flat_map(|task| &task.events);
        events.filter(|event| matches!(event.kind, EventKind::Object { .. })).count() > 4
    };
    assert!((0..100).filter(waits).count() > 50);
}

/// And those with futexes have messages that no recorder saw.
#[test]
fn some_of_them_have_inferred_messages_at_futexes() {
    let inferred = |seed: &u64| {
        recorded(*seed, Parks::Plain, Messages::Recorded).notes.contains_key("messages at futexes")
    };
    let nr = (0..100).filter(inferred).count();
    assert!(nr > 15, "{nr}");
}

/// And some have locks that are held by who wakes another.
#[test]
fn some_of_them_hold_a_lock_while_they_wake() {
    let held = |seed: &u64| {
        recorded(*seed, Parks::Locked, Messages::Recorded)
            .notes
            .get("locks")
            .is_some_and(|note| note.contains("held by who wakes another"))
    };
    let nr = (0..100).filter(held).count();
    assert!(nr > 15, "{nr}");
}

/// A queue behind a mutex and two conditions, as the C library's functions show it.
#[derive(Clone, Default)]
struct Queue {
    items: u64,
    holder: Option<i32>,
    /// Who waits for the mutex, and who for an item or for room.
    lock_waiters: VecDeque<i32>,
    waiters: [VecDeque<i32>; 2],
}

const ROOM: u64 = 3;

impl Seen {
    fn lock_call(&mut self, pid: i32, key: u64, other: u64, what: SyncOp, value: u32) {
        self.at(pid, pid, SchedEvent::Sync(SyncCall { key, other, what, value }));
    }

    /// A task wakes another one at a futex, which returns there.
    fn wake_at(&mut self, pid: i32, sleeper: i32, key: u64, expected: u32) {
        self.waking(pid, sleeper);
        self.lock_call(pid, key, 0, SyncOp::FutexWake, 1);
        self.switch(sleeper, 0, TaskState::Running, sleeper);
        self.lock_call(sleeper, key, 0, SyncOp::FutexWoken, expected);
    }

    /// Lets the mutex of a queue go; who waits for it has it then, and runs.
    fn let_go(&mut self, pid: i32, key: u64, queue: &mut Queue) -> Option<i32> {
        queue.holder = queue.lock_waiters.pop_front();
        let next = queue.holder?;
        self.wake_at(pid, next, key, 2);
        Some(next)
    }
}

/// Tasks put into and take out of queues of three, each with a mutex. With `roles` a task does one of both at each.
fn recorded_queues(seed: u64, roles: bool) -> Workload {
    let mut random = Random::new(seed);
    let mut below = move |n: u64| random.below(n);
    let nr_tasks = 2 + below(3) as i32;
    let options = DeriveOptions { messages: Some(Messages::Recorded), ..DeriveOptions::default() };
    let mut seen = Seen { deriver: Deriver::new(options, None), now_us: 0, nr_tasks };
    (1..=nr_tasks).for_each(|pid| seen.switch(pid, 0, TaskState::Running, pid));
    let mut queues = vec![Queue::default(); 1 + (below(4) / 3) as usize];
    let plain = SyncOp::MutexLock(MutexKind { is_recursive: false, inherits_priority: false });
    let key = |queue: usize, what: usize| 100 * (queue as u64 + 1) + what as u64;
    // the queue and direction (1: puts in) of each task that is at one, and whether it has done so
    let mut at: Vec<Option<(usize, usize, bool)>> = vec![None; nr_tasks as usize + 1];
    let mut running: Vec<i32> = (1..=nr_tasks).collect();
    for _ in 0..300 + below(4000) {
        let pid = running[below(running.len() as u64) as usize];
        let is_alone = running.len() == 1;
        let Some((number, puts, is_done)) = at[pid as usize] else {
            seen.now_us += below(20);
            let number = below(queues.len() as u64) as usize;
            let puts = if roles { (pid as usize + number) % 2 } else { below(2) as usize };
            let queue = &mut queues[number];
            if queue.holder.is_some() && is_alone {
                continue;
            }
            seen.lock_call(pid, key(number, 0), 0, plain, 0);
            at[pid as usize] = Some((number, puts, false));
            if queue.holder.is_some() {
                queue.lock_waiters.push_back(pid);
                seen.switch(pid, pid, TaskState::Interruptible, 0);
                running.retain(|other| *other != pid);
            } else {
                queue.holder = Some(pid);
            }
            continue;
        };
        let queue = &mut queues[number];
        let mutex = key(number, 0);
        if is_done {
            seen.lock_call(pid, mutex, 0, SyncOp::MutexUnlock, 0);
            running.extend(seen.let_go(pid, mutex, queue));
            at[pid as usize] = None;
            continue;
        }
        let must_wait = if puts == 1 { queue.items == ROOM } else { queue.items == 0 };
        if must_wait {
            if is_alone && queue.lock_waiters.is_empty() {
                break;
            }
            seen.lock_call(pid, key(number, 1 + puts), mutex, SyncOp::ConditionWait, 0);
            running.extend(seen.let_go(pid, mutex, queue));
            queue.waiters[puts].push_back(pid);
            seen.switch(pid, pid, TaskState::Interruptible, 0);
            running.retain(|other| *other != pid);
            continue;
        }
        queue.items = if puts == 1 { queue.items + 1 } else { queue.items - 1 };
        at[pid as usize] = Some((number, puts, true));
        let other = 1 - puts;
        seen.lock_call(pid, key(number, 1 + other), 0, SyncOp::ConditionSignal, 0);
        if let Some(woken) = queue.waiters[other].pop_front() {
            // it wants the mutex again, which its waker has
            seen.wake_at(pid, woken, key(number, 11 + other), 0);
            queue.lock_waiters.push_back(woken);
            seen.switch(woken, woken, TaskState::Interruptible, 0);
        }
    }
    running.into_iter().for_each(|pid| seen.switch(pid, pid, TaskState::Dead, 0));
    seen.deriver.finish(Some(seen.nr_tasks as u32), |_| "task").workload
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_recording_of_queues_with_conditions_replays_into_a_deadlock(seed in any::<u64>(), nr_cpus in 1..4u32) {
        let workload = recorded_queues(seed, seed % 4 != 0);
        workload.check().unwrap();
        for sched in ["fifo", "rr", "eevdf"] {
            let outcome = run(sched, nr_cpus, &workload);
            prop_assert_eq!(outcome.end, End::AllDone, "{}", sched);
        }
    }
}

/// The queues above have conditions that count, and what is waited for there is waited for in replays.
#[test]
fn the_conditions_of_queues_count_items_and_room() {
    let counts = |seed: &u64| recorded_queues(*seed, true).notes["locks"].contains("count something");
    let nr = (0..100).filter(counts).count();
    assert!(nr > 30, "{nr}");
}
