//! What of a log is compared? A summary, small enough to be kept as a golden file.
//!
//! ```text
//!   ms    0         1         2
//!         0123456789012345678901
//!   cpu0  AAAABBBBAAAABBBBAAAABB    A: 12 ms, B: 10 ms; run delays 4 4 4 4 4 ms (and the 2 ms that A waits at the end)
//! ```

use schedlab_instruments::{LogProblem, Stay, for_each_stay, summarize};
use schedlab_log::{Kind, Log, Observer, PrevState, Record, Row, Run, Slots, WaitCause, replay};
use schedlab_units::{CpuId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Run delays are kept in steps of this: a hundredth of the shortest tick.
pub const DELAY_STEP_NS: u64 = 10_000;
/// A task that gets its CPU back within this time from threads of the kernel was interrupted, not switched.
pub const INTERRUPTION_NS: u64 = 1_000_000;
/// Migrations over time are kept in steps of this.
pub const MIGRATION_STEP_NS: u64 = 100_000_000;

/// One run, of the guest, the machine or the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Length of the run.
    pub duration_ns: u64,
    /// The workload's tasks, in its order.
    pub tasks: Vec<TaskMeasures>,
    /// Where each of these tasks begins, by number; -1: it comes later, or the log does not tell.
    #[serde(default)]
    pub start: Vec<i32>,
    /// Until when the set-up and the kernel's own threads hold each CPU: it runs one of these tasks then, or is idle.
    #[serde(default)]
    pub held_ns: Vec<u64>,
    /// Run delays of all tasks, without interruptions, in units of [`DELAY_STEP_NS`] (rounded), with how
    /// often each occurred; ascending.
    pub delays: Vec<(u64, u64)>,
    /// Migrations of the workload's tasks in each [`MIGRATION_STEP_NS`], without the zeros at the end.
    pub migrations: Vec<u32>,
    /// Of an uneven start: when the numbers of tasks per CPU first differed by at most one; `None`: never, or
    /// no such start.
    pub balance: Option<Balance>,
    /// Share of the CPUs' time that the workload's tasks had, 0 to 1.
    pub busy: f64,
    /// CPU time of the kernel's own threads.
    pub kernel_thread_ns: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskMeasures {
    /// Its name: equal names are a class.
    pub name: String,
    /// Its nice value.
    pub nice: i32,
    /// CPU time.
    pub cpu_ns: u64,
    /// Sum of its waits.
    pub delay_ns: u64,
    /// Switch-outs, voluntary.
    pub blocks: u64,
    /// Switch-outs while runnable, without interruptions.
    pub preemptions: u64,
    /// Runs on another CPU than the last.
    pub migrations: u64,
}

/// How an uneven start became even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// From the first migration to the first even state.
    pub after_ns: u64,
    /// Migrations on the way.
    pub moves: u32,
}

impl Measures {
    /// Reads a log.
    pub fn of(log: &dyn Log) -> Result<Measures, LogProblem> {
        Measures::of_first(log, log.header().tasks.len())
    }

    /// Reads a log; only the first `nr_tasks` of its tasks count: what follows belongs to the set-up.
    pub fn of_first(log: &dyn Log, nr_tasks: usize) -> Result<Measures, LogProblem> {
        let summary = summarize(log)?;
        let header = log.header();
        let counts = |task: TaskId| task.is_workload() && task.index() < nr_tasks;
        let mut delays: BTreeMap<u64, u64> = BTreeMap::new();
        let mut interruptions = vec![0; nr_tasks];
        let mut last: Vec<Option<Stay>> = vec![None; header.nr_cpus as usize];
        let mut migrations: Vec<u32> = Vec::new();
        let mut last_cpu: BTreeMap<u32, u32> = BTreeMap::new();
        for_each_stay(log, |run| {
            if !counts(run.task) {
                return;
            }
            let before = last.get_mut(run.cpu.index()).and_then(|last| last.replace(*run));
            if before.is_some_and(|before| is_interruption(&before, run)) {
                interruptions[run.task.index()] += 1;
            } else if let Some((_, ns)) = run.waited {
                *delays.entry((ns + DELAY_STEP_NS / 2) / DELAY_STEP_NS).or_default() += 1;
            }
            if last_cpu.insert(run.task.0, run.cpu.0).is_some_and(|last| last != run.cpu.0) {
                let step = (run.start_ns / MIGRATION_STEP_NS) as usize;
                if migrations.len() <= step {
                    migrations.resize(step + 1, 0);
                }
                migrations[step] += 1;
            }
        })?;
        let tasks = summary.tasks.iter().zip(&header.tasks).zip(&interruptions).map(
            |((task, header), interruptions)| TaskMeasures {
                name: header.name.clone(),
                nice: header.params.nice.get(),
                cpu_ns: task.cpu_ns,
                delay_ns: task.run_delay.sum_ns(),
                blocks: task.switches_voluntary,
                preemptions: task.switches_involuntary - interruptions,
                migrations: task.migrations,
            },
        );
        let Queues { balance, start, held_ns } = queues(log, nr_tasks)?;
        let capacity_ns = summary.duration_ns * u64::from(header.nr_cpus);
        Ok(Measures {
            duration_ns: summary.duration_ns,
            tasks: tasks.collect(),
            start,
            held_ns,
            delays: delays.into_iter().collect(),
            migrations,
            balance,
            busy: if capacity_ns == 0 { 0.0 } else { summary.system.task_ns as f64 / capacity_ns as f64 },
            kernel_thread_ns: summary.system.kernel_thread_ns,
        })
    }

