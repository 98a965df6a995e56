//! Tasks that run and sleep by chance: with distributions measured in a trace, tasks like those of the trace.

use super::distribution::Distribution;
use super::rng::Rng;
use super::{GenerateError, duration, finished, nice, positive};
use crate::{Builder, Workload};
use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Random {
    /// Names the times drawn.
    pub seed: u64,
    /// How many.
    pub tasks: u32,
    /// CPU time of each turn.
    pub run: Distribution,
    /// Elapsed time asleep after it.
    pub sleep: Distribution,
    /// Nice values, in turn.
    pub nices: Vec<i32>,
    /// A task that would have lived so long if it never waited ends with that turn.
    #[serde(with = "duration")]
    pub duration: Span,
}

impl Default for Random {
    /// Eight tasks, 2 ms of work and 8 ms of sleep on average, for 60 s.
    fn default() -> Random {
        Random {
            seed: 1,
            tasks: 8,
            run: Distribution::exponential(Span::from_ms(2)),
            sleep: Distribution::exponential(Span::from_ms(8)),
            nices: vec![0],
            duration: Span::from_s(60),
        }
    }
}

/// A turn takes this long at least, on average: else a short life would have too many.
const TURN_MIN_NS: f64 = 100.0;

impl Random {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        self.run.check("run")?;
        self.sleep.check("sleep")?;
        positive("duration", self.duration)?;
        if self.nices.is_empty() {
            return Err(GenerateError::Parameter {
                name: "nices",
                value: "[]".into(),
                expected: "at least one",
            });
        }
        // log-normals have no mean here: their median is below it
        let turn_ns = self.run.mean_ns().unwrap_or(TURN_MIN_NS) + self.sleep.mean_ns().unwrap_or(TURN_MIN_NS);
        if turn_ns < TURN_MIN_NS {
            let value = format!("{turn_ns:.0}ns on average");
            return Err(GenerateError::Parameter {
                name: "run and sleep",
                value,
                expected: "100ns at least in sum",
            });
        }
        // about so many; a distribution without a mean is watched while it is drawn
        let turns = (self.duration.as_ns() as f64 / turn_ns).ceil() as u128;
        let mut builder = Builder::new().with_room(u128::from(self.tasks).saturating_mul(2 * turns + 2))?;
        for (&value, i) in self.nices.iter().cycle().zip(0..self.tasks) {
            let (mut run, mut sleep) =
                (Rng::new(self.seed, 2 * u64::from(i)), Rng::new(self.seed, 2 * u64::from(i) + 1));
            let task = builder.task(format!("random-{i}")).nice(nice("nices", value)?).id();
            let mut lived = Span::ZERO;
            while lived < self.duration {
                let (work, rest) = (self.run.draw(&mut run), self.sleep.draw(&mut sleep));
                lived = lived.checked_add(work).and_then(|sum| sum.checked_add(rest)).unwrap_or(Span::MAX);
                builder.life(task).run(work).sleep(rest);
                builder.room()?;
            }
            builder.life(task).exit();
        }
        finished(builder)
    }
}
