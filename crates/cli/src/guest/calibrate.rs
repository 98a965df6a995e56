//! `schedlab guest calibrate`: what does kernel code cost? Measured on real Linux in a guest, written as a
//! file for `run --costs`.
//!
//! A guest's task knows how much it has computed itself; the trace knows its CPU time. The difference is the
//! kernel's work in the task's context. Over workloads that do different things in different numbers, the
//! least squares with costs >= 0 tell what each costs:
//!
//! ```text
//!   fairbench      5,000 ticks    5,000 switches      0 wakeups of tasks     0 sleeps    30 ms of kernel work
//!   ping-pong      2,500          7,000           3,500                  3,500          110 ms
//! ```

use super::{KernelArgs, failure, stages};
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::Args;
use schedlab_instruments::summarize;
use schedlab_log::Kind;
use schedlab_real::{Arm, Options, RealRun, workloads};
use schedlab_units::Span;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Length of each run.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub duration: Span,
    /// Write the costs; without, they are printed only.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Workloads in which ticks, switches, wakeups and sleeps come in different proportions. All on one CPU.
const WORKLOADS: [&str; 7] = [
    "fairbench",
    "responsebench",
    "hogs:0,5,-5,10",
    "sleepers:8,3ms,7ms",
    "ping-pong",
    "hackbench",
    "yielders",
];

/// What is fitted, in the order of [`Row::counts`].
const NAMES: [&str; 4] = ["tick", "switch", "wakeup", "block"];

/// A run: how often what happened, and what it cost together.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    counts: [f64; 4],
    kernel_ns: f64,
}

pub(crate) fn calibrate(args: &CalibrateArgs, ui: &Ui) -> Result<()> {
    let kernel = args.kernel.find("guest calibrate")?;
    let options = Options { duration: args.duration, ..Options::default() };
    let mut rows = Vec::new();
    let mut source = String::new();
    for name in WORKLOADS {
        let workload = workloads::named(name, args.duration).map_err(failure)?;
        let what = format!("guest {}, {name}", kernel.package);
        let guest = Arm::Guest(kernel.clone())
            .perform(&workload, &options, &mut stages(ui, &what))
            .map_err(failure)?;
        rows.push(row(name, &guest, options.shift)?);
        source = format!("{} {}, {}", guest.report.package, guest.report.package_version, guest.report.qemu);
    }
    let costs_ns = fit(&rows);
    let text = to_toml(&rows, costs_ns, &source);
    match &args.output {
        Some(path) => {
            crate::output::text(path, &text)?;
            print!("{}", to_text(&rows, costs_ns));
            ui.say(format!("wrote {}; use it: schedlab run W --costs {}", path.display(), path.display()));
        }
        None => print!("{}\n{text}", to_text(&rows, costs_ns)),
    }
    Ok(())
}

fn row(name: &str, guest: &RealRun, shift: u32) -> Result<Row> {
    let summary = summarize(&guest.log).map_err(|error| Failure::Internal(error.to_string()))?;
    let cpu_ns: u64 = summary.tasks.iter().map(|task| task.cpu_ns).sum();
    let computed_ns: u64 = guest.report.instructions.iter().map(|count| count << shift).sum();
    let switches: u64 =
        summary.tasks.iter().map(|task| task.switches_voluntary + task.switches_involuntary).sum();
    let blocks: u64 = summary.tasks.iter().map(|task| task.switches_voluntary).sum();
    let wakings = |by_interrupt: bool| {
        let records = guest.log.records.iter().filter(|record| record.kind() == Some(Kind::Waking));
        let of_it = records.filter(|record| {
            (record.flags & 1 != 0) == by_interrupt
                && record.task().is_workload()
                && (by_interrupt || record.other().is_workload())
        });
        of_it.count() as f64
    };
    let ticks = cpu_ns as f64 * f64::from(guest.log.header.hz) / 1e9;
    Ok(Row {
        name: name.to_string(),
        counts: [ticks + wakings(true), switches as f64, wakings(false), blocks as f64],
        kernel_ns: cpu_ns.saturating_sub(computed_ns) as f64,
    })
}

/// Costs >= 0 that explain the rows best in the sense of relative squares: coordinate descent, which
/// converges for such a small convex problem.
fn fit(rows: &[Row]) -> [f64; 4] {
    let mut costs = [0.0; 4];
    for _ in 0..20_000 {
        for place in 0..costs.len() {
            let (mut with, mut square) = (0.0, 0.0);
            for row in rows.iter().filter(|row| row.kernel_ns > 0.0) {
                let others: f64 =
                    (0..costs.len()).filter(|p| *p != place).map(|p| costs[p] * row.counts[p]).sum();
                let scaled = row.counts[place] / row.kernel_ns;
                with += scaled * (1.0 - others / row.kernel_ns);
                square += scaled * scaled;
            }
            costs[place] = if square > 0.0 { f64::max(with / square, 0.0) } else { 0.0 };
        }
    }
    costs
}

fn explained(row: &Row, costs_ns: [f64; 4]) -> f64 {
    row.counts.iter().zip(costs_ns).map(|(count, cost)| count * cost).sum()
}

fn to_text(rows: &[Row], costs_ns: [f64; 4]) -> String {
    let mut text = format!(
        "{:<20} {:>8} {:>9} {:>8} {:>8} {:>14} {:>13}\n",
        "workload", "ticks", "switches", "wakeups", "sleeps", "kernel work ms", "explained ms"
    );
    for row in rows {
        let [ticks, switches, wakeups, blocks] = row.counts;
        text += &format!(
            "{:<20} {ticks:>8.0} {switches:>9.0} {wakeups:>8.0} {blocks:>8.0} {:>14.2} {:>13.2}\n",
            row.name,
            row.kernel_ns / 1e6,
            explained(row, costs_ns) / 1e6
        );
    }
    for (name, ns) in NAMES.iter().zip(costs_ns) {
        text += &format!("{name:<8} {ns:>7.0} ns\n");
    }
    text
}

fn to_toml(rows: &[Row], costs_ns: [f64; 4], source: &str) -> String {
    let mut text = String::from(
        "# What kernel code costs, by `schedlab guest calibrate`. A clock that counts instructions: sizes are made \
            up, orders hold.\n",
    );
    for (name, ns) in NAMES.iter().zip(costs_ns) {
        text += &format!("{name} = \"{ns:.0}ns\"\n");
    }
    text += &format!("total = \"kept\"\n\n[measured]\non = {source:?}\n");
    for row in rows {
        text += &format!(
            "{:?} = {{ kernel_us = {:.0}, explained_us = {:.0} }}\n",
            row.name,
            row.kernel_ns / 1e3,
            explained(row, costs_ns) / 1e3
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Costs that were put in come out, and one that would be negative is zero.
    #[test]
    fn costs_are_recovered() {
        let counts = [
            [5000.0, 5000.0, 0.0, 0.0],
            [2500.0, 7000.0, 3500.0, 3500.0],
            [2500.0, 2600.0, 0.0, 900.0],
            [2500.0, 9000.0, 100.0, 200.0],
        ];
        let true_ns = [4000.0, 1500.0, 2500.0, 0.0];
        let rows: Vec<Row> = counts
            .map(|counts| {
                let kernel_ns = (0..4).map(|p| counts[p] * true_ns[p]).sum();
                Row { name: "x".into(), counts, kernel_ns }
            })
            .to_vec();
        for (found, wanted) in fit(&rows).into_iter().zip(true_ns) {
            assert!((found - wanted).abs() < 20.0, "{found} for {wanted}");
        }
    }
}
