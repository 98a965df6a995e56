//! Where does each task stand when everything is let go? Harmony's start states: tasks that only compute,
//! bound to CPUs in stated numbers, then released.
//!
//! ```text
//! counts 3,1      0        release (1 s)
//!        cpu0     hog hog hog ....|  whatever the scheduler makes of 3 and 1
//!        cpu1     hog ............|
//! ```
//!
//! The hogs are bound to their CPU from the start. After `release` of elapsed time a controller, SCHED_FIFO
//! on the last CPU, allows them every CPU of the list in one go, and sleeps. This is the form of the guest's
//! kept results; [`Start`](super::Start) has its controller on the CPU with the most tasks, where it leaves
//! no CPU idle.

use super::{GenerateError, finished};
use crate::build::ENDLESS;
use crate::{Builder, ParamChange, Workload};
use schedlab_units::{CpuSet, Span, TaskId};

/// A start state (Harmony: how many tasks each CPU has when balancing begins).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartState {
    /// Tasks on each CPU; as many CPUs as numbers.
    pub counts: Vec<u32>,
    /// When they are let go.
    pub release: Span,
}

impl Default for StartState {
    /// Eight tasks on the first of four CPUs, let go after a second.
    fn default() -> StartState {
        StartState { counts: vec![8, 0, 0, 0], release: Span::from_s(1) }
    }
}

impl StartState {
    /// The workload: row i is the i-th hog, by CPU; the controller comes last.
    ///
    /// # Errors
    /// No CPU, no task, or too many.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        let nr_tasks: u64 = self.counts.iter().copied().map(u64::from).sum();
        if nr_tasks == 0 {
            let value = format!("{:?}", self.counts);
            return Err(GenerateError::Parameter { name: "counts", value, expected: "at least one task" });
        }
        let mut builder = Builder::new().with_room(3 * u128::from(nr_tasks) + 5)?;
        for (cpu, count) in (0..).zip(&self.counts) {
            for _ in 0..*count {
                builder.task("hog").cpu(cpu).run(ENDLESS).exit();
            }
        }
        let nr_cpus = self.counts.len() as u32;
        let mut controller = builder.task("release").fifo(50).cpu(nr_cpus - 1).blocked().sleep(self.release);
        for task in 0..nr_tasks as u32 {
            controller = controller.set(ParamChange {
                target: Some(TaskId(task)),
                affinity: Some(CpuSet::first(nr_cpus)),
                ..ParamChange::default()
            });
        }
        // it does not end: whether and when a dead task is reaped differs between worlds, the grace period
        // after that wakes a kernel thread on some idle CPU, and a CPU that falls idle again pulls a task
        controller.block().sleep(ENDLESS).exit();
        finished(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_stand_where_they_are_put_until_they_are_let_go() {
        let workload = StartState { counts: vec![2, 0, 1], release: Span::from_ms(5) }.build().unwrap();
        let places: Vec<String> =
            workload.tasks.iter().map(|task| task.affinity.as_ref().unwrap().to_string()).collect();
        assert_eq!(places, ["0", "0", "2", "2"], "three hogs, and the controller on the last CPU");
        let text = workload.to_text().unwrap();
        assert!(text.contains("WAKEUP") && text.contains("affinity=0-2"), "{text}");
        assert_eq!(text.matches("affinity=0-2").count(), 3, "each hog is let go: {text}");
        let none = StartState { counts: vec![0, 0], ..StartState::default() }.build().unwrap_err();
        assert!(none.to_string().contains("at least one task"), "{none}");
    }
}
