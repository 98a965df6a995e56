//! Which shares can be expressed to a scheduler that knows only nice values, or only weights of control groups?
//!
//! Only ratios matter, so a set of shares may be scaled at will; we look for the scale at which the worst
//! client is off least, and among those that are less than one percentage point worse for the one nearest to
//! nice 0.
//!
//! ```text
//! shares 3,2,1          scale          weights            parts asked        parts had          worst
//! nice -2, 0, 3         x 529          1586 1024 526      .500 .333 .167     .506 .327 .168     2.0 %
//! cpu.weight            x 3325         9975 6650 3325     .500 .333 .167     .500 .333 .167     0
//! ```
//!
//! *nice*: forty weights from 15 to 88761, each about 1.25 times the next (`sched_prio_to_weight`,
//! kernel/sched/core.c), so a share can be off by up to 12 %, and shares further apart than 5,917 to 1 cannot
//! be had at all. Sets that nice expresses exactly are those made of its weights: [`Expressed::of_nices`].
//!
//! *cpu.weight*: 1 to 10,000, which the kernel turns into a weight by w x 1024 / 100, rounded: exact for
//! multiples of 25, so any set of shares up to 400 is exact.

use crate::arm::Setting;
use schedlab_units::Nice;

/// Shares in a scheduler's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Expressed {
    /// What each client is given.
    pub settings: Vec<Setting>,
    /// The weight that this amounts to: what the scheduler owes the client, relative to the others.
    pub weights: Vec<u64>,
    /// Largest deviation of a client's part from the part asked for, relative to that: 0.02 = 2 %.
    pub worst: f64,
}

/// cpu.weight's range (Documentation/admin-guide/cgroup-v2.rst).
const GROUP_WEIGHT_MAX: u64 = 10_000;

/// The kernel's weight for a cpu.weight: `sched_weight_from_cgroup()`, kernel/sched/core.c; not below MIN_SHARES, 2.
fn kernel_weight(group_weight: u64) -> u64 {
    ((group_weight * 1024 + 50) / 100).max(2)
}

fn nices() -> impl Iterator<Item = Nice> {
    (-20..=19).map(|nice| Nice::new(nice).expect("-20 to 19"))
}

/// Largest relative deviation of the parts of `weights` from those of `shares`.
fn worst(shares: &[u64], weights: &[u64]) -> f64 {
    let total = |list: &[u64]| list.iter().map(|&x| i128::from(x)).sum::<i128>();
    let (total_shares, total_weights) = (total(shares), total(weights));
    // weight / total_weights : share / total_shares, less 1; exactly 0 if they are equal
    let off = shares.iter().zip(weights).map(|(&share, &weight)| {
        let (had, asked) = (i128::from(weight) * total_shares, i128::from(share) * total_weights);
        (had - asked).abs() as f64 / asked as f64
    });
    off.fold(0.0, f64::max)
}

impl Expressed {
    /// Shares as such.
    pub fn as_shares(shares: &[u64]) -> Expressed {
        let settings = shares.iter().map(|&share| Setting::Share(share)).collect();
        Expressed { settings, weights: shares.to_vec(), worst: 0.0 }
    }

    /// These nice values: the shares are their weights.
    pub fn of_nices(values: &[Nice]) -> Expressed {
        let settings = values.iter().map(|&nice| Setting::Nice(nice)).collect();
        Expressed { settings, weights: values.iter().map(|nice| nice.weight().0).collect(), worst: 0.0 }
    }

    /// By nice values, as near as they come.
    pub fn by_nice(shares: &[u64]) -> Expressed {
        let nearest = |wanted: f64| {
            let distance = |nice: &Nice| (nice.weight().0 as f64 / wanted).ln().abs();
            let best = nices().min_by(|a, b| distance(a).total_cmp(&distance(b)));
            best.expect("there are forty nice values")
        };
        let mut distinct = shares.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        // at the best scale some client's weight is exact, or nearly: try each weight for each share
        let mut candidates: Vec<(f64, i32, Vec<Nice>)> = Vec::new();
        for base in nices() {
            for &share in &distinct {
                let scale = base.weight().0 as f64 / share as f64;
                let values: Vec<Nice> = shares.iter().map(|&share| nearest(share as f64 * scale)).collect();
                let weights: Vec<u64> = values.iter().map(|nice| nice.weight().0).collect();
                let extreme = values.iter().map(|nice| nice.get().abs()).max().unwrap_or(0);
                candidates.push((worst(shares, &weights), extreme, values));
            }
        }
        let least = candidates.iter().map(|(off, _, _)| *off).fold(f64::INFINITY, f64::min);
        let good =
            candidates.into_iter().filter(|(off, _, _)| *off <= least + if least > 0.0 { 0.01 } else { 0.0 });
        let best = good.min_by(|a, b| a.1.cmp(&b.1).then(a.0.total_cmp(&b.0)));
        match best {
            Some((off, _, values)) => Expressed { worst: off, ..Expressed::of_nices(&values) },
            None => Expressed { settings: vec![], weights: vec![], worst: 0.0 },
        }
    }

