//! `race TARGET --stress N`, `race TARGET --cost`: a structure under threads of this machine.

use super::in_kernel::{self, Wanted};
use super::{RaceArgs, fault, kernel, result, seed_named};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_race::compile::{self, Compiled};
use schedlab_race::cost::{self, Costs};
use schedlab_race::stream::Stream;
use schedlab_race::study;
use schedlab_race::threads::{self, Load, Stressed, THREADS_MAX};
use schedlab_report::chart::{Drawing, Row, Rows, Scale};
use schedlab_report::page::Page;
use schedlab_report::table::Table;
use schedlab_report::units::{count, time};
use schedlab_units::Span;
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much of a random set of periodic tasks is made; then it begins again.
const SET_DURATION: Span = Span::from_ms(10_000);

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
    /// Of --cost: of cpupri or cpudl in the kernel that runs here, under sets of real-time threads (needs root, and a
    /// kernel that takes programs at its functions).
    #[arg(long, requires = "cost", conflicts_with_all = ["cpus", "from", "samples", "seeded", "kernel"])]
    #[arg(conflicts_with_all = ["cycles", "period", "paced", "arrive", "end_early", "deadlines", "run_times"])]
    in_kernel: bool,
    /// Of --in-kernel: sets of tasks at each utilisation.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "in_kernel")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    sets: u32,
    /// Of --in-kernel: how long each set runs.
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "in_kernel")]
    set_duration: Span,
    /// CPUs of this machine to use; default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    cpus: Option<u32>,
    /// Cycles of each thread; default: 200000, of --cost 20000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cycles: Option<u64>,
    /// Simulated length of a cycle (default: 10ms).
    #[arg(long, value_name = "TIME")]
    period: Option<Span>,
    /// A cycle takes as long as it is, as published; else the next one begins at once.
    #[arg(long)]
    paced: bool,
    /// Chance in a cycle that a task arrives, in percent (default: 20).
    #[arg(long, value_name = "PERCENT")]
    arrive: Option<f64>,
    /// Chance in a cycle that the first task ends early, in percent (default: 10).
    #[arg(long, value_name = "PERCENT")]
    end_early: Option<f64>,
    /// Where the structure keeps deadlines: how long after a task's arrival (default: 10ms-100ms).
    #[arg(long, value_name = "TIME-TIME", value_parser = parse_spans)]
    deadlines: Option<RangeInclusive<Span>>,
    /// How long a task runs (default: 5ms-15ms).
    #[arg(long, value_name = "TIME-TIME", value_parser = parse_spans)]
    run_times: Option<RangeInclusive<Span>>,
    /// Tasks are not drawn, they come as this workload's or recording's do: each time that one is woken. Also settings
    /// of a generator, as 'workload fit' prints them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["arrive", "end_early", "run_times"])]
    from: Option<PathBuf>,
    /// Tasks come as sets of periodic tasks do, drawn by RandFixedSum: they use so much of each CPU (0.6, 0.7, 0.8
    /// as published), with periods of 10 to 100 ms.
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["from", "arrive", "end_early", "run_times", "deadlines"])]
    utilisation: Option<f64>,
    /// Of --utilisation: tasks for each CPU.
    #[arg(long, value_name = "N", default_value_t = 4, requires = "utilisation")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    set_tasks: u32,
    /// Of --stress: under gcc's ThreadSanitizer; its reports are findings, unless of a kernel's file (it does not know
    /// READ_ONCE()).
    #[arg(long, requires = "stress")]
    sanitize: bool,
    /// Of --cost: every sample, as an Arrow file.
    #[arg(long, value_name = "FILE", requires = "cost")]
    samples: Option<PathBuf>,
}

/// `10ms-100ms`, or one time.
fn parse_spans(text: &str) -> std::result::Result<RangeInclusive<Span>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let span =
        |word: &str| word.parse::<Span>().map_err(|e| format!("{e}; expected TIME-TIME, as 10ms-100ms"));
    let (low, high) = (span(low)?, span(high)?);
    match low <= high && high <= Span::from_ms(3_600_000) {
        true => Ok(low..=high),
        false => Err("expected the shorter time first, and at most an hour".into()),
    }
}

