//! Harmony's start states: so many tasks on each CPU, released at one instant.
//!
//! ```text
//! counts = [3, 0], release = 10 ms        ms    0         10
//!                                         cpu0  AAABBBCCCAAABBB...     A, B, C bound to CPU 0
//!                                         cpu1  ............           free to take one from 10 ms on
//! ```
//!
//! A workload has no experimenter: a task, `release`, lifts the bounds. It is FIFO, takes no CPU time, and is
//! bound to the CPU with the most tasks: on any other it would leave the CPU idle when it goes back to sleep,
//! and that CPU would pull a task because of it. (`schedlab harmony` releases tasks from outside instead.)

use super::{GenerateError, duration, finished, positive};
use crate::build::ENDLESS;
use crate::{Builder, ParamChange, Workload};
use schedlab_units::{CpuSet, Span, TaskId};
use serde::{Deserialize, Serialize};

/// Hogs bound to CPUs, released at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Start {
    /// Tasks on CPU 0, 1, ...; the machine has as many CPUs.
    pub counts: Vec<u32>,
    /// When they are released.
    #[serde(with = "duration")]
    pub release: Span,
}

impl Default for Start {
    /// Eight on the first of four CPUs, released after a second.
    fn default() -> Start {
        Start { counts: vec![8, 0, 0, 0], release: Span::from_s(1) }
    }
}

impl Start {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        positive("release", self.release)?;
        let tasks: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let nr_cpus = self.counts.len() as u32;
        if tasks == 0 || self.counts.len() > 1024 {
            let (value, expected) =
                (format!("{:?}", self.counts), "a number of tasks for each CPU, up to 1024, not all 0");
            return Err(GenerateError::Parameter { name: "counts", value, expected });
        }
        let mut builder = Builder::new().with_room(u128::from(tasks) * 3)?;
        for (cpu, count) in (0..nr_cpus).zip(&self.counts) {
            for _ in 0..*count {
                builder.task("hog").cpu(cpu).run(ENDLESS).exit();
            }
        }
        let longest = (0..nr_cpus).rev().max_by_key(|cpu| self.counts[*cpu as usize]).unwrap_or(0);
        let mut release = builder.task("release").fifo(50).cpu(longest).start(self.release);
        for task in 0..tasks as u32 {
            let (target, affinity) = (Some(TaskId(task)), Some(CpuSet::first(nr_cpus)));
            release = release.set(ParamChange { target, affinity, ..ParamChange::default() });
        }
        // it does not end: a dead task is reaped later, and that wakes a thread of the kernel on some idle
        // CPU, which then pulls
        release.sleep(ENDLESS).exit();
        finished(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_begin_where_they_should_and_the_longest_queue_releases_them() {
        let workload = Start { counts: vec![1, 3], release: Span::from_ms(5) }.build().unwrap();
        let places: Vec<String> =
            workload.tasks.iter().map(|task| task.affinity.as_ref().unwrap().to_string()).collect();
        assert_eq!(places, ["0", "1", "1", "1", "1"]);
        assert_eq!(workload.tasks[4].events.len(), 1 + 4 + 2 + 1);
        for counts in [vec![], vec![0, 0]] {
            let error = Start { counts, ..Start::default() }.build().unwrap_err();
            assert!(error.to_string().contains("counts"), "{error}");
        }
    }
}
