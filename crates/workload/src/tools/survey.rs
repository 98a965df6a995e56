//! What is in this workload, and what is one task's life like?
//!
//! ```text
//! gzip  0 ms |██████▌·····██████··| 20 ms      own time: as if it never waited for a CPU
//! ```
//!
//! One pass over the events; memory goes with the tasks and the columns of the picture.

use crate::stream::{OwnClock, Source, StreamError};
use crate::{Event, EventKind, Wakeup};
use schedlab_units::{Span, TaskId};
use std::collections::BTreeMap;

/// Names of the types, in the order of [`Survey::events`].
const TYPES: [&str; 10] =
    ["INIT", "FORK", "PRIO", "YIELD", "BLOCK", "WAKEUP", "EXIT", "OBJECT", "EXEC", "CALL"];

/// A summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// How many events of each type, as in WARP's figure 2; last what is done at objects.
    pub events: [(&'static str, u64); 8],
    /// CPU time that all tasks want.
    pub cpu: Span,
    /// Time that they spend in blocks, as recorded.
    pub blocked: Span,
    /// The last event of all, in own time.
    pub end: Span,
    /// Wakeups by timers.
    pub timers: u64,
    /// Wakeups by devices.
    pub devices: u64,
    /// Wakeups by tasks of the workload.
    pub dependent: u64,
    /// CPU times between a wakeup (or start) and the next block (or end).
    pub runs: Histogram,
    /// Blocked times.
    pub sleeps: Histogram,
    /// By name of task, most CPU time first.
    pub names: Vec<NameRow>,
    /// The life asked for.
    pub life: Option<Life>,
}

/// Tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameRow {
    /// The name.
    pub name: String,
    /// How many.
    pub tasks: u64,
    /// CPU time that they want.
    pub cpu: Span,
    /// BLOCKs.
    pub blocks: u64,
    /// Blocked time.
    pub blocked: Span,
}

/// One task's life.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Whose.
    pub row: TaskId,
    /// First moment, in own time.
    pub from: Span,
    /// Last event.
    pub to: Span,
    /// Equal parts of the time between: CPU time in each, and what happens there.
    pub columns: Vec<Column>,
    /// Its CPU times between wakeup and block.
    pub runs: Histogram,
    /// Its blocked times.
    pub sleeps: Histogram,
    /// Who wakes it, how often (tasks of the workload).
    pub woken_by: BTreeMap<TaskId, u64>,
    /// Whom it wakes, how often.
    pub wakes: BTreeMap<TaskId, u64>,
    /// Its first events, with own times.
    pub first: Vec<(Span, Event)>,
    /// All of its events.
    pub nr_events: u64,
}

/// A part of a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// CPU time in it.
    pub cpu: Span,
    /// FORKs.
    pub forks: u32,
    /// PRIOs.
    pub prios: u32,
    /// YIELDs.
    pub yields: u32,
    /// Wakeups by other tasks of the workload.
    pub woken: u32,
    /// Whether the EXIT is here.
    pub exit: bool,
}

/// How often each power of two: bucket `i` counts lengths of 2^i to 2^(i+1) - 1 ns; 0 counts as 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The counts.
    pub buckets: [u64; 64],
    /// How many in all.
    pub count: u64,
    /// Their sum in ns.
    pub sum_ns: u128,
    /// The longest.
    pub max: Span,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [0; 64], count: 0, sum_ns: 0, max: Span::ZERO }
    }
}

impl Histogram {
    fn add(&mut self, span: Span) {
        self.buckets[span.as_ns().max(1).ilog2() as usize] += 1;
        self.count += 1;
        self.sum_ns += u128::from(span.as_ns());
        self.max = self.max.max(span);
    }

    /// The mean; zero if there are none.
    pub fn mean(&self) -> Span {
        Span::from_ns((self.sum_ns / u128::from(self.count.max(1))) as u64)
    }
}

