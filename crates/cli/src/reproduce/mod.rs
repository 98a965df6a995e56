//! `schedlab reproduce PAPER`: every table and figure of a paper, beside the published value. One file per paper.

mod harmony;
mod history;
mod hourglass;
mod practise;
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
    /// Meehean and others: Harmony, uncovering CPU load balancing policies.
    Harmony(harmony::ReproduceHarmonyArgs),
    /// Linux 2.4, O(1), EBS, BFS, CFS as WARP and Harmony measured them, and real 6.1 and 6.12: every number
    /// beside the native model's.
    History(history::HistoryArgs),
    /// Regehr: Inferring Scheduling Behavior with Hourglass (FREENIX 2002), slides 8, 9, 17, 18, beside this machine.
    Hourglass(hourglass::ReproduceHourglassArgs),
    /// Falzoi, Lelli, Lipari: PRAcTISE (OSPERT 2012): costs of cpupri and cpudl in the port and under threads.
    Practise(practise::PractiseArgs),
}

pub(crate) fn reproduce(command: &ReproduceCommand, ui: &Ui) -> Result<()> {
    match command {
        ReproduceCommand::Vtrr(args) => vtrr::vtrr(args, ui),
        ReproduceCommand::Warp(args) => warp::warp(args, ui),
        ReproduceCommand::Harmony(args) => harmony::harmony(args, ui),
        ReproduceCommand::History(args) => history::history(args, ui),
        ReproduceCommand::Hourglass(args) => hourglass::hourglass(args, ui),
        ReproduceCommand::Practise(args) => practise::practise(args, ui),
    }
}
