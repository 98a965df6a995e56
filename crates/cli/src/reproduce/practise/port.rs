//! Figure 3: what do changes and searches of cpupri and cpudl cost in a kernel, against the number of CPUs?
//!
//! The port runs random task sets under callgrind, once as SCHED_FIFO by rate (cpupri), once as SCHED_DEADLINE (cpudl).
//! Instructions of a call are those of the function and of what it calls.
//!
//! ```text
//! 48 CPUs     modify                          query
//! cpupri      cpupri_set()          41        cpupri_find()   56
//! cpudl       cpudl_set(), _clear() 121       cpudl_find()    28
//! ```

use super::{PractiseArgs, Statement, is_below_zero};
use crate::failure::{Failure, Result};
use crate::output;
use crate::profile::Profile;
use crate::race::in_kernel::{LOADS, TASKS_PER_CPU, periodic_set};
use crate::ui::Ui;
use schedlab_compare::stats::{mean, paired};
use schedlab_lab::kernels;
use schedlab_linux::build::BuildOptions;
use schedlab_race::compile::{KERNEL_TARGETS, kernel_target};
use schedlab_race::cost::with_interval;
use schedlab_report::chart::{Drawing, Mark, Row, Rows, Scale, colour};
use schedlab_report::table::{Column, Table};
use schedlab_stdx::percentile::{interpolated, median_interval};
use schedlab_workload::generate::PeriodicPolicy;
use schedlab_workload::{Form, save};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const STRUCTURES: [(&str, PeriodicPolicy, [&[&str]; 2]); 2] = [
    ("cpupri", PeriodicPolicy::RateMonotonic, [&["cpupri_set"], &["cpupri_find"]]),
    ("cpudl", PeriodicPolicy::Deadline, [&["cpudl_set", "cpudl_clear"], &["cpudl_find"]]),
];
const OPERATIONS: [&str; 2] = ["modify", "query"];

/// A task set under one structure.
#[derive(Clone, Copy, Debug)]
struct Case {
    structure: usize,
    cpus: u32,
    load: f64,
    set: u32,
}

/// Its calls, and instructions of one on average, of each of [`OPERATIONS`].
#[derive(Clone, Debug)]
pub(super) struct Measured {
    case: Case,
    calls: [u64; 2],
    instructions: [Option<f64>; 2],
}

/// A structure, and the checksum of the kernel's file that is compiled.
pub(super) type Sums = Vec<(String, String)>;

/// All cases, and the checksums of the kernel's files.
pub(super) fn figure_3(args: &PractiseArgs, ui: &Ui) -> Result<(Vec<Measured>, Sums)> {
    let kernel = kernels::obtain(&args.kernel, &BuildOptions::default(), ui).map_err(Failure::input)?;
    let mut sums = Vec::new();
    for (name, _) in KERNEL_TARGETS {
        let compiled = kernel_target(name, &kernel, None).map_err(Failure::input)?;
        sums.push((name.to_owned(), compiled.source.1));
    }
    let mut cases = Vec::new();
    for &cpus in &args.cpus {
        for structure in 0..STRUCTURES.len() {
            let of_load = |load| (1..=args.sets).map(move |set| Case { structure, cpus, load, set });
            cases.extend(LOADS.into_iter().flat_map(of_load));
        }
    }
    let folder = output::temporary_folder()?;
    let boots = Boots::default();
    let step = ui.step("figure 3: task sets under callgrind");
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((at, case)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            cases.get(at).map(|c| (at, *c))
        } {
            step.progress(format!("figure 3: task set {} of {}", at + 1, cases.len()));
            let measured = run(case, args, &folder.path().join(format!("{at}.wlb")), &boots);
            done.lock().unwrap_or_else(|e| e.into_inner()).push((at, measured));
        }
    };
    std::thread::scope(|scope| {
        (0..std::thread::available_parallelism().map_or(1, usize::from))
            .for_each(|_| drop(scope.spawn(work)));
    });
    drop(step);
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    let measured = done.into_iter().map(|(_, measured)| measured).collect::<Result<Vec<_>>>()?;
    Ok((measured, sums))
}

/// Counts of boots, by structure, CPUs and set: at each utilisation a set has as many tasks, with the same periods, so
/// its boot is the same.
#[derive(Debug, Default)]
struct Boots(Mutex<BTreeMap<(usize, u32, u32), Profile>>);

