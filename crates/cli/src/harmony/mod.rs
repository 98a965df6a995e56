//! `schedlab harmony`: a scheduler's balancing policy, told from what it does.

mod elsewhere;
mod probe;
mod settings;

use crate::execute::command_line;
use crate::failure::{Failure, Result};
use crate::output;
use crate::project::project_file;
use crate::ui::Ui;
use clap::Args;
use schedlab_harmony::compared::Comparison;
use schedlab_harmony::data::{Data, Effort, plan_table, run_plan};
use schedlab_harmony::experiments::{Depth, experiments, find};
use schedlab_harmony::model::Model;
use schedlab_harmony::plan::Plan;
use schedlab_harmony::toy::toy;
use schedlab_harmony::toys::{self, SchedExt, Score};
use schedlab_lab::{FailureKind, Subject, SubjectSpec};
use schedlab_runner::pool;
use schedlab_topology::Topology;
use settings::Settings;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HarmonyArgs {
    #[command(subcommand)]
    pub elsewhere: Option<elsewhere::Elsewhere>,
    /// The scheduler: NAME[:KEY=VALUE]..., scx:FILE.bpf.c, linux:DIR; toy:KEY=VALUE... is one whose policy is known.
    #[arg(long, value_name = "SPEC", required_unless_present_any = ["compare", "toys"], conflicts_with = "compare")]
    pub sched: Option<SubjectSpec>,
    /// Two schedulers: what differs, the largest difference first.
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub compare: Option<Vec<SubjectSpec>>,
    /// CPUs of the machine, all alike.
    #[arg(long, value_name = "N", default_value = "4", conflicts_with = "machine")]
    #[arg(value_parser = crate::parse::parse_cpus)]
    pub cpus: Topology,
    /// A machine: packages=2,llcs=2,cores=4,smt=2, or a name (`schedlab machines`).
    #[arg(long, value_name = "TOPO")]
    pub machine: Option<Topology>,
    /// Timer ticks per second of real Linux: 100, 250, 300 or 1000.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// Fewer runs, and only the questions of the paper's table 1 and those near them.
    #[arg(long)]
    pub quick: bool,
    /// Other drawn times and phases.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seed: u64,
    /// Most runs at once; all cores unless given. The results are the same.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    pub jobs: Option<usize>,
    /// Print the reasoning behind an answer; may be given several times.
    #[arg(long, value_name = "ID")]
    pub explain: Vec<String>,
    /// With --compare: exit with status 1 if the two differ in this question; may be given several times.
    #[arg(long, value_name = "ID", requires = "compare")]
    pub fail_if: Vec<String>,
    /// Run this plan (TOML, see docs/harmony.md) instead of the experiments; its own `cpus` counts unless --machine
    /// is given.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compare", "explain", "quick"])]
    pub plan: Option<PathBuf>,
    /// Make one run of this experiment, and write its log; see --log.
    #[arg(long, value_name = "NAME", requires = "log", conflicts_with_all = ["compare", "plan"])]
    pub experiment: Option<String>,
    /// Where to write that log (Arrow for *.arrow, text else).
    #[arg(long, value_name = "FILE", requires = "experiment")]
    pub log: Option<PathBuf>,
    /// Instead of a scheduler: policies that are known (0), or so many drawn from --seed; what is found of each beside
    /// the truth. Exit status 1 if an answer is wrong, or if so few 95 % intervals hold the truth that nine in ten has
    /// a chance below 1 % (binomial).
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=100_000),
        conflicts_with_all = ["sched", "compare", "plan", "experiment", "explain"]
    )]
    pub toys: Option<u64>,
    /// With --toys: also policies in BPF C whose policy is known, on Linux 6.12 (built once, some minutes).
    #[arg(long, requires = "toys")]
    pub scx: bool,
    /// Write a page with a picture per answer.
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    pub html: Option<PathBuf>,
    /// Write the answers as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl HarmonyArgs {
    fn topology(&self) -> &Topology {
        self.machine.as_ref().unwrap_or(&self.cpus)
    }

    fn effort(&self) -> Effort {
        let depth = if self.quick { Depth::Quick } else { Depth::Full };
        Effort { depth, seed: self.seed, jobs: self.jobs.unwrap_or_else(pool::cores).max(1) }
    }

    fn subject(&self, spec: &SubjectSpec, topology: &Topology, ui: &Ui) -> Result<Subject> {
        if spec.name() == "toy" {
            return toy(spec.text(), spec.params()).map_err(Failure::input);
        }
        Ok(spec.resolve(ui.setting(self.hz, topology))?)
    }
}

