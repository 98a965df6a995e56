//! Open arrivals: tasks come at random, each does its work and ends, however long the queue has become.
//!
//! With exponential times between arrivals and any law of service this is the M/G/1 queue (or M/G/c on c
//! CPUs), whose mean wait is known.

use super::distribution::{Distribution, Drawn};
use super::rng::Rng;
use super::{GenerateError, finished, nice};
use crate::{Builder, Workload};
use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Arrivals {
    /// Names the times drawn.
    pub seed: u64,
    /// How many tasks come.
    pub tasks: u32,
    /// Nice values, in turn.
    pub nices: Vec<i32>,
    /// Time from one arrival to the next (the first comes after one such time).
    pub between: Distribution,
    /// CPU time of each task.
    pub service: Distribution,
}

impl Default for Arrivals {
    /// 1000 tasks, 10 ms apart on average, with lives after the 1/T law of processes: 1 ms at least, cut at 100 s.
    fn default() -> Arrivals {
        Arrivals {
            seed: 1,
            tasks: 1000,
            nices: vec![0],
            between: Distribution::Drawn(Drawn::Exponential { mean: Span::from_ms(10) }),
            service: Distribution::Drawn(Drawn::Pareto {
                min: Span::from_ms(1),
                shape: 1.05,
                max: Span::from_s(100),
            }),
        }
    }
}

impl Arrivals {
    /// The workload: each task is there from the start, blocked until it arrives.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        self.between.check("between")?;
        self.service.check("service")?;
        if self.nices.is_empty() {
            return Err(GenerateError::Parameter {
                name: "nices",
                value: "[]".into(),
                expected: "at least one",
            });
        }
        let mut builder = Builder::new().with_room(3 * u128::from(self.tasks))?;
        // two streams: other services leave the arrivals as they are
        let (mut between, mut service) = (Rng::new(self.seed, 0), Rng::new(self.seed, 1));
        let mut at = Span::ZERO;
        for (&value, i) in self.nices.iter().cycle().zip(0..self.tasks) {
            let Some(next) = at.checked_add(self.between.draw(&mut between)) else {
                let value = format!("{:?}", self.between);
                return Err(GenerateError::Parameter {
                    name: "between",
                    value,
                    expected: "less than 584 years in sum",
                });
            };
            at = next;
            let nice = nice("nices", value)?;
            // service is at most 10^6 s, so that arrival and service together must be checked too
            let cpu = self.service.draw(&mut service).min(Span::from_ns(u64::MAX - at.as_ns()));
            builder.task(format!("arrival-{i}")).nice(nice).blocked().sleep(at).run(cpu).exit();
        }
        finished(builder)
    }
}
