//! The study over a domain of points, in parallel.

use super::measure::measure;
use super::{Contender, Execution, Spread, draw_shares};
use crate::arm::ArmError;
use rayon::prelude::*;
use schedlab_lab::{Fails, FailureKind};
use schedlab_policies::proportional::quantum::{self, Errors};
use schedlab_report::table::{Column, Table};
use schedlab_stdx::Random;
use schedlab_units::Span;
use std::borrow::Cow;

/// Number of clients and sum of their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// N.
    pub nr_clients: u32,
    /// S, at least N.
    pub total: u64,
}

/// What to study.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which schedulers, quantum by quantum.
    pub contenders: Vec<&'static Contender>,
    /// Which arms in the full machine; they are some hundred times slower.
    pub machine: Vec<Execution>,
    /// How many of the combinations those serve: the first ones.
    pub machine_combinations: u32,
    /// A time unit in the machine.
    pub unit: Span,
    /// At which points.
    pub points: Vec<Point>,
    /// Random sets of shares per point.
    pub combinations: u32,
    /// How shares are spread.
    pub spread: Spread,
    /// Decides all that is random.
    pub seed: u64,
    /// Worker threads; `None` = one per core. The result does not depend on it.
    pub threads: Option<usize>,
}

/// A study that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A name that is no proportional share scheduler.
    #[error("there is no proportional share scheduler '{name}'; there are: {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Fewer shares than clients, or none.
    #[error(
        "{nr_clients} clients cannot have {total} shares in all: each has at least 1 (and there must be a client)"
    )]
    Shares {
        /// N.
        nr_clients: u32,
        /// S.
        total: u64,
    },
    /// More shares than a study can count exactly.
    #[error("{0} shares in all are too many for exact errors; at most 2^30")]
    TooLarge(u64),
    /// Nothing to do.
    #[error("no {0} given; at least one is needed")]
    Empty(&'static str),
    /// The workers could not be started.
    #[error("worker threads could not be started: {0}; ask for fewer")]
    Threads(String),
    /// An arm in the machine gave no result.
    #[error(transparent)]
    Arm(#[from] ArmError),
}

impl Fails for ConfigError {
    fn kind(&self) -> FailureKind {
        match self {
            ConfigError::Arm(error) => error.kind(),
            _ => FailureKind::Input,
        }
    }
}

impl Config {
    /// The paper's study as far as it is known: N 4 to 128, S 2,048 among others, uniform shares; all
    /// schedulers side by side.
    pub fn vtrr_paper() -> Config {
        Config {
            contenders: super::CONTENDERS.iter().filter(|c| c.name != "wfq-list").collect(),
            machine: Vec::new(),
            machine_combinations: 5,
            unit: Span::from_ms(10),
            points: Config::grid(&[4, 8, 16, 32, 64, 128], &[256, 512, 1024, 1536, 2048]),
            combinations: 200,
            spread: Spread::Uniform,
            seed: 1,
            threads: None,
        }
    }

    /// All pairs of a number of clients and a sum of shares.
    pub fn grid(clients: &[u32], totals: &[u64]) -> Vec<Point> {
        let point = |&total: &u64| clients.iter().map(move |&nr_clients| Point { nr_clients, total });
        totals.iter().flat_map(point).collect()
    }

    /// These schedulers by name.
    pub fn contenders(names: &[&str]) -> Result<Vec<&'static Contender>, ConfigError> {
        let known = || super::CONTENDERS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
        let unknown = |name: &str| ConfigError::Unknown { name: name.to_string(), known: known() };
        names.iter().map(|name| super::find(name).ok_or_else(|| unknown(name))).collect()
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (empty, what) in [
            (self.contenders.is_empty() && self.machine.is_empty(), "scheduler"),
            (self.points.is_empty(), "point (clients, shares)"),
            (self.combinations == 0, "combination of shares"),
        ] {
            if empty {
                return Err(ConfigError::Empty(what));
            }
        }
        for &Point { nr_clients, total } in &self.points {
            if nr_clients == 0 || total < u64::from(nr_clients) {
                return Err(ConfigError::Shares { nr_clients, total });
            }
            if total > 1 << 30 {
                return Err(ConfigError::TooLarge(total));
            }
        }
        Ok(())
    }
}

/// Ranges of error over combinations, as integers over [`PointResult::denominator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low_sum: i128,
    high_sum: i128,
    /// Lowest, and the combination that has it (the first if several).
    low_worst: (i64, u32),
    /// Highest, negated, and the combination that has it.
    high_worst: (i64, u32),
}

