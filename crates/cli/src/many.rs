//! `schedlab run` with several workloads or seeds: many runs at once on all cores, results in order.

use crate::args::RunArgs;
use crate::costs;
use crate::failure::{Failure, Result};
use crate::input::{self, Loaded};
use crate::output;
use crate::run::{Files, Plan, conclude, execute, plan, write_files};
use crate::ui::Ui;
use clap::Args;
use schedlab_machine::{Costs, Perturb};
use schedlab_report::Style;
use schedlab_report::units::{count, time};
use schedlab_runner::pool;
use schedlab_topology::Topology;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What makes one command many runs.
#[derive(Args, Debug)]
pub(crate) struct ManyArgs {
    /// Vary what the workload leaves open (tick phase, timer slack, start offsets), and what the scheduler draws: the same
    /// seed gives the same run. Several seeds (1-8 or 1,2,5) are as many runs.
    #[arg(long, value_name = "SEEDS")]
    pub seed: Option<Seeds>,
    /// The same with ranges of one's own: SEED[,phase=TIME|,at=TIME][,slack=TIME][,start=TIME][,late=TIME]; without SEED those of --seed are taken.
    #[arg(long, value_name = "SPEC")]
    pub perturb: Option<PerturbSpec>,
    /// Kernel code takes time, as this TOML file says (costs/*.toml are measured ones): switch = "2us", ...
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Most runs at once, if there are several; all cores unless given.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
}

/// `1-8,12`: numbers and ranges, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub Vec<u64>);

/// More seeds than this are a typing error.
const SEEDS_MAX: u64 = 100_000;

impl std::str::FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Seeds, String> {
        let fail = |part: &str| format!("'{part}' in '{text}': expected seeds as 7, 1-8 or 1,2,5-9");
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let number = |text: &str| text.trim().parse::<u64>().map_err(|_| fail(part));
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last || last - first >= SEEDS_MAX || seeds.len() as u64 > SEEDS_MAX {
                return Err(format!("{}, at most {SEEDS_MAX} of them, the smaller number first", fail(part)));
            }
            seeds.extend(first..=last);
        }
        Ok(Seeds(seeds))
    }
}

/// A perturbation whose seed may be left to `--seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerturbSpec {
    pub perturb: Perturb,
    pub has_seed: bool,
}

impl std::str::FromStr for PerturbSpec {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<PerturbSpec, String> {
        let has_seed = !text.split(',').next().unwrap_or_default().contains('=');
        let whole = if has_seed { text.to_string() } else { format!("0,{text}") };
        let perturb = whole.parse().map_err(|error: schedlab_machine::PerturbError| error.to_string())?;
        Ok(PerturbSpec { perturb, has_seed })
    }
}

/// What makes a run differ from the next of the same command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variation {
    /// For what the scheduler draws.
    pub seed: Option<u64>,
    pub perturb: Option<Perturb>,
    /// What kernel code costs; the same in all runs.
    pub costs: Option<Costs>,
}

impl ManyArgs {
    /// One per run; a single one without a seed if nothing is to be varied.
    pub(crate) fn variations(&self) -> Result<Vec<Variation>> {
        let costs = self.costs.as_deref().map(costs::load).transpose()?;
        match (&self.seed, self.perturb) {
            (None, None) => Ok(vec![Variation { costs, ..Variation::default() }]),
            (None, Some(spec)) if spec.has_seed => {
                Ok(vec![Variation { seed: None, perturb: Some(spec.perturb), costs }])
            }
            (None, Some(_)) => Err(Failure::Input(
                "--perturb names ranges but no seed: write --perturb SEED,... or add --seed 1-8".to_string(),
            )),
            (Some(_), Some(spec)) if spec.has_seed => Err(Failure::Input(
                "--seed and --perturb both name a seed; leave it out of --perturb".to_string(),
            )),
            (Some(seeds), spec) => {
                let one = |&seed: &u64| {
                    let perturb = spec.map_or(Perturb::new(seed), |spec| Perturb { seed, ..spec.perturb });
                    Variation { seed: Some(seed), perturb: Some(perturb), costs }
                };
                Ok(seeds.0.iter().map(one).collect())
            }
        }
    }
    /// Runs at once.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(pool::cores).max(1)
    }
}

