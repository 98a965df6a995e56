//! `schedlab compare`: several schedulers on the same workload, many perturbed replays each, what changed most first.

use crate::changes;
use crate::execute::command_line;
use crate::failure::{Failure, Result};
use crate::output;
use crate::seeds::{PerturbSpec, Seeds};
use crate::tunables::meant;
use crate::ui::Ui;
use crate::values::{Params, Swept, combinations};
use clap::Args;
use schedlab_compare::gate::ConditionOutcome;
use schedlab_compare::page::Tasks;
use schedlab_compare::{Compared, Gate, Samples, page};
use schedlab_lab::{Ensemble, FailureKind, Loaded, Subject, SubjectSpec, load};
use schedlab_machine::Perturb;
use schedlab_machine::kernel::SKEW_TICK;
use schedlab_report::Style;
use schedlab_runner::pool;
use schedlab_topology::Topology;
use schedlab_units::Span;
use std::path::PathBuf;

/// Lines about single tasks, unless all are asked for.
const TASKS_SHOWN: usize = 8;

#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Workloads (text or binary), traces, or folders with one of them; each is compared by itself.
    #[arg(required = true, value_name = "W")]
    pub workloads: Vec<PathBuf>,
    /// A scheduler, with parameters if wanted: NAME[:KEY=VALUE]... (linux-6.12:base_slice_ns=700000; hz=1000
    /// builds real Linux with other ticks). The first is the baseline.
    #[arg(long, value_name = "SPEC", required = true)]
    pub sched: Vec<SubjectSpec>,
    /// A parameter of every scheduler, NAME=VALUE; may be given several times.
    #[arg(long, value_name = "K=V", value_parser = crate::parse::parse_param)]
    pub param: Vec<(String, String)>,
    /// Each scheduler with each value of a parameter: NAME=VALUE,VALUE,... (a comma within a value is written \,);
    /// given several times, with each combination. The first scheduler with the first value is the baseline.
    #[arg(long, value_name = "K=V,V")]
    pub sweep: Vec<Swept>,
    /// Numbers of CPUs, all alike: 4 or 2,4,8; each is compared by itself.
    #[arg(long, value_name = "N", conflicts_with = "machine", value_delimiter = ',')]
    #[arg(value_parser = crate::parse::parse_cpus)]
    pub cpus: Vec<Topology>,
    /// A machine: a number, or packages=2,llcs=2,cores=4,smt=2; may be given several times.
    #[arg(long, value_name = "TOPO")]
    pub machine: Vec<Topology>,
    /// Stop each run after this much simulated time; else a mix's own `duration` holds.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Timer ticks per second of real Linux: 100, 250, 300 or 1000.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// Ticks of all CPUs at one instant, or spread over half a tick.
    #[arg(long, value_name = "PHASE", default_value = "aligned", value_parser = ["aligned", "staggered"])]
    pub ticks: String,
    /// Perturbed replays per scheduler: seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub runs: u64,
    /// These seeds instead: 1-8 or 1,2,5.
    #[arg(long, value_name = "SEEDS", conflicts_with = "runs")]
    pub seed: Option<Seeds>,
    /// Ranges of the perturbation: [phase=TIME|at=TIME][,slack=TIME][,start=TIME][,late=TIME].
    #[arg(long, value_name = "SPEC")]
    pub perturb: Option<PerturbSpec>,
    /// Most runs at once; all cores unless given.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    pub jobs: Option<usize>,
    /// Confidence of the intervals, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    pub confidence: f64,
    /// Exit with status 1 if this is shown of any scheduler against the baseline: 'p99>5%', 'migrations>+100',
    /// 'cc1:wakeup_latency.max>20ms', 'misses>0'; may be given several times.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Gate>,
    /// List every task of which a change is shown, not the most telling ones.
    #[arg(long)]
    pub all_tasks: bool,
    /// Write an HTML page with drawings.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the results as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub(crate) fn compare(args: &CompareArgs, ui: &Ui) -> Result<()> {
    let combinations = combinations(&args.sweep)?;
    check(args, combinations.len())?;
    let workloads =
        args.workloads.iter().map(|path| load(path, ui)).collect::<std::result::Result<Vec<Loaded>, _>>()?;
    let machines = if args.cpus.is_empty() { &args.machine } else { &args.cpus };
    let seeds: Vec<u64> = match &args.seed {
        Some(seeds) => seeds.0.clone(),
        None => (1..=args.runs).collect(),
    };
    let mut scenarios = Vec::new();
    for loaded in &workloads {
        check_subjects(args, loaded)?;
        for topology in machines {
            changes::refuse(&loaded.workload.changed_experiment(topology.nr_cpus()), ui)?;
            let contenders = contenders(args, &combinations, topology, ui)?;
            scenarios.push(one(args, loaded, topology, &contenders, &seeds, ui)?);
        }
    }
    scenarios.iter().try_for_each(|compared| changes::refuse(&compared.changed_experiment, ui))?;
    write(args, &scenarios)?;
    conclude(args, &scenarios, ui)
}

fn check(args: &CompareArgs, nr_combinations: usize) -> Result<()> {
    if args.sched.len() * nr_combinations < 2 {
        return Err(Failure::Input(
            "a comparison needs two schedulers: give --sched twice, the baseline first, or --sweep NAME=VALUE,VALUE"
                .to_string(),
        ));
    }
    if args.cpus.is_empty() && args.machine.is_empty() {
        return Err(Failure::Input(
            "how many CPUs? Give --cpus N, or --machine packages=2,cores=4,smt=2".to_string(),
        ));
    }
    if !(50.0..100.0).contains(&args.confidence) {
        return Err(Failure::Input(format!(
            "--confidence {}: expected a percentage from 50 up to, but not including, 100",
            args.confidence
        )));
    }
    if args.perturb.is_some_and(|spec| spec.has_seed) {
        return Err(Failure::Input(
            "--perturb takes no seed here: --runs or --seed says which; give ranges only".to_string(),
        ));
    }
    [&args.html, &args.json].into_iter().flatten().try_for_each(|path| output::check(path))
}

