//! What would these tasks do without the others?
//!
//! ```text
//! make  F----F---------w      ->   (gone)
//! cc1    RRR-----RRX                RRR-----RRX      begins when make would have forked it, by own time
//! as          R---------RX               R---------RX      its wakeup by make comes after the recorded time: external
//! ```
//!
//! Tasks that stay keep their events. What came from a task that goes is outside then, and counted:
//!
//! * a wakeup by it happens after the recorded time (`0 0 0`, timer);
//! * a child of it is there from the start, blocked, and wakes at the own time of its FORK ([`OwnClock`]);
//! * an object that it used is closed: nobody waits at it;
//! * FORKs and PRIOs that concern it are left out. A wakeup that depended on such an event depends on the
//!   waker's next one, at the same place of the waker's CPU time.

use super::Edit;
use super::settings::{Delta, Settings, at_birth};
use crate::stream::{Head, Source, StreamError};
use crate::{Birth, Event, EventId, EventKind, ExternalSource, InitState, ObjectId, ParamChange, Wakeup};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Whoever stays would wait at it for a task that goes.
const CLOSED: &str = "object closed, since a task that was filtered out used it: nobody waits there";

/// Leaves some tasks of a workload.
#[derive(Clone, Debug)]
pub struct Filter {
    head: Head,
    /// Per old row: the new one.
    rows: Vec<Option<TaskId>>,
    /// Removed events of tasks that stay: the next event that stays, and how much later it is.
    moved: BTreeMap<EventId, (EventId, Span)>,
    /// Removed events after which the task runs no more: they become its last BLOCK.
    last: BTreeSet<EventId>,
    /// Wakeups that begin the lives of children whose parents go.
    arrivals: BTreeMap<u32, Event>,
    /// Those that have begun in this pass.
    arrived: BTreeSet<u32>,
    /// When such children are born, until they have set their first timer for an instant in this pass: it
    /// counted from the birth.
    instants: BTreeMap<u32, Span>,
    /// Objects that tasks use which go.
    closed: BTreeSet<ObjectId>,
    births: BTreeMap<u32, Span>,
}

impl Filter {
    /// Keeps the tasks with `keep` set; reads `source` once.
    pub fn new(source: &Source, keep: &[bool]) -> Result<Filter, StreamError> {
        let old = source.head();
        let mut next = 0;
        let rows: Vec<Option<TaskId>> = (0..old.workload.tasks.len())
            .map(|row| {
                let stays = keep.get(row).copied().unwrap_or(false);
                stays.then(|| {
                    next += 1;
                    TaskId(next - 1)
                })
            })
            .collect();
        let mut filter = Filter {
            head: Head { eid_max: old.eid_max, ..Head::default() },
            rows,
            moved: BTreeMap::new(),
            last: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            arrived: BTreeSet::new(),
            instants: BTreeMap::new(),
            closed: BTreeSet::new(),
            births: BTreeMap::new(),
        };
        // per task: removed events since the last one that stays, with their lengths
        let mut pending: BTreeMap<u32, Vec<(EventId, Span)>> = BTreeMap::new();
        // what each task has changed of itself so far, and what its children inherit of that
        let mut changed: BTreeMap<u32, Delta> = BTreeMap::new();
        let mut inherited = vec![Delta::default(); filter.rows.len()];
        let (mut nr_events, mut woken, mut set) = (0, 0, 0);
        source.runs(&mut |row, events| {
            for event in events.iter() {
                match &event.kind {
                    EventKind::Prio { change, .. } if change.target.is_none_or(|target| target == row) => {
                        changed.entry(row.0).or_default().add(change);
                    }
                    EventKind::Fork { child, .. } => {
                        if let Some(delta) = changed.get(&row.0) {
                            inherited[child.index()].clone_from(delta);
                        }
                    }
                    _ => {}
                }
            }
            if filter.row(row).is_none() {
                filter.closed.extend(events.iter().flat_map(|event| event.kind.objects()));
                return Ok(());
            }
            let waits = pending.entry(row.0).or_default();
            for event in events.iter() {
                nr_events += 1;
                filter.head.needs_version = filter.head.needs_version.max(event.kind.version());
                if filter.goes(event) {
                    set += u64::from(matches!(event.kind, EventKind::Prio { .. }));
                    nr_events -= 1;
                    waits.push((event.eid, event.kind.length().unwrap_or_default()));
                    continue;
                }
                if let EventKind::Wakeup(Wakeup::Dependent { task, .. }) = event.kind {
                    woken += u64::from(filter.row(task).is_none());
                }
                if let Some(length) = event.kind.length() {
                    for (eid, before) in waits.drain(..) {
                        filter.moved.insert(eid, (event.eid, length.saturating_sub(before)));
                    }
                }
            }
            Ok(())
        })?;
        for mut removed in pending.into_values() {
            // the last of them stays, as a BLOCK: the task does nothing after it
            let Some((last, length)) = removed.pop() else { continue };
            nr_events += 1;
            filter.last.insert(last);
            for (eid, before) in removed {
                filter.moved.insert(eid, (last, length.saturating_sub(before)));
            }
        }
        filter.set_head(old, nr_events, &at_birth(&old.workload, &inherited))?;
        let (dropped, closed) = (&mut filter.head.workload, &filter.closed);
        let nr_closed = dropped.close_objects(|object| closed.contains(&object));
        dropped.count_dropped(CLOSED, nr_closed);
        dropped.count_dropped("wakeup by a task that was filtered out, made external", woken);
        dropped.count_dropped("change of parameters of a task that was filtered out, left out", set);
        Ok(filter)
    }

