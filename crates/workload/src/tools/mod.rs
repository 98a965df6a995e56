//! What can be done with a workload but run it? Look at it, take a part of it, stretch it, give it away.
//!
//! Every tool is an [`Edit`] of a stream: it looks at the [`Source`] first (as often as it must), then
//! rewrites the events as they pass by. Memory goes with the tasks, so that 100 million events are no
//! trouble.
//!
//! | tool | gives |
//! |---|---|
//! | [`Filter`] | some of the tasks; what they needed from the others is external then |
//! | [`Cut`] | what happens in a window of own time |
//! | [`Scale`] | longer or shorter CPU times and sleeps |
//! | [`Anonymise`] | other names |
//! | [`survey`] | nothing new: a summary and a task's life |
//! | [`measure`] | distributions, for a generator |

mod anonymise;
mod cut;
mod filter;
mod fit;
mod scale;
mod select;
mod settings;
mod survey;

pub use anonymise::{Anonymise, Naming};
pub use cut::Cut;
pub use filter::Filter;
pub use fit::{Law, Measure, Sample, measure};
pub use scale::{Factor, FactorError, Scale};
pub use select::{Selector, glob};
pub(crate) use settings::{Delta, at_birth};
pub use survey::{Column, Histogram, Life, NameRow, Survey, survey};

use crate::stream::{Head, Source, StreamError, save_stream};
use crate::{Event, Form};
use schedlab_units::TaskId;
use std::path::Path;

/// A rewriting of a stream. [`Edit::run`] sees the same events in the same order in every pass.
pub trait Edit {
    /// All but the events of the result.
    fn head(&self) -> &Head;
    /// Begins another pass.
    fn begin(&mut self) {}
    /// Rewrites some events of a task; the row that the task has in the result, `None` if it is not there.
    fn run(&mut self, row: TaskId, events: &mut Vec<Event>) -> Option<TaskId>;
}

/// What is called with a task's row and some of its events, in their order.
pub type EachRun<'a> = &'a mut dyn FnMut(TaskId, &[Event]) -> Result<(), StreamError>;

/// Passes all of `source` through `edit`; `each` gets what comes out.
pub fn edited(source: &Source, edit: &mut dyn Edit, each: EachRun<'_>) -> Result<(), StreamError> {
    edit.begin();
    source.runs(&mut |row, events| match edit.run(row, events) {
        Some(row) if !events.is_empty() => each(row, events),
        _ => Ok(()),
    })
}

/// Writes what `edit` makes of `source` to a file.
pub fn save_edited(source: &Source, edit: &mut dyn Edit, path: &Path, form: Form) -> Result<(), StreamError> {
    let head = edit.head().clone();
    save_stream(path, form, &head, |sink| edited(source, edit, &mut |row, events| sink.events(row, events)))
}

/// What `edit` makes of `source`, in memory.
pub fn collect(source: &Source, edit: &mut dyn Edit) -> Result<crate::Workload, StreamError> {
    let mut workload = edit.head().workload.clone();
    edited(source, edit, &mut |row, events| {
        workload.tasks[row.index()].events.extend_from_slice(events);
        Ok(())
    })?;
    Ok(workload)
}
