//! A minimal scenario that shows idling beside work again: the tasks that were there when it began, each on the queue
//! that it was on, released at one instant, and as few of them as it takes.
//!
//! ```text
//! log: 40 tasks; at 12.4 s the queues are 3 0 2 1, and cpu1 idles for 505 ms
//!   -> scenario of 6 tasks, on 3 0 2 1, released after 1 ms      it idles for 505 ms: it shows it again
//!   -> without one task after the other, as long as it does      2 tasks on cpu0
//! ```
//!
//! A task of SCHED_DEADLINE is a normal one here: a log does not have what it reserved at every moment. Control groups
//! are left out.

use schedlab_instruments::{LogProblem, Picture, QueuedTask, Stretch, wasted};
use schedlab_lab::{Ended, Fails, FailureKind, Standard, Subject};
use schedlab_log::LogHeader;
use schedlab_runner::RunRequest;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::build::ENDLESS;
use schedlab_workload::{Builder, ParamChange, Workload, WorkloadBuildError};

/// The tasks are bound to their queues for so long: a tick finds them so at most once.
const RELEASE: Span = Span::from_ms(1);
/// A run lasts for as many times the stretch, or for [`LEAST`].
const TIMES: u64 = 2;
const LEAST: Span = Span::from_ms(500);
/// More runs than these are not made to leave tasks out.
const RUNS_MAX: u32 = 200;
/// Of who releases the tasks.
const RELEASE_PRIORITY: u8 = 98;

/// A scenario that is to show a stretch again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    tasks: Vec<QueuedTask>,
    names: Vec<String>,
    nr_cpus: u32,
    stretch: Stretch,
}

/// What came of the search for fewer tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The scenario, with as few tasks as were found to do.
    pub scenario: Again,
    /// How long a CPU idled beside work in it, ns; `None`: not for longer than was asked for.
    pub longest_ns: Option<u64>,
    /// Runs that were made.
    pub runs: u32,
}

