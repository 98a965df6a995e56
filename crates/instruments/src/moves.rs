//! Which tasks changed their CPU, when, from where to where, why, and who moved them?
//!
//! ```text
//!   ms    0    1    2    3    4       A and B begin on cpu0; cpu1 pulls B at 1 ms (Balance, mover cpu1);
//!   cpu0  AAAAAAAAAA                  A sleeps from 2 to 3 ms and is woken, by an interrupt of cpu1,
//!   cpu1  .....BBBBB     AAAAA        for cpu1 (Wake, mover cpu1)
//! ```
//!
//! | kind | the log says |
//! |---|---|
//! | [`Wake`](MoveKind::Wake) | `waking`, then `migrate`: it wakes up elsewhere than where it fell asleep |
//! | [`Fork`](MoveKind::Fork) | `fork` on one CPU, `new` on another |
//! | [`Exec`](MoveKind::Exec) | a [`note::EXEC`], then `migrate` at the same instant |
//! | [`Balance`](MoveKind::Balance) | any other `migrate`: a balancer, a new affinity, a CPU that goes down |
//!
//! A task that runs on another CPU than it was assigned to, without a record that says so, has been moved
//! too: by nobody known. (One queue for all CPUs; a trace that lost events.) A move there and back again is
//! two moves, whether or not the task ran in between.

use crate::LogProblem;
use schedlab_log::{Fact, Kind, Log, Observer, Record, Row, Slots, note, replay};
use schedlab_units::{CpuId, TaskId};

/// Why a task changed its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MoveKind {
    /// It was woken for another CPU.
    Wake,
    /// It began on another CPU than the one that its parent forked it on.
    Fork,
    /// It executed a new program (the kernel's `sched_exec()`).
    Exec,
    /// It was runnable, and was moved.
    Balance,
}

/// A task's change of CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Who.
    pub task: TaskId,
    /// From where.
    pub from: CpuId,
    /// To where.
    pub to: CpuId,
    /// When, in ns from the start.
    pub time_ns: u64,
    /// Why.
    pub kind: MoveKind,
    /// The CPU that did it; `None`: not recorded.
    pub mover: Option<CpuId>,
}

/// Calls `f` with every move, kernel threads' included, in order of time.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule, or if its observer could not see every change of CPU.
pub fn for_each_move(log: &dyn Log, f: impl FnMut(&Move)) -> Result<(), LogProblem> {
    log.header().needs("every change of CPU", &[Fact::Assignments, Fact::Spans])?;
    let slots = Slots::new(log.header());
    let tasks = vec![Track::default(); slots.len()];
    replay(log, &slots, &mut Tracker { slots: &slots, tasks, now_ns: 0, f })
}

/// What is known of a task's place.
#[derive(Clone, Copy, Default)]
struct Track {
    cpu: Option<CpuId>,
    /// It was forked on this CPU, and is not runnable yet.
    forked_on: Option<CpuId>,
    /// It is being woken.
    is_waking: bool,
    /// When it executed a program last.
    exec_ns: Option<u64>,
}

struct Tracker<'a, F> {
    slots: &'a Slots,
    tasks: Vec<Track>,
    now_ns: u64,
    f: F,
}

impl<F: FnMut(&Move)> Tracker<'_, F> {
    /// The task is on `to` from now on.
    fn placed(&mut self, row: Row, to: CpuId, kind: MoveKind, mover: Option<CpuId>) {
        let from = self.tasks[row.index()].cpu.replace(to);
        if let Some(from) = from.filter(|from| *from != to) {
            let (task, time_ns) = (self.slots.id(row), self.now_ns);
            (self.f)(&Move { task, from, to, time_ns, kind, mover });
        }
    }

    fn migrate(&mut self, row: Row, record: &Record) {
        let track = &mut self.tasks[row.index()];
        track.cpu.get_or_insert(CpuId(record.arg));
        let kind = match track.exec_ns {
            _ if track.is_waking => MoveKind::Wake,
            Some(at_ns) if at_ns == record.time_ns => MoveKind::Exec,
            _ => MoveKind::Balance,
        };
        self.placed(row, CpuId(record.other), kind, Some(record.cpu()));
    }
}

impl<F: FnMut(&Move)> Observer for Tracker<'_, F> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        self.placed(row, cpu, MoveKind::Balance, None);
    }
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        let Some(row) = row else { return };
        match kind {
            Kind::Migrate => self.migrate(row, record),
            Kind::Waking => self.tasks[row.index()].is_waking = true,
            Kind::Wakeup => {
                self.tasks[row.index()].is_waking = false;
                self.placed(row, CpuId(record.arg), MoveKind::Wake, Some(record.cpu()));
            }
            Kind::New => {
                let track = &mut self.tasks[row.index()];
                track.cpu = track.cpu.or(track.forked_on);
                self.placed(row, CpuId(record.arg), MoveKind::Fork, Some(record.cpu()));
            }
            Kind::Fork => {
                if let Some(child) = self.slots.row(record.other()) {
                    self.tasks[child.index()].forked_on = Some(record.cpu());
                }
            }
            Kind::Note if record.arg == note::EXEC => {
                self.tasks[row.index()].exec_ns = Some(record.time_ns);
            }
            _ => {}
        }
    }
}
