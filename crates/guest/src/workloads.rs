//! Which workloads is truth measured with? Small ones whose right outcome is known or published, each in the workload model, so
//! that guest and simulation run the same.

use crate::GuestError;
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, Policy, SchedParams, Span};
use schedlab_workload::generate::{self, Spec};
use schedlab_workload::{
    Birth, Cgroup, CgroupId, CpuMax, Event, EventId, EventKind, ExternalSource, InitState, ParamChange, Task,
    Wakeup, Workload,
};

/// More CPU time than any run gives: a task that never ends.
pub const ENDLESS: Span = Span::from_s(100_000);

/// Collects tasks; gives events their identifiers.
#[derive(Default)]
struct Builder {
    workload: Workload,
    eid: u64,
}

impl Builder {
    fn task(
        &mut self,
        name: String,
        params: SchedParams,
        kinds: impl IntoIterator<Item = EventKind>,
    ) -> &mut Task {
        let mut next = || {
            self.eid += 1;
            EventId(self.eid)
        };
        let birth = Birth::Init { eid: next(), parent: None, state: InitState::Runnable };
        let events = kinds.into_iter().map(|kind| Event { eid: next(), kind }).collect();
        self.workload.tasks.push(Task {
            pid: 100 + self.workload.tasks.len() as u32,
            name,
            birth,
            params: Some(params),
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events,
        });
        self.workload.tasks.last_mut().expect("just pushed")
    }
}

fn nice(value: i32) -> SchedParams {
    SchedParams::normal(Nice::new(value).expect("a constant in -20..=19"))
}

fn sleep(after: Span) -> EventKind {
    EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Timer })
}

fn endless() -> [EventKind; 1] {
    [EventKind::Exit { length: ENDLESS }]
}

/// `run` of CPU time and `pause` of sleep, as often as `horizon` of elapsed time can hold at most.
fn periodic(run: Span, pause: Span, horizon: Span) -> Vec<EventKind> {
    let rounds = horizon.as_ns() / (run.as_ns() + pause.as_ns()) + 1;
    (0..rounds).flat_map(|_| [EventKind::Block { length: run }, sleep(pause)]).chain(endless()).collect()
}

/// Harmony's start states: `counts[c]` tasks that only compute are bound to CPU c from the start; after `release` of elapsed
/// time a controller (FIFO, on the last CPU) allows them every CPU, and sleeps.
pub fn start_state(counts: &[u32], release: Span) -> Workload {
    let nr_cpus = counts.len() as u32;
    let mut builder = Builder::default();
    let tasks: u32 = counts.iter().sum();
    for (cpu, count) in counts.iter().enumerate() {
        for _ in 0..*count {
            builder.task("hog".to_string(), nice(0), endless()).affinity =
                Some(CpuSet::single(CpuId(cpu as u32)));
        }
    }
    let everywhere = CpuSet::first(nr_cpus);
    let set = (0..tasks).map(|task| EventKind::Prio {
        length: Span::ZERO,
        change: Box::new(ParamChange {
            target: Some(schedlab_units::TaskId(task)),
            affinity: Some(everywhere.clone()),
            ..ParamChange::default()
        }),
    });
    // it does not end: whether and when a dead task is reaped differs between worlds, the grace period after that wakes a kernel
    // thread on some idle CPU, and a CPU that falls idle again pulls a task
    let stay =
        [EventKind::Block { length: Span::ZERO }, sleep(ENDLESS), EventKind::Exit { length: Span::ZERO }];
    let kinds: Vec<EventKind> = [sleep(release)].into_iter().chain(set).chain(stay).collect();
    let fifo = SchedParams { policy: Policy::Fifo, rt_priority: 50, ..SchedParams::default() };
    let controller = builder.task("release".to_string(), fifo, kinds);
    controller.affinity = Some(CpuSet::single(CpuId(nr_cpus - 1)));
    if let Birth::Init { state, .. } = &mut controller.birth {
        *state = InitState::Blocked;
    }
    builder.workload
}

/// Three periodic FIFO tasks (rate-monotonic: 2 of 10, 5 of 25, 10 of 60 ms, 57 % together) over a nice-0 hog.
pub fn periodic_rt(horizon: Span) -> Workload {
    let mut builder = Builder::default();
    for (priority, run_ms, pause_ms) in [(30, 2, 8), (20, 5, 20), (10, 10, 50)] {
        let params = SchedParams { policy: Policy::Fifo, rt_priority: priority, ..SchedParams::default() };
        let kinds = periodic(Span::from_ms(run_ms), Span::from_ms(pause_ms), horizon);
        builder.task(format!("rt{priority}"), params, kinds);
    }
    builder.task("hog".to_string(), nice(0), endless());
    builder.workload
}