pub(crate) fn harmony(args: &HarmonyArgs, ui: &Ui) -> Result<()> {
    if let Some(part) = &args.elsewhere {
        return elsewhere::elsewhere(part, ui);
    }
    [&args.html, &args.json, &args.log].into_iter().flatten().try_for_each(|path| output::check(path))?;
    if let Some(path) = &args.plan {
        return plan(args, path, ui);
    }
    if let Some(count) = args.toys {
        return toys(args, count, ui);
    }
    let topology = args.topology();
    if topology.nr_cpus() < 2 {
        return Err(one_cpu());
    }
    if let Some(name) = &args.experiment {
        return experiment(args, name, ui);
    }
    match (&args.sched, args.compare.as_deref()) {
        (_, Some([a, b])) => compare(args, [a, b], ui),
        (Some(spec), _) => one(args, spec, ui),
        _ => Err(Failure::Input("which scheduler? Give --sched NAME, or --compare A B".to_string())),
    }
}

/// All experiments and answers of a subject.
fn model(args: &HarmonyArgs, spec: &SubjectSpec, command: &str, ui: &Ui) -> Result<Model> {
    model_of(args, &args.subject(spec, args.topology(), ui)?, command, ui)
}

fn model_of(args: &HarmonyArgs, subject: &Subject, command: &str, ui: &Ui) -> Result<Model> {
    let topology = args.topology();
    let step = ui.step(format!("asking {}", subject.label));
    let on_progress =
        |done: usize, all: usize| step.progress(format!("{}: {done} of {all} runs", subject.label));
    let data = Data::collect(subject, topology, args.effort(), on_progress).map_err(Failure::input)?;
    drop(step);
    if data.runs.is_empty() {
        let (name, seed, failure) = data.failed.first().expect("no run ended as it should, and none did not");
        let sentence =
            format!("{}: no run ended as it should; {name}, seed {seed}: {}", subject.label, failure.reason);
        return Err(Failure::of(failure.kind, sentence));
    }
    Ok(Model::of(&data, &subject.label, command))
}

fn one(args: &HarmonyArgs, spec: &SubjectSpec, ui: &Ui) -> Result<()> {
    let machine = match &args.machine {
        Some(machine) => format!("--machine {machine}"),
        None => format!("--cpus {}", args.cpus.nr_cpus()),
    };
    let quick = if args.quick { " --quick" } else { "" };
    let hz = if args.hz == 250 { String::new() } else { format!(" --hz {}", args.hz) };
    let command =
        format!("schedlab harmony --sched {} {machine}{hz} --seed {}{quick}", spec.text(), args.seed);
    let model = model(args, spec, &command, ui)?;
    print_model(&model, &args.explain, &args.html, &args.json, ui)
}

/// The answers in the forms that were asked for.
fn print_model(
    model: &Model,
    explain: &[String],
    html: &Option<PathBuf>,
    json: &Option<PathBuf>,
    ui: &Ui,
) -> Result<()> {
    if let Some(unknown) = explain.iter().find(|id| model.answer(id).is_none()) {
        return Err(no_question(unknown, model));
    }
    if let Some(path) = html {
        output::text(path, &model.html())?;
        ui.say(format!("wrote {}", path.display()));
    }
    if !output::json_value(json.as_deref(), &model.json())? {
        if explain.is_empty() {
            print!("{}", model.text());
        }
        let explained: Vec<String> = explain.iter().filter_map(|id| model.explain(id)).collect();
        print!("{}", explained.join("\n"));
    }
    Ok(())
}

