//! Figures 4 to 6: what does a call cost where threads use the structure at the same time?
//!
//! The kernel's cpupri.c and cpudeadline.c, and rivals behind the same hooks: an array heap, a skip list, flat
//! combining, and heaps for push and pull (`samples/race`). Figure 6, of pull, is the last one's: the others have no
//! structure for it, and search the queues.

use super::{PractiseArgs, Statement, verdict_on_cycles};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_lab::kernels;
use schedlab_linux::build::BuildOptions;
use schedlab_race::compile::{KERNEL_TARGETS, kernel_program, own_program};
use schedlab_race::cost::{CAPTION, Costs, columns, with_interval};
use schedlab_race::threads::{Load, THREADS_MAX};
use schedlab_report::chart::{Drawing, Row, Rows, Scale, colour};
use schedlab_report::table::{Column, Table};
use schedlab_stdx::percentile::interpolated;
use serde_json::json;

/// The rivals' files, with what they include.
const RIVALS: [(&str, &str); 4] = [
    ("heap", include_str!("../../../../../samples/race/heap.c")),
    ("skiplist", include_str!("../../../../../samples/race/skiplist.c")),
    ("combining", include_str!("../../../../../samples/race/combining.c")),
    ("push_pull", include_str!("../../../../../samples/race/push_pull.c")),
];
const HEADERS: [(&str, &str); 2] = [
    ("latest.h", include_str!("../../../../../samples/race/latest.h")),
    ("heap.h", include_str!("../../../../../samples/race/heap.h")),
];

/// Medians that differ by no more are called the same.
const SAME: f64 = 0.2;

/// Of the kernel's structures, and of each rival. None: this machine has one CPU.
pub(super) fn figures_4_to_6(args: &PractiseArgs, ui: &Ui) -> Result<Vec<Costs>> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).min(THREADS_MAX);
    if cpus < 2 {
        return Ok(Vec::new());
    }
    let load = Load { cpus, cycles: args.cycles, seed: args.seed, ..Load::default() };
    let kernel = kernels::obtain(&args.kernel, &BuildOptions::default(), ui).map_err(Failure::input)?;
    let folder = output::temporary_folder()?;
    let mut programs = Vec::new();
    for (name, _) in KERNEL_TARGETS {
        programs.push((name, kernel_program(name, &kernel, None, false).map_err(Failure::input)?));
    }
    for (name, text) in HEADERS {
        output::text(&folder.path().join(name), text)?;
    }
    for (name, text) in RIVALS {
        let path = folder.path().join(format!("{name}.c"));
        output::text(&path, text)?;
        programs.push((name, own_program(&path, &[], false).map_err(Failure::input)?));
    }
    let mut all = Vec::new();
    for (name, program) in &programs {
        let step = ui.step(format!("figures 4 to 6: {name}"));
        let mut costs =
            Costs::measure(program, &load, &|what| step.now(format!("figures 4 to 6: {name}, {what}")))
                .map_err(Failure::input)?;
        drop(step);
        if let Some(finding) = costs.finding() {
            return Err(Failure::Finding(format!("{name}: {finding}")));
        }
        costs.structure = (*name).to_owned();
        all.push(costs);
    }
    Ok(all)
}

/// Of an operation with the most threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Median {
    pub threads: u32,
    /// In cycles.
    pub value: f64,
    /// Its 95 % interval.
    interval: Option<(f64, f64)>,
}

impl std::fmt::Display for Median {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&with_interval(self.value, self.interval))
    }
}

pub(super) fn median(all: &[Costs], structure: &str, operation: &str) -> Option<Median> {
    let costs = all.iter().find(|costs| costs.structure == structure)?;
    let (threads, cycles) = costs.cycles(operation).pop()?;
    Some(Median { threads, value: interpolated(&cycles, 0.5)?, interval: costs.interval(threads, operation) })
}

pub(super) fn judged(all: &[Costs]) -> Vec<Statement> {
    let of = |structure, operation| median(all, structure, operation);
    let (Some(pri_set), Some(dl_set), Some(pri_find), Some(dl_find)) =
        (of("cpupri", "set"), of("cpudl", "set"), of("cpupri", "find"), of("cpudl", "find"))
    else {
        let ours = "two CPUs are the least, and this machine has one".to_owned();
        return vec![Statement { published: "figures 4 to 6", ours, verdict: "not shown" }];
    };
    let threads = pri_set.threads;
    let [push, pull] = [["set", "find"], ["pull_set", "pull_find"]]
        .map(|operations| operations.map(|operation| of("push_pull", operation)));
    let is_same = push.iter().zip(&pull).all(|pair| {
        let (Some(a), Some(b)) = pair else { return false };
        (a.value - b.value).abs() <= SAME * a.value.max(b.value)
    });
    let said = |median: &Option<Median>| median.map_or("-".to_owned(), |median| median.to_string());
    let both = Statement {
        published: "figures 5, 6: the structure for pull costs the same as that for push",
        ours: format!(
            "median cycles, {threads} threads, heaps of samples/race/push_pull.c: change {} and {}, search {} and {}",
            said(&push[0]),
            said(&pull[0]),
            said(&push[1]),
            said(&pull[1])
        ),
        verdict: verdict_on_cycles(threads, is_same),
    };
    vec![
        Statement {
            published: "figures 4a, 5a: in the tool, medians of modifying cpupri are below 2000 cycles, \
                        those of cpudl above",
            ours: format!("median cycles, {threads} threads: cpupri {pri_set}, cpudl {dl_set}"),
            verdict: verdict_on_cycles(threads, pri_set.value < dl_set.value),
        },
        Statement {
            published: "figures 4b, 5b: in the tool, a search of cpudl is cheaper than one of cpupri",
            ours: format!("median cycles, {threads} threads: cpudl {dl_find}, cpupri {pri_find}"),
            verdict: verdict_on_cycles(threads, dl_find.value < pri_find.value),
        },
        both,
    ]
}

pub(super) fn table(all: &[Costs]) -> Table {
    let mut heads = vec![Column::new("structure", "", "the kernel's file, or a rival of samples/race")];
    heads.extend(columns());
    let mut table = Table::new("figures-4-to-6", "Figures 4 to 6: cycles of a call by threads", heads);
    for costs in all {
        costs
            .cells()
            .into_iter()
            .for_each(|cells| table.push([&[json!(costs.structure)][..], &cells].concat()));
    }
    table
}

pub(super) fn drawings(all: &[Costs]) -> Vec<Drawing> {
    let of = |(name, operation, title): (&str, &str, &str)| {
        let rows_of = |(at, costs): (usize, &Costs)| -> Vec<Row> {
            let named = |row: Row| Row {
                name: row.name.replace(operation, &costs.structure),
                colour: colour(at).to_string(),
                ..row
            };
            costs.rows(operation).into_iter().map(named).collect()
        };
        let rows: Vec<Row> = all.iter().enumerate().flat_map(rows_of).collect();
        Drawing {
            name: name.into(),
            caption: format!("{title} {CAPTION}"),
            svg: Rows { label: "cycles".into(), scale: Scale::Log, rows, ..Rows::default() }.svg(),
        }
    };
    if all.is_empty() {
        return Vec::new();
    }
    [
        ("figures-4a-5a", "set", "Figures 4a, 5a: cycles of a change."),
        ("figures-4b-5b", "find", "Figures 4b, 5b: cycles of a search."),
        ("figure-6a", "pull_set", "Figure 6a: cycles of a change of the structure for pull."),
        ("figure-6b", "pull_find", "Figure 6b: cycles of a search of the structure for pull."),
    ]
    .map(of)
    .into()
}
