//! `schedlab fairness dynamic`: clients that sleep, join, leave and change their shares.

use super::args::PROPORTIONAL;
use super::executions;
use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::fairness::dynamic::{DynamicConfig, Happening, Script, follow, simulate};
use schedlab_experiments::fairness::{Contender, Execution, ShareForm};
use schedlab_lab::SubjectList;
use schedlab_units::Span;

/// Service time error when clients sleep, join, leave and change their shares. With --shares and --event one
/// case that is written down; without, clients drawn at random.
#[derive(Args, Debug)]
pub(crate) struct DynamicArgs {
    /// Schedulers, NAME or NAME:K=V. With one that runs in the machine (linux-6.12, eevdf, ...) shares are
    /// weights of nice values.
    #[arg(long, value_name = "NAMES", default_value = PROPORTIONAL)]
    pub sched: Vec<SubjectList>,
    /// Shares of clients A, B, C, ...: a case that is written down.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub shares: Vec<u64>,
    /// What happens: 6:B:sleep, 12:B:wake, 4:D:join, 9:C:leave, 5:A:share=7 (time in quanta; who joins first
    /// was absent).
    #[arg(long, value_name = "T:CLIENT:ACTION", value_delimiter = ',', requires = "shares")]
    pub event: Vec<Happening>,
    /// Length, in quanta; 50,000 of a drawn case, 60 of one that is written down.
    #[arg(long, value_name = "N")]
    pub quanta: Option<u64>,
    /// Number of drawn clients.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: u32,
    /// Sum of their shares at the start.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub total: u64,
    /// Their mean work between sleeps, in quanta of CPU time; 0 = they never sleep.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub work: u64,
    /// Their mean sleep, in quanta.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub sleep: u64,
    /// Mean time between share changes of one client, in quanta; 0 = never.
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub change: u64,
    /// Draw weights of nice values instead of shares, as is done anyway if a scheduler runs in the machine.
    #[arg(long)]
    pub nice_weights: bool,
    /// A quantum, in the machine.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub quantum: Span,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Timer ticks per second of real Linux.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn dynamic(args: &DynamicArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let (mut contenders, mut machine): (Vec<&'static Contender>, Vec<Execution>) = (Vec::new(), Vec::new());
    for execution in executions(&args.sched, args.hz, &[ShareForm::Nice], ui)? {
        match execution {
            Execution::Quanta(contender) => contenders.push(contender),
            execution => machine.push(execution),
        }
    }
    let result = if args.shares.is_empty() {
        if args.quantum.as_ns() < 1_000 || args.quantum > Span::from_s(10) {
            return Err(Failure::Input(format!("--quantum {}: expected 1us to 10s", args.quantum)));
        }
        let config = DynamicConfig {
            contenders,
            nice_weights: args.nice_weights || !machine.is_empty(),
            machine,
            unit: args.quantum,
            nr_clients: args.clients,
            total: args.total,
            quanta: args.quanta.unwrap_or(50_000),
            work_quanta: args.work,
            sleep_quanta: args.sleep,
            change_quanta: args.change,
            seed: args.seed,
        };
        let _step = ui.step("serving clients that come and go");
        simulate(&config)?
    } else {
        if let Some(execution) = machine.first() {
            return Err(Failure::Input(format!(
                "{}: a case that is written down takes clients off the CPU at given times, which a task in the \
                 machine does only by itself; leave out --shares, or take a proportional share scheduler with its \
                 default parameters",
                execution.label()
            )));
        }
        let quanta = args.quanta.unwrap_or(60);
        if args.shares.len() > 26
            || args.shares.iter().any(|share| !(1..=1 << 30).contains(share))
            || quanta == 0
        {
            return Err(Failure::Input(
                "--shares: give up to 26 shares from 1 to 2^30, and at least one quantum".into(),
            ));
        }
        let script =
            Script { shares: args.shares.clone(), happenings: args.event.clone(), quanta, seed: args.seed };
        follow(&contenders, &script).map_err(Failure::input)?
    };
    args.output.deliver(&result.pages(), &result.summary(), ui)
}
