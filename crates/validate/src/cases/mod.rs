//! Which pairs of guest and simulation are compared?

mod start;
mod vary;

pub use start::{as_in_guest, of_guest};
pub use vary::{BURST_END_NS, vary};

use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// One pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The kernel: `6.12`.
    pub series: String,
    /// CPUs.
    pub cpus: u32,
    /// A name of `schedlab guest list`, or a file.
    pub workload: String,
    /// Length of a run, such as `20s`.
    pub duration: String,
    /// Runs of real Linux, each with another phase of the tick.
    pub runs: u32,
}

impl Case {
    /// The length of a run.
    pub fn span(&self) -> Span {
        self.duration.parse().unwrap_or(Span::from_s(10))
    }

    /// Where in the tick (and in all periods that divide 100 ms) run `index` starts: 9.7 ms apart, which is
    /// 1.7 ms of a 4 ms tick.
    pub fn phase(index: u32) -> Span {
        Span::from_us(u64::from(index) * 9_700 % 100_000)
    }

    /// `6.12-1-fairbench`: for file names.
    pub fn slug(&self) -> String {
        let clean = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        format!("{}-{}-{}", self.series, self.cpus, self.workload.chars().map(clean).collect::<String>())
    }
}

/// Versions of the matrix.
pub const SERIES: [&str; 2] = ["6.1", "6.12"];
/// Numbers of CPUs of the matrix.
pub const CPUS: [u32; 3] = [1, 2, 4];
/// Its workloads: name, length of a run, runs, and which of [`CPUS`] (an uneven start needs several).
const WORKLOADS: [(&str, &str, u32, [bool; 3]); 16] = [
    ("fairbench", "20s", 2, [true, false, false]),
    ("fairbench", "10s", 2, [false, true, true]),
    ("responsebench", "20s", 2, [true, false, false]),
    ("responsebench", "10s", 2, [false, true, true]),
    ("hogs:0,5,-5,10", "10s", 2, [true, false, false]),
    ("hogs:0,0,0,0,5,5,-5,-5", "10s", 2, [false, true, true]),
    ("sleepers:8,3ms,7ms", "10s", 2, [true, true, true]),
    // a burst of exactly a tick: see vary.rs
    ("sleepers", "10s", 2, [false, false, true]),
    ("periodic-rt", "10s", 2, [true, true, true]),
    ("deadline", "10s", 2, [true, true, true]),
    ("cgroup", "10s", 2, [true, true, true]),
    ("ping-pong", "10s", 2, [true, true, true]),
    ("hackbench", "5s", 2, [true, true, true]),
    ("yielders", "5s", 2, [true, false, false]),
    ("start:8,0,0,0", "3s", 10, [false, false, true]),
    ("start:5,0,0,0", "10s", 2, [false, false, true]),
];

/// All cases, one CPU first.
pub fn matrix() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, cpus) in CPUS.into_iter().enumerate() {
        for series in SERIES {
            for (workload, duration, runs, on) in WORKLOADS {
                if on[at] {
                    let (series, workload, duration) = (series.into(), workload.into(), duration.into());
                    cases.push(Case { series, cpus, workload, duration, runs });
                }
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_has_eight_workloads_for_every_version_and_size() {
        for series in SERIES {
            for cpus in CPUS {
                let cases = matrix().into_iter().filter(|case| case.series == series && case.cpus == cpus);
                assert!(cases.count() >= 8, "{series} on {cpus}");
            }
        }
        let mut slugs: Vec<String> = matrix().iter().map(Case::slug).collect();
        slugs.sort();
        slugs.dedup();
        assert_eq!(slugs.len(), matrix().len());
    }

    #[test]
    fn phases_differ_within_the_tick() {
        let mut sub: Vec<u64> = (0..10).map(|i| Case::phase(i).as_ns() % 4_000_000).collect();
        sub.sort_unstable();
        sub.dedup();
        assert_eq!(sub.len(), 10);
        assert!((0..100).all(|i| Case::phase(i) < Span::from_ms(100)));
    }
}
