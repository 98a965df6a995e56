//! Did every effect come after its cause? For each dependent wakeup of a workload: when its waker got to the
//! place of the wakeup, when the sleeper got to its block, and when it went on.
//!
//! ```text
//!   ms     0    1    2    3    4    5    6          workload: a BLOCK 1ms, WAKEUP 1ms before b's event after 4 ms
//!   cpu0   aaaaa.....bbbbbbbbbbbbbbbaaaaabbbbb      b runs from 1 and reaches the place, 3 ms of its CPU time, at 4
//!               |                   |               a blocked at 1, its cause came at 4, it went on at 4:
//!               blocked       cause, effect         latency 0 ms, response 3 ms
//! ```
//!
//! The log is read for nothing but who had a CPU when; where in its own CPU time each task blocks and wakes
//! others is the workload's. So the check is independent of how the machine delivers wakeups: a sleeper that
//! gets CPU time beyond its block before its waker has had the CPU time up to the wakeup is an effect before
//! its cause. (In a log of a replay in which a dependency was not honoured, this says how often that is so,
//! and by how much.)
//!
//! A place at which a task uses no CPU time between two blocks counts as reached when the first of them is:
//! causes are never dated too late, so that what is called a violation is one.

use crate::{LogProblem, for_each_stay};
use schedlab_log::{Fact, Log};
use schedlab_units::TaskId;
use schedlab_workload::{EventId, EventKind, Wakeup, Workload};
use std::collections::BTreeMap;

/// One dependent wakeup in a replay. Times in ns from the start; `None`: not reached in this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who waits.
    pub sleeper: TaskId,
    /// Index of the WAKEUP among the sleeper's events.
    pub event: usize,
    /// Who wakes it.
    pub waker: TaskId,
    /// The sleeper reached its block (for one that is blocked from the start: 0).
    pub blocked_ns: Option<u64>,
    /// The waker reached the place of the wakeup.
    pub cause_ns: Option<u64>,
    /// The sleeper used its first CPU time after the block; `None` also if it uses none.
    pub effect_ns: Option<u64>,
}

impl Link {
    /// Whether the sleeper went on before its cause.
    pub fn is_violated(&self) -> bool {
        self.effect_ns.is_some_and(|effect_ns| self.cause_ns.is_none_or(|cause_ns| cause_ns > effect_ns))
    }
    /// From the cause to the sleeper's going on; negative if it went on before.
    pub fn latency_ns(&self) -> Option<i64> {
        Some(self.effect_ns? as i64 - self.cause_ns? as i64)
    }
    /// From the block to the sleeper's going on: how long the answer took, the wait for a CPU included.
    pub fn response_ns(&self) -> Option<u64> {
        Some(self.effect_ns?.saturating_sub(self.blocked_ns?))
    }
}

/// What a place in a task's CPU time is to a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Cause,
    Block,
}

/// A place in a task's CPU time.
#[derive(Clone, Copy)]
struct Place {
    cpu_ns: u64,
    mark: Mark,
    link: usize,
}

/// A task's progress through its places.
#[derive(Default)]
struct Progress {
    cpu_ns: u64,
    places: Vec<Place>,
    /// Next in `places` to be reached.
    reached: usize,
    /// Blocks reached and not yet left.
    open: Vec<usize>,
}

/// Every dependent wakeup of `workload`, in order of (task, event), with what `log`, a replay of it (or of
/// the same workload with other dependencies), says. Time and memory in proportion to the events.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule, or if its observer could not see every run.
pub fn causality(workload: &Workload, log: &dyn Log) -> Result<Vec<Link>, LogProblem> {
    log.header().needs("whether causes come before effects", &[Fact::Spans])?;
    let (mut links, mut tasks) = places(workload);
    for progress in &mut tasks {
        progress.places.sort_by_key(|place| (place.cpu_ns, place.mark));
        // at the start, before any CPU time
        progress.reach(0, 0, &mut links);
    }
    for_each_stay(log, |run| {
        if !run.task.is_workload() {
            return;
        }
        let Some(progress) = tasks.get_mut(run.task.index()) else { return };
        if run.end_ns > run.start_ns {
            for link in progress.open.drain(..) {
                links[link].effect_ns = Some(run.start_ns);
            }
        }
        let until_ns = progress.cpu_ns + (run.end_ns - run.start_ns);
        progress.reach(until_ns, run.start_ns, &mut links);
        progress.cpu_ns = until_ns;
    })?;
    Ok(links)
}

