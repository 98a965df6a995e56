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
use crate::profile;
use crate::ui::Ui;
use schedlab_compare::stats::{mean, paired};
use schedlab_lab::kernels;
use schedlab_linux::build::BuildOptions;
use schedlab_race::compile::{KERNEL_TARGETS, kernel_target};
use schedlab_report::chart::{Drawing, Mark, Row, Rows, Scale, colour};
use schedlab_report::table::{Column, Table};
use schedlab_units::Span;
use schedlab_workload::generate::{Method, Periodic, PeriodicPolicy, Spec};
use schedlab_workload::{Form, save};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Utilisations of each CPU, as published.
pub(super) const LOADS: [f64; 3] = [0.6, 0.7, 0.8];
/// The paper does not say how many tasks there were.
pub(super) const TASKS_PER_CPU: u32 = 4;

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
    let step = ui.step("figure 3: task sets under callgrind");
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((at, case)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            cases.get(at).map(|c| (at, *c))
        } {
            step.progress(format!("figure 3: task set {} of {}", at + 1, cases.len()));
            let measured = run(case, args, &folder.path().join(format!("{at}.wlb")));
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

fn run(case: Case, args: &PractiseArgs, path: &Path) -> Result<Measured> {
    let (_, policy, functions) = STRUCTURES[case.structure];
    let spec = Spec::Periodic(Periodic {
        // both structures serve the same sets
        seed: args.seed.wrapping_mul(1_000_003) + u64::from(case.set),
        tasks: TASKS_PER_CPU * case.cpus,
        utilisation: case.load * f64::from(case.cpus),
        method: Method::RandFixedSum,
        period_min: Span::from_ms(10),
        period_max: Span::from_ms(100),
        policy,
        duration: args.duration,
        ..Periodic::default()
    });
    let workload = spec.build().map_err(Failure::input)?;
    save(path, &workload, Form::Binary).map_err(Failure::input)?;
    let words =
        ["--sched", &format!("linux-{}", args.kernel), "--cpus", &case.cpus.to_string(), "--duration"];
    let mut line: Vec<OsString> = vec!["run".into(), path.into()];
    line.extend(words.map(OsString::from));
    line.push(args.duration.to_string().into());
    let counts = profile::calls_of(line, &functions.concat())?;
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
        Column::new("mean", "instructions", "of the sets' means"),
        Column::new("greatest", "instructions", "of a set's mean"),
    ];
    let mut table = Table::new("figure-3", "Figure 3, in the port: instructions of a call", columns);
    for (structure, operation, cpus) in groups(all) {
        let values = means(all, structure, operation, Some(cpus));
        let is_it = |m: &&Measured| m.case.structure == structure && m.case.cpus == cpus;
        let calls: u64 = all.iter().filter(is_it).map(|m| m.calls[operation]).sum();
        let number =
            |value: f64| if value.is_finite() { json!((value * 10.0).round() / 10.0) } else { Value::Null };
        table.push(vec![
            json!(STRUCTURES[structure].0),
            json!(OPERATIONS[operation]),
            json!(cpus),
            json!(values.len()),
            json!(calls),
            number(values.iter().copied().fold(f64::INFINITY, f64::min)),
            number(mean(&values, 0.95).mean),
            number(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ]);
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
            let mean = mean(&samples, 0.95).mean;
            Row {
                name: format!("{}, {cpus} CPUs", STRUCTURES[structure].0),
                colour: colour(structure).to_string(),
                notes: vec![if mean.is_finite() { format!("{mean:.0}") } else { "-".into() }],
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
                 mean; the box has their quartiles; to the right their mean."
            ),
            svg: Rows { label: "instructions".into(), scale: Scale::Linear, rows, ..Rows::default() }.svg(),
        }
    };
    vec![of(0), of(1)]
}