impl Range {
    const NONE: Range =
        Range { low_sum: 0, high_sum: 0, low_worst: (i64::MAX, u32::MAX), high_worst: (i64::MAX, u32::MAX) };

    fn of(low: i64, high: i64, combination: u32) -> Range {
        Range {
            low_sum: low.into(),
            high_sum: high.into(),
            low_worst: (low, combination),
            high_worst: (-high, combination),
        }
    }

    /// Sums and minima: the same in any order.
    fn merge(self, other: Range) -> Range {
        Range {
            low_sum: self.low_sum + other.low_sum,
            high_sum: self.high_sum + other.high_sum,
            low_worst: self.low_worst.min(other.low_worst),
            high_worst: self.high_worst.min(other.high_worst),
        }
    }
}

/// What was found for one scheduler at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointResult {
    /// The scheduler.
    pub sched: Cow<'static, str>,
    /// The point.
    pub point: Point,
    /// Combinations.
    pub combinations: u32,
    /// What errors are divided by: S, so that they are exact, or [`MACHINE_DENOMINATOR`].
    pub denominator: u64,
    /// Error from the start.
    pub from_start: Range,
    /// Error over every interval.
    pub intervals: Range,
    /// Combinations in which some client did not have exactly its share after S quanta; not asked of arms in
    /// the machine.
    pub inexact: u32,
    /// How far the parts that an arm could express were from those drawn, at worst; 0.02 = 2 %.
    pub off_worst: f64,
}

impl PointResult {
    fn tu(&self, numerator: i128, divisor: u32) -> f64 {
        numerator as f64 / self.denominator as f64 / f64::from(divisor)
    }
    /// Means of the lowest and highest error of `range`, in quanta.
    pub fn mean_tu(&self, range: Range) -> (f64, f64) {
        (self.tu(range.low_sum, self.combinations), self.tu(range.high_sum, self.combinations))
    }
    /// The lowest and highest error of any combination, in quanta.
    pub fn worst_tu(&self, range: Range) -> (f64, f64) {
        (self.tu(range.low_worst.0.into(), 1), -self.tu(range.high_worst.0.into(), 1))
    }

    fn merge(mut self, other: PointResult) -> PointResult {
        self.combinations += other.combinations;
        self.from_start = self.from_start.merge(other.from_start);
        self.intervals = self.intervals.merge(other.intervals);
        self.inexact += other.inexact;
        self.off_worst = self.off_worst.max(other.off_worst);
        self
    }
}

/// The result: one entry per point and scheduler, in the order of the configuration (points first).
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// What was found.
    pub results: Vec<PointResult>,
    /// How shares were spread.
    pub spread: Spread,
    /// The seed.
    pub seed: u64,
}

/// Errors in the machine are rounded to millionths of a time unit: the weights that express the shares, and
/// with them the exact denominator, differ from one combination to the next.
pub const MACHINE_DENOMINATOR: u64 = 1_000_000;

/// Combinations per piece of work: enough to be worth a steal, few enough to balance.
const CHUNK: u32 = 16;

/// Runs the study.
pub fn study(config: &Config) -> Result<Study, ConfigError> {
    study_seen(config, &|_| {})
}

/// Runs the study; `seen` hears now and then how many sets of shares have been served by all schedulers
/// quantum by quantum.
pub fn study_seen(config: &Config, seen: &(dyn Fn(u64) + Sync)) -> Result<Study, ConfigError> {
    config.check()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(config.threads.unwrap_or(0)).build();
    let pool = pool.map_err(|error| ConfigError::Threads(error.to_string()))?;
    let chunks: Vec<(usize, u32)> = (0..config.points.len())
        .flat_map(|point| (0..config.combinations).step_by(CHUNK as usize).map(move |first| (point, first)))
        .collect();
    let done = std::sync::atomic::AtomicU64::new(0);
    let work = |&(point, first): &(usize, u32)| {
        let part = chunk(config, point, first);
        let sets = u64::from(CHUNK.min(config.combinations - first));
        seen(done.fetch_add(sets, std::sync::atomic::Ordering::Relaxed) + sets);
        part
    };
    let parts: Vec<Vec<PointResult>> = pool.install(|| chunks.par_iter().map(work).collect());
    let mut results: Vec<Vec<PointResult>> = vec![Vec::new(); config.points.len()];
    for ((point, _), part) in chunks.into_iter().zip(parts) {
        let so_far = &mut results[point];
        *so_far = match so_far.is_empty() {
            true => part,
            false => so_far.drain(..).zip(part).map(|(a, b)| a.merge(b)).collect(),
        };
    }
    for (point, results) in config.points.iter().zip(&mut results) {
        for execution in &config.machine {
            results.push(in_machine(config, *point, execution)?);
        }
    }
    Ok(Study { results: results.concat(), spread: config.spread, seed: config.seed })
}

