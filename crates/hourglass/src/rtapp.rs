//! How do threads do what a workload's tasks do? For rt-app's descriptions, which `schedlab-workload` expands.
//!
//! ```text
//!   "run": 2000, "timer": { "ref": "tick", "period": 10000 }
//!   BLOCK 2ms, WAKEUP 10ms grid-restart        ->  run 2 ms, then sleep to the grid: a job with this deadline
//! ```
//!
//! What threads do to each other (locks, signals, barriers, forks) they do not do here: each waits as long as it
//! does where every thread has a CPU of its own. How often that stands in for something else is counted.

use crate::plan::{Class, Model, ModelStep, ThreadPlan, Timer};
use schedlab_workload::{EventKind, ExternalSource, Task, Wakeup, Workload};
use std::collections::BTreeMap;

/// Each task as a thread; and what was done otherwise than asked, as sentences.
pub fn threads_of(workload: &Workload) -> (Vec<ThreadPlan>, Vec<String>) {
    let mut otherwise: BTreeMap<&'static str, u64> = BTreeMap::new();
    let threads = workload.tasks.iter().map(|task| thread(task, &mut otherwise)).collect();
    let from_import = workload.dropped.iter().map(|(what, times)| format!("{what} ({times} times)"));
    let own = otherwise.into_iter().map(|(what, times)| format!("{what} ({times} times)"));
    (threads, from_import.chain(own).collect())
}

fn thread(task: &Task, otherwise: &mut BTreeMap<&'static str, u64>) -> ThreadPlan {
    let mut steps = Vec::new();
    let mut ran_ns = 0;
    let mut count = |what| *otherwise.entry(what).or_default() += 1;
    for event in &task.events {
        if let Some(length) = event.kind.length() {
            let more = length.as_ns().saturating_sub(ran_ns);
            if more > 0 {
                steps.push(ModelStep::Run(schedlab_units::Span::from_ns(more)));
            }
            ran_ns = length.as_ns();
        }
        match &event.kind {
            EventKind::Yield { .. } => steps.push(ModelStep::Yield),
            EventKind::Wakeup(wakeup) => {
                ran_ns = 0;
                steps.push(match wakeup {
                    Wakeup::External { after, source } if source.is_instant() => {
                        ModelStep::Grid { after: *after, restarts: *source == ExternalSource::GridRestart }
                    }
                    Wakeup::External { after, .. } => ModelStep::Sleep(*after),
                    Wakeup::Dependent { recorded_after, .. } => {
                        count("a wait for another thread is a sleep of the length imagined");
                        ModelStep::Sleep(*recorded_after)
                    }
                });
            }
            EventKind::Object { .. } => count("a lock or a barrier is left out"),
            EventKind::Exec { .. } => count("a new program is left out"),
            EventKind::Fork { .. } => count("a forked thread is there from the start"),
            EventKind::Prio { .. } => count("a change of class on the way is left out"),
            EventKind::Call { .. } | EventKind::Block { .. } | EventKind::Exit { .. } => {}
        }
    }
    if task.cgroup.is_some() {
        count("a thread of a task group stays in this program's group");
    }
    ThreadPlan {
        model: Model::Script { name: task.name.clone(), steps },
        timer: Timer::Absolute,
        class: Class { params: task.params.unwrap_or_default() },
        cpus: task.affinity.clone(),
        cgroup: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_units::Span;

    #[test]
    fn an_rt_app_description_becomes_threads() {
        let text = r#"{ "global": { "duration": 1 }, "tasks": {
            "sensor": { "policy": "SCHED_FIFO", "priority": 20, "loop": 2,
                        "run": 2000, "timer": { "ref": "tick", "period": 10000 } },
            "other": { "loop": 1, "run": 3000, "sleep": 4000 } } }"#;
        let workload = schedlab_workload::rtapp::parse_rtapp("x.json".as_ref(), text).unwrap();
        let (threads, otherwise) = threads_of(&workload);
        assert!(otherwise.is_empty(), "{otherwise:?}");
        let Model::Script { name, steps } = &threads[0].model else { panic!("{threads:?}") };
        assert_eq!(name, "sensor");
        let job =
            [ModelStep::Run(Span::from_ms(2)), ModelStep::Grid { after: Span::from_ms(10), restarts: true }];
        assert_eq!(steps[..4], [job, job].concat());
        assert_eq!(threads[0].class.params.rt_priority, 20);
        let Model::Script { steps, .. } = &threads[1].model else { panic!("{threads:?}") };
        assert_eq!(steps[..2], [ModelStep::Run(Span::from_ms(3)), ModelStep::Sleep(Span::from_ms(4))]);
    }
}
