//! How is a workload worked on whose events do not fit into memory? As a stream: tasks in memory, events in passing.
//!
//! ```text
//! file ── Source::open ──> Head (tasks, groups, notes; all but events)
//!            │  runs() ──> (task, some of its events) ──> a tool ──> EventSink ──> file
//!            └─ again, as often as a tool needs to look at all events
//! ```
//!
//! Both forms of a file are read and written so; memory goes with the tasks. A text with labels is read whole
//! instead, and what is in memory already (an imported trace, a mix) is handed out from there.

mod clock;
mod sink;
mod skim;

pub use clock::OwnClock;
pub use sink::{EventSink, save_stream, write_stream};

use crate::binary::{BinaryReader, Part};
use crate::limits::Limits;
use crate::text::TextStream;
use crate::{
    BinaryError, Event, EventId, EventKind, FileKind, LoadError, Wakeup, Workload, identify, load_within,
};
use schedlab_units::{Span, TaskId};
use skim::Skim;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// All of a workload but its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Tasks (without events), groups, notes, counts.
    pub workload: Workload,
    /// Events there are, INITs included.
    pub nr_events: u64,
    /// Children in the order in which their FORKs come.
    pub forks: Vec<TaskId>,
    /// Of each task; empty in the head of an edit's result.
    pub lives: Vec<LifeSpan>,
    /// The largest identifier of an event.
    pub eid_max: EventId,
    /// The highest version of the forms on disk that one of its events needs
    /// ([`EventKind::version`](crate::EventKind::version)).
    pub needs_version: u32,
}

impl Head {
    /// The version of both forms on disk that it needs ([`Workload::version`]).
    pub fn version(&self) -> u32 {
        self.needs_version.max(crate::model::objects_version(&self.workload.objects))
    }
}

/// What a task's events are as a whole. Times are own times ([`OwnClock`]) from the start of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeSpan {
    /// When it begins.
    pub birth: Span,
    /// Its last event.
    pub end: Span,
    /// Its events.
    pub nr_events: u64,
    /// The FORK that creates it.
    pub fork: Option<EventId>,
    /// Whether its events' identifiers ascend.
    pub ascending: bool,
}

/// A workload whose events are read in passing.
#[derive(Debug)]
pub struct Source {
    head: Head,
    events: Events,
}

#[derive(Debug)]
enum Events {
    Binary(PathBuf, Limits),
    Text(Box<TextStream>),
    Memory(Vec<Vec<Event>>),
}

/// A stream that broke off.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Reading it.
    #[error(transparent)]
    Read(#[from] LoadError),
    /// Writing it.
    #[error("{}: cannot write: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Something would need a new event identifier.
    #[error(
        "an event would need an identifier of its own, but the largest in use is 2^64 - 1; number the events anew"
    )]
    Identifiers,
}

/// Events handed out at once from a text or from memory.
const RUN: usize = 8192;
const FILE_BUFFER: usize = 1 << 20;

/// Takes some events of a task, in their order, and may change them; called task by task in the order of the file.
pub type EachRun<'a> = dyn FnMut(TaskId, &mut Vec<Event>) -> Result<(), StreamError> + 'a;

impl Source {
    /// Opens a workload file in either form; `None` for a trace or a mix, which must be made a workload first
    /// ([`Source::from`]).
    ///
    /// Reads the file once: every rule of the model that concerns one task, births and groups is checked;
    /// that wakeups name events that exist is not ([`Workload::check`] does, before a run).
    pub fn open(path: &Path) -> Result<Option<Source>, LoadError> {
        Source::open_within(path, Limits::STREAMED)
    }

    /// As [`Source::open`], with limits of the caller's. What must be read whole has those of a workload in memory
    /// ([`Limits::HELD`]), if they are lower.
    pub fn open_within(path: &Path, limits: Limits) -> Result<Option<Source>, LoadError> {
        match identify(path)? {
            (_, FileKind::Trace(_) | FileKind::Mix) => Ok(None),
            (path, FileKind::Binary) => {
                let (mut head, mut skim) = (Head::default(), Skim::default());
                binary_parts(&path, limits, &mut |part| {
                    match part {
                        Part::Note(key, value) => {
                            head.workload.notes.insert(key, value);
                        }
                        Part::Dropped(reason, count) => {
                            let total = head.workload.dropped.entry(reason).or_default();
                            *total = total.saturating_add(count);
                        }
                        Part::Cgroup(cgroup) => head.workload.cgroups.push(cgroup),
                        Part::Object(object) => head.workload.objects.push(object),
                        Part::Task(row, task) => skim.task(row, task),
                        Part::Events(row, events) => skim.events(row, &events),
                    }
                    Ok(())
                })
                .map_err(StreamError::reading)?;
                skim.finish(&path, &mut head)?;
                Ok(Some(Source { head, events: Events::Binary(path, limits) }))
            }
            (path, FileKind::Text) => match TextStream::open(&path, limits)? {
                Some(stream) => {
                    let mut skim = Skim::default();
                    let mut head = Head { workload: stream.skeleton.clone(), ..Head::default() };
                    for (row, mut task) in std::mem::take(&mut head.workload.tasks).into_iter().enumerate() {
                        task.events = Vec::new();
                        skim.task(TaskId(row as u32), task);
                    }
                    stream.events(&mut |row, event| {
                        skim.events(row, std::slice::from_ref(&event));
                        ControlFlow::Continue(())
                    })?;
                    skim.finish(&path, &mut head)?;
                    Ok(Some(Source { head, events: Events::Text(Box::new(stream)) }))
                }
                None => match load_within(&path, limits.held())? {
                    crate::LoadedFile::Workload { workload, .. } => Ok(Some(Source::from(workload))),
                    _ => Ok(None),
                },
            },
        }
    }