/// A point without combinations.
fn nothing(sched: Cow<'static, str>, point: Point, denominator: u64) -> PointResult {
    let (from_start, intervals) = (Range::NONE, Range::NONE);
    PointResult {
        sched,
        point,
        combinations: 0,
        denominator,
        from_start,
        intervals,
        inexact: 0,
        off_worst: 0.0,
    }
}

/// The first combinations of one point, in the machine.
fn in_machine(config: &Config, point: Point, execution: &Execution) -> Result<PointResult, ArmError> {
    let mut result = nothing(execution.label().into(), point, MACHINE_DENOMINATOR);
    let names = super::given::names(point.nr_clients as usize);
    let length = Span::from_ns(config.unit.as_ns() * point.total);
    for combination in 0..config.combinations.min(config.machine_combinations) {
        let expressed = execution.express(&shares_of(config, point, combination), None);
        let seed = u64::from(combination) ^ config.seed;
        let stretches = execution.serve(&expressed, &names, config.unit, point.total, seed)?;
        let served = measure(&stretches, &expressed.weights, length, config.unit);
        let round = |numerator: i128| (served.tu(numerator) * MACHINE_DENOMINATOR as f64).round() as i64;
        let (start, interval) = (served.from_start, served.intervals);
        result = result.merge(PointResult {
            combinations: 1,
            from_start: Range::of(round(start.low), round(start.high), combination),
            intervals: Range::of(round(interval.low), round(interval.high), combination),
            off_worst: expressed.worst,
            ..nothing(execution.label().into(), point, MACHINE_DENOMINATOR)
        });
    }
    Ok(result)
}

/// Some combinations of one point, for all schedulers: all see the same shares.
fn chunk(config: &Config, point_index: usize, first: u32) -> Vec<PointResult> {
    let point = config.points[point_index];
    let empty = |contender: &&'static Contender| nothing(contender.name.into(), point, point.total);
    let mut results: Vec<PointResult> = config.contenders.iter().map(empty).collect();
    for combination in first..config.combinations.min(first + CHUNK) {
        let shares = shares_of(config, point, combination);
        for (contender, result) in config.contenders.iter().zip(&mut results) {
            let errors = errors_of(contender, &shares, u64::from(combination) ^ config.seed);
            *result = result.clone().merge(PointResult {
                combinations: 1,
                from_start: Range::of(errors.from_start.low, errors.from_start.high, combination),
                intervals: Range::of(errors.intervals.low, errors.intervals.high, combination),
                inexact: u32::from(!errors.exact_at_end),
                ..empty(contender)
            });
        }
    }
    results
}

/// The shares of one combination, in the order drawn.
pub(crate) fn shares_of(config: &Config, point: Point, combination: u32) -> Vec<u64> {
    let part = u64::from(point.nr_clients) << 32 | u64::from(combination);
    let mut random = Random::for_part(config.seed ^ point.total.rotate_left(17), part);
    draw_shares(&mut random, config.spread, point.nr_clients as usize, point.total)
}

/// The errors of one cycle.
fn errors_of(contender: &Contender, shares: &[u64], seed: u64) -> Errors {
    let quanta = shares.iter().sum();
    let mut discipline = (contender.make)(shares.len(), seed);
    quantum::serve(&mut *discipline, shares, quanta, |_, _, _| {})
}

const POINT_COLUMNS: [Column; 16] = [
    Column::new("sched", "", "scheduler"),
    Column::new("nr_clients", "", "number of clients"),
    Column::new("total_shares", "", "sum of shares"),
    Column::new("nr_combinations", "", "random sets of shares"),
    Column::new("error_low_mean_tu", "tu", "mean over combinations of the lowest error from the start"),
    Column::new("error_high_mean_tu", "tu", "mean over combinations of the highest error from the start"),
    Column::new("error_low_worst_tu", "tu", "lowest error from the start of any combination"),
    Column::new("error_high_worst_tu", "tu", "highest error from the start of any combination"),
    Column::new("worst_low_combination", "", "the combination that has error_low_worst_tu"),
    Column::new("worst_high_combination", "", "the combination that has error_high_worst_tu"),
    Column::new("interval_low_mean_tu", "tu", "mean of the lowest error over any interval"),
    Column::new("interval_high_mean_tu", "tu", "mean of the highest error over any interval"),
    Column::new("interval_low_worst_tu", "tu", "lowest error over any interval of any combination"),
    Column::new("interval_high_worst_tu", "tu", "highest error over any interval of any combination"),
    Column::new("nr_inexact", "", "combinations in which a client had not exactly its share after a cycle"),
    Column::new(
        "off_percent",
        "%",
        "how far the parts that it could express were from those drawn, at worst",
    ),
];

