//! How large may a workload be? Every bound that a reader of workloads keeps stands here, with its reason. (Limits
//! of files, of whatever kind, stand in `schedlab_stdx::limits`; all of them together in docs/results.md.)
//!
//! A text of one line can ask for four thousand million tasks: `1 INIT 0 0 1..4000000000 runnable`. Whoever
//! reads a file is therefore held to what it *expands to*, not to its length:
//!
//! | what | in memory ([`Limits::HELD`]) | passing by ([`Limits::STREAMED`]) |
//! |---|---|---|
//! | events | 100 million | 200 million |
//! | tasks | 1 million | 1 million |
//! | names, CPU lists, changes of settings, labels | 1 GiB | 1 GiB (tasks' alone: events are not kept) |
//! | all of it, at most | about 7 GiB | about 2 GiB |
//!
//! `run`, `compare`, `import` and all that simulate hold a workload in memory; so do mixes, generators and
//! descriptions for rt-app. The tools of `schedlab workload` let the events of a file pass by. A line, a
//! block or a copy that would go beyond is refused *before* it is expanded, with its place, what it makes,
//! the limit, and what to do ([`Exceeded`]).
//!
//! | of one file | limit | constant |
//! |---|---|---|
//! | line of a text | 16 MiB | [`LINE_BYTES_MAX`] |
//! | REPEAT blocks within each other | 16 | [`REPEAT_DEPTH_MAX`] |
//! | chunk of the binary form | 16 MiB | [`CHUNK_BYTES_MAX`] |
//! | TOML: a mix, a generator's settings | 4 MiB | [`TOML_BYTES_MAX`] |
//! | mixes within mixes | 8 | [`MIX_DEPTH_MAX`] |
//! | files that a mix reads, all told | 10,000 | [`MIX_FILES_MAX`] |
//! | copies, repetitions of a part, each | 1 million | [`TIMES_MAX`] |
//! | JSON for rt-app | 64 MiB, 64 levels | [`JSON_BYTES_MAX`], [`JSON_DEPTH_MAX`] |
//! | a snapshot of `/proc` | 256 MiB | [`SNAPSHOT_BYTES_MAX`] |
//! | a time that a generator is given | 1,000,000 s | [`TIME_MAX`] |
//!
//! **Time** needs no limit of its own: reading takes about 1.5 us per event of a text and 0.1 us per event of
//! the binary form, so that the longest read takes some five minutes. An empty REPEAT costs nothing.
//!
//! A recording (trace.dat, perf.data, ...) has at most 200 million events, of which a workload in memory keeps 100
//! million: a packed file can have a thousand times as many as its length tells.

use crate::{EventKind, Task, Workload};
pub use schedlab_stdx::limits::{
    JSON_BYTES_MAX, JSON_DEPTH_MAX, LINE_BYTES_MAX, SNAPSHOT_BYTES_MAX, TOML_BYTES_MAX, read_bytes, read_toml,
};
use schedlab_units::{CpuSet, Span};

/// REPEAT blocks within REPEAT blocks; far more than anyone can read.
pub const REPEAT_DEPTH_MAX: usize = 16;
/// A chunk of the binary form, in bytes. They are written at 64 KiB; one item, such as a note, may be long.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;
/// Mixes that name mixes that name mixes.
pub const MIX_DEPTH_MAX: usize = 8;
/// Files that one mix reads, those of the mixes within it included.
pub const MIX_FILES_MAX: usize = 10_000;
/// `copies` and `repeat` of a part of a mix, each.
pub const TIMES_MAX: u32 = 1_000_000;
/// A length of time among a generator's settings: 11 days.
pub const TIME_MAX: Span = Span::from_s(1_000_000);

/// How much a workload may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events, INIT included.
    pub events: u64,
    /// Tasks.
    pub tasks: u64,
    /// Bytes of what has no fixed size: names, lists of CPUs, changes of settings, labels.
    pub bytes: u64,
    /// Whether events stay in memory, so that their bytes count.
    pub keeps_events: bool,
}

