//! Random workloads in which everything happens that a task can do, and which always end.

use schedlab_stdx::Random;
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::{
    Birth, Event, EventId, EventKind, ExternalSource, InitState, ParamChange, Task, Wakeup, Workload,
};

/// Longest run before an event.
const RUN_NS_MAX: u64 = 8_000_000;
/// Longest sleep.
const SLEEP_NS_MAX: u64 = 20_000_000;

/// The workload of this seed for this many CPUs: 1 to 14 tasks, each of which exits. A task waits only for
/// tasks with lower numbers, so none waits for ever.
pub fn random_workload(seed: u64, nr_cpus: u32) -> Workload {
    let mut random = Random::for_part(seed, u64::from(nr_cpus));
    let nr_tasks = 1 + random.below(14) as u32;
    // who is forked, and by whom
    let parents: Vec<Option<u32>> = (0..nr_tasks)
        .map(|id| (id > 0 && random.below(3) == 0).then(|| random.below(u64::from(id)) as u32))
        .collect();
    let mut tasks: Vec<Task> = Vec::new();
    let mut next_eid = 1;
    for id in 0..nr_tasks {
        let mut eid = || {
            next_eid += 1;
            EventId(next_eid - 1)
        };
        let init = EventId(eid().0);
        let children = (id + 1..nr_tasks).filter(|&child| parents[child as usize] == Some(id)).collect();
        let blocked = random.below(4) == 0;
        let birth = match parents[id as usize] {
            Some(parent) => Birth::Fork { parent: TaskId(parent) },
            None if blocked => Birth::Init { eid: init, parent: None, state: InitState::Blocked },
            None => Birth::Init { eid: init, parent: None, state: InitState::Runnable },
        };
        let mut life =
            Life { random: &mut random, nr_cpus, nr_tasks, earlier: &tasks, children, events: Vec::new() };
        life.live(matches!(birth, Birth::Init { state: InitState::Blocked, .. }));
        let events = life.events.into_iter().map(|kind| Event { eid: eid(), kind }).collect();
        let own = random.below(2) == 0;
        let affinity = (own && random.below(3) == 0).then(|| random_affinity(&mut random, nr_cpus));
        tasks.push(Task {
            pid: id + 1,
            name: format!("r{id}"),
            birth,
            params: own.then(|| random_params(&mut random)),
            affinity,
            cgroup: None,
            kernel_thread: false,
            events,
        });
    }
    Workload { tasks, ..Workload::default() }
}

fn random_params(random: &mut Random) -> SchedParams {
    let nice = Nice::new(random.below(40) as i32 - 20).expect("-20 to 19");
    let policy = *random.pick(&[
        SchedPolicy::Normal,
        SchedPolicy::Normal,
        SchedPolicy::Normal,
        SchedPolicy::Batch,
        SchedPolicy::Idle,
        SchedPolicy::Fifo,
        SchedPolicy::RoundRobin,
    ]);
    let rt_priority = if matches!(policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin) {
        1 + random.below(99) as u8
    } else {
        0
    };
    SchedParams { policy, nice, rt_priority, deadline: None }
}

/// Not empty.
fn random_affinity(random: &mut Random, nr_cpus: u32) -> CpuSet {
    let mut set = CpuSet::single(CpuId(random.below(u64::from(nr_cpus)) as u32));
    (0..nr_cpus).filter(|_| random.below(2) == 0).for_each(|cpu| set.insert(CpuId(cpu)));
    set
}

/// A task's events as they are drawn.
struct Life<'a> {
    random: &'a mut Random,
    nr_cpus: u32,
    nr_tasks: u32,
    earlier: &'a [Task],
    /// Still to be forked.
    children: Vec<u32>,
    events: Vec<EventKind>,
}

impl Life<'_> {
    fn live(&mut self, blocked_first: bool) {
        if blocked_first {
            let wakeup = self.wakeup();
            self.events.push(wakeup);
        }
        let mut length = Span::ZERO; // since the last wakeup
        for _ in 0..self.random.below(12) {
            length += self.run();
            match self.random.below(8) {
                0 if length.as_ns().is_multiple_of(2) => self.events.push(EventKind::Exec { length }),
                0 if length.as_ns().is_multiple_of(3) => self.events.push(EventKind::Call { length }),
                0 => self.events.push(EventKind::Yield { length }),
                1 | 2 => {
                    let change = Box::new(self.change());
                    self.events.push(EventKind::Prio { length, change });
                }
                3 if !self.children.is_empty() => {
                    let child = TaskId(self.children.remove(0));
                    self.events.push(EventKind::Fork { length, child });
                }
                _ => {
                    self.events.push(EventKind::Block { length });
                    let wakeup = self.wakeup();
                    self.events.push(wakeup);
                    length = Span::ZERO;
                }
            }
        }
        for child in std::mem::take(&mut self.children) {
            length += self.run();
            self.events.push(EventKind::Fork { length, child: TaskId(child) });
        }
        length += self.run();
        self.events.push(EventKind::Exit { length });
    }

    /// Often whole milliseconds, so that things happen at the same instant; sometimes nothing at all.
    fn run(&mut self) -> Span {
        match self.random.below(4) {
            0 => Span::from_ms(self.random.below(RUN_NS_MAX / 1_000_000)),
            1 if self.random.below(4) == 0 => Span::ZERO,
            _ => Span::from_ns(1 + self.random.below(RUN_NS_MAX)),
        }
    }

    fn wakeup(&mut self) -> EventKind {
        if !self.earlier.is_empty() && self.random.below(3) == 0 {
            let waker = self.random.below(self.earlier.len() as u64) as usize;
            let events = self.earlier[waker].events.iter();
            let running: Vec<_> = events.filter_map(|e| Some((e.eid, e.kind.length()?))).collect();
            let &(event, length) = self.random.pick(&running);
            let distance = Span::from_ns(self.random.below(length.as_ns() + 1));
            let task = TaskId(waker as u32);
            return EventKind::Wakeup(Wakeup::Dependent {
                recorded_after: Span::ZERO,
                event,
                task,
                distance,
            });
        }
        let after = Span::from_ns(self.random.below(SLEEP_NS_MAX));
        use ExternalSource::{Device, Grid, GridRestart, GridSkip, Timer};
        let source = *self.random.pick(&[Timer, Device, Grid, GridRestart, GridSkip]);
        EventKind::Wakeup(Wakeup::External { after, source })
    }

    fn change(&mut self) -> ParamChange {
        let other = TaskId(self.random.below(u64::from(self.nr_tasks)) as u32);
        let target = (self.random.below(2) == 0).then_some(other);
        let params = (self.random.below(2) == 0).then(|| random_params(self.random));
        let affinity = (params.is_none()).then(|| random_affinity(self.random, self.nr_cpus));
        ParamChange { target, params, affinity, ..ParamChange::default() }
    }
}
