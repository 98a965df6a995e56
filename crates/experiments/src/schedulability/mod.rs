//! Which share of random task sets can a real-time scheduler serve without missing a deadline, and how late
//! are the others?
//!
//! Periodic tasks, deadline = period, all released together, utilisations by UUniFast or RandFixedSum
//! ([`cases`]). Each set runs under each scheduler on the machine ([`measure`]), and what theory can say
//! without running it stands beside it ([`theory`]):
//!
//! ```text
//! 1 CPU, 5 tasks, 100 sets at each point      U = 0.70   0.80   0.90   1.00
//! gedf   sets without a late job                 100 %  100 %  100 %  100 %  Liu, Layland: U <= 1 is enough
//! rm                                             100 %   97 %   60 %    5 %  exactly those whose response times say so
//! ```
//!
//! Every claim of theory is tried on every set ([`judge`]); one set against it would be a finding. The
//! schedules are exact, not sampled: periods divide 720 ms, and up to there a schedule without a late job
//! repeats. [`dhall`] has the sets of Dhall's effect.

pub mod cases;
pub mod dhall;
pub mod judge;
pub mod measure;
mod page;
pub mod theory;

use cases::{Draw, TaskSet};
use judge::Claims;
use measure::{Arm, Measure};
use rayon::prelude::*;
use schedlab_policies::PolicyError;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to study.
#[derive(Clone, Debug)]
pub struct Config {
    /// The schedulers.
    pub arms: Vec<Arm>,
    /// CPUs, all equal.
    pub nr_cpus: u32,
    /// Tasks in a set.
    pub nr_tasks: u32,
    /// Utilisation of the machine in per cent, one point each: 100 = all CPUs.
    pub loads_pct: Vec<u32>,
    /// Random sets at each point.
    pub sets: u32,
    /// How utilisations are drawn.
    pub draw: Draw,
    /// Decides all that is random.
    pub seed: u64,
    /// Worker threads; `None` = one per core. The result does not depend on it.
    pub threads: Option<usize>,
}

/// A study that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A number out of range.
    #[error("{what} {value}: expected {expected}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// Nothing to do.
    #[error("no {0} given; at least one is needed")]
    Empty(&'static str),
    /// The workers could not be started.
    #[error("worker threads could not be started: {0}; ask for fewer")]
    Threads(String),
    /// An arm does not take its parameters.
    #[error(transparent)]
    Params(#[from] PolicyError),
}

/// What one scheduler did with all sets of one point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Sets.
    pub nr_sets: u32,
    /// Of them: all tasks taken, no job late.
    pub nr_schedulable: u32,
    /// Of them: the scheduler said that it could not take all tasks as they asked.
    pub nr_refused: u32,
    /// Jobs of all sets.
    pub nr_jobs: u64,
    /// Of them late.
    pub nr_late: u64,
    /// The latest job of each set, summed over the sets, in ns.
    pub worst_tardiness_sum_ns: u64,
    /// The latest job of all, in ns.
    pub worst_tardiness_ns: u64,
    /// Responses as parts of the period, summed over the jobs that ended.
    pub response_sum: f64,
    /// Those.
    pub nr_ended: u64,
    /// The longest response as part of the period, of those.
    pub response_max: f64,
}

impl Tally {
    fn add(&mut self, set: &TaskSet, measure: &Measure) {
        self.nr_sets += 1;
        self.nr_schedulable += u32::from(measure.is_schedulable(set));
        self.nr_refused += u32::from(measure.refused);
        self.nr_late += measure.nr_late(set) as u64;
        let worst_ns = measure.worst_tardiness(set).as_ns();
        self.worst_tardiness_sum_ns += worst_ns;
        self.worst_tardiness_ns = self.worst_tardiness_ns.max(worst_ns);
        for (task, responses) in set.tasks.iter().zip(&measure.responses) {
            self.nr_jobs += responses.len() as u64;
            for response in responses.iter().flatten() {
                let part = response.as_ns() as f64 / task.period.as_ns() as f64;
                self.response_sum += part;
                self.response_max = self.response_max.max(part);
                self.nr_ended += 1;
            }
        }
    }
}

