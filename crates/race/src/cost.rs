//! What does each call of a structure cost, with two threads, three, up to one for each CPU?
//!
//! ```text
//! threads  operation  calls    low  median  high      p99   cycles: CPUID RDTSC, the call, RDTSCP CPUID, less that
//! 2        find       4,100     26      26   104      572
//! 2        set       33,000     26     104   130    1,170
//! ```
//!
//! A structure may measure itself, too (`race_time()`, `race_count()`): each of its measures has rows like a call's.
//!
//! PRAcTISE's figures 4 to 6 (Falzoi, Lelli, Lipari 2012) are such numbers for 2 to 48 CPUs.

use std::path::Path;

use schedlab_report::chart::{Mark, Row, colour};
use schedlab_report::table::Column;
use schedlab_report::units::count;
use schedlab_stdx::percentile::{interpolated, median_interval, nearest};
use serde_json::{Value, json};

use crate::compile::Compiled;
use crate::threads::{Load, OPERATIONS, Sample, Stressed, cost, write_arrow};
use crate::{RaceError, clock};

/// From so many CPUs on the published order of cycles can be looked for.
pub const CPUS_FOR_A_CLAIM: u32 = 8;
/// What a drawing of [`Costs::rows`] shows.
pub const CAPTION: &str = "Quartiles of each call, with the median; dots are the hundredths of its samples. \
                           To the right: the median, and how many calls.";
/// The processor's clock is said to change from such a part on.
const CLOCK_TOLERANCE: f64 = 0.05;
/// Parts of a run whose medians give the interval: calls of one part resemble each other more than those of another.
const PARTS: usize = 20;
/// A part with fewer calls has no median worth the name.
const CALLS_OF_A_PART: usize = 6;
/// Quantiles of a row of the drawing.
const QUANTILES: usize = 100;

/// One structure's.
#[derive(Clone, Debug)]
pub struct Costs {
    /// What was measured.
    pub structure: String,
    /// By number of threads.
    runs: Vec<(u32, Stressed)>,
}

impl Costs {
    /// Measures with 2 to `load.cpus` threads, each on a CPU of its own.
    ///
    /// # Errors
    /// The program cannot be run; the TSC is no clock here.
    pub fn measure(program: &Compiled, load: &Load, progress: &dyn Fn(&str)) -> Result<Costs, RaceError> {
        clock::is_trusted(&clock::folder())?;
        let mut runs = Vec::new();
        for threads in 2..=load.cpus {
            progress(&format!("{threads} threads of {}", load.cpus));
            let one = cost(program, &Load { threads, cpus: threads, ..load.clone() })?;
            if one.finding.is_none() && !one.has_stable_tsc() {
                return Err(RaceError::Refused(format!(
                    "the TSC is no clock here: {} Hz before the run, {} Hz after it, invariant: {}; expected one \
                     rate; measure on a machine with an invariant TSC",
                    one.count("tsc_hz"),
                    one.count("tsc_hz_end"),
                    one.count("tsc_invariant") == 1
                )));
            }
            let is_wrong = one.finding.is_some();
            runs.push((threads, one));
            if is_wrong {
                break;
            }
        }
        Ok(Costs { structure: program.name.clone(), runs })
    }

    /// What did not hold meanwhile.
    pub fn finding(&self) -> Option<&str> {
        self.runs.iter().find_map(|(_, one)| one.finding.as_deref())
    }

    /// What there are samples of: calls, then the structure's own measures. Whether it is a time.
    pub fn operations(&self) -> Vec<(&str, bool)> {
        let mut all: Vec<(&str, bool)> = OPERATIONS.iter().map(|name| (*name, true)).collect();
        for measure in self.runs.iter().flat_map(|(_, one)| &one.measures) {
            if !all.iter().any(|(known, _)| *known == measure.name) {
                all.push((&measure.name, measure.is_time));
            }
        }
        all
    }