/// What a worker sends back.
#[derive(Serialize, Deserialize)]
struct One {
    /// The result as `--json` has it; empty if the run failed.
    json: String,
    row: Vec<String>,
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
        vec![crate::run::load(args, ui)?]
    } else {
        let paths = std::iter::once(&args.workload).chain(&args.more);
        paths.map(|path| input::load(path, ui)).collect::<Result<Vec<Loaded>>>()?
    };
    let scheduler = crate::schedulers::resolve_with(&args.sched, &args.param, args.hz, topology, ui)?;
    let step = ui.step(format!("{nr_runs} runs under {}", scheduler.name()));
    let one = |index: usize| {
        let (loaded, variation) =
            (&workloads[index / variations.len()], &variations[index % variations.len()]);
        let files = |template: &Option<PathBuf>| {
            template.as_ref().map(|path| expand(path, index, &loaded.name, variation))
        };
        let files = Files { log: files(&args.log), perfetto: files(&args.perfetto), html: files(&args.html) };
        one_run(&plan(args, loaded, &scheduler, topology, variation), variation, &files)
    };
    let done = |done: usize| step.progress(format!("{done} of {nr_runs} runs under {}", scheduler.name()));
    let results = pool::map(nr_runs, args.many.jobs(), one, done).map_err(Failure::input)?;
    drop(step);
    let results: Vec<One> = results
        .into_iter()
        .map(|result| result.map_err(|died| Failure::Internal(died.to_string())))
        .collect::<Result<_>>()?;
    show(args, topology, scheduler.name(), &results)?;
    conclude_all(&results)
}

fn one_run(plan: &Plan<'_>, variation: &Variation, files: &Files) -> One {
    let seed = variation.perturb.map_or_else(|| "-".to_string(), |perturb| perturb.seed.to_string());
    let mut row = vec![plan.loaded.name.clone(), seed];
    let finished = match execute(plan, &Ui::silent()).and_then(|finished| {
        write_files(files, &finished)?;
        Ok(finished)
    }) {
        Ok(finished) => finished,
        Err(failure) => {
            let failure = (failure.code(), failure.sentence().to_string());
            return One { json: String::new(), row, failure: Some(failure) };
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
    One { json: String::from_utf8(json).expect("JSON is UTF-8"), row, failure }
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
    Err(match worst {
        1 => Failure::Finding(text),
        2 => Failure::Input(text),
        3 => Failure::Misbehaved(text),
        _ => Failure::Internal(text),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_and_ranges() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("7"), Ok(vec![7]));
        assert_eq!(seeds("1-3,9,4-4"), Ok(vec![1, 2, 3, 9, 4]));
        for bad in ["", "x", "3-1", "1-", "-5", "1,,2", "0-100000", "1-18446744073709551615"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seeds_and_ranges_combine() {
        let variations = |seed: Option<&str>, perturb: Option<&str>| {
            let args = ManyArgs {
                seed: seed.map(|text| text.parse().unwrap()),
                perturb: perturb.map(|text| text.parse().unwrap()),
                jobs: None,
                costs: None,
            };
            args.variations().map(|all| {
                let text = |v: &Variation| v.perturb.map(|p| p.to_string()).unwrap_or_default();
                all.iter().map(text).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(variations(None, None).unwrap(), "");
        assert_eq!(variations(Some("1-2"), None).unwrap(), "1 2");
        assert_eq!(variations(None, Some("5,slack=0")).unwrap(), "5,slack=0ns");
        assert_eq!(variations(Some("1-2"), Some("slack=0")).unwrap(), "1,slack=0ns 2,slack=0ns");
        assert!(variations(None, Some("slack=0")).is_err());
        assert!(variations(Some("1"), Some("2")).is_err());
    }
}