/// Why `--from` takes no tasks from a file. Settings of a generator are known by the file's ending.
fn from_fails(path: &Path, error: &impl std::fmt::Display) -> Failure {
    let is_setting = |line: &str| line.starts_with('[') || line.contains(" = ");
    let first = |text: &str| {
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
    };
    let is_table = |text: String| first(&text).is_some_and(|line| is_setting(&line));
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    match !is_toml && std::fs::read_to_string(path).is_ok_and(is_table) {
        true => Failure::Input(format!(
            "{error}; if it is what 'workload fit' prints, give it a name that ends with .toml"
        )),
        false => Failure::Input(error.to_string()),
    }
}

impl ThreadArgs {
    /// Whether threads are to be used at all.
    pub(super) fn is_asked(&self) -> bool {
        self.stress.is_some() || self.cost
    }

    /// Options that say how threads use the structure, and whether each was given.
    pub(super) fn given(&self) -> [(&'static str, bool); 10] {
        [
            ("--from", self.from.is_some()),
            ("--utilisation", self.utilisation.is_some()),
            ("--cpus", self.cpus.is_some()),
            ("--cycles", self.cycles.is_some()),
            ("--period", self.period.is_some()),
            ("--paced", self.paced),
            ("--arrive", self.arrive.is_some()),
            ("--end-early", self.end_early.is_some()),
            ("--deadlines", self.deadlines.is_some()),
            ("--run-times", self.run_times.is_some()),
        ]
    }

    /// Where tasks come from, if they are not drawn: its name, and the tasks.
    fn stream(&self, load: &Load, ui: &Ui) -> Result<Option<(String, Stream)>> {
        // several rounds of a workload are many, unless it is said how many cycles are meant
        let until = self.cycles.map(|cycles| Span::from_ns(load.period.as_ns().saturating_mul(cycles)));
        if let Some(utilisation) = self.utilisation {
            let duration = until.unwrap_or(SET_DURATION).min(SET_DURATION);
            let stream =
                Stream::random_sets(load.threads, (utilisation, self.set_tasks), duration, load.seed)
                    .map_err(|e| Failure::Input(format!("--utilisation {utilisation}: {e}")))?;
            let name = format!(
                "periodic sets of {} tasks for each CPU, which use {utilisation} of it",
                self.set_tasks
            );
            return Ok(Some((name, stream)));
        }
        let Some(path) = &self.from else { return Ok(None) };
        let loaded = schedlab_lab::load(path, ui).map_err(|error| from_fails(path, &error))?;
        let until = loaded.duration.or(until.filter(|_| loaded.derived.is_none()));
        let stream = Stream::of(&loaded.workload, load.threads, until, &load.deadlines, load.seed);
        if stream.events.is_empty() {
            return Err(Failure::Input(format!(
                "--from {}: no task of it is woken and runs, so nothing comes; 'schedlab workload show' says what is \
                 in it",
                path.display()
            )));
        }
        Ok(Some((loaded.name, stream)))
    }

    fn load(&self, seed: u64) -> Result<Load> {
        let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let cpus = self.cpus.unwrap_or(online.min(THREADS_MAX));
        if cpus > online {
            return Err(Failure::Input(format!("--cpus {cpus}: this machine has {online}")));
        }
        let (arrive_percent, end_percent) = (self.arrive.unwrap_or(20.0), self.end_early.unwrap_or(10.0));
        let (arrive, end) = (arrive_percent / 100.0, end_percent / 100.0);
        let period = self.period.unwrap_or(Span::from_ms(10));
        if !(0.0..=1.0).contains(&arrive) || !(0.0..=1.0).contains(&end) || arrive + end > 1.0 {
            return Err(Failure::Input(format!(
                "--arrive {arrive_percent} --end-early {end_percent}: percentages of cycles; expected 0 to 100, \
                 together at most 100"
            )));
        }
        if period == Span::ZERO {
            return Err(Failure::Input("--period 0ns: a cycle has a length; expected 1us or more".into()));
        }
        let cycles = self.cycles.unwrap_or(if self.cost { 20_000 } else { 200_000 });
        let paced_s = if self.paced { period.as_ns().saturating_mul(cycles) / 1_000_000_000 } else { 0 };
        Ok(Load {
            threads: self.stress.unwrap_or(2),
            cpus,
            cycles,
            period,
            is_paced: self.paced,
            arrive,
            end,
            deadlines: self.deadlines.clone().unwrap_or(Span::from_ms(10)..=Span::from_ms(100)),
            run_times: self.run_times.clone().unwrap_or(Span::from_ms(5)..=Span::from_ms(15)),
            seed,
            stream: None,
            limit_s: u32::try_from(60 + 2 * paced_s).unwrap_or(u32::MAX),
        })
    }
}

pub(super) fn threads(target: &str, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let asked = &args.threads;
    if let Some(path) = &asked.samples {
        output::check(path)?;
    }
    if asked.in_kernel {
        return cost_in_kernel(target, args, ui);
    }
    let mut load = asked.load(args.seed)?;
    if asked.cost && load.cpus < 2 {
        return Err(Failure::Input("--cost: two threads on two CPUs are the least; this is one".into()));
    }
    // of --cost the number of threads changes, and with it which CPU a task comes to
    let most = if asked.cost { load.cpus } else { load.threads };
    if let Some((name, stream)) = asked.stream(&Load { threads: most, ..load.clone() }, ui)? {
        if asked.cycles.is_none() && !asked.cost {
            load.cycles = stream.length.as_ns().div_ceil(load.period.as_ns());
        }
        ui.say(format!(
            "{} tasks come in {} of {name}",
            count(stream.events.len() as u64),
            time(stream.length.as_ns())
        ));
        load.stream = Some(Arc::new(stream));
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
    let kernel = kernel(args.kernel(), ui)?;
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
        "seeded": program.seeded_name(), "threads": load.threads, "cpus": load.cpus, "cycles": load.cycles,
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

fn cost(program: &Compiled, load: &Load, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let step = ui.step("measuring");
    let costs = Costs::measure(program, load, &|what| step.progress(what.to_owned())).map_err(fault)?;
    drop(step);
    if let Some(finding) = costs.finding() {
        println!("finding: {finding}");
        return Err(Failure::Finding(String::new()));
    }
    if let Some(path) = &args.threads.samples {
        costs.write_arrow(path).map_err(fault)?;
    }
    let mut table = Table::new("costs", "Cycles of each call", cost::columns());
    costs.cells().into_iter().for_each(|row| table.push(row));
    let remarks = costs.remarks();
    if let Some(path) = &args.html {
        output::text(path, &cost_page(program, &costs, &table, &remarks).html())?;
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

fn cost_in_kernel(target: &str, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let asked = &args.threads;
    let wanted = Wanted {
        loads: asked.utilisation.map_or(in_kernel::LOADS.to_vec(), |load| vec![load]),
        sets: asked.sets,
        duration: asked.set_duration,
        tasks_per_cpu: asked.set_tasks,
        seed: args.seed,
    };
    let step = ui.step("measuring");
    let found = in_kernel::measure(target, &wanted, &|what| step.progress(what))?;
    drop(step);
    let (table, remarks) = (in_kernel::table(&found), found.remarks());
    if let Some(path) = &args.html {
        let mut page = Page::new(format!("{target} of Linux {}: what a call costs", found.kernel));
        page.table(&table);
        remarks.iter().for_each(|remark| page.note(remark));
        output::text(path, &page.html())?;
    }
    let value = json!({
        "schema": 1, "target": target, "seed": args.seed, "in_kernel": found.to_json(), "costs": table.to_json(),
        "remarks": remarks,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        let remarks: String = remarks.iter().map(|line| format!("{line}\n")).collect();
        print!("{target} of the running kernel\n\n{}\n{remarks}", table.to_text());
    }
    Ok(())
}

fn cost_page(program: &Compiled, costs: &Costs, table: &Table, remarks: &[String]) -> Page {
    let mut page = Page::new(format!("{}: what a call costs", program.name));
    page.note(&result::subject(program));
    for (name, label, is_time) in [("costs", "cycles", true), ("numbers", "number", false)] {
        let meant = costs.operations().into_iter().filter(|(_, its)| *its == is_time);
        let rows: Vec<Row> = meant.flat_map(|(operation, _)| costs.rows(operation)).collect();
        if rows.is_empty() {
            continue;
        }
        let svg = Rows { label: label.into(), scale: Scale::Log, rows, ..Rows::default() }.svg();
        page.drawing(&Drawing { name: name.into(), caption: cost::CAPTION.into(), svg });
    }
    page.table(table);
    remarks.iter().for_each(|remark| page.note(remark));
    page
}