/// Two DEADLINE tasks (30 of 100 ms, 10 of 50 ms) that want more than their runtime, over two nice-0 hogs. The second comes 5 ms
/// after the first: were both periods to begin at one instant, microseconds of kernel code would decide whose timer is first.
pub fn deadline_set() -> Workload {
    let mut builder = Builder::default();
    for (runtime_ms, period_ms, start) in [(30, 100, Span::ZERO), (10, 50, Span::from_ms(5))] {
        let period = Span::from_ms(period_ms);
        let deadline = DeadlineParams { runtime: Span::from_ms(runtime_ms), deadline: period, period };
        let params =
            SchedParams { policy: Policy::Deadline, deadline: Some(deadline), ..SchedParams::default() };
        let waits = (start > Span::ZERO).then(|| sleep(start));
        let task =
            builder.task(format!("dl{runtime_ms}.{period_ms}"), params, waits.into_iter().chain(endless()));
        if let (true, Birth::Init { state, .. }) = (start > Span::ZERO, &mut task.birth) {
            *state = InitState::Blocked;
        }
    }
    for _ in 0..2 {
        builder.task("hog".to_string(), nice(0), endless());
    }
    builder.workload
}

/// A tree of groups: /a (weight 200) with /a/x (100) and /a/y (300), /b (weight 100, at most 20 ms in 100); two hogs in each
/// leaf. On one CPU /b is capped at 20 %, /a gets 80 %: x 20 %, y 60 %.
pub fn cgroup_tree() -> Workload {
    let mut builder = Builder::default();
    let group = |path: &str, weight: u32| Cgroup {
        path: path.to_string(),
        weight: Some(weight),
        ..Cgroup::default()
    };
    builder.workload.cgroups =
        vec![group("/a", 200), group("/a/x", 100), group("/a/y", 300), group("/b", 100)];
    builder.workload.cgroups[3].max = Some(CpuMax { quota: Span::from_ms(20), period: Span::from_ms(100) });
    for (index, name) in [(1, "x"), (2, "y"), (3, "b")] {
        for _ in 0..2 {
            builder.task(name.to_string(), nice(0), endless()).cgroup = Some(CgroupId(index));
        }
    }
    builder.workload
}

/// Tasks that yield after each 1.3 ms of work, `rounds` times, beside one nice-0 hog.
pub fn yielders(tasks: u32, rounds: u32) -> Workload {
    let mut builder = Builder::default();
    for _ in 0..tasks {
        // lengths count from the last wakeup, and there is none
        let kinds = (1..=u64::from(rounds))
            .map(|round| EventKind::Yield { length: Span::from_ns(round * TURN.as_ns()) });
        builder.task("yielder".to_string(), nice(0), kinds.chain(endless()));
    }
    builder.task("hog".to_string(), nice(0), endless());
    builder.workload
}

/// Work of a turn where the length does not matter: no part or multiple of a tick, so that turns do not fall into step with ticks.
const TURN: Span = Span::from_us(1_300);

/// `pairs` of tasks that wake each other in turn through a futex, 1.3 ms of work a turn, beside one nice-0 hog.
pub fn ping_pong(pairs: u32, rounds: u32) -> Workload {
    let mut builder = Builder::default();
    for _ in 0..pairs {
        // Both have events BLOCK, WAKEUP, ... and a last EXIT; a wakes b at the end of its work and the other way round.
        let first = builder.workload.tasks.len() as u32;
        for side in 0..2 {
            let kinds = (0..rounds).flat_map(|_| [EventKind::Block { length: TURN }, sleep(Span::ZERO)]);
            let kinds: Vec<_> = kinds.chain([EventKind::Exit { length: TURN }]).collect();
            let task = builder.task("pair".to_string(), nice(0), kinds);
            if side == 1
                && let Birth::Init { state, .. } = &mut task.birth
            {
                *state = InitState::Blocked;
                task.events.remove(0); // blocked at once, so its first event is a WAKEUP
            }
        }
        let [a, b] = [first, first + 1].map(|index| builder.workload.tasks[index as usize].events.clone());
        let running = |events: &[Event]| -> Vec<EventId> {
            events.iter().filter(|e| e.kind.length().is_some()).map(|e| e.eid).collect()
        };
        // b's wakeup i comes from a's work i; a's wakeup i from b's work i
        for (sleeper, waker, wakers) in [(first + 1, first, running(&a)), (first, first + 1, running(&b))] {
            let events = &mut builder.workload.tasks[sleeper as usize].events;
            let wakeups = events.iter_mut().filter(|event| event.kind.length().is_none());
            for (wakeup, waker_event) in wakeups.zip(wakers) {
                wakeup.kind = EventKind::Wakeup(Wakeup::Dependent {
                    recorded_after: Span::ZERO,
                    event: waker_event,
                    task: schedlab_units::TaskId(waker),
                    distance: Span::ZERO,
                });
            }
        }
    }
    builder.task("hog".to_string(), nice(0), endless());
    builder.workload
}