impl Boots {
    fn of(&self, case: Case, line: &[OsString]) -> Result<Profile> {
        let key = (case.structure, case.cpus, case.set);
        let known = || self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(boot) = known().get(&key) {
            return Ok(boot.clone());
        }
        let boot = Profile::of_boot(line.to_vec())?;
        Ok(known().entry(key).or_insert(boot).clone())
    }
}

fn run(case: Case, args: &PractiseArgs, path: &Path, boots: &Boots) -> Result<Measured> {
    let (_, policy, functions) = STRUCTURES[case.structure];
    let shape = (case.cpus, TASKS_PER_CPU, case.load);
    let spec = periodic_set((args.seed, case.set), shape, policy, args.duration);
    let workload = spec.build().map_err(Failure::input)?;
    save(path, &workload, Form::Binary).map_err(Failure::input)?;
    let words =
        ["--sched", &format!("linux-{}", args.kernel), "--cpus", &case.cpus.to_string(), "--duration"];
    let mut line: Vec<OsString> = vec!["run".into(), path.into()];
    line.extend(words.map(OsString::from));
    line.push(args.duration.to_string().into());
    let boot = boots.of(case, &line)?;
    let counts = Profile::of(line)?.without(&boot).calls(&functions.concat());
    let (modify, query) = counts.split_at(functions[0].len());
    let of = |counts: &[(u64, f64)]| {
        let calls: u64 = counts.iter().map(|(calls, _)| calls).sum();
        let instructions: f64 = counts.iter().map(|(_, instructions)| instructions).sum();
        (calls, (calls > 0).then(|| instructions / calls as f64))
    };
    let [modify, query] = [of(modify), of(query)];
    Ok(Measured { case, calls: [modify.0, query.0], instructions: [modify.1, query.1] })
}

/// The sets' means of one operation under one structure, in the order of the sets; those without a call are left out.
fn means(all: &[Measured], structure: usize, operation: usize, cpus: Option<u32>) -> Vec<f64> {
    let is_meant = |m: &&Measured| m.case.structure == structure && cpus.is_none_or(|n| m.case.cpus == n);
    all.iter().filter(is_meant).filter_map(|m| m.instructions[operation]).collect()
}

/// Pairs of the same set under both structures.
fn pairs(all: &[Measured], operation: usize) -> (Vec<f64>, Vec<f64>) {
    let of = |structure: usize| all.iter().filter(move |m| m.case.structure == structure);
    let both = of(0).zip(of(1)).map(|(a, b)| (a.instructions[operation], b.instructions[operation]));
    both.filter_map(|(a, b)| a.zip(b)).unzip()
}

pub(super) fn judged(all: &[Measured]) -> Vec<Statement> {
    let [(pri_modify, dl_modify), (pri_query, dl_query)] = [0, 1].map(|operation| pairs(all, operation));
    let said = |name: &str, values: &[f64]| {
        let mean = mean(values, 0.95);
        format!("{name} {:.0} ({:.0} to {:.0})", mean.mean, mean.low, mean.high)
    };
    let modify = paired(&dl_modify, &pri_modify, 0.95);
    let query = paired(&pri_query, &dl_query, 0.95);
    vec![
        Statement {
            published: "figure 3a: modifying cpupri is cheaper than modifying cpudl (below 1000 cycles, about 2000)",
            ours: format!(
                "instructions: {}, {}; {} sets",
                said("cpupri", &pri_modify),
                said("cpudl", &dl_modify),
                modify.n
            ),
            verdict: is_below_zero(&modify),
        },
        Statement {
            published: "figure 3b: a search of cpudl is cheaper than one of cpupri",
            ours: format!(
                "instructions: {}, {}; {} sets",
                said("cpudl", &dl_query),
                said("cpupri", &pri_query),
                query.n
            ),
            verdict: is_below_zero(&query),
        },
    ]
}

