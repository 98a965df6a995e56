//! Which tasks come to which simulated CPU, and when, if a workload says so and not chance?
//!
//! ```text
//! task 7   wakes at 0 and 30 ms, runs 5 and 4 ms     CPU 7 modulo the number of threads
//!          0 ms   a task comes that runs 5 ms, deadline 30 ms
//!         30 ms   a task comes that runs 4 ms, deadline 60 ms
//! ```
//!
//! A workload says what its tasks want, not when they get it: each runs here as if it had a CPU for itself, and each
//! time that it is woken a task comes to its simulated CPU. PRAcTISE's authors name this as future work.

use std::ops::RangeInclusive;

use schedlab_units::{ClassKind, SchedParams, Span};
use schedlab_workload::generate::{GenerateError, Method, Periodic, PeriodicPolicy, Rng, Spec};
use schedlab_workload::{Birth, EventKind, ExternalSource, InitState, Wakeup, Workload};

/// Periods of random task sets, as published.
const PERIODS: RangeInclusive<Span> = Span::from_ms(10)..=Span::from_ms(100);
/// The key of a fair task of nice 0, where the structure keeps priorities: one more for each step of nice upwards.
const NICE_0_KEY: i64 = 20;

/// A task that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskEvent {
    /// To which simulated CPU.
    pub cpu: u32,
    /// When.
    pub at: Span,
    /// How long it runs.
    pub run: Span,
    /// Its key where the structure keeps priorities, from 1.
    pub priority: i64,
    /// Its key where it keeps deadlines.
    pub deadline: Span,
}

/// Tasks in order of CPU and time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// All of them.
    pub events: Vec<TaskEvent>,
    /// Then it begins again.
    pub length: Span,
}

impl Stream {
    /// What tasks of a workload want, up to `until`. Tasks without a deadline of their own get one from `deadlines`,
    /// drawn from `seed`.
    pub fn of(
        workload: &Workload,
        threads: u32,
        until: Option<Span>,
        deadlines: &RangeInclusive<Span>,
        seed: u64,
    ) -> Stream {
        let mut rng = Rng::new(seed, 0);
        let mut events = Vec::new();
        let mut end = Span::ZERO;
        for life in lives(workload) {
            let params = life.params;
            let width = deadlines.end().as_ns() - deadlines.start().as_ns();
            for (at, run) in life.jobs {
                let relative = match params.deadline {
                    Some(own) => own.deadline,
                    None => Span::from_ns(deadlines.start().as_ns() + rng.bits() % (width + 1)),
                };
                let priority = match params.policy.class() {
                    ClassKind::Fair | ClassKind::Ext => NICE_0_KEY - i64::from(params.nice.get()),
                    _ => i64::from(params.rt_priority.max(1)),
                };
                let deadline = at + relative;
                end = end.max(at + run);
                events.push(TaskEvent { cpu: life.task % threads, at, priority, deadline, run });
            }
        }
        let length = until.unwrap_or(end).max(Span::from_ns(1));
        events.retain(|event| event.at < length && event.run > Span::ZERO);
        events.sort();
        Stream { events, length }
    }

    /// Random sets of periodic tasks by RandFixedSum, as published: `tasks` for each CPU, which use `utilisation` of
    /// it; periods of 10 to 100 ms, and the deadline is the period. Priorities are by rate.
    ///
    /// # Errors
    /// Numbers of which there are no sets.
    pub fn random_sets(
        threads: u32,
        (utilisation, tasks): (f64, u32),
        duration: Span,
        seed: u64,
    ) -> Result<Stream, GenerateError> {
        let set = |policy| {
            let periodic = Periodic {
                seed,
                tasks: tasks * threads,
                utilisation: utilisation * f64::from(threads),
                method: Method::RandFixedSum,
                period_min: *PERIODS.start(),
                period_max: *PERIODS.end(),
                policy,
                duration,
                ..Periodic::default()
            };
            Spec::Periodic(periodic).build()
        };
        let of = |policy| {
            set(policy).map(|workload| Stream::of(&workload, threads, Some(duration), &PERIODS, seed))
        };
        // the same set twice, in the same order: its deadlines, and its priorities
        let (mut stream, ranked) = (of(PeriodicPolicy::Deadline)?, of(PeriodicPolicy::RateMonotonic)?);
        for (event, other) in stream.events.iter_mut().zip(&ranked.events) {
            event.priority = other.priority;
        }
        Ok(stream)
    }
}

/// When a task is woken, and for how long it runs then.
struct Life {
    task: u32,
    params: SchedParams,
    jobs: Vec<(Span, Span)>,
}

