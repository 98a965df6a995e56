//! `schedlab run` with several workloads or seeds: many runs at once on all cores, results in order.

use super::{RunArgs, plan};
use crate::changes;
use crate::execute::{Files, Plan, conclude, execute, write_files};
use crate::failure::{Failure, Result};
use crate::output;
use crate::seeds::Variation;
use crate::ui::Ui;
use schedlab_lab::{FailureKind, Loaded, load};
use schedlab_report::Style;
use schedlab_report::units::{count, time};
use schedlab_runner::pool;
use schedlab_topology::Topology;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a run gives.
struct One {
    /// The result as `--json` has it; empty if the run failed.
    json: String,
    row: Vec<String>,
    /// What made it another experiment.
    changed: BTreeMap<String, u64>,
    /// Exit status and sentence.
    failure: Option<(u8, String)>,
}

/// Runs every workload with every variation; results in this order.
pub(crate) fn run_many(args: &RunArgs, topology: &Topology, variations: &[Variation], ui: &Ui) -> Result<()> {
    let nr_workloads = if args.together { 1 } else { 1 + args.more.len() };
    let nr_runs = nr_workloads * variations.len();
    let templates = [&args.log, &args.perfetto, &args.html];
    for path in templates.into_iter().flatten() {
        check_template(path, nr_workloads, variations.len())?;
    }
    let workloads = if args.together {
        vec![super::load(args, ui)?]
    } else {
        let paths = std::iter::once(&args.workload).chain(&args.more);
        paths.map(|path| load(path, ui)).collect::<std::result::Result<Vec<Loaded>, _>>()?
    };
    for loaded in &workloads {
        changes::refuse(&loaded.workload.changed_experiment(topology.nr_cpus()), ui)?;
    }
    let subject = super::subject(args, topology, ui)?;
    let name = subject.scheduler.name();
    let step = ui.step(format!("{nr_runs} runs under {name}"));
    let one = |index: usize| {
        let (loaded, variation) =
            (&workloads[index / variations.len()], &variations[index % variations.len()]);
        let files = |template: &Option<PathBuf>| {
            template.as_ref().map(|path| expand(path, index, &loaded.name, variation))
        };
        let files = Files { log: files(&args.log), perfetto: files(&args.perfetto), html: files(&args.html) };
        let plan = Plan { crash_log: files.log.clone(), ..plan(args, loaded, &subject, topology, variation) };
        one_run(&plan, variation, &files, ui)
    };
    let done = |done: usize| step.progress(format!("{done} of {nr_runs} runs under {name}"));
    let results = pool::map(nr_runs, args.many.jobs(), one, done)?;
    drop(step);
    let results = results.into_iter().collect::<std::result::Result<Vec<One>, _>>()?;
    show(args, topology, name, &results)?;
    conclude_all(&results)
}

fn one_run(plan: &Plan<'_>, variation: &Variation, files: &Files, ui: &Ui) -> One {
    let seed = variation.perturb.map_or_else(|| "-".to_string(), |perturb| perturb.seed.to_string());
    let mut row = vec![plan.loaded.name.clone(), seed];
    let finished = match execute(plan, &ui.silent()).and_then(|finished| {
        write_files(files, &finished)?;
        Ok(finished)
    }) {
        Ok(finished) => finished,
        Err(failure) => {
            let failure = (failure.code(), failure.sentence().to_string());
            return One { json: String::new(), row, changed: BTreeMap::new(), failure: Some(failure) };
        }
    };
    let mut json = Vec::new();
    schedlab_report::json(finished.view(), &mut json).expect("memory takes every byte");
    let (summary, system) = (&finished.summary, &finished.summary.system);
    let delay = &system.run_delay;
    row.extend([
        time(summary.duration_ns),
        count(system.switches),
        count(system.migrations),
        time(delay.percentile_ns(500)),
        time(delay.percentile_ns(990)),
        time(delay.max_ns()),
        finished.facts.end.clone(),
    ]);
    let failure = conclude(&finished).err().map(|failure| (failure.code(), failure.sentence().to_string()));
    let changed = finished.facts.changed_experiment.clone();
    One { json: String::from_utf8(json).expect("JSON is UTF-8"), row, changed, failure }
}

const COLUMNS: [&str; 9] =
    ["workload", "seed", "duration", "switches", "migrations", "delay p50", "p99", "max", "end"];

fn show(args: &RunArgs, topology: &Topology, sched: &str, results: &[One]) -> Result<()> {
    let to_stdout = output::json(args.json.as_deref(), |out| {
        results.iter().try_for_each(|one| out.write_all(one.json.as_bytes()))
    })?;
    if to_stdout {
        return Ok(());
    }
    let style = Style::detect();
    let plural = if topology.nr_cpus() == 1 { "" } else { "s" };
    println!("\n{} · {} CPU{plural} · {} runs", style.bold(sched), topology.nr_cpus(), results.len());
    let mut changed: BTreeMap<String, u64> = BTreeMap::new();
    for (what, times) in results.iter().flat_map(|one| &one.changed) {
        *changed.entry(what.clone()).or_default() += times;
    }
    let mut first = String::new();
    schedlab_report::changed_experiment(&mut first, &changed, style);
    print!("{first}");
    let width = |column: usize| {
        let cells = results.iter().filter_map(|one| one.row.get(column)).map(|cell| cell.chars().count());
        cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().enumerate().map(|(column, cell)| match column {
            0 | 8 => format!("{cell:<0$}", widths[column]),
            _ => format!("{cell:>0$}", widths[column]),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    println!("{}", style.dim(&line(&COLUMNS)));
    for one in results {
        let mut row: Vec<&str> = one.row.iter().map(String::as_str).collect();
        if let (Some((_, sentence)), 2) = (&one.failure, row.len()) {
            row.extend(["-"; 6]);
            row.push(sentence.lines().next().unwrap_or_default());
        }
        println!("{}", line(&row));
    }
    Ok(())
}

/// Every failure is told; the worst decides the exit status.
fn conclude_all(results: &[One]) -> Result<()> {
    let failures: Vec<&(u8, String)> = results.iter().filter_map(|one| one.failure.as_ref()).collect();
    let Some(worst) = failures.iter().map(|(code, _)| *code).max() else { return Ok(()) };
    let mut sentences: Vec<&str> = failures.iter().map(|(_, sentence)| sentence.as_str()).collect();
    sentences.dedup();
    let text = format!("{} of {} runs failed\n{}", failures.len(), results.len(), sentences.join("\n"));
    Err(Failure::of(FailureKind::of_exit_status(worst.into()), text))
}

/// Each run needs a file of its own.
fn check_template(path: &Path, nr_workloads: usize, nr_variations: usize) -> Result<()> {
    let text = path.to_string_lossy();
    let has = |place: &str| text.contains(place);
    let told_apart =
        has("{n}") || ((nr_workloads == 1 || has("{workload}")) && (nr_variations == 1 || has("{seed}")));
    if told_apart {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "{text}: {} runs would write this one file; put {{n}}, or {{workload}} and {{seed}}, into its name",
        nr_workloads * nr_variations
    )))
}

fn expand(path: &Path, index: usize, workload: &str, variation: &Variation) -> PathBuf {
    let seed = variation.perturb.map_or_else(|| "none".to_string(), |perturb| perturb.seed.to_string());
    let text = path.to_string_lossy();
    let text = text.replace("{n}", &(index + 1).to_string()).replace("{workload}", workload);
    PathBuf::from(text.replace("{seed}", &seed))
}
