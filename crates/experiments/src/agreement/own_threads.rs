//! What does it change that real Linux has threads of its own? Give them to the native policy too.
//!
//! `kworker`, `rcu_preempt`, `ksoftirqd` and others wake up now and then, compete on the fair queue like any
//! task, and go to sleep again; in the port that takes no time, but it moves the mean virtual time, ends
//! slices and renews their protection. A native policy has no such threads. To see whether they explain a
//! difference, their wakeups are taken from the log of the real kernel and added to the workload as tasks
//! that need no CPU time. What one of them wakes while it runs (`ksoftirqd` wakes `rcu_preempt`) it wakes
//! here, too.

use super::measure::ComparedRun;
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::{
    Birth, Event, EventId, EventKind, ExternalSource, InitState, Task, Wakeup, Workload,
};
use std::collections::BTreeMap;

/// A wakeup of a thread of the kernel: when, and in the run after which wakeup of which other one, if one of
/// them did it.
type Woken = (u64, Option<(u32, usize)>);

/// The workload with the kernel's own threads as they woke up in `real`, after the workload's own tasks.
pub fn with_own_threads(workload: &Workload, real: &ComparedRun) -> Workload {
    let mut out = workload.clone();
    let next_pid = workload.free_pid();
    let mut next_eid = workload.free_eid().0;
    let mut wakeups: BTreeMap<u32, Vec<Woken>> = BTreeMap::new();
    for wakeup in &real.own_wakeups {
        // at time 0 the thread that creates the tasks is awake too: the engine does its work for native policies
        if wakeup.time_ns > 0 && wakeup.pid != 1 {
            let awake = |pid: u32| Some((pid, wakeups.get(&pid)?.len() - 1));
            let cause = wakeup.by.and_then(awake);
            wakeups.entry(wakeup.pid).or_default().push((wakeup.time_ns, cause));
        }
    }
    let mut wakeups: Vec<_> = wakeups.into_iter().collect();
    let ranks = ranks(real);
    wakeups.sort_by(|(a, _), (b, _)| ranks.get(a).cmp(&ranks.get(b)).then(a.cmp(b)));
    // each has a birth, and a wakeup and a block per wakeup
    let mut first_eids: BTreeMap<u32, (TaskId, u64)> = BTreeMap::new();
    for (pid, list) in &wakeups {
        let task = TaskId((workload.tasks.len() + first_eids.len()) as u32);
        first_eids.insert(*pid, (task, next_eid));
        next_eid += 1 + 2 * list.len() as u64;
    }
    for (place, (pid, list)) in wakeups.into_iter().enumerate() {
        let name = real.own_name(pid);
        let (_, birth_eid) = first_eids[&pid];
        let birth = Birth::Init { eid: EventId(birth_eid), parent: None, state: InitState::Blocked };
        let mut events = Vec::with_capacity(2 * list.len());
        let (mut external_ns, mut before_ns) = (0, 0);
        for (number, &(time_ns, cause)) in list.iter().enumerate() {
            let wakeup = match cause {
                // in what the other does when it runs, not at an instant: it may have to wait for the CPU
                Some((waker, number)) => {
                    let (task, first_eid) = first_eids[&waker];
                    let event = EventId(first_eid + 2 + 2 * number as u64);
                    let recorded_after = Span::from_ns(time_ns - before_ns);
                    Wakeup::Dependent { recorded_after, event, task, distance: Span::ZERO }
                }
                None => {
                    let after = Span::from_ns(time_ns - std::mem::replace(&mut external_ns, time_ns));
                    Wakeup::External { after, source: ExternalSource::Absolute }
                }
            };
            before_ns = time_ns;
            let eid = birth_eid + 1 + 2 * number as u64;
            events.push(Event { eid: EventId(eid), kind: EventKind::Wakeup(wakeup) });
            events.push(Event { eid: EventId(eid + 1), kind: EventKind::Block { length: Span::ZERO } });
        }
        out.tasks.push(Task {
            pid: next_pid + place as u32,
            name: name.to_string(),
            birth,
            params: Some(params(name)),
            affinity: cpu_of(name).map(|cpu| CpuSet::from_iter([CpuId(cpu)])),
            cgroup: None,
            kernel_thread: true,
            events,
        });
    }
    out
}

/// Per thread that ever woke up at the same instant as another: its usual place among those, in thousandths.
/// One interrupt wakes several, in an order of its own (`rcu_preempt`, then `ksoftirqd`), and each moves the
/// mean virtual time by which the next is placed: with the order the other way round, the schedules part
/// ways.
fn ranks(real: &ComparedRun) -> BTreeMap<u32, u64> {
    let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for instant in real.own_wakeups.chunk_by(|a, b| (a.time_ns, a.cpu) == (b.time_ns, b.cpu)) {
        let mut seen: Vec<u32> = Vec::new();
        for wakeup in instant {
            if !seen.contains(&wakeup.pid) {
                seen.push(wakeup.pid);
            }
        }
        for (rank, pid) in seen.iter().enumerate().filter(|_| seen.len() > 1) {
            let (sum, count) = sums.entry(*pid).or_default();
            (*sum, *count) = (*sum + rank as u64, *count + 1);
        }
    }
    sums.into_iter().map(|(pid, (sum, count))| (pid, 1000 * sum / count)).collect()
}