    /// All but the events.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Passes all events by, from the first to the last.
    pub fn runs(&self, each: &mut EachRun<'_>) -> Result<(), StreamError> {
        let nr = self.head.workload.tasks.len();
        match &self.events {
            Events::Memory(tasks) => {
                let mut run = Vec::with_capacity(RUN);
                for (row, events) in (0..).zip(tasks) {
                    for piece in events.chunks(RUN) {
                        run.clear();
                        run.extend_from_slice(piece);
                        each(TaskId(row), &mut run)?;
                    }
                }
                Ok(())
            }
            Events::Binary(path, limits) => binary_parts(path, *limits, &mut |part| match part {
                Part::Events(row, mut events) => {
                    if row.0 as usize >= nr || !events.iter().all(|event| refers_within(event, nr)) {
                        return Err(changed(path));
                    }
                    each(row, &mut events)
                }
                _ => Ok(()),
            }),
            Events::Text(stream) => {
                let mut run: Vec<Event> = Vec::with_capacity(RUN);
                let (mut of, mut broken) = (TaskId(0), None);
                let read = stream.events(&mut |row, event| {
                    if (row != of || run.len() == RUN) && !run.is_empty() {
                        if let Err(error) = each(of, &mut run) {
                            broken = Some(error);
                            return ControlFlow::Break(());
                        }
                        run.clear();
                    }
                    of = row;
                    run.push(event);
                    ControlFlow::Continue(())
                });
                match broken {
                    Some(error) => return Err(error),
                    None => read.map_err(LoadError::from)?,
                }
                if run.is_empty() { Ok(()) } else { each(of, &mut run) }
            }
        }
    }
}

/// From memory; the workload has passed [`Workload::check`].
impl From<Workload> for Source {
    fn from(mut workload: Workload) -> Source {
        let events: Vec<Vec<Event>> =
            workload.tasks.iter_mut().map(|task| std::mem::take(&mut task.events)).collect();
        let mut skim = Skim::default();
        for (row, (task, events)) in (0..).zip(workload.tasks.drain(..).zip(&events)) {
            skim.task(TaskId(row), task);
            skim.events(TaskId(row), events);
        }
        let mut head = Head { workload, ..Head::default() };
        skim.complete(&mut head);
        Source { head, events: Events::Memory(events) }
    }
}

impl StreamError {
    /// For a pass that writes nothing.
    fn reading(self) -> LoadError {
        match self {
            StreamError::Read(error) => error,
            StreamError::Write { path, error } => LoadError::Io { path, error },
            StreamError::Identifiers => unreachable!("reading gives no identifiers"),
        }
    }
}

/// Reads a binary file part by part.
fn binary_parts(
    path: &Path,
    limits: Limits,
    each: &mut dyn FnMut(Part) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let failed = |error: BinaryError| LoadError::Binary { path: path.to_path_buf(), error };
    let file = File::open(path).map_err(|error| LoadError::Io { path: path.to_path_buf(), error })?;
    let file = BufReader::with_capacity(FILE_BUFFER, file);
    let mut reader = BinaryReader::new(file).map_err(failed)?.within(limits);
    while let Some(part) = reader.next_part().map_err(failed)? {
        each(part)?;
    }
    Ok(())
}

/// Whether an event speaks of rows below `nr` only.
fn refers_within(event: &Event, nr: usize) -> bool {
    let within = |id: TaskId| (id.0 as usize) < nr;
    match &event.kind {
        EventKind::Fork { child, .. } => within(*child),
        EventKind::Prio { change, .. } => change.target.is_none_or(within),
        EventKind::Wakeup(Wakeup::Dependent { task, .. }) => within(*task),
        _ => true,
    }
}

fn changed(path: &Path) -> StreamError {
    let error = std::io::Error::other("the file was changed while it was being read");
    StreamError::Read(LoadError::Io { path: path.to_path_buf(), error })
}
