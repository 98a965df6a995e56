//! Which of a task's blocks end a job, and when is the next one released? From the workload alone, before
//! anything has run.

use schedlab_units::{SchedParams, SchedPolicy, Span};
use schedlab_workload::{EventKind, ExternalSource, Task, Wakeup, Workload};

/// What a block means for the task's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It lies within a job.
    Nothing,
    /// It ends a job; the wakeup releases the next.
    AtWakeup,
    /// It ends a job; the next is released this long after the present one was.
    Instant {
        /// From release to release.
        after_ns: u64,
        /// If that has passed at the block.
        passed: Passed,
    },
}

/// What becomes of a release that has passed when the job before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It stays (`grid`, `absolute`).
    Stays,
    /// That end is the release (`grid-restart`).
    Restarts,
    /// It stays, unless the job after it is released as well: then it is given up, and missed (`grid-skip`).
    Skips,
}

/// The jobs that a workload asks of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// The task's blocks in order; equal neighbours are one entry with their number.
    blocks: Vec<(Ends, u64)>,
    /// The deadline that its parameters give; `None`: the time to the next release.
    pub deadline_ns: Option<u64>,
    /// Whether there is work before its first block.
    pub(super) begins_with_work: bool,
    /// Whether there is work between the last release and its exit.
    pub ends_in_job: bool,
}

/// The blocks of a plan, one by one.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    rest: std::slice::Iter<'a, (Ends, u64)>,
    now: Option<(Ends, u64)>,
}

impl Iterator for Blocks<'_> {
    type Item = Ends;

    fn next(&mut self) -> Option<Ends> {
        if self.now.is_none_or(|(_, left)| left == 0) {
            self.now = Some(*self.rest.next()?);
        }
        let (ends, left) = self.now.as_mut()?;
        *left -= 1;
        Some(*ends)
    }
}

impl JobPlan {
    /// Its blocks in order.
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks { rest: self.blocks.iter(), now: None }
    }

    /// The one period of all of its jobs, if they have one.
    pub fn period_ns(&self) -> Option<u64> {
        let mut periods = self.blocks.iter().filter_map(|(ends, _)| match ends {
            Ends::Instant { after_ns, .. } => Some(*after_ns),
            _ => None,
        });
        let first_ns = periods.next()?;
        periods.all(|other_ns| other_ns == first_ns).then_some(first_ns)
    }

    /// The deadline of a job that ends in the task's exit: no next release tells it, so it is that of the one before.
    pub(super) fn last_deadline_ns(&self) -> Option<u64> {
        let last = self.blocks.iter().rev().find_map(|(ends, _)| match ends {
            Ends::Instant { after_ns, .. } => Some(*after_ns),
            _ => None,
        });
        self.deadline_ns.or(last)
    }
}

/// The jobs of each task; row i is `TaskId(i)`. `None`: its wakeups say nothing about jobs.
pub fn plans(workload: &Workload) -> Vec<Option<JobPlan>> {
    let params = |task| workload.inherited(task, |task| task.params);
    workload.tasks.iter().map(|task| plan(task, params(task))).collect()
}

fn plan(task: &Task, params: Option<SchedParams>) -> Option<JobPlan> {
    let reserved =
        params.filter(|params| params.policy == SchedPolicy::Deadline).and_then(|params| params.deadline);
    let deadline_ns = reserved.map(|reserved| reserved.deadline.as_ns());
    let has_instants = task.events.iter().any(|event| event.kind.is_instant());
    if !has_instants && deadline_ns.is_none() {
        return None;
    }
    let mut blocks: Vec<(Ends, u64)> = Vec::new();
    let mut add = |ends| match blocks.last_mut() {
        Some((last, number)) if *last == ends => *number += 1,
        _ => blocks.push((ends, 1)),
    };
    let first = task.events.iter().position(|event| matches!(event.kind, EventKind::Block { .. }));
    let until_first = task.events.iter().take(first.map_or(0, |first| first + 1));
    let begins_with_work =
        until_first.filter_map(|event| event.kind.length()).any(|length| length > Span::ZERO);
    let mut is_blocked = false;
    let mut ends_in_job = false;
    for event in &task.events {
        match &event.kind {
            EventKind::Block { .. } => is_blocked = true,
            EventKind::Wakeup(wakeup) if std::mem::take(&mut is_blocked) => {
                add(match wakeup {
                    Wakeup::External { after, source } if source.is_instant() => Ends::Instant {
                        after_ns: after.as_ns(),
                        passed: match source {
                            ExternalSource::GridRestart => Passed::Restarts,
                            ExternalSource::GridSkip => Passed::Skips,
                            _ => Passed::Stays,
                        },
                    },
                    _ if has_instants => Ends::Nothing,
                    _ => Ends::AtWakeup,
                });
            }
            EventKind::Exit { length } => ends_in_job = length.as_ns() > 0,
            _ => {}
        }
    }
    if is_blocked {
        // it sleeps for ever: that ends its last job
        add(Ends::AtWakeup);
        ends_in_job = false;
    }
    Some(JobPlan { blocks, deadline_ns, begins_with_work, ends_in_job })
}
