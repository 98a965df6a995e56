//! `race cpudl --cost --in-kernel`: what does a call cost in the kernel that runs here, under real real-time tasks?
//!
//! ```text
//! cpupri    SCHED_FIFO by rate     cpupri_set(), cpupri_find()
//! cpudl     SCHED_DEADLINE         cpudl_set(), cpudl_clear(), cpudl_find()
//!           4 threads for each CPU, periods of 10 to 100 ms by RandFixedSum, on all CPUs
//! ```
//!
//! Programs at begin and end of each function count how many calls took so many nanoseconds. What measuring takes is
//! measured at a function that does nothing, now and then during the load, and its median is taken off.

use super::fault;
use crate::failure::{Failure, Result};
use schedlab_host::periodic::{PeriodicLoad, PeriodicTask};
use schedlab_host::{CallTimer, CallTimes, tsc_hz};
use schedlab_race::clock;
use schedlab_race::cost::CPUS_FOR_A_CLAIM;
use schedlab_report::table::{Column, Table};
use schedlab_report::units::count;
use schedlab_stdx::percentile::median_interval;
use schedlab_units::{SchedParams, Span};
use schedlab_workload::generate::{Method, Periodic, PeriodicPolicy, Spec};
use schedlab_workload::{EventKind, Workload};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Utilisations of each CPU, as published.
pub(crate) const LOADS: [f64; 3] = [0.6, 0.7, 0.8];
/// The paper does not say how many tasks there were.
pub(crate) const TASKS_PER_CPU: u32 = 4;

/// A structure, how its tasks are scheduled, and its functions: which change it, and which search.
const STRUCTURES: [(&str, PeriodicPolicy, &[&str]); 2] = [
    ("cpupri", PeriodicPolicy::RateMonotonic, &["cpupri_set", "cpupri_find"]),
    ("cpudl", PeriodicPolicy::Deadline, &["cpudl_set", "cpudl_clear", "cpudl_find"]),
];
/// What changes cpudl: both functions together, as in the port.
const CHANGES: &str = "set, clear";
/// Calls of the function that does nothing before the load, and how often it is called during it.
const CALLS_OF_NOTHING: u32 = 20_000;
const STEP: Duration = Duration::from_millis(5);
/// After the tasks' start, before calls count.
const SETTLE: Duration = Duration::from_millis(100);

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub loads: Vec<f64>,
    pub sets: u32,
    pub duration: Span,
    pub tasks_per_cpu: u32,
    pub seed: u64,
}

/// A random set, the same in the port, here and in a guest.
pub(crate) fn periodic_set(
    (seed, set): (u64, u32),
    (cpus, tasks_per_cpu, load): (u32, u32, f64),
    policy: PeriodicPolicy,
    duration: Span,
) -> Spec {
    Spec::Periodic(Periodic {
        // every structure serves the same sets
        seed: seed.wrapping_mul(1_000_003) + u64::from(set),
        tasks: tasks_per_cpu * cpus,
        utilisation: load * f64::from(cpus),
        method: Method::RandFixedSum,
        period_min: Span::from_ms(10),
        period_max: Span::from_ms(100),
        policy,
        duration,
        ..Periodic::default()
    })
}

/// What was measured of one structure. Times are in ns, less what measuring takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InKernel {
    pub structure: String,
    /// The kernel's release.
    pub kernel: String,
    pub cpus: u32,
    pub tsc_hz: f64,
    /// What measuring takes, in ns: in a loop, and now and then under the load.
    pub own_ns: [u64; 2],
    pub rows: Vec<Measured>,
}

/// Calls of one function under all sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    pub operation: String,
    /// Sets in which it was called.
    pub sets: u64,
    pub calls: u64,
    /// Quartiles with the median, and the 99th percentile; `None`: longer than what is counted apart.
    pub ns: [Option<f64>; 4],
    /// 95 % interval of the median, from the sets' medians; of fewer than six there is none.
    pub interval_ns: Option<(f64, f64)>,
}