impl Limits {
    /// For a workload that is held in memory: its events take 48 bytes each, its tasks some 300. A recording
    /// of an hour with 111 million events of the kernel has 75 million (docs/recording.md).
    #[allow(unexpected_cfgs)] // set by cargo-fuzz and scripts/fuzz.sh: no time for millions there
    pub const HELD: Limits = if cfg!(fuzzing) {
        Limits { events: 100_000, tasks: 100_000, bytes: 64 << 20, keeps_events: true }
    } else {
        Limits { events: 100_000_000, tasks: 1_000_000, bytes: 1 << 30, keeps_events: true }
    };
    /// For a workload whose events pass by: twice the largest file that `scripts/bench-workloads.sh` measures.
    pub const STREAMED: Limits = Limits { events: 200_000_000, keeps_events: false, ..Limits::HELD };
}

impl Limits {
    /// The same for a workload that must be held in memory after all.
    pub fn held(self) -> Limits {
        Limits {
            events: self.events.min(Limits::HELD.events),
            tasks: self.tasks.min(Limits::HELD.tasks),
            bytes: self.bytes.min(Limits::HELD.bytes),
            keeps_events: true,
        }
    }
}

impl Default for Limits {
    /// [`Limits::HELD`].
    fn default() -> Limits {
        Limits::HELD
    }
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Events, INIT included.
    Events,
    /// Tasks.
    Tasks,
    /// Bytes of names, CPU lists, changes of settings, labels.
    Bytes,
}

/// A limit that was passed: `this makes 4000000000 tasks; a workload may have 1000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What there is too much of.
    pub quantity: Quantity,
    /// How much it would be.
    pub value: u64,
    /// How much it may be.
    pub limit: u64,
    /// Whether a workload in memory is spoken of.
    pub is_held: bool,
}

impl Exceeded {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self.quantity {
            Quantity::Events => "repeat less often, or divide the workload (schedlab workload cut, filter)",
            Quantity::Tasks => "state fewer tasks, or make fewer copies",
            Quantity::Bytes => "use shorter names and lists of CPUs, fewer labels, fewer changes of settings",
        }
    }
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.quantity {
            Quantity::Events => "events",
            Quantity::Tasks => "tasks",
            Quantity::Bytes => "bytes of names, CPU lists, settings and labels",
        };
        let held = if self.is_held { " in memory" } else { "" };
        write!(f, "this makes {} {what}; a workload may have {}{held}", self.value, self.limit)
    }
}

impl std::error::Error for Exceeded {}

/// What a workload holds so far.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    limits: Limits,
    events: u64,
    tasks: u64,
    bytes: u64,
}

impl Account {
    /// Of nothing yet.
    pub fn new(limits: Limits) -> Account {
        Account { limits, events: 0, tasks: 0, bytes: 0 }
    }

    /// The limits kept.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Events so far.
    pub fn nr_events(&self) -> u64 {
        self.events
    }

    /// Makes room for `more` events, or leaves the account as it is.
    #[inline]
    pub fn add_events(&mut self, more: u64) -> Result<(), Exceeded> {
        self.events = self.room(Quantity::Events, self.events, more, self.limits.events)?;
        Ok(())
    }

    /// Makes room for `more` tasks, or leaves the account as it is.
    pub fn add_tasks(&mut self, more: u64) -> Result<(), Exceeded> {
        self.tasks = self.room(Quantity::Tasks, self.tasks, more, self.limits.tasks)?;
        Ok(())
    }

    /// Makes room for `more` bytes, or leaves the account as it is.
    #[inline]
    pub fn add_bytes(&mut self, more: u64) -> Result<(), Exceeded> {
        self.bytes = self.room(Quantity::Bytes, self.bytes, more, self.limits.bytes)?;
        Ok(())
    }

