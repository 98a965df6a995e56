//! The first pass over a stream: what its head is, and whether every task's life keeps the rules.

use super::{Head, LifeSpan, OwnClock, refers_within};
use crate::check::{BrokenRule, Flaw, Life, Place};
use crate::limits::Limits;
use crate::{Birth, Event, EventId, EventKind, InitState, LoadError, Task, WorkloadError};
use schedlab_units::{Span, TaskId};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Default)]
pub(super) struct Skim {
    /// By row. (A map: a damaged file may name any row.)
    rows: BTreeMap<u32, Row>,
    forks: Vec<TaskId>,
    nr_events: u64,
    version: u32,
    eid_max: u64,
    /// The highest row that an event spoke of before it was known.
    row_max: u32,
}

struct Row {
    task: Option<Task>,
    nr_events: u64,
    /// How the life goes that began runnable, and the one that began blocked: the task may come after its events.
    lives: [Life; 2],
    /// The first rule that each broke.
    broken: [Option<Box<(u64, Event, Flaw)>>; 2],
    /// Its FORKs, and when they happen.
    forks: Vec<(Event, Span)>,
    clock: OwnClock,
    last_eid: u64,
    ascending: bool,
}

impl Row {
    fn new() -> Row {
        Row {
            task: None,
            nr_events: 0,
            lives: [Life::new(InitState::Runnable), Life::new(InitState::Blocked)],
            broken: [None, None],
            forks: Vec::new(),
            clock: OwnClock::default(),
            last_eid: 0,
            ascending: true,
        }
    }
}

impl Skim {
    pub fn task(&mut self, id: TaskId, task: Task) {
        self.eid_max = self.eid_max.max(task.birth_eid().map_or(0, |eid| eid.0));
        self.rows.entry(id.0).or_insert_with(Row::new).task = Some(task);
    }

    pub fn events(&mut self, id: TaskId, events: &[Event]) {
        self.nr_events += events.len() as u64;
        let row = self.rows.entry(id.0).or_insert_with(Row::new);
        for event in events {
            for (life, broken) in row.lives.iter_mut().zip(&mut row.broken) {
                if let Some(flaw) = life.step(event)
                    && broken.is_none()
                {
                    *broken = Some(Box::new((row.nr_events, event.clone(), flaw)));
                }
            }
            let at = row.clock.step(&event.kind);
            self.version = self.version.max(event.kind.version());
            row.nr_events += 1;
            row.ascending &= event.eid.0 > row.last_eid;
            row.last_eid = event.eid.0;
            self.eid_max = self.eid_max.max(event.eid.0);
            // more FORKs than tasks are a broken rule, which is found with those that are kept
            if let EventKind::Fork { child, .. } = event.kind
                && self.forks.len() as u64 <= Limits::STREAMED.tasks
            {
                self.forks.push(child);
                row.forks.push((event.clone(), at));
            }
            if !refers_within(event, self.row_max as usize + 1) {
                self.row_max = self.row_max.max(highest_row(event));
            }
        }
    }

    /// Completes `head`, whose groups and notes are there already, if every rule is kept.
    pub fn finish(mut self, path: &Path, head: &mut Head) -> Result<(), LoadError> {
        let nr = self.rows.len();
        let broken = |place: Place, flaw: Flaw| {
            let error = WorkloadError { problems: vec![BrokenRule { place, flaw }], nr_problems: 1 };
            LoadError::Rules { path: path.to_path_buf(), error }
        };
        let missing = |role, row| broken(Place::Workload, Flaw::MissingTask { role, row, nr });
        for (expected, (&row, entry)) in (0..).zip(&self.rows) {
            if row != expected || entry.task.is_none() {
                return Err(missing("a task with events", expected));
            }
        }
        if self.row_max as usize >= nr && self.row_max > 0 {
            return Err(missing("a task that an event names", self.row_max));
        }
        let mut flaws = Vec::new();
        let mut skeleton = head.workload.clone();
        for (&row, entry) in &mut self.rows {
            let Some(task) = &entry.task else { continue };
            let is_blocked = matches!(task.birth, Birth::Init { state: InitState::Blocked, .. });
            if let Some(first_flaw) = entry.broken[usize::from(is_blocked)].take() {
                flaws.push((row, task.pid, task.name.clone(), first_flaw));
            }
            let forks = entry.forks.iter().map(|(event, _)| event.clone()).collect();
            skeleton.tasks.push(Task { events: forks, ..task.clone() });
        }
        if let Err(error) = skeleton.check_skeleton() {
            return Err(LoadError::Rules { path: path.to_path_buf(), error });
        }
        if let Some((row, pid, name, first_flaw)) = flaws.into_iter().next() {
            let (index, event, flaw) = *first_flaw;
            let (id, kind) = (TaskId(row), event.kind.name());
            let place = Place::Event { id, index: index as usize, pid, name, eid: event.eid, kind };
            return Err(broken(place, flaw));
        }
        self.complete(head);
        Ok(())
    }

    /// Completes `head` of a workload whose rows are all there.
    pub fn complete(self, head: &mut Head) {
        let unborn =
            LifeSpan { birth: Span::ZERO, end: Span::ZERO, nr_events: 0, fork: None, ascending: true };
        head.forks = self.forks;
        head.nr_events = self.nr_events;
        head.needs_version = self.version;
        head.eid_max = EventId(self.eid_max);
        head.lives = vec![unborn; self.rows.len()];
        // offsets from the parent's birth first, then births in order of descent
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); self.rows.len()];
        let mut ready = Vec::new();
        let mut placed = vec![false; self.rows.len()];
        for (row, entry) in self.rows.into_values().enumerate() {
            let life = &mut head.lives[row];
            life.end = entry.clock.now();
            life.nr_events = entry.nr_events;
            life.ascending = entry.ascending;
            for (fork, at) in entry.forks {
                let EventKind::Fork { child, .. } = fork.kind else { continue };
                if let Some(life) = head.lives.get_mut(child.0 as usize) {
                    (life.birth, life.fork) = (at, Some(fork.eid));
                    children[row].push(child.0);
                }
            }
            let Some(mut task) = entry.task else { continue };
            if matches!(task.birth, Birth::Init { .. }) {
                head.nr_events += 1;
                ready.push(row as u32);
            }
            task.events = Vec::new();
            head.workload.tasks.push(task);
        }
        while let Some(row) = ready.pop() {
            if std::mem::replace(&mut placed[row as usize], true) {
                continue; // only in a workload that breaks the rules
            }
            let birth = head.lives[row as usize].birth;
            let life = &mut head.lives[row as usize];
            life.end = Span::from_ns(life.end.as_ns().saturating_add(birth.as_ns()));
            for &child in &children[row as usize] {
                let life = &mut head.lives[child as usize];
                if placed[child as usize] {
                    continue;
                }
                life.birth = Span::from_ns(life.birth.as_ns().saturating_add(birth.as_ns()));
                ready.push(child);
            }
        }
    }
}

/// The highest row that an event speaks of.
fn highest_row(event: &Event) -> u32 {
    match &event.kind {
        EventKind::Fork { child, .. } => child.0,
        EventKind::Prio { change, .. } => change.target.map_or(0, |target| target.0),
        EventKind::Wakeup(crate::Wakeup::Dependent { task, .. }) => task.0,
        _ => 0,
    }
}
