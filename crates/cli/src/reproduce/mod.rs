//! `schedlab reproduce PAPER`: every table and figure of a paper, beside the published value. One file per paper.

mod vtrr;
mod warp;

use crate::failure::Result;
use crate::ui::Ui;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum ReproduceCommand {
    /// Nieh, Vaill, Zhong: Virtual-Time Round-Robin (USENIX ATC 2001).
    Vtrr(vtrr::VtrrArgs),
    /// Zheng, Nieh: WARP, enabling fast CPU scheduler development and evaluation.
    Warp(warp::WarpArgs),
}

pub(crate) fn reproduce(command: &ReproduceCommand, ui: &Ui) -> Result<()> {
    match command {
        ReproduceCommand::Vtrr(args) => vtrr::vtrr(args, ui),
        ReproduceCommand::Warp(args) => warp::warp(args, ui),
    }
}