/// How the kernel schedules its threads: the stopper above all, high-priority workers at nice -20, the others
/// at nice 0.
fn params(name: &str) -> SchedParams {
    let is_high = name.starts_with("kworker/R-") || (name.starts_with("kworker/") && name.ends_with('H'));
    if name.starts_with("migration/") {
        SchedParams { policy: SchedPolicy::Fifo, rt_priority: 99, ..SchedParams::default() }
    } else if is_high {
        SchedParams::normal(Nice::new(-20).expect("-20 is a nice value"))
    } else {
        SchedParams::default()
    }
}

/// The CPU that a thread is bound to: `kworker/0:1`, `ksoftirqd/3`; not `kworker/u4:0`.
fn cpu_of(name: &str) -> Option<u32> {
    let (_, place) = name.split_once('/')?;
    place.split(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::measure::OwnWakeup;
    use super::*;

    #[test]
    fn bound_threads_are_known_by_their_name() {
        assert_eq!(cpu_of("kworker/0:1"), Some(0));
        assert_eq!(cpu_of("ksoftirqd/13"), Some(13));
        assert_eq!([cpu_of("kworker/u4:0"), cpu_of("rcu_preempt"), cpu_of("kworker/R-sync_")], [None; 3]);
        assert_eq!(params("kworker/0:0H").nice.get(), -20);
        assert_eq!(params("kworker/0:0").nice.get(), 0);
    }

    /// The timer interrupt wakes rcu_preempt (14), then ksoftirqd (13), which wakes rcu_preempt again: at one
    /// instant, in this order.
    #[test]
    fn threads_that_wake_together_keep_their_order() {
        let wakeup = |ms: u64, pid| OwnWakeup { time_ns: ms * 1_000_000, pid, cpu: 0, by: None };
        let real = ComparedRun {
            own_wakeups: vec![wakeup(1, 13), wakeup(5, 14), wakeup(37, 14), wakeup(37, 13), wakeup(37, 14)],
            own_names: vec![(13, "ksoftirqd/0".into()), (14, "rcu_preempt".into())],
            ..ComparedRun::default()
        };
        let workload = schedlab_machine::drawn::workload(&[&[schedlab_machine::drawn::Life::Run(1)]]);
        let with = with_own_threads(&workload, &real);
        let names: Vec<&str> = with.tasks[1..].iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["rcu_preempt", "ksoftirqd/0"]);
    }

    #[test]
    fn wakeups_become_tasks() {
        let wakeup = |ms: u64, pid| OwnWakeup { time_ns: ms * 1_000_000, pid, cpu: 0, by: None };
        let real = ComparedRun {
            own_wakeups: vec![wakeup(0, 1), wakeup(1, 10), wakeup(5, 10)],
            own_names: vec![(1, "swapper/0".into()), (10, "kworker/0:1".into())],
            ..ComparedRun::default()
        };
        let mut workload = schedlab_machine::drawn::workload(&[&[schedlab_machine::drawn::Life::Run(1)]]);
        // (a drawn task has no identifier of its birth)
        workload.tasks[0].birth = Birth::Init { eid: EventId(900), parent: None, state: InitState::Runnable };
        workload.check().unwrap();
        let with = with_own_threads(&workload, &real);
        with.check().unwrap();
        assert_eq!(with.tasks.len(), 2);
        let after: Vec<u64> = with.tasks[1]
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Wakeup(Wakeup::External { after, .. }) => Some(after.as_ns() / 1_000_000),
                _ => None,
            })
            .collect();
        assert_eq!(after, [1, 4]);
    }

    /// ksoftirqd (13) is woken at 1 ms, has to wait, and wakes rcu_preempt (14) at 3 ms, when it runs.
    /// rcu_preempt is woken by an interrupt at 5.
    #[test]
    fn what_a_thread_wakes_waits_for_it() {
        let wakeup = |ms: u64, pid, by| OwnWakeup { time_ns: ms * 1_000_000, pid, cpu: 0, by };
        let real = ComparedRun {
            own_wakeups: vec![wakeup(1, 13, None), wakeup(3, 14, Some(13)), wakeup(5, 14, None)],
            own_names: vec![(13, "ksoftirqd/0".into()), (14, "rcu_preempt".into())],
            ..ComparedRun::default()
        };
        let mut workload = schedlab_machine::drawn::workload(&[&[schedlab_machine::drawn::Life::Run(1)]]);
        workload.tasks[0].birth = Birth::Init { eid: EventId(900), parent: None, state: InitState::Runnable };
        let with = with_own_threads(&workload, &real);
        with.check().unwrap();
        let (waker, woken) = (&with.tasks[1], &with.tasks[2]);
        assert_eq!((waker.name.as_str(), woken.name.as_str()), ("ksoftirqd/0", "rcu_preempt"));
        let EventKind::Wakeup(Wakeup::Dependent { event, task, .. }) = woken.events[0].kind else {
            panic!("{:?}", woken.events)
        };
        assert_eq!((task, event), (TaskId(1), waker.events[1].eid));
        let EventKind::Wakeup(Wakeup::External { after, .. }) = woken.events[2].kind else {
            panic!("{:?}", woken.events)
        };
        assert_eq!(
            after,
            Span::from_ms(5),
            "the instant counts from the last instant that was planned, not from the other's run"
        );
    }
}
