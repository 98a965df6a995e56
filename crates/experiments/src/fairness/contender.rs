//! The proportional share schedulers that a study can compare, one quantum being one unit of service.
//!
//! Clients are numbered in the order in which their shares are drawn, not by share: numbers decide who is
//! where in a round, and ties. That matters: WFQ's highest errors are 1.75 tu on average with ties in random
//! order and 1.9 with ties to the larger share (S = 2,048, N 4 to 128). VTRR and SFQ break ties by share
//! themselves.

use schedlab_policies::proportional::Discipline;
use schedlab_policies::{Drr, Eevdf1995, Insert, Lottery, Reset, Sfq, Stride, Vtrr, Wf2q, Wfq, WfqList, Wrr};

/// A scheduler in a study. The code that decides is the same as that of the policy of this name.
#[derive(Clone, Copy)]
pub struct Contender {
    /// Name, as `--sched` takes it.
    pub name: &'static str,
    /// A fresh one for this many clients; the seed is for those that draw.
    pub make: fn(nr_clients: usize, seed: u64) -> Box<dyn Discipline>,
    /// Whether its schedule repeats after as many quanta as there are shares, with exact shares then.
    pub repeats: bool,
}

impl std::fmt::Debug for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All of them.
pub const CONTENDERS: &[Contender] = &[
    Contender { name: "wrr", make: |_, _| Box::new(Wrr::new(1, 1)), repeats: true },
    Contender { name: "drr", make: |_, _| Box::new(Drr::new(1, 1, 1)), repeats: true },
    Contender { name: "wfq", make: |_, _| Box::new(Wfq::new(1)), repeats: true },
    Contender { name: "wfq-list", make: |_, _| Box::new(WfqList::new(1)), repeats: true },
    Contender { name: "stride", make: |_, _| Box::new(Stride::new(1)), repeats: true },
    Contender { name: "sfq", make: |_, _| Box::new(Sfq::new(1)), repeats: true },
    Contender { name: "wf2q", make: |_, _| Box::new(Wf2q::new(1)), repeats: true },
    Contender { name: "eevdf-1995", make: |_, _| Box::new(Eevdf1995::new(1)), repeats: true },
    Contender {
        name: "vtrr",
        make: |_, _| Box::new(Vtrr::new(1, Insert::List, Reset::Incremental)),
        repeats: true,
    },
    Contender { name: "lottery", make: |_, seed| Box::new(Lottery::new(1, seed)), repeats: false },
];

/// The contender of this name.
pub fn find(name: &str) -> Option<&'static Contender> {
    CONTENDERS.iter().find(|contender| contender.name == name)
}
