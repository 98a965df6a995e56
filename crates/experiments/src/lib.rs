//! Which questions need many runs? Studies over scheduler, workload and machine, each with tables and
//! drawings as its result.
//!
//! * [`agreement`]: how far do native models of Linux's fair classes agree with the real kernel, decision for decision?
//! * [`arm`]: clients that always want the CPU, under any scheduler: who ran when.
//! * [`fairness`]: how far from its due does each client get, under any proportional share scheduler, for any shares?
//! * [`cost`]: what does a decision cost, against the number of clients?
//! * [`dependencies`]: what honouring a recording's dependencies does to replayed latencies.
//! * [`history`]: what papers print of old schedulers, beside what their native models do.
//! * [`schedulability`]: which random sets of periodic tasks does a real-time scheduler serve in time, and
//!   does theory hold?
//! * [`vtrr`]: every table and figure of the paper on virtual-time round robin, beside the published values.
//! * [`warp`]: every figure of the evaluation in the paper on WARP.
//!
//! A study is a pure function of its configuration: the seed decides, not the number of threads. (Host time
//! in [`cost`] excepted.)

pub mod agreement;
pub mod arm;
pub mod cost;
pub mod dependencies;
pub mod fairness;
pub mod history;
pub mod schedulability;
#[cfg(test)]
mod spoilt;
pub mod vtrr;
pub mod warp;