pub(super) fn table(all: &[Measured]) -> Table {
    let columns = vec![
        Column::new("structure", "", "of the kernel"),
        Column::new("operation", "", "modify: set and clear; query: find"),
        Column::new("cpus", "", "simulated"),
        Column::new("sets", "", "task sets in which it was called"),
        Column::new("calls", "", "in all of them"),
        Column::new("least", "instructions", "of a set's mean"),
        Column::new("low", "instructions", "first quartile of the sets' means"),
        Column::new("median", "instructions", "of the sets' means"),
        Column::new("high", "instructions", "third quartile"),
        Column::new("greatest", "instructions", "of a set's mean"),
        Column::new("from", "instructions", "95 % interval of the median: its lower end"),
        Column::new("to", "instructions", "its upper end"),
        Column::new("mean", "instructions", "of the sets' means"),
    ];
    let mut table = Table::new("figure-3", "Figure 3, in the port: instructions of a call", columns);
    for (structure, operation, cpus) in groups(all) {
        let values = means(all, structure, operation, Some(cpus));
        let is_it = |m: &&Measured| m.case.structure == structure && m.case.cpus == cpus;
        let calls: u64 = all.iter().filter(is_it).map(|m| m.calls[operation]).sum();
        let number = |value: Option<f64>| value.map_or(Value::Null, |v| json!((v * 10.0).round() / 10.0));
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| number(interpolated(&sorted, share));
        let ends = median_interval(&sorted);
        table.push(vec![
            json!(STRUCTURES[structure].0),
            json!(OPERATIONS[operation]),
            json!(cpus),
            json!(values.len()),
            json!(calls),
            at(0.0),
            at(0.25),
            at(0.5),
            at(0.75),
            at(1.0),
            number(ends.map(|ends| ends.0)),
            number(ends.map(|ends| ends.1)),
            number(Some(mean(&values, 0.95).mean).filter(|mean| mean.is_finite())),
        ]);
    }
    table
}

/// A row for each task set: what [`table`] summarises.
pub(super) fn sets_table(all: &[Measured]) -> Table {
    let columns = vec![
        Column::new("structure", "", "of the kernel"),
        Column::new("operation", "", "modify: set and clear; query: find"),
        Column::new("cpus", "", "simulated"),
        Column::new("utilisation", "", "of each CPU"),
        Column::new("set", "", "of this utilisation"),
        Column::new("calls", "", "in the run"),
        Column::new("instructions", "instructions", "of a call on average"),
    ];
    let mut table = Table::new("figure-3-sets", "Figure 3, in the port: each task set", columns);
    for measured in all {
        let case = measured.case;
        for (operation, name) in OPERATIONS.into_iter().enumerate() {
            table.push(vec![
                json!(STRUCTURES[case.structure].0),
                json!(name),
                json!(case.cpus),
                json!(case.load),
                json!(case.set),
                json!(measured.calls[operation]),
                measured.instructions[operation].map_or(Value::Null, |n| json!((n * 10.0).round() / 10.0)),
            ]);
        }
    }
    table
}

/// Structure, operation, number of CPUs, in the order of the paper's figures.
fn groups(all: &[Measured]) -> Vec<(usize, usize, u32)> {
    let mut cpus: Vec<u32> = all.iter().map(|m| m.case.cpus).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let mut groups = Vec::new();
    for operation in 0..OPERATIONS.len() {
        for structure in 0..STRUCTURES.len() {
            groups.extend(cpus.iter().map(|&cpus| (structure, operation, cpus)));
        }
    }
    groups
}

pub(super) fn drawings(all: &[Measured]) -> Vec<Drawing> {
    let of = |operation: usize| {
        let row = |(structure, _, cpus): (usize, usize, u32)| {
            let samples = means(all, structure, operation, Some(cpus));
            let mut sorted = samples.clone();
            sorted.sort_by(f64::total_cmp);
            let median = interpolated(&sorted, 0.5);
            let ends = median_interval(&sorted);
            Row {
                name: format!("{}, {cpus} CPUs", STRUCTURES[structure].0),
                colour: colour(structure).to_string(),
                notes: vec![median.map_or_else(|| "-".into(), |median| with_interval(median, ends))],
                samples,
                mark: Mark::Box,
            }
        };
        let rows = groups(all).into_iter().filter(|(_, its, _)| *its == operation).map(row).collect();
        let (letter, words) = [("a", "a change"), ("b", "a search")][operation];
        Drawing {
            name: format!("figure-3{letter}"),
            caption: format!(
                "Figure 3{letter}, in the port: instructions of {words}. A dot is a task set's \
                 mean; the box has their quartiles; to the right their median, with its 95 % interval."
            ),
            svg: Rows { label: "instructions".into(), scale: Scale::Linear, rows, ..Rows::default() }.svg(),
        }
    };
    vec![of(0), of(1)]
}
