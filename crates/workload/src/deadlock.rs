//! Do some tasks wait for each other for ever?
//!
//! ```text
//! a: BLOCK 1ms, WAKEUP before b's event 6         a waits until b gets on to event 6,
//! b: BLOCK 1ms, WAKEUP before a's event 3         b waits until a gets on to event 3: neither ever does
//! ```
//!
//! Whether a dependent wakeup can happen depends on the order of the events alone, not on time or scheduler:
//! it can as soon as the waker has done every event before the one named. So each task is followed as far as
//! it gets; what then still waits, waits for ever.

use crate::index::{EventIndex, EventPlace};
use crate::{Birth, EventId, EventKind, Wakeup, Workload};
use schedlab_units::TaskId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// Tasks that wait for each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each waits for the next, the last for the first.
    pub circle: Vec<Waiting>,
}

/// One task of a [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Who waits.
    pub task: TaskId,
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its WAKEUP that does not happen; `None`: it waits to be forked.
    pub wakeup: Option<EventId>,
    /// Whom it waits for (a pid).
    pub waker: u32,
    /// The event that the other would have to be about to do.
    pub event: Option<EventId>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tasks wait for each other: ")?;
        for (i, waiting) in self.circle.iter().enumerate() {
            let Waiting { pid, name, waker, .. } = waiting;
            let separator = if i == 0 { "" } else { "; " };
            match (waiting.wakeup, waiting.event) {
                (Some(wakeup), Some(event)) => write!(
                    f,
                    "{separator}task {pid} ({name}) wakes (event {}) only when task {waker} gets to event {}",
                    wakeup.0, event.0
                )?,
                _ => write!(f, "{separator}task {pid} ({name}) starts only when task {waker} forks it")?,
            }
        }
        Ok(())
    }
}

/// Finds tasks that wait for each other for ever; `None` if every wakeup can happen. Expects a workload that passes
/// [`Workload::check`] (in another, an unknown event never happens). Time and memory in proportion to the events.
pub fn find_deadlock(workload: &Workload) -> Option<Deadlock> {
    let nr = workload.tasks.len();
    let (index, _) = EventIndex::build(workload, 0);
    let mut born: Vec<bool> =
        workload.tasks.iter().map(|task| matches!(task.birth, Birth::Init { .. })).collect();
    let mut done = vec![0usize; nr]; // events done, per task
    let mut sleepers: Vec<BinaryHeap<Reverse<(usize, usize)>>> = vec![BinaryHeap::new(); nr]; // (needs done, who)
    let mut queue: Vec<usize> = (0..nr).rev().filter(|&row| born[row]).collect();
    let waker = |row: usize, at: usize| match workload.tasks[row].events.get(at)?.kind {
        EventKind::Wakeup(Wakeup::Dependent { task, event, .. }) if task.index() < nr => {
            match index.find(event) {
                Some(EventPlace::Event(owner, place)) if owner == task => Some((owner.index(), place)),
                _ => Some((task.index(), usize::MAX)),
            }
        }
        _ => None,
    };
    while let Some(row) = queue.pop() {
        let events = &workload.tasks[row].events;
        while done[row] < events.len() {
            if let Some((waker, place)) = waker(row, done[row])
                && (!born[waker] || done[waker] < place)
            {
                sleepers[waker].push(Reverse((place, row)));
                break;
            }
            if let EventKind::Fork { child, .. } = events[done[row]].kind
                && let Some(child_born) = born.get_mut(child.index())
                && !*child_born
            {
                *child_born = true;
                queue.push(child.index());
            }
            done[row] += 1;
        }
        while let Some(&Reverse((place, sleeper))) = sleepers[row].peek()
            && place <= done[row]
        {
            sleepers[row].pop();
            queue.push(sleeper);
        }
    }
    let stuck = |row: usize| born[row] && done[row] < workload.tasks[row].events.len();
    let first = (0..nr).find(|&row| stuck(row))?;
    // everyone stuck waits for one other task: follow until somebody comes twice
    let waits_for = |row: usize| match workload.tasks[row].birth {
        Birth::Fork { parent } if !born[row] => Some(parent.index()).filter(|&parent| parent < nr),
        _ => waker(row, done[row]).map(|(waker, _)| waker),
    };
    let mut path = vec![first];
    let circle = loop {
        let next = waits_for(*path.last()?)?;
        if let Some(start) = path.iter().position(|&row| row == next) {
            break path.split_off(start);
        }
        path.push(next);
    };
    let waiting = |row: usize| {
        let task = &workload.tasks[row];
        let (wakeup, event) = match task.events.get(done[row]) {
            Some(at) if born[row] => match at.kind {
                EventKind::Wakeup(Wakeup::Dependent { event, .. }) => (Some(at.eid), Some(event)),
                _ => (Some(at.eid), None),
            },
            _ => (None, None),
        };
        let waker = waits_for(row).map_or(0, |waker| workload.tasks[waker].pid);
        Waiting { task: TaskId(row as u32), pid: task.pid, name: task.name.clone(), wakeup, waker, event }
    };
    Some(Deadlock { circle: circle.into_iter().map(waiting).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_text;

    fn find(text: &str) -> Option<String> {
        let workload = parse_text("test", text.as_bytes()).unwrap();
        workload.check().unwrap();
        find_deadlock(&workload).map(|deadlock| deadlock.to_string())
    }

    // a: .BLOCK wait for b's event 6      b: .BLOCK wait for a's event 3
    #[test]
    fn two_tasks_that_wait_for_each_other_are_named() {
        let text = "1 INIT 0 0 1 runnable name=a\n2 INIT 0 0 2 runnable name=b\n\
            - BLOCK 1 1ms\n- WAKEUP 1 0 6 2 0\n3 EXIT 1 1ms\n\
            - BLOCK 2 1ms\n- WAKEUP 2 0 3 1 0\n6 EXIT 2 1ms\n";
        let message = find(text).unwrap();
        assert!(message.contains("task 1 (a)") && message.contains("task 2 (b)"), "{message}");
        assert!(message.contains("gets to event 6") && message.contains("gets to event 3"), "{message}");
    }

    #[test]
    fn taking_turns_is_no_deadlock() {
        let text = "1 INIT 0 0 1 runnable\n2 INIT 0 0 2 blocked\nREPEAT 5 {\n\
            @a BLOCK 1 1ms\n- WAKEUP 1 0 @b 2 0\n- WAKEUP 2 0 @a 1 0\n@b BLOCK 2 1ms\n}\n";
        assert_eq!(find(text), None);
    }

    // p waits for its own child's turn, which comes only after p has forked it
    #[test]
    fn a_child_that_cannot_be_forked_closes_the_circle() {
        let text = "1 INIT 0 0 1 runnable name=p\n- BLOCK 1 0\n- WAKEUP 1 0 9 2 0\n- FORK 1 1ms 2 name=c\n\
            9 EXIT 2 1ms\n";
        let message = find(text).unwrap();
        assert!(message.contains("task 2 (c) starts only when task 1 forks it"), "{message}");
        assert!(message.contains("task 1 (p)"), "{message}");
    }
}
