//! Real-time sets: periodic tasks whose utilisations add up to a given sum, drawn evenly among all such sets
//! by UUniFast, or by RandFixedSum among all that keep bounds ([`rand_fixed_sum`]). UUniFast (Bini and
//! Buttazzo, "Measuring the Performance of Schedulability Tests", Real-Time Systems 30, 2005).
//!
//! ```text
//! sum = U;  for i = 1 .. n-1:  next = sum x u^(1/(n-i));  U_i = sum - next;  sum = next;     U_n = sum
//! ```
//!
//! A job runs for U_i x period, then sleeps until a period after its release, as with `clock_nanosleep` on an
//! absolute clock: releases stay on the grid of periods however late a job was. A job that ends after the
//! next release is followed by that one at once.

use super::fixed_sum::rand_fixed_sum;
use super::rng::Rng;
use super::{GenerateError, duration, finished, positive};
use crate::{Builder, Workload};
use schedlab_units::{DeadlineParams, Nice, SchedParams, SchedPolicy, Span};
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Periodic {
    /// Names the set drawn.
    pub seed: u64,
    /// How many tasks.
    pub tasks: u32,
    /// Sum of their utilisations, in CPUs.
    pub utilisation: f64,
    /// How they are drawn.
    pub method: Method,
    /// No task alone has less.
    pub utilisation_min: f64,
    /// No task alone has more. With UUniFast sets that break a bound are drawn again (UUniFast-Discard, Davis
    /// and Burns 2009).
    pub utilisation_max: f64,
    /// Shortest period; periods are drawn log-uniformly, in whole us.
    #[serde(with = "duration")]
    pub period_min: Span,
    /// Longest.
    #[serde(with = "duration")]
    pub period_max: Span,
    /// How they are scheduled.
    pub policy: PeriodicPolicy,
    /// SCHED_DEADLINE only: the reserved runtime is this times the runtime needed, at most the period.
    pub reserve: f64,
    /// How long each task lasts if it never waits; rounded up to whole periods.
    #[serde(with = "duration")]
    pub duration: Span,
}

/// How utilisations are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Bini and Buttazzo 2005; good without tight bounds.
    UUniFast,
    /// Stafford 2006; with any bounds.
    RandFixedSum,
}

/// How a periodic set is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeriodicPolicy {
    /// SCHED_DEADLINE, deadline = period (earliest deadline first).
    Deadline,
    /// SCHED_FIFO, shorter periods first (rate monotonic): priority 98 for the shortest period, one less for
    /// each longer one, 1 at least.
    RateMonotonic,
    /// SCHED_NORMAL at nice 0.
    Normal,
}

impl Default for Periodic {
    /// Five tasks that use 0.7 of a CPU, periods of 5 to 100 ms, as deadline tasks with a tenth to spare; for 60 s.
    fn default() -> Periodic {
        Periodic {
            seed: 1,
            tasks: 5,
            utilisation: 0.7,
            method: Method::UUniFast,
            utilisation_min: 0.0,
            utilisation_max: 0.9,
            period_min: Span::from_ms(5),
            period_max: Span::from_ms(100),
            policy: PeriodicPolicy::Deadline,
            reserve: 1.1,
            duration: Span::from_s(60),
        }
    }
}

/// Sets drawn before giving up; with sensible parameters a few do.
const DRAWS_MAX: u64 = 100_000;

/// Utilisations of `n` tasks that add up to `sum`, by UUniFast.
pub fn uunifast(n: u32, sum: f64, rng: &mut Rng) -> Vec<f64> {
    let mut rest = sum;
    let mut utilisations = Vec::with_capacity(n as usize);
    for left in (1..n).rev() {
        let next = rest * libm::pow(rng.unit(), 1.0 / f64::from(left));
        utilisations.push(rest - next);
        rest = next;
    }
    if n > 0 {
        utilisations.push(rest);
    }
    utilisations
}

