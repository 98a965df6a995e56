//! Which differences beyond tolerance are understood? Each with its cause and a bound: beyond the bound it fails after all.

use crate::{Case, Row, Verdict};

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
    /// Where the same kernel differs from run to run by more than is tolerated: the mean of real Linux must lie within the
    /// simulation's runs, taken one by one.
    pub within_runs: bool,
    /// The cause; LIMITATIONS.md has more.
    pub cause: &'static str,
}

const SHARED_CLOCK: &str = "kernel code takes time, and longer with several CPUs, which share the guest's clock; --costs of N times the size brings it near";
const TURN_OF_A_TICK: &str = "three tasks share a period of 12 ms: turns of exactly a tick, which end 3 us short of the guest's tick (8 ms), at the simulation's (4 ms)";
const OUTCOMES: &str = "which tasks share a CPU differs from run to run, in one and the same kernel; real Linux is within the simulation's runs";
const FIRST_PULL: &str = "counted from the first migration: in the guest a kernel thread on an idle CPU, 4 ms after the release, makes that CPU pull one";

/// All of them; see LIMITATIONS.md, "Validation".
pub const KNOWN: &[Known] = &[
    Known {
        series: "6.1",
        cpus: &[1],
        workload: "fairbench",
        row: "run delay p99",
        bound: 8.1,
        within_runs: false,
        cause: "a delay of 1.9 s is the sum of 480 ticks among tasks whose virtual times are equal to the microsecond: 0.4 %",
    },
    Known {
        series: "",
        cpus: &[1],
        workload: "hackbench",
        row: "CPU time of",
        bound: 3.0,
        within_runs: false,
        cause: "kernel code takes time: 10 us a message of 200 us; --costs brings 6.1 to 0.2 %",
    },
    Known {
        series: "6.12",
        cpus: &[1],
        workload: "hackbench",
        row: "switches",
        bound: 15.0,
        within_runs: false,
        cause: "kernel code takes time, some 10 us an operation; with --costs costs/guest-6.12.toml 0.05 %",
    },
    Known {
        series: "6.12",
        cpus: &[1],
        workload: "ping-pong",
        row: "CPU time of",
        bound: 5.5,
        within_runs: false,
        cause: "kernel code takes time, and three turns are just below a tick; with --costs costs/guest-6.12.toml 0.3 %",
    },
    Known {
        series: "6.12",
        cpus: &[1],
        workload: "ping-pong",
        row: "run delay K-S distance",
        bound: 0.12,
        within_runs: false,
        cause: "kernel code takes time, and three turns are just below a tick; with --costs costs/guest-6.12.toml .012",
    },
    Known {
        series: "",
        cpus: &[2, 4],
        workload: "hackbench",
        row: "CPU time of sender",
        bound: 12.0,
        within_runs: false,
        cause: SHARED_CLOCK,
    },
    Known {
        series: "6.1",
        cpus: &[2],
        workload: "hackbench",
        row: "switches",
        bound: 25.0,
        within_runs: false,
        cause: SHARED_CLOCK,
    },
    Known {
        series: "6.1",
        cpus: &[4],
        workload: "hackbench",
        row: "switches",
        bound: 130.0,
        within_runs: false,
        cause: SHARED_CLOCK,
    },
    Known {
        series: "6.12",
        cpus: &[4],
        workload: "ping-pong",
        row: "CPU time of pair",
        bound: 10.5,
        within_runs: false,
        cause: SHARED_CLOCK,
    },
    Known {
        series: "6.12",
        cpus: &[4],
        workload: "ping-pong",
        row: "run delay K-S distance",
        bound: 0.13,
        within_runs: false,
        cause: SHARED_CLOCK,
    },
    Known {
        series: "6.12",
        cpus: &[4],
        workload: "ping-pong",
        row: "migrations",
        bound: 100.0,
        within_runs: false,
        cause: SHARED_CLOCK,
    },
    Known {
        series: "6.1",
        cpus: &[2],
        workload: "fairbench",
        row: "run delay p50",
        bound: 8.1,
        within_runs: false,
        cause: TURN_OF_A_TICK,
    },
    Known {
        series: "6.1",
        cpus: &[2],
        workload: "fairbench",
        row: "run delay K-S distance",
        bound: 0.6,
        within_runs: false,
        cause: TURN_OF_A_TICK,
    },
    Known {
        series: "6.1",
        cpus: &[2],
        workload: "fairbench",
        row: "switches",
        bound: 41.0,
        within_runs: false,
        cause: TURN_OF_A_TICK,
    },
    Known {
        series: "6.1",
        cpus: &[2],
        workload: "fairbench",
        row: "migrations",
        bound: 210.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "6.12",
        cpus: &[2],
        workload: "fairbench",
        row: "run delay p99",
        bound: 605.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "",
        cpus: &[4],
        workload: "fairbench",
        row: "run delay p99",
        bound: 112.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "",
        cpus: &[2],
        workload: "hackbench",
        row: "migrations",
        bound: 120.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "6.12",
        cpus: &[4],
        workload: "sleepers:8,3ms,7ms",
        row: "migrations",
        bound: 30.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "6.1",
        cpus: &[4],
        workload: "sleepers:8,3ms,7ms",
        row: "migrations",
        bound: 80.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "6.12",
        cpus: &[4],
        workload: "cgroup",
        row: "migrations",
        bound: 22.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "6.1",
        cpus: &[2],
        workload: "ping-pong",
        row: "run delay p99",
        bound: 10.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "6.1",
        cpus: &[4],
        workload: "hackbench",
        row: "migrations",
        bound: 98.0,
        within_runs: true,
        cause: OUTCOMES,
    },
    Known {
        series: "",
        cpus: &[4],
        workload: "start:8",
        row: "time to balance K-S",
        bound: 1.0,
        within_runs: false,
        cause: FIRST_PULL,
    },
];

fn within([least, largest]: [f64; 2], value: f64) -> bool {
    (least..=largest).contains(&value)
}

/// Turns failures that are understood into known differences.
pub(crate) fn explain(case: &Case, rows: &mut [Row]) {
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
