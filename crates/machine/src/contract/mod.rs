//! Does a policy keep the contract of [`crate::policy`]? [`check`] runs it on random workloads and says which
//! rule it breaks.
//!
//! Each workload mixes all that tasks can do: runs from 0 to 8 ms, sleeps, wakeups by timers, devices and
//! other tasks, forks, exits, yields, and changes of nice, policy and affinity of oneself and of others; on
//! 1, 2 and 4 CPUs. Whatever the policy decides:
//!
//! 1. the run ends by itself, with every task done (none is lost, no rule of the adaptor broken);
//! 2. the log is a schedule: every CPU's switches follow each other, no task is in two places, time does not go back;
//! 3. each task's CPU time in the log equals its demand to the nanosecond, and the adaptor's own count agrees;
//! 4. no CPU is idle for any length of time while work waits that it may take, as far as the policy claims that
//!    ([`WorkConservation`]);
//! 5. a second run gives the same bytes.
//!
//! The adaptor's side of the contract is checked too ([`Probe`]): who owns a task when, what is called for whom.
//!
//! ```
//! use schedlab_machine::contract;
//! # use schedlab_machine::policy::*; use schedlab_units::*;
//! # #[derive(Default)] struct Mine(std::collections::VecDeque<TaskId>);
//! # impl Policy for Mine {
//! #     fn task_new(&mut self, _: &View, _: TaskId) {}
//! #     fn select_cpu(&mut self, v: &View, t: TaskId, _: Arrival) -> CpuId {
//! #         v.idle_cpu_for(t).unwrap_or(v.home_cpu(t))
//! #     }
//! #     fn enqueue(&mut self, _: &View, _: CpuId, t: TaskId, _: Arrival) { self.0.push_back(t) }
//! #     fn dequeue(&mut self, _: &View, _: CpuId, t: TaskId) { self.0.retain(|&x| x != t) }
//! #     fn pick_next(&mut self, v: &View, c: CpuId) -> Option<TaskId> {
//! #         self.0.iter().position(|&t| v.allowed(t, c)).and_then(|place| self.0.remove(place)) }
//! #     fn put_prev(&mut self, _: &View, _: CpuId, t: TaskId, _: Span, s: Stop) {
//! #         if s.is_runnable() { self.0.push_back(t) }
//! #     }
//! # }
//! contract::check(&|| Box::new(Mine::default()), 0..4).unwrap();
//! ```

mod probe;
mod workload;

pub use probe::Probe;
pub use workload::random_workload;

#[cfg(test)]
mod tests;

use crate::kernel::{Fault, Kernel};
use crate::native::Native;
use crate::policy::Policy;
#[cfg(doc)]
use crate::policy::WorkConservation;
use crate::{End, Machine, Program, Setup};
use schedlab_log::{Kind, Record};
use schedlab_topology::Topology;
use schedlab_units::{Span, TaskId};
use schedlab_workload::Workload;
use std::ops::Range;

/// A broken rule, with all that is needed to see it again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("workload of seed {seed} on {nr_cpus} CPU(s): {broken}")]
pub struct Violation {
    /// Argument of [`random_workload`].
    pub seed: u64,
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Which rule, and how.
    pub broken: Broken,
}

/// The rules.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Broken {
    /// The adaptor or the machine ended the run.
    #[error("the run ended with a fault: {0}")]
    Fault(Fault),
    /// The run did not end as it should.
    #[error("the run ended with {0:?} instead of every task done")]
    Unfinished(End),
    /// The log is not a schedule.
    #[error("the log is not a schedule: {0}")]
    Log(String),
    /// A task did not get what it asked for.
    #[error("{task} got {got} of CPU time and asked for {asked}")]
    Demand {
        /// The task.
        task: TaskId,
        /// CPU time received.
        got: Span,
        /// CPU time that its events ask for.
        asked: Span,
    },
    /// A CPU was idle while work waited, or the adaptor broke a promise.
    #[error("{0}")]
    Probe(String),
    /// Two runs differ.
    #[error(
        "two runs of the same workload differ from record {0} on: the policy depends on something outside (hash \
            order, addresses, clocks)"
    )]
    NotDeterministic(usize),
}

/// CPU counts on which a policy is checked.
pub const CPU_COUNTS: [u32; 3] = [1, 2, 4];

