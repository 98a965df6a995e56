//! `race TARGET --stress N`, `race TARGET --cost`: a structure under threads of this machine.

use super::{RaceArgs, fault, kernel, result, seed_named};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_race::compile::{self, Compiled};
use schedlab_race::study;
use schedlab_race::threads::{self, Load, OPERATIONS, Sample, Stressed, THREADS_MAX};
use schedlab_report::chart::{Drawing, Mark, Row, Rows, Scale};
use schedlab_report::page::Page;
use schedlab_report::table::{Column, Table};
use schedlab_report::units::{count, time};
use schedlab_stdx::percentile::{interpolated, nearest};
use schedlab_units::Span;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// From so many CPUs on the published order of costs can be looked for (figures 4 to 6 have up to 48).
const CPUS_FOR_A_CLAIM: u32 = 8;
/// Quantiles of a row of the drawing.
const QUANTILES: usize = 100;

#[derive(Args, Debug)]
#[command(next_help_heading = "Threads of this machine")]
pub(crate) struct ThreadArgs {
    /// So many simulated CPUs use the structure, each a thread, while it is compared with their queues.
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    #[arg(conflicts_with_all = ["replay", "scoreboard", "audit", "scenario", "races"])]
    stress: Option<u32>,
    /// What does each call cost, in cycles, with 2 threads up to one for each CPU?
    #[arg(long, conflicts_with_all = ["stress", "replay", "scoreboard", "audit", "scenario", "races"])]
    cost: bool,
    /// CPUs of this machine to use; default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    cpus: Option<u32>,
    /// Cycles of each thread; default: 200000, of --cost 20000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cycles: Option<u64>,
    /// Simulated length of a cycle.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    period: Span,
    /// A cycle takes as long as it is, as published; else the next one begins at once.
    #[arg(long)]
    paced: bool,
    /// Chance in a cycle that a task arrives, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    arrive: f64,
    /// Chance in a cycle that the first task ends early, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    end_early: f64,
    /// Of --stress: under gcc's ThreadSanitizer; its reports are findings, unless of a kernel's file (it does not know
    /// READ_ONCE()).
    #[arg(long, requires = "stress")]
    sanitize: bool,
    /// Of --cost: every sample, as an Arrow file.
    #[arg(long, value_name = "FILE", requires = "cost")]
    samples: Option<PathBuf>,
}

impl ThreadArgs {
    /// Whether threads are to be used at all.
    pub(super) fn is_asked(&self) -> bool {
        self.stress.is_some() || self.cost
    }

    fn load(&self, seed: u64) -> Result<Load> {
        let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let cpus = self.cpus.unwrap_or(online.min(THREADS_MAX));
        if cpus > online {
            return Err(Failure::Input(format!("--cpus {cpus}: this machine has {online}")));
        }
        let (arrive, end) = (self.arrive / 100.0, self.end_early / 100.0);
        if !(0.0..=1.0).contains(&arrive) || !(0.0..=1.0).contains(&end) || arrive + end > 1.0 {
            return Err(Failure::Input(format!(
                "--arrive {} --end-early {}: percentages of cycles; expected 0 to 100, together at most 100",
                self.arrive, self.end_early
            )));
        }
        if self.period == Span::ZERO {
            return Err(Failure::Input("--period 0ns: a cycle has a length; expected 1us or more".into()));
        }
        let cycles = self.cycles.unwrap_or(if self.cost { 20_000 } else { 200_000 });
        let paced_s = if self.paced { self.period.as_ns().saturating_mul(cycles) / 1_000_000_000 } else { 0 };
        Ok(Load {
            threads: self.stress.unwrap_or(2),
            cpus,
            cycles,
            period: self.period,
            is_paced: self.paced,
            arrive,
            end,
            seed,
            limit_s: u32::try_from(60 + 2 * paced_s).unwrap_or(u32::MAX),
        })
    }
}

pub(super) fn threads(target: &str, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let asked = &args.threads;
    if let Some(path) = &asked.samples {
        output::check(path)?;
    }
    let load = asked.load(args.seed)?;
    if asked.cost && load.cpus < 2 {
        return Err(Failure::Input("--cost: two threads on two CPUs are the least; this is one".into()));
    }
    let program = program(target, args, ui)?;
    match asked.cost {
        true => cost(&program, &load, args, ui),
        false => stress(&program, &load, args, ui),
    }
}

