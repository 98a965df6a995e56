//! How much of a difference is chance? The same replay with other seeds, whose ticks fall elsewhere.
//!
//! A recording is one run of its program, and a replay is one run, too. Another recording would differ, and so does a
//! replay with another seed. What was recorded differs from the replays only where it lies outside of all of them:
//!
//! ```text
//! run delay recorded    11.2 ms        replays    7.1 ms   9.8 ms   14.3 ms      within: chance may be all of it
//! voluntary recorded    764            replays    391      402      455          outside: something is missing
//! ```

use super::show::{Row, rows};
use super::{Fidelity, Pair};
use schedlab_stdx::percentile::nearest;

/// The replay with another seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// All tasks, recorded and replayed so.
    pub all: Pair,
    /// Length of the program's life.
    pub duration_ns: u64,
}

/// Least and most of a quantity over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Recorded.
    pub recorded: u64,
    /// The least that was replayed.
    pub least: u64,
    /// Half of the replays have at most that.
    pub median: u64,
    /// The most that was replayed.
    pub most: u64,
}

impl Spread {
    fn of(recorded: u64, mut replayed: Vec<u64>) -> Option<Spread> {
        replayed.sort_unstable();
        let (least, most) = (*replayed.first()?, *replayed.last()?);
        Some(Spread { recorded, least, median: nearest(&replayed, 500)?, most })
    }

    /// Whether what was recorded is no less than the least and no more than the most.
    pub fn holds(&self) -> bool {
        (self.least..=self.most).contains(&self.recorded)
    }
}

impl Fidelity {
    /// Of the duration; `None`: there was one seed alone.
    pub fn duration_spread(&self) -> Option<Spread> {
        let [recorded, replayed] = self.duration_ns;
        let others = self.samples.iter().map(|sample| sample.duration_ns);
        (!self.samples.is_empty()).then(|| Spread::of(recorded, others.chain([replayed]).collect()))?
    }

    /// Of each quantity over all tasks, in the order of the tables; empty if there was one seed alone.
    pub(super) fn spreads(&self) -> Vec<(Row, Spread)> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        let others: Vec<Vec<Row>> = self.samples.iter().map(|sample| rows(&sample.all)).collect();
        let spread = |(number, row): (usize, Row)| {
            let (_, _, recorded, replayed, _) = row;
            let all = others.iter().map(|rows| rows[number].3).chain([replayed]).collect();
            Some((row, Spread::of(recorded, all)?))
        };
        rows(&self.all).into_iter().enumerate().filter_map(spread).collect()
    }

    /// Kolmogorov and Smirnov's distance of run delay over all seeds: least and most.
    pub fn run_delay_ks_spread(&self) -> Option<[f64; 2]> {
        let all = self.samples.iter().map(|sample| &sample.all).chain([&self.all]);
        let found: Vec<f64> = all.filter_map(|pair| pair.run_delay_ks(self.grain_ns)).collect();
        let (least, most) =
            (found.iter().copied().reduce(f64::min)?, found.iter().copied().reduce(f64::max)?);
        (!self.samples.is_empty()).then_some([least, most])
    }

    /// Which of the sums lie outside of what all seeds give, in words; `None`: there was one seed alone.
    pub(super) fn verdict(&self) -> Option<String> {
        let all = self.spreads();
        if all.is_empty() {
            return None;
        }
        let is_sum = |((name, statistic, ..), _): &&(Row, Spread)| *statistic == "sum" && *name != "cpu";
        let words = |holds: bool| {
            let names = all.iter().filter(is_sum).filter(|(_, spread)| spread.holds() == holds);
            names.map(|((name, ..), _)| name.replace('_', " ")).collect::<Vec<_>>().join(", ")
        };
        let (within, outside) = (words(true), words(false));
        let nr = self.samples.len() + 1;
        Some(match (within.is_empty(), outside.is_empty()) {
            (_, true) => format!("what was recorded lies within what {nr} seeds give: {within}"),
            (true, _) => format!("what was recorded lies outside of what {nr} seeds give: {outside}"),
            _ => format!("what was recorded lies within what {nr} seeds give: {within}; outside: {outside}"),
        })
    }
}
