//! Random workloads that keep the model's rules.
#![allow(dead_code)] // each test binary uses its part

use proptest::prelude::*;
use schedlab_stdx::Random;
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::{
    ALL, Birth, Cgroup, CgroupId, CpuMax, Event, EventId, EventKind, ExternalSource, Handover, InitState,
    Late, Object, ObjectId, ObjectKind, ObjectOp, ParamChange, Recorded, Task, WaitCosts, Wakes, Wakeup,
    Workload,
};

/// The workload is drawn from one seed, so that a failure is one number.
pub struct Draw(Random);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(Random::new(seed))
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn some<T>(&mut self, n: u64, value: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        if self.one_in(n) { Some(value(self)) } else { None }
    }
    fn span(&mut self) -> Span {
        let unit = [1, 1_000, 1_000_000, 1_000_000_000][self.below(4) as usize];
        Span::from_ns(self.below(1000) * unit)
    }
    fn nice(&mut self) -> Nice {
        Nice::new(self.below(40) as i32 - 20).unwrap()
    }
    fn cpus(&mut self) -> CpuSet {
        (0..=self.below(4)).map(|_| CpuId(self.below(70) as u32)).collect()
    }
    fn text(&mut self) -> String {
        const ODD: [char; 16] =
            ['a', 'Z', '0', ' ', '"', '\\', '#', '\n', '\t', '\r', '\0', '\u{1b}', 'é', '\u{202e}', '{', '='];
        (0..self.below(8)).map(|_| ODD[self.below(16) as usize]).collect()
    }
    fn params(&mut self) -> SchedParams {
        let policy = SchedPolicy::from_number([0, 0, 1, 2, 3, 5, 6, 7][self.below(8) as usize]).unwrap();
        let real_time = matches!(policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin);
        let rt_priority = if real_time { 1 + self.below(99) as u8 } else { 0 };
        let deadline = (policy == SchedPolicy::Deadline).then(|| {
            let runtime = Span::from_ns(1024 + self.below(1 << 30));
            let deadline = runtime + self.span();
            DeadlineParams { runtime, deadline, period: deadline + self.span() }
        });
        SchedParams { policy, nice: self.nice(), rt_priority, deadline }
    }
}

/// A workload of up to `size` tasks with up to `size` events each, drawn from `seed`.
pub fn workload(seed: u64, size: u64) -> Workload {
    let mut draw = Draw::new(seed);
    let mut workload = Workload::default();
    for i in 0..draw.below(4) {
        let path = match i {
            0 => "/a b".to_string(),
            i => format!("{}/g{i}", workload.cgroups[draw.below(i) as usize].path),
        };
        let max = draw.some(3, |d| CpuMax {
            quota: Span::from_ms(1) + d.span(),
            period: Span::from_ms(1 + d.below(1000)),
        });
        let weight = draw.some(2, |d| 1 + d.below(10_000) as u32);
        workload.cgroups.push(Cgroup { path, weight, max, cpuset: draw.some(3, Draw::cpus) });
    }
    for _ in 0..draw.below(4) {
        workload.notes.insert(draw.text(), draw.text());
        workload.dropped.insert(draw.text(), draw.0.next_u64() >> draw.below(64));
    }
    let nr = draw.below(size + 1) as u32;
    let scatter = draw.one_in(3);
    for row in 0..nr {
        let pid = if scatter { row * 1_000_003 % 4_000_037 + 1 } else { row + 1 };
        let cgroup = match workload.cgroups.len() as u64 {
            0 => None,
            nr => draw.some(2, |d| CgroupId(d.below(nr) as u32)),
        };
        let birth = if row > 0 && draw.one_in(3) {
            Birth::Fork { parent: TaskId(draw.below(u64::from(row)) as u32) }
        } else {
            let state = if draw.one_in(3) { InitState::Blocked } else { InitState::Runnable };
            let parent =
                draw.some(2, |d| TaskId(d.below(u64::from(nr)) as u32)).filter(|parent| parent.0 != row);
            Birth::Init { eid: EventId(0), parent, state }
        };
        workload.tasks.push(Task {
            pid,
            name: draw.text(),
            birth,
            params: draw.some(2, Draw::params),
            affinity: draw.some(4, Draw::cpus),
            cgroup,
            kernel_thread: draw.one_in(8),
            events: Vec::new(),
        });
    }
    objects(&mut draw, &mut workload);
    for row in 0..nr {
        let events = life(&mut draw, &workload, row, size);
        workload.tasks[row as usize].events = events;
    }
    renumber(&mut draw, &mut workload);
    depend(&mut draw, &mut workload);
    workload
}

