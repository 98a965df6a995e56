//! The paper on VTRR.

use crate::failure::Result;
use crate::fairness::{built_linux, measure, subject};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::cost::{self, Cost};
use schedlab_experiments::vtrr::{ReproduceConfig, reproduce};
use schedlab_lab::Subject;

#[derive(Args, Debug)]
pub(crate) struct VtrrArgs {
    /// Random sets of shares at each point of the study.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub combinations: u32,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Leave out the cost of scheduling, which takes most of the time.
    #[arg(long)]
    pub no_cost: bool,
    /// Largest number of clients whose costs are measured.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub clients_max: u32,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What the paper compares in its figure of costs, and today's Linux.
const COMPARED: [&str; 8] = [
    "vtrr",
    "wfq",
    "wfq-list",
    "linux-2.2",
    "linux-2.4",
    "vtrr:insert=list",
    "vtrr:insert=array",
    "vtrr:reset=pass",
];

const HZ: u32 = 250;

pub(super) fn vtrr(args: &VtrrArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let mut config = ReproduceConfig::default();
    (config.study.combinations, config.study.seed) = (args.combinations, args.seed);
    config.linux = built_linux(HZ, ui)?;
    if !args.no_cost {
        config.cost = Some(costs(args, &config.linux, ui)?);
    }
    let step = ui.step("serving random sets of shares, and running the paper's workloads");
    let reproduction = reproduce(&config)?;
    drop(step);
    args.output.deliver(reproduction.pages(), &reproduction.summary(), ui)
}

fn costs(args: &VtrrArgs, linux: &[Subject], ui: &Ui) -> Result<Cost> {
    let mut subjects =
        COMPARED.map(|text| subject(&text.parse()?, HZ, ui)).into_iter().collect::<Result<Vec<_>>>()?;
    subjects.extend_from_slice(linux);
    let mut clients = vec![1, 10, 50, 100, 200, 1_000, 10_000, 100_000];
    clients.retain(|&n| n <= args.clients_max);
    let config = cost::Config { subjects, clients, linux_clients_max: 10_000, repetitions: 40 };
    measure(&config, true, ui)
}
