//! What happens between two times? A window of own time ([`OwnClock`]), which begins anew at 0.
//!
//! A workload holds no schedule, so the window is one of *own time*: when things would happen if nobody ever
//! waited for a CPU.
//!
//! ```text
//! own time    0    2    4    6    8    10   12   14           --from 3ms --to 12ms
//! a           RRRRRRRRRR---------------RRRRRRRRRRRR           INIT runnable, BLOCK 2ms, WAKEUP 5ms, BLOCK 2ms
//! b                ------(by a)RRRRX                          INIT blocked, WAKEUP (by a), EXIT
//! c                                         RRRRRRX           comes later: left out
//! ```
//!
//! * A task in the midst of running when the window begins starts runnable, with what is left; one in the
//!   midst of a block starts blocked. Its settings are those that it has by then. A task that runs when the
//!   window ends gets a last BLOCK there.
//! * A wakeup by another task stays one if the place from where it comes lies in the window of that task's
//!   own time too; else it happens after the recorded time. How many do is counted: the two own times of
//!   waker and sleeper drift apart by what they waited.
//! * Objects are closed, so that nobody waits at them, and counted: how they stand when the window begins depends on
//!   the schedule.
//! * A task that has ended before the window, or comes after it, is left out.

use super::Edit;
use super::settings::{Delta, Settings, at_birth};
use crate::stream::{Head, OwnClock, Source, StreamError};
use crate::{Birth, Event, EventId, EventKind, ExternalSource, InitState, ParamChange, Wakeup, Workload};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// How an object stands when the window begins is not known.
const CLOSED: &str =
    "object closed, since what was done at it before the window is left out: nobody waits there";

/// Takes a window of a workload.
#[derive(Clone, Debug)]
pub struct Cut {
    head: Head,
    from: Span,
    to: Span,
    births: Vec<Span>,
    /// Per old row: the new one.
    rows: Vec<Option<TaskId>>,
    windows: Vec<Window>,
    /// Of this pass: each task's own time, and whether the window is over for it.
    clocks: BTreeMap<u32, (OwnClock, bool)>,
}

/// Changes of a task's parameters before the window, each with its time.
type History = BTreeMap<u32, Vec<(u64, ParamChange)>>;

/// What of a task lies in the window.
#[derive(Clone, Debug, Default)]
struct Window {
    /// How it stands when the window begins.
    start: Standing,
    /// The first event in the window that takes CPU time, and its new length.
    first: Option<(EventId, Span)>,
    /// First and last event in the window.
    kept: Option<(EventId, EventId)>,
    /// All of them, if identifiers do not ascend.
    listed: Option<BTreeSet<EventId>>,
    nr_kept: u64,
    /// The event that becomes a BLOCK at the window's end: by how much it is shortened there, and its new length.
    end: Option<(EventId, Span, Span)>,
    /// Another task's PRIO in the window concerns it.
    needed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Not yet born when the window begins.
    #[default]
    Unborn,
    Runnable,
    Blocked,
    Ended,
}

/// Where an event lies.
enum Place {
    Before,
    Within,
    /// The task runs when the window ends, until this event: its new length as a BLOCK.
    End(Span),
    After,
}

