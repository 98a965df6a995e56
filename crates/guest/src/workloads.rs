//! Which workloads is truth measured with? Small ones whose right outcome is known or published, each in the workload model, so
//! that guest and simulation run the same.

use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, Policy, SchedParams, Span};
use schedlab_workload::{
    Birth, Cgroup, CgroupId, CpuMax, Event, EventId, EventKind, ExternalSource, InitState, ParamChange, Task,
    Wakeup, Workload,
};

/// More CPU time than any run gives: a task that never ends.
pub const ENDLESS: Span = Span::from_s(100_000);

/// WARP's nice levels.
pub const NICE_LEVELS: [i32; 5] = [-20, -10, 0, 10, 19];
/// WARP's sleeps of responsebench in ms.
pub const SLEEPS_MS: [u64; 5] = [5, 10, 20, 50, 100];

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

/// WARP's fairbench: 25 tasks that only compute, five each at nice -20, -10, 0, 10, 19.
pub fn fairbench() -> Workload {
    let mut builder = Builder::default();
    for level in NICE_LEVELS {
        for copy in 0..5 {
            builder.task(format!("fair{level}.{copy}"), nice(level), endless());
        }
    }
    builder.workload
}

/// WARP's responsebench: 25 tasks that run 5 ms and sleep 5, 10, 20, 50 or 100 ms, five each, for `horizon`.
pub fn responsebench(horizon: Span) -> Workload {
    let mut builder = Builder::default();
    for sleep_ms in SLEEPS_MS {
        for copy in 0..5 {
            let kinds = periodic(Span::from_ms(5), Span::from_ms(sleep_ms), horizon);
            builder.task(format!("resp{sleep_ms}.{copy}"), nice(0), kinds);
        }
    }
    builder.workload
}

/// Tasks that only compute, with these nice values.
pub fn hogs(nices: &[i32]) -> Workload {
    let mut builder = Builder::default();
    for (index, value) in nices.iter().enumerate() {
        builder.task(format!("hog{index}"), nice(*value), endless());
    }
    builder.workload
}

/// Harmony's start states: `counts[c]` tasks that only compute are bound to CPU c from the start; after `release` of elapsed
/// time a controller (FIFO, on the last CPU) allows them every CPU.
pub fn start_state(counts: &[u32], release: Span) -> Workload {
    let nr_cpus = counts.len() as u32;
    let mut builder = Builder::default();
    let tasks: u32 = counts.iter().sum();
    for (cpu, count) in counts.iter().enumerate() {
        for _ in 0..*count {
            let index = builder.workload.tasks.len();
            builder.task(format!("hog{index}"), nice(0), endless()).affinity =
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
    let kinds: Vec<EventKind> =
        [sleep(release)].into_iter().chain(set).chain([EventKind::Exit { length: Span::ZERO }]).collect();
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

/// Two DEADLINE tasks (30 of 100 ms, 10 of 50 ms) that want more than their runtime, over two nice-0 hogs.
pub fn deadline_set() -> Workload {
    let mut builder = Builder::default();
    for (runtime_ms, period_ms) in [(30, 100), (10, 50)] {
        let period = Span::from_ms(period_ms);
        let deadline = DeadlineParams { runtime: Span::from_ms(runtime_ms), deadline: period, period };
        let params =
            SchedParams { policy: Policy::Deadline, deadline: Some(deadline), ..SchedParams::default() };
        builder.task(format!("dl{runtime_ms}.{period_ms}"), params, endless());
    }
    for copy in 0..2 {
        builder.task(format!("hog{copy}"), nice(0), endless());
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
        for copy in 0..2 {
            builder.task(format!("{name}{copy}"), nice(0), endless()).cgroup = Some(CgroupId(index));
        }
    }
    builder.workload
}

/// `pairs` of tasks that wake each other in turn through a futex, 1 ms of work a turn, beside one nice-0 hog.
pub fn ping_pong(pairs: u32, rounds: u32) -> Workload {
    let mut builder = Builder::default();
    for pair in 0..pairs {
        // Both have events BLOCK, WAKEUP, ... and a last EXIT; a wakes b at the end of its work and the other way round.
        let first = builder.workload.tasks.len() as u32;
        for side in 0..2 {
            let kinds =
                (0..rounds).flat_map(|_| [EventKind::Block { length: Span::from_ms(1) }, sleep(Span::ZERO)]);
            let kinds: Vec<_> = kinds.chain([EventKind::Exit { length: Span::from_ms(1) }]).collect();
            let task = builder.task(format!("pair{pair}.{side}"), nice(0), kinds);
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

/// Names that [`named`] knows.
pub const NAMES: [&str; 10] = [
    "fairbench",
    "responsebench",
    "start8000",
    "start5000",
    "periodic-rt",
    "deadline",
    "cgroup",
    "ping-pong",
    "hogs4",
    "hogs8",
];

/// A workload of this module by name, for runs of this length.
///
/// # Errors
/// Says which names there are.
pub fn named(name: &str, duration: Span) -> Result<Workload, crate::GuestError> {
    Ok(match name {
        "fairbench" => fairbench(),
        "responsebench" => responsebench(duration),
        "start8000" => start_state(&[8, 0, 0, 0], Span::from_s(1)),
        "start5000" => start_state(&[5, 0, 0, 0], Span::from_s(1)),
        "periodic-rt" => periodic_rt(duration),
        "deadline" => deadline_set(),
        "cgroup" => cgroup_tree(),
        "ping-pong" => ping_pong(2, (duration.as_ns() / 2_000_000) as u32),
        "hogs4" => hogs(&[0, 5, -5, 10]),
        "hogs8" => hogs(&[0; 8]),
        _ => {
            return Err(crate::GuestError::Unsupported {
                what: "the workload".to_string(),
                value: format!("'{name}'"),
                expected: format!("a workload file or one of {}", NAMES.join(", ")),
            });
        }
    })
}