const DOMAIN_COLUMNS: [Column; 9] = [
    Column::new("sched", "", "scheduler"),
    Column::new("total_shares", "", "sum of shares"),
    Column::new("nr_points", "", "points (number of clients, sum of shares)"),
    Column::new("error_low_mean_tu", "tu", "lowest of the points' mean lowest errors"),
    Column::new("error_high_mean_tu", "tu", "highest of the points' mean highest errors"),
    Column::new("error_low_worst_tu", "tu", "lowest error of any combination"),
    Column::new("error_high_worst_tu", "tu", "highest error of any combination"),
    Column::new("interval_low_worst_tu", "tu", "lowest error over any interval of any combination"),
    Column::new("interval_high_worst_tu", "tu", "highest error over any interval of any combination"),
];

impl Study {
    /// A row per point and scheduler.
    pub fn points_table(&self) -> Table {
        let title =
            format!("Service time error per point ({} shares, seed {})", self.spread.name(), self.seed);
        let mut table = Table::new("fairness-points", title, POINT_COLUMNS.to_vec());
        for result in &self.results {
            let (low, high) = result.mean_tu(result.from_start);
            let (worst_low, worst_high) = result.worst_tu(result.from_start);
            let (interval_low, interval_high) = result.mean_tu(result.intervals);
            let (interval_worst_low, interval_worst_high) = result.worst_tu(result.intervals);
            table.push(vec![
                result.sched.to_string().into(),
                result.point.nr_clients.into(),
                result.point.total.into(),
                result.combinations.into(),
                low.into(),
                high.into(),
                worst_low.into(),
                worst_high.into(),
                result.from_start.low_worst.1.into(),
                result.from_start.high_worst.1.into(),
                interval_low.into(),
                interval_high.into(),
                interval_worst_low.into(),
                interval_worst_high.into(),
                (result.denominator != MACHINE_DENOMINATOR).then_some(result.inexact).into(),
                (result.off_worst * 100.0).into(),
            ]);
        }
        table
    }

    /// A row per scheduler and sum of shares, and one over all: the extremes over the points.
    pub fn domain_table(&self) -> Table {
        let title =
            format!("Service time error over the domain ({} shares, seed {})", self.spread.name(), self.seed);
        let mut table = Table::new("fairness-domain", title, DOMAIN_COLUMNS.to_vec());
        for sched in self.schedulers() {
            let mut totals: Vec<u64> = self.of(sched).map(|result| result.point.total).collect();
            totals.sort_unstable();
            totals.dedup();
            if totals.len() > 1 {
                totals.push(0);
            }
            for total in totals {
                let some = || self.of(sched).filter(|result| total == 0 || result.point.total == total);
                let extremes = |range: &dyn Fn(&PointResult) -> (f64, f64)| {
                    some().map(range).fold((f64::MAX, f64::MIN), |so_far, next| {
                        (so_far.0.min(next.0), so_far.1.max(next.1))
                    })
                };
                let mean = extremes(&|result| result.mean_tu(result.from_start));
                let worst = extremes(&|result| result.worst_tu(result.from_start));
                let interval = extremes(&|result| result.worst_tu(result.intervals));
                table.push(vec![
                    sched.into(),
                    if total == 0 { "all".into() } else { total.to_string().into() },
                    some().count().into(),
                    mean.0.into(),
                    mean.1.into(),
                    worst.0.into(),
                    worst.1.into(),
                    interval.0.into(),
                    interval.1.into(),
                ]);
            }
        }
        table
    }

    /// The schedulers, in the order of the configuration.
    pub fn schedulers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for result in &self.results {
            if !names.contains(&&*result.sched) {
                names.push(&result.sched);
            }
        }
        names
    }

    /// The results of one scheduler.
    pub fn of<'a>(&'a self, sched: &'a str) -> impl Iterator<Item = &'a PointResult> {
        self.results.iter().filter(move |result| result.sched == sched)
    }
}
