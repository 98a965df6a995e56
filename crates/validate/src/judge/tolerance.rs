//! How far may the simulation be from real Linux? Each number with its reason; none is wider than the limits
//! set before the first comparison was made.

/// CPU time of a class, relative, on one CPU. What decides is arithmetic on weights; both sides do the same.
pub const CPU_TIME_1: f64 = 0.01;
/// CPU time of a class, relative, on several CPUs, by share of the machine that the class has on real Linux:
/// who shares a CPU with whom depends on the balancer's history, the more so the less a class has (shares
/// seen on real Linux differ from run to run).
pub const CPU_TIME_N: [(f64, f64); 3] = [(0.5, 0.03), (0.05, 0.06), (0.0, 0.25)];
/// CPU time differs by whole ticks: one decision more or less at each end of the run. In ticks, of the whole class.
pub const CPU_TIME_TICKS: f64 = 2.0;
/// Switches of the workload's tasks, relative.
pub const SWITCHES: f64 = 0.05;
/// ... and in ticks' worth of decisions: so many switches more or less mean nothing at all.
pub const SWITCHES_LEAST: f64 = 10.0;
/// Kolmogorov-Smirnov distance of the run delays.
pub const DELAY_KS: f64 = 0.10;
/// A delay may be this much longer or shorter before it counts in that distance. The guest's clock counts
/// instructions, so that kernel code has a length that is made up (a tick's interrupt 5 to 20 us, on each
/// waiting task's delay); in the simulation it has none. A quarter of a 4 ms tick is far above the sum of
/// those and far below what a decision changes.
pub const DELAY_BLUR_NS: u64 = 1_000_000;
/// Percentiles of the run delays, in ticks. On several CPUs the same: a delay is still decided at ticks.
pub const DELAY_TICKS: f64 = 1.0;
/// ... plus the steps in which delays are kept.
pub const DELAY_GRAIN_MS: f64 = 0.02;
/// Migrations, relative (several CPUs), from 100 ms on: before, each world spreads the tasks from where its
/// own set-up has put them. The guest's are born while real-time tasks hold all CPUs, most of them on CPU 0;
/// the simulation's on idle CPUs.
pub const MIGRATIONS: f64 = 0.15;
/// ... and absolute: so many more or less per run mean nothing.
pub const MIGRATIONS_LEAST: f64 = 4.0;
/// Share of the machine of every single task where all are alike (one class of tasks that never sleep), in points.
pub const EQUAL_SHARE_POINTS: f64 = 1.0;
/// Kolmogorov-Smirnov distance of the times to balance, for ten runs a side: above it the samples differ at
/// the 1 % level (1.63 x sqrt(2/10)). Never the means: the distribution has two peaks.
pub const BALANCE_KS: f64 = 0.73;
/// On a host, the part of the CPUs' time that may go to others than the workload; with more, nothing is
/// judged: two in a hundred are twice what a class may differ by.
pub const HOST_OTHERS: f64 = 0.02;