    /// Cycles of each call, or values of a measure, sorted, by number of threads.
    pub fn cycles(&self, operation: &str) -> Vec<(u32, Vec<f64>)> {
        let of = |(threads, one): &(u32, Stressed)| {
            let is_it = |sample: &&Sample| one.operation(sample) == operation;
            let mut cycles: Vec<f64> = one.samples.iter().filter(is_it).map(|s| s.cycles as f64).collect();
            cycles.sort_by(f64::total_cmp);
            (*threads, cycles)
        };
        self.runs.iter().map(of).filter(|(_, cycles)| !cycles.is_empty()).collect()
    }

    /// The 95 % interval of an operation's median with so many threads: the run is cut into twenty parts, and the true
    /// median lies between the 6th and the 15th of theirs. `None`: too few calls.
    pub fn interval(&self, threads: u32, operation: &str) -> Option<(f64, f64)> {
        let (_, one) = self.runs.iter().find(|(n, _)| *n == threads)?;
        let meant = one.samples.iter().filter(|sample| one.operation(sample) == operation);
        interval(meant.map(|sample| (sample.start, sample.cycles as f64)).collect())
    }

    /// The cells of [`columns`], a row for each operation and number of threads.
    pub fn cells(&self) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for (threads, one) in &self.runs {
            for (operation, is_time) in self.operations() {
                for (_, cycles) in self.cycles(operation).iter().filter(|(n, _)| n == threads) {
                    let at = |share: f64| json!(interpolated(cycles, share).unwrap_or(0.0).round() as u64);
                    let ranked = |per_mille: u32| json!(nearest(cycles, per_mille).unwrap_or(0.0) as u64);
                    let calls = match OPERATIONS.contains(&operation) {
                        true => one.count(&format!("calls_{operation}")),
                        false => cycles.len() as u64,
                    };
                    let unit = if is_time { "cycles" } else { "number" };
                    let row = [json!(threads), json!(operation), json!(calls), json!(unit)];
                    let values = [at(0.25), at(0.5), at(0.75), ranked(990), ranked(1000)];
                    let ends = self.interval(*threads, operation).map(|(low, high)| [low, high]);
                    let ends = ends
                        .map_or([Value::Null, Value::Null], |ends| ends.map(|end| json!(end.round() as u64)));
                    rows.push([&row[..], &values, &ends].concat());
                }
            }
        }
        rows
    }

    /// Of one operation, a row of a drawing for each number of threads.
    pub fn rows(&self, operation: &str) -> Vec<Row> {
        let row = |(threads, cycles): (u32, Vec<f64>)| {
            let quantile =
                |k: usize| interpolated(&cycles, k as f64 / QUANTILES as f64).unwrap_or(0.0).max(1.0);
            let median = interpolated(&cycles, 0.5).unwrap_or(0.0);
            Row {
                name: format!("{operation}, {threads} threads"),
                colour: colour(threads as usize - 2).to_string(),
                samples: (0..=QUANTILES).map(quantile).collect(),
                mark: Mark::Box,
                notes: vec![
                    with_interval(median, self.interval(threads, operation)),
                    count(cycles.len() as u64),
                ],
            }
        };
        self.cycles(operation).into_iter().map(row).collect()
    }

    /// How fast the TSC runs, in Hz.
    pub fn tsc_hz(&self) -> Option<f64> {
        self.runs.last().map(|(_, one)| one.count("tsc_hz") as f64).filter(|hz| *hz > 0.0)
    }

    /// What must be known to trust the numbers.
    pub fn remarks(&self) -> Vec<String> {
        let Some((cpus, one)) = self.runs.last() else { return Vec::new() };
        let mut remarks = vec![format!(
            "the TSC runs at {:.3} GHz, invariant; measuring takes {} cycles, which are taken off",
            one.count("tsc_hz") as f64 / 1e9,
            one.count("own_cycles"),
        )];
        remarks.push(match one.count("is_guest") {
            0 => "measured as published: CPUID RDTSC, the call, RDTSCP CPUID".to_string(),
            _ => "measured by MFENCE LFENCE RDTSC LFENCE, the call, RDTSCP LFENCE: CPUID would leave this \
                  virtual machine"
                .to_string(),
        });
        if one.count("unkept") > 0 {
            remarks.push(format!(
                "{} calls of the last run were not kept: too many",
                count(one.count("unkept"))
            ));
        }
        let [begin, end] = ["loop_cycles", "loop_cycles_end"].map(|name| one.count(name) as f64);
        if begin > 0.0 && end > 0.0 {
            let steps = 1e5;
            let mut text = format!(
                "a multiplication that waits for the one before takes {:.2} cycles of the TSC before the last run, \
                 {:.2} after it",
                begin / steps,
                end / steps
            );
            if (end / begin - 1.0).abs() > CLOCK_TOLERANCE {
                text += ": the processor's clock changes, so that cycles of different runs are not comparable; \
                         fix its frequency (cpupower frequency-set -g performance)";
            }
            remarks.push(text);
        }
        if *cpus < CPUS_FOR_A_CLAIM {
            remarks.push(format!(
                "not shown: whether costs are in the published order; that asks for {CPUS_FOR_A_CLAIM} CPUs or \
                 more, these are {cpus}"
            ));
        }
        remarks
    }

    /// Every sample, as an Arrow file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_arrow(&self, path: &Path) -> Result<(), RaceError> {
        write_arrow(path, &self.runs)
    }
}

