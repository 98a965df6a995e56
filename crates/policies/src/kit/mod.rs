//! What several schedulers are built from: a table with a row per task, lists of tasks, arrays of priority
//! lists, a tree ordered by deadline, decay, the clock of a run queue, and balancing over scheduling domains. Nothing
//! here decides who runs.

pub(crate) mod balance;
pub(crate) mod deadline_tree;
pub(crate) mod decay;
pub(crate) mod domains;
pub(crate) mod jobs;
pub(crate) mod keyed;
pub(crate) mod lists;
pub(crate) mod prio;
pub(crate) mod rate;
pub(crate) mod requests;
pub(crate) mod run_clock;
pub(crate) mod table;
pub(crate) mod wake;

#[cfg(test)]
mod tests;
