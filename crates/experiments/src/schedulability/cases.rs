//! Random sets of periodic tasks whose schedules can be known to the end.
//!
//! Utilisations come from UUniFast (drawn again if a task has more than a CPU) or RandFixedSum, periods
//! log-uniformly from the divisors of 720 ms between 10 and 90 ms. All tasks are released together at 0, so
//! that under a scheduler that only looks at the jobs at hand a schedule that meets all deadlines up to 720
//! ms repeats from there: what is seen up to then is exact, not a sample.

use schedlab_units::Span;
use schedlab_workload::generate::{Rng, rand_fixed_sum, uunifast};

/// All periods divide this.
pub const HYPERPERIOD: Span = Span::from_ms(720);

/// Divisors of 720 from 10 to 90.
const PERIODS_MS: [u64; 16] = [10, 12, 15, 16, 18, 20, 24, 30, 36, 40, 45, 48, 60, 72, 80, 90];

/// Sets drawn by UUniFast before RandFixedSum, which has the same law, takes over: near full load nearly all
/// are discarded.
const DRAWS_MAX: u64 = 1_000;

/// A task that is released each period and needs so much CPU time each time, before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicTask {
    /// CPU time of each job.
    pub run: Span,
    /// Time between releases; also the relative deadline.
    pub period: Span,
}

impl PeriodicTask {
    /// CPU time per time.
    pub fn utilisation(self) -> f64 {
        self.run.as_ns() as f64 / self.period.as_ns() as f64
    }
}

/// Tasks that are all released together at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    /// The tasks.
    pub tasks: Vec<PeriodicTask>,
    /// Jobs are released up to here.
    pub horizon: Span,
}

/// How utilisations are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// UUniFast-Discard (Bini, Buttazzo 2005; Davis, Burns 2009).
    #[default]
    UUniFast,
    /// RandFixedSum (Emberson, Stafford, Davis 2010).
    RandFixedSum,
}

impl TaskSet {
    /// Set number `stream` of `seed`: `n` tasks that together use `utilisation` CPUs (a little less: run
    /// times are whole us, rounded down), none of them more than one.
    pub fn draw(draw: Draw, n: u32, utilisation: f64, seed: u64, stream: u64) -> TaskSet {
        let sum = utilisation.min(f64::from(n));
        let mut shares = None;
        if draw == Draw::UUniFast {
            let mut rng = Rng::new(seed, stream);
            let sets = (0..DRAWS_MAX).map(|_| uunifast(n, sum, &mut rng));
            shares = sets.into_iter().find(|set| set.iter().all(|&share| share <= 1.0));
        }
        let shares = shares
            .unwrap_or_else(|| rand_fixed_sum(n, sum, 0.0, 1.0, &mut Rng::new(seed, stream | (1 << 62))));
        let mut rng = Rng::new(seed, stream | (1 << 63));
        let tasks = shares.into_iter().map(|share| {
            let period = period(rng.unit());
            let run_us = (share * period.as_ns() as f64 / 1_000.0) as u64;
            PeriodicTask { run: Span::from_us(run_us.max(1)), period }
        });
        TaskSet { tasks: tasks.collect(), horizon: HYPERPERIOD }
    }

    /// The sum of the tasks' utilisations.
    pub fn utilisation(&self) -> f64 {
        self.tasks.iter().map(|task| task.utilisation()).sum()
    }

    /// Whether all together need more than `nr_cpus` CPUs; exact where all periods divide the horizon.
    pub fn overloads(&self, nr_cpus: u32) -> bool {
        let horizon_ns = u128::from(self.horizon.as_ns());
        let need = |task: &PeriodicTask| {
            u128::from(task.run.as_ns()) * (horizon_ns / u128::from(task.period.as_ns()))
        };
        self.tasks.iter().map(need).sum::<u128>() > horizon_ns * u128::from(nr_cpus)
    }
}

/// The period nearest, in ratio, to a log-uniform draw between the shortest and the longest; `unit` is
/// uniform in (0, 1].
fn period(unit: f64) -> Span {
    let log = |ms: u64| (ms as f64).ln();
    let (low, high) = (log(PERIODS_MS[0]), log(PERIODS_MS[PERIODS_MS.len() - 1]));
    let at = low + (high - low) * unit;
    let distance = |ms: &u64| (log(*ms) - at).abs();
    let nearest = PERIODS_MS.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    Span::from_ms(nearest.unwrap_or(PERIODS_MS[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_their_utilisation_and_repeat() {
        for draw in [Draw::UUniFast, Draw::RandFixedSum] {
            for stream in 0..200 {
                let set = TaskSet::draw(draw, 5, 0.9, 1, stream);
                let sum = set.utilisation();
                assert!(sum <= 0.9 && sum > 0.9 - 5.0 * 1e-4, "{sum}");
                assert!(!set.overloads(1));
                let whole = |task: &PeriodicTask| HYPERPERIOD.as_ns().is_multiple_of(task.period.as_ns());
                assert!(set.tasks.iter().all(|task| whole(task) && task.run <= task.period));
                assert_eq!(set, TaskSet::draw(draw, 5, 0.9, 1, stream));
            }
            assert_ne!(TaskSet::draw(draw, 5, 0.9, 1, 1), TaskSet::draw(draw, 5, 0.9, 1, 2));
            assert_ne!(TaskSet::draw(draw, 5, 0.9, 1, 1), TaskSet::draw(draw, 5, 0.9, 2, 1));
        }
        assert!(TaskSet::draw(Draw::UUniFast, 5, 1.05, 1, 1).overloads(1));
        // nearly every draw of UUniFast is discarded here
        let full = TaskSet::draw(Draw::UUniFast, 4, 3.9, 1, 1);
        assert!(full.tasks.iter().all(|task| task.utilisation() <= 1.0) && full.utilisation() > 3.89);
    }

    /// Log-uniform: between two periods as many as the logarithm of their ratio says.
    #[test]
    fn periods_are_log_uniform() {
        let short = (1..=10_000).filter(|&i| period(f64::from(i) / 10_000.0) < Span::from_ms(30)).count();
        // the border between 24 and 30 lies at their geometric mean
        let expected = (24.0f64 * 30.0).sqrt().ln() - 10.0f64.ln();
        let expected = expected / (90.0f64.ln() - 10.0f64.ln());
        assert!((short as f64 / 10_000.0 - expected).abs() < 0.001, "{short} {expected}");
    }
}
