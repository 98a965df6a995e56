//! `schedlab run` with several workloads, values of parameters or seeds: many runs at once on all cores, results in
//! order.

use super::{RunArgs, plan};
use crate::changes;
use crate::execute::{Files, Plan, conclude, execute, write_files};
use crate::failure::{Failure, Result};
use crate::output;
use crate::seeds::Variation;
use crate::ui::Ui;
use crate::values::Params;
use schedlab_lab::{FailureKind, Loaded, Subject};
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
    /// Workload and seed, then the values of swept parameters.
    place: Vec<String>,
    /// Its numbers; `None`: it failed.
    numbers: Option<Numbers>,
    /// What made it another experiment.
    changed: BTreeMap<String, u64>,
    /// Exit status and sentence.
    failure: Option<(u8, String)>,
}

/// The table's columns of one run.
struct Numbers {
    duration_ns: u64,
    switches: u64,
    migrations: u64,
    /// Run delay.
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    end: String,
}

/// One run: which workload, which values of swept parameters, which seed.
struct Choice<'a> {
    loaded: &'a Loaded,
    params: &'a Params,
    subject: &'a Subject,
    variation: &'a Variation,
}

/// Runs every workload with every combination of parameters and every variation; results in this order.
pub(crate) fn run_many(
    args: &RunArgs,
    topology: &Topology,
    (combinations, variations): (&[Params], &[Variation]),
    ui: &Ui,
) -> Result<()> {
    let nr_workloads = if args.together { 1 } else { 1 + args.more.len() };
    let (nr_combinations, nr_variations) = (combinations.len(), variations.len());
    let nr_runs = nr_workloads * nr_combinations * nr_variations;
    let templates = [&args.log, &args.results.perfetto, &args.results.html];
    for path in templates.into_iter().flatten() {
        check_template(path, args, nr_workloads, nr_variations, nr_runs)?;
    }
    let workloads = if args.together {
        vec![super::load(args, ui)?]
    } else {
        let paths = std::iter::once(&args.workload).chain(&args.more);
        paths
            .map(|path| super::load_these(args, std::slice::from_ref(path), ui))
            .collect::<Result<Vec<Loaded>>>()?
    };
    for loaded in &workloads {
        changes::refuse(&loaded.workload.changed_experiment(topology.nr_cpus()), ui)?;
    }
    let subjects = combinations
        .iter()
        .map(|params| super::subject(args, params, topology, ui))
        .collect::<Result<Vec<Subject>>>()?;
    let name = subjects[0].scheduler.name();
    let step = ui.step(format!("{nr_runs} runs under {name}"));
    let one = |index: usize| {
        let combination = index / nr_variations % nr_combinations;
        let choice = Choice {
            loaded: &workloads[index / nr_variations / nr_combinations],
            params: &combinations[combination],
            subject: &subjects[combination],
            variation: &variations[index % nr_variations],
        };
        let files = |template: &Option<PathBuf>| template.as_ref().map(|path| expand(path, index, &choice));
        let files = Files {
            log: files(&args.log),
            perfetto: files(&args.results.perfetto),
            html: files(&args.results.html),
        };
        let plan = Plan {
            crash_log: files.log.clone(),
            ..plan(args, choice.loaded, choice.subject, topology, choice.variation)
        };
        one_run(&plan, &choice, &files, ui)
    };
    let done = |done: usize| step.progress(format!("{done} of {nr_runs} runs under {name}"));
    let results = pool::map(nr_runs, args.many.jobs(), one, done)?;
    drop(step);
    let results = results.into_iter().collect::<std::result::Result<Vec<One>, _>>()?;
    show(args, topology, name, &results)?;
    conclude_all(&results)
}

fn one_run(plan: &Plan<'_>, choice: &Choice<'_>, files: &Files, ui: &Ui) -> One {
    let seed = choice.variation.perturb.map_or_else(|| "-".to_string(), |perturb| perturb.seed.to_string());
    let mut place = vec![plan.loaded.name.clone(), seed];
    place.extend(choice.params.iter().map(|(_, value)| value.clone()));
    let finished = match execute(plan, &ui.silent()).and_then(|finished| {
        write_files(files, &finished)?;
        Ok(finished)
    }) {
        Ok(finished) => finished,
        Err(failure) => {
            let failure = Some((failure.code(), failure.sentence().to_string()));
            return One { json: String::new(), place, numbers: None, changed: BTreeMap::new(), failure };
        }
    };
    let mut json = Vec::new();
    schedlab_report::json(finished.view(), &mut json).expect("memory takes every byte");
    let (summary, system) = (&finished.summary, &finished.summary.system);
    let delay = &system.run_delay;
    let numbers = Numbers {
        duration_ns: summary.duration_ns,
        switches: system.switches,
        migrations: system.migrations,
        p50_ns: delay.percentile_ns(500),
        p99_ns: delay.percentile_ns(990),
        max_ns: delay.max_ns(),
        end: finished.facts.end.clone(),
    };
    let failure = conclude(&finished).err().map(|failure| (failure.code(), failure.sentence().to_string()));
    let changed = finished.facts.changed_experiment.clone();
    let json = String::from_utf8(json).expect("JSON is UTF-8");
    One { json, place, numbers: Some(numbers), changed, failure }
}

impl Numbers {
    const COLUMNS: [&str; 6] = ["duration", "switches", "migrations", "delay p50", "p99", "max"];

    fn cells(&self) -> Vec<String> {
        vec![
            time(self.duration_ns),
            count(self.switches),
            count(self.migrations),
            time(self.p50_ns),
            time(self.p99_ns),
            time(self.max_ns),
        ]
    }

