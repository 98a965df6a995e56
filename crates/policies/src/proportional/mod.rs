//! Who gets which share of the CPU? What the proportional share schedulers have in common.
//!
//! A client with share S, of T in all, is due S/T of the CPU. Each scheduler is a [`Discipline`]: one queue
//! of clients with shares, one decision at a time. [`Proportional`] makes it a [`Policy`], and [`quantum`]
//! serves a set of clients quantum by quantum without a machine, for studies of millions of decisions. Both
//! run the same code of the discipline.
//!
//! Three clients with shares 3, 2, 1 (A, B, C), one cycle of six quanta:
//!
//! ```text
//! wrr, drr                 A A A B B C     big bursts
//! wfq, stride              A B A A B C     least virtual finishing time
//! vtrr, sfq                A B C A B A
//! wf2q, eevdf-1995         A B A B A C     least finishing time among those not ahead
//! ```
//!
//! *Shares*: the nice weight by default (nice 0 = 1024), or a list by task id (`--param shares=3,2,1`; the
//! last number stands for all further tasks).
//!
//! *Several CPUs*: all of these were invented for one. Here one queue serves all CPUs (as FIFO's does): a CPU
//! that becomes free asks for the best client that is not in service and may run there. A client with more
//! than 1/CPUs of all shares cannot use what it is due; it falls behind for ever, which is the
//! infeasible-weight problem of the literature and not corrected here.
//!
//! *Virtual time* advances when service is charged: at the end of a quantum, or when a client blocks within
//! one. A client that joins in the middle of another's quantum finds the time of its beginning, as in VTRR's
//! paper.
//!
//! *Wakeups* do not preempt: the quantum in progress ends first, as in the papers.
//!
//! *Exactness*: virtual times are fixed-point numbers with 64 fractional bits that keep their remainders
//! ([`Clock`]): no drift, and comparisons equal those of exact rationals as long as the product of two shares
//! is below 2^64 and no one joins or leaves. A join rounds once, by 2^-64 of a unit of service per share.
//! *Bound*: 2^62 units of service at share 1; in ns, 146 years.

mod clock;
mod heap;
mod policy;
pub mod quantum;
mod shares;

pub use clock::{Clock, Virtual};
pub use heap::{Heap, Key, List, MinQueue};
pub use policy::Proportional;
pub use shares::{ParseSharesError, Shares};

use schedlab_units::TaskId;

/// Whether a client may be served by the CPU that asks.
pub type May<'a> = &'a dyn Fn(TaskId) -> bool;

/// One queue of clients that share a resource in proportion to their shares.
///
/// A client is absent, waiting or in service. Service is counted in the unit of the quantum given at
/// construction (ns for a policy, quanta for a study).
///
/// ```text
///   absent ──join──> waiting ──select──> in service ──charge──> in service ──put──> waiting
///      ^                │                                            │
///      └─────leave──────┴──────────────────leave─────────────────────┘
/// ```
pub trait Discipline {
    /// The client becomes runnable; it is absent now. `share` > 0.
    fn join(&mut self, client: TaskId, share: u64);

    /// The client, waiting or in service, stops being runnable.
    fn leave(&mut self, client: TaskId);

    /// Chooses a waiting client among those that `may` be served; it is in service from here on.
    fn select(&mut self, may: May<'_>) -> Option<TaskId>;

    /// The client in service has been served for `used`. Called once after each `select`, before `put` or `leave`.
    fn charge(&mut self, client: TaskId, used: u64);

    /// The client in service waits again: its quantum is over, or it gave it up.
    fn put(&mut self, client: TaskId);

    /// The share of a client in service changes. (A waiting one leaves and joins; an absent one joins with
    /// the new share.)
    fn set_share(&mut self, client: TaskId, share: u64);

    /// How long the client, just selected, may be served before the next decision; more than 0.
    fn slice(&self, client: TaskId) -> u64;
}

/// A table with a row per client that grows as clients appear.
#[inline]
pub(crate) fn row<T: Clone>(table: &mut Vec<T>, client: TaskId, empty: &T) -> usize {
    let index = client.index();
    if table.len() <= index {
        table.resize((index + 1).next_power_of_two().max(16), empty.clone());
    }
    index
}
