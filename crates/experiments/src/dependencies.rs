//! What does it do to replayed latencies whether a wakeup depends on the task that caused it, or comes at the
//! recorded time?
//!
//! A recording's dependent wakeups are looked at one by one: when the sleeper blocked, when its cause came,
//! when it went on. In the recording itself, in a replay that honours the dependencies, and in one that does
//! not, on the same and on other numbers of CPUs:
//!
//! ```text
//!            response: from the block until the sleeper runs again          latency: from the cause until it runs
//!   client   ask ....................... run
//!   server        run ......... answer (cause)
//! ```
//!
//! Where the recording shows 2 CPUs and the replay has 1, the answer takes longer, because the server has to
//! wait for the client's CPU. With its wakeup at the recorded time the client does not notice: it goes on
//! before its answer is there.

use schedlab_instruments::Link;
use schedlab_report::table::{Column, Table};
use schedlab_stdx::percentile::nearest;
use schedlab_trace::{Mode, Pid, SchedEvent, TraceError, TraceFile};
use schedlab_units::TaskId;
use schedlab_workload::{EventKind, Wakeup, Workload};
use std::collections::BTreeMap;
use std::path::Path;

/// What a trace itself shows of its workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The dependent wakeups.
    pub links: Vec<Link>,
    /// When the last task that is no kernel thread was last on a CPU, in ns from the start.
    pub end_ns: u64,
}

/// The links of a workload as its own trace shows them: when each sleeper blocked, was woken, and ran. They
/// are found by the time that the workload says the sleep took. Left out are those of tasks whose number was
/// used twice, and those whose block or run is not in the trace (events were lost, or a task is hidden from
/// it).
///
/// # Errors
/// [`TraceError`] if the trace cannot be read.
pub fn recorded_links(trace: &Path, workload: &Workload) -> Result<Recorded, TraceError> {
    let file = TraceFile::open(trace, Mode::Lenient)?;
    let mut events = file.events()?;
    let mut sleepers: BTreeMap<Pid, Sleeper> = BTreeMap::new();
    let mut start_ns = None;
    while let Some(event) = events.next_event()? {
        let start_ns = *start_ns.get_or_insert(event.time_ns);
        let now_ns = event.time_ns - start_ns;
        match event.what {
            SchedEvent::Switch { prev, prev_state, next } => {
                let leaving = sleepers.entry(prev.pid).or_default();
                leaving.seen = true;
                leaving.left_ns = now_ns;
                if !prev_state.is_runnable() {
                    leaving.blocked_ns = Some(now_ns);
                    // a waking that came while it had not yet left its CPU
                    leaving.early_ns = leaving.woken_ns.take();
                }
                let coming = sleepers.entry(next.pid).or_default();
                coming.seen = true;
                if let Some(blocked_ns) = coming.blocked_ns.take() {
                    let cause_ns = coming.woken_ns.or(coming.early_ns).unwrap_or(now_ns);
                    coming.wakes.push((blocked_ns, cause_ns, now_ns));
                }
                (coming.woken_ns, coming.early_ns) = (None, None);
            }
            SchedEvent::Waking(wake) => {
                let sleeper = sleepers.entry(wake.pid).or_default();
                if !sleeper.seen {
                    sleeper.blocked_ns = Some(0);
                    sleeper.seen = true;
                }
                // of several the first wakes it; of those before it blocks, the last
                if sleeper.blocked_ns.is_none() || sleeper.woken_ns.is_none() {
                    sleeper.woken_ns = Some(now_ns);
                }
            }
            SchedEvent::Fork { child, .. } => {
                let born = sleepers.entry(child).or_default();
                born.births += 1;
                born.seen = true;
            }
            _ => {}
        }
    }
    let mut links = Vec::new();
    let mut end_ns = 0;
    for (row, task) in workload.tasks.iter().enumerate() {
        let Some(sleeper) = sleepers.get(&Pid(task.pid as i32)).filter(|sleeper| sleeper.births <= 1) else {
            continue;
        };
        if !task.kernel_thread {
            end_ns = end_ns.max(sleeper.left_ns);
        }
        let wakeups: Vec<(usize, &Wakeup)> = task
            .events
            .iter()
            .enumerate()
            .filter_map(|(i, event)| match &event.kind {
                EventKind::Wakeup(wakeup) => Some((i, wakeup)),
                _ => None,
            })
            .collect();
        let mut next = 0;
        for (event, wakeup) in wakeups {
            let slept_ns = match *wakeup {
                Wakeup::External { after, .. } => after.as_ns(),
                Wakeup::Dependent { recorded_after, .. } => recorded_after.as_ns(),
            };
            let ahead = sleeper.wakes[next..].iter().take(LOOK_AHEAD);
            let place = ahead.enumerate().find(|(_, wake)| wake.1.saturating_sub(wake.0) == slept_ns);
            let Some((skipped, (blocked_ns, cause_ns, effect_ns))) = place else { continue };
            next += skipped + 1;
            if let Wakeup::Dependent { task: waker, .. } = *wakeup {
                links.push(Link {
                    sleeper: TaskId(row as u32),
                    event,
                    waker,
                    blocked_ns: Some(*blocked_ns),
                    cause_ns: Some(*cause_ns),
                    effect_ns: Some(*effect_ns),
                });
            }
        }
    }
    Ok(Recorded { links, end_ns })
}

