//! Tasks that compute, or compute and sleep in turn: hogs, fairbench, sleepers, responsebench.

use super::{GenerateError, default_nices, duration, finished, nice, positive};
use crate::limits::TIME_MAX;
use crate::{Builder, Workload};
use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// Tasks that only compute, one per nice value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hogs {
    /// One task each.
    pub nices: Vec<i32>,
    /// CPU time of each, then it ends.
    #[serde(with = "duration")]
    pub cpu: Span,
}

impl Default for Hogs {
    /// Two at nice 0, an hour each.
    fn default() -> Hogs {
        Hogs { nices: vec![0, 0], cpu: Span::from_s(3600) }
    }
}

impl Hogs {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        let mut builder = Builder::new().with_room(self.nices.len() as u128 * 2)?;
        for &value in &self.nices {
            let nice = nice("nices", value)?;
            builder.task(format!("hog{value:+}")).nice(nice).run(self.cpu).exit();
        }
        finished(builder)
    }
}

/// WARP's fairbench (section V.D): some hogs at each of several nice values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fairbench {
    /// The levels.
    pub nices: Vec<i32>,
    /// Tasks at each.
    pub tasks_per_level: u32,
    /// CPU time of each task, then it ends.
    #[serde(with = "duration")]
    pub cpu: Span,
}

impl Default for Fairbench {
    /// The paper's: five each at -20, -10, 0, 10, 19.
    fn default() -> Fairbench {
        Fairbench { nices: default_nices(), tasks_per_level: 5, cpu: Span::from_s(3600) }
    }
}

impl Fairbench {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        let mut builder =
            Builder::new().with_room(self.nices.len() as u128 * u128::from(self.tasks_per_level) * 2)?;
        for &value in &self.nices {
            for _ in 0..self.tasks_per_level {
                let nice = nice("nices", value)?;
                builder.task(format!("nice{value:+}")).nice(nice).run(self.cpu).exit();
            }
        }
        finished(builder)
    }
}

/// WARP's responsebench (section V.D): tasks that run and sleep in turn, some for each length of sleep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Responsebench {
    /// CPU time of each turn.
    #[serde(with = "duration")]
    pub run: Span,
    /// The levels.
    #[serde(with = "duration::list")]
    pub sleeps: Vec<Span>,
    /// Tasks at each.
    pub tasks_per_level: u32,
    /// Nice value of all.
    pub nice: i32,
    /// How long each task lasts if it never waits; rounded up to whole turns.
    #[serde(with = "duration")]
    pub duration: Span,
}

impl Default for Responsebench {
    /// The paper's: 5 ms, then 5, 10, 20, 50 or 100 ms of sleep, five tasks each; for 200 s.
    fn default() -> Responsebench {
        Responsebench {
            run: Span::from_ms(5),
            sleeps: [5, 10, 20, 50, 100].map(Span::from_ms).to_vec(),
            tasks_per_level: 5,
            nice: 0,
            duration: Span::from_s(200),
        }
    }
}

impl Responsebench {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        positive("duration", self.duration)?;
        let turns = |sleep: Span| -> Result<u64, GenerateError> {
            let turn = self.run.checked_add(sleep).unwrap_or(Span::MAX);
            positive("run and sleeps", turn)?;
            Ok(self.duration.as_ns().div_ceil(turn.as_ns()))
        };
        let mut per_task = 0;
        for &sleep in &self.sleeps {
            per_task += 2 * u128::from(turns(sleep)?) + 2;
        }
        let mut builder = Builder::new().with_room(per_task * u128::from(self.tasks_per_level))?;
        for &sleep in &self.sleeps {
            for _ in 0..self.tasks_per_level {
                let mut life = builder.task(format!("sleep-{sleep}")).nice(nice("nice", self.nice)?);
                for _ in 0..turns(sleep)? {
                    life = life.run(self.run).sleep(sleep);
                }
                life.exit();
            }
        }
        finished(builder)
    }
}

/// Equal tasks that run and sleep in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sleepers {
    /// How many.
    pub tasks: u32,
    /// CPU time of each turn.
    #[serde(with = "duration")]
    pub run: Span,
    /// Elapsed time asleep.
    #[serde(with = "duration")]
    pub sleep: Span,
    /// Nice value of all.
    pub nice: i32,
    /// Task i starts i times this later, so that they need not move in step.
    #[serde(with = "duration")]
    pub stagger: Span,
    /// How long each task lasts if it never waits; rounded up to whole turns.
    #[serde(with = "duration")]
    pub duration: Span,
}

impl Default for Sleepers {
    /// The workload of the speed budget: 8 x (4 ms run + 6 ms sleep), 600 s.
    fn default() -> Sleepers {
        Sleepers {
            tasks: 8,
            run: Span::from_ms(4),
            sleep: Span::from_ms(6),
            nice: 0,
            stagger: Span::ZERO,
            duration: Span::from_s(600),
        }
    }
}

impl Sleepers {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        let turn = self.run.checked_add(self.sleep).unwrap_or(Span::MAX);
        positive("run and sleep", turn)?;
        positive("duration", self.duration)?;
        let turns = self.duration.as_ns().div_ceil(turn.as_ns());
        let last = self.stagger.as_ns().checked_mul(u64::from(self.tasks));
        if last.is_none_or(|ns| Span::from_ns(ns) > TIME_MAX) {
            let value = self.stagger.to_string();
            return Err(GenerateError::Parameter {
                name: "stagger",
                value,
                expected: "at most 1000000s over all tasks",
            });
        }
        let mut builder = Builder::new().with_room((2 * u128::from(turns) + 3) * u128::from(self.tasks))?;
        let nice = nice("nice", self.nice)?;
        for i in 0..self.tasks {
            let start = Span::from_ns(self.stagger.as_ns() * u64::from(i));
            let mut life = builder.task("sleeper").nice(nice).start(start);
            for _ in 0..turns {
                life = life.run(self.run).sleep(self.sleep);
            }
            life.exit();
        }
        finished(builder)
    }
}
