//! Which native schedulers are there, and with which parameters?
//!
//! Each scheduler is a folder of the same shape: an essay (what it is, where it is from, what differs), its state, its
//! implementation, drawn tests. [`registry`] lists them; names are what `--sched` takes.

mod bfs;
pub mod broken;
mod cbs;
mod cfs;
mod drr;
mod ebs;
mod edf;
mod eevdf;
mod eevdf_1995;
mod fifo;
mod goodness;
mod kit;
pub mod lab;
mod lottery;
mod mlfq;
mod o1;
mod posix;
pub mod proportional;
mod queue;
mod registry;
mod rm;
mod rr;
mod sfq;
mod stack;
mod stride;
#[cfg(test)]
mod testing;
mod ule;
mod vtrr;
mod wf2q;
mod wfq;
mod wrr;

pub use bfs::{Affinity, Bfs, BfsParams};
pub use cbs::{Cbs, CbsParams, Exhaustion};
pub use cfs::{Cfs, CfsParams, CfsVersion, Tunable};
pub use drr::Drr;
pub use ebs::{Ebs, EbsParams};
pub use edf::{JobOrder, Jobs, Placement};
pub use eevdf::{Eevdf, EevdfParams};
pub use eevdf_1995::Eevdf1995;
pub use fifo::Fifo;
pub use goodness::{Goodness, Version as GoodnessVersion};
pub use lottery::Lottery;
pub use mlfq::Mlfq;
pub use o1::{O1, Version as O1Version};
pub use posix::Posix;
pub use registry::{
    ExtendError, ParamInfo, Params, PolicyError, PolicyInfo, extend, find, is_extra, registry,
};
pub use rr::RoundRobin;
pub use sfq::Sfq;
pub use stack::Stack;
pub use stride::Stride;
pub use ule::{Ule, UleParams};
pub use vtrr::{Insert, Reset, Vtrr};
pub use wf2q::Wf2q;
pub use wfq::{FairQueue, Wfq, WfqList};
pub use wrr::Wrr;