impl Cut {
    /// The window from `from` up to, and without, `to`. Reads `source` twice.
    pub fn new(source: &Source, from: Span, to: Span) -> Result<Cut, StreamError> {
        let old = source.head();
        let nr = old.workload.tasks.len();
        let mut cut = Cut {
            head: Head { eid_max: old.eid_max, ..Head::default() },
            from,
            to: to.max(from),
            births: old.lives.iter().map(|life| life.birth).collect(),
            rows: vec![None; nr],
            windows: vec![Window::default(); nr],
            clocks: BTreeMap::new(),
        };
        for (row, task) in old.workload.tasks.iter().enumerate() {
            let window = &mut cut.windows[row];
            window.start = match task.birth {
                Birth::Init { state: InitState::Runnable, .. } => Standing::Runnable,
                Birth::Init { state: InitState::Blocked, .. } => Standing::Blocked,
                Birth::Fork { .. } if old.lives[row].birth < from => Standing::Runnable,
                Birth::Fork { .. } => Standing::Unborn,
            };
            window.listed = (!old.lives[row].ascending).then(BTreeSet::new);
        }
        let (changed, inherited) = cut.look(source)?;
        let mut settings = at_birth(&old.workload, &inherited);
        for (row, changes) in changed {
            let mut delta = Delta::default();
            changes.iter().for_each(|(_, change)| delta.add(change));
            delta.apply(&mut settings[row as usize]);
        }
        cut.set_head(old, settings)?;
        cut.count_external(source)?;
        Ok(cut)
    }

    fn is_born_within(&self, row: usize) -> bool {
        self.windows[row].start == Standing::Unborn && self.births[row] < self.to
    }

    fn set_head(&mut self, old: &Head, settings: Vec<Settings>) -> Result<(), StreamError> {
        let (mut ended, mut idle, mut next) = (0, 0, 0);
        for (row, window) in self.windows.iter().enumerate() {
            if self.is_born_within(row) || window.needed || window.nr_kept > 0 {
                self.rows[row] = Some(TaskId(next));
                next += 1;
            } else if window.start == Standing::Ended {
                ended += 1;
            } else {
                idle += 1;
            }
        }
        let mut workload = Workload {
            tasks: Vec::new(),
            cgroups: old.workload.cgroups.clone(),
            objects: old.workload.objects.clone(),
            dropped: old.workload.dropped.clone(),
            notes: old.workload.notes.clone(),
        };
        let mut nr_events = 0;
        for (row, settings) in settings.into_iter().enumerate() {
            if self.rows[row].is_none() {
                continue;
            }
            let window = &self.windows[row];
            nr_events += window.nr_kept;
            let mut task = old.workload.tasks[row].clone();
            let (parent, eid) = match task.birth {
                Birth::Init { eid, parent, .. } => (parent, eid),
                Birth::Fork { parent } if self.births[row] >= self.to => {
                    self.head.eid_max.0 =
                        self.head.eid_max.0.checked_add(1).ok_or(StreamError::Identifiers)?;
                    (Some(parent), self.head.eid_max)
                }
                // if it was forked before the window, the FORK's identifier is free
                Birth::Fork { parent } => (Some(parent), old.lives[row].fork.unwrap_or_default()),
            };
            let parent = parent.and_then(|parent| self.rows.get(parent.0 as usize).copied().flatten());
            match parent.filter(|_| self.is_born_within(row)) {
                Some(parent) => task.birth = Birth::Fork { parent },
                None => {
                    settings.give(&mut task);
                    nr_events += 1;
                    let runnable = window.start == Standing::Runnable && window.nr_kept > 0;
                    let state = if runnable { InitState::Runnable } else { InitState::Blocked };
                    task.birth = Birth::Init { eid, parent, state };
                }
            }
            workload.tasks.push(task);
        }
        workload.notes.insert("cut".into(), format!("own time {} to {}", self.from, self.to));
        workload.count_dropped("task that ended before the window, left out", ended);
        workload.count_dropped("task that does nothing in the window, left out", idle);
        let closed = workload.close_objects(|_| true);
        workload.count_dropped(CLOSED, closed);
        let forks = old.forks.iter().filter(|child| self.is_born_within(child.index()));
        self.head.forks = forks.filter_map(|child| self.rows[child.index()]).collect();
        self.head.nr_events = nr_events;
        self.head.workload = workload;
        Ok(())
    }

