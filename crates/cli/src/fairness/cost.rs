//! `schedlab fairness cost`: what do select, enqueue and dequeue cost?

use super::subject;
use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::cost::machine::{Load, drive};
use schedlab_experiments::cost::{self, Config, Cost, ProbeCommand, all_subjects, instructions};
use schedlab_lab::{SpecForm, Subject, SubjectList, SubjectSpec};
use schedlab_units::Span;
use std::path::PathBuf;

/// Cost of scheduling operations, in host ns and in instructions (counted by valgrind, where it is
/// installed), against the number of clients: each native policy alone on a test stand, real Linux through
/// the port.
#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    /// Schedulers, NAME or NAME:K=V; all native ones, VTRR's variants, and each real Linux that is built, if left out.
    #[arg(long, value_name = "NAMES")]
    pub sched: Vec<SubjectList>,
    /// Numbers of clients.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,10,100,200,1000,10000,100000"
    )]
    pub clients: Vec<u32>,
    /// Most clients under real Linux: each is a task of the simulated kernel, some 30 KB of memory (3 GB for 100,000).
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub linux_clients_max: u32,
    /// Batches of each timing, of some 0.2 ms each; the least counts. Of real Linux, up to 3 processes.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub repetitions: u32,
    /// Leave out instructions: host time only, in a tenth of the time.
    #[arg(long)]
    pub no_instructions: bool,
    /// Timer ticks per second of real Linux.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The program started by itself, to be timed or counted: `schedlab probe LABEL N [OBJECT]`.
#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    /// The subject, NAME:K=V:K=V.
    pub label: String,
    /// Number of clients.
    pub clients: u32,
    /// The kernel object, for real Linux.
    pub object: Option<PathBuf>,
}

pub(super) fn cost(args: &CostArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    if args.clients.is_empty() || args.clients.iter().any(|n| !(1..=1_000_000).contains(n)) {
        return Err(Failure::Input("--clients: give numbers from 1 to 1,000,000".into()));
    }
    let subjects = match args.sched.is_empty() {
        true => everything(args.hz, ui)?,
        false => {
            let specs: Vec<&SubjectSpec> = args.sched.iter().flat_map(|list| &list.0).collect();
            if let Some(spec) = specs.iter().find(|spec| matches!(spec.form(), SpecForm::Scx(_))) {
                return Err(cost::refuses_scx(spec.text()).into());
            }
            specs.into_iter().map(|spec| subject(spec, args.hz, ui)).collect::<Result<_>>()?
        }
    };
    let config = Config {
        subjects,
        clients: args.clients.clone(),
        linux_clients_max: args.linux_clients_max,
        repetitions: args.repetitions,
    };
    let cost = measure(&config, !args.no_instructions, ui)?;
    let table = cost.table();
    let mut summary = format!("{}\n{}", table.title, table.to_text());
    cost.remarks.iter().for_each(|remark| summary += &format!("{remark}\n"));
    args.output.deliver(&cost.pages(), &summary, ui)
}

/// All native schedulers, and the Linux versions that are built.
fn everything(hz: u32, ui: &Ui) -> Result<Vec<Subject>> {
    let mut subjects = all_subjects();
    subjects.extend(super::built_linux(hz, ui)?);
    Ok(subjects)
}

/// Host times, and instructions if valgrind is there.
pub(crate) fn measure(config: &Config, with_instructions: bool, ui: &Ui) -> Result<Cost> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::Internal(format!("internal error: this program's file is unknown: {error}"))
    })?;
    let probe = ProbeCommand { program, arguments: vec!["probe".into()] };
    let step = ui.step("timing");
    let mut cost =
        cost::measure(config, &probe, &|label, n| step.progress(format!("timing {label}, {n} clients")))?;
    if with_instructions {
        step.now("counting instructions (valgrind)");
        let seen =
            |label: &str, n: u32| step.progress(format!("counting instructions of {label}, {n} clients"));
        if let Err(error) = instructions(config, &probe, &mut cost, &seen) {
            cost.remarks.push(format!("Instructions are missing: {error}."));
        }
    }
    Ok(cost)
}

/// What [`measure`] starts.
pub(crate) fn probe(args: &ProbeArgs) -> Result<()> {
    let times = cost::probe(&args.label, args.clients, args.object.as_deref())?;
    println!("{}", times.print());
    Ok(())
}

/// One run for scripts/bench-flat.sh: `schedlab probe-machine SCHED LOAD CPUS TASKS LENGTH LONGEST` prints
/// the number of events.
#[derive(Args, Debug)]
pub(crate) struct ProbeMachineArgs {
    /// A native scheduler.
    pub sched: String,
    /// steady, crowded, together.
    pub load: Load,
    /// Number of CPUs.
    pub cpus: u32,
    /// Number of tasks.
    pub tasks: u32,
    /// Simulated time.
    pub length: Span,
    /// What tasks do is written for so long.
    pub longest: Span,
}

pub(crate) fn probe_machine(args: &ProbeMachineArgs) -> Result<()> {
    let subject = Subject::native(&args.sched)?;
    let info = subject.info().expect("it is native");
    println!("{}", drive(info, args.load, args.cpus, args.tasks, args.length, args.longest));
    Ok(())
}
