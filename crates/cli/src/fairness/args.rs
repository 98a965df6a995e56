//! What can be asked of `schedlab fairness`.

use super::cost::CostArgs;
use super::dynamic::DynamicArgs;
use crate::pages::OutputArgs;
use clap::{Args, Subcommand};
use schedlab_experiments::fairness::{ShareForm, Spread};
use schedlab_lab::SubjectList;
use schedlab_units::{Nice, Span};

/// What is compared unless something else is asked for: the schedulers that serve shares.
pub(super) const PROPORTIONAL: &str = "wrr,drr,wfq,stride,sfq,wf2q,eevdf-1995,vtrr,lottery";

/// Service time error: service received less service due.
///
/// With --shares (or --nice) one set of shares is served under each scheduler: order, errors, who ran when.
/// Without, shares are drawn at random at each pair of a number of clients and a sum of shares, as in the
/// study of the paper on VTRR.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct FairnessArgs {
    #[command(subcommand)]
    pub command: Option<FairnessCommand>,
    #[command(flatten)]
    pub study: StudyArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum FairnessCommand {
    /// Clients that sleep, join, leave and change their shares during the run.
    Dynamic(DynamicArgs),
    /// What select, enqueue and dequeue cost, in ns and instructions, against the number of clients.
    Cost(CostArgs),
}

#[derive(Args, Debug)]
pub(crate) struct StudyArgs {
    /// Schedulers, NAME or NAME:K=V: the proportional share schedulers go quantum by quantum, all others
    /// (linux-6.12, eevdf, ...) run in the full machine on one CPU.
    #[arg(long, value_name = "NAMES", default_value = PROPORTIONAL)]
    pub sched: Vec<SubjectList>,
    /// Serve this set of shares: 3,2,1.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "nice")]
    pub shares: Vec<u64>,
    /// Serve the shares that are the weights of these nice values: 0,5,-5. All schedulers take these exactly.
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub nice: Vec<Nice>,
    /// Numbers of clients of the drawn sets.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4,8,16,32,64,128")]
    pub clients: Vec<u32>,
    /// Sums of the drawn shares.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "256,512,1024,1536,2048")]
    pub total: Vec<u64>,
    /// How shares are spread: uniform, exponential, zipf, one-large, equal.
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    pub distribution: Spread,
    /// Random sets of shares at each point.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub combinations: u32,
    /// How many of them schedulers in the machine serve: they are some hundred times slower.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub machine_combinations: u32,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A time unit (tu): one quantum.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub quantum: Span,
    /// How many quanta a given set is served for; whole cycles, at least 1,000 quanta, if left out.
    #[arg(long, value_name = "N")]
    pub quanta: Option<u64>,
    /// How real Linux gets shares: weight (cpu.weight of a control group per client), nice, or both.
    #[arg(long, value_name = "HOW", default_value = "both", value_parser = ["weight", "nice", "both"])]
    pub express: String,
    /// Timer ticks per second of real Linux.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// Worker threads; the result does not depend on them. All cores if left out.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl StudyArgs {
    /// What real Linux gets.
    pub(crate) fn share_forms(&self) -> &'static [ShareForm] {
        match self.express.as_str() {
            "weight" => &[ShareForm::GroupWeight],
            "nice" => &[ShareForm::Nice],
            _ => &[ShareForm::Nice, ShareForm::GroupWeight],
        }
    }
}
