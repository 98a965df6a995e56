//! How alike are two schedules of one workload? Shares, switches, lengths of runs and waits, and the first
//! decision that differs.
//!
//! ```text
//! native  cpu0  A...B..A        in common: A at 0, B at 4
//! real    cpu0  A...B....A      first difference: at 7 native lets A run, real goes on with B (A at 9)
//! ```

use super::measure::{By, ComparedRun, Decision, Placement};
use schedlab_stdx::percentile::nearest;
use schedlab_units::TaskId;

/// Tasks with less of the CPU time than this are left out of the worst relative difference: a tick more or
/// less is most of what they get.
pub const SHARE_COUNTED: f64 = 0.01;

/// The first difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// When: the earlier of the two decisions.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// What the first schedule does next there; `None`: nothing more.
    pub first: Option<Decision>,
    /// What the second does.
    pub second: Option<Decision>,
    /// The first placement on a queue that differs, if it came no later: the second's, and where the first
    /// put the same task.
    pub placement: Option<(Placement, Option<Placement>)>,
}

/// The comparison of two schedules, the first with the second as reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Half the sum of the differences of shares: the part of the CPU time that went to others.
    pub share_distance: f64,
    /// Largest relative difference of the CPU time of a task that has at least [`SHARE_COUNTED`] of it.
    pub share_worst: f64,
    /// Decisions (runs that begin, idle ones included) of both.
    pub decisions: (usize, usize),
    /// Stops by preemption, yield or the end of a slice of both.
    pub involuntary: (u64, u64),
    /// Runs on another CPU than before of both.
    pub migrations: (u64, u64),
    /// Kolmogorov and Smirnov's distance of the lengths of uninterrupted runs.
    pub runs_ks: f64,
    /// Median length of a run of both, in ns.
    pub run_median_ns: (u64, u64),
    /// The same distance of the waits from wakeup to running; `None` if there are no wakeups.
    pub waits_ks: Option<f64>,
    /// 99th percentile of these waits of both, in ns.
    pub wait_p99_ns: (u64, u64),
    /// Part of the busy CPU time in which the same task runs in both at the same time, on whichever CPU.
    pub overlap: f64,
    /// Decisions in common before the first difference.
    pub common: usize,
    /// The first difference; `None`: there is none.
    pub divergence: Option<Divergence>,
}

/// Compares two schedules of the same workload on the same machine.
pub fn compare(first: &ComparedRun, second: &ComparedRun) -> Comparison {
    let total = |s: &ComparedRun| s.cpu_ns.iter().sum::<u64>().max(1) as f64;
    let (total_first, total_second) = (total(first), total(second));
    let (mut distance, mut worst) = (0.0, 0.0f64);
    for (&a, &b) in first.cpu_ns.iter().zip(&second.cpu_ns) {
        let (share_a, share_b) = (a as f64 / total_first, b as f64 / total_second);
        distance += (share_a - share_b).abs() / 2.0;
        if share_b >= SHARE_COUNTED {
            worst = worst.max((a as f64 / b as f64 - 1.0).abs());
        }
    }
    let divergence = divergence(first, second);
    let before = divergence.map_or(u64::MAX, |d| d.time_ns);
    let common = second.decisions.iter().flatten().filter(|d| d.time_ns < before).count();
    let both = |f: fn(&ComparedRun) -> u64| (f(first), f(second));
    Comparison {
        share_distance: distance,
        share_worst: worst,
        decisions: (first.nr_decisions(), second.nr_decisions()),
        involuntary: both(|s| s.involuntary),
        migrations: both(|s| s.migrations),
        runs_ks: kolmogorov_smirnov(&first.runs_ns, &second.runs_ns).unwrap_or(0.0),
        run_median_ns: both(|s| nearest(&s.runs_ns, 500).unwrap_or(0)),
        waits_ks: kolmogorov_smirnov(&first.waits_ns, &second.waits_ns),
        wait_p99_ns: both(|s| nearest(&s.waits_ns, 990).unwrap_or(0)),
        overlap: overlap(first, second),
        common,
        divergence,
    }
}

/// The largest distance between the two distribution functions, from 0 to 1; `None` if either has no samples.
pub fn kolmogorov_smirnov(first: &[u64], second: &[u64]) -> Option<f64> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let (mut i, mut j, mut largest) = (0, 0, 0.0f64);
    while i < first.len() && j < second.len() {
        let value = first[i].min(second[j]);
        while i < first.len() && first[i] == value {
            i += 1;
        }
        while j < second.len() && second[j] == value {
            j += 1;
        }
        largest = largest.max((i as f64 / first.len() as f64 - j as f64 / second.len() as f64).abs());
    }
    Some(largest)
}

fn divergence(first: &ComparedRun, second: &ComparedRun) -> Option<Divergence> {
    let mut earliest: Option<Divergence> = None;
    for (cpu, (a, b)) in first.decisions.iter().zip(&second.decisions).enumerate() {
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let (next_a, next_b) = (a.get(same).copied(), b.get(same).copied());
        let Some(time_ns) = next_a.into_iter().chain(next_b).map(|d| d.time_ns).min() else { continue };
        if earliest.is_none_or(|e| time_ns < e.time_ns) {
            let cpu = cpu as u32;
            earliest = Some(Divergence { time_ns, cpu, first: next_a, second: next_b, placement: None });
        }
    }
    earliest.map(|found| Divergence { placement: placement(first, second, found.time_ns), ..found })
}