    /// Makes room for a task, without its events.
    pub fn add_task(&mut self, task: &Task) -> Result<(), Exceeded> {
        self.add_tasks(1)?;
        self.add_bytes(task_bytes(task))
    }

    /// Makes room for an event.
    #[inline]
    pub fn add_event(&mut self, kind: &EventKind) -> Result<(), Exceeded> {
        self.add_events(1)?;
        self.add_event_bytes(kind)
    }

    /// Makes room for what an event that is kept has beyond its fixed size.
    #[inline]
    pub fn add_event_bytes(&mut self, kind: &EventKind) -> Result<(), Exceeded> {
        match kind {
            EventKind::Prio { .. } if self.limits.keeps_events => self.add_bytes(event_bytes(kind)),
            _ => Ok(()),
        }
    }

    /// Refuses the number of a task that no workload within the limits can have.
    pub fn check_tasks(&self, nr: u64) -> Result<(), Exceeded> {
        self.room(Quantity::Tasks, 0, nr, self.limits.tasks).map(drop)
    }

    /// Makes room for so many copies of a workload.
    pub fn add_copies(&mut self, workload: &Workload, copies: u64) -> Result<(), Exceeded> {
        self.add_tasks(copies.saturating_mul(workload.tasks.len() as u64))?;
        self.add_events(copies.saturating_mul(workload.nr_events()))?;
        self.add_bytes(copies.saturating_mul(workload_bytes(workload)))
    }

    /// Refuses so many events, without counting them.
    pub fn check_events(&self, nr: u64) -> Result<(), Exceeded> {
        self.room(Quantity::Events, 0, nr, self.limits.events).map(drop)
    }

    #[inline]
    fn room(&self, quantity: Quantity, now: u64, more: u64, limit: u64) -> Result<u64, Exceeded> {
        let value = now.saturating_add(more);
        if value <= limit {
            return Ok(value);
        }
        Err(Exceeded { quantity, value, limit, is_held: self.limits.keeps_events })
    }
}

fn cpus_bytes(cpus: Option<&CpuSet>) -> u64 {
    cpus.map_or(0, |cpus| size_of_val(cpus.words()) as u64)
}

/// What a task takes beyond its fixed size, its events left out.
fn task_bytes(task: &Task) -> u64 {
    task.name.len() as u64 + cpus_bytes(task.affinity.as_ref())
}

/// What an event takes beyond its fixed size.
fn event_bytes(kind: &EventKind) -> u64 {
    match kind {
        EventKind::Prio { change, .. } => {
            size_of_val(&**change) as u64 + cpus_bytes(change.affinity.as_ref())
        }
        _ => 0,
    }
}

fn workload_bytes(workload: &Workload) -> u64 {
    let of_task = |task: &Task| {
        task_bytes(task) + task.events.iter().map(|event| event_bytes(&event.kind)).sum::<u64>()
    };
    workload.tasks.iter().map(of_task).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the limit all is well; one beyond says what, how much, and what to do, and leaves the account as it was.
    #[test]
    fn the_last_one_fits_and_the_next_does_not() {
        for limits in [Limits::HELD, Limits::STREAMED] {
            let mut account = Account::new(limits);
            account.add_events(limits.events).unwrap();
            account.add_tasks(limits.tasks).unwrap();
            account.add_bytes(limits.bytes).unwrap();
            for (error, limit) in [
                (account.add_events(1), limits.events),
                (account.add_tasks(1), limits.tasks),
                (account.add_bytes(1), limits.bytes),
            ] {
                let error = error.unwrap_err();
                assert_eq!((error.value, error.limit), (limit + 1, limit));
                assert!(error.to_string().contains(&limit.to_string()) && !error.remedy().is_empty());
                assert_eq!(error.to_string().contains("in memory"), limits.keeps_events);
            }
            assert_eq!(account.add_events(u64::MAX).unwrap_err().value, u64::MAX);
            assert_eq!(account.nr_events(), limits.events);
        }
    }
}