    /// Switches of the workload's tasks.
    pub fn switches(&self) -> u64 {
        self.tasks.iter().map(|task| task.blocks + task.preemptions).sum()
    }

    /// Migrations of the workload's tasks, from the second step of [`MIGRATION_STEP_NS`] on.
    pub fn migrations_after_start(&self) -> u64 {
        self.migrations.iter().skip(1).map(|count| u64::from(*count)).sum()
    }
}

/// Whether a task was only interrupted: threads of the kernel had its CPU in between, for less than
/// [`INTERRUPTION_NS`]. Threads of parts that the machine does not have (memory's compaction and statistics,
/// drivers) interrupt a guest's tasks some ten times a second.
fn is_interruption(before: &Stay, run: &Stay) -> bool {
    before.task == run.task
        && before.stop == Some(PrevState::Preempted)
        && run.start_ns - before.end_ns < INTERRUPTION_NS
}

/// How an uneven start became even, by where tasks are queued, and where they began.
struct Queues {
    balance: Option<Balance>,
    start: Vec<i32>,
    held_ns: Vec<u64>,
}

fn queues(log: &dyn Log, nr_tasks: usize) -> Result<Queues, LogProblem> {
    let nr_cpus = log.header().nr_cpus as usize;
    let mut queued = Queued {
        nr_tasks,
        per_cpu: vec![0; nr_cpus],
        was_counted: vec![false; nr_tasks],
        start: vec![-1; nr_tasks],
        held_ns: vec![None; nr_cpus],
        ..Queued::default()
    };
    replay(log, &Slots::new(log.header()), &mut queued)?;
    let held_ns = queued.held_ns.into_iter().map(Option::unwrap_or_default).collect();
    Ok(Queues { balance: queued.balance, start: queued.start, held_ns })
}

/// Where runnable tasks are queued, of a workload whose tasks never sleep once started: a task that has slept
/// no longer counts.
#[derive(Default)]
struct Queued {
    nr_tasks: usize,
    now_ns: u64,
    per_cpu: Vec<i32>,
    /// Per task: it is new and has not slept.
    was_counted: Vec<bool>,
    start: Vec<i32>,
    held_ns: Vec<Option<u64>>,
    /// The worst difference seen before the first migration.
    uneven: bool,
    first_ns: Option<u64>,
    moves: u32,
    balance: Option<Balance>,
}

impl Queued {
    fn spread(&self) -> i32 {
        let [max, min] = [self.per_cpu.iter().max(), self.per_cpu.iter().min()];
        max.copied().unwrap_or(0) - min.copied().unwrap_or(0)
    }

    fn counts(&self, row: Row) -> bool {
        self.was_counted.get(row.index()).is_some_and(|counted| *counted)
    }

    /// The first thing that the CPU does for the workload, or its first idleness.
    fn free(&mut self, cpu: CpuId) {
        self.held_ns[cpu.index()].get_or_insert(self.now_ns);
    }
}