impl Progress {
    /// The task runs from `start_ns` on until it has had `until_ns` of CPU time.
    fn reach(&mut self, until_ns: u64, start_ns: u64, links: &mut [Link]) {
        while let Some(place) = self.places.get(self.reached).filter(|place| place.cpu_ns <= until_ns) {
            self.reached += 1;
            let at_ns = start_ns + place.cpu_ns.saturating_sub(self.cpu_ns);
            let link = &mut links[place.link];
            match place.mark {
                Mark::Cause => link.cause_ns = Some(at_ns),
                Mark::Block => {
                    link.blocked_ns = Some(at_ns);
                    if place.cpu_ns < until_ns {
                        // it went on without having left the CPU
                        link.effect_ns = Some(at_ns);
                    } else {
                        self.open.push(place.link);
                    }
                }
            }
        }
    }
}

/// All links, and per task the places that they name in its CPU time.
fn places(workload: &Workload) -> (Vec<Link>, Vec<Progress>) {
    let mut links = Vec::new();
    let mut tasks: Vec<Progress> = workload.tasks.iter().map(|_| Progress::default()).collect();
    let mut wanted: BTreeMap<EventId, Vec<(usize, u64)>> = BTreeMap::new();
    for (row, task) in workload.tasks.iter().enumerate() {
        let mut before_ns = 0; // CPU time of the stretches that are over
        let mut length_ns = 0;
        for (event, kind) in task.events.iter().map(|event| &event.kind).enumerate() {
            if let EventKind::Wakeup(wakeup) = kind {
                before_ns += length_ns;
                length_ns = 0;
                if let Wakeup::Dependent { event: deid, task: waker, distance, .. } = *wakeup {
                    let link = links.len();
                    tasks[row].places.push(Place { cpu_ns: before_ns, mark: Mark::Block, link });
                    wanted.entry(deid).or_default().push((link, distance.as_ns()));
                    let sleeper = TaskId(row as u32);
                    let link =
                        Link { sleeper, event, waker, blocked_ns: None, cause_ns: None, effect_ns: None };
                    links.push(link);
                }
            } else if let Some(length) = kind.length() {
                length_ns = length.as_ns();
            }
        }
    }
    for (row, task) in workload.tasks.iter().enumerate() {
        let (mut before_ns, mut length_ns) = (0, 0);
        for event in &task.events {
            match event.kind.length() {
                None => {
                    before_ns += length_ns;
                    length_ns = 0;
                }
                Some(length) => {
                    length_ns = length.as_ns();
                    for &(link, distance_ns) in wanted.get(&event.eid).into_iter().flatten() {
                        let cpu_ns = before_ns + length_ns.saturating_sub(distance_ns);
                        tasks[row].places.push(Place { cpu_ns, mark: Mark::Cause, link });
                    }
                }
            }
        }
    }
    (links, tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::{Kind, LogHeader, LogTask, MemLog, PrevState, Record};
    use schedlab_units::Span;
    use schedlab_workload::parse_text;

    const MS: u64 = 1_000_000;

    /// `runs`: (task, from ms, until ms, blocks).
    fn log(nr_tasks: usize, runs: &[(u32, u64, u64, bool)]) -> MemLog {
        let header = LogHeader {
            nr_cpus: 1,
            duration: Span::from_ms(100),
            tasks: vec![LogTask::default(); nr_tasks],
            ..LogHeader::default()
        };
        let idle = TaskId::IDLE.0;
        let record = |ms: u64, kind: Kind, task: u32, other: u32, flags: u8| Record {
            time_ns: ms * MS,
            kind: kind as u8,
            flags,
            task,
            other,
            ..Record::default()
        };
        let mut records: Vec<Record> =
            (0..nr_tasks as u32).map(|task| record(0, Kind::New, task, idle, 0)).collect();
        for &(task, from, until, blocks) in runs {
            let state = if blocks { PrevState::Sleeping } else { PrevState::Preempted };
            records.push(record(from, Kind::Wakeup, task, idle, 0));
            records.push(record(from, Kind::Switch, idle, task, 0));
            records.push(record(until, Kind::Switch, task, idle, state as u8));
        }
        MemLog { header, records }
    }

    // a blocks at 1 ms, b wakes it after 3 of its 4 ms
    const PAIR: &str = "1 INIT 0 0 1 runnable\n2 INIT 0 0 2 runnable\n\
        - BLOCK 1 1ms\n- WAKEUP 1 2ms 9 2 1ms\n- EXIT 1 1ms\n9 EXIT 2 4ms\n";

    fn link(text: &str, runs: &[(u32, u64, u64, bool)]) -> Link {
        let workload = parse_text("test", text.as_bytes()).unwrap();
        let links = causality(&workload, &log(workload.tasks.len(), runs)).unwrap();
        assert_eq!(links.len(), 1);
        links[0]
    }

    #[test]
    fn the_documented_example() {
        let link = link(PAIR, &[(0, 0, 1, true), (1, 1, 4, false), (0, 4, 5, true), (1, 5, 6, true)]);
        assert_eq!((link.blocked_ns, link.cause_ns, link.effect_ns), (Some(MS), Some(4 * MS), Some(4 * MS)));
        assert_eq!((link.latency_ns(), link.response_ns()), (Some(0), Some(3_000_000)));
        assert!(!link.is_violated());
    }

    // the same, but a goes on when its recorded 2 ms are over, and b has had 2 of its 3 ms
    #[test]
    fn an_effect_before_its_cause_is_reported() {
        let link = link(PAIR, &[(0, 0, 1, true), (1, 1, 3, false), (0, 3, 4, true), (1, 4, 6, true)]);
        assert_eq!(link.latency_ns(), Some(-2_000_000));
        assert!(link.is_violated());
    }

    // b was there first: a does not sleep at all
    #[test]
    fn a_cause_that_came_early_leaves_no_gap() {
        let link = link(PAIR, &[(1, 0, 4, true), (0, 4, 6, true)]);
        assert_eq!(
            (link.blocked_ns, link.cause_ns, link.effect_ns),
            (Some(5 * MS), Some(3 * MS), Some(5 * MS))
        );
        assert_eq!(link.latency_ns(), Some(2_000_000));
    }

    #[test]
    fn what_the_log_does_not_reach_is_not_known() {
        let link = link(PAIR, &[(0, 0, 1, true), (1, 1, 2, false)]);
        assert_eq!((link.blocked_ns, link.cause_ns, link.effect_ns), (Some(MS), None, None));
        assert!(!link.is_violated());
    }

    // blocked from the start; b's place lies before an event of its own: 3 ms back from 5, past the yield at 4
    #[test]
    fn places_are_counted_back_from_the_event_named() {
        let text = "1 INIT 0 0 1 blocked\n2 INIT 0 0 2 runnable\n- WAKEUP 1 0 9 2 3ms\n- EXIT 1 1ms\n\
            - BLOCK 2 10ms\n- WAKEUP 2 1ms\n- YIELD 2 4ms\n9 EXIT 2 5ms\n";
        let link = link(text, &[(1, 0, 10, true), (1, 11, 13, false), (0, 13, 14, true), (1, 14, 17, true)]);
        assert_eq!((link.blocked_ns, link.cause_ns, link.effect_ns), (Some(0), Some(13 * MS), Some(13 * MS)));
    }
}