    /// By weights of control groups, as near as they come.
    pub fn by_group_weight(shares: &[u64]) -> Expressed {
        let largest = shares.iter().copied().max().unwrap_or(1);
        let at = |numerator: u64, denominator: u64| {
            let group = |&share: &u64| {
                ((share * numerator + denominator / 2) / denominator).clamp(1, GROUP_WEIGHT_MAX)
            };
            let groups: Vec<u64> = shares.iter().map(group).collect();
            let weights: Vec<u64> = groups.iter().map(|&group| kernel_weight(group)).collect();
            let settings = groups.iter().map(|&group| Setting::GroupWeight(group as u32)).collect();
            let worst = worst(shares, &weights);
            Expressed { settings, weights, worst }
        };
        if largest * 25 <= GROUP_WEIGHT_MAX {
            return at(GROUP_WEIGHT_MAX / largest / 25 * 25, 1); // exact
        }
        let multiples = (1..=(GROUP_WEIGHT_MAX / largest)).map(|multiple| (multiple, 1));
        let candidates = multiples.chain([(GROUP_WEIGHT_MAX, largest)]).map(|(n, d)| at(n, d));
        candidates.min_by(|a, b| a.worst.total_cmp(&b.worst)).expect("there is at least one candidate")
    }

    /// A client's setting in words: `nice -3`, `cpu.weight 500`, `share 3`.
    pub fn words(&self, client: usize) -> String {
        match self.settings[client] {
            Setting::Share(share) => format!("share {share}"),
            Setting::Nice(nice) => format!("nice {nice}"),
            Setting::GroupWeight(weight) => format!("cpu.weight {weight}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stdx::Random;

    #[test]
    fn weights_of_nice_values_are_exact() {
        let shares: Vec<u64> = [-20, -5, 0, 7, 19].map(|nice| Nice::new(nice).unwrap().weight().0).to_vec();
        let expressed = Expressed::by_nice(&shares);
        assert_eq!((expressed.weights, expressed.worst), (shares, 0.0));
    }

    /// The module's example, and that no scale of a fine grid is better than the one found.
    #[test]
    fn the_best_scale_is_found() {
        let three = Expressed::by_nice(&[3, 2, 1]);
        assert_eq!(three.weights, [1586, 1024, 526]);
        assert!((three.worst - (1.0 - 1024.0 / 3136.0 * 3.0)).abs() < 1e-9, "{three:?}");
        let mut random = Random::new(4);
        for _ in 0..50 {
            let shares: Vec<u64> = (0..5).map(|_| 1 + random.below(60)).collect();
            let found = Expressed::by_nice(&shares);
            for step in 0..600 {
                let scale = 15.0 * 1.015f64.powi(step) / *shares.iter().max().unwrap() as f64;
                let nearest = |share: u64| {
                    let off = |nice: &Nice| (nice.weight().0 as f64 / (share as f64 * scale)).ln().abs();
                    nices().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap().weight().0
                };
                let weights: Vec<u64> = shares.iter().map(|&share| nearest(share)).collect();
                assert!(worst(&shares, &weights) > found.worst - 0.015, "{shares:?} {found:?}");
            }
        }
    }

    #[test]
    fn group_weights_are_exact_up_to_400() {
        for shares in [vec![3, 2, 1], vec![1], vec![400, 1, 399, 7]] {
            let expressed = Expressed::by_group_weight(&shares);
            assert!(expressed.worst < 1e-12, "{expressed:?}");
        }
        // 5,000 and 1: a cpu.weight of 1 is a weight of 10, not 10.24
        let wide = Expressed::by_group_weight(&[5_000, 1]);
        assert!(wide.worst < 0.03, "{wide:?}");
        assert!(Expressed::by_group_weight(&[1 << 30, 1]).worst > 1.0);
    }
}