    fn row(&self, old: TaskId) -> Option<TaskId> {
        self.rows.get(old.0 as usize).copied().flatten()
    }

    /// The row of a child that is still forked by its parent.
    fn forked(&self, old: &Head, child: TaskId) -> Option<TaskId> {
        let Birth::Fork { parent } = old.workload.tasks.get(child.0 as usize)?.birth else { return None };
        self.row(parent).and(self.row(child))
    }

    /// Whether an event concerns a task that goes.
    fn goes(&self, event: &Event) -> bool {
        match &event.kind {
            EventKind::Fork { child, .. } => self.row(*child).is_none(),
            EventKind::Prio { change, .. } => change.target.is_some_and(|target| self.row(target).is_none()),
            _ => false,
        }
    }

    fn set_head(&mut self, old: &Head, nr_events: u64, born: &[Settings]) -> Result<(), StreamError> {
        let (mut orphans, mut gone) = (0, 0);
        let workload = &old.workload;
        let mut head = Head {
            workload: crate::Workload {
                tasks: Vec::new(),
                cgroups: workload.cgroups.clone(),
                objects: workload.objects.clone(),
                dropped: workload.dropped.clone(),
                notes: workload.notes.clone(),
            },
            nr_events,
            forks: old.forks.iter().filter_map(|&child| self.forked(old, child)).collect(),
            ..self.head.clone()
        };
        for (row, task) in workload.tasks.iter().enumerate() {
            if self.rows[row].is_none() {
                gone += 1;
                continue;
            }
            let mut task = task.clone();
            let life = old.lives[row];
            match task.birth {
                Birth::Init { eid, parent, state } => {
                    let parent = parent.and_then(|parent| self.row(parent));
                    task.birth = Birth::Init { eid, parent, state };
                    head.nr_events += 1;
                }
                Birth::Fork { parent } => match self.row(parent) {
                    Some(parent) => task.birth = Birth::Fork { parent },
                    None => {
                        orphans += 1;
                        head.nr_events += 1;
                        // the FORK goes; its identifier is free
                        let eid = life.fork.unwrap_or_default();
                        let runnable = life.birth == Span::ZERO;
                        let state = if runnable { InitState::Runnable } else { InitState::Blocked };
                        task.birth = Birth::Init { eid, parent: None, state };
                        born[row].clone().give(&mut task);
                        if !runnable && life.nr_events > 0 {
                            head.nr_events += 1;
                            head.eid_max.0 = head.eid_max.0.checked_add(1).ok_or(StreamError::Identifiers)?;
                            let wakeup =
                                Wakeup::External { after: life.birth, source: ExternalSource::Timer };
                            let event = Event { eid: head.eid_max, kind: EventKind::Wakeup(wakeup) };
                            self.arrivals.insert(row as u32, event);
                            self.births.insert(row as u32, life.birth);
                        }
                    }
                },
            }
            head.workload.tasks.push(task);
        }
        head.workload.count_dropped("task filtered out", gone);
        head.workload.count_dropped(
            "task whose parent was filtered out; starts by itself when it would have been forked",
            orphans,
        );
        self.head = head;
        Ok(())
    }
}

impl Edit for Filter {
    fn head(&self) -> &Head {
        &self.head
    }

    fn begin(&mut self) {
        self.arrived.clear();
        self.instants.clone_from(&self.births);
    }

    fn run(&mut self, row: TaskId, events: &mut Vec<Event>) -> Option<TaskId> {
        let new = self.row(row)?;
        events.retain_mut(|event| {
            if self.goes(event) {
                if self.last.contains(&event.eid) {
                    event.kind = EventKind::Block { length: event.kind.length().unwrap_or_default() };
                    return true;
                }
                return false;
            }
            match &mut event.kind {
                EventKind::Fork { child, .. } => *child = self.row(*child).unwrap_or(*child),
                EventKind::Prio { change, .. } => {
                    let ParamChange { target, .. } = &mut **change;
                    *target = target.and_then(|target| self.row(target));
                }
                EventKind::Wakeup(Wakeup::External { after, source }) if source.is_instant() => {
                    if let Some(birth) = self.instants.remove(&row.0) {
                        *after = Span::from_ns(after.as_ns().saturating_add(birth.as_ns()));
                    }
                }
                EventKind::Wakeup(wakeup) => {
                    if let Wakeup::Dependent { recorded_after, event, task, distance } = wakeup {
                        *wakeup = match self.row(*task) {
                            None => {
                                Wakeup::External { after: *recorded_after, source: ExternalSource::Timer }
                            }
                            Some(task) => {
                                let (event, later) =
                                    self.moved.get(event).copied().unwrap_or((*event, Span::ZERO));
                                let distance = Span::from_ns(distance.as_ns().saturating_add(later.as_ns()));
                                Wakeup::Dependent { recorded_after: *recorded_after, event, task, distance }
                            }
                        };
                    }
                }
                _ => {}
            }
            true
        });
        if let Some(arrival) = self.arrivals.get(&row.0)
            && self.arrived.insert(row.0)
        {
            events.insert(0, arrival.clone());
        }
        Some(new)
    }
}