fn life(draw: &mut Draw, workload: &Workload, row: u32, size: u64) -> Vec<Event> {
    let mut children: Vec<TaskId> = workload
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| task.birth == Birth::Fork { parent: TaskId(row) })
        .map(|(row, _)| TaskId(row as u32))
        .collect();
    if draw.one_in(2) {
        children.reverse();
    }
    let blocked = matches!(workload.tasks[row as usize].birth, Birth::Init { state: InitState::Blocked, .. });
    let mut kinds = Vec::new();
    let external = |draw: &mut Draw| {
        let source = ExternalSource::NAMES[draw.below(ExternalSource::NAMES.len() as u64) as usize].0;
        EventKind::Wakeup(Wakeup::External { after: draw.span(), source })
    };
    if blocked && children.is_empty() && draw.one_in(3) {
        return Vec::new();
    }
    if blocked {
        kinds.push(external(draw));
    }
    let mut length = Span::ZERO;
    for _ in 0..draw.below(size + 1) {
        length += draw.span();
        match draw.below(10) {
            0 => {
                let nr = u64::from(workload.tasks.len() as u32);
                let change = ParamChange {
                    target: draw.some(3, |d| TaskId(d.below(nr) as u32)),
                    params: draw.some(2, Draw::params),
                    nice: Some(draw.nice()),
                    affinity: draw.some(2, Draw::cpus),
                    cgroup: workload.tasks[row as usize].cgroup,
                };
                kinds.push(EventKind::Prio { length, change: Box::new(change) });
            }
            1 => kinds.push(EventKind::Yield { length }),
            7 => kinds.push(EventKind::Exec { length }),
            8 => kinds.push(EventKind::Call { length }),
            6 => at_objects(draw, workload, length, &mut kinds),
            2 => kinds.extend(children.pop().map(|child| EventKind::Fork { length, child })),
            _ => {
                kinds.push(EventKind::Block { length });
                kinds.push(external(draw));
                length = Span::ZERO;
            }
        }
    }
    kinds.extend(children.into_iter().map(|child| EventKind::Fork { length, child }));
    match draw.below(3) {
        0 => kinds.push(EventKind::Block { length }),
        1 => kinds.push(EventKind::Exit { length }),
        _ => {}
    }
    kinds.into_iter().map(|kind| Event { eid: EventId(0), kind }).collect()
}

/// One object of each kind, or none.
fn objects(draw: &mut Draw, workload: &mut Workload) {
    if draw.one_in(2) {
        return;
    }
    let some = |draw: &mut Draw| draw.some(2, |d| 5 + d.below(1 << 20) as u32);
    let (capacity, low) = (some(draw), draw.some(2, |d| d.below(5) as u32));
    let channel = match draw.one_in(2) {
        true => ObjectKind::Stream { capacity, start: 3, low },
        false => ObjectKind::Channel { capacity, start: 3, low },
    };
    let fifo = if draw.one_in(2) { Handover::Fifo } else { Handover::Competing };
    let late = if draw.one_in(2) { Late::Restart } else { Late::Grid };
    for (i, kind) in [
        channel,
        ObjectKind::Mutex(fifo),
        ObjectKind::Condition,
        ObjectKind::Barrier { parties: 1 },
        ObjectKind::Timer(late),
        ObjectKind::Semaphore { start: 1 },
    ]
    .into_iter()
    .enumerate()
    {
        let timer = matches!(kind, ObjectKind::Timer(_));
        let wakes = if draw.one_in(2) && !timer { Wakes::Sync } else { Wakes::Plain };
        let name = format!("{}{i}", draw.text());
        let costs = match draw.one_in(2) && !timer {
            true => {
                WaitCosts { sleep: Span::from_ns(2997), wake: Span::from_us(4), tail: Span::from_ns(800) }
            }
            false => WaitCosts::default(),
        };
        let can_be = matches!(kind, ObjectKind::Channel { .. } | ObjectKind::Stream { .. });
        let (is_closed, is_polled) = (draw.one_in(4), can_be && draw.one_in(3));
        workload.add_object(Object { name, kind, wakes, costs, is_closed, is_polled });
    }
}