fn one_cpu() -> Failure {
    Failure::Input("--cpus 1: balancing needs two CPUs at least; give --cpus 4, or --machine".to_string())
}

fn no_question(id: &str, model: &Model) -> Failure {
    let known: Vec<&str> = model.answers.iter().map(|answer| answer.id).collect();
    Failure::Input(format!("there is no question '{id}'; there are {}", known.join(", ")))
}

/// Settings that differ come first; what differs when both are set alike is the code's.
fn compare(args: &HarmonyArgs, specs: [&SubjectSpec; 2], ui: &Ui) -> Result<()> {
    let command = command_line();
    let topology = args.topology();
    let subjects = [args.subject(specs[0], topology, ui)?, args.subject(specs[1], topology, ui)?];
    let settings = Settings::of([&subjects[0], &subjects[1]], topology.nr_cpus(), ui)?;
    let a = model_of(args, &subjects[0], &command, ui)?;
    let b = model_of(args, &subjects[1], &command, ui)?;
    if let Some(unknown) = args.fail_if.iter().chain(&args.explain).find(|id| a.answer(id).is_none()) {
        return Err(no_question(unknown, &a));
    }
    let compared = Comparison::of(&a, &b);
    let for_b = settings.for_b();
    let alike = if for_b.is_empty() {
        None
    } else {
        let mut subject = subjects[1].clone();
        let explained: Vec<String> = for_b.iter().map(|(name, value)| format!("{name}={value}")).collect();
        subject.label = format!("{}:{}", subject.label, explained.join(":"));
        subject.params.retain(|(name, _)| for_b.iter().all(|(set, _)| set != name));
        subject.params.extend(for_b);
        Some(Comparison::of(&a, &model_of(args, &subject, &command, ui)?))
    };
    let mut json = compared.json();
    json["settings"] = settings.table().map_or(serde_json::Value::Null, |table| table.to_json());
    json["alike"] = alike.as_ref().map_or(serde_json::Value::Null, Comparison::json);
    if !output::json_value(args.json.as_deref(), &json)? {
        println!("{}", settings.text());
        print!("{}", compared.text());
        if let Some(alike) = &alike {
            print!("\nb set as a is; what differs now is the code's:\n{}", alike.text());
        }
        for id in &args.explain {
            let explained: Vec<String> = [&a, &b].iter().filter_map(|model| model.explain(id)).collect();
            print!("\n{}", explained.join("\n"));
        }
    }
    let met: Vec<&str> =
        args.fail_if.iter().map(String::as_str).filter(|id| compared.found(id).is_some()).collect();
    match met.is_empty() {
        true => Ok(()),
        false => Err(Failure::Finding(format!("they differ in {}", met.join(", ")))),
    }
}

fn experiment(args: &HarmonyArgs, name: &str, ui: &Ui) -> Result<()> {
    let (topology, spec) = (args.topology(), args.sched.as_ref().expect("required by the argument parser"));
    let Some(what) = find(name, topology) else {
        let known: Vec<String> =
            experiments(topology, Depth::Full).into_iter().map(|(what, _)| what.name()).collect();
        return Err(Failure::Input(format!(
            "there is no experiment '{name}'; there are {}",
            known.join(", ")
        )));
    };
    let subject = args.subject(spec, topology, ui)?;
    let scenario = what.scenario(topology, args.seed).map_err(Failure::input)?;
    let finished = scenario.finished(&subject, topology, what.drawn(args.seed))?;
    let path = args.log.as_ref().expect("required by the argument parser");
    schedlab_log::write(path, &finished.log).map_err(Failure::input)?;
    for mark in &scenario.marks {
        println!("{:?} at {}", mark.act, mark.at);
    }
    ui.say(format!("wrote {}", path.display()));
    Ok(())
}