fn program(target: &str, args: &RaceArgs, ui: &Ui) -> Result<Compiled> {
    let sanitized = args.threads.sanitize;
    if study::is_file(target) && target.ends_with(".c") {
        return compile::own_program(Path::new(target), &args.define, sanitized).map_err(fault);
    }
    if !compile::KERNEL_TARGETS.iter().any(|(name, _)| *name == target) {
        let known = compile::KERNEL_TARGETS.map(|(name, _)| name).join(", ");
        return Err(Failure::Input(format!(
            "{target}: threads use {known}, or a C file with hooks (docs/race.md)"
        )));
    }
    let seeded = args.seeded.as_deref().map(|name| seed_named(name, target)).transpose()?;
    let kernel = kernel(&args.kernel, ui)?;
    let step = ui.step(format!("compiling {target} of Linux {}", kernel.version));
    let program = compile::kernel_program(target, &kernel, seeded.as_ref(), sanitized).map_err(fault);
    drop(step);
    program
}

fn stress(program: &Compiled, load: &Load, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let step = ui.step(format!("{} threads on {} CPUs", load.threads, load.cpus));
    let stressed = threads::stress(program, load).map_err(fault)?;
    drop(step);
    let counts: serde_json::Map<String, Value> =
        stressed.counts.iter().map(|(name, n)| (name.clone(), json!(n))).collect();
    let reports: Vec<Value> =
        stressed.reports.iter().map(|(place, times)| json!({"place": place, "times": times})).collect();
    let value = json!({
        "schema": 1, "target": program.name, "kernel": program.kernel.0, "kernel_version": program.kernel.1,
        "seeded": program.seeded, "threads": load.threads, "cpus": load.cpus, "cycles": load.cycles,
        "seed": load.seed, "finding": stressed.finding, "reports": reports, "counts": counts,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{}", stress_text(program, load, &stressed));
    }
    // the sanitizer does not know READ_ONCE(): of a kernel's file it says what to look at, and judges nothing
    let is_judged = program.kernel.0.is_empty();
    match stressed.finding.is_none() && (stressed.reports.is_empty() || !is_judged) {
        true => Ok(()),
        false => Err(Failure::Finding(String::new())),
    }
}

fn stress_text(program: &Compiled, load: &Load, stressed: &Stressed) -> String {
    let n = |name: &str| count(stressed.count(name));
    let mut text = format!(
        "{}\n{} threads on {} CPUs, {} cycles each, seed {}\n\n",
        result::subject(program),
        load.threads,
        load.cpus,
        count(load.cycles),
        load.seed
    );
    if let Some(finding) = &stressed.finding {
        text.push_str(&format!("finding      {finding}\n"));
        return text;
    }
    text.push_str(&format!(
        "tasks        {} came, {} ran to their end, {} ended early, {} were over their deadline\n\
         moved        {} pushed of {} tries, {} pulled\n",
        n("arrivals"),
        n("ends"),
        n("early_ends"),
        n("misses"),
        n("pushed"),
        n("pushes"),
        n("pulled"),
    ));
    let calls: Vec<String> =
        ["set", "clear", "find"].iter().map(|op| format!("{op} {}", n(&format!("calls_{op}")))).collect();
    text.push_str(&format!(
        "calls        {}, in {}\n\
         compared     {} times, with all queues locked: the structure says what the queues say\n",
        calls.join(", "),
        time(stressed.count("wall_ns")),
        n("checks"),
    ));
    for (place, times) in &stressed.reports {
        text.push_str(&format!("sanitizer    {place}, {times} times\n"));
    }
    text
}

/// The samples of one run, sorted, by operation.
fn by_operation(samples: &[Sample]) -> Vec<(&'static str, Vec<f64>)> {
    let of = |operation: usize| {
        let mine = samples.iter().filter(|sample| sample.operation as usize == operation);
        let mut cycles: Vec<f64> = mine.map(|sample| sample.cycles as f64).collect();
        cycles.sort_by(f64::total_cmp);
        (OPERATIONS[operation], cycles)
    };
    (0..OPERATIONS.len()).map(of).filter(|(_, cycles)| !cycles.is_empty()).collect()
}

fn cost(program: &Compiled, load: &Load, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let mut runs: Vec<(u32, Stressed)> = Vec::new();
    let step = ui.step("measuring");
    for threads in 2..=load.cpus {
        step.progress(format!("{threads} threads of {}", load.cpus));
        let one = threads::cost(program, &Load { threads, cpus: threads, ..load.clone() }).map_err(fault)?;
        if let Some(finding) = one.finding {
            println!("finding: {finding}");
            return Err(Failure::Finding(String::new()));
        }
        if !one.has_stable_tsc() {
            return Err(Failure::Input(format!(
                "the TSC is no clock here: {} Hz before the run, {} Hz after it, invariant: {}; expected one rate; \
                 measure on a machine with an invariant TSC",
                one.count("tsc_hz"),
                one.count("tsc_hz_end"),
                one.count("tsc_invariant") == 1
            )));
        }
        runs.push((threads, one));
    }
    drop(step);
    if let Some(path) = &args.threads.samples {
        let all: Vec<(u32, Vec<Sample>)> = runs.iter().map(|(n, one)| (*n, one.samples.clone())).collect();
        threads::write_arrow(path, &all).map_err(fault)?;
    }
    let table = cost_table(&runs);
    let remarks = remarks(&runs, load.cpus);
    if let Some(path) = &args.html {
        output::text(path, &cost_page(program, &runs, &table, &remarks).html())?;
    }
    let value = json!({
        "schema": 1, "target": program.name, "kernel": program.kernel.0, "kernel_version": program.kernel.1,
        "cpus": load.cpus, "seed": load.seed, "costs": table.to_json(), "remarks": remarks,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        let remarks: String = remarks.iter().map(|line| format!("{line}\n")).collect();
        print!("{}\n\n{}\n{remarks}", result::subject(program), table.to_text());
    }
    Ok(())
}

fn cost_table(runs: &[(u32, Stressed)]) -> Table {
    let columns = vec![
        Column::new("threads", "", "each on a CPU of its own"),
        Column::new("operation", "", "what was called"),
        Column::new("calls", "", "how often"),
        Column::new("low", "cycles", "first quartile"),
        Column::new("median", "cycles", "less what measuring takes"),
        Column::new("high", "cycles", "third quartile"),
        Column::new("p99", "cycles", "of 100 calls one takes longer"),
        Column::new("max", "cycles", "the longest"),
    ];
    let mut table = Table::new("costs", "Cycles of each call", columns);
    for (threads, one) in runs {
        for (operation, cycles) in by_operation(&one.samples) {
            let at = |share: f64| json!(interpolated(&cycles, share).unwrap_or(0.0).round() as u64);
            let ranked = |per_mille: u32| json!(nearest(&cycles, per_mille).unwrap_or(0.0) as u64);
            let row = [json!(threads), json!(operation), json!(cycles.len())];
            table.push([&row[..], &[at(0.25), at(0.5), at(0.75), ranked(990), ranked(1000)]].concat());
        }
    }
    table
}

/// What must be known to trust the numbers.
fn remarks(runs: &[(u32, Stressed)], cpus: u32) -> Vec<String> {
    let Some((_, one)) = runs.last() else { return Vec::new() };
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
        remarks.push(format!("{} calls of the last run were not kept: too many", count(one.count("unkept"))));
    }
    if cpus < CPUS_FOR_A_CLAIM {
        remarks.push(format!(
            "not shown: whether costs are in the published order; that asks for {CPUS_FOR_A_CLAIM} CPUs or \
             more, these are {cpus}"
        ));
    }
    remarks
}

fn cost_page(program: &Compiled, runs: &[(u32, Stressed)], table: &Table, remarks: &[String]) -> Page {
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        for (threads, one) in runs {
            let all = by_operation(&one.samples);
            let Some((_, cycles)) = all.iter().find(|(name, _)| *name == operation) else { continue };
            let quantile =
                |k: usize| interpolated(cycles, k as f64 / QUANTILES as f64).unwrap_or(0.0).max(1.0);
            let median = interpolated(cycles, 0.5).unwrap_or(0.0);
            rows.push(Row {
                name: format!("{operation}, {threads} threads"),
                colour: schedlab_report::chart::colour(*threads as usize - 2).to_string(),
                samples: (0..=QUANTILES).map(quantile).collect(),
                mark: Mark::Box,
                notes: vec![format!("{median:.0}"), count(cycles.len() as u64)],
            });
        }
    }
    let svg = Rows { label: "cycles".into(), scale: Scale::Log, rows, ..Rows::default() }.svg();
    let mut page = Page::new(format!("{}: what a call costs", program.name));
    page.note(&result::subject(program));
    page.drawing(&Drawing {
        name: "costs".into(),
        caption:
            "Quartiles of each call, with the median; dots are the hundredths of its samples. To the right: \
                  the median, and how many calls."
                .into(),
        svg,
    });
    page.table(table);
    remarks.iter().for_each(|remark| page.note(remark));
    page
}
