//! Which native schedulers are there, and with which parameters?
//!
//! Each scheduler is a folder of the same shape: an essay (what it is, where it is from, what differs), its state, its
//! implementation, drawn tests. [`registry`] lists them; names are what `--sched` takes.

mod cfs;
mod ebs;
mod eevdf;
mod fifo;
mod goodness;
mod kit;
pub mod lab;
mod o1;
mod queue;
mod registry;
mod rr;
#[cfg(test)]
mod testing;

pub use cfs::{Cfs, CfsParams, CfsVersion};
pub use ebs::{Ebs, EbsParams};
pub use eevdf::{Eevdf, EevdfParams};
pub use fifo::Fifo;
pub use goodness::{Goodness, Version as GoodnessVersion};
pub use o1::{O1, Version as O1Version};
pub use registry::{ParamInfo, Params, PolicyError, PolicyInfo, find, registry};
pub use rr::RoundRobin;