/// The first placement that differs, if it came no later than `until_ns`. Placements of one instant may stand
/// in any order.
fn placement(
    first: &ComparedRun,
    second: &ComparedRun,
    until_ns: u64,
) -> Option<(Placement, Option<Placement>)> {
    let sorted = |s: &ComparedRun| {
        let mut list: Vec<Placement> =
            s.placements.iter().take_while(|p| p.time_ns <= until_ns).copied().collect();
        list.sort_by_key(|p| (p.time_ns, p.task));
        list
    };
    let (a, b) = (sorted(first), sorted(second));
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    match (a.get(same).copied(), b.get(same).copied()) {
        (None, None) => None,
        (other, Some(found)) if other.is_none_or(|other| found.time_ns <= other.time_ns) => Some((
            found,
            a[same..].iter().find(|p| p.task == found.task && p.time_ns == found.time_ns).copied(),
        )),
        // the first moved a task that the second did not: told from the second's side as the task's staying
        (Some(extra), _) => Some((Placement { cpu: u32::MAX, ..extra }, Some(extra))),
        (None, Some(_)) => unreachable!("the guard above is true without another"),
    }
}

/// The part of the busy time in which a task runs in both.
fn overlap(first: &ComparedRun, second: &ComparedRun) -> f64 {
    let (a, b) = (stays(first), stays(second));
    let (mut shared_ns, mut i, mut j) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        if x.0 == y.0 {
            shared_ns += x.2.min(y.2).saturating_sub(x.1.max(y.1));
        }
        // by task, then by time
        if (x.0, x.2) < (y.0, y.2) { i += 1 } else { j += 1 }
    }
    let busy = |stays: &[(TaskId, u64, u64)]| stays.iter().map(|(_, from, to)| to - from).sum::<u64>();
    shared_ns as f64 / busy(&a).max(busy(&b)).max(1) as f64
}

/// (task, from, to) of each stay on a CPU, by task and time.
fn stays(schedule: &ComparedRun) -> Vec<(TaskId, u64, u64)> {
    let mut stays = Vec::with_capacity(schedule.nr_decisions());
    for decisions in &schedule.decisions {
        for (place, decision) in decisions.iter().enumerate() {
            let to_ns = decisions.get(place + 1).map_or(schedule.duration_ns, |next| next.time_ns);
            if !decision.task.is_idle() && to_ns > decision.time_ns {
                stays.push((decision.task, decision.time_ns, to_ns));
            }
        }
    }
    stays.sort_unstable();
    stays
}

impl By {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            By::Birth => "fork placement",
            By::Wakeup => "wakeup placement",
            By::Balancing => "balancing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schedule of one CPU from letters, one per ms; `.` = idle.
    fn drawn(line: &str) -> ComparedRun {
        let mut schedule =
            ComparedRun { duration_ns: line.len() as u64, decisions: vec![vec![]], ..ComparedRun::default() };
        let mut last = '.';
        for (ms, letter) in line.chars().enumerate() {
            if letter != last {
                let task = if letter == '.' { TaskId::IDLE } else { TaskId(letter as u32 - 'A' as u32) };
                schedule.decisions[0].push(Decision { time_ns: ms as u64, task });
                last = letter;
            }
        }
        let count = |letter| line.matches(letter).count() as u64;
        schedule.cpu_ns = vec![count('A'), count('B')];
        schedule
    }

    #[test]
    fn the_documented_example() {
        let (native, real) = (drawn("AAAABBBAAA"), drawn("AAAABBBBBA"));
        let comparison = compare(&native, &real);
        assert_eq!(comparison.common, 2);
        let found = comparison.divergence.unwrap();
        assert_eq!((found.time_ns, found.cpu), (7, 0));
        assert_eq!(found.first.unwrap(), Decision { time_ns: 7, task: TaskId(0) });
        assert_eq!(found.second.unwrap(), Decision { time_ns: 9, task: TaskId(0) });
        assert_eq!(comparison.overlap, 0.8);
        // A has 7 and 5 of 10, B 3 and 5
        assert!(
            (comparison.share_distance - 0.2).abs() < 1e-12 && (comparison.share_worst - 0.4).abs() < 1e-12
        );
    }

    #[test]
    fn equal_schedules_have_no_difference() {
        let comparison = compare(&drawn("AABB..AB"), &drawn("AABB..AB"));
        assert_eq!((comparison.divergence, comparison.common, comparison.overlap), (None, 5, 1.0));
        assert_eq!((comparison.share_distance, comparison.runs_ks, comparison.waits_ks), (0.0, 0.0, None));
    }

    #[test]
    fn one_ends_where_the_other_goes_on() {
        let found = compare(&drawn("AABB"), &drawn("AABBAA")).divergence.unwrap();
        assert_eq!((found.time_ns, found.first), (4, None));
    }

    /// Distribution functions of {1, 2, 3, 4} and {3, 4, 5, 6}: farthest apart from 2 on, 0.5 and 0.
    #[test]
    fn distances_of_distributions() {
        assert_eq!(kolmogorov_smirnov(&[1, 2, 3, 4], &[3, 4, 5, 6]), Some(0.5));
        assert_eq!(kolmogorov_smirnov(&[1, 1], &[1, 1, 1]), Some(0.0));
        assert_eq!(kolmogorov_smirnov(&[1], &[2]), Some(1.0));
        assert_eq!(kolmogorov_smirnov(&[], &[2]), None);
    }
}
