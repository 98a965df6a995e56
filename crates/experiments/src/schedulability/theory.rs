//! What can be said of a set without running it: exact tests, sufficient bounds, and how late global EDF can
//! be at most.
//!
//! ```text
//! rate monotonic, 1 CPU, exact: R = C + sum over shorter periods j of ceil(R / T_j) C_j, from R = C on; all R <= T
//! (run, period) A (1, 4), B (2, 6), C (3, 12): R_C = 3 -> 6 -> 8 -> 10 -> 10; 10 <= 12
//! ```

use super::cases::{PeriodicTask, TaskSet};
use schedlab_units::Span;

/// The worst response of each task under rate monotonic on one CPU (Joseph, Pandya 1986); `None`: more than its period.
///
/// Tasks with the same period delay each other: all of them have the response of the last.
pub fn response_times(set: &TaskSet) -> Vec<Option<Span>> {
    let response = |(index, task): (usize, &PeriodicTask)| {
        let others = || set.tasks.iter().enumerate().filter(move |&(other, _)| other != index);
        let mut response_ns = task.run.as_ns();
        loop {
            let delays = others().filter(|(_, other)| other.period <= task.period);
            let delay_ns = |(_, other): (usize, &PeriodicTask)| {
                response_ns.div_ceil(other.period.as_ns()) * other.run.as_ns()
            };
            let next_ns = task.run.as_ns() + delays.map(delay_ns).sum::<u64>();
            if next_ns > task.period.as_ns() {
                return None;
            }
            if next_ns == response_ns {
                return Some(Span::from_ns(response_ns));
            }
            response_ns = next_ns;
        }
    };
    set.tasks.iter().enumerate().map(response).collect()
}

/// Liu and Layland 1973: up to this utilisation `n` tasks are safe under rate monotonic on one CPU; n (2^(1/n) - 1).
pub fn liu_layland(n: usize) -> f64 {
    n as f64 * ((1.0 / n as f64).exp2() - 1.0)
}

/// Bini and Buttazzo 2001: safe under rate monotonic on one CPU if the product of (U_i + 1) is at most 2.
pub fn hyperbolic(set: &TaskSet) -> bool {
    set.tasks.iter().map(|task| task.utilisation() + 1.0).product::<f64>() <= 2.0
}

/// The largest utilisation of a task.
fn largest(set: &TaskSet) -> f64 {
    set.tasks.iter().map(|task| task.utilisation()).fold(0.0, f64::max)
}

/// Goossens, Funk and Baruah 2003: safe under global EDF if U <= m - (m - 1) U_max.
pub fn gfb(set: &TaskSet, nr_cpus: u32) -> bool {
    let m = f64::from(nr_cpus);
    set.utilisation() <= m - (m - 1.0) * largest(set)
}

/// Andersson, Baruah and Jonsson 2001: safe under global rate monotonic if U_max <= m / (3m - 2) and U <= m^2
/// / (3m - 2).
pub fn andersson(set: &TaskSet, nr_cpus: u32) -> bool {
    let m = f64::from(nr_cpus);
    largest(set) <= m / (3.0 * m - 2.0) && set.utilisation() <= m * m / (3.0 * m - 2.0)
}

/// Whether the tasks, one by one in their order, each find room on a CPU, the first that has any: then
/// partitioned EDF is safe. Exact.
pub fn first_fit(set: &TaskSet, nr_cpus: u32) -> bool {
    let horizon_ns = u128::from(set.horizon.as_ns());
    let mut used_ns = vec![0; nr_cpus as usize];
    set.tasks.iter().all(|task| {
        let need_ns = u128::from(task.run.as_ns()) * (horizon_ns / u128::from(task.period.as_ns()));
        let room = used_ns.iter_mut().find(|used_ns| **used_ns + need_ns <= horizon_ns);
        room.map(|used_ns| *used_ns += need_ns).is_some()
    })
}

/// The same for rate monotonic: a CPU has room if all tasks on it, the new one too, keep their periods by
/// [`response_times`].
pub fn first_fit_rm(set: &TaskSet, nr_cpus: u32) -> bool {
    let mut cpus = vec![TaskSet { tasks: Vec::new(), horizon: set.horizon }; nr_cpus as usize];
    set.tasks.iter().all(|&task| {
        let room = cpus.iter_mut().find(|cpu| {
            let mut tried = (*cpu).clone();
            tried.tasks.push(task);
            !tried.overloads(1) && response_times(&tried).iter().all(Option::is_some)
        });
        room.map(|cpu| cpu.tasks.push(task)).is_some()
    })
}

/// Lopez, Diaz and Garcia 2004: every reasonable fit succeeds if U <= (b m + 1) / (b + 1), b = floor(1 / U_max).
pub fn lopez(set: &TaskSet, nr_cpus: u32) -> bool {
    let b = (1.0 / largest(set)).floor();
    set.utilisation() <= (b * f64::from(nr_cpus) + 1.0) / (b + 1.0)
}

