//! How do rows of many files become one row of rows? In order of keys, each run once.

use super::file_of;
use crate::error::SweepError;
use crate::key::Key;
use crate::row::{Cell, RUNS, SweptRun, TASKS, TableRow};
use crate::table::TableReader;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

/// Where outcomes come from, in order of keys.
pub(crate) enum Source {
    /// A pair of files.
    Files(Box<Pair>),
    /// Out of a journal.
    Held(VecDeque<SweptRun>),
    /// A pair that is not open yet.
    Later { dir: PathBuf, stem: String, first: Key },
}

pub(crate) struct Pair {
    path: PathBuf,
    runs: TableReader,
    tasks: TableReader,
    /// A row of `tasks` whose run has not come yet.
    next_task: Option<TableRow>,
}

impl Source {
    /// A pair of a dataset's folder. One whose name says its first key is opened when its turn comes: a large dataset
    /// has more files than a process may have open.
    pub(crate) fn of(dir: &Path, stem: &str) -> Result<Source, SweepError> {
        match first_key(stem) {
            Some(first) => Ok(Source::Later { dir: dir.to_owned(), stem: stem.to_owned(), first }),
            None => Source::open(dir, stem),
        }
    }

    fn open(dir: &Path, stem: &str) -> Result<Source, SweepError> {
        let path = file_of(dir, "runs", stem);
        let runs = TableReader::open(&path, RUNS)?;
        let tasks = file_of(dir, "tasks", stem);
        if !tasks.exists() {
            return Err(SweepError::damaged(&tasks)("it is gone"));
        }
        let tasks = TableReader::open(&tasks, TASKS)?;
        Ok(Source::Files(Box::new(Pair { path, runs, tasks, next_task: None })))
    }

    pub(crate) fn nr_runs(&self) -> Result<u64, SweepError> {
        match self {
            Source::Files(pair) => Ok(pair.runs.nr_rows()),
            Source::Held(outcomes) => Ok(outcomes.len() as u64),
            Source::Later { dir, stem, .. } => {
                Ok(TableReader::open(&file_of(dir, "runs", stem), &RUNS[..1])?.nr_rows())
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<SweptRun>, SweepError> {
        if let Source::Later { dir, stem, .. } = self {
            *self = Source::open(dir, stem)?;
        }
        let next = match self {
            Source::Held(outcomes) => outcomes.pop_front(),
            Source::Files(pair) => pair.next()?,
            Source::Later { .. } => unreachable!("it has just been opened"),
        };
        if next.is_none() {
            *self = Source::Held(VecDeque::new()); // its files are closed
        }
        Ok(next)
    }
}

/// What `FIRST-SUM` says of the first key: no key in it is less.
fn first_key(stem: &str) -> Option<Key> {
    let (first, _) = stem.split_once('-')?;
    (first.len() == 16).then(|| format!("{first}{}", "0".repeat(48)).parse().ok())?
}

impl Pair {
    fn next(&mut self) -> Result<Option<SweptRun>, SweepError> {
        let Some(run) = self.runs.next()? else { return Ok(None) };
        let key = run[0].as_str().and_then(|key| key.parse::<Key>().ok());
        let key = key.ok_or_else(|| SweepError::damaged(&self.path)("a key is no key"))?;
        let mut tasks = Vec::new();
        loop {
            let task = match self.next_task.take() {
                Some(task) => task,
                None => match self.tasks.next()? {
                    Some(task) => task,
                    None => break,
                },
            };
            if task[0] != run[0] {
                self.next_task = Some(task);
                break;
            }
            tasks.push(task);
        }
        Ok(Some(SweptRun::new(key, run, tasks)))
    }
}

/// All outcomes of several sources.
pub(crate) struct Merged {
    sources: Vec<Source>,
    heads: Vec<Option<SweptRun>>,
    order: BinaryHeap<Reverse<(Key, usize)>>,
}

impl Merged {
    pub(crate) fn new(sources: Vec<Source>) -> Result<Merged, SweepError> {
        let heads = sources.iter().map(|_| None).collect();
        let mut merged = Merged { sources, heads, order: BinaryHeap::new() };
        for at in 0..merged.sources.len() {
            match merged.sources[at] {
                Source::Later { first, .. } => merged.order.push(Reverse((first, at))),
                _ => merged.pull(at)?,
            }
        }
        Ok(merged)
    }

    fn pull(&mut self, at: usize) -> Result<(), SweepError> {
        self.heads[at] = self.sources[at].next()?;
        if let Some(outcome) = &self.heads[at] {
            self.order.push(Reverse((outcome.key(), at)));
        }
        Ok(())
    }

    /// The next run; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<SweptRun>, SweepError> {
        let Some(mut outcome) = self.pop()? else { return Ok(None) };
        while self.order.peek().is_some_and(|Reverse((key, _))| *key == outcome.key()) {
            let other = self.pop()?.expect("it has just been seen");
            outcome = better(outcome, other)?;
        }
        Ok(Some(outcome))
    }

    fn pop(&mut self) -> Result<Option<SweptRun>, SweepError> {
        while let Some(Reverse((_, at))) = self.order.pop() {
            let outcome = self.heads[at].take();
            self.pull(at)?;
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
        Ok(None)
    }
}

/// Of sorted outcomes each run once.
pub(crate) fn without_doubles(outcomes: Vec<SweptRun>) -> Result<Vec<SweptRun>, SweepError> {
    let mut once: Vec<SweptRun> = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        match once.pop() {
            Some(last) if last.key() == outcome.key() => once.push(better(last, outcome)?),
            last => {
                once.extend(last);
                once.push(outcome);
            }
        }
    }
    Ok(once)
}

/// Which of two results of one run stays? One with numbers before one without; of equal ones, or of two failures, the
/// one whose text comes first: that does not depend on who was first.
fn better(one: SweptRun, other: SweptRun) -> Result<SweptRun, SweepError> {
    match (one.is_failed(), other.is_failed()) {
        (false, true) => return Ok(one),
        (true, false) => return Ok(other),
        (true, true) => {}
        (false, false) => {
            if let Some((column, first, second)) = one.difference(&other) {
                return Err(SweepError::Contradiction { key: one.key(), column, first, second });
            }
        }
    }
    let text = |outcome: &SweptRun| outcome.run().iter().map(Cell::to_string).collect::<Vec<_>>();
    Ok(if text(&one) <= text(&other) { one } else { other })
}