/// Measures in the kernel that runs here; all its CPUs take part.
pub(crate) fn measure(structure: &str, wanted: &Wanted, progress: &dyn Fn(String)) -> Result<InKernel> {
    let Some((_, policy, functions)) = STRUCTURES.into_iter().find(|(name, ..)| *name == structure) else {
        let known = STRUCTURES.map(|(name, ..)| name).join(" and ");
        return Err(Failure::Input(format!(
            "{structure}: --in-kernel measures what the running kernel has: {known}; without --in-kernel a C file is \
             measured"
        )));
    };
    clock::is_kernels(&clock::folder()).map_err(fault)?;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let timer = CallTimer::attach(functions).map_err(Failure::input)?;
    timer.call_nothing(CALLS_OF_NOTHING).map_err(Failure::input)?;
    let often = timer.itself();
    let (mut rare, mut sets) = (CallTimes::default(), Vec::new());
    for &load in &wanted.loads {
        for set in 1..=wanted.sets {
            progress(format!("{structure}: set {set} of {} at {load}", wanted.sets));
            let tasks = tasks((wanted.seed, set), (cpus, wanted.tasks_per_cpu, load), policy)?;
            let (times, itself) = under_load(&timer, &tasks, wanted.duration)?;
            rare.add(&itself);
            sets.push(times);
        }
    }
    let own_ns = [&often, &rare].map(|times| times.quantile_ns(500).unwrap_or(0));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(Failure::input)?;
    Ok(InKernel {
        structure: structure.to_owned(),
        kernel: release.trim().to_owned(),
        cpus,
        tsc_hz: tsc_hz().unwrap_or(1e9),
        own_ns,
        rows: rows(functions, &sets, own_ns[1]),
    })
}

/// Calls of each function while these tasks run, and of the one that does nothing.
fn under_load(
    timer: &CallTimer,
    tasks: &[PeriodicTask],
    duration: Span,
) -> Result<(Vec<CallTimes>, CallTimes)> {
    let load = PeriodicLoad::start(tasks).map_err(Failure::input)?;
    std::thread::sleep(SETTLE);
    let (before, itself) = (timer.times(), timer.itself());
    let end = Instant::now() + Duration::from_nanos(duration.as_ns());
    while Instant::now() < end {
        std::thread::sleep(STEP);
        timer.call_nothing(1).map_err(Failure::input)?;
    }
    let times = timer.times().iter().zip(&before).map(|(now, before)| now.since(before)).collect();
    let itself = timer.itself().since(&itself);
    drop(load);
    Ok((times, itself))
}

fn tasks(
    seed: (u64, u32),
    (cpus, tasks_per_cpu, load): (u32, u32, f64),
    policy: PeriodicPolicy,
) -> Result<Vec<PeriodicTask>> {
    let build = |policy| {
        let spec = periodic_set(seed, (cpus, tasks_per_cpu, load), policy, Span::from_ms(1000));
        spec.build().map_err(|e| Failure::Input(format!("--utilisation {load}: {e}")))
    };
    // only a reservation says the period
    let (own, reserved): (Workload, Workload) = (build(policy)?, build(PeriodicPolicy::Deadline)?);
    let task = |(own, reserved): (&schedlab_workload::Task, &schedlab_workload::Task)| {
        let runtime = own.events.iter().find_map(|event| match event.kind {
            EventKind::Block { length } => Some(length),
            _ => None,
        });
        let params: Option<SchedParams> = reserved.params;
        let period = params.and_then(|params| params.deadline).map(|deadline| deadline.period);
        Some(PeriodicTask { params: own.params?, runtime: runtime?, period: period? })
    };
    let all: Option<Vec<PeriodicTask>> = own.tasks.iter().zip(&reserved.tasks).map(task).collect();
    all.ok_or_else(|| Failure::Internal("internal error: a periodic task without jobs or period".into()))
}

/// By function, then both that change cpudl together.
fn rows(functions: &[&str], sets: &[Vec<CallTimes>], own_ns: u64) -> Vec<Measured> {
    let row = |operation: &str, of: &dyn Fn(&Vec<CallTimes>) -> CallTimes| {
        let each: Vec<CallTimes> = sets.iter().map(of).filter(|times| times.calls > 0).collect();
        let mut all = CallTimes::default();
        each.iter().for_each(|times| all.add(times));
        let less = |ns: u64| ns.saturating_sub(own_ns) as f64;
        let mut medians: Vec<f64> =
            each.iter().filter_map(|times| times.quantile_ns(500)).map(less).collect();
        medians.sort_by(f64::total_cmp);
        Measured {
            operation: operation.to_owned(),
            sets: each.len() as u64,
            calls: all.calls,
            ns: [250, 500, 750, 990].map(|q| all.quantile_ns(q).map(less)),
            interval_ns: median_interval(&medians),
        }
    };
    let name = |function: &str| function.rsplit('_').next().unwrap_or_default().to_owned();
    let one = |(at, function): (usize, &&str)| row(&name(function), &|times| times[at].clone());
    let mut rows: Vec<Measured> = functions.iter().enumerate().map(one).collect();
    if functions.len() == 3 {
        let both = |times: &Vec<CallTimes>| {
            let mut both = times[0].clone();
            both.add(&times[1]);
            both
        };
        rows.insert(2, row(CHANGES, &both));
    }
    rows
}

