//! Which seeds, and what do they vary? One run, or as many as there are seeds.

use crate::costs;
use crate::failure::{Failure, Result};
use clap::Args;
use schedlab_machine::{Costs, Perturb};
use schedlab_runner::pool;
use std::path::PathBuf;

/// What makes one command many runs.
#[derive(Args, Debug)]
pub(crate) struct ManyArgs {
    /// Vary what the workload leaves open (tick phase, timer slack, start offsets), and what the scheduler draws: the
    /// same seed gives the same run. Several seeds (1-8 or 1,2,5) are as many runs.
    #[arg(long, value_name = "SEEDS")]
    pub seed: Option<Seeds>,
    /// The same with ranges of one's own: SEED[,phase=TIME|,at=TIME][,slack=TIME][,start=TIME][,late=TIME]; without
    /// SEED those of --seed are taken.
    #[arg(long, value_name = "SPEC")]
    pub perturb: Option<PerturbSpec>,
    /// Kernel code takes time, as this TOML file says (costs/*.toml are measured ones): switch = "2us", ...
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Most runs at once, if there are several; all cores unless given.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    pub jobs: Option<usize>,
}

/// `1-8,12`: numbers and ranges, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub Vec<u64>);

/// More seeds than this are a typing error.
const SEEDS_MAX: u64 = 100_000;

impl std::str::FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Seeds, String> {
        let fail = |part: &str| format!("'{part}' in '{text}': expected seeds as 7, 1-8 or 1,2,5-9");
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let number = |text: &str| text.trim().parse::<u64>().map_err(|_| fail(part));
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last || last - first >= SEEDS_MAX || seeds.len() as u64 > SEEDS_MAX {
                return Err(format!("{}, at most {SEEDS_MAX} of them, the smaller number first", fail(part)));
            }
            seeds.extend(first..=last);
        }
        Ok(Seeds(seeds))
    }
}

/// A perturbation whose seed may be left to `--seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerturbSpec {
    pub perturb: Perturb,
    pub has_seed: bool,
}

impl std::str::FromStr for PerturbSpec {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<PerturbSpec, String> {
        let has_seed = !text.split(',').next().unwrap_or_default().contains('=');
        let whole = if has_seed { text.to_string() } else { format!("0,{text}") };
        let perturb = whole.parse().map_err(|error: schedlab_machine::PerturbError| error.to_string())?;
        Ok(PerturbSpec { perturb, has_seed })
    }
}

/// What makes a run differ from the next of the same command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variation {
    /// For what the scheduler draws.
    pub seed: Option<u64>,
    pub perturb: Option<Perturb>,
    /// What kernel code costs; the same in all runs.
    pub costs: Option<Costs>,
}

impl Variation {
    /// The seed, wherever it was given.
    pub(crate) fn number(&self) -> Option<u64> {
        self.seed.or(self.perturb.map(|perturb| perturb.seed))
    }
}

impl ManyArgs {
    /// One per run; a single one without a seed if nothing is to be varied.
    pub(crate) fn variations(&self) -> Result<Vec<Variation>> {
        let costs = self.costs.as_deref().map(costs::load).transpose()?;
        match (&self.seed, self.perturb) {
            (None, None) => Ok(vec![Variation { costs, ..Variation::default() }]),
            (None, Some(spec)) if spec.has_seed => {
                Ok(vec![Variation { seed: None, perturb: Some(spec.perturb), costs }])
            }
            (None, Some(_)) => Err(Failure::Input(
                "--perturb names ranges but no seed: write --perturb SEED,... or add --seed 1-8".to_string(),
            )),
            (Some(_), Some(spec)) if spec.has_seed => Err(Failure::Input(
                "--seed and --perturb both name a seed; leave it out of --perturb".to_string(),
            )),
            (Some(seeds), spec) => {
                let one = |&seed: &u64| {
                    let perturb = spec.map_or(Perturb::new(seed), |spec| Perturb { seed, ..spec.perturb });
                    Variation { seed: Some(seed), perturb: Some(perturb), costs }
                };
                Ok(seeds.0.iter().map(one).collect())
            }
        }
    }
    /// Runs at once.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(pool::cores).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_and_ranges() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("7"), Ok(vec![7]));
        assert_eq!(seeds("1-3,9,4-4"), Ok(vec![1, 2, 3, 9, 4]));
        for bad in ["", "x", "3-1", "1-", "-5", "1,,2", "0-100000", "1-18446744073709551615"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seeds_and_ranges_combine() {
        let variations = |seed: Option<&str>, perturb: Option<&str>| {
            let args = ManyArgs {
                seed: seed.map(|text| text.parse().unwrap()),
                perturb: perturb.map(|text| text.parse().unwrap()),
                jobs: None,
                costs: None,
            };
            args.variations().map(|all| {
                let text = |v: &Variation| v.perturb.map(|p| p.to_string()).unwrap_or_default();
                all.iter().map(text).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(variations(None, None).unwrap(), "");
        assert_eq!(variations(Some("1-2"), None).unwrap(), "1 2");
        assert_eq!(variations(None, Some("5,slack=0")).unwrap(), "5,slack=0ns");
        assert_eq!(variations(Some("1-2"), Some("slack=0")).unwrap(), "1,slack=0ns 2,slack=0ns");
        assert!(variations(None, Some("slack=0")).is_err());
        assert!(variations(Some("1"), Some("2")).is_err());
    }
}
