//! Where does a stream of events end up? In a file of either form, whole or not at all.

use super::{Head, Source, StreamError};
use crate::binary::BinaryWriter;
use crate::text::TextWriter;
use crate::{Event, Form};
use schedlab_units::TaskId;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Takes a workload's events piece by piece.
pub struct EventSink<'a> {
    form: FormSink<'a>,
    path: PathBuf,
}

enum FormSink<'a> {
    Binary(BinaryWriter<Box<dyn Write + 'a>>),
    Text(TextWriter<'a, Box<dyn Write + 'a>>),
}

impl EventSink<'_> {
    /// Appends events to a task's.
    pub fn events(&mut self, row: TaskId, events: &[Event]) -> Result<(), StreamError> {
        match &mut self.form {
            FormSink::Binary(writer) => writer.events(row, events),
            FormSink::Text(writer) => writer.events(row, events),
        }
        .map_err(|error| StreamError::Write { path: self.path.clone(), error })
    }
}

/// Writes a workload to `out` in this form: `head`, and the events that `feed` hands to the sink. `path`
/// stands for the output in errors.
///
/// `head.forks` must list the children in the order in which `feed` hands over their FORKs, so that a text
/// can number the tasks.
pub fn write_stream<'a>(
    out: Box<dyn Write + 'a>,
    path: &Path,
    form: Form,
    head: &'a Head,
    feed: impl FnOnce(&mut EventSink<'_>) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let failed = |error| StreamError::Write { path: path.to_path_buf(), error };
    let form = match form {
        Form::Text => FormSink::Text(
            TextWriter::begin(&head.workload, head.forks.iter().copied(), head.version(), out)
                .map_err(failed)?,
        ),
        Form::Binary => FormSink::Binary(begin_binary(head, out).map_err(failed)?),
    };
    let mut sink = EventSink { form, path: path.to_path_buf() };
    feed(&mut sink)?;
    match sink.form {
        FormSink::Binary(writer) => writer.finish().map(drop),
        FormSink::Text(writer) => writer.finish(),
    }
    .map_err(failed)
}

fn begin_binary<W: Write>(head: &Head, out: W) -> io::Result<BinaryWriter<W>> {
    let mut writer = BinaryWriter::of_version(out, head.version())?;
    let workload = &head.workload;
    workload.notes.iter().try_for_each(|(key, value)| writer.note(key, value))?;
    workload.dropped.iter().try_for_each(|(reason, count)| writer.dropped(reason, *count))?;
    workload.cgroups.iter().try_for_each(|cgroup| writer.cgroup(cgroup))?;
    workload.objects.iter().try_for_each(|object| writer.object(object))?;
    for (row, task) in workload.tasks.iter().enumerate() {
        writer.task(TaskId(row as u32), task)?;
    }
    Ok(writer)
}

/// As [`write_stream`], to a file, which is whole or not there.
pub fn save_stream(
    path: &Path,
    form: Form,
    head: &Head,
    feed: impl FnOnce(&mut EventSink<'_>) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let failed = |error| StreamError::Write { path: path.to_path_buf(), error };
    schedlab_stdx::aside::with(path, failed, |out| write_stream(Box::new(out), path, form, head, feed))
}

impl Source {
    /// Writes all of it to a file, in either form.
    pub fn save(&self, path: &Path, form: Form) -> Result<(), StreamError> {
        save_stream(path, form, self.head(), |sink| self.runs(&mut |row, run| sink.events(row, run)))
    }
}
