//! The end of reading a text: every mention is resolved, tasks get their rows, events their numbers.

use super::error::{TextError, TextProblem};
use super::read::{Location, Reader, Reference};
use super::statement::Instance;
use crate::check::{Flaw, Place};
use crate::{Birth, EventKind, Wakeup, Workload};
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// Which line said what, for mistakes that only the whole shows. Filled only if the caller asked for lines.
pub(super) struct Lines {
    /// Per row: line of its INIT or FORK, lines of its events.
    tasks: Vec<(usize, Vec<u32>)>,
    cgroups: BTreeMap<String, usize>,
    objects: BTreeMap<String, usize>,
}

impl Lines {
    /// The line that a problem is about; 1 if it is about none.
    pub fn of(&self, place: &Place, flaw: &Flaw, workload: &Workload) -> usize {
        let event_line = |row: usize, index: usize| {
            self.tasks.get(row).and_then(|(_, lines)| lines.get(index)).map(|&line| line as usize)
        };
        let line = match place {
            Place::Task { id, .. } => self.tasks.get(id.index()).map(|(line, _)| *line),
            Place::Event { id, index, .. } => event_line(id.index(), *index),
            Place::Cgroup(path) => self.cgroups.get(path).copied(),
            Place::Object(name) => self.objects.get(name).copied(),
            Place::Workload => match flaw {
                Flaw::DuplicateEid(eid) => workload
                    .tasks
                    .iter()
                    .enumerate()
                    .flat_map(|(row, task)| {
                        let init =
                            task.birth_eid().filter(|birth| birth.0 == *eid).map(|_| self.tasks[row].0);
                        let events = task.events.iter().enumerate().filter(|(_, event)| event.eid.0 == *eid);
                        init.into_iter().chain(events.filter_map(move |(index, _)| event_line(row, index)))
                    })
                    .max(),
                _ => None,
            },
        };
        line.unwrap_or(1)
    }
}