/// A run of the scenario failed.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// The run did not end as it should.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// Its log contradicts itself.
    #[error("the scenario's own log: {0}")]
    Log(#[from] LogProblem),
    /// The workload breaks a rule of its model.
    #[error(transparent)]
    Build(#[from] WorkloadBuildError),
    /// There are no such CPUs.
    #[error(transparent)]
    Machine(#[from] schedlab_topology::TopologyError),
}

impl Fails for AgainError {
    fn kind(&self) -> FailureKind {
        match self {
            AgainError::Ended(ended) => ended.kind(),
            _ => FailureKind::Internal,
        }
    }
}

impl Again {
    /// Of what was there when a stretch began.
    pub fn of(header: &LogHeader, picture: &Picture) -> Again {
        let name = |present: &QueuedTask| header.tasks[present.task.index()].name.clone();
        Again {
            names: picture.present.iter().map(name).collect(),
            tasks: picture.present.clone(),
            nr_cpus: header.nr_cpus,
            stretch: picture.stretch,
        }
    }

    /// How many tasks it has, without the one that releases them.
    pub fn nr_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The workload: a task for each that was there, and one that releases them.
    ///
    /// # Errors
    /// [`WorkloadBuildError`]: never, for tasks of a log.
    pub fn workload(&self) -> Result<Workload, WorkloadBuildError> {
        let mut builder = Builder::new();
        for (present, name) in self.tasks.iter().zip(&self.names) {
            let life = builder.task(name.clone()).params(params(present.params)).cpu(present.cpu.0);
            life.run(ENDLESS).exit();
        }
        // from a queue that does not get empty by that: a CPU that falls idle looks for work
        let mut release = builder.task("release").fifo(RELEASE_PRIORITY).cpu(self.longest().0).start(RELEASE);
        for (row, present) in self.tasks.iter().enumerate() {
            let affinity = Some(present.cpus.clone());
            let target = Some(TaskId(row as u32));
            release = release.set(ParamChange { target, affinity, ..ParamChange::default() });
        }
        release.sleep(ENDLESS).exit();
        builder.finish()
    }

    /// The CPU with the most tasks, of equals the lowest.
    fn longest(&self) -> CpuId {
        let count = |cpu: &u32| self.tasks.iter().filter(|present| present.cpu.0 == *cpu).count();
        CpuId((0..self.nr_cpus).rev().max_by_key(count).unwrap_or(0))
    }

    /// How long a run of it lasts.
    pub fn duration(&self) -> Span {
        RELEASE + LEAST.max(Span::from_ns(self.stretch.ns().saturating_mul(TIMES)))
    }

    /// For how long a CPU idled beside work in a run of it, at the longest.
    fn longest_ns(&self, subject: &Subject, topology: &Topology) -> Result<u64, AgainError> {
        let workload = self.workload()?;
        let request =
            RunRequest { duration: Some(self.duration()), ..subject.on(&workload, topology.clone()) };
        let finished = schedlab_lab::run(&request, Standard::NoWarning)?;
        Ok(wasted(&finished.log, Span::ZERO)?.all.longest_ns)
    }

    /// Runs it, and leaves out one task after the other for as long as a CPU still idles beside work for longer than
    /// `bound`.
    ///
    /// # Errors
    /// The first run did not end as it should. (Later ones that do not are no scenario that shows it.)
    pub fn shown(self, subject: &Subject, topology: &Topology, bound: Span) -> Result<Shown, AgainError> {
        let longest_ns = self.longest_ns(subject, topology)?;
        if longest_ns <= bound.as_ns() {
            return Ok(Shown { scenario: self, longest_ns: None, runs: 1 });
        }
        let mut best = Shown { scenario: self, longest_ns: Some(longest_ns), runs: 1 };
        // halves first, then quarters, ...: many tasks are alike, and few are needed
        let mut size = best.scenario.nr_tasks() / 2;
        while size > 0 {
            let mut from = 0;
            while from < best.scenario.nr_tasks() && best.runs < RUNS_MAX {
                let fewer = best.scenario.without(from, size);
                best.runs += 1;
                match fewer.longest_ns(subject, topology) {
                    Ok(ns) if ns > bound.as_ns() => (best.scenario, best.longest_ns) = (fewer, Some(ns)),
                    _ => from += size,
                }
            }
            size /= 2;
        }
        Ok(best)
    }

    fn without(&self, from: usize, size: usize) -> Again {
        let is_kept = |row: &usize| !(from..from + size).contains(row);
        let rows: Vec<usize> = (0..self.tasks.len()).filter(is_kept).collect();
        Again {
            tasks: rows.iter().map(|row| self.tasks[*row].clone()).collect(),
            names: rows.iter().map(|row| self.names[*row].clone()).collect(),
            ..*self
        }
    }
}

/// As the tasks of a scenario have them.
fn params(params: SchedParams) -> SchedParams {
    match params.policy {
        SchedPolicy::Deadline => SchedParams::normal(Nice::default()),
        _ => SchedParams { deadline: None, ..params },
    }
}

/// Of the machine that the log's tasks ran on nothing but its CPUs is known: they are alike.
///
/// # Errors
/// There are no CPUs.
pub fn machine(header: &LogHeader) -> Result<Topology, schedlab_topology::TopologyError> {
    Topology::flat(header.nr_cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::toy;
    use schedlab_units::CpuSet;

    fn present(task: u32, cpu: u32) -> QueuedTask {
        let cpus = CpuSet::first(4);
        QueuedTask { task: TaskId(task), cpu: CpuId(cpu), cpus, params: SchedParams::default() }
    }

    /// [5,1,1,1] under a policy that never balances, and cpu3's task asleep: two tasks on one CPU show it.
    #[test]
    fn two_tasks_of_seven_are_enough() {
        let tasks: Vec<QueuedTask> =
            (0..7).map(|task| present(task, if task < 5 { 0 } else { task - 4 })).collect();
        let names = vec!["hog".to_string(); 7];
        let stretch = Stretch { from_ns: 0, to_ns: 300_000_000 };
        let again = Again { tasks, names, nr_cpus: 4, stretch };
        let subject = toy("toy", &[]).unwrap();
        let topology = Topology::flat(4).unwrap();
        let shown = again.clone().shown(&subject, &topology, Span::from_ms(10)).unwrap();
        assert_eq!(shown.scenario.nr_tasks(), 2);
        assert_eq!(shown.scenario.duration(), Span::from_ms(601));
        // ms    0    1    5     10          601
        // cpu0  AAAAAAAAAABBBBBBrABAB...      a toy knows no priorities: who releases them (r) waits for two slices
        assert_eq!(shown.longest_ns, Some(591_000_000));
        assert!(shown.scenario.workload().unwrap().to_text().unwrap().contains("affinity=0-3"));
        let balancing = toy("toy", &[("idle".into(), "5ms".into())]).unwrap();
        let shown = again.shown(&balancing, &topology, Span::from_ms(10)).unwrap();
        assert_eq!((shown.longest_ns, shown.runs), (None, 1));
    }
}