/// One load.
#[derive(Clone, Debug)]
pub struct Point {
    /// Utilisation of the machine in per cent.
    pub load_pct: u32,
    /// Per arm.
    pub tallies: Vec<Tally>,
    /// Per test of theory, how many sets it calls schedulable.
    pub theory: Vec<u32>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Study {
    /// What was studied.
    pub config: Config,
    /// In order of load.
    pub points: Vec<Point>,
    /// Theory against the schedules.
    pub claims: Claims,
    /// Dhall's effect.
    pub dhall: Vec<dhall::Row>,
}

/// A test of theory: which sets it calls schedulable on so many CPUs.
pub type Test = (&'static str, fn(&TaskSet, u32) -> bool);

/// The tests that are drawn: on one CPU, or on several.
pub fn tests(nr_cpus: u32) -> &'static [Test] {
    const ONE: [Test; 3] = [
        ("response times (rm, exact)", |set, _| theory::response_times(set).iter().all(Option::is_some)),
        ("hyperbolic bound (rm)", |set, _| theory::hyperbolic(set)),
        ("Liu, Layland (rm)", |set, _| set.utilisation() <= theory::liu_layland(set.tasks.len())),
    ];
    const SEVERAL: [Test; 4] = [
        ("first fit (pedf, exact)", theory::first_fit),
        ("Lopez (pedf)", theory::lopez),
        ("Goossens, Funk, Baruah (gedf)", theory::gfb),
        ("Andersson (global rm)", theory::andersson),
    ];
    if nr_cpus == 1 { &ONE } else { &SEVERAL }
}

/// The set of a point with this number.
fn set(config: &Config, point: usize, number: u32) -> TaskSet {
    let load = f64::from(config.loads_pct[point]) / 100.0 * f64::from(config.nr_cpus);
    TaskSet::draw(config.draw, config.nr_tasks, load, config.seed, ((point as u64) << 32) | u64::from(number))
}

fn check(config: &Config) -> Result<(), StudyError> {
    for (is_empty, what) in [
        (config.arms.is_empty(), "scheduler"),
        (config.loads_pct.is_empty(), "load"),
        (config.sets == 0, "set of tasks"),
    ] {
        if is_empty {
            return Err(StudyError::Empty(what));
        }
    }
    let range = |what, value: u64, from: u64, to: u64, expected| {
        if (from..=to).contains(&value) { Ok(()) } else { Err(StudyError::Range { what, value, expected }) }
    };
    range("number of CPUs", config.nr_cpus.into(), 1, 64, "1 to 64")?;
    range("number of tasks", config.nr_tasks.into(), 1, 1_000, "1 to 1000")?;
    for &load in &config.loads_pct {
        range("load in per cent", load.into(), 1, 150, "1 to 150")?;
    }
    Ok(())
}

/// Draws the sets, runs each under each arm, and tries the claims of theory on them. `seen` gets how many
/// sets are done.
///
/// # Errors
/// Numbers out of range; workers that cannot be started.
pub fn study(config: &Config, seen: &(dyn Fn(u64) + Sync)) -> Result<Study, StudyError> {
    check(config)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(config.threads.unwrap_or(0)).build();
    let pool = pool.map_err(|error| StudyError::Threads(error.to_string()))?;
    let done = AtomicU64::new(0);
    let tests = tests(config.nr_cpus);
    let mut claims = Claims::default();
    let mut points = Vec::new();
    for (place, &load_pct) in config.loads_pct.iter().enumerate() {
        let one = |number: u32| -> Result<(TaskSet, Vec<Measure>), PolicyError> {
            let set = set(config, place, number);
            let measures =
                config.arms.iter().map(|arm| arm.run(&set, config.nr_cpus)).collect::<Result<_, _>>()?;
            seen(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok((set, measures))
        };
        let all: Vec<_> = pool.install(|| (0..config.sets).into_par_iter().map(one).collect());
        let mut point = Point {
            load_pct,
            tallies: vec![Tally::default(); config.arms.len()],
            theory: vec![0; tests.len()],
        };
        for result in all {
            let (set, measures) = result?;
            for ((arm, measure), tally) in config.arms.iter().zip(&measures).zip(&mut point.tallies) {
                tally.add(&set, measure);
                claims.try_on(&set, config.nr_cpus, arm, measure);
            }
            for ((_, test), count) in tests.iter().zip(&mut point.theory) {
                *count += u32::from(!set.overloads(config.nr_cpus) && test(&set, config.nr_cpus));
            }
        }
        points.push(point);
    }
    let dhall = dhall::rows(&dhall::arms()?)?;
    Ok(Study { config: config.clone(), points, claims, dhall })
}

#[cfg(test)]
mod tests_of_study {
    use super::*;

    fn config(nr_cpus: u32, nr_tasks: u32, threads: usize) -> Config {
        Config {
            arms: Arm::usual(),
            nr_cpus,
            nr_tasks,
            loads_pct: vec![60, 90, 100, 105],
            sets: 25,
            draw: Draw::UUniFast,
            seed: 3,
            threads: Some(threads),
        }
    }

    /// On one CPU: EDF serves all up to U = 1, rate monotonic exactly those that analysis names; and nothing
    /// that theory says fails.
    #[test]
    fn one_cpu_is_as_theory_says() {
        let study = study(&config(1, 5, 2), &|_| {}).unwrap();
        let of = |label: &str| study.config.arms.iter().position(|arm| arm.label == label).unwrap();
        for point in &study.points[..3] {
            assert_eq!(point.tallies[of("gedf")].nr_schedulable, 25, "{}", point.load_pct);
            assert_eq!(point.tallies[of("rm")].nr_schedulable, point.theory[0], "{}", point.load_pct);
        }
        assert_eq!(study.points[3].tallies.iter().map(|tally| tally.nr_schedulable).sum::<u32>(), 0);
        assert_eq!(study.claims.against(), 0, "{:#?}", study.claims);
        assert!(study.claims.rows().iter().all(|claim| claim.nr_cases > 0), "{:#?}", study.claims);
    }

    #[test]
    fn several_cpus_keep_the_bounds_whatever_the_threads() {
        let one = study(&config(3, 8, 1), &|_| {}).unwrap();
        assert_eq!(one.claims.against(), 0, "{:#?}", one.claims);
        // global EDF is late at times where U <= m, and never by much
        let tardy: u64 = one.points[..3].iter().map(|point| point.tallies[3].nr_late).sum();
        assert!(tardy > 0);
        let two = study(&config(3, 8, 2), &|_| {}).unwrap();
        assert_eq!(format!("{:?}", one.points), format!("{:?}", two.points));
    }

    #[test]
    fn ranges_are_checked() {
        let bad = Config { loads_pct: vec![0], ..config(1, 5, 1) };
        assert!(study(&bad, &|_| {}).unwrap_err().to_string().contains("1 to 150"));
        assert!(study(&Config { arms: Vec::new(), ..config(1, 5, 1) }, &|_| {}).is_err());
    }
}