/// All tasks, each as if it had a CPU for itself.
fn lives(workload: &Workload) -> Vec<Life> {
    let mut born: Vec<Option<(Span, SchedParams)>> = vec![None; workload.tasks.len()];
    for (row, task) in workload.tasks.iter().enumerate() {
        if matches!(task.birth, Birth::Init { .. }) {
            born[row] = Some((Span::ZERO, task.params.unwrap_or_default()));
        }
    }
    let mut lives = Vec::new();
    // a parent that stands behind its child is met in the next round
    let mut open: Vec<usize> = (0..workload.tasks.len()).collect();
    while !open.is_empty() {
        let before = open.len();
        open.retain(|&row| match born[row] {
            None => true,
            Some((at, params)) => {
                lives.push(life(workload, row, (at, params), &mut born));
                false
            }
        });
        if open.len() == before {
            break;
        }
    }
    lives.sort_by_key(|life| life.task);
    lives
}

fn life(
    workload: &Workload,
    row: usize,
    (at, params): (Span, SchedParams),
    born: &mut [Option<(Span, SchedParams)>],
) -> Life {
    let task = &workload.tasks[row];
    let mut jobs = Vec::new();
    // since the last wakeup: when it was, and how long the task has run
    let (mut woken, mut ran) = (Some(at), Span::ZERO);
    if matches!(task.birth, Birth::Init { state: InitState::Blocked, .. }) {
        woken = None;
    }
    let (mut blocked, mut instant) = (at, at);
    for event in &task.events {
        if let Some(length) = event.kind.length() {
            ran = length;
        }
        match &event.kind {
            EventKind::Wakeup(Wakeup::External { after, source }) => {
                let due = match source {
                    source if source.is_instant() => {
                        instant += *after;
                        match source {
                            ExternalSource::GridRestart => instant = instant.max(blocked),
                            ExternalSource::GridSkip => {
                                let late_ns = blocked.as_ns().saturating_sub(instant.as_ns());
                                let after_ns = after.as_ns().max(1);
                                instant += Span::from_ns(late_ns / after_ns * after_ns);
                            }
                            _ => {}
                        }
                        instant
                    }
                    _ => blocked + *after,
                };
                woken = Some(due.max(blocked));
                ran = Span::ZERO;
            }
            EventKind::Wakeup(Wakeup::Dependent { recorded_after, .. }) => {
                woken = Some(blocked + *recorded_after);
                ran = Span::ZERO;
            }
            EventKind::Block { length } | EventKind::Exit { length } => {
                if let Some(at) = woken.take() {
                    jobs.push((at, *length));
                    blocked = at + *length;
                }
            }
            EventKind::Fork { length, child } => {
                let at = woken.unwrap_or(blocked) + *length;
                let its = workload.tasks[child.0 as usize].params.unwrap_or(params);
                born[child.0 as usize] = Some((at, its));
            }
            _ => {}
        }
    }
    // the workload does not say that it ends
    if let Some(at) = woken.filter(|_| ran > Span::ZERO) {
        jobs.push((at, ran));
    }
    Life { task: row as u32, params, jobs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::generate::from_toml;

    const DEADLINES: RangeInclusive<Span> = Span::from_ms(10)..=Span::from_ms(100);

    /// A sleeper runs 4 ms and sleeps 6: it comes at 0, 10, 20, ... ms to CPU 0, the next one to CPU 1.
    #[test]
    fn a_task_comes_each_time_that_it_is_woken() {
        let text = "kind = \"sleepers\"\ntasks = 3\nrun = \"4ms\"\nsleep = \"6ms\"\nduration = \"100ms\"\n";
        let workload = from_toml("t", text).unwrap();
        let stream = Stream::of(&workload, 2, Some(Span::from_ms(50)), &DEADLINES, 1);
        let of = |cpu| stream.events.iter().filter(move |e| e.cpu == cpu).collect::<Vec<_>>();
        assert_eq!((of(0).len(), of(1).len()), (10, 5), "two tasks on CPU 0, one on CPU 1");
        let times: Vec<u64> = of(1).iter().map(|e| e.at.as_ns() / 1_000_000).collect();
        assert_eq!(times, [0, 10, 20, 30, 40]);
        assert!(stream.events.iter().all(|e| e.run == Span::from_ms(4) && e.priority == 20));
        assert!(stream.events.iter().all(|e| DEADLINES.contains(&e.deadline.saturating_sub(e.at))));
        assert_eq!(stream, Stream::of(&workload, 2, Some(Span::from_ms(50)), &DEADLINES, 1), "it repeats");
        assert_ne!(stream, Stream::of(&workload, 2, Some(Span::from_ms(50)), &DEADLINES, 2));
    }

    #[test]
    fn random_sets_use_what_they_are_to_use() {
        let duration = Span::from_ms(10_000);
        let stream = Stream::random_sets(4, (0.6, 4), duration, 7).unwrap();
        let ran: u64 = stream.events.iter().map(|e| e.run.as_ns()).sum();
        let share = ran as f64 / (4.0 * duration.as_ns() as f64);
        assert!((share - 0.6).abs() < 0.02, "{share}");
        for event in &stream.events {
            assert!(DEADLINES.contains(&event.deadline.saturating_sub(event.at)), "{event:?}");
            assert!((1..=98).contains(&event.priority), "{event:?}");
        }
        assert!(Stream::random_sets(2, (3.0, 2), duration, 1).is_err(), "two tasks cannot use three CPUs");
    }
}
