//! How is a text read whose events do not fit into memory? Twice: first who the tasks are, then the events,
//! line by line.
//!
//! Everything of the text form can be streamed but labels, which stand for events far away.

use super::error::TextError;
use super::lines::LineSource;
use super::read::{Keep, NEEDS_MEMORY, Reader};
use crate::limits::Limits;
use crate::{Birth, Event, EventId, EventKind, Wakeup, Workload};
use schedlab_units::TaskId;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A text that is read event by event.
#[derive(Clone, Debug)]
pub(crate) struct TextStream {
    path: PathBuf,
    limits: Limits,
    /// Tasks with their FORKs alone, groups, notes.
    pub skeleton: Workload,
    /// Events, INITs left out.
    pub nr_events: u64,
    /// Rows of the tasks in the order in which the text mentions them.
    row_of: Vec<u32>,
    /// The number that the first event without one gets, in the same order.
    next_eid: Vec<u64>,
}

impl TextStream {
    /// Reads who the tasks are; `None` if the text has labels and must be read whole.
    pub fn open(path: &Path, limits: Limits) -> Result<Option<TextStream>, Box<TextError>> {
        let file = path.display().to_string();
        let reader = match Reader::read(&file, LineSource::File(path), limits, Keep::Forks) {
            Err(error) if error.expected == NEEDS_MEMORY => return Ok(None),
            other => other?,
        };
        let (row_of, eid_max, nr_events) = (reader.rows()?, reader.eid_max, reader.nr_events());
        let unnumbered: Vec<u64> = reader.slots.iter().map(|slot| slot.unnumbered).collect();
        let (skeleton, _) = reader.finish_unnumbered()?;
        let mut stream = TextStream {
            path: path.to_path_buf(),
            limits,
            nr_events,
            skeleton,
            next_eid: vec![0; row_of.len()],
            row_of,
        };
        let inits = stream.skeleton.tasks.iter().filter_map(|task| task.birth_eid());
        let mut last = inits.fold(eid_max, |max, eid| max.max(eid.0));
        for task in &mut stream.skeleton.tasks {
            if let Birth::Init { eid, .. } = &mut task.birth {
                stream.nr_events -= 1;
                if eid.0 == 0 {
                    last += 1;
                    *eid = EventId(last);
                }
            }
        }
        let mut slots: Vec<usize> = (0..stream.row_of.len()).collect();
        slots.sort_unstable_by_key(|&slot| stream.row_of[slot]);
        for slot in slots {
            stream.next_eid[slot] = last + 1;
            last += unnumbered[slot];
        }
        Ok(Some(stream))
    }

    /// Hands on every event in the order of the file, with the row of its task, until told to stop.
    pub fn events(
        &self,
        each: &mut dyn FnMut(TaskId, Event) -> ControlFlow<()>,
    ) -> Result<(), Box<TextError>> {
        let row = |slot: TaskId| TaskId(self.row_of.get(slot.0 as usize).copied().unwrap_or(slot.0));
        let mut next_eid = self.next_eid.clone();
        let mut stopped = false;
        let mut emit = |slot: u32, mut event: Event| {
            if let (EventId(0), Some(next)) = (event.eid, next_eid.get_mut(slot as usize)) {
                event.eid = EventId(*next);
                *next += 1;
            }
            match &mut event.kind {
                EventKind::Fork { child, .. } => *child = row(*child),
                EventKind::Prio { change, .. } => change.target = change.target.map(row),
                EventKind::Wakeup(Wakeup::Dependent { task, .. }) => *task = row(*task),
                _ => {}
            }
            let flow = each(row(TaskId(slot)), event);
            stopped = flow.is_break();
            flow
        };
        let file = self.path.display().to_string();
        let lines = LineSource::File(&self.path);
        let done = Reader::read(&file, lines, self.limits, Keep::Emit(&mut emit)).map(drop);
        if stopped { Ok(()) } else { done }
    }
}
