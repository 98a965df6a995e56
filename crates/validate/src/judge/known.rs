//! Which differences beyond tolerance are understood? Each with its cause and a bound: beyond the bound it
//! fails after all.

use crate::{Case, MeasureRow, Verdict};

/// A difference with a cause.
pub struct Known {
    /// Start of the series' name, empty = all.
    pub series: &'static str,
    /// CPUs it occurs on.
    pub cpus: &'static [u32],
    /// Start of the workload's name.
    pub workload: &'static str,
    /// Start of the row's name.
    pub row: &'static str,
    /// Largest |difference| in the row's own unit.
    pub bound: f64,
    /// Where the same kernel differs from run to run by more than is tolerated: the mean of real Linux must
    /// lie within the simulation's runs, taken one by one.
    pub within_runs: bool,
    /// The cause; docs/validate.md has more.
    pub cause: &'static str,
}

impl Known {
    /// Real Linux differs from run to run here: it must lie within the simulation's runs, too.
    const fn within_runs(self) -> Known {
        Known { within_runs: true, ..self }
    }
}

const fn known(
    series: &'static str,
    cpus: &'static [u32],
    workload: &'static str,
    row: &'static str,
    bound: f64,
    cause: &'static str,
) -> Known {
    Known { series, cpus, workload, row, bound, within_runs: false, cause }
}

const SHARED_CLOCK: &str = "kernel code takes time, and longer with several CPUs, which share the guest's clock; \
    --costs of N times the size brings it near";
const OUTCOMES: &str = "which tasks share a CPU differs from run to run, in one and the same kernel; real Linux is \
    within the simulation's runs";
const LENGTH_OF_CODE: &str = "how long kernel code takes decides who shares a CPU with whom: -2.5 % and +1.3 % with \
    --costs costs/guest-6.1.toml; real Linux itself gives the hog 5.66 to 6.70 s with shorter or longer instructions \
    and turns of CPUs";
const BETWEEN: &str = "kernel code takes time, and longer with several CPUs: 5.7 migrations without, 88 with --costs \
    costs/guest-6.1.toml; the two runs of real Linux, 14 and 65, lie between";

/// All of them; see docs/validate.md.
pub const KNOWN: &[Known] = &[
    known(
        "",
        &[1],
        "fairbench",
        "run delay p99",
        8.1,
        "a delay of 1.9 s is the sum of 480 ticks among tasks whose virtual times are equal to the microsecond: 0.4 \
         %; two real kernels of one source differ by as much",
    ),
    known(
        "",
        &[1],
        "hackbench",
        "CPU time of",
        3.0,
        "kernel code takes time: 10 us a message of 200 us; --costs brings 6.1 to 0.2 %",
    ),
    known(
        "6.12",
        &[1],
        "hackbench",
        "switches",
        15.0,
        "kernel code takes time, some 10 us an operation; with --costs costs/guest-6.12.toml 1.9 %",
    ),
    known(
        "6.12",
        &[1],
        "ping-pong",
        "CPU time of",
        5.5,
        "kernel code takes time, and three turns are just below a tick; with --costs costs/guest-6.12.toml 0.3 %",
    ),
    known(
        "6.12",
        &[1],
        "ping-pong",
        "run delay K-S distance",
        0.12,
        "kernel code takes time, and three turns are just below a tick; with --costs costs/guest-6.12.toml .012",
    ),
    known("", &[2, 4], "hackbench", "CPU time of sender", 12.0, SHARED_CLOCK),
    known("6.1", &[2], "hackbench", "switches", 19.0, SHARED_CLOCK),
    known("6.1", &[4], "hackbench", "switches", 116.0, SHARED_CLOCK),
    known("6.12", &[4], "ping-pong", "CPU time of pair", 10.5, SHARED_CLOCK),
    known("6.12", &[4], "ping-pong", "run delay K-S distance", 0.13, SHARED_CLOCK),
    known("6.12", &[4], "ping-pong", "migrations", 100.0, SHARED_CLOCK),
    known("6.1", &[2], "fairbench", "migrations", 5.0, OUTCOMES).within_runs(),
    known("", &[2], "hackbench", "migrations", 32.0, OUTCOMES).within_runs(),
    known("6.1", &[4], "sleepers:8,3ms,7ms", "migrations", 17.0, OUTCOMES).within_runs(),
    known("6.1", &[4], "sleepers", "migrations", 9.0, OUTCOMES).within_runs(),
    known("6.12", &[4], "sleepers", "migrations", 52.0, OUTCOMES).within_runs(),
    known("6.12", &[4], "hackbench", "switches", 29.0, OUTCOMES).within_runs(),
    known("6.12", &[4], "hackbench", "migrations", 22.0, OUTCOMES).within_runs(),
    known("6.1", &[4], "ping-pong", "migrations", 86.0, BETWEEN),
    known("6.1", &[2], "ping-pong", "CPU time of", 9.0, LENGTH_OF_CODE),
    known("6.12", &[2], "ping-pong", "migrations", 17.0, SHARED_CLOCK),
    known("6.1", &[4], "fairbench", "run delay p99", 8.1, OUTCOMES).within_runs(),
    known("6.1", &[2], "ping-pong", "run delay p99", 7.5, OUTCOMES).within_runs(),
    known("6.1", &[4], "hackbench", "migrations", 73.0, OUTCOMES).within_runs(),
];

fn within([least, largest]: [f64; 2], value: f64) -> bool {
    (least..=largest).contains(&value)
}

/// Turns failures that are understood into known differences.
pub(crate) fn explain(case: &Case, rows: &mut [MeasureRow]) {
    for row in rows.iter_mut().filter(|row| row.verdict == Verdict::Fail) {
        let found = KNOWN.iter().find(|known| {
            (known.series.is_empty() || known.series == case.series)
                && known.cpus.contains(&case.cpus)
                && case.workload.starts_with(known.workload)
                && row.what.starts_with(known.row)
                && row.difference.abs() <= known.bound
                && (!known.within_runs || within(row.simulated_runs, row.real))
        });
        if let Some(known) = found {
            row.verdict = Verdict::Known;
            row.cause = Some(known.cause);
        }
    }
}
