//! Harmony's table 1 and figures, beside the native models of its schedulers.

use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_harmony::data::Effort;
use schedlab_harmony::experiments::Depth;
use schedlab_harmony::reproduced;
use schedlab_runner::pool;

#[derive(Args, Debug)]
pub(crate) struct ReproduceHarmonyArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// Other drawn times and phases.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Most runs at once; all cores unless given.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    pub jobs: Option<usize>,
}

pub(super) fn harmony(args: &ReproduceHarmonyArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let jobs = args.jobs.unwrap_or_else(pool::cores).max(1);
    let step = ui.step("asking the models of the paper's schedulers");
    let effort = Effort { depth: Depth::Full, seed: args.seed, jobs };
    let pages =
        reproduced::pages(effort, |name| step.now(format!("asking {name}"))).map_err(Failure::input)?;
    drop(step);
    let mut summary = pages.remarks.iter().map(|remark| format!("{remark}\n\n")).collect::<String>();
    for table in pages.tables.iter().filter(|table| ["table1", "figure-8"].contains(&table.name.as_str())) {
        summary += &format!("{}\n{}\n", table.title, table.to_text());
    }
    args.output.deliver(&pages, &summary, ui)
}
