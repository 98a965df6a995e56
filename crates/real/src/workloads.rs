//! Which workloads is truth measured with? Small ones whose right outcome is known or published, each in the
//! workload model, so that guest and simulation run the same.

use crate::RealError;
use schedlab_units::{DeadlineParams, Span, TaskId};
use schedlab_workload::build::{ENDLESS, Life, Place};
use schedlab_workload::generate::{self, Spec, StartState};
use schedlab_workload::{Birth, Builder, Cgroup, CpuMax, EventId, InitState, Workload};

/// Pids of the guest's own tasks are below.
const FIRST_PID: u32 = 100;

fn builder() -> Builder {
    Builder::new().first_pid(FIRST_PID)
}

fn finished(builder: Builder) -> Workload {
    builder.finish().expect("a small workload that keeps the rules")
}

fn endless(life: Life<'_>) {
    life.run(ENDLESS).exit();
}

/// `run` of CPU time and `pause` of sleep, as often as `horizon` of elapsed time can hold at most.
fn periodic(mut life: Life<'_>, run: Span, pause: Span, horizon: Span) {
    for _ in 0..horizon.as_ns() / (run.as_ns() + pause.as_ns()) + 1 {
        life = life.run(run).sleep(pause);
    }
    endless(life);
}

/// Harmony's start states: `counts[c]` tasks that only compute are bound to CPU c from the start, and let go
/// after `release`.
fn start_state(counts: Vec<u32>, release: Span) -> Result<Workload, generate::GenerateError> {
    let mut workload = StartState { counts, release }.build()?;
    workload.tasks.iter_mut().zip(FIRST_PID..).for_each(|(task, pid)| task.pid = pid);
    Ok(workload)
}

/// Three periodic FIFO tasks (rate-monotonic: 2 of 10, 5 of 25, 10 of 60 ms, 57 % together) over a nice-0 hog.
pub fn periodic_rt(horizon: Span) -> Workload {
    let mut builder = builder();
    for (priority, run_ms, pause_ms) in [(30, 2, 8), (20, 5, 20), (10, 10, 50)] {
        let life = builder.task(format!("rt{priority}")).fifo(priority);
        periodic(life, Span::from_ms(run_ms), Span::from_ms(pause_ms), horizon);
    }
    endless(builder.task("hog"));
    finished(builder)
}

/// Two DEADLINE tasks (30 of 100 ms, 10 of 50 ms) that want more than their runtime, over two nice-0 hogs.
/// The second comes 5 ms after the first: were both periods to begin at one instant, microseconds of kernel
/// code would decide whose timer is first.
pub fn deadline_set() -> Workload {
    let mut builder = builder();
    for (runtime_ms, period_ms, start) in [(30, 100, Span::ZERO), (10, 50, Span::from_ms(5))] {
        let period = Span::from_ms(period_ms);
        let deadline = DeadlineParams { runtime: Span::from_ms(runtime_ms), deadline: period, period };
        endless(builder.task(format!("dl{runtime_ms}.{period_ms}")).deadline(deadline).start(start));
    }
    for _ in 0..2 {
        endless(builder.task("hog"));
    }
    finished(builder)
}

/// A tree of groups: /a (weight 200) with /a/x (100) and /a/y (300), /b (weight 100, at most 20 ms in 100);
/// two hogs in each leaf. On one CPU /b is capped at 20 %, /a gets 80 %: x 20 %, y 60 %.
pub fn cgroup_tree() -> Workload {
    let mut builder = builder();
    let max = CpuMax { quota: Span::from_ms(20), period: Span::from_ms(100) };
    let groups = [("/a", 200, None), ("/a/x", 100, None), ("/a/y", 300, None), ("/b", 100, Some(max))];
    let [_, x, y, b] = groups.map(|(path, weight, max)| {
        builder.cgroup(Cgroup { path: path.to_string(), weight: Some(weight), max, ..Cgroup::default() })
    });
    for (group, name) in [(x, "x"), (y, "y"), (b, "b")] {
        for _ in 0..2 {
            endless(builder.task(name).cgroup(group));
        }
    }
    finished(builder)
}

/// Tasks that yield after each 1.3 ms of work, `rounds` times, beside one nice-0 hog.
pub fn yielders(tasks: u32, rounds: u32) -> Workload {
    let mut builder = builder();
    for _ in 0..tasks {
        let mut life = builder.task("yielder");
        for _ in 0..rounds {
            life = life.run(TURN).yields();
        }
        // ENDLESS in all
        life.run(Span::from_ns(ENDLESS.as_ns() - u64::from(rounds) * TURN.as_ns())).exit();
    }
    endless(builder.task("hog"));
    finished(builder)
}

/// Work of a turn where the length does not matter: no part or multiple of a tick, so that turns do not fall
/// into step with ticks.
const TURN: Span = Span::from_us(1_300);

/// `pairs` of tasks that wake each other in turn through a futex, 1.3 ms of work a turn, beside one nice-0 hog.
pub fn ping_pong(pairs: u32, rounds: u32) -> Workload {
    let mut builder = builder();
    let mut seconds = Vec::new();
    for _ in 0..pairs {
        // Both have events BLOCK, WAKEUP, ... and a last EXIT; each wakes the other at the end of its work.
        let first = builder.task("pair").id();
        let (places_of_first, ends_of_first) = turns(&mut builder, first, TaskId(first.0 + 1), rounds);
        let second = builder.task("pair").id();
        let (places_of_second, ends_of_second) = turns(&mut builder, second, first, rounds);
        for (place, eid) in places_of_second.into_iter().zip(ends_of_first) {
            builder.set_event(place, eid, Span::ZERO);
        }
        // the second's first BLOCK goes below
        for (place, eid) in places_of_first.into_iter().zip(ends_of_second.into_iter().skip(1)) {
            builder.set_event(place, eid, Span::ZERO);
        }
        seconds.push(second);
    }
    endless(builder.task("hog"));
    let mut workload = finished(builder);
    for second in seconds {
        let task = &mut workload.tasks[second.index()];
        if let Birth::Init { state, .. } = &mut task.birth {
            *state = InitState::Blocked;
            task.events.remove(0); // blocked at once, so its first event is a WAKEUP
        }
    }
    workload
}

/// Works and waits for `waker`, in turn. The places of its waits, and the events that end its work.
fn turns(builder: &mut Builder, task: TaskId, waker: TaskId, rounds: u32) -> (Vec<Place>, Vec<EventId>) {
    let (mut places, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ends.push(builder.life(task).run(TURN).block().eid());
        places.push(builder.wait(task, waker));
    }
    ends.push(builder.life(task).run(TURN).exit().eid());
    (places, ends)
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
pub fn named(name: &str, duration: Span) -> Result<Workload, RealError> {
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
        ("start", list) => {
            return start_state(numbers(name, list)?, Span::from_s(1))
                .map_err(|error| unsupported(name, error.to_string()));
        }
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

fn unsupported(name: &str, expected: String) -> RealError {
    RealError::Unsupported { what: "the workload".to_string(), value: format!("'{name}'"), expected }
}

/// `0,0,5,-5`
fn numbers<T: std::str::FromStr>(name: &str, list: &str) -> Result<Vec<T>, RealError> {
    let numbers: Result<Vec<T>, _> = list.split(',').map(|number| number.trim().parse()).collect();
    numbers.map_err(|_| unsupported(name, "a list of numbers after the colon, such as start:8,0,0,0".into()))
}

/// `8,4ms,6ms`
fn sleepers(name: &str, list: &str, duration: Span) -> Result<generate::Sleepers, RealError> {
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