    /// Means, but the longest delay of all.
    fn mean(all: &[&Numbers]) -> Numbers {
        let mean = |of: fn(&Numbers) -> u64| all.iter().map(|n| of(n)).sum::<u64>() / all.len().max(1) as u64;
        Numbers {
            duration_ns: mean(|n| n.duration_ns),
            switches: mean(|n| n.switches),
            migrations: mean(|n| n.migrations),
            p50_ns: mean(|n| n.p50_ns),
            p99_ns: mean(|n| n.p99_ns),
            max_ns: all.iter().map(|n| n.max_ns).max().unwrap_or(0),
            end: String::new(),
        }
    }
}

fn show(args: &RunArgs, topology: &Topology, sched: &str, results: &[One]) -> Result<()> {
    let to_stdout = output::json(args.results.json.as_deref(), |out| {
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
    let swept: Vec<&str> = args.sweep.iter().map(|swept| swept.name.as_str()).collect();
    let head = [&["workload", "seed"], &swept[..], &Numbers::COLUMNS, &["end"]].concat();
    let row = |one: &One| {
        let (numbers, end) = match (&one.numbers, &one.failure) {
            (Some(numbers), _) => (numbers.cells(), numbers.end.clone()),
            (None, failure) => {
                let sentence = failure.as_ref().and_then(|(_, sentence)| sentence.lines().next());
                (vec!["-".to_string(); 6], sentence.unwrap_or_default().to_string())
            }
        };
        [&one.place[..], &numbers, &[end]].concat()
    };
    print_table(&head, &results.iter().map(row).collect::<Vec<_>>(), style);
    show_means(results, &swept, style);
    Ok(())
}

/// With swept parameters and several seeds: a row for each combination.
fn show_means(results: &[One], swept: &[&str], style: Style) {
    let mut groups: Vec<(Vec<String>, Vec<&Numbers>)> = Vec::new();
    for one in results {
        let Some(numbers) = &one.numbers else { continue };
        let place = [&one.place[..1], &one.place[2..]].concat();
        match groups.last_mut().filter(|(last, _)| *last == place) {
            Some((_, members)) => members.push(numbers),
            None => groups.push((place, vec![numbers])),
        }
    }
    if swept.is_empty() || groups.iter().all(|(_, members)| members.len() < 2) {
        return;
    }
    println!("\nover the seeds: means, and the longest delay of all");
    let head = [&["workload"], swept, &["runs"], &Numbers::COLUMNS].concat();
    let row = |(place, members): &(Vec<String>, Vec<&Numbers>)| {
        [&place[..], &[count(members.len() as u64)], &Numbers::mean(members).cells()].concat()
    };
    print_table(&head, &groups.iter().map(row).collect::<Vec<_>>(), style);
}

/// Columns as wide as their widest cell; text to the left in the first column and in `end`, else to the right.
pub(crate) fn print_table(head: &[&str], rows: &[Vec<String>], style: Style) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<0$}", widths[column]),
            _ if head[column] == "end" => format!("{cell:<0$}", widths[column]),
            _ => format!("{cell:>0$}", widths[column]),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    println!("{}", style.dim(&line(head)));
    for row in rows {
        println!("{}", line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
}

/// Every failure is printed; the worst decides the exit status.
fn conclude_all(results: &[One]) -> Result<()> {
    let failures: Vec<&(u8, String)> = results.iter().filter_map(|one| one.failure.as_ref()).collect();
    let Some(worst) = failures.iter().map(|(code, _)| *code).max() else { return Ok(()) };
    let mut sentences: Vec<&str> = failures.iter().map(|(_, sentence)| sentence.as_str()).collect();
    sentences.dedup();
    let text = format!("{} of {} runs failed\n{}", failures.len(), results.len(), sentences.join("\n"));
    Err(Failure::of(FailureKind::of_exit_status(worst.into()), text))
}

/// Each run needs a file of its own.
fn check_template(
    path: &Path,
    args: &RunArgs,
    nr_workloads: usize,
    nr_variations: usize,
    nr_runs: usize,
) -> Result<()> {
    let text = path.to_string_lossy();
    let has = |place: &str| text.contains(&format!("{{{place}}}"));
    let mut needed: Vec<&str> = Vec::new();
    if nr_workloads > 1 {
        needed.push("workload");
    }
    if nr_variations > 1 {
        needed.push("seed");
    }
    needed.extend(args.sweep.iter().filter(|swept| swept.values.len() > 1).map(|swept| swept.name.as_str()));
    if has("n") || needed.iter().all(|place| has(place)) {
        return Ok(());
    }
    let needed = needed.iter().map(|place| format!("{{{place}}}")).collect::<Vec<_>>().join(" and ");
    Err(Failure::Input(format!(
        "{text}: {nr_runs} runs would write this one file; put {{n}}, or {needed}, into its name"
    )))
}

fn expand(path: &Path, index: usize, choice: &Choice<'_>) -> PathBuf {
    let seed =
        choice.variation.perturb.map_or_else(|| "none".to_string(), |perturb| perturb.seed.to_string());
    let text = path.to_string_lossy();
    let mut text = text.replace("{n}", &(index + 1).to_string()).replace("{seed}", &seed);
    for (name, value) in choice.params {
        text = text.replace(&format!("{{{name}}}"), &value.replace('/', "_"));
    }
    PathBuf::from(text.replace("{workload}", &choice.loaded.name))
}