/// Looks at all events once. `life` asks for one task's life, drawn in so many columns, and for so many of
/// its first events.
pub fn survey(source: &Source, life: Option<(TaskId, usize, usize)>) -> Result<Survey, StreamError> {
    let head = source.head();
    let mut kinds = [0u64; TYPES.len()];
    let (mut timers, mut devices, mut dependent) = (0, 0, 0);
    let (mut runs, mut sleeps) = (Histogram::default(), Histogram::default());
    let mut clocks = vec![OwnClock::default(); head.workload.tasks.len()];
    let mut rows = vec![NameRow::default(); head.workload.tasks.len()];
    let mut drawn = life.map(|(row, columns, first)| {
        let span = &head.lives[row.index()];
        Life {
            row,
            from: span.birth,
            to: span.end,
            columns: vec![Column::default(); columns.max(1)],
            runs: Histogram::default(),
            sleeps: Histogram::default(),
            woken_by: BTreeMap::new(),
            wakes: BTreeMap::new(),
            first: Vec::with_capacity(first),
            nr_events: span.nr_events,
        }
    });
    let nr_first = life.map_or(0, |(.., first)| first);
    source.runs(&mut |row, events| {
        let mine = drawn.as_ref().is_some_and(|life| life.row == row);
        let stats = &mut rows[row.index()];
        let clock = &mut clocks[row.index()];
        for event in events.iter() {
            let before = *clock;
            let at = clock.step(&event.kind);
            kinds[type_index(&event.kind)] += 1;
            match &event.kind {
                EventKind::Wakeup(wakeup) => {
                    let blocked = at.saturating_sub(before.now());
                    stats.blocked = saturating(stats.blocked, blocked);
                    sleeps.add(blocked);
                    match *wakeup {
                        Wakeup::External { source, .. } if !source.is_device() => timers += 1,
                        Wakeup::External { .. } => devices += 1,
                        Wakeup::Dependent { task, .. } => {
                            dependent += 1;
                            if let Some(life) = &mut drawn {
                                if mine {
                                    *life.woken_by.entry(task).or_default() += 1;
                                } else if task == life.row {
                                    *life.wakes.entry(row).or_default() += 1;
                                }
                            }
                        }
                    }
                    if let Some(life) = drawn.as_mut().filter(|_| mine) {
                        life.sleeps.add(blocked);
                    }
                }
                kind => {
                    let length = clock.length();
                    stats.cpu = saturating(stats.cpu, length.saturating_sub(before.length()));
                    if matches!(kind, EventKind::Block { .. } | EventKind::Exit { .. }) {
                        stats.blocks += u64::from(matches!(kind, EventKind::Block { .. }));
                        runs.add(length);
                        if let Some(life) = drawn.as_mut().filter(|_| mine) {
                            life.runs.add(length);
                        }
                    }
                }
            }
            if let Some(life) = drawn.as_mut().filter(|_| mine) {
                life.draw(&before, at, event);
                if life.first.len() < nr_first {
                    life.first.push((saturating(life.from, at), event.clone()));
                }
            }
        }
        Ok(())
    })?;
    let names = by_name(head.workload.tasks.iter().map(|task| task.name.as_str()).zip(&rows));
    kinds[0] = head.workload.tasks.iter().filter(|task| task.birth_eid().is_some()).count() as u64;
    Ok(Survey {
        events: std::array::from_fn(|i| (TYPES[i], kinds[i])),
        cpu: names.iter().fold(Span::ZERO, |sum, row| saturating(sum, row.cpu)),
        blocked: names.iter().fold(Span::ZERO, |sum, row| saturating(sum, row.blocked)),
        end: head.lives.iter().map(|life| life.end).max().unwrap_or_default(),
        timers,
        devices,
        dependent,
        runs,
        sleeps,
        names,
        life: drawn,
    })
}

/// The tasks' rows, those of one name together; what computes most first.
fn by_name<'a>(tasks: impl Iterator<Item = (&'a str, &'a NameRow)>) -> Vec<NameRow> {
    let mut by_name: BTreeMap<&str, NameRow> = BTreeMap::new();
    for (name, row) in tasks {
        let all = by_name.entry(name).or_default();
        all.tasks += 1;
        all.cpu = saturating(all.cpu, row.cpu);
        all.blocks += row.blocks;
        all.blocked = saturating(all.blocked, row.blocked);
    }
    let mut names: Vec<NameRow> =
        by_name.into_iter().map(|(name, row)| NameRow { name: name.to_string(), ..row }).collect();
    names.sort_by(|a, b| (b.cpu, &a.name).cmp(&(a.cpu, &b.name)));
    names
}

fn saturating(a: Span, b: Span) -> Span {
    Span::from_ns(a.as_ns().saturating_add(b.as_ns()))
}

fn type_index(kind: &EventKind) -> usize {
    match kind {
        EventKind::Fork { .. } => 1,
        EventKind::Prio { .. } => 2,
        EventKind::Yield { .. } => 3,
        EventKind::Block { .. } => 4,
        EventKind::Wakeup(_) => 5,
        EventKind::Exit { .. } => 6,
        EventKind::Object { .. } => 7,
        EventKind::Exec { .. } => 8,
        EventKind::Call { .. } => 9,
    }
}

impl Life {
    /// The column of a time since birth, and where it ends.
    fn column(&self, at_ns: u64) -> (usize, u64) {
        let (nr, total) = (self.columns.len() as u128, self.to.saturating_sub(self.from).as_ns().max(1));
        let index = (u128::from(at_ns) * nr / u128::from(total)).min(nr - 1);
        // the first time that belongs to the next column
        let end = ((index + 1) * u128::from(total)).div_ceil(nr);
        (index as usize, end as u64)
    }

    /// An event at `at` since birth, after the task's time `before`.
    fn draw(&mut self, before: &OwnClock, at: Span, event: &Event) {
        if event.kind.length().is_some() {
            let (mut from, to) = (before.now().as_ns(), at.as_ns());
            while from < to {
                let (index, end) = self.column(from);
                // the last column takes the rest
                let until = if index + 1 == self.columns.len() { to } else { to.min(end) };
                let column = &mut self.columns[index];
                column.cpu = saturating(column.cpu, Span::from_ns(until - from));
                from = until;
            }
        }
        let index = self.column(at.as_ns()).0;
        let column = &mut self.columns[index];
        match &event.kind {
            EventKind::Fork { .. } => column.forks += 1,
            EventKind::Prio { .. } => column.prios += 1,
            EventKind::Yield { .. } => column.yields += 1,
            EventKind::Wakeup(Wakeup::Dependent { .. }) => column.woken += 1,
            EventKind::Exit { .. } => column.exit = true,
            EventKind::Exec { .. }
            | EventKind::Call { .. }
            | EventKind::Block { .. }
            | EventKind::Object { .. }
            | EventKind::Wakeup(Wakeup::External { .. }) => {}
        }
    }
}