impl Reader<'_> {
    pub(super) fn finish(self) -> Result<(Workload, Lines), Box<TextError>> {
        self.finish_with(Workload::number_events)
    }

    /// As [`finish`](Reader::finish), but events without a number stay so.
    pub(super) fn finish_unnumbered(self) -> Result<(Workload, Lines), Box<TextError>> {
        self.finish_with(|_| ())
    }

    fn finish_with(
        mut self,
        number: impl FnOnce(&mut Workload),
    ) -> Result<(Workload, Lines), Box<TextError>> {
        let row_of = self.rows()?;
        let row = |slot: TaskId| TaskId(row_of[slot.0 as usize]);
        let nr = self.slots.len();
        let mut workload = std::mem::take(&mut self.workload);
        let mut lines = vec![(0, Vec::new()); nr];
        let mut by_row: Vec<(u32, u32)> =
            row_of.iter().enumerate().map(|(slot, &row)| (row, slot as u32)).collect();
        by_row.sort_unstable();
        workload.tasks.reserve_exact(nr);
        for (row_here, slot) in by_row {
            let slot = &mut self.slots[slot as usize];
            lines[row_here as usize] =
                (slot.declared.map_or(0, |(line, _)| line), std::mem::take(&mut slot.lines));
            let birth = slot.task.birth;
            let template = crate::Task {
                events: std::mem::take(&mut slot.task.events),
                name: std::mem::take(&mut slot.task.name),
                affinity: slot.task.affinity.take(),
                birth: match birth {
                    Birth::Init { eid, parent, state } => Birth::Init { eid, parent: parent.map(row), state },
                    Birth::Fork { parent } => Birth::Fork { parent: row(parent) },
                },
                ..slot.task
            };
            workload.tasks.push(template);
        }
        if row_of.iter().enumerate().any(|(slot, &row)| slot as u32 != row) {
            for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
                match &mut event.kind {
                    EventKind::Fork { child, .. } => *child = row(*child),
                    EventKind::Prio { change, .. } => change.target = change.target.map(row),
                    EventKind::Wakeup(Wakeup::Dependent { task, .. }) => *task = row(*task),
                    _ => {}
                }
            }
        }
        number(&mut workload);
        for reference in &self.references {
            let (slot, index) = self.resolve(reference)?;
            let eid = workload.tasks[row_of[slot as usize] as usize].events[index as usize].eid;
            let waiting = &mut workload.tasks[row_of[reference.slot as usize] as usize];
            if let EventKind::Wakeup(Wakeup::Dependent { event, task, .. }) =
                &mut waiting.events[reference.index as usize].kind
            {
                *event = eid;
                *task = TaskId(row_of[slot as usize]);
            }
        }
        let cgroups = std::mem::take(&mut self.cgroup_lines);
        let cgroups = cgroups.into_iter().map(|(path, (_, line))| (path, line)).collect();
        let objects = std::mem::take(&mut self.objects);
        let objects = objects.into_iter().map(|(name, (_, line))| (name, line)).collect();
        Ok((workload, Lines { tasks: lines, cgroups, objects }))
    }

    /// The row of each slot: as stated by `row=`, the others in the order of their lines.
    pub(super) fn rows(&self) -> Result<Vec<u32>, Box<TextError>> {
        for slot in &self.slots {
            if slot.declared.is_none() {
                let expected = format!("no line creates task {}", slot.pid);
                let remedy =
                    "add an INIT or a FORK of this pid, or correct it (0 is \"none\" for an INIT's parent)";
                return Err(self.late(slot.mention, TextProblem::Declaration, expected, remedy));
            }
        }
        let nr = self.slots.len();
        let mut slot_at: Vec<Option<u32>> = vec![None; nr];
        let stated = |slot: u32| self.slots[slot as usize].declared.and_then(|(_, row)| row);
        for &slot in &self.order {
            let Some(row) = stated(slot) else { continue };
            let line = self.slots[slot as usize].declared.map_or(1, |(line, _)| line);
            let location = Location { line, at: 0, len: 0 };
            let expected = match slot_at.get_mut(row as usize) {
                Some(free @ None) => {
                    *free = Some(slot);
                    continue;
                }
                Some(_) => format!("row={row} is taken by another task"),
                None => format!("row={row} is out of range: the {nr} tasks have rows 0 to {}", nr - 1),
            };
            let remedy = "leave row= out: rows then follow the order of the lines";
            return Err(self.late(location, TextProblem::Declaration, expected, remedy));
        }
        let mut row_of = vec![0; nr];
        let mut free = (0..nr).filter(|&row| slot_at[row].is_none()).collect::<Vec<_>>().into_iter();
        for &slot in &self.order {
            let row = stated(slot).or_else(|| free.next().map(|row| row as u32));
            row_of[slot as usize] = row.expect("there are as many rows as tasks");
        }
        Ok(row_of)
    }

    /// The event (slot, index) that a reference means.
    fn resolve(&self, reference: &Reference) -> Result<(u32, u32), Box<TextError>> {
        let events = &self.labels[reference.name as usize].events;
        let fail = |expected: String, remedy| {
            Err(self.late(reference.location, TextProblem::Label, expected, remedy))
        };
        let count = events.len() as u64;
        let which = match (reference.instance, reference.iteration) {
            (Instance::Absolute(which), _) => Some(which),
            (Instance::Relative(0), _) if count == 1 => Some(0),
            (Instance::Relative(offset), Some(iteration)) => iteration.checked_add_signed(offset),
            (Instance::Relative(_), None) if count > 1 => {
                let expected = format!("this label stands for {count} events, one per iteration");
                return fail(expected, "say which: @name[0] for the first");
            }
            (Instance::Relative(offset), None) => 0u64.checked_add_signed(offset),
        };
        let Some(&(slot, index)) = which.and_then(|which| events.get(usize::try_from(which).ok()?)) else {
            if count == 0 {
                return fail(
                    "no event carries this label".into(),
                    "write the label in place of an event's eid",
                );
            }
            let expected = match reference.iteration {
                Some(iteration) => format!(
                    "in iteration {iteration} this names an event that does not exist; the label has {count}, from [0]"
                ),
                None => format!("this names an event that does not exist; the label has {count}, from [0]"),
            };
            return fail(expected, "name one that exists");
        };
        match reference.waker {
            Some(waker) if waker != slot => {
                let (said, is) = (self.slots[waker as usize].pid, self.slots[slot as usize].pid);
                fail(format!("this event is task {is}'s, but dpid says {said}"), "correct dpid, or write -")
            }
            _ => Ok((slot, index)),
        }
    }
}