/// Checks a policy on the workloads of these seeds, on each of [`CPU_COUNTS`]; `make` builds it afresh.
/// Returns the number of records compared. About 1 ms per seed.
pub fn check(make: &dyn Fn() -> Box<dyn Policy>, seeds: Range<u64>) -> Result<u64, Violation> {
    let mut records = 0;
    for seed in seeds {
        for nr_cpus in CPU_COUNTS {
            let workload = random_workload(seed, nr_cpus);
            let checked = check_one(make, &workload, nr_cpus);
            records += checked.map_err(|broken| Violation { seed, nr_cpus, broken })?;
        }
    }
    Ok(records)
}

/// Checks a policy on one workload, in which every task ends by itself.
pub fn check_one(
    make: &dyn Fn() -> Box<dyn Policy>,
    workload: &Workload,
    nr_cpus: u32,
) -> Result<u64, Broken> {
    let (first, second) = (run(make(), workload, nr_cpus)?, run(make(), workload, nr_cpus)?);
    if let Some(place) = first.iter().zip(&second).position(|(a, b)| a != b) {
        return Err(Broken::NotDeterministic(place));
    }
    if first.len() != second.len() {
        return Err(Broken::NotDeterministic(first.len().min(second.len())));
    }
    let got = cpu_times(&first, workload.tasks.len(), nr_cpus).map_err(Broken::Log)?;
    for (index, (task, got)) in workload.tasks.iter().zip(got).enumerate() {
        let asked = task.cpu_demand();
        if got != asked {
            return Err(Broken::Demand { task: TaskId(index as u32), got, asked });
        }
    }
    Ok(first.len() as u64)
}

fn run(policy: Box<dyn Policy>, workload: &Workload, nr_cpus: u32) -> Result<Vec<Record>, Broken> {
    let program = Program::new(workload).expect("a contract workload is a valid workload");
    let topology = Topology::flat(nr_cpus).expect("the contract's CPU counts are valid");
    let (probe, seen) = Probe::new(policy);
    let mut records = Vec::new();
    let setup = Setup { topology, duration: None, params: Vec::new() };
    let mut machine = Machine::new(Native::new(probe, &mut records), program, setup);
    let outcome = machine.run();
    let counted = machine.kernel().read_out().tasks;
    drop(machine);
    if let Some(broken) = seen.take() {
        return Err(Broken::Probe(broken));
    }
    match outcome.end {
        End::AllDone => {}
        End::Fault(fault) => return Err(Broken::Fault(fault)),
        end => return Err(Broken::Unfinished(end)),
    }
    for (index, (task, got)) in workload.tasks.iter().zip(counted).enumerate() {
        let (asked, got) = (task.cpu_demand(), got.cpu);
        if got != asked {
            return Err(Broken::Demand { task: TaskId(index as u32), got, asked });
        }
    }
    Ok(records)
}

/// CPU time per task from the switches alone, which must be those of one consistent schedule.
fn cpu_times(records: &[Record], nr_tasks: usize, nr_cpus: u32) -> Result<Vec<Span>, String> {
    let mut current = vec![(TaskId::IDLE, 0u64); nr_cpus as usize];
    let mut runs_on: Vec<Option<u16>> = vec![None; nr_tasks];
    let mut cpu_ns = vec![0u64; nr_tasks];
    let mut now_ns = 0;
    for (place, record) in records.iter().enumerate() {
        if record.time_ns < now_ns {
            return Err(format!("record {place} goes back in time"));
        }
        now_ns = record.time_ns;
        if record.kind() != Some(Kind::Switch) {
            continue;
        }
        let (previous, since_ns) = current[usize::from(record.cpu)];
        if previous.0 != record.task {
            return Err(format!("record {place} stops {}, but {previous} runs there", TaskId(record.task)));
        }
        if !previous.is_idle() {
            cpu_ns[previous.index()] += now_ns - since_ns;
            runs_on[previous.index()] = None;
        }
        let next = TaskId(record.other);
        if !next.is_idle()
            && let Some(cpu) = runs_on[next.index()].replace(record.cpu)
        {
            return Err(format!("record {place} starts {next}, which runs on cpu{cpu}"));
        }
        current[usize::from(record.cpu)] = (next, now_ns);
    }
    Ok(cpu_ns.into_iter().map(Span::from_ns).collect())
}