impl InKernel {
    /// A change, and a search.
    pub(crate) fn of(&self, is_change: bool) -> Option<&Measured> {
        let named = |name: &str| self.rows.iter().find(|row| row.operation == name);
        match is_change {
            true => named(CHANGES).or_else(|| named("set")),
            false => named("find"),
        }
    }

    /// What must be known to trust the numbers.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let cycles = |ns: u64| ns as f64 * self.tsc_hz / 1e9;
        let mut remarks = vec![format!(
            "Linux {} on {} CPUs: programs at begin and end of each function read the kernel's clock, whose step is a \
             nanosecond or {:.1} cycles of a TSC of {:.3} GHz. Measuring takes {:.0} cycles in a loop and {:.0} now \
             and then under the load; the latter are taken off",
            self.kernel,
            self.cpus,
            self.tsc_hz / 1e9,
            self.tsc_hz / 1e9,
            cycles(self.own_ns[0]),
            cycles(self.own_ns[1]),
        )];
        if self.cpus < CPUS_FOR_A_CLAIM {
            remarks.push(format!(
                "not shown: whether costs are in the published order; that asks for {CPUS_FOR_A_CLAIM} CPUs or more, \
                 these are {}",
                self.cpus
            ));
        }
        remarks
    }

    /// The cells of [`columns`] behind the structure's, each time by this factor.
    pub(crate) fn cells(&self, per_ns: f64) -> Vec<Vec<Value>> {
        let number = |ns: Option<f64>| ns.map_or(Value::Null, |ns| json!((ns * per_ns).round() as u64));
        let row = |row: &Measured| {
            let [low, median, high, p99] = row.ns.map(number);
            let ends = row.interval_ns;
            let (from, to) = (number(ends.map(|ends| ends.0)), number(ends.map(|ends| ends.1)));
            let (sets, calls) = (json!(row.sets), json!(row.calls));
            vec![json!(row.operation), json!(self.cpus), sets, calls, low, median, high, p99, from, to]
        };
        self.rows.iter().map(row).collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        let row = |row: &Measured| {
            json!({
                "operation": row.operation, "sets": row.sets, "calls": row.calls, "ns": row.ns,
                "interval_ns": row.interval_ns.map(|(low, high)| [low, high]),
            })
        };
        json!({
            "structure": self.structure, "kernel": self.kernel, "cpus": self.cpus, "tsc_hz": self.tsc_hz,
            "own_ns": self.own_ns, "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// As [`InKernel::to_json`] wrote it, in a guest.
    pub(crate) fn from_json(value: &Value) -> Option<InKernel> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let row = |row: &Value| {
            let ends = |ends: &Value| Some((ends[0].as_f64()?, ends[1].as_f64()?));
            Some(Measured {
                operation: text(&row["operation"])?,
                sets: row["sets"].as_u64()?,
                calls: row["calls"].as_u64()?,
                ns: [0, 1, 2, 3].map(|at: usize| row["ns"][at].as_f64()),
                interval_ns: ends(&row["interval_ns"]),
            })
        };
        Some(InKernel {
            structure: text(&value["structure"])?,
            kernel: text(&value["kernel"])?,
            cpus: u32::try_from(value["cpus"].as_u64()?).ok()?,
            tsc_hz: value["tsc_hz"].as_f64()?,
            own_ns: [value["own_ns"][0].as_u64()?, value["own_ns"][1].as_u64()?],
            rows: value["rows"].as_array()?.iter().map(row).collect::<Option<_>>()?,
        })
    }
}

/// Of [`InKernel::cells`], with a unit.
pub(crate) fn columns(unit: &'static str) -> Vec<Column> {
    vec![
        Column::new("operation", "", "the function; set, clear: both that change cpudl together"),
        Column::new("cpus", "", "of the kernel"),
        Column::new("sets", "", "task sets in which it was called"),
        Column::new("calls", "", "how often"),
        Column::new("low", unit, "first quartile, less what measuring takes"),
        Column::new("median", unit, "half of the calls take no more"),
        Column::new("high", unit, "third quartile"),
        Column::new("p99", unit, "of 100 calls one takes longer"),
        Column::new("from", unit, "95 % interval of the median, from the sets' medians: its lower end"),
        Column::new("to", unit, "its upper end"),
    ]
}

/// A median with its interval, for a sentence.
pub(crate) fn said(measured: &Measured, per_ns: f64) -> String {
    let value = |ns: f64| count((ns * per_ns).round() as u64);
    let median = measured.ns[1].map_or("-".to_owned(), value);
    match measured.interval_ns {
        Some((low, high)) => format!("{median} ({} to {})", value(low), value(high)),
        None => median,
    }
}

/// The table of one structure in cycles.
pub(crate) fn table(found: &InKernel) -> Table {
    let mut table =
        Table::new("costs-in-kernel", "Cycles of each call in the running kernel", columns("cycles"));
    found.cells(found.tsc_hz / 1e9).into_iter().for_each(|row| table.push(row));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(counts: &[(usize, u32)]) -> CallTimes {
        let mut by_ns = vec![0; 1000];
        counts.iter().for_each(|(ns, n)| by_ns[*ns] = *n);
        CallTimes { calls: counts.iter().map(|(_, n)| u64::from(*n)).sum(), by_ns, ..CallTimes::default() }
    }

    /// Six sets of cpudl: a change is a set or a clear; medians 101 to 106 less 40, the interval is all of them.
    #[test]
    fn rows_pool_what_changes_and_take_measuring_off() {
        let set = |ns: usize| vec![times(&[(ns, 3)]), times(&[(ns + 200, 2)]), times(&[(50, 1)])];
        let sets: Vec<_> = (101..=106).map(set).collect();
        let rows = rows(&["cpudl_set", "cpudl_clear", "cpudl_find"], &sets, 40);
        let names: Vec<&str> = rows.iter().map(|row| row.operation.as_str()).collect();
        assert_eq!(names, ["set", "clear", "set, clear", "find"]);
        assert_eq!(rows.iter().map(|row| row.calls).collect::<Vec<_>>(), [18, 12, 30, 6]);
        assert_eq!((rows[2].ns[1], rows[2].interval_ns), (Some(65.0), Some((61.0, 66.0))));
        assert_eq!((rows[3].ns[1], rows[3].sets), (Some(10.0), 6));
        let found = InKernel {
            structure: "cpudl".into(),
            kernel: "6.12".into(),
            cpus: 2,
            tsc_hz: 2e9,
            own_ns: [38, 40],
            rows,
        };
        assert_eq!(InKernel::from_json(&found.to_json()).as_ref(), Some(&found));
        assert_eq!(table(&found).rows[2][5], json!(130), "two cycles a nanosecond");
        assert!(found.remarks()[1].starts_with("not shown") && found.of(true).unwrap().calls == 30);
        assert_eq!(said(found.of(true).unwrap(), 2.0), "130 (122 to 132)");
    }

    /// The tasks of a set have the same periods and computing under either policy, and use what they are to use.
    #[test]
    fn both_structures_serve_the_same_sets() {
        let of = |policy| tasks((1, 2), (4, TASKS_PER_CPU, 0.7), policy).unwrap();
        let (fifo, deadline) = (of(PeriodicPolicy::RateMonotonic), of(PeriodicPolicy::Deadline));
        let share = |tasks: &[PeriodicTask]| -> f64 {
            tasks.iter().map(|task| task.runtime.as_ns() as f64 / task.period.as_ns() as f64).sum()
        };
        assert!((share(&fifo) - 2.8).abs() < 0.03 && fifo.len() == 16, "{}", share(&fifo));
        for (a, b) in fifo.iter().zip(&deadline) {
            assert_eq!((a.runtime, a.period), (b.runtime, b.period));
            assert!(a.params.rt_priority > 0 && b.params.deadline.is_some_and(|d| d.runtime >= b.runtime));
        }
    }

    #[test]
    fn a_file_of_ones_own_is_no_kernels() {
        let wanted =
            Wanted { loads: vec![0.6], sets: 1, duration: Span::from_ms(1), tasks_per_cpu: 4, seed: 1 };
        let error = measure("lowest.c", &wanted, &|_| {}).unwrap_err();
        assert!(error.code() == 2 && error.sentence().contains("cpupri and cpudl"), "{}", error.sentence());
    }
}
