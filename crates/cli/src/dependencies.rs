//! `schedlab dependencies`: what does it do to replayed latencies whether wakeups depend on the tasks that caused them?

use crate::changes;
use crate::execute::{Plan, conclude, execute};
use crate::failure::{Failure, Result};
use crate::output;
use crate::parse::parse_cpus;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::dependencies::{Figures, figures, recorded_links, row, table};
use schedlab_instruments::causality;
use schedlab_lab::{Loaded, SubjectSpec, load_as};
use schedlab_report::table::Table;
use schedlab_topology::Topology;
use schedlab_trace::Mode;
use schedlab_workload::derive::{DeriveOptions, SoftIrqRule};
use schedlab_workload::{Dependencies, Messages, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct DependenciesArgs {
    /// A recording (trace.dat, or a folder with one).
    pub trace: PathBuf,
    /// The scheduler of the replays.
    #[arg(long, value_name = "NAME", default_value = "linux-6.12")]
    pub sched: SubjectSpec,
    /// Numbers of CPUs to replay on.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4", value_parser = parse_cpus)]
    pub cpus: Vec<Topology>,
    /// Choices to compare: infer, all, none, tasks=...; may be given several times.
    #[arg(long = "choice", value_name = "CHOICE", default_values = ["infer", "none"])]
    pub choices: Vec<Dependencies>,
    /// The same programs really recorded on N CPUs, to compare with: N=TRACE; may be given several times.
    #[arg(long, value_name = "N=TRACE", value_parser = parse_real)]
    pub real: Vec<(u32, PathBuf)>,
    /// Print as a table for a Markdown file.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}

fn parse_real(text: &str) -> std::result::Result<(u32, PathBuf), String> {
    let parts = text.split_once('=').and_then(|(n, path)| Some((n.parse().ok()?, path.into())));
    parts.ok_or_else(|| format!("'{text}' is not N=TRACE, a number of CPUs and a recording on so many"))
}

pub(crate) fn dependencies(args: &DependenciesArgs, ui: &Ui) -> Result<()> {
    let inferred = load(&args.trace, SoftIrqRule::Evidence, ui)?;
    let mut table = table("dependencies", &inferred.name);
    let mut real: Vec<(u32, String, Loaded)> = Vec::new();
    let mut changed = BTreeMap::new();
    for (cpus, path) in &args.real {
        let loaded = load(path, SoftIrqRule::Evidence, ui)?;
        real.push((*cpus, "really recorded".to_string(), loaded));
    }
    let recorded_on = inferred.workload.notes.get("recorded CPUs").and_then(|cpus| cpus.parse().ok());
    let of_trace = |workload: &Workload, path: &Path| -> Result<(f64, Figures)> {
        let recorded = recorded_links(path, workload).map_err(Failure::input)?;
        Ok((recorded.end_ns as f64 / 1e6, figures(workload, &recorded.links)))
    };
    for topology in &args.cpus {
        let cpus = topology.nr_cpus();
        if recorded_on == Some(cpus) {
            let (duration_ms, figures) = of_trace(&inferred.workload, &inferred.path)?;
            table.push(row(cpus, "the recording", duration_ms, &figures));
        }
        for (_, what, loaded) in real.iter().filter(|(n, ..)| *n == cpus) {
            let (duration_ms, figures) = of_trace(&loaded.workload, &loaded.path)?;
            table.push(row(cpus, what, duration_ms, &figures));
        }
        for choice in &args.choices {
            let (duration_ms, figures) = replay(args, choice, topology, &inferred, (&mut changed, ui))?;
            table.push(row(cpus, &format!("replay, {choice}"), duration_ms, &figures));
        }
    }
    changes::tell(&inferred.name, &changed, ui)?;
    if args.json {
        output::print_json(&table.to_json())?;
    } else if args.markdown {
        print!("{}", markdown(&table));
    } else {
        print!("{}\n\n{}", inferred.name, table.to_text());
    }
    Ok(())
}

/// A recording without channels: recorded wakeups are what is asked about.
fn load(path: &Path, softirq: SoftIrqRule, ui: &Ui) -> Result<Loaded> {
    let options = DeriveOptions { softirq, messages: Some(Messages::None), ..DeriveOptions::default() };
    let loaded = load_as(path, Mode::Strict, options, ui)?;
    match loaded.derived {
        Some(_) => Ok(loaded),
        None => Err(Failure::Input(format!(
            "{}: a recording is needed, to compare its own latencies with; this is a workload",
            loaded.path.display()
        ))),
    }
}

/// Duration and figures of one replay; the links are those of the inferred workload, whatever is honoured.
fn replay(
    args: &DependenciesArgs,
    choice: &Dependencies,
    topology: &Topology,
    inferred: &Loaded,
    (changed, ui): (&mut BTreeMap<String, u64>, &Ui),
) -> Result<(f64, Figures)> {
    let mut workload = if *choice == Dependencies::All {
        load(&args.trace, SoftIrqRule::Always, ui)?.workload
    } else {
        inferred.workload.clone()
    };
    choice.apply(&mut workload);
    let loaded = Loaded {
        workload,
        name: inferred.name.clone(),
        notes: Vec::new(),
        path: inferred.path.clone(),
        derived: inferred.derived,
        duration: None,
        format: inferred.format,
    };
    let plan = Plan {
        loaded: &loaded,
        subject: args.sched.resolve(ui.setting(250, topology))?,
        topology: topology.clone(),
        duration: None,
        actions: Vec::new(),
        perturb: None,
        seed: None,
        costs: None,
        stall_limit: schedlab_runner::STALL_LIMIT,
        crash_log: None,
        command: format!("schedlab run {} --sched {}", args.trace.display(), args.sched.text()),
    };
    let finished = execute(&plan, ui)?;
    changed.extend(finished.facts.changed_experiment.clone());
    conclude(&finished)?; // what comes after a warning is no latency to compare
    let links = causality(&inferred.workload, &finished.log).map_err(Failure::input)?;
    let programs = finished.summary.tasks.iter().filter(|task| !loaded.workload.task(task.id).kernel_thread);
    let end_ns = programs.filter_map(|task| task.last_ns).max().unwrap_or(0);
    Ok((end_ns as f64 / 1e6, figures(&inferred.workload, &links)))
}

fn markdown(table: &Table) -> String {
    let header = "| CPUs | | duration ms | response us p50 | p90 | p99 | latency us p50 | p99 | before cause % |\n\
        |---|---|---|---|---|---|---|---|---|\n";
    let mut text = header.to_string();
    for row in 0..table.rows.len() {
        let number = |column: &str| table.number(row, column).unwrap_or_default();
        let cells = [
            format!("{}", number("cpus")),
            table.text(row, "what").to_string(),
            format!("{:.0}", number("duration_ms")),
            format!("{:.1}", number("response_us_p50")),
            format!("{:.1}", number("response_us_p90")),
            format!("{:.1}", number("response_us_p99")),
            format!("{:.1}", number("latency_us_p50")),
            format!("{:.1}", number("latency_us_p99")),
            format!("{:.1}", number("before_cause_percent")),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