/// What a task may do at them without harm to the rules.
fn at_objects(draw: &mut Draw, workload: &Workload, length: Span, kinds: &mut Vec<EventKind>) {
    if workload.objects.is_empty() {
        return;
    }
    let [channel, lock, condition, barrier, timer, semaphore] = [0, 1, 2, 3, 4, 5].map(ObjectId);
    let bits = draw.below(32);
    let (mutex, amount) = (lock, 1 + draw.below(1 << bits) as u32);
    let ops = match draw.below(7) {
        0 => vec![ObjectOp::Send { object: channel, amount }],
        1 => vec![ObjectOp::Receive { object: channel, amount }],
        2 => vec![
            ObjectOp::Receive { object: semaphore, amount: ALL },
            ObjectOp::Send { object: semaphore, amount },
        ],
        3 => vec![
            ObjectOp::Lock { object: lock },
            ObjectOp::Signal { object: condition },
            ObjectOp::Wait { object: condition, mutex },
            ObjectOp::Broadcast { object: condition },
            ObjectOp::Unlock { object: lock },
        ],
        4 => vec![ObjectOp::Arrive { object: barrier }],
        5 => vec![ObjectOp::Tick { object: timer, period: draw.span() }],
        _ => vec![ObjectOp::Lock { object: lock }, ObjectOp::Unlock { object: lock }],
    };
    for op in ops {
        let recorded = [Recorded::Nothing, Recorded::Slept, Recorded::Awake][draw.below(3) as usize];
        kinds.push(EventKind::Object { length, op, recorded });
    }
}

/// Either dense identifiers or scattered ones.
fn renumber(draw: &mut Draw, workload: &mut Workload) {
    workload.number_events();
    if draw.one_in(2) {
        return;
    }
    let key = draw.0.next_u64() | 1;
    let scatter = |eid: &mut EventId| eid.0 = eid.0.wrapping_mul(key); // odd: one to one, and 0 only for 0
    for task in &mut workload.tasks {
        if let Birth::Init { eid, .. } = &mut task.birth {
            scatter(eid);
        }
        task.events.iter_mut().for_each(|event| scatter(&mut event.eid));
    }
}

/// Makes some wakeups depend on running events of other tasks.
fn depend(draw: &mut Draw, workload: &mut Workload) {
    let mut running: Vec<(TaskId, EventId, Span)> = Vec::new();
    for (row, task) in workload.tasks.iter().enumerate() {
        let mut previous = Span::ZERO;
        for event in &task.events {
            let length = event.kind.length();
            if let Some(length) = length {
                running.push((TaskId(row as u32), event.eid, length - previous));
            }
            previous = length.unwrap_or_default();
        }
    }
    for (row, task) in workload.tasks.iter_mut().enumerate() {
        for event in &mut task.events {
            if let EventKind::Wakeup(Wakeup::External { after, .. }) = event.kind
                && draw.one_in(2)
                && !running.is_empty()
            {
                let (waker, eid, stretch) = running[draw.below(running.len() as u64) as usize];
                if waker.0 as usize != row {
                    let distance = Span::from_ns(draw.below(stretch.as_ns() + 1));
                    let wakeup =
                        Wakeup::Dependent { recorded_after: after, event: eid, task: waker, distance };
                    event.kind = EventKind::Wakeup(wakeup);
                }
            }
        }
    }
}

/// Random workloads for proptest.
pub fn workloads() -> impl Strategy<Value = Workload> {
    (any::<u64>(), 0..12u64).prop_map(|(seed, size)| workload(seed, size))
}
