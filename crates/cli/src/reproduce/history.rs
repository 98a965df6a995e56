//! The numbers that papers print of old Linux schedulers.

use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::history;

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn history(args: &HistoryArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let step = ui.step("running the experiments of the papers");
    let pages = history::pages().map_err(Failure::input)?;
    drop(step);
    let mut summary = pages.remarks.iter().map(|remark| format!("{remark}\n\n")).collect::<String>();
    for table in &pages.tables {
        summary += &format!("{}\n{}\n", table.title, table.to_text());
    }
    args.output.deliver(&pages, &summary, ui)
}