    /// The first pass: each task's window; changes of it until then, in order of time; and what it inherits.
    fn look(&mut self, source: &Source) -> Result<(History, Vec<Delta>), StreamError> {
        let mut history = History::new();
        let mut own: BTreeMap<u32, Delta> = BTreeMap::new();
        let mut inherited = vec![Delta::default(); self.rows.len()];
        self.clocks.clear();
        source.runs(&mut |row, events| {
            for event in events.iter() {
                let (place, before) = self.step(row, event);
                match (&event.kind, &place) {
                    (EventKind::Fork { child, .. }, Place::Before) => {
                        if let Some(delta) = own.get(&row.0) {
                            inherited[child.index()].clone_from(delta);
                        }
                    }
                    (EventKind::Prio { length, change }, Place::Before) => {
                        let target = change.target.unwrap_or(row);
                        if target == row {
                            own.entry(row.0).or_default().add(change);
                        }
                        let at_ns = self.absolute(row, before.woken()).as_ns().saturating_add(length.as_ns());
                        history.entry(target.0).or_default().push((at_ns, (**change).clone()));
                    }
                    (EventKind::Prio { change, .. }, Place::Within) => {
                        if let Some(target) = change.target {
                            self.windows[target.index()].needed = true;
                        }
                    }
                    _ => {}
                }
                self.note(row, event, &place, &before);
            }
            Ok(())
        })?;
        history.values_mut().for_each(|changes| changes.sort_by_key(|(at_ns, _)| *at_ns));
        Ok((history, inherited))
    }

    /// Notes in a task's window where its next event lies.
    fn note(&mut self, row: TaskId, event: &Event, place: &Place, before: &OwnClock) {
        let shortened = event.kind.length().map(|length| self.shortened(row, before, length));
        let window = &mut self.windows[row.index()];
        match *place {
            Place::Before => {
                window.start = match event.kind {
                    EventKind::Exit { .. } => Standing::Ended,
                    EventKind::Block { .. } => Standing::Blocked,
                    _ => Standing::Runnable,
                };
            }
            Place::Within => {
                self.head.needs_version = self.head.needs_version.max(event.kind.version());
                window.nr_kept += 1;
                window.first = window.first.or(shortened.map(|length| (event.eid, length)));
                window.kept = Some((window.kept.map_or(event.eid, |(first, _)| first), event.eid));
                if let Some(listed) = &mut window.listed {
                    listed.insert(event.eid);
                }
            }
            Place::End(length) => {
                window.nr_kept += 1;
                let by = shortened.unwrap_or_default().saturating_sub(length);
                window.end = Some((event.eid, by, length));
            }
            Place::After => {}
        }
    }

    /// A task's own time as one from the start of the workload.
    fn absolute(&self, row: TaskId, own: Span) -> Span {
        Span::from_ns(own.as_ns().saturating_add(self.births[row.index()].as_ns()))
    }

    /// The length of a running event, counted from the window's begin if that lies in the same stretch;
    /// `before`: the task's own time before it.
    fn shortened(&self, row: TaskId, before: &OwnClock, length: Span) -> Span {
        length.saturating_sub(self.from.saturating_sub(self.absolute(row, before.woken())))
    }

    /// Goes on to the next event of a task: where it lies, and the task's own time before it.
    fn step(&mut self, row: TaskId, event: &Event) -> (Place, OwnClock) {
        let (clock, over) = self.clocks.entry(row.0).or_default();
        let (before, was_over) = (*clock, *over);
        let own = clock.step(&event.kind);
        let at = self.absolute(row, own);
        let place = if at < self.from {
            Place::Before
        } else if at < self.to {
            Place::Within
        } else if was_over || event.kind.length().is_none() || self.absolute(row, before.woken()) >= self.to {
            Place::After
        } else {
            let ran = self.to.saturating_sub(self.absolute(row, before.woken()));
            Place::End(self.shortened(row, &before, ran))
        };
        if let Place::End(_) | Place::After = place {
            self.clocks.entry(row.0).or_default().1 = true;
        }
        (place, before)
    }