/// Devi and Anderson 2008: how late each task's jobs are at most under global EDF if U <= m.
///
/// x + C_k, with x = (sum of the m' largest C - smallest C) / (m - sum of the m' - 1 largest U), m' = ceil(U)
/// - 1; on one CPU no job is late at all.
pub fn tardiness_bounds(set: &TaskSet, nr_cpus: u32) -> Vec<Span> {
    let others = (set.utilisation().ceil() as usize).saturating_sub(1);
    if others == 0 || nr_cpus == 1 {
        return vec![Span::ZERO; set.tasks.len()];
    }
    let mut runs_ns: Vec<u64> = set.tasks.iter().map(|task| task.run.as_ns()).collect();
    runs_ns.sort_unstable_by(|a, b| b.cmp(a));
    let mut shares: Vec<f64> = set.tasks.iter().map(|task| task.utilisation()).collect();
    shares.sort_unstable_by(|a, b| b.total_cmp(a));
    let least_ns = runs_ns.last().copied().unwrap_or(0);
    let above_ns = runs_ns.iter().take(others).sum::<u64>().saturating_sub(least_ns);
    let below = f64::from(nr_cpus) - shares.iter().take(others - 1).sum::<f64>();
    let x_ns = (above_ns as f64 / below).ceil() as u64;
    set.tasks.iter().map(|task| Span::from_ns(x_ns + task.run.as_ns())).collect()
}

/// Whether Linux's admission control, up to `limit_pct` per cent of each CPU, lets all of them have these
/// reservations: bandwidths are counted in 2^-20, rounded down.
pub fn admitted(reservations: &[PeriodicTask], nr_cpus: u32, limit_pct: u64) -> bool {
    let bandwidth =
        |task: &PeriodicTask| (u128::from(task.run.as_ns()) << 20) / u128::from(task.period.as_ns());
    let limit = u128::from(nr_cpus) * u128::from((limit_pct << 20) / 100);
    reservations.iter().map(bandwidth).sum::<u128>() <= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tasks: &[(u64, u64)], horizon_ms: u64) -> TaskSet {
        let task = |&(run, period): &(u64, u64)| PeriodicTask {
            run: Span::from_ms(run),
            period: Span::from_ms(period),
        };
        TaskSet { tasks: tasks.iter().map(task).collect(), horizon: Span::from_ms(horizon_ms) }
    }

    #[test]
    fn response_times_of_a_known_set() {
        let ms = |value| Some(Span::from_ms(value));
        assert_eq!(response_times(&set(&[(1, 4), (2, 6), (3, 12)], 12)), [ms(1), ms(3), ms(10)]);
        // Liu and Layland's pair: fine for EDF, not for rate monotonic
        assert_eq!(response_times(&set(&[(2, 5), (4, 7)], 35)), [ms(2), None]);
        // equal periods delay each other
        assert_eq!(response_times(&set(&[(1, 10), (2, 10)], 10)), [ms(3), ms(3)]);
    }

    #[test]
    fn bounds_have_their_published_values() {
        assert!((liu_layland(1) - 1.0).abs() < 1e-12);
        assert!((liu_layland(2) - 0.828_427).abs() < 1e-6);
        assert!((liu_layland(1000) - std::f64::consts::LN_2).abs() < 1e-3);
        assert!(hyperbolic(&set(&[(1, 2), (1, 3)], 6)) && !hyperbolic(&set(&[(1, 2), (2, 5)], 10)));
        // m = 2, U_max = 0.5: safe up to 1.5
        assert!(gfb(&set(&[(5, 10), (5, 10), (5, 10)], 10), 2));
        assert!(!gfb(&set(&[(5, 10), (5, 10), (6, 10)], 10), 2));
        // m = 2: U_max up to 1/2, U up to 1
        assert!(andersson(&set(&[(5, 10), (5, 10)], 10), 2));
        assert!(!andersson(&set(&[(5, 10), (5, 10), (1, 10)], 10), 2));
        // m = 2, U_max = 0.5: b = 2, safe up to 5/3
        assert!(lopez(&set(&[(5, 10), (5, 10), (5, 10), (1, 10)], 10), 2));
        assert!(!lopez(&set(&[(5, 10), (5, 10), (5, 10), (2, 10)], 10), 2));
    }

    #[test]
    fn first_fit_is_exact_at_full_load() {
        assert!(first_fit(&set(&[(5, 10), (5, 10), (5, 10), (5, 10)], 10), 2));
        assert!(!first_fit(&set(&[(6, 10), (6, 10), (6, 10)], 10), 2));
        // 1/3 + 1/3 + 1/3 is a whole CPU
        assert!(first_fit(&set(&[(4, 12), (4, 12), (4, 12)], 12), 1));
    }

    #[test]
    fn first_fit_by_response_times() {
        let pair = set(&[(2, 5), (4, 7)], 35);
        assert!(first_fit(&pair, 1) && !first_fit_rm(&pair, 1) && first_fit_rm(&pair, 2));
        assert!(first_fit_rm(&set(&[(1, 4), (2, 6), (3, 12)], 12), 1));
    }

    /// Three tasks of 6 in 10 on two CPUs: U = 1.8, x = (6 - 6) / 2 = 0, late by 6 at most.
    #[test]
    fn tardiness_of_three_on_two() {
        let set = set(&[(6, 10), (6, 10), (6, 10)], 10);
        assert_eq!(tardiness_bounds(&set, 2), [Span::from_ms(6); 3]);
        assert_eq!(tardiness_bounds(&set, 1), [Span::ZERO; 3]);
    }

    #[test]
    fn admission_counts_in_whole_units() {
        let third = PeriodicTask { run: Span::from_ms(1), period: Span::from_ms(3) };
        assert!(admitted(&[third; 3], 1, 100) && !admitted(&[third; 3], 1, 99));
        assert!(admitted(&[third; 5], 2, 95) && !admitted(&[third; 6], 2, 95));
    }
}