impl Periodic {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        let sets = self.draw()?;
        let jobs = |period: Span| self.duration.as_ns().div_ceil(period.as_ns());
        let events = sets.iter().map(|&(_, period)| 2 * u128::from(jobs(period)) + 2).sum();
        let mut builder = Builder::new().with_room(events)?;
        let mut by_period: Vec<Span> = sets.iter().map(|&(_, period)| period).collect();
        by_period.sort_unstable();
        by_period.dedup();
        for (i, &(run, period)) in sets.iter().enumerate() {
            let params = match self.policy {
                PeriodicPolicy::Normal => SchedParams::normal(Nice::default()),
                PeriodicPolicy::RateMonotonic => {
                    let rank = by_period.binary_search(&period).unwrap_or_else(|rank| rank);
                    let rt_priority = 98usize.saturating_sub(rank).max(1) as u8;
                    SchedParams { policy: SchedPolicy::Fifo, rt_priority, ..SchedParams::default() }
                }
                PeriodicPolicy::Deadline => {
                    let reserved = Span::from_ns((run.as_ns() as f64 * self.reserve) as u64);
                    let runtime = reserved.max(RUNTIME_MIN).min(period);
                    let deadline = Some(DeadlineParams { runtime, deadline: period, period });
                    SchedParams { policy: SchedPolicy::Deadline, deadline, ..SchedParams::default() }
                }
            };
            let mut life = builder.task(format!("periodic-{i}")).params(params);
            for _ in 0..jobs(period) {
                life = life.run(run).sleep_until(period);
            }
            life.exit();
        }
        finished(builder)
    }

    /// Run time and period of each task.
    fn draw(&self) -> Result<Vec<(Span, Span)>, GenerateError> {
        let fail = |name, value: f64, expected| {
            Err(GenerateError::Parameter { name, value: value.to_string(), expected })
        };
        if !(self.utilisation > 0.0 && self.utilisation <= f64::from(self.tasks) * self.utilisation_max) {
            return fail("utilisation", self.utilisation, "more than 0, and at most tasks x utilisation_max");
        }
        if !(self.utilisation_max > 0.0 && self.utilisation_max <= 1.0) {
            return fail("utilisation_max", self.utilisation_max, "more than 0, at most 1");
        }
        let least = f64::from(self.tasks) * self.utilisation_min;
        if !(self.utilisation_min >= 0.0
            && self.utilisation_min <= self.utilisation_max
            && least <= self.utilisation)
        {
            return fail(
                "utilisation_min",
                self.utilisation_min,
                "0 or more, and tasks x utilisation_min at most utilisation",
            );
        }
        if !(self.reserve >= 1.0 && self.reserve.is_finite()) {
            return fail("reserve", self.reserve, "1 or more");
        }
        positive("duration", self.duration)?;
        let (min, max) = (self.period_min, self.period_max);
        if min < Span::from_us(100) || max > Span::from_s(4) || min > max {
            let value = format!("{min} to {max}");
            let expected =
                "100us <= period_min <= period_max <= 4s (sched_deadline_period_min_us and _max_us)";
            return Err(GenerateError::Parameter { name: "period_min and period_max", value, expected });
        }
        let mut utilisations = None;
        let (least, most) = (self.utilisation_min, self.utilisation_max);
        for set in 0..DRAWS_MAX {
            let mut rng = Rng::new(self.seed, set);
            let drawn = match self.method {
                Method::UUniFast => uunifast(self.tasks, self.utilisation, &mut rng),
                Method::RandFixedSum => rand_fixed_sum(self.tasks, self.utilisation, least, most, &mut rng),
            };
            if drawn.iter().all(|u| (least..=most).contains(u)) {
                utilisations = Some(drawn);
                break;
            }
        }
        let Some(utilisations) = utilisations else {
            let expected =
                "a sum further from the bounds (no set drawn kept them), or method = \"randfixedsum\"";
            return fail("utilisation", self.utilisation, expected);
        };
        let mut rng = Rng::new(self.seed, DRAWS_MAX);
        let (low, high) = (libm::log(min.as_ns() as f64), libm::log(max.as_ns() as f64));
        Ok(utilisations
            .into_iter()
            .map(|utilisation| {
                let ns = libm::exp(low + (high - low) * rng.unit());
                let whole_us = Span::from_us(libm::round(ns / 1_000.0) as u64);
                let period = whole_us.clamp(min, max);
                let run_ns = libm::round(period.as_ns() as f64 * utilisation) as u64;
                (Span::from_ns(run_ns).min(period), period)
            })
            .collect())
    }
}

/// SCHED_DEADLINE accepts no less (kernel/sched/deadline.c, 1 << DL_SCALE ns).
const RUNTIME_MIN: Span = Span::from_ns(1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisations_add_up_and_are_spread_evenly() {
        let (n, sum, draws) = (4, 2.0, 20_000);
        let mut means = [0.0; 4];
        let mut first_below = 0;
        for stream in 0..draws {
            let drawn = uunifast(n, sum, &mut Rng::new(7, stream));
            assert!((drawn.iter().sum::<f64>() - sum).abs() < 1e-12 && drawn.iter().all(|&u| u >= 0.0));
            means.iter_mut().zip(&drawn).for_each(|(mean, u)| *mean += u / draws as f64);
            first_below += usize::from(drawn[0] < 0.2);
        }
        // evenly on the simplex: every task has the mean sum/n, and P(U_1 < x) = 1 - (1 - x/sum)^(n-1)
        assert!(means.iter().all(|mean| (mean / 0.5 - 1.0).abs() < 0.03), "{means:?}");
        let expected = 1.0 - (1.0 - 0.1f64).powi(3);
        assert!((first_below as f64 / draws as f64 - expected).abs() < 0.01);
        assert_eq!(uunifast(1, 0.5, &mut Rng::new(1, 1)), [0.5]);
    }

    #[test]
    fn rate_monotonic_gives_shorter_periods_higher_priorities() {
        let spec = Periodic { policy: PeriodicPolicy::RateMonotonic, tasks: 8, ..Periodic::default() };
        let workload = spec.build().unwrap();
        let mut tasks: Vec<(u64, u8)> = workload
            .tasks
            .iter()
            .map(|task| {
                let crate::EventKind::Wakeup(crate::Wakeup::External { after, .. }) = task.events[1].kind
                else {
                    panic!("a job is followed by a sleep")
                };
                (after.as_ns(), task.params.unwrap().rt_priority)
            })
            .collect();
        tasks.sort_unstable();
        assert!(tasks.windows(2).all(|pair| pair[0].1 > pair[1].1 || pair[0].0 == pair[1].0), "{tasks:?}");
        assert!(tasks.iter().all(|&(period, _)| (5_000_000..=100_000_000).contains(&period)));
    }
}
