//! Which wakeups of a recording belong to a system call in which their waker then sleeps or ends?
//!
//! ```text
//! vfork() of gcc                              exit() of cc1
//!   FORK  gcc 849us cc1                         SEND cc1 13ms children     wakes gcc
//!   BLOCK gcc 852us        3 us later           EXIT cc1 13ms              at once
//!   WAKEUP ... by cc1
//! becomes
//!   CALL  gcc 849us                             CALL cc1 13ms
//!   FORK, BLOCK, WAKEUP                         SEND, EXIT
//! ```
//!
//! A task that wakes a thread of the kernel and sleeps at once, which no signal ends (`D`), is the third kind: it has
//! the disk's worker write, and waits for the disk.
//!
//! A kernel that is not preempted within system calls gives nobody the CPU in between. A replay that does lets a parent
//! take the CPU of a child that has nothing left but its end, and the child waits for that.

use super::tasks::Calls;
use crate::{Event, EventId, EventKind, Wakeup, Workload};
use schedlab_units::{Span, TaskId};
use std::collections::{HashMap, HashSet};

/// So much CPU time may lie between a wakeup and the sleep or the end that belong to one call. Linux 6.18 showed 2 to
/// 4 us from a vfork() to its sleep, and 9 us from an exit's wakeup of the parent to the last switch.
const WITHIN: Span = Span::from_ns(20_000);

/// How many calls were marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marked {
    forks: u64,
    sleeps: u64,
    exits: u64,
}

/// Puts a CALL before what belongs to a call that sleeps or ends. `shown` has a row for each task.
pub(super) fn mark(workload: &mut Workload, shown: &[Calls]) {
    let mut next_eid = workload.free_eid().0;
    let (ends, mut sleeps) = (ends(workload, shown), sleeps(workload, shown));
    let mut marked = Marked::default();
    for ((task, shown), end) in workload.tasks.iter_mut().zip(shown).zip(ends) {
        let calls = calls(&task.events, (shown, &mut sleeps), end, &mut marked);
        if calls.is_empty() {
            continue;
        }
        let mut calls = calls.into_iter().peekable();
        let events = std::mem::take(&mut task.events);
        task.events.reserve_exact(events.len() + calls.len());
        for (index, event) in events.into_iter().enumerate() {
            if let Some((_, length)) = calls.next_if(|(at, _)| *at == index) {
                task.events.push(Event { eid: EventId(next_eid), kind: EventKind::Call { length } });
                next_eid += 1;
            }
            task.events.push(event);
        }
    }
    if marked != Marked::default() {
        let Marked { forks, sleeps, exits } = marked;
        let text = format!(
            "{forks} forks whose parent sleeps at once, {sleeps} wakeups of the kernel's threads before a sleep, \
                {exits} ends that wake somebody"
        );
        workload.notes.insert("system calls that wake and then sleep or end".into(), text);
    }
}

/// Before which of a task's events a CALL comes, and after how much CPU time.
fn calls(
    events: &[Event],
    (shown, sleeps): (&Calls, &mut HashMap<EventId, Span>),
    end: Option<Span>,
    marked: &mut Marked,
) -> Vec<(usize, Span)> {
    let length_before = |index: usize| index.checked_sub(1).and_then(|before| events[before].kind.length());
    let just_before = |from: Span| from.saturating_sub(Span::from_ns(1));
    let mut calls = Vec::new();
    if !shown.sleeps.is_empty() {
        for (index, event) in events.iter().enumerate() {
            let Some(from) = sleeps.remove(&event.eid) else { continue };
            // other events within the call would be part of it
            if length_before(index).is_none_or(|before| before < from) {
                marked.sleeps += 1;
                calls.push((index, just_before(from)));
            }
        }
    }
    if !shown.vforks.is_empty() {
        let vforks = events.windows(3).enumerate().filter(|(_, three)| is_vfork(three, &shown.vforks));
        for (index, three) in vforks {
            marked.forks += 1;
            calls.extend(three[0].kind.length().map(|length| (index, length)));
        }
    }
    if let Some(from) = end {
        marked.exits += 1;
        let index = first_not_before(events, from);
        calls.push((index, just_before(from).max(length_before(index).unwrap_or(Span::ZERO))));
    }
    calls.sort_unstable();
    calls
}