/// Known policies: what is true, what is found.
fn toys(args: &HarmonyArgs, drawn: u64, ui: &Ui) -> Result<()> {
    let mut cases = if drawn == 0 { toys::named() } else { Vec::new() };
    cases.extend(toys::drawn(args.seed, drawn));
    if args.scx {
        cases.extend(toys::named_sched_ext());
    }
    let no_source = || format!("{}: there is no such file; work in a checkout", toys::SCHED_EXT_SOURCE);
    let source = match args.scx {
        true => Some(project_file(toys::SCHED_EXT_SOURCE).ok_or_else(|| Failure::Input(no_source()))?),
        false => None,
    };
    let sched_ext = source.as_deref().map(|source| SchedExt { source, hz: args.hz, progress: ui });
    let step = ui.step(format!("asking {} toys", cases.len()));
    let on_progress = |done: usize| step.progress(format!("{done} of {} toys", cases.len()));
    let tried = toys::asked(&cases, args.effort(), sched_ext, on_progress).map_err(Failure::input)?;
    drop(step);
    let coverage = toys::coverage(&tried);
    let all = toys::table(&tried, true);
    if !output::json_value(args.json.as_deref(), &all.to_json())? {
        println!("{}", toys::table(&tried, false).to_text());
        let [right, undecided, outside, wrong] =
            [Score::Right, Score::Undecided, Score::Outside, Score::Wrong].map(|s| toys::count(&tried, s));
        println!(
            "{} toys, {} questions: {right} right, {undecided} undecided, {outside} outside their interval, {wrong} \
            wrong; {} of {} intervals hold the truth, the middle one is {:.1} % wide",
            tried.len(),
            right + undecided + outside + wrong,
            coverage.held,
            coverage.of,
            100.0 * coverage.width
        );
        for failed in tried.iter().flat_map(|toy| &toy.failed) {
            println!("not counted: {failed}");
        }
    }
    match toys::count(&tried, Score::Wrong) {
        0 if coverage.is_too_low() => Err(Failure::Finding(format!(
            "{} of {} intervals hold the truth; were nine in ten right, so few would have a chance of {:.4}",
            coverage.held,
            coverage.of,
            coverage.chance()
        ))),
        0 => Ok(()),
        wrong => Err(Failure::Finding(format!("{wrong} answers are wrong"))),
    }
}

fn plan(args: &HarmonyArgs, path: &std::path::Path, ui: &Ui) -> Result<()> {
    let plan = Plan::read(path)?;
    let flat = Topology::flat(plan.cpus).map_err(Failure::input)?;
    let topology = args.machine.as_ref().unwrap_or(&flat);
    if topology.nr_cpus() != plan.cpus {
        return Err(Failure::Input(format!(
            "{}: the plan is for {} CPUs, the machine has {}; change `cpus`, or give another --machine",
            path.display(),
            plan.cpus,
            topology.nr_cpus()
        )));
    }
    let spec = args.sched.as_ref().expect("required by the argument parser");
    let subject = args.subject(spec, topology, ui)?;
    let step = ui.step(format!("running {}", path.display()));
    let runs =
        run_plan(&plan, &subject, topology, (args.seed, args.effort().jobs)).map_err(Failure::input)?;
    drop(step);
    let table = plan_table(&plan, &runs);
    if !output::json_value(args.json.as_deref(), &table.to_json())? {
        println!("{} under {}\n\n{}", table.title, subject.label, table.to_text());
    }
    let failed = runs.iter().find_map(|(seed, run)| Some((seed, run.as_ref().err()?)));
    match failed {
        None => Ok(()),
        Some((seed, failure)) if failure.kind == FailureKind::Misbehaved => {
            Err(Failure::Misbehaved(format!("{}, seed {seed}: {}", subject.label, failure.reason)))
        }
        Some((seed, failure)) => {
            Err(Failure::of(failure.kind, format!("{}, seed {seed}: {}", subject.label, failure.reason)))
        }
    }
}