/// Names that [`named`] knows, with what each is.
pub const NAMES: [(&str, &str); 11] = [
    ("fairbench", "25 hogs, five each at nice -20, -10, 0, 10, 19 (WARP)"),
    ("responsebench", "25 tasks that run 5 ms and sleep 5, 10, 20, 50 or 100 ms (WARP)"),
    ("hogs:NICE,...", "tasks that only compute, with these nice values"),
    ("sleepers", "8 tasks that run 4 ms and sleep 6 ms; sleepers:TASKS,RUN,SLEEP for others"),
    ("hackbench", "one group of 4 senders and 4 receivers, 200 us and 100 us a message"),
    ("start:N,N,...", "so many hogs bound to each CPU, allowed everywhere after 1 s (Harmony)"),
    ("periodic-rt", "three FIFO tasks, 57 % together, over a hog"),
    ("deadline", "DEADLINE tasks of 30/100 and 10/50 ms over two hogs"),
    ("cgroup", "a tree of groups with weights and a quota, six hogs"),
    ("ping-pong", "two pairs that wake each other after 1.3 ms of work, and a hog"),
    ("yielders", "three tasks that yield after each 1.3 ms of work, and a hog"),
];

/// A workload by name, for runs of this length.
///
/// # Errors
/// Says which names there are, or what is wrong with the numbers.
pub fn named(name: &str, duration: Span) -> Result<Workload, GuestError> {
    let (kind, list) = name.split_once(':').unwrap_or((name, ""));
    let generated = match (kind, list) {
        ("fairbench", "") => Spec::Fairbench(generate::Fairbench::default()),
        ("responsebench", "") => {
            Spec::Responsebench(generate::Responsebench { duration, ..Default::default() })
        }
        ("hogs", list) => Spec::Hogs(generate::Hogs { nices: numbers(name, list)?, ..Default::default() }),
        ("sleepers", list) => Spec::Sleepers(sleepers(name, list, duration)?),
        ("hackbench", "") => Spec::Hackbench(generate::Hackbench {
            groups: 1,
            senders: 4,
            receivers: 4,
            // a message is large next to what the guest can measure; 16 of them a turn, for the whole run on one CPU
            send: Span::from_us(200),
            receive: Span::from_us(100),
            turns: (duration.as_ns() / 4_800_000) as u32 + 1,
            ..Default::default()
        }),
        ("start", list) => return Ok(start_state(&numbers(name, list)?, Span::from_s(1))),
        ("periodic-rt", "") => return Ok(periodic_rt(duration)),
        ("deadline", "") => return Ok(deadline_set()),
        ("cgroup", "") => return Ok(cgroup_tree()),
        ("ping-pong", "") => return Ok(ping_pong(2, (duration.as_ns() / (2 * TURN.as_ns())) as u32)),
        ("yielders", "") => return Ok(yielders(3, (duration.as_ns() / TURN.as_ns()) as u32)),
        _ => {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(unsupported(name, format!("a workload file or one of {}", names.join(", "))));
        }
    };
    generated.build().map_err(|error| unsupported(name, error.to_string()))
}

fn unsupported(name: &str, expected: String) -> GuestError {
    GuestError::Unsupported { what: "the workload".to_string(), value: format!("'{name}'"), expected }
}

/// `0,0,5,-5`
fn numbers<T: std::str::FromStr>(name: &str, list: &str) -> Result<Vec<T>, GuestError> {
    let numbers: Result<Vec<T>, _> = list.split(',').map(|number| number.trim().parse()).collect();
    numbers.map_err(|_| unsupported(name, "a list of numbers after the colon, such as start:8,0,0,0".into()))
}

/// `8,4ms,6ms`
fn sleepers(name: &str, list: &str, duration: Span) -> Result<generate::Sleepers, GuestError> {
    let default = generate::Sleepers { duration, ..Default::default() };
    if list.is_empty() {
        return Ok(default);
    }
    let parsed = || {
        let mut parts = list.split(',');
        let tasks = parts.next()?.parse().ok()?;
        let [run, sleep] = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
        parts.next().is_none().then_some(generate::Sleepers { tasks, run, sleep, ..default.clone() })
    };
    parsed().ok_or_else(|| unsupported(name, "sleepers:TASKS,RUN,SLEEP, such as sleepers:8,4ms,6ms".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_workloads_or_say_what_they_want() {
        let second = Span::from_s(1);
        let tasks = |name: &str| named(name, second).map(|workload| workload.tasks.len());
        assert_eq!(tasks("fairbench").unwrap(), 25);
        assert_eq!(tasks("responsebench").unwrap(), 25);
        assert_eq!(tasks("hogs:0,0,-5").unwrap(), 3);
        assert_eq!(tasks("start:5,0,0,0").unwrap(), 6); // five hogs, and who releases them
        assert_eq!(tasks("sleepers:3,1ms,2ms").unwrap(), 3);
        for (name, wants) in
            [("fare", "fairbench"), ("hogs:x", "list of numbers"), ("sleepers:1", "RUN"), ("hogs:-21", "-20")]
        {
            let error = named(name, second).unwrap_err().to_string();
            assert!(error.contains(wants), "{error}");
        }
    }
}