/// Where sleeps begin, CPU time since the last wakeup, whose task has just woken a thread of the kernel.
fn sleeps(workload: &Workload, shown: &[Calls]) -> HashMap<EventId, Span> {
    let mut sleeps: HashMap<EventId, Span> = HashMap::new();
    let wanted: HashSet<EventId> = shown.iter().flat_map(|shown| &shown.sleeps).copied().collect();
    if wanted.is_empty() {
        return sleeps;
    }
    let kernel_threads = workload.tasks.iter().filter(|task| task.kernel_thread);
    for event in kernel_threads.flat_map(|task| &task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event, distance, .. }) = event.kind
            && distance <= WITHIN
            && wanted.contains(&event)
        {
            let first = sleeps.entry(event).or_insert(distance);
            *first = distance.max(*first);
        }
    }
    // from a distance before the sleep to CPU time since the last wakeup
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        if let (Some(from), Some(length)) = (sleeps.get_mut(&event.eid), event.kind.length()) {
            *from = length.saturating_sub(*from);
        }
    }
    sleeps
}

/// A fork whose parent sleeps at once until the child wakes it. `vforks` is in order.
fn is_vfork(events: &[Event], vforks: &[EventId]) -> bool {
    let [fork, block, wakeup] = events else { return false };
    match (&fork.kind, &block.kind, &wakeup.kind) {
        (
            EventKind::Fork { length, child },
            EventKind::Block { length: until },
            EventKind::Wakeup(Wakeup::Dependent { task, .. }),
        ) => {
            task == child
                && until.saturating_sub(*length) <= WITHIN
                && vforks.binary_search(&block.eid).is_ok()
        }
        _ => false,
    }
}

/// The first event of the task's last stretch that is not before a length.
fn first_not_before(events: &[Event], from: Span) -> usize {
    let before = |event: &Event| event.kind.length().is_none_or(|length| length < from);
    events.iter().rposition(before).map_or(0, |last| last + 1)
}

/// Whether it may be part of a task's end.
fn is_of_end(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Object { .. } | EventKind::Exit { .. })
}

/// For each task, from which CPU time of its last stretch on it wakes others within its end.
fn ends(workload: &Workload, shown: &[Calls]) -> Vec<Option<Span>> {
    let mut ends = vec![None; workload.tasks.len()];
    // where the end is, and from where on it counts
    let end_of = |task: TaskId| {
        let begun = Span::from_ns(shown.get(task.index())?.ends_from_ns?);
        match workload.tasks[task.index()].events.last()?.kind {
            EventKind::Exit { length } => Some((length, begun.max(length.saturating_sub(WITHIN)))),
            _ => None,
        }
    };
    let mut wakes = |task: TaskId, at: Span, from: Span| {
        if at >= from {
            let first: &mut Option<Span> = &mut ends[task.index()];
            *first = Some(first.map_or(at, |first| first.min(at)));
        }
    };
    for (row, task) in workload.tasks.iter().enumerate() {
        let row = TaskId(row as u32);
        for event in &task.events {
            let EventKind::Wakeup(Wakeup::Dependent { event, task: waker, distance, .. }) = event.kind else {
                continue;
            };
            let Some((_, from)) = end_of(waker) else { continue };
            let last =
                workload.tasks[waker.index()].events.iter().rev().take_while(|event| is_of_end(&event.kind));
            let length = last.filter(|last| last.eid == event).find_map(|last| last.kind.length());
            if let Some(length) = length {
                wakes(waker, length.saturating_sub(distance), from);
            }
        }
        let Some((_, from)) = end_of(row) else { continue };
        for event in task.events.iter().rev().skip(1) {
            match event.kind {
                EventKind::Object { length, .. } => wakes(row, length, from),
                _ => break,
            }
        }
    }
    ends
}
