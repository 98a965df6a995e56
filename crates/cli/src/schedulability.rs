//! `schedlab schedulability`: which random task sets do real-time schedulers serve in time, and does theory hold?

use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::schedulability::cases::Draw;
use schedlab_experiments::schedulability::measure::Arm;
use schedlab_experiments::schedulability::{Config, study};

/// Random sets of periodic tasks (UUniFast or RandFixedSum, log-uniform periods) under real-time schedulers:
/// the share of sets without a late job, tardiness and response times against the load, drawn; beside them
/// what tests of theory say, each of whose claims is tried on every set (exit status 1 if a schedule is
/// against one). With Dhall's effect.
#[derive(Args, Debug)]
pub(crate) struct SchedulabilityArgs {
    /// Schedulers, NAME or NAME:K=V.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "rm,rm:fit=first,posix,gedf,pedf,cbs"
    )]
    pub sched: Vec<String>,
    /// Number of CPUs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cpus: u32,
    /// Tasks in each set; 5, or 3 per CPU on several, if left out.
    #[arg(long, value_name = "N")]
    pub tasks: Option<u32>,
    /// Utilisation of the machine, in per cent.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "40,50,60,65,70,75,80,85,90,95,98,100,105"
    )]
    pub load: Vec<u32>,
    /// Random sets at each load.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub sets: u32,
    /// How utilisations are drawn: uunifast (Bini, Buttazzo 2005) or randfixedsum (Emberson, Stafford, Davis 2010).
    #[arg(long, value_name = "NAME", default_value = "uunifast", value_parser = ["uunifast", "randfixedsum"])]
    pub draw: String,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Worker threads; the result does not depend on them. All cores if left out.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(crate) fn schedulability(args: &SchedulabilityArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let arms = args.sched.iter().map(|text| Arm::parse(text)).collect::<std::result::Result<_, _>>();
    let config = Config {
        arms: arms.map_err(Failure::input)?,
        nr_cpus: args.cpus,
        nr_tasks: args.tasks.unwrap_or(if args.cpus == 1 { 5 } else { 3 * args.cpus }),
        loads_pct: args.load.clone(),
        sets: args.sets,
        draw: if args.draw == "uunifast" { Draw::UUniFast } else { Draw::RandFixedSum },
        seed: args.seed,
        threads: args.threads,
    };
    let all = config.loads_pct.len() as u64 * u64::from(config.sets);
    let step = ui.step(format!("running {all} sets of tasks"));
    let found =
        study(&config, &|done| step.progress(format!("ran {done} of {all} sets"))).map_err(Failure::input)?;
    drop(step);
    args.output.deliver(&found.pages(), &found.summary(), ui)?;
    match found.claims.rows().iter().find(|claim| claim.nr_against > 0) {
        None => Ok(()),
        Some(claim) => Err(Failure::Finding(format!(
            "'{}' ({}) does not hold in {} of {} cases; the first: {:?}",
            claim.what, claim.source, claim.nr_against, claim.nr_cases, claim.first_against
        ))),
    }
}
