//! How little load can defeat a global scheduler? Dhall's effect.
//!
//! On m CPUs, m light tasks (2e every 1) and one heavy (1 every 1 + e). Global EDF and global rate monotonic
//! run the light ones first, on all CPUs; the heavy one begins 2e late and misses. Together they use 2em + 1
//! / (1 + e), which goes to 1 however many CPUs there are.
//!
//! ```text
//! m = 2, e = 0.1, unit 10 ms     CPU 0  AACCCCCCCCCC      C is due at 11 and ends at 12
//!                                CPU 1  BB
//! ```

use super::cases::{PeriodicTask, TaskSet};
use super::measure::Arm;
use schedlab_policies::PolicyError;
use schedlab_units::Span;

/// One machine, one e, one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// CPUs.
    pub nr_cpus: u32,
    /// e, in per mille.
    pub light_pm: u64,
    /// CPUs that the tasks use together.
    pub utilisation: f64,
    /// The scheduler.
    pub sched: String,
    /// Jobs.
    pub nr_jobs: usize,
    /// Of them late.
    pub nr_late: usize,
}

/// The light tasks' period.
const UNIT_US: u64 = 100_000;

/// m light tasks and a heavy one; e in per mille. Ten jobs of the heavy one.
pub fn set(nr_cpus: u32, light_pm: u64) -> TaskSet {
    let us = Span::from_us;
    let light = PeriodicTask { run: us(2 * light_pm * UNIT_US / 1_000), period: us(UNIT_US) };
    let heavy = PeriodicTask { run: us(UNIT_US), period: us(UNIT_US + light_pm * UNIT_US / 1_000) };
    let mut tasks = vec![light; nr_cpus as usize];
    tasks.push(heavy);
    TaskSet { tasks, horizon: Span::from_ns(10 * heavy.period.as_ns()) }
}

/// Global EDF and rate monotonic, and both divided.
///
/// # Errors
/// None with the policies as they are registered.
pub fn arms() -> Result<Vec<Arm>, PolicyError> {
    let texts = ["gedf", "rm", "pedf", "rm:fit=first"];
    Ok(texts.into_iter().map(|text| Arm::parse(text).expect("registered")).collect())
}

/// 2 to 16 CPUs, e from 10 to 0.1 per cent.
///
/// # Errors
/// None with arms that were parsed.
pub fn rows(arms: &[Arm]) -> Result<Vec<Row>, PolicyError> {
    let mut rows = Vec::new();
    for nr_cpus in [2, 4, 16] {
        for light_pm in [20, 5, 1] {
            let set = set(nr_cpus, light_pm);
            for arm in arms {
                let measure = arm.run(&set, nr_cpus)?;
                let nr_jobs = measure.responses.iter().map(Vec::len).sum();
                let nr_late = measure.nr_late(&set);
                let (utilisation, sched) = (set.utilisation(), arm.label.clone());
                rows.push(Row { nr_cpus, light_pm, utilisation, sched, nr_jobs, nr_late });
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Global schedulers miss at a load that goes to one CPU of sixteen; divided tasks never do.
    #[test]
    fn light_tasks_defeat_global_schedulers() {
        for row in rows(&arms().unwrap()).unwrap() {
            match row.sched.as_str() {
                "gedf" | "rm" => assert!(row.nr_late > 0, "{row:?}"),
                _ => assert_eq!(row.nr_late, 0, "{row:?}"),
            }
        }
        assert!((set(16, 1).utilisation() - 1.031).abs() < 1e-3);
    }
}