/// So many sleeps in a row may differ between the trace and the workload.
const LOOK_AHEAD: usize = 4;

#[derive(Default)]
struct Sleeper {
    seen: bool,
    births: u32,
    blocked_ns: Option<u64>,
    woken_ns: Option<u64>,
    early_ns: Option<u64>,
    /// Last seen on a CPU.
    left_ns: u64,
    /// Blocked, woken, ran.
    wakes: Vec<(u64, u64, u64)>,
}

/// Links of one run, in figures. Times in us.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Dependent wakeups whose sleeper went on.
    pub wakeups: usize,
    /// Of these, in per cent: went on before their cause.
    pub early_percent: f64,
    /// From the block until the sleeper ran: 50, 90 and 99 of 100.
    pub response_us: [f64; 3],
    /// From the cause until the sleeper ran; less than 0: before it.
    pub latency_us: [f64; 3],
}

/// The figures of links between tasks of the workload that are no kernel threads (those would be the kernel's
/// own work).
pub fn figures(workload: &Workload, links: &[Link]) -> Figures {
    let of_users =
        |link: &&Link| !workload.task(link.sleeper).kernel_thread && !workload.task(link.waker).kernel_thread;
    let links: Vec<&Link> = links.iter().filter(of_users).filter(|link| link.effect_ns.is_some()).collect();
    let early = links.iter().filter(|link| link.is_violated()).count();
    let us = |ns: i64| ns as f64 / 1000.0;
    Figures {
        wakeups: links.len(),
        early_percent: 100.0 * early as f64 / links.len().max(1) as f64,
        response_us: percentiles(links.iter().filter_map(|link| link.response_ns()).map(|ns| us(ns as i64))),
        latency_us: percentiles(links.iter().filter_map(|link| link.latency_ns()).map(us)),
    }
}

/// 50, 90 and 99 of 100, by nearest rank; 0 without samples.
fn percentiles(samples: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut samples: Vec<f64> = samples.collect();
    samples.sort_by(f64::total_cmp);
    [500, 900, 990].map(|per_mille| nearest(&samples, per_mille).unwrap_or(0.0))
}

/// A table for [`row`]s.
pub fn table(name: &str, title: &str) -> Table {
    let columns = vec![
        Column::new("cpus", "", "number of CPUs"),
        Column::new("what", "", "the recording itself, or a replay with this choice of dependencies"),
        Column::new("duration_ms", "ms", "from the start until the last program's task is done"),
        Column::new("response_us_p50", "us", "from a block until the sleeper runs again, median"),
        Column::new("response_us_p90", "us", "the same, 90 of 100"),
        Column::new("response_us_p99", "us", "the same, 99 of 100"),
        Column::new(
            "latency_us_p50",
            "us",
            "from the cause until the sleeper runs, median; less than 0: before its cause",
        ),
        Column::new("latency_us_p99", "us", "the same, 99 of 100"),
        Column::new("before_cause_percent", "%", "sleepers that went on before their cause"),
        Column::new("wakeups", "", "dependent wakeups between the recorded programs' tasks"),
    ];
    Table::new(name, title, columns)
}

/// A row of [`table`].
pub fn row(cpus: u32, what: &str, duration_ms: f64, figures: &Figures) -> Vec<serde_json::Value> {
    let round = |value: f64| ((value * 10.0).round() / 10.0).into();
    vec![
        cpus.into(),
        what.into(),
        round(duration_ms),
        round(figures.response_us[0]),
        round(figures.response_us[1]),
        round(figures.response_us[2]),
        round(figures.latency_us[0]),
        round(figures.latency_us[2]),
        round(figures.early_percent),
        figures.wakeups.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name).join("trace.dat")
    }

    #[test]
    fn percentiles_are_the_nearest_rank() {
        assert_eq!(percentiles((1..=100).map(f64::from)), [50.0, 90.0, 99.0]);
        assert_eq!(percentiles([7.0, -3.0].into_iter()), [-3.0, 7.0, 7.0]);
        assert_eq!(percentiles(std::iter::empty()), [0.0; 3]);
    }

    /// What the trace shows link by link is what the workload keeps of it: the recorded sleep is from the
    /// block to the cause.
    #[test]
    fn links_of_a_recording_are_the_workloads() {
        use schedlab_workload::derive::{DeriveOptions, import_trace};
        let trace = sample("hackbench");
        let workload = import_trace(&trace, Mode::Strict, DeriveOptions::default(), |_| {}).unwrap().workload;
        let Recorded { links, end_ns } = recorded_links(&trace, &workload).unwrap();
        assert!(end_ns > 900_000_000, "the sample lasts 1.1 s: {end_ns}");
        let dependent: usize = workload
            .tasks
            .iter()
            .flat_map(|task| &task.events)
            .filter(|event| matches!(event.kind, EventKind::Wakeup(Wakeup::Dependent { .. })))
            .count();
        assert!(links.len() > dependent * 98 / 100, "{} of {dependent}", links.len());
        assert!(links.iter().all(|link| link.blocked_ns <= link.effect_ns));
        assert_eq!(links.iter().filter(|link| link.is_violated()).count(), 0);
    }
}
