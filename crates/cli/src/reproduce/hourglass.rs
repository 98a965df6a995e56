//! Hourglass's slides, beside this machine.

use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_hourglass::reproduced;
use schedlab_units::Span;

#[derive(Args, Debug)]
pub(crate) struct ReproduceHourglassArgs {
    /// Length of each of the seven runs; 20s on the slides.
    #[arg(short, long, value_name = "TIME", default_value = "20s")]
    pub duration: Span,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn hourglass(args: &ReproduceHourglassArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let step = ui.step("measuring this machine");
    let pages = reproduced(args.duration, &|what| step.now(what.to_string())).map_err(Failure::input)?;
    drop(step);
    let mut summary = pages.remarks.iter().map(|remark| format!("{remark}\n")).collect::<String>();
    for table in &pages.tables {
        summary += &format!("\n{}\n{}", table.title, table.to_text());
    }
    args.output.deliver(&pages, &summary, ui)
}