impl Observer for Queued {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
        if row.index() < self.nr_tasks && cause == WaitCause::New {
            self.per_cpu[cpu.index()] += 1;
            self.was_counted[row.index()] = true;
        }
    }
    fn run_end(&mut self, run: &Run) {
        if run.stop.is_some_and(|stop| !stop.is_runnable()) && self.counts(run.row) {
            self.was_counted[run.row.index()] = false;
            self.per_cpu[run.cpu.index()] -= 1;
        }
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        if !self.counts(row) || from == to {
            return;
        }
        // at time 0 it is set-up: the simulation binds a task after its birth, a guest's log begins after that
        let counts = self.now_ns > 0;
        if counts {
            self.uneven |= self.first_ns.is_none() && self.spread() > 1;
            self.first_ns.get_or_insert(self.now_ns);
            self.moves += 1;
        }
        self.per_cpu[from.index()] -= 1;
        self.per_cpu[to.index()] += 1;
        if counts && self.uneven && self.balance.is_none() && self.spread() <= 1 {
            let after_ns = self.now_ns - self.first_ns.unwrap_or(self.now_ns);
            self.balance = Some(Balance { after_ns, moves: self.moves });
        }
    }
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        let row = row.filter(|row| row.index() < self.nr_tasks);
        match kind {
            Kind::Switch => {
                let next = record.other();
                if next.is_idle() || (next.is_workload() && next.index() < self.nr_tasks) {
                    self.free(record.cpu());
                }
            }
            Kind::New if self.now_ns == 0 => {
                row.into_iter().for_each(|row| self.start[row.index()] = record.arg as i32)
            }
            Kind::Migrate if self.now_ns == 0 => {
                row.into_iter().for_each(|row| self.start[row.index()] = record.other as i32)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::{KernelThread, LogHeader, LogTask, MemLog};
    use schedlab_units::{Span, TaskId};

    const MS: u64 = 1_000_000;

    fn switch(ms: u64, cpu: u16, from: TaskId, to: TaskId) -> Record {
        let flags = PrevState::Preempted as u8;
        Record {
            time_ns: ms * MS,
            kind: Kind::Switch as u8,
            flags,
            cpu,
            task: from.0,
            other: to.0,
            ..Record::default()
        }
    }
    fn new(task: u32, cpu: u32) -> Record {
        Record { kind: Kind::New as u8, task, other: TaskId::IDLE.0, arg: cpu, ..Record::default() }
    }
    fn log(nr_cpus: u32, tasks: usize, ms: u64, records: Vec<Record>) -> MemLog {
        let tasks = vec![LogTask { name: "t".into(), ..LogTask::default() }; tasks];
        MemLog {
            header: LogHeader { nr_cpus, tasks, duration: Span::from_ms(ms), ..LogHeader::default() },
            records,
        }
    }

    // 0         1         2
    // 0123456789012345678901   ms
    // AAAABBBBAAAABBBBAAAABB
    #[test]
    fn the_drawn_schedule_is_measured() {
        let (a, b) = (TaskId(0), TaskId(1));
        let mut records = vec![new(0, 0), new(1, 0), switch(0, 0, TaskId::IDLE, a)];
        for turn in 0..5 {
            let (from, to) = if turn % 2 == 0 { (a, b) } else { (b, a) };
            records.push(switch(4 + 4 * turn, 0, from, to));
        }
        let found = Measures::of(&log(1, 2, 22, records)).unwrap();
        assert_eq!(found.tasks.iter().map(|t| t.cpu_ns / MS).collect::<Vec<_>>(), [12, 10]);
        // A's first run waited 0 ms; the five others 4 ms each; what is not over at the end is no sample
        assert_eq!(found.delays, [(0, 1), (400, 5)]);
        assert_eq!((found.switches(), found.migrations_after_start(), found.busy), (5, 0, 1.0));
    }

    // AAAAkAAAABBBB   the kernel's thread k has the CPU for 0.1 ms
    #[test]
    fn a_thread_of_the_kernel_interrupts_and_does_not_switch() {
        let (a, b, k) = (TaskId(0), TaskId(1), TaskId::kernel_thread(1));
        let mut records = vec![new(0, 0), new(1, 0), switch(0, 0, TaskId::IDLE, a), switch(4, 0, a, k)];
        let mut back = switch(4, 0, k, a);
        back.time_ns += 100_000;
        back.flags = PrevState::Sleeping as u8;
        records.extend([back, switch(8, 0, a, b)]);
        let mut log = log(1, 2, 12, records);
        log.header.kernel_threads = vec![KernelThread { pid: 1, name: "kworker/0:1".into() }];
        let found = Measures::of(&log).unwrap();
        assert_eq!((found.switches(), found.tasks[0].preemptions), (1, 1));
        assert_eq!(found.delays, [(0, 1), (800, 1)], "A at time 0, B after 8 ms");
    }

    // cpu0 AAAA  with B, C, D queued; one task moves at 10, one at 14 ms: 4,0 -> 3,1 -> 2,2
    #[test]
    fn an_uneven_start_becomes_even() {
        let migrate = |ms: u64, task: u32| Record {
            time_ns: ms * MS,
            kind: Kind::Migrate as u8,
            task,
            other: 1,
            arg: 0,
            ..Record::default()
        };
        let mut records: Vec<Record> = (0..4).map(|task| new(task, 0)).collect();
        records.push(switch(0, 0, TaskId::IDLE, TaskId(0)));
        records.extend([migrate(10, 1), switch(10, 1, TaskId::IDLE, TaskId(1)), migrate(14, 2)]);
        let found = Measures::of(&log(2, 4, 20, records)).unwrap();
        assert_eq!(found.balance, Some(Balance { after_ns: 4 * MS, moves: 2 }));
        // born elsewhere and bound to CPU 0 at time 0: the same start
        let mut records: Vec<Record> = (0..4).map(|task| new(task, task % 2)).collect();
        let bind = |task: u32| Record { other: 0, arg: 1, ..migrate(0, task) };
        records.extend([bind(1), bind(3), migrate(10, 1), migrate(14, 2)]);
        let found = Measures::of(&log(2, 4, 20, records)).unwrap();
        assert_eq!(found.balance, Some(Balance { after_ns: 4 * MS, moves: 2 }));
        let even = log(2, 2, 20, vec![new(0, 0), new(1, 1), migrate(10, 0)]);
        assert_eq!(Measures::of(&even).unwrap().balance, None);
    }
}