/// A condition about tasks that the workload does not have could never be met.
fn check_subjects(args: &CompareArgs, loaded: &Loaded) -> Result<()> {
    let known = schedlab_compare::subjects(&loaded.workload);
    for gate in &args.fail_if {
        if let Some(label) = &gate.subject
            && !known.iter().any(|subject| subject.label == *label)
        {
            const SHOWN: usize = 12;
            let labels: Vec<&str> =
                known.iter().filter(|s| s.group.is_none()).take(SHOWN).map(|s| s.label.as_str()).collect();
            return Err(Failure::Input(format!(
                "--fail-if '{}': {} has no tasks named '{label}'; it has {}",
                gate.text,
                loaded.name,
                labels.join(", ")
            )));
        }
    }
    Ok(())
}

fn contenders(
    args: &CompareArgs,
    combinations: &[Params],
    topology: &Topology,
    ui: &Ui,
) -> Result<Vec<Subject>> {
    let one = |(spec, swept): (&SubjectSpec, &Params)| {
        let mut subject = spec.and(&args.param).and(swept).resolve(ui.setting(args.hz, topology))?;
        for (name, value) in args.param.iter().chain(swept) {
            subject.label.push_str(&format!(":{name}={value}"));
        }
        Ok(if args.ticks == "staggered" { subject.with(SKEW_TICK, "1") } else { subject })
    };
    args.sched.iter().flat_map(|spec| combinations.iter().map(move |swept| (spec, swept))).map(one).collect()
}

fn one(
    args: &CompareArgs,
    loaded: &Loaded,
    topology: &Topology,
    contenders: &[Subject],
    seeds: &[u64],
    ui: &Ui,
) -> Result<Compared> {
    let ensemble = Ensemble {
        workload: &loaded.workload,
        topology: topology.clone(),
        duration: args.duration.or(loaded.duration),
        contenders,
        seeds,
        perturb: Some(args.perturb.map_or(Perturb::new(0), |spec| spec.perturb)),
        jobs: args.jobs.unwrap_or_else(pool::cores).max(1),
    };
    let nr_runs = seeds.len() * contenders.len();
    let what = format!("{nr_runs} runs of {} on {} CPUs", loaded.name, topology.nr_cpus());
    let step = ui.step(what.clone());
    let samples = Samples::of(&ensemble, |done| step.progress(format!("{done} of {what}")))?;
    drop(step);
    Ok(Compared::new(&loaded.name, &ensemble, samples, args.confidence / 100.0, &args.fail_if))
}

fn write(args: &CompareArgs, scenarios: &[Compared]) -> Result<()> {
    if let Some(path) = &args.html {
        let names: Vec<&str> = args.sched.iter().map(SubjectSpec::text).collect();
        let title = format!("{} compared", names.join(", "));
        output::text(path, &page::html(&title, scenarios, &args.fail_if, &command_line()))?;
    }
    if output::json(args.json.as_deref(), |out| writeln!(out, "{}", page::json(scenarios, &args.fail_if)))? {
        return Ok(());
    }
    let style = Style::detect();
    let tasks = if args.all_tasks { Tasks::All } else { Tasks::Most(TASKS_SHOWN) };
    for compared in scenarios {
        print!("{}", page::terminal(compared, &args.fail_if, tasks, style));
    }
    Ok(())
}

/// Exit status: a bug of ours before a misbehaving scheduler before bad input before a finding.
fn conclude(args: &CompareArgs, scenarios: &[Compared], ui: &Ui) -> Result<()> {
    let worst = scenarios.iter().filter_map(Compared::worst_failure).max();
    if let Some(kind) = worst {
        let sentence = match kind {
            FailureKind::Internal => "some runs hit a bug of ours",
            FailureKind::Misbehaved => "a scheduler misbehaved; 'schedlab run --seed N' repeats it",
            FailureKind::Input => {
                let failed = scenarios.iter().find_map(|compared| compared.first_failure(kind));
                let (more, reason) = failed.map_or_else(Default::default, |(subject, reason)| {
                    (subject.linux().map(|linux| meant(reason, linux, ui)).unwrap_or_default(), reason)
                });
                return Err(Failure::Input(format!("some runs could not be made: {reason}{more}")));
            }
            FailureKind::Finding => "a scheduler warned during a run",
        };
        return Err(Failure::of(kind, sentence.into()));
    }
    for compared in scenarios {
        let no_data =
            compared.gates.iter().find(|result| result.judgement.outcome == ConditionOutcome::NoData);
        if let Some(result) = no_data {
            return Err(Failure::Input(format!(
                "--fail-if '{}' cannot be judged: {} gives no such numbers (no wakeups, no task that exits, or no job \
                 with a deadline?)",
                args.fail_if[result.gate].text, compared.workload
            )));
        }
    }
    if scenarios.iter().any(Compared::is_gate_met) {
        return Err(Failure::Finding("a --fail-if condition is met".into()));
    }
    if scenarios.iter().any(Compared::has_warnings) {
        return Err(Failure::Finding("a scheduler warned during a run".into()));
    }
    Ok(())
}