    /// What a dependence becomes; `None` if the wakeup comes from outside the window.
    fn dependence(&self, waker: TaskId, event: EventId, distance: Span) -> Option<(TaskId, EventId, Span)> {
        let row = self.rows.get(waker.0 as usize).copied().flatten()?;
        let window = &self.windows[waker.index()];
        if let Some((_, by, length)) = window.end.filter(|(end, ..)| *end == event) {
            // the wakeup's place is nearer to the new end, if it lies before it at all
            let left = Span::from_ns(distance.as_ns().checked_sub(by.as_ns())?);
            return (left > Span::ZERO && left <= length).then_some((row, event, left));
        }
        let kept = match &window.listed {
            Some(listed) => listed.contains(&event),
            None => window.kept.is_some_and(|(first, last)| (first..=last).contains(&event)),
        };
        let before_begin = window.first.is_some_and(|(first, length)| first == event && distance > length);
        (kept && !before_begin).then_some((row, event, distance))
    }

    /// The second pass: how many wakeups come from outside the window.
    fn count_external(&mut self, source: &Source) -> Result<(), StreamError> {
        let mut external = 0;
        self.clocks.clear();
        source.runs(&mut |row, events| {
            for event in events.iter() {
                if let (Place::Within, _) = self.step(row, event)
                    && let EventKind::Wakeup(Wakeup::Dependent { task, event, distance, .. }) = event.kind
                {
                    external += u64::from(self.dependence(task, event, distance).is_none());
                }
            }
            Ok(())
        })?;
        let reason = "wakeup by another task from outside the window, made external";
        self.head.workload.count_dropped(reason, external);
        Ok(())
    }

    /// Rewrites an event; whether it stays.
    fn rewrite(&mut self, row: TaskId, event: &mut Event) -> bool {
        let (place, before) = self.step(row, event);
        match place {
            Place::Before | Place::After => return false,
            Place::End(length) => {
                event.kind = EventKind::Block { length };
                return true;
            }
            Place::Within => {}
        }
        match &mut event.kind {
            EventKind::Fork { length, child } => {
                *length = self.shortened(row, &before, *length);
                *child = self.rows[child.index()].unwrap_or(*child);
            }
            EventKind::Prio { length, change } => {
                *length = self.shortened(row, &before, *length);
                change.target = change.target.and_then(|target| self.rows[target.index()]);
            }
            EventKind::Yield { length }
            | EventKind::Exec { length }
            | EventKind::Call { length }
            | EventKind::Block { length }
            | EventKind::Object { length, .. }
            | EventKind::Exit { length } => {
                *length = self.shortened(row, &before, *length);
            }
            EventKind::Wakeup(wakeup) => {
                // of a block that began before the window only the rest is left
                let over = self.from.saturating_sub(self.absolute(row, before.now()));
                *wakeup = match *wakeup {
                    Wakeup::External { after, source } if source.is_instant() => {
                        let over = self.from.saturating_sub(self.absolute(row, before.until()));
                        Wakeup::External { after: after.saturating_sub(over), source }
                    }
                    Wakeup::External { after, source } => {
                        Wakeup::External { after: after.saturating_sub(over), source }
                    }
                    Wakeup::Dependent { recorded_after, event, task, distance } => {
                        let after = recorded_after.saturating_sub(over);
                        match self.dependence(task, event, distance) {
                            Some((task, event, distance)) => {
                                Wakeup::Dependent { recorded_after: after, event, task, distance }
                            }
                            None => Wakeup::External { after, source: ExternalSource::Timer },
                        }
                    }
                };
            }
        }
        true
    }
}

impl Edit for Cut {
    fn head(&self) -> &Head {
        &self.head
    }

    fn begin(&mut self) {
        self.clocks.clear();
    }

    fn run(&mut self, row: TaskId, events: &mut Vec<Event>) -> Option<TaskId> {
        let new = self.rows.get(row.0 as usize).copied().flatten()?;
        events.retain_mut(|event| self.rewrite(row, event));
        Some(new)
    }
}