/// `74 (70 to 99)`, or without an interval `74`.
pub fn with_interval(median: f64, interval: Option<(f64, f64)>) -> String {
    match interval {
        Some((low, high)) => format!("{median:.0} ({low:.0} to {high:.0})"),
        None => format!("{median:.0}"),
    }
}

/// Of values with their times; see [`Costs::interval`].
fn interval(mut values: Vec<(u64, f64)>) -> Option<(f64, f64)> {
    let all = values.len();
    if all < PARTS * CALLS_OF_A_PART {
        return None;
    }
    values.sort_by_key(|(start, _)| *start);
    let median = |part: usize| {
        let part = &values[part * all / PARTS..(part + 1) * all / PARTS];
        let mut cycles: Vec<f64> = part.iter().map(|(_, cycles)| *cycles).collect();
        cycles.sort_by(f64::total_cmp);
        interpolated(&cycles, 0.5)
    };
    let mut medians: Vec<f64> = (0..PARTS).filter_map(median).collect();
    medians.sort_by(f64::total_cmp);
    median_interval(&medians)
}

/// Of [`Costs::cells`].
pub fn columns() -> Vec<Column> {
    vec![
        Column::new("threads", "", "each on a CPU of its own"),
        Column::new("operation", "", "what was called, or a measure of the structure's own"),
        Column::new("calls", "", "how often"),
        Column::new(
            "unit",
            "",
            "cycles, less what measuring takes; number: a measure of the structure's own",
        ),
        Column::new("low", "", "first quartile"),
        Column::new("median", "", "half of the calls take no more"),
        Column::new("high", "", "third quartile"),
        Column::new("p99", "", "of 100 calls one takes longer"),
        Column::new("max", "", "the longest"),
        Column::new("from", "", "95 % interval of the median, from twenty parts of the run: its lower end"),
        Column::new("to", "", "its upper end"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty parts of ten calls, whose medians are 1 to 20 in whatever order: the 6th and the 15th.
    #[test]
    fn an_interval_is_of_the_parts_medians() {
        let all: Vec<(u64, f64)> = (0..200u64).map(|n| (n, (n / 10 * 7 % 20 + 1) as f64)).collect();
        assert_eq!(interval(all.clone()), Some((6.0, 15.0)));
        let mixed = (0..200u64).map(|n| all[(n * 77 % 200) as usize]).collect();
        assert_eq!(interval(mixed), Some((6.0, 15.0)), "by time, not as they were kept");
        assert_eq!(interval(vec![(1, 5.0); 119]), None);
        assert_eq!(interval(vec![(1, 5.0); 120]), Some((5.0, 5.0)));
    }
}
