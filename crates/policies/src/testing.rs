//! Drawn schedules: a workload in milliseconds, and who ran in each.

use crate::proportional::Discipline;
use crate::proportional::quantum::{self, Errors};
use schedlab_machine::drawn;
pub(crate) use schedlab_machine::drawn::Life;
use schedlab_stdx::Random;
use std::ops::RangeInclusive;

/// Runs the tasks and draws one line per CPU, one letter per ms, `.` = idle; the idle end is left out.
pub(crate) fn schedule(sched: &str, nr_cpus: u32, limit_ms: u64, lives: &[&[Life]]) -> Vec<String> {
    schedule_with(sched, &[], nr_cpus, limit_ms, lives)
}

/// The same with parameters of the scheduler.
pub(crate) fn schedule_with(
    sched: &str,
    params: &[(&str, &str)],
    nr_cpus: u32,
    limit_ms: u64,
    lives: &[&[Life]],
) -> Vec<String> {
    let params: Vec<_> = params.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let policy = crate::find(sched).unwrap().build(&params).unwrap();
    drawn::schedule(policy, nr_cpus, limit_ms, lives)
}

/// What specs and papers print for the clients A, B, C with shares 3, 2, 1, always runnable.
pub(crate) struct Worked<'a> {
    /// Order in one cycle.
    pub order: &'a str,
    /// Lowest and highest error from the start, in sixths of a quantum.
    pub sixths: (i64, i64),
    /// The same for shares 300, 200, 100, in six-hundredths.
    pub hundreds: (i64, i64),
}

/// Checks the worked example on the discipline alone and in the machine (quantum 1 ms, two cycles).
pub(crate) fn assert_worked(sched: &str, make: &dyn Fn() -> Box<dyn Discipline>, expected: Worked<'_>) {
    assert_eq!(quantum::order(&mut *make(), &[3, 2, 1], 6), expected.order, "{sched}: order");
    let twice = expected.order.repeat(2);
    assert_eq!(
        quantum::order(&mut *make(), &[3, 2, 1], 12),
        twice,
        "{sched}: the second cycle is as the first"
    );
    let range = |shares: &[u64]| {
        let errors = quantum::serve(&mut *make(), shares, shares.iter().sum(), |_, _, _| {});
        assert!(errors.exact_at_end, "{sched}: after a cycle each client has exactly its share");
        (errors.from_start.low, errors.from_start.high)
    };
    assert_eq!(range(&[3, 2, 1]), expected.sixths, "{sched}: errors with shares 3, 2, 1");
    assert_eq!(range(&[300, 200, 100]), expected.hundreds, "{sched}: errors with shares 300, 200, 100");
    let params = [("quantum", "1ms"), ("shares", "3,2,1")];
    let drawn = schedule_with(sched, &params, 1, 20, &[&[Life::Run(6)], &[Life::Run(4)], &[Life::Run(2)]]);
    assert_eq!(drawn, [twice], "{sched}: in the machine");
}

/// A random number of clients with random shares, 1 to `most`.
pub(crate) fn random_shares(random: &mut Random, clients: RangeInclusive<u64>, most: u64) -> Vec<u64> {
    let nr_clients = clients.start() + random.below(clients.end() - clients.start() + 1);
    (0..nr_clients).map(|_| 1 + random.below(most)).collect()
}

/// Errors of one cycle with these shares.
pub(crate) fn cycle(discipline: &mut dyn Discipline, shares: &[u64]) -> Errors {
    quantum::serve(discipline, shares, shares.iter().sum(), |_, _, _| {})
}
